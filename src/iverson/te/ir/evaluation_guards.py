"""Evaluation guards: the conditions (of Selects and of the domain) under which each node is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any

from iverson.core import dtypes
from iverson.expr.nodes import Const, Expr, Select, postorder
from iverson.te.ir.expressions import Scoped
from iverson.te.ir.index_arithmetic import conjuncts, depends_on_data, negation
from iverson.te.ir.nodes import Statement


class Guards(Set[Expr]):
    """A set of conditions that keeps the order of insertion; equality ignores the order.

    Expressions are hashed by their address, so that a plain set has another order in each process, and the
    code generated from it would differ.
    """

    __slots__ = ("_held",)

    def __init__(self, conditions: Iterable[Expr] = ()) -> None:
        self._held = dict.fromkeys(conditions)

    def __contains__(self, condition: object) -> bool:
        return condition in self._held

    def __iter__(self) -> Iterator[Expr]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __hash__(self) -> int:
        return hash(frozenset(self._held))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guards) and self._held.keys() == other._held.keys()

    def __and__(self, other: Set[Expr]) -> Guards:
        return Guards(c for c in self if c in other)

    def __or__(self, other: Set[Any]) -> Guards:
        return Guards((*self, *other)) if other else self

    def __sub__(self, other: Set[Expr]) -> Guards:
        return Guards(c for c in self if c not in other)


def guards_of(root: Expr, outer: Iterable[Expr] = ()) -> dict[Expr, Guards]:
    """For each node under ``root``, the conditions that hold wherever the value of this node is used.

    A node used in several places has the conditions common to all of them.

    outer : conditions that hold for the root.
    """
    guards: dict[Expr, Guards] = {root: Guards(outer)}
    for node in reversed(postorder([root])):
        here = guards[node]
        for k, operand in enumerate(node.operands):
            extra: Iterable[Expr] = ()
            if isinstance(node, Select) and k:
                c = node.condition
                extra = conjuncts(c if k == 1 else negation(c))
            elif isinstance(node, Scoped) and k < len(node.values):
                extra = [part for c in node.where for part in conjuncts(c)]
            there = here | Guards(extra)
            guards[operand] = guards[operand] & there if operand in guards else there
    return guards


def statement_guards(statement: Statement) -> dict[Expr, Guards]:
    """Guards, as in `guards_of`, of the nodes in all expressions of a statement.

    Conditions on indices hold for all nodes in conditions on data; conditions on indices have no entry.
    """
    conditions = statement.domain.where
    where = Guards(c for e in conditions for c in conjuncts(e))
    on_data = {e for e in conditions if depends_on_data([e])}
    plain = Guards(c for e in conditions if e not in on_data for c in conjuncts(e))
    result: dict[Expr, Guards] = {}
    decided = set(conditions) - on_data  # a set, as == of expressions is an expression
    for root in statement.roots:
        if root in decided:
            continue
        for node, guards in guards_of(root, plain if root in on_data else where).items():
            result[node] = result[node] & guards if node in result else guards
    return result


def conjunction(conditions: Iterable[Expr]) -> Expr:
    """All of the conditions together; true where there are none."""
    result: Expr | None = None
    for c in conditions:
        result = c if result is None else result & c
    return Const(True, dtypes.bool) if result is None else result
