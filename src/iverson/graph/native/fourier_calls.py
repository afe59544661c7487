"""Fourier transforms as native steps: pocketfft's transform of one axis after the other, by NumPy's loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from iverson.codegen.programs import View, step_builders
from iverson.core import dtypes
from iverson.graph.ir.nodes import Equation, values_of
from iverson.graph.native.routine_steps import Calls, spread

#: Extent of an axis from which SciPy's transforms, a library step, are faster than NumPy's. Measured: 2^16
#: complex numbers take 2.5 ms in NumPy's loop and 1.4 in SciPy's, 2^12 take 44 and 45 microseconds.
LONG = 2**15


def is_long(e: Equation) -> bool:
    """True if an equation transforms an axis that is so long that a library step pays outside of loops."""
    if e.op.name not in TRANSFORMS:
        return False
    axes = e.params["axes"] if "axes" in e.params else (e.params["axis"],)
    return any(v.shape[k] >= LONG for v in (*values_of(e.operands), *e.results) for k in axes)


def _scale(n: int, norm: str, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / sqrt(n)
    return 1 / n if (norm == "forward") != inverse else 1.0


def _last(v: View, axis: int) -> View:
    """A view with an axis moved to the end."""
    order = [k for k in range(len(v.shape)) if k != axis] + [axis]
    return replace(v, shape=tuple(v.shape[k] for k in order), strides=tuple(v.strides[k] for k in order))


def _transform(calls: Calls, name: str, cores: str, x: View, out: View, axis: int, scale: float) -> None:
    """Add a transform along one axis."""
    x, out = _last(x, axis), _last(out, axis)
    number = calls.memory.hold(np.array(scale, dtypes.real_of(x.buffer.dtype)))
    calls.loop("fft", name, cores, (x, spread(number, x.shape[:-1], 0), out))


def _complex_transform(name: str, cores: str, *, inverse: bool) -> Callable[..., None]:
    def call(
        calls: Calls, operands: Sequence[View], outs: Sequence[View], *, axes: tuple[int, ...], norm: str
    ) -> None:
        (out,) = outs
        x = calls.in_dtype(operands[0], out.buffer.dtype)
        for k, axis in enumerate(axes):
            y = out if k == len(axes) - 1 else calls.temp(out, out.shape)
            _transform(calls, name, cores, x, y, axis, _scale(out.shape[axis], norm, inverse))
            x = y
        if not axes:
            calls.steps.append(step_builders.copy(out, x))

    return call


def _rfft(calls: Calls, operands: Sequence[View], outs: Sequence[View], *, axis: int, norm: str) -> None:
    (out,) = outs
    x = calls.in_dtype(operands[0], dtypes.real_of(out.buffer.dtype))
    n = x.shape[axis]
    name = f"rfft_n_{'odd' if n % 2 else 'even'}"
    _transform(calls, name, "n,->m", x, out, axis, _scale(n, norm, False))


def _irfft(
    calls: Calls, operands: Sequence[View], outs: Sequence[View], *, axis: int, n: int, norm: str
) -> None:
    (out,) = outs
    x = calls.in_dtype(operands[0], dtypes.complex_of(out.buffer.dtype))
    _transform(calls, "irfft", "m,->n", x, out, axis, _scale(n, norm, True))


TRANSFORMS: dict[str, Callable[..., None]] = {
    "fftn": _complex_transform("fft", "n,->m", inverse=False),
    "ifftn": _complex_transform("ifft", "m,->n", inverse=True),
    "rfft": _rfft,
    "irfft": _irfft,
}

__all__ = ["TRANSFORMS", "is_long"]
