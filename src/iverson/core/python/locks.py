"""Locks that a forked child finds free: a thread that held one in the parent cannot release it in the child.

Every lock of the library is made here: a child process may be started while any thread holds one.
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

_guarding_python: WeakSet[Any] = WeakSet()
_guarding_libraries: list[Any] = []


def lock() -> Any:
    """A lock for Python's own objects, which are whole whenever a fork is possible."""
    mutex = threading.Lock()
    _guarding_python.add(mutex)
    return mutex


def reentrant_lock() -> Any:
    """A lock like that of `lock` that one thread may take several times."""
    mutex = threading.RLock()
    _guarding_python.add(mutex)
    return mutex


def library_lock() -> Any:
    """A reentrant lock for the state of a C library, made once for a module.

    A fork waits until no other thread holds the lock: in the child, no thread would finish the other's work.
    """
    mutex = threading.RLock()
    _guarding_libraries.append(mutex)
    return mutex


def _before_fork() -> None:
    for mutex in _guarding_libraries:
        mutex.acquire()


def _after_fork() -> None:
    for mutex in reversed(_guarding_libraries):
        mutex.release()


def _in_child() -> None:
    for mutex in _guarding_python:
        mutex._at_fork_reinit()  # as in the standard library's logging and concurrent.futures
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
