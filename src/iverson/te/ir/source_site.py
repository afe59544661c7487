"""Source sites: the user's line of a definition, and the name of the operation, for error messages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from iverson.core.errors import ArgumentTypeError, described
from iverson.core.protocols import DType
from iverson.core.python.caller import user_frame

#: A parameter of an op that is no tensor: a number, a string, a dtype or a tuple of them.
Constant: TypeAlias = "complex | str | np.generic | DType | type | tuple[Constant, ...] | None"


def user_line() -> str:
    """``file:line`` of the innermost frame outside the package; "" where there is none."""
    frame = user_frame()
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def operation(function: str, name: str = "") -> str:
    """Name of an operation for errors: the function, the name of the defined tensor, and the user's line.

    Raises ArgumentTypeError if ``name`` is no string.
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(f"te.{function}", "name", got=described(name), expected="a string")
    line = user_line()
    return f"te.{function}{f' {name!r}' if name else ''}{f' ({line})' if line else ''}"


def check_constants(operation: str, params: Mapping[str, Constant]) -> None:
    """Raise ArgumentTypeError if a parameter of an op is an array."""
    for name, value in params.items():
        if hasattr(value, "shape") and not isinstance(value, np.generic | np.dtype | type):
            raise ArgumentTypeError(
                operation,
                name,
                got=described(value),
                expected="a constant: a number, a string, a dtype or a tuple of them",
                remedy=f"make {name} a positional parameter of the function, and it is a tensor",
            )
