"""Records of functions of `scipy.special`: the body is SciPy's, one formula an argument is the derivative.

A record becomes an op of its own, as those of `iverson.core.scalars` do, so it differentiates to any order,
maps and compiles. It is no op of the table: nothing but the functions of this package binds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from iverson.array_api.conventions.operands import as_operand
from iverson.core.dispatch import bind, is_tracked
from iverson.core.dtypes import result_type, to_inexact
from iverson.core.errors import GradientError
from iverson.core.protocols import Namespace, Value
from iverson.core.scalars.scalar_record import scalar
from iverson.handles import Tensor
from iverson.interop.scipy.by_matrix.linear_maps import Setting, theirs
from iverson.ops import F
from iverson.ops.numbers.elementwise_ops import make

#: The derivative in one argument, of the arguments; None where there is no formula.
Slope: TypeAlias = Callable[..., Any] | None
#: A function of arrays that broadcast, entry by entry.
Elementwise: TypeAlias = Callable[..., Tensor]


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


def of_body(
    name: str,
    names: Sequence[str],
    slopes: Sequence[Slope],
    body: Callable[..., Setting],
    kinds: str = "iuf",
    integers: int = 0,
) -> Elementwise:
    """An elementwise function of NumPy arrays with the derivatives of its arguments.

    name, names : what errors call it and its arguments.
    slopes : for each argument the derivative in it, of all arguments; None where there is no formula.
    body : the function of arrays.
    kinds : dtype kinds; with "c" a holomorphic function, whose derivative is the complex one.
    whole : how many of the first arguments the body takes as integers.
    """

    def of_dtype(*xs: Setting) -> Any:
        dtype = to_inexact(result_type(*xs))
        arrays = [np.asarray(x, "int64" if k < integers else dtype) for k, x in enumerate(xs)]
        return np.asarray(body(*arrays), dtype)

    rules = tuple(_rule(name, n, slope) for n, slope in zip(names, slopes, strict=True))
    record = scalar(
        f"scipy.{name}", of_dtype, rules, names=tuple(names), domain=(None,) * len(names), kinds=kinds,
        result="float", space="special", method=False,
    )  # fmt: skip
    op = make(record)
    without = [k for k, slope in enumerate(slopes) if slope is None]

    def call(*xs: Setting) -> Tensor:
        operands = [F.to_dense(as_operand(x, name, n)) for x, n in zip(xs, names, strict=True)]
        for k in without:
            if is_tracked(operands[k]):
                raise _refusal(name, names[k])
        result: Tensor = bind(op, tuple(operands))
        return result

    return call


def function(
    name: str, arguments: str, *slopes: Slope, part: int | None = None, kinds: str = "iuf", integers: int = 0
) -> Elementwise:
    """A function of `scipy.special` with the derivatives of its arguments.

    arguments : their names. part : which of several results. Others as for `of_body`.
    """

    def body(*xs: Setting) -> Any:
        values = theirs(f"special.{name}")(*xs)
        return values if part is None else values[part]

    names = arguments.split()
    call = of_body(name if part is None else f"{name}[{part}]", names, slopes, body, kinds, integers)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.special.{name}` of {', '.join(names)}, arrays or numbers that broadcast."
    return call


__all__ = ["Elementwise", "function", "of_body"]
