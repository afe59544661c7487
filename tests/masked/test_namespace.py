"""Every public function on a MaskedTensor: an oracle's value, or the error that names to_tensor(fill)."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
import scipy.linalg

import iverson as iv
from iverson.core.scalars import SCALARS
from iverson.graph.lowering.graph_lowering import Native
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import by_turns, paired, some
from tests.masked.oracle import assert_same, of_numpy, with_garbage

#: The zeros of a triangle are no list of entries.
pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
RNG = np.random.default_rng(5)
VALUES = RNG.permutation(12).reshape(3, 4) / 16 + 0.1
MASK = np.array([[True, False, True, True], [False, True, False, False], [True, True, False, True]])
OTHER = np.array([[True, True, False, True], [True, True, True, False], [False, True, True, True]])
SQUARE = np.array([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 4.0]])
HOLES = np.array([[True, False, True], [True, True, True], [False, True, True]])
ma = np.ma


def tensor(values, mask, layout):
    if layout == "strided":
        return iv.masked_tensor(with_garbage(values, mask), mask)
    return iv.masked_tensor(iv.asarray(with_garbage(values, mask)), iv.to_layout(iv.asarray(mask), layout))


def lines(function, axis):
    """A function of the specified entries of each line, put back where they are."""

    def along(a):
        out = ma.MaskedArray(np.zeros(a.shape), ma.getmaskarray(a))
        view, mask, source = (np.moveaxis(x, axis, -1) for x in (out.data, ~out.mask, a.data))
        for i in np.ndindex(*view.shape[:-1]):
            view[i][mask[i]] = function(source[i][mask[i]])
        return out

    return along


def sampled(a, b):
    there = ~ma.getmaskarray(a)[:, :, None] & ~ma.getmaskarray(b)[None]
    products = np.where(there, a.data[:, :, None] * b.data[None], 0)
    return ma.MaskedArray(products.sum(axis=1), ~there.any(axis=1))


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


def moved(function, *more):
    """The same function of shape, of the data and of the mask."""
    return lambda a: ma.MaskedArray(function(a.data, *more), function(ma.getmaskarray(a), *more))


def carried(axis, limit, step):
    """Each entry, or the nearest within the limit before it (after it, for the step -1) that there is."""

    def oracle(a):
        out, there = a.copy(), ~ma.getmaskarray(a)
        for i in np.ndindex(a.shape):
            line = [
                (*i[:axis], k, *i[axis + 1 :])
                for k in range(i[axis], -1 if step > 0 else a.shape[axis], -step)
            ]
            near = [j for j in line[: limit + 1] if there[j]]
            out[i] = a[near[0]] if near else ma.masked
        return out

    return oracle


def of_segments(function, ids, count):
    def oracle(a):
        parts = [a[np.array(ids) == k] for k in range(count)]
        return ma.stack([function(p, axis=0) if len(p) else ma.masked_all(a.shape[1:]) for p in parts])

    return oracle


def correlated(a):
    c = ma.cov(a)
    deviation = ma.sqrt(ma.diagonal(c))
    return c / deviation[:, None] / deviation


IDS = [2, 0, 2]
#: By name: ours of a masked matrix, and numpy.ma's (or what follows from NumPy, line by line).
VALUE = {
    "append": (lambda m: iv.append(m, m * 2, axis=0), lambda a: ma.concatenate([a, a * 2])),
    **{n: (lambda m, n=n: getattr(iv, n)(m), lambda a: a) for n in ("atleast_1d", "atleast_2d")},
    "atleast_3d": (iv.atleast_3d, lambda a: a[:, :, None]),
    "average": (
        lambda m: iv.average(m, axis=1, weights=np.arange(1.0, 5.0)),
        lambda a: ma.average(a, axis=1, weights=np.arange(1.0, 5.0)),
    ),
    "cdist": (
        lambda m: iv.cdist(m, m[:2]),
        lambda a: ma.sqrt(((a[:, None] - a[:2]) ** 2).sum(axis=-1)),
    ),
    "column_stack": (lambda m: iv.column_stack([m[:, 0], m]), lambda a: ma.column_stack([a[:, 0], a])),
    "delete": (lambda m: iv.delete(m, 1, axis=1), lambda a: a[:, [0, 2, 3]]),
    "diag_embed": (
        iv.diag_embed,
        lambda a: ma.MaskedArray(a.data[..., None] * np.eye(4), a.mask[..., None] & np.eye(4, dtype=bool)),
    ),
    "dist": (lambda m: iv.dist(m, m * m), lambda a: ma.sqrt(((a - a * a) ** 2).sum())),
    "dstack": (lambda m: iv.dstack([m, m]), lambda a: ma.dstack([a, a])),
    "fmax": (lambda m: iv.fmax(m, 1 - m), lambda a: ma.maximum(a, 1 - a)),
    "fmin": (lambda m: iv.fmin(m, 1 - m), lambda a: ma.minimum(a, 1 - a)),
    "gradient": (
        lambda m: iv.gradient(m, axis=1),
        lambda a: ma.concatenate(
            [a[:, 1:2] - a[:, :1], (a[:, 2:] - a[:, :-2]) / 2, a[:, 3:] - a[:, 2:3]], axis=1
        ),
    ),
    "heaviside": (lambda m: iv.heaviside(m - 0.4, 0.5), lambda a: (a > 0.4) * 1.0),
    "hstack": (lambda m: iv.hstack([m, m]), lambda a: ma.hstack([a, a])),
    "insert": (
        lambda m: iv.insert(m, 1, m[:, 0], axis=1),
        lambda a: ma.concatenate([a[:, :1], a[:, :1], a[:, 1:]], axis=1),
    ),
    **{
        n: (lambda m, n=n, s=s: getattr(iv, n)(s * iv.where(m > 0.4, iv.inf, m)), lambda a: a > 0.4)
        for n, s in (("isposinf", 1), ("isneginf", -1))
    },
    "lerp": (lambda m: iv.lerp(m, m * 3, 0.5), lambda a: 2 * a),
    "piecewise": (
        lambda m: iv.piecewise(m, [m < 0.4], [lambda x: -x, lambda x: 2 * x]),
        lambda a: ma.where(a < 0.4, -a, 2 * a),
    ),
    "polyval": (lambda m: iv.polyval(np.array([2.0, 0.0, 1.0]), m), lambda a: 2 * a * a + 1),
    "ptp": (lambda m: iv.ptp(m, axis=1), lambda a: a.max(axis=1) - a.min(axis=1)),
    "vander": (lambda m: iv.vander(m[0], 3), lambda a: ma.stack([a[0] ** 2, a[0], a[0] * 0 + 1], axis=1)),
    "view_as_complex": (lambda m: iv.view_as_complex(iv.stack([m, m], axis=-1)).imag, lambda a: a),
    "view_as_real": (lambda m: iv.view_as_real(m + 1j * m), lambda a: ma.stack([a, a], axis=-1)),
    "vstack": (lambda m: iv.vstack([m, m]), lambda a: ma.vstack([a, a])),
    "allclose": (lambda m: iv.allclose(m, m + 1e-9), lambda a: (a == a).all()),
    "clone": (iv.clone, lambda a: a),
    "corrcoef": (lambda m: iv.corrcoef(m[::2]), lambda a: correlated(a[::2])),
    "cov": (lambda m: iv.cov(m, correction=0), lambda a: ma.cov(a, ddof=0)),
    "kthvalue": (lambda m: iv.kthvalue(m, 1).values, lambda a: a.min(axis=1)),
    "topk": (lambda m: iv.topk(m, 2).values, lambda a: -ma.sort(-a, axis=1)[:, :2]),
    "trapezoid": (iv.trapezoid, lambda a: ((a[:, 1:] + a[:, :-1]) / 2).sum(axis=1)),
    "flatten": (iv.flatten, moved(np.ravel)),
    "gather": (
        lambda m: iv.gather(m, iv.asarray([[1, 0], [2, 1], [3, 3]]), axis=1),
        moved(np.take_along_axis, np.array([[1, 0], [2, 1], [3, 3]]), 1),
    ),
    "isclose": (lambda m: iv.isclose(m, 0.3, atol=0.2), lambda a: abs(a - 0.3) <= 0.2 + 3e-6),
    "masked_fill": (
        lambda m: iv.masked_fill(m, iv.asarray(OTHER), 2.0),
        lambda a: ma.MaskedArray(np.where(OTHER, 2.0, a.data), a.mask & ~OTHER),
    ),
    "median": (lambda m: iv.median(m, axis=1), lambda a: ma.median(a, axis=1)),
    "nan_to_num": (iv.nan_to_num, lambda a: a),
    "array_split": (lambda m: iv.array_split(m, 3, axis=1)[0], lambda a: a[:, :2]),
    "swapaxes": (lambda m: iv.swapaxes(m, 0, 1), lambda a: a.T),
    "nanmax": (lambda m: iv.nanmax(m, axis=1), lambda a: a.max(axis=1)),
    "nanmean": (lambda m: iv.nanmean(m, axis=0), lambda a: a.mean(axis=0)),
    "nanmin": (lambda m: iv.nanmin(m, axis=1), lambda a: a.min(axis=1)),
    "nanargmax": (lambda m: iv.nanargmax(m, axis=1), lambda a: a.argmax(axis=1)),
    "nanargmin": (lambda m: iv.nanargmin(m, axis=1), lambda a: a.argmin(axis=1)),
    "nancumprod": (lambda m: iv.nancumprod(m, axis=0), lines(np.cumprod, 0)),
    "nancumsum": (lambda m: iv.nancumsum(m, axis=0), lines(np.cumsum, 0)),
    "nanmedian": (lambda m: iv.nanmedian(m, axis=1), lambda a: ma.median(a, axis=1)),
    "nanprod": (lambda m: iv.nanprod(m, axis=0), lambda a: a.prod(axis=0)),
    "nanpercentile": (lambda m: iv.nanpercentile(m, 50, axis=1), lambda a: ma.median(a, axis=1)),
    "nanquantile": (lambda m: iv.nanquantile(m, 0.5, axis=1), lambda a: ma.median(a, axis=1)),
    "nanstd": (lambda m: iv.nanstd(m, axis=0), lambda a: a.std(axis=0)),
    "nanvar": (lambda m: iv.nanvar(m, axis=0), lambda a: a.var(axis=0)),
    "nansum": (lambda m: iv.nansum(m, axis=0), lambda a: a.sum(axis=0)),
    "percentile": (lambda m: iv.percentile(m, 50, axis=1), lambda a: ma.median(a, axis=1)),
    "quantile": (lambda m: iv.quantile(m, 0.5, axis=1), lambda a: ma.median(a, axis=1)),
    "ravel": (iv.ravel, moved(np.ravel)),
    "rot90": (iv.rot90, moved(np.rot90)),
    "round": (lambda m: iv.round(m, decimals=1), lambda a: a.round(1)),
    "all": (lambda m: iv.all(m > 0.4, axis=0), lambda a: (a > 0.4).all(axis=0)),
    "any": (lambda m: iv.any(m > 0.4, axis=1), lambda a: (a > 0.4).any(axis=1)),
    "argmax": (lambda m: iv.argmax(m, axis=1), lambda a: a.argmax(axis=1)),
    "argmin": (lambda m: iv.argmin(m, axis=0), lambda a: a.argmin(axis=0)),
    "argsort": (
        lambda m: iv.take_along_axis(m, iv.argsort(m, axis=1), axis=1),
        lambda a: ma.sort(a, axis=1),
    ),
    "as_masked_tensor": (iv.as_masked_tensor, lambda a: a),
    "astype": (lambda m: iv.astype(m, "float32"), lambda a: a.astype("float32")),
    "broadcast_arrays": (lambda m: iv.broadcast_arrays(m, iv.ones((2, 1, 1)))[0], lambda a: ma.stack([a, a])),
    "broadcast_to": (lambda m: iv.broadcast_to(m, (2, 3, 4)), lambda a: ma.stack([a, a])),
    "clip": (lambda m: iv.clip(m, 0.3, 0.5), lambda a: ma.clip(a, 0.3, 0.5)),
    "concat": (lambda m: iv.concat([m, m * 2]), lambda a: ma.concatenate([a, a * 2])),
    "count_nonzero": (lambda m: iv.count_nonzero(m > 0.4), lambda a: (a > 0.4).sum()),
    "cross_entropy": (
        lambda m: iv.cross_entropy(m, iv.asarray([0, 1, 3]), reduction="sum"),
        lambda a: -lines(lambda x: np.log(softmax(x)), 1)(a)[[0, 1, 2], [0, 1, 3]].sum(),
    ),
    "cumulative_prod": (lambda m: iv.cumulative_prod(m, axis=1), lines(np.cumprod, 1)),
    "cumulative_sum": (lambda m: iv.cumulative_sum(m, axis=0), lines(np.cumsum, 0)),
    "cummax": (iv.cummax, lines(np.maximum.accumulate, 1)),
    "cummin": (lambda m: iv.cummin(m, 0), lines(np.minimum.accumulate, 0)),
    "logcumsumexp": (lambda m: iv.logcumsumexp(m, 0), lines(np.logaddexp.accumulate, 0)),
    "ffill": (lambda m: iv.ffill(m, 1), carried(1, 9, 1)),
    "bfill": (lambda m: iv.bfill(m, 0, limit=1), carried(0, 1, -1)),
    "zeros_like": (iv.zeros_like, lambda a: a * 0),
    "ones_like": (lambda m: iv.ones_like(m, dtype="int8"), lambda a: (a * 0 + 1).astype("int8")),
    "full_like": (lambda m: iv.full_like(m, 2.0), lambda a: a * 0 + 2),
    "empty_like": (lambda m: iv.empty_like(m) * 0 == 7, lambda a: a < 0),
    "diagonal": (iv.diagonal, moved(np.diagonal)),
    "diff": (iv.diff, lambda a: a[:, 1:] - a[:, :-1]),
    "einsum": (lambda m: iv.einsum("ij,kj->ik", m, m), lambda a: sampled(a, a.T)),
    "embedding": (lambda m: iv.embedding(iv.asarray([2, 0]), m), lambda a: a[[2, 0]]),
    "expand_dims": (lambda m: iv.expand_dims(m, axis=1), lambda a: a[:, None]),
    "flip": (lambda m: iv.flip(m, axis=1), lambda a: a[:, ::-1]),
    "isin": (
        lambda m: iv.isin(m, m[0]),
        lambda a: ma.MaskedArray(np.isin(a.data, a[0].compressed()), a.mask),
    ),
    "log_softmax": (lambda m: iv.log_softmax(m, axis=1), lines(lambda x: np.log(softmax(x)), 1)),
    "logsumexp": (lambda m: iv.logsumexp(m, axis=0), lambda a: ma.log(ma.exp(a).sum(axis=0))),
    "masked_tensor": (
        lambda m: iv.masked_tensor(m, iv.asarray(OTHER)),
        lambda a: ma.MaskedArray(a.data, a.mask | ~OTHER),
    ),
    "matmul": (lambda m: iv.matmul(m, m.T), lambda a: sampled(a, a.T)),
    "matrix_transpose": (iv.matrix_transpose, lambda a: a.T),
    "max": (lambda m: iv.max(m, axis=1), lambda a: a.max(axis=1)),
    "mean": (lambda m: iv.mean(m, axis=0), lambda a: a.mean(axis=0)),
    "meshgrid": (lambda m: iv.meshgrid(m[0], m[1])[0], lambda a: ma.stack([a[0]] * 4)),
    "min": (lambda m: iv.min(m, axis=0, keepdims=True), lambda a: a.min(axis=0, keepdims=True)),
    "moveaxis": (lambda m: iv.moveaxis(m, 0, 1), lambda a: a.T),
    "kron": (
        lambda m: iv.kron(m, m[:2]),
        lambda a: (a[:, None, :, None] * a[None, :2, None, :]).reshape(2 * len(a), -1),
    ),
    "outer": (lambda m: iv.outer(m[0], m[2]), lambda a: a[0][:, None] * a[2]),
    "pad": (lambda m: iv.pad(m, ((1, 0), (0, 2))), moved(np.pad, ((1, 0), (0, 2)))),
    "transpose": (iv.transpose, lambda a: a.T),
    "permute_dims": (lambda m: iv.permute_dims(m, (1, 0)), lambda a: a.T),
    "prod": (lambda m: iv.prod(m, axis=1), lambda a: a.prod(axis=1)),
    "repeat": (lambda m: iv.repeat(m, 2, axis=0), lambda a: ma.repeat(a, 2, axis=0)),
    "reshape": (lambda m: iv.reshape(m, (2, 6)), lambda a: a.reshape(2, 6)),
    "roll": (lambda m: iv.roll(m, 1, axis=1), moved(np.roll, 1, 1)),
    "segment_max": (lambda m: iv.segment_max(m, IDS, 4), of_segments(ma.max, IDS, 4)),
    "segment_mean": (lambda m: iv.segment_mean(m, IDS, 4), of_segments(ma.mean, IDS, 4)),
    "segment_min": (lambda m: iv.segment_min(m, IDS, 4), of_segments(ma.min, IDS, 4)),
    "segment_prod": (lambda m: iv.segment_prod(m, IDS, 4), of_segments(ma.prod, IDS, 4)),
    "segment_softmax": (
        lambda m: iv.segment_softmax(m.T, [0, 0, 0, 0]).T,
        lines(softmax, 1),
    ),
    "segment_sum": (lambda m: iv.segment_sum(m, IDS, 4), of_segments(ma.sum, IDS, 4)),
    "softmax": (lambda m: iv.softmax(m, axis=0), lines(softmax, 0)),
    "sort": (lambda m: iv.sort(m, axis=0), lambda a: ma.sort(a, axis=0)),
    "split": (lambda m: iv.split(m, [1], axis=1)[1], lambda a: a[:, 1:]),
    "squeeze": (lambda m: iv.squeeze(m[:, :1], 1), lambda a: a[:, 0]),
    "stack": (lambda m: iv.stack([m, m], axis=1), lambda a: ma.stack([a, a], axis=1)),
    "std": (lambda m: iv.std(m, axis=0), lambda a: a.std(axis=0)),
    "sum": (lambda m: iv.sum(m, axis=1), lambda a: a.sum(axis=1)),
    "take": (lambda m: iv.take(m, iv.asarray([2, 0]), axis=1), lambda a: a[:, [2, 0]]),
    "take_along_axis": (
        lambda m: iv.take_along_axis(m, iv.asarray([[1, 0], [2, 1], [3, 3]]), axis=1),
        moved(np.take_along_axis, np.array([[1, 0], [2, 1], [3, 3]]), 1),
    ),
    "tensordot": (lambda m: iv.tensordot(m, m.T, axes=1), lambda a: sampled(a, a.T)),
    "tile": (lambda m: iv.tile(m, (2, 1)), lambda a: ma.concatenate([a, a])),
    "to_layout": (lambda m: iv.to_layout(m, "csr"), lambda a: a),
    "to_sparse": (iv.to_sparse, lambda a: a),
    # The zeros beyond the diagonal exist, whatever does there.
    "tril": (iv.tril, lambda a: ma.MaskedArray(np.tril(a.data), np.tril(a.mask))),
    "triu": (lambda m: iv.triu(m, k=1), lambda a: ma.MaskedArray(np.triu(a.data, 1), np.triu(a.mask, 1))),
    "unstack": (lambda m: iv.unstack(m)[1], lambda a: a[1]),
    "var": (lambda m: iv.var(m, axis=1), lambda a: a.var(axis=1)),
    "vecdot": (lambda m: iv.vecdot(m, m), lambda a: (a * a).sum(axis=1)),
    "where": (lambda m: iv.where(m > 0.4, m, 0.0), lambda a: ma.where(a > 0.4, a, 0.0)),
}
#: Those whose results are plain tensors: sets of values and positions, or arrays of the same shape.
PLAIN = {
    "argwhere": (lambda m: iv.argwhere(m > 0.4), lambda a: np.argwhere((a > 0.4).filled(False))),
    "flatnonzero": (lambda m: iv.flatnonzero(m > 0.4), lambda a: np.flatnonzero((a > 0.4).filled(False))),
    "intersect1d": (
        lambda m: iv.intersect1d(m // 0.2, m[0] // 0.2),
        lambda a: np.intersect1d(a.compressed() // 0.2, a[0].compressed() // 0.2),
    ),
    "setdiff1d": (
        lambda m: iv.setdiff1d(m // 0.2, m[0] // 0.2),
        lambda a: np.setdiff1d(a.compressed() // 0.2, a[0].compressed() // 0.2),
    ),
    "union1d": (
        lambda m: iv.union1d(m // 0.2, m[0] // 0.1),
        lambda a: np.union1d(a.compressed() // 0.2, a[0].compressed() // 0.1),
    ),
    "nonzero": (lambda m: iv.stack(iv.nonzero(m > 0.4)), lambda a: np.array(ma.nonzero(a > 0.4))),
    "searchsorted": (
        lambda m: iv.searchsorted(iv.sort(m[2]), iv.asarray([0.3])),
        lambda a: np.searchsorted(np.sort(a[2].compressed()), [0.3]),
    ),
    "unique": (
        lambda m: iv.unique(m // 0.2, return_counts=True)[1],
        lambda a: np.unique(a.compressed() // 0.2, return_counts=True)[1],
    ),
    "unique_all": (
        lambda m: iv.unique_all(m // 0.2).indices,
        lambda a: np.flatnonzero(~a.mask)[np.unique(a.compressed() // 0.2, return_index=True)[1]],
    ),
    "unique_counts": (
        lambda m: iv.unique_counts(m // 0.2).counts,
        lambda a: np.unique(a.compressed() // 0.2, return_counts=True)[1],
    ),
    "unique_inverse": (
        lambda m: iv.unique_inverse(m // 0.2).inverse_indices.to_tensor(9),
        lambda a: restored(a, np.unique(a.compressed() // 0.2, return_inverse=True)[1]),
    ),
    "unique_values": (lambda m: iv.unique_values(m // 0.2), lambda a: np.unique(a.compressed() // 0.2)),
}
#: Those without a meaning where entries do not exist, by namespace.
REFUSED = {
    "fill_diagonal": lambda m: iv.fill_diagonal(m, 1.0),
    "interp": lambda m: iv.interp(m, iv.asarray([0.0, 1.0]), iv.ones(2)),
    "lexsort": lambda m: iv.lexsort([m, m]),
    "unwrap": iv.unwrap,
    "ravel_multi_index": lambda m: iv.ravel_multi_index((m,), (3,)),
    "unravel_index": lambda m: iv.unravel_index(m, (3,)),
    "bincount": lambda m: iv.bincount(iv.astype(m[0], "int64")),
    "convolve": lambda m: iv.convolve(m[0], iv.ones(2)),
    "histogram": iv.histogram,
    "scatter": lambda m: iv.scatter(iv.ones((3, 3)), np.zeros((1, 3), int), m[:1], axis=0),
    "index_add": lambda m: iv.index_add(m, np.array([0]), iv.ones((1, 3))),
    "scatter_add": lambda m: iv.scatter_add(iv.ones((3, 3)), np.zeros((1, 3), int), m[:1], axis=0),
    "diag": lambda m: iv.diag(m[0]),
    "asarray": iv.asarray,
    "tensor": iv.tensor,
    "coalesce": iv.coalesce,
    "sampled_matmul": lambda m: iv.sampled_matmul(m, m, iv.to_sparse(iv.eye(3))),
    "solve_triangular": lambda m: iv.solve_triangular(m, iv.ones(3)),
    "sparse_coo_tensor": lambda m: iv.sparse_coo_tensor([[0, 1, 2]], m),
    "sparse_csr_tensor": lambda m: iv.sparse_csr_tensor([0, 3], [0, 1, 2], m[0], (1, 3)),
    "sparse_csc_tensor": lambda m: iv.sparse_csc_tensor([0, 3], [0, 1, 2], m[0], (3, 1)),
    "sparse_bsr_tensor": lambda m: iv.sparse_bsr_tensor([0, 1], [0], m[None], (3, 3)),
    "sparse_bsc_tensor": lambda m: iv.sparse_bsc_tensor([0, 1], [0], m[None], (3, 3)),
    "sparse_mask": lambda m: iv.sparse_mask(m, iv.to_sparse(iv.ones((3, 3)))),
    "spsolve": lambda m: iv.spsolve(m, iv.ones(3)),
    "to_scipy": iv.to_scipy,
    "with_values": lambda m: iv.with_values(m, iv.ones(3)),
}
#: And of `iverson.linalg`.
REFUSED_SYSTEMS = {
    "cholesky_solve": lambda m: iv.linalg.cholesky_solve(iv.ones(3), m),
    "lu_solve": lambda m: iv.linalg.lu_solve((m, np.arange(3)), iv.ones(3)),
    "solve_circulant": lambda m: iv.linalg.solve_circulant(m, iv.ones(3)),
    "solve_toeplitz": lambda m: iv.linalg.solve_toeplitz(m, iv.ones(3)),
    "solve_triangular": lambda m: iv.linalg.solve_triangular(m, iv.ones(3)),
}
LINALG = {
    "block_diag": (
        lambda m: iv.linalg.block_diag(m[:2], m),
        lambda a: ma.vstack([ma.hstack([a[:2], np.zeros((2, 3))]), ma.hstack([np.zeros((3, 3)), a])]),
    ),
    "cross": (lambda m: iv.linalg.cross(m, m[::-1]), None),
    "diagonal": (iv.linalg.diagonal, moved(np.diagonal)),
    "matmul": (lambda m: iv.linalg.matmul(m, m), lambda a: sampled(a, a)),
    "multi_dot": (lambda m: iv.linalg.multi_dot([m, m]), lambda a: sampled(a, a)),
    "matrix_norm": (iv.linalg.matrix_norm, lambda a: np.sqrt((a * a).sum())),
    "matrix_power": (lambda m: iv.linalg.matrix_power(m, 2), lambda a: sampled(a, a)),
    "matrix_transpose": (iv.linalg.matrix_transpose, lambda a: a.T),
    "norm": (lambda m: iv.linalg.norm(m, axis=1), lambda a: np.sqrt((a * a).sum(axis=1))),
    "outer": (lambda m: iv.linalg.outer(m[0], m[1]), lambda a: a[0][:, None] * a[1]),
    "tensordot": (lambda m: iv.linalg.tensordot(m, m, axes=1), lambda a: sampled(a, a)),
    "trace": (iv.linalg.trace, lambda a: a.trace()),
    "vecdot": (lambda m: iv.linalg.vecdot(m, m), lambda a: (a * a).sum(axis=1)),
    "vector_norm": (lambda m: iv.linalg.vector_norm(m, axis=0), lambda a: np.sqrt((a * a).sum(axis=0))),
}
SHIFTS = {
    "fftshift": (iv.fft.fftshift, moved(np.fft.fftshift)),
    "ifftshift": (iv.fft.ifftshift, moved(np.fft.ifftshift)),
}
#: Functions that take no array, or a function in place of one.
OTHERS = {
    "arange", "biharmonic", "broadcast_shapes", "can_cast", "checkpoint", "cond", "derivatives",
    "differential_operator", "disable_jit", "empty", "enable_grad", "eye", "fftfreq", "finfo", "fori_loop",
    "from_dlpack", "from_scipy", "full", "geomspace", "grad", "hessian", "hvp", "iinfo", "is_grad_enabled",
    "isdtype", "jacobian", "jet", "jit", "jvp", "laplacian", "linearize", "linspace", "load", "logspace",
    "no_grad", "ones", "ravel_pytree", "result_type", "rfftfreq", "save", "scan", "set_grad_enabled",
    "tril_indices", "triu_indices", "value_and_grad", "vjp", "vmap", "while_loop", "zeros",
}  # fmt: skip


def restored(a, entries):
    out = np.full(a.shape, 9)
    out[~a.mask] = entries
    return out


def functions(namespace):
    names = getattr(namespace, "__all__", None) or [n for n in vars(namespace) if not n.startswith("_")]
    return {n for n in names if inspect.isfunction(getattr(namespace, n))}


#: Elementwise functions, and the least number of arrays that each takes.
ELEMENTWISE = {
    n: sum(p.default is p.empty for p in inspect.signature(getattr(iv, n)).parameters.values())
    for n in sorted({*SCALARS} & functions(iv) - {"where", "clip"})
}


LAYOUTS = ("strided", "coo", "csr")


def test_every_name_is_here():
    assert functions(iv) - OTHERS == {*VALUE, *PLAIN, *REFUSED, *ELEMENTWISE}
    known = {*LINALG, *REFUSED_SYSTEMS, *SHIFTS, *DECOMPOSED, *TRANSFORMED, *OTHERS, "factorized", "spsolve"}
    assert functions(iv.linalg) | functions(iv.fft) <= known


def test_factors_are_of_sparse_tensors():
    with pytest.raises(iv.errors.ArgumentTypeError, match=r"to_tensor\(fill\)"):
        iv.linalg.factorized(tensor(np.eye(3), np.ones((3, 3), bool), "csr"))


@pytest.mark.parametrize(("name", "layout"), paired(ELEMENTWISE, LAYOUTS))
def test_elementwise(name, layout):
    """At the entries that both specify, the plain function's values (whose own oracle is NumPy)."""
    function, arity = getattr(iv, name), ELEMENTWISE[name]
    values = [VALUES, VALUES[::-1] + 0.01][:arity]
    if name == "acosh":
        values = [v + 1 for v in values]
    if "bitwise" in name:
        values = [(v * 16).astype(int) for v in values]
    masks = [MASK, OTHER][:arity]
    found = function(*(tensor(v, m, layout) for v, m in zip(values, masks, strict=True)))
    expected = function(*map(iv.asarray, values)).numpy()
    assert_same(found, ma.MaskedArray(expected, ~np.logical_and.reduce(masks)))
    if arity == 2:
        row = iv.asarray(values[1][:1])
        both = function(tensor(values[0], MASK, layout), row)
        assert_same(both, ma.MaskedArray(function(iv.asarray(values[0]), row).numpy(), ~MASK))


