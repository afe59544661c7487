"""Derivatives of every special function, first and second, in each argument, against mpmath.

Points are random on scales from 1e-8 to 1e8, beside integers and halves of them, of both signs. Wherever a
derivative is finite it is right, within the bound of the function's record; within its domain it is finite
where the value is.
"""

from __future__ import annotations

import math
import zlib

import mpmath as mp
import numpy as np
import pytest

import iverson as iv
from iverson.core.scalars import SCALARS
from iverson.core.scalars.special_functions import SPECIAL
from iverson.ops import F
from tests.array_api.exact_special import EXACT
from tests.conformance.product import EXHAUSTIVE, SEED, some

#: Rows with derivatives; what has orders as arguments is a derivative of the others.
ROWS = sorted(s.name for s in SCALARS.values() if (s.space == "special" or s in SPECIAL) and not s.orders)
INVERSES = {"gammaincinv", "gammainccinv", "betaincinv", "betainccinv"}
#: Functions whose last argument is a probability; those that mpmath takes long for; ratios of gamma functions
#: with zeros and poles: derivatives are not held at them, and beside them the second is as exact as the first
#: over the distance.
SHARES = INVERSES | {"erfinv", "ndtri", "logit", "betainc", "betaincc"}
SLOW = INVERSES | {
    "gammainc", "gammaincc", "betainc", "betaincc", "k0", "k1", "k0e", "k1e", "y0", "y1", "zeta", "zetac",
}  # fmt: skip
RATIOS = {"beta", "betaln", "binom", "poch"}
#: Functions with a factor exp(-abs(x)): a kink at 0.
KINKS = {"i0e", "i1e"}


def test_every_special_function_has_an_oracle_and_a_bound():
    assert set(ROWS) == set(EXACT)
    assert all(SCALARS[name].slopes is not None for name in ROWS)


def number(rng, share):
    """A number that is hard for some function."""
    distance = 10 ** rng.uniform(-8, -1)
    if share:
        return float(rng.choice([10 * distance, 1 - distance, rng.uniform(0, 1), rng.uniform(-1.5, 1.5)]))
    whole = float(rng.integers(-12, 13))
    size = 10 ** rng.uniform(-8, 8)
    middle = [10 ** rng.uniform(-2, 2), rng.uniform(-30, 30)]
    beside = [whole + distance, whole - distance, whole + 0.5, whole + 0.5 + distance, whole]
    return float(rng.choice([size, -size, *middle, *beside]))


def points(name, count):
    scalar, rng = SCALARS[name], np.random.default_rng([SEED, zlib.crc32(name.encode())])
    rows = []
    while len(rows) < count:
        row = [number(rng, name in SHARES and k == scalar.arity - 1) for k in range(scalar.arity)]
        if name == "zeta" and rng.random() < 0.5:  # Riemann's, which is defined at all x
            row[1] = 1.0
        if name in INVERSES:  # where SciPy's are right
            row = [*(10 ** rng.uniform(-0.5, 1) for _ in row[1:]), rng.uniform(0.05, 0.95)]
        if max(map(abs, row)) <= min(
            scalar.slopes.size, (100 if EXHAUSTIVE else 10) if name in SLOW else math.inf
        ):
            rows.append(row)
    return rows


