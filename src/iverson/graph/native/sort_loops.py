"""Sorting as native steps: NumPy's sorts, search in a sorted vector, positions of extrema along an axis.

Rows are sorted by the functions that NumPy has for their dtype, as the op's own kernel does: nan is larger
than all numbers, and descending order is that of the reversed row, reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from iverson.codegen.execution.routines import Function, Reference
from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Declare,
    If,
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
from iverson.codegen.nests.task import Task
from iverson.codegen.programs import Branch, View, step_builders
from iverson.codegen.programs.nodes import Call, Step
from iverson.codegen.runtime import library_functions
from iverson.codegen.schedule.exact_walks import boxed
from iverson.core.protocols import Params
from iverson.expr.build import cast, const
from iverson.expr.function_facts import identity
from iverson.expr.nodes import Apply, Const, Expr, Select
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.native.buffers import Memory

#: NumPy's kinds of sorts.
QUICK, _, STABLE = library_functions.SORTS
ORDERS = ("argsort", "argtop", "sort", "searchsorted", "cumulative_argmax")
#: Entries of an order up to which they are inserted one by one into those that were first so far.
FEW = 64
#: Of complex numbers; extrema of others are tensor expressions.
COMPLEX_ORDERS = ("argsort", "argtop", "sort", "searchsorted", "argmax", "argmin")


def is_order(equation: Equation) -> bool:
    """True if an equation is one of `ORDERS`, or of `COMPLEX_ORDERS` on complex numbers."""
    values = [*equation.operands, *equation.results]
    if any(type(v) is not Value or 0 in v.shape for v in values):
        return False
    if equation.op.name in ("argsort", "argtop", "sort") and not library_functions.HAS_TABLES:
        return False
    is_complex = any(v.dtype.kind == "c" for v in values)
    return equation.op.name in (COMPLEX_ORDERS if is_complex else ORDERS)


def steps(equation: Equation, operands: Sequence[View], out: View, memory: Memory) -> list[Step]:
    """The steps that make the result in ``out``."""
    params: Params = dict(equation.params)
    if equation.op.name == "searchsorted":
        x, v = operands
        return [_searched(x, v, out, params["side"])]
    if equation.op.name in ("argmax", "argmin") and operands[0].buffer.dtype.kind != "c":
        return _position(operands[0], out, memory, equation.op.name, **params)
    if equation.op.name in ("argmax", "argmin"):
        return [_extremum(operands[0], out, largest=equation.op.name == "argmax", **params)]
    (x,), axis = operands, params["axis"]
    rows, back = _rows(x, axis), _rows(out, axis)
    if equation.op.name == "cumulative_argmax":
        return [_running(rows, back, params["largest"])]
    if equation.op.name == "argtop":
        return _first(rows, back, memory, params["descending"])
    if equation.op.name == "sort":
        return _sorted(rows, back, memory, params["descending"])
    return _order(rows, back, memory, params["descending"], params["stable"])


def _rows(v: View, axis: int) -> View:
    """A view with an axis last."""
    at = [k for k in range(len(v.shape)) if k != axis] + [axis]
    return replace(v, shape=tuple(v.shape[k] for k in at), strides=tuple(v.strides[k] for k in at))


# --- sorting ----------------------------------------------------------------------------------------


def _sorted(x: View, out: View, memory: Memory, descending: bool) -> list[Step]:
    """Steps of a sort of each row of ``x`` into ``out``.

    Zeros of both signs are equal: only a stable sort, which takes longer, leaves them in their order.
    """
    dtype = x.buffer.dtype
    first, last = _ascending(x, descending), _ascending(out, descending)
    keys = last if last.contiguous else memory.temp(dtype, x.shape)
    steps: list[Step] = [step_builders.copy(keys, first)]
    if dtype.kind == "f":
        flag = memory.temp(BOOL, ())
        steps += [
            _any_negative_zero(keys, flag),
            Branch(flag, (_in_place(keys, STABLE),), (_in_place(keys),)),
        ]
    else:
        steps.append(_in_place(keys))
    return steps if keys is last else [*steps, step_builders.copy(last, keys)]


def _order(x: View, out: View, memory: Memory, descending: bool, stable: bool) -> list[Step]:
    """Steps that write the positions, before, of the sorted entries of each row of ``x`` into ``out``.

    The order of the reversed row, reversed, keeps equal entries in their first order.
    """
    count = x.shape[-1]
    first, last = _ascending(x, descending), _ascending(out, descending)
    keys = first if _has_rows(first) else memory.temp(x.buffer.dtype, x.shape)
    order = out if out.contiguous and not descending else memory.temp(INT64, x.shape)
    steps: list[Step] = [] if keys is first else [step_builders.copy(keys, first)]
    steps.append(step_builders.elementwise(order, Var(f"i{len(x.shape) - 1}"), {}))
    symbol = library_functions.sort(x.buffer.dtype, STABLE if stable else QUICK, order=True)
    arguments = (Reference(0), Reference(1), count, 0)
    steps.append(
        Call(Function(symbol, arguments, ("n", "n"), ("in", "inout"), by_reference=False), (keys, order))
    )
    if order is out:
        return steps
    at = step_builders.variables(step_builders.axes(x.shape))
    place: Expr = Load(step_builders.as_buffer("order", order), at)
    place = const(count - 1, INT64) - place if descending else place
    return [*steps, step_builders.elementwise(last, place, {"order": order})]


def _first(x: View, out: View, memory: Memory, descending: bool) -> list[Step]:
    """Steps that write the positions of the first entries of a stable order of each row.

    Those that were first so far are kept in order; an entry that goes before the last of them is inserted.
    """
    *outer, n = x.shape
    count = out.shape[-1]
    if count > FEW:
        order = memory.temp(INT64, x.shape)
        return [
            *_order(x, order, memory, descending, True),
            step_builders.copy(out, replace(order, shape=out.shape)),
        ]
    keys = memory.temp(x.buffer.dtype, out.shape)
    at = [Var(f"i{k}") for k in range(len(outer))]
    i, t, place = Var("i"), Var("t"), Local("place", INT64)
    entry, last = Local("entry", x.buffer.dtype), Local("last", INT64)

    def read(name: str, v: View, k: Expr) -> Expr:
        return Load(step_builders.as_buffer(name, v), (*at, _inside(k, count)))

    def write(name: str, v: View, k: Expr, value: Expr) -> Stmt:
        return Store(step_builders.as_buffer(name, v), (*at, _inside(k, count)), value)

    before = _before(entry, read("keys", keys, last - t - 1), descending)
    shifted: tuple[Stmt, ...] = (
        write("keys", keys, last - t, read("keys", keys, last - t - 1)),
        write("out", out, last - t, read("out", out, last - t - 1)),
        Update("place", "assign", last - t - 1),
    )
    inserted: tuple[Stmt, ...] = (
        Let("last", _least(i, count - 1)),
        Declare("place", INT64, last),
        Loop("t", Const(0), last, (If(before, shifted),)),
        write("keys", keys, place, entry),
        write("out", out, place, i),
    )
    before_last = _before(entry, read("keys", keys, const(count - 1, INT64)), descending)
    is_first = Apply("less", (i, const(count, INT64)), BOOL) | before_last
    body: tuple[Stmt, ...] = (
        Let("entry", Load(step_builders.as_buffer("x", x), (*at, i))),
        If(is_first, inserted),
    )
    phases = [_looped((Loop("i", Const(0), Const(n), body),), at, outer)]
    return [step_builders.nest("first", phases, {"x": x, "keys": keys, "out": out}, ("keys", "out"))]


def _ascending(v: View, descending: bool) -> View:
    """A view whose rows are read from the end if ``descending``."""
    if not descending:
        return v
    offset = v.offset + (v.shape[-1] - 1) * v.strides[-1]
    return replace(v, strides=(*v.strides[:-1], -v.strides[-1]), offset=offset)


def _has_rows(v: View) -> bool:
    """True if the entries of each row lie in order."""
    return v.strides[-1] == 1 or v.shape[-1] == 1


def _in_place(keys: View, kind: str = QUICK) -> Step:
    """Sort of each row in its place, by NumPy's function for the dtype."""
    symbol = library_functions.sort(keys.buffer.dtype, kind, order=False)
    arguments = (Reference(0), keys.shape[-1], 0)
    return Call(Function(symbol, arguments, ("n",), ("inout",), by_reference=False), (keys,))


