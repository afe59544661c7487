"""`SettledState`: tensors that a compiled step reads and writes in place, as its last call left them.

A call of a stateful function asks of each tensor whether it is still of the dtype, shape and kind that were
traced, whether its memory is its own, and what shares it. While no other code touches the tensors between two
calls, the answers are those of the last call; that nobody did takes a few C-level passes over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, call, is_
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from iverson.core.dispatch import Handle, Operand, make_handle
from iverson.core.protocols import NDArray
from iverson.handles.views import is_linked, unlinked
from iverson.layouts.strided import has_one_owner, holds_alone

_values, _nodes, _links = attrgetter("_value"), attrgetter("_node"), attrgetter("_link")


def _owners(arrays: Sequence[NDArray], count: int) -> list[int]:
    """Numbers of references to the first ``count`` arrays."""
    return list(map(getrefcount, arrays[:count]))


def _references_of_one_owner() -> int:
    handles = [make_handle(np.empty(0))]
    return _owners(list(map(_values, handles)), 1)[0]


#: What `_owners` gives for an array in one handle and in one list, measured on this interpreter.
_ALONE = _references_of_one_owner()


class SettledState:
    """Strided tensors of which the first ``count`` ones are written in place by each call.

    It refers to them, and to their arrays, weakly: a reference more would be another owner of the memory.
    """

    __slots__ = ("_arrays", "_based", "_count", "_handles", "_nodes", "ids")

    def __init__(self, handles: Sequence[Handle], count: int) -> None:
        for x in handles:
            unlinked(x)
        self._handles = list(map(ref, handles))
        self._arrays = [ref(x._value) for x in handles]
        self._nodes = [x._node for x in handles]
        self._count = count
        #: The written arrays that are views of a buffer, which then has to have one owner, too.
        self._based = [k for k, x in enumerate(handles[:count]) if x._value.base is not None]
        #: The identities of the handles.
        self.ids = frozenset(map(id, handles))

    @classmethod
    def of(cls, handles: Sequence[Operand], count: int) -> SettledState | None:
        """The state, if all handles have strided values, no parts, and memory of their own where written."""
        tensors = [x for x in handles if isinstance(x, Handle) and type(x._value) is np.ndarray]
        if len(set(map(id, tensors))) < len(handles) or any(map(is_linked, tensors)):
            return None
        if not all(holds_alone(x) and x._value.flags.carray for x in tensors[:count]):
            return None
        return cls(tensors, count)

    def arrays(self) -> list[NDArray] | None:
        """The arrays of the tensors; None if anything but their entries has changed, or has another owner."""
        handles: list[Any] = list(map(call, self._handles))
        try:
            arrays: list[NDArray] = list(map(_values, handles))
        except AttributeError:  # None, of a handle that no longer exists
            return None
        if not all(map(is_, arrays, map(call, self._arrays))):
            return None
        if not all(map(is_, map(_nodes, handles), self._nodes)) or any(map(_links, handles)):
            return None
        if max(_owners(arrays, self._count), default=0) > _ALONE:
            return None
        for k in self._based:
            base = arrays[k].base
            if not has_one_owner(base):  # type: ignore[arg-type]
                return None
        return arrays
