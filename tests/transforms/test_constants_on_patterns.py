"""Compiled results that depend on no entry of a sparse argument, and are stored on its pattern.

The gradient of a sum of stored entries is such a constant: its entries are known when the graph is made, and
its pattern only when a call gives one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from tests.conformance.product import EXHAUSTIVE, paired

#: Functions of a sparse matrix; their gradients are constants, or a constant and something else.
SUMS: dict[str, Any] = {
    "sum": lambda s: s.values().sum(),
    "shifted": lambda s: (s.values() + 1.5).sum() * 1.5,
    "put back": lambda s: s.with_values(s.values() * 3.0).sum(),
    "and another": lambda s: s.values().sum() + (s * 0.5).sum(),
    "one entry": lambda s: s.values()[:1].sum(),
}
YES = iv.asarray(True)


def slope(f: Any) -> Any:
    return iv.grad(f)


def times(factor: float) -> Any:
    return lambda f: lambda s: slope(f)(s) * factor


#: By name, a compiled function made of one of the sums, and the same without a graph.
WAYS: dict[str, tuple[Any, Any]] = {
    "jit of grad": (lambda f: iv.jit(slope(f)), slope),
    "grad of jit": (lambda f: slope(iv.jit(f)), slope),
    "jit of grad of checkpoint": (lambda f: iv.jit(slope(iv.checkpoint(f))), slope),
    "jit of checkpoint of grad": (lambda f: iv.jit(iv.checkpoint(slope(f))), slope),
    "jit of jit of grad": (lambda f: iv.jit(iv.jit(slope(f))), slope),
    "jit of a branch": (lambda f: iv.jit(lambda s: iv.cond(YES, slope(f), lambda s: s * 1.0, s)), slope),
    "jit of a branch that entries choose": (
        lambda f: iv.jit(lambda s: iv.cond(s.sum() > -100.0, slope(f), lambda s: s * 1.0, s)),
        slope,
    ),
    "jit of grad of a branch": (
        lambda f: iv.jit(slope(lambda s: iv.cond(s.sum() > -100.0, f, lambda s: s.sum(), s))),
        slope,
    ),
    "jit of a loop's carry": (
        lambda f: iv.jit(lambda s: iv.scan(lambda c, _: (slope(f)(c), None), s, length=2)[0]),
        lambda f: lambda s: slope(f)(slope(f)(s)),
    ),
    "jit of a loop's results": (
        lambda f: iv.jit(
            lambda s: iv.scan(lambda c, _: (c, slope(f)(s)), iv.asarray(0.0), length=2)[1].sum(axis=0)
        ),
        times(2.0),
    ),
    "jit of a sum of two": (lambda f: iv.jit(lambda s: slope(f)(s) + slope(f)(s)), times(2.0)),
    "jit of value and grad": (lambda f: iv.jit(lambda s: iv.value_and_grad(f)(s)[1]), slope),
}


def matrix(count: int, layout: str) -> Any:
    """A matrix with so many entries, at places that the number decides."""
    rng = np.random.default_rng(count)
    i, j = np.divmod(np.sort(rng.permutation(24)[:count]), 6)
    s = iv.sparse_coo_tensor((i, j), rng.normal(size=count), (4, 6))
    if layout in ("bsr", "bsc"):
        return s.to_layout(layout, blocksize=(2, 3))
    return s if layout == "coo" else s.to_layout(layout)


#: But for a carry that the first step makes dense: it has no stored entries then.
ROWS = [(w, n) for w in WAYS for n in SUMS if (w, n) != ("jit of a loop's carry", "and another")]


@pytest.mark.parametrize(
    ("names", "layout"),
    paired(ROWS, ["csr", "coo", "csc", "bsr", "bsc"]),
)
def test_a_constant_is_on_the_pattern_of_the_call(names: tuple[str, str], layout: str) -> None:
    compiled, plain = (make(SUMS[names[1]]) for make in WAYS[names[0]])
    counts = (7, 3, 20, 0, 12, 7) if EXHAUSTIVE else (7, 0, 12)
    for count in counts:
        s = matrix(count, layout)
        if names[1] == "one entry" and count == 0:
            continue
        np.testing.assert_allclose(compiled(s).to_dense().numpy(), plain(s).to_dense().numpy(), rtol=1e-14)
