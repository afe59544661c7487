"""Tasks: ``out[write] (combine)= value`` over a box of axes, and how the accesses of one move along them.

A task says what a phase computes. In which order, and with which marks, is chosen in `codegen.schedule`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from iverson.codegen.nests.integer_bounds import Scope, affine
from iverson.codegen.nests.loop_facts import depends
from iverson.codegen.nests.nodes import BOOL, Buffer, Let, Load, Local, Loop, Size, Stmt, Store, Var
from iverson.core.protocols import DType
from iverson.expr.nodes import Apply, Const, Expr, Select, subexpressions
from iverson.expr.symbolic_numbers import typical


@dataclass(frozen=True)
class Axis:
    """An index ``lower <= name < upper``; ``lever``: its loop is to be "parallel" or "unroll".

    label : what a user calls it.
    """

    name: str
    lower: Expr
    upper: Expr
    lever: str = ""
    label: str = field(default="", compare=False)

    def loop(self, body: tuple[Stmt, ...] = (), mark: str = "", factor: int = 1) -> Loop:
        """The loop over the axis, around ``body``."""
        return Loop(self.name, self.lower, self.upper, body, 1, mark, factor, self.label)

    @property
    def extent(self) -> int | None:
        form = affine(self.upper, Scope()) - affine(self.lower, Scope())
        return None if form.terms else max(form.const, 0)

    @property
    def typical_extent(self) -> float:
        """The extent by which costs are judged; infinite if it is not known."""
        extent = self.extent
        return inf if extent is None else typical(extent)


#: What a read costs by its `motion`, in contiguous reads.
MOTION_COST = {0: 0.3, 1: 1.0, 2: 12.0, 3: 2.5}


@dataclass(frozen=True)
class Reduction:
    """A reduction whose value a task uses: declarations, loops, and a Let for each of its results.

    needs : variables of the loops in which it stands.
    settled : all that it reads is there at any values of these variables.
    """

    body: tuple[Stmt, ...]
    needs: frozenset[str]
    settled: bool

    @property
    def names(self) -> frozenset[str]:
        """Names of its results."""
        return frozenset(s.name for s in self.body if isinstance(s, Let))


@dataclass(frozen=True)
class Task:
    """``out[write] (combine)= value`` at every point of the axes where all of ``where`` hold.

    fresh : ``out`` holds nothing yet, and the task reaches all of it: its first value need not be read.
    lets : names for values that are used several times in ``value``, in order.
    position : for argmax and argmin, the expression of the position to store.
    best : for argmax and argmin, a buffer that gets the value at that position; None if it is not stored.
    walk : loops and guards of the reduction, without marks, around Points; None if the reduction runs over
        the whole box of the axes that the write leaves out.
    whole : all loops and guards, if entries are written along axes whose bounds depend on other axes or on
        data.
    reductions : those whose values it uses, if a walk of its own says where they stand.
    apart : every point is written by itself, as only its own guards keep the write inside the output.
    """

    out: Buffer
    write: tuple[Expr, ...]
    value: Expr
    axes: tuple[Axis, ...]
    where: tuple[Expr, ...] = ()
    combine: str = "assign"
    position: Expr | None = None
    fresh: bool = False
    lets: tuple[Let, ...] = ()
    walk: tuple[Stmt, ...] | None = None
    best: Buffer | None = None
    apart: bool = False
    whole: Stmt | None = None
    reductions: tuple[Reduction, ...] = ()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        extra = () if self.position is None else (self.position,)
        return (self.value, *extra, *self.where, *(x.value for x in self.lets))

    @property
    def loads(self) -> tuple[Load, ...]:
        """The Loads in the task's expressions, each once."""
        reads = (x for e in self.expressions for x in subexpressions(e) if isinstance(x, Load))
        return tuple(dict.fromkeys(reads))

    @property
    def owned(self) -> tuple[str, ...]:
        """Axes that are an index of the write by themselves: different values, different entries."""
        names = {a.name for a in self.axes}
        forms = [affine(i, Scope()) for i in self.write]
        alone = [f.terms[0][0] for f in forms if len(f.terms) == 1]
        return tuple(e.name for e in alone if isinstance(e, Var) and e.name in names)

    @property
    def levers(self) -> dict[str, str]:
        """The lever of each axis that has one, by name: a user's request for its loop."""
        return {a.name: a.lever for a in self.axes if a.lever}

    @property
    def reduces(self) -> bool:
        """True if an entry is a combination of several values."""
        return self.walk is not None or (bool(self.inner) and self.combine != "assign" and not self.apart)

    @property
    def inner(self) -> tuple[str, ...]:
        """Names of the axes on which no index of the write depends."""
        return tuple(a.name for a in self.axes if not any(depends(i, {a.name}) for i in self.write))


def no_position(dtype: DType) -> Const:
    """First value of the variable of a position."""
    return Const(np.iinfo(dtype).max, dtype)


def position_in(at: Local) -> Expr:
    """Position in a variable; -1 if there was no term."""
    return Select(Apply("equal", (at, no_position(at.dtype)), BOOL), Const(-1, at.dtype), at)


def motion(access: Load | Store, name: str, lets: Sequence[Let] = ()) -> int:
    """Number for the move of an access in memory when the axis ``name`` grows by 1.

    0: none, 1: to the next entry, 3: by two to four entries, 2: any other move.

    lets : definitions of names that the indices use.
    """
    scope = Scope(lets={x.name: x.value for x in lets})
    distance = 0
    for index, stride in zip(access.indices, _strides(access.buffer), strict=True):
        form = affine(index, scope)
        coefficient = form.coefficient(Var(name))
        atoms = [t for t in form.terms if not isinstance(t[0], Var) and depends(t[0], {name})]
        if atoms:
            line = stride == 1 and access.buffer.strides is None and len(atoms) == 1 and atoms[0][1] == 1
            if coefficient or not (line and is_held(atoms[0][0], name)):
                return 2
            coefficient = 1
        if coefficient and stride is None:
            return 2
        distance += coefficient * (stride or 0)
    if 0 <= distance <= 1:
        return int(distance == 1)
    return 3 if 2 <= distance <= 4 else 2


def _strides(buffer: Buffer) -> Sequence[int | None]:
    """Entries between neighbours along each axis; None where a size says how many."""
    if buffer.strides is not None:
        return [s if isinstance(s, int) else None for s in buffer.strides]
    strides: list[int | None] = [1]
    for n in reversed(buffer.shape[1:]):
        strides.append(strides[-1] * n if strides[-1] is not None and isinstance(n, int) else None)
    return strides[-1 : -1 - len(buffer.shape) : -1] if buffer.shape else ()


def is_held(e: Expr, name: str) -> bool:
    """True if ``e`` is the axis ``name`` plus variables and sizes, perhaps clamped by minimum or maximum.

    Reads at such an index are contiguous, except at the bounds.
    """
    if isinstance(e, Apply) and e.name in ("minimum", "maximum"):
        moving = [a for a in e.args if depends(a, {name})]
        return len(moving) == 1 and is_held(moving[0], name)
    form = affine(e, Scope())
    return form.coefficient(Var(name)) == 1 and all(isinstance(a, (Var, Size)) for a, _ in form.terms)
