"""Compiled programs: checking a call's arrays, its memory, and `compile_program`, which makes one.

A call allocates its outputs; the arena, where temporaries live, and the block of arguments belong to it while
it runs and are kept for the next. Calls from several threads each have their own, and run at the same time.
"""

from __future__ import annotations

import ctypes
import functools
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iverson.codegen import cache, compile, faults, workspace
from iverson.codegen.nodes import Buffer
from iverson.codegen.programs import blas, emit
from iverson.codegen.programs.arena import ALIGN, Arena, arena, in_place
from iverson.codegen.programs.nodes import Program, extents
from iverson.codegen.programs.print import program_text, structure
from iverson.codegen.programs.verify import verify
from iverson.codegen.programs.workers import TEAM
from iverson.codegen.target import Machine, host
from iverson.core import locks
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

Array = np.ndarray[Any, Any]
#: Arenas up to so many bytes stay with their program; larger ones go back to the workspace after each call.
SMALL = 2**20
_KEEP = 1024

#: ``int64 program(int64 *arguments)``; a call releases the GIL.
ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class _Frame:
    """What a call has for itself: the block of arguments, the arena, and the record of faults."""

    __slots__ = ("address", "arena", "block", "record")

    def __init__(self, made: CompiledProgram) -> None:
        known = made.layout
        self.block = (ctypes.c_int64 * known.length)()
        self.address = ctypes.addressof(self.block)
        self.record = np.zeros((max(known.places, 1), 2), np.int64)
        self.arena = np.empty(made.arena.bytes + 2 * ALIGN, np.uint8) if made.small else None
        held = [a.ctypes.data for a in made.constants]
        place = 0 if self.arena is None else _aligned(self.arena)
        table = made.table or blas.scipy_table() if known.routines else blas.Table("none", {})
        routines = [table.addresses[n] for n in known.routines]
        team = (TEAM.address, TEAM.run)
        self.block[len(known.objects) :] = [*held, place, self.record.ctypes.data, *team, *routines]


