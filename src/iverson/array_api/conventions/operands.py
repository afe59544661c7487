"""Operands of public functions, checked and normalised for the ops; also dtypes, devices and counts.

Tensors, NumPy arrays and Python scalars are operands; lists are not (`iverson.asarray` turns one into
a Tensor). Shapes and axes are in `iverson.core.shapes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from iverson.autograd.node import line_of, user_call
from iverson.core import dtypes
from iverson.core.dispatch import Operand, Wrapper, has_entries, unwrap
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, GraphError, described, way_in
from iverson.core.inputs.arguments import checked
from iverson.core.inputs.arrays import plain
from iverson.core.protocols import DType, NDArray, Shaped
from iverson.core.shapes import check_choice
from iverson.expr.nodes import Expr
from iverson.handles import asarray
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, DTypeLike

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")

SCALARS = (bool, int, float, complex)

_KINDS = {"b": "bool", "i": "integer", "u": "unsigned integer", "f": "real floating", "c": "complex"}


def named(function: Function, name: str, doc: str) -> Function:
    """A function that a factory made, with the name and docstring it is public under."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return checked(function)


def check_entries(operation: str, *xs: Array | ArrayLike, decides: str, remedy: str) -> None:
    """Before a function reads entries: raises GraphError where they are not known, in a trace or a batch."""
    for x in xs:
        if not has_entries(unwrap(x)):
            where = user_call()
            line = f" (at {line_of(where)})" if where else ""
            raise GraphError(
                operation,
                got=f"entries that are not known in a trace or a batch{line}",
                expected=f"entries that can be read: they decide {decides}",
                remedy=remedy,
            )


def check_range(
    x: Array | ArrayLike,
    operation: str,
    argument: str,
    low: float,
    high: float = np.inf,
    *,
    above: bool = False,
    nan: bool = False,
    remedy: str = "",
) -> None:
    """Raises ArgumentError for entries outside of [low, high], as far as entries are known.

    above : whether ``low`` itself is outside.
    nan : whether nan may be among them.
    """
    plain = unwrap(x) if isinstance(x, Operand) else x
    if not has_entries(plain):
        return
    entries = F.to_numpy(as_operand(plain, operation))
    entries = entries[~np.isnan(entries)] if nan else entries
    if entries.size and not (
        (entries.min() > low if above else entries.min() >= low) and entries.max() <= high
    ):
        bounds = (
            f"in [{low:g}, {high:g}]" if high < np.inf else f"{'above' if above else 'of at least'} {low:g}"
        )
        least, greatest = (format(v, "g") for v in (entries.min(), entries.max()))
        raise ArgumentError(
            operation,
            argument,
            got=least if least == greatest else f"entries from {least} to {greatest}",
            expected=f"numbers {bounds}",
            remedy=remedy,
        )


def as_operand(x: A | ArrayLike, operation: str, argument: str = "x") -> A:
    """A handle for a Tensor, NumPy array or Python scalar; raises ArgumentTypeError for anything else."""
    operand: Any = x
    make: Callable[[Any], Any] = asarray
    if isinstance(x, Operand):
        return operand
    if isinstance(x, np.ndarray):
        return make(plain(x, operation, argument))
    if isinstance(x, (np.generic, *SCALARS)):
        return make(x)
    raise ArgumentTypeError(
        operation,
        argument,
        got=described(x),
        expected="a Tensor, a NumPy array or a Python scalar",
        remedy="use functions of expressions, such as te.exp(x)" if isinstance(x, Expr) else way_in(x),
    )


def as_plain(x: A | ArrayLike, operation: str, argument: str = "x") -> A:
    """See `as_operand`; raises ArgumentTypeError for an operand of which some entries do not exist."""
    operand = as_operand(x, operation, argument)
    if isinstance(operand, Wrapper):
        raise ArgumentTypeError(
            operation,
            argument,
            got=f"a {type(operand).__name__}",
            expected="a Tensor: it has no meaning where entries do not exist",
            remedy="call to_tensor(fill) first",
        )
    return operand


def as_weak(x: Any, operation: str, argument: str = "x") -> Any:
    """See `as_operand`; a Python scalar stays a scalar, so that it takes the dtype of the other operand."""
    return x if type(x) in SCALARS else as_operand(x, operation, argument)


