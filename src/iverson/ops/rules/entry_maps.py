"""Entry maps that ops share: of elementwise ops, and of ops that move, reduce or scan entries.

A map that only one op has stands beside the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from math import prod
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.entries import FULL, NOTHING, Box, Entries, Stored, hull, join, meet, plain
from iverson.core.entry_map import Call, EntryMap, Facts
from iverson.core.op import Op
from iverson.core.protocols import Params, Shaped
from iverson.core.region import Region
from iverson.core.relations import Factor, Prefix, Relation, same
from iverson.core.shapes import Shape
from iverson.kernels import region_images
from iverson.kernels.kernel_registry import run_in_layouts
from iverson.kernels.sparse.broadcast_patterns import stretched
from iverson.kernels.sparse.merging import union
from iverson.layouts import Pattern, Zero, is_strided, layouts_by_type, support_pattern, to_strided
from iverson.layouts.pattern_symbols import PatternSymbol, follows


class Entrywise(EntryMap):
    """An entry of the result depends on the same entry of each input, up to broadcasting."""

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the same entry, up to broadcasting."""
        return Relation.aligned(call.out.shape, call.inputs[i].shape)


class Copied(EntryMap):
    """Each entry of the result is one of the inputs that the op is linear in, or 0."""

    indexed = True

    def relation(self, call: Call, i: int) -> Relation:
        """Relation that the op itself shows when it runs on entries numbered from 1; 0 stands for no entry.

        It is the relation of everything to everything if operands with positions are not known.
        """
        linear = {k for group in call.op.groups(len(call.inputs)) for k in group} or {0}
        numbers: list[Any] = []
        for k, x in enumerate(call.inputs):
            if k in linear:
                shape = getattr(x, "shape", ())
                entry_numbers = np.arange(1, prod(shape) + 1) if k == i else np.zeros(prod(shape), np.int64)
                numbers.append(entry_numbers.reshape(shape))
            elif is_strided(x):
                numbers.append(x)
            else:  # positions that are not known here
                return call.everything(i)
        result = call.op.forward(*numbers, **call.params)
        index = to_strided(result) if type(result) in layouts_by_type else np.asarray(result)
        return Relation.indexed(index - 1, call.inputs[i].shape)


class Elementwise(Entrywise):
    """Entry map of elementwise ops; operands of other shapes are broadcast.

    keeps_zeros : see `EntryMap`.
    computed : True if the body computes entries of the result from those of the operands; False for an op
        that says which entries its result has.
    selects : True if the op's derivative is a selection. Values stored on a pattern cannot be one: the entire
        cotangent of a dense operand is computed, even where only part of it is read.
    """

    elementwise = True

    def __init__(self, *, keeps_zeros: bool = False, computed: bool = True, selects: bool = False) -> None:
        self.keeps_zeros = keeps_zeros
        self.selects = selects
        self.family = "elementwise" if computed else ""

    def demand(
        self, op: Op, demands: Sequence[Entries], inputs: Facts, out: Shaped, _params: Params
    ) -> Entries:
        """The entries at which an input is demanded, unless a factor is certainly zero there."""
        shape = out.shape
        stored_demand = _where_stored(demands, inputs, out)
        if stored_demand is not None:
            return stored_demand
        if self.selects:
            pairs = zip(demands, inputs, strict=True)
            demands = [FULL if type(n) is Stored and not _is_stored(x) else n for n, x in pairs]
        shared_demand = _one_pattern(demands, inputs, shape)
        if shared_demand is not None:
            return shared_demand
        if op.linear_in:
            bound = _at_factors(op, demands, inputs, shape)
            if bound is not None:
                return bound
        if op.zero_preserving and (merged := union_of_symbols(demands, shape)) is not None:
            return merged
        return join(_within_boxes(op, k, need, inputs, shape) for k, need in enumerate(demands))

    def support(
        self, _op: Op, where: Entries, i: int, inputs: Facts, out: Shaped, _params: Params
    ) -> Entries:
        """The same entries; for an input that was broadcast, those from which entries of a box come."""
        input_shape = getattr(inputs[i], "shape", ())
        if input_shape == out.shape or where is NOTHING:
            return where
        return Box(where.region.projected(input_shape)) if isinstance(where, Box) else FULL


