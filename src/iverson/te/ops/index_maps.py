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
    """At the points of a box that satisfy constraints, what is written depends on what is read."""

    read: Access
    written: Access
    axes: tuple[Var, ...]
    constraints: tuple[Constraint, ...]


def links_of(program: Program) -> list[Link]:
    """For each read of each statement, in order, what it ties together."""
    found = []
    for s in program.statements:
        written = Access(s.tensor, tuple(map(affine_of, s.write)))
        for node, guards in statement_guards(s).items():
            if isinstance(node, Read):
                constraints = [c for guard in guards for c in constraints_of(guard) or ()]
                read = Access(node.tensor, tuple(map(affine_of, node.indices)))
                found.append(Link(read, written, s.domain.axes, tuple(constraints)))
    return found


def through(link: Link, source: Access, region: Region, target: Access) -> Region | None:
    """The entries that the link's other end has at the points where this end is in the region, or None."""
    constraints = list(link.constraints)
    for form, first, last in zip(source.forms, *region, strict=True):
        constraints += between(form, first, last - 1)
    known = narrowed(link.axes, constraints)
    ranges = [*known.values(), *((0, interval(c.form, known)[1]) for c in constraints)]
    if any(low > high for low, high in ranges):
        return None
    start, stop = [], []
    for form, n in zip(target.forms, target.shape, strict=True):
        low, high = bounds_under(form, constraints, known)
        start.append(int(max(low, 0)))
        stop.append(int(min(high + 1, n)))
    return Region(tuple(start), tuple(stop)) if all(map(int.__lt__, start, stop)) else None


Regions = Mapping[Tensor, Region]


def images(links: Iterable[Link], given: Regions) -> dict[Tensor, Region]:
    """Of every tensor, the entries that depend on entries of the inputs in the given regions."""
    return _followed(links, given, lambda link: (link.read, link.written))


def preimages(links: Sequence[Link], given: Regions) -> dict[Tensor, Region]:
    """Of every tensor, the entries that entries of the results in the given regions depend on."""
    return _followed(reversed(links), given, lambda link: (link.written, link.read))


def _followed(
    links: Iterable[Link], given: Regions, ends: Callable[[Link], tuple[Access, Access]]
) -> dict[Tensor, Region]:
    found = dict(given)
    for link in links:
        source, target = ends(link)
        _whole(found, source.tensor)
        region = found.get(source.tensor)
        image = None if region is None else through(link, source, region, target)
        if image is not None:
            known = found.get(target.tensor)
            found[target.tensor] = image if known is None else image.hull(known)
            _whole(found, target.tensor)
    return found


def _whole(found: dict[Tensor, Region], tensor: Tensor) -> None:
    """Of a recurrence that is reached, all steps of all members are: they follow from each other."""
    recurrence = recurrence_of(tensor)
    if recurrence is not None and any(t in found for t in recurrence.members):
        found |= {t: Region.full(tuple(map(int, t.shape))) for t in recurrence.members}


