"""What is computed of each value is the meet of its support and its demand; all else is never read.

    %2 = embed[key=(3, :), ...](%g)     a box       %2 = index_basic[key=(3, :)](%x)
    %3 = cos(%x)                                    %3 = cos(%2)
    %4 = multiply(%2, %3)                   ->      %4 = multiply(%g, %3)
                                                    %5 = embed[key=(3, :), ...](%4)

    %2 = bracket(%c, %g)    a selection
    %3 = multiply(%2, %x)                   ->      %3 = multiply(%g, %x)
    %4 = selected(%3)                               %4 = where(%c, %3, 0)

Demands go backwards, supports forwards. A value that is not computed everywhere is held as a part
(`passes.held`); ops compute on parts what their entry maps say: an elementwise op on the region outside of
which its result is zero or unread, a product on rows and columns, a reduction on whole lines, an op that
moves entries on the part that it moves. All others get zeros in place of what is not there.

What an op does with a selection follows from its record, as for the bracket layout (`kernels.bracket`):
one that is zero where the bracket is computes on all values and carries the condition, one that moves entries
moves the condition too, a sum selects and is held where any of its terms is. All others select first. A
product selects; slices of its contracted axis that are left out as a whole are dropped where it is not finite
(`mended`), and rows and columns that are left out stay so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from iverson.autograd.mode import no_grad
from iverson.autograd.node import differentiated
from iverson.core.aval import Aval
from iverson.core.dispatch import bind, make_handle, value_of
from iverson.core.entries import FULL, NOTHING, Box, Entries, Stored, hull, meet, plain
from iverson.core.op import Op, Params
from iverson.core.region import Region
from iverson.core.table import F
from iverson.graph.dead_code import dead_code
from iverson.graph.nodes import Equation, Graph, Value, values_of
from iverson.graph.operations import is_pure, mended
from iverson.graph.passes.demands import demanded
from iverson.graph.passes.held import Held, Part, is_zero, known, part, read, region_of, selected, zero
from iverson.graph.regions import closed
from iverson.graph.trace import Trace, Traced, trace_flat
from iverson.kernels import keys
from iverson.kernels.box import factors
from iverson.kernels.box_moves import INSIDE
from iverson.layouts import Box as BoxLayout
from iverson.layouts import Bracket
from iverson.ops.entry_maps import Along, Reduced
from iverson.ops.shape import Joined, concat_offsets


def entries(graph: Graph) -> Graph:
    """The graph in which each value is computed where it may be nonzero and is read."""
    with Trace("entries") as level, no_grad():
        level.inputs = list(graph.inputs)
        level.constants = list(graph.constants)
        walk = _Walk(level, graph)
        before = differentiated.get()
        try:
            for equation in graph.equations:
                differentiated.set(equation.where)  # what is written for it is of the same call
                walk.equation(equation)
            made = level.graph([walk.made(x) for x in graph.outputs])
        finally:
            differentiated.set(before)
    return _late(dead_code(made))


#: How parts are taken and put in place.
_PLACING = ("embed", "index_basic")


def _late(graph: Graph) -> Graph:
    """The graph in which parts are taken and put in place just before they are read."""
    waiting: dict[Value, Equation] = {}
    equations: list[Equation] = []

    def fetch(operands: Sequence[Any]) -> None:
        pending = list(reversed(operands))
        while pending:
            x = pending.pop()
            made = waiting.get(x) if type(x) is Value else None
            inner = made.operands[0] if made else None
            if type(inner) is Value and inner in waiting:
                pending += (x, inner)
            elif made:
                equations.append(waiting.pop(x))

    for e in graph.equations:
        if e.op.name in _PLACING:
            waiting[e.results[0]] = e
        else:
            fetch(e.operands)
            equations.append(e)
    fetch(graph.outputs)
    return replace(graph, equations=tuple(equations))


class _Walk:
    """What values have become: handles of the trace, `Held` or `Part`."""

    def __init__(self, level: Trace, graph: Graph) -> None:
        self.level = level
        self.constants = dict(graph.constants)
        _, self.demands, _ = demanded(graph)
        self.known: dict[Value, Any] = {}
        self._made: dict[Any, Any] = {}

    def of(self, x: Any) -> Any:
        """An operand as it is held here."""
        if type(x) is not Value:
            return x
        if x not in self.known:
            self.known[x] = self._found(x)
        return self.known[x]

    def _found(self, x: Value) -> Any:
        """A value that is there from the start, or that an equation made which is as it was."""
        held: Any = self.constants.get(x)
        if type(held) is BoxLayout:
            return Part(held.shape, held.region, make_handle(held.inner))
        if type(held) is Bracket:
            return _bracket_constant(held)
        handle = self.level.handle(x)
        if held is None and isinstance(support := x.aval.support, Box):
            return Part(x.shape, support.region, read(handle, support.region))
        return handle

    def made(self, x: Any) -> Any:
        """An operand with all of its entries, its selection made."""
        found = self.of(x)
        if not isinstance(found, Held | Part):
            return found
        if x not in self._made:
            self._made[x] = selected(found)
        return self._made[x]

    def equation(self, e: Equation) -> None:
        if is_pure(e) and all(v.shape is not None and 0 in v.shape for v in e.results):
            self.known.update((v, make_handle(np.empty(v.shape, v.dtype))) for v in e.results)
            return
        needs = [self.demands.get(v, NOTHING) for v in e.results]
        if all(n is NOTHING for n in needs) and is_pure(e) and all(v.shape is not None for v in e.results):
            self.known.update((v, zero(v.shape, v.dtype)) for v in e.results)
            return
        found = None
        if not e.op.multiple and not any(_is_sparse(x) for x in (*e.operands, *e.results)):
            found = self.carried(e, needs[0])
        if found is not None:
            self.known[e.results[0]] = found
            return
        given = [self.of(x) for x in e.operands]
        if any(isinstance(x, Held | Part) for x in given) and _selects(e):
            self.known.update(zip(e.results, _evaluated(e, [self.made(x) for x in e.operands]), strict=True))
            return
        operands = tuple([self.level.operand(self.made(x)) for x in e.operands])
        self.level.equations.append(replace(e, operands=operands))

    def carried(self, e: Equation, need: Entries) -> Any:
        """The result, of operands as they are held; None where these must be made first."""
        given = [self.of(x) for x in e.operands]
        rule = _RULES.get(e.op.name)
        if rule is not None:
            return rule(e, given, need)
        whole = not any(isinstance(x, Held | Part) for x in given)
        if e.op.elementwise:
            return _elementwise(e, given, need)
        if whole and not isinstance(need, Box):
            return None
        if isinstance(e.op.entry_map, Reduced | Along):
            return _lines(
                e, [self.made(x) if isinstance(x, Held | Part) else x for x in e.operands], given, need
            )
        return _moved(e, given) if e.op.entry_map.moves and not whole else None


def _is_sparse(x: Any) -> bool:
    return type(x) is Value and isinstance(x.aval.support, Stored)


def _selects(e: Equation) -> bool:
    """Whether what is known of a result is of operands that were not made yet."""
    return any(v.aval.support is not FULL for v in e.results)


def _bracket_constant(held: Bracket) -> Any:
    if type(held.values) is BoxLayout:
        box = held.values
        inner = Held(make_handle(box.inner), make_handle(held.condition.inner), held.negated)
        return Part(box.shape, box.region, inner)
    condition = held.condition
    once = tuple(
        slice(1) if s == 0 and n else slice(None)
        for s, n in zip(condition.strides, condition.shape, strict=True)
    )
    return Held(make_handle(held.values), make_handle(condition[once]), held.negated)


def _evaluated(e: Equation, args: Sequence[Any]) -> Sequence[Any]:
    evaluate = getattr(e.op, "evaluate", None)
    if evaluate is not None:
        return evaluate(args, **e.params)  # type: ignore[no-any-return]
    out = bind(e.op, tuple(args), dict(e.params))
    return out if e.op.multiple else (out,)


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
    return _within(condition, selected(x) if isinstance(x, Part) else x, negated, shape, e.results[0].dtype)


def _within(condition: Any, x: Any, negated: bool, shape: Any, dtype: Any = None) -> Held:
    if not isinstance(x, Held):
        if not hasattr(x, "shape"):
            x = F.broadcast_to(F.astype(x, dtype=dtype), shape=())
        return Held(x, condition, negated).stretched(shape)
    outer = Held(x.values, condition, negated).stretched(shape)
    inner = x.stretched(shape)
    return Held(inner.values, F.logical_and(inner.there(), outer.there()), False)


def _selected(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    (x,) = given
    return Part(x.shape, x.region, selected(x.inner)) if isinstance(x, Part) else selected(x)


def _embed(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What a key reads, in its region."""
    (x,) = given
    key, shape = e.params["key"], e.params["shape"]
    if isinstance(x, Part):
        key, x = keys.cut(key, x.region), x.inner
    region = keys.key_region(key, shape)
    if not region.size:
        return _zero(e)
    if keys.is_dense(key):
        return part(shape, region, _reshaped(x, region.shape))
    found = _through(e.op, x, {"key": key, "shape": shape})
    return part(shape, region, read(found, region))


