"""Tracing: a function of tensors runs once on values without entries and is written down as a graph.

A `Trace` is a level. A handle in it holds a `Traced` value, which has a shape, dtype and support; ops on it
are written down as equations. All that is above ops works as on entries: methods, layouts, masks, and
gradients, which record nodes and call rules whose ops are written down too. So the gradient of a traced
function is traced by taking it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar
from weakref import ref

import numpy as np

from iverson.autograd.mode import is_constant, is_grad_enabled, recording, reset_constant, set_constant
from iverson.autograd.node import differentiated, line_of, next_number, user_call
from iverson.core.aval import Aval, has_shape
from iverson.core.dispatch import (
    Draw,
    Handle,
    Level,
    LevelValue,
    Wrapper,
    alias,
    has_entries,
    is_tracked,
    is_variable,
    level_of,
    make_handle,
    slot_of,
    unwrap,
    value_of,
    with_cells,
)
from iverson.core.dtypes import is_inexact
from iverson.core.entries import FULL, Box, Bracket, Nothing, Stored
from iverson.core.errors import GraphError
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue, Params
from iverson.core.shapes import Shape
from iverson.core.table import TABLE
from iverson.graph.ir.dtype_inference import without_shape
from iverson.graph.ir.entry_ops import index_array, stored_on
from iverson.graph.ir.nodes import UNDEFINED, AnyOperand, Equation, Graph, Operand, Undefined, Value
from iverson.graph.ir.operations import FunctionCall, function_op, random
from iverson.graph.ir.pattern_binding import unknown
from iverson.graph.ir.regions import closed
from iverson.graph.tracing.captured_state import TraceCells, aval_of
from iverson.kernels import deferred_patterns
from iverson.kernels.deferred_patterns import UNKNOWN, origin_of, origins, stored_once
from iverson.layouts import Layout, Pattern, distinct, register, support_of
from iverson.layouts.pattern_symbols import PatternRead, StandIn, as_stand_ins, handed_out
from iverson.ops.numbers.selection_ops import TAKEN_APART, begins, scatters_boxes

T = TypeVar("T")

_NUMBERS = (bool, int, float, complex)


class Traced(LevelValue):
    """The value of a handle in a trace: a value of the graph that is being made."""

    __slots__ = ("value",)

    def __init__(self, level: Level, value: Value) -> None:
        super().__init__(level)
        self.value = value

    @property
    def shape(self) -> tuple[int, ...]:
        return handed_out(self.value.aval.shape)  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.aval.dtype

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return isinstance(self.value.aval.support, Stored)

    @property
    def pattern(self) -> Any:
        """The pattern that the value stores; None where it is not known to be sparse."""
        return getattr(self.value.aval.support, "pattern", None)

    @property
    def stored(self) -> Any:
        """Pattern or `Origin` of the entries that eager code would store; None if dense."""
        return self._level.stored(self.value)  # type: ignore[attr-defined]

    def note_stored(self, stored: deferred_patterns.Stored) -> None:
        """See `LevelValue.note_stored`."""
        self._level.note_stored(self.value, stored)  # type: ignore[attr-defined]

    @property
    def may_select(self) -> bool:  # type: ignore[override]
        return isinstance(self.value.aval.support, Bracket)

    def __repr__(self) -> str:
        return f"Traced({self.value.aval!r})"


def is_stored(value: LayoutValue) -> bool:
    """True if a value is zero outside of a pattern."""
    return isinstance(aval_of(value).support, Stored)


def _remedy(value: Traced) -> str:
    """Advice what to use in place of the entries of a value, for an error."""
    if value.dtype.kind == "b" and value.shape:
        return (
            "how many entries a mask has is not known: keep the shape, with iverson.where(mask, x, 0) or "
            "iverson.masked_tensor(x, mask) in place of x[mask]"
        )
    advice = (
        "use iverson.where or iverson.cond for a choice, or pass what decides a branch or a shape "
        "as a Python value"
    )
    if value.dtype.kind in "iu":
        advice += "; n entries from a place k that is computed are iverson.take(x, k + iverson.arange(n))"
    return advice


def _no_entries(value: Traced) -> Any:
    level_of((value,))  # raises where it was kept after its end
    where = user_call()
    line = f" at {line_of(where)}" if where else ""
    raise GraphError(
        value._level.name,
        got=f"a read of the entries of a traced tensor ({value.value.aval!r}){line}",
        expected="functions of iverson: while a function is traced, a tensor has no entries",
        remedy=_remedy(value),
    )


register(
    Layout(
        name="traced",
        kind=Traced,
        to_strided=_no_entries,
        check=lambda value: None,
        support=lambda value: value.value.aval.support,
        buffers=lambda value: (),
        rebuild=lambda value, buffers: value,
        densify_warns=False,
    )
)


class Trace(Level):
    """A graph in the making: its equations, inputs, constants and captured tensors.

    cells_change : whether the pattern of a sparse value in a cell may be another one in each call.
    once : whether the graph is for one call: handles of levels around are captured with the values that they
        have now, and not read anew.
    stateful : whether tensors from outside that change from one run to the next are taken in: ops on tracked
        ones are written down, and writes are outputs (`captured_state`).
    captured : handles from outside that are inputs, each with its value in the graph: tracked handles that
        were read, and cells. Other arrays from outside are constants.
    read : references to handles from outside that are constants, each with its value, and whether it was
        tracked.
    is_differentiated : see `Level`; it becomes so by a tracked sparse tensor from outside.
    """

    __slots__ = (
        "_captured_from",
        "_cells_change",
        "_constant",
        "_counted",
        "_first",
        "_in_function",
        "_in_layout",
        "_known",
        "_once",
        "_origins",
        "_outer",
        "_outside",
        "_recording",
        "_stand_ins",
        "captured",
        "cells",
        "constants",
        "equations",
        "inputs",
        "read",
    )

    def __init__(
        self,
        name: str = "trace",
        *,
        stateful: bool = False,
        once: bool = False,
        cells_change: bool = False,
        is_differentiated: bool = False,
    ) -> None:
        super().__init__(name)
        self.is_differentiated = is_differentiated
        self._once, self._cells_change = once, cells_change
        self.cells: Any = TraceCells(self) if stateful else None
        self.inputs: list[Value] = []
        self.equations: list[Equation] = []
        self.constants: list[tuple[Value, Any]] = []
        self.captured: list[tuple[Value, Any]] = []
        self._captured_from: dict[Value, Any] = {}
        self.read: dict[Any, tuple[Any, Any, bool]] = {}
        self._known: dict[Any, Value] = {}
        #: Pattern or `Origin` of values whose support does not say which entries eager code stores.
        self._origins: dict[Value, Any] = {}
        #: For values with an origin, the value in the layout of eager code.
        self._in_layout: dict[Value, Value] = {}
        self._in_function = False
        self._stand_ins: dict[Value, Any] = {}
        self._first = next_number()  # nodes with larger ones are made while it runs
        self._outside: list[Any] = []  # keeps alive what `_known` tells apart by identity
        self._recording = stateful or is_grad_enabled()
        #: Values computed where the user said that they are constant; they are so wherever they are read.
        self._constant: set[Value] = set()

    def __enter__(self) -> Self:
        self._outer = set_constant(False)
        level = super().__enter__()
        self._counted = self.cells is not None
        with_cells.add(self._counted)
        return level

    def __exit__(self, *how: object) -> None:
        try:
            super().__exit__(*how)
        finally:
            reset_constant(self._outer)
            if self._counted:
                with_cells.add(-1)
            if isinstance(self.cells, TraceCells):
                self.cells.restore()
                self._known, self._outside = {}, []  # no array is kept alive by what was traced

    def input(self, aval: Aval, stored: deferred_patterns.Stored = None) -> Any:
        """A handle of a new input; ``stored`` says which entries of it eager code would store."""
        value = Value(aval)
        self.note_stored(value, stored)
        self.inputs.append(value)
        return self.handle(value)

    def stored(self, value: Value) -> Any:
        """Pattern or `Origin` of the entries that eager code would store of a value; None if dense."""
        origin = self._origins.get(value)
        return getattr(value.aval.support, "pattern", None) if origin is None else origin

    def note_stored(self, value: Value, stored: deferred_patterns.Stored) -> None:
        """Note the pattern or `Origin` of the entries of a value that eager code would store."""
        if stored is not None and stored is not getattr(value.aval.support, "pattern", None):
            self._origins[value] = stored

    def _outside_value(self, x: LayoutValue | complex, changes: bool = False) -> Value:
        """A new value for a handle from outside, or for its value.

        changes : whether its pattern may be another one in each call; then the value is on no pattern.
        """
        x_value = value_of(x, x)
        aval = x_value.value.aval if isinstance(x_value, Traced) else aval_of(x_value)
        origin = origin_of(x_value)
        if changes and origin is not None:
            aval, origin = Aval(aval.shape, aval.dtype), UNKNOWN
        value = Value(aval)
        self.note_stored(value, origin)
        return value

    def handle(self, value: Value) -> Any:
        """A handle that holds a value of this trace."""
        return make_handle(Traced(self, value))

    def operand(self, x: LayoutValue | complex | Undefined) -> Operand:
        """Operand of an equation for an argument: a number, or a value of this trace for a tensor."""
        x_value = value_of(x, x)
        if isinstance(x_value, Traced) and x_value._level is self:
            return self._detached(x_value.value) if self._constant and not is_constant() else x_value.value
        if type(x) in _NUMBERS or x is UNDEFINED:
            return x
        if isinstance(x_value, np.generic):  # what NumPy computes of arrays of rank 0
            return self.operand(np.asarray(x_value))
        is_recorded = self._recording and isinstance(x, Handle) and is_tracked(x)
        key = slot_of(x) if is_recorded else id(x_value)
        if isinstance(x, Handle) and not (is_recorded or isinstance(x_value, LevelValue)):
            self.note(x, x_value)
        if key not in self._known:
            value = self._known[key] = self._outside_value(x_value)
            self._outside.append(x_value)
            if is_recorded or isinstance(x_value, LevelValue):
                self.is_differentiated |= is_recorded and is_stored(x_value)
                # A captured value keeps no temporary alive, which would be a cell.
                inner = self.cells is not None and isinstance(x_value, LevelValue) and isinstance(x, Handle)
                if inner and not self._once:
                    self._captured_from[value] = ref(x)
                self.captured.append((value, alias(x) if inner else x))
            else:
                if type(support_of(x_value)) is Bracket:  # it stays as it is
                    value = self._known[key] = Value(_selecting(value.aval))
                self.constants.append((value, x_value))
        return self._known[key]

    @contextmanager
    def knowing(self, x: LayoutValue | complex, operand: Handle) -> Iterator[None]:
        """See `Level.knowing`."""
        stand_in, new_keys = value_of(operand), []
        if isinstance(stand_in, Traced) and stand_in._level is self:
            self._outside.append(value_of(x, x))
            self._stand_ins[stand_in.value] = _as_read(x)
            keys = *([slot_of(x)] if is_tracked(x) else []), id(value_of(x, x))
            new_keys = [k for k in keys if self._known.setdefault(k, stand_in.value) is stand_in.value]
        try:
            yield
        finally:
            for key in new_keys if isinstance(x, Handle) and has_entries(x) else ():
                self._known.pop(key, None)

    def note(self, x: Handle | Wrapper, held: LayoutValue) -> None:
        """Note that the value of a handle from outside is read, as a constant."""
        if (id(x), id(held)) not in self.read:
            self.read[id(x), id(held)] = ref(x), held, is_tracked(unwrap(x))

    def taken(self, x: Handle) -> Value:
        """Value that stands for ``x``, an eager handle that is an input.

        If ``x`` is tracked, it is the value that earlier reads of it have, and ``x`` is not captured any
        more.
        """
        if not is_tracked(x):
            return self._outside_value(x, self._cells_change)
        self.is_differentiated |= is_stored(value_of(x))
        value = self._known.get(slot_of(x))
        if value is None:
            value = self._known[slot_of(x)] = self._outside_value(x, self._cells_change)
        self.captured = [(v, y) for v, y in self.captured if v is not value]
        return value

    def variable_of(self, x: Handle) -> Any:
        """See `Level.variable_of`: the new handle holds the value that this trace has for the handle."""
        x_value = value_of(x)
        if isinstance(x_value, Traced) and x_value._level is self:
            return x
        return make_handle(Traced(self, self.operand(x)), *slot_of(x))

    def bind(self, op: Op, args: tuple[LayoutValue | complex, ...], params: Params) -> Any:
        """The values that a new equation gives to the op's results."""
        operands = tuple(map(self.operand, args))
        if self._origins and op is not stored_on:
            operands = tuple(map(self._as_stored, operands))
        avals = [x.aval if type(x) is Value else x for x in operands]
        aval = op.infer(*avals, **params) if all(map(has_shape, avals)) else without_shape(op, avals, params)
        result_avals: tuple[Aval, ...] = aval if op.multiple else (aval,)
        supports = [type(x.aval.support) for x in operands if type(x) is Value]
        selects = Bracket in supports and op.name not in TAKEN_APART
        selects = selects or begins(op, params) or (Box in supports and scatters_boxes(op))
        if _have_stand_ins((*avals, *result_avals), params) and Stored not in supports:
            result_avals = _with_stand_ins(result_avals, avals, op, params)
        results = tuple([Value(_selecting(a) if selects else a) for a in result_avals])
        self.equations.append(
            Equation(op, operands, dict(params), results, differentiated.get() or user_call())
        )
        self._note_constant(results)
        if self._origins or Stored in supports or Nothing in supports or op.entry_map.converts:
            self._note_origins(op, args, operands, params, results)
        outputs = tuple([Traced(self, v) for v in results])
        return outputs if op.multiple else outputs[0]

    def _as_stored(self, x: Operand) -> Operand:
        """An operand on the pattern that eager code has for it, if known: outside of it are strong zeros."""
        if x not in self._origins:
            return x
        if x not in self._in_layout:
            self._in_layout[x] = x
            with suppress(PatternRead):
                pattern = stored_once(self._origins[x])
                if isinstance(pattern, Pattern) and distinct(pattern) is not Traced(self, x).pattern:
                    result = self.bind(stored_on, (Traced(self, x),), {"pattern": distinct(pattern)})
                    self._in_layout[x] = result.value
        return self._in_layout[x]

    def _note_origins(
        self,
        op: Op,
        args: tuple[LayoutValue | complex, ...],
        operands: Sequence[AnyOperand],
        params: Params,
        results: Sequence[Value],
    ) -> None:
        """Note which entries of results eager code would store, where their supports do not say it."""
        avals = [x.aval for x in operands if type(x) is Value]
        beyond = any(x in self._origins for x in operands if type(x) is Value)
        dense_axes = {len(a.shape) - a.support.pattern.ndim for a in avals if isinstance(a.support, Stored)}
        for v, origin in zip(results, origins(op, args, params, len(results)), strict=True):
            claims = op.entry_map.superset or op.entry_map.converts or len(dense_axes) > 1
            if beyond or claims or not isinstance(v.aval.support, Stored):
                self.note_stored(v, origin)

    def says_constant(self, x: Handle) -> bool:
        """True if a handle holds an array, or was computed where the user said that results are constant."""
        x_value = value_of(x)
        return (
            not isinstance(x_value, Traced) or x_value._level is not self or x_value.value in self._constant
        )

    def _note_constant(self, results: Sequence[Value]) -> None:
        """Note results that are computed where the user said that they are constant."""
        if is_constant():
            self._constant.update(results)

    def _detached(self, value: Value) -> Value:
        """Value to read for a value: itself, or its detached copy if it was computed as a constant."""
        if value not in self._constant or not is_inexact(value.dtype):
            return value
        result = Value(value.aval)
        self.note_stored(result, self.stored(value))
        self.equations.append(Equation(TABLE["detached"], (value,), {}, (result,), user_call()))
        return result

    def function(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Write a call of a `Function` as one equation, so that its derivative is the user's.

        Returns the results; None inside of another such call, where ops are written down one by one.
        """
        if self._in_function:
            return None
        call = FunctionCall(function, args)
        operands = list(map(self.operand, call.handles))
        # Each argument is an input of its own, also of one value, or of what forward does not read.
        body_inputs = [Value(x.aval if isinstance(x, Value) else aval_of(x)) for x in operands]
        for v, x in zip(body_inputs, call.handles, strict=True):
            self.note_stored(v, origin_of(x))
        constants = {v for v, _ in self.constants}
        inputs = [
            alias(h) if x in constants else self.handle(v)
            for h, x, v in zip(call.handles, operands, body_inputs, strict=True)
        ]
        self._in_function = True
        try:
            with self.region() as equations:
                results = call(inputs)
                outputs = list(map(self.operand, results))
        finally:
            self._in_function = False
        body = closed(equations, outputs, self.constants, body_inputs)
        result_values = tuple([Value(Aval(x.shape, x.dtype)) for x in results])
        for v, x in zip(result_values, results, strict=True):
            self.note_stored(v, origin_of(x))
        params = {"name": function.__name__, "call": call, "body": body}
        operands += body.inputs[len(body_inputs) :]  # what forward reads besides
        around = {v: _as_read(x) for v, x in self.captured if isinstance(x, Handle)}
        call.around = [around.get(v) or self._stand_ins.get(v) for v in body.inputs[len(body_inputs) :]]
        self.equations.append(Equation(function_op, tuple(operands), params, result_values, user_call()))
        self._note_constant(result_values)
        return call.packed(list(map(self.handle, result_values)))

    def index_array(self, pattern: Pattern, axis: int) -> Any:
        """Index array of a pattern, by an equation, if inputs of the trace bind the pattern; else None."""
        params = {"pattern": pattern, "axis": axis}
        if unknown(Graph((), (Equation(index_array, (), params, ()),), ()), self.inputs):
            return None
        return make_handle(self.bind(index_array, (), params))

    def drawn(self, draw: Draw) -> Any:
        """An equation that draws when the graph runs."""
        value = Value(Aval(draw.shape, draw.dtype))
        self.equations.append(Equation(random, (), {"draw": draw}, (value,), user_call()))
        return self.handle(value)

    @contextmanager
    def region(self) -> Iterator[list[Equation]]:
        """A block whose equations go to a new list, which is yielded, and not to the graph."""
        outer = self.equations, self._in_layout
        self.equations, self._in_layout = [], {}
        try:
            yield self.equations
        finally:
            self.equations, self._in_layout = outer

    def drop_temporaries(self) -> None:
        """Make constants of leaves that the traced function made and that no longer exist.

        Handles of levels around that still exist are captured themselves: each call reads them anew.
        """
        captured, self.captured = self.captured, []
        captured.reverse()
        while captured:
            value, x = captured.pop()
            where = self._captured_from.get(value)
            if where is not None and (handle := where()) is not None and value_of(handle) is value_of(x):
                x = handle
            if isinstance(x, Handle) and is_variable(x) and slot_of(x)[0].number > self._first:
                x_value, where = value_of(x), ref(x)
                del x
                if (x := where()) is None:
                    self.constants.append((value, x_value))
                    continue
            self.captured.append((value, x))

    def graph(self, outputs: Sequence[Handle | Undefined]) -> Graph:
        """The graph of all that was written down, with these handles as outputs.

        Captured handles are inputs after the others.
        """
        results = tuple(map(self.operand, outputs))
        inputs = (*self.inputs, *(v for v, _ in self.captured))
        return Graph(inputs, tuple(self.equations), results, tuple(self.constants))

    def rewritten(self, outputs: Sequence[Handle | Undefined]) -> Graph:
        """The `graph` of a trace in which another graph was run again.

        Raises GraphError if a `Function` in it read a tensor that it did not read before.
        """
        if self.captured:
            raise GraphError(
                self.name,
                got="a Function that reads a tensor which it did not read when it was traced",
                expected="forward to read the same tensors from around it in each run",
                remedy="make an argument of a tensor that forward reads from around it",
            )
        return self.graph(outputs)


def _as_read(x: LayoutValue | complex) -> Any:
    """Identity of a tensor from outside: a reference to its handle, or, for one of a level, its value."""
    return ref(x) if isinstance(x, Handle) and has_entries(x) else value_of(x, x)


def _have_stand_ins(avals: Sequence[Aval | complex], params: Params) -> bool:
    """True if an extent, or a parameter ``shape``, has a number that stands for any number of entries."""
    for x in avals:  # each equation of each trace comes here: no function is entered
        if isinstance(x, Aval) and type(x.shape) is tuple and StandIn in map(type, x.shape):
            return True
    return StandIn in map(type, params.get("shape") or ())


def _with_stand_ins(
    results: tuple[Aval, ...], operands: Sequence[Aval | complex], op: Op, params: Params
) -> tuple[Aval, ...]:
    """Avals of results in which extents stand for any number of entries if they may follow from one.

    An op infers them as plain ints, or has a result in its cache that was inferred for another trace.
    """
    if any(isinstance(p, Pattern) for p in params.values()):
        return results
    shapes = [x.shape for x in operands if isinstance(x, Aval) and type(x.shape) is tuple]
    parameter = tuple(params.get("shape") or ())
    follows = any(StandIn in map(type, shape) for shape in (*shapes, parameter))

    def extents(plain: Shape) -> Shape:
        if not follows:
            return tuple(map(int, plain))
        if op is TABLE["index_basic"]:
            sources = iter(shapes[0])
            axes = [None if item is None else (next(sources), item) for item in params["key"]]
            source_extents = [
                1 if axis is None else axis[0] for axis in axes if axis is None or type(axis[1]) is slice
            ]
            pairs = zip(plain, (*source_extents, *sources), strict=True)
            return tuple([StandIn(n) if type(source) is StandIn else n for n, source in pairs])
        plain_extents = parameter if op.name in ("reshape", "broadcast_to") else (params.get("length", 1),)
        return as_stand_ins(plain, (*shapes, plain_extents))

    return tuple([Aval(extents(a.shape), a.dtype, a.support) if has_shape(a) else a for a in results])


def _selecting(aval: Aval) -> Aval:
    """Aval of a result that may hold a selection not yet made."""
    return Aval(aval.shape, aval.dtype, Bracket(None)) if aval.support is FULL else aval


def trace_flat(
    function: Callable[..., tuple[list[Handle], T]], avals: Sequence[Aval], name: str = "trace"
) -> tuple[Graph, list[Any], T]:
    """Trace a function of plain handles: its graph, the handles that it captured, and an extra result.

    function : returns the list of the outputs and the extra result.
    """
    with Trace(name) as level, recording(True):
        inputs = [level.input(a) for a in avals]
        outputs, extra = function(*inputs)
        graph = level.graph(outputs)
    return graph, [x for _, x in level.captured], extra
