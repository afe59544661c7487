"""Pattern symbols: stand for patterns that are known only when a program runs; equal where the patterns are.

A symbol stands for any pattern of a layout, shape and number of entries. What follows from these is known of
it. A pattern that follows from others (a transpose, a union, a row) is another symbol, computed from the
patterns themselves when a call says which they are (`Binding`). The places of entries cannot be read:
`PatternRead` reports an attempt.

How many entries such a union or row has depends on the call. Its symbol has a *capacity*, at least as many as
in the call that is traced (`examples`): it is in the same layout for all calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from math import isqrt, prod
from typing import Any, NoReturn, TypeVar
from weakref import ref

import numpy as np

from iverson.core.errors import GraphError
from iverson.core.protocols import Params
from iverson.core.python.caller import is_of_users
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.layouts.compressed import CompressedPattern
from iverson.layouts.coo import CooPattern
from iverson.layouts.pattern import Array, Pattern, coordinates_of
from iverson.layouts.placement import converted
from iverson.layouts.weak_tables import ForOthers, StillUsed

T = TypeVar("T")

#: Which pattern each symbol is, in a call.
Binding = dict["PatternSymbol", Pattern]
#: Gives the pattern that follows from others, the same object each time; None where there is none.
Make = Callable[..., Pattern | None]


class PatternRead(GraphError):
    """Something needs to know where the entries of a pattern are that is not known yet."""

    def __init__(self, *_: Any, **_said: Any) -> None:  # as `speaking_as` makes it again
        super().__init__(
            "trace",
            got="a read of where the entries of a sparse operand are",
            expected="what is the same for all patterns of its layout, shape and number of entries",
            remedy="close over the operand, whose pattern is then a constant",
        )


def _guarded(name: str) -> Any:
    """Method of `StandIn` for the method ``name`` of int: it raises PatternRead in code of the user.

    The methods of `_KEPT` give a `StandIn` again.
    """
    how = getattr(int, name)

    def operate(self: int, *operands: int) -> Any:
        if is_of_users():
            raise PatternRead
        result = how(self, *operands)
        return StandIn(result) if name in _KEPT and type(result) is int else result

    return operate


_KEPT = ("__mul__", "__rmul__")
_SIDED = ("add", "sub", "mul", "floordiv", "truediv", "mod", "divmod", "pow", "and", "or", "xor", "lshift")
_ALONE: tuple[str, ...] = (
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "hash",
    "bool",
    "int",
    "index",
    "float",
    "format",
    "repr",
)
_ALONE += ("neg", "pos", "abs", "invert", "trunc", "round", "floor", "ceil", "str", "rshift", "rrshift")


class StandIn(int):
    """A number of entries that stands for any number of entries.

    Code of the user does not get one (see `handed_out`), and each operation on one that reaches it in another
    way raises PatternRead: a trace goes one way, and a number computed from it would not say so.
    """

    __slots__ = ()
    for _name in (*_ALONE, *_SIDED, *(f"r{name}" for name in _SIDED)):
        locals()[f"__{_name}__"] = _guarded(f"__{_name}__")
    del _name


def as_stand_ins(extents: Shape, shapes: Sequence[Shape]) -> Shape:
    """Extents of a result as stand-ins, but for 1 and those that are plain ints in ``shapes``, from which it
    follows.

    >>> [type(n).__name__ for n in as_stand_ins((7, 8, 6, 1), [(StandIn(7), 6)])]
    ['StandIn', 'StandIn', 'int', 'int']
    """
    counts = {n for shape in shapes for n in shape if type(n) is StandIn}
    plain_extents = {n for shape in shapes for n in shape if type(n) is not StandIn} | {1}
    return tuple([n if n in plain_extents and n not in counts else StandIn(n) for n in extents])


def handed_out(extents: Shape | int, depth: int = 1) -> Any:
    """Return ``extents``, unless one of them is a `StandIn` and the receiving frame is code of the user.

    Raises PatternRead then.

    depth : number of frames from the caller of this function up to the frame that receives the extents.
    """
    parts = extents if type(extents) is tuple else (extents,)
    if StandIn in map(type, parts) and is_of_users(depth + 1):
        raise PatternRead
    return extents


class Counts:
    """Source of numbers of entries for the symbols of one trace; no number is given twice.

    taken : numbers that must not be given, because they occur in the trace.
    kind : type of the numbers. Numbers of type `StandIn` are no capacities: they may be less than the number
        of entries in a call.
    """

    def __init__(self, taken: set[int], kind: type[int] = int) -> None:
        self._taken, self._kind = taken, kind

    def of(self, stored_shape: Shape) -> int:
        """A new number of entries (or of blocks) for a symbol of patterns with this ``stored_shape``."""
        count, *block = stored_shape
        n = max(count, 1) + 1 if self._kind is StandIn else capacity(count)
        while self._taken & {n, n * prod(block)}:
            n = n + 1 if self._kind is StandIn else _prime(n + 1)
        self._taken |= {n, n * prod(block)}
        return self._kind(n)


def capacity(count: int) -> int:
    """Number of entries that a program can hold when the call that is traced has ``count``.

    It is at least ``count``, and a prime, so that it is no product of other extents. At most a quarter of it
    is beyond ``count``, unless that is small. Symbols after the first take the primes that follow: a hundred
    symbols of one count have capacities that are near each other.
    """
    result = 64
    while result < count:
        result += 1 << max(result.bit_length() - 3, 0)
    return _prime(result)


def _prime(n: int) -> int:
    """The smallest prime that is at least ``n``."""
    while not all(n % k for k in range(2, isqrt(n) + 1)):
        n += 1
    return n


class PatternSymbol(Pattern):
    """A pattern of which everything is known except the places of its entries.

    model : a pattern of the same layout and shape that stores nothing; the symbol has its layout.
    count : number of stored entries, or of stored blocks.
    sources : functions that give the patterns from which this one is computed; such a function gives None if
        its pattern is gone.
    how : computes the pattern from the patterns of the sources; None for a symbol without sources.
    back : computes the pattern of the only source from the pattern of this symbol.
    capacity : whether ``count`` is an upper bound, and the number of entries may be less.
    by_rows : see `Pattern.by_rows`; counts only where the layout does not imply it.
    counts : gives numbers of entries for symbols that are computed from this one.
    """

    is_symbol = True
    __slots__ = ("_back", "_by_rows", "_how", "_sources", "capacity", "counts", "kind", "layout", "model")

    def __init__(
        self,
        model: Pattern,
        count: int,
        sources: Sequence[Callable[[], Pattern | None]] = (),
        how: Callable[..., Pattern] | None = None,
        back: Callable[[Pattern], Pattern] | None = None,
        *,
        capacity: bool = False,
        by_rows: bool = False,
        counts: Counts | None = None,
    ) -> None:
        super().__init__(model.shape, (count, *model.stored_shape[1:]))
        self.model: Any = model
        self.layout, self.kind = model.layout, model.kind
        self._how, self._back = how, back
        self.capacity = capacity
        self._by_rows = by_rows
        self._sources = tuple(sources)
        self.counts = counts or Counts({*model.shape, count})

    def at(self, binding: Binding) -> Pattern:
        """The pattern that this symbol stands for in a call.

        If ``binding`` lacks the symbol, the pattern is computed from the sources and added to ``binding``.
        Raises PatternRead if the symbol has no sources.
        """
        pattern = binding.get(self)
        if pattern is None:
            if self._how is None:
                raise PatternRead
            pattern = binding[self] = self._how(*[actual(p, binding) for p in self.sources])
        return pattern

    def with_capacity(
        self, count: int, counts: Counts | None = None, now: Callable[[Pattern], Pattern] | None = None
    ) -> PatternSymbol:
        """A new symbol like this one, for patterns that store at most ``count`` entries, or blocks.

        counts : gives numbers of entries for symbols that follow from the new one; by default the same
            object.
        now : gives for each source the pattern that takes its place; by default sources stay.
        """
        sources = self._sources if now is None else [partial(_held, now(p)) for p in self.sources]
        how = sources, self._how, self._back
        counts = counts or self.counts
        return PatternSymbol(self.model, count, *how, capacity=True, by_rows=self._by_rows, counts=counts)

    @property
    def sources(self) -> list[Pattern]:
        """The patterns from which this one is computed. Raises PatternRead if one of them is gone."""
        patterns = [p() for p in self._sources]
        if None in patterns:
            raise PatternRead
        return patterns  # type: ignore[return-value]

    @property
    def follows(self) -> bool:
        """True if the pattern of this symbol is computed from other patterns (its ``sources``)."""
        return self._how is not None

    def bind(self, pattern: Pattern, binding: Binding) -> None:
        """Set the pattern of this symbol in ``binding``.

        If the source is a symbol that ``binding`` lacks, and its pattern can be computed from ``pattern``, it
        is bound too.
        """
        binding[self] = pattern
        source = self._sources[0]() if self._back is not None else None
        if isinstance(source, PatternSymbol) and self._back is not None and source not in binding:
            source.bind(self._back(pattern), binding)

    @property
    def known_from(self) -> PatternSymbol | None:
        """The only source, if that is a symbol whose pattern follows from this one's; else None."""
        source = self._sources[0]() if self._back is not None else None
        return source if isinstance(source, PatternSymbol) else None

    @property
    def extents(self) -> tuple[int, int]:
        """Number of stored blocks (of entries, without blocks), and number of stored entries."""
        return self.stored_shape[0], self.count

    @property
    def blocksize(self) -> tuple[int, int] | None:
        return self.model.blocksize  # type: ignore[no-any-return]

    @property
    def index_dtype(self) -> Any:
        return self.model.index_dtype

    @property
    def distinct(self) -> bool:
        return True

    @property
    def by_rows(self) -> bool:
        return self._by_rows or (self.layout != "coo" and self.model.by_rows)

    def permuted(self, axes: Shape) -> Pattern:
        """See `Pattern.permuted`."""
        if axes == tuple(range(self.ndim)):
            return self
        back = tuple(int(k) for k in np.argsort(axes))
        reference = self._facts.get(("back", axes))
        if reference is not None and (source := reference()) is not None:
            return source  # type: ignore[no-any-return]

        def make() -> PatternSymbol:
            """Make the symbol with permuted axes; its inverse permutation gives this symbol back."""
            model = self.model.permuted(axes)
            symbol = PatternSymbol(
                model,
                self.count // prod(model.stored_shape[1:]),
                (partial(_held, self),),
                lambda p: p.permuted(axes),
                lambda p: p.permuted(back),
                capacity=self.capacity,
                counts=self.counts,
            )
            symbol._facts["back", back] = ref(self)
            return symbol

        return self._followed_by(("permuted", axes), make)

    def _followed_by(self, key: Hashable, make: Callable[[], PatternSymbol]) -> PatternSymbol:
        """The symbol that is computed from this one, kept under ``key``; ``make`` makes it at the first call.

        It is kept as long as something else uses it, and it keeps this symbol alive.
        """
        table = _known((self,))
        symbol = table.get(key)
        if symbol is None:
            symbol = table[key] = make()
        return symbol

    def of_entries(self, dense: Shape) -> Pattern:
        """See `Pattern.of_entries`."""
        if not dense:
            return self

        def make() -> PatternSymbol:
            return PatternSymbol(
                self.model.of_entries(dense),
                self.count * prod(dense),
                (partial(_held, self),),
                lambda p: p.of_entries(dense),
                capacity=self.capacity,
                by_rows=self.by_rows and not self.blocksize,
                counts=self.counts,
            )

        return self._followed_by(("of entries", dense), make)

    def within(self, region: Region) -> Pattern:
        """See `Pattern.within`."""
        if region.covers((*self.shape, *region.stop[self.ndim :])):
            return self
        pattern = follows(("within", region), lambda p: p.within(region), self)
        assert pattern is not None
        return pattern

    def met_with(self, other: Pattern) -> Pattern:
        """See `Pattern.met_with`."""
        if other is self:
            return self
        pattern = follows(("met with",), lambda p, q: p.met_with(q), self, other)
        assert pattern is not None
        return pattern

    def _unknown(self, *_: Any) -> NoReturn:
        raise PatternRead

    arrays = property(_unknown)
    coordinates = property(_unknown)
    keys = property(_unknown)
    sorted = property(_unknown)
    indices = property(_unknown)
    indptr = property(_unknown)
    _coordinates = along = index_array = lines_along = find = subset = _unknown  # type: ignore[assignment]

    def check(self) -> None:
        """See `Pattern.check`; a symbol has no entries that could be wrong."""

    def coalescing(self) -> tuple[Pattern, Array]:
        """Raise PatternRead; nobody has to call it, because the entries of a symbol are distinct."""
        raise PatternRead

    def __reduce__(self) -> NoReturn:
        raise TypeError("a symbol stands for a pattern of one process")