def _reshaped(x: Any, shape: Any) -> Any:
    if x.shape == shape:
        return x
    if isinstance(x, Held):
        return Held(F.reshape(x.values, shape=shape), F.reshape(x.everywhere(), shape=shape), False)
    return F.reshape(x, shape=shape)


# --- elementwise ----------------------------------------------------------------------------------------


def _elementwise(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """The op where its result may be nonzero and is read; None if that is everywhere and nothing is held."""
    region = _where(e, given, need)
    shape = e.results[0].shape
    if not region.size and 0 not in shape:
        return _zero(e)
    if region.covers(shape) and not any(isinstance(x, Held | Part) for x in given):
        return None
    return part(
        shape, region, _entry_by_entry(e.op, [read(x, region) for x in given], e.params, region.shape)
    )


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
    if not around.size and 0 not in shape:
        return _zero(e)
    beside = _side_by_side(terms, regions, around, dtype)
    if beside is not None:
        return part(shape, around, beside)
    found = [read(x, around) for x, own in zip(terms, regions, strict=True) if own.size or 0 in shape]
    if len(found) == 1 and found[0].dtype == dtype:
        return part(shape, around, found[0])
    return part(shape, around, _entry_by_entry(e.op, found, e.params, around.shape))


def _side_by_side(terms: Sequence[Any], regions: Sequence[Region], around: Region, dtype: Any) -> Any:
    """Parts that fill a region without overlap along one axis, joined; None for others."""
    if len(terms) < 2 or any(x.dtype != dtype for x in terms):
        return None
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
    xs = [selected(read(terms[n], regions[n])) for n in order]
    return F.concat(*xs, axis=axis, offsets=tuple(offsets))


def _under_conditions(op: Op, given: Sequence[Any], params: Params, shape: Any) -> Held | None:
    """The op on all values, under the conditions of operands that make it zero; None if none does."""
    zeros = {k for k, x in enumerate(given) if isinstance(x, Held) or is_zero(x)}
    groups = [g for g in op.groups(len(given)) if g and zeros.issuperset(g)]
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
    if all(conditions[0].same(c) for c in conditions[1:]):
        return Held(out, conditions[0].condition, conditions[0].negated)
    return Held(out, reduce(F.logical_and, (c.there() for c in conditions)), False)


# --- products -------------------------------------------------------------------------------------------


def _product(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """Rows and columns of a product, from what both factors have of the contracted axis."""
    a, b = given
    shape = e.results[0].shape
    if is_zero(a) or is_zero(b):
        return _zero(e)
    wanted = hull(plain(need, shape), shape)
    region, of_a, of_b = factors(region_of(a), region_of(b), (a.shape, b.shape), shape, wanted)
    if not region.size or not of_a.size:
        return None if 0 in (*shape, a.shape[-1]) else _zero(e)
    whole = of_a.covers(a.shape) and of_b.covers(b.shape) and region.covers(shape)
    if whole and not isinstance(a, Held) and not isinstance(b, Held):
        return None
    return part(shape, region, _multiplied(e.op, read(a, of_a), read(b, of_b), region.shape))


def _multiplied(op: Op, a: Any, b: Any, shape: Any) -> Any:
    """Selected, then multiplied. Rows of a and columns of b that are left out as a whole stay so."""
    left, right = selected(a), selected(b)
    out = bind(op, (left, right))
    kept = [_contracted(x, axis) for x, axis in ((a, -1), (b, -2))]
    if any(k is not None for k in kept):
        out = _mended(out, left, right, kept)
    lines = []
    for x, axis in ((a, -1), (b, -2)):
        if isinstance(x, Held) and x.condition.shape[axis] == 1:
            there, missing = x.there(), len(shape) - len(x.shape)
            lines.append(F.expand_dims(there, axis=tuple(range(missing))) if missing else there)
    return Held(out, reduce(F.logical_and, lines), False) if lines else out


def _mended(out: Any, a: Any, b: Any, kept: Sequence[Any]) -> Any:
    """A product, looked at where that is least work: the factor across from what is left out may be smaller.

    kept : of a and of b, where slices of the contracted axis hold anything; None if all do. That is found in
        the branch, from what conditions compare.
    """
    held = value_of(out)
    assert isinstance(held, Traced)
    level: Any = held._level
    with level.region() as equations:
        there = reduce(F.logical_and, [k for k in kept if k is not None])
        left = F.where(there, a, 0) if kept[1] is not None else a
        right = F.where(F.expand_dims(there, axis=(1,)), b, 0) if kept[0] is not None else b
        made = level.operand(F.matmul(left, right))
    before = _conditions(equations, level.equations)
    again = closed([*before, *equations], [made], level.constants)
    looked_at = min(
        [out, *(x for x, k in ((a, kept[0]), (b, kept[1])) if k is None)], key=lambda x: prod(x.shape)
    )
    finite, _, _ = trace_flat(_is_finite, [Aval(looked_at.shape, looked_at.dtype)], "is_finite")
    given = (out, looked_at, *map(level.handle, again.inputs))
    return bind(mended, given, {"finite": finite, "again": again})


def _is_finite(x: Any) -> tuple[list[Any], None]:
    return [F.isfinite(F.sum(x, axis=tuple(range(len(x.shape))), keepdims=False))], None


def _conditions(equations: Sequence[Equation], before: Sequence[Equation]) -> list[Equation]:
    """The equations before some that make the conditions which they read."""
    needed = {x for e in equations for x in values_of(e.operands)}
    found = []
    for e in reversed(before):
        if not needed.isdisjoint(e.results) and e.results[0].dtype == bool:
            found.append(e)
            needed.update(values_of(e.operands))
    return found[::-1]


def _contracted(x: Any, axis: int) -> Any:
    """Which slices of the contracted axis hold anything; None if all do, or each is held as every other."""
    if not isinstance(x, Held) or x.condition.shape[axis] == 1:
        return None
    there = x.there()
    rank = len(there.shape)
    others = tuple(k for k in range(rank) if k != rank + axis)
    return F.any(there, axis=others, keepdims=False)


# --- reductions, and ops that move entries -------------------------------------------------------------


def _sum(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What the lines that are read hold, summed; held where any term is."""
    (x,) = given
    if not isinstance(x, Held | Part) and not isinstance(need, Box):
        return None
    if is_zero(x):
        return _zero(e)
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
    if op.name == "index_basic" and keys.reads_everything(params["key"], x.shape):
        return x
    if not isinstance(x, Held):
        return bind(op, (x,), params)
    if op.name == "sum":
        return Held(bind(op, (x.selected(),), params), F.any(x.there(), **params), False)
    if op.name == "permute_dims":
        return Held(bind(op, (x.values,), params), bind(op, (x.condition,), params), x.negated)
    if op.name == "broadcast_to":
        return x.stretched(params["shape"])
    return Held(bind(op, (x.values,), params), bind(op, (x.everywhere(),), params), False)


def _lines(e: Equation, whole: Sequence[Any], given: Sequence[Any], need: Entries) -> Any:
    """A reduction, or an op along axes, of the lines that are read; None where all are."""
    op, out = e.op, e.results[0].aval
    where = plain(need, out.shape)
    if not isinstance(where, Box) or len(given) != 1:
        return None
    if isinstance(op.entry_map, Along):
        axes = e.params.get("axes", e.params.get("axis"))
        where = Box(where.region.along(axes if isinstance(axes, tuple) else (axes,), out.shape))
    own = op.entry_map.support(op, where, 0, [Aval(given[0].shape, given[0].dtype)], out, e.params)
    if not isinstance(own, Box) or not where.region.size or where.region.covers(out.shape):
        return None
    x = selected(read(given[0], own.region))
    if op.abstract(known(x), **e.params).shape != where.region.shape:
        return None
    return part(out.shape, where.region, bind(op, (x,), dict(e.params)))


def _moved(e: Equation, given: Sequence[Any]) -> Any:
    """An op that moves entries, on a part or on selections, of which it moves the conditions too."""
    op, (x, *others) = e.op, given
    inside = INSIDE.get(op.name)
    if isinstance(x, Part) and not others:
        image = op.entry_map.image(x.region, x.shape, others, e.params) if x.region.size else None
        if image is None or not image.size:
            return _zero(e)
        params = inside(x, image, **e.params) if inside is not None else None
        if params is not None:
            return part(e.results[0].shape, image, _through(op, x.inner, params))
        if not isinstance(x.inner, Held):
            y = bind(op, (x.made(),), dict(e.params))
            return part(e.results[0].shape, image, read(y, image))
    if others:
        return None
    return _through(op, x.held() if isinstance(x, Part) else x, e.params)


def _gathered(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What indices read of a part; where they point out of it, nothing is held."""
    x, *indices = given
    if not any(isinstance(v, Held | Part) for v in given):
        return None
    if any(isinstance(n, Held | Part) for n in indices):
        return None
    if isinstance(x, Held):
        x = Part(x.shape, Region.full(x.shape), x)
    axes, shape = e.params["axes"], e.results[0].shape
    arrays = [value_of(n, n) for n in indices]
    if all(type(n) is np.ndarray for n in arrays):
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
    there = [*found[1:], *(_with_axes(c, len(shape)) for c in inside)]
    inner = Held(found[0], reduce(F.logical_and, there), False).stretched(region.shape) if there else found[0]
    return part(shape, region, inner)


def _parts(x: Any) -> tuple[Any, ...]:
    return (x.values, x.everywhere()) if isinstance(x, Held) else (x,)


def _with_axes(x: Any, rank: int) -> Any:
    """x with axes of extent 1 behind its own."""
    missing = tuple(range(len(x.shape), rank))
    return F.expand_dims(x, axis=missing) if missing else x


def _scattered(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """What is held, added up at places; held where any term is."""
    x, *others = given
    if not isinstance(x, Held) or any(isinstance(v, Held | Part) for v in others):
        return None
    there = F.astype(x.everywhere(), dtype=np.dtype(np.float32))
    out, counts = (bind(e.op, (v, *others), dict(e.params)) for v in (x.selected(), there))
    return Held(out, F.greater(counts, 0), False)


def _there(x: Any) -> Any:
    if isinstance(x, Held):
        return x.everywhere()
    if is_zero(x):
        return zero(x.shape, np.dtype(bool))
    return F.broadcast_to(make_handle(np.ones((1,) * len(x.shape), bool)), shape=x.shape)


def _joined(e: Equation, given: Sequence[Any], need: Entries) -> Any:
    """Operands side by side, in the region around what is not zero and read of them."""
    op, shape, places = e.op, e.results[0].shape, e.op.entry_map
    assert isinstance(places, Joined)
    where = hull(plain(need, shape), shape)
    own = [places.place(region_of(x), k, e.params).intersect(where) for k, x in enumerate(given)]
    used = [k for k, x in enumerate(given) if own[k].size and not is_zero(x)]
    if not used:
        return None if 0 in shape else _zero(e)
    around = reduce(Region.hull, (own[k] for k in used))
    if around.covers(shape) and not any(isinstance(x, Held | Part) for x in given):
        return None
    pieces = []
    for k in range(used[0], used[-1] + 1):
        within = places.place(Region.full(given[k].shape), k, e.params).intersect(around)
        pieces.append(read(given[k], places.origin(within, k, e.params)))
    params, dtype = dict(e.params), e.results[0].dtype
    if len(pieces) == 1 and pieces[0].dtype == dtype:
        return part(shape, around, _reshaped(pieces[0], around.shape))
    if "offsets" in params:
        params["offsets"] = concat_offsets([x.shape[params["axis"]] for x in pieces])
    if not any(isinstance(x, Held) for x in pieces):
        return part(shape, around, bind(op, tuple(pieces), params))
    values = [x.values if isinstance(x, Held) else x for x in pieces]
    found, there = (bind(op, tuple(xs), params) for xs in (values, map(_there, pieces)))
    return part(shape, around, Held(found, there, False))


_RULES: dict[str, Callable[[Equation, Sequence[Any], Entries], Any]] = {
    "bracket": _bracket,
    "selected": _selected,
    "embed": _embed,
    "add_n": _added,
    "matmul": _product,
    "sum": _sum,
    "gather": _gathered,
    "scatter_add": _scattered,
    "segment_sum": _scattered,
    "concat": _joined,
    "stack": _joined,
}
