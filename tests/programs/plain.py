"""Bodies of programs in plain Python: a loop is a Python loop, a batch one over examples, a branch an if."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.namespace import Feed, Namespace


def mapped(f: Callable[..., Any], *trees: Any) -> Any:
    """A function of the leaves that stand at one place of several trees, at each place."""
    if isinstance(trees[0], tuple):
        return tuple(mapped(f, *parts) for parts in zip(*trees, strict=True))
    return f(*trees)


class Plain(Namespace):
    """What namespaces that are oracles share. Draws are read from those that another namespace made."""

    def __init__(self, feed: Feed | None = None) -> None:
        self.feed = {} if feed is None else feed
        self.turns: list[int] = []

    def draw(self: Any, site: str, shape: tuple[int, ...]) -> Any:
        drawn = self.feed[site]
        return self.asarray(np.asarray(drawn[tuple(self.turns)]) if self.turns else np.asarray(drawn))

    def settled(self: Any, tree: Any) -> Any:
        """Results of a body: arrays of their own, which later writes leave as they are."""
        return mapped(self.clone, tree)

    def jit(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: self.settled(f(*args))

    checkpoint = jit

    def _turn(self, k: int, f: Callable[..., Any], *args: Any) -> Any:
        self.turns.append(k)
        try:
            return self.settled(f(*args))
        finally:
            self.turns.pop()

    def _together(self: Any, axis: int, rows: list[Any]) -> Any:
        return mapped(lambda *xs: self.stack(xs, axis), *rows)

    def vmap(self: Any, f: Callable[..., Any], in_axes: Any = 0, out_axes: int = 0) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
            n = next(a.shape[k] for a, k in zip(args, axes, strict=True) if k is not None)

            def example(j: int) -> list[Any]:
                parts = zip(args, axes, strict=True)
                return [a if k is None else self.take(a, j, k) for a, k in parts]

            return self._together(out_axes, [self._turn(j, f, *example(j)) for j in range(n)])

        return run

    def scan(self: Any, f: Callable[..., Any], init: Any, xs: Any) -> Any:
        rows, init = [], self.settled(init)
        for j in range((xs[0] if isinstance(xs, tuple) else xs).shape[0]):
            step = tuple(x[j] for x in xs) if isinstance(xs, tuple) else xs[j]
            init, y = self._turn(j, f, init, step)
            rows.append(y)
        return init, self._together(0, rows)

    def cond(self, pred: Any, f: Callable[..., Any], g: Callable[..., Any], *operands: Any) -> Any:
        return self.settled((f if pred else g)(*operands))

    def fori_loop(self: Any, n: int, f: Callable[..., Any], init: Any) -> Any:
        init = self.settled(init)  # what no step makes is a value of its own, too
        for k in range(n):
            init = self.settled(f(self.asarray(np.asarray(float(k))), init))
        return init

    def while_loop(self, test: Callable[..., Any], f: Callable[..., Any], init: Any) -> Any:
        init = self.settled(init)
        while bool(test(init)):
            init = self.settled(f(init))
        return init

    # --- index notation ---------------------------------------------------------------

    def stencil(self: Any, x: Any, w: Any, names: Any) -> Any:
        n = x.shape[0] - 1
        return x[:n] * w[0] + x[1:] * w[1] + self.sin(x[:n])

    def spread(self: Any, x: Any, names: Any) -> Any:
        n = x.shape[0]
        rows = np.arange(n + 2)
        return self.maximum(self.asarray(np.asarray(0.45)), self.sigmoid(x[rows % n])) * self.asarray(
            rows + 1.0
        )
