"""Missing entries in columns of other libraries: pandas' NA, Arrow's and polars' nulls.

No number stands for one. A column of a NumPy dtype has no missing entries: nan is a number there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.errors import ArgumentTypeError, described

#: The methods that say which entries are missing, leave them out, and put a value in their place.
_METHODS = (
    ("isna", "dropna", "fillna"),
    ("is_null", "drop_null", "fill_null"),
    ("is_null", "drop_nulls", "fill_null"),
)


def _methods(column: Any) -> tuple[str, ...] | None:
    """Names of the methods of ``column`` that find, drop and fill missing entries; None if it has none."""
    if isinstance(getattr(column, "dtype", None), np.dtype):
        return None
    return next((names for names in _METHODS if all(hasattr(type(column), n) for n in names)), None)


def _columns(obj: Any) -> list[Any] | None:
    """The columns of a table; None for anything else."""
    table = hasattr(type(obj), "isna") and getattr(obj, "ndim", 1) == 2 and hasattr(obj, "items")
    return [column for _, column in obj.items()] if table else None


def missing(obj: Any) -> np.ndarray[Any, Any] | None:
    """Mask of the missing entries of a column or a table; None if no entry is known to be missing."""
    columns = _columns(obj)
    if columns is not None:
        masks = [missing(column) for column in columns]
        if all(m is None for m in masks):
            return None
        complete = np.zeros(len(obj), bool)
        return np.stack([complete if m is None else m for m in masks], axis=1)
    names = _methods(obj)
    absent = None if names is None else np.asarray(getattr(obj, names[0])(), bool)
    return absent if absent is not None and absent.any() else None


def is_missing(entry: Any) -> bool:
    """True if an entry is None, or pandas' NA or NaT."""
    return entry is None or type(entry).__name__ in ("NAType", "NaTType")


def filled(obj: Any) -> np.ndarray[Any, Any]:
    """The entries of a column or table as an array, with some number in place of each missing entry.

    The dtype is the one that the entries have without missing ones.
    """
    columns = _columns(obj)
    if columns is not None:
        return np.stack([filled(column) for column in columns], axis=1)
    if missing(obj) is None:
        return np.asarray(obj)
    _, leave_out, fill = _methods(obj)  # type: ignore[misc]
    example = next(iter(getattr(obj, leave_out)()), None)
    if example is None:  # all are missing
        return np.zeros(len(obj), getattr(obj.dtype, "numpy_dtype", float))
    return np.asarray(getattr(obj, fill)(example))


def check_none_missing(obj: Any, operation: str, argument: str) -> None:
    """Raises ArgumentTypeError where an entry of a column or a table is missing."""
    absent = None if isinstance(obj, np.ndarray) else missing(obj)
    if absent is not None:
        raise ArgumentTypeError(
            operation,
            argument,
            got=f"{described(obj)}, {np.count_nonzero(absent)} of whose entries are missing",
            expected="numbers",
            remedy="use iverson.masked_tensor, in which these are unspecified, or fill them first",
        )
