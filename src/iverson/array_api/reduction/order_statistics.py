"""Order statistics: quantiles, the largest entries, running extrema; also filling forward and backward.

Orders have no derivative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import as_inexact, as_operand, as_plain, as_real, cast, check_kind
from iverson.array_api.entries.indexing import take_along_axis
from iverson.array_api.reduction.reductions import entry_count
from iverson.core import dtypes
from iverson.core.dispatch import Wrapper, has_entries, rewrap, unwrap, value_of, zero_filled
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.shapes import as_int, check_choice, normalize_axes, normalize_axis
from iverson.ops import F

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import SupportsIndex

    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axes, Axis, QuantileMethod


#: A position among n entries for shares q.
Place: TypeAlias = "Callable[[Any, Any], Any]"


def _last(x: Array, axes: tuple[int, ...]) -> Any:
    """Array ``x`` with ``axes`` merged into one axis, which is the last."""
    other_axes = [k for k in range(x.ndim) if k not in axes]
    transposed = F.permute_dims(x, axes=(*other_axes, *axes))
    shape = tuple(x.shape[k] for k in other_axes)
    extent = 1
    for k in axes:
        extent *= x.shape[k]
    return F.reshape(transposed, shape=(*shape, extent))


def _interpolated(place: Place) -> Any:
    """Method of quantiles that interpolates linearly between the two entries around ``place``.

    The method returns the position below, the position above, and the share of the way between them.
    """

    def method(n: Array | complex, q: Array) -> tuple[Any, Any, Any]:
        at = place(n, q)
        return F.floor(at), F.ceil(at), at - F.floor(at)

    return method


def _of_family(alpha: float, beta: float) -> Any:
    """Continuous method of quantiles with parameters ``alpha`` and ``beta``.

    The family is that of R. J. Hyndman and Y. Fan, The American Statistician 50 (1996).
    """
    return _interpolated(lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1)


def _at_one(place: Place) -> Any:
    """Method of quantiles that gives the entry at ``place`` itself."""

    def method(n: Array | complex, q: Array) -> tuple[Any, Any, Any]:
        at = place(n, q)
        return at, at, None

    return method


def _averaged(n: Array | complex, q: Array) -> tuple[Any, Any, Any]:
    """Method of quantiles "averaged_inverted_cdf": the mean of two entries if n q is a whole number, else one
    entry.
    """
    at = n * q - 1
    low = F.floor(at)
    return low, low + 1, F.where(F.equal(at, low), 0.5, 1.0)


def _closest(n: Array | complex, q: Array) -> Any:
    """Position, from 0, of the entry whose number, counted from 1, is closest to n q; of two, that of even
    number.
    """
    at = n * q - 1 - 0.5
    low = F.floor(at)
    down = F.logical_and(F.equal(at, low), F.not_equal(F.floor(low / 2) * 2, low))
    return F.where(down, low, low + 1)


def _middle(n: Array | complex, q: Array) -> tuple[Any, Any, Any]:
    at = (n - 1) * q
    return F.floor(at), F.ceil(at), 0.5


#: By NumPy's name, ``(low, high, part)``: between which of n entries in order a quantile is, and where there
#: (None where they are one).
_METHODS: dict[str, Callable[[Any, Any], tuple[Any, Any, Any]]] = {
    "inverted_cdf": _at_one(lambda n, q: F.ceil(n * q - 1)),
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _at_one(_closest),
    "interpolated_inverted_cdf": _of_family(0, 1),
    "hazen": _of_family(0.5, 0.5),
    "weibull": _of_family(0, 0),
    "linear": _interpolated(lambda n, q: (n - 1) * q),
    "median_unbiased": _of_family(1 / 3, 1 / 3),
    "normal_unbiased": _of_family(3 / 8, 3 / 8),
    "lower": _at_one(lambda n, q: F.floor((n - 1) * q)),
    "higher": _at_one(lambda n, q: F.ceil((n - 1) * q)),
    "midpoint": _middle,
    "nearest": _at_one(lambda n, q: F.round((n - 1) * q)),
}


@method
def quantile(
    x: A | ArrayLike,
    /,
    q: Array | ArrayLike,
    axis: Axes = None,
    *,
    method: QuantileMethod = "linear",
    weights: Array | ArrayLike | None = None,
    keepdims: bool = False,
) -> A:
    """The quantiles of the entries over axes (None: all), by default interpolated between two entries.

    Parameters
    ----------
    x : an array of a real dtype; integers become float64.
    q : numbers in [0, 1], a Python number or an array; its axes come first in the result. Outside, nan.
    axis : the axes to reduce; None for all.
    method : which entries a quantile is made of. "inverted_cdf", "averaged_inverted_cdf",
        "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear", "median_unbiased"
        and "normal_unbiased" are the types 1 to 9 of R. J. Hyndman and Y. Fan, The American Statistician 50
        (1996); "lower", "higher", "midpoint" and "nearest" choose among the two entries of "linear".
    weights : how much each entry counts, of x's shape or that of the axes alone; finite numbers of at least
        0, constants under differentiation. For "inverted_cdf" alone, and not of a MaskedTensor.
    keepdims : whether reduced axes stay, with extent 1.

    Where an entry is nan, so is the result. Differentiable in x and, where it is interpolated, in q. Of a
    MaskedTensor, over the specified entries. Raises AxisError, DTypeError for complex x, ShapeError where
    weights do not fit, ArgumentError without entries, for another method, and for weights that are below 0
    or add up to 0.

    >>> from iverson import asarray
    >>> quantile(asarray([3., 1., 2., 10.]), asarray([0.5, 1.]))
    iverson.Tensor([ 2.5, 10. ])
    >>> quantile(asarray([3., 1., 2., 10.]), 0.5, method="lower")
    iverson.Tensor(2.)
    """
    return quantiles(x, q, axis, keepdims, "quantile", method, weights)


@method
def percentile(
    x: A | ArrayLike,
    /,
    q: Array | ArrayLike,
    axis: Axes = None,
    *,
    method: QuantileMethod = "linear",
    weights: Array | ArrayLike | None = None,
    keepdims: bool = False,
) -> A:
    """The percentiles of the entries over axes (None: all): `quantile` with q in percent, from 0 to 100.

    Arguments and errors are those of `quantile`.

    >>> from iverson import asarray
    >>> percentile(asarray([3., 1., 2., 10.]), asarray([50., 100.]))
    iverson.Tensor([ 2.5, 10. ])
    """
    return quantiles(x, q, axis, keepdims, "percentile", method, weights, whole=100.0)


def quantiles(
    x: Array | ArrayLike,
    q: Array | ArrayLike,
    axis: Axes,
    keepdims: bool,
    name: str,
    method: str = "linear",
    weights: Array | ArrayLike | None = None,
    pass_over_nan: bool = False,
    whole: float = 1.0,
) -> Any:
    """Quantiles of ``x`` over axes, for `quantile` and the functions like it.

    q : shares of ``whole`` (100 for percentiles). name : the public function, for errors.
    pass_over_nan : True to leave out nan, which comes last in order; else a line with nan gives nan.
    """
    check_choice(method, tuple(_METHODS), name, "method")
    x, q = as_inexact(x, name), as_inexact(q, name, "q")
    for value, argument in ((x, "x"), (q, "q")):
        check_kind(value, "f", name, argument)
    dtype = x.dtype
    x, q = (cast(value, dtypes.float32) if dtypes.is_half(value.dtype) else value for value in (x, q))
    q = q if whole == 1.0 else q / whole
    axes = normalize_axes(axis, x.ndim, name)
    lines = _last(x, axes)
    if lines.shape[-1] == 0:
        raise ArgumentError(name, "x", got=f"shape {x.shape}", expected="entries over the axes")
    last = (lines.ndim - 1,)
    absent, share = F.isnan(lines), F.reshape(q, shape=(1,) * last[0] + (q.size,))
    if weights is None:
        ordered = F.sort(lines, axis=last[0], descending=False)
        count = entry_count(lines, last, True)
        if pass_over_nan:
            count = count - F.sum(F.astype(absent, dtype=q.dtype), axis=last, keepdims=True)
        values = _between(ordered, count, *_METHODS[method](count, share))
    else:
        counts = _weights(weights, x, axes, method, name)
        values = _weighted(lines, share, F.where(absent, 0.0, counts) if pass_over_nan else counts)
    absent = (F.all if pass_over_nan else F.any)(absent, axis=last, keepdims=True)
    outside = F.logical_not(F.logical_and(F.greater_equal(share, 0), F.less_equal(share, 1)))
    values = F.where(F.logical_or(absent, outside), float("nan"), values)
    result_shape = (
        tuple(1 if k in axes else n for k, n in enumerate(x.shape)) if keepdims else lines.shape[:-1]
    )
    leading = F.permute_dims(values, axes=(last[0], *range(last[0])))
    return cast(F.reshape(leading, shape=q.shape + result_shape), dtype)


def _between(
    ordered: Array, count: Array | complex, low: Array, high: Array, part: Array | float | None
) -> Any:
    """Entries of ``ordered`` between the positions ``low`` and ``high``, ``part`` of the way from the first.

    If ``part`` is None, the entries at ``low``. count : the number of entries of each line that count.
    """
    below = _at(ordered, F.clip(low, 0.0, count - 1))
    if part is None:
        return below
    above = _at(ordered, F.clip(high, 0.0, count - 1))
    part = part if isinstance(part, float) else cast(part, ordered.dtype)
    equal = F.logical_or(F.equal(low, high), F.logical_and(F.isinf(below), F.equal(below, above)))
    far = F.logical_and(F.logical_not(equal), F.logical_or(F.isinf(below), F.isinf(above)))
    near = F.logical_not(F.logical_or(equal, far))
    gap = F.where(near, above, 0.0) - F.where(near, below, 0.0)
    beyond = F.where(F.logical_and(far, part < 1.0), below, 0.0) * (1.0 - part)
    return F.where(far, beyond + F.where(far, above, 0.0) * part, below + gap * part)


def _weights(weights: Array | ArrayLike, x: Array, axes: tuple[int, ...], method: str, name: str) -> Any:
    """Checked weights of the entries of lines, in the shape of the lines or of one line.

    axes : the axes that were merged into lines (see `_last`).
    """
    if method != "inverted_cdf":
        raise ArgumentError(
            name, "weights", got=f"weights with method '{method}'", expected="method 'inverted_cdf'"
        )
    as_plain(x, name)
    numbers: Any = as_real(weights, name, "weights")
    extents = tuple(x.shape[k] for k in axes)
    if numbers.shape not in (x.shape, extents):
        raise ShapeError(
            name, "weights", got=f"shape {numbers.shape}", expected=f"shape {x.shape} or {extents}"
        )
    numbers = cast(numbers.detach(), dtypes.float64)
    lines = _last(numbers, axes) if numbers.shape == x.shape else F.reshape(numbers, shape=(numbers.size,))
    if has_entries(lines):
        entries = F.to_numpy(lines)
        if not ((entries >= 0) & np.isfinite(entries)).all() or not (entries.sum(axis=-1) > 0).all():
            raise ArgumentError(
                name,
                "weights",
                got="a number below 0, inf or nan, or a sum of 0",
                expected="finite numbers of at least 0, of which some are above",
            )
    return lines


def _weighted(lines: Array, q: Array, weights: Array) -> Any:
    """Quantiles of weighted entries: the first entry in order up to which the share of weights is at least
    ``q``.
    """
    axis, n = lines.ndim - 1, lines.shape[-1]
    order = F.argsort(lines, axis=axis, descending=False, stable=True)
    sums = F.cumulative_sum(take_along_axis(F.broadcast_to(weights, shape=lines.shape), order), axis=axis)
    none = F.equal(sums, 0)
    total = F.where(none, 1.0, F.max(sums, axis=(axis,), keepdims=True))
    share = F.where(none, -1.0, sums / total)
    before = F.less(F.expand_dims(cast(share, q.dtype), axis=(axis,)), F.expand_dims(q, axis=(axis + 1,)))
    place = F.sum(F.astype(before, dtype=dtypes.int64), axis=(axis + 1,), keepdims=False)
    return take_along_axis(lines, take_along_axis(order, F.minimum(place, n - 1)))


def _at(ordered: Array, place: Array) -> Any:
    """Entries of ``ordered`` along the last axis at positions that are floats; nan and positions outside give
    an end.
    """
    inside = F.clip(F.where(F.isnan(place), 0.0, place), 0.0, float(ordered.shape[-1] - 1))
    return take_along_axis(ordered, F.astype(inside, dtype=dtypes.int64))


@method
def median(x: A | ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> A:
    """The middle entry in order over axes (None: all), or the mean of the two in the middle.

    Where an entry is nan, so is the result. Of a MaskedTensor, over the specified entries. Raises AxisError,
    DTypeError for complex x, ArgumentError without entries.

    >>> from iverson import asarray
    >>> median(asarray([3., 1., 2., 10.]))
    iverson.Tensor(2.5)
    """
    return quantile(x, 0.5, axis, keepdims=keepdims)


class TopK(NamedTuple):
    """Result of `topk` and `kthvalue`: entries, and their positions along the axis."""

    values: Any
    indices: Any


@method
def topk(x: A | ArrayLike, k: SupportsIndex, /, *, axis: Axis = -1, largest: bool = True) -> TopK:
    """The k largest (or smallest) entries along an axis in order, and their positions.

    Equal entries come in their order in x; nan counts as the largest. Differentiable in the values. Raises
    ArgumentError for k beyond the axis, AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> topk(asarray([3., 1., 2.]), 2)
    TopK(values=iverson.Tensor([3., 2.]), indices=iverson.Tensor([0, 2]))
    """
    x = as_operand(x, "topk")
    check_kind(x, "biuf", "topk")
    along, count = normalize_axis(axis, x.ndim, "topk"), as_int(k, "topk", "k")
    if not 0 <= count <= x.shape[along]:
        raise ArgumentError("topk", "k", got=str(count), expected=f"a number in [0, {x.shape[along]}]")
    return _chosen(x, slice(0, count, 1), along, bool(largest))


@method
def kthvalue(x: A | ArrayLike, k: SupportsIndex, /, *, axis: Axis = -1, keepdims: bool = False) -> TopK:
    """The k-th smallest entry along an axis, counted from 1, and its position.

    nan counts as the largest. Differentiable in the value. Raises ArgumentError for k beyond the axis,
    AxisError, DTypeError for complex x.

    >>> from iverson import asarray
    >>> kthvalue(asarray([3., 1., 2.]), 2)
    TopK(values=iverson.Tensor(2.), indices=iverson.Tensor(2))
    """
    x = as_operand(x, "kthvalue")
    check_kind(x, "biuf", "kthvalue")
    along, place = normalize_axis(axis, x.ndim, "kthvalue"), as_int(k, "kthvalue", "k")
    if not 1 <= place <= x.shape[along]:
        raise ArgumentError("kthvalue", "k", got=str(place), expected=f"a number in [1, {x.shape[along]}]")
    slices = _chosen(x, slice(place - 1, place, 1), along, False)
    return slices if keepdims else TopK(*(F.squeeze(part, axis=(along,)) for part in slices))


#: A part of an order, and how many times shorter than the axis it is, from which only that part is sorted.
_FEW = 8


def _chosen(x: Array, places: slice, axis: int, descending: bool) -> TopK:
    """Entries at ``places`` of the order along ``axis``, and their positions; only the needed part is sorted
    if it is short.
    """
    if value_of(x, None) is not None and 0 < _FEW * places.stop <= x.shape[axis]:
        order = F.argtop(x, axis=axis, count=places.stop, descending=descending)
    else:
        order = F.argsort(x, axis=axis, descending=descending, stable=True)
    key = tuple(places if k == axis else slice(0, n, 1) for k, n in enumerate(order.shape))
    indices = F.index_basic(order, key=key)
    # An order names entries that exist: which they are need not be asked.
    return TopK(take_along_axis(zero_filled(x), indices, axis=axis), indices)


@method
def logcumsumexp(x: A | ArrayLike, /, axis: Axis = -1) -> A:
    """The logarithm of the sum of exp(x) so far along an axis, without overflow.

    Of complex x the principal logarithm. Of a MaskedTensor, of the specified entries. Raises AxisError.

    >>> from iverson import asarray
    >>> logcumsumexp(asarray([1000., 1000.]))
    iverson.Tensor([1000.        , 1000.69314718])
    """
    x = as_inexact(x, "logcumsumexp")
    return F.logcumsumexp(x, axis=normalize_axis(axis, x.ndim, "logcumsumexp"))


class Extrema(NamedTuple):
    """Result of functions with ``return_indices``: entries, and their positions."""

    values: Any
    indices: Any


def _running(name: str, x: Array | ArrayLike, axis: Axis, largest: bool, return_indices: bool) -> Any:
    """Largest or smallest entry so far along an axis; with ``return_indices``, an `Extrema` with the
    positions.
    """
    x = as_operand(x, name)
    check_kind(x, "iuf", name)
    along = normalize_axis(axis, x.ndim, name)
    # What is specified is taken from what is specified: no unspecified entry is read.
    positions = F.cumulative_argmax(x, axis=along, largest=largest)
    values = take_along_axis(zero_filled(x), positions, axis=along)
    return Extrema(values, positions) if return_indices else values


@overload
def cummax(x: A | ArrayLike, /, axis: Axis = -1, *, return_indices: Literal[False] = False) -> A: ...


@overload
def cummax(x: A | ArrayLike, /, axis: Axis = -1, *, return_indices: Literal[True]) -> Extrema: ...


@method
def cummax(x: A | ArrayLike, /, axis: Axis = -1, *, return_indices: bool = False) -> A | Extrema:
    """The largest entry so far along an axis; nan from the first nan on.

    With ``return_indices`` also its position, that of the first of equal entries (PyTorch has the last), to
    which the derivative belongs. Of a MaskedTensor, of the specified entries. Raises AxisError, DTypeError
    for complex or bool x.

    >>> from iverson import asarray
    >>> cummax(asarray([1., 3., 2., 5.]))
    iverson.Tensor([1., 3., 3., 5.])
    >>> cummax(asarray([1., 3., 2., 5.]), return_indices=True).indices
    iverson.Tensor([0, 1, 1, 3])
    """
    return _running("cummax", x, axis, True, return_indices)


@overload
def cummin(x: A | ArrayLike, /, axis: Axis = -1, *, return_indices: Literal[False] = False) -> A: ...


@overload
def cummin(x: A | ArrayLike, /, axis: Axis = -1, *, return_indices: Literal[True]) -> Extrema: ...


@method
def cummin(x: A | ArrayLike, /, axis: Axis = -1, *, return_indices: bool = False) -> A | Extrema:
    """The smallest entry so far along an axis; nan from the first nan on.

    As `cummax`.

    >>> from iverson import asarray
    >>> cummin(asarray([5., 3., 4., 1.]))
    iverson.Tensor([5., 3., 3., 1.])
    """
    return _running("cummin", x, axis, False, return_indices)


@method
def ffill(x: A | ArrayLike, /, axis: Axis = -1, *, limit: int | None = None) -> A:
    """The entries with those that are missing taken from the last one before them along an axis.

    Parameters
    ----------
    x : an array; nan are missing. Of a MaskedTensor, the unspecified entries are, and nan are not.
    axis : the axis to go along.
    limit : how far an entry is carried; None for as far as it takes.

    What has nothing to take from stays as it is. As in pandas and xarray. The derivative belongs to the entry
    that is taken. Raises AxisError, ArgumentError for a limit below 1.

    >>> from iverson import asarray, nan
    >>> ffill(asarray([nan, 1., nan, nan, 2.]), limit=1)
    iverson.Tensor([nan,  1.,  1., nan,  2.])
    """
    return _carried("ffill", x, axis, limit, False)


@method
def bfill(x: A | ArrayLike, /, axis: Axis = -1, *, limit: int | None = None) -> A:
    """The entries with those that are missing taken from the next one after them along an axis.

    As `ffill`, the other way round.

    >>> from iverson import asarray, nan
    >>> bfill(asarray([nan, nan, 1., nan]))
    iverson.Tensor([ 1.,  1.,  1., nan])
    """
    return _carried("bfill", x, axis, limit, True)


def _carried(name: str, x: Array | ArrayLike, axis: Axis, limit: SupportsIndex | None, back: bool) -> Any:
    """Entries with missing ones taken from the nearest entry before them, or after them if ``back``.

    name : the public function, for errors. limit : the largest distance, or None.
    """
    x = as_operand(x, name)
    along = normalize_axis(axis, x.ndim, name)
    if limit is not None and as_int(limit, name, "limit") < 1:
        raise ArgumentError(name, "limit", got=str(limit), expected="at least 1, or None")
    numbers = np.arange(x.shape[along]).reshape([-1 if k == along else 1 for k in range(x.ndim)])
    if isinstance(x, Wrapper):
        missing = F.equal(F.to_dense(zero_filled(rewrap(x, np.ones(unwrap(x).shape, np.int8)))), 0)
    else:
        missing = F.isnan(F.to_dense(x))
    if back:
        reversed_sources = F.flip(F.where(missing, x.shape[along], numbers), axis=(along,))
        sources = F.flip(cummin(reversed_sources, along), axis=(along,))
        distance = sources - numbers
        unfilled = F.equal(sources, x.shape[along])
    else:
        sources = cummax(F.where(missing, -1, numbers), along)
        distance = numbers - sources
        unfilled = F.less(sources, 0)
    if limit is not None:
        unfilled = F.logical_or(unfilled, F.greater(distance, limit))
    return take_along_axis(x, F.where(unfilled, numbers, sources), axis=along)


__all__ = [
    "bfill", "cummax", "cummin", "ffill", "kthvalue", "logcumsumexp", "median", "percentile",
    "quantile", "topk",
]  # fmt: skip
