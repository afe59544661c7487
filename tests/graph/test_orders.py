"""Products made in the order in which they are read: no copies, and the same entries whoever reads them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import iverson as iv
from iverson.codegen.programs.nodes import Product
from iverson.explain import count
from iverson.graph.interpret import interpret
from iverson.graph.lower import lower
from iverson.graph.orders import in_order_of_reads
from iverson.graph.passes import simplified

RNG = np.random.default_rng(0)
HEADS, WIDTH = 2, 40


def heads(x):
    return iv.moveaxis(iv.reshape(x, (3, 7, HEADS, WIDTH)), (1, 2), (2, 1))


def attention(x, wq, wv):
    v = heads(x @ wv)
    together = iv.moveaxis((heads(x @ wq) @ v.mT) @ v, (1, 2), (2, 1))
    return iv.reshape(together, (3, 7, HEADS * WIDTH)) @ wq


def test_heads_are_put_together_by_their_products():
    x, w = RNG.normal(size=(3, 7, 80)), RNG.normal(size=(80, 80))
    f = iv.jit(iv.grad(lambda x, wq, wv: (attention(x, wq, wv) * x).sum(), (0, 1, 2)))
    args = [iv.asarray(a) for a in (x, w, w.T)]
    (step,) = lower(simplified(f.graph(*args))).steps
    copies = [
        s
        for s in step.compiled.program.steps
        if not isinstance(s, Product) and len(s.kernel.buffers) == 2 and len(s.views[0].shape) == 4
    ]
    assert not copies
    for got, want in zip(
        f(*args), iv.grad(lambda *a: (attention(*a) * a[0]).sum(), (0, 1, 2))(*args), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize("also", [False, True])
def test_every_order_of_axes(also):
    x, y = RNG.normal(size=(2, 3, 4, 5)), RNG.normal(size=(2, 3, 5, 1))
    orders = list(permutations(range(4)))

    def f(x, y):
        found = []
        for axes in orders:
            p = x @ iv.concat([y, y * len(found)], axis=-1)
            found.append(iv.reshape(iv.permute_dims(p, axes), (6, 8)) + 1)
            found += [p.mT @ x, iv.sin(p), p[0]] if also else []
        return found

    want = f(iv.asarray(x), iv.asarray(y))
    jitted = iv.jit(f)
    for a, b in zip(jitted(iv.asarray(x), iv.asarray(y)), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    graph = simplified(jitted.graph(iv.asarray(x), iv.asarray(y)))
    moved = in_order_of_reads(graph)
    assert {e.op.name for e in moved.equations} >= {"matmul_moved", "matmul"}
    for a, b in zip(interpret(moved, [iv.asarray(x), iv.asarray(y)]), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_products_count_as_they_are_written():
    x = iv.asarray(RNG.normal(size=(3, 7, 80)))
    w = iv.asarray(RNG.normal(size=(80, 80)))
    f = iv.jit(attention)
    f(x, w, w)
    with count() as compiled:
        f(x, w, w)
    with count() as eager:
        attention(x, w, w)
    assert compiled.products == eager.products
