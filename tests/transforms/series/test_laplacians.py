"""Laplacians and other operators against Hessians, nested derivatives and closed forms; work counted."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.core.counting import work
from iverson.ops import TABLE
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns
from tests.graph.programs import calls_of, entries, random_program
from tests.transforms.series.nested import floating
from tests.transforms.series.test_modes import FUNCTIONS, point

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning"),
]


def second_derivatives(f, args, weights):
    """The sum of the derivatives along each unit vector, one after the other."""
    total: list = []
    for k, a in enumerate(args):
        for i in range(a.size):
            unit = np.zeros(a.size, a.dtype)
            unit[i] = 1

            def of_one(x, k=k):
                return floating(f(*args[:k], x, *args[k + 1 :]))

            out = iv.derivatives(of_one, 2, direction=iv.asarray(unit.reshape(a.shape)))(a)[2]
            w = 1.0 if weights is None else weights[i]
            total = [w * entries(x) + (total[n] if total else 0) for n, x in enumerate(out)]
    return total


def agree(f, args, weights=None, rtol=1e-8):
    value, found = iv.laplacian(lambda *xs: floating(f(*xs)), tuple(range(len(args))), weights)(*args)
    for x, y in zip(value, floating(f(*args)), strict=True):
        np.testing.assert_allclose(entries(x), entries(y), rtol=rtol, atol=1e-12)
    for x, y in zip(found, second_derivatives(f, args, weights), strict=True):
        np.testing.assert_allclose(
            entries(x), y, rtol=rtol, atol=rtol * np.max(np.abs(y), initial=0) + 1e-11, equal_nan=True
        )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    agree(FUNCTIONS[name], [point()])
    agree(FUNCTIONS[name], [point()], np.array([0.5, -2.0, 3.0]))


@pytest.mark.parametrize("name", by_turns(FUNCTIONS, 4))
def test_compiled(name):
    """A Laplacian and a biharmonic, compiled around the operator, and within."""
    f, x = FUNCTIONS[name], point()
    operators = [iv.laplacian] if name == "in place" else [iv.laplacian, iv.biharmonic]
    for operator in operators:
        expected = iv.ravel_pytree(operator(f)(x))[0].numpy()
        for g in (iv.jit(operator(f)), *([] if name == "in place" else [operator(iv.jit(f))])):
            found = iv.ravel_pytree(g(x))[0].numpy()
            atol = 1e-9 * np.max(np.abs(expected), initial=1)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=atol, equal_nan=True)


NAMES = tuple(name for name, op in TABLE.items() if op.samples and op.differentiable)


@pytest.mark.parametrize("name", NAMES)
def test_every_op(name):
    calls = [c for c in calls_of(name) if c.args and 0 < sum(a.size for a in c.args) <= 20]
    calls = [c for c in calls if all(a.dtype.kind == "f" for a in c.args)]
    for call in calls if EXHAUSTIVE else calls[(SEED + len(name)) % max(len(calls), 1) :][:1]:
        agree(call.function, list(map(iv.asarray, call.args)), rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    args = [iv.asarray(rng.standard_normal((3, 3))) for _ in range(2)]
    agree(lambda x, y: tuple(random_program(seed)(x, y)), args)


def network(weights):
    def f(x):
        for w in weights:
            x = iv.tanh(x @ w)
        return x.sum(axis=-1)

    return f


def layers(d, width=8, depth=3):
    rng = np.random.default_rng(0)
    sizes = [d, *(width,) * depth]
    return [iv.asarray(rng.standard_normal(s) / 2) for s in itertools.pairwise(sizes)]


@pytest.mark.parametrize("d", [1, 2, 5])
def test_in_all_modes(d):
    """As the trace of the Hessian, which is NumPy's, of what other transforms compute."""
    f, x = network(layers(d)), iv.asarray(np.linspace(-0.5, 0.7, d))
    exact = np.trace(iv.hessian(f)(x).numpy())
    for found in (
        iv.laplacian(f)(x)[1],
        iv.jit(iv.laplacian(f))(x)[1],
        iv.laplacian(iv.jit(f))(x)[1],
        iv.vmap(iv.laplacian(f))(iv.stack([x, x]))[1][0],
        iv.jit(iv.vmap(iv.laplacian(f)))(iv.stack([x, 2 * x]))[1][0],
        iv.laplacian(lambda x: iv.vmap(f)(iv.stack([x, x])))(x)[1][1],
        iv.checkpoint(lambda x: iv.laplacian(f)(x)[1])(x),
        iv.cond(x[0] > 5, lambda x: x[0], lambda x: iv.laplacian(f)(x)[1], x),
        iv.scan(lambda c, _: (c + iv.laplacian(f)(x)[1], None), iv.asarray(0.0), iv.arange(2))[0] / 2,
    ):
        assert float(found) == pytest.approx(exact, rel=1e-10)


