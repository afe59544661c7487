"""`asarray`: a Tensor from Python numbers, nested sequences and arrays of other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from iverson.core import dtypes
from iverson.core.dispatch import Handle, bind
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, IversonError, described, way_in
from iverson.core.float_warnings import at_user_line, is_of_user
from iverson.core.inputs.arguments import checked
from iverson.core.inputs.arrays import plain
from iverson.core.inputs.foreign_arrays import foreign
from iverson.core.inputs.missing_entries import check_none_missing, is_missing
from iverson.core.protocols import DType
from iverson.core.shapes import check_choice
from iverson.handles.tensor import Tensor
from iverson.ops import TABLE

if TYPE_CHECKING:
    from iverson.handles.typing import Data, Device, DTypeLike

T = TypeVar("T")


@checked
def asarray(
    obj: Data,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Tensor of what ``obj`` holds: a Tensor, NumPy array, Python number, nested sequence or DLPack
    exporter.

    Parameters
    ----------
    obj : a Tensor, NumPy array, Python number, nested sequence or DLPack exporter.
    dtype : of the result; by default that of ``obj`` (Python floats become float64, ints int64).
    device : None or "cpu".
    copy : True always copies, False never (ValueError if it must), None only if it must.
    requires_grad : make the result a new leaf of the graph.

    A sequence that holds tensors which track gradients is stacked: the result depends on them.

    Raises DTypeError for dtypes Iverson does not have, ArgumentTypeError for what is no array and for arrays
    of `numpy.ma` (`iverson.masked_tensor` reads their masks).

    Notes
    -----
    Without a copy, the tensor reads the memory of ``obj``: of a NumPy array and a DLPack exporter of the
    wanted dtype (not of another dtype or byte order, nor of sequences and numbers). Then

    - a later write into ``obj`` is seen by the tensor, by what shares its memory (parts, reshapes,
      ``detach()``) and by the values recorded with them: do not write into it before ``backward``, or pass
      ``copy=True``;
    - a write into the tensor, an optimizer's step included, never reaches ``obj``: the tensor copies first,
      and from then on shares nothing with it.

    >>> asarray([1, 2.5])
    iverson.Tensor([1. , 2.5])
    """
    check_choice(device, (None, "cpu"), "asarray", "device")
    target = None if dtype is None else dtypes.as_dtype(dtype, "asarray")
    of_host = None if isinstance(obj, Handle) else foreign(obj)
    obj = obj if of_host is None else of_host
    if isinstance(obj, Handle):
        return _from_handle(obj, target, copy, requires_grad)
    if isinstance(obj, (list, tuple)) and (of_host is not None or _holds_tracked(obj)):
        if copy is False:
            raise ArgumentError("asarray", "copy", got="False", expected="True or None: a sequence is copied")
        return _from_handle(_stacked(obj, dtypes.result_type(*leaves(obj))), target, None, requires_grad)
    array = _to_numpy(obj, target, copy)
    if not array.flags.aligned and copy is not False:  # NumPy adds such entries in another order
        array = np.require(array, requirements="A")
    return Tensor(array).requires_grad_(requires_grad) if requires_grad else Tensor(array)


def _from_handle(obj: Tensor, dtype: DType | None, copy: bool | None, requires_grad: bool) -> Any:
    """Tensor of ``obj`` with the requested dtype, a copy if needed; ``obj`` itself if nothing is to
    change.
    """
    result = obj
    if dtype is not None and dtype != obj.dtype:
        if copy is False:
            raise ArgumentError("asarray", "copy", got="False with another dtype", expected="True or None")
        _check_not_cut(obj.dtype, dtype)
        result = bind(TABLE["astype"], (obj,), {"dtype": dtype})
    elif copy:
        result = bind(TABLE["copy"], (obj,))
    if requires_grad and not result.requires_grad:
        result = Tensor(result._value).requires_grad_()
    return result


_array_of_dtype: Any = at_user_line(np.array)


