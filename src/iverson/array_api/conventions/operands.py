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
from iverson.core.inputs.foreign_arrays import foreign
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
_ARRAYS = (Operand, np.ndarray)

_KINDS = {"b": "bool", "i": "integer", "u": "unsigned integer", "f": "real floating", "c": "complex"}


def named(function: Function, name: str, doc: str) -> Function:
    """The ``function``, which a factory made, with the name and the docstring of its public use, and checked
    arguments.
    """
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return checked(function)


def check_entries(operation: str, *xs: Array | ArrayLike, decides: str, remedy: str) -> None:
    """Raise GraphError if entries that a function is about to read are not known, in a trace or a batch.

    decides : what the entries decide, in words, for the message.
    """
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
    """Raise ArgumentError if an entry is outside of [low, high]; nothing is checked if entries are not known.

    above : True if ``low`` itself is not allowed.
    nan : True if nan is allowed.
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
    """Handle for a Tensor, NumPy array or Python scalar; raises ArgumentTypeError for anything else.

    A Tensor or a masked tensor is returned as it is.
    """
    operand: Any = x
    make: Callable[[Any], Any] = asarray
    if isinstance(x, Operand):
        return operand
    if isinstance(x, np.ndarray):
        return make(plain(x, operation, argument))
    if (tensor := foreign(x)) is not None:
        return make(tensor)
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
    """Handle for an operand, as from `as_operand`; raises ArgumentTypeError for a masked tensor."""
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
    """Handle for an operand, as from `as_operand`, but a Python scalar is returned as it is.

    Such a scalar then takes the dtype of the other operand.
    """
    return x if isinstance(x, Operand) or type(x) in SCALARS else as_operand(x, operation, argument)


def as_operands(
    xs: Sequence[Array | ArrayLike] | Array | NDArray, operation: str, argument: str = "arrays"
) -> list[Any]:
    """List of handles, from a non-empty sequence of arrays or from the slices of one array along its first
    axis.
    """
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
    """The handle ``x`` with entries of ``dtype``; ``x`` itself if it has this dtype."""
    return x if x.dtype == dtype else F.astype(x, dtype=dtype)


def in_common(xs: Sequence[Array], composed: Callable[[list[Array]], A]) -> Any:
    """Result of ``composed``, which multiplies operands in pairs, on all operands in their common dtype.

    So no product has a narrower dtype, whatever the order. Three or more operands of half precision are
    multiplied in single precision, and the result is rounded once.
    """
    common = dtypes.result_type(*xs)
    wide = dtypes.widened(common) if len(xs) > 2 else common
    return cast(composed([cast(x, wide) for x in xs]), common)


def as_inexact(x: A | ArrayLike, operation: str, argument: str = "x") -> A:
    """Handle for an operand with a floating or complex dtype: integers and bools become the default float."""
    x = as_operand(x, operation, argument)
    return x if x.dtype.kind in "fc" else cast(x, dtypes.to_inexact(x.dtype))


def as_real(x: A | ArrayLike, operation: str, argument: str = "x", kinds: str = "f") -> A:
    """Plain floating operand; raises if it is masked, or if its dtype's kind is not in ``kinds``.

    By default only real dtypes are allowed ("f"); "fc" allows complex ones, too.
    """
    operand = as_inexact(as_plain(x, operation, argument), operation, argument)
    check_kind(operand, kinds, operation, argument)
    return operand


def by_columns(solved: Callable[[Any], Any], b: Array) -> Any:
    """Result of ``solved``, a function of matrices, for ``b``, which may be a vector.

    A vector is passed as a matrix of one column, and the column of the result is returned as a vector.
    """
    if b.ndim != 1:
        return solved(b)
    columns = solved(F.expand_dims(b, axis=(1,)))
    return F.squeeze(columns, axis=(columns.ndim - 1,))


def in_single(function: Function) -> Function:
    """Decorator for a composition of ops: operands in half precision are passed to it in float32.

    The result is rounded once, as that of one op is, to what those operands promote to. It is not rounded if
    ``dtype`` is passed, another operand is float32, or the result is not float32.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for x in (*args, *kwargs.values()):
            if isinstance(x, _ARRAYS) and x.dtype.itemsize == 2 and dtypes.is_half(x.dtype):
                break
        else:
            return function(*args, **kwargs)
        operand_dtypes = [x.dtype for x in (*args, *kwargs.values()) if isinstance(x, _ARRAYS)]
        halves = [dtype for dtype in operand_dtypes if dtypes.is_half(dtype)]
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
    half = isinstance(x, _ARRAYS) and dtypes.is_half(x.dtype)
    return F.astype(x, dtype=dtypes.float32) if half else x


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Tuple of the items of a list or tuple; a tuple with ``value`` alone for anything else."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def given_dtype(dtype: DTypeLike | None, default: DType, operation: str) -> Any:
    """The dtype that ``dtype`` names, or ``default`` if it is None."""
    return default if dtype is None else dtypes.as_dtype(dtype, operation)


def check_device(device: str | None, operation: str) -> None:
    """Raises ArgumentError for any device but the CPU."""
    check_choice(device, (None, "cpu"), operation, "device")


@singledispatch
def addresses_of(x: Array) -> Any:
    """Row-major addresses of the entries that a handle has as a vector; None if all entries exist.

    Types of operands with entries that do not exist register functions of their own.
    """
    return None
