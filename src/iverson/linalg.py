"""Linear algebra: matrices are the last two axes, batches stand before them."""

import typing as _typing

from iverson.array_api.linalg import *
from iverson.transforms.krylov import *

if not _typing.TYPE_CHECKING:  # checkers read the stars
    from iverson.array_api import linalg as _matrices
    from iverson.transforms import krylov as _krylov

    __all__ = sorted({*_matrices.__all__, *_krylov.__all__})

    def __dir__() -> list[str]:
        return __all__
