"""A segment of a graph as a program: groups of expressions between products, over planned buffers.

The equations run in rounds: all expressions whose operands are there, as one group that is fused; then all
products and recurrences whose operands are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from iverson.codegen.nodes import Buffer
from iverson.codegen.programs import Product, Program, View, blas, build, whole
from iverson.codegen.programs.nodes import Step, c_strides
from iverson.graph import recurrences
from iverson.graph.expressions import is_expression
from iverson.graph.fuse import Temp, group_steps
from iverson.graph.nodes import Equation, Graph, Value, values_of
from iverson.graph.recurrences import RECURRENCES
from iverson.graph.views import Strided, view

Array = np.ndarray[Any, Any]
Kind = Callable[[Equation], str]


class Segment:
    """Equations that become one program; ``inputs`` and ``outputs`` are its values, in order.

    live : the equations that something wanted depends on.
    """

    def __init__(
        self,
        equations: Sequence[Equation],
        kind: Kind,
        wanted: Sequence[Value],
        constants: Mapping[Value, Any],
    ) -> None:
        self.wanted, self.constants = set(wanted), constants
        self.live = live = _live(equations, self.wanted)
        self.makers = {v: e for e in live for v in e.results}
        self.views: dict[Value, Strided] = {}
        for e in live:
            if kind(e) == "view" and (seen := view(e, self.views)) is not None:
                self.views[e.results[0]] = seen
        self.rounds = self._rounds([e for e in live if kind(e) != "view"], kind)
        #: The last round that reads a value, or a view of it; beyond all rounds for what is wanted.
        self.read_until = dict.fromkeys(self.makers, -1)
        for k, group in enumerate(self.rounds):
            self.read_until |= {self.root(x): k for e in group for x in values_of(e.operands)}
        for v in self.wanted:
            self.read_until[v] = self.read_until[self.root(v)] = len(self.rounds)
        self.buffers: list[Buffer] = []
        self.places: dict[Value, View] = {}
        self.held: dict[str, Array] = {}
        self.kept: dict[int, View] = {}
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.steps: list[Step] = []

    def program(self) -> Program:
        """The program; it fills ``inputs`` and ``outputs``."""
        for k, group in enumerate(self.rounds):
            if self._is_apart(group[0]):
                for e in group:
                    if e.op.name in RECURRENCES:
                        self.recurrence(e)
                    else:
                        self.product(e)
            else:
                self.group(group, k)
        for v in self.views:
            if v in self.wanted:
                self.copy(self.made(v), v)
        return Program("graph", tuple(self.buffers), tuple(self.steps), self.held)

    # --- order ------------------------------------------------------------------------------------

    def root(self, v: Value) -> Value:
        """The value whose memory a value is seen in."""
        return self.views[v].root if v in self.views else v

    def _rounds(self, equations: list[Equation], kind: Kind) -> list[list[Equation]]:
        """Equations by the round in which their operands are there first: a round's expressions, then its
        products and recurrences."""
        self.apart = {id(e) for e in equations if kind(e) in ("product", "recurrence")}
        groups: dict[tuple[int, bool], list[Equation]] = {}
        made: dict[Value, int] = {}
        for e in equations:
            apart = self._is_apart(e)
            number = 0
            for root in map(self.root, values_of(e.operands)):
                if root in made:
                    number = max(number, made[root] + self._is_apart(self.makers[root]))
            groups.setdefault((number, apart), []).append(e)
            made.update(dict.fromkeys(e.results, number))
        return [groups[key] for key in sorted(groups)]

    def _is_apart(self, e: Equation) -> bool:
        """Whether an equation has steps of its own, and is not fused with others."""
        return id(e) in self.apart

    # --- memory -----------------------------------------------------------------------------------

    def buffer(self, role: str, dtype: Any, shape: tuple[int, ...]) -> Buffer:
        self.buffers.append(Buffer(f"{role}{len(self.buffers)}", dtype, shape, role))
        return self.buffers[-1]

    def temp(self, _name: str, dtype: Any, shape: tuple[int, ...]) -> Buffer:
        return self.buffer("temp", dtype, shape)

    def made(self, v: Value) -> View:
        """Where a value is to be made."""
        role = "out" if v in self.wanted else "temp"
        if role == "out":
            self.outputs.append(v)
        self.places[v] = whole(self.buffer(role, v.dtype, v.shape))
        return self.places[v]

    def place(self, v: Value) -> View:
        """Where a value is; what the segment does not make is an input or a constant."""
        if v in self.views and v not in self.places:
            seen = self.views[v]
            return View(self.place(seen.root).buffer, seen.shape, seen.strides, seen.offset)
        if v not in self.places:
            array = self.constants.get(v)
            if type(array) is np.ndarray:
                self.places[v] = self.hold(array)
            else:
                self.inputs.append(v)
                self.places[v] = whole(self.buffer("in", v.dtype, v.shape))
        return self.places[v]

    def hold(self, array: Array) -> View:
        """Where a constant array is."""
        found = self.kept.get(id(array))
        if found is None:
            found = self.kept[id(array)] = whole(self.buffer("const", array.dtype, array.shape))
            self.held[found.buffer.name] = array
        return found

    # --- expressions ------------------------------------------------------------------------------

    def group(self, group: list[Equation], k: int) -> None:
        own = _Group(self, {v for e in group for v in e.results})
        for e in group:
            own.add(e)
        outputs = {v: self.made(v) for e in group for v in e.results if self.read_until[v] > k}
        if outputs:
            self.steps += own.steps(outputs, self.temp)

    def copy(self, out: View, v: Value) -> None:
        """A value into a buffer of its own."""
        own = _Group(self, set())
        own.read(v, copied=True)
        self.steps += own.steps({v: out}, self.temp)

    # --- recurrences ------------------------------------------------------------------------------

    def recurrence(self, e: Equation) -> None:
        axis, (v,) = e.params["axis"], e.results
        operands = [_stretched(self.place(x), v.shape) for x in e.operands]
        out = self.made(v)
        lines, shape = out, (v.shape[axis], *v.shape[:axis], *v.shape[axis + 1 :])
        if axis:
            lines = whole(self.buffer("temp", v.dtype, shape))
        self.steps += recurrences.steps(e, operands, lines, f"k{len(self.steps)}")
        if axis:
            inner = lines.strides[1:]
            strides = (*inner[:axis], lines.strides[0], *inner[axis:])
            self.steps.append(build.copy(out, View(lines.buffer, v.shape, strides)))

    # --- products ---------------------------------------------------------------------------------

    def product(self, e: Equation) -> None:
        left, right = (self.place(x) for x in e.operands)
        out = self.made(e.results[0])
        batch = out.shape[:-2]
        if batch and prod(right.shape[:-2]) == 1 and (rows := _folded(left, batch)) is not None:
            right = View(right.buffer, right.shape[-2:], right.strides[-2:], right.offset)
            left, shape = rows, (prod(out.shape[:-1]), out.shape[-1])
            out = View(out.buffer, shape, c_strides(shape))
        else:
            left, right = _spread(left, batch), _spread(right, batch)
        if blas.call(Product(out, left, right)) is None:
            left, right = (
                v if blas.matrix(v) is not None else _spread(self._compact(x), batch)
                for v, x in ((left, e.operands[0]), (right, e.operands[1]))
            )
        self.steps.append(build.product(out, left, right))

    def _compact(self, x: Value) -> View:
        out = whole(self.buffer("temp", x.dtype, x.shape))
        self.copy(out, x)
        return out


def _live(equations: Sequence[Equation], wanted: set[Value]) -> list[Equation]:
    """The equations that something wanted depends on."""
    needed = set(wanted)
    found = []
    for e in reversed(equations):
        if any(v in needed for v in e.results):
            needed.update(values_of(e.operands))
            found.append(e)
    return found[::-1]


def _stretched(v: View, shape: tuple[int, ...]) -> View:
    """A view broadcast to a shape."""
    missing = len(shape) - len(v.shape)
    strides = tuple(0 if n == 1 else s for n, s in zip(v.shape, v.strides, strict=True))
    return View(v.buffer, shape, (*[0] * missing, *strides), v.offset)


def _spread(v: View, batch: tuple[int, ...]) -> View:
    """Matrices as a batch of this shape, repeated where their own has extent 1."""
    own, strides = v.shape[:-2], v.strides[:-2]
    missing = len(batch) - len(own)
    steps = [0] * missing + [0 if n == 1 else s for n, s in zip(own, strides, strict=True)]
    return View(v.buffer, (*batch, *v.shape[-2:]), (*steps, *v.strides[-2:]), v.offset)


def _folded(v: View, batch: tuple[int, ...]) -> View | None:
    """The rows of all matrices of a batch as those of one; None where they do not lie evenly."""
    if v.shape[:-2] != batch:
        return None
    step = v.strides[-2]
    for k in range(len(v.shape) - 2, 0, -1):
        if v.strides[k - 1] != v.strides[k] * v.shape[k]:
            return None
    return View(v.buffer, (prod(v.shape[:-1]), v.shape[-1]), (step, v.strides[-1]), v.offset)


class _Group:
    """Expressions that are lowered together: the equations, those of views that are seen through among them,
    and where the values that they only read are."""

    def __init__(self, segment: Segment, own: set[Value]) -> None:
        self.segment, self.own = segment, own
        self.equations: list[Equation] = []
        self.inputs: dict[Value, View] = {}
        self.known: set[Value] = set()

    def add(self, e: Equation) -> None:
        """An equation, after what it reads."""
        for x in values_of(e.operands):
            self.read(x)
        self.equations.append(e)
        self.known.update(e.results)

    def read(self, v: Value, *, copied: bool = False) -> None:
        """A value that is read: of a view, which entries it has, unless the view is contiguous memory."""
        if v in self.known:
            return
        self.known.add(v)
        segment = self.segment
        seen = segment.views.get(v)
        if seen is None or (v in segment.places and not copied):
            self.inputs[v] = segment.place(v)
            return
        inside = seen.root in self.own
        place = None if inside else segment.place(seen.root)
        made = segment.makers[v]
        if (inside or seen.strides != c_strides(seen.shape)) and is_expression(made):
            self.add(made)
        else:
            place = place or segment.place(seen.root)
            self.inputs[v] = View(place.buffer, seen.shape, seen.strides, seen.offset)

    def steps(self, outputs: Mapping[Value, View], temp: Temp) -> list[Step]:
        """Steps that store some of its values."""
        graph = Graph(tuple(self.inputs), tuple(self.equations), tuple(outputs))
        return group_steps(graph, list(self.inputs.values()), list(outputs.values()), temp)


__all__ = ["Segment"]
