"""The target of a command: ``MODULE:FUNCTION``, and the tensors that the function is called with."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from iverson import array_api as iv
from iverson.core import dtypes

SHAPE = re.compile(r"(scalar|\d+(?:x\d+)*)(?::(float32|float64|complex64|complex128))?")
HELP = """
MODULE is imported from the current folder or from what is installed, or is the path of a file.
Each ARGUMENT is a shape, such as 3x4, 5 or scalar, with a dtype if it is not float64 (3x4:float32): a tensor
of normally distributed numbers. Other arguments are those that --inputs names: something in MODULE that is a
tuple of arguments, or a function without parameters that makes one."""


class UsageError(Exception):
    """The target or an option does not exist or makes no sense: exit status 2."""


def add_target(parser: argparse.ArgumentParser) -> None:
    """Declare MODULE:FUNCTION, its arguments and where else they come from."""
    parser.add_argument("target", metavar="MODULE:FUNCTION")
    parser.add_argument("shapes", metavar="ARGUMENT", nargs="*", help="a shape: 3x4, 5, scalar, 3x4:float32")
    parser.add_argument("--inputs", metavar="NAME", help="in MODULE, a tuple of arguments or what makes one")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the numbers drawn (default 0)")
    parser.epilog = HELP


def target_of(options: argparse.Namespace) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function and its arguments."""
    module_name, colon, name = options.target.rpartition(":")
    if not colon or not module_name or not name:
        raise UsageError(f"got {options.target!r}; expected MODULE:FUNCTION, such as model:loss")
    module = imported(module_name)
    function = member(module, name)
    if not callable(function):
        raise UsageError(f"{options.target} is a {type(function).__name__}; expected a function")
    return function, arguments(module, options)


def imported(name: str) -> ModuleType:
    """The module of that name, or of that file."""
    try:
        if not name.endswith(".py"):
            sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(name)
        path = Path(name).resolve()
        sys.path.insert(0, str(path.parent))
        return importlib.import_module(path.stem) if path.exists() else _missing(name)
    except ModuleNotFoundError as error:
        if error.name is None or name.partition(".")[0] not in (error.name, error.name.partition(".")[0]):
            raise  # the module is there, and something that it imports is not
        return _missing(name)
    finally:
        del sys.path[0]


def _missing(name: str) -> ModuleType:
    raise UsageError(f"there is no module {name!r} in {Path.cwd()} or among what is installed")


def member(module: ModuleType, name: str) -> Any:
    """Object of a dotted name in a module. Raises UsageError if there is none."""
    try:
        return attrgetter(name)(module)
    except AttributeError:
        near = get_close_matches(name, [n for n in dir(module) if callable(getattr(module, n))])
        remedy = f"; is it {' or '.join(near)}?" if near else ""
        raise UsageError(f"module {module.__name__!r} has no {name!r}{remedy}") from None


def arguments(module: ModuleType, options: argparse.Namespace) -> tuple[Any, ...]:
    """The arguments that were named or whose shapes were."""
    if options.inputs is not None:
        if options.shapes:
            raise UsageError("got shapes and --inputs; expected one of them")
        value = member(module, options.inputs)
        value = value() if callable(value) else value
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not options.shapes:
        raise UsageError("got no arguments; expected a shape for each, such as 3x4, or --inputs NAME")
    return drawn(options.shapes, options.seed)


def drawn(shapes: Sequence[str], seed: int) -> tuple[Any, ...]:
    """A tensor of normally distributed numbers for each shape, all of which require grad."""
    import numpy as np

    rng = np.random.default_rng(seed)
    tensors = []
    for text in shapes:
        match = SHAPE.fullmatch(text)
        if match is None:
            raise UsageError(f"got the shape {text!r}; expected one such as 3x4, 5, scalar or 3x4:float32")
        shape = () if match[1] == "scalar" else tuple(map(int, match[1].split("x")))
        dtype = np.dtype(match[2] or dtypes.float64)
        numbers = rng.standard_normal((math.prod(shape), 2)) @ ([1, 1j] if dtype.kind == "c" else [1, 0])
        tensors.append(iv.asarray(numbers.reshape(shape).astype(dtype), requires_grad=True))
    return tuple(tensors)
