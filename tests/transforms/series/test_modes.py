"""Series of functions of every kind, eager and compiled, and nested with other transforms."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson import te
from tests.conformance.product import EXHAUSTIVE
from tests.graph.programs import entries, random_program
from tests.transforms.series.nested import agree, coefficients, floating, nested

W = np.random.default_rng(1).standard_normal((3, 3))


class Cube(iv.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class PushedCube(Cube):
    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x * x * t


class Straight(iv.autograd.Function):
    """A function whose derivative is not that of its operations."""

    @staticmethod
    def forward(ctx, x):
        return iv.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


def without_recording(x):
    with iv.no_grad():
        y = iv.sin(x)
    return x * y


def stepped(x):
    return iv.while_loop(lambda c: c[1] < 3, lambda c: (iv.exp(c[0] * 0.3), c[1] + 1), (x, iv.asarray(0)))[0]


@te.op
def correlated(x, w):
    k = te.reduce_axis((0, w.shape[0]))
    shape = (x.shape[0] - w.shape[0] + 1,)
    return te.compute(shape, lambda i: te.sum(te.sin(w[k] * x[i + k]), axis=k))


class Noted(iv.autograd.Function):
    """A function whose derivative is given to an op in index notation."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        return correlated(x, iv.asarray([0.5, 1.0]))

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        w = iv.asarray([0.5, 1.0])
        return iv.jvp(lambda x: correlated(x, w), (x,), (t,))[1]


def written(x):
    y = iv.zeros(3)
    y[1:] = x[:2] * x[1:]
    y[0] += iv.exp(x[2])
    return y


FUNCTIONS = {
    "network": lambda x: iv.tanh(iv.asarray(W) @ iv.tanh(iv.asarray(W) @ x)),
    "softmax": lambda x: iv.nn.softmax(iv.asarray(W) @ x, axis=0),
    "norm": lambda x: x / iv.linalg.vector_norm(x),
    "solve": lambda x: iv.linalg.solve(iv.asarray(W) + x * iv.eye(3), x),
    "cholesky": lambda x: iv.linalg.cholesky(iv.asarray(W @ W.T + 3 * np.eye(3)) + iv.outer(x, x)),
    "eigenvalues": lambda x: iv.linalg.eigvalsh(iv.asarray(np.diag([1.0, 3.0, 7.0])) + iv.outer(x, x)),
    "kinks": lambda x: iv.maximum(x, 0.3 * x) + abs(x) + iv.where(x > 0, x**2, x**3),
    "gradient": iv.grad(lambda z: iv.tanh(iv.asarray(W) @ z).sum()),
    "hessian": iv.hessian(lambda z: iv.tanh(iv.asarray(W) @ z).sum()),
    "vmap": lambda x: iv.vmap(lambda r: iv.sin(r) @ r)(iv.stack([x, x * x])),
    "cond": lambda x: iv.cond(x[0] > 0, iv.sin, iv.cos, x),
    "scan": lambda x: iv.scan(lambda c, t: (iv.sin(c) * x + t, c * c), x, iv.arange(4) * 0.1)[1],
    "scan over series": lambda x: iv.scan(lambda c, t: (c * t + 1, iv.exp(c)), iv.asarray(0.5), x),
    "reversed scan": lambda x: iv.scan(lambda c, t: (iv.sin(c) + t, c), iv.asarray(0.5), x, reverse=True),
    "blocks": lambda x: iv.scan(
        lambda c, t: (iv.sin(c) * x + t, c.sum()), x, iv.arange(4) * 0.1, checkpoint=2
    ),
    "fori_loop": lambda x: iv.fori_loop(0, 4, lambda i, c: iv.sin(c) * x, x),
    "while_loop": stepped,
    "checkpoint": iv.checkpoint(lambda z: iv.tanh(iv.asarray(W) @ z)),
    "Function": lambda x: Cube.apply(iv.sin(x)),
    "Function with jvp": lambda x: PushedCube.apply(iv.sin(x)),
    "derivative of its own": lambda x: Straight.apply(x * x) * x,
    "gradient of a Function": iv.grad(lambda z: Cube.apply(iv.sin(z)).sum()),
    "Function in a scan": lambda x: iv.scan(lambda c, t: (Cube.apply(c) + t, c), x, iv.arange(3) * 0.1)[0],
    "index notation": lambda x: iv.sin(correlated(iv.exp(x), x[:2])) * x[:2],
    "index notation in a Function": lambda x: iv.sin(Noted.apply(x * x)) * x[:2],
    "complex numbers": lambda x: iv.abs(iv.fft.fft(iv.sin(x))) ** 3 + iv.imag(iv.sign((0.5 + 1j) * x + 1j)),
    "detach": lambda x: x.detach() * x,
    "no_grad": without_recording,
    "in place": written,
    "constant": lambda x: (iv.ones(3), x),
}


