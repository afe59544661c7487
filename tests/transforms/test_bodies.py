"""Bodies of loops, branches, batches and checkpoints treat what they close over and draw as Python does.

Every construct, and every two nested, is a row of one table: it runs a body of one tensor so many times, each
on the result of the one before. The oracle is that loop in NumPy.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import iverson as iv
from tests.conformance.product import EXHAUSTIVE

V, X = np.array([5.0, 7.0]), np.array([2.0, 3.0])
YES, NO = iv.asarray(True), iv.asarray(False)


def repeat(body, v):
    return iv.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, body(c[1])), (iv.asarray(0), v))[1]


#: By name, a construct around a body, and how often the body runs.
CONSTRUCTS = {
    "jit": (iv.jit, 1),
    "vmap": (lambda body: lambda v: iv.vmap(lambda u: body(v) + u)(iv.zeros(2))[1], 1),
    "checkpoint": (iv.checkpoint, 1),
    "scan": (lambda body: lambda v: iv.scan(lambda c, _: (body(c), None), v, length=2)[0], 2),
    "scan in blocks": (
        lambda body: lambda v: iv.scan(lambda c, _: (body(c), None), v, length=3, checkpoint=2)[0],
        3,
    ),
    "fori_loop": (lambda body: lambda v: iv.fori_loop(0, 2, lambda _, c: body(c), v), 2),
    "while_loop": (lambda body: lambda v: repeat(body, v), 2),
    "cond taken": (lambda body: lambda v: iv.cond(YES, body, lambda v: v, v), 1),
    "cond not taken": (lambda body: lambda v: iv.cond(NO, body, lambda v: v, v), 0),
}
PAIRS = [(a,) for a in CONSTRUCTS] + list(itertools.product(CONSTRUCTS, repeat=2))


def some(names, turn):
    """Every nest where all are asked for; else each construct alone, and a third of the pairs."""
    return EXHAUSTIVE or len(names) == 1 or sum(map(list(CONSTRUCTS).index, names)) % 3 == turn


def around(names, body):
    """The constructs of these names around a body, and how often it runs."""
    times = 1
    for name in reversed(names):
        construct, count = CONSTRUCTS[name]
        body, times = construct(body), times * count
    return body, times


def entries(x):
    return x.detach().to_dense().numpy()


class Product(iv.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


CLOSED = {"function": Product.apply, "op": lambda w, v: w * v}


@pytest.mark.parametrize("kind", CLOSED)
@pytest.mark.parametrize("names", [p for p in PAIRS if some(p, 0)], ids="/".join)
def test_closed_over(names, kind):
    """Values and gradients in a tracked tensor that a body closes over, before and after it is written."""
    w, v = iv.asarray(X, requires_grad=True), iv.asarray(V)
    f, times = around(names, lambda v: CLOSED[kind](w, v))
    for now in (X, np.array([-1.5, 3.0])):
        with iv.autograd.no_grad():
            w[0] = now[0]
        y = f(v)
        np.testing.assert_allclose(entries(y), now**times * V)
        own = times * now ** max(times - 1, 0) * V
        if "while_loop" not in names:
            if times:
                np.testing.assert_allclose(entries(iv.autograd.grad(y.sum(), w)), own)
            found = iv.jit(iv.grad(lambda v: f(v).sum()))(v)
            np.testing.assert_allclose(entries(found), now**times)
        np.testing.assert_allclose(entries(iv.jvp(f, (v,), (v,))[1]), now**times * V)


@pytest.mark.parametrize("names", [p for p in PAIRS if some(p, 1)], ids="/".join)
def test_draws(names):
    """Draws of a body differ from example to example, unless their generator is made in each."""
    rng = iv.random.default_rng(0)
    f, times = around(names, lambda v: v + rng.normal())
    if names in (("checkpoint", "while_loop"), ("scan in blocks", "while_loop")):
        with pytest.raises(iv.errors.GraphError, match="draws inside of a while_loop that is to run again"):
            iv.vmap(f)(iv.zeros(4))
        return
    for way in (iv.vmap(f), iv.jit(iv.vmap(f)), lambda x: iv.vmap(iv.vmap(f))(x.reshape((2, 2)))):
        assert len(set(way(iv.zeros(4)).numpy().ravel().tolist())) == (4 if times else 1)

    def same(x):
        own = iv.random.default_rng(0)
        return around(names, lambda v: v + own.normal())[0](x)

    assert len(set(iv.vmap(same)(iv.zeros(4)).numpy().tolist())) == 1
