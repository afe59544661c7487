"""Normalisation: entries less their mean, divided by their spread, over some axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.operands import as_inexact, as_operand, cast, in_single
from iverson.array_api.reduction.norms import vector_norm
from iverson.array_api.reduction.reductions import entry_count, mean
from iverson.autograd.mode import no_grad
from iverson.core import dtypes
from iverson.core.dispatch import has_entries, unwrap
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, described
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import Shape, as_int, as_shape, normalize_axis
from iverson.handles import Tensor
from iverson.masked import MaskedTensor, masked_tensor
from iverson.nn.layer_arguments import real
from iverson.nn.pooling import along
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis, NonNegative, ShapeLike


def _moments(x: Array, axes: Shape) -> tuple[Any, Any, Any]:
    """Entries less their mean over ``axes``, the mean, and the variance (the mean of squares of the
    first).
    """
    centre = mean(x, axes, keepdims=True)
    centred = x - _of_lines(centre)
    return centred, centre, mean(F.square(centred), axes, keepdims=True)


def _of_lines(x: Array) -> Any:
    """Plain tensor of one number for each line: 1 where a masked ``x`` has no specified entry."""
    return x.to_tensor(1) if isinstance(x, MaskedTensor) else x


def _affine(
    x: Array,
    weight: Array | ArrayLike | None,
    bias: Array | ArrayLike | None,
    shape: Shape,
    expected: Shape,
    name: str,
) -> Any:
    """Result x * weight + bias; either may be None.

    expected : the shape that both must have. shape : the shape to which they are reshaped, to broadcast with
        ``x``.
    """
    for argument, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None:
            p = as_operand(parameter, name, argument)
            if p.shape != expected:
                raise ShapeError(name, argument, got=f"shape {p.shape}", expected=f"shape {expected}")
            p = F.reshape(p, shape=shape)
            x = x * p if argument == "weight" else x + p
    return x


def _last_axes(x: Array, normalized_shape: ShapeLike, name: str) -> tuple[Shape, Shape]:
    shape = as_shape(normalized_shape, name)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(
            name,
            "normalized_shape",
            got=f"{shape} for x of shape {x.shape}",
            expected="the extents of x's last axes",
        )
    return tuple(range(x.ndim - len(shape), x.ndim)), shape


def _channels(x: Array, name: str) -> int:
    if x.ndim < 2:
        raise ShapeError(name, "x", got=f"shape {x.shape}", expected="(batch, channels, ...)")
    return int(x.shape[1])


@checked
@in_single
def layer_norm(
    x: A | ArrayLike,
    /,
    normalized_shape: ShapeLike,
    weight: A | ArrayLike | None = None,
    bias: A | ArrayLike | None = None,
    eps: NonNegative = 1e-5,
) -> A:
    """(x - mean) / sqrt(variance + eps) over the last axes (Ba, Kiros and Hinton, 2016).

    Parameters
    ----------
    x : of shape (..., *normalized_shape).
    normalized_shape : the extents of the axes that are normalised together.
    weight, bias : factors and summands of that shape.
    eps : added to the variance; not below 0.

    Raises ShapeError where shapes do not fit, DTypeError for complex x.

    >>> from iverson import asarray
    >>> layer_norm(asarray([1., 3.]), 2, eps=0.0)
    iverson.Tensor([-1.,  1.])
    """
    x = real(x, "layer_norm")
    axes, shape = _last_axes(x, normalized_shape, "layer_norm")
    centred, _, variance = _moments(x, axes)
    return _affine(centred * F.rsqrt(_of_lines(variance) + eps), weight, bias, shape, shape, "layer_norm")


@checked
def rms_norm(
    x: A | ArrayLike,
    /,
    normalized_shape: ShapeLike,
    weight: A | ArrayLike | None = None,
    eps: NonNegative | None = None,
) -> A:
    """x / sqrt(mean(x**2) + eps) over the last axes (Zhang and Sennrich, 2019).

    Parameters
    ----------
    x : of shape (..., *normalized_shape).
    normalized_shape : the extents of the axes that are normalised together.
    weight : factors of that shape.
    eps : default: the distance from 1 to the next number of x's dtype, of float32 for half precision.

    Raises ShapeError where shapes do not fit, DTypeError for complex x.

    >>> from iverson import asarray
    >>> rms_norm(asarray([3., 3.]), 2)
    iverson.Tensor([1., 1.])
    """
    x = real(x, "rms_norm")
    axes, shape = _last_axes(x, normalized_shape, "rms_norm")
    epsilon = float(dtypes.finfo(dtypes.widened(x.dtype)).eps) if eps is None else eps

    @in_single
    def normalized(x: Array, weight: Array | ArrayLike | None) -> Any:
        square = mean(F.square(x), axes, keepdims=True)
        return _affine(x * F.rsqrt(_of_lines(square) + epsilon), weight, None, shape, shape, "rms_norm")

    return normalized(x, weight)


@checked
def batch_norm(
    x: A | ArrayLike,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    /,
    weight: A | ArrayLike | None = None,
    bias: A | ArrayLike | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: NonNegative = 1e-5,
) -> A:
    """(x - mean) / sqrt(variance + eps) of each channel (Ioffe and Szegedy, 2015).

    Parameters
    ----------
    x : of shape (batch, channels, ...).
    running_mean, running_var : of shape (channels,); None for none. In training, the mean and the unbiased
        variance of x are mixed into them in place.
    weight, bias : a factor and a summand for each channel.
    training : whether the mean and variance are those of x; if not, they are the running ones.
    momentum : the share of x in the running mean and variance.
    eps : added to the variance; not below 0.

    Raises ShapeError where shapes do not fit or training has one value per channel, ArgumentError without
    running moments outside of training, DTypeError for complex x.

    >>> from iverson import asarray, zeros, ones
    >>> mean, var = zeros(1), ones(1)
    >>> batch_norm(asarray([[1.], [3.]]), mean, var, training=True, eps=0.0), mean, var
    (iverson.Tensor([[-1.],
                     [ 1.]]), iverson.Tensor([0.2]), iverson.Tensor([1.1]))
    """
    x = real(x, "batch_norm")
    channels = _channels(x, "batch_norm")
    stretched = (channels, *(1,) * (x.ndim - 2))
    moments = _running(running_mean, channels, "running_mean"), _running(running_var, channels, "running_var")
    axes = (0, *range(2, x.ndim))
    if not training and (moments[0] is None or moments[1] is None):
        raise ArgumentError(
            "batch_norm", "running_mean", got="no running moments", expected="them, or training=True"
        )

    @in_single
    def mixed(moment: Tensor, batch_moment: Array) -> Any:
        batch_moment = F.reshape(batch_moment, shape=(channels,)).detach()
        if isinstance(batch_moment, MaskedTensor):  # a channel without entries says nothing of its moments
            batch_moment = batch_moment.to_tensor(moment)
        return (1 - momentum) * moment + momentum * batch_moment

    @in_single
    def normalized(
        x: Array, weight: Array | ArrayLike | None, bias: Array | ArrayLike | None, *running: Tensor
    ) -> Any:
        if training:
            count = entry_count(x, axes, True)
            if _at_most(count, 1):
                raise ShapeError(
                    "batch_norm",
                    "x",
                    got=f"shape {x.shape}",
                    expected="more than one value per channel in training",
                )
            centred, centre, variance = _moments(x, axes)
            spread = _unbiased(variance, count)
            with no_grad():
                for moment, batch_moment in zip(moments, (centre, spread), strict=True):
                    if moment is not None:
                        moment[...] = cast(mixed(moment, batch_moment), moment.dtype)
        else:
            centre, variance = (F.reshape(moment, shape=stretched) for moment in running)
            centred = x - centre
        return _affine(
            centred * F.rsqrt(_of_lines(variance) + eps), weight, bias, stretched, (channels,), "batch_norm"
        )

    return normalized(x, weight, bias, *(() if training else moments))


def _at_most(count: Array | float, bound: int) -> bool:
    """Return True if no channel is known to have more than ``bound`` entries; False if the counts are not
    known.
    """
    if not isinstance(count, MaskedTensor):
        return bool(count <= bound)
    numbers = unwrap(count)
    return has_entries(numbers) and bool(F.to_numpy(numbers).max(initial=0) <= bound)


def _unbiased(variance: Array, count: Array | float) -> Any:
    """Unbiased variance from the biased one of ``count`` entries; in a masked tensor, unspecified for a
    single entry.
    """
    if isinstance(count, MaskedTensor):
        count = masked_tensor(count, count > 1)
    return variance * (count / (count - 1))


def _running(moment: Tensor | None, channels: int, argument: str) -> Any:
    """Running mean or variance as the user passed it, checked: a Tensor of shape (channels,), or None."""
    if moment is None:
        return None
    if not isinstance(moment, Tensor):
        raise ArgumentTypeError(
            "batch_norm",
            argument,
            got=described(moment),
            expected="a Tensor, which training changes in place",
        )
    if moment.shape != (channels,):
        raise ShapeError("batch_norm", argument, got=f"shape {moment.shape}", expected=f"shape {(channels,)}")
    return moment


@checked
@in_single
def instance_norm(
    x: A | ArrayLike,
    /,
    weight: A | ArrayLike | None = None,
    bias: A | ArrayLike | None = None,
    eps: NonNegative = 1e-5,
) -> A:
    """(x - mean) / sqrt(variance + eps) of each channel of each example (Ulyanov et al., 2016).

    Parameters
    ----------
    x : of shape (batch, channels, ...).
    weight, bias : a factor and a summand for each channel.
    eps : added to the variance; not below 0.

    Raises ShapeError where shapes do not fit, DTypeError for complex x.

    >>> from iverson import asarray
    >>> instance_norm(asarray([[[1., 3.]]]), eps=0.0)
    iverson.Tensor([[[-1.,  1.]]])
    """
    x = real(x, "instance_norm")
    channels = _channels(x, "instance_norm")
    centred, _, variance = _moments(x, tuple(range(2, x.ndim)))
    shape = (channels, *(1,) * (x.ndim - 2))
    return _affine(
        centred * F.rsqrt(_of_lines(variance) + eps), weight, bias, shape, (channels,), "instance_norm"
    )


@checked
@in_single
def group_norm(
    x: A | ArrayLike,
    /,
    num_groups: int,
    weight: A | ArrayLike | None = None,
    bias: A | ArrayLike | None = None,
    eps: NonNegative = 1e-5,
) -> A:
    """(x - mean) / sqrt(variance + eps) of groups of channels of each example (Wu and He, 2018).

    Parameters
    ----------
    x : of shape (batch, channels, ...).
    num_groups : into how many groups of equal size the channels are divided.
    weight, bias : a factor and a summand for each channel.
    eps : added to the variance; not below 0.

    Raises ShapeError where shapes do not fit, ArgumentError where the groups do not divide the channels.

    >>> from iverson import asarray
    >>> group_norm(asarray([[1., 3., 0., 4.]]), 2, eps=0.0)
    iverson.Tensor([[-1.,  1., -1.,  1.]])
    """
    x = real(x, "group_norm")
    channels = _channels(x, "group_norm")
    if num_groups < 1 or channels % num_groups:
        raise ArgumentError(
            "group_norm", "num_groups", got=str(num_groups), expected=f"a divisor of the {channels} channels"
        )
    apart = F.reshape(x, shape=(x.shape[0], num_groups, channels // num_groups, *x.shape[2:]))
    centred, _, variance = _moments(apart, tuple(range(2, apart.ndim)))
    normal = F.reshape(centred * F.rsqrt(_of_lines(variance) + eps), shape=x.shape)
    shape = (channels, *(1,) * (x.ndim - 2))
    return _affine(normal, weight, bias, shape, (channels,), "group_norm")


@checked
@in_single
def local_response_norm(
    x: A | ArrayLike, /, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> A:
    """x / (k + alpha * mean of x**2 over ``size`` neighbouring channels)**beta (Krizhevsky et al., 2012).

    x has the shape (batch, channels, ...). Raises ShapeError without channels, ArgumentError for a size
    below 1.

    >>> from iverson import asarray
    >>> local_response_norm(asarray([[1., 1.]]), 2, alpha=2.0, beta=1.0)
    iverson.Tensor([[0.5       , 0.33333333]])
    """
    x = real(x, "local_response_norm")
    channels = _channels(x, "local_response_norm")
    if size < 1:
        raise ArgumentError("local_response_norm", "size", got=str(size), expected="at least 1")
    before = size // 2
    i, j = np.ogrid[:channels, :channels]
    near = (j - i >= -before) & (j - i < size - before)
    return x / F.pow(along(F.square(x), 1, near) * (alpha / size) + k, beta)


@checked
@in_single
def normalize(x: A | ArrayLike, /, p: float = 2.0, axis: Axis = 1, eps: NonNegative = 1e-12) -> A:
    """x / max(norm of x along an axis, eps), where p is the order of the norm.

    Raises AxisError, DTypeError.

    >>> from iverson import asarray
    >>> normalize(asarray([[3., 4.]]))
    iverson.Tensor([[0.6, 0.8]])
    """
    x = as_inexact(x, "normalize")
    k = normalize_axis(as_int(axis, "normalize", "axis"), x.ndim, "normalize")
    return x / F.maximum(_of_lines(vector_norm(x, axis=k, keepdims=True, ord=p)), eps)


__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]
