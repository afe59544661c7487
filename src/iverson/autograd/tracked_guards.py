"""Guards on tracked tensors: errors where a gradient would be lost unnoticed.

That is so where a tracked tensor leaves as a Python number, where it stops being a leaf, and where it becomes
a leaf that its owner does not see.

Which variables are being differentiated by a transform is known for all threads: a function may hand its
arguments to workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from iverson.autograd.mode import is_grad_enabled
from iverson.autograd.node import Node, reachable
from iverson.core.dispatch import Handle, Operand, has_entries
from iverson.core.errors import DetachWarning, GradientError
from iverson.core.protocols import NDArray
from iverson.core.python.caller import is_assignment, user_frame, warn
from iverson.core.python.scipy_calls import counterpart, running_call

#: The variables of the transforms whose function is running now.
_variables: set[Node] = set()


@contextmanager
def differentiating(variables: Sequence[Handle]) -> Iterator[None]:
    """Context in which ``variables`` count as differentiated, while a transform runs its function on them."""
    nodes = {v._node for v in variables}
    _variables.update(nodes)
    try:
        yield
    finally:
        _variables.difference_update(nodes)


def is_differentiated(node: Node) -> bool:
    """True if ``node`` depends on a variable of a transform whose function is running."""
    variables = set(_variables)
    if not variables:
        return False
    floor = min(v.number for v in variables)
    return not variables.isdisjoint(reachable([node], floor))


def is_recorded_for(seeds: Sequence[tuple[tuple[Node, int], Handle]]) -> bool:
    """True if a reverse pass from ``seeds`` must be recorded, as part of a function that a transform runs.

    That is so if an output or a cotangent in ``seeds`` depends on a variable of the transform.
    """
    if not _variables or not is_grad_enabled():
        return False
    cotangents = (ct._node for _, ct in seeds if ct._node is not None)
    return any(map(is_differentiated, (*(node for (node, _), _ in seeds), *cotangents)))


def check_leaves(x: Operand | NDArray | complex, operation: str, argument: str, remedy: str) -> None:
    """Check a value before its entries are used by code through which no derivative flows.

    Raises GradientError if it is a handle that a transform differentiates.
    """
    node = getattr(x, "_node", None)
    if node is not None and is_grad_enabled() and is_differentiated(node):
        raise GradientError(
            operation,
            argument,
            got=f"a tensor that is being differentiated ({node.describe()})",
            expected="a constant: no gradient flows through this",
            remedy=remedy,
        )


def check_conversion(x: Handle, operation: str) -> None:
    """Check a handle before it becomes a Python number because a caller asked for one.

    NumPy asks where one is assigned to an entry of an array, and wraps what is raised in a ValueError of its
    own about sequences (it takes whatever has items for one): what is said here stands above that.

    Raises GradientError where a transform would lose the derivative; warns with DetachWarning where a later
    ``backward`` would. Nothing is lost under `no_grad`.
    """
    if x._node is None or not is_grad_enabled():
        return
    instead = "a function of iverson in place of one of Python or math: iverson.exp, not math.exp"
    if is_assignment(user_frame()):
        operation = "assignment to an entry of an array that is no tensor"
        instead = "iverson.stack of the entries, or an assignment to a tensor: y = iverson.zeros(n); y[0] = x"
    elif theirs := running_call():
        operation, instead = theirs, f"{counterpart(theirs) or 'functions of iverson'} in place of {theirs}"
    if is_differentiated(x._node):
        raise GradientError(
            operation,
            "x",
            got=f"a tensor that is being differentiated ({x._node.describe()})",
            expected=instead,
            remedy="call x.item() or x.detach() if no gradient is to flow through the number",
        )
    warn(
        f"{operation}: a tensor that tracks gradients ({x._node.describe()}) becomes a Python number, and no "
        f"gradient flows through that; use {instead}; or x.item() or x.detach() to say that this is meant",
        DetachWarning,
    )


def check_in_place(x: Handle, operation: str) -> None:
    """Check a handle before it is rebound in place; raises GradientError for a leaf with ``.grad``.

    After the write the leaf would be a result without ``.grad``. The arguments of a function that a transform
    runs may be written: they are handles of the function's own.
    """
    node = x._node
    if node is None or node.op is not None or node in _variables or not is_grad_enabled():
        return
    if getattr(x, "_place", None) is not None:
        raise GradientError(
            operation,
            "x",
            got="a leaf that tracks gradients",
            expected="a result, or no_grad(): the leaf would be a result from then on, without .grad",
            remedy="update it under iverson.autograd.no_grad(), or work on iverson.asarray(x, copy=True)",
        )


def not_tracked(
    x: Handle, operation: str, argument: str, remedy: str = "call x.requires_grad_() before computing with it"
) -> GradientError:
    """The error for a tensor without a gradient.

    For a value of a level, the text says that its gradient is known only outside of the level.
    """
    if has_entries(x):
        problem = "a tensor that does not require grad"
    else:
        problem = "a value of a call that is traced or mapped, whose gradient is taken outside of it"
        remedy = (
            "do so with the tensor before the call, or with its result; or differentiate inside, by "
            "iverson.grad or of x = x.detach().requires_grad_()"
        )
    return GradientError(
        operation, argument, got=problem, expected="a leaf or a result recorded from one", remedy=remedy
    )


def check_stays(x: Handle) -> None:
    """Check a handle before ``requires_grad_(False)``: raises GradientError for a value of a level, which may
    be differentiated from outside all the same."""
    if not has_entries(x):
        raise GradientError(
            "requires_grad_",
            "x",
            got="False for a value of this call, of which the caller's tensor learns nothing",
            expected="arguments that stay what they are",
            remedy="take x = x.detach() for a constant in the function",
        )


def check_no_leaves(arguments: Sequence[Handle], operation: str) -> None:
    """Check the handles on which a level has run a function; raises GradientError if one is now a leaf."""
    for k, x in enumerate(arguments):
        if x._node is not None and x._node.op is None:
            raise GradientError(
                operation,
                f"tensor {k} of the arguments",
                got="requires_grad_() on a value of this call, of which the caller's tensor learns nothing",
                expected="arguments that stay what they are",
                remedy="take x = x.detach().requires_grad_() for a leaf in the function, or iverson.grad; or "
                "call requires_grad_() on the tensor before the call, and backward() after it",
            )
