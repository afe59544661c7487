"""Functions of neural networks that are not elementwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from iverson.array_api.arguments import as_inexact, as_operand, check_kind
from iverson.array_api.methods import method
from iverson.array_api.reductions import mean
from iverson.array_api.reductions import sum as _sum
from iverson.core.dispatch import Wrapper, has_entries, unwrap
from iverson.core.errors import IndexingError, ShapeError
from iverson.core.shapes import Shape, check_choice, normalize_axis
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.tensor.typing import A, ArrayLike, Axis


def _along_axis(name: str, x: Any, axis: Any) -> Any:
    x = as_inexact(x, name)
    check_kind(x, "f", name)
    return getattr(F, name)(x, axis=normalize_axis(axis, x.ndim, name))


@method
def softmax(x: A | ArrayLike, /, axis: Axis = -1) -> A:
    """exp(x) / sum(exp(x)) along an axis.

    Shifted by the maximum, so it does not overflow; integers become float64. Raises AxisError,
    DTypeError for complex x.

    >>> from iverson import asarray
    >>> softmax(asarray([0., 0.]))
    iverson.Tensor([0.5, 0.5])
    """
    return _along_axis("softmax", x, axis)


@method
def log_softmax(x: A | ArrayLike, /, axis: Axis = -1) -> A:
    """x - log(sum(exp(x))) along an axis.

    Shifted by the maximum, so it does not overflow; integers become float64. Raises AxisError,
    DTypeError for complex x.

    >>> from iverson import asarray
    >>> log_softmax(asarray([0., 0.]))
    iverson.Tensor([-0.69314718, -0.69314718])
    """
    return _along_axis("log_softmax", x, axis)


@method
def cross_entropy(
    logits: A | ArrayLike,
    labels: A | ArrayLike,
    /,
    *,
    axis: Axis | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> A:
    """The cross entropy -sum(p * log_softmax(logits)) over the classes, averaged over the examples.

    Parameters
    ----------
    logits : the classes are along ``axis``; by default axis 1, or 0 for a vector, as in PyTorch.
    labels : integers, the classes' numbers, of the shape of logits without that axis; or probabilities p
        of the shape of logits, in which it differentiates too. An example whose label is unspecified (a
        MaskedTensor) has no loss.
    axis : of the classes.
    reduction : "mean" over the examples, "sum", or "none" for one loss per example.

    Raises ShapeError where shapes do not fit, IndexingError for a class that does not exist, DTypeError.

    >>> from iverson import asarray
    >>> cross_entropy(asarray([[0., 0.], [0., 0.]]), asarray([0, 1]))
    iverson.Tensor(0.69314718)
    """
    check_choice(reduction, ("mean", "sum", "none"), "cross_entropy", "reduction")
    logits = as_inexact(logits, "cross_entropy", "logits")
    check_kind(logits, "f", "cross_entropy", "logits")
    labels = as_operand(labels, "cross_entropy", "labels")
    check_kind(labels, "iuf", "cross_entropy", "labels")
    k = normalize_axis(min(1, logits.ndim - 1) if axis is None else axis, logits.ndim, "cross_entropy")
    numbers = labels.dtype.kind in "iu"
    wanted = logits.shape[:k] + logits.shape[k + 1 :] if numbers else logits.shape
    if labels.shape != wanted:
        raise ShapeError(
            "cross_entropy",
            "labels",
            got=f"shape {labels.shape} for logits of shape {logits.shape}",
            expected=f"shape {wanted} for {'class numbers' if numbers else 'probabilities'}",
        )
    if numbers:
        classes = _classes(labels, logits.shape[k], (*wanted[:k], 1, *wanted[k:]))
        if 0 not in classes.shape or reduction != "mean":
            return F.cross_entropy(logits, classes, axis=k, reduction=reduction)
        return F.multiply(F.cross_entropy(logits, classes, axis=k, reduction="sum"), float("nan"))
    losses = -F.sum(labels * F.log_softmax(logits, axis=k), axis=(k,), keepdims=False)
    if reduction == "none":
        return losses
    return mean(losses) if reduction == "mean" else _sum(losses)


def _classes(labels: Any, count: int, shape: Shape) -> Any:
    """The class numbers in a shape, checked: an array, or masked as the labels are."""
    if not has_entries(unwrap(labels)):
        found = F.checked_index(labels, extent=count, operation="cross_entropy", argument="labels")
        return F.reshape(found, shape=shape)
    classes: np.ndarray[Any, Any] = np.asarray(F.to_numpy(unwrap(labels)), np.intp, order="C")
    # A negative number, seen as unsigned, is too large.
    if classes.size and classes.view(np.uintp).max() >= count:
        bad = classes.max() if classes.max() >= count else classes.min()
        raise IndexingError("cross_entropy", "labels", got=f"class {bad}", expected=f"one in [0, {count})")
    return F.reshape(labels, shape=shape) if isinstance(labels, Wrapper) else classes.reshape(shape)


__all__ = ["cross_entropy", "log_softmax", "softmax"]
