"""Special functions under the names of `scipy.special`, with derivatives to any order."""

import typing as _typing

from iverson.array_api.special import *

if not _typing.TYPE_CHECKING:  # checkers read the star
    from iverson.array_api.special import __all__, __dir__
    from iverson.core.python.foreign_names import absent as _absent

    __getattr__ = _absent("iverson.special")
