"""Compiled passes over large strided arrays: elementwise functions, outer products, recurrences, optimizers.

They serve functions for which NumPy has no vector loop, steps of optimizers, for which NumPy makes a pass and
a temporary for each operation, and outer products, for which NumPy starts a loop for each row.

The loops are nests of the code generator over flat arrays, one for a dtype and any size. They run from a size
on: a call costs some 50 us, a function of an entry 10 to 100 ns in SciPy's loops and 1 to 3 in these; a step
of Adam moves 14 arrays in NumPy and 7 in one pass (of SGD with momentum 10 and 5), each entry of which takes
a tenth of a ns or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.protocols import DType
from iverson.expr.nodes import Expr

if TYPE_CHECKING:
    from iverson.codegen.launches import CompiledKernel
    from iverson.codegen.nests.nodes import Buffer, Stmt

Array = np.ndarray[Any, Any]
#: Entries from which a compiled pass is worth its call: of a function, and of a step or of products. Measured
#: (`make calibrate`, two threads at 2.5 GHz) for tanh: 2e4 to 3e5; for a step of SGD: 6.6e4 to 2.6e5.
WORTHWHILE = 1 << 14
WORTHWHILE_STEP = 1 << 16
#: Steps from which a recurrence is: each is three calls of NumPy.
WORTHWHILE_LENGTH = 64
#: Entries that a thread takes at a time.
CHUNK = 1 << 13


def worthwhile(size: int, *arrays: Array) -> bool:
    """True if ``arrays``, all of one shape, can take a compiled pass and have at least ``size`` entries each.

    They can if all are plain NumPy arrays of one real floating-point dtype, contiguous and aligned.
    """
    first = arrays[0]
    return first.size >= size and all(
        type(a) is np.ndarray
        and a.dtype == first.dtype
        and a.dtype.char in "fd"
        and a.flags.c_contiguous
        and a.flags.aligned
        for a in arrays
    )


def function(
    name: str, body: Callable[..., Array], warns: bool = False, pays: Callable[..., bool] | None = None
) -> Callable[..., Any]:
    """Return an elementwise function that runs a compiled loop on large arrays, and otherwise calls ``body``.

    The loop runs if one operand is a large array and the others are arrays of the same shape, or numbers.

    name : the scalar function that the loop computes, by its name in the table of scalars.
    warns : whether the body raises floating-point flags where a result is not finite. Compiled code raises
        none: where its result is not finite, the body computes it again.
    pays : tells from the operands whether the body is slow enough for a loop; without it, the body always is.
    """

    def of(*xs: Array | complex) -> Any:
        large = None
        for x in xs:
            if type(x) is np.ndarray and x.size >= WORTHWHILE and x.dtype.char in "fd":
                large = x
                break
        if large is None or (pays is not None and not pays(*xs)) or (operands := _flat(xs, large)) is None:
            return body(*xs)
        out = np.empty_like(large)
        kinds = tuple([(x.dtype.char, x.size == 1) for x in operands])
        sizes = {"c": -(-large.size // CHUNK), "z": large.size}
        _function(name, large.dtype, kinds).run((*operands, out.reshape(-1)), sizes)
        if warns and not (isfinite(out.min()) and isfinite(out.max())):
            return body(*xs)
        return out

    return of


def _flat(xs: tuple[Array | complex, ...], large: Array) -> list[Array] | None:
    """Operands ``xs`` as flat contiguous arrays for a compiled loop; None if one of them does not fit.

    An operand must be a number, or an array with the shape and dtype of ``large``; a number becomes an array
    of one entry. If there are three operands (`where`), the first is a condition, an array of booleans.
    """
    operands = []
    for k, x in enumerate(xs):
        dtype = np.dtype(bool) if len(xs) == 3 and k == 0 else large.dtype
        if type(x) is np.ndarray and x.ndim:
            if x.shape != large.shape or x.dtype != dtype or not x.flags.c_contiguous or not x.flags.aligned:
                return None
            operands.append(x.reshape(-1))
        elif dtype.kind == "b":
            return None
        elif type(x) in (int, float) and abs(x) <= np.finfo(large.dtype).max:
            operands.append(np.full(1, x, large.dtype))
        elif type(x) is np.ndarray and x.dtype == large.dtype:
            operands.append(x.reshape(-1))
        else:
            return None
    return operands


def outer(multiply: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Return a function for the product ``a[..., m, 1] * b[..., 1, n]``: a compiled loop for large arrays.

    multiply : the product in NumPy, for all other arrays.
    """

    def of(a: Array, b: Array) -> Array:
        """Product ``a[..., m, 1] * b[..., 1, n]``."""
        batch, m, n = a.shape[:-2], a.shape[-2], b.shape[-1]
        if batch != b.shape[:-2] or a.size * n < WORTHWHILE_STEP or not worthwhile(0, a, b):
            return multiply(a, b)
        out = np.empty((*batch, m, n), a.dtype)
        count = a.size // m
        flat = a.reshape(count, m), b.reshape(count, n), out.reshape(count, m, n)
        _outer(a.dtype).run(flat, {"c": count, "m": m, "n": n})
        return out

    return of


