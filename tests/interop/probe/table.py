"""The list of calls: for each function of SciPy, a call of arrays as its documentation describes it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

#: By SciPy's name, a function that takes arrays and reads SciPy's names when it is called, and the arrays.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
#: What takes no array of floats, by SciPy's package.
WITHOUT_FLOATS: dict[str, set[str]] = {}

rng = np.random.default_rng(7)


def of(name: str) -> Any:
    """What SciPy has under a dotted name now: ``linalg.expm``."""
    package, _, rest = name.rpartition(".")
    if name.startswith(("sparse.", "spatial.")) and package.count("."):
        return getattr(importlib.import_module(f"scipy.{package}"), rest)
    if package in ("stats", "special", "linalg", "signal", "ndimage", "interpolate", "optimize", "integrate",
                   "fft", "spatial"):  # fmt: skip
        return getattr(importlib.import_module(f"scipy.{package}"), rest)
    return getattr(of(package), rest)


def names(package: str, text: str, *args: Any, **options: Any) -> None:
    """Enter functions that are called on the same arguments; arrays of floats are differentiated."""
    for name in text.split():
        full = f"{package}.{name}"
        floats = [k for k, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]

        def call(*xs: Any, full: str = full, floats: list[int] = floats) -> Any:
            every = list(args)
            for k, x in zip(floats, xs, strict=True):
                every[k] = x
            return of(full)(*every, **options)

        CALLS[full] = call, tuple(args[k] for k in floats)


def calls(package: str, *args: Any, **functions: Callable[..., Any]) -> None:
    """Enter calls with arguments of their own: each function takes SciPy's one, then the arrays."""
    for name, function in functions.items():
        full = f"{package}.{name}"

        def call(*xs: Any, full: str = full, function: Callable[..., Any] = function) -> Any:
            return function(of(full), *xs)

        CALLS[full] = call, args


def without_floats(package: str, text: str) -> None:
    """Enter functions that take no array of floats, or whose results have no derivative by their nature."""
    WITHOUT_FLOATS.setdefault(package, set()).update(text.split())


def like(x: Any, values: Any) -> Any:
    """A constant of the library that x is of."""
    import iverson as iv

    return iv.asarray(values) if isinstance(x, iv.Tensor) else np.asarray(values)
