"""Transforms: values by closed form, nesting by agreement of all mixtures, pytrees, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.core.counting import work
from iverson.core.errors import ArgumentError, DTypeError, GradientError, ShapeError
from tests.conformance.product import examples

rng = np.random.default_rng(0)


def forward(f):
    return lambda x: iv.jvp(f, (x,), (iv.ones(()),))[1]


def by_pull(f):
    def derivative(x):
        _, pull = iv.vjp(f, x)
        return pull(iv.ones(()))[0]

    return derivative


WAYS = {"grad": iv.grad, "jvp": forward, "vjp": by_pull, "jacobian": iv.jacobian}


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_every_mixture_of_modes_agrees(order):
    def f(x):
        return x**3 * iv.sin(x) + iv.exp(-x * x)

    x = iv.asarray(0.7)
    # The derivative by an independent route: complex Taylor coefficients on a circle.
    z = 0.7 + 0.3 * np.exp(2j * np.pi * np.arange(64) / 64)
    values = z**3 * np.sin(z) + np.exp(-z * z)
    expected = (np.fft.fft(values)[order] / 64).real / 0.3**order * float(np.prod(range(1, order + 1)))
    for ways in (
        itertools.product(WAYS, repeat=order) if order < 4 else [("grad", "jvp") * 2, ("jvp", "vjp") * 2]
    ):
        g = f
        for way in ways:
            g = WAYS[way](g)
        np.testing.assert_allclose(g(x).item(), expected, rtol=1e-9, err_msg=str(ways))


def test_perturbations_are_not_confused():
    one = iv.asarray(1.0)
    assert iv.grad(lambda x: x * iv.grad(lambda y: x + y)(one))(one).item() == 1.0
    assert iv.grad(lambda x: x * iv.jvp(lambda y: x * y, (one,), (one,))[1])(iv.asarray(3.0)).item() == 6.0
    _, t = iv.jvp(lambda x: iv.grad(lambda y: x * y * y)(x), (iv.asarray(3.0),), (one,))
    assert t.item() == 12.0


def test_results_at_the_top_carry_no_graph_and_nested_ones_do():
    x = iv.asarray([1.0, 2.0])
    w = iv.asarray(2.0, requires_grad=True)
    value, g = iv.value_and_grad(lambda x: (x * x).sum())(x)
    assert not value.requires_grad
    assert not g.requires_grad
    g = iv.grad(lambda x: (w * x * x).sum())(x)
    assert g.requires_grad
    g.sum().backward()
    assert w.grad.item() == 6.0
    with iv.no_grad():
        assert not iv.grad(lambda x: (w * x * x).sum())(x).requires_grad


_CONSTANT = iv.asarray([3.0, 4.0])
#: Around a function of a vector.
AROUND = {
    "cond": lambda f: lambda x: iv.cond(iv.sum(x) < 0, lambda x: x, f, x),
    "checkpoint": iv.checkpoint,
    "scan": lambda f: lambda x: iv.scan(lambda h, y: (f(h) * y, y), x, x)[0],
    "vmap": lambda f: lambda x: iv.vmap(f)(iv.stack([x, 2 * x]))[0],
    "jit": lambda f: iv.jit(f, interpret=True),
    "grad": lambda f: iv.grad(lambda x: f(x).sum()),
}


@pytest.mark.parametrize("ways", list(itertools.product(("checkpoint", "vmap"), AROUND)), ids="-".join)
def test_derivatives_at_constants_inside_are_not_tracked_outside(ways):
    # Variables of the inner derivative belong to the body, also those that are zero.
    zero = iv.grad(lambda x: _CONSTANT.sum())(_CONSTANT)
    x = iv.asarray([0.5, 0.25])
    for at in (_CONSTANT, zero):
        f = lambda x, at=at: (
            iv.grad(lambda z: iv.sum(iv.exp(iv.sin(z * x) + x)))(at)
            + iv.jvp(lambda z: iv.sin(z * x) * x, (at,), (_CONSTANT,))[1]
            + iv.grad(lambda z: iv.cond(z.sum() > 9, lambda z: z * x, lambda z: z + 2 * x, z).sum())(at)
        )
        for way in ways:
            f = AROUND[way](f)
        assert not f(x).requires_grad


def test_pytrees_argnums_aux_and_keywords():
    params = {"w": iv.asarray([[1.0, 2.0]]), "b": (iv.asarray(3.0), None)}

    def f(p, x, *, scale=1.0):
        y = (p["w"] @ x).sum() * scale + p["b"][0]
        return y, {"seen": y * 2}

    x = iv.asarray([1.0, 1.0])
    (value, aux), g = iv.value_and_grad(f, has_aux=True)(params, x, scale=2.0)
    assert (value.item(), aux["seen"].item()) == (9.0, 18.0)
    assert g["w"].tolist() == [[2.0, 2.0]]
    assert g["b"][0].item() == 1.0
    assert g["b"][1] is None
    g, aux = iv.grad(f, argnums=(0, 1), has_aux=True)(params, x)
    assert g[1].tolist() == [1.0, 2.0]
    _, pull, aux = iv.vjp(f, params, x, has_aux=True)
    assert pull(iv.asarray(1.0))[1].tolist() == [1.0, 2.0]
    j = iv.jacobian(lambda p: {"y": p["w"] * p["b"][0]})(params)
    assert j["y"]["w"].shape == (1, 2, 1, 2)
    np.testing.assert_array_equal(j["y"]["b"][0].numpy(), [[1.0, 2.0]])


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
def test_jacobian_modes(mode):
    a = iv.asarray(rng.standard_normal((3, 4)))
    x = iv.asarray(rng.standard_normal(4))
    j = iv.jacobian(lambda x: iv.tanh(a @ x), mode=mode)(x)
    expected = (1 - np.tanh(a.numpy() @ x.numpy()) ** 2)[:, None] * a.numpy()
    np.testing.assert_allclose(j.numpy(), expected, rtol=1e-13)


def test_hessian_and_hvp():
    q = rng.standard_normal((4, 4))
    a = iv.asarray(q)
    x, v = (iv.asarray(rng.standard_normal(4)) for _ in range(2))

    def f(x):
        return (x @ (a @ x)) ** 2

    h = iv.hessian(f)(x).numpy()
    s, xs = q + q.T, x.numpy()
    expected = 2 * np.outer(s @ xs, s @ xs) + 2 * (xs @ q @ xs) * s
    np.testing.assert_allclose(h, expected, rtol=1e-12)
    (g,), (product,) = iv.hvp(f, (x,), (v,))
    np.testing.assert_allclose(product.numpy(), expected @ v.numpy(), rtol=1e-12)
    np.testing.assert_allclose(g.numpy(), 2 * (xs @ q @ xs) * (s @ xs), rtol=1e-12)


def test_cheap_gradient_bound_of_hvp():
    """A Hessian-vector product takes a small multiple of the products of the function."""
    layers = [iv.asarray(rng.standard_normal((8, 8))) for _ in range(5)]

    def f(x):
        for w in layers:
            x = iv.tanh(x @ w)
        return x.sum()

    x = iv.asarray(rng.standard_normal((3, 8)))
    with work.counting() as done:
        iv.hvp(f, (x,), (x,))
    assert done.products <= 4 * 5


def test_jacobian_rows_use_the_support_of_their_seed():
    """Seeds are made together where they are in few rows: a product is computed for these rows only.

    The sum keeps the zeros of the Jacobian from being known, which otherwise take four passes for all rows.
    """
    a, b = iv.asarray(rng.standard_normal((60, 3))), iv.asarray(rng.standard_normal((3, 4)))
    with work.counting() as done:
        found = iv.jacobian(lambda a: (a + a.sum()) @ b, mode="reverse", chunk_size=8)(a)
    assert dict(done.product_shapes) == {(60, 3, 4): 1, (8 * 2, 4, 3): 30}
    expected = np.einsum("ik,jl->ijkl", np.eye(60), b.numpy().T) + b.numpy().sum(0)[None, :, None, None]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-14)
    for size in (1, 7, 1000, None):
        with work.counting() as done:
            again = iv.jacobian(lambda a: (a + a.sum()) @ b, mode="reverse", chunk_size=size)(a)
        assert done.products == 1 + -(-240 // (size or 240))
        np.testing.assert_allclose(again.numpy(), expected, rtol=1e-12, atol=1e-14)


HOLOMORPHIC = {"square": (lambda z: z * z, lambda z: 2 * z), "exp": (iv.exp, np.exp)}
Z, R = rng.standard_normal(3) + 1j * rng.standard_normal(3), rng.standard_normal(3)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobians_of_complex_functions(mode):
    def diagonal(f, x):
        found = iv.jacobian(f, mode=mode)(iv.asarray(x)).numpy()
        np.testing.assert_array_equal(found[~np.eye(3, dtype=bool)], 0)
        return np.diagonal(found)

    for f, derivative in HOLOMORPHIC.values():
        np.testing.assert_allclose(diagonal(f, Z), derivative(Z).conj(), rtol=1e-14)
    np.testing.assert_allclose(diagonal(iv.conj, Z), np.ones(3))
    np.testing.assert_allclose(diagonal(lambda z: iv.abs(z) ** 2, Z), 2 * Z, rtol=1e-14)
    np.testing.assert_allclose(diagonal(lambda x: iv.exp(1j * x), R), 1j * np.exp(1j * R), rtol=1e-14)
    both = iv.jacobian(lambda z, x: z * x, (0, 1), mode=mode)(iv.asarray(Z), iv.asarray(R))
    np.testing.assert_allclose(np.diagonal(both[0].numpy()), R)
    np.testing.assert_allclose(np.diagonal(both[1].numpy()), Z)
    row = iv.jacobian(lambda z: iv.sum(iv.abs(z) ** 4), mode=mode)(iv.asarray(Z))
    np.testing.assert_allclose(row.numpy(), iv.grad(lambda z: iv.sum(iv.abs(z) ** 4))(iv.asarray(Z)).numpy())


def test_hessian_of_a_complex_input():
    """The Jacobian of the gradient 2z of abs(z)^2, whose derivative is 2."""
    found = iv.hessian(lambda z: iv.sum(iv.abs(z) ** 2), chunk_size=2)(iv.asarray(Z))
    np.testing.assert_allclose(found.numpy(), 2 * np.eye(3), atol=1e-14)


@pytest.mark.parametrize("shape", [(), (3,), (0,), (3, 0)])
def test_jacobian_of_a_function_whose_rule_reads_entries(shape):
    """Its passes are made one by one, also where there is none to make."""

    class Cube(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach().numpy()
            return iv.asarray(ctx.x**3)

        @staticmethod
        @iv.autograd.once_differentiable
        def backward(ctx, g):
            return iv.asarray(3 * ctx.x**2 * g.numpy())

    x = np.resize(R, shape)
    found = iv.jacobian(Cube.apply, mode="reverse")(iv.asarray(x))
    assert found.shape == shape + shape
    np.testing.assert_allclose(found.numpy().reshape(x.size, x.size), np.diag(3 * x.ravel() ** 2))


@pytest.mark.parametrize("layout", ["strided", "coo", "csr", "csc"])
@pytest.mark.parametrize("shape", [(3, 2), (3, 0), (0, 2), (0, 0)])
def test_compiled_hessian_of_a_branch_of_a_sparse_argument(shape, layout):
    x = np.resize(R, shape)

    def f(x, flag):
        return iv.cond(flag > 0.1, lambda x: iv.exp(iv.tanh(x)).sum(), lambda x: x.sum(), x)

    found = iv.jit(iv.hessian(f))(iv.asarray(x).to_layout(layout), iv.asarray(0.7))
    assert found.shape == shape + shape
    t = np.tanh(x.ravel())
    expected = np.diag(np.exp(t) * (1 - t**2) * (1 - t**2 - 2 * t))
    np.testing.assert_allclose(found.to_dense().numpy().reshape(x.size, x.size), expected)


@given(
    st.lists(
        st.sampled_from(["sin", "cos", "tanh", "square", "sigmoid", "flip", "cumulative_sum", "softmax"]),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 10),
)
@settings(max_examples=examples(40), deadline=None)
def test_random_programs_agree_in_both_modes_to_second_order(names, seed):
    draw = np.random.default_rng(seed)
    w = iv.asarray(draw.standard_normal((4, 4)) / 2)

    def f(x):
        for name in names:
            if name in ("flip", "cumulative_sum", "softmax"):
                x = getattr(iv, name)(x, axis=0)
            else:
                x = getattr(iv, name)(x @ w)
        return x

    def scalar(x):
        return (f(x) * f(x)).sum()

    x = iv.asarray(draw.standard_normal(4) / 2)
    reverse, forwards = (iv.jacobian(f, mode=m)(x).numpy() for m in ("reverse", "forward"))
    np.testing.assert_allclose(reverse, forwards, rtol=1e-10, atol=1e-12)
    by_forward = iv.hessian(scalar)(x).numpy()
    by_reverse = iv.jacobian(iv.grad(scalar), mode="reverse")(x).numpy()
    scale = np.abs(by_forward).max() + 1e-300
    np.testing.assert_allclose(by_reverse / scale, by_forward / scale, atol=1e-10)
    np.testing.assert_allclose(by_forward / scale, by_forward.T / scale, atol=1e-10)


def test_constant_functions_and_unused_arguments():
    x = iv.asarray([1.0, 2.0])
    g = iv.grad(lambda x: iv.asarray(3.0))(x)
    assert g.layout == "zero"
    assert iv.jacobian(lambda x: iv.ones(3))(x).shape == (3, 2)
    _, t = iv.jvp(lambda x: iv.ones(3), (x,), (x,))
    assert t.layout == "zero"


def test_errors():
    x = iv.asarray([1.0, 2.0])
    with pytest.raises(GradientError, match="one number"):
        iv.grad(lambda x: x)(x)
    with pytest.raises(GradientError, match="a result without a tensor"):
        iv.grad(lambda x: None)(x)
    with pytest.raises(iv.errors.ArgumentError, match="by position"):
        iv.grad(lambda x: x.sum())(x=x)
    with pytest.raises(DTypeError, match="leaf 0 of dtype int64"):
        iv.grad(lambda x: x)(iv.asarray(1))
    with pytest.raises(TypeError, match="leaf 0 that is"):
        iv.grad(lambda x: x)("a")
    with pytest.raises(ValueError, match="argnums"):
        iv.grad(lambda x: x, argnums=2)(x)
    with pytest.raises(ShapeError, match="jvp: argument 'tangents'"):
        iv.jvp(iv.sin, (x,), (iv.ones(3),))
    with pytest.raises(ValueError, match="a tree"):
        iv.jvp(iv.sin, (x,), ((x, x),))
    with pytest.raises(ShapeError, match="vjp: argument 'cotangent'"):
        iv.vjp(iv.sin, x)[1](iv.ones(3))
    with pytest.raises(ArgumentError, match="jacobian: argument 'chunk_size'"):
        iv.jacobian(iv.sin, chunk_size=0)
    with pytest.raises(ValueError, match="mode"):
        iv.jacobian(iv.sin, mode="sideways")
    with pytest.raises(GradientError, match="a complex result"):
        iv.grad(lambda x: (x * 1j).sum())(x)


def test_functions_may_write_into_their_arguments():
    def function(x):
        x *= 2
        x[0] = 0.0
        return (x * x).sum()

    x = iv.asarray([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(iv.grad(function)(x).numpy(), [0.0, 16.0, 24.0])
    np.testing.assert_array_equal(iv.jvp(function, (x,), (iv.ones(3),))[1].numpy(), 40.0)
    for mode in ("forward", "reverse"):
        np.testing.assert_array_equal(iv.jacobian(function, mode=mode)(x).numpy(), [0.0, 16.0, 24.0])
    np.testing.assert_array_equal(iv.hessian(function)(x).numpy(), np.diag([0.0, 8.0, 8.0]))
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0, 3.0])


def test_a_value_handed_out_is_the_users_own():
    w = iv.asarray([3.0, 4.0], requires_grad=True)
    y, pull = iv.vjp(lambda x: x * w, iv.asarray([1.0, 2.0]))
    y *= 10
    np.testing.assert_array_equal(pull(iv.ones(2))[0].detach().numpy(), [3.0, 4.0])


def test_keywords_reach_the_function_and_argnums_are_checked():
    x = iv.asarray([1.0, 2.0])

    def function(x, scale=1.0):
        return (x * x * scale).sum()

    np.testing.assert_array_equal(iv.jacobian(function)(x, scale=2.0).numpy(), [4.0, 8.0])
    np.testing.assert_array_equal(iv.hessian(function)(x, scale=2.0).numpy(), np.diag([4.0, 4.0]))
    np.testing.assert_array_equal(iv.grad(function, np.int64(0))(x).numpy(), [2.0, 4.0])
    with pytest.raises(ArgumentError, match="expected each argument once"):
        iv.grad(lambda a, b: (a * b).sum(), (0, -2))(x, x)
    with pytest.raises(TypeError, match="argument 'argnums': got 'a'"):
        iv.grad(function, "a")(x)
    with pytest.raises(ShapeError, match=r"'tangents': got shape \(3,\); .* that of the primal"):
        iv.jvp(function, (x,), (iv.ones(3),))
