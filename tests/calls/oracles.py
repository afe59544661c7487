"""NumPy's or SciPy's function for each public one: that of the same name, but for a few.

Where conventions differ from NumPy's, they are said here once: floats of integers are float64, what is stored
in half precision is computed in single, decompositions are compared by what is unique of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from iverson.core.scalars import SCALARS
from tests.calls.operands import DTYPES, HALVES, Array, dtype_named, each, leaves
from tests.calls.table import Call

Oracle = Callable[..., Any]
#: Where a function of the same name is looked for.
LIBRARIES = {
    "iv": (np, scipy.special),
    "linalg": (np.linalg, scipy.linalg, np),
    "fft": (np.fft,),
    "special": (scipy.special, np),
    "nn": (),
}
RENAMED = {
    "lgamma": "gammaln",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "flatten": "ravel",
    "clone": "copy",
    "gather": "take_along_axis",
    "tensor": "asarray",
    "sigmoid": "expit",
}


def _descending(x: Array, axis: int = -1, descending: bool = False) -> Array:
    """An order in which equal entries stay in order, nan last."""
    if not descending:
        return np.argsort(x, axis=axis, stable=True)
    n = x.shape[axis]
    order = n - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
    if x.dtype.kind not in "fc":
        return order
    missing = np.take_along_axis(np.isnan(x), order, axis)
    return np.take_along_axis(order, np.argsort(missing, axis=axis, stable=True), axis)


def _sorted(x: Array, axis: int = -1, descending: bool = False) -> Array:
    return np.take_along_axis(x, _descending(x, axis, descending), axis)


def _lerp(x: Array, end: Array, weight: Array) -> Array:
    dtype = np.result_type(x, end)
    dtype = dtype if dtype.kind in "fc" else np.dtype(np.float64)
    return x.astype(dtype) + weight * (end.astype(dtype) - x.astype(dtype))


def _diag_embed(x: Array, offset: int) -> Array:
    out = np.zeros((*x.shape[:-1], *[x.shape[-1] + abs(offset)] * 2), x.dtype)
    n = np.arange(x.shape[-1])
    out[..., n + max(-offset, 0), n + max(offset, 0)] = x
    return out


def _topk(x: Array, k: int, axis: int = -1, largest: bool = True) -> Any:
    order = np.take(_descending(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, order, axis), order


def _kthvalue(x: Array, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    order = np.take(_descending(x, axis), [k - 1], axis)
    found = np.take_along_axis(x, order, axis), order
    return found if keepdims else tuple(np.squeeze(y, axis) for y in found)


def _filled(x: Array, axis: int = -1, limit: int | None = None) -> Array:
    """Along an axis the last entry that is there, at most so far back."""

    def line(v: Array) -> Array:
        back = len(v) if limit is None else limit
        return np.array(
            [next((e for e in v[k::-1][: back + 1] if e == e), np.nan) for k in range(len(v))], v.dtype
        )

    return np.apply_along_axis(line, axis, x)


def _filled_back(x: Array, axis: int = -1, limit: int | None = None) -> Array:
    return np.flip(_filled(np.flip(x, axis), axis, limit), axis)


def _put(ufunc: Any) -> Oracle:
    def of(x: Array, at: Array, values: Array, axis: int = -1) -> Array:
        out = x.astype(np.result_type(x, values)) if ufunc is None else x.copy()
        where = list(np.indices(at.shape))
        where[axis] = at
        if ufunc is None:
            out[tuple(where)] = values
        else:
            ufunc.at(out, tuple(where), values)
        return out

    return of


def _index_add(x: Array, at: Array, values: Array, axis: int = 0) -> Array:
    out = np.moveaxis(x.copy(), axis, 0)
    np.add.at(out, at, np.moveaxis(values, axis, 0))
    return np.moveaxis(out, 0, axis)


def _logsumexp(x: Array, axis: Any = None, b: Any = 1, keepdims: bool = False) -> Array:
    x, b = np.broadcast_arrays(x, b)
    return np.log(np.sum(b * np.exp(x), axis=axis, keepdims=keepdims))


def _logcumsumexp(x: Array, axis: int = -1) -> Array:
    return np.logaddexp.accumulate(x, axis)


def _solve_toeplitz(c: Array, b: Array, r: Any = None) -> Array:
    return scipy.linalg.solve_toeplitz(c if r is None else (c, r), b)


def _counted(weights: Any) -> Any:
    return (
        None if weights is None else weights.astype("complex128" if weights.dtype.kind == "c" else "float64")
    )


def _widest(sums: Array, weights: Any) -> Array:
    """Sums of integers in the widest of their kind."""
    if weights is None or weights.dtype.kind in "fc":
        return sums if weights is None else sums.astype(weights.dtype)
    return sums.astype("uint64" if weights.dtype.kind == "u" else "int64")


def _distinct(of_all: Oracle) -> Oracle:
    """The parts of `unique_all` and its like, along an axis too."""
    fields = {"indices": 1, "inverse_indices": 2, "counts": 3}

    def of(x: Array, axis: int | None = None) -> Any:
        found = of_all(x)
        if axis is None:
            return tuple(found)
        along = np.unique(x, True, True, True, axis)
        return [along[0], *(along[fields[name]] for name in found._fields[1:])]

    return of


def _by_segment(of_one: Oracle) -> Oracle:
    return lambda x, ids, count: np.stack([of_one(x[ids == k]) for k in range(count)])


def _softmax_by_segment(x: Array, ids: Array, count: int) -> Array:
    out = np.empty(x.shape, np.result_type(x, "float32") if x.dtype.kind in "fc" else float)
    for k in range(count):
        out[ids == k] = scipy.special.softmax(x[ids == k], 0)
    return out


def _lu_factor(x: Array) -> Any:
    if not x.size:
        raise ValueError("SciPy drops the dtype")
    factors, exchanges = scipy.linalg.lu_factor(x)
    rows = np.broadcast_to(np.arange(x.shape[-1]), exchanges.shape).copy()
    for at in np.ndindex(exchanges.shape[:-1]):
        for k, other in enumerate(exchanges[at]):
            rows[at][[k, other]] = rows[at][[other, k]]
    return [factors, rows]


def _lu_solve(factors: Any, b: Array, adjoint: bool) -> Array:
    packed, rows = factors
    own = np.linalg.solve(np.eye(1, dtype=packed.dtype), np.ones(1, b.dtype)).dtype
    wide = packed.astype(np.result_type(packed, "float64"))
    matrix = np.empty_like(wide)
    matrix[rows] = (np.tril(wide, -1) + np.eye(len(wide))) @ np.triu(wide)
    return np.linalg.solve(matrix.conj().T if adjoint else matrix, b).astype(own)


def _lu(x: Array) -> Any:
    if not x.size:  # SciPy drops the axes
        return [np.linalg.inv(x)] * 3
    return [r.astype(x.dtype) if x.dtype.kind == "c" else r for r in scipy.linalg.lu(x)]


def _eye(*args: Any, k: int = 0, dtype: Any = float) -> Array:
    return np.eye(*args, k=k, dtype=dtype)


def _of_last(function: Oracle) -> Oracle:
    """A function of the last two axes, which are the first in NumPy."""
    return lambda x, offset=0, **options: function(x, offset, -2, -1, **options)


def _trapezoid(y: Array, x: Any = None, dx: float = 1.0, axis: int = -1) -> Array:
    return np.trapezoid(y, x, dx, axis)


def _gelu(x: Array) -> Array:
    return x * scipy.special.ndtr(x)


def _vector_norm(x: Array, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    size = np.abs(x if x.dtype.kind in "fc" else x.astype(float))
    whole = tuple(range(x.ndim)) if axis is None else axis
    if ord == 0:
        return np.count_nonzero(size, axis=whole, keepdims=keepdims).astype(size.dtype)
    if np.isinf(ord):
        choose = np.max if ord > 0 else np.min
        return choose(
            size, axis=whole, keepdims=keepdims, **({"initial": 0} if not size.size and ord > 0 else {})
        )
    return np.sum(size**ord, axis=whole, keepdims=keepdims) ** (1 / ord)


#: By space and name, or by name.
BY_HAND: dict[str, Oracle] = {
    "sort": _sorted,
    "argsort": _descending,
    "topk": _topk,
    "kthvalue": _kthvalue,
    "ffill": _filled,
    "bfill": _filled_back,
    "cummax": lambda x, axis=-1: np.maximum.accumulate(x, axis),
    "cummin": lambda x, axis=-1: np.minimum.accumulate(x, axis),
    "logcumsumexp": _logcumsumexp,
    "softmax": lambda x, axis=-1: scipy.special.softmax(x, axis),
    "log_softmax": lambda x, axis=-1: scipy.special.log_softmax(x, axis),
    "special.softmax": scipy.special.softmax,
    "special.log_softmax": scipy.special.log_softmax,
    "scatter_add": _put(np.add),
    "scatter": _put(None),
    "index_add": _index_add,
    "masked_fill": lambda x, mask, value: np.where(mask, value, x),
    "diagonal": _of_last(np.diagonal),
    "linalg.trace": _of_last(np.trace),
    "trapezoid": _trapezoid,
    "fill_diagonal": lambda x, value: np.where(np.eye(*x.shape[-2:]) != 0, np.asarray(value, x.dtype), x),
    "diag_embed": lambda x, offset=0: _diag_embed(x, offset),
    "gradient": lambda x, spacing=1.0, axis=None: np.gradient(x, spacing, axis=axis),
    "setdiff1d": lambda a, b: np.setdiff1d(a.astype(np.result_type(a, b)), b),
    "insert": lambda x, i, v, axis=None: np.insert(x.astype(np.result_type(x, v)), i, v, axis),
    "lerp": _lerp,
    "cdist": lambda x1, x2, p=2.0: np.linalg.norm(x1[..., :, None, :] - x2[..., None, :, :], p, -1),
    "dist": lambda x1, x2, p=2.0: np.linalg.norm(np.ravel(x1 - x2), p),
    "view_as_real": lambda x: np.stack([x.real, x.imag], -1),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "eye": _eye,
    "cov": lambda x, correction=1: np.cov(x, ddof=correction),
    "logsumexp": _logsumexp,
    "reciprocal": lambda x: 1 / x,
    **{name: _distinct(getattr(np, name)) for name in ("unique_all", "unique_counts", "unique_inverse")},
    "unique_values": np.unique,
    "segment_sum": _by_segment(lambda x: np.sum(x, 0, dtype=x.dtype)),
    "segment_mean": _by_segment(lambda x: np.mean(x, 0) if len(x) else np.zeros(x.shape[1:])),
    "segment_max": _by_segment(lambda x: np.max(x, 0)),
    "segment_min": _by_segment(lambda x: np.min(x, 0)),
    "segment_prod": _by_segment(lambda x: np.prod(x, 0, dtype=x.dtype)),
    "segment_softmax": _softmax_by_segment,
    "embedding": lambda indices, table: table[indices],
    "linalg.lu_solve": _lu_solve,
    "linalg.eig": lambda x: [np.asarray(r, np.result_type(r, "complex64")) for r in np.linalg.eig(x)],
    "linalg.eigvals": lambda x: np.asarray(w := np.linalg.eigvals(x), np.result_type(w, "complex64")),
    "relu": lambda x: np.maximum(x, 0),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frac": lambda x: x - np.trunc(x),
    "silu": lambda x: x * scipy.special.expit(x) if x.dtype.kind != "c" else x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "gelu": _gelu,
    "sigmoid": lambda x: scipy.special.expit(x) if x.dtype.kind != "c" else 1 / (1 + np.exp(-x)),
    "expit": lambda x: scipy.special.expit(x) if x.dtype.kind != "c" else 1 / (1 + np.exp(-x)),
    "exp2": lambda x: np.exp2(x) if x.dtype.kind != "c" else np.exp(x * math.log(2)),
    "sinc": np.sinc,
    "linalg.solve_toeplitz": _solve_toeplitz,
    "solve_triangular": lambda a, b, trans="N": scipy.linalg.solve_triangular(a, b, trans, lower=True),
    "linalg.cholesky_solve": lambda b, factor: scipy.linalg.cho_solve((factor, True), b),
    "linalg.matrix_exp": scipy.linalg.expm,
    "linalg.logdet": lambda x: np.log(np.linalg.det(x)),
    "linalg.vector_norm": _vector_norm,
    "linalg.qr": lambda x, mode="reduced": np.linalg.qr(x, mode),
    "linalg.block_diag": scipy.linalg.block_diag,
    "linalg.cross": np.cross,
    "bincount": lambda x, weights=None, minlength=0: _widest(
        np.bincount(x, _counted(weights), minlength), weights
    ),
    "histogram": lambda x, bins, weights=None, **o: [
        _widest((r := np.histogram(x, bins, weights=_counted(weights), **o))[0], weights),
        r[1],
    ],
    "linalg.lstsq": np.linalg.lstsq,
    "linalg.pinv": lambda x: np.linalg.pinv(x, hermitian=False) if x.size else np.linalg.inv(x),
    "linalg.svdvals": lambda x: np.linalg.svd(x, compute_uv=False),
    "linalg.lu": _lu,
    "linalg.multi_dot": lambda xs: np.linalg.multi_dot([x.astype(np.result_type(*xs)) for x in xs]),
    "linalg.lu_factor": _lu_factor,
    "linalg.norm": np.linalg.norm,
    "linalg.cond": np.linalg.cond,
}


def _by_value(results: Any) -> list[Any]:
    w = results if isinstance(results, np.ndarray) else results[0]
    order = np.lexsort((w.imag.round(6), w.real.round(6)), axis=-1) if w.size else np.zeros(w.shape, int)
    return [np.take_along_axis(w, order, -1)]


#: What of a result is unique, or said: of functions whose results may differ in more.
UNIQUE: dict[str, Callable[[Any], Any]] = {
    "linalg.svd": lambda r: [
        r[1],
        (r[0][..., : r[1].shape[-1]] * r[1][..., None, :]) @ r[2][..., : r[1].shape[-1], :],
    ],
    "linalg.eigh": lambda r: [r[0], (r[1] * r[0][..., None, :]) @ np.conj(np.swapaxes(r[1], -1, -2))],
    "linalg.eig": lambda r: [*_by_value(r), (r[1] * r[0][..., None, :]) @ np.linalg.inv(r[1])],
    "linalg.eigvals": _by_value,
    "linalg.qr": lambda r: [np.abs(np.diagonal(r[1], 0, -2, -1)), r[0] @ r[1]],
    "bincount": lambda x, weights=None, minlength=0: _widest(
        np.bincount(x, _counted(weights), minlength), weights
    ),
    "histogram": lambda x, bins, weights=None, **o: [
        _widest((r := np.histogram(x, bins, weights=_counted(weights), **o))[0], weights),
        r[1],
    ],
    "linalg.lstsq": lambda r: r if isinstance(r, np.ndarray) else r[0],
}


@cache
def oracle_of(space: str, name: str) -> Oracle | None:
    """The function that says what is right; None where nobody has one."""
    found = BY_HAND.get(f"{space}.{name}") or BY_HAND.get(name)
    for library in LIBRARIES[space] if found is None else ():
        found = getattr(library, RENAMED.get(name, name), None)
        if found is not None:
            break
    return found


def promoted(dtypes: tuple[str, ...]) -> str:
    """What dtypes promote to: NumPy's rule, with bfloat16 as its float16, and float32 of both halves."""
    names = set(dtypes)
    if {"float16", "bfloat16"} <= names:
        names = {"float32", *names} - {"float16", "bfloat16"}
    own = "bfloat16" in names
    found = np.result_type(*({"float16" if n == "bfloat16" else n for n in names})).name
    return "bfloat16" if own and found == "float16" else found


