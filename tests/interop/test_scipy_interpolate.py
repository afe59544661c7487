"""Interpolation: SciPy's values for knots at random, derivatives to second order in everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.interpolate

import iverson as iv
from iverson.errors import ArgumentError, ShapeError
from iverson.interop.scipy import interpolate
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE, in_short, some, turn


def same(ours: Any, theirs: Any) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("seed", range(20 if EXHAUSTIVE else 8))
def test_values_are_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, rest = int(rng.integers(2, 8)), [int(k) for k in rng.integers(1, 4, rng.integers(0, 3))]
    axis = int(rng.integers(0, len(rest) + 1))
    x = np.cumsum(rng.uniform(0.2, 1, n))
    y = rng.normal(size=[*rest[:axis], n, *rest[axis:]])
    at = rng.uniform(x[0] - 0.5, x[-1] + 0.5, [int(k) for k in rng.integers(0, 4, rng.integers(0, 3))])
    if seed % 4 == 3:
        y = y + 1j * y[::-1]
    slope, bend = np.full(rest, 0.3), np.full(rest, -0.5)
    for ends in ("not-a-knot", "natural", "clamped", ((1, slope), (2, bend)), ((2, bend), "not-a-knot")):
        ours = (
            ends
            if isinstance(ends, str)
            else tuple(e if isinstance(e, str) else (e[0], e[1].ravel()) for e in ends)
        )
        for nu, outside in ((0, True), (0, False), (1, True), (2, False), (3, True), (4, True)):
            expected = scipy.interpolate.CubicSpline(x, y, axis, ends, outside)(at, nu)
            same(interpolate.CubicSpline(x, y, axis, ours, outside)(at, nu), expected)
    first, last = ([slice(None)] * axis + [k] for k in (0, -1))
    y[tuple(last)] = y[tuple(first)]
    expected = scipy.interpolate.CubicSpline(x, y, axis, "periodic", extrapolate=False)(at)
    same(interpolate.CubicSpline(x, y, axis, "periodic", extrapolate=False)(at), expected)
    for values in (y.real, np.round(y.real)):
        for name in ("PchipInterpolator", "Akima1DInterpolator")[: 1 + (n > 2)]:
            expected = getattr(scipy.interpolate, name)(x, values, axis)(at)
            same(getattr(interpolate, name)(x, values, axis)(at), expected)
    hermite = interpolate.CubicHermiteSpline(x, y, y * 2, axis)
    same(hermite(at), scipy.interpolate.CubicHermiteSpline(x, y, y * 2, axis)(at))
    same(hermite.derivative()(at), scipy.interpolate.CubicHermiteSpline(x, y, y * 2, axis)(at, 1))


@pytest.mark.parametrize("seed", range(10 if EXHAUSTIVE else 5))
def test_grids_are_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = tuple(np.cumsum(rng.uniform(0.2, 1, int(rng.integers(2, 5)))) for _ in range(rng.integers(1, 4)))
    values = rng.normal(size=[*map(len, grid), 2][: len(grid) + seed % 2])
    at = np.stack([rng.uniform(g[0] - 0.3, g[-1] + 0.3, 7) for g in grid], -1)
    at[0, 0] = np.nan
    for method in ("linear", "nearest"):
        for fill in (None, np.nan, 2.0):
            given = (grid, values, method, False, fill)
            expected = scipy.interpolate.RegularGridInterpolator(*given)(at)
            same(interpolate.RegularGridInterpolator(*given)(at), expected)
    with pytest.raises(ArgumentError, match="outside of the grid"):
        interpolate.RegularGridInterpolator(grid, values)(at + 9)
    apart = interpolate.RegularGridInterpolator(grid, values, bounds_error=False)(tuple(at.T))
    same(apart, scipy.interpolate.RegularGridInterpolator(grid, values, bounds_error=False)(tuple(at.T)))


rng = np.random.default_rng(0)
X, Y, AT = np.array([0.0, 1.0, 2.5, 3.0, 4.2]), rng.normal(size=5), np.array([0.3, 2.7, 3.9, -0.2])
DIFFERENTIATED = {
    "spline": lambda x, y, at: interpolate.CubicSpline(x, y)(at),
    "natural": lambda x, y, at: interpolate.CubicSpline(x, y, bc_type="natural")(at, 1),
    "ends": lambda x, y, at: interpolate.CubicSpline(x, y, bc_type=((1, y[0]), (2, y[1])))(at),
    "pchip": lambda x, y, at: interpolate.PchipInterpolator(x, y)(at),
    "akima": lambda x, y, at: interpolate.Akima1DInterpolator(x, y, extrapolate=True)(at),
    "grid": lambda x, y, at: interpolate.RegularGridInterpolator(
        (x, y[:2] ** 2 * np.array([0.0, 1.0])), y[:, None] * y[:2] ** 2, bounds_error=False, fill_value=None
    )(iv.stack([at, at * at], axis=1)),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives_to_second_order_compiled_and_mapped(name: str) -> None:
    f = DIFFERENTIATED[name]
    leaves = tuple(iv.asarray(v, requires_grad=True) for v in (X, Y, AT))
    assert gradcheck(f, leaves, **in_short(name))
    if EXHAUSTIVE or not turn(name, 4):
        assert gradgradcheck(f, leaves, **{"fast": True, **in_short(f"{name} twice", 8)})
    x, y, at = (x.detach() for x in leaves)
    compiled = lambda y: iv.jit(f)(x, y, at)
    mapped = lambda y: iv.vmap(lambda y: f(x, y, at))(iv.stack([y / 2, y]))[1]
    for way in some(f"{name} ways", [compiled, mapped]):
        same(way(y * 2), f(x, y * 2, at).numpy())


def test_what_is_refused() -> None:
    for call, kind, match in (
        (lambda: interpolate.CubicSpline(X[::-1].copy(), Y), ArgumentError, "do not increase"),
        (lambda: interpolate.CubicSpline(X[:1], Y[:1]), ShapeError, "at least 2 knots"),
        (lambda: interpolate.CubicSpline(X, Y[:4]), ShapeError, "5 along axis"),
        (lambda: interpolate.CubicSpline(X, Y, bc_type="free"), ArgumentError, "bc_type"),
        (lambda: interpolate.CubicSpline(X, Y, bc_type=((3, 1.0), "natural")), ArgumentError, "bc_type"),
        (lambda: interpolate.CubicSpline(X, Y)(AT, -1), ArgumentError, "nu"),
        (lambda: interpolate.CubicHermiteSpline(X, Y, Y[:4]), ShapeError, "dydx"),
        (lambda: interpolate.RegularGridInterpolator((X,), Y, "spline"), ArgumentError, "method"),
        (lambda: interpolate.RegularGridInterpolator((X,), Y[:3]), ShapeError, "values"),
        (lambda: interpolate.RegularGridInterpolator((X, X), np.ones((5, 5)))(AT), ShapeError, "xi"),
    ):
        with pytest.raises(kind, match=match):
            call()
