"""How each call of the list ends on tensors that track gradients: by SciPy's name, and inside `use()`.

Run as a program, as SciPy reads ``SCIPY_ARRAY_API`` when it is imported; arguments are the packages of
SciPy to run, all by default. Values are compared with SciPy's own of NumPy arrays, a derivative along a
random direction with central differences of these.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from zlib import crc32

import numpy as np
import scipy.sparse

import iverson as iv
from iverson.interop import scipy as ours
from tests.interop.probe.table import CALLS

for _module in ("special", "linalg", "stats", "signal", "solver"):
    importlib.import_module(f"tests.interop.probe.{_module}_calls")

Call = Callable[..., Any]
rng = np.random.default_rng()  # of each call by itself (`main`)


def parts(result: Any) -> Iterator[Any]:
    """The arrays and numbers in what a function returns."""
    if isinstance(result, dict):
        result = list(result.values())
    if scipy.sparse.issparse(result):
        yield result.toarray()
    elif isinstance(result, (tuple, list)):
        for item in result:
            yield from parts(item)
    elif isinstance(result, (iv.Tensor, np.ndarray, np.generic, float, complex)):
        yield result
    elif hasattr(result, "__dict__") and not callable(result) and not isinstance(result, (str, bool, int)):
        for key, item in sorted(vars(result).items()):
            if not key.startswith("_"):
                yield from parts(item)


def _is_float(part: Any) -> bool:
    return (
        getattr(part, "dtype", np.asarray(part).dtype if not isinstance(part, iv.Tensor) else None).kind
        in "fc"
    )


def _floats(result: Any) -> list[Any]:
    return [p for p in parts(result) if _is_float(p)]


def _slope(
    call: Call, args: tuple[Any, ...], direction: list[Any], weights: list[Any], step: float
) -> list[float]:
    """The derivatives along a direction of the weighed parts of the result."""
    h = step

    def at(t: float) -> list[float]:
        found = _floats(call(*(x + t * v for x, v in zip(args, direction, strict=True))))
        return [float(np.real(np.nansum(np.asarray(p) * w))) for p, w in zip(found, weights, strict=True)]

    return [(a - b) / (2 * h) for a, b in zip(at(h), at(-h), strict=True)]


def _direction(x: Any) -> Any:
    """A random direction in which zeros stay, and symmetric matrices symmetric."""
    v = rng.normal(size=x.shape) * (x != 0)
    symmetric = x.ndim == 2 and x.shape[0] == x.shape[1] and np.array_equal(x, x.T)
    return v + v.T if symmetric else v


def ending(
    call: Call, args: tuple[Any, ...], around: Any = contextlib.nullcontext, step: float = 1e-6
) -> str:
    """How a call ends on tensors: "right", "constant", "refused: ..." or what is wrong."""
    expected = [np.asarray(p) for p in _floats(call(*(x.copy() for x in args)))]
    tensors = [iv.asarray(x.copy(), requires_grad=True) for x in args]
    try:
        with around(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", iv.errors.DetachWarning)
            found = _floats(call(*tensors))
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, iv.errors.IversonError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None and (cause is error or not isinstance(error, iv.errors.IversonError)):
            return f"refused: {cause}"
        return f"raised {type(error).__name__}: {error}"
    for warning in caught:
        if issubclass(warning.category, iv.errors.DetachWarning):
            return f"refused: {warning.message}"
    if len(found) != len(expected):
        return f"another value: {len(found)} parts for {len(expected)}"
    arrays = [np.asarray(p.detach() if isinstance(p, iv.Tensor) else p) for p in found]
    for a, b in zip(arrays, expected, strict=True):
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True):
            return f"another value: shapes {a.shape}, {b.shape}"
    weights = [np.where(np.isfinite(e), rng.normal(size=e.shape), 0.0) for e in expected]
    direction = [_direction(x) for x in args]
    slopes = _slope(call, args, direction, weights, step)
    tracked = [isinstance(p, iv.Tensor) and p.requires_grad for p in found]
    size = 1 + sum(map(abs, slopes))
    if any(abs(s) > 1e-5 * size for s, t in zip(slopes, tracked, strict=True) if not t):
        return "cut"
    if not any(tracked):
        return "constant"
    loss: Any = 0.0
    for p, w, t in zip(found, weights, tracked, strict=True):
        if t:
            loss = loss + iv.real(iv.where(w != 0, p, 0.0) * w).sum()
    grads = iv.autograd.grad(loss, tensors)
    slope = sum(float((g * v).sum()) for g, v in zip(grads, direction, strict=True) if g is not None)
    exact = sum(s for s, t in zip(slopes, tracked, strict=True) if t)
    return "right" if abs(slope - exact) <= 2e-4 * size else f"another derivative: {slope}, not {exact}"


def _guarded(*arguments: Any) -> str:
    try:
        return ending(*arguments)
    except Exception as error:
        return f"raised {type(error).__name__} later: {error}"


def main(packages: list[str]) -> dict[str, tuple[str, str]]:
    found = {}
    warnings.simplefilter("ignore")
    for name, (call, args) in CALLS.items():
        if not packages or name.startswith(tuple(packages)):
            rng.bit_generator.state = np.random.default_rng(crc32(name.encode())).bit_generator.state
            step = 1e-3 if name.startswith("optimize.") else 1e-6  # what searches stop short by is 1e-8
            by_name = _guarded(call, args, contextlib.nullcontext, step)
            inside = by_name if by_name == "right" else _guarded(call, args, ours.use, step)
            found[name] = by_name, inside
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
