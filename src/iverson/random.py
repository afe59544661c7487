"""Random tensors. Draws come from a `Generator`; there is no global state."""

import typing as _typing

from iverson.array_api.random import *
from iverson.core.python.foreign_names import SPACES as _SPACES
from iverson.core.python.foreign_names import remedy as _remedy

if not _typing.TYPE_CHECKING:  # checkers read the star, and would take any name for one that is there
    from iverson.array_api.random import __all__, __dir__

    def __getattr__(name: str) -> _typing.Any:
        is_method = not name.startswith("_") and hasattr(Generator, name)
        method = f"; here it is iverson.random.default_rng(seed).{name}" if is_method else ""
        end = method or _remedy(name, _SPACES)
        raise AttributeError(f"module 'iverson.random' has no attribute '{name}'{end}")
