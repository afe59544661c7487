"""Functions of `scipy.fft` on tensors, and a backend of it:
``scipy.fft.set_backend(iverson.interop.scipy.fft)``.

Cosine and sine transforms are Fourier transforms of the symmetric extension; the norms and types are SciPy's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

import iverson as iv
from iverson.core.errors import ArgumentError
from iverson.fft import fft, fftn, fftshift, hfft, ifft, ifftn, ifftshift, ihfft, irfft, irfftn, rfft, rfftn
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike
from iverson.interop.scipy.by_matrix.linear_maps import Setting

_Axes: TypeAlias = Sequence[int] | None
_Norm: TypeAlias = str | None


def _plane(function: Callable[..., Setting], name: str) -> Callable[..., Tensor]:
    def call(
        x: ArrayLike, s: _Axes = None, axes: Sequence[int] = (-2, -1), norm: _Norm = None, **_: Setting
    ) -> Tensor:
        result: Tensor = function(x, s=s, axes=axes, norm=norm or "backward")
        return result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.fft.{name}`: the transform along two axes."
    return call


fft2, ifft2, rfft2, irfft2 = (
    _plane(f, n) for f, n in ((fftn, "fft2"), (ifftn, "ifft2"), (rfftn, "rfft2"), (irfftn, "irfft2"))
)
_OTHER: dict[Any, Any] = {"forward": "backward", "backward": "forward", "ortho": "ortho", None: "forward"}


def hfftn(x: ArrayLike, s: _Axes = None, axes: _Axes = None, norm: _Norm = None, **_: Setting) -> Tensor:
    """The transform of a Hermitian array, with real results: `irfftn` of the conjugate.

    >>> hfftn(iv.asarray([[1 + 0j, 2.]])).round(decimals=6)
    iverson.Tensor([[ 3., -1.]])
    """
    return irfftn(iv.conj(iv.asarray(x)), s=s, axes=axes, norm=_OTHER[norm])


def ihfftn(x: ArrayLike, s: _Axes = None, axes: _Axes = None, norm: _Norm = None, **_: Setting) -> Tensor:
    """The inverse of `hfftn`, of a real array: the conjugate of `rfftn`.

    >>> ihfftn(iv.asarray([[5., -3.]]))
    iverson.Tensor([[1.-0.j, 4.-0.j]])
    """
    return iv.conj(rfftn(x, s=s, axes=axes, norm=_OTHER[norm]))


hfft2, ihfft2 = _plane(hfftn, "hfft2"), _plane(ihfftn, "ihfft2")


def _cosine(x: Tensor, type_: int) -> Tensor:
    """The cosine transform along the last axis, not scaled."""
    n = x.shape[-1]
    k = np.arange(n)
    if type_ == 1:
        return iv.real(rfft(iv.concat([x, iv.flip(x[..., 1:-1], axis=-1)], axis=-1)))
    turn = np.exp(-0.5j * np.pi * k / n)
    if type_ == 2:
        return iv.real(fft(iv.concat([x, iv.flip(x, axis=-1)], axis=-1))[..., :n] * turn)  # type: ignore[no-any-return]
    if type_ == 3:
        first = np.where(k == 0, 0.5, 1.0)
        return 2 * iv.real(fft(x * first * turn, n=2 * n)[..., :n])  # type: ignore[no-any-return]
    return 2 * iv.real(fft(x * turn, n=2 * n)[..., :n] * np.exp(-0.25j * np.pi * (2 * k + 1) / n))  # type: ignore[no-any-return]


def _sine(x: Tensor, type_: int) -> Tensor:
    """The sine transform along the last axis, not scaled, by a cosine one where there is one."""
    n = x.shape[-1]
    sign = (-1.0) ** np.arange(n)
    if type_ == 1:
        zero = iv.zeros_like(x[..., :1])
        odd = iv.concat([zero, x, zero, -iv.flip(x, axis=-1)], axis=-1)
        return -iv.imag(fft(odd))[..., 1 : n + 1]
    if type_ == 3:
        return _cosine(iv.flip(x, axis=-1), 3) * sign
    if type_ == 2:
        return iv.flip(_cosine(x * sign, 2), axis=-1)
    return _cosine(iv.flip(x, axis=-1), 4) * sign


_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _scaled(x: Tensor, type_: int, norm: _Norm, inverse: bool, sine: bool) -> Tensor:
    """A transform along the last axis with SciPy's norm."""
    n = x.shape[-1]
    kind = _INVERSE[type_] if inverse else type_
    size = 2 * (n + (1 if sine else -1)) if kind == 1 else 2 * n
    transform = _sine if sine else _cosine
    norm = norm or "backward"
    if norm == "ortho":
        before, after = np.ones(n), np.full(n, size**-0.5)
        edge = -1 if sine else 0
        if kind == 1 and not sine:
            before[[0, -1]], after[[0, -1]] = np.sqrt(2), after[0] / np.sqrt(2)
        elif kind == 2:
            after[edge] /= np.sqrt(2)
        elif kind == 3:
            before[edge] = np.sqrt(2)
        return transform(x * before, kind) * after
    factor = 1 / size if (norm == "forward") != inverse else 1.0
    return transform(x, kind) * factor


