"""`Function`: custom ops with a hand-written derivative, in PyTorch's form.

Each call of ``apply`` becomes a node with a joint rule. The rule gets a context of its own per backward
call, so ``ctx.needs_input_grad`` is right for that call, also with many threads on one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.autograd import unrecorded_values
from iverson.autograd.functions.closure_arguments import lifted, read_around
from iverson.autograd.functions.context import PLACE, Context
from iverson.autograd.joint_ops import JointOp
from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.node import Node, make_node, user_call
from iverson.autograd.record import is_undefined
from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import (
    Handle,
    Level,
    LevelValue,
    Operand,
    Wrapper,
    alias,
    cells,
    level_of,
    levels,
    make_handle,
    rewrap,
    semantics_of,
    slot_of,
    unwrap,
    value_of,
    zero_filled,
)
from iverson.core.entries import NOTHING, Entries
from iverson.core.errors import ArgumentError, ArgumentTypeError, GradientError, GraphError, MissingRuleError
from iverson.core.inputs.arguments import as_function, checked
from iverson.core.protocols import Shaped
from iverson.layouts import Zero

if TYPE_CHECKING:
    from iverson.core.op import Rule


class Function:
    """Base of custom differentiable ops.

    Subclasses define static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)``; the latter returns
    one gradient (or None) per argument of ``forward``. An undefined cotangent arrives as a tensor in the zero
    layout, or as None after ``ctx.set_materialize_grads(False)``. ``jvp(ctx, *tangents)`` is optional:
    without it, forward mode transposes ``backward``. Instead of ``ctx`` in ``forward``,
    ``setup_context(ctx, inputs, output)`` may be defined.

    Both run on Tensors, so they are differentiable to any order if what they compute with is: inputs and
    results of ``forward``, and Iverson's functions. A second derivative through anything else (NumPy, what
    ``forward`` computed on the way) raises GradientError; see also `once_differentiable`.

    Tensors that the methods read from around them are constants of ``forward``. What ``backward`` computes
    from them is recorded; a second derivative through what ``forward`` computed from them raises. In
    `iverson.jit`, `iverson.vmap` and loops, those that are values there are passed like arguments, without
    gradients, if the methods close over them; where ``forward`` reads one in another way (of a global, of an
    attribute), a derivative or batch of what is compiled raises GraphError. A rule reads them as they are
    when it runs: after a write since the call, the new value, or a GradientError where that is not there.

    In `iverson.vmap`, both run on tensors of one example, whose entries are not known. A Function that reads
    entries (NumPy) is carried out example by example, with a BatchWarning, unless it defines a static method
    ``vmap(size, in_axes, *args)``: it gets the arguments of all examples, with these along axis 0 where
    ``in_axes`` is 0 and not None, and returns the results and the axis of the examples in each of them (a
    tuple of axes for a tuple of results, None where there is none). Gradients go through what it computes.

    Where an argument is a MaskedTensor, ``forward`` gets one. The gradient or tangent of a MaskedTensor is
    one with its mask, as it comes and as it is returned; of a plain Tensor returned for it, only the
    specified entries are read.

    >>> import iverson as iv
    >>> class Square(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = iv.asarray(3.0, requires_grad=True)
    >>> iv.autograd.grad(Square.apply(x), x)
    iverson.Tensor(6.)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the results (a Tensor or a tuple of them). Raises MissingRuleError if not overridden."""
        raise _missing("Function", "forward")

    @staticmethod
    def backward(*grads: Any, **_: Any) -> Any:
        """Compute the gradients of the arguments from those of the results: ``backward(ctx, *grads)``.

        Raises MissingRuleError if not overridden: the function can be computed, but not differentiated.
        """
        raise _missing("Function", "backward")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record the call. Returns what ``forward`` returns.

        Arguments given by name stand where ``forward`` has them, with its defaults before them; they are
        tracked, and have gradients, like those given by position. Raises ArgumentTypeError for names that
        ``forward`` does not have, or takes by name alone: gradients are returned in an order.
        """
        if kwargs:
            args = _by_position(cls, args, kwargs)
        if levels() and (around := read_around(cls)) and not hasattr(cls, "vmap"):
            return lifted(cls, around, Function).apply(*args, *(cell.cell_contents for cell in around))
        # Forward has handles of its own: what it rebinds in place stays its own affair.
        args = tuple([rewrap(a, _argument(unwrap(a))) if isinstance(a, Operand) else a for a in args])
        handles = [unwrap(a) for a in args]
        parents = tuple([h._node if isinstance(h, Handle) else None for h in handles])
        indices = tuple([h._index if isinstance(h, Handle) else 0 for h in handles])
        tracked_mask = tuple([p is not None for p in parents])
        is_recorded = is_grad_enabled() and any(tracked_mask)
        level = level_of(value_of(h, h) for h in handles)
        if level is not None and not is_recorded:
            with level.innermost():  # what it is of is outside of levels within this one
                level_results = level.function(cls, args)
            if level_results is not None:
                if unrecorded_values.calls.count:
                    unrecorded_values.mark(
                        map(unwrap, level_results if isinstance(level_results, tuple) else (level_results,)),
                        handles,
                    )
                return level_results
        ctx = Context(tracked_mask if is_recorded else (False,) * len(args))
        rule: type[Function] = cls
        try:
            out, call = _forward(cls, ctx, args, is_recorded)
        except GraphError:  # it reads entries that are not known in this level
            by_itself = level.one_by_one(cls) if level is not None and is_recorded else None
            if by_itself is None:
                raise
            rule, ctx, level = by_itself, Context(tracked_mask), None
            out, call = _forward(rule, ctx, args, is_recorded)
        is_tuple = isinstance(out, (tuple, list))
        results = tuple(out) if is_tuple else (out,)
        for r in results:
            if not isinstance(r, Operand) and r is not None:
                raise GradientError(
                    cls.__name__,
                    "forward",
                    got=f"a result of type {type(r).__name__}",
                    expected="Tensors",
                )
        if not is_recorded:
            outputs = tuple(None if r is None else rewrap(r, make_handle(unwrap(r)._value)) for r in results)
            if unrecorded_values.calls.count:
                unrecorded_values.mark(map(unwrap, outputs), handles)
        else:
            if level is not None:
                results = _as_outside(rule, level, args, results)
            outputs = _recorded(rule, ctx, args, parents, indices, results, call)
        return outputs if is_tuple else outputs[0]


def _argument(x: Handle) -> Any:
    """New handle of an argument, for ``forward`` alone; in a trace, an outside tensor is an input."""
    if x._node is not None and levels() and (level_cells := cells()) is not None:
        x = level_cells.inside(x)
    return alias(x)


def _by_position(cls: type[Function], args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Any, ...]:
    """All arguments by position: those given by name in their places, and defaults before them."""
    forward_signature = signature(_method(cls, "forward"))
    before = () if hasattr(cls, "setup_context") else (None,)
    try:
        bound = forward_signature.bind(*before, *args, **kwargs)
        count = max(list(forward_signature.parameters).index(name) for name in bound.arguments) + 1
        bound.apply_defaults()
        # After *args come those that have no place.
        if not bound.kwargs or not kwargs.keys() & bound.kwargs.keys():
            return bound.args[len(before) : max(count, len(before) + len(args))]
        problem = f"{', '.join(kwargs.keys() & bound.kwargs.keys())} by name"
    except TypeError as error:
        problem = str(error)
    raise ArgumentTypeError(
        f"{cls.__name__}.apply",
        got=problem,
        expected=f"arguments of forward{forward_signature}",
        remedy="name only parameters that can be given by position: each has a gradient, in their order",
    )


def _forward(
    cls: type[Function], ctx: Context, args: tuple[object, ...], is_recorded: bool
) -> tuple[Any, unrecorded_values.Call]:
    """Result of the user's ``forward``, and a `Call` that notes what it computed without a record."""
    call = unrecorded_values.Call(given={slot_of(h) for a in args if isinstance(h := unwrap(a), Handle)})
    with recording(False), unrecorded_values.watched(call) if is_recorded else nullcontext():
        setup = getattr(cls, "setup_context", None)
        if setup is None:
            return _method(cls, "forward")(ctx, *args), call
        out = _method(cls, "forward")(*args)
        setup(ctx, args, out)
    return out, call


def _as_outside(
    cls: type[Function], level: Level, args: tuple[object, ...], results: tuple[Operand | None, ...]
) -> Any:
    """Results of ``forward`` in a level, with the values of the one call outside of it.

    The call is recorded inside by its node. Outside, its derivative would be that of the ops in ``forward``,
    and not the user's. The handles that ``forward`` returned remain, as it may have stored them, and get the
    values of the outside call.
    """
    with recording(False), level.innermost():
        level_results = level.function(cls, args)
    if level_results is None:
        return results
    outputs = []
    for r, level_result in zip(
        results, level_results if isinstance(level_results, tuple) else (level_results,), strict=True
    ):
        if r is not None and any(r is a for a in args):
            r = rewrap(r, alias(unwrap(r)))
        if r is not None:
            unwrap(r)._value = unwrap(level_result)._value
        outputs.append(r)
    return tuple(outputs)


def _recorded(
    cls: type[Function],
    ctx: Context,
    args: tuple[object, ...],
    parents: tuple[Node | None, ...],
    indices: tuple[int, ...],
    results: tuple[Operand | None, ...],
    call: unrecorded_values.Call,
) -> tuple[Any, ...]:
    """Handles of the results of a call with their node, which has the user's rules; saved tensors are noted.

    A result that is not floating, or is marked as non-differentiable, gets no node. A result None stays None.

    parents, indices : the node of each argument (or None), and its result number there.
    call : the note of what ``forward`` read and computed without a record.
    """
    multiple = len(results) != 1
    handles = tuple(map(unwrap, results))
    around = tuple(call.around)
    avals = tuple(Aval((), dtypes.default_float) if h is None else _known(h._value) for h in handles)
    wrappers = tuple(map(semantics_of, args)), tuple(map(semantics_of, results))
    op = JointOp(
        name=cls.__name__,
        forward=cls.forward,
        abstract=lambda *_args: avals if multiple else avals[0],
        joint=_joint(cls, ctx, *wrappers),
        joint_jvp=_joint_jvp(cls, ctx, *wrappers),
        multiple=multiple,
    )
    arg_avals = tuple(_known(h._value) if isinstance(h, Handle) else None for h in map(unwrap, args))
    # The call depends on what forward read from around it, as on an argument whose gradient is None.
    arg_avals += tuple([node.result(index) for node, index in around])
    parents += tuple([node for node, _ in around])
    indices += tuple([index for _, index in around])
    node = make_node(op, arg_avals, {}, parents, indices, avals if multiple else avals[0], user_call())
    result_of = {id(r): k for k, r in enumerate(results) if r is not None}
    _note_unrecorded(cls, ctx, args, results, call, node)
    ctx._saved = tuple(_place(t, result_of, args) for t in ctx._to_save)
    if ctx._to_save_forward is not None:
        ctx._saved_forward = tuple(_place(t, result_of, args) for t in ctx._to_save_forward)
    ctx._to_save, ctx._to_save_forward = (), None
    for name, x in tuple(vars(ctx).items()):
        if id(x) in result_of:
            ctx._result_attributes[name] = _place(x, result_of, args)
            delattr(ctx, name)
    return tuple(
        None
        if h is None
        else rewrap(r, make_handle(h._value, node, k))
        if h.dtype.kind in "fcV" and id(r) not in ctx._no_gradient
        else rewrap(r, make_handle(h._value))
        for k, (r, h) in enumerate(zip(results, handles, strict=True))
    )


def _known(value: Shaped) -> Any:
    """The Aval that a node keeps of an argument or result; a value of a level is kept itself.

    The level may write down the pullback, which may read the value and is then differentiated in the level.
    """
    return value if isinstance(value, LevelValue) else Aval(value.shape, value.dtype)


def _note_unrecorded(
    cls: type[Function],
    ctx: Context,
    args: tuple[object, ...],
    results: Sequence[Operand | None],
    call: unrecorded_values.Call,
    node: Node,
) -> None:
    """Note on ``ctx``, and on the handles, the values that ``forward`` computed without a record.

    A handle of a result gets the node of the call; of the others, those still alive are noted, so that a
    recorded pass puts barriers on them.
    """
    for k, r in enumerate(results):
        x = unwrap(r)
        if x is None or x._node is not None or not (call.left or unrecorded_values.is_unrecorded(x)):
            continue
        x._index = 0
        if x.dtype.kind in "fcV" and id(r) not in ctx._no_gradient:
            x._node, x._index = node, k
    ctx._name = cls.__name__
    ctx._inputs = [(p, i) for p, i in zip(node.parents, node.indices, strict=True) if p is not None]
    alive = [
        reference
        for reference in call.handles
        if (x := reference()) is not None and unrecorded_values.is_unrecorded(x)
    ]
    ctx._unrecorded = alive
    if call.left:
        leaf_ids = {id(x) for x in _leaves((args, results))}
        attributes = [v for k, v in vars(ctx).items() if k.startswith("_to_save") or not k.startswith("_")]
        ctx._keeps_numbers = any(_is_number(x) for x in _leaves(attributes) if id(x) not in leaf_ids)


def _leaves(tree: Any) -> Iterator[Any]:
    """Iterate over the items of nested dicts, lists, tuples and sets."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple, set)):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def _is_number(x: Any) -> bool:
    """True if ``x`` is, or may contain, numbers that are not integers."""
    if isinstance(x, (Operand, np.ndarray, np.generic)):
        return x.dtype.kind not in "biu"
    return not isinstance(x, (int, str, bytes, slice, range, type, np.dtype, type(None), type(...)))


def _place(tensor: Operand | None, result_of: dict[int, int], args: tuple[object, ...]) -> Any:
    """Origin of a saved tensor (value, node, index and semantics), without a reference to its handle."""
    if tensor is None:
        return None
    handle = unwrap(tensor)
    if id(tensor) in result_of and not any(tensor is a for a in args):
        return handle._value, PLACE, result_of[id(tensor)], semantics_of(tensor)
    return handle._value, handle._node, handle._index, semantics_of(tensor)


def _joint(
    cls: type[Function], ctx: Context, inputs: Sequence[Wrapper | None], outputs: Sequence[Wrapper | None]
) -> Any:
    """The joint rule of a call: runs the user's ``backward`` and gives the cotangents of all inputs.

    inputs, outputs : for each argument and each result, its wrapper without a handle; None if it is plain.
    """

    def joint(needs: tuple[Entries, ...], node: Node, g: Any) -> Any:
        """Cotangents of all inputs from ``g``; those of values read from around the call are None."""
        needs_grad = tuple(need is not NOTHING for need in needs[: len(inputs)])
        around = (None,) * (len(needs) - len(inputs))
        if not any(needs_grad):
            return (None,) * len(needs)
        incoming = g if node.multiple else (g,)
        rule_cotangents = ctx._given(incoming)
        grads = [
            x if x is None else rewrap(w, alias(x)) for w, x in zip(outputs, rule_cotangents, strict=True)
        ]
        rule = _method(cls, "backward")
        with _watched(ctx, rule, incoming) as call:
            results = cotangents(cls, ctx._for_call(node, needs_grad), grads, len(needs_grad))
        seeds = _seeds(f"{cls.__name__}.backward", "gradient", results, inputs)
        return *_barred(rule, ctx, call, incoming, seeds), *around

    return joint


def cotangents(
    cls: type[Function], ctx: Context, grads: Sequence[Operand | None], count: int
) -> tuple[Any, ...]:
    """Cotangents of the first ``count`` arguments that the user's ``backward`` returns for ``grads``.

    Raises ArgumentError if there are fewer, or if a further one is not None.
    """
    gradients = _method(cls, "backward")(ctx, *grads)
    gradients = tuple(gradients) if isinstance(gradients, (tuple, list)) else (gradients,)
    if len(gradients) < count or any(x is not None for x in gradients[count:]):
        raise ArgumentError(
            f"{cls.__name__}.backward",
            got=f"{len(gradients)} gradients",
            expected=f"{count}, one (or None) for each argument of forward",
        )
    return gradients[:count]


def _seeds(
    operation: str, argument: str, results: Sequence[Operand | None], wrappers: Sequence[Wrapper | None]
) -> list[Any]:
    """Results of a user's rule as plain handles, for the plain handles of arguments or results.

    In the gradient of a plain tensor, entries that are missing are zero.

    wrappers : for each, the wrapper that it must fit; None for a plain tensor.
    """
    return [
        x
        if x is None
        else wrapper._seed(x, operation, f"{argument} {k}")
        if wrapper is not None
        else zero_filled(x)
        for k, (x, wrapper) in enumerate(zip(results, wrappers, strict=True))
    ]


_NUMBERS = "numbers or arrays that the rule computed with"
_UNRECORDED = "what the rule computed without a record (under no_grad, or after detach)"


def _slots(incoming: Sequence[Handle]) -> list[tuple[Node, int]]:
    """The slots (node, result number) of the tracked handles among ``incoming``."""
    return [(g._node, g._index) for g in incoming if g._node is not None]


def _watched(ctx: Context, rule: Rule, incoming: Sequence[Handle]) -> Any:
    """Context for the call of a user's rule; in a recorded pass, unrecorded values are marked.

    The context gives the `Call` that notes these.

    incoming : the cotangents or tangents handed to the rule.
    """
    if not is_grad_enabled():
        return unrecorded_values.of_user()

    def bar(x: Handle) -> Node:
        of_arrived = _slots(incoming) if x._index == unrecorded_values.OF_ARRIVED else []
        return unrecorded_values.barrier(
            f"{ctx._name}.{rule.__name__}", _UNRECORDED, x, [*ctx._inputs, *of_arrived]
        )

    return unrecorded_values.watched(unrecorded_values.Call(incoming, bar))


def _barred(
    rule: Rule,
    ctx: Context,
    call: unrecorded_values.Call,
    incoming: Sequence[Handle],
    results: list[Handle | None],
) -> tuple[Any, ...]:
    """Results of a user's rule; in a recorded pass, those from unrecorded values get a barrier.

    All results get one if the rule is `once_differentiable` or has computed with numbers or arrays.

    call : the note of what the rule did.
    """
    once = hasattr(rule, "_once")
    keeps_numbers = call.left or ctx._keeps_numbers
    if not is_grad_enabled():
        return tuple(results)
    cause = "a rule that is once_differentiable" if once else _NUMBERS if keeps_numbers else _UNRECORDED

    def barred(x: Handle | None) -> Any:
        if (
            not isinstance(x, Handle)
            or is_undefined(x)
            or not (once or keeps_numbers or unrecorded_values.is_unrecorded(x))
        ):
            return x
        # What a rule gives is linear in what arrived: not recorded at all, it lost that too.
        loses_incoming = once or call.arrived_left or x._node is None
        closed = [*ctx._inputs, *(_slots(incoming) if loses_incoming else [])]
        return unrecorded_values.behind(f"{ctx._name}.{rule.__name__}", cause, x, closed)

    return tuple(map(barred, results))


@checked
def once_differentiable(rule: Rule) -> Callable[..., Any]:
    """A ``backward`` (or ``jvp``) of a `Function` that is not differentiated itself.

    It gets untracked gradients, so that it may compute in NumPy, and nothing in it is recorded. A second
    derivative through it raises GradientError.

    >>> import numpy as np
    >>> import iverson as iv
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.x = x.detach().numpy()
    ...         return iv.asarray(ctx.x**3)
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, g):
    ...         return iv.asarray(3 * ctx.x**2 * g.numpy())
    >>> iv.grad(Cube.apply)(iv.asarray(2.0))
    iverson.Tensor(12.)
    """

    as_function(rule, "once_differentiable", "rule")

    @wraps(rule)
    def wrapped(ctx: Context, *arguments: Operand) -> Any:
        with recording(False):
            return rule(ctx, *(rewrap(x, make_handle(unwrap(x)._value)) for x in arguments))

    wrapped._once = True  # type: ignore[attr-defined]
    return wrapped


def _joint_jvp(
    cls: type[Function], ctx: Context, inputs: Sequence[Wrapper | None], outputs: Sequence[Wrapper | None]
) -> Any:
    """The joint forward rule of a call: runs the user's ``jvp``; None if there is none.

    inputs, outputs : as for `_joint`.
    """
    user_jvp = getattr(cls, "jvp", None)
    if user_jvp is None:
        return None

    def joint_jvp(tangents: tuple[Handle | None, ...], node: Node) -> tuple[Any, ...]:
        """Tangents of all results from ``tangents``; those of values from around are ignored."""
        arguments: list[Any] = []
        tangents = tangents[: len(inputs)]  # without those of what forward read from around it
        for t, aval, wrapper in zip(tangents, node.args, inputs, strict=False):
            if t is None and aval is not None:
                t = make_handle(Zero(aval.shape, aval.dtype))
            (t,) = ctx._given((t,))
            arguments.append(t if t is None else rewrap(wrapper, alias(t)))
        incoming = [t for t in tangents if t is not None]
        with _watched(ctx, user_jvp, incoming) as call:
            results = user_jvp(
                ctx._for_call(node, tuple(t is not None for t in tangents), forward=True), *arguments
            )
        results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
        expected = len(node.out) if node.multiple else 1
        if len(results) != expected:
            raise ArgumentError(
                f"{cls.__name__}.jvp",
                got=f"{len(results)} tangents",
                expected=f"{expected}, one for each result of forward",
            )
        seeds = _seeds(f"{cls.__name__}.jvp", "tangent", results, outputs)
        return _barred(user_jvp, ctx, call, incoming, seeds)

    return joint_jvp


def _method(cls: type[Function], name: str) -> Any:
    """The method ``name`` of a subclass of `Function`; raises MissingRuleError if it is not defined there."""
    method = getattr(cls, name)
    if method is getattr(Function, name):
        raise _missing(cls.__name__, name)
    return method


def _missing(operation: str, name: str) -> MissingRuleError:
    """The error for a subclass of `Function` without the method ``name``."""
    return MissingRuleError(
        operation,
        got=f"a Function without {name}",
        expected=f"a static method {name}",
        remedy="define it; without backward a Function can be computed, but not differentiated",
    )
