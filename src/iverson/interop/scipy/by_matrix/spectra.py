"""Spectra and resampling of signals under the names of `scipy.signal`.

Transforms of windows and resampling are linear in the signal (`linear_maps`); powers are products of
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.errors import ArgumentError
from iverson.core.protocols import NDArray
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting, along_axis, along_line, check_numbers, theirs

resample_poly = along_axis("signal.resample_poly", "up down axis window padtype cval")
decimate = along_axis("signal.decimate", "q n ftype axis zero_phase")
upfirdn = along_axis("signal.upfirdn", "h up down axis mode cval", data=1)
sosfiltfilt = along_axis("signal.sosfiltfilt", "sos axis padtype padlen", data=1)
czt, zoom_fft = along_axis("signal.czt", "m w a axis"), along_axis("signal.zoom_fft", "fn m fs endpoint axis")
cspline1d, qspline1d = along_line("signal.cspline1d"), along_line("signal.qspline1d")
cspline1d_eval, qspline1d_eval = along_line("signal.cspline1d_eval"), along_line("signal.qspline1d_eval")
symiirorder1, symiirorder2 = along_line("signal.symiirorder1"), along_line("signal.symiirorder2")


def _windows(x: ArrayLike, options: dict[str, Setting]) -> tuple[NDArray, NDArray, Tensor]:
    """Frequencies, times, and transforms of windows along the last two axes, as
    `scipy.signal.spectrogram`."""
    check_numbers("spectrogram", options)
    signal = iv.moveaxis(iv.asarray(x), options.pop("axis", -1), -1)
    unit = np.eye(signal.shape[-1])
    frequencies, times, matrix = theirs("signal.spectrogram")(unit, mode="complex", **options)
    return frequencies, times, iv.tensordot(signal, iv.asarray(np.ascontiguousarray(matrix)), axes=1)


def _both_sides(frequencies: NDArray, size: int) -> NDArray:
    """Factor of a power in a spectrum of one side: twice, but for 0 and the highest frequency."""
    factor = np.where(
        (frequencies == 0) | ((size % 2 == 0) & (np.arange(frequencies.size) == size // 2)), 1.0, 2.0
    )
    return factor[:, None]


def _length(x: ArrayLike, y: ArrayLike, axis: int, options: dict[str, Setting]) -> int:
    n = max(iv.asarray(x).shape[axis], iv.asarray(y).shape[axis])
    if not options.get("return_onesided", True):
        raise ArgumentError("csd", "return_onesided", got="False", expected="True, on tensors")
    if options.get("nperseg") is None:
        options["nperseg"] = min(256, n)
    return int(options.get("nfft") or options["nperseg"])


def csd(x: ArrayLike, y: ArrayLike, fs: float = 1.0, window: Setting = "hann_periodic", nperseg: int | None =
None,
        noverlap: int | None = None, nfft: int | None = None, detrend: Setting = "constant", return_onesided:
        bool = True, scaling: str = "density", axis: int = -1, average: str = "mean") -> tuple[NDArray,
            Tensor]:  # fmt: skip
    """Frequencies and the cross spectral density of two signals, by Welch's method.

    Raises ArgumentError for spectra of both sides, and for averages other than the mean.
    """
    if average != "mean":
        raise ArgumentError("csd", "average", got=repr(average), expected="'mean', on tensors")
    options: dict[str, Any] = {"nperseg": nperseg, "nfft": nfft, "return_onesided": return_onesided}
    size = _length(x, y, axis, options)
    options |= {
        "fs": fs, "window": window, "detrend": detrend, "scaling": scaling, "axis": axis,
        "noverlap": options["nperseg"] // 2 if noverlap is None else noverlap,
    }  # fmt: skip
    frequencies, _, first = _windows(x, dict(options))
    second = first if y is x else _windows(y, dict(options))[2]
    powers = iv.conj(first) * second * iv.asarray(_both_sides(frequencies, size))
    return frequencies, iv.moveaxis(iv.mean(powers, axis=-1), -1, axis)


def welch(
    x: ArrayLike, fs: float = 1.0, window: Setting = "hann_periodic", **options: Setting
) -> tuple[NDArray, Tensor]:
    """Frequencies and the spectral density of a signal, by Welch's method.

    >>> welch(iv.asarray([1.0, -1.0, 1.0, -1.0]), nperseg=4)[1].round(decimals=6)
    iverson.Tensor([0.      , 1.333333, 2.666667])
    """
    frequencies, density = csd(x, x, fs, window, **options)
    return frequencies, iv.real(density)


def periodogram(
    x: ArrayLike,
    fs: float = 1.0,
    window: Setting = "boxcar",
    nfft: int | None = None,
    detrend: Setting = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[NDArray, Tensor]:
    """Frequencies and the spectral density of a signal, of one window."""
    n = iv.asarray(x).shape[axis]
    return welch(
        x, fs, window, nperseg=n, noverlap=0, nfft=nfft, detrend=detrend, return_onesided=return_onesided,
        scaling=scaling, axis=axis,
    )  # fmt: skip


def coherence(x: ArrayLike, y: ArrayLike, fs: float = 1.0, **options: Setting) -> tuple[NDArray, Tensor]:
    """Frequencies and abs(Pxy)^2 / (Pxx Pyy), of densities by Welch's method."""
    frequencies, cross = csd(x, y, fs, **options)
    powers = welch(x, fs, **options)[1] * welch(y, fs, **options)[1]
    return frequencies, (iv.real(cross) ** 2 + iv.imag(cross) ** 2) / powers


def spectrogram(
    x: ArrayLike, fs: float = 1.0, *args: Setting, **options: Setting
) -> tuple[NDArray, NDArray, Tensor]:
    """Frequencies, times and the spectral density of each window; the mode is "psd"."""
    if args or options.pop("mode", "psd") != "psd":
        raise ArgumentError("spectrogram", "mode", got="another", expected="'psd', and arguments by name")
    size = _length(x, x, options.get("axis", -1), options)
    frequencies, times, windows = _windows(x, {"fs": fs, **options})
    powers = iv.real(iv.conj(windows) * windows)
    return frequencies, times, powers * iv.asarray(_both_sides(frequencies, size))


def _linear_transform(name: str) -> Callable[..., Any]:
    """A transform whose last result is linear in the signal along the last axis."""

    def call(x: ArrayLike, *args: Setting, **options: Setting) -> Any:
        check_numbers(name, options)
        signal = iv.asarray(x)
        *axes, matrix = theirs(f"signal.{name}")(np.eye(signal.shape[-1]), *args, **options)
        return (*axes, iv.tensordot(signal, iv.asarray(np.ascontiguousarray(matrix)), axes=1))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.signal.{name}` along the last axis: linear in the signal."
    return call


stft = _linear_transform("stft")


__all__ = [
    "coherence", "csd", "cspline1d", "cspline1d_eval", "czt", "decimate", "periodogram", "qspline1d",
    "qspline1d_eval", "resample_poly", "sosfiltfilt", "spectrogram", "stft", "symiirorder1", "symiirorder2",
    "upfirdn", "welch", "zoom_fft",
]  # fmt: skip