def point():
    return iv.asarray(np.array([0.4, -0.7, 0.2]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    x = point()
    agree(FUNCTIONS[name], [x], coefficients([x], 3))


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "in place"])
def test_compiled(name):
    """Compiled around the series, and within."""
    x, f = point(), FUNCTIONS[name]
    series = coefficients([x], 2)
    value, others = iv.jet(f, (x,), series)
    for compiled in (
        iv.jit(lambda x, s: iv.jet(f, (x,), s))(x, series),
        iv.jet(iv.jit(f), (x,), series),
    ):
        for a, b in zip((value, *others), (compiled[0], *compiled[1]), strict=True):
            for c, d in zip(as_flat(a), as_flat(b), strict=True):
                np.testing.assert_allclose(entries(d), entries(c), rtol=1e-12, atol=1e-13)


def as_flat(tree):
    import optree

    return optree.tree_leaves(tree)


@pytest.mark.parametrize("seed", range(300 if EXHAUSTIVE else 12))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    args = [iv.asarray(rng.standard_normal((3, 3))) for _ in range(2)]
    agree(lambda x, y: tuple(random_program(seed)(x, y)), args, coefficients(args, 3, seed))


def loss(w, x):
    return iv.derivatives(lambda t: iv.tanh(w @ iv.tanh(w[0] * t)).sum(), 3)(x)[3] ** 2


def test_gradients_of_series():
    """A loss with a third derivative, in its parameters: in all modes as nested gradients."""
    w, x = iv.asarray(W), iv.asarray(0.3)

    def third(w, x):
        f = lambda t: iv.tanh(w @ iv.tanh(w[0] * t)).sum()
        return iv.grad(iv.grad(iv.grad(f)))(x) ** 2

    expected = iv.grad(third)(w, x).numpy()
    hessian = iv.hessian(third)(w, x).numpy()
    for f in (
        iv.grad(loss),
        iv.jit(iv.grad(loss)),
        iv.grad(iv.jit(loss)),
        iv.grad(iv.checkpoint(loss)),
        lambda w, x: iv.vmap(iv.grad(loss), (None, 0))(w, iv.stack([x, x]))[1],
        iv.grad(lambda w, x: iv.vmap(loss, (None, 0))(w, iv.stack([x, x])).mean()),
        iv.jacobian(loss, mode="forward"),
        iv.grad(lambda w, x: iv.cond(x > 0, loss, lambda w, x: x, w, x)),
        iv.grad(
            lambda w, x: iv.scan(lambda c, _: (c + loss(w, x), None), iv.asarray(0.0), iv.arange(2))[0] / 2
        ),
    ):
        np.testing.assert_allclose(f(w, x).numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(iv.hessian(loss)(w, x).numpy(), hessian, rtol=1e-8)
    np.testing.assert_allclose(iv.jit(iv.hessian(loss))(w, x).numpy(), hessian, rtol=1e-8)


def test_backward_reaches_parameters_around():
    w = iv.asarray(W, requires_grad=True)
    iv.derivatives(lambda t: (w * iv.sin(t)).sum() ** 2, 2)(iv.asarray(0.4))[2].backward()
    f = lambda w: iv.grad(iv.grad(lambda t: (w * iv.sin(t)).sum() ** 2))(iv.asarray(0.4))
    np.testing.assert_allclose(w.grad.numpy(), iv.grad(f)(iv.asarray(W)).numpy(), rtol=1e-12)


def test_series_of_series():
    """Two directions: the mixed derivative of x^3 y^2 of orders 2 and 1."""

    def along_y(x):
        return iv.derivatives(lambda y: x**3 * y**2, 1)(iv.asarray(0.5))[1]

    found = iv.derivatives(along_y, 2)(iv.asarray(1.5))[2]
    assert float(found) == pytest.approx(6 * 1.5 * 2 * 0.5)


def test_masked_tensors():
    data, mask = np.array([0.3, np.nan, -0.5]), np.array([True, False, True])
    x = iv.masked_tensor(iv.asarray(data), mask)
    ones = iv.masked_tensor(iv.ones(3), mask)
    found = iv.derivatives(lambda m: (iv.sin(m) * m).sum(), 2, direction=ones)(x)
    z = data[mask]
    exact = [z * np.sin(z), np.sin(z) + z * np.cos(z), 2 * np.cos(z) - z * np.sin(z)]
    np.testing.assert_allclose([float(c) for c in found], [e.sum() for e in exact], rtol=1e-12)
    each = iv.derivatives(lambda m: iv.exp(m) * m, 2, direction=ones)(x)[2]
    assert isinstance(each, type(x))
    np.testing.assert_allclose(each.to_tensor(0).numpy()[mask], (z + 2) * np.exp(z))


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "complex128"])
def test_dtypes(dtype):
    x = iv.asarray(np.array([0.3, 0.7]).astype(dtype))
    for k, c in enumerate(iv.derivatives(lambda x: iv.exp(2 * x), 3, direction=iv.ones(2))(x)):
        assert str(c.dtype) == dtype
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(c.numpy(), 2**k * np.exp(2 * x.numpy()), rtol=100 * eps)