def test_gradients_in_parameters():
    weights, x = layers(3), iv.asarray([0.3, -0.2, 0.5])
    loss = lambda *ws: iv.laplacian(network(ws))(x)[1] ** 2
    exact = iv.grad(lambda *ws: iv.linalg.trace(iv.hessian(network(ws))(x)) ** 2, (0, 1, 2))(*weights)
    for f in (iv.grad(loss, (0, 1, 2)), iv.jit(iv.grad(loss, (0, 1, 2))), iv.grad(iv.jit(loss), (0, 1, 2))):
        for a, b in zip(f(*weights), exact, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)
    x_gradient = iv.grad(lambda x: iv.laplacian(network(weights))(x)[1])(x)
    third = iv.grad(lambda x: iv.linalg.trace(iv.hessian(network(weights))(x)))(x)
    np.testing.assert_allclose(x_gradient.numpy(), third.numpy(), rtol=1e-9)


def test_weights():
    f, x = network(layers(4)), iv.asarray([0.3, -0.2, 0.5, 0.1])
    hessian = iv.hessian(f)(x).numpy()
    w = np.array([1.0, 0.0, -2.0, 0.5])
    matrix = np.random.default_rng(2).standard_normal((4, 4))
    assert float(iv.laplacian(f, weights=w)(x)[1]) == pytest.approx(w @ np.diag(hessian))
    assert float(iv.laplacian(f, weights=2.5)(x)[1]) == pytest.approx(2.5 * np.trace(hessian))
    assert float(iv.laplacian(f, weights=matrix)(x)[1]) == pytest.approx(np.sum(matrix * hessian))
    rank_one = np.outer(w, w)
    with work.counting() as counted:
        assert float(iv.laplacian(f, weights=rank_one)(x)[1]) == pytest.approx(np.sum(rank_one * hessian))
    assert {rows for rows, *_ in counted.product_shapes} == {2, 3}  # one direction


def test_trees_and_argnums():
    x = {"a": iv.asarray([0.3, 0.7]), "b": iv.asarray(0.5)}
    found = iv.laplacian(lambda s, t: {"y": s["a"] ** 3 * s["b"] ** 2 * t, "one": iv.ones(1)})(
        x, iv.asarray(2.0)
    )
    a = x["a"].numpy()
    np.testing.assert_allclose(found[1]["y"].numpy(), 2.0 * (6 * a * 0.25 + 2 * a**3))
    assert found[1]["one"].layout == "zero"
    both = iv.laplacian(lambda s, t: (s * t) ** 2, argnums=(0, 1))(iv.asarray(3.0), iv.asarray(2.0))[1]
    assert float(both) == pytest.approx(2 * 4 + 2 * 9)


@pytest.mark.parametrize("d", [1, 3, 9])
def test_a_layer_takes_d_plus_2_rows(d):
    weights = layers(d)
    with work.counting() as counted:
        iv.laplacian(network(weights))(iv.ones(d))
    # The coordinates themselves have no second derivatives.
    assert counted.multiply_adds == (d + 1) * d * 8 + 2 * (d + 2) * 64
    assert counted.calls["matmul"] == 3


