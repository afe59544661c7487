"""Decorators for functions that are methods, too: ``x.sum(axis=0)`` is ``iverson.sum(x, axis=0)``.

A function that takes an array first is marked where it is defined, outside of other decorators. Type
checkers read the methods in a stub that `tools.stubs` writes. Arguments are checked as
`iverson.core.inputs.arguments` says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from iverson.core.inputs.arguments import checked
from iverson.handles import Tensor
from iverson.handles.array import Array

Function = TypeVar("Function", bound=Callable[..., Any])


def method(function: Function) -> Function:
    """Make a function a method of every kind of array."""
    function = checked(function)
    setattr(Array, function.__name__, function)
    return function


def variadic_method(function: Function) -> Function:
    """Make a function of an array and a tuple a method that takes its items too: ``x.reshape(2, 3)``."""
    function = checked(function)

    @wraps(function)
    def spelled_out(self: Array, *items: Any, **options: Any) -> Any:
        return function(self, *((items,) if len(items) > 1 else items), **options)

    setattr(Array, function.__name__, spelled_out)
    spelled_out.spelled_out = True  # type: ignore[attr-defined]
    return function


def tensor_method(function: Function) -> Function:
    """Make a function a method of `Tensor` alone, for functions of sparse tensors only or that always return
    a Tensor.
    """
    function = checked(function)
    setattr(Tensor, function.__name__, function)
    return function


def tensor_property(function: Function) -> Function:
    """Make a function of one argument a property of `Tensor`."""
    setattr(Tensor, function.__name__, property(function))
    return function