def _any_negative_zero(x: View, flag: View) -> Step:
    """Nest that finds whether an entry is -0."""
    over = step_builders.axes(x.shape)
    entry = Load(step_builders.as_buffer("x", x), step_builders.variables(over))
    zero = Apply("equal", (entry, const(0, x.buffer.dtype)), BOOL)
    value = zero & Apply("signbit", (entry,), BOOL)
    task = Task(step_builders.as_buffer("flag", flag), (), value, over, combine="max", fresh=True)
    return step_builders.nest("signs", boxed(task), {"x": x, "flag": flag}, ("flag",))


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
    lanes = "vector" if dtype.kind != "c" else ""
    return step_builders.nest(
        "searchsorted", [_looped(body, at, v.shape, lanes)], {"x": x, "v": v, "out": out}, ("out",)
    )


def is_position(equation: Equation) -> bool:
    """True if an equation is the position of an extremum of rows, for which NumPy has a function."""
    if equation.op.name not in ("argmax", "argmin") or not library_functions.HAS_TABLES:
        return False
    (x,), axis = equation.operands, equation.params["axis"]
    if type(x) is not Value or 0 in x.shape or x.dtype.name not in library_functions.NUMBERS:
        return False
    return axis is None or axis % len(x.shape) == len(x.shape) - 1


def _position(
    x: View, out: View, memory: Memory, name: str, *, axis: int | None, keepdims: bool
) -> list[Step]:
    """Steps of the position of the first of the largest, or least, entries of each row, or of all entries."""
    keys = x if x.contiguous else memory.temp(x.buffer.dtype, x.shape)
    steps: list[Step] = [] if keys is x else [step_builders.copy(keys, x)]
    rows = (1, prod(x.shape)) if axis is None else (prod(x.shape[:-1]), x.shape[-1])
    symbol = library_functions.extremum(x.buffer.dtype, name)
    arguments = (Reference(0), rows[1], Reference(1), 0)
    routine = Function(symbol, arguments, ("n", ""), ("in", "out"), by_reference=False)
    places = out if out.contiguous else memory.temp(INT64, out.shape)
    flat = replace(places, shape=rows[:1], strides=(1,))
    steps.append(Call(routine, (replace(keys, shape=rows, strides=(rows[1], 1)), flat)))
    return steps if places is out else [*steps, step_builders.copy(out, places)]


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


def _looped(body: tuple[Stmt, ...], over: Sequence[Var], extents: Sequence[int], mark: str = "") -> Stmt:
    """Loops around statements, the innermost with a mark; where there is no variable, a loop that runs once.

    In lanes there are two vectors at a time: what one waits for in memory, the other computes meanwhile.
    """
    names = [v.name for v in over] or ["once"]
    for name, n in zip(reversed(names), reversed(extents or [1]), strict=True):
        body, mark = (Loop(name, Const(0), Const(n), body, mark=mark, factor=2 if mark else 1),), ""
    return body[0]


__all__ = ["ORDERS", "is_order", "is_position", "steps"]