@pytest.mark.parametrize("d", [1, 2, 4])
def test_biharmonic(d):
    """Of |x|^6, which is 24 (4 + d) (2 + d) |x|^2; of a network, as two traces of Hessians."""
    x = iv.asarray(np.linspace(-0.5, 0.7, d))
    found = iv.biharmonic(lambda x: (x @ x) ** 3)(x)
    assert float(found) == pytest.approx(24 * (4 + d) * (2 + d) * float(x @ x))
    f = network(layers(d))
    trace = lambda f: lambda x: iv.linalg.trace(iv.hessian(f)(x))
    exact = float(trace(trace(f))(x))
    for g in (iv.biharmonic(f), iv.jit(iv.biharmonic(f))):
        assert float(g(x)) == pytest.approx(exact, rel=1e-9)


def compositions(total, parts):
    """All multi-indices of an order, for so many variables."""
    return [i for i in itertools.product(range(total + 1), repeat=parts) if sum(i) == total]


def twice(f):
    """The Laplacian of the Laplacian."""
    return lambda x: iv.laplacian(lambda x: iv.laplacian(f)(x)[1])(x)[1]


@pytest.mark.parametrize("d", [2, 3, 8])
def test_a_layer_of_a_biharmonic_takes_as_many_rows_as_it_carries_numbers(d):
    """The value, the gradient, the Hessian, the gradient of the Laplacian and the result, once each."""
    weights = layers(d)
    with work.counting() as counted:
        iv.biharmonic(network(weights))(iv.ones(d))
    rows = 1 + d + d * (d + 1) // 2 + d + 1
    assert counted.multiply_adds == (d + 1) * d * 8 + 2 * rows * 64
    assert counted.calls["matmul"] == 3
    with work.counting() as nested:
        twice(network(weights))(iv.ones(d))
    assert counted.multiply_adds <= 0.7 * nested.multiply_adds


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "in place"])
def test_biharmonics(name):
    """Of each kind of function: control flow, custom Functions, solves, kinks."""
    f, x = FUNCTIONS[name], point()
    for a, b in zip(floating(iv.biharmonic(f)(x)), floating(twice(f)(x)), strict=True):
        expected = entries(b)
        np.testing.assert_allclose(
            entries(a), expected, rtol=1e-7, atol=1e-8 * np.max(np.abs(expected), initial=1), equal_nan=True
        )


@pytest.mark.parametrize("name", NAMES[:: 1 if EXHAUSTIVE else 5])
def test_third_derivatives_of_ops(name):
    """d3/dx0^2 dx1 + 2 d3/dx1^3 of one sample, against derivatives one after the other."""
    calls = [c for c in calls_of(name) if c.args and c.args[0].size > 1]
    for call in [c for c in calls if all(a.dtype.kind == "f" for a in c.args)][:1]:
        x, *others = map(iv.asarray, call.args)

        def f(x, call=call, others=others):
            return floating(call.function(x, *others))

        index, cube = ([2, 1], [0, 3])
        found = iv.differential_operator(
            f, {(*index, *(0,) * (x.size - 2)): 1.0, (*cube, *(0,) * (x.size - 2)): 2.0}
        )(x)

        def along(f, i, order, x=x):
            unit = np.zeros(x.size, x.dtype)
            unit[i] = 1
            return lambda x: iv.derivatives(f, order, direction=iv.asarray(unit.reshape(x.shape)))(x)[order]

        first, second = along(along(f, 0, 2), 1, 1)(x), along(f, 1, 3)(x)
        for a, b, c in zip(found, first, second, strict=True):
            expected = entries(b) + 2 * entries(c)
            atol = 1e-6 * np.max(np.abs(expected), initial=0) + 1e-10
            np.testing.assert_allclose(entries(a), expected, rtol=1e-6, atol=atol, equal_nan=True)


