"""Elementwise functions and sums on sparse layouts: the support of the result follows from the op's record.

A sum is nonzero where a term is, a product where all factors are (`Op.linear_in`). For other functions the
kernel evaluates f at zero: if f(0, ..., scalars) is 0, the result keeps the stored entries of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np

from iverson.core.inputs.arrays import repeat, tile
from iverson.core.op import JOINTLY, Op
from iverson.core.protocols import LayoutValue, Params
from iverson.core.python.exact_keys import exact
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.kernels import entry_rules
from iverson.kernels.kernel_registry import Kernel, Values, entries_in_memory, zeros_like_result
from iverson.kernels.sparse.merging import IN_ONE_PASS, in_one_pass, intersection, union
from iverson.kernels.sparse.sparse_operands import broadcast, is_sparse, read, sparse, sparse_only
from iverson.layouts import (
    Box,
    Bracket,
    CooPattern,
    Pattern,
    Sparse,
    Zero,
    coalesced,
    is_strided,
    to_coo,
    to_strided,
)
from iverson.layouts.conversion import like, with_sparse_axes
from iverson.layouts.pattern import addresses, index_dtype, matches

Array = np.ndarray[Any, Any]


def _may_be_zero(value: LayoutValue | complex) -> bool:
    return isinstance(value, Sparse) or type(value) is Zero


def _is_zero_group(values: Sequence[LayoutValue | complex]) -> bool:
    """True if at least one value is sparse or zero, and all others are the number 0.

    Then all values are 0 where the sparse ones store nothing.
    """
    any_array = False
    for v in values:
        if isinstance(v, Sparse) or type(v) is Zero:
            any_array = True
        elif hasattr(v, "shape") or v:
            return False
    return any_array


def _is_zero_at_zero(op: Op, values: Values, params: Params) -> bool:
    """True if all arrays are sparse or zero, and f is 0 where they are, for the numbers of this call."""
    if any(hasattr(v, "shape") and not _may_be_zero(v) for v in values):
        return False
    if op.zero_preserving and all(hasattr(v, "shape") for v in values):
        return True
    probe = [np.zeros((1,), v.dtype) if hasattr(v, "shape") else v for v in values]
    with np.errstate(all="ignore"):
        return not np.any(op.forward(*probe, **params))


@sparse("elementwise", "add_n")
def elementwise(op: Op, values: Values, params: Params) -> Any:
    """Kernel of elementwise functions and sums, at the entries where the result may be nonzero.

    The result is in the layout of the first sparse operand. If nothing bounds its nonzero entries, it is the
    result of `_beside_others`.
    """
    for v in values:
        if getattr(v, "there", None) is not None:
            return _of_selections(elementwise, op, values, params)
    first, on_one = _alike(op, values)
    bounding = _bounding(op, values, params)
    if on_one and first is not None and bounding:
        result = op.forward(*[v.values if isinstance(v, Sparse) else v for v in values], **params)
        if getattr(result, "shape", None) == first.values.shape:
            return type(first)(first.pattern, result)
    shape = _result_shape(op, values, params) if first is None else first.shape
    term = _only_term(op, values, params) if Zero in map(type, values) else None
    if term is not None:
        return term
    if op.linear_in == _PRODUCT and all(map(is_sparse, values)) and values[0].shape != values[1].shape:
        return _product(op, values, shape, params)
    if not bounding:
        return _beside_others(op, values, params)
    operands: Any = values
    if first is None:
        operands = _aligned(values, shape, {k for group in bounding for k in group})
    bounds: list[Pattern] = []
    for group in bounding:
        patterns = [v.pattern for k in group if isinstance(v := operands[k], Sparse)]
        model = bounds[0] if bounds else patterns[0]
        bounds.append(union(patterns, model) if len(patterns) > 1 else patterns[0])
    pattern = intersection(bounds, bounds[0]) if len(bounds) > 1 else bounds[0]
    if op.name in IN_ONE_PASS:
        passed = in_one_pass(op.name, operands[0], operands[1], pattern)
        if passed is not None:
            return pattern.value(passed)
    body = partial(op.forward, **params)
    entries = np.asarray(entry_rules.elementwise(read, body, operands, pattern, shape))
    return pattern.value(_filled(entries, (pattern.count, *shape[pattern.ndim :])))


def _of_selections(kernel: Kernel, op: Op, values: Values, params: Params) -> Any:
    """Result of a kernel for operands of which some are stored selections: a stored selection too."""
    plain = [v.made() if isinstance(v, Sparse) else v for v in values]
    result = kernel(op, tuple(plain), params)
    if isinstance(result, Sparse):
        result.there = _there(op, values, result.shape)
    return result


def _there(op: Op, values: Values, shape: Shape) -> Callable[[], Any] | None:
    """Function for the condition (`Sparse.there`) of an op's result on stored selections; else None."""
    conditions = {k: v.there for k, v in enumerate(values) if isinstance(v, Sparse) and v.there is not None}
    zeros = {*conditions, *(k for k, v in enumerate(values) if type(v) is Zero)}
    groups = [g for g in op.groups(len(values)) if zeros.issuperset(g)]
    if len(zeros) == len(values):
        groups.append(tuple(range(len(values))))
    terms = [[conditions[k] for k in g if k in conditions] for g in groups]
    if not terms or [] in terms:
        return None

    def there() -> Any:
        any_of = (reduce(np.logical_or, [np.broadcast_to(of(), shape) for of in group]) for group in terms)
        return reduce(np.logical_and, any_of)

    return there


