"""Parameters on workers: sent once whole, from then on only what changed.

The messages are results of tasks, so Dask sends them from worker to worker, and makes them again for a
worker that starts anew. A later message says which rows of which buffers are what from now on: to apply one
again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core import locks
from iverson.core.dispatch import Wrapper, make_handle, rewrap, unwrap, value_of
from iverson.interop.packing import Packed, pack, structures, unpack
from iverson.layouts import Sparse, layout_of, to_strided

Array = np.ndarray[Any, Any]
#: What changed: the number of a leaf, the rows of its buffer (None for all of it), and what is there.
Change = tuple[int, Array | None, Array]
#: Bytes that are compared at a time.
PIECE = 1 << 22


class Broadcast:
    """What a client has sent to workers of a tree of parameters.

    send : makes a future of a message.
    """

    def __init__(self, program: bytes, send: Callable[[Packed], Any]) -> None:
        self._program = program
        self._send = send
        self._kind: Any = None
        self._held: list[Array] = []
        self._messages: list[Any] = []
        self._known: list[Any] = []
        self._whole = self._changed = 0

    def messages(self, leaves: Sequence[Any], structure: Any) -> tuple[list[Any], list[Any]]:
        """Futures of the messages that make up the parameters, and the patterns and masks they have."""
        leaves = [_storable(x) for x in leaves]
        buffers = [_buffer(x) for x in leaves]
        kind = structure, [_kind_of(x) for x in leaves]
        if kind != self._kind:
            return self._start(leaves, buffers, kind)
        changes = [
            c
            for k, (new, old) in enumerate(zip(buffers, self._held, strict=True))
            for c in _change(k, new, old)
        ]
        if changes:
            self._changed += sum(x.nbytes for _, _, x in changes)
            if self._changed > 2 * self._whole:  # as well start again: workers keep all messages
                return self._start(leaves, buffers, kind)
            self._messages.append(self._send(pack(changes)))
            for k, rows, entries in changes:
                self._held[k][... if rows is None else rows] = entries
        return self._messages, self._known

    def _start(self, leaves: Sequence[Any], buffers: list[Any], kind: Any) -> tuple[list[Any], list[Any]]:
        self._kind, self._known = kind, structures(leaves)
        self._held = [np.array(b) if isinstance(b, np.ndarray) else np.zeros(0) for b in buffers]
        own = [_with_buffer(x, b) for x, b in zip(leaves, self._held, strict=True)]
        self._whole, self._changed = sum(b.nbytes for b in self._held) + (1 << 16), 0
        self._messages = [self._send(pack((self._program, kind[0], self._known, own)))]
        return self._messages, self._known


class Replica:
    """What a worker made of messages: the program, and parameters at the last of them."""

    def __init__(self, first: Packed) -> None:
        from cloudpickle import loads

        program, self.structure, self.known, self._leaves = unpack(first)
        self.program = loads(program)
        self._buffers = [_buffer(x) for x in self._leaves]
        self._own = [False] * len(self._leaves)
        self._applied = 0
        self._lock = locks.lock()

    def leaves(self, changes: Sequence[Packed]) -> list[Any]:
        """The parameters when all messages after the first are applied: new handles."""
        with self._lock:
            for message in changes[self._applied :]:
                for change in unpack(message):
                    self._apply(*change)
                self._applied += 1
            return [_with_buffer(x, b) for x, b in zip(self._leaves, self._buffers, strict=True)]

    def _apply(self, k: int, rows: Array | None, entries: Array) -> None:
        if rows is None:
            self._buffers[k] = entries
        else:
            if not self._own[k]:  # the message's memory, which others may be sent
                self._buffers[k] = self._buffers[k].copy()
            self._buffers[k][rows] = entries
        self._own[k] = rows is not None


_opening = locks.lock()


def replica(first: Packed) -> Replica:
    """What this process made of a message, once."""
    with _opening:
        if first.opened is None:
            first.opened = Replica(first)
    opened: Replica = first.opened
    return opened


# --- the buffer of a leaf ---------------------------------------------------------------------------


def _storable(x: Any) -> Any:
    """A leaf as a detached tensor with one buffer of entries; what is none is itself."""
    plain = unwrap(x)
    value = value_of(plain, None)
    if value is None:
        return x
    if not isinstance(value, (Sparse, np.ndarray)):
        return rewrap(x, make_handle(to_strided(value)))
    return rewrap(x, make_handle(value))


def _buffer(x: Any) -> Any:
    value = value_of(unwrap(x), None)
    return None if value is None else layout_of(value).buffers(value)[-1]


def _with_buffer(x: Any, buffer: Any) -> Any:
    value = value_of(unwrap(x), None)
    if value is None:
        return x
    return rewrap(x, make_handle(layout_of(value).rebuild(value, (buffer,))))


def _kind_of(x: Any) -> Any:
    """What must be the same for a message of changes to do. It holds no entries."""
    value = value_of(unwrap(x), None)
    if value is None:
        return getattr(x, "placement", x)
    mask = x._mask if isinstance(x, Wrapper) else None  # type: ignore[attr-defined]
    return value.shape, value.dtype, getattr(value, "pattern", None), mask


def _change(k: int, new: Any, old: Array) -> list[Change]:
    """Which rows of a buffer differ from what was sent, bit by bit; all of it where that is half of them."""
    if not isinstance(new, np.ndarray) or not new.size:
        return []
    width = prod(new.shape[1:]) * new.dtype.itemsize
    count = len(new) if new.ndim else 1
    if new.nbytes <= PIECE >> 8 or count == 1:
        return [] if new.tobytes() == old.tobytes() else [(k, None, np.array(new))]
    step = max(PIECE // width, 1)
    pieces = [slice(start, start + step) for start in range(0, count, step)]
    differ = [(_words(new[at], width) != _words(old[at], width)).any(axis=1) for at in pieces]
    changed = np.flatnonzero(np.concatenate(differ))
    if 2 * changed.size > count:
        return [(k, None, np.array(new))]
    return [(k, changed, new[changed])] if changed.size else []


def _words(x: Array, width: int) -> Array:
    """The bytes of rows, in the longest words that these are made of."""
    word = next(w for w in (np.uint64, np.uint32, np.uint16, np.uint8) if width % np.dtype(w).itemsize == 0)
    found: Array = np.ascontiguousarray(x).reshape(len(x), -1).view(word)
    return found


__all__ = ["Broadcast", "Replica", "replica"]