@pytest.mark.parametrize(("name", "layout"), paired(VALUE, LAYOUTS))
def test_values(name, layout):
    ours, theirs = VALUE[name]
    assert_same(ours(tensor(VALUES, MASK, layout)), theirs(of_numpy(VALUES, MASK)))


@pytest.mark.parametrize(("name", "layout"), by_turns(itertools.product(VALUE, ["strided", "csr"]), 9))
def test_values_compiled(name, layout):
    """In machine code alone."""
    ours, theirs = VALUE[name]
    compiled, m = iv.jit(ours), tensor(VALUES, MASK, layout)
    assert_same(compiled(m), theirs(of_numpy(VALUES, MASK)))
    (entry,) = compiled._entries.values()
    assert all(isinstance(step, Native) for step in entry.compiled._program.steps)


#: What a mask that is computed cannot give: a layout that stores its entries.
OF_COMPUTED = {"to_layout", "to_sparse"}


@pytest.mark.parametrize("name", by_turns(VALUE, 6, 1))
def test_values_where_the_mask_is_an_argument(name):
    """Compiled once for all masks, in machine code alone; and of a mask for each example, mapped."""
    ours, theirs = VALUE[name]
    masks = [MASK, OTHER, np.ones_like(MASK)]
    compiled = iv.jit(lambda x, mask: ours(iv.masked_tensor(x, mask)))
    if name in OF_COMPUTED:
        with pytest.raises(iv.errors.IversonError, match=r"test_namespace\.py:\d+|to_tensor\(fill\)"):
            compiled(with_garbage(VALUES, MASK), MASK)
        return
    given = [with_garbage(VALUES, m) for m in masks]
    with np.errstate(all="ignore"):
        mapped = iv.vmap(lambda x, mask: ours(iv.masked_tensor(x, mask)))(np.stack(given), np.stack(masks))
    for k, (x, mask) in enumerate(zip(given, masks, strict=True)):
        expected = theirs(of_numpy(VALUES, mask))
        assert_same(compiled(x, mask), expected)
        assert_same(mapped[k], expected)
    (entry,) = compiled._entries.values()
    assert all(isinstance(step, Native) for step in entry.compiled._program.steps)


