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
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array = np.ndarray[Any, Any]
#: A tensor, and its axis of blocks where only a block of it is meant.
Part = tuple[Tensor, int | None]
TOGETHER = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of a program: ``code`` computes the tensors ``makes`` from the tensors ``reads``.

    sizes : the sizes of the code, as variables of the whole program.
    """

    code: Lowered | Blocked
    sizes: tuple[Var, ...]
    reads: tuple[Part, ...]
    makes: tuple[Part, ...]

    def run(
        self, arrays: Mapping[Tensor, Array], block_slice: slice, sizes: Mapping[Var, int], **how: Any
    ) -> Any:
        """Results of the stage at these sizes.

        block_slice : the places of the block, for each tensor of which only a block is read.
        how : further arguments of the code.
        """
        bound_sizes = {n: sizes[v] for n, v in zip(self.code.program.sizes, self.sizes, strict=True)}
        code = self.code.at(bound_sizes) if bound_sizes else self.code
        return code(*(_part(arrays[t], d, block_slice) for t, d in self.reads), **how)


def _part(array: Array, d: int | None, block_slice: slice) -> Array:
    return array if d is None else array[(slice(None),) * d + (block_slice,)]


@dataclass(frozen=True, eq=False)
class Blocked:
    """A program in blocks, called as a `Lowered` is.

    before, after : stages that run once.
    block : gives the stage of a block, and the values of its sizes, from its number of places.
    first : the size that stands for a block's first place in its code.
    values : of the program's sizes.
    """

    program: Program
    blocks: Blocks
    before: Stage | None
    block: Callable[[int], tuple[Stage, Mapping[Var, int]]]
    after: Stage | None
    first: Var
    values: Mapping[Var, int] = field(default_factory=dict)

    def at(self, sizes: Mapping[Var, int]) -> Blocked:
        """The same code for calls on arrays of these sizes."""
        return replace(self, values=sizes)

    def __call__(
        self,
        *inputs: ArrayLike,
        threads: int | None = None,
        operation: str = "te",
        names: Sequence[str] | None = None,
    ) -> tuple[Array, ...]:
        """Outputs for arrays in the order of ``program.inputs``; other arguments are those of a `Lowered`."""
        arrays: dict[Tensor, Array] = dict(zip(self.program.inputs, map(np.asarray, inputs), strict=True))
        name_of = dict(zip(self.program.inputs, names or (), strict=False))

        def run(stage: Stage, block_slice: slice, sizes: Mapping[Var, int]) -> Iterable[tuple[Part, Array]]:
            input_names = [
                name_of.get(t, t.name) if isinstance(t, Placeholder) else t.name for t, _ in stage.reads
            ]
            results = stage.run(
                arrays, block_slice, sizes, threads=threads, operation=operation, names=input_names
            )
            return zip(stage.makes, results, strict=True)

        if self.before is not None:
            arrays |= {t: array for (t, _), array in run(self.before, slice(None), self.values)}
        n = at_sizes(self.blocks.extent, self.values)
        places = self.blocks.places(self.values)
        for first in range(0, n, places):
            block_slice = slice(first, min(first + places, n))
            stage, sizes = self.block(block_slice.stop - first)
            for part, array in run(stage, block_slice, {**self.values, **sizes, self.first: first}):
                self._put(part, array, block_slice, arrays)
        if self.after is not None:
            arrays |= {t: array for (t, _), array in run(self.after, slice(None), self.values)}
        return tuple(arrays[t] for t in self.program.outputs)

    def _put(self, part: Part, array: Array, block_slice: slice, arrays: dict[Tensor, Array]) -> None:
        """Store a result of a block in ``arrays``: at its place in a tensor, or combined into a total."""
        t, d = part
        if d is not None:
            if t not in arrays:
                arrays[t] = np.empty([at_sizes(m, self.values) for m in t.shape], t.dtype)
            _part(arrays[t], d, block_slice)[...] = array
        elif t not in arrays:
            arrays[t] = array
        else:
            assert isinstance(t, Compute)
            TOGETHER[t.statements[0].combine](arrays[t], array, out=arrays[t])


def lowered_in_blocks(program: Program) -> Blocked | None:
    """Code of a program that runs in blocks; None if no axis allows blocks."""
    blocks = in_blocks(program)
    if blocks is None:
        return None
    inside = [t for t in (*blocks.along, *blocks.totals) if isinstance(t, Compute)]
    late = [t for t in program.outputs if t in blocks.late]
    late_reads = {r.tensor for t in blocks.late for s in _statements(t) for r in s.reads}
    block_outputs = [t for t in inside if t in program.outputs or t in late_reads]
    first = Var("first", 0, blocks.extent, "size")
    first.typical = typical(blocks.extent) // 2
    size = None if isinstance(blocks.extent, int) else var("size")
    if size is not None:
        size.typical = blocks.places({n: n.typical for n in program.sizes})

    @cache
    def of_size(places: Extent) -> Stage:
        return _Making(blocks, first, places).stage(block_outputs)

    def block(places: int) -> tuple[Stage, Mapping[Var, int]]:
        return (of_size(places), {}) if size is None else (of_size(size), {size: places})

    typical_stage = block(blocks.places({n: n.typical for n in program.sizes}))[0]
    early = [t for t in program.outputs if t not in inside and t not in late]
    early += [t for t, _ in typical_stage.reads if isinstance(t, Compute)]
    early += [t for t in late_reads if isinstance(t, Compute) and t not in blocks.late and t not in inside]
    around = {t: Placeholder(t.shape, t.dtype, t.name) for t in (*block_outputs, *early)}
    before = _stage(list(dict.fromkeys(early)), {})
    return Blocked(program, blocks, before, block, _stage(late, around), first)


class _Making:
    """Translation of statements to the statements of a block with ``places`` places.

    given : for each tensor from outside (or the block of it that is read), its placeholder in the statements.
    made : for each tensor of the program, its counterpart in the block.
    """

    def __init__(self, blocks: Blocks, first: Var, places: Extent) -> None:
        self.blocks, self.first, self.places = blocks, first, places
        self.given: dict[Part, Placeholder] = {}
        self.made: dict[Tensor, Tensor] = {}
        self.new: dict[Var, Var] = {}

    def stage(self, outputs: Sequence[Compute]) -> Stage:
        """Stage of a block, which computes the block's part of ``outputs``."""
        for unit in units_below(outputs):
            members = [t for t in computes_of(unit) if t in self.blocks.along or t in self.blocks.totals]
            if members and isinstance(unit, Recurrence):
                rebuilt(unit, lambda v: v, self._shape, self.made, self._statement)
            elif members:
                self.made[members[0]] = members[0].again(
                    self._shape(members[0]), map(self._statement, members[0].statements)
                )
        program = program_of([self.made[t] for t in outputs])
        parts = {p: t for t, p in self.given.items()}
        reads = tuple(parts[p] for p in program.inputs)
        code = (lowered_in_blocks(program) if is_large(program) else None) or lower(eliminate(program))
        return Stage(code, program.sizes, reads, tuple((t, self.blocks.along.get(t)) for t in outputs))

    def _shape(self, t: Tensor) -> tuple[Extent, ...]:
        at = self.blocks.along.get(t)
        return tuple(self.places if k == at else n for k, n in enumerate(t.shape))

    def _statement(self, s: Statement) -> Statement:
        """The statement for the places of a block: its axis of blocks counts from 0."""
        v = self.blocks.axes[s]
        block_axis = self.new.setdefault(v, v.ranging(0, self.places))
        at = self.blocks.along.get(s.tensor)

        def changed(root: Expr) -> Expr:
            results: dict[Expr, Expr] = {v: block_axis + self.first}
            for e in postorder([root]):
                if e is not v:
                    results[e] = simplified_with(e, [results[o] for o in e.operands])
                    if isinstance(e, Read):
                        results[e] = self._read(e, tuple(results[o] for o in e.indices), v, block_axis)
            return results[root]

        new = s.mapped(changed, tuple(block_axis if a is v else a for a in s.domain.axes))
        write = tuple(block_axis if k == at else w for k, w in enumerate(new.write))
        return replace(new, write=write, summand=None)

    def _read(self, old: Read, indices: tuple[Expr, ...], v: Var, block_axis: Var) -> Expr:
        """Read in a block, in place of ``old``: of a tensor of the block or from outside, or a block of that.

        indices : the new indices.
        v, block_axis : the axis of blocks, and the axis in its place.
        """
        t = old.tensor
        at = self.blocks.along.get(t)
        source = self.made.get(t)
        if source is None:
            at = index_of(old, v)
            if (t, at) not in self.given:
                shape = tuple(self.places if k == at else n for k, n in enumerate(t.shape))
                self.given[t, at] = Placeholder(shape, t.dtype, t.name)
            source = self.given[t, at]
        return source[tuple(block_axis if k == at else e for k, e in enumerate(indices))]


def _statements(t: Tensor) -> tuple[Statement, ...]:
    return t.statements if isinstance(t, Compute) else ()


def _stage(outputs: Sequence[Tensor], placeholders: Mapping[Tensor, Placeholder]) -> Stage | None:
    """Stage that computes the outputs; None without outputs.

    placeholders : for each tensor that the stage reads instead of computing it, its placeholder.
    """
    if not outputs:
        return None
    program = program_of(of_tensors(outputs, placeholders) if placeholders else outputs)
    sources: dict[Tensor, Tensor] = {p: t for t, p in placeholders.items()}
    reads = tuple((sources.get(p, p), None) for p in program.inputs)
    return Stage(lower(eliminate(program)), program.sizes, reads, tuple((t, None) for t in outputs))
