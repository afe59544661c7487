"""Solve, inverse, determinant, Cholesky, eigh, SVD and QR, on the last two axes with batches before them.

Derivations follow M. B. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008); for the complex SVD, Z.-Q. Wan and S.-X. Zhang, arXiv:1909.02659; for
QR of wide matrices, S. F. Walter and L. Lehmann, arXiv:1001.1654. H is the conjugate transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval, aval_of
from iverson.core.counting.factorisations import FACTORISATIONS
from iverson.core.dispatch import LevelValue, value_of
from iverson.core.entries import Box, Entries, Stored
from iverson.core.errors import DTypeError, LinearAlgebraError, ShapeError
from iverson.core.op import Body, Op, Rule, Sample, Sampler, Wanted, reading
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.python.parameters import positional
from iverson.core.region import Region
from iverson.core.shapes import broadcast_shapes
from iverson.core.table import TABLE, define, definition_hooks
from iverson.layouts import CooPattern, Sparse
from iverson.ops.linear_algebra.product_ops import cut, product_at
from iverson.ops.rules import recurrences
from iverson.ops.rules.batching import Examples, by_matrix, leading
from iverson.ops.rules.entry_maps import Batchwise

#: What iterates to a tolerance, or solves by SciPy's sparse factors, that half precision does not reach.
ITERATIONS = ("iterative_solve", "eigsh", "bordered_solve")


def _of_single(op: Op) -> Op:
    """A factorisation that refuses half precision, as NumPy's and PyTorch's do; any other op unchanged.

    LAPACK has no routine for half precision.
    """
    if op.name not in FACTORISATIONS and op.name not in ITERATIONS:
        return op

    names, _ = positional(op.abstract)

    def abstract(*avals: Shaped, **params: Any) -> Any:
        for k, x in enumerate(avals):
            if dtypes.is_half(x.dtype):
                raise DTypeError(
                    op.name,
                    names[k],
                    got=f"dtype {x.dtype}",
                    expected="float32, float64 or complex: matrices in half precision are not factorised",
                    remedy="convert it with astype(iverson.float32), and the result back",
                )
        return op.abstract(*avals, **params)

    return replace(op, forward=Body(op.forward, op.trapping, op.signals), abstract=abstract)


definition_hooks.append(_of_single)


def _square(name: str, x: Shaped, argument: str = "x") -> None:
    """Raise ShapeError unless ``x`` has square matrices, and DTypeError unless it is numeric."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(name, argument, got=f"shape {x.shape}", expected="square matrices")
    if x.dtype.kind not in "fciub":
        raise DTypeError(name, argument, got=f"dtype {x.dtype}", expected="a numeric dtype")


def solution_abstract(name: str, a: Shaped, b: Shaped, **_: Any) -> Aval:
    """Aval of x with A x = b, for the op ``name``."""
    _square(name, a, "a")
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            name,
            "b",
            got=f"shape {b.shape} for a of shape {a.shape}",
            expected=f"{a.shape[-1]} rows",
        )
    batch = broadcast_shapes(name, a.shape[:-2], b.shape[:-2])
    return Aval((*batch, *b.shape[-2:]), dtypes.to_inexact(dtypes.result_type(a, b)))


def _lapack(name: str, body: Rule, argument: str = "x", finite: bool = False) -> Rule:
    """Body of an op that calls a NumPy routine and turns its LinAlgError into a LinearAlgebraError.

    argument : the name of the matrix in errors.
    finite : True if the entries must be finite. Of inf or nan, LAPACK's iterations for singular values and
        eigenvalues may never end, or end with finite numbers that mean nothing.
    """

    def forward(*args: NDArray, **params: Any) -> Any:
        if finite and not np.isfinite(args[0]).all():
            raise _not_finite(name, argument, args[0])
        try:
            result = body(*args, **params)
        except np.linalg.LinAlgError as error:
            TABLE[name].abstract(*map(aval_of, args), **params)  # a wrong shape is told first
            raise LinearAlgebraError(
                name, argument, got=str(error), expected="a matrix it can decompose"
            ) from None
        return tuple(result) if isinstance(result, tuple) else result

    return forward


