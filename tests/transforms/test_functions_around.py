"""Custom Functions whose methods read values of a trace or a batch from around them: as in eager calls."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function
from tests.conformance.product import paired

X = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])


def in_forward(x, s):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * s

        @staticmethod
        def backward(ctx, g):
            return 3 * g * s  # not the derivative, so that it is seen which one is taken

    return Scaled.apply(x).sum()


def in_backward(x, s):
    def rule(g):
        return g * s

    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert len(ctx.needs_input_grad) == 1
            return rule(g) * x

        @staticmethod
        def jvp(ctx, t):
            return 5 * t * s

    return Doubled.apply(x).sum()


def in_setup(x, s):
    class Kept(Function):
        @staticmethod
        def forward(x):
            return x * 2, x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.s = s

        @staticmethod
        def backward(ctx, g, h):
            return 2 * g * ctx.s + h * ctx.saved_tensors[0] * s

    return sum(y.sum() for y in Kept.apply(x))


def in_a_hook(x, s):
    y = x * x * 1.0
    y.register_hook(lambda g: g * s * x.detach())
    return y.sum()


class Holder:
    """A tensor that no cell holds."""

    s = None


class FromAHolder(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * Holder.s**2

    @staticmethod
    def jvp(ctx, t):
        return t * Holder.s**2


def in_a_holder(x, s):
    Holder.s = s
    return FromAHolder.apply(x).sum()


def first(f):
    return iv.grad(f)


def second(f):
    """The gradients of the gradient, by which what backward reads is differentiated."""
    return iv.grad(lambda x, s: (iv.grad(f)(x, s) ** 2).sum(), argnums=(0, 1))


def mixed(f):
    """The gradient in what the methods read alone, of the gradient in the argument alone."""
    return iv.grad(lambda s, x: (iv.grad(lambda x: f(x, s))(x) ** 2).sum())


#: Ways from a function, an order and arguments to the result, and whether the level is outside of the order.
WAYS = {
    "compiled": lambda f, order, x, s: iv.jit(order(f))(x, s),
    "interpreted": lambda f, order, x, s: iv.jit(order(f), interpret=True)(x, s),
    "of compiled": lambda f, order, x, s: order(iv.jit(f))(x, s),
    "of a branch": lambda f, order, x, s: order(lambda x, s: iv.cond(s > 0, f, f, x, s))(x, s),
    "recomputed": lambda f, order, x, s: order(iv.checkpoint(f))(x, s),
    "within steps": lambda f, order, x, s: iv.scan(lambda c, y: (c, order(f)(y, s)), 0.0, iv.stack([x]))[1],
    "mapped": lambda f, order, x, s: iv.vmap(order(f))(iv.stack([x, -x]), iv.stack([s, s + 1])),
    "of mapped": lambda f, order, x, s: order(lambda x, s: iv.vmap(f)(x, s).sum())(
        iv.stack([x, -x]), iv.stack([s, s + 1])
    ),
    "compiled, mapped": lambda f, order, x, s: iv.jit(iv.vmap(order(f)))(
        iv.stack([x, -x]), iv.stack([s, s + 1])
    ),
}


def entries(tree):
    return [y.to_dense().numpy() for y in (tree if isinstance(tree, tuple) else (tree,))]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", [first, second])
@pytest.mark.parametrize("f", [in_forward, in_backward, in_setup])
def test_methods_that_close_over_values_of_a_level(f, order, way):
    x, s = iv.asarray(X), iv.asarray(2.0)
    found = entries(WAYS[way](f, order, x, s))
    expected = entries(order(f)(x, s))
    if "mapped" in way:
        others = entries(order(f)(-x, s + 1))
        expected = [np.stack([a, b]) for a, b in zip(expected, others, strict=True)]
    if way == "within steps":
        expected = [a[None] for a in expected]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_a_function_of_a_carry_and_of_slices():
    """The rule of a Function in a loop reads the carry around it; a loop in Python is the oracle."""

    def steps(x):
        return iv.scan(lambda c, y: (c + in_forward(y, c) + in_backward(y, c), None), iv.asarray(1.0), x)[0]

    def unrolled(x):
        c = iv.asarray(1.0)
        for y in x:
            c = c + in_forward(y, c) + in_backward(y, c)
        return c

    for f in (iv.grad(steps), iv.jit(iv.grad(steps)), iv.grad(iv.jit(steps))):
        np.testing.assert_allclose(
            f(iv.asarray(X)).numpy(), iv.grad(unrolled)(iv.asarray(X)).numpy(), rtol=1e-13
        )


def test_a_value_around_is_an_argument_of_one_call():
    """Of the graph: what is read around is an operand of the equation, and nothing is traced again."""
    compiled = iv.jit(in_forward)
    graph = compiled.graph(iv.asarray(X), iv.asarray(2.0))
    (call,) = [e for e in graph.equations if e.op.name == "function"]
    assert len(call.params["call"].handles) == 2
    for s in (2.0, -3.0):
        assert compiled(iv.asarray(X), iv.asarray(s)).item() == pytest.approx(s * X.sum())
    assert compiled.cache_size == 1


@pytest.mark.parametrize("f", [in_forward, in_backward, in_setup, in_a_hook, in_a_holder])
def test_what_rules_and_hooks_read_is_differentiated_where_nothing_else_leads_to_it(f):
    """Their results are products of s, or of its square, and of what does not depend on it."""
    x, s = iv.asarray(X), iv.asarray(2.0)
    slope = iv.grad(f)(x, s).numpy()
    power = 2 if f is in_a_holder else 1
    expected = 2 * power * (slope**2).sum() / 2.0
    eager, compiled = mixed(f)(s, x), iv.jit(mixed(f))(s, x)
    rows = iv.grad(lambda s: (iv.jacobian(lambda x: f(x, s))(x) ** 2).sum())(s)
    leaf = iv.tensor(2.0, requires_grad=True)
    (iv.grad(lambda x: f(x, leaf))(x) ** 2).sum().backward()
    for found in (eager, compiled, rows, leaf.grad):
        np.testing.assert_allclose(found.to_dense().numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("f", [in_backward, in_a_holder])
def test_what_a_tangent_rule_reads_is_differentiated(f):
    """As above, in forward mode: s times what does not depend on it, or its square."""
    x, t, s = iv.asarray(X), iv.asarray(X + 1), iv.asarray(2.0)

    def tangent(s):
        return iv.jvp(lambda x: f(x, s), (x,), (t,))[1]

    power = 2 if f is in_a_holder else 1
    np.testing.assert_allclose(iv.grad(tangent)(s).numpy(), power * tangent(s).numpy() / 2.0, rtol=1e-13)


def test_what_reads_nothing_from_around_is_carried_out_once_and_leaves_no_graph():
    calls = []

    class Counted(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g * iv.asarray(2.0)

    assert not iv.grad(lambda x: Counted.apply(x).sum())(iv.asarray(X)).requires_grad
    assert len(calls) == 1


def as_a_number(ctx, s):
    ctx.k = (s * 2).item()


@pytest.mark.parametrize(
    "keep",
    [
        lambda ctx, s: setattr(ctx, "k", s * 2),
        lambda ctx, s: setattr(ctx, "k", s.detach()),
        as_a_number,
        lambda ctx, s: setattr(ctx, "k", [iv.exp(s)]),
        lambda ctx, s: setattr(ctx, "k", FromAHolder.apply(s)),
    ],
)
def test_what_forward_computed_from_around_it_raises(keep):
    """It is no constant: a derivative through it names the remedy, and of the argument it is as before."""

    def f(x, s):
        class Kept(Function):
            @staticmethod
            def forward(ctx, x):
                keep(ctx, s)
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * (ctx.k[0] if isinstance(ctx.k, list) else ctx.k)

        return (Kept.apply(x) * x).sum()

    x, s = iv.asarray(X), iv.asarray(2.0)
    Holder.s = s
    compiled = iv.jit if keep is not as_a_number else lambda f: f  # a trace has no numbers
    for run in (
        lambda: mixed(f)(s, x),
        lambda: compiled(mixed(f))(s, x),
        lambda: iv.jvp(lambda s: iv.grad(lambda x: f(x, s))(x), (s,), (s,)),
    ):
        with pytest.raises(iv.errors.GradientError, match="make an argument of a tensor that forward reads"):
            run()
    assert iv.grad(f, argnums=1)(x, s).layout == "zero"
    assert np.isfinite(iv.grad(f)(x, s).numpy()).all()


# --- values of a level around a body ------------------------------------------------------------------


class Wavy(iv.autograd.Function):
    """sin(x) * w, with its own rule."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return iv.sin(x) * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * iv.cos(x) * w, g * iv.sin(x)


