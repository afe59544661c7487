"""Ops from index notation: a Python function of placeholders becomes a record like those of the op table.

Its derivatives need no rules of their own: the vjp in some of the inputs is the same construction again, on
the function that differentiates the first one. So an op is closed under differentiation, forward and reverse,
to any order, and each derivative is compiled when it is first called. All gradients of a call are one
program, of the inputs asked for and the cotangents that are defined: what they share is computed once.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from iverson.core import dtypes, table
from iverson.core.aval import Aval
from iverson.core.dispatch import bind, has_entries, is_tracked, make_handle, may_select, slot_of, value_of
from iverson.core.entries import FULL, Box
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.inputs.arguments import as_function
from iverson.core.op import Body, Op, Rule, Wanted, frozen
from iverson.core.python import locks
from iverson.core.python.cached import cached_property
from iverson.core.scalars import SCALARS
from iverson.core.shapes import as_int
from iverson.core.trace_guards import Guard, guards_of
from iverson.expr.nodes import Apply, Const, postorder
from iverson.layouts import Box as BoxLayout
from iverson.layouts import Bracket, Zero, is_strided, layouts_by_type, select, support_of, to_strided
from iverson.layouts.bracket import as_selection, held
from iverson.te.derivatives.forward_mode import jvp
from iverson.te.derivatives.reverse_mode import differentiable_below, differentiate
from iverson.te.elimination.zero_elimination import eliminate
from iverson.te.ir import evaluation_guards
from iverson.te.ir.expressions import Extent, Placeholder, Tensor
from iverson.te.ir.fresh_names import distinct
from iverson.te.ir.index_arithmetic import depends_on_data
from iverson.te.ir.nodes import Program, computes_of, program_of, units_below
from iverson.te.ir.source_site import check_constants, operation
from iverson.te.language.definitions import compute, placeholder
from iverson.te.lowering.block_calls import Blocked, lowered_in_blocks
from iverson.te.lowering.lowered_program import Lowered
from iverson.te.lowering.shape_polymorphism import AnyShape
from iverson.te.lowering.statement_lowering import lower
from iverson.te.ops.box_restriction import has_parts, part_of
from iverson.te.ops.example_axis import over_examples
from iverson.te.ops.index_maps import IndexMaps, ProgramMaps
from iverson.te.ops.selected_inputs import of_selection
from iverson.te.rewrites.axis_blocks import is_large

Build = Callable[..., Any]
_ndarray = np.ndarray
_kind = attrgetter("__class__", "shape", "dtype")
#: How many shapes an op keeps a compiled program for.
KEPT = 256
#: Entries from which part of a gradient may have code of its own, and how many boxes may, each for itself.
LARGE, ALONE = 1 << 12, 3


@dataclass(frozen=True, eq=False)
class Compiled:
    """An op at given shapes, dtypes and parameters: its program, which arguments that reads, their names.

    operands : those shapes and dtypes.
    maps : which entries of the results depend on which of the arguments.
    reached : of some results, the arguments that their derivatives lead to.
    lower : compiles the program, when it is first run.
    """

    operands: tuple[tuple[tuple[int, ...], Any], ...]
    program: Program
    reads: tuple[int, ...]
    names: tuple[str, ...]
    results: tuple[Aval, ...]
    maps: ProgramMaps
    reached: Callable[[tuple[int, ...]], frozenset[int]]
    lower: Callable[[], Lowered | Blocked]

    @cached_property
    def lowered(self) -> Lowered | Blocked:
        """The program's code."""
        return self.lower()

    @cached_property
    def leaves_out(self) -> bool:
        """Whether terms of the first argument stand under a condition, of a choice or on data."""
        if 0 not in self.reads:
            return False
        made: set[Tensor] = {self.program.inputs[self.reads.index(0)]}
        for unit in units_below(self.program.outputs):
            for t in computes_of(unit):
                for s in t.statements:
                    read = [r for r in s.reads if r.tensor in made]
                    if read and depends_on_data(s.domain.where):
                        return True
                    conditions = evaluation_guards.guards_of(s.body)
                    if any(conditions.get(r) for r in read):
                        return True
                    made.update([t] if read else [])
        return False

    @cached_property
    def has_poles(self) -> bool:
        """Whether it may be infinite where all arguments are finite."""
        made = (t for unit in units_below(self.program.outputs) for t in computes_of(unit))
        return any(map(_is_pole, postorder([s.body for t in made for s in t.statements])))

    @cached_property
    def picked(self) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """Takes from the arguments those that the program reads, in its order."""
        reads = self.reads
        if reads == tuple(range(len(self.operands))):
            return tuple
        if len(reads) < 2:
            return itemgetter(slice(reads[0], reads[0] + 1) if reads else slice(0))
        return itemgetter(*reads)

    def fits(self, values: tuple[Any, ...]) -> bool:
        """Whether they are arrays of these shapes and dtypes, as those of most calls are."""
        try:
            return tuple(map(_kind, values)) == self._kinds
        except AttributeError:  # of a number
            return False

    @cached_property
    def _kinds(self) -> tuple[Any, ...]:
        return tuple([(_ndarray, *known) for known in self.operands])