def symbol_for(
    pattern: Pattern, count: int | None = None, counts: Counts | None = None
) -> PatternSymbol | None:
    """A new symbol for patterns like ``pattern``; None if patterns of its type have no symbols.

    count : number of stored entries, or blocks, of these patterns; by default that of ``pattern``.
    counts : gives numbers of entries for symbols that follow from the new one.
    """
    count = pattern.stored_shape[0] if count is None else count
    model = _model_of(pattern)
    by_rows = model is not None and pattern.layout == "coo" and pattern.by_rows
    return None if model is None else PatternSymbol(model, count, by_rows=by_rows, counts=counts)


def has_symbols(pattern: Pattern | None) -> bool:
    """True if a symbol can stand for patterns like this one."""
    return type(pattern) is CooPattern or type(pattern) is CompressedPattern


def _model_of(pattern: Pattern) -> Pattern | None:
    """A pattern like the given one, without entries; None for a pattern that has no symbols."""
    if type(pattern) is CooPattern:
        return CooPattern(pattern.shape, np.zeros((pattern.ndim, 0), pattern.index_dtype), True)
    if type(pattern) is CompressedPattern:
        starts = np.zeros(pattern.indptr.size, pattern.index_dtype)
        empty = np.zeros(0, pattern.index_dtype)
        return CompressedPattern(pattern.shape, starts, empty, pattern.axis, pattern.blocks)
    return None


