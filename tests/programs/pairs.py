"""Programs that differ in one thing: a constant, a parameter, a dtype, a name, what is donated, a closure.

A family is a random chain of steps on a matrix; its members have these with one of their settings changed.
Caches that take two members for the same give one of them the other's result. ``results`` carries all of them
out in one process and says what they are, bit for bit; as a program this module prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import iverson as iv
from iverson import te

SIZE = 3


class Settings(NamedTuple):
    """All that the steps of a family have in common.

    by, factor : what an op in index notation, and a custom function, close over.
    """

    constant: float = 1.5
    axis: int = 0
    offset: int = 0
    descending: bool = False
    dtype: str = "float64"
    names: tuple[str, str] = ("i", "k")
    donated: bool = False
    by: float = 2.0
    factor: float = 0.5


#: The members of a family: the first one, and what others have changed.
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"constant": 7.0},
    {"constant": 0.0},
    {"constant": -0.0},
    {"axis": 1},
    {"offset": 1},
    {"descending": True},
    {"dtype": "float32"},
    {"dtype": "complex128"},
    {"names": ("x0", "i")},
    {"donated": True},
    {"by": 3.0},
    {"factor": -1.0},
)


def _assigned(v: Any, s: Settings) -> Any:
    y = v * v
    y[0] = v[2]
    return y * s.constant


def _joined(v: Any, s: Settings) -> Any:
    return iv.concat([v[:1] * s.constant, v[1:]], axis=0)


def _chosen(v: Any, s: Settings) -> Any:
    return iv.where(iv.real(v) > 0.2, v, s.constant)


def _array(v: Any, s: Settings) -> Any:
    return v @ np.full((SIZE, SIZE), s.constant, s.dtype)


def _flipped(v: Any, s: Settings) -> Any:
    return v * iv.flip(v, axis=s.axis)


def _centred(v: Any, s: Settings) -> Any:
    return v - iv.mean(v, axis=s.axis, keepdims=True)


def _summed(v: Any, s: Settings) -> Any:
    return iv.cumulative_sum(v, axis=s.axis)


def _triangle(v: Any, s: Settings) -> Any:
    return iv.tril(v, k=s.offset)


def _rolled(v: Any, s: Settings) -> Any:
    return v + iv.roll(v, s.offset, axis=s.axis)


def _sorted(v: Any, s: Settings) -> Any:
    return v * iv.sort(iv.real(v), axis=s.axis, descending=s.descending)


def _notation(v: Any, s: Settings) -> Any:
    row, column = s.names
    by = s.by
    known = {"te": te, "by": by, "SIZE": SIZE}
    source = (
        f"lambda a: te.compute(a.shape, lambda {row}, {column}: a[{row}, {column}] * by + a[{column}, {row}])"
    )
    return te.op(eval(source, known), name="mixed")(v)


def _custom(v: Any, s: Settings) -> Any:
    class Scaled(iv.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * s.factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * s.factor

    return Scaled.apply(v)


STEPS: tuple[Callable[[Any, Settings], Any], ...] = (
    _assigned, _joined, _chosen, _array, _flipped, _centred, _summed, _triangle, _rolled, _sorted, _notation,
    _custom,
)  # fmt: skip


def members(seed: int) -> Iterator[tuple[Callable[[], Any], dict[str, Any]]]:
    """Calls that carry out the members of a family, compiled and afresh, and what is changed in each."""
    rng = np.random.default_rng(seed)
    steps = [STEPS[k] for k in rng.permutation(len(STEPS))[: rng.integers(3, 7)]]
    entries = rng.normal(size=(SIZE, SIZE))
    weights = rng.normal(size=(SIZE, SIZE))
    for change in CHANGES:
        settings = Settings(**change)

        def function(x: Any, s: Settings = settings) -> Any:
            for step in steps:
                x = step(x, s)
            return iv.sum(iv.real(x * weights.astype(s.dtype))), x

        def run(s: Settings = settings, function: Any = function) -> Any:
            derivative = iv.value_and_grad(function, has_aux=True)
            f = iv.jit(derivative, donate=0 if s.donated else ())
            (value, result), gradient = f(iv.asarray(entries.astype(s.dtype)))
            return [x.numpy() for x in (value, result, gradient)]

        yield run, change


def results(seed: int, back: bool = False, before: Callable[[], None] = lambda: None) -> list[str]:
    """What each member of a family gives, in their order; from the last one on where ``back``.

    before : what is done before each of them.
    """
    calls = [run for run, _ in members(seed)]
    found: dict[int, str] = {}
    for k in range(len(calls))[:: -1 if back else 1]:
        before()
        with np.errstate(all="ignore"):
            found[k] = " ".join(f"{x.dtype}{x.shape}{x.tobytes().hex()}" for x in calls[k]())
    return [found[k] for k in range(len(calls))]


if __name__ == "__main__":
    order, *seeds = sys.argv[1:]
    for n in seeds:
        print(*results(int(n), order == "back"), sep="\n")