def _broadcast(need: Entries, shape: Shape, out: Shape) -> Entries:
    """Entries of the result, of shape ``out``, to which demanded ones of an operand are broadcast."""
    if shape == out or need is NOTHING:
        return need
    if isinstance(need, Box):
        return plain(Box(need.region.broadcast(shape, out)), out)
    pattern = stretched(need.pattern, shape, out) if isinstance(need, Stored) else None
    return FULL if pattern is None else Stored(pattern)


def _one_pattern(demands: Sequence[Entries], inputs: Facts, shape: Shape) -> Entries | None:
    """Demand on operands of the result's shape, if all is on one pattern and no support is a box; else None.

    In this case the supports of factors do not bound it further.
    """
    demand: Stored | None = None
    for need, x in zip(demands, inputs, strict=True):
        if type(getattr(x, "support", None)) is Box:
            return None
        if need is not NOTHING:
            if type(need) is not Stored or getattr(x, "shape", ()) != shape:
                return None
            if demand is not None and need.pattern is not demand.pattern:
                return None
            demand = need
    return demand


def _where_stored(demands: Sequence[Entries], inputs: Facts, out: Shaped) -> Entries | None:
    """The entries that the result stores, if each demand is the whole pattern of an operand of its shape.

    The result is 0 elsewhere, whatever the operands store. If only one operand is demanded, and it stores no
    more entries than the result, it is the demand on this operand. None if a demand is anything else.
    """
    pattern = getattr(out.support if type(out) is Aval else out, "pattern", None)
    if pattern is None or pattern.ndim != len(out.shape) or type(pattern) is PatternSymbol:
        return None
    demand: Entries | None = None
    for need, x in zip(demands, inputs, strict=True):
        support = getattr(x, "support", None)
        if type(support) is not Stored or x.shape != out.shape:
            if hasattr(x, "shape"):
                return None
        elif need is not NOTHING:
            if type(need) is not Stored or need.pattern is not support.pattern:
                return None
            demand = need if demand is None and support.pattern.count <= pattern.count else Stored(pattern)
    return demand


def union_of_symbols(demands: Sequence[Entries], shape: Shape) -> Entries | None:
    """The union of the demands if each is on a pattern over all axes and at least one is a symbol; else None.

    To merge known patterns mostly costs more than it saves.
    """
    patterns = [need.pattern for need in demands if type(need) is Stored]
    if PatternSymbol not in map(type, patterns) or len(patterns) < len(demands):
        return None
    if any(p.shape != shape for p in patterns):
        return None
    return Stored(union(patterns, patterns[0]))


def _within_boxes(op: Op, k: int, need: Entries, inputs: Facts, shape: Shape) -> Entries:
    """Entries of the result that depend on demanded ones of input ``k``, within the boxes that bound factors.

    The op is zero outside of these boxes.
    """
    entries = _broadcast(need, getattr(inputs[k], "shape", ()), shape)
    for group in op.groups(len(inputs)) if entries is not NOTHING else ():
        factor = inputs[group[0]]
        support = getattr(factor, "support", FULL)
        if k not in group and len(group) == 1 and type(support) is Box:
            entries = meet(entries, _broadcast(support, factor.shape, shape))
    return entries