# --- what follows from patterns ---------------------------------------------------------------------

_examples: ContextVar[Binding | None] = ContextVar("iverson_examples", default=None)


@contextmanager
def examples(binding: Binding) -> Iterator[None]:
    """Context in which `follows` can make new symbols that are computed from the symbols of ``binding``.

    The patterns of ``binding``, those of the call that is traced, are the examples: from these the new
    symbols get their layout and a capacity.
    """
    outer = _examples.get() or {}
    patterns: Binding = {**outer, **{s: actual(p, outer) for s, p in binding.items()}}
    before = _examples.set(patterns)
    try:
        yield
    finally:
        _examples.reset(before)


def follows(key: Hashable, make: Make, *sources: Pattern) -> Pattern | None:
    """The pattern that ``make`` computes from ``sources``; a symbol for it if one of the sources is a symbol.

    The same symbol is returned as long as it is in use. Its layout is the one that ``make`` gives for the
    patterns of `examples`. The result is None if ``make`` returns None. Raises PatternRead if a new symbol is
    needed outside of `examples`.

    key : identifies ``make``.
    """
    if PatternSymbol not in map(type, sources):
        return make(*sources)
    symbol = _known(sources).get((key, tuple(map(id, sources))))
    if symbol is not None:
        return symbol
    binding = _examples.get()
    if binding is None:
        raise PatternRead
    example = make(*[actual(p, binding) for p in sources])
    if example is None:
        return None
    model = _model_of(example)
    if model is None:
        raise PatternRead
    return _symbol(key, make, model, sources)


