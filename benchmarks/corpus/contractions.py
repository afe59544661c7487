"""Products, convolutions, windows and their inverses."""

from __future__ import annotations

from typing import Any

from benchmarks.corpus.rows import either, row

# --- products --------------------------------------------------------------------


def bilinear_form(x: Any, w: Any, y: Any) -> Any:
    import torch

    return torch.nn.functional.bilinear(x, y, w)


def jax_bilinear_form(x: Any, w: Any, y: Any) -> Any:
    import jax.numpy as jnp

    return jnp.einsum("bi,oij,bj->bo", x, w, y)


# --- convolutions ----------------------------------------------------------------


def grouped(x: Any, w: Any) -> Any:
    import torch

    return torch.conv2d(x, w, groups=2)


def jax_grouped(x: Any, w: Any) -> Any:
    import jax

    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=2)


def conv3d(x: Any, w: Any) -> Any:
    import torch

    return torch.conv3d(x, w)


def jax_conv3d(x: Any, w: Any) -> Any:
    import jax

    return jax.lax.conv_general_dilated(x, w, (1, 1, 1), "VALID")


def transposed(padding: int) -> dict[str, Any]:
    """Of stride 2."""

    def with_torch(x: Any, w: Any) -> Any:
        import torch

        return torch.conv_transpose2d(x, w, stride=2, padding=padding)

    def with_jax(x: Any, w: Any) -> Any:
        import jax

        turned, around = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1], w.shape[2] - 1 - padding
        return jax.lax.conv_general_dilated(x, turned, (1, 1), [(around, around)] * 2, lhs_dilation=(2, 2))

    return {"torch": with_torch, "jax": with_jax}


# --- windows ---------------------------------------------------------------------


def unfold(x: Any) -> Any:
    import torch

    b, c, h, w = x.shape
    return torch.nn.functional.unfold(x, 3).reshape(b, c, 3, 3, h - 2, w - 2)


def jax_unfold(x: Any) -> Any:
    import jax

    b, c, h, w = x.shape
    patches = jax.lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "VALID")
    return patches.reshape(b, c, 3, 3, h - 2, w - 2)


def fold(x: Any) -> Any:
    import torch

    b, c, r, s, h, w = x.shape
    return torch.nn.functional.fold(x.reshape(b, c * r * s, h * w), (h + 2, w + 2), 3)


def jax_fold(x: Any) -> Any:
    import jax.numpy as jnp

    b, c, _, _, h, w = x.shape
    out = jnp.zeros((b, c, h + 2, w + 2), x.dtype)
    for r in range(3):
        for s in range(3):
            out = out.at[:, :, r : r + h, s : s + w].add(x[:, :, r, s])
    return out


def average_pool(x: Any) -> Any:
    import torch

    return torch.nn.functional.avg_pool2d(x, 2)


def jax_average_pool(x: Any) -> Any:
    import jax

    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") / 4


OPS = (
    row(
        "mttkrp",
        "n",
        (24, 64, 128),
        lambda n: {"x": (n, n, n), "a": (n, 16), "b": (n, 16)},
        **either(lambda xp, x, a, b: xp.einsum("ijk,jr,kr->ir", x, a, b)),
    ),
    row(
        "ttm",
        "n",
        (24, 64, 128),
        lambda n: {"x": (n, n, n), "u": (n, 16)},
        **either(lambda xp, x, u: xp.einsum("ijk,kr->ijr", x, u)),
    ),
    row(
        "bilinear_form",
        "batch",
        (16, 64, 256),
        lambda n: {"x": (n, 48), "w": (32, 48, 48), "y": (n, 48)},
        bilinear_form,
        jax_bilinear_form,
    ),
    row(
        "triangular_product",
        "n",
        (64, 512, 2048),
        lambda n: {"a": (n, n), "x": (n,)},
        **either(lambda xp, a, x: xp.tril(a) @ x),
    ),
    row(
        "conv2d_grouped",
        "batch",
        (1, 3, 8),
        lambda n: {"x": (n, 4, 28, 28), "w": (6, 2, 3, 3)},
        grouped,
        jax_grouped,
    ),
    row(
        "conv3d",
        "batch",
        (1, 2, 4),
        lambda n: {"x": (n, 8, 16, 16, 16), "w": (16, 8, 3, 3, 3)},
        conv3d,
        jax_conv3d,
    ),
    *(
        row(
            f"transposed_{form}",
            "batch",
            (1, 3, 8),
            lambda n, taps=taps: {"x": (n, 16, 16, 16), "w": (16, 16, taps, taps)},
            **transposed(padding),
        )
        for form, taps, padding in (("gather", 4, 1), ("digits", 2, 0), ("scatter", 4, 0))
    ),
    row("unfold", "batch", (1, 4, 16), lambda n: {"x": (n, 8, 32, 32)}, unfold, jax_unfold),
    row("fold", "batch", (1, 4, 16), lambda n: {"x": (n, 8, 3, 3, 30, 30)}, fold, jax_fold),
    row(
        "average_pool", "batch", (2, 6, 16), lambda n: {"x": (n, 64, 56, 56)}, average_pool, jax_average_pool
    ),
)
