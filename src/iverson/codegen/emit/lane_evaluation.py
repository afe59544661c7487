"""Lane evaluation: expressions and accesses at a *point*, one iteration of all loops or a vector of them.

A point gives each name its value: a scalar where all lanes agree, a vector where they do not, or a
`Lane`, an integer that grows evenly over the lanes, which keeps its loads contiguous. Statements and
loops, which make the points, are in `nest_emission` and `vector_loops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from iverson.codegen.emit import half_conversion, scalar_code, vector_access
from iverson.codegen.emit.llvm_builder import I32, I64, Builder, Type, Value, as_type
from iverson.codegen.emit.vector_access import Address
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.integer_bounds import Scope, affine
from iverson.codegen.nests.nodes import INT64, Buffer, Load, Local, Size, Store, Var
from iverson.core import dtypes
from iverson.expr.affine import LINEAR
from iverson.expr.nodes import (
    Apply,
    Cast,
    Const,
    DType,
    Expr,
    Select,
    atoms,
    postorder,
    producers_first,
    subexpressions,
)


@dataclass(frozen=True)
class Lane:
    """base, base + step, base + 2 step, ... over the lanes."""

    base: Value
    step: int


@dataclass(frozen=True)
class Slot:
    """A variable: stack memory (that LLVM turns into a register) of a type."""

    pointer: Value
    type: Type
    dtype: DType


@dataclass(frozen=True)
class Wide:
    """An accumulator while it is vectors: one variable for each vector of a group."""

    copies: tuple[Slot, ...]


@dataclass
class Point:
    """One iteration, or ``lanes`` at once, of which ``mask`` says which exist (None: all).

    chosen : the conditions of the Selects around an expression, and whether it stands where they hold.
    known : while an expression is evaluated here, the values of what it is made of.
    """

    env: dict[str, Value | Lane | Slot | Wide]
    lanes: int = 1
    mask: Value | None = None
    chosen: tuple[tuple[Value, bool], ...] = ()
    known: dict[Any, Value] | None = None

    def inner(self, mask: Value | None = None, **names: Value | Lane | Slot | Wide) -> Point:
        """This point with more ``names``, and with ``mask`` in place of its own unless None.

        Values known at this point are not known at the new one.
        """
        return Point({**self.env, **names}, self.lanes, self.mask if mask is None else mask, self.chosen)

    def where(self, condition: Value, holds: bool) -> Point:
        """Copy of this point for one branch of a Select: ``(condition, holds)`` is added to ``chosen``.

        The mask stays, so both branches are evaluated in all lanes. Only reports of wrong indices are
        limited to the lanes in which ``condition`` is equal to ``holds``.

        holds : True for the branch ``then``, False for the branch ``other``.
        """
        return replace(self, chosen=(*self.chosen, (condition, holds)))


@dataclass
class Machine:
    """Context of evaluation besides a point: the builder, pointers, sizes, and the plan of access checks.

    faults : points to the record that tested accesses write to (`codegen.nests.fault_reports`).
    """

    b: Builder
    pointers: dict[str, Value]
    sizes: dict[str, Value]
    faults: Value
    plan: Plan
    _tests: set[tuple[int, str]] = field(default_factory=set)
    _reporting: dict[Expr, bool] = field(default_factory=dict)
    _nested: int = 0

    # --- values -----------------------------------------------------------------------------------

    def value(self, e: Expr, p: Point) -> Value:
        """Emit the evaluation of an expression at a point, and return its value: a scalar if no lane differs.

        Parts that occur several times are evaluated once.
        """
        if not e.operands:
            return self._value(e, p)
        if p.known is None:
            p = replace(p, known={})
        assert p.known is not None
        key: Any = e
        if p.chosen and self._reports(e):  # a test is carried out behind the choices around it
            key = e, tuple((condition.ref, holds) for condition, holds in p.chosen)
        value = p.known.get(key)
        if value is None:
            if self._nested >= NESTED:
                self._innermost_first(e, p)
            self._nested += 1
            value = p.known[key] = self._value(e, p)
            self._nested -= 1
        return value

    def _innermost_first(self, e: Expr, p: Point) -> None:
        """Evaluate the parts of an expression into ``p.known``, innermost first.

        A long series is deeper than Python's stack, so that recursion from the outside would fail.
        """
        nested, self._nested = self._nested, 0
        for x in producers_first([e], _outside_of_choices)[:-1]:
            self.value(x, p)
        self._nested = nested

    def _reports(self, e: Expr) -> bool:
        """True if an access in the expression is tested at run time, where it is carried out."""
        if not self.plan.tested:
            return False
        for x in () if e in self._reporting else postorder([e]):
            tested = isinstance(x, Load) and any(
                (id(x), k) in self.plan.tested for k in range(len(x.indices))
            )
            self._reporting[x] = tested or any(self._reporting[o] for o in x.operands)
        return self._reporting[e]

    def _value(self, e: Expr, p: Point) -> Value:
        """Emit the evaluation of one node and return its value; `value` evaluates its operands."""
        b = self.b
        if isinstance(e, Const):
            if dtypes.is_half(e.dtype):
                return half_conversion.constant(b, e.value, e.dtype)
            return b.const(e.value, as_type(e.dtype))
        if isinstance(e, (Var, Local)):
            return self._name(e.name, p)
        if isinstance(e, Size):
            return _number(self.sizes[e.name], e.dtype)
        if isinstance(e, Load):
            return self.load(e, p)
        if isinstance(e, Cast):
            return scalar_code.cast(b, self.value(e.operand, p), e.operand.dtype, e.dtype)
        if isinstance(e, Select):
            condition = self.value(e.condition, p)
            then, other = (
                self.value(x, p.where(condition, holds)) for x, holds in ((e.then, True), (e.other, False))
            )
            then, other = self.together(then, other)
            lanes = max(condition.type.lanes, then.type.lanes)
            if condition.type.lanes > 1:
                then, other = b.splat(then, lanes), b.splat(other, lanes)
            return b.select(condition, then, other)
        assert isinstance(e, Apply)
        linear = self._as_linear(e, p)
        if linear is not None:
            return self._spread(linear, p.lanes) if linear.step else linear.base
        args = self.together(*(self.value(a, p) for a in e.args))
        if e.name == "pow" and isinstance(e.args[1], Const):
            short = _power(b, args[0], e.args[1].value, e.dtype)
            if short is not None:
                return short
        return scalar_code.emit(b, e.name, e.args[0].dtype, args)

    def together(self, *values: Value) -> tuple[Value, ...]:
        """The values, each in as many lanes as the widest has."""
        lanes = max(v.type.lanes for v in values)
        return tuple(self.b.splat(v, lanes) for v in values)

    def wide(self, e: Expr, p: Point) -> Value:
        """Value of an expression as a vector with all lanes of the point, also if no lane differs."""
        return self.b.splat(self.value(e, p), p.lanes)

    def _name(self, name: str, p: Point) -> Value:
        binding = p.env[name]
        if isinstance(binding, Slot):
            return self.b.get(binding.pointer, binding.type)
        assert not isinstance(binding, Wide), "an accumulator is read after its loop"
        return self._spread(binding, p.lanes) if isinstance(binding, Lane) else binding

    def _spread(self, lane: Lane, lanes: int) -> Value:
        return self.b.splat(lane.base, lanes) + self.b.iota(lanes) * lane.step

    # --- integers that grow evenly ----------------------------------------------------------------

    def linear(self, e: Expr, p: Point) -> Lane | None:
        """An int64 expression as base and step over the lanes (step 0 if no lane differs).

        None if the lanes differ, and not by a step that is known.
        """
        lane = self._as_linear(e, p)
        if lane is not None:
            return lane
        # Asked first: evaluating what then is not even would be evaluated again, at every level.
        if self._varies(e, p):
            return None
        value = self.value(e, p)
        return Lane(value, 0) if value.type.lanes == 1 else None

    def _varies(self, e: Expr, p: Point) -> bool:
        """True if an expression uses a name whose value differs between lanes."""
        for x in atoms(e):
            if isinstance(x, (Var, Local)):
                binding = p.env[x.name]
                if isinstance(binding, Lane):
                    if binding.step:
                        return True
                elif isinstance(binding, Wide) or binding.type.lanes > 1:
                    return True
        return False

    def _as_linear(self, e: Expr, p: Point) -> Lane | None:
        """Base and step over the lanes of a constant, a name, or a linear function whose operands have them.

        None for other expressions, also if no lane differs: `linear` evaluates these.
        """
        if isinstance(e, (Var, Local)):
            binding = p.env[e.name]
            if isinstance(binding, Lane):
                return binding
            if isinstance(binding, Value) and binding.type == I64:
                return Lane(binding, 0)
            return None
        if isinstance(e, Const):
            return Lane(self.b.const(e.value, I64), 0) if e.dtype == INT64 else None
        if not isinstance(e, Apply) or e.dtype != INT64 or e.name not in LINEAR:
            return None
        if e.name == "multiply" and not any(isinstance(a, Const) for a in e.args):
            return None
        parts = [self.linear(a, p) for a in e.args]
        if any(x is None for x in parts):
            return None
        terms = [x for x in parts if x is not None]
        if e.name == "negative":
            return Lane(self.b.const(0, I64) - terms[0].base, -terms[0].step)
        if e.name == "multiply":
            k = next(a.value for a in e.args if isinstance(a, Const))
            x = terms[1] if isinstance(e.args[0], Const) else terms[0]
            return Lane(x.base * int(k), x.step * int(k))
        a, c = terms
        if e.name == "add":
            return Lane(a.base + c.base, a.step + c.step)
        return Lane(a.base - c.base, a.step - c.step)

    # --- memory -----------------------------------------------------------------------------------

    def load(self, e: Load, p: Point) -> Value:
        """Emit a Load; return its value, with 0 in lanes outside the buffer (where not ruled out before)."""
        line = self._line(e, p)
        if line is not None:
            return self._load_line(e, p, *line)
        return self._load(e, p)

    def _load(self, e: Load, p: Point) -> Value:
        at = self.address(e, p)
        varies = at.coefficient != 0
        type = as_type(e.dtype, p.lanes if varies else 1)
        if at.mask is not None and not varies:
            at = self._clamp(at)
        return vector_access.read(self.b, at, type)

    def _line(self, e: Load, p: Point) -> tuple[Value, Value] | None:
        """The last index of ``e`` in the first and in the last lane, if a contiguous read may be possible.

        The index must be a minimum or maximum that grows by 0 or 1 from lane to lane, or one that jumps where
        quotients change (`_jumps`); else the result is None. Where it grows by 1 at each, the read is
        contiguous, and only at an edge it is not.
        """
        if p.lanes == 1 or not e.indices or e.buffer.strides is not None:
            return None
        index, leading_indices = e.indices[-1], e.indices[:-1]
        if not isinstance(index, Apply):
            return None
        if not (self._slow(index, p) if index.name in ("minimum", "maximum") else self._jumps(index, p)):
            return None
        if not self._varies(index, p):
            return None
        reads = (x for x in subexpressions(e) if isinstance(x, Load))
        if any((id(x), axis) in self.plan.clamped for x in reads for axis in range(len(x.indices))):
            return None
        if any((lane := self.linear(i, p)) is None or lane.step for i in leading_indices):
            return None
        return self.value(index, _at_lane(p, 0)), self.value(index, _at_lane(p, p.lanes - 1))

    def _slow(self, e: Expr, p: Point) -> bool:
        """True if an index provably grows by 0 or 1 from lane to lane."""
        if isinstance(e, Apply) and e.name in ("minimum", "maximum"):
            return all(self._slow(a, p) for a in e.args)
        lane = self._as_linear(e, p)
        return lane is not None and lane.step in (0, 1)

    def _jumps(self, e: Expr, p: Point) -> bool:
        """True if an index provably grows by 1 from lane to lane, but where quotients in it change.

        Each quotient grows by whole numbers, and the factors of all have one sign. So first and last lane are
        as far apart as lanes are where none changes, and only there.
        """
        step, factors = 0, set[bool]()
        for atom, factor in affine(e, Scope()).terms:
            quotient = atom
            if isinstance(atom, Apply) and atom.name == "remainder":  # a - n * (a // n), for n above 0
                quotient, step, factor = atom, step + factor * self._even_step(atom.args[0], p), -factor
            if isinstance(quotient, Apply) and quotient.name in ("remainder", "floor_divide"):
                number, divisor = quotient.args
                if not (isinstance(divisor, Const) and divisor.value > 0 and self._even_step(number, p) >= 0):
                    return False
                factors.add(factor > 0)
            else:
                lane = self.linear(atom, p)
                if lane is None:
                    return False
                step += factor * lane.step
        return step == 1 and len(factors) == 1

    def _even_step(self, e: Expr, p: Point) -> int:
        """The step of an expression from lane to lane; -1 if it is not known, or negative."""
        lane = self.linear(e, p)
        return -1 if lane is None else lane.step

    def _load_line(self, e: Load, p: Point, first: Value, last: Value) -> Value:
        """Emit a Load at an index that `_line` accepts: contiguous, or lane by lane at an edge.

        The generated code chooses: the read is contiguous if ``last - first`` is one less than the lanes.
        """
        b = self.b
        type = as_type(e.dtype, p.lanes)
        inner = p.inner(None, **{_LINE: Lane(first, 1)})
        along = Load(e.buffer, (*e.indices[:-1], Var(_LINE)))
        is_even = (last - first).eq(p.lanes - 1)
        if is_even.const is not None:
            return self._load(along, inner) if is_even.const else self._load(e, p)
        even, edge, join = b.fresh("even"), b.fresh("edge"), b.fresh("join")
        slot = b.variable(type)
        available = b.known
        b.br_if(is_even, even, edge)
        b.start(even, available)
        b.put(slot, self._load(along, inner))
        b.br(join)
        b.start(edge, available)
        b.put(slot, self._load(e, replace(p, known=dict(p.known or {}))))  # of this block alone
        b.br(join)
        b.start(join, available)
        return b.get(slot, type)

    def _clamp(self, at: Address) -> Address:
        """Address of one entry without its mask: entry 0 of the buffer if the mask holds in no lane.

        The mask may differ from lane to lane where the entry does not, as on a diagonal.
        """
        if at.mask is None:
            return at
        zero = self.b.const(0, I64)
        return replace(at, offset=self.b.select(self.b.any(at.mask), at.offset, zero), mask=None)

    def address(self, e: Load | Store, p: Point) -> Address:
        """Address of an access at a point; its mask is that of the point and the tests of unproven indices.

        Code that reports tested indices outside of the buffer is emitted too.
        """
        b = self.b
        offset, coefficient = b.const(0, I64), 0
        spread: Value | None = None
        inside: Value | None = None
        for axis, index in enumerate(e.indices):
            stride = self.stride(e.buffer, axis)
            lane = self.linear(index, p)
            if (id(e), axis) in self.plan.clamped:
                at, test = self._inside(lane, index, self.extent(e.buffer, axis), p)
                inside = test if inside is None else self._both(inside, test)
                self._report(self.plan.tested.get((id(e), axis)), at, test, p)
            if lane is not None:
                offset = offset + lane.base * stride
                if isinstance(stride, int):
                    coefficient += lane.step * stride
                    continue
                if lane.step == 0:
                    continue
                part = b.iota(p.lanes) * lane.step * b.splat(stride, p.lanes)
            else:
                vector = b.splat(self.value(index, p), p.lanes)
                part = vector * (stride if isinstance(stride, int) else b.splat(stride, p.lanes))
            spread = part if spread is None else spread + part
        if spread is not None and coefficient:
            spread = spread + b.iota(p.lanes) * coefficient
        varies = spread is not None or coefficient != 0
        mask = inside
        if varies and p.mask is not None:
            mask = p.mask if inside is None else self._both(p.mask, inside)
        type = vector_access.in_memory(as_type(e.buffer.dtype))
        lane_step = None if spread is not None else coefficient
        return Address(self.pointers[e.buffer.name], type, offset, lane_step, spread, mask)

    def _inside(self, lane: Lane | None, index: Expr, extent: Value, p: Point) -> tuple[Value, Value]:
        """Value of an index, and a boolean value: true where the index is from 0 to ``extent - 1``.

        Both are scalars if no lane differs.

        lane : base and step of the index, if it has them.
        """
        if lane is not None and lane.step == 0:
            return lane.base, lane.base.compare("lt", extent, unsigned=True)
        value = self.b.splat(self.value(index, p), p.lanes)
        return value, value.compare("lt", self.b.splat(extent, p.lanes), unsigned=True)

    def _report(self, number: int | None, at: Value, inside: Value, p: Point) -> None:
        """Emit code that reports a wrong index and leaves the kernel, if an access is carried out at one.

        It leaves at once, as loops whose bounds come from a wrong index may be endless.

        number : the place in the record of faults; None if the access is not tested, and nothing is emitted.
        at : the index.
        inside : true in the lanes in which the index is inside of the buffer.
        """
        if number is None:
            return
        b = self.b
        outside = inside ^ True
        for condition, holds in p.chosen:
            outside = self._both(outside, condition if holds else condition ^ True)
        if p.mask is not None:
            outside = self._both(outside, p.mask)
        if (number, outside.ref) in self._tests:
            return
        self._tests.add((number, outside.ref))
        with b.leaving(b.any(outside)):
            if at.type.lanes > 1:
                lowest = b.const(-(2**63), at.type)
                at = b.select(b.splat(outside, at.type.lanes), at, lowest)
                at = b.call(f"llvm.vector.reduce.smax.{at.type.suffix}", I64, (at,))
            for k, x in enumerate((b.const(1, I64), at)):
                item = b.element(self.faults, I64, 2 * number + k)
                b.store(item, x, 8)

    def _both(self, x: Value, y: Value) -> Value:
        x, y = self.together(x, y)
        return x & y

    def extent(self, buffer: Buffer, axis: int) -> Value:
        n = buffer.shape[axis]
        return self.b.const(n, I64) if isinstance(n, int) else self.sizes[n]

    def stride(self, buffer: Buffer, axis: int) -> int | Value:
        """Entries between neighbours along an axis: an int if their number is constant, else a value."""
        if buffer.strides is not None:
            s = buffer.strides[axis]
            return s if isinstance(s, int) else self.sizes[s]
        constant, symbolic = 1, None
        for n in buffer.shape[axis + 1 :]:
            if isinstance(n, int):
                constant *= n
            else:
                symbolic = self.sizes[n] if symbolic is None else symbolic * self.sizes[n]
        return constant if symbolic is None else symbolic * constant


_LINE = " line"  # a name no program has
#: Expressions so far inside of others are evaluated before these.
NESTED = 64


def _outside_of_choices(e: Expr) -> Sequence[Expr]:
    """Operands that are always evaluated; of a Select, the condition alone."""
    return (e.condition,) if isinstance(e, Select) else e.operands


def _at_lane(p: Point, k: int) -> Point:
    """The point of lane ``k`` alone: each `Lane` has its value there."""
    env = dict(p.env)
    env |= {n: x.base + k * x.step for n, x in p.env.items() if isinstance(x, Lane)}
    return Point(env, chosen=p.chosen)


def _number(word: Value, dtype: DType) -> Value:
    """Value of a size: a float is passed as its bits."""
    if dtype == INT64:
        return word
    type = as_type(dtype)
    return (word if type.bits == 64 else word.b.cast("trunc", word, I32)).bitcast(type.elem)


def _power(b: Builder, x: Value, exponent: float, dtype: DType) -> Value | None:
    """x to a small constant power by products; None for other powers."""
    if dtype.kind != "f" or float(exponent) not in (-2, -1, 1, 2, 3, 4):
        return None
    square = x * x
    size = {1: x, 2: square, 3: square * x, 4: square * square}[abs(int(exponent))]
    return size if exponent > 0 else b.const(1.0, x.type) / size