@pytest.mark.parametrize("size", range(6))
def test_sizes(size):
    x = iv.asarray(np.linspace(0.1, 0.9, size))
    found = iv.derivatives(lambda x: iv.sin(x).sum(), 4, direction=iv.ones(size))(x)
    exact = [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
    np.testing.assert_allclose([float(c) for c in found], [f(x.numpy()).sum() for f in exact], atol=1e-12)


def test_trees_and_what_does_not_vary():
    x = {"a": iv.asarray(2.0), "b": (iv.asarray([1.0, 3.0]),)}
    d = {"a": iv.asarray(1.0), "b": (iv.asarray([0.0, 1.0]),)}
    value, slope, second = iv.derivatives(
        lambda t: {"y": t["a"] * t["b"][0], "c": iv.ones(2)}, 2, direction=d
    )(x)
    assert (slope["c"].layout, second["y"].numpy().tolist()) == ("zero", [0.0, 2.0])
    assert (value["y"].numpy().tolist(), slope["y"].numpy().tolist()) == ([2.0, 6.0], [1.0, 5.0])


def test_a_branch_of_python_reads_the_value():
    f = iv.derivatives(lambda x: iv.sin(x) if x > 0 else x.detach().item() * x, 2)
    assert [float(c) for c in f(iv.asarray(-2.0))] == [4.0, -2.0, 0.0]
    assert float(f(iv.asarray(0.5))[2]) == pytest.approx(-math.sin(0.5))


def test_ties_are_those_of_nested_gradients():
    x = iv.asarray([0.0, 0.0, 1.0])
    series = [[iv.asarray([1.0, -1.0, 0.5]), iv.asarray([0.5, 0.25, 1.0])]]
    for f in (
        iv.relu,
        abs,
        iv.max,
        iv.sign,
        lambda x: iv.maximum(x, 0 * x),
        lambda x: iv.clip(x, 0.0, 1.0),
        iv.sort,
        iv.linalg.vector_norm,
    ):
        agree(f, [x], series)


@pytest.mark.parametrize(
    "f",
    [
        iv.sqrt,
        lambda x: x**2.5,
        lambda x: x**0.5,
        lambda x: iv.where(x > 0, iv.sqrt(x), x * x),
        lambda x: x**3 * iv.sqrt(x + 1),
    ],
)
def test_singular_points_are_those_of_nested_gradients(f):
    """No warning either: NumPy warns of values."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero = iv.asarray(0.0)
        g, expected = f, []
        for _ in range(4):
            with np.errstate(all="ignore"):
                expected.append(float(g(zero)))
            g = iv.grad(g)
        found = iv.derivatives(f, 3)(zero) if np.isfinite(expected[0]) else []
    np.testing.assert_array_equal([float(c) for c in found], expected)


def test_oracles_agree_with_numpy():
    """The oracle itself, on a polynomial."""
    value, *others = nested(
        lambda x: floating(x * x), [iv.asarray(3.0)], [[iv.asarray(2.0), iv.asarray(1.0)]]
    )
    assert [float(c[0]) for c in (value, *others)] == [9.0, 12.0, 10.0]
