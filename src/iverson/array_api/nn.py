"""Softmax, log-softmax and cross entropy. Layers and most losses are in `iverson.nn`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import as_inexact, as_operand, check_kind, in_single
from iverson.array_api.entries.creation import ones_like, zero_of
from iverson.array_api.entries.indexing import take_along_axis
from iverson.array_api.reduction.reductions import entry_count, mean
from iverson.array_api.reduction.reductions import sum as _sum
from iverson.core.dispatch import Wrapper, has_entries, unwrap
from iverson.core.errors import ArgumentError, IndexingError, ShapeError
from iverson.core.shapes import Shape, as_int, check_choice, normalize_axis
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis, Share


def _along_axis(name: str, x: Array | ArrayLike, axis: Axis) -> Any:
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
@in_single
def cross_entropy(
    logits: A | ArrayLike,
    labels: A | ArrayLike,
    /,
    weight: A | ArrayLike | None = None,
    *,
    axis: Axis | None = None,
    ignore_index: SupportsIndex | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: Share = 0.0,
) -> A:
    """The cross entropy -sum(p * log_softmax(logits)) over the classes, averaged over the examples.

    Parameters
    ----------
    logits : the classes are along ``axis``; by default axis 1, or 0 for a vector, as in PyTorch.
    labels : integers, the classes' numbers, of the shape of logits without that axis; or probabilities p
        of the shape of logits, in which it differentiates too. An example whose label is unspecified (a
        MaskedTensor) has no loss.
    weight : a factor for each class. The mean over examples with class numbers divides by their weights.
    axis : of the classes.
    ignore_index : a label of examples without a loss, which no mean counts (in PyTorch, -100 unless given).
    reduction : "mean" over the examples, "sum", or "none" for one loss per example.
    label_smoothing : the share of all classes alike in p, in [0, 1] (Szegedy et al., 2016).

    Raises ShapeError where shapes do not fit, IndexingError for a class that does not exist, DTypeError,
    ArgumentError for a share outside of [0, 1].

    >>> from iverson import asarray
    >>> cross_entropy(asarray([[0., 0.], [0., 0.]]), asarray([0, 1]))
    iverson.Tensor(0.69314718)
    """
    check_choice(reduction, ("mean", "sum", "none"), "cross_entropy", "reduction")
    logits = as_inexact(logits, "cross_entropy", "logits")
    check_kind(logits, "f", "cross_entropy", "logits")
    labels = as_operand(labels, "cross_entropy", "labels")
    check_kind(labels, "iuf", "cross_entropy", "labels")
    k = class_axis(logits, axis, "cross_entropy")
    numbers = labels.dtype.kind in "iu"
    label_shape = logits.shape[:k] + logits.shape[k + 1 :] if numbers else logits.shape
    if labels.shape != label_shape:
        raise ShapeError(
            "cross_entropy",
            "labels",
            got=f"shape {labels.shape} for logits of shape {logits.shape}",
            expected=f"shape {label_shape} for {'class numbers' if numbers else 'probabilities'}",
        )
    if numbers and weight is None and ignore_index is None and not label_smoothing:
        classes = _classes("cross_entropy", labels, logits.shape[k], (*label_shape[:k], 1, *label_shape[k:]))
        if 0 not in classes.shape or reduction != "mean":
            return F.cross_entropy(logits, classes, axis=k, reduction=reduction)
        return F.multiply(F.cross_entropy(logits, classes, axis=k, reduction="sum"), float("nan"))
    logs = F.log_softmax(logits, axis=k)
    if numbers:
        return of_classes("cross_entropy", logs, labels, k, weight, ignore_index, reduction, label_smoothing)
    if ignore_index is not None:
        raise ArgumentError(
            "cross_entropy",
            "ignore_index",
            got=f"{ignore_index} with probabilities",
            expected="class numbers",
        )
    p = labels
    if label_smoothing:
        p = labels * (1 - label_smoothing) + label_smoothing / entry_count(logs, (k,), True)
    if weight is not None:
        p = p * _class_weights("cross_entropy", weight, logs, k)
    return averaged(-F.sum(p * logs, axis=(k,), keepdims=False), reduction, "cross_entropy")


def class_axis(x: Array, axis: Axis | None, operation: str) -> int:
    """Number of the axis of classes: ``axis`` normalised; if None, axis 1, or the only axis."""
    return normalize_axis(min(1, x.ndim - 1) if axis is None else axis, x.ndim, operation)


def averaged(losses: Array, reduction: str, operation: str) -> Any:
    """Losses as they are ("none"), or their mean or sum, as ``reduction`` says."""
    check_choice(reduction, ("mean", "sum", "none"), operation, "reduction")
    if reduction == "none":
        return losses
    return mean(losses) if reduction == "mean" else _sum(losses)


def of_classes(
    operation: str,
    logs: Array,
    labels: Array,
    k: int,
    weight: Array | ArrayLike | None,
    ignore_index: SupportsIndex | None,
    reduction: str,
    smoothing: float = 0.0,
) -> Any:
    """Losses of examples: minus the logarithm of the probability of the labelled class, weighted and reduced.

    logs : the logarithms of probabilities, with the classes along axis ``k``.
    weight : a factor for each class, or None. ignore_index : the label of examples to leave out, or None.
    smoothing : the share of the loss that is spread evenly over all classes.
    """
    check_choice(reduction, ("mean", "sum", "none"), operation, "reduction")
    shape = logs.shape[:k] + logs.shape[k + 1 :]
    included = (
        None if ignore_index is None else F.not_equal(labels, as_int(ignore_index, operation, "ignore_index"))
    )
    numbers = labels if included is None else F.where(included, labels, 0)
    classes = _classes(operation, numbers, logs.shape[k], (*shape[:k], 1, *shape[k:]))
    weights = None if weight is None else _class_weights(operation, weight, logs, k)
    losses = F.squeeze(take_along_axis(-logs, as_operand(classes, operation), axis=k), axis=(k,))
    factors = None
    if weights is not None:
        if isinstance(classes, Wrapper):
            factors = take_along_axis(F.broadcast_to(weights, shape=logs.shape), classes, axis=k)
            factors = F.squeeze(factors, axis=(k,))
        else:
            factors = F.gather(
                F.reshape(weights, shape=(logs.shape[k],)), F.squeeze(classes, axis=(k,)), axes=(0,)
            )
        losses = losses * factors
    if smoothing:
        every = logs if weights is None else logs * weights
        count = entry_count(every, (k,), False)
        alike = F.sum(every, axis=(k,), keepdims=False) * (smoothing / count)
        losses = losses * (1 - smoothing) - alike
    losses = losses if included is None else F.where(included, losses, zero_of(losses))
    if reduction != "mean" or (factors is None and included is None):
        return averaged(losses, reduction, operation)
    example_weights = F.astype(included, dtype=logs.dtype) if factors is None else factors
    masked = isinstance(losses, Wrapper)
    if masked:  # an example without a loss does not count
        example_weights = ones_like(losses) * example_weights
    return _sum(losses) / _sum(
        example_weights if included is None else F.where(included, example_weights, zero_of(example_weights))
    )


def _class_weights(operation: str, weight: Array | ArrayLike, logs: Array, k: int) -> Any:
    """Factors for classes, in a shape that broadcasts with ``logs``: along axis ``k``."""
    weight = as_inexact(weight, operation, "weight")
    count = logs.shape[k]
    if weight.shape != (count,):
        raise ShapeError(
            operation, "weight", got=f"shape {weight.shape}", expected=f"one for each of {count} classes"
        )
    return F.reshape(weight, shape=(count,) + (1,) * (logs.ndim - 1 - k))


def _classes(operation: str, labels: Array, count: int, shape: Shape) -> Any:
    """Checked class numbers in ``shape``: a NumPy array, a traced handle, or a masked tensor if the labels
    are one.

    count : the number of classes; raises IndexingError for numbers outside of [0, count).
    """
    if not has_entries(unwrap(labels)):
        numbers = F.checked_index(labels, least=0, extent=count, operation=operation, argument="labels")
        return F.reshape(numbers, shape=shape)
    classes: np.ndarray[Any, Any] = np.asarray(F.to_numpy(unwrap(labels)), np.intp, order="C")
    # A negative number, seen as unsigned, is too large.
    if classes.size and classes.view(np.uintp).max() >= count:
        bad = classes.max() if classes.max() >= count else classes.min()
        raise IndexingError(
            operation,
            "labels",
            got=f"class {bad}",
            expected=f"one in [0, {count})",
            remedy=f"pass ignore_index={bad} to leave such examples out",
        )
    return F.reshape(labels, shape=shape) if isinstance(labels, Wrapper) else classes.reshape(shape)


__all__ = ["cross_entropy", "log_softmax", "softmax"]
