"""Sparse updates: the part of a parameter that a step touches, which is the support of its gradient.

A gradient says by its layout where it may be nonzero: everywhere, in a box, in some rows, at a pattern, under
a mask. A step reads and writes the parameter and its state there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.dispatch import rebind, value_of
from iverson.core.errors import ArgumentError
from iverson.core.protocols import NDArray, Shaped
from iverson.core.shapes import Shape
from iverson.layouts import Sparse, coalesced, has_one_owner, stored, support_pattern, to_strided
from iverson.layouts.conversion import with_dense_axes, with_sparse_axes
from iverson.layouts.pattern import addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iverson.handles import Tensor

#: The state of a parameter, by name.
State = dict[str, Any]
#: How many entries of a list are read, changed and written at a time.
PIECE = 1 << 14


@dataclass(frozen=True, slots=True)
class Part:
    """Selection of entries, the same for all arrays of one shape: the part of a parameter that a step
    touches.

    index : slices, a boolean array, or integer arrays, over the leading axes.
    axes : the number of these axes; 0 for the whole array.
    """

    index: Any
    axes: int

    @property
    def whole(self) -> bool:
        return not self.axes

    @property
    def box(self) -> bool:
        """True if the index is made of slices, so that reading this part gives a view."""
        return not self.axes or type(self.index[0]) is slice

    @property
    def listed(self) -> bool:
        """True if the index is made of integer arrays."""
        return isinstance(self.index, tuple) and getattr(self.index[0], "dtype", None) in (np.int32, np.int64)

    def of(self, array: NDArray) -> NDArray:
        """Entries of ``array`` in this part: the array itself, a view, or a copy.

        An array of a state may have fewer axes than the parameter: those at the end are missing.
        """
        if not self.axes:
            return array
        if self.axes == 1 and self.listed:
            rows: NDArray = array.take(self.index[0], axis=0)
            return rows
        entries: NDArray = array[self.index]
        return entries

    def pieces(self, entries: NDArray) -> Iterator[tuple[Part, NDArray]]:
        """Pairs of a part and its entries. A part with listed places is cut into pieces that fit a core's
        cache.

        entries : the entries for all of this part.
        """
        if not self.axes or not self.listed:
            yield self, entries
            return
        rows = max(PIECE // max(entries[:1].size, 1), 1)
        for k in range(0, len(entries), rows):
            at = slice(k, k + rows)
            yield Part(tuple(i[at] for i in self.index), self.axes), entries[at]

    def write(self, array: NDArray, piece: NDArray) -> None:
        """Write ``piece``, which `of` returned for ``array``, back into the array; nothing to do if it is a
        view.
        """
        if not self.box:
            array[self.index] = piece


WHOLE = Part((), 0)


def part_of(value: Shaped) -> tuple[Part, NDArray] | None:
    """Part of the entries that a gradient's value stores, and these entries, each once; None if it stores
    none.
    """
    index, entries = stored(value)
    if not entries.size:
        return None
    if not value.shape:
        return WHOLE, entries.reshape(())
    if isinstance(index, tuple):
        box = [k for k, s in enumerate(index) if not _everything(s, value.shape[k])]
        index = index[: box[-1] + 1] if box else ()
        return (Part(index, len(index)) if index else WHOLE), entries
    return Part(index, index.ndim), entries


def _everything(index: slice | NDArray, extent: int) -> bool:
    return type(index) is slice and index.indices(extent) == (0, extent, 1)


def part_of_masked(keys: NDArray, shape: Shape, entries: NDArray) -> tuple[Part, NDArray] | None:
    """Part and entries of a masked gradient; None if no entry is specified.

    keys : the row-major addresses of the specified entries.
    """
    if not keys.size:
        return None
    if not shape:
        return WHOLE, entries.reshape(())
    return Part(np.unravel_index(keys, shape), len(shape)), entries


def part_of_stored(parameter: Sparse, gradient: Sparse, argument: str) -> tuple[Part, NDArray]:
    """Part of the stored entries of a sparse parameter that a sparse gradient covers, and the gradient's
    entries.

    Raises ArgumentError if the gradient may be nonzero at an entry that the parameter does not store.
    """
    pattern, k = parameter.pattern, parameter.pattern.ndim
    support = support_pattern(gradient)
    if support is None or not pattern.distinct:
        raise _outside(
            parameter,
            argument,
            "a gradient that is not sparse" if support is None else "entries stored twice",
        )
    if support is pattern:
        return WHOLE, gradient.entries
    if support.ndim < k:
        gradient = with_sparse_axes(gradient, k)
    elif support.ndim > k:
        gradient = with_dense_axes(coalesced(gradient), k)
    (*index,), entries = stored(gradient)
    at, there = pattern.find(addresses(np.array(index), pattern.shape))
    if not there.all():
        raise _outside(
            parameter,
            argument,
            f"a gradient with {int((~there).sum())} entries that the parameter does not store",
        )
    return Part((at,), 1), entries


def _outside(parameter: Sparse, argument: str, description: str) -> ArgumentError:
    return ArgumentError(
        "step",
        argument,
        got=f"{description}, for a parameter of shape {parameter.shape} "
        f"that stores {parameter.pattern.count} entries",
        expected="one within what the parameter stores, each entry once",
        remedy="optimise its values() or masked_tensor(parameter), or make it dense with to_dense()",
    )


def writable(p: Tensor) -> NDArray:
    """Buffer of a parameter, in C order, to write a step into; the parameter stands for this buffer
    afterwards.

    It is the parameter's own buffer if nobody else has it, else a copy. For a sparse parameter it has the
    stored entries.
    """
    sparse = isinstance(value_of(p), Sparse)
    # No second name for what is counted: a reference more is another owner.
    alone = not sparse or has_one_owner(value_of(p))
    buffer: NDArray = value_of(p).values if sparse else to_strided(value_of(p))
    if not (alone and buffer.base is None and buffer.flags.carray and has_one_owner(buffer)):
        buffer = buffer.copy()
    if sparse:
        if value_of(p).values is not buffer:
            rebind(p, type(value_of(p))(value_of(p).pattern, buffer))
        buffer = value_of(p).entries
    else:
        rebind(p, buffer)
    return buffer


def spread(array: NDArray, axes: int, shape: Shape) -> NDArray:
    """Array over the first ``axes`` axes of ``shape``, from one over fewer leading axes, by repetition."""
    if array.ndim >= axes:
        return array
    return np.broadcast_to(array.reshape(array.shape + (1,) * (axes - array.ndim)), shape[:axes]).copy()


def spread_state(state: Mapping[str, Tensor], axes: int, shape: Shape) -> None:
    """Give each array of a state its own entry for each place on the first ``axes`` axes of ``shape``.

    Arrays that have fewer axes are replaced; a step can then change a part of their entries.
    """
    for x in state.values():
        if (array := value_of(x)).ndim < axes:
            rebind(x, spread(array, axes, shape))


__all__ = [
    "WHOLE",
    "Part",
    "State",
    "part_of",
    "part_of_masked",
    "part_of_stored",
    "spread",
    "spread_state",
    "writable",
]