def _aligned(a: Array) -> int:
    return -(-int(a.ctypes.data) // ALIGN) * ALIGN


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """Machine code for a program; ``compiled(*arrays)`` takes the in and inout arrays, and returns the
    outputs.

    program : as planned, with steps in place. table : the BLAS to call (None: SciPy's).
    source, llvm, asm : it as text, LLVM's optimised IR, and the
    assembly.
    """

    program: Program
    arena: Arena
    layout: emit.Layout
    library: compile.Library
    target: Machine
    table: blas.Table | None
    constants: tuple[Array, ...]
    _frames: list[_Frame] = field(default_factory=list, repr=False)

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Run; inout arrays are written, the outputs are new.

        Raises ArgumentTypeError, DTypeError, ShapeError or ArgumentError for arrays that do not fit, and
        IndexingError where an index that is used is outside its buffer; what is written to may then hold
        anything.
        """
        self.check(arrays)
        return self.run(arrays)

    def run(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """As a call, on arrays that fit: others are read and written outside their memory."""
        outputs = tuple([np.empty(shape, dtype) for shape, dtype in self._outputs])
        if self._shared_out and not TEAM.started:
            TEAM.start()
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self)
        block = frame.block
        for k, n in enumerate(self._order):
            block[k] = id(arrays[n] if n >= 0 else outputs[~n])
        if frame.arena is None:
            borrowed = workspace.take((self.arena.bytes + 2 * ALIGN,), _BYTE)
            block[self.layout.arena] = _aligned(borrowed)
            failed = self._entry(frame.address)
            workspace.give_back([borrowed])
        else:
            failed = self._entry(frame.address)
        if failed:
            self._raise(frame.record)
        self._frames.append(frame)
        return outputs

    def check(self, arrays: tuple[Array, ...]) -> None:
        """Raises an error for arrays that do not fit the in and inout buffers."""
        operation = f"codegen: program '{self.program.name}'"
        buffers = self._inputs
        if len(arrays) != len(buffers):
            raise ArgumentError(operation, got=f"{len(arrays)} arrays", expected=f"{len(buffers)}")
        for b, a in zip(buffers, arrays, strict=True):
            _check_array(operation, b, a)
            if b.role == "inout" and sum(np.may_share_memory(a, other) for other in arrays) > 1:
                raise ArgumentError(
                    operation, b.name, got="memory shared with another array", expected="memory of its own"
                )

    def _raise(self, record: Array) -> None:
        for kernel, plan, start in self.layout.nests.values():
            found = record[start : start + len(plan.reported)]
            shapes = {b.name: extents(b) for b in kernel.buffers}
            faults.check(kernel.name, plan, found, shapes)

    @functools.cached_property
    def small(self) -> bool:
        """Whether its arena stays with it."""
        return self.arena.bytes <= SMALL

    @functools.cached_property
    def _entry(self) -> Any:
        return self.library.functions[emit.ENTRY_NAME]

    @functools.cached_property
    def _shared_out(self) -> bool:
        return self.layout.shared_out

    @functools.cached_property
    def _inputs(self) -> tuple[Buffer, ...]:
        return self.program.of("in", "inout")

    @functools.cached_property
    def _outputs(self) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
        return tuple((extents(b), b.dtype) for b in self.program.of("out"))

    @functools.cached_property
    def _order(self) -> tuple[int, ...]:
        """For each object of the block: the number of an argument, or the complement of an output's."""
        given = {b: n for n, b in enumerate(self._inputs)}
        given |= {b: ~n for n, b in enumerate(self.program.of("out"))}
        return tuple(given[b] for b in self.layout.objects)

    @property
    def source(self) -> str:
        """The program as text."""
        return program_text(self.program)

    @property
    def text(self) -> str:
        """The IR as emitted."""
        return emit.emit(self.program, self.arena, self.layout, self.target)

    @property
    def llvm(self) -> str:
        """The IR after LLVM's passes."""
        return compile.to_llvm(self.text, self.target)

    @property
    def asm(self) -> str:
        """The machine's assembly."""
        return compile.to_assembly(self.text, self.target)


_BYTE = np.dtype(np.uint8)


def _check_array(operation: str, b: Buffer, a: Array) -> None:
    if type(a) is not np.ndarray:
        raise ArgumentTypeError(operation, b.name, got=type(a).__name__, expected="a NumPy array")
    if a.dtype != b.dtype:
        raise DTypeError(operation, b.name, got=a.dtype.name, expected=b.dtype.name)
    if a.shape != b.shape:
        raise ShapeError(operation, b.name, got=f"shape {a.shape}", expected=str(b.shape))
    flags = a.flags
    if not (flags.c_contiguous and flags.aligned):
        raise ArgumentError(
            operation,
            b.name,
            got=f"strides {a.strides}",
            expected="a C-contiguous, aligned array",
            remedy="use numpy.ascontiguousarray",
        )
    if b.role == "inout" and not flags.writeable:
        raise ArgumentError(operation, b.name, got="a read-only array", expected="one to write")


# --- compiling --------------------------------------------------------------------------------------

_libraries: OrderedDict[tuple[str, Machine], compile.Library] = OrderedDict()
_lock = locks.lock()


def compile_program(
    program: Program, *, target: Machine | None = None, table: blas.Table | None = None
) -> CompiledProgram:
    """Machine code for a program, from memory or disk where one of its structure was compiled before.

    target : the processor to compile for, one whose code this one runs (default: this one).
    table : the BLAS to call (default: SciPy's).
    Raises ArgumentError for a program that breaks the rules of the IR.
    """
    target = target or host()
    program = in_place(verify(program))
    places, known = arena(program), emit.layout(program)
    text = structure(program)
    key = text, target
    with _lock:
        library = _libraries.get(key)
        if library is not None:
            _libraries.move_to_end(key)
    if library is None:
        library = _library(program, places, known, target, text)
        with _lock:
            _libraries[key] = library
            while len(_libraries) > _KEEP:
                _libraries.popitem(last=False)
    constants = tuple(np.ascontiguousarray(program.constants[b.name]) for b in known.constants)
    return CompiledProgram(program, places, known, library, target, table, constants)


def forget() -> None:
    """Drop the code held in memory (what is on disk stays)."""
    with _lock:
        _libraries.clear()


def _library(
    program: Program, places: Arena, known: emit.Layout, target: Machine, text: str
) -> compile.Library:
    digest = cache.digest(f"{emit.data_offset()}\n{text}", target)
    code = cache.read(digest)
    if code is None:
        code = compile.to_object(emit.emit(program, places, known, target), target)
        cache.write(digest, code)
    return compile.load(code, (emit.ENTRY_NAME,), ENTRY)


__all__ = ["CompiledProgram", "compile_program", "forget"]
