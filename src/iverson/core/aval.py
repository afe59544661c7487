"""Avals (abstract values): the shape, dtype and support of an array, without its entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.entries import FULL, Entries
from iverson.core.errors import GradientError, GraphError
from iverson.core.protocols import DType
from iverson.core.python.caller import user_frame
from iverson.core.shapes import Shape


class UnknownShape:
    """The shape of a value of a graph that was made without one, equal only to itself.

    It may be passed on. A read of an extent raises GraphError, and so does a read of the rank, unless
    ``rank`` is given.

    >>> UnknownShape(), UnknownShape(2)
    (*, ?, ?)
    """

    __slots__ = ("rank",)

    def __init__(self, rank: int | None = None) -> None:
        self.rank = rank

    def __repr__(self) -> str:
        return "*" if self.rank is None else ", ".join("?" * self.rank)

    def __len__(self) -> int:
        return self._read() if self.rank is None else self.rank

    def _read(self, *_: object) -> Any:
        raise GraphError(
            "graph",
            got=f"a read of the shape of a value that has none yet{_line()}",
            expected="what does not depend on shapes",
            remedy="give shapes first, by iverson.graph.derivatives.shape_inference.with_shapes",
        )

    __iter__ = __getitem__ = __contains__ = __add__ = __radd__ = __mul__ = _read


def _line() -> str:
    """Text ", at FILE:LINE" for the line of the user's code; "" if no frame is of the user."""
    frame = user_frame()
    return f", at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def has_shape(x: Any) -> bool:
    """True unless the shape of a value or a handle is an `UnknownShape`; a Python number has a shape, ()."""
    return type(getattr(x, "shape", None)) is not UnknownShape


class Aval:
    """Shape, dtype and support: the entries outside of which the array is structurally zero.

    The shape may be an `UnknownShape`. ``abstract`` of an op maps avals to avals, and a rule receives one for
    each value that it does not read. Avals are equal, and hash alike, where all three are equal; equal
    patterns are the same object.

    >>> Aval((2, 3), np.dtype("float32"))
    Aval((2, 3), float32)
    """

    __slots__ = ("dtype", "shape", "support")

    def __init__(self, shape: Shape, dtype: DType, support: Entries = FULL) -> None:
        self.shape = shape
        self.dtype = dtype
        self.support = support

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Aval)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.support == other.support
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.support))

    def __repr__(self) -> str:
        support = "" if self.support is FULL else f", {self.support}"
        return f"Aval({self.shape}, {self.dtype}{support})"

    def __getattr__(self, name: str) -> Any:
        """Raise GradientError: a rule has read more than shape and dtype of a value that was not kept."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise GradientError(
            "gradient rule",
            got=f"a read of '{name}' of a value that was not kept",
            expected="only shape and dtype of parameters named with a leading underscore",
            remedy="drop the underscore in the rule, or set override_vjp before the forward call",
        )


def aval_of(value: Any) -> Aval:
    """Aval with the shape and dtype of an array, a handle or a Python scalar; its support is every entry."""
    if hasattr(value, "shape"):
        return Aval(value.shape, value.dtype)
    return Aval((), np.asarray(value).dtype)
