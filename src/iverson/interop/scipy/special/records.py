"""Records of functions of `scipy.special`: the body is SciPy's, one formula an argument is the derivative.

A record becomes an op of its own, as those of `iverson.core.scalars` do, so it differentiates to any order, maps
and compiles. It is no op of the table: nothing but the functions of this package binds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from iverson.array_api.conventions.operands import as_operand
from iverson.core.dispatch import bind, is_tracked
from iverson.core.dtypes import result_type, to_inexact
from iverson.core.errors import GradientError
from iverson.core.protocols import Namespace, Value
from iverson.core.scalars.scalar_record import scalar
from iverson.handles import Tensor
from iverson.ops import F
from iverson.ops.numbers.elementwise_ops import make

#: The derivative in one argument, of the arguments; None where there is no formula.
Slope: TypeAlias = Callable[..., Any] | None


def _refusal(name: str, argument: str) -> GradientError:
    return GradientError(
        name,
        argument,
        got="a tensor that tracks gradients",
        expected="numbers: the derivative in this argument has no closed form",
        remedy="call detach() if no gradient is to flow through it",
    )


def _rule(name: str, argument: str, slope: Slope) -> Callable[..., Any]:
    if slope is None:

        def refused(_F: Namespace, _y: Value, *xs: Value) -> Any:
            raise _refusal(name, argument)

        return refused
    return lambda _F, _y, *xs: slope(*xs)


def _body(name: str, part: int | None) -> Callable[..., Any]:
    def body(*xs: Any) -> Any:
        import scipy.special

        dtype = to_inexact(result_type(*xs))
        values = getattr(scipy.special, name)(*(np.asarray(x, dtype) for x in xs))
        return np.asarray(values if part is None else values[part], dtype)

    return body


def function(
    name: str, arguments: str, *slopes: Slope, part: int | None = None, kinds: str = "iuf"
) -> Callable[..., Tensor]:
    """A function of SciPy with the derivatives of its arguments.

    name, arguments : the name in `scipy.special`, and the names of the arguments.
    slopes : for each argument the derivative in it, of all arguments.
    part : which of several results.
    kinds : dtype kinds; with "c" a holomorphic function, whose derivative is the complex one.
    """
    names = tuple(arguments.split())
    label = name if part is None else f"{name}[{part}]"
    rules = tuple(_rule(name, n, slope) for n, slope in zip(names, slopes, strict=True))
    domain = (None,) * len(names)
    record = scalar(
        f"scipy.{label}", _body(name, part), rules, names=names, domain=domain, kinds=kinds, result="float",
        space="special", method=False,
    )  # fmt: skip
    op = make(record)
    without = [k for k, slope in enumerate(slopes) if slope is None]

    def call(*xs: Any) -> Tensor:
        operands = [F.to_dense(as_operand(x, name, n)) for x, n in zip(xs, names, strict=True)]
        for k in without:
            if is_tracked(operands[k]):
                raise _refusal(name, names[k])
        result: Tensor = bind(op, tuple(operands))
        return result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.special.{name}` of {', '.join(names)}, arrays or numbers that broadcast."
    return call


__all__ = ["function"]
