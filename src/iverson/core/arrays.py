"""NumPy arrays as users hold them, brought to NumPy's own type. Nothing else lives here."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.errors import ArgumentError, ArgumentTypeError, IversonError, described


def plain(array: Any, operation: str, argument: str) -> np.ndarray[Any, Any]:
    """An array of any subclass (memory maps, matrices, ...), or nested sequences, as NumPy's own type.

    Raises ArgumentTypeError for one of `numpy.ma`: what its mask hides would be read; ArgumentError for what
    is no array.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentTypeError(
            operation,
            argument,
            got="an array of numpy.ma, some of whose entries may be masked",
            expected="an array all of whose entries exist",
            remedy="use iverson.masked_tensor, which reads its mask, or call its filled(value) first",
        )
    try:
        return np.asarray(array)
    except (IversonError, MemoryError):
        raise
    except Exception as error:  # sequences of different lengths, or whatever a foreign ``__array__`` raises
        raise ArgumentError(
            operation,
            argument,
            got=f"{described(array)} that is no array",
            expected="an array, or nested sequences of one length on each axis",
            remedy=str(error),
        ) from error
