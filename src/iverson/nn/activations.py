"""Activation functions, elementwise or gates over halves of an axis.

They are compositions of ops: the branch that is not chosen has a structurally zero derivative, and is
computed at a number where its function would overflow. At a kink the derivative is that of the op that has
the kink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iverson.array_api.conventions.operands import as_operand, in_single
from iverson.array_api.elementwise import gelu, relu, sigmoid, silu, softplus, tanh
from iverson.array_api.nn import log_softmax, softmax
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import normalize_axis
from iverson.nn.layer_arguments import real
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis, NonNegative


def _below(x: Array) -> Any:
    """Minimum of ``x`` and 0, as the argument of a function that would overflow for positive numbers."""
    return F.where(x > 0, 0.0, x)


@checked
@in_single
def leaky_relu(x: A | ArrayLike, /, negative_slope: float = 0.01) -> A:
    """x where it is positive, else negative_slope * x (Maas, Hannun and Ng, 2013).

    Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> leaky_relu(asarray([-1., 2.]))
    iverson.Tensor([-0.01,  2.  ])
    """
    x = real(x, "leaky_relu")
    return F.where(x > 0, x, negative_slope * x)


@in_single
def prelu(x: A | ArrayLike, weight: A | ArrayLike, /) -> A:
    """x where it is positive, else weight * x, with a slope that is learnt (He et al., 2015).

    Parameters
    ----------
    x : channels are along axis 1, or the only axis there is.
    weight : one slope, or one for each channel.

    Raises ShapeError where the slopes are neither, DTypeError for complex x.

    >>> from iverson import asarray
    >>> prelu(asarray([[-1., -1.]]), asarray([0.5, 2.]))
    iverson.Tensor([[-0.5, -2. ]])
    """
    x, weight = real(x, "prelu"), as_operand(weight, "prelu", "weight")
    channels = x.shape[1] if x.ndim > 1 else x.size if x.ndim else 1
    if weight.ndim > 1 or weight.size not in (1, channels):
        raise ShapeError(
            "prelu",
            "weight",
            got=f"shape {weight.shape}",
            expected=f"one slope or {channels}, as there are channels",
        )
    shape = (weight.size,) + (1,) * (x.ndim - 2) if x.ndim > 1 else (weight.size,) * min(x.ndim, 1)
    return F.where(x > 0, x, F.reshape(weight, shape=shape) * x)


@checked
@in_single
def elu(x: A | ArrayLike, /, alpha: float = 1.0) -> A:
    """x where it is positive, else alpha * (exp(x) - 1) (Clevert, Unterthiner and Hochreiter, 2016).

    Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> elu(asarray([-1., 2.]))
    iverson.Tensor([-0.63212056,  2.        ])
    """
    x = real(x, "elu")
    return F.where(x > 0, x, alpha * F.expm1(_below(x)))


@in_single
def selu(x: A | ArrayLike, /) -> A:
    """The scaled ELU that keeps mean 0 and variance 1 (Klambauer et al., 2017).

    Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> selu(asarray([-1., 2.]))
    iverson.Tensor([-1.11133074,  2.10140197])
    """
    x = real(x, "selu")
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return F.where(x > 0, scale * x, scale * alpha * F.expm1(_below(x)))


@checked
@in_single
def celu(x: A | ArrayLike, /, alpha: float = 1.0) -> A:
    """x where it is positive, else alpha * (exp(x / alpha) - 1) (Barron, 2017).

    Raises DTypeError for complex x, ArgumentError for an alpha of 0.

    >>> from iverson import asarray
    >>> celu(asarray([-1., 2.]), alpha=2.0)
    iverson.Tensor([-0.78693868,  2.        ])
    """
    x = real(x, "celu")
    if not alpha:
        raise ArgumentError("celu", "alpha", got=str(alpha), expected="another number: x is divided by it")
    return F.where(x > 0, x, alpha * F.expm1(_below(x) * (1 / alpha)))


@checked
def hardtanh(x: A | ArrayLike, /, min_val: float = -1.0, max_val: float = 1.0) -> A:
    """x, at least min_val and at most max_val.

    Raises DTypeError for complex x, ArgumentError for bounds that are not in order.

    >>> from iverson import asarray
    >>> hardtanh(asarray([-3., 0.5, 2.]))
    iverson.Tensor([-1. ,  0.5,  1. ])
    """
    if not min_val <= max_val:
        raise ArgumentError(
            "hardtanh", "min_val", got=f"{min_val}, above max_val={max_val}", expected="bounds in order"
        )
    return F.clip(real(x, "hardtanh"), min_val, max_val)


def relu6(x: A | ArrayLike, /) -> A:
    """x, at least 0 and at most 6. Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> relu6(asarray([-3., 0.5, 9.]))
    iverson.Tensor([0. , 0.5, 6. ])
    """
    return F.clip(real(x, "relu6"), 0.0, 6.0)


@in_single
def hardsigmoid(x: A | ArrayLike, /) -> A:
    """x / 6 + 1/2, at least 0 and at most 1. Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> hardsigmoid(asarray([-4., 0., 1.5]))
    iverson.Tensor([0.  , 0.5 , 0.75])
    """
    return F.clip(real(x, "hardsigmoid") + 3.0, 0.0, 6.0) / 6.0


@in_single
def hardswish(x: A | ArrayLike, /) -> A:
    """x * hardsigmoid(x) (Howard et al., 2019). Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> hardswish(asarray([-4., 1., 4.]))
    iverson.Tensor([-0.        ,  0.66666667,  4.        ])
    """
    x = real(x, "hardswish")
    return x * F.clip(x + 3.0, 0.0, 6.0) / 6.0


@in_single
def mish(x: A | ArrayLike, /) -> A:
    """x * tanh(softplus(x)) (Misra, 2019). Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> mish(asarray([-1., 1.]))
    iverson.Tensor([-0.30340146,  0.86509839])
    """
    x = real(x, "mish")
    return x * F.tanh(F.softplus(x))


@in_single
def softsign(x: A | ArrayLike, /) -> A:
    """x / (1 + abs(x)). Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> softsign(asarray([-1., 3.]))
    iverson.Tensor([-0.5 ,  0.75])
    """
    x = real(x, "softsign")
    return x / (1.0 + F.abs(x))


@in_single
def logsigmoid(x: A | ArrayLike, /) -> A:
    """log(sigmoid(x)), without underflow. Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> logsigmoid(asarray([-1000., 0.]))
    iverson.Tensor([-1.00000000e+03, -6.93147181e-01])
    """
    return -F.softplus(-real(x, "logsigmoid"))


@in_single
def tanhshrink(x: A | ArrayLike, /) -> A:
    """x - tanh(x). Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> tanhshrink(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.23840584])
    """
    x = real(x, "tanhshrink")
    return x - F.tanh(x)


@checked
@in_single
def softshrink(x: A | ArrayLike, /, lambd: NonNegative = 0.5) -> A:
    """x moved towards 0 by lambd, and 0 where it is not larger.

    Raises DTypeError for complex x, ArgumentError for lambd below 0.

    >>> from iverson import asarray
    >>> softshrink(asarray([-1., 0.3, 2.]))
    iverson.Tensor([-0.5,  0. ,  1.5])
    """
    x = real(x, "softshrink")
    return F.where(F.abs(x) <= lambd, 0.0, x - lambd * F.sign(x))


@checked
def hardshrink(x: A | ArrayLike, /, lambd: NonNegative = 0.5) -> A:
    """x, and 0 where abs(x) is at most lambd.

    Raises DTypeError for complex x, ArgumentError for lambd below 0.

    >>> from iverson import asarray
    >>> hardshrink(asarray([-1., 0.3, 2.]))
    iverson.Tensor([-1.,  0.,  2.])
    """
    x = real(x, "hardshrink")
    return F.where(F.abs(x) <= lambd, 0.0, x)


@checked
def threshold(x: A | ArrayLike, /, threshold: float, value: float) -> A:
    """x where it is above the threshold, else the value. Raises DTypeError for complex x.

    >>> from iverson import asarray
    >>> threshold(asarray([-1., 2.]), 0.5, 9.0)
    iverson.Tensor([9., 2.])
    """
    x = real(x, "threshold")
    return F.where(x <= threshold, float(value), x)


@checked
@in_single
def glu(x: A | ArrayLike, /, axis: Axis = -1) -> A:
    """The first half of an axis times the sigmoid of the second (Dauphin et al., 2017).

    Raises AxisError, ShapeError for an odd extent, DTypeError for complex x.

    >>> from iverson import asarray
    >>> glu(asarray([3., 0.]))
    iverson.Tensor([1.5])
    """
    x = real(x, "glu")
    k = normalize_axis(axis, x.ndim, "glu")
    half, odd = divmod(x.shape[k], 2)
    if odd:
        raise ShapeError("glu", "x", got=f"shape {x.shape}", expected=f"an even extent on axis {k}")
    key = [slice(0, n, 1) for n in x.shape]

    def part(start: int) -> Any:
        return F.index_basic(x, key=(*key[:k], slice(start, start + half, 1), *key[k + 1 :]))

    return part(0) * F.sigmoid(part(half))


@checked
@in_single
def softmin(x: A | ArrayLike, /, axis: Axis = -1) -> A:
    """exp(-x) / sum(exp(-x)) along an axis. Raises AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> softmin(asarray([0., 0.]))
    iverson.Tensor([0.5, 0.5])
    """
    x = real(x, "softmin")
    return F.softmax(-x, axis=normalize_axis(axis, x.ndim, "softmin"))


__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]