def _at_factors(op: Op, demands: Sequence[Entries], inputs: Facts, shape: Shape) -> Entries | None:
    """Entries of the result that depend on demanded ones, on the patterns of sparse factors.

    The op is zero where a factor is. The result is None if no input is sparse or no pattern is worth using.
    """
    patterns = {k: x.support.pattern for k, x in enumerate(inputs) if _is_stored(x)}
    if not patterns:
        return None
    bounds: list[Any] = []
    for k, need in enumerate(demands):
        if need is NOTHING:
            continue
        sparse_factors = [
            g[0] for g in op.groups(len(demands)) if k not in g and len(g) == 1 and g[0] in patterns
        ]
        input_shape = getattr(inputs[k], "shape", ())
        if isinstance(need, Stored):
            factors = [patterns[j] for j in sparse_factors if patterns[j].ndim == len(inputs[j].shape)]
            pattern = (
                need.pattern if input_shape == shape else stretched(need.pattern, input_shape, shape, factors)
            )
        else:
            of_others = (stretched(patterns[j], inputs[j].shape, shape) for j in sparse_factors)
            pattern = next((p for p in of_others if p is not None), None)
            if pattern is not None and type(need) is Box:
                there = meet(Stored(pattern), _broadcast(need, input_shape, shape))
                if not isinstance(there, Stored):  # no factor is stored there
                    continue
                pattern = there.pattern
        if pattern is None:
            return None
        bounds.append(pattern)
    if not bounds:
        return NOTHING
    if any(p.ndim != bounds[0].ndim for p in bounds):
        return None
    merged = union(bounds, bounds[0])
    sparse = isinstance(merged, PatternSymbol) or 2 * merged.count < prod(merged.shape)
    return Stored(merged) if sparse or len(set(bounds)) == 1 else None


def _is_stored(x: Shaped | complex) -> bool:
    return type(getattr(x, "support", None)) is Stored


class Moved(Copied):
    """Entry map of an op that moves entries: each entry of the result is one of input 0, or zero.

    image : ``image(region, shape, *others, **params)``, the region that a region of input 0 moves to.
    partial : see `EntryMap`.
    """

    moves = True
    by_moving = True

    def __init__(self, image: Callable[..., Region | None], *, partial: bool = False) -> None:
        self.partial = partial
        self._image = image

    def image(self, region: Region, shape: Shape, others: Facts, params: Params) -> Region | None:
        """See `EntryMap.image`."""
        return self._image(region, shape, *others, **params)

    def demand(
        self, op: Op, demands: Sequence[Entries], inputs: Facts, out: Shaped, params: Params
    ) -> Entries:
        """Positions that demanded entries move to; all entries if indices are not known (in a trace)."""
        if len(inputs) > 1:
            linear = {k for group in op.groups(len(inputs)) for k in group}
            if any(type(x) is Aval and k not in linear for k, x in enumerate(inputs)):
                return FULL
        need = demands[0]
        if type(need) is Box or (need is FULL and self.partial):
            x, *operands = inputs
            region = hull(need, x.shape)
            image = self.image(region, x.shape, operands, params) if region.size else None
            return NOTHING if image is None else Box(image)
        return self.moved(op, demands, inputs, out, params)

    def moved(
        self, op: Op, demands: Sequence[Entries], inputs: Facts, out: Shaped, params: Params
    ) -> Entries:
        """Positions that the entries of a demanded pattern move to."""
        return moved(op, demands, inputs, out, params)


class Batchwise(EntryMap):
    """Entry map of an op on the last axes: the leading axes broadcast.

    axes : the last axes of each operand and of each result, as in "..,.j->.j". Results have equal positions
        along axes of one letter; along a dot, everything is read.

    >>> a, b = np.ones((2, 2)), np.ones((2, 3))
    >>> Batchwise("..,.j->.j").relation(Call(None, [a, b], b, {}), 1).matrix().nnz
    12
    """

    def __init__(self, axes: str) -> None:
        inputs, results = axes.split("->")
        self._inputs, self._results = inputs.split(","), results.split(",")

    def relation(self, call: Call, i: int) -> Relation:
        """Relation by the letters of the axes (`relation_by_letters`)."""
        return relation_by_letters(
            call.out.shape, call.inputs[i].shape, self._results[call.result], self._inputs[i]
        )


