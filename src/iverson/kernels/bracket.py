"""Bracket kernels: compute on all values, carry the condition along, and select only where that is required.

The kernel of an op follows from its facts. Where the result is zero because the bracket is, values are
computed freely and keep the condition. An op that moves entries moves the condition along. Sums and products
select, and an entry of their result is left out if all of its terms are. Every other op is computed on the
selected array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from iverson.core.dispatch import make_handle, value_of
from iverson.core.entries import hull
from iverson.core.op import Op
from iverson.core.region import Region
from iverson.core.scalars import keep_where
from iverson.core.shapes import Shape
from iverson.core.table import TABLE
from iverson.kernels import box, index_keys
from iverson.kernels.kernel_registry import ANY_OP, register, run, zeros_like_result
from iverson.kernels.sparse.sparse_operands import read
from iverson.kernels.terms import by_terms
from iverson.layouts import (
    Box,
    Bracket,
    CooPattern,
    Packed,
    Sparse,
    Zero,
    is_strided,
    layouts_by_type,
    select,
    support_of,
    to_strided,
)
from iverson.layouts.bracket import as_selection, by_line, held, is_finite, of_packed

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
    if not isinstance(x, Box | Bracket | Sparse | Packed):
        return NotImplemented
    shape = zeros_like_result(op, values, params).shape
    if x.shape != shape:
        return run(op, (condition, run(TABLE["broadcast_to"], (x,), {"shape": shape})), params)
    if isinstance(condition, Sparse) and isinstance(x, Sparse):
        chosen = np.broadcast_to(read(condition, x.pattern, shape), x.entries.shape)
        negated = params["negated"]
        kept = np.logical_not(chosen) if negated else chosen
        return _of_stored(kept, x, lambda: np.broadcast_to(to_strided(condition), shape) != negated)
    condition = np.asarray(to_strided(condition), bool)
    if condition.shape != shape:
        condition = np.broadcast_to(condition, shape)
    if type(x) is Bracket and x.is_lazy and is_strided(select(x)):  # a select costs less than the condition
        other = Bracket(x.values, condition, params["negated"])
        return Bracket(keep_where(held(other), x.values), _in_both(x, other), is_made=True)
    if type(x) is Bracket:
        both = _met([x, Bracket(x.values, condition, params["negated"])])
        return made(x.values, *both)
    chosen = np.logical_not(condition) if params["negated"] else condition
    if isinstance(x, Sparse):
        return _of_stored(read(chosen, x.pattern, shape), x, lambda: chosen)
    if type(x) is Packed:
        kept = chosen[x.mask]
        return Packed(x.mask, x.values) if kept.all() else Packed(x.mask & chosen, x.values[kept])
    return made(x, chosen)


def _of_stored(kept: Array, x: Sparse, there: Callable[[], Array]) -> Any:
    """A selection among stored entries: those alone are stored, where the layout can hold them alone.

    there : gives the condition at all entries: what is not stored may be a zero like any other.
    """
    own, before, chosen = x.pattern, x.there, there
    if before is not None:
        there = lambda: np.logical_and(chosen(), before())
    made = None
    if kept.all():
        made = own.value(x.entries)  # not x itself: that says that the op is the identity
    elif kept.size == own.count and own.distinct:
        at = np.flatnonzero(kept)
        if len(own.stored_shape) == 1 and (part := own.part(at)).count == at.size:
            made = part.value(x.entries[at])
        elif own.blocksize:  # of blocks, parts are no blocks
            made = CooPattern(own.shape, own.coordinates[:, at], True).value(x.entries[at])
    if made is None:
        return Bracket(to_strided(own.value(keep_where(kept, x.entries))), there(), is_made=True)
    made.there = there
    return made


@register("from_values", Bracket)
def from_values(_op: Op, values: Values, params: Params) -> Any:
    """Of a selection among entries, those alone are stored, and nothing but these is held."""
    (x,) = values
    pattern = params["pattern"]
    kept, chosen = (pattern.kind(pattern, to_strided(v)) for v in (held(x), select(x)))
    return _of_stored(kept.entries, chosen, lambda: to_strided(kept))


def _in_both(*brackets: Bracket) -> Any:
    """A function that gives where all of several brackets are held, and keeps none of their values."""
    own = [b.without_values() for b in brackets]
    return lambda: reduce(_both, map(held, own))


@register("selected", object)
def selected(_op: Op, values: Values, _params: Params) -> Any:
    """The selection made; any other value is itself."""
    (x,) = values
    return x.made() if isinstance(x, Sparse) else select(x)


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


@register(ANY_OP, Packed)
def as_selections(op: Op, values: Values, params: Params) -> Any:
    """Packed operands, where no kernel of their layout fits, as selections that are made."""
    return run(op, tuple(map(of_packed, values)), params)


@register("elementwise", Bracket)
@register("add_n", Bracket)
def elementwise(op: Op, values: Values, params: Params) -> Any:
    """f under the condition of the operands whose zeros make it zero.

    It is computed of all their values, unless several under different conditions make it zero together (in a
    sum): these are selected first, as the other operands are.
    """
    values = tuple(map(of_packed, values))
    count = len(values)
    together = any(len(group) == count for group in op.groups(count))
    if together and not any(map(is_strided, values)):
        values = tuple(map(_of_part, values))
    if together and count > 1:
        for v in values:
            if type(v) is Bracket and v.is_made is None:
                select(v)
    zeros = {k for k, v in enumerate(values) if type(v) in (Bracket, Zero)}
    groups = [g for g in op.groups(count) if zeros.issuperset(g)]
    if op.zero_preserving and len(zeros) == count:
        groups.append(tuple(range(count)))
    chosen = _chosen(op, values)
    if chosen is not None:
        return chosen
    if not groups:  # of boxes among them, no entry outside of them is made
        return run(op, tuple(map(select, values)), params)
    if together and _are_made(values):
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
    if isinstance(out, Sparse):
        own = [c.without_values() for c in conditions]
        kept = (read(to_strided(held(c)), out.pattern, shape) for c in own)
        there = lambda: reduce(np.logical_and, (to_strided(held(c)) for c in own))
        return _of_stored(reduce(np.logical_and, kept), out, there)
    if type(out) is Packed:
        return NotImplemented
    if is_strided(out) and all(c.is_lazy and c.is_made is not False for c in conditions):
        return Bracket(out, _in_both(*conditions), is_made=None)
    return made(out, *_met(conditions))


def _of_part(x: Any) -> Any:
    """A box, or a selection that was stored, as a selection; any other value is itself."""
    if isinstance(x, Sparse):
        return x if x.there is None else Bracket(to_strided(x), x.there(), is_made=True)
    return as_selection(x)


def _are_made(values: Values) -> bool:
    return all(v.is_made for v in values if type(v) is Bracket)


def _sum_of_made(op: Op, values: Values, params: Params) -> Any:
    """What is linear in all operands together, of selections that are made, is one that is made."""
    out = run(op, tuple(map(select, values)), params)
    if not is_strided(out) and type(out) is not Box:
        return out
    terms = [v.without_values() for v in values if type(v) is Bracket]
    return Bracket(out, lambda: _aligned(_held_by_any(terms, out.shape), out), is_made=True)


def _held_by_any(terms: list[Bracket], shape: Shape) -> Any:
    return select(reduce(_either, [held(_stretched(t, shape)) for t in terms]))


def _stretched(x: Bracket, shape: Shape) -> Bracket:
    if x.shape == shape:
        return x
    values = run(TABLE["broadcast_to"], (x.values,), {"shape": shape})

    own = x.without_values()

    def condition() -> Any:
        return run(TABLE["broadcast_to"], (own.condition,), {"shape": shape})

    return Bracket(values, condition if x.is_lazy else condition(), x.negated, is_made=x.is_made)


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
    out, own = run(op, (select(x), *others), params), x.without_values()

    def condition() -> Any:
        return run(op, (held(own), *others), params)  # of booleans, a sum says whether any is True

    if is_strided(out):
        return Bracket(out, condition, is_made=True)
    return made(out, condition())


@register("cumulative_sum", Bracket)
def running_sums(op: Op, values: Values, params: Params) -> Any:
    """Selected, then added up; held from the first term that is held on."""
    (x,) = values
    out = run(op, (select(x),), params)
    if not is_strided(out):
        return out
    own = x.without_values()

    def condition() -> Any:
        return run(op, (to_strided(held(own)).astype(np.float32),), params) > 0

    return Bracket(out, condition, is_made=True)


@register("index notation", Bracket)
@register("index notation", Box)
def in_notation(op: Op, values: Values, params: Params) -> Any:
    """A derivative in index notation that is linear in the selection, as it is carried out eagerly."""
    from iverson.te.ops.operator import expression_of

    own = expression_of(op)
    if own is None or not own.linear or type(values[0]) not in (Bracket, Box):
        return NotImplemented
    made = own.applied(tuple(map(make_handle, (values[0], *map(select, values[1:])))), params)
    return tuple(map(value_of, made)) if op.multiple else value_of(made)


@register("matmul", Bracket)
def matmul(op: Op, values: Values, params: Params) -> Any:
    """Selected, then multiplied.

    A term of which one factor is left out is not in the sum: where the product is not finite, and that an inf
    or nan across from such a zero may be why, its terms are added one by one. Rows of a (columns of b) left
    out by a condition that does not vary along them stay left out.
    """
    values = tuple(map(of_packed, values))
    held = [v.values if type(v) is Bracket else v for v in values]
    if Box in map(type, held) and all(type(v) is Box or is_strided(v) for v in held):
        return _product_of_boxes(op, values, params)
    a, b = select(values[0]), select(values[1])
    plain = is_strided(a) and is_strided(b)
    with np.errstate(invalid="ignore"):  # of inf and nan across from what is left out
        out = op.forward(a, b, **params) if plain else run(op, (a, b), params)
    # One pass; where only the squares overflow, it costs a closer look.
    entries = getattr(out, "inner", out)
    if is_strided(entries) and not is_finite(entries):
        out = by_terms(*map(to_strided, (out, a, b)), *map(_where_held, values))
    if not is_strided(out):
        return out
    own = tuple(map(_as_condition, values))
    return Bracket(out, partial(_held_in_product, own, out.shape), is_made=True)


@register("sampled_product", Bracket)
def sampled_product(op: Op, values: Values, params: Params) -> Any:
    """Entries of a product, of what is selected; held where anything of their lines is in both factors."""
    out, pattern = run(op, tuple(map(select, values)), params), params["pattern"]
    if not is_strided(out) or pattern.ndim != 2:
        return out
    own = [v.without_values() if type(v) is Bracket else None for v in values]

    def there() -> Any:
        lines = [_where_held(x).any(axis=1 - k)[pattern.along(k)] for k, x in enumerate(own) if x is not None]
        return reduce(np.logical_and, lines).reshape(out.shape)

    return Bracket(out, there, is_made=True)


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
    made, own = box.make(shape, region, select(inner)), inner.without_values()
    return Bracket(made, lambda: box.make(shape, region, held(own)), is_made=True)


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


def _held_in_product(values: Values, shape: Shape) -> Any:
    """Where a product has a term: whole rows of a, or columns of b, if one factor alone is a selection."""
    a, b = values
    if all(type(x) is Bracket for x in values):
        there = np.matmul(*(_where_held(x).astype(np.float32) for x in values)) > 0
    elif type(a) is Bracket:
        there = _any_along(_where_held(a), -1)
    else:
        there = _any_along(_where_held(b), -2)
    return np.broadcast_to(there, shape)


def _any_along(condition: Array, axis: int) -> Array:
    if condition.shape[axis] and not condition.strides[axis]:  # the same in all of a line
        return condition[..., :1] if axis == -1 else condition[..., :1, :]
    found: Array = np.any(condition, axis=axis, keepdims=True)
    return found


@register(ANY_OP, Bracket)
def any_other(op: Op, values: Values, params: Params) -> Any:
    """The condition is moved where entries are; otherwise the selection is made first."""
    if op.entry_map.moves:
        found = moved(op, tuple(map(of_packed, values)), params)
        if found is not NotImplemented:
            return found
    return run(op, tuple(select(v) for v in values), params)


@register("pack", Bracket)
@register("pack", Box)
@register("pack", Packed)
@register("unpack", Bracket)
@register("unpack", Box)
def packed(op: Op, values: Values, params: Params) -> Any:
    """Entries picked by a mask, or put back where it holds: where they are held goes along."""
    x, mask = values
    x = as_selection(x)
    if not is_strided(mask) or type(x) is not Bracket:
        return NotImplemented
    parts = [to_strided(op.forward(part, mask, **params)) for part in map(to_strided, (x.values, held(x)))]
    return Bracket(parts[0], parts[1], is_made=x.is_made)


@register("unpack", Packed)
def unpacked(_op: Op, values: Values, _params: Params) -> Any:
    """Packed entries put back where a mask holds."""
    x, mask = values
    if not is_strided(mask) or type(x) is not Packed:
        return NotImplemented
    inside = np.zeros(mask.shape, bool)
    inside[mask] = x.mask
    return Packed(inside, x.values)


@register("values_at", Bracket)
def moved(op: Op, values: Values, params: Params) -> Any:
    """An op that moves entries, on the values and on their conditions."""
    data = {k for group in op.groups(len(values)) for k in group}
    if not all(k in data or is_strided(v) for k, v in enumerate(values)):
        return NotImplemented
    if not all(is_strided(v) or type(v) in (Box, Zero, Bracket) for k, v in enumerate(values) if k in data):
        return NotImplemented
    out = run(op, tuple([v.values if type(v) is Bracket else v for v in values]), params)

    own = [_as_condition(v) if k in data else v for k, v in enumerate(values)]

    def there() -> Any:
        return run(op, tuple([_there(v) if k in data else v for k, v in enumerate(own)]), params)

    of = [v.is_made for v in values if type(v) is Bracket]
    if False not in of and (is_strided(out) or (type(out) is Box and None not in of)):
        return Bracket(out, lambda: _aligned(select(there()), out), is_made=None if None in of else True)
    return made(out, there())


def _as_condition(value: Any) -> Any:
    """A value of which it matters only where it may be nonzero, without its entries."""
    if type(value) is Bracket:
        return value.without_values()
    if type(value) is Box:
        return Box(value.shape, value.region, np.broadcast_to(np.True_, value.region.shape))
    return np.broadcast_to(np.zeros((), value.dtype), value.shape) if is_strided(value) else value


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
    if index_keys.region_through_key(x.region, key, x.shape) is None:
        # Another value: the op is not the identity, though here it changes nothing.
        return Box(x.shape, x.region, x.inner)
    if index_keys.is_dense(key) and index_keys.key_region(key, x.shape).intersect(x.region) == x.region:
        return Zero(x.shape, x.dtype)
    left = np.ones(x.region.shape, bool)
    left[index_keys.key_within(x.region, key, x.shape)] = False
    return Bracket(x, Box(x.shape, x.region, left))


@register("overwritten", Bracket)
def overwritten_selection(op: Op, values: Values, params: Params) -> Any:
    """A selection among what another leaves."""
    (x,) = values
    left = clear(np.broadcast_to(np.True_, x.shape), key=params["key"]).condition
    return made(x.values, *_met([x, Bracket(x.values, left)]))


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
