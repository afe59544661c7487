"""Control flow on series: a body becomes a body of the same op whose inputs are coefficients.

An input that does not vary remains one input. A carry has the coefficients that it has after any step; a
condition reads coefficient 0, so a loop takes the steps that it takes for the value. With directions, the
coefficients between the lowest and the highest order have these along axis 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from iverson.autograd.mode import recording
from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import make_handle, value_of
from iverson.core.protocols import Params
from iverson.core.shapes import Shape
from iverson.core.table import F
from iverson.graph.control.bodies import interned
from iverson.graph.control.cond_checkpoint import checkpointed, chosen
from iverson.graph.control.scan_loop import scanned
from iverson.graph.control.while_loop import repeated
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import Graph
from iverson.graph.tracing.trace import Trace
from iverson.transforms.series.series_level import CONTROL, Argument, Coefficient, Series, SeriesLevel

#: The orders of the coefficients of a value that are not zero, 0 among them.
Orders = tuple[int, ...]
#: The coefficients of each result of a call.
Results = Sequence[Sequence[Coefficient]]


def _orders(level: SeriesLevel, x: Argument) -> Orders:
    if type(x) is not Series or not dtypes.is_inexact(x.dtype):
        return (0,)
    return 0, *(k for k in range(1, level.order + 1) if x.coefficient(k) is not None)


def _differs(level: SeriesLevel, k: int) -> bool:
    """True if coefficient k has an axis of directions."""
    return level.directions is not None and 0 < k < level.order


def _operands(level: SeriesLevel, x: Argument, orders: Orders) -> list[Any]:
    """Handles outside of the level for some coefficients of an operand."""
    if type(x) is not Series:
        return [x] + [_zeros(level, x, k) for k in orders[1:]]
    return [_operand(level, x, k) for k in orders]


def _operand(level: SeriesLevel, x: Series, k: int) -> Any:
    c = x.coefficient(k)
    if c is None:
        return _zeros(level, x, k)
    value = value_of(c)
    if level.directions is not None and level.directions.batch_of(c) is not None:
        return value.held
    return F.broadcast_to(c, shape=(*_lead(level, k), *c.shape)) if _differs(level, k) else c


def _lead(level: SeriesLevel, k: int) -> Shape:
    directions = level.directions
    batch = directions.batch(k) if directions is not None and _differs(level, k) else None
    return () if batch is None else (batch.size,)


def _zeros(level: SeriesLevel, like: Argument, k: int) -> Any:
    return make_handle(np.zeros((*_lead(level, k), *like.shape), like.dtype))


def _result(level: SeriesLevel, x: Argument, k: int) -> Any:
    """A coefficient inside of the directions, from a handle outside."""
    directions = level.directions
    batch = directions.batch(k) if directions is not None and _differs(level, k) else None
    return x if batch is None else batch.of_examples(x)


@contextmanager
def _inside(level: SeriesLevel) -> Iterator[SeriesLevel]:
    """A level like another one, for a body."""
    outer = level.directions
    if outer is None:
        with SeriesLevel(level.order, level.name) as inner:
            yield inner
        return
    with outer.anew().entered() as directions, SeriesLevel(level.order, level.name, directions) as inner:
        yield inner


def expanded(
    level: SeriesLevel, body: Graph, orders_in: Sequence[Orders], force: Sequence[Orders] = ()
) -> tuple[Graph, list[Orders]]:
    """A body on coefficients, and the orders of the coefficients that each output has.

    orders_in : those of each input. force : of the first outputs, orders that they get in any case.
    """
    force = (*force, *((0,),) * (len(body.outputs) - len(force)))
    directions = None if level.directions is None else level.directions.key
    key = "jet", level.order, tuple(orders_in), force, directions
    return body.once(key, lambda: _expanded(level, body, orders_in, force))


def _expanded(
    outer: SeriesLevel, body: Graph, orders_in: Sequence[Orders], force: Sequence[Orders]
) -> tuple[Graph, list[Orders]]:
    with Trace("jet") as trace, recording(False):
        inputs = _inputs(outer, trace, body, orders_in)
        outputs: list[Any] = []
        present: list[Orders] = []
        with _inside(outer) as level:
            operands = []
            for v, xs, orders in zip(body.inputs, inputs, orders_in, strict=True):
                if len(orders) == 1:
                    operands.append(xs[0])
                    continue
                coefficients: list[Coefficient] = [None] * (level.order + 1)
                for k, x in zip(orders, xs, strict=True):
                    coefficients[k] = _result(level, x, k)
                operands.append(level.handle(coefficients, v))
            for x, orders in zip(interpret(body, operands), force, strict=True):
                value = value_of(x)
                mine = isinstance(value, Series) and value._level is level
                varying = _orders(level, value) if mine else (0,)
                orders_out = tuple(sorted({*varying, *orders}))
                outputs += _operands(level, value if mine else x, orders_out)
                present.append(orders_out)
        return interned(trace.rewritten(outputs)), present


def _inputs(level: SeriesLevel, trace: Trace, body: Graph, orders_in: Sequence[Orders]) -> list[list[Any]]:
    return [
        [trace.input(Aval((*_lead(level, k), *v.shape), v.dtype) if k else v.aval) for k in orders]
        for v, orders in zip(body.inputs, orders_in, strict=True)
    ]


def _settled(
    level: SeriesLevel, body: Graph, orders_in: list[Orders], first: int, carry: int
) -> tuple[Graph, list[Orders]]:
    """A loop's body on coefficients; ``orders_in`` then has the orders that the carry has in any step."""
    while True:
        here = orders_in[first : first + carry]
        graph, present = expanded(level, body, orders_in, here)
        if present[:carry] == here:
            return graph, present
        orders_in[first : first + carry] = present[:carry]


