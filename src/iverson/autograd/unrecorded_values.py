"""Unrecorded values in a `Function`, computed without a record or read from its closure: none is a constant.

``forward`` runs under `no_grad`, and rules may leave for NumPy. During such a call the handles of values
that depend on its inputs are marked (``_node`` None, ``_index`` UNRECORDED), and it is noted if one of them
leaves as numbers. A derivative that would flow through them raises.

Tracked tensors that ``forward`` reads and that are no arguments are noted too: the call depends on them. A
rule or a hook may read some as well; a pass of a transform looks for that (`looking`), and is then recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any
from weakref import ref

from iverson.autograd.joint_ops import JointOp
from iverson.autograd.mode import is_grad_enabled
from iverson.autograd.node import Node, make_node, next_number, reachable, user_call
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, Operand, make_handle
from iverson.core.entries import NOTHING, Entries
from iverson.core.errors import GradientError
from iverson.core.protocols import NDArray, Shaped
from iverson.core.python import locks

#: The index of a handle without a node whose value depends on what is differentiated: on a Function's inputs
#: alone, or (in a rule) on the cotangents or tangents that arrived, too.
UNRECORDED, OF_ARRIVED = -1, -2

Slot = tuple[Node, int]


class Call:
    """Notes about one call of a method of a Function: the values it read and computed without a record.

    arrived : the nodes of the cotangents or tangents handed to a rule.
    given : slots of the arguments, which do not count as read from around the call.
    around : the slots of tracked results that it read, recorded before the call and not among the ``given``
        ones.
    left, arrived_left : True if a value that depends on its inputs, or on ``arrived``, left the library as
        numbers or an array.
    handles : weak references to the handles marked in it.
    bar : for a rule in a recorded pass, ``bar(handle)`` makes a node for a marked handle (`barrier`).
    since : a node with a smaller number was recorded before the call.
    """

    __slots__ = ("around", "arrived", "arrived_left", "bar", "given", "handles", "left", "since")

    def __init__(
        self,
        arrived: Iterable[Handle] = (),
        bar: Callable[[Handle], Node] | None = None,
        given: Collection[Slot] = (),
    ) -> None:
        self.bar = bar
        self.given = given
        self.since = next_number()
        self.around: dict[Slot, None] = {}
        self.arrived = {g._node for g in arrived if g._node is not None}
        self.left = self.arrived_left = False
        self.handles: list[ref[Handle]] = []

    def read(self, args: Iterable[Operand | NDArray | complex | None]) -> None:
        """Note in ``around`` those of these handles recorded before the call that are no arguments."""
        for x in args:
            if not isinstance(x, Handle):
                continue
            node = x._node
            if node is not None and node.number < self.since and (node, x._index) not in self.given:
                self.around[node, x._index] = None

    def dependence(self, x: Operand | NDArray | complex | None) -> int:
        """Mark for a handle that depends on ``x``: `UNRECORDED`, `OF_ARRIVED`, or 0 for a constant."""
        if not isinstance(x, Handle):
            return 0
        if x._node is None:
            return min(x._index, 0)
        floor = min((node.number for node in self.arrived), default=0)
        depends_on_arrived = bool(self.arrived) and not self.arrived.isdisjoint(reachable([x._node], floor))
        return OF_ARRIVED if depends_on_arrived else UNRECORDED


class _Calls:
    """Number of calls that are watched in all threads: while it is zero, nothing else is checked."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.lock = locks.lock()


calls = _Calls()
_call: ContextVar[Call | None] = ContextVar("iverson_unrecorded", default=None)


@contextmanager
def watched(call: Call) -> Iterator[Call]:
    """Context in which unrecorded values that depend on the inputs of ``call`` are marked (`mark`)."""
    with calls.lock:
        calls.count += 1
    token = _call.set(call)
    try:
        yield call
    finally:
        _call.reset(token)
        with calls.lock:
            calls.count -= 1


class Looking:
    """State of an unrecorded pass, of a function whose nodes have the numbers ``own``.

    found : True if a user's rule or hook read a tracked tensor that is not the function's.
    """

    __slots__ = ("found", "own")

    def __init__(self, pass_numbers: range) -> None:
        self.own = pass_numbers
        self.found = False


_looking: ContextVar[Looking | None] = ContextVar("iverson_looking", default=None)


@contextmanager
def looking(pass_numbers: range) -> Iterator[Looking]:
    """Context for a pass that must run again, recorded, if ``found`` of its `Looking` is then True.

    A user's rule or hook then has read a tracked tensor from outside of the function.

    pass_numbers : the numbers of the function's nodes.
    """
    state = Looking(pass_numbers)
    token = _looking.set(state)
    try:
        yield state
    finally:
        _looking.reset(token)


