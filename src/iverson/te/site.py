"""Which line of the user's a definition stands on, for error messages."""

from __future__ import annotations

import os
import sys
from types import FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def user_line() -> str:
    """``file:line`` of the innermost frame outside the package; "" where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not os.path.abspath(name).startswith(_PACKAGE + os.sep):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def operation(function: str, name: str = "") -> str:
    """The operation as an error names it, with the tensor defined and the user's line."""
    line = user_line()
    return f"te.{function}{f' {name!r}' if name else ''}{f' ({line})' if line else ''}"
