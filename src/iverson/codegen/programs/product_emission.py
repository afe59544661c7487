"""Emission of a program's matrix products: calls of BLAS, alone, over a batch, or shared among threads.

A product that is long enough is shared out to the team (`native_workers`): a batch by its matrices, a single
product in panels of the rows or the columns of its result, one for each thread. Each part is one call of a
BLAS that runs on one thread (`codegen.runtime.blas_threads`), as two sets of threads on the same processors
wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from iverson.codegen.emit.llvm_builder import I32, I64, PTR, Builder, Type, Value, function_text, literal
from iverson.codegen.programs import blas_calls
from iverson.codegen.programs.nodes import Number, Product, View, c_strides
from iverson.expr.nodes import DType

#: Multiply-adds from which a product is shared out: some 20 microseconds of a processor. Measured against
#: OpenBLAS's own threads (`make calibrate`, two threads at 2.5 GHz): not faster up to 1.7e7.
WORTH_THREADS = 2**20
#: Matrices of a batch from which they are the shares, and entries of a panel's edge that it has at least.
MATRICES, PANEL = 4, 32
#: Panels begin at multiples of this: the width of BLAS's tiles.
TILE = 16


def is_shared_out(s: Product) -> bool:
    """True if threads share a product."""
    return sharing(s) is not None


def sharing(s: Product) -> str | None:
    """Parts of a product that threads share: "matrices", "rows" or "columns"; None if no threads share it."""
    (*batch, rows, columns), inner = s.out.shape, s.left.shape[-1]
    work = rows * columns * inner
    if work * prod(batch) < WORTH_THREADS:
        return None
    if prod(batch) >= MATRICES:
        return "matrices"
    if work < WORTH_THREADS or max(rows, columns) < 2 * PANEL:
        return None
    return "rows" if rows >= columns else "columns"


@dataclass(frozen=True)
class Given:
    """Addresses for a call, in registers of the function that calls."""

    routine: Value
    first: Value
    second: Value
    out: Value
    alpha: Value
    beta: Value

    @property
    def all(self) -> tuple[Value, ...]:
        return self.routine, self.first, self.second, self.out, self.alpha, self.beta


class Texts(list[str]):
    """The functions of a module that its steps call. names : those of products, by what they compute."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[Any, str] = {}


class Products:
    """The products of one program.

    pointer : emits the address of a view. run : emits the call of a function on shares: its name, its
    arguments, and how many iterations it has. threads : their number. texts : the functions of the module.
    """

    def __init__(
        self,
        b: Builder,
        routines: dict[str, Value],
        pointer: Callable[[View], Value],
        run: Callable[[str, list[Value], Value], None],
        threads: Value,
        texts: Texts,
    ) -> None:
        self.b, self.routines, self.pointer, self.run, self.threads = b, routines, pointer, run, threads
        self.texts = texts

    def step(self, s: Product) -> None:
        """Emit a product."""
        if 0 in s.out.shape:
            return
        call = blas_calls.call(s)
        assert call is not None, "verified"
        batch, dtype = s.out.shape[:-2], s.out.buffer.dtype
        first, second, out = (self.pointer(v) for v in (call.first, call.second, call.out))
        alpha, beta = (self._scale(x, dtype) for x in (s.alpha, s.beta))
        addresses = Given(self.routines[blas_calls.routine(dtype)], first, second, out, alpha, beta)
        way = sharing(s)
        if way == "matrices":
            name = self._function(
                call, f"matrices {batch}", lambda e, parameters: _matrices(e, call, parameters, batch)
            )
            self.run(name, list(addresses.all), self.b.const(prod(batch), I64))
            return

        def item(at: Value) -> None:
            item_addresses = _item_addresses(self.b, call, addresses, item_indices(self.b, batch, at), batch)
            if way is None:
                _gemm(self.b, call, item_addresses, {})
            else:
                self._panels(call, item_addresses, way)
            self.b.wrote()

        counted(self.b, prod(batch), item)

    def _panels(self, call: blas_calls.Call, addresses: Given, way: str) -> None:
        name = self._function(call, way, lambda e, parameters: _panel(e, call, parameters, way))
        self.run(name, [*addresses.all, self.threads], self.threads)

    def _function(self, call: blas_calls.Call, way: str, body: Callable[[Builder, Given], None]) -> str:
        """Name of a function for calls like this one, which is made at its first use.

        It is ``void name(i64 first, i64 last, ptr arguments)``.

        way : the parts that threads share, for the key of the function.
        body : emits what the function does.
        """
        views = tuple((v.buffer.dtype, v.shape, v.strides) for v in (call.first, call.second, call.out))
        key = way, call.letters, call.sizes, call.leading, views
        if key not in self.texts.names:
            name = self.texts.names[key] = f"iverson_product_{len(self.texts)}"
            e = self.b.nested()
            body(e, Given(*(_argument(e, n) for n in range(6))))
            e.do("ret void")
            self.texts.append(function_text(e, name, None, "i64 %first, i64 %last, ptr %arguments"))
        return self.texts.names[key]

    def _scale(self, x: Number | View, dtype: DType) -> Value:
        if isinstance(x, View):
            return self.pointer(x)
        elem = Type("float" if dtype.name in ("float32", "complex64") else "double")
        if dtype.kind != "c":
            return module_constant(self.b, str(elem), literal(x.real, elem))
        parts = ", ".join(f"{elem} {literal(p, elem)}" for p in (complex(x).real, complex(x).imag))
        return module_constant(self.b, f"[2 x {elem}]", f"[{parts}]")


# --- loops ------------------------------------------------------------------------------------------