@dataclass(frozen=True, slots=True)
class Place:
    """Where entry e of a tensor is read from: entry ``turn @ e + offset`` of another, or nowhere."""

    turn: np.ndarray[Any, Any]
    offset: np.ndarray[Any, Any]

    def after(self, other: Place) -> Place:
        """From where this one's place in a tensor is read, if ``other`` is that of the tensor."""
        return Place(other.turn @ self.turn, other.turn @ self.offset + other.offset)

    def same(self, other: Place) -> bool:
        return np.array_equal(self.turn, other.turn) and np.array_equal(self.offset, other.offset)

    def moved(self, array: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
        """The entries of an array at the places of those of a shape; where there is none, any."""
        rank = len(shape)
        if array.shape == shape and self.same(Place(np.eye(rank, dtype=int), np.zeros(rank, int))):
            return array
        at = np.ix_(*map(np.arange, shape))
        index = []
        for row, first, n in zip(self.turn, self.offset, array.shape, strict=True):
            found = first + sum((c * e for c, e in zip(row, at, strict=True)), np.zeros((1,) * rank, int))
            index.append(np.clip(found, 0, max(n - 1, 0)))
        return np.broadcast_to(array[tuple(index)], shape)


def single_place(links: Iterable[Link], source: Tensor, result: Tensor) -> Place | None:
    """The one entry of ``source`` that an entry of ``result`` depends on; None where that may be several."""
    rank = source.ndim
    known = {source: Place(np.eye(rank, dtype=int), np.zeros(rank, int))}
    for link in links:
        if recurrence_of(link.written.tensor) is not None:
            return None
        before = known.get(link.read.tensor)
        if before is None:
            continue
        own = _place(link)
        if own is None:
            return None
        found = own.after(before)
        if not found.same(known.setdefault(link.written.tensor, found)):
            return None
    return known.get(result)


def _place(link: Link) -> Place | None:
    """Where the entry that is written at a point is read from; None unless each is written at one point."""
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
    rest = {id(v): v for v in link.axes if v not in axes}
    if any(not isinstance(v.lo, int) or v.hi != v.lo + 1 for v in rest.values()):
        return None
    for k, form in enumerate(link.read.forms):
        offset[k] = form.const
        for v, c in form.terms:
            if v in axes:
                d, sign, first = axes[v]
                turn[k, d] += c * sign
                offset[k] += c * first
            elif id(v) in rest:
                offset[k] += c * rest[id(v)].lo
            else:  # it depends on data
                return None
    return Place(turn, offset)


class ProgramMaps:
    """How entries of a program's inputs correspond to those of its outputs: what `IndexMaps` reads.

    inputs : the order of the regions in `image`, some of which the program may not read.
    """

    def __init__(self, program: Program, inputs: tuple[Tensor, ...]) -> None:
        self.program = program
        self.inputs = inputs
        self._links = cache(lambda: links_of(program))
        self.place = cache(self._place)
        self.image = lru_cache(MANY)(self._image)
        self.preimage = lru_cache(MANY)(self._preimage)

    def _place(self) -> Place | None:
        """The entry of the first input that an entry of every output depends on, if it is the same one."""
        if not self.inputs:
            return None
        found = [single_place(self._links(), self.inputs[0], t) for t in self.program.outputs]
        first = found[0]
        return first if first is not None and all(f is not None and f.same(first) for f in found) else None

    def _image(self, *regions: Region | None) -> tuple[Entries, ...]:
        """Of each output, the entries that depend on these of the inputs."""
        reached = images(self._links(), _given(self.inputs, regions))
        return tuple(_entries(reached.get(t), t) for t in self.program.outputs)

    def _preimage(self, *regions: Region | None) -> tuple[Entries, ...]:
        """Of each input, the entries that these of the outputs depend on."""
        reached = preimages(self._links(), _given(self.program.outputs, regions))
        return tuple(_entries(reached.get(t), t) for t in self.inputs)


def _given(tensors: Iterable[Tensor], regions: Iterable[Region | None]) -> dict[Tensor, Region]:
    found: dict[Tensor, Region] = {}
    for t, region in zip(tensors, regions, strict=True):
        if region is not None and region.size:
            found[t] = region.hull(found.get(t, region))
    return found


def _entries(region: Region | None, of: Tensor) -> Entries:
    return NOTHING if region is None else plain(Box(region), tuple(int(n) for n in of.shape))


class IndexMaps(EntryMap):
    """The entry map that follows from a program; ``maps(inputs, params)`` finds them for operands."""

    family = "index notation"
    partial = True
    indexed = True

    def __init__(self, maps: Callable[[Sequence[Any], Mapping[str, Any]], ProgramMaps]) -> None:
        self._maps = maps

    def demand(
        self, op: Any, demands: Sequence[Entries], inputs: Sequence[Any], out: Any, params: Mapping[str, Any]
    ) -> Any:
        """The smallest regions known to hold what depends on the demanded entries."""
        regions = tuple(
            None if need is NOTHING else hull(need, getattr(x, "shape", ()))
            for need, x in zip(demands, inputs, strict=True)
        )
        found = self._maps(inputs, params).image(*regions)
        return found if op.multiple else found[0]

    def support(
        self, op: Any, where: Entries, i: int, inputs: Sequence[Any], out: Any, params: Mapping[str, Any]
    ) -> Entries:
        """The smallest region known to hold what is read for the entries."""
        if op.multiple:
            return FULL
        return self._maps(inputs, params).preimage(hull(where, out.shape))[i]

    def relation(self, call: Call, i: int) -> Relation:
        """The entries that are read at the points of each statement, one statement after the other."""
        maps = self._maps(call.inputs, call.params)
        return relation_of(maps.program, maps.inputs, call.inputs, i, call.result)
