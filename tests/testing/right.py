"""Functions whose derivatives are right, of every kind of input: `gradcheck` may refuse none of them.

They are made, not listed, where that is possible: elementwise functions at points and on scales from 1e-8 to
1e8, with every dtype, layout and mask, and what a library's users differentiate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import iverson as iv

SCALES = (1e-8, 1e-4, 1.0, 1e4, 1e8)


@dataclass(frozen=True)
class Right:
    """A function and inputs of it; ``orders`` are those to which it can be differentiated there."""

    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    orders: int = 2
    masked: bool = False

    def __str__(self) -> str:
        return self.name


def leaf(values: Any, dtype: Any = None) -> Any:
    return iv.asarray(np.asarray(values, dtype), requires_grad=True)


def normal(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values: Any = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return leaf(values, dtype)


def cubed(x: Any) -> Any:
    return x * x * x


#: Functions of one number, by where they are smooth and finite: around 0, at positive numbers, at any.
AROUND_0 = {
    "sin": iv.sin, "cos": iv.cos, "tan": iv.tan, "exp": iv.exp, "expm1": iv.expm1, "sinh": iv.sinh,
    "cosh": iv.cosh, "tanh": iv.tanh, "asin": iv.asin, "atan": iv.atan, "asinh": iv.asinh, "atanh": iv.atanh,
    "erf": iv.erf, "sigmoid": iv.sigmoid, "softplus": iv.softplus, "log1p": iv.log1p, "gelu": iv.gelu,
    "silu": iv.silu, "square": iv.square, "cubed": cubed,
}  # fmt: skip
POSITIVE = {
    "sqrt": iv.sqrt, "log": iv.log, "log2": iv.log2, "log10": iv.log10, "reciprocal": iv.reciprocal,
    "power": lambda x: x**1.5, "lgamma": iv.lgamma,
}  # fmt: skip
FAR = {
    "sin": iv.sin, "cos": iv.cos, "atan": iv.atan, "tanh": iv.tanh, "square": iv.square, "cubed": cubed,
    "asinh": iv.asinh, "exp(-x*x)": lambda x: iv.exp(-x * x),
    "hypot 1": lambda x: iv.hypot(x, iv.ones_like(x)),
}  # fmt: skip
#: Values of x / scale and the function of it, of the order of 1.
SCALED = {"sin": iv.sin, "exp": iv.exp, "cubed": cubed, "x * tanh": lambda x: x * iv.tanh(x), "log": iv.log}
POINTS = np.array([0.75, 1.5, 0.3])


def elementwise() -> Iterator[Right]:
    for name, fn in AROUND_0.items():
        for scale in (1e-8, 1e-3):
            yield Right(f"{name} at {scale:g}", fn, (leaf(scale * np.array([1.0, -0.4, 2.5])),))
        yield Right(f"{name} at 0", fn, (leaf([0.0, 0.5, 1e-7]),))
    for name, fn in POSITIVE.items():
        for scale in SCALES[::2]:
            yield Right(f"{name} at {scale:g}", fn, (leaf(scale * POINTS),))
    for name, fn in FAR.items():
        for scale in (1e3, 1e6):
            yield Right(f"{name} at {scale:g}", fn, (leaf(scale * np.array([1.0, -0.4, 2.5])),))


def scaled() -> Iterator[Right]:
    for name, fn in SCALED.items():
        for of_x in SCALES:
            for of_y in (1e-8, 1.0, 1e8):
                inner = lambda x, fn=fn, a=of_x, b=of_y: b * fn(x / a)
                mixed = lambda x, fn=fn, a=of_x, b=of_y: b * iv.sum(fn(x / a)) * iv.tanh(x / a)
                made = mixed if name in ("sin", "exp") else inner
                yield Right(f"{of_y:g} * {name}(x / {of_x:g})", made, (leaf(of_x * POINTS[:2]),))


def layer_norm(x: Any) -> Any:
    centred = x - iv.mean(x, axis=-1, keepdims=True)
    return centred / iv.sqrt(iv.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def attention(q: Any, k: Any, v: Any) -> Any:
    return iv.softmax(q @ k.mT / 2, axis=-1) @ v


def symmetric(a: Any) -> Any:
    return (a + a.mT) / 2


SPD = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])


def functions() -> Iterator[Right]:
    for k, point in enumerate(
        (
            [12.0, 0.0, -1.0],
            [20.0, 0.0, -1.0],
            [30.0, 0.0, -1.0],
            [36.0, 0.0, -1.0],
            [1e3, 999.0, 1.0],
            [1e-8, 0.0, -1e-8],
            [0.0, 0.0, 0.0],
        )
    ):
        for op in (iv.softmax, iv.log_softmax, iv.logsumexp):
            yield Right(f"{op.__name__} {k}", partial(op, axis=0), (leaf(point),))
    yield Right("softmax of rows", lambda x: iv.softmax(x * 5, axis=1), (normal(2, 4),))
    for scale in (1e-4, 1.0, 1e4):
        x = leaf(scale * np.random.default_rng(1).standard_normal((2, 3)))
        yield Right(f"layer norm at {scale:g}", layer_norm, (x,))
        yield Right(f"var at {scale:g}", lambda x: iv.var(x, axis=1), (x,))
        yield Right(f"std at {scale:g}", lambda x: iv.std(x, axis=1), (x,))
        yield Right(f"norm at {scale:g}", iv.linalg.vector_norm, (x,))
        yield Right(f"matmul at {scale:g}", lambda x: x @ x.mT, (x,))
        yield Right(f"products at {scale:g}", lambda x: iv.prod(x, axis=1), (x,))
        yield Right(f"sort at {scale:g}", lambda x: iv.sort(x, axis=1) ** 2, (x,))
        spd = leaf(scale * SPD)
        yield Right(f"inv at {scale:g}", iv.linalg.inv, (spd,))
        yield Right(f"det at {scale:g}", iv.linalg.det, (spd,))
        yield Right(f"solve at {scale:g}", iv.linalg.solve, (spd, leaf(POINTS)))
        yield Right(f"cholesky at {scale:g}", lambda a: iv.linalg.cholesky(symmetric(a)), (spd,))
        yield Right(f"eigvalsh at {scale:g}", lambda a: iv.linalg.eigvalsh(symmetric(a)), (spd,))
    yield Right("attention", attention, (normal(2, 3), normal(3, 3, seed=1), normal(3, 1, seed=2)))
    yield Right("offset", lambda x: x * x + 1e4, (normal(4),))
    yield Right("constant large term", lambda x: iv.stack([x[0] + 1e6, x[1]]), (normal(2),))
    yield Right("wide range", lambda x: x * x, (leaf([1e-8, 1e-4, 1.0, 1e4, 1e8]),))
    yield Right("sharp", lambda x: iv.tanh(x * 300), (leaf([0.001, 0.004]),))
    yield Right("kink not far", iv.relu, (leaf([1e-4, -1e-4, 0.5]),), orders=1)
    yield Right("kink far", lambda x: iv.abs(x) * x, (leaf([1.0, -2.0, 0.5]),))
    yield Right("fast oscillation", lambda x: iv.sin(1e3 * x), (leaf([1.0, 2.5]),))
    yield Right("slow and fast", lambda x: iv.sin(1e2 * x) + x * 1e-3, (leaf([1.0, 2.5]),))
    yield Right("beside a large entry", lambda a: 1e3 * a + 1e-3 * iv.sum(a), (normal(9),))
    yield Right("segments", lambda x: iv.segment_sum(x * x, [0, 0, 2, 2], 3), (normal(4, 2),))
    yield Right("gather", lambda x: x[[0, 0, 2]] * x[[1, 2, 2]], (normal(3),))
    yield Right("cumulative", iv.cumulative_prod, (normal(5),))
    yield Right("concat", lambda x, y: iv.concat([x * y, y]) ** 2, (normal(3), leaf(1e6 * POINTS)))
    yield Right("different scales", lambda x, y: x / y, (leaf(1e-6 * POINTS), leaf(1e6 * POINTS)))
    yield Right("einsum", lambda a, b: iv.einsum("ij,jk->ki", a, b), (normal(2, 3), normal(3, 2, seed=1)))


def saturated() -> Iterator[Right]:
    """Derivatives down to the least numbers there are, which larger terms absorb or which underflow."""
    for size in (30.0, 40.0, 150.0, 300.0, 370.0, 700.0, 740.0, 745.0):
        for point in ([size, 0.0, -5.0], [size, 0.0, 1.0], [0.0, -size, 5.0 - size]):
            for op in (iv.softmax, iv.log_softmax):
                yield Right(f"{op.__name__} at {point}", partial(op, axis=0), (leaf(point),))
        for f in (iv.sigmoid, iv.tanh, iv.softplus, iv.erf, iv.erfc, iv.silu, iv.gelu):
            yield Right(f"{f.__name__} at {size:g}", f, (leaf([size, -size, size / 2, -size / 2]),))


def rotation(a: Any) -> Any:
    return iv.stack([iv.stack([iv.cos(a), -iv.sin(a)]), iv.stack([iv.sin(a), iv.cos(a)])])


def cancelling() -> Iterator[Right]:
    """Derivatives that are exactly 0 since terms inside the rules cancel, up to their rounding."""
    rng = np.random.default_rng(11)
    for scale in (1e-3, 1.0, 30.0):
        for n, rank in ((3, 1), (4, 1), (4, 2), (2, 0)):
            a = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n))
            yield Right(f"det of {n} x {n} of rank {rank} at {scale:g}", iv.linalg.det, (leaf(scale * a),))
        x, orders = (
            leaf(scale * POINTS),
            1 if scale < 1 else 2,
        )  # the terms of second derivatives are in 1 / x**2
        yield Right(f"sum of softmax at {scale:g}", lambda x: iv.softmax(x, axis=0).sum(), (x,))
        unit = lambda x: iv.linalg.vector_norm(x / iv.linalg.vector_norm(x))
        yield Right(f"unit vector at {scale:g}", unit, (x,), orders=orders)
        yield Right(f"circle at {scale:g}", lambda x: iv.sin(x) ** 2 + iv.cos(x) ** 2, (x,))
        yield Right(f"mean of centred at {scale:g}", lambda x: iv.mean(x - iv.mean(x)), (x,))
        spd = leaf(scale * SPD)
        yield Right(f"inverse times it at {scale:g}", lambda a: iv.linalg.inv(a) @ a, (spd,), orders=orders)
    yield Right("determinant of a rotation", lambda a: iv.linalg.det(rotation(a)), (leaf(0.7),))


def dtypes() -> Iterator[Right]:
    for dtype in ("float32", "complex64", "complex128"):
        x = normal(2, 2, dtype=dtype, seed=3)
        for name in ("sin", "exp", "cos", "sinh", "square"):
            yield Right(f"{name} of {dtype}", getattr(iv, name), (x,))
        yield Right(f"product of {dtype}", lambda x: x @ x, (x,))
        yield Right(f"conj of {dtype}", lambda x: iv.conj(x) * x * x, (x,))
        yield Right(f"abs of {dtype}", iv.abs, (x,))
        for scale in (1e-6, 1e6):
            far = leaf(x.detach().numpy() * scale, dtype)
            yield Right(f"products of {dtype} at {scale:g}", lambda x: x * x * iv.sum(x), (far,))
    for scale in (1e-4, 1.0, 1e3):
        yield Right(f"softmax of float32 at {scale:g}", lambda x: iv.softmax(x, axis=0),
                    (leaf(scale * POINTS, "float32"),))  # fmt: skip


LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
STORED = np.array([[0.0, 1.0, 0.0], [2.0, 3.0, 0.0]])


def stored(layout: str, scale: float, dtype: str = "float64") -> Any:
    blocks = {"blocksize": (1, 1)} if layout[0] == "b" else {}
    values = (STORED * scale * (1 + (0.5j if dtype[0] == "c" else 0))).astype(dtype)
    return iv.to_layout(iv.asarray(values), layout, **blocks).detach().requires_grad_()


def layouts() -> Iterator[Right]:
    for k, layout in enumerate(LAYOUTS):
        scale = (1e-6, 1.0, 1e6)[k % 3]
        x = stored(layout, scale)
        yield Right(f"{layout} product at {scale:g}", lambda x: x @ x.mT, (x,))
        yield Right(f"{layout} masked at {scale:g}", lambda m: (m * m, iv.sum(m)), (x,), masked=True)
        yield Right(f"{layout} single", lambda x: x * x, (stored(layout, 1.0, "float32"),))
        yield Right(f"{layout} complex", lambda x: x @ x.mT, (stored(layout, 1.0, "complex128"),))
        mask = np.arange(6).reshape(2, 3) % (k + 2) == 0
        m = iv.masked_tensor(np.where(mask, POINTS, np.nan), mask, requires_grad=True)
        yield Right(f"mask {k}", lambda m: iv.exp(m) * iv.sum(m), (m,))


def on_mixed_scales() -> Iterator[Right]:
    """Entries whose derivatives are far apart: in the result, in the input and in sums of both."""
    mixed = np.array([1e-8, 1e8, 1.0, 0.0, 1e4, 1e8])
    for name in ("sin", "exp", "square"):
        f = AROUND_0[name]
        yield Right(f"{name}, result on all scales", lambda x, f=f: mixed * f(x), (normal(6),))
        yield Right(f"{name}, input on all scales", lambda x, f=f: f(x / (mixed + 1)), (leaf(mixed + 1),))
        yield Right(f"{name}, sum on all scales", lambda x, f=f: iv.sum(mixed * f(x)), (normal(6),))
        yield Right(
            f"{name}, all scales in rows", lambda x, f=f: f(x) @ np.outer(mixed, mixed[1:3]), (normal(6),)
        )


CORPUS = [
    *elementwise(), *scaled(), *on_mixed_scales(), *functions(), *saturated(), *cancelling(),
    *dtypes(), *layouts(),
]  # fmt: skip
