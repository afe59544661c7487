"""Builders of steps: nests from tasks, and products, by BLAS or, if they are small, by a nest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from iverson.codegen.nests.nodes import (
    INT64,
    Buffer,
    Kernel,
    Load,
    Loop,
    Stmt,
    Store,
    Var,
    expressions,
    statements,
    with_buffers,
)
from iverson.codegen.nests.task import Axis, Task
from iverson.codegen.programs import blas_calls
from iverson.codegen.programs.nodes import Nest, Number, Product, Step, View
from iverson.codegen.schedule.exact_walks import boxed
from iverson.expr.nodes import Apply, Const, DType, Expr, subexpressions
from iverson.expr.symbolic_numbers import typical

#: Products whose extents are at most this are nests of our own, which cost less than a call of BLAS: where
#: lanes run along the columns of a right factor by rows, and otherwise. Measured: at 16 a nest takes 0.7 of
#: the time; at 32 it takes 0.4 to 1.1 along columns, and 1.3 to 2.5 otherwise.
OWN_ALONG, OWN = 32, 16
#: Multiply-adds up to which OpenBLAS takes factors as they lie, and how often each entry of a copy is read
#: that pays, by its bytes. Measured, 64 x 64 by 64 x 64: float32 takes 8.5 us, 3.9 after a copy of 1.8;
#: float64 16.2 us, 9.3 after a copy of 3.9; at 96 x 96 both are even.
SMALL_PRODUCT, OFTEN = 2**19, 16
#: Rows from which a product with the own transpose is computed in panels up to the diagonal, and rows of one.
SYMMETRIC, PANEL = 96, 64
#: Columns that fill the lanes.
COLUMNS = 8
#: Rows of a matrix that are added up together, and columns of the sum that stay in the first cache.
ROWS, ADDED = 8, 1024


def axes(shape: Sequence[int], prefix: str = "i") -> tuple[Axis, ...]:
    """An axis from 0 for each extent; its name is ``prefix`` and its number."""
    return tuple(Axis(f"{prefix}{k}", Const(0), Const(n)) for k, n in enumerate(shape))


def variables(of: Sequence[Axis]) -> tuple[Expr, ...]:
    """The variables of axes, as indices."""
    return tuple(Var(a.name) for a in of)


def as_buffer(name: str, v: View) -> Buffer:
    """Buffer of a kernel with the dtype, shape and strides of a view."""
    return Buffer(name, v.buffer.dtype, v.shape, "in", None if v.contiguous else v.strides)


def nest(name: str, phases: Sequence[Stmt], views: Mapping[str, View], fresh: Sequence[str] = ()) -> Nest:
    """A step of phases over buffers that are named in ``views``.

    fresh : those that the phases write before they read them, as far as they are read.
    """
    outputs: dict[str, Buffer] = {}
    buffers: dict[str, Buffer] = {}
    for s in statements(tuple(phases)):
        if isinstance(s, Store):
            outputs[s.buffer.name] = buffers[s.buffer.name] = s.buffer
        for e in expressions(s):
            buffers |= {x.buffer.name: x.buffer for x in subexpressions(e) if isinstance(x, Load)}
    roles = {n: "in" if n not in outputs else "out" if n in fresh else "inout" for n in buffers}
    final = {n: replace(b, role=roles[n]) for n, b in buffers.items()}
    kernel = Kernel(name, tuple(final.values()), tuple(with_buffers(p, final) for p in phases))
    return Nest(kernel, tuple(views[n] for n in final))


def elementwise(
    out: View, value: Expr, views: Mapping[str, View], combine: str = "assign", name: str = "elementwise"
) -> Nest:
    """Nest of ``out[i0, i1, ...] (combine)= value``, an expression of loads at `variables` of `axes`."""
    over = axes(out.shape)
    task = Task(
        as_buffer("out", out), variables(over), value, over, combine=combine, fresh=combine == "assign"
    )
    return nest(name, boxed(task), {**views, "out": out}, ("out",) if combine == "assign" else ())


def copy(out: View, source: View) -> Nest:
    """Nest of ``out = source``."""
    return elementwise(out, Load(as_buffer("x", source), variables(axes(out.shape))), {"x": source})


def product(
    out: View,
    left: View,
    right: View,
    alpha: Number = 1,
    beta: Number = 0,
) -> Step:
    """``out = alpha * left @ right + beta * out``, by the faster of both ways.

    Raises ArgumentError (in `verify`) where the strides are not for BLAS and a nest cannot say it.
    """
    step = Product(out, left, right, alpha, beta)
    along = right.strides[-1] == 1 and typical(out.shape[-1]) >= COLUMNS
    small = max(map(typical, (*left.shape[-2:], out.shape[-1]))) <= (OWN_ALONG if along else OWN)
    small |= left.shape[-1] == 1  # one multiplication an entry: BLAS would copy the factors first
    small |= 1 in out.shape[-2:]  # of a vector: OpenBLAS's product of matrices copies the matrix first
    plain = alpha == 1 and beta in (0, 1) and out.buffer.dtype.kind in "fc"
    if plain and (small or blas_calls.call(step) is None):
        return multiplied(out, left, right, fresh=beta == 0)
    return step


def symmetric(out: View, lhs: View, rhs: View) -> tuple[Step, ...] | None:
    """Steps of a product of a real matrix with its transpose, with little more than half of the work.

    Each of a few panels of rows is computed up to the diagonal, and what is above is a copy of what is below.
    None for other products, and for those that are too small.
    """
    n = out.shape[-1]
    if len(out.shape) > 2 or rhs != lhs.transposed or out.buffer.dtype.kind != "f" or n < SYMMETRIC:
        return None
    steps: list[Step] = []
    panels = max(4, n // PANEL)
    for k in range(panels):
        start, stop = n * k // panels, n * (k + 1) // panels
        panel, rows = _cut(out, (start, stop), (0, stop)), _cut(lhs, (start, stop), (0, lhs.shape[-1]))
        steps.append(product(panel, rows, _cut(rhs, (0, rhs.shape[-2]), (0, stop))))
    return (*steps, _mirrored(out))


def _mirrored(out: View) -> Nest:
    """Nest that copies what is below the diagonal above it, some rows at a time, which stay in cache."""
    n, lines = out.shape[-1], 16
    p, i, j = Var("p"), Var("i"), Var("j")

    def of_two(name: str, a: Expr, b: Expr) -> Expr:
        return Apply(name, (a, b), INT64)

    last = of_two("minimum", p + lines, Const(n))
    first = of_two("maximum", p, j + 1)
    buffer = as_buffer("out", out)
    inner = Loop("i", first, last, (Store(buffer, (j, i), Load(buffer, (i, j))),))
    phase = Loop("p", Const(0), Const(n), (Loop("j", Const(0), last, (inner,)),), step=lines)
    return nest("mirror", [phase], {"out": out})


def _cut(v: View, rows: tuple[int, int], columns: tuple[int, int]) -> View:
    """Some rows and columns of a matrix."""
    offset = v.offset + rows[0] * v.strides[0] + columns[0] * v.strides[1]
    return replace(v, shape=(rows[1] - rows[0], columns[1] - columns[0]), offset=offset)


def turned(s: Step, temp: Callable[[DType, tuple[int, ...]], View]) -> tuple[Step, ...]:
    """A product and, where that is faster, a copy before it of the factor whose rows do not lie in order.

    OpenBLAS multiplies small matrices as they lie. Where its first factor alone is transposed, that takes
    twice the time of all other ways; a copy takes as long as some thirty products of each entry.

    temp : makes a view of a new temporary of a dtype and a shape.
    """
    if not isinstance(s, Product):
        return (s,)
    call = blas_calls.call(s)
    if call is None or call.letters != ("T", "N") or prod(call.out.shape[:-2]) > 1:
        return (s,)
    columns, rows, inner = map(typical, call.sizes)
    often = rows >= OFTEN * call.first.buffer.dtype.itemsize
    if not often or min(columns, inner) < 2 or columns * rows * inner > SMALL_PRODUCT:
        return (s,)
    copied = temp(call.first.buffer.dtype, call.first.shape)
    is_right = call.first == s.right
    product = replace(s, right=copied) if is_right else replace(s, left=copied.transposed)
    return copy(copied.transposed, call.first.transposed), product


def multiplied(out: View, left: View, right: View, *, fresh: bool = True) -> Nest:
    """``out = left @ right``, or ``out += left @ right``, as a nest; those that are alike are one kernel."""
    key = _as_passed(out), _as_passed(left), _as_passed(right), fresh
    step = _products.get(key)
    if step is None:
        if len(_products) >= _KEPT:
            _products.clear()
        step = _products[key] = _multiplied(out, left, right, fresh)
    names = [b.name for b in step.kernel.buffers]
    views = {"out": out, "left": left, "right": right}
    return Nest(step.kernel, tuple(views[n] for n in names))


_products: dict[object, Nest] = {}
_KEPT = 1024


def _multiplied(out: View, lhs: View, rhs: View, fresh: bool) -> Nest:
    """Build the nest that `multiplied` keeps, for views with other buffers too."""
    if out.buffer.dtype.kind == "f" and len(out.shape) == 2 and lhs.shape[-1] >= ROWS:
        for along, matrix in ((0, lhs), (1, rhs)):
            if out.shape[1 - along] == 1 and out.shape[along] >= COLUMNS and matrix.strides[along] == 1:
                return _rows_added(out, lhs, rhs, along, fresh)
    *batch, row, column = axes(out.shape)
    inner = Axis("k", Const(0), Const(lhs.shape[-1]))
    at = variables(batch)
    value = Apply(
        "multiply",
        (
            Load(as_buffer("left", lhs), (*at, Var(row.name), Var("k"))),
            Load(as_buffer("right", rhs), (*at, Var("k"), Var(column.name))),
        ),
        out.buffer.dtype,
    )
    task = Task(
        as_buffer("out", out),
        (*at, Var(row.name), Var(column.name)),
        value,
        (*batch, row, column, inner),
        combine="sum",
        fresh=fresh,
    )
    views = {"out": out, "left": lhs, "right": rhs}
    return nest("product", boxed(task), views, ("out",) if fresh else ())


def _rows_added(out: View, lhs: View, rhs: View, along: int, fresh: bool) -> Nest:
    """Nest of a product with a vector where the matrix is contiguous along the result: its rows are added up.

    Some rows at a time, so that each line of the matrix is read once, and the result from the first cache.

    along : the axis of the matrix that is the result's: 0 of ``lhs``, 1 of ``rhs``.
    """
    count, columns, dtype = lhs.shape[-1], out.shape[along], out.buffer.dtype
    j, start, zero = Var("j"), Var("block"), Const(0)
    row, column = (j, zero) if along == 0 else (zero, j)
    end: Expr = start + ADDED
    if columns % ADDED:
        end = Apply("minimum", (end, Const(columns)), INT64)

    def added(first: Expr, number: int, how: str) -> Stmt:
        terms = [
            Apply(
                "multiply",
                (Load(as_buffer("left", lhs), (row, k)), Load(as_buffer("right", rhs), (k, column))),
                dtype,
            )
            for k in (first + u for u in range(number))
        ]
        total = reduce(lambda x, y: Apply("add", (x, y), dtype), terms)
        store = Store(as_buffer("out", out), (row, column), total, how)
        return Loop("j", start, end, (store,), mark="vector", factor=2)

    first = count % ROWS or ROWS
    body = [added(zero, first, "assign" if fresh else "sum")]
    if first < count:
        body.append(Loop("i", Const(first), Const(count), (added(Var("i"), ROWS, "sum"),), step=ROWS))
    phase = Loop(start.name, zero, Const(columns), tuple(body), step=ADDED, mark="parallel")
    return nest("product", [phase], {"out": out, "left": lhs, "right": rhs}, ("out",) if fresh else ())


def _as_passed(v: View) -> tuple[object, ...]:
    """Facts of a view that a kernel depends on."""
    return v.buffer.dtype, v.shape, None if v.contiguous else v.strides


__all__ = [
    "OWN", "OWN_ALONG", "as_buffer", "axes", "copy", "elementwise", "multiplied", "nest", "product",
    "symmetric", "turned", "variables",
]  # fmt: skip
