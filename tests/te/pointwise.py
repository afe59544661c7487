"""What definitions mean, entry by entry in NumPy's numbers: an oracle apart from the interpreter.

It goes through the statements as they were written down, one point after the other, and reads an entry where
an expression does. Of the library it knows what a statement and an expression consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from iverson import te
from iverson.expr.nodes import Apply, Cast, Const, Expr, Select, postorder
from iverson.te.ir.expressions import Fold, Read, Reduce, Tensor, Var, variables
from iverson.te.ir.index_arithmetic import conjuncts, depends_on_data
from iverson.te.ir.nodes import Compute, Statement, loops_of
from iverson.te.ir.ragged_axes import is_ragged
from iverson.te.ir.supports import is_zero
from iverson.te.ir.verify import check
from iverson.te.lowering.explanation import counts

Point = dict[Var, int]
Value = Callable[[Point], Any]

#: What a total starts at, and how a term is taken in.
TOTALS: dict[str, tuple[float, Any]] = {
    "assign": (0, lambda _, new: new),
    "sum": (0, np.add),
    "prod": (1, np.multiply),
    "max": (-np.inf, np.maximum),
    "min": (np.inf, np.minimum),
}


def _start(combine: str, dtype: np.dtype[Any]) -> float:
    """The value from which a total starts; of whole numbers, the least or the largest in place of inf."""
    start: float = TOTALS.get(combine, (0,))[0]
    if np.isinf(start) and dtype.kind in "iu":
        return int(np.iinfo(dtype).max if start > 0 else np.iinfo(dtype).min)
    return start > 0 if dtype.kind == "b" else start


#: Functions that choose one of their arguments, or one of several conditions.
CHOICES = ("minimum", "maximum", "abs", "logical_or", "floor_divide")
#: A statement with more choices may have more pieces than elimination splits it into.
FEW_CHOICES = 3


class Pointwise:
    """Values of tensors, from those of inputs by name and from sizes."""

    def __init__(self, inputs: dict[str, Any], sizes: dict[Var, int]) -> None:
        self.inputs, self.sizes = inputs, sizes
        self.known: dict[Tensor, Any] = {}

    def of(self, tensor: Tensor) -> Any:
        if tensor not in self.known:
            if isinstance(tensor, te.Placeholder):
                self.known[tensor] = self.inputs[tensor.name]
            else:
                assert isinstance(tensor, Compute)
                self.define(tensor)
        return self.known[tensor]

    def define(self, tensor: Compute) -> None:
        loops = loops_of(tensor)
        members = loops[0].members if loops else (tensor,)
        for t in members:
            shape = tuple(int(self.value(n)({})) for n in t.shape)
            self.known[t] = np.full(shape, _start(self.statements(t)[0].combine, t.dtype), t.dtype)
        self.steps(members, 0, {})

    def steps(self, members: Sequence[Compute], depth: int, fixed: Point) -> None:
        """Run members, those of a recurrence inside of ``depth`` others step by step."""
        for loop, group in groupby(members, key=lambda t: loops_of(t)[depth:][:1]):
            tensors = tuple(group)
            if not loop:
                for t in tensors:
                    self.run(self.statements(t), fixed)
                continue
            steps = self.range(loop[0].axis, {})
            for step in reversed(steps) if loop[0].reverse else steps:
                self.steps(tensors, depth + 1, {**fixed, loop[0].axis: step})

    def statements(self, t: Compute) -> tuple[Statement, ...]:
        return t.statements

    def run(self, statements: tuple[Statement, ...], fixed: Point) -> None:
        for s in statements:
            body, write = self.value(s.body), [self.value(i) for i in s.write]
            take_in = TOTALS[s.combine][1]
            out = self.known[s.tensor]
            for p in self.points(s, fixed):
                at = tuple(i(p) for i in write)
                inside(at, out.shape)
                out[at] = take_in(out[at], body(p))

    def points(self, s: Statement, fixed: Point) -> Iterator[Point]:
        conditions = [self.value(c) for c in s.domain.where]
        points: list[Point] = [{}]
        for v in s.domain.axes:
            points = [p | {v: k} for p in points for k in self.values(v, s, p, fixed)]
        return (p for p in points if all(c(p) for c in conditions))

    def values(self, v: Var, s: Statement, p: Point, fixed: Point) -> range:
        """Of an axis, given those before it."""
        if v in fixed:
            return range(fixed[v], fixed[v] + 1)
        return self.bounded(v, s.domain.where, p)

    def bounded(self, v: Var, where: tuple[Expr, ...], p: Point) -> range:
        """Values of an axis, given those before it, between the bounds that are data."""
        own = self.range(v, p)
        low, high = own.start, own.stop
        for c in where:
            if isinstance(c, Apply) and c.args[0] is v and variables([c.args[1]]) <= set(p):
                bound = int(self.value(c.args[1])(p))
                low = max(low, bound) if c.name == "greater_equal" else low
                high = min(high, bound) if c.name == "less" else high
        return range(low, high)

    def range(self, v: Var, p: Point) -> range:
        assert v.hi is not None
        return range(int(self.value(v.lo)(p)), int(self.value(v.hi)(p)))

    def value(self, e: Any) -> Value:
        if not isinstance(e, Expr) or isinstance(e, Const):
            number = e.value if isinstance(e, Const) else e
            return lambda p: number
        if isinstance(e, Var):
            size = self.sizes.get(e)
            return (lambda p: size) if e.kind == "size" else (lambda p: p[e])
        if isinstance(e, Select):
            choice, then, other = map(self.value, (e.condition, e.then, e.other))
            return lambda p: then(p) if choice(p) else other(p)
        if isinstance(e, Cast):
            operand, cast = self.value(e.operand), e.dtype.type
            return lambda p: cast(operand(p))
        if isinstance(e, Read):
            return self.read(e)
        if isinstance(e, Reduce):
            return self.reduction(e)
        if isinstance(e, Fold):
            return self.fold(e)
        assert isinstance(e, Apply)
        function, operands = getattr(np, e.name), [self.value(o) for o in e.args]
        return lambda p: function(*[o(p) for o in operands])

    def within(self, e: Reduce | Fold) -> Callable[[Point], Iterator[Point]]:
        """The points of a reduction, row by row, given one around it."""
        conditions = [self.value(c) for c in e.where]

        def points(p: Point) -> Iterator[Point]:
            inner = [p]
            for v in e.axes:
                inner = [q | {v: k} for q in inner for k in self.bounded(v, e.where, q)]
            return (q for q in inner if all(c(q) for c in conditions))

        return points

    def reduction(self, e: Reduce) -> Value:
        body, points = self.value(e.body), self.within(e)
        if e.combine.startswith("arg"):
            return self.position(e, body, points)
        first, take_in = TOTALS[e.combine]

        def total(p: Point) -> Any:
            result = e.body.dtype.type(first)
            for q in points(p):
                result = take_in(result, body(q))
            return result

        return total

    def position(self, e: Reduce, body: Value, points: Callable[[Point], Iterator[Point]]) -> Value:
        """Of the first best, counted along its only axis from where that begins."""
        (v,) = e.axes

        def best(p: Point) -> int:
            inner = list(points(p))
            values = np.array([body(q) for q in inner])
            k = -1 if not inner else int(getattr(np, e.combine)(values))
            return -1 if k < 0 else inner[k][v] - self.bounded(v, e.where, p).start

        return best

    def fold(self, e: Fold) -> Value:
        values, points = [self.value(v) for v in e.values], self.within(e)
        parameters = [*e.reducer.first, *e.reducer.second]
        results = [self.value(r) for r in e.reducer.results]
        identities = [v.dtype.type(v.value) for v in e.reducer.identities if isinstance(v, Const)]

        def combined(p: Point) -> Any:
            element = identities
            for q in points(p):
                numbers = [*element, *(v(q) for v in values)]
                self.known |= dict(zip(parameters, map(np.asarray, numbers), strict=True))
                element = [r({}) for r in results]
            return element[e.number]

        return combined

    def read(self, e: Read) -> Value:
        indices = [self.value(i) for i in e.indices]

        def entry(p: Point) -> Any:
            found = self.of(e.tensor)
            at = tuple(int(i(p)) for i in indices)
            inside(at, found.shape)
            return found[at]

        return entry


class Terms(Pointwise):
    """Terms of each statement of an eliminated program that may be nonzero, and the points that it visits.

    An entry of floats is True where it may be nonzero for some data: a product where all factors are, a sum
    where one term is, a choice by data where one side is. Indices have the values that they have.

    Values, which are held elsewhere, say that no other terms are left out.
    """

    def __init__(self, program: te.Program, inputs: dict[str, Any]) -> None:
        super().__init__(inputs, {})
        check(program)
        self.by_tensor: dict[Tensor, list[Statement]] = {}
        for s in program.statements:
            self.by_tensor.setdefault(s.tensor, []).append(s)
        self._nonzero = dict.fromkeys(map(id, program.statements), 0)
        #: Tensors of which data decide where they are nonzero.
        self.by_data: set[Tensor] = set()
        for t in self.by_tensor:
            self.of(t)
        floats = [s for s in program.statements if _is_float(s)]
        self.visited = [counts(s).visited for s in floats]
        self.nonzero = [self._nonzero[id(s)] for s in floats]
        #: Whether the law that visited is nonzero is one of the statement.
        self.is_bound = [self._is_bound(s) for s in floats]
        self._intricate: dict[Tensor, bool] = {}
        self.intricate = [self._is_intricate(s.tensor) for s in floats]

    def _is_bound(self, s: Statement) -> bool:
        """True for sums and entries, where no condition, bound or index of a tensor with zeros is data."""
        own = loops_of(s.tensor)
        return (
            s.combine in ("sum", "assign")
            and s.tensor not in self.by_data
            and not any(depends_on_data(r.indices) and not np.all(self.known[r.tensor]) for r in _reads(s))
            # What a state is after several steps, a support does not say.
            and (
                not own
                or all(np.all(self.known[r.tensor]) for r in _reads(s) if loops_of(r.tensor)[:1] == own[:1])
            )
        )

    def _is_intricate(self, t: Tensor) -> bool:
        """True if a definition has many choices, or one of what it reads."""
        if t not in self._intricate and isinstance(t, Compute):
            self._intricate[t] = False  # members of a recurrence read each other
            self._intricate[t] = any(map(_chooses, t.statements)) or any(
                self._is_intricate(r.tensor) for s in self.by_tensor.get(t, t.statements) for r in _reads(s)
            )
        return self._intricate.get(t, False)

    def statements(self, t: Compute) -> tuple[Statement, ...]:
        return tuple(self.by_tensor[t])

    def define(self, tensor: Compute) -> None:
        loops = loops_of(tensor)
        members = loops[0].members if loops else (tensor,)
        for t in members:
            own = self.statements(t)
            shape = tuple(int(self.value(n)({})) for n in t.shape)
            adds = all(s.combine in ("sum", "assign") for s in own)
            first = _start(own[0].combine, t.dtype)
            self.known[t] = (
                np.full(shape, not adds, bool) if _is_float(own[0]) else np.full(shape, first, t.dtype)
            )
            if any(
                is_ragged(s)
                or depends_on_data(s.domain.where)
                or any(r.tensor in self.by_data for r in _reads(s))
                for s in own
            ):
                self.by_data.add(t)
        self.steps(members, 0, {})

    def run(self, statements: tuple[Statement, ...], fixed: Point) -> None:
        for s in statements:
            if s.combine not in TOTALS:
                self.by_data.add(s.tensor)
            elif not _is_float(s):
                super().run((s,), fixed)
            else:
                self._mark(s, fixed)

    def _mark(self, s: Statement, fixed: Point) -> None:
        body, write = self.value(s.body), [(depends_on_data([i]), self.value(i)) for i in s.write]
        for p in self.points(s, fixed):
            if body(p):
                self._nonzero[id(s)] += 1
                self.known[s.tensor][tuple(slice(None) if by_data else i(p) for by_data, i in write)] = True

    def value(self, e: Any) -> Value:
        if not isinstance(e, Expr) or e.dtype.kind in "iub":
            return super().value(e)
        if isinstance(e, Const):
            nonzero = not is_zero(e)
            return lambda p: nonzero
        if isinstance(e, Select):
            then, other = self.value(e.then), self.value(e.other)
            if depends_on_data([e.condition]):
                return lambda p: then(p) or other(p)
            choice = super().value(e.condition)
            return lambda p: then(p) if choice(p) else other(p)
        if isinstance(e, Cast):
            return self.value(e.operand)
        if isinstance(e, Read) and isinstance(e.tensor, Compute):
            return (lambda p: bool(np.any(self.of(e.tensor)))) if depends_on_data(e.indices) else self.read(e)
        if isinstance(e, Reduce) and e.combine == "sum":
            body, points = self.value(e.body), self.within(e)
            return lambda p: any(body(q) for q in points(p))
        if not isinstance(e, Apply):
            return lambda p: True
        operands = [self.value(o) for o in e.args]
        if e.name == "multiply":
            return lambda p: all(o(p) for o in operands)
        if e.name == "divide":
            return operands[0]
        if e.args[0].dtype.kind in "fcV" and getattr(np, e.name)(*[0.0] * len(operands)) == 0:
            return lambda p: any(o(p) for o in operands)
        return lambda p: True


def _is_float(s: Statement) -> bool:
    return s.tensor.dtype.kind in "fcV"


def _chooses(s: Statement) -> bool:
    """True if more than `FEW_CHOICES` are made in a statement."""
    nodes = postorder((*s.roots, *s.write, *s.domain.where))
    either = [e for e in nodes if isinstance(e, Select) and not is_zero(e.other)]
    chosen = [e for e in nodes if isinstance(e, Apply) and e.name in CHOICES]
    return len(chosen) + sum(len(conjuncts(e.condition)) for e in either) > FEW_CHOICES


def _reads(s: Statement) -> list[Read]:
    """Reads of computed floats in a statement."""
    nodes = postorder(s.roots)
    return [
        e for e in nodes if isinstance(e, Read) and isinstance(e.tensor, Compute) and e.dtype.kind in "fcV"
    ]


def inside(at: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Python's negative indices are none here."""
    if not all(0 <= i < n for i, n in zip(at, shape, strict=True)):
        raise IndexError(at)
