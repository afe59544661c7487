"""Sparse Jacobians from few passes, where zeros are known (`dependence`).

Columns that share no row are found by one pushforward, from the sum of their unit vectors; rows that share no
column by one pullback (`grouping`). Rows that may depend on anything are pulled back one by one in either
case: a Jacobian with a few of them is found by both modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iverson.array_api.entries.joining import concat
from iverson.array_api.sparse_arrays.patterns import coo_pattern
from iverson.array_api.sparse_arrays.sparse_construction import made_on, to_layout
from iverson.core import dtypes
from iverson.core.dispatch import Handle, make_handle
from iverson.core.python.recent_items import RecentItems
from iverson.core.shapes import Shape
from iverson.layouts import CooPattern
from iverson.ops import F
from iverson.transforms.jacobians.dependence import Dependence, dependences, structure
from iverson.transforms.jacobians.grouping import group_numbers
from iverson.transforms.jacobians.unit_vector_passes import Line, Seeds, pulled, pushed

if TYPE_CHECKING:
    from iverson.handles.tensor import Tensor

Numbers = NDArray[np.int64]
#: Of fewer rows or columns than this, each gets a pass of its own.
FEW = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """Passes that give all blocks of a Jacobian.

    rows, columns : positions of the entries that may be nonzero, outside of the rows that are alone.
    numbers : the number of the group of each column or row.
    forward : True for groups of columns, each a pushforward; False for groups of rows, each a pullback.
    alone : rows that are pulled back one by one.
    alone_rows, alone_columns : positions of the entries that may be nonzero in these rows.
    places : by block and shapes, where its entries come from; filled as blocks are asked for.
    """

    rows: Numbers
    columns: Numbers
    numbers: Numbers
    forward: bool
    alone: Numbers
    alone_rows: Numbers
    alone_columns: Numbers
    places: dict[Any, Places] = field(default_factory=dict, compare=False)

    @property
    def count(self) -> int:
        """The number of groups."""
        return int(self.numbers.max(initial=-1)) + 1

    @property
    def size(self) -> int:
        """The number of entries that may be nonzero."""
        return self.rows.size + self.alone_rows.size


def plan(line: Line, mode: str, is_sparse: bool = False) -> Plan | None:
    """`Plan` of the passes for the Jacobian of a recorded function; None if sparsity saves nothing.

    mode : "forward" or "reverse" for passes of this kind only, or "auto".
    is_sparse : True if the result is to store only entries that may be nonzero: a plan is then made even if
        it saves no passes.
    """
    m, n = (sum(x.size for x in handles) for handles in (line.outputs, line.inputs))
    if min(m, n) < FEW and not is_sparse:
        return None
    if _is_mixed(line.inputs) or _is_mixed(line.outputs):  # a group is of columns, or rows, of one kind
        return None
    key = mode, is_sparse, line.outer, structure(line.variables, line.outputs)
    if (entry := _plans.find(key)) is not None:
        return entry[0]
    widest = None if is_sparse else n // SHARE  # a pass for each of them saves as much
    output_dependences = dependences(line.variables, line.outputs, line.outer, widest=widest)
    passes = _made(output_dependences, mode, m, n, is_sparse)
    if key[3] is not None:
        _plans.keep(key, (passes,))
    return passes


def _is_mixed(handles: Sequence[Tensor]) -> bool:
    """True if some handles are complex and others are not."""
    return len({x.dtype.kind == "c" for x in handles}) > 1


#: How many plans are kept at most, and how many entries they list together, each of some 60 bytes.
MANY, LARGEST = 32, 1 << 20
#: The latest plans: a function is differentiated at many points.
_plans: RecentItems[Any, tuple[Plan | None]] = RecentItems(MANY, lambda x: x[0].size if x[0] else 0, LARGEST)
#: Where zeros only save passes, the share of all columns from which a row gets a pass of its own.
SHARE = 8
#: How many places are listed to find groups, those of shorter rows filled up.
WIDEST = 1 << 24


def _made(
    output_dependences: Sequence[Dependence], mode: str, m: int, n: int, is_sparse: bool
) -> Plan | None:
    """`Plan` for a function from n numbers to m numbers, from the dependence of each result; None if it saves
    little.
    """
    if all(d.everywhere for d in output_dependences):
        return None
    wide = np.concatenate([d.wide for d in output_dependences])
    rows, columns = _pairs(output_dependences)
    best: tuple[Numbers, bool, NDArray[np.bool_]] | None = None
    if mode != "reverse":
        alone = wide if mode == "forward" else wide | _long(rows, m)
        if mode == "auto" or not wide.any():
            grouped = ~alone[rows]
            numbers = _groups(rows[grouped], columns[grouped], m, n)
            best = None if numbers is None else (numbers, True, alone)
    if mode != "forward":
        numbers = _groups(columns, rows, n, m)
        other = None if numbers is None else (numbers, False, wide)
        best = min((p for p in (best, other) if p), key=_passes, default=None)
    plain_count = {"forward": n, "reverse": m}.get(mode, min(m, n))
    if not is_sparse and (best is None or 2 * _passes(best) > plain_count):
        return None
    if best is None:  # a pass for each row, or each column
        forward = mode == "forward"
        best = np.arange(n if forward else m), forward, np.zeros(m, bool)
    numbers, forward, alone = best
    every = np.flatnonzero(wide)
    rows = np.append(rows, np.repeat(every, n))
    columns = np.append(columns, np.tile(np.arange(n), every.size))
    of_alone = alone[rows]
    return Plan(
        rows[~of_alone],
        columns[~of_alone],
        numbers,
        forward,
        np.flatnonzero(alone),
        rows[of_alone],
        columns[of_alone],
    )


def _passes(groups: tuple[Numbers, bool, NDArray[np.bool_]]) -> int:
    """Number of passes of a candidate plan: one for each group and one for each row that is alone.

    groups : group numbers, True for forward mode, and a boolean for each row: True if it is alone.
    """
    numbers, _, alone = groups
    return int(numbers.max(initial=-1)) + 1 + int(alone.sum())


def _long(rows: Numbers, m: int) -> NDArray[np.bool_]:
    """Boolean for each of ``m`` rows: True for the longest rows, which get a pass of their own.

    There are so many of them that their number plus the length of the longest remaining row is least.
    rows : the row of each entry that may be nonzero.
    """
    lengths = np.bincount(rows, minlength=m)
    order = np.argsort(-lengths, kind="stable")
    count = int(np.argmin(np.arange(m + 1) + np.append(lengths[order], 0)))
    longest = np.zeros(m, bool)
    longest[order[:count]] = True
    return longest


def _pairs(output_dependences: Sequence[Dependence]) -> tuple[Numbers, Numbers]:
    """Rows and columns, in the whole Jacobian, of the entries that may be nonzero, without those of wide
    rows.

    The entries are in row-major order.
    """
    starts = np.cumsum([0, *(d.matrix.shape[0] for d in output_dependences)])
    pairs = [d.pairs for d in output_dependences]
    rows = np.concatenate(
        [row_numbers + start for (row_numbers, _), start in zip(pairs, starts, strict=False)]
    )
    return rows, np.concatenate([columns for _, columns in pairs])


def _groups(rows: Numbers, columns: Numbers, m: int, n: int) -> Numbers | None:
    """Number of the group of each of n columns, from the positions of entries in m rows; None if little is
    saved.
    """
    width = int(np.bincount(rows, minlength=1).max())
    if 2 * width > n or m * width > WIDEST:
        return None
    return group_numbers(_listed(rows, columns, m, width), n)


def _listed(rows: Numbers, columns: Numbers, count: int, width: int) -> Numbers:
    """Array with a line for each of ``count`` rows: its columns, ascending, with -1 in front up to
    ``width``.
    """
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    counts = np.bincount(rows, minlength=count)
    ends = np.cumsum(counts)
    at = np.full((count, width), -1)
    at[rows, width - ends[rows] + np.arange(rows.size)] = columns
    return at


#: Some entries of a block: rows, columns, and values of shape (count,).
Entries = tuple[Numbers, Numbers, Any]


class Places(NamedTuple):
    """Sources of the entries of a block: some come from the passes of groups, some from rows that are alone.

    passes, at : for both of these, the pass that gives an entry, and the entry's position in its result.
    rows, columns : the entry's position in the block, where that is strided.
    order : the places of the entries of ``pattern`` among all of these; None where they are the same.
    pattern : of the block, where its layout is sparse.
    """

    passes: tuple[Numbers, ...]
    at: tuple[Numbers, ...]
    rows: tuple[Numbers, ...] = ()
    columns: tuple[Numbers, ...] = ()
    order: Numbers | None = None
    pattern: CooPattern | None = None


def blocks(line: Line, plan: Plan, chunk_size: int | None, layout: str = "strided") -> list[list[Any]]:
    """Blocks of the Jacobian: for each output, a list with the block of each input.

    A block in a sparse ``layout`` stores exactly the entries that the plan lists.
    """
    starts = [np.cumsum([0, *(x.size for x in handles)]) for handles in (line.outputs, line.inputs)]
    if plan.forward:
        seeds = _grouped(line.inputs, starts[1], plan.numbers, plan.count)
        pass_results = pushed(line, seeds, chunk_size, _any_complex(line.inputs))
    else:
        seeds = _grouped(line.outputs, starts[0], plan.numbers, plan.count, plan.alone)
        pass_results = pulled(line, seeds, chunk_size, _any_complex(line.outputs))
    alone: list[Any] = []
    numbers = np.full(int(starts[0][-1]), -1)
    if plan.alone.size:
        numbers[plan.alone] = np.arange(plan.alone.size)
        seeds = _grouped(line.outputs, starts[0], numbers, plan.alone.size)
        alone = pulled(line, seeds, chunk_size, _any_complex(line.outputs))
    block_rows = []
    is_strided = layout == "strided"
    for o, y in enumerate(line.outputs):
        row = []
        for k, x in enumerate(line.inputs):
            key = o, k, y.shape, x.shape, is_strided
            if (places := plan.places.get(key)) is None:
                block = _Block(*((int(s[i]), int(s[i + 1])) for s, i in zip(starts, (o, k), strict=True)))
                sources = [block.entries(plan.rows, plan.columns, plan.numbers, plan.forward)]
                if alone:
                    sources.append(block.entries(plan.alone_rows, plan.alone_columns, numbers, False))
                places = plan.places[key] = _places(sources, y.shape, x.shape, is_strided)
            results = [pass_results[o if plan.forward else k], *([alone[k]] if alone else [])]
            flat = (F.reshape(r, shape=(r.shape[0], prod(r.shape[1:]))) for r in results)
            values = [
                F.gather(r, passes, at, axes=(0, 1))
                for r, passes, at in zip(flat, places.passes, places.at, strict=True)
            ]
            if places.pattern is None:
                row.append(_added([*zip(places.rows, places.columns, values, strict=True)], y, x))
                continue
            entries = concat(values) if len(values) > 1 else values[0]
            entries = entries if places.order is None else F.gather(entries, places.order, axes=(0,))
            row.append(to_layout(made_on(entries, places.pattern, None, False, "jacobian"), layout))
        block_rows.append(row)
    return block_rows


def _places(
    entries: Sequence[tuple[Numbers, Numbers, Numbers, Numbers]], of_y: Shape, of_x: Shape, is_strided: bool
) -> Places:
    """`Places` of a block, from the rows, columns, passes and positions in results of its entries.

    of_y, of_x : the shapes of the output and of the input.
    """
    rows, columns, passes, at = zip(*entries, strict=True)
    if is_strided:
        return Places(passes, at, rows, columns)
    all_rows, all_columns = np.concatenate(rows), np.concatenate(columns)
    order = np.lexsort((all_columns, all_rows))
    pattern = _pattern(all_rows[order], all_columns[order], of_y, of_x)
    if len(entries) == 1:
        return Places((passes[0][order],), (at[0][order],), pattern=pattern)
    return Places(passes, at, order=order, pattern=pattern)


def _pattern(rows: Numbers, columns: Numbers, of_y: Shape, of_x: Shape) -> CooPattern:
    """The pattern of a block, from the positions of its entries in row-major order."""
    axes = [(rows, of_y), (columns, of_x)]
    indices = [i for places, shape in axes if shape for i in np.unravel_index(places, shape)]
    return coo_pattern(np.stack(indices), rows.shape, of_y + of_x, True, "jacobian")


def stored_whole(block: Handle, y: Tensor, x: Tensor, layout: str) -> Any:
    """The dense ``block`` of output ``y`` and input ``x`` in a sparse layout that stores all of its
    entries.
    """
    rows, columns = (a.ravel() for a in np.indices((y.size, x.size)))
    values = F.reshape(block, shape=(y.size * x.size,))
    pattern = _pattern(rows, columns, y.shape, x.shape)
    return to_layout(made_on(values, pattern, None, False, "jacobian"), layout)


def _added(terms: Sequence[Entries], y: Tensor, x: Tensor) -> Any:
    """A strided block, from the rows, columns and values of some of its entries."""
    shape = y.size, x.size
    dtype = dtypes.result_type(y.dtype, x.dtype, *(v.dtype for *_, v in terms))
    parts = [
        F.scatter_add(v, rows, columns, axes=(0, 1), shape=shape) for rows, columns, v in terms if v.size
    ]
    block = F.add_n(*parts) if len(parts) > 1 else parts[0] if parts else F.zero(shape, dtype)
    if block.dtype != dtype:
        block = F.astype(block, dtype=dtype)
    return F.reshape(block, shape=y.shape + x.shape)


def _any_complex(handles: Sequence[Tensor]) -> bool:
    return any(x.dtype.kind == "c" for x in handles)


def _grouped(
    handles: Sequence[Tensor], starts: Numbers, numbers: Numbers, count: int, without: Numbers | None = None
) -> Seeds:
    """Seeds for one pass for each of ``count`` groups: the sum of the unit vectors of the group's entries.

    starts : for each handle, the number of its first entry among the entries of all handles.
    numbers : the group of each entry; -1 for none. without : entries that are in no group.
    """
    if without is not None and without.size:
        numbers = numbers.copy()
        numbers[without] = -1

    def of(start: int, stop: int, weight: complex) -> list[Any]:
        seeds = []
        for x, first in zip(handles, starts, strict=False):
            group_of_entry = numbers[first : first + x.size]
            dense = np.zeros((stop - start, x.size), x.dtype)
            at = np.flatnonzero((group_of_entry >= start) & (group_of_entry < stop))
            dense[group_of_entry[at] - start, at] = weight
            seeds.append(make_handle(dense.reshape(stop - start, *x.shape)) if at.size else None)
        return seeds

    return Seeds(count, of)


class _Block(NamedTuple):
    """Place of a block in the whole Jacobian: the first row and the end of its rows, and the same for
    columns.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]

    def entries(
        self, rows: Numbers, columns: Numbers, numbers: Numbers, forward: bool
    ) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Listed entries that are in this block: their rows and columns in the block, the passes that give
        them, and their positions in the results of these.

        rows, columns : positions of the listed entries in the whole Jacobian.
        numbers : the pass that gives each column (if ``forward``) or each row.
        """
        (top, bottom), (first, last) = self
        inside = (rows >= top) & (rows < bottom) & (columns >= first) & (columns < last)
        rows, columns = rows[inside], columns[inside]
        passes = numbers[columns if forward else rows]
        rows, columns = rows - top, columns - first
        return rows, columns, passes, rows if forward else columns


__all__ = ["Places", "Plan", "blocks", "plan", "stored_whole"]
