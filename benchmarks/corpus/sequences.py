"""Normalisations, attention, recurrences."""

from __future__ import annotations

from typing import Any

from benchmarks.corpus.rows import either, indices, row, scaled

# --- normalisations and losses ---------------------------------------------------


def softmax(x: Any) -> Any:
    return x.softmax(1)


def jax_softmax(x: Any) -> Any:
    import jax

    return jax.nn.softmax(x)


def cross_entropy(x: Any, label: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(x, label, reduction="none")


def jax_cross_entropy(x: Any, label: Any) -> Any:
    import jax

    return jax.nn.logsumexp(x, axis=1) - jax.numpy.take_along_axis(x, label[:, None], 1)[:, 0]


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[1:], w, b)


def jax_layer_norm(x: Any, w: Any, b: Any) -> Any:
    import jax

    centred = x - x.mean(1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b


def group_norm(x: Any, w: Any, b: Any) -> Any:
    import torch

    return torch.nn.functional.group_norm(x, 4, w, b)


def jax_group_norm(x: Any, w: Any, b: Any) -> Any:
    import jax

    groups = x.reshape(x.shape[0], 4, -1)
    centred = groups - groups.mean(2, keepdims=True)
    normed = centred * jax.lax.rsqrt((centred**2).mean(2, keepdims=True) + 1e-5)
    return normed.reshape(x.shape) * w[:, None, None] + b[:, None, None]


def rms_norm(x: Any, w: Any) -> Any:
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[1:], w, 1e-5)


def jax_rms_norm(x: Any, w: Any) -> Any:
    import jax

    return x * jax.lax.rsqrt((x**2).mean(1, keepdims=True) + 1e-5) * w


# --- attention -------------------------------------------------------------------


def attend(kept: str) -> dict[str, Any]:
    """``kept`` : all keys, causal ones or a window of 9."""

    def mask(xp: Any, n: int) -> Any:
        i, j = xp.arange(n)[:, None], xp.arange(n)[None]
        return j <= i if kept == "causal" else abs(i - j) <= 4

    def with_torch(q: Any, k: Any, v: Any) -> Any:
        import torch

        attention = torch.nn.functional.scaled_dot_product_attention
        given = [x[None, None] for x in (q, k, v)]
        if kept == "window":
            return attention(*given, attn_mask=mask(torch, len(q)))[0, 0]
        return attention(*given, is_causal=kept == "causal")[0, 0]

    def with_jax(q: Any, k: Any, v: Any) -> Any:
        import jax
        import jax.numpy as jnp

        scores = q @ k.T * q.shape[1] ** -0.5
        if kept != "all":
            scores = jnp.where(mask(jnp, len(q)), scores, -1e9)
        return jax.nn.softmax(scores) @ v

    return {"torch": with_torch, "jax": with_jax}


def _rotated(xp: Any, x: Any) -> Any:
    _, t, n = x.shape
    half = n // 2
    angle = xp.arange(t)[:, None] * xp.exp(xp.arange(half)[None] * (-2 * 9.210340371976184 / n))
    cos, sin = xp.cos(angle), xp.sin(angle)
    low, high = x[..., :half], x[..., half:]
    return xp.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


# --- cells -----------------------------------------------------------------------


