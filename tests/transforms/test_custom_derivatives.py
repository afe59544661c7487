"""`custom_vjp`, `custom_jvp` and `linearize`: JAX's results, in every transform."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.dataclasses import dataclass

X, Y = iv.asarray([0.5, -2.0, 3.0]), iv.asarray(1.5)


def clipped():
    @iv.custom_vjp
    def f(x, tree):
        return {"out": iv.sin(x) * tree["y"], "sum": x.sum()}

    def fwd(x, tree):
        return f._function(x, tree), (x, tree, "text")

    def bwd(residuals, g):
        x, tree, text = residuals
        assert text == "text"
        gx = iv.clip(g["out"] * iv.cos(x) * tree["y"], -0.5, 0.5) + g["sum"]
        return gx, {"y": (g["out"] * iv.sin(x)).sum()}

    f.defvjp(fwd, bwd)
    return f


def smooth():
    @iv.custom_jvp
    def f(x, tree):
        return iv.log(1.0 + iv.exp(x)) * tree["y"]

    @f.defjvp
    def rule(primals, tangents):
        (x, tree), (t, dtree) = primals, tangents
        return f(x, tree), t * iv.sigmoid(x) * tree["y"] + iv.log(1.0 + iv.exp(x)) * dtree["y"]

    return f


def cost(f):
    def loss(x, y):
        out = f(x, {"y": y})
        return (out["out"] ** 2).sum() + out["sum"] if isinstance(out, dict) else (out**2).sum()

    return loss


MODES = {
    "eager": lambda g: g,
    "jit": iv.jit,
    "vmap": lambda g: lambda x, y: tuple(r[1] for r in iv.vmap(g)(iv.stack([x * 2.0, x]), iv.stack([y, y]))),
    "jit of vmap": lambda g: iv.jit(
        lambda x, y: tuple(r[0] for r in iv.vmap(g, (0, None))(iv.stack([x, x * 2.0]), y))
    ),
    "scan": lambda g: lambda x, y: iv.scan(lambda c, _: (c, g(x, y)), iv.asarray(0.0), None, 1)[1],
}


def expected_of(f):
    x, y = X.numpy(), Y.item()
    if f is clipped:
        s, c = np.sin(x), np.cos(x)
        return np.clip(2 * s * y * c * y, -0.5, 0.5) + 1.0, (2 * s * y * s).sum()
    p = np.log1p(np.exp(x))
    return 2 * p * y / (1 + np.exp(-x)) * y, (2 * p * y * p).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", [clipped, smooth])
def test_gradients_are_those_of_the_rule(f, mode):
    gradient = MODES[mode](iv.grad(cost(f()), (0, 1)))(X, Y)
    for found, wanted in zip(gradient, expected_of(f), strict=True):
        np.testing.assert_allclose(np.squeeze(found.numpy()), wanted, rtol=1e-12)


@pytest.mark.parametrize("f", [clipped, smooth])
def test_of_jit_checkpoint_and_of_loops(f):
    loss = cost(f())
    inside = lambda x, y: iv.scan(lambda c, v: (c + loss(v[None], y), None), iv.asarray(0.0), x)[0]
    for g in (iv.jit(loss), iv.checkpoint(loss), inside):
        found = iv.grad(g, (0, 1))(X, Y)
        for a, b in zip(found, expected_of(f), strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12)


def linear():
    f = iv.custom_vjp(smooth()._function)
    rule = iv.vjp
    f.defvjp(lambda x, tree: (f._function(x, tree), (x, tree)), lambda r, g: rule(f._function, *r)[1](g))
    return f


@pytest.mark.parametrize("made", [linear, smooth])
def test_forward_mode_is_the_transpose(made):
    f, loss = smooth, cost(made())
    t = iv.asarray([1.0, 2.0, -1.0]), iv.asarray(0.5)
    slope = iv.jvp(loss, (X, Y), t)[1]
    gx, gy = expected_of(f)
    np.testing.assert_allclose(slope.item(), gx @ t[0].numpy() + gy * 0.5, rtol=1e-12)


def test_second_derivatives():
    f = smooth()
    hessian = iv.hessian(lambda x: f(x, {"y": Y}).sum())(X)
    s = 1 / (1 + np.exp(-X.numpy()))
    np.testing.assert_allclose(hessian.numpy(), np.diag(s * (1 - s) * 1.5), rtol=1e-12, atol=1e-14)


def test_arguments_that_are_not_differentiated():
    @iv.custom_vjp
    def plain(g, x):
        return g(x)

    f = iv.custom_vjp(lambda g, x, n: g(x) * n, nondiff_argnums=(0, 2))
    f.defvjp(lambda g, x, n: (g(x) * n, x), lambda g, n, x, ct: (ct * 10.0 * n,))
    np.testing.assert_allclose(iv.grad(lambda x: f(iv.sin, x, 3).sum())(X).numpy(), np.full(3, 30.0))
    h = iv.custom_jvp(lambda g, x: g(x), nondiff_argnums=(0,))
    h.defjvp(lambda g, primals, tangents: (g(*primals), tangents[0] * 7.0))
    np.testing.assert_allclose(iv.grad(lambda x: h(iv.sin, x).sum())(X).numpy(), np.full(3, 7.0))
    with pytest.raises(iv.errors.MissingRuleError, match="defvjp before"):
        plain(iv.sin, X)


def test_a_rule_for_each_argument():
    @iv.custom_jvp
    def f(x, y, z):
        return x * y + z

    f.defjvps(lambda t, out, x, y, z: t * y * 2.0, lambda t, out, x, y, z: t * x, None)
    g = iv.grad(lambda *a: f(*a).sum(), (0, 1, 2))(iv.asarray(2.0), iv.asarray(3.0), iv.asarray(4.0))
    np.testing.assert_allclose([x.item() for x in g], [6.0, 2.0, 0.0])


def test_dataclasses_integers_and_closures():
    @dataclass
    class Line:
        a: iv.Tensor
        b: iv.Tensor

    @iv.custom_vjp
    def f(line, index):
        return line.a * 2.0 + line.b + index

    f.defvjp(
        lambda line, index: (line.a * 2.0 + line.b + index, None),
        lambda _, g: (Line(g * 3.0, g * 4.0), None),
    )
    line = Line(iv.asarray(1.0), iv.asarray(2.0))
    g = iv.jit(iv.grad(lambda line: f(line, iv.asarray(3))))(line)
    assert (g.a.item(), g.b.item()) == (3.0, 4.0)

    def outer(s):
        h = iv.custom_vjp(lambda x: x * s)
        h.defvjp(lambda x: (x * s, None), lambda _, g: (g * s,))
        return iv.grad(lambda x: h(x).sum())(X).sum()

    np.testing.assert_allclose(iv.jit(outer)(iv.asarray(2.0)).item(), 6.0)


@pytest.mark.parametrize("f", [lambda x: iv.sin(x) * x, lambda x: x @ iv.ones(3), iv.jit(iv.exp)])
def test_linearize_is_jvp_many_times(f):
    value, push = iv.linearize(f, X)
    np.testing.assert_array_equal(value.numpy(), f(X).numpy())
    for t in (iv.ones(3), X, iv.zeros(3)):
        np.testing.assert_allclose(push(t).numpy(), iv.jvp(f, (X,), (t,))[1].numpy(), rtol=1e-14)
    compiled = iv.jit(lambda x, t: iv.linearize(f, x)[1](t))(X, iv.ones(3))
    np.testing.assert_allclose(compiled.numpy(), push(iv.ones(3)).numpy(), rtol=1e-12)
    mapped = iv.vmap(push)(iv.eye(3))
    np.testing.assert_allclose(mapped.detach().numpy(), iv.jacobian(f)(X).numpy().T, rtol=1e-12, atol=1e-14)
    with pytest.raises(iv.errors.ShapeError, match="linearize"):
        push(iv.ones(2))


def test_linearize_hands_on_what_is_beside():
    value, push, aux = iv.linearize(lambda x: (x * x, "beside"), X, has_aux=True)
    assert aux == "beside"
    np.testing.assert_allclose(push(iv.ones(3)).numpy(), 2 * X.numpy())
    np.testing.assert_allclose(value.numpy(), X.numpy() ** 2)


def test_wrong_rules():
    f = iv.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: x, lambda _, g: (g,))
    with pytest.raises(iv.errors.ArgumentError, match="fwd"):
        f(X)
    f.defvjp(lambda x: (x, None), lambda _, g: g)
    with pytest.raises(iv.errors.ArgumentError, match="one for each argument"):
        iv.grad(lambda x: f(x).sum())(X)
    f.defvjp(lambda x: (x, None), lambda _, g: ([g],))
    with pytest.raises(iv.errors.ArgumentError, match="a tree"):
        iv.grad(lambda x: f(x).sum())(X)
    with pytest.raises(iv.errors.ArgumentError, match="by position"):
        f(x=X)
    h = iv.custom_jvp(lambda x: x)
    h.defjvp(lambda p, t: p[0])
    with pytest.raises(iv.errors.ArgumentError, match="rule"):
        iv.jvp(h, (X,), (X,))
    with pytest.raises(iv.errors.ArgumentTypeError):
        iv.custom_vjp(3)


@pytest.mark.peers
def test_against_jax():
    jax = pytest.importorskip("jax", reason="JAX is the oracle")
    jnp = jax.numpy

    def of(lib, sin, cos):
        f = lib.custom_vjp(lambda x, y: sin(x) * y)
        f.defvjp(lambda x, y: (sin(x) * y, (cos(x), y)), lambda r, g: (g * r[0] * r[1] * 0.5, g * 2.0))
        return lib.grad(lambda x, y: (f(x, y) ** 3).sum(), (0, 1))

    a = of(iv, iv.sin, iv.cos)(X, X)
    with jax.enable_x64(True):
        b = of(jax, jnp.sin, jnp.cos)(jnp.asarray(X.numpy()), jnp.asarray(X.numpy()))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x.numpy(), np.asarray(y), rtol=1e-12)
