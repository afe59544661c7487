"""The Fourier transforms against NumPy: lengths, axes, norms, dtypes; errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson import fft
from iverson.core.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError
from tests.array_api.common import draw, same
from tests.conformance.product import examples

NORMS = ("backward", "ortho", "forward")
REAL_ONLY = {"rfft", "ihfft", "rfftn"}


def dtypes_for(name):
    return ("int32", "bool", "float32", "float64") + (
        () if name in REAL_ONLY else ("complex64", "complex128")
    )


def test_frequencies_and_shifts():
    for n in (1, 4, 5):
        same(fft.fftfreq(n, d=0.5), np.fft.fftfreq(n, 0.5))
        same(fft.rfftfreq(n, dtype="float32"), np.fft.rfftfreq(n).astype("float32"))
    for name in ("fftshift", "ifftshift"):
        x = draw((4, 5), "int32")
        for axes in (None, 0, (0, 1), -1):
            same(getattr(fft, name)(x, axes=axes), getattr(np.fft, name)(x, axes))


@settings(max_examples=examples(40), deadline=None)
@given(hnp.array_shapes(max_dims=3, max_side=5), st.data())
def test_inverses(shape, data):
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    norm = data.draw(st.sampled_from(NORMS))
    x = draw(shape)
    same(fft.ifftn(fft.fftn(x, axes=axes, norm=norm), axes=axes, norm=norm), x.astype(complex))
    s = tuple(shape[k] for k in axes)
    same(fft.irfftn(fft.rfftn(x, axes=axes, norm=norm), s=s, axes=axes, norm=norm), x)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: fft.fft(x, n=0), ArgumentError, "fft: argument 'n': got 0; expected at least one point"),
        (lambda x: fft.fft(x, axis=2), AxisError, "fft"),
        (lambda x: fft.fft(x, norm="unitary"), ArgumentError, "fft: argument 'norm'"),
        (lambda x: fft.fftn(x, s=(2, 2)), ArgumentError, "None with s given"),
        (lambda x: fft.fftn(x, s=(2, 2), axes=(0,)), ArgumentError, "2 lengths; expected 1"),
        (lambda x: fft.fftn(x, s=2.5, axes=0), ArgumentTypeError, "fftn: argument 's'"),
        (lambda x: fft.fftn(x, axes=(0, -2)), AxisError, "each axis once"),
        (lambda x: fft.rfft(x * 1j), DTypeError, "use fft"),
        (lambda x: fft.rfftn(x * 1j), DTypeError, "use fftn"),
        (lambda x: fft.rfftn(x, axes=()), AxisError, "at least one axis"),
        (lambda x: fft.irfftn(x, axes=()), AxisError, "at least one axis"),
        (lambda x: fft.irfft(x[:, :1]), ArgumentError, "at least one point"),
        (lambda x: fft.fft(x[:, :0]), ArgumentError, "at least one point"),
        (lambda x: fft.fftfreq(0), ArgumentError, "fftfreq"),
        (lambda x: fft.fftfreq(3, dtype="int32"), DTypeError, "real floating"),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call(iv.ones((2, 3)))
