"""``F``: the elementwise functions of the table of scalars, on tensor expressions.

The derivative rules of `iverson.core.scalars` are written against a namespace like this one.
"""

from __future__ import annotations

from typing import Any

from iverson.core import dtypes
from iverson.core.errors import ArgumentError
from iverson.core.scalars import SCALARS
from iverson.te.nodes import Expr, apply, const, select


class Functions:
    """Every function of `iverson.core.scalars.SCALARS` by name, on expressions and numbers.

    >>> from iverson.te.nodes import Var
    >>> F.sin(Var("i", 0, 3) * 0.5)
    sin(float64(i) * 0.5)
    """

    def __getattr__(self, name: str) -> Any:
        if name not in SCALARS:
            if name.startswith("__"):
                raise AttributeError(name)
            raise ArgumentError("te.F", name, got=repr(name), expected=f"one of {', '.join(sorted(SCALARS))}")

        def function(*args: Any) -> Expr:
            return apply(name, *args)

        function.__name__ = name
        return function

    def __dir__(self) -> list[str]:
        return [*SCALARS, "where", "zero"]

    def where(self, condition: Any, then: Any, other: Any) -> Expr:
        """``then`` where the condition holds, else ``other``."""
        return select(condition, then, other)

    def zero(self, shape: tuple[int, ...], dtype: Any) -> Expr:
        """The number 0 of a dtype; rules ask for it with the shape of a scalar."""
        if shape != ():
            raise ArgumentError("te.F.zero", "shape", got=str(shape), expected="()")
        return const(0, dtypes.as_dtype(dtype, "te.F.zero"))

    def astype(self, x: Any, dtype: Any) -> Expr:
        """An expression in another dtype."""
        return apply("positive", x).astype(dtype)


F = Functions()
