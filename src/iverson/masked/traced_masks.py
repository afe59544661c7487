"""Masks computed in a trace or a batch, whose specified entries are known only when that runs.

The vector of a masked tensor with such a mask has all entries. Those that are not specified are 1 where they
enter it and 0 where they leave it, by selections: so their cotangents are zeros of a selection, which nothing
that is computed from them turns into numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, alias, bind, has_entries, zero_filled
from iverson.core.op import Op
from iverson.core.protocols import NDArray, Params, Value
from iverson.core.shapes import Shape
from iverson.masked.mask import Mask
from iverson.masked.tensor import MaskedTensor
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles import Tensor

Args = tuple[Any, ...]


class Computed(Mask):
    """Mask computed in a trace or a batch: ``array`` is a handle whose entries are not known.

    The vector of a tensor with this mask has all entries; ``count`` is their number.
    """

    __slots__ = ()

    def __init__(self, array: Any) -> None:
        self.array = array
        self.count = prod(array.shape)
        self._numbers = None

    @property
    def shape(self) -> Shape:
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def full(self) -> bool:
        return False

    @property
    def keys(self) -> NDArray:
        return np.flatnonzero(F.to_numpy(self.array))  # raises: it has none to read

    def coordinates(self, axes: Sequence[int] | None = None) -> NDArray:
        return self.keys

    def _numbered(self, vector: NDArray) -> Any:
        return self.keys

    def has(self, other: Mask) -> Any:
        """See `Mask.has`; the result is a handle."""
        return F.reshape(F.broadcast_to(self.array, shape=other.shape), shape=(other.count,))

    def kept(self, keep: NDArray | Tensor) -> Mask:
        return Computed(F.logical_and(self.array, F.reshape(keep, shape=self.shape)))

    def within(self, outer: Mask, vector: Value) -> tuple[Any, Mask]:
        mask = Computed(F.to_dense(outer.unpack(self.array)))
        return mask.pack(outer.unpack(self.unpack(vector))), mask

    def of_kept(self, inner: Mask, vector: Value) -> Any:
        return inner.unpack(vector)

    def stretched(self, shape: Shape) -> Mask:
        return self if self.shape == shape else Computed(F.broadcast_to(self.array, shape=shape))

    def stacked(self, stretched: Mask) -> NDArray:
        return np.arange(stretched.count)

    def over(self, axes: Shape, keepdims: bool) -> tuple[Mask, Any]:
        counts = F.sum(F.astype(self.array, dtype=np.dtype(np.int64)), axis=axes, keepdims=keepdims)
        mask = Computed(F.greater(counts, 0))
        return mask, F.reshape(counts, shape=(mask.count,))

    def pack(self, x: Value) -> Any:
        x = F.to_dense(x)
        neutral = True if x.dtype.kind == "b" else 1  # of which logarithms and reciprocals are finite
        return F.reshape(F.where(self.array, x, neutral), shape=(self.count,))

    def unpack(self, vector: Value) -> Any:
        return F.where(self.array, F.reshape(vector, shape=self.shape), F.zero((), vector.dtype))

    def plain(self) -> Any:
        return alias(self.array)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Computed and other.array is self.array)

    __hash__ = Mask.__hash__

    def __repr__(self) -> str:
        return f"Mask(shape={self.shape}, computed)"


def mask_of(array: NDArray | Handle) -> Mask:
    """Mask from a boolean array or a handle of one: `Computed` if the handle has no entries to read, else a
    `Mask`.
    """
    if not isinstance(array, Handle):
        return Mask(array)
    return Mask(F.to_numpy(array)) if has_entries(array) else Computed(array)


def any_computed(args: Sequence[Value | complex]) -> bool:
    """True if the mask of at least one operand is computed: its entries are not known here."""
    return any(isinstance(x, MaskedTensor) and type(x._mask) is Computed for x in args)


def moves_known(op: Op, args: Args) -> bool:
    """Return True if an op that moves entries can be applied to the masks now.

    No mask may be computed, and the operands that are not moved (index arrays) must have known entries.
    """
    where = op.groups(len(args))[0]
    return not any_computed(args) and all(has_entries(x) for k, x in enumerate(args) if k not in where)


def moved(op: Op, args: Args, params: Params) -> Any:
    """Result of an op that moves entries, applied to the entries as plain tensors and to the masks
    as arrays.
    """
    where = op.groups(len(args))[0]
    dtype = next(x.dtype for x in args if isinstance(x, MaskedTensor))
    entries, there = list(args), list(args)
    for k in where:
        x = entries[k] = zero_filled(args[k])
        there[k] = args[k]._mask.array if isinstance(args[k], MaskedTensor) else np.ones(np.shape(x), bool)
        to = getattr(entries[where[0]], "dtype", dtype)
        if getattr(x, "dtype", to) != to:
            entries[k] = F.astype(x, dtype=to)
    mask = mask_of(bind(op, tuple(there), params))
    return MaskedTensor(mask.pack(bind(op, tuple(entries), params)), mask)


def added(op: Op, args: Args, params: Params, fill: float) -> Any:
    """Result of an op that adds up segments, or finds their extrema, on an operand whose mask is computed.

    fill : the entry that does not change the op's result, put where nothing is specified.
    """
    x, *indices = args
    op.abstract(Aval(x.shape, x.dtype), *indices, **params)
    counts = F.scatter_add(
        F.astype(x._mask.array, dtype=np.dtype(np.int64)), *indices, axes=params.get("axes", (0,)),
        shape=params.get("shape") or (params["count"], *x.shape[1:]),
    )  # fmt: skip
    mask = mask_of(F.greater(counts, 0))
    entries = F.where(x._mask.array, x._mask.unpack(x._inner), fill)
    return MaskedTensor(mask.pack(bind(op, (entries, *indices), params)), mask)
