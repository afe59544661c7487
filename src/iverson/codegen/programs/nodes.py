"""Program IR on one page: steps over buffers of constant shapes that run as one native call.

The meaning of a program is defined here; `verify` checks the rules, `interpret` runs it literally and is the
oracle, `print` shows it, `buffer_allocation` plans its memory, `program_emission` compiles it. Makers of
programs are not known here.

Grammar
-------
::

    program ::= Program(name, buffers, steps, constants)

    buffer  ::= Buffer(name, dtype, shape, role)      C order; the shape is constant
    role    ::= in | inout     passed by the caller, in the order of the buffers
              | out            made for each call and returned, in that order
              | temp           lives for the call; has a place in the arena
              | const          an array that the program holds

    step    ::= Nest(kernel, views)                   a loop nest; one view for each buffer of the kernel
              | Product(out, left, right, alpha, beta, conjugate)
                                                      out = alpha * left @ right + beta * out, by BLAS
              | Repeat(var, trips, body, swaps, when) while var < trips and when: body; exchange the swaps
              | Branch(condition, then, other)        then if the condition is not 0, else other
            | Call(routine, views, status)          a routine of a library, for each item of a batch;
                                                    status = 0 if it did not fail
            | Stop(condition, failure)              if the condition is not 0, end the program: an error

    view    ::= View(buffer, shape, strides, offset, moves)
                                                      its entry i is that of the buffer at
                                                      offset + sum(i * strides) + sum(var * move)

Meaning
-------
- Steps run in order, each complete before the next begins.
- A temp or out buffer holds nothing until a step has written it. A kernel's ``out`` buffer is written as a
  whole as far as its entries are ever read; ``inout`` ones are read too.
- In a Product, leading axes are a batch (stride 0 repeats a matrix). Of each matrix one axis has stride 1,
  and the other at least its extent. A conjugated factor is one that BLAS reads transposed. ``alpha`` and
  ``beta`` are numbers or views of one entry; with the number 0 for beta, out is not read.
- In a Call, the axes before a routine's core axes are a batch, of one shape for all views.
- A Repeat's variable counts from 0; without ``trips`` it ends by ``when`` alone, which is read before each
  iteration. ``swaps`` are pairs of temps of one shape and dtype whose contents are exchanged after each
  iteration: what is carried from one to the next costs no copy.
- Of one buffer, a view that a step writes overlaps no other view of that step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from iverson.codegen.execution.routines import Failure, Routine
from iverson.codegen.nests.nodes import Buffer, Kernel

Array = np.ndarray[Any, Any]
ROLES = ("in", "inout", "out", "temp", "const")


@dataclass(frozen=True, slots=True)
class View:
    """Some entries of a buffer as an array; ``moves``: how far its offset goes with a loop's variable."""

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    moves: tuple[tuple[str, int], ...] = ()

    @property
    def whole(self) -> bool:
        """True if the view is all of its buffer, in order; it may be in another shape."""
        covers = prod(self.shape) == size(self.buffer) and not self.moves and not self.offset
        return covers and self.contiguous

    @property
    def contiguous(self) -> bool:
        """True if the view's entries lie in C order without gaps."""
        pairs = zip(self.shape, self.strides, c_strides(self.shape), strict=True)
        return 0 in self.shape or all(n == 1 or s == c for n, s, c in pairs)

    @property
    def reach(self) -> tuple[int, int]:
        """The first and the last entry of the buffer that the view touches, without its moves."""
        spans = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return self.offset + sum(min(s, 0) for s in spans), self.offset + sum(max(s, 0) for s in spans)

    def overlaps(self, other: View) -> bool:
        """True if two views of one step may touch one entry."""
        if self.buffer != other.buffer or 0 in self.shape or 0 in other.shape:
            return False
        if sorted(self.moves) != sorted(other.moves):
            return True
        (low, high), (first, last) = self.reach, other.reach
        return low <= last and first <= high and not _is_beside(self, other)

    @property
    def transposed(self) -> View:
        """The same entries with the last two axes exchanged."""
        *batch, row, column = range(len(self.shape))
        return self.permuted((*batch, column, row))

    def permuted(self, axes: Sequence[int]) -> View:
        """The same entries with the axes in another order."""
        shape, strides = ([x[k] for k in axes] for x in (self.shape, self.strides))
        return View(self.buffer, tuple(shape), tuple(strides), self.offset, self.moves)

    def reshaped(self, shape: tuple[int, ...]) -> View | None:
        """The entries in another shape, in the same order; None where strides can not say it."""
        if self.contiguous:
            return replace(self, shape=shape, strides=c_strides(shape))
        strides = reshaped_strides(self.shape, self.strides, shape)
        return None if strides is None else replace(self, shape=shape, strides=strides)

    def moved(self, var: str, by: int) -> View:
        """The view whose offset moves with a loop's variable too."""
        return View(self.buffer, self.shape, self.strides, self.offset, (*self.moves, (var, by)))


