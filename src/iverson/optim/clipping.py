"""Gradient clipping: bounds on the norm or on the entries of gradients, each of which keeps its layout."""

from __future__ import annotations

from collections.abc import Iterator, ValuesView
from typing import TYPE_CHECKING, Any

from iverson.array_api.entries.joining import stack
from iverson.array_api.reduction.norms import vector_norm
from iverson.autograd.mode import no_grad
from iverson.core.dispatch import Operand, Wrapper, has_entries, unwrap, value_of, zero_filled
from iverson.core.errors import ArgumentTypeError, GradientError, described
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import DType
from iverson.handles import Tensor, asarray
from iverson.layouts import Sparse, Zero
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import NonNegative
    from iverson.optim.base import Parameters


def _leaves(params: Parameters, operation: str) -> list[Any]:
    import optree

    tree: Any = list(params) if isinstance(params, (Iterator, ValuesView)) else params
    leaves = optree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, Wrapper))
    for k, p in enumerate(leaves):
        if not isinstance(p, Operand):
            raise ArgumentTypeError(operation, "params", got=f"leaf {k}: {described(p)}", expected="Tensors")
    return list(leaves)


def _with_gradient(params: Parameters, operation: str) -> list[Any]:
    """List of the parameters that have a gradient other than zero layout; raises if a leaf is no tensor."""
    return [
        p
        for p in _leaves(params, operation)
        if p.grad is not None and type(value_of(unwrap(p.grad))) is not Zero
    ]


def _single(g: Array) -> Array:
    """Gradient ``g`` with each stored entry once: repeated entries of a sparse tensor are summed."""
    value = value_of(unwrap(g))
    return F.coalesce(g) if isinstance(value, Sparse) and not value.pattern.distinct else g


@checked
def clip_grad_norm_(
    params: Parameters, max_norm: NonNegative, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale the gradients of parameters, in place, so that the norm of all of them is at most ``max_norm``.

    Parameters
    ----------
    params : a pytree of tensors, or an iterator over them; their ``.grad`` is what is scaled.
    max_norm : the largest norm that stays.
    norm_type : the order of the norm; inf for the largest entry.
    error_if_nonfinite : whether a norm that is not finite is an error.

    Returns the norm before. Sparse and masked gradients, boxes and rows keep their layouts. Raises
    ArgumentTypeError unless params are tensors, ArgumentError for a bound below 0, GradientError.

    >>> import iverson as iv
    >>> from iverson import optim
    >>> p = iv.asarray([3.0, 4.0], requires_grad=True)
    >>> (p * p).sum().backward()
    >>> optim.clip_grad_norm_([p], 5.0)
    iverson.Tensor(10.)
    >>> p.grad.round(decimals=4)
    iverson.Tensor([3., 4.])
    """
    with no_grad():
        tensors = _with_gradient(params, "clip_grad_norm_")
        gradients = [_single(p.grad) for p in tensors]
        if not tensors:
            return asarray(0.0)
        norms = [_norm(g, norm_type) for g in gradients]
        total: Any = norms[0] if len(norms) == 1 else vector_norm(stack(norms), ord=norm_type)
        if error_if_nonfinite and has_entries(total) and not F.to_numpy(F.isfinite(total)):
            raise GradientError(
                "clip_grad_norm_",
                "params",
                got=f"gradients whose norm is {total.item()}",
                remedy="look for a parameter whose gradient is not, or pass error_if_nonfinite=False",
            )
        factor = F.minimum(max_norm / (total + 1e-6), 1.0)
        for p, g in zip(tensors, gradients, strict=True):
            p.grad = g * F.astype(factor, dtype=_real(g.dtype))
        return total  # type: ignore[no-any-return]


def _real(dtype: DType) -> DType:
    real: DType = dtype.type(0).real.dtype
    return real


def _norm(g: Array, order: float) -> Any:
    norm = vector_norm(g, ord=order)
    return zero_filled(norm)


@checked
def clip_grad_value_(params: Parameters, clip_value: NonNegative) -> None:
    """Bound the entries of the gradients of parameters, in place, by -clip_value and clip_value.

    Sparse and masked gradients keep their layouts. Raises ArgumentTypeError unless params are tensors,
    ArgumentError for a bound below 0, DTypeError for complex gradients.

    >>> import iverson as iv
    >>> from iverson import optim
    >>> p = iv.asarray([3.0, 0.5], requires_grad=True)
    >>> (p * p).sum().backward()
    >>> optim.clip_grad_value_(p, 2.0)
    >>> p.grad
    iverson.Tensor([2., 1.])
    """
    with no_grad():
        for p in _with_gradient(params, "clip_grad_value_"):
            g = _single(p.grad)
            value = value_of(unwrap(g))
            if isinstance(value, Sparse) and not isinstance(g, Wrapper):
                entries = F.clip(F.values_at(g, pattern=value.pattern), -clip_value, clip_value)
                p.grad = F.from_values(entries, pattern=value.pattern)
            else:
                p.grad = F.clip(g, -clip_value, clip_value)


__all__ = ["clip_grad_norm_", "clip_grad_value_"]