def _alike(op: Op, values: Values) -> tuple[Sparse | None, bool]:
    """First sparse operand (None if the operands do not fit it), and whether all operands are on its pattern.

    The others fit if they are numbers, or sparse values of its shape and number of sparse axes. No entry may
    be stored twice, but in a sum of terms on one pattern.
    """
    first: Sparse | None = None
    on_one = distinct = True
    for v in values:
        if isinstance(v, Sparse):
            pattern = v.pattern
            if first is None:
                first = v
            elif pattern is first.pattern and v.shape == first.shape:
                continue
            elif v.shape != first.shape or pattern.ndim != first.pattern.ndim:
                return None, False
            else:
                on_one = False
            distinct = distinct and pattern.distinct
        elif hasattr(v, "shape"):
            return None, False
    if distinct or (on_one and tuple(range(len(values))) in op.groups(len(values))):
        return first, on_one
    return None, False


def _result_shape(op: Op, values: Values, params: Params) -> Shape:
    shape: Shape = next(v.shape for v in values if hasattr(v, "shape"))
    for v in values:
        if hasattr(v, "shape") and v.shape != shape:
            return zeros_like_result(op, values, params).shape  # type: ignore[no-any-return]
    return shape


def _bounding(op: Op, values: Values, params: Params) -> tuple[Any, ...]:
    """Groups of operands such that the result is 0 where all operands of one group are; may be empty."""
    if params:
        return _bounding_of(op, values, params)
    # It follows from the numbers among the operands, and from the types of the others.
    key = op, *[(type(v), v.dtype) if hasattr(v, "dtype") else exact(v) for v in values]
    groups = _known_bounding.get(key)
    if groups is None:
        if len(_known_bounding) >= _MANY:
            _known_bounding.clear()
        groups = _known_bounding[key] = _bounding_of(op, values, params)
    return groups


#: What was found before, for as many calls as are kept; then it starts afresh.
_known_bounding: dict[Any, tuple[Any, ...]] = {}
_MANY = 256


def _bounding_of(op: Op, values: Values, params: Params) -> tuple[Any, ...]:
    groups = tuple([g for g in op.groups(len(values)) if _is_zero_group([values[k] for k in g])])
    if groups or not _is_zero_at_zero(op, values, params):
        return groups
    return (range(len(values)),)


def _only_term(op: Op, values: Values, params: Params) -> Any:
    """Operand x, if the op is ``x + 0`` or ``x - 0`` and x has the result's shape and dtype; else None."""
    if op.name not in ("add", "subtract"):
        return None
    k = 1 if type(values[0]) is Zero else 0
    if k and op.name == "subtract":
        return None
    x, result = values[k], zeros_like_result(op, values, params)
    return x if x.shape == result.shape and x.dtype == result.dtype else None


_PRODUCT = ((0,), (1,))


def _product(op: Op, values: Values, shape: Shape, params: Params) -> Any:
    """Product of two sparse operands that are broadcast to each other: of each pair of entries that meet."""
    a, b = (coalesced(sparse_only(v)) for v in values)
    at = [_stretched_coordinates(v, shape) for v in (a, b)]
    stored_axes = [_axes_held(v, shape) for v in (a, b)]
    common_axes = [k for k in range(len(shape)) if k in stored_axes[0] and k in stored_axes[1]]
    extents = tuple(shape[k] for k in common_axes)
    if common_axes:
        a_positions, b_positions = matches(*(addresses(c[common_axes], extents) for c in at))
    else:  # every pair
        a_positions = repeat(np.arange(a.pattern.count), b.pattern.count)
        b_positions = tile(np.arange(b.pattern.count), a.pattern.count)
    dtype = np.result_type(a.pattern.index_dtype, b.pattern.index_dtype, index_dtype(*shape))
    indices = np.empty((len(shape), a_positions.size), dtype)
    for k in range(len(shape)):
        indices[k] = at[0][k, a_positions] if k in stored_axes[0] else at[1][k, b_positions]
    entries = np.asarray(op.forward(a.entries[a_positions], b.entries[b_positions], **params))
    return like(CooPattern(shape, indices, True).value(entries), a.pattern)


