"""Kernels of boxes, brackets and packed values: the rules of partial values, run on arrays.

Kernels for arrays alone are here too: selections among stored entries, and index notation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.dispatch import make_handle, value_of
from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.table import TABLE
from iverson.kernels.kernel_registry import ANY_OP, Kernel, Values, register, run, zeros_like_result
from iverson.kernels.partial.array_namespace import ARRAYS, stored_selection
from iverson.kernels.partial.partial_rules import RULES, Rule
from iverson.kernels.sparse.sparse_operands import read
from iverson.layouts import Box, Bracket, Packed, Sparse, Zero, select, to_strided
from iverson.layouts.bracket import held, of_packed


def kernel_of(rule: Rule) -> Kernel:
    """Kernel that runs ``rule`` on arrays; packed operands are passed to the rule as selections."""

    def kernel(op: Op, values: Values, params: Params) -> Any:
        if Packed in map(type, values):
            values = tuple(map(of_packed, values))
        return rule(ARRAYS, op, values, params)

    kernel.rule = rule  # type: ignore[attr-defined]
    return kernel


#: Ops that read boxes at the entries of a pattern alone, in kernels of their own.
_AT_PATTERNS = {"sampled_product": (Bracket,), "values_at": ()}

for _name, _rule in RULES.items():
    for _kind in _AT_PATTERNS.get(_name, (Box, Bracket)):
        register(_name, _kind)(kernel_of(_rule))
for _name in ("elementwise", "concat", "stack"):
    register(_name, Zero)(kernel_of(RULES[_name]))


@register(ANY_OP, Bracket)
def of_selected(op: Op, values: Values, params: Params) -> Any:
    """Run an op that has no rule for selections: each selection among ``values`` is made first.

    Making a selection sets the entries at which the condition does not hold to zero.
    """
    return run(op, tuple([select(of_packed(v)) for v in values]), params)


@register(ANY_OP, Packed)
def as_selections(op: Op, values: Values, params: Params) -> Any:
    """Run an op for which the packed layout has no kernel: packed operands become made selections."""
    return run(op, tuple(map(of_packed, values)), params)


@register("selected", object)
def selected(_op: Op, values: Values, _params: Params) -> Any:
    """Kernel of `selected`: a selection is made (other entries become zero); any other value is itself."""
    (x,) = values
    return x.made() if isinstance(x, Sparse) else select(x)


@register("bracket", Sparse)
@register("bracket", Packed)
def bracket_of_stored(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `bracket` for a sparse or packed value: a value of this layout that stores fewer entries.

    If the layout cannot store only the selected entries, the result is a selection.
    """
    condition, x = values
    if not isinstance(x, Sparse | Packed):
        return NotImplemented
    negated, shape = params["negated"], zeros_like_result(op, values, params).shape
    if x.shape != shape:
        return run(op, (condition, run(TABLE["broadcast_to"], (x,), {"shape": shape})), params)
    if isinstance(condition, Sparse) and isinstance(x, Sparse):
        entry_mask = np.broadcast_to(read(condition, x.pattern, shape), x.entries.shape) != negated
        return stored_selection(
            entry_mask, x, lambda: np.broadcast_to(to_strided(condition), shape) != negated
        )
    mask = np.broadcast_to(np.asarray(to_strided(condition), bool), shape)
    if negated:
        mask = np.logical_not(mask)
    if isinstance(x, Sparse):
        return stored_selection(read(mask, x.pattern, shape), x, lambda: mask)
    entry_mask = mask[x.mask]
    return Packed(x.mask, x.values) if entry_mask.all() else Packed(x.mask & mask, x.values[entry_mask])


@register("values_at", Bracket)
def values_at(op: Op, values: Values, params: Params) -> Any:
    """Kernel of `values_at` for a selection: its entries at a pattern, as a selection."""
    (x,) = values
    condition, out = x.without_values(), run(op, (x.values,), params)

    def there() -> Any:
        return to_strided(select(run(op, (ARRAYS.there(condition),), params)))

    return ARRAYS.under(out, [ARRAYS.held(condition, there, x.is_made)], x.is_made)


@register("from_values", Bracket)
def from_values(_op: Op, values: Values, params: Params) -> Any:
    """Kernel of `from_values` for a selection: a sparse value that stores only the selected entries."""
    (x,) = values
    pattern = params["pattern"]
    condition, selection = (pattern.kind(pattern, to_strided(v)) for v in (held(x), select(x)))
    return stored_selection(condition.entries, selection, lambda: to_strided(condition))


@register("overwritten", Sparse)
def overwritten_sparse(_op: Op, values: Values, params: Params) -> Any:
    """Kernel of `overwritten` for a sparse value: entries that an assignment overwrites are not stored."""
    return run(TABLE["index_put"], (values[0], Zero((), values[0].dtype)), params)


@register("index notation", Bracket)
@register("index notation", Box)
def in_notation(op: Op, values: Values, params: Params) -> Any:
    """Kernel of an op in index notation that is linear in its first operand, a selection or a box.

    The op's expression is applied as in eager code, with the selections of all other operands made. The
    result is NotImplemented if the op has no such expression.
    """
    from iverson.te.ops.operator import expression_of

    expression = expression_of(op)
    if expression is None or not expression.linear or type(values[0]) not in (Bracket, Box):
        return NotImplemented
    results = expression.applied(tuple(map(make_handle, (values[0], *map(select, values[1:])))), dict(params))
    return tuple(map(value_of, results)) if op.multiple else value_of(results)
