"""Filters of images and signals: SciPy's values for arguments at random, derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal

import iverson as iv
from iverson.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from iverson.interop.scipy import ndimage, signal
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE, by_turns, in_short, turn

MODES = ("reflect", "mirror", "nearest", "wrap", "constant", "grid-mirror", "grid-wrap", "grid-constant")
SEEDS = range(12 if EXHAUSTIVE else 4)


def same(ours: Any, theirs: Any) -> None:
    found, expected = (x if isinstance(x, tuple) else (x,) for x in (ours, theirs))
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-11)


def shift_of(rng: Any, size: int) -> tuple[int, int]:
    """A shift of a window for a correlation, and one for a convolution."""
    shift = int(rng.integers(-(size // 2), (size - 1) // 2 + 1))
    return shift, -shift if size % 2 else -shift - 1


@pytest.mark.parametrize("seed", SEEDS)
def test_filters_of_images(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 4)))
    # SciPy reads beyond an image of one entry that it mirrors at it.
    modes = [m for m in MODES if m != "mirror" or 1 not in shape]
    x, size = rng.normal(size=shape), tuple(int(n) for n in rng.integers(1, 4, len(shape)))
    w, k = rng.normal(size=size), int(rng.integers(1, 6))
    shifts = [shift_of(rng, n) for n in size]
    one, axis, sigma = shift_of(rng, k), int(rng.integers(-len(shape), len(shape))), rng.uniform(0.3, 2)
    for mode in modes:
        edge = {"mode": mode, "cval": rng.normal()}
        for name, args, more in (
            ("correlate", (w,), {"origin": [a for a, _ in shifts]}),
            ("convolve", (w,), {"origin": [b for _, b in shifts]}),
            ("correlate1d", (np.arange(k) + 0.5, axis), {"origin": one[0]}),
            ("convolve1d", (np.arange(k) + 0.5, axis), {"origin": one[1]}),
            ("uniform_filter1d", (k, axis), {"origin": one[0]}),
            ("uniform_filter", (size,), {}),
            ("gaussian_filter1d", (sigma, axis, int(rng.integers(0, 4))), {}),
            ("gaussian_filter", (sigma,), {"truncate": 2.5}),
            ("gaussian_filter", (sigma, 1), {"radius": 2}),
            ("gaussian_laplace", (sigma,), {}),
            ("gaussian_gradient_magnitude", (sigma,), {}),
            ("laplace", (), {}),
            ("sobel", (axis,), {}),
            ("prewitt", (axis,), {}),
            ("maximum_filter", (size,), {}),
            ("minimum_filter", (), {"footprint": w > 0} if (w > 0).any() else {"size": 2}),
            ("median_filter", (size,), {}),
            ("rank_filter", (-1, size), {}),
            ("percentile_filter", (int(rng.integers(-100, 101)), size), {}),
        ):
            expected = getattr(scipy.ndimage, name)(x, *args, **edge, **more)
            same(getattr(ndimage, name)(iv.asarray(x), *args, **edge, **more), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_filters_of_signals(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def drawn(shape: Any) -> Any:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if seed % 3 == 2 else x

    shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 4)))
    axis = int(rng.integers(-len(shape), len(shape)))
    x, b = drawn(shape), drawn(int(rng.integers(1, 5))) * 0.3
    a = np.append(rng.uniform(0.5, 2), rng.normal(size=int(rng.integers(0, 4))) * 0.3)
    order = max(len(a), len(b)) - 1
    state = list(shape)
    state[axis] = order
    same(signal.lfilter(b, a, x, axis), scipy.signal.lfilter(b, a, x, axis))
    sos = scipy.signal.butter(4, 0.3, output="sos")
    same(signal.sosfilt(sos, x, axis), scipy.signal.sosfilt(sos, x, axis))
    if order:
        zi = rng.normal(size=state)
        same(signal.lfilter(b, a, x, axis, zi), scipy.signal.lfilter(b, a, x, axis, zi))
        same(signal.lfilter_zi(b.real, a), scipy.signal.lfilter_zi(b.real, a))
        state[axis] = 2
        zi = rng.normal(size=(2, *state))
        same(signal.sosfilt(sos, x, axis, zi), scipy.signal.sosfilt(sos, x, axis, zi))
        for kind in ("odd", "even", "constant", None):
            reach = int(rng.integers(0, shape[axis]))
            expected = scipy.signal.filtfilt(b.real, a, x, axis, padtype=kind, padlen=reach)
            same(signal.filtfilt(b.real, a, x, axis, kind, reach), expected)
    for mode in ("full", "same", "valid"):
        y = drawn(tuple(int(n) for n in rng.integers(1, 6, len(shape))))
        inside = all(np.subtract(x.shape, y.shape) >= 0) or all(np.subtract(y.shape, x.shape) >= 0)
        for method in ("direct", "fft", "auto"):
            for name in ("convolve", "correlate"):
                call = getattr(signal, name)
                if mode == "valid" and not inside:
                    with pytest.raises(ShapeError, match="one within the other"):
                        call(x, y, mode, method)
                else:
                    same(call(x, y, mode, method), getattr(scipy.signal, name)(x, y, mode, method))
    for window in range(1, shape[axis] + 1):
        given = (window, int(rng.integers(0, window)), int(rng.integers(0, 2)), 0.7, axis)
        for mode in ("interp", "mirror", "nearest", "constant", "wrap"):
            if mode != "mirror" or shape[axis] > 1:
                expected = scipy.signal.savgol_filter(x.real, *given, mode, 1.5)
                same(signal.savgol_filter(x.real, *given, mode, 1.5), expected)
    if shape[axis] > 1:
        for kind in ("linear", "constant"):
            same(signal.detrend(x, axis, kind), scipy.signal.detrend(x, axis, kind))


rng = np.random.default_rng(0)
IMAGE, WEIGHTS, SIGNAL = rng.normal(size=(4, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 5))
B, A, ZI = np.array([0.5, 0.2, -0.1]), np.array([1.5, -0.4, 0.2]), rng.normal(size=(2, 2))
DIFFERENTIATED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        f"correlate {mode}": (lambda x, w, mode=mode: ndimage.correlate(x, w, mode=mode), (IMAGE, WEIGHTS))
        for mode in ("reflect", "mirror", "wrap", "nearest", "constant")
    },
    "convolve": (lambda x, w: ndimage.convolve(x, w, origin=(0, -1)), (IMAGE, WEIGHTS)),
    "gaussian": (lambda x, s: ndimage.gaussian_filter(x, s, 1, radius=2), (IMAGE, np.array(0.8))),
    "sobel": (ndimage.sobel, (IMAGE,)),
    "median": (lambda x: ndimage.median_filter(x, 3), (IMAGE,)),
    "maximum": (lambda x: ndimage.maximum_filter(x, 2) ** 2, (IMAGE,)),
    "length": (lambda x: ndimage.gaussian_gradient_magnitude(x, 0.7), (IMAGE,)),
    "lfilter": (signal.lfilter, (B, A, SIGNAL)),
    "lfilter complex": (signal.lfilter, (B * (1 + 0.5j), A, SIGNAL)),
    "lfilter state": (lambda b, a, x, z: signal.lfilter(b, a, x, 1, z), (B, A, SIGNAL, ZI)),
    "sosfilt": (signal.sosfilt, (np.array([[*B, *A], [*A, *A]]), SIGNAL)),
    "filtfilt": (lambda b, a, x: signal.filtfilt(b, a, x, padlen=3), (B, A, SIGNAL)),
    "direct": (lambda x, y: signal.convolve(x, y, "same", "direct"), (IMAGE, WEIGHTS)),
    "transforms": (lambda x, y: signal.correlate(x, y, "full", "fft"), (IMAGE, WEIGHTS)),
    "savgol": (lambda x: signal.savgol_filter(x, 4, 2), (SIGNAL,)),
    "detrend": (signal.detrend, (SIGNAL,)),
}


@pytest.mark.parametrize("name", by_turns(DIFFERENTIATED, 2, 1))
def test_derivatives_to_second_order(name: str) -> None:
    f, given = DIFFERENTIATED[name]
    leaves = tuple(iv.asarray(np.array(x), requires_grad=True) for x in given)
    assert gradcheck(f, leaves, **in_short(name, 12))
    if EXHAUSTIVE or not turn(f"{name} again", 5):
        assert gradgradcheck(f, leaves, **{"fast": True, **in_short(f"{name} twice", 8)})


@pytest.mark.parametrize("name", by_turns(DIFFERENTIATED, 3))
def test_compiled_and_mapped(name: str) -> None:
    f, given = DIFFERENTIATED[name]
    expected = f(*map(iv.asarray, given))
    many = isinstance(expected, tuple)
    found = iv.jit(f)(*map(iv.asarray, given))
    same(found, tuple(y.numpy() for y in expected) if many else expected.numpy())
    batch = [iv.stack([iv.asarray(x), iv.asarray(x) * 1.5]) for x in given]
    mapped = iv.vmap(f)(*batch)
    each = f(*(x[1] for x in batch))
    for a, b in zip(mapped if many else (mapped,), each if many else (each,), strict=True):
        same(a[1], b.numpy())


def test_of_no_entries_and_of_integers() -> None:
    for shape in ((0,), (3, 0), (0, 2)):
        x = np.zeros(shape)
        same(ndimage.gaussian_filter(x, 1.0), x)
        same(ndimage.median_filter(x, 3), x)
        same(signal.lfilter(np.ones(2), np.array([1.0, 0.5]), x), x)
    assert signal.convolve(np.zeros(0), np.ones(2)).shape == (0,)
    found = ndimage.correlate(np.array([1, 2, 4]), np.array([1, 1]))
    same(found, scipy.ndimage.correlate(np.array([1.0, 2, 4]), np.array([1.0, 1])))
    single = ndimage.gaussian_filter(np.ones((3, 3), "float32"), 1.0)
    assert single.dtype == "float32"
    assert (
        signal.lfilter(np.ones(2, "float32"), np.ones(1, "float32"), np.ones(3, "float32")).dtype == "float32"
    )


def test_nan_spreads_as_far_as_windows_go() -> None:
    x = np.array([1.0, 2.0, np.nan, 4.0, 5.0])
    same(ndimage.uniform_filter1d(x, 2), np.array([1.0, 1.5, np.nan, np.nan, 4.5]))
    same(signal.lfilter(np.ones(1), np.array([1.0, 0.5]), x), scipy.signal.lfilter([1.0], [1.0, 0.5], x))


def test_what_is_refused() -> None:
    x = iv.ones((3, 3))
    for call, kind, match in (
        (lambda: ndimage.correlate(x, iv.ones(3)), ShapeError, "weights.*2 axes"),
        (lambda: ndimage.correlate(x, iv.ones((3, 3)), mode="edge"), ArgumentError, "mode"),
        (lambda: ndimage.correlate(x, iv.ones((3, 3)), origin=2), ArgumentError, "origin"),
        (lambda: ndimage.uniform_filter(x, 0), ArgumentError, "size"),
        (lambda: ndimage.maximum_filter(x), ArgumentError, "either size or footprint"),
        (lambda: ndimage.rank_filter(x, 9, 3), ArgumentError, "rank"),
        (lambda: ndimage.percentile_filter(x, 101, 3), ArgumentError, "percentile"),
        (lambda: ndimage.gaussian_filter(x, 1.0, -1), ArgumentError, "order"),
        (lambda: ndimage.median_filter(x * 1j, 3), DTypeError, "median_filter"),
        (lambda: ndimage.sobel(iv.masked_tensor(x, x > 2)), ArgumentTypeError, "to_tensor"),
        (lambda: signal.lfilter(x, iv.ones(1), x), ShapeError, "argument 'b'"),
        (lambda: signal.lfilter(iv.ones(2), iv.ones(2), x, zi=iv.ones((3, 2))), ShapeError, "zi"),
        (lambda: signal.sosfilt(x, x), ShapeError, "sos"),
        (lambda: signal.filtfilt(iv.ones(2), iv.ones(1), x), ArgumentError, "padlen"),
        (lambda: signal.savgol_filter(x, 5, 2), ArgumentError, "window_length"),
        (lambda: signal.savgol_filter(x, 3, 4), ArgumentError, "window_length"),
        (lambda: signal.convolve(x, iv.ones(3)), ShapeError, "in2"),
        (lambda: signal.convolve(x, x, "whole"), ArgumentError, "mode"),
    ):
        with pytest.raises(kind, match=match):
            call()
