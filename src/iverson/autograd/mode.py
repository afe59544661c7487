"""Grad mode: whether ops are recorded, a context variable, so that every thread and task has its own."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from iverson.core.errors import ArgumentTypeError
from iverson.core.inputs.arguments import as_flag, as_function
from iverson.core.table import derived

if TYPE_CHECKING:
    from iverson.core.dispatch import Handle

P = ParamSpec("P")
R = TypeVar("R")

_recording: ContextVar[bool] = ContextVar("iverson_recording", default=True)
_before: ContextVar[tuple[tuple[bool, bool], ...]] = ContextVar("iverson_recording_before", default=())
_constant: ContextVar[bool] = ContextVar("iverson_constant", default=False)

is_grad_enabled: Callable[[], bool] = _recording.get
#: For what is called once per pass, in place of a with block: ``reset_recording(set_recording(mode))``.
set_recording, reset_recording = _recording.set, _recording.reset
#: Whether the user said that what is computed here is constant: a level, of which it is not known whether its
#: values are differentiated from outside, writes that down. Passes that nobody records say nothing of that.
is_constant: Callable[[], bool] = _constant.get
set_constant, reset_constant = _constant.set, _constant.reset


@derived
def is_recorded(x: Handle) -> bool:
    """True if an op on ``x`` would be recorded now: it is tracked and recording is on.

    Derivatives of ``x`` are then needed at entries where it is zero, too.
    """
    return x._node is not None and is_grad_enabled()


class _Mode:
    """A with block, or a decorated function, in which ops are recorded (``mode`` is True) or not.

    The mode before the block is kept per context, so that one object serves many threads.
    """

    __slots__ = ("_mode",)

    #: Whether it is the user who says so.
    BY_USER = False

    def __init__(self, mode: bool) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        _before.set((*_before.get(), (_recording.get(), _constant.get())))
        self._set()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        *outer, (mode, constant) = _before.get()
        _before.set(tuple(outer))
        _recording.set(mode)
        _constant.set(constant)

    def _set(self) -> None:
        _recording.set(self._mode)
        if self.BY_USER:
            _constant.set(not self._mode)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function so that each call runs in this mode; refuses generators and coroutines."""
        mode = self._mode
        kind = _UsersMode if self.BY_USER else _Mode
        as_function(function, type(self).__name__, "function")
        if isgeneratorfunction(function) or iscoroutinefunction(function) or isasyncgenfunction(function):
            raise ArgumentTypeError(
                type(self).__name__,
                "function",
                got=f"{function.__qualname__}, which runs after its call has returned",
                expected="a plain function",
                remedy="use a with block inside it",
            )

        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            with kind(mode):
                return function(*args, **kwargs)

        return wrapped


recording = _Mode


class _UsersMode(_Mode):
    """Mode that the user sets."""

    __slots__ = ()

    BY_USER = True


class set_grad_enabled(_UsersMode):
    """Record ops from here on, or not; as a with block or decorator, until its end.

    >>> import iverson as iv
    >>> x = iv.asarray(1.0, requires_grad=True)
    >>> with set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad, (x * 2).requires_grad
    (False, True)
    """

    __slots__ = ("_previous",)

    def __init__(self, mode: bool) -> None:
        super().__init__(as_flag(mode, "set_grad_enabled", "mode"))
        self._previous = _recording.get(), _constant.get()
        self._set()

    def __enter__(self) -> None:
        _before.set((*_before.get(), self._previous))
        self._set()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        _recording.set(self._previous[0])
        _constant.set(self._previous[1])
        return super().__call__(function)


class no_grad(_UsersMode):
    """Within this block (or decorated function) nothing is recorded.

    >>> import iverson as iv
    >>> x = iv.asarray(1.0, requires_grad=True)
    >>> with no_grad():
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ()

    def __new__(cls, function: Callable[P, R] | None = None) -> Any:
        """The context manager, or with ``@no_grad`` the decorated function."""
        return super().__new__(cls) if function is None else _UsersMode(False)(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(False)


class enable_grad(_UsersMode):
    """Within this block (or decorated function) ops are recorded, also inside `no_grad`.

    >>> import iverson as iv
    >>> x = iv.asarray(1.0, requires_grad=True)
    >>> with no_grad(), enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    __slots__ = ()

    def __new__(cls, function: Callable[P, R] | None = None) -> Any:
        """The context manager, or with ``@enable_grad`` the decorated function."""
        return super().__new__(cls) if function is None else _UsersMode(True)(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(True)


__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]
