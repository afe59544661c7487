"""Statistics and numerics of samples: counts, covariances, interpolation, integrals, convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex

import numpy as np

from iverson.array_api.conventions.methods import method, tensor_method
from iverson.array_api.conventions.operands import (
    as_inexact,
    as_operand,
    as_plain,
    cast,
    check_entries,
    check_kind,
    check_range,
    in_single,
)
from iverson.array_api.entries.creation import linspace
from iverson.array_api.entries.indexing import nonzero
from iverson.array_api.entries.joining import concat, diff, stack
from iverson.array_api.entries.manipulation import flip, permute_dims
from iverson.array_api.reduction.reductions import mean
from iverson.array_api.reduction.reductions import sum as _sum
from iverson.array_api.reduction.segments import segment_sum
from iverson.core import dtypes
from iverson.core.dispatch import Wrapper, has_entries, rewrap, unwrap
from iverson.core.errors import ArgumentError, ShapeError, speaking_as
from iverson.core.inputs.arguments import as_real, as_sequence
from iverson.core.shapes import as_int, check_choice, normalize_axis
from iverson.handles import Tensor
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis, NonNegative, Real


@method
def isclose(
    x1: A | ArrayLike,
    x2: A | ArrayLike,
    /,
    *,
    rtol: NonNegative = 1e-5,
    atol: NonNegative = 1e-8,
    equal_nan: bool = False,
) -> A:
    """True where abs(x1 - x2) <= atol + rtol * abs(x2), entry by entry; infinities are close if equal.

    ``equal_nan`` says whether nan is close to nan. Raises ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> isclose(asarray([1., 2.]), asarray([1. + 1e-9, 2.1]))
    iverson.Tensor([ True, False])
    """
    x1, x2 = as_operand(x1, "isclose", "x1"), as_operand(x2, "isclose", "x2")
    common = dtypes.to_inexact(dtypes.result_type(x1, x2))
    x1, x2 = cast(x1, common), cast(x2, common)
    finite = F.logical_and(F.isfinite(x1), F.isfinite(x2))
    here, there = (F.where(finite, x, 0.0) for x in (x1, x2))
    near = F.less_equal(F.abs(here - there), atol + rtol * F.abs(there))
    close = F.logical_or(F.logical_and(finite, near), F.equal(x1, x2))
    if equal_nan:
        close = F.logical_or(close, F.logical_and(F.isnan(x1), F.isnan(x2)))
    return close


@method
def allclose(
    x1: A | ArrayLike,
    x2: A | ArrayLike,
    /,
    *,
    rtol: NonNegative = 1e-5,
    atol: NonNegative = 1e-8,
    equal_nan: bool = False,
) -> A:
    """True if all entries are close, as `isclose` defines it: a bool of rank 0.

    >>> from iverson import asarray
    >>> allclose(asarray([1., 2.]), asarray([1. + 1e-9, 2.]))
    iverson.Tensor(True)
    """
    close = isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return F.all(close, axis=tuple(range(close.ndim)), keepdims=False)


@method
def argwhere(x: Array | ArrayLike, /) -> Tensor:
    """The positions of the nonzero entries in row-major order, a row of an int64 matrix for each.

    Of a MaskedTensor, only specified entries count. Raises ShapeError for rank 0.

    >>> from iverson import asarray
    >>> argwhere(asarray([[0, 3], [4, 0]]))
    iverson.Tensor([[0, 1],
                    [1, 0]])
    """
    x = as_operand(x, "argwhere")
    if not x.ndim:
        raise ShapeError("argwhere", "x", got="rank 0", expected="at least one axis")
    with speaking_as("argwhere"):
        return stack(nonzero(x), axis=1)


@tensor_method
def bincount(
    x: Array | ArrayLike, /, *, weights: A | ArrayLike | None = None, minlength: SupportsIndex = 0
) -> A:
    """Number of times that each number occurs in a vector of integers >= 0, or the sum of its weights.

    Parameters
    ----------
    x : a vector of integers.
    weights : a vector as long as x; differentiable in it.
    minlength : the least length of the result, which is one more than the largest number. In a trace or a
        batch, where the numbers are not known, its length: a number that is as large is an IndexingError.

    Raises ArgumentError for negative numbers, ShapeError where the lengths differ, DTypeError, GraphError in
    a trace or a batch without ``minlength``.

    >>> from iverson import asarray
    >>> bincount(asarray([0, 2, 2]))
    iverson.Tensor([1, 0, 2])
    """
    x = as_plain(x, "bincount")
    check_kind(x, "iu", "bincount")
    if x.ndim != 1:
        raise ShapeError("bincount", "x", got=f"shape {x.shape}", expected="a vector")
    least = as_int(minlength, "bincount", "minlength")
    if not 0 <= least < 2**60:
        raise ArgumentError("bincount", "minlength", got=str(least), expected="a number in [0, 2**60)")
    if not least:
        check_entries(
            "bincount", x, decides="how long the result is", remedy="say minlength, which is the length"
        )
    numbers: Any = F.to_numpy(x) if has_entries(x) else x
    readable = has_entries(x) and numbers.size
    if readable and numbers.min() < 0:
        raise ArgumentError("bincount", "x", got=str(numbers.min()), expected="no number below 0")
    count = max(least, int(numbers.max()) + 1 if readable else 0)
    terms = (
        F.astype(x * 0 + 1, dtype=dtypes.int64)
        if weights is None
        else as_plain(weights, "bincount", "weights")
    )
    if terms.shape != x.shape:
        raise ShapeError("bincount", "weights", got=f"shape {terms.shape}", expected=f"shape {x.shape}")
    with speaking_as("bincount", segment_ids="x"):
        return segment_sum(_in_widest(terms), numbers, count)


class HistogramResult(NamedTuple):
    """Result of `histogram`."""

    hist: Tensor
    bin_edges: Tensor


@tensor_method
def histogram(
    x: Array | ArrayLike,
    /,
    bins: SupportsIndex | Array | ArrayLike = 10,
    *,
    range: tuple[float, float] | None = None,
    weights: A | ArrayLike | None = None,
    density: bool = False,
) -> HistogramResult:
    """Number of entries in each bin, or the sum of their weights.

    Parameters
    ----------
    x : a real array; its entries count, whatever their places.
    bins : the number of bins of equal width, or their edges, an increasing vector.
    range : the first and the last edge, with a number of bins; by default the least and the largest entry.
    weights : of x's shape; differentiable in it.
    density : divide by the widths of the bins and the sum, so that the integral is 1.

    A bin holds its left edge, and the last one its right edge too; what is beyond the edges, and nan, does
    not count. Raises ArgumentError for fewer than one bin or a range or edges that decrease, ShapeError where
    weights do not fit, DTypeError for complex x.

    >>> from iverson import asarray
    >>> histogram(asarray([1., 2., 2., 4.]), 3)
    HistogramResult(hist=iverson.Tensor([1, 2, 1]), bin_edges=iverson.Tensor([1., 2., 3., 4.]))
    """
    array = as_plain(x, "histogram")
    check_kind(array, "biuf", "histogram")
    entries = F.reshape(as_inexact(array, "histogram"), shape=(array.size,))
    edges = _edges(entries, bins, range)
    count = edges.shape[0] - 1
    after = F.searchsorted(edges, entries, side="right")
    after = F.where(F.equal(entries, edges[-1]), count, after)
    inside = F.logical_and(F.greater(after, 0), F.less_equal(after, count))
    amounts: Any = F.astype(inside, dtype=dtypes.int64)
    if weights is not None:
        entry_weights = as_plain(weights, "histogram", "weights")
        if entry_weights.shape != array.shape:
            raise ShapeError(
                "histogram", "weights", got=f"shape {entry_weights.shape}", expected=f"shape {array.shape}"
            )
        amounts = _in_widest(F.where(inside, F.reshape(entry_weights, shape=(entry_weights.size,)), 0))
    heights = F.scatter_add(amounts, F.clip(after - 1, 0, count - 1), axes=(0,), shape=(count,))
    if density:
        heights = heights / diff(edges) / _sum(heights)
    return HistogramResult(heights, edges)


def _in_widest(terms: Array) -> Any:
    """The ``terms`` in the dtype for adding them up: integers and bools 64 bits wide, as in `iverson.sum`."""
    wide = {"b": dtypes.int64, "i": dtypes.int64, "u": dtypes.uint64}.get(terms.dtype.kind)
    return terms if wide is None else F.astype(terms, dtype=wide)


def _edges(x: Array, bins: Any, limits: Sequence[Real] | None) -> Any:
    """Edges of the bins of a histogram: ``bins`` itself if it is a vector, else evenly spaced ones.

    limits : the first and the last edge; by default the extrema of ``x``.
    """
    if getattr(bins, "ndim", 0):
        edges: Any = as_inexact(as_plain(bins, "histogram", "bins"), "histogram", "bins")
        if edges.ndim != 1 or edges.shape[0] < 2:
            raise ShapeError("histogram", "bins", got=f"shape {edges.shape}", expected="a vector of edges")
        if has_entries(edges) and (np.diff(F.to_numpy(edges)) < 0).any():
            raise ArgumentError("histogram", "bins", got="edges that decrease", expected="increasing ones")
        return edges
    count = as_int(bins, "histogram", "bins")
    if not 1 <= count < 2**60:
        raise ArgumentError("histogram", "bins", got=str(count), expected="at least one bin")
    if limits is not None:
        ends = as_sequence(limits, "histogram", "range")
        if len(ends) != 2 or not as_real(ends[0], "histogram", "range") <= as_real(
            ends[1], "histogram", "range"
        ):
            raise ArgumentError("histogram", "range", got=str(limits), expected="two numbers in order")
        low, high = (np.asarray(float(end), x.dtype) for end in ends)
    elif x.size:
        low, high = F.min(x, axis=(0,), keepdims=False), F.max(x, axis=(0,), keepdims=False)
    else:
        low, high = np.zeros((), x.dtype), np.ones((), x.dtype)
    is_point = F.equal(low, high)
    return linspace(F.where(is_point, low - 0.5, low), F.where(is_point, high + 0.5, high), count + 1)


@method
@in_single
def cov(
    x: A | ArrayLike,
    y: A | ArrayLike | None = None,
    /,
    *,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | None = None,
    correction: float = 1.0,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
) -> A:
    """The covariance matrix of variables, the rows of x, over observations, its columns.

    Parameters
    ----------
    x : a matrix, or a vector, which is one variable. Of one the result is its variance, of shape ().
    y : further variables of the same observations.
    rowvar : whether rows are variables; if not, columns are.
    bias : divide by the number of observations: a correction of 0.
    ddof : NumPy's name of ``correction``.
    correction : what is subtracted from the number of observations.
    fweights : integers, how often each observation counts.
    aweights : how much each observation counts; differentiable in these too. With weights w of sum W, the
        products of both kinds, a mean is the sum of w * x over W, and sums of products are divided by W -
        correction * sum(w * aweights) / W.

    Of a MaskedTensor, the mean of a variable is over its specified entries, and sums for two variables are
    over those where both are specified: nan where these are not more than the correction,
    unspecified without one. Raises ShapeError for more than two axes and where lengths differ, DTypeError for
    fweights that are not integers, ArgumentError for weights that are known and below 0.

    >>> from iverson import asarray
    >>> cov(asarray([[1., 2., 3.], [3., 2., 1.]]))
    iverson.Tensor([[ 1., -1.],
                    [-1.,  1.]])
    >>> cov(asarray([1., 2., 4.]), fweights=asarray([2, 1, 0]), bias=True)
    iverson.Tensor(0.22222222)
    """
    rows = _variables(x, rowvar, "x")
    if y is not None:
        second_rows = _variables(y, rowvar, "y")
        if second_rows.shape[1] != rows.shape[1]:
            raise ShapeError(
                "cov", "y", got=f"{second_rows.shape[1]} observations", expected=f"{rows.shape[1]}, as x has"
            )
        rows = concat([rows, second_rows], axis=0)
    correction = (0.0 if bias else correction) if ddof is None else ddof
    real = dtypes.real_of(rows.dtype)
    f, a = (
        None if w is None else cast(_observations(w, rows, argument), real)
        for w, argument in ((fweights, "fweights"), (aweights, "aweights"))
    )
    w = a if f is None else f if a is None else f * a
    weighted = rows if w is None else rows * w
    centred = rows - _centre(rows, weighted, w)
    transposed = F.conj(permute_dims(centred, (1, 0)))
    product = F.matmul(centred if w is None else centred * w, transposed) / _divisor(rows, w, a, correction)
    return product if rows.shape[0] != 1 else F.reshape(product, shape=())


def _variables(x: Array | ArrayLike, rowvar: bool, argument: str) -> Any:
    """Matrix with a variable in each row, from the argument ``x`` of `cov`.

    rowvar : False if the variables of ``x`` are its columns.
    """
    x = as_inexact(x, "cov", argument)
    if x.ndim not in (1, 2):
        raise ShapeError("cov", argument, got=f"shape {x.shape}", expected="a matrix or a vector")
    if x.ndim == 1:
        return F.reshape(x, shape=(1, x.size))
    return x if rowvar else permute_dims(x, (1, 0))


def _observations(weights: Array | ArrayLike, rows: Array, argument: str) -> Any:
    """Checked weights of observations, one for each column of ``rows``."""
    w = as_plain(weights, "cov", argument)
    check_kind(w, "iu" if argument == "fweights" else "iuf", "cov", argument)
    if w.shape != rows.shape[1:]:
        raise ShapeError("cov", argument, got=f"shape {w.shape}", expected=f"shape {rows.shape[1:]}")
    check_range(w, "cov", argument, 0)
    return w


def _centre(rows: Array, weighted: Array, w: Array | None) -> Any:
    """Mean of each variable, weighted by ``w`` unless it is None.

    weighted : ``rows`` times ``w``.
    """
    if w is None:
        return mean(rows, axis=1, keepdims=True)
    return _sum(weighted, axis=1, keepdims=True) / _sum(_present(rows) * w, axis=1, keepdims=True)


def _present(rows: Array) -> Any:
    """Ones wherever ``rows`` has an entry, with the same mask."""
    return rewrap(rows, Tensor(np.ones(unwrap(rows).shape, dtypes.real_of(rows.dtype))))


def _divisor(rows: Array, w: Any, a: Any, correction: float) -> Any:
    """Number of observations that each pair of variables has, less the correction; weights count instead of
    numbers.

    It is one number for plain rows, and a matrix for masked ones, with nan where it is not positive.
    w : weights of observations, or None. a : the part of them that is no count (``aweights``), or None.
    """
    if not isinstance(rows, Wrapper):
        if w is None:
            return max(rows.shape[-1] - correction, 0.0)
        total = _sum(w)
        return F.maximum(total - correction * (1.0 if a is None else _sum(w * a) / total), 0.0)
    there = _present(rows)
    transposed = permute_dims(there, (1, 0))
    total = F.matmul(there if w is None else there * w, transposed)
    difference = total - correction * (1.0 if a is None else F.matmul(there * (w * a), transposed) / total)
    return F.where(F.greater(difference, 0), difference, float("nan"))


@method
@in_single
def corrcoef(x: A | ArrayLike, y: A | ArrayLike | None = None, /, *, rowvar: bool = True) -> A:
    """The correlation coefficients of variables, the rows of x, over observations, its columns.

    Arguments are those of `cov`. Of a MaskedTensor, from the covariances that `cov` gives. Raises ShapeError
    for more than two axes and where lengths differ.

    >>> from iverson import asarray
    >>> corrcoef(asarray([[1., 2., 3.], [3., 2., 1.]]))
    iverson.Tensor([[ 1., -1.],
                    [-1.,  1.]])
    """
    with speaking_as("corrcoef"):
        c = cov(x, y, rowvar=rowvar)
    if not c.ndim:
        return c / c
    deviation = F.sqrt(F.real(F.diagonal(c, offset=0)))
    return c / F.expand_dims(deviation, axis=(1,)) / F.expand_dims(deviation, axis=(0,))


@tensor_method
def interp(x: A | ArrayLike, xp: A | ArrayLike, fp: A | ArrayLike, /) -> A:
    """The function that is linear between its values ``fp`` at the points ``xp``, at x; constant beyond them.

    Parameters
    ----------
    x : where to evaluate it.
    xp, fp : vectors of one length, xp increasing.

    Differentiable in all three; at a point the derivative in x is that from above. Raises ShapeError where
    lengths differ, DTypeError for complex x or xp, ArgumentError without points.

    >>> from iverson import asarray
    >>> interp(asarray([0.5, 9.]), asarray([0., 1., 2.]), asarray([0., 10., 20.]))
    iverson.Tensor([ 5., 20.])
    """
    x, xp, fp = (
        as_inexact(as_plain(value, "interp", argument), "interp", argument)
        for value, argument in ((x, "x"), (xp, "xp"), (fp, "fp"))
    )
    for value, argument in ((x, "x"), (xp, "xp")):
        check_kind(value, "f", "interp", argument)
    if xp.ndim != 1 or fp.shape != xp.shape:
        raise ShapeError(
            "interp",
            "fp",
            got=f"shapes {xp.shape} and {fp.shape}",
            expected="xp and fp vectors of one length",
        )
    if not xp.size:
        raise ArgumentError("interp", "xp", got="no points", expected="at least one")
    n = xp.shape[0]
    after = F.searchsorted(xp, x, side="right")
    low, high = F.clip(after - 1, 0, n - 1), F.clip(after, 0, n - 1)
    start, stop, below, above = (F.gather(v, k, axes=(0,)) for v in (xp, fp) for k in (low, high))
    inside = F.not_equal(low, high)
    part = F.where(inside, x - start, 0.0) / F.where(inside, stop - start, 1.0)
    return F.where(F.isnan(x), x, below + part * (above - below))


@tensor_method
@in_single
def trapezoid(y: A | ArrayLike, /, x: A | ArrayLike | None = None, *, dx: float = 1.0, axis: Axis = -1) -> A:
    """The integral along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : the values of the integrand.
    x : where they are: of y's shape, or a vector along the axis. Without it they are ``dx`` apart.
    dx : the distance between them, where x is not given.
    axis : the axis along which to integrate.

    Raises AxisError, ShapeError where x does not fit.

    >>> from iverson import asarray
    >>> trapezoid(asarray([1., 2., 3.]))
    iverson.Tensor(4.)
    """
    y = as_inexact(y, "trapezoid", "y")
    k = normalize_axis(axis, y.ndim, "trapezoid")
    step: Any = dx
    if x is not None:
        points = as_inexact(x, "trapezoid", "x")
        along = tuple(n if j == k else 1 for j, n in enumerate(y.shape))
        if points.shape not in (y.shape, (y.shape[k],)):
            raise ShapeError(
                "trapezoid", "x", got=f"shape {points.shape}", expected=f"shape {y.shape} or ({y.shape[k]},)"
            )
        points = points if points.shape == y.shape else F.reshape(points, shape=along)
        step = _ends(points, k, 1) - _ends(points, k, 0)
    return _sum(step * (_ends(y, k, 1) + _ends(y, k, 0)) * 0.5, axis=k)


def _ends(x: Array, axis: int, first: int) -> Any:
    """All entries along an axis but the last one (``first`` is 0), or but the first one (``first`` is 1)."""
    n = x.shape[axis]
    part = slice(min(first, n), max(n - 1 + first, 0), 1)
    return F.index_basic(x, key=tuple(part if j == axis else slice(0, m, 1) for j, m in enumerate(x.shape)))


@tensor_method
def convolve(a: A | ArrayLike, v: A | ArrayLike, /, *, mode: Literal["full", "same", "valid"] = "full") -> A:
    """The convolution of two vectors, the sum of a[i - k] * v[k] over k.

    ``mode`` is "full" (wherever they overlap), "same" (as long as the longer of the two, in the middle) or
    "valid" (where the shorter lies within the longer). Raises ShapeError unless both are vectors that have
    entries.

    >>> from iverson import asarray
    >>> convolve(asarray([1., 2., 3.]), asarray([1., 1.]))
    iverson.Tensor([1., 3., 5., 3.])
    """
    check_choice(mode, ("full", "same", "valid"), "convolve", "mode")
    a, v = as_plain(a, "convolve", "a"), as_plain(v, "convolve", "v")
    for x, argument in ((a, "a"), (v, "v")):
        if x.ndim != 1 or not x.shape[0]:
            raise ShapeError("convolve", argument, got=f"shape {x.shape}", expected="a vector with entries")
        check_kind(x, "iufc", "convolve", argument)
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    n, m = a.shape[0], v.shape[0]
    if mode == "same":
        start = (m - 1) // 2
        return F.index_basic(F.linear_convolution(a, v, mode="full"), key=(slice(start, start + n, 1),))
    return F.linear_convolution(a, v, mode=mode)


@method
def rot90(x: A | ArrayLike, /, k: SupportsIndex = 1, *, axes: tuple[int, int] = (0, 1)) -> A:
    """x turned by k quarters in the plane of two axes, from the first towards the second.

    Raises AxisError, ShapeError unless the axes are two different ones in a tuple or list.

    >>> from iverson import asarray
    >>> rot90(asarray([[1, 2], [3, 4]]))
    iverson.Tensor([[2, 4],
                    [1, 3]])
    """
    x = as_operand(x, "rot90")
    turns = as_int(k, "rot90", "k") % 4
    plane = [normalize_axis(a, x.ndim, "rot90") for a in as_sequence(axes, "rot90", "axes")]
    if len(plane) != 2:
        raise ShapeError("rot90", "axes", got=str(axes), expected="two axes")
    first, second = plane
    if first == second:
        raise ShapeError("rot90", "axes", got=str(axes), expected="two different axes")
    if turns in (0, 2):
        return flip(x, axis=(first, second)) if turns else F.positive(x) if x.dtype.kind != "b" else F.copy(x)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    transposed = permute_dims(flip(x, axis=second) if turns == 1 else x, tuple(order))
    return transposed if turns == 1 else flip(transposed, axis=second)


__all__ = [
    "allclose", "argwhere", "bincount", "convolve", "corrcoef", "cov", "histogram", "interp", "isclose",
    "rot90",
    "trapezoid",
]  # fmt: skip
