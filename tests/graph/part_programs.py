"""Random functions of which parts and selections are read, put in place, joined, multiplied and moved.

What is not selected may be inf or nan, and no entry of it may reach a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.table import F

Random = np.random.Generator
SHAPES = ((3, 4), (4,))


def _filled(q: Any, shape: tuple[int, ...]) -> Any:
    """Entries of an array, in turn, in another shape."""
    return iv.take(q.reshape(-1), np.arange(int(np.prod(shape))) % q.size).reshape(shape)


def _slice(rng: Random, n: int) -> slice:
    low, high = sorted(rng.integers(0, n + 1, 2).tolist())
    return (
        slice(None),
        slice(None),
        slice(low, max(high, low + 1)),
        slice(low, high),
        slice(None, None, -1),
        slice(low, None, 2),
    )[rng.integers(6)]


def key_of(rng: Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Of slices with any step, integers and perhaps a new axis."""
    key: list[Any] = [int(rng.integers(-n, n)) if n and rng.random() < 0.3 else _slice(rng, n) for n in shape]
    if rng.random() < 0.2 and len(shape) < 3:
        key.insert(int(rng.integers(len(key) + 1)), None)
    return tuple(key)


def _condition(rng: Random, p: Any, y: Any) -> Any:
    """Of entries, or known from the start; of the whole shape, or the same along axes."""
    shape = tuple(1 if rng.random() < 0.3 else n for n in p.shape)[rng.integers(2) * (rng.random() < 0.3) :]
    kind = rng.integers(6)
    if kind < 2:
        return p > float(rng.normal(scale=0.5))
    if kind == 2:
        return y[int(rng.integers(4))] > 0
    if kind == 3:
        return iv.sum(p, axis=0) < 0.5 if p.ndim > 1 else p < 0.5
    return rng.random(shape) < (0.6, 0.6, 1.0, 0.0)[rng.integers(4)]


def _selected(rng: Random, p: Any, q: Any, y: Any) -> Any:
    c, other = _condition(rng, p, y), (0.0, 0.0, 0, 1.0, p * 2)[rng.integers(5)]
    return iv.where(c, other, p) if rng.integers(2) else iv.where(c, p, other)


def _guarded(rng: Random, p: Any, q: Any, y: Any) -> Any:
    f = (iv.log, iv.sqrt, lambda p: 1 / p, lambda p: p * iv.log(p))[rng.integers(4)]
    return iv.where(p > 0.1, f(p), 0.0) if rng.integers(2) else iv.where(p <= 0.1, 0.0, f(p))


def _placed(rng: Random, p: Any, q: Any, y: Any) -> Any:
    wide = [tuple(rng.integers(0, 3, 2).tolist()) for _ in p.shape]
    return iv.pad(p, wide) if rng.integers(2) else iv.pad(p, wide)[tuple(slice(1, None) for _ in p.shape)]


def _assigned(rng: Random, p: Any, q: Any, y: Any) -> Any:
    made, key = p * 1.0, key_of(rng, p.shape)
    if rng.integers(2) and p.shape[0] > 1:
        key = (rng.integers(0, p.shape[0], 2),)
    made[key] = (0.0, 1.0, p[key] * y[0])[rng.integers(3)]
    return made


def _joined(rng: Random, p: Any, q: Any, y: Any) -> Any:
    others = [p, iv.zeros(p.shape), iv.sin(p), iv.where(_condition(rng, p, y), p, 0.0) + iv.zeros(p.shape)]
    chosen = [others[k] for k in rng.integers(0, 4, rng.integers(1, 4))]
    if rng.integers(2) and p.ndim < 3:
        return iv.stack(chosen, axis=int(rng.integers(p.ndim + 1)))
    return iv.concat(chosen, axis=int(rng.integers(p.ndim)))


def _halves(rng: Random, p: Any, q: Any, y: Any) -> Any:
    """Parts that fill an array, or nearly, each of which something else is computed of."""
    axis, k = int(rng.integers(p.ndim)), int(rng.integers(p.shape[0] + 1))
    at = (slice(None),) * axis
    first, second = p[(*at, slice(k))], p[(*at, slice(k + int(rng.integers(4) == 0), None))]
    return iv.concat([iv.sin(first), second * second], axis=axis)


def _summed(rng: Random, p: Any, q: Any, y: Any) -> Any:
    axis = (None, 0, -1, tuple(range(p.ndim)))[rng.integers(4)]
    return iv.sum(p, axis=axis, keepdims=bool(rng.integers(2)))


def _product(rng: Random, p: Any, q: Any, y: Any) -> Any:
    """Factors of two axes or one, on either side; of what is computed, or constant."""
    n = p.shape[-1]
    w = rng.normal(size=(n, 2)) if rng.integers(2) else _filled(q, (n, 2))
    if rng.integers(3) == 0:
        w = iv.where(rng.random((n, 1)) < 0.5, w, 0.0)
    out = p @ w
    return out.mT if out.ndim > 1 and rng.integers(2) else (iv.permute_dims(w, (1, 0)) @ p[..., None])[..., 0]


