"""The LU decomposition with partial pivoting."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.errors import ShapeError
from iverson.core.op import Op, Sample
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.region import Region
from iverson.core.table import define
from iverson.ops.linear_algebra.decomposition_ops import _columns, _full_rank, _lapack, _substituted
from iverson.ops.linear_algebra.product_ops import cut
from iverson.ops.rules.batching import leading
from iverson.ops.rules.entry_maps import Batchwise


def _lu(x: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """L, U and the row numbers ``rows`` with x[rows] = L U."""
    from scipy.linalg import lu

    dtype = dtypes.to_inexact(x.dtype)
    if not x.size:  # SciPy forgets the order of rows without columns
        *batch, m, n = x.shape
        k, rows = min(m, n), np.broadcast_to(np.arange(m, dtype=np.int64), (*batch, m))
        return np.zeros((*batch, m, k), dtype), np.zeros((*batch, k, n), dtype), rows.copy()
    to, lower, upper = lu(x, p_indices=True, check_finite=False)  # x = (L U)[to]
    places = np.asarray(to).reshape(x.shape[:-1])
    return (
        np.asarray(lower, dtype),
        np.asarray(upper, dtype),
        np.argsort(places, axis=-1).astype(np.int64, copy=False),
    )


def _abstract(x: Shaped) -> tuple[Aval, Aval, Aval]:
    if x.ndim < 2:
        raise ShapeError("lu", "x", got=f"shape {x.shape}", expected="at least two axes")
    *batch, m, n = x.shape
    k, dtype = min(m, n), dtypes.to_inexact(x.dtype)
    return Aval((*batch, m, k), dtype), Aval((*batch, k, n), dtype), Aval((*batch, m), np.dtype(np.int64))


def _index(rows: Value) -> tuple[Any, ...]:
    """Index arrays that take the ``rows`` of each matrix of a batch."""
    batch = rows.shape[:-1]
    places = [np.arange(n).reshape((n,) + (1,) * (len(batch) - k)) for k, n in enumerate(batch)]
    return (*places, rows)


def _first(F: Namespace, x: Value, start: int, stop: int) -> Any:
    """The rows of x from ``start`` to ``stop``."""
    lead, columns = x.shape[:-2], x.shape[-1]
    return cut(F, x, Region((*(0,) * len(lead), start, 0), (*lead, stop, columns)))


def _right(F: Namespace, x: Value, triangular: Value, *, lower: bool) -> Any:
    """The solution X T^-H of a triangular system from the right; ``lower`` says which triangle T has."""
    return F.mH(_substituted(F, triangular, F.mH(x), lower=lower))


def _divisor(F: Namespace, u: Value, tall: bool) -> Any:
    """U of an LU decomposition as a divisor: pivots that are 0 to rounding are exactly 0.

    tall : True if there are rows below the square part; only these divide by the last pivot.
    """
    last = np.zeros(u.shape[-2:], bool)
    last[-1:, -1:] = not tall
    return _full_rank(F, F.where(last, 1.0, u))


# Of the k = min(m, n) first rows and columns B of the rows in order, B = L U: with X = L^-1 dB and K the
# strict lower triangle of X U^-1, dL = L K and dU = X - K U. Rows below have L2 = B2 U^-1, columns beyond
# U2 = L^-1 B2.
def _lu_vjp(F: Namespace, g: tuple[Value, ...], y: tuple[Value, ...], x: Value) -> Any:
    """Cotangent of x from those of L and U."""
    (gl, gu, _), (lower, upper, rows) = g, y
    m, n = x.shape[-2:]
    k, beyond = min(m, n), None
    l1, u1, gl1, gu1 = lower, upper, gl, gu
    divisor = _divisor(F, _columns(F, upper, 0, k), m > n)
    if m > n:
        l1, gl1 = _first(F, lower, 0, k), _first(F, gl, 0, k)
        beyond = _right(F, _first(F, gl, k, m), divisor, lower=False)
        gu1 = gu - F.matmul(F.mH(_first(F, lower, k, m)), beyond)
    if n > m:
        u1, gu1 = _columns(F, upper, 0, k), _columns(F, gu, 0, k)
        beyond = _substituted(F, F.mH(lower), _columns(F, gu, k, n), lower=False)
        gl1 = gl - F.matmul(beyond, F.mH(_columns(F, upper, k, n)))
    gu1 = F.triu(gu1, k=0)
    inner = F.tril(F.matmul(F.mH(l1), gl1) - F.matmul(gu1, F.mH(u1)), k=-1)
    cotangent = _substituted(F, F.mH(l1), gu1 + _right(F, inner, divisor, lower=False), lower=False)
    if beyond is not None:
        cotangent = F.concat(cotangent, beyond, axis=x.ndim - 2 if m > n else x.ndim - 1, offsets=(0, k))
    return F.scatter_add(cotangent, *_index(rows), axes=tuple(range(x.ndim - 1)), shape=x.shape)


def _lu_jvp(F: Namespace, t: Value, y: tuple[Value, ...], x: Value) -> Any:
    """Tangents of L, U and (zero) of the row numbers, from that of x."""
    lower, upper, rows = y
    m, n = x.shape[-2:]
    k = min(m, n)
    t = F.gather(t, *_index(rows), axes=tuple(range(x.ndim - 1)))
    l1, u1 = _first(F, lower, 0, k), _columns(F, upper, 0, k)
    divisor = F.mH(_divisor(F, u1, m > n))
    inner = _substituted(F, l1, _first(F, _columns(F, t, 0, k), 0, k), lower=True)
    strict = F.tril(_right(F, inner, divisor, lower=True), k=-1)
    dl, du = F.matmul(l1, strict), F.triu(inner - F.matmul(strict, u1), k=0)
    if m > n:
        remainder = _first(F, t, k, m) - F.matmul(_first(F, lower, k, m), du)
        dl = F.concat(dl, _right(F, remainder, divisor, lower=True), axis=x.ndim - 2, offsets=(0, k))
    if n > m:
        remainder = _columns(F, t, k, n) - F.matmul(dl, _columns(F, upper, k, n))
        du = F.concat(du, _substituted(F, l1, remainder, lower=True), axis=x.ndim - 1, offsets=(0, k))
    return dl, du, F.zero(rows.shape, rows.dtype)


define(
    Op(
        name="lu",
        forward=_lapack("lu", _lu),
        abstract=_abstract,
        vjp=(_lu_vjp,),
        jvp=(_lu_jvp,),
        entry_map=Batchwise("..->..,..,."),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample((s(shape) + 2 * np.eye(*shape[-2:]),)) for shape in ((3, 3), (4, 2), (2, 2, 3))
        ],
        convention="a pivot that is 0, to rounding, and divided by: inf or nan in the derivative",
    )
)