def _axes_held(v: Sparse, shape: Shape) -> set[int]:
    """Axes of ``shape`` along which ``v`` is not broadcast."""
    lead = len(shape) - len(v.shape)
    return {lead + k for k, n in enumerate(v.shape) if n == shape[lead + k]}


def _stretched_coordinates(v: Sparse, shape: Shape) -> Any:
    coordinates = v.pattern.coordinates
    return np.concatenate(
        [np.zeros((len(shape) - len(coordinates), coordinates.shape[1]), coordinates.dtype), coordinates]
    )


def _aligned(values: Values, shape: Shape, bounding: set[int]) -> list[Any]:
    """Operands; each sparse one with its number in ``bounding`` is brought to the shape of the result.

    These then store entries once and have the same number of sparse axes, the largest of any operand. All
    other operands are read at their entries later, and are returned unchanged.
    """
    operands = list(values)
    axes = max([len(shape) - len(v.dense_shape) for v in values if isinstance(v, Sparse)])
    for k in bounding:
        v = values[k]
        fits = not isinstance(v, Sparse) or (
            v.shape == shape and v.pattern.ndim == axes and v.pattern.distinct
        )
        if not fits:
            operands[k] = with_sparse_axes(coalesced(broadcast(v, shape)), axes)
    return operands


def _filled(entries: Array, shape: Shape) -> Any:
    return entries if entries.shape == shape else np.broadcast_to(entries, shape).copy()


def _beside_others(op: Op, values: Values, params: Params) -> Any:
    """Sum of sparse values with arrays or boxes, in one buffer; NotImplemented for anything else.

    The result is strided if a term is an array. Without arrays it is a selection, which leaves out the
    entries that no pattern and no box contains.
    """
    if Box in map(type, values):
        terms = tuple(map(_stored_entries, values))
        if all(map(_may_be_zero, terms)):
            return elementwise(op, terms, params)
    elif prod(getattr(values[0], "shape", ())) < _FEW:
        return NotImplemented
    result = zeros_like_result(op, values, params)
    if tuple(range(len(values))) not in op.groups(len(values)) or any(
        getattr(v, "shape", None) != result.shape for v in values
    ):
        return NotImplemented
    boxes, arrays = [v for v in values if type(v) is Box], [v for v in values if is_strided(v)]
    if len(boxes) + len(arrays) + sum(map(_may_be_zero, values)) < len(values):
        return NotImplemented
    if not boxes and all(entries_in_memory(v) < v.size for v in arrays):  # which says what is made dense
        return NotImplemented
    dense_terms = tuple([None if _may_be_zero(v) else to_strided(v) for v in values])
    total = _of_terms(op, dense_terms, params)
    total = total.astype(result.dtype, copy=False)
    for k, v in enumerate(values):
        if isinstance(v, Sparse):
            v = coalesced(v)
            entries = _of_terms(op, (None,) * k + (v.entries,) + (None,) * (len(values) - k - 1), params)
            total[tuple(v.pattern.coordinates)] += entries
    if arrays:
        return total
    places = [v.pattern if isinstance(v, Sparse) else v.region for v in values if type(v) is not Zero]
    return Bracket(total, partial(_stored_or_boxed, result.shape, places), is_made=True)


#: Sparse values with fewer entries in all are made strided in less time than the stored ones are told apart.
#: Measured for a diagonal and an array (`make calibrate`): 1.6e4 to 6.6e4.
_FEW = 1 << 16


def _of_terms(op: Op, terms: Values, params: Params) -> Any:
    """Result of a sum or difference in which a term that is None counts as 0."""
    if op.linear_in == JOINTLY:
        return op.forward(*[x for x in terms if x is not None], **params)
    return op.forward(*[0 if x is None else x for x in terms], **params)


def _stored_or_boxed(shape: Shape, places: Sequence[Pattern | Region]) -> Array:
    """Mask of the entries that are in one of the patterns and regions ``places``."""
    mask = np.zeros(shape, bool)
    for place in places:
        mask[place.slices if isinstance(place, Region) else tuple(place.coordinates)] = True
    return mask


def _stored_entries(value: LayoutValue | complex) -> Any:
    """COO value of a box with less than half of all entries; any other value is itself."""
    return to_coo(value) if type(value) is Box and 2 * value.region.size < prod(value.shape) else value
