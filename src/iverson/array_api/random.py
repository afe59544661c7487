"""Random tensors: `iverson.random`. Draws come from a `Generator`; there is no global state.

Draws from a distribution that is a scaled and shifted standard one differentiate in its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.operands import (
    as_operand,
    as_weak,
    cast,
    check_kind,
    check_range,
    given_dtype,
)
from iverson.array_api.entries.indexing import positions
from iverson.array_api.entries.joining import take_positions
from iverson.core import dtypes
from iverson.core.dispatch import drawn, levels
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, speaking_as
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import NDArray
from iverson.core.shapes import Shape, as_int, as_shape, broadcast_shapes, check_storable, normalize_axis
from iverson.handles import Tensor
from iverson.ops import F

if TYPE_CHECKING:
    from numpy import typing as npt

    from iverson.handles.array import Array
    from iverson.handles.typing import ArrayLike, Axis, DTypeLike, Seed, ShapeLike


def _floating(dtype: DTypeLike | None, operation: str) -> Any:
    entry_dtype = given_dtype(dtype, dtypes.default_float, operation)
    if not dtypes.is_floating(entry_dtype):
        raise DTypeError(operation, "dtype", got=str(entry_dtype), expected="a real floating dtype")
    return entry_dtype


def _bound(b: Any, argument: str) -> Any:
    """Bound of `Generator.integers` in a form that NumPy takes: a Python integer or an array of integers."""
    if type(b) is int:
        return b
    b = as_operand(b, "integers", argument)
    check_kind(b, "biu", "integers", argument)
    return F.to_numpy(b)


def _count(x: int, operation: str) -> int:
    """The number of entries ``x``, checked; raises ArgumentError if it is outside of [0, 2**60)."""
    if not 0 <= x < 2**60:
        raise ArgumentError(operation, "x", got=str(x), expected="a number of entries, in [0, 2**60)")
    return x


def _number(
    x: Array | ArrayLike, operation: str, argument: str, low: float = 0, *, above: bool = False
) -> Any:
    """Parameter of a distribution, checked to be at least ``low``, or greater than ``low`` if ``above``."""
    x = as_weak(x, operation, argument)
    check_range(x, operation, argument, low, above=above)
    return x


def _vectors(x: Array | ArrayLike, operation: str, argument: str) -> Any:
    """Operand of real numbers with at least one axis."""
    x = as_operand(x, operation, argument)
    check_kind(x, "iuf", operation, argument)
    if not x.ndim:
        raise ShapeError(operation, argument, got="shape ()", expected="at least one axis")
    return x


class Generator:
    """A source of random tensors, made by `default_rng`. The bits are those of a `numpy.random.Generator`.

    ``size`` is a shape or an integer; None is the shape of the parameters. Floating draws take ``dtype``
    (float64 by default; in half precision, float32 draws are rounded) and ``requires_grad``.

    >>> default_rng(0).integers(0, 10, 3)
    iverson.Tensor([8, 6, 5])
    """

    def __init__(self, bits: np.random.Generator) -> None:
        self._bits = bits
        self._known = levels()

    def _each(self, draw: Callable[[Shape], npt.ArrayLike]) -> Any:
        """Result of ``draw``; in `vmap`, one for each example if this generator was made outside of the
        batch.

        draw : takes the extents of the batch axes (none outside of `vmap`); its result has these axes in
            front.
        """
        return drawn(lambda lead: Tensor(np.asarray(draw(lead))), self._known, self._bits.bit_generator)

    def _one_by_one(self, draw: Callable[[], npt.ArrayLike]) -> Any:
        """Result of ``draw``, which is called once for each example of a batch as `_each` defines it.

        It is for draws that cannot be made for several examples at once.
        """

        def draws(lead: Shape) -> Any:
            samples = (
                np.stack([draw() for _ in range(prod(lead))]) if prod(lead) else np.asarray(draw())[None][:0]
            )
            return samples.reshape(lead + samples.shape[1:])

        return self._each(draws)

    @property
    def bit_generator(self) -> Any:
        """NumPy's source of bits, whose ``state`` can be read and set."""
        return self._bits.bit_generator

    def spawn(self, n: int) -> list[Generator]:
        """``n`` new generators, independent of this one and of each other."""
        count = as_int(n, "spawn", "n")
        if not 0 <= count < 2**31:
            raise ArgumentError("spawn", "n", got=str(n), expected="a number of generators in [0, 2**31)")
        return [Generator(bits) for bits in self._bits.spawn(count)]

    def _standard(
        self,
        draw: str,
        size: ShapeLike | None,
        parameters: Sequence[Array | ArrayLike],
        dtype: DTypeLike | None,
    ) -> Any:
        """Draws from a standard distribution, of shape ``size`` or, by default, the shape of the parameters.

        draw : the method of NumPy's generator. parameters : only their shapes are used, which must broadcast
            to ``size``.
        """
        name = draw.removeprefix("standard_")
        parameter_shape = broadcast_shapes(name, *(getattr(p, "shape", ()) for p in parameters))
        shape = parameter_shape if size is None else as_shape(size, name)
        broadcast_shapes(name, parameter_shape, shape)
        entry_dtype = _floating(dtype, name)
        check_storable(shape, entry_dtype, name, "size")
        draw_dtype = dtypes.widened(entry_dtype)
        return cast(
            self._each(lambda lead: getattr(self._bits, draw)(lead + shape, dtype=draw_dtype)), entry_dtype
        )

    def _scaled(
        self,
        draw: str,
        size: ShapeLike | None,
        shift: Any,
        scale: Any,
        dtype: DTypeLike | None,
        grad: bool,
    ) -> Any:
        """Draws ``shift + scale * x`` with x from a standard distribution; a leaf if ``grad``.

        draw : the method of NumPy's generator for x.
        """
        result = self._standard(draw, size, (shift, scale), dtype)
        if type(scale) is not float or scale != 1.0:
            result = F.multiply(result, scale)
        if type(shift) is not float or shift != 0.0:
            result = F.add(result, shift)
        return result.requires_grad_() if grad else result

    @checked
    def random(
        self, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, requires_grad: bool = False
    ) -> Tensor:
        """Uniform draws from [0, 1)."""
        return self._scaled("random", size, 0.0, 1.0, dtype, requires_grad)

    @checked
    def uniform(
        self,
        low: ArrayLike = 0.0,
        high: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Uniform draws from [low, high), differentiable in both."""
        start, stop = as_weak(low, "uniform", "low"), as_weak(high, "uniform", "high")
        check_range(stop - start, "uniform", "high", 0, remedy="bounds are in order: low is not above high")
        return self._scaled("random", size, start, stop - start, dtype, requires_grad)

    @checked
    def standard_normal(
        self, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, requires_grad: bool = False
    ) -> Tensor:
        """Normal draws with mean 0 and variance 1."""
        return self._scaled("standard_normal", size, 0.0, 1.0, dtype, requires_grad)

    @checked
    def normal(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Normal draws with mean ``loc`` and standard deviation ``scale``, differentiable in both."""
        loc, scale = as_weak(loc, "normal", "loc"), _number(scale, "normal", "scale")
        return self._scaled("standard_normal", size, loc, scale, dtype, requires_grad)

    @checked
    def exponential(
        self,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Exponential draws with mean ``scale``, differentiable in it."""
        scale = _number(scale, "exponential", "scale")
        return self._scaled("standard_exponential", size, 0.0, scale, dtype, requires_grad)

    @checked
    def laplace(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Laplace draws, of density exp(-abs(x - loc) / scale) / (2 scale), differentiable in both."""
        loc, scale = as_weak(loc, "laplace", "loc"), _number(scale, "laplace", "scale")
        first, second = (
            self._named("laplace", "standard_exponential", size, (loc, scale), dtype) for _ in "ab"
        )
        return self._finished((first - second) * scale + loc, requires_grad)

    @checked
    def gumbel(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Gumbel draws, the distribution of greatest values, differentiable in both parameters."""
        loc, scale = as_weak(loc, "gumbel", "loc"), _number(scale, "gumbel", "scale")
        exponentials = self._named("gumbel", "standard_exponential", size, (loc, scale), dtype)
        return self._finished(loc - scale * F.log(exponentials), requires_grad)

    @checked
    def logistic(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Logistic draws, of distribution 1 / (1 + exp((loc - x) / scale)), differentiable in both."""
        loc, scale = as_weak(loc, "logistic", "loc"), _number(scale, "logistic", "scale")
        first, second = (
            self._named("logistic", "standard_exponential", size, (loc, scale), dtype) for _ in "ab"
        )
        return self._finished((F.log(first) - F.log(second)) * scale + loc, requires_grad)

    @checked
    def lognormal(
        self,
        mean: ArrayLike = 0.0,
        sigma: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Exponentials of normal draws of mean ``mean`` and deviation ``sigma``, differentiable in both."""
        mean, sigma = as_weak(mean, "lognormal", "mean"), _number(sigma, "lognormal", "sigma")
        normals = self._named("lognormal", "standard_normal", size, (mean, sigma), dtype)
        return self._finished(F.exp(normals * sigma + mean), requires_grad)

    @checked
    def weibull(
        self,
        a: ArrayLike,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Weibull draws of scale 1 and shape ``a``, differentiable in ``a``: E ** (1 / a), E exponential."""
        shape: Any = _number(a, "weibull", "a", above=True)
        exponentials = self._named("weibull", "standard_exponential", size, (shape,), dtype)
        return self._finished(F.exp(F.log(exponentials) / shape), requires_grad)

    @checked
    def truncated_normal(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Normal draws with mean ``loc`` and standard deviation ``scale`` before what is outside of [lower,
        upper] is left out. By the inverse of the distribution function: differentiable in all parameters."""
        arguments = {"lower": lower, "upper": upper, "loc": loc, "scale": scale}
        a, b, mean, width = (as_weak(x, "truncated_normal", k) for k, x in arguments.items())
        check_range(b - a, "truncated_normal", "upper", 0, remedy="bounds are in order")
        check_range(width, "truncated_normal", "scale", 0, above=True)
        u = self._inside("truncated_normal", size, (a, b, mean, width), dtype)
        a, b = ((u * 0.0 + x - mean) / width for x in (a, b))
        upside = F.greater(a, 0)  # in the upper tail 1 - ndtr would cancel
        low, high = F.where(upside, -b, a), F.where(upside, -a, b)
        first, last = F.ndtr(low), F.ndtr(high)
        x = F.clip(F.ndtri(first + u * (last - first)), low, high)
        return self._finished(F.where(upside, -x, x) * width + mean, requires_grad)

    @checked
    def gamma(
        self,
        shape: ArrayLike,
        scale: ArrayLike = 1.0,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Gamma draws of density x**(shape - 1) exp(-x / scale), differentiable in both parameters.

        By the inverse of the distribution function, whose derivative in the shape is that of M. Figurnov, S.
        Mohamed and A. Mnih, Implicit reparameterization gradients (2018).
        """
        a, scale = _number(shape, "gamma", "shape", above=True), _number(scale, "gamma", "scale")
        return self._finished(self._gamma("gamma", a, size, (scale,), dtype) * scale, requires_grad)

    @checked
    def beta(
        self,
        a: ArrayLike,
        b: ArrayLike,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Beta draws of density x**(a - 1) (1 - x)**(b - 1), differentiable in both, as `gamma`."""
        a, b = (_number(x, "beta", k, above=True) for k, x in (("a", a), ("b", b)))
        u = self._inside("beta", size, (a, b), dtype)
        return self._finished(F.betaincinv(a, b, u), requires_grad)

    @checked
    def dirichlet(
        self,
        alpha: ArrayLike,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Dirichlet draws along the last axis, of shape ``size`` + that of ``alpha``.

        Differentiable in alpha, as `gamma`.

        alpha : of shape (..., k). Raises ShapeError without an axis.
        """
        a = _vectors(alpha, "dirichlet", "alpha")
        check_range(a, "dirichlet", "alpha", 0, above=True)
        shape = a.shape if size is None else (*as_shape(size, "dirichlet"), *a.shape)
        gammas = self._gamma("dirichlet", a, shape, (), dtype)
        return self._finished(gammas / F.sum(gammas, axis=(gammas.ndim - 1,), keepdims=True), requires_grad)

    @checked
    def multivariate_normal(
        self,
        mean: ArrayLike,
        cov: ArrayLike,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Normal vectors of shape ``size`` + (n,), with a mean of n entries and a covariance (n, n).

        By the Cholesky factor of the covariance: differentiable in both. Raises ShapeError,
        LinearAlgebraError for a covariance that is not positive definite.
        """
        name = "multivariate_normal"
        center, spread = _vectors(mean, name, "mean"), as_operand(cov, name, "cov")
        n = center.shape[-1]
        if center.ndim != 1 or spread.shape != (n, n):
            raise ShapeError(
                name,
                "cov",
                got=f"shapes {center.shape} and {spread.shape}",
                expected="shapes (n,) and (n, n)",
            )
        shape = (*(() if size is None else as_shape(size, name)), n)
        normals = self._named(name, "standard_normal", shape, (center,), dtype)
        correlated = F.matmul(F.reshape(normals, shape=(prod(shape[:-1]), n)), F.mT(F.cholesky(spread)))
        return self._finished(F.reshape(correlated, shape=shape) + center, requires_grad)

    @checked
    def categorical(self, logits: ArrayLike, size: ShapeLike | None = None, *, axis: Axis = -1) -> Tensor:
        """Integers k with probabilities in proportion to exp(logits[k]) along an axis, which is left out.

        The shape is that of the other axes, or ``size``, to which they broadcast. By the place of the largest
        of logits + Gumbel noise (E. J. Gumbel, 1954). Raises AxisError, ShapeError.
        """
        x = _vectors(logits, "categorical", "logits")
        k = normalize_axis(axis, x.ndim, "categorical")
        x = F.permute_dims(x, axes=(*(j for j in range(x.ndim) if j != k), k))
        shape = x.shape if size is None else (*as_shape(size, "categorical"), x.shape[-1])
        broadcast_shapes("categorical", x.shape, shape)
        noise = -F.log(self._named("categorical", "standard_exponential", shape, (x,), None))
        return F.argmax(x + noise, axis=len(shape) - 1, keepdims=False)

    def poisson(self, lam: ArrayLike = 1.0, size: ShapeLike | None = None) -> Tensor:
        """Counts with mean ``lam``, as int64. Raises ArgumentError for a negative mean."""
        return self._counts("poisson", size, lam=lam)

    def binomial(self, n: ArrayLike, p: ArrayLike, size: ShapeLike | None = None) -> Tensor:
        """Number of successes in ``n`` trials, each with probability ``p``.

        Raises ArgumentError for either out of range.
        """
        return self._counts("binomial", size, n=n, p=p)

    def multinomial(self, n: int, pvals: ArrayLike, size: ShapeLike | None = None) -> Tensor:
        """Number of trials, of ``n``, with each outcome: shape ``size`` + (outcomes,). ``pvals`` has their
        probabilities; raises ArgumentError if these are no distribution, ShapeError unless a vector."""
        values = F.to_numpy(_vectors(pvals, "multinomial", "pvals"))
        count = as_int(n, "multinomial", "n")
        if not 0 <= count < 2**63:
            raise ArgumentError("multinomial", "n", got=str(count), expected="an integer in [0, 2**63)")
        if values.ndim != 1:
            raise ShapeError("multinomial", "pvals", got=f"shape {values.shape}", expected="a vector")
        with np.errstate(over="ignore"):
            total = values.sum()
        if not abs(total - 1) < 1e-6:
            raise ArgumentError("multinomial", "pvals", got=f"a sum of {total}", expected="1")
        shape = () if size is None else as_shape(size, "multinomial")
        check_storable((*shape, *values.shape), dtypes.default_int, "multinomial", "size")
        return self._drawn("multinomial", "pvals", shape, count, values)

    def _counts(self, name: str, size: ShapeLike | None, **parameters: Array | ArrayLike) -> Any:
        """Draws of whole numbers by NumPy, as int64; they have no derivative.

        parameters : by NumPy's names, checked to be real numbers.
        """
        numbers = []
        for argument, x in parameters.items():
            x = as_operand(x, name, argument)
            check_kind(x, "iuf", name, argument)
            numbers.append(F.to_numpy(x))
        parameter_shape = broadcast_shapes(name, *(x.shape for x in numbers))
        shape = parameter_shape if size is None else as_shape(size, name)
        broadcast_shapes(name, parameter_shape, shape)
        check_storable(shape, dtypes.default_int, name, "size")
        return self._drawn(name, next(iter(parameters)), shape, *numbers)

    def _drawn(self, name: str, argument: str, shape: Shape, *numbers: NDArray | int) -> Any:
        """Draws by the method ``name`` of NumPy's generator; an error of NumPy becomes ArgumentError for
        ``argument``.
        """
        draw: Any = getattr(self._bits, name)
        try:
            return self._each(lambda lead: draw(*numbers, size=lead + shape))
        except (TypeError, ValueError) as error:
            raise ArgumentError(name, argument, got=f"{numbers}", remedy=str(error)) from None

    def _named(
        self,
        name: str,
        draw: str,
        size: ShapeLike | None,
        parameters: Sequence[Array | ArrayLike],
        dtype: DTypeLike | None,
    ) -> Any:
        """Draws from a standard distribution (see `_standard`) for the distribution ``name``, which errors
        mention.
        """
        with speaking_as(name):
            return self._standard(draw, size, parameters, dtype)

    def _inside(
        self,
        name: str,
        size: ShapeLike | None,
        parameters: Sequence[Array | ArrayLike],
        dtype: DTypeLike | None,
    ) -> Any:
        """Uniform draws from the open interval (0, 1): inverse distribution functions have no derivative at
        its ends.

        name : the distribution that they are for, in errors.
        """
        uniforms = self._named(name, "random", size, parameters, dtype)
        return uniforms + (2.0**-25 if uniforms.dtype == dtypes.float32 else 2.0**-54)

    def _gamma(
        self,
        name: str,
        a: Array | ArrayLike,
        size: ShapeLike | None,
        parameters: Sequence[Array | ArrayLike],
        dtype: DTypeLike | None,
    ) -> Any:
        """Standard gamma draws of shape parameter ``a``, by the inverse of the distribution function."""
        return F.gammaincinv(a, self._inside(name, size, (a, *parameters), dtype))

    @staticmethod
    def _finished(result: Tensor, grad: bool) -> Any:
        return result.requires_grad_() if grad else result

    def bernoulli(self, p: ArrayLike = 0.5, size: ShapeLike | None = None) -> Tensor:
        """bool draws, True with probability ``p``. Raises ArgumentError for p outside [0, 1]."""
        p = as_weak(p, "bernoulli", "p")
        chance = F.to_numpy(p)
        check_range(chance, "bernoulli", "p", 0, 1)
        return F.less(self._standard("random", size, (chance,), None), chance)

    @checked
    def integers(
        self,
        low: ArrayLike,
        high: ArrayLike | None = None,
        size: ShapeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        endpoint: bool = False,
    ) -> Tensor:
        """Integers from [low, high), or [0, low) without ``high``; ``endpoint`` includes the last.

        Raises ArgumentError for an empty range, DTypeError for a dtype that is not an integer's.
        """
        entry_dtype = given_dtype(dtype, dtypes.default_int, "integers")
        if entry_dtype.kind not in "iu":
            raise DTypeError("integers", "dtype", got=str(entry_dtype), expected="an integer dtype")
        bounds = [low] if high is None else [low, high]
        limits: list[Any] = [_bound(b, "low" if k == 0 else "high") for k, b in enumerate(bounds)]
        shape = (
            None
            if size is None
            else check_storable(as_shape(size, "integers"), entry_dtype, "integers", "size")
        )
        try:
            draw: Any = self._bits.integers
            batch_shape = np.broadcast_shapes(*map(np.shape, limits)) if shape is None else shape
            return self._each(
                lambda lead: draw(*limits, size=lead + batch_shape, dtype=entry_dtype, endpoint=endpoint)
            )
        except ValueError as error:
            raise ArgumentError("integers", "high", got=f"range {bounds}", remedy=str(error)) from None

    def permutation(self, x: ArrayLike, *, axis: Axis = 0) -> Tensor:
        """The numbers below an integer x, or a tensor's slices along an axis, in random order.

        Raises AxisError. A tensor's permutation differentiates.
        """
        if type(x) is int:
            count = _count(x, "permutation")
            return self._one_by_one(lambda: self._bits.permutation(count))
        x = as_operand(x, "permutation")
        k = normalize_axis(axis, x.ndim, "permutation")
        order = self._one_by_one(lambda: self._bits.permutation(x.shape[k]))
        return take_positions(x, order if levels() else F.to_numpy(order), k)

    @checked
    def choice(
        self,
        x: ArrayLike,
        size: ShapeLike | None = None,
        *,
        replace: bool = True,
        p: ArrayLike | None = None,
        axis: Axis = 0,
    ) -> Tensor:
        """Slices of a tensor along an axis (or numbers below an integer x), drawn at random.

        ``p`` holds their probabilities; ``replace=False`` draws each at most once. What is drawn from a
        tensor differentiates. Raises ArgumentError where there are too few, or p is not a distribution.
        """
        k = 0
        if type(x) is int:
            count = _count(x, "choice")
        else:
            x = as_operand(x, "choice")
            k = normalize_axis(axis, x.ndim, "choice")
            count = x.shape[k]
        weights: Any = None if p is None else F.to_numpy(as_operand(p, "choice", "p"))
        if p is not None and weights.shape != (count,):
            raise ShapeError("choice", "p", got=f"shape {weights.shape}", expected=f"shape {(count,)}")
        shape = None if size is None else as_shape(size, "choice")
        if shape is not None:
            check_storable(shape, dtypes.default_int, "choice", "size")
        try:
            numbers = self._one_by_one(lambda: self._bits.choice(count, shape, replace, weights))
        except ValueError as error:
            raise ArgumentError("choice", "x", got=f"{count} slices", remedy=str(error)) from None
        if type(x) is int:
            return numbers
        return take_positions(x, positions(numbers, count, "choice"), k)


@checked
def default_rng(seed: Seed | Generator | None = None) -> Generator:
    """A `Generator` whose draws follow from the seed: an integer, a sequence of them, or None for chance.

    A `numpy.random.Generator`, bit generator or SeedSequence is taken as it is. Raises ArgumentTypeError
    for anything else.

    >>> float(default_rng(7).random()) == float(default_rng(7).random())
    True
    """
    if isinstance(seed, Generator):
        return seed
    try:
        return Generator(np.random.default_rng(seed))
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            "default_rng", "seed", got=repr(seed), expected="a non-negative integer", remedy=str(error)
        ) from None


__all__ = ["Generator", "default_rng"]


def __dir__() -> list[str]:
    return sorted(__all__)
