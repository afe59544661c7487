"""Rules of the pass `support_and_demand`: what an op computes on operands that are held in part or selected.

``rule(equation, operands as they are held, demand of the result)`` gives the result as it is held, or None
where the operands must be made first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import bind, make_handle, value_of
from iverson.core.entries import Box, Entries, hull, meet, plain
from iverson.core.op import Op, Params
from iverson.core.region import Region
from iverson.core.table import TABLE, F
from iverson.graph.ir.nodes import Equation
from iverson.graph.passes.held import Held, Part, is_zero, known, part, read, region_of, selected, zero
from iverson.graph.passes.products import multiplied
from iverson.kernels import index_keys
from iverson.kernels.box import factors
from iverson.kernels.box_moves import INSIDE
from iverson.kernels.bracket import clear
from iverson.layouts import Strided, to_strided
from iverson.ops.moves.shape_ops import Joined, concat_offsets
from iverson.ops.rules.entry_maps import Along
from iverson.te.ops.operator import expression_of


def _where(e: Equation, given: Sequence[Any], need: Entries) -> Region:
    """Where a result may be nonzero and is read."""
    out = e.op.infer(*map(known, given), **e.params)
    return hull(plain(meet(need, out.support), out.shape), out.shape)


def _zero(e: Equation) -> Any:
    return zero(e.results[0].shape, e.results[0].dtype)


# --- selections and parts begin and end -----------------------------------------------------------------


def _bracket(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    condition, x = given
    shape = e.results[0].shape
    negated = e.params["negated"]
    if isinstance(x, Part) and x.shape == shape:
        there = selected(read(condition, x.region))
        return Part(shape, x.region, _within(there, x.inner, negated, x.region.shape))
    condition = selected(condition)
    return _within(condition, x.held() if isinstance(x, Part) else x, negated, shape, e.results[0].dtype)


def _within(condition: Any, x: Any, negated: bool, shape: Any, dtype: Any = None) -> Held:
    if not isinstance(x, Held):
        if not hasattr(x, "shape"):
            x = F.broadcast_to(F.astype(x, dtype=dtype), shape=())
        return Held(x, condition, negated).stretched(shape)
    outer = Held(x.values, condition, negated).stretched(shape)
    inner = x.stretched(shape)
    return Held(inner.values, F.logical_and(inner.there(), outer.there()), False)


def _overwritten(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What a key does not read is held."""
    shape = e.results[0].shape
    there = make_handle(clear(np.broadcast_to(np.True_, shape), **e.params).condition)
    return _bracket(replace(e, params={"negated": False}), (there, *given), need)


