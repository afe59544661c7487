"""Weak tables: values kept per pattern, and objects kept per key, for as long as these are in use.

`weakref` has dictionaries for both, but those also guard iterations while other code runs: to make one takes
a microsecond and to write to it another, as much as all else that a small operation on new patterns does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from iverson.layouts.pattern import Pattern

V = TypeVar("V")


class _Key(ref[Any]):
    """Weak reference to a key of a `ForOthers`, with the number of the key and the table."""

    __slots__ = ("number", "table")
    number: int
    table: ref[Any]


def _forget(key: _Key) -> None:
    """Remove the entry of a key that was deleted from its table."""
    table = key.table()
    if table is not None:
        table._held.pop(key.number, None)


class ForOthers(Generic[V]):
    """Table of a value for each of some patterns; an entry goes when its pattern is deleted.

    Keys are compared by identity.
    """

    __slots__ = ("__weakref__", "_held")

    def __init__(self) -> None:
        self._held: dict[int, tuple[_Key, V]] = {}

    def get(self, other: Pattern) -> V | None:
        """The value for a pattern; None where there is none."""
        item = self._held.get(id(other))
        return None if item is None else item[1]

    def __getitem__(self, other: Pattern) -> V:
        return self._held[id(other)][1]

    def __contains__(self, other: Pattern) -> bool:
        return id(other) in self._held

    def __setitem__(self, other: Pattern, value: V) -> None:
        key = _Key(other, _forget)
        key.number, key.table = id(other), ref(self)
        self._held[key.number] = key, value

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Pattern]:
        """Iterator over the patterns that are alive at the time of the call."""
        return iter([other for key, _ in list(self._held.values()) if (other := key()) is not None])


class StillUsed(Generic[V]):
    """Table of objects by key; it does not keep the objects alive, and forgets those that are deleted."""

    __slots__ = ("_held", "_room")

    def __init__(self) -> None:
        self._held: dict[Any, ref[V]] = {}
        self._room = 8

    def get(self, key: Hashable) -> V | None:
        """The object under ``key``; None if there is none or it is deleted."""
        item = self._held.get(key)
        return None if item is None else item()

    def __setitem__(self, key: Hashable, value: V) -> None:
        if len(self._held) >= self._room:
            self._held = {k: r for k, r in list(self._held.items()) if r() is not None}
            self._room = 2 * len(self._held) + 8
        self._held[key] = ref(value)


__all__ = ["ForOthers", "StillUsed"]
