"""Discrete Fourier transforms: `iverson.fft`.

Lengths are brought about here, by slicing or by zeros at the end; the ops transform axes as they are. With
``norm="backward"`` the inverse is divided by n, with "forward" the transform, with "ortho" both by its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from iverson.array_api.conventions.operands import (
    as_inexact,
    as_operand,
    as_tuple,
    check_device,
    check_kind,
    given_dtype,
)
from iverson.core import dtypes
from iverson.core.dispatch import created
from iverson.core.errors import ArgumentError, AxisError, DTypeError
from iverson.core.float_warnings import at_user_line, cast
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import as_int, check_choice, normalize_axis
from iverson.handles import Tensor
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axes, Axis, Device, DTypeLike, Lengths, Norm


_NORMS = ("backward", "ortho", "forward")
_SWAPPED: dict[Norm, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _resized(x: Array, axis: int, n: int) -> Any:
    """Array ``x`` with extent ``n`` on an axis: cut, or extended by zeros at the end."""
    common = min(n, x.shape[axis])
    if common == n == x.shape[axis]:
        return x
    key = tuple(slice(0, common if k == axis else m, 1) for k, m in enumerate(x.shape))
    x = F.index_basic(x, key=key) if common < x.shape[axis] else x
    if common == n:
        return x
    shape = tuple(n if k == axis else m for k, m in enumerate(x.shape))
    return F.to_dense(F.embed(x, key=key, shape=shape))


def _length(n: SupportsIndex | None, default: int, operation: str, argument: str = "n") -> int:
    points = default if n is None else as_int(n, operation, argument)
    if not 1 <= points < 2**58:
        expected = "at least one point" if points < 1 else "fewer than 2**58 points"
        raise ArgumentError(operation, argument, got=str(points), expected=expected)
    return points


def _axes(x: Array, s: Lengths, axes: Axes, operation: str) -> tuple[list[int], list[int | None]]:
    """Axes to transform, in the user's order, and the length for each, or None to keep that of ``x``."""
    if s is not None and axes is None:
        raise ArgumentError(operation, "axes", got="None with s given", expected="one axis for each in s")
    axis_numbers = range(x.ndim) if axes is None else as_tuple(axes)
    numbers = [normalize_axis(a, x.ndim, operation, "axes") for a in axis_numbers]
    if len(set(numbers)) != len(numbers):
        raise AxisError(operation, "axes", got=str(axes), expected="each axis once")
    lengths: list[int | None] = [None] * len(numbers) if s is None else list(as_tuple(s))
    if len(lengths) != len(numbers):
        raise ArgumentError(operation, "s", got=f"{len(lengths)} lengths", expected=f"{len(numbers)}")
    return numbers, lengths


def _fitted(x: Array, axes: Sequence[int], lengths: Sequence[int | None], operation: str) -> Any:
    for k, n in zip(axes, lengths, strict=True):
        x = _resized(x, k, _length(n, x.shape[k], operation, "s"))
    return x


def _along(name: str, x: Array | ArrayLike, n: SupportsIndex | None, axis: Axis, norm: str) -> Any:
    x = as_inexact(x, name)
    check_choice(norm, _NORMS, name, "norm")
    k = normalize_axis(axis, x.ndim, name)
    return getattr(F, name + "n")(_resized(x, k, _length(n, x.shape[k], name)), axes=(k,), norm=norm)


def _over(name: str, x: Array | ArrayLike, s: Lengths, axes: Axes, norm: str) -> Any:
    x = as_inexact(x, name)
    check_choice(norm, _NORMS, name, "norm")
    numbers, lengths = _axes(x, s, axes, name)
    return getattr(F, name)(_fitted(x, numbers, lengths, name), axes=tuple(sorted(numbers)), norm=norm)


@checked
def fft(
    x: A | ArrayLike, /, *, n: SupportsIndex | None = None, axis: Axis = -1, norm: Norm = "backward"
) -> A:
    """The discrete Fourier transform along an axis.

    ``n`` is the number of points, by default what x has along ``axis``; ``norm`` is "backward", "ortho" or
    "forward". Integers become float64. Raises AxisError, ArgumentError for fewer than one point or another
    norm.

    >>> from iverson import asarray
    >>> fft(asarray([1., 0.]))
    iverson.Tensor([1.+0.j, 1.+0.j])
    """
    return _along("fft", x, n, axis, norm)


