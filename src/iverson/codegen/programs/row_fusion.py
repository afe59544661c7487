"""Row fusion: nests that follow each other over the same rows become one nest, in which each is a phase.

#0(x, t): for i: t[i] = sum_j x[i, j];  #1(x, t, y): for i: for j: y[i, j] = x[i, j] / t[i]
->  #2(x, t, y): for r: #0 for the rows of r; #1 for the rows of r

Its phases are then one loop over blocks of rows (`codegen.schedule.row_tiling`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from iverson.codegen.nests.access_checks import plan
from iverson.codegen.nests.nodes import Buffer, Kernel, with_buffers
from iverson.codegen.programs.nodes import Branch, Nest, Program, Repeat, Step, View, reads_and_writes, uses
from iverson.codegen.schedule import row_tiling
from iverson.codegen.schedule.loop_fusion import fresh


def by_rows(program: Program) -> Program:
    """The program with nests over the same rows fused.

    A temporary of only one nest gets memory for the rows of a block only, if each row is used by its own
    iteration.
    """
    steps = _block(program.steps)
    use_counts = uses(steps)
    steps = _with_rows(steps, {b for b in program.of("temp") if use_counts[b] == 1})
    final_counts = uses(steps)
    return replace(
        program,
        steps=steps,
        buffers=tuple(b for b in program.buffers if final_counts[b] or not use_counts[b]),
    )


def _with_rows(steps: tuple[Step, ...], private: set[Buffer]) -> tuple[Step, ...]:
    """The steps with the role "row" for private outputs of which each row is used by its own iteration.

    private : temporaries that one step touches.
    """
    new_steps: list[Step] = []
    for s in steps:
        if isinstance(s, Repeat):
            s = replace(s, body=_with_rows(s.body, private))
        elif isinstance(s, Branch):
            s = replace(s, then=_with_rows(s.then, private), other=_with_rows(s.other, private))
        elif isinstance(s, Nest):
            views = dict(zip(s.kernel.arguments, s.views, strict=True))
            names = {b.name for b, v in views.items() if b.role == "out" and v.buffer in private and v.whole}
            kernel = row_tiling.with_rows(s.kernel, names)
            argument_names = {b.name for b in kernel.arguments}
            s = Nest(kernel, tuple(v for b, v in views.items() if b.name in argument_names))
        new_steps.append(s)
    return tuple(new_steps)


def _block(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps with each run of nests over the same rows as one nest, also inside of loops and branches."""
    new_steps: list[Step] = []
    run: Nest | None = None  # the nests before as one, its phases apart
    joints: dict[tuple[int, int], Nest | None] = {}  # which, with the steps, hold all that is asked about

    def joint_nest(first: Nest, second: Nest) -> Nest | None:
        key = id(first), id(second)
        if key not in joints:
            joints[key] = _joined(first, second)
        return joints[key]

    def end() -> None:
        if run is not None:
            new_steps.append(
                Nest(replace(run.kernel, phases=tuple(row_tiling.by_rows(run.kernel.phases))), run.views)
            )

    for k, s in enumerate(steps):
        joint = joint_nest(run, s) if run is not None and isinstance(s, Nest) else None
        if joint is None and run is not None and _passes(run, s, steps[k + 1 :], joint_nest):
            new_steps.append(s)
            continue
        if joint is None:
            end()
        if isinstance(s, Nest):
            run = s if joint is None else joint
            continue
        run = None
        if isinstance(s, Repeat):
            s = replace(s, body=_block(s.body))
        elif isinstance(s, Branch):
            s = replace(s, then=_block(s.then), other=_block(s.other))
        new_steps.append(s)
    end()
    return tuple(new_steps)


def _passes(
    run: Nest, step: Step, later: Sequence[Step], joint_nest: Callable[[Nest, Nest], Nest | None]
) -> bool:
    """True if a step may come before the run, which the nest after it continues, and starts no run itself.

    joint_nest : `_joined`, which keeps its answers.
    """
    if not isinstance(step, Nest) or not later or not isinstance(later[0], Nest):
        return False
    if joint_nest(step, later[0]) is not None or joint_nest(run, later[0]) is None:
        return False
    (reads, writes), (reads_of_run, writes_of_run) = reads_and_writes(step), reads_and_writes(run)
    touched = {v.buffer for v in (*reads_of_run, *writes_of_run)}
    outputs = {v.buffer for v in writes_of_run}
    return touched.isdisjoint(v.buffer for v in writes) and outputs.isdisjoint(v.buffer for v in reads)


def _joined(first: Nest, second: Nest) -> Nest | None:
    """One nest of two whose phases would be one loop over rows; None if they would not."""
    phases = (*first.kernel.phases, *second.kernel.phases)
    if len(second.kernel.phases) != 1 or not row_tiling.alike(phases[0], phases[-1]):
        return None
    if set(first.views).isdisjoint(second.views) or _overlap(first, second):
        return None
    # What is reported names a kernel's own buffers.
    if _reports(first.kernel) or _reports(second.kernel):
        return None
    names = dict(zip(first.views, first.kernel.buffers, strict=True))
    names_in_use = {b.name for b in first.kernel.buffers}
    new_names: dict[str, str] = {}
    for b, v in zip(second.kernel.buffers, second.views, strict=True):
        before = names.get(v)
        if before is None:
            before = replace(b, name=fresh(b.name, names_in_use))
        elif before.role not in (b.role, "out"):
            before = replace(before, role="inout")
        names[v], new_names[b.name] = before, before.name
    buffers = {b.name: b for b in names.values()}
    of_second = {n: buffers[name] for n, name in new_names.items()}
    *earlier, last = phases
    last, rows = with_buffers(last, of_second), _rows(first.kernel)
    if rows is None or not rows.fits(new := row_tiling.Rows((last,))):
        return None
    of_both = (*(with_buffers(p, buffers) for p in earlier), last)
    kernel = Kernel(first.kernel.name, tuple(buffers.values()), of_both)
    kernel.once["reports"] = False
    kernel.once["rows"] = rows.and_then(new)
    return Nest(kernel, tuple(names))


def _rows(kernel: Kernel) -> row_tiling.Rows | None:
    """The phases of a kernel as those of one loop over rows; None if they are not."""
    if "rows" not in kernel.once:
        group: row_tiling.Rows | None = row_tiling.Rows(kernel.phases[:1])
        for p in kernel.phases[1:]:
            new = row_tiling.Rows((p,))
            group = group.and_then(new) if group and group.fits(new) else None
        kernel.once["rows"] = group
    rows: row_tiling.Rows | None = kernel.once["rows"]
    return rows


def _reports(kernel: Kernel) -> bool:
    if "reports" not in kernel.once:
        kernel.once["reports"] = bool(plan(kernel).reported)
    return bool(kernel.once["reports"])


def _overlap(first: Nest, second: Nest) -> bool:
    """True if one of two nests writes a buffer that they see through different views.

    True as well if one of them has a view twice.
    """
    views: dict[Buffer, set[View]] = {}
    for v in (*first.views, *second.views):
        views.setdefault(v.buffer, set()).add(v)
    written_buffers = {v.buffer for s in (first, second) for v in reads_and_writes(s)[1]}
    twice = any(len(set(s.views)) < len(s.views) for s in (first, second))
    return twice or any(v.overlaps(w) for b in written_buffers for v, w in combinations(views[b], 2))


__all__ = ["by_rows"]
