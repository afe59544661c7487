"""Argument aliases: names that other libraries have for an argument, in one table with their meaning here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from iverson.core.errors import ArgumentError
from iverson.core.inputs.arguments import as_flag
from iverson.core.protocols import Params

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Alias:
    """Meaning of an argument that is called by another name.

    own : the argument that it stands for ("": none; the function always does what this argument asks for).
    flags : for a flag, the value of ``own`` for each value that is allowed; None if values are passed on.
    remedy : what to do if a value is not allowed.
    """

    own: str = ""
    flags: Mapping[bool, Any] | None = None
    remedy: str = ""


def also_called(**table: Alias) -> Callable[[Callable[P, R]], Callable[..., R]]:
    """Decorator for a function that takes arguments by other names too; ``table`` gives their meaning.

    A flag that is None counts as not given. If several names stand for one argument, the last in the table is
    taken. Raises ArgumentError if such a name and the argument's own name are both given, or if the value of
    a flag is not allowed.

    >>> from iverson.core.inputs.aliases import Alias, also_called
    >>> also_called(turned=Alias("reverse", {True: True, False: False}))(sorted)([1, 2], turned=True)
    [2, 1]
    """

    def named(function: Callable[P, R]) -> Callable[..., R]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            if kwargs and not table.keys().isdisjoint(kwargs):
                kwargs = _own(function.__name__, table, kwargs)
            return function(*args, **kwargs)

        return call

    return named


def _own(operation: str, table: Mapping[str, Alias], kwargs: Params) -> dict[str, Any]:
    """Keyword arguments with the names of ``table`` replaced by the function's own names."""
    arguments = {name: value for name, value in kwargs.items() if name not in table}
    from_aliases: dict[str, Any] = {}
    for name, alias in table.items():
        value = kwargs.get(name)
        if name not in kwargs or (value is None and alias.flags is not None):
            continue
        if alias.own in arguments:
            raise ArgumentError(
                operation, name, got=f"{alias.own} as well", expected="one of them: they are the same"
            )
        if alias.flags is not None:
            flag = as_flag(value, operation, name)
            if flag not in alias.flags:
                raise ArgumentError(
                    operation, name, got=str(flag), expected=str(not flag), remedy=alias.remedy
                )
            value = alias.flags[flag]
        if alias.own and (value is not None or alias.flags is None):
            from_aliases[alias.own] = value
    return arguments | from_aliases


def flag(argument: str) -> Alias:
    """Alias for a flag whose values mean the same as those of the function's own flag ``argument``."""
    return Alias(argument, {True: True, False: False})


#: A flag that changes nothing: the function serves either value.
EITHER = Alias(flags={True: None, False: None})


def only(value: bool, remedy: str) -> Alias:
    """Alias for a flag that must be ``value``: ``remedy`` is said for the other value."""
    return Alias(flags={value: None}, remedy=remedy)
