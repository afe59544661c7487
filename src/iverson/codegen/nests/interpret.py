"""Interpreter of loop nests: one iteration and one entry at a time; the oracle of `emit.nest_emission`.

Every index is checked where it is used, and every scalar function is the NumPy body of `core.scalars`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from iverson.codegen.nests.nodes import (
    Buffer,
    Declare,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Size,
    Stmt,
    Store,
    Update,
    UpdateArg,
    Var,
)
from iverson.core.errors import IndexingError
from iverson.core.scalars import SCALARS, converted
from iverson.expr.build import applied
from iverson.expr.function_facts import COMBINE
from iverson.expr.nodes import Apply, Cast, Const, Expr, Number, Select

Array = np.ndarray[Any, Any]
Environment = dict[str, Any]


def run(kernel: Kernel, arrays: Mapping[str, Array], sizes: Mapping[str, int] | None = None) -> None:
    """Run a kernel on arrays by buffer name; the sizes follow from their shapes unless given.

    Raises IndexingError for an index outside its buffer.
    """
    env: Environment = dict(sizes or {})
    for b in kernel.arguments:
        for n, extent in zip(b.shape, arrays[b.name].shape, strict=True):
            if isinstance(n, str):
                env.setdefault(n, extent)
    memory = dict(arrays)
    for b in kernel.buffers:
        if b.role == "row":
            shape = tuple(env[n] if isinstance(n, str) else n for n in b.shape)
            memory[b.name] = np.zeros(shape, b.dtype)
    with np.errstate(all="ignore"):
        for phase in kernel.phases:
            _block((phase,), env, memory)


def _block(body: tuple[Stmt, ...], env: Environment, memory: dict[str, Array]) -> None:
    declared = [s.name for s in body if isinstance(s, (Let, Declare))]
    outside = {name: env[name] for name in declared if name in env}
    for s in body:
        _statement(s, env, memory)
    for name in declared:
        env.pop(name, None)
    env.update(outside)


def _statement(s: Stmt, env: Environment, memory: dict[str, Array]) -> None:
    """Run one statement, which changes ``env`` (values by name) and ``memory`` (arrays by buffer name)."""
    if isinstance(s, Loop):
        lower, upper = (int(evaluate(e, env, memory)) for e in (s.lower, s.upper))
        for k in range(lower, upper, s.step):
            env[s.var] = np.int64(k)
            _block(s.body, env, memory)
        env.pop(s.var, None)
    elif isinstance(s, If):
        if evaluate(s.condition, env, memory):
            _block(s.body, env, memory)
    elif isinstance(s, (Let, Declare)):
        env[s.name] = evaluate(s.value, env, memory)
    elif isinstance(s, Update):
        env[s.name] = _combined(s.combine, env[s.name], evaluate(s.value, env, memory))
    elif isinstance(s, UpdateArg):
        value, position = evaluate(s.value, env, memory), evaluate(s.position, env, memory)
        best, at = env[s.best], env[s.at]
        wins = value > best if s.combine == "argmax" else value < best
        wins = wins or (np.isnan(value) and not np.isnan(best))
        ties = value == best or (np.isnan(value) and np.isnan(best))
        if wins or (ties and position < at):
            env[s.best], env[s.at] = value, position
    else:
        assert isinstance(s, Store), "a point of a walk is no part of a kernel"
        at_entry = _entry(s.buffer, s.indices, env, memory)
        array = memory[s.buffer.name]
        value = evaluate(s.value, env, memory)
        array[at_entry] = _combined(s.combine, array[at_entry], value)


def _entry(
    buffer: Buffer, indices: tuple[Expr, ...], env: Environment, memory: dict[str, Array]
) -> tuple[int, ...]:
    """Values of the indices of an access; raises IndexingError if one is outside of the buffer."""
    at = tuple(int(evaluate(i, env, memory)) for i in indices)
    for axis, (i, n) in enumerate(zip(at, memory[buffer.name].shape, strict=True)):
        if not 0 <= i < n:
            raise IndexingError(
                "codegen: interpret", buffer.name, got=f"{i} at axis {axis}", expected=f"0 to {n - 1}"
            )
    return at


def evaluate(e: Expr, env: Environment, memory: Mapping[str, Array]) -> Any:
    """The value of an expression, as a NumPy scalar of its dtype."""
    if isinstance(e, Const):
        return e.dtype.type(e.value)
    if isinstance(e, (Var, Local)):
        return env[e.name]
    if isinstance(e, Size):
        return np.asarray(env[e.name], f"i{e.dtype.itemsize}").view(e.dtype)[()]
    if isinstance(e, Load):
        return memory[e.buffer.name][_entry(e.buffer, e.indices, env, dict(memory))]
    if isinstance(e, Select):
        branch = e.then if evaluate(e.condition, env, memory) else e.other
        return evaluate(branch, env, memory)
    if isinstance(e, Cast):
        return converted(np.asarray(evaluate(e.operand, env, memory)), e.dtype)[()]
    assert isinstance(e, Apply)
    return applied(e.name, [evaluate(a, env, memory) for a in e.args], e.dtype)


def _combined(combine: str, old: Number, new: Number) -> Any:
    return new if combine == "assign" else SCALARS[COMBINE[combine]].body(old, new)
