"""Captured state: tensors, gradients and numbers from outside that each call reads anew or writes.

    def step(x): w.grad = x; w -= 0.1 * x    ->    graph(x, w) { ... return ..., w's new value, x }

Each is a *cell*. A tensor in a cell is an input of the graph; if it was written, its new value is an output,
which each call puts back. While the function is traced the cell holds a value without entries; when the trace
ends it holds again what it did before.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from iverson.autograd.mode import recording
from iverson.autograd.node import GradSlot, PausedLeaf
from iverson.core.aval import Aval
from iverson.core.dispatch import (
    Handle,
    Level,
    LevelValue,
    Wrapper,
    alias,
    cells,
    is_tracked,
    is_variable,
    levels,
    make_handle,
    rebind,
    slot_of,
    unwrap,
    value_of,
)
from iverson.core.entries import FULL, Bracket
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue, Params
from iverson.graph.ir.nodes import Argument, Value
from iverson.layouts import support_of


def contents(x: Handle | Wrapper) -> Any:
    """Value of a handle, or plain handle of a wrapper: what it stands for until it is written to."""
    return unwrap(x) if isinstance(x, Wrapper) else value_of(x)


def aval_of(x: LayoutValue | complex) -> Aval:
    """Aval of a handle, or of its value, as far as a trace relies on it."""
    value = value_of(x, x)
    support = support_of(np.asarray(value) if isinstance(value, np.generic) else value)
    return Aval(value.shape, value.dtype, FULL if isinstance(support, Bracket) else support)


def _is_written(cell: TensorCell, value: Value) -> bool:
    """True if the handle of a cell holds neither the value that the trace gave it nor the value before."""
    x = cell.now()
    return x is not None and getattr(value_of(x), "value", None) is not value and value_of(x) is not cell.held


def _nothing() -> None:
    """A reference to a handle that no longer exists."""


class TensorCell:
    """A handle that a trace takes in. One that dies with the traced call was a temporary of that call.

    held : its value before the trace.
    is_declared : whether it is known to outlive the traced call.
    constant : whether its value after the traced call is not recorded.
    """

    def __init__(self, x: Handle, *, is_declared: bool) -> None:
        self.is_declared = is_declared
        self._ref: Callable[[], Any] = ref(x)
        self.held, self._slot = value_of(x), slot_of(x)
        self._aval, self.is_tracked = aval_of(x), is_tracked(x)
        self.is_leaf = is_variable(x)
        self.constant = False

    def now(self) -> Any:
        """The handle; None if it no longer exists."""
        return self._ref()

    @property
    def was_read_before(self) -> bool:
        """True if ops on it before it was written are not in the trace: the cell was not declared, and held
        an untracked array or a value of a level around."""
        return not self.is_declared and not (self.is_tracked and not isinstance(self.held, LevelValue))

    def leave(self) -> None:
        """Treat the handle as if it no longer existed."""
        self._ref = _nothing

    def before(self) -> Any:
        """A new handle with the value before the trace."""
        return make_handle(self.held, *self._slot)

    def same_as(self, other: Cell) -> bool:
        """True if a cell of another trace is of the same handle."""
        return isinstance(other, TensorCell) and self._ref() is other._ref() is not None

    def restore(self) -> None:
        """Restore the value before the trace."""
        if (x := self._ref()) is not None:
            rebind(x, self.held, *self._slot)
        self.held = None

    def put(self, result: Handle) -> None:
        """Let the handle hold a result from now on; a leaf stays a leaf."""
        x: Any = self._ref()
        if self.is_leaf or self.constant:
            with recording(False):  # a leaf stays one
                x._become(make_handle(value_of(result)))
        else:
            x._become(result)

    def holds(self) -> bool:
        """True if the handle still is as it was traced: tracked or not, a leaf or not, of the same aval."""
        x = self._ref()
        return (
            x is not None
            and is_tracked(x) == self.is_tracked
            and is_variable(x) == self.is_leaf
            and aval_of(x) == self._aval
        )


class GradientCell:
    """The place where ``backward`` adds up the gradient of a leaf.

    is_read : whether the traced call reads the gradient from before it.
    """

    def __init__(self, place: GradSlot | PausedLeaf) -> None:
        self._ref = ref(place)
        self.held = place.gradient
        self._aval = None if self.held is None else aval_of(self.held)
        self.is_read = False
        self.constant = False

    @property
    def is_gone(self) -> bool:
        """True if the place no longer exists."""
        return self._ref() is None

    def same_as(self, other: Cell) -> bool:
        """True if a cell of another trace is of the same place."""
        return isinstance(other, GradientCell) and self._ref() is other._ref() is not None

    def is_of(self, place: GradSlot | PausedLeaf) -> bool:
        """True if this is the cell of ``place``."""
        return self._ref() is place

    def now(self) -> Any:
        """The gradient, as a handle, or None."""
        place = self._ref()
        return None if place is None else place.gradient

    def restore(self) -> None:
        """Restore the value before the trace."""
        if (place := self._ref()) is not None:
            place.gradient = self.held
        self.held = None

    def put(self, gradient: Handle | None) -> None:
        """Replace the gradient in the place, or remove it."""
        if (place := self._ref()) is not None:
            if (around := cells()) is not None:
                around.gradient(place, read=False)
            is_cut = self.constant and gradient is not None
            place.gradient = make_handle(value_of(gradient)) if is_cut else gradient

    def holds(self) -> bool:
        """True if the place still exists and, if its gradient was read, that has the same aval."""
        if self.is_gone or not self.is_read:
            return not self.is_gone
        x = self.now()
        return (None if x is None else aval_of(x)) == self._aval


class NumberCell:
    """A Python number that is read anew at each call."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def same_as(self, other: Cell) -> bool:
        """True if a cell of another trace reads the same number."""
        return isinstance(other, NumberCell) and _reads(self._read) == _reads(other._read)

    def now(self) -> Any:
        """The number, as a handle."""
        return make_handle(np.array(self._read(), np.float64))


