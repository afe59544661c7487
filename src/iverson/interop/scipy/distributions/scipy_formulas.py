"""Distributions of `scipy.stats` by SciPy's own formulas, which compute with any array.

A family of SciPy overrides methods that its base class documents for that (``_logpdf``, ``_cdf``, ``_ppf``,
...): formulas of the standard variable and of the shapes. Here they are called on tensors, with what makes
arrays of NumPy in them replaced. What a family leaves to numerics of the base class, or computes in compiled
code, is SciPy's value with the derivative that follows from the density.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

import iverson as iv
from iverson import special
from iverson.core.errors import ArgumentError, IversonError
from iverson.handles import Tensor
from iverson.interop.scipy.by_matrix.linear_maps import Setting, theirs
from iverson.interop.scipy.distribution_base import Distribution
from iverson.interop.scipy.special.records import of_body


def _apply_where(
    condition: Setting,
    xs: Setting,
    holds: Setting,
    fails: Setting = None,
    *,
    fill_value: Setting = None,
    **_: Setting,
) -> Any:
    """``array_api_extra.apply_where``: each function at all entries, the one that is meant chosen."""
    xs = xs if isinstance(xs, (list, tuple)) else (xs,)
    return iv.where(condition, holds(*xs), fill_value if fails is None else fails(*xs))


def _select(conditions: Setting, choices: Setting, xs: Setting = (), default: Setting = 0.0) -> Any:
    """``numpy.select``; choices may be functions of ``xs``."""
    result = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = iv.where(condition, choice(*xs) if callable(choice) else choice, result)
    return result


class _Library:
    """A library that formulas call, some functions of which are replaced by those of tensors."""

    def __init__(self, library: Setting, **replaced: Setting) -> None:
        self._library = library
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


def _array(x: Setting, *_: Setting, **__: Setting) -> Any:
    return iv.asarray(x)


def _put(x: Setting, condition: Setting, values: Setting) -> None:
    x[...] = iv.where(condition, values, x)


def _log_gauss_mass(a: Setting, b: Setting) -> Any:
    """The logarithm of the probability that a normal number is in [a, b], from the nearer tail."""
    far = iv.where(b <= 0, b, -a)  # the end that is nearer to 0, mirrored to the left
    log_far, log_end = (special.log_ndtr(x) for x in (far, iv.where(b <= 0, a, -b)))
    tails = log_far + iv.log1p(-iv.exp(log_end - log_far))
    return iv.where((a < 0) & (b > 0), iv.log1p(-special.ndtr(a) - special.ndtr(-b)), tails)


#: What formulas find under the names of their module in place of functions that make arrays of NumPy.
_REPLACED = {
    "_lazyselect": _select,
    "_log_gauss_mass": _log_gauss_mass,
    "np": _Library(np, array=_array, asarray=_array, atleast_1d=_array, putmask=_put, select=_select),
    "xp_promote": lambda *xs, **_: xs,
    "xpx": _Library(None, apply_where=_apply_where),
}


def _on_tensors(family: Setting) -> Any:
    """A copy of a distribution of SciPy whose formulas, and functions of their module, call `_REPLACED`."""
    kind = type(family)
    names = dict(vars(import_module(kind.__module__)))

    def again(function: FunctionType) -> FunctionType:
        copied = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )
        copied.__kwdefaults__ = function.__kwdefaults__
        return copied

    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and value.__module__ == kind.__module__:
            names[name] = again(value)
    names |= {name: function for name, function in _REPLACED.items() if name in names}
    formulas: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ == kind.__module__:
            functions = {n: f for n, f in vars(base).items() if isinstance(f, FunctionType)}
            formulas |= {n: again(f) for n, f in functions.items() if n.startswith("_") and n != "__init__"}
    copied: Any = object.__new__(type(kind.__name__, (kind,), formulas))
    vars(copied).update(vars(family))
    return copied


def _overrides(family: Setting, method: str) -> bool:
    """True if a family has a formula of its own for a method of the base class."""
    kind = theirs("stats.rv_discrete" if hasattr(family, "pmf") else "stats.rv_continuous")
    return getattr(type(family), method) is not getattr(kind, method)


def _called(formula: Callable[..., Setting], otherwise: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A formula on tensors, or what computes the same where the formula calls compiled code."""

    def call(*xs: Tensor) -> Tensor:
        with np.errstate(all="ignore"):
            try:
                return iv.asarray(formula(*xs))
            except (IversonError, TypeError):
                return otherwise(*xs)

    return call


def _in_shape(function: Callable[..., Tensor], k: int, xs: tuple[Tensor, ...]) -> Any:
    """The derivative of an elementwise function in argument k."""
    x = xs[k] + iv.zeros_like(xs[0])
    return iv.jvp(lambda x: function(*xs[:k], x, *xs[k + 1 :]), (x,), (iv.ones_like(x),))[1]


