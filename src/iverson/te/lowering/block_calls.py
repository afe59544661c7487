"""Block calls: code of programs that run in blocks along an axis, called block by block.

`iverson.te.rewrites.axis_blocks` finds the axis.

    for i in 0:n: S[i, k] = f(q[i], i)   ->   for each block: for i in 0:size: S[i, k] = f(q[i], first + i)

Within a block the axis counts from 0. Where the axis is used as a number (in a causal mask), the first place
of the block is added: it is a size of the block's program. So is the length of the block, where the sizes of
the whole are not bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from iverson.expr.build import simplified_with
from iverson.expr.nodes import Expr, postorder
from iverson.te.elimination.zero_elimination import eliminate
from iverson.te.ir.expressions import Extent, Placeholder, Read, Tensor, Var, at_sizes, typical
from iverson.te.ir.nodes import (
    Compute,
    Program,
    Recurrence,
    Statement,
    computes_of,
    program_of,
    rebuilt,
    units_below,
)
from iverson.te.language.definitions import of_tensors, var
from iverson.te.lowering.lowered_program import Lowered
from iverson.te.lowering.statement_lowering import lower
from iverson.te.rewrites.axis_blocks import Blocks, in_blocks, index_of, is_large

Array = np.ndarray[Any, Any]
#: A tensor, and its axis of blocks where only a block of it is meant.
Part = tuple[Tensor, int | None]
TOGETHER = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of a program: ``code`` makes some of its tensors of others, at values of ``sizes``."""

    code: Lowered | Blocked
    sizes: tuple[Var, ...]
    reads: tuple[Part, ...]
    makes: tuple[Part, ...]

    def run(self, arrays: Mapping[Tensor, Array], own: slice, sizes: Mapping[Var, int], **how: Any) -> Any:
        """What it makes, at these sizes, of the arrays or a block of them."""
        known = {n: sizes[v] for n, v in zip(self.code.program.sizes, self.sizes, strict=True)}
        code = self.code.at(known) if known else self.code
        return code(*(_part(arrays[t], d, own) for t, d in self.reads), **how)


def _part(array: Array, d: int | None, own: slice) -> Array:
    return array if d is None else array[(slice(None),) * d + (own,)]


@dataclass(frozen=True, eq=False)
class Blocked:
    """A program in blocks, called as a `Lowered` is.

    before, after : what is computed once. block : of blocks of so many places, what is computed in each.
    first : the first place of a block, in its code. values : those of the program's own sizes.
    """

    program: Program
    blocks: Blocks
    before: Stage | None
    block: Callable[[int], tuple[Stage, Mapping[Var, int]]]
    after: Stage | None
    first: Var
    values: Mapping[Var, int] = field(default_factory=dict)

    def at(self, sizes: Mapping[Var, int]) -> Blocked:
        """The same code, to be called on arrays of these sizes."""
        return replace(self, values=sizes)

    def __call__(
        self,
        *inputs: Any,
        threads: int | None = None,
        operation: str = "te",
        names: Sequence[str] | None = None,
    ) -> tuple[Array, ...]:
        """The outputs for arrays in the order of ``program.inputs``, as of a `Lowered`."""
        arrays: dict[Tensor, Array] = dict(zip(self.program.inputs, map(np.asarray, inputs), strict=True))
        given = dict(zip(self.program.inputs, names or (), strict=False))

        def run(stage: Stage, own: slice, sizes: Mapping[Var, int]) -> Iterable[tuple[Part, Array]]:
            called = [given.get(t, t.name) if isinstance(t, Placeholder) else t.name for t, _ in stage.reads]
            found = stage.run(arrays, own, sizes, threads=threads, operation=operation, names=called)
            return zip(stage.makes, found, strict=True)

        if self.before is not None:
            arrays |= {t: array for (t, _), array in run(self.before, slice(None), self.values)}
        n = at_sizes(self.blocks.extent, self.values)
        places = self.blocks.places(self.values)
        for first in range(0, n, places):
            own = slice(first, min(first + places, n))
            stage, sizes = self.block(own.stop - first)
            for part, array in run(stage, own, {**self.values, **sizes, self.first: first}):
                self._put(part, array, own, arrays)
        if self.after is not None:
            arrays |= {t: array for (t, _), array in run(self.after, slice(None), self.values)}
        return tuple(arrays[t] for t in self.program.outputs)

    def _put(self, part: Part, array: Array, own: slice, arrays: dict[Tensor, Array]) -> None:
        """What a block makes, where it belongs."""
        t, d = part
        if d is not None:
            if t not in arrays:
                arrays[t] = np.empty([at_sizes(m, self.values) for m in t.shape], t.dtype)
            _part(arrays[t], d, own)[...] = array
        elif t not in arrays:
            arrays[t] = array
        else:
            assert isinstance(t, Compute)
            TOGETHER[t.statements[0].combine](arrays[t], array, out=arrays[t])


