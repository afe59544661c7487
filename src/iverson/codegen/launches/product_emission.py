"""Emission of a program's matrix products: calls of BLAS, alone, over a batch, or shared among threads.

A product that is long enough is shared out to the team (`native_workers`): a batch by its matrices, a single
product in panels of the rows or the columns of its result, one for each thread. Each part is one call of a
BLAS that runs on one thread (`codegen.runtime.blas_threads`), as two sets of threads on the same processors
wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from iverson.codegen.emit.llvm_builder import I32, I64, PTR, Builder, Type, Value, function_text, literal
from iverson.codegen.launches.nodes import Gemm, Integer, Place, Word
from iverson.codegen.programs.nodes import Number

#: Panels begin at multiples of this: the width of BLAS's tiles.
TILE = 16


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

    pointer : emits an address. run : emits the call of a function on shares: its name, its arguments, and how
    many iterations it has. threads : their number. texts : the functions of the module. integers : those of
    the function that calls.
    """

    def __init__(
        self,
        b: Builder,
        routines: dict[str, Value],
        pointer: Callable[[Place], Value],
        run: Callable[[str, list[Value], Value], None],
        threads: Value,
        texts: Texts,
        integers: Integers,
    ) -> None:
        self.b, self.routines, self.pointer, self.run, self.threads = b, routines, pointer, run, threads
        self.texts, self.integers = texts, integers

    def step(self, s: Gemm) -> None:
        """Emit a product."""
        first, second, out = map(self.pointer, s.places)
        alpha, beta = (self._scale(x, s) for x in (s.alpha, s.beta))
        addresses = Given(self.routines[s.routine], first, second, out, alpha, beta)
        integers = self.integers
        if s.sharing == "matrices":
            name = self._function(s, _matrices)
            self.run(name, [*addresses.all, integers.arguments], integers.value(s.count))
            return

        def item(at: Value) -> None:
            item_addresses = _item_addresses(integers, s, addresses, at)
            if s.sharing:
                arguments = [*item_addresses.all, integers.arguments, self.threads]
                self.run(self._function(s, _panel), arguments, self.threads)
            else:
                _gemm(integers, s, item_addresses, {})
            self.b.wrote()

        counted(self.b, integers.word(s.count), item)

    def _function(self, s: Gemm, body: Callable[[Integers, Gemm, Given], None]) -> str:
        """Name of a function for products like this one, which is made at its first use.

        It is ``void name(i64 first, i64 last, ptr arguments)``.

        body : emits what the function does.
        """
        key = s.sharing, s.letters, s.extents, s.leading, s.batch, s.units, s.steps, s.panels, s.routine
        if key not in self.texts.names:
            name = self.texts.names[key] = f"iverson_product_{len(self.texts)}"
            e = self.b.nested()
            integers = Integers(e, _argument(e, 6), self.integers.start)
            body(integers, s, Given(*(_argument(e, n) for n in range(6))))
            e.do("ret void")
            self.texts.append(function_text(e, name, None, "i64 %first, i64 %last, ptr %arguments"))
        return self.texts.names[key]

    def _scale(self, x: Number | Place, s: Gemm) -> Value:
        if isinstance(x, Place):
            return self.pointer(x)
        dtype = s.places[2].buffer.dtype
        elem = Type("float" if dtype.name in ("float32", "complex64") else "double")
        if dtype.kind != "c":
            return module_constant(self.b, str(elem), literal(x.real, elem))
        parts = ", ".join(f"{elem} {literal(p, elem)}" for p in (complex(x).real, complex(x).imag))
        return module_constant(self.b, f"[2 x {elem}]", f"[{parts}]")


@dataclass(frozen=True)
class Integers:
    """Integers of steps in the function that a builder emits.

    arguments : the block that has the integers that a call passes, from position ``start`` on.
    """

    b: Builder
    arguments: Value
    start: int

    def word(self, n: Integer) -> int | Value:
        """An integer, as a number or as the value that the call passes."""
        if not isinstance(n, Word):
            return n
        address = self.b.emit(
            f"getelementptr i64, ptr {self.arguments.ref}, i64 {self.start + n.number}", PTR
        )
        return self.b.load(address, I64, 8)

    def value(self, n: Integer) -> Value:
        """Value of an integer."""
        x = self.word(n)
        return x if isinstance(x, Value) else self.b.const(x, I64)

    def address(self, n: Integer) -> Value:
        """Address of an integer of 32 bits."""
        x = self.word(n)
        if not isinstance(x, Value):
            return module_constant(self.b, "i32", str(x))
        slot = self.b.slot(I32)
        self.b.put(slot, self.b.cast("trunc", x, I32))
        return slot


