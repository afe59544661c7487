"""Convolutions and windows over spatial axes, in index notation, from which their derivatives follow.

Arrays have the shape (batch, channels, *spatial), or no batch. Padding is a separate step before; the index
expressions read only what is inside. A transposed convolution is the derivative of a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from iverson import te
from iverson.array_api.conventions.operands import as_inexact, as_operand, cast, check_kind, in_single
from iverson.array_api.signals.array_padding import pad
from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import Shape
from iverson.masked import MaskedTensor, masked_tensor
from iverson.masked.policies import policy
from iverson.masked.window_rules import zeros_beyond
from iverson.nn.layer_arguments import Extents, extents
from iverson.nn.spatial_functions import spatial
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike

    Padding = Extents | Literal["valid", "same"]


def places(shape: Shape, size: Shape, stride: Shape, dilation: Shape) -> Shape:
    """Number of windows along each axis that lie inside of an array of ``shape``."""
    return tuple(
        max((n - d * (k - 1) - 1) // s + 1, 0)
        for n, k, s, d in zip(shape, size, stride, dilation, strict=True)
    )


def at(i: Sequence[te.Expr], k: Sequence[te.Expr], stride: Shape, dilation: Shape) -> tuple[Any, ...]:
    """Indices, one for each axis, of entry ``k`` of window ``i``."""
    return tuple(s * y + d * j for y, j, s, d in zip(i, k, stride, dilation, strict=True))


def _convolved(x: Any, w: Any, lead: int, stride: Shape, dilation: Shape) -> Any:
    """Convolution in index notation of ``x`` (batch, *groups, channels, *spatial) with filters ``w``.

    The filters have the shape (*groups, filters, channels, *size).
    lead : the number of axes of ``x`` before the channels: 1, or 2 with an axis of groups.
    """
    n = len(stride)
    size = tuple(w.shape[len(w.shape) - n :])
    filters, channels = w.shape[lead - 1], w.shape[lead]
    shape = (*x.shape[:lead], filters, *places(x.shape[lead + 1 :], size, stride, dilation))
    c, *k = (te.reduce_axis((0, extent)) for extent in (channels, *size))

    def entry(*i: te.Expr) -> Any:
        outer, f, y = i[:lead], i[lead], i[lead + 1 :]
        return te.sum(x[(*outer, c, *at(y, k, stride, dilation))] * w[(*outer[1:], f, c, *k)], axis=[c, *k])

    return te.compute(shape, entry)


@te.op(name="nn.convolution")
def _convolution(x: te.Tensor, w: te.Tensor, *, stride: Shape, dilation: Shape) -> Any:
    return _convolved(x, w, len(x.shape) - len(stride) - 1, stride, dilation)


@te.op(name="nn.transposed_convolution")
def _transposed_convolution(
    x: te.Tensor, w: te.Tensor, *, spatial: Shape, stride: Shape, dilation: Shape
) -> Any:
    """Pullback of a convolution of an image of extents ``spatial`` with filters ``w``, applied to the
    cotangent ``x``.
    """
    lead = len(x.shape) - len(stride) - 1
    image = te.placeholder((*x.shape[:lead], w.shape[lead], *spatial), x.dtype, "image")
    return te.differentiate(_convolved(image, w, lead, stride, dilation), [image], head=x)[0]


@te.op(name="nn.unfold")
def _unfold(x: Any, *, size: Shape, stride: Shape, dilation: Shape) -> Any:
    n = len(size)
    shape = (x.shape[0], *size, *places(x.shape[1:], size, stride, dilation))
    return te.compute(shape, lambda c, *i: x[(c, *at(i[n:], i[:n], stride, dilation))])


@te.op(name="nn.fold")
def _fold(x: te.Tensor, *, spatial: Shape, stride: Shape, dilation: Shape) -> Any:
    n = len(spatial)
    return te.scatter(
        (x.shape[0], *spatial),
        x.shape,
        lambda c, *i: ((c, *at(i[n:], i[:n], stride, dilation)), x[(c, *i)]),
    )


def images(x: Array | ArrayLike, operation: str, n: int) -> tuple[Any, bool]:
    """Array ``x`` with an axis of examples in front, and True if this axis was added.

    Raises ShapeError unless ``x`` has n spatial axes after (batch, channels) or (channels,).
    """
    x = as_inexact(x, operation)
    check_kind(x, "fc", operation)
    if x.ndim not in (n + 1, n + 2):
        raise ShapeError(
            operation,
            "x",
            got=f"shape {x.shape}",
            expected=f"(batch, channels) or (channels,), and {n} spatial axes",
        )
    return (F.expand_dims(x, axis=(0,)), True) if x.ndim == n + 1 else (x, False)


def single(y: Array, alone: bool) -> Any:
    """Result ``y`` without its first axis if ``alone`` is True: the batch was added for one example."""
    return F.squeeze(y, axis=(0,)) if alone else y


def padded(x: Array, before: Shape, after: Shape, value: float = 0.0) -> Any:
    """Array ``x`` with entries added around its last axes: ``before`` and ``after`` of them on each."""
    if not any((*before, *after)):
        return x
    lead = ((0, 0),) * (x.ndim - len(before))
    return pad(x, (*lead, *zip(before, after, strict=True)), constant_values=value)


def inside(padded_extents: Shape, spatial: Shape, before: Shape, around: Shape | None = None) -> Any:
    """Boolean array over padded spatial axes: True at entries of the array, and at padding close to it.

    padded_extents, spatial : the extents with and without padding. before : the padding in front of each
        axis.
    around : the distance up to which padding is True, for each axis; by default none is.
    """
    mask = np.ones((), bool)
    for n, e, p, a in zip(padded_extents, spatial, before, around or (0,) * len(before), strict=True):
        i = np.arange(n) - p
        mask = np.logical_and.outer(mask, (i >= -a) & (i < e + a))
    return mask


def existing(x: Array, y: Array, before: Shape, around: Shape | None = None) -> Any:
    """The padded array ``y``; if it is masked, padding is specified only up to the distance ``around``.

    x : the array before padding. before : the padding in front of each spatial axis.
    """
    if not isinstance(y, MaskedTensor) or x.shape == y.shape:
        return y
    with policy("intersect"):  # nobody gave the padding a mask
        return masked_tensor(y, inside(y.shape[2:], x.shape[2:], before, around))


def _filters(weight: Array | ArrayLike, operation: str, n: int, groups: int, channels: int, axis: int) -> Any:
    """The ``weight`` as a floating array; raises ShapeError if its shape does not fit the channels and groups
    of x.

    axis : the axis of ``weight`` that is for the channels of x: 1 for a convolution, 0 for a transposed one.
    """
    weight = as_inexact(weight, operation, "weight")
    check_kind(weight, "fc", operation, "weight")
    if groups < 1 or channels % groups:
        raise ArgumentError(
            operation, "groups", got=str(groups), expected=f"a divisor of the {channels} channels of x"
        )
    group_channels = channels // groups if axis else channels
    if (
        weight.ndim != n + 2
        or weight.shape[axis] != group_channels
        or weight.shape[0] % groups
        or 0 in weight.shape
    ):
        kind = (
            f"(filters, {group_channels}, *size)" if axis else f"({group_channels}, filters / groups, *size)"
        )
        raise ShapeError(
            operation,
            "weight",
            got=f"shape {weight.shape} for {channels} channels of x and groups={groups}",
            expected=f"{kind} with {n} spatial axes, none empty, filters in groups of equal size",
        )
    return weight


def _shifted(y: Array, bias: Array | ArrayLike | None, operation: str, n: int) -> Any:
    """Result ``y`` plus ``bias``, a number for each channel, if it is not None."""
    if bias is None:
        return y
    bias = as_operand(bias, operation, "bias")
    filters = y.shape[1]
    if bias.shape != (filters,):
        raise ShapeError(operation, "bias", got=f"shape {bias.shape}", expected=f"shape {(filters,)}")
    return y + F.reshape(bias, shape=(filters,) + (1,) * n)


def _paddings(
    padding: Extents | str, operation: str, size: Shape, stride: Shape, dilation: Shape
) -> tuple[Shape, Shape]:
    """Padding before, and padding after each spatial axis, from integers, "valid" or "same"."""
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise ArgumentError(
                operation, "padding", got=repr(padding), expected="integers, 'valid' or 'same'"
            )
        if padding == "same" and any(s != 1 for s in stride):
            raise ArgumentError(operation, "padding", got=f"'same' with stride {stride}", expected="stride 1")
        total = tuple(d * (k - 1) if padding == "same" else 0 for k, d in zip(size, dilation, strict=True))
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    around = extents(padding, len(size), operation, "padding", least=0)
    return around, around


def _together(x: Array, w: Array) -> tuple[Any, Any]:
    """Both operands in the dtype to which they promote."""
    dtype = dtypes.result_type(x, w)
    return cast(x, dtype), cast(w, dtype)


@spatial
@in_single
def _conv(
    n: int,
    x: A | ArrayLike,
    weight: A | ArrayLike,
    /,
    bias: A | ArrayLike | None = None,
    stride: Extents = 1,
    padding: Padding = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> A:
    """The products of filters with the windows of {sample}.

    Parameters
    ----------
    x : of shape (batch, channels, {axes}), or without the batch.
    weight : the filters, of shape (filters, channels / groups, *size).
    bias : a summand for each filter.
    stride : how far windows are apart, on all axes alike or on each.
    padding : zeros before and after x; "same" for results of x's extents, "valid" for none.
    dilation : how far entries of a window are apart.
    groups : into how many groups channels and filters are divided; each filter reads those of its group.

    Returns an array of shape (batch, filters, *positions). Raises ShapeError where shapes do not fit or no
    window lies inside, ArgumentError, DTypeError.

    >>> from iverson import asarray
    >>> conv{n}d(asarray([{open}[1., 2., 3.]{close}]), asarray([[{open}[1., 10.]{close}]]))
    iverson.Tensor([{open}[21., 32.]{close}])
    """
    name = f"conv{n}d"
    image, alone = images(x, name, n)
    w = _filters(weight, name, n, groups, image.shape[1], 1)
    filters, size = w.shape[0], w.shape[2:]
    steps, spread = extents(stride, n, name, "stride"), extents(dilation, n, name, "dilation")
    before, after = _paddings(padding, name, size, steps, spread)
    wide = existing(image, padded(image, before, after), before)
    positions = _inside(name, wide.shape[2:], size, steps, spread)
    if groups > 1:
        wide = F.reshape(wide, shape=(wide.shape[0], groups, wide.shape[1] // groups, *wide.shape[2:]))
        w = F.reshape(w, shape=(groups, w.shape[0] // groups, *w.shape[1:]))
    y = _convolution(*_together(wide, w), stride=steps, dilation=spread)
    y = F.reshape(y, shape=(image.shape[0], filters, *positions)) if groups > 1 else y
    if isinstance(y, MaskedTensor):
        y = zeros_beyond(y, _reading(image.shape[2:], before, positions, size, steps, spread))
    return single(_shifted(y, bias, name, n), alone)


conv1d, conv2d, conv3d = _conv


def _reading(extent: Shape, before: Shape, count: Shape, size: Shape, stride: Shape, dilation: Shape) -> Any:
    """Boolean array over windows of padded axes: True for a window that reads an entry of the array itself.

    extent : extents without padding. before : padding in front of each axis. count : numbers of windows.
    """
    mask = np.ones((), bool)
    for e, p, c, k, s, d in zip(extent, before, count, size, stride, dilation, strict=True):
        at = s * np.arange(c)[:, None] + d * np.arange(k) - p
        mask = np.logical_and.outer(mask, ((at >= 0) & (at < e)).any(axis=1))
    return mask


def _inside(operation: str, spatial: Shape, size: Shape, stride: Shape, dilation: Shape) -> Shape:
    """Number of windows along each spatial axis; raises ShapeError if no window lies inside of
    ``spatial``.
    """
    counts = places(spatial, size, stride, dilation)
    if 0 in counts:
        raise ShapeError(
            operation,
            "x",
            got=f"spatial extents {spatial}, padding included",
            expected=f"at least {tuple(d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True))}",
            remedy="pad x, or take smaller windows",
        )
    return counts


@spatial
@in_single
def _conv_transpose(
    n: int,
    x: A | ArrayLike,
    weight: A | ArrayLike,
    /,
    bias: A | ArrayLike | None = None,
    stride: Extents = 1,
    padding: Extents = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> A:
    """The transpose of `conv{n}d`: each entry of x adds a filter to the result.

    Parameters
    ----------
    x : of shape (batch, channels, {axes}), or without the batch.
    weight : the filters, of shape (channels, filters / groups, *size).
    bias : a summand for each filter.
    stride : how far apart the filters of neighbouring entries are added, on all axes alike or on each.
    padding : how much is cut off before and after the result.
    output_padding : how much is added after the result, less than the stride or the dilation.
    groups : into how many groups channels and filters are divided.
    dilation : how far apart entries of a filter are added.

    Raises ShapeError where shapes do not fit, ArgumentError, DTypeError.

    >>> from iverson import asarray
    >>> conv_transpose{n}d(asarray([{open}[1., 2.]{close}]), asarray([[{open}[1., 10.]{close}]]), stride=2)
    iverson.Tensor([{open}[ 1., 10.,  2., 20.]{close}])
    """
    name = f"conv_transpose{n}d"
    image, alone = images(x, name, n)
    w = _filters(weight, name, n, groups, image.shape[1], 0)
    steps, spread = extents(stride, n, name, "stride"), extents(dilation, n, name, "dilation")
    cut, extra = (
        extents(p, n, name, argument, least=0)
        for p, argument in ((padding, "padding"), (output_padding, "output_padding"))
    )
    if any(o >= max(s, d) for o, s, d in zip(extra, steps, spread, strict=True)):
        raise ArgumentError(
            name, "output_padding", got=str(extra), expected="less than the stride, or the dilation"
        )
    if 0 in image.shape[2:]:
        raise ShapeError(name, "x", got=f"shape {image.shape}", expected="entries on the spatial axes")
    size = w.shape[2:]
    sizes = zip(image.shape[2:], steps, spread, size, extra, strict=True)
    wide = tuple((e - 1) * s + d * (k - 1) + 1 + o for e, s, d, k, o in sizes)
    filters = groups * w.shape[1]
    if w.dtype.kind == "c":  # the transpose of the convolution, where its adjoint is made
        w = F.conj(w)
    if groups > 1:
        image = F.reshape(image, shape=(image.shape[0], groups, image.shape[1] // groups, *image.shape[2:]))
        w = F.reshape(w, shape=(groups, w.shape[0] // groups, *w.shape[1:]))
    # Entries that only output_padding adds are read by no window.
    base_extents = tuple(e - o for e, o in zip(wide, extra, strict=True))
    y = _transposed_convolution(*_together(image, w), spatial=base_extents, stride=steps, dilation=spread)
    y = F.reshape(y, shape=(image.shape[0], filters, *base_extents))
    if isinstance(y, MaskedTensor):
        y = zeros_beyond(padded(y, (0,) * n, extra), inside(wide, base_extents, (0,) * n))
    else:
        y = padded(y, (0,) * n, extra)
    if any(2 * p >= e for p, e in zip(cut, wide, strict=True)):
        raise ShapeError(
            name, "padding", got=f"{cut} for a result of extents {wide}", expected="less than half of them"
        )
    leading = [slice(0, e, 1) for e in y.shape[:2]]
    inner = [slice(p, e - p, 1) for p, e in zip(cut, wide, strict=True)]
    y = F.index_basic(y, key=(*leading, *inner)) if any(cut) else y
    return single(_shifted(y, bias, name, n), alone)


conv_transpose1d, conv_transpose2d, conv_transpose3d = _conv_transpose


def _windows(
    operation: str, kernel_size: Extents, dilation: Extents, padding: Extents, stride: Extents
) -> tuple[Shape, Shape, Shape, Shape]:
    """Sizes, dilations, paddings and strides of windows over two axes, each a pair of checked integers."""
    return (
        extents(kernel_size, 2, operation, "kernel_size"),
        extents(dilation, 2, operation, "dilation"),
        extents(padding, 2, operation, "padding", least=0),
        extents(stride, 2, operation, "stride"),
    )


@checked
def unfold(
    x: A | ArrayLike,
    /,
    kernel_size: Extents,
    dilation: Extents = 1,
    padding: Extents = 0,
    stride: Extents = 1,
) -> A:
    """The windows of images as columns: of shape (batch, channels * entries of a window, positions).

    Parameters
    ----------
    x : of shape (batch, channels, height, width), or without the batch.
    kernel_size : the extents of a window.
    dilation : how far entries of a window are apart.
    padding : zeros before and after x.
    stride : how far windows are apart.

    Raises ShapeError where no window lies inside, ArgumentError, DTypeError.

    >>> from iverson import asarray
    >>> unfold(asarray([[[1., 2., 3.]]]), (1, 2))
    iverson.Tensor([[1., 2.],
                    [2., 3.]])
    """
    image, alone = images(x, "unfold", 2)
    size, spread, around, steps = _windows("unfold", kernel_size, dilation, padding, stride)
    image = padded(image, around, around)
    counts = _inside("unfold", image.shape[2:], size, steps, spread)
    batch, channels = image.shape[:2]
    flat = F.reshape(image, shape=(batch * channels, *image.shape[2:]))
    y = _unfold(flat, size=size, stride=steps, dilation=spread)
    return single(F.reshape(y, shape=(batch, channels * prod(size), prod(counts))), alone)


@checked
@in_single
def fold(
    x: A | ArrayLike,
    /,
    output_size: Extents,
    kernel_size: Extents,
    dilation: Extents = 1,
    padding: Extents = 0,
    stride: Extents = 1,
) -> A:
    """The sum of windows at their places in images: the transpose of `unfold`.

    Parameters
    ----------
    x : of shape (batch, channels * entries of a window, positions), or without the batch.
    output_size : the spatial extents of the result.
    kernel_size : the extents of a window.
    dilation : how far entries of a window are apart.
    padding : how much is cut off before and after the result.
    stride : how far windows are apart.

    Raises ShapeError where shapes do not fit, ArgumentError, DTypeError.

    >>> from iverson import asarray
    >>> fold(asarray([[1., 2.], [2., 3.]]), (1, 3), (1, 2))
    iverson.Tensor([[[1., 4., 3.]]])
    """
    columns: Any
    columns, alone = images(x, "fold", 1)
    spatial = extents(output_size, 2, "fold", "output_size")
    size, spread, around, steps = _windows("fold", kernel_size, dilation, padding, stride)
    padded_extents = tuple(n + 2 * p for n, p in zip(spatial, around, strict=True))
    counts = _inside("fold", padded_extents, size, steps, spread)
    batch, rows, count = columns.shape
    if rows % prod(size) or count != prod(counts):
        raise ShapeError(
            "fold",
            "x",
            got=f"shape {columns.shape}",
            expected=f"a multiple of {prod(size)} rows and {prod(counts)} columns",
        )
    channels = rows // prod(size)
    apart = F.reshape(columns, shape=(batch * channels, *size, *counts))
    y = _fold(apart, spatial=padded_extents, stride=steps, dilation=spread)
    inner = [slice(p, p + n, 1) for p, n in zip(around, spatial, strict=True)]
    y = F.index_basic(y, key=(slice(0, batch * channels, 1), *inner)) if any(around) else y
    return single(F.reshape(y, shape=(batch, channels, *spatial)), alone)


__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]
