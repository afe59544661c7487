"""Filters of signals, as in `scipy.signal`: a recursive filter is a recurrence in index notation (`te.scan`).

Its derivatives in the signal and in the coefficients are recurrences too, of any order, in both modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

import numpy as np

import iverson as iv
from iverson import te
from iverson.array_api.conventions.operands import as_real
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.shapes import as_int, check_choice, normalize_axis
from iverson.handles import Tensor
from iverson.interop.scipy.by_matrix import spectra
from iverson.interop.scipy.by_matrix.linear_maps import Setting
from iverson.interop.scipy.by_matrix.spectra import *  # noqa: F403
from iverson.interop.scipy.ndimage import correlation, median_filter
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.typing import ArrayLike

Mode = Literal["full", "valid", "same"]


@te.op(name="scipy.recursion")
def _recursion(a: te.Tensor, x: te.Tensor) -> te.Compute:
    """Output of a purely recursive filter, y[t] = x[t] - a[1] y[t - 1] - a[2] y[t - 2] - ..., for each column
    of x.
    """
    order = a.shape[0]

    def step(y: te.Tensor) -> te.Compute:
        def entry(t: te.Expr, i: te.Expr) -> te.Expr:
            value = x[t, i]
            for k in range(1, order):
                value = value - a[k] * y[t - k, i]
            return value

        return te.compute(x.shape, entry)

    return te.scan(x.shape, step, dtype=x.dtype)


def _signal(x: ArrayLike, operation: str, argument: str) -> Tensor:
    signal: Tensor = F.to_dense(as_real(x, operation, argument, "fc"))
    return signal


def _promoted(*arrays: Tensor) -> list[Tensor]:
    dtype = iv.result_type(*arrays)
    return [x if x.dtype == dtype else iv.astype(x, dtype) for x in arrays]


# --- convolutions -----------------------------------------------------------------------------------


def convolve(in1: ArrayLike, in2: ArrayLike, mode: Mode = "full", method: str = "auto") -> Tensor:
    """The convolution of two arrays of the same rank.

    Parameters
    ----------
    in1, in2 : arrays, real or complex; integers become float64.
    mode : "full", "valid" (where one lies within the other) or "same" (of the shape of ``in1``).
    method : "direct" (index notation), "fft", or "auto", which takes what has fewer multiply-adds.

    Differentiable in both. Raises ShapeError for arrays of different rank, or without one within the other
    for "valid".

    >>> convolve(iv.asarray([1., 2., 3.]), iv.asarray([0., 1.]))
    iverson.Tensor([0., 1., 2., 3.])
    """
    check_choice(method, ("auto", "direct", "fft"), "convolve", "method")
    return _combined("convolve", in1, in2, mode, method)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: Mode = "full", method: str = "auto") -> Tensor:
    """The correlation of two arrays: `convolve` with the conjugate of ``in2`` read backwards.

    >>> correlate(iv.asarray([1., 2., 3.]), iv.asarray([0., 1.]))
    iverson.Tensor([1., 2., 3., 0.])
    """
    check_choice(method, ("auto", "direct", "fft"), "correlate", "method")
    second = _signal(in2, "correlate", "in2")
    first = _signal(in1, "correlate", "in1")
    if mode == "valid" and _within(second, first) and not _within(first, second):
        # What lies within is the first: the result is that of the other order read backwards, conjugated.
        return iv.flip(iv.conj(_combined("correlate", second, iv.flip(iv.conj(first)), mode, method)))
    return _combined("correlate", first, iv.flip(iv.conj(second)), mode, method)


def _within(a: Tensor, b: Tensor) -> bool:
    """Return True if a window of the shape of ``b`` fits into ``a``."""
    return all(n >= m for n, m in zip(a.shape, b.shape, strict=False))


def _combined(name: str, in1: ArrayLike, in2: ArrayLike, mode: str, method: str) -> Tensor:
    """Convolution of ``in1`` and ``in2`` in a mode of SciPy, directly or by Fourier transforms.

    name : the operation, for errors. method : "direct", "fft", or "auto" for the one with less work.
    """
    a, b = _promoted(_signal(in1, name, "in1"), _signal(in2, name, "in2"))
    check_choice(mode, ("full", "valid", "same"), name, "mode")
    if a.ndim != b.ndim:
        raise ShapeError(name, "in2", got=f"shape {b.shape}", expected=f"{a.ndim} axes, as in1 has")
    if not a.size or not b.size:
        return iv.zeros(0, dtype=a.dtype)
    if not a.ndim:
        return a * b
    first_shape = a.shape
    if mode == "valid" and not _within(a, b):
        a, b = b, a
        if not _within(a, b):
            raise ShapeError(
                name,
                "in2",
                got=f"shapes {b.shape} and {a.shape}",
                expected='one within the other on all axes, for the mode "valid"',
            )
    full_shape = tuple(n + m - 1 for n, m in zip(a.shape, b.shape, strict=True))
    if method == "auto":
        method = (
            "fft"
            if a.size * b.size > 40 * np.prod(full_shape) * np.log2(2.0 * np.prod(full_shape))
            else "direct"
        )
    if method == "fft":
        full = _by_transforms(a, b, full_shape)
        if mode == "full":
            return full
        shape = (
            first_shape if mode == "same" else tuple(n - m + 1 for n, m in zip(a.shape, b.shape, strict=True))
        )
        return full[
            tuple(slice((w - n) // 2, (w - n) // 2 + n) for w, n in zip(full_shape, shape, strict=True))
        ]
    if mode == "valid":
        return correlation(a, iv.flip(b))
    if mode == "full":
        widths = [(m - 1, m - 1) for m in b.shape]
    else:
        widths = [(m // 2, (m - 1) // 2) for m in b.shape]
    return correlation(iv.pad(a, widths), iv.flip(b))


def _by_transforms(a: Tensor, b: Tensor, lengths: Sequence[int]) -> Tensor:
    axes = tuple(range(a.ndim))
    if a.dtype.kind == "c":
        return iv.fft.ifftn(
            iv.fft.fftn(a, s=lengths, axes=axes) * iv.fft.fftn(b, s=lengths, axes=axes), axes=axes
        )
    product = iv.fft.rfftn(a, s=lengths, axes=axes) * iv.fft.rfftn(b, s=lengths, axes=axes)
    return iv.fft.irfftn(product, s=lengths, axes=axes)


# --- recursive filters ------------------------------------------------------------------------------


@overload
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: None = None) -> Tensor: ...
@overload
def lfilter(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, *, zi: ArrayLike
) -> tuple[Tensor, Tensor]: ...
@overload
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int, zi: ArrayLike) -> tuple[Tensor, Tensor]: ...
def lfilter(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """A signal through a digital filter with the transfer function b(z) / a(z).

    ``a[0] y[n] = b[0] x[n] + b[1] x[n - 1] + ... - a[1] y[n - 1] - ...`` along an axis.

    Parameters
    ----------
    b, a : vectors of coefficients of powers of 1 / z, or numbers.
    x : the signal, real or complex; integers become float64.
    axis : the axis of time.
    zi : the state before: of x's shape with ``max(len(a), len(b)) - 1`` along the axis.

    Returns
    -------
    The filtered signal; with ``zi`` that and the state after. Both differentiate in all arguments.

    Raises
    ------
    ShapeError : for coefficients that are no vectors, or a state that does not fit.

    See A. Oppenheim and R. Schafer, Discrete-Time Signal Processing, 3rd ed. 2009, section 6.3: the state is
    that of the transposed direct form II, as in SciPy.

    >>> lfilter(iv.asarray([1.]), iv.asarray([1., -0.5]), iv.asarray([1., 0., 0.]))
    iverson.Tensor([1.  , 0.5 , 0.25])
    """
    signal = _signal(x, "lfilter", "x")
    k = normalize_axis(axis, signal.ndim, "lfilter")
    top, bottom, signal = _promoted(
        _coefficients(b, "lfilter", "b"), _coefficients(a, "lfilter", "a"), signal
    )
    lead = bottom[0]
    top, bottom = top / lead, bottom / lead
    order = max(top.shape[0], bottom.shape[0]) - 1
    first = iv.moveaxis(signal, k, 0)
    trailing, steps = first.shape[1:], first.shape[0]
    columns = iv.reshape(first, (steps, int(np.prod(trailing))))
    fed = _fed(top, columns)
    before = None
    if zi is not None:
        before = _state(zi, signal, k, order)
        fed = _with_state(fed, before, steps)
    y = _recursion(bottom, fed) if bottom.shape[0] > 1 and fed.size else fed

    def shaped(z: Tensor) -> Tensor:
        return iv.moveaxis(iv.reshape(z, (z.shape[0], *trailing)), 0, k)

    return shaped(y) if before is None else (shaped(y), shaped(_state_after(top, bottom, columns, y, before)))


def _coefficients(x: ArrayLike, operation: str, argument: str) -> Tensor:
    vector = _signal(x, operation, argument)
    vector = iv.reshape(vector, (1,)) if not vector.ndim else vector
    if vector.ndim != 1 or not vector.size:
        raise ShapeError(operation, argument, got=f"shape {vector.shape}", expected="a vector with entries")
    return vector


def _fed(top: Tensor, columns: Tensor) -> Tensor:
    """Part of a filter that does not recur: the convolution of the signal's ``columns`` with the coefficients
    ``top``.
    """
    if not columns.size:
        return columns
    ahead = iv.pad(columns, ((top.shape[0] - 1, 0), (0, 0)))
    return correlation(ahead, iv.reshape(iv.flip(top), (-1, 1)))


def _state(zi: ArrayLike, signal: Tensor, axis: int, order: int) -> Tensor:
    state = _signal(zi, "lfilter", "zi")
    expected = tuple(order if j == axis else n for j, n in enumerate(signal.shape))
    if state.ndim != len(expected) or any(
        n not in (m, 1) for n, m in zip(state.shape, expected, strict=False)
    ):
        raise ShapeError("lfilter", "zi", got=f"shape {state.shape}", expected=f"shape {expected}")
    leading = iv.moveaxis(iv.broadcast_to(state, expected), axis, 0)
    return iv.reshape(_promoted(leading, signal)[0], (order, -1)) if signal.size else iv.zeros((order, 0))


def _with_state(fed: Tensor, before: Tensor, steps: int) -> Tensor:
    """Sum of ``fed`` and the initial state ``before``: entry k of the state is added at time k."""
    order = before.shape[0]
    if order >= steps:
        return fed + before[:steps]
    return fed + iv.pad(before, ((0, steps - order), (0, 0)))


def _state_after(top: Tensor, bottom: Tensor, x: Tensor, y: Tensor, before: Tensor) -> Tensor:
    """State of a filter after the signal ``x``, from the output ``y`` and the state before.

    z[k] is the sum of b[j] x[n + k - j] - a[j] y[n + k - j] over j > k, plus what is left of the state
    before.
    top, bottom : the coefficients b and a.
    """
    order, steps = before.shape[0], x.shape[0]
    j, k = np.arange(order + 1), np.arange(order)[:, None]
    at = np.where(j > k, order + steps + k - j, 0)  # in what is padded by ``order`` zeros

    def of(c: Tensor, z: Tensor) -> Tensor:
        c = iv.pad(c, (0, order + 1 - c.shape[0]))
        past = iv.take(iv.pad(z, ((order, 0), (0, 0))), at.ravel(), axis=0)
        return iv.einsum("kj,kji->ki", c * (j > k), iv.reshape(past, (*at.shape, z.shape[1])))

    remainder = iv.pad(before, ((0, steps), (0, 0)))[steps:]
    return of(top, x) - of(bottom, y) + remainder


def lfilter_zi(b: ArrayLike, a: ArrayLike) -> Tensor:
    """The state of `lfilter` that a signal of ones has had for ever.

    >>> lfilter_zi(iv.asarray([1., 1.]), iv.asarray([2., 1.]))
    iverson.Tensor([0.16666667])
    """
    top, bottom = _promoted(_coefficients(b, "lfilter_zi", "b"), _coefficients(a, "lfilter_zi", "a"))
    order = max(top.shape[0], bottom.shape[0]) - 1
    top, bottom = (iv.pad(c, (0, order + 1 - c.shape[0])) / bottom[0] for c in (top, bottom))
    # z[k] = z[k + 1] + b[k + 1] - a[k + 1] y with the constant y = sum(b) / sum(a).
    y = top.sum() / bottom.sum()
    return iv.flip(iv.cumulative_sum(iv.flip((top - bottom * y)[1:])))


@overload
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: None = None) -> Tensor: ...
@overload
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, *, zi: ArrayLike) -> tuple[Tensor, Tensor]: ...
@overload
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int, zi: ArrayLike) -> tuple[Tensor, Tensor]: ...
def sosfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """A signal through sections of second order, one after the other.

    Parameters
    ----------
    sos : of shape (sections, 6): b and a of `lfilter` in each row.
    x, axis : as in `lfilter`.
    zi : the states before, of shape (sections, ..., 2, ...), the 2 along the axis.

    Returns the filtered signal; with ``zi`` that and the states after. Raises ShapeError.

    >>> sosfilt(iv.asarray([[1., 0., 0., 1., -0.5, 0.]]), iv.asarray([1., 0., 0.]))
    iverson.Tensor([1.  , 0.5 , 0.25])
    """
    sections = _signal(sos, "sosfilt", "sos")
    if sections.ndim != 2 or sections.shape[1] != 6:
        raise ShapeError("sosfilt", "sos", got=f"shape {sections.shape}", expected="(sections, 6)")
    states = None if zi is None else _signal(zi, "sosfilt", "zi")
    if states is not None and states.shape[:1] != sections.shape[:1]:
        raise ShapeError(
            "sosfilt", "zi", got=f"shape {states.shape}", expected=f"{sections.shape[0]} along the first axis"
        )
    y, after = _signal(x, "sosfilt", "x"), []
    for k in range(sections.shape[0]):
        b, a = sections[k, :3], sections[k, 3:]
        if states is None:
            y = lfilter(b, a, y, axis)
        else:
            y, state = lfilter(b, a, y, axis, states[k])
            after.append(state)
    return y if states is None else (y, iv.stack(after) if after else states)


def filtfilt(
    b: ArrayLike,
    a: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: Literal["odd", "even", "constant"] | None = "odd",
    padlen: int | None = None,
) -> Tensor:
    """`lfilter` forwards and then backwards: without a shift of phase.

    Parameters
    ----------
    b, a, x, axis : as in `lfilter`.
    padtype : how the signal goes on beyond its ends: turned about them, mirrored, constant or (None) not.
    padlen : how far; by default three times the number of coefficients.

    Raises ArgumentError where the signal is not longer than ``padlen``.

    >>> x = filtfilt(iv.asarray([0.5, 0.5]), iv.asarray([1.]), iv.asarray([0., 4., 0., 4., 0.]), padlen=2)
    >>> x.round(decimals=6) + 0.0
    iverson.Tensor([0., 2., 2., 2., 0.])
    """
    check_choice(padtype, ("odd", "even", "constant", None), "filtfilt", "padtype")
    signal = _signal(x, "filtfilt", "x")
    k = normalize_axis(axis, signal.ndim, "filtfilt")
    top, bottom = _coefficients(b, "filtfilt", "b"), _coefficients(a, "filtfilt", "a")
    reach = 3 * max(top.shape[0], bottom.shape[0]) if padlen is None else as_int(padlen, "filtfilt", "padlen")
    reach = reach if padtype is not None else 0
    first = iv.moveaxis(signal, k, 0)
    steps = first.shape[0]
    if not 0 <= reach < steps:
        raise ArgumentError(
            "filtfilt",
            "padlen",
            got=f"{reach} for {steps} entries",
            expected="at least 0, and fewer than there are",
        )
    if reach:
        before, after = np.arange(reach, 0, -1), np.arange(steps - 2, steps - 2 - reach, -1)
        if padtype == "constant":
            before, after = np.zeros_like(before), np.full_like(after, steps - 1)
        head, tail = iv.take(first, before, axis=0), iv.take(first, after, axis=0)
        if padtype == "odd":
            head, tail = 2 * first[:1] - head, 2 * first[-1:] - tail
        first = iv.concat([head, first, tail])
    state = iv.reshape(lfilter_zi(top, bottom), (-1, *[1] * (first.ndim - 1)))
    for _ in range(2):
        first, _after = lfilter(top, bottom, first, 0, state * first[:1])
        first = iv.flip(first, axis=0)
    return iv.moveaxis(first[reach : reach + steps], 0, k)


def savgol_filter(
    x: ArrayLike,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: int = -1,
    mode: Literal["interp", "mirror", "nearest", "constant", "wrap"] = "interp",
    cval: float = 0.0,
) -> Tensor:
    """Polynomials fitted to windows along an axis, at their middles; arguments are SciPy's.

    The fit is linear in the signal: its weights are SciPy's, and with the mode "interp" so are those of the
    windows at the ends (A. Savitzky and M. Golay, Analytical Chemistry 36, 1964).

    Raises ArgumentError where SciPy refuses the window or the order.

    >>> savgol_filter(iv.asarray([1., 2., 5., 10., 17.]), 3, 2)
    iverson.Tensor([ 1.,  2.,  5., 10., 17.])
    """
    import scipy.signal

    from iverson.interop.scipy.ndimage import correlate1d

    signal = _signal(x, "savgol_filter", "x")
    k = normalize_axis(axis, signal.ndim, "savgol_filter")
    check_choice(mode, ("interp", "mirror", "nearest", "constant", "wrap"), "savgol_filter", "mode")
    try:
        weights = scipy.signal.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta, use="dot")
        # The ends of a window read all of it: the rows of the matrix of a filtered unit matrix.
        ends = scipy.signal.savgol_filter(
            np.eye(window_length), window_length, polyorder, deriv, delta, axis=0
        )
    except ValueError as error:
        raise ArgumentError(
            "savgol_filter", "window_length", got=str(error), expected="what SciPy takes"
        ) from None
    if mode != "interp":
        return correlate1d(signal, weights, k, mode=mode, cval=cval, origin=0 if len(weights) % 2 else -1)
    steps = signal.shape[k]
    if window_length > steps:
        raise ArgumentError(
            "savgol_filter",
            "window_length",
            got=f"{window_length} for {steps} entries",
            expected="no more than there are",
        )
    half = window_length // 2
    first = iv.moveaxis(signal, k, 0)
    middle = correlate1d(first, weights, 0, mode="nearest", origin=0 if len(weights) % 2 else -1)
    head: Tensor = iv.tensordot(ends[:half], first[:window_length], axes=1)
    tail: Tensor = iv.tensordot(ends[window_length - half :], first[steps - window_length :], axes=1)
    return iv.moveaxis(iv.concat([head, middle[half : steps - half], tail]), 0, k)


def detrend(x: ArrayLike, axis: int = -1, type: Literal["linear", "constant"] = "linear") -> Tensor:
    """The signal less its mean, or less the line that fits it best, along an axis.

    >>> detrend(iv.asarray([1., 3., 5.])).round(decimals=6) + 0.0
    iverson.Tensor([0., 0., 0.])
    """
    check_choice(type, ("linear", "constant"), "detrend", "type")
    signal = _signal(x, "detrend", "x")
    k = normalize_axis(axis, signal.ndim, "detrend")
    level = signal - signal.mean(axis=k, keepdims=True)
    if type == "constant" or signal.shape[k] < 2:
        return level
    t = np.arange(signal.shape[k]) - (signal.shape[k] - 1) / 2
    t = t.reshape([-1 if j == k else 1 for j in range(signal.ndim)]).astype(signal.dtype)
    trend: Tensor = t * ((level * t).sum(axis=k, keepdims=True) / np.sum(t * t))
    return level - trend


def convolve2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0.0
) -> Tensor:
    """The convolution of two images, with zeros beyond them. Raises ArgumentError for other boundaries."""
    if boundary not in ("fill", 0) or fillvalue:
        raise ArgumentError("convolve2d", "boundary", got=repr(boundary), expected="'fill' with zeros")
    return convolve(in1, in2, mode)  # type: ignore[arg-type]


def correlate2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0.0
) -> Tensor:
    """The correlation of two images, with zeros beyond them. Raises ArgumentError for other boundaries."""
    mirrored = iv.flip(iv.conj(iv.asarray(in2)))
    return convolve2d(in1, mirrored, mode, boundary, fillvalue)


def medfilt(volume: ArrayLike, kernel_size: Setting = None) -> Tensor:
    """The medians of windows of odd sizes, with zeros beyond the signal.

    >>> medfilt(iv.asarray([1.0, 9.0, 2.0]))
    iverson.Tensor([1., 2., 2.])
    """
    return median_filter(volume, 3 if kernel_size is None else kernel_size, mode="constant")


def medfilt2d(input: ArrayLike, kernel_size: Setting = 3) -> Tensor:
    """`medfilt` of an image."""
    return medfilt(input, kernel_size)


__all__ = [  # noqa: PLE0604
    "convolve2d", "correlate2d", "medfilt", "medfilt2d", *spectra.__all__, "convolve", "correlate",
    "detrend", "filtfilt", "lfilter", "lfilter_zi", "savgol_filter", "sosfilt",
]  # fmt: skip
