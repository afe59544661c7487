"""Initial values of parameters: arrays of a shape, drawn from a generator. Named as in `torch.nn.init`.

A weight has the shape (results, inputs, *window), as `linear` and the convolutions take it: its *fan in* is
the number of entries that one result reads, its *fan out* the number of results that read one entry.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from iverson.array_api.entries.creation import zeros as _zeros
from iverson.array_api.linear_algebra.decompositions import qr
from iverson.array_api.random import Generator
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, described
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import Shape, as_shape, check_choice, check_storable
from iverson.handles import Tensor, asarray
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.typing import DTypeLike, ShapeLike

    Fan = Literal["fan_in", "fan_out"]


def _source(rng: Generator, operation: str) -> Generator:
    if not isinstance(rng, Generator):
        raise ArgumentTypeError(
            operation,
            "rng",
            got=described(rng),
            expected="a generator, as draws have no global state",
            remedy="pass iverson.random.default_rng(seed)",
        )
    return rng


def _fans(shape: ShapeLike, operation: str) -> tuple[Shape, int, int]:
    """Extents of a weight, its fan in and its fan out."""
    extents = as_shape(shape, operation)
    if len(extents) < 2:
        raise ShapeError(operation, "shape", got=str(extents), expected="(results, inputs, *window)")
    window = prod(extents[2:])
    return extents, extents[1] * window, extents[0] * window


def _drawn(
    kind: str, rng: Generator, shape: Shape, spread: float, dtype: DTypeLike | None, requires_grad: bool
) -> Tensor:
    """Normal or uniform draws (``kind``) with mean 0 and standard deviation ``spread``."""
    if kind == "normal":
        return rng.normal(0.0, spread, shape, dtype=dtype, requires_grad=requires_grad)
    bound = sqrt(3.0) * spread
    return rng.uniform(-bound, bound, shape, dtype=dtype, requires_grad=requires_grad)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By what factor weights grow so that what an activation gives keeps its variance.

    ``nonlinearity`` is "linear", "sigmoid", "tanh", "relu", "leaky_relu" (of which ``param`` is the slope,
    0.01 unless given), "selu", or the name of a convolution. Raises ArgumentError for another one.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    linear = {"linear", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)), "sigmoid"}
    gains = {**dict.fromkeys(linear, 1.0), "tanh": 5 / 3, "relu": sqrt(2.0), "selu": 0.75}
    check_choice(nonlinearity, (*gains, "leaky_relu"), "calculate_gain", "nonlinearity")
    if nonlinearity != "leaky_relu":
        return gains[nonlinearity]
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ArgumentTypeError("calculate_gain", "param", got=described(param), expected="a number or None")
    return sqrt(2.0 / (1 + slope**2))


@checked
def xavier_uniform(
    rng: Generator,
    shape: ShapeLike,
    gain: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform draws of variance gain**2 * 2 / (fan in + fan out) (Glorot and Bengio, 2010).

    >>> from iverson import random
    >>> xavier_uniform(random.default_rng(0), (2, 3)).shape
    (2, 3)
    """
    return _xavier("xavier_uniform", rng, shape, gain, dtype, requires_grad)


