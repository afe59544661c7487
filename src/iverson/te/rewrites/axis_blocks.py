"""Blocking along an axis, so that large tensors between inputs and results are never whole in memory.

    S[i, k] = f(q[i], k[k]);  M[i] max= S[i, k];  ...   ->   for i in blocks: S of these i, M of these i, ...

A tensor is *along* an axis if each of its entries is made of, and read for, entries at the same place on
it. One block at a time is in memory of a tensor along it; a sum over it (a gradient in an input that all
places share) is accumulated from block to block. So attention, kernel matrices and their derivatives take
memory for some rows of their matrices, and recurrences for some of their sequences.

The analysis, which tensor is along which axis, is here; `iverson.te.lowering.block_calls` makes the code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Extent, Read, Tensor, Var, at_sizes, typical, variables
from iverson.te.ir.index_arithmetic import is_range, same_extent
from iverson.te.ir.nodes import Compute, Program, Statement, computes_of, recurrence_of, units_below
from iverson.te.rewrites.inlining import inline

#: Bytes of temporaries from which a program runs in blocks, and of those of a block.
LARGE, BLOCK = 1 << 26, 1 << 23
#: How what blocks make can be put together.
TOTALS = ("sum", "prod", "max", "min")


def bytes_of(t: Tensor) -> int:
    """Bytes of memory of a tensor, at typical sizes."""
    return prod(map(typical, t.shape)) * t.dtype.itemsize


def stored(program: Program) -> list[Tensor]:
    """Temporaries of a program that have memory, as they are not computed where they are read."""
    tensors = dict.fromkeys(s.tensor for s in inline(program))
    return [t for t in tensors if t not in program.outputs]


def is_large(program: Program) -> bool:
    """True if the stored temporaries of a program take `LARGE` bytes, and twice its inputs and outputs."""
    if sum(map(bytes_of, program.temporaries)) < LARGE:
        return False
    outer_bytes = sum(map(bytes_of, (*program.inputs, *program.outputs)))
    return sum(map(bytes_of, stored(program))) >= max(LARGE, 2 * outer_bytes)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Plan of a program in blocks.

    Tensors that depend on totals are computed after the blocks, other tensors outside of the blocks before.

    extent : of the axis of blocks.
    along : the tensors computed block by block, with the position of their block axis.
    axes : the block axis of each statement that runs in blocks.
    totals : tensors that blocks accumulate.
    stored : the temporaries of the blocks.
    late : the tensors computed after the blocks.
    """

    extent: Extent
    along: Mapping[Tensor, int]
    axes: Mapping[Statement, Var]
    totals: Collection[Compute]
    stored: Collection[Tensor]
    late: Collection[Tensor]

    def places(self, sizes: Mapping[Var, int]) -> int:
        """Number of places in a block: the largest for which its temporaries take at most `BLOCK` bytes.

        A number down to half of that is taken instead, if all blocks are then equal.
        """
        n = at_sizes(self.extent, sizes)
        row = sum(prod(at_sizes(m, sizes) for m in t.shape) * t.dtype.itemsize for t in self.stored)
        largest = max(1, min(n, BLOCK * n // max(1, row)))
        equal = [m for m in range(largest, largest // 2, -1) if n % m == 0]
        return equal[0] if equal else -(-n // -(-n // largest))


def in_blocks(program: Program) -> Blocks | None:
    """Plan of blocks along the first possible axis of the largest temporary; None if no axis is possible."""
    largest = max(stored(program), key=bytes_of, default=None)
    if largest is None:
        return None
    candidates = (_along(program, largest, d) for d, n in enumerate(largest.shape) if typical(n) > 1)
    return next((b for b in candidates if b is not None), None)


def _along(program: Program, start: Tensor, d: int) -> Blocks | None:
    """Plan of blocks along axis ``d`` of ``start``, through all that depends on the axis; None if impossible.

    It is None too if blocks avoid less than half of the memory of temporaries.
    """
    n = start.shape[d]
    along: dict[Tensor, int] = {start: d}
    totals: dict[Compute, None] = {}
    between = set(program.temporaries)
    units = [computes_of(u) for u in units_below(program.outputs)]
    before: tuple[int, int] = (0, 0)
    while before != (len(along), len(totals)):
        before = len(along), len(totals)
        for members in units:
            for s in (s for t in members for s in t.statements if _places(s, along)):
                v = _axis_of(s, along, n)
                if v is None or not _join(s, v, n, along, totals, between):
                    return None
    axes = {s: v for m in units for t in m for s in t.statements if (v := _axis_of(s, along, n)) is not None}
    late = _late(units, axes, totals)
    temporaries = stored(program)
    block_temporaries = [t for t in temporaries if t in along]
    if late is None or 2 * sum(map(bytes_of, block_temporaries)) < sum(map(bytes_of, temporaries)):
        return None
    return Blocks(n, along, axes, totals, block_temporaries, late)


def _places(s: Statement, along: Mapping[Tensor, int]) -> set[Expr]:
    """Set of the indices that the statement's write and reads have at the position of the block axis."""
    indices = {r.indices[along[r.tensor]] for r in s.reads if r.tensor in along}
    return indices | ({s.write[along[s.tensor]]} if s.tensor in along else set())


def _axis_of(s: Statement, along: Mapping[Tensor, int], n: Extent) -> Var | None:
    """Block axis of a statement, if its indices at that position are one axis with range n; else None."""
    indices = _places(s, along)
    v = next(iter(indices), None)
    alone = len(indices) == 1 and isinstance(v, Var) and v in s.domain.axes
    return v if alone and isinstance(v, Var) and is_range(v, n) else None


def _join(
    s: Statement,
    v: Var,
    n: Extent,
    along: dict[Tensor, int],
    totals: dict[Compute, None],
    between: Collection[Tensor],
) -> bool:
    """Add a statement's tensor and large operands to ``along`` or ``totals``; False if that is not possible.

    v, n : the block axis of the statement, and its extent.
    between : the temporaries of the program.
    """
    t = s.tensor
    if t not in along:
        positions = [k for k, w in enumerate(s.write) if w is v and same_extent(t.shape[k], n)]
        if positions:
            along[t] = positions[0]
        elif s.combine not in TOTALS or recurrence_of(t) is not None:
            return False
        else:
            totals[t] = None
    for r in s.reads:
        at = index_of(r, v)
        if at is not None and r.tensor in between and bytes_of(r.tensor) > BLOCK:
            along.setdefault(r.tensor, at)
    return not (t in along and t in totals)


def index_of(r: Read, v: Var) -> int | None:
    """Position of axis v among the indices of a read; None if v is none of them, or another contains it."""
    at = [k for k, e in enumerate(r.indices) if v in variables([e])]
    return at[0] if len(at) == 1 and r.indices[at[0]] is v else None


def _late(
    units: Iterable[Sequence[Compute]], inside: Collection[Statement], totals: Collection[Compute]
) -> set[Tensor] | None:
    """Tensors that depend on totals; None if a block reads one, or computes only a part of a tensor.

    inside : the statements that run in blocks.
    """
    late: set[Tensor] = set()
    for members in units:
        in_block = [s in inside for t in members for s in t.statements]
        reads = {r.tensor for t in members for s in t.statements for r in s.reads}
        comes_after = any(t in late or t in totals for t in reads)
        if any(in_block) and (comes_after or not all(in_block)):
            return None
        if comes_after:
            late.update(members)
    return late
