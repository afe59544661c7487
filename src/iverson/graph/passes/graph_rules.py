"""Rules of the pass `support_and_demand` that only graphs need; others are those of `kernels.partial`.

They are where selections are made or taken apart, reductions of the lines that are read, index notation, and
ops on stored entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iverson.core.aval import Aval
from iverson.core.entries import FULL, Entries, hull, plain
from iverson.core.entries import Box as Boxed
from iverson.core.op import Op
from iverson.kernels.partial.partial_products import sampled
from iverson.kernels.partial.partial_rules import RULES as PARTIAL_RULES
from iverson.kernels.partial.partial_rules import Rule
from iverson.kernels.partial.partial_selections import packed
from iverson.kernels.partial.partial_values import (
    Namespace,
    Params,
    Value,
    Values,
    everything,
    placed,
    read,
    region_of,
    region_read,
)
from iverson.layouts import Box, Bracket
from iverson.ops.rules.entry_maps import Along, Reduced
from iverson.te.ops.operator import expression_of


def _selected(N: Namespace, _op: Op, values: Values, _params: Params, need: Entries = FULL) -> Value:
    """The selection made where it is read."""
    (x,) = values
    if type(x) is not Bracket and type(x) is not Box:
        return x
    region = region_of(x).intersect(region_read(need, x.shape))
    if not region.size:
        return N.zero(x.shape, x.dtype)
    return placed(N, x.shape, region, N.select(read(N, x, region)))


def _values_held(N: Namespace, _op: Op, values: Values, _params: Params, _need: Entries = FULL) -> Value:
    """The values of a selection, with zeros around those of a box."""
    x = everything(N, values[0])
    return x.values if type(x) is Bracket else x


def _where_held(N: Namespace, _op: Op, values: Values, _params: Params, _need: Entries = FULL) -> Value:
    """The condition under which a selection or a box holds values."""
    x = everything(N, N.as_selection(values[0]))
    if type(x) is Bracket:
        return N.everywhere(x)
    return N.constant(np.broadcast_to(np.bool_(not N.is_zero(x)), x.shape))


def lines(N: Namespace, op: Op, values: Values, params: Params, need: Entries = FULL) -> Value:
    """Rule of reductions and of ops along axes: only the lines that are read are computed.

    NotImplemented if all is read, or there are several operands.
    """
    out = N.aval(op, values, params)
    where = plain(need, out.shape)
    if not isinstance(where, Boxed) or len(values) != 1:
        return NotImplemented
    if isinstance(op.entry_map, Along):
        axes = params.get("axes", params.get("axis"))
        where = Boxed(where.region.along(axes if isinstance(axes, tuple) else (axes,), out.shape))
    (x,) = values
    support = op.entry_map.support(op, where, 0, [Aval(x.shape, x.dtype)], out, params)
    line = N.select(read(N, x, hull(support, x.shape)))
    return placed(N, out.shape, where.region, N.bind(op, (line,), params))


def in_notation(N: Namespace, op: Op, values: Values, params: Params, _need: Entries = FULL) -> Value:
    """Rule of a derivative in index notation that is linear in its first operand, a selection.

    The result is a selection of the entries to which at least one entry that is held contributes. If each
    comes from one entry, all values are computed; if entries are added up, only those that are held (term by
    term where a factor may be infinite). NotImplemented for other ops and operands.
    """
    expression = expression_of(op)
    if expression is None or not expression.linear or not values or type(values[0]) is not Bracket:
        return NotImplemented
    x, remaining = everything(N, values[0]), [N.plain(v) for v in values[1:]]
    params = dict(params)
    there, operands = N.everywhere(x), (x.values, *remaining)
    positive = N.ops.greater(expression.counts(there, operands, params), 0)
    moves = expression.moves(operands, params)
    if not moves and expression.has_poles(operands, params):
        return Bracket(expression.selected(there, operands, params), positive, is_made=True)
    out = N.bind(op, (x.values if moves else N.select(x), *remaining), params)
    return Bracket(out, positive, is_made=not moves)


RULES: dict[str, Rule] = {
    **PARTIAL_RULES,
    "selected": _selected,
    "stored_read": packed,
    "stored_samples": sampled,
    "values_held": _values_held,
    "where_held": _where_held,
}


def rules_of(op: Op) -> Sequence[Rule]:
    """The rules to try for an op on partial values, or of which a part is read."""
    rule_of_op = RULES.get(op.name) or (RULES["elementwise"] if op.elementwise else None)
    of_lines = isinstance(op.entry_map, Reduced | Along)
    rules = (rule_of_op, lines if of_lines else None) if rule_of_op or of_lines else (in_notation,)
    return [rule for rule in rules if rule is not None]


__all__ = ["RULES", "in_notation", "lines", "rules_of"]
