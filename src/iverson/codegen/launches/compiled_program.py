"""Compiled programs: `compile_program` makes one; a call checks its arrays and runs it in memory of its own.

A call allocates its outputs; the arena, where temporaries live, and the block of arguments belong to it while
it runs and are kept for the next. Calls from several threads each have their own, and run at the same time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from iverson.codegen.execution import object_code
from iverson.codegen.execution.native_workers import TEAM
from iverson.codegen.execution.routines import Failure, error_of
from iverson.codegen.launches import program_emission
from iverson.codegen.launches.buffer_checks import sizes_of
from iverson.codegen.launches.integer_arguments import CodeSharing, SymbolicSharing
from iverson.codegen.launches.nodes import Launches, are_shared
from iverson.codegen.launches.print import launches_text
from iverson.codegen.launches.program_launches import launches
from iverson.codegen.nests import fault_reports
from iverson.codegen.nests.nodes import Buffer, shape_at
from iverson.codegen.programs import blas_calls
from iverson.codegen.programs.buffer_allocation import ALIGN, Arena, arena, in_place
from iverson.codegen.programs.code_worth import of_worth
from iverson.codegen.programs.loop_rolling import rolled
from iverson.codegen.programs.nodes import Nest, Program, extents, walk
from iverson.codegen.programs.print import program_text
from iverson.codegen.programs.row_fusion import by_rows
from iverson.codegen.programs.thread_sharing import with_shared_scatters
from iverson.codegen.programs.verify import verify
from iverson.codegen.runtime import kernel_cache, workspaces
from iverson.codegen.runtime.array_headers import data_offset
from iverson.codegen.runtime.builtin_calls import builtin
from iverson.codegen.runtime.target import Machine, host
from iverson.core import dtypes
from iverson.core.python.cached import cached_property
from iverson.core.python.recent_items import RecentItems

Array = np.ndarray[Any, Any]
#: Arenas up to so many bytes stay with their program; larger ones go back to the workspace after each call.
SMALL = 2**20
_KEEP = 1024


@dataclass(frozen=True, slots=True)
class Calling:
    """Facts about a program that a call needs besides its code: numbers that a file can hold.

    inputs : how many arrays it takes.
    outputs : the shapes and dtypes of the arrays that it makes.
    constants : how many arrays it holds.
    arena : bytes of its arena.
    places : number of places in the record of faults.
    routines : names of the BLAS routines that it calls.
    failures : what is raised where a step stops it.
    shared_out : True if threads share its work anywhere.
    shared_products : True if they share a product.
    words : the integers that a call passes to code that programs of several sizes share.
    """

    inputs: int
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    constants: int
    arena: int
    places: int
    routines: tuple[str, ...]
    failures: tuple[Failure, ...]
    shared_out: bool
    shared_products: bool
    words: tuple[int, ...] = ()

    @property
    def objects(self) -> int:
        """Number of arrays in the block: inputs, then outputs."""
        return self.inputs + len(self.outputs)

    @property
    def made(self) -> int:
        """Bytes of the outputs of a call."""
        return sum(prod(shape) * dtype.itemsize for shape, dtype in self.outputs)

    @property
    def arena_at(self) -> int:
        """Position of the arena's address in the block."""
        return self.objects + self.constants

    @property
    def length(self) -> int:
        """The words of the block."""
        return self.arena_at + program_emission.FURTHER + len(self.routines) + len(self.words)

    def as_json(self) -> list[Any]:
        """The facts as values that JSON can hold; `from_json` reads them back."""
        outputs = [[shape, dtype.name] for shape, dtype in self.outputs]
        numbers = self.inputs, outputs, self.constants, self.arena, self.places
        failures = [astuple(f) for f in self.failures]
        return [*numbers, self.routines, failures, self.shared_out, self.shared_products, self.words]

    @classmethod
    def from_json(cls, facts: Sequence[Any]) -> Calling:
        inputs, outputs, constants, arena, places, routines, failures, by_team, products, words = facts
        output_specs = tuple((tuple(shape), dtypes.as_dtype(dtype)) for shape, dtype in outputs)
        texts = tuple(Failure(*parts) for parts in failures)
        counts = inputs, output_specs, constants, arena, places
        return cls(*counts, tuple(routines), texts, by_team, products, tuple(words))


def _calling(plan: Planned, words: tuple[int, ...]) -> Calling:
    program, layout = plan.program, plan.layout
    return Calling(
        len(program.of("in", "inout")),
        tuple((extents(b), b.dtype) for b in program.of("out")),
        len(layout.constants),
        plan.arena.bytes,
        layout.places,
        layout.routines,
        layout.failures,
        are_shared(plan.launches),
        layout.shared_products,
        words,
    )