def test_operators_nest_and_are_differentiated():
    weights, x = layers(3), iv.asarray([0.3, -0.2, 0.5])
    loss = lambda *ws: iv.biharmonic(network(ws))(x)
    exact = iv.grad(lambda *ws: twice(network(ws))(x), (0, 1, 2))(*weights)
    for f in (iv.grad(loss, (0, 1, 2)), iv.jit(iv.grad(loss, (0, 1, 2))), iv.grad(iv.jit(loss), (0, 1, 2))):
        for a, b in zip(f(*weights), exact, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-11)
    f = network(weights)
    third = iv.laplacian(iv.biharmonic(f))(x)[1]
    for g in (iv.biharmonic(lambda x: iv.laplacian(f)(x)[1]), iv.jit(iv.laplacian(iv.biharmonic(f)))):
        out = g(x)
        assert float(out[1] if isinstance(out, tuple) else out) == pytest.approx(float(third), rel=1e-8)
    mapped = iv.vmap(iv.biharmonic(f))(iv.stack([x, 2 * x]))
    np.testing.assert_allclose(mapped.numpy(), [float(twice(f)(x)), float(twice(f)(2 * x))], rtol=1e-9)


def polynomial(x):
    return x[0] ** 4 * x[1] ** 3 * x[2] ** 2 + x[0] * x[1] * x[2] - x[1] ** 5


def partial(index, x):
    """A partial derivative of `polynomial`."""
    total = 0.0
    for factor, powers in ((1, (4, 3, 2)), (1, (1, 1, 1)), (-1, (0, 5, 0))):
        if all(p >= n for p, n in zip(powers, index, strict=True)):
            total += factor * math.prod(
                math.perm(p, n) * z ** (p - n) for p, n, z in zip(powers, index, x, strict=True)
            )
    return total


@pytest.mark.parametrize("order", range(6))
def test_partial_derivatives_of_a_polynomial(order):
    x = np.array([0.7, -1.1, 0.4])
    for index in compositions(order, 3):
        found = iv.differential_operator(polynomial, {index: 1.5})(iv.asarray(x))
        assert float(found) == pytest.approx(1.5 * partial(index, x), rel=1e-9, abs=1e-9), index


def test_sums_of_terms():
    x = np.array([0.7, -1.1, 0.4])
    terms = {(0, 0, 0): 2.0, (1, 0, 0): -1.0, (0, 2, 0): 0.5, (1, 1, 1): 3.0, (2, 1, 0): 0.25}
    exact = sum(c * partial(index, x) for index, c in terms.items())
    operator = iv.differential_operator(polynomial, terms)
    for f in (operator, iv.jit(operator)):
        assert float(f(iv.asarray(x))) == pytest.approx(exact, rel=1e-10)
    f = lambda x: {"y": iv.sin(x[0]) * x[1:]}
    found = iv.differential_operator(f, {(3, 0, 0): 1.0, (0, 1, 0): 1.0})(iv.asarray(x))["y"]
    np.testing.assert_allclose(found.numpy(), -np.cos(0.7) * x[1:] + np.sin(0.7) * np.array([1, 0]))


