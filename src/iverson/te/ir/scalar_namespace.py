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


#: Examples of functions whose records have none: a call for an entry of x, the entries and the result.
_EXAMPLES = {
    "sech2": ("sech2(x[i])", "[0., 1.]", "[1.        , 0.41997434]"),
    "softplus": ("softplus(x[i])", "[0., 1.]", "[0.69314718, 1.31326169]"),
    "gelu": ("gelu(x[i])", "[0., 1.]", "[0.        , 0.84134475]"),
    "gelu_derivative": ("gelu_derivative(x[i])", "[0., 1.]", "[0.5       , 1.08331547]"),
    "polygamma": ("polygamma(1, x[i])", "[1., 2.]", "[1.64493407, 0.64493407]"),
    "erfcx_order": ("erfcx_order(1, x[i])", "[1., 2.]", "[-0.27321201, -0.10679646]"),
    "bessel_i": ("bessel_i(2, x[i])", "[1., 2.]", "[0.13574767, 0.68894845]"),
    "bessel_j": ("bessel_j(2, x[i])", "[1., 2.]", "[0.11490348, 0.35283403]"),
    "spherical_j": ("spherical_j(1, x[i])", "[1., 2.]", "[0.30116868, 0.43539777]"),
    "i0e_order": ("i0e_order(1, x[i])", "[1., 2.]", "[0.25784919, 0.09323903]"),
    "zeta": ("zeta(x[i], 1.)", "[2., 4.]", "[1.64493407, 1.08232323]"),
    "zeta_order": ("zeta_order(1, x[i], 1.)", "[2., 3.]", "[-0.93754825, -0.19812624]"),
    "exprel_order": ("exprel_order(1, x[i])", "[1., 2.]", "[1.        , 2.09726402]"),
    "log1prel_order": ("log1prel_order(1, x[i])", "[1., 2.]", "[-0.19314718, -0.10798641]"),
    "k0e_order": ("k0e_order(1, x[i])", "[1., 2.]", "[-0.49169041, -0.19190863]"),
    "gammainc_order": ("gammainc_order(1, 1., x[i])", "[2., 3.]", "[-0.22082543, -0.09648294]"),
    "psi_step_order": ("psi_step_order(1, x[i], 1.)", "[2., 3.]", "[-0.25      , -0.11111111]"),
    "betainc_order": ("betainc_order(1, 0, 1., 2., x[i])", "[0.25, 0.5]", "[-0.41900378, -0.26986039]"),
    "round": ("round(x[i])", "[0.5, 1.5]", "[0., 2.]"),
    "clip": ("clip(x[i], 0., 1.)", "[-1., 0.5, 2.]", "[0. , 0.5, 1. ]"),
}


def _documented(name: str) -> str:
    """Docstring of the function ``name`` of entries."""
    scalar = SCALARS[name]
    if scalar.example:
        entries, *further, result = scalar.example
        call = f"{name}({', '.join(('x[i]', *further))})"
    else:
        call, entries, result = _EXAMPLES[name]
    summary = scalar.summary or f"{name}({', '.join(scalar.arguments)}), which derivatives are made of."
    return f"""{summary}

    Of expressions and numbers, in tensor expressions.

    >>> from iverson import asarray, te
    >>> f = te.op(lambda x: te.compute(x.shape, lambda i: te.{call}))
    >>> f(asarray({entries}))
    iverson.Tensor({result})
    """


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
        function.__doc__ = _documented(name)
        return function

    def __dir__(self) -> list[str]:
        return [*SCALARS, "bracket", "nan_at", "or_nan", "shared_at_ties", "where"]

    def where(self, condition: ExprLike, then: ExprLike, other: ExprLike) -> Expr:
        """``then`` where the condition holds, else ``other``.

        >>> from iverson import asarray, te
        >>> f = te.op(lambda x: te.compute(x.shape, lambda i: te.where(x[i] > 0, x[i], 0.)))
        >>> f(asarray([-1., 2.]))
        iverson.Tensor([0., 2.])
        """
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
