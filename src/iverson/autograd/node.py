"""Nodes of the recorded graph: what an op leaves behind for differentiation.

A node keeps values and the nodes it came from, never handles, so there are no reference cycles and no
gradient outlives its use. Its number grows with time: parents have smaller ones, so sorting by number is
a topological order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from operator import attrgetter, itemgetter
from types import CodeType
from typing import Any, TypeAlias
from weakref import ref

from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, make_handle
from iverson.core.entries import FULL, Entries
from iverson.core.op import Op
from iverson.core.protocols import DType, Params, Shaped
from iverson.core.python.caller import user_frame

#: What rules get of an argument as it is held.
_GIVEN = frozenset((Aval, int, float, complex, bool, type(None)))
_numbers = itertools.count()
next_number = _numbers.__next__

Hook = Callable[[Any], Any]
#: A demand of an argument and that of the result (see `Node`): Entries or None, a tuple of several results.
Reads: TypeAlias = tuple[Entries | None, Entries | tuple[Entries, ...] | None]
#: The code object and instruction of a user's call.
Where = tuple[CodeType, int]


class Node:
    """One recorded op (``op`` is None for a leaf).

    args : the arguments of the op: the value in its layout if a rule may read it, else an Aval, or a Python
        scalar.
    parents, indices : for each argument the node it came from (or None) and its position in that node's
        results.
    out : the result in the same form; a tuple if the op has several.
    reads : a pair of demands: if the demand of each argument is the first of these or nothing, that of the
        result is the second. Both are Full (`WHOLE`) if no argument had a support, and a pattern if all
        operands and the result are on it. `UNKNOWN` if `iverson.autograd.plan.demanded` must compute it.
    where : the code object and instruction of the user's call.
    multiple : True if the op has several results.
    number : grows with the time at which nodes are made.
    meta : rare facts; None if there are none.
    """

    __slots__ = (
        "args",
        "indices",
        "meta",
        "multiple",
        "number",
        "op",
        "out",
        "params",
        "parents",
        "reads",
        "where",
    )

    op: Op | None
    multiple: bool
    args: tuple[Any, ...]
    params: Params
    parents: tuple[Node | None, ...]
    indices: tuple[int, ...]
    out: Any
    where: Where | None
    reads: Reads
    number: int
    meta: NodeMeta | None

    def result(self, index: int) -> Aval:
        """Shape and dtype of one result."""
        value = self.out[index] if self.multiple else self.out
        return Aval(value.shape, value.dtype)

    def inputs(self) -> tuple[Any, ...]:
        """The arguments as rules get them: handles, Avals for values not kept, Python scalars."""
        operands = list(self.args)
        for k, operand in enumerate(operands):
            if type(operand) not in _GIVEN:
                operands[k] = make_handle(operand, self.parents[k], self.indices[k])
        return tuple(operands)

    def results(self) -> Any:
        """The result (a tuple where the op has several), as rules get it."""
        if not self.multiple:
            return self.out if type(self.out) is Aval else make_handle(self.out, self)
        return tuple([h if type(h) is Aval else self._result(h, k) for k, h in enumerate(self.out)])

    def _result(self, value: Shaped, k: int) -> Any:
        """Handle of result ``k`` of several; it has no node if its dtype is integer or bool."""
        return make_handle(value, self, k) if value.dtype.kind in "fcV" else make_handle(value)

    def describe(self) -> str:
        """Text for messages: the op and the user's line that called it."""
        name = "leaf" if self.op is None else f"'{self.op.name}'"
        return name if self.where is None else f"{name} called at {line_of(self.where)}"


def make_node(
    op: Op | None,
    args: tuple[Shaped | complex | None, ...],
    params: Params,
    parents: tuple[Node | None, ...],
    indices: tuple[int, ...],
    out: Shaped | tuple[Shaped, ...],
    where: Where | None,
    reads: Reads = (None, None),
) -> Node:
    """A new node; see `Node` for the arguments.

    A function in place of ``__init__``, which takes three times as long to be called.
    """
    node = _new(Node)
    node.op = op
    node.multiple = op is not None and op.multiple
    node.args = args
    node.params = params
    node.parents = parents
    node.indices = indices
    node.out = out
    node.where = where
    node.reads = reads
    node.number = next_number()
    node.meta = None
    return node


