"""Wrong derivatives on every scale and of every kind of input: `gradcheck` may pass none of them.

Each is a right function with one thing wrong. `mutations` has those that have to be named as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np

import iverson as iv
from tests.testing.mutations import unary
from tests.testing.right import LAYOUTS, POINTS, SCALES, STORED, leaf, normal, stored


@dataclass(frozen=True)
class Wrong:
    """A function with a wrong derivative of first or second order."""

    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    second: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


#: Functions of a number of the order of 1, with their derivatives.
KNOWN = {
    "sin": (iv.sin, iv.cos),
    "exp": (iv.exp, iv.exp),
    "cubed": (lambda x: x * x * x, lambda x: 3 * x * x),
    "tanh": (iv.tanh, lambda x: 1 - iv.tanh(x) ** 2),
}
#: What may be made of a cotangent, in the place of itself.
ERRORS: dict[str, Callable[[Any], Any]] = {
    "factor 2": lambda g: 2 * g,
    "sign": lambda g: -g,
    "nothing": lambda g: 0 * g,
    "factor 1.001": lambda g: 1.001 * g,
    "one of three": lambda g: g * iv.asarray(np.array([1.0, 1.01, 1.0])),
    "a neighbour's": lambda g: iv.roll(g, 1),
    "a share of all": lambda g: g + 1e-3 * iv.sum(g),
}


def on_scales() -> Iterator[Wrong]:
    errors = cycle(ERRORS.items())
    for of_x in SCALES:
        for of_y in SCALES:
            for (name, (fn, derivative)), (what, error) in zip(
                list(KNOWN.items())[::2], errors, strict=False
            ):
                made = unary(
                    lambda x, fn=fn, a=of_x, b=of_y: b * fn(x / a),
                    lambda g, x, d=derivative, e=error, a=of_x, b=of_y: (b / a) * (e(g) * d(x / a)),
                )
                yield Wrong(f"{what}: {of_y:g} * {name}(x / {of_x:g})", made, (leaf(of_x * POINTS),))


def beside_others() -> Iterator[Wrong]:
    for scale in SCALES:
        forgets = unary(
            lambda x, c=scale: c * (x + 1e-4 * iv.sum(x)),
            lambda g, x, c=scale: c * g,
            lambda t, x, c=scale: c * t,
        )
        yield Wrong(f"forgets what is small at {scale:g}", forgets, (normal(9),))
        second = unary(
            lambda x, c=scale: c * x * x * x,
            lambda g, x, c=scale: 3 * c * g * x * x.detach(),
            lambda t, x, c=scale: 3 * c * t * x * x.detach(),
        )
        yield Wrong(f"second order at {scale:g}", second, (leaf(POINTS),), second=True)
        near = unary(iv.cos, lambda g, x: -g * iv.sin(x.detach()))
        yield Wrong(f"second order near {scale:g}", near, (leaf(scale * POINTS),), second=True)


#: Small derivatives among large ones: of other entries of the result, and of other entries of the input.
MIXED = np.array([1e-8, 1e8, 1.0, 1e-8, 1e4, 1e8])


def among_larger() -> Iterator[Wrong]:
    for small in (1e-8, 1.0):
        doubled = np.where(small == MIXED, 2.0, 1.0)
        for name, fn in {"sin": (iv.sin, iv.cos), "square": (iv.square, lambda x: 2 * x)}.items():
            made = unary(
                lambda x, f=fn[0]: MIXED * f(x),
                lambda g, x, d=fn[1], e=doubled: g * (MIXED * e) * d(x),
            )
            yield Wrong(f"twice {name} at {small:g} of a result on all scales", made, (normal(6),))
        mixed = unary(
            lambda x: iv.reshape(MIXED * iv.sin(x), (2, 3)).T + 1.0,
            lambda g, x, e=doubled: iv.reshape(g.T, (6,)) * (MIXED * e) * iv.cos(x),
        )
        yield Wrong(f"moved, twice at {small:g}", mixed, (normal(6),))


def not_linear() -> Iterator[Wrong]:
    rules = {
        "absolute": iv.abs,
        "squared": lambda g: g * g,
        "cut off": lambda g: iv.clip(g, -0.3, 0.3),
        "rounded to single": lambda g: iv.astype(iv.astype(g, iv.float32), iv.float64),
        "with a constant": lambda g: g + 1e-9,
    }
    for name, rule in rules.items():
        reverse = unary(iv.sin, lambda g, x, r=rule: r(g * iv.cos(x)))
        forward = unary(iv.sin, lambda g, x: g * iv.cos(x), lambda t, x, r=rule: r(t * iv.cos(x)))
        yield Wrong(f"rule {name}", reverse, (leaf(POINTS),))
        yield Wrong(f"jvp {name}", forward, (leaf(POINTS),))


def unmoved() -> Iterator[Wrong]:
    """Small derivatives of what no step moves: of a constant, and of softmax where it is saturated."""
    for scale in SCALES:
        small = 1e-9 / min(scale, 1.0)
        constant = unary(lambda x: 0 * x, lambda g, x, c=small: c * g)
        yield Wrong(f"a constant's at {scale:g}", constant, (leaf(scale * POINTS),))
    for size in (40.0, 300.0, 745.0):
        softmax = unary(
            lambda x: iv.softmax(x, axis=0),
            lambda g, x: (y := iv.softmax(x, axis=0)) * (g - iv.sum(g * y)) + 1e-9 * iv.sum(g),
        )
        yield Wrong(f"softmax at {size:g}", softmax, (leaf([size, 0.0, -5.0]),))
        held = unary(
            lambda x: iv.softmax(x, axis=0),
            lambda g, x: (y := iv.softmax(x, axis=0)) * (g - iv.sum(g * y)) + 1e-9 * x.detach() * iv.sum(g),
        )
        yield Wrong(f"softmax at {size:g}, second order", held, (leaf([size, 0.0, -5.0]),), second=True)


def dtypes() -> Iterator[Wrong]:
    for dtype in ("float32", "complex64", "complex128"):
        x = normal(3, 3, dtype=dtype, seed=3)
        for factor in (1.01, -1.0):
            made = unary(iv.sin, lambda g, x, f=factor: f * g * iv.conj(iv.cos(x)))
            yield Wrong(f"factor {factor} of {dtype}", made, (x,))
        far = leaf(x.detach().numpy() * 1e4, dtype)
        square = unary(lambda x: x * x, lambda g, x: 2.02 * g * iv.conj(x))
        yield Wrong(f"far off of {dtype}", square, (far,))
        if dtype[0] == "c":
            yield Wrong(f"no conj of {dtype}", unary(iv.sin, lambda g, x: g * iv.cos(x)), (x,))
            yield Wrong(
                f"no imaginary part of {dtype}",
                unary(iv.sin, lambda g, x: iv.astype(iv.real(g * iv.conj(iv.cos(x))), g.dtype)),
                (x,),
            )


def dense(x: Any) -> Any:
    """The tensor as an array, in either semantics."""
    return x.to_tensor(0).to_dense() if isinstance(x, iv.MaskedTensor) else x.to_dense()


def layouts() -> Iterator[Wrong]:
    on = np.where(STORED != 0, 1.01, 1.0)
    off = np.where(STORED != 0, 1.0, 1.01)
    for k, layout in enumerate(LAYOUTS):
        scale = (1e-6, 1.0, 1e6)[k % 3]
        for name, factor in (("on", on), ("off", off)):
            made = unary(lambda x: x.to_dense() * 2, lambda g, x, f=factor: g * (2 * f))
            yield Wrong(f"{layout} {name} its pattern", made, (stored(layout, scale),))
        masked = lambda m, f=on: unary(lambda x: x * 2, lambda g, x: g * 2.02)(dense(m)) * f
        yield Wrong(f"{layout} masked", masked, (stored(layout, scale),), options={"masked": True})
        only = unary(lambda x: x.to_dense() * 2, lambda g, x: iv.sparse_mask(g * 2, x))
        yield Wrong(f"{layout} cut to its pattern", only, (stored(layout, scale),))
        mask = np.arange(6).reshape(2, 3) % (k + 2) == 0
        m = iv.masked_tensor(np.where(mask, POINTS, np.nan), mask, requires_grad=True)
        yield Wrong(f"mask {k}", lambda m: iv.exp(m) * iv.sum(m.detach()), (m,))


def changed() -> Iterator[Wrong]:
    def vandal(x: Any) -> Any:
        y = x * x
        x._value[...] = 1.0
        return y

    def rebound(x: Any) -> Any:
        y = x * x
        with iv.no_grad():
            x += 1.0
        return y

    yield Wrong("writes into its input", vandal, (leaf(POINTS),))
    yield Wrong("rebinds its input", rebound, (leaf(POINTS),))


CORPUS = [
    *on_scales(), *beside_others(), *among_larger(), *not_linear(), *unmoved(),
    *dtypes(), *layouts(), *changed(),
]  # fmt: skip
