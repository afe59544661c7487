"""Losses: one number for each entry or example, averaged or summed.

Both arrays of a loss have one shape: a prediction of shape (n,) beside a target of shape (n, 1) is an error
and not n * n differences.
"""

from __future__ import annotations

from math import log as _log
from math import pi
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from iverson.array_api.conventions.operands import as_operand, check_kind, check_range, in_single
from iverson.array_api.entries.creation import zero_of
from iverson.array_api.nn import averaged, class_axis, cross_entropy, of_classes
from iverson.array_api.reduction.norms import vector_norm
from iverson.array_api.reduction.reductions import entry_count, mean
from iverson.core import dtypes
from iverson.core.dispatch import Wrapper
from iverson.core.errors import ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import broadcast_shapes, check_choice, normalize_axis
from iverson.nn.layer_arguments import alike, pair, real, together
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis, NonNegative, Positive

    Reduction = Literal["mean", "sum", "none"]


def _weighted(losses: Array, weight: Array | ArrayLike | None, name: str) -> Any:
    if weight is None:
        return losses
    weight = as_operand(weight, name, "weight")
    broadcast_shapes(name, losses.shape, weight.shape)
    return losses * weight


@checked
@in_single
def mse_loss(x: A | ArrayLike, target: A | ArrayLike, /, *, reduction: Reduction = "mean") -> A:
    """(x - target)**2, entry by entry.

    Parameters
    ----------
    x, target : arrays of one shape.
    reduction : "mean" over all entries, "sum", or "none".

    Raises ShapeError where shapes differ, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> mse_loss(asarray([1., 2.]), asarray([1., 4.]))
    iverson.Tensor(2.)
    """
    x, target = pair("mse_loss", x, target)
    return averaged(F.square(x - target), reduction, "mse_loss")


@checked
@in_single
def l1_loss(x: A | ArrayLike, target: A | ArrayLike, /, *, reduction: Reduction = "mean") -> A:
    """abs(x - target), entry by entry.

    Parameters
    ----------
    x, target : arrays of one shape.
    reduction : "mean" over all entries, "sum", or "none".

    Raises ShapeError where shapes differ, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> l1_loss(asarray([1., 2.]), asarray([1., 4.]))
    iverson.Tensor(1.)
    """
    x, target = pair("l1_loss", x, target)
    return averaged(F.abs(x - target), reduction, "l1_loss")


@checked
@in_single
def huber_loss(
    x: A | ArrayLike, target: A | ArrayLike, /, *, reduction: Reduction = "mean", delta: Positive = 1.0
) -> A:
    """d**2 / 2 of a difference d of at most delta, else delta * (abs(d) - delta / 2) (Huber, 1964).

    Parameters
    ----------
    x, target : arrays of one shape.
    reduction : "mean" over all entries, "sum", or "none".
    delta : where the loss becomes linear; above 0.

    Raises ShapeError where shapes differ, DTypeError for complex numbers, ArgumentError for delta.

    >>> from iverson import asarray
    >>> huber_loss(asarray([1., 2.]), asarray([2., 5.]), reduction="none")
    iverson.Tensor([0.5, 2.5])
    """
    x, target = pair("huber_loss", x, target)
    return averaged(_linear_beyond(delta, x - target), reduction, "huber_loss")


def _linear_beyond(bound: float, d: Array) -> Any:
    """Function d**2 / 2 for abs(d) up to ``bound``, and a line beyond it."""
    near = F.clip(d, -bound, bound)
    return near * (d - 0.5 * near)


@checked
@in_single
def smooth_l1_loss(
    x: A | ArrayLike, target: A | ArrayLike, /, *, reduction: Reduction = "mean", beta: NonNegative = 1.0
) -> A:
    """d**2 / (2 * beta) of the difference d where it is below beta, else abs(d) - beta / 2 (Girshick, 2015).

    Parameters
    ----------
    x, target : arrays of one shape.
    reduction : "mean" over all entries, "sum", or "none".
    beta : where the loss becomes linear; 0 makes it `l1_loss`.

    Raises ShapeError where shapes differ, DTypeError for complex numbers, ArgumentError for beta below 0.

    >>> from iverson import asarray
    >>> smooth_l1_loss(asarray([1., 2.]), asarray([2., 5.]), reduction="none", beta=2.0)
    iverson.Tensor([0.25, 2.  ])
    """
    x, target = pair("smooth_l1_loss", x, target)
    d = x - target
    losses = _linear_beyond(beta, d) / beta if beta else F.abs(d)
    return averaged(losses, reduction, "smooth_l1_loss")


