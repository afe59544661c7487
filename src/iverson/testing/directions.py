"""Tangent spaces: the coordinates in which derivatives are taken, and the directions drawn from them.

A tensor is a point of a real vector space: one coordinate for each declared entry, two for a complex one.
Every entry of a regular tensor is declared, stored or not. A kind of tensor that declares fewer entries
registers a `Space` of its own (`register_space`); nothing else in this package knows what an entry is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from iverson.autograd.api import variable
from iverson.core import dtypes
from iverson.core.dispatch import Operand, make_handle, unwrap, value_of
from iverson.core.entries import hull
from iverson.core.protocols import Shaped
from iverson.core.region import Region
from iverson.layouts import Sparse, support_of, to_strided

if TYPE_CHECKING:
    from collections.abc import Hashable

    from iverson.handles import Tensor
    from iverson.handles.typing import DTypeLike

Vector = NDArray[np.float64]

_WIDE = {"float32": "float64", "complex64": "complex128"}


@dataclass(frozen=True)
class Space:
    """The coordinates of a regular tensor: all its entries in C order, (real, imaginary) if complex.

    shape, dtype : of the tensor.
    stored : where its layout may hold nonzeros: a region, or the addresses of entries. Entries outside get
        random directions of their own, so that an error out there isn't drowned by those inside.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored: Region | NDArray[Any] | None = None

    #: Whether only some entries of the tensor are declared.
    partial: ClassVar[bool] = False

    @property
    def complex(self) -> bool:
        return self.dtype.kind == "c"

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return int(np.prod(self.shape)) * (2 if self.complex else 1)

    def coordinates(self, value: Shaped) -> Vector:
        """The coordinates of a layout's value of this shape (of any floating dtype)."""
        array = np.ascontiguousarray(to_strided(value)).reshape(-1)
        if not self.complex:
            return array.real.astype(np.float64)
        return array.astype(np.complex128).view(np.float64)

    def array(self, coordinates: Vector, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Array of the tensor's shape with the given coordinates, by default of the tensor's dtype."""
        dtype = self.dtype if dtype is None else dtype
        flat = np.ascontiguousarray(coordinates)
        if self.complex:
            flat = flat.view(np.complex128)
        return flat.astype(dtype).reshape(self.shape)

    def handle(self, coordinates: Vector) -> Tensor:
        """New tensor with the given coordinates that is not tracked, for use as a tangent or cotangent."""
        handle: Tensor = make_handle(self.array(coordinates))
        return handle

    def leaf(self, coordinates: Vector, original: Shaped, wide: bool) -> Tensor:
        """New tensor that requires grad, with the given coordinates.

        original : the value of the tensor it replaces; its memory order is kept, so that a function takes the
            same paths.
        wide : True to make a tensor of single precision in double precision.
        """
        array = self.array(coordinates, _WIDE.get(str(self.dtype)) if wide else None)
        if isinstance(original, np.ndarray) and not original.flags.c_contiguous:
            ordered = np.empty_like(original, dtype=array.dtype, subok=False)
            ordered[...] = array
            array = ordered
        leaf: Tensor = variable(array)
        return leaf

    def entry(self, coordinate: int) -> tuple[int, ...]:
        """Index in the array of `array` of the entry that a coordinate belongs to."""
        entry = coordinate // 2 if self.complex else coordinate
        return tuple(int(k) for k in np.unravel_index(entry, self.shape)) if self.shape else ()

    def index_of(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Index in the user's tensor of an entry that has ``index`` in the array of `array`.

        They differ for tensors of which only some entries are declared.
        """
        return index

    def locate(self, coordinate: int) -> tuple[Any, ...]:
        """Index in the user's tensor of the entry of a coordinate; "real" or "imaginary" is appended if it is
        complex.
        """
        index = self.index_of(self.entry(coordinate))
        return (*index, ("real", "imaginary")[coordinate % 2]) if self.complex else index

    def coordinate(self, index: tuple[Any, ...]) -> int | None:
        """Coordinate for which `locate` gives ``index``; None if no such entry is declared."""
        part = index[-1:] in (("real",), ("imaginary",))
        entry = self._rank(index[:-1] if part else index) if part == self.complex else None
        return entry if entry is None or not part else 2 * entry + (index[-1] == "imaginary")

    def _rank(self, index: tuple[int, ...]) -> int | None:
        """Number of the entry at ``index`` among the declared entries; None if it is not declared."""
        return address_of(index, self.shape)

    @property
    def addresses(self) -> NDArray[Any] | None:
        """The addresses of the entries that a sparse tensor stores; None for other layouts."""
        return self.stored if isinstance(self.stored, np.ndarray) else None

    def stores(self, coordinate: int) -> bool:
        """True if the tensor's layout stores the entry of a coordinate."""
        flat = coordinate // 2 if self.complex else coordinate
        return self.addresses is None or bool((self.addresses == flat).any())

    def declared(self) -> Hashable:
        """Key of the declared entries: it is equal for two spaces exactly if they declare the same
        entries.
        """
        return (self.shape, self.complex)

    def unit(self, coordinate: int) -> Vector:
        """Vector that is 1 at one coordinate and 0 elsewhere."""
        direction = np.zeros(self.size)
        direction[coordinate] = 1.0
        return direction

    def groups(self) -> list[Vector]:
        """Masks (of 0.0 and 1.0) of the coordinates that are stored, and of the others; empty ones are left
        out.

        Each group gets random directions of its own.
        """
        inside = np.zeros(self.shape, bool)
        if isinstance(self.stored, np.ndarray):
            inside.reshape(-1)[self.stored] = True
        else:
            inside[() if self.stored is None else self.stored.slices] = True
        mask = np.repeat(inside.reshape(-1), 2 if self.complex else 1).astype(np.float64)
        return [m for m in (mask, 1.0 - mask) if m.any()]


def address_of(index: tuple[int, ...], shape: tuple[int, ...]) -> int | None:
    """The place in C order of an entry; None where a tensor of this shape has no such entry.

    >>> address_of((1, 0), (2, 3)), address_of((2, 0), (2, 3)), address_of((), ())
    (3, None, 0)
    """
    if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        return None
    return int(np.ravel_multi_index(index, shape)) if shape else 0


SpaceMaker = Callable[[Any], Space]
_makers: dict[type, SpaceMaker] = {}


def register_space(kind: type, maker: SpaceMaker) -> None:
    """Register the function that makes the `Space` of a kind of handle."""
    _makers[kind] = maker


def space_of(handle: Operand) -> Space:
    """The space of a tensor's declared entries."""
    maker = _makers.get(type(handle))
    if maker is not None:
        return maker(handle)
    plain = unwrap(handle)
    return Space(plain.shape, plain.dtype, _stored(value_of(plain)))


def _stored(value: Shaped) -> Region | NDArray[Any] | None:
    """Addresses (of a sparse value) or region of the entries that a value stores; None if it stores all
    entries.
    """
    if not isinstance(value, Sparse):
        region = hull(support_of(value), value.shape)
        return None if region.covers(value.shape) else region
    inner = int(np.prod(value.dense_shape))
    addresses: NDArray[Any] = value.pattern.keys[:, None] * inner + np.arange(inner)
    return addresses.reshape(-1)


def random_direction(rng: np.random.Generator, size: int) -> Vector:
    """Random vector: signs times magnitudes in [1/2, 3/2], so that no coordinate is too small to be seen.

    Magnitudes are multiples of 1/8: a step that is a power of two is then added without rounding.
    """
    magnitude = rng.integers(4, 13, size) / 8.0
    return np.asarray(magnitude * rng.choice([-1.0, 1.0], size), np.float64)


def scale_of(coordinates: Vector) -> float:
    """Root mean square of the finite coordinates, rounded to a power of two; 1 if all are zero."""
    finite = coordinates[np.isfinite(coordinates)]
    rms = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    return float(power_of_two(rms)) if rms else 1.0


def power_of_two(value: float | Vector) -> Any:
    """Power of two nearest to each positive number, in the logarithm."""
    return 2.0 ** np.clip(np.round(np.log2(value)), -500, 500)


def split(vector: Vector, spaces: Sequence[Space]) -> list[Vector]:
    """List of one vector for each space, from the vector with the coordinates of all of them."""
    ends = np.cumsum([s.size for s in spaces])
    return np.split(vector, ends[:-1]) if len(spaces) else []


def lowest(spaces: Sequence[Space]) -> str:
    """String "single" if any of the spaces is of single precision, else "double"."""
    single = any(dtypes.real_of(s.dtype) == dtypes.float32 for s in spaces)
    return "single" if single else "double"
