"""Compiled kernels: `compile_kernel` makes one; a call runs it as a program of one nest.

The sizes of a kernel are integers that the call passes (`integer_arguments`): one machine code serves them
all. What is planned for some sizes is kept for the next call with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iverson.codegen.execution.verify import verify
from iverson.codegen.launches import compiled_program
from iverson.codegen.launches.buffer_checks import sizes_of
from iverson.codegen.launches.compiled_program import CompiledProgram, compile_program
from iverson.codegen.launches.integer_arguments import CodeSharing
from iverson.codegen.nests.nodes import Kernel, shape_at
from iverson.codegen.nests.print import kernel_text
from iverson.codegen.programs.nodes import Nest, Program, whole
from iverson.codegen.runtime.target import Machine, host
from iverson.core.errors import ArgumentError
from iverson.core.python.recent_items import RecentItems

Array = np.ndarray[Any, Any]
_KEEP = 4096
#: How many sizes a kernel keeps a program for.
KEPT = 64


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """Machine code for a kernel; ``compiled(*arrays)`` runs it on its arguments in order.

    source : the loop nest as pseudo-code. target : the processor that the code is for.
    """

    kernel: Kernel
    source: str
    target: Machine
    _sharing: CodeSharing = field(default_factory=lambda: CodeSharing(always=True), repr=False)
    _programs: RecentItems[Any, CompiledProgram] = field(
        default_factory=lambda: RecentItems(KEPT), repr=False
    )

    def __call__(self, *arrays: Array, threads: int | None = None, **sizes: int) -> None:
        """Run on the arguments (``kernel.arguments``, in order); ``out`` and ``inout`` ones are written.

        sizes : values for the kernel's sizes that no array's shape gives.
        threads : 1 to run on this one, more to share all that may be shared (default: what is worth it).

        Raises ArgumentTypeError, DTypeError, ShapeError or ArgumentError for arrays that do not fit, and
        IndexingError where an index that is used is outside its buffer; what is written to may then hold
        anything.
        """
        operation = f"codegen: kernel '{self.kernel.name}'"
        values = sizes_of(operation, self.kernel.arguments, arrays, sizes)
        missing = [n for n in self.kernel.sizes if n not in values]
        if missing:
            raise ArgumentError(operation, missing[0], got="no value", expected="a size by keyword")
        if any(n < 0 for n in sizes.values()):
            raise ArgumentError(operation, got=str(sizes), expected="sizes of at least 0")
        self.run(arrays, values, threads)

    def run(self, arrays: Sequence[Array], sizes: Mapping[str, int], threads: int | None = None) -> None:
        """Run on arrays that the caller made to fit; ``sizes`` gives every size of the kernel.

        Only indices are checked: an array that does not fit is read and written outside its memory.
        """
        self.at(sizes, threads).run(tuple(arrays))

    def at(self, sizes: Mapping[str, int], threads: int | None = None) -> CompiledProgram:
        """The program of this kernel for values of its sizes.

        threads : as of `__call__`.
        """
        values = tuple([sizes[n] for n in self.kernel.sizes])
        key = values, threads
        program = self._programs.find(key)
        if program is None:
            sharing = self._sharing if values else None
            program = compile_program(
                self._program(values), target=self.target, sharing=sharing, threads=threads
            )
            self._programs.keep(key, program)
        return program

    def _program(self, values: tuple[int, ...]) -> Program:
        """The program at values of the sizes; what the kernel writes is passed to it."""
        sizes = dict(zip(self.kernel.sizes, values, strict=True))
        buffers = [
            replace(b, shape=shape_at(b, sizes), role="in" if b.role == "in" else "inout")
            for b in self.kernel.arguments
        ]
        nest = Nest(self.kernel, tuple(map(whole, buffers)), values)
        return Program(self.kernel.name, tuple(buffers), (nest,))

    @property
    def typical(self) -> CompiledProgram:
        """The program where each size is 64, whose code can be looked at."""
        return self.at(dict.fromkeys(self.kernel.sizes, 64))


# --- compiling --------------------------------------------------------------------------------------

_kernels: RecentItems[tuple[str, Machine], CompiledKernel] = RecentItems(_KEEP)


def compile_kernel(kernel: Kernel, *, target: Machine | None = None) -> CompiledKernel:
    """A kernel to call, from memory where there is an equal one; its code is made at the first call.

    target : the processor to compile for, one whose code this one runs (default: this one).
    Raises ArgumentError for a kernel that breaks the rules of the IR.
    """
    key = kernel_text(kernel), target or host()
    return _kernels.find(key) or _kernels.keep(key, CompiledKernel(verify(kernel), *key))


def forget() -> None:
    """Drop the kernels and programs held in memory (code on disk stays)."""
    _kernels.clear()
    compiled_program.forget()


__all__ = ["CompiledKernel", "compile_kernel", "forget"]
