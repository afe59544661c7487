"""What is called after what users named: tensors that a rewrite adds, and loops and buffers of the code.

``T.part`` is a tensor made for T, ``T.1``, ``T.2`` the reductions inside of its definition, and ``dy/dx`` the
derivative of y in x. Buffers and loops are numbered (``T_argmax_3``, ``i_0_0``); texts take the numbers off.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iverson.te.expressions import Tensor

#: What the parts of a tensor hold; `te.explain` says it of each, and the reference lists them.
PARTS = {
    "argmax": "where {0} has its largest value, which its derivative reads",
    "argmin": "where {0} has its smallest value, which its derivative reads",
    "first": "the first point that writes the extremum of each entry of {0}",
    "factors": "the factors of {0}, or with a number the products of so many of them next to each other",
    "before": "for each point that multiplies an entry of {0}, the one before it",
    "last": "for each entry of {0}, the last point that multiplies it",
    "products": "for each point that multiplies an entry of {0}, the product so far",
    "table": "what functions of indices alone give in {0}",
    "tangent": "the derivative of {0} along the tangents",
    "held": "how many of the entries that a selection holds {0} depends on",
}
_WORD = re.compile(r"[A-Za-z_]\w*")


def part(tensor: Tensor, which: str, count: int | None = None) -> str:
    """The name of a part of a tensor, one of `PARTS`; ``count`` numbers it."""
    assert which in PARTS
    return f"{tensor.name}.{which}{'' if count is None else count}"


def meaning(name: str) -> str:
    """What a tensor holds that nobody named; "" for one of a user's and for derivatives."""
    whole, _, last = name.rpartition(".")
    if whole and last.isdigit():
        return f"a reduction inside of {whole}"
    known = PARTS.get(last.rstrip("0123456789"), "") if whole else ""
    return known.format(whole)


def distinct(name: str, taken: Collection[str]) -> str:
    """The name, with a number where others have it: ``cotangent``, ``cotangent_1``."""
    found, k = name, 0
    while found in taken:
        k += 1
        found = f"{name}_{k}"
    return found


def identifier(name: str) -> str:
    """A name as one of code."""
    return "".join(c if c.isalnum() else "_" for c in name) or "t"


def in_users_words(text: str, tensors: Mapping[str, str], axes: Iterable[str]) -> str:
    """A text on loops and buffers in the names of tensors and axes.

    tensors : by buffer, also as users call inputs. axes : what they are called in definitions: a loop has the
    name of its axis and numbers.
    """
    known = {identifier(name): name for name in axes}

    def name(found: re.Match[str]) -> str:
        word = re.sub(r"_by\d+$", "", found[0])  # a copy of it
        if found[0] in tensors or word in tensors:
            return tensors.get(found[0]) or tensors[word]
        while word not in known and (shorter := re.sub(r"_\d+$", "", word)) != word:
            word = shorter
        return known.get(word, found[0])

    return _WORD.sub(name, text)
