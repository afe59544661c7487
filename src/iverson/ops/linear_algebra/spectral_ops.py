"""Further spectral ops: full bases of SVD and QR, the pseudoinverse, general eigenproblems, values alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.errors import GradientError, ShapeError
from iverson.core.op import Op, Sample, Sampler, Wanted, reading
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.table import define
from iverson.ops.linear_algebra.decomposition_ops import (
    _eigh_abstract,
    _eigh_gauge,
    _full_rank,
    _gaps,
    _hermitian,
    _hermitian_samples,
    _inverse_gaps,
    _lapack,
    _negligible,
    _nonzero,
    _qr_abstract,
    _qr_tall_jvp,
    _qr_tall_vjp,
    _square,
    _substituted,
    _svd_abstract,
    _svd_gauge,
    _svd_jvp,
    _svd_vjp,
    _symmetrized,
)
from iverson.ops.rules.batching import leading
from iverson.ops.rules.entry_maps import Batchwise


# A decomposition with a square Q (or U, V) has columns N of it that x does not determine: any basis of the
# complement of the others will do. A function of their span has a derivative all the same. With P = (A^+)^H,
# N stays orthogonal to the others by dN = -P dA^H N (rows N of a wide A: dN = -N dA^H P), to which any
# N W with a skew W may be added. So grad A = -N gN^H P (-P gN^H N), if the function does not change with
# W: if N^H gN (N gN^H) is Hermitian.
def _complement_vjp(F: Namespace, name: str, g: Value, basis: Value, p: Value, tall: bool) -> Any:
    """Cotangent of the matrix A that comes from g, that of the basis columns A does not determine.

    name : the function of the user, for errors.
    basis : these columns N (rows, unless ``tall``).
    p : the conjugate transpose of the pseudoinverse of A.
    """
    rows, g_rows = (F.mH(basis), F.mH(g)) if tall else (basis, g)
    g = F.free_of_basis(F.matmul(rows, F.mH(g_rows)), g, of=name)
    return -F.matmul(basis, F.matmul(F.mH(g), p)) if tall else -F.matmul(F.matmul(p, F.mH(g)), basis)


def _complement_jvp(F: Namespace, t: Value, basis: Value, p: Value, tall: bool) -> Any:
    """Tangent of the columns (rows, unless ``tall``) that A does not determine; see `_complement_vjp`."""
    return -F.matmul(p, F.matmul(F.mH(t), basis)) if tall else -F.matmul(F.matmul(basis, F.mH(t)), p)


def _free_of_basis(products: NDArray, g: NDArray, *, of: str) -> NDArray:
    """Return g; raise GradientError if the result depends on the choice of basis: ``products`` not Hermitian.

    of : the function of the user, for the error.
    """
    skew = np.abs(products - np.conj(np.swapaxes(products, -1, -2))).max(initial=0)
    eps = np.finfo(g.dtype).eps
    if skew <= max(np.sqrt(eps) * np.abs(g).max(initial=0), 100 * eps) or np.isnan(skew):
        return g.view()
    raise GradientError(
        f"backward of {of}",
        "x",
        got="a function of the single columns that only the square matrix has",
        expected="a function of the space they span: x does not determine the basis of it",
        remedy="read the first min(m, n) columns, or take the others as the projector N @ N.mH",
    )


define(
    Op(
        name="free_of_basis",
        forward=_free_of_basis,
        abstract=lambda products, g, *, of: Aval(g.shape, g.dtype),
        vjp=(None, lambda F, g, _y, _products, _x, *, of: g),
        jvp=(None, lambda F, t, _y, _products, _x, *, of: t),  # the check is of g alone
        entry_map=Batchwise("..,..->.."),
        batch=leading,
        samples=lambda s: [Sample((np.eye(2, dtype=int), s((3, 2))), {"of": "qr"})],
    )
)


def _svd_full(x: NDArray) -> tuple[NDArray, ...]:
    """U, S and V^H like those of `svd`, and a basis: the other columns of U, or the other rows of V^H."""
    u, s, vh = np.linalg.svd(x)
    k = s.shape[-1]
    basis = u[..., k:] if x.shape[-2] > x.shape[-1] else vh[..., k:, :]
    return u[..., :k], s, vh[..., :k, :], basis


def _svd_full_abstract(x: Shaped) -> tuple[Aval, ...]:
    u, s, vh = _svd_abstract(x)
    *batch, m, n = x.shape
    return u, s, vh, Aval((*batch, m, m - n) if m > n else (*batch, n - m, n), u.dtype)


def _conjugate_inverse(F: Namespace, y: tuple[Value, ...]) -> Any:
    """The conjugate transpose of the pseudoinverse, from U, S, V^H."""
    u, s, vh = y[:3]
    s = _nonzero(F, s, max(u.shape[-2], vh.shape[-1]))
    return F.matmul(u / F.expand_dims(s, axis=(s.ndim - 1,)), vh)


def _is_tall(x: Shaped) -> bool:
    """True if matrices have more rows than columns."""
    return bool(x.shape[-2] > x.shape[-1])


def _svd_full_vjp(F: Namespace, g: tuple[Value, ...], y: tuple[Value, ...], _x: Shaped) -> Any:
    complement_part = _complement_vjp(F, "svd", g[3], y[3], _conjugate_inverse(F, y), _is_tall(_x))
    return _svd_vjp(F, g[:3], y[:3], _x) + complement_part


def _svd_full_jvp(F: Namespace, t: Value, y: tuple[Value, ...], _x: Shaped) -> Any:
    basis_dot = _complement_jvp(F, t, y[3], _conjugate_inverse(F, y), _is_tall(_x))
    return *_svd_jvp(F, t, y[:3], _x), basis_dot


def _projected(F: Namespace, basis: Value, tall: bool) -> Any:
    """The projector on the space that the columns (rows, unless ``tall``) of ``basis`` span."""
    return F.matmul(basis, F.mH(basis)) if tall else F.matmul(F.mH(basis), basis)


define(
    Op(
        name="svd_full",
        forward=_lapack("svd_full", _svd_full, finite=True),
        abstract=_svd_full_abstract,
        vjp=(_svd_full_vjp,),
        jvp=(_svd_full_jvp,),
        entry_map=Batchwise("..->..,.,..,.."),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample(
                (s(shape) * 0.3 + np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1),),
                post=lambda F, u, s, vh, basis, tall=shape[-2] > shape[-1]: (
                    *_svd_gauge(F, u, s, vh),
                    _projected(F, basis, tall),
                ),
            )
            for shape in ((4, 2), (2, 2, 3))
        ],
        convention="further columns: GradientError for what is not a function of their span",
    )
)


def _qr_complete(x: NDArray) -> tuple[NDArray, ...]:
    """Q and R like those of `qr`, and the other columns of Q."""
    q, r = np.linalg.qr(x, "complete")
    n = x.shape[-1]
    return q[..., :n], r[..., :n, :], q[..., n:]


def _qr_complete_abstract(x: Shaped) -> tuple[Aval, ...]:
    q, r = _qr_abstract(x)
    *batch, m, n = x.shape
    return q, r, Aval((*batch, m, m - n), q.dtype)


def _qr_complete_vjp(
    F: Namespace, g: tuple[Value, Value, Value], y: tuple[Value, Value, Value], _x: Shaped
) -> Any:
    q, r, basis = y
    p = F.mH(_substituted(F, _full_rank(F, r), F.mH(q), lower=False))
    return _qr_tall_vjp(F, g[0], g[1], q, r) + _complement_vjp(F, "qr", g[2], basis, p, tall=True)


def _qr_complete_jvp(F: Namespace, t: Value, y: tuple[Value, Value, Value], _x: Shaped) -> Any:
    q, r, basis = y
    p = F.mH(_substituted(F, _full_rank(F, r), F.mH(q), lower=False))
    return *_qr_tall_jvp(F, t, q, r), _complement_jvp(F, t, basis, p, tall=True)


define(
    Op(
        name="qr_complete",
        forward=_lapack("qr_complete", _qr_complete),
        abstract=_qr_complete_abstract,
        vjp=(_qr_complete_vjp,),
        jvp=(_qr_complete_jvp,),
        entry_map=Batchwise("..->..,..,.."),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample(
                (s(shape) + 2 * np.eye(*shape[-2:]),),
                post=lambda F, q, r, basis: (q, r, _projected(F, basis, True)),
            )
            for shape in ((4, 2), (2, 3, 2))
        ],
        convention="further columns: GradientError for what is not a function of their span",
    )
)


def _pinv_abstract(x: Shaped, *, rtol: float | NDArray, atol: float | NDArray) -> Aval:
    if x.ndim < 2:
        raise ShapeError("pinv", "x", got=f"shape {x.shape}", expected="at least two axes")
    return Aval((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtypes.to_inexact(x.dtype))


def _pinv(x: NDArray, *, rtol: float | NDArray, atol: float | NDArray) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    limit = np.maximum(rtol * s.max(axis=-1, initial=0), atol)[..., None]
    inverse = np.divide(1, s, out=np.zeros_like(s), where=s > limit)
    return np.conj(np.swapaxes(vh, -1, -2)) @ (inverse[..., None] * np.conj(np.swapaxes(u, -1, -2)))


def _complement(F: Namespace, product: Value) -> Any:
    """I - ``product``, for each matrix."""
    return np.eye(product.shape[-1], dtype=product.dtype) - product


# dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P, where the rank does not change
# (G. H. Golub and V. Pereyra, SIAM J. Numer. Anal. 10, 1973, theorem 4.3).
def _pinv_vjp(
    F: Namespace, g: Value, y: Value, x: Value, *, rtol: float | NDArray, atol: float | NDArray
) -> Any:
    yh, gh = F.mH(y), F.mH(g)
    inside = F.matmul(F.matmul(yh, g), yh)
    left_term = F.matmul(_complement(F, F.matmul(x, y)), F.matmul(gh, F.matmul(y, yh)))
    right_term = F.matmul(F.matmul(F.matmul(yh, y), gh), _complement(F, F.matmul(y, x)))
    return left_term + right_term - inside


def _pinv_jvp(
    F: Namespace, t: Value, y: Value, x: Value, *, rtol: float | NDArray, atol: float | NDArray
) -> Any:
    yh, th = F.mH(y), F.mH(t)
    inside = F.matmul(F.matmul(y, t), y)
    left_term = F.matmul(F.matmul(y, F.matmul(yh, th)), _complement(F, F.matmul(x, y)))
    right_term = F.matmul(_complement(F, F.matmul(y, x)), F.matmul(th, F.matmul(yh, y)))
    return left_term + right_term - inside


define(
    Op(
        name="pinv",
        forward=_lapack("pinv", _pinv, finite=True),
        abstract=_pinv_abstract,
        vjp=(_pinv_vjp,),
        jvp=(_pinv_jvp,),
        entry_map=Batchwise("..->.."),
        batch=leading,
        samples=lambda s: [
            Sample((s(shape) + np.eye(*shape[-2:]),), {"rtol": 1e-12, "atol": 0.0})
            for shape in ((3, 2), (2, 2, 3))
        ],
    )
)


def _eig(x: NDArray) -> tuple[NDArray, NDArray]:
    w, v = np.linalg.eig(x)
    dtype = dtypes.complex_of(dtypes.to_inexact(x.dtype))
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


def _eig_abstract(x: Shaped) -> tuple[Aval, Aval]:
    _square("eig", x)
    dtype = dtypes.complex_of(dtypes.to_inexact(x.dtype))
    return Aval(x.shape[:-1], dtype), Aval(x.shape, dtype)


# A V = V w with columns of length 1: with P = V^-1 dA V, dw = diag(P) and dV = V M - V diag(Re(V^H V M)),
# M = P / gaps off the diagonal; equal eigenvalues have no derivative (C. Boeddeker et al., arXiv:1701.00392).
def _eig_vjp(F: Namespace, g: tuple[Value, Value], y: tuple[Value, Value], _x: Shaped) -> Any:
    (gw, gv), (w, v) = g, y
    vh = F.mH(v)
    inner = F.matmul(vh, gv)
    lengths = F.real(F.diagonal(inner, offset=0))
    inner = inner - F.matmul(vh, v) * F.expand_dims(lengths, axis=(lengths.ndim - 1,))
    inner = inner * F.conj(_inverse_gaps(F, w, F.positive)) + F.diag(gw)
    return F.solve(vh, F.matmul(inner, vh))


def _eig_jvp(F: Namespace, t: Value, y: tuple[Value, Value], _x: Shaped) -> Any:
    w, v = y
    p = F.solve(v, F.matmul(t, v))
    v_dot = F.matmul(v, p * _inverse_gaps(F, w, F.positive))
    lengths = F.real(F.diagonal(F.matmul(F.mH(v), v_dot), offset=0))
    return F.diagonal(p, offset=0), v_dot - v * F.expand_dims(lengths, axis=(lengths.ndim - 1,))


define(
    Op(
        name="eig",
        forward=_lapack("eig", _eig, finite=True),
        abstract=_eig_abstract,
        vjp=(_eig_vjp,),
        jvp=(_eig_jvp,),
        entry_map=Batchwise("..->.,.."),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample((s(shape) * 0.3 + np.diag(np.arange(shape[-1]) * 2.0),), post=_eigh_gauge)
            for shape in ((3, 3), (2, 2, 2))
        ],
    )
)


# Values alone: cheaper than with vectors, which only derivatives ask for. Those divide by no gap, so that a
# symmetric function of values that repeat has its derivative. The gradient of f(w(x)), with g = f'(w), is one
# op: V diag(g) V^H, or U diag(g) V^H. Its derivative in x divides g[j] - g[i] by w[j] - w[i]. At equal values
# that is 0 where g is equal and stays so, if no derivative in g is asked for in the same call: f is linear in
# these values, as a trace is. Of another f it is a second derivative, which g does not tell.
def _over(F: Namespace, a: Value, b: Value, scale: Value, size: int, constant: bool) -> Any:
    """The quotient a / b, and nan where b is 0 to rounding relative to ``scale``.

    constant : True if a is constant: then the quotient is 0 where b is 0 to rounding and a is 0.
    """
    if not scale.shape[-1]:  # there are no quotients
        return a
    nothing = _negligible(F, b, scale, size)
    quotient = a / F.where(nothing, np.nan, b)
    if not constant:
        return quotient
    zero = F.logical_and(nothing, F.equal(a, 0))
    return F.where(zero, F.sqrt(F.where(zero, a, 1.0)), quotient)  # a root: in a there is no derivative


def _divided_differences(F: Namespace, g: Value, w: Value, constant: bool) -> Any:
    """The matrix (g[j] - g[i]) / (w[j] - w[i]), with 0 on the diagonal; ``constant`` is as for `_over`."""
    k = w.shape[-1]
    return F.where(np.eye(k, dtype=bool), 0.0, _over(F, _gaps(F, g), _gaps(F, w), w, k, constant))


def _sums(F: Namespace, w: Value) -> Any:
    """The matrix w[i] + w[j] at row i and column j."""
    return F.expand_dims(w, axis=(w.ndim - 1,)) + F.expand_dims(w, axis=(w.ndim,))


def _row(F: Namespace, g: Value) -> Any:
    """Numbers, one for each column, as a row that multiplies the columns."""
    return F.expand_dims(g, axis=(g.ndim - 1,))


def _spectral_abstract(name: str, decomposed: Callable[[Shaped], Aval], x: Shaped, g: Shaped) -> Aval:
    """Aval of a spectral op with the operands x and g; ``decomposed`` gives that of the values of x.

    Raises ShapeError unless g is a row with a number for each value.
    """
    w = decomposed(x)
    if g.shape != (*w.shape[:-1], 1, w.shape[-1]):
        raise ShapeError(name, "g", got=f"shape {g.shape}", expected="a row, a number for each value of x")
    return Aval(x.shape, dtypes.to_inexact(x.dtype))


def _eigen_spectral(x: NDArray, g: NDArray) -> Any:
    v = np.linalg.eigh(_symmetrized(x))[1]
    return (v * g) @ np.conj(np.swapaxes(v, -1, -2))


def _singular_spectral(x: NDArray, g: NDArray) -> Any:
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return (u * g) @ vh


@reading({0: (0, 1), 1: (0,)})
def _eigen_spectral_pullback(
    F: Namespace, wanted: Wanted, c: Value, _y: Shaped, x: Value, g: Value
) -> list[Any]:
    w, v = F.eigh(x)
    inner = F.matmul(F.mH(v), F.matmul(_hermitian(F, c), v))

    def in_x() -> Any:
        scaled = inner * _divided_differences(F, F.squeeze(g, axis=(g.ndim - 2,)), w, 1 not in wanted)
        return F.matmul(v, F.matmul(scaled, F.mH(v)))

    parts = (in_x, lambda: _row(F, F.real(F.diagonal(inner, offset=0))))
    return [parts[i]() for i in wanted]


@reading({0: (0, 1), 1: (0,)})
def _singular_spectral_pullback(
    F: Namespace, wanted: Wanted, c: Value, _y: Shaped, x: Value, g: Value
) -> list[Any]:
    """Cotangents of x and g at the positions in ``wanted``."""
    # With P = U^H C V, the Hermitian part of P is turned as that of eigenvalues, and the skew part has
    # (g[i] + g[j]) / (s[i] + s[j]); what lies outside of the span of U or V has g / s.
    u, s, vh = F.svd(x)
    inner = F.matmul(F.mH(u), F.matmul(c, F.mH(vh)))

    def in_x() -> Any:
        """The cotangent of x."""
        g_values, size = F.squeeze(g, axis=(g.ndim - 2,)), max(x.shape[-2:])
        constant = 1 not in wanted
        sums = _over(F, _sums(F, g_values), _sums(F, s), s, size, constant)
        if x.dtype.kind != "c":
            sums = F.where(np.eye(s.shape[-1], dtype=bool), 0.0, sums)
        hermitian = _hermitian(F, inner)
        scaled = hermitian * _divided_differences(F, g_values, s, constant) + (inner - hermitian) * sums
        cotangent = F.matmul(u, F.matmul(scaled, vh))
        if x.shape[-2] != x.shape[-1]:
            outer = _row(F, _over(F, g_values, s, s, size, constant))
            if _is_tall(x):
                cotangent = cotangent + F.matmul((F.matmul(c, F.mH(vh)) - F.matmul(u, inner)) * outer, vh)
            else:
                cotangent = cotangent + F.matmul(u * outer, F.matmul(F.mH(u), c) - F.matmul(inner, vh))
        return cotangent

    parts = (in_x, lambda: _row(F, F.real(F.diagonal(inner, offset=0))))
    return [parts[i]() for i in wanted]


def _row_for(s: Sampler, *shape: int) -> Any:
    """Random numbers, one for each eigenvalue or singular value of a matrix, as a row."""
    return np.real(s((*shape[:-2], 1, min(shape[-2:]))))


define(
    Op(
        name="eigen_spectral",
        forward=_lapack("eigen_spectral", _eigen_spectral, finite=True),
        abstract=partial(_spectral_abstract, "eigen_spectral", lambda x: _eigh_abstract(x)[0]),
        vjp=_eigen_spectral_pullback,
        entry_map=Batchwise("..,..->.."),
        batch=leading,
        samples=lambda s: [
            Sample((*sample.args, _row_for(s, *sample.args[0].shape))) for sample in _hermitian_samples(s)
        ],
        convention="eigenvalues equal to rounding: nan, but for g that is equal and constant",
    )
)
define(
    Op(
        name="singular_spectral",
        forward=_lapack("singular_spectral", _singular_spectral, finite=True),
        abstract=partial(_spectral_abstract, "singular_spectral", lambda x: _svd_abstract(x)[1]),
        vjp=_singular_spectral_pullback,
        entry_map=Batchwise("..,..->.."),
        batch=leading,
        samples=lambda s: [
            Sample((s(shape) * 0.3 + np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1), _row_for(s, *shape)))
            for shape in ((3, 3), (4, 2), (2, 2, 3))
        ],
        convention="singular values equal or 0 to rounding: nan, but for g that is equal (or 0) and constant",
    )
)


def _eigvalsh_jvp(F: Namespace, t: Value, _y: Shaped, x: Value) -> Any:
    v = F.eigh(x)[1]
    return F.real(F.diagonal(F.matmul(F.mH(v), F.matmul(_hermitian(F, t), v)), offset=0))


def _svdvals_jvp(F: Namespace, t: Value, _y: Shaped, x: Value) -> Any:
    u, _, vh = F.svd(x)
    return F.real(F.diagonal(F.matmul(F.mH(u), F.matmul(t, F.mH(vh))), offset=0))


define(
    Op(
        name="eigvalsh",
        forward=_lapack("eigvalsh", lambda x: np.linalg.eigvalsh(_symmetrized(x)), finite=True),
        abstract=lambda x: _eigh_abstract(x)[0],
        vjp=(lambda F, g, _y, x: F.eigen_spectral(x, _row(F, g)),),
        jvp=(_eigvalsh_jvp,),
        entry_map=Batchwise("..->."),
        batch=leading,
        samples=lambda s: [Sample(sample.args) for sample in _hermitian_samples(s)],
    )
)
define(
    Op(
        name="svdvals",
        forward=_lapack("svdvals", lambda x: np.linalg.svd(x, compute_uv=False), finite=True),
        abstract=lambda x: _svd_abstract(x)[1],
        vjp=(lambda F, g, _y, x: F.singular_spectral(x, _row(F, g)),),
        jvp=(_svdvals_jvp,),
        entry_map=Batchwise("..->."),
        batch=leading,
        samples=lambda s: [
            Sample((s(shape) + np.eye(*shape[-2:]),)) for shape in ((3, 3), (4, 2), (2, 2, 3))
        ],
    )
)