@pytest.mark.parametrize("layout", some("covariances", ["strided", "csr"]))
def test_covariances_compile_and_differentiate(layout):
    m = tensor(VALUES, MASK, layout)
    assert_same(iv.jit(lambda m: iv.cov(m, correction=0))(m), ma.cov(of_numpy(VALUES, MASK), ddof=0))
    leaf = m.detach().requires_grad_()
    assert gradcheck(lambda m: iv.cov(m, correction=0).to_tensor(0), (leaf,))
    assert gradgradcheck(lambda m: iv.corrcoef(m[::2]).to_tensor(0), (leaf,), fast=True)


@pytest.mark.parametrize(("name", "layout"), paired(PLAIN, LAYOUTS))
def test_plain_results(name, layout):
    ours, theirs = PLAIN[name]
    found = ours(tensor(VALUES, MASK, layout))
    assert isinstance(found, iv.Tensor)
    np.testing.assert_array_equal(found.to_dense().numpy(), theirs(of_numpy(VALUES, MASK)))


@pytest.mark.parametrize(("name", "layout"), paired({**REFUSED, **REFUSED_SYSTEMS}, LAYOUTS))
def test_refused(name, layout):
    with pytest.raises(iv.errors.IversonError, match=r"MaskedTensor.*to_tensor\(fill\)"):
        {**REFUSED, **REFUSED_SYSTEMS}[name](tensor(SQUARE, HOLES, layout))


