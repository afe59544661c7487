"""Pytrees of tensors as messages, for bridges to other processes.

A message is a pickle and the buffers of its arrays, which are not copied. Patterns and masks that both sides
hold are left out of it, and named by their place among those: a gradient on a parameter's pattern is its
entries alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from io import BytesIO
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypeVar

import numpy as np

from iverson.core.dispatch import rewrap, unwrap, value_of
from iverson.core.protocols import NDArray
from iverson.core.table import F
from iverson.layouts import Sparse, aligned_empty, read_only
from iverson.masked import MaskedTensor

if TYPE_CHECKING:
    from iverson.handles.typing import A
    from iverson.interop.entry_buffers import Leaf
    from iverson.layouts import Pattern
    from iverson.masked.mask import Mask

    #: What a message need not repeat where both sides hold it.
    Structure: TypeAlias = Pattern | Mask

#: A pytree, of tensors and of anything else.
Tree = TypeVar("Tree")
#: Memory that travels.
Buffer: TypeAlias = bytes | bytearray | memoryview
#: Buffers of fewer bytes go into the pickle: a frame of its own costs more than a copy.
SMALL = 4096


class Packed:
    """Message: a pickle of a tree, and the buffers of its large arrays.

    opened : an attribute for the object that the receiver makes from the message; it is not sent.
    """

    __slots__ = ("__weakref__", "buffers", "data", "opened")

    def __init__(self, data: bytes, buffers: Iterable[Buffer]) -> None:
        self.data = data
        self.buffers = tuple(buffers)
        self.opened: Any = None

    @property
    def nbytes(self) -> int:
        """The bytes that travel."""
        return len(self.data) + sum(memoryview(b).nbytes for b in self.buffers)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        buffers = (
            [pickle.PickleBuffer(b) for b in self.buffers]
            if index(protocol) >= 5
            else map(bytes, self.buffers)
        )
        return Packed, (self.data, tuple(buffers))


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, known: Iterable[Structure], buffers: list[Buffer]) -> None:
        super().__init__(file, protocol=5, buffer_callback=lambda b: _kept_in(b, buffers))
        self._known = {id(x): k for k, x in enumerate(known)}

    def persistent_id(self, obj: Any) -> int | None:
        """Position of ``obj`` among the objects that the receiver has, which replaces it in the pickle; None
        for others.
        """
        return self._known.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, file: BytesIO, known: Sequence[Structure], buffers: Iterable[Buffer | NDArray]
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._shared = known

    def persistent_load(self, pid: int) -> Any:
        """Object at position ``pid`` in the list of objects that sender and receiver both have."""
        return self._shared[pid]


def _kept_in(buffer: pickle.PickleBuffer, buffers: list[Buffer]) -> bool:
    raw = buffer.raw()
    if raw.nbytes >= SMALL:
        buffers.append(raw)
    return bool(raw.nbytes < SMALL)


def pack(tree: Tree, known: Sequence[Structure] = ()) -> Packed:
    """A tree of tensors as a message to somebody who holds the known patterns and masks.

    >>> import iverson as iv
    >>> unpack(pack([iv.asarray([1.0, 2.0])]))
    [iverson.Tensor([1., 2.])]
    """
    buffers: list[Buffer] = []
    file = BytesIO()
    if known:
        _Pickler(file, known, buffers).dump(tree)
    else:  # in native code, without a call for each object
        pickle.Pickler(file, protocol=5, buffer_callback=lambda b: _kept_in(b, buffers)).dump(tree)
    return Packed(file.getvalue(), buffers)


def unpack(packed: Packed, known: Sequence[Structure] = ()) -> Any:
    """Tree of a message. Large arrays use the memory of its buffers if that is aligned, else they are copied.

    Libraries add entries that are not aligned in another order: bits of results would depend on the lengths
    of messages.
    known : the patterns and masks that were passed to `pack`, in the same order.
    """
    return _Unpickler(BytesIO(packed.data), known, map(_aligned, packed.buffers)).load()


def _aligned(buffer: Buffer) -> Buffer | NDArray:
    array = np.frombuffer(buffer, np.uint8)
    if array.ctypes.data % 16 == 0:
        return buffer
    copy = aligned_empty(array.shape, np.uint8)
    copy[...] = array
    return copy if array.flags.writeable else read_only(copy)


def structures(leaves: Iterable[Leaf]) -> list[Structure]:
    """List of the patterns and masks of tensors, each once: ``known`` for `pack` and `unpack`."""
    by_id: dict[int, Structure] = {}
    for x in leaves:
        if isinstance(x, MaskedTensor):
            mask = x._mask
            by_id[id(mask)] = mask
        value = value_of(unwrap(x), None)
        if isinstance(value, Sparse):
            by_id[id(value.pattern)] = value.pattern
    return list(by_id.values())


def summed(terms: Sequence[A]) -> A:
    """Sum of several gradients of one parameter, in the layout that the sum has; a COO result has each entry
    once.
    """
    plain = [unwrap(x) for x in terms]
    total = plain[0] if len(plain) == 1 else F.add_n(*plain)
    repeated = total.layout == "coo" and not value_of(total).pattern.distinct
    result: A = rewrap(terms[0], total.coalesce() if repeated else total)
    return result


__all__ = ["Packed", "pack", "structures", "summed", "unpack"]
