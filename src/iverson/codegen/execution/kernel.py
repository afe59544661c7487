"""Compiled kernels: `compile_kernel` makes one; a call checks its arrays, then runs machine code on them.

A call checks dtypes, ranks, extents, strides and overlap before any compiled code runs. Every index that was
not proven when compiling (`codegen.nests.access_checks`) is checked then or in the loops.
`CompiledKernel.run`, for arrays that the caller made, checks indices only.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iverson.codegen.emit import nest_emission
from iverson.codegen.execution import object_code
from iverson.codegen.execution.launch import launch
from iverson.codegen.execution.verify import verify
from iverson.codegen.nests.access_checks import Plan, follows, index_buffers
from iverson.codegen.nests.access_checks import plan as plan_of
from iverson.codegen.nests.nodes import Buffer, Kernel
from iverson.codegen.nests.print import kernel_text, nameless_text
from iverson.codegen.runtime import kernel_cache
from iverson.codegen.runtime.target import Machine, host
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from iverson.core.python import locks
from iverson.core.python.cached import cached_property
from iverson.expr.intervals import Interval

Array = np.ndarray[Any, Any]
_KEEP = 4096


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """Machine code for a kernel; ``compiled(*arrays)`` runs it on its arguments in order.

    entries : the entry point of each phase. target : the processor that the code is for.
    source, llvm, asm : the loop nest as pseudo-code, LLVM's optimised IR, and the assembly.
    """

    kernel: Kernel
    source: str
    plan: Plan
    library: object_code.Library
    entries: tuple[str, ...]
    target: Machine
    facts: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __call__(self, *arrays: Array, threads: int | None = None, **sizes: int) -> None:
        """Run on the arguments (``kernel.arguments``, in order); ``out`` and ``inout`` ones are written.

        sizes : values for the kernel's sizes that no array's shape or strides gives.
        threads : at most this many (default: as many as processors, if the work is worth it).

        Raises ArgumentTypeError, DTypeError, ShapeError or ArgumentError for arrays that do not fit, and
        IndexingError where an index that is used is outside its buffer; what is written to may then hold
        anything.
        """
        self.run(arrays, _bind(self.kernel, arrays, sizes), threads)

    def run(self, arrays: Sequence[Array], sizes: Mapping[str, int], threads: int | None = None) -> None:
        """Run on arrays that the caller made to fit; ``sizes`` gives every size of the kernel.

        Only indices are checked: an array that does not fit is read and written outside its memory.
        """
        arguments = iter(arrays)
        by_name = {
            b.name: _temporary(b, sizes) if b.role == "temp" else next(arguments)
            for b in self.kernel.buffers
            if b.role != "row"
        }
        runs = self if self._decided(arrays, sizes) else self.careful
        launch(
            runs,
            by_name,
            sizes,
            threads,
            functools.partial(compile_kernel, careful=runs is not self, target=self.target),
        )

    @property
    def llvm(self) -> str:
        """The IR after LLVM's passes."""
        return object_code.to_llvm(self.text, self.target)

    @property
    def asm(self) -> str:
        """The machine's assembly."""
        return object_code.to_assembly(self.text, self.target)

    @property
    def text(self) -> str:
        """The IR as emitted."""
        return nest_emission.emit(self.kernel, self.target, self.plan)

    @cached_property
    def careful(self) -> CompiledKernel:
        """The same kernel, compiled so that its loops test the indices that this one checks at the call."""
        return compile_kernel(self.kernel, careful=True, target=self.target)

    def _decided(self, arrays: Sequence[Array], sizes: Mapping[str, int]) -> bool:
        """True if sizes and ranges of index buffers prove that every access is inside."""
        if not self.plan.checks:
            return True
        ranges: dict[str, Interval] = {name: (n, n) for name, n in sizes.items()}
        by_name = {b.name: a for b, a in zip(self.kernel.arguments, arrays, strict=True)}
        for b in self._indices:
            a = by_name[b.name]
            # Nothing is loaded from an empty buffer.
            ranges[f"[{b.name}]"] = (
                (int(np.minimum.reduce(a, axis=None)), int(np.maximum.reduce(a, axis=None)))
                if a.size
                else (0, -1)
            )
        key = "inside", frozenset(ranges.items())
        if key not in self.facts:
            if len(self.facts) > 1000:
                self.facts.clear()
            self.facts[key] = follows(self.plan, self.kernel, ranges)
        return bool(self.facts[key])

    @cached_property
    def _indices(self) -> tuple[Buffer, ...]:
        names = {b.name for b in self.kernel.arguments}
        return tuple(b for b in index_buffers(self.plan.checks) if b.name in names)


# --- arguments --------------------------------------------------------------------------------------