def _known(sources: Sequence[Pattern]) -> StillUsed[PatternSymbol]:
    """Table of the symbols in use that are computed from ``sources``, kept on the first symbol."""
    first = next(p for p in sources if isinstance(p, PatternSymbol))
    table: StillUsed[PatternSymbol] = first.once("followed by", StillUsed)
    return table


def _symbol(key: Hashable, make: Make, model: Pattern, sources: Sequence[Pattern]) -> Pattern:
    """The symbol of the pattern that ``make`` computes from ``sources``; ``model`` if its shape is empty.

    model : a pattern without entries, in the layout of the symbol.
    """
    if 0 in model.shape:
        return model
    full = key, tuple(map(id, sources))
    symbol = _known(sources).get(full)
    if symbol is None:
        binding = _examples.get()
        if binding is None:
            raise PatternRead
        example = _followed(key, make, model, *[actual(p, binding) for p in sources])
        counts = next(p.counts for p in sources if isinstance(p, PatternSymbol))
        symbol = _known(sources)[full] = PatternSymbol(
            model,
            counts.of(example.stored_shape),
            [partial(_held, p) for p in sources],
            partial(_followed, key, make, model),
            capacity=True,
            counts=counts,
        )
    return symbol


def _held(pattern: Pattern) -> Pattern:
    """Return ``pattern``: with `partial`, a function that keeps the pattern alive and gives it."""
    return pattern


def _followed(key: Hashable, make: Make, model: Pattern, *sources: Pattern) -> Pattern:
    """The pattern that ``make`` computes from ``sources``, converted to the layout of ``model``.

    It is kept as long as the sources live. If a source is a symbol, the result is a symbol.
    """
    if any(isinstance(p, PatternSymbol) for p in sources):
        return _symbol(key, make, model, sources)
    like = model.layout, model.blocksize, len(sources)

    def make_like() -> Callable[[], Any]:
        pattern = _like(make(*sources), model)
        itself = any(pattern is p for p in sources)  # a pattern does not keep itself
        return ref(pattern) if itself else partial(_held, pattern)

    return kept(("followed by", key, like), sources, make_like)()  # type: ignore[no-any-return]


