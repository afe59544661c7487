"""Buffers of a program in the making, and the equations that a run of it carries out, for counts of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.codegen.nests.nodes import Buffer
from iverson.codegen.programs import View, step_builders, whole
from iverson.codegen.programs.nodes import Step
from iverson.core.aval import Aval
from iverson.core.protocols import DType, NDArray
from iverson.expr.nodes import Const
from iverson.graph.ir.nodes import Equation, Value

Array = np.ndarray[Any, Any]
#: What counts runs of steps.
COUNTER = Aval((), np.dtype(np.int64))


@dataclass(frozen=True)
class Times:
    """Number of runs in a call: ``each`` for every count of the counter, or in all if there is no counter."""

    each: int = 1
    counter: Value | None = None

    def of(self, counts: Mapping[Value, NDArray]) -> int:
        """The number of runs, from the entries of the counters."""
        return self.each if self.counter is None else self.each * int(counts[self.counter])


class Memory:
    """Buffers, the arrays of those with role const, and the equations that are carried out.

    done : the equations, each with the number of its runs.
    again : equations that are carried out once more, where their results are read.
    first : steps before all others. counters : values that count runs of steps, and their views.
    """

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.held: dict[str, Array] = {}
        self.first: list[Step] = []
        self.done: list[tuple[Equation, Times]] = []
        self.again: list[tuple[Equation, Times]] = []
        self.counters: list[tuple[Value, View]] = []
        self._loops = 0
        self._kept: dict[int, View] = {}
        self._zeros: dict[Any, View] = {}

    def buffer(self, role: str, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        """A new buffer."""
        self.buffers.append(Buffer(f"{role}{len(self.buffers)}", dtype, shape, role))
        return self.buffers[-1]

    def temp(self, dtype: DType, shape: tuple[int, ...]) -> View:
        """All of a new temp."""
        return whole(self.buffer("temp", dtype, shape))

    def variable(self) -> str:
        """A name for the variable of a loop."""
        self._loops += 1
        return f"t{self._loops}"

    def hold(self, array: Array, shape: tuple[int, ...] | None = None) -> View:
        """View of an array that the program holds.

        shape : that of the array, which may be in symbolic numbers.
        """
        view = self._kept.get(id(array))
        if view is None:
            shape = array.shape if shape is None else shape
            view = self._kept[id(array)] = whole(self.buffer("const", array.dtype, shape))
            self.held[view.buffer.name] = array
        return view

    def zeros(self, dtype: DType, shape: tuple[int, ...]) -> View:
        """View of zeros, filled before all other steps."""
        key = np.dtype(dtype), shape
        if key not in self._zeros:
            self._zeros[key] = self.temp(dtype, shape)
            self.first.append(filled(self._zeros[key]))
        return self._zeros[key]

    def counted(self) -> tuple[Times, Step]:
        """A new counter, and the step that counts one more."""
        value = Value(COUNTER)
        place = whole(self.buffer("out", value.dtype, ()))
        self.counters.append((value, place))
        self.first.append(filled(place))
        increment = Const(1, value.dtype)
        return Times(1, value), step_builders.elementwise(place, increment, {}, combine="sum")


def filled(out: View) -> Step:
    """Step that fills a view with zeros."""
    return step_builders.elementwise(out, Const(out.buffer.dtype.type(0).item(), out.buffer.dtype), {})


__all__ = ["COUNTER", "Memory", "Times", "filled"]
