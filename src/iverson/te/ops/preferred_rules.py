"""Derived derivative rules, from index notation, in place of the hand-written ones of ops of the table.

This module reads the op table, which `iverson.ops` fills.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

from iverson.core.aval import Aval
from iverson.core.errors import ArgumentError
from iverson.core.inputs.arguments import as_sequence
from iverson.core.op import Op, Rule, Wanted
from iverson.core.protocols import Namespace, Value
from iverson.core.scalars import SCALARS
from iverson.core.table import TABLE, pushforward_of, replaced_rules
from iverson.te.ir.source_site import Constant, operation
from iverson.te.ops.operator import Build, rules_of

if TYPE_CHECKING:
    from iverson.te.ir.expressions import Tensor


class prefer_derived(replaced_rules):
    """In a ``with`` block, choose derivatives that follow from index notation over hand-written ones.

    Parameters
    ----------
    ops : the name of an op of the table, or several, that are said in index notation; by default all that are
        (`with_notation` lists them). A function made of several ops has no rule of its own: name those.

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
        op_names = (ops,) if isinstance(ops, str) else ops
        names = (
            with_notation() if op_names is None else as_sequence(op_names, operation("prefer_derived"), "ops")
        )
        for n in names:
            _said(n)
        rules = {n: _pullback(n) for n in names}
        super().__init__({**rules, **{pushforward_of(n): _pushforward(n) for n in names}})


def with_notation() -> list[str]:
    """The ops of the table that are said in index notation.

    >>> from iverson import te
    >>> {"tanh", "sum", "matmul", "softmax"} <= set(te.with_notation())
    True
    """
    return [name for name, op in TABLE.items() if notation_of(op) is not None]


def notation_of(op: Op) -> Build | None:
    """Function that builds an op in index notation: its ``te``, or one that applies its ``loops``.

    The result is None if the op has neither. The loops of linear ops (their rules are the op and its
    transpose) and of functions of orders (which are numbers) do not count: they are only for compiled code.
    """
    if op.te is not None:
        return op.te  # type: ignore[no-any-return]
    scalar = SCALARS.get(op.name)
    if op.loops is None or not op.differentiable or _is_linear(op) or (scalar and scalar.orders):
        return None

    return partial(_by_loops, op)


def _by_loops(op: Op, /, *xs: Tensor, **params: Constant) -> Any:
    """Result of an op in index notation, by its ``loops``."""
    from iverson import te

    operands: Any = xs
    aval: Aval = op.infer(*operands, **params)
    if prod(aval.shape) == 0:
        return te.compute(aval.shape, lambda *i: 0, dtype=aval.dtype)
    assert op.loops is not None
    return op.loops(te, aval, *xs, **params)


def _is_linear(op: Op) -> bool:
    """True if an op is linear in all inputs in which it has derivatives."""
    if op.arity is None:
        return any(op.linear_in)
    inputs = set(range(op.arity)) - op.constant_in
    return any(inputs <= set(group) for group in op.groups(op.arity))


def derived_rules(name: str, count: int) -> tuple[Rule, tuple[Rule, ...]]:
    """The vjp rule for all inputs, and the jvp rules, that follow from an op's index notation.

    count : the number of operands.
    """
    _said(name)
    return _rules(TABLE[name], count)


@cache
def _rules(op: Op, count: int) -> tuple[Rule, tuple[Rule, ...]]:
    build = notation_of(op)
    assert build is not None
    return rules_of(build, op.name, count)


def _said(name: str) -> Build:
    """Index notation of the op with this name; raises ArgumentError if there is none."""
    op = TABLE.get(name) if isinstance(name, str) else None
    build = None if op is None else notation_of(op)
    if build is None:
        raise ArgumentError(
            operation("prefer_derived"),
            "ops",
            got=repr(name),
            expected=f"an op with a te: {', '.join(with_notation())}",
            remedy="of a function made of several ops name those, which explain.report lists"
            if op is None
            else f"leave {name} out: its rules are hand-written alone",
        )
    return build


@cache
def _pullback(name: str) -> Any:
    """The vjp rule, for all inputs, that follows from the index notation of the op ``name``."""

    def rule(F: Namespace, wanted: Wanted, g: Value, y: Value, /, *xs: Value, **params: Constant) -> Any:
        return derived_rules(name, len(xs))[0](F, wanted, g, y, *xs, **params)

    return rule


@cache
def _pushforward(name: str) -> Any:
    """Function from a number of operands to the jvp rules, one per input, that follow from index notation."""
    return lambda count: derived_rules(name, count)[1]