def _bind(kernel: Kernel, arrays: tuple[Array, ...], explicit_sizes: Mapping[str, int]) -> dict[str, int]:
    """Check every array against its buffer; return the sizes that follow from shapes and strides.

    The result also has the sizes in ``explicit_sizes``.
    """
    operation = f"codegen: kernel '{kernel.name}'"
    buffers = kernel.arguments
    if len(arrays) != len(buffers):
        raise ArgumentError(operation, got=f"{len(arrays)} arrays", expected=f"{len(buffers)}")
    sizes = {name: int(n) for name, n in explicit_sizes.items()}
    for b, a in zip(buffers, arrays, strict=True):
        if type(a) is not np.ndarray:
            raise ArgumentTypeError(operation, b.name, got=type(a).__name__, expected="a NumPy array")
        if a.dtype != b.dtype:
            raise DTypeError(operation, b.name, got=a.dtype.name, expected=b.dtype.name)
        if a.ndim != len(b.shape):
            raise ShapeError(operation, b.name, got=f"rank {a.ndim}", expected=f"rank {len(b.shape)}")
        for want, n in zip(b.shape, a.shape, strict=True):
            if (sizes.setdefault(want, n) if isinstance(want, str) else want) != n:
                expected = tuple(sizes.get(w, w) if isinstance(w, str) else w for w in b.shape)
                raise ShapeError(operation, b.name, got=f"shape {a.shape}", expected=str(expected))
        _bind_strides(operation, b, a, sizes)
        if b.role != "in" and not a.flags.writeable:
            raise ArgumentError(operation, b.name, got="a read-only array", expected="one to write")
    missing = [n for n in kernel.sizes if n not in sizes]
    if missing:
        raise ArgumentError(operation, missing[0], got="no value", expected="a size by keyword")
    if any(n < 0 for k, n in explicit_sizes.items()):
        raise ArgumentError(operation, got=str(dict(explicit_sizes)), expected="sizes of at least 0")
    _check_overlap(operation, buffers, arrays)
    return sizes


def _bind_strides(operation: str, b: Buffer, a: Array, sizes: dict[str, int]) -> None:
    """Check an array's strides against those of its buffer; strides that are names are added to ``sizes``."""
    if b.strides is None:
        if not (a.flags.c_contiguous and a.flags.aligned):
            raise ArgumentError(
                operation,
                b.name,
                got=f"strides {a.strides}",
                expected="a C-contiguous, aligned array",
                remedy="use numpy.ascontiguousarray",
            )
        return
    if not a.flags.aligned or any(s % a.itemsize for s in a.strides):
        raise ArgumentError(operation, b.name, got="an unaligned array", expected="an aligned one")
    for want, s in zip(b.strides, a.strides, strict=True):
        steps = s // a.itemsize
        if (sizes.setdefault(want, steps) if isinstance(want, str) else want) != steps:
            raise ArgumentError(operation, b.name, got=f"stride {steps}", expected=f"stride {want}")
    if b.role != "in" and 0 in [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1]:
        raise ArgumentError(operation, b.name, got="a broadcast array", expected="one to write")


def _check_overlap(operation: str, buffers: tuple[Buffer, ...], arrays: tuple[Array, ...]) -> None:
    """Raise ArgumentError if an array that is written shares memory with another one."""
    for k, (b, a) in enumerate(zip(buffers, arrays, strict=True)):
        if b.role == "in":
            continue
        for n, other in enumerate(arrays):
            if n != k and np.may_share_memory(a, other):
                raise ArgumentError(
                    operation,
                    b.name,
                    got=f"memory shared with '{buffers[n].name}'",
                    expected="an output of its own",
                    remedy="pass a copy",
                )


def _temporary(b: Buffer, sizes: Mapping[str, int]) -> Array:
    shape = tuple(sizes[n] if isinstance(n, str) else n for n in b.shape)
    return np.empty(shape, b.dtype)


# --- compiling --------------------------------------------------------------------------------------

_kernels: OrderedDict[tuple[str, Machine], CompiledKernel] = OrderedDict()
_lock = locks.lock()


def compile_kernel(kernel: Kernel, *, careful: bool = False, target: Machine | None = None) -> CompiledKernel:
    """Machine code for a kernel, from memory or disk where it was compiled before.

    careful : test in the loops what calls would otherwise decide from ranges (`codegen.nests.access_checks`).
    target : the processor to compile for, one whose code this one runs (default: this one).
    Raises ArgumentError for a kernel that breaks the rules of the IR.
    """
    source = kernel_text(kernel) + ("\ncareful" if careful else "")
    target = target or host()
    key = source, target
    with _lock:
        compiled = _kernels.get(key)
        if compiled is not None:
            _kernels.move_to_end(key)
            return compiled
    compiled = _compile(verify(kernel), source, careful, target)
    with _lock:
        _kernels[key] = compiled
        while len(_kernels) > _KEEP:
            _kernels.popitem(last=False)
    return compiled


def forget() -> None:
    """Drop the kernels held in memory (those on disk stay)."""
    with _lock:
        _kernels.clear()


def _compile(kernel: Kernel, source: str, careful: bool, target: Machine) -> CompiledKernel:
    plan = plan_of(kernel, careful=careful)
    key = kernel_cache.digest(nameless_text(kernel) + ("\ncareful" if careful else ""), target)
    entries = nest_emission.entry_names(kernel, plan)
    code = kernel_cache.read(key)
    if code is None:
        code = object_code.to_object(nest_emission.emit(kernel, target, plan), target)
        kernel_cache.write(key, code)
    library = object_code.load(code, tuple(dict.fromkeys(entries)), object_code.ENTRY)
    return CompiledKernel(kernel, source, plan, library, entries, target)
