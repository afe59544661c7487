"""Kernels for the bracket layout: compute on all values, carry the condition, select only where one must.

What an op does with a bracket follows from its facts: where the result is zero because the bracket is, values
are computed freely and keep the condition; an op that moves entries moves the condition along; sums and
products select; everything else is computed on the selected array.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from iverson.core.entries import hull
from iverson.core.op import Op
from iverson.core.region import Region
from iverson.core.scalars import keep_where
from iverson.core.shapes import Shape
from iverson.core.table import TABLE
from iverson.kernels import box, keys
from iverson.kernels.registry import ANY_OP, register, run, zeros_like_result
from iverson.kernels.sparse_forms import read
from iverson.kernels.terms import by_terms
from iverson.layouts import (
    Box,
    Bracket,
    Packed,
    Sparse,
    Zero,
    is_strided,
    layouts_by_type,
    select,
    support_of,
    to_strided,
)
from iverson.layouts.bracket import by_line, held

Values = tuple[Any, ...]
Params = dict[str, Any]
Array = np.ndarray[Any, Any]


def made(values: Any, condition: Any, negated: bool = False) -> Any:
    """A bracket of values and a condition of one shape, which is a box where the values are."""
    values, condition = (x if type(x) in layouts_by_type else np.asarray(x) for x in (values, condition))
    if type(values) is Bracket:  # a kernel left entries out by itself
        chosen = held(Bracket(values.values, select(condition), negated))
        return made(values.values, _both(held(values), chosen))
    condition = select(condition)
    if type(values) is Zero or type(condition) is Zero:
        return Zero(values.shape, values.dtype)
    return Bracket(values, _aligned(condition, values), negated)


def _aligned(condition: Any, values: Any) -> Any:
    """A condition as a bracket of these values holds it."""
    if type(values) is not Box:
        return to_strided(condition)
    region = values.region
    within = condition.read(region) if type(condition) is Box else to_strided(condition)[region.slices]
    return Box(values.shape, region, within)


def bracket(condition: Any, x: Any, *, negated: bool) -> Any:
    """x where the condition holds (does not, if ``negated``): the op's body on strided operands."""
    condition, x = np.asarray(condition, bool), np.asarray(x)
    if x.shape != condition.shape:
        condition, x = np.broadcast_arrays(condition, x)
    return Bracket(x, condition, negated)


@register("bracket", Box)
@register("bracket", Bracket)
@register("bracket", Sparse)
@register("bracket", Packed)
def bracket_of(op: Op, values: Values, params: Params) -> Any:
    """A selection among what a smaller support, or another selection, leaves."""
    condition, x = values
    shape = zeros_like_result(op, values, params).shape
    if not is_strided(condition) or x.shape != shape:
        return NotImplemented
    condition = np.asarray(condition, bool)
    if condition.shape != shape:
        condition = np.broadcast_to(condition, shape)
    if type(x) is Bracket:
        both = _met([x, Bracket(x.values, condition, params["negated"])])
        return made(x.values, *both)
    chosen = np.logical_not(condition) if params["negated"] else condition
    if isinstance(x, Sparse):
        kept = read(chosen, x.pattern, shape)
        return x.pattern.value(keep_where(kept, x.entries))
    if type(x) is Packed:
        return Packed(x.mask, keep_where(chosen[x.mask], x.values))
    return made(x, chosen) if type(x) is Box else NotImplemented


@register("selected", object)
def selected(_op: Op, values: Values, _params: Params) -> Any:
    """The selection made; any other value is itself."""
    return select(values[0])


def _met(brackets: list[Bracket]) -> tuple[Any, bool]:
    """The condition under which all of several brackets of one shape are held, and whether it is negated."""
    first = brackets[0]
    if all(_same(first, b) for b in brackets[1:]):
        return first.condition, first.negated
    return reduce(_both, map(held, brackets)), False


def _both(a: Any, b: Any) -> Any:
    return _combined(np.logical_and, "multiply", a, b)


def _either(a: Any, b: Any) -> Any:
    return _combined(np.logical_or, "add", a, b)


def _combined(f: Any, name: str, a: Any, b: Any) -> Any:
    """Two conditions as one; of boxes, by the op that is the same on booleans and knows boxes."""
    plain = is_strided(a) and is_strided(b)
    return by_line(f, a, b) if plain else run(TABLE[name], (a, b), {})


def _one_condition(a: Bracket, b: Bracket) -> bool:
    """Whether the conditions are one array, or the same view of one."""
    p, q = a.condition, b.condition
    if p is q:
        return True
    if not is_strided(p) or not is_strided(q):
        return False
    return bool(p.shape == q.shape and p.strides == q.strides and p.ctypes.data == q.ctypes.data)


def _same(a: Bracket, b: Bracket) -> bool:
    return a.negated == b.negated and _one_condition(a, b)


