"""Functions over the op table that the tests of graphs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import iverson as iv
from iverson.core.aval import aval_of
from iverson.core.dispatch import bind
from iverson.graph.ir.nodes import Graph
from iverson.graph.ir.verify import check
from iverson.graph.tracing.trace import trace_flat
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


def traced(f: Any, args: Any) -> Graph:
    """The graph of a function for arrays like these."""
    graph, captured, _ = trace_flat(lambda *h: (list(as_tuple(f(*h))), None), [aval_of(a) for a in args])
    assert not captured
    return check(graph)


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


#: Unary functions that are smooth and bounded where they are used, and others with kinks.
UNARY = (iv.sin, iv.tanh, iv.sigmoid, iv.relu, iv.negative, lambda x: x * 0.5, lambda x: x.T, abs)
BINARY = (
    iv.add,
    iv.multiply,
    iv.subtract,
    iv.maximum,
    lambda a, b: a @ b,
    lambda a, b: iv.where(a > 0, a, b),
)
SIZE = 3


def random_program(seed: int, steps: int = 8) -> Callable[..., list[Any]]:
    """A function of two matrices with three results, which may be parts, sums and stacks of each other."""
    rng = np.random.default_rng(seed)
    plan = [(int(rng.integers(8)), *rng.integers(0, 1 << 30, 3).tolist()) for _ in range(steps)]
    last = rng.integers(0, 1 << 30, 3).tolist()

    def program(x: Any, y: Any) -> list[Any]:
        made = [x, y]
        for kind, a, b, c in plan:
            p, q = made[a % len(made)], made[b % len(made)]
            if kind < 3:
                out = UNARY[c % len(UNARY)](p)
            elif kind < 6:
                out = BINARY[c % len(BINARY)](p, q)
            elif kind == 6:
                out = iv.stack([p, q, p + q], axis=c % 3)[c % 3] if c % 2 else iv.concat([p, q])[:SIZE]
            else:
                row = p[c % SIZE] if c % 2 else p.sum(axis=0)
                out = row + q
            made.append(out)
        return [made[k % len(made)] for k in last]

    return program


def matrices(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(SIZE, SIZE)), rng.normal(size=(SIZE, SIZE))
