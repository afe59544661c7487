"""Elementwise work on large strided arrays in one compiled pass: functions that NumPy has no vector loop for,
steps of optimizers, of which NumPy makes a pass and a temporary for each operation, and outer products, of
which NumPy starts a loop for each row.

The loops are nests of the code generator over flat arrays, one for a dtype and any size. They run from a size
on: a call costs some 50 us, a function of an entry 10 to 100 ns in SciPy's loops and 1 to 3 in these; a step
of Adam moves 14 arrays in NumPy and 7 in one pass (of SGD with momentum 10 and 5), each entry of which takes
a tenth of a ns or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: Entries from which a compiled pass is worth its call: of a function, and of a step or of products.
WORTHWHILE = 1 << 14
WORTHWHILE_STEP = 1 << 16
#: Entries that a thread takes at a time.
CHUNK = 1 << 13


def worthwhile(size: int, *arrays: Array) -> bool:
    """Whether arrays of one shape take a compiled pass: large enough, real, of one dtype, without gaps."""
    first = arrays[0]
    return first.size >= size and all(
        type(a) is np.ndarray
        and a.dtype == first.dtype
        and a.dtype.char in "fd"
        and a.flags.c_contiguous
        and a.flags.aligned
        for a in arrays
    )


def function(name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one argument that `codegen.vecmath` has: compiled for large arrays, else its body."""

    def of(x: Any) -> Any:
        if type(x) is not np.ndarray or not worthwhile(WORTHWHILE, x):
            return body(x)
        out = np.empty_like(x)
        sizes = {"c": -(-x.size // CHUNK), "z": x.size}
        _function(name, x.dtype).run((x.reshape(-1), out.reshape(-1)), sizes)
        return out

    return of


def outer(multiply: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """The product of a batch of columns with one of rows, from how they are multiplied entry by entry."""

    def of(a: Array, b: Array) -> Array:
        """``a[..., m, 1] * b[..., 1, n]``, of arrays without gaps."""
        batch, m, n = a.shape[:-2], a.shape[-2], b.shape[-1]
        if batch != b.shape[:-2] or a.size * n < WORTHWHILE_STEP or not worthwhile(0, a, b):
            return multiply(a, b)
        out = np.empty((*batch, m, n), a.dtype)
        count = a.size // m
        flat = a.reshape(count, m), b.reshape(count, n), out.reshape(count, m, n)
        _outer(a.dtype).run(flat, {"c": count, "m": m, "n": n})
        return out

    return of


def adam(value: Array, gradient: Array, mean: Array, square: Array, numbers: Sequence[float]) -> None:
    """A step of Adam in place of value, mean and square; ``numbers``: 1 - beta1, beta2, 1 - beta2,
    1 / sqrt(1 - beta2^n), eps and the rate lr / (1 - beta1^n)."""
    of = np.array(numbers, value.dtype)
    _run(_adam(value.dtype), [gradient, mean, square, value], of)


def sgd(value: Array, gradient: Array, velocity: Array, numbers: Sequence[float], *, nesterov: bool) -> None:
    """A step of SGD with momentum in place of value and velocity; ``numbers``: the rate, the momentum and the
    weight decay."""
    of = np.array(numbers, value.dtype)
    _run(_sgd(value.dtype, bool(numbers[2]), nesterov), [gradient, velocity, value], of)


def _run(kernel: Any, arrays: list[Array], *rest: Array) -> None:
    flat = [a.reshape(-1) for a in arrays]
    kernel(*flat, *rest, c=-(-flat[0].size // CHUNK))


class _Pass:
    """The pieces of a loop over flat arrays of one dtype."""

    def __init__(self, dtype: Any) -> None:
        from iverson.codegen import nodes
        from iverson.expr.nodes import Apply, Const

        self.nodes, self.number, self.apply = nodes, Const, Apply
        self.dtype = np.dtype(dtype)
        self.p = nodes.Var("p")

    def array(self, name: str, role: str = "in", extent: int | str = "z") -> Any:
        return self.nodes.Buffer(name, self.dtype, (extent,), role)

    def at(self, array: Any, index: Any = None) -> Any:
        return self.nodes.Load(array, (self.p if index is None else self.number(index),))

    def call(self, name: str, *args: Any) -> Any:
        return self.apply(name, args, self.dtype)

    def let(self, name: str, value: Any) -> tuple[Any, Any]:
        return self.nodes.Let(name, value), self.nodes.Local(name, self.dtype)

    def store(self, array: Any, value: Any) -> Any:
        return self.nodes.Store(array, (self.p,), value)

    def compiled(self, name: str, buffers: tuple[Any, ...], *body: Any) -> Any:
        from iverson.codegen.kernel import compile_kernel

        n = self.nodes
        first = self.apply("multiply", (n.Var("i"), self.number(CHUNK)), n.INT64)
        last = self.apply(
            "minimum", (self.apply("add", (first, self.number(CHUNK)), n.INT64), n.Size("z")), n.INT64
        )
        inner = n.Loop("p", first, last, body, mark="vector", factor=4)
        loop = n.Loop("i", self.number(0), n.Size("c"), (inner,), mark="parallel")
        return compile_kernel(n.Kernel(name, buffers, (loop,), ("c", "z")))


@cache
def _function(name: str, dtype: Any) -> Any:
    of = _Pass(dtype)
    x, out = of.array("x"), of.array("out", "out")
    return of.compiled(name, (x, out), of.store(out, of.call(name, of.at(x))))


# out[i, r, k] = a[i, r] b[i, k].
@cache
def _outer(dtype: Any) -> Any:
    from iverson.codegen import nodes
    from iverson.codegen.kernel import compile_kernel

    of = _Pass(dtype)
    i, r, k = map(nodes.Var, "irk")
    a = nodes.Buffer("a", of.dtype, ("c", "m"), "in")
    b = nodes.Buffer("b", of.dtype, ("c", "n"), "in")
    out = nodes.Buffer("out", of.dtype, ("c", "m", "n"), "out")
    product = of.call("multiply", nodes.Load(a, (i, r)), nodes.Load(b, (i, k)))
    body: Any = nodes.Store(out, (i, r, k), product)
    for var, extent, mark in (("k", "n", "vector"), ("r", "m", ""), ("i", "c", "parallel")):
        body = nodes.Loop(var, of.number(0), nodes.Size(extent), (body,), mark=mark)
    return compile_kernel(nodes.Kernel("outer", (a, b, out), (body,), ("c", "m", "n")))


# v = mu v + g (+ decay p); p -= rate v, or rate (g + mu v).
@cache
def _sgd(dtype: Any, decays: bool, nesterov: bool) -> Any:
    of = _Pass(dtype)
    g, v, p = of.array("g"), *(of.array(name, "inout") for name in ("v", "p"))
    numbers = of.array("numbers", extent=3)
    rate, momentum, decay = (of.at(numbers, k) for k in range(3))
    given = of.at(g)
    if decays:
        given = of.call("add", given, of.call("multiply", decay, of.at(p)))
    slope, s = of.let("s", given)
    faded, now = of.let("now", of.call("add", of.call("multiply", of.at(v), momentum), s))
    step = of.call("add", s, of.call("multiply", momentum, now)) if nesterov else now
    changed = of.call("subtract", of.at(p), of.call("multiply", rate, step))
    return of.compiled("sgd", (g, v, p, numbers), slope, faded, of.store(v, now), of.store(p, changed))


# m += (1 - b1) (g - m); v = b2 v + (1 - b2) g^2; p -= rate m / (sqrt(v) / sqrt(1 - b2^n) + eps).
@cache
def _adam(dtype: Any) -> Any:
    of = _Pass(dtype)
    g, m, v, p = of.array("g"), *(of.array(name, "inout") for name in ("m", "v", "p"))
    numbers = of.array("numbers", extent=6)
    one, fade, other, root, eps, rate = (of.at(numbers, k) for k in range(6))
    slope, s = of.let("s", of.at(g))
    mean, now = of.let(
        "now", of.call("add", of.at(m), of.call("multiply", one, of.call("subtract", s, of.at(m))))
    )
    faded, energy = of.call("multiply", of.at(v), fade), of.call("multiply", of.call("multiply", other, s), s)
    square, spread = of.let("spread", of.call("add", faded, energy))
    scale = of.call("add", of.call("multiply", of.call("sqrt", spread), root), eps)
    step = of.call("divide", of.call("multiply", rate, now), scale)
    changed = of.call("subtract", of.at(p), step)
    stores = of.store(m, now), of.store(v, spread), of.store(p, changed)
    return of.compiled("adam", (g, m, v, p, numbers), slope, mean, square, *stores)
