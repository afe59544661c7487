"""``F`` on tensor expressions: the namespace of the elementwise functions of the table of scalars.

The derivative rules of `iverson.core.scalars` are written against a namespace like this one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from iverson.core.errors import NameMissingError
from iverson.core.scalars import SCALARS
from iverson.expr.build import apply, as_expr, const, select
from iverson.expr.nodes import Expr, ExprLike

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class Functions:
    """Every function of `iverson.core.scalars.SCALARS` by name, on expressions and numbers.

    >>> from iverson.te.ir.expressions import Var
    >>> F.sin(Var("i", 0, 3) * 0.5)
    sin(float64(i) * 0.5)
    """

    def __getattr__(self, name: str) -> Any:
        if name not in SCALARS:
            raise NameMissingError("te.F", name, expected=f"one of {', '.join(sorted(SCALARS))}")

        def function(*args: ExprLike) -> Expr:
            return apply(name, *args)

        function.__name__ = name
        arguments = ", ".join(SCALARS[name].arguments)
        function.__doc__ = SCALARS[name].summary or f"{name}({arguments}), which derivatives are made of."
        return function

    def __dir__(self) -> list[str]:
        return [*SCALARS, "bracket", "nan_at", "or_nan", "shared_at_ties", "where"]

    def where(self, condition: ExprLike, then: ExprLike, other: ExprLike) -> Expr:
        """``then`` where the condition holds, else ``other``."""
        return select(condition, then, other)

    def bracket(self, condition: ExprLike, x: ExprLike, negated: bool = False) -> Expr:
        """``x`` where the condition holds (does not, if ``negated``), else 0."""
        zero = const(0, as_expr(x).dtype)
        return select(condition, zero, x) if negated else select(condition, x, zero)

    def nan_at(self, x: ExprLike, t: Expr | complex) -> Expr:
        """Value ``t``; nan where ``x`` is nan."""
        return select(apply("isnan", x), t * math.nan, t)

    def or_nan(self, condition: ExprLike, x: ExprLike) -> Expr:
        """Condition that holds where ``condition`` holds or ``x`` is nan."""
        return apply("logical_or", condition, apply("isnan", x))

    def shared_at_ties(self, a: ExprLike, b: ExprLike, t: Expr | complex) -> Expr:
        """Value ``t``; half of it where ``a`` and ``b`` are equal."""
        return select(apply("equal", a, b), 0.5 * t, t)

    def astype(self, x: ExprLike, dtype: DTypeLike) -> Expr:
        """An expression in another dtype."""
        return as_expr(x).astype(dtype)


F = Functions()
