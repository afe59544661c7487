"""Routines of libraries that a program calls on views: loops of NumPy's universal functions, LAPACK, sorts.

A routine says which core axes each operand has (a letter for each extent, as in NumPy's signatures) and how
it is called. What a program does with them is in `nodes`; `routine_emission` writes the calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.codegen.emit import ufunc_calls
from iverson.codegen.runtime import library_functions
from iverson.core.errors import LinearAlgebraError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Loop:
    """Loop of a generalized universal function, whose results are those of NumPy bit for bit.

    module, name : where the function is, as `ufunc_calls` names it.
    signature : dtypes of the loop, such as "dd->d".
    cores : of each operand, letters of the extents of its core axes, such as ("mm", "mn", "mn").
    roles : of each operand, "in", "out" or "inout".
    """

    module: str
    name: str
    signature: str
    cores: tuple[str, ...]
    roles: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.module}.{self.name}"

    def run(self, arrays: Sequence[Array]) -> bool:
        """Run on arrays; True if the routine failed."""
        failures: list[str] = []
        function = ufunc_calls.function_of(self.module, self.name)
        count = sum(role != "out" for role in self.roles)
        with np.errstate(all="ignore", invalid="call", call=lambda kind, _: failures.append(kind)):
            function(*arrays[:count], out=tuple(arrays[count:]), signature=self.signature)
        return bool(failures)


@dataclass(frozen=True, slots=True)
class Reference:
    """Argument of a `Function`: the address of operand ``number``."""

    number: int


@dataclass(frozen=True, slots=True)
class Function:
    """Function with C's calling convention, on the first entries of operands whose core axes are in C order.

    symbol : that of the function (`library_functions`).
    arguments : in order: an operand, a letter (one character), or an integer.
    by_reference : True if letters and integers, of 32 bits, are passed by address, as Fortran's are; else
        integers are passed by value, of 64 bits.
    """

    symbol: str
    arguments: tuple[Reference | str | int, ...]
    cores: tuple[str, ...]
    roles: tuple[str, ...]
    by_reference: bool = True

    @property
    def title(self) -> str:
        return self.symbol

    def run(self, arrays: Sequence[Array]) -> bool:
        """Run on arrays; the function says in an operand whether it failed."""
        address = library_functions.address(self.symbol)
        assert address is not None, self.symbol
        function = ctypes.CFUNCTYPE(ctypes.c_int)(address)
        batch = arrays[0].shape[: arrays[0].ndim - len(self.cores[0])]
        for k in np.ndindex(batch):
            arguments: list[Any] = []
            for x in self.arguments:
                if isinstance(x, Reference):
                    arguments.append(ctypes.c_void_p(arrays[x.number][(*k, ...)].ctypes.data))
                elif isinstance(x, str):
                    arguments.append(ctypes.c_char_p(x.encode()))
                elif self.by_reference:
                    arguments.append(ctypes.byref(ctypes.c_int32(x)))
                else:
                    arguments.append(ctypes.c_int64(x))
            function(*arguments)
        return False


Routine = Loop | Function


def extents_of(cores: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> Mapping[str, int] | None:
    """Extent of each letter, in the order in which they appear; None where the shapes do not fit."""
    extents: dict[str, int] = {}
    for core, shape in zip(cores, shapes, strict=True):
        if len(shape) < len(core):
            return None
        for letter, n in zip(core, shape[len(shape) - len(core) :], strict=True):
            if extents.setdefault(letter, n) != n:
                return None
    return extents


@dataclass(frozen=True, slots=True)
class Failure:
    """Parts of the error that is raised where a routine failed."""

    operation: str
    argument: str
    problem: str
    expected: str
    remedy: str = ""


def error_of(failure: Failure) -> LinearAlgebraError:
    """The error to raise for a failure."""
    return LinearAlgebraError(
        failure.operation,
        failure.argument,
        got=failure.problem,
        expected=failure.expected,
        remedy=failure.remedy,
    )


__all__ = ["Failure", "Function", "Loop", "Reference", "Routine", "error_of", "extents_of"]