def _in_single(x: Placeholder) -> Any:
    """A placeholder, or what it holds in float32 where that is of half precision."""
    if not dtypes.is_half(x.dtype):
        return x
    return compute(x.shape, lambda *i: x[i], x.name, dtypes.float32)


def _stored_as(t: Tensor, dtype: Any) -> Tensor:
    """A result in float32, in the dtype of half precision that its operands have."""
    if t.dtype != dtypes.float32 or not dtypes.is_half(dtype):
        return t
    return compute(t.shape, lambda *i: t[i], t.name, dtype)


class Expression:
    """A function of placeholders, compiled per shape, with its derivatives as further Expressions.

    build : takes placeholders and keyword parameters, returns a Tensor or a tuple of them.
    names : of the placeholders, as messages call them.
    guarded : whether terms are left out under a condition that is an operand: then derivatives are
        selections, whatever they are of.
    alone : how many shapes it was compiled for that a program for all shapes does not serve.
    root : whose function it is made of, if it is a derivative; else itself.
    gradient : if it is one of `gradients`: whose, in which inputs, of the cotangents of which results.
    linear : whether it is a derivative, linear in the operand that comes first alone.
    """

    def __init__(self, build: Build, name: str, names: tuple[str, ...], multiple: bool) -> None:
        arity = len(names)
        self.build = build
        self.name = name
        self.names = names
        self.multiple = multiple
        self.guarded = False
        self.alone = 0
        self.root = self
        #: Of a root, what the function read besides its arguments when it was last called.
        self._guards: list[Guard] = []
        self.gradient: tuple[Expression, tuple[int, ...], tuple[int, ...]] | None = None
        self.linear = False
        self._compiled: OrderedDict[Any, Compiled] = OrderedDict()
        #: Of the call before, most often of the next as well.
        self._latest: tuple[Compiled | None, Any] = None, None
        self._any_shape: OrderedDict[Any, AnyShape] = OrderedDict()
        self._derived: dict[Any, Expression] = {}
        self._lock = locks.lock()
        self.op = Op(
            name=name,
            forward=Body(self._forward, signals=False),  # what is interpreted sees to it itself
            abstract=self._abstract,
            vjp=self._vjp,
            jvp=tuple(partial(self._jvp, i) for i in range(arity)),
            entry_map=IndexMaps(self._maps),
            multiple=multiple,
            as_stored=True,
            batch=self._batch,
            te=self._built,
        )

    def holds(self) -> bool:
        """Whether what the function reads besides its arguments is what it was."""
        return False not in [guard.holds() for guard in self.root._guards]

    def _built(self, *given: Any, **params: Any) -> Any:
        """What the function makes of placeholders.

        Raises ArgumentError where what it reads besides has changed since the call of which this is a part, a
        derivative, or a shape that is compiled later.
        """
        if self.root is not self:
            return self.build(*given, **params)
        if not self.holds():
            raise ArgumentError(
                self.name,
                "fn",
                got="a function that reads something else now than when the op was called",
                expected="what it read then, also for derivatives and programs that are made later",
                remedy="pass what changes as a keyword-only parameter, or define an op for each",
            )
        made = self.build(*given, **params)
        self._guards = guards_of(self.build)  # what it changes itself is no change
        return made

    def compiled(self, operands: tuple[Any, ...], params: dict[str, Any]) -> Compiled:
        """The program for operands of these shapes and dtypes, from memory where it was met before."""
        if params:
            check_constants(self.name, params)
        key = tuple([(o.shape, o.dtype) for o in operands]), frozen(params) if params else ()
        found = self._compiled.get(key)
        if found is not None and len(self._compiled) < KEPT // 2:  # none is about to be dropped
            return found
        with self._lock:
            found = self._compiled.get(key)
            if found is not None:
                self._compiled.move_to_end(key)
                return found
        made = self._compile(operands, params)
        with self._lock:
            self._compiled[key] = made
            while len(self._compiled) > KEPT:
                self._compiled.popitem(last=False)
        return made

    def _compile(self, operands: tuple[Any, ...], params: dict[str, Any]) -> Compiled:
        inputs = self._inputs(operands, [n for o in operands for n in o.shape])
        outputs = self.outputs(inputs, params)
        program = program_of(outputs)
        if program.sizes:
            raise ArgumentError(
                self.name,
                "fn",
                got=f"a function of te.var {', '.join(n.name for n in program.sizes)}",
                expected="extents of its tensors, x.shape[0], or constants that are keyword parameters",
                remedy="an op is compiled for any shape by itself",
            )
        reads = tuple(inputs.index(t) for t in program.inputs)
        results = tuple(Aval(tuple(map(int, t.shape)), t.dtype) for t in outputs)
        maps = ProgramMaps(program, inputs)
        avals = tuple(Aval(tuple(o.shape), o.dtype) for o in operands)

        @cache
        def reached(which: tuple[int, ...]) -> frozenset[int]:
            below = differentiable_below([outputs[j] for j in which])
            return frozenset(k for k, t in enumerate(inputs) if t in below)

        lowered = partial(self._lower, avals, params, program, reads)
        names = tuple([self.names[k] for k in reads])
        expected = tuple([(tuple(o.shape), t.dtype) for o, t in zip(operands, inputs, strict=True)])
        return Compiled(expected, program, reads, names, results, maps, reached, lowered)

    def _lower(
        self, operands: tuple[Aval, ...], params: dict[str, Any], program: Program, reads: tuple[int, ...]
    ) -> Lowered | Blocked:
        """The code of a program: that for all shapes if there is one; in blocks where much is between."""
        large = is_large(program)
        key = tuple((len(o.shape), o.dtype) for o in operands), frozen(params), large
        with self._lock:
            found = self._any_shape.get(key)
            if found is None:

                def build(own: Sequence[Extent]) -> tuple[tuple[Placeholder, ...], tuple[Tensor, ...]]:
                    inputs = self._inputs(operands, own)
                    return inputs, self.outputs(inputs, params)

                found = AnyShape(build, large)
                self._any_shape[key] = found
                while len(self._any_shape) > KEPT:
                    self._any_shape.popitem(last=False)
        made = found.lowered(tuple(n for o in operands for n in o.shape), program, reads)
        if made is not None:
            return made
        self.alone += 1
        return (lowered_in_blocks(program) if large else None) or lower(eliminate(program))

    def _inputs(self, operands: Sequence[Any], extents: Sequence[Extent]) -> tuple[Placeholder, ...]:
        """Placeholders for operands of these extents, one after the other."""
        names = (*self.names, *(f"x{k}" for k in range(len(self.names), len(operands))))
        given = iter(extents)
        return tuple(
            placeholder(tuple(next(given) for _ in o.shape), o.dtype, n)
            for o, n in zip(operands, names, strict=False)
        )

    def outputs(self, inputs: tuple[Placeholder, ...], params: dict[str, Any]) -> tuple[Tensor, ...]:
        """What the function makes of placeholders, checked to be tensors.

        Those of half precision come to it in float32, by a stage that loops carry out where they read. What
        it makes of them, and of nothing wider, is rounded when it is stored.
        """
        made = self._built(*map(_in_single, inputs), **params)
        outputs = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if self.multiple != isinstance(made, (tuple, list)) or not all(
            isinstance(t, Tensor) for t in outputs
        ):
            raise ArgumentTypeError(
                self.name,
                "fn",
                got=f"a function that returns {made!r}",
                expected="a tuple of tensors" if self.multiple else "a tensor from te.compute or te.scatter",
            )
        if any(dtypes.is_half(x.dtype) for x in inputs):
            to = dtypes.result_type(*(x.dtype for x in inputs if dtypes.is_inexact(x.dtype)))
            outputs = tuple([_stored_as(t, to) for t in outputs])
        return outputs

    def _forward(self, *values: Any, **params: Any) -> Any:
        made, code = self._latest
        if params or made is None or not made.fits(values):
            values = tuple([v if type(v) is _ndarray else np.asarray(v) for v in values])
            made = self.compiled(values, params)
            code = made.lowered
            if not params and isinstance(code, Lowered):
                self._latest = made, code
            results = code(*made.picked(values), operation=self.name, names=made.names)
        else:
            results = code.run(made.picked(values), None, self.name, made.names)
        return results if self.multiple else results[0]

    def _abstract(self, *operands: Any, **params: Any) -> Any:
        results = self.compiled(tuple(map(_operand, operands)), params).results
        return results if self.multiple else results[0]

    def _maps(self, operands: Sequence[Any], params: Mapping[str, Any]) -> ProgramMaps:
        return self.compiled(tuple(map(_operand, operands)), dict(params)).maps

    def _vjp(self, F: Any, wanted: Wanted, g: Any, _y: Any, *xs: Any, **params: Any) -> list[Any]:
        """The gradients in inputs, from the cotangents that are defined.

        Those that are wanted whole come from one program; in a level from one each, which it may take apart.
        Of several cotangents each is pulled back by itself where one is a selection: what that leaves out
        depends on it alone (`applied`).
        """
        if self.multiple and (self.guarded or any(map(may_select, g))):
            defined = [j for j, h in enumerate(g) if type(value_of(h)) is not Zero or is_tracked(h)]
            if len(defined) > 1:
                alone = [[h if k == j else _nothing(h) for k, h in enumerate(g)] for j in defined]
                parts = [self._vjp(F, wanted, tuple(heads), _y, *xs, **params) for heads in alone]
                sums = [[ct for ct in of if ct is not None] for of in zip(*parts, strict=True)]
                return [F.add_n(*of) if len(of) > 1 else of[0] if of else None for of in sums]
        given = {
            i: self._box(F, part, i, g, xs, params) for i, part in wanted.items() if isinstance(part, Box)
        }
        given = {i: ct for i, ct in given.items() if ct is not NotImplemented}
        found = self._pullback(tuple([i for i in wanted if i not in given]), g, xs, params)
        if found is not None:
            derived, args, reached = found
            if not derived.multiple:
                given[reached[0]] = derived.applied(args, params)
            elif all(map(has_entries, args)):
                given.update(zip(reached, derived.applied(args, params), strict=True))
            else:
                for i in reached:
                    (given[i],) = self._vjp(F, {i: FULL}, g, _y, *xs, **params)
        return [given.get(i) for i in wanted]

    def _box(self, F: Any, part: Box, i: int, g: Any, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """A box of the gradient in input i, where that is less than half of a large one.

        The box is handed over as the shape of an operand without entries: so its corner is an extent like
        others, and one program serves all boxes (`iverson.te.lowering.shape_polymorphism`).
        """
        shape = getattr(xs[i], "shape", ())
        if prod(shape) < LARGE or 2 * part.region.size > prod(shape):
            return NotImplemented
        found = self._pullback((i,), g, xs, params)
        if found is None:
            return None
        whole, args, _ = found
        own = whole.derived(("part",), whole._part, (*whole.names, distinct("box", whole.names)))
        if own.alone > ALONE or not all(map(has_entries, args)) or type(value_of(args[0])) is Bracket:
            return NotImplemented
        if not all(map(has_parts, whole.compiled(tuple(map(_operand, args)), params).program.outputs)):
            return NotImplemented
        start, stop = part.region
        box = np.broadcast_to(np.False_, (*(a + 1 for a in start), *map(int.__sub__, stop, start)))
        ct = bind(own.op, (*args, box), params)
        return F.embed(ct, key=part.region.slices, shape=shape)

    def _part(self, *given: Placeholder, **params: Any) -> Tensor:
        """The entries of the result in a box: the last placeholder has the shape ``(*start + 1, *shape)``."""
        *own, box = given
        (whole,) = self.outputs(tuple(own), params)
        rank = whole.ndim
        return part_of(whole, [n - 1 for n in box.shape[:rank]], box.shape[rank:])

    def _pullback(
        self, wanted: tuple[int, ...], g: Any, xs: tuple[Any, ...], params: dict[str, Any]
    ) -> tuple[Expression, tuple[Any, ...], tuple[int, ...]] | None:
        """The gradients in inputs as an expression, what it is of, and those of them that are not zero.

        None where all are.
        """
        heads = g if self.multiple else (g,)
        defined = tuple(
            j for j, h in enumerate(heads) if not (type(value_of(h)) is Zero and not is_tracked(h))
        )
        wanted = tuple(i for i in wanted if dtypes.is_inexact(_dtype(xs[i])))
        if defined and wanted:
            reached = self.compiled(tuple(map(_operand, xs)), params).reached(defined)
            wanted = tuple(i for i in wanted if i in reached)
        if not defined or not wanted:
            return None
        return self.gradients(wanted, defined), (*(heads[j] for j in defined), *xs), wanted

    def gradients(self, wanted: tuple[int, ...], defined: tuple[int, ...]) -> Expression:
        """Those in some inputs, of cotangents of some results: an expression of these and of all inputs."""
        heads = [f"cotangent{j}" if self.multiple else "cotangent" for j in defined]
        names = (*(distinct(n, self.names) for n in heads), *self.names)
        build = partial(self._pull, wanted, defined)
        made = self.derived(("vjp", wanted, defined), build, names, len(wanted) > 1, of=wanted)
        made.gradient, made.linear = (self, wanted, defined), len(defined) == 1
        return made

    def programs(self, args: tuple[Any, ...], params: dict[str, Any]) -> dict[str, Program]:
        """That of a call, and that of the gradients in those arguments that are tracked; under titles."""
        bind(self.op, args, params)  # what is wrong with the call is said as ever
        operands = tuple(map(_operand, args))
        own = self.compiled(operands, params)
        found = {self.name: own.program}
        results = tuple(range(len(own.results)))
        wanted = tuple(i for i in sorted(own.reached(results)) if is_tracked(args[i]))
        if wanted:
            names = ", ".join(self.names[i] for i in wanted)
            made = self.gradients(wanted, results).compiled((*own.results, *operands), params)
            found[f"gradients of {self.name} in {names}"] = made.program
        return found

    def _pull(
        self, wanted: tuple[int, ...], defined: tuple[int, ...], *given: Placeholder, **params: Any
    ) -> Any:
        heads, xs = given[: len(defined)], given[len(defined) :]
        outputs = self.outputs(xs, params)
        found = differentiate([outputs[j] for j in defined], [xs[i] for i in wanted], list(heads))
        return tuple(found) if len(wanted) > 1 else found[0]

    def _batch(self, _F: Any, examples: Any, *args: Any, **params: Any) -> Any:
        """The same in index notation, with an index for the example."""
        build = partial(self._over_examples, examples.of)
        derived = self.derived(("batch", examples.of), build, self.names, self.multiple)
        derived.linear = self.linear
        return derived.applied(args, params) if self.linear else bind(derived.op, args, params)

    def _over_examples(self, of: tuple[bool, ...], *given: Placeholder, **params: Any) -> Any:
        one = tuple(
            placeholder(x.shape[1:], x.dtype, x.name) if b else x for x, b in zip(given, of, strict=True)
        )
        pairs = {p: x for p, x, b in zip(one, given, of, strict=True) if b}
        found = over_examples(self.outputs(one, params), pairs)
        return found if self.multiple else found[0]

    def _jvp(self, i: int, _F: Any, t: Any, _y: Any, *xs: Any, **params: Any) -> Any:
        """What a tangent of input i adds to the tangents of the results; None if they do not depend on it."""
        own = self.compiled(tuple(map(_operand, xs)), params)
        if i not in own.reached(tuple(range(len(own.results)))):
            return None
        names = (distinct("tangent", self.names), *self.names)
        derived = self.derived(("jvp", i), partial(self._push, i), names, self.multiple, of=(i,))
        derived.linear = True
        return derived.applied((t, *xs), params)

    def applied(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """This derivative, linear in the cotangent or tangent that comes first.

        If that is a selection (`iverson.layouts.bracket`) or a box, the result is a selection: each entry is
        held where any that it depends on is, and what was left out meets no factor.
        """
        first, *others = args
        value = value_of(first)
        if self.linear and (made := _as_selection(value)) is not value:
            value = made
            first = make_handle(value, *slot_of(first))
            args = (first, *others)
        selected = type(value) is Bracket and is_strided(value.values) and is_strided(value.condition)
        if not (selected or self.guarded):
            return self._of_sums(args, params) if self.linear else bind(self.op, args, params)
        place = self.compiled(tuple(map(_operand, args)), params).maps.place()
        if place is None or self.guarded:
            return self._of_sums(args, params)
        everywhere = make_handle(value.values, *slot_of(first))

        def chosen(found: Any) -> Any:
            return table.F.bracket(place.moved(value.condition, found.shape), found, negated=value.negated)

        found = self._of_sums((everywhere, *others), params)
        return tuple(map(chosen, found)) if self.multiple else chosen(found)

    def _of_sums(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """This derivative of a selection, where a result may add up several entries of it.

        The selection is made first; it is made term by term where that was not enough, because zeros met
        factors that are not finite, now or in a derivative of what is recorded here.
        """
        first, *others = args
        value = value_of(first)
        if not all(map(has_entries, args)):
            return self._of_sums_in_level(args, params)
        made = bind(self.op, (make_handle(select(value), *slot_of(first)), *others), params)
        results = made if self.multiple else (made,)
        if type(value) is not Bracket:
            condition = np.broadcast_to(np.True_, value.shape)
        else:
            condition, value = held(value), value.values
            if not all(not is_tracked(x) and np.isfinite(value_of(x)).all() for x in results):
                made = self.selected(condition, (make_handle(value, *slot_of(first)), *others), params)
                results = made if self.multiple else (made,)

        like = value.shape, value.dtype

        @cache
        def counts() -> tuple[Any, ...]:
            counting = self._under_condition("held", 1)
            head = np.zeros(*like)
            given = [condition, head, *(value_of(x, x) for x in others)]
            plain = [to_strided(v) if type(v) in layouts_by_type else v for v in given]
            found = counting.op.forward(*plain, **params)
            return tuple(n > 0 for n in (found if self.multiple else (found,)))

        brackets = [
            make_handle(Bracket(value_of(x), partial(_item, counts, k), is_made=True), *slot_of(x))
            for k, x in enumerate(results)
        ]
        return tuple(brackets) if self.multiple else brackets[0]

    def _of_sums_in_level(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """As `_of_sums`, where no entries are known: counts are a call of their own, if any are needed.

        Of what is recorded, terms are selected where a factor, now or in a derivative, may be infinite.
        """
        first, *others = args
        part = may_select(first) or type(support_of(value_of(first))) is Box
        if part and any(map(table.F.is_recorded, args)) and self.has_poles(args, params):
            values, condition = table.F.held_apart(first)
            args = (values, *others)
            made = self.selected(condition, args, params)
        else:
            made = bind(self.op, args, params)
            if not self._leaves_out(args, params):
                return made
            condition = np.broadcast_to(np.True_, first.shape)
        counts = self.counts(condition, args, params)
        if not self.multiple:
            return table.F.bracket(table.F.greater(counts, 0), made, negated=False)
        return tuple(
            table.F.bracket(table.F.greater(n, 0), x, negated=False)
            for n, x in zip(counts, made, strict=True)
        )

    def counts(self, condition: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """On how many entries of the first operand, of those where a condition holds, each result depends."""
        return bind(self._under_condition("held", 1).op, (condition, *args), params)

    def selected(self, condition: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Of entries of the first operand where a condition holds, term by term: others meet no factor."""
        return bind(self._under_condition("selected", 0).op, (condition, *args), params)

    def _under_condition(self, key: str, k: int) -> Expression:
        """`_selected`, of a condition and the operands."""
        names = (distinct("condition", self.names), *self.names)
        return self.derived((key,), partial(self._selected, k), names, self.multiple)

    def moves(self, args: tuple[Any, ...], params: dict[str, Any]) -> bool:
        """Whether each entry of the result depends on one of the first operand, or on none."""
        return self.compiled(tuple(map(_operand, args)), params).maps.place() is not None

    def has_poles(self, args: tuple[Any, ...], params: dict[str, Any]) -> bool:
        """Whether the result may be infinite where all operands are finite."""
        return self.compiled(tuple(map(_operand, args)), params).has_poles

    def _leaves_out(self, args: tuple[Any, ...], params: dict[str, Any]) -> bool:
        """Whether terms of the first operand stand under a condition."""
        return self.compiled(tuple(map(_operand, args)), params).leaves_out

    def _selected(self, k: int, condition: Placeholder, *given: Placeholder, **params: Any) -> Any:
        """The result of what a condition leaves of the first input (k = 0), or its count (`of_selection`)."""
        found = tuple(pair[k] for pair in of_selection(self.outputs(given, params), given[0], condition))
        return found if self.multiple else found[0]

    def _push(self, i: int, t: Placeholder, *xs: Placeholder, **params: Any) -> Any:
        found = tuple(jvp(y, {xs[i]: t}) for y in self.outputs(xs, params))
        return found if self.multiple else found[0]

    def derived(
        self,
        key: tuple[Any, ...],
        build: Build,
        names: tuple[str, ...],
        multiple: bool = False,
        of: Sequence[int] = (),
    ) -> Expression:
        """A derivative of this expression, made when first asked for; ``of`` are the inputs that it is in."""
        with self._lock:
            if key not in self._derived:
                label = ".".join((self.name, key[0], *(self.names[i] for i in of)))
                made = Expression(build, label, names, multiple)
                made.guarded = self.guarded or key[0] == "selected"
                made.root = self.root
                self._derived[key] = made
            return self._derived[key]


def _is_pole(e: Any) -> bool:
    """Whether a function may be infinite where its operands are finite."""
    if not isinstance(e, Apply) or e.dtype.kind not in "fc":
        return False
    if e.name == "divide" and isinstance(e.operands[1], Const):
        return not e.operands[1].value
    return e.name not in SCALARS or not SCALARS[e.name].finite


def _as_selection(value: Any) -> Any:
    """A box, packed entries, or a selection of a box as a selection of an array; other values as they are."""
    made = as_selection(value)
    if type(made) is not Bracket or type(made.values) is not BoxLayout:
        return made
    return Bracket(to_strided(made.values), to_strided(held(made)), is_made=made.is_made)


def _nothing(x: Any) -> Any:
    """An undefined cotangent in place of one."""
    return make_handle(Zero(x.shape, x.dtype))


def _item(found: Callable[[], tuple[Any, ...]], k: int) -> Any:
    return found()[k]


def _operand(x: Any) -> Any:
    return x if hasattr(x, "shape") else np.asarray(x)


def _dtype(x: Any) -> Any:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def op(fn: Build | None = None, *, name: str | None = None, results: int = 1) -> Any:
    """Make a Python function of placeholders an op, callable on Tensors.

    Parameters
    ----------
    fn : takes placeholders (one per positional parameter) and keyword-only parameters that are constants
        (strides, sizes, axes); returns the result of `compute` or `scatter`, or a tuple of them.
    name : in messages; in the text of graphs and for `override_vjp` it is ``te.name``, which no op of the
        library has. By default that of the function. An op that is defined again under its name is another
        one; what was made with the first still is.
    results : how many tensors fn returns, if it returns a tuple.

    Returns
    -------
    A function on Tensors, NumPy arrays and Python numbers. It compiles when it first meets dtypes, and once
    more, for all shapes, when it meets a second shape (where fn needs numbers, or walks triangles or
    strides, for each shape). It differentiates in both modes to any order; the gradients that a call asks for
    are one program, which computes nothing for the others. It can be used as a decorator.

    Messages, texts of graphs and reports call the gradient in x of an op ``te.f`` ``te.f.vjp.x``, that in x
    and w ``te.f.vjp.x.w``, what a tangent of x adds ``te.f.jvp.x``, the same for a batch ``te.f.batch``.

    Where what is between operands and results is large (64 MiB, and twice these), a call runs in blocks along
    an axis that it can be cut along, so that it takes memory for a block of it. Attention takes memory for
    some rows of its scores, its derivatives likewise:

    >>> from iverson import te
    >>> @te.op
    ... def attention(q, k, v):
    ...     (n, d), (m, e) = q.shape, v.shape
    ...     c, j = te.reduce_axis(d), te.reduce_axis(m)
    ...     score = te.compute((n, m), lambda i, j: te.sum(q[i, c] * k[j, c], c))
    ...     top = te.compute((n,), lambda i: te.max(score[i, j], j))
    ...     w = te.compute((n, m), lambda i, j: te.exp(score[i, j] - top[i]))
    ...     total = te.compute((n,), lambda i: te.sum(w[i, j], j))
    ...     return te.compute((n, e), lambda i, x: te.sum(w[i, j] * v[j, x], j) / total[i])
    >>> import numpy as np
    >>> attention(np.eye(2), np.zeros((3, 2)), np.arange(3.0)[:, None])
    iverson.Tensor([[1.],
                    [1.]])

    What fn reads besides its arguments (a global, a variable of the function around) is what it is at each
    call; a derivative of a call from before it changed, that is not compiled yet, is an ArgumentError.

    Raises, at the call, what `compute` raises at definition.

    >>> import iverson as iv
    >>> from iverson import te
    >>> @te.op
    ... def blur(x):
    ...     n = x.shape[0] - 2
    ...     return te.compute((n,), lambda i: (x[i] + x[i + 1] + x[i + 2]) / 3)
    >>> x = iv.asarray([0.0, 3.0, 0.0, 3.0], requires_grad=True)
    >>> blur(x)
    iverson.Tensor([1., 2.], requires_grad=True)
    >>> iv.autograd.grad(blur(x).sum(), x) * 3
    iverson.Tensor([1., 2., 2., 1.])
    """
    if fn is None:
        return partial(op, name=name, results=results)
    as_function(fn, "te.op", "fn")
    operation("op", "" if name is None else name)
    results = as_int(results, "te.op", "results")
    label = name or str(getattr(fn, "__name__", type(fn).__name__))
    names = names_of(fn)

    def define() -> Expression:
        made = Expression(fn, f"te.{label}", names, multiple=results > 1)
        table.USERS[made.op.name] = made.op
        return made

    def call(*args: Any, **params: Any) -> Any:
        own: Any = call
        if not own.expression.holds():
            own.expression = define()  # another one, as its function is
        return bind(own.expression.op, args, params)

    call.__name__ = label
    call.__doc__ = fn.__doc__
    call.__wrapped__ = fn  # type: ignore[attr-defined]
    call.expression = define()  # type: ignore[attr-defined]
    return call


def expression_of(op: Op) -> Expression | None:
    """What an op of a user's index notation, or of a derivative of one, is made by; None of other ops."""
    own = getattr(op.forward, "__self__", None)
    return own if isinstance(own, Expression) else None


def names_of(fn: Build) -> tuple[str, ...]:
    """What a function calls the tensors it takes: its positional parameters."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            "te.op", "fn", got=described(fn), expected="a function with a signature"
        ) from None
    kinds = [p.kind for p in parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        raise ArgumentTypeError(
            "te.op", "fn", got="a function with *args", expected="one positional parameter per tensor"
        )
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(n for n, p in parameters.items() if p.kind in positional)


def rules_of(build: Build, name: str, arity: int) -> tuple[Rule, tuple[Rule, ...]]:
    """The vjp, for all inputs, and the jvp rules that follow from an op's index notation."""
    made = Expression(build, name, tuple(f"x{k}" for k in range(arity)), multiple=False).op
    assert callable(made.vjp)
    return made.vjp, tuple(r for r in made.jvp if r is not None)
