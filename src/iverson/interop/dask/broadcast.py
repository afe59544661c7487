"""Broadcast of parameters to workers: sent once whole, from then on only what changed.

The messages are results of tasks, so Dask sends them from worker to worker, and makes them again for a
worker that starts anew. The first says what the parameters are beside their entries, the others which rows
of which buffers are what from now on: to apply one again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from iverson.core.dispatch import make_handle, rewrap, unwrap, value_of
from iverson.core.protocols import NDArray
from iverson.core.python import locks
from iverson.interop.entry_buffers import Joint, opened, with_buffers
from iverson.interop.messages import Packed, pack, structures, unpack
from iverson.layouts import Sparse, to_strided

if TYPE_CHECKING:
    from collections.abc import Hashable

    from optree import PyTreeSpec

    from iverson.interop.entry_buffers import Leaf
    from iverson.interop.messages import Structure

#: What changed: the number of a buffer, the rows of it (None for all of it), and what is there.
Change = tuple[int, NDArray | None, NDArray]
#: Bytes that are compared at a time.
PIECE = 1 << 22
#: What a message costs beside its bytes, as bytes: each is an argument of every task that needs parameters.
OVERHEAD = 4096


#: What stands for a message in tasks.
Sent = TypeVar("Sent")


class Broadcast(Generic[Sent]):
    """Messages about a tree of parameters that a client has sent to workers.

    send : takes a message and returns the object that stands for it in tasks.

    Attributes
    ----------
    past : number of messages of entries that no worker needs any more. The next message has all entries.
    known : the patterns and masks of the parameters. joint : the layout of their joined buffers.
    """

    def __init__(self, program: bytes, send: Callable[[Packed], Sent]) -> None:
        self._program = program
        self._send = send
        self._kinds: Any = None
        self._held: list[NDArray | None] = []
        self._changed = 0
        self._first: Sent | None = None
        self._changes: list[Sent] = []
        self.past = 0
        self.known: list[Structure] = []
        self.joint = Joint(())

    def messages(self) -> list[Sent]:
        """Messages for a `Replica`: first the structure of the parameters, then their entries and the
        changes.

        The list is empty before the first `update`.
        """
        return [] if self._first is None else [self._first, *self._changes]

    def update(self, leaves: Sequence[Leaf], structure: PyTreeSpec) -> list[Leaf]:
        """Send what has changed in the parameters since the last call.

        Returns the leaves, each converted to a layout with one buffer of entries. If the structure or the
        patterns have changed, or changes add up to more than twice all entries, everything is sent anew.
        """
        leaves = [x if type(value_of(x, None)) is np.ndarray else _storable(x) for x in leaves]
        buffers, kinds = opened(leaves)
        if (structure, kinds) != self._kinds:
            self._start(leaves, buffers, (structure, kinds))
        parts = self.joint.join(buffers)
        changes = [c for k, new in enumerate(parts) for c in _change(k, new, self._held[k])]
        if changes:
            self._changed += sum(entries.nbytes for _, _, entries in changes) + OVERHEAD
            if self._changed > 2 * sum(x.nbytes for x in parts) + 16 * OVERHEAD:  # all are kept
                changes = [(k, None, new) for k, new in enumerate(parts)]
            self._append(changes)
        return leaves

    def _start(
        self, leaves: Sequence[Leaf], buffers: list[NDArray], kinds: tuple[PyTreeSpec, Sequence[Hashable]]
    ) -> None:
        self._kinds, self.known = kinds, structures(leaves)
        self.joint = Joint([(b.shape, b.dtype) for b in buffers])
        self._held = [None] * self.joint.count
        empty = with_buffers(leaves, [b[:0] if b.ndim else b for b in buffers])
        self._first = self._send(pack((self._program, *kinds, self.known, empty, self.joint)))
        self._changes, self.past = [], 0

    def _append(self, changes: list[Change]) -> None:
        """Send a message with ``changes`` and note the new entries; a message with all entries makes older
        ones obsolete.
        """
        message: list[Change] = []
        for k, rows, entries in changes:
            buffer = self._held[k]
            if rows is None or buffer is None:
                entries = entries if k < self.joint.shared else entries.copy()
                self._held[k] = entries
            else:
                buffer[rows] = entries
            message.append((k, rows, entries))
        if len(message) == len(self._held) and all(rows is None for _, rows, _ in message):
            self.past += len(self._changes)
            self._changes, self._changed = [], 0
        self._changes.append(self._send(pack(message)))


class Replica:
    """Copy of the program and the parameters on a worker, made from messages of a `Broadcast`.

    Messages are applied in order, each once; the parameters are those after the last one.
    """

    def __init__(self, first: Packed) -> None:
        from cloudpickle import loads

        program, self.structure, self.kinds, self.known, self.like, self.joint = unpack(first)
        self.program = loads(program)
        self._parts: list[Any] = []
        self._own: list[bool] = []
        self._applied = 0
        self._lock = locks.lock()

    def leaves(self, past: int, changes: Sequence[Packed]) -> list[Any]:
        """Parameters, as new handles, after all messages in ``changes`` are applied.

        past : the number of messages before the first of ``changes``. Messages applied earlier are skipped.
        """
        with self._lock:
            for k, message in enumerate(changes, past):
                if k >= self._applied:
                    self._apply(unpack(message))
                    self._applied = k + 1
            return with_buffers(self.like, self.joint.split(self._parts))

    def _apply(self, changes: Sequence[Change]) -> None:
        if not self._parts:
            self._parts, self._own = [None] * len(changes), [False] * len(changes)
        for k, rows, entries in changes:
            if rows is None:
                self._parts[k] = entries
            else:
                if not self._own[k]:  # the message's memory, which others may be sent
                    self._parts[k] = self._parts[k].copy()
                self._parts[k][rows] = entries
            self._own[k] = rows is not None


_opening = locks.lock()


def replica(first: Packed) -> Replica:
    """`Replica` made from the first message; this process makes it once and then returns the same."""
    with _opening:
        if first.opened is None:
            first.opened = Replica(first)
    result: Replica = first.opened
    return result


def _storable(x: Leaf) -> Leaf:
    """Leaf as a detached tensor in a layout with one buffer of entries; ``x`` itself if it is no tensor."""
    plain = unwrap(x)
    value = value_of(plain, None)
    if value is None:
        return x
    if not isinstance(value, (Sparse, np.ndarray)):
        value = to_strided(value)
    leaf: Leaf = rewrap(x, make_handle(value))
    return leaf


def _change(k: int, new: NDArray, old: NDArray | None) -> list[Change]:
    """Changes of buffer ``k``: an empty list, or one change with the rows whose bits differ from ``old``.

    The change has the whole buffer if more than half of the rows differ, if it is small, or if ``old`` is
    None.
    """
    if old is None:
        return [(k, None, new)]
    if not new.size:
        return []
    width = prod(new.shape[1:]) * new.dtype.itemsize
    count = len(new) if new.ndim else 1
    if new.nbytes <= PIECE >> 8 or count == 1:
        return [] if new.tobytes() == old.tobytes() else [(k, None, new)]
    step = max(PIECE // width, 1)
    pieces = [slice(start, start + step) for start in range(0, count, step)]
    differ = [(_words(new[at], width) != _words(old[at], width)).any(axis=1) for at in pieces]
    rows = np.flatnonzero(np.concatenate(differ))
    if 2 * rows.size > count:
        return [(k, None, new)]
    return [(k, rows, new[rows])] if rows.size else []


def _words(x: NDArray, width: int) -> NDArray:
    """Rows of ``x`` as rows of unsigned integers, the longest kind that divides a row's ``width`` in
    bytes.
    """
    word = next(w for w in (np.uint64, np.uint32, np.uint16, np.uint8) if width % np.dtype(w).itemsize == 0)
    words: NDArray = np.ascontiguousarray(x).reshape(len(x), -1).view(word)
    return words


__all__ = ["Broadcast", "Replica", "replica"]
