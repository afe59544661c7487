"""Image resizing: interpolation axis by axis, padding, and pixel shuffles (channels as pixels and back)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from iverson.array_api.conventions.operands import as_operand, as_tuple, in_single
from iverson.array_api.entries.joining import take_positions
from iverson.array_api.signals.array_padding import pad as _pad
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.inputs.arguments import as_real, checked
from iverson.core.protocols import NDArray
from iverson.core.shapes import Shape, as_int, check_choice
from iverson.masked import MaskedTensor
from iverson.nn.layer_arguments import Extents, extents, real
from iverson.nn.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from iverson.ops import F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Real

    PadMode = Literal["constant", "reflect", "replicate", "circular"]
    Mode = Literal["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"]

#: Over how many spatial axes each mode goes; the others go over any.
_AXES = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
#: PyTorch's modes of padding under NumPy's names.
_PADDED: dict[str, Any] = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}
_AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)


@checked
@in_single
def interpolate(
    x: A | ArrayLike,
    /,
    size: Extents | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Mode = "nearest",
    align_corners: bool = False,
) -> A:
    """Images at other numbers of points along each spatial axis.

    Parameters
    ----------
    x : of shape (batch, channels, *spatial), with one to three spatial axes.
    size : the spatial extents of the result.
    scale_factor : or the factors of x's, of which the result's are rounded down.
    mode : "nearest" or "nearest-exact" (of the points' places or their centres), "linear" of one axis,
        "bilinear" and "bicubic" of two, "trilinear" of three, and "area", the mean of each part.
    align_corners : whether the first and last points of x and the result are at the same places; if not,
        the outer edges of these points are. For the modes that interpolate.

    The cubic is Keys' with a = -0.75. Raises ShapeError, ArgumentError unless one of size and scale_factor is
    given, or for a mode of other axes; DTypeError for complex x.

    >>> from iverson import asarray
    >>> interpolate(asarray([[[1., 3.]]]), 4, mode="linear")
    iverson.Tensor([[[1. , 1.5, 2.5, 3. ]]])
    """
    check_choice(mode, ("nearest", "nearest-exact", *_AXES, "area"), "interpolate", "mode")
    y: Any = real(x, "interpolate")
    n = y.ndim - 2
    if n not in (1, 2, 3) or 0 in y.shape[2:]:
        raise ShapeError(
            "interpolate", "x", got=f"shape {y.shape}", expected="(batch, channels) and one to three axes"
        )
    if _AXES.get(mode, n) != n:
        raise ArgumentError(
            "interpolate", "mode", got=f"'{mode}' for {n} spatial axes", expected=f"{_AXES[mode]} of them"
        )
    if align_corners and mode not in _AXES:
        raise ArgumentError(
            "interpolate",
            "align_corners",
            got=f"True with mode '{mode}'",
            expected="one that interpolates",
        )
    output_extents, steps = _sizes(y.shape[2:], size, scale_factor)
    if mode == "area":
        return _AREA[n - 1](y, output_extents)
    for k, (extent, count, step) in enumerate(zip(y.shape[2:], output_extents, steps, strict=True)):
        taps = _taps(mode, extent, count, step, align_corners)
        y = _along(y, 2 + k, _without_zeros(taps) if isinstance(y, MaskedTensor) else taps)
    return y


#: For each point, the entry that is read along an axis, and its factor; None for 1.
Tap: TypeAlias = "tuple[NDArray, NDArray | None]"


def _without_zeros(taps: list[Tap]) -> list[tuple[Any, Any]]:
    """Taps in which a point whose factor is 0 reads the entry with the largest factor instead.

    The entry at a factor of 0 may not exist in a masked tensor.
    """
    if taps[0][1] is None:
        return taps
    (*indices,), (*factors,) = zip(*taps, strict=True)
    largest = np.choose(np.argmax(np.abs(factors), axis=0), indices)
    return [(np.where(f == 0, largest, i), f) for i, f in zip(indices, factors, strict=True)]


def _sizes(
    spatial: Shape, size: Extents | None, scale_factor: Real | Sequence[Real] | None
) -> tuple[Shape, tuple[float, ...]]:
    """Spatial extents of the result, and for each axis the distance in x between neighbouring points of the
    result.
    """
    n = len(spatial)
    if (size is None) is (scale_factor is None):
        raise ArgumentError(
            "interpolate",
            "size",
            got="neither size nor scale_factor" if size is None else "both size and scale_factor",
            expected="one of them",
        )
    if size is not None:
        output_extents = extents(size, n, "interpolate", "size")
        return output_extents, tuple(e / c for e, c in zip(spatial, output_extents, strict=True))
    scales: Any = scale_factor if isinstance(scale_factor, (list, tuple)) else (scale_factor,) * n
    factors = [float(as_real(f, "interpolate", "scale_factor")) for f in scales]
    if len(factors) != n or not all(0 < f < 2**31 for f in factors):
        raise ArgumentError(
            "interpolate",
            "scale_factor",
            got=str(scale_factor),
            expected=f"a factor above 0, or {n} of them, one for each spatial axis",
        )
    output_extents = tuple(int(e * f) for e, f in zip(spatial, factors, strict=True))
    if 0 in output_extents:
        raise ArgumentError(
            "interpolate",
            "scale_factor",
            got=str(scale_factor),
            expected="a point on each axis",
        )
    return output_extents, tuple(1 / f for f in factors)


def _taps(mode: str, extent: int, count: int, step: float, align_corners: bool) -> list[tuple[Any, Any]]:
    """Pairs of positions on an axis and factors (None for 1); each point of the result is the sum over the
    pairs.

    extent, count : the numbers of points on the axis, before and after. step : the distance of points in x.
    """
    i = np.arange(count)
    if mode.startswith("nearest"):
        place = np.floor((i + (0.5 if mode == "nearest-exact" else 0.0)) * step)
        return [(np.minimum(place.astype(np.intp), extent - 1), None)]
    if align_corners:
        place = i * ((extent - 1) / (count - 1) if count > 1 else 0.0)
    else:
        place = (i + 0.5) * step - 0.5
        place = place if mode == "bicubic" else np.maximum(place, 0.0)
    first = np.floor(place)
    t = place - first
    if mode == "bicubic":
        factors = [_cubic(abs(t - k)) for k in range(-1, 3)]
    else:
        factors = [1 - t, t]
    start = -1 if mode == "bicubic" else 0
    return [
        (np.clip(first.astype(np.intp) + start + k, 0, extent - 1), factor)
        for k, factor in enumerate(factors)
    ]


def _cubic(t: NDArray, a: float = -0.75) -> Any:
    """Keys' cubic kernel at distances ``t`` below 2 (R. G. Keys, 1981, equation 4)."""
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, far)


