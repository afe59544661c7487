"""Kernels of the literature that are recurrences: filters, alignments, state-space models, sweeps.

Each has an oracle in PyTorch, written as loops over its entries or steps, from the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iverson import te

from .corpus import axes, indices, kernel, positive

ORACLES: dict[str, Callable[..., Any]] = {}


def oracle(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter the oracle of the kernel of its name, less "torch_"."""
    ORACLES[function.__name__.removeprefix("torch_")] = function
    return function


def dominant(n: int) -> Callable[[np.random.Generator], Any]:
    """Symmetric matrices with large diagonals."""

    def draw(rng: np.random.Generator) -> Any:
        a = rng.standard_normal((n, n))
        return a @ a.T + n * np.eye(n)

    return draw


def earlier(x: Any, t: Any, ago: int, *i: Any) -> Any:
    """An entry some steps ago, 0 before the first."""
    return te.select(t >= ago, x[(te.maximum(t - ago, 0), *i)], 0.0)


# --- filters -----------------------------------------------------------------------------------------


@kernel(x=(20, 3), b=(3,), a=(2,))
def biquad(x: Any, b: Any, a: Any) -> Any:
    """Oppenheim and Schafer, Discrete-Time Signal Processing, section 6.3: direct form I."""

    def step(y: Any) -> Any:
        def entry(t: Any, i: Any) -> Any:
            moving = b[0] * x[t, i] + b[1] * earlier(x, t, 1, i) + b[2] * earlier(x, t, 2, i)
            return moving - a[0] * y[t - 1, i] - a[1] * y[t - 2, i]

        return te.compute(x.shape, entry)

    return te.scan(x.shape, step, dtype=x.dtype)


@oracle
def torch_biquad(torch: Any, x: Any, b: Any, a: Any) -> Any:
    zero = torch.zeros_like(x[0])
    y = [zero, zero]
    for t in range(len(x)):
        terms = sum(b[k] * (x[t - k] if t >= k else zero) for k in range(3))
        y.append(terms - a[0] * y[-1] - a[1] * y[-2])
    return torch.stack(y[2:])


@kernel(x=(20, 3), b=(3,), a=(2,))
def biquad_transposed(x: Any, b: Any, a: Any) -> Any:
    """As before, in the transposed direct form II."""

    def step(p: Any, q: Any) -> Any:
        y = te.compute(x.shape, lambda t, i: b[0] * x[t, i] + p[t - 1, i])
        first = te.compute(x.shape, lambda t, i: b[1] * x[t, i] - a[0] * y[t, i] + q[t - 1, i])
        return first, te.compute(x.shape, lambda t, i: b[2] * x[t, i] - a[1] * y[t, i])

    p, _ = te.scan([x.shape, x.shape], step, dtype=x.dtype)
    return te.compute(x.shape, lambda t, i: b[0] * x[t, i] + earlier(p, t, 1, i))


ORACLES["biquad_transposed"] = torch_biquad


@kernel(x=(24,), k=(4,))
def lattice_filter(x: Any, k: Any) -> Any:
    """All-pole lattice (Gray and Markel, 1973): along time, and from the last stage to the first."""
    steps, order = x.shape[0], k.shape[0]
    shape = (steps, order)

    def step(f: Any, b: Any) -> Any:
        def gain(m: Any) -> Any:
            return k[order - 1 - m]

        def behind(t: Any, m: Any) -> Any:
            return te.select(m == order - 1, b[t - 1, m], b[t - 1, m + 1])

        ahead = te.compute(shape, lambda t, m: te.select(m == 0, x[t], f[t, m - 1]) - gain(m) * behind(t, m))
        new = te.compute(
            shape,
            lambda t, m: te.select(m == order - 1, ahead[t, m], gain(m) * ahead[t, m] + b[t - 1, m + 1]),
        )
        return ahead, new

    f, _ = te.scan([shape, shape], step, axis=(0, 1))
    return te.compute((steps,), lambda t: f[t, order - 1])


@oracle
def torch_lattice_filter(torch: Any, x: Any, k: Any) -> Any:
    order = len(k)
    b, out = [torch.zeros(())] * order, []
    for value in x:
        f, new = value, list(b)
        for m in range(order):
            stage = order - 1 - m
            f = f - k[stage] * b[min(m + 1, order - 1)]
            new[m] = f if m == order - 1 else k[stage] * f + b[m + 1]
        b = new
        out.append(f)
    return torch.stack(out)


