"""Ops from index notation: a Python function of placeholders becomes a record like those of the op table.

Its derivatives need no rules of their own: the vjp in some of the inputs is the same construction again, on
the function that differentiates the first one. So an op is closed under differentiation, forward and reverse,
to any order, and each derivative is compiled when it is first called. All gradients of a call are one
program, of the inputs asked for and the cotangents that are defined: what they share is computed once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

import numpy as np

from iverson.core import dtypes, table
from iverson.core.aval import Aval
from iverson.core.dispatch import bind, has_entries, is_tracked, make_handle, may_select, slot_of, value_of
from iverson.core.entries import FULL, Box
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.inputs.arguments import as_function
from iverson.core.op import Body, Op, Rule, Wanted, frozen
from iverson.core.protocols import DType, LayoutValue, Namespace, NDArray, Params, Shaped, Value
from iverson.core.python import locks
from iverson.core.python.cached import cached_property
from iverson.core.python.recent_items import RecentItems
from iverson.core.region import Region
from iverson.core.scalars import SCALARS
from iverson.core.shapes import as_int
from iverson.core.trace_guards import Guard, guards_of
from iverson.expr.build import as_expr, const
from iverson.expr.nodes import Apply, Const, Expr, postorder
from iverson.expr.symbolic_numbers import integer
from iverson.layouts import Box as BoxLayout
from iverson.layouts import Bracket, Zero, is_strided, layouts_by_type, select, support_of, to_strided
from iverson.layouts.bracket import as_selection, held
from iverson.layouts.pattern_symbols import PatternRead, StandIn
from iverson.te.derivatives.forward_mode import jvp
from iverson.te.derivatives.reverse_mode import differentiable_below, differentiate
from iverson.te.derivatives.taylor_mode import coefficients
from iverson.te.elimination.zero_elimination import eliminate
from iverson.te.ir import evaluation_guards
from iverson.te.ir.expressions import Extent, Placeholder, Tensor
from iverson.te.ir.fresh_names import distinct
from iverson.te.ir.index_arithmetic import depends_on_data
from iverson.te.ir.nodes import Compute, Program, computes_of, program_of, unit_of, units_below
from iverson.te.ir.source_site import Constant, check_constants, operation
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
#: The parameters of a call that are no tensors, by name.
Constants: TypeAlias = dict[str, Constant]
#: A Taylor series, as rules of records read it (`iverson.ops.rules.recurrences`).
Series: TypeAlias = Any
_ndarray = np.ndarray
_kind = attrgetter("__class__", "shape", "dtype")
#: How many shapes an op keeps a compiled program for, and how many derivatives and boxes of these it keeps.
KEPT = 256
#: Entries from which part of a gradient may have code of its own, and how many boxes may, each for itself.
LARGE, ALONE = 1 << 12, 3


@dataclass(frozen=True, eq=False)
class Compiled:
    """An op at given shapes, dtypes and parameters.

    operands : the shapes and dtypes of the arguments.
    program : the statements that compute the results.
    reads, names : positions and names of the arguments that the program reads.
    results : the shapes and dtypes of the results.
    maps : the dependence of entries of the results on entries of the arguments.
    reached : gives, for positions of results, the positions of the arguments in which these have derivatives.
    lower : compiles the program; called when it is first run.
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
        """Code of the program, compiled at the first use."""
        return self.lower()

    @cached_property
    def leaves_out(self) -> bool:
        """True if a condition may leave out terms with the first argument: of a select, or one on data."""
        if 0 not in self.reads:
            return False
        dependents: set[Tensor] = {self.program.inputs[self.reads.index(0)]}
        for unit in units_below(self.program.outputs):
            for t in computes_of(unit):
                for s in t.statements:
                    reads = [r for r in s.reads if r.tensor in dependents]
                    if reads and depends_on_data(s.domain.where):
                        return True
                    conditions = evaluation_guards.guards_of(s.body)
                    if any(conditions.get(r) for r in reads):
                        return True
                    dependents.update([t] if reads else [])
        return False

    @cached_property
    def has_poles(self) -> bool:
        """True if a result may be infinite although all arguments are finite."""
        tensors = (t for unit in units_below(self.program.outputs) for t in computes_of(unit))
        return any(map(_is_pole, postorder([s.body for t in tensors for s in t.statements])))

    @cached_property
    def picked(self) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """Function from a tuple of all arguments to a tuple of those that the program reads, in its order."""
        reads = self.reads
        if reads == tuple(range(len(self.operands))):
            return tuple
        if len(reads) < 2:
            return itemgetter(slice(reads[0], reads[0] + 1) if reads else slice(0))
        return itemgetter(*reads)

    def fits(self, values: tuple[NDArray | complex, ...]) -> bool:
        """True if all values are NumPy arrays with the shapes and dtypes of ``operands``."""
        try:
            return tuple(map(_kind, values)) == self._kinds
        except AttributeError:  # of a number
            return False

    @cached_property
    def _kinds(self) -> tuple[Any, ...]:
        return tuple([(_ndarray, *operand) for operand in self.operands])


