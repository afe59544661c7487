"""Distributions of `scipy.stats` by SciPy's own formulas, which compute with any array.

A family of SciPy overrides methods that its base class documents for that (``_logpdf``, ``_cdf``, ``_ppf``,
...): formulas of the standard variable and of the shapes. Here they are called on tensors. What a family
leaves to numerics of the base class is SciPy's value with the derivative that follows from the density.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.errors import ArgumentError
from iverson.handles import Tensor
from iverson.interop.scipy.by_matrix.linear_maps import Setting, theirs
from iverson.interop.scipy.distribution_base import Distribution
from iverson.interop.scipy.special.records import of_body


def _overrides(family: Setting, method: str) -> bool:
    """True if a family has a formula of its own for a method of the base class."""
    kind = theirs("stats.rv_discrete" if hasattr(family, "pmf") else "stats.rv_continuous")
    return getattr(type(family), method) is not getattr(kind, method)


def _called(formula: Callable[..., Setting]) -> Callable[..., Tensor]:
    def call(*xs: Tensor) -> Tensor:
        with np.errstate(all="ignore"):
            return iv.asarray(formula(*xs))

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


def _moment(family: Setting, k: int) -> Callable[..., Tensor]:
    method = ("mean", "var")[k]
    if not _overrides(family, "_stats"):
        return _without_formula(family, method)

    def call(*shapes: Tensor) -> Tensor:
        moment = family._stats(*shapes)[k]
        return _without_formula(family, method)() if moment is None else iv.asarray(moment)

    return call


def from_scipy(name: str) -> Distribution:
    """The distribution that SciPy has under a name, on tensors.

    >>> from_scipy("gompertz").logpdf(iv.asarray([0.5]), 1.5).round(decimals=6)
    iverson.Tensor([-0.067617])
    """
    family = theirs(f"stats.{name}")
    discrete = hasattr(family, "pmf")
    log_density = _called(family._logpmf if discrete else family._logpdf)

    def density(*xs: Tensor) -> Tensor:
        return iv.exp(log_density(*xs))

    cdf = _called(family._cdf) if _overrides(family, "_cdf") else _by_numerics(family, "cdf", density, 1.0)
    own_tail = _overrides(family, "_sf")
    sf = _called(family._sf) if own_tail else (lambda *xs: 1 - cdf(*xs))
    fields: dict[str, Any] = {}
    if not discrete:
        for method, function, sign in (("ppf", cdf, 1.0), ("isf", sf, -1.0)):
            has_formula = _overrides(family, f"_{method}")
            formula = _called(getattr(family, f"_{method}"))
            fields[f"{method}_"] = (
                formula if has_formula else _inverse(family, method, function, density, sign)
            )
    own_entropy = _overrides(family, "_entropy")
    fields["entropy_"] = _called(family._entropy) if own_entropy else _without_formula(family, "entropy")
    if _overrides(family, "_argcheck"):
        fields["allowed"] = lambda *shapes: iv.asarray(family._argcheck(*(s.detach() for s in shapes))) != 0
    return Distribution(
        name=name, shapes=_shapes(family), support=family._get_support, log_density=log_density, cdf_=cdf,
        sf_=sf, mean_=_moment(family, 0), variance_=_moment(family, 1), discrete=discrete, **fields,
    )  # fmt: skip


__all__ = ["from_scipy"]