@kernel(x=(30,), d=(30,))
def least_mean_squares(x: Any, d: Any) -> Any:
    """An adaptive filter of 4 weights (Widrow and Hoff, 1960)."""
    shape = (x.shape[0], 4)
    (k,) = axes(4)

    def seen(t: Any, i: Any) -> Any:
        return te.select(t >= i, x[te.maximum(t - i, 0)], 0.0)

    def step(w: Any) -> Any:
        error = te.compute(x.shape, lambda t: d[t] - te.sum(w[t - 1, k] * seen(t, k), k))
        return te.compute(shape, lambda t, i: w[t - 1, i] + 0.05 * error[t] * seen(t, i))

    return te.scan(shape, step)


@oracle
def torch_least_mean_squares(torch: Any, x: Any, d: Any) -> Any:
    w, padded, out = torch.zeros(4), torch.cat([torch.zeros(3), x]), []
    for t in range(len(x)):
        u = padded[t : t + 4].flip(0)
        w = w + 0.05 * (d[t] - w @ u) * u
        out.append(w)
    return torch.stack(out)


# --- alignments --------------------------------------------------------------------------------------


@kernel(x=(7, 9))
def smith_waterman(x: Any) -> Any:
    """Local alignment, 1981, with linear gaps."""

    def step(s: Any) -> Any:
        def entry(i: Any, j: Any) -> Any:
            gap = te.maximum(s[i - 1, j], s[i, j - 1]) - 0.3
            return te.maximum(te.maximum(s[i - 1, j - 1] + x[i, j], gap), 0.0)

        return te.compute(x.shape, entry)

    return te.scan(x.shape, step, axis=(0, 1))


@oracle
def torch_smith_waterman(torch: Any, x: Any) -> Any:
    s: dict[Any, Any] = {}
    zero = torch.zeros(())
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            gap = torch.maximum(s.get((i - 1, j), zero), s.get((i, j - 1), zero)) - 0.3
            match = s.get((i - 1, j - 1), zero) + x[i, j]
            s[i, j] = torch.maximum(torch.maximum(match, gap), zero)
    return torch.stack([s[i, j] for i in range(x.shape[0]) for j in range(x.shape[1])]).reshape(x.shape)


@kernel(x=(6, 8), gap=positive(2))
def gotoh(x: Any, gap: Any) -> Any:
    """Alignment with affine gaps, 1982."""
    shape = x.shape

    def step(h: Any, e: Any, f: Any) -> Any:
        across = te.compute(shape, lambda i, j: te.maximum(h[i, j - 1] - gap[0], e[i, j - 1] - gap[1]))
        down = te.compute(shape, lambda i, j: te.maximum(h[i - 1, j] - gap[0], f[i - 1, j] - gap[1]))
        best = te.compute(
            shape, lambda i, j: te.maximum(h[i - 1, j - 1] + x[i, j], te.maximum(across[i, j], down[i, j]))
        )
        return best, across, down

    return te.scan([shape] * 3, step, init=[0.0, -1e9, -1e9], axis=(0, 1))[0]


@oracle
def torch_gotoh(torch: Any, x: Any, gap: Any) -> Any:
    h: dict[Any, Any] = {}
    e: dict[Any, Any] = {}
    f: dict[Any, Any] = {}
    zero, far = torch.zeros(()), torch.tensor(-1e9)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            e[i, j] = torch.maximum(h.get((i, j - 1), zero) - gap[0], e.get((i, j - 1), far) - gap[1])
            f[i, j] = torch.maximum(h.get((i - 1, j), zero) - gap[0], f.get((i - 1, j), far) - gap[1])
            match = h.get((i - 1, j - 1), zero) + x[i, j]
            h[i, j] = torch.maximum(match, torch.maximum(e[i, j], f[i, j]))
    return torch.stack([h[i, j] for i in range(x.shape[0]) for j in range(x.shape[1])]).reshape(x.shape)


@kernel(x=(6, 7))
def soft_needleman_wunsch(x: Any) -> Any:
    """Global alignment (1970), with a smooth maximum as of Mensch and Blondel (2018)."""
    (n, m), gap = x.shape, 0.4

    def step(s: Any) -> Any:
        def entry(i: Any, j: Any) -> Any:
            parts = (s[i - 1, j - 1] + x[i, j], s[i - 1, j] - gap, s[i, j - 1] - gap)
            top = te.maximum(te.maximum(parts[0], parts[1]), parts[2])
            return top + te.log(sum((te.exp(p - top) for p in parts), start=0.0))

        return te.compute(x.shape, entry)

    s = te.scan(x.shape, step, init=lambda i, j: -gap * (te.maximum(i, j) + 1).astype(x.dtype), axis=(0, 1))
    return te.compute((), lambda: s[n - 1, m - 1])


