"""Rules of ops that move entries: indexing, assignment, joining, permuting, reshaping.

The numbers of the entries are moved instead of the entries (`Mask.numbers`): where they arrive is the mask of
the result, and its vector is gathered by them. So any layout's kernel that moves entries moves masks too. The
table that names these rules is in `iverson.masked.rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.core.dispatch import alias, bind, make_handle
from iverson.core.op import Abstract, Op
from iverson.core.shapes import Shape
from iverson.layouts import Sparse, from_strided, to_strided
from iverson.layouts.conversion import like
from iverson.layouts.pattern import addresses
from iverson.masked.mask import Array, Mask
from iverson.masked.stored import Stored, of_coordinates, of_numbers
from iverson.masked.tensor import MaskedTensor
from iverson.ops import TABLE, F

Args = tuple[Any, ...]
Params = dict[str, Any]


def _vector(x: Any, dtype: Any = None) -> tuple[Any, Mask]:
    """The entries of an operand as a vector, and their mask: of a plain one, all of them."""
    if isinstance(x, MaskedTensor):
        vector, mask = x._held, x._mask
    else:
        x = x if hasattr(x, "shape") else np.asarray(x, dtype)
        vector, mask = F.reshape(F.to_dense(x), shape=(prod(x.shape),)), Mask(np.ones(x.shape, bool))
    if dtype is not None and vector.dtype != dtype:
        vector = F.astype(vector, dtype=dtype)
    return vector, mask


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0, *(p.shape[0] for p in parts[:-1])])
    return F.concat(*parts, axis=0, offsets=tuple(offsets.tolist()))


def _gathered(vector: Any, numbers: Array) -> Any:
    """The entries with the given numbers."""
    if numbers.size == vector.shape[0] and np.array_equal(numbers, np.arange(1, numbers.size + 1)):
        return alias(vector) if not isinstance(vector, np.ndarray) else make_handle(vector)
    return F.gather(vector, numbers - 1, axes=(0,))


def _shifted(mask: Mask, by: int, sparse: bool) -> Any:
    """The numbers of a mask, counted on from a number."""
    value = mask.numbers
    if not by and not (sparse and isinstance(value, np.ndarray)):
        return value
    if isinstance(value, Sparse):
        return value.pattern.kind(value.pattern, value.values + by)
    value = np.where(value > 0, value + by, 0)
    return from_strided(value, "coo") if sparse else value


def move(op: Op, args: Args, params: Params) -> Any:
    """Entries move and take with them whether they are specified; a plain operand's all are."""
    moved = op.groups(len(args))[0]
    found = {k: _vector(args[k]) for k in moved}
    stored = any(isinstance(mask, Stored) for _, mask in found.values())
    sizes = np.cumsum([0, *(mask.count for _, mask in found.values())]).tolist()
    numbers = list(args)
    for k, by in zip(moved, sizes, strict=False):
        mask = found[k][1]
        numbers[k] = _shifted(mask, by, stored and len(mask.shape) > 0)
    mask, at = of_numbers(bind(op, tuple(numbers), params)._value)
    return MaskedTensor(_gathered(_joined([vector for vector, _ in found.values()]), at), mask)


def to_layout(op: Op, args: Args, params: Params) -> Any:
    """The same entries, held in another layout."""
    (x,) = args
    mask, numbers = of_numbers(bind(op, (x._mask.numbers,), params)._value)
    return MaskedTensor(_gathered(x._held, numbers), mask)


def reshape(op: Op, args: Args, params: Params) -> Any:
    """The order of the entries stays."""
    (x,) = args
    if isinstance(x._mask, Stored):
        return move(op, args, params)
    op.abstract(Abstract(x.shape, x.dtype), **params)
    return MaskedTensor(alias(x._held), Mask(op.forward(x._mask.array, **params)))


def triangle(op: Op, args: Args, params: Params) -> Any:
    """The mask stays; specified entries beyond the diagonal become 0."""
    (x,) = args
    op.abstract(Abstract(x.shape, x.dtype), **params)
    rows, columns = x._mask.coordinates([x.ndim - 2, x.ndim - 1])
    across = columns.astype(np.int64) - rows
    keep = across <= params["k"] if op.name == "tril" else across >= params["k"]
    return MaskedTensor(F.where(keep, x._held, F.zero((), x.dtype)), x._mask)


