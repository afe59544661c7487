"""Linear algebra: matrices are the last two axes, batches stand before them."""

import typing as _typing

from iverson.array_api.linalg import *

if not _typing.TYPE_CHECKING:  # checkers read the star
    from iverson.array_api.linalg import __all__, __dir__
