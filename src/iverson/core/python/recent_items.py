"""Dictionaries that keep the items used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentItems(OrderedDict[K, V]):
    """Dictionary of at most ``size`` items: those that were found or kept last.

    weigh, limit : function that gives the weight of a value, and the greatest weight of all values together.

    Each operation is whole while other threads work on the same dictionary; of two threads that make the
    value of a key, one makes it in vain.

    >>> squares = RecentItems(2)
    >>> squares.keep(2, 4), squares.keep(3, 9), squares.find(2), squares.keep(4, 16)
    (4, 9, 4, 16)
    >>> list(squares), squares.find(3)
    ([2, 4], None)
    >>> words = RecentItems(9, len, 5)
    >>> words.keep("a", "one"), words.keep("b", "to"), words.keep("c", "for"), list(words)
    ('one', 'to', 'for', ['b', 'c'])
    >>> words.keep("d", "longer"), list(words)
    ('longer', ['b', 'c'])
    """

    def __init__(self, size: int, weigh: Callable[[V], float] | None = None, limit: float = inf) -> None:
        super().__init__()
        self.size, self.weigh, self.limit = size, weigh, limit

    def find(self, key: K) -> V | None:
        """Value of a key, which is then the one used last; None for a key that is not there."""
        value = self.get(key)
        if value is not None:
            with suppress(KeyError):  # another thread has dropped it
                self.move_to_end(key)
        return value

    def keep(self, key: K, value: V) -> V:
        """Store the value of a key, drop what was used least recently, and return the value.

        A value that is too heavy alone is not stored.
        """
        if self.weigh is not None and self.weigh(value) > self.limit:
            return value
        self[key] = value
        with suppress(KeyError, RuntimeError):  # another thread has changed it, and drops what is too much
            self.move_to_end(key)
            while len(self) > self.size or self._is_heavy():
                self.popitem(last=False)
        return value

    def _is_heavy(self) -> bool:
        return self.weigh is not None and sum(map(self.weigh, self.values())) > self.limit


__all__ = ["RecentItems"]
