"""Buffers of tensors' entries, and the joining of small ones, so that many travel as few messages.

A tensor without its entries (shape, dtype, pattern, mask) is its kind: who knows the kind needs the entries
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from iverson.core.dispatch import make_handle, rewrap, unwrap, value_of
from iverson.core.protocols import NDArray
from iverson.layouts import layout_of
from iverson.masked import MaskedTensor

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import Rows

    #: A leaf of a tree of parameters or gradients: a tensor, or a table whose rows are elsewhere.
    Leaf: TypeAlias = Array | Rows

Kind = tuple[tuple[int, ...], np.dtype[Any]]
#: Arrays of fewer bytes share a buffer: a message of each costs more than a copy.
SMALL = 4096
#: Each array of a buffer starts at a multiple of so many bytes, as in memory of its own.
ALIGNED = 16
EMPTY = np.zeros(0)


class Joint:
    """Layout of joined arrays: small arrays of the same dtype share one buffer; larger ones are left as they
    are.

    The buffers and the larger arrays are called parts here.
    kinds : shape and dtype of each array. small : size in bytes from which an array is a part of its own.

    >>> joint = Joint([((2,), np.dtype(float)), ((1000,), np.dtype(float)), ((), np.dtype(float))])
    >>> parts = joint.join([np.ones(2), np.ones(1000), np.zeros(())])
    >>> [x.shape for x in parts], [x.shape for x in joint.split(parts)]
    ([(4,), (1000,)], [(2,), (1000,), ()])
    """

    def __init__(self, kinds: Iterable[Kind], small: int = SMALL) -> None:
        self._kinds, self._small = tuple(kinds), small
        self._alone: list[int] = []
        self._buffers: dict[np.dtype[Any], list[tuple[int, tuple[int, ...], slice, NDArray | None]]] = {}
        ends: dict[np.dtype[Any], int] = {}
        for k, (shape, dtype) in enumerate(self._kinds):
            size = prod(shape)
            if size * dtype.itemsize >= small:
                self._alone.append(k)
                continue
            start = ends.get(dtype, 0)
            gap = -size % max(ALIGNED // dtype.itemsize, 1)
            ends[dtype] = start + size + gap
            between = np.zeros(gap, dtype) if gap else None
            self._buffers.setdefault(dtype, []).append((k, shape, slice(start, start + size), between))
        self._last: tuple[Any, Joint] = None, self

    def __reduce__(self) -> tuple[Any, ...]:
        return Joint, (self._kinds, self._small)

    @property
    def shared(self) -> int:
        """Number of parts that are buffers of small arrays; they are the first parts."""
        return len(self._buffers)

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self._buffers) + len(self._alone)

    def of(self, places: Sequence[int]) -> Joint:
        """Layout for only the arrays at ``places``; the last one is cached."""
        if len(places) == len(self._kinds):
            return self
        last_places, joint = self._last
        if last_places != places:
            joint = Joint([self._kinds[k] for k in places], self._small)
            self._last = places, joint
        return joint

    def join(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Parts from the arrays: new buffers with the small arrays, then the larger arrays themselves."""
        parts = []
        for entries in self._buffers.values():
            pieces = []
            for k, shape, _, between in entries:
                pieces.append(arrays[k] if len(shape) == 1 else arrays[k].ravel())
                if between is not None:
                    pieces.append(between)
            parts.append(np.concatenate(pieces))
        return parts + [arrays[k] for k in self._alone]

    def split(self, parts: Sequence[NDArray]) -> list[NDArray]:
        """Arrays from the parts that `join` returned, as views of these."""
        arrays: list[Any] = [None] * len(self._kinds)
        for buffer, entries in zip(parts, self._buffers.values(), strict=False):
            for k, shape, at, _ in entries:
                arrays[k] = buffer[at] if len(shape) == 1 else buffer[at].reshape(shape)
        for k, array in zip(self._alone, parts[self.shared :], strict=True):
            arrays[k] = array
        return arrays


def opened(leaves: Iterable[Leaf]) -> tuple[list[NDArray], list[Any]]:
    """Array of the entries of each leaf, and the kind of each leaf: all that the tensor is beside its
    entries.

    The kind has shape, dtype, layout, pattern and mask; it is the leaf itself if that is no tensor, whose
    array is empty. Leaves of the same kind have arrays of the same shape and dtype.
    """
    buffers: list[NDArray] = []
    kinds: list[Any] = []
    for x in leaves:
        value = value_of(x, None)
        if type(value) is np.ndarray:  # of most, of which there may be many
            kind: Any = value.shape, value.dtype
        elif (value := value_of(unwrap(x), None)) is None:
            value, kind = EMPTY, getattr(x, "placement", x)
        else:
            mask = x._mask if isinstance(x, MaskedTensor) else None
            kind = type(value), value.shape, value.dtype, getattr(value, "pattern", None), mask
            value = (EMPTY, *layout_of(value).buffers(value))[-1]
        buffers.append(value)
        kinds.append(kind)
    return buffers, kinds


def with_buffers(like: Iterable[Leaf], buffers: Iterable[NDArray]) -> list[Any]:
    """New leaves that have the kinds of the leaves in ``like``, with entries in ``buffers``.

    A leaf that is no tensor is returned as it is.
    """
    return [
        make_handle(b) if type(value_of(x, None)) is np.ndarray else _with_buffer(x, b)
        for x, b in zip(like, buffers, strict=True)
    ]


def _with_buffer(x: Leaf, buffer: NDArray) -> Any:
    value = value_of(unwrap(x), None)
    return x if value is None else rewrap(x, make_handle(layout_of(value).rebuild(value, (buffer,))))


__all__ = ["Joint", "Kind", "opened", "with_buffers"]
