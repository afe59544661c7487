"""Sparse tensors for tests: every layout of one array, each checked against its invariants."""

from __future__ import annotations

from typing import Any

import numpy as np

import iverson as iv
from iverson.layouts import layout_of, to_strided

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")


def holds(
    shape: tuple[int, int] = (4, 6), density: float = 0.4, seed: int = 0, dtype: Any = "float64"
) -> Any:
    """An array with some zeros, among them an empty row and an empty column."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    x = np.where(rng.random(shape) < density, x, 0)
    if shape[0] > 1 and shape[1] > 1:
        x[1], x[:, 2 % shape[1]] = 0, 0
    return x.astype(dtype)


def blocks_for(layout: str, shape: tuple[int, ...]) -> Any:
    """The largest blocks of at most 2 x 3 that tile a shape, for the layouts of blocks."""
    if layout[0] != "b":
        return None
    return 2 - shape[0] % 2, next(b for b in (3, 2, 1) if shape[1] % b == 0)


def held(x: Any, layout: str, requires_grad: bool = False) -> Any:
    """The array in a layout."""
    made = iv.asarray(x).to_layout(layout, blocksize=blocks_for(layout, x.shape))
    return made.requires_grad_() if requires_grad else made


def checked(x: Any) -> Any:
    """The entries of a result, whose layout's invariants hold."""
    layout_of(x._value).check(x._value)
    return to_strided(x._value)


def weighted(f: Any, x: Any, seed: int) -> Any:
    """A sum of f(x) with fixed random weights."""
    y = f(x)
    w = np.random.default_rng(seed).standard_normal(y.shape)
    return (y * w).sum() if y.dtype.kind == "f" else (y.real * w).sum()