@pytest.mark.parametrize(("name", "layout"), paired({**LINALG, **SHIFTS}, LAYOUTS))
def test_linear_algebra_by_entries(name, layout):
    ours, theirs = {**LINALG, **SHIFTS}[name]
    found, a = ours(tensor(SQUARE, HOLES, layout)), of_numpy(SQUARE, HOLES)
    if theirs is None:
        x, y = a, a[::-1]
        theirs = [x[:, i] * y[:, j] - x[:, j] * y[:, i] for i, j in ((1, 2), (2, 0), (0, 1))]
        assert_same(found, ma.stack(theirs, axis=1))
    else:
        assert_same(found, theirs(a))


DECOMPOSED = {
    "cholesky": np.linalg.cholesky,
    "cond": np.linalg.cond,
    "logdet": lambda a: np.linalg.slogdet(a)[1],
    "logm": scipy.linalg.logm,
    "lu": scipy.linalg.lu,
    "lu_factor": lambda a: (None, np.arange(3)),
    "matrix_exp": scipy.linalg.expm,
    "sqrtm": scipy.linalg.sqrtm,
    "lstsq": lambda a: (np.linalg.solve(a, a + 1), np.zeros(3), 3, np.linalg.svd(a)[1]),
    "det": np.linalg.det,
    "eig": lambda a: (np.linalg.eigvals(a), None),
    "eigh": lambda a: (np.linalg.eigvalsh(a), None),
    "eigvals": np.linalg.eigvals,
    "eigvalsh": np.linalg.eigvalsh,
    "inv": np.linalg.inv,
    "matrix_rank": np.linalg.matrix_rank,
    "pinv": np.linalg.pinv,
    "qr": lambda a: (None, None),
    "slogdet": np.linalg.slogdet,
    **dict.fromkeys(("bicgstab", "cg", "gmres", "minres", "solve"), lambda a: np.linalg.solve(a, a + 1)),
    "eigsh": lambda a: (np.linalg.eigvalsh(a)[1:], None),
    "lobpcg": lambda a: (np.linalg.eigvalsh(a)[2:], None),
    "svd": lambda a: (None, np.linalg.svd(a)[1], None),
    "svdvals": lambda a: np.linalg.svd(a)[1],
}
TRANSFORMED = {
    name: getattr(np.fft, name)
    for name in ("fft", "fftn", "hfft", "ifft", "ifftn", "ihfft", "irfft", "irfftn", "rfft", "rfftn")
}


