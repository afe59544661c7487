"""Public API of differentiation: `grad` and `backward` over the recorded graph, and hooks on tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

import numpy as np

from iverson.autograd.densify_watch import leaf_of
from iverson.autograd.engine import check_seed, reverse
from iverson.autograd.mode import is_grad_enabled
from iverson.autograd.node import Hook, Node, Where, grad_slot, hold_gradient, meta_of, reachable, user_call
from iverson.autograd.tracked_guards import is_recorded_for, not_tracked
from iverson.core import dispatch, dtypes
from iverson.core.dispatch import Handle, Operand, Wrapper, alias, has_entries, make_handle, rewrap, unwrap
from iverson.core.entries import FULL
from iverson.core.errors import ArgumentError, ArgumentTypeError, GradientError
from iverson.core.inputs.aliases import EITHER, Alias, also_called, only
from iverson.core.inputs.arguments import checked
from iverson.core.inputs.arrays import plain
from iverson.core.protocols import Shaped
from iverson.core.python import locks
from iverson.core.shapes import check_choice
from iverson.core.table import F
from iverson.layouts import Zero

#: The kind of an input: its gradient is of the same.
X = TypeVar("X", bound=Operand)
T = TypeVar("T")
#: A cotangent as a user passes it: NumPy arrays and numbers become Tensors.
CotangentLike: TypeAlias = Operand | np.ndarray[Any, Any] | np.generic | complex

_hook_numbers = itertools.count()
_accumulating = locks.lock()


def _as_tuple(value: T | Sequence[T]) -> tuple[Any, ...]:
    """A list or tuple as a tuple; a single value as a tuple of one."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _handles(value: Operand | Sequence[Operand], operation: str, argument: str) -> tuple[Any, ...]:
    """A Tensor or a sequence of them as a tuple; raises ArgumentTypeError for anything else."""
    items = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for item in items:
        if not isinstance(item, Handle):
            _operand(item, operation, argument)
    return items


def _operand(value: Operand, operation: str, argument: str) -> Any:
    """A Tensor as it is; raises ArgumentTypeError for anything else."""
    if not isinstance(value, Operand):
        raise ArgumentTypeError(operation, argument, got=type(value).__name__, expected="Tensors")
    return value


def seeds_for(
    outputs: Sequence[Any], cotangents: Sequence[CotangentLike | None], operation: str, argument: str
) -> list[tuple[tuple[Node, int], Any]]:
    """Pairs of the slot (node, result number) of each tracked output and the handle of its cotangent.

    Outputs that are not tracked, and cotangents that are constant zeros, are left out.

    cotangents : one for each output; None stands for 1 if the output is one real number.
    operation, argument : names for errors.
    """
    if len(outputs) != len(cotangents):
        raise ArgumentError(
            operation,
            argument,
            got=f"{len(cotangents)} of them",
            expected=f"one for each of {len(outputs)} outputs",
        )
    seeds = []
    for output, ct in zip(outputs, cotangents, strict=True):
        handle = output if isinstance(output, Handle) else unwrap(output)
        if ct is None:
            if output.size != 1:
                raise GradientError(
                    operation,
                    argument,
                    got=f"none for an output of shape {output.shape}",
                    expected="a cotangent for every output with more than one entry",
                    remedy=f"pass {argument}, or reduce the output to a number first, e.g. with sum()",
                )
            if output.dtype.kind == "c":
                raise GradientError(
                    operation,
                    argument,
                    got=f"none for an output of dtype {output.dtype}",
                    expected="a cotangent for every complex output",
                    remedy=f"pass {argument}, or take the real part or abs of the output first",
                )
            ct = make_handle(np.ones(handle.shape, output.dtype))
        else:
            if handle is not output:
                ct = output._seed(ct, operation, argument)
            elif not isinstance(ct, Handle):
                ct = make_handle(_array(ct, operation, argument))
            if ct._value.shape != handle._value.shape or ct._value.dtype != handle._value.dtype:
                ct = check_seed(handle, ct, operation, argument)
        if handle._node is not None and (type(ct._value) is not Zero or ct._node is not None):
            seeds.append(((handle._node, handle._index), ct))
    return seeds


def _array(ct: CotangentLike, operation: str, argument: str) -> Any:
    """Copy of a user's cotangent as a NumPy array; raises ArgumentTypeError for an unknown dtype."""
    # A copy: the gradient may be this very array, and the caller may write into theirs.
    array = plain(ct, operation, argument).copy()
    if not dtypes.is_known(array.dtype):
        raise ArgumentTypeError(
            operation, argument, got=f"a {type(ct).__name__} of dtype {array.dtype}", expected="Tensors"
        )
    return array