def kept(key: Hashable, patterns: Sequence[Pattern], make: Callable[[], T]) -> T:
    """The fact that is kept under ``key`` for this sequence of ``patterns``, as long as all of them live.

    ``make`` computes it at the first call.
    """
    first, *remaining = patterns
    if not remaining:
        return first.once(key, make)
    table: ForOthers[Any] = first.once(key, ForOthers)
    for p in remaining[:-1]:
        inner: ForOthers[Any] | None = table.get(p)
        if inner is None:
            inner = table[p] = ForOthers()
        table = inner
    entry = table.get(remaining[-1])
    if entry is None:
        fact = make()
        entry = table[remaining[-1]] = (fact,)
    return entry[0]


def _like(pattern: Pattern | None, model: Pattern) -> Pattern:
    """A pattern of at least the entries of ``pattern``, each stored once, in the layout of ``model``.

    If ``pattern`` is None, the result stores all entries of the shape of ``model``.
    """
    if pattern is None:
        keys = np.arange(prod(model.shape))
        pattern = CooPattern(model.shape, coordinates_of(keys, model.shape, model.index_dtype), True)
    if not pattern.distinct:
        pattern = pattern.coalescing()[0]  # type: ignore[attr-defined]
    result = converted(pattern, model.layout, model.blocksize)[0]
    return result if result.index_dtype == model.index_dtype else _with_indices_as(result, model)


def _with_indices_as(pattern: Pattern, model: Pattern) -> Pattern:
    """The entries of a pattern in the layout of a model, with indices of its dtype. (The union of two
    patterns of which one stores nothing may be the other, whose indices are narrower than those of both.)"""
    dtype = model.index_dtype
    if type(pattern) is CooPattern:
        return CooPattern(pattern.shape, pattern.indices.astype(dtype), True)
    assert isinstance(pattern, CompressedPattern)
    parts = pattern.indptr.astype(dtype), pattern.indices.astype(dtype)
    return CompressedPattern(pattern.shape, *parts, pattern.axis, pattern.blocks)


def actual(pattern: Pattern, binding: Binding) -> Pattern:
    """The pattern itself, or the pattern that a symbol stands for."""
    return pattern.at(binding) if isinstance(pattern, PatternSymbol) else pattern


def widened(counts: dict[PatternSymbol, int], taken: Counts) -> dict[PatternSymbol, PatternSymbol]:
    """New symbols in place of those in ``counts``, for the given numbers of entries, or blocks.

    Symbols between these that are computed from a replaced symbol are replaced too, so that the new symbols
    are computed from each other as the old ones are.

    taken : gives the new numbers of entries.
    """
    symbols: dict[Pattern, PatternSymbol] = {}

    def now(p: Pattern) -> Pattern:
        if p in symbols or not isinstance(p, PatternSymbol) or not p.follows:
            return symbols.get(p, p)
        sources = list(map(now, p.sources))
        if p in counts:
            count = taken.of((counts[p], *p.stored_shape[1:]))
            symbols[p] = p.with_capacity(count, taken, now)
        elif any(a is not b for a, b in zip(sources, p.sources, strict=True)):
            symbols[p] = p.with_capacity(p.stored_shape[0], taken, now)
        return symbols.get(p, p)

    return {s: now(s) for s in counts}  # type: ignore[misc]


def bound(params: Params, binding: Binding) -> dict[str, Any]:
    """Parameters of an op in which each pattern symbol is replaced by its pattern in ``binding``."""
    return {k: v.at(binding) if isinstance(v, PatternSymbol) else v for k, v in params.items()}


def kind_key(pattern: Pattern) -> Any:
    """A key that is equal for patterns whose symbols differ in the number of entries alone."""
    traits = pattern.layout, pattern.shape, pattern.index_dtype, pattern.stored_shape[1:]
    return type(pattern), *traits, pattern.by_rows


__all__ = [
    "Binding",
    "Counts",
    "PatternRead",
    "PatternSymbol",
    "StandIn",
    "actual",
    "as_stand_ins",
    "bound",
    "capacity",
    "examples",
    "follows",
    "handed_out",
    "has_symbols",
    "kept",
    "kind_key",
    "symbol_for",
    "widened",
]
