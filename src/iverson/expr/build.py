"""Construction of scalar expressions, with promotion, conversion and simplification.

The nodes are in `nodes`, whose operators use this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError
from iverson.core.protocols import NDArray
from iverson.core.scalars import SCALARS, converted, result_dtype
from iverson.expr.function_facts import NEGATED
from iverson.expr.nodes import (
    Apply,
    Cast,
    Const,
    DType,
    Expr,
    ExprLike,
    Number,
    Select,
    Source,
    is_number,
    postorder,
    same,
)
from iverson.expr.print import text
from iverson.expr.symbolic_numbers import EscapedNumber, integer, lifted, real


def as_expr(value: ExprLike, operation: str = "te") -> Expr:
    """Expression for a Python or NumPy number, an expression or a rank-0 tensor.

    A Python number becomes a weak constant. Anything else raises ArgumentTypeError.

    operation : name that the error message gives.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, Source) and (scalar := value.as_scalar()) is not None:
        return scalar
    if isinstance(value, np.generic):
        return Const(value.item(), dtypes.as_dtype(value.dtype, operation))
    if isinstance(value, (bool, int, float, complex)):
        return Const(value, np.dtype(np.int64 if value.__class__ is int else value.__class__), True)
    raise ArgumentTypeError(
        operation,
        got=f"{value!r} ({type(value).__name__})",
        expected="a number, an index or an expression",
        remedy="index a tensor to read it, A[i, j]; make an array of the code around a parameter of the op",
    )


def promote(operands: Sequence[Expr]) -> DType:
    """Dtype to which the operands of one function are promoted.

    Strong operands are promoted as in NumPy. A weak one changes the result only if its kind is higher (a weak
    float among integers).
    """
    first = operands[0].dtype
    if all(o.dtype == first for o in operands):
        return first
    strong = [o.dtype for o in operands if not o.weak]
    weak = [o.dtype for o in operands if o.weak]
    if not strong:
        return np.result_type(*weak)
    dtype = dtypes.result_type(*strong)
    kinds = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
    return dtypes.result_type(dtype, *(kinds[d.kind] for d in weak))


def const(value: Any, dtype: DType) -> Expr:
    """Constant of ``dtype``. Raises ArgumentError for a number that an integer dtype cannot hold."""
    kinds: Mapping[str, Any] = {
        "b": bool,
        "i": integer,
        "u": integer,
        "f": real,
        "c": lifted(complex),
    }
    if dtype.kind in "iu" and not _fits(value, dtype):
        least, greatest = _limits(dtype)
        raise ArgumentError(
            "te",
            got=f"the number {value} where values are of dtype {dtype}",
            expected=f"an integer from {least} to {greatest}",
            remedy="convert the other operand with astype",
        )
    try:
        return Const(kinds[dtypes.kind_of(dtype)](value), dtype)
    except OverflowError:
        raise ArgumentError("te", got="an integer beyond all floats", expected="one in range") from None


def _fits(value: float, dtype: DType) -> bool:
    least, greatest = _limits(dtype)
    return bool(least <= value <= greatest)


@cache
def _limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest integer of ``dtype``."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def index(value: int) -> Expr:
    """Weak int64 constant of an integer, for use as an index."""
    return Const(integer(value), dtypes.int64, True)


def cast(operand: Expr, dtype: DType) -> Expr:
    """Expression of ``operand`` converted to ``dtype``, as by NumPy's astype.

    The result is a constant for a constant, a Select of two casts for a Select, ``operand`` itself if it has
    the dtype already, and else a `Cast`.
    """
    if operand.dtype == dtype and not _is_beyond(operand, dtype):
        return operand
    if isinstance(operand, Const) and not (operand.dtype.kind == "c" and dtype.kind != "c"):
        return const(_value_as(operand, dtype), dtype)
    if isinstance(operand, Select):
        return select(operand.condition, cast(operand.then, dtype), cast(operand.other, dtype))
    return Cast(operand, dtype)


def _value_as(number: Const, dtype: DType) -> Any:
    """Value of the constant ``number`` converted to ``dtype``.

    A weak number keeps its exact value if ``dtype`` is of the same kind or a higher one; a strong number is
    first a value of its own dtype, then converted as in NumPy.
    """
    kinds = "biufc"
    if dtype.kind == "b":
        return bool(number.value)
    if number.weak and kinds.index(dtypes.kind_of(dtype)) >= kinds.index(number.dtype.kind):
        return number.value
    return lifted(_value_of)(number.value, number.dtype, dtype)


def _value_of(value: Number, of: DType, dtype: DType) -> Any:
    """A number of dtype ``of``, converted to ``dtype``."""
    with np.errstate(all="ignore"):
        return converted(np.asarray(value, of), dtype).item()


_KINDS = {"b": "bool", "i": "integers", "u": "unsigned integers", "f": "floats", "c": "complex numbers"}


