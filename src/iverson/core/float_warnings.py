"""NumPy's floating-point warnings, issued at the user's line.

NumPy warns at the innermost Python frame, which for an op is one of this package's. While an op runs, NumPy's
error state has the mode "log" where the user's has "warn": then NumPy hands its message to a `Relay`, which
warns at the user's line. Every other mode keeps its meaning. The state is a context variable, as NumPy's own
is, so each thread and task has its own.

``np.errstate`` costs more than a small op. Here the state for each state of the user's is made once, and the
variable is set directly. Even this is noticeable in an op that is one ufunc; there the call is repeated once
NumPy is about to warn (`trapping`). The variable is private to NumPy: without it, warnings name NumPy's line.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from iverson.core.protocols import NDArray, Params
from iverson.core.python.caller import warn

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

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
    """Receiver of NumPy's messages: warns, or passes them on to the user's own ``np.seterrcall``.

    call : the user's function, or object with a method ``write``; None where none is set.
    logged : the categories for which the user's own mode is "log".
    """

    __slots__ = ("call", "logged")

    def __init__(self, call: Any, logged: frozenset[str]) -> None:
        self.call = call
        self.logged = logged

    def write(self, text: str) -> None:
        """Receive a line in NumPy's mode "log", for example 'Warning: overflow encountered in exp'."""
        message = text.removeprefix("Warning: ").removesuffix("\n")
        if _CATEGORIES.get(message.partition(" encountered")[0]) in self.logged:
            self.call.write(text)
        else:
            warn(message, RuntimeWarning)

    def __call__(self, category: str, flags: int) -> None:
        """Receive an error in NumPy's mode "call"."""
        self.call(category, flags)


def _relaying() -> Any:
    """A new error state to use in place of the user's current one, with a `Relay`.

    It is the current state itself if that asks for no warnings, calls or logs.
    """
    modes = _umath._get_extobj_dict()
    call = modes.pop("call")
    if not {"warn", "call", "log"}.intersection(modes.values()):
        return error_state()
    logged = frozenset(name for name, mode in modes.items() if mode == "log")
    relayed_modes = {name: "log" if mode == "warn" else mode for name, mode in modes.items()}
    return _umath._make_extobj(**relayed_modes, call=Relay(call, logged))


def relayed(state: Any) -> Any:
    """Error state in which ops run if the user's state, which is the current one, is ``state``; cached."""
    relayed_state = _relayed.get(state)
    if relayed_state is None:
        relayed_state = _relaying() if SUPPORTED else state
        if len(_relayed) >= _FEW:
            _relayed.clear()
        _relayed[state] = relayed_state
    return relayed_state


#: The state of a program that sets none, and what serves it.
UNSET = Context().run(error_state)
UNSET_RELAYED = Context().run(lambda: relayed(UNSET))


def at_user_line(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: NumPy's floating-point warnings name the user's line, for code outside of ops."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        token = set_error_state(relayed(error_state()))
        try:
            return function(*args, **kwargs)
        finally:
            reset_error_state(token)

    return call


#: The state in which NumPy says nothing. One object: a new one for each pass would be served anew each time.
_SILENT: Any = _umath._make_extobj(all="ignore") if SUPPORTED else None


def silent(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: NumPy issues no floating-point warnings while the function runs."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not SUPPORTED:
            with np.errstate(all="ignore"):
                return function(*args, **kwargs)
        token = set_error_state(_SILENT)
        try:
            return function(*args, **kwargs)
        finally:
            reset_error_state(token)

    return wraps(function)(call)


def _calling(ufunc: Callable[..., NDArray]) -> Any:
    def call(*values: NDArray | complex) -> Any:
        return ufunc(*values)

    return call


def trapping(ufunc: Callable[..., NDArray]) -> Any:
    """The ufunc, called from a frame in which a warning of NumPy becomes a TypeError (see `is_trapped`).

    C code that warns looks in the globals of the innermost Python frame for the dict of the warnings that
    were shown before, and raises TypeError if it finds no dict. So a call without a warning costs only one
    frame. A call that would warn is made again with `at_user_line`.
    """
    if not SUPPORTED:
        return ufunc
    call = _calling(ufunc)
    scope = {"__builtins__": builtins, "__name__": __name__, "__warningregistry__": ()}  # C code imports, too
    return FunctionType(call.__code__, scope, call.__name__, None, call.__closure__)


#: The code of frames within which only the user's code runs.
_CALLING_THE_USERS = (Relay.write.__code__, Relay.__call__.__code__, _calling(np.add).__code__)


def is_trapped(error: BaseException) -> bool:
    """True if the error says that NumPy was about to warn in a call of a `trapping` ufunc."""
    return type(error) is TypeError and "'registry' must be a dict" in str(error)


def again(function: Callable[..., R], values: Sequence[NDArray | complex], params: Params) -> R:
    """Repeat a call that was trapped (see `trapping`), with warnings at the user's line."""
    try:
        return at_user_line(function)(*values, **params)
    except Exception as error:
        error.__suppress_context__ = True  # that it was trapped before
        raise


@at_user_line
def cast(array: NDArray, dtype: DTypeLike) -> NDArray:
    """Result of ``array.astype(dtype)``, with NumPy's warnings at the user's line."""
    return array.astype(dtype)


def is_of_user(error: BaseException) -> bool:
    """True if the user's ``np.seterrcall`` function raised the error, or a filter made it of a warning."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_next is not None and trace.tb_frame.f_code in _CALLING_THE_USERS:
            return True
        trace = trace.tb_next
    return False
