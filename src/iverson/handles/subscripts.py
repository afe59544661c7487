"""Indexing, assignment and ``@``: brought from the form that users write to the ops' canonical form.

NumPy's rules hold: basic keys (integers, slices, None, ...), integer arrays that broadcast together,
boolean masks. Every index is checked here, before a kernel sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import repeat
from operator import setitem as _set
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from iverson.autograd.record import record_assignment
from iverson.core import dtypes
from iverson.core.dispatch import (
    NO_PARAMS,
    Handle,
    Operand,
    Wrapper,
    _default,
    bind,
    cells,
    has_entries,
    make_handle,
)
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IndexingError,
    ShapeError,
    way_in,
)
from iverson.core.float_warnings import at_user_line
from iverson.core.inputs.arrays import plain
from iverson.core.protocols import NDArray, Shaped
from iverson.core.shapes import Shape, as_int, broadcast_shapes
from iverson.handles.views import Linked, as_part
from iverson.kernels.deferred_patterns import is_sparse
from iverson.kernels.index_keys import canonical_slice, key_shape
from iverson.layouts import Sparse, holds_alone, nonzero_indices, to_strided
from iverson.ops import TABLE, F

#: What one axis, or several, are indexed with, and what an array is.
Index: TypeAlias = "SupportsIndex | slice | EllipsisType | Operand | NDArray | Sequence[Index] | None"
Key: TypeAlias = "Index | tuple[Index, ...]"
#: What is assigned to entries.
Source: TypeAlias = "Operand | NDArray | np.generic | complex | Sequence[Source]"

#: What an integer index of several entries is: an array, or a handle whose entries are not known here.
_ARRAYS = (np.ndarray, Handle)


def getitem(x: Linked, key: Key) -> Any:
    """Result of ``x[key]``: a part of ``x`` for a basic key, otherwise a new tensor."""
    shape = x.shape
    if shape and (type(key) is slice or (type(key) is int and -shape[0] <= key < shape[0])):
        first: Any = _canonical((key,), shape)[0] if type(key) is slice else key % shape[0]
        canonical: Any = (first, *map(slice, repeat(0), shape[1:], repeat(1)))
        return as_part(_default[0].bind(_INDEX, (x,), {"key": canonical}), x, canonical)
    rows = key._value if isinstance(key, Handle) else key
    if type(rows) is np.ndarray and rows.dtype.kind in "iu" and rows.shape and shape:
        return _default[0].bind(_GATHER, (x, _checked(rows, shape[0], 0)), _OF_ROWS)
    items, gap = _expand(key, shape)
    if _OF_AXES.issuperset(map(type, items)):
        canonical = _canonical(items, shape)
        return as_part(bind(_INDEX, (x,), {"key": canonical}), x, canonical)
    basic, arrays, axes, target = _split(items, gap, x.shape)
    part = bind(_INDEX, (x,), {"key": basic}) if _reads_part(basic, x.shape) else x
    if (mesh := _open_mesh(arrays)) and is_sparse(x):
        return _at_mesh(part, arrays, axes, mesh, target)
    result = F.gather(part, *arrays, axes=axes)
    return _lead_to(result, arrays[0].ndim, target)


def _open_mesh(arrays: list[NDArray]) -> list[int | None]:
    """Axis along which each index array varies (None for none), if the arrays form an open mesh.

    This is the case if at least two of them vary, each along an axis of its own, as with `numpy.ix_`.
    Otherwise the list is empty.
    """
    along: list[int | None] = []
    if len(arrays) < 2 or not all(isinstance(array, np.ndarray) for array in arrays):
        return []
    for array in arrays:
        varying = [
            d for d, (n, step) in enumerate(zip(array.shape, array.strides, strict=True)) if n > 1 and step
        ]
        if len(varying) > 1:
            return []
        along.append(varying[0] if varying else None)
    distinct = [d for d in along if d is not None]
    return along if len(distinct) == len(set(distinct)) > 1 and 0 not in arrays[0].shape else []


def _at_mesh(x: Shaped, arrays: list[NDArray], axes: Shape, mesh: list[int | None], target: int) -> Any:
    """Result of a read at index arrays that form an open mesh, by reads along one axis after the other.

    So a sparse tensor stays sparse. mesh : from `_open_mesh`. target : the position of the indexed axes in
    the result.
    """
    mesh_shape = arrays[0].shape
    for array, axis, d in zip(arrays, axes, mesh, strict=True):
        at = array[tuple(slice(None) if k == d else 0 for k in range(array.ndim))]
        slices = F.gather(x, np.ravel(at), axes=(axis,))
        x = _lead_to(slices, 1, axis)
    other_axes = [k for k in range(x.ndim) if k not in axes]
    by_d = [axis for _, axis in sorted(zip([-1 if d is None else d for d in mesh], axes, strict=True))]
    x = F.permute_dims(x, axes=(*other_axes[:target], *by_d, *other_axes[target:]))
    extents = tuple(n for k, n in enumerate(x.shape) if k < target or k >= target + len(axes))
    return F.reshape(x, shape=(*extents[:target], *mesh_shape, *extents[target:]))


def setitem(x: Linked, key: Any, value: Any) -> None:
    """Carry out ``x[key] = value``: the handle stands for the result, written in place if nobody else has the
    buffer.
    """
    if not isinstance(value, (Operand, int, float, complex, bool)):
        value = plain(value, "assignment", "value")
    if isinstance(value, Wrapper) and not isinstance(x, Wrapper):
        raise ArgumentTypeError(
            "assignment",
            "value",
            got=f"a {type(value).__name__}",
            expected="a plain Tensor",
            remedy="call to_tensor(fill) on it, or make a masked tensor of the one assigned to",
        )
    _check_value_dtype(x, value)
    if isinstance(key, Wrapper) and not isinstance(x, Wrapper):
        key = as_index(key)
    if _chooses(x, key, value):
        _assign_chosen(x, key, value)
        return
    items, gap = _expand(key, x.shape)
    if _OF_AXES.issuperset(map(type, items)):
        canonical = _canonical(items, x.shape)
        _check_fits(value, key_shape(canonical, x.shape))
        _assign_basic(x, value, canonical)
        return
    basic, arrays, axes, target = _split(items, gap, x.shape)
    part = bind(_INDEX, (x,), {"key": basic}) if _reads_part(basic, x.shape) else x
    lead = arrays[0].ndim
    other_extents = tuple(n for k, n in enumerate(part.shape) if k not in axes)
    shape = (*other_extents[:target], *arrays[0].shape, *other_extents[target:])
    _check_fits(value, shape)
    if getattr(value, "ndim", 0) and target:
        value = F.broadcast_to(value, shape=shape)
        order = (*range(target, target + lead), *range(target), *range(target + lead, len(shape)))
        value = F.permute_dims(value, axes=order)
    part = F.gather_put(part, value, *arrays, axes=axes)
    if _reads_part(basic, x.shape):
        keep = tuple(i for i in basic if i is not None)
        dropped = tuple(k for k, i in enumerate(basic) if i is None)
        part = F.index_put(x, F.squeeze(part, axis=dropped) if dropped else part, key=keep)
    x._become(part)


def _chooses(x: Shaped, key: Any, value: Operand | NDArray | complex) -> bool:
    """Return True if ``key`` is a boolean mask whose entries are not known, and ``value`` fits all its
    positions.

    Such an assignment is carried out by `where`.
    """
    return (
        isinstance(key, Handle)
        and not has_entries(key)
        and not isinstance(x, Wrapper)
        and key.dtype.kind == "b"
        and key.shape == x.shape[: key.ndim]
        and getattr(value, "ndim", 0) <= x.ndim - key.ndim
    )


def _assign_chosen(x: Linked, mask: Shaped, value: Operand | NDArray | complex) -> None:
    _check_fits(value, x.shape[mask.ndim :])
    missing = tuple(range(mask.ndim, x.ndim))
    result = F.where(F.expand_dims(mask, axis=missing) if missing else mask, value, x)
    x._become(result if result.dtype == x.dtype else F.astype(result, dtype=x.dtype))


_write = at_user_line(_set)


def _assign_basic(x: Any, value: Any, key: tuple[Index, ...]) -> None:
    """Assign ``value`` to the entries at a basic key, in place if this handle alone has the buffer."""
    sole = holds_alone(x) and has_entries(value) and cells() is None
    buffer: Any = getattr(x, "_value", None)
    if sole and not _same_buffer(buffer, value):
        raw = to_strided(value._value) if isinstance(value, Handle) else value
        _write(buffer, key, raw)
        x._become(record_assignment(_PUT, x, value, {"key": key}))
        return
    x._become(bind(_PUT, (x, value), {"key": key}))


def _same_buffer(buffer: NDArray, value: Operand | NDArray | complex) -> bool:
    other = value._value if isinstance(value, Handle) else value
    return isinstance(other, np.ndarray) and np.may_share_memory(buffer, other)


def _check_value_dtype(x: Shaped, value: Operand | NDArray | complex) -> None:
    """Raise DTypeError if the dtype of ``value`` cannot be cast to that of ``x``, ArgumentError for a Python
    int too large.
    """
    kind = value.dtype if hasattr(value, "dtype") else np.min_scalar_type(value)
    source = np.dtype(type(value)) if not hasattr(value, "dtype") else kind
    if not dtypes.can_cast(source, x.dtype, "same_kind") and not (
        source.kind in "iub" and x.dtype.kind in "iufcV"
    ):
        raise DTypeError(
            "assignment",
            "value",
            got=f"dtype {source}",
            expected=f"one that fits {x.dtype}",
            remedy="convert it with astype",
        )
    if x.dtype.kind in "iu" and type(value) is int:
        limits = np.iinfo(x.dtype)
        if not limits.min <= value <= limits.max:
            raise ArgumentError(
                "assignment", "value", got=str(value), expected=f"a number that {x.dtype} can hold"
            )


def _check_fits(value: Operand | NDArray | complex, shape: Shape) -> None:
    value_shape = getattr(value, "shape", ())
    if len(value_shape) > len(shape) or broadcast_shapes("assignment", value_shape, shape) != shape:
        raise ShapeError(
            "assignment",
            "value",
            got=f"shape {value_shape}",
            expected=f"a shape that broadcasts to {shape}",
        )


def _expand(key: Any, shape: Shape) -> tuple[list[Any], int]:
    """List with an item for each axis (and None for new axes), and the position of an ellipsis in this list.

    An ellipsis is replaced by slices, a boolean mask by index arrays, and integer arrays are checked. The
    position is that of the first slice for the ellipsis: the ellipsis separates index arrays even if it
    stands for no axis.
    """
    items: list[Any] = []
    axis_count, at = 0, -1
    ellipses = 0
    for item in key if isinstance(key, tuple) else (key,):
        if type(item) not in _BASIC and not (type(item) is np.ndarray and item.dtype.kind in "iu"):
            item = _item(item)
        if item is Ellipsis:
            ellipses, at = ellipses + 1, len(items)
        elif item is not None:
            axis_count += len(item.shape) if type(item) not in _BASIC and item.dtype.kind == "b" else 1
        items.append(item)
    if ellipses > 1:
        raise IndexingError("index", "key", got="several ellipses", expected="at most one")
    if axis_count > len(shape):
        raise IndexingError(
            "index",
            "key",
            got=f"{axis_count} indices",
            expected=f"at most {len(shape)} for shape {shape}",
        )
    fill = [slice(None)] * (len(shape) - axis_count)
    at = at if ellipses else len(items)
    items = [*items[:at], *fill, *items[at + 1 :]]
    result: list[Any] = []
    axis, gap = 0, 0
    for k, item in enumerate(items):
        if k == at:
            gap = len(result)
        if item is None:
            result.append(None)
        elif type(item) is slice:
            result.append(item)
            axis += 1
        elif type(item) is not int and item.dtype.kind == "b":
            rank = len(item.shape)
            extents = shape[axis : axis + rank]
            if item.shape != extents:
                raise IndexingError(
                    "index",
                    "mask",
                    got=f"shape {item.shape}",
                    expected=f"shape {extents} on axis {axis}",
                )
            if rank:
                result.extend(nonzero_indices(item))
            else:
                result.append(np.zeros(int(item), np.intp).view(_OnNewAxis))
            axis += rank
        else:
            result.append(_checked(item, shape[axis], axis))
            axis += 1
    return result, gap


class _OnNewAxis(np.ndarray[Any, Any]):
    """Index array that stands for a mask of rank 0: it takes all or nothing along a new axis of x."""


#: The types of items that are what they say.
_BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
_OF_AXES = frozenset((int, slice, type(None)))


@singledispatch
def as_index(item: Any) -> Any:
    """Plain handle or array that stands for an operand as an index. Wrappers register functions of
    their own.
    """
    return item


def _item(item: Index) -> Any:
    """One item of a key in checked form: int, slice, None, Ellipsis, integer array, boolean mask, or a traced
    handle.

    Raises IndexingError for anything else.
    """
    if item is None or item is Ellipsis or (isinstance(item, (int, slice)) and not isinstance(item, bool)):
        return item
    item = as_index(item)
    if isinstance(item, Handle):
        if not has_entries(item) and item.dtype.kind in "iu":
            return item
        item = item._value if _is_mask(item._value) else to_strided(item._value)
    elif isinstance(item, (list, bool, np.bool_, np.ndarray)):
        item = plain(item, "index", "key")
        item = item.astype(int) if item.size == 0 and item.dtype.kind == "f" else item
    if _is_mask(item):
        return item
    if isinstance(item, np.ndarray):
        if item.dtype.kind not in "iu":
            raise IndexingError(
                "index",
                "key",
                got=f"an array of dtype {item.dtype}",
                expected="integers or booleans",
            )
        return item
    try:
        return as_int(item, "index", "key")
    except ArgumentTypeError:
        raise IndexingError(
            "index",
            "key",
            got=f"{item!r} ({type(item).__name__})",
            expected="integers, slices, None, ..., integer arrays or boolean masks",
            remedy=way_in(item, ""),
        ) from None


def _is_mask(item: Index | Sparse) -> bool:
    """Return True if an item is a boolean value, strided or sparse: it selects the entries at which it is
    True.
    """
    return isinstance(item, (np.ndarray, Sparse)) and item.dtype.kind == "b"


def _checked(item: Handle | NDArray | int, extent: int, axis: int) -> Any:
    """Index with negative positions resolved; raises IndexingError if one is outside of the axis.

    A NumPy array is copied; for a traced handle the check is made when the graph runs.
    """
    if isinstance(item, Handle):
        return F.checked_index(item, extent=extent, operation="index", argument="key")
    low, high = item, item
    if isinstance(item, np.ndarray):
        if not item.size:
            return item.astype(np.intp)
        # Not the array's methods: they are Python functions around these.
        low, high = np.minimum.reduce(item, axis=None), np.maximum.reduce(item, axis=None)
    if low < -extent or high >= extent:
        bad = int(high if high >= extent else low)
        raise IndexingError(
            "index",
            "key",
            got=f"index {bad} on axis {axis}",
            expected=f"one in [{-extent}, {extent})",
        )
    if isinstance(item, np.ndarray):
        item = item.astype(np.intp)  # a copy: what was checked is kept for backward, and the caller may write
        return np.where(item < 0, item + extent, item) if low < 0 else item
    return item + extent if item < 0 else item


def _canonical(items: Sequence[Index], shape: Shape) -> tuple[Any, ...]:
    result, axis = [], 0
    for item in items:
        if isinstance(item, slice):
            try:
                item = canonical_slice(item, shape[axis])
            except (TypeError, ValueError) as error:
                raise IndexingError("index", "slice", got=repr(item), expected=str(error)) from None
        if item is not None:
            axis += 1
        result.append(item)
    return tuple(result)


def _split(
    items: Sequence[Index], gap: int, shape: Shape
) -> tuple[tuple[Any, ...], list[np.ndarray[Any, Any]], Shape, int]:
    """Parts of a key with index arrays: a basic key, the broadcast index arrays, their axes, and a position.

    The basic key is applied first, and the axes are those of its result. The position is that of the indexed
    axes in the final result: 0, unless all index arrays are neighbours.
    """
    advanced = [k for k, i in enumerate(items) if isinstance(i, (*_ARRAYS, int))]
    neighbours = advanced == list(range(advanced[0], advanced[-1] + 1))
    neighbours = neighbours and not advanced[0] < gap <= advanced[-1]
    basic_items = [slice(None) if k in advanced else i for k, i in enumerate(items)]
    basic_items = [None if isinstance(i, _OnNewAxis) else r for r, i in zip(basic_items, items, strict=True)]
    basic = _canonical(basic_items, shape)
    try:
        arrays = _broadcast([items[k] for k in advanced])
    except ValueError:
        shapes = ", ".join(str(getattr(items[k], "shape", ())) for k in advanced)
        raise IndexingError(
            "index",
            "key",
            got=f"index arrays of shapes {shapes}",
            expected="shapes that broadcast together",
        ) from None
    return basic, arrays, tuple(advanced), advanced[0] if neighbours else 0


def _broadcast(indices: list[Any]) -> list[Any]:
    """Index arrays broadcast to one shape; handles whose entries are not known stay handles."""
    first = indices[0]
    if len(indices) == 1 and type(first) is np.ndarray:
        return indices
    if not any(isinstance(i, Handle) for i in indices):
        if all(type(i) is np.ndarray and i.shape == first.shape for i in indices):
            return indices
        return list(np.broadcast_arrays(*map(np.asarray, indices)))
    shape = np.broadcast_shapes(*(np.shape(i) if not isinstance(i, Handle) else i.shape for i in indices))
    return [
        F.broadcast_to(i, shape=shape) if isinstance(i, Handle) else np.broadcast_to(i, shape)
        for i in indices
    ]


def _reads_part(basic: tuple[Index, ...], shape: Shape) -> bool:
    return basic != tuple(map(slice, repeat(0), shape, repeat(1)))


def _lead_to(result: Shaped, lead: int, target: int) -> Any:
    """Array ``result`` with its first ``lead`` axes moved so that they start at ``target``."""
    if not target:
        return result
    order = (*range(lead, lead + target), *range(lead), *range(lead + target, result.ndim))
    return F.permute_dims(result, axes=order)


def matmul(a: Operand | NDArray | np.generic | complex, b: Operand | NDArray | np.generic | complex) -> Any:
    """Result of ``a @ b`` for vectors, matrices and batches: a vector gets an axis, which is then removed
    again.
    """
    a = a if isinstance(a, Operand) else make_handle(np.asarray(a))
    b = b if isinstance(b, Operand) else make_handle(np.asarray(b))
    rows, columns = a.shape, b.shape
    if len(rows) == len(columns) == 2:
        return _default[0].bind(_MATMUL, (a, b), NO_PARAMS)
    if not rows or not columns:
        raise ShapeError(
            "matmul",
            "a" if not rows else "b",
            got="rank 0",
            expected="at least one axis",
            remedy="use *",
        )
    if rows[-1] != columns[-2 if len(columns) > 1 else 0]:
        raise ShapeError(
            "matmul",
            "b",
            got=f"shape {columns} for a of shape {rows}",
            expected=f"extent {rows[-1]} on b's contracted axis",
            remedy="transpose one of them",
        )
    binding = _default[0].bind
    if len(rows) == 1:
        a = binding(_EXPAND, (a,), _FIRST)
    if len(columns) == 1:
        b = binding(_EXPAND, (b,), _SECOND)
    out = binding(_MATMUL, (a, b), NO_PARAMS)
    if len(rows) > 1 < len(columns):
        return out
    last = len(out.shape) - 1
    dropped = (*((last - 1,) if len(rows) == 1 else ()), *((last,) if len(columns) == 1 else ()))
    return binding(_SQUEEZE, (out,), {"axis": dropped})


_INDEX, _PUT, _GATHER = TABLE["index_basic"], TABLE["index_put"], TABLE["gather"]
_MATMUL, _EXPAND, _SQUEEZE = TABLE["matmul"], TABLE["expand_dims"], TABLE["squeeze"]
_OF_ROWS, _FIRST, _SECOND = {"axes": (0,)}, {"axis": (0,)}, {"axis": (1,)}
