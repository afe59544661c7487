"""Distributions: SciPy's values where parameters are right or wrong, mpmath's in the tails, derivatives to
second order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import scipy.stats
from mpmath import mp
from scipy.stats._distr_params import distcont, distdiscrete

import iverson as iv
from iverson.errors import ArgumentError, ArgumentTypeError, DTypeError, GradientError, GraphError
from iverson.interop.scipy import stats
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE, by_turns, some, turn

NAMES = [n for n in stats.__all__ if isinstance(vars(stats).get(n), stats.Distribution)]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def parameters(name: str, rng: Any) -> list[float]:
    """Shape parameters, a location and a scale."""
    own = getattr(stats, name)
    shapes = {"p": rng.uniform(0.05, 0.95), "n": float(rng.integers(1, 9))}
    found = [shapes.get(n, rng.uniform(0.3, 6)) for n in own.shapes]
    return (
        [*found, float(rng.integers(-2, 3))] if own.discrete else [*found, rng.normal(), rng.uniform(0.2, 3)]
    )


def points(name: str, given: list[float]) -> dict[str, Any]:
    """Arguments by method: inside, at and beyond the ends of the support, and no numbers."""
    if getattr(stats, name).discrete:
        x = np.array([*range(-4, 12), 2.5, np.nan, np.inf, -np.inf])
        q = np.array([0, 1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1, -0.1, np.nan])
        return {
            **dict.fromkeys(("pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"), x),
            **dict.fromkeys(("ppf", "isf"), q),
        }
    loc, scale = given[-2:]
    x = loc + scale * np.array(
        [-40, -2, -1, -1e-3, 0, 1e-3, 0.3, 0.5, 0.9, 1, 1.1, 2, 40, np.nan, np.inf, -np.inf]
    )
    q = np.array([0, 1e-6, 0.01, 0.2, 0.3, 0.5, 0.6, 0.8, 0.99, 1, -0.1, 1.1, np.nan])
    return {
        **dict.fromkeys(("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"), x),
        **dict.fromkeys(("ppf", "isf"), q),
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NAMES)
def test_values_are_scipys(name: str, seed: int) -> None:
    own, theirs = getattr(stats, name), getattr(scipy.stats, name)
    given = parameters(name, np.random.default_rng(seed))
    if seed == 3:  # what is not allowed
        given[0 if own.shapes else -1] = -1.0
    for method, x in points(name, given).items():
        expected = getattr(theirs, method)(x, *given)
        found = getattr(own, method)(iv.asarray(x), *given).numpy()
        if seed == 3:
            assert np.isnan(found).all()
        else:  # SciPy's isf and logarithms of tails have fewer digits: mpmath judges these below
            np.testing.assert_allclose(found, expected, rtol=3e-9, atol=1e-14)
    for method in ("mean", "var", "std", "median", "entropy"):
        expected = getattr(theirs, method)(*given)
        rtol = 1e-9 if method in ("median", "entropy") else 1e-12  # SciPy's sums and roots end there
        np.testing.assert_allclose(getattr(own, method)(*given).numpy(), expected, rtol=rtol, atol=1e-12)
        frozen = getattr(own(*given), method)()
        np.testing.assert_array_equal(frozen.numpy(), getattr(own, method)(*given).numpy())


@pytest.mark.parametrize("name", NAMES)
def test_intervals_and_entropies(name: str) -> None:
    own, theirs = getattr(stats, name), getattr(scipy.stats, name)
    given = parameters(name, np.random.default_rng(3))
    for found in (own.interval(0.7, *given), own(*given).interval(0.7)):
        for got, wanted in zip(found, theirs.interval(0.7, *given), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9)
    free = [k for k, n in enumerate((*own.shapes, "loc")) if n not in ("n", "loc")]
    leaves = tuple(iv.asarray(given[k], requires_grad=True) for k in free)

    def entropy(*xs: Any) -> Any:
        return own.entropy(*(dict(zip(free, xs, strict=True)).get(k, v) for k, v in enumerate(given)))

    if leaves:
        assert gradcheck(entropy, leaves)
        assert gradgradcheck(entropy, leaves)
    wide = [iv.asarray([v, v * 1.2]) if k in free else v for k, v in enumerate(given)]
    both = [entropy(*(v * scale for v in leaves)).item() for scale in (1, 1.2)]
    if leaves:
        np.testing.assert_allclose(own.entropy(*wide).numpy(), both, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_draws(name: str) -> None:
    """As SciPy's distribution function says, and with derivatives along which that does not change."""
    own, theirs = getattr(stats, name), getattr(scipy.stats, name)
    given = parameters(name, np.random.default_rng(4))
    x = own.rvs(*given, size=(2000,), random_state=7)
    np.testing.assert_array_equal(x.numpy(), own(*given).rvs((2000,), 7).numpy())
    if own.discrete:
        assert (x.numpy() == np.floor(x.numpy())).all()
        values, counts = np.unique(x.numpy(), return_counts=True)
        expected = 2000 * theirs.pmf(values, *given)
        often = expected > 5
        assert (
            scipy.stats.chi2.sf(
                ((counts - expected)[often] ** 2 / expected[often]).sum(), max(often.sum() - 1, 1)
            )
            > 1e-3
        )
    else:
        assert scipy.stats.kstest(x.numpy(), theirs(*given).cdf).pvalue > 1e-3
        leaves = [iv.asarray(v, requires_grad=True) for v in given]
        level = own.cdf(own.rvs(*leaves, size=(3,), random_state=1), *leaves)
        for g in iv.autograd.grad(level.sum(), leaves):
            np.testing.assert_allclose(g.numpy(), 0, atol=1e-9)
    single = own.rvs(*[iv.asarray(v, dtype=iv.float32) for v in given])
    assert (single.shape, single.dtype) == ((), iv.float32)
    if not own.discrete:
        compiled = iv.jit(lambda *xs: own.rvs(*xs, size=(4,), random_state=1))(*map(iv.asarray, given))
        np.testing.assert_allclose(
            compiled.numpy(), own.rvs(*given, size=(4,), random_state=1).numpy(), rtol=1e-12
        )


