"""Lowering of statements to compiled code: inlining, then a loop nest or a matrix product for each statement.

A program's statements become steps (`iverson.te.lowering.lowered_program`) in order.
`iverson.codegen.schedule.loop_schedule` chooses the order and marks of loops; where elimination found a walk,
its loops are kept. `iverson.te.ir.interpret` is the oracle of all of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.codegen.nests import nodes
from iverson.codegen.nests.nodes import Buffer, Kernel, Stmt
from iverson.codegen.nests.task import Task
from iverson.codegen.schedule import blas_contraction
from iverson.codegen.schedule.axis_collapsing import flattened
from iverson.codegen.schedule.epilogues import finished
from iverson.codegen.schedule.loop_fusion import fuse, shapes_in, without
from iverson.codegen.schedule.row_tiling import by_rows, with_rows
from iverson.core.python.recent_items import RecentItems
from iverson.expr.nodes import subexpressions
from iverson.te.elimination.extremum_positions import covers_all, starts_whole, together
from iverson.te.elimination.guarded_boxes import as_box, merged, whole_first
from iverson.te.elimination.nest_translation import Sizes, buffer_for, compiles, phases_of, task_of
from iverson.te.ir import interpret
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.half_rounding import in_single
from iverson.te.ir.index_arithmetic import same_extent
from iverson.te.ir.nodes import Program, Recurrence, Statement, recurrence_of, step_axes
from iverson.te.ir.ragged_axes import is_ragged
from iverson.te.lowering.box_products import BoxProducts, in_boxes, without_conditions
from iverson.te.lowering.lowered_program import (
    Fill,
    Interpreted,
    Lowered,
    Run,
    SomeProduct,
    Step,
    task_at,
    touched_by,
)
from iverson.te.lowering.recurrence_nests import phase_of
from iverson.te.lowering.ring_buffers import rings, with_slices
from iverson.te.rewrites.fold_chunks import chunked
from iverson.te.rewrites.formulas import with_formulas
from iverson.te.rewrites.inlining import accumulated, inline, made_in_place

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array = np.ndarray[Any, Any]


# --- entry ------------------------------------------------------------------------------------------

_lowered: RecentItems[str, Lowered] = RecentItems(2048)


def lower(program: Program) -> Lowered:
    """Compile a program, or take the code of an equal program from the cache."""
    key = program.key()
    cached_code = _lowered.find(key)
    if cached_code is not None:
        return cached_code.said_as(program)
    return _lowered.keep(key, afresh(program))


def afresh(program: Program) -> Lowered:
    """Compile a program without the cache: all tensors and names in the code are those of this program."""
    return _Lowering(program).run()


def forget() -> None:
    """Clear the cache of compiled programs."""
    _lowered.clear()


def nests(program: Program) -> Lowered:
    """A bound program as loop nests over separate buffers, not compiled yet."""
    return _Lowering(program, alone=False).run()


def run(program: Program, inputs: Sequence[ArrayLike]) -> tuple[Array, ...]:
    """Outputs of a program, as of `interpret.run`, by compiled code."""
    return lower(program)(*inputs)


# --- lowering ---------------------------------------------------------------------------------------


class _Lowering:
    """Lowering of one program: its buffers, and the steps so far.

    alone : False if the program is part of a larger one. Otherwise temporaries share buffers, and BLAS
        computes matrix products.
    """

    def __init__(self, program: Program, *, alone: bool = True) -> None:
        program = with_formulas(in_single(program))
        self.program, self.alone = program, alone
        self.sizes = Sizes(program.sizes)
        self.typical = {v: v.typical for v in program.sizes}
        merged_statements = merged(accumulated(tuple(chunked(inline(program))), program.outputs))
        boxes, self.is_output = made_in_place(
            whole_first([as_box(s) for s in merged_statements]), program.outputs
        )
        lasting = {*program.outputs, *self.is_output, *self.is_output.values()}
        self.statements, self.extrema = together(with_slices(boxes, lasting))
        self.readers: defaultdict[Tensor, list[Statement]] = defaultdict(list)
        for s in self.statements:
            for t in _read(s):
                self.readers[t].append(s)
        self.buffers: dict[Tensor, Buffer] = {}
        for t in (*program.inputs, *program.outputs):
            self._buffer(t)
        self.buffers |= {t: _also(t, self._buffer(output)) for t, output in self.is_output.items()}
        self.rings = rings(self.statements, lasting)
        for t, ring in self.rings.items():
            buffer = buffer_for(t, len(self.buffers), self.sizes)
            shape = tuple(ring.length if k == ring.place else n for k, n in enumerate(buffer.shape))
            self.buffers[t] = replace(buffer, shape=shape, turns=buffer.shape[ring.place])
        if alone:
            self._share()
        self.steps: list[Step] = []
        self.phases: list[Stmt] = []
        #: How many statements have their phases.
        self.done = 0
        #: The tensor of which the last phase stores every entry once.
        self.whole: Tensor | None = None
        self.scratch: dict[str, Buffer] = {}

        for s in self.statements:
            for t in self._written(s):
                self._buffer(t)

    def _buffer(self, t: Tensor) -> Buffer:
        if t not in self.buffers:
            self.buffers[t] = buffer_for(t, len(self.buffers), self.sizes)
        return self.buffers[t]

    def _share(self) -> None:
        """Assign buffers to temporaries; one that is no longer read serves the next temporary of its kind.

        Indices (integers) keep buffers of their own: their values are checked before a kernel runs.
        """
        last: dict[Tensor, int] = {}
        groups = [(r, tuple(group)) for r, group in groupby(self.statements, key=_unit)]
        for k, (_, group) in enumerate(groups):
            for s in group:
                last |= dict.fromkeys((*self._written(s), *_read(s)), k)
        ending: dict[int, list[Tensor]] = {}
        for t, k in last.items():
            ending.setdefault(k, []).append(t)
        lent = set(self.buffers)
        free: list[Tensor] = []
        for k, (_, group) in enumerate(groups):
            for new in [t for s in group for t in self._written(s)]:
                if new in self.buffers:
                    continue
                old = next((t for t in free if _alike(t, new)), None)
                if old is not None:
                    free.remove(old)
                    self.buffers[new] = _also(new, self.buffers[old])
                self._buffer(new)
            released = [t for t in ending.get(k, ()) if t not in lent]
            free += [t for t in released if t.dtype.kind == "f"]

    def _written(self, s: Statement) -> tuple[Tensor, ...]:
        extremum = self.extrema.get(s.tensor)
        return (s.tensor,) if extremum is None else (s.tensor, extremum)

    def run(self) -> Lowered:
        """Lower all statements, and return the program in compiled form."""
        started: set[Tensor] = set()
        for recurrence, group in groupby(self.statements, key=lambda s: recurrence_of(s.tensor)):
            statements = tuple(group)
            if recurrence is not None:
                started.update(recurrence.members)
                self._recurrence(recurrence, statements)
                self.done += len(statements)
                continue
            for s in statements:
                fresh = s.tensor not in started
                started.update(self._written(s))
                self._statement(s, fresh)
                self.done += 1
        self._flush()
        started.update(output for t, output in self.is_output.items() if t in started)
        for t in self.program.outputs:
            if t not in started and t not in self.program.inputs:
                self.steps.insert(0, Fill(self.buffers[t].name, 0, t.name))
        scratch = tuple(self.scratch.values())
        steps = tuple(self._by_rows() if self.alone else self.steps)
        return Lowered(self.program, steps, self.buffers, scratch, self.sizes)

    def _by_rows(self) -> list[Step]:
        """The steps; temporaries that one kernel uses row by row get memory for the current rows only."""
        touched = Counter(n for s in self.steps for n in touched_by(s, self.buffers))
        lasting = {self.buffers[t].name for t in (*self.program.inputs, *self.program.outputs)}
        row_names = {n for n, count in touched.items() if count == 1} - lasting
        return [Run(with_rows(s.kernel, row_names)) if isinstance(s, Run) else s for s in self.steps]

    def _flush(self) -> None:
        """Add a kernel of all phases so far to the steps; one for each phase, if the program is not alone."""
        unread = self._unread()
        phases, self.phases = [without(p, unread) if unread else p for p in self.phases], []
        for group in [by_rows(phases)] if self.alone else [[p] for p in phases]:
            if group:
                self.steps.append(Run(self._kernel(group)))

    def _kernel(self, phases: Sequence[Stmt]) -> Kernel:
        """Kernel of the phases; buffers that stand for no tensor are noted in `scratch`."""
        buffers: dict[str, Buffer] = {}
        stored_names: set[str] = set()
        sizes: set[str] = set()
        for s in nodes.statements(tuple(phases)):
            if isinstance(s, nodes.Store):
                stored_names.add(s.buffer.name)
                buffers[s.buffer.name] = s.buffer
            for e in nodes.expressions(s):
                for x in subexpressions(e):
                    if isinstance(x, nodes.Load):
                        buffers[x.buffer.name] = x.buffer
                    elif isinstance(x, nodes.Size):
                        sizes.add(x.name)
        sizes.update(n for b in buffers.values() for n in b.shape if isinstance(n, str))
        known_names = {b.name for b in self.buffers.values()}
        self.scratch |= {n: b for n, b in buffers.items() if n not in known_names}
        final = {n: replace(b, role="inout" if n in stored_names else "in") for n, b in buffers.items()}
        kernel_phases = tuple(nodes.with_buffers(p, final) for p in phases)
        return Kernel("te", tuple(final.values()), kernel_phases, tuple(sorted(sizes)))

    def _unread(self) -> set[str]:
        """Names of temporaries' buffers that are stored and never loaded: readers use the values directly."""
        stored_names: set[str] = set()
        loaded_names: set[str] = set()
        for s in nodes.statements(tuple(self.phases)):
            if isinstance(s, nodes.Store):
                stored_names.add(s.buffer.name)
            for e in nodes.expressions(s):
                loaded_names.update(x.buffer.name for x in subexpressions(e) if isinstance(x, nodes.Load))
        waiting = {t for s in self.statements[self.done :] for t in _read(s)}
        passing = set(self.program.temporaries)
        lasting_names = {b.name for t, b in self.buffers.items() if t in waiting or t not in passing}
        return stored_names - loaded_names - lasting_names

    def _finished(self, s: Statement, task: Task) -> bool:
        """Let the last phase store the values of this statement, if possible; True if it does.

        The statement must be the only reader of the tensor that the phase stores, which is then not stored.
        """
        if not self.phases or self.whole is None or self.whole in self.is_output or task.whole is not None:
            return False
        if self.whole in self.program.outputs:
            return False
        readers = self.readers[self.whole]
        if len(readers) != 1 or readers[0] is not s or not covers_all(s):
            return False
        phase = finished(self.phases[-1], self.buffers[self.whole], task)
        if phase is None:
            return False
        self.phases[-1] = phase
        self.whole = s.tensor
        return True

    def _product(self, task: Task) -> blas_contraction.Product | SomeProduct | None:
        """Product of BLAS for a task, if it is one at the bound sizes, or else at typical sizes.

        Otherwise the result is None.
        """
        if not self.program.sizes:
            return blas_contraction.product(task)
        typical_product = blas_contraction.product(task_at(task, self.sizes.at(self.typical)))
        return None if typical_product is None else SomeProduct(task)

    def _boxes(self, s: Statement) -> BoxProducts | None:
        """Statement as products of boxes and loops outside of these, if that is faster than loops alone."""
        if not self.alone or self.program.sizes or not s.domain.where or is_ragged(s) or not compiles(s):
            return None
        return in_boxes(s, task_of(without_conditions(s), self.buffers, False, self.sizes))

    def _recurrence(self, recurrence: Recurrence, statements: tuple[Statement, ...]) -> None:
        """Add a phase with the loop over the steps; what does not compile is left to the interpreter."""
        native = all(map(compiles, statements))
        first = {s.tensor: s for s in reversed(statements)}
        parts = {s.tensor for s in statements if not {*step_axes(s.tensor)} <= {*s.write}}
        parts.update(recurrence.totals)
        fresh = {t for t, s in first.items() if native and t not in parts and starts_whole(s)}
        for t, s in first.items():
            if t not in fresh and t not in self.is_output.values():
                self._fill(s)
        if native:
            phase = phase_of(recurrence, statements, self.buffers, self.sizes, fresh, self.rings)
            self.phases.append(phase)
            self.whole = None
        else:
            self._flush()
            self.steps.append(Interpreted(statements))

    def _fill(self, s: Statement) -> None:
        """Add the step that fills a tensor before its first statement: before the phases, if it may be."""
        out = self.buffers[s.tensor]
        if any(out.name in shapes_in(phase) for phase in self.phases):
            self._flush()
        self.steps.append(Fill(out.name, interpret.start(s.combine, s.tensor.dtype), out.label))

    def _statement(self, s: Statement, fresh: bool) -> None:
        """Add the steps or phases of one statement.

        fresh : True if no statement wrote its tensor before.
        """
        out = self.buffers[s.tensor]
        if (boxes := self._boxes(s)) is not None:
            if fresh:
                self._flush()
                self.steps.append(Fill(out.name, interpret.start(s.combine, s.tensor.dtype), out.label))
            for part in boxes.outside:
                self._statement(part, False)
            self._flush()
            self.steps += boxes.products
            return
        covers = fresh and covers_all(s)
        s = self.rings.statement(s)
        task = task_of(s, self.buffers, covers, self.sizes) if compiles(s) else None
        if task is not None and s.tensor in self.extrema:
            task = replace(task, best=self.buffers[self.extrema[s.tensor]])
        if fresh and not covers:
            self._fill(s)
        if task is None:
            self._flush()
            if covers:
                self.steps.append(Fill(out.name, interpret.start(s.combine, s.tensor.dtype), out.label))
            self.steps.append(Interpreted((s,)))
            return
        flat = task if self.alone or s.walk is not None else flattened(task)
        if self._finished(s, flat) or (flat is not task and self._finished(s, task)):
            return
        product = self._product(task) if self.alone and s.walk is None else None
        if product is not None:
            self._flush()
            self.steps.append(product)
        else:
            phases = phases_of(s, flat, self.buffers)
            for phase in phases:
                self.phases = fuse(self.phases, phase)
            self.whole = s.tensor if covers and len(phases) == 1 else None


def _unit(s: Statement) -> object:
    """Unit of execution: the recurrence of a statement, or the statement itself."""
    return recurrence_of(s.tensor) or s


def _also(t: Tensor, b: Buffer) -> Buffer:
    """The buffer ``b`` with the name of ``t`` as its label."""
    return replace(b, label=t.name)


def _alike(a: Tensor, b: Tensor) -> bool:
    """True if two tensors may have one buffer, one after the other."""
    pairs = zip(a.shape, b.shape, strict=False)
    return a.dtype == b.dtype and a.ndim == b.ndim and all(same_extent(m, n) for m, n in pairs)


def _read(s: Statement) -> dict[Tensor, None]:
    """Tensors that a statement reads, as the keys of a dictionary, in order."""
    return {r.tensor: None for r in s.reads}
