"""Products made in the order in which they are read: no copies, and the same entries whoever reads them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import iverson as iv
from iverson.codegen.programs.nodes import Product
from iverson.explain import count
from iverson.graph.ir.interpret import interpret
from iverson.graph.lowering.graph_lowering import lower
from iverson.graph.native.layout_assignment import in_order_of_reads
from iverson.graph.passes import simplified
from tests.conformance.product import some

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
    orders = some("orders", permutations(range(4)), 3 if also else 8)

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
    v = iv.asarray(w, copy=True)  # one tensor given twice is one, and its product is computed once
    f = iv.jit(attention)
    f(x, w, v)
    with count() as compiled:
        f(x, w, v)
    with count() as eager:
        attention(x, w, v)
    assert compiled.products == eager.products


def test_what_is_returned_in_another_order_is_made_in_it():
    x, y = RNG.normal(size=(2, 30, 40)), RNG.normal(size=(40, 30, 2))

    def f(x, y):
        z = iv.sin(x) * 2 + iv.permute_dims(y, (2, 1, 0))
        return iv.permute_dims(z, (2, 1, 0)), iv.permute_dims(iv.exp(x), (1, 2, 0))

    def read_twice(x, y):
        z = iv.sin(x) * 2
        return (
            iv.permute_dims(z, (2, 1, 0)),
            z + 1,
            iv.permute_dims(z, (1, 0, 2)) * iv.permute_dims(x, (1, 0, 2)),
        )

    for function in (f, read_twice):
        args = iv.asarray(x), iv.asarray(y)
        jitted = iv.jit(function)
        for got, want in zip(jitted(*args), function(*args), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    (step,) = lower(simplified(iv.jit(f).graph(*args))).steps
    assert not step.compiled.program.of("temp")


def test_hessians_are_made_where_they_are_returned():
    a = iv.asarray(RNG.normal(size=(40, 40)))
    f = iv.jit(iv.hessian(lambda x: iv.log(iv.cosh(a @ x)).sum() + (x**4).sum()))
    x = iv.asarray(RNG.normal(size=40))
    np.testing.assert_allclose(f(x), f(x).T, rtol=1e-9, atol=1e-12)
    (step,) = lower(simplified(f.graph(x))).steps
    (out,) = step.compiled.program.of("out")
    assert any(s.out.buffer is out for s in step.compiled.program.steps if isinstance(s, Product))