def _reads(function: Any) -> tuple[Any, ...]:
    """Identity of a function that reads a number: its code, and the objects that it closes over."""
    return function.__code__, *(id(c.cell_contents) for c in function.__closure__ or ())


Cell = TensorCell | GradientCell | NumberCell


class OutsideCells:
    """The cells of a derivative: ops of users' rules on tracked tensors from outside are written down too.

    Tensors that these rules write are cells of the next level around it that has cells, if any.
    """

    def __init__(self, level: Level) -> None:
        self.level: Any = level

    def bind(self, op: Op, args: tuple[LayoutValue | complex, ...], params: Params) -> Any:
        """See `Level.bind`; the op is on tracked tensors from outside."""
        return self.level.bind(op, args, params)

    def reading(self, args: Sequence[Argument]) -> None:
        """Note the arguments of an op on arrays from outside alone: its result is a constant of the trace."""
        for x in args:
            if isinstance(x, Handle | Wrapper) and not isinstance(value_of(unwrap(x)), LevelValue):
                self.level.note(x, contents(x))

    def inside(self, x: Handle) -> Any:
        """A handle with the value that stands for ``x`` in this trace.

        It is ``x`` itself if its value does not come from around the trace.
        """
        return self.level.variable_of(x) if self._is_around(x) else x

    def _is_around(self, x: Handle) -> bool:
        """True if a handle holds an array, or a value of a level around this one."""
        value = value_of(x)
        if not isinstance(value, LevelValue):
            return True
        active_levels = levels()
        return value._level in active_levels[: active_levels.index(self.level)]

    def rebinding(self, x: Handle) -> None:
        """Tell the cells of the next level around it that ``x`` is about to get another value."""
        if (around := self._around()) is not None:
            around.rebinding(x)

    def gradient(self, place: GradSlot | PausedLeaf, *, read: bool) -> None:
        """Tell the cells of the next level around it that the gradient in ``place`` is about to be used.

        read : whether it is read; if not, it is replaced.
        """
        if (around := self._around()) is not None:
            around.gradient(place, read=read)

    def _around(self) -> Any:
        """The cells of the next level around this one that has any."""
        active_levels = levels()
        outer = (level.cells for level in reversed(active_levels[: active_levels.index(self.level)]))
        return next((level_cells for level_cells in outer if level_cells is not None), None)


