"""Text of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from iverson.core.counting.cost import Cost
from iverson.explain.model import Found, Piece, Step

_HEAD = f"{'products':>10}{'multiply-adds':>16}{'entries':>14}{'bytes':>14}"


def as_text(account: Found, *, steps: bool = False) -> str:
    """Text of a report: the sums, and the work by line of the user's source.

    steps : whether each step and each piece of avoided work follows. They do where no line is known.
    """
    took = "" if account.seconds is None else f", a call takes {account.seconds * 1e6:,.0f} us"
    lines = [f"{account.name}: {_counted(len(account.steps), 'step')}{took}", f"{'':<14}{_HEAD}"]
    lines.append(f"{'done':<14}{_numbers(account.done)}")
    if account.compiling:
        lines.append(f"{'compiling':<14}{_numbers(account.compiling)}")
    avoided = account.avoided()
    lines.append(f"{'avoided':<14}{_numbers(sum(avoided.values(), Cost()))}")
    lines += [f"  {reason:<12}{_numbers(cost)}" for reason, cost in avoided.items()]
    by_line = _lines(account)
    lines += by_line
    if steps or not by_line:
        lines += ["", "steps"]
        lines += _steps(account.steps)
        if pieces := _pieces(account.pieces):
            lines += ["", "avoided"]
            lines += [f"  {line}" for line in pieces]
    if account.program:
        top_steps = [s for s in account.program if not s.depth]
        has_programs = top_steps[0].kind == "program"
        lines += ["", "programs called" if has_programs else f"program: {_counted(len(top_steps), 'step')}"]
        lines += [f"  {'  ' * step.depth}{step.kind:<8} {step.what}" for step in account.program]
    return "\n".join(line.rstrip() for line in lines)


def _lines(account: Found) -> list[str]:
    """Table of the work by line of the user's source; empty if no line is known."""
    totals = account.by_line()
    if not any(total.line for total in totals):
        return []
    width = max(len(total.address) for total in totals)
    timed = any(total.seconds is not None for total in totals)
    rows = ["", f"{'lines':<{width + 2}}{'share':>6}{'us' if timed else '':>{9 * timed}}{_HEAD}"]
    for total in totals:
        took = f"{(total.seconds or 0.0) * 1e6:>9,.1f}" if timed else ""
        numbers = f"{total.share:>6.0%}{took}{_numbers(total.cost)}"
        saved = f"  avoided {brief(total.avoided)}" if total.avoided else ""
        rows.append(f"  {total.address:<{width}}{numbers}  {total.line.text if total.line else ''}{saved}")
    return rows


def brief(cost: Cost) -> str:
    """Nonzero amounts of a cost, in words.

    >>> brief(Cost(1, 24, bytes=8))
    '1 product, 24 multiply-adds, 8 bytes'
    """
    words = zip(astuple(cost), ("product", "multiply-add", "entry", "byte"), strict=True)
    return ", ".join(_counted(n, noun) for n, noun in words if n) or "no work"


def typed(step: Step) -> list[str]:
    """Text for each result of a step: its type, and its layout unless that is strided."""
    of_all = zip(step.types, step.layouts, strict=True)
    return [kind if layout == "strided" else f"{kind} {layout}" for kind, layout in of_all]


def _counted(n: int, noun: str) -> str:
    plural = f"{noun.removesuffix('y')}ies" if noun.endswith("y") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else plural}"


def _numbers(cost: Cost) -> str:
    return f"{cost.products:>10,}{cost.multiply_adds:>16,}{cost.entries:>14,}{cost.bytes:>14,}"


def _steps(steps: Sequence[Step], margin: str = "") -> list[str]:
    """Lines of text: one for each step, followed by those of the graphs that it runs.

    margin : the spaces in front of each line.
    """
    lines = []
    for step in steps:
        lines.append(margin + _step(step))
        for body in step.bodies:
            inside = margin + (" " * 4 if step.seconds is None else " " * 18)
            lines += [f"{inside}one run of {body.text}:", *_steps(body.steps, inside)]
    return lines


def _step(step: Step) -> str:
    took = "" if step.seconds is None else f"{step.seconds * 1e6:>9,.1f} us  "
    kinds = ", ".join(typed(step))
    avoided = f"; avoided {brief(step.avoided)} ({step.reason})" if step.avoided else ""
    where = f"  # {step.line.address}" if step.line else ""
    return f"  {took}{step.text}: {kinds}; {brief(step.done)}{avoided}{where}"


def _pieces(pieces: tuple[Piece, ...]) -> list[str]:
    """Lines of text, one for all pieces with the same reason, description and source line, with
    their number.
    """
    alike: dict[tuple[str, str, str], list[Piece]] = {}
    for p in pieces:
        alike.setdefault((p.reason, p.what, p.line.address if p.line else ""), []).append(p)
    return [
        f"{reason:<12}{text}{f', {len(group)} times' if len(group) > 1 else ''}: "
        f"{brief(sum((p.cost for p in group), Cost()))}{f'  # {place}' if place else ''}"
        for (reason, text, place), group in alike.items()
    ]