def exact(function, row, orders):
    """A derivative, nan where the function is no real number."""
    try:
        value = function(*row)
        if sum(orders):
            steps = [abs(x) or mp.mpf(1) for x, n in zip(row, orders, strict=True) if n]
            h = min(steps) * mp.mpf(10) ** (-mp.mp.dps // 4)
            at, which = (row[0], orders[0]) if len(row) == 1 else (row, orders)
            value = mp.diff(function, at, which, h=h) if mp.isfinite(value) else mp.nan
    except (ValueError, ZeroDivisionError, OverflowError, TypeError, mp.libmp.NoConvergence):
        return mp.nan
    if isinstance(value, mp.mpc):
        value = value.real if abs(value.imag) <= abs(value.real) * mp.mpf(10) ** -20 else mp.nan
    return value


def scale(function, row, k, order, value, ratio):
    """What a derivative is, and what it changes by with its arguments, in proportion to them."""
    orders = [order if j == k else 0 for j in range(len(row))]
    total = abs(value)
    if order == 2 and row[k]:
        first = exact(function, row, tuple(n // 2 for n in orders))
        total += abs(first / (from_poles(row) if ratio else row[k]))
    for j, x in enumerate(row):
        more = exact(function, row, tuple(n + (i == j) for i, n in enumerate(orders)))
        total += abs(more * x) if mp.isfinite(more) else 0
    return total


def from_poles(row):
    """How far the arguments, their sum and difference are from whole numbers."""
    return min(abs(x - mp.nint(x)) for x in (*row, row[0] + row[1], row[0] - row[1]))


def inside(scalar, row):
    domain = scalar.slopes.domain or (None,) * len(row)
    return all(box is None or box[0] < x < box[1] for box, x in zip(domain, row, strict=True))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ROWS)
def test_derivatives_are_right_or_nan(name):
    scalar, function = SCALARS[name], EXACT[name]
    rows = points(name, (20 if EXHAUSTIVE else 1) if name in SLOW else 100 if EXHAUSTIVE else 4)
    xs = [iv.asarray(np.array(column)) for column in zip(*rows, strict=True)]
    values = getattr(F, name)(*xs).to_dense().numpy().tolist()
    wrong = []
    for k in range(scalar.arity):
        slope = iv.grad(lambda *xs: getattr(F, name)(*xs).sum(), argnums=k)
        curve = iv.grad(lambda *xs, slope=slope, k=k: slope(*xs).sum(), argnums=k)
        for order, found in some(name, [(1, slope), (2, curve)], number=k):
            for row, own, got in zip(rows, values, found(*xs).to_dense().numpy().tolist(), strict=True):
                with mp.workdps(40 if name in SLOW else 80):
                    at = tuple(map(mp.mpf, row))
                    if name in RATIOS and (
                        not from_poles(at) or (name == "binom" and at[1] > 1e8 * abs(at[0]))
                    ):
                        continue  # there SciPy's value of binom is that of an expansion for large k
                    if name in KINKS and not at[0]:
                        continue
                    value = exact(function, at, tuple(order if j == k else 0 for j in range(len(row))))
                    if not mp.isfinite(value) or abs(value) > 1e300:
                        bad = math.isfinite(got) and got != 0 and not mp.isfinite(value)
                    elif not math.isfinite(got):
                        bad = math.isfinite(own) and inside(scalar, row)
                    else:
                        error = abs(got - value) / (scalar.slopes.ulps * 2.0**-52)
                        # Where it is 0 the oracle has rounding, of the value with all its digits.
                        noise = 1e-200 * abs(own) if math.isfinite(own) else 0.0
                        bad = error > abs(value) + 1e-290 + noise
                        bad = bad and error > scale(function, at, k, order, value, name in RATIOS)
                if bad:
                    wrong.append((k, order, row, got, float(value)))
    assert not wrong, wrong


@pytest.mark.parametrize("compiled", [False, True])
def test_loggamma_is_exact_beside_its_zeros(compiled):
    distance = 10 ** np.linspace(-15, -1, 8)
    x = np.concatenate([zero + sign * distance for zero in (1.0, 2.0) for sign in (-1, 1)])
    function = iv.jit(iv.special.loggamma) if compiled else iv.special.loggamma
    with mp.workdps(40):
        wanted = [float(mp.loggamma(v)) for v in x.tolist()]
    np.testing.assert_allclose(function(iv.asarray(x)).numpy(), wanted, rtol=2e-15)
    assert np.isnan(function(iv.asarray([-0.5])).numpy()).all()


@pytest.mark.parametrize("compiled", [False, True])
def test_logaddexp_beside_its_zeros(compiled):
    """The value to rounding of log(2), the derivative to that of itself."""
    rng = np.random.default_rng(SEED)
    a = -(10 ** rng.uniform(-3, 0.5, 40))
    b = np.log(-np.expm1(a)) * (1 + rng.normal(size=40) * 10 ** rng.uniform(-15, -3, 40))
    with mp.workdps(40):
        pairs = [(mp.exp(x), mp.exp(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        value = [float(mp.log(x + y)) for x, y in pairs]
        slope = [float(x / (x + y)) for x, y in pairs]
    way = iv.jit if compiled else lambda f: f
    args = iv.asarray(a), iv.asarray(b)
    np.testing.assert_allclose(way(iv.logaddexp)(*args).numpy(), value, rtol=1e-15, atol=2.3e-16)
    found = way(iv.grad(lambda a, b: iv.logaddexp(a, b).sum()))(*args).numpy()
    np.testing.assert_allclose(found, slope, rtol=4e-15)