@register("elementwise", Bracket)
@register("add_n", Bracket)
def elementwise(op: Op, values: Values, params: Params) -> Any:
    """f under the condition of the operands whose zeros make it zero.

    It is computed of all their values, unless several under different conditions make it zero together (in a
    sum): these are selected first, as the other operands are.
    """
    count = len(values)
    zeros = {k for k, v in enumerate(values) if type(v) in (Bracket, Zero)}
    groups = [g for g in op.groups(count) if zeros.issuperset(g)]
    if op.zero_preserving and len(zeros) == count:
        groups.append(tuple(range(count)))
    chosen = _chosen(op, values)
    if chosen is not None:
        return chosen
    if not groups:  # of boxes among them, no entry outside of them is made
        return run(op, tuple(map(select, values)), params)
    if any(len(group) == count for group in op.groups(count)) and _are_made(values):
        return _sum_of_made(op, values, params)
    shape = zeros_like_result(op, values, params).shape
    free: set[int] = set()
    conditions = []
    for group in groups:
        terms = [_stretched(values[k], shape) for k in group if type(values[k]) is Bracket]
        if all(_same(terms[0], t) for t in terms[1:]):
            free.update(group)
            conditions.append(terms[0])
        else:
            either = reduce(_either, map(held, terms))
            conditions.append(Bracket(terms[0].values, either))
    parts = [v.values if k in free and type(v) is Bracket else select(v) for k, v in enumerate(values)]
    out = run(op, tuple(parts), params)
    return NotImplemented if isinstance(out, Sparse | Packed) else made(out, *_met(conditions))


def _are_made(values: Values) -> bool:
    return all(v.is_made for v in values if type(v) is Bracket)


def _sum_of_made(op: Op, values: Values, params: Params) -> Any:
    """What is linear in all operands together, of selections that are made, is one that is made."""
    out = run(op, tuple(map(select, values)), params)
    if not is_strided(out) and type(out) is not Box:
        return out
    terms = [v for v in values if type(v) is Bracket]
    return Bracket(out, lambda: _aligned(_held_by_any(terms, out.shape), out), is_made=True)


def _held_by_any(terms: list[Bracket], shape: Shape) -> Any:
    return select(reduce(_either, [held(_stretched(t, shape)) for t in terms]))


def _stretched(x: Bracket, shape: Shape) -> Bracket:
    if x.shape == shape:
        return x
    values, condition = (
        run(TABLE["broadcast_to"], (part,), {"shape": shape}) for part in (x.values, x.condition)
    )
    return Bracket(values, condition, x.negated)


def _chosen(op: Op, values: Values) -> Any:
    """[c] a + [not c] b is a choice between a and b: one select, and every entry is held."""
    if op.name not in ("add", "add_n") or len(values) != 2 or not all(type(v) is Bracket for v in values):
        return None
    a, b = values
    if a.negated == b.negated or not is_strided(a.condition) or not _one_condition(a, b):
        return None
    there, elsewhere = (b, a) if a.negated else (a, b)
    return TABLE["where"].forward(there.condition, there.values, elsewhere.values)


@register("sum", Bracket)
@register("scatter_add", Bracket)
def sums(op: Op, values: Values, params: Params) -> Any:
    """Selected, then added up; an entry of the result is held where any of its terms is."""
    x, *others = values
    if not all(map(is_strided, others)):
        return NotImplemented
    out = run(op, (select(x), *others), params)

    def condition() -> Any:
        return run(op, (held(x), *others), params)  # of booleans, a sum says whether any is True

    if is_strided(out):
        return Bracket(out, condition, is_made=True)
    return made(out, condition())


@register("matmul", Bracket)
def matmul(op: Op, values: Values, params: Params) -> Any:
    """Selected, then multiplied.

    A term of which one factor is left out is not in the sum: where the product is not finite, and that an inf
    or nan across from such a zero may be why, its terms are added one by one. Rows of a (columns of b) left
    out by a condition that does not vary along them stay left out.
    """
    held = [v.values if type(v) is Bracket else v for v in values]
    if Box in map(type, held) and all(type(v) is Box or is_strided(v) for v in held):
        return _product_of_boxes(op, values, params)
    a, b = select(values[0]), select(values[1])
    plain = is_strided(a) and is_strided(b)
    with np.errstate(invalid="ignore"):  # of inf and nan across from what is left out
        out = op.forward(a, b, **params) if plain else run(op, (a, b), params)
    # One pass; where only the squares overflow, it costs a closer look.
    entries = getattr(out, "inner", out)
    if is_strided(entries) and not math.isfinite(np.vdot(entries, entries).real):
        out = by_terms(*map(to_strided, (out, a, b)), *map(_where_held, values))
    rows, columns = _lines_left_out(values[0], -1), _lines_left_out(values[1], -2)
    if (rows is None and columns is None) or not is_strided(out):
        return out
    conditions = [np.broadcast_to(c, out.shape) for c in (rows, columns) if c is not None]
    return Bracket(out, reduce(np.logical_and, conditions))


