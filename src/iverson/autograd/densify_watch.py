"""Densification warning: raised before the gradient of a large sparse leaf becomes dense, with the remedy.

The gradient of a sparse tensor is the derivative over all entries (docs/design/semantics.md, 1): often
nonzero everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.autograd.node import Node, leaf, meta_of
from iverson.core.aval import aval_of
from iverson.core.entries import FULL, Entries, LowRank
from iverson.core.errors import DensifyWarning
from iverson.core.protocols import Shaped
from iverson.core.python.caller import warn
from iverson.core.table import TABLE, F
from iverson.layouts import Sparse, Strided, Zero, layouts_by_type

if TYPE_CHECKING:
    from iverson.core.dispatch import Handle

#: Bytes from which a dense gradient of a sparse leaf is worth a warning.
LARGE_GRADIENT = 1 << 24

_DENSE = (np.ndarray, Zero)


def leaf_of(value: Shaped) -> Node:
    """A new leaf of the graph for ``value``; for a sparse value it notes the number of stored entries."""
    variable = leaf(value.shape, value.dtype)
    if isinstance(value, Sparse):
        meta_of(variable).stored = value.pattern.count
    return variable


class Watch:
    """Namespace ``F`` for the rule of the cotangent of a sparse leaf: warns, once, before that gets dense."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.meta = node.result(0)
        self.warned = False

    def __getattr__(self, name: str) -> Any:
        """Function ``name`` of ``F``; an op warns if operands are dense and the result fits the leaf."""
        function = getattr(F, name)
        op = TABLE.get(name)
        if op is None or op.multiple or self.warned:
            return function

        def watched(*args: Shaped, **params: Any) -> Any:
            values = [getattr(x, "_value", x) for x in args]
            dense = all(type(v) in _DENSE for v in values if type(v) in layouts_by_type)
            if dense and op.abstract(*map(aval_of, args), **params) == self.meta:
                self.warn()
            return function(*args, **params)

        return watched

    def check(self, cotangent: Handle | LowRank | None) -> None:
        """Warn if a rule has returned a dense cotangent that no watched op has made."""
        if type(getattr(cotangent, "_value", None)) is Strided:
            self.warn()

    def warn(self) -> None:
        """Issue the DensifyWarning, unless it has been issued."""
        if self.warned:
            return
        self.warned = True
        count = meta_of(self.node).stored
        warn(
            f"gradient: that of a sparse tensor of shape {self.meta.shape} with {count} stored entries is "
            "nonzero everywhere, and dense; to have it at fewer entries, differentiate in its values() "
            "(make the tensor with with_values), or read it through sparse_mask or masked_tensor",
            DensifyWarning,
        )


def watch(parents: Sequence[Node | None], needs: Sequence[Entries], k: int) -> Watch | None:
    """A `Watch` for the cotangent of argument ``k``, a large sparse leaf of which all is demanded.

    Else the result is None.
    """
    parent = parents[k]
    if parent is None or (node_meta := parent.meta) is None or node_meta.stored is None:
        return None
    meta = parent.result(0)
    large = prod(meta.shape) * meta.dtype.itemsize >= LARGE_GRADIENT
    return Watch(parent) if large and needs[k] is FULL else None


__all__ = ["Watch", "leaf_of", "watch"]