class ReadWavy(Wavy):
    """As `Wavy`, by entries: it is carried out example by example."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return iv.asarray(np.sin(x.detach().numpy()) * w.detach().numpy())


BODIES_WITHIN = {
    "jit": lambda body, v: iv.jit(body)(v),
    "checkpoint": lambda body, v: iv.checkpoint(body)(v),
    "cond": lambda body, v: iv.cond(v.sum() > 0, body, lambda v: v, v),
    "scan": lambda body, v: iv.scan(lambda c, _: (body(c), None), v, length=2)[0],
    "vmap": lambda body, v: iv.vmap(body)(iv.stack([v, v * 0.5])).sum(axis=0),
    "grad": lambda body, v: iv.grad(lambda v: body(v).sum())(v),
}


@pytest.mark.parametrize(
    ("within", "around"),
    paired(BODIES_WITHIN, [("vmap", Wavy), ("vmap", ReadWavy), ("jit", Wavy), ("checkpoint", Wavy)], 2),
)
@pytest.mark.filterwarnings("ignore::iverson.errors.BatchWarning")
def test_a_function_of_values_around_a_body(within, around):
    """In a body, of values of a level around that: they are those of ops, and so are their derivatives."""
    around, function = around

    def loss(apply):
        def one(v, w):
            a = iv.tanh(v)  # of the level around
            return BODIES_WITHIN[within](lambda u: apply(apply(a, w), a) * u + u, v)

        if around == "vmap":
            return lambda x, w: (iv.vmap(one, (0, None))(iv.stack([x, x * 0.7]), w) ** 2).sum()
        wrap = iv.jit if around == "jit" else iv.checkpoint
        return lambda x, w: (wrap(one)(x, w) ** 2).sum()

    x, w = iv.asarray([0.3, 0.8]), iv.asarray([0.5, -1.2])
    plain = loss(lambda a, b: iv.sin(a) * b)
    np.testing.assert_allclose(loss(function.apply)(x, w), plain(x, w), rtol=1e-12)
    for found, expected in zip(
        iv.grad(loss(function.apply), (0, 1))(x, w), iv.grad(plain, (0, 1))(x, w), strict=True
    ):
        np.testing.assert_allclose(found.to_dense(), expected.to_dense(), rtol=1e-10)