def _in_single(x: Tensor) -> Tensor:
    """Placeholder x itself, or for half precision a tensor of its entries in float32."""
    if not dtypes.is_half(x.dtype):
        return x
    return compute(x.shape, lambda *i: x[i], x.name, dtypes.float32)


def _stored_as(t: Tensor, dtype: DType) -> Tensor:
    """Result t itself; its entries cast to ``dtype``, if t is float32 and ``dtype`` is of half precision."""
    if t.dtype != dtypes.float32 or not dtypes.is_half(dtype):
        return t
    return compute(t.shape, lambda *i: t[i], t.name, dtype)


class Expression:
    """A function of placeholders, compiled per shape, with its derivatives as further Expressions.

    build : takes placeholders and keyword parameters, returns a Tensor or a tuple of them.
    names : of the placeholders, as messages call them.
    multiple : True if ``build`` returns a tuple.
    guarded : True if an operand is a condition that leaves out terms: then derivatives are always
        selections.
    alone : number of shapes with a program of their own, as a program for all shapes does not serve them.
    root : the expression of which this one is a derivative, of any order; itself, if it is none.
    gradient : of one from `gradients`: (expression, positions of inputs, positions of results).
    linear : True for a derivative that is linear in its first operand alone.
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
        self._compiled: RecentItems[Any, Compiled] = RecentItems(KEPT)
        #: Of the call before, most often of the next as well.
        self._latest: tuple[Compiled | None, Any] = None, None
        self._any_shape: RecentItems[Any, AnyShape] = RecentItems(KEPT)
        self._derived: RecentItems[Any, Expression] = RecentItems(KEPT)
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
            taylor=self._taylor,
            batch=self._batch,
            te=self._built,
        )

    def __reduce__(self) -> tuple[object, ...]:
        if self.root is not self:
            raise TypeError(f"cannot pickle a derivative of {self.name}: pickle the op")
        return _defined, (self.build, self.name, self.names, self.multiple)

    def holds(self) -> bool:
        """True if the values that the function reads besides its arguments are unchanged."""
        return False not in [guard.holds() for guard in self.root._guards]

    def _built(self, /, *given: Tensor, **params: Constant) -> Any:
        """Result of the function for placeholders.

        Raises ArgumentError if other values that the function reads (globals, say) have changed since the
        call to which this derivative, or shape that is compiled later, belongs.
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
        result = self.build(*given, **params)
        self._guards = guards_of(self.build)  # what it changes itself is no change
        return result

    def compiled(self, operands: Sequence[Shaped], params: Constants) -> Compiled:
        """The op at these shapes, dtypes and parameters, from the cache if it is there."""
        if params:
            check_constants(self.name, params)
        key = tuple([(o.shape, o.dtype) for o in operands]), frozen(params) if params else ()
        cached = self._compiled.get(key)
        if cached is not None and len(self._compiled) < KEPT // 2:  # none is about to be dropped
            return cached
        return self._compiled.find(key) or self._compiled.keep(key, self._compile(operands, params))

    def _compile(self, operands: Sequence[Shaped], params: Constants) -> Compiled:
        """Build the program for operands of these shapes and dtypes; no code is compiled yet.

        Raises PatternRead if an extent stands for any number of entries: the function would read it.
        """
        if any(StandIn in map(type, o.shape) for o in operands):
            raise PatternRead
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
        results = tuple(Aval(tuple(map(integer, t.shape)), t.dtype) for t in outputs)
        maps = ProgramMaps(program, inputs)
        avals = tuple(Aval(tuple(o.shape), o.dtype) for o in operands)

        @cache
        def reached(positions: tuple[int, ...]) -> frozenset[int]:
            below = differentiable_below([outputs[j] for j in positions])
            return frozenset(k for k, t in enumerate(inputs) if t in below)

        lower_program = partial(self._lower, avals, params, program, reads)
        names = tuple([self.names[k] for k in reads])
        expected = tuple([(tuple(o.shape), t.dtype) for o, t in zip(operands, inputs, strict=True)])
        return Compiled(expected, program, reads, names, results, maps, reached, lower_program)

    def _lower(
        self, operands: tuple[Aval, ...], params: Constants, program: Program, reads: tuple[int, ...]
    ) -> Lowered | Blocked:
        """Code of a program: for all shapes if possible, and in blocks if its temporaries are large.

        reads : positions of the operands that the program reads.
        """
        large = is_large(program)
        key = tuple((len(o.shape), o.dtype) for o in operands), frozen(params), large

        def build(extents: Sequence[Extent]) -> tuple[tuple[Placeholder, ...], tuple[Tensor, ...]]:
            inputs = self._inputs(operands, extents)
            return inputs, self.outputs(inputs, params)

        any_shape = self._any_shape.find(key) or self._any_shape.keep(key, AnyShape(build, large))
        code = any_shape.lowered(tuple(n for o in operands for n in o.shape), program, reads)
        if code is not None:
            return code
        self.alone += 1
        return (lowered_in_blocks(program) if large else None) or lower(eliminate(program))

    def _inputs(self, operands: Sequence[Shaped], extents: Sequence[Extent]) -> tuple[Placeholder, ...]:
        """Placeholders for the operands, with their ranks and dtypes.

        extents : of all placeholders, one after the other.
        """
        names = (*self.names, *(f"x{k}" for k in range(len(self.names), len(operands))))
        remaining_extents = iter(extents)
        return tuple(
            placeholder(tuple(next(remaining_extents) for _ in o.shape), o.dtype, n)
            for o, n in zip(operands, names, strict=False)
        )

    def outputs(self, inputs: Sequence[Tensor], params: Constants) -> tuple[Tensor, ...]:
        """Outputs of the function for placeholders, or tensors of a definition, checked to be tensors.

        The function gets placeholders of half precision as tensors in float32, which loops compute where they
        read them. If all floating inputs are of half precision, float32 outputs are rounded when they are
        stored.
        """
        result = self._built(*map(_in_single, inputs), **params)
        outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if self.multiple != isinstance(result, (tuple, list)) or not all(
            isinstance(t, Tensor) for t in outputs
        ):
            raise ArgumentTypeError(
                self.name,
                "fn",
                got=f"a function that returns {result!r}",
                expected="a tuple of tensors" if self.multiple else "a tensor from te.compute or te.scatter",
                remedy=_remedy(len(outputs), isinstance(result, (tuple, list))),
            )
        if any(dtypes.is_half(x.dtype) for x in inputs):
            to = dtypes.result_type(*(x.dtype for x in inputs if dtypes.is_inexact(x.dtype)))
            outputs = tuple([_stored_as(t, to) for t in outputs])
        return outputs

    def _forward(self, /, *values: NDArray | complex, **params: Constant) -> Any:
        """Results for arrays: the body of the op."""
        compiled, code = self._latest
        if params or compiled is None or not compiled.fits(values):
            arrays = tuple([v if type(v) is _ndarray else np.asarray(v) for v in values])
            compiled = self.compiled(arrays, params)
            code = compiled.lowered
            if not params and isinstance(code, Lowered):
                self._latest = compiled, code
            results = code(*compiled.picked(arrays), operation=self.name, names=compiled.names)
        else:
            results = code.run(compiled.picked(values), None, self.name, compiled.names)
        return results if self.multiple else results[0]

    def _abstract(self, /, *operands: Shaped | complex, **params: Constant) -> Any:
        results = self.compiled(tuple(map(_operand, operands)), params).results
        return results if self.multiple else results[0]

    def _maps(self, operands: Sequence[Shaped | complex], params: Params) -> ProgramMaps:
        return self.compiled(tuple(map(_operand, operands)), dict(params)).maps

    def _vjp(
        self, F: Namespace, wanted: Wanted, g: Any, _y: Value, /, *xs: Value, **params: Constant
    ) -> list[Any]:
        """Gradients in the inputs ``wanted`` (None for zero), from the cotangents ``g``.

        One program computes all gradients of whole inputs; in a level, one program computes each, so that the
        level may split it. If one of several cotangents is a selection, each is pulled back by itself: the
        entries that a selection leaves out depend on it alone (`applied`).
        """
        if self.multiple and (self.guarded or any(map(may_select, g))):
            defined = [j for j, h in enumerate(g) if type(value_of(h)) is not Zero or is_tracked(h)]
            if len(defined) > 1:
                alone = [[h if k == j else _nothing(h) for k, h in enumerate(g)] for j in defined]
                parts = [self._vjp(F, wanted, tuple(heads), _y, *xs, **params) for heads in alone]
                sums = [[ct for ct in of if ct is not None] for of in zip(*parts, strict=True)]
                return [F.add_n(*of) if len(of) > 1 else of[0] if of else None for of in sums]
        gradient_of = {
            i: self._box(F, part, i, g, xs, params) for i, part in wanted.items() if isinstance(part, Box)
        }
        gradient_of = {i: ct for i, ct in gradient_of.items() if ct is not NotImplemented}
        pullback = self._pullback(tuple([i for i in wanted if i not in gradient_of]), g, xs, params)
        if pullback is not None:
            derived, args, positions = pullback
            if not derived.multiple:
                gradient_of[positions[0]] = derived.applied(args, params)
            elif all(map(has_entries, args)):
                gradient_of.update(zip(positions, derived.applied(args, params), strict=True))
            else:
                for i in positions:
                    (gradient_of[i],) = self._vjp(F, {i: FULL}, g, _y, *xs, **params)
        return [gradient_of.get(i) for i in wanted]

    def _box(self, F: Namespace, part: Box, i: int, g: Any, xs: tuple[Value, ...], params: Constants) -> Any:
        """Box ``part`` of the gradient in input i, or None if the gradient is zero.

        In a graph, which has one box, the result is NotImplemented unless the gradient is large. Elsewhere
        the box must be less than half of it as well, and one program must serve all boxes: the box is passed
        as the shape of an operand without entries, so its corner is an extent like others
        (`iverson.te.lowering.shape_polymorphism`).
        """
        shape = getattr(xs[i], "shape", ())
        in_graph = not all(map(has_entries, (*(g if self.multiple else (g,)), *xs)))
        largest = prod(shape) - 1 if in_graph else prod(shape) // 2
        if prod(shape) < LARGE or part.region.size > largest:
            return NotImplemented
        pullback = self._pullback((i,), g, xs, params)
        if pullback is None:
            return None
        gradient, args, _ = pullback
        results = gradient.compiled(tuple(map(_operand, args)), params).program.outputs
        if type(value_of(args[0])) is Bracket or not all(map(has_parts, results)):
            return NotImplemented
        if in_graph:
            build = partial(gradient._inside, part.region)
            inside = gradient.derived(("part", part.region), build, gradient.names)
            return F.embed(bind(inside.op, args, params), key=part.region.slices, shape=shape)
        box_gradient = gradient.derived(
            ("part",), gradient._part, (*gradient.names, distinct("box", gradient.names))
        )
        if box_gradient.alone > ALONE:
            return NotImplemented
        start, stop = part.region
        box = np.broadcast_to(np.False_, (*(a + 1 for a in start), *map(int.__sub__, stop, start)))
        ct = bind(box_gradient.op, (*args, box), params)
        return F.embed(ct, key=part.region.slices, shape=shape)

    def _inside(self, region: Region, /, *operands: Placeholder, **params: Constant) -> Tensor:
        """Entries of the result in a region."""
        (result,) = self.outputs(operands, params)
        return part_of(result, region.start, region.shape)

    def _part(self, /, *given: Placeholder, **params: Constant) -> Tensor:
        """Entries of the result in a box.

        The box is given by the shape of the last placeholder, ``(*start + 1, *shape)``.
        """
        *operands, box = given
        (result,) = self.outputs(tuple(operands), params)
        rank = result.ndim
        return part_of(result, [n - 1 for n in box.shape[:rank]], box.shape[rank:])

    def _pullback(
        self, targets: tuple[int, ...], g: Any, xs: tuple[Value, ...], params: Constants
    ) -> tuple[Expression, tuple[Any, ...], tuple[int, ...]] | None:
        """Gradients as an expression, its operands, and positions of the inputs whose gradients are not zero.

        The result is None if all gradients are zero.

        targets : positions of the inputs whose gradients are asked for.
        """
        heads = g if self.multiple else (g,)
        defined = tuple(
            j for j, h in enumerate(heads) if not (type(value_of(h)) is Zero and not is_tracked(h))
        )
        targets = tuple(i for i in targets if dtypes.is_inexact(_dtype(xs[i])))
        if defined and targets:
            reachable = self.compiled(tuple(map(_operand, xs)), params).reached(defined)
            targets = tuple(i for i in targets if i in reachable)
        if not defined or not targets:
            return None
        return self.gradients(targets, defined), (*(heads[j] for j in defined), *xs), targets

    def gradients(self, targets: tuple[int, ...], defined: tuple[int, ...]) -> Expression:
        """Gradients in the inputs ``targets``, as an expression of cotangents and all inputs.

        defined : the positions of the results whose cotangents are operands.
        """
        heads = [f"cotangent{j}" if self.multiple else "cotangent" for j in defined]
        names = (*(distinct(n, self.names) for n in heads), *self.names)
        build = partial(self._pull, targets, defined)
        expression = self.derived(("vjp", targets, defined), build, names, len(targets) > 1, of=targets)
        expression.gradient, expression.linear = (self, targets, defined), len(defined) == 1
        return expression

    def programs(self, args: tuple[Value, ...], params: Constants) -> dict[str, Program]:
        """Programs by title: of a call with these arguments, and of the gradients in tracked arguments.

        The call is carried out first, so that its errors are raised.
        """
        bind(self.op, args, params)  # what is wrong with the call is said as ever
        operands = tuple(map(_operand, args))
        compiled = self.compiled(operands, params)
        programs = {self.name: compiled.program}
        results = tuple(range(len(compiled.results)))
        targets = tuple(i for i in sorted(compiled.reached(results)) if is_tracked(args[i]))
        if targets:
            names = ", ".join(self.names[i] for i in targets)
            gradient_code = self.gradients(targets, results).compiled((*compiled.results, *operands), params)
            programs[f"gradients of {self.name} in {names}"] = gradient_code.program
        return programs

    def _pull(
        self, wanted: tuple[int, ...], defined: tuple[int, ...], /, *given: Placeholder, **params: Constant
    ) -> Any:
        heads, xs = given[: len(defined)], given[len(defined) :]
        outputs = self.outputs(xs, params)
        gradients = differentiate([outputs[j] for j in defined], [xs[i] for i in wanted], list(heads))
        return tuple(gradients) if len(wanted) > 1 else gradients[0]

    def _batch(self, _F: Namespace, examples: Any, /, *args: Value, **params: Constant) -> Any:
        """Results for a batch of examples, by the same definition with an axis for the examples."""
        build = partial(self._over_examples, examples.of)
        derived = self.derived(("batch", examples.of), build, self.names, self.multiple)
        derived.linear = self.linear
        return derived.applied(args, params) if self.linear else bind(derived.op, args, params)

    def _over_examples(self, of: tuple[bool, ...], /, *given: Placeholder, **params: Constant) -> Any:
        example = tuple(
            placeholder(x.shape[1:], x.dtype, x.name) if b else x for x, b in zip(given, of, strict=True)
        )
        pairs = {p: x for p, x, b in zip(example, given, of, strict=True) if b}
        outputs = over_examples(self.outputs(example, params), pairs)
        return outputs if self.multiple else outputs[0]

    def _jvp(self, i: int, _F: Namespace, t: Value, _y: Value, /, *xs: Value, **params: Constant) -> Any:
        """Contribution of a tangent of input i to the tangents of the results; None without dependence."""
        compiled = self.compiled(tuple(map(_operand, xs)), params)
        if i not in compiled.reached(tuple(range(len(compiled.results)))):
            return None
        names = (distinct("tangent", self.names), *self.names)
        derived = self.derived(("jvp", i), partial(self._push, i), names, self.multiple, of=(i,))
        derived.linear = True
        return derived.applied((t, *xs), params)

    def _taylor(self, _F: Namespace, _y: Series, /, *xs: Series, **params: Constant) -> Any:
        """Recurrence of the Taylor coefficients of the results: one program for all, where it can be.

        The operands of programs are coefficients that are not zero. Of several lines through one point, the
        value has a program of its own. Selections have the rules of forward mode.
        """
        if not all(x.is_line for x in xs):
            return None
        order = min(x.top_order for x in xs)
        if any(may_select(c) for x in xs for c in map(x.__getitem__, range(order + 1)) if c is not None):
            return NotImplemented
        count = len(self.compiled([_operand(x[0]) for x in xs], params).results)
        has_lines = any(x.has_lines for x in xs)

        @cache
        def results(low: int, high: int) -> tuple[Any, ...]:
            return self._expanded(xs, low, high, params)

        def rule(k: int) -> Any:
            if k == 0 and (has_lines or not order):
                return NotImplemented
            low, high = (int(has_lines), order) if order else (k, k)
            terms = results(low, high)[(k - low) * count : (k - low + 1) * count]
            return terms if self.multiple else terms[0]

        return rule

    def _expanded(self, xs: Sequence[Series], low: int, high: int, params: Constants) -> tuple[Any, ...]:
        """Coefficients ``low`` to ``high`` of all results, one order after the other; None for zero."""
        orders = tuple([tuple([k for k in range(1, high + 1) if x[k] is not None]) for x in xs])
        varying = [i for i, ks in enumerate(orders) if ks]
        names = [distinct(f"{self.names[i]}{k}", self.names) for i in varying for k in orders[i]]
        build = partial(self._series, orders, low, high)
        key = "taylor", orders, low, high
        derived = self.derived(key, build, (*self.names, *names), True, of=varying)
        args = (*(x[0] for x in xs), *(xs[i][k] for i in varying for k in orders[i]))
        outputs = derived.compiled(tuple(map(_operand, args)), params).program.outputs
        out = bind(derived.op, args, params)
        return tuple([x if computes_of(unit_of(t)) else None for t, x in zip(outputs, out, strict=True)])

    def _series(
        self,
        orders: tuple[tuple[int, ...], ...],
        low: int,
        high: int,
        /,
        *operands: Placeholder,
        **params: Constant,
    ) -> tuple[Tensor, ...]:
        """Coefficients ``low`` to ``high`` of all results, from those of some orders of the inputs."""
        xs, terms = operands[: len(orders)], iter(operands[len(orders) :])
        series: dict[Tensor, list[Tensor | None]] = {}
        for x, ks in zip(xs, orders, strict=True):
            series[x] = [None] * high
            for k in ks:
                series[x][k - 1] = next(terms)
        outputs = self.outputs(xs, params)
        by_order = [outputs, *zip(*coefficients(outputs, series, high), strict=True)]
        return tuple(
            [
                Compute(t.shape, t.dtype, t.name, ()) if c is None else c
                for cs in by_order[low:]
                for t, c in zip(outputs, cs, strict=True)
            ]
        )

    def applied(self, args: tuple[Value, ...], params: Constants) -> Any:
        """Results of this derivative for its operands; the first one is the cotangent or tangent.

        If that is a selection (`iverson.layouts.bracket`) or a box, and the derivative is linear in it, the
        result is a selection. An entry of it is left out if all entries that it depends on are. Entries that
        are left out are not multiplied by any factor.
        """
        first, *operands = args
        value = value_of(first)
        if self.linear and (selection := _as_selection(value)) is not value:
            value = selection
            first = make_handle(value, *slot_of(first))
            args = (first, *operands)
        selected = type(value) is Bracket and is_strided(value.values) and is_strided(value.condition)
        if not (selected or self.guarded):
            return self._of_sums(args, params) if self.linear else bind(self.op, args, params)
        place = self.compiled(tuple(map(_operand, args)), params).maps.place()
        if place is None or self.guarded:
            return self._of_sums(args, params)
        everywhere = make_handle(value.values, *slot_of(first))

        def chosen(array: Value) -> Any:
            return table.F.bracket(place.moved(value.condition, array.shape), array, negated=value.negated)

        result = self._of_sums((everywhere, *operands), params)
        return tuple(map(chosen, result)) if self.multiple else chosen(result)

    def _of_sums(self, args: tuple[Value, ...], params: Constants) -> Any:
        """Result of this derivative for a selection, where an entry may be a sum of several selected ones.

        The selection is made first: zeros stand for the entries that it leaves out. If the result is not
        finite, or is recorded for a further derivative, the terms are selected one by one instead, since a
        zero may meet a factor that is not finite.
        """
        first, *operands = args
        value = value_of(first)
        if not all(map(has_entries, args)):
            return self._of_sums_in_level(args, params)
        output = bind(self.op, (make_handle(select(value), *slot_of(first)), *operands), params)
        results = output if self.multiple else (output,)
        if type(value) is not Bracket:
            condition = np.broadcast_to(np.True_, value.shape)
        else:
            condition, value = held(value), value.values
            if not all(not is_tracked(x) and np.isfinite(value_of(x)).all() for x in results):
                output = self.selected(condition, (make_handle(value, *slot_of(first)), *operands), params)
                results = output if self.multiple else (output,)

        like = value.shape, value.dtype

        @cache
        def counts() -> tuple[Any, ...]:
            counting = self._under_condition("held", 1)
            head = np.zeros(*like)
            values = [condition, head, *(value_of(x, x) for x in operands)]
            plain = [to_strided(v) if type(v) in layouts_by_type else v for v in values]
            numbers = counting.op.forward(*plain, **params)
            return tuple(n > 0 for n in (numbers if self.multiple else (numbers,)))

        brackets = [
            make_handle(Bracket(value_of(x), partial(_item, counts, k), is_made=True), *slot_of(x))
            for k, x in enumerate(results)
        ]
        return tuple(brackets) if self.multiple else brackets[0]

    def _of_sums_in_level(self, args: tuple[Value, ...], params: Constants) -> Any:
        """Result as of `_of_sums`, in a level, where entries are not known; counts are a call of their own.

        Recorded calls select term by term if a factor, now or in a derivative, may be infinite.
        """
        first, *operands = args
        part = may_select(first) or type(support_of(value_of(first))) is Box
        if part and any(map(table.F.is_recorded, args)) and self.has_poles(args, params):
            values, condition = table.F.held_apart(first)
            args = (values, *operands)
            output = self.selected(condition, args, params)
        else:
            output = bind(self.op, args, params)
            if not self._leaves_out(args, params):
                return output
            condition = np.broadcast_to(np.True_, first.shape)
        counts = self.counts(condition, args, params)
        if not self.multiple:
            return table.F.bracket(table.F.greater(counts, 0), output, negated=False)
        return tuple(
            table.F.bracket(table.F.greater(n, 0), x, negated=False)
            for n, x in zip(counts, output, strict=True)
        )

    def counts(self, condition: Value, args: tuple[Value, ...], params: Constants) -> Any:
        """Number of selected entries of the first operand on which each entry of a result depends.

        condition : the mask of the selected entries.
        """
        return bind(self._under_condition("held", 1).op, (condition, *args), params)

    def selected(self, condition: Value, args: tuple[Value, ...], params: Constants) -> Any:
        """Results from the entries of the first operand at which ``condition`` holds; others are skipped."""
        return bind(self._under_condition("selected", 0).op, (condition, *args), params)

    def _under_condition(self, key: str, k: int) -> Expression:
        """Expression of a condition and the operands, by `_selected`: results (k = 0) or counts (k = 1).

        key : its name.
        """
        names = (distinct("condition", self.names), *self.names)
        return self.derived((key,), partial(self._selected, k), names, self.multiple)

    def moves(self, args: tuple[Value, ...], params: Constants) -> bool:
        """True if each entry of the result depends on at most one entry of the first operand."""
        return self.compiled(tuple(map(_operand, args)), params).maps.place() is not None

    def has_poles(self, args: tuple[Value, ...], params: Constants) -> bool:
        """True if the result may be infinite although all operands are finite."""
        return self.compiled(tuple(map(_operand, args)), params).has_poles

    def _leaves_out(self, args: tuple[Value, ...], params: Constants) -> bool:
        """True if a condition may leave out terms with the first operand."""
        return self.compiled(tuple(map(_operand, args)), params).leaves_out

    def _selected(self, k: int, condition: Placeholder, /, *given: Placeholder, **params: Constant) -> Any:
        """Results for the entries of the first input that ``condition`` selects; their counts, if k is 1.

        A count is the number of selected entries on which an entry of the result depends.
        """
        outputs = tuple(pair[k] for pair in of_selection(self.outputs(given, params), given[0], condition))
        return outputs if self.multiple else outputs[0]

    def _push(self, i: int, t: Placeholder, /, *xs: Placeholder, **params: Constant) -> Any:
        tangents = tuple(jvp(y, {xs[i]: t}) for y in self.outputs(xs, params))
        return tangents if self.multiple else tangents[0]

    def derived(
        self,
        key: tuple[str, *tuple[Hashable, ...]],
        build: Build,
        names: tuple[str, ...],
        multiple: bool = False,
        of: Sequence[int] = (),
    ) -> Expression:
        """Derivative, or another relative, of this expression; it is made at the first call with ``key``.

        of : positions of inputs, whose names become a part of its name.
        """
        with self._lock:
            expression = self._derived.find(key)
            if expression is None:
                label = ".".join((self.name, key[0], *(self.names[i] for i in of)))
                expression = Expression(build, label, names, multiple)
                expression.guarded = self.guarded or key[0] == "selected"
                expression.root = self.root
                self._derived.keep(key, expression)
            return expression


