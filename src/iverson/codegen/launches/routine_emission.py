"""Emission of calls of library routines: loops of universal functions, and functions of LAPACK and NumPy.

An elementwise function of many entries is shared among threads, each of which calls its loop on a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iverson.codegen.emit import ufunc_calls
from iverson.codegen.emit.llvm_builder import I32, I64, PTR, Value, function_text
from iverson.codegen.execution.routines import Function, Loop, Reference
from iverson.codegen.launches.nodes import Integer, Place, RoutineCall
from iverson.codegen.launches.product_emission import (
    Integers,
    Texts,
    counted,
    displaced,
    item_indices,
    module_constant,
)
from iverson.codegen.runtime import library_functions

Pointer = Callable[[Place], Value]
#: Emits the call of a function on shares: its name, its arguments, and the number of iterations.
Run = Callable[[str, list[Value], Value], None]


def emit(integers: Integers, s: RoutineCall, pointer: Pointer, run: Run, texts: Texts) -> None:
    """Emit the calls of a routine for all items of the batch.

    pointer : emits the address of a place. texts : the functions of the module.
    """
    b = integers.b
    addresses = [pointer(p) for p in s.places]
    if s.status is not None:
        b.declarations[library_functions.CLEAR] = f"declare void @{library_functions.CLEAR}()"
        b.do(f"call void @{library_functions.CLEAR}()")

    if s.is_shared:
        run(_share(integers, s, texts), addresses, integers.value(s.count))
        b.wrote()
        return

    def item(at: Value) -> None:
        indices = item_indices(integers, s.batch, s.units, at)
        places = []
        for steps, place in zip(s.steps, addresses, strict=True):
            for i, step in zip(indices, steps, strict=True):
                place = place if step == 0 else displaced(b, place, i * integers.word(step))
            places.append(place)
        if isinstance(s.routine, Loop):
            _loop(integers, s, s.routine, places)
        else:
            _function(integers, s.routine, places, iter(s.arguments))
        b.wrote()

    counted(b, integers.word(s.count), item)
    if s.status is not None:
        status = b.call(library_functions.READ, I32, (), pure=False) & library_functions.INVALID
        b.store(pointer(s.status), status, 4)
        b.wrote()


def _loop(integers: Integers, s: RoutineCall, routine: Loop, places: list[Value]) -> None:
    """Emit one call of a loop, over the last axis of the batch."""
    b = integers.b
    table = b.slot(PTR, len(places))
    for k, place in enumerate(places):
        b.store(displaced(b, table, b.const(8 * k, I64)), place, 8)
    ufunc_calls.call_loop(
        b,
        routine.module,
        routine.name,
        routine.signature,
        table,
        _address(integers, s.sizes),
        _address(integers, s.strides),
    )


def _share(integers: Integers, s: RoutineCall, texts: Texts) -> str:
    """Name of a function that calls the loop of an elementwise function on a part of its operands.

    It is ``void name(i64 first, i64 last, ptr arguments)``, made at its first use.
    """
    routine = s.routine
    assert isinstance(routine, Loop)
    if routine not in texts.names:
        name = texts.names[routine] = f"iverson_routine_{len(texts)}"
        e = integers.b.nested()
        first, last = (Value(e, register, I64) for register in ("%first", "%last"))
        sizes = [n for n in s.strides if isinstance(n, int)]
        table, count = e.slot(PTR, len(sizes)), e.slot(I64)
        for k, size in enumerate(sizes):
            word = displaced(e, Value(e, "%arguments", PTR), e.const(8 * k, I64))
            part = displaced(e, e.load(word, PTR, 8), first * size)
            e.store(displaced(e, table, e.const(8 * k, I64)), part, 8)
        e.put(count, last - first)
        steps = ufunc_calls.numbers(e, sizes)
        ufunc_calls.call_loop(e, routine.module, routine.name, routine.signature, table, count.ref, steps)
        e.do("ret void")
        texts.append(function_text(e, name, None, "i64 %first, i64 %last, ptr %arguments"))
    return texts.names[routine]


def _address(integers: Integers, numbers: tuple[Integer, ...]) -> str:
    """Address of integers, one behind the other: in the module, or on the stack where a call passes some."""
    known = [n for n in numbers if isinstance(n, int)]
    if len(known) == len(numbers):
        return ufunc_calls.numbers(integers.b, known)
    b = integers.b
    table = b.slot(I64, len(numbers))
    for k, n in enumerate(numbers):
        b.store(displaced(b, table, b.const(8 * k, I64)), integers.value(n), 8)
    return table.ref


def _function(integers: Integers, routine: Function, places: list[Value], numbers: Iterator[Integer]) -> None:
    """Emit one call of a function; ``numbers`` stand for its integers, in order."""
    b = integers.b
    arguments = []
    for x in routine.arguments:
        if isinstance(x, Reference):
            arguments.append(f"ptr {places[x.number].ref}")
        elif isinstance(x, str):
            arguments.append(f"ptr {module_constant(b, 'i8', str(ord(x))).ref}")
        elif routine.by_reference:
            arguments.append(f"ptr {integers.address(next(numbers)).ref}")
        else:
            arguments.append(f"i64 {integers.value(next(numbers)).ref}")
    types = ", ".join(x.split()[0] for x in arguments)
    b.declarations[routine.symbol] = f"declare i32 @{routine.symbol}({types})"
    b.do(f"call i32 @{routine.symbol}({', '.join(arguments)})")


__all__ = ["emit"]
