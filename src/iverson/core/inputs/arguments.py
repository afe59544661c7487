"""Argument checks: arguments that are no arrays (flags, functions), checked by their annotation in one place.

Shapes, axes, integers and choices are in `iverson.core.shapes`, arrays in `iverson.core.inputs.arrays`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np

from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.python.foreign_names import is_needless, keyword_remedy
from iverson.core.python.parameters import positional, takes_keywords
from iverson.core.shapes import as_int

T = TypeVar("T")
#: A check of an argument: of its value, and of what errors call the operation and the argument.
Check: TypeAlias = Callable[[Any, str, str], Any]
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def as_flag(value: Any, operation: str, argument: str) -> bool:
    """The argument as a bool; raises ArgumentTypeError unless it is True, False, 0, 1 or a bool of NumPy."""
    if value is True or value is False:
        return bool(value)
    if isinstance(value, np.bool_) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise ArgumentTypeError(
        operation, argument, got=described(value), expected="True or False", remedy="convert it with bool()"
    )


def as_function(value: T, operation: str, argument: str) -> T:
    """The argument itself; raises ArgumentTypeError if it cannot be called."""
    if not callable(value):
        raise ArgumentTypeError(
            operation,
            argument,
            got=described(value),
            expected="a function",
            remedy="pass the function itself, not its result",
        )
    return value


def as_sequence(value: Iterable[T], operation: str, argument: str) -> tuple[T, ...]:
    """The argument as a tuple; raises ArgumentTypeError unless it is a list or tuple."""
    if not isinstance(value, (list, tuple)):
        raise ArgumentTypeError(
            operation,
            argument,
            got=described(value),
            expected="a list or tuple",
            remedy="put a single one in a tuple",
        )
    return tuple(value)


def as_real(value: T, operation: str, argument: str) -> T:
    """The argument itself; raises ArgumentTypeError unless it is a real number (a bool is none)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(operation, argument, got=described(value), expected="a real number")
    return value


#: By the name of a range (`handles.typing`): whether a number is in it, and what errors call such numbers.
_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Positive": (lambda x: x > 0, "a number above 0"),
    "NonNegative": (lambda x: x >= 0, "a number of at least 0"),
    "Share": (lambda x: 0 <= x <= 1, "a number in [0, 1]"),
}


def _in_range(name: str) -> Check:
    """Check that an argument is a real number in the range called ``name`` in `_RANGES`."""
    inside, words = _RANGES[name]

    def check(value: T, operation: str, argument: str) -> T:
        if not inside(as_real(value, operation, argument)):
            raise ArgumentError(operation, argument, got=str(value), expected=words)
        return value

    return check


def _or_none(check: Check) -> Check:
    """Check that an argument is None or passes ``check``."""
    return lambda value, operation, argument: None if value is None else check(value, operation, argument)


#: What a parameter's annotation asks of its argument.
CHECKS: dict[str, Check] = {
    "bool": as_flag,
    "bool | None": _or_none(as_flag),
    "float": as_real,
    "float | None": _or_none(as_real),
    "int": as_int,
    "Function": as_function,
    "Callable[[Any], Any]": as_function,
    "Callable[P, Any]": as_function,
    "Callable[P, R]": as_function,
    "Sequence[Any]": as_sequence,
    "Sequence[Tree]": as_sequence,
    "Callable[[X], X | None]": as_function,
    **{name: _in_range(name) for name in _RANGES},
    **{f"{name} | None": _or_none(_in_range(name)) for name in _RANGES},
}


def checked(function: AnyFunction, name: str = "") -> AnyFunction:
    """Wrap ``function`` so that each call checks arguments whose annotation is in `CHECKS`, and an error
    about an unknown keyword names one of the function's.

    A function without keywords and such parameters is returned unchanged.

    name : the name of the function in errors; by default its own name, for a constructor that of the class.
    """
    annotations = function.__annotations__.items()
    checks = {p: CHECKS[a] for p, a in annotations if a in CHECKS and p != "return"}
    if not (checks or takes_keywords(function)):
        return function
    path = function.__qualname__.removesuffix(".__init__").split(".")
    operation = name or path[-1].strip("_")
    positional_checks = [(k, p, checks[p]) for k, p in enumerate(positional(function)[0]) if p in checks]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if checks:
            for key, value in kwargs.items():
                if key in checks:
                    kwargs[key] = checks[key](value, operation, key)
            for k, key, check in positional_checks:
                if k < len(args):
                    args = (*args[:k], check(args[k], operation, key), *args[k + 1 :])
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            options = {k: v for k, v in kwargs.items() if v is not None or not is_needless(k)}
            if len(options) < len(kwargs) and _unknown_keyword(function, kwargs, operation):
                return call(*args, **options)  # as NumPy passes on out=None
            if (refusal := _unknown_keyword(function, kwargs, operation)) is None:
                raise
            raise refusal from error

    return call  # type: ignore[return-value]


def _unknown_keyword(
    function: AnyFunction, keywords: Iterable[str], operation: str
) -> ArgumentTypeError | None:
    """Error about the first keyword that a function does not take; None if it takes all."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = next((key for key in keywords if key not in names), None)
    if unknown is None:
        return None
    if unknown in {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}:
        expected, remedy = "an argument by position", f"write {operation}({unknown}, ...)"
    else:
        expected = " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) if names else "no keyword"
        remedy = keyword_remedy(unknown, names)
    return ArgumentTypeError(
        operation, unknown, got="a keyword that it does not have", expected=expected, remedy=remedy
    )
