"""Functions that read sizes, compiled once for many: what is read at one size is never that of another.

Of arrays, sizes are extents; of sparse operands, numbers of stored entries, which programs for any of them
have room for. The oracle is NumPy, on dense arrays.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from tests.conformance.product import by_turns, examples

TOLERANCE = {"rtol": 1e-10, "atol": 1e-11}
Reader = tuple[Callable[..., Any], Callable[..., Any]]


def folded(step: Callable[..., Any], numbers: Any, start: Any) -> Any:
    return functools.reduce(lambda c, k: step(k, c), numbers, start)


# --- extents ----------------------------------------------------------------------------------------


class Counted(iv.autograd.Function):
    """Rows times a factor that is made of their number; so in the derivative."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.count = x.shape[0]
        return x * (2.0 + ctx.count) + len(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (2.0 + ctx.count)


@te.op
def sums_before(v: Any) -> Any:
    n = v.shape[0]
    k = te.reduce_axis((0, n))
    return te.compute(
        (n + 1,), lambda i: te.sum(te.select(k < i, v[k] * n, 0.25), axis=k) + i % (n + 2) - n // 2
    )


def sums_before_of_numpy(v: Any) -> Any:
    n = len(v)
    return np.array([v[:i].sum() * n + 0.25 * (n - i) + i % (n + 2) - n // 2 for i in range(n + 1)])


def halved(xp: Any, x: Any) -> Any:
    n = len(x)
    while n > 3:
        x, n = xp.sin(x), n // 2
    return x * n


def batch(v: Any) -> Any:
    n = len(v)
    return iv.vmap(lambda y: y * n + len(v) // 3)(v)


def written(y: Any, v: Any) -> Any:
    y[1 : 1 + len(v)] = v * len(v)
    y[-1] = len(v)
    return y


def specified(x: Any) -> Any:
    """A mask made of the sizes."""
    return np.arange(x.size).reshape(x.shape) % 3 < 2


def a_sparse_matrix(n: int) -> Any:
    rng = np.random.default_rng(n)
    return scipy.sparse.random(n, n, density=min(1.0, 2.5 / n), format="csr", random_state=rng)


#: Functions of a namespace, x of shape (n, m) and v of shape (n,).
READERS: dict[str, Callable[..., Any]] = {
    "len": lambda xp, x, v: x * len(x),
    "range": lambda xp, x, v: sum(x[k] * k for k in range(len(v))),
    "rows": lambda xp, x, v: sum(row * k for k, row in enumerate(x)),
    "zip": lambda xp, x, v: sum(a * b for a, b in zip(v, x[:, 0], strict=True)),
    "unpacked": lambda xp, x, v: sum([*v]) - len([*v]),
    "arithmetic": lambda xp, x, v: x[: (2 * len(x)) // 3 + 1] - x.shape[0] % 3 + x.shape[1] ** 2 - -len(v),
    "comparison": lambda xp, x, v: x if x.shape[0] > 4 else -x,
    "comparisons": lambda xp, x, v: x * 2 if 3 < x.shape[0] <= 7 else x * 3,
    "parity": lambda xp, x, v: x[::2] if len(v) % 2 else xp.sin(x),
    "divmod": lambda xp, x, v: v[divmod(len(v), 3)[0] :] * divmod(len(v), 3)[1],
    "while": lambda xp, x, v: halved(xp, x),
    "equal extents": lambda xp, x, v: x @ x if x.shape[0] == x.shape[1] else x,
    "in": lambda xp, x, v: x * 2 if x.shape[0] in (3, 5, 8) else x,
    "dictionary": lambda xp, x, v: x * {3: 0.5, 4: 7.0}.get(len(x), -1.0),
    "text": lambda xp, x, v: x * len(f"{x.shape}") + int(str(len(x))[-1]),
    "truth": lambda xp, x, v: x * 2 if x.shape[0] - 3 else x,
    "float": lambda xp, x, v: x / float(len(x)) + math.sqrt(len(x)) + math.log(x.shape[1]) + 1 / len(x),
    "min and max": lambda xp, x, v: x * min(x.shape) - max(x.shape) + sorted(x.shape)[0],
    "size": lambda xp, x, v: x * x.size + x.ndim + math.prod(x.shape),
    "numbers of NumPy": lambda xp, x, v: (
        x * float(np.prod(x.shape)) + int(np.asarray(x.shape)[0]) + float(np.int64(len(x)) // 2)
    ),
    "negative": lambda xp, x, v: v[-(len(v) // 2 + 1) :] + v[~0],
    "arange": lambda xp, x, v: xp.arange(len(v)) * v + xp.arange(len(v), 2 * len(v)),
    "steps": lambda xp, x, v: xp.arange(0, 3 * len(v), 3) * v,
    "eye": lambda xp, x, v: xp.eye(len(v)) * v + xp.eye(len(v), k=len(v) // 2),
    "linspace": lambda xp, x, v: xp.linspace(0.0, 1.0, len(v)) * v + xp.linspace(0.0, len(v), 3)[1],
    "full": lambda xp, x, v: (
        xp.full((len(v), 2), float(len(v))) + v[:, None] + xp.ones((len(v), 1)) * xp.zeros(2)
    ),
    "gathered": lambda xp, x, v: (
        v[xp.asarray(np.arange(len(v)) * 3 % len(v))] * v[np.arange(len(v))[::-1].copy()]
    ),
    "taken": lambda xp, x, v: xp.take(x, (xp.arange(2 * len(x)) * 5) % len(x), axis=0),
    "flags": lambda xp, x, v: xp.where(xp.arange(len(v)) < len(v) // 2, v, len(v)),
    "triangle": lambda xp, x, v: (
        xp.tril(v[:, None] * v, k=len(v) // 3) + xp.triu(v[:, None] * v, k=-(len(v) // 4))
    ),
    "roll": lambda xp, x, v: xp.roll(v, len(v) // 2, axis=0) + xp.flip(v, axis=0),
    "reshape": lambda xp, x, v: xp.reshape(x, (x.shape[1], x.shape[0])) + xp.reshape(x, (-1,))[len(x) - 1],
    "repeated": lambda xp, x, v: xp.tile(v, (2,)) * 0.5 + xp.concat([v] * 2) + len([v] * len(v)),
    "joined": lambda xp, x, v: xp.concat([v[:1]] * len(v)) + xp.stack([v[k] for k in range(len(v))][::-1]),
    "broadcast": lambda xp, x, v: xp.broadcast_to(v, (len(v) // 2 + 1, len(v))),
    "mean": lambda xp, x, v: xp.sum(x, axis=0) / x.shape[0] - xp.mean(x, axis=0) + xp.sum(v) / v.size,
    "differences": lambda xp, x, v: (v[1:] - v[:-1]) * (len(v) - 1),
    "index": lambda xp, x, v: v[len(v) // 2] * x[len(x) - 1] + x[len(x) // 2, x.shape[1] // 2],
    "windows": lambda xp, x, v: sum(v[k : len(v) - 2 + k] if len(v) > 2 else v for k in range(3)),
    "integers": lambda xp, x, v: xp.astype(xp.asarray([len(v), 7]) % 5, "float64") * v[0],
    "product": lambda xp, x, v: x.T @ x / len(x) + (x @ xp.ones((x.shape[1], x.shape[0])))[0, 0],
}
#: Functions of x and v of the library, and what they are for NumPy.
PAIRS: dict[str, Reader] = {
    "closure": (lambda x, v: batch(v), lambda x, v: v * len(v) + len(v) // 3),
    "custom function": (lambda x, v: Counted.apply(x), lambda x, v: x * (2.0 + len(x)) + len(x)),
    "index notation": (lambda x, v: sums_before(v), lambda x, v: sums_before_of_numpy(v)),
    "length of a scan": (
        lambda x, v: iv.scan(lambda c, _: (c * 0.5 + 1, c), v[0], None, length=len(v))[1],
        lambda x, v: np.array(
            list(itertools.accumulate(range(len(v) - 1), lambda c, _: c * 0.5 + 1, initial=v[0]))
        ),
    ),
    "end of a loop": (
        lambda x, v: iv.fori_loop(0, len(v), lambda k, c: c * 0.5 + k, v[0]),
        lambda x, v: folded(lambda k, c: c * 0.5 + k, range(len(v)), v[0]),
    ),
    "ends of a loop": (
        lambda x, v: iv.fori_loop(len(v), 2 * len(v), lambda k, c: c * 0.5 + k, v[0]),
        lambda x, v: folded(lambda k, c: c * 0.5 + k, range(len(v), 2 * len(v)), v[0]),
    ),
    "condition of a branch": (
        lambda x, v: iv.cond(iv.sum(v) * 0 + len(v) > 4, lambda v: v * len(v), lambda v: v - len(v), v),
        lambda x, v: v * len(v) if len(v) > 4 else v - len(v),
    ),
    "pad": (
        lambda x, v: iv.pad(v, (len(v) // 2, len(v) % 3)),
        lambda x, v: np.pad(v, (len(v) // 2, len(v) % 3)),
    ),
    "one hot": (
        lambda x, v: iv.nn.one_hot(iv.arange(len(v)) // 2, len(v)) * v,
        lambda x, v: np.eye(len(v))[np.arange(len(v)) // 2] * v,
    ),
    "segments": (
        lambda x, v: iv.segment_sum(x, iv.arange(len(x)) // 2, (len(x) + 1) // 2),
        lambda x, v: np.add.reduceat(x, np.arange(0, len(x), 2)),
    ),
    "draws": (
        lambda x, v: (
            v + 0 * sum(iv.random.default_rng(len(v)).normal(size=(len(v), 2))[:, k] for k in (0, 1))
        ),
        lambda x, v: v,
    ),
    "mask": (
        lambda x, v: iv.sum(iv.masked_tensor(x, specified(x)), axis=0).to_tensor(float(len(x))),
        lambda x, v: np.where(specified(x).any(0), (x * specified(x)).sum(0), len(x)),
    ),
    "batch": (
        lambda x, v: iv.vmap(lambda row: row * len(row) + len(x))(x),
        lambda x, v: x * x.shape[1] + len(x),
    ),
    "transform": (
        lambda x, v: iv.real(iv.fft.fft(v, n=2 * len(v) - 1)),
        lambda x, v: np.fft.fft(v, n=2 * len(v) - 1).real,
    ),
    "derivative": (
        lambda x, v: iv.grad(lambda y: iv.sum(iv.sin(y)) / len(y))(v),
        lambda x, v: np.cos(v) / len(v),
    ),
    "checkpoint": (
        lambda x, v: iv.checkpoint(lambda y: iv.sin(y) * len(y) + len(x))(v),
        lambda x, v: np.sin(v) * len(v) + len(x),
    ),
    "sparse constant": (
        lambda x, v: iv.from_scipy(a_sparse_matrix(len(v))) @ v,
        lambda x, v: a_sparse_matrix(len(v)) @ v,
    ),
    "write": (
        lambda x, v: written(iv.zeros(2 * len(v)), v),
        lambda x, v: written(np.zeros(2 * len(v)), v),
    ),
}


def reader(name: str) -> Reader:
    if name in PAIRS:
        return PAIRS[name]
    return functools.partial(READERS[name], iv), functools.partial(READERS[name], np)


SIZES = st.lists(st.tuples(st.integers(1, 9) | st.just(33), st.integers(1, 6)), min_size=3, max_size=6)


@pytest.mark.parametrize("name", by_turns([*READERS, *PAIRS], 10))
@given(sizes=SIZES, others=st.data(), general=st.booleans())
@settings(max_examples=examples(4))
def test_sizes_that_a_function_reads(name: str, sizes: Any, others: Any, general: bool) -> None:
    """Beside what another function reads, which makes codes for other integers."""
    with_other = reader(name), reader(others.draw(st.sampled_from([*READERS, *PAIRS])))
    compiled = iv.jit(
        lambda x, v: [f(x, v) for f, _ in with_other], sizes="general" if general else "special"
    )
    gradient = iv.grad(lambda x, v: iv.sum(iv.sin(with_other[0][0](x, v))), (0, 1))
    compiled_gradient = iv.jit(gradient)
    for turn, (n, m) in enumerate([*sizes, sizes[0]]):
        rng = np.random.default_rng((n, m, turn))
        x, v = rng.normal(size=(n, m)), rng.normal(size=n)
        tensors = iv.asarray(x), iv.asarray(v)
        for found, (_, f) in zip(compiled(*tensors), with_other, strict=True):
            np.testing.assert_allclose(found.to_dense().numpy(), f(x, v), **TOLERANCE)
        if turn % 2:
            for found, expected in zip(compiled_gradient(*tensors), gradient(*tensors), strict=True):
                np.testing.assert_allclose(found.to_dense(), expected.to_dense(), **TOLERANCE)


# --- numbers of stored entries -------------------------------------------------------------------------

#: Matrices whose pattern follows from that of an operand, and what they are for NumPy.
PATTERNS: dict[str, Reader] = {
    "itself": (lambda s: s, lambda a: a),
    "another layout": (lambda s: iv.to_layout(s, "csr"), lambda a: a),
    "sum": (lambda s: s + s.T, lambda a: a + a.T),
    "product": (lambda s: s.T @ s, lambda a: a.T @ a),
    "part": (lambda s: s[1:], lambda a: a[1:]),
    "triangle": (iv.tril, np.tril),
}


@te.op
def cosines(v: Any) -> Any:
    return te.compute((v.shape[0],), lambda i: te.F.cos(v[i]) * 2)


@te.op
def one_more(v: Any) -> Any:
    return te.compute((v.shape[0] + 1,), lambda i: i * 1.0)


#: Sizes of what is made of u, the stored entries, and of x, which has six; with NumPy's u.
EXTENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "shape": lambda xp, u, x: u.shape[0],
    "len": lambda xp, u, x: len(u),
    "bytes": lambda xp, u, x: u.nbytes // 8,
    "iteration": lambda xp, u, x: sum(1 for _ in u),
    "list": lambda xp, u, x: len([*u]),
    "of NumPy": lambda xp, u, x: np.shape(u)[0] + np.size(u),
    "entry by entry": lambda xp, u, x: xp.cos(u).shape[0],
    "chosen": lambda xp, u, x: xp.where(u > 0, u, 0.0).shape[0],
    "with an axis": lambda xp, u, x: u[:, None].shape[0],
    "reshaped": lambda xp, u, x: xp.reshape(u, (1, -1)).shape[1],
    "turned": lambda xp, u, x: xp.outer(u, x).T.shape[1],
    "product": lambda xp, u, x: (u[:, None] @ x[None]).shape[0],
    "sum": lambda xp, u, x: xp.sum(xp.outer(u, x), axis=1).shape[0],
    "broadcast": lambda xp, u, x: xp.broadcast_to(u, (2, *u.shape)).shape[1],
    "joined": lambda xp, u, x: xp.concat([u, x[:2]]).shape[0],
    "stacked": lambda xp, u, x: xp.stack([u, u]).shape[1],
    "repeated": lambda xp, u, x: xp.repeat(u, 2).shape[0] + xp.tile(u, (2,)).shape[0],
    "part": lambda xp, u, x: u[1:].shape[0] + u[::2].shape[0],
    "first ones": lambda xp, u, x: u[:6].shape[0] + xp.outer(u, x)[:6].shape[0] + u[:1].shape[0],
    "sorted": lambda xp, u, x: u[xp.argsort(u)].shape[0],
    "differences": lambda xp, u, x: xp.diff(u).shape[0],
    "transform": lambda xp, u, x: xp.fft.rfft(u).shape[0],
    "like": lambda xp, u, x: xp.zeros_like(u).shape[0],
}
#: The same of functions that NumPy does not have.
MADE: dict[str, Callable[[Any, Any], Any]] = {
    "index notation": lambda u, x: cosines(u),
    "longer, in index notation": lambda u, x: one_more(u)[1:],
    "checkpoint": lambda u, x: iv.checkpoint(lambda u: u * 2)(u),
    "batch": lambda u, x: iv.vmap(lambda y: y * 2)(u),
    "loop": lambda u, x: iv.scan(lambda c, y: (c, y), x, u)[1],
    "branch": lambda u, x: iv.cond(iv.sum(x) > 0, iv.cos, lambda u: u * 2, u),
    "gradient": lambda u, x: iv.grad(lambda u: iv.sum(u * u))(u),
    "gradient of an entry": lambda u, x: iv.grad(lambda u: iv.sum(u[:1]))(u),
    "convolution": lambda u, x: iv.nn.conv1d(u[None, None], x[None, None, :1])[0, 0],
    "part": lambda u, x: iv.split(u, 1)[0],
    "compiled": lambda u, x: iv.jit(lambda u: u * 2)(u),
}


#: Functions of u, the stored entries, and x: they compute with u in bodies, or make arrays of its size.
BODIES: dict[str, Reader] = {
    "sum": (lambda u, x: iv.sum(iv.cos(u)) * x, lambda u, x: np.cos(u).sum() * x),
    "mean": (lambda u, x: iv.mean(iv.cos(u)) * x, lambda u, x: np.cos(u).mean() * x),
    "checkpoint": (
        lambda u, x: iv.checkpoint(lambda u: iv.sum(iv.cos(u)))(u) * x,
        lambda u, x: np.cos(u).sum() * x,
    ),
    "product in a checkpoint": (
        lambda u, x: iv.checkpoint(lambda u: iv.cos(u) @ iv.cos(u))(u) * x,
        lambda u, x: (np.cos(u) ** 2).sum() * x,
    ),
    "softmax in a checkpoint": (
        lambda u, x: iv.checkpoint(lambda u: iv.max(iv.softmax(u, axis=0)))(u) * x,
        lambda u, x: (np.exp(u) / np.exp(u).sum()).max() * x,
    ),
    "branch": (
        lambda u, x: iv.cond(iv.sum(x) < 1e9, lambda u: iv.sum(iv.cos(u)), iv.sum, u) * x,
        lambda u, x: np.cos(u).sum() * x,
    ),
    "state of a loop": (
        lambda u, x: iv.fori_loop(0, 3, lambda k, c: iv.cos(c) + iv.sum(iv.cos(c)) * 0.1, u)[0] * x,
        lambda u, x: folded(lambda k, c: np.cos(c) + np.cos(c).sum() * 0.1, range(3), u)[0] * x,
    ),
    "state of a while_loop": (
        lambda u, x: iv.while_loop(lambda c: iv.sum(iv.cos(c)) > 1e9, iv.cos, u)[0] * x,
        lambda u, x: u[0] * x,
    ),
    "constant of a scan": (
        lambda u, x: iv.scan(lambda c, _: (c * 0.5 + iv.sum(iv.cos(u)), c), x, None, length=2)[0],
        lambda u, x: x * 0.25 + 1.5 * np.cos(u).sum(),
    ),
    "steps of a scan": (
        lambda u, x: iv.scan(lambda c, y: (c * 0.5 + y, c), x[0] * 0, u)[0] * x,
        lambda u, x: folded(lambda y, c: c * 0.5 + y, u, 0.0) * x,
    ),
    "steps of a scan back": (
        lambda u, x: iv.scan(lambda c, y: (c * 0.5 + y, c), x[0] * 0, u, reverse=True)[0] * x,
        lambda u, x: folded(lambda y, c: c * 0.5 + y, u[::-1], 0.0) * x,
    ),
    "results of a scan": (
        lambda u, x: iv.sum(iv.scan(lambda c, y: (c + 1, iv.cos(y) * c), x[0] * 0, u)[1]) * x,
        lambda u, x: (np.cos(u) * np.arange(len(u))).sum() * x,
    ),
    "scan in a checkpoint": (
        lambda u, x: (
            iv.checkpoint(lambda u: iv.scan(lambda c, y: (c * 0.5 + iv.cos(y), c), x[0] * 0, u)[0])(u) * x
        ),
        lambda u, x: folded(lambda y, c: c * 0.5 + np.cos(y), u, 0.0) * x,
    ),
    "branch in a loop": (
        lambda u, x: iv.fori_loop(
            0, 2, lambda k, c: iv.cond(c[0] < 1e9, lambda c: c + iv.sum(iv.cos(u)), lambda c: c, c), x
        ),
        lambda u, x: x + 2 * np.cos(u).sum(),
    ),
    "arange": (
        lambda u, x: iv.sum(iv.cos(iv.roll(u, 1)) * iv.arange(float(len(u)))) * x,
        lambda u, x: (np.cos(np.roll(u, 1)) * np.arange(len(u))).sum() * x,
    ),
    "weights of NumPy": (
        lambda u, x: iv.sum(u * np.arange(u.shape[0])) * x,
        lambda u, x: (u * np.arange(len(u))).sum() * x,
    ),
    "index notation": (lambda u, x: iv.sum(cosines(u)) * x, lambda u, x: 2 * np.cos(u).sum() * x),
    "last": (lambda u, x: u[-1] * x, lambda u, x: u[-1] * x),
    "cumulative": (
        lambda u, x: iv.sum(iv.cumulative_sum(u)) * x,
        lambda u, x: np.cumsum(u).sum() * x,
    ),
    "variance": (lambda u, x: iv.var(iv.cos(u)) * x, lambda u, x: np.cos(u).var() * x),
    "joined": (
        lambda u, x: iv.mean(iv.concat([u, x, u * 2])) * x,
        lambda u, x: np.concatenate([u, x, u * 2]).mean() * x,
    ),
}


def matrices(seed: int, counts: Any) -> Any:
    """Matrices of positive entries, with so many of them; and a vector for each."""
    rng = np.random.default_rng(seed)
    for count in counts:
        a = np.zeros(36)
        a[rng.choice(36, count, replace=False)] = rng.uniform(0.5, 1.5, count)
        a[7] = 1.0
        yield a.reshape(6, 6), rng.normal(size=6)


def stored(a: Any) -> Any:
    return a[a != 0]


def hold(
    f: Callable[..., Any], expected: Callable[..., Any], seed: int, counts: Any, layout: str, pattern: Reader
) -> None:
    """A function of the entries of a matrix, in the order of rows, compiled for all numbers of them."""
    of, of_numpy = pattern
    plain = lambda s, x: f(iv.to_layout(of(s), "csr").values(), x)
    compiled = iv.jit(plain)
    for a, x in matrices(seed, counts):
        s, v = iv.to_layout(iv.asarray(a), layout), iv.asarray(x)
        u = stored(of_numpy(a))
        np.testing.assert_allclose(compiled(s, v).numpy(), expected(u, x), **TOLERANCE)
        np.testing.assert_allclose(
            plain(s, v).numpy(), expected(u, x), **TOLERANCE
        )  # what is kept is of both


COUNTS = st.lists(st.integers(0, 36), min_size=4, max_size=6)
OF_PATTERN = {
    "seed": st.integers(0, 1 << 20),
    "counts": COUNTS,
    "layout": st.sampled_from(["csr", "coo", "csc"]),
    "pattern": st.sampled_from(sorted(PATTERNS)),
}


@pytest.mark.parametrize("name", by_turns([*EXTENTS, *MADE], 5))
@given(**OF_PATTERN)
@settings(max_examples=examples(4))
def test_numbers_of_entries_that_decide_a_branch(
    name: str, seed: int, counts: Any, layout: str, pattern: str
) -> None:
    if name in EXTENTS:
        size, size_of_numpy = EXTENTS[name], EXTENTS[name]
    else:
        size, size_of_numpy = lambda xp, u, x: MADE[name](u, x).shape[0], lambda xp, u, x: len(u)
    hold(
        lambda u, x: x if size(iv, u, x) > 9 else -x,
        lambda u, x: x if size_of_numpy(np, u, x) > 9 else -x,
        seed, counts, layout, PATTERNS[pattern],
    )  # fmt: skip


@pytest.mark.parametrize("name", by_turns(BODIES, 5))
@given(**OF_PATTERN)
@settings(max_examples=examples(4))
def test_entries_that_bodies_read(name: str, seed: int, counts: Any, layout: str, pattern: str) -> None:
    hold(*BODIES[name], seed, counts, layout, PATTERNS[pattern])


@pytest.mark.parametrize("name", by_turns([name for name in BODIES if "while" not in name], 4, 1))
@given(**OF_PATTERN)
@settings(max_examples=examples(2))
def test_derivatives_of_entries_that_bodies_read(
    name: str, seed: int, counts: Any, layout: str, pattern: str
) -> None:
    """Against differences of NumPy's values, along the matrix."""
    f, f_of_numpy = BODIES[name]
    of, of_numpy = PATTERNS[pattern]
    loss = lambda s, x: iv.sum(iv.sin(f(iv.to_layout(of(s), "csr").values(), x)))
    compiled = iv.jit(iv.grad(loss))
    for a, x in matrices(seed, counts):
        found = compiled(iv.to_layout(iv.asarray(a), layout), iv.asarray(x)).to_dense().numpy()
        along = np.where(a != 0, np.cos(np.arange(36.0)).reshape(6, 6), 0)
        moved = [stored(of_numpy(a + t * along)) for t in (1e-3, -1e-3, 2e-3, -2e-3)]
        near, near_back, far, far_back = [np.sin(f_of_numpy(u, x)).sum() for u in moved]
        expected = (8 * (near - near_back) - far + far_back) / 12e-3
        np.testing.assert_allclose((found * along).sum(), expected, rtol=1e-6, atol=1e-7)


def test_a_trace_leaves_no_number_that_stands_for_others() -> None:
    """What is kept of a trace for any number of entries: nodes of expressions, bodies of a checkpoint."""
    for make in (cosines, iv.checkpoint(lambda u: u * 2)):
        f = lambda s, x, make=make: iv.sum(make(s.values())) * x
        compiled = iv.jit(f)
        for a, x in matrices(1, (5, 9, 6, 12, 7, 8)):
            s, v = iv.to_layout(iv.asarray(a), "csr"), iv.asarray(x)
            np.testing.assert_allclose(compiled(s, v).numpy(), f(s, v).numpy(), **TOLERANCE)
            assert {type(n) for n in make(s.values()).shape} == {int}