def _gamma(a: Any, z: Any) -> tuple[Any, Any]:
    return mp.gammainc(a, 0, z, regularized=True), mp.gammainc(a, z, mp.inf, regularized=True)


def _beta(a: Any, b: Any, z: Any, rest: Any) -> tuple[Any, Any]:
    """With 1 - z given, so that it is exact."""
    return mp.betainc(a, b, 0, z, regularized=True), mp.betainc(b, a, 0, rest, regularized=True)


def _of_sf(sf: Any) -> tuple[Any, Any]:
    return 1 - sf, sf


#: The distribution function and 1 less it, of the standard variable, as mpmath has them.
EXACT: dict[str, Any] = {
    "norm": lambda z: (mp.ncdf(z), mp.ncdf(-z)),
    "uniform": lambda z: (z, 1 - z),
    "expon": lambda z: _of_sf(mp.exp(-z)),
    "laplace": lambda z: _of_sf(mp.exp(-z) / 2 if z > 0 else 1 - mp.exp(z) / 2),
    "logistic": lambda z: (1 / (1 + mp.exp(-z)), 1 / (1 + mp.exp(z))),
    "cauchy": lambda z: (mp.atan2(1, -z) / mp.pi, mp.atan2(1, z) / mp.pi),
    "gumbel_r": lambda z: _of_sf(1 - mp.exp(-mp.exp(-z))),
    "gamma": lambda z, a: _gamma(a, z),
    "chi2": lambda z, df: _gamma(df / 2, z / 2),
    "beta": lambda z, a, b: _beta(a, b, z, 1 - z),
    "lognorm": lambda z, s: (mp.ncdf(mp.log(z) / s), mp.ncdf(-mp.log(z) / s)),
    "weibull_min": lambda z, c: _of_sf(mp.exp(-(z**c))),
    "pareto": lambda z, b: _of_sf(z**-b),
    "t": lambda z, df: tuple(
        (half if s * z < 0 else 1 - half)
        for half in [mp.betainc(df / 2, 0.5, 0, df / (df + z * z), regularized=True) / 2]
        for s in (1, -1)
    ),
    "f": lambda z, n, d: _beta(n / 2, d / 2, n * z / (d + n * z), d / (d + n * z)),
    "poisson": lambda k, mu: _gamma(k + 1, mu)[::-1],
    "binom": lambda k, n, p: _beta(k + 1, n - k, p, 1 - p)[::-1],
    "bernoulli": lambda k, p: _of_sf(p),
    "geom": lambda k, p: _of_sf((1 - p) ** k),
    "nbinom": lambda k, n, p: _beta(n, k + 1, p, 1 - p),
}
TAILS = [1e-100, 1e-40, 1e-12, 1e-5, 0.02, 0.3, 0.4999, 0.5, 0.6, 0.9, 0.99999]


