"""The table of rules of partial values, by op.

A rule is ``rule(N, op, values, params, need)``, written against a `Namespace`; ``need`` gives the entries of
the result that are read. A rule returns the result, which may be partial, or NotImplemented where it needs
its operands whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iverson.core.op import Op
from iverson.kernels.partial.partial_elementwise import added, elementwise
from iverson.kernels.partial.partial_moves import (
    INSIDE,
    embedded,
    gathered,
    joined,
    moved,
    running_sum,
    scattered,
    summed,
)
from iverson.kernels.partial.partial_products import product, sampled
from iverson.kernels.partial.partial_selections import bracket, overwritten, packed, unpacked

Rule = Callable[..., Any]

#: By name or family.
RULES: dict[str, Rule] = {
    "add": added,
    "add_n": added,
    "bracket": bracket,
    "concat": joined,
    "cumulative_sum": running_sum,
    "elementwise": elementwise,
    "embed": embedded,
    "gather": gathered,
    "matmul": product,
    "overwritten": overwritten,
    "pack": packed,
    "sampled_product": sampled,
    "scatter_add": scattered,
    "stack": joined,
    "sum": summed,
    "sum_of_stored": summed,
    "unpack": unpacked,
    "values_at": packed,
    **dict.fromkeys(INSIDE, moved),
}


def rule_of(op: Op) -> Rule | None:
    """Rule of an op, by its name, else by its family; None if there is no rule."""
    return RULES.get(op.name) or RULES.get(op.family)


__all__ = ["RULES", "Rule", "rule_of"]