ONE = iv.ones(2)
CALLS = [
    (lambda: iv.laplacian(iv.sum)(iv.asarray([1, 2])), "laplacian: argument 'args': .*int64"),
    (lambda: iv.laplacian(iv.sum)(iv.asarray([1j])), "laplacian.*complex128.*real"),
    (lambda: iv.laplacian(iv.sum, weights=np.ones(3))(ONE), r"laplacian: argument 'weights': .*\(3,\) for 2"),
    (lambda: iv.laplacian(iv.sum, weights=[1.0, 2.0])(ONE), "laplacian: argument 'weights'"),
    (
        lambda: iv.laplacian(iv.sum, weights=np.ones(2) * 1j)(ONE),
        "laplacian.*'weights': got dtype complex128",
    ),
    (
        lambda: iv.laplacian(iv.sum, weights=np.full((2, 2), np.nan))(ONE),
        "'weights': got an entry that is not f",
    ),
    (
        lambda: iv.grad(lambda w: iv.laplacian(iv.sum, weights=w)(ONE)[1])(ONE),
        "a tensor that tracks gradients",
    ),
    (lambda: iv.laplacian(iv.sum, argnums=1)(ONE), "laplacian: argument 'argnums': got 1"),
    (lambda: iv.biharmonic(iv.sum)(iv.asarray([1])), "biharmonic: argument 'args': .*int64"),
    (lambda: iv.differential_operator(iv.sum, {}), "differential_operator: argument 'terms': got no terms"),
    (lambda: iv.differential_operator(iv.sum, {(1, -1): 1.0}), "differential_operator.*index .1, -1."),
    (lambda: iv.differential_operator(iv.sum, {(1,): "a"}), "differential_operator.*expected a number"),
    (lambda: iv.differential_operator(iv.sum, {(1,): 1.0})(ONE), "index .1,. of 1 orders; expected 2"),
    (lambda: iv.differential_operator(iv.sum, [(1, 1)]), "differential_operator: argument 'terms'"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_refused(call, words):
    with pytest.raises(iv.errors.IversonError, match=words):
        call()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_of_arguments_without_entries(shape):
    x = iv.ones(shape)
    for f in (lambda x: (x**4).sum(), lambda x: iv.sin(x) * x):
        operators = iv.laplacian(f), iv.jit(iv.biharmonic(f)), iv.biharmonic(f), iv.vmap(iv.laplacian(f))
        for operator, y in zip(operators, (x, x, x, iv.stack([x, x])), strict=True):
            out = operator(y)
            value = out[1] if isinstance(out, tuple) else out
            np.testing.assert_array_equal(value.numpy(), np.zeros(value.shape))


def test_terms_that_are_zero_are_none():
    f, x = lambda x: x[0] ** 3 * x[1], iv.asarray([0.3, 0.5])
    assert iv.differential_operator(f, {(2, 0): 0.0})(x).item() == 0
    assert iv.differential_operator(f, {(2, 0): 0.0, (1, 1): 2.0})(x).item() == pytest.approx(2 * 3 * 0.09)


def particles(ws):
    """Features of each particle, of which the sum goes through one more layer."""

    def f(x):
        for w in ws[:-1]:
            x = iv.tanh(x @ w)
        return (iv.tanh(x) @ ws[-1]).sum()

    return f


def test_products_of_particles_are_on_the_support():
    """20 particles in 3 dimensions: each layer has 3 + 2 rows a particle, not 60 + 2."""
    rng = np.random.default_rng(0)
    ws = [iv.asarray(rng.standard_normal(s) / 3) for s in ((3, 8), (8, 8), (8, 1))]
    x = iv.asarray(rng.standard_normal((20, 3)))
    with work.counting() as counted:
        found = iv.laplacian(particles(ws))(x)[1]
    assert counted.multiply_adds == 20 * ((1 + 3) * 3 * 8 + (3 + 2) * (8 * 8 + 8))
    exact = sum(
        np.trace(iv.hessian(particles(ws))(r).numpy().reshape(3, 3)) for r in iv.unstack(x[:, None, :])
    )
    assert float(found) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: iv.sin(x).sum(),
        lambda x: iv.sin(x).prod(),
        lambda x: (x**2).sum(axis=1).sum(),
        lambda x: (x**2).sum(axis=0).prod(),
        lambda x: iv.permute_dims(iv.exp(x), (1, 0)) @ iv.ones(4),
        lambda x: iv.tanh(iv.expand_dims(x, axis=1)).sum(axis=(1, 2)),
        lambda x: iv.sqrt(((x[:, None] - x[None, :]) ** 2).sum(axis=-1) + 1).sum(),
        lambda x: iv.concat([x, x**2], axis=1) @ iv.asarray(np.arange(6.0).reshape(6, 1)),
        lambda x: iv.concat([x, iv.sin(x)], axis=0)[2:7] ** 2,
        lambda x: x[1:, :2] * x[:-1, 1:],
        lambda x: iv.sin(x).reshape(12) ** 2,
        lambda x: iv.sin(x).reshape(4, 1, 3) * x[:, None],
        lambda x: iv.exp(x) + x.mean(axis=0),
        lambda x: iv.nn.softmax(x, axis=1) * iv.nn.softmax(x, axis=0),
        lambda x: iv.linalg.inv(iv.asarray(3 * np.eye(3)) + x[:, :, None] * x[:, None, :]),
        lambda x: iv.cumulative_sum(x**2, axis=0) * iv.cumulative_prod(1 + x**2, axis=1),
        lambda x: iv.where(x > 0, x**3, x**2)[::-1] * x,
        iv.vmap(lambda r: iv.tanh(r).sum() ** 2),
        lambda x: iv.scan(lambda c, r: (c + (r**2).sum(), iv.sin(r)), iv.asarray(0.0), x),
        lambda x: iv.cond(x[0, 0] > 9, iv.sin, lambda x: x**3, x),
        lambda x: iv.max(x, axis=1) + iv.sort(x, axis=1)[:, 0],
        lambda x: iv.einsum("ij,ik->ijk", x, x),
        iv.grad(lambda z: iv.sin(z).sum() ** 2),
    ],
)
def test_directions_that_share_a_curve(f):
    x = iv.asarray(np.random.default_rng(4).standard_normal((4, 3)))
    weights = np.random.default_rng(5).uniform(0.5, 1.5, 12)
    agree(f, [x])
    agree(f, [x], weights)
    t = iv.permute_dims(x, (1, 0))
    agree(lambda t: f(iv.permute_dims(t, (1, 0))), [t])
    value = iv.jit(iv.laplacian(f))(x)[1]
    for a, b in zip(
        iv.ravel_pytree(value)[0].numpy(), iv.ravel_pytree(iv.laplacian(f)(x)[1])[0].numpy(), strict=True
    ):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-9)