@dataclass(frozen=True)
class Planned:
    """A program as planned, with steps in place; where its temporaries live, what its arguments are, and the
    launches that its code is made of."""

    program: Program
    arena: Arena
    layout: program_emission.Layout
    launches: Launches

    @property
    def text(self) -> str:
        """The text that the code is kept by."""
        return launches_text(self.launches, self.program.buffers)


class _Frame:
    """Memory of one call: the block of arguments, the arena, and the record of faults."""

    __slots__ = ("address", "alone", "arena", "block", "record")

    def __init__(self, program: CompiledProgram) -> None:
        calling = program.calling
        self.block = (ctypes.c_int64 * calling.length)()
        self.address = ctypes.addressof(self.block)
        self.record = np.zeros((max(calling.places, 1), 2), np.int64)
        workspaces.announce(calling.made)
        self.arena = np.empty(calling.arena + 2 * ALIGN, np.uint8) if program.small else None
        constants = [a.ctypes.data for a in program.constants]
        place = 0 if self.arena is None else _aligned(self.arena)
        table = (
            program.table or blas_calls.scipy_table() if calling.routines else blas_calls.Table("none", {})
        )
        routines = [table.addresses[n] for n in calling.routines]
        #: What its products are shared out under; None where they are not.
        self.alone = table.alone if calling.shared_products else None
        team = (TEAM.address, TEAM.run, 1 if self.alone is None else TEAM.threads)
        record = self.record.ctypes.data
        self.block[calling.objects :] = [*constants, place, record, *team, *routines, *calling.words]


def _dense(a: Array) -> Array:
    """An array's entries in C order and aligned; the array itself where they are."""
    flags = a.flags
    return a if flags.c_contiguous and flags.aligned else np.array(a, order="C")


def _aligned(a: Array) -> int:
    return -(-int(a.ctypes.data) // ALIGN) * ALIGN


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """Machine code for a program; ``compiled(*arrays)`` takes the in and inout arrays, and returns the
    outputs.

    calling : what a call needs to know. key : of the code, in memory and on disk.
    plan : gives the program as planned; of one whose code was kept, the plan is made when it is asked for.
    table : the BLAS to call (None: SciPy's).
    source, llvm, asm : it as text, LLVM's optimised IR, and the
    assembly.
    """

    calling: Calling
    key: str
    plan: Callable[[], Planned]
    library: object_code.Library
    target: Machine
    table: blas_calls.Table | None
    constants: tuple[Array, ...]
    _frames: list[_Frame] = field(default_factory=list, repr=False)

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Run; inout arrays are written, the outputs are new.

        Raises ArgumentTypeError, DTypeError, ShapeError or ArgumentError for arrays that do not fit, and
        IndexingError where an index that is used is outside its buffer, or LinearAlgebraError where a routine
        fails; what is written to may then hold anything.
        """
        self.check(arrays)
        return self.run(arrays)

    def run(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Run on arrays whose shapes and dtypes fit: others are read and written outside their memory.

        Inputs that are only read may lie in any order: a copy is made of those that the code cannot read.
        """
        outputs = tuple(map(np.empty, *self._outputs))
        if self.calling.shared_out and not TEAM.started:
            TEAM.start()
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self)
        borrowed = None
        if frame.arena is None:
            borrowed = workspaces.take((self.calling.arena + 2 * ALIGN,), _BYTE)
            frame.block[self.calling.arena_at] = _aligned(borrowed)
        if frame.alone is None:
            failed = self._entry(frame.address, arrays, outputs)
        else:
            with frame.alone:
                failed = self._entry(frame.address, arrays, outputs)
        if borrowed is not None:
            workspaces.give_back([borrowed])
        if failed == program_emission.NOT_DENSE:
            return self.run(tuple(map(_dense, arrays)))
        if failed:
            self._raise(failed, frame.record)
        self._frames.append(frame)
        return outputs

    def check(self, arrays: tuple[Array, ...]) -> None:
        """Raises an error for arrays that do not fit the in and inout buffers."""
        sizes_of(f"codegen: program '{self.program.name}'", self._inputs, arrays, {})

    def _raise(self, failed: int, record: Array) -> None:
        if failed >= program_emission.FAILED:
            raise error_of(self.calling.failures[failed - program_emission.FAILED])
        for nest, plan, start in self.layout.nests.values():
            rows = record[start : start + len(plan.reported)]
            shapes = {b.name: shape_at(b, nest.values) for b in nest.kernel.buffers}
            fault_reports.check(nest.kernel.name, plan, rows, shapes)

    @cached_property
    def small(self) -> bool:
        """True if the arena is so small that each frame keeps one."""
        return self.calling.arena <= SMALL

    @cached_property
    def _entry(self) -> Any:
        return self.library.functions[program_emission.ENTRY_NAME]

    @cached_property
    def _inputs(self) -> tuple[Buffer, ...]:
        return self.program.of("in", "inout")

    @cached_property
    def _outputs(self) -> tuple[tuple[Any, ...], ...]:
        """The shapes of the outputs, and their dtypes."""
        return tuple(zip(*self.calling.outputs, strict=True)) or ((), ())

    @cached_property
    def _planned(self) -> Planned:
        return self.plan()

    @property
    def program(self) -> Program:
        """The program as planned."""
        return self._planned.program

    @property
    def arena(self) -> Arena:
        """Places of the temporaries in memory."""
        return self._planned.arena

    @property
    def layout(self) -> program_emission.Layout:
        """Layout of the arguments."""
        return self._planned.layout

    @property
    def source(self) -> str:
        """The program as text."""
        return program_text(self.program)

    @property
    def text(self) -> str:
        """The IR as emitted."""
        return program_emission.emit(self._planned.launches, self.layout, self.target)

    @property
    def llvm(self) -> str:
        """The IR after LLVM's passes."""
        return object_code.to_llvm(self.text, self.target)

    @property
    def asm(self) -> str:
        """The machine's assembly."""
        return object_code.to_assembly(self.text, self.target)


