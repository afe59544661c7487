"""Pooling: windows of spatial axes reduced to their largest entries, means or norms.

Of equal entries the first takes the derivative, as in PyTorch.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson import te
from iverson.array_api.arguments import in_single
from iverson.core import dtypes
from iverson.core.arguments import checked
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.shapes import Shape, as_int
from iverson.nn.arguments import Extents, extents
from iverson.nn.convolution import at, images, padded, places, single
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.typing import A, ArrayLike


def _reduced(x: Any, reduce: Any, size: Shape, stride: Shape, dilation: Shape) -> Any:
    """The windows of the last axes of x (channels, *spatial), reduced."""
    k = [te.reduce_axis((0, n)) for n in size]
    shape = (x.shape[0], *places(x.shape[1:], size, stride, dilation))
    return te.compute(shape, lambda c, *i: reduce(x[(c, *at(i, k, stride, dilation))], axis=k))


@te.op(name="nn.max_pool")
def _max_pool(x: Any, *, size: Shape, stride: Shape, dilation: Shape) -> Any:
    return _reduced(x, te.max, size, stride, dilation)


@te.op(name="nn.sum_pool")
def _sum_pool(x: Any, *, size: Shape, stride: Shape, dilation: Shape) -> Any:
    return _reduced(x, te.sum, size, stride, dilation)


class _Pool:
    """The windows of a call over n spatial axes."""

    def __init__(
        self,
        operation: str,
        n: int,
        x: Any,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        kinds: str = "f",
    ) -> None:
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
        whole = tuple(e + 2 * p for e, p in zip(spatial, self.before, strict=True))
        self.spatial = places(whole, self.size, self.stride, self.dilation)
        if ceil_mode:
            self.spatial = tuple(map(self._one_more, whole, range(n)))
        if 0 in self.spatial:
            raise ShapeError(
                operation,
                "x",
                got=f"spatial extents {spatial} with padding {self.before}",
                expected="at least the extents of a window",
            )
        needed = [
            (c - 1) * s + d * (k - 1) + 1
            for c, s, d, k in zip(self.spatial, self.stride, self.dilation, self.size, strict=True)
        ]
        self.after = tuple(max(m - e - p, p) for m, e, p in zip(needed, spatial, self.before, strict=True))

    def _one_more(self, extent: int, k: int) -> int:
        """With a last window that reaches out, if it starts inside."""
        s, own = self.stride[k], self.dilation[k] * (self.size[k] - 1) + 1
        count = -(-(extent - own) // s) + 1 if extent >= own else 1
        inside = self.x.shape[2 + k] + self.before[k]
        return count - 1 if (count - 1) * s >= inside else count

    def reduced(self, op: Any, fill: float = 0.0) -> Any:
        """Each window reduced by an op."""
        x = padded(self.x, self.before, self.after, fill)
        batch, channels = x.shape[:2]
        flat = F.reshape(x, shape=(batch * channels, *x.shape[2:]))
        y = op(flat, size=self.size, stride=self.stride, dilation=self.dilation)
        return F.reshape(y, shape=(batch, channels, *self.spatial))

    def counts(self, outside: bool) -> Any:
        """How many entries a window has, those of the padding included if ``outside``."""
        total: Any = np.ones((), self.x.dtype)
        for k, (e, p, n, s, c) in enumerate(
            zip(self.x.shape[2:], self.before, self.size, self.stride, self.spatial, strict=True)
        ):
            start = np.arange(c) * s - p
            low, high = (-p, e + p) if outside else (0, e)
            own = np.minimum(start + n, high) - np.maximum(start, low)
            total = total * own.astype(self.x.dtype).reshape((c,) + (1,) * (len(self.size) - 1 - k))
        return total


def _max(n: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    pool = _Pool(f"max_pool{n}d", n, x, kernel_size, stride, padding, dilation, ceil_mode)
    return single(pool.reduced(_max_pool, -float("inf")), pool.alone)


@checked
def max_pool1d(
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
) -> A:
    """The largest entry of each window of a sequence.

    Parameters
    ----------
    x : of shape (batch, channels, length), or without the batch.
    kernel_size : the extent of a window.
    stride : how far windows are apart; by default they lie side by side.
    padding : entries before and after x that are never the largest; at most half of a window.
    dilation : how far entries of a window are apart.
    ceil_mode : whether a last window that reaches out of x counts.

    Raises ShapeError where no window lies inside, ArgumentError.

    >>> from iverson import asarray
    >>> max_pool1d(asarray([[1., 3., 2., 0.]]), 2)
    iverson.Tensor([[3., 2.]])
    """
    return _max(1, x, kernel_size, stride, padding, dilation, ceil_mode)


@checked
def max_pool2d(
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
) -> A:
    """The largest entry of each window of images. As `max_pool1d`, over two axes.

    >>> from iverson import asarray
    >>> max_pool2d(asarray([[[1., 3., 2., 0.]]]), (1, 2))
    iverson.Tensor([[[3., 2.]]])
    """
    return _max(2, x, kernel_size, stride, padding, dilation, ceil_mode)


@checked
def max_pool3d(
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    dilation: Extents = 1,
    ceil_mode: bool = False,
) -> A:
    """The largest entry of each window of volumes. As `max_pool1d`, over three axes.

    >>> from iverson import asarray
    >>> max_pool3d(asarray([[[[1., 3., 2., 0.]]]]), (1, 1, 2))
    iverson.Tensor([[[[3., 2.]]]])
    """
    return _max(3, x, kernel_size, stride, padding, dilation, ceil_mode)


def _avg(
    n: int,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any:
    name = f"avg_pool{n}d"
    pool = _Pool(name, n, x, kernel_size, stride, padding, 1, ceil_mode, "fc")
    divisor: Any = pool.counts(count_include_pad)
    if divisor_override is not None:
        divisor = float(as_int(divisor_override, name, "divisor_override"))
        if not divisor:
            raise ArgumentError(name, "divisor_override", got="0", expected="another integer")
    elif divisor.min() == divisor.max():
        divisor = float(divisor.flat[0].real)
    return single(pool.reduced(_sum_pool) / divisor, pool.alone)


@checked
@in_single
def avg_pool1d(
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> A:
    """The mean of each window of a sequence.

    Parameters
    ----------
    x : of shape (batch, channels, length), or without the batch.
    kernel_size : the extent of a window.
    stride : how far windows are apart; by default they lie side by side.
    padding : zeros before and after x; at most half of a window.
    ceil_mode : whether a last window that reaches out of x counts.
    count_include_pad : whether zeros of the padding count in the mean.

    Raises ShapeError where no window lies inside, ArgumentError.

    >>> from iverson import asarray
    >>> avg_pool1d(asarray([[1., 3., 2., 0.]]), 2)
    iverson.Tensor([[2., 1.]])
    """
    return _avg(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@checked
@in_single
def avg_pool2d(
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> A:
    """The mean of each window of images. As `avg_pool1d`, over two axes.

    divisor_override : what sums are divided by, in place of the number of entries.

    >>> from iverson import asarray
    >>> avg_pool2d(asarray([[[1., 3., 2., 0.]]]), (1, 2))
    iverson.Tensor([[[2., 1.]]])
    """
    return _avg(2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@checked
@in_single
def avg_pool3d(
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> A:
    """The mean of each window of volumes. As `avg_pool2d`, over three axes.

    >>> from iverson import asarray
    >>> avg_pool3d(asarray([[[[1., 3., 2., 0.]]]]), (1, 1, 2))
    iverson.Tensor([[[[2., 1.]]]])
    """
    return _avg(3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _parts(extent: int, count: int) -> tuple[Any, Any]:
    """Where each of ``count`` parts of an axis starts and ends."""
    i = np.arange(count)
    return i * extent // count, -(-(i + 1) * extent // count)


def _adaptive(operation: str, n: int, x: Any, output_size: Any) -> tuple[Any, bool, Shape]:
    x, alone = images(x, operation, n)
    given = tuple(output_size) if isinstance(output_size, (list, tuple)) else (output_size,) * n
    if len(given) != n or any(e is None for e in given):
        given = tuple(own if e is None else e for e, own in zip(given, x.shape[2:], strict=False))
    wanted = extents(given, n, operation, "output_size")
    if 0 in x.shape[2:]:
        raise ShapeError(operation, "x", got=f"shape {x.shape}", expected="entries on the spatial axes")
    return x, alone, wanted


def _adaptive_max(n: int, x: Any, output_size: Any) -> Any:
    """A part that is shorter than the longest reads its last entry again, after it: the first one counts."""
    y, alone, wanted = _adaptive(f"adaptive_max_pool{n}d", n, x, output_size)
    if y.dtype.kind == "c":
        raise ArgumentError(f"adaptive_max_pool{n}d", "x", got=f"dtype {y.dtype}", expected="real numbers")
    if all(e % c == 0 for e, c in zip(y.shape[2:], wanted, strict=True)):
        size = tuple(e // c for e, c in zip(y.shape[2:], wanted, strict=True))
        return single(_max(n, y, size, None, 0, 1, False), alone)
    for k, count in enumerate(wanted):
        start, stop = _parts(y.shape[2 + k], count)
        longest = int((stop - start).max())
        index = np.minimum(start[:, None] + np.arange(longest), stop[:, None] - 1).ravel()
        lead, rest = prod(y.shape[: 2 + k]), prod(y.shape[3 + k :])
        flat = F.reshape(y, shape=(lead, y.shape[2 + k], rest))
        spread = F.permute_dims(F.gather(flat, index, axes=(1,)), axes=(1, 0, 2))
        found = _max_pool(
            F.reshape(spread, shape=(lead, longest * count, rest)),
            size=(longest, 1), stride=(longest, 1), dilation=(1, 1),
        )  # fmt: skip
        y = F.reshape(found, shape=(*y.shape[: 2 + k], count, *y.shape[3 + k :]))
    return single(y, alone)


def _adaptive_avg(n: int, x: Any, output_size: Any) -> Any:
    y, alone, wanted = _adaptive(f"adaptive_avg_pool{n}d", n, x, output_size)
    for k, count in enumerate(wanted):
        y = along(y, 2 + k, _means(y.shape[2 + k], count))
    return single(y, alone)


def _means(extent: int, count: int) -> Any:
    """The matrix that takes the means of the parts of an axis."""
    start, stop = (b[:, None] for b in _parts(extent, count))
    j = np.arange(extent)
    return ((j >= start) & (j < stop)) / (stop - start)


def along(x: Any, axis: int, matrix: Any) -> Any:
    """The product of a constant matrix with the lines of x along an axis; its zeros are structural."""
    lead, rest = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    flat = F.reshape(x, shape=(lead, x.shape[axis], rest))
    found = F.matmul(F.to_layout(matrix.astype(x.dtype), layout="csr", blocksize=None, dense_dim=0), flat)
    return F.reshape(found, shape=(*x.shape[:axis], matrix.shape[0], *x.shape[axis + 1 :]))


def adaptive_max_pool1d(x: A | ArrayLike, /, output_size: Extents) -> A:
    """The largest entries of ``output_size`` parts of a sequence, of shape (batch, channels, length).

    Part i goes from floor(i * length / output_size) to ceil((i + 1) * length / output_size).
    Raises ShapeError, ArgumentError.

    >>> from iverson import asarray
    >>> adaptive_max_pool1d(asarray([[1., 3., 2., 0., 5.]]), 2)
    iverson.Tensor([[3., 5.]])
    """
    return _adaptive_max(1, x, output_size)


def adaptive_max_pool2d(x: A | ArrayLike, /, output_size: Extents) -> A:
    """The largest entries of parts of images. As `adaptive_max_pool1d`, over two axes; None keeps an extent.

    >>> from iverson import asarray
    >>> adaptive_max_pool2d(asarray([[[1., 3., 2., 0., 5.]]]), (1, 2))
    iverson.Tensor([[[3., 5.]]])
    """
    return _adaptive_max(2, x, output_size)


def adaptive_max_pool3d(x: A | ArrayLike, /, output_size: Extents) -> A:
    """The largest entries of parts of volumes. As `adaptive_max_pool1d`, over three axes.

    >>> from iverson import asarray
    >>> adaptive_max_pool3d(asarray([[[[1., 3., 2., 0., 5.]]]]), (1, 1, 2))
    iverson.Tensor([[[[3., 5.]]]])
    """
    return _adaptive_max(3, x, output_size)


@in_single
def adaptive_avg_pool1d(x: A | ArrayLike, /, output_size: Extents) -> A:
    """The means of ``output_size`` parts of a sequence, of shape (batch, channels, length).

    Part i goes from floor(i * length / output_size) to ceil((i + 1) * length / output_size).
    Raises ShapeError, ArgumentError.

    >>> from iverson import asarray
    >>> adaptive_avg_pool1d(asarray([[1., 3., 2., 0., 4.]]), 2)
    iverson.Tensor([[2., 2.]])
    """
    return _adaptive_avg(1, x, output_size)


@in_single
def adaptive_avg_pool2d(x: A | ArrayLike, /, output_size: Extents) -> A:
    """The means of parts of images. As `adaptive_avg_pool1d`, over two axes; None keeps an extent.

    >>> from iverson import asarray
    >>> adaptive_avg_pool2d(asarray([[[1., 3., 2., 0., 4.]]]), (1, 2))
    iverson.Tensor([[[2., 2.]]])
    """
    return _adaptive_avg(2, x, output_size)


@in_single
def adaptive_avg_pool3d(x: A | ArrayLike, /, output_size: Extents) -> A:
    """The means of parts of volumes. As `adaptive_avg_pool1d`, over three axes.

    >>> from iverson import asarray
    >>> adaptive_avg_pool3d(asarray([[[[1., 3., 2., 0., 4.]]]]), (1, 1, 2))
    iverson.Tensor([[[[2., 2.]]]])
    """
    return _adaptive_avg(3, x, output_size)


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
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]
