"""Stored entries of sparse handles, read and replaced without a call of an op where nothing is recorded.

Cotangents of sparse tensors mostly are on the very pattern that is asked for, and nothing is recorded while
they are computed: then nothing has to be carried out. In all other cases the ops ``values_at`` and
``from_values`` do it.
"""

from __future__ import annotations

from typing import Any

from iverson.autograd.demand_propagation import are_differentiated
from iverson.autograd.mode import is_grad_enabled
from iverson.core.dispatch import Handle, LevelValue, is_tracked, levels, make_handle, value_of
from iverson.core.table import F, derived
from iverson.layouts import Pattern, Sparse, Strided
from iverson.layouts.pattern_symbols import PatternSymbol


def _lasts(x: Handle) -> bool:
    """True if a sparse cotangent is zero off its pattern in derivatives too, not only now."""
    if isinstance(value_of(x), LevelValue) and are_differentiated(levels()):
        return False
    return not (is_grad_enabled() and is_tracked(x))


@derived
def entries_at(x: Handle, pattern: Pattern | PatternSymbol, held: bool = False) -> Any:
    """Entries of ``x`` at ``pattern``, an array of the stored shape, as the op ``values_at`` returns them.

    If ``x`` is on this very pattern, and nothing is recorded, no op is called.

    held : True if ``x`` is a cotangent: then entries outside of its own pattern are left out, and not zeros,
        unless they may be nonzero in derivatives.
    """
    value = getattr(x, "_value", None)
    if isinstance(value, Sparse) and value.pattern is pattern and (x._node is None or not is_grad_enabled()):
        return make_handle(value.values)
    if type(pattern) is PatternSymbol and not isinstance(value, LevelValue):
        # A constant of the level that has the symbol, which only the symbol's index arrays belong to.
        at = (F.along(pattern, k) for k in range(pattern.ndim))
        entries = F.gather(x, *at, axes=tuple(range(pattern.ndim)))
        return F.reshape(entries, shape=pattern.stored_shape + entries.shape[1:])
    if held and getattr(value, "pattern", None) is not None and _lasts(x):
        return F.values_at(x, pattern=pattern, held=True)
    return F.values_at(x, pattern=pattern)


@derived
def with_entries(entries: Handle, pattern: Pattern) -> Any:
    """Sparse array of ``entries`` on ``pattern``, as the op ``from_values`` returns it."""
    value = getattr(entries, "_value", None)
    if type(value) is Strided and (entries._node is None or not is_grad_enabled()):
        return make_handle(pattern.kind(pattern, value))
    return F.from_values(entries, pattern=pattern)


@derived
def spread(x: Handle) -> Any:
    """A cotangent or tangent on a pattern, as a dense selection, for code that does not know the pattern.

    If its derivatives may be nonzero outside of the pattern, ``x`` itself is returned, or a selection by the
    condition that ``x`` remembers. Without a pattern, the result is ``x``.
    """
    value = value_of(x)
    pattern = getattr(value, "pattern", None)
    if pattern is None:
        return x
    if not _lasts(x):
        there = getattr(value, "there", None)
        return x if there is None else F.bracket(there(), F.to_dense(x), negated=False)
    entries = F.values_at(x, pattern=pattern, held=True)
    dense = entries.shape[len(pattern.stored_shape) :]
    at = [F.along(pattern, k) for k in range(pattern.ndim)]
    entries = F.reshape(entries, shape=(pattern.count, *dense))
    if not at:
        return F.sum(entries, axis=(0,), keepdims=False)
    return F.scatter_add(entries, *at, axes=tuple(range(pattern.ndim)), shape=x.shape, held=True)


__all__ = ["entries_at", "spread", "with_entries"]
