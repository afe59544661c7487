"""Single-threaded BLAS: an OpenBLAS is kept on the thread that calls it.

Its own threads spin for milliseconds, and the call waits for them. SciPy's and NumPy's OpenBLAS are separate
libraries, each with its own number of threads.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from types import ModuleType

from iverson.core.python import locks


class OneThread:
    """A context in which a BLAS runs on the thread that calls it, in whichever threads.

    The last of those that are in it puts back what was set before the first.
    """

    def __init__(self, get: Callable[[], int], put: Callable[[int], object]) -> None:
        self._get, self._put = get, put
        self._lock = locks.lock()
        self._inside = self._before = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = self._get()
                self._put(1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._put(self._before)

    def forget(self) -> None:
        """Restore the number of threads in a child process, where no other thread would restore it."""
        if self._inside:
            self._inside = 0
            self._put(self._before)


def one_thread(module: ModuleType) -> OneThread | None:
    """Context in which a module's OpenBLAS runs on one thread; None if the module has another BLAS."""
    try:
        library = ctypes.PyDLL(module.__file__)
    except OSError:
        return None
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("", "64_"):
            get_threads, set_threads = (
                getattr(library, f"{prefix}_{x}_num_threads{suffix}", None) for x in ("get", "set")
            )
            if get_threads is not None and set_threads is not None:
                context = OneThread(get_threads, set_threads)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=context.forget)
                return context
    return None
