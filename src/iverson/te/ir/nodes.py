"""Nodes of the statement IR, with its grammar and meaning on one page: tensors, statements, walks, programs.

Programs are built by `iverson.te.language`, and run point by point by `interpret`. Everything is immutable.
Expressions are interned: equal ones are the same object, so ``is`` compares them, dictionaries key on them,
and shared subexpressions stay shared (they form a DAG).

Grammar
-------
::

    e  ::= Const(value, dtype, weak)        a number
         | Var(name, lo, hi, kind)          an index in lo <= v < hi; kind axis, reduce or size
         | Read(tensor, indices)            tensor[e, ..., e], int64 indices, which may read too
         | Apply(name, args, dtype)         a function of core.scalars.SCALARS
         | Select(condition, then, other)   evaluates only the side it chooses (may guard a read)
         | Cast(operand, dtype)
         | Reduce(combine, axes, body, where)   a reduction over axes of its own; see "Meaning"
         | Fold(reducer, number, axes, values, where)   likewise, of elements of several numbers

    index arithmetic is Apply on int64: add, subtract, negative, multiply (by a constant),
    floor_divide and remainder (by a positive constant, rounding down), minimum, maximum.
    Conditions are Apply with dtype bool: less, less_equal, greater, greater_equal, equal,
    not_equal, logical_and, logical_or, logical_not. All args of an Apply have one dtype (casts are
    explicit). An Iverson bracket is Select(c, 1, 0); a product with one is Select(c, x, 0), so
    zeros are strong.

    tensor    ::= Placeholder(shape, dtype, name) | Compute(shape, dtype, name, statements, recurrence)
    domain    ::= Domain(axes, where)       the points of the box of axes at which all of where hold
    statement ::= Statement(out, write, body, domain, combine, position, walk)
                  out[write(p)] (combine)= body(p)  for p in domain, in any order
    combine   ::= assign | sum | prod | max | min | argmax | argmin
    program   ::= Program(inputs, statements, outputs)
    recurrence ::= Recurrence(axis, reverse, members, outer)   Computes that run together, a step at a time

    walk      ::= tuple of For(var, lower, upper, step, body)   lower <= var < upper, by step
                         | If(condition, body)
                         | Point(at)                            run the statement with axes = at

Meaning
-------
- A Compute without statements is zeros; it may be an output but is never read (a read of it is the
  constant 0).
- A Compute starts out as the identity of its combine (0 for sum and assign, 1 for prod, the lowest
  or highest value for max and min, -1 for argmax and argmin) and then takes its statements in
  order. Several statements of one Compute all have combine "sum". "assign" writes each entry at
  most once; an entry that no point writes is 0.
- The members of a Recurrence all have its ``axis`` in their statements' domains. Its meaning is a loop over
  the axis (downwards if ``reverse``): at each value, the statements of the members in order, each at the
  points of its domain that have this value. Members of a recurrence inside of it (whose ``outer`` it is) are
  a loop over that one's axis there: steps are in lexicographic order. So a statement may read what any
  member holds at earlier values, and what members before its own hold at this one. The axis is an index of
  what they write (`step_index`): but for ``totals``, which hold what all values so far gave them, and where
  data say which step, ``s[before[t]]``: one whose turn was earlier where it is read, and is yet to come where
  it is added to.
- argmax and argmin keep the value of ``position`` (int64) at the best ``body``; of equal ones, the
  smallest position; a nan is better than every number. The output holds positions only.
- A Reduce in an expression is computed for each point at which it is evaluated: it combines ``body`` over
  the points of its axes at which all of its ``where`` hold, row by row, from the identity of its combine on.
  Its value for argmax and argmin is the position among these axes, counted from the first value of the first.
  A Fold combines elements in this order by the results of its reducer, beginning with its identities, and its
  value is one number of the last element.
- max and min let nan through.
- ``where`` holds boolean expressions of indices, usually quasi-affine (+, -, * // % by constants); all must
  hold. Those that read data are bounds of an axis, ``p[i] <= e``, ``e < p[i + 1]``, that depend on axes
  before it (`ragged_axes`); between them the axis must stay inside of its own range, which is checked when
  run. Any other guard that depends on data is a Select in the body.
- ``walk`` is an exact way to visit the domain, found by `eliminate`; None stands for all points of
  the box of axes, in order, guarded by ``where``. In a walk the guards are already taken care of
  (do not test ``where`` again) and each point of the domain is visited exactly once. Loop bounds
  are index expressions in the outer loops' variables; ``step`` is a positive int. A Point gives the
  axes in terms of the loops' variables: usually it is they themselves, but an axis that the others
  determine has no loop. In a recurrence the walk is that of one step: its axis is free there.
- ``strategy`` says who runs first: "gather" means that ``write`` is the first axes themselves, so
  an outer loop over them owns its outputs; "scatter" that writes may collide between points;
  "injective" that they never do; "" that nobody has chosen yet.
- Reads are inside their tensor wherever they are evaluated, proven at definition, except those
  `verify.unproven_reads` lists (an index that depends on data): these are checked when run.
- Extents are ints once a program is bound (`te.bind` replaces size variables).

For a lowering
--------------
Take ``program.statements`` in order; ``statement.tensor`` is an output or a temporary
(``program.temporaries``); ``postorder(roots)`` lists the nodes of expressions, operands first,
without recursion; ``program.key()`` is a structural key (equal for programs that differ in names
only); `interpret.run` is the oracle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.expr.build import const
from iverson.expr.nodes import Const, DType, Expr, ExprLike, postorder, producers_first
from iverson.te.ir.expressions import (
    Extent,
    Fold,
    Placeholder,
    Read,
    Reduce,
    Reducer,
    Tensor,
    Var,
    extent,
    reads_of,
    scoped,
    variables,
)

COMBINES = ("assign", "sum", "prod", "max", "min", "argmax", "argmin")


class Compute(Tensor):
    """A tensor defined by statements; see "Meaning" above for how several combine.

    linear : the statements of `nonlinear_reductions.linear_statements`, from its first call on.
    recurrence : the recurrence of which it is a member, if any; `Recurrence.define` sets its statements.
    lever : what a user asked for (`schedule_hints`): "keep" or "recompute", or "" to have it counted.
    support : indices, and the condition on them under which an entry may be nonzero (`supports.support`).

    >>> from iverson import te
    >>> x = te.placeholder((3,), name="x")
    >>> te.compute((3,), lambda i: 2 * x[i], "y")
    Compute(y: float64[3])
    """

    __slots__ = ("lever", "linear", "recurrence", "statements", "support")

    def __init__(
        self,
        shape: tuple[Extent, ...],
        dtype: DType,
        name: str,
        statements: Iterable[Statement],
        recurrence: Recurrence | None = None,
    ) -> None:
        super().__init__(shape, dtype, name)
        self.define(statements)
        self.linear: tuple[Statement, ...] | None = None
        self.recurrence = recurrence
        self.lever = ""

    @property
    def axes(self) -> tuple[Var, ...]:
        """The axes of its statements, each once: those of its indices, then its reduction axes.

        >>> from iverson.te.language import definitions as te
        >>> A, k = te.placeholder((2, 3), name="A"), te.reduce_axis(3, "k")
        >>> te.compute((2,), lambda i: te.sum(A[i, k], k)).axes
        (i, k)
        """
        return tuple(dict.fromkeys(v for s in self.statements for v in s.domain.axes))

    def again(
        self,
        shape: tuple[Extent, ...],
        statements: Iterable[Statement],
        recurrence: Recurrence | None = None,
        name: str = "",
    ) -> Compute:
        """Compute of another shape and with other statements, with the dtype and lever of this one.

        It has the name of this one unless ``name`` is given.
        """
        result = Compute(shape, self.dtype, name or self.name, statements, recurrence)
        result.lever = self.lever
        return result

    def define(self, statements: Iterable[Statement]) -> None:
        """Set the statements of this tensor."""
        self.statements = tuple(replace(s, out=self) for s in statements)
        self.support: tuple[tuple[Var, ...], Expr] | None = None

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        entry = super().__getitem__(indices)
        return entry if self.statements or self.recurrence is not None else const(0, self.dtype)


class Recurrence:
    """An order for statements that read results of earlier steps; see "Meaning" above.

    members : in the order in which they run at each value of ``axis``; those of a recurrence inside of this
        one are neighbours.
    totals : those members that have no entry for each step.
    outer : the recurrence of which each step runs this one as a whole, if any.
    """

    __slots__ = ("axis", "members", "outer", "reverse", "totals")

    def __init__(self, axis: Var, reverse: bool, outer: Recurrence | None = None) -> None:
        self.axis, self.reverse, self.outer = axis, reverse, outer
        self.members: tuple[Compute, ...] = ()
        self.totals: tuple[Compute, ...] = ()

    @property
    def loops(self) -> tuple[Recurrence, ...]:
        """This recurrence after those around it, outermost first."""
        return (self,) if self.outer is None else (*self.outer.loops, self)

    def renewed(
        self, *, backwards: bool = False, axis: Callable[[Var], Var] = lambda v: v
    ) -> dict[Recurrence, Recurrence]:
        """A new recurrence for this one and for each inside of it, without members yet.

        backwards : True for the other direction. axis : the new axis of steps for an old one.
        """
        new: dict[Recurrence, Recurrence] = {}
        for r in (self, *(r for t in self.members for r in loops_of(t))):
            if r not in new:
                outer = None if r.outer is None else new.get(r.outer)
                new[r] = Recurrence(axis(r.axis), r.reverse is not backwards, outer)
        return new

    def define(
        self, members: Mapping[Compute, Iterable[Statement]], totals: tuple[Compute, ...] = ()
    ) -> None:
        """Set the members, in order, and their statements, which read members."""
        self.members, self.totals = tuple(members), totals
        for t, statements in members.items():
            t.define(statements)
        for r in {r: None for t in members for r in loops_of(t) if r is not self}:
            r.members = tuple([t for t in members if r in loops_of(t)])


def unit_of(tensor: Tensor) -> Tensor | Recurrence:
    """Unit of computation of a tensor: the recurrence that it is a member of, or the tensor itself."""
    return recurrence_of(tensor) or tensor


def recurrence_of(tensor: Tensor | None) -> Recurrence | None:
    """Recurrence of which a tensor is a member, the outermost of several; None if there is none."""
    loops = loops_of(tensor)
    return loops[0] if loops else None


def loops_of(tensor: Tensor | None) -> tuple[Recurrence, ...]:
    """Recurrences of which a tensor is a member, outermost first."""
    recurrence = tensor.recurrence if isinstance(tensor, Compute) else None
    return () if recurrence is None else recurrence.loops


def inner_recurrence(tensor: Tensor, recurrence: Recurrence) -> Recurrence | None:
    """Recurrence just inside of ``recurrence`` that has the tensor as a member; None if there is none."""
    loops = loops_of(tensor)
    place = loops.index(recurrence) + 1
    return loops[place] if place < len(loops) else None


def step_axes(tensor: Tensor | None) -> tuple[Var, ...]:
    """Axes of steps of the recurrences of which a tensor is a member, outermost first."""
    return tuple([r.axis for r in loops_of(tensor)])


def computes_of(unit: Tensor | Recurrence) -> tuple[Compute, ...]:
    """Computes of a unit, in order; () for a placeholder."""
    if isinstance(unit, Recurrence):
        return unit.members
    return (unit,) if isinstance(unit, Compute) else ()


def step_index(member: Compute, recurrence: Recurrence) -> int | None:
    """Position, among the indices of a member's write, of the step of one of the recurrences around it.

    It is None for totals, which have no steps.
    """
    axis = recurrence.axis
    if member in recurrence.totals:
        return None
    places = [(k, w) for s in member.statements for k, w in enumerate(s.write)]
    positions = [k for k, w in places if w is axis] or [k for k, w in places if reads_of([w])]
    return positions[0]


@dataclass(frozen=True, slots=True)
class Domain:
    """The integer points of the box of ``axes`` at which every condition of ``where`` holds."""

    axes: tuple[Var, ...]
    where: tuple[Expr, ...] = ()

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Number of values of each axis."""
        return tuple(extent(v) for v in self.axes)


