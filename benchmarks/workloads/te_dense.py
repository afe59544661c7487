"""Tensor expressions against hand-tuned kernels: convolutions, pooling, resampling, a matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.expressions import Op, pair
from benchmarks.workload import Inputs


def peers(ratio: float) -> dict[str, float]:
    """The same target against every peer."""
    return dict.fromkeys(("torch", "torch compile", "jax"), ratio)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


# --- convolutions ----------------------------------------------------------------


def conv2d(stride: int, dilation: int, *, name: str) -> Op:
    """batch x 32 x 56 x 56 to 64 channels, 3 x 3."""

    def make(batch: int, rng: np.random.Generator) -> Inputs:
        return {"image": normal(rng, batch, 32, 56, 56), "kernel": normal(rng, 64, 32, 3, 3)}

    def define(image: Any, kernel: Any) -> Any:
        from iverson import te

        k, y, x = (te.reduce_axis((0, n), v) for n, v in ((32, "k"), (3, "y"), (3, "x")))
        n = (56 - 2 * dilation - 1) // stride + 1
        return te.compute(
            (image.shape[0], 64, n, n),
            lambda b, f, h, w: te.sum(
                image[b, k, stride * h + dilation * y, stride * w + dilation * x] * kernel[f, k, y, x],
                axis=(k, y, x),
            ),
            "conv",
        )

    def with_torch(image: Any, kernel: Any) -> Any:
        import torch

        return torch.conv2d(image, kernel, stride=stride, dilation=dilation)

    def with_jax(image: Any, kernel: Any) -> Any:
        import jax

        strides, dilations = (stride, stride), (dilation, dilation)
        return jax.lax.conv_general_dilated(image, kernel, strides, "VALID", rhs_dilation=dilations)

    return Op(
        name=name,
        sizes=(1, 3, 8),
        size_is="batch",
        draw=lambda rng: rng.integers(2, 9),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=peers(1.5),
    )


def conv1d() -> Op:
    """8 x 64 x length to 64 channels, 5 taps, stride 3, dilation 2."""

    def make(length: int, rng: np.random.Generator) -> Inputs:
        return {"signal": normal(rng, 8, 64, length), "kernel": normal(rng, 64, 64, 5)}

    def define(signal: Any, kernel: Any) -> Any:
        from iverson import te

        k, x = te.reduce_axis((0, 64), "k"), te.reduce_axis((0, 5), "x")
        return te.compute(
            (8, 64, (signal.shape[2] - 9) // 3 + 1),
            lambda b, f, w: te.sum(signal[b, k, 3 * w + 2 * x] * kernel[f, k, x], axis=(k, x)),
            "conv",
        )

    def with_torch(signal: Any, kernel: Any) -> Any:
        import torch

        return torch.conv1d(signal, kernel, stride=3, dilation=2)

    def with_jax(signal: Any, kernel: Any) -> Any:
        import jax

        return jax.lax.conv_general_dilated(signal, kernel, (3,), "VALID", rhs_dilation=(2,))

    return Op(
        name="te_conv1d",
        sizes=(512, 2048, 4096),
        size_is="length",
        draw=lambda rng: rng.integers(300, 4097),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=peers(1.0),
    )


def depthwise() -> Op:
    """batch x 128 x 56 x 56, a 3 x 3 kernel for each channel."""

    def make(batch: int, rng: np.random.Generator) -> Inputs:
        return {"image": normal(rng, batch, 128, 56, 56), "kernel": normal(rng, 128, 1, 3, 3)}

    def define(image: Any, kernel: Any) -> Any:
        from iverson import te

        y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
        return te.compute(
            (image.shape[0], 128, 54, 54),
            lambda b, c, h, w: te.sum(image[b, c, h + y, w + x] * kernel[c, 0, y, x], axis=(y, x)),
            "conv",
        )

    def with_torch(image: Any, kernel: Any) -> Any:
        import torch

        return torch.conv2d(image, kernel, groups=128)

    def with_jax(image: Any, kernel: Any) -> Any:
        import jax

        return jax.lax.conv_general_dilated(image, kernel, (1, 1), "VALID", feature_group_count=128)

    return Op(
        name="te_depthwise",
        sizes=(1, 3, 8),
        size_is="batch",
        draw=lambda rng: rng.integers(2, 9),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=peers(0.7),
    )


# --- windows and resampling ------------------------------------------------------


def max_pool() -> Op:
    """batch x 64 x 112 x 112, windows of 3 x 3, stride 2."""

    def make(batch: int, rng: np.random.Generator) -> Inputs:
        return {"image": normal(rng, batch, 64, 112, 112)}

    def define(image: Any) -> Any:
        from iverson import te

        y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
        return te.compute(
            (image.shape[0], 64, 55, 55),
            lambda b, c, h, w: te.max(image[b, c, 2 * h + y, 2 * w + x], axis=(y, x)),
            "pool",
        )

    def with_torch(image: Any) -> Any:
        import torch

        return torch.max_pool2d(image, 3, 2)

    def with_jax(image: Any) -> Any:
        import jax

        return jax.lax.reduce_window(image, -np.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "VALID")

    return Op(
        name="te_max_pool",
        sizes=(2, 6, 16),
        size_is="batch",
        draw=lambda rng: rng.integers(1, 17),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=peers(0.3),
    )


def bilinear() -> Op:
    """batch x 32 x 64 x 64 to twice the height and width, half-pixel centres."""

    def make(batch: int, rng: np.random.Generator) -> Inputs:
        return {"image": normal(rng, batch, 32, 64, 64)}

    def define(image: Any) -> Any:
        from iverson import te

        def at(o: Any) -> list[tuple[Any, Any]]:
            """The two entries that an output lies between, with their weights."""
            near = te.select(o % 2 < 1, 0.75, 0.25)
            return [
                (te.clamp((o - 1) // 2, 0, 63), 1 - near),
                (te.clamp((o + 1) // 2, 0, 63), near),
            ]

        return te.compute(
            (image.shape[0], 32, 128, 128),
            lambda b, c, h, w: sum(p * sum(q * image[b, c, y, x] for x, q in at(w)) for y, p in at(h)),
            "up",
        )

    def with_torch(image: Any) -> Any:
        import torch

        return torch.nn.functional.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)

    def with_jax(image: Any) -> Any:
        import jax

        return jax.image.resize(image, (*image.shape[:2], 128, 128), "bilinear")

    return Op(
        name="te_bilinear",
        sizes=(1, 3, 8),
        size_is="batch",
        draw=lambda rng: rng.integers(2, 9),
        make=make,
        define=define,
        torch=with_torch,
        jax=with_jax,
        target=peers(0.7),
    )


def matmul() -> Op:
    """n x n by n x n."""

    def define(a: Any, b: Any) -> Any:
        from iverson import te

        n = a.shape[0]
        k = te.reduce_axis((0, n), "k")
        return te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "product")

    return Op(
        name="te_matmul",
        sizes=(128, 256, 512),
        size_is="n",
        draw=lambda rng: rng.integers(100, 600),
        make=lambda n, rng: {"a": normal(rng, n, n), "b": normal(rng, n, n)},
        define=define,
        torch=lambda a, b: a @ b,
        jax=lambda a, b: a @ b,
        target=peers(1.1),
    )


OPS = (
    conv2d(1, 1, name="te_conv2d"),
    conv2d(2, 1, name="te_conv2d_strided"),
    conv2d(1, 2, name="te_conv2d_dilated"),
    conv1d(),
    depthwise(),
    max_pool(),
    bilinear(),
    matmul(),
)
WORKLOADS = tuple(workload for op in OPS for workload in pair(op))