@checked
def xavier_normal(
    rng: Generator,
    shape: ShapeLike,
    gain: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal draws of variance gain**2 * 2 / (fan in + fan out) (Glorot and Bengio, 2010).

    >>> from iverson import random
    >>> xavier_normal(random.default_rng(0), (2, 3)).shape
    (2, 3)
    """
    return _xavier("xavier_normal", rng, shape, gain, dtype, requires_grad)


def _xavier(
    name: str, rng: Generator, shape: ShapeLike, gain: float, dtype: DTypeLike | None, requires_grad: bool
) -> Tensor:
    source = _source(rng, name)
    extents, fan_in, fan_out = _fans(shape, name)
    spread = gain * sqrt(2.0 / max(fan_in + fan_out, 1))
    return _drawn(name.removeprefix("xavier_"), source, extents, abs(spread), dtype, requires_grad)


@checked
def kaiming_uniform(
    rng: Generator,
    shape: ShapeLike,
    a: float = 0.0,
    mode: Fan = "fan_in",
    nonlinearity: str = "leaky_relu",
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform draws of variance gain**2 / fan (He et al., 2015).

    Parameters
    ----------
    rng : where draws come from.
    shape : (results, inputs, *window).
    a : the slope of a leaky relu.
    mode : the fan that divides the variance: "fan_in" keeps that of results, "fan_out" that of gradients.
    nonlinearity : the activation whose gain it is (`calculate_gain`).
    dtype : float64 unless given, or float32.
    requires_grad : whether the result is a leaf that requires grad.

    >>> from iverson import random
    >>> kaiming_uniform(random.default_rng(0), (2, 3)).shape
    (2, 3)
    """
    return _kaiming("kaiming_uniform", rng, shape, a, mode, nonlinearity, dtype, requires_grad)


@checked
def kaiming_normal(
    rng: Generator,
    shape: ShapeLike,
    a: float = 0.0,
    mode: Fan = "fan_in",
    nonlinearity: str = "leaky_relu",
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal draws of variance gain**2 / fan (He et al., 2015). As `kaiming_uniform`.

    >>> from iverson import random
    >>> kaiming_normal(random.default_rng(0), (2, 3)).shape
    (2, 3)
    """
    return _kaiming("kaiming_normal", rng, shape, a, mode, nonlinearity, dtype, requires_grad)


def _kaiming(
    name: str,
    rng: Generator,
    shape: ShapeLike,
    a: float,
    mode: str,
    nonlinearity: str,
    dtype: DTypeLike | None,
    requires_grad: bool,
) -> Tensor:
    """Draws of variance gain**2 / fan, for `kaiming_uniform` and `kaiming_normal`, as ``name`` says."""
    source = _source(rng, name)
    check_choice(mode, ("fan_in", "fan_out"), name, "mode")
    extents, fan_in, fan_out = _fans(shape, name)
    fan = fan_in if mode == "fan_in" else fan_out
    spread = calculate_gain(nonlinearity, a) / sqrt(max(fan, 1))
    return _drawn(name.removeprefix("kaiming_"), source, extents, spread, dtype, requires_grad)


glorot_uniform, glorot_normal = xavier_uniform, xavier_normal
he_uniform, he_normal = kaiming_uniform, kaiming_normal


@checked
def orthogonal(
    rng: Generator,
    shape: ShapeLike,
    gain: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with orthonormal rows (or columns, if there are more rows), times gain (Saxe et al., 2014).

    Axes after the first are one of the matrix. It is the Q of a normal matrix with the signs of R's diagonal,
    uniform among such matrices.

    >>> from iverson import random
    >>> w = orthogonal(random.default_rng(0), (2, 3))
    >>> abs(w @ w.T).round(decimals=12)
    iverson.Tensor([[1., 0.],
                    [0., 1.]])
    """
    source = _source(rng, "orthogonal")
    extents, _, _ = _fans(shape, "orthogonal")
    rows, columns = extents[0], prod(extents[1:])
    if not rows * columns:
        return _zeros(extents, dtype=dtype, requires_grad=requires_grad)
    draws: Any = source.standard_normal((max(rows, columns), min(rows, columns)), dtype=dtype)
    q, r = qr(draws)
    q = q * F.where(F.diagonal(r, offset=0) < 0, -1.0, 1.0)
    weight = F.reshape(gain * (q.mT if rows < columns else q), shape=extents)
    return weight.requires_grad_() if requires_grad else weight


@checked
def trunc_normal(
    rng: Generator,
    shape: ShapeLike,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal draws between a and b, by the inverse of the distribution function.

    Raises ArgumentError unless a is below b and std above 0.

    >>> from iverson import random
    >>> bool(abs(trunc_normal(random.default_rng(0), (100,))).max() <= 2)
    True
    """
    source = _source(rng, "trunc_normal")
    if not (a < b and std > 0):
        raise ArgumentError(
            "trunc_normal", "a", got=f"a={a}, b={b}, std={std}", expected="a below b, and std above 0"
        )
    low, high = (float(F.to_numpy(F.ndtr(asarray((bound - mean) / std)))) for bound in (a, b))
    draws: Any = source.uniform(low, high, as_shape(shape, "trunc_normal"), dtype=dtype)
    weight = F.clip(F.ndtri(draws) * std + mean, float(a), float(b))
    return weight.requires_grad_() if requires_grad else weight


@checked
def eye(
    shape: ShapeLike, gain: float = 1.0, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """gain on the diagonal of a matrix, or of the middle of a filter's window: what it reads, it gives.

    >>> eye((1, 1, 3))
    iverson.Tensor([[[0., 1., 0.]]])
    """
    extents, _, _ = _fans(shape, "eye")
    weight = np.zeros(check_storable(extents, np.dtype(np.float64), "eye"))
    n = min(extents[:2])
    if 0 not in extents:
        middle: tuple[Any, ...] = (np.arange(n), np.arange(n), *(k // 2 for k in extents[2:]))
        weight[middle] = gain
    return asarray(weight, dtype=dtype, requires_grad=requires_grad)


__all__ = [
    "calculate_gain",
    "eye",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "orthogonal",
    "trunc_normal",
    "xavier_normal",
    "xavier_uniform",
]


def __dir__() -> list[str]:
    return sorted(__all__)
