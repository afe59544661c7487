"""Kernels that nobody tuned, written down from their papers, each with an oracle in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson import te

from .corpus import axes, indices, kernel, places, positive
from .corpus_recurrences import oracle


@kernel(x=(10, 4), a=positive(10), b=(10, 3), c=(10, 3))
def state_space_duality(x: Any, a: Any, b: Any, c: Any) -> Any:
    """Mamba-2 as a masked product (Dao and Gu, 2024, equation 7): decays between two steps are products."""
    steps, m = x.shape
    n, s, r = axes(b.shape[1], steps, steps)
    fade = te.compute((steps,), lambda t: te.sum(te.bracket(r <= t) * a[r], r))
    score = te.compute((steps, steps), lambda t, s: te.sum(c[t, n] * b[s, n], n))
    weight = te.compute(
        (steps, steps), lambda t, s: te.select(s <= t, score[t, s] * te.exp(fade[s] - fade[t]), 0.0)
    )
    return te.compute((steps, m), lambda t, i: te.sum(weight[t, s] * x[s, i], s))


@oracle
def torch_state_space_duality(torch: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    h, out = torch.zeros(b.shape[1], x.shape[1]), []
    for t in range(len(x)):
        h = (torch.exp(-a[t]) if t else 1.0) * h + torch.outer(b[t], x[t])
        out.append(c[t] @ h)
    return torch.stack(out)


@kernel(x=places(6, 2, upto=1.5), m=positive(6), pairs=indices(6, 18, 2))
def particle_density(x: Any, m: Any, pairs: Any) -> Any:
    """Smoothed particles (Monaghan, 1992) with the cubic spline, over a list of pairs."""
    count, d = pairs.shape[0], x.shape[1]
    (c,) = axes(d)
    q = te.compute(
        (count,), lambda e: te.sqrt(te.sum((x[pairs[e, 0], c] - x[pairs[e, 1], c]) ** 2, c) + 1e-6)
    )

    def term(e: Any) -> Any:
        inner = 1 - 1.5 * q[e] ** 2 + 0.75 * q[e] ** 3
        outer = te.select(q[e] < 2, 0.25 * (2 - q[e]) ** 3, 0.0)
        return pairs[e, 0], m[pairs[e, 1]] * te.select(q[e] < 1, inner, outer)

    return te.scatter(m.shape, (count,), term)


@oracle
def torch_particle_density(torch: Any, x: Any, m: Any, pairs: Any) -> Any:
    q = torch.sqrt(((x[pairs[:, 0]] - x[pairs[:, 1]]) ** 2).sum(1) + 1e-6)
    spline = torch.where(q < 1, 1 - 1.5 * q**2 + 0.75 * q**3, 0.25 * torch.relu(2 - q) ** 3)
    return torch.zeros(6).index_add(0, pairs[:, 0], m[pairs[:, 1]] * spline)


@kernel(
    x=lambda rng: 1.2 * np.arange(6.0)[:, None] + 0.1 * rng.standard_normal((6, 2)),
    v=(6, 2),
    pairs=lambda rng: np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [0, 2], [3, 5]]),
)
def pair_dynamics(x: Any, v: Any, pairs: Any) -> Any:
    """Velocity Verlet for Lennard-Jones over a list of pairs (Verlet, 1967; Swope et al., 1982)."""
    n, d = x.shape
    steps, count = 3, pairs.shape[0]
    e, c = axes(count, d)

    def step(place: Any, speed: Any) -> Any:
        square = te.compute(
            (steps, count),
            lambda t, e: te.sum((place[t - 1, pairs[e, 0], c] - place[t - 1, pairs[e, 1], c]) ** 2, c),
        )
        push = te.compute(
            (steps, count), lambda t, e: (2 / square[t, e] ** 6 - 1 / square[t, e] ** 3) * 24 / square[t, e]
        )

        def force(t: Any, i: Any, a: Any) -> Any:
            gap = place[t - 1, pairs[e, 0], a] - place[t - 1, pairs[e, 1], a]
            sign = te.select(pairs[e, 0] == i, 1.0, te.select(pairs[e, 1] == i, -1.0, 0.0))
            return te.sum(sign * push[t, e] * gap, e)

        new = te.compute((steps, n, d), lambda t, i, a: speed[t - 1, i, a] + 1e-3 * force(t, i, a))
        return te.compute((steps, n, d), lambda t, i, a: place[t - 1, i, a] + 1e-3 * new[t, i, a]), new

    return te.scan([(steps, n, d)] * 2, step, init=[x, v])


@oracle
def torch_pair_dynamics(torch: Any, x: Any, v: Any, pairs: Any) -> Any:
    places, speeds = [], []
    for _ in range(3):
        gap = x[pairs[:, 0]] - x[pairs[:, 1]]
        square = (gap**2).sum(1)
        push = ((2 / square**6 - 1 / square**3) * 24 / square)[:, None] * gap
        v = v + 1e-3 * (torch.zeros_like(x).index_add(0, pairs[:, 0], push).index_add(0, pairs[:, 1], -push))
        x = x + 1e-3 * v
        places.append(x)
        speeds.append(v)
    return torch.stack(places), torch.stack(speeds)


@kernel(first=(5, 3), middle=(4, 3, 5, 3), last=(3, 5), at=indices(5, 12, 6))
def tensor_train(first: Any, middle: Any, last: Any, at: Any) -> Any:
    """Entries of a tensor in the train format (Oseledets, 2011)."""
    count, cores = at.shape[0], middle.shape[0]
    k, r = axes(3, 3)

    def step(s: Any) -> Any:
        def entry(t: Any, e: Any, b: Any) -> Any:
            before = te.select(t == 0, first[at[e, 0], k], s[t - 1, e, k])
            return te.sum(before * middle[t, k, at[e, t + 1], b], k)

        return te.compute((cores, count, 3), entry)

    s = te.scan((cores, count, 3), step)
    return te.compute((count,), lambda e: te.sum(s[cores - 1, e, r] * last[r, at[e, cores + 1]], r))


@oracle
def torch_tensor_train(torch: Any, first: Any, middle: Any, last: Any, at: Any) -> Any:
    v = first[at[:, 0]]
    for t in range(len(middle)):
        v = torch.einsum("ek,keb->eb", v, middle[t][:, at[:, t + 1]])
    return (v * last[:, at[:, -1]].T).sum(1)


@kernel(grid=(4, 4, 5), guide=places(9, 9, upto=0.95))
def bilateral_slice(grid: Any, guide: Any) -> Any:
    """A picture read from a bilateral grid (Chen, Paris and Durand, 2007), between its eight neighbours."""
    h, w = guide.shape
    i, j, k = axes(2, 2, 2)

    def near(place: Any, cell: Any) -> Any:
        return te.maximum(1 - te.abs(place - cell), 0.0)

    def entry(y: Any, z: Any) -> Any:
        depth = guide[y, z] * 4
        base = te.floor(depth).astype("int64")
        down, right = y * 3 // 8, z * 3 // 8
        weight = near(y.astype("float64") * 0.375, (down + i).astype("float64"))
        weight = weight * near(z.astype("float64") * 0.375, (right + j).astype("float64"))
        weight = weight * near(depth, (base + k).astype("float64"))
        at = grid[te.minimum(down + i, 3), te.minimum(right + j, 3), te.clamp(base + k, 0, 4)]
        return te.sum(weight * at, (i, j, k))

    return te.compute((h, w), entry)


@oracle
def torch_bilateral_slice(torch: Any, grid: Any, guide: Any) -> Any:
    at = torch.arange(9.0) * 0.375
    rows = torch.relu(1 - (at[:, None] - torch.arange(4.0)).abs())
    depth = torch.relu(1 - (guide[..., None] * 4 - torch.arange(5.0)).abs())
    return torch.einsum("yi,zj,yzk,ijk->yz", rows, rows, depth, grid)


@kernel(before=(8, 8), after=(8, 8))
def optical_flow(before: Any, after: Any) -> Any:
    """Five steps of Horn and Schunck (1981)."""
    n, m = before.shape
    shape = (5, n, m)

    def at(x: Any, i: Any, j: Any) -> Any:
        return x[te.clamp(i, 0, n - 1), te.clamp(j, 0, m - 1)]

    dy = te.compute((n, m), lambda i, j: 0.5 * (at(before, i + 1, j) - at(before, i - 1, j)))
    dx = te.compute((n, m), lambda i, j: 0.5 * (at(before, i, j + 1) - at(before, i, j - 1)))

    def step(u: Any, v: Any) -> Any:
        def mean(w: Any, t: Any, i: Any, j: Any) -> Any:
            ways = ((-1, 0), (1, 0), (0, -1), (0, 1))
            return 0.25 * sum(w[t - 1, te.clamp(i + a, 0, n - 1), te.clamp(j + b, 0, m - 1)] for a, b in ways)

        def pull(t: Any, i: Any, j: Any) -> Any:
            motion = dx[i, j] * mean(u, t, i, j) + dy[i, j] * mean(v, t, i, j) + after[i, j] - before[i, j]
            return motion / (1 + dx[i, j] ** 2 + dy[i, j] ** 2)

        return (
            te.compute(shape, lambda t, i, j: mean(u, t, i, j) - dx[i, j] * pull(t, i, j)),
            te.compute(shape, lambda t, i, j: mean(v, t, i, j) - dy[i, j] * pull(t, i, j)),
        )

    u, v = te.scan([shape, shape], step)
    return te.compute((n, m), lambda i, j: u[4, i, j]), te.compute((n, m), lambda i, j: v[4, i, j])


@oracle
def torch_optical_flow(torch: Any, before: Any, after: Any) -> Any:
    def moved(x: Any, a: int, b: int) -> Any:
        rows = torch.clamp(torch.arange(8) + a, 0, 7)
        return x[rows][:, torch.clamp(torch.arange(8) + b, 0, 7)]

    def mean(x: Any) -> Any:
        return 0.25 * (moved(x, -1, 0) + moved(x, 1, 0) + moved(x, 0, -1) + moved(x, 0, 1))

    dy = 0.5 * (moved(before, 1, 0) - moved(before, -1, 0))
    dx = 0.5 * (moved(before, 0, 1) - moved(before, 0, -1))
    u = v = torch.zeros(8, 8)
    for _ in range(5):
        a, b = mean(u), mean(v)
        pull = (dx * a + dy * b + after - before) / (1 + dx**2 + dy**2)
        u, v = a - dx * pull, b - dy * pull
    return u, v


@kernel(score=(9, 4), move=(4, 4), label=indices(4, 9))
def conditional_field(score: Any, move: Any, label: Any) -> Any:
    """Negative log likelihood of a chain (Lafferty, McCallum and Pereira, 2001)."""
    n, m = score.shape
    a, b, c, t, s = axes(m, m, m, n, n)

    def step(alpha: Any) -> Any:
        top = te.compute((n,), lambda t: te.max(alpha[t - 1, a], a))
        return te.compute(
            (n, m),
            lambda t, k: (
                te.select(
                    t == 0, 0.0, top[t] + te.log(te.sum(te.exp(alpha[t - 1, b] + move[b, k] - top[t]), b))
                )
                + score[t, k]
            ),
        )

    alpha = te.scan((n, m), step)
    total = te.compute((), lambda: te.log(te.sum(te.exp(alpha[n - 1, c]), c)))
    return te.compute(
        (),
        lambda: (
            total[()]
            - te.sum(score[t, label[t]], t)
            - te.sum(te.bracket(s >= 1) * move[label[te.maximum(s - 1, 0)], label[s]], s)
        ),
    )


@oracle
def torch_conditional_field(torch: Any, score: Any, move: Any, label: Any) -> Any:
    alpha = score[0]
    for row in score[1:]:
        alpha = torch.logsumexp(alpha[:, None] + move, 0) + row
    path = score[torch.arange(len(label)), label].sum() + move[label[:-1], label[1:]].sum()
    return torch.logsumexp(alpha, 0) - path


@kernel(density=positive(6, 8), colour=(6, 8, 3), length=positive(6, 8))
def volume_rendering(density: Any, colour: Any, length: Any) -> Any:
    """Colours along rays (Max, 1995; Mildenhall et al., 2020, equation 3)."""
    n, m = density.shape
    i, j = axes(m, m)
    depth = te.compute((n, m), lambda r, k: te.sum(te.bracket(j < k) * density[r, j] * length[r, j], j))
    weight = te.compute(
        (n, m), lambda r, k: te.exp(-depth[r, k]) * (1 - te.exp(-density[r, k] * length[r, k]))
    )
    return te.compute((n, 3), lambda r, c: te.sum(weight[r, i] * colour[r, i, c], i))


@oracle
def torch_volume_rendering(torch: Any, density: Any, colour: Any, length: Any) -> Any:
    part = density * length
    through = torch.exp(-(torch.cumsum(part, 1) - part))
    return ((through * (1 - torch.exp(-part)))[..., None] * colour).sum(1)


@kernel(c=(8,), x=places(10, upto=0.9))
def clenshaw(c: Any, x: Any) -> Any:
    """Sums of Chebyshev's polynomials (Clenshaw, 1955)."""
    n, m = c.shape[0], x.shape[0]

    def step(b: Any) -> Any:
        return te.compute((n, m), lambda k, i: c[k] + 2 * x[i] * b[k + 1, i] - b[k + 2, i])

    b = te.scan((n, m), step, reverse=True)
    return te.compute((m,), lambda i: b[0, i] - x[i] * b[1, i])


