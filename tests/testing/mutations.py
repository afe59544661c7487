"""Wrong derivative rules of many kinds, each on an otherwise correct function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iverson.autograd import Function
from iverson.autograd.api import variable
from iverson.core.region import Region
from iverson.handles import asarray
from iverson.layouts import Box
from iverson.ops import F, override_vjp

SHAPE = (10, 10)


def leaf(*shape: int, dtype: str = "float64", seed: int = 0, low: float | None = None) -> Any:
    """A leaf of normal values, or uniform ones in [low, low + 1]."""
    rng = np.random.default_rng(seed)
    values: Any = rng.standard_normal(shape) if low is None else rng.uniform(low, low + 1, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return asarray(np.asarray(values).astype(dtype), requires_grad=True)


def unary(
    forward: Callable[[Any], Any],
    backward: Callable[[Any, Any], Any],
    jvp: Callable[[Any, Any], Any] | None = None,
) -> Callable[[Any], Any]:
    """A custom function of one tensor: ``backward(g, x)`` and ``jvp(t, x)``."""
    members: dict[str, Any] = {}

    def run(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return forward(x)

    members["forward"] = staticmethod(run)
    members["backward"] = staticmethod(lambda ctx, g: backward(g, *ctx.saved_tensors))
    if jvp is not None:
        members["jvp"] = staticmethod(lambda ctx, t: jvp(t, *ctx.saved_tensors))
    return type("Custom", (Function,), members).apply


def at(shape: tuple[int, ...], index: tuple[int, ...], value: float, other: float = 1.0) -> Any:
    """An array of ``other`` but for one entry."""
    result = np.full(shape, other)
    result[index] = value
    return result


def total(x: Any) -> Any:
    return F.sum(x, axis=tuple(range(x.ndim)), keepdims=False)


class TwoInputs(Function):
    """a * b with a wrong gradient in a whenever b's is not wanted."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b * (1.0 if ctx.needs_input_grad[1] else 3.0), g * a


class TwoOutputs(Function):
    """(sin x, x**2) whose gradient is lost where the second cotangent is undefined."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return F.sin(x), x * x

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        (x,) = ctx.saved_tensors
        if h.layout == "zero":
            return None
        return g * F.cos(x) + 2 * h * x


class AssumesOnes(TwoOutputs):
    """The same, taking an undefined cotangent for ones."""

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        (x,) = ctx.saved_tensors
        h = np.ones(x.shape) if h.layout == "zero" else h
        return g * F.cos(x) + 2 * h * x


class UndefinedTangent(Function):
    """a * b whose jvp forgets a term where b's tangent is undefined."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b, g * a

    @staticmethod
    def jvp(ctx: Any, s: Any, t: Any) -> Any:
        a, b = ctx.saved_tensors
        if t.layout == "zero":
            return 2 * s * b
        return s * b + a * t


class Noisy:
    """State that changes from call to call."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def value(self, x: Any) -> Any:
        return x * x + 1e-12 * self.rng.standard_normal(x.shape)

    def gradient(self) -> Callable[[Any], Any]:
        noise = lambda x: 1 + 1e-13 * self.rng.standard_normal(x.shape)
        return unary(lambda x: x * x, lambda g, x: 2 * g * x * noise(x), lambda t, x: 2 * t * x)


@dataclass(frozen=True)
class Mutation:
    """A function with a wrong rule; ``modes`` are those that may name it, slow or fast."""

    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    modes: tuple[str, ...]
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    second: bool = False
    where: tuple[Any, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def square(factor: Any) -> Callable[[Any], Any]:
    """x**2 with its derivative multiplied by something."""
    return unary(lambda x: x * x, lambda g, x: 2 * g * x * factor, lambda t, x: 2 * t * x * factor)


def _matmul_rules(first: Any, second: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: override_vjp("matmul", (first, second))


def _good_a(F: Any, g: Any, _y: Any, _a: Any, b: Any) -> Any:
    return F.matmul(g, F.mH(b))


def _good_b(F: Any, g: Any, _y: Any, a: Any, _b: Any) -> Any:
    return F.matmul(F.mH(a), g)


def matmul(a: Any, b: Any) -> Any:
    return F.matmul(a, b)


def constant(x: Any) -> Any:
    """x, with no derivative."""
    return unary(lambda x: 1.0 * x, lambda g, x: None, lambda t, x: 0.0 * t)(x)


def detached_square() -> Callable[[Any], Any]:
    """x**3 whose first derivative is right and whose second isn't."""
    return unary(
        lambda x: x * x * x,
        lambda g, x: 3 * g * x * constant(x),
        lambda t, x: 3 * t * x * constant(x),
    )


