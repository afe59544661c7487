"""Arrays of random programs made to fit where they are used: some entries of another, all, or a mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from iverson.ops import F
from tests.graph.programs import as_tuple, loss_of

Array = Callable[[Any], Any]


def is_float(x: Any) -> bool:
    return bool(x.dtype.kind in "fc")


def as_real(x: Any) -> Any:
    x = x if is_float(x) else F.astype(x, dtype=np.dtype(float))
    return F.real(x) + 0.5 * F.imag(x) if x.dtype.kind == "c" else x


def fitted(x: Any, shape: tuple[int, ...], how: int = 0) -> Any:
    """A real array of a shape, from the entries of another: some of them, all, or a mean.

    A mean gives weights: errors of probabilities, and many gradients, add up to nothing but rounding.
    """
    flat = as_real(x.to_dense() if x.layout != "strided" else x).reshape(-1)
    size, count = int(np.prod(shape)), flat.shape[0]
    if not count or how % 4 == 0:
        return iv.broadcast_to(iv.sum(flat * (1 + np.arange(count) % 3 / 4)) / max(count, 1), shape)
    if how % 4 == 1:
        return iv.take(flat, np.arange(size) * (1 + how % 3) % count).reshape(shape)
    if how % 4 == 2:
        return iv.concat([flat] * (1 + size // count))[:size].reshape(shape)
    return iv.broadcast_to(flat[how % count], shape)


def vanishes(x: Any) -> Any:
    """Where entries are zero, or nothing but rounding, as a derivative of eigenvectors along their matrix."""
    return iv.abs(x) < 1e-13


def total(f: Array) -> Array:
    """A real number from what a function gives."""
    return lambda p: loss_of(lambda p: as_tuple(f(p)))(p) + 0 * iv.sum(as_real(p))
