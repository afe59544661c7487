"""Rules of line reductions, once for eager code and compiled graphs: results of the entries that lines store
and of the zeros that they do not store.

A rule is ``rule(lines, entries, params)``, written against the namespace ``lines.N``, whose ops take arrays
(lines of `sparse_reductions`) or write equations (lines of `iverson.graph.sparse.line_reductions`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from iverson.core.protocols import Namespace, Params

#: An array, or a value of a graph.
Entries = Any


class StoredLines(ABC):
    """Lines (slices along the axes that a reduction reduces) of which only some entries are stored.

    N : the ops on entries.
    length, full : the length of each line; the same as a number, or as one for each line.
    number : the number of entries that each line stores.
    position : the place of each stored entry in its line.
    gap : the first place of each line that is not stored; the length of the line if all are stored.
    """

    N: Namespace
    length: int
    full: Entries
    number: Entries
    position: Entries
    gap: Entries

    @abstractmethod
    def summed(self, entries: Entries) -> Entries:
        """Sum of the stored entries of each line."""

    @abstractmethod
    def combined(self, entries: Entries, kind: str) -> Entries:
        """Product ("prod"), largest ("max") or least ("min") of the stored entries of each line."""

    @abstractmethod
    def each(self, of_lines: Entries) -> Entries:
        """Value ``of_lines`` of its line, for each stored entry."""

    def extreme(self, entries: Entries, largest: bool) -> Entries:
        """Largest or least entry of each line, where entries that are not stored count as zeros."""
        top = self.combined(entries, "max" if largest else "min")
        return self.where_full(top, (self.N.maximum if largest else self.N.minimum)(top, 0))

    def where_full(self, full: Entries, other: Entries) -> Entries:
        """Value for each line: ``full`` if the line stores every entry, else ``other``."""
        return self.N.where(self.N.less(self.number, self.full), other, full)

    def missing(self) -> Entries:
        """The number of zeros of each line that are not stored."""
        return self.N.subtract(self.full, self.number)


def _largest(lines: StoredLines, entries: Entries, _params: Params) -> Entries:
    return lines.extreme(entries, largest=True)


def _least(lines: StoredLines, entries: Entries, _params: Params) -> Entries:
    return lines.extreme(entries, largest=False)


def _position(largest: bool) -> Callable[[StoredLines, Entries, Params], Entries]:
    def rule(lines: StoredLines, entries: Entries, _params: Params) -> Entries:
        """The first place of the extremum: of a stored entry, or the first that is not stored if it is 0."""
        N, top = lines.N, lines.extreme(entries, largest)
        extremum = lines.each(top)
        is_extreme = N.equal(entries, extremum)
        if entries.dtype.kind in "fc":
            is_extreme = N.logical_or(is_extreme, N.logical_and(N.isnan(entries), N.isnan(extremum)))
        place = lines.combined(N.where(is_extreme, lines.position, lines.length), "min")
        return lines.where_full(place, N.where(N.equal(top, 0), N.minimum(place, lines.gap), place))

    return rule


def _product(lines: StoredLines, entries: Entries, _params: Params) -> Entries:
    """0 for lines that do not store all of their entries: a structural zero annihilates."""
    return lines.where_full(lines.combined(entries, "prod"), 0)


def _true(lines: StoredLines, entries: Entries) -> Entries:
    """Number of stored entries of each line that are not 0."""
    return lines.summed(lines.N.astype(lines.N.not_equal(entries, 0), dtype=np.dtype(np.int64)))


def _any(lines: StoredLines, entries: Entries, _params: Params) -> Entries:
    return lines.N.greater(_true(lines, entries), 0)


def _all(lines: StoredLines, entries: Entries, _params: Params) -> Entries:
    return lines.N.equal(_true(lines, entries), lines.length)


def squares(N: Namespace, entries: Entries) -> Entries:
    """Squared absolute values of ``entries``."""
    if entries.dtype.kind != "c":
        return N.square(entries)
    return N.add(N.square(N.real(entries)), N.square(N.imag(entries)))


def _norm(lines: StoredLines, entries: Entries, _params: Params) -> Entries:
    return lines.N.sqrt(lines.summed(squares(lines.N, entries)))


def _deviation(lines: StoredLines, entries: Entries, params: Params) -> Entries:
    """Sum, for each line, of the squared distances of all entries from their mean, or its square root.

    An entry that is not stored adds the square of the mean. The parameter ``squared`` chooses the sum.
    """
    N = lines.N
    mean = N.multiply(lines.summed(entries), 1 / lines.length)
    apart = lines.summed(squares(N, N.subtract(entries, lines.each(mean))))
    total = N.add(apart, N.multiply(lines.missing(), squares(N, mean)))
    return total if params["squared"] else N.sqrt(total)


def shifted_logsumexp(lines: StoredLines, entries: Entries) -> tuple[Entries, Entries]:
    """Two values of each line: the logarithm of the sum of ``exp(x - top)`` over all entries x, and ``top``.

    ``top`` is the largest entry of the line, or 0 if that is infinite. Entries that are not stored are zeros.
    """
    N, top = lines.N, lines.extreme(entries, largest=True)
    top = N.where(N.isinf(top), 0, top)
    stored_sum = lines.summed(N.exp(N.subtract(entries, lines.each(top))))
    missing_sum = N.multiply(lines.missing(), N.exp(N.negative(top)))
    return N.log(N.add(stored_sum, lines.where_full(0, missing_sum))), top


def _logsumexp(lines: StoredLines, entries: Entries, _params: Params) -> Entries:
    return lines.N.add(*shifted_logsumexp(lines, entries))


def losses(lines: StoredLines, entries: Entries, classes: Entries) -> Entries:
    """Cross entropy of each line: ``log(sum(exp(x))) - x[class]``.

    classes : the class (a position) for each line. If that entry is not stored, ``x[class]`` is 0.
    """
    N = lines.N
    of_class = N.equal(lines.position, lines.each(classes))
    logarithm, top = shifted_logsumexp(lines, entries)
    return N.subtract(logarithm, N.subtract(lines.summed(N.where(of_class, entries, 0)), top))


def over_examples(N: Namespace, losses: Entries, reduction: str) -> Entries:
    """The sum or the mean of losses, or all of them ("none")."""
    if reduction == "none":
        return losses
    total = N.sum(losses, axis=(0,), keepdims=False)
    return N.divide(total, float(max(losses.shape[0], 1))) if reduction == "mean" else total


def shares(lines: StoredLines, entries: Entries, largest: bool) -> tuple[Entries, Entries]:
    """Extremum of each line, and 1/n if n entries attain it, with the zeros that are not stored."""
    N, top = lines.N, lines.extreme(entries, largest)
    ties = N.astype(N.equal(entries, lines.each(top)), dtype=entries.dtype)
    zeros = N.where(N.equal(top, 0), lines.missing(), 0)
    return top, N.reciprocal(N.maximum(N.add(lines.summed(ties), zeros), 1))


def share_of_each(N: Namespace, entries: Entries, top: Entries, share: Entries) -> Entries:
    """Value for each stored entry: ``share`` if the entry is equal to ``top``, nan if it is nan, else 0.

    top, share : the values of the entry's line, for each entry.
    """
    return N.where(N.isnan(entries), math.nan, N.where(N.equal(entries, top), share, 0))


class LineRule(NamedTuple):
    """Rule of a reduction of lines, with the dtypes for which compiled code has it.

    kinds : the kinds (``dtype.kind``) of these dtypes.
    rule : the function that the docstring of the module describes.
    empty : a function from the length of a line to the result of a line that stores nothing; None if that
        result is 0.
    """

    kinds: str
    rule: Callable[[StoredLines, Entries, Params], Entries]
    empty: Callable[[int], float] | None = None


#: By the names of ops.
RULES: dict[str, LineRule] = {
    "all": LineRule("bfciu", _all),
    "any": LineRule("bfciu", _any),
    "argmax": LineRule("fiu", _position(largest=True)),
    "argmin": LineRule("fiu", _position(largest=False)),
    "deviation": LineRule("fc", _deviation),
    "logsumexp": LineRule("f", _logsumexp, empty=np.log),
    "max": LineRule("fiu", _largest),
    "min": LineRule("fiu", _least),
    "norm": LineRule("fc", _norm),
    "prod": LineRule("fciu", _product),
}


__all__ = [
    "RULES",
    "LineRule",
    "StoredLines",
    "losses",
    "over_examples",
    "share_of_each",
    "shares",
    "squares",
]
