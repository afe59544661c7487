"""Interpreter of programs: runs one step by step, on NumPy arrays; the oracle of `program_emission`.

Buffers that hold nothing yet hold nan or a large number here, so that a read before a write is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iverson.codegen.execution.routines import error_of
from iverson.codegen.nests import interpret
from iverson.codegen.programs.nodes import (
    Branch,
    Call,
    Nest,
    Number,
    Product,
    Program,
    Repeat,
    Step,
    Stop,
    View,
    extents,
    is_zero,
)
from iverson.core import dtypes
from iverson.core.protocols import DType

Array = np.ndarray[Any, Any]


def run(
    program: Program, arguments: Sequence[Array], places: Mapping[str, Array] | None = None
) -> tuple[Array, ...]:
    """The outputs, for arrays in the order of the in and inout buffers; inout ones are written.

    places : memory for temps, by name (default: of its own for each).
    Raises IndexingError for an index outside its buffer, LinearAlgebraError where a step stops the program.
    """
    memory = {name: np.ascontiguousarray(a) for name, a in program.constants.items()}
    memory |= {b.name: a for b, a in zip(program.of("in", "inout"), arguments, strict=True)}
    memory |= {b.name: np.full(extents(b), _nothing(b.dtype), b.dtype) for b in program.of("out", "temp")}
    memory |= places or {}
    with np.errstate(all="ignore"):
        _block(program.steps, memory, {})
    return tuple(memory[b.name] for b in program.of("out"))


def _nothing(dtype: DType) -> Any:
    return np.nan if dtypes.is_inexact(dtype) else True if dtype.kind == "b" else np.iinfo(dtype).max


def _block(steps: tuple[Step, ...], memory: dict[str, Array], at: dict[str, int]) -> None:
    for s in steps:
        if isinstance(s, Nest):
            arrays = {b.name: _array(v, memory, at) for b, v in zip(s.kernel.arguments, s.views, strict=True)}
            interpret.run(s.kernel, arrays, s.values)
        elif isinstance(s, Product):
            _product(s, memory, at)
        elif isinstance(s, Call):
            failed = s.routine.run([_array(v, memory, at) for v in s.views])
            if s.status is not None:
                _array(s.status, memory, at)[...] = failed
        elif isinstance(s, Stop):
            if _array(s.condition, memory, at).item():
                raise error_of(s.failure)
        elif isinstance(s, Branch):
            _block(s.then if _array(s.condition, memory, at).item() else s.other, memory, at)
        else:
            _repeat(s, memory, at)


def _repeat(s: Repeat, memory: dict[str, Array], at: dict[str, int]) -> None:
    count = 0
    while (s.trips is None or count < s.trips) and (s.when is None or _array(s.when, memory, at).item()):
        _block(s.body, memory, {**at, s.var: count})
        for a, b in s.swaps:
            memory[a.name], memory[b.name] = memory[b.name], memory[a.name]
        count += 1


def _product(s: Product, memory: dict[str, Array], at: dict[str, int]) -> None:
    lhs, rhs = (
        _array(v, memory, at).conj() if c else _array(v, memory, at)
        for v, c in zip((s.left, s.right), s.conjugate, strict=True)
    )
    out = _array(s.out, memory, at)
    result = np.matmul(lhs, rhs) * out.dtype.type(_scale(s.alpha, memory, at))
    if not is_zero(s.beta):
        result = result + out * out.dtype.type(_scale(s.beta, memory, at))
    out[...] = result


def _scale(x: Number | View, memory: dict[str, Array], at: dict[str, int]) -> Any:
    return _array(x, memory, at).item() if isinstance(x, View) else x


def _array(v: View, memory: dict[str, Array], at: dict[str, int]) -> Array:
    base = memory[v.buffer.name]
    flat = base.reshape(-1)[v.offset + sum(at[var] * by for var, by in v.moves) :]
    step = base.itemsize
    return np.lib.stride_tricks.as_strided(flat, v.shape, tuple(s * step for s in v.strides))


__all__ = ["run"]
