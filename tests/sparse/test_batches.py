"""Batches of compressed matrices, and matrices of dense slices: the layout law, both semantics, constructors,
demand."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg  # noqa: F401  (imported before memory is counted)
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson.autograd import grad
from iverson.testing import gradcheck, gradgradcheck
from iverson.transforms import jvp
from tests.conformance.product import paired, some
from tests.sparse.common import LAYOUTS, blocks_for, checked, held, holds, weighted

COMPRESSED = LAYOUTS[1:]
#: With a dense trailing axis: the batch is one matrix of vectors.
HYBRID = tuple(f"hybrid {layout}" for layout in LAYOUTS)
SHAPE = (3, 4, 6)


def batch_of(
    shape: tuple[int, ...] = SHAPE, seed: int = 0, dtype: Any = "float64", density: float = 0.4
) -> Any:
    """Matrices that store different numbers of entries, one of them none."""
    flat = holds((int(np.prod(shape[:-1])), shape[-1]), density, seed, dtype).reshape(shape)
    if flat.ndim > 2 and flat.shape[0] > 1:
        flat[1] = 0
    return flat


def in_layout(x: Any, layout: str, requires_grad: bool = False) -> Any:
    hybrid, name = layout.startswith("hybrid"), layout.rsplit(maxsplit=1)[-1]
    extents = x.shape[: x.ndim - hybrid][-2:]
    made = iv.asarray(x).to_layout(name, blocksize=blocks_for(name, extents), dense_dim=int(hybrid))
    return made.requires_grad_() if requires_grad else made


X = batch_of()
D = np.random.default_rng(7).standard_normal((4, 6)) + 0.1
RIGHT = np.random.default_rng(8).standard_normal((3, 6, 2))


def other(layout: str = "csc") -> Any:
    return in_layout(batch_of(seed=3), layout)


def regular(x: Any) -> Any:
    """Matrices far from singular, as sparse as x."""
    return x[..., :4] + iv.asarray(5 * np.eye(4)).to_layout("csr")


#: Functions of a batch that must not make it dense.
SPARSE = {
    "sin": lambda x: x.sin(),
    "square": lambda x: x * x,
    "scaled": lambda x: -2.0 * x / 3.0,
    "times dense": lambda x: x * D,
    "times column": lambda x: x * np.arange(1.0, 5.0)[:, None],
    "times matrix": lambda x: x * held(D, "csr"),
    "plus": lambda x: x + other(),
    "minus one matrix": lambda x: x - in_layout(X[0], "csr"),
    "transpose": lambda x: x.mT,
    "turned": lambda x: iv.permute_dims(x, (1, 0, 2)),
    "turned back": lambda x: iv.permute_dims(x, (2, 0, 1)),
    "reshape": lambda x: x.reshape(12, 6),
    "split batch": lambda x: x.reshape(3, 1, 4, 6),
    "flat": lambda x: x.reshape(-1),
    "one": lambda x: x[2],
    "some": lambda x: x[::2],
    "rows": lambda x: x[:, 1:3],
    "columns": lambda x: x[..., ::-2],
    "row": lambda x: x[:, 2],
    "new axis": lambda x: x[:, None],
    "new axis at the end": lambda x: x[..., None],
    "chosen": lambda x: x[np.array([2, 0, 2])],
    "points": lambda x: x[np.array([0, 2]), np.array([1, 0]), np.array([3, 3])],
    "concat": lambda x: iv.concat([x, other()], axis=0),
    "wider": lambda x: iv.concat([x, other("coo")], axis=2),
    "stack": lambda x: iv.stack([x, x * 2.0]),
    "flip": lambda x: iv.flip(x, axis=1),
    "roll": lambda x: iv.roll(x, 2, axis=2),
    "tril": lambda x: x.tril(),
    "diagonal": iv.linalg.diagonal,
    "broadcast": lambda x: iv.broadcast_to(x, (2, 3, 4, 6)),
    "sum": lambda x: x.sum(),
    "row sums": lambda x: x.sum(axis=2),
    "column sums": lambda x: x.sum(axis=1, keepdims=True),
    "matrix sums": lambda x: x.sum(axis=(1, 2)),
    "over the batch": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(axis=(0, 2)),
    "at batch": lambda x: x @ RIGHT,
    "at one": lambda x: x @ RIGHT[0],
    "at one of a batch": lambda x: x @ RIGHT[:1],
    "at more": lambda x: x @ np.stack([RIGHT, RIGHT * 2.0]),
    "at vector": lambda x: x @ np.arange(6.0),
    "batch at": lambda x: iv.matrix_transpose(iv.asarray(D)) @ x,
    "each at each": lambda x: np.swapaxes(x.to_dense().detach().numpy(), -1, -2) @ x,
    "at sparse": lambda x: x @ other().mT,
    "at one sparse": lambda x: x @ held(D, "csc").mT,
    "one sparse at": lambda x: held(D, "bsr").mT @ x,
    "gram": lambda x: x.mT @ x,
    "split at batch": lambda x: x[:, None] @ np.stack([RIGHT[0], RIGHT[1]]),
    "solve": lambda x: iv.linalg.solve(regular(x), RIGHT[:, :4]),
    "solve for one": lambda x: iv.linalg.solve(regular(x), RIGHT[0, :4]),
    "one solves": lambda x: iv.linalg.solve(regular(x)[0], RIGHT[:, :4]),
    "dense": lambda x: x.to_dense(),
    "to csc": lambda x: x.to_layout("csc"),
    "to bsr": lambda x: x.to_layout("bsr", blocksize=(1, 2)),
    "masked": lambda x: iv.sparse_mask(x, other()),
    "sampled": lambda x: iv.sampled_matmul(x, x.mT, in_layout(np.stack([np.eye(4)] * 3), "csr")),
    "sampled with one": lambda x: iv.sampled_matmul(x, D.T, in_layout(np.stack([np.eye(4)] * 3), "bsc")),
    "astype": lambda x: x.astype("complex128"),
}


@pytest.mark.parametrize(("name", "layout"), paired(SPARSE, [*LAYOUTS, *HYBRID], 4))
def test_values_without_densifying(name, layout):
    found = SPARSE[name](in_layout(X, layout))
    np.testing.assert_allclose(checked(found), checked(SPARSE[name](iv.asarray(X))), rtol=1e-12, atol=1e-12)


densifies = pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")


@densifies
@pytest.mark.parametrize(("name", "layout"), paired(SPARSE, [*COMPRESSED, *HYBRID], 3))
def test_gradients_to_second_order_and_tangents(name, layout):
    f, found, expected = SPARSE[name], [], []
    direction = batch_of(seed=9, density=1.0)
    for leaf, results in ((in_layout(X, layout, True), found), (iv.asarray(X, requires_grad=True), expected)):
        (g,) = grad(weighted(f, leaf, 1), (leaf,), create_graph=True)
        results.append(g)
        results.append(grad((g * D).sum() + (g * g).sum(), leaf))
        results.append(jvp(f, (leaf.detach(),), (iv.asarray(direction),))[1])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(checked(a.detach()), checked(b.detach()), rtol=1e-10, atol=1e-10)


SHAPES = st.sampled_from([(1, 1, 1), (2, 2, 3), (0, 2, 3), (3, 0, 2), (2, 3, 0), (2, 1, 4, 2)])


@densifies
@given(
    shape=SHAPES,
    layouts=st.tuples(
        st.sampled_from([*COMPRESSED, *HYBRID]), st.sampled_from([*LAYOUTS, *HYBRID, "strided"])
    ),
    density=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from(["float64", "complex128", "float32"]),
    name=st.sampled_from(["add", "multiply", "matmul", "rmatmul", "one", "outer", "sampled"]),
)
def test_two_operands_in_any_layouts(shape, layouts, density, seed, dtype, name):
    """Empty matrices, size 0 and broadcast batches included; gradients of both."""
    f = {
        "add": lambda a, b: a + b * a,
        "multiply": lambda a, b: a * b,
        "matmul": lambda a, b: a @ b.mT,
        "rmatmul": lambda a, b: b.mT @ a,
        "one": lambda a, b: a @ b.sum(axis=0).mT,
        "outer": lambda a, b: iv.expand_dims(a, axis=1) @ iv.expand_dims(b.mT, axis=0),
        "sampled": lambda a, b: iv.sampled_matmul(a, b.mT, iv.asarray(eyes).to_layout("csr")),
    }[name]
    eyes = np.zeros((*shape[:-1], shape[-2])) + np.eye(shape[-2])
    x, z = batch_of(shape, seed, dtype, density), batch_of(shape, seed + 1, dtype, 0.5)
    a, b = (
        in_layout(v, layout, True) if layout != "strided" else iv.asarray(v, requires_grad=True)
        for v, layout in zip((x, z), layouts, strict=True)
    )
    p, q = iv.asarray(x, requires_grad=True), iv.asarray(z, requires_grad=True)
    found, expected = f(a, b), f(p, q)
    tolerance = 1e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(checked(found.detach()), checked(expected.detach()), tolerance, tolerance)
    seeds = iv.ones(expected.shape, dtype=expected.dtype)
    for s, d in zip(grad(found, (a, b), seeds), grad(expected, (p, q), seeds), strict=True):
        np.testing.assert_allclose(checked(s), checked(d), tolerance, tolerance)


@pytest.mark.parametrize("layout", COMPRESSED)
def test_results_keep_the_layout_and_the_pattern(layout):
    s = in_layout(X, layout)
    assert (s * 2.0)._value.pattern is s._value.pattern
    assert s.mT.mT._value.pattern is s._value.pattern
    assert s.mT.layout == {"csr": "csc", "csc": "csr", "bsr": "bsc", "bsc": "bsr"}[layout]
    square = held(np.eye(6), "csr")
    for found in (s[1:], s + s * other(), s @ square, iv.stack([s, s]), s[0], s.sum(axis=0)):
        assert found.layout == layout
    assert s.sum(axis=2).layout == "strided"
    assert s[..., None]._value.pattern is s._value.pattern  # a dense axis
    # No more starts of lines than there were: what has one entry in each line is in COO.
    assert s.reshape((-1, 1) if s._value.pattern.axis == 0 else (1, -1)).layout == "coo"


@pytest.mark.parametrize("layout", HYBRID)
def test_slices_keep_their_pattern_and_layout(layout):
    """What reads or changes dense axes alone moves nothing; what is not stored annihilates whole slices."""
    s = in_layout(X, layout)
    name, pattern = layout.removeprefix("hybrid "), s._value.pattern
    assert (s.layout, s.sparse_dim(), s.dense_dim(), s.nnz) == (name, 2, 1, pattern.count)
    for found in (s * 2.0, s * s, s @ RIGHT[0], s[..., 1], s[..., None], s.sum(axis=2), iv.flip(s, axis=2)):
        assert found._value.pattern is pattern
    for found in (
        s[1:],
        s[:, 1:],
        s[np.array([2, 0])],
        iv.concat([s, s + s], axis=1),
        s + in_layout(2 * X, layout),
    ):
        assert (found.layout, found.sparse_dim()) == (name if name[0] != "b" else found.layout, 2)
    assert s.to_layout("csr").dense_dim() == 1
    assert s.to_layout("csr", dense_dim=0).dense_dim() == 0
    assert iv.asarray(X).to_layout("coo", dense_dim=2).values().shape == (2, 4, 6)
    with pytest.raises(iv.errors.ArgumentError, match="dense_dim"):
        s.to_layout("strided", dense_dim=1)
    with pytest.raises(iv.errors.ShapeError, match="dense axes"):
        s.to_layout("csr", dense_dim=2)
    bad = np.where(checked(s.with_values(iv.ones(s.values().shape))), 1.0, np.inf)
    np.testing.assert_array_equal(checked(s * bad), X)
    with pytest.raises(iv.errors.ShapeError, match="to_scipy"):
        s.to_scipy()


@pytest.mark.parametrize("layout", COMPRESSED)
def test_pickle_repr_values_and_back(layout):
    s = in_layout(X, layout, requires_grad=True)
    again = pickle.loads(pickle.dumps(s))
    np.testing.assert_array_equal(checked(again), X)
    assert again.layout == layout
    assert f"layout='{layout}'" in repr(s)
    make = getattr(iv, f"sparse_{layout}_tensor")
    v = s.values().detach().requires_grad_()
    made = make(s.indptr(), s.indices(), v, s.shape)
    np.testing.assert_array_equal(checked(made.detach()), X)
    np.testing.assert_allclose(checked(grad((made * made).sum(), v)), 2 * v.detach().numpy())
    doubled = iv.with_values(s, v * 2.0)
    assert doubled._value.pattern is s._value.pattern
    np.testing.assert_array_equal(checked(doubled.detach()), 2 * X)


def dense_batch(starts: Any, inner: Any, values: Any, shape: Any, axis: int) -> Any:
    out = np.zeros(shape)
    for k in np.ndindex(shape[:-2]):
        for line, (a, b) in enumerate(zip(starts[k][:-1], starts[k][1:], strict=True)):
            for p in range(a, b):
                out[(*k, line, inner[k][p]) if axis == 0 else (*k, inner[k][p], line)] = values[k][p]
    return out


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_one_list_of_entries_for_each_matrix(layout, index):
    """The form of PyTorch: as many entries for each matrix, with the axes of the batch first."""
    starts = np.array([[[0, 1, 3], [0, 0, 3]], [[0, 3, 3], [0, 2, 3]]], index)
    inner = np.array([[[3, 0, 2], [0, 1, 3]], [[1, 2, 3], [0, 1, 2]]], index)
    values = np.arange(1.0, 13).reshape(2, 2, 3)
    v = iv.asarray(values, requires_grad=True)
    s = getattr(iv, f"sparse_{layout}_tensor")(starts, inner, v)
    axis = 0 if layout == "csr" else 1
    shape = (2, 2, 2, 4) if axis == 0 else (2, 2, 4, 2)
    expected = dense_batch(starts, inner, values, shape, axis)
    np.testing.assert_array_equal(checked(s.detach()), expected)
    assert s.indices().dtype == np.dtype(index)
    np.testing.assert_array_equal(s.values().detach().numpy().reshape(2, 2, 3), values)
    np.testing.assert_array_equal(grad((s * s).sum(), v).numpy(), 2 * values)
    assert gradcheck(lambda v: getattr(iv, f"sparse_{layout}_tensor")(starts, inner, v) @ s.detach().mT, (v,))


@pytest.mark.parametrize("layout", ["bsr", "bsc"])
def test_one_list_of_blocks_for_each_matrix(layout):
    values = np.arange(1.0, 25).reshape(2, 2, 3, 2)
    s = getattr(iv, f"sparse_{layout}_tensor")([[0, 1, 2], [0, 2, 2]], [[1, 0], [0, 1]], values)
    expected = np.zeros((2, 2, 2, 3, 2))
    for matrix, line, at, block in ((0, 0, 1, 0), (0, 1, 0, 1), (1, 0, 0, 0), (1, 0, 1, 1)):
        expected[(matrix, line, at) if layout == "bsr" else (matrix, at, line)] = values[matrix, block]
    np.testing.assert_array_equal(checked(s), expected.transpose(0, 1, 3, 2, 4).reshape(2, 6, 4))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layout", [*COMPRESSED, *HYBRID])
def test_gradcheck_in_both_semantics(layout, masked):
    x = in_layout(batch_of((2, 2, 3)), layout, True)
    w = np.random.default_rng(2).standard_normal((3, 2))
    functions = (lambda x: x @ w, lambda x: x * x, lambda x: x @ x.mT, lambda x: x.sum(axis=(0, 2)))
    for f, fast in some(f"{layout} {masked}", itertools.product(functions, (False, True)), 3):
        assert gradcheck(f, (x,), masked=masked, fast=fast)
    assert gradgradcheck(lambda x: (x * x) @ w, (x,), masked=masked)


@pytest.mark.parametrize("layout", [*COMPRESSED, *HYBRID])
def test_masked_tensors(layout):
    s = in_layout(X, layout)
    m = iv.masked_tensor(s)
    assert m._mask.pattern is s._value.pattern
    stored = checked(m.get_mask())
    expected = np.ma.MaskedArray(X, ~stored)
    for found, wanted in (
        (m * 2 + 1, expected * 2 + 1),
        (m.mT, expected.swapaxes(1, 2)),
        (m.sum(axis=2), expected.sum(axis=2)),
        (m.sum(axis=0), expected.sum(axis=0)),
        (m @ m.mT, np.ma.MaskedArray(X @ X.swapaxes(1, 2), (stored * 1 @ stored.swapaxes(1, 2)) == 0)),
    ):
        np.testing.assert_array_equal(found.get_mask().to_dense().numpy(), ~np.ma.getmaskarray(wanted))
        np.testing.assert_allclose(found.to_tensor(0).to_dense().numpy(), wanted.filled(0), atol=1e-12)
    assert (m * 2).layout == s.layout


N, EACH, WIDTH = 600, 900, 4
DIAGONAL = iv.sparse_csr_tensor(np.arange(N + 1), np.arange(N), np.full(N, 10.0), (N, N))
DEMAND = {
    "at batch": lambda s, b: s @ b,
    "at one": lambda s, b: s @ b[0],
    "at more": lambda s, b: s[:, None] @ b,
    "one at batch": lambda s, b: s[0] @ b,
    "from the left": lambda s, b: b.mT @ s,
    "twice": lambda s, b: s.mT @ (s @ b),
    "sum": lambda s, b: (s * s).sum(axis=2) * b[..., 0],
    "solve": lambda s, b: iv.linalg.solve(s + DIAGONAL, b),
}


@pytest.mark.parametrize(("name", "layout"), paired(DEMAND, ["csr", "csc", "coo"], 1))
def test_the_backward_is_sampled(name, layout):
    """Values only are demanded: no temporary of the size of the batch."""
    rng = np.random.default_rng(0)
    at = np.concatenate([np.repeat(np.arange(4), EACH)[None], rng.integers(0, N, (2, 4 * EACH))])
    v, b = rng.standard_normal(4 * EACH), rng.standard_normal((4, N, WIDTH))
    assert_the_backward_is_sampled(DEMAND[name], at, v, b, (4, N, N), layout)


OF_SLICES = {
    "each by a matrix": lambda s, b: s @ b[:4],
    "sums of these": lambda s, b: (s @ b[:4].detach()).sum(axis=1) * b,
    "scaled by columns": lambda s, b: (s * b).sum(axis=1),
    "scaled by rows": lambda s, b: (s * b[:, None]).sum(axis=(0, 2)),
    "contracted": lambda s, b: iv.einsum("ijd,jd->i", s, b),
    "sums of slices": lambda s, b: s.sum(axis=2) @ b,
    "one of each": lambda s, b: s[..., 1] @ b,
    "features first": lambda s, b: iv.permute_dims(s, (2, 0, 1)) @ b,
    "turned": lambda s, b: (iv.permute_dims(s, (1, 0, 2)) * b).sum(axis=0),
    "lines": lambda s, b: s[np.arange(9)].sum(axis=0) * b,
    "beside": lambda s, b: (iv.concat([s, s * 2.0], axis=2)).sum(axis=0)[:, 4:] * b,
    "above": lambda s, b: iv.stack([s, s * 2.0]).sum(axis=(0, 1)) * b,
    "entries": lambda s, b: s[np.arange(9), np.arange(9)] * b[:9],
    "moments": lambda s, b: iv.var(s, axis=1) * b,
}


@pytest.mark.parametrize(("name", "layout"), paired(OF_SLICES, ["csr", "csc"], 1))
def test_the_backward_is_sampled_where_slices_are_stored(name, layout):
    rng = np.random.default_rng(0)
    v, b = rng.standard_normal((EACH, WIDTH)), rng.standard_normal((N, WIDTH))
    shape = (N, N, WIDTH)
    assert_the_backward_is_sampled(OF_SLICES[name], rng.integers(0, N, (2, EACH)), v, b, shape, layout)


def assert_the_backward_is_sampled(f: Any, at: Any, v: Any, b: Any, shape: Any, layout: str) -> None:
    v, b = iv.asarray(v, requires_grad=True), iv.asarray(b, requires_grad=True)
    s = iv.sparse_coo_tensor(at, v, shape).coalesce().to_layout(layout)
    tracemalloc.start()
    y = f(s, b)
    gv, gb = grad((y * y).sum(), (v, b), create_graph=True)
    second = grad((gv * gv).sum() + (gb * gb).sum(), (v, b))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < np.prod(shape) * 8 / 2
    dense = iv.asarray(checked(s.detach()), requires_grad=True)
    y = f(dense, b)
    full, expected_b = grad((y * y).sum(), (dense, b), create_graph=True)
    at = tuple(at)
    np.testing.assert_allclose(checked(gv.detach()), checked(full.detach())[at], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(checked(gb.detach()), checked(expected_b.detach()), rtol=1e-8, atol=1e-8)
    assert second[0].shape == v.shape


@pytest.mark.parametrize(
    ("error", "words", "args"),
    [
        (iv.errors.ShapeError, "batch of indptr", ([[0, 1], [0, 1]], [[0]], [[1.0]])),
        (iv.errors.ShapeError, "indices", ([[0, 1], [0, 1]], [0, 0], [1.0, 1.0])),
        (iv.errors.ShapeError, "values", ([[0, 1], [0, 1]], [[0], [0]], [1.0, 1.0])),
        (iv.errors.ShapeError, "batch of indptr", ([[0, 1]], [[0]], [[1.0]], (2, 1, 1))),
        (iv.errors.ShapeError, "3 for shape", ([0, 1], [0], [1.0], (2, 1, 1))),
        (iv.errors.ArgumentError, "for each matrix", ([[0, 1], [1, 1]], [[0], [0]], [[1.0], [1.0]])),
        (iv.errors.IndexingError, "axis 2", ([[0, 1]], [[4]], [[1.0]], (1, 1, 2))),
        (iv.errors.ArgumentError, "increasing", ([[0, 2]], [[1, 1]], [[1.0, 2.0]], (1, 1, 2))),
    ],
)
def test_errors(error, words, args):
    with pytest.raises(error, match=words):
        iv.sparse_csr_tensor(*args)


def test_to_scipy_takes_matrices():
    s = in_layout(X, "csr")
    with pytest.raises(iv.errors.ShapeError, match="batch"):
        s.to_scipy()
    np.testing.assert_array_equal(s[2].to_scipy().toarray(), X[2])
