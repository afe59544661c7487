"""Discrete Fourier transforms over axes of fixed length. All are linear.

The adjoint of the unnormalised DFT is the unnormalised inverse, so ``norm`` turns over: "backward" (scale
on the inverse) becomes "forward". A real transform keeps half of a Hermitian spectrum; its adjoint takes
that half as the whole (`rfft`), or doubles the entries that stand for two (`irfft`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.op import Op, Rule, Sample, Sampler
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.shapes import Shape
from iverson.core.table import define
from iverson.ops.rules.entry_maps import ALONG

LINEAR = ((0,),)
#: Complex transforms, each with its unnormalised adjoint.
ADJOINTS = {"fftn": "ifftn", "ifftn": "fftn"}
ADJOINT_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _transform(name: str) -> Rule:
    """Body that calls SciPy's transform ``name``, which computes in the precision of x.

    It transforms many lines at once in the lanes of the processor. Of real numbers its complex transforms
    make half of the result, and -0 of zeros: so real x becomes complex here.
    """

    def forward(x: NDArray, **params: Shape | int | str) -> Any:
        from scipy import fft

        if name in ADJOINTS and x.dtype.kind != "c":
            x = x.astype(dtypes.complex_of(dtypes.to_inexact(x.dtype)))
        return getattr(fft, name)(x, **params)

    return forward


def _complex_abstract(x: Shaped, *, axes: Shape, norm: str) -> Aval:
    return Aval(x.shape, dtypes.complex_of(dtypes.to_inexact(x.dtype)))


def _samples(s: Sampler) -> list[Sample]:
    return [
        Sample((s((2, 3)),), {"axes": (1,), "norm": "backward"}),
        Sample((s((2, 3)),), {"axes": (0, 1), "norm": "ortho"}),
    ]


def _define_pair(name: str, inverse: str) -> None:
    """Define the transform ``name``, whose adjoint is the transform ``inverse``."""
    define(
        Op(
            name=name,
            forward=_transform(name),
            abstract=_complex_abstract,
            vjp=(
                lambda F, g, _y, _x, *, axes, norm: getattr(F, inverse)(
                    g, axes=axes, norm=ADJOINT_NORM[norm]
                ),
            ),
            linear_in=LINEAR,
            entry_map=ALONG,
            samples=_samples,
        )
    )


for _name, _inverse in ADJOINTS.items():
    _define_pair(_name, _inverse)


def _rfft_shape(shape: Shape, axis: int) -> Shape:
    """Shape of the half of a spectrum that a real transform keeps along ``axis``."""
    return tuple(n // 2 + 1 if k == axis else n for k, n in enumerate(shape))


def _rfft_vjp(F: Namespace, g: Value, _y: Shaped, _x: Shaped, *, axis: int, norm: str) -> Any:
    key = tuple(slice(0, n, 1) for n in g.shape)
    x_shape = tuple(_x.shape[k] if k == axis else n for k, n in enumerate(g.shape))
    return F.real(F.ifftn(F.embed(g, key=key, shape=x_shape), axes=(axis,), norm=ADJOINT_NORM[norm]))


define(
    Op(
        name="rfft",
        forward=_transform("rfft"),
        abstract=lambda x, *, axis, norm: Aval(
            _rfft_shape(x.shape, axis), dtypes.complex_of(dtypes.to_inexact(x.dtype))
        ),
        vjp=(_rfft_vjp,),
        linear_in=LINEAR,
        entry_map=ALONG,
        samples=lambda s: [
            Sample((np.real(s((2, 4))),), {"axis": 1, "norm": "backward"}),
            Sample((np.real(s((3, 2))),), {"axis": 0, "norm": "ortho"}),
        ],
    )
)


def _irfft_vjp(F: Namespace, g: Value, _y: Shaped, _x: Shaped, *, axis: int, n: int, norm: str) -> Any:
    count = _x.shape[axis]
    weight = np.full(count, 2.0, dtypes.real_of(_x.dtype))
    weight[0] = 1
    if n % 2 == 0:
        weight[n // 2] = 1
    shape = tuple(count if k == axis else 1 for k in range(_x.ndim))
    return F.rfft(g, axis=axis, norm=ADJOINT_NORM[norm]) * weight.reshape(shape)


define(
    Op(
        name="irfft",
        forward=_transform("irfft"),
        abstract=lambda x, *, axis, n, norm: Aval(
            tuple(n if k == axis else m for k, m in enumerate(x.shape)),
            dtypes.real_of(dtypes.to_inexact(x.dtype)),
        ),
        vjp=(_irfft_vjp,),
        linear_in=LINEAR,
        entry_map=ALONG,
        samples=lambda s: [
            Sample((s((2, 3)) + 0j,), {"axis": 1, "n": 4, "norm": "backward"}),
            Sample((s((2, 2)) + 0j,), {"axis": 0, "n": 3, "norm": "forward"}),
        ],
    )
)
