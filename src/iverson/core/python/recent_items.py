"""Dictionaries that keep the items used last."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentItems(OrderedDict[K, V]):
    """Dictionary of at most ``size`` items: those that were found or kept last.

    Each operation is whole while other threads work on the same dictionary; of two threads that make the
    value of a key, one makes it in vain.

    >>> squares = RecentItems(2)
    >>> squares.keep(2, 4), squares.keep(3, 9), squares.find(2), squares.keep(4, 16)
    (4, 9, 4, 16)
    >>> list(squares), squares.find(3)
    ([2, 4], None)
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def find(self, key: K) -> V | None:
        """Value of a key, which is then the one used last; None for a key that is not there."""
        value = self.get(key)
        if value is not None:
            with suppress(KeyError):  # another thread has dropped it
                self.move_to_end(key)
        return value

    def keep(self, key: K, value: V) -> V:
        """Store the value of a key, drop what was used least recently, and return the value."""
        self[key] = value
        with suppress(KeyError):
            self.move_to_end(key)
            while len(self) > self.size:
                self.popitem(last=False)
        return value


__all__ = ["RecentItems"]
