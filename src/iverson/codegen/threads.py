"""Running ranges of iterations on a pool of threads; compiled code releases the GIL while it runs.

The calling thread takes part, so that a call works, only slower, when the pool is busy or cannot start.
Ranges are handed out as threads become free.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

#: ``function(first, last, arguments)``: iterations first to last, with the address of the arguments.
Function = Callable[[int, int, int], None]

_pool: list[ThreadPoolExecutor] = []


def available() -> int:
    """How many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _executor() -> ThreadPoolExecutor:
    if not _pool:
        _pool.append(ThreadPoolExecutor(max(1, available() - 1), thread_name_prefix="iverson"))
    return _pool[0]


if hasattr(os, "register_at_fork"):
    # The threads do not survive in a child process; it makes its own.
    os.register_at_fork(after_in_child=_pool.clear)


def run(function: Function, total: int, arguments: tuple[int, ...], chunks_each: int = 4) -> None:
    """Iterations 0 to ``total``, one thread for each entry of ``arguments`` (its own arguments)."""
    if len(arguments) == 1 or total <= 1:
        function(0, total, arguments[0])
        return
    count = min(total, len(arguments) * chunks_each)
    edges = [total * k // count for k in range(count + 1)]
    turns = itertools.count()

    def work(own: int) -> None:
        while (k := next(turns)) < count:
            function(edges[k], edges[k + 1], own)

    waiting: list[Future[None]] = [_executor().submit(work, own) for own in arguments[1:]]
    work(arguments[0])
    for future in waiting:
        # One that has not begun has nothing left to do.
        if not future.cancel():
            future.result()
