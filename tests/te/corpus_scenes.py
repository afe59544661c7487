"""Kernels of the literature over particles, pixels and triangles, each with an oracle in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson import te

from .corpus import axes, kernel, places, positive, sampled
from .corpus_recurrences import oracle


@kernel(x=places(12, 2, upto=5.9), v=(12, 2), c=(12, 2, 2), m=positive(12))
def material_points(x: Any, v: Any, c: Any, m: Any) -> Any:
    """Particles to a grid and back, with quadratic splines (MLS-MPM: Hu et al., 2018)."""
    n, cells = x.shape[0], 8
    base = te.compute((n, 2), lambda p, d: te.floor(x[p, d]).astype("int64"))
    inside = te.compute((n, 2), lambda p, d: x[p, d] + 0.5 - te.floor(x[p, d]))

    def spline(p: Any, d: Any, k: Any) -> Any:
        f = inside[p, d]
        middle = te.select(k == 1, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2)
        return te.select(k == 0, 0.5 * (1.5 - f) ** 2, middle)

    w = te.compute((n, 2, 3), spline)

    def momentum(p: Any, i: Any, j: Any, d: Any) -> Any:
        y, z = i.astype(x.dtype) - inside[p, 0], j.astype(x.dtype) - inside[p, 1]
        speed = v[p, d] + c[p, d, 0] * y + c[p, d, 1] * z
        return (base[p, 0] + i, base[p, 1] + j, d), w[p, 0, i] * w[p, 1, j] * m[p] * speed

    mass = te.scatter(
        (cells, cells),
        (n, 3, 3),
        lambda p, i, j: ((base[p, 0] + i, base[p, 1] + j), w[p, 0, i] * w[p, 1, j] * m[p]),
    )
    total = te.scatter((cells, cells, 2), (n, 3, 3, 2), momentum)
    speed = te.compute((cells, cells, 2), lambda i, j, d: total[i, j, d] / (mass[i, j] + 1e-3))
    i, j, k, l = axes(3, 3, 3, 3)
    new = te.compute(
        (n, 2),
        lambda p, d: te.sum(w[p, 0, i] * w[p, 1, j] * speed[base[p, 0] + i, base[p, 1] + j, d], (i, j)),
    )

    def affine(p: Any, d: Any, e: Any) -> Any:
        away = te.select(e == 0, k, l).astype(x.dtype) - inside[p, e]
        at = speed[base[p, 0] + k, base[p, 1] + l, d]
        return te.sum(4 * w[p, 0, k] * w[p, 1, l] * at * away, (k, l))

    return new, te.compute((n, 2, 2), affine)


@oracle
def torch_material_points(torch: Any, x: Any, v: Any, c: Any, m: Any) -> Any:
    base = torch.floor(x.detach()).long()
    f = x + 0.5 - base
    w = torch.stack([0.5 * (1.5 - f) ** 2, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2], -1)
    mass, total = torch.zeros(8, 8), torch.zeros(8, 8, 2)
    shares: dict[Any, Any] = {}
    for i in range(3):
        for j in range(3):
            at = (base[:, 0] + i, base[:, 1] + j)
            away = torch.tensor([float(i), float(j)]) - f
            share = w[:, 0, i] * w[:, 1, j]
            moved = (share * m)[:, None] * (v + torch.einsum("pde,pe->pd", c, away))
            mass = mass.index_put(at, share * m, accumulate=True)
            total = total.index_put(at, moved, accumulate=True)
            shares[i, j] = at, away, share
    speed = total / (mass[..., None] + 1e-3)
    new, affine = torch.zeros_like(v), torch.zeros_like(c)
    for at, away, share in shares.values():
        new = new + share[:, None] * speed[at]
        affine = affine + 4 * share[:, None, None] * speed[at][:, :, None] * away[:, None, :]
    return new, affine


def _coverage(triangle: Any, size: int) -> Any:
    """How much of each pixel a triangle covers, by the nearest of its edges (Liu et al., 2019)."""
    count = triangle.shape[0]
    (a,) = axes(3)

    def at(k: Any) -> Any:
        return (k.astype(triangle.dtype) + 0.5) * (2 / size) - 1

    def edge(f: Any, a: Any, i: Any, j: Any) -> Any:
        b = (a + 1) % 3
        across = (at(i) - triangle[f, a, 0]) * (triangle[f, b, 1] - triangle[f, a, 1])
        return across - (at(j) - triangle[f, a, 1]) * (triangle[f, b, 0] - triangle[f, a, 0])

    near = te.compute((count, size, size), lambda f, i, j: te.min(edge(f, a, i, j), a))
    return te.compute((count, size, size), lambda f, i, j: 1 / (1 + te.exp(-5 * near[f, i, j])))


def _torch_coverage(torch: Any, triangle: Any, size: int) -> Any:
    place = (torch.arange(size) + 0.5) * 2 / size - 1
    a, b = triangle, triangle.roll(-1, 1)
    step = (b - a)[:, :, :, None, None]
    across = (place[:, None] - a[:, :, 0, None, None]) * step[:, :, 1]
    edges = across - (place[None, :] - a[:, :, 1, None, None]) * step[:, :, 0]
    return torch.sigmoid(5 * edges.min(1).values)


@kernel(triangle=(5, 3, 2), color=(5, 3))
def soft_rasterizer(triangle: Any, color: Any) -> Any:
    """Colors blended by coverage."""
    covered = _coverage(triangle, 8)
    f, g = axes(5, 5)
    total = te.compute((8, 8), lambda i, j: te.sum(covered[f, i, j], f) + 1e-3)
    return te.compute((8, 8, 3), lambda i, j, c: te.sum(covered[g, i, j] * color[g, c], g) / total[i, j])


@oracle
def torch_soft_rasterizer(torch: Any, triangle: Any, color: Any) -> Any:
    covered = _torch_coverage(torch, triangle, 8)
    return torch.einsum("fij,fc->ijc", covered, color) / (covered.sum(0) + 1e-3)[..., None]


@kernel(triangle=(5, 3, 2))
def soft_silhouette(triangle: Any) -> Any:
    """The product over triangles of what they leave free."""
    covered = _coverage(triangle, 8)
    (f,) = axes(5)
    return te.compute((8, 8), lambda i, j: 1 - te.prod(1 - covered[f, i, j], f))


@oracle
def torch_soft_silhouette(torch: Any, triangle: Any) -> Any:
    return 1 - (1 - _torch_coverage(torch, triangle, 8)).prod(0)


def boxes(rng: np.random.Generator) -> Any:
    return np.concatenate([rng.uniform(0, 3, (3, 2)), rng.uniform(5, 9, (3, 2))], 1)


@kernel(x=(2, 10, 10), box=boxes)
def roi_align(x: Any, box: Any) -> Any:
    """Bins of 3 x 3 in boxes, of 4 samples each (He et al., 2017)."""
    s, t = axes(2, 2)

    def at(r: Any, d: Any, p: Any, k: Any) -> Any:
        step = (box[r, d + 2] - box[r, d]) / 3
        return box[r, d] + (p.astype(x.dtype) + 0.5 * k.astype(x.dtype) + 0.25) * step

    return te.compute(
        (box.shape[0], x.shape[0], 3, 3),
        lambda r, c, p, q: te.sum(sampled(x, c, at(r, 0, p, s), at(r, 1, q, t)), (s, t)) / 4,
    )


@oracle
def torch_roi_align(torch: Any, x: Any, box: Any) -> Any:
    place = (torch.arange(6) + 0.5) / 6
    samples = box[:, :2, None] + (box[:, 2:] - box[:, :2])[:, :, None] * place
    low = torch.floor(samples.detach()).long()
    part = samples - low

    def weighted(r: int) -> Any:
        total = 0
        for i in (0, 1):
            for j in (0, 1):
                u = part[r, 0] if i else 1 - part[r, 0]
                v = part[r, 1] if j else 1 - part[r, 1]
                total = total + x[:, low[r, 0] + i][:, :, low[r, 1] + j] * torch.outer(u, v)
        return total.reshape(-1, 3, 2, 3, 2).mean((2, 4))

    return torch.stack([weighted(r) for r in range(len(box))])


@kernel(x=(7, 3))
def angular_symmetry(x: Any) -> Any:
    """Angular symmetry functions over all triplets (Behler and Parrinello, 2007)."""
    n = x.shape[0]
    d, e, j, k = axes(3, 3, n, n)
    away = te.compute((n, n, 3), lambda i, j, d: x[j, d] - x[i, d])
    square = te.compute((n, n), lambda i, j: te.sum(away[i, j, d] ** 2, d) + te.select(i == j, 1.0, 0.0))
    fade = te.compute((n, n), lambda i, j: te.select(i != j, te.exp(-square[i, j]), 0.0))

    def term(i: Any) -> Any:
        cosine = te.sum(away[i, j, e] * away[i, k, e], e) / te.sqrt(square[i, j] * square[i, k])
        return te.select(j < k, (1 + cosine) ** 2 * fade[i, j] * fade[i, k], 0.0)

    return te.compute((n,), lambda i: te.sum(term(i), (j, k)))


@oracle
def torch_angular_symmetry(torch: Any, x: Any) -> Any:
    n = len(x)
    away = x[None] - x[:, None]
    square = (away**2).sum(-1) + torch.eye(n)
    fade = torch.exp(-square) * (1 - torch.eye(n))
    cosine = torch.einsum("ijc,ikc->ijk", away, away) / torch.sqrt(square[:, :, None] * square[:, None])
    terms = (1 + cosine) ** 2 * fade[:, :, None] * fade[:, None]
    return (terms * torch.triu(torch.ones(n, n), 1)).sum((1, 2))