def counted(b: Builder, count: int, body: Callable[[Value], None]) -> None:
    """Emit a loop with a variable from 0 to ``count``; for a ``count`` of 1, the body without a loop."""
    if count == 1:
        body(b.const(0, I64))
    else:
        _loop(b, b.const(0, I64), b.const(count, I64), body)


def _loop(b: Builder, first: Value, last: Value, body: Callable[[Value], None]) -> None:
    """Emit a loop with a variable from ``first`` to ``last - 1``; ``last`` must be larger than ``first``."""
    before, head = b.fresh("before"), b.fresh("batch")
    b.br(before)
    b.start(before)
    b.br(head)
    b.start(head)
    i = b.emit(f"phi i64 [{first.ref}, %{before}], [%{head}.next, %{head}.latch]", I64, pure=False)
    body(i)
    b.br(f"{head}.latch")
    b.start(f"{head}.latch")
    b.do(f"%{head}.next = add nsw i64 {i.ref}, 1")
    b.br_if(b.emit(f"icmp slt i64 %{head}.next, {last.ref}", I64.of("i1")), head, f"{head}.done")
    b.start(f"{head}.done")


# --- one call ---------------------------------------------------------------------------------------


def _matrices(b: Builder, call: blas_calls.Call, addresses: Given, batch: tuple[int, ...]) -> None:
    """Emit the calls for the matrices %first to %last - 1 of a batch."""

    def item(at: Value) -> None:
        _gemm(b, call, _item_addresses(b, call, addresses, item_indices(b, batch, at), batch), {})

    _loop(b, Value(b, "%first", I64), Value(b, "%last", I64), item)


def _panel(b: Builder, call: blas_calls.Call, addresses: Given, way: str) -> None:
    """Emit the call for the panels %first to %last - 1 of one product: some of its rows, or of its columns.

    way : "rows" or "columns".
    """
    total = b.emit(f"ptrtoint ptr {_argument(b, 6).ref} to i64", I64)
    axis = -2 if way == "rows" else -1
    extent = call.out.shape[axis]

    def bound(name: str) -> Value:
        k = Value(b, name, I64)
        low = b.emit(f"udiv i64 {(k * extent).ref}, {total.ref}", I64) & -TILE
        return b.select(k.eq(total), b.const(extent, I64), low)

    low, high = bound("%first"), bound("%last")
    nonempty, after = b.fresh("some"), b.fresh("done")
    b.br_if(low < high, nonempty, after)
    b.start(nonempty)

    def shifted(place: Value, v: View) -> Value:
        return displaced(b, place, low * (v.strides[axis] * v.buffer.dtype.itemsize))

    panel = replace(addresses, out=shifted(addresses.out, call.out))
    if way == "rows":
        panel = replace(panel, second=shifted(addresses.second, call.second))
    else:
        panel = replace(panel, first=shifted(addresses.first, call.first))
    count = b.slot(I32)
    b.put(count, b.cast("trunc", high - low, I32))
    _gemm(b, call, panel, {1 if way == "rows" else 0: count})
    b.br(after)
    b.start(after)


def _gemm(b: Builder, call: blas_calls.Call, addresses: Given, sizes: dict[int, Value]) -> None:
    """Emit one call; ``sizes`` are the addresses of the extents that differ from the call's."""
    letters = [module_constant(b, "i8", str(ord(x))) for x in call.letters]
    extents = [sizes.get(k) or module_constant(b, "i32", str(n)) for k, n in enumerate(call.sizes)]
    leading = [module_constant(b, "i32", str(n)) for n in call.leading]
    actual = [*letters, *extents, addresses.alpha, addresses.first, leading[0], addresses.second, leading[1]]
    actual += [addresses.beta, addresses.out, leading[2]]
    b.do(f"call void {addresses.routine.ref}({', '.join(f'ptr {x.ref}' for x in actual)})")


def item_indices(b: Builder, batch: tuple[int, ...], at: Value) -> list[Value]:
    """The indices of a matrix of a batch, from its number."""
    indices = []
    for n, stride in zip(batch, c_strides(batch), strict=True):
        quotient = b.emit(f"udiv i64 {at.ref}, {stride}", I64) if stride > 1 else at
        outermost = stride * n == prod(batch)
        indices.append(quotient if outermost else b.emit(f"urem i64 {quotient.ref}, {n}", I64))
    return indices


def _item_addresses(
    b: Builder, call: blas_calls.Call, addresses: Given, at: list[Value], batch: tuple[int, ...]
) -> Given:
    """The addresses for the matrix that has the indices ``at`` in a batch."""

    def shifted(place: Value, v: View) -> Value:
        for i, n, stride in zip(at, batch, v.strides[:-2], strict=True):
            if n > 1 and stride:
                place = displaced(b, place, i * (stride * v.buffer.dtype.itemsize))
        return place

    first, second = shifted(addresses.first, call.first), shifted(addresses.second, call.second)
    return replace(addresses, first=first, second=second, out=shifted(addresses.out, call.out))


def _argument(b: Builder, n: int) -> Value:
    return b.load(b.emit(f"getelementptr i64, ptr %arguments, i64 {n}", PTR), PTR, 8)


def displaced(b: Builder, base: Value, by: Value) -> Value:
    return b.emit(f"getelementptr i8, ptr {base.ref}, i64 {by.ref}", PTR)


def module_constant(b: Builder, type: str, value: str) -> Value:
    """The address of a number in the module."""
    constants = b.functions
    key = f"{type} {value}"
    name = f"@iverson_number_{list(constants).index(key) if key in constants else len(constants)}"
    constants.setdefault(key, f"{name} = private unnamed_addr constant {type} {value}, align 8")
    return Value(b, name, PTR)


__all__ = [
    "Products",
    "Texts",
    "counted",
    "displaced",
    "is_shared_out",
    "item_indices",
    "module_constant",
]