@checked
@in_single
def nll_loss(
    x: A | ArrayLike,
    labels: A | ArrayLike,
    /,
    weight: A | ArrayLike | None = None,
    *,
    axis: Axis | None = None,
    ignore_index: SupportsIndex | None = None,
    reduction: Reduction = "mean",
) -> A:
    """Minus the entry of each example's class, for x the logarithms of probabilities.

    Parameters
    ----------
    x : the classes are along ``axis``; by default axis 1, or 0 for a vector, as in PyTorch.
    labels : the classes' numbers, of the shape of x without that axis.
    weight : a factor for each class. The mean divides by those of the examples.
    axis : of the classes.
    ignore_index : a label of examples without a loss, which no mean counts (in PyTorch, -100 unless given).
    reduction : "mean" over the examples, "sum", or "none" for one loss per example.

    Raises ShapeError where shapes do not fit, IndexingError for a class that does not exist, DTypeError.

    >>> from iverson import asarray
    >>> nll_loss(asarray([[-1., -2.], [-3., -4.]]), asarray([0, 1]))
    iverson.Tensor(2.5)
    """
    x, labels = real(x, "nll_loss"), as_operand(labels, "nll_loss", "labels")
    check_kind(labels, "iu", "nll_loss", "labels")
    k = class_axis(x, axis, "nll_loss")
    if labels.shape != x.shape[:k] + x.shape[k + 1 :]:
        raise ShapeError(
            "nll_loss",
            "labels",
            got=f"shape {labels.shape} for x of shape {x.shape}",
            expected=f"shape {x.shape[:k] + x.shape[k + 1 :]}",
        )
    return of_classes("nll_loss", x, labels, k, weight, ignore_index, reduction)


def _log_from_below(x: Array) -> Any:
    """Logarithm of x, but at least -100, as in PyTorch; where x is 0, the derivative is 0."""
    positive = x > 0
    return F.where(positive, F.maximum(F.log(F.where(positive, x, 1.0)), -100.0), -100.0)