class TraceCells(OutsideCells):
    """The cells of a trace.

    again : untracked handles that the function writes: ops on them before that were not written down, so
        that another trace has to take them in from its start.
    guards : further conditions under which the trace may be used.
    """

    def __init__(self, level: Level) -> None:
        super().__init__(level)
        self.again: list[Any] = []
        self.guards: list[Callable[[], bool]] = []
        self._tensors: list[tuple[TensorCell, Any]] = []
        self._gradients: list[tuple[GradientCell, Any]] = []
        #: The last cell of what is, or was, at this address.
        self._at: dict[int, TensorCell | GradientCell] = {}
        self._numbers: list[tuple[NumberCell, Any]] = []

    # --- while the function runs -------------------------------------------------------------------

    def take(self, x: Handle) -> Any:
        """Make ``x``, a handle from outside, an input of the trace; returns ``x``.

        Until the trace ends, ``x`` holds the value of that input, which each call reads anew.
        """
        if self._is_around(x):
            value = self._cell(x, is_declared=True)
            rebind(x, value_of(self.level.handle(value)))
        return x

    def number(self, read: Callable[[], float]) -> Any:
        """A handle for a Python number, which each call reads anew."""
        value = Value(Aval((), np.dtype(np.float64)))
        self._numbers.append((NumberCell(read), value))
        return self.level.handle(value)

    def rebinding(self, x: Handle) -> None:
        """Make a cell for the handle ``x``, just before ``x`` gets another value in the traced function.

        With the cell, each call reads the present value of ``x`` as an input and writes the new value to
        ``x``. Nothing is done if ``x`` has a cell already or does not come from outside the trace.
        """
        if not self._is_around(x):
            return
        cell = self._at.get(id(x))
        if cell is None or cell.now() is not x:
            self._cell(x, is_declared=False)

    def gradient(self, place: GradSlot | PausedLeaf, *, read: bool) -> None:
        """Make a cell for ``place``, just before its gradient is used in the traced function.

        Nothing is done if it has one already.

        read : whether the gradient is read; if not, it is replaced.
        """
        previous_cell = self._at.get(id(place))
        if isinstance(previous_cell, GradientCell) and previous_cell.is_of(place):
            return
        super().gradient(place, read=read)  # what it holds here is then what it holds there
        cell = GradientCell(place)
        cell.is_read = read
        value = None
        if read and cell.held is not None and self._is_around(cell.held):
            value = Value(aval_of(cell.held))
            place.gradient = self.level.handle(value)
        self._at[id(place)] = cell
        self._gradients.append((cell, value))

    def _cell(self, x: Handle, *, is_declared: bool) -> Value:
        """Make a cell for a handle, and return its value in the graph, which earlier reads have too."""
        cell = TensorCell(x, is_declared=is_declared)
        value: Value = self.level.taken(x)
        self._at[id(x)] = cell
        self._tensors.append((cell, value))
        return value

    # --- when it has run ---------------------------------------------------------------------------

    def inputs(self) -> list[tuple[Value, Cell]]:
        """Inputs of the graph, each with its cell.

        A handle that no longer exists was a temporary: its value is added to the captured values of the
        trace, or to its constants.
        """
        if any(not c.is_declared and c.now() is not None for c, _ in self._tensors):
            gc.collect()  # a cycle may keep a temporary alive
        pairs: list[tuple[Value, Cell]] = []
        for cell, value in self._tensors:
            if cell.now() is None and (cell.is_tracked or isinstance(cell.held, LevelValue)):
                self.level.captured.append((value, cell.before()))
            elif cell.now() is None:
                self.level.constants.append((value, cell.held))
            else:
                pairs.append((value, cell))
        pairs += [(value, cell) for cell, value in self._gradients if value is not None]
        return [*pairs, *((value, cell) for cell, value in self._numbers)]

    def written(self) -> list[tuple[Cell, Any]]:
        """Cells whose values the function changed, each with a handle of the new value.

        The handle is None for a gradient that was removed. Handles that another trace has to take in from its
        start are added to ``again``.
        """
        changes: list[tuple[Cell, Any]] = []
        for cell, value in self._tensors:
            if _is_written(cell, value):
                x = cell.now()
                if cell.was_read_before:
                    self.again.append(x)
                cell.constant = not is_tracked(x) and self.level.says_constant(x)
                changes.append((cell, alias(x)))
        for place, value in self._gradients:
            x = place.now()
            is_unchanged = x is place.held or (x is not None and getattr(value_of(x), "value", None) is value)
            if not place.is_gone and not is_unchanged:
                place.constant = x is not None and not is_tracked(x)
                changes.append((place, x))
        return changes

    def kept(self) -> list[TensorCell | GradientCell]:
        """The cells of tensors and gradients whose handles and places still exist."""
        tensors = [c for c, _ in self._tensors if c.now() is not None]
        return [*tensors, *(c for c, _ in self._gradients if not c.is_gone)]

    def leave_temporaries(self) -> None:
        """Leave handles that the function made, in this trace or one before it, as they are.

        They hold values of the trace, which nobody can use after it.
        """
        temporaries = [c for c, value in self._tensors if c.was_read_before and _is_written(c, value)]
        if temporaries:  # those of traces before were taken in, and are not written in this one
            temporaries += [c for c, value in self._tensors if c.is_declared and not _is_written(c, value)]
        for cell in temporaries:
            cell.leave()

    def restore(self) -> None:
        """Restore the values of all cells before the trace."""
        for cell, _ in self._tensors:
            cell.restore()
        for place, _ in self._gradients:
            place.restore()


__all__ = ["Cell", "GradientCell", "NumberCell", "OutsideCells", "TensorCell", "TraceCells", "aval_of"]