_BYTE = np.dtype(np.uint8)


# --- compiling --------------------------------------------------------------------------------------

_libraries: RecentItems[str, object_code.Library] = RecentItems(_KEEP)


def compile_program(
    program: Program,
    *,
    target: Machine | None = None,
    table: blas_calls.Table | None = None,
    sharing: CodeSharing | SymbolicSharing | None = None,
    threads: int | None = None,
) -> CompiledProgram:
    """Machine code for a program, from memory or disk where one of its structure was compiled before.

    target : the processor to compile for, one whose code this one runs (default: this one).
    table : the BLAS to call (default: SciPy's).
    sharing : codes that programs of other sizes share (default: the code is for this program's integers).
    threads : 1 if threads share no phase, more if they share all that they may (default: the long ones).
    Raises ArgumentError for a program that breaks the rules of the IR.
    """
    target = target or host()
    plan = planned(program, threads)

    def key_of(text: str) -> str:
        return kernel_cache.digest(f"{data_offset()}\n{text}", target)

    if sharing is None:
        key, calling = key_of(plan.text), _calling(plan, ())
    else:
        key, words, calls = sharing.code(plan.launches, plan.program.buffers, key_of)
        calling = _calling(plan, words)
        plan = replace(plan, launches=calls)
    library = _known(key)
    if library is None:
        code = object_code.to_object(program_emission.emit(plan.launches, plan.layout, target), target)
        kernel_cache.write(key, code)
        library = _loaded(key, code)
    arrays = plan.program.constants
    constants = tuple(np.ascontiguousarray(arrays[b.name]) for b in plan.layout.constants)
    return CompiledProgram(calling, key, lambda: plan, library, target, table, constants)


def planned(program: Program, threads: int | None = None) -> Planned:
    """A program with all that is decided before its code is made.

    threads : as of `compile_program`.
    Raises ArgumentError for a program that breaks the rules of the IR.
    """
    program = with_shared_scatters(verify(program), threads)
    if not any(isinstance(s, Nest) and s.sizes for s in walk(program.steps)):  # lowered at once with others
        program = of_worth(by_rows(in_place(rolled(program))))
    places, layout = arena(program), program_emission.layout(program)
    calls = launches(program, places, layout.nests, layout.failures, threads)
    return Planned(program, places, layout, calls)


def compiled_before(
    calling: Calling, key: str, plan: Callable[[], Planned], constants: Sequence[Array]
) -> CompiledProgram | None:
    """A program whose code is stored under a key; None if the code is no longer there.

    plan : plans it again, for who asks what it does.
    """
    library = _known(key)
    if library is None:
        return None
    arrays = tuple(map(np.ascontiguousarray, constants))
    return CompiledProgram(calling, key, plan, library, host(), None, arrays)


def _known(key: str) -> object_code.Library | None:
    """The code of a key, from memory or disk."""
    library = _libraries.find(key)
    if library is not None:
        return library
    code = kernel_cache.read(key)
    return None if code is None else _loaded(key, code)


def _loaded(key: str, code: bytes) -> object_code.Library:
    library = object_code.load(code, (program_emission.ENTRY_NAME,), builtin)
    return _libraries.keep(key, library)


def forget() -> None:
    """Drop the code held in memory (what is on disk stays)."""
    _libraries.clear()


__all__ = ["Calling", "CompiledProgram", "Planned", "compile_program", "compiled_before", "forget", "planned"]
