"""`Distribution`, the base of the distributions of `iverson.interop.scipy.stats`.

It has location and scale, the support, checks of parameters, logarithms, and the argument forms of
`scipy.stats`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import iverson as iv
from iverson.array_api.conventions.operands import SCALARS, as_real, cast
from iverson.core.errors import ArgumentError, ArgumentTypeError
from iverson.core.protocols import NDArray
from iverson.handles import Tensor

if TYPE_CHECKING:
    from iverson.handles.typing import ArrayLike, ShapeLike

    #: Arguments of a method, by position and by name.
    Arguments: TypeAlias = tuple[ArrayLike, ...]
    Named: TypeAlias = dict[str, ArrayLike]
    #: What draws follow from (`iverson.random.default_rng`).
    Seed: TypeAlias = (
        int
        | Sequence[int]
        | np.random.Generator
        | np.random.BitGenerator
        | np.random.SeedSequence
        | iv.random.Generator
        | None
    )

Function = Callable[..., Tensor]
#: The ends of the support, from the shape parameters.
Support = Callable[..., tuple[Tensor | float, Tensor | float]]
_STANDARD = {"loc": 0.0, "scale": 1.0}


def _all_positive(shapes: tuple[Tensor, ...]) -> Tensor:
    result = iv.asarray(True)
    for s in shapes:
        result = result & (s > 0)
    return result


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A family of distributions of one real number.

    ``norm.logpdf(x, loc, scale)`` as in SciPy; ``norm(loc, scale).logpdf(x)`` is the same. Shape parameters
    come before ``loc`` and ``scale`` (discrete ones have no scale). All of them broadcast. Methods give nan
    where a parameter is not allowed or x is nan.

    Derivatives are of any order and in every argument, but for quantities that are whole numbers; outside of
    the support, and where a parameter is not allowed, they are structurally zero. At an end of the support
    they are those from inside.

    name : as in SciPy.
    shapes : names of the shape parameters.
    support : the ends of the support in the standard variable, from the shape parameters.
    log_density : the logarithm of the density, or of the probability, inside of the support.
    cdf_, sf_ : the distribution function there, and 1 less it.
    ppf_, isf_ : their inverses; none for discrete distributions.
    log_cdf_, log_sf_ : logarithms of the distribution function and of 1 less it, where they are known better
        than by these.
    allowed : whether shape parameters are; all above 0 unless given.
    mean_, variance_ : of the standard variable.
    entropy_ : its entropy from the shape parameters; of a discrete one, a sum over the support unless given.
    draw_ : of a discrete one, draws: from a generator, a size (or None) and the shape parameters.
    discrete : whether it is one of whole numbers.
    """

    name: str
    shapes: tuple[str, ...] = ()
    support: Support = lambda *_: (-math.inf, math.inf)
    log_density: Function
    cdf_: Function
    sf_: Function
    ppf_: Function | None = None
    isf_: Function | None = None
    log_cdf_: Function | None = None
    log_sf_: Function | None = None
    allowed: Function = lambda *shapes: _all_positive(shapes)
    mean_: Function
    variance_: Function
    entropy_: Function | None = None
    draw_: Function | None = None
    discrete: bool = False

    def __call__(self, *args: ArrayLike, **kwargs: ArrayLike) -> Frozen:
        """The distribution with these parameters, whose methods take x alone."""
        self._read("__call__", {}, args, kwargs)
        return Frozen(self, args, kwargs)

    def __repr__(self) -> str:
        return f"iverson.interop.scipy.stats.{self.name}"

    # -- densities -----------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The logarithm of the density at x; -inf outside of the support.

        >>> from iverson.interop.scipy import stats
        >>> stats.norm.logpdf(iv.asarray([0., 1.]), 0., 2.)
        iverson.Tensor([-1.61208571, -1.73708571])
        """
        return self._log_density("logpdf", x, args, kwargs)

    def pdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The density at x.

        >>> from iverson.interop.scipy import stats
        >>> stats.expon.pdf(iv.asarray([-1., 0., 1.]))
        iverson.Tensor([0.        , 1.        , 0.36787944])
        """
        return iv.exp(self._log_density("pdf", x, args, kwargs))

    def logpmf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The logarithm of the probability of k; -inf for what is no whole number of the support.

        >>> from iverson.interop.scipy import stats
        >>> stats.poisson.logpmf(iv.asarray([0., 2.]), 1.5)
        iverson.Tensor([-1.5       , -1.38221696])
        """
        return self._log_density("logpmf", k, args, kwargs)

    def pmf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The probability of k.

        >>> from iverson.interop.scipy import stats
        >>> stats.binom.pmf(iv.asarray([0., 1., 1.5]), 2, 0.5)
        iverson.Tensor([0.25, 0.5 , 0.  ])
        """
        return iv.exp(self._log_density("pmf", k, args, kwargs))

    def _log_density(self, method: str, x: ArrayLike, args: Arguments, kwargs: Named) -> Tensor:
        """Logarithm of the density, or of the probability, at ``x``; -inf outside of the support, nan for
        wrong parameters.

        method : name of the calling method; ArgumentError if it is for the other kind (discrete or
            continuous).
        """
        if method.endswith("pmf") is not self.discrete:
            kind, other = ("discrete", "pmf") if self.discrete else ("continuous", "pdf")
            raise ArgumentError(
                f"{self.name}.{method}",
                "self",
                got=f"a {kind} distribution",
                expected=f"a call of {other} or log{other}",
            )
        z, shapes, scale, right = self._standard(method, x, args, kwargs)
        low, high = self.support(*shapes)
        inside = (z >= low) & (z <= high)
        if self.discrete:
            inside = inside & (iv.floor(z) == z)
        logs = self.log_density(z, *shapes)
        if not self.discrete:
            logs = logs - iv.log(scale)
        return self._where(right, z, iv.where(inside, logs, -math.inf))

    # -- distribution functions ----------------------------------------------------------------------

    def cdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The probability of what is at most x.

        >>> from iverson.interop.scipy import stats
        >>> stats.t.cdf(iv.asarray([-1., 0., 1.]), 1.0)
        iverson.Tensor([0.25, 0.5 , 0.75])
        """
        return self._cumulative("cdf", x, args, kwargs)

    def sf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The probability of what is above x, exact where it is small.

        >>> from iverson.interop.scipy import stats
        >>> stats.norm.sf(iv.asarray([10.]))
        iverson.Tensor([7.61985302e-24])
        """
        return self._cumulative("sf", x, args, kwargs)

    def logcdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The logarithm of `cdf`.

        >>> from iverson.interop.scipy import stats
        >>> stats.expon.logcdf(iv.asarray([1.]))
        iverson.Tensor([-0.45867515])
        """
        return self._cumulative("logcdf", x, args, kwargs)

    def logsf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The logarithm of `sf`.

        >>> from iverson.interop.scipy import stats
        >>> stats.expon.logsf(iv.asarray([1.]))
        iverson.Tensor([-1.])
        """
        return self._cumulative("logsf", x, args, kwargs)

    def _cumulative(self, method: str, x: ArrayLike, args: Arguments, kwargs: Named) -> Tensor:
        """Value of the distribution function at ``x``, of 1 less it ("sf"), or of the logarithm of either, by
        ``method``.
        """
        z, shapes, _, right = self._standard(method, x, args, kwargs)
        if self.discrete:
            z = iv.floor(z)
        low, high = self.support(*shapes)
        kind, logs = method.removeprefix("log"), method.startswith("log")
        of = {"cdf": (self.cdf_, self.log_cdf_), "sf": (self.sf_, self.log_sf_)}
        (function, logarithm), (other, _) = of[kind], of["sf" if kind == "cdf" else "cdf"]
        if logs and logarithm is not None:
            values = logarithm(z, *shapes)
        elif logs:  # exact on both sides of the median
            part, complement = function(z, *shapes), other(z, *shapes)
            values = iv.where(part < 0.5, iv.log(part), iv.log1p(-complement))
        else:
            values = function(z, *shapes)
        nothing, all_ = (-math.inf, 0.0) if logs else (0.0, 1.0)
        below, above = (nothing, all_) if kind == "cdf" else (all_, nothing)
        values = iv.where(z < low, below, iv.where(z >= high, above, values))
        return self._where(right, z, values)

    # -- quantiles -----------------------------------------------------------------------------------

    def ppf(self, q: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """Number at which `cdf` is q; nan for q outside of [0, 1].

        Of a discrete distribution the smallest number at which `cdf` is at least q, by SciPy: its only
        derivative is in ``loc``, and it reads the entries of its arguments, so it does not run in a trace.

        >>> from iverson.interop.scipy import stats
        >>> stats.norm.ppf(iv.asarray([0.5, 0.975])), stats.poisson.ppf(0.9, 2.0)
        (iverson.Tensor([0.        , 1.95996398]), iverson.Tensor(4.))
        """
        return self._quantile("ppf", q, args, kwargs)

    def isf(self, q: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """Number at which `sf` is q; nan for q outside of [0, 1]. For discrete distributions see `ppf`.

        >>> from iverson.interop.scipy import stats
        >>> stats.expon.isf(iv.asarray([1e-20])).round(decimals=6)
        iverson.Tensor([46.051702])
        """
        return self._quantile("isf", q, args, kwargs)

    def _quantile(self, method: str, q: ArrayLike, args: Arguments, kwargs: Named) -> Tensor:
        """Number at which `cdf` ("ppf") or `sf` ("isf") is ``q``; nan if ``q`` or a parameter is not
        allowed.
        """
        p, *shapes, loc, scale = self._read(method, {"q": q}, args, kwargs)
        if self.discrete:
            theirs = getattr(getattr(import_module("scipy.stats"), self.name), method)
            return loc + iv.asarray(theirs(*map(_entries, (p, *shapes))), dtype=p.dtype)
        inverse = self.ppf_ if method == "ppf" else self.isf_
        assert inverse is not None
        first, last = self.support(*shapes)
        if method == "isf":
            first, last = last, first
        z = inverse(p, *shapes)
        z = iv.where(p == 0, first, iv.where(p == 1, last, z))
        right = self.allowed(*shapes) & (scale > 0) & (p >= 0) & (p <= 1)
        return iv.where(right, loc + scale * z, math.nan)

    def median(self, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """Number at which `cdf` is 1 / 2: `ppf` of 0.5.

        >>> from iverson.interop.scipy import stats
        >>> stats.expon.median(scale=2.0).round(decimals=6)
        iverson.Tensor(1.386294)
        """
        return self._quantile("ppf", 0.5, args, kwargs)

    def interval(self, confidence: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> tuple[Tensor, Tensor]:
        """Ends between which a draw is with a probability, and above and below with equal ones, as `ppf`.

        >>> from iverson.interop.scipy import stats
        >>> stats.uniform.interval(0.5)
        (iverson.Tensor(0.25), iverson.Tensor(0.75))
        """
        level = as_real(confidence, f"{self.name}.interval", "confidence")
        low, high = (self._quantile("ppf", q, args, kwargs) for q in ((1 - level) / 2, (1 + level) / 2))
        return low, high

    def rvs(
        self, *args: ArrayLike, size: ShapeLike | None = None, random_state: Seed = None, **kwargs: ArrayLike
    ) -> Tensor:
        """Independent draws.

        ``size`` is the shape of the result, that of the parameters unless given; ``random_state`` a seed or
        generator, as `iverson.random.default_rng` takes it. Draws of continuous distributions are quantiles
        of uniform numbers, so they have derivatives in the parameters; those of discrete ones have none but
        in ``loc``. Raises as `iverson.random.Generator`.

        >>> from iverson.interop.scipy import stats
        >>> scale = iv.asarray(3.0, requires_grad=True)
        >>> x = stats.expon.rvs(scale=scale, size=(2,), random_state=0)
        >>> (iv.autograd.grad(x.sum(), scale) * scale - x.sum()).round(decimals=9).item()
        0.0
        """
        *shapes, loc, scale = self._read("rvs", {}, args, kwargs)
        rng = iv.random.default_rng(random_state)
        if size is None:
            size = iv.broadcast_shapes(*(x.shape for x in (*shapes, loc, scale)))
        if self.draw_ is not None:
            return loc + iv.astype(self.draw_(rng, size, *(s.detach() for s in shapes)), loc.dtype)
        # Inside of (0, 1): inverses have no derivative at the ends.
        u = rng.random(size, dtype=loc.dtype) + (2.0**-25 if loc.dtype == iv.float32 else 2.0**-54)
        assert self.ppf_ is not None
        right = self.allowed(*shapes) & (scale > 0)
        return iv.where(right, loc + scale * self.ppf_(u, *shapes), math.nan)

    # -- moments -------------------------------------------------------------------------------------

    def mean(self, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The mean; inf or nan where there is none.

        >>> from iverson.interop.scipy import stats
        >>> stats.gamma.mean(2.0, scale=3.0)
        iverson.Tensor(6.)
        """
        *shapes, loc, scale = self._read("mean", {}, args, kwargs)
        return iv.where(self.allowed(*shapes) & (scale > 0), loc + scale * self.mean_(*shapes), math.nan)

    def var(self, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The variance; inf or nan where there is none.

        >>> from iverson.interop.scipy import stats
        >>> stats.uniform.var(0.0, 6.0)
        iverson.Tensor(3.)
        """
        *shapes, _, scale = self._read("var", {}, args, kwargs)
        right = self.allowed(*shapes) & (scale > 0)
        return iv.where(right, scale * scale * self.variance_(*shapes), math.nan)

    def std(self, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The square root of the variance.

        >>> from iverson.interop.scipy import stats
        >>> stats.laplace.std().round(decimals=6)
        iverson.Tensor(1.414214)
        """
        return iv.sqrt(self.var(*args, **kwargs))

    def entropy(self, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
        """The mean of ``-logpdf`` or ``-logpmf``, in nats.

        Where there is no closed form, a sum over the support, of as many terms as the parameters ask for,
        which are read: they cannot be in a trace.

        >>> from iverson.interop.scipy import stats
        >>> stats.norm.entropy(0.0, 2.0).round(decimals=6), stats.poisson.entropy(3.0).round(decimals=6)
        (iverson.Tensor(2.112086), iverson.Tensor(1.93147))
        """
        *shapes, _, scale = self._read("entropy", {}, args, kwargs)
        nats = (self._summed if self.entropy_ is None else self.entropy_)(*shapes)
        right = self.allowed(*shapes) & (scale > 0)
        return iv.where(right, nats if self.discrete else nats + iv.log(scale), math.nan)

    def _summed(self, *shapes: Tensor) -> Tensor:
        """Entropy of a distribution on 0, 1, ..., as a sum up to where the remaining terms are below
        rounding.
        """
        end = self.mean_(*shapes) + 40 * iv.sqrt(self.variance_(*shapes)) + 40
        count = int(np.nanmax(_entries(iv.minimum(end, self.support(*shapes)[1])), initial=0)) + 1
        k = iv.reshape(iv.arange(count, dtype=end.dtype), (count, *[1] * end.ndim))
        log_p = self.log_density(k, *shapes)
        inside = (k <= self.support(*shapes)[1]) & (log_p > -math.inf)
        return -iv.sum(iv.where(inside, iv.exp(log_p) * log_p, 0.0), axis=0)

    # -- arguments -----------------------------------------------------------------------------------

    def _read(self, method: str, first: Named, args: Arguments, kwargs: Named) -> list[Tensor]:
        """List of the items in ``first``, the shape parameters, the location and the scale, as tensors of one
        dtype.

        The dtype is that of the arguments that are arrays, float64 if all are numbers. Raises
        ArgumentTypeError for arguments that are missing, unknown or given twice.
        first : the argument of the method (x, k or q) by name; empty if it has none.
        """
        names = (*self.shapes, "loc", *(() if self.discrete else ("scale",)))
        arguments = dict(zip(names, args, strict=False))
        operation = f"{self.name}.{method}"
        if len(args) > len(names) or kwargs.keys() - set(names) or kwargs.keys() & arguments.keys():
            spelled = [*map(str, range(len(args))), *kwargs]
            raise ArgumentTypeError(
                operation, got=f"arguments {spelled}", expected=f"each of {names} at most once"
            )
        arguments |= kwargs
        missing = [n for n in self.shapes if n not in arguments]
        if missing:
            raise ArgumentTypeError(operation, missing[0], got="nothing", expected="a shape parameter")
        arguments = (
            first
            | {n: arguments[n] for n in self.shapes}
            | {n: arguments.get(n, d) for n, d in _STANDARD.items()}
        )
        parameters = {n: as_real(x, operation, n) for n, x in arguments.items()}
        of_arrays = [x.dtype for n, x in parameters.items() if type(arguments[n]) not in SCALARS]
        dtype = iv.result_type(*of_arrays) if of_arrays else iv.float64
        return [cast(x, dtype) for x in parameters.values()]

    def _standard(
        self, method: str, x: ArrayLike, args: Arguments, kwargs: Named
    ) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        """Standard variable (x - loc) / scale, the shape parameters, the scale, and a boolean tensor.

        The boolean tensor is True where the parameters are allowed.
        """
        x, *shapes, loc, scale = self._read(method, {"k" if self.discrete else "x": x}, args, kwargs)
        return (x - loc) / scale, shapes, scale, self.allowed(*shapes) & (scale > 0)

    def _where(self, right: Tensor, z: Tensor, values: Tensor) -> Tensor:
        """The ``values`` where parameters are allowed (``right``) and ``z`` is not nan; elsewhere nan."""
        return iv.where(right & ~iv.isnan(z), values, math.nan)


def _entries(x: ArrayLike) -> NDArray:
    return iv.asarray(x).detach().numpy()


@dataclass(frozen=True)
class Frozen:
    """A distribution with parameters; its methods are those of `Distribution` without them."""

    distribution: Distribution
    args: Arguments
    kwargs: Named

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name in ("args", "kwargs", "distribution"):
            raise AttributeError(name)
        method = getattr(self.distribution, name)
        if name in ("entropy", "mean", "median", "std", "var"):
            return lambda: method(*self.args, **self.kwargs)
        if name == "rvs":
            return lambda size=None, random_state=None: method(
                *self.args, **self.kwargs, size=size, random_state=random_state
            )
        return lambda x: method(x, *self.args, **self.kwargs)