def _padded(rng: Random, p: Any, q: Any, y: Any) -> Any:
    """Rows of a product, which constants or entries tell; the others are inf and nan in one factor."""
    n = 4 if p.ndim == 1 else p.shape[-2]
    rows = rng.random((n, 1)) < 0.6 if rng.integers(2) else _filled(p, (n, 1)) < 0.5
    x = np.sign(rng.normal(size=(n, 3)).round()) / iv.where(rows, 1.0, 0.0)
    w = _filled(q, (3, 2)) * (1.0 if rng.integers(2) else _filled(p, (2, 3, 2)))
    return iv.where(rows, x @ w, 0.0) if rng.integers(2) else iv.where(rows.mT, w.mT @ x.mT, 0.0)


def _taken(rng: Random, p: Any, q: Any, y: Any) -> Any:
    axis = int(rng.integers(p.ndim))
    at = rng.integers(0, p.shape[axis], 3)
    if rng.integers(3) == 0:  # where, is known when the program runs
        return iv.take(p, iv.argsort(iv.sum(p, axis=tuple(k for k in range(p.ndim) if k != axis))), axis=axis)
    if rng.integers(3) == 0 and p.ndim > 1:
        return p[at % p.shape[0], ..., at % p.shape[-1]]
    return iv.take(p, at, axis=axis)


def _moved(rng: Random, p: Any, q: Any, y: Any) -> Any:
    return (
        lambda: iv.permute_dims(p, tuple(rng.permutation(p.ndim).tolist())),
        lambda: iv.flip(p, axis=int(rng.integers(p.ndim))),
        lambda: iv.roll(p, int(rng.integers(3)), axis=int(rng.integers(p.ndim))),
        lambda: p.reshape(-1),
        lambda: p.reshape((p.shape[0] * p.shape[1], *p.shape[2:])) if p.ndim > 1 else p.reshape(1, -1),
        lambda: iv.broadcast_to(p, (2, *p.shape)) if p.ndim < 3 else iv.expand_dims(p[0], axis=1),
        lambda: iv.tril(p) if p.ndim > 1 else iv.expand_dims(p, axis=0),
    )[rng.integers(7)]()


def _lines(rng: Random, p: Any, q: Any, y: Any) -> Any:
    axis = int(rng.integers(p.ndim))
    f = (iv.cumulative_sum, iv.softmax, iv.max, iv.sort, iv.mean, iv.logsumexp)[rng.integers(6)]
    return f(p, axis=axis)


def _each(rng: Random, p: Any, q: Any, y: Any) -> Any:
    f = (iv.sin, iv.cos, iv.tanh, iv.square, iv.relu, lambda p: p - 0.5, abs, lambda p: iv.minimum(p, 0.3))
    return f[rng.integers(8)](p)


def _both(rng: Random, p: Any, q: Any, y: Any) -> Any:
    q = _filled(q, p.shape[rng.integers(p.ndim) :])
    f = (iv.multiply, iv.multiply, iv.add, iv.subtract, iv.maximum, lambda p, q: p / (1 + q * q))
    return f[rng.integers(6)](*((p, q) if rng.integers(2) else (q, p)))


STEPS = (
    *(_selected, _selected, _guarded, _placed, _assigned, _joined, _summed, _product, _padded, _taken),
    *(_moved, _moved, _lines, _each, _both, _both, _halves, lambda rng, p, q, y: p[key_of(rng, p.shape)]),
)


def read(seed: int, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """A part of each array, chosen by a number."""
    rng = np.random.default_rng(seed)
    return tuple(x[key_of(rng, x.shape)] for x in arrays)


def held(rng: Random, x: np.ndarray) -> Any:
    """An array of which a part, a selection, both or all is held."""
    rows = sorted(rng.integers(0, len(x) + 1, 2).tolist())
    key = (slice(*rows), *(slice(n) for n in x.shape[1:]))
    there = np.broadcast_to(rng.random(tuple(n if rng.integers(2) else 1 for n in x.shape)) < 0.6, x.shape)
    found = iv.asarray(x)
    if rng.integers(2) and rows[0] < rows[1]:
        found = F.embed(iv.asarray(x[key]), key=key, shape=x.shape)
    return F.bracket(there, found, negated=bool(rng.integers(2))) if rng.integers(2) else found


def part_program(seed: int, steps: int = 5) -> tuple[Callable[..., tuple[Any, ...]], list[np.ndarray]]:
    """A function of two arrays that gives what it computed last and some of what it read, and the arrays."""
    given = np.random.default_rng(seed)
    arrays = [given.normal(size=shape) for shape in SHAPES]

    def program(x: Any, y: Any) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        made = [x, x, y]
        for _ in range(steps):
            p, q = (made[-int(rng.integers(1, 3))], made[int(rng.integers(len(made)))])
            if not p.ndim or not p.size:
                p = x * 0.5
            if not q.size:
                q = y
            out = STEPS[rng.integers(len(STEPS))](rng, p, q, y)
            made.append(out if out.size <= 64 else iv.sin(out.reshape(-1)[3:20]))
        last = made[-1]
        return last, last[key_of(rng, last.shape)]

    return program, arrays