@oracle
def torch_soft_needleman_wunsch(torch: Any, x: Any) -> Any:
    (n, m), gap = x.shape, torch.tensor(0.4)
    s = {(-1, j): -gap * (j + 1) for j in range(-1, m)} | {(i, -1): -gap * (i + 1) for i in range(-1, n)}
    for i in range(n):
        for j in range(m):
            parts = [s[i - 1, j - 1] + x[i, j], s[i - 1, j] - gap, s[i, j - 1] - gap]
            s[i, j] = torch.logsumexp(torch.stack(parts), 0)
    return s[n - 1, m - 1]


@kernel(x=(6, 5, 4), label=indices(3, 4))
def transducer(x: Any, label: Any) -> Any:
    """The loss of a recurrent transducer (Graves, 2012): along time and labels; class 0 is blank."""
    steps, places, classes = x.shape
    (k,) = axes(classes)
    norm = te.compute((steps, places), lambda t, u: te.log(te.sum(te.exp(x[t, u, k]), k)))
    blank = te.compute((steps, places), lambda t, u: x[t, u, 0] - norm[t, u])
    emit = te.compute(
        (steps, places), lambda t, u: x[t, u, 1 + label[te.minimum(u, places - 2)]] - norm[t, u]
    )

    def step(a: Any) -> Any:
        def entry(t: Any, u: Any) -> Any:
            stay = a[t - 1, u] + te.select(t >= 1, blank[te.maximum(t - 1, 0), u], 0.0)
            go = a[t, u - 1] + te.select(u >= 1, emit[t, te.maximum(u - 1, 0)], 0.0)
            top = te.maximum(stay, go)
            either = top + te.log(te.exp(stay - top) + te.exp(go - top))
            return te.select((t == 0) & (u == 0), 0.0, either)

        return te.compute((steps, places), entry)

    a = te.scan((steps, places), step, init=-1e9, axis=(0, 1))
    return te.compute((), lambda: -(a[steps - 1, places - 1] + blank[steps - 1, places - 1]))


@oracle
def torch_transducer(torch: Any, x: Any, label: Any) -> Any:
    scores = torch.log_softmax(x, -1)
    steps, places, _ = x.shape
    a = {(0, 0): torch.zeros(())}
    for t in range(steps):
        for u in range(places):
            ways = [a[t - 1, u] + scores[t - 1, u, 0]] if t else []
            ways += [a[t, u - 1] + scores[t, u - 1, 1 + int(label[u - 1])]] if u else []
            if ways:
                a[t, u] = torch.logsumexp(torch.stack(ways), 0)
    return -(a[steps - 1, places - 1] + scores[steps - 1, places - 1, 0])


# --- state-space models ------------------------------------------------------------------------------


@kernel(x=(12, 4), d=positive(12, 4), a=positive(4, 3), b=(12, 3), c=(12, 3))
def selective_scan(x: Any, d: Any, a: Any, b: Any, c: Any) -> Any:
    """Mamba (Gu and Dao, 2023), algorithm 2."""
    steps, m = x.shape
    shape = (steps, m, a.shape[1])
    (n,) = axes(a.shape[1])

    def step(h: Any) -> Any:
        return te.compute(
            shape, lambda t, i, j: te.exp(-d[t, i] * a[i, j]) * h[t - 1, i, j] + d[t, i] * b[t, j] * x[t, i]
        )

    h = te.scan(shape, step)
    return te.compute((steps, m), lambda t, i: te.sum(h[t, i, n] * c[t, n], n))


@oracle
def torch_selective_scan(torch: Any, x: Any, d: Any, a: Any, b: Any, c: Any) -> Any:
    h, out = torch.zeros_like(a), []
    for t in range(len(x)):
        h = torch.exp(-d[t][:, None] * a) * h + (d[t] * x[t])[:, None] * b[t]
        out.append(h @ c[t])
    return torch.stack(out)


@kernel(r=(10, 3), k=(10, 3), v=(10, 4), w=positive(10, 3), u=(3,))
def rwkv6(r: Any, k: Any, v: Any, w: Any, u: Any) -> Any:
    """Time mixing of one head (Peng et al., 2024)."""
    steps, n = r.shape
    m = v.shape[1]
    (i,) = axes(n)

    def step(s: Any) -> Any:
        return te.compute(
            (steps, n, m), lambda t, i, j: te.exp(-te.exp(w[t, i])) * s[t - 1, i, j] + k[t, i] * v[t, j]
        )

    s = te.scan((steps, n, m), step)

    def entry(t: Any, j: Any) -> Any:
        return te.sum(r[t, i] * (earlier(s, t, 1, i, j) + u[i] * k[t, i] * v[t, j]), i)

    return te.compute((steps, m), entry)