@checked
def ifft(
    x: A | ArrayLike, /, *, n: SupportsIndex | None = None, axis: Axis = -1, norm: Norm = "backward"
) -> A:
    """The inverse of `fft`.

    ``n`` is the number of points, by default what x has along ``axis``; ``norm`` is "backward", "ortho" or
    "forward". Integers become float64. Raises AxisError, ArgumentError for fewer than one point or another
    norm.

    >>> from iverson import asarray
    >>> ifft(asarray([1., 1.]))
    iverson.Tensor([1.+0.j, 0.+0.j])
    """
    return _along("ifft", x, n, axis, norm)


@checked
def fftn(x: A | ArrayLike, /, *, s: Lengths = None, axes: Axes = None, norm: Norm = "backward") -> A:
    """The discrete Fourier transform over axes.

    ``s`` and ``axes`` are sequences of one length (all axes by default); ``norm`` is "backward", "ortho" or
    "forward". Integers become float64. Raises AxisError, ArgumentError for fewer than one point or another
    norm.

    >>> from iverson import asarray
    >>> fftn(asarray([[1., 0.]]))
    iverson.Tensor([[1.+0.j, 1.+0.j]])
    """
    return _over("fftn", x, s, axes, norm)


@checked
def ifftn(x: A | ArrayLike, /, *, s: Lengths = None, axes: Axes = None, norm: Norm = "backward") -> A:
    """The inverse of `fftn`.

    ``s`` and ``axes`` are sequences of one length (all axes by default); ``norm`` is "backward", "ortho" or
    "forward". Integers become float64. Raises AxisError, ArgumentError for fewer than one point or another
    norm.

    >>> from iverson import asarray
    >>> ifftn(asarray([[1., 1.]]))
    iverson.Tensor([[1.+0.j, 0.+0.j]])
    """
    return _over("ifftn", x, s, axes, norm)


@checked
def rfft(
    x: A | ArrayLike, /, *, n: SupportsIndex | None = None, axis: Axis = -1, norm: Norm = "backward"
) -> A:
    """The first n // 2 + 1 entries of the transform of a real x along an axis; the rest are their conjugates.

    Parameters and errors are those of `fft`; DTypeError for complex x.

    >>> from iverson import asarray
    >>> rfft(asarray([1., 0., 0., 0.])).shape
    (3,)
    """
    x = as_inexact(x, "rfft")
    check_kind(x, "f", "rfft", remedy="use fft")
    check_choice(norm, _NORMS, "rfft", "norm")
    k = normalize_axis(axis, x.ndim, "rfft")
    return F.rfft(_resized(x, k, _length(n, x.shape[k], "rfft")), axis=k, norm=norm)


