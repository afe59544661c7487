"""Exact cache keys: equal only for equal values of the same type, unlike Python's ``==``."""

from __future__ import annotations

from dataclasses import fields
from types import FunctionType, MethodType
from typing import Any

import numpy as np

#: A function, or what one closes over.
Part = Any


def exact(x: Any) -> Any:
    """Key for a value: equal keys mean the same value of the same type.

    1, 1.0 and True are equal and give different dtypes; 0.0 and -0.0 have different reciprocals; a nan is not
    even equal to itself. Values with parts are compared by their parts. Other objects decide for themselves.

    >>> exact(1) == exact(1.0), exact((0.0,)) == exact((-0.0,)), exact(float("nan")) == exact(float("nan"))
    (False, False, True)
    """
    kind = type(x)
    if x is None or kind is str:
        return x
    if kind is int or kind is bool:
        return kind, x
    if isinstance(x, np.generic):
        return kind, x.dtype.str, x.tobytes()
    if isinstance(x, float | complex):
        return kind, repr(x)
    if isinstance(x, tuple | list):
        return kind, *map(exact, x)
    if isinstance(x, slice):  # hashable itself from Python 3.12 on
        return kind, exact(x.start), exact(x.stop), exact(x.step)
    if isinstance(x, frozenset):
        return kind, frozenset(map(exact, x))
    if isinstance(x, dict):
        return kind, *((exact(k), exact(v)) for k, v in x.items())
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen and parameters.eq:
        return kind, x, *(exact(getattr(x, f.name)) for f in fields(x) if f.compare)
    return kind, x


_PLAIN = (int, float, complex, bool, str, bytes, type(None), np.dtype)


def is_same_function(f: Part, g: Part) -> bool:
    """True if two functions have the same code and close over equal values, so that they do the same.

    >>> def times(n):
    ...     return lambda x: x * n
    >>> is_same_function(times(2), times(2)), is_same_function(times(2), times(3))
    (True, False)
    """
    if f is g:
        return True
    if type(f) is not type(g):
        return False
    if isinstance(f, FunctionType):
        cells = [[c.cell_contents for c in h.__closure__ or ()] for h in (f, g)]
        parts = zip(*cells, strict=True) if f.__code__ is g.__code__ else ((f, None),)
        return f.__defaults__ == g.__defaults__ and all(is_same_function(a, b) for a, b in parts)
    if isinstance(f, MethodType):
        return f.__func__ is g.__func__ and f.__self__ is g.__self__
    if isinstance(f, tuple):
        return len(f) == len(g) and all(is_same_function(a, b) for a, b in zip(f, g, strict=True))
    return isinstance(f, _PLAIN) and bool(exact(f) == exact(g))


__all__ = ["exact", "is_same_function"]
