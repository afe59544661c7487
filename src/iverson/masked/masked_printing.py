"""The ``repr`` and the HTML of masked tensors: as of tensors, with ``--`` where an entry is unspecified."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np

from iverson.core import dtypes
from iverson.core.dispatch import has_entries, value_of
from iverson.core.protocols import NDArray, Shaped
from iverson.handles import notebook
from iverson.handles.spy import Picture
from iverson.layouts import to_strided
from iverson.masked.mask import Masked

ABSENT = "--"
_PLAIN = (dtypes.float64, dtypes.int64, dtypes.bool, dtypes.complex128)


class Printed(Masked, Shaped, Protocol):
    """A masked tensor, as it is printed."""

    @property
    def size(self) -> int:
        """The number of entries."""

    @property
    def layout(self) -> str:
        """The layout of data and mask."""

    @property
    def requires_grad(self) -> bool:
        """True if operations are recorded."""


def show(x: Printed) -> str:
    """Text like ``iverson.MaskedTensor([1., --])``, with shape, dtype and requires_grad if they are not the
    default.

    The text of a large sparse-backed tensor has its shape and the number of specified entries instead.
    """
    prefix = "iverson.MaskedTensor("
    facts = []
    if not has_entries(x._inner):
        origin = "" if not hasattr(x._mask.array, "requires_grad") else ", mask computed"
        return f"{prefix}shape={x.shape}, dtype={x.dtype}{origin})"
    small = x.layout == "strided" or x.size <= np.get_printoptions()["threshold"]
    if 0 in x.shape and x.shape != (0,):
        facts.append(f"shape={x.shape}")
    if x.dtype not in _PLAIN or x._mask.count == 0:
        facts.append(f"dtype={x.dtype}")
    if x.layout != "strided":
        facts.append(f"layout={x.layout!r}")
    if x.requires_grad:
        facts.append("requires_grad=True")
    content = entries(x, prefix) if small else f"shape={x.shape}, specified={x._mask.count}"
    return prefix + ", ".join([content, *facts]) + ")"


def page(x: Printed, picture: Picture) -> str:
    """HTML of a masked tensor for notebooks, with a picture of which entries are specified."""
    count = x._mask.count
    share = f" ({count / x.size:.2g})" if x.size else ""
    return notebook.page("MaskedTensor", x.layout, x, [f"{count:,} specified of {x.size:,}{share}"], picture)


def entries(x: Printed, prefix: str = "") -> str:
    """Text of the entries alone, as NumPy prints them; of a large tensor, only those at the edges.

    prefix : the text before the entries, so that further lines are indented by its length.
    """
    cells, dots = (_edges if x.size > np.get_printoptions()["threshold"] else _all)(x)
    width = max((len(text) for text in cells.flat), default=0)
    for axis, middle in dots:
        cells = np.insert(cells, middle, "", axis)
    return np.array2string(
        cells,
        separator=", ",
        prefix=prefix,
        threshold=0 if dots else cells.size + 1,
        formatter={"all": lambda text: str(text).rjust(width)},
    )


def _all(x: Printed) -> tuple[NDArray, list[tuple[int, int]]]:
    """Array with the text of each entry, and an empty list: nothing is left out (see `_edges`)."""
    cells = np.full(x.size, ABSENT, object)
    cells[x._mask.keys] = _texts(to_strided(value_of(x._inner)))
    return cells.reshape(x.shape), []


def _edges(x: Printed) -> tuple[NDArray, list[tuple[int, int]]]:
    """The texts of the printed entries, and pairs of an axis with a gap and the position of the gap."""
    edge = np.get_printoptions()["edgeitems"]
    long = [k for k, n in enumerate(x.shape) if n > 2 * edge]
    places = [np.r_[:edge, n - edge : n] if k in long else np.arange(n) for k, n in enumerate(x.shape)]
    mask = x._mask.array
    there = mask[np.ix_(*places)]
    cells = np.full(there.shape, ABSENT, object)
    keys = np.ravel_multi_index(np.meshgrid(*places, indexing="ij"), x.shape)[there]
    # The vector is in row-major order: a position in it is how many entries come before.
    flat = mask.reshape(-1)
    before = [np.count_nonzero(flat[a:b]) for a, b in pairwise([0, *keys.tolist()])]
    cells[there] = _texts(to_strided(value_of(x._inner))[np.cumsum(before, dtype=np.intp)])
    return cells, [(k, edge) for k in long]


def _texts(values: NDArray) -> list[str]:
    """Text of each entry, as NumPy prints it in an array with the others."""
    if not values.size:
        return []
    separator = "\0"
    text = np.array2string(
        values, separator=separator, max_line_width=1 << 60, threshold=values.size + 1, prefix=""
    )
    return [part.strip() for part in text[1:-1].split(separator)]