def relation_by_letters(out: Shape, into: Shape, out_letters: str, in_letters: str) -> Relation:
    """Relation whose leading axes broadcast; along last axes with the same letter, positions are equal.

    out_letters, in_letters : a letter, or a dot, for each last axis of the result and of the input.
    """
    first, start = len(out) - len(out_letters), len(into) - len(in_letters)
    factors = [
        same(first + k, start + in_letters.index(c))
        for k, c in enumerate(out_letters)
        if c != "." and c in in_letters
    ]
    return Relation.aligned(out, into, *factors, core=(len(out_letters), len(in_letters)))


_STORED_OR_NOTHING = frozenset((Stored, type(NOTHING)))


def moved(op: Op, demands: Sequence[Entries], inputs: Facts, out: Shaped, params: Params) -> Entries:
    """Positions to which an op that moves entries moves those of demanded patterns.

    If the demand is all that the operands store, these are the entries that the result stores. Otherwise the
    op moves values on the demanded patterns, and the pattern of its result is the answer. It is every entry
    if no demand is a pattern or the result is not on one.
    """
    patterns = [need.pattern for need in demands if isinstance(need, Stored)]
    if not patterns or not _STORED_OR_NOTHING.issuperset(map(type, demands)):
        return FULL
    linear = {k for group in op.groups(len(inputs)) for k in group}
    support = getattr(out, "support", None) if type(out) is Aval else None
    if (
        type(support) is Stored
        and len(patterns) == len(linear)
        and type(support.pattern) is not PatternSymbol
    ):
        supports = [getattr(inputs[k], "support", None) for k in sorted(linear)]
        if list(map(getattr, supports, repeat("pattern"), repeat(None))) == patterns:
            return support

    def make(*patterns: Pattern) -> Pattern | None:
        remaining_patterns = iter(patterns)
        values: list[Any] = []
        for k, (x, need) in enumerate(zip(inputs, demands, strict=True)):
            if isinstance(need, Stored):
                p = next(remaining_patterns)
                values.append(p.value(np.ones((p.count, *x.shape[p.ndim :]), bool)))
            else:
                values.append(Zero(x.shape, x.dtype) if k in linear else x)
        result = run_in_layouts(op, tuple(values), dict(params))
        return support_pattern(result) if type(result) in layouts_by_type else None

    if PatternSymbol not in map(type, patterns):
        pattern = make(*patterns)
    else:
        arrays = [id(x) for k, x in enumerate(inputs) if k not in linear]
        key = op.name, repr(params), tuple(x.shape for x in inputs), tuple(map(type, demands)), tuple(arrays)
        pattern = follows(key, make, *patterns)
    return FULL if pattern is None else Stored(pattern)


class Same(Moved):
    """Entry map of an op that only changes the layout: the result has the entries of its input."""

    moves = by_moving = False

    def __init__(self) -> None:
        super().__init__(lambda region, _shape, **_: region)

    def demand(
        self, _op: Op, demands: Sequence[Entries], _inputs: Facts, _out: Shaped, _params: Params
    ) -> Entries:
        """The demanded entries."""
        return demands[0]

    def support(
        self, _op: Op, where: Entries, _i: int, _inputs: Facts, _out: Shaped, _params: Params
    ) -> Entries:
        """The entries in ``where``."""
        return where

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the same entry."""
        return Relation.aligned(call.out.shape, call.inputs[i].shape)


class Reduced(EntryMap):
    """Entry map of a reduction: an entry depends on the line of input 0 that is reduced to it."""

    def demand(
        self, _op: Op, demands: Sequence[Entries], inputs: Facts, _out: Shaped, params: Params
    ) -> Entries:
        """The box of the entries to which the lines through a demanded box are reduced; else all entries."""
        need = demands[0]
        if not isinstance(need, Box):
            return need if need is NOTHING else FULL
        return Box(
            region_images.summed(
                need.region, inputs[0].shape, axis=params["axis"], keepdims=params["keepdims"]
            )
        )

    def support(
        self, _op: Op, where: Entries, _i: int, inputs: Facts, _out: Shaped, params: Params
    ) -> Entries:
        """All entries of the lines that are reduced to entries of a box; else all entries."""
        if not isinstance(where, Box):
            return where if where is NOTHING else FULL
        axis, keepdims = params["axis"], params["keepdims"]
        region = where.region if keepdims else region_images.expanded(where.region, (), axis=axis)
        return Box(region.along(axis, inputs[0].shape))

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the line that is reduced to the entry."""
        axis, into = call.params["axis"], call.inputs[i].shape
        remaining = [k for k in range(len(into)) if k not in axis]
        out_axes = remaining if call.params["keepdims"] else range(len(remaining))
        return Relation.of(call.out.shape, into, *map(same, out_axes, remaining))


