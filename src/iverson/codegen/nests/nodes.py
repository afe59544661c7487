"""Loop-nest IR on one page: expressions, statements, buffers and kernels.

The meaning of a nest is defined here; `codegen.execution.verify` checks the rules, `interpret` runs a nest
literally and is the oracle, `print` shows it, `codegen.emit.nest_emission` compiles it. `iverson.te` lowers
its statements to nests. Expressions are those of `iverson.expr.nodes`, with leaves for variables and loads.

Grammar
-------
::

    e  ::= Const | Apply | Select | Cast  as in `iverson.expr.nodes`, none of them weak; loads in the side
                                          of a Select that is not chosen are not carried out
         | Var(name)                      a loop's variable, int64
         | Size(name, dtype)              a number known at the call: an extent (int64), or a float
         | Local(name, dtype)             what a Let, Declare or accumulator holds
         | Load(buffer, indices)          buffer[e, ..., e]; int64 indices, which may load too

    s  ::= Loop(var, lower, upper, body, step, mark, factor)    lower <= var < upper, by step > 0
         | If(condition, body)
         | Let(name, value)               a name for a value, until the end of the block
         | Declare(name, dtype, value)    a variable of the innermost iteration, with a first value
         | Update(name, combine, value)   name (combine)= value
         | UpdateArg(best, at, combine, value, position)        both, where value is better than best
         | Store(buffer, indices, value, combine, shared)           buffer[...] (combine)= value
         | Point(at)                      only in the walk of a task (`task`), never in a kernel

    combine ::= assign | sum | prod | max | min            argmax | argmin in an UpdateArg
    buffer  ::= Buffer(name, dtype, shape, role, strides)  role ::= in | out | inout | temp | row
    kernel  ::= Kernel(name, buffers, sizes, phases)       a phase is a statement

Meaning
-------
- Loops, lets, variables, sizes and buffers have names of one space. A name is bound once in a block and those
  around it: nothing is hidden. Names are the code's own; what a user calls a buffer or an index is its label.
- Phases run in order, each complete before the next begins. Loops run in order; ``mark`` only permits
  another order, and asserts that the result does not depend on it:

  * ``"parallel"``  iterations may run in several threads. Only the outermost loop of a phase. With a factor
    above 1 they do, however little work there is.
  * ``"vector"``    iterations may run in the lanes of vectors, ``factor`` vectors at a time.
  * ``"tile"``      ``factor`` iterations may run jammed: each statement for all of them, then the next.
  * ``"unroll"``    the extent is a small constant; the loop is written out.

  Under parallel, vector and tile, a variable declared outside the loop may only be updated, never read
  or assigned (a reduction: it is summed in any order), and two iterations never store to one entry,
  unless the store is ``shared`` (parallel; never an assign: one thread runs the loop, or
  `codegen.schedule.parallel_scatter` makes another one of it) or the loop is not vectorised for that reason.
- max and min let nan through. In an UpdateArg nan is better than every number, and of equally good
  values the one with the smallest position wins.
- ``strides`` are in entries, an int or the name of a size for each axis; None means C order.
- ``out`` buffers are written before they are read; ``temp`` ones belong to the call. Of ``row`` ones there
  is memory for the rows of one iteration of a phase that is parts over blocks of rows
  (`codegen.schedule.row_tiling`).
- A Load or Store is inside its buffer wherever it is carried out. What cannot be proven when compiling is
  checked at the call or where it is used (`access_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from iverson.expr.function_facts import COMBINE
from iverson.expr.nodes import DType, Expr, atoms, changed, same

INT64: DType = np.dtype("int64")
BOOL: DType = np.dtype("bool")

#: Those whose terms may come in any order.
COMMUTING = tuple(COMBINE)
COMBINES = ("assign", *COMMUTING)
MARKS = ("", "parallel", "vector", "tile", "unroll")
ROLES = ("in", "out", "inout", "row")


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array that a kernel is called with (or, as ``temp``, gets for the call; as ``row``, row by row).

    label : name, in texts, of the array that the buffer contains at this place. A buffer may contain several
        arrays, one after the other.
    turns : how many values an entry holds one after the other, of an array that is stored in parts.
    """

    name: str
    dtype: DType
    shape: tuple[int | str, ...]
    role: str = "in"
    strides: tuple[int | str, ...] | None = None
    label: str = field(default="", compare=False)
    turns: int | str = field(default=1, compare=False)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Var(Expr):
    """A loop's variable."""

    name: str
    dtype: ClassVar[DType] = INT64  # type: ignore[misc]
    weak: ClassVar[bool] = False  # type: ignore[misc]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Size(Expr):
    """A number that is known at the call: an extent, or a float, passed as its bits."""

    name: str
    dtype: DType = INT64
    weak: ClassVar[bool] = False  # type: ignore[misc]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Local(Expr):
    """The value of a Let, or the present value of a declared variable."""

    name: str
    dtype: DType
    weak: ClassVar[bool] = False  # type: ignore[misc]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Load(Expr):
    """``buffer[indices]``."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    weak: ClassVar[bool] = False  # type: ignore[misc]
    reads: ClassVar[bool] = True

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.buffer.dtype

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.indices

    def _of(self, *operands: Expr) -> Expr:
        return Load(self.buffer, operands)

    def _text(self, below: Sequence[str]) -> str:
        return f"{self.buffer.name}[{', '.join(below)}]"


@dataclass(frozen=True, slots=True)
class Loop:
    """``for var in range(lower, upper, step): body``; ``label``: what a user calls the variable."""

    var: str
    lower: Expr
    upper: Expr
    body: tuple[Stmt, ...]
    step: int = 1
    mark: str = ""
    factor: int = 1
    label: str = field(default="", compare=False)

    @property
    def said(self) -> str:
        """Name of the loop's variable in texts for users."""
        return self.label or self.var


