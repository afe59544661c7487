"""Ops on arrays by name: the namespace of rules that eager kernels run."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.table import TABLE


class ArrayOps:
    """The bodies of ops on arrays, as `N.where` and so on; complex numbers are in NumPy's order."""

    maximum, minimum = np.maximum, np.minimum

    def __getattr__(self, name: str) -> Any:
        if name not in TABLE:
            raise AttributeError(name)
        body = TABLE[name].forward
        setattr(self, name, body)
        return body


__all__ = ["ArrayOps"]
