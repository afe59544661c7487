"""Bodies: closed graphs that ops of control flow run, and their derivatives as graphs.

The values that a body's function reads from outside are its first inputs, and operands of the op. Bodies of
the same text are one object, so that a fact about one (`Graph.once`) is computed once, however often its
function is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from iverson.core import dtypes
from iverson.core.aval import Aval, has_shape
from iverson.core.counting import checks
from iverson.core.dispatch import Handle, is_tracked, make_handle, value_of
from iverson.core.entries import FULL, Box
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue, Shaped
from iverson.core.python import locks
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.derivatives.differentiation import Capture, Recorded
from iverson.graph.ir.derivative_interface import Crossing
from iverson.graph.ir.nodes import UNDEFINED, Argument, Equation, Graph, Value, values_of
from iverson.graph.ir.operations import GraphOp, is_pure
from iverson.graph.ir.print import text_and_objects
from iverson.layouts import Pattern, Strided, Zero, support_of
from iverson.layouts.pattern_symbols import StandIn

T = TypeVar("T")

#: The graph of a derivative, its captures, and the forms in which its outputs cross.
Variant = tuple[Graph, tuple[Capture, ...], list[Crossing]]

#: Number of bodies that are cached; then the oldest goes.
_MANY = 256
#: Constants of integers up to this many bytes are told apart by their entries.
_SMALL = 4096
_interned: dict[Any, Graph] = {}
_lock = locks.lock()


def lifted(graph: Graph, captured: Sequence[Handle]) -> tuple[Graph, list[Any]]:
    """Make a traced body closed: captured values and floating constants become its first inputs.

    Returns the closed graph, and the handles for these inputs. Integers (places, counts) and zeros stay in
    the graph as constants, where derivatives rely on their values.

    captured : handles for the last inputs of ``graph``.
    """
    count = len(graph.inputs) - len(captured)
    lifts = [(v, array) for v, array in graph.constants if _is_lifted(array)]
    first = (*graph.inputs[count:], *(v for v, _ in lifts))
    constants = tuple((v, array) for v, array in graph.constants if not _is_lifted(array))
    closed = replace(graph, inputs=(*first, *graph.inputs[:count]), constants=constants)
    return interned(closed), [
        *captured,
        *(array if isinstance(array, Handle) else make_handle(array) for _, array in lifts),
    ]


def _is_lifted(array: LayoutValue | Handle) -> bool:
    return dtypes.is_inexact(array.dtype) and type(value_of(array, array)) is not Zero


def interned(graph: Graph) -> Graph:
    """The graph, or an earlier one of the same text and objects.

    One with extents that stand for others is not told from one with numbers by its text, and stays itself.
    """
    values = *graph.inputs, *(v for e in graph.equations for v in e.results)
    if any(StandIn in map(type, v.shape) for v in values if has_shape(v)):
        return graph
    text, objects = text_and_objects(graph)
    keys = tuple(map(_told, objects))
    if None in keys:
        return graph
    if checks.in_force():  # which say the user's calls
        keys = (*keys, tuple(e.where for e in graph.equations))
    with _lock:
        result = _interned.pop((text, keys), graph)
        _interned[text, keys] = result  # the last one is the youngest
        if len(_interned) > _MANY:
            del _interned[next(iter(_interned))]
    return result


def _told(x: Any) -> Any:
    """Key of an object in a graph, the same for equal objects; None for objects that are not compared."""
    if isinstance(x, Pattern | Op):
        return id(x)  # alive as long as the graph
    value = value_of(x, x)
    if type(value) is Zero:
        return "zero"
    if type(value) is Strided and value.nbytes <= _SMALL and value.dtype.kind in "iub":
        return value.tobytes()
    return None


def compiled(body: Graph) -> Compiled:
    """The `Compiled` of ``body``, made once.

    It runs op by op; after `let_be_native` was called for ``body``, it runs as a program.
    """
    return body.once("compiled", lambda: Compiled(body, "body", native=False))


def let_be_native(bodies: Iterable[Graph]) -> None:
    """Let bodies run as programs from now on."""
    for body in bodies:
        compiled(body).native = True


def run(body: Graph, values: Sequence[LayoutValue]) -> Sequence[Any]:
    """The outputs of a body, as values, from values for its inputs."""
    program = compiled(body)
    return program.run(values) if program.native else program.op_by_op(values)


def flags(args: Sequence[Argument]) -> tuple[bool, ...]:
    """For each argument, True if it is tracked."""
    return tuple([isinstance(x, Handle) and is_tracked(x) for x in args])


def reached(body: Graph, starts: Sequence[bool]) -> list[bool]:
    """For each output, True if it may depend on an input that is True in ``starts``.

    Only dependence through differentiable ops counts.
    """
    values = {v for v, has in zip(body.inputs, starts, strict=True) if has}
    for equation in body.equations:
        # An op of graphs alone is differentiated by what it evaluates.
        passes = equation.op.differentiable or isinstance(equation.op, GraphOp)
        if passes and not values.isdisjoint(values_of(equation.operands)):
            values.update(v for v in equation.results if dtypes.is_inexact(v.dtype))
    return [x in values for x in body.outputs]


def zero(like: Value | Shaped) -> Any:
    """A handle of a zero without stored entries, of the shape and dtype of a value."""
    return make_handle(Zero(like.shape, like.dtype))


def hoisted(body: Graph, count: int) -> tuple[Graph, Graph] | None:
    """Split off equations of a loop's body that read only its first ``count`` inputs, which all steps share.

    The first graph has these equations and inputs; the second is the body with the results of the first as
    further inputs after them. None where there are no such equations.

        body(%0, %1):                       (%0):                 body(%0, %2, %1):
          %2 = matrix_transpose(%0)           %2 = ...
          %3 = matmul(%1, %2)          ->     return (%2)           %3 = matmul(%1, %2)
          return (%3)                                               return (%3)
    """
    loop_constants = {*body.inputs[:count], *(v for v, _ in body.constants)}
    before: list[Equation] = []
    remaining: list[Equation] = []
    for equation in body.equations:
        if is_pure(equation) and loop_constants.issuperset(values_of(equation.operands)):
            before.append(equation)
            loop_constants.update(equation.results)
        else:
            remaining.append(equation)
    results = {v for e in before for v in e.results}
    reads = dict.fromkeys(
        v
        for v in (*(v for e in remaining for v in values_of(e.operands)), *values_of(body.outputs))
        if v in results
    )
    if not reads:
        return None
    consts = body.inputs[:count]
    first = Graph(consts, tuple(before), tuple(reads), body.constants)
    inside = Graph((*consts, *reads, *body.inputs[count:]), tuple(remaining), body.outputs, body.constants)
    return first, inside


class Derivatives:
    """A body with its residuals, and its derivatives in some inputs: graphs made on demand and kept.

    requires : for each input, whether derivatives in it may be asked for.
    keep : whether there are residuals; if not, derivatives compute them again.
    forward : the body with its residuals as further outputs.
    """

    def __init__(self, body: Graph, requires: Sequence[bool], *, keep: bool = True) -> None:
        self.recorded = Recorded(body, requires, keep=keep)
        self.reads = set(self.recorded.reads())
        self.forward = self.recorded.forward()
        self.variants: dict[Any, Any] = {}

    def pullback(
        self,
        cotangents: Sequence[Aval | None],
        wanted: Sequence[int],
        recording: bool,
        arriving: Sequence[Crossing],
        leaving: Sequence[int],
    ) -> Variant:
        """`Recorded.pullback`, cached by its arguments."""
        key = "pull", tuple(cotangents), tuple(wanted), recording, tuple(arriving), tuple(leaving)
        return self.once(
            key,
            lambda: self.recorded.pullback(
                cotangents, wanted, recording=recording, arriving=arriving, leaving=leaving
            ),
        )

    def pushforward(
        self,
        tangents: Sequence[Aval | None],
        recording: bool,
        arriving: Sequence[Crossing] = (),
    ) -> Variant:
        """`Recorded.pushforward`, whose outputs may all be selections, cached by its arguments."""
        key = "push", tuple(tangents), recording, tuple(arriving)
        return self.once(
            key,
            lambda: self.recorded.pushforward(tangents, recording=recording, arriving=arriving, leaving=True),
        )

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Result of ``make()`` for ``key``, cached from the first call on."""
        result: T | None = self.variants.get(key)
        if result is None:
            result = self.variants.setdefault(key, make())  # rules of users run here: under no lock
        return result


def aval(x: Handle, recording: bool) -> Aval:
    """Aval that a derivative relies on for a cotangent or tangent ``x``: with its box, if it has one.

    The box of a tracked ``x`` is dropped if the derivative is recorded: in another call, ``x`` may not be
    zero outside of it.
    """
    support = FULL if recording and is_tracked(x) else support_of(value_of(x))
    return Aval(x.shape, x.dtype, support if isinstance(support, Box) else FULL)


def defined(graph: Graph) -> tuple[list[int], Graph]:
    """Numbers of the outputs that are defined, and the graph with these alone."""
    at = [k for k, x in enumerate(graph.outputs) if x is not UNDEFINED]
    return at, replace(graph, outputs=tuple(graph.outputs[k] for k in at))
