"""Iverson: differentiable arrays that know their zeros.

The functions are those of the Python array API standard 2025.12, then what it lacks, named as in PyTorch;
transforms are named as in JAX. `iverson.linalg`, `iverson.fft`, `iverson.random` and `iverson.special`
are namespaces.

Each module says in its ``__all__`` which of its names are public; no function is listed here.
"""

import typing as _typing
from importlib import import_module as _import_module

from iverson import array_api as _array_api
from iverson import autograd as autograd
from iverson import errors as errors
from iverson.array_api import *
from iverson.array_api.conventions.namespace_info import array_namespace_info as __array_namespace_info__
from iverson.autograd import mode as _mode
from iverson.autograd.mode import *
from iverson.core import dtypes as _dtypes
from iverson.core.dtypes import *
from iverson.core.python import moved_modules as _moved_modules
from iverson.core.python.foreign_names import SPACES as _SPACES
from iverson.core.python.foreign_names import remedy as _remedy
from iverson.handles import Tensor as Tensor

if _typing.TYPE_CHECKING:
    from iverson import data as data
    from iverson import dataclasses as dataclasses
    from iverson import debug as debug
    from iverson import explain as explain
    from iverson import fft as fft
    from iverson import linalg as linalg
    from iverson import masked as masked
    from iverson import nn as nn
    from iverson import optim as optim
    from iverson import random as random
    from iverson import special as special
    from iverson import te as te
    from iverson import testing as testing
    from iverson import transforms as transforms
    from iverson import tree as tree
    from iverson.core.dtypes import bfloat16 as bfloat16
    from iverson.masked.construct import *
    from iverson.saving import *
    from iverson.transforms import *

__array_api_version__ = "2025.12"
__version__ = "0.1.0"

_NAMESPACES = ("autograd", "errors")
#: Packages imported when first asked for, and modules of theirs whose names are names of this namespace too.
_ON_DEMAND = (
    "data", "dataclasses", "debug", "explain", "fft", "graph", "linalg", "masked", "nn", "optim", "random",
    "special", "te", "testing", "transforms", "tree",
)  # fmt: skip
_LENT = ("masked.construct", "saving", "transforms")


def _lenders() -> list[_typing.Any]:
    return [_import_module(f"iverson.{name}") for name in _LENT]


def _public_names() -> list[str]:
    chapters = [_array_api, _mode, _dtypes, *_lenders()]
    names = [name for chapter in chapters for name in chapter.__all__]
    return sorted(["Tensor", *_NAMESPACES, *_ON_DEMAND, *names])


def __dir__() -> list[str]:
    return _public_names()


if not _typing.TYPE_CHECKING:  # checkers would take any name for one of these

    def __getattr__(name: str) -> _typing.Any:
        if name in _ON_DEMAND:
            return _import_module(f"iverson.{name}")
        if name == "lib":  # where xarray looks for NumPy's windows
            return _import_module("iverson.array_api.numpy_functions").LIB
        if name == "bfloat16":  # of an optional package
            return _dtypes.load_bfloat16()
        if name == "__all__":
            value = _public_names()
        else:
            lenders = [] if name.startswith("_") else _lenders()
            owner = next((module for module in lenders if name in module.__all__), None)
            if owner is None:
                raise AttributeError(f"module 'iverson' has no attribute '{name}'{_remedy(name, _SPACES)}")
            value = getattr(owner, name)
        globals()[name] = value
        return value
