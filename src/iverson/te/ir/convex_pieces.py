"""Disjoint convex pieces: conditions and indices with alternatives, split into cases.

i != k              ->   i < k | i > k
a or b              ->   a | not a and b
max(i, j) < n       ->   i < n where i >= j | j < n where i < j
A[max(i - 1, 0)]    ->   A[i - 1] where i >= 1 | A[0] where i < 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from iverson.expr.build import apply, index
from iverson.expr.function_facts import NEGATED
from iverson.expr.nodes import Apply, Expr, Select, postorder
from iverson.te.ir.expressions import substitute, variables
from iverson.te.ir.index_arithmetic import (
    Constraint,
    conjuncts,
    constraints_of,
    depends_on_data,
    flattened,
    holds,
    negation,
)
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.nodes import Domain

#: Cases a statement is split into at most; beyond that its guards stay as they are.
MAX_PIECES = 32

Piece = tuple[Expr, ...]  # conditions that all hold


def disjoint(conditions: Sequence[Expr]) -> list[Piece] | None:
    """Disjoint convex pieces that together are the points at which all conditions hold.

    There are none if a condition holds nowhere. The result is None if a condition cannot be split into such
    pieces, or if they would be too many.

    >>> from iverson.te.ir.expressions import Var
    >>> i = Var("i", 0, 9)
    >>> disjoint([i != 3])
    [(i < 3,), (i > 3,)]
    """
    parts = [part for condition in conditions for part in conjuncts(condition)]
    choices = [p for p in parts if constraints_of(p) is None and _has_choices(p)]
    if choices:
        return _of_choices(parts, choices)
    pieces: list[Piece] = [()]
    single: list[Expr] = []
    for part in parts:
        alternatives = _pieces_of(part)
        if alternatives is None or len(alternatives) * len(pieces) > MAX_PIECES:
            return None
        possible = [q for q in alternatives if _possible(q)]
        if len(possible) == 1 and possible[0] == (part,):
            single.append(part)  # most often; a long piece would be copied each time
        else:
            pieces = [(*p, *q) for p in pieces for q in possible]
    return [(*single, *p) for p in pieces]


def _has_choices(part: Expr) -> TypeGuard[Apply]:
    """True for a comparison of integers of which one is chosen."""
    return isinstance(part, Apply) and part.name in NEGATED and _first_choice(part.args) is not None


def _pieces_of(part: Expr) -> list[Piece] | None:
    if constraints_of(part) is not None:
        return [(part,)]
    if isinstance(part, Apply) and part.name == "not_equal" and part.args[0].dtype.kind in "iu":
        a, b = part.args
        return [(apply("less", a, b),), (apply("greater", a, b),)]
    if isinstance(part, Apply) and part.name == "logical_or":
        return _first_that_holds(flattened(part, "logical_or"))
    return None


def _of_choices(parts: Sequence[Expr], comparisons: Sequence[Apply]) -> list[Piece] | None:
    """Pieces of a conjunction of ``parts``, for each case of the choices in ``comparisons``, some of these.

    None if they are too many.
    """
    result: list[Piece] = []
    for conditions, sides in index_cases([side for c in comparisons for side in c.args]):
        if _first_choice(sides) is not None:
            return None
        new: dict[Expr, Expr] = {
            c: apply(c.name, *sides[2 * k : 2 * k + 2]) for k, c in enumerate(comparisons)
        }
        pieces = disjoint([*conditions, *(new.get(p, p) for p in parts)])
        if pieces is None or len(result) + len(pieces) > MAX_PIECES:
            return None
        result += pieces
    return result


def _first_that_holds(parts: list[Expr]) -> list[Piece] | None:
    """Pieces in which the k-th part holds and no earlier part does, for each k; None if they are too many."""
    if len(parts) > MAX_PIECES:
        return None
    result: list[Piece] = []
    for k, part in enumerate(parts):
        earlier = [p for p in parts[:k] if not _is_nowhere([p, part])]
        pieces = disjoint([*map(negation, earlier), part])
        if pieces is None or len(result) + len(pieces) > MAX_PIECES:
            return None
        result += [piece for piece in pieces if not (len(pieces) > 1 and _is_nowhere(piece))]
    return result


def _is_nowhere(conditions: Sequence[Expr]) -> bool:
    """True if no point satisfies all conditions, as far as isl is asked."""
    return is_empty(tuple(v for v in variables(conditions) if v.kind != "size"), conditions) is True


def _possible(piece: Piece) -> bool:
    constraints: list[Constraint] = []
    for condition in piece:
        constraints += constraints_of(condition) or ()
    return all(holds(c) is not False for c in constraints)


def decided(body: Expr, domain: Domain) -> Expr:
    """The expression without choices that the conditions of its domain decide.

    ``select(i < 3, f(i), g(i)) where i >= 5  ->  g(i) where i >= 5``
    """
    new: dict[Expr, Expr] = {}
    for node in postorder([body]):
        if isinstance(node, Select) and not depends_on_data([node.condition]):
            c = node.condition
            for opposite, side in ((c, node.other), (negation(c), node.then)):
                if is_empty(domain.axes, [*domain.where, opposite]):
                    new[node] = side
                    break
    while any(side in new for side in new.values()):  # a choice inside of a choice
        new = {node: new.get(side, side) for node, side in new.items()}
    return substitute([body], new)[0]


def index_cases(indices: Sequence[Expr]) -> list[tuple[Piece, tuple[Expr, ...]]]:
    """Disjoint cases that cover everything, each as (conditions, indices without choices).

    Choices are select, minimum, maximum and abs of expressions that read no data. If there are more than
    `MAX_PIECES` cases, the result is a single one with the indices unchanged.
    """
    cases: list[tuple[Piece, tuple[Expr, ...]]] = [((), tuple(indices))]
    complete = False
    while not complete and len(cases) <= MAX_PIECES:
        complete = True
        split: list[tuple[Piece, tuple[Expr, ...]]] = []
        for conditions, case_indices in cases:
            choice = _first_choice(case_indices)
            if choice is None:
                split.append((conditions, case_indices))
                continue
            complete = False
            node, condition, then, other = choice
            for c, side in ((condition, then), (negation(condition), other)):
                piece = (*conditions, *conjuncts(c))
                if _possible(piece):
                    split.append((piece, substitute(case_indices, {node: side})))
        cases = split
    return cases if complete else [((), tuple(indices))]


def _first_choice(indices: Sequence[Expr]) -> tuple[Expr, Expr, Expr, Expr] | None:
    """First choice in the indices: (node, condition, value if it holds, value if not); None without any."""
    for node in postorder(indices):
        if node.dtype.kind not in "iu" or depends_on_data([node]):
            continue
        if isinstance(node, Select):
            return node, node.condition, node.then, node.other
        if isinstance(node, Apply) and node.name in ("minimum", "maximum"):
            a, b = node.args
            name = "less_equal" if node.name == "minimum" else "greater_equal"
            return node, apply(name, a, b), a, b
        if isinstance(node, Apply) and node.name == "abs":
            a = node.args[0]
            return node, apply("greater_equal", a, index(0)), a, apply("negative", a)
    return None
