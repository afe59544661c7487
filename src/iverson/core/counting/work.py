"""Work counters: matrix products, elementwise ops, bytes and skipped cotangents, per context.

One *product* is one 2-D matrix product, thin ones included; a batch counts its size. Kernels report here;
`iverson.explain` only formats. While no counter is active, a report costs one comparison. Skipped work, with
its reason, is noted for counters that keep notes (`core.counting.notes`); its cost is worked out later
(`core.counting.cost`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iverson.core.counting.notes import Annihilated, Called, Skip, Unspecified

ProductShape = tuple[int, int, int]
Cast = tuple[str, str, str, tuple[str, ...]]


@dataclass
class Work:
    """Work counted in a block.

    ``product_shapes`` maps (rows, inner, columns) to how many such products ran; ``elementwise`` and
    ``calls`` map op names to calls; ``bytes`` maps op names to bytes of new memory, in any layout, with the
    places of entries; ``entries`` maps them to how many entries results hold; ``rules`` maps op names
    to visits of the reverse pass; ``undefined_of`` and ``unneeded_of`` map op names to cotangents of their
    inputs that were not computed, because none arrived at the op or because nobody asked. ``casts`` counts
    cotangents that came from a rule in another dtype than their input's, as (the forward call, dtype given,
    dtype of the input, dtypes of the cotangents the rule was handed). ``factorisations`` counts
    those of sparse matrices. ``factorisation_multiply_adds`` maps names of factorisations and solves of
    full matrices to theirs (`core.counting.factorisations`). ``sparse_products`` counts products that walk
    stored entries, which have no shape here, and ``sparse_multiply_adds`` their terms. ``entrywise`` maps
    names of other ops to how many entries they computed, or read one by one (reductions); what only moves
    entries has none. ``notes``, if kept, are `Skip`, `Annihilated`, `Unspecified` and `Called`.

    >>> import iverson as iv
    >>> with iv.explain.count() as work:
    ...     y = iv.ones((2, 3)) @ iv.ones((3, 4))
    >>> dict(work.product_shapes)
    {(2, 3, 4): 1}
    """

    product_shapes: Counter[ProductShape] = field(default_factory=Counter)
    elementwise: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    entries: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    casts: Counter[Cast] = field(default_factory=Counter)
    undefined_of: Counter[str] = field(default_factory=Counter)
    unneeded_of: Counter[str] = field(default_factory=Counter)
    factorisations: int = 0
    factorisation_multiply_adds: Counter[str] = field(default_factory=Counter)
    sparse_products: int = 0
    sparse_multiply_adds: int = 0
    entrywise: Counter[str] = field(default_factory=Counter)
    notes: list[Any] | None = None

    @property
    def products(self) -> int:
        return sum(self.product_shapes.values())

    @property
    def multiply_adds(self) -> int:
        """Number of multiply-adds of all products, sparse ones too, and of factorisations and solves."""
        dense = sum(m * k * n * times for (m, k, n), times in self.product_shapes.items())
        return dense + self.sparse_multiply_adds + self.factorisation_multiply_adds.total()

    @property
    def undefined(self) -> int:
        return sum(self.undefined_of.values())

    @property
    def unneeded(self) -> int:
        return sum(self.unneeded_of.values())

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes.values())

    @property
    def total_entrywise(self) -> int:
        return sum(self.entrywise.values())

    @property
    def total_entries(self) -> int:
        return sum(self.entries.values())


_current: ContextVar[tuple[Work, ...]] = ContextVar("iverson_work", default=())


class _Active:
    """Number of counters that are open in any thread; zero makes reports free."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


active = _Active()


@contextmanager
def counting(*, notes: bool = False) -> Iterator[Work]:
    """Count the work of this context until the block ends. Counters nest; outer counters count it too.

    notes : True to keep notes of work that is not done. A note keeps its recorded call alive.
    """
    work = Work(notes=[] if notes else None)
    token = _current.set((*_current.get(), work))
    active.count += 1
    try:
        yield work
    finally:
        active.count -= 1
        _current.reset(token)


def product(rows: int, inner: int, columns: int, batch: int = 1) -> None:
    """Report ``batch`` matrix products of the given shape."""
    if active.count:
        for work in _current.get():
            work.product_shapes[rows, inner, columns] += batch


def sparse_product(multiply_adds: int) -> None:
    """Report a product that loops over stored entries, with its number of multiply-adds."""
    for work in _current.get():
        work.sparse_products += 1
        work.sparse_multiply_adds += multiply_adds


def note(event: Skip | Annihilated | Unspecified | Called) -> None:
    """Note something that is not done, or done in part."""
    for work in _current.get():
        if work.notes is not None:
            work.notes.append(event)


def op(name: str, elementwise: bool, new_bytes: int, entries: int, entrywise: int = 0) -> None:
    """Report one call of the op ``name``.

    new_bytes : bytes of memory that its results needed.
    entries : number of entries that its results store.
    entrywise : number of entries that it computed, or read one by one.
    """
    for work in _current.get():
        work.calls[name] += 1
        work.entries[name] += entries
        if entrywise:
            work.entrywise[name] += entrywise
        if elementwise:
            work.elementwise[name] += 1
        if new_bytes:
            work.bytes[name] += new_bytes


def factorisation(name: str, multiply_adds: int) -> None:
    """Report a factorisation or a solve of full matrices."""
    for work in _current.get():
        work.factorisation_multiply_adds[name] += multiply_adds


def factorised() -> None:
    """Report the factorisation of a sparse matrix."""
    for counter in _current.get():
        counter.factorisations += 1


def rule(name: str) -> None:
    """Report that a gradient rule of the named op ran."""
    for work in _current.get():
        work.rules[name] += 1


def skipped(name: str, undefined: int = 0, unneeded: int = 0) -> None:
    """Report cotangents of inputs of the op ``name`` that were not computed.

    undefined : number of those for which the call got no cotangent.
    unneeded : number of those that nothing reads.
    """
    for work in _current.get():
        work.undefined_of[name] += undefined
        work.unneeded_of[name] += unneeded


def cast(where: str, result_dtype: str, input_dtype: str, cotangent_dtypes: tuple[str, ...]) -> None:
    """Report a cotangent that a rule gave in another dtype than that of the input.

    where : the forward call, as text.
    cotangent_dtypes : dtypes of the cotangents that the rule was given.
    """
    for work in _current.get():
        work.casts[where, result_dtype, input_dtype, cotangent_dtypes] += 1