def lowered_in_blocks(program: Program) -> Blocked | None:
    """The code of a program in blocks; None where it has no axis for these."""
    blocks = in_blocks(program)
    if blocks is None:
        return None
    inside = [t for t in (*blocks.along, *blocks.totals) if isinstance(t, Compute)]
    late = [t for t in program.outputs if t in blocks.late]
    read = {r.tensor for t in blocks.late for s in _statements(t) for r in s.reads}
    kept = [t for t in inside if t in program.outputs or t in read]
    first = Var("first", 0, blocks.extent, "size")
    first.typical = typical(blocks.extent) // 2
    size = None if isinstance(blocks.extent, int) else var("size")
    if size is not None:
        size.typical = blocks.places({n: n.typical for n in program.sizes})

    @cache
    def of_size(places: Extent) -> Stage:
        return _Making(blocks, first, places).stage(kept)

    def block(places: int) -> tuple[Stage, Mapping[Var, int]]:
        return (of_size(places), {}) if size is None else (of_size(size), {size: places})

    some = block(blocks.places({n: n.typical for n in program.sizes}))[0]
    early = [t for t in program.outputs if t not in inside and t not in late]
    early += [t for t, _ in some.reads if isinstance(t, Compute)]
    early += [t for t in read if isinstance(t, Compute) and t not in blocks.late and t not in inside]
    around = {t: Placeholder(t.shape, t.dtype, t.name) for t in (*kept, *early)}
    before = _stage(list(dict.fromkeys(early)), {})
    return Blocked(program, blocks, before, block, _stage(late, around), first)


class _Making:
    """From statements to those of a block of so many places.

    given : what stands for a tensor from outside, or a block of one, in the statements.
    """

    def __init__(self, blocks: Blocks, first: Var, places: Extent) -> None:
        self.blocks, self.first, self.places = blocks, first, places
        self.given: dict[Part, Placeholder] = {}
        self.made: dict[Tensor, Tensor] = {}
        self.new: dict[Var, Var] = {}

    def stage(self, kept: Sequence[Compute]) -> Stage:
        """The code of a block, which makes its part of ``kept``."""
        for unit in units_below(kept):
            own = [t for t in computes_of(unit) if t in self.blocks.along or t in self.blocks.totals]
            if own and isinstance(unit, Recurrence):
                rebuilt(unit, unit.axis, self._shape, self.made, self._statement)
            elif own:
                self.made[own[0]] = own[0].again(self._shape(own[0]), map(self._statement, own[0].statements))
        program = program_of([self.made[t] for t in kept])
        parts = {p: t for t, p in self.given.items()}
        reads = tuple(parts[p] for p in program.inputs)
        code = (lowered_in_blocks(program) if is_large(program) else None) or lower(eliminate(program))
        return Stage(code, program.sizes, reads, tuple((t, self.blocks.along.get(t)) for t in kept))

    def _shape(self, t: Tensor) -> tuple[Extent, ...]:
        at = self.blocks.along.get(t)
        return tuple(self.places if k == at else n for k, n in enumerate(t.shape))

    def _statement(self, s: Statement) -> Statement:
        v = self.blocks.axes[s]
        own = self.new.setdefault(v, v.ranging(0, self.places))
        at = self.blocks.along.get(s.tensor)

        def changed(root: Expr) -> Expr:
            made: dict[Expr, Expr] = {v: own + self.first}
            for e in postorder([root]):
                if e is not v:
                    made[e] = simplified_with(e, [made[o] for o in e.operands])
                    if isinstance(e, Read):
                        made[e] = self._read(e, tuple(made[o] for o in e.indices), v, own)
            return made[root]

        new = s.mapped(changed, tuple(own if a is v else a for a in s.domain.axes))
        write = tuple(own if k == at else w for k, w in enumerate(new.write))
        return replace(new, write=write, summand=None)

    def _read(self, old: Read, indices: tuple[Expr, ...], v: Var, own: Var) -> Expr:
        """A read in a block: of a tensor of the block, or of one from outside, or a block of that."""
        t = old.tensor
        at = self.blocks.along.get(t)
        source = self.made.get(t)
        if source is None:
            at = index_of(old, v)
            if (t, at) not in self.given:
                shape = tuple(self.places if k == at else n for k, n in enumerate(t.shape))
                self.given[t, at] = Placeholder(shape, t.dtype, t.name)
            source = self.given[t, at]
        return source[tuple(own if k == at else e for k, e in enumerate(indices))]


def _statements(t: Tensor) -> tuple[Statement, ...]:
    return t.statements if isinstance(t, Compute) else ()


def _stage(outputs: Sequence[Tensor], given: Mapping[Tensor, Placeholder]) -> Stage | None:
    """The outputs as a part of their own, of tensors that are given."""
    if not outputs:
        return None
    program = program_of(of_tensors(outputs, given) if given else outputs)
    known: dict[Tensor, Tensor] = {p: t for t, p in given.items()}
    reads = tuple((known.get(p, p), None) for p in program.inputs)
    return Stage(lower(eliminate(program)), program.sizes, reads, tuple((t, None) for t in outputs))
