"""Matrices in lanes: blocks of as many matrices of a batch as a vector has lanes.

First come the entries [0, 0] of all matrices of a block, then their entries [0, 1]. All that is done with a
block is one iteration of one loop, so that it stays in cache from the operands to the results. Complex
entries have their real parts apart from the imaginary ones, so that a product is four multiply-adds without a
shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from iverson.codegen.execution.routines import Failure
from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Update,
    Var,
)
from iverson.codegen.programs import View, step_builders
from iverson.codegen.programs.nodes import Stop
from iverson.codegen.runtime.target import host
from iverson.core import dtypes
from iverson.expr.build import cast, const
from iverson.expr.nodes import Apply, Const, DType, Expr, Select
from iverson.graph.native.routine_steps import Calls, spread

#: The parts of a number: real and imaginary, or the number itself.
Number = tuple[Expr, ...]


class Batch:
    """The nest over the blocks of a batch, in the making.

    dtype : that of the matrices. batch : the axes before theirs.
    """

    def __init__(self, calls: Calls, dtype: DType, batch: Sequence[int]) -> None:
        self.calls, self.dtype, self.batch, self.count = calls, dtype, tuple(batch), prod(batch)
        self.part, self.parts = dtypes.real_of(dtype), 2 if dtype.kind == "c" else 1
        self.lanes = host().vector_bytes // self.part.itemsize
        self.blocks = -(-self.count // self.lanes)
        self.views: dict[str, View] = {}
        self.body: list[Stmt] = []
        self.fresh: list[str] = []

    def matrices(self, rows: int, columns: int, parts: int | None = None) -> Matrices:
        """New matrices in lanes."""
        shape = (self.blocks, rows, columns, parts or self.parts, self.lanes)
        name = self._name(self.calls.temp(self.part, shape), fresh=True)
        return Matrices(step_builders.as_buffer(name, self.views[name]))

    def number(self, value: int) -> Number:
        """A real number as parts."""
        return tuple(const(value if k == 0 else 0, self.part) for k in range(self.parts))

    def copy(self, x: View) -> Matrices:
        """Copy of an operand to the lanes; those for which there is no matrix have the last one again."""
        m = self.matrices(*x.shape[-2:])
        self._entries(m, self._split(self._operand(x)(Var("i"), Var("j"))), Const(m.columns))
        return m

    def symmetrized(self, x: View) -> Matrices:
        """Copy of the lower triangles of (x + x^H) / 2 to the lanes."""
        m, i, j = self.matrices(*x.shape[-2:]), Var("i"), Var("j")
        entry, half = self._operand(x), const(0.5, self.part)
        pairs = zip(self._split(entry(i, j)), conjugate(self._split(entry(j, i))), strict=True)
        self._entries(m, tuple(apply("multiply", half, apply("add", *pair)) for pair in pairs), i + 1)
        return m

    def identity(self, n: int) -> Matrices:
        """The identity matrix in all lanes."""
        m, is_diagonal = self.matrices(n, n), Apply("equal", (Var("i"), Var("j")), BOOL)
        self._entries(m, select(is_diagonal, self.number(1), self.number(0)), Const(n))
        return m

    def add(self, *body: Stmt) -> None:
        """Add statements for each lane."""
        self.body.append(Loop(LANE.name, Const(0), Const(self.lanes), body, mark="vector"))

    def write(self, m: Matrices, y: View, *, triangle: bool = False) -> None:
        """Copy matrices to a result; with ``triangle``, zeros above their diagonals.

        The parts of a number that is not finite may both be nan.
        """
        flat = y.reshaped((self.count, m.rows, m.columns))
        assert flat is not None, "results are in C order"
        name = self._name(flat, fresh=True)
        i, j = Var("i"), Var("j")
        value, *imaginary = (cast(part, self.dtype) for part in m[i, j])
        for part in imaginary:
            value = apply("add", value, apply("multiply", const(1j, self.dtype), part))
        if triangle:
            is_below = Apply("less_equal", (j, i), BOOL)
            value = Select(is_below, value, const(0, self.dtype))
        at = BLOCK * self.lanes + LANE, i, j
        store = Store(step_builders.as_buffer(name, flat), at, value)
        rows = Loop("i", Const(0), Const(m.rows), (Loop("j", Const(0), Const(m.columns), (store,)),))
        remaining = const(self.count, INT64) - BLOCK * self.lanes
        end = apply("minimum", const(self.lanes, INT64), remaining)
        self.body.append(Loop(LANE.name, Const(0), end, (rows,)))

    def end(self, defects: Matrices | None = None, failure: Failure | None = None) -> None:
        """Add the nest to the steps; stop after it if a matrix has a defect."""
        phase = Loop(BLOCK.name, Const(0), Const(self.blocks), tuple(self.body), mark="parallel")
        self.calls.steps.append(step_builders.nest("small_matrices", [phase], self.views, self.fresh))
        if defects is not None and failure is not None:
            view = self.views[defects.buffer.name]
            flag = self.calls.anywhere(
                view.shape, lambda d: Apply("greater", (d, const(0, d.dtype)), BOOL), d=view
            )
            self.calls.steps.append(Stop(flag, failure))

    def _operand(self, x: View) -> Callable[[Expr, Expr], Expr]:
        """Function of two indices: the entry of the lane's matrix of an operand."""
        flat = _flat(self.calls, spread(x, self.batch, 2), self.count)
        buffer = step_builders.as_buffer(self._name(flat), flat)
        at = apply("minimum", BLOCK * self.lanes + LANE, const(self.count - 1, INT64))
        return lambda i, j: cast(Load(buffer, (at, i, j)), self.dtype)

    def _split(self, x: Expr) -> Number:
        return (x,) if self.parts == 1 else tuple(Apply(p, (x,), self.part) for p in ("real", "imag"))

    def _entries(self, m: Matrices, entry: Number, columns: Expr) -> None:
        i, j = Var("i"), Var("j")
        body = (*named("entry", entry), *m.store(i, j, local("entry", entry)))
        lanes = Loop(LANE.name, Const(0), Const(self.lanes), body, mark="vector")
        self.body.append(Loop("i", Const(0), Const(m.rows), (Loop("j", Const(0), columns, (lanes,)),)))

    def _name(self, view: View, *, fresh: bool = False) -> str:
        name = f"m{len(self.views)}"
        self.views[name] = view
        self.fresh += [name] if fresh else []
        return name