def test_draws_are_the_same_for_all_directions():
    x = iv.ones(3)
    draw = iv.random.default_rng(3).normal(size=(3,)).numpy()
    rng = iv.random.default_rng(3)
    found = iv.laplacian(lambda x: (rng.normal(size=(3,)) * x**2).sum())(x)[1]
    assert float(found) == pytest.approx(2 * draw.sum())


def test_masked_and_sparse_arguments():
    data, mask = np.array([0.3, np.nan, -0.5]), np.array([True, False, True])
    m = iv.masked_tensor(iv.asarray(data), mask)
    value, found = iv.laplacian(lambda m: (iv.sin(m) * m).sum())(m)
    z = data[mask]
    assert float(found) == pytest.approx((2 * np.cos(z) - z * np.sin(z)).sum())
    assert float(value) == pytest.approx((z * np.sin(z)).sum())
    each = iv.laplacian(lambda m: m**3)(m)[1]
    np.testing.assert_allclose(each.to_tensor(0).numpy()[mask], 6 * z)
    # Of a regular tensor, whatever its layout: all entries.
    s = iv.asarray(np.array([[0.0, 0.5], [0.2, 0.0]]))
    for f in (lambda s: (iv.sin(s) ** 2).sum(), lambda s: (s @ s).sum(), lambda s: s * s):
        for layout in ("coo", "csr", "csc"):
            found = iv.laplacian(f)(s.to_layout(layout))[1]
            np.testing.assert_allclose(entries(found), entries(iv.laplacian(f)(s)[1]))


@pytest.mark.parametrize("name", ["exp", "sin", "tanh", "cube"])
@pytest.mark.parametrize("terms", [{3: 1.0, 1: 2.0}, {2: 0.5}, {1: 1.0}, {4: 1.0, 2: -1.0, 1: 3.0}])
def test_operators_of_functions_of_a_number(name: str, terms: dict[int, float]) -> None:
    """Of an array without axes, with several orders in one operator, as nested derivatives give them."""
    f: Any = (lambda x: x**3) if name == "cube" else getattr(iv, name)
    expected = 0.0
    for order, factor in terms.items():
        g = f
        for _ in range(order):
            g = iv.grad(g)
        expected += factor * g(iv.asarray(0.7)).item()
    for call in (iv.differential_operator(f, terms), iv.jit(iv.differential_operator(f, terms))):
        np.testing.assert_allclose(call(iv.asarray(0.7)).item(), expected, rtol=1e-11, atol=1e-12)