def _by_numerics(
    family: Setting, method: str, density: Callable[..., Tensor], sign: float
) -> Callable[..., Tensor]:
    """A distribution function that SciPy integrates: its derivative in the variable is the density."""
    names = ("x", *_shapes(family))
    slopes = [lambda *xs: sign * density(*xs), *([None] * (len(names) - 1))]
    return of_body(f"stats.{family.name}.{method}", names, slopes, getattr(family, method))


def _inverse(
    family: Setting, method: str, function: Callable[..., Tensor], density: Callable[..., Tensor], sign: float
) -> Callable[..., Tensor]:
    """A quantile that SciPy searches: y with function(y, shapes) = q, so dy = (dq - function_s ds) / (sign
    pdf).
    """
    names = ("q", *_shapes(family))

    def slope(k: int) -> Callable[..., Any]:
        def of(*xs: Tensor) -> Any:
            at = (call(*xs), *xs[1:])
            inner = sign * density(*at)
            return (1.0 if k == 0 else -_in_shape(function, k, at)) / inner

        return of

    call = of_body(
        f"stats.{family.name}.{method}", names, [slope(k) for k in range(len(names))],
        getattr(family, method),
    )  # fmt: skip
    return call


def _shapes(family: Setting) -> tuple[str, ...]:
    return tuple(s.strip() for s in family.shapes.split(",")) if family.shapes else ()


def _without_formula(family: Setting, method: str) -> Callable[..., Tensor]:
    def refused(*_: Tensor) -> Tensor:
        raise ArgumentError(
            f"{family.name}.{method}",
            got="a distribution for which SciPy integrates or sums",
            expected="one with a formula",
            remedy=f"take scipy.stats.{family.name}.{method}, of numbers",
        )

    return refused


def _moment(family: Setting, copied: Setting, k: int) -> Callable[..., Tensor]:
    method = ("mean", "var")[k]
    if not _overrides(family, "_stats"):
        return _without_formula(family, method)

    def call(*shapes: Tensor) -> Tensor:
        moment = copied._stats(*shapes)[k]
        return _without_formula(family, method)() if moment is None else iv.asarray(moment)

    return call


def from_scipy(name: str) -> Distribution:
    """The distribution that SciPy has under a name, on tensors.

    >>> from_scipy("gompertz").logpdf(iv.asarray([0.5]), 1.5).round(decimals=6)
    iverson.Tensor([-0.067617])
    """
    family = theirs(f"stats.{name}")
    copied = _on_tensors(family)
    discrete = hasattr(family, "pmf")

    def slope_of_cdf(*xs: Tensor) -> Tensor:
        slope: Tensor = _in_shape(_called(copied._cdf, _without_formula(family, "logpdf")), 0, xs)
        return iv.log(slope)

    if discrete:
        log_density = _called(copied._logpmf, _without_formula(family, "logpmf"))
    else:
        log_density = _called(copied._logpdf, slope_of_cdf)

    def density(*xs: Tensor) -> Tensor:
        return iv.exp(log_density(*xs))

    cdf = _by_numerics(family, "cdf", density, 1.0)
    if _overrides(family, "_cdf"):
        cdf = _called(copied._cdf, cdf)
    own_tail = _overrides(family, "_sf")
    tail = _by_numerics(family, "sf", density, -1.0)
    sf = _called(copied._sf, tail) if own_tail else (lambda *xs: 1 - cdf(*xs))
    fields: dict[str, Any] = {}
    if not discrete:
        for method, function, sign in (("ppf", cdf, 1.0), ("isf", sf, -1.0)):
            inverse = _inverse(family, method, function, density, sign)
            has_formula = _overrides(family, f"_{method}")
            fields[f"{method}_"] = _called(getattr(copied, f"_{method}"), inverse) if has_formula else inverse
    own_entropy = _overrides(family, "_entropy")
    numerics = _without_formula(family, "entropy")
    fields["entropy_"] = _called(copied._entropy, numerics) if own_entropy else numerics
    if _overrides(family, "_argcheck"):
        fields["allowed"] = lambda *shapes: iv.asarray(family._argcheck(*(s.detach() for s in shapes))) != 0
    mean, variance = (_moment(family, copied, k) for k in (0, 1))
    return Distribution(
        name=name, shapes=_shapes(family), support=copied._get_support, log_density=log_density, cdf_=cdf,
        sf_=sf, mean_=mean, variance_=variance, discrete=discrete, **fields,
    )  # fmt: skip


__all__ = ["from_scipy"]
