"""What series are compared with: derivatives of the same function along a curve, one nested in the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import iverson as iv
from tests.graph.programs import as_tuple, entries


def coefficients(args: Sequence[Any], order: int, seed: int = 0, scale: float = 0.1) -> list[list[Any]]:
    """Coefficients of orders 1 to ``order`` of a curve through arguments, in their dtypes."""
    rng = np.random.default_rng(seed)

    def drawn(a: Any) -> Any:
        x = rng.standard_normal(a.shape)
        if a.dtype.kind == "c":
            x = x + 1j * rng.standard_normal(a.shape)
        return iv.asarray(np.asarray(scale * x, a.dtype))

    return [[drawn(a) for _ in range(order)] for a in args]


def floating(out: Any) -> tuple[Any, ...]:
    """The results that have derivatives."""
    return tuple(x for x in as_tuple(out) if x.dtype.kind in "fc")


def nested(function: Callable[..., Any], args: Sequence[Any], series: Sequence[Sequence[Any]]) -> list[Any]:
    """Coefficients of t -> f(x(t)), each by one more `jvp` around the others."""
    order = len(series[0])

    def along(t: Any) -> tuple[Any, ...]:
        xs = []
        for a, cs in zip(args, series, strict=True):
            x = a
            for k, c in enumerate(cs, 1):
                x = x + c * t**k
            xs.append(x)
        return floating(function(*xs))

    levels = [along]
    for _ in range(order):
        levels.append(lambda t, f=levels[-1]: iv.jvp(f, (t,), (iv.asarray(1.0),))[1])  # type: ignore[misc]
    return [[entries(x) / math.factorial(k) for x in f(iv.asarray(0.0))] for k, f in enumerate(levels)]


def agree(
    function: Callable[..., Any], args: Sequence[Any], series: Sequence[Sequence[Any]], rtol: float = 1e-9
) -> None:
    """The series of a function is that of nested derivatives, in value, shape and dtype."""
    value, others = iv.jet(lambda *xs: floating(function(*xs)), args, series)
    for found, expected in zip([value, *others], nested(function, args, series), strict=True):
        for x, y in zip(found, expected, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            size = np.max(np.abs(y), initial=0)
            np.testing.assert_allclose(entries(x), y, rtol=rtol, atol=rtol * size + 1e-12, equal_nan=True)
