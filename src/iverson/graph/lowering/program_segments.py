"""Segments of a graph as programs: rounds of fused expressions, products and loops over planned buffers.

A round has all expressions whose operands are there, as one group that is fused; then all products,
recurrences, sorts, loops and branches whose operands are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from iverson.codegen.nests.nodes import Buffer
from iverson.codegen.programs import Product, Program, View, blas_calls, overwritten, step_builders, whole
from iverson.codegen.programs.nodes import Step, c_strides, reshaped_strides
from iverson.core.dispatch import value_of
from iverson.core.protocols import DType, LayoutValue
from iverson.expr.symbolic_numbers import typical
from iverson.graph.ir.nodes import Equation, Graph, Value, values_of
from iverson.graph.ir.operations import mended
from iverson.graph.lowering import control_flow_steps
from iverson.graph.lowering.copy_elision import Assembly, Part, assemblies
from iverson.graph.lowering.rematerialisation import recompute
from iverson.graph.native import (
    indexed_writes,
    library_calls,
    recurrence_loops,
    sort_loops,
    sparse_row_products,
)
from iverson.graph.native.buffers import Memory, Times, filled
from iverson.graph.native.equation_expressions import is_expression, points
from iverson.graph.native.expression_fusion import Temp, group_steps
from iverson.graph.native.step_kinds import PRODUCTS, Body
from iverson.graph.native.strided_views import Strided, view
from iverson.layouts import Box, Bracket, Packed, Zero, is_strided, to_strided

Kind = Callable[[Equation], str]
ONCE = Times()
#: How often each entry of a value is read, from which zeros around it are stored. Measured, convolutions with
#: padding beside stored zeros: 3 x 3 x 16 by 32 takes 2.5 times as long, 3 x 3 x 64 by 64 takes 2.4 times.
OFTEN = 8
#: How many equations are fused at most.
AT_ONCE = 64


def arrays_of(graph: Graph) -> dict[Value, Any]:
    """The constants of a graph as programs hold them: parts and selections as whole arrays.

    Facts on disk name constants by their place in the graph, so each graph opens its own.
    """
    constants = {v: value_of(x, x) for v, x in graph.constants}
    return {v: to_strided(x) if isinstance(x, Box | Bracket | Packed) else x for v, x in constants.items()}


class Segment:
    """Equations that become steps of a program, or all of one.

    memory : buffers of the program. times : how often the steps run.
    places : views of values. targets : views that given values have to be made in.
    inputs, outputs : of a whole program, the values that it reads and makes, in the order of its buffers.
    reused : outputs that are made in the memory of an input, each with that input, and not in ``outputs``;
        ``donated`` has the pairs from which they are chosen.
    """

    def __init__(
        self,
        equations: Sequence[Equation],
        kind: Kind,
        wanted: Iterable[Value],
        constants: Mapping[Value, LayoutValue],
        memory: Memory | None = None,
        times: Times = ONCE,
        donated: Sequence[tuple[Value, Value]] = (),
    ) -> None:
        self.donated = donated
        self.reused: dict[Value, Value] = {}
        self.wanted, self.constants = set(wanted), constants
        self.memory, self.times = memory or Memory(), times
        live = _live(equations, self.wanted)
        self.makers = {v: e for e in live for v in e.results}
        self.views: dict[Value, Strided] = {}
        for e in live:
            if kind(e) == "view" and (strided := view(e, self.views)) is not None:
                self.views[e.results[0]] = strided
        self.assemblies, parts = assemblies(live, kind, self.wanted)
        self.rounds = self._rounds([e for e in live if kind(e) != "view" and id(e) not in parts], kind)
        self.rounds, repeats = recompute(self.rounds, self._is_apart, self.wanted, self.root)
        self.makers.update((v, e) for e in repeats for v in e.results)
        self.memory.again += [(e, times) for e in repeats]
        #: The last round that reads a value, or a view of it; beyond all rounds for what is wanted.
        self.read_until = dict.fromkeys(self.makers, -1)
        for k, group in enumerate(self.rounds):
            self.read_until |= {self.root(x): k for e in group for x in self.operands(e)}
        for v in self.wanted:
            self.read_until[v] = self.read_until[self.root(v)] = len(self.rounds)
        self.memory.done += [(e, times) for e in live if kind(e) != "block"]
        self.reshaped = {
            x.root: v
            for v, x in self.views.items()
            if v in self.wanted and x.root in self.makers and x.root not in self.wanted and _is_reshaped(x)
        }
        #: Products in whose place they are mended, as nothing else reads them.
        self.mended_in = _mended_in_place(live, self.wanted)
        self.belongs = self._belongs()
        self.places: dict[Value, View] = {}
        self.targets: dict[Value, View] = {}
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.steps: list[Step] = []
        #: Inputs that all steps of a loop share, factors of those that are solved with, and steps before it.
        self.shared: set[Value] = set()
        self.factors: dict[Any, library_calls.Factors] = {}
        self.before: list[Step] = []
        #: What was found of inputs here, by where they are: a weight is looked at once.
        self.flags: dict[Any, View] = {}

    def program(self) -> Program:
        """The program; it fills ``inputs`` and ``outputs``."""
        body, memory = self.run(), self.memory
        value_in = {self.places[v].buffer: v for v in self.outputs}
        value_in |= {place.buffer: v for v, place in memory.counters}
        program = Program("graph", tuple(memory.buffers), (*memory.first, *body), memory.held)
        if self.donated:
            program = self._over_donated(program)
        self.outputs = [value_in[b] for b in program.of("out")]
        return program

    def _over_donated(self, program: Program) -> Program:
        """The program with outputs in the memory of donated inputs."""
        donations = [(a, b) for a, b in self.donated if a in self.inputs and b in self.outputs]
        pairs = [(self.places[a].buffer, self.places[b].buffer) for a, b in donations]
        program, sources = overwritten(program, pairs)
        value_in = {self.places[v].buffer.name: v for v in (*self.inputs, *self.outputs)}
        self.reused = {value_in[out]: value_in[source] for out, source in sources.items()}
        return program

    def run(self) -> list[Step]:
        """Write the steps of all rounds, and return them."""
        for k, group in enumerate(self.rounds):
            if self._is_apart(group[0]):
                for e in group:
                    self.apart[id(e)](e)
            else:
                self.group(group, k)
        for v in self.views:
            if v in self.wanted and v not in self.places:
                self.copy(self.made(v), v)
        return self.steps

    def inside(
        self, body: Body, given: Sequence[View], into: Sequence[View], times: Times, consts: int = 0
    ) -> tuple[Step, ...]:
        """The steps of a body whose inputs are in ``given``, and which writes its outputs to ``into``.

        What they need before a loop around them is added to the steps here.

        consts : number of inputs, the first ones, that are the same in all steps of a loop.
        """
        graph = body.graph
        constants = arrays_of(graph)
        inner = Segment(graph.equations, body.kinds.of, graph.outputs, constants, self.memory, times)
        inner.places.update(zip(graph.inputs, given, strict=True))
        inner.targets.update(zip(graph.outputs, into, strict=True))
        inner.shared.update(graph.inputs[:consts])
        steps = tuple(inner.run())
        self.steps += inner.before
        return steps

    # --- order ------------------------------------------------------------------------------------

    def root(self, v: Value) -> Value:
        """The value whose memory a value is seen in."""
        return self.views[v].root if v in self.views else v

    def operands(self, e: Equation) -> Sequence[Value]:
        """Values that an equation reads, or that an assembly is made of."""
        return self.assemblies[id(e)].operands if id(e) in self.assemblies else values_of(e.operands)

    def _rounds(self, equations: list[Equation], kind: Kind) -> list[list[Equation]]:
        """Divide equations into rounds: each is in the first round in which all of its operands are there.

        Expressions of a round come first, then the equations that have steps of their own. Side effect:
        ``apart`` gets the methods that write those.
        """
        ways = {
            "product": self.product,
            "mended": self.mended,
            "recurrence": self.recurrence,
            "order": self.order,
            "call": self.call,
            "write": self.write,
            "rows": self.rows,
            "block": self.block,
        }
        self.apart = {id(e): ways[kind(e)] for e in equations if kind(e) in ways}
        self.apart |= dict.fromkeys(self.assemblies, self.assemble)
        groups: dict[tuple[int, bool], list[Equation]] = {}
        round_of: dict[Value, int] = {}
        for e in equations:
            apart = self._is_apart(e)
            number = 0
            for root in map(self.root, self.operands(e)):
                if root in round_of:
                    waits = self._is_apart(self.makers[root]) or self._is_stored(root, e)
                    number = max(number, round_of[root] + waits)
            groups.setdefault((number, apart), []).append(e)
            round_of.update(dict.fromkeys(e.results, number))
        return [part for _, group in sorted(groups.items()) for part in self._parts(group)]

    def _parts(self, group: list[Equation]) -> list[list[Equation]]:
        """A group in parts of at most `AT_ONCE` equations: the time to compile a nest grows faster than its
        length. Equations that depend on each other are cut apart only where they alone are too many."""
        if len(group) <= AT_ONCE:
            return [group]
        chains: dict[Value, list[Equation]] = {}
        for e in group:
            led = {id(c): c for x in self.operands(e) if (c := chains.get(self.root(x))) is not None}
            first, *remaining = led.values() or [[]]
            for other in remaining:
                first += other
                chains.update((v, first) for o in other for v in o.results)
            first.append(e)
            chains.update(dict.fromkeys(e.results, first))
        at = {id(e): k for k, e in enumerate(group)}
        parts: list[list[Equation]] = [[]]
        for chain in {id(c): c for c in chains.values()}.values():
            chain.sort(key=lambda e: at[id(e)])
            if len(parts[-1]) + len(chain) > AT_ONCE:
                parts.append([])
            parts[-1] += chain
        return [part[k : k + AT_ONCE] for part in parts for k in range(0, len(part), AT_ONCE)]

    def _is_stored(self, v: Value, reader: Equation) -> bool:
        """True if a value is one with zeros around it that its reader reads often.

        To test the edge at each read costs more than to store the zeros.
        """
        maker = self.makers[v]
        while maker.op.name == "to_dense" and (x := self.root(values_of(maker.operands)[0])) in self.makers:
            maker = self.makers[x]
        return maker.op.name == "embed" and points(reader) >= OFTEN * typical(prod(v.shape))

    def _is_apart(self, e: Equation) -> bool:
        """True if an equation has steps of its own, and is not fused with others."""
        return id(e) in self.apart

    # --- memory -----------------------------------------------------------------------------------

    def temp(self, _name: str, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        return self.memory.buffer("temp", dtype, shape)

    def made(self, v: Value) -> View:
        """View that a value is to be made in: its target, a part of an assembly, the place of the value that
        it becomes when it is mended or reshaped, or a new buffer."""
        place = self.targets.get(v)
        if v in self.belongs:
            assembly, part = self.belongs[v]
            place = part.within(self.begun(assembly)).reshaped(v.shape)
            assert place is not None, "a part whose place was not looked at"
        elif v in self.mended_in:
            place = self.made(self.mended_in[v])
        elif v in self.reshaped:
            place = replace(self.made(self.reshaped[v]), shape=v.shape, strides=c_strides(v.shape))
        elif place is None:
            role = "out" if v in self.wanted else "temp"
            if role == "out":
                self.outputs.append(v)
            place = whole(self.memory.buffer(role, v.dtype, v.shape))
        self.places[v] = place
        return place

    def is_made(self, v: Value, place: View) -> None:
        """Note that ``v`` has been computed in ``place``, a view that its maker chose.

        A wanted value is copied to its own view.
        """
        if v in self.wanted:
            self.steps.append(step_builders.copy(self.made(v), place))
        else:
            self.places[v] = place

    def view_of(self, v: Value) -> View:
        """View of a value; one that the segment does not make is an input or a constant."""
        if v in self.views and v not in self.places:
            return self.seen(self.views[v])
        if v not in self.places:
            self.places[v] = self.constant(v) or self.given(v)
        return self.places[v]

    def seen(self, x: Strided) -> View:
        """View of a value that is seen through strides."""
        root = self.view_of(x.root)
        if root.contiguous:
            return replace(root, shape=x.shape, strides=x.strides, offset=root.offset + x.offset)
        view = root.reshaped(x.shape)  # a part of an assembly: see `_belongs`
        assert view is not None, "a view of a part that lies apart"
        return view

    def constant(self, v: Value) -> View | None:
        """View of a constant; None for one in a layout that is not for programs, and for other values."""
        array = self.constants.get(v)
        if is_strided(array):
            return self.memory.hold(array, v.shape)
        return self.memory.zeros(v.dtype, v.shape) if type(array) is Zero else None

    def given(self, v: Value) -> View:
        """View of a new input of the program."""
        self.inputs.append(v)
        return whole(self.memory.buffer("in", v.dtype, v.shape))

    # --- expressions ------------------------------------------------------------------------------

    def group(self, group: list[Equation], k: int) -> None:
        if len(group) == 1 and self._is_called(group[0]):
            return
        expressions = _Group(self, {v for e in group for v in e.results})
        for e in group:
            expressions.add(e)
        outputs = {v: self.made(v) for e in group for v in e.results if self.read_until[v] > k}
        if outputs:
            self.steps += expressions.steps(outputs, self.temp)

    def _is_called(self, e: Equation) -> bool:
        """Add the call of the universal function that is all of an equation; False if there is none."""
        loop = library_calls.universal(e)
        if loop is None or any(x in self.views and x not in self.places for x in e.operands):
            return False
        operands = [self.view_of(x) for x in e.operands]
        if not all(v.contiguous for v in operands):
            return False
        self.steps.append(library_calls.on_entries(loop, [*operands, self.made(e.results[0])]))
        return True

    def copy(self, out: View, v: Value) -> None:
        """Copy a value into a view."""
        if type(self.constants.get(v)) is Zero:
            self.steps.append(filled(out))
            return
        expressions = _Group(self, set())
        expressions.read(v, copied=True)
        self.steps += expressions.steps({v: out}, self.temp)

    # --- assemblies -------------------------------------------------------------------------------

    def _belongs(self) -> dict[Value, tuple[Assembly, Part]]:
        """The assembly and the part of each value that is made in its place in an assembly.

        The part of a value that is no fused expression must lie in order there, as steps that make one write
        it in order.
        """
        belongs: dict[Value, tuple[Assembly, Part]] = {}
        of_root: dict[Value, list[Strided]] = {}
        for x in self.views.values():
            of_root.setdefault(x.root, []).append(x)
        for assembly in self.assemblies.values():
            out = whole(Buffer("out", assembly.result.dtype, assembly.result.shape))
            for part in () if assembly.is_sum else assembly.parts:
                v = part.value
                root = self.root(v)
                is_free = root in self.makers and root not in belongs and root not in self.mended_in
                is_free = is_free and root not in self.wanted and v not in self.wanted
                is_all = root is v or _is_reshaped(self.views[v])
                if not is_free or not is_all:
                    continue
                place, maker = part.within(out), self.makers[root]
                shapes = [root.shape, *(x.shape for x in of_root.get(root, ()))]
                is_fused = id(maker) not in self.apart and all(map(_is_reshaped, of_root.get(root, ())))
                if place.contiguous or (is_fused and None not in map(place.reshaped, shapes)):
                    belongs[root] = assembly, part
        return belongs

    def begun(self, assembly: Assembly) -> View:
        """View of the result of an assembly, begun so that its parts can be made there."""
        if assembly.result not in self.places:
            self.steps += assembly.begin(self.made(assembly.result))
        return self.places[assembly.result]

    def assemble(self, e: Equation) -> None:
        assembly = self.assemblies[id(e)]

        def is_made(part: Part) -> bool:
            return self.belongs.get(self.root(part.value), (None, None))[1] is part

        self.steps += assembly.finish(self.begun(assembly), self.view_of, is_made)

    # --- recurrences ------------------------------------------------------------------------------

    def recurrence(self, e: Equation) -> None:
        """Add the loops of a recurrence."""
        (v,) = e.results
        operands = [_stretched(self.view_of(x), v.shape) for x in e.operands]
        self.steps += recurrence_loops.steps(e, operands, self.made(v), self.memory)

    # --- orders -----------------------------------------------------------------------------------

    def order(self, e: Equation) -> None:
        operands = [self.view_of(x) for x in e.operands]
        self.steps += sort_loops.steps(e, operands, self.made(e.results[0]), self.memory)

    # --- routines of libraries --------------------------------------------------------------------

    def call(self, e: Equation) -> None:
        operands = [self.view_of(x) for x in e.operands]
        outs = [self.made(v) for v in e.results]
        if e.op.name == "solve" and e.operands[0] in self.shared:
            (x,), (a, b) = outs, operands
            factors = self.factors.get((a, x.buffer.dtype))
            if factors is None:
                before, factors = library_calls.factors(a, x.buffer.dtype, self.memory)
                self.factors[a, x.buffer.dtype] = factors
                self.before += before
            self.steps += library_calls.solution(factors, b, x, self.memory)
        else:
            self.steps += library_calls.steps(e, operands, outs, self.memory)

    # --- writes -----------------------------------------------------------------------------------

    def write(self, e: Equation) -> None:
        operands = [self.view_of(x) if type(x) is Value else x for x in e.operands]
        out = self.made(e.results[0])
        if e.op.name == "gather_put":
            self.copy(out, e.operands[0])
        self.steps += indexed_writes.steps(e, operands, out, self.memory)

    # --- products ---------------------------------------------------------------------------------

    def rows(self, e: Equation) -> None:
        values, starts, columns, b, *order = (self.view_of(x) for x in e.operands)
        out = self.made(e.results[0])
        if b.shape[-1] > 1 and b.strides[-1] != 1:
            b = self.compact(e.operands[3])
        b = _spread(b, out.shape[:-2])
        self.steps += sparse_row_products.steps(e, [values, starts, columns, b, *order], out)

    def product(self, e: Equation) -> None:
        """Add a product by BLAS; factors that do not lie as BLAS takes them are copied.

        A batch of left factors with one right factor becomes one product, if the rows lie at equal distances.
        """
        views = [self.view_of(x) for x in e.operands]
        out = self.made(e.results[0])
        axes = e.params.get("axes")
        if axes is not None:
            out = _permuted(out, [axes.index(k) for k in range(len(axes))])
        batch = out.shape[:-2]
        fold = axes is None and bool(batch) and prod(views[1].shape[:-2]) == 1
        if fold and _folded(views[0], batch) is not None:
            shape = (prod(out.shape[:-1]), out.shape[-1])
            out = replace(out, shape=shape, strides=c_strides(shape))
        else:
            fold = False
        lhs, rhs = _factors(views, batch, fold)
        if blas_calls.call(Product(out, lhs, rhs)) is None:
            as_they_lie = [blas_calls.matrix(v) is not None for v in (lhs, rhs)]
            views = [
                v if well else self.compact(x)
                for v, x, well in zip(views, e.operands, as_they_lie, strict=True)
            ]
            lhs, rhs = _factors(views, batch, fold)
        halved = step_builders.symmetric(out, lhs, rhs)
        self.steps += halved or step_builders.turned(step_builders.product(out, lhs, rhs), self.memory.temp)

    def compact(self, v: Value) -> View:
        """View of a copy of a value, in order."""
        out = self.memory.temp(v.dtype, v.shape)
        self.copy(out, v)
        return out

    def mended(self, e: Equation) -> None:
        product, (v,) = e.operands[0], e.results
        if v not in self.places:
            self.copy(self.made(v), product)
        control_flow_steps.mended(self, e, self.places[v])

    # --- loops and branches -----------------------------------------------------------------------

    def block(self, e: Equation) -> None:
        control_flow_steps.steps(self, e)


def _live(equations: Sequence[Equation], outputs: set[Value]) -> list[Equation]:
    """The equations that the outputs depend on."""
    needs = set(outputs)
    live = []
    for e in reversed(equations):
        if any(v in needs for v in e.results):
            needs.update(values_of(e.operands))
            live.append(e)
    return live[::-1]


def _mended_in_place(live: Sequence[Equation], outputs: set[Value]) -> dict[Value, Value]:
    """Map from each product that may be computed in the buffer of its mended result to this result.

    The op ``mended`` takes a product, and computes the product again, without the terms that a selection
    leaves out, if an inf or nan is found. A product is in the map if no other equation reads the product and
    the product is not an output of the graph.
    """
    reads = Counter(x for e in live for x in dict.fromkeys(values_of(e.operands)))
    products = {v for e in live if e.op.name in PRODUCTS for v in e.results}
    mends = {e.operands[0]: e.results[0] for e in live if e.op is mended}
    return {x: v for x, v in mends.items() if reads[x] == 1 and x in products and x not in outputs}


def _factors(views: Sequence[View], batch: tuple[int, ...], fold: bool) -> tuple[View, View]:
    """The factors of a product of batches, as views for BLAS.

    fold : whether all rows of the left factor are one matrix. If not, both are batches of the shape
        ``batch``.
    """
    lhs, rhs = views
    if not fold:
        return _spread(lhs, batch), _spread(rhs, batch)
    folded: Any = _folded(lhs, batch)
    return folded, replace(rhs, shape=rhs.shape[-2:], strides=rhs.strides[-2:])


def _is_reshaped(x: Strided) -> bool:
    """True if a view is all of its root, in order."""
    in_order = all(s == c or n == 1 for s, c, n in zip(x.strides, c_strides(x.shape), x.shape, strict=True))
    return in_order and prod(x.shape) == prod(x.root.shape)


def _stretched(v: View, shape: tuple[int, ...]) -> View:
    """A view broadcast to a shape."""
    missing = len(shape) - len(v.shape)
    strides = tuple(0 if n == 1 else s for n, s in zip(v.shape, v.strides, strict=True))
    return replace(v, shape=shape, strides=(*[0] * missing, *strides))


def _permuted(v: View, axes: Sequence[int]) -> View:
    """A view with its axes in another order."""
    return replace(v, shape=tuple(v.shape[k] for k in axes), strides=tuple(v.strides[k] for k in axes))


def _spread(v: View, batch: tuple[int, ...]) -> View:
    """Matrices as a batch of this shape, repeated where their own has extent 1."""
    extents, strides = v.shape[:-2], v.strides[:-2]
    missing = len(batch) - len(extents)
    steps = [0] * missing + [0 if n == 1 else s for n, s in zip(extents, strides, strict=True)]
    return replace(v, shape=(*batch, *v.shape[-2:]), strides=(*steps, *v.strides[-2:]))


def _folded(v: View, batch: tuple[int, ...]) -> View | None:
    """All matrices of a batch as one, row after row; None where the rows do not lie at equal distances."""
    if v.shape[:-2] != batch:
        return None
    rows = prod(v.shape[:-1])
    strides = reshaped_strides(v.shape[:-1], v.strides[:-1], (rows,))
    return (
        None if strides is None else replace(v, shape=(rows, v.shape[-1]), strides=(*strides, v.strides[-1]))
    )


class _Group:
    """Expressions that are lowered together: their equations, those of views that they read, and the views of
    the values that are only read."""

    def __init__(self, segment: Segment, results: set[Value]) -> None:
        self.segment, self.own = segment, results
        self.equations: list[Equation] = []
        self.inputs: dict[Value, View] = {}
        self.known: set[Value] = set()

    def add(self, e: Equation) -> None:
        """Add an equation, after the values that it reads."""
        for x in values_of(e.operands):
            self.read(x)
        self.equations.append(e)
        self.known.update(e.results)

    def read(self, v: Value, *, copied: bool = False) -> None:
        """Add a value that the group reads: as an input, or, if it is a scattered view, by its equation.

        copied : do not use a place where a view has been copied to.
        """
        if v in self.known:
            return
        self.known.add(v)
        segment = self.segment
        strided = segment.views.get(v)
        if strided is None or (v in segment.places and not copied):
            self.inputs[v] = segment.view_of(v)
            return
        inside = strided.root in self.own
        if not inside:
            segment.view_of(strided.root)
        maker = segment.makers[v]
        if (inside or strided.strides != c_strides(strided.shape)) and is_expression(maker):
            self.add(maker)
        else:
            self.inputs[v] = segment.seen(strided)

    def steps(self, outputs: Mapping[Value, View], temp: Temp) -> list[Step]:
        """Steps that store some values of the group."""
        graph = Graph(tuple(self.inputs), tuple(self.equations), tuple(outputs))
        return group_steps(graph, list(self.inputs.values()), list(outputs.values()), temp)


__all__ = ["Segment"]