def _not_finite(name: str, argument: str, x: NDArray) -> LinearAlgebraError:
    """The error for a matrix with an inf or nan, which names the first such entry."""
    at = tuple(int(k) for k in np.argwhere(~np.isfinite(x))[0])
    return LinearAlgebraError(
        name, argument, got=f"{x[at]} at {at}", expected="finite entries", remedy="find them with isfinite"
    )


def _well(s: Sampler, *shape: int) -> Any:
    """Random square matrices far from singular."""
    return s(shape) + 3 * np.eye(shape[-1])


def _positive(s: Sampler, *shape: int) -> Any:
    """Random Hermitian positive definite matrices."""
    x = s(shape)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])


def solution(call: Rule) -> dict[str, Any]:
    """Fields of an op record (vjp, jvp, linear_in, taylor, batch) for an op that gives x with A x = b.

    A dx = db - dA x. With c = A^-H g: grad b = c, grad A = -c x^H; at a pattern, the product with x^H is
    sampled, as of a product A x.

    call : ``call(F, a, b, **params)`` calls the op. With ``adjoint=True``, ``a`` is A^H, and a preconditioner
        of A in ``params`` is to be replaced by its adjoint.
    """

    @reading({0: (0, "y"), 1: (0,)})
    def pullback(
        F: Namespace, wanted: Wanted, g: Value, y: Value, a: Value, b: Value, **params: Any
    ) -> list[Any]:
        c = call(F, F.mH(a), g, adjoint=True, **params)

        def of_matrix(part: Entries) -> Any:
            cotangent: Any = NotImplemented
            if isinstance(part, Stored):
                cotangent = product_at(F, part.pattern, 0, -c, y, a, y)
            return -F.sum_to(F.matmul(c, F.mH(y)), a.shape) if cotangent is NotImplemented else cotangent

        return [F.sum_to(c, b.shape) if i else of_matrix(part) for i, part in wanted.items()]

    def batched(F: Namespace, examples: Examples, a: Value, b: Value, **params: Any) -> Any:
        # One matrix is factored once for all examples: their right-hand sides are columns of one.
        return by_matrix(F, examples, lambda a, b: call(F, a, b, **params), a, b)

    return {
        "vjp": pullback,
        "jvp": (lambda F, t, y, a, _b, **params: -call(F, a, F.matmul(t, y), **params), None),
        "linear_in": ((1,),),
        "taylor": recurrences.solution(call),
        "batch": batched,
    }


def _solve_taylor(
    F: Namespace, y: recurrences.Coefficients, a: recurrences.Coefficients, b: recurrences.Coefficients
) -> recurrences.Recurrence:
    """Taylor rule of `solve` (see `recurrences.solution`).

    For orders above 0, a dense matrix is factorised once.
    """
    factors: list[Any] = []

    def solve(F: Namespace, a: Value, right: Value) -> Any:
        value = value_of(a, a)
        sparse = value.is_sparse if isinstance(value, LevelValue) else isinstance(value, Sparse)
        if a.ndim > 2 or right.ndim > 2 or sparse:
            return F.solve(a, right)
        if not factors:
            factors.extend(F.lu(a))
        lower, upper, rows = factors
        right = _substituted(F, lower, F.gather(right, rows, axes=(0,)), lower=True)
        return _substituted(F, upper, right, lower=False)

    return recurrences.solution(solve)(F, y, a, b)


define(
    Op(
        name="solve",
        forward=_lapack("solve", np.linalg.solve, "a"),
        abstract=partial(solution_abstract, "solve"),
        **{**solution(lambda F, a, b, adjoint=False: F.solve(a, b)), "taylor": _solve_taylor},
        entry_map=Batchwise("..,.j->.j"),
        samples=lambda s: [
            Sample((_well(s, 3, 3), s((3, 2)))),
            Sample((_well(s, 2, 3, 3), s((3, 1)))),
            Sample((_well(s, 3, 3), s((2, 3, 2)))),
        ],
    )
)


def _inv_abstract(x: Shaped) -> Aval:
    _square("inv", x)
    return Aval(x.shape, dtypes.to_inexact(x.dtype))


define(
    Op(
        name="inv",
        forward=_lapack("inv", np.linalg.inv),
        abstract=_inv_abstract,
        vjp=(lambda F, g, y, _x: -F.matmul(F.mH(y), F.matmul(g, F.mH(y))),),
        jvp=(lambda F, t, y, _x: -F.matmul(y, F.matmul(t, y)),),
        entry_map=Batchwise("..->.."),
        batch=leading,
        samples=lambda s: [Sample((_well(s, 3, 3),)), Sample((_well(s, 2, 2, 2),))],
    )
)