@dataclass(frozen=True)
class Matrices:
    """Matrices in lanes: memory of shape (blocks, rows, columns, parts, lanes), in real numbers."""

    buffer: Buffer

    @property
    def rows(self) -> int:
        return self.buffer.shape[1]  # type: ignore[return-value]

    @property
    def columns(self) -> int:
        return self.buffer.shape[2]  # type: ignore[return-value]

    def __getitem__(self, at: tuple[Expr, Expr]) -> Number:
        """An entry of the lane's matrix."""
        return tuple(Load(self.buffer, (BLOCK, *at, Const(k), LANE)) for k in range(self.buffer.shape[3]))  # type: ignore[arg-type]

    def store(self, i: Expr, j: Expr, value: Number) -> tuple[Stmt, ...]:
        """Statements that store entry [i, j] of the lane's matrix."""
        return tuple(Store(self.buffer, (BLOCK, i, j, Const(k), LANE), x) for k, x in enumerate(value))


BLOCK, LANE = Var("block"), Var("lane")


def _flat(calls: Calls, x: View, count: int) -> View:
    """The matrices of a batch one after the other, in their own memory where its strides can say it."""
    shape = (count, *x.shape[-2:])
    flat = x.reshaped(shape)
    if flat is None:
        flat = calls.nest(calls.temp(x, x.shape), lambda _, x: x, x=x).reshaped(shape)
        assert flat is not None
    return flat


# --- numbers in parts -------------------------------------------------------------------------------


