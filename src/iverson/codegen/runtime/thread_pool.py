"""Thread pool: runs ranges of iterations; compiled code releases the GIL while it runs.

The calling thread takes part, so that a call works, only slower, when the pool is busy or cannot start.
Ranges are handed out as threads become free.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

#: ``function(first, last, arguments)``: iterations first to last, with the address of the arguments.
Function = Callable[[int, int, int], None]

_pool: list[ThreadPoolExecutor] = []
_workers: dict[int, int] = {}  # native thread id -> the processor it was last told to leave free


def available() -> int:
    """Number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _executor() -> ThreadPoolExecutor:
    if not _pool:
        count = max(1, available() - 1)
        _pool.append(ThreadPoolExecutor(count, "iverson", initializer=_enlist))
    return _pool[0]


def _enlist() -> None:
    _workers[threading.get_native_id()] = -1


def _make_room() -> None:
    """Keep the workers off the caller's processor.

    Linux likes to wake a thread where its waker runs, and moves it only milliseconds later: longer than
    most kernels take.
    """
    if _current_processor is None:
        return
    here = _current_processor()
    for worker, avoided in list(_workers.items()):
        if avoided != here:
            processors = os.sched_getaffinity(0) - {here}
            with contextlib.suppress(OSError, ValueError):
                os.sched_setaffinity(worker, processors)
            _workers[worker] = here


def _processor_number() -> Callable[[], int] | None:
    try:
        function = ctypes.CDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None
    return function if hasattr(os, "sched_setaffinity") else None


_current_processor = _processor_number()


def _forget() -> None:
    _pool.clear()
    _workers.clear()


if hasattr(os, "register_at_fork"):
    # The threads do not survive in a child process; it makes its own.
    os.register_at_fork(after_in_child=_forget)


#: A range of iterations, first to last, and the address of its arguments.
Share = tuple[int, int, int]


def shares(total: int, arguments: int, threads: int, each: int = 4) -> list[Share]:
    """Iterations 0 to ``total - 1`` in ranges, at most ``each`` for each thread.

    arguments : address of the arguments, which each range has.
    """
    count = min(total, threads * each) if threads > 1 else 1
    edges = [total * k // count for k in range(count + 1)]
    return [(first, last, arguments) for first, last in itertools.pairwise(edges)]


def run(function: Function, work: Sequence[Share], threads: int) -> None:
    """Call ``function`` for each range of iterations, on at most ``threads`` threads, and wait for all."""
    if threads <= 1 or len(work) <= 1:
        for share in work:
            function(*share)
        return
    turns = itertools.count()

    def take_turns() -> None:
        while (k := next(turns)) < len(work):
            function(*work[k])

    _make_room()
    helpers = min(threads, len(work)) - 1
    waiting: list[Future[None]] = [_executor().submit(take_turns) for _ in range(helpers)]
    take_turns()
    for future in waiting:
        # One that has not begun has nothing left to do.
        if not future.cancel():
            future.result()
