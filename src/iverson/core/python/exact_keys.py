"""Exact cache keys: equal only for equal values of the same type, unlike Python's ``==``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


def exact(x: Any) -> Any:
    """What stands for a value in a key: equal for the same value of the same type alone.

    1, 1.0 and True are equal and give different dtypes; 0.0 and -0.0 have different reciprocals; a nan is not
    even equal to itself. What has parts is told apart by these. Other objects decide for themselves.

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


__all__ = ["exact"]
