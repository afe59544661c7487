"""Pattern origins: find, on demand, which entries a value of a trace or a batch would store in eager code.

A trace knows the support of a value, often less exactly than eager code does: of `s @ t` it knows nothing.
An `Origin` keeps the op that computed a value, and which entries its operands store. A request for the
pattern (`stored_by`) runs the op's kernel on operands with these patterns, and gets the pattern that eager
code has. Before a request nothing is computed; an op of a trace that reads the value makes one. Where the
pattern depends on entries it is `UNKNOWN`, never all entries.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from iverson.core.dispatch import Handle, LevelValue, levels, value_of
from iverson.core.dtypes import widened
from iverson.core.errors import IversonError
from iverson.core.op import Op, frozen
from iverson.core.protocols import LayoutValue, Params
from iverson.core.shapes import Shape
from iverson.core.table import TABLE
from iverson.kernels.kernel_registry import may_store, run_in_layouts
from iverson.layouts import CooPattern, Pattern, Sparse, Zero, is_strided
from iverson.layouts.pattern_symbols import Make, PatternRead, PatternSymbol, follows, kept


class _Unknown:
    """The unknown pattern of a value that may be sparse. The only instance is `UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()
#: Index arrays up to so many bytes are told apart by their entries.
_SMALL = 4096
#: The family of ops that run bodies.
CONTROL = "control"
#: A pattern, `UNKNOWN`, None for a value that is not sparse, or an `Origin` that finds one of these.
Stored: TypeAlias = "Pattern | Origin | _Unknown | None"


class Origin(ABC):
    """A deferred pattern: finds, on demand, which entries a value stores.

    of : the patterns and origins from which this pattern follows.
    repeats : True if the value may store some entries twice, and it is not known which.
    """

    __slots__ = ("_found", "_of", "repeats")

    def __init__(self, *of: Stored, repeats: bool = False) -> None:
        self._found: Any = self
        self._of = of
        self.repeats: bool = repeats or any(isinstance(x, Origin) and x.repeats for x in of)

    def stored(self) -> Any:
        """Pattern of the value without repeated entries; `UNKNOWN`, or None for a value that is not sparse.

        The pattern is computed at the first call, after those of all origins from which it follows.
        """
        waiting: list[Origin] = [self]  # no recursion: programs are long
        while waiting:
            first = waiting[-1]
            before = [x for x in first._of if isinstance(x, Origin) and x._found is x]
            if not before and first._found is first:
                first._found = first._find()
            waiting += before or ()
            if not before:
                waiting.pop()
        return self._found

    @abstractmethod
    def _find(self) -> Stored:
        """The pattern, after all origins that it follows from have found theirs."""


def stored_once(stored: Stored) -> Any:
    """Pattern that ``stored`` is or finds, without repeated entries if it has to be found.

    The result is `UNKNOWN` if the pattern is not known, and None for a value that is not sparse.
    """
    return stored.stored() if isinstance(stored, Origin) else stored


def resolved(stored: Stored) -> Any:
    """Pattern that ``stored`` is or finds; `UNKNOWN`, or None for a value that is not sparse.

    Raises PatternRead if some entries may be stored twice, and it is not known which.
    """
    if isinstance(stored, Origin) and stored.repeats:
        raise PatternRead
    return stored_once(stored)


def origin_of(x: Handle | LayoutValue | complex) -> Any:
    """Pattern of ``x``, or the `Origin` that can find it, uncomputed; None if ``x`` is not sparse."""
    value = value_of(x, x)
    if isinstance(value, LevelValue | Zero):
        return value.stored
    return value.pattern if isinstance(value, Sparse) else None


def stored_by(x: Handle | LayoutValue | complex) -> Any:
    """Pattern that eager code has for ``x``, `UNKNOWN`, or None if ``x`` is not sparse.

    The pattern is computed if it is deferred, and all active levels note that patterns were read. Raises
    PatternRead if the pattern cannot be told, as for a value that may store entries twice.
    """
    for level in levels():
        level.reads_patterns = True
    pattern = resolved(origin_of(x))
    if isinstance(pattern, PatternSymbol) and type(value_of(x, x)) is Zero:
        raise PatternRead  # a zero is of no level, and so has the shape of one pattern
    return pattern


def layout_in_level(x: Handle | LayoutValue | complex) -> str | None:
    """Name of the sparse layout that eager code has for ``x``, a value of a level.

    The result is None for all other values, and if the layout is not sparse or not known.
    """
    pattern = stored_by(x) if isinstance(x, LevelValue) and x.stored is not None else None
    return pattern.layout if isinstance(pattern, Pattern) else None


def note_stored(x: Handle | LayoutValue | complex, stored: Stored) -> None:
    """Note ``stored`` (a pattern or its origin) on the value of ``x``, if that is a value of a level."""
    value = value_of(x, x)
    if isinstance(value, LevelValue):
        value.note_stored(stored)


def noted(x: Handle | LayoutValue | complex, stored: Stored) -> Any:
    """Make ``x`` a variable of each active level in turn, note ``stored`` on each, and return the last one.

    stored : the pattern that eager code has for ``x``, or its origin.
    """
    for level in levels():
        x = level.variable_of(x)
        note_stored(x, stored)
    return x


def is_sparse(x: Handle | LayoutValue | complex) -> bool:
    """True if eager code has, or may have, the value of a handle in a sparse layout."""
    return stored_by(x) is not None


def same(a: Stored, b: Stored) -> bool:
    """True if two values are known to store the same entries in the same layout."""
    if a is b:
        return a is not UNKNOWN
    if not (isinstance(a, Pattern) and isinstance(b, Pattern)) or PatternSymbol in (type(a), type(b)):
        return False
    alike = a.layout == b.layout and a.shape == b.shape and a.stored_shape == b.stored_shape
    return alike and a.distinct == b.distinct and bool(np.array_equal(a.keys, b.keys))


class Repeated(Origin):
    """The origin of a value with repeated entries, from a symbol for the pattern without repeats."""

    __slots__ = ()

    def __init__(self, symbol: PatternSymbol) -> None:
        super().__init__(symbol, repeats=True)

    def _find(self) -> Stored:
        return self._of[0]


class Either(Origin):
    """The origin of one of several values: their pattern if all have the same, else `UNKNOWN`."""

    __slots__ = ()

    def _find(self) -> Stored:
        first, *other_patterns = map(stored_once, self._of)
        return first if all(same(first, other) for other in other_patterns) else UNKNOWN


class Unclear(Origin):
    """The origin of a value that is not sparse if no source is; else its pattern is `UNKNOWN`."""

    __slots__ = ()

    def _find(self) -> Stored:
        return None if all(stored_once(x) is None for x in self._of) else UNKNOWN


class Part:
    """An operand of a deferred op: its shape, the dtype in which it is computed, and its pattern.

    ``array`` has the entries of a constant of integers or booleans (indices, flags); else it is None.
    """

    __slots__ = ("array", "dtype", "shape", "stored")

    def __init__(self, operand: LayoutValue, stored: Stored = None) -> None:
        self.shape: Shape = operand.shape
        self.dtype = widened(operand.dtype)
        self.stored = origin_of(operand) if stored is None else stored
        self.array = (
            operand if self.stored is None and is_strided(operand) and self.dtype.kind in "biu" else None
        )

    @property
    def is_large(self) -> bool:
        return self.array is not None and self.array.nbytes > _SMALL

    @property
    def key(self) -> Any:
        return self.shape, self.dtype, None if self.array is None else self.array.tobytes()

    def value(self, pattern: Pattern | None, entry: float) -> Any:
        """A value like the operand, with the pattern and with arbitrary entries of magnitude ``entry``."""
        if self.array is not None:
            return self.array
        if pattern is None:
            return np.broadcast_to(np.asarray(entry).astype(self.dtype), tuple(map(int, self.shape)))
        shape = pattern.count, *self.shape[pattern.ndim :]
        entries = entry * np.random.default_rng(0).uniform(1, 2, shape)  # of blocks that are not singular
        entries[::2] *= -1  # so that 0 is not the extremum
        return pattern.value(entries.astype(self.dtype))


class _ByEntries(Exception):
    """Raised where the pattern of a result depends on the numbers that its operands store."""


class Computed(Origin):
    """The origin of a result of ``op``, where an operand may be sparse.

    parts : the operands; numbers stay numbers.
    index : the number of the result, if the op has several results; None if it has one.
    """

    __slots__ = ("_op", "_params", "_parts", "_position")

    def __init__(
        self, op: Op, parts: Sequence[Part | complex], params: Params, index: int | None = None
    ) -> None:
        super().__init__(*(x.stored if isinstance(x, Part) else None for x in parts))
        self._op, self._params, self._position = op, params, index
        self._parts: Sequence[Any] = parts

    def _find(self) -> Stored:
        """Pattern of the result, from the patterns of the operands.

        It is None if the result is not sparse for any entries, and `UNKNOWN` if it depends on entries or on
        an operand whose pattern is not known.
        """
        operand_patterns = list(map(stored_once, self._of))
        if UNKNOWN in operand_patterns:
            with_none = [
                _empty(x.shape) if p is UNKNOWN else p
                for x, p in zip(self._parts, operand_patterns, strict=True)
            ]
            with suppress(_ByEntries):
                return None if self._run(with_none, self._params, 1.5) is None else UNKNOWN
            return UNKNOWN
        sources = [p for p in operand_patterns if p is not None]
        if not sources:
            return UNKNOWN if _into_sparse(self._op, self._params) else None
        at = [p is not None for p in operand_patterns]
        symbol_params = [k for k, p in self._params.items() if isinstance(p, PatternSymbol)]
        sources += [self._params[k] for k in symbol_params]

        def make(*patterns: Pattern) -> Pattern | None:
            remaining_patterns = iter(patterns)
            per_operand = [next(remaining_patterns) if has else None for has in at]
            return self._made(
                per_operand, {**self._params, **dict(zip(symbol_params, remaining_patterns, strict=True))}
            )

        key = self._key(at)
        # Kept on the patterns, as programs repeat what is not sparse: a product with a vector.
        cache: list[Stored] = [] if key is self else kept(("not sparse", key), sources, list)
        if not cache:
            pattern = self._from(sources, make, key)
            if isinstance(pattern, Pattern):
                return pattern
            cache.append(pattern)
        return cache[0]

    def _from(self, sources: Sequence[Pattern], make: Make, key: Hashable) -> Any:
        """Pattern that ``make`` returns for ``sources``; None if the result is not sparse.

        It is `UNKNOWN` if it depends on stored numbers. Some sources may be symbols for patterns. The result
        is then a symbol for the pattern that follows from them. Raises PatternRead if the result is sparse
        for some patterns, but not for others.
        """
        try:
            if PatternSymbol not in map(type, sources):
                return make(*sources)
            models = [p.model if isinstance(p, PatternSymbol) else p for p in sources]
            if self._op.elementwise and len(set(sources)) == 1 and make(*models) is models[0]:
                return sources[0]
            pattern = follows(("stored by", key), make, *sources)
        except _ByEntries:
            return UNKNOWN
        with suppress(_ByEntries):  # singular, perhaps
            if pattern is None and make(*models) is not None:
                raise PatternRead  # of other patterns it is sparse
        return pattern

    def _key(self, at: Sequence[bool]) -> Any:
        """A key under which results have the same pattern; the origin itself if none is cheap to compare."""
        parts = (x.key if isinstance(x, Part) else x for x in self._parts)
        key = self._op, self._position, tuple(at), frozen(self._params), *parts
        try:
            hash(key)
        except TypeError:  # parameters with an array
            return self
        return self if any(isinstance(x, Part) and x.is_large for x in self._parts) else key

    def _made(self, patterns: Sequence[Pattern | None], params: Params) -> Pattern | None:
        """Pattern of the result for operands with ``patterns``; None if the result is not sparse.

        It is the very pattern of an operand, if it has the same entries. The result is None if it is not
        sparse. Raises _ByEntries if the pattern depends on index operands that are not known, or on the
        stored numbers: it is another one if all of them are 0.
        """
        pattern = self._run(patterns, params, 1.5)
        places_may_be_sparse = all(self._parts[k].stored is not None for k in self._places())
        if pattern is not None and not (
            places_may_be_sparse and same(pattern, self._run(patterns, params, 0))
        ):
            raise _ByEntries
        return next((p for p in patterns if same(pattern, p)), pattern)

    def _places(self) -> list[int]:
        """Numbers of the index operands (integers or booleans) whose entries are not known.

        Index operands say where entries go, as those of `gather` do.
        """
        data = {k for group in self._op.groups(len(self._parts)) for k in group}
        return [
            k
            for k, x in enumerate(self._parts)
            if not self._op.elementwise and k not in data and isinstance(x, Part)
            if x.array is None and x.dtype.kind in "biu"
        ]

    def _run(self, patterns: Sequence[Pattern | None], params: Params, entry: float) -> Pattern | None:
        """Run the kernel on operands with ``patterns``; return its result's pattern, or None if it is not
        sparse.

        The entries of operands are arbitrary numbers of magnitude ``entry``. Index operands whose entries are
        not known (`_places`) are 0: kernels do not check whether an axis has other positions. Raises
        _ByEntries if the kernel raises an error.
        """
        places = self._places()
        values = [
            x.value(p, 0 if k in places else entry) if isinstance(x, Part) else x
            for k, (x, p) in enumerate(zip(self._parts, patterns, strict=True))
        ]
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = run_in_layouts(self._op, tuple(values), dict(params))
        except PatternRead:
            raise
        except (IversonError, ValueError, ArithmeticError) as error:
            raise _ByEntries from error
        if self._position is not None and result is not NotImplemented:
            result = result[self._position]
        return result.pattern if isinstance(result, Sparse) else None


def _empty(shape: Shape) -> Pattern:
    return CooPattern(shape, np.zeros((len(shape), 0), np.int64), True)


def origins(
    op: Op, args: Sequence[Handle | LayoutValue | complex], params: Params, count: int = 1
) -> Sequence[Stored]:
    """Pattern, or its origin, of each result of an op in a level; None for a result that is not sparse.

    args : handles, values, arrays and numbers.
    count : the number of results.
    """
    if op.name in ("from_values", "stored_on"):
        return (params["pattern"],)
    operands = [value_of(x, x) for x in args]
    if all(origin_of(x) is None for x in operands):
        return (UNKNOWN if _into_sparse(op, params) else None,) * count
    if op.family == CONTROL or not may_store(op):  # what bodies store is known where they are traced
        return (None,) * count
    parts = [Part(x) if hasattr(x, "shape") else x for x in operands]
    return [Computed(op, parts, params, k if op.multiple else None) for k in range(count)]


def with_origin(
    op: Op,
    args: Sequence[Handle | LayoutValue | complex],
    params: Params,
    out: Any,
) -> Any:
    """Results ``out`` of an op; new values of the zero layout among them get a pattern or the origin of one.

    It is the pattern that eager code would store if the result had numbers in place of the zeros.
    """
    outputs = out if op.multiple else (out,)
    operand_ids = {id(value_of(a, a)) for a in args}
    results = tuple(
        Zero(v.shape, v.dtype, origin)
        if type(v) is Zero and id(v) not in operand_ids and origin is not None
        else v
        for v, origin in zip(outputs, origins(op, args, params, len(outputs)), strict=True)
    )
    return results if op.multiple else results[0]


def stacked(step: Stored, of: LayoutValue, count: int) -> Stored:
    """Pattern, or its origin, of ``count`` values stacked along a new first axis.

    step : the pattern of each of them, or its origin.
    of : a value with the shape and dtype of a single result.
    """
    if step is None or not count:
        return step
    return Computed(TABLE["stack"], [Part(of, step)] * count, {"axis": 0})


def _into_sparse(op: Op, params: Params) -> bool:
    """True if an op converts a dense operand to a sparse layout: its nonzero entries decide the pattern."""
    return op.entry_map.converts and params.get("layout", "strided") != "strided"