def _is_pole(e: Expr) -> bool:
    """True if the value of ``e`` may be infinite although the values of its operands are finite."""
    if not isinstance(e, Apply) or e.dtype.kind not in "fc":
        return False
    if e.name == "divide" and isinstance(e.operands[1], Const):
        return not e.operands[1].value
    return e.name not in SCALARS or not SCALARS[e.name].finite


def _as_selection(value: LayoutValue) -> Any:
    """Box, packed entries, or selection of a box, as a selection of an array; any other value is itself."""
    selection = as_selection(value)
    if type(selection) is not Bracket or type(selection.values) is not BoxLayout:
        return selection
    return Bracket(to_strided(selection.values), to_strided(held(selection)), is_made=selection.is_made)


def _nothing(x: Shaped) -> Any:
    """Cotangent of the zero layout with the shape and dtype of x, which stands for an undefined one."""
    return make_handle(Zero(x.shape, x.dtype))


def _item(results: Callable[[], tuple[NDArray, ...]], k: int) -> Any:
    return results()[k]


def _remedy(count: int, is_sequence: bool) -> str:
    """Remedy for an op of one result that returns several, or the other way round."""
    if is_sequence:
        return f"say how many there are: @te.op(results={count})" if count > 1 else "return it alone"
    return "return tensors, a tuple of them where there are results="


