"""What compiled gradients compute: products and equations that are left, counted in graphs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import iverson as iv
from iverson.graph.lowering.graph_lowering import lower
from iverson.graph.passes import simplified
from tests.graph.programs import close

HIDDEN = 8
RNG = np.random.default_rng(0)


def products(f, *args):
    """How many products of which shapes a compiled function makes."""
    graph = simplified(iv.jit(f).graph(*args))
    found: Counter[tuple[int, ...]] = Counter()
    for e in graph.equations:
        if e.op.name == "matmul":
            a, b = (x.shape for x in e.operands)
            found[(*a[-2:], b[-1])] += int(np.prod(e.results[0].shape[:-2]))
    return found


def mlp(weights, x, activation=iv.relu):
    for w in weights[:-1]:
        x = activation(x @ w)
    return x @ weights[-1]


@pytest.fixture(scope="module")
def weights():
    sizes = [2, *[HIDDEN] * 6, 3]
    return [iv.asarray(RNG.normal(size=(a, b))) for a, b in pairwise(sizes)]


def test_a_gradient_to_the_input_alone(weights):
    x = iv.asarray(RNG.normal(size=(5, 2)))

    def loss(weights, x):
        return (mlp(weights, x) ** 2).sum()

    assert products(mlp, weights, x).total() == 7
    assert products(iv.value_and_grad(loss, 1), weights, x).total() == 14
    assert products(iv.value_and_grad(loss), weights, x).total() == 20  # the first layer's input has none
    assert products(iv.value_and_grad(loss, (0, 1)), weights, x).total() == 21


def test_hessians_of_a_relu_network(weights):
    """It is linear between its kinks: of the second derivative nothing is computed."""
    x = iv.asarray(RNG.normal(size=2))

    def hessian(weights, x):
        return iv.jacobian(iv.jacobian(lambda x: mlp(weights, x)))(x)

    assert products(hessian, weights, x).total() == 0
    assert products(lambda w, x: (mlp(w, x), hessian(w, x)), weights, x).total() == 7
    to_weights = iv.grad(lambda w, x: hessian(w, x).sum())
    assert products(lambda w, x: (mlp(w, x), to_weights(w, x)), weights, x).total() == 7


def test_the_second_derivative_of_a_square(weights):
    """The forward pass, what goes back through it, and what comes forward: each hidden layer three times."""
    x = iv.asarray(RNG.normal(size=(5, 2)))

    def first(w, x):
        return iv.grad(lambda x: (mlp(w, x) ** 2).sum())(x).sum()

    assert products(iv.grad(first, 1), weights, x)[5, HIDDEN, HIDDEN] == 15


def test_derivatives_of_tanh_are_made_of_two_functions(weights):
    """To any order: of tanh and its derivative, each computed once a layer, and nothing is selected."""
    x = iv.asarray(RNG.normal(size=(5, 2)))

    def f(w, x):
        return mlp(w, x, iv.tanh).sum()

    for _ in range(3):
        f = iv.grad(lambda w, x, f=f: f(w, x).sum(), 1)
        graph = simplified(iv.jit(f).graph(weights, x))
        names = Counter(e.op.name for e in graph.equations)
        assert names["sech2"] == 6
        assert names["tanh"] <= 6
        assert names.keys() <= ARITHMETIC


def test_gelu_and_its_derivative_are_made_of_one_exponential_and_one_quotient():
    x = iv.asarray(np.linspace(-3, 3, 1000, dtype=np.float32))
    divisions = []
    for f, outputs in (
        (iv.gelu, 1),
        (lambda x: (iv.gelu(x), iv.grad(lambda x: iv.gelu(x).sum())(x)), 2),
    ):
        graph = simplified(iv.jit(f).graph(x))
        assert {e.op.name for e in graph.equations} <= {"gelu", "gelu_derivative", "broadcast_to", "multiply"}
        (step,) = lower(graph).steps
        (loop,) = (
            f for f in step.compiled.llvm.split("\ndefine ") if "@iverson_nest_0(" in f.partition("{")[0]
        )
        divisions.append(loop.count(" fdiv ") / (loop.count("  store <") / outputs))
    assert divisions[0] == divisions[1] > 0


#: What a gradient of a network of tanh is made of.
ARITHMETIC = {
    *("add", "add_n", "multiply", "negative", "subtract", "square"),
    *("tanh", "sech2", "matmul", "permute_dims", "broadcast_to"),
}


def lstm(xs, wx, wh, *, reshaped):
    h = c = iv.zeros((4, HIDDEN))
    steps = []
    for x in xs:
        z = x @ wx + h @ wh
        i, f, g, o = (z[:, k * HIDDEN : (k + 1) * HIDDEN] for k in range(4))
        c = iv.sigmoid(f) * c + iv.sigmoid(i) * iv.tanh(g)
        h = iv.sigmoid(o) * iv.tanh(c)
        steps.append(h)
    out = iv.stack(steps)
    return (out.reshape(4, 4, 4, HIDDEN)[0, 3] if reshaped else out[3]).sum()


@pytest.mark.parametrize("reshaped", [False, True])
def test_steps_after_the_one_that_is_read(reshaped):
    """Step 3 of 16: two products a step but for the first, whose state is zero, and as many back."""
    wx, wh = (iv.asarray(RNG.normal(size=(HIDDEN, 4 * HIDDEN))) for _ in range(2))
    xs = iv.asarray(RNG.normal(size=(16, 4, HIDDEN)))
    gradient = iv.grad(lambda xs: lstm(xs, wx, wh, reshaped=reshaped))
    assert products(gradient, xs).total() <= 15
    compiled = iv.jit(gradient, interpret=True)(xs)
    close(compiled, gradient(xs))
    assert not compiled.to_dense().numpy()[4:].any()


def test_reading_every_row_is_linear_in_them():
    def size(count):
        x = iv.asarray(RNG.normal(size=(count, 3)))
        gradient = iv.grad(lambda x: sum((x[t] ** 2).sum() for t in range(count)))
        return len(simplified(iv.jit(gradient).graph(x)).equations)

    few, more, many = map(size, (16, 32, 48))
    assert many - more == more - few


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_zeros_stay_strong():
    """Values that a selection or an index leaves out reach no derivative, compiled as eager."""
    zero = iv.asarray([0.0, 1.0])
    for f in (
        lambda x: iv.stack([iv.sqrt(x), x])[1],
        lambda x: iv.where(x == 0, 0.0, 1 / x),
        lambda x: iv.sqrt(iv.relu(x - 1)),
        lambda x: iv.maximum(x, 0.5) ** 2,
        lambda x: iv.where(x > 0.5, iv.log(x), x),
        lambda x: iv.clip(1 / x, 0.0, 2.0),
    ):
        g = iv.grad(lambda x, f=f: f(x).sum())
        h = iv.grad(lambda x, g=g: (g(x) ** 2).sum())
        for derivative in (g, h):
            expected = derivative(zero)
            assert np.isfinite(expected.to_dense().numpy()).all()
            close(iv.jit(derivative)(zero), expected.to_dense())
        close(iv.grad(iv.jit(lambda x, f=f: f(x).sum()))(zero), g(zero).to_dense())
