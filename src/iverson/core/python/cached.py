"""Cached attributes: computed at the first access and kept.

There is no lock: the computation may run code of users, and another thread may fork meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """`functools.cached_property` with no lock; until Python 3.11 that has one lock for all instances.

    Threads that meet at the first access may each compute the value; all of them get the same one.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.function(instance))


__all__ = ["cached_property"]
