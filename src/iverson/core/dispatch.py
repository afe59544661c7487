"""How a call finds its interpreter: the protocol of a handle and one registry of interpreters.

`bind(op, args, params)` is the only door into an op. What happens behind it depends on the kinds of
handles among the arguments: the rooms above register theirs (eager and recording, tracing, batching,
masked), each with a priority; the highest among a call's arguments takes the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iverson.core.op import Op

NO_PARAMS: dict[str, Any] = {}


class Handle:
    """The protocol of an eager handle: a layout's value, the node that made it, and which result it is.

    ``_node`` is None where no gradient is tracked. A handle may be rebound to another value and node;
    nodes therefore keep values and nodes, never handles. ``_place`` is set only where the handle keeps the
    place of a gradient alive (`iverson.autograd.node.GradientPlace`).
    """

    __slots__ = ("__weakref__", "_index", "_node", "_place", "_value")

    def __init__(self, value: Any, node: Any = None, index: int = 0) -> None:
        self._value = value
        self._node = node
        self._index = index

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, one per axis."""
        return self._value.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """The dtype of the entries."""
        return self._value.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._value.shape)


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
    best = _default[0]
    if _by_type:
        for arg in args:
            found = _by_type.get(type(arg))
            if found is not None and found.priority > best.priority:
                best = found
    return best.bind(op, args, params)
