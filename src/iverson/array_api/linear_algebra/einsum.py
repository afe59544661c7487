"""Einstein summation: the parser of subscripts and the order of contractions.

The products are `iverson.array_api.linear_algebra.contraction`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.operands import as_operands, in_common
from iverson.array_api.linear_algebra.contraction import Labels, arrange, contract
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.shapes import Shape
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike


Term = tuple[Any, Labels]


def _invalid(text: str, expected: str) -> ArgumentError:
    return ArgumentError("einsum", "subscripts", got=text, expected=expected)


@lru_cache(maxsize=1024)
def parse(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """Labels of the axes of each operand, and those of the result's axes.

    A label is a letter, or a negative integer for an axis under an ellipsis, counted from its end.
    ranks : the number of axes of each operand.
    """
    text = subscripts.replace(" ", "")
    before, arrow, after = text.partition("->")
    terms = before.split(",")
    if len(terms) != len(ranks):
        raise _invalid(f"{len(terms)} terms in {subscripts!r}", f"one for each of {len(ranks)} operands")
    inputs = tuple(_labels(t, n, subscripts) for t, n in zip(terms, ranks, strict=True))
    occurrences = [label for labels in inputs for label in labels]
    hidden: Labels = tuple(sorted({label for label in occurrences if isinstance(label, int)}))
    if not arrow:
        once = sorted(
            {label for label in occurrences if occurrences.count(label) == 1 and isinstance(label, str)}
        )
        return inputs, hidden + tuple(once)
    output = _labels(after, len(after.replace("...", "")) + len(hidden) * ("..." in after), subscripts)
    if len(set(output)) != len(output) or not set(output) <= set(occurrences):
        raise _invalid(f"result {after!r} in {subscripts!r}", "each label of the operands at most once")
    return inputs, output


def _labels(term: str, rank: int, subscripts: str) -> Labels:
    """Labels of the axes of one operand of rank ``rank``, from its ``term`` of the subscripts."""
    head, dots, tail = term.partition("...")
    letters = head + tail
    if not all(c.isalpha() and c.isascii() for c in letters):
        raise _invalid(f"{term!r} in {subscripts!r}", "letters and at most one ellipsis")
    hidden = rank - len(letters)
    if hidden < 0 or (hidden and not dots):
        raise _invalid(f"{term!r} for an operand of rank {rank}", "a letter for each axis, or an ellipsis")
    return (*head, *range(-hidden, 0), *tail)


def einsum(subscripts: str, /, *operands: A | ArrayLike) -> A:
    """The Einstein sum: products of entries, summed over every label the result lacks.

    ``subscripts`` names the axes of each operand by letters, an ellipsis for axes that broadcast, and
    after ``->`` those of the result (by default the letters that occur once, in alphabetical order). A
    letter twice in one operand takes its diagonal. Operands are contracted in pairs, each pair by one
    product of matrices; for three and more the order is NumPy's greedy one. Nothing is conjugated.

    Raises ArgumentError for subscripts that do not fit the operands, ShapeError where extents differ.

    >>> from iverson import ones
    >>> einsum("ij,jk->ik", ones((2, 3)), ones((3, 4))).shape
    (2, 4)
    """
    if not isinstance(subscripts, str):
        raise _invalid(f"a {type(subscripts).__name__}", "a string such as 'ij,jk->ik'")
    xs = as_operands(operands, "einsum", "operands")
    inputs, output = parse(subscripts, tuple(x.ndim for x in xs))
    return in_common(xs, lambda xs: _contracted(xs, inputs, output))


def _contracted(xs: Sequence[Array], inputs: Sequence[Labels], output: Labels) -> Any:
    """Einstein sum of ``xs``, by contractions of pairs in the order that `_path` gives."""
    extents = _extents(xs, inputs)
    terms = [_simple(x, labels, extents) for x, labels in zip(xs, inputs, strict=True)]
    for positions in _path(terms, output, extents):
        operands = [terms[k] for k in positions]
        terms = [t for k, t in enumerate(terms) if k not in positions]
        later_labels = {label for _, labels in terms for label in labels} | set(output)
        while len(operands) > 1:
            labels_kept = {label for _, labels in operands[2:] for label in labels} | later_labels
            operands = [_pair(operands[0], operands[1], labels_kept), *operands[2:]]
        terms.append(operands[0])
    x, labels = _summed(terms[0], set(output))
    x = arrange(x, labels, output)
    shape = tuple(extents[label] for label in output)
    return F.broadcast_to(x, shape=shape) if x.shape != shape else x


def _extents(xs: Sequence[Array], inputs: Sequence[Labels]) -> dict[Any, int]:
    """Extent of each label; raises ShapeError if extents differ, but 1 fits any."""
    by_label: dict[Any, int] = {}
    for k, (x, labels) in enumerate(zip(xs, inputs, strict=True)):
        for label, n in zip(labels, x.shape, strict=True):
            if by_label.setdefault(label, n) == 1:
                by_label[label] = n
            elif n not in (1, by_label[label]):
                name = f"'{label}'" if isinstance(label, str) else "an ellipsis"
                raise ShapeError(
                    "einsum",
                    f"operands[{k}]",
                    got=f"extent {n} for label {name}",
                    expected=f"{by_label[label]}",
                )
    return by_label


def _simple(x: Array, labels: Labels, extents: Mapping[Hashable, int]) -> Term:
    """Operand with each label at most once: diagonals are taken, and axes that are to be broadcast are
    removed.
    """
    stretched = tuple(
        k for k, (label, n) in enumerate(zip(labels, x.shape, strict=True)) if n != extents[label]
    )
    if stretched:
        x = F.squeeze(x, axis=stretched)
        labels = tuple(label for k, label in enumerate(labels) if k not in stretched)
    while len(set(labels)) != len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        i = labels.index(label)
        j = labels.index(label, i + 1)
        other_axes = tuple(k for k in range(x.ndim) if k not in (i, j))
        x = F.diagonal(F.permute_dims(x, axes=(*other_axes, i, j)), offset=0)
        labels = (*(labels[k] for k in other_axes), label)
    return x, labels


def _summed(term: Term, required: set[Hashable]) -> Term:
    """Operand summed over its labels that are not in ``required``."""
    x, labels = term
    axes = tuple(k for k, label in enumerate(labels) if label not in required)
    if not axes:
        return term
    remaining = tuple(label for label in labels if label in required)
    return F.sum(x, axis=axes, keepdims=False), remaining


def _pair(first: Term, second: Term, required: set[Hashable]) -> Term:
    a, of_a = _summed(first, required | set(second[1]))
    b, of_b = _summed(second, required | set(of_a))
    return contract(a, of_a, b, of_b, tuple(required))


def _path(
    terms: Sequence[Term], output: Labels, extents: Mapping[Hashable, int]
) -> tuple[tuple[int, ...], ...]:
    """Order of contractions: for each, the positions of its terms in the list of terms.

    The terms are removed from the list, and the result is appended to it.
    """
    if len(terms) < 3:
        return (tuple(range(len(terms))),)
    letters = {label: chr(ord("A") + k + (6 if k > 25 else 0)) for k, label in enumerate(extents)}
    inputs = ",".join("".join(letters[label] for label in labels) for _, labels in terms)
    result = "".join(letters[label] for label in output if any(label in labels for _, labels in terms))
    return _greedy(f"{inputs}->{result}", tuple(x.shape for x, _ in terms))


@lru_cache(maxsize=1024)
def _greedy(subscripts: str, shapes: tuple[Shape, ...]) -> tuple[tuple[int, ...], ...]:
    blank = np.empty(())
    operands = [np.broadcast_to(blank, shape) for shape in shapes]
    steps = np.einsum_path(subscripts, *operands, optimize="greedy")[0][1:]
    return tuple(tuple(sorted(step)) for step in steps)


__all__ = ["einsum"]
