"""The loop-nest IR on one page: expressions, statements, buffers and kernels.

What a nest means is here; `verify` checks the rules, `interpret` runs them literally and is the oracle,
`print` shows them, `llvm` compiles them. Above this room, `iverson.te` lowers its statements to these.

Grammar
-------
::

    e  ::= Const(value, dtype)            a number
         | Var(name)                      a loop's variable, int64
         | Size(name)                     an extent known at the call, int64
         | Local(name, dtype)             what a Let, Declare or accumulator holds
         | Load(buffer, indices)          buffer[e, ..., e]; int64 indices, which may load too
         | Call(name, args, dtype)        a function of core.scalars (not where), on args of one dtype
         | Select(condition, then, other) loads in the side not chosen are not carried out
         | Cast(operand, dtype)

    s  ::= Loop(var, lower, upper, body, step, mark, factor)    lower <= var < upper, by step > 0
         | If(condition, body)
         | Let(name, value)               a name for a value, until the end of the block
         | Declare(name, dtype, value)    a variable of the innermost iteration, with a first value
         | Update(name, combine, value)   name (combine)= value
         | UpdateArg(best, at, combine, value, position)        both, where value is better than best
         | Store(buffer, indices, value, combine, shared, atomic)   buffer[...] (combine)= value
         | Point(at)                      only in the walk of a task (`task`), never in a kernel

    combine ::= assign | sum | prod | max | min            argmax | argmin in an UpdateArg
    buffer  ::= Buffer(name, dtype, shape, role, strides)  role ::= in | out | inout | temp
    kernel  ::= Kernel(name, buffers, sizes, phases)       a phase is a statement

Meaning
-------
- Phases run in order, each complete before the next begins. Loops run in order; ``mark`` only permits
  another order, and asserts that the result does not depend on it:

  * ``"parallel"``  iterations may run in several threads. Only the outermost loop of a phase.
  * ``"vector"``    iterations may run in the lanes of vectors, ``factor`` vectors at a time.
  * ``"tile"``      ``factor`` iterations may run jammed: each statement for all of them, then the next.
  * ``"unroll"``    the extent is a small constant; the loop is written out.

  Under parallel, vector and tile, a variable declared outside the loop may only be updated, never read
  or assigned (a reduction: it is summed in any order), and two iterations never store to one entry,
  unless the store is ``shared`` (parallel; never an assign: `scatter` keeps these safe, for example by
  making sums ``atomic``) or the loop is not vectorised for that reason.
- max and min let nan through. In an UpdateArg nan is better than every number, and of equally good
  values the one with the smallest position wins.
- ``strides`` are in entries, an int or the name of a size for each axis; None means C order.
- ``out`` buffers are written before they are read; ``temp`` ones belong to the call.
- A Load or Store is inside its buffer wherever it is carried out. What cannot be proven when compiling is
  checked at the call or where it is used (`plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

DType = np.dtype[Any]
INT64: DType = np.dtype("int64")
BOOL: DType = np.dtype("bool")

COMBINES = ("assign", "sum", "prod", "max", "min")
#: Those whose terms may come in any order.
COMMUTING = ("sum", "prod", "max", "min")
MARKS = ("", "parallel", "vector", "tile", "unroll")
ROLES = ("in", "out", "inout", "temp")


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array that a kernel is called with (or, as ``temp``, gets for the call)."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...]
    role: str = "in"
    strides: tuple[int | str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Const:
    """A number of a dtype."""

    value: Any
    dtype: DType = INT64


@dataclass(frozen=True, slots=True)
class Var:
    """A loop's variable."""

    name: str

    @property
    def dtype(self) -> DType:
        return INT64


@dataclass(frozen=True, slots=True)
class Size:
    """An extent that is known at the call."""

    name: str

    @property
    def dtype(self) -> DType:
        return INT64


