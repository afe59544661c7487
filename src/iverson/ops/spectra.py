"""More of a matrix's spectrum: its values alone, the general eigenproblem, the pseudoinverse, full bases."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.errors import ShapeError
from iverson.core.op import Abstract, Op, Sample
from iverson.core.table import define
from iverson.ops.linalg import (
    _eigh_abstract,
    _eigh_gauge,
    _eigh_jvp,
    _gaps,
    _hermitian_samples,
    _lapack,
    _off_diagonal_inverse,
    _square,
    _svd_abstract,
    _svd_jvp,
    _symmetrized,
)


def _without_rule(name: str, body: Any, shapes: Any) -> None:
    """A decomposition whose extra columns x does not determine: a value, without a derivative."""

    def abstract(x: Any) -> tuple[Abstract, ...]:
        dtype = dtypes.to_inexact(x.dtype)
        real = dtypes.real_of(dtype)
        return tuple(
            Abstract((*x.shape[:-2], *s), real if len(s) == 1 else dtype) for s in shapes(*x.shape[-2:])
        )

    define(
        Op(
            name=name,
            forward=_lapack(name, body),
            abstract=abstract,
            multiple=True,
            samples=lambda s: [Sample((s((3, 2)),)), Sample((s((2, 2, 3)),))],
        )
    )


_without_rule("svd_full", np.linalg.svd, lambda m, n: ((m, m), (min(m, n),), (n, n)))
_without_rule("qr_complete", lambda x: np.linalg.qr(x, "complete"), lambda m, n: ((m, m), (m, n)))


def _pinv_abstract(x: Any, *, rtol: float) -> Abstract:
    if x.ndim < 2:
        raise ShapeError("pinv", "x", got=f"shape {x.shape}", expected="at least two axes")
    return Abstract((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtypes.to_inexact(x.dtype))


def _complement(F: Any, product: Any) -> Any:
    """I - product."""
    return np.eye(product.shape[-1], dtype=product.dtype) - product


# dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P, where the rank does not change
# (G. H. Golub and V. Pereyra, SIAM J. Numer. Anal. 10, 1973, theorem 4.3).
def _pinv_vjp(F: Any, g: Any, y: Any, x: Any, *, rtol: float) -> Any:
    yh, gh = F.mH(y), F.mH(g)
    inside = F.matmul(F.matmul(yh, g), yh)
    left = F.matmul(_complement(F, F.matmul(x, y)), F.matmul(gh, F.matmul(y, yh)))
    right = F.matmul(F.matmul(F.matmul(yh, y), gh), _complement(F, F.matmul(y, x)))
    return left + right - inside


def _pinv_jvp(F: Any, t: Any, y: Any, x: Any, *, rtol: float) -> Any:
    yh, th = F.mH(y), F.mH(t)
    inside = F.matmul(F.matmul(y, t), y)
    left = F.matmul(F.matmul(y, F.matmul(yh, th)), _complement(F, F.matmul(x, y)))
    right = F.matmul(_complement(F, F.matmul(y, x)), F.matmul(th, F.matmul(yh, y)))
    return left + right - inside


define(
    Op(
        name="pinv",
        forward=_lapack("pinv", lambda x, *, rtol: np.linalg.pinv(x, rtol=rtol)),
        abstract=_pinv_abstract,
        vjp=(_pinv_vjp,),
        jvp=(_pinv_jvp,),
        samples=lambda s: [
            Sample((s(shape) + np.eye(*shape[-2:]),), {"rtol": 1e-12}) for shape in ((3, 2), (2, 2, 3))
        ],
    )
)


def _eig(x: Any) -> tuple[Any, Any]:
    w, v = np.linalg.eig(x)
    dtype = dtypes.complex_of(dtypes.to_inexact(x.dtype))
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


def _eig_abstract(x: Any) -> tuple[Abstract, Abstract]:
    _square("eig", x)
    dtype = dtypes.complex_of(dtypes.to_inexact(x.dtype))
    return Abstract(x.shape[:-1], dtype), Abstract(x.shape, dtype)


# A V = V w with columns of length 1: with P = V^-1 dA V, dw = diag(P) and dV = V M - V diag(Re(V^H V M)),
# M = P / gaps off the diagonal; equal eigenvalues have no derivative (C. Boeddeker et al., arXiv:1701.00392).
def _eig_vjp(F: Any, g: Any, y: Any, _x: Any) -> Any:
    (gw, gv), (w, v) = g, y
    vh = F.mH(v)
    inner = F.matmul(vh, gv)
    lengths = F.real(F.diagonal(inner, offset=0))
    inner = inner - F.matmul(vh, v) * F.expand_dims(lengths, axis=(lengths.ndim - 1,))
    inner = inner * F.conj(_off_diagonal_inverse(F, _gaps(F, w))) + F.diag(gw)
    return F.solve(vh, F.matmul(inner, vh))


def _eig_jvp(F: Any, t: Any, y: Any, _x: Any) -> Any:
    w, v = y
    p = F.solve(v, F.matmul(t, v))
    turned = F.matmul(v, p * _off_diagonal_inverse(F, _gaps(F, w)))
    lengths = F.real(F.diagonal(F.matmul(F.mH(v), turned), offset=0))
    return F.diagonal(p, offset=0), turned - v * F.expand_dims(lengths, axis=(lengths.ndim - 1,))


define(
    Op(
        name="eig",
        forward=_lapack("eig", _eig),
        abstract=_eig_abstract,
        vjp=(_eig_vjp,),
        jvp=(_eig_jvp,),
        multiple=True,
        samples=lambda s: [
            Sample((s(shape) * 0.3 + np.diag(np.arange(shape[-1]) * 2.0),), post=_eigh_gauge)
            for shape in ((3, 3), (2, 2, 2))
        ],
    )
)


# Values alone: cheaper than with vectors, which only the derivative asks for.
def _eigvalsh_vjp(F: Any, g: Any, _y: Any, x: Any) -> Any:
    v = F.eigh(x)[1]
    return F.matmul(v * F.expand_dims(g, axis=(g.ndim - 1,)), F.mH(v))


def _svdvals_vjp(F: Any, g: Any, _y: Any, x: Any) -> Any:
    u, _, vh = F.svd(x)
    return F.matmul(u * F.expand_dims(g, axis=(g.ndim - 1,)), vh)


define(
    Op(
        name="eigvalsh",
        forward=_lapack("eigvalsh", lambda x: np.linalg.eigvalsh(_symmetrized(x))),
        abstract=lambda x: _eigh_abstract(x)[0],
        vjp=(_eigvalsh_vjp,),
        jvp=(lambda F, t, _y, x: _eigh_jvp(F, t, F.eigh(x), x)[0],),
        samples=lambda s: [Sample(sample.args) for sample in _hermitian_samples(s)],
    )
)
define(
    Op(
        name="svdvals",
        forward=_lapack("svdvals", lambda x: np.linalg.svd(x, compute_uv=False)),
        abstract=lambda x: _svd_abstract(x)[1],
        vjp=(_svdvals_vjp,),
        jvp=(lambda F, t, _y, x: _svd_jvp(F, t, F.svd(x), x)[1],),
        samples=lambda s: [
            Sample((s(shape) + np.eye(*shape[-2:]),)) for shape in ((3, 3), (4, 2), (2, 2, 3))
        ],
    )
)