def reshaped_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides that see entries in another shape, in the same order; None if there are none.

    Axes of both shapes are matched in groups of as many entries. The axes of a group must lie evenly.

    >>> reshaped_strides((4, 6), (6, 1), (2, 2, 6)), reshaped_strides((4, 6), (1, 4), (24,))
    ((12, 6, 1), None)
    """
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    axes = [k for k, n in enumerate(new) if n != 1]
    steps = [1] * len(new)
    while old and axes:
        group, inner = [old.pop(0)], [axes.pop(0)]
        room, count = group[0][0], new[inner[0]]
        while count != room:
            if not (axes if count < room else old):
                return None
            if count < room:
                inner.append(axes.pop(0))
                count = count * new[inner[-1]]
            else:
                group.append(old.pop(0))
                room = room * group[-1][0]
        if any(s != n * step for (_, s), (n, step) in pairwise(group)):
            return None
        step = group[-1][1]
        for k in reversed(inner):
            steps[k], step = step, step * new[k]
    return tuple(steps)


def _is_beside(a: View, b: View) -> bool:
    """True if two views lie beside each other along an axis, as parts of a concatenation do."""
    for outer in sorted({abs(s) for s, n in zip(a.strides, a.shape, strict=True) if n > 1 and s}):
        spans = []
        for v in (a, b):
            axes = [(abs(s), n) for s, n in zip(v.strides, v.shape, strict=True) if n > 1 and s]
            if any(s < 0 for s in v.strides) or any(s >= outer and s % outer for s, _ in axes):
                return False
            start = v.offset % outer
            spans.append((start, start + sum((n - 1) * s for s, n in axes if s < outer)))
        (low, high), (first, last) = spans
        if max(high, last) < outer and (high < first or last < low):
            return True
    return False


Number = int | float | complex


@dataclass(frozen=True, slots=True)
class Nest:
    """Run a kernel; ``views`` stand for its arguments, and ``sizes`` for ``kernel.sizes``, in order."""

    kernel: Kernel
    views: tuple[View, ...]
    sizes: tuple[int, ...] = ()

    @property
    def values(self) -> dict[str, int]:
        """The value of each size of the kernel, by name."""
        return dict(zip(self.kernel.sizes, self.sizes, strict=True))


@dataclass(frozen=True, slots=True)
class Product:
    """``out = alpha * left @ right + beta * out``."""

    out: View
    left: View
    right: View
    alpha: Number | View = 1
    beta: Number | View = 0
    conjugate: tuple[bool, bool] = (False, False)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A native loop."""

    var: str
    trips: int | None
    body: tuple[Step, ...]
    swaps: tuple[tuple[Buffer, Buffer], ...] = ()
    when: View | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A native branch on one entry."""

    condition: View
    then: tuple[Step, ...]
    other: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Run a routine; ``views`` stand for its operands, and ``status`` gets 0 unless it failed."""

    routine: Routine
    views: tuple[View, ...]
    status: View | None = None

    @property
    def batch(self) -> tuple[int, ...]:
        """Extents of the axes before the core axes."""
        shape = self.views[0].shape
        return shape[: len(shape) - len(self.routine.cores[0])]


@dataclass(frozen=True, slots=True)
class Stop:
    """Leave the program with an error if an entry is not 0."""

    condition: View
    failure: Failure


#: A step without steps inside.
Leaf = Nest | Product | Call | Stop
Step = Leaf | Repeat | Branch


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """Steps over buffers; ``constants`` holds an array for each buffer with role const."""

    name: str
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)

    def of(self, *roles: str) -> tuple[Buffer, ...]:
        """The buffers with one of these roles, in order."""
        return tuple(b for b in self.buffers if b.role in roles)


