"""All errors and warnings that Iverson raises."""

import typing as _typing

from iverson.core.errors import *

if not _typing.TYPE_CHECKING:  # checkers read the star
    from iverson.core.errors import __all__, __dir__
