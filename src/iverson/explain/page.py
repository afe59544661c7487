"""HTML page of a report, self-contained: no script, no font, no picture from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from iverson.core.counting.cost import Cost
from iverson.explain.model import REASONS, Found, Line, Step
from iverson.explain.picture import picture
from iverson.explain.text import brief, typed

_STYLE = """
:root { --ink: #1c2430; --soft: #5d6875; --line: #c9d0d8; --paper: #ffffff; --ground: #f5f6f8;
  --product: #dbe8fb; --product-line: #3b78c9; --step: #ffffff; --moved: #f3f0e6; --input: #e3f1e5;
  --grey: #e6e7ea; --grey-ink: #5f656e; --done: #3b78c9; --avoided: #a9afb8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b1; --line: #444d58;
  --paper: #1b2027; --ground: #12161b; --product: #1d3557; --product-line: #6ea3ea; --step: #242b34;
  --moved: #2f2d24; --input: #20382a; --grey: #2a2e34; --grey-ink: #9aa2ac; --done: #6ea3ea;
  --avoided: #5b636d; } }
body { margin: 0; padding: 24px 32px 48px; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 2px; } h2 { font-size: 16px; margin: 32px 0 8px; }
p { margin: 4px 0 12px; color: var(--soft); max-width: 75ch; }
table { border-collapse: collapse; background: var(--paper); font-size: 13px; }
th { white-space: nowrap; }
th, td { padding: 4px 12px; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.code { min-width: 28ch; } td.why { white-space: nowrap; }
td.type { white-space: nowrap; min-width: 0; }
td.code, code { font: 12px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
tr.part td { color: var(--soft); } tr.part td:first-child { padding-left: 28px; }
.bar { display: inline-block; height: 10px; border-radius: 2px; background: var(--done); }
.bar.grey { background: var(--avoided); }
.frame { overflow: auto; background: var(--paper); border: 1px solid var(--line);
  border-radius: 6px; }
.wide { overflow-x: auto; }
label { font-size: 13px; color: var(--soft); }
#plain:checked ~ .frame .avoided { display: none; }
svg { display: block; margin: auto; max-width: 100%; height: auto; }
#large:checked ~ .frame svg { max-width: none; }
svg text { font: 11px ui-monospace, "DejaVu Sans Mono", monospace; fill: var(--soft); white-space: pre; }
svg text.head { font-weight: 600; fill: var(--ink); }
svg rect { fill: var(--step); stroke: var(--line); }
svg .product rect { fill: var(--product); stroke: var(--product-line); }
svg .moved rect { fill: var(--moved); } svg .input rect, svg .output rect { fill: var(--input); }
svg .constant rect { fill: var(--ground); stroke-dasharray: 2 2; }
svg .avoided rect { fill: var(--grey); stroke: var(--grey-ink); stroke-dasharray: 5 3; }
svg .avoided text, svg .avoided text.head { fill: var(--grey-ink); }
svg g rect.part { fill: var(--avoided); fill-opacity: 0.35; stroke: none; }
svg path.edge { fill: none; stroke: var(--soft); stroke-width: 1.1; }
svg path.edge.avoided { stroke: var(--avoided); stroke-dasharray: 4 3; }
svg marker path { fill: var(--soft); }
"""


_LEGEND = (
    "<p>Blue: products. White: entries computed. Sand: entries moved. Grey: what is not computed, with the "
    "reason; a box that is grey in part does less by that part than its shapes say.</p>"
)


def as_page(account: Found) -> str:
    """HTML text of the whole page."""
    title = escape(f"What {account.name} does and avoids")
    took = "" if account.seconds is None else f" A call takes {account.seconds * 1e6:,.0f} us."
    parts = [
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{title}</title>',
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
        f"<p>{len(account.steps)} steps, {brief(account.done)}.{took}</p>",
        _sums(account),
        _lines(account),
        "<h2>Graph</h2>",
        _LEGEND,
        '<input type="checkbox" id="plain"/><label for="plain"> hide what was avoided</label>',
        '<input type="checkbox" id="large"/><label for="large"> full size</label>',
        f'<div class="frame">\n{picture(account)}\n</div>',
        _steps(account),
        _pieces(account),
        _program(account),
        "</body>\n</html>\n",
    ]
    return "\n".join(p for p in parts if p)


def _sums(account: Found) -> str:
    """HTML table of the work that was done and avoided, with a row for each reason."""
    avoided = account.avoided()
    rows = [("done", account.done, "", "")]
    if account.compiling:
        rows.append(("while compiling", account.compiling, "", "once: what depends on no input"))
    rows.append(("avoided", sum(avoided.values(), Cost()), "", ""))
    rows += [(reason, cost, "part", REASONS.get(reason, "")) for reason, cost in avoided.items()]
    weighs = "multiply_adds" if any(c.multiply_adds for _, c, _, _ in rows) else "entries"
    largest = max(getattr(c, weighs) for _, c, _, _ in rows)
    lines = []
    for name, cost, kind, why in rows:
        grey = " grey" if kind or name == "avoided" else ""
        width = 160 * getattr(cost, weighs) / largest if largest else 0
        cells = f"<td>{escape(name)}</td>{_numbers(cost)}"
        cells += f'<td><span class="bar{grey}" style="width:{width:.0f}px"></span></td>'
        cells += f'<td class="why">{escape(why)}</td>'
        lines.append(f'<tr class="{kind}">{cells}</tr>')
    return _table(("", *_COLUMNS, "share", "why"), lines)


def _lines(account: Found) -> str:
    """HTML table of the work by line of the user's source."""
    totals = account.by_line()
    timed = any(total.seconds is not None for total in totals)
    rows = []
    for total in totals:
        took = f'<td class="n">{(total.seconds or 0.0) * 1e6:,.1f}</td>' if timed else ""
        width = f"width:{100 * total.share:.0f}px"
        share = f'<td class="why"><span class="bar" style="{width}"></span> {total.share:.0%}</td>'
        avoided = escape(brief(total.avoided)) if total.avoided else ""
        source = _source(total.line) if total.line else "<td>elsewhere</td>"
        rows.append(f"<tr>{source}{share}{took}{_numbers(total.cost)}<td>{avoided}</td></tr>")
    heads = ("source", "share", *(("us",) if timed else ()), *_COLUMNS, "avoided")
    return "<h2>Lines</h2>\n" + _table(heads, rows) if any(total.line for total in totals) else ""


_COLUMNS = ("products", "multiply-adds", "entries", "bytes")


def _numbers(cost: Cost) -> str:
    numbers = (cost.products, cost.multiply_adds, cost.entries, cost.bytes)
    return "".join(f'<td class="n">{n:,}</td>' for n in numbers)


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    cells = "".join(f"<th{_side(h)}>{escape(h)}</th>" for h in heads)
    return f'<div class="wide"><table>\n<tr>{cells}</tr>\n' + "\n".join(rows) + "\n</table></div>"


def _side(head: str) -> str:
    return ' class="n"' if head in (*_COLUMNS, "us") else ""


def _source(line: Line | None) -> str:
    if line is None:
        return "<td></td>"
    return f'<td class="code" title="{escape(line.file)}">{escape(line.address)}  {escape(line.text)}</td>'


def _steps(account: Found) -> str:
    timed = any(s.seconds is not None for s in account.steps)
    rows = [row for s in account.steps for row in _rows(s, timed)]
    heads = ("step", "type and layout", *_COLUMNS, *(("us",) if timed else ()), "avoided", "source")
    return "<h2>Steps</h2>\n" + _table(heads, rows) if rows else "<h2>Steps</h2>\n<p>Nothing runs.</p>"


def _rows(step: Step, timed: bool, depth: int = 0) -> Iterator[str]:
    """Table rows of a step, followed by those of the graphs that it runs.

    timed : True if the table has a column of times. depth : 0, or more for a step inside of another.
    """
    duration = "" if step.seconds is None else f"{step.seconds * 1e6:,.1f}"
    took = f'<td class="n">{duration}</td>' if timed else ""
    less = f"{escape(step.reason)}: {escape(brief(step.avoided))}" if step.avoided else ""
    kinds = "<br/>".join(map(escape, typed(step)))
    yield (
        f'<tr{_inside(depth)}><td class="code">{_margin(depth)}{escape(step.text)}</td>'
        f'<td class="code type">{kinds}</td>'
        f"{_numbers(step.done)}{took}<td>{less}</td>{_source(step.line)}</tr>"
    )
    for body in step.bodies:
        title = f"one run of {escape(body.text)}:"
        yield f'<tr class="part"><td class="code" colspan="{8 + timed}">{_margin(depth)}{title}</td></tr>'
        for inner in body.steps:
            yield from _rows(inner, timed, depth + 1)


def _inside(depth: int) -> str:
    return ' class="part"' if depth else ""


def _margin(depth: int) -> str:
    return "&#160;&#160;" * max(depth - 1, 0)


def _pieces(account: Found) -> str:
    rows = [
        f"<tr><td>{escape(p.reason)}</td><td>{escape(p.what)}</td>{_numbers(p.cost)}{_source(p.line)}</tr>"
        for p in account.pieces
    ]
    return "<h2>Avoided</h2>\n" + _table(("reason", "what", *_COLUMNS, "source"), rows) if rows else ""


def _program(account: Found) -> str:
    rows = [
        f"<tr{_inside(s.depth)}><td>{_margin(s.depth)}{escape(s.kind)}</td><td>{escape(s.what)}</td></tr>"
        for s in account.program
    ]
    title = "Programs called" if any(s.kind == "program" for s in account.program) else "Program"
    return f"<h2>{title}</h2>\n" + _table(("step", "what it holds"), rows) if rows else ""
