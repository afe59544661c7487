"""How a call finds its interpreter: the protocol of a handle and one registry of interpreters.

`bind(op, args, params)` is the only door into an op. What happens behind it depends on the kinds of
handles among the arguments: the rooms above register theirs (eager and recording, tracing, batching,
masked), each with a priority; the highest among a call's arguments takes the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.op import Op

NO_PARAMS: dict[str, Any] = {}


class Operand:
    """What functions take as an array: a handle of any kind, with ``shape``, ``dtype`` and ``ndim``."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]:
            """The extents, one per axis."""

        @property
        def dtype(self) -> np.dtype[Any]:
            """The dtype of the entries."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


class Handle(Operand):
    """The protocol of an eager handle: a layout's value, the node that made it, and which result it is.

    ``_node`` is None where no gradient is tracked. A handle may be rebound to another value and node;
    nodes therefore keep values and nodes, never handles. ``_place`` is set only where the handle keeps the
    place of a gradient alive (`iverson.autograd.node.GradientPlace`), or a leaf that it was and may become
    again (`iverson.autograd.node.PausedLeaf`).
    """

    __slots__ = ("__weakref__", "_index", "_node", "_place", "_value")

    _place: Any

    def __init__(self, value: Any, node: Any = None, index: int = 0) -> None:
        self._value = value
        self._node = node
        self._index = index

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, one per axis."""
        return self._value.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the entries."""
        return self._value.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._value.shape)


class Wrapper(Operand, ABC):
    """The protocol of an operand that is one plain handle (``_held``) with a meaning put on it.

    What differentiates (the engine, transforms, gradcheck) works on the held handle and wraps what comes out,
    by `held` and `like`; what computes is an interpreter registered for the kind.
    """

    __slots__ = ()

    _held: Any

    @abstractmethod
    def _around(self, handle: Any) -> Any:
        """The same meaning on another handle, of the held one's shape: plain, or with a meaning itself."""

    @abstractmethod
    def _seed(self, value: Any, operation: str, argument: str) -> Any:
        """A plain handle for the held one's cotangent or tangent, from what a user gave for this operand's.

        Raises ShapeError unless ``value`` has this operand's shape.
        """

    @abstractmethod
    def _block(self, rows: Any, columns: Any, block: Any) -> Any:
        """The block of a Jacobian with entries ``block``, of shape held rows + held columns.

        ``rows`` and ``columns`` are the output and the input that it is of; this operand is one of them.
        """

    @abstractmethod
    def _become(self, result: Any) -> None:
        """Stand for a result of this operand's kind, shape and dtype from now on."""

    @abstractmethod
    def _as_index(self) -> Any:
        """The plain handle or array that this operand stands for as an index."""

    @abstractmethod
    def _counts(self, axes: tuple[int, ...], keepdims: bool) -> Any:
        """How many entries there are over axes, as an operand that divides a sum over them."""

    @abstractmethod
    def _addresses(self) -> Any:
        """The row-major address, in an array of this shape, of each entry of the held handle, a vector."""

    @abstractmethod
    def _without_meaning(self) -> Any:
        """A plain handle with 0 for what is not there."""


def held(x: Any) -> Any:
    """The plain handle of an operand (anything else is itself)."""
    return x._held if isinstance(x, Wrapper) else x


def like(operand: Any, handle: Any) -> Any:
    """A plain handle with the operand's meaning put on it: its gradient, or itself at another point."""
    return operand._around(handle) if isinstance(operand, Wrapper) else handle


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One way to carry out a bound op: ``bind(op, args, params)`` for handles of some kind."""

    name: str
    priority: int
    bind: Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]


_by_type: dict[type, Interpreter] = {}
_default: list[Interpreter] = []
_handle: list[type[Handle]] = [Handle]


def register_interpreter(
    interpreter: Interpreter, kinds: tuple[type, ...] = (), *, default: bool = False
) -> None:
    """Make ``interpreter`` responsible for handles of the given types (and for plain values)."""
    for kind in kinds:
        _by_type[kind] = interpreter
    if default:
        _default[:] = [interpreter]


def register_handle(kind: type[Handle]) -> None:
    """Say which class eager results are handed out as."""
    _handle[0] = kind


def handle_type() -> type[Handle]:
    """The class that eager results are handed out as."""
    return _handle[0]


def make_handle(value: Any, node: Any = None, index: int = 0) -> Any:
    """A new eager handle."""
    return _handle[0](value, node, index)


def alias(x: Any) -> Any:
    """Another handle on the same value and node.

    Rebinding one of them (in place, by assignment) leaves the other as it was: whatever the user's code gets
    from us and we still need goes out as an alias, and whatever comes in and must last is kept as one.
    """
    return _handle[0](x._value, x._node, x._index)


def bind(op: Op, args: tuple[Any, ...], params: dict[str, Any] = NO_PARAMS) -> Any:
    """Carry out ``op`` on handles, arrays and Python scalars; returns what its interpreter returns."""
    return _default[0].bind(op, args, params)


def foreign(args: tuple[Any, ...]) -> Interpreter | None:
    """The interpreter of highest priority registered for one of the arguments, if there is any.

    The default interpreter asks where it meets an argument it does not know, so that calls on plain handles
    never look.
    """
    found = [_by_type[type(arg)] for arg in args if type(arg) in _by_type]
    return max(found, key=lambda interpreter: interpreter.priority) if found else None
