"""Verifier of the loop-nest IR: its rules, executable; `verify` raises on the first broken one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from iverson.codegen.emit import scalar_code
from iverson.codegen.nests.nodes import (
    BOOL,
    COMBINES,
    COMMUTING,
    INT64,
    MARKS,
    ROLES,
    Declare,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Point,
    Size,
    Stmt,
    Store,
    Update,
    UpdateArg,
    Var,
    expressions,
    loads_and_stores,
)
from iverson.codegen.schedule.row_tiling import held
from iverson.core import dtypes
from iverson.core.errors import ArgumentError
from iverson.core.scalars import SCALARS, result_dtype
from iverson.expr.nodes import Apply, Cast, DType, Expr, Select, postorder
from iverson.expr.print import exact_text


@dataclass(frozen=True)
class _Scope:
    variables: frozenset[str] = frozenset()
    locals: dict[str, DType] = field(default_factory=dict)
    mutable: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()  # declared outside a loop that may run in another order
    depth: int = 0
    names: frozenset[str] = frozenset()  # of buffers, sizes, and what is bound around


def verify(kernel: Kernel) -> Kernel:
    """The kernel itself, if it keeps the rules; else ArgumentError naming the part at fault."""
    names = [b.name for b in kernel.buffers]
    _require(len(set(names)) == len(names), kernel, "buffers", str(names), "distinct names")
    for b in kernel.buffers:
        _require(b.role in ROLES, kernel, b.name, b.role, f"one of {ROLES}")
        _require(
            dtypes.is_compiled(b.dtype) and b.dtype.itemsize <= 16,
            kernel,
            b.name,
            b.dtype.name,
            "a number's dtype",
        )
        for n in (*b.shape, *(b.strides or ())):
            is_declared = n in kernel.sizes if isinstance(n, str) else True
            _require(is_declared, kernel, b.name, str(n), "a name among the kernel's sizes")
        rank = b.strides is None or len(b.strides) == len(b.shape)
        _require(rank, kernel, b.name, str(b.strides), "a stride per axis")
    by_row = {b.name for b in kernel.buffers if b.role == "row"}
    for phase in kernel.phases:
        _block(kernel, (phase,), _Scope(names=frozenset((*names, *kernel.sizes))))
        rows = {x.buffer.name for x in loads_and_stores(phase)} & by_row
        unheld = sorted(rows - held(phase, rows))
        _require(not unheld, kernel, "buffers", f"rows of {unheld}", "phases by rows that touch their own")
    return kernel


def _require(holds: bool, kernel: Kernel, part: str, got: str, expected: str) -> None:
    if not holds:
        raise ArgumentError(f"codegen: kernel '{kernel.name}'", part, got=got, expected=expected)


def _block(kernel: Kernel, body: tuple[Stmt, ...], scope: _Scope) -> None:
    """Check the rules for the statements of a block; ``scope`` has the names that are known before it."""
    for s in body:
        for e in expressions(s):
            _expression(kernel, e, scope)
        if isinstance(s, Loop):
            _loop(kernel, s, scope)
        elif isinstance(s, If):
            _require(s.condition.dtype == BOOL, kernel, "if", exact_text(s.condition), "a condition")
            _block(kernel, s.body, scope)
        elif isinstance(s, Let):
            scope = _binding(kernel, s.name, scope)
            scope = replace(scope, locals={**scope.locals, s.name: s.value.dtype})
        elif isinstance(s, Declare):
            _same(kernel, s.name, s.value.dtype, s.dtype)
            scope = _binding(kernel, s.name, scope)
            scope = replace(
                scope,
                locals={**scope.locals, s.name: s.dtype},
                mutable=scope.mutable | {s.name},
            )
        elif isinstance(s, (Update, UpdateArg)):
            _update(kernel, s, scope)
        elif isinstance(s, Store):
            _store(kernel, s)
        elif isinstance(s, Point):
            _require(False, kernel, "walk", "a point", "the statements of a task")


def _binding(kernel: Kernel, name: str, scope: _Scope) -> _Scope:
    """The scope with one more name, which nothing else in the scope may have."""
    _require(name not in scope.names, kernel, name, "a name in use", "a fresh one")
    return replace(scope, names=scope.names | {name})


def _loop(kernel: Kernel, s: Loop, scope: _Scope) -> None:
    """Check the rules for a loop, and for its body."""
    scope = _binding(kernel, s.var, scope)
    _require(s.mark in MARKS, kernel, s.var, s.mark, f"a mark among {MARKS}")
    _require(s.step > 0 and s.factor > 0, kernel, s.var, str(s.step), "a positive step and factor")
    outermost = s.mark != "parallel" or scope.depth == 0
    _require(outermost, kernel, s.var, "parallel inside a loop", "the outermost loop")
    _require(s.lower.dtype == INT64 == s.upper.dtype, kernel, s.var, "other bounds", "int64 bounds")
    free = s.mark in ("parallel", "vector", "tile")
    inner = replace(
        scope,
        variables=scope.variables | {s.var},
        outer=scope.outer | scope.mutable if free else scope.outer,
        depth=scope.depth + 1,
    )
    _block(kernel, s.body, inner)


def _update(kernel: Kernel, s: Update | UpdateArg, scope: _Scope) -> None:
    """Check that an update is of a declared variable, of its dtype, and permitted in the loops around."""
    names = (s.name,) if isinstance(s, Update) else (s.best, s.at)
    for name in names:
        _require(name in scope.mutable, kernel, name, "an update", "a declared variable")
    if isinstance(s, UpdateArg):
        _require(s.combine in ("argmax", "argmin"), kernel, s.best, s.combine, "argmax or argmin")
        _same(kernel, s.best, s.value.dtype, scope.locals[s.best])
        _same(kernel, s.at, s.position.dtype, scope.locals[s.at])
        return
    _require(s.combine in COMBINES, kernel, s.name, s.combine, f"one of {COMBINES}")
    reorders = s.combine != "assign" or s.name not in scope.outer
    _require(reorders, kernel, s.name, "an assignment across a marked loop", "a reduction")
    _same(kernel, s.name, s.value.dtype, scope.locals[s.name])


def _store(kernel: Kernel, s: Store) -> None:
    """Check the buffer, the combine, the indices and the dtype of a Store."""
    name = s.buffer.name
    _require(s.buffer in kernel.buffers, kernel, name, "an unknown buffer", "one of the kernel's")
    _require(s.buffer.role != "in", kernel, name, "a store", "a buffer with role out, inout or temp")
    _require(s.combine in COMBINES, kernel, name, s.combine, f"one of {COMBINES}")
    _require(
        not s.shared or s.combine in COMMUTING, kernel, name, f"a shared {s.combine}", f"one of {COMMUTING}"
    )
    single = s.combine == "assign" or not dtypes.is_half(s.buffer.dtype)
    _require(single, kernel, name, f"a {s.combine} in {s.buffer.dtype}", "one in float32")
    _indices(kernel, s)
    _same(kernel, name, s.value.dtype, s.buffer.dtype)


def _indices(kernel: Kernel, access: Load | Store) -> None:
    name = access.buffer.name
    count = len(access.indices) == len(access.buffer.shape)
    _require(count, kernel, name, f"{len(access.indices)} indices", f"{len(access.buffer.shape)}")
    for i in access.indices:
        _require(i.dtype == INT64, kernel, name, f"a {i.dtype.name} index", "int64 (cast it)")


def _same(kernel: Kernel, name: str, got: DType, want: DType) -> None:
    _require(got == want, kernel, name, f"dtype {got.name}", f"dtype {want.name} (cast it)")


def _expression(kernel: Kernel, root: Expr, scope: _Scope) -> None:
    for e in postorder([root]):
        _node(kernel, e, scope)


def _node(kernel: Kernel, e: Expr, scope: _Scope) -> None:
    """Check the rules for one node of an expression; its operands are checked by themselves."""
    if isinstance(e, Var):
        _require(e.name in scope.variables, kernel, e.name, "a use", "a variable of a loop around")
    elif isinstance(e, Size):
        _require(e.name in kernel.sizes, kernel, e.name, "a use", "a size of the kernel")
    elif isinstance(e, Local):
        dtype = scope.locals.get(e.name)
        _require(dtype is not None, kernel, e.name, "a use", "a name declared before")
        _require(e.name not in scope.outer, kernel, e.name, "a read in a marked loop", "updates only")
        if dtype is not None:
            _same(kernel, e.name, e.dtype, dtype)
    elif isinstance(e, Load):
        _require(e.buffer in kernel.buffers, kernel, e.buffer.name, "an unknown buffer", "a known one")
        _indices(kernel, e)
    elif isinstance(e, Select):
        _require(e.condition.dtype == BOOL, kernel, "select", exact_text(e.condition), "a condition")
        _same(kernel, "select", e.other.dtype, e.then.dtype)
    elif isinstance(e, Apply):
        _call(kernel, e)
    elif isinstance(e, Cast):
        _require(dtypes.is_compiled(np.dtype(e.dtype)), kernel, "cast", e.dtype.name, "a number's dtype")


def _call(kernel: Kernel, e: Apply) -> None:
    scalar = SCALARS.get(e.name)
    _require(scalar is not None, kernel, e.name, "an unknown function", "a name in core.scalars")
    kinds = {a.dtype for a in e.args}
    _require(len(kinds) == 1, kernel, e.name, str(sorted(k.name for k in kinds)), "args of one dtype")
    if scalar is not None:
        dtype = e.args[0].dtype
        _require(len(e.args) == scalar.arity, kernel, e.name, f"{len(e.args)} args", str(scalar.arity))
        _require(scalar_code.supported(e.name, dtype), kernel, e.name, dtype.name, "a dtype it compiles for")
        result = result_dtype(scalar, dtype) if dtype.kind == "c" else dtype
        _same(kernel, e.name, e.dtype, BOOL if scalar.result == "bool" else result)
