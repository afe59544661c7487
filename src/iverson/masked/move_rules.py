"""Masked rules of ops that move entries: indexing, assignment, joining, permuting, reshaping.

The numbers of the entries are moved instead of the entries (`Mask.numbers`): where they arrive is the mask of
the result, and its vector is gathered by them. So any layout's kernel that moves entries moves masks too. The
table that names these rules is in `iverson.masked.rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import alias, bind, value_of
from iverson.core.op import Op
from iverson.core.protocols import DType, NDArray, Params, Value
from iverson.core.shapes import Shape
from iverson.layouts import Sparse, from_strided, is_strided, to_strided
from iverson.layouts.conversion import like
from iverson.layouts.pattern import addresses, coordinates_of
from iverson.masked.mask import Mask, taken
from iverson.masked.sparse_masks import Stored, of_coordinates, of_numbers
from iverson.masked.tensor import MaskedTensor
from iverson.masked.traced_masks import mask_of, moves_known
from iverson.masked.traced_masks import moved as moved_with_masks
from iverson.ops import TABLE, F

Args = tuple[Any, ...]


def _vector(x: Value | complex, dtype: DType | None = None) -> tuple[Any, Mask]:
    """Specified entries of ``x`` as a vector, in ``dtype`` if that is given, and their mask.

    All entries of a plain operand are specified.
    """
    if isinstance(x, MaskedTensor):
        vector, mask = x._inner, x._mask
    else:
        x = x if hasattr(x, "shape") else np.asarray(x, dtype)
        vector, mask = F.reshape(F.to_dense(x), shape=(prod(x.shape),)), Mask(np.ones(x.shape, bool))
    if dtype is not None and vector.dtype != dtype:
        vector = F.astype(vector, dtype=dtype)
    return vector, mask


def _shifted(mask: Mask, by: int, sparse: bool) -> Any:
    """The value `Mask.numbers` of a mask, with each number increased by ``by``.

    sparse : True if the result must be in a sparse layout.
    """
    value = mask.numbers
    if not by and not (sparse and is_strided(value)):
        return value
    if isinstance(value, Sparse):
        return value.pattern.kind(value.pattern, value.values + by)
    value = np.where(value > 0, value + by, 0)
    return from_strided(value, "coo") if sparse else value


def move(op: Op, args: Args, params: Params) -> Any:
    """Rule of ops that move entries: specified and unspecified entries move alike.

    All entries of a plain operand are specified.
    """
    if not moves_known(op, args):
        return moved_with_masks(op, args, params)
    moving = op.groups(len(args))[0]
    operands = {k: _vector(args[k]) for k in moving}
    listed = any(isinstance(mask, Stored) for _, mask in operands.values())
    sizes = np.cumsum([0, *(mask.count for _, mask in operands.values())]).tolist()
    numbers = list(args)
    for k, by in zip(moving, sizes, strict=False):
        mask = operands[k][1]
        numbers[k] = _shifted(mask, by, listed and len(mask.shape) > 0)
    mask, at = of_numbers(value_of(bind(op, tuple(numbers), params)))
    return MaskedTensor(taken([vector for vector, _ in operands.values()], at - 1), mask)


def to_layout(op: Op, args: Args, params: Params) -> Any:
    """Rule of to_layout: the same entries with a mask in another layout."""
    (x,) = args
    op.abstract(Aval(x.shape, x.dtype), **params)
    mask, numbers = of_numbers(value_of(bind(op, (x._mask.numbers,), params)))
    return MaskedTensor(taken([x._inner], numbers - 1), mask)


def reshape(op: Op, args: Args, params: Params) -> Any:
    """Rule of ops that change the shape only: the vector of specified entries stays, the mask is reshaped."""
    (x,) = args
    shape = op.abstract(Aval(x.shape, x.dtype), **params).shape
    if isinstance(x._mask, Stored) and shape:
        mask: Mask = of_coordinates(coordinates_of(x._mask.keys, shape), shape)
    else:
        mask = mask_of(x._mask.array.reshape(shape))
    return MaskedTensor(alias(x._inner), mask)


def embedded(op: Op, args: Args, params: Params) -> Any:
    """Rule of embed: an assignment (see `put`) to an array of zeros, all of which are specified."""
    (x,) = args
    zeros = np.broadcast_to(np.zeros((), x.dtype), params["shape"])
    return put(TABLE["index_put"], (zeros, x), {"key": params["key"]})


# -- assignment ------------------------------------------------------------------------------------------


def put(op: Op, args: Args, params: Params) -> Any:
    """Rule of assignments: what is assigned becomes specified; where a masked value is unspecified, ``x``
    becomes so.
    """
    x, v, *indices = args
    if not moves_known(op, args):
        return moved_with_masks(op, args, params)
    if not isinstance(x, MaskedTensor) and isinstance(v._mask, Stored) and _is_box(v, x.shape, params):
        return _surrounded(x, v, params["key"])
    vector, x_mask = _vector(x)
    value, value_mask = _vector(v, vector.dtype)
    if isinstance(x_mask, Stored):
        mask, at = _replaced(x_mask, value_mask, indices, params)
    else:
        numbers = (_shifted(x_mask, 0, False), to_strided(_shifted(value_mask, x_mask.count, False)))
        mask, at = of_numbers(value_of(bind(op, (*numbers, *indices), params)))
    return MaskedTensor(taken([vector, value], at - 1), mask)


def _is_box(v: MaskedTensor, shape: Shape, params: Params) -> bool:
    """Return True if the key in ``params`` is a box with steps of 1 in an array of ``shape``, with the shape
    of ``v``.
    """
    key = params.get("key", ())
    steps = [k.step == 1 if isinstance(k, slice) else False for k in key]
    return len(key) == len(shape) and all(steps) and v.shape == tuple(k.stop - k.start for k in key)


def _surrounded(x: Value, v: MaskedTensor, key: tuple[slice, ...]) -> MaskedTensor:
    """Result of assigning ``v``, which has a stored mask, to the box ``key`` of a plain array ``x``.

    It is concatenated from ``v`` and the parts of ``x`` around it; other entries of ``x`` are not read.
    """
    for k, box in enumerate(key):
        ends = (slice(0, box.start, 1), slice(box.stop, x.shape[k], 1))
        leading = tuple(slice(0, n, 1) for n in x.shape[:k])
        before, after = (F.index_basic(x, key=(*leading, end, *key[k + 1 :])) for end in ends)
        v = F.concat(before, v, after, axis=k, offsets=(0, box.start, box.stop))
    return v


def _replaced(
    x_mask: Stored, value_mask: Mask, indices: list[NDArray], params: Params
) -> tuple[Mask, NDArray]:
    """Mask after an assignment, and for each of its entries a number.

    Numbers up to the count of ``x_mask`` are entries of x that stay; those above are entries of the value.
    """
    shape = x_mask.shape
    target = value_of(bind(TABLE["gather" if indices else "index_basic"], (x_mask.numbers, *indices), params))
    keep = np.ones(x_mask.count, bool)
    keep[of_numbers(target)[1] - 1] = False
    spread = bind(
        TABLE["broadcast_to"], (_shifted(value_mask, x_mask.count, False),), {"shape": target.shape}
    )
    assigned, numbers = of_numbers(value_of(spread))
    rows = assigned.coordinates()
    if indices:
        at, axes = np.broadcast_arrays(*indices), params["axes"]
        rows, position = routed(rows, at, axes, len(shape))
        last = _last(at, axes, shape)[position]
        rows, numbers = rows[:, last], numbers[last]
    else:
        rows = _read_from(rows, params["key"])
    before = x_mask.coordinates()[:, keep]
    pattern = of_coordinates(np.concatenate([before, rows], axis=1), shape).pattern
    return of_numbers(
        like(pattern.value(np.concatenate([np.flatnonzero(keep) + 1, numbers])), x_mask.pattern)
    )


def _read_from(rows: NDArray, key: tuple[slice | int | None, ...]) -> NDArray:
    """Indices in x of the entries whose indices in ``x[key]`` are the columns of ``rows``."""
    indices, axis = [], 0
    for item in key:
        if isinstance(item, slice):
            indices.append(item.start + item.step * rows[axis])
        elif item is not None:
            indices.append(np.full(rows.shape[1], item))
        axis += item is None or isinstance(item, slice)
    return np.array(indices).reshape(len(indices), rows.shape[1])


def routed(rows: NDArray, at: Sequence[NDArray], axes: Shape, rank: int) -> tuple[NDArray, NDArray]:
    """Indices that entries have in the array that index arrays point into, and the address of each in an
    index array.

    rows : indices of the entries, one column each, with the axes of the index arrays first.
    at : the index arrays, all of one shape, for ``axes`` of an array of rank ``rank``.
    """
    lead = at[0].ndim
    position = addresses(rows[:lead], at[0].shape)
    indices = np.empty((rank, rows.shape[1]), np.int64)
    indices[list(axes)] = np.array([i.ravel()[position] for i in at]).reshape(len(axes), position.size)
    indices[[k for k in range(rank) if k not in axes]] = rows[lead:]
    return indices, position


def _last(at: Sequence[NDArray], axes: Shape, shape: Shape) -> NDArray:
    """Boolean for each place in the index arrays ``at``: True if no later place points to the same entry.

    The value at such a place is the one that an assignment leaves in the entry.
    """
    place = addresses(np.array([i.ravel() for i in at]), tuple(shape[k] for k in axes))
    _, from_end = np.unique(place[::-1], return_index=True)
    last = np.zeros(place.size, bool)
    last[place.size - 1 - from_end] = True
    return last