@oracle
def torch_rwkv6(torch: Any, r: Any, k: Any, v: Any, w: Any, u: Any) -> Any:
    s, out = torch.zeros(r.shape[1], v.shape[1]), []
    for t in range(len(r)):
        now = torch.outer(k[t], v[t])
        out.append(r[t] @ (s + u[:, None] * now))
        s = torch.exp(-torch.exp(w[t]))[:, None] * s + now
    return torch.stack(out)


@kernel(q=(8, 3), k=(8, 3), v=(8, 4), beta=positive(8), alpha=positive(8))
def gated_delta_rule(q: Any, k: Any, v: Any, beta: Any, alpha: Any) -> Any:
    """Yang, Kautz and Hatamizadeh, 2024: what a key holds is replaced, and all of it fades."""
    steps, n = q.shape
    m = v.shape[1]
    i, j = axes(n, n)

    def step(s: Any) -> Any:
        held = te.compute((steps, m), lambda t, o: te.sum(s[t - 1, i, o] * k[t, i], i))
        return te.compute(
            (steps, n, m),
            lambda t, i, o: (
                alpha[t] * (s[t - 1, i, o] - beta[t] * k[t, i] * held[t, o]) + beta[t] * k[t, i] * v[t, o]
            ),
        )

    s = te.scan((steps, n, m), step)
    return te.compute((steps, m), lambda t, o: te.sum(s[t, j, o] * q[t, j], j))


@oracle
def torch_gated_delta_rule(torch: Any, q: Any, k: Any, v: Any, beta: Any, alpha: Any) -> Any:
    s, out = torch.zeros(q.shape[1], v.shape[1]), []
    eye = torch.eye(q.shape[1])
    for t in range(len(q)):
        s = alpha[t] * (eye - beta[t] * torch.outer(k[t], k[t])) @ s + beta[t] * torch.outer(k[t], v[t])
        out.append(q[t] @ s)
    return torch.stack(out)


# --- eliminations ------------------------------------------------------------------------------------


@kernel(x=dominant(7))
def lu(x: Any) -> Any:
    """Gaussian elimination without pivots: both factors in one matrix, an outer product a step."""
    n = x.shape[0]

    def step(s: Any) -> Any:
        factor = te.compute((n, n), lambda k, i: te.select(i > k, s[k - 1, i, k] / s[k - 1, k, k], 0.0))

        def entry(k: Any, i: Any, j: Any) -> Any:
            new = te.select(j == k, factor[k, i], s[k - 1, i, j])
            return te.select(
                i > k, te.select(j > k, s[k - 1, i, j] - factor[k, i] * s[k - 1, k, j], new), s[k - 1, i, j]
            )

        return te.compute((n, n, n), entry)

    s = te.scan((n, n, n), step, init=x)
    return te.compute((n, n), lambda i, j: s[n - 1, i, j])


@oracle
def torch_lu(torch: Any, x: Any) -> Any:
    rows = list(x)
    for k in range(len(rows)):
        for i in range(k + 1, len(rows)):
            f = rows[i][k] / rows[k][k]
            rest = rows[i][k + 1 :] - f * rows[k][k + 1 :]
            rows[i] = torch.cat([rows[i][:k], f[None], rest])
    return torch.stack(rows)


@kernel(x=(8, 2), y=(8,), theta=positive(2))
def gaussian_process(x: Any, y: Any, theta: Any) -> Any:
    """Negative log likelihood by Cholesky's factor (Rasmussen and Williams, 2006, algorithm 2.1)."""
    n, d = x.shape
    c, p, q = axes(d, n, n)
    kernel_matrix = te.compute(
        (n, n),
        lambda i, j: (
            theta[0] * te.exp(-theta[1] * te.sum((x[i, c] - x[j, c]) ** 2, c)) + te.select(i == j, 0.5, 0.0)
        ),
    )

    def eliminate(s: Any) -> Any:
        column = te.compute(
            (n, n), lambda k, i: te.select(i >= k, s[k - 1, i, k] / te.sqrt(s[k - 1, k, k]), 0.0)
        )
        return te.compute(
            (n, n, n),
            lambda k, i, j: te.select(
                (i > k) & (j > k), s[k - 1, i, j] - column[k, i] * column[k, j], s[k - 1, i, j]
            ),
        )

    s = te.scan((n, n, n), eliminate, init=kernel_matrix)

    def before(k: Any, i: Any, j: Any) -> Any:
        return te.select(k == 0, kernel_matrix[i, j], s[te.maximum(k - 1, 0), i, j])

    factor = te.compute(
        (n, n), lambda i, k: te.select(i >= k, before(k, i, k) / te.sqrt(before(k, k, k)), 0.0)
    )

    def substitute(r: Any) -> Any:
        z = te.compute((n,), lambda k: r[k - 1, k] / factor[k, k])
        return te.compute(
            (n, n),
            lambda k, i: te.select(
                i > k, r[k - 1, i] - factor[i, k] * z[k], te.select(i == k, z[k], r[k - 1, i])
            ),
        )

    r = te.scan((n, n), substitute, init=y)
    return te.compute((), lambda: 0.5 * te.sum(r[n - 1, q] ** 2, q) + te.sum(te.log(factor[p, p]), p))