def _product_of_boxes(op: Op, values: Values, params: Params) -> Any:
    """The product of what is in the boxes, of values or of selections."""
    a, b = values
    shape = zeros_like_result(op, values, params).shape
    of_a, of_b = (hull(support_of(v), v.shape) for v in values)
    region, of_a, of_b = box.factors(of_a, of_b, (a.shape, b.shape), shape)
    if not region.size or not of_a.size:
        return Zero(shape, np.result_type(a.dtype, b.dtype))
    inner = run(op, (_cut(a, of_a), _cut(b, of_b)), params)
    if type(inner) is not Bracket:
        return box.make(shape, region, inner)
    values, condition = (box.make(shape, region, x) for x in (inner.values, inner.condition))
    return Bracket(values, condition, inner.negated)


def _cut(x: Any, region: Region) -> Any:
    """The entries in a region, strided or a selection."""
    if type(x) is not Bracket:
        return box.read(x, region)
    return Bracket(box.read(x.values, region), box.read(x.condition, region), x.negated, is_made=x.is_made)


def _where_held(value: Any) -> Any:
    """Where a factor may be nonzero, as a boolean array that broadcasts to its shape."""
    if isinstance(value, Sparse):
        return to_strided(value.pattern.value(np.ones(value.entries.shape, bool)))
    found = held(value) if type(value) is Bracket else np.ones((), bool)
    return np.broadcast_to(to_strided(found), value.shape)


def _lines_left_out(x: Any, axis: int) -> Any:
    """The condition of whole rows of a (columns of b), of one entry or where it is broadcast along them."""
    if type(x) is not Bracket or not is_strided(x.condition):
        return None
    condition = x.condition
    if not condition.shape[axis] or (condition.shape[axis] > 1 and condition.strides[axis]):
        return None
    line = condition[..., :1] if axis == -1 else condition[..., :1, :]
    return ~line if x.negated else line


@register(ANY_OP, Bracket)
def any_other(op: Op, values: Values, params: Params) -> Any:
    """The condition is moved where entries are; otherwise the selection is made first."""
    if op.entry_map.moves:
        found = moved(op, values, params)
        if found is not NotImplemented:
            return found
    return run(op, tuple(select(v) for v in values), params)


def moved(op: Op, values: Values, params: Params) -> Any:
    """An op that moves entries, on the values and on their conditions."""
    data = {k for group in op.groups(len(values)) for k in group}
    if not all(k in data or is_strided(v) for k, v in enumerate(values)):
        return NotImplemented
    if not all(is_strided(v) or type(v) in (Box, Zero, Bracket) for k, v in enumerate(values) if k in data):
        return NotImplemented
    out = run(op, tuple([v.values if type(v) is Bracket else v for v in values]), params)

    def there() -> Any:
        return run(op, tuple([_there(v) if k in data else v for k, v in enumerate(values)]), params)

    if _are_made(values) and (is_strided(out) or type(out) is Box):
        return Bracket(out, lambda: _aligned(select(there()), out), is_made=True)
    return made(out, there())


def _there(value: Any) -> Any:
    """Where a value may be nonzero, as a boolean array in its layout."""
    if type(value) is Bracket:
        return held(value)
    if type(value) is Box:
        return Box(value.shape, value.region, np.ones(value.region.shape, bool))
    return Zero(value.shape, bool) if type(value) is Zero else np.broadcast_to(np.True_, value.shape)


@register("overwritten", Box)
def overwritten(op: Op, values: Values, params: Params) -> Any:
    """Entries cleared in a box: what is left of it."""
    x, key = values[0], params["key"]
    if keys.region_through_key(x.region, key, x.shape) is None:
        # Another value: the op is not the identity, though here it changes nothing.
        return Box(x.shape, x.region, x.inner)
    if keys.is_dense(key) and keys.key_region(key, x.shape).intersect(x.region) == x.region:
        return Zero(x.shape, x.dtype)
    left = np.ones(x.region.shape, bool)
    left[keys.key_within(x.region, key, x.shape)] = False
    return Bracket(x, Box(x.shape, x.region, left))


@register("overwritten", Sparse)
def overwritten_sparse(op: Op, values: Values, params: Params) -> Any:
    """Stored entries that are cleared are left out."""
    return run(TABLE["index_put"], (values[0], Zero((), values[0].dtype)), params)


def clear(x: Array, *, key: Any) -> Bracket:
    """x but for the entries that a key reads: the body on a strided operand."""
    left = np.ones(x.shape, bool)
    left[key] = False
    return Bracket(x, left)


__all__ = ["bracket", "clear"]
