"""The user's line: the innermost frame outside this package, for messages and warnings."""

from __future__ import annotations

import dis
import os
import sys
import warnings
from functools import cache, lru_cache, singledispatch
from importlib.util import find_spec
from opcode import opmap
from types import CodeType, FrameType

import numpy as np


def _folder(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


#: The folder of the whole package, wherever in it this module is.
PACKAGE_FOLDER = _folder(str(sys.modules[__name__.partition(".")[0]].__file__))


@cache
def _libraries() -> tuple[str, ...]:
    """Folders whose frames a warning skips: those of the package, NumPy and SciPy (located, not imported)."""
    spec = find_spec("scipy")
    files = (np.__file__, *([spec.origin] if spec and spec.origin else []))
    return (PACKAGE_FOLDER, *map(_folder, files))


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of the stack that is outside the package; None if there is none.

    depth : the number of frames above that of the caller that are surely of the package; they are not
        examined.
    """
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in _own_files:
            if not file.startswith(PACKAGE_FOLDER):
                break
            _own_files.add(file)
        frame = frame.f_back
    return frame


#: Files of the package that were met, and one whose functions call it in place of the user's.
_own_files: set[str] = {singledispatch.__code__.co_filename}


def is_of_users(depth: int = 1) -> bool:
    """True if the code of the frame ``depth`` calls above that of the caller is outside the package."""
    return not sys._getframe(depth + 1).f_code.co_filename.startswith(PACKAGE_FOLDER)


def _outer_frame(inside: tuple[str, ...]) -> FrameType | None:
    """The innermost frame whose file is in none of the folders ``inside``; None if there is none."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return frame


_STORES = {opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opmap}


def is_assignment(frame: FrameType | None) -> bool:
    """True if a frame is at an assignment to an item."""
    return frame is not None and frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _STORES


def assigned_name(depth: int = 1) -> str:
    """Name to which the user assigns the result of the call that is running, for labels; "" if there is none.

    It is ``x`` in ``x = f(...)`` and ``(x := f(...))``, and the name of the calling function in ``return
    f(...)``. It is "" if the frame is of the package.

    depth : number of calls from the frame of the caller up to the frame with the assignment.
    """
    frame = sys._getframe(depth + 1)
    if frame.f_code.co_filename.startswith(PACKAGE_FOLDER):
        return ""
    return _stored_after(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=1024)
def _stored_after(code: CodeType, at: int) -> str:
    """Name to which the instruction after the one at offset ``at`` stores; "" if it stores to none.

    If that instruction returns, it is the name of the function.
    """
    after = [i for i in dis.get_instructions(code) if i.offset > at and i.opname not in ("CACHE", "COPY")]
    if after and after[0].opname == "RETURN_VALUE":
        return code.co_name if code.co_name.isidentifier() else ""
    if not after or not after[0].opname.startswith("STORE_") or after[0].opname == "STORE_ATTR":
        return ""
    name = after[0].argval  # of two instructions in one, two
    variable = name[0] if isinstance(name, tuple) else name
    return variable if isinstance(variable, str) else ""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the user's line."""
    frame = _outer_frame(_libraries())
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__")
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno, module=module, registry=registry
    )