# --- loops ------------------------------------------------------------------------------------------


def counted(b: Builder, count: int | Value, body: Callable[[Value], None]) -> None:
    """Emit a loop with a variable from 0 to ``count``; for a ``count`` of 1, the body without a loop."""
    if isinstance(count, int) and count == 1:
        body(b.const(0, I64))
    else:
        _loop(b, b.const(0, I64), count if isinstance(count, Value) else b.const(count, I64), body)


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


def _matrices(integers: Integers, s: Gemm, addresses: Given) -> None:
    """Emit the calls for the matrices %first to %last - 1 of a batch."""
    b = integers.b

    def item(at: Value) -> None:
        _gemm(integers, s, _item_addresses(integers, s, addresses, at), {})

    _loop(b, Value(b, "%first", I64), Value(b, "%last", I64), item)


def _panel(integers: Integers, s: Gemm, addresses: Given) -> None:
    """Emit the call for the panels %first to %last - 1 of a product: some of its rows, or of its columns."""
    b = integers.b
    total = b.emit(f"ptrtoint ptr {_argument(b, 7).ref} to i64", I64)
    extent, step, out_step = map(integers.value, s.panels)

    def bound(name: str) -> Value:
        k = Value(b, name, I64)
        low = b.emit(f"udiv i64 {(k * extent).ref}, {total.ref}", I64) & -TILE
        return b.select(k.eq(total), extent, low)

    low, high = bound("%first"), bound("%last")
    nonempty, after = b.fresh("some"), b.fresh("done")
    b.br_if(low < high, nonempty, after)
    b.start(nonempty)
    panel = replace(addresses, out=displaced(b, addresses.out, low * out_step))
    if s.sharing == "rows":
        panel = replace(panel, second=displaced(b, addresses.second, low * step))
    else:
        panel = replace(panel, first=displaced(b, addresses.first, low * step))
    count = b.slot(I32)
    b.put(count, b.cast("trunc", high - low, I32))
    _gemm(integers, s, panel, {1 if s.sharing == "rows" else 0: count})
    b.br(after)
    b.start(after)


def _gemm(integers: Integers, s: Gemm, addresses: Given, extents: dict[int, Value]) -> None:
    """Emit one call; ``extents`` are the addresses of those that differ from the product's."""
    b = integers.b
    letters = [module_constant(b, "i8", str(ord(x))) for x in s.letters]
    sizes = [extents.get(k) or integers.address(n) for k, n in enumerate(s.extents)]
    leading = [integers.address(n) for n in s.leading]
    actual = [*letters, *sizes, addresses.alpha, addresses.first, leading[0], addresses.second, leading[1]]
    actual += [addresses.beta, addresses.out, leading[2]]
    b.do(f"call void {addresses.routine.ref}({', '.join(f'ptr {x.ref}' for x in actual)})")


def item_indices(
    integers: Integers, batch: tuple[Integer, ...], units: tuple[Integer, ...], at: Value
) -> list[Value]:
    """The indices of an item of a batch, from its number; ``units``: items from one entry of an axis on."""
    b, indices = integers.b, []
    for k, (n, unit) in enumerate(zip(batch, units, strict=True)):
        i = at if unit == 1 else b.emit(f"udiv i64 {at.ref}, {integers.value(unit).ref}", I64)
        indices.append(b.emit(f"urem i64 {i.ref}, {integers.value(n).ref}", I64) if k else i)
    return indices


def _item_addresses(integers: Integers, s: Gemm, addresses: Given, at: Value) -> Given:
    """The addresses for the matrix that has the number ``at`` in a batch."""
    b = integers.b
    indices = item_indices(integers, s.batch, s.units, at)

    def shifted(place: Value, steps: tuple[Integer, ...]) -> Value:
        for i, step in zip(indices, steps, strict=True):
            if step != 0:
                place = displaced(b, place, i * integers.word(step))
        return place

    first, second, out = (
        shifted(p, steps)
        for p, steps in zip((addresses.first, addresses.second, addresses.out), s.steps, strict=True)
    )
    return replace(addresses, first=first, second=second, out=out)


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
    "Integers",
    "Products",
    "Texts",
    "counted",
    "displaced",
    "item_indices",
    "module_constant",
]