def recurrence(
    steps: Callable[[Array, Array, bool], Array],
) -> Callable[[Array, Array, bool], Array]:
    """Return a function for the linear recurrence along axis 1 of three: a compiled loop for large arrays.

    steps : the same function in NumPy, step by step, for all other arrays.
    """

    def of(a: Array, b: Array, reverse: bool) -> Array:
        """``s[:, k] = a[:, k] * s[:, k - 1] + b[:, k]``, or from the end; a and b have one shape."""
        if b.size < WORTHWHILE and b.shape[1] < WORTHWHILE_LENGTH:
            return steps(a, b, reverse)
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        if not b.size or not worthwhile(0, b, a):
            return steps(a, b, reverse)
        out = np.empty_like(b)
        _recurrence(b.dtype, reverse).run((a, b, out), dict(zip("cnm", b.shape, strict=True)))
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


def _run(kernel: CompiledKernel, arrays: list[Array], *numbers: Array) -> None:
    flat = [a.reshape(-1) for a in arrays]
    kernel(*flat, *numbers, c=-(-flat[0].size // CHUNK))


class _Pass:
    """Builder of a compiled loop over flat arrays of one dtype, from buffers, expressions and stores."""

    def __init__(self, dtype: DType) -> None:
        from iverson.codegen.nests import nodes
        from iverson.expr.nodes import Apply, Const

        self.nodes, self.number, self.apply = nodes, Const, Apply
        self.dtype = np.dtype(dtype)
        self.p = nodes.Var("at")

    def array(self, name: str, role: str = "in", extent: int | str = "z") -> Any:
        return self.nodes.Buffer(name, self.dtype, (extent,), role)

    def at(self, array: Buffer, index: int | None = None) -> Any:
        return self.nodes.Load(array, (self.p if index is None else self.number(index),))

    def call(self, name: str, *args: Expr) -> Any:
        return self.apply(name, args, self.dtype)

    def let(self, name: str, value: Expr) -> tuple[Any, Any]:
        return self.nodes.Let(name, value), self.nodes.Local(name, self.dtype)

    def store(self, array: Buffer, value: Expr) -> Any:
        return self.nodes.Store(array, (self.p,), value)

    def compiled(self, name: str, buffers: tuple[Buffer, ...], *body: Stmt) -> Any:
        from iverson.codegen.launches import compile_kernel

        n = self.nodes
        first = self.apply("multiply", (n.Var("i"), self.number(CHUNK)), n.INT64)
        last = self.apply(
            "minimum", (self.apply("add", (first, self.number(CHUNK)), n.INT64), n.Size("z")), n.INT64
        )
        inner = n.Loop("at", first, last, body, mark="vector", factor=4)
        loop = n.Loop("i", self.number(0), n.Size("c"), (inner,), mark="parallel")
        return compile_kernel(n.Kernel(name, buffers, (loop,), ("c", "z")))


@cache
def _function(name: str, dtype: DType, kinds: tuple[tuple[str, bool], ...]) -> Any:
    """Compiled kernel of the scalar function ``name``, whose result has ``dtype``.

    kinds : for each operand the character of its dtype, and whether it is a single number.
    """
    from iverson.expr.nodes import Select

    of = _Pass(dtype)
    inputs = [
        of.nodes.Buffer(f"x{k}", np.dtype(char), (1 if is_number else "z",), "in")
        for k, (char, is_number) in enumerate(kinds)
    ]
    out = of.array("out", "out")
    values = [of.at(x, 0 if is_number else None) for x, (_, is_number) in zip(inputs, kinds, strict=True)]
    value = Select(*values) if name == "where" else of.call(name, *values)
    return of.compiled(name, (*inputs, out), of.store(out, value))


# out[i, r, k] = a[i, r] b[i, k].
@cache
def _outer(dtype: DType) -> Any:
    """Compiled kernel of the outer product: ``out[i, r, k] = a[i, r] * b[i, k]``."""
    from iverson.codegen.launches import compile_kernel
    from iverson.codegen.nests import nodes

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


# s[i, 0] = b[i, 0]; s[i, k] = a[i, k] s[i, k - 1] + b[i, k].
@cache
def _recurrence(dtype: DType, reverse: bool) -> Any:
    """Compiled kernel of ``s[i, k] = a[i, k] * s[i, k - 1] + b[i, k]``, where ``s[i, 0] = b[i, 0]``.

    reverse : True if k counts from the end of the axis.
    """
    from iverson.codegen.launches import compile_kernel
    from iverson.codegen.nests import nodes

    of = _Pass(dtype)
    a, b = (nodes.Buffer(name, of.dtype, ("c", "n", "m"), "in") for name in "ab")
    out = nodes.Buffer("out", of.dtype, ("c", "n", "m"), "out")
    i, k, j = map(nodes.Var, "ikj")

    def place(k: Expr) -> tuple[Any, Any, Any]:
        last = of.apply("subtract", (nodes.Size("n"), of.number(1)), nodes.INT64)
        return i, of.apply("subtract", (last, k), nodes.INT64) if reverse else k, j

    def line(value: Expr, at: tuple[Expr, Expr, Expr]) -> Any:
        return nodes.Loop("j", of.number(0), nodes.Size("m"), (nodes.Store(out, at, value),), mark="vector")

    before = of.apply("subtract", (k, of.number(1)), nodes.INT64)
    faded = of.call("multiply", nodes.Load(a, place(k)), nodes.Load(out, place(before)))
    next_ = line(of.call("add", faded, nodes.Load(b, place(k))), place(k))
    first = line(nodes.Load(b, place(of.number(0))), place(of.number(0)))
    along = nodes.Loop("k", of.number(1), nodes.Size("n"), (next_,))
    over = nodes.Loop("i", of.number(0), nodes.Size("c"), (first, along), mark="parallel")
    return compile_kernel(nodes.Kernel("linear_recurrence", (a, b, out), (over,), ("c", "n", "m")))


# v = mu v + g (+ decay p); p -= rate v, or rate (g + mu v).
@cache
def _sgd(dtype: DType, decays: bool, nesterov: bool) -> Any:
    """Compiled kernel of a step of SGD: ``v = mu v + g``, then ``p -= rate v``.

    decays : add ``decay * p`` to the gradient g.
    nesterov : the step is ``p -= rate (g + mu v)`` instead.
    """
    of = _Pass(dtype)
    g, v, p = of.array("g"), *(of.array(name, "inout") for name in ("v", "p"))
    numbers = of.array("numbers", extent=3)
    rate, momentum, decay = (of.at(numbers, k) for k in range(3))
    gradient = of.at(g)
    if decays:
        gradient = of.call("add", gradient, of.call("multiply", decay, of.at(p)))
    slope, s = of.let("s", gradient)
    faded, now = of.let("now", of.call("add", of.call("multiply", of.at(v), momentum), s))
    step = of.call("add", s, of.call("multiply", momentum, now)) if nesterov else now
    new_value = of.call("subtract", of.at(p), of.call("multiply", rate, step))
    return of.compiled("sgd", (g, v, p, numbers), slope, faded, of.store(v, now), of.store(p, new_value))


# m += (1 - b1) (g - m); v = b2 v + (1 - b2) g^2; p -= rate m / (sqrt(v) / sqrt(1 - b2^n) + eps).
@cache
def _adam(dtype: DType) -> Any:
    """Compiled kernel of a step of Adam, for the ``numbers`` that `adam` describes.

    ``m += (1 - b1) (g - m)``; ``v = b2 v + (1 - b2) g^2``;
    ``p -= rate m / (sqrt(v) / sqrt(1 - b2^n) + eps)``.
    """
    of = _Pass(dtype)
    g, m, v, p = of.array("g"), *(of.array(name, "inout") for name in ("m", "v", "p"))
    numbers = of.array("numbers", extent=6)
    mean_weight, fade, square_weight, root, eps, rate = (of.at(numbers, k) for k in range(6))
    slope, s = of.let("s", of.at(g))
    mean, now = of.let(
        "now", of.call("add", of.at(m), of.call("multiply", mean_weight, of.call("subtract", s, of.at(m))))
    )
    faded, energy = (
        of.call("multiply", of.at(v), fade),
        of.call("multiply", of.call("multiply", square_weight, s), s),
    )
    square, spread = of.let("spread", of.call("add", faded, energy))
    scale = of.call("add", of.call("multiply", of.call("sqrt", spread), root), eps)
    step = of.call("divide", of.call("multiply", rate, now), scale)
    new_value = of.call("subtract", of.at(p), step)
    stores = of.store(m, now), of.store(v, spread), of.store(p, new_value)
    return of.compiled("adam", (g, m, v, p, numbers), slope, mean, square, *stores)