def _along(x: Array, axis: int, taps: list[Tap]) -> Any:
    """Sum over ``taps`` of entries along an axis, times their factors."""
    total: Any = None
    shape = (-1,) + (1,) * (x.ndim - 1 - axis)
    for index, factor in taps:
        term: Any = take_positions(x, index, axis)
        term = term if factor is None else term * factor.astype(x.dtype).reshape(shape)
        total = term if total is None else total + term
    return total


@checked
def pad(x: A | ArrayLike, pad: Sequence[int], /, mode: PadMode = "constant", value: complex = 0.0) -> A:
    """x with entries added at the ends of its last axes, as in PyTorch.

    Parameters
    ----------
    x : of any shape.
    pad : how much is added before and after the last axis, then before and after the one before it, and so
        on: ``(left, right, top, bottom)`` for images. A negative number takes entries away.
    mode : "constant" (the scalar ``value``), "reflect" (mirrored at the entry at the edge), "replicate" (that
        entry) or "circular" (from the other end of what negative numbers leave).
    value : what is added in the mode "constant".

    `iverson.pad` has a pair for each axis, in their order, and NumPy's other modes. Raises ShapeError for
    numbers that are no pairs, or of more axes than there are, and as `iverson.pad`.

    >>> from iverson import asarray
    >>> pad(asarray([[1., 2., 3.]]), (1, 2), "replicate")
    iverson.Tensor([[1., 1., 2., 3., 3., 3.]])
    """
    check_choice(mode, tuple(_PADDED), "pad", "mode")
    y: Any = as_operand(x, "pad")
    ends = [as_int(n, "pad", "pad") for n in as_tuple(pad)]
    count = len(ends) // 2
    if len(ends) % 2 or count > y.ndim:
        raise ShapeError(
            "pad",
            "pad",
            got=str(pad),
            expected=f"numbers before and after at most {y.ndim} axes, the last first",
        )
    pairs = [(ends[2 * k], ends[2 * k + 1]) for k in reversed(range(count))]
    widths = [(0, 0)] * (y.ndim - count) + pairs
    if mode == "circular":  # of what is left, as in PyTorch
        y = _pad(y, [(min(before, 0), min(after, 0)) for before, after in widths])
        widths = [(max(before, 0), max(after, 0)) for before, after in widths]
    return _pad(y, widths, mode=_PADDED[mode], constant_values=value)


