"""Types in the signatures of public functions, for type checkers and editors.

A function of arrays is annotated ``def f(x: A | ArrayLike, ...) -> A``: its result is of the kind of those
operands that are more than plain arrays (`MaskedTensor`, say), and a Tensor where there is none. So no
signature needs overloads, and kinds that are added above this layer need no mention here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, Union

import numpy as np

from iverson.handles.array import Array
from iverson.handles.tensor import Tensor

if TYPE_CHECKING:
    from _typeshed import DataclassInstance as _Dataclass
    from numpy import typing as _numpy
    from typing_extensions import Buffer, TypeVar

    DTypeLike: TypeAlias = _numpy.DTypeLike
    _Leaf: TypeAlias = Array | np.ndarray[Any, Any] | np.generic | complex | str | None
    #: A tree in a file (`iverson.load`).
    Tree: TypeAlias = _Leaf | dict[str | int, "Tree"] | list["Tree"] | tuple["Tree", ...] | _Dataclass
    #: A tree of the type that is expected where the function is called.
    Loaded = TypeVar("Loaded", default=Tree)

    A = TypeVar("A", bound=Array, default=Tensor)
else:
    A = DTypeLike = Tree = Loaded = Any

#: What functions take as a plain array. Lists are not among it: `iverson.asarray` turns one into a Tensor.
ArrayLike: TypeAlias = Union[Tensor, "np.ndarray[Any, Any]", np.generic, complex]


class Rows(Protocol):
    """Table whose rows are stored elsewhere (on workers, for example); `iverson.embedding` asks it
    for them.
    """

    def __iverson_embedding__(self, indices: Tensor, /) -> Tensor:
        """The rows at integer indices: shape (*indices.shape, width)."""


class SupportsArray(Protocol):
    """An array of another library, which NumPy can read."""

    def __array__(self) -> np.ndarray[Any, Any]:
        """The entries."""


class SupportsDLPack(Protocol):
    """An array of another library that is passed on by DLPack."""

    def __dlpack__(self, *, stream: None = None) -> Any:
        """A capsule of the entries."""


#: What `iverson.asarray` makes a Tensor of.
Data: TypeAlias = "Array | ArrayLike | SupportsArray | SupportsDLPack | Buffer | Sequence[Data]"
#: What draws follow from.
Seed: TypeAlias = Union[
    int,
    Sequence[int],
    "np.ndarray[Any, Any]",
    np.random.SeedSequence,
    np.random.BitGenerator,
    np.random.Generator,
]
#: One axis, and what a reduction goes over: all axes, one, or several.
Axis: TypeAlias = SupportsIndex
Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
#: A shape, or the extent of a vector.
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Device: TypeAlias = Literal["cpu"] | None
#: The layouts that matrices can be created in.
Layout: TypeAlias = Literal["strided", "coo", "csr", "csc"]
Real: TypeAlias = Union[float, "np.integer[Any]", "np.floating[Any]"]
#: Real numbers above 0, of at least 0, and in [0, 1]: what else is passed is an error
#: (`core.inputs.arguments`).
Positive: TypeAlias = float
NonNegative: TypeAlias = float
Share: TypeAlias = float
#: How many axes a product sums over, or which of either operand.
Paired: TypeAlias = SupportsIndex | Sequence[ShapeLike]
#: The order of a norm of vectors or matrices.
Order: TypeAlias = float | Literal["fro", "nuc"]
#: What a Fourier transform is divided by, and over how many points of each axis it goes.
Norm: TypeAlias = Literal["backward", "ortho", "forward"]
Lengths: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
#: What an array is padded with, and how far.
PadMode: TypeAlias = Literal[
    "constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "mean", "median", "minimum"
]
Widths: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | Sequence[Sequence[SupportsIndex]]
#: Which entries a quantile is made of, as NumPy names it.
QuantileMethod: TypeAlias = Literal[
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
]
#: Stored entries and where they are; to which segment each slice belongs.
Values: TypeAlias = ArrayLike | Sequence["Values"]
Indices: TypeAlias = ArrayLike | Sequence["Indices"]
Segmented: TypeAlias = Array | ArrayLike | Sequence[int]