@mp.workdps(230)  # 1 less the smallest tail has as many digits
@pytest.mark.parametrize("name", by_turns(NAMES, 3))
def test_values_are_mpmaths_in_the_tails(name: str) -> None:
    own, exact = getattr(stats, name), EXACT[name]
    rng = np.random.default_rng(5)
    for shapes in (parameters(name, rng)[: len(own.shapes)] for _ in range(3 if EXHAUSTIVE else 1)):
        of = [mp.mpf(s) for s in shapes]
        if own.discrete:
            last = {"binom": shapes[0], "bernoulli": 1}.get(name, 60)
            z = np.arange(float(own.support(*shapes)[0]), last)
        else:
            quantiles = [getattr(own, m)(iv.asarray(TAILS), *shapes).numpy() for m in ("ppf", "isf")]
            for which, found in enumerate(quantiles):
                for q, x in zip(TAILS, found, strict=True):
                    if not 1e-300 < abs(x) < 1e300 or x in own.support(*shapes):
                        continue  # not a number to compare
                    # As good as q is known, or z.
                    error = abs(exact(mp.mpf(float(x)), *of)[which] - q) / min(q, 1 - q)
                    density = mp.exp(mp.mpf(own.logpdf(float(x), *shapes).item()))
                    assert error < 3e-12 * max(1, density * abs(float(x)) / min(q, 1 - q)), (which, q, x)
            z = np.concatenate(quantiles)
            low, high = own.support(*shapes)
            z = np.unique(z[(z > low) & (z < high) & (abs(z) > 1e-300) & (abs(z) < 1e300)])
        for x in z:
            values = exact(mp.mpf(float(x)), *of)
            for method, value in zip(("cdf", "sf"), values, strict=True):
                found = getattr(own, method)(x, *shapes).item()
                assert abs(found - value) <= 5e-12 * value + 1e-290, (method, x)
                found = getattr(own, "log" + method)(x, *shapes).item()
                assert abs(found - mp.log(value)) <= 5e-12 * abs(mp.log(value)), ("log" + method, x)


@mp.workdps(50)
@pytest.mark.parametrize(
    "name", some("tails", ["gamma", "chi2", "beta", "t", "f", "lognorm", "weibull_min", "pareto"], 4)
)
def test_derivatives_of_quantiles_in_the_tails(name: str) -> None:
    """z with P(z, a) = q has dz/da = -P_a / P_z."""
    own, rng = getattr(stats, name), np.random.default_rng(6)
    shapes = parameters(name, rng)[: len(own.shapes)]
    for which, method in enumerate(("ppf", "isf")):
        for q in (1e-12, 1e-3, 0.5 + 1e-9, 0.999):
            leaves = [iv.asarray(v, requires_grad=True) for v in (q, *shapes)]
            y = getattr(own, method)(*leaves)
            found = [g.item() for g in iv.autograd.grad(y, leaves)]
            at = [mp.mpf(v) for v in (y.item(), *shapes)]

            def exact(*at: Any, which: int = which) -> Any:
                return EXACT[name](*at)[which]

            def partial(k: int, at: Any = at, exact: Any = exact) -> Any:
                return mp.diff(exact, tuple(at), tuple(int(k == n) for n in range(len(at))))

            for _ in range(2):  # the quantile to more digits
                at[0] -= (exact(*at) - q) / partial(0)
            slope = partial(0)
            expected = [1 / slope, *(-partial(k) / slope for k in range(1, len(at)))]
            np.testing.assert_allclose(found, [float(e) for e in expected], rtol=1e-8)


def test_the_dtype_is_that_of_arrays() -> None:
    x = iv.asarray([0.5, 0.7], dtype=iv.float32)
    for own in (stats.norm, stats.t, stats.pareto, stats.poisson):
        shapes = [2.0] * len(own.shapes)
        assert own.cdf(x, *shapes).dtype == iv.float32
        assert own.mean(*map(iv.asarray, shapes)).dtype == iv.float64
    assert stats.norm.logpdf(x, iv.asarray(0.0)).dtype == iv.float64
    assert stats.norm.ppf(0.5).dtype == iv.float64