@dataclass(frozen=True, slots=True)
class If:
    """``if condition: body``."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """A name for a value."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Declare:
    """A variable with a first value."""

    name: str
    dtype: DType
    value: Expr


@dataclass(frozen=True, slots=True)
class Update:
    """``name (combine)= value``."""

    name: str
    combine: str
    value: Expr


@dataclass(frozen=True, slots=True)
class UpdateArg:
    """``best, at = value, position`` where value is better than best (or as good, and position smaller)."""

    best: str
    at: str
    combine: str
    value: Expr
    position: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """``buffer[indices] (combine)= value``; ``shared`` ones may collide between parallel iterations."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    combine: str = "assign"
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """Place in a walk where its task runs (`task`): values for the axes that have no loop of their own."""

    at: Mapping[str, Expr]


def block_of(var: str) -> str:
    """Name for the variable of a loop over blocks of the iterations of the loop ``var``."""
    return f"{var}_0"


Stmt = Loop | If | Let | Declare | Update | UpdateArg | Store | Point


@dataclass(frozen=True, slots=True)
class Kernel:
    """A program of phases over buffers. ``sizes`` names every Size and symbolic extent or stride."""

    name: str
    buffers: tuple[Buffer, ...]
    phases: tuple[Stmt, ...]
    sizes: tuple[str, ...] = ()
    #: What is found out about it once: its text, whether it is verified.
    once: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The buffers a call passes, in order."""
        buffers: tuple[Buffer, ...] | None = self.once.get("arguments")
        if buffers is None:
            buffers = self.once["arguments"] = tuple(b for b in self.buffers if b.role != "row")
        return buffers


