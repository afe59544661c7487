"""Types of what functions pass to each other in every mode: arrays by what is asked of them.

A rule is called with arrays, with values of a trace, with batches, or with handles. Their classes have no
base in common; `LayoutValue`, `Shaped`, `Value` and `Namespace` say what the rule may ask of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from iverson.core.shapes import Shape

#: The parameters of a call of an op, by name.
Params: TypeAlias = Mapping[str, Any]
#: An array of NumPy, and a dtype.
NDArray: TypeAlias = np.ndarray[Any, Any]
DType: TypeAlias = np.dtype[Any]
#: A pytree of tensors: containers, which have no base in common, a tensor, or another leaf.
Pytree: TypeAlias = Any


class LayoutValue(Protocol):
    """The value of a handle: an array, a value in another layout, or one of a level."""

    @property
    def shape(self) -> Shape:
        """The extents, one per axis."""

    @property
    def dtype(self) -> DType:
        """The dtype of the entries."""


class Shaped(LayoutValue, Protocol):
    """An array of which shape and dtype are known, and perhaps no more: an aval, an array."""

    @property
    def ndim(self) -> int:
        """The number of axes."""


class Value(Shaped, Protocol):
    """An array that can be computed with, in the mode at hand; results are values of the same mode."""

    def __neg__(self) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __rpow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __xor__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...

    @property
    def size(self) -> int:
        """The number of entries."""

    @property
    def mT(self) -> Any:
        """The transpose of each matrix in the last two axes."""

    @property
    def real(self) -> Any:
        """The real parts."""

    @property
    def imag(self) -> Any:
        """The imaginary parts."""


class Namespace(Protocol):
    """``F``: the ops by name, as functions on values of one mode."""

    def __getattr__(self, name: str, /) -> Callable[..., Any]: ...
