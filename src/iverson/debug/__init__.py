"""Debugging: the first nan or infinity with its line, and prints of entries from compiled code.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); the modules below do not
import each other.

- `nonfinite`: the first nan or infinity.
- `program_prints`: prints of entries while a program runs.
"""

from iverson.debug.nonfinite import nans
from iverson.debug.program_prints import print

__all__ = ["nans", "print"]


def __dir__() -> list[str]:
    return sorted(__all__)