@oracle
def torch_gaussian_process(torch: Any, x: Any, y: Any, theta: Any) -> Any:
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    factor = torch.linalg.cholesky(theta[0] * torch.exp(-theta[1] * square) + 0.5 * torch.eye(len(x)))
    z = torch.linalg.solve_triangular(factor, y[:, None], upper=False)
    return 0.5 * (z**2).sum() + torch.log(torch.diagonal(factor)).sum()


@kernel(low=(9,), diagonal=lambda rng: rng.uniform(4, 5, 9), up=(9,), b=(9,))
def thomas(low: Any, diagonal: Any, up: Any, b: Any) -> Any:
    """A tridiagonal system (Thomas, 1949): a sweep down and one up."""
    n = b.shape

    def down(c: Any, d: Any) -> Any:
        pivot = te.compute(n, lambda i: diagonal[i] - low[i] * c[i - 1])
        return te.compute(n, lambda i: up[i] / pivot[i]), te.compute(
            n, lambda i: (b[i] - low[i] * d[i - 1]) / pivot[i]
        )

    c, d = te.scan([n, n], down)
    return te.scan(n, lambda x: te.compute(n, lambda i: d[i] - c[i] * x[i + 1]), reverse=True)


@oracle
def torch_thomas(torch: Any, low: Any, diagonal: Any, up: Any, b: Any) -> Any:
    matrix = torch.diag(diagonal) + torch.diag(low[1:], -1) + torch.diag(up[:-1], 1)
    return torch.linalg.solve(matrix, b)


@kernel(r=lambda rng: np.concatenate([[4.0], rng.uniform(-0.5, 0.5, 5)]))
def levinson_durbin(r: Any) -> Any:
    """The predictor of a process of these correlations (Durbin, 1960)."""
    n = r.shape[0] - 1
    (k,) = axes(n)

    def step(a: Any, e: Any) -> Any:
        gain = te.compute(
            (n,),
            lambda m: (
                (r[m + 1] - te.sum(te.bracket(k < m) * a[m - 1, k] * r[te.maximum(m - k, 0)], k)) / e[m - 1]
            ),
        )
        new = te.compute(
            (n, n),
            lambda m, i: te.select(
                i < m,
                a[m - 1, i] - gain[m] * a[m - 1, te.maximum(m - 1 - i, 0)],
                te.select(i == m, gain[m], 0.0),
            ),
        )
        return new, te.compute((n,), lambda m: (1 - gain[m] ** 2) * e[m - 1])

    start = te.compute((), lambda: r[0])
    a, _ = te.scan([(n, n), (n,)], step, init=[0.0, start])
    return te.compute((n,), lambda i: a[n - 1, i])


@oracle
def torch_levinson_durbin(torch: Any, r: Any) -> Any:
    n = len(r) - 1
    matrix = torch.stack([torch.stack([r[abs(i - j)] for j in range(n)]) for i in range(n)])
    return torch.linalg.solve(matrix, r[1:])


# --- sweeps and steps of time ------------------------------------------------------------------------


@kernel(f=(5, 6), start=(5, 6))
def over_relaxation(f: Any, start: Any) -> Any:
    """Four sweeps of SOR for Poisson's equation (Young, 1954)."""
    n, m = f.shape
    shape = (4, n, m)

    def step(u: Any) -> Any:
        def entry(t: Any, i: Any, j: Any) -> Any:
            near = u[t, i - 1, j] + u[t, i, j - 1] + u[t - 1, i + 1, j] + u[t - 1, i, j + 1]
            return -0.2 * u[t - 1, i, j] + 0.3 * (near - f[i, j])

        return te.compute(shape, entry)

    def before(_: Any, i: Any, j: Any) -> Any:
        inside = (i >= 0) & (i < n) & (j >= 0) & (j < m)
        return te.select(inside, start[te.clamp(i, 0, n - 1), te.clamp(j, 0, m - 1)], 0.0)

    u = te.scan(shape, step, init=before, axis=(0, 1, 2))
    return te.compute((n, m), lambda i, j: u[3, i, j])