@dataclass(frozen=True, eq=False, slots=True)
class For:
    """``for var in range(lower, upper, step): body``."""

    var: Var
    lower: Expr
    upper: Expr
    step: int
    body: tuple[Walk, ...]


@dataclass(frozen=True, eq=False, slots=True)
class If:
    """``if condition: body``."""

    condition: Expr
    body: tuple[Walk, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Point:
    """Run the statement here: ``at`` is the value of each axis of its domain."""

    at: tuple[Expr, ...]


Walk = For | If | Point


@dataclass(frozen=True, eq=False, slots=True)
class Statement:
    """``out[write(p)] (combine)= body(p) for p in domain``; see the grammar above.

    ``out`` is None only before the statement belongs to a Compute. If the statement is a contribution to a
    cotangent, ``summand`` is a tensor: the sum of all contributions that come from the same tensor as this
    one.
    """

    out: Compute | None
    write: tuple[Expr, ...]
    body: Expr
    domain: Domain
    combine: str = "assign"
    position: Expr | None = None
    walk: tuple[Walk, ...] | None = None
    strategy: str = ""
    reason: str = ""
    summand: Compute | None = None
    _reads: list[tuple[Read, ...]] = field(default_factory=list, init=False, repr=False)

    @property
    def reads(self) -> tuple[Read, ...]:
        """Reads in all expressions of the statement, each once, operands first."""
        if not self._reads:
            self._reads.append(tuple(reads_of(self.roots)))
        return self._reads[0]

    @property
    def scope(self) -> tuple[Var, ...]:
        """Axes of the domain, and those of reductions in expressions."""
        return tuple(dict.fromkeys((*self.domain.axes, *(v for n in scoped(self.roots) for v in n.axes))))

    @property
    def roots(self) -> tuple[Expr, ...]:
        """All expressions of the statement, except those of its walk."""
        extra = () if self.position is None else (self.position,)
        return (*self.write, self.body, *self.domain.where, *extra)

    def mapped(self, f: Callable[[Expr], Expr], axes: tuple[Var, ...] | None = None) -> Statement:
        """The statement with ``f`` of each expression but its walk's, over ``axes`` if given."""
        domain = Domain(self.domain.axes if axes is None else axes, tuple(map(f, self.domain.where)))
        place = None if self.position is None else f(self.position)
        return replace(
            self, write=tuple(map(f, self.write)), body=f(self.body), domain=domain, position=place
        )

    @property
    def tensor(self) -> Compute:
        """The tensor ``out`` that the statement writes; raises ArgumentError if it is None."""
        if self.out is None:
            raise ArgumentError("te: statement", got="no output", expected="one of a Compute")
        return self.out


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """Statements in an order in which every tensor is complete before it is read.

    >>> from iverson import te
    >>> x = te.placeholder((3,), name="x")
    >>> y = te.compute((3,), lambda i: 2 * x[i], "y")
    >>> te.program_of([y]).inputs
    (Placeholder(x: float64[3]),)
    >>> len(te.program_of([y]).statements)
    1
    """

    inputs: tuple[Placeholder, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[Var, ...] = ()
    _key: list[str] = field(default_factory=list, repr=False)

    @property
    def temporaries(self) -> tuple[Compute, ...]:
        """The tensors written here that are not outputs, in order of their first statement."""
        tensors = dict.fromkeys(s.tensor for s in self.statements)
        outputs = set(self.outputs)
        return tuple(t for t in tensors if t not in outputs)

    def key(self) -> str:
        """A digest of the program's structure: the same for programs that differ in names only."""
        if not self._key:
            self._key.append(_structural_key(self))
        return self._key[0]


def walk_mapped(walk: tuple[Walk, ...], f: Callable[[Expr], Expr]) -> tuple[Walk, ...]:
    """The walk with ``f`` of each bound, condition and index."""
    result: list[Walk] = []
    for item in walk:
        if isinstance(item, Point):
            result.append(Point(tuple(map(f, item.at))))
        elif isinstance(item, If):
            result.append(If(f(item.condition), walk_mapped(item.body, f)))
        else:
            body = walk_mapped(item.body, f)
            result.append(For(item.var, f(item.lower), f(item.upper), item.step, body))
    return tuple(result)


def tensors_of(program: Program) -> tuple[Tensor, ...]:
    """Inputs, outputs and temporaries; equal programs have corresponding tensors at equal positions."""
    return tuple(dict.fromkeys((*program.inputs, *program.outputs, *program.temporaries)))


def _structural_key(program: Program) -> str:
    """Digest of everything in a program but names; expressions have numbers in the order of use."""
    numbers: dict[object, int] = {}
    digest = hashlib.sha256()

    def number(item: Tensor | Recurrence | Expr) -> str:
        return str(numbers.setdefault(item, len(numbers)))

    def emit(*parts: str | int | Sequence[str]) -> None:
        digest.update(repr(parts).encode())

    def expression(roots: Iterable[Expr]) -> list[str]:
        roots = tuple(roots)
        for node in postorder(roots):
            if node in numbers:
                continue
            below = [number(o) for o in node.operands]
            ends = (extent(node.lo), extent(node.hi)) if isinstance(node, Var) else ()
            number(node)
            if isinstance(node, Var):
                emit("var", node.kind, *ends, node.lever)
            elif isinstance(node, Const):
                emit("const", repr(node.value), node.dtype.str)
            elif isinstance(node, Read):
                emit("read", tensor(node.tensor), below)
            elif isinstance(node, Reduce):
                emit("reduce", node.combine, expression(node.axes), below)
            elif isinstance(node, Fold):
                emit("fold", node.number, reducer(node.reducer), expression(node.axes), below)
            else:
                emit(type(node).__name__, getattr(node, "name", ""), node.dtype.str, below)
        return [number(r) for r in roots]

    def reducer(r: Reducer) -> Sequence[str]:
        return expression((*(t[()] for t in (*r.first, *r.second)), *r.results, *r.identities))

    def extent(n: Extent | None) -> str:
        return f"%{expression((n,))[0]}" if isinstance(n, Expr) else repr(n)

    def tensor(t: Tensor) -> str:
        if t not in numbers:
            lever = getattr(t, "lever", "")
            emit(number(t), type(t).__name__, t.dtype.str, [extent(n) for n in t.shape], lever)
        return number(t)

    def walk(nest: tuple[Walk, ...]) -> None:
        pending: list[Walk | None] = list(reversed(nest))
        while pending:
            item = pending.pop()
            if isinstance(item, Point):
                emit("point", expression(item.at))
            elif isinstance(item, For):
                emit("for", expression((item.var, item.lower, item.upper)), item.step)
                pending += [None, *reversed(item.body)]
            elif isinstance(item, If):
                emit("if", expression((item.condition,)))
                pending += [None, *reversed(item.body)]
            else:
                emit("end")

    for t in (*program.inputs, *program.outputs):
        emit("io", tensor(t))
    for s in program.statements:
        steps = [x for r in loops_of(s.tensor) for x in (number(r), str(r.reverse), *expression((r.axis,)))]
        emit(tensor(s.tensor), s.combine, s.strategy, expression(s.domain.axes), len(s.write), *steps)
        emit(len(s.domain.where), expression(s.roots))
        walk(s.walk or ())
    return digest.hexdigest()


def tensors_below(outputs: Iterable[Tensor]) -> list[Tensor]:
    """All tensors on which the outputs depend, the outputs included, producers first.

    Members of a recurrence are in their order.
    """
    return tensors_in(units_below(outputs))


def units_below(outputs: Iterable[Tensor]) -> list[Tensor | Recurrence]:
    """All units (tensors, or recurrences for their members) on which the outputs depend, producers first."""
    return producers_first(map(unit_of, outputs), _read_by)


def rebuilt(
    recurrence: Recurrence,
    axis: Callable[[Var], Var],
    shape: Callable[[Tensor], tuple[Extent, ...]],
    new_tensors: MutableMapping[Tensor, Tensor],
    statement: Callable[[Statement], Statement],
) -> None:
    """Add to ``new_tensors`` members of a new recurrence for those of ``recurrence``.

    axis : the new axis of steps for an old one.
    shape : the new shape of a member.
    statement : the new form of a statement. It may use ``new_tensors``, which contains the new members.
    """
    new = recurrence.renewed(axis=axis)
    members = {t: t.again(shape(t), (), new[loops_of(t)[-1]]) for t in recurrence.members}
    new_tensors.update(dict[Tensor, Tensor](members.items()))
    new[recurrence].define(
        {members[t]: [statement(s) for s in t.statements] for t in recurrence.members},
        tuple([members[t] for t in recurrence.totals]),
    )


def tensors_in(units: Iterable[Tensor | Recurrence]) -> list[Tensor]:
    """The tensors of units, in order."""
    return [t for u in units for t in (computes_of(u) if isinstance(u, Recurrence) else (u,))]


def _read_by(unit: Tensor | Recurrence) -> list[Tensor | Recurrence]:
    statements = [s for t in computes_of(unit) for s in t.statements]
    return [u for s in statements for r in s.reads if (u := unit_of(r.tensor)) is not unit]


def as_tensors(value: Tensor | Iterable[Tensor], caller: str, argument: str) -> tuple[Tensor, ...]:
    """One tensor or several as a tuple. Raises ArgumentTypeError for anything else."""
    tensors: tuple[Any, ...] = tuple(value) if isinstance(value, Iterable) else (value,)
    for k, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise ArgumentTypeError(
                caller,
                f"{argument}[{k}]",
                got=described(t),
                expected="a tensor of te.compute, te.scatter or te.placeholder",
            )
    return tensors


def program_of(outputs: Iterable[Tensor], inputs: Iterable[Placeholder] | None = None) -> Program:
    """The program that computes the outputs: all statements they need, in order.

    ``inputs`` fixes the order of the inputs (default: in order of use) and names all that are read.

    >>> from iverson import te
    >>> x = te.placeholder((3,), name="x")
    >>> y = te.compute((3,), lambda i: 2 * x[i], "y")
    >>> z = te.compute((3,), lambda i: y[i] + 1, "z")
    >>> len(te.program_of([z]).statements)
    2
    """
    outputs = as_tensors(outputs, "te.program", "outputs")
    below = tensors_below(outputs)
    placeholders = [t for t in below if isinstance(t, Placeholder)]
    program_inputs = tuple(placeholders if inputs is None else inputs)
    missing = [t.name for t in placeholders if t not in program_inputs]
    if missing:
        raise ArgumentError(
            "te.program",
            "inputs",
            got=f"no {', '.join(missing)}",
            expected="every tensor that is read",
        )
    statements = tuple(s for t in below if isinstance(t, Compute) for s in _with_kept_summands(t))
    return Program(program_inputs, statements, outputs, sizes_of(below))


def _with_kept_summands(t: Compute) -> Iterator[Statement]:
    """The statements of a tensor; a summand that the user keeps becomes a tensor, which is then added.

    ``T += f; T += g  ->  T += f; S += g; T += S`` where S is a summand with the lever "keep".
    """
    for summand, statements in groupby(t.statements, key=lambda s: s.summand):
        if summand is None or summand.lever != "keep" or t.recurrence is not None:
            yield from statements
            continue
        summand_tensor = summand.again(t.shape, (replace(s, summand=None) for s in statements))
        yield from summand_tensor.statements
        axes = tuple(Var(f"a{k}", 0, n) for k, n in enumerate(t.shape))
        yield Statement(t, axes, summand_tensor[axes], Domain(axes), "sum")


def sizes_of(tensors: Iterable[Tensor]) -> tuple[Var, ...]:
    """The size variables in the tensors' shapes and statements."""
    roots: list[Expr] = []
    for t in tensors:
        roots += [n for n in t.shape if isinstance(n, Expr)]
        for s in t.statements if isinstance(t, Compute) else ():
            roots += s.roots
            for v in s.scope:
                roots += [b for b in (v.lo, v.hi) if isinstance(b, Expr)]
    return tuple(v for v in variables(roots) if v.kind == "size")
