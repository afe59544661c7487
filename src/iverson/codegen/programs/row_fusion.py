"""Row fusion: nests that follow each other over the same rows become one nest, in which each is a phase.

#0(x, t): for i: t[i] = sum_j x[i, j];  #1(x, t, y): for i: for j: y[i, j] = x[i, j] / t[i]
->  #2(x, t, y): for r: #0 for the rows of r; #1 for the rows of r

Its phases are then one loop over blocks of rows (`codegen.schedule.row_tiling`).
"""

from __future__ import annotations

from dataclasses import replace

from iverson.codegen.nests.access_checks import plan
from iverson.codegen.nests.nodes import Buffer, Kernel, with_buffers
from iverson.codegen.programs.nodes import Branch, Nest, Program, Repeat, Step, View, reads_and_writes, uses
from iverson.codegen.schedule import row_tiling
from iverson.codegen.schedule.loop_fusion import fresh


def by_rows(program: Program) -> Program:
    """The program with such nests as one, and what only one of them touches by rows held by rows."""
    steps = _block(program.steps)
    used = uses(steps)
    steps = _held(steps, {b for b in program.of("temp") if used[b] == 1})
    left = uses(steps)
    return replace(program, steps=steps, buffers=tuple(b for b in program.buffers if left[b] or not used[b]))


def _held(steps: tuple[Step, ...], own: set[Buffer]) -> tuple[Step, ...]:
    """own : temporaries that one step touches."""
    found: list[Step] = []
    for s in steps:
        if isinstance(s, Repeat):
            s = replace(s, body=_held(s.body, own))
        elif isinstance(s, Branch):
            s = replace(s, then=_held(s.then, own), other=_held(s.other, own))
        elif isinstance(s, Nest):
            views = dict(zip(s.kernel.buffers, s.views, strict=True))
            names = {b.name for b, v in views.items() if b.role == "out" and v.buffer in own and v.whole}
            kernel = row_tiling.with_rows(s.kernel, names)
            kept = {b.name for b in kernel.arguments}
            s = Nest(kernel, tuple(v for b, v in views.items() if b.name in kept))
        found.append(s)
    return tuple(found)


def _block(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    found: list[Step] = []
    run: Nest | None = None  # the nests before as one, its phases apart

    def end() -> None:
        if run is not None:
            found.append(
                Nest(replace(run.kernel, phases=tuple(row_tiling.by_rows(run.kernel.phases))), run.views)
            )

    for s in steps:
        both = _joined(run, s) if run is not None and isinstance(s, Nest) else None
        if both is None:
            end()
        if isinstance(s, Nest):
            run = s if both is None else both
            continue
        run = None
        if isinstance(s, Repeat):
            s = replace(s, body=_block(s.body))
        elif isinstance(s, Branch):
            s = replace(s, then=_block(s.then), other=_block(s.other))
        found.append(s)
    end()
    return tuple(found)


def _joined(first: Nest, second: Nest) -> Nest | None:
    """Phases of two nests that make one loop, in one nest; None where they do not."""
    phases = (*first.kernel.phases, *second.kernel.phases)
    if len(second.kernel.phases) != 1 or not row_tiling.alike(phases[0], phases[-1]):
        return None
    if set(first.views).isdisjoint(second.views) or _overlap(first, second):
        return None
    # What is reported names a kernel's own buffers.
    if _reports(first.kernel) or _reports(second.kernel):
        return None
    names = dict(zip(first.views, first.kernel.buffers, strict=True))
    taken = {b.name for b in first.kernel.buffers}
    own: dict[str, str] = {}
    for b, v in zip(second.kernel.buffers, second.views, strict=True):
        before = names.get(v)
        if before is None:
            before = replace(b, name=fresh(b.name, taken))
        elif before.role not in (b.role, "out"):
            before = replace(before, role="inout")
        names[v], own[b.name] = before, before.name
    made = {b.name: b for b in names.values()}
    of_second = {n: made[name] for n, name in own.items()}
    *given, last = phases
    given = [*(with_buffers(p, made) for p in given), with_buffers(last, of_second)]
    if len(row_tiling.by_rows(given)) > 1:
        return None
    joined = Kernel(first.kernel.name, tuple(made.values()), tuple(given))
    joined.once["reports"] = False
    return Nest(joined, tuple(names))


def _reports(kernel: Kernel) -> bool:
    if "reports" not in kernel.once:
        kernel.once["reports"] = bool(plan(kernel, careful=True).reported)
    return bool(kernel.once["reports"])


def _overlap(first: Nest, second: Nest) -> bool:
    """Whether a buffer that one of them writes is seen in two ways."""
    views: dict[Buffer, set[View]] = {}
    for v in (*first.views, *second.views):
        views.setdefault(v.buffer, set()).add(v)
    written = {v.buffer for s in (first, second) for v in reads_and_writes(s)[1]}
    twice = any(len(set(s.views)) < len(s.views) for s in (first, second))
    return twice or any(len(views[b]) > 1 for b in written)


__all__ = ["by_rows"]