@oracle
def torch_over_relaxation(torch: Any, f: Any, start: Any) -> Any:
    n, m = f.shape
    u = {(i, j): start[i, j] for i in range(n) for j in range(m)}
    zero = torch.zeros(())
    for _ in range(4):
        for i in range(n):
            for j in range(m):
                near = sum(u.get(p, zero) for p in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)))
                # Outside of the grid, what is read before its own sweep is 0 too.
                u[i, j] = -0.2 * u[i, j] + 0.3 * (near - f[i, j])
    return torch.stack([u[i, j] for i in range(n) for j in range(m)]).reshape(n, m)


@kernel(slow=positive(5, 6))
def fast_sweeping(slow: Any) -> Any:
    """The first sweep for the eikonal equation from a corner (Zhao, 2005)."""
    n, m = slow.shape

    def step(u: Any) -> Any:
        def entry(i: Any, j: Any) -> Any:
            a, b = u[i - 1, j], u[i, j - 1]
            near, gap = te.minimum(a, b), te.abs(a - b)
            apart = gap >= slow[i, j]
            inside = te.select(apart, 1.0, 2 * slow[i, j] ** 2 - gap**2)
            value = te.select(apart, near + slow[i, j], 0.5 * (a + b + te.sqrt(inside)))
            return te.select((i == 0) & (j == 0), 0.0, value)

        return te.compute((n, m), entry)

    return te.scan((n, m), step, init=1e3, axis=(0, 1))


@oracle
def torch_fast_sweeping(torch: Any, slow: Any) -> Any:
    n, m = slow.shape
    far = torch.tensor(1e3)
    u: dict[Any, Any] = {}
    for i in range(n):
        for j in range(m):
            a, b, f = u.get((i - 1, j), far), u.get((i, j - 1), far), slow[i, j]
            if i == j == 0:
                u[i, j] = 0 * f
            elif abs(float(a.detach() - b.detach())) >= float(f.detach()):
                u[i, j] = torch.minimum(a, b) + f
            else:
                u[i, j] = (a + b + torch.sqrt(2 * f**2 - (a - b) ** 2)) / 2
    return torch.stack([u[i, j] for i in range(n) for j in range(m)]).reshape(n, m)


@kernel(u=(8,), c=positive(8))
def implicit_heat(u: Any, c: Any) -> Any:
    """Three implicit steps of the heat equation: in each, a tridiagonal system by two sweeps inside."""
    n = u.shape[0]
    shape = (3, n)

    def step(s: Any) -> Any:
        low = lambda i: te.select(i >= 1, -c[i], 0.0)
        up = lambda i: te.select(i < n - 1, -c[i], 0.0)

        def down(p: Any, d: Any) -> Any:
            pivot = te.compute(shape, lambda t, i: 1 + 2 * c[i] - low(i) * p[t, i - 1])
            return (
                te.compute(shape, lambda t, i: up(i) / pivot[t, i]),
                te.compute(shape, lambda t, i: (s[t - 1, i] - low(i) * d[t, i - 1]) / pivot[t, i]),
            )

        p, d = te.scan([shape, shape], down, axis=1)
        return te.scan(
            shape,
            lambda x: te.compute(shape, lambda t, i: d[t, i] - p[t, i] * x[t, i + 1]),
            axis=1,
            reverse=True,
        )

    return te.scan(shape, step, init=u)


@oracle
def torch_implicit_heat(torch: Any, u: Any, c: Any) -> Any:
    matrix = torch.diag(1 + 2 * c) - torch.diag(c[1:], -1) - torch.diag(c[:-1], 1)
    out = []
    for _ in range(3):
        u = torch.linalg.solve(matrix, u)
        out.append(u)
    return torch.stack(out)


