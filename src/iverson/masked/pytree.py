"""Masked tensors as nodes of pytrees, whose leaf is the vector of specified entries.

So a map over a tree reaches specified entries only, and the mask is part of the tree's structure. optree is
imported, and the node registered, when the first masked tensor is made.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

#: What stands for the vector of entries in a tree, of any type.
Child = TypeVar("Child")
_registered: set[type] = set()


def register(kind: type) -> None:
    """Register the class ``kind`` of masked tensors as a node of pytrees, unless this was done before."""
    if kind in _registered:
        return
    _registered.add(kind)
    import optree
    from optree.registry import __GLOBAL_NAMESPACE as everywhere

    def flatten(x: Any) -> tuple[tuple[Any], Any, tuple[str]]:
        return (x._inner,), x._mask, ("specified",)

    def unflatten(mask: Hashable, children: Iterable[Child]) -> Any:
        (child,) = children
        return kind(child, mask)

    optree.register_pytree_node(kind, flatten, unflatten, namespace=everywhere)