@pytest.mark.parametrize(("name", "layout"), paired({**DECOMPOSED, **TRANSFORMED}, LAYOUTS))
def test_what_needs_every_entry(name, layout):
    """An error where some entry does not exist, the plain value where all do."""
    function = getattr(iv.linalg if name in DECOMPOSED else iv.fft, name)
    oracle = {**DECOMPOSED, **TRANSFORMED}[name]
    columns = name in ("bicgstab", "cg", "gmres", "lstsq", "minres", "solve")
    more = (lambda x: (x + 1,)) if columns else lambda x: (2,) * (name == "eigsh")
    m = tensor(SQUARE, HOLES, layout)
    with pytest.raises(iv.errors.ArgumentTypeError, match=r"got a MaskedTensor with 2 un.*to_tensor\(fill\)"):
        function(m, *more(m))
    m = tensor(SQUARE, np.ones((3, 3), bool), layout)
    found, expected = function(m, *more(m)), oracle(SQUARE)
    found, expected = (x if isinstance(x, tuple) else (x,) for x in (found, expected))
    for x, y in zip(found, expected, strict=True):
        assert isinstance(x, iv.MaskedTensor)
        if y is not None:
            np.testing.assert_allclose(x.to_tensor(0).numpy(), y, rtol=1e-10, atol=1e-12)