@checked
@in_single
def binary_cross_entropy(
    x: A | ArrayLike,
    target: A | ArrayLike,
    /,
    weight: A | ArrayLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> A:
    """-(target * log(x) + (1 - target) * log(1 - x)), the logarithms at least -100.

    Parameters
    ----------
    x, target : probabilities, arrays of one shape; differentiable in both.
    weight : factors of the losses; they broadcast with them.
    reduction : "mean" over all entries, "sum", or "none".

    Raises ShapeError where shapes do not fit, ArgumentError for entries outside of [0, 1], where they are
    known, DTypeError.

    >>> from iverson import asarray
    >>> binary_cross_entropy(asarray([0.5, 0.]), asarray([1., 0.]), reduction="none")
    iverson.Tensor([0.69314718, 0.        ])
    """
    x, target = pair("binary_cross_entropy", x, target)
    check_range(x, "binary_cross_entropy", "x", 0, 1, remedy="use binary_cross_entropy_with_logits")
    check_range(target, "binary_cross_entropy", "target", 0, 1)
    losses = (target - 1.0) * _log_from_below(1.0 - x) - target * _log_from_below(x)
    return averaged(_weighted(losses, weight, "binary_cross_entropy"), reduction, "binary_cross_entropy")


@checked
@in_single
def binary_cross_entropy_with_logits(
    x: A | ArrayLike,
    target: A | ArrayLike,
    /,
    weight: A | ArrayLike | None = None,
    *,
    reduction: Reduction = "mean",
    pos_weight: A | ArrayLike | None = None,
) -> A:
    """The binary cross entropy of sigmoid(x) and target, without overflow.

    Parameters
    ----------
    x, target : arrays of one shape: any real numbers, and probabilities; differentiable in both.
    weight : factors of the losses; they broadcast with them.
    reduction : "mean" over all entries, "sum", or "none".
    pos_weight : factors of the terms of target; they broadcast with it.

    Raises ShapeError where shapes do not fit, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> binary_cross_entropy_with_logits(asarray([0., 1000.]), asarray([1., 1.]), reduction="none")
    iverson.Tensor([0.69314718, 0.        ])
    """
    name = "binary_cross_entropy_with_logits"
    x, target = pair(name, x, target)
    below = F.softplus(-x)
    if pos_weight is not None:
        below = below * (1.0 + (_weighted(1.0 + 0.0 * target, pos_weight, name) - 1.0) * target)
    losses = (1.0 - target) * x + below
    return averaged(_weighted(losses, weight, name), reduction, name)


@checked
@in_single
def kl_div(
    x: A | ArrayLike,
    target: A | ArrayLike,
    /,
    *,
    reduction: Literal["mean", "batchmean", "sum", "none"] = "mean",
    log_target: bool = False,
) -> A:
    """target * (log(target) - x), for x the logarithms of probabilities; 0 where target is 0.

    Parameters
    ----------
    x, target : arrays of one shape: logarithms, and probabilities; differentiable in both.
    reduction : "mean" over all entries, "batchmean" (the sum over the extent of the first axis: the
        divergence of Kullback and Leibler), "sum", or "none".
    log_target : whether target holds logarithms too.

    Raises ShapeError where shapes differ, DTypeError for complex numbers.

    >>> from iverson import asarray, log
    >>> kl_div(log(asarray([[0.5, 0.5]])), asarray([[1., 0.]]), reduction="batchmean")
    iverson.Tensor(0.69314718)
    """
    check_choice(reduction, ("mean", "batchmean", "sum", "none"), "kl_div", "reduction")
    x, target = pair("kl_div", x, target)
    losses = F.exp(target) * (target - x) if log_target else F.xlogy(target, target) - target * x
    if reduction != "batchmean":
        return averaged(losses, reduction, "kl_div")
    total = averaged(losses, "sum", "kl_div")
    if not losses.ndim:
        return total
    examples = F.sum(losses, axis=tuple(range(1, losses.ndim)), keepdims=False)
    count = entry_count(examples, (0,), False)
    return total / (count if isinstance(count, Wrapper) else max(count, 1))


@checked
@in_single
def cosine_similarity(x1: A | ArrayLike, x2: A | ArrayLike, /, axis: Axis = 1, eps: NonNegative = 1e-8) -> A:
    """The cosine of the angle between vectors along an axis: x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)).

    Parameters
    ----------
    x1, x2 : arrays of shapes that broadcast.
    axis : of the vectors.
    eps : the least norm that is divided by.

    Raises AxisError, ShapeError, DTypeError for complex numbers, ArgumentError for eps below 0.

    >>> from iverson import asarray
    >>> cosine_similarity(asarray([[3., 4.]]), asarray([[0., 2.]]))
    iverson.Tensor([0.8])
    """
    a, b = alike("cosine_similarity", x1=x1, x2=x2)
    shape = broadcast_shapes("cosine_similarity", a.shape, b.shape)
    k = normalize_axis(axis, len(shape), "cosine_similarity")
    a, b = together(*(F.broadcast_to(c, shape=shape) for c in (a, b)))
    dot = F.sum(a * b, axis=(k,), keepdims=False)
    first, second = (F.maximum(vector_norm(c, axis=k), eps) for c in (a, b))
    return dot / (first * second)


@checked
@in_single
def pairwise_distance(
    x1: A | ArrayLike, x2: A | ArrayLike, /, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> A:
    """The p-norm of x1 - x2 + eps along the last axis.

    Raises ShapeError where shapes do not broadcast, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> pairwise_distance(asarray([[3., 4.]]), asarray([[0., 0.]]), eps=0.0)
    iverson.Tensor([5.])
    """
    a, b = alike("pairwise_distance", x1=x1, x2=x2)
    return vector_norm(a - b + eps, axis=-1, keepdims=keepdims, ord=p)


@checked
@in_single
def cosine_embedding_loss(
    x1: A | ArrayLike,
    x2: A | ArrayLike,
    target: A | ArrayLike,
    /,
    margin: float = 0.0,
    *,
    reduction: Reduction = "mean",
) -> A:
    """1 - cos(x1, x2) where target is 1, else max(cos(x1, x2) - margin, 0).

    Parameters
    ----------
    x1, x2 : vectors, or matrices of one in each row.
    target : 1 or -1 for each pair.
    margin : the cosine from which pairs that differ are penalised.
    reduction : "mean" over the pairs, "sum", or "none".

    Raises ShapeError where shapes do not fit, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> cosine_embedding_loss(asarray([1., 0.]), asarray([0., 2.]), asarray(1))
    iverson.Tensor(1.)
    """
    a, b = alike("cosine_embedding_loss", x1=x1, x2=x2)
    target = as_operand(target, "cosine_embedding_loss", "target")
    if a.shape != b.shape or a.ndim not in (1, 2) or target.shape != a.shape[:-1]:
        raise ShapeError(
            "cosine_embedding_loss",
            "target",
            got=f"shape {target.shape} for x1 of shape {a.shape} and x2 of shape {b.shape}",
            expected="two vectors and one number, or two matrices and one for each row",
        )
    last = (a.ndim - 1,)
    a, b = together(a, b)
    dot, first, second = (F.sum(c, axis=last, keepdims=False) for c in (a * b, a * a, b * b))
    cos = dot * F.rsqrt((first + 1e-12) * (second + 1e-12))
    losses = F.where(F.equal(target, 1), 1.0 - cos, F.relu(cos - margin))
    return averaged(losses, reduction, "cosine_embedding_loss")


@checked
@in_single
def triplet_margin_loss(
    anchor: A | ArrayLike,
    positive: A | ArrayLike,
    negative: A | ArrayLike,
    /,
    margin: Positive = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: Reduction = "mean",
) -> A:
    """max(distance to positive - distance to negative + margin, 0) (Balntas et al., 2016).

    Parameters
    ----------
    anchor, positive, negative : vectors along the last axis.
    margin : how much further away the negative one should be; above 0.
    p : the order of the norm.
    eps : added to differences.
    swap : whether the distance from positive to negative counts where it is smaller.
    reduction : "mean" over the triplets, "sum", or "none".

    Raises ShapeError where shapes do not broadcast, ArgumentError for a margin that is not above 0,
    DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> triplet_margin_loss(asarray([[0.]]), asarray([[3.]]), asarray([[2.]]))
    iverson.Tensor(2.)
    """
    name = "triplet_margin_loss"
    a, b, c = together(*alike(name, anchor=anchor, positive=positive, negative=negative))
    near, far = pairwise_distance(a, b, p, eps), pairwise_distance(a, c, p, eps)
    if swap:
        far = F.minimum(far, pairwise_distance(b, c, p, eps))
    return averaged(F.relu(near - far + margin), reduction, name)


@checked
@in_single
def margin_ranking_loss(
    x1: A | ArrayLike,
    x2: A | ArrayLike,
    target: A | ArrayLike,
    /,
    margin: float = 0.0,
    *,
    reduction: Reduction = "mean",
) -> A:
    """max(margin - target * (x1 - x2), 0): target is 1 where x1 should be the larger one, else -1.

    Raises ShapeError where shapes do not broadcast, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> margin_ranking_loss(asarray([1., 3.]), asarray([2., 2.]), asarray([1., 1.]))
    iverson.Tensor(0.5)
    """
    a, b, sign = alike("margin_ranking_loss", x1=x1, x2=x2, target=target)
    return averaged(F.relu(margin - sign * (a - b)), reduction, "margin_ranking_loss")


@checked
@in_single
def hinge_embedding_loss(
    x: A | ArrayLike,
    target: A | ArrayLike,
    /,
    margin: float = 1.0,
    *,
    reduction: Reduction = "mean",
) -> A:
    """x where target is 1, and max(margin - x, 0) where it is -1.

    Raises ShapeError where shapes differ, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> hinge_embedding_loss(asarray([0.5, 0.25]), asarray([1., -1.]), reduction="none")
    iverson.Tensor([0.5 , 0.75])
    """
    x, target = pair("hinge_embedding_loss", x, target)
    losses = F.where(F.equal(target, 1), x, F.where(F.equal(target, -1), F.relu(margin - x), zero_of(x)))
    return averaged(losses, reduction, "hinge_embedding_loss")


@checked
@in_single
def soft_margin_loss(x: A | ArrayLike, target: A | ArrayLike, /, *, reduction: Reduction = "mean") -> A:
    """log(1 + exp(-target * x)), without overflow; target is 1 or -1.

    Raises ShapeError where shapes differ, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> soft_margin_loss(asarray([0., -1000.]), asarray([1., 1.]), reduction="none")
    iverson.Tensor([6.93147181e-01, 1.00000000e+03])
    """
    x, target = pair("soft_margin_loss", x, target)
    return averaged(F.softplus(-target * x), reduction, "soft_margin_loss")


@checked
@in_single
def multilabel_soft_margin_loss(
    x: A | ArrayLike,
    target: A | ArrayLike,
    /,
    weight: A | ArrayLike | None = None,
    *,
    reduction: Reduction = "mean",
) -> A:
    """The mean over classes of the cross entropy of sigmoid(x) and ``target``, 0 or 1 for each class.

    Parameters
    ----------
    x : of shape (..., classes).
    target : of the same shape.
    weight : a factor for each class.
    reduction : of the losses of the examples: "none", "mean" or "sum".

    Raises ShapeError where shapes differ, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> multilabel_soft_margin_loss(asarray([[0., 1000.]]), asarray([[1., 0.]]))
    iverson.Tensor(500.34657359)
    """
    name = "multilabel_soft_margin_loss"
    x, target = pair(name, x, target)
    if not x.ndim:
        raise ShapeError(name, "x", got="shape ()", expected="an axis of classes")
    terms = _weighted(F.softplus(x) - target * x, weight, name)
    return averaged(mean(terms, axis=-1), reduction, name)


@checked
@in_single
def gaussian_nll_loss(
    x: A | ArrayLike,
    target: A | ArrayLike,
    var: A | ArrayLike,
    /,
    full: bool = False,
    eps: NonNegative = 1e-6,
    *,
    reduction: Reduction = "mean",
) -> A:
    """(log(var) + (x - target)**2 / var) / 2: minus the logarithm of a normal density, but for a constant.

    Parameters
    ----------
    x, target : means and draws: arrays of one rank that broadcast.
    var : variances: a number, an array of the rank of the losses that broadcasts with them, or one of their
        shape without its last axis, whose entries are then of rows.
    full : whether the constant log(2 pi) / 2 is added.
    eps : the least variance that is divided by. The gradient is that at it, so a variance of 0 can grow.
    reduction : "mean" over all entries, "sum", or "none".

    Raises ShapeError where shapes do not fit, DTypeError for complex numbers, ArgumentError for a variance
    below 0 where it is known.

    >>> from iverson import asarray
    >>> gaussian_nll_loss(asarray([1.]), asarray([3.]), asarray([1.]))
    iverson.Tensor(2.)
    """
    x, target = real(x, "gaussian_nll_loss"), real(target, "gaussian_nll_loss", "target")
    if type(var) in (int, float):  # a Python number is weak
        var = np.asarray(var, dtypes.result_type(x, target))
    variance: Any = real(var, "gaussian_nll_loss", "var")
    shape = broadcast_shapes("gaussian_nll_loss", x.shape, target.shape)
    if x.ndim != target.ndim:
        raise ShapeError(
            "gaussian_nll_loss",
            "target",
            got=f"shape {target.shape} for x of shape {x.shape}",
            expected=f"{x.ndim} axes",
            remedy="reshape or broadcast_to one of them",
        )
    if variance.shape == shape[:-1] and shape:
        variance = F.expand_dims(variance, axis=(variance.ndim,))
    if (
        variance.ndim not in (0, len(shape))
        or broadcast_shapes("gaussian_nll_loss", shape, variance.shape) != shape
    ):
        raise ShapeError(
            "gaussian_nll_loss",
            "var",
            got=f"shape {variance.shape} for losses of shape {shape}",
            expected=f"(), {shape[:-1]}, or {len(shape)} axes that broadcast with them",
        )
    check_range(variance, "gaussian_nll_loss", "var", 0, nan=True)
    spread = variance + (F.maximum(variance, eps) - variance).detach()
    losses = 0.5 * (F.log(spread) + F.square(x - target) / spread) + (0.5 * _log(2 * pi) if full else 0.0)
    return averaged(losses, reduction, "gaussian_nll_loss")


@checked
@in_single
def poisson_nll_loss(
    x: A | ArrayLike,
    target: A | ArrayLike,
    /,
    log_input: bool = True,
    full: bool = False,
    eps: NonNegative = 1e-8,
    *,
    reduction: Reduction = "mean",
) -> A:
    """exp(x) - target * x: minus the logarithm of a Poisson probability, but for a term of target alone.

    Parameters
    ----------
    x, target : logarithms of rates (or rates) and counts, arrays of one shape.
    log_input : whether x are logarithms; if not, x - target * log(x + eps).
    full : whether Stirling's approximation of log(target!) is added where target is above 1.
    eps : added to rates.
    reduction : "mean" over all entries, "sum", or "none".

    Raises ShapeError where shapes differ, DTypeError for complex numbers.

    >>> from iverson import asarray
    >>> poisson_nll_loss(asarray([0.]), asarray([3.]))
    iverson.Tensor(1.)
    """
    x, target = pair("poisson_nll_loss", x, target)
    losses = F.exp(x) - target * x if log_input else x - target * F.log(x + eps)
    if full:
        n = F.where(target > 1, target, 1.0)
        term = n * F.log(n) - n + 0.5 * F.log(2 * pi * n)
        losses = losses + F.where(target > 1, term, 0.0)
    return averaged(losses, reduction, "poisson_nll_loss")


__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "pairwise_distance",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]