@overload
def grad(
    outputs: Operand | Sequence[Operand],
    inputs: X,
    grad_outputs: CotangentLike | Sequence[CotangentLike | None] | None = None,
    create_graph: bool = False,
    unused: Literal["zero", "error"] = "zero",
) -> X: ...
@overload
def grad(
    outputs: Operand | Sequence[Operand],
    inputs: Sequence[X],
    grad_outputs: CotangentLike | Sequence[CotangentLike | None] | None = None,
    create_graph: bool = False,
    unused: Literal["zero", "error"] = "zero",
) -> tuple[X, ...]: ...
@overload
def grad(
    outputs: Operand | Sequence[Operand],
    inputs: Operand | Sequence[Operand],
    grad_outputs: CotangentLike | Sequence[CotangentLike | None] | None = None,
    create_graph: bool = False,
    unused: Literal["zero", "none", "error"] = "zero",
    **pytorchs: bool | None,
) -> Any: ...
@also_called(
    retain_graph=EITHER,
    allow_unused=Alias("unused", {True: "none", False: "error"}),
    materialize_grads=Alias("unused", {True: "zero", False: None}),
    only_inputs=only(True, "call backward to add to .grad of leaves"),
    is_grads_batched=only(False, "map it: iverson.vmap(lambda v: grad(y, x, v))(vectors)"),
)
@checked
def grad(
    outputs: Operand | Sequence[Operand],
    inputs: Operand | Sequence[Operand],
    grad_outputs: CotangentLike | Sequence[CotangentLike | None] | None = None,
    create_graph: bool = False,
    unused: str = "zero",
) -> Any:
    """The gradient of the outputs (weighted by ``grad_outputs``) in each of the inputs.

    Parameters
    ----------
    outputs : a Tensor or a sequence of them.
    inputs : a Tensor or a sequence of them, leaves or intermediate results. What lies above them in the
        graph never runs.
    grad_outputs : cotangents of the outputs' shapes, or None for 1 where an output is one real number.
    create_graph : record the computation, so that the gradients can be differentiated again. In a function
        that a transform differentiates it always is.
    unused : what to give for an input the outputs do not depend on: "zero" (a tensor in the zero layout),
        "none" (None) or "error".

    Returns
    -------
    A Tensor if ``inputs`` is one, else a tuple, each of its input's shape and dtype, in whatever layout
    the derivative has. For complex inputs, the conjugate Wirtinger derivative, as in PyTorch.

    PyTorch's names are taken too: ``allow_unused`` is "none" where True and "error" where False,
    ``materialize_grads=True`` is "zero" whatever ``allow_unused`` is. ``retain_graph`` changes nothing: a
    record lives as long as tensors that were computed in it, and can be run again. ``only_inputs`` must be
    True and ``is_grads_batched`` False (see `iverson.vmap`).

    Raises GradientError for an input that does not require grad, for an unused one with ``unused="error"``,
    and for an output of several entries, or a complex one, without a cotangent.

    >>> import iverson as iv
    >>> x = iv.asarray([1.0, 2.0], requires_grad=True)
    >>> grad((x * x).sum(), x)
    iverson.Tensor([2., 4.])
    """
    if type(unused) is not str or unused != "zero":  # an array compares entry by entry
        check_choice(unused, ("zero", "none", "error"), "grad", "unused")
    outs = (outputs,) if isinstance(outputs, Handle) else _handles(outputs, "grad", "outputs")
    ins = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    cts = (None,) * len(outs) if grad_outputs is None else _as_tuple(grad_outputs)
    slots = []
    for k, x in enumerate(ins):
        if not isinstance(x, Handle):
            x = unwrap(_operand(x, "grad", "inputs"))
        slots.append((x._node, x._index))
        if x._node is None:
            raise not_tracked(x, "grad", f"inputs[{k}]")
    seeds = seeds_for(outs, cts, "grad", "grad_outputs")
    create_graph = create_graph or is_recorded_for(seeds)
    cotangent_of = reverse(seeds, dict.fromkeys(slots, FULL), create_graph=create_graph).get
    results: list[Any] = []
    for x, slot in zip(ins, slots, strict=True):
        ct = cotangent_of(slot)
        if ct is None:
            g = _of_unused(unwrap(x), unused, len(results))
        else:
            g = alias(ct) if create_graph else make_handle(ct._value)
        results.append(g if isinstance(x, Handle) or g is None else rewrap(x, g))
    return results[0] if ins is not inputs else tuple(results)


def _of_unused(x: Shaped, unused: str, position: int) -> Any:
    """Gradient in an input that the outputs do not depend on.

    Depending on ``unused``, it is None ("none"), a zero ("zero"), or GradientError is raised ("error").

    position : the number of the input, for the error.
    """
    if unused == "none":
        return None
    if unused == "error":
        raise GradientError(
            "grad",
            f"inputs[{position}]",
            got="an input the outputs do not depend on",
            remedy="pass unused='zero' or unused='none' if that is expected",
        )
    return make_handle(Zero(x.shape, x.dtype))