def _transform(name: str, inverse: bool, sine: bool) -> Callable[..., Tensor]:
    def call(
        x: ArrayLike,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: _Norm = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Tensor:
        if type not in _INVERSE:
            raise ArgumentError(name, "type", got=str(type), expected="1, 2, 3 or 4")
        if orthogonalize is not None and orthogonalize != (norm == "ortho"):
            raise ArgumentError(
                name, "orthogonalize", got=str(orthogonalize), expected="what follows from norm"
            )
        lines = iv.moveaxis(iv.asarray(x), axis, -1)
        if n is not None:
            lines = lines[..., :n]
            if n > lines.shape[-1]:
                lines = iv.pad(lines, [(0, 0)] * (lines.ndim - 1) + [(0, n - lines.shape[-1])])
        return iv.moveaxis(_scaled(lines, type, norm, inverse, sine), -1, axis)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.fft.{name}` along an axis, of types 1 to 4."
    return call


dct, idct = _transform("dct", False, False), _transform("idct", True, False)
dst, idst = _transform("dst", False, True), _transform("idst", True, True)


def _along_axes(name: str, transform: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(
        x: ArrayLike, type: int = 2, s: _Axes = None, axes: _Axes = None, norm: _Norm = None, **_: Setting
    ) -> Tensor:
        result: Tensor = iv.asarray(x)
        count = result.ndim if s is None else len(s)
        along = range(result.ndim - count, result.ndim) if axes is None else axes
        for k, axis in enumerate(along):
            result = transform(result, type, None if s is None else s[k], axis, norm)
        return result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.fft.{name}`: the transform along several axes."
    return call


dctn, idctn = _along_axes("dctn", dct), _along_axes("idctn", idct)
dstn, idstn = _along_axes("dstn", dst), _along_axes("idstn", idst)

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "idct",
    "idctn",
    "idst", "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2",
    "irfftn",
    "rfft", "rfft2", "rfftn",
]  # fmt: skip

#: SciPy's protocol for backends (`scipy.fft.set_backend`).
__ua_domain__ = "numpy.scipy.fft"


def __ua_function__(
    method: Callable[..., Setting], args: Sequence[Setting], kwargs: dict[str, Setting]
) -> Any:
    """Result of a function of `scipy.fft` by ours of the same name; NotImplemented where it is not for
    tensors.
    """
    ours = getattr(sys.modules[__name__], method.__name__, None) if method.__name__ in __all__ else None
    if ours is None or not any(isinstance(a, Tensor) for a in args):
        return NotImplemented
    return ours(*args, **{k: v for k, v in kwargs.items() if k not in ("overwrite_x", "workers", "plan")})
