"""Emission of calls of library routines: loops of universal functions, and functions of LAPACK and NumPy.

An elementwise function of many entries is shared among threads, each of which calls its loop on a part.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from iverson.codegen.emit import ufunc_calls
from iverson.codegen.emit.llvm_builder import I32, I64, PTR, Builder, Value, function_text
from iverson.codegen.execution.routines import Function, Loop, Reference, extents_of
from iverson.codegen.programs.nodes import Call, View
from iverson.codegen.programs.product_emission import Texts, counted, displaced, item_indices, module_constant
from iverson.codegen.runtime import library_functions

Pointer = Callable[[View], Value]
#: Emits the call of a function on shares: its name, its arguments, and the number of iterations.
Run = Callable[[str, list[Value], Value], None]
#: Entries from which an elementwise function is shared among threads: some 20 microseconds of a processor.
WORTH_THREADS = 2**13


def is_shared_out(s: Call) -> bool:
    """True if threads share a call: of an elementwise function of many entries that lie in order."""
    is_elementwise = isinstance(s.routine, Loop) and not any(s.routine.cores)
    return is_elementwise and prod(s.batch) >= WORTH_THREADS and all(v.contiguous for v in s.views)


def emit(b: Builder, s: Call, pointer: Pointer, run: Run, texts: Texts) -> None:
    """Emit the calls of a routine for all items of the batch.

    pointer : emits the address of a view. texts : the functions of the module.
    """
    batch = s.batch
    if 0 in batch:
        return
    addresses = [pointer(v) for v in s.views]
    if is_shared_out(s):
        run(_share(b, s, texts), addresses, b.const(prod(batch), I64))
        b.wrote()
        return
    if s.status is not None:
        b.declarations[library_functions.CLEAR] = f"declare void @{library_functions.CLEAR}()"
        b.do(f"call void @{library_functions.CLEAR}()")
    # The loop of a universal function runs over the last axis of the batch itself.
    outer = batch[:-1] if isinstance(s.routine, Loop) else batch

    def item(at: Value) -> None:
        indices = item_indices(b, outer, at)
        places = []
        for v, place in zip(s.views, addresses, strict=True):
            for i, stride in zip(indices, v.strides, strict=False):
                place = displaced(b, place, i * (stride * v.buffer.dtype.itemsize)) if stride else place
            places.append(place)
        if isinstance(s.routine, Loop):
            _loop(b, s, s.routine, places)
        else:
            _function(b, s.routine, places)
        b.wrote()

    counted(b, prod(outer), item)
    if s.status is not None:
        status = b.call(library_functions.READ, I32, (), pure=False) & library_functions.INVALID
        b.store(pointer(s.status), status, 4)
        b.wrote()


def _loop(b: Builder, s: Call, routine: Loop, places: list[Value]) -> None:
    """Emit one call of a loop, over the last axis of the batch."""
    cores = routine.cores
    extents = extents_of(cores, [v.shape for v in s.views])
    assert extents is not None, "verified"
    count = len(s.batch) - 1
    sizes = [s.batch[-1] if s.batch else 1, *extents.values()]
    steps = [v.strides[count] * v.buffer.dtype.itemsize if s.batch else 0 for v in s.views]
    for core, v in zip(cores, s.views, strict=True):
        steps += [k * v.buffer.dtype.itemsize for k in v.strides[len(v.strides) - len(core) :]]
    table = b.slot(PTR, len(places))
    for k, place in enumerate(places):
        b.store(displaced(b, table, b.const(8 * k, I64)), place, 8)
    ufunc_calls.call_loop(
        b,
        routine.module,
        routine.name,
        routine.signature,
        table,
        ufunc_calls.numbers(b, sizes),
        ufunc_calls.numbers(b, steps),
    )


def _share(b: Builder, s: Call, texts: Texts) -> str:
    """Name of a function that calls the loop of an elementwise function on a part of its operands.

    It is ``void name(i64 first, i64 last, ptr arguments)``, made at its first use.
    """
    routine = s.routine
    assert isinstance(routine, Loop)
    if routine not in texts.names:
        name = texts.names[routine] = f"iverson_routine_{len(texts)}"
        e = b.nested()
        first, last = (Value(e, register, I64) for register in ("%first", "%last"))
        sizes = [v.buffer.dtype.itemsize for v in s.views]
        table, count = e.slot(PTR, len(sizes)), e.slot(I64)
        for k, size in enumerate(sizes):
            word = displaced(e, Value(e, "%arguments", PTR), e.const(8 * k, I64))
            e.store(
                displaced(e, table, e.const(8 * k, I64)), displaced(e, e.load(word, PTR, 8), first * size), 8
            )
        e.put(count, last - first)
        steps = ufunc_calls.numbers(e, sizes)
        ufunc_calls.call_loop(e, routine.module, routine.name, routine.signature, table, count.ref, steps)
        e.do("ret void")
        texts.append(function_text(e, name, None, "i64 %first, i64 %last, ptr %arguments"))
    return texts.names[routine]


def _function(b: Builder, routine: Function, places: list[Value]) -> None:
    """Emit one call of a function."""
    arguments = []
    for x in routine.arguments:
        if isinstance(x, Reference):
            arguments.append(f"ptr {places[x.number].ref}")
        elif isinstance(x, str):
            arguments.append(f"ptr {module_constant(b, 'i8', str(ord(x))).ref}")
        elif routine.by_reference:
            arguments.append(f"ptr {module_constant(b, 'i32', str(x)).ref}")
        else:
            arguments.append(f"i64 {x}")
    types = ", ".join(x.split()[0] for x in arguments)
    b.declarations[routine.symbol] = f"declare i32 @{routine.symbol}({types})"
    b.do(f"call i32 @{routine.symbol}({', '.join(arguments)})")


__all__ = ["emit", "is_shared_out"]
