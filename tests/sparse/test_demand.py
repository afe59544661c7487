"""Where only a pattern is demanded, only that pattern is computed: no temporary of the dense size, ever."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import explain
from iverson.autograd import grad
from iverson.kernels.sparse import sparse_loops
from iverson.ops.linear_algebra import product_ops
from tests.conformance.product import paired
from tests.sparse.common import LAYOUTS, checked, held, holds

N, STORED, WIDTH = 4000, 12_000, 4
DENSE = N * N * 8


def problem(seed: int = 0) -> tuple[Any, Any, Any]:
    """Indices, values and a dense operand, all small beside N x N."""
    rng = np.random.default_rng(seed)
    v = iv.asarray(rng.standard_normal(STORED), requires_grad=True)
    b = iv.asarray(rng.standard_normal((N, WIDTH)), requires_grad=True)
    return rng.integers(0, N, (2, STORED)), v, b


def matrix(indices: Any, v: Any, layout: str) -> Any:
    s = iv.sparse_coo_tensor(indices, v, (N, N))
    return s.to_layout(layout, blocksize=(1, 2) if layout[0] == "b" else None)


PATHS = {
    "product": lambda s, b: s @ b,
    "transposed": lambda s, b: s.mT @ b,
    "dense first": lambda s, b: b.mT @ s,
    "function of it": lambda s, b: (2.0 * s).tanh() @ b,
    "two factors": lambda s, b: s @ (s @ b),
    "scaled rows": lambda s, b: (s * b[:, :1]) @ b,
    "masked product": lambda s, b: iv.sparse_mask(iv.sampled_matmul(b, b.mT, s), s) * s,
    "sum of squares": lambda s, b: (s * s).sum(axis=0) * b[:, 0],
    "some rows": lambda s, b: s[::2] @ b,
    "chosen columns": lambda s, b: iv.take(s, np.arange(len(b) - 2, -1, -2), axis=1) @ b[1::2],
    "halves changed": lambda s, b: iv.concat([s[len(b) // 2 :], iv.flip(s[: len(b) // 2], axis=0)]) @ b,
    "band": lambda s, b: s.tril().triu(k=-9)[None] @ b,
    "triangles": lambda s, b: ((s @ s) * s).sum(axis=1) * b[:, 0],
    "square": lambda s, b: (s @ s) @ b,
    "batch of scaled columns": lambda s, b: (s[None] * b.mT[:, None]).sum(axis=0) @ b,
    "kron": lambda s, b: iv.kron(s, b[:2, :2]) @ iv.concat([b, b]),
    "kron of two sparse": lambda s, b: iv.kron(s, s[:2, :2]) @ iv.concat([b, b]),
    "kron read elsewhere too": lambda s, b: iv.kron(s, b[:2, :2]).sum(axis=0) @ iv.concat([b, b]) + b[0],
    "column by columns": lambda s, b: (s[:, :1] * s) @ b,
    "two squares": lambda s, b: b.mT @ (s.mT @ s) @ (s @ (s @ b)),
}
#: Paths that read a pattern, said without one.
AS_DENSE = {"masked product": lambda s, b: (b @ b.mT) * s}
#: Paths of the size of the pattern because tracked factors are zero elsewhere now. In a recorded pass that is
#: not counted on: a factor may be differentiated later where it is zero.
AS_IT_IS_NOW = ("scaled rows", "batch of scaled columns", "column by columns")


@pytest.mark.parametrize(("name", "layout"), paired(PATHS, LAYOUTS))
def test_peak_memory_to_second_order(name, layout):
    indices, v, b = problem()
    s = matrix(indices, v, layout)
    tracemalloc.start()
    with explain.count() as work:
        y = PATHS[name](s, b)
        gv, gb = grad((y * y).sum(), (v, b), create_graph=name not in AS_IT_IS_NOW)
        if name not in AS_IT_IS_NOW:
            grad((gv * gv).sum() + (gb * gb).sum(), (v, b))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < DENSE / 3
    assert max(work.bytes.values()) < DENSE / 6


@pytest.mark.parametrize(("name", "layout"), paired(PATHS, LAYOUTS, 2))
def test_the_same_as_dense(name, layout, monkeypatch):
    monkeypatch.setattr(product_ops, "SMALL", 0)
    rng = np.random.default_rng(3)
    s = held(holds((6, 6)), layout)
    v = s.values().requires_grad_()
    pattern = s._value.pattern
    b = iv.asarray(rng.standard_normal((6, 2)), requires_grad=True)

    def results(path: Any, convert: Any) -> list[Any]:
        y = path(convert(iv.ops.F.from_values(v, pattern=pattern)), b)
        gv, gb = grad((y * y).sum(), (v, b), create_graph=True)
        return [y, gv, gb, *grad((gv * gv).sum() + (gb * gb).sum(), (v, b))]

    expected = results(AS_DENSE.get(name, PATHS[name]), lambda s: s.to_dense())
    for found, wanted in zip(results(PATHS[name], lambda s: s), expected, strict=True):
        np.testing.assert_allclose(checked(found.detach()), checked(wanted.detach()), rtol=1e-10, atol=1e-10)


#: Functions that read some of S @ b.
READ_IN_PART = {
    "a row": lambda y: y[1].sum(),
    "rows": lambda y: (y[2:4] ** 2).sum(),
    "an entry": lambda y: y[3, 0],
    "every other row": lambda y: (y[1::2] ** 2).sum(),
    "rows by index": lambda y: (iv.take(y, np.array([1, 3, 1]), axis=0) ** 2).sum(),
    "a row of its exponential": lambda y: iv.exp(y)[1].sum(),
}


@pytest.mark.parametrize(("name", "layout"), paired(READ_IN_PART, LAYOUTS, 2))
def test_a_product_read_in_part_is_differentiated_there_alone(layout, name, monkeypatch):
    """Support and demand are intersected: of the cotangent of S, what the rows read reach of its pattern."""
    counts: list[int] = []

    def spied(F: Any, pattern: Any, *rest: Any) -> Any:
        counts.append(pattern.count)
        return product_at(F, pattern, *rest)

    product_at = product_ops.product_at
    monkeypatch.setattr(product_ops, "product_at", spied)
    rng = np.random.default_rng(5)
    s = held(rng.standard_normal((6, 6)), layout)
    v, pattern = s.values().requires_grad_(), s._value.pattern
    b = iv.asarray(rng.standard_normal((6, 2)), requires_grad=True)
    x = iv.ops.F.from_values(v, pattern=pattern)
    dense = s.to_dense().detach().requires_grad_()
    whole = checked(grad(READ_IN_PART[name](dense @ b), dense))
    y = READ_IN_PART[name](x @ b)
    found = grad(y, v)
    entries = whole[tuple(pattern.coordinates)].reshape(pattern.stored_shape)
    np.testing.assert_allclose(checked(found), entries, rtol=1e-12)
    rows = np.flatnonzero(whole.any(axis=1))
    height = pattern.blocksize[0] if pattern.blocksize else 1
    lines = rows[-1] // height - rows[0] // height + 1
    assert counts == [6 * height * lines]


#: Arrays of which the first of two lies in rows 2 and 3 of six, or in a column of them.
BESIDE = {
    "padded": lambda y, c: iv.pad(y, ((2, 2), (0, 0))),
    "joined": lambda y, c: iv.concat([c[:2], y, c[2:]]),
    "a column": lambda y, c: iv.pad(y[:, :1], ((2, 2), (0, 0))),
    "a block": lambda y, c: iv.pad(y[:, 1:3], ((2, 2), (1, 3))),
}


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize(("name", "way"), paired(BESIDE, ["eager", "interpreted", "compiled"]))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_box_beside_a_sparse_factor_is_differentiated_where_they_meet(layout, name, way, is_stored):
    """What is computed of a cotangent is what the factor stores in the box, which may be nothing."""
    rng = np.random.default_rng(6)
    entries = rng.standard_normal((6, 6)) * (rng.random((6, 6)) < 0.7)
    if not is_stored:
        entries[2:4] = 0
    s, y, c = held(entries, layout), rng.standard_normal((2, 6)), rng.standard_normal((4, 6))

    def gradient(s: Any) -> Any:
        return iv.grad(lambda y: iv.sin(BESIDE[name](y, c) * s).sum())

    expected = checked(gradient(entries)(y))
    f = gradient(s)
    if way != "eager":
        f = iv.jit(f, interpret=way == "interpreted")
    with explain.count() as work:
        found = f(iv.asarray(y))
    np.testing.assert_allclose(checked(found), expected, rtol=1e-12, atol=1e-14)
    pattern = s._value.pattern
    blocks, stored = pattern.blocksize or (1, 1), np.zeros((6, 6), bool)
    stored[tuple(pattern.coordinates)] = True
    columns = slice(1, 3) if name == "a block" else slice(None)
    box = np.zeros((6, 6), bool)
    box[2:4, columns] = True
    whole = (6 // blocks[0], blocks[0], 6 // blocks[1], blocks[1])
    met = box.reshape(whole).any(axis=(1, 3), keepdims=True) & stored.reshape(whole)
    assert work.entries["cos"] == met.sum()


#: What else may read the cotangent of a product P = S @ S beside another product.
READERS = {
    "a product": lambda p, b: p @ b,
    "products on both sides": lambda p, b: (p @ b, b.mT @ p, p @ p @ b),
    "turned": lambda p, b: (p.mT @ b, b.mT @ p.mT),
    "entries too": lambda p, b: (p @ b, p * p, p.sum(axis=0)),
    "entries alone": lambda p, b: (p * p * p, p.to_dense()),
    "scaled": lambda p, b: (2.0 * p) @ b,
    "rows": lambda p, b: (p[:3] @ b, p @ b),
    "of another dtype": lambda p, b: (p @ (b * (1 + 2j)), p @ b),
}


@pytest.mark.parametrize(("name", "dtype"), paired(READERS, ["float64", "complex128"]))
@pytest.mark.parametrize("recorded", [False, True])
def test_whoever_reads_the_cotangent_of_a_product(name, recorded, dtype, monkeypatch):
    """Gradients to second order, of the values and of the product itself, and what a hook on it is given."""
    monkeypatch.setattr(product_ops, "SMALL", 0)
    rng = np.random.default_rng(3)
    s = held(holds((6, 6), dtype=dtype), "csr")
    v, pattern = s.values().requires_grad_(), s._value.pattern
    b = iv.asarray(rng.standard_normal((6, 2)).astype(dtype), requires_grad=True)

    def results(convert: Any) -> list[Any]:
        seen: list[Any] = []
        x = convert(iv.ops.F.from_values(v, pattern=pattern))
        p = x @ x
        p.register_hook(lambda g: seen.append(g.detach()))
        out = READERS[name](p, b)
        terms = [
            (y * iv.conj(y)).real if y.dtype.kind == "c" else y * y
            for y in (out if isinstance(out, tuple) else (out,))
        ]
        total = sum(y.sum() for y in terms)
        first = grad(total, (v, b), create_graph=recorded)
        whole = grad(total, (v, p), create_graph=recorded)
        where = np.zeros((6, 6), bool) | (checked(p.detach()) != 0)
        entries = [np.where(where, checked(g), 0) for g in seen]
        more = grad(sum(iv.real(g * iv.conj(g)).sum() for g in first), (v, b, x)) if recorded else ()
        return [*(checked(g.detach()) for g in (*first, *whole, *more)), *entries]

    for found, wanted in zip(results(lambda s: s), results(lambda s: s.to_dense()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_cotangent_that_only_products_read_is_not_multiplied_out():
    indices, v, b = problem()
    s = matrix(indices, v, "csr")
    y = ((s @ s) @ b).sum()
    with explain.count() as work:
        grad(y, v)
    # G B^T is never formed: G (S B)^T and (S^T G) B^T are sampled at the pattern of S.
    assert work.calls["sampled_product"] == 2
    assert work.calls["matmul"] == 2
    assert max(work.bytes.values()) <= 8 * N * WIDTH * 2


def test_the_backward_of_a_product_is_sampled():
    indices, v, b = problem()
    s = matrix(indices, v, "csr")
    with explain.count() as work:
        grad((s @ b).sum(), v)
    assert work.calls["sampled_product"] == 1
    assert work.products == 0


def test_needs_are_of_the_call():
    """The same graph gives the pattern's part to the values and all of it to an intermediate result."""
    indices, v, b = problem()
    s = iv.sparse_coo_tensor(indices[:, :5], v[:5], (N, N))
    small = s[:40, :50]
    y = (small @ b[:50]).sum()
    assert grad(y, small).layout == "strided"
    assert grad(y, v).shape == (STORED,)


def test_compiled_loops_agree_with_scipy(monkeypatch):
    indices, v, b = problem()
    s = matrix(indices, v, "csr").detach()
    slow = checked(s @ b.detach()), checked(iv.sampled_matmul(b.detach(), b.detach().mT, s).values())
    monkeypatch.setattr(sparse_loops, "WORTHWHILE", 0)
    for layout in LAYOUTS:
        t = s.to_layout(layout, blocksize=(1, 2) if layout[0] == "b" else None)
        fast = t @ b.detach(), iv.sampled_matmul(b.detach(), b.detach().mT, t).to_dense()
        np.testing.assert_allclose(checked(fast[0]), slow[0], rtol=1e-12, atol=1e-12)
        at = tuple(s._value.pattern.coordinates)
        np.testing.assert_allclose(checked(fast[1])[at], slow[1], rtol=1e-12, atol=1e-12)
