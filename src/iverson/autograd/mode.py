"""Whether ops are recorded: a context variable, so that every thread and task has its own."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from typing import Any

_recording: ContextVar[bool] = ContextVar("iverson_recording", default=True)

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
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        self._tokens.append(_recording.set(self._mode))

    def __exit__(self, *_: object) -> None:
        _recording.reset(self._tokens.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        mode = self._mode

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
