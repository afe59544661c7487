"""Kernels of the literature as tensor expressions, small: what laws about all of te are held on.

Each is said as its users say it. Those that a benchmark has are the benchmark's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.workloads import te_images, te_pairs, te_recurrences, te_segments
from iverson import te

Inputs = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Kernel:
    """A definition, and what makes inputs for it."""

    define: Callable[..., Any]
    make: Callable[[np.random.Generator], Inputs]

    def built(self) -> tuple[list[te.Placeholder], tuple[te.Tensor, ...], Inputs]:
        """Placeholders, outputs and values of the inputs."""
        values = self.make(np.random.default_rng(0))
        given = [te.placeholder(a.shape, a.dtype.name, n) for n, a in values.items()]
        made = self.define(*given)
        return given, made if isinstance(made, tuple) else (made,), values


KERNELS: dict[str, Kernel] = {}


def kernel(**shapes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a definition, with shapes of normal inputs, or functions of a generator that draw them."""

    def make(rng: np.random.Generator) -> Inputs:
        return {n: np.asarray(s(rng) if callable(s) else rng.standard_normal(s)) for n, s in shapes.items()}

    def enter(define: Callable[..., Any]) -> Callable[..., Any]:
        KERNELS[define.__name__] = Kernel(define, make)
        return define

    return enter


def indices(n: int, *shape: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.integers(0, n, shape)


def positive(*shape: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.uniform(0.5, 1.5, shape)


def places(*shape: int, upto: float) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.uniform(0.1, upto, shape)


def axes(*extents: int) -> list[Any]:
    return [te.reduce_axis((0, n)) for n in extents]


def _benchmark(op: Any, size: int) -> None:
    def make(rng: np.random.Generator) -> Inputs:
        found = op.make(size, rng)
        return {n: a.astype("float64") if a.dtype.kind == "f" else a for n, a in found.items()}

    KERNELS[op.name.removeprefix("te_")] = Kernel(op.define, make)


# --- contractions ------------------------------------------------------------------------------------


@kernel(a=(12, 16), b=(16, 20))
def matmul(a: Any, b: Any) -> Any:
    (n, own), m = a.shape, b.shape[1]
    (k,) = axes(own)
    return te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], k))


@kernel(x=(8, 10, 12), a=(10, 6), b=(12, 6))
def mttkrp(x: Any, a: Any, b: Any) -> Any:
    n, *own = x.shape
    j, k = axes(*own)
    return te.compute((n, a.shape[1]), lambda i, r: te.sum(x[i, j, k] * a[j, r] * b[k, r], (j, k)))


@kernel(x=(8, 10, 12), u=(12, 6))
def ttm(x: Any, u: Any) -> Any:
    n, m, own = x.shape
    (k,) = axes(own)
    return te.compute((n, m, u.shape[1]), lambda i, j, r: te.sum(x[i, j, k] * u[k, r], k))


@kernel(x=(12, 8), w=(10, 8, 6), y=(12, 6))
def bilinear_form(x: Any, w: Any, y: Any) -> Any:
    m, *own = w.shape
    i, j = axes(*own)
    return te.compute((x.shape[0], m), lambda b, o: te.sum(x[b, i] * w[o, i, j] * y[b, j], (i, j)))


@kernel(a=(16, 16), x=(16,))
def triangular_product(a: Any, x: Any) -> Any:
    (k,) = axes(*x.shape)
    return te.compute(x.shape, lambda i: te.sum(te.bracket(k <= i) * a[i, k] * x[k], k))


# --- convolutions ------------------------------------------------------------------------------------


