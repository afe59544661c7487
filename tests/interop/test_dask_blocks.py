"""Dask arrays of tensors: sums, products and functions of blocks are those of the whole tensor."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

pytestmark = pytest.mark.peers

da = pytest.importorskip("dask.array", reason="Dask is not installed: pip install iverson[dask]")

import iverson as iv  # noqa: E402
from iverson.errors import ArgumentError, ArgumentTypeError, ShapeError  # noqa: E402
from iverson.interop.dask import from_dask, map_blocks, map_blocks_vjp, matmul, to_dask  # noqa: E402

RNG = np.random.default_rng(0)
PATTERN = RNG.random((8, 6)) < 0.4
DENSE = RNG.standard_normal((8, 6)) * PATTERN
KINDS = {name: iv.asarray(DENSE).to_layout(name) for name in ("strided", "csr", "csc", "coo")}
KINDS["masked"] = iv.masked_tensor(DENSE, PATTERN)
KINDS["masked csr"] = iv.masked_tensor(KINDS["csr"])
CHUNKS = [(8, 6), (3, 4), ((1, 7), (6,)), ((8, 0), (2, 4))]


def dense(x):
    return (x.to_tensor(np.nan) if isinstance(x, iv.MaskedTensor) else x).to_dense().numpy()


CALLS = {
    "itself": lambda x: x,
    "sum": lambda x: x.sum(),
    "columns": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(),
    "row means": lambda x: x.mean(axis=1),
    "polynomial": lambda x: 2 * x + x * x,
    "transposed": lambda x: x.T,
}
PRODUCTS = {"dense": lambda x: x @ np.ones((6, 2)), "own": lambda x: x.T @ x}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_what_dask_computes_of_blocks_is_that_of_the_whole(kind, chunks):
    x = KINDS[kind]
    blocks = to_dask(x, chunks)
    for name, call in CALLS.items() | (PRODUCTS.items() if "masked" not in kind else set()):
        found, want = from_dask(call(blocks)), call(x)
        np.testing.assert_allclose(dense(found), dense(want), rtol=1e-13, atol=1e-14, err_msg=name)
        assert type(found) is type(want), name
    assert from_dask(blocks).layout == x.layout


FACTORS = {
    "dense": lambda x: (x, iv.asarray(RNG.standard_normal((6, 2)))),
    "own": lambda x: (x.T, x),
    "vectors": lambda x: (x[:, 1], x[:, 3]),
    "rows": lambda x: (x[:, 1], x),
    "batches": lambda x: (iv.stack([x, 2 * x]), iv.stack([x.T[:, :3], -x.T[:, 1:4]])),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factors", FACTORS)
def test_products_are_those_of_the_whole_however_the_contracted_axis_is_cut(kind, factors):
    """An entry is specified where any chunk specifies a product; what is unspecified is never multiplied."""
    x = iv.masked_tensor(np.where(PATTERN, DENSE, np.inf), PATTERN) if kind == "masked" else KINDS[kind]
    a, b = FACTORS[factors](x)
    if "masked" not in kind:
        a, b = a.to_layout("strided"), b.to_layout("strided")
    want = dense(a @ b)
    for size in (1, 2, 3, 8):
        chunks = [tuple(2 if k != at else size for k in range(y.ndim)) for y, at in shared(a, b)]
        found = from_dask(matmul(to_dask(a, chunks[0]), to_dask(b, chunks[1])))
        np.testing.assert_allclose(dense(found), want, rtol=1e-13, atol=1e-14)


def shared(a, b):
    return (a, a.ndim - 1), (b, max(b.ndim - 2, 0))


def test_masked_products_that_dask_would_add_entry_by_entry_are_an_error():
    x = to_dask(KINDS["masked"], (3, 4))
    with pytest.raises(ArgumentError, match=r"numpy.add: argument 'dtype'.*interop.dask.matmul"):
        from_dask(x.T @ x)


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_blocks_have_the_gradients_of_the_whole(kind):
    x, row = KINDS[kind], iv.asarray(np.random.default_rng(1).standard_normal(6))

    def function(x, row):
        return iv.sin(x) * x * row

    seed = np.random.default_rng(2).standard_normal((8, 6))
    _, pull = iv.vjp(function, x, row)
    want = (dense(function(x, row)), *(dense(g) for g in pull(seed)))
    for chunks in CHUNKS:
        blocks, rows = to_dask(x, chunks), to_dask(row, (to_dask(x, chunks).chunks[1],))
        result, back = map_blocks_vjp(function, blocks, rows)
        found = (result, *back(da.from_array(seed, chunks=result.chunks)))
        for one, other in zip(found, want, strict=True):
            np.testing.assert_allclose(dense(from_dask(one)), other, rtol=1e-12, atol=1e-14)
        assert found[1].chunks == blocks.chunks
        layout = from_dask(found[1]).layout
        assert layout == ("strided" if kind == "strided" else pull(seed)[0].layout)


def test_blocks_of_other_libraries_are_taken_for_tensors():
    masked = np.ma.masked_array(DENSE, ~PATTERN)
    found = from_dask(da.from_array(masked, chunks=(3, 6)))
    np.testing.assert_array_equal(dense(found), masked.filled(np.nan))
    sparse = da.from_array(DENSE, chunks=(4, 6)).map_blocks(scipy.sparse.csr_array)
    assert from_dask(map_blocks(lambda x: 2 * x, sparse)).layout == "csr"


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: to_dask(np.ones(2)), ArgumentTypeError, "'x': got a ndarray"),
        (lambda: from_dask(np.ones(2)), ArgumentTypeError, "a dask array"),
        (lambda: map_blocks(2, da.ones(2)), ArgumentTypeError, "'function'"),
        (lambda: matmul(da.ones((2, 2)), np.ones(2)), ArgumentTypeError, "'b': got a ndarray"),
        (lambda: matmul(da.ones(()), da.ones(2)), ShapeError, "'a': got rank 0"),
        (
            lambda: map_blocks_vjp(iv.sin, da.ones(4, chunks=2))[1](da.ones(4)),
            ShapeError,
            "a dask array of chunks",
        ),
    ],
)
def test_wrong_calls_say_what_is_wrong(call, error, said):
    with pytest.raises(error, match=said):
        call()
