"""Arrays of another library inside of a function that this library wraps: how they become tensors there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
Reader = Callable[..., Any]
_reader: ContextVar[Reader | None] = ContextVar("iverson_foreign_arrays", default=None)


@contextmanager
def reading(reader: Reader) -> Iterator[None]:
    """Context in which ``reader`` gives the tensor of an array of another library, or None for anything
    else.
    """
    before = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(before)


def foreign(value: T) -> Any:
    """Tensor of an array of the library whose wrapped function runs; None for anything else.

    Of a nested sequence with such arrays, the sequence with tensors instead of them.
    """
    reader = _reader.get()
    if reader is None or not isinstance(value, (list, tuple)):
        return None if reader is None else reader(value)
    items = [foreign(item) for item in value]
    if all(item is None for item in items):
        return None
    return [old if new is None else new for old, new in zip(value, items, strict=True)]