def apply(function: str, *args: Expr) -> Expr:
    """A function of numbers, with a result of their dtype."""
    return Apply(function, args, args[0].dtype)


def names(name: str, number: Number) -> tuple[str, ...]:
    """The names of the parts of a number."""
    return (name,) if len(number) == 1 else (f"{name}_re", f"{name}_im")


def local(name: str, like: Number) -> Number:
    """The number of this name, of as many parts as another one."""
    return tuple(Local(n, x.dtype) for n, x in zip(names(name, like), like, strict=True))


def named(name: str, value: Number) -> tuple[Stmt, ...]:
    """Statements that give a number a name."""
    return tuple(Let(n, x) for n, x in zip(names(name, value), value, strict=True))


def updated(name: str, value: Number) -> tuple[Stmt, ...]:
    """Statements that give the declared number of this name another value."""
    return tuple(Update(n, "assign", x) for n, x in zip(names(name, value), value, strict=True))


def select(condition: Expr, a: Number, b: Number) -> Number:
    """``a`` where a condition holds, else ``b``."""
    return tuple(Select(condition, x, y) for x, y in zip(a, b, strict=True))


def less_product(total: Number, a: Number, b: Number) -> Number:
    """``total - a b``, each part by as many multiply-adds as there are parts."""
    re = apply("subtract", total[0], apply("multiply", a[0], b[0]))
    if len(a) == 1:
        return (re,)
    im = apply("subtract", total[1], apply("multiply", a[0], b[1]))
    return (
        apply("add", re, apply("multiply", a[1], b[1])),
        apply("subtract", im, apply("multiply", a[1], b[0])),
    )


def product(a: Number, b: Number) -> Number:
    """``a b``."""
    if len(a) == 1:
        return (apply("multiply", a[0], b[0]),)
    (x, y), (u, v) = a, b
    re = apply("subtract", apply("multiply", x, u), apply("multiply", y, v))
    return re, apply("add", apply("multiply", x, v), apply("multiply", y, u))


def conjugate(a: Number) -> Number:
    """The complex conjugate."""
    return (a[0], *(apply("negative", x) for x in a[1:]))


def reciprocal(a: Number) -> Number:
    """``1 / a``, of complex numbers by parts over the larger of them, so that no square overflows."""
    if len(a) == 1:
        return (apply("reciprocal", a[0]),)
    size = apply("maximum", *(apply("abs", x) for x in a))
    x, y = (apply("divide", part, size) for part in a)
    below = apply("multiply", size, apply("add", apply("square", x), apply("square", y)))
    return apply("divide", x, below), apply("divide", apply("negative", y), below)


def divisor(a: Number) -> tuple[Stmt, ...]:
    """Statements with which `quotient` divides by ``a``: its reciprocal.

    Numbers below the least normal one are shifted first, as their reciprocals are infinite.
    """
    info = np.finfo(a[0].dtype)
    is_tiny = Apply("less", (length(a), const(float(info.tiny), a[0].dtype)), BOOL)
    shift = Local("shift", a[0].dtype)
    shifted = tuple(apply("multiply", x, shift) for x in a)
    steps = const(2.0**info.nmant, shift.dtype), const(1.0, shift.dtype)
    return Let("shift", Select(is_tiny, *steps)), *named("scale", reciprocal(shifted))


def quotient(a: Number) -> Number:
    """``a`` by the `divisor`."""
    shifted = tuple(apply("multiply", x, Local("shift", x.dtype)) for x in a)
    return product(shifted, local("scale", a))


def length(a: Number) -> Expr:
    """The size of a number; of a complex one |re| + |im|, as LAPACK compares pivots."""
    sizes = [apply("abs", x) for x in a]
    return sizes[0] if len(sizes) == 1 else apply("add", *sizes)


__all__ = [
    "Batch", "Matrices", "Number", "apply", "conjugate", "divisor", "length", "less_product", "local",
    "named", "names", "product", "quotient", "select", "updated",
]  # fmt: skip
