"""Indexed writes as native loops: writes at places that index arrays name, and checks of such arrays.

y[n[e], :] = v[e, :] for e in order, so that the last one to write a place counts

An index outside of its array ends the program with an error, as everywhere
(`iverson.codegen.nests.fault_reports`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iverson.codegen.nests.fault_reports import PROBE
from iverson.codegen.nests.nodes import INT64, Load, Loop, Stmt, Store, Var
from iverson.codegen.programs import View, step_builders
from iverson.codegen.programs.nodes import Step
from iverson.core.protocols import Params
from iverson.core.shapes import broadcast_shapes
from iverson.expr.build import as_expr, cast, const
from iverson.expr.nodes import Apply, Const, Expr
from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.native.buffers import Memory

WRITES = ("gather_put", "last_writers", "checked_index")


def is_write(equation: Equation) -> bool:
    """True if an equation is one of `WRITES`, of values that have entries."""
    values = [x for x in (*equation.operands, *equation.results) if type(x) is Value]
    return equation.op.name in WRITES and all(0 not in v.shape for v in values)


def steps(equation: Equation, operands: Sequence[Any], out: View, memory: Memory) -> list[Step]:
    """The steps of one of `WRITES`; ``operands`` are views or numbers.

    Of a `gather_put`, ``out`` must hold the array to write into before the steps run.
    """
    params: Params = dict(equation.params)
    if equation.op.name == "gather_put":
        return [_put(out, *operands[1:], **params)]
    if equation.op.name == "last_writers":
        return _last_writers(operands, out, memory, **params)
    (x,) = operands
    return [_checked(x, out, memory, **params)]


def _put(out: View, v: View | complex, *indices: View, axes: tuple[int, ...]) -> Step:
    """Loop that writes ``v``, a view or a number, into ``out``.

    indices : the places along each of ``axes``.
    """
    lead = broadcast_shapes("index", *(n.shape for n in indices))
    over = [Var(f"e{k}") for k in range(len(lead))]
    inner = {k: Var(f"i{k}") for k in range(len(out.shape)) if k not in axes}
    views = {f"n{k}": n for k, n in zip(axes, indices, strict=True)}
    at = {k: _read(f"n{k}", n, over) for k, n in zip(axes, indices, strict=True)} | inner
    if isinstance(v, View):
        views["v"], value = v, _read("v", v, [*over, *inner.values()])
    else:
        value = as_expr(v)
    place = tuple(at[k] if k in inner else cast(at[k], INT64) for k in range(len(out.shape)))
    store = Store(step_builders.as_buffer("out", out), place, cast(value, out.buffer.dtype))
    extents = [*lead, *(out.shape[k] for k in inner)]
    return step_builders.nest(
        "gather_put", [_looped(store, [*over, *inner.values()], extents)], {**views, "out": out}
    )


def _last_writers(
    indices: Sequence[View], out: View, memory: Memory, *, shape: tuple[int, ...]
) -> list[Step]:
    """Two loops of `last_writers`: each entry writes its number to its place, then reads the number there."""
    (count,) = out.shape
    e = Var("e")
    last = memory.temp(INT64, shape)
    views = {f"n{k}": n for k, n in enumerate(indices)}
    place = tuple(cast(_read(name, n, [e]), INT64) for name, n in views.items())
    write = Store(step_builders.as_buffer("last", last), place, e)
    lookup = Store(
        step_builders.as_buffer("out", out), (e,), Load(step_builders.as_buffer("last", last), place)
    )
    views |= {"last": last}
    return [
        step_builders.nest("last_writers", [_looped(write, [e], [count])], views, ("last",)),
        step_builders.nest("last_writers", [_looped(lookup, [e], [count])], views | {"out": out}, ("out",)),
    ]


def _checked(
    x: View,
    out: View,
    memory: Memory,
    *,
    extent: int,
    operation: str,
    argument: str,
    least: int | None = None,
) -> Step:
    """Step that writes the indices ``x`` to ``out``, with negative ones counted from the end of ``extent``.

    It also reads a 0 at each index, so that an index out of range ends the program with an error.

    operation, argument : names for the error.
    least : the lowest index that is valid; default: -``extent``.
    """
    at = step_builders.variables(step_builders.axes(x.shape))
    index = cast(_read("x", x, at), INT64)
    position = index + _below(index, 0) * extent
    lowest = -extent if least is None else least
    if lowest > -extent:
        position = position - _below(index, lowest) * (2 * extent)
    zeros = View(memory.hold(_ZERO).buffer, (extent,), PROBE)
    probe = Load(replace(step_builders.as_buffer("probe", zeros), label=argument), (position,))
    return step_builders.elementwise(
        out, position + probe, {"x": x, "probe": zeros}, name=f"{operation}@{lowest}"
    )


_ZERO = np.zeros((), np.int64)


def _below(e: Expr, bound: int) -> Expr:
    """1 where e is less, else 0."""
    return cast(Apply("less", (e, const(bound, INT64)), np.dtype("bool")), INT64)


def _read(name: str, v: View, at: Sequence[Expr]) -> Expr:
    """The entry of a view for the entry ``at`` of an array that it is broadcast to."""
    trailing = at[len(at) - len(v.shape) :]
    index = tuple(Const(0) if n == 1 else i for n, i in zip(v.shape, trailing, strict=True))
    return Load(step_builders.as_buffer(name, v), index)


def _looped(body: Stmt, over: Sequence[Var], extents: Sequence[int]) -> Stmt:
    for var, n in zip(reversed(over), reversed(extents), strict=True):
        body = Loop(var.name, Const(0), Const(n), (body,))
    return body


__all__ = ["WRITES", "is_write", "steps"]
