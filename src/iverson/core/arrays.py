"""NumPy arrays as users hold them, brought to NumPy's own type. Nothing else lives here."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.errors import ArgumentTypeError


def plain(array: Any, operation: str, argument: str) -> np.ndarray[Any, Any]:
    """An array of any subclass (memory maps, matrices, ...) as a view of NumPy's own type.

    Raises ArgumentTypeError for one of `numpy.ma`: what its mask hides would be read.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentTypeError(
            operation,
            argument,
            got="an array of numpy.ma, some of whose entries may be masked",
            expected="an array all of whose entries exist",
            remedy="use iverson.masked_tensor, which reads its mask, or call its filled(value) first",
        )
    return np.asarray(array)