def _operand(x: Shaped | complex) -> Any:
    return x if hasattr(x, "shape") else np.asarray(x)


def _dtype(x: Shaped | complex) -> Any:
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
    and w ``te.f.vjp.x.w``, what a tangent of x adds ``te.f.jvp.x``, the Taylor coefficients where x varies
    ``te.f.taylor.x``, the same for a batch ``te.f.batch``.

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

    Called with tensors of index notation, in the definition of another op, it gives tensors of that
    definition.

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
        return _defined(fn, f"te.{label}", names, results > 1)

    def call(*args: Value | Tensor | complex, **params: Constant) -> Any:
        this_op: Any = call
        for a in args:
            if isinstance(a, Tensor):
                return _defined_within(this_op.expression, args, params)
        if not this_op.expression.holds():
            this_op.expression = define()  # another one, as its function is
        return bind(this_op.expression.op, args, params)

    call.__name__ = label
    call.__doc__ = fn.__doc__
    call.__wrapped__ = fn  # type: ignore[attr-defined]
    call.expression = define()  # type: ignore[attr-defined]
    return call


def _defined(build: Build, name: str, names: tuple[str, ...], multiple: bool) -> Expression:
    """Expression of a user's function, entered in the table of ops."""
    expression = Expression(build, name, names, multiple)
    table.USERS[expression.op.name] = expression.op
    return expression