@checked
def pixel_shuffle(x: A | ArrayLike, /, upscale_factor: int) -> A:
    """Channels as pixels: (..., channels * r**2, height, width) to (..., channels, height * r, width * r).

    Raises ShapeError where r**2 does not divide the channels, ArgumentError for a factor below 1.

    >>> from iverson import asarray
    >>> pixel_shuffle(asarray([[[1.]], [[2.]], [[3.]], [[4.]]]), 2)
    iverson.Tensor([[[1., 2.],
                     [3., 4.]]])
    """
    y, r = _pixels(x, "pixel_shuffle", "upscale_factor", upscale_factor)
    *lead, channels, height, width = y.shape
    if channels % (r * r):
        raise ShapeError("pixel_shuffle", "x", got=f"{channels} channels", expected=f"a multiple of {r * r}")
    n = len(lead)
    y = F.reshape(y, shape=(*lead, channels // (r * r), r, r, height, width))
    y = F.permute_dims(y, axes=(*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return F.reshape(y, shape=(*lead, channels // (r * r), height * r, width * r))


@checked
def pixel_unshuffle(x: A | ArrayLike, /, downscale_factor: int) -> A:
    """Pixels as channels: (..., channels, height * r, width * r) to (..., channels * r**2, height, width).

    Raises ShapeError where r does not divide the extents, ArgumentError for a factor below 1.

    >>> from iverson import asarray
    >>> pixel_unshuffle(asarray([[[1., 2.], [3., 4.]]]), 2).shape
    (4, 1, 1)
    """
    y, r = _pixels(x, "pixel_unshuffle", "downscale_factor", downscale_factor)
    *lead, channels, height, width = y.shape
    if height % r or width % r:
        raise ShapeError("pixel_unshuffle", "x", got=f"shape {y.shape}", expected=f"multiples of {r}")
    n = len(lead)
    y = F.reshape(y, shape=(*lead, channels, height // r, r, width // r, r))
    y = F.permute_dims(y, axes=(*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return F.reshape(y, shape=(*lead, channels * r * r, height // r, width // r))


def _pixels(x: Array | ArrayLike, operation: str, argument: str, factor: int) -> tuple[Any, int]:
    x = as_operand(x, operation)
    if x.ndim < 3:
        raise ShapeError(operation, "x", got=f"shape {x.shape}", expected="(..., channels, height, width)")
    if not 1 <= factor < 2**31:
        raise ArgumentError(operation, argument, got=str(factor), expected="at least 1")
    return x, factor


__all__ = ["interpolate", "pad", "pixel_shuffle", "pixel_unshuffle"]