def _det_abstract(x: Shaped) -> Aval:
    _square("det", x)
    return Aval(x.shape[:-2], dtypes.to_inexact(x.dtype))


def _matrices(F: Namespace, g: Value) -> Any:
    """One number per matrix, with two axes of extent 1 behind, to multiply all entries of the matrix."""
    return F.expand_dims(g, axis=(g.ndim, g.ndim + 1))


def _trace_of_product(F: Namespace, a: Value, b: Value) -> Any:
    """The trace of a @ b for each pair of matrices, without the product."""
    return F.sum(a * F.mT(b), axis=(a.ndim - 2, a.ndim - 1), keepdims=False)


def _in_singular_basis(x: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Factors det(U V^H), V, s, U^H of x = U diag(s) V^H, by which adj(x) = det(U V^H) V adj(diag(s)) U^H.

    The singular values of a matrix with an inf or nan, of which LAPACK may not return, are nan.
    """
    finite = np.all(np.isfinite(x), axis=(-2, -1), keepdims=True)
    u, s, vh = np.linalg.svd(x if finite.all() else np.where(finite, x, 0))
    s = np.where(finite[..., 0], s, np.nan)
    phase = np.linalg.det(u) * np.linalg.det(vh)
    return phase[..., None, None], np.conj(np.swapaxes(vh, -1, -2)), s, np.conj(np.swapaxes(u, -1, -2))


def _product_without(s: NDArray, left_out: NDArray) -> Any:
    """Products of the singular values s along the last axis, without those in the mask ``left_out``.

    ``left_out`` has a row of flags for each product.
    """
    return np.prod(np.where(left_out, 1, np.expand_dims(s, tuple(range(-left_out.ndim, -1)))), axis=-1)


def _adjugate(x: NDArray) -> Any:
    phase, v, s, uh = _in_singular_basis(x)
    products = _product_without(s, np.eye(x.shape[-1], dtype=bool))
    return (phase * (v * products[..., None, :]) @ uh).astype(x.dtype, copy=False)


def _adjugate_derivative(x: NDArray, t: NDArray) -> Any:
    # With M = U^H T V: off the diagonal -M[i, j] D[i, j], on it the sum of D[i, j] M[j, j], where D[i, j] is
    # the product of the singular values but for the i-th and the j-th.
    phase, v, s, uh = _in_singular_basis(x)
    eye = np.eye(x.shape[-1], dtype=bool)
    pair_products = np.where(eye, 0, _product_without(s, eye[:, None, :] | eye[None, :, :]))
    m = uh @ t @ v
    inner = -pair_products * m + eye * (pair_products @ np.diagonal(m, axis1=-2, axis2=-1)[..., None])
    return (phase * v @ inner @ uh).astype(np.result_type(x, t), copy=False)


def _third_of_det(F: Namespace, x: Value, t: Value, c: Value) -> Any:
    """G with d tr(C adj'(A)[T]) = tr(G dA), for matrices A = x that have an inverse B.

    The Frechet derivative of the adjugate at A in the direction T is adj'(A)[T]; t is T and c is C.
    """
    b = F.inv(x)
    bt, bc = F.matmul(b, t), F.matmul(b, c)

    def trace(m: Value) -> Any:
        return _matrices(F, F.sum(F.diagonal(m, offset=0), axis=(m.ndim - 2,), keepdims=False))

    product = F.matmul(bt, bc)
    inner = product + F.matmul(bc, bt) - trace(bc) * bt - trace(bt) * bc
    return _matrices(F, F.det(x)) * F.matmul(inner, b) + _matrices(F, F.det(x)) * b * (
        trace(bt) * trace(bc) - trace(product)
    )


def _adjugate_abstract(name: str) -> Rule:
    def abstract(x: Shaped, *t: Shaped) -> Aval:
        _square(name, x)
        return Aval(x.shape, dtypes.to_inexact(dtypes.result_type(x, *t)))

    return abstract


# d det(A) = tr(adj(A) dA), and tr(C adj'(A)[T]) is symmetric in C and T: both exist at singular matrices.
define(
    Op(
        name="det",
        forward=_lapack("det", np.linalg.det),
        abstract=_det_abstract,
        vjp=(lambda F, g, _y, x: _matrices(F, g) * F.mH(F.adjugate(x)),),
        jvp=(lambda F, t, _y, x: _trace_of_product(F, F.adjugate(x), t),),
        entry_map=Batchwise("..->"),
        batch=leading,
        samples=lambda s: [
            Sample((_well(s, 3, 3),)),
            Sample((s((2, 2, 2)),)),
            Sample((s((3, 1)) * s((1, 3)),)),
        ],
        convention="exact at singular matrices, by the adjugate; the third derivative needs an inverse",
    )
)

define(
    Op(
        name="adjugate",
        forward=_lapack("adjugate", _adjugate),
        abstract=_adjugate_abstract("adjugate"),
        vjp=(lambda F, g, _y, x: F.mH(F.adjugate_derivative(x, F.mH(g))),),
        jvp=(lambda F, t, _y, x: F.adjugate_derivative(x, t),),
        entry_map=Batchwise("..->.."),
        batch=leading,
        samples=lambda s: [Sample((_well(s, 3, 3),)), Sample((_well(s, 2, 2, 2),))],
    )
)

define(
    Op(
        name="adjugate_derivative",
        forward=_lapack("adjugate_derivative", _adjugate_derivative),
        abstract=_adjugate_abstract("adjugate_derivative"),
        vjp=(
            lambda F, g, _y, x, t: F.mH(_third_of_det(F, x, t, F.mH(g))),
            lambda F, g, _y, x, _t: F.mH(F.adjugate_derivative(x, F.mH(g))),
        ),
        jvp=(lambda F, e, _y, x, t: _third_of_det(F, x, t, e), None),
        linear_in=((1,),),
        entry_map=Batchwise("..,..->.."),
        batch=leading,
        samples=lambda s: [Sample((_well(s, 3, 3), s((3, 3)))), Sample((_well(s, 2, 2, 2), s((2, 2, 2))))],
    )
)


def _slogdet_abstract(x: Shaped) -> tuple[Aval, Aval]:
    _square("slogdet", x)
    dtype = dtypes.to_inexact(x.dtype)
    return Aval(x.shape[:-2], dtype), Aval(x.shape[:-2], dtypes.real_of(dtype))


def _slogdet_vjp(F: Namespace, g: tuple[Value, Value], y: tuple[Value, Value], x: Value) -> Any:
    # d log det = tr(A^-1 dA) = d log|det| + d sign / sign, and d sign = i sign Im(tr(A^-1 dA)).
    g_sign, g_log = g
    inverse = F.mH(F.inv(x))
    if x.dtype.kind != "c":
        return _matrices(F, g_log) * inverse
    phase_cotangent = F.imag(F.conj(g_sign) * y[0])
    return _matrices(F, g_log - 1j * phase_cotangent) * inverse


#: How many columns of an inverse are made at once where it is read at a pattern.
_COLUMNS = 256


def _slogdet_within(
    F: Namespace,
    _rule: Rule,
    wanted: Box | Stored,
    _i: int,
    g: tuple[Value, Value],
    y: tuple[Value, Value],
    x: Value,
) -> Any:
    """Cotangent of a real matrix at a pattern alone: the transposed inverse there, times that of log|det|.

    The inverse is computed by solves with unit vectors, some columns at a time. The result is NotImplemented
    for other parts and for complex or batched matrices.
    """
    if not isinstance(wanted, Stored) or len(x.shape) != 2 or x.dtype.kind == "c":
        return NotImplemented
    pattern = wanted.pattern
    if pattern.ndim != 2 or pattern.blocksize:
        return NotImplemented
    (rows, columns), n = pattern.coordinates, x.shape[-1]
    order = np.argsort(columns, kind="stable")
    starts = np.searchsorted(columns[order], np.arange(0, n + _COLUMNS, _COLUMNS))
    parts, transposed = [], F.mT(x)
    for first, span in zip(range(0, n, _COLUMNS), map(slice, starts, starts[1:]), strict=False):
        solutions = F.solve(transposed, np.eye(n, dtype=x.dtype)[:, first : first + _COLUMNS])
        places = np.stack([rows[order[span]], columns[order[span]] - first])
        parts.append(F.values_at(solutions, pattern=CooPattern(solutions.shape, places)))
    entries = F.concat(*parts, axis=0, offsets=tuple(map(int, starts[: len(parts)])))
    values = F.gather(entries, np.argsort(order), axes=(0,))
    return F.from_values(values * g[1], pattern=pattern)


def _slogdet_jvp(F: Namespace, t: Value, y: tuple[Value, Value], x: Value) -> Any:
    trace = _trace_of_product(F, F.inv(x), t)
    if x.dtype.kind != "c":
        return F.zero(trace.shape, trace.dtype), trace
    return 1j * y[0] * F.imag(trace), F.real(trace)


define(
    Op(
        name="slogdet",
        forward=_lapack("slogdet", np.linalg.slogdet),
        abstract=_slogdet_abstract,
        vjp=(_slogdet_vjp,),
        jvp=(_slogdet_jvp,),
        vjp_at=_slogdet_within,
        entry_map=Batchwise("..->,"),
        multiple=True,
        batch=leading,
        samples=lambda s: [Sample((_well(s, 3, 3),)), Sample((_well(s, 2, 2, 2),))],
    )
)


def _half_lower(F: Namespace, x: Value) -> Any:
    """The lower triangle with its diagonal halved (Phi in Giles)."""
    return F.tril(x, k=0) - 0.5 * F.diag(F.diagonal(x, offset=0))


def _hermitian(F: Namespace, x: Value) -> Any:
    return 0.5 * (x + F.mH(x))


def _cholesky(x: NDArray) -> NDArray:
    return np.linalg.cholesky(_symmetrized(x))


def _symmetrized(x: NDArray) -> NDArray:
    """(x + x^H) / 2: LAPACK reads one triangle, the derivative is over all entries."""
    return 0.5 * (x + np.conj(np.swapaxes(x, -1, -2)))


def _substituted(F: Namespace, triangular: Value, b: Value, *, lower: bool) -> Any:
    """Solution of a triangular system with right-hand sides ``b``; inf or nan if its matrix is singular."""
    return F.solve_triangular(triangular, b, lower=lower, check=False)


def _cholesky_vjp(F: Namespace, g: Value, y: Value, _x: Shaped) -> Any:
    # A = L L^H: L^-1 dL = Phi(L^-1 dA L^-H), so grad A = herm(L^-H Phi(L^H gL) L^-1).
    inner = _half_lower(F, F.matmul(F.mH(y), g))
    solved = _substituted(F, F.mH(y), inner, lower=False)
    return _hermitian(F, F.mH(_substituted(F, F.mH(y), F.mH(solved), lower=False)))


def _cholesky_jvp(F: Namespace, t: Value, y: Value, _x: Shaped) -> Any:
    solved = _substituted(F, y, _hermitian(F, t), lower=True)
    return F.matmul(y, _half_lower(F, F.mH(_substituted(F, y, F.mH(solved), lower=True))))


def _cholesky_abstract(x: Shaped) -> Aval:
    _square("cholesky", x)
    return Aval(x.shape, dtypes.to_inexact(x.dtype))


define(
    Op(
        name="cholesky",
        forward=_lapack("cholesky", _cholesky),
        abstract=_cholesky_abstract,
        vjp=(_cholesky_vjp,),
        jvp=(_cholesky_jvp,),
        entry_map=Batchwise("..->.."),
        batch=leading,
        samples=lambda s: [Sample((_positive(s, 3, 3),)), Sample((_positive(s, 2, 2, 2),))],
        convention="the matrix is taken as (x + x^H) / 2, so the gradient is Hermitian",
    )
)


def _negligible(F: Namespace, x: Value, scale: Value, size: int) -> Any:
    """Mask of the entries of x, from matrices of extent ``size``, that are 0 to rounding.

    x is compared with the largest of ``scale`` along the last axis. At such an x the derivative has no finite
    value, and a value computed from rounding errors would mean nothing.
    """
    limit = 4 * size * np.finfo(scale.dtype).eps * F.max(F.abs(scale), axis=(scale.ndim - 1,), keepdims=True)
    return F.less_equal(F.abs(x), F.reshape(limit, shape=limit.shape + (1,) * (x.ndim - scale.ndim)))


def _nonzero(F: Namespace, s: Value, size: int) -> Any:
    """Singular values as divisors: those that are 0 to rounding are exactly 0, so quotients are inf or nan.

    size : the larger extent of the matrix.
    """
    return F.where(_negligible(F, s, s, size), 0.0, s) if s.shape[-1] else s


def _inverse_gaps(F: Namespace, w: Value, f: Callable[[Value], Value]) -> Any:
    """Matrix 1 / (f(w)[j] - f(w)[i]), with 0 on the diagonal and inf for w equal to rounding."""
    k = w.shape[-1]
    eye = np.eye(k, dtype=bool)
    equal = _negligible(F, _gaps(F, w), w, k) if k else eye
    gaps = F.where(equal, 0.0, _gaps(F, f(w)))
    return F.where(eye, 0.0, 1 / F.where(eye, 1.0, gaps))


def _gaps(F: Namespace, w: Value) -> Any:
    """The matrix w[j] - w[i] at row i and column j."""
    return F.expand_dims(w, axis=(w.ndim - 1,)) - F.expand_dims(w, axis=(w.ndim,))


def _eigh_vjp(F: Namespace, g: tuple[Value, Value], y: tuple[Value, Value], _x: Shaped) -> Any:
    # A = V w V^H: dw = diag(V^H dA V), V^H dV = (V^H dA V) / gaps off the diagonal.
    (gw, gv), (w, v) = g, y
    rotation = F.matmul(F.mH(v), gv) * _inverse_gaps(F, w, F.positive)
    return _hermitian(F, F.matmul(v, F.matmul(rotation + F.diag(gw), F.mH(v))))


def _eigh_jvp(F: Namespace, t: Value, y: tuple[Value, Value], _x: Shaped) -> Any:
    w, v = y
    inner = F.matmul(F.mH(v), F.matmul(_hermitian(F, t), v))
    dw = F.real(F.diagonal(inner, offset=0))
    return dw, F.matmul(v, inner * _inverse_gaps(F, w, F.positive))


def _eigh_abstract(x: Shaped) -> tuple[Aval, Aval]:
    _square("eigh", x)
    dtype = dtypes.to_inexact(x.dtype)
    return Aval(x.shape[:-1], dtypes.real_of(dtype)), Aval(x.shape, dtype)


def _hermitian_samples(s: Sampler) -> list[Sample]:
    def spread(*shape: int) -> Any:
        # Well separated eigenvalues: the derivative of eigenvectors divides by their gaps.
        return _symmetrized(s(shape)) * 0.3 + np.diag(np.arange(shape[-1]) * 2.0).astype(s.dtype)

    return [Sample((spread(*shape),), post=_eigh_gauge) for shape in ((3, 3), (2, 2, 2))]


def _eigh_gauge(F: Namespace, w: Value, v: Value) -> Any:
    """Eigenvalues and the projectors v_i v_i^H, which the phase of v_i does not change, for tests."""
    columns = F.expand_dims(F.mT(v), axis=(v.ndim,))
    return w, F.matmul(columns, F.mH(columns))


define(
    Op(
        name="eigh",
        forward=_lapack("eigh", lambda x: np.linalg.eigh(_symmetrized(x)), finite=True),
        abstract=_eigh_abstract,
        vjp=(_eigh_vjp,),
        jvp=(_eigh_jvp,),
        entry_map=Batchwise("..->.,.."),
        multiple=True,
        batch=leading,
        samples=_hermitian_samples,
        convention="eigenvalues equal to rounding: inf or nan where gaps divide; taken as Hermitian part",
    )
)


def _svd_abstract(x: Shaped) -> tuple[Aval, Aval, Aval]:
    if x.ndim < 2:
        raise ShapeError("svd", "x", got=f"shape {x.shape}", expected="at least two axes")
    *batch, m, n = x.shape
    k = min(m, n)
    dtype = dtypes.to_inexact(x.dtype)
    real = dtypes.real_of(dtype)
    return (
        Aval((*batch, m, k), dtype),
        Aval((*batch, k), real),
        Aval((*batch, k, n), dtype),
    )


def _svd_vjp(F: Namespace, g: tuple[Value, ...], y: tuple[Value, ...], _x: Shaped) -> Any:
    """Cotangent of x from those of U, S and V^H."""
    # With skew(X) = X - X^H and E[i, j] = s[j]^2 - s[i]^2 off the diagonal, the part inside the singular
    # subspaces is (skew(U^H gU) s + s skew(V^H gV)) / E + diag(gs), for complex A plus the phase term
    # diag(skew(U^H gU)) / (2 s); the parts of gU and gV outside the subspaces are divided by s.
    (gu, gs, gvh), (u, s, vh) = g, y
    v, gv = F.mH(vh), F.mH(gvh)
    uu, vv = F.matmul(F.mH(u), gu), F.matmul(F.mH(v), gv)
    skew_u, skew_v = uu - F.mH(uu), vv - F.mH(vv)
    row, column = F.expand_dims(s, axis=(s.ndim - 1,)), F.expand_dims(s, axis=(s.ndim,))
    inner = (skew_u * row + column * skew_v) * _inverse_gaps(F, s, F.square)
    inner = inner + F.diag(gs)
    m, n = _x.shape[-2:]
    s = _nonzero(F, s, max(m, n))
    if _x.dtype.kind == "c":
        inner = inner + F.diag(F.diagonal(skew_u, offset=0) / (2 * s))
    result, row = F.matmul(u, F.matmul(inner, vh)), F.expand_dims(s, axis=(s.ndim - 1,))
    if m > n:
        result = result + F.matmul((gu - F.matmul(u, uu)) / row, vh)
    if n > m:
        result = result + F.matmul(u / row, gvh - F.matmul(F.mH(vv), vh))
    return result


def _svd_jvp(F: Namespace, t: Value, y: tuple[Value, ...], _x: Shaped) -> Any:
    """Tangents of U, S and V^H from that of x."""
    u, s, vh = y
    v = F.mH(vh)
    row, column = F.expand_dims(s, axis=(s.ndim - 1,)), F.expand_dims(s, axis=(s.ndim,))
    p = F.matmul(F.mH(u), F.matmul(t, v))
    ds = F.real(F.diagonal(p, offset=0))
    inverse = _inverse_gaps(F, s, F.square)
    # U^H dU = (p s + s p^H) / E and V^H dV = (s p + p^H s) / E; the free phase goes to U.
    du = (p * row + column * F.mH(p)) * inverse
    dv = (column * p + F.mH(p) * row) * inverse
    m, n = _x.shape[-2:]
    s = _nonzero(F, s, max(m, n))
    row = F.expand_dims(s, axis=(s.ndim - 1,))
    if _x.dtype.kind == "c":
        du = du + F.diag(1j * F.imag(F.diagonal(p, offset=0)) / s)
    u_dot, v_dot = F.matmul(u, du), F.matmul(v, dv)
    if m > n:
        tv = F.matmul(t, v)
        u_dot = u_dot + (tv - F.matmul(u, F.matmul(F.mH(u), tv))) / row
    if n > m:
        tu = F.matmul(F.mH(t), u)
        v_dot = v_dot + (tu - F.matmul(v, F.matmul(vh, tu))) / row
    return u_dot, ds, F.mH(v_dot)


def _svd_gauge(F: Namespace, u: Value, s: Value, vh: Value) -> Any:
    """Functions of u, s, vh that the common phase of each pair of singular vectors does not change."""
    weights = F.expand_dims(F.cos(s), axis=(s.ndim - 1,))
    return (
        F.matmul(u * weights, vh),
        s,
        F.matmul(u * weights, F.mH(u)),
        F.matmul(F.mH(vh) * weights, vh),
    )


define(
    Op(
        name="svd",
        forward=_lapack("svd", lambda x: np.linalg.svd(x, full_matrices=False), finite=True),
        abstract=_svd_abstract,
        vjp=(_svd_vjp,),
        jvp=(_svd_jvp,),
        entry_map=Batchwise("..->..,.,.."),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample(
                (s(shape) * 0.3 + np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1),),
                post=_svd_gauge,
            )
            for shape in ((3, 3), (4, 2), (2, 2, 3))
        ],
        convention="singular values equal, or 0, to rounding: inf or nan in what divides by gaps or by them",
    )
)


def _qr_abstract(x: Shaped) -> tuple[Aval, Aval]:
    if x.ndim < 2:
        raise ShapeError("qr", "x", got=f"shape {x.shape}", expected="at least two axes")
    *batch, m, n = x.shape
    k = min(m, n)
    dtype = dtypes.to_inexact(x.dtype)
    return Aval((*batch, m, k), dtype), Aval((*batch, k, n), dtype)


def _columns(F: Namespace, x: Value, start: int, stop: int) -> Any:
    """The columns of x from ``start`` to ``stop``."""
    shape = x.shape
    return cut(F, x, Region((*(0,) * (x.ndim - 1), start), (*shape[:-1], stop)))


def _full_rank(F: Namespace, r: Value) -> Any:
    """R of a QR decomposition as a divisor: diagonal entries that are 0 to rounding are exactly 0.

    An entry is compared with the length of its column.
    """
    if not r.shape[-1]:
        return r
    diagonal = F.diagonal(r, offset=0)
    small = _negligible(F, F.expand_dims(diagonal, axis=(diagonal.ndim,)), F.mT(r), r.shape[-1])
    return r - F.diag(F.where(F.squeeze(small, axis=(small.ndim - 1,)), diagonal, 0.0))


def _qr_tall_vjp(F: Namespace, gq: Value, gr: Value, q: Value, r: Value) -> Any:
    # With M = gR R^H - Q^H gQ: gA = (gQ + Q copy(M)) R^-H, where copy(M) is the Hermitian matrix with the
    # upper triangle of M and the real part of its diagonal.
    m = F.matmul(gr, F.mH(r)) - F.matmul(F.mH(q), gq)
    upper = F.triu(m, k=0)
    doubled = upper + F.mH(upper)
    copied = doubled - F.diag(0.5 * F.diagonal(doubled, offset=0))
    rhs = gq + F.matmul(q, copied)
    return F.mH(_substituted(F, _full_rank(F, r), F.mH(rhs), lower=False))


def _qr_vjp(F: Namespace, g: tuple[Value, Value], y: tuple[Value, Value], x: Value) -> Any:
    (gq, gr), (q, r) = g, y
    m, n = x.shape[-2:]
    if m >= n:
        return _qr_tall_vjp(F, gq, gr, q, r)
    # Wide: A = [X Y], Q R1 = X, R2 = Q^H Y; the gradient through R2 joins that of Q.
    tail, gr_tail = _columns(F, x, m, n), _columns(F, gr, m, n)
    gx = _qr_tall_vjp(F, gq + F.matmul(tail, F.mH(gr_tail)), _columns(F, gr, 0, m), q, _columns(F, r, 0, m))
    return F.concat(gx, F.matmul(q, gr_tail), axis=x.ndim - 1, offsets=(0, m))


def _qr_tall_jvp(F: Namespace, t: Value, q: Value, r: Value) -> Any:
    # With B = Q^H dA R^-1: Q^H dQ = W is skew with the strict lower triangle of B, dR = (B - W) R.
    t_r = F.mH(_substituted(F, F.mH(_full_rank(F, r)), F.mH(t), lower=True))
    b = F.matmul(F.mH(q), t_r)
    lower = F.tril(b, k=-1)
    w = lower - F.mH(lower)
    if q.dtype.kind == "c":
        w = w + F.diag(1j * F.imag(F.diagonal(b, offset=0)))
    dr = F.matmul(b - w, r)
    dq = F.matmul(q, w) + t_r - F.matmul(q, b)
    return dq, dr


def _qr_jvp(F: Namespace, t: Value, y: tuple[Value, Value], x: Value) -> Any:
    q, r = y
    m, n = x.shape[-2:]
    if m >= n:
        return _qr_tall_jvp(F, t, q, r)
    dq, dr1 = _qr_tall_jvp(F, _columns(F, t, 0, m), q, _columns(F, r, 0, m))
    dr2 = F.matmul(F.mH(dq), _columns(F, x, m, n)) + F.matmul(F.mH(q), _columns(F, t, m, n))
    return dq, F.concat(dr1, dr2, axis=x.ndim - 1, offsets=(0, m))


define(
    Op(
        name="qr",
        forward=_lapack("qr", np.linalg.qr),
        abstract=_qr_abstract,
        vjp=(_qr_vjp,),
        jvp=(_qr_jvp,),
        entry_map=Batchwise("..->..,.."),
        multiple=True,
        batch=leading,
        samples=lambda s: [
            Sample((s(shape) + 2 * np.eye(*shape[-2:]),)) for shape in ((3, 3), (4, 2), (2, 2, 3))
        ],
        convention="a matrix without full rank, to rounding: inf or nan in the derivative",
    )
)