class Along(EntryMap):
    """Entry map of an op along lines: an entry depends on its line along ``axis`` (or ``axes``).

    Shapes agree on the other axes.
    """

    def demand(
        self, _op: Op, demands: Sequence[Entries], inputs: Facts, out: Shaped, params: Params
    ) -> Entries:
        """The lines through demanded boxes, as a box; all entries for other demands."""
        needs = [need for need in demands if need is not NOTHING]
        if not all(isinstance(need, Box) for need in needs):
            return FULL
        return join(Box(self.reached(need.region, out.shape, params)) for need in needs)  # type: ignore[union-attr]

    def support(
        self, _op: Op, where: Entries, i: int, inputs: Facts, _out: Shaped, params: Params
    ) -> Entries:
        """The lines through the entries of a box; else all entries."""
        if not isinstance(where, Box):
            return where if where is NOTHING else FULL
        return Box(self.read(where.region, inputs[i].shape, params))

    def reached(self, region: Region, shape: Shape, params: Params) -> Region:
        """The entries of the result that depend on a region."""
        return region.along(_axes(params), shape)

    def read(self, region: Region, shape: Shape, params: Params) -> Region:
        """The entries of an input that a region depends on."""
        return region.along(_axes(params), shape)

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the line that the entry is in."""
        axes, into = _axes(call.params), call.inputs[i].shape
        other_axes = [same(k, k) for k in range(len(into)) if k not in axes]
        return Relation.of(call.out.shape, into, *other_axes, *self.within_lines(call.params))

    def within_lines(self, _params: Params) -> Sequence[Factor]:
        """Factors on the axes of the line; by default none, as the entire line is read."""
        return ()


class Scanned(Along):
    """Entry map of a scan: an entry of a line depends on itself and on those before it (or behind it)."""

    def reached(self, region: Region, shape: Shape, params: Params) -> Region:
        """The entries of each line from its first demanded entry on."""
        (axis,) = _axes(params)
        low, high = region.start[axis], region.stop[axis]
        return region.on(axis, *((0, high) if params.get("reverse") else (low, shape[axis])))

    def read(self, region: Region, shape: Shape, params: Params) -> Region:
        """The entries of each line up to the last one that the region has."""
        return self.reached(region, shape, {**params, "reverse": not params.get("reverse")})

    def within_lines(self, params: Params) -> Sequence[Factor]:
        """The entries of a line up to an entry's own position."""
        axes = _axes(params)
        return (Factor(Prefix(bool(params.get("reverse"))), axes, axes),)


def _axes(params: Params) -> Shape:
    """The parameter ``axes`` or ``axis`` of a call, as a tuple."""
    if "axes" in params:
        return params["axes"]  # type: ignore[no-any-return]
    axis = params["axis"]
    return axis if isinstance(axis, tuple) else (axis,)


ELEMENTWISE = Elementwise()
COPIED = Copied()
SAME = Same()
REDUCED = Reduced()
ALONG = Along()
SCANNED = Scanned()