def _flat(level: SeriesLevel, args: Sequence[Argument], orders_in: Sequence[Orders]) -> list[Any]:
    return [x for a, orders in zip(args, orders_in, strict=True) for x in _operands(level, a, orders)]


def _grouped(
    level: SeriesLevel, out: Sequence[Argument], present: Sequence[Orders]
) -> list[list[Coefficient]]:
    """The coefficients of each result, from those of all in a row."""
    iterator = iter(out)
    results = []
    for orders in present:
        coefficients: list[Coefficient] = [None] * (level.order + 1)
        for k in orders:
            coefficients[k] = _result(level, next(iterator), k)
        results.append(coefficients)
    return results


def _exchanged(x: Argument) -> Any:
    """The axes of directions and of steps, each in the other's place."""
    return F.permute_dims(x, axes=(1, 0, *range(2, x.ndim)))


def _scan(level: SeriesLevel, args: Sequence[Argument], params: Params) -> Results:
    body, consts, carry = params["body"], params["consts"], params["carry"]
    orders_in = [_orders(level, a) for a in args]
    graph, present = _settled(level, body, orders_in, consts, carry)
    fixed = consts + carry
    operands = _flat(level, args[:fixed], orders_in[:fixed])
    for a, orders in zip(args[fixed:], orders_in[fixed:], strict=True):
        for k, x in zip(orders, _operands(level, a, orders), strict=True):
            operands.append(_exchanged(x) if _differs(level, k) else x)
    out = scanned(
        operands,
        body=graph,
        consts=sum(map(len, orders_in[:consts])),
        carry=sum(map(len, orders_in[consts:fixed])),
        length=params["length"],
        reverse=params["reverse"],
    )
    first = sum(map(len, present[:carry]))
    orders_of_ys = [k for orders in present[carry:] for k in orders]
    ys = [_exchanged(y) if _differs(level, k) else y for k, y in zip(orders_of_ys, out[first:], strict=True)]
    return _grouped(level, [*out[:first], *ys], present)


def _cond(level: SeriesLevel, args: Sequence[Argument], params: Params) -> Results:
    orders_in = [_orders(level, a) for a in args[1:]]
    bodies = [params["on_true"], params["on_false"]]
    of_bodies = [expanded(level, body, orders_in)[1] for body in bodies]
    force = [tuple(sorted({*a, *b})) for a, b in zip(*of_bodies, strict=True)]
    on_true, on_false = (expanded(level, body, orders_in, force)[0] for body in bodies)
    operands = [args[0], *_flat(level, args[1:], orders_in)]
    return _grouped(level, chosen(operands, on_true=on_true, on_false=on_false), force)


def _while(level: SeriesLevel, args: Sequence[Argument], params: Params) -> Results:
    body, consts = params["body"], params["consts"]
    orders_in = [_orders(level, a) for a in args]
    graph, present = _settled(level, body, orders_in, consts, len(body.outputs))
    condition = _of_values(level, params["condition"], orders_in)
    operands = _flat(level, args, orders_in)
    out = repeated(operands, condition=condition, body=graph, consts=sum(map(len, orders_in[:consts])))
    return _grouped(level, out, present)


def _of_values(level: SeriesLevel, condition: Graph, orders_in: Sequence[Orders]) -> Graph:
    """The condition of a loop, which reads coefficients 0 among all."""
    with Trace("jet") as trace, recording(False):
        inputs = _inputs(level, trace, condition, orders_in)
        return interned(trace.rewritten(interpret(condition, [xs[0] for xs in inputs])))


def _checkpoint(level: SeriesLevel, args: Sequence[Argument], params: Params) -> Results:
    orders_in = [_orders(level, a) for a in args]
    graph, present = expanded(level, params["body"], orders_in)
    return _grouped(level, checkpointed(_flat(level, args, orders_in), body=graph), present)


CONTROL.update({"scan": _scan, "cond": _cond, "while": _while, "checkpoint": _checkpoint})
