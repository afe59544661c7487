"""Functions that choose among numbers. Their derivatives select: they never multiply with 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.protocols import Namespace, Shaped, Value
from iverson.core.scalars.array_bodies import where
from iverson.core.scalars.scalar_record import (
    ANY,
    COMPILED,
    COMPLEX,
    FINITE,
    REAL,
    TWO,
    ZERO,
    Derivative,
    Scalar,
    scalar,
)


def _chosen(wins: str, i: int) -> Derivative:
    """Rule of a maximum or minimum in argument ``i``: all where this argument wins, half at ties.

    wins : the comparison that holds if the argument wins or is equal.
    """

    def rule(F: Namespace, t: Value, _y: Shaped, a: Value, b: Value) -> Any:
        operand, other = (a, b)[i], (b, a)[i]
        is_winner = F.or_nan(getattr(F, wins)(operand, other), operand)
        return F.bracket(is_winner, F.shared_at_ties(a, b, F.nan_at(operand, t)), negated=False)

    return rule


def _clipped(i: int) -> Derivative:
    """Rule of clip in argument ``i``: where that argument is the result; hi wins over lo."""

    def rule(F: Namespace, t: Value, _y: Shaped, x: Value, lo: Value, hi: Value) -> Any:
        operand = (x, lo, hi)[i]
        if i == 0:
            condition = F.logical_and(F.greater_equal(x, lo), F.less_equal(x, hi))
        elif i == 1:
            condition = F.logical_and(F.less(x, lo), F.less_equal(lo, hi))
        else:
            condition = F.logical_or(F.greater(x, hi), F.greater(lo, hi))
        return F.bracket(F.or_nan(condition, operand), F.nan_at(operand, t), negated=False)

    return rule


def _relu_rule(F: Namespace, t: Value, y: Value, _x: Shaped) -> Any:
    """Reads the result, which the next layer keeps anyway: it is positive or nan exactly where x is."""
    return F.bracket(F.less_equal(y, 0), F.nan_at(y, t), negated=True)


_CHOSEN: tuple[Derivative, ...] = (
    lambda F, t, _y, c, _a, _b: None,
    lambda F, t, _y, c, _a, _b: F.bracket(c, t, negated=False),
    lambda F, t, _y, c, _a, _b: F.bracket(c, t, negated=True),
)


def _of_one(rule: Derivative) -> Derivative:
    """The partial derivative that follows from a rule for cotangents or tangents: the rule applied to 1."""

    def d(F: Namespace, y: Value, *args: Value) -> Any:
        return rule(F, 1.0, y, *args)

    return d


def _selecting(name: str, body: Derivative, rules: tuple[Derivative, ...], **facts: Any) -> Scalar:
    """Record of a function whose derivative is a choice: rules select, and never multiply with 0."""
    d = tuple(map(_of_one, rules))
    return scalar(name, body, d, FINITE | facts, kinds=REAL, vjp=rules, jvp=rules)


# fmt: off
CHOICE = (
    _selecting("maximum", np.maximum, (_chosen("greater_equal", 0), _chosen("greater_equal", 1)),
        zero_preserving=True, domain=TWO, convention="equal arguments share the derivative: one half each",
        summary="The larger of x1 and x2; nan if either is.", example=("[1, 5]", "3", "[3, 5]")),
    _selecting("minimum", np.minimum, (_chosen("less_equal", 0), _chosen("less_equal", 1)),
        zero_preserving=True, domain=TWO, convention="equal arguments share the derivative: one half each",
        summary="The smaller of x1 and x2; nan if either is.", example=("[1, 5]", "3", "[1, 3]")),
    scalar("relu", lambda x: np.maximum(x, 0), (), ZERO | FINITE | COMPILED,
        "x where it is positive, else 0.", "[-1., 2.]", "[0., 2.]", kinds="iuf", vjp=(_relu_rule,),
        jvp=(_relu_rule,), convention="at 0 the derivative is 0"),
    # linear, too: but what is not chosen of a tangent is a strong zero
    scalar("where", where, (), COMPLEX | FINITE | COMPILED, kinds=ANY, vjp=_CHOSEN, jvp=_CHOSEN,
        linear_in=((1, 2),), domain=(None, None, None), names=("condition", "x1", "x2")),
    _selecting("clip", np.clip, (_clipped(0), _clipped(1), _clipped(2)),
        domain=(None, (-0.6, -0.4), (0.4, 0.6)),
        convention="at a bound the derivative belongs to x; where min > max it belongs to max",
        names=("x", "min", "max")),
)
# fmt: on
