"""SVG picture of a report's graph: the equations that are carried out, and in grey those that are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from iverson.core.counting.cost import PRODUCTS, Cost
from iverson.explain.layered import Point, drawing
from iverson.explain.model import Found, Line, Piece, Step
from iverson.explain.text import brief, typed
from iverson.graph.ir.nodes import Equation, Value, values_of
from iverson.graph.ir.print import type_text

if TYPE_CHECKING:
    from iverson.layouts import Pattern

#: A character, a line of text, and the room around the text, in pixels.
_CHAR, _LINE, _PAD = 6.65, 16.0, 10.0
_LONGEST = 58
#: A graph that is wider than the window is made smaller by so much at most: text of 8 pixels can be read.
_SMALLEST = 8 / 11
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class Node:
    """Box of the drawing.

    kind : CSS classes. lines : its text. title : the text that a pointer shows.
    avoided : the share of its work that was avoided, from 0 to 1.
    """

    kind: str
    lines: tuple[str, ...]
    title: str
    avoided: float = 0.0

    @property
    def size(self) -> tuple[float, float]:
        """Its width and height."""
        longest = max(map(len, self.lines))
        return longest * _CHAR + 2 * _PAD, len(self.lines) * _LINE + 1.2 * _PAD


def picture(account: Found) -> str:
    """SVG text of the graph, one ``svg`` element."""
    nodes, edges = _nodes(account)
    layout = drawing([n.size for n in nodes], edges)
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    least = f"min-width:{_SMALLEST * layout.width:.0f}px"
    parts = [
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" style="{least}" role="img">',
        f"<title>graph of {escape(account.name)}</title>",
        _TIP,
    ]
    is_grey = {k: n.kind.startswith("avoided") for k, n in enumerate(nodes)}
    for (a, b), route in layout.routes.items():
        kind = "edge avoided" if is_grey[a] or is_grey[b] else "edge"
        parts.append(f'<path class="{kind}" d="{_curve(route)}" marker-end="url(#tip)"/>')
    parts += [_box(n, c) for n, c in zip(nodes, layout.centres, strict=True)]
    return "\n".join([*parts, "</svg>"])


def _nodes(account: Found) -> tuple[list[Node], list[tuple[int, int]]]:
    """Boxes of the drawing, and edges as pairs of their numbers.

    There is a box for each input, constant, step and equation that does not run, for the work avoided
    elsewhere (cotangents that are not computed), and for the output.
    """
    nodes: list[Node] = []
    edges: list[tuple[int, int]] = []
    node_of: dict[Value, int] = {}
    at: dict[Value, int] = {}
    of_steps = {s.equation: s for s in account.steps}
    equations = [*(s.equation for s in account.steps), *(e for e, _ in account.gone)]
    operand_values = {v for e in equations for v in values_of(e.operands)}.union(
        values_of(account.graph.outputs)
    )
    for v in (*account.traced.inputs, *account.graph.inputs):
        if v not in node_of:
            node_of[v] = len(nodes)
            head = f"{account.names.get(v, '')} input {account.arguments.get(v, '')}".rstrip()
            nodes.append(Node("input", _cut([head, type_text(v.aval, _pattern)]), "an input"))
    constants = dict.fromkeys(v for g in (account.graph, account.traced) for v, _ in g.constants)
    for v in constants:
        if v in operand_values and v not in node_of:
            node_of[v] = len(nodes)
            name = account.names.get(v, "")
            nodes.append(Node("constant", (f"{name} constant", type_text(v.aval, _pattern)), "a constant"))
    reasons = dict(account.gone)
    for e in equations:
        at[e.results[0]] = len(nodes)
        node_of.update(dict.fromkeys(e.results, len(nodes)))
        step = of_steps.get(e)
        nodes.append(_of_step(step) if step else _of_gone(account, e, reasons[e]))
    for e in equations:
        k = at[e.results[0]]
        edges += [
            (node_of[v], k) for v in dict.fromkeys(values_of(e.operands)) if v in node_of and node_of[v] != k
        ]
    for place, pieces in _ghosts(account, at).items():
        if place is not None:
            edges.append((place, len(nodes)))
        nodes.append(_of_pieces(pieces))
    outputs = [node_of[v] for v in values_of(account.graph.outputs) if v in node_of]
    edges += [(k, len(nodes)) for k in dict.fromkeys(outputs)]
    names = ", ".join(account.names.get(x, "undefined") for x in account.graph.outputs)
    nodes.append(Node("output", (f"return {names}"[:_LONGEST],), "what is returned"))
    return nodes, edges


def _ghosts(account: Found, at: dict[Value, int]) -> dict[int | None, list[Piece]]:
    """Pieces of avoided work that belong to no drawn equation, such as cotangents, grouped by the box to
    attach them to.

    at : the box of the equation that gives each value. The key None is for pieces without a box.
    """
    visible = {s.equation for s in account.steps}.union(e for e, _ in account.gone)
    result: dict[int | None, list[Piece]] = {}
    for p in account.pieces:
        if p.equation is None or p.of_cotangent or p.equation not in visible:
            place = None if p.equation is None else at.get(p.equation.results[0])
            result.setdefault(place, []).append(p)
    return result


def _of_step(step: Step) -> Node:
    took = "" if step.seconds is None else f", {step.seconds * 1e6:,.1f} us"
    lines = [step.text.partition(" = ")[2], *_typed(step), f"{brief(step.done)}{took}"]
    if step.avoided:
        lines.append(f"{step.reason}: avoided {brief(step.avoided)}")
    if step.equation.op.name in PRODUCTS:
        kind = "product"
    else:
        kind = "moved" if step.equation.op.entry_map.moves else "step"
    title = f"{step.text}\n{brief(step.done)}{took}"
    return Node(kind, _cut([*lines, *_of_line(step.line)]), title, _share(step.done, step.avoided))


def _typed(step: Step) -> list[str]:
    results = step.text.partition(" = ")[0].split(", ")
    return [f"{name}: {kind}" for name, kind in zip(results, typed(step), strict=True)]


def _of_gone(account: Found, equation: Equation, reason: str) -> Node:
    piece = next((p for p in account.pieces if p.equation is equation), None)
    names = ", ".join(account.names.get(v, "") for v in equation.results)
    operands = (account.names.get(x, "%?") if type(x) is Value else repr(x) for x in equation.operands)
    lines = [
        f"{equation.op.name}({', '.join(operands)})",
        f"{names}: {', '.join(type_text(v.aval, _pattern) for v in equation.results)}",
        f"{reason}: {brief(piece.cost) if piece else 'no work'}",
        *_of_line(piece.line if piece else None),
    ]
    return Node(f"avoided {reason}", _cut(lines), f"not carried out: {reason}")


def _of_pieces(pieces: Sequence[Piece]) -> Node:
    lines = []
    for p in pieces[:4]:
        lines += [f"{p.reason}: {p.what}", brief(p.cost)]
    if len(pieces) > 4:
        lines.append(f"and {len(pieces) - 4} more")
    places = _of_line(pieces[0].line) if len(pieces) == 1 else []
    title = "\n".join(f"{p.reason}: {p.what}: {brief(p.cost)}" for p in pieces)
    return Node("avoided ghost", _cut([*lines, *places]), title)


def _of_line(line: Line | None) -> list[str]:
    return [f"{line.address}  {line.text}"] if line else []


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…" for text in lines)


def _share(work: Cost, avoided: Cost) -> float:
    """Share of work that was avoided, from 0 to 1: of multiply-adds if there are any, else of entries, else
    of bytes.
    """
    pairs = ((getattr(c, name) for c in (work, avoided)) for name in ("multiply_adds", "entries", "bytes"))
    for d, a in pairs:
        if d or a:
            return float(a / (d + a))
    return 0.0


def _pattern(pattern: Pattern) -> str:
    return f"{getattr(pattern, 'count', '')} of {getattr(pattern, 'layout', '')}"


# -- elements ------------------------------------------------------------------------------------------


def _curve(route: Sequence[Point]) -> str:
    """SVG path through the points of an edge, by cubic curves with vertical ends."""
    (x, y), *points = route
    parts = [f"M{x:.1f},{y:.1f}"]
    for u, v in points:
        half = (y + v) / 2
        parts.append(f"C{x:.1f},{half:.1f} {u:.1f},{half:.1f} {u:.1f},{v:.1f}")
        x, y = u, v
    return " ".join(parts)


def _box(node: Node, centre: Point) -> str:
    """SVG element for a box of the drawing, with its text; the part for avoided work is shaded."""
    width, height = node.size
    left_edge, top = centre[0] - width / 2, centre[1] - height / 2
    rect = f'<rect x="{left_edge:.1f}" y="{top:.1f}" width="{{:.1f}}" height="{height:.1f}" rx="5"{{}}/>'
    parts = [f'<g class="{node.kind}"><title>{escape(node.title)}</title>', rect.format(width, "")]
    if node.avoided:
        part = width * node.avoided
        parts.append(
            f'<rect class="part" x="{left_edge + width - part:.1f}" y="{top:.1f}" width="{part:.1f}" '
            f'height="{height:.1f}" rx="5"/>'
        )
    for k, text in enumerate(node.lines):
        head = ' class="head"' if k == 0 else ""
        y = top + 0.6 * _PAD + (k + 0.78) * _LINE
        parts.append(f'<text x="{left_edge + _PAD:.1f}" y="{y:.1f}"{head}>{escape(text)}</text>')
    return "".join([*parts, "</g>"])
