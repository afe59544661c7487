"""Random loops that tests of control flow share, over any library that has `scan` and `cond`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from iverson.graph.control import loop_programs

WIDTH, LENGTH = 3, 5


@dataclass(frozen=True)
class Library:
    """Where a loop takes its functions from: `iverson`, or another with the same."""

    F: Any
    scan: Any
    cond: Any


#: ``f(library, a, b, w)`` of two vectors and a matrix gives a vector; none grows without bound.
MOVES = (
    lambda lib, a, b, w: lib.F.tanh(a @ w + b),
    lambda lib, a, b, w: lib.F.sin(a) * b,
    lambda lib, a, b, w: lib.F.tanh(w @ a) - lib.F.cos(b),
    lambda lib, a, b, w: lib.F.where(a > b, a, lib.F.exp(-(b**2))),
    lambda lib, a, b, w: a * lib.F.tanh(lib.F.sum(b)),
    lambda lib, a, b, w: lib.F.stack([a[1], b[0], a[2] * b[2]]),
    lambda lib, a, b, w: lib.cond(lib.F.sum(a) > 0, lambda a, b: lib.F.sin(a), lambda a, b: a * b, a, b),
    lambda lib, a, b, w: lib.scan(lambda c, x: (lib.F.tanh(c + x * a), c), b, a)[0],
    lambda lib, a, b, w: lib.scan(lambda c, x: (c * 0.5 + a, lib.F.sum(c) * x), b, b, reverse=True)[1],
)


@dataclass(frozen=True)
class Loop:
    """A random scan, with a number made of its results.

    moves : the values of a step, each made of two that are there, by one of `MOVES`.
    after : which values are the carries and the two results of the step.
    read : the step whose results are read; None for all.
    """

    moves: tuple[tuple[int, int, int], ...]
    after: tuple[int, int, int, int]
    reverse: bool
    read: int | None
    checkpoint: bool | int

    def __call__(self, lib: Library, w: Any, h: Any, xs: Any, **how: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            made = [*carry, x]
            for kind, a, b in self.moves:
                made.append(MOVES[kind](lib, made[a % len(made)], made[b % len(made)], w))
            c, d, y, z = (made[k % len(made)] for k in self.after)
            return (c, d), (y, lib.F.sum(z * c))

        (c, d), (y, z) = lib.scan(step, (h, h * 0.5), xs, reverse=self.reverse, **how)
        if self.read is None:
            return lib.F.sum(c * d) + lib.F.sum(y**2) + lib.F.sum(z)
        return lib.F.sum(y[self.read] ** 2) + z[self.read]


def loops() -> st.SearchStrategy[Loop]:
    """Loops over `LENGTH` steps."""
    number = st.integers(0, 1 << 20)
    move = st.tuples(st.integers(0, len(MOVES) - 1), number, number)
    return st.builds(
        Loop,
        st.lists(move, min_size=2, max_size=5).map(tuple),
        st.tuples(number, number, number, number),
        st.booleans(),
        st.one_of(st.none(), st.integers(0, LENGTH - 1)),
        st.sampled_from([False, True, 2]),
    )


@contextmanager
def compiled_after(equations: int) -> Iterator[None]:
    """Context in which loops in eager code are compiled once their steps have run so many equations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_programs, "PATIENCE", (equations, 0))
        yield


def arguments() -> list[np.ndarray]:
    """A matrix, a vector and slices for it."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=s) * 0.5 for s in ((WIDTH, WIDTH), (WIDTH,), (LENGTH, WIDTH))]