def _selected(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """The selection made where it is read."""
    (x,) = given
    if not isinstance(x, Held | Part):
        return x
    region = region_of(x).intersect(hull(plain(need, x.shape), x.shape))
    return part(x.shape, region, selected(read(x, region))) if region.size else _zero(e)


def _values_held(_e: Equation, given: Sequence[Any], _need: Entries) -> Any:
    """The values of a selection, with zeros around those of a part."""
    (x,) = given
    return x.held().values if isinstance(x, Part) else x.values if isinstance(x, Held) else x


def _where_held(_e: Equation, given: Sequence[Any], _need: Entries) -> Any:
    """Where a selection or a part holds values."""
    (x,) = given
    x = x.held() if isinstance(x, Part) else x
    if isinstance(x, Held):
        return x.everywhere()
    return make_handle(np.broadcast_to(np.bool_(not is_zero(x)), x.shape))


def _embed(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What a key reads, in its region."""
    (x,) = given
    key, shape = e.params["key"], e.params["shape"]
    if isinstance(x, Part):
        key, x = index_keys.cut(key, x.region), x.inner
    region = index_keys.key_region(key, shape)
    if not region.size:
        return _zero(e)
    if index_keys.is_dense(key):
        return part(shape, region, _reshaped(x, region.shape))
    place = {"key": key, "shape": shape}
    found = _through(e.op, x, place)
    if e.params.get("held", False) and not isinstance(x, Held):
        there = make_handle(to_strided(e.op.forward(np.ones(x.shape, bool), **place)))
        found = Held(found, there, False, made=True)
    return part(shape, region, read(found, region))


def _reshaped(x: Any, shape: Any) -> Any:
    if x.shape == shape:
        return x
    if isinstance(x, Held):
        there = F.reshape(x.everywhere(), shape=shape)
        return Held(F.reshape(x.values, shape=shape), there, False, x.made)
    return F.reshape(x, shape=shape)


# --- elementwise ----------------------------------------------------------------------------------------


def elementwise(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """The op where its result may be nonzero and is read; None if that is everywhere and nothing is held."""
    region = _where(e, given, need)
    shape = e.results[0].shape
    if not region.size:
        return _zero(e)
    if region.covers(shape) and not any(isinstance(x, Held | Part) for x in given):
        return None
    if any(len(group) == len(given) > 1 for group in e.op.groups(len(given))):
        given = _beside_selections(given)
    return part(
        shape, region, _entry_by_entry(e.op, [read(x, region) for x in given], e.params, region.shape)
    )


def _beside_selections(terms: Sequence[Any]) -> Sequence[Any]:
    """Terms of a sum: beside a selection, what is outside of a part is left out."""
    if not any(isinstance(x, Held) or (isinstance(x, Part) and isinstance(x.inner, Held)) for x in terms):
        return terms
    return [x.held() if isinstance(x, Part) else x for x in terms]


def _entry_by_entry(op: Op, given: Sequence[Any], params: Params, shape: Any) -> Any:
    if any(isinstance(x, Held) for x in given):
        found = _under_conditions(op, given, params, shape)
        if found is not None:
            return found
    return bind(op, tuple(map(selected, given)), dict(params))


def _added(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """A sum of parts, in the region around them; side by side where that is what they are."""
    shape, dtype = e.results[0].shape, e.results[0].dtype
    terms = [x for x in given if not is_zero(x)]
    if not terms:
        return _zero(e)
    wanted = hull(plain(need, shape), shape)
    regions = [region_of(x).intersect(wanted) for x in terms]
    around = reduce(Region.hull, regions)
    if (
        around.covers(shape)
        and len(terms) == len(given)
        and not any(isinstance(x, Held | Part) for x in terms)
    ):
        return None
    if not around.size:
        return _zero(e)
    beside = _side_by_side(terms, regions, around)
    if beside is not None:
        return part(shape, around, _cast(beside, dtype))
    parts = _beside_selections(terms)
    found = [read(x, around) for x, own in zip(parts, regions, strict=True) if own.size]
    found[0] = _cast(found[0], dtype, found[1:])
    if len(found) == 1:
        return part(shape, around, found[0])
    return part(shape, around, _entry_by_entry(e.op, found, e.params, around.shape))


def _cast(x: Any, dtype: Any, others: Sequence[Any] = ()) -> Any:
    """x in the dtype of a result to which all operands lent theirs, if no other one that is left has it."""
    if dtype in [y.dtype for y in (x, *others)]:
        return x
    if isinstance(x, Held):
        return replace(x, values=F.astype(x.values, dtype=dtype))
    return F.astype(x, dtype=dtype)


def _side_by_side(terms: Sequence[Any], regions: Sequence[Region], around: Region) -> Any:
    """Parts that fill a region without overlap along one axis, joined; None for others."""
    differ = [k for k in range(len(around.start)) if len({(r.start[k], r.stop[k]) for r in regions}) > 1]
    if len(differ) != 1:
        return None
    (axis,) = differ
    order = sorted(range(len(terms)), key=lambda n: regions[n].start[axis])
    at = around.start[axis]
    offsets = []
    for n in order:
        if regions[n].start[axis] != at:
            return None
        offsets.append(at - around.start[axis])
        at = regions[n].stop[axis]
    xs = [read(terms[n], regions[n]) for n in order]
    return _end_to_end(TABLE["concat"], xs, {"axis": axis, "offsets": tuple(offsets)})


def _end_to_end(op: Op, pieces: Sequence[Any], params: dict[str, Any]) -> Any:
    """What joins operands of which some may be selections."""
    held = [x for x in pieces if isinstance(x, Held)]
    if not held:
        return bind(op, tuple(pieces), params)
    values = [x.values if isinstance(x, Held) else x for x in pieces]
    found, there = (bind(op, tuple(xs), params) for xs in (values, map(_there, pieces)))
    return Held(found, there, False, all(x.made for x in held))


def _under_conditions(op: Op, given: Sequence[Any], params: Params, shape: Any) -> Held | None:
    """The op on all values, under the conditions of operands that make it zero; None if none does."""
    zeros = {k for k, x in enumerate(given) if isinstance(x, Held) or is_zero(x) or _is_number_zero(x)}
    groups = [g for g in op.groups(len(given)) if zeros.issuperset(g)]
    if op.zero_preserving and len(zeros) == len(given):
        groups.append(tuple(range(len(given))))
    free: set[int] = set()
    conditions: list[Held] = []
    for group in dict.fromkeys(groups):
        terms = [given[k].stretched(shape) for k in group if isinstance(given[k], Held)]
        if not terms:
            continue
        if all(terms[0].same(t) for t in terms[1:]):
            free.update(group)
            conditions.append(terms[0])
        else:
            either = reduce(F.logical_or, (t.there() for t in terms))
            conditions.append(Held(terms[0].values, either, False))
    if not conditions:
        return None
    parts = [
        (x.values if k in free else x.selected()) if isinstance(x, Held) else x for k, x in enumerate(given)
    ]
    out = bind(op, tuple(parts), dict(params))
    together = any(len(g) == len(given) for g in op.groups(len(given)))
    made = together and all(x.made for x in given if isinstance(x, Held))
    if all(conditions[0].same(c) for c in conditions[1:]):
        return Held(out, conditions[0].condition, conditions[0].negated, made)
    return Held(out, reduce(F.logical_and, (c.there() for c in conditions)), False, made)


def _is_number_zero(x: Any) -> bool:
    return type(x) in (int, float) and not x


# --- products -------------------------------------------------------------------------------------------


def _product(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """Rows and columns of a product, from what both factors have of the contracted axis."""
    a, b = given
    shape = e.results[0].shape
    wanted = hull(plain(need, shape), shape)
    region, of_a, of_b = factors(region_of(a), region_of(b), (a.shape, b.shape), shape, wanted)
    if not region.size or not of_a.size:
        return _zero(e) if a.shape[-1] else None
    whole = of_a.covers(a.shape) and region.covers(shape)
    if whole and not isinstance(a, Held) and not isinstance(b, Held):
        return None
    return part(shape, region, multiplied(e.op, read(a, of_a), read(b, of_b), region.shape))


def _sampled(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """Entries of a product of which one factor is a selection, held where anything of its line is."""
    held = [k for k in (0, 1) if _is_selection(given[k])]
    if len(held) != 1 or any(len(x.shape) != 2 for x in given[:2]):
        return None
    (k,) = held
    x = given[k].held() if isinstance(given[k], Part) else given[k]
    at = selected(given[2 + k]) if given[2:] else F.along(e.params["pattern"], k)
    out = bind(e.op, tuple(map(selected, given)), dict(e.params))
    there = F.gather(F.any(x.everywhere(), axis=(1 - k,), keepdims=False), at, axes=(0,))
    return Held(out, F.reshape(there, shape=out.shape), False, made=True)


# --- reductions, and ops that move entries -------------------------------------------------------------


def _sum(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What the lines that are read hold, summed; held where any term is."""
    (x,) = given
    if not isinstance(x, Held | Part) and not isinstance(need, Box):
        return None
    out = e.results[0].aval
    lines = e.op.entry_map.support(e.op, plain(need, out.shape), 0, [known(x)], out, e.params)
    region = region_of(x).intersect(hull(lines, x.shape))
    if not region.size:
        return None if 0 in x.shape else _zero(e)
    inner = _through(e.op, read(x, region), e.params)
    return part(out.shape, e.op.entry_map.image(region, x.shape, (), e.params), inner)


def _through(op: Op, x: Any, params: Params) -> Any:
    """A sum, or an op that moves entries, on what is held: the conditions move along."""
    params = dict(params)
    if op.name == "index_basic" and index_keys.reads_everything(params["key"], x.shape):
        return x
    if not isinstance(x, Held):
        return bind(op, (x,), params)
    if op.name == "sum":
        return Held(bind(op, (x.selected(),), params), F.any(x.there(), **params), False, made=True)
    if op.name == "permute_dims":
        values, condition = (bind(op, (part,), params) for part in (x.values, x.condition))
        return Held(values, condition, x.negated, x.made, (x, tuple(params["axes"])))
    if op.name == "broadcast_to":
        return x.stretched(params["shape"])
    return Held(bind(op, (x.values,), params), bind(op, (x.everywhere(),), params), False, x.made)


def lines(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """A reduction, or an op along axes, of the lines that are read; None where all are."""
    op, out = e.op, e.results[0].aval
    where = plain(need, out.shape)
    if not isinstance(where, Box) or len(given) != 1:
        return None
    if isinstance(op.entry_map, Along):
        axes = e.params.get("axes", e.params.get("axis"))
        where = Box(where.region.along(axes if isinstance(axes, tuple) else (axes,), out.shape))
    own = op.entry_map.support(op, where, 0, [Aval(given[0].shape, given[0].dtype)], out, e.params)
    x = selected(read(given[0], hull(own, given[0].shape)))
    return part(out.shape, where.region, bind(op, (x,), dict(e.params)))


def _running_sum(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What is held, added up along an axis; held from the first term that is held on."""
    (x,) = given
    if not _is_selection(x):
        return lines(e, given, need) if isinstance(x, Part) or isinstance(need, Box) else None
    x = x.held() if isinstance(x, Part) else x
    there = F.astype(x.everywhere(), dtype=np.dtype(np.float32))
    out, counts = (bind(e.op, (v,), dict(e.params)) for v in (x.selected(), there))
    return Held(out, F.greater(counts, 0), False, made=True)


def moved(e: Equation, given: Sequence[Any]) -> Any:
    """An op that moves entries, on a part or on selections, of which it moves the conditions too."""
    op, (x,) = e.op, given
    inside = INSIDE.get(op.name)
    if isinstance(x, Part):
        image = op.entry_map.image(x.region, x.shape, (), e.params)
        if image is None or not image.size:
            return _zero(e)
        params = inside(x, image, **e.params) if inside is not None else None
        if params is not None:
            return part(e.results[0].shape, image, _through(op, x.inner, params))
        if image.size > x.region.size:  # what is read from around the part is left out
            y = _through(op, x.apart(), e.params)
        else:
            y = _through(op, x.held() if isinstance(x.inner, Held) else x.made(), e.params)
        return part(e.results[0].shape, image, read(y, image))
    return _through(op, x, e.params)


def _gathered(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What indices read of a part; where they point out of it, nothing is held."""
    x, *indices = (given[0], *map(selected, given[1:]))
    if not isinstance(x, Held | Part):
        return None
    if isinstance(x, Held):
        x = Part(x.shape, Region.full(x.shape), x)
    axes, shape = e.params["axes"], e.results[0].shape
    arrays = [value_of(n, n) for n in indices]
    if all(type(n) is Strided for n in arrays):
        region = e.op.entry_map.image(x.region, x.shape, arrays, e.params)
    else:  # wherever they point
        lead = shape[: len(shape) - len(x.shape) + len(axes)]
        rest = x.region.permuted(tuple(k for k in range(len(x.shape)) if k not in axes))
        region = Region((*(0 for _ in lead), *rest.start), (*lead, *rest.stop))
    if region is None or not region.size:
        return _zero(e)
    inside, clipped = [], []
    for n, k in zip(indices, axes, strict=True):
        low, high = x.region.start[k], x.region.stop[k]
        if (low, high) != (0, x.shape[k]):
            inside += [F.greater_equal(n, low), F.less(n, high)]
            n = F.subtract(F.minimum(F.maximum(n, low), high - 1), low)
        clipped.append(n)
    found = [bind(e.op, (v, *clipped), {"axes": axes}) for v in _parts(x.inner)]
    lead = len(shape) - len(x.shape) + len(axes)
    there = [*found[1:], *(_with_axes(c, lead, len(shape)) for c in inside)]
    inner = Held(found[0], reduce(F.logical_and, there), False).stretched(region.shape) if there else found[0]
    return part(shape, region, inner)


def _parts(x: Any) -> tuple[Any, ...]:
    return (x.values, x.everywhere()) if isinstance(x, Held) else (x,)


def _with_axes(x: Any, lead: int, rank: int) -> Any:
    """x with the axes of extent 1 that it lacks: in front of its own up to ``lead``, and behind them."""
    missing = (*range(lead - len(x.shape)), *range(lead, rank))
    return F.expand_dims(x, axis=missing) if missing else x


def _scattered(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What is held, added up at places; held where any term is."""
    x, *others = (given[0], *map(selected, given[1:]))
    place = {k: v for k, v in e.params.items() if k != "held"}
    left_out = len(place) < len(e.params)
    if not (left_out or _is_selection(x)):
        return None
    x = x.held() if isinstance(x, Part) else x
    one = np.dtype(np.float32)
    there = F.astype(x.everywhere(), dtype=one) if isinstance(x, Held) else _ones(x.shape, one)
    out, counts = (bind(e.op, (v, *others), place) for v in (selected(x), there))
    return Held(out, F.greater(counts, 0), False, made=True)


def in_notation(e: Equation, given: Sequence[Any]) -> Any:
    """A derivative in index notation, linear in its first operand; held where any entry it is made of is.

    What is made of one entry is computed of all values, what adds up entries of those that are held: term by
    term where a factor may be infinite.
    """
    own = expression_of(e.op)
    if own is None or not own.linear or not given or not _is_selection(given[0]):
        return None
    x, *others = (given[0].held() if isinstance(given[0], Part) else given[0], *map(selected, given[1:]))
    params = dict(e.params)
    there = F.greater(own.counts(x.everywhere(), (x.values, *others), params), 0)
    moves = own.moves((x.values, *others), params)
    if not moves and own.has_poles((x.values, *others), params):
        return Held(own.selected(x.everywhere(), (x.values, *others), params), there, False, made=True)
    out = bind(e.op, (x.values if moves else x.selected(), *others), params)
    return Held(out, there, False, made=not moves)


def _is_selection(x: Any) -> bool:
    return isinstance(x.inner if isinstance(x, Part) else x, Held)


def _unpacked(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What a mask takes apart is held where the mask holds, and what is taken apart is held."""
    x, mask = given[0], selected(given[1])
    x = x.held() if isinstance(x, Part) else x
    params = {**e.params, "held": False}
    if isinstance(x, Held):
        values, there = (bind(e.op, (part, mask), params) for part in (x.values, x.everywhere()))
        return Held(values, there, False, x.made)
    return Held(bind(e.op, (x, mask), params), mask, False, made=True) if e.params.get("held", True) else None


def _packed(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What a mask or a pattern picks of what is held, or what is read of stored entries at places of another
    pattern, which are zeros like any other where it stores none."""
    x, at = given[0], list(map(selected, given[1:]))
    x = x.held() if isinstance(x, Part) else x
    if not isinstance(x, Held):
        return None
    values, left_out = (_picked(e, part, at) for part in (x.values, F.logical_not(x.everywhere())))
    return Held(values, F.logical_not(left_out), False, x.made)


def _picked(e: Equation, x: Any, at: Sequence[Any]) -> Any:
    return F.entries_at(x, **e.params) if e.op.name == "values_at" else bind(e.op, (x, *at), dict(e.params))


def _there(x: Any) -> Any:
    if isinstance(x, Held):
        return x.everywhere()
    return zero(x.shape, np.dtype(bool)) if is_zero(x) else _ones(x.shape, np.dtype(bool))


def _ones(shape: Any, dtype: Any) -> Any:
    return F.broadcast_to(make_handle(np.ones((1,) * len(shape), dtype)), shape=shape)


def _joined(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """Operands side by side, in the region around what is not zero and read of them."""
    op, shape, places = e.op, e.results[0].shape, e.op.entry_map
    assert isinstance(places, Joined)
    where = hull(plain(need, shape), shape)
    own = [places.image_of(region_of(x), k, e.params).intersect(where) for k, x in enumerate(given)]
    used = [k for k, x in enumerate(given) if own[k].size and not is_zero(x)]
    if not used:
        return _zero(e)
    around = reduce(Region.hull, (own[k] for k in used))
    if around.covers(shape) and not any(isinstance(x, Held | Part) for x in given):
        return None
    held = any(map(_is_selection, given))
    pieces = []
    for k in range(used[0], used[-1] + 1):
        within = places.image_of(Region.full(given[k].shape), k, e.params).intersect(around)
        wanted, x = places.origin(within, k, e.params), given[k]
        if held and isinstance(x, Part) and x.region.intersect(wanted) != wanted:
            x = x.held()  # what is outside of it is not held either
        pieces.append(read(x, wanted))
    params, dtype = dict(e.params), e.results[0].dtype
    pieces[0] = _cast(pieces[0], dtype, pieces[1:])
    if len(pieces) == 1:
        return part(shape, around, _reshaped(pieces[0], around.shape))
    if "offsets" in params:
        params["offsets"] = concat_offsets([x.shape[params["axis"]] for x in pieces])
    return part(shape, around, _end_to_end(op, pieces, params))


RULES: dict[str, Callable[[Equation, Sequence[Any], Entries], Any]] = {
    "bracket": _bracket,
    "overwritten": _overwritten,
    "selected": _selected,
    "values_held": _values_held,
    "where_held": _where_held,
    "embed": _embed,
    "add_n": _added,
    "matmul": _product,
    "sum": _sum,
    "gather": _gathered,
    "stored_read": _packed,
    "stored_samples": _sampled,
    "cumulative_sum": _running_sum,
    "sampled_product": _sampled,
    "scatter_add": _scattered,
    "concat": _joined,
    "stack": _joined,
    "pack": _packed,
    "unpack": _unpacked,
    "values_at": _packed,
}


__all__ = ["RULES", "elementwise", "in_notation", "lines", "moved"]
