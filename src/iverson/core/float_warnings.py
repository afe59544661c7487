"""NumPy's floating-point warnings, issued at the user's line.

NumPy warns at the innermost Python frame, which for an op is one of this package's. While an op runs, NumPy's
error state has the mode "log" where the user's has "warn": then NumPy hands its message to a `Relay`, which
warns at the user's line. Every other mode keeps its meaning. The state is a context variable, as NumPy's own
is, so each thread and task has its own.

``np.errstate`` costs more than a small op. Here the state that serves one of the user's is made once, and the
variable set directly. It is private to NumPy: where it is missing, warnings name the line that NumPy gives.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np

from iverson.core.caller import warn

P = ParamSpec("P")
R = TypeVar("R")

_umath: Any = getattr(getattr(np, "_core", None), "umath", None)

#: Whether this NumPy has what is needed.
SUPPORTED = all(hasattr(_umath, n) for n in ("_extobj_contextvar", "_make_extobj", "_get_extobj_dict"))

_state: ContextVar[Any] = (
    _umath._extobj_contextvar if SUPPORTED else ContextVar("iverson_error_state", default=None)
)
error_state = _state.get
set_error_state = _state.set
reset_error_state = _state.reset

#: The categories as NumPy's messages name them, and as its error states do.
_CATEGORIES = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}

#: The state that serves each state of the user's, for the latest few of these.
_relayed: dict[Any, Any] = {}
_FEW = 8


class Relay:
    """What NumPy hands its messages to: warns, or passes them on to the user's own ``np.seterrcall``.

    call : the user's function, or object with a method ``write``; None where none is set.
    logged : the categories for which the user's own mode is "log".
    """

    __slots__ = ("call", "logged")

    def __init__(self, call: Any, logged: frozenset[str]) -> None:
        self.call = call
        self.logged = logged

    def write(self, text: str) -> None:
        """NumPy's mode "log": ``text`` is 'Warning: overflow encountered in exp' and an end of line."""
        message = text.removeprefix("Warning: ").removesuffix("\n")
        if _CATEGORIES.get(message.partition(" encountered")[0]) in self.logged:
            self.call.write(text)
        else:
            warn(message, RuntimeWarning)

    def __call__(self, category: str, flags: int) -> None:
        """NumPy's mode "call"."""
        self.call(category, flags)


def _relaying() -> Any:
    """The state in place of the current one: that itself where nothing is relayed."""
    modes = _umath._get_extobj_dict()
    call = modes.pop("call")
    if not {"warn", "call", "log"}.intersection(modes.values()):
        return error_state()
    logged = frozenset(name for name, mode in modes.items() if mode == "log")
    changed = {name: "log" if mode == "warn" else mode for name, mode in modes.items()}
    return _umath._make_extobj(**changed, call=Relay(call, logged))


def relayed(state: Any) -> Any:
    """The state in which ops run where the user's, the current one, is ``state``."""
    found = _relayed.get(state)
    if found is None:
        found = _relaying() if SUPPORTED else state
        if len(_relayed) >= _FEW:
            _relayed.clear()
        _relayed[state] = found
    return found


#: The state of a program that sets none, and what serves it.
UNSET = Context().run(error_state)
UNSET_RELAYED = Context().run(lambda: relayed(UNSET))


def at_user_line(function: Callable[P, R]) -> Callable[P, R]:
    """The function, of whose call NumPy warns at the user's line: for what computes or casts outside ops."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        token = set_error_state(relayed(error_state()))
        try:
            return function(*args, **kwargs)
        finally:
            reset_error_state(token)

    return call


@at_user_line
def cast(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """``array.astype(dtype)``."""
    return array.astype(dtype)


def is_of_user(error: BaseException) -> bool:
    """Whether the user's ``np.seterrcall`` function raised the error, or a filter made it of a warning."""
    trace = error.__traceback__
    codes = (Relay.write.__code__, Relay.__call__.__code__)
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False
