"""What users do with a sparse matrix of 10^5 x 10^5: operations that stay small, or are dense by definition.

An operation is a function of the matrix ``s`` and of `Others` of its size; dense it would have 75 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import iverson as iv

N = 100_000
STORED = 20_000


@dataclass(frozen=True)
class Others:
    """Operands beside the matrix: sparse matrices, vectors, thin matrices and places."""

    t: Any
    upper: Any
    row: Any
    column: Any
    thin: Any
    at: Any
    mask: Any


def matrix(seed: int, low: float = -1.0, diagonal: float = 0.0) -> Any:
    """Entries in the first half of the rows alone; the largest of most rows is 0 if ``low`` is negative."""
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, N * N // 2, STORED))
    values = rng.uniform(low, 1.0, keys.size)
    s = iv.sparse_coo_tensor(np.stack(np.divmod(keys, N)), values, (N, N))
    if diagonal:
        s = s + iv.sparse_coo_tensor(np.stack([np.arange(N)] * 2), np.full(N, diagonal), (N, N))
    return s.to_layout("csr")


def others() -> Others:
    rng = np.random.default_rng(9)
    t = matrix(1)
    at = tuple(t.detach().to_layout("coo").indices().numpy()[:, :100])
    return Others(
        t=t,
        upper=iv.triu(matrix(2, diagonal=2.0)),
        row=iv.asarray(rng.uniform(0.5, 1.0, N)),
        column=iv.asarray(rng.uniform(0.5, 1.0, (N, 1))),
        thin=iv.asarray(rng.standard_normal((N, 2))),
        at=at,
        mask=t > 0.5,
    )


ROWS = np.array([5, 0, 49_999, 7, 7])
FEW = np.arange(0, N, 997)


def _assigned(s: Any, key: Any, value: Any) -> Any:
    s = s * 1.0
    s[key] = value
    return s


#: Functions of (s, o) whose results, and gradients in the values of s, are small.
SMALL = {
    "logsumexp": lambda s, o: iv.logsumexp(s, axis=1),
    # elementwise
    "positive": lambda s, o: +s,
    "negative": lambda s, o: -s,
    "abs": lambda s, o: abs(s),
    "sign": lambda s, o: iv.sign(s),
    "square": lambda s, o: iv.square(s),
    "sqrt": lambda s, o: iv.sqrt(abs(s)),
    "sin": lambda s, o: iv.sin(s),
    "tan": lambda s, o: iv.tan(s),
    "tanh": lambda s, o: iv.tanh(s),
    "sinh": lambda s, o: iv.sinh(s),
    "asin": lambda s, o: iv.asin(s),
    "asinh": lambda s, o: iv.asinh(s),
    "atan": lambda s, o: iv.atan(s),
    "atanh": lambda s, o: iv.atanh(0.5 * s),
    "expm1": lambda s, o: iv.expm1(s),
    "log1p": lambda s, o: iv.log1p(0.5 * s),
    "relu": lambda s, o: iv.relu(s),
    "gelu": lambda s, o: iv.gelu(s),
    "silu": lambda s, o: iv.silu(s),
    "erf": lambda s, o: iv.erf(s),
    "floor": lambda s, o: iv.floor(s),
    "ceil": lambda s, o: iv.ceil(s),
    "round": lambda s, o: iv.round(s),
    "trunc": lambda s, o: iv.trunc(s),
    "clip": lambda s, o: iv.clip(s, -0.5, 0.5),
    "real": lambda s, o: iv.real(s),
    "conj": lambda s, o: iv.conj(s),
    "astype": lambda s, o: s.astype("float32"),
    "isnan": lambda s, o: iv.isnan(s),
    "isinf": lambda s, o: iv.isinf(s),
    "greater": lambda s, o: s > 0.5,
    "less": lambda s, o: s < -0.5,
    "not equal": lambda s, o: s != 0.0,
    "power": lambda s, o: s**3,
    "scaled": lambda s, o: 2.0 * s,
    "over a number": lambda s, o: s / 3.0,
    "remainder": lambda s, o: s % 0.3,
    "floor divided": lambda s, o: s // 0.3,
    "plus sparse": lambda s, o: s + o.t,
    "minus sparse": lambda s, o: s - o.t,
    "times sparse": lambda s, o: s * o.t,
    "maximum of two": lambda s, o: iv.maximum(s, o.t),
    "minimum of two": lambda s, o: iv.minimum(s, o.t),
    "where sparse": lambda s, o: iv.where(o.mask, s, o.t),
    "where or zero": lambda s, o: iv.where(s > 0.5, s, 0.0),
    "times row": lambda s, o: s * o.row,
    "times column": lambda s, o: s * o.column,
    "over row": lambda s, o: s / o.row,
    "over column": lambda s, o: s / o.column,
    "times sparse row": lambda s, o: s * o.t[5:6],
    "times sparse column": lambda s, o: s * o.t[:, 5:6],
    "not equal sparse": lambda s, o: s != o.t,
    "greater than sparse": lambda s, o: s > o.t,
    # reductions
    "sum": lambda s, o: s.sum(),
    "row sums": lambda s, o: s.sum(axis=1),
    "column sums": lambda s, o: s.sum(axis=0),
    "kept row sums": lambda s, o: s.sum(axis=1, keepdims=True),
    "mean": lambda s, o: s.mean(),
    "row means": lambda s, o: s.mean(axis=1),
    "column means": lambda s, o: s.mean(axis=0),
    "var": lambda s, o: iv.var(s),
    "row var": lambda s, o: iv.var(s, axis=1),
    "column var": lambda s, o: iv.var(s, axis=0, correction=1),
    "std": lambda s, o: iv.std(s),
    "row std": lambda s, o: iv.std(s, axis=1),
    "column std": lambda s, o: iv.std(s, axis=0, keepdims=True),
    "max": lambda s, o: s.max(),
    "row max": lambda s, o: s.max(axis=1),
    "column max": lambda s, o: s.max(axis=0),
    "kept row max": lambda s, o: s.max(axis=1, keepdims=True),
    "min": lambda s, o: s.min(),
    "row min": lambda s, o: s.min(axis=1),
    "column min": lambda s, o: s.min(axis=0),
    "argmax": lambda s, o: iv.argmax(s),
    "row argmax": lambda s, o: iv.argmax(s, axis=1),
    "column argmax": lambda s, o: iv.argmax(s, axis=0),
    "argmin": lambda s, o: iv.argmin(s),
    "row argmin": lambda s, o: iv.argmin(s, axis=1),
    "column argmin": lambda s, o: iv.argmin(s, axis=0),
    "any": lambda s, o: iv.any(s),
    "row any": lambda s, o: iv.any(s, axis=1),
    "column any": lambda s, o: iv.any(s, axis=0),
    "all": lambda s, o: iv.all(s),
    "row all": lambda s, o: iv.all(s, axis=1),
    "column all": lambda s, o: iv.all(s, axis=0),
    "prod": lambda s, o: iv.prod(s),
    "row prod": lambda s, o: iv.prod(s, axis=1),
    "column prod": lambda s, o: iv.prod(s, axis=0),
    "count nonzero": lambda s, o: iv.count_nonzero(s),
    "row counts": lambda s, o: iv.count_nonzero(s, axis=1),
    "nnz": lambda s, o: s.nnz,
    "frobenius norm": lambda s, o: iv.linalg.matrix_norm(s),
    "norm": lambda s, o: iv.linalg.vector_norm(s),
    "norm of order 1": lambda s, o: iv.linalg.vector_norm(s, ord=1),
    "norm of order 3": lambda s, o: iv.linalg.vector_norm(s, ord=3),
    "largest size": lambda s, o: iv.linalg.vector_norm(s, ord=float("inf")),
    "row norms": lambda s, o: iv.linalg.vector_norm(s, axis=1),
    "column norms": lambda s, o: iv.linalg.vector_norm(s, axis=0),
    "row norms of order 1": lambda s, o: iv.linalg.vector_norm(s, axis=1, ord=1),
    "row norms of order inf": lambda s, o: iv.linalg.vector_norm(s, axis=1, ord=float("inf")),
    "matrix norm of order 1": lambda s, o: iv.linalg.matrix_norm(s, ord=1),
    "matrix norm of order inf": lambda s, o: iv.linalg.matrix_norm(s, ord=float("inf")),
    "trace": lambda s, o: iv.linalg.trace(s),
    "normalised rows": lambda s, o: s / (s.sum(axis=1, keepdims=True) + 3.0),
    # parts
    "entry": lambda s, o: s[3, 4],
    "row": lambda s, o: s[5],
    "last row": lambda s, o: s[-1],
    "column": lambda s, o: s[:, 7],
    "rows": lambda s, o: s[100:2000],
    "columns": lambda s, o: s[:, 100:2000],
    "every third row": lambda s, o: s[::3],
    "reversed": lambda s, o: s[::-1, ::-1],
    "block": lambda s, o: s[10:500, 20:700],
    "new axis": lambda s, o: s[None],
    "chosen rows": lambda s, o: s[ROWS],
    "chosen columns": lambda s, o: s[:, ROWS],
    "taken rows": lambda s, o: iv.take(s, ROWS, axis=0),
    "grid": lambda s, o: s[np.ix_(FEW, FEW)],
    "row and columns": lambda s, o: s[5, FEW],
    "chosen entries": lambda s, o: s[o.at],
    "entries above": lambda s, o: s[s > 0.5],
    "entries of a mask": lambda s, o: s[o.mask],
    "masked rows": lambda s, o: s[iv.asarray(np.arange(N) % 3 == 0)],
    "diagonal": lambda s, o: iv.linalg.diagonal(s),
    "second diagonal": lambda s, o: iv.linalg.diagonal(s, offset=2),
    "tril": lambda s, o: iv.tril(s),
    "triu": lambda s, o: iv.triu(s, k=1),
    "split": lambda s, o: iv.split(s, 2)[1],
    "nonzero": lambda s, o: iv.nonzero(s)[0],
    "sparse mask": lambda s, o: iv.sparse_mask(s, o.t),
    "values": lambda s, o: s.values(),
    # moved
    "transpose": lambda s, o: s.T,
    "reshape": lambda s, o: s.reshape((N // 10, 10 * N)),
    "flat": lambda s, o: s.reshape((N * N,)),
    "flip": lambda s, o: iv.flip(s, axis=0),
    "roll": lambda s, o: iv.roll(s, 3, axis=1),
    "concat rows": lambda s, o: iv.concat([s, o.t]),
    "concat columns": lambda s, o: iv.concat([s, o.t], axis=1),
    "stack": lambda s, o: iv.stack([s, o.t]),
    "pad": lambda s, o: iv.pad(s, 1),
    "pad columns": lambda s, o: iv.pad(s, ((0, 0), (2, 3))),
    "repeated rows": lambda s, o: iv.repeat(s, 2, axis=0),
    "tiled": lambda s, o: iv.tile(s, (2, 1)),
    "differences of rows": lambda s, o: iv.diff(s, axis=0),
    "copy": lambda s, o: iv.asarray(s, copy=True),
    "to coo": lambda s, o: s.to_layout("coo"),
    "to csc": lambda s, o: s.to_layout("csc"),
    "to bsr": lambda s, o: s.to_layout("bsr", blocksize=(2, 2)),
    "zeros like": lambda s, o: iv.zeros_like(s),
    "kron": lambda s, o: iv.kron(s, iv.eye(3, layout="csr")),
    "kron with dense": lambda s, o: iv.kron(s, o.thin[:2]),
    "kron of dense": lambda s, o: iv.kron(o.thin[:2], s),
    "kron of two": lambda s, o: iv.kron(s, s[:10, :90_000]),
    "rows of kron": lambda s, o: iv.kron(s, s[:10, :90_000])[:1000],
    "outer products": lambda s, o: s[:, None] * o.thin[0][:, None],
    "rows by rows": lambda s, o: s[:, :9, None] * s[:, None, :9],
    "broadcast": lambda s, o: iv.broadcast_to(s, (3, N, N)),
    "batch over": lambda s, o: s / o.column[:3, None],
    "larger of batch": lambda s, o: iv.maximum(s[None], iv.stack([o.t, o.t])),
    "batch where": lambda s, o: iv.where(o.column[:2, None] > 0.7, s, 0.0),
    "sparse column times": lambda s, o: s[:, 7:8] * o.t,
    "tensordot of none": lambda s, o: iv.tensordot(s, o.thin[0], axes=0),
    "eye": lambda s, o: s + iv.eye(N, layout="csr"),
    "diagonal matrix": lambda s, o: iv.diag(o.row, layout="csr") @ s,
    "assigned row": lambda s, o: _assigned(s, 5, 2.0 * s[6]),
    "assigned rows": lambda s, o: _assigned(s, np.s_[100:200], 0.0),
    "assigned entry": lambda s, o: _assigned(s, (3, 4), 1.5),
    "assigned row of numbers": lambda s, o: _assigned(s, 5, o.row),
    "assigned chosen rows": lambda s, o: _assigned(s, ROWS[:4], 0.0),
    # products
    "times vector": lambda s, o: s @ o.row,
    "times thin": lambda s, o: s @ o.thin,
    "vector times": lambda s, o: o.row @ s,
    "thin times": lambda s, o: o.thin.mT @ s,
    "times sparse matrix": lambda s, o: s @ o.t,
    "gram": lambda s, o: s @ s.T,
    "power of it": lambda s, o: iv.linalg.matrix_power(s, 2),
    "sampled product": lambda s, o: iv.sampled_matmul(o.thin, o.thin.mT, s) * s,
    "einsum": lambda s, o: iv.einsum("ij,jk->ik", s, o.thin),
    "tensordot": lambda s, o: iv.tensordot(s, o.thin, axes=1),
    "quadratic form": lambda s, o: o.row @ (s @ o.row),
    "triangular solve": lambda s, o: iv.solve_triangular(s + o.upper, o.row, lower=False),
    "solve": lambda s, o: iv.spsolve(iv.triu(s) + o.upper, o.row),
}  # fmt: skip
#: What is nonzero everywhere by definition: warns before anything of the dense size is made.
DENSE = {
    "cos": lambda s, o: iv.cos(s),
    "cosh": lambda s, o: iv.cosh(s),
    "exp": lambda s, o: iv.exp(s),
    "sigmoid": lambda s, o: iv.sigmoid(s),
    "plus one": lambda s, o: s + 1.0,
    "plus row": lambda s, o: s + o.row,
    "minus column": lambda s, o: s - o.column,
    "equal zero": lambda s, o: s == 0.0,
    "not": lambda s, o: iv.logical_not(s),
    "reciprocal": lambda s, o: 1.0 / s,
    "log": lambda s, o: iv.log(s),
    "less than one": lambda s, o: s < 1.0,
    "at least zero": lambda s, o: s >= 0.0,
    "sparse over sparse modulus": lambda s, o: s % o.t,
    "softmax": lambda s, o: iv.softmax(s, axis=1),
    "cumulative sum": lambda s, o: iv.cumulative_sum(s, axis=1),
    "sort": lambda s, o: iv.sort(s, axis=1),
    "argsort": lambda s, o: iv.argsort(s, axis=1),
    "inverse": lambda s, o: iv.linalg.inv(s),
    "svd": lambda s, o: iv.linalg.svdvals(s),
    "assigned ones": lambda s, o: _assigned(s, np.s_[:], 1.0),
    "fft": lambda s, o: iv.fft.fft(s),
    "unique": lambda s, o: iv.unique_values(s),
    "isin": lambda s, o: iv.isin(s, iv.asarray([0.5])),
    "padded with ones": lambda s, o: iv.pad(s, 1, constant_values=1.0),
}  # fmt: skip
