"""The entries of a sparse handle and a handle with given entries, for rules and the engine.

Cotangents of sparse tensors mostly are on the very pattern that is asked for, and nothing is recorded while
they are computed: then there is nothing to carry out, and no op to call.
"""

from __future__ import annotations

from typing import Any

from iverson.autograd.mode import is_grad_enabled
from iverson.core.dispatch import LevelValue, make_handle
from iverson.core.table import F, derived
from iverson.layouts import Sparse, Strided
from iverson.layouts.symbols import PatternSymbol


@derived
def entries_at(x: Any, pattern: Any) -> Any:
    """What the op ``values_at`` gives."""
    value = getattr(x, "_value", None)
    if isinstance(value, Sparse) and value.pattern is pattern and (x._node is None or not is_grad_enabled()):
        return make_handle(value.values)
    if type(pattern) is PatternSymbol and not isinstance(value, LevelValue):
        # A constant of the level that has the symbol, which only the symbol's index arrays belong to.
        at = (F.along(pattern, k) for k in range(pattern.ndim))
        entries = F.gather(x, *at, axes=tuple(range(pattern.ndim)))
        return F.reshape(entries, shape=pattern.stored_shape + entries.shape[1:])
    return F.values_at(x, pattern=pattern)


@derived
def with_entries(entries: Any, pattern: Any) -> Any:
    """What the op ``from_values`` gives."""
    value = getattr(entries, "_value", None)
    if type(value) is Strided and (entries._node is None or not is_grad_enabled()):
        return make_handle(pattern.kind(pattern, value))
    return F.from_values(entries, pattern=pattern)


__all__ = ["entries_at", "with_entries"]