def apply(name: str, *args: ExprLike) -> Expr:
    """A function of the table of scalars on expressions and numbers, promoted to one dtype.

    Raises DTypeError where the function is not defined for the promoted dtype.
    """
    operands = [as_expr(a, f"te.{name}") for a in args]
    if name == "where":
        return select(*operands)
    scalar = SCALARS[name]
    if name.startswith("logical_"):
        dtype = dtypes.bool
    else:
        dtype = promote(operands)
    if dtypes.kind_of(dtype) not in scalar.kinds:
        *leading, last = (words for kind, words in _KINDS.items() if kind in scalar.kinds)
        expected = f"{', '.join(leading)} or {last}" if leading else last
        raise DTypeError(
            f"te.{name}",
            got=f"{', '.join(map(text, operands))} of dtype {dtype}",
            expected=expected,
            remedy="convert with .astype(...)",
        )
    weak = all(o.weak for o in operands)
    if any(_is_beyond(o, dtype) for o in operands):
        if name in NEGATED:  # all integers of the dtype compare alike with a number beyond them
            values = [o.value if isinstance(o, Const) else 0 for o in operands]
            return const(bool(scalar.body(*values)), dtypes.bool)
        if name == "clip":
            operands = _tightened(operands, dtype)
    if scalar.result in ("float", "realfloat"):
        dtype = dtypes.to_inexact(dtype)
    converted = tuple(_converted(o, dtype, weak) for o in operands)
    return simplified(name, converted, result_dtype(scalar, dtype), weak)


def _is_beyond(operand: Expr, dtype: DType) -> bool:
    """True if an operand is a number outside the range of this dtype of integers."""
    return dtype.kind in "iu" and isinstance(operand, Const) and not _fits(operand.value, dtype)


def _tightened(operands: Sequence[Expr], dtype: DType) -> list[Expr]:
    """Operands of clip, with constant bounds outside of the integer ``dtype`` replaced by its limits.

    ``clip(u8, -1, 9) -> clip(u8, 0, 9)``.
    """
    x, low, high = operands
    least, greatest = _limits(dtype)
    if isinstance(low, Const) and low.value < least:
        low = as_expr(least)
    if isinstance(high, Const) and high.value > greatest:
        high = as_expr(greatest)
    return [x, low, high]


def _converted(operand: Expr, dtype: DType, weak: bool) -> Expr:
    if weak and isinstance(operand, Const) and operand.dtype != dtype:
        return as_expr(const(operand.value, dtype).value)  # type: ignore[attr-defined]
    return cast(operand, dtype)


def simplified(name: str, args: tuple[Expr, ...], dtype: DType, weak: bool) -> Expr:
    """Expression equal to ``Apply(name, args, dtype, weak)``, in a simpler form if there is one.

    Constants are folded, neutral elements dropped, and the condition of a factor that is 0 elsewhere (a
    bracket) becomes the condition of the whole product. before -> after: ``0 + x -> x``; ``1 * x -> x``;
    ``0 * x -> 0``; ``[c] * x -> select(c, x, 0)``; ``select(c, x, 0) / y -> select(c, x / y, 0)``;
    ``x << 3 -> x * 8``; ``x >> 3 -> x // 8``; ``n // 0 -> 0`` of an index without values;
    ``-(-x) -> x``; ``x // 1 -> x``; ``true & c -> c``; ``1 - select(c, 2, 3) -> select(c, -1, -2)``.
    """
    values = [a.value if isinstance(a, Const) else None for a in args]
    constant_count = len(args) - values.count(None)
    if constant_count == len(args) and name not in ("floor_divide", "remainder"):
        folded = _fold(name, args, dtype, weak)
        if folded is not None:
            return folded
    if constant_count == len(args) - 1 and sum(map(_is_constant_choice, args)) == 1:
        return _inside_choice(name, args, dtype, weak)
    if len(args) == 2:
        (a, b), (x, y) = args, values
        if name == "add":
            if x is not None and x == 0:
                return b
            if y is not None and y == 0:
                return a
        elif name == "subtract" and y is not None and y == 0:
            return a
        elif name == "multiply":
            for factor, other, value in ((a, b, x), (b, a, y)):
                if value is not None and value == 1:
                    return other
                if value is not None and value == 0:
                    return factor
                if is_guarded(factor) and other.dtype.kind != "b":
                    return select(factor.condition, factor.then * other, factor.other)  # type: ignore[attr-defined]
        elif y is not None and y == 1 and name == ("divide" if dtypes.is_inexact(dtype) else "floor_divide"):
            return a
        elif name == "divide" and is_guarded(a):
            return select(a.condition, a.then / b, a.other)  # type: ignore[attr-defined]
        elif name in _SHIFTS and y is not None and 0 <= y < 8 * dtype.itemsize - 1:
            return simplified(_SHIFTS[name], (a, Const(2**y, dtype, b.weak)), dtype, weak)
        elif name in ("floor_divide", "remainder"):
            if dtype.kind in "iu" and y == 0:
                if any(node.is_void for node in postorder([a])):
                    return Const(0, dtype, weak)
                raise ArgumentError(
                    f"te.{name}",
                    got=f"division by 0: {text(a)}",
                    expected="a positive constant",
                    remedy="of an extent that may be 0, divide by max(n, 1)",
                )
            if x is not None and y is not None and dtype.kind in "iu":
                number = x // y if name == "floor_divide" else x % y
                return Const(number, dtype, weak)
            if name == "remainder" and y == 1 and dtype.kind in "iu":
                return Const(0, dtype, weak)
        elif name == "logical_and":
            for value, other in ((x, b), (y, a)):
                if value is not None:
                    return other if value else const(False, dtype)
            if a is b:
                return a
        elif name == "logical_or":
            for value, other in ((x, b), (y, a)):
                if value is not None:
                    return const(True, dtype) if value else other
            if a is b:
                return a
    elif name in ("negative", "logical_not"):
        inner = args[0]
        if isinstance(inner, Apply) and inner.name == name:
            return inner.args[0]
    return Apply(name, args, dtype, weak)


