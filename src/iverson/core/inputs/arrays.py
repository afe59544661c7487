"""Array inputs: NumPy arrays of any subclass as NumPy's own type, and checks of sizes that NumPy lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iverson.core.errors import ArgumentError, ArgumentTypeError, IversonError, described
from iverson.core.inputs.missing_entries import check_none_missing
from iverson.core.protocols import NDArray, Shaped

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def plain(array: Shaped | ArrayLike, operation: str, argument: str) -> NDArray:
    """Array of NumPy's own type, from an array of a subclass (memory maps, matrices, ...) or sequences.

    Raises ArgumentTypeError for an array of `numpy.ma`, whose hidden entries would be read, and for missing
    entries; raises ArgumentError for anything that is no array.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentTypeError(
            operation,
            argument,
            got="an array of numpy.ma, some of whose entries may be masked",
            expected="an array all of whose entries exist",
            remedy="use iverson.masked_tensor, which reads its mask, or call its filled(value) first",
        )
    check_none_missing(array, operation, argument)
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


def repeat(array: NDArray, times: int, axis: int = 0) -> NDArray:
    """`numpy.repeat`, which does not check whether the size of the result overflows.

    Raises MemoryError for a result that no memory holds.
    """
    _check_size(array, times)
    return np.repeat(array, times, axis=axis)


def tile(array: NDArray, times: int) -> NDArray:
    """`numpy.tile`, with the check of `repeat`."""
    _check_size(array, times)
    return np.tile(array, times)


def _check_size(array: NDArray, times: int) -> None:
    if array.nbytes * times >= 2**63:
        raise MemoryError(f"{array.size * times} entries of {array.dtype} are more than memory can address")
