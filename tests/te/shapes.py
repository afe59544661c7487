"""Random ops called on several shapes: code for all shapes gives what the code of each shape gives.

Definitions are those of `programs` over operands whose extents are sizes, and more: windows with steps, gaps
and padding, reversed ones, digits, and stages and results whose extents are made of those of operands.
`python -m tests.te.shapes FIRST LAST` goes through a range of seeds.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from iverson import te
from iverson.core.errors import IversonError

from .programs import ROWS, F, Programs


class Shaped(Programs):
    """Draws a definition of given operands, always the same for a seed."""

    def __init__(self, seed: int, x: Any, y: Any, at: Any, rows: Any) -> None:
        self.r = random.Random(seed)
        self.dtype, self.ordered = "float64", True
        self.X, self.Y, self.at, self.rows = x, y, at, rows
        self.shape = self.extent(), self.extent()
        self.floats, self.integers = [x, y], [at]

    def extent(self) -> Any:
        (n, m), (k,) = self.X.shape, self.Y.shape
        return self.one(n, m, n, m, k, n - 1, m + 1, 2 * n, 2 * m + 1, (n + 1) // 2, 3, 4)

    def number(self, axes: list[Any], depth: int) -> Any:
        a = super().number(axes, depth)
        return self.one(a, a, a, F.minimum(a, self.extent() - 1), self.extent() - 1 - a) if depth else a

    def program(self) -> tuple[Any, bool]:
        if self.one(True, False):
            n, m = self.X.shape
            shape = self.one((n, m), ((n + 1) // 2, m), (n + 2, m), (m, n))
            self.floats.append(te.compute(shape, self.entry, "S"))
        how = self.one("", "window", "window", "digits")
        return self.result() if not how else (getattr(self, how)(), True)

    def window(self) -> Any:
        """Reductions over places with steps and gaps, padded, from either end."""
        t = self.one(*self.floats)
        n, width = t.shape[-1], self.one(2, 3)
        step, gap, pad = self.one(1, 1, 2, 3), self.one(1, 1, 2), self.one(0, 0, 1, 2)
        k, reduce = te.reduce_axis(width, "k"), self.one(te.sum, te.sum, te.max, te.min, te.prod)
        clamped, turned, other = self.one(True, False), self.one(True, False, False), self.one(0.0, 0.5)

        def entry(*i: Any) -> Any:
            a = step * i[-1] + gap * k - pad
            a = n - 1 - a if turned else a
            if clamped:
                return reduce(t[(*i[:-1], te.clamp(a, 0, n - 1))], k)
            return reduce(te.select((a >= 0) & (a < n), t[(*i[:-1], a)], other), k)

        return te.compute((*t.shape[:-1], (n + 2 * pad - gap * (width - 1) - 1) // step + 1), entry, "T")

    def digits(self) -> Any:
        """Repeated, spread, taken apart and swapped in pairs along the last axis."""
        t, by = self.one(*self.floats), self.one(2, 3)
        (*lead, n), how = t.shape, self.one("repeated", "spread", "apart", "swapped")

        def at(*i: Any) -> Any:
            return t[tuple(i)]

        if how == "repeated":
            return te.compute((*lead, by * n), lambda *i: at(*i[:-1], i[-1] // by) * self.value([*i], 0), "T")
        if how == "spread":
            entry = lambda *i: te.select(i[-1] % by == 0, at(*i[:-1], i[-1] // by), 0.0)
            return te.compute((*lead, by * n), entry, "T")
        if how == "apart":
            return te.compute((*lead, n // by, by), lambda *i: at(*i[:-2], by * i[-2] + i[-1]) ** 2, "T")
        other = lambda j: te.select(j % 2 == 0, te.clamp(j + 1, 0, n - 1), j - 1)
        return te.compute((*lead, n), lambda *i: at(*i[:-1], other(i[-1])) * self.value([*i], 0), "T")


def shapes_of(seed: int) -> list[tuple[int, ...]]:
    """Some in which one extent changes, and some in which all do."""
    r = random.Random(seed)
    found: list[tuple[int, ...]] = []
    for _ in range(4):
        new = r.choice([1, 2, 3, 4, 5, 7, 9, 12]), r.choice([1, 2, 3, 5, 6, 8, 17]), r.choice([1, 3, 6, 11])
        if found and r.random() < 0.6:
            k = r.randrange(3)
            new = tuple(b if q == k else a for q, (a, b) in enumerate(zip(found[0], new, strict=True)))
        found.append(tuple(3 * n + 1 for n in new) if seed % 3 == 0 else new)
    return found


def outcome(op: Callable[..., Any], args: list[Any], second: bool) -> list[Any] | type:
    """The result, its gradients and perhaps theirs; or what is wrong with the call."""
    x, y = (iv.asarray(a, requires_grad=True) for a in args[:2])
    try:
        made = op(x, y, *args[2:])
        found = [made, *iv.autograd.grad((made * made).sum(), [x, y], unused="zero", create_graph=second)]
        if second:
            found += iv.autograd.grad(sum((g * g).sum() for g in found[1:]), [x, y], unused="zero")
    except IversonError as error:
        return type(error)
    return [t.detach().to_dense().numpy() for t in found]


def hold(seed: int) -> None:
    """One op for all shapes, and one for each."""
    rng = np.random.default_rng(seed)

    def define(x: Any, y: Any, at: Any, rows: Any) -> Any:
        return Shaped(seed, x, y, at, rows).program()[0]

    op = te.op(define)
    for n, m, k in shapes_of(seed):
        args = [rng.uniform(-1, 1, (n, m)), rng.uniform(-1, 1, k), rng.integers(-1, 6, 4)]
        args.append(np.sort(rng.integers(0, k + 1, ROWS)))
        with np.errstate(all="ignore"):
            found, expected = outcome(op, args, seed % 4 == 0), outcome(te.op(define), args, seed % 4 == 0)
        where = f"{(n, m, k)} of {shapes_of(seed)}"
        assert isinstance(found, type) == isinstance(expected, type), where
        if isinstance(found, type):
            assert found is expected, where
            continue
        for a, b in zip(found, expected, strict=True):
            near = 1e-9 * (1 + np.abs(b).max(initial=0, where=np.isfinite(b)))
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=near, err_msg=where)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            hold(number)
        except Exception:
            print(number, "FAILED", flush=True)
            traceback.print_exc()