#: Shifts by a number as arithmetic, which index expressions are made of.
_SHIFTS = {"bitwise_left_shift": "multiply", "bitwise_right_shift": "floor_divide"}


def _is_constant_choice(e: Expr) -> bool:
    return isinstance(e, Select) and isinstance(e.then, Const) and isinstance(e.other, Const)


def _inside_choice(name: str, args: tuple[Expr, ...], dtype: DType, weak: bool) -> Expr:
    (k,) = (k for k, a in enumerate(args) if isinstance(a, Select))
    choice = args[k]
    assert isinstance(choice, Select)
    then, other = (
        simplified(name, (*args[:k], side, *args[k + 1 :]), dtype, weak)
        for side in (choice.then, choice.other)
    )
    return select(choice.condition, then, other)


def is_guarded(e: Expr) -> bool:
    """True if ``e`` selects between a value where a condition holds and 0 elsewhere."""
    return isinstance(e, Select) and is_number(e.other, 0)


def _fold(name: str, args: tuple[Expr, ...], dtype: DType, weak: bool) -> Expr | None:
    numbers = [a.value for a in args if isinstance(a, Const)]
    of = tuple([a.dtype for a in args])
    try:
        return Const(lifted(_folded)(name, dtype, of, *numbers), dtype, weak)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, EscapedNumber):
            raise
        return None


def _folded(name: str, dtype: DType, dtypes_of: tuple[DType, ...], *numbers: Number) -> Any:
    """The number that a function gives for numbers, of these dtypes."""
    operands = [np.asarray(x, d) for x, d in zip(numbers, dtypes_of, strict=True)]
    with np.errstate(all="ignore"):
        return applied(name, operands, dtype).item()


def applied(name: str, operands: Sequence[NDArray | Number], dtype: DType) -> Any:
    """The value of an Apply, given those of its operands: NumPy arrays or numbers of their dtype."""
    return np.asarray(SCALARS[name].body(*operands)).astype(dtype)[()]


def select(condition: ExprLike, then: ExprLike, other: ExprLike) -> Expr:
    """``then`` where ``condition`` holds, else ``other``; the side not chosen is not evaluated.

    before -> after: ``select(true, a, b) -> a``; ``select(c, a, a) -> a``;
    ``select(c, select(d, a, 0), 0) -> select(c & d, a, 0)``, but only if d reads no memory, so that it may be
    evaluated where c does not hold.

    >>> from iverson import asarray, te
    >>> f = te.op(lambda x: te.compute(x.shape, lambda i: te.select(i > 0, x[i], 0.)))
    >>> f(asarray([1., 3., 2.]))
    iverson.Tensor([0., 3., 2.])
    """
    c, a, b = (as_expr(e, "te.select") for e in (condition, then, other))
    c = cast(c, dtypes.bool)
    weak = a.weak and b.weak
    dtype = promote((a, b))
    a, b = _converted(a, dtype, weak), _converted(b, dtype, weak)
    if isinstance(c, Const):
        return a if c.value else b
    if a is b:
        return a
    if is_guarded(a) and is_number(b, 0):
        d = a.condition  # type: ignore[attr-defined]
        if d is c:
            return Select(c, a.then, b)  # type: ignore[attr-defined]
        if not any(node.reads for node in postorder([d])):
            return Select(c & d, a.then, b)  # type: ignore[attr-defined]
    return Select(c, a, b)


def simplified_with(node: Expr, operands: Sequence[Expr]) -> Expr:
    """``node`` with ``operands`` in place of its operands, promoted and simplified like a new expression.

    The result is ``node`` itself if the operands are the same.
    """
    if same(operands, node.operands):
        return node
    if isinstance(node, Apply):
        if all(map(_as_before, operands, node.args)):  # of the dtypes that it promoted to
            return simplified(node.name, tuple(operands), node.dtype, node.weak)
        return apply(node.name, *operands)
    if isinstance(node, Select):
        return select(*operands)
    return cast(operands[0], node.dtype) if isinstance(node, Cast) else node.rebuilt(operands)


def _as_before(new: Expr, old: Expr) -> bool:
    if new is old:
        return True
    return new.dtype == old.dtype and new.weak == old.weak and not isinstance(new, Const)


Expr.make, Expr.convert = apply, cast
