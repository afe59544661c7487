"""Recurrences, reductions of several values and ragged results as users write them, against PyTorch.

Values and gradients for two lengths (the second by code for any), eager and compiled, and second derivatives
forward over reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

Make = Callable[[int, np.random.Generator], list[Any]]


@dataclass(frozen=True)
class Case:
    """A definition, the same in PyTorch, and arguments of a length. wanted : what it is differentiated in."""

    define: Callable[..., Any]
    theirs: Callable[..., Any]
    make: Make
    wanted: tuple[int, ...]


CASES: dict[str, Case] = {}


def case(theirs: Callable[..., Any], make: Make, *wanted: int) -> Callable[..., Any]:
    def enter(define: Callable[..., Any]) -> Callable[..., Any]:
        CASES[define.__name__] = Case(define, theirs, make, wanted)
        return define

    return enter


# --- recurrences ---------------------------------------------------------------------------------------


def sigmoid(v: Any) -> Any:
    return 1 / (1 + te.exp(-v))


def torch_lstm(x: Any, w: Any, u: Any) -> Any:
    h = c = torch.zeros(x.shape[1], u.shape[0], dtype=x.dtype)
    found = []
    for now in x:
        i, f, g, o = (now @ w + h @ u).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        found.append(h)
    return torch.stack(found)


@case(torch_lstm, lambda n, r: [r.standard_normal(s) for s in ((n, 2, 3), (3, 8), (2, 8))], 0, 1, 2)
def lstm(x: Any, w: Any, u: Any) -> Any:
    (n, b, m), k = x.shape, u.shape[0]
    j, l = te.reduce_axis(m), te.reduce_axis(k)
    fed = te.compute((n, b, 4 * k), lambda t, s, i: te.sum(x[t, s, j] * w[j, i], j))

    def step(h: Any, c: Any) -> Any:
        z = te.compute(fed.shape, lambda t, s, i: fed[t, s, i] + te.sum(h[t - 1, s, l] * u[l, i], l))
        kept = lambda t, s, i: sigmoid(z[t, s, i + k]) * c[t - 1, s, i]
        new = te.compute(
            c.shape, lambda t, s, i: kept(t, s, i) + sigmoid(z[t, s, i]) * te.tanh(z[t, s, i + 2 * k])
        )
        return te.compute(h.shape, lambda t, s, i: sigmoid(z[t, s, i + 3 * k]) * te.tanh(new[t, s, i])), new

    return te.scan([(n, b, k)] * 2, step)[0]


def torch_viterbi(emitted: Any, moved: Any) -> Any:
    s = torch.zeros(emitted.shape[1], dtype=emitted.dtype)
    for x in emitted:
        s = x + (s[:, None] + moved).max(0).values
    return s.max()


@case(torch_viterbi, lambda n, r: [r.standard_normal((n, 4)), r.standard_normal((4, 4))], 0, 1)
def viterbi(emitted: Any, moved: Any) -> Any:
    n, m = emitted.shape
    k = te.reduce_axis(m)
    best = lambda s: te.compute((n, m), lambda t, i: emitted[t, i] + te.max(s[t - 1, k] + moved[k, i], k))
    score = te.scan((n, m), best)
    return te.compute((), lambda: te.max(score[n - 1, k], k))


def torch_jumps(x: Any, at: Any) -> Any:
    one = two = torch.full((x.shape[1],), 0.5, dtype=x.dtype)
    found = []
    for now, where in zip(x, at, strict=True):
        one, two = now + torch.tanh(one[where]) * two[where], one
        found.append(one)
    return torch.stack(found)


@case(torch_jumps, lambda n, r: [r.standard_normal((n, 4)), r.integers(0, 4, (n, 4))], 0)
def jumps(x: Any, at: Any) -> Any:
    """Earlier states, read where data says."""
    step = lambda t, i, s: x[t, i] + te.tanh(s[t - 1, at[t, i]]) * s[t - 2, at[t, i]]
    return te.scan(x.shape, lambda s: te.compute(x.shape, lambda t, i: step(t, i, s)), init=0.5)


# --- reductions of several values ----------------------------------------------------------------------


def torch_nearest(x: Any, y: Any, label: Any) -> Any:
    found = ((x[:, None] - y[None]) ** 2).sum(-1).min(1)
    return found.values * label[found.indices]


@case(torch_nearest, lambda n, r: [r.standard_normal(s) for s in ((n, 3), (n + 1, 3), (n + 1,))], 0, 1, 2)
def nearest(x: Any, y: Any, label: Any) -> Any:
    (n, d), m = x.shape, y.shape[0]
    c, k = te.reduce_axis(d), te.reduce_axis(m)
    distance = te.compute((n, m), lambda i, j: te.sum((x[i, c] - y[j, c]) ** 2, c))
    best = te.compute((n,), lambda i: te.argmin(distance[i, k], k))
    return te.compute((n,), lambda i: distance[i, best[i]] * label[best[i]])


@case(lambda x: torch.logsumexp(x, 1), lambda n, r: [5 * r.standard_normal((n, 6))], 0)
def online_logsumexp(x: Any) -> Any:
    """In one pass: the largest so far, and a sum that is rescaled with it."""
    n, m = x.shape

    def step(top: Any, total: Any) -> Any:
        new = te.compute((m, n), lambda k, i: te.maximum(top[k - 1, i], x[i, k]))
        old = lambda k, i: total[k - 1, i] * te.exp(top[k - 1, i] - new[k, i])
        return new, te.compute((m, n), lambda k, i: old(k, i) + te.exp(x[i, k] - new[k, i]))

    top, total = te.scan([(m, n), (m, n)], step, init=[-1e30, 0.0])
    return te.compute((n,), lambda i: te.log(total[m - 1, i]) + top[m - 1, i])


@case(lambda x: torch.topk(x, 3, dim=1).values, lambda n, r: [r.standard_normal((n, 9))], 0)
def largest_three(x: Any) -> Any:
    """Each put among the largest so far: one pass, no order of the whole."""
    (n, m), least = x.shape, -1e300

    def step(s: Any) -> Any:
        def entry(t: Any, i: Any, r: Any) -> Any:
            own, above = s[t - 1, i, r], s[t - 1, i, te.clamp(r - 1, 0, 2)]
            return te.select(x[i, t] <= own, own, te.select((r == 0) | (x[i, t] <= above), x[i, t], above))

        return te.compute((m, n, 3), entry)

    best = te.scan((m, n, 3), step, init=least)
    return te.compute((n, 3), lambda i, r: best[m - 1, i, r])


# --- ragged results ------------------------------------------------------------------------------------


def starts(n: int, r: np.random.Generator) -> Any:
    return np.concatenate([[0], np.cumsum(r.integers(0, 5, n))])


def owners(p: Any) -> Any:
    return torch.repeat_interleave(torch.arange(len(p) - 1), p[1:] - p[:-1])


def with_rows(*shapes: Callable[[int, int], tuple[int, ...]]) -> Make:
    def make(n: int, r: np.random.Generator) -> list[Any]:
        p = starts(n, r)
        return [p, *(r.standard_normal(s(n, p[-1])) for s in shapes)]

    return make


def torch_attended(p: Any, q: Any, x: Any) -> Any:
    inside = owners(p)[None] == torch.arange(len(q))[:, None]
    scores = (q @ x.T).masked_fill(~inside, -1e300)
    w = torch.exp(scores - scores.max(1, keepdim=True).values.detach()) * inside
    return (w @ x) / w.sum(1, keepdim=True).clamp(min=1e-30)


@case(torch_attended, with_rows(lambda n, _: (n, 2), lambda _, z: (z, 2)), 1, 2)
def attended(p: Any, q: Any, x: Any) -> Any:
    """Each query looks at the entries of its row: scores and weights are padded."""
    n, d = q.shape
    c, places = te.reduce_axis(d), lambda i: (0, p[i + 1] - p[i])

    def over(reduce: Any, f: Any) -> Any:
        def entry(i: Any) -> Any:
            k = te.reduce_axis(places(i))
            return reduce(f(i, k), k)

        return te.compute((n,), entry)

    def mixed(i: Any, j: Any) -> Any:
        k = te.reduce_axis(places(i))
        return te.sum(w[i, k] * x[p[i] + k, j], k) / te.maximum(total[i], 1e-30)

    score = te.compute((n, 4), lambda i, k: te.sum(q[i, c] * x[p[i] + k, c], c), domain=(n, places))
    top = over(te.max, lambda i, k: score[i, k])
    w = te.compute((n, 4), lambda i, k: te.exp(score[i, k] - top[i]), domain=(n, places))
    total = over(te.sum, lambda i, k: w[i, k])
    return te.compute((n, d), mixed)


@case(
    lambda p, x, w: torch.einsum("ec,ecj->ej", x, w[owners(p)]),
    with_rows(lambda _, z: (z, 3), lambda n, _: (n, 3, 2)),
    1,
    2,
)
def product_of_each_row(p: Any, x: Any, w: Any) -> Any:
    """Rows one after the other, each times a matrix of its own."""
    (z, d), (n, _, m) = x.shape, w.shape
    c, row = te.reduce_axis(d), lambda i: (p[i], p[i + 1])
    return te.compute((z, m), lambda i, e, j: te.sum(x[e, c] * w[i, c, j], c), domain=(n, row, m))


@pytest.mark.parametrize("name", CASES)
def test_as_in_torch(name: str) -> None:
    own = CASES[name]
    op = te.op(own.define, name=f"as_torch_{name}")
    for n in (5, 8):
        args = own.make(n, np.random.default_rng(n))
        given = [torch.tensor(a).requires_grad_(k in own.wanted) for k, a in enumerate(args)]
        expected = own.theirs(*given)
        head = np.cos(np.arange(expected.numel())).reshape(tuple(expected.shape))
        wanted = [given[k] for k in own.wanted]
        slopes = torch.autograd.grad((expected * torch.tensor(head)).sum(), wanted, create_graph=True)
        gradient = iv.grad(lambda *a, head=head: (op(*a) * head).sum(), argnums=own.wanted)
        for way in (lambda f: f, iv.jit):
            close(way(op)(*args), expected)
            for a, b in zip(way(gradient)(*args), slopes, strict=True):
                close(a, b)
        if n > 5:
            continue
        along = [np.sin(1.0 + np.arange(args[k].size)).reshape(args[k].shape) for k in own.wanted]

        def pulled(*moved: Any, args: Any = args, gradient: Any = gradient) -> Any:
            some = list(args)
            for k, x in zip(own.wanted, moved, strict=True):
                some[k] = x
            return tuple(gradient(*some))

        found = iv.jvp(pulled, tuple(args[k] for k in own.wanted), tuple(along))[1]
        total = sum((s * torch.tensor(v)).sum() for s, v in zip(slopes, along, strict=True))
        second = (
            torch.autograd.grad(total, wanted, allow_unused=True)
            if total.requires_grad
            else [None] * len(along)
        )
        for a, b, v in zip(found, second, along, strict=True):
            close(a, torch.zeros(v.shape) if b is None else b)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), expected.detach().numpy(), rtol=1e-9, atol=1e-11)