def as_operands(
    xs: Sequence[Array | ArrayLike] | Array | NDArray, operation: str, argument: str = "arrays"
) -> list[Any]:
    """A non-empty sequence of arrays (or one array, taken along its first axis) as handles."""
    if type(xs) not in (list, tuple) and (
        isinstance(xs, Operand) or not isinstance(xs, Sequence | np.ndarray)
    ):
        raise ArgumentTypeError(
            operation, argument, got=f"a {type(xs).__name__}", expected="a sequence of arrays"
        )
    if len(xs) == 0:
        raise ArgumentError(operation, argument, got="no arrays", expected="at least one")
    return [as_operand(x, operation, f"{argument}[{k}]") for k, x in enumerate(xs)]


def check_kind(x: Any, kinds: str, operation: str, argument: str = "x", remedy: str = "") -> None:
    """Raises DTypeError unless the dtype's kind is among ``kinds`` ("b", "i", "u", "f", "c")."""
    if dtypes.kind_of(x.dtype) not in kinds:
        raise DTypeError(
            operation,
            argument,
            got=f"dtype {x.dtype}",
            expected=" or ".join(_KINDS[k] for k in kinds),
            remedy=remedy or "convert it with astype",
        )


def cast(x: Shaped, dtype: DType) -> Any:
    """The handle with entries of ``dtype``: itself where they are already."""
    return x if x.dtype == dtype else F.astype(x, dtype=dtype)


def in_common(xs: Sequence[Array], composed: Callable[[list[Array]], A]) -> Any:
    """Call ``composed``, which multiplies operands in pairs, with all of them in their common dtype.

    So no product has a narrower dtype, whatever the order. Three or more operands of half precision are
    multiplied in single precision, and the result is rounded once.
    """
    common = dtypes.result_type(*xs)
    wide = dtypes.widened(common) if len(xs) > 2 else common
    return cast(composed([cast(x, wide) for x in xs]), common)


def as_inexact(x: A | ArrayLike, operation: str, argument: str = "x") -> A:
    """A floating operand: integers and bools become the default float."""
    x = as_operand(x, operation, argument)
    return cast(x, dtypes.to_inexact(x.dtype))


def as_real(x: A | ArrayLike, operation: str, argument: str = "x", kinds: str = "f") -> A:
    """See `as_inexact`; all entries must exist, and the kind of the dtype must be among ``kinds``."""
    operand = as_inexact(as_plain(x, operation, argument), operation, argument)
    check_kind(operand, kinds, operation, argument)
    return operand


def by_columns(solved: Callable[[Any], Any], b: Array) -> Any:
    """A function of matrices ``b``, or of a vector, which is then a column of one and of the result."""
    if b.ndim != 1:
        return solved(b)
    columns = solved(F.expand_dims(b, axis=(1,)))
    return F.squeeze(columns, axis=(columns.ndim - 1,))


def in_single(function: Function) -> Function:
    """A composition of ops, whose operands in half precision come to it in float32.

    Its result is rounded once, as that of one op is: to what those operands promote to, unless another one or
    ``dtype`` decides on something else.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        operand_dtypes = [x.dtype for x in (*args, *kwargs.values()) if isinstance(x, Operand | np.ndarray)]
        halves = [dtype for dtype in operand_dtypes if dtypes.is_half(dtype)]
        if not halves:
            return function(*args, **kwargs)
        wide = [_in_single(x) for x in args]
        result = function(*wide, **{k: _in_single(x) for k, x in kwargs.items()})
        decided = (
            kwargs.get("dtype") is not None
            or dtypes.float32 in operand_dtypes
            or result.dtype != dtypes.float32
        )
        return result if decided else cast(result, dtypes.result_type(*halves))

    return call  # type: ignore[return-value]


def _in_single(x: Any) -> Any:
    half = isinstance(x, Operand | np.ndarray) and dtypes.is_half(x.dtype)
    return F.astype(x, dtype=dtypes.float32) if half else x


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A list or tuple as a tuple; anything else as a tuple of one."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def given_dtype(dtype: DTypeLike | None, default: DType, operation: str) -> Any:
    """The dtype asked for, or the default where none was."""
    return default if dtype is None else dtypes.as_dtype(dtype, operation)


def check_device(device: str | None, operation: str) -> None:
    """Raises ArgumentError for any device but the CPU."""
    check_choice(device, (None, "cpu"), operation, "device")


@singledispatch
def addresses_of(x: Array) -> Any:
    """The row-major addresses of the entries that a handle holds as a vector; None where all entries exist.

    Kinds of operands of which some do not register theirs.
    """
    return None
