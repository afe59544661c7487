"""Layout registry: one record per value type; a layout is added by one call of `register`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from iverson.core.dispatch import LevelValue
from iverson.core.entries import FULL, Entries
from iverson.core.errors import ArgumentTypeError, DensifyWarning
from iverson.core.protocols import LayoutValue, NDArray
from iverson.core.python.caller import warn
from iverson.core.shapes import Shape

#: The rows and columns of a block, for layouts that store blocks.
Blocks = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Layout:
    """All facts of a layout.

    name : as users read it in ``x.layout``.
    kind : the type of its values, which have ``shape`` and ``dtype``.
    to_strided : the documented conversion that makes every entry explicit.
    check : raises if a value breaks the layout's invariants.
    support : the entries outside of which a value is zero (a pattern stores each once).
    buffers : the NumPy arrays a value is made of (to count bytes and find shared memory); the last one holds
        the entries.
    structure : the arrays that say where entries are, which values may share (to count bytes).
    stored : the entries that a value stores, each once: an index into an array of its shape (slices, a
        boolean array or a tuple of integer arrays) and the entries there. None if it stores all.
    rebuild : a value with the same structure on other buffers.
    to_coo : the stored entries of a value, as a value in COO; by default from those of `stored`.
    from_coo : ``from_coo(value, blocksize)``: the value in this layout with the entries of one in COO, in
        which each entry is stored once, and whose sparse axes fit; no axis is dense, unless ``dense_axes``.
        It may add and leave out explicit zeros, and raises an ArgumentError where it cannot hold the other
        entries. Users can ask for the layouts that have it (`to_layout`). Where a pattern class can hold any
        entries, a `ByPattern` keeps on a pattern what it is converted to, and converts demanded entries too.
    dense_axes : whether values can have dense trailing axes.
    blocked : whether users have to say a blocksize.
    unfit : ``unfit(shape, blocksize)``: what the extents of the sparse axes should be, or "" for those that
        the layout can hold.
    densify_warns : whether `to_strided` inside an operation is worth a `DensifyWarning`. Layouts that only
        the engine makes, next to a primal of the dense size, do not warn.
    priority : which layout's kernel is tried first in a call with several.
    """

    name: str
    kind: type
    to_strided: Callable[[Any], np.ndarray[Any, Any]]
    check: Callable[[Any], None]
    buffers: Callable[[Any], tuple[np.ndarray[Any, Any], ...]]
    rebuild: Callable[[Any, tuple[np.ndarray[Any, Any], ...]], Any]
    structure: Callable[[Any], tuple[np.ndarray[Any, Any], ...]] = lambda value: ()
    support: Callable[[Any], Entries] = lambda value: FULL
    stored: Callable[[Any], tuple[Any, np.ndarray[Any, Any]] | None] = lambda value: None
    to_coo: Callable[[Any], Any] | None = None
    from_coo: Callable[[Any, Blocks], Any] | None = None
    dense_axes: bool = False
    blocked: bool = False
    unfit: Callable[[Shape, Blocks], str] = lambda shape, blocks: ""
    densify_warns: bool = True
    priority: int = 10


#: Every registered layout, by the type of its values.
layouts_by_type: dict[type, Layout] = {}


def register(layout: Layout) -> Layout:
    """Add a layout to the registry (or replace the one of the same type)."""
    layouts_by_type[layout.kind] = layout
    return layout


def layouts() -> tuple[Layout, ...]:
    """All registered layouts, except values of transform levels (`LevelValue`): these hold no entries."""
    return tuple(layout for layout in layouts_by_type.values() if not issubclass(layout.kind, LevelValue))


def layout_named(name: str) -> Layout:
    """The layout that users call ``name``; raises LookupError if there is none."""
    for layout in layouts_by_type.values():
        if layout.name == name:
            return layout
    raise LookupError(name)


def sparse_layouts() -> tuple[Layout, ...]:
    """The layouts that users can ask for with `to_layout`, without the strided one."""
    return tuple(layout for layout in layouts_by_type.values() if layout.from_coo is not None)


def layout_of(value: LayoutValue) -> Layout:
    """The layout of a value; raises ArgumentTypeError for anything that is not one."""
    try:
        return layouts_by_type[type(value)]
    except KeyError:
        raise ArgumentTypeError(
            "layout",
            "value",
            got=type(value).__name__,
            expected=", ".join(k.__name__ for k in layouts_by_type),
        ) from None


def support_of(value: Any) -> Entries:
    """The entries outside of which ``value`` is structurally zero."""
    return (layouts_by_type.get(type(value)) or layout_of(value)).support(value)


def support_pattern(value: LayoutValue) -> Any:
    """The sparse pattern outside of which ``value`` is zero; None if its support is no sparse pattern."""
    return getattr(support_of(value), "pattern", None)


def stored(value: LayoutValue) -> tuple[Any, np.ndarray[Any, Any]]:
    """Index of the stored entries in an array of the shape of ``value``, and the entries.

    The index is slices, a boolean array or a tuple of integer arrays; each entry occurs once. If the layout
    stores all entries, the index is ``()`` and the entries are the strided array.
    """
    layout = layout_of(value)
    result = layout.stored(value)
    return ((), layout.to_strided(value)) if result is None else result


def entries(value: LayoutValue) -> int:
    """Number of stored entries of ``value``; explicit zeros and repeats count."""
    buffers = layout_of(value).buffers(value)
    return buffers[-1].size if buffers else 0


def _owner(array: NDArray) -> np.ndarray[Any, Any]:
    """Array at the end of the chain of views that ``array`` begins: its memory is the memory of ``array``."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _arrays(value: LayoutValue | complex) -> tuple[np.ndarray[Any, Any], ...]:
    """Arrays that ``value`` consists of: values, then places of entries; ``()`` for a number."""
    layout = layouts_by_type.get(type(value))
    return () if layout is None else (*layout.buffers(value), *layout.structure(value))


def new_bytes(
    result: LayoutValue, operands: Iterable[LayoutValue | complex], structures: Iterable[NDArray] = ()
) -> int:
    """Number of bytes of the arrays of ``result`` that share no memory with operands or ``structures``.

    The arrays that say where entries are count too.

    structures : more arrays whose memory is not new.
    """
    owner_ids = {id(_owner(array)) for value in operands for array in _arrays(value)}
    owner_ids.update(id(_owner(array)) for array in structures)
    total = 0
    for array in _arrays(result):
        owner = _owner(array)
        if id(owner) not in owner_ids:
            owner_ids.add(id(owner))
            total += min(array.nbytes, owner.nbytes)
    return total


def warn_dense(value: LayoutValue, operation: str) -> None:
    """Warn with DensifyWarning that an operation makes all entries of a value's shape explicit."""
    warn(
        f"{operation}: no kernel for layout '{layout_of(value).name}': all {prod(value.shape)} entries of "
        f"shape {value.shape} are made explicit; call to_dense() first to say that this is meant",
        DensifyWarning,
    )


def to_strided(value: LayoutValue, operation: str = "", *, quiet: bool = True) -> np.ndarray[Any, Any]:
    """Strided array of ``value``, with every entry explicit.

    Unless ``quiet``, a layout that has ``densify_warns`` gives a DensifyWarning that names ``operation``.
    """
    layout = layouts_by_type.get(type(value)) or layout_of(value)
    if not quiet and layout.densify_warns:
        warn_dense(value, operation)
    return layout.to_strided(value)
