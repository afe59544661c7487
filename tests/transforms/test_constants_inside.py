"""What a function says is constant, by ``detach`` or under ``no_grad``, is so for whoever differentiates it.

Compiled, mapped, in loops, branches and checkpoints, and in each other: as in an eager call.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import iverson as iv
from tests.conformance.product import paired


def under_no_grad(x):
    with iv.no_grad():
        y = iv.sin(x) * x
    return y * x


def recorded_in_it(x):
    with iv.no_grad():
        y = x * x
        with iv.enable_grad():
            z = y * x
    return z * x


@iv.no_grad
def of_a_constant_function(x):
    return x * x


def with_a_gradient_in_it(x):
    with iv.no_grad():
        g = iv.grad(lambda x: (x**3).sum())(x)
    return g * x


def switched(x):
    with iv.set_grad_enabled(False):
        y = x**2
    return y * x


def straight_through(x):
    return x + (iv.round(x) - x).detach()


def written(x):
    y = x * 2
    z = y.detach()
    z *= 3
    return z * y


#: Functions of which a part is constant, with their derivative, entry by entry.
CONSTANT = {
    "detached": (lambda x: x.detach() * x, lambda x: x),
    "a result": (lambda x: (x * x).detach() * x, lambda x: x**2),
    "all": (lambda x: (x * x).detach(), lambda x: 0 * x),
    "under no_grad": (under_no_grad, lambda x: np.sin(x) * x),
    "recorded in it": (recorded_in_it, lambda x: 2 * x**3),
    "a function": (lambda x: of_a_constant_function(x) + x, lambda x: 1 + 0 * x),
    "a gradient in it": (with_a_gradient_in_it, lambda x: 3 * x**2),
    "switched": (switched, lambda x: x**2),
    "straight through": (straight_through, lambda x: 1 + 0 * x),
    "written": (written, lambda x: 12 * x),
    "twice": (lambda x: x.detach().detach() * x * x, lambda x: 2 * x * x),
    "in a gradient": (iv.grad(lambda x: (x.detach() * x**2).sum()), lambda x: 2 * x),
    "a sum": (lambda x: x.sum().detach() * x / x.sum().detach(), lambda x: 1 + 0 * x),
}

WAYS = {
    "jit": iv.jit,
    "vmap": iv.vmap,
    "checkpoint": iv.checkpoint,
    "steps": lambda f: lambda x: iv.scan(lambda c, x: (c, f(x)), 0.0, x)[1],
    "a branch": lambda f: lambda x: iv.cond(x.sum() > 0, f, f, x),
    "a loop": lambda f: lambda x: iv.fori_loop(0, 1, lambda k, x: f(x), x),
    "mapped, compiled": lambda f: iv.jit(iv.vmap(f)),
    "compiled, mapped": lambda f: iv.vmap(iv.jit(f)),
    "compiled, checkpointed": lambda f: iv.jit(iv.checkpoint(f)),
}


@pytest.mark.parametrize(("name", "way"), paired(CONSTANT, WAYS))
def test_what_is_said_to_be_constant_is(name, way):
    f, derivative = CONSTANT[name]
    x = iv.asarray([0.7, 1.2, -0.4])
    expected = derivative(x.numpy())
    inside = WAYS[way](f)
    same = lambda found: np.testing.assert_allclose(
        found.to_dense().numpy(), expected, rtol=1e-12, atol=1e-15
    )
    same(iv.grad(lambda x: f(x).sum())(x))
    np.testing.assert_allclose(inside(x).numpy(), f(x).numpy(), rtol=1e-14)
    same(iv.grad(lambda x: inside(x).sum())(x))
    if way != "a loop":
        same(iv.jit(iv.grad(lambda x: inside(x).sum()))(x))
    same(iv.jvp(inside, (x,), (iv.ones_like(x),))[1])
    tracked = iv.asarray(x.numpy(), requires_grad=True)
    (inside(tracked) + tracked).sum().backward()
    same(tracked.grad - 1)


def test_a_call_under_no_grad_says_nothing_of_later_ones():
    """The function is traced once, for calls that are recorded and others."""
    f = iv.jit(lambda x: x * x)
    x = iv.asarray([2.0], requires_grad=True)
    with iv.no_grad():
        assert not f(x).requires_grad
    f(x).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_what_is_detached_of_a_leaf_around_a_call_is_read_at_each():
    """A step of an optimizer changes it; its entries as Python numbers would not follow, and are an error."""
    w = iv.asarray(2.0, requires_grad=True)

    def under_no_grad(x):
        with iv.no_grad():
            c = w * 1.0
        return c * x * w

    calls = (
        lambda x: w.detach() * x * w,
        under_no_grad,
        lambda x: iv.checkpoint(lambda x: w.detach() * x)(x) * w,
    )
    compiled = [iv.jit(f) for f in calls]
    for value in (2.0, 5.0):
        with iv.no_grad():
            w[...] = value
        for f in compiled:
            w.grad = None
            y = f(iv.asarray(3.0))
            y.backward()
            assert (y.item(), w.grad.item()) == (3 * value**2, 3 * value)
    for read in (
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: bool(x > 3),
        lambda x: x.detach().numpy(),
    ):
        with pytest.raises(iv.errors.GraphError, match="read of the entries"):
            iv.jit(lambda x, read=read: x * read(w) * w)(iv.asarray(1.0))


@pytest.mark.parametrize(
    "way", ["vmap", "jit", "steps", "checkpoint", "mapped, compiled", "compiled, mapped"]
)
def test_what_is_differentiated_under_no_grad_is_not(way):
    """Gradients and Jacobians taken there are those of their functions; outside, they are constants."""
    x = iv.asarray([0.7, 1.2, -0.4])
    f = WAYS[way](lambda x: x**3)

    def gradient(x):
        with iv.no_grad():
            return iv.grad(lambda x: f(x).sum())(x), iv.jvp(f, (x,), (iv.ones(3),))[1], iv.jacobian(f)(x)

    for called in (gradient, iv.jit(gradient), lambda x: [y[0] for y in iv.vmap(gradient)(x[None])]):
        *along, matrix = called(x)
        for found in (*along, iv.diagonal(matrix.to_dense())):
            np.testing.assert_allclose(found.to_dense().numpy(), 3 * x.numpy() ** 2, rtol=1e-12)
        again = iv.grad(lambda x, called=called: (called(x)[0] * x).sum())(x)
        np.testing.assert_allclose(again.to_dense().numpy(), 3 * x.numpy() ** 2, rtol=1e-12)


def test_a_function_under_no_grad_is_constant():
    class Square(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    def f(x):
        with iv.no_grad():
            y = Square.apply(x)
        return y * x + Square.apply(x.detach()) * x

    for way in (lambda f: f, iv.jit, iv.vmap, iv.checkpoint, lambda f: iv.jit(iv.vmap(f))):
        assert iv.grad(lambda x, way=way: way(f)(x).sum())(iv.asarray([2.0, 3.0])).tolist() == [8.0, 18.0]


def test_masked_and_complex_values_too():
    m = iv.masked_tensor([1.0, 2.0, 3.0], [True, False, True])
    f = iv.jit(lambda m: (m.detach() * m).sum())
    assert iv.grad(f)(m).tolist() == [1.0, None, 3.0]
    z = iv.asarray([1.0 + 2.0j])
    g = iv.jit(lambda z: (z.detach() * z.conj()).real.sum())
    assert iv.grad(g)(z).tolist() == iv.grad(g.__wrapped__)(z).tolist()


#: What asks for the gradient of a value, or keeps it, and is refused of one of a level.
REFUSED = {
    "requires_grad_": lambda x: x.requires_grad_(False),
    "requires_grad": lambda x: setattr(x, "requires_grad", False),
    "retain_grad": lambda x: x.retain_grad(),
    "register_hook": lambda x: x.register_hook(lambda g: g),
    "grad": lambda x: setattr(x, "grad", iv.zeros(x.shape)),
    "autograd.grad": lambda x: iv.autograd.grad(x.sum(), x),
    "backward": lambda x: x.sum().backward(),
    "of a result": lambda x: (x * 2).requires_grad_(False),
}


@pytest.mark.parametrize(("name", "way"), paired(REFUSED, WAYS, 3))
def test_what_is_refused_of_values_of_a_call_says_what_to_write(name, way):
    def f(x):
        REFUSED[name](x)
        return x * 2

    with pytest.raises(
        iv.errors.GradientError, match=r"of this call.*x.detach\(\)|before the call.*iverson.grad"
    ):
        WAYS[way](f)(iv.ones(3))


@pytest.mark.parametrize("way", ["jit", "vmap"])
def test_values_without_entries_are_not_kept(way, tmp_path):
    for keep in (pickle.dumps, lambda x: iv.save(tmp_path / "x", {"x": x})):
        with pytest.raises(iv.errors.GraphError, match=r"test_constants_inside\.py:\d+"):
            WAYS[way](lambda x, keep=keep: (keep(x), x)[1])(iv.ones(3))
