"""Fresh names: the names of tensors that rewrites and derivatives add, made from those of the user's tensors.

``T.part`` is a tensor made for T, ``T.1``, ``T.2`` the reductions inside of its definition, and ``dy/dx`` the
derivative of y in x. In loop nests names are numbers (``b3``, ``i0``), so that no name of a user can be one
of them; the user's name of a buffer or a loop is its label.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iverson.te.ir.expressions import Tensor

#: What the parts of a tensor hold; `te.explain` says it of each, and the reference lists them.
PARTS = {
    "argmax": "where {0} has its largest value, which its derivative reads",
    "argmin": "where {0} has its smallest value, which its derivative reads",
    "first": "the first point that writes the extremum of each entry of {0}",
    "factors": "the factors of {0}, or with a number the products of so many of them next to each other",
    "elements": "the elements of a fold in {0}, or with a number so many of them, combined",
    "before": "for each point that multiplies an entry of {0}, the one before it",
    "last": "for each entry of {0}, the last point that multiplies it",
    "prefix": "the sums of {0} up to each step, from one step to the next",
    "products": "for each point that multiplies an entry of {0}, the product so far",
    "table": "what functions of indices alone give in {0}",
    "coefficient": "the Taylor coefficient of {0} of an order",
    "tangent": "the derivative of {0} along the tangents",
    "slice": "the entries of {0} that are read after its steps, one slice a step",
    "held": "how many of the entries that a selection holds {0} depends on",
}


def part(tensor: Tensor, kind: str, count: int | None = None) -> str:
    """The name of a part of a tensor, one of `PARTS`; ``count`` numbers it."""
    assert kind in PARTS
    return f"{tensor.name}.{kind}{'' if count is None else count}"


def meaning(name: str) -> str:
    """Meaning of a tensor that a rewrite added, by its name; "" for a user's tensor and for derivatives."""
    owner, _, last = name.rpartition(".")
    if owner and last.isdigit():
        return f"a reduction inside of {owner}"
    template = PARTS.get(last.rstrip("0123456789"), "") if owner else ""
    return template.format(owner)


def distinct(name: str, existing: Collection[str]) -> str:
    """The name, with a number if the name exists already: ``cotangent``, ``cotangent_1``."""
    candidate, k = name, 0
    while candidate in existing:
        k += 1
        candidate = f"{name}_{k}"
    return candidate