@oracle
def torch_clenshaw(torch: Any, c: Any, x: Any) -> Any:
    return sum(c[k] * torch.cos(k * torch.acos(x)) for k in range(len(c)))


@kernel(start=positive(9, 6, 6))
def lattice_boltzmann(start: Any) -> Any:
    """Three steps of a fluid on a ring (D2Q9: Qian, d'Humières and Lallemand, 1992)."""
    _, n, m = start.shape
    steps = 3
    q, r, s = axes(9, 9, 9)

    def x_of(q: Any) -> Any:
        return (q % 3 - 1).astype("float64")

    def y_of(q: Any) -> Any:
        return (q // 3 - 1).astype("float64")

    def step(f: Any) -> Any:
        def moved(t: Any, q: Any, i: Any, j: Any) -> Any:
            return f[t - 1, q, (i + n - (q // 3 - 1)) % n, (j + m - (q % 3 - 1)) % m]

        mass = te.compute((steps, n, m), lambda t, i, j: te.sum(moved(t, q, i, j), q))
        u = te.compute((steps, n, m), lambda t, i, j: te.sum(x_of(r) * moved(t, r, i, j), r) / mass[t, i, j])
        v = te.compute((steps, n, m), lambda t, i, j: te.sum(y_of(s) * moved(t, s, i, j), s) / mass[t, i, j])

        def relaxed(t: Any, q: Any, i: Any, j: Any) -> Any:
            along = x_of(q) * u[t, i, j] + y_of(q) * v[t, i, j]
            square = u[t, i, j] ** 2 + v[t, i, j] ** 2
            weight = (4 / 9) * 0.25 ** (te.abs(x_of(q)) + te.abs(y_of(q)))
            rest = weight * mass[t, i, j] * (1 + 3 * along + 4.5 * along**2 - 1.5 * square)
            return moved(t, q, i, j) + 0.6 * (rest - moved(t, q, i, j))

        return te.compute((steps, 9, n, m), relaxed)

    f = te.scan((steps, 9, n, m), step, init=start)
    return te.compute((9, n, m), lambda q, i, j: f[steps - 1, q, i, j])


@oracle
def torch_lattice_boltzmann(torch: Any, start: Any) -> Any:
    ways = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    y, x = (torch.tensor([float(w[k]) for w in ways])[:, None, None] for k in (0, 1))
    weight = (4 / 9) * 0.25 ** (x.abs() + y.abs())
    f = start
    for _ in range(3):
        f = torch.stack([torch.roll(p, w, (0, 1)) for p, w in zip(f, ways, strict=True)])
        mass = f.sum(0)
        u, v = (x * f).sum(0) / mass, (y * f).sum(0) / mass
        along = x * u + y * v
        rest = weight * mass * (1 + 3 * along + 4.5 * along**2 - 1.5 * (u**2 + v**2))
        f = f + 0.6 * (rest - f)
    return f


@kernel(time=lambda rng: np.cumsum(rng.uniform(0.2, 1.0, 20)), rate=positive(3))
def hawkes(time: Any, rate: Any) -> Any:
    """Log likelihood of a process that excites itself (Ozaki, 1979, equation 5)."""
    n = time.shape[0]
    i, j = axes(n, n)

    def step(a: Any) -> Any:
        def entry(k: Any) -> Any:
            return te.select(
                k == 0, 0.0, te.exp(-rate[2] * (time[k] - time[te.maximum(k - 1, 0)])) * (1 + a[k - 1])
            )

        return te.compute((n,), entry)

    a = te.scan((n,), step)
    past = te.compute((), lambda: te.sum(1 - te.exp(-rate[2] * (time[n - 1] - time[j])), j))
    return te.compute(
        (),
        lambda: (
            te.sum(te.log(rate[0] + rate[1] * a[i]), i) - rate[0] * time[n - 1] - rate[1] / rate[2] * past[()]
        ),
    )


@oracle
def torch_hawkes(torch: Any, time: Any, rate: Any) -> Any:
    gaps = time[:, None] - time[None]
    before = torch.tril(torch.ones(len(time), len(time)), -1) > 0
    a = torch.where(before, torch.exp(-rate[2] * torch.where(before, gaps, torch.zeros(()))), torch.zeros(()))
    past = (1 - torch.exp(-rate[2] * (time[-1] - time))).sum()
    return torch.log(rate[0] + rate[1] * a.sum(1)).sum() - rate[0] * time[-1] - rate[1] / rate[2] * past
