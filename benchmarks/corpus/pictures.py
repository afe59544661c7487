"""Resampling, neighbourhoods compared, grids of bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.corpus.rows import row, scaled, uniform

# --- resampling ------------------------------------------------------------------


def bicubic(x: Any) -> Any:
    import torch

    return torch.nn.functional.interpolate(x[None], scale_factor=2, mode="bicubic", align_corners=False)[0]


def jax_bicubic(x: Any) -> Any:
    """By the weights of torch (`jax.image.resize` has others)."""
    import jax.numpy as jnp

    rows, columns = (jnp.asarray(_cubic(n)) for n in x.shape[1:])
    return jnp.einsum("yh,chw,zw->cyz", rows, x, columns)


def _cubic(n: int) -> np.ndarray:
    """2n x n weights by Keys' kernel with a = -0.75, entries at the borders repeated."""
    found = np.zeros((2 * n, n))
    for o in range(2 * n):
        place = (o + 0.5) / 2 - 0.5
        for k in range(4):
            at = int(np.floor(place)) + k - 1
            d = abs(place - at)
            inner = (1.25 * d - 2.25) * d * d + 1
            outer = ((-0.75 * d + 3.75) * d - 6) * d + 3
            found[o, min(max(at, 0), n - 1)] += inner if d <= 1 else outer if d < 2 else 0
    return found.astype(np.float32)


def _sample(x: Any, at: Any) -> Any:
    """Of c x h x w at places (..., 2) between entries, 0 outside."""
    import torch

    size = torch.tensor(x.shape[1:], dtype=at.dtype) - 1
    grid = (2 * at / size - 1).flip(-1).reshape(1, -1, 1, 2)
    found = torch.nn.functional.grid_sample(x[None], grid, padding_mode="zeros", align_corners=True)
    return found.reshape(x.shape[0], *at.shape[:-1])


def _jax_sample(x: Any, at: Any) -> Any:
    import jax

    places = [at[..., 0], at[..., 1]]
    return jax.vmap(lambda c: jax.scipy.ndimage.map_coordinates(c, places, order=1, mode="constant"))(x)


def transformer(x: Any, grid: Any) -> Any:
    return _sample(x, grid)


def jax_transformer(x: Any, grid: Any) -> Any:
    return _jax_sample(x, grid)


def _deformed(xp: Any, sample: Any, x: Any, offset: Any, w: Any) -> Any:
    h, v, p, q = offset.shape[:4]
    y = xp.arange(h)[:, None, None, None] + xp.arange(p)[None, None, :, None] + offset[..., 0]
    z = xp.arange(v)[None, :, None, None] + xp.arange(q)[None, None, None, :] + offset[..., 1]
    return xp.einsum("cijrs,fcrs->fij", sample(x, xp.stack([y, z], -1)), w)


def deformable(x: Any, offset: Any, w: Any) -> Any:
    import torch

    return _deformed(torch, _sample, x, offset, w)


def jax_deformable(x: Any, offset: Any, w: Any) -> Any:
    import jax.numpy as jnp

    return _deformed(jnp, _jax_sample, x, offset, w)


# --- neighbourhoods --------------------------------------------------------------


def _means(xp: Any, x: Any) -> Any:
    h, w = x.shape[0] - 6, x.shape[1] - 6
    total = near = 0.0
    for u in range(5):
        for v in range(5):
            d = (x[2 : h + 4, 2 : w + 4] - x[u : u + h + 2, v : v + w + 2]) ** 2
            rows = d[:, :-2] + d[:, 1:-1] + d[:, 2:]
            weight = xp.exp(-0.1 * (rows[:-2] + rows[1:-1] + rows[2:]))
            total = total + weight
            near = near + weight * x[u + 1 : u + 1 + h, v + 1 : v + 1 + w]
    return near / total


def means(x: Any) -> Any:
    import torch

    return _means(torch, x)


def jax_means(x: Any) -> Any:
    import jax.numpy as jnp

    return _means(jnp, x)


def splat(x: Any, guide: Any) -> Any:
    import torch

    h, w = x.shape
    at, low, near = _cells(torch, x, guide)
    out = torch.zeros(h // 4 * (w // 4) * 8)
    for d, weight in enumerate((1 - near, near)):
        out = out.index_add(0, (at + low.long() + d).reshape(-1), (x * weight).reshape(-1))
    return out.reshape(h // 4, w // 4, 8)


def jax_splat(x: Any, guide: Any) -> Any:
    import jax.numpy as jnp

    h, w = x.shape
    at, low, near = _cells(jnp, x, guide)
    out = jnp.zeros(h // 4 * (w // 4) * 8, x.dtype)
    for d, weight in enumerate((1 - near, near)):
        out = out.at[at + low.astype("int32") + d].add(x * weight)
    return out.reshape(h // 4, w // 4, 8)


def _cells(xp: Any, x: Any, guide: Any) -> tuple[Any, Any, Any]:
    """Where a pixel's cells start, its depth, and how far it is above that."""
    h, w = x.shape
    low = xp.floor(guide * 4)
    near = guide * 4 - low
    at = (xp.arange(h)[:, None] // 4 * (w // 4) + xp.arange(w)[None] // 4) * 8
    return at, low, near


OPS = (
    row("bicubic_resize", "n", (16, 64, 128), lambda n: {"x": (4, n, n)}, bicubic, jax_bicubic),
    row(
        "spatial_transformer",
        "n",
        (16, 64, 128),
        lambda n: {"x": (16, n, n), "grid": uniform(n, n, 2, low=-0.9, high=n - 0.1)},
        transformer,
        jax_transformer,
        kinked=True,
    ),
    row(
        "deformable_conv",
        "n",
        (8, 16, 32),
        lambda n: {
            "x": (8, n + 2, n + 2),
            "offset": uniform(n, n, 3, 3, 2, low=0.1, high=0.8),
            "w": scaled(0.1, 16, 8, 3, 3),
        },
        deformable,
        jax_deformable,
        kinked=True,
    ),
    row("non_local_means", "n", (32, 64, 128), lambda n: {"x": (n + 6, n + 6)}, means, jax_means),
    row(
        "bilateral_splat",
        "n / 4",
        (8, 32, 128),
        lambda n: {"x": (4 * n, 4 * n), "guide": uniform(4 * n, 4 * n, low=0.0, high=1.74)},
        splat,
        jax_splat,
        kinked=True,
    ),
)