def single(x: Any) -> Any:
    return F.astype(x, dtype=np.dtype("float32"))


def rows(x: Any) -> Any:
    return F.sum(x, axis=(1,), keepdims=False)


STORED = (slice(0, 2, 1), slice(1, 3, 1))
X = leaf(*SHAPE)
KEPT = at(SHAPE, (3, 7), 0.0)
BOX = variable(Box((4, 4), Region((0, 1), (2, 3)), np.full((2, 2), 1.5)))
SQUARE = (leaf(4, 4, seed=1), leaf(4, 4, seed=2))
COMPLEX = (leaf(3, 3, seed=1, dtype="complex128"), leaf(3, 3, seed=2, dtype="complex128"))
OFF_DIAGONAL = np.where(np.eye(4, dtype=bool), 1.0, 1.5)

MUTATIONS = [
    Mutation("sign", square(-1.0), (X,), ("reverse",)),
    Mutation("factor 2", square(2.0), (X,), ("reverse",)),
    Mutation("factor 1.001", square(1.001), (X,), ("reverse",)),
    Mutation("factor 1.001, single", square(1.001), (leaf(*SHAPE, dtype="float32"),), ("reverse",)),
    Mutation(
        "dropped term",
        unary(lambda x: x * F.sin(x), lambda g, x: g * F.sin(x)),
        (X,),
        ("reverse",),
    ),
    Mutation(
        "shared by both modes",
        unary(F.sin, lambda g, x: g * F.cos(x) + 1e-4 * g),
        (X,),
        ("reverse",),
    ),
    Mutation(
        "one entry of 100",
        square(at(SHAPE, (3, 7), 2.0)),
        (leaf(*SHAPE, low=0.5),),
        ("reverse",),
        where=(3, 7),
    ),
    Mutation(
        "one entry of 100 by 1.001",
        square(at(SHAPE, (3, 7), 1.001)),
        (leaf(*SHAPE, low=0.5),),
        ("reverse",),
        where=(3, 7),
    ),
    Mutation(
        "one entry of 100 by 1.001, summed",
        lambda x: total(square(at(SHAPE, (3, 7), 1.001))(x)),
        (leaf(*SHAPE, low=0.5),),
        ("reverse",),
        where=(3, 7),
    ),
    Mutation(
        "one entry of 100 by 1.001, reverse only, unchecked forward",
        lambda x: total(square(at(SHAPE, (3, 7), 1.001))(x)),
        (leaf(*SHAPE, low=0.5),),
        ("reverse",),
        where=(3, 7),
        options={"check_forward": False},
    ),
    Mutation(
        "missing at one entry of 100",
        lambda x: rows(square(at(SHAPE, (9, 0), 0.0))(x)),
        (leaf(*SHAPE, low=0.5),),
        ("reverse",),
        where=(9, 0),
    ),
    Mutation("off the diagonal", square(OFF_DIAGONAL), (SQUARE[0],), ("reverse",)),
    Mutation(
        "outside the stored box",
        unary(
            lambda x: F.exp(x) * (1 - np.eye(4)[::-1]),
            lambda g, x: F.embed(
                F.index_basic(g * F.exp(x) * (1 - np.eye(4)[::-1]), key=STORED), key=STORED, shape=(4, 4)
            ),
        ),
        (BOX,),
        ("reverse",),
    ),
    Mutation(
        "one entry outside the stored box",
        unary(F.sin, lambda g, x: g * F.cos(x) * at((4, 4), (3, 0), 1.001)),
        (BOX,),
        ("reverse",),
        where=(3, 0),
    ),
    Mutation(
        "missing conj",
        matmul,
        COMPLEX,
        ("reverse",),
        _matmul_rules(lambda F, g, _y, _a, b: F.matmul(g, F.mT(b)), _good_b),
    ),
    Mutation(
        "missing conj, elementwise",
        unary(lambda z: z * z, lambda g, z: 2 * g * z, lambda t, z: 2 * t * z),
        (COMPLEX[0],),
        ("reverse",),
    ),
    Mutation(
        "imaginary part dropped",
        unary(lambda z: z * (1 + 2j), lambda g, z: F.astype(F.real(g * (1 - 2j)), dtype=g.dtype)),
        (COMPLEX[0],),
        ("reverse",),
    ),
    Mutation(
        "wrong transposition",
        matmul,
        SQUARE,
        ("reverse",),
        _matmul_rules(lambda F, g, _y, _a, b: F.matmul(g, b), _good_b),
    ),
    Mutation(
        "wrong transposition of the other",
        matmul,
        SQUARE,
        ("reverse",),
        _matmul_rules(_good_a, lambda F, g, _y, a, _b: F.matmul(a, g)),
    ),
    Mutation("transposed gradient", unary(F.copy, lambda g, x: F.mT(g), lambda t, x: t), (X,), ("reverse",)),
    Mutation(
        "jvp only",
        unary(F.sin, lambda g, x: g * F.cos(x), lambda t, x: 2 * t * F.cos(x)),
        (X,),
        ("forward",),
    ),
    Mutation(
        "jvp only, one entry of 100",
        unary(F.sin, lambda g, x: g * F.cos(x), lambda t, x: t * F.cos(x) * at(SHAPE, (3, 7), 1.001)),
        (X,),
        ("forward",),
        where=(3, 7),
    ),
    Mutation(
        "jvp off by less than any quotient sees",
        unary(F.sin, lambda g, x: g * F.cos(x), lambda t, x: t * F.cos(x) * at(SHAPE, (3, 7), 1 + 1e-7)),
        (X,),
        ("reverse against forward",),
        where=(3, 7),
    ),
    Mutation(
        "dtype float32",
        unary(F.sin, lambda g, x: single(g * F.cos(x)), lambda t, x: t * F.cos(x)),
        (X,),
        ("dtype",),
    ),
    Mutation(
        "dtype int64",
        unary(lambda x: 2 * x, lambda g, x: F.astype(2 * g, dtype=np.dtype("int64")), lambda t, x: 2 * t),
        (X,),
        ("dtype",),
    ),
    Mutation("shape", unary(lambda x: 2 * x, lambda g, x: rows(2 * g)), (X,), ("shape",)),
    Mutation("not a tensor", unary(lambda x: 2 * x, lambda g, x: 2.0), (X,), ("reverse",)),
    Mutation("backward raises", unary(lambda x: 2 * x, lambda g, x: g.nothing), (X,), ("reverse",)),
    Mutation("undefined cotangent loses the rest", TwoOutputs.apply, (X,), ("undefined cotangents",)),
    Mutation("undefined cotangent taken for ones", AssumesOnes.apply, (X,), ("undefined cotangents",)),
    Mutation("undefined tangent", UndefinedTangent.apply, SQUARE, ("undefined tangents",)),
    Mutation("subset of needed inputs", TwoInputs.apply, SQUARE, ("needed inputs",)),
    Mutation(
        "not linear",
        unary(lambda x: 2 * x, lambda g, x: 2 * F.abs(g), lambda t, x: 2 * t),
        (X,),
        ("reverse", "linearity"),
    ),
    Mutation(
        "not linear in the tangent",
        unary(lambda x: 2 * x, lambda g, x: 2 * g, lambda t, x: 2 * F.abs(t)),
        (X,),
        ("forward", "linearity"),
    ),
    Mutation("detached", lambda x: x.detach() * x, (X,), ("reverse",)),
    Mutation("detached output", lambda x: (x * x, (x * 2).detach()), (X,), ("reverse",)),
    Mutation("second derivative", detached_square(), (X,), ("reverse",), second=True),
    Mutation(
        "second derivative, one entry",
        unary(lambda x: x * x * x, lambda g, x: 3 * g * x * (x * KEPT + constant(x) * (1 - KEPT))),
        (X,),
        ("reverse",),
        second=True,
        where=(3, 7),
    ),
    Mutation("noisy value", Noisy().value, (X,), ("determinism",)),
    Mutation("noisy gradient", Noisy().gradient(), (X,), ("determinism",)),
    Mutation(
        "nan in the gradient",
        unary(lambda x: 2 * x, lambda g, x: g * at(SHAPE, (3, 7), np.nan, 2.0), lambda t, x: 2 * t),
        (X,),
        ("reverse",),
        where=(3, 7),
    ),
]
