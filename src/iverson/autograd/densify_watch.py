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
    """A new variable; of a sparse value it remembers that it is one."""
    variable = leaf(value.shape, value.dtype)
    if isinstance(value, Sparse):
        meta_of(variable).stored = value.pattern.count
    return variable


class Watch:
    """The ops a rule computes a sparse leaf's cotangent with: warns, once, before a dense one is made."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.meta = node.result(0)
        self.warned = False

    def __getattr__(self, name: str) -> Any:
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
        """Warn if a cotangent is dense although no watched op made it so: code around the ops did."""
        if type(getattr(cotangent, "_value", None)) is Strided:
            self.warn()

    def warn(self) -> None:
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
    """The watch over argument k's cotangent, if that is a large sparse leaf with all entries asked for."""
    parent = parents[k]
    if parent is None or (node_meta := parent.meta) is None or node_meta.stored is None:
        return None
    meta = parent.result(0)
    large = prod(meta.shape) * meta.dtype.itemsize >= LARGE_GRADIENT
    return Watch(parent) if large and needs[k] is FULL else None


__all__ = ["Watch", "leaf_of", "watch"]
