"""Work on masked tensors that hold few of very many entries grows with the few: peak bytes, both ways."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import iverson as iv
from tests.conformance.product import paired

EXTENT, COUNT, SMALL = 100_000, 1_000, 40
#: Bytes: less than one number per row; and, where rows are indexed, eight of them. All entries take 80 GB.
ENTRIES, ROWS = 700_000, 64 * EXTENT
#: What has an index of rows (or their vector) also for COO: products, and the plain mean that is subtracted.
BY_ROWS = ("matmul", "product", "infinite", "var", "std")
RNG = np.random.default_rng(0)
#: 1,000 entries on 40 rows and 40 columns, spread over a large matrix.
PLACES = np.sort(RNG.permutation(EXTENT)[:SMALL])
CELLS = np.divmod(np.sort(RNG.permutation(SMALL * SMALL)[:COUNT]), SMALL)
VALUES = RNG.standard_normal(COUNT) + 3.0
WEIGHTS = RNG.standard_normal((EXTENT, 3))


def large(layout="csr", places=PLACES):
    indices = np.stack([places[k] for k in CELLS])
    s = iv.sparse_coo_tensor(indices, VALUES, (EXTENT, EXTENT)).to_layout(layout)
    return iv.masked_tensor(s, requires_grad=True)


def small():
    """The rows and columns that hold entries, with a mask of bools."""
    mask, values = np.zeros((SMALL, SMALL), bool), np.full((SMALL, SMALL), np.nan)
    mask[CELLS], values[CELLS] = True, VALUES
    return iv.masked_tensor(values, mask, requires_grad=True)


#: Functions whose results, on the rows and columns that hold entries, are those of the small matrix.
SAME = {
    "max": lambda m: m.max(axis=0),
    "min": lambda m: m.min(axis=1, keepdims=True),
    "prod": lambda m: (m / 3).prod(axis=1),
    "sum": lambda m: (m * m).sum(axis=0),
    "mean": lambda m: m.mean(axis=1),
    "var": lambda m: m.var(axis=0),
    "std": lambda m: m.std(axis=1, correction=1),
    "norm": lambda m: iv.linalg.vector_norm(m, axis=1),
    "norm3": lambda m: iv.linalg.vector_norm(m, axis=0, ord=3),
    "logsumexp": lambda m: m.logsumexp(axis=1),
    "any": lambda m: (m > 3).any(axis=0),
    "all": lambda m: (m > 3).all(axis=1),
    "count_nonzero": lambda m: (m > 3).count_nonzero(axis=1),
    "softmax": lambda m: m.softmax(axis=1),
    "log_softmax": lambda m: m.log_softmax(axis=0),
    "cumulative_sum": lambda m: m.cumulative_sum(axis=0),
    "cumulative_prod": lambda m: (m / 3).cumulative_prod(axis=1),
    "where": lambda m: iv.where(m > 3, m * m, m),
    "where_scalar": lambda m: iv.where(m > 3, m, 1.0),
    "compared": lambda m: m >= m.mean(axis=0),
    "centred": lambda m: m - m.max(axis=1, keepdims=True),
    "outer": lambda m: m.max(axis=1, keepdims=True) * m.min(axis=0),
    "matmul": lambda m: m @ m.T,
    "product": lambda m: m @ (WEIGHTS if m.shape[0] == EXTENT else WEIGHTS[PLACES]),
    "infinite": lambda m: iv.where(m < 0, iv.inf, m) @ m.T,
    "isin": lambda m: iv.isin(m, m.sum(axis=0)),
    "clip": lambda m: m.clip(2.0, 4.0),
    "to_coo": lambda m: m.to_sparse() * 2,
    "argmax": lambda m: iv.take_along_axis(m, m.argmax(axis=1, keepdims=True), axis=1),
    "concat": lambda m: iv.concat([m, m * 2])[EXTENT if m.shape[0] == EXTENT else SMALL :],
    "stack": lambda m: iv.stack([m, m * 2], axis=1)[:, 1],
    "flip": lambda m: iv.flip(iv.flip(m, axis=0) * 2, axis=0),
    "roll": lambda m: iv.roll(iv.roll(m, 7, axis=1), -7, axis=1),
}


def kept(x):
    """A result of the large matrix on the rows and columns (or the axis) that hold entries, as dense."""
    for axis, n in enumerate(x.shape):
        if n == EXTENT:
            x = iv.take(x, PLACES, axis=axis)
    return x


def peak_of(act):
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        result = act()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def assert_equal(found, expected):
    mask = expected.get_mask().numpy()
    np.testing.assert_array_equal(found.get_mask().numpy(), mask)
    a, b = (x.detach().get_data().numpy()[mask] for x in (found, expected))
    np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize(("name", "layout"), paired(SAME, ["coo", "csr", "csc"]))
def test_values_and_gradients(name, layout):
    m, reference, f = large(layout), small(), SAME[name]
    imported = f(other := large(layout))  # imports what is imported when first used
    if imported.dtype.kind == "f":
        iv.autograd.grad((imported * imported).sum(), other)
    y, peak = peak_of(lambda: f(m))
    limit = ENTRIES if layout == "coo" and name not in BY_ROWS else ROWS
    assert peak < limit
    assert y.layout != "strided"
    assert_equal(kept(y), f(reference))
    if y.dtype.kind != "f":
        return
    g, peak = peak_of(lambda: iv.autograd.grad((y * y).sum(), m))
    assert peak < 2 * limit
    assert g.layout == layout
    assert g._mask.pattern is m._mask.pattern
    z = f(reference)
    assert_equal(kept(g), iv.autograd.grad((z * z).sum(), reference))


def gradient_of_least():
    m = small()
    return iv.autograd.grad((iv.sort(m, axis=0)[0] * 3).sum(), m)


def test_sorting():
    m, reference = large("csr"), small()
    for f in (lambda m: iv.sort(m, axis=1, descending=True), lambda m: iv.argsort(m, axis=0) * 1):
        y, peak = peak_of(lambda f=f: f(m))
        assert peak < ROWS
        assert y.layout == "csr"
        lines = y[PLACES][:, :SMALL] if y.dtype.kind == "f" else y[:SMALL][:, PLACES]
        expected = f(reference)
        if y.dtype.kind == "i":  # positions among the large matrix' rows
            expected = iv.masked_tensor(PLACES[expected.to_tensor(0).numpy()], expected.get_mask())
        assert_equal(lines, expected)
    y = iv.sort(m, axis=0)
    picked = iv.take_along_axis(m, iv.argsort(m, axis=0), axis=0)
    assert_equal(picked[:SMALL][:, PLACES], y[:SMALL][:, PLACES])
    g, peak = peak_of(lambda: iv.autograd.grad((y[0] * 3).sum(), m))
    assert peak < ROWS
    assert_equal(kept(g), gradient_of_least())
    addresses = PLACES[CELLS[0]] * EXTENT + PLACES[CELLS[1]]
    assert iv.argmax(m).item() == addresses[VALUES.argmax()]
    assert iv.argmin(m).item() == addresses[VALUES.argmin()]
    assert iv.searchsorted(m.reshape(-1)[:0], iv.ones(2)).tolist() == [0, 0]


def test_reading_and_writing():
    m = large()
    row, column = int(PLACES[3]), int(PLACES[5])
    there = small().get_mask().numpy()

    def act():
        x = m * 1.0
        x[0, 0] = 5.0
        x[row] = iv.masked_tensor(x[row] * 2, x[row] > 3)
        x[[1, EXTENT - 1], column] = iv.asarray([7.0, 8.0])
        x[x < 2] = 0.0
        return x

    x, peak = peak_of(act)
    assert peak < ROWS
    assert x.layout == "csr"
    assert (x[0, 0].item(), x[1, column].item(), x[-1, column].item()) == (5.0, 7.0, 8.0)
    before = m[row].to_tensor(0).to_dense().detach().numpy()
    after = x[row].detach()
    np.testing.assert_array_equal(after.get_mask().numpy(), before > 3)
    np.testing.assert_allclose(after.to_tensor(0).numpy(), np.where(before > 3, 2 * before, 0))
    g = iv.autograd.grad(x.sum(), m)
    expected = np.where(there, 1.0, 0)
    values = np.where(there, small().to_tensor(0).detach().numpy(), 0)
    expected[values < 2] = 0
    expected[3] = np.where(values[3] > 3, 2.0, 0)
    np.testing.assert_allclose(kept(g).to_tensor(0).to_dense().numpy(), expected)
    found, peak = peak_of(lambda: m[m > 4])
    assert peak < ROWS
    np.testing.assert_array_equal(found.detach().to_tensor(0).numpy(), VALUES[VALUES > 4])
    rows, columns = iv.nonzero(m > 4)
    np.testing.assert_array_equal(rows.numpy(), PLACES[CELLS[0][VALUES > 4]])
    np.testing.assert_array_equal(columns.numpy(), PLACES[CELLS[1][VALUES > 4]])


def test_jacobians_list_pairs_of_entries():
    n = 30_000
    s = iv.sparse_coo_tensor(np.array([[0, n - 1], [5, n - 1]]), [1.0, 2.0], (n, n))
    m = iv.masked_tensor(s)
    act = iv.jacobian(lambda m: m * m)
    act(m)  # imports what is imported when first used
    found, peak = peak_of(lambda: act(m))
    assert peak < ENTRIES
    assert found.shape == (n,) * 4
    assert found[0, 5, 0, 5].item() == 2.0
    assert found[n - 1, n - 1, 0, 5].item() == 0.0
    assert found[n - 1, n - 1, n - 1, n - 1].item() == 4.0


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_contracted_and_padded(layout):
    m = large(layout)
    limit = ENTRIES if layout == "coo" else ROWS
    y, peak = peak_of(lambda: iv.tensordot(m, m, axes=2))
    assert peak < limit
    assert y.item() == pytest.approx((VALUES**2).sum())
    g, peak = peak_of(lambda: iv.autograd.grad(y, m))
    assert peak < limit
    np.testing.assert_allclose(g.to_tensor(0).values().numpy(), 2 * m.detach().to_tensor(0).values().numpy())
    x, peak = peak_of(lambda: iv.pad(m, ((0, 1), (2, 0)), constant_values=7.0))
    assert peak < 4 * ROWS
    assert x.shape == (EXTENT + 1, EXTENT + 2)
    assert x.get_mask().nnz == COUNT + 2 * (EXTENT + 1) + EXTENT
    assert (x[EXTENT, 50].item(), x[5, 1].item(), x.to_tensor(0).sum().item()) == (
        7.0,
        7.0,
        pytest.approx(VALUES.sum() + 7.0 * (3 * EXTENT + 2)),
    )