#: Functions whose results have each the dtype of an operand.
APART = {"broadcast_arrays", "meshgrid"}
#: Functions whose results are in double precision in NumPy, whatever the operands are: here in theirs.
KEEP_DTYPE = {
    "vander",
    "cov",
    "corrcoef",
    "interp",
    "logsumexp",
    "radian",
    "quantile",
    "nanquantile",
    "percentile",
    "nanpercentile",
    "polygamma",
    "logm",
    "trapezoid",
    "solve_toeplitz",
    "solve_circulant",
    "multigammaln",
    "cholesky_solve",
}


#: Functions whose results of half precision are in single: there are complex numbers on the way.
SINGLE = {"astype", "irfftn", "solve_circulant"}
#: Functions that add up numbers of any dtype.
WEIGHTED = {"bincount", "histogram"}
#: Functions of other functions that take numbers in place of arrays.
OF_NUMBERS = {"fdtr", "fdtrc", "gdtr", "gdtrc", "huber", "pdtr", "pdtrc", "pseudo_huber", "radian"}


class Unknown(Exception):
    """The oracle does not take such a call."""


def expected(call: Call, args: Any, kwargs: Any, dtypes: tuple[str, ...]) -> Any:
    """What a call has to give on arrays: arrays in the right dtype, in the structure of the oracle's results.

    Raises Unknown where there is no oracle of the call.
    """
    function = oracle_of(call.space, call.name)
    if function is None:
        raise Unknown
    own = dtypes[: max(1, min(len(dtypes), len(call.operands)))]
    wide = promoted(own) if call.operands else "float64"
    half = wide in HALVES

    if call.name in APART and len(set(own)) > 1:
        raise Unknown("the results have dtypes of their own")
    if call.name in (*WEIGHTED, "lstsq") and set(own) & set(HALVES):
        raise Unknown("the result has the dtype of the weights, or NumPy has none of halves")
    lasting = {
        id(array)
        for x, array in zip(leaves([call.args, call.kwargs]), leaves([args, kwargs], np.ndarray), strict=True)
        if x.lasting
    }

    def at(*targets: tuple[tuple[str, ...], str]) -> Any:
        """The oracle on numbers, those of some dtypes converted."""

        def convert(x: Array) -> Array:
            is_number = id(x) not in lasting
            if not x.dtype.isnative:  # which some of SciPy's functions do not read
                x = x.astype(x.dtype.newbyteorder("="))
            if is_number:
                for names, target in targets:
                    if x.dtype.name in names:
                        return x.astype(target)
            return x

        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return _arrays(
                    function(*each(convert, args, np.ndarray), **each(convert, kwargs, np.ndarray))
                )
        except Exception as error:
            raise Unknown(str(error)) from error

    is_ufunc = call.name in SCALARS or call.name in OF_NUMBERS
    ints = [d for d in own if dtype_named(d).kind in "iub"]
    result = at((HALVES, "float32"))
    if not call.operands or not any(r.dtype.kind in "fc" for r in leaves([result], np.ndarray)):
        return result
    single = "float32" if half else "float64" if len(ints) == len(own) else wide
    if is_ufunc:
        if not getattr(SCALARS.get(call.name), "orders", 0):  # weak numbers, of which SciPy knows nothing
            args = each(lambda n: np.asarray(n, single), args, (int, float))
        result = at((DTYPES, single))
    elif call.name in KEEP_DTYPE:
        single = promoted(tuple("float64" if d in ints else "float32" if d in HALVES else d for d in own))
        result = at((DTYPES, single))
    elif (len(ints) == len(own) or half) and call.name not in WEIGHTED:
        result = at((DTYPES, single))
    if call.name in KEEP_DTYPE:
        result = each(lambda r: r.astype(single) if r.dtype.kind in "fc" else r, result, np.ndarray)
    if half and "dtype" not in kwargs and not (call.name in SINGLE and kwargs.get("axes") != (1,)):
        result = each(
            lambda r: r.astype(dtype_named(wide)) if r.dtype == np.float32 else r, result, np.ndarray
        )
    return result


def _arrays(tree: Any) -> Any:
    if isinstance(tree, tuple | list):
        return [_arrays(part) for part in tree]
    found = np.asarray(tree)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))
