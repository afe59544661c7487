"""Sorting as native loops: merge sort, search in a sorted vector, positions of extrema along an axis.

keys, order = x, 0 1 2 ...; for w = 1, 2, 4, ...: merge neighbouring runs of w entries into one of 2 w

Of two equal keys the first one goes first, and nan is larger than all numbers, as in NumPy's stable sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Declare,
    Let,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Update,
    UpdateArg,
    Var,
)
from iverson.codegen.programs import Repeat, View, step_builders
from iverson.codegen.programs.nodes import Step, c_strides
from iverson.core.protocols import Params
from iverson.expr.build import cast, const
from iverson.expr.function_facts import identity
from iverson.expr.nodes import Apply, Const, DType, Expr, Select
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.native.buffers import Memory

ORDERS = ("argsort", "sort", "searchsorted", "cumulative_argmax")
#: Of complex numbers; extrema of others are tensor expressions.
COMPLEX_ORDERS = ("argsort", "sort", "searchsorted", "argmax", "argmin")


def is_order(equation: Equation) -> bool:
    """True if an equation is one of `ORDERS`, or of `COMPLEX_ORDERS` on complex numbers."""
    values = [*equation.operands, *equation.results]
    if any(type(v) is not Value or 0 in v.shape for v in values):
        return False
    is_complex = any(v.dtype.kind == "c" for v in values)
    return equation.op.name in (COMPLEX_ORDERS if is_complex else ORDERS)


def steps(equation: Equation, operands: Sequence[View], out: View, memory: Memory) -> list[Step]:
    """The steps that make the result in ``out``."""
    params: Params = dict(equation.params)
    if equation.op.name == "searchsorted":
        x, v = operands
        return [_searched(x, v, out, params["side"])]
    if equation.op.name in ("argmax", "argmin"):
        return [_extremum(operands[0], out, largest=equation.op.name == "argmax", **params)]
    (x,), axis = operands, params["axis"]
    rows, back = _rows(x, axis), _rows(out, axis)
    if equation.op.name == "cumulative_argmax":
        return [_running(rows, back, params["largest"])]
    return _sorted(rows, back, memory, params["descending"], whole=equation.op.name == "sort")


def _rows(v: View, axis: int) -> View:
    """A view with an axis last."""
    at = [k for k in range(len(v.shape)) if k != axis] + [axis]
    return replace(v, shape=tuple(v.shape[k] for k in at), strides=tuple(v.strides[k] for k in at))


# --- sorting ----------------------------------------------------------------------------------------


def _sorted(x: View, out: View, memory: Memory, descending: bool, *, whole: bool) -> list[Step]:
    """Steps of a merge sort of each row of ``x`` into ``out``.

    whole : write the entries in order; if not, their positions before.
    """
    dtype, count = x.buffer.dtype, x.shape[-1]
    flat = prod(x.shape[:-1]), count
    keys, merged = (memory.temp(dtype, flat) for _ in range(2))
    pairs = [(keys, merged)]
    first: list[Step] = [step_builders.copy(_shaped(keys, x.shape), x)]
    if not whole:
        order, merged_order = (memory.temp(INT64, flat) for _ in range(2))
        first.append(step_builders.elementwise(order, Var("i1"), {}))
        pairs.append((order, merged_order))
    rounds = (count - 1).bit_length()
    result = _shaped(pairs[-1][0], x.shape)
    if not rounds:
        return [*first, step_builders.copy(out, result)]
    var = memory.variable()
    level = memory.hold(np.arange(rounds))
    level = View(level.buffer, (), ()).moved(var, 1)
    swaps = tuple((a.buffer, b.buffer) for a, b in pairs)
    merge = _merge(pairs, level, descending)
    return [*first, Repeat(var, rounds, (merge,), swaps), step_builders.copy(out, result)]


def _shaped(v: View, shape: tuple[int, ...]) -> View:
    """All of a buffer in order, in another shape."""
    return replace(v, shape=shape, strides=c_strides(shape))


def _merge(pairs: Sequence[tuple[View, View]], level: View, descending: bool) -> Step:
    """One step of merge sort: merge neighbouring runs of 2^level entries into runs of twice that length.

    pairs : the view to read from and the view to write to: of the keys, then (if wanted) of the positions.
    """
    rows, count = pairs[0][0].shape
    row, run, i = Var("row"), Var("run"), Var("i")
    power = Load(step_builders.as_buffer("level", level), ()) + 1
    views = {"level": level} | {f"from{k}": a for k, (a, _) in enumerate(pairs)}
    views |= {f"to{k}": b for k, (_, b) in enumerate(pairs)}

    def read(k: int, at: Expr) -> Expr:
        return Load(step_builders.as_buffer(f"from{k}", pairs[k][0]), (row, _inside(at, count)))

    def local(name: str, dtype: DType = INT64) -> Local:
        return Local(name, dtype)

    lo, middle, hi, left_at, right_at = map(local, ("lo", "middle", "hi", "left", "right"))
    second, at = local("second", BOOL), local("at")
    before = _before(read(0, right_at), read(0, left_at), descending)
    is_second = (left_at >= middle) | ((right_at < hi) & before)
    step = cast(second, INT64)
    body: list[Stmt] = [
        Let("second", is_second),
        Let("at", Select(second, right_at, left_at)),
        *(
            Store(step_builders.as_buffer(f"to{k}", b), (row, _inside(i, count)), read(k, at))
            for k, (_, b) in enumerate(pairs)
        ),
        Update("right", "assign", right_at + step),
        Update("left", "assign", left_at + (1 - step)),
    ]
    width = _shifted(const(1, INT64), power)
    runs: list[Stmt] = [
        Let("lo", _shifted(run, power)),
        Let("middle", _least(lo + _shifted(const(1, INT64), power - 1), count)),
        Let("hi", _least(lo + width, count)),
        Declare("left", INT64, lo),
        Declare("right", INT64, middle),
        Loop("i", lo, hi, tuple(body)),
    ]
    number = Apply("bitwise_right_shift", (width + (count - 1), power), INT64)
    inner = Loop("run", Const(0), number, tuple(runs))
    nest = Loop("row", Const(0), Const(rows), (inner,), mark="parallel" if rows > 1 else "")
    return step_builders.nest("merge", [nest], views, [f"to{k}" for k in range(len(pairs))])


def _before(a: Expr, b: Expr, descending: bool) -> Expr:
    """Condition that a goes before b."""
    return _less(b, a) if descending else _less(a, b)


def _less(a: Expr, b: Expr) -> Expr:
    """Condition that a is less than b; nan is larger than all numbers. Complex numbers go by real parts,
    those with a nan in one part behind others."""
    if a.dtype.kind != "c":
        less = Apply("less", (a, b), BOOL)
        return less | (_is_nan(b) & _not(_is_nan(a))) if a.dtype.kind == "f" else less
    dtype = np.dtype(a.dtype.type(0).real.dtype)
    x, v, y, w = (Apply(part, (z,), dtype) for part in ("real", "imag") for z in (a, b))
    number, other = _not(_is_nan(y)), _is_nan(w)
    equal = Apply("equal", (x, v), BOOL) | (_is_nan(x) & _is_nan(v))
    first = Apply("less", (x, v), BOOL) & (number | other)
    second = (Apply("greater", (x, v), BOOL) | equal) & (number & other)
    return first | second | (equal & Apply("less", (y, w), BOOL)) | (_is_nan(v) & _not(_is_nan(x)))


def _not(x: Expr) -> Expr:
    return Apply("logical_not", (x,), BOOL)


def _is_nan(x: Expr) -> Expr:
    return Apply("isnan", (x,), BOOL)


def _shifted(x: Expr, by: Expr) -> Expr:
    return Apply("bitwise_left_shift", (x, by), INT64)


def _least(x: Expr, bound: int) -> Expr:
    return Apply("minimum", (x, const(bound, INT64)), INT64)


def _inside(at: Expr, count: int) -> Expr:
    """An index limited to ``count`` entries; the limit changes only an index that is not used."""
    return Apply("maximum", (_least(at, count - 1), const(0, INT64)), INT64)


# --- places and running extrema ---------------------------------------------------------------------


def _searched(x: View, v: View, out: View, side: str) -> Step:
    """Number of entries of a sorted vector before each of v (with "right", also equal ones), by halving."""
    (count,), dtype = x.shape, np.result_type(x.buffer.dtype, v.buffer.dtype)
    at = tuple(Var(f"i{k}") for k in range(len(v.shape)))
    position, next, t = Local("found", INT64), Local("next", INT64), Var("t")
    levels = count.bit_length()
    value = cast(Load(step_builders.as_buffer("v", v), at), dtype)
    entry = cast(Load(step_builders.as_buffer("x", x), (_inside(next - 1, count),)), dtype)
    before = _before(entry, value, False)
    if side == "right":
        before = Apply("logical_not", (_before(value, entry, False),), BOOL)
    halved: list[Stmt] = [
        Let("next", position + _shifted(const(1, INT64), const(levels - 1, INT64) - t)),
        Update("found", "assign", Select((next <= count) & before, next, position)),
    ]
    body: tuple[Stmt, ...] = (
        Declare("found", INT64, const(0, INT64)),
        Loop("t", Const(0), Const(levels), tuple(halved)),
        Store(step_builders.as_buffer("out", out), at, position),
    )
    return step_builders.nest(
        "searchsorted", [_looped(body, at, v.shape)], {"x": x, "v": v, "out": out}, ("out",)
    )


def _extremum(x: View, out: View, *, axis: int | None, keepdims: bool, largest: bool) -> Step:
    """Position of the first of the largest, or least, entries along an axis, or in all; or the first nan."""
    rank, dtype = len(x.shape), x.buffer.dtype
    over = range(rank) if axis is None else (axis % rank,)
    at = [Var(f"i{n}") for n in range(rank)]
    entry, best, place = (
        Load(step_builders.as_buffer("x", x), tuple(at)),
        Local("best", dtype),
        Local("at", INT64),
    )
    number: Expr = const(0, INT64)
    for n in over:
        number = number * x.shape[n] + at[n]
    better = _less(best, entry) if largest else _less(entry, best)
    better = _not(_is_nan(best)) & (_is_nan(entry) | better)
    is_better = Local("taken", BOOL)
    body: tuple[Stmt, ...] = (
        Let("taken", (place < 0) | better),
        Update("best", "assign", Select(is_better, entry, best)),
        Update("at", "assign", Select(is_better, number, place)),
    )
    outer = [n for n in range(rank) if n not in over]
    index: list[Expr] = [at[n] if n in outer else Const(0) for n in range(rank) if keepdims or n in outer]
    line: tuple[Stmt, ...] = (
        Declare("best", dtype, Const(0j, dtype)),
        Declare("at", INT64, const(-1, INT64)),
        _looped(body, [at[n] for n in over], [x.shape[n] for n in over]),
        Store(step_builders.as_buffer("out", out), tuple(index), place),
    )
    phases = [_looped(line, [at[n] for n in outer], [x.shape[n] for n in outer])]
    return step_builders.nest("extremum", phases, {"x": x, "out": out}, ("out",))


def _running(x: View, out: View, largest: bool) -> Step:
    """Position of the first of the extrema so far, along the last axis."""
    how, dtype = "argmax" if largest else "argmin", x.buffer.dtype
    *outer, k = (Var(f"i{n}") for n in range(len(x.shape)))
    body: tuple[Stmt, ...] = (
        UpdateArg("best", "at", how, Load(step_builders.as_buffer("x", x), (*outer, k)), k),
        Store(step_builders.as_buffer("out", out), (*outer, k), Local("at", INT64)),
    )
    line: tuple[Stmt, ...] = (
        Declare("best", dtype, Const(identity(how, dtype), dtype)),
        Declare("at", INT64, const(np.iinfo(np.int64).max, INT64)),
        Loop(k.name, Const(0), Const(x.shape[-1]), body),
    )
    phases = [_looped(line, outer, x.shape[:-1])]
    return step_builders.nest("running", phases, {"x": x, "out": out}, ("out",))


def _looped(body: tuple[Stmt, ...], over: Sequence[Var], extents: Sequence[int]) -> Stmt:
    """Loops around statements; where there is no variable, a loop that runs once."""
    names = [v.name for v in over] or ["once"]
    for name, n in zip(reversed(names), reversed(extents or [1]), strict=True):
        body = (Loop(name, Const(0), Const(n), body),)
    return body[0]


__all__ = ["ORDERS", "is_order", "steps"]
