"""Random tensors. Draws come from a `Generator`; there is no global state."""

import typing as _typing

from iverson.array_api.random import *

if not _typing.TYPE_CHECKING:  # checkers read the star
    from iverson.array_api.random import __all__, __dir__
