"""Ops that only graphs have: pullback regions, sums of cotangents, calls of Functions, draws and a few more.

All of them run as they stand (`iverson.graph.interpret`). A derivative is linear: without a defined cotangent
a region has no results, and a sum with one undefined side is its other side. Neither needs a zero or a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import numpy as np

from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.record import is_undefined
from iverson.core import dtypes
from iverson.core.aval import Aval, has_shape
from iverson.core.dispatch import (
    Draw,
    Handle,
    Operand,
    bind,
    is_tracked,
    level_of,
    levels,
    make_handle,
    rewrap,
    semantics_of,
    unwrap,
    value_of,
)
from iverson.core.entries import NOTHING
from iverson.core.errors import ArgumentError, GraphError
from iverson.core.op import Op, Rule
from iverson.core.protocols import DType, NDArray, Params, Shaped
from iverson.core.shapes import Shape
from iverson.core.table import LIBRARY, TABLE, USERS, F
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.derivative_interface import values_held, where_held
from iverson.graph.ir.entry_ops import STORED_OPS, index_array, stored_on
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import (
    UNDEFINED,
    Argument,
    Equation,
    Graph,
    Undefined,
    Value,
    subgraphs,
    values_of,
)
from iverson.layouts import CooPattern, Zero, to_strided


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class GraphOp(Op):
    """An op of graphs alone.

    evaluate : ``evaluate(args, **params)``: the results (a sequence) from handles, numbers and UNDEFINED.
    narrow : ``narrow(equation, read)``: the equation without results that are not read.
    takes_undefined : whether operands may be undefined.
    pure : whether its results depend on its operands alone, and it has no other effect.
    effect : whether it is run for what it does, also where nobody reads a result.
    """

    evaluate: Rule
    narrow: Rule | None = None
    takes_undefined: bool = True
    pure: bool = True
    effect: bool = False


def is_absent(x: Argument | None) -> bool:
    """True if a cotangent is `UNDEFINED` or a constant zero."""
    return x is UNDEFINED or (isinstance(x, Handle) and is_undefined(x))


def _add(args: Sequence[Argument]) -> tuple[Any, ...]:
    """Sum of the operands that are neither undefined nor zero; if none is, a zero or undefined."""
    terms = [x for x in args if not is_absent(x)]
    if not terms:
        return (next((x for x in args if x is not UNDEFINED), UNDEFINED),)
    return (terms[0] if len(terms) == 1 else F.add_n(*terms),)


def _add_abstract(*avals: Aval | Undefined) -> Aval:
    terms = [a for a in avals if not isinstance(a, Undefined)]
    return Aval(terms[0].shape, terms[0].dtype)


autograd_add = GraphOp(
    name="autograd_add", forward=None, abstract=_add_abstract, linear_in=((-1,),), evaluate=_add
)


def _pulled(args: Sequence[Argument], *, body: Graph, count: int, **_: Any) -> list[Any]:
    """Outputs of the body for ``count`` cotangents and its other inputs; undefined if all cotangents are."""
    cotangents = args[:count]
    if all(map(is_absent, cotangents)):
        return [UNDEFINED] * len(body.outputs)
    filled_cotangents = [
        make_handle(Zero(v.shape, v.dtype)) if x is UNDEFINED and has_shape(v) else x
        for x, v in zip(cotangents, body.inputs[:count], strict=True)
    ]
    return interpret(body, [*filled_cotangents, *args[count:]])


def _pulled_abstract(*_avals: Shaped | complex, body: Graph, **_: Any) -> tuple[Any, ...]:
    return tuple([None if x is UNDEFINED else x.aval for x in body.outputs])


def _narrow_pullback(equation: Equation, read: set[Value]) -> Equation:
    """The pullback with the results that are read alone, and the operands that these need."""
    params = dict(equation.params)
    at = [k for k, v in enumerate(equation.results) if v in read]
    body: Graph = params["body"]
    count = params["count"]
    body = dead_code(replace(body, outputs=tuple(body.outputs[k] for k in at)))
    reads = set(values_of(body.outputs)).union(*(values_of(e.operands) for e in body.equations))
    inputs = [k for k, v in enumerate(body.inputs) if k < count or v in reads]
    params["body"] = replace(body, inputs=tuple(body.inputs[k] for k in inputs))
    operands = tuple(equation.operands[k] for k in inputs)
    return replace(equation, operands=operands, params=params, results=tuple(equation.results[k] for k in at))


grad_of = GraphOp(
    name="grad_of",
    forward=None,
    abstract=_pulled_abstract,
    multiple=True,
    evaluate=_pulled,
    narrow=_narrow_pullback,
)


def _narrow_branch(equation: Equation, read: set[Value]) -> Equation:
    flag, *operands = equation.operands
    narrowed = _narrow_pullback(replace(equation, operands=tuple(operands)), read)
    return replace(narrowed, operands=(flag, *narrowed.operands))


def _taken(args: Sequence[Argument], **params: Any) -> list[Any]:
    return _pulled(args[1:], **params) if value_of(args[0]) else [UNDEFINED] * len(params["body"].outputs)


#: A `grad_of` region under a flag that is true if any of its cotangents is defined.
when = GraphOp(
    name="when",
    forward=None,
    abstract=_pulled_abstract,
    multiple=True,
    evaluate=_taken,
    narrow=_narrow_branch,
)

#: Flag that is true if any operand is defined, which only a call tells.
defined = GraphOp(
    name="defined",
    forward=None,
    abstract=lambda *_: Aval((), np.dtype(bool)),
    evaluate=lambda args: [make_handle(np.asarray(not all(map(is_absent, args))))],
)


def _filled(args: Sequence[Argument], *, shape: Shape, dtype: DType) -> list[Any]:
    return [make_handle(Zero(shape, dtype)) if args[0] is UNDEFINED else args[0]]


#: A cotangent, zero where it is undefined.
defined_or_zero = GraphOp(
    name="defined_or_zero",
    forward=None,
    abstract=lambda *_, shape, dtype: Aval(shape, dtype),
    evaluate=_filled,
)


class FunctionCall:
    """A call of a custom `Function`: from plain handles for its tensors to those of its results.

    handles : the tensors of this call.
    around : the operands of the call after these, which forward reads from outside: references to tensors,
        or the values of those of a level around; None for an unknown one.
    """

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self.function = function
        self._at = [k for k, a in enumerate(args) if isinstance(a, Operand)]
        self._args = [None if k in self._at else a for k, a in enumerate(args)]
        self._like = [semantics_of(args[k]) for k in self._at]
        self._several = False
        self._results: list[Any] = []
        self.around: list[Any] = []
        self.handles = [unwrap(args[k]) for k in self._at]

    def __call__(self, handles: Sequence[Handle]) -> list[Any]:
        """Plain handles of the results that are not None."""
        args = list(self._args)
        for k, like, handle in zip(self._at, self._like, handles, strict=True):
            args[k] = rewrap(like, handle)
        out = self.function.apply(*args)
        self._several = isinstance(out, tuple)
        results = out if self._several else (out,)
        self._results = [None if r is None else (semantics_of(r),) for r in results]
        return [unwrap(r) for r in results if r is not None]

    def packed(self, handles: Sequence[Handle]) -> Any:
        """Return value of ``apply``, from plain handles for its results."""
        iterator = iter(handles)
        results = tuple(None if like is None else rewrap(like[0], next(iterator)) for like in self._results)
        return results if self._several else results[0]


def _called(args: Sequence[Handle], **params: Any) -> Sequence[Any]:
    """Results of forward. Its body computes them, or the user's code where the call is recorded, written
    down for other shapes or batched: only that code gives the derivative."""
    call, body = params["call"], params["body"]
    arguments, around = args[: len(call.handles)], args[len(call.handles) :]
    recorded = is_grad_enabled() and any(map(is_tracked, arguments))
    level = level_of(value_of(x, x) for x in args)
    alike = all(has_shape(x) and x.shape == v.shape for x, v in zip(args, body.inputs, strict=True))
    if not recorded and alike and (level is None or level.examples() is None):
        with recording(False):
            return interpret(body, args) if level is None else bind(function_op, tuple(args), params)
    with ExitStack() as blocks:
        for reference, operand in zip(call.around, around, strict=True):
            x = reference() if isinstance(reference, ref) else reference
            if x is None:
                aval = Aval(operand.shape, operand.dtype)
                raise GraphError(
                    f"{call.function.__name__}.apply",
                    got=f"a derivative or a batch of a call whose forward reads {aval!r}, which the function "
                    "around it computes or writes, neither as an argument nor in a closure",
                    expected="that in an argument, or in a variable that the methods close over",
                    remedy="make it an argument of the Function",
                )
            for active_level in levels():
                blocks.enter_context(active_level.knowing(x, operand))
        return list(call(arguments))


function_op = GraphOp(
    name="function",
    forward=None,
    abstract=_pulled_abstract,
    multiple=True,
    evaluate=_called,
    takes_undefined=False,
    pure=False,
)


def _random(_args: Sequence[Argument], *, draw: Draw) -> list[Any]:
    return [draw()]


#: Random entries, drawn when the graph runs.
random = GraphOp(
    name="random",
    forward=None,
    abstract=lambda *, draw: Aval(draw.shape, draw.dtype),
    evaluate=_random,
    takes_undefined=False,
    pure=False,
)


def _mended(args: Sequence[Argument], *, finite: Graph, again: Graph) -> list[Any]:
    out, looked_at, *operands = args
    (fine,) = interpret(finite, [looked_at])
    return [out] if value_of(fine) else interpret(again, operands)


#: ``mended(a @ b, x, ...)``: the product without the terms of which a selection leaves out a factor, so that
#: an inf or nan across from that is not multiplied with its zero. It is made ``again``, from the operands
#: after x, if x is not ``finite``.
mended = GraphOp(
    name="mended",
    forward=None,
    abstract=lambda out, *_, **__: Aval(out.shape, out.dtype),
    evaluate=_mended,
    takes_undefined=False,
)


def _last_writers(args: Sequence[Argument], *, shape: tuple[int, ...]) -> list[Any]:
    indices = [to_strided(value_of(x, x)) for x in args]
    last = np.empty(shape, np.int64)
    last[tuple(indices)] = np.arange(len(indices[0]))
    return [make_handle(last[tuple(indices)])]


#: For each place that index arrays (of rank 1) name in an array of this shape, the number of the last that
#: names it: the same number for all of them. What nobody names is neither written nor read.
last_writers_op = GraphOp(
    name="last_writers",
    forward=None,
    abstract=lambda *indices, shape: Aval(indices[0].shape, np.dtype(np.int64)),
    evaluate=_last_writers,
    takes_undefined=False,
)


def last_writers(*indices: Handle | NDArray, shape: tuple[int, ...]) -> Any:
    """Apply `last_writers_op` to handles and arrays."""
    return bind(last_writers_op, indices, {"shape": shape})


def _product_at(args: Sequence[Handle]) -> list[Any]:
    a, b, *indices = args
    at = np.stack([to_strided(value_of(x, x)) for x in indices])
    return [F.sampled_product(a, b, pattern=CooPattern((a.shape[0], b.shape[1]), at, False))]


#: ``product_at(a, b, i, j)``: the entries ``(a @ b)[i, j]`` of a product of matrices, at index arrays.
product_at = GraphOp(
    name="product_at",
    forward=None,
    abstract=lambda a, b, i, _j: Aval(i.shape, dtypes.result_type(a, b)),
    evaluate=_product_at,
    takes_undefined=False,
)


#: The ops of graphs by name.
OPERATIONS: dict[str, Op] = {
    op.name: op
    for op in (
        autograd_add,
        grad_of,
        when,
        defined,
        defined_or_zero,
        function_op,
        random,
        mended,
        last_writers_op,
        product_at,
        values_held,
        where_held,
        *STORED_OPS,
        index_array,
        stored_on,
    )
}


def bound(op: Op, args: tuple[Argument, ...], params: Params) -> Any:
    """Apply an op as `bind` does, at a level that takes note of the random draws in its graphs.

    Without draws, that is the level of the operands. With draws, it is at least the innermost level that
    makes its own draws: a trace, which writes the draws down, or a batch whose examples have different draws.
    The operands may all be from levels around it.
    """
    active_levels = levels()
    draws = draws_of(params) if active_levels else ()
    for level in reversed(active_levels) if draws else ():
        if level.drawn is not None or any(draw.differs_in(level) for draw in draws):
            inner = level_of(value_of(x, x) for x in args)
            if inner is None or active_levels.index(inner) < active_levels.index(level):
                first = args[0] if isinstance(args[0], Handle) else make_handle(np.asarray(args[0]))
                args = (level.variable_of(first), *args[1:])
            break
    return bind(op, args, dict(params))


def draws_of(params: Params) -> tuple[Draw, ...]:
    """Random draws of the graphs among the parameters of an op."""
    equations = [e for p in params.values() if isinstance(p, Graph) for e in p.equations]
    draws = tuple([e.params["draw"] for e in equations if e.op is random])
    return sum((draws_of(e.params) for e in equations if e.op is not random), draws)


def zero_constant(like: Value | Shaped) -> tuple[Value, Zero]:
    """A constant of a graph that is zero, of the shape and dtype of a value."""
    return Value(Aval(like.shape, like.dtype, NOTHING)), Zero(like.shape, like.dtype)


def is_pure(equation: Equation) -> bool:
    """True if an equation, its graphs included, is a function of its operands without other effects."""
    inside = (e for _, graph in subgraphs(equation) for e in graph.equations)
    return getattr(equation.op, "pure", True) and all(map(is_pure, inside))


def is_of_the_library(op: Op) -> bool:
    """True if the name of an op identifies it: it is an op of graphs, or of the library's table.

    An extension may define another op under the same name later.
    """
    return op.name in OPERATIONS or LIBRARY.get(op.name) is op


def op_named(name: str) -> Op:
    """The op of graphs, of the op table or of users, of a name; raises ArgumentError if there is none."""
    record = OPERATIONS.get(name) or TABLE.get(name) or USERS.get(name)
    if record is None:
        raise ArgumentError("graph", "op", got=f"'{name}'", expected="the name of an op")
    return record