def extents(b: Buffer) -> tuple[int, ...]:
    """A buffer's shape, which is constant."""
    return tuple(n for n in b.shape if isinstance(n, int))


def size(b: Buffer) -> int:
    """A buffer's number of entries."""
    return prod(extents(b))


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in entries of an array in C order."""
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def whole(b: Buffer) -> View:
    """View of a whole buffer."""
    shape = extents(b)
    return View(b, shape, c_strides(shape))


def reads_and_writes(s: Leaf) -> tuple[tuple[View, ...], tuple[View, ...]]:
    """The views that a step reads, and those that it writes."""
    if isinstance(s, Product):
        scales = tuple(x for x in (s.alpha, s.beta) if isinstance(x, View))
        old = () if is_zero(s.beta) else (s.out,)
        return (s.left, s.right, *scales, *old), (s.out,)
    if isinstance(s, Stop):
        return (s.condition,), ()
    if isinstance(s, Call):
        roles = tuple(zip(s.routine.roles, s.views, strict=True))
        status = () if s.status is None else (s.status,)
        return tuple(v for r, v in roles if r != "out"), (*(v for r, v in roles if r != "in"), *status)
    pairs = tuple(zip(s.kernel.arguments, s.views, strict=True))
    reads = tuple(v for b, v in pairs if b.role != "out")
    return reads, tuple(v for b, v in pairs if b.role != "in")


def is_zero(x: Number | View) -> bool:
    """True if a scale is the number 0."""
    return not isinstance(x, View) and x == 0


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, outer ones first."""
    for s in steps:
        yield s
        for body in bodies(s):
            yield from walk(body)


def bodies(s: Step) -> tuple[tuple[Step, ...], ...]:
    """The steps inside a step."""
    if isinstance(s, Repeat):
        return (s.body,)
    return (s.then, s.other) if isinstance(s, Branch) else ()


def uses(steps: tuple[Step, ...]) -> Counter[Buffer]:
    """Number of views of each buffer in steps and those inside, conditions and exchanges included."""
    counts: Counter[Buffer] = Counter()
    for s in walk(steps):
        if isinstance(s, Branch):
            counts[s.condition.buffer] += 1
        elif isinstance(s, Repeat):
            counts.update([] if s.when is None else [s.when.buffer])
            counts.update(b for pair in s.swaps for b in pair)
        else:
            read_views, written_views = reads_and_writes(s)
            counts.update(v.buffer for v in {*read_views, *written_views})
    return counts


def moving(steps: tuple[Step, ...]) -> list[str]:
    """Names of the variables of loops around ``steps`` with which views in the steps move, sorted."""
    variables: dict[str, None] = {}

    def seen(v: View) -> View:
        variables.update((var, None) for var, _ in v.moves)
        return v

    for s in steps:
        mapped(s, seen)
    inside = {s.var for s in walk(steps) if isinstance(s, Repeat)}
    return sorted(variables.keys() - inside)


def writes(s: Step) -> set[Buffer]:
    """The buffers that a step and those inside write."""
    leaves = (x for x in walk((s,)) if isinstance(x, Leaf))
    swaps = {b for x in walk((s,)) if isinstance(x, Repeat) for pair in x.swaps for b in pair}
    return swaps.union(v.buffer for x in leaves for v in reads_and_writes(x)[1])


def mapped(s: Step, f: Callable[[View], View]) -> Step:
    """The step with ``f(v)`` in place of each view v in it; the buffers of swaps stay."""

    def scale(x: Number | View) -> Number | View:
        return f(x) if isinstance(x, View) else x

    if isinstance(s, Nest):
        return replace(s, views=tuple(f(v) for v in s.views))
    if isinstance(s, Product):
        return replace(
            s, out=f(s.out), left=f(s.left), right=f(s.right), alpha=scale(s.alpha), beta=scale(s.beta)
        )
    if isinstance(s, Stop):
        return replace(s, condition=f(s.condition))
    if isinstance(s, Call):
        status = None if s.status is None else f(s.status)
        return replace(s, views=tuple(f(v) for v in s.views), status=status)
    if isinstance(s, Branch):
        then, other = (tuple(mapped(x, f) for x in body) for body in (s.then, s.other))
        return Branch(f(s.condition), then, other)
    body = tuple(mapped(x, f) for x in s.body)
    return replace(s, body=body, when=None if s.when is None else f(s.when))