def inside(name: str, given: list[float]) -> tuple[Any, Any]:
    """Two points of the support, and how many parameters are real numbers with derivatives."""
    if getattr(stats, name).discrete:
        return np.array([0.0, 1.0] if name == "bernoulli" else [1.0, 2.0]) + given[-1], None
    return np.asarray(getattr(scipy.stats, name).ppf([0.3, 0.8], *given)), np.array([0.1, 0.7])


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_in_every_argument(name: str) -> None:
    own = getattr(stats, name)
    given = parameters(name, np.random.default_rng(1))
    x, q = inside(name, given)
    if own.discrete:
        whole = [k for k, n in enumerate((*own.shapes, "loc")) if n in ("n", "loc")]
        free = [k for k in range(len(given)) if k not in whole]
        calls = {"logpmf": x, "pmf": x, "cdf": x, "sf": x}
    else:
        free, calls = list(range(len(given))), {"logpdf": x, "pdf": x, "cdf": x, "sf": x, "ppf": q, "isf": q}
    first = turn(name, len(calls))
    for number, (method, at) in enumerate(calls.items()):
        if number != first and not EXHAUSTIVE:  # one method, by turns
            continue

        def f(*leaves: Any, method: str = method, at: Any = at) -> Any:
            moved = list(given)
            *changed, point = leaves if not own.discrete else (*leaves, at)
            for k, v in zip(free, changed, strict=True):
                moved[k] = v
            return getattr(own, method)(point, *moved)

        values = [given[k] for k in free] + ([] if own.discrete else [at])
        leaves = tuple(iv.asarray(np.asarray(v), requires_grad=True) for v in values)
        # Numbers: every entry is quicker than projections.
        subsets = EXHAUSTIVE or turn(f"{name} in subsets", 4) == 0
        checked = {"check_needs": subsets, "check_undefined": subsets}
        assert gradcheck(f, leaves, **checked)
        if EXHAUSTIVE or turn(f"{name} twice", 2) == 0:
            assert gradgradcheck(f, leaves, **checked)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_and_mapped(name: str) -> None:
    own = getattr(stats, name)
    given = [iv.asarray(v) for v in parameters(name, np.random.default_rng(2))]
    x = iv.asarray(inside(name, [v.item() for v in given])[0])
    q = iv.asarray([0.1, 0.7])
    methods = ("logpmf", "cdf", "sf") if own.discrete else ("logpdf", "cdf", "sf", "ppf", "isf")
    for method in some(name, methods):
        at = q if method in ("ppf", "isf") else x
        f = getattr(own, method)
        np.testing.assert_allclose(iv.jit(f)(at, *given).numpy(), f(at, *given).numpy(), rtol=1e-12)
        mapped = iv.vmap(lambda x, f=f: f(x, *given))(at)
        np.testing.assert_allclose(mapped.numpy(), f(at, *given).numpy(), rtol=1e-12)


def test_outside_of_the_support_nothing_is_multiplied() -> None:
    for own, shapes, x in (
        (stats.gamma, (0.5,), -1.0),
        (stats.beta, (0.5, 0.5), 2.0),
        (stats.lognorm, (1.0,), -1.0),
        (stats.pareto, (1.0,), 0.5),
        (stats.weibull_min, (0.5,), -2.0),
        (stats.expon, (), -1.0),
    ):
        leaves = tuple(iv.asarray(v, requires_grad=True) for v in (x, *shapes))
        for method in ("pdf", "logpdf", "cdf", "sf"):
            found = getattr(own, method)(*leaves)
            for g in iv.autograd.grad(found, leaves, create_graph=True):
                assert g.item() == 0
                assert all(h.item() == 0 for h in iv.autograd.grad(g, leaves))


def test_the_middle_of_students_distribution() -> None:
    """Where the formula by the incomplete beta function is 0 / 0, derivatives are those of the density."""
    df = iv.asarray(3.5, requires_grad=True)
    x = iv.asarray(0.0, requires_grad=True)
    y, expected = stats.t.cdf(x, df), stats.t.pdf(x, df)
    for _ in range(4):
        y = iv.autograd.grad(y, x, create_graph=True)
        np.testing.assert_allclose(y.item(), expected.item(), rtol=1e-12, atol=1e-14)
        expected = iv.autograd.grad(expected, x, create_graph=True)
    inverse = iv.autograd.grad(stats.t.ppf(q := iv.asarray(0.5, requires_grad=True), df), q)
    np.testing.assert_allclose(inverse.item(), 1 / scipy.stats.t.pdf(0, 3.5), rtol=1e-12)


def test_a_fit_by_its_gradient() -> None:
    """The likelihood of normal numbers is greatest at their mean and deviation."""
    x = np.random.default_rng(0).normal(2.0, 3.0, 50)
    found = iv.asarray([np.mean(x), np.std(x)], requires_grad=True)
    loss = -stats.norm(found[0], found[1]).logpdf(x).sum()
    np.testing.assert_allclose(iv.autograd.grad(loss, found).numpy(), [0, 0], atol=1e-10)