@checked
def irfft(
    x: A | ArrayLike, /, *, n: SupportsIndex | None = None, axis: Axis = -1, norm: Norm = "backward"
) -> A:
    """The inverse of `rfft`: ``n`` real points from the first n // 2 + 1 entries along an axis.

    By default n is 2 * (m - 1) for m entries. Parameters and errors are those of `fft`.

    >>> from iverson import asarray
    >>> irfft(asarray([1., 1., 1.]), n=4)
    iverson.Tensor([1., 0., 0., 0.])
    """
    x = as_inexact(x, "irfft")
    check_choice(norm, _NORMS, "irfft", "norm")
    k = normalize_axis(axis, x.ndim, "irfft")
    points = _length(n, 2 * (x.shape[k] - 1), "irfft")
    return F.irfft(_resized(x, k, points // 2 + 1), axis=k, n=points, norm=norm)


@checked
def rfftn(x: A | ArrayLike, /, *, s: Lengths = None, axes: Axes = None, norm: Norm = "backward") -> A:
    """`rfft` along the last of the axes, then `fftn` over the others. DTypeError for complex x.

    Parameters and errors are those of `fftn`.

    >>> from iverson import zeros
    >>> rfftn(zeros((3, 4))).shape
    (3, 3)
    """
    x = as_inexact(x, "rfftn")
    check_kind(x, "f", "rfftn", remedy="use fftn")
    check_choice(norm, _NORMS, "rfftn", "norm")
    numbers, lengths = _axes(x, s, axes, "rfftn")
    if not numbers:
        raise AxisError("rfftn", "axes", got="none", expected="at least one axis")
    half = F.rfft(_fitted(x, numbers, lengths, "rfftn"), axis=numbers[-1], norm=norm)
    return F.fftn(half, axes=tuple(sorted(numbers[:-1])), norm=norm) if numbers[1:] else half


@checked
def irfftn(x: A | ArrayLike, /, *, s: Lengths = None, axes: Axes = None, norm: Norm = "backward") -> A:
    """The inverse of `rfftn`: `ifftn` over all axes but the last, then `irfft` along that.

    Parameters and errors are those of `fftn`.

    >>> from iverson import zeros
    >>> irfftn(zeros((3, 3)), s=(3, 4), axes=(0, 1)).shape
    (3, 4)
    """
    x = as_inexact(x, "irfftn")
    check_choice(norm, _NORMS, "irfftn", "norm")
    numbers, lengths = _axes(x, s, axes, "irfftn")
    if not numbers:
        raise AxisError("irfftn", "axes", got="none", expected="at least one axis")
    if numbers[1:]:
        x = _fitted(x, numbers[:-1], lengths[:-1], "irfftn")
        x = F.ifftn(x, axes=tuple(sorted(numbers[:-1])), norm=norm)
    return irfft(x, n=lengths[-1], axis=numbers[-1], norm=norm)


@checked
def hfft(
    x: A | ArrayLike, /, *, n: SupportsIndex | None = None, axis: Axis = -1, norm: Norm = "backward"
) -> A:
    """The real transform of a Hermitian signal, of which x holds n // 2 + 1 entries.

    Parameters and errors are those of `irfft`.

    >>> from iverson import asarray
    >>> hfft(asarray([1., 0., 0.]), n=4)
    iverson.Tensor([1., 1., 1., 1.])
    """
    x = as_inexact(x, "hfft")
    check_choice(norm, _NORMS, "hfft", "norm")
    return irfft(F.conj(x), n=n, axis=axis, norm=_SWAPPED[norm])


@checked
def ihfft(
    x: A | ArrayLike, /, *, n: SupportsIndex | None = None, axis: Axis = -1, norm: Norm = "backward"
) -> A:
    """The inverse of `hfft`: n // 2 + 1 entries of a Hermitian signal. DTypeError for complex x.

    Parameters and errors are those of `rfft`.

    >>> from iverson import asarray
    >>> ihfft(asarray([1., 1., 1., 1.])).shape
    (3,)
    """
    check_choice(norm, _NORMS, "ihfft", "norm")
    return F.conj(rfft(x, n=n, axis=axis, norm=_SWAPPED[norm]))


def _frequencies(name: str, n: SupportsIndex, d: float, dtype: DTypeLike | None, device: Device) -> Tensor:
    if not d:
        raise ArgumentError(name, "d", got=str(d), expected="a distance other than 0")
    check_device(device, name)
    entry_dtype = given_dtype(dtype, dtypes.default_float, name)
    if not dtypes.is_floating(entry_dtype):
        raise DTypeError(name, "dtype", got=str(entry_dtype), expected="a real floating dtype")
    return created(Tensor(cast(_BODIES[name](_length(n, 1, name), d), entry_dtype)))


_BODIES = {name: at_user_line(getattr(np.fft, name)) for name in ("fftfreq", "rfftfreq")}


@checked
def fftfreq(
    n: SupportsIndex, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Device = None
) -> Tensor:
    """The frequencies of the entries of `fft`, for n points ``d`` apart, in cycles per unit of d.

    Raises ArgumentError for fewer than one point, DTypeError for a ``dtype`` that is not real floating.

    >>> fftfreq(4)
    iverson.Tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _frequencies("fftfreq", n, d, dtype, device)


@checked
def rfftfreq(
    n: SupportsIndex, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Device = None
) -> Tensor:
    """The frequencies of the entries of `rfft`, for n points ``d`` apart, in cycles per unit of d.

    Raises ArgumentError for fewer than one point, DTypeError for a ``dtype`` that is not real floating.

    >>> rfftfreq(4)
    iverson.Tensor([0.  , 0.25, 0.5 ])
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def _shifted(x: Array | ArrayLike, axes: Axes, operation: str, forward: bool) -> Any:
    x = as_operand(x, operation)
    numbers, _ = _axes(x, None, axes, operation)
    shifts = (x.shape[k] // 2 if forward else -(x.shape[k] // 2) for k in numbers)
    return F.roll(x, shift=tuple(shifts), axis=tuple(numbers))


@checked
def fftshift(x: A | ArrayLike, /, *, axes: Axes = None) -> A:
    """x with the entry of frequency 0 moved to the middle of axes (None: all). Raises AxisError.

    >>> fftshift(fftfreq(4))
    iverson.Tensor([-0.5 , -0.25,  0.  ,  0.25])
    """
    return _shifted(x, axes, "fftshift", True)


@checked
def ifftshift(x: A | ArrayLike, /, *, axes: Axes = None) -> A:
    """The inverse of `fftshift`.

    >>> ifftshift(fftshift(fftfreq(4)))
    iverson.Tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _shifted(x, axes, "ifftshift", False)


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn",
    "rfft", "rfftfreq", "rfftn",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
