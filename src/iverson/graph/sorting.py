"""Orders along an axis as native loops: sorting by merging, places in a sorted vector, running extrema.

keys, order = x, 0 1 2 ...; for w = 1, 2, 4, ...: merge neighbouring runs of w entries into one of 2 w

Of two equal keys the first one goes first, and nan is larger than all numbers: as NumPy's stable sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from iverson.codegen.nodes import (
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
from iverson.codegen.programs import Repeat, View, build
from iverson.codegen.programs.nodes import Step, c_strides
from iverson.expr.build import cast, const
from iverson.expr.functions import identity
from iverson.expr.nodes import Apply, Const, DType, Expr, Select
from iverson.graph.memory import Memory
from iverson.graph.nodes import Equation, Value

ORDERS = ("argsort", "sort", "searchsorted", "cumulative_argmax")


def is_order(equation: Equation) -> bool:
    """Whether an equation is one of those, of numbers that have an order."""
    values = [*equation.operands, *equation.results]
    return equation.op.name in ORDERS and all(
        type(v) is Value and v.dtype.kind in "biuf" and 0 not in v.shape for v in values
    )


def steps(equation: Equation, operands: Sequence[View], out: View, memory: Memory) -> list[Step]:
    """The steps that make the result in ``out``."""
    params: dict[str, Any] = dict(equation.params)
    if equation.op.name == "searchsorted":
        x, v = operands
        return [_searched(x, v, out, params["side"])]
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
    """The entries of rows in order, or (not ``whole``) their positions."""
    dtype, count = x.buffer.dtype, x.shape[-1]
    flat = prod(x.shape[:-1]), count
    keys, merged = (memory.temp(dtype, flat) for _ in range(2))
    pairs = [(keys, merged)]
    first: list[Step] = [build.copy(_shaped(keys, x.shape), x)]
    if not whole:
        order, moved = (memory.temp(INT64, flat) for _ in range(2))
        first.append(build.elementwise(order, Var("i1"), {}))
        pairs.append((order, moved))
    rounds = (count - 1).bit_length()
    found = _shaped(pairs[-1][0], x.shape)
    if not rounds:
        return [*first, build.copy(out, found)]
    var = memory.variable()
    level = memory.hold(np.arange(rounds))
    level = View(level.buffer, (), ()).moved(var, 1)
    swaps = tuple((a.buffer, b.buffer) for a, b in pairs)
    merge = _merge(pairs, level, descending)
    return [*first, Repeat(var, rounds, (merge,), swaps), build.copy(out, found)]


def _shaped(v: View, shape: tuple[int, ...]) -> View:
    """All of a buffer in order, in another shape."""
    return replace(v, shape=shape, strides=c_strides(shape))


def _merge(pairs: Sequence[tuple[View, View]], level: View, descending: bool) -> Step:
    """Runs of 2^level entries, merged two by two: of each pair of views from the first into the second."""
    rows, count = pairs[0][0].shape
    row, run, i = Var("row"), Var("run"), Var("i")
    power = Load(build.as_buffer("level", level), ()) + 1
    views = {"level": level} | {f"from{k}": a for k, (a, _) in enumerate(pairs)}
    views |= {f"to{k}": b for k, (_, b) in enumerate(pairs)}

    def read(k: int, at: Expr) -> Expr:
        return Load(build.as_buffer(f"from{k}", pairs[k][0]), (row, _inside(at, count)))

    def local(name: str, dtype: DType = INT64) -> Local:
        return Local(name, dtype)

    lo, middle, hi, left, right = map(local, ("lo", "middle", "hi", "left", "right"))
    second, at = local("second", BOOL), local("at")
    before = _before(read(0, right), read(0, left), descending)
    chosen = (left >= middle) | ((right < hi) & before)
    step = cast(second, INT64)
    body: list[Stmt] = [
        Let("second", chosen),
        Let("at", Select(second, right, left)),
        *(
            Store(build.as_buffer(f"to{k}", b), (row, _inside(i, count)), read(k, at))
            for k, (_, b) in enumerate(pairs)
        ),
        Update("right", "assign", right + step),
        Update("left", "assign", left + (1 - step)),
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
    return build.nest("merge", [nest], views, [f"to{k}" for k in range(len(pairs))])


def _before(a: Expr, b: Expr, descending: bool) -> Expr:
    """Whether a goes before b."""
    less = Apply("greater" if descending else "less", (a, b), BOOL)
    if a.dtype.kind != "f":
        return less
    x, y = (b, a) if not descending else (a, b)
    return less | (_is_nan(x) & Apply("logical_not", (_is_nan(y),), BOOL))


def _is_nan(x: Expr) -> Expr:
    return Apply("isnan", (x,), BOOL)


def _shifted(x: Expr, by: Expr) -> Expr:
    return Apply("bitwise_left_shift", (x, by), INT64)


def _least(x: Expr, bound: int) -> Expr:
    return Apply("minimum", (x, const(bound, INT64)), INT64)


def _inside(at: Expr, count: int) -> Expr:
    """An index of ``count`` entries, which it is where it counts."""
    return Apply("maximum", (_least(at, count - 1), const(0, INT64)), INT64)


# --- places and running extrema ---------------------------------------------------------------------


def _searched(x: View, v: View, out: View, side: str) -> Step:
    """How many entries of a sorted vector go before each of v (with "right", or are as large): by halving."""
    (count,), dtype = x.shape, np.result_type(x.buffer.dtype, v.buffer.dtype)
    at = tuple(Var(f"i{k}") for k in range(len(v.shape)))
    found, next, t = Local("found", INT64), Local("next", INT64), Var("t")
    levels = count.bit_length()
    value = cast(Load(build.as_buffer("v", v), at), dtype)
    entry = cast(Load(build.as_buffer("x", x), (_inside(next - 1, count),)), dtype)
    before = _before(entry, value, False)
    if side == "right":
        before = Apply("logical_not", (_before(value, entry, False),), BOOL)
    halved: list[Stmt] = [
        Let("next", found + _shifted(const(1, INT64), const(levels - 1, INT64) - t)),
        Update("found", "assign", Select((next <= count) & before, next, found)),
    ]
    body: tuple[Stmt, ...] = (
        Declare("found", INT64, const(0, INT64)),
        Loop("t", Const(0), Const(levels), tuple(halved)),
        Store(build.as_buffer("out", out), at, found),
    )
    return build.nest("searchsorted", [_looped(body, at, v.shape)], {"x": x, "v": v, "out": out}, ("out",))


def _running(x: View, out: View, largest: bool) -> Step:
    """Where the first of the extrema so far is, along the last axis."""
    how, dtype = "argmax" if largest else "argmin", x.buffer.dtype
    *outer, k = (Var(f"i{n}") for n in range(len(x.shape)))
    body: tuple[Stmt, ...] = (
        UpdateArg("best", "at", how, Load(build.as_buffer("x", x), (*outer, k)), k),
        Store(build.as_buffer("out", out), (*outer, k), Local("at", INT64)),
    )
    line: tuple[Stmt, ...] = (
        Declare("best", dtype, Const(identity(how, dtype), dtype)),
        Declare("at", INT64, const(np.iinfo(np.int64).max, INT64)),
        Loop(k.name, Const(0), Const(x.shape[-1]), body),
    )
    phases = [_looped(line, outer, x.shape[:-1])]
    return build.nest("running", phases, {"x": x, "out": out}, ("out",))


def _looped(body: tuple[Stmt, ...], over: Sequence[Var], extents: Sequence[int]) -> Stmt:
    """Loops around statements; where there is none, one that runs once."""
    names = [v.name for v in over] or ["once"]
    for name, n in zip(reversed(names), reversed(extents or [1]), strict=True):
        body = (Loop(name, Const(0), Const(n), body),)
    return body[0]


__all__ = ["ORDERS", "is_order", "steps"]
