"""HTML of arrays for notebooks: a line of facts, a picture of the pattern, and the entries as text."""

from __future__ import annotations

from iverson.core.dispatch import has_entries
from iverson.core.entries import FULL
from iverson.handles.printing import Printable, PrintableTensor
from iverson.handles.spy import Picture, of_entries
from iverson.layouts import layout_of
from iverson.layouts.layout_registry import entries, support_of


def show(x: PrintableTensor) -> str:
    """HTML of a Tensor. It has a picture of the support, unless all entries are stored."""
    layout = layout_of(x._value).name
    picture, facts = None, []
    if has_entries(x) and support_of(x._value) is not FULL:
        picture = of_entries(support_of(x._value), x.shape)
        count = entries(x._value)
        facts = [f"{count:,} stored of {x.size:,}" + (f" ({count / x.size:.2g})" if x.size else "")]
    return page("Tensor", layout, x, facts, picture)


def page(kind: str, layout: str, x: Printable, facts: list[str], picture: Picture | None) -> str:
    """HTML with a line of facts, the picture if there is one, and the text of ``x``.

    kind : the name of the type.
    """
    from html import escape

    extents = [f"{n:,}" for n in x.shape]
    shape = " × ".join(extents) if len(extents) > 1 else f"length {extents[0]}" if extents else "rank 0"
    gradient_facts = ["requires grad"] if x.requires_grad else []
    line = ", ".join([shape, str(x.dtype), layout, *facts, *gradient_facts])
    text = f'<pre style="margin:0">{escape(repr(x))}</pre>'
    drawing = f'<div style="flex:none">{picture.svg}</div>' if picture else ""
    return (
        f"<div><div><b>{kind}</b> {escape(line)}</div>"
        f'<div style="display:flex;gap:1em;align-items:flex-start;margin-top:4px">{drawing}{text}</div></div>'
    )