def test_what_is_refused() -> None:
    for call, kind, match in (
        (lambda: stats.gamma.logpdf(1.0), ArgumentTypeError, "argument 'a': got nothing"),
        (lambda: stats.norm.pdf(1.0, 0.0, 1.0, 2.0), ArgumentTypeError, "at most once"),
        (lambda: stats.norm.pdf(1.0, 0.0, loc=1.0), ArgumentTypeError, "at most once"),
        (lambda: stats.norm(deviation=1.0), ArgumentTypeError, "at most once"),
        (lambda: stats.poisson.pdf(1.0, 1.0), ArgumentError, "discrete"),
        (lambda: stats.norm.pmf(1.0), ArgumentError, "continuous"),
        (lambda: stats.norm.cdf(1j), DTypeError, "argument 'x'"),
        (lambda: stats.norm.cdf(iv.masked_tensor(iv.ones(2), [True, False])), ArgumentTypeError, "to_tensor"),
    ):
        with pytest.raises(kind, match=match):
            call()
    assert stats.norm.logpdf(np.zeros(0)).shape == (0,)


SHAPES = {n: tuple(s) for n, s in [*distcont, *distdiscrete] if isinstance(n, str)}
SHAPES |= {"gibrat": (), "levy": (), "reciprocal": (0.1, 1.1), "erlang": (2.0,), "rel_breitwigner": (36.5,)}
FAMILIES = sorted(n for n in stats.__all__ if n not in NAMES and hasattr(getattr(scipy.stats, n, None), "cdf")
                  and isinstance(getattr(stats, n), stats.Distribution))  # fmt: skip
#: Methods for which SciPy has no formula that is differentiated in the shapes, or in nothing.
METHODS = ("log", "cdf", "sf", "ppf", "isf", "mean", "var", "entropy")


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # of SciPy's moments
@pytest.mark.parametrize("name", by_turns(FAMILIES, 3))
def test_families_by_scipys_formulas(name: str) -> None:
    """Each method has SciPy's values and the derivatives of differences, traced alike, or is refused."""
    ours, theirs, shapes = getattr(stats, name), getattr(scipy.stats, name), SHAPES[name]
    discrete = hasattr(theirs, "pmf")
    x, q, h = theirs.ppf([0.25, 0.45, 0.7], *shapes), np.array([0.2, 0.35, 0.8]), 1e-6
    numbers, right = [float(s) for s in shapes], set()
    for method in METHODS:
        full = f"log{'pmf' if discrete else 'pdf'}" if method == "log" else method
        points = {"log": (x,), "cdf": (x,), "sf": (x,), "ppf": (q,), "isf": (q,)}.get(method, ())
        call, expected = getattr(ours, full), getattr(theirs, full)

        def loss(*p: Any, call: Any = call, points: Any = points) -> Any:
            return call(*points, *p).sum()

        def by_ours(call: Any, *args: Any) -> Any:
            """The result; None where it is refused."""
            with suppress(ArgumentError, GradientError, GraphError):
                return call(*args)

        found = by_ours(call, *points, *map(iv.asarray, numbers))
        if found is None:
            continue
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found.numpy(), expected(*points, *numbers), rtol=1e-7, atol=1e-12)
        compiled = by_ours(iv.jit(call), *map(iv.asarray, (*points, *numbers)))
        if compiled is not None:
            np.testing.assert_allclose(compiled.numpy(), found.numpy(), rtol=1e-9, atol=1e-12)
        grads: Any = ()
        if numbers and not discrete:
            grads = by_ours(iv.grad(loss, argnums=tuple(range(len(numbers)))), *map(iv.asarray, numbers))
        for k, g in enumerate(grads or ()):
            ahead, behind = ([p + t * (j == k) for j, p in enumerate(numbers)] for t in (h, -h))
            slope = (np.sum(expected(*points, *ahead)) - np.sum(expected(*points, *behind))) / (2 * h)
            if np.isfinite(slope):
                np.testing.assert_allclose(float(g), slope, rtol=2e-4, atol=1e-5, err_msg=f"{method} {k}")
        if grads is not None:
            right.add(method)
    assert "log" in right or name in WITHOUT_DENSITY, (name, right)


#: What SciPy computes in compiled code or by sums of the shapes: values and derivatives in x alone.
WITHOUT_DENSITY = {"gausshyper", "pearson3", "nchypergeom_fisher", "nchypergeom_wallenius", "zipfian"}
