"""Iverson: differentiable arrays that know their zeros.

The functions are those of the Python array API standard 2025.12, then what it lacks, named as in PyTorch;
transforms are named as in JAX. `iverson.linalg`, `iverson.fft` and `iverson.random` are namespaces.

What is public stands in the ``__all__`` of each chapter; nothing is listed here.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from iverson import array_api as _array_api
from iverson import autograd
from iverson.array_api import *
from iverson.array_api import fft, linalg, random
from iverson.array_api.info import array_namespace_info as __array_namespace_info__
from iverson.autograd import mode as _mode
from iverson.autograd.mode import *
from iverson.core import dtypes as _dtypes
from iverson.core import errors
from iverson.core.dtypes import *
from iverson.tensor import Tensor

if _TYPE_CHECKING:
    from iverson import explain, masked, optim, te, testing, transforms
    from iverson.masked.construct import *
    from iverson.transforms import *

__array_api_version__ = "2025.12"
__version__ = "0.1.0"

_NAMESPACES = {m.__name__.rpartition(".")[2]: m for m in (autograd, errors, fft, linalg, random)}
#: Packages imported when first asked for, and modules of theirs whose names are names of this namespace too.
_ON_DEMAND = ("explain", "masked", "optim", "te", "testing", "transforms")
_LENT = ("masked.construct", "transforms")

# `import iverson.linalg` finds the namespace that lives elsewhere.
_sys.modules.update((f"iverson.{_name}", _module) for _name, _module in _NAMESPACES.items())

if not _TYPE_CHECKING:  # checkers would take any name for one of these

    def __getattr__(name: str) -> _Any:
        if name in _ON_DEMAND:
            return _import_module(f"iverson.{name}")
        if name == "__all__":
            value = _public_names()
        elif name.startswith("_") or (owner := _lender(name)) is None:
            raise AttributeError(f"module 'iverson' has no attribute '{name}'")
        else:
            value = getattr(owner, name)
        globals()[name] = value
        return value


def _lenders() -> list[_Any]:
    return [_import_module(f"iverson.{name}") for name in _LENT]


def _lender(name: str) -> _Any:
    """The module on demand that has a name, or None."""
    return next((module for module in _lenders() if name in module.__all__), None)


def _public_names() -> list[str]:
    chapters = [_array_api, _mode, _dtypes, *_lenders()]
    names = [name for chapter in chapters for name in chapter.__all__]
    return sorted(["Tensor", *_NAMESPACES, *_ON_DEMAND, *names])


def __dir__() -> list[str]:
    return _public_names()
