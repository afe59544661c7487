"""Verifier of the program IR: its rules, executable; `verify` raises on the first broken one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iverson.codegen.execution.routines import Loop, extents_of
from iverson.codegen.execution.verify import verify as verify_kernel
from iverson.codegen.nests.nodes import shape_at
from iverson.codegen.programs import blas_calls
from iverson.codegen.programs.nodes import (
    ROLES,
    Branch,
    Call,
    Leaf,
    Nest,
    Number,
    Product,
    Program,
    Repeat,
    Step,
    View,
    extents,
    reads_and_writes,
    size,
)
from iverson.core import dtypes
from iverson.core.errors import ArgumentError
from iverson.expr.nodes import DType
from iverson.expr.symbolic_numbers import plain


@dataclass
class _Scope:
    """Facts known at a step: the iterations of each loop around it, and the buffers that hold values."""

    trips: dict[str, int | None] = field(default_factory=dict)
    initialized: set[str] = field(default_factory=set)


def verify(program: Program) -> Program:
    """The program itself, if it keeps the rules; else ArgumentError naming the part at fault."""
    check = _Verifier(program)
    check.buffers()
    scope = _Scope(initialized={b.name for b in program.of("in", "inout", "const")})
    check.block(program.steps, scope)
    for b in program.of("out"):
        check.require(b.name in scope.initialized or size(b) == 0, b.name, "no step that writes it", "one")
    return program


class _Verifier:
    """Checks of the rules for one program; each raises ArgumentError if a rule is broken."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.known = set(program.buffers)

    def require(self, holds: bool, part: str, got: str, expected: str) -> None:
        if not holds:
            raise ArgumentError(f"codegen: program '{self.program.name}'", part, got=got, expected=expected)

    def buffers(self) -> None:
        """Check the buffers: names, roles, dtypes, shapes, and an array for each constant."""
        names = [b.name for b in self.program.buffers]
        self.require(len(set(names)) == len(names), "buffers", str(names), "distinct names")
        for b in self.program.buffers:
            self.require(b.role in ROLES, b.name, b.role, f"one of {ROLES}")
            self.require(dtypes.is_compiled(b.dtype), b.name, b.dtype.name, "a number's dtype")
            constant = len(extents(b)) == len(b.shape) and b.strides is None
            self.require(constant, b.name, f"shape {b.shape}", "constant extents in C order")
        expected = {b.name: (tuple(map(plain, extents(b))), b.dtype) for b in self.program.of("const")}
        actual = {name: (a.shape, a.dtype) for name, a in self.program.constants.items()}
        self.require(expected == actual, "constants", str(actual), str(expected))

    # --- steps ------------------------------------------------------------------------------------

    def block(self, steps: Iterable[Step], scope: _Scope) -> None:
        """Check steps, in order; buffers that they write for sure are added to ``scope.initialized``."""
        for s in steps:
            if isinstance(s, Repeat):
                self.repeat(s, scope)
            elif isinstance(s, Branch):
                self.scalar(s.condition, scope)
                then_scope, other_scope = (_Scope(scope.trips, set(scope.initialized)) for _ in range(2))
                self.block(s.then, then_scope)
                self.block(s.other, other_scope)
                scope.initialized |= then_scope.initialized & other_scope.initialized
            else:
                self.leaf(s, scope)

    def repeat(self, s: Repeat, scope: _Scope) -> None:
        """Check a loop: its variable, that it ends, its swaps, and its body."""
        names_in_use = {*scope.trips, *(b.name for b in self.known)}
        self.require(s.var not in names_in_use, s.var, "a name in use", "a fresh one")
        ends = s.trips is not None or s.when is not None
        self.require(ends and (s.trips or 0) >= 0, s.var, f"{s.trips} iterations", "a loop that ends")
        if s.when is not None:
            self.scalar(s.when, scope)
        for a, b in s.swaps:
            alike = a.role == b.role == "temp" and (a.shape, a.dtype) == (b.shape, b.dtype) and a != b
            self.require(alike and {a, b} <= self.known, a.name, f"a swap with {b}", "two temps of one kind")
        inner = _Scope({**scope.trips, s.var: s.trips}, set(scope.initialized))
        self.block(s.body, inner)
        for a, b in s.swaps:
            for x in (a, b):
                self.require(
                    x.name in inner.initialized, x.name, "a swap of what holds nothing", "a write before"
                )
        if s.trips and s.when is None:
            scope.initialized |= inner.initialized

    def leaf(self, s: Leaf, scope: _Scope) -> None:
        """Check a step without steps inside.

        Its views lie inside, what it reads was written, and its writes do not overlap.
        """
        if isinstance(s, Nest):
            self.nest(s)
        elif isinstance(s, Product):
            self.product(s, scope)
        elif isinstance(s, Call):
            self.call(s)
        else:
            self.scalar(s.condition, scope)
        reads, writes = reads_and_writes(s)
        for v in (*reads, *writes):
            self.view(v, scope)
        for v in reads:
            self.holds_something(v, scope)
        for n, v in enumerate(writes):
            self.require(
                v.buffer.role in ("inout", "out", "temp"), v.buffer.name, "a write", "a role to write"
            )
            for other in (*(r for r in reads if r is not v), *writes[n + 1 :]):
                self.require(not v.overlaps(other), v.buffer.name, "a write that overlaps", "disjoint views")
        scope.initialized |= {v.buffer.name for v in writes}

    def nest(self, s: Nest) -> None:
        """Check that the kernel keeps its own rules, and that the views fit its buffers."""
        kernel = s.kernel
        if "verified" not in kernel.once:
            kernel.once["verified"] = verify_kernel(kernel) is kernel
        count = len(s.sizes) == len(kernel.sizes)
        self.require(count, kernel.name, f"{len(s.sizes)} sizes", f"values of {kernel.sizes}")
        count = len(s.views) == len(kernel.arguments)
        self.require(count, kernel.name, f"{len(s.views)} views", str(len(kernel.arguments)))
        for b, v in zip(kernel.arguments, s.views, strict=True):
            name = f"{kernel.name}.{b.name}"
            self.require(v.buffer.dtype == b.dtype, name, v.buffer.dtype.name, b.dtype.name)
            fits = v.shape == shape_at(b, s.values)
            self.require(fits, name, f"shape {v.shape}", f"shape {b.shape}")
            fits = v.contiguous if b.strides is None else v.strides == b.strides
            self.require(fits, name, f"strides {v.strides}", str(b.strides or "C order"))

    def product(self, s: Product, scope: _Scope) -> None:
        """Check the dtypes, shapes and strides of a product, and its scales."""
        views = (s.out, s.left, s.right)
        name = s.out.buffer.name
        kinds = {v.buffer.dtype.name for v in views}
        is_supported = len(kinds) == 1 and kinds <= set(blas_calls.LETTERS)
        self.require(
            is_supported, name, f"a product of {sorted(kinds)}", f"one of {list(blas_calls.LETTERS)}"
        )
        ranks = {len(v.shape) for v in views}
        self.require(len(ranks) == 1 and min(ranks) >= 2, name, f"ranks {ranks}", "one, of at least 2")
        (m, k), (k2, n) = s.left.shape[-2:], s.right.shape[-2:]
        batch = s.out.shape[:-2]
        fits = k == k2 and s.out.shape[-2:] == (m, n) and batch == s.left.shape[:-2] == s.right.shape[:-2]
        self.require(fits, name, str([v.shape for v in views]), "matrices that fit")
        self.require(
            blas_calls.call(s) is not None, name, str([v.strides for v in views]), "strides BLAS takes"
        )
        lengths = [*s.out.shape, *s.left.shape, *(x for v in views for x in v.strides[-2:])]
        self.require(max(lengths) < 2**31, name, "an extent or a stride of 2**31", "integers of 32 bits")
        for x in (s.alpha, s.beta):
            self.scale(x, s.out.buffer.dtype, scope)

    def call(self, s: Call) -> None:
        """Check that the views of a routine have its core axes, and one batch before them."""
        routine, shapes = s.routine, [v.shape for v in s.views]
        name = routine.title
        count = len(routine.cores) == len(routine.roles) == len(s.views)
        self.require(count, name, f"{len(s.views)} views", f"{len(routine.cores)}")
        self.require(
            extents_of(routine.cores, shapes) is not None, name, f"shapes {shapes}", f"{routine.cores}"
        )
        batches = {shape[: len(shape) - len(core)] for shape, core in zip(shapes, routine.cores, strict=True)}
        self.require(len(batches) == 1, name, f"batches {batches}", "one")
        self.require(max(map(max, filter(None, shapes)), default=0) < 2**31, name, "an axis of 2**31", "less")
        for v, core in zip(s.views, routine.cores, strict=True):
            first = len(v.shape) - len(core)
            operand = View(v.buffer, v.shape[first:], v.strides[first:])
            in_order = isinstance(routine, Loop) or operand.contiguous
            self.require(in_order, name, f"strides {v.strides}", "core axes in C order")
        if s.status is not None:
            dtype = s.status.buffer.dtype
            fits = s.status.shape == () and dtype.name == "int32"
            self.require(fits, name, f"a status {s.status}", "one entry of int32")

    def scale(self, x: Number | View, dtype: DType, scope: _Scope) -> None:
        if isinstance(x, View):
            self.scalar(x, scope)
            self.require(x.buffer.dtype == dtype, x.buffer.name, x.buffer.dtype.name, dtype.name)
        else:
            fits = dtype.kind == "c" or not isinstance(x, complex)
            self.require(fits, "scale", repr(x), f"a number of {dtype.name}")

    # --- views ------------------------------------------------------------------------------------

    def scalar(self, v: View, scope: _Scope) -> None:
        self.view(v, scope)
        self.require(v.shape == (), v.buffer.name, f"shape {v.shape}", "one entry")
        self.holds_something(v, scope)

    def holds_something(self, v: View, scope: _Scope) -> None:
        holds = v.buffer.name in scope.initialized or 0 in v.shape
        self.require(holds, v.buffer.name, "a read", "a write before")

    def view(self, v: View, scope: _Scope) -> None:
        """Check that all entries of a view are inside its buffer, in every iteration of the loops around."""
        name = v.buffer.name
        self.require(v.buffer in self.known, name, "an unknown buffer", "one of the program's")
        self.require(len(v.shape) == len(v.strides), name, f"strides {v.strides}", "a stride per axis")
        low, high = v.reach
        for var, by in v.moves:
            trips = scope.trips.get(var)
            self.require(var in scope.trips, name, f"a move with {var}", "a variable of a loop around")
            self.require(trips is not None, name, f"a move with {var}", "one whose trips are known")
            far = ((trips or 1) - 1) * by
            low, high = low + min(far, 0), high + max(far, 0)
        inside = (low >= 0 and high < size(v.buffer)) or 0 in v.shape
        self.require(inside, name, f"entries {low} to {high}", f"0 to {size(v.buffer) - 1}")


__all__ = ["verify"]