def _to_numpy(obj: Any, dtype: DType | None, copy: bool | None) -> np.ndarray[Any, Any]:
    """NumPy array of an object that is no Tensor; raises an Iverson error if it cannot be one."""
    if not hasattr(obj, "__array__") and hasattr(obj, "__dlpack__"):
        obj = np.from_dlpack(obj)
    if isinstance(obj, (list, tuple)):
        obj = _without_tensors(obj)
    elif isinstance(obj, np.ndarray):
        obj = plain(obj, "asarray", "obj")
    else:
        check_none_missing(obj, "asarray", "obj")
    if dtype is not None and hasattr(obj, "dtype"):
        _check_not_cut(obj.dtype, dtype)
    try:
        make = np.array if dtype is None else _array_of_dtype
        array = make(obj, dtype=dtype, copy=copy, subok=False)
    except (IversonError, MemoryError, Warning, FloatingPointError):
        raise
    except TypeError as error:
        raise ArgumentTypeError(
            "asarray",
            "obj",
            got=described(obj),
            expected="numbers or an array",
            remedy=way_in(obj, str(error)),
        ) from error
    except Exception as error:  # ragged sequences, or whatever a foreign ``__array__`` raises
        if is_of_user(error):
            raise
        if copy is False and isinstance(error, ValueError):
            raise ArgumentError(
                "asarray", "copy", got="False", expected="True or None: this object must be copied"
            ) from error
        raise ArgumentError(
            "asarray",
            "obj",
            got=f"{described(obj)} that is no array",
            expected="numbers, an array, or nested sequences of one length on each axis",
            remedy=way_in(obj, str(error)),
        ) from error
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == dtypes.bool and array.size and array.view(np.uint8).max() > 1:
        array = array.view(np.uint8) != 0  # bytes taken for bools (a mask of 255, say): kernels want 0 and 1
    for entry in array.flat if array.dtype == object and array is not obj else ():
        if not isinstance(entry, Number):
            text = described(entry)
            raise ArgumentTypeError(
                "asarray",
                "obj",
                got=text if entry is obj else f"{described(obj)} with an entry that is {text}",
                expected="numbers, an array, or nested sequences of one length on each axis",
                remedy=way_in(entry, "use iverson.masked_tensor" if is_missing(entry) else ""),
            )
    if not dtypes.is_known(array.dtype):
        raise DTypeError(
            "asarray",
            "obj",
            got=f"dtype {array.dtype}",
            expected=dtypes.EXPECTED,
            remedy="pass dtype=, e.g. dtype='float32'",
        )
    return array


def _check_not_cut(source: DType, target: DType) -> None:
    if getattr(source, "kind", "") == "c" and target.kind not in "cb":
        raise DTypeError(
            "asarray",
            "dtype",
            got=f"{target} for entries of {source}",
            expected="a complex dtype",
            remedy="take real, imag or abs first",
        )


def leaves(items: Iterable[T]) -> Iterator[Any]:
    """Items of nested lists and tuples that are not lists or tuples themselves, in order."""
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from leaves(item)
        else:
            yield item


def _holds_tracked(items: Sequence[Data]) -> bool:
    return any(isinstance(i, Handle) and i._node is not None for i in leaves(items))


def _stacked(items: Sequence[Data], dtype: DType) -> Any:
    """Tensor from nested sequences with tensors in them, on which the result depends."""
    parts = [_stacked(i, dtype) if isinstance(i, (list, tuple)) else asarray(i, dtype=dtype) for i in items]
    return bind(TABLE["stack"], tuple(parts), {"axis": 0})


def _without_tensors(items: Sequence[Data]) -> Any:
    """Nested lists with Tensors replaced by NumPy arrays; the Tensors must not track gradients.

    Raises if an item is missing (None or NA).
    """
    return [
        _without_tensors(i)
        if isinstance(i, (list, tuple))
        else np.asarray(i)
        if isinstance(i, Handle)
        else plain(i, "asarray", "obj")
        if isinstance(i, np.ndarray)
        else i
        if isinstance(i, Number)
        else _complete(i)
        for i in items
    ]


def _complete(item: T) -> Any:
    check_none_missing(item, "asarray", "obj")
    return item
