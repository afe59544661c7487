"""Functions over the op table that the tests of graphs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import iverson as iv
from iverson.core.dispatch import bind
from iverson.layouts import to_strided
from iverson.ops import TABLE, F
from tests.conformance.product import samples_of


class Call(NamedTuple):
    """One sampled call of an op as a function of its floating array arguments, and these."""

    name: str
    number: int
    function: Callable[..., tuple[Any, ...]]
    args: tuple[np.ndarray, ...]


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def calls_of(name: str, dtype: str = "float64") -> list[Call]:
    """The samples of an op, each as a function of its arguments that may be differentiated."""
    op = TABLE[name]
    found = []
    for number, sample in enumerate(samples_of(op, dtype)):
        at = [k for k, a in enumerate(sample.args) if getattr(a, "dtype", np.dtype(int)).kind in "fc"]

        def function(*given: Any, sample: Any = sample, at: Any = at) -> tuple[Any, ...]:
            args = list(sample.args)
            for k, a in zip(at, given, strict=True):
                args[k] = a
            out = as_tuple(bind(op, tuple(args), dict(sample.params)))
            return out if sample.post is None else as_tuple(sample.post(F, *out))

        found.append(Call(name, number, function, tuple(sample.args[k] for k in at)))
    return found


def loss_of(function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """A real number from all floating results of a function, in which no two entries weigh the same."""

    def loss(*args: Any) -> Any:
        total: Any = 0.0
        for out in function(*args):
            if out.dtype.kind in "fc":
                real = F.real(out) + 0.5 * F.imag(out) if out.dtype.kind == "c" else out
                weights = np.linspace(0.5, 1.5, real.size).reshape(real.shape).astype(real.dtype)
                total = total + iv.sum(real * weights)
        return total

    return loss


def entries(x: Any) -> np.ndarray:
    """All entries of a tensor in any layout."""
    return to_strided(x._value)


def close(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    """The same entries in the same dtype and shape, to rounding."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    a, b = entries(found), entries(expected)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11, equal_nan=True)
