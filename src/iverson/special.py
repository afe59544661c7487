"""Special functions under the names of `scipy.special`, with derivatives to any order."""

import typing as _typing

from iverson.array_api.special import *

if not _typing.TYPE_CHECKING:  # checkers read the star
    from iverson.array_api.special import __all__, __dir__