@also_called(
    tensors=Alias("outputs"), grad_tensors=Alias("grad_outputs"), gradient=Alias("grad_outputs"),
    retain_graph=EITHER,
)  # fmt: skip
@checked
def backward(
    outputs: Operand | Sequence[Operand],
    grad_outputs: CotangentLike | Sequence[CotangentLike | None] | None = None,
    inputs: Operand | Sequence[Operand] | None = None,
    create_graph: bool = False,
) -> None:
    """Add the gradient of the outputs to ``.grad`` of the leaves they depend on (or of ``inputs`` alone).

    Parameters and errors are those of `grad`. Results that called ``retain_grad()`` get theirs too. A leaf
    whose gradient is structurally zero keeps ``.grad`` as it was. PyTorch's names ``tensors``,
    ``grad_tensors`` and ``retain_graph`` (which changes nothing) are taken too.

    >>> import iverson as iv
    >>> x = iv.asarray(3.0, requires_grad=True)
    >>> backward(x * x)
    >>> x.grad
    iverson.Tensor(6.)
    """
    outs = _handles(outputs, "backward", "outputs")
    cts = (None,) * len(outs) if grad_outputs is None else _as_tuple(grad_outputs)
    if all(unwrap(o)._node is None for o in outs):
        if not all(has_entries(unwrap(o)) for o in outs):
            raise not_tracked(next(o for o in map(unwrap, outs) if not has_entries(o)), "backward", "outputs")
        raise GradientError(
            "backward",
            got="an output that does not depend on any tensor that requires grad",
            remedy="call x.requires_grad_() on the inputs before computing",
        )
    seeds = seeds_for(outs, cts, "backward", "grad_outputs")
    create_graph = create_graph or is_recorded_for(seeds)
    nodes = reachable([node for (node, _), _ in seeds], 0)
    observed = [node for node in nodes if node.meta is not None]
    targets = {(n, k): FULL for n in observed for k in meta_of(n).retain if grad_slot(n, k)}
    if inputs is None:
        leaves = [n for n in observed if n.op is None]
        targets |= {(n, 0): FULL for n in leaves if meta_of(n).hooks or grad_slot(n, 0)}
    else:
        ins = tuple(map(unwrap, _handles(inputs, "backward", "inputs")))
        if any(x._node is None for x in ins):
            raise GradientError(
                "backward",
                "inputs",
                got="a tensor that does not require grad",
                expected="leaves, or results recorded from them",
                remedy="call requires_grad_() on them before computing",
            )
        for x in ins:
            hold_gradient(x)
            targets[x._node, x._index] = FULL
    for (node, index), ct in reverse(seeds, targets, create_graph=create_graph, order=nodes).items():
        _accumulate(node, index, alias(ct) if create_graph else make_handle(ct._value))


def _accumulate(node: Node, index: int, ct: Handle) -> None:
    """Add ``ct`` to the gradient of a result of ``node`` that a handle shows as ``.grad``; else nothing."""
    place = grad_slot(node, index)
    if place is None:
        return
    if (cells := dispatch.cells()) is not None:
        cells.gradient(place, read=True)
    while True:  # the sum is outside of the lock: it may run code of users
        before = place.gradient
        total = ct if before is None else F.add_n(before, ct)
        with _accumulating:
            if place.gradient is before:
                place.gradient = total
                return


class HookHandle:
    """Handle of a registered hook, from ``register_hook``: ``remove()`` takes the hook away again.

    >>> import iverson as iv
    >>> x = iv.asarray(2.0, requires_grad=True)
    >>> handle = iv.autograd.register_hook(x, lambda g: 10 * g)
    >>> handle.remove()
    >>> (x * x).backward()
    >>> x.grad
    iverson.Tensor(4.)
    """

    __slots__ = ("_hooks", "_number")

    def __init__(self, hooks: dict[int, tuple[Hook, Where | None]], number: int) -> None:
        self._hooks = hooks
        self._number = number

    def remove(self) -> None:
        """Take the hook away; harmless if it is gone already."""
        self._hooks.pop(self._number, None)


@checked
def register_hook(x: X, hook: Callable[[X], X | None]) -> HookHandle:
    """Call ``hook(gradient)`` whenever x's gradient is computed; what it returns (if not None) replaces it.

    Raises GradientError if x does not require grad.

    >>> import iverson as iv
    >>> x = iv.asarray(2.0, requires_grad=True)
    >>> handle = iv.autograd.register_hook(x, lambda g: 10 * g)
    >>> (x * x).backward()
    >>> x.grad
    iverson.Tensor(40.)
    """
    _handles((x,), "register_hook", "x")
    if isinstance(x, Wrapper):
        wrapper: Any = x
        return wrapper.register_hook(hook)  # type: ignore[no-any-return]
    assert isinstance(x, Handle)
    if x._node is None:
        raise not_tracked(x, "register_hook", "x")
    hooks = meta_of(x._node).hooks.setdefault(x._index, {})
    number = next(_hook_numbers)
    hooks[number] = hook, user_call()
    return HookHandle(hooks, number)


def variable(value: Shaped) -> Any:
    """A handle of ``value`` that is a new leaf of the graph."""
    return make_handle(value, leaf_of(value))


__all__: Sequence[str] = [
    "HookHandle",
    "backward",
    "grad",
    "is_grad_enabled",
    "register_hook",
    "seeds_for",
    "variable",
]
