"""Tensor expressions against compositions of array operations: neighbourhoods in pictures and fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.expressions import Op, pair
from benchmarks.workload import Inputs

TARGET = {"torch": 0.33, "torch compile": 0.7, "jax": 0.7}


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def padded(image: Any, width: int, xp: Any) -> Any:
    """Zeros around the last two axes; ``xp`` is torch or jax.numpy."""
    if xp.__name__ == "torch":
        return xp.nn.functional.pad(image, (width,) * 4)
    return xp.pad(image, [(0, 0)] * (image.ndim - 2) + [(width, width)] * 2)


def inside(value: Any, y: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """A read guarded by the borders: 0 outside."""
    from iverson import te

    h, w = shape[-2:]
    return te.if_then_else((y >= 0) & (y < h) & (x >= 0) & (x < w), value(y, x), 0)


# --- kernel prediction -----------------------------------------------------------


def kernel_prediction() -> Op:
    """Each pixel of 2 x 3 x n x n has a 5 x 5 kernel of its own."""

    def define(image: Any, kernels: Any) -> Any:
        from iverson import te

        u, v = te.reduce_axis((0, 5), "u"), te.reduce_axis((0, 5), "v")

        def entry(b: Any, c: Any, y: Any, x: Any) -> Any:
            near = inside(lambda p, q: image[b, c, p, q], y + u - 2, x + v - 2, image.shape)
            return te.sum(near * kernels[b, u, v, y, x], axis=(u, v))

        return te.compute(image.shape, entry, "filtered")

    def with_torch(image: Any, kernels: Any) -> Any:
        import torch

        b, c, h, w = image.shape
        patches = torch.nn.functional.unfold(image, 5, padding=2).reshape(b, c, 25, h, w)
        return (patches * kernels.reshape(b, 1, 25, h, w)).sum(2)

    def with_jax(image: Any, kernels: Any) -> Any:
        import jax.numpy as jnp

        h, w = image.shape[2:]
        wide = padded(image, 2, jnp)
        return sum(
            wide[:, :, u : u + h, v : v + w] * kernels[:, None, u, v] for u in range(5) for v in range(5)
        )

    return Op(
        name="te_kernel_prediction",
        sizes=(64, 128, 256),
        size_is="n",
        draw=lambda rng: rng.integers(50, 257),
        make=lambda n, rng: {"image": normal(rng, 2, 3, n, n), "kernels": normal(rng, 2, 5, 5, n, n)},
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


# --- cost volume -----------------------------------------------------------------


def cost_volume() -> Op:
    """Products over 32 channels of 2 x 32 x n x n with its 9 x 9 shifts."""

    def define(left: Any, right: Any) -> Any:
        from iverson import te

        n = left.shape[2]
        c = te.reduce_axis((0, 32), "c")

        def entry(b: Any, u: Any, v: Any, y: Any, x: Any) -> Any:
            near = inside(lambda p, q: right[b, c, p, q], y + u - 4, x + v - 4, right.shape)
            return te.sum(left[b, c, y, x] * near, axis=c)

        return te.compute((2, 9, 9, n, n), entry, "volume")

    def composed(left: Any, right: Any, xp: Any) -> Any:
        h, w = left.shape[2:]
        wide = padded(right, 4, xp)
        rows = [
            xp.stack([(left * wide[:, :, u : u + h, v : v + w]).sum(1) for v in range(9)], 1)
            for u in range(9)
        ]
        return xp.stack(rows, 1)

    def with_torch(left: Any, right: Any) -> Any:
        import torch

        return composed(left, right, torch)

    def with_jax(left: Any, right: Any) -> Any:
        import jax.numpy as jnp

        return composed(left, right, jnp)

    return Op(
        name="te_cost_volume",
        sizes=(16, 32, 64),
        size_is="n",
        draw=lambda rng: rng.integers(12, 65),
        make=lambda n, rng: {"left": normal(rng, 2, 32, n, n), "right": normal(rng, 2, 32, n, n)},
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


# --- bilateral slice and apply ---------------------------------------------------

GRID, DEPTH = 16, 8


def bilateral() -> Op:
    """Affine colour maps sliced from a 16 x 16 x 8 grid at a guide, applied to 3 x n x n."""

    def make(n: int, rng: np.random.Generator) -> Inputs:
        return {
            "grid": normal(rng, 3, 4, DEPTH, GRID, GRID),
            "guide": rng.random((n, n), dtype=np.float32),
            "image": normal(rng, 3, n, n),
        }

    def define(grid: Any, guide: Any, image: Any) -> Any:
        from iverson import te

        n = guide.shape[0]
        cell = n // GRID
        axes = k, d, v, u = [te.reduce_axis((0, m), a) for a, m in zip("kdvu", (4, 2, 2, 2), strict=True)]

        def weight(side: Any, upper: Any) -> Any:
            return te.select(side < 1, 1 - upper, upper)

        def along(p: Any, side: Any) -> tuple[Any, Any]:
            """A grid line next to a pixel's centre, and its weight."""
            place = 2 * p + 1 - cell
            upper = (place % (2 * cell)).astype("float32") * (0.5 / cell)
            return te.clamp(place // (2 * cell) + side, 0, GRID - 1), weight(side, upper)

        depth = te.compute((n, n), lambda y, x: guide[y, x] * DEPTH - 0.5, "depth")
        low = te.compute((n, n), lambda y, x: te.F.floor(depth[y, x]).astype("int64"), "low")

        def entry(c: Any, y: Any, x: Any) -> Any:
            z = te.clamp(low[y, x] + d, 0, DEPTH - 1)
            near = weight(d, depth[y, x] - low[y, x].astype("float32"))
            (row, p), (column, q) = along(y, v), along(x, u)
            colour = te.select(k < 3, image[te.clamp(k, 0, 2), y, x], 1)
            return te.sum(grid[c, k, z, row, column] * (near * (p * q) * colour), axis=axes)

        return te.compute(image.shape, entry, "applied")

    def with_torch(grid: Any, guide: Any, image: Any) -> Any:
        import torch

        n = guide.shape[0]
        line = (torch.arange(n) + 0.5) * (2 / n) - 1
        y, x = torch.meshgrid(line, line, indexing="ij")
        at = torch.stack([x, y, 2 * guide - 1], -1)[None, None]
        maps = torch.nn.functional.grid_sample(
            grid.reshape(1, 12, DEPTH, GRID, GRID), at, padding_mode="border", align_corners=False
        ).reshape(3, 4, n, n)
        return (maps[:, :3] * image).sum(1) + maps[:, 3]

    def with_jax(grid: Any, guide: Any, image: Any) -> Any:
        import jax.numpy as jnp

        n = guide.shape[0]
        line = (jnp.arange(n) + 0.5) * (GRID / n) - 0.5
        places = (guide * DEPTH - 0.5, line[:, None], line[None, :])
        sides = []
        for place, extent in zip(places, (DEPTH, GRID, GRID), strict=True):
            low = jnp.floor(place)
            whole, upper = low.astype("int32"), place - low
            sides.append(
                [
                    (jnp.clip(whole, 0, extent - 1), 1 - upper),
                    (jnp.clip(whole + 1, 0, extent - 1), upper),
                ]
            )
        maps = sum(
            d * q * r * grid[:, :, w, v, u] for w, d in sides[0] for v, q in sides[1] for u, r in sides[2]
        )
        return (maps[:, :3] * image).sum(1) + maps[:, 3]

    return Op(
        name="te_bilateral",
        sizes=(128, 256, 512),
        size_is="n",
        draw=lambda rng: GRID * rng.integers(6, 33),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        kinked=True,
        target=TARGET,
        group="composite",
    )


# --- involution ------------------------------------------------------------------


def involution() -> Op:
    """2 x 32 x n x n: a 7 x 7 kernel for each pixel and each group of 16 channels."""

    def define(image: Any, kernels: Any) -> Any:
        from iverson import te

        u, v = te.reduce_axis((0, 7), "u"), te.reduce_axis((0, 7), "v")

        def entry(b: Any, g: Any, c: Any, y: Any, x: Any) -> Any:
            near = inside(lambda p, q: image[b, g, c, p, q], y + u - 3, x + v - 3, image.shape)
            return te.sum(near * kernels[b, g, u, v, y, x], axis=(u, v))

        return te.compute(image.shape, entry, "involved")

    def with_torch(image: Any, kernels: Any) -> Any:
        import torch

        b, g, c, h, w = image.shape
        patches = torch.nn.functional.unfold(image.reshape(b, g * c, h, w), 7, padding=3)
        products = patches.reshape(b, g, c, 49, h, w) * kernels.reshape(b, g, 1, 49, h, w)
        return products.sum(3)

    def with_jax(image: Any, kernels: Any) -> Any:
        import jax.numpy as jnp

        h, w = image.shape[3:]
        wide = padded(image, 3, jnp)
        return sum(
            wide[..., u : u + h, v : v + w] * kernels[:, :, None, u, v] for u in range(7) for v in range(7)
        )

    return Op(
        name="te_involution",
        sizes=(14, 28, 56),
        size_is="n",
        draw=lambda rng: rng.integers(12, 57),
        make=lambda n, rng: {
            "image": normal(rng, 2, 2, 16, n, n),
            "kernels": normal(rng, 2, 2, 7, 7, n, n),
        },
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


# --- heat ------------------------------------------------------------------------


def heat() -> Op:
    """10 steps of the five-point stencil on n x n, 0 outside."""

    def define(field: Any) -> Any:
        from iverson import te

        n = field.shape[0]

        def step(t: Any, k: int) -> Any:
            def entry(y: Any, x: Any) -> Any:
                near = lambda p, q: inside(lambda y, x: t[y, x], p, q, (n, n))
                around = near(y - 1, x) + near(y + 1, x) + near(y, x - 1) + near(y, x + 1)
                return 0.6 * t[y, x] + 0.1 * around

            return te.compute((n, n), entry, f"step{k}")

        for k in range(10):
            field = step(field, k)
        return field

    def composed(field: Any, xp: Any) -> Any:
        for _ in range(10):
            wide = padded(field, 1, xp)
            around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
            field = 0.6 * field + 0.1 * around
        return field

    def with_torch(field: Any) -> Any:
        import torch

        return composed(field, torch)

    def with_jax(field: Any) -> Any:
        import jax.numpy as jnp

        return composed(field, jnp)

    return Op(
        name="te_heat",
        sizes=(128, 512, 1024),
        size_is="n",
        draw=lambda rng: rng.integers(100, 1025),
        make=lambda n, rng: {"field": normal(rng, n, n)},
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


# --- local response norm ---------------------------------------------------------


def response_norm() -> Op:
    """batch x 64 x 56 x 56, over 5 neighbouring channels."""

    def define(image: Any) -> Any:
        from iverson import te

        d = te.reduce_axis((0, 5), "d")

        def energy(b: Any, c: Any, y: Any, x: Any) -> Any:
            k = c + d - 2
            e = te.if_then_else((k >= 0) & (k < 64), image[b, k, y, x] * image[b, k, y, x], 0)
            return te.sum(e, axis=d)

        s = te.compute(image.shape, energy, "energy")
        return te.compute(
            image.shape,
            lambda b, c, y, x: image[b, c, y, x] * te.F.pow(1 + 2e-5 * s[b, c, y, x], -0.75),
            "normed",
        )

    def with_torch(image: Any) -> Any:
        import torch

        return torch.nn.functional.local_response_norm(image, 5)

    def with_jax(image: Any) -> Any:
        import jax.numpy as jnp

        squares = jnp.pad(image * image, ((0, 0), (2, 2), (0, 0), (0, 0)))
        energy = sum(squares[:, d : d + 64] for d in range(5))
        return image * (1 + 2e-5 * energy) ** -0.75

    return Op(
        name="te_response_norm",
        sizes=(1, 3, 8),
        size_is="batch",
        draw=lambda rng: rng.integers(2, 9),
        make=lambda batch, rng: {"image": normal(rng, batch, 64, 56, 56)},
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=TARGET,
        group="composite",
    )


OPS = (
    kernel_prediction(),
    cost_volume(),
    bilateral(),
    involution(),
    heat(),
    response_norm(),
)
WORKLOADS = tuple(workload for op in OPS for workload in pair(op))