@dataclass(frozen=True, slots=True)
class Local:
    """The value of a Let, or the present value of a declared variable."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    """``buffer[indices]``."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `iverson.core.scalars`."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Select:
    """``then`` where the condition holds, else ``other``."""

    condition: Expr
    then: Expr
    other: Expr

    @property
    def dtype(self) -> DType:
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Cast:
    """The operand in another dtype, as NumPy's astype."""

    operand: Expr
    dtype: DType


Expr = Const | Var | Size | Local | Load | Call | Select | Cast


@dataclass(frozen=True, slots=True)
class Loop:
    """``for var in range(lower, upper, step): body``."""

    var: str
    lower: Expr
    upper: Expr
    body: tuple[Stmt, ...]
    step: int = 1
    mark: str = ""
    factor: int = 1


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
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """Where the task of a walk runs (`task`): values for the axes that have no loop of their own."""

    at: Mapping[str, Expr]


Stmt = Loop | If | Let | Declare | Update | UpdateArg | Store | Point


@dataclass(frozen=True, slots=True)
class Kernel:
    """A program of phases over buffers. ``sizes`` names every Size and symbolic extent or stride."""

    name: str
    buffers: tuple[Buffer, ...]
    phases: tuple[Stmt, ...]
    sizes: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The buffers a call passes, in order."""
        return tuple(b for b in self.buffers if b.role != "temp")


def operands(e: Expr) -> tuple[Expr, ...]:
    """The expressions an expression is made of."""
    if isinstance(e, Load):
        return e.indices
    if isinstance(e, Call):
        return e.args
    if isinstance(e, Select):
        return (e.condition, e.then, e.other)
    if isinstance(e, Cast):
        return (e.operand,)
    return ()


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


def subexpressions(e: Expr) -> Iterator[Expr]:
    """The expression and everything in it."""
    stack = [e]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(operands(item))


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement in a block, outer ones first."""
    for s in body:
        yield s
        if isinstance(s, (Loop, If)):
            yield from statements(s.body)


def identity(combine: str, dtype: DType) -> Any:
    """What a combine starts from: 0, 1, or the lowest or highest value."""
    if combine in ("assign", "sum", "prod"):
        return dtype.type(combine == "prod")
    lowest = combine in ("max", "argmax")
    if dtype.kind == "f":
        return dtype.type(-np.inf if lowest else np.inf)
    if dtype.kind == "b":
        return np.bool_(not lowest)
    info = np.iinfo(dtype)
    return dtype.type(info.min if lowest else info.max)


def replaced(e: Expr, names: Mapping[str, Expr]) -> Expr:
    """The expression with variables replaced."""
    if not names:
        return e
    if isinstance(e, Var):
        return names.get(e.name, e)
    return rebuilt(e, tuple(replaced(o, names) for o in operands(e)))


def changed(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The expression with ``f`` of each part, innermost first."""
    return f(rebuilt(e, tuple(changed(o, f) for o in operands(e))))


def rebuilt(e: Expr, below: tuple[Expr, ...]) -> Expr:
    """The expression with other operands."""
    if all(x is y for x, y in zip(below, operands(e), strict=True)):
        return e
    if isinstance(e, Load):
        return Load(e.buffer, below)
    if isinstance(e, Call):
        return Call(e.name, below, e.dtype)
    if isinstance(e, Select):
        return Select(*below)
    assert isinstance(e, Cast)
    return Cast(below[0], e.dtype)


def mapped(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """The statement with ``f`` of each expression in it and in its body."""
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
    """The statement with ``f`` of it and of each statement in its body, innermost first."""
    if isinstance(s, (Loop, If)):
        s = replace(s, body=tuple(rewritten(item, f) for item in s.body))
    return f(s)


def with_buffers(s: Stmt, buffers: Mapping[str, Buffer]) -> Stmt:
    """The statement with other buffers of the same names."""

    def load(e: Expr) -> Expr:
        return Load(buffers[e.buffer.name], e.indices) if isinstance(e, Load) else e

    def store(item: Stmt) -> Stmt:
        return replace(item, buffer=buffers[item.buffer.name]) if isinstance(item, Store) else item

    return rewritten(mapped(s, lambda e: changed(e, load)), store)
