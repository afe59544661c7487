"""Entry map of an op in index notation: its statements' index maps, followed in both directions.

A statement relates the entries it writes to those it reads, at the points of its domain where its guards
hold. A region goes through by interval arithmetic on the points; where the image is no region, the result
is a region that contains it. The map of a program is the composition of those of its statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from iverson.core.entries import FULL, NOTHING, Box, Entries, hull, plain
from iverson.core.entry_map import Call, EntryMap
from iverson.core.op import Op
from iverson.core.protocols import NDArray, Params, Shaped
from iverson.core.region import Region
from iverson.core.relations import Relation
from iverson.core.shapes import Shape
from iverson.expr.affine import Affine
from iverson.te.ir.evaluation_guards import statement_guards
from iverson.te.ir.expressions import Read, Tensor, Var
from iverson.te.ir.index_arithmetic import (
    Constraint,
    affine_of,
    between,
    bounds_under,
    constraints_of,
    interval,
    narrowed,
)
from iverson.te.ir.nodes import Program, recurrence_of
from iverson.te.ops.point_relations import relation_of

#: As many regions as an op keeps the images of, per shapes and direction.
MANY = 256


@dataclass(frozen=True, slots=True)
class Access:
    """The entry of a tensor that a statement writes or reads at a point: an index form per axis."""

    tensor: Tensor
    forms: tuple[Affine, ...]

    @property
    def shape(self) -> Shape:
        return tuple(int(n) for n in self.tensor.shape)


@dataclass(frozen=True, slots=True)
class Link:
    """Dependence of a written entry on an entry that is read, at points of a box that satisfy constraints."""

    read: Access
    written: Access
    axes: tuple[Var, ...]
    constraints: tuple[Constraint, ...]


def links_of(program: Program) -> list[Link]:
    """Links of a program: one for each read of each statement, in order."""
    links = []
    for s in program.statements:
        write_access = Access(s.tensor, tuple(map(affine_of, s.write)))
        for node, guards in statement_guards(s).items():
            if isinstance(node, Read):
                constraints = [c for guard in guards for c in constraints_of(guard) or ()]
                read_access = Access(node.tensor, tuple(map(affine_of, node.indices)))
                links.append(Link(read_access, write_access, s.scope, tuple(constraints)))
    return links


def through(link: Link, source: Access, region: Region, target: Access) -> Region | None:
    """Region of the entries of ``target`` at points where ``source`` is in ``region``; None if it is empty.

    source, target : the two accesses of the link, in either direction.
    """
    constraints = list(link.constraints)
    for form, first, last in zip(source.forms, *region, strict=True):
        constraints += between(form, first, last - 1)
    bounds = narrowed(link.axes, constraints)
    ranges = [*bounds.values(), *((0, interval(c.form, bounds)[1]) for c in constraints)]
    if any(low > high for low, high in ranges):
        return None
    start, stop = [], []
    for form, n in zip(target.forms, target.shape, strict=True):
        low, high = bounds_under(form, constraints, bounds)
        start.append(int(max(low, 0)))
        stop.append(int(min(high + 1, n)))
    return Region(tuple(start), tuple(stop)) if all(map(int.__lt__, start, stop)) else None


Regions = Mapping[Tensor, Region]


def images(links: Iterable[Link], regions: Regions) -> dict[Tensor, Region]:
    """For each tensor, the region of entries that depend on entries of the inputs in ``regions``."""
    return _followed(links, regions, lambda link: (link.read, link.written))


def preimages(links: Sequence[Link], regions: Regions) -> dict[Tensor, Region]:
    """For each tensor, the region of entries on which entries of the results in ``regions`` depend."""
    return _followed(reversed(links), regions, lambda link: (link.written, link.read))


def _followed(
    links: Iterable[Link], regions: Regions, ends: Callable[[Link], tuple[Access, Access]]
) -> dict[Tensor, Region]:
    """Regions of all tensors that the links reach from ``regions``, followed one after the other.

    ends : the source and the target of a link.
    """
    result = dict(regions)
    for link in links:
        source, target = ends(link)
        _whole(result, source.tensor)
        region = result.get(source.tensor)
        image = None if region is None else through(link, source, region, target)
        if image is not None:
            earlier = result.get(target.tensor)
            result[target.tensor] = image if earlier is None else image.hull(earlier)
            _whole(result, target.tensor)
    return result


def _whole(regions: dict[Tensor, Region], tensor: Tensor) -> None:
    """If one member of the tensor's recurrence has a region, give all members the region of all entries.

    Members depend on each other.
    """
    recurrence = recurrence_of(tensor)
    if recurrence is not None and any(t in regions for t in recurrence.members):
        regions |= {t: Region.full(tuple(map(int, t.shape))) for t in recurrence.members}


@dataclass(frozen=True, slots=True)
class Place:
    """Relation between two tensors: entry e of one comes from entry ``turn @ e + offset`` of the other.

    If that is outside of the other tensor, entry e has no source.
    """

    turn: np.ndarray[Any, Any]
    offset: np.ndarray[Any, Any]

    def after(self, other: Place) -> Place:
        """This relation, followed by ``other``, the relation of the tensor that is the source here."""
        return Place(other.turn @ self.turn, other.turn @ self.offset + other.offset)

    def same(self, other: Place) -> bool:
        return np.array_equal(self.turn, other.turn) and np.array_equal(self.offset, other.offset)

    def moved(self, array: NDArray, shape: Shape) -> np.ndarray[Any, Any]:
        """Array of shape ``shape``, in which each entry is its source in ``array``; any entry without one."""
        rank = len(shape)
        if array.shape == shape and self.same(Place(np.eye(rank, dtype=int), np.zeros(rank, int))):
            return array
        at = np.ix_(*map(np.arange, shape))
        index = []
        for row, first, n in zip(self.turn, self.offset, array.shape, strict=True):
            positions = first + sum((c * e for c, e in zip(row, at, strict=True)), np.zeros((1,) * rank, int))
            index.append(np.clip(positions, 0, max(n - 1, 0)))
        return np.broadcast_to(array[tuple(index)], shape)


def single_place(links: Iterable[Link], source: Tensor, result: Tensor) -> Place | None:
    """Relation by which each entry of ``result`` depends on one entry of ``source``.

    The result is None if an entry may depend on several, or if no entry depends on any.
    """
    rank = source.ndim
    places = {source: Place(np.eye(rank, dtype=int), np.zeros(rank, int))}
    for link in links:
        if recurrence_of(link.written.tensor) is not None:
            return None
        before = places.get(link.read.tensor)
        if before is None:
            continue
        link_place = _place(link)
        if link_place is None:
            return None
        place = link_place.after(before)
        if not place.same(places.setdefault(link.written.tensor, place)):
            return None
    return places.get(result)


def _place(link: Link) -> Place | None:
    """Relation of the read to the written tensor; None if data or several points decide on an entry."""
    axes: dict[Any, tuple[int, int, int]] = {}  # by variable: a dimension, a sign and an offset
    for d, (form, n) in enumerate(zip(link.written.forms, link.written.shape, strict=True)):
        if len(form.terms) > 1 or (not form.terms and n > 1):
            return None
        for v, c in form.terms:
            if v in axes or c not in (1, -1):
                return None
            axes[v] = d, c, -c * form.const
    turn = np.zeros((len(link.read.forms), len(link.written.forms)), int)
    offset = np.zeros(len(link.read.forms), int)
    other_axes = {id(v): v for v in link.axes if v not in axes}
    if any(not isinstance(v.lo, int) or v.hi != v.lo + 1 for v in other_axes.values()):
        return None
    for k, form in enumerate(link.read.forms):
        offset[k] = form.const
        for v, c in form.terms:
            if v in axes:
                d, sign, first = axes[v]
                turn[k, d] += c * sign
                offset[k] += c * first
            elif id(v) in other_axes:
                offset[k] += c * other_axes[id(v)].lo
            else:  # it depends on data
                return None
    return Place(turn, offset)


class ProgramMaps:
    """Relations between entries of a program's inputs and of its outputs, which `IndexMaps` reads.

    inputs : the tensors of the regions in `image`, in order; the program need not read all of them.
    """

    def __init__(self, program: Program, inputs: tuple[Tensor, ...]) -> None:
        self.program = program
        self.inputs = inputs
        self._links = cache(lambda: links_of(program))
        self.place = cache(self._place)
        self.image = lru_cache(MANY)(self._image)
        self.preimage = lru_cache(MANY)(self._preimage)

    def _place(self) -> Place | None:
        """Relation of the first input to every output, if it is the same for all outputs; else None."""
        if not self.inputs:
            return None
        places = [single_place(self._links(), self.inputs[0], t) for t in self.program.outputs]
        first = places[0]
        return first if first is not None and all(f is not None and f.same(first) for f in places) else None

    def _image(self, *regions: Region | None) -> tuple[Entries, ...]:
        """For each output, the entries that depend on these regions of the inputs."""
        dependents = images(self._links(), _given(self.inputs, regions))
        return tuple(_entries(dependents.get(t), t) for t in self.program.outputs)

    def _preimage(self, *regions: Region | None) -> tuple[Entries, ...]:
        """For each input, the entries on which these regions of the outputs depend."""
        sources = preimages(self._links(), _given(self.program.outputs, regions))
        return tuple(_entries(sources.get(t), t) for t in self.inputs)


def _given(tensors: Iterable[Tensor], regions: Iterable[Region | None]) -> dict[Tensor, Region]:
    result: dict[Tensor, Region] = {}
    for t, region in zip(tensors, regions, strict=True):
        if region is not None and region.size:
            result[t] = region.hull(result.get(t, region))
    return result


def _entries(region: Region | None, of: Tensor) -> Entries:
    return NOTHING if region is None else plain(Box(region), tuple(int(n) for n in of.shape))


class IndexMaps(EntryMap):
    """The entry map that follows from a program.

    maps : ``maps(inputs, params)`` gives the relations for operands.
    """

    family = "index notation"
    partial = True
    indexed = True

    def __init__(self, maps: Callable[[Sequence[Shaped | complex], Params], ProgramMaps]) -> None:
        self._maps = maps

    def demand(
        self,
        op: Op,
        demands: Sequence[Entries],
        inputs: Sequence[Shaped | complex],
        out: Shaped,
        params: Params,
    ) -> Any:
        """Smallest regions of the results known to contain all entries that depend on demanded ones.

        demands : the entries of the inputs.
        """
        regions = tuple(
            None if need is NOTHING else hull(need, getattr(x, "shape", ()))
            for need, x in zip(demands, inputs, strict=True)
        )
        results = self._maps(inputs, params).image(*regions)
        return results if op.multiple else results[0]

    def support(
        self, op: Op, where: Entries, i: int, inputs: Sequence[Shaped | complex], out: Shaped, params: Params
    ) -> Entries:
        """Smallest region of input i known to contain all entries that are read for the entries ``where``."""
        if op.multiple:
            return FULL
        return self._maps(inputs, params).preimage(hull(where, out.shape))[i]

    def relation(self, call: Call, i: int) -> Relation:
        """Relation of input i to the result: the entries read at the points of each statement, in order."""
        maps = self._maps(call.inputs, call.params)
        return relation_of(maps.program, maps.inputs, call.inputs, i, call.result)
