"""Random programs: chains, products, reductions, gathers, native loops with carried values, and branches."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from iverson.codegen.nests.nodes import INT64, Buffer, Load
from iverson.codegen.nests.task import Task
from iverson.codegen.programs import Branch, Nest, Product, Program, Repeat, View, step_builders, whole
from iverson.codegen.programs.nodes import Step, c_strides
from iverson.codegen.schedule.exact_walks import boxed
from iverson.expr.nodes import Apply, Expr
from tests.codegen.nests import F32, F64, c, f

UNARY = ("tanh", "abs", "negative", "square")
BINARY = ("add", "subtract", "multiply", "maximum")
#: How deep blocks lie in each other.
OUTERMOST = 2


class Builder:
    """A program of n x n matrices, drawn step by step; `full` are the views that hold something."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.n = draw(st.sampled_from([1, 2, 3, 4]))
        self.dtype = draw(st.sampled_from([F32, F64]))
        self.count = 0
        self.buffers: list[Buffer] = []
        self.x, self.y = self.matrix("in"), self.matrix("in")
        self.total = self.matrix("inout")
        self.held = self.matrix("const")
        self.scale = self.buffer((), "in", self.dtype)
        self.flag = self.buffer((), "in", np.dtype("bool"))
        self.index = self.buffer((self.n,), "in", INT64)
        self.full = [whole(b) for b in (self.x, self.y, self.total, self.held)]
        self.loops: list[tuple[str, int]] = []

    def buffer(self, shape: tuple[int, ...], role: str, dtype: Any) -> Buffer:
        self.count += 1
        self.buffers.append(Buffer(f"{role}{self.count}", dtype, shape, role))
        return self.buffers[-1]

    def matrix(self, role: str = "temp") -> Buffer:
        return self.buffer((self.n, self.n), role, self.dtype)

    def one_of(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def operand(self) -> View:
        v = self.one_of(self.full)
        return v.transposed if self.draw(st.booleans()) else v

    # --- steps ------------------------------------------------------------------------------------

    def block(self, depth: int) -> list[Step]:
        steps: list[Step] = []
        kinds = ["map", "map", "map", "product", "product", "rows", "add", "again"]
        kinds += ["repeat", "branch", "stack"] if depth else []
        kinds += ["output", "output"] if depth == OUTERMOST else []
        for _ in range(self.draw(st.integers(1, 4))):
            steps += getattr(self, self.one_of(kinds))(*([depth] if depth else []))
        return steps

    def value(self, x: View, y: View) -> tuple[Expr, dict[str, View]]:
        at = step_builders.variables(step_builders.axes(x.shape))
        a, b = Load(step_builders.as_buffer("a", x), at), Load(step_builders.as_buffer("b", y), at)
        if self.draw(st.booleans()):
            return f(self.one_of(UNARY), a), {"a": x, "b": y}
        if self.draw(st.integers(0, 5)) == 0:
            row = Load(step_builders.as_buffer("row", whole(self.index)), (at[0],))
            b = Load(step_builders.as_buffer("b", y), (row, at[1]))
        return f(self.one_of(BINARY), a, b), {"a": x, "b": y, "row": whole(self.index)}

    def write(self, out: View) -> Nest:
        value, views = self.value(self.operand(), self.operand())
        return step_builders.elementwise(out, value, views)

    def map(self, *_: int) -> list[Step]:
        """A function of what may be read no more."""
        out = whole(self.matrix())
        step = self.write(out)
        if self.draw(st.booleans()):
            dead = {v.buffer for v in step.views if v.buffer.role == "temp"}
            self.full = [v for v in self.full if v.buffer not in dead]
        self.full.append(out)
        return [step]

    def again(self, *_: int) -> list[Step]:
        """Something else where a matrix was."""
        out = self.one_of(v for v in self.full if v.buffer.role in ("temp", "inout", "out"))
        before = self.full
        self.full = [v for v in before if v != out]
        step = self.write(out)
        self.full = before
        return [step]

    def output(self, *_: int) -> list[Step]:
        """One more result, which may be read again."""
        out = whole(self.matrix("out"))
        step = Product(out, self.operand(), self.operand()) if self.draw(st.booleans()) else self.write(out)
        self.full += [out] if self.draw(st.booleans()) else []
        return [step]

    def product(self, *_: int) -> list[Step]:
        left, right = self.operand(), self.operand()
        out = whole(self.matrix())
        self.full.append(out)
        shown = out.transposed if self.draw(st.booleans()) else out
        alpha = self.one_of([1, -0.5, whole(self.scale)])
        if self.draw(st.booleans()):
            return [step_builders.multiplied(shown, left, right)]
        return [Product(shown, left, right, alpha)]

    def add(self, *_: int) -> list[Step]:
        """Something into the inout matrix."""
        out = whole(self.total)
        left, right = (self.one_of([v for v in self.full if v != out]) for _ in range(2))
        if self.draw(st.booleans()):
            return [Product(out, left, right, 0.5, self.one_of([1, 0.25, whole(self.scale)]))]
        value = Load(
            step_builders.as_buffer("a", left), step_builders.variables(step_builders.axes(left.shape))
        )
        return [step_builders.elementwise(out, value, {"a": left}, "sum")]

    def rows(self, *_: int) -> list[Step]:
        """The sum of each row, and a matrix less that."""
        x, sums, out = self.operand(), self.buffer((self.n,), "temp", self.dtype), whole(self.matrix())
        over = step_builders.axes(x.shape)
        at = step_builders.variables(over)
        value = Load(step_builders.as_buffer("x", x), at)
        task = Task(
            step_builders.as_buffer("sums", whole(sums)), at[:1], value, over, combine="sum", fresh=True
        )
        first = step_builders.nest("rows", boxed(task), {"x": x, "sums": whole(sums)}, ("sums",))
        less = f("subtract", value, Load(step_builders.as_buffer("sums", whole(sums)), at[:1]))
        self.full.append(out)
        return [first, step_builders.elementwise(out, less, {"x": x, "sums": whole(sums)})]

    def inside(self, depth: int) -> list[Step]:
        """A block whose own matrices nobody sees outside."""
        before = list(self.full)
        steps = self.block(depth - 1)
        self.full, self.inner = before, self.full[len(before) :]
        return steps

    def branch(self, depth: int) -> list[Step]:
        out = whole(self.matrix())
        sides = []
        for _ in range(2):
            before = list(self.full)
            steps = self.block(depth - 1)
            steps.append(self.write(out))
            self.full = before
            sides.append(tuple(steps))
        self.full.append(out)
        return [Branch(whole(self.flag), *sides)]

    def repeat(self, depth: int) -> list[Step]:
        """A state carried through, exchanged after each iteration with what the body makes."""
        state, new = self.matrix(), self.matrix()
        before = list(self.full)
        first = step_builders.copy(whole(state), self.operand())
        self.full.append(whole(state))
        steps = [*self.block(depth - 1), *self.next(whole(state), whole(new))]
        self.full = [*before, whole(state)]
        var, trips = f"{state.name}_t", self.draw(st.integers(0, 3))
        when = whole(self.flag) if self.draw(st.integers(0, 4)) == 0 else None
        return [first, Repeat(var, trips, tuple(steps), ((state, new),), when)]

    def next(self, state: View, new: View) -> list[Step]:
        """The next state: of anything, or the last with a product added."""
        if self.draw(st.booleans()):
            return [self.write(new)]
        made = whole(self.matrix())
        product = Product(made, self.operand(), self.operand())
        at = step_builders.variables(step_builders.axes(new.shape))
        a, b = Load(step_builders.as_buffer("a", state), at), Load(step_builders.as_buffer("b", made), at)
        return [product, step_builders.elementwise(new, f("add", a, b), {"a": state, "b": made})]

    def stack(self, depth: int) -> list[Step]:
        """Results of all iterations, the first of them read in each, and a loop that reads them backwards."""
        trips, n = self.draw(st.integers(1, 3)), self.n
        stacked = self.buffer((trips, n, n), "temp", self.dtype)
        one, other = f"{stacked.name}_s", f"{stacked.name}_r"
        row = View(stacked, (n, n), c_strides((n, n)))
        before = list(self.full)
        steps = [*self.block(depth - 1), self.write(row.moved(one, n * n))]
        if self.draw(st.booleans()):
            self.full.append(row)
            steps += self.block(0)
        self.full = before
        back = View(stacked, (n, n), c_strides((n, n)), (trips - 1) * n * n, ((other, -n * n),))
        value = Load(step_builders.as_buffer("a", back), step_builders.variables(step_builders.axes((n, n))))
        add = step_builders.elementwise(whole(self.total), value, {"a": back}, "sum")
        return [Repeat(one, trips, tuple(steps)), Repeat(other, trips, (add,))]

    def program(self) -> Program:
        steps = self.block(OUTERMOST)
        out = self.matrix("out")
        steps.append(step_builders.copy(whole(out), self.full[0]))
        for v in self.full:  # so that all of it matters
            at = step_builders.variables(step_builders.axes(v.shape))
            value: Expr = Apply(
                "multiply", (Load(step_builders.as_buffer("a", v), at), c(0.5, self.dtype)), self.dtype
            )
            steps.append(step_builders.elementwise(whole(out), value, {"a": v}, "sum"))
        held = np.linspace(-1, 1, self.n**2).reshape(self.n, self.n).astype(self.dtype)
        return Program("random", tuple(self.buffers), tuple(steps), {self.held.name: held})


@st.composite
def programs(draw: Any) -> Program:
    """A random program that keeps the rules."""
    return Builder(draw).program()


@st.composite
def arguments(draw: Any, program: Program) -> list[Any]:
    """Arrays for a program; some index is out of range now and then."""
    r = np.random.default_rng(draw(st.integers(0, 100)))
    found: list[Any] = []
    for b in program.of("in", "inout"):
        shape = tuple(n for n in b.shape if isinstance(n, int))
        if b.dtype.kind == "f":
            found.append(np.asarray(r.normal(size=shape) * 0.5, b.dtype))
        elif b.dtype.kind == "b":
            found.append(np.array(draw(st.booleans())))
        else:
            far = draw(st.integers(0, 9)) == 0
            found.append(r.integers(-1 if far else 0, shape[0] + far, shape))
    return found