@kernel(e=(12,), source=(10,))
def yee(e: Any, source: Any) -> Any:
    """Maxwell's equations along a line (Yee, 1966): electric and magnetic fields by turns."""
    n, steps = e.shape[0], source.shape[0]

    def step(electric: Any, magnetic: Any) -> Any:
        new = te.compute(
            (steps, n),
            lambda t, i: (
                magnetic[t - 1, i]
                + 0.5
                * te.select(i < n - 1, electric[t - 1, te.minimum(i + 1, n - 1)] - electric[t - 1, i], 0.0)
            ),
        )
        field = te.compute(
            (steps, n),
            lambda t, i: (
                electric[t - 1, i]
                + 0.5 * te.select(i >= 1, new[t, i] - new[t, te.maximum(i - 1, 0)], 0.0)
                + te.select(i == n // 2, source[t], 0.0)
            ),
        )
        return field, new

    return te.scan([(steps, n)] * 2, step, init=[e, 0.0])[0]


@oracle
def torch_yee(torch: Any, e: Any, source: Any) -> Any:
    n, out = len(e), []
    h = torch.zeros(n)
    one = torch.eye(n)[n // 2]
    for s in source:
        h = h + 0.5 * torch.cat([e[1:] - e[:-1], torch.zeros(1)])
        e = e + 0.5 * torch.cat([torch.zeros(1), h[1:] - h[:-1]]) + s * one
        out.append(e)
    return torch.stack(out)


@kernel(u=(12,))
def lax_friedrichs(u: Any) -> Any:
    """Burgers' equation on a ring (Lax, 1954)."""
    n = u.shape[0]

    def step(s: Any) -> Any:
        def entry(t: Any, i: Any) -> Any:
            left, right = s[t - 1, (i + n - 1) % n], s[t - 1, (i + 1) % n]
            return 0.5 * (left + right) - 0.1 * (right**2 - left**2)

        return te.compute((8, n), entry)

    return te.scan((8, n), step, init=u)


@oracle
def torch_lax_friedrichs(torch: Any, u: Any) -> Any:
    out = []
    for _ in range(8):
        left, right = torch.roll(u, 1), torch.roll(u, -1)
        u = 0.5 * (left + right) - 0.1 * (right**2 - left**2)
        out.append(u)
    return torch.stack(out)


@kernel(x=(5, 3), v=(5, 3))
def verlet(x: Any, v: Any) -> Any:
    """Leapfrog steps of bodies that attract each other (Verlet, 1967)."""
    n, d = x.shape
    steps = 4
    c, j = axes(d, n)

    def step(place: Any, speed: Any) -> Any:
        near = te.compute(
            (steps, n, n), lambda t, i, j: te.sum((place[t - 1, i, c] - place[t - 1, j, c]) ** 2, c) + 0.5
        )
        weight = te.compute((steps, n, n), lambda t, i, j: 1 / (near[t, i, j] * te.sqrt(near[t, i, j])))
        new = te.compute(
            (steps, n, d),
            lambda t, i, a: (
                speed[t - 1, i, a]
                + 0.05 * te.sum((place[t - 1, j, a] - place[t - 1, i, a]) * weight[t, i, j], j)
            ),
        )
        return te.compute((steps, n, d), lambda t, i, a: place[t - 1, i, a] + 0.05 * new[t, i, a]), new

    return te.scan([(steps, n, d)] * 2, step, init=[x, v])


@oracle
def torch_verlet(torch: Any, x: Any, v: Any) -> Any:
    places, speeds = [], []
    for _ in range(4):
        gap = x[None] - x[:, None]
        v = v + 0.05 * (gap / ((gap**2).sum(-1, keepdim=True) + 0.5) ** 1.5).sum(1)
        x = x + 0.05 * v
        places.append(x)
        speeds.append(v)
    return torch.stack(places), torch.stack(speeds)


@kernel(cost=positive(6, 7), a=positive(6), b=positive(7))
def sinkhorn(cost: Any, a: Any, b: Any) -> Any:
    """Scalings of an entropic transport plan (Cuturi, 2013), after 6 steps."""
    n, m = cost.shape
    steps = 6
    i, j = axes(n, m)
    plan = te.compute((n, m), lambda i, j: te.exp(-cost[i, j]))

    def step(u: Any) -> Any:
        v = te.compute((steps, m), lambda t, j: b[j] / te.sum(plan[i, j] * u[t - 1, i], i))
        return te.compute((steps, n), lambda t, i: a[i] / te.sum(plan[i, j] * v[t, j], j))

    return te.scan((steps, n), step, init=1.0)


@oracle
def torch_sinkhorn(torch: Any, cost: Any, a: Any, b: Any) -> Any:
    plan, u, out = torch.exp(-cost), torch.ones(len(a)), []
    for _ in range(6):
        u = a / (plan @ (b / (plan.T @ u)))
        out.append(u)
    return torch.stack(out)


@kernel(w=positive(6, 6))
def power_iteration(w: Any) -> Any:
    """The largest eigenvalue of a positive matrix (von Mises, 1929), until it stands still."""
    n = w.shape[0]
    steps = 40
    j, k = axes(n, n)

    def moves(x: Any, value: Any, before: Any) -> Any:
        return te.compute((steps,), lambda t: te.abs(value[t - 1] - before[t - 1]) > 1e-14 * value[t - 1])

    def body(x: Any, value: Any, before: Any) -> Any:
        y = te.compute((steps, n), lambda t, i: te.sum(w[i, k] * x[t - 1, k], k))
        total = te.compute((steps,), lambda t: te.sum(y[t, j], j))
        return (
            te.compute((steps, n), lambda t, i: y[t, i] / total[t]),
            te.compute((steps,), lambda t: total[t]),
            te.compute((steps,), lambda t: value[t - 1]),
        )

    return te.while_([(steps, n), (steps,), (steps,)], moves, body, init=[1 / n, 1.0, 0.0])[1]


@oracle
def torch_power_iteration(torch: Any, w: Any) -> Any:
    values = torch.linalg.eigvals(w)
    return values[values.abs().argmax()].real


# --- products and pairs by data ----------------------------------------------------------------------


@kernel(x=positive(20, 3), at=indices(6, 20))
def group_products(x: Any, at: Any) -> Any:
    """Products over groups of rows: the transmittance along rays (Max, 1995)."""
    return te.scatter((6, 3), x.shape, lambda e, j: ((at[e], j), x[e, j]), combine="prod")


@oracle
def torch_group_products(torch: Any, x: Any, at: Any) -> Any:
    rows = [[x[e] for e in range(len(x)) if int(at[e]) == g] for g in range(6)]
    return torch.stack([torch.stack(r).prod(0) if r else torch.ones(x.shape[1]) for r in rows])


@kernel(x=(8, 3), at=lambda rng: np.array([rng.permutation(8)[:3] for _ in range(15)]))
def angular_triplets(x: Any, at: Any) -> Any:
    """Angular symmetry functions of atoms (Behler and Parrinello, 2007), over a list of triplets."""
    d, e, f = axes(3, 3, 3)
    n = at.shape[0]
    dot = te.compute(
        (n,), lambda t: te.sum((x[at[t, 1], d] - x[at[t, 0], d]) * (x[at[t, 2], d] - x[at[t, 0], d]), d)
    )
    near = te.compute((n,), lambda t: te.sum((x[at[t, 1], e] - x[at[t, 0], e]) ** 2, e))
    far = te.compute((n,), lambda t: te.sum((x[at[t, 2], f] - x[at[t, 0], f]) ** 2, f))

    def term(t: Any) -> Any:
        cosine = dot[t] / te.sqrt(near[t] * far[t])
        return at[t, 0], (1 + cosine) ** 2 * te.exp(-0.1 * (near[t] + far[t]))

    return te.scatter((8,), (n,), term)


@oracle
def torch_angular_triplets(torch: Any, x: Any, at: Any) -> Any:
    near, far = x[at[:, 1]] - x[at[:, 0]], x[at[:, 2]] - x[at[:, 0]]
    cosine = (near * far).sum(1) / torch.sqrt((near**2).sum(1) * (far**2).sum(1))
    terms = (1 + cosine) ** 2 * torch.exp(-0.1 * ((near**2).sum(1) + (far**2).sum(1)))
    return torch.zeros(8).index_add(0, at[:, 0], terms)


@kernel(x=(9, 3), q=(9,), wave=(14, 3))
def ewald(x: Any, q: Any, wave: Any) -> Any:
    """Energy of charges in reciprocal space (Ewald, 1921)."""
    n, m = x.shape[0], wave.shape[0]
    c, d, i, j, k = axes(3, 3, n, n, m)
    phase = te.compute((m, n), lambda k, i: te.sum(wave[k, c] * x[i, c], c))
    even = te.compute((m,), lambda k: te.sum(q[i] * te.cos(phase[k, i]), i))
    odd = te.compute((m,), lambda k: te.sum(q[j] * te.sin(phase[k, j]), j))
    square = te.compute((m,), lambda k: te.sum(wave[k, d] * wave[k, d], d))
    return te.compute(
        (), lambda: te.sum(te.exp(-0.25 * square[k]) / square[k] * (even[k] ** 2 + odd[k] ** 2), k)
    )


@oracle
def torch_ewald(torch: Any, x: Any, q: Any, wave: Any) -> Any:
    structure = (q * torch.exp(1j * (wave @ x.T))).sum(1)
    square = (wave**2).sum(1)
    return (torch.exp(-0.25 * square) / square * structure.abs() ** 2).sum()
