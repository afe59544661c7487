"""Whether ops are recorded: a context variable, so that every thread and task has its own."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any

from iverson.core.errors import ArgumentTypeError

_recording: ContextVar[bool] = ContextVar("iverson_recording", default=True)
_before: ContextVar[tuple[bool, ...]] = ContextVar("iverson_recording_before", default=())

is_grad_enabled: Callable[[], bool] = _recording.get


class set_grad_enabled:
    """A context manager and decorator within which ops are recorded, or not.

    >>> import iverson as iv
    >>> x = iv.asarray(1.0, requires_grad=True)
    >>> with set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self._mode = mode

    # What to go back to is kept per context too, so that one object serves many threads.
    def __enter__(self) -> None:
        _before.set((*_before.get(), _recording.get()))
        _recording.set(self._mode)

    def __exit__(self, *_: object) -> None:
        *rest, mode = _before.get()
        _before.set(tuple(rest))
        _recording.set(mode)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        mode = self._mode
        if isgeneratorfunction(function) or iscoroutinefunction(function) or isasyncgenfunction(function):
            raise ArgumentTypeError(
                type(self).__name__,
                "function",
                got=f"{function.__qualname__}, which runs after its call has returned",
                expected="a plain function",
                remedy="use a with block inside it",
            )

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(mode):
                return function(*args, **kwargs)

        return wrapped


class no_grad(set_grad_enabled):
    """Within this context (or decorated function) nothing is recorded.

    >>> import iverson as iv
    >>> x = iv.asarray(1.0, requires_grad=True)
    >>> with no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(set_grad_enabled):
    """Within this context (or decorated function) ops are recorded, also inside `no_grad`.

    >>> import iverson as iv
    >>> x = iv.asarray(1.0, requires_grad=True)
    >>> with no_grad(), enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    def __init__(self) -> None:
        super().__init__(True)
