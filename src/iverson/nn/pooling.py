"""Pooling: the maximum, mean or norm of each window of spatial axes.

Of equal entries the first takes the derivative, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, cast, overload

import numpy as np

from iverson import te
from iverson.array_api.conventions.operands import in_single
from iverson.array_api.entries.creation import ones_like
from iverson.array_api.entries.indexing import take_along_axis
from iverson.array_api.reduction.order_statistics import Extrema
from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.protocols import NDArray
from iverson.core.shapes import Shape, as_int
from iverson.masked import MaskedTensor, masked_tensor
from iverson.nn.convolution import at, existing, images, padded, places, single
from iverson.nn.layer_arguments import Extents, extents
from iverson.nn.spatial_functions import spatial
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Positive

#: The extents of a result; None keeps that of the argument.
OutputExtents: TypeAlias = Extents | Sequence[SupportsIndex | None] | None


def _reduced(x: Any, reduce: Callable[..., te.Expr], size: Shape, stride: Shape, dilation: Shape) -> Any:
    """Windows over the last axes of ``x`` (channels, *spatial), each reduced by ``reduce``, in index
    notation.
    """
    k = [te.reduce_axis((0, n)) for n in size]
    shape = (x.shape[0], *places(x.shape[1:], size, stride, dilation))
    return te.compute(shape, lambda c, *i: reduce(x[(c, *at(i, k, stride, dilation))], axis=k))


@te.op(name="nn.max_pool")
def _max_of_windows(x: Any, *, size: Shape, stride: Shape, dilation: Shape) -> Any:
    return _reduced(x, te.max, size, stride, dilation)


@te.op(name="nn.sum_pool")
def _sum_of_windows(x: Any, *, size: Shape, stride: Shape, dilation: Shape) -> Any:
    return _reduced(x, te.sum, size, stride, dilation)


@te.op(name="nn.max_places")
def _max_places(x: te.Tensor, table: te.Tensor) -> Any:
    """Position of the largest entry among those in a row of ``table``, for each line of ``x`` and each row.

    Of equal entries, the position that comes first in the row is taken.
    """
    k = te.reduce_axis((0, table.shape[1]))
    shape = (x.shape[0], table.shape[0])
    best = te.compute(shape, lambda c, p: te.argmax(x[c, table[p, k]], axis=k))
    return te.compute(shape, lambda c, p: table[p, best[c, p]])


def _largest(x: Array, tables: Sequence[NDArray]) -> Extrema:
    """Largest entry of each window over spatial axes, and its row-major number in the spatial volume.

    tables : for each spatial axis, the positions that windows read on it, a row for each window. A position
        that occurs repeatedly stands next to itself, so that the first of equal entries is the first in the
        volume.
    """
    spatial, n = x.shape[2:], len(tables)
    numbers: Any = 0
    for k, table in enumerate(tables):
        along = [1] * 2 * n
        along[k], along[n + k] = table.shape
        numbers = numbers + (table * prod(spatial[k + 1 :])).reshape(along)
    places = tuple(len(table) for table in tables)
    numbers = np.broadcast_to(numbers, (*places, *(table.shape[1] for table in tables)))
    lines = F.reshape(x, shape=(prod(x.shape[:2]), prod(spatial)))
    positions = _max_places(lines.detach(), np.ascontiguousarray(numbers.reshape(prod(places), -1)))
    shape = (*x.shape[:2], *places)
    return Extrema(
        F.reshape(take_along_axis(lines, positions), shape=shape), F.reshape(positions, shape=shape)
    )


class _Pool:
    """Checked arguments of one call of a pooling function, and the windows that follow from them.

    spatial : the numbers of windows. before, after : the padding of each axis. alone : True if ``x`` had no
        batch.
    """

    def __init__(
        self,
        operation: str,
        n: int,
        x: Array | ArrayLike,
        kernel_size: Extents,
        stride: Extents | None,
        padding: Extents,
        dilation: Extents,
        ceil_mode: bool,
        kinds: str = "f",
    ) -> None:
        self.operation = operation
        self.x, self.alone = images(x, operation, n)
        if dtypes.kind_of(self.x.dtype) not in kinds:
            raise ArgumentError(operation, "x", got=f"dtype {self.x.dtype}", expected="real numbers")
        self.size = extents(kernel_size, n, operation, "kernel_size")
        self.stride = self.size if stride is None else extents(stride, n, operation, "stride")
        self.dilation = extents(dilation, n, operation, "dilation")
        self.before = extents(padding, n, operation, "padding", least=0)
        if any(2 * p > k for p, k in zip(self.before, self.size, strict=True)):
            raise ArgumentError(
                operation, "padding", got=str(self.before), expected=f"at most half of the window {self.size}"
            )
        spatial = self.x.shape[2:]
        padded_extents = tuple(e + 2 * p for e, p in zip(spatial, self.before, strict=True))
        self.spatial = places(padded_extents, self.size, self.stride, self.dilation)
        if ceil_mode:
            self.spatial = tuple(map(self._one_more, padded_extents, range(n)))
        if 0 in self.spatial:
            raise ShapeError(
                operation,
                "x",
                got=f"spatial extents {spatial} with padding {self.before}",
                expected="at least the extents of a window",
            )
        span = [
            (c - 1) * s + d * (k - 1) + 1
            for c, s, d, k in zip(self.spatial, self.stride, self.dilation, self.size, strict=True)
        ]
        self.after = tuple(max(m - e - p, p) for m, e, p in zip(span, spatial, self.before, strict=True))

    def _one_more(self, extent: int, k: int) -> int:
        """Number of windows along spatial axis ``k`` if a last one may reach beyond the end (``ceil_mode``).

        The last window must start inside of the array or the padding in front. extent : with padding on both
        sides.
        """
        s, reach = self.stride[k], self.dilation[k] * (self.size[k] - 1) + 1
        count = -(-(extent - reach) // s) + 1 if extent >= reach else 1
        inside = self.x.shape[2 + k] + self.before[k]
        return count - 1 if (count - 1) * s >= inside else count

    def padded(self, fill: float, outside: bool) -> Any:
        """Array ``x`` with its padding, filled with ``fill``.

        outside : True if padding counts; in a masked tensor it is then specified.
        """
        around = self.before if outside else None
        return existing(self.x, padded(self.x, self.before, self.after, fill), self.before, around)

    def reduced(self, op: Callable[..., Array], x: Array) -> Any:
        """Result of ``op``, which reduces each window, on ``x``, which is padded."""
        batch, channels = x.shape[:2]
        flat = F.reshape(x, shape=(batch * channels, *x.shape[2:]))
        y = op(flat, size=self.size, stride=self.stride, dilation=self.dilation)
        return F.reshape(y, shape=(batch, channels, *self.spatial))

    def tables(self) -> list[Any]:
        """Positions that windows read on each spatial axis: a table for each axis, with a row for each
        window.

        A position outside of the array is replaced by the first one inside; ShapeError if a window has none
        inside.
        """
        tables = []
        for e, p, n, s, d, c in zip(
            self.x.shape[2:], self.before, self.size, self.stride, self.dilation, self.spatial, strict=True
        ):
            at = np.arange(c)[:, None] * s - p + np.arange(n) * d
            inside = (at >= 0) & (at < e)
            if not inside.any(axis=1).all():
                raise ShapeError(
                    self.operation,
                    "x",
                    got=f"spatial extents {self.x.shape[2:]}, with windows of padding alone",
                    expected="an entry in each window, as its number is asked for",
                )
            tables.append(np.where(inside, at, at[np.arange(c), inside.argmax(axis=1)][:, None]))
        return tables

    def counts(self, outside: bool) -> Any:
        """Number of entries of each window; ``outside`` is True to count the padding, too."""
        total: Any = np.ones((), self.x.dtype)
        for k, (e, p, n, s, c) in enumerate(
            zip(self.x.shape[2:], self.before, self.size, self.stride, self.spatial, strict=True)
        ):
            start = np.arange(c) * s - p
            low, high = (-p, e + p) if outside else (0, e)
            lengths = np.minimum(start + n, high) - np.maximum(start, low)
            total = total * lengths.astype(self.x.dtype).reshape((c,) + (1,) * (len(self.size) - 1 - k))
        return total


class MaxPool(Protocol):
    """The type of `max_pool1d` and its siblings."""

    @overload
    def __call__(
        self,
        x: A | ArrayLike,
        /,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
    ) -> A: ...

    @overload
    def __call__(
        self,
        x: Array | ArrayLike,
        /,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
    ) -> Extrema: ...


@spatial
def _max_pool(
    n: int,
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> A | Extrema:
    """The largest entry of each window of {sample}.

    Parameters
    ----------
    x : of shape (batch, channels, {axes}), or without the batch.
    kernel_size : the extents of a window, on all axes alike or on each.
    stride : how far windows are apart; by default they lie side by side.
    padding : entries before and after x that are never the largest; at most half of a window.
    dilation : how far entries of a window are apart.
    ceil_mode : whether a last window that reaches out of x counts.
    return_indices : whether also the places of these entries are returned, numbers of entries of x's spatial
        axes row by row.

    Raises ShapeError where no window lies inside, ArgumentError.

    >>> from iverson import asarray
    >>> x = asarray([{open}[1., 3., 2., 0.]{close}])
    >>> max_pool{n}d(x, {window})
    iverson.Tensor([{open}[3., 2.]{close}])
    >>> max_pool{n}d(x, {window}, return_indices=True).indices
    iverson.Tensor([{open}[1, 2]{close}])
    """
    pool = _Pool(f"max_pool{n}d", n, x, kernel_size, stride, padding, dilation, ceil_mode)
    if return_indices:
        return Extrema(*(single(y, pool.alone) for y in _largest(pool.x, pool.tables())))
    return single(pool.reduced(_max_of_windows, pool.padded(-float("inf"), False)), pool.alone)


max_pool1d, max_pool2d, max_pool3d = cast("tuple[MaxPool, MaxPool, MaxPool]", _max_pool)


@spatial
@in_single
def _avg_pool(
    n: int,
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> A:
    """The mean of each window of {sample}.

    Parameters
    ----------
    x : of shape (batch, channels, {axes}), or without the batch.
    kernel_size : the extents of a window, on all axes alike or on each.
    stride : how far windows are apart; by default they lie side by side.
    padding : zeros before and after x; at most half of a window.
    ceil_mode : whether a last window that reaches out of x counts.
    count_include_pad : whether zeros of the padding count in the mean.
    divisor_override : what sums are divided by, in place of the number of entries.

    Raises ShapeError where no window lies inside, ArgumentError.

    >>> from iverson import asarray
    >>> avg_pool{n}d(asarray([{open}[1., 3., 2., 0.]{close}]), {window})
    iverson.Tensor([{open}[2., 1.]{close}])
    """
    name = f"avg_pool{n}d"
    pool = _Pool(name, n, x, kernel_size, stride, padding, 1, ceil_mode, "fc")
    masked = isinstance(pool.x, MaskedTensor)
    divisor: Any = (
        pool.reduced(_sum_of_windows, ones_like(pool.padded(0.0, count_include_pad))).to_tensor(1)
        if masked
        else pool.counts(count_include_pad)
    )
    if divisor_override is not None:
        divisor = float(as_int(divisor_override, name, "divisor_override"))
        if not divisor:
            raise ArgumentError(name, "divisor_override", got="0", expected="another integer")
    elif not masked and divisor.min() == divisor.max():
        divisor = float(divisor.flat[0].real)
    return single(pool.reduced(_sum_of_windows, pool.padded(0.0, False)) / divisor, pool.alone)


avg_pool1d, avg_pool2d, avg_pool3d = _avg_pool


@spatial
@in_single
def _lp_pool(
    n: int,
    x: A | ArrayLike,
    /,
    norm_type: Positive,
    kernel_size: Extents,
    stride: Extents | None = None,
    ceil_mode: bool = False,
) -> A:
    """The norm of each window of {sample}: the root of order ``norm_type`` of the sum of powers.

    Parameters
    ----------
    x : of shape (batch, channels, {axes}), or without the batch.
    norm_type : the exponent p of the powers x**p; 1 for sums, 2 for lengths.
    kernel_size : the extents of a window, on all axes alike or on each.
    stride : how far windows are apart; by default they lie side by side.
    ceil_mode : whether a last window that reaches out of x counts.

    Where a norm of order above 1 is 0, so is the derivative. Raises ShapeError where no window lies inside,
    ArgumentError.

    >>> from iverson import asarray
    >>> lp_pool{n}d(asarray([{open}[3., 4., 0., 2.]{close}]), 2, {window})
    iverson.Tensor([{open}[5., 2.]{close}])
    """
    pool = _Pool(f"lp_pool{n}d", n, x, kernel_size, stride, 0, 1, ceil_mode)
    pool.x = F.pow(pool.x, norm_type)
    total = pool.reduced(_sum_of_windows, pool.padded(0.0, False))
    if norm_type == 1:
        return single(total, pool.alone)
    is_zero = F.equal(total, 0)
    root = F.pow(F.where(is_zero, 1.0, total), 1 / norm_type)
    return single(F.where(is_zero, 0.0, root), pool.alone)


lp_pool1d, lp_pool2d, lp_pool3d = _lp_pool


def _parts(extent: int, count: int) -> tuple[Any, Any]:
    """Starts and ends of the ``count`` parts into which adaptive pooling divides an axis."""
    i = np.arange(count)
    return i * extent // count, -(-(i + 1) * extent // count)


def _adaptive(
    operation: str,
    n: int,
    x: Any,
    output_size: Any,
) -> tuple[Any, bool, Shape]:
    """Array ``x`` with a batch, True if the batch was added, and the spatial extents of the result."""
    x, alone = images(x, operation, n)
    sizes = tuple(output_size) if isinstance(output_size, (list, tuple)) else (output_size,) * n
    if len(sizes) != n or any(e is None for e in sizes):
        sizes = tuple(extent if e is None else e for e, extent in zip(sizes, x.shape[2:], strict=False))
    output_extents = extents(sizes, n, operation, "output_size")
    if 0 in x.shape[2:]:
        raise ShapeError(operation, "x", got=f"shape {x.shape}", expected="entries on the spatial axes")
    return x, alone, output_extents


class AdaptiveMaxPool(Protocol):
    """The type of `adaptive_max_pool1d` and its siblings."""

    @overload
    def __call__(
        self, x: A | ArrayLike, /, output_size: OutputExtents, return_indices: Literal[False] = False
    ) -> A: ...

    @overload
    def __call__(
        self, x: Array | ArrayLike, /, output_size: OutputExtents, return_indices: Literal[True]
    ) -> Extrema: ...


@spatial
def _adaptive_max_pool(
    n: int, x: A | ArrayLike, /, output_size: OutputExtents, return_indices: bool = False
) -> A | Extrema:
    """The largest entries of ``output_size`` parts of {sample}, of shape (batch, channels, {axes}).

    Part i of an axis goes from floor(i * extent / size) to ceil((i + 1) * extent / size), for a size on all
    axes alike or on each; None keeps an extent. ``return_indices`` is as in `max_pool{n}d`. Raises
    ShapeError, ArgumentError.

    >>> from iverson import asarray
    >>> x = asarray([{open}[1., 3., 2., 0., 5.]{close}])
    >>> adaptive_max_pool{n}d(x, {window})
    iverson.Tensor([{open}[3., 5.]{close}])
    >>> adaptive_max_pool{n}d(x, {window}, return_indices=True).indices
    iverson.Tensor([{open}[1, 4]{close}])
    """
    # A part shorter than the longest repeats its last entry at its end: the first of equals counts.
    y, alone, output_extents = _adaptive(f"adaptive_max_pool{n}d", n, x, output_size)
    if y.dtype.kind == "c":
        raise ArgumentError(f"adaptive_max_pool{n}d", "x", got=f"dtype {y.dtype}", expected="real numbers")
    if all(e % c == 0 for e, c in zip(y.shape[2:], output_extents, strict=True)):
        size = tuple(e // c for e, c in zip(y.shape[2:], output_extents, strict=True))
        pooled: Any = _max_pool[n - 1](y, size, return_indices=return_indices)
        return Extrema(*(single(part, alone) for part in pooled)) if return_indices else single(pooled, alone)
    tables = []
    for extent, count in zip(y.shape[2:], output_extents, strict=True):
        start, stop = _parts(extent, count)
        longest = int((stop - start).max(initial=0))
        tables.append(np.minimum(start[:, None] + np.arange(longest), stop[:, None] - 1))
    largest = Extrema(*(single(part, alone) for part in _largest(y, tables)))
    return largest if return_indices else largest.values


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = cast(
    "tuple[AdaptiveMaxPool, AdaptiveMaxPool, AdaptiveMaxPool]", _adaptive_max_pool
)


@spatial
@in_single
def _adaptive_avg_pool(n: int, x: A | ArrayLike, /, output_size: OutputExtents) -> A:
    """The means of ``output_size`` parts of {sample}, of shape (batch, channels, {axes}).

    Part i of an axis goes from floor(i * extent / size) to ceil((i + 1) * extent / size), for a size on all
    axes alike or on each; None keeps an extent. Raises ShapeError, ArgumentError.

    >>> from iverson import asarray
    >>> adaptive_avg_pool{n}d(asarray([{open}[1., 3., 2., 0., 4.]{close}]), {window})
    iverson.Tensor([{open}[2., 2.]{close}])
    """
    y, alone, output_extents = _adaptive(f"adaptive_avg_pool{n}d", n, x, output_size)
    if isinstance(y, MaskedTensor):
        return single(_sums(y, output_extents) / _sums(ones_like(y), output_extents), alone)
    for k, count in enumerate(output_extents):
        inside = _inside(y.shape[2 + k], count)
        y = along(y, 2 + k, inside / inside.sum(axis=1, keepdims=True))
    return single(y, alone)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = _adaptive_avg_pool


def _sums(y: Any, output_extents: Shape) -> Any:
    """Sums of the parts into which the spatial axes of ``y`` are divided."""
    for k, count in enumerate(output_extents):
        y = along(y, 2 + k, _inside(y.shape[2 + k], count))
    return y


def _inside(extent: int, count: int) -> Any:
    """Boolean matrix with a row for each part of an axis: True at the entries that the part contains."""
    start, stop = (b[:, None] for b in _parts(extent, count))
    j = np.arange(extent)
    return (j >= start) & (j < stop)


def along(x: Array, axis: int, matrix: NDArray) -> Any:
    """Product of a constant matrix with the lines of ``x`` along an axis; zeros of the matrix are structural.

    In a masked tensor, products with such zeros do not make a result specified.
    """
    lead, trailing = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    flat = F.reshape(x, shape=(lead, x.shape[axis], trailing))
    sparse: Any = F.to_layout(matrix.astype(x.dtype), layout="csr", blocksize=None, dense_dim=0)
    product = F.matmul(masked_tensor(sparse) if isinstance(x, MaskedTensor) else sparse, flat)
    return F.reshape(product, shape=(*x.shape[:axis], matrix.shape[0], *x.shape[axis + 1 :]))


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]