def pair_terms(ws, pairs):
    """A network of the distance of each pair of particles."""

    def f(x):
        d = pairs(x)
        h = iv.sqrt((d**2).sum(axis=-1, keepdims=True) + 1)
        h = iv.concat([d, h], axis=-1)
        for w in ws:
            h = iv.tanh(h @ w)
        return h.sum()

    return f


ROW, COLUMN = np.triu_indices(20, 1)
PAIRS = {
    "all": (400, lambda x: x[:, None] - x[None, :]),
    "upper": (190, lambda x: x[ROW] - x[COLUMN]),
    "taken": (190, lambda x: iv.take(x, iv.asarray(ROW), axis=0) - iv.take(x, iv.asarray(COLUMN), axis=0)),
    "neighbours": (19, lambda x: x[1:] - x[:-1]),
    "reversed": (20, lambda x: x - x[::-1]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_products_of_pairs_are_on_the_support(name):
    """20 particles in 3 dimensions: of a pair 6 + 2 rows in each layer, not 60 + 2."""
    count, pairs = PAIRS[name]
    rng = np.random.default_rng(0)
    ws = [rng.standard_normal(s) / 3 for s in ((4, 8), (8, 8), (8, 1))]
    x = rng.standard_normal((20, 3))
    f = pair_terms(list(map(iv.asarray, ws)), pairs)
    with work.counting() as counted:
        found = iv.laplacian(f)(iv.asarray(x))[1]
    in_sums = counted.multiply_adds - count * (6 + 2) * (4 * 8 + 8 * 8 + 8)
    # Sums over pairs of what depends on a particle: one number for each of the curves.
    assert 0 <= in_sums <= 2 * 20 * count * 3
    compiled = iv.jit(iv.laplacian(f))(iv.asarray(x))[1]
    assert float(compiled) == pytest.approx(float(found), rel=1e-10)
    hessian = iv.hessian(f)(iv.asarray(x)).numpy()
    assert float(found) == pytest.approx(np.trace(hessian.reshape(60, 60)), rel=1e-8)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: iv.sin(x[:, None, :] - x[None, :, :]).sum(axis=1),
        lambda x: iv.sin(x[:, None, :] * x[None, :, :]).sum(axis=0) * x,
        lambda x: iv.exp(x[:, None] * x[None, :] * x[1:2, None]).sum(),
        lambda x: iv.sin(x[:, None, None] * x[None, :, None] * x[None, None, :]).sum(axis=(0, 2)),
        lambda x: iv.permute_dims(x[:, None] * x[None, :], (1, 0, 2)) * x[:, None] ** 2,
        lambda x: (x[:, None] * x[None, :]).mean(axis=0),
        lambda x: iv.sin(x[:3] * x[1:]).prod(axis=0),
        lambda x: x[np.array([0, 0, 2, 3])] * x[np.array([1, 0, 2, 0])] ** 2,
        lambda x: (iv.sin(x[np.array([0, 0, 2, 3])]) * x[np.array([1, 0, 2, 0])]).sum(axis=0),
        lambda x: iv.sin(x[0] * x[1]) + x[0] ** 2,
        lambda x: (x[:, None] @ x[None, :, :, None]).sum(),
        lambda x: iv.where(iv.eye(4, dtype=bool)[:, :, None], 0.0, x[:, None] / (x[None, :] + 4)).sum(axis=1),
        lambda x: iv.hypot(x[:, None, 0], x[None, :, 1]) * iv.atan2(x[:, None, 1], x[None, :, 2] + 5),
        lambda x: iv.einsum("id,jd->ij", x, x) ** 2,
        lambda x: iv.pad(x, ((1, 1), (0, 0)))[1:] * iv.pad(x, ((0, 1), (0, 0))),
        iv.vmap(lambda r: iv.sin(r[:, None] - r[None, :]).sum() ** 2),
    ],
)
def test_directions_of_pairs(f):
    x = iv.asarray(np.random.default_rng(4).standard_normal((4, 3)))
    agree(f, [x])
    agree(f, [x], np.random.default_rng(5).uniform(0.5, 1.5, 12))
    found, expected = iv.jit(iv.laplacian(f))(x)[1], iv.laplacian(f)(x)[1]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)