_new = object.__new__

#: What `Node.reads` is where no argument had a support, and where nothing is known.
WHOLE: Reads = (FULL, FULL)
UNKNOWN: Reads = (None, None)


class GradSlot:
    """Place in which ``backward`` sums up the gradient of one result; ``.grad`` reads it.

    Handles own it, and the node has a weak reference. A recorded gradient leads back to its node, so a node
    that owned its gradient would be a cycle; and a gradient that no handle can read need not be computed.
    """

    __slots__ = ("__weakref__", "gradient")

    def __init__(self) -> None:
        self.gradient: Any = None


class PausedLeaf:
    """State of a handle while it is taken out of the graph: its leaf, and the gradient it had."""

    __slots__ = ("__weakref__", "gradient", "node")

    def __init__(self, node: Node, gradient: Handle | None) -> None:
        self.node = node
        self.gradient: Any = gradient


class NodeMeta:
    """Rare facts of a node: hooks, retained results and the places of gradients, by result.

    hooks : by result and number, each with the user's call that registered it.
    stored : of a sparse leaf, the number of entries that it stores.
    """

    __slots__ = ("hooks", "places", "retain", "stored")

    def __init__(self) -> None:
        self.hooks: dict[int, dict[int, tuple[Hook, Where | None]]] = {}
        self.retain: set[int] = set()
        self.places: dict[int, ref[GradSlot]] = {}
        self.stored: int | None = None


def meta_of(node: Node) -> NodeMeta:
    """The node's `NodeMeta`, made when first asked for."""
    if node.meta is None:
        node.meta = NodeMeta()
    return node.meta


def grad_slot(node: Node | None, index: int) -> GradSlot | None:
    """The place of the gradient of result ``index``; None if no handle owns one."""
    reference = None if node is None or node.meta is None else node.meta.places.get(index)
    return None if reference is None else reference()


def hold_gradient(x: Handle) -> GradSlot:
    """Make the handle ``x`` an owner of the place of its gradient, and return the place."""
    place = grad_slot(x._node, x._index)
    if place is None:
        place = GradSlot()
        meta_of(x._node).places[x._index] = ref(place)
    x._place = place
    return place


_NO_PARAMS: dict[str, Any] = {}


def leaf(shape: tuple[int, ...], dtype: DType) -> Node:
    """A new node without an op: a variable of this shape and dtype."""
    return make_node(None, (), _NO_PARAMS, (), (), Aval(shape, dtype), None)


def user_call(depth: int = 1) -> Where | None:
    """Code object and instruction of the innermost frame outside this package; None without such a frame.

    depth : see `user_frame`, counted from the caller of this function.
    """
    frame = user_frame(depth + 1)
    return None if frame is None else (frame.f_code, frame.f_lasti)


#: The user's call that is differentiated, or said otherwise, while a level writes that down; else None.
differentiated: ContextVar[Where | None] = ContextVar("iverson_differentiated", default=None)


def line_of(where: Where) -> str:
    """File and line of a user's call."""
    code, instruction = where
    positions = list(code.co_positions())
    line = positions[instruction // 2][0] if instruction >= 0 else code.co_firstlineno
    return f"{code.co_filename}:{line}"


def reachable(roots: Iterable[Node], floor: int) -> list[Node]:
    """Roots and all nodes that they depend on, with numbers of at least ``floor``, oldest first."""
    nodes = []
    visited: set[Node | None] = {None}
    for node in roots:
        if node not in visited and node.number >= floor:
            visited.add(node)
            nodes.append(node)
    for node in nodes:  # which grows
        for parent in node.parents:
            if parent not in visited:
                visited.add(parent)
                if parent.number >= floor:  # type: ignore[union-attr]
                    nodes.append(parent)  # type: ignore[arg-type]
    return sorted(nodes, key=_number)


_number = attrgetter("number")


def oldest(slots: Iterable[tuple[Node, int]]) -> int:
    """The smallest number of the nodes in ``slots``; 0 if there are none."""
    return min(map(_number, map(first, slots)), default=0)


#: The node of a slot; the slot of a seed.
first = itemgetter(0)