def of_user() -> AbstractContextManager[Any]:
    """Context for a rule of a user, or a hook, in a pass that is not recorded; see `looking`."""
    state = _looking.get()
    return nullcontext(Call()) if state is None else _looked_at(state)


def runs_code_of_user(node: Node) -> bool:
    """True if backward at a node calls a rule of a user or a hook, which `looking` would look at."""
    return isinstance(node.op, JointOp) or (node.meta is not None and bool(node.meta.hooks))


@contextmanager
def _looked_at(state: Looking) -> Iterator[Call]:
    """Context for the code of a user: sets ``state.found`` if it reads a tracked outside tensor."""
    with watched(Call()) as call:
        yield call
    state.found |= any(node.number not in state.own for node, _ in call.around)


def is_unrecorded(x: Handle) -> bool:
    """True if a handle's value depends on a differentiated one, but it has no node (see `mark`)."""
    return x._node is None and x._index < 0


def untracked(x: Handle) -> Any:
    """A handle of the value of ``x`` without a node; it is marked as unrecorded if a Function is running.

    If ``x`` has a value of a level, the tensor outside that it stands for may still be tracked.
    """
    handle = make_handle(x._value)
    if calls.count:
        mark((handle,), (x,))
    return handle


def mark(results: Iterable[Operand | None], args: Iterable[Operand | NDArray | complex | None]) -> None:
    """Mark ``results`` without a node as unrecorded, if one of ``args`` is tracked or marked.

    It does nothing outside of a call that is `watched`.
    """
    call = _call.get()
    if call is None:
        return
    args = tuple(args)
    call.read(args)
    if not (dependence := min(map(call.dependence, args), default=0)):
        return
    for x in results:
        if isinstance(x, Handle) and x._node is None and x.dtype.kind in "fcV":
            x._index = dependence
            call.handles.append(ref(x))


def barred(
    parents: list[Node | None], args: Iterable[Operand | NDArray | complex | None]
) -> list[Node | None]:
    """The nodes of an op's arguments, in which a marked argument of a rule gets a barrier as its node."""
    call = _call.get()
    if call is None:
        return parents
    args = tuple(args)
    call.read(args)
    if call.bar is None:
        return parents
    return [
        call.bar(x) if node is None and isinstance(x, Handle) and x._index < 0 else node
        for node, x in zip(parents, args, strict=True)
    ]


def note_left(x: Handle) -> None:
    """Note that entries of the handle ``x`` leave the library as Python numbers or an array."""
    call = _call.get()
    if call is not None and x.dtype.kind in "fcV" and (dependence := call.dependence(x)):
        call.read((x,))
        call.left = True
        call.arrived_left |= dependence == OF_ARRIVED


def barrier(
    name: str, description: str, meta: Shaped, closed: Sequence[Slot], recorded: Sequence[Slot] = ()
) -> Node:
    """A node for a value that was computed without a complete record.

    A derivative that would flow through it to one of the ``closed`` results raises GradientError. A
    derivative to the ``recorded`` result is allowed; as it is multiplied with values that depend on the
    closed ones, it gets a barrier itself.

    name, description : the function and the value, for the error.
    meta : has the shape and dtype of the value.
    closed : slots that the value depends on in an unknown way.
    recorded : the slot (or none) on which the dependence is known.
    """

    def passed(refused: bool, g: Handle | None) -> Any:
        if refused:
            raise GradientError(
                name,
                got=f"a derivative through {description}",
                expected="functions of iverson on the inputs and results of forward: these are recorded",
                remedy="compute it in the rule from saved inputs or results; make an argument of a tensor "
                "that forward reads from around it",
            )
        return behind(name, description, g, closed) if is_grad_enabled() else g

    def joint(needs: tuple[Entries, ...], _node: Node, g: Handle | None) -> Any:
        refused = any(need is not NOTHING for need in needs[: len(closed)])
        return *(None for _ in closed), passed(refused, g)

    def joint_jvp(tangents: tuple[Handle | None, ...], _node: Node) -> Any:
        refused = any(t is not None for t in tangents[: len(closed)])
        return (passed(refused, tangents[-1]),)

    aval = Aval(meta.shape, meta.dtype)
    op = JointOp(name=name, forward=passed, abstract=lambda *_: aval, joint=joint, joint_jvp=joint_jvp)
    parents = [*closed, *recorded]
    avals = tuple(node.result(index) for node, index in parents)
    nodes, indices = tuple(node for node, _ in parents), tuple(index for _, index in parents)
    return make_node(op, avals, {}, nodes, indices, aval, user_call())


def behind(name: str, description: str, x: Any, closed: Sequence[Slot]) -> Any:
    """A handle with the value of ``x`` and a `barrier` as its node.

    Derivatives can pass to the result that ``x`` is recorded as, not to the ``closed`` ones.
    """
    slots = [] if x._node is None else [(x._node, x._index)]
    return make_handle(x._value, barrier(name, description, x, closed, slots))