def place(op: Op, args: Args, params: Params) -> Any:
    """Entries among zeros, which are specified; stored ones are put between them axis by axis."""
    (x,) = args
    key, shape = params["key"], params["shape"]
    if not isinstance(x._mask, Stored) or any(not isinstance(k, slice) or k.step != 1 for k in key):
        return put(TABLE["index_put"], (np.zeros(shape, x.dtype), x), {"key": key})
    for k, item in enumerate(key):
        extents = [item.start, x.shape[k], shape[k] - item.start - x.shape[k]]
        around = [np.zeros((*x.shape[:k], n, *x.shape[k + 1 :]), x.dtype) for n in extents]
        offsets = (0, item.start, item.start + x.shape[k])
        x = F.concat(around[0], x, around[2], axis=k, offsets=offsets)
    return x


# -- assignment ------------------------------------------------------------------------------------------


def put(op: Op, args: Args, params: Params) -> Any:
    """An assignment specifies what it assigns, and takes away what a masked value leaves unspecified."""
    x, v, *indices = args
    held, own = _vector(x)
    value, given = _vector(v, held.dtype)
    if isinstance(own, Stored):
        mask, at = _replaced(own, given, indices, params)
    else:
        numbers = (_shifted(own, 0, False), to_strided(_shifted(given, own.count, False)))
        mask, at = of_numbers(bind(op, (*numbers, *indices), params)._value)
    return MaskedTensor(_gathered(_joined([held, value]), at), mask)


def _replaced(own: Stored, given: Mask, indices: list[Any], params: Params) -> tuple[Mask, Array]:
    """The mask and the numbers of its entries after an assignment, from those outside and those assigned."""
    shape = own.shape
    read = bind(TABLE["gather" if indices else "index_basic"], (own.numbers, *indices), params)._value
    keep = np.ones(own.count, bool)
    keep[of_numbers(read)[1] - 1] = False
    spread = bind(TABLE["broadcast_to"], (_shifted(given, own.count, False),), {"shape": read.shape})
    assigned, numbers = of_numbers(spread._value)
    rows = assigned.coordinates()
    if indices:
        rows, last = _gathered_from(rows, np.broadcast_arrays(*indices), params["axes"], shape)
        rows, numbers = rows[:, last], numbers[last]
    else:
        rows = _read_from(rows, params["key"])
    before = own.coordinates()[:, keep]
    made = of_coordinates(np.concatenate([before, rows], axis=1), shape).pattern
    return of_numbers(like(made.value(np.concatenate([np.flatnonzero(keep) + 1, numbers])), own.pattern))


def _read_from(rows: Array, key: Any) -> Array:
    """Where in x are the entries of ``x[key]`` at the given indices."""
    found, axis = [], 0
    for item in key:
        if isinstance(item, slice):
            found.append(item.start + item.step * rows[axis])
        elif item is not None:
            found.append(np.full(rows.shape[1], item))
        axis += item is None or isinstance(item, slice)
    return np.array(found).reshape(len(found), rows.shape[1])


def _gathered_from(rows: Array, at: Sequence[Array], axes: Shape, shape: Shape) -> tuple[Array, Array]:
    """Where in x are the entries gathered at index arrays; which are of the last of equal places."""
    lead = at[0].ndim
    position = addresses(rows[:lead], at[0].shape)
    place = addresses(np.array([i.ravel() for i in at]), tuple(shape[k] for k in axes))
    _, from_end = np.unique(place[::-1], return_index=True)
    last = np.zeros(place.size, bool)
    last[place.size - 1 - from_end] = True
    found = np.empty((len(shape), rows.shape[1]), np.int64)
    found[list(axes)] = np.array([i.ravel()[position] for i in at])
    found[[k for k in range(len(shape)) if k not in axes]] = rows[lead:]
    return found, last[position]
