"""Derived rules in place of hand-written ones, for ops of the table that are said in index notation.

What is here reads the table, which `iverson.ops` fills.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from iverson.core.arguments import as_sequence
from iverson.core.errors import ArgumentError
from iverson.core.op import Op, Rule, Wanted
from iverson.core.table import TABLE, pushforward_of, replaced_rules
from iverson.te.operator import rules_of
from iverson.te.site import operation


class prefer_derived(replaced_rules):
    """In a ``with`` block, choose derivatives that follow from index notation over hand-written ones.

    Parameters
    ----------
    ops : the name of an op of the table, or several, that are said in index notation; by default all that are
        (`with_notation` lists them).

    Both modes are replaced, for eager code and for compiled functions that are called in the block, in this
    thread or task alone. What is recorded in the block keeps all that a derived rule may read; what is
    differentiated in it uses the rule. Traces of compiled functions are kept by it, so that a call after the
    block has the hand-written rules again. Blocks nest. Derived rules take cotangents whole.

    Raises ArgumentError for a name of no op of the table, or of one that is not said in index notation.

    >>> import iverson as iv
    >>> from iverson import te
    >>> with te.prefer_derived("tanh"):
    ...     iv.grad(iv.tanh)(0.0)
    iverson.Tensor(1.)
    """

    __slots__ = ()

    def __init__(self, ops: str | Iterable[str] | None = None) -> None:
        given = (ops,) if isinstance(ops, str) else ops
        names = with_notation() if given is None else as_sequence(given, operation("prefer_derived"), "ops")
        rules = {_said(n).name: _pullback(n) for n in names}
        super().__init__({**rules, **{pushforward_of(n): _pushforward(n) for n in names}})


def with_notation() -> list[str]:
    """The ops of the table that are said in index notation.

    >>> from iverson import te
    >>> {"tanh", "sum", "matmul"} <= set(te.with_notation())
    True
    """
    return [name for name, op in TABLE.items() if op.te is not None]


@cache
def derived_rules(name: str, count: int) -> tuple[Rule, tuple[Rule, ...]]:
    """The vjp, for all inputs, and jvp rules that follow from an op's ``te``, for so many operands."""
    return rules_of(_said(name).te, name, count)


def _said(name: Any) -> Op:
    op = TABLE.get(name) if isinstance(name, str) else None
    if op is None or op.te is None:
        raise ArgumentError(
            operation("prefer_derived"),
            "ops",
            got=repr(name),
            expected=f"an op with a te: {', '.join(with_notation())}",
        )
    return op


@cache
def _pullback(name: str) -> Any:
    """The derived vjp, a rule for all inputs."""

    def rule(F: Any, wanted: Wanted, g: Any, y: Any, *xs: Any, **params: Any) -> Any:
        return derived_rules(name, len(xs))[0](F, wanted, g, y, *xs, **params)

    return rule


@cache
def _pushforward(name: str) -> Any:
    """The derived jvp: a rule per input, for so many operands."""
    return lambda count: derived_rules(name, count)[1]