def _defined_within(
    expression: Expression, args: Sequence[Value | Tensor | complex], params: Constants
) -> Tensor | tuple[Tensor, ...]:
    """Results of an op that is called in the definition of another one: tensors of that definition."""
    names = (*expression.names, *(f"x{k}" for k in range(len(expression.names), len(args))))
    tensors = [a.dtype for a in args if isinstance(a, Tensor)]
    operands: list[Tensor] = []
    for a, operand_name in zip(args, names, strict=False):
        if isinstance(a, (bool, int, float, complex)):
            number = const(a, dtypes.result_type(*tensors, a))
            operands.append(compute((), partial(as_expr, number), operand_name))
        elif isinstance(a, Tensor):
            operands.append(a)
        else:
            raise ArgumentTypeError(
                expression.name,
                operand_name,
                got=described(a),
                expected="a tensor of the definition around the op, or a number",
                remedy="make it a parameter of the op around it",
            )
    outputs = expression.outputs(operands, params)
    return outputs if expression.multiple else outputs[0]


def expression_of(op: Op) -> Expression | None:
    """The Expression of an op in a user's index notation, or of its derivative; None for other ops."""
    owner = getattr(op.forward, "__self__", None)
    return owner if isinstance(owner, Expression) else None


def names_of(fn: Build) -> tuple[str, ...]:
    """Names of the tensors that a function takes: its positional parameters."""
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
    """The vjp rule, for all inputs, and a tuple of the jvp rules that follow from index notation.

    build : the op in index notation.
    arity : the number of its inputs.
    """
    derived_op = Expression(build, name, tuple(f"x{k}" for k in range(arity)), multiple=False).op
    assert callable(derived_op.vjp)
    return derived_op.vjp, tuple(r for r in derived_op.jvp if r is not None)
