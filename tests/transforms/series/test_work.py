"""Work of series, counted: matrix products and products of coefficients."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.core.counting import work
from iverson.core.dispatch import bind
from iverson.ops import TABLE
from tests.graph.programs import calls_of


@pytest.mark.parametrize("order", [2, 5, 9])
def test_a_layer_is_one_product_of_all_coefficients(order):
    rng = np.random.default_rng(0)
    weights = [iv.asarray(rng.standard_normal((8, 8))) for _ in range(3)]
    x = iv.asarray(rng.standard_normal((4, 8)))

    def network(x):
        for w in weights:
            x = iv.tanh(x @ w)
        return x

    with work.counting() as counted:
        iv.derivatives(network, order, direction=iv.ones((4, 8)))(x)
    # The first layer has two coefficients: the curve is a line.
    assert counted.multiply_adds == 4 * 8 * 8 * (2 + 2 * (order + 1))
    assert counted.calls["matmul"] == 3


def products(name, order, series):
    """Calls of ops that multiply or divide coefficients, of the op's first sample."""
    call = next(c for c in calls_of(name) if c.args)
    args = list(map(iv.asarray, call.args))
    coefficients = [
        [iv.asarray(np.full(a.shape, 0.1 if k < series else 0.0, a.dtype)) for k in range(order)]
        for a in call.args
    ]
    with work.counting() as counted:
        iv.jet(call.function, args, coefficients)
    return sum(n for op, n in counted.calls.items() if op in PRODUCTS)


PRODUCTS = {"multiply", "divide", "matmul", "solve", "solve_triangular", "solve_toeplitz"}
#: Ops of at most so many Cauchy products; the coefficients of each take (k + 1)(k + 2) / 2.
SQUARE = {
    "multiply": 1,
    "divide": 1,
    "reciprocal": 2,
    "square": 1,
    "exp": 2,
    "log": 3,
    "sqrt": 3,
    "rsqrt": 3,
    "tanh": 3,
    "sin": 3,
    "sinh": 3,
    "sigmoid": 7,
    "atan": 4,
    "asin": 5,
    "erf": 5,
    "matmul": 1,
    "solve": 1.5,
    "solve_toeplitz": 1.5,
    "solve_triangular": 1.5,
    "inv": 3,
}


@pytest.mark.parametrize("name", SQUARE)
def test_products_grow_with_the_square_of_the_order(name):
    for order in (4, 8, 16):
        cauchy = (order + 1) * (order + 2) / 2
        assert products(name, order, order) <= SQUARE[name] * cauchy + 3 * order


def test_a_line_needs_one_product_for_each_order():
    """exp along a line: y_k = x_1 y_(k-1) / k."""
    with work.counting() as counted:
        iv.derivatives(iv.exp, 16)(iv.asarray(0.5))
    assert counted.calls["multiply"] <= 16 + 16  # with the factors k!
    assert counted.calls["exp"] == 1


@pytest.mark.parametrize("name", ["lgamma", "digamma", "i0e", "erfcx"])
def test_open_chains_grow_with_the_cube(name):
    """So many functions of higher orders, each with its own series."""
    counts = [products(name, order, order) for order in (4, 8, 16)]
    assert counts[2] <= 8 * counts[1]
    assert bind(TABLE[name], (iv.asarray(1.0),), {}).shape == ()


def test_a_system_is_factorised_once_for_all_orders():
    """Once for the value and once for all higher coefficients; of right-hand sides alone, once."""
    a = iv.asarray(np.random.default_rng(0).standard_normal((5, 5)) + 4 * np.eye(5))
    with work.counting() as counted:
        f = lambda t: iv.linalg.solve(a * (1 + t) + iv.eye(5) * iv.sin(t), iv.ones(5))
        iv.derivatives(f, 6)(iv.asarray(0.3))
    assert (counted.calls["solve"], counted.calls["lu"]) == (1, 1)
    with work.counting() as counted:
        iv.derivatives(lambda t: iv.linalg.solve(a, iv.ones(5) * iv.exp(t)), 6)(iv.asarray(0.3))
    assert (counted.calls["solve"], counted.calls["lu"]) == (1, 0)


@pytest.mark.parametrize(
    "name", ["solve_sylvester", "linear_recurrence", "cumulative_prod", "prod", "logcumsumexp", "cholesky"]
)
def test_recurrences_do_not_chain(name):
    """Calls of all ops: of twice the order, below six times as many."""

    def calls(order):
        call = next(c for c in calls_of(name) if c.args)
        args = list(map(iv.asarray, call.args))
        series = [[iv.asarray(np.full(a.shape, 0.1, a.dtype))] * order for a in call.args]
        with work.counting() as counted:
            iv.jet(call.function, args, series)
        return counted.calls.total()

    assert calls(8) < 6 * calls(4)


def test_compiled_it_is_one_native_call():
    """All orders of a network, a Laplacian, and its gradient in the parameters: no library step."""
    w = iv.asarray(np.random.default_rng(0).standard_normal((3, 8)) / 2)
    network = lambda w, x: iv.tanh(iv.tanh(x @ w) @ w.T).sum()
    for f in (
        lambda w, x: iv.derivatives(lambda x: network(w, x), 4, direction=iv.ones(3))(x)[4],
        lambda w, x: iv.laplacian(network, 1)(w, x)[1],
        iv.grad(lambda w, x: iv.laplacian(network, 1)(w, x)[1] ** 2),
        iv.biharmonic(network, 1),
    ):
        compiled = iv.jit(f)
        compiled(w, iv.ones(3))
        (entry,) = compiled._entries.values()
        assert len(entry.compiled._program.steps) == 1
        assert not [e for e in entry.compiled._program.steps if not hasattr(e, "compiled")]


def test_in_vmap_the_coordinates_are_multiplied_once():
    """The first layer takes the slopes of the coordinates once for all examples, and values for each."""
    w = iv.asarray(np.random.default_rng(0).standard_normal((5, 8)))
    with work.counting() as counted:
        iv.vmap(iv.laplacian(lambda x: iv.tanh(x @ w).sum()))(iv.ones((7, 5)))
    assert counted.multiply_adds == (7 + 5) * 5 * 8