def shape_at(b: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a buffer at values of the sizes."""
    return tuple([sizes[n] if isinstance(n, str) else n for n in b.shape])


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement itself holds, those of its body aside."""
    if isinstance(s, Loop):
        return (s.lower, s.upper)
    if isinstance(s, If):
        return (s.condition,)
    if isinstance(s, UpdateArg):
        return (s.value, s.position)
    if isinstance(s, Store):
        return (*s.indices, s.value)
    if isinstance(s, Point):
        return tuple(s.at.values())
    return (s.value,)


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement in a block, outer ones first."""
    for s in body:
        yield s
        if isinstance(s, (Loop, If)):
            yield from statements(s.body)


def bound(phase: Stmt) -> Iterator[str]:
    """Iterate over the names that ``phase`` binds: variables of its loops, lets, and declared variables."""
    for s in statements((phase,)):
        if isinstance(s, Loop):
            yield s.var
        elif isinstance(s, (Let, Declare)):
            yield s.name


def loads_and_stores(phase: Stmt) -> Iterator[Load | Store]:
    """Every Store in a statement, and every Load, once for each statement that it is in."""
    for s in statements((phase,)):
        yield from dict.fromkeys(x for e in expressions(s) for x in atoms(e) if isinstance(x, Load))
        if isinstance(s, Store):
            yield s


def buffers_of(kernel: Kernel, k: int) -> tuple[Buffer, ...]:
    """The buffers that phase ``k`` loads from and stores to, in their order there."""
    key = f"buffers {k}"
    if key not in kernel.once:
        by_name = {x.buffer.name: x.buffer for x in loads_and_stores(kernel.phases[k])}
        kernel.once[key] = tuple(by_name.values())
    buffers: tuple[Buffer, ...] = kernel.once[key]
    return buffers


def arguments_of(kernel: Kernel, k: int) -> tuple[Buffer, ...]:
    """Buffers that phase ``k`` is called with: all that it uses but "row" buffers, which are on the stack."""
    key = f"arguments {k}"
    if key not in kernel.once:
        kernel.once[key] = tuple(b for b in buffers_of(kernel, k) if b.role != "row")
    buffers: tuple[Buffer, ...] = kernel.once[key]
    return buffers


def alike(a: Stmt, b: Stmt) -> bool:
    """True if two statements are the same loop or guard, apart from their bodies."""
    if isinstance(a, If) and isinstance(b, If):
        return a.condition is b.condition
    plain = isinstance(a, Loop) and isinstance(b, Loop) and same(expressions(a), expressions(b))
    return plain and _facts(a) == _facts(b)


def _facts(s: Stmt) -> tuple[object, ...]:
    return (s.var, s.step, s.mark, s.factor) if isinstance(s, Loop) else ()


def replaced(e: Expr, names: Mapping[str, Expr]) -> Expr:
    """``e`` with the loop variables (`Var`) that are in ``names`` replaced by the expressions there."""
    if not names:
        return e
    return changed(e, lambda x: names.get(x.name, x) if isinstance(x, Var) else x)


def mapped(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """The statement with ``f(e)`` in place of each expression e in it and in its body."""
    if isinstance(s, (Loop, If)):
        body = tuple(mapped(item, f) for item in s.body)
        if isinstance(s, If):
            return If(f(s.condition), body)
        return replace(s, lower=f(s.lower), upper=f(s.upper), body=body)
    if isinstance(s, Store):
        return replace(s, indices=tuple(f(i) for i in s.indices), value=f(s.value))
    if isinstance(s, UpdateArg):
        return replace(s, value=f(s.value), position=f(s.position))
    if isinstance(s, Point):
        return Point({name: f(e) for name, e in s.at.items()})
    return replace(s, value=f(s.value))


def rewritten(s: Stmt, f: Callable[[Stmt], Stmt]) -> Stmt:
    """The statement with ``f(s)`` in place of each statement s, innermost first and itself last."""
    if isinstance(s, (Loop, If)):
        s = replace(s, body=tuple(rewritten(item, f) for item in s.body))
    return f(s)


def with_buffers(s: Stmt, buffers: Mapping[str, Buffer]) -> Stmt:
    """The statement with the buffers in ``buffers`` in place of its own ones of these names.

    They get the labels of the old ones.
    """

    def of(b: Buffer) -> Buffer:
        buffer = buffers[b.name]
        return buffer if buffer.label == b.label else replace(buffer, label=b.label)

    def load(e: Expr) -> Expr:
        return Load(of(e.buffer), e.indices) if isinstance(e, Load) else e

    def store(item: Stmt) -> Stmt:
        return replace(item, buffer=of(item.buffer)) if isinstance(item, Store) else item

    return rewritten(mapped(s, lambda e: changed(e, load)), store)