def lstm_cell(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    import torch

    return torch.lstm_cell(x, (h, c), w.T, u.T, b, torch.zeros_like(b))[0]


def jax_lstm_cell(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    import jax

    i, f, g, o = jax.numpy.split(x @ w + h @ u + b, 4, axis=1)
    new = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
    return jax.nn.sigmoid(o) * jax.numpy.tanh(new)


def gru_cell(x: Any, h: Any, w: Any, u: Any) -> Any:
    import torch

    return torch.gru_cell(x, h, w.T, u.T)


def jax_gru_cell(x: Any, h: Any, w: Any, u: Any) -> Any:
    import jax

    (a, b, c), (p, q, r) = (jax.numpy.split(z, 3, axis=1) for z in (x @ w, h @ u))
    reset, z = jax.nn.sigmoid(a + p), jax.nn.sigmoid(b + q)
    return (1 - z) * jax.numpy.tanh(c + reset * r) + z * h


# --- recurrences -----------------------------------------------------------------


def recurrence(x: Any, a: Any) -> Any:
    import torch

    s, found = torch.zeros_like(a), []
    for given in x:
        s = a * s + given
        found.append(s)
    return torch.stack(found)


def jax_recurrence(x: Any, a: Any) -> Any:
    import jax

    def step(s: Any, row: Any) -> Any:
        s = a * s + row
        return s, s

    return jax.lax.scan(step, jax.numpy.zeros_like(a), x)[1]


def numba_recurrence() -> Any:
    import numba
    import numpy as np

    @numba.njit
    def forward(x: Any, a: Any) -> Any:
        y = np.empty_like(x)
        for i in range(x.shape[1]):
            y[0, i] = x[0, i]
        for t in range(1, x.shape[0]):
            for i in range(x.shape[1]):
                y[t, i] = a[i] * y[t - 1, i] + x[t, i]
        return y

    @numba.njit
    def backward(x: Any, a: Any, head: Any) -> Any:
        y = forward(x, a)
        dx, da = np.empty_like(x), np.zeros_like(a)
        g = np.zeros_like(a)
        for t in range(x.shape[0] - 1, -1, -1):
            for i in range(x.shape[1]):
                g[i] = head[t, i] + a[i] * g[i]
                dx[t, i] = g[i]
                if t:
                    da[i] += g[i] * y[t - 1, i]
        return y, dx, da

    return forward, backward


def _filtered(m: Any, p: Any, x: Any) -> Any:
    gain = (p + 0.1) / (p + 0.1 + x**2)
    return m + gain * (x - m), (1 - gain) * (p + 0.1)


def kalman(x: Any) -> Any:
    import torch

    m, p, found = torch.zeros_like(x[0]), torch.ones_like(x[0]), []
    for given in x:
        m, p = _filtered(m, p, given)
        found.append(m)
    return torch.stack(found)


def jax_kalman(x: Any) -> Any:
    import jax

    def step(state: Any, row: Any) -> Any:
        m, p = _filtered(*state, row)
        return (m, p), m

    start = jax.numpy.zeros_like(x[0]), jax.numpy.ones_like(x[0])
    return jax.lax.scan(step, start, x)[1]


def ctc(x: Any, label: Any) -> Any:
    import torch

    steps, batch, _ = x.shape
    lengths = [torch.full((batch,), n) for n in (steps, label.shape[1])]
    return torch.nn.functional.ctc_loss(x.log_softmax(2), label + 1, *lengths, reduction="none")


def jax_ctc(x: Any, label: Any) -> Any:
    import jax
    import jax.numpy as jnp

    batch, far = label.shape[0], -1e9
    own = jnp.zeros((batch, 2 * label.shape[1] + 1), label.dtype).at[:, 1::2].set(label + 1)
    other = (own > 0) & (own != jnp.pad(own, ((0, 0), (2, 0)))[:, :-2]).at[:, :2].set(False)
    given = jnp.take_along_axis(jax.nn.log_softmax(x), own[None], 2)

    def behind(alpha: Any, by: int) -> Any:
        return jnp.pad(alpha, ((0, 0), (by, 0)), constant_values=far)[:, :-by]

    def step(alpha: Any, row: Any) -> Any:
        two = jnp.where(other, behind(alpha, 2), far)
        return row + jax.nn.logsumexp(jnp.stack([alpha, behind(alpha, 1), two]), axis=0), None

    alpha = jax.lax.scan(step, given[0].at[:, 2:].set(far), given[1:])[0]
    return -jnp.logaddexp(alpha[:, -1], alpha[:, -2])


def _rows(name: str, torch: Any, jax: Any, *more: str) -> Any:
    """256 features."""
    return row(
        name, "rows", (32, 512, 4096), lambda n: {"x": (n, 256), **dict.fromkeys(more, (256,))}, torch, jax
    )


OPS = (
    _rows("softmax", softmax, jax_softmax),
    _rows("layer_norm", layer_norm, jax_layer_norm, "w", "b"),
    _rows("rms_norm", rms_norm, jax_rms_norm, "w"),
    row(
        "group_norm",
        "batch",
        (1, 8, 32),
        lambda n: {"x": (n, 32, 28, 28), "w": (32,), "b": (32,)},
        group_norm,
        jax_group_norm,
    ),
    row(
        "cross_entropy",
        "rows",
        (32, 256, 1024),
        lambda n: {"x": (n, 1000), "label": indices(1000, n)},
        cross_entropy,
        jax_cross_entropy,
    ),
    *(
        row(
            f"{name}attention",
            "length",
            (64, 256, 512),
            lambda n: dict.fromkeys("qkv", (n, 64)),
            **attend(kept),
        )
        for name, kept in (("", "all"), ("causal_", "causal"), ("windowed_", "window"))
    ),
    row("rope", "length", (32, 256, 1024), lambda n: {"x": (8, n, 64)}, **either(_rotated)),
    row(
        "lstm_cell",
        "batch",
        (1, 16, 64),
        lambda n: {
            **dict.fromkeys("xhc", (n, 64)),
            "w": scaled(0.1, 64, 256),
            "u": scaled(0.1, 64, 256),
            "b": (256,),
        },
        lstm_cell,
        jax_lstm_cell,
    ),
    row(
        "gru_cell",
        "batch",
        (1, 16, 64),
        lambda n: {**dict.fromkeys("xh", (n, 64)), "w": scaled(0.1, 64, 192), "u": scaled(0.1, 64, 192)},
        gru_cell,
        jax_gru_cell,
    ),
    row(
        "linear_recurrence",
        "steps",
        (64, 512, 2048),
        lambda n: {"x": (n, 16), "a": scaled(0.3, 16)},
        recurrence,
        jax_recurrence,
        numba=numba_recurrence,
        unrolled=True,
    ),
    row("kalman", "steps", (64, 256, 1024), lambda n: {"x": (n, 16)}, kalman, jax_kalman, unrolled=True),
    row(
        "ctc",
        "steps",
        (32, 100, 256),
        lambda n: {"x": (n, 8, 32), "label": indices(31, 8, 12)},
        ctc,
        jax_ctc,
    ),
)