def _conv2d(x: Any, w: Any, stride: int, dilation: int, groups: int) -> Any:
    b, _, h, v = x.shape
    f, own, p, q = w.shape
    k, r, s = axes(own, p, q)
    shape = (b, f, (h - dilation * (p - 1) - 1) // stride + 1, (v - dilation * (q - 1) - 1) // stride + 1)

    def entry(n: Any, o: Any, i: Any, j: Any) -> Any:
        at = x[n, k + (o // (f // groups)) * own, stride * i + dilation * r, stride * j + dilation * s]
        return te.sum(at * w[o, k, r, s], (k, r, s))

    return te.compute(shape, entry)


@kernel(x=(2, 3, 12, 12), w=(4, 3, 3, 3))
def conv2d(x: Any, w: Any) -> Any:
    return _conv2d(x, w, 1, 1, 1)


@kernel(x=(2, 3, 13, 13), w=(4, 3, 3, 3))
def conv2d_strided(x: Any, w: Any) -> Any:
    return _conv2d(x, w, 2, 1, 1)


@kernel(x=(2, 3, 13, 13), w=(4, 3, 3, 3))
def conv2d_dilated(x: Any, w: Any) -> Any:
    return _conv2d(x, w, 1, 2, 1)


@kernel(x=(2, 4, 12, 12), w=(6, 2, 3, 3))
def conv2d_grouped(x: Any, w: Any) -> Any:
    return _conv2d(x, w, 1, 1, 2)


@kernel(x=(2, 4, 12, 12), w=(4, 3, 3))
def depthwise(x: Any, w: Any) -> Any:
    r, s = axes(3, 3)
    return te.compute((2, 4, 10, 10), lambda n, c, i, j: te.sum(x[n, c, i + r, j + s] * w[c, r, s], (r, s)))


@kernel(x=(2, 4, 30), w=(6, 4, 5))
def conv1d(x: Any, w: Any) -> Any:
    k, r = axes(4, 5)
    return te.compute((2, 6, 8), lambda n, f, i: te.sum(x[n, k, 3 * i + 2 * r] * w[f, k, r], (k, r)))


@kernel(x=(1, 2, 8, 8, 8), w=(3, 2, 3, 3, 3))
def conv3d(x: Any, w: Any) -> Any:
    f, *own = w.shape
    k, r, s, t = axes(*own)
    shape = (x.shape[0], f, *(n - m + 1 for n, m in zip(x.shape[2:], own[1:], strict=True)))

    def entry(n: Any, f: Any, i: Any, j: Any, l: Any) -> Any:
        return te.sum(x[n, k, i + r, j + s, l + t] * w[f, k, r, s, t], (k, r, s, t))

    return te.compute(shape, entry)


@kernel(x=(2, 3, 8, 8), w=(3, 4, 4, 4))
def transposed_gather(x: Any, w: Any) -> Any:
    """Of stride 2, each output asks which inputs reach it."""
    k, r, s = axes(x.shape[1], 4, 4)
    h, v = 2 * x.shape[2], 2 * x.shape[3]

    def entry(n: Any, f: Any, y: Any, z: Any) -> Any:
        p, q = y + 1 - r, z + 1 - s
        reached = (p % 2 == 0) & (q % 2 == 0) & (p >= 0) & (p < h) & (q >= 0) & (q < v)
        return te.sum(te.if_then_else(reached, x[n, k, p // 2, q // 2], 0) * w[k, f, r, s], (k, r, s))

    return te.compute((x.shape[0], w.shape[1], h, v), entry)


@kernel(x=(2, 3, 8, 8), w=(3, 4, 2, 2))
def transposed_digits(x: Any, w: Any) -> Any:
    """Of stride 2 with a kernel of 2: one input reaches each output."""
    (k,) = axes(x.shape[1])
    return te.compute(
        (x.shape[0], w.shape[1], 2 * x.shape[2], 2 * x.shape[3]),
        lambda n, f, y, z: te.sum(x[n, k, y // 2, z // 2] * w[k, f, y % 2, z % 2], k),
    )


@kernel(x=(2, 3, 8, 8), w=(3, 4, 4, 4))
def transposed_scatter(x: Any, w: Any) -> Any:
    """Of stride 2, each input adds to the outputs that it reaches."""
    b, own, h, v = x.shape
    return te.scatter(
        (b, w.shape[1], 2 * h + 2, 2 * v + 2),
        (b, w.shape[1], own, h, v, 4, 4),
        lambda n, f, k, i, j, r, s: ((n, f, 2 * i + r, 2 * j + s), x[n, k, i, j] * w[k, f, r, s]),
    )


@kernel(x=(2, 3, 10, 10))
def unfold(x: Any) -> Any:
    b, own, h, v = x.shape
    return te.compute((b, own, 3, 3, h - 2, v - 2), lambda n, c, r, s, i, j: x[n, c, i + r, j + s])


@kernel(x=(2, 3, 3, 3, 8, 8))
def fold(x: Any) -> Any:
    b, own, *window, h, v = x.shape
    r, s = axes(*window)

    def entry(n: Any, c: Any, y: Any, z: Any) -> Any:
        i, j = y - r, z - s
        there = (i >= 0) & (i < h) & (j >= 0) & (j < v)
        return te.sum(te.if_then_else(there, x[n, c, r, s, i, j], 0), (r, s))

    return te.compute((b, own, h + 2, v + 2), entry)


# --- pictures ----------------------------------------------------------------------------------------


@kernel(x=(2, 3, 13, 13))
def max_pool(x: Any) -> Any:
    r, s = axes(3, 3)
    return te.compute((2, 3, 6, 6), lambda n, c, i, j: te.max(x[n, c, 2 * i + r, 2 * j + s], (r, s)))


@kernel(x=(2, 3, 12, 12))
def average_pool(x: Any) -> Any:
    r, s = axes(2, 2)
    shape = (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
    return te.compute(shape, lambda n, c, i, j: te.sum(x[n, c, 2 * i + r, 2 * j + s], (r, s)) / 4)


@kernel(x=(2, 12, 12))
def bilinear_resize(x: Any) -> Any:
    def at(o: Any) -> Any:
        near = te.select(o % 2 < 1, 0.75, 0.25)
        return [(te.clamp((o - 1) // 2, 0, 11), 1 - near), (te.clamp((o + 1) // 2, 0, 11), near)]

    return te.compute(
        (2, 24, 24), lambda c, y, z: sum(x[c, p, q] * (u * v) for p, u in at(y) for q, v in at(z))
    )


@kernel(x=(2, 10, 10))
def bicubic_resize(x: Any) -> Any:
    """Twice the size, by Keys' kernel with a = -0.75 (1981)."""
    r, s = axes(4, 4)
    c, h, v = x.shape

    def weight(o: Any, k: Any) -> Any:
        d = te.F.abs(k.astype(x.dtype) - (1.75 - 0.5 * (o % 2).astype(x.dtype)))
        inner = (1.25 * d - 2.25) * d * d + 1
        outer = ((-0.75 * d + 3.75) * d - 6) * d + 3
        return te.select(d <= 1, inner, te.select(d < 2, outer, 0.0))

    def entry(c: Any, y: Any, z: Any) -> Any:
        at = x[c, te.clamp((y + 1) // 2 + r - 2, 0, h - 1), te.clamp((z + 1) // 2 + s - 2, 0, v - 1)]
        return te.sum(at * (weight(y, r) * weight(z, s)), (r, s))

    return te.compute((c, 2 * h, 2 * v), entry)


def sampled(x: Any, c: Any, y: Any, z: Any) -> Any:
    """Between the four entries around a place, 0 outside."""
    h, w = x.shape[1:]
    p, q = te.F.floor(y).astype("int64"), te.F.floor(z).astype("int64")
    u, v = y - te.F.floor(y), z - te.F.floor(z)
    total = 0.0
    for i, wy in ((p, 1 - u), (p + 1, u)):
        for j, wz in ((q, 1 - v), (q + 1, v)):
            there = (i >= 0) & (i < h) & (j >= 0) & (j < w)
            at = x[c, te.clamp(i, 0, h - 1), te.clamp(j, 0, w - 1)]
            total = total + te.select(there, at * (wy * wz), 0.0)
    return total


@kernel(x=(3, 12, 12), grid=places(10, 10, 2, upto=10.8))
def spatial_transformer(x: Any, grid: Any) -> Any:
    shape = (x.shape[0], *grid.shape[:2])
    return te.compute(shape, lambda c, i, j: sampled(x, c, grid[i, j, 0], grid[i, j, 1]))


@kernel(x=(2, 10, 10), offset=places(8, 8, 3, 3, 2, upto=0.8), w=(3, 2, 3, 3))
def deformable_conv(x: Any, offset: Any, w: Any) -> Any:
    f, *own = w.shape
    h, v = offset.shape[:2]
    c, r, s = axes(*own)

    def near(c: Any, i: Any, j: Any, r: Any, s: Any) -> Any:
        y = (i + r).astype(x.dtype) + offset[i, j, r, s, 0]
        z = (j + s).astype(x.dtype) + offset[i, j, r, s, 1]
        return sampled(x, c, y, z)

    columns = te.compute((own[0], h, v, *own[1:]), near)
    return te.compute((f, h, v), lambda f, i, j: te.sum(columns[c, i, j, r, s] * w[f, c, r, s], (c, r, s)))


@kernel(x=(14, 14))
def non_local_means(x: Any) -> Any:
    """Windows of 5 around each pixel, compared by patches of 3."""
    u, v, r, s = axes(5, 5, 3, 3)
    h, w = (n - 6 for n in x.shape)

    def distance(i: Any, j: Any, u: Any, v: Any) -> Any:
        d = x[i + 2 + r, j + 2 + s] - x[i + u + r, j + v + s]
        return te.sum(d * d, (r, s))

    weight = te.compute((h, w, 5, 5), lambda i, j, u, v: te.exp(-0.1 * distance(i, j, u, v)))
    total = te.compute((h, w), lambda i, j: te.sum(weight[i, j, u, v], (u, v)))
    near = te.compute((h, w), lambda i, j: te.sum(weight[i, j, u, v] * x[i + u + 1, j + v + 1], (u, v)))
    return te.compute((h, w), lambda i, j: near[i, j] / total[i, j])


@kernel(x=(12, 12), guide=positive(12, 12))
def bilateral_splat(x: Any, guide: Any) -> Any:
    """Pixels added to cells of a grid, at their place and their guide's depth."""
    h, w = x.shape
    depth = te.compute(x.shape, lambda i, j: te.clamp(te.F.floor(guide[i, j] * 4).astype("int64"), 0, 6))
    weight = te.compute(x.shape, lambda i, j: guide[i, j] * 4 - te.F.floor(guide[i, j] * 4))
    return te.scatter(
        (h // 4, w // 4, 8),
        (h, w, 2),
        lambda i, j, d: (
            (i // 4, j // 4, depth[i, j] + d),
            x[i, j] * te.select(d < 1, 1 - weight[i, j], weight[i, j]),
        ),
    )


# --- normalisations and losses -----------------------------------------------------------------------


def _softmax(x: Any, n: int, m: int) -> Any:
    (k,) = axes(m)
    top = te.compute((n,), lambda i: te.max(x[i, k], k))
    e = te.compute((n, m), lambda i, j: te.exp(x[i, j] - top[i]))
    total = te.compute((n,), lambda i: te.sum(e[i, k], k))
    return te.compute((n, m), lambda i, j: e[i, j] / total[i])


@kernel(x=(12, 20))
def softmax(x: Any) -> Any:
    return _softmax(x, *x.shape)


@kernel(x=(12, 20), label=indices(20, 12))
def cross_entropy(x: Any, label: Any) -> Any:
    n, m = x.shape
    (k,) = axes(m)
    top = te.compute((n,), lambda i: te.max(x[i, k], k))
    total = te.compute((n,), lambda i: te.sum(te.exp(x[i, k] - top[i]), k))
    return te.compute((n,), lambda i: te.log(total[i]) + top[i] - x[i, label[i]])


def _normalized(x: Any, w: Any, b: Any, n: int, m: int) -> Any:
    (k,) = axes(m)
    mean = te.compute((n,), lambda i: te.sum(x[i, k], k) / m)
    square = te.compute((n,), lambda i: te.sum((x[i, k] - mean[i]) * (x[i, k] - mean[i]), k) / m)
    scale = te.compute((n,), lambda i: 1 / te.sqrt(square[i] + 1e-5))
    return te.compute((n, m), lambda i, j: (x[i, j] - mean[i]) * scale[i] * w[j] + b[j])


@kernel(x=(12, 20), w=(20,), b=(20,))
def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return _normalized(x, w, b, *x.shape)


@kernel(x=(4, 8, 6, 6), w=(8,), b=(8,))
def group_norm(x: Any, w: Any, b: Any) -> Any:
    """Of 4 groups."""
    n, channels, h, v = x.shape
    own = channels // 4
    c, i, j = axes(own, h, v)
    m = own * h * v
    mean = te.compute((n, 4), lambda n, g: te.sum(x[n, own * g + c, i, j], (c, i, j)) / m)
    square = te.compute(
        (n, 4), lambda n, g: te.sum((x[n, own * g + c, i, j] - mean[n, g]) ** 2, (c, i, j)) / m
    )

    def entry(n: Any, c: Any, y: Any, z: Any) -> Any:
        g = c // own
        return (x[n, c, y, z] - mean[n, g]) / te.sqrt(square[n, g] + 1e-5) * w[c] + b[c]

    return te.compute(x.shape, entry)


@kernel(x=(12, 20), w=(20,))
def rms_norm(x: Any, w: Any) -> Any:
    n, m = x.shape
    (k,) = axes(m)
    square = te.compute((n,), lambda i: te.sum(x[i, k] * x[i, k], k) / m)
    return te.compute((n, m), lambda i, j: x[i, j] / te.sqrt(square[i] + 1e-5) * w[j])


@kernel(x=(2, 8, 6, 6))
def response_norm(x: Any) -> Any:
    (k,) = axes(5)

    def near(n: Any, c: Any, i: Any, j: Any) -> Any:
        at = c + k - 2
        return te.sum(te.if_then_else((at >= 0) & (at < 8), x[n, at, i, j], 0) ** 2, k)

    square = te.compute(x.shape, near)
    return te.compute(x.shape, lambda n, c, i, j: x[n, c, i, j] / (2 + 1e-4 * square[n, c, i, j]) ** 0.75)


# --- attention ---------------------------------------------------------------------------------------


def _attention(q: Any, k: Any, v: Any, kept: Any = None) -> Any:
    n, d = q.shape
    c, j = axes(d, n)
    score = te.compute((n, n), lambda i, j: te.sum(q[i, c] * k[j, c], c) * d**-0.5)
    masked = (
        score if kept is None else te.compute((n, n), lambda i, j: te.select(kept(i, j), score[i, j], -1e9))
    )
    p = _softmax(masked, n, n)
    return te.compute((n, d), lambda i, c: te.sum(p[i, j] * v[j, c], j))


@kernel(q=(20, 16), k=(20, 16), v=(20, 16))
def attention(q: Any, k: Any, v: Any) -> Any:
    return _attention(q, k, v)


@kernel(q=(20, 16), k=(20, 16), v=(20, 16))
def causal_attention(q: Any, k: Any, v: Any) -> Any:
    return _attention(q, k, v, lambda i, j: j <= i)


@kernel(q=(32, 16), k=(32, 16), v=(32, 16))
def windowed_attention(q: Any, k: Any, v: Any) -> Any:
    """Each query looks at the 9 keys around it."""
    n, d = q.shape
    c, w = axes(d, 9)

    def there(i: Any, w: Any) -> Any:
        return (i + w >= 4) & (i + w < n + 4)

    def at(i: Any, w: Any) -> Any:
        return te.clamp(i + w - 4, 0, n - 1)

    score = te.compute(
        (n, 9), lambda i, w: te.select(there(i, w), te.sum(q[i, c] * k[at(i, w), c], c) * d**-0.5, -1e9)
    )
    p = _softmax(score, n, 9)
    return te.compute((n, d), lambda i, c: te.sum(te.bracket(there(i, w)) * p[i, w] * v[at(i, w), c], w))


@kernel(x=(2, 12, 16))
def rope(x: Any) -> Any:
    """Rotary embeddings (Su et al., 2021): pairs of features turned by the position."""
    n = x.shape[2]
    half, step = n // 2, -2 * float(np.log(1e4)) / n

    def angle(t: Any, m: Any) -> Any:
        return t.astype(x.dtype) * te.exp((m % half).astype(x.dtype) * step)

    def entry(h: Any, t: Any, m: Any) -> Any:
        turned = te.select(m < half, -x[h, t, (m + half) % n], x[h, t, (m + half) % n])
        return x[h, t, m] * te.cos(angle(t, m)) + turned * te.sin(angle(t, m))

    return te.compute(x.shape, entry)


# --- recurrences -------------------------------------------------------------------------------------


def _sigmoid(z: Any) -> Any:
    return 1 / (1 + te.exp(-z))


@kernel(x=(4, 10), h=(4, 8), c=(4, 8), w=(10, 32), u=(8, 32), b=(32,))
def lstm_cell(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    m = h.shape[1]
    j, k = axes(x.shape[1], m)
    shape = (x.shape[0], 4 * m)
    z = te.compute(shape, lambda n, i: te.sum(x[n, j] * w[j, i], j) + te.sum(h[n, k] * u[k, i], k) + b[i])
    new = te.compute(
        h.shape,
        lambda n, i: _sigmoid(z[n, i + m]) * c[n, i] + _sigmoid(z[n, i]) * te.tanh(z[n, i + 2 * m]),
    )
    return te.compute(h.shape, lambda n, i: _sigmoid(z[n, i + 3 * m]) * te.tanh(new[n, i])), new


@kernel(x=(4, 10), h=(4, 8), w=(10, 24), u=(8, 24))
def gru_cell(x: Any, h: Any, w: Any, u: Any) -> Any:
    m = h.shape[1]
    j, k = axes(x.shape[1], m)
    shape = (x.shape[0], 3 * m)
    a = te.compute(shape, lambda n, i: te.sum(x[n, j] * w[j, i], j))
    b = te.compute(shape, lambda n, i: te.sum(h[n, k] * u[k, i], k))

    def entry(n: Any, i: Any) -> Any:
        r, z = _sigmoid(a[n, i] + b[n, i]), _sigmoid(a[n, i + m] + b[n, i + m])
        return (1 - z) * te.tanh(a[n, i + 2 * m] + r * b[n, i + 2 * m]) + z * h[n, i]

    return te.compute(h.shape, entry)


@kernel(x=(30, 4), a=(4,))
def linear_recurrence(x: Any, a: Any) -> Any:
    def step(s: Any) -> Any:
        return te.compute(x.shape, lambda t, i: a[i] * s[t - 1, i] + x[t, i])

    return te.scan(x.shape, step, dtype=x.dtype)


@kernel(x=(30, 8), at=indices(8, 30, 8))
def gathered_recurrence(x: Any, at: Any) -> Any:
    """Each state follows one of those before it, which data chooses."""

    def step(s: Any) -> Any:
        return te.compute(x.shape, lambda t, i: te.tanh(s[t - 1, at[t, i]]) * s[t - 1, i] + x[t, i])

    return te.scan(x.shape, step, init=0.5, dtype=x.dtype)


@kernel(x=(30, 8), parent=indices(8, 8), w=(8,))
def tree_recurrence(x: Any, parent: Any, w: Any) -> Any:
    def step(s: Any) -> Any:
        return te.compute(x.shape, lambda t, i: te.tanh(s[t - 1, parent[i]] * w[i]) + x[t, i])

    return te.scan(x.shape, step, dtype=x.dtype)


@kernel(x=(30, 8), a=(2,))
def filtered(x: Any, a: Any) -> Any:
    """A recursive filter of second order."""

    def step(s: Any) -> Any:
        return te.compute(x.shape, lambda t, i: a[0] * s[t - 1, i] + a[1] * s[t - 2, i] + x[t, i])

    return te.scan(x.shape, step, dtype=x.dtype)


@kernel(x=(20, 6), w=(6, 6))
def hidden_markov(x: Any, w: Any) -> Any:
    (k,) = axes(w.shape[0])

    def step(s: Any) -> Any:
        return te.compute(x.shape, lambda t, i: te.sum(s[t - 1, k] * w[k, i], k) * te.exp(x[t, i]))

    return te.scan(x.shape, step, init=0.1, dtype=x.dtype)


@kernel(x=(20, 6), w=(6, 6))
def viterbi(x: Any, w: Any) -> Any:
    (k,) = axes(w.shape[0])

    def step(s: Any) -> Any:
        return te.compute(x.shape, lambda t, i: te.max(s[t - 1, k] + w[k, i], k) + x[t, i])

    return te.scan(x.shape, step, dtype=x.dtype)


@kernel(x=(20, 4), w=(6, 4), u=(6, 6), h=(6,))
def elman(x: Any, w: Any, u: Any, h: Any) -> Any:
    """A recurrent network from a state that is given."""
    m, n = w.shape
    j, k = axes(n, m)
    shape = (x.shape[0], m)

    def step(s: Any) -> Any:
        def entry(t: Any, i: Any) -> Any:
            before = te.select(t == 0, h[k], s[t - 1, k])
            return te.tanh(te.sum(x[t, j] * w[i, j], j) + te.sum(before * u[i, k], k))

        return te.compute(shape, entry)

    return te.scan(shape, step, dtype=x.dtype)


@kernel(x=(6, 12))
def kalman(x: Any) -> Any:
    """The mean and the variance of a walk observed with noise."""

    def step(m: Any, p: Any) -> Any:
        gain = te.compute(x.shape, lambda t, i: (p[t - 1, i] + 0.1) / (p[t - 1, i] + 0.1 + x[t, i] ** 2))
        mean = te.compute(x.shape, lambda t, i: m[t - 1, i] + gain[t, i] * (x[t, i] - m[t - 1, i]))
        return mean, te.compute(x.shape, lambda t, i: (1 - gain[t, i]) * (p[t - 1, i] + 0.1))

    return te.scan([x.shape, x.shape], step, init=[0.0, 1.0], dtype=x.dtype)[0]


@kernel(x=(10, 3, 6), label=indices(5, 3, 4))
def ctc(x: Any, label: Any) -> Any:
    """The loss of labels, of scores of classes at each step (Graves et al., 2006); class 0 is blank."""
    steps, batch, classes = x.shape
    (k,) = axes(classes)
    norm = te.compute((steps, batch), lambda t, b: te.log(te.sum(te.exp(x[t, b, k]), k)))
    count, far = label.shape[1], -1e9
    shape = (steps, batch, 2 * count + 1)

    def own(b: Any, s: Any) -> Any:
        return te.select(s % 2 == 1, 1 + label[b, te.clamp(s // 2, 0, count - 1)], 0)

    def step(alpha: Any) -> Any:
        def entry(t: Any, b: Any, s: Any) -> Any:
            stay = alpha[t - 1, b, s]
            one = te.select(s >= 1, alpha[t - 1, b, te.clamp(s - 1, 0, 2 * count)], far)
            other = (s % 2 == 1) & (own(b, s) != own(b, te.clamp(s - 2, 0, 2 * count)))
            two = te.select((s >= 2) & other, alpha[t - 1, b, te.clamp(s - 2, 0, 2 * count)], far)
            most = te.maximum(te.maximum(stay, one), two)
            before = most + te.log(te.exp(stay - most) + te.exp(one - most) + te.exp(two - most))
            return te.select(t == 0, te.select(s < 2, 0.0, far), before) + x[t, b, own(b, s)] - norm[t, b]

        return te.compute(shape, entry, dtype=x.dtype)

    alpha = te.scan(shape, step, init=far, dtype=x.dtype)

    def loss(b: Any) -> Any:
        blank, last = alpha[steps - 1, b, 2 * count], alpha[steps - 1, b, 2 * count - 1]
        most = te.maximum(blank, last)
        return -(most + te.log(te.exp(blank - most) + te.exp(last - most)))

    return te.compute((batch,), loss)


# --- data-dependent ----------------------------------------------------------------------------------


@kernel(table=(20, 8), at=indices(20, 6, 4), weight=(6, 4))
def embedding_bag(table: Any, at: Any, weight: Any) -> Any:
    n, own = at.shape
    (k,) = axes(own)
    return te.compute((n, table.shape[1]), lambda b, i: te.sum(table[at[b, k], i] * weight[b, k], k))


def rows(*starts: int) -> Callable[[np.random.Generator], Any]:
    return lambda _: np.array(starts)


@kernel(p=rows(0, 3, 3, 7, 12, 15, 20), c=indices(8, 20), v=(20,), b=(8, 5))
def csr_product(p: Any, c: Any, v: Any, b: Any) -> Any:
    def entry(i: Any, j: Any) -> Any:
        e = te.reduce_axis((p[i], p[i + 1]))
        return te.sum(v[e] * b[c[e], j], e)

    return te.compute((p.shape[0] - 1, b.shape[1]), entry)


@kernel(p=rows(0, 3, 3, 7, 12, 15, 20), x=(20,))
def row_softmax(p: Any, x: Any) -> Any:
    def total(i: Any) -> Any:
        e = te.reduce_axis((p[i], p[i + 1]))
        return te.sum(te.exp(x[e]), e)

    def places(i: Any) -> Any:
        e = te.reduce_axis((p[i], p[i + 1]))
        return te.sum(te.exp(x[e]) / sums[i] * x[e], e)

    n = p.shape[0] - 1
    sums = te.compute((n,), total)
    return te.compute((n,), places)


@kernel(x=(30,), centre=(8,))
def soft_histogram(x: Any, centre: Any) -> Any:
    (k,) = axes(*x.shape)
    return te.compute(centre.shape, lambda b: te.sum(te.exp(-2 * (x[k] - centre[b]) ** 2), k))


@kernel(x=places(30, upto=0.9), weight=(30,))
def histogram(x: Any, weight: Any) -> Any:
    """Of 64 bins between 0 and 1."""
    at = te.compute(x.shape, lambda e: te.F.floor(x[e] * 64).astype("int64"))
    return te.scatter((64,), x.shape, lambda e: (at[e], weight[e]))


@kernel(x=(10, 8), w=(30, 8), source=indices(10, 30), target=indices(10, 30))
def message_passing(x: Any, w: Any, source: Any, target: Any) -> Any:
    return te.scatter((10, 8), (30, 8), lambda e, f: ((target[e], f), w[e, f] * x[source[e], f]))


# --- those of benchmarks -----------------------------------------------------------------------------

for _op, _size in (
    (te_images.kernel_prediction(), 8),
    (te_images.cost_volume(), 8),
    (te_images.bilateral(), 16),
    (te_images.involution(), 8),
    (te_images.heat(), 8),
    (te_pairs.rbf(), 20),
    (te_pairs.chamfer(), 20),
    (te_recurrences.prefix_sums(), 20),
    (te_recurrences.lstm(), 4),
    (te_recurrences.soft_dtw(), 8),
    (te_segments.segment_max(), 4),
    (te_segments.row_update(), 8),
):
    _benchmark(_op, _size)
