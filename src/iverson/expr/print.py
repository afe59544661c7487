"""Printer of scalar expressions: text for readers, and exact text, which is equal only for equal values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from iverson.core import dtypes
from iverson.expr.nodes import Apply, Const, Expr, postorder

_INFIX = {
    "add": ("+", 6), "subtract": ("-", 6), "multiply": ("*", 7), "divide": ("/", 7),
    "floor_divide": ("//", 7), "remainder": ("%", 7), "pow": ("**", 9),
    "less": ("<", 4), "less_equal": ("<=", 4), "greater": (">", 4), "greater_equal": (">=", 4),
    "equal": ("==", 4), "not_equal": ("!=", 4), "logical_and": ("and", 3), "logical_or": ("or", 2),
}  # fmt: skip
#: What binds as strongly as these is put in parentheses on the right, and weaker ones on the left too.
_NEGATIVE, _ATOM = 8, 10
_LONG = 400
#: Characters from which a part that occurs again has a name.
_SHARED = 24


def text(root: Expr, names: Mapping[Expr, str] | None = None, limit: int = _LONG) -> str:
    """Text of an expression for readers; the text of each part is cut after about ``limit`` characters.

    names : texts that are printed in place of these nodes.
    """
    texts: dict[Expr, tuple[str, int]] = {}
    for node in postorder([root]):
        if names and node in names:
            texts[node] = names[node], _ATOM
            continue
        node_text, level = _text_of(node, [texts[o] for o in node.operands], exact=False)
        texts[node] = (node_text if len(node_text) <= limit else _cut(node_text, limit)), level
    return texts[root][0]


def _cut(text: str, limit: int) -> str:
    """Start of ``text``, at most ``limit`` characters and no word cut in two, and an ellipsis."""
    return re.sub(r"\w+$", "", text[: limit + 1])[:limit] + "…"


def exact_text(root: Expr) -> str:
    """An expression so that equal text means equal values: numbers with their dtype, floats in hexadecimal.

    >>> from iverson.expr.nodes import Cast
    >>> exact_text(Cast(Const(2), dtypes.float32) * Const(0.5, dtypes.float32))
    'float32(2) * float32(0x1.0000000000000p-1)'
    """
    texts: dict[Expr, tuple[str, int]] = {}
    for node in postorder([root]):
        texts[node] = _text_of(node, [texts[o] for o in node.operands], exact=True)
    return texts[root][0]


def exact_texts(roots: Sequence[Expr]) -> tuple[list[str], list[str]]:
    """Two lists: lines that give names to shared parts, and the texts of the roots, which use these names.

    The texts are as of `exact_text`, but a long part that occurs again is written as ``$n``, and a line
    ``$n = ...`` gives its text. So the length grows with the number of distinct nodes only.

    >>> from iverson.expr.nodes import Cast
    >>> x = Cast(Const(123456789012345678), dtypes.float32)
    >>> exact_texts([x * x])
    (['$0 = float32(123456789012345678)'], ['$0 * $0'])
    """
    nodes = list(postorder(roots))
    uses = Counter(o for node in nodes for o in node.operands)
    uses.update(roots)
    texts: dict[Expr, tuple[str, int]] = {}
    lines: list[str] = []
    for node in nodes:
        node_text, level = _text_of(node, [texts[o] for o in node.operands], exact=True)
        if uses[node] > 1 and len(node_text) > _SHARED:
            lines.append(f"${len(lines)} = {node_text}")
            node_text, level = f"${len(lines) - 1}", _ATOM
        texts[node] = node_text, level
    return lines, [texts[root][0] for root in roots]


def _text_of(node: Expr, below: list[tuple[str, int]], *, exact: bool) -> tuple[str, int]:
    """Text of ``node``, and the level at which it binds: as in `_INFIX`, `_NEGATIVE` or `_ATOM`.

    below : the same pair for each operand.
    exact : numbers are written as in `exact_text`.
    """
    plain = [b[0] for b in below]
    if isinstance(node, Const):
        return _number(node, exact)
    name = node.name if isinstance(node, Apply) else ""
    if name in _INFIX:
        symbol, level = _INFIX[name]
        lhs = plain[0] if below[0][1] >= level else f"({plain[0]})"
        rhs = plain[1] if below[1][1] > level else f"({plain[1]})"
        return f"{lhs} {symbol} {rhs}", level
    if name == "negative":
        return f"-{plain[0] if below[0][1] >= _NEGATIVE else f'({plain[0]})'}", _NEGATIVE
    return node._text(plain), _ATOM


def _number(node: Const, exact: bool) -> tuple[str, int]:
    if exact and node.dtype not in (dtypes.int64, dtypes.bool):
        value = node.value.hex() if isinstance(node.value, float) else node.value
        return f"{node.dtype}({value})", _ATOM
    return repr(node.value), _ATOM if node.dtype.kind in "bc" or node.value >= 0 else _NEGATIVE


Expr.show = text
