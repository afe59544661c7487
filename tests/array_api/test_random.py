"""Random draws: the same bits as NumPy's, dtypes, shapes, moments, gradients in the parameters."""

import math

import numpy as np
import pytest
from scipy import stats

import iverson as iv
from iverson import random
from iverson.autograd import grad
from iverson.core.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError, ShapeError
from tests.array_api.common import draw, same
from tests.conformance.product import without_subsets


def both(seed=3):
    return random.default_rng(seed), np.random.default_rng(seed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_standard_draws_are_numpys(dtype):
    ours, numpys = both()
    for size in ((2, 3), 4, (), (0, 2)):
        same(ours.random(size, dtype=dtype), numpys.random(size, dtype=dtype))
        same(ours.standard_normal(size, dtype=dtype), numpys.standard_normal(size, dtype=dtype))
        same(
            ours.exponential(2.0, size, dtype=dtype),
            np.asarray(2 * numpys.standard_exponential(size, dtype=dtype), dtype),
        )
        same(
            ours.normal(1.0, 2.0, size, dtype=dtype),
            np.asarray(1 + 2 * numpys.standard_normal(size, dtype=dtype), dtype),
        )
        same(
            ours.uniform(-1.0, 1.0, size, dtype=dtype),
            np.asarray(2 * numpys.random(size, dtype=dtype) - 1, dtype),
        )
    assert ours.random().shape == ()
    assert ours.normal(size=2, requires_grad=True).is_leaf


def test_integers():
    ours, numpys = both()
    same(ours.integers(10, size=5), numpys.integers(10, size=5))
    same(ours.integers(-2, 3, (2, 2), dtype="int8"), numpys.integers(-2, 3, (2, 2), dtype="int8"))
    same(ours.integers(0, 1, 4, endpoint=True), numpys.integers(0, 1, 4, endpoint=True))
    same(ours.integers(np.array([1, 100])), numpys.integers(np.array([1, 100])))
    assert ours.integers(3).shape == ()
    with pytest.raises(ArgumentError, match=r"integers.*low >= high"):
        ours.integers(3, 3)
    with pytest.raises(DTypeError, match="integer dtype"):
        ours.integers(3, dtype="float32")


def test_permutation_and_choice():
    ours, numpys = both()
    x = draw((4, 3))
    same(ours.permutation(6), numpys.permutation(6))
    same(ours.permutation(x), x[numpys.permutation(4)])
    same(ours.permutation(iv.asarray(x), axis=1), x[:, numpys.permutation(3)])
    same(ours.choice(5, 3), numpys.choice(5, 3))
    same(ours.choice(x, (2, 2), axis=-1), x[:, numpys.choice(3, (2, 2))])
    same(ours.choice(x, 3, replace=False), x[numpys.choice(4, 3, replace=False)])
    same(ours.choice(3, 4, p=np.array([0.0, 1.0, 0.0])), [1, 1, 1, 1])
    assert ours.choice(x).shape == (3,)
    with pytest.raises(ArgumentError, match=r"choice.*larger sample"):
        ours.choice(3, 4, replace=False)
    with pytest.raises(ArgumentError, match=r"choice.*do not sum to 1"):
        ours.choice(2, p=np.array([0.5, 0.1]))
    with pytest.raises(AxisError, match="permutation"):
        ours.permutation(x, axis=2)


def test_bernoulli():
    draws = random.default_rng(0).bernoulli(0.25, 4000)
    assert draws.dtype == iv.bool
    assert abs(float(iv.mean(iv.astype(draws, "float64"))) - 0.25) < 0.03
    same(random.default_rng(0).bernoulli(np.array([0.0, 1.0])), [False, True])
    with pytest.raises(ArgumentError, match=r"bernoulli.*got 1.5; expected numbers in \[0, 1\]"):
        random.default_rng(0).bernoulli(1.5)


def test_moments():
    rng = random.default_rng(1)
    for found, mean, std in (
        (rng.normal(2.0, 3.0, 20000), 2, 3),
        (rng.uniform(0.0, 6.0, 20000), 3, 3**0.5),
        (rng.exponential(2.0, 20000), 2, 2),
    ):
        assert abs(float(found.mean()) - mean) < 0.1
        assert abs(float(found.std()) - std) < 0.1


def test_draws_differentiate_in_their_parameters():
    loc = iv.asarray(np.array([0.5, 1.0]), requires_grad=True)
    scale = iv.asarray(2.0, requires_grad=True)
    x = random.default_rng(2).normal(loc, scale, (3, 2))
    noise = np.random.default_rng(2).standard_normal((3, 2))
    g = grad(x.sum(), [loc, scale])
    same(g[0], [3.0, 3.0])
    same(g[1], noise.sum())
    low = iv.asarray(0.0, requires_grad=True)
    u = np.random.default_rng(2).random(4)
    same(grad(random.default_rng(2).uniform(low, 1.0, 4).sum(), low), np.sum(1 - u))
    y = iv.asarray(draw((3, 2)), requires_grad=True)
    order = np.random.default_rng(5).permutation(3)
    picked = random.default_rng(5).permutation(y) * np.arange(6.0).reshape(3, 2)
    same(grad(picked.sum(), y), np.arange(6.0).reshape(3, 2)[np.argsort(order)])


def test_generators():
    a, b = random.default_rng(4).spawn(2)
    assert float(a.random()) != float(b.random())
    rng = random.default_rng(np.random.default_rng(9))
    same(rng.random(3), np.random.default_rng(9).random(3))
    assert random.default_rng(rng) is rng
    state = rng.bit_generator.state
    first = rng.random(2)
    rng.bit_generator.state = state
    same(rng.random(2), first.numpy())
    assert random.default_rng().random((2,)).shape == (2,)


def test_errors():
    rng = random.default_rng(0)
    with pytest.raises(ArgumentTypeError, match="default_rng: argument 'seed'"):
        random.default_rng("x")
    with pytest.raises(DTypeError, match="real floating"):
        rng.random(3, dtype="int32")
    with pytest.raises(ShapeError, match="normal"):
        rng.normal(np.zeros(2), 1.0, (3,))
    with pytest.raises(ShapeError, match="non-negative"):
        rng.random((-1,))
    with pytest.raises(ArgumentTypeError, match="normal: argument 'loc'"):
        rng.normal([0.0], 1.0)


#: By name: the parameters, and SciPy's frozen distribution of them.
CONTINUOUS = {
    "beta": ((0.6, 2.0), stats.beta(0.6, 2.0)),
    "gamma": ((0.7, 2.0), stats.gamma(0.7, scale=2.0)),
    "gumbel": ((1.0, 2.0), stats.gumbel_r(1.0, 2.0)),
    "laplace": ((1.0, 2.0), stats.laplace(1.0, 2.0)),
    "logistic": ((1.0, 2.0), stats.logistic(1.0, 2.0)),
    "lognormal": ((0.3, 0.6), stats.lognorm(0.6, scale=np.exp(0.3))),
    "weibull": ((1.7,), stats.weibull_min(1.7)),
    "truncated_normal": ((3.0, 9.0, 1.0, 2.0), stats.truncnorm(1.0, 4.0, 1.0, 2.0)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distributions_and_their_derivatives(name):
    """Draws have the distribution, and move with parameters as quantiles do: at a fixed uniform draw."""
    given, exact = CONTINUOUS[name]
    drawn = getattr(random.default_rng(0), name)(*given, 4000)
    assert stats.kstest(drawn.numpy(), exact.cdf).pvalue > 1e-3
    assert getattr(random.default_rng(0), name)(*given, 2, dtype="float32").dtype == iv.float32

    def of(*parameters):
        return getattr(random.default_rng(1), name)(*parameters, 3)

    inputs = tuple(iv.asarray(x, requires_grad=True) for x in given)
    assert iv.testing.gradcheck(of, inputs)
    assert iv.testing.gradgradcheck(of, inputs, **without_subsets(name))
    shape = iv.vmap(lambda p: getattr(random.default_rng(2), name)(p, *given[1:]))(iv.full(3, given[0])).shape
    assert shape == (3,)
    rng = random.default_rng(3)
    step = iv.jit(lambda p: getattr(rng, name)(p, *given[1:]))
    assert float(step(inputs[0].detach())) != float(step(inputs[0].detach()))


def test_vectors_of_draws():
    rng, alpha = random.default_rng(0), np.array([0.5, 1.0, 2.5])
    parts = rng.dirichlet(alpha, 4000)
    np.testing.assert_allclose(parts.sum(axis=1), 1.0)
    np.testing.assert_allclose(parts.mean(axis=0), alpha / 4, atol=0.02)
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    normal = rng.multivariate_normal(np.array([1.0, -1.0]), cov, 4000).numpy()
    np.testing.assert_allclose(np.cov(normal.T), cov, atol=0.15)
    np.testing.assert_allclose(normal.mean(axis=0), [1, -1], atol=0.1)
    for name, given in (("dirichlet", (alpha,)), ("multivariate_normal", (np.zeros(2), cov))):
        inputs = tuple(iv.asarray(x, requires_grad=True) for x in given)
        assert iv.testing.gradcheck(lambda *p, n=name: getattr(random.default_rng(1), n)(*p), inputs)
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    chosen = rng.categorical(logits, (4000, 2)).numpy()
    np.testing.assert_allclose((chosen == 2).mean(axis=0), [0.25, 0.8], atol=0.03)
    assert rng.categorical(logits, axis=0).shape == (3,)


def test_counts_are_numpys():
    ours, numpys = both()
    same(ours.poisson(3.0, (2, 3)), numpys.poisson(3.0, (2, 3)))
    same(ours.binomial(np.array([3, 9]), 0.5), numpys.binomial(np.array([3, 9]), 0.5))
    same(ours.multinomial(5, np.array([0.25, 0.75]), 4), numpys.multinomial(5, [0.25, 0.75], 4))
    for error, call in (
        (ArgumentError, lambda: ours.poisson(-1.0)),
        (ArgumentError, lambda: ours.normal(0.0, -1.0, 3)),
        (ArgumentError, lambda: ours.normal(0.0, np.array([1.0, math.nan]))),
        (ArgumentError, lambda: ours.uniform(np.array([0.0, 2.0]), 1.0)),
        (ArgumentError, lambda: ours.exponential(-1.0, 3)),
        (ArgumentError, lambda: ours.laplace(0.0, -1.0, 3)),
        (ArgumentError, lambda: ours.gumbel(0.0, -1.0, 3)),
        (ArgumentError, lambda: ours.logistic(0.0, -1.0, 3)),
        (ArgumentError, lambda: ours.lognormal(0.0, -1.0, 3)),
        (ArgumentError, lambda: ours.weibull(0.0, 3)),
        (ArgumentError, lambda: ours.gamma(0.0, 1.0, 3)),
        (ArgumentError, lambda: ours.gamma(1.0, -1.0, 3)),
        (ArgumentError, lambda: ours.beta(1.0, -1.0, 3)),
        (ArgumentError, lambda: ours.dirichlet(np.array([1.0, -1.0]))),
        (ArgumentError, lambda: ours.truncated_normal(1.0, 0.0)),
        (ArgumentError, lambda: ours.binomial(3, 1.5)),
        (ArgumentError, lambda: ours.multinomial(3, np.array([0.75, 0.75]))),
        (ShapeError, lambda: ours.multivariate_normal(np.zeros(2), np.eye(3))),
        (ShapeError, lambda: ours.dirichlet(1.0)),
        (DTypeError, lambda: ours.gamma(2.0, dtype="int64")),
    ):
        with pytest.raises(error):
            call()
