"""`MaskedTensor`: a tensor with a mask, some of whose entries do not exist.

It holds a plain Tensor, the vector of the specified entries, and a `Mask`. What it computes is in
`iverson.masked.rules`; every function, method and operator of a Tensor is one of a MaskedTensor.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from iverson.autograd import api
from iverson.autograd.mode import is_grad_enabled
from iverson.core import dtypes
from iverson.core.dispatch import (
    Handle,
    Wrapper,
    levels,
    make_handle,
    rewrap,
    rewrapping,
    value_of,
    zero_filled,
)
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import DType
from iverson.handles import Tensor, asarray
from iverson.handles.array import Array
from iverson.handles.spy import Picture
from iverson.handles.views import read_again
from iverson.layouts.pattern_symbols import handed_out
from iverson.masked import masked_printing, pytree
from iverson.masked.mask import Mask, taken
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.typing import ArrayLike, DTypeLike

#: What a copy of an object is known by, of any type.
T = TypeVar("T")


class MaskedTensor(Wrapper, Array):
    """A tensor with a mask: an entry where the mask is False is unspecified, it does not exist.

    It is never read, never perturbed and has no gradient; the gradient with respect to a MaskedTensor is a
    MaskedTensor with the same mask. Made by `iverson.masked_tensor`, not by calling this class.

    - elementwise functions: a result is specified where all operands are (a plain operand is everywhere).
    - reductions go over the specified entries; a result without any is unspecified itself.
    - softmax, cumulative functions and sort keep each line's entries (sort puts unspecified ones last).
    - matmul and convolutions: a product counts where both factors are specified.
    - functions of `iverson.nn`: as if columns without specified entries were not there.
    - an assignment specifies what it assigns; of a masked value, what is unspecified there stops existing.
    - what has no meaning where entries do not exist (``inv``, ``fft``, ...) raises ArgumentTypeError, unless
      all of them do.
    - ``to_tensor(fill)`` gives a plain Tensor.

    With a mask that is the pattern of a sparse layout, work grows with the number of specified entries.

    >>> import iverson as iv
    >>> x = iv.masked_tensor([1.0, 2.0, 4.0], [True, False, True], requires_grad=True)
    >>> x.mean()
    iverson.MaskedTensor(2.5, requires_grad=True)
    >>> x.mean().backward()
    >>> x.grad
    iverson.MaskedTensor([0.5,  --, 0.5])
    """

    __slots__ = ("__weakref__", "_inner", "_link", "_mask")

    def __init__(self, vector: Tensor, mask: Mask) -> None:
        pytree.register(type(self))
        self._inner = vector
        self._mask = mask

    # -- facts ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, one per axis."""
        return handed_out(self._mask.shape)  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the entries."""
        return self._inner.dtype  # type: ignore[no-any-return]

    @property
    def layout(self) -> str:
        """The layout that data and mask have outside of this tensor."""
        return self._mask.layout

    def get_data(self) -> Tensor:
        """The data as a plain Tensor, 0 where unspecified; differentiable at specified entries."""
        return self.to_tensor(False if self.dtype.kind == "b" else 0)

    def get_mask(self) -> Tensor:
        """The mask as a bool Tensor: True where an entry is specified."""
        plain = self._mask.plain()
        return plain if isinstance(plain, Tensor) else Tensor(plain)

    mask = get_mask

    @checked
    def to_tensor(self, fill: ArrayLike) -> Tensor:
        """A plain Tensor with ``fill`` in place of the unspecified entries: leaves masked semantics.

        ``fill`` is a scalar, or a tensor that broadcasts to this shape. Differentiates in this tensor at its
        specified entries, and in ``fill`` at the others. Raises ShapeError where fill does not fit,
        DTypeError for a scalar that the dtype cannot hold.

        >>> import iverson as iv
        >>> iv.masked_tensor(iv.asarray([1., 2.]), [True, False]).to_tensor(7)
        iverson.Tensor([1., 7.])
        """
        plain: Tensor = zero_filled(self)
        if isinstance(fill, Wrapper) or not hasattr(fill, "shape"):
            fill = _scalar_fill(fill, self.dtype)
            if not np.any(fill != 0):
                return plain
        else:
            fill = asarray(fill)
            if not fits(fill.shape, self.shape):
                raise ShapeError(
                    "to_tensor", "fill", got=f"shape {fill.shape}", expected=f"one that fits {self.shape}"
                )
        result: Tensor = F.where(self._mask.array, plain, fill)
        return result

    # -- the protocol of a wrapper -------------------------------------------------------------------

    def _rewrap(self, handle: Tensor | MaskedTensor) -> MaskedTensor:
        if isinstance(handle, MaskedTensor):  # some of the entries exist
            return MaskedTensor(*handle._mask.within(self._mask, handle._inner))
        return MaskedTensor(handle, self._mask)

    def _rewrap_stacked(self, handle: Tensor) -> MaskedTensor:
        mask = self._mask.stretched((handle.shape[0], *self._mask.shape))
        at = self._mask.stacked(mask)
        vector = F.reshape(handle, shape=(handle.shape[0] * self._mask.count,))
        return MaskedTensor(taken([vector], at), mask)

    def _seed(self, value: Array | ArrayLike, operation: str, argument: str) -> Any:
        seed: Array = value if isinstance(value, (Handle, Wrapper)) else asarray(value)
        if seed.shape != self.shape:
            raise ShapeError(
                operation, argument, got=f"shape {seed.shape}", expected=f"shape {self.shape}, as the tensor"
            )
        if isinstance(seed, MaskedTensor):
            return seed._inner if seed._mask == self._mask else self._mask.pack(zero_filled(seed))
        return self._mask.pack(seed)

    # -- gradients -----------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """True if operations on this tensor are recorded. May be set on leaves."""
        return bool(self._inner.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @checked
    def requires_grad_(self, requires_grad: bool = True) -> MaskedTensor:
        """Make this tensor a leaf of the graph (or take it out), in place; its specified entries are.

        Returns the tensor. Raises DTypeError if its dtype carries no gradients, GradientError on a recorded
        result.
        """
        self._inner.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """True if this tensor is not the result of a recorded op."""
        return bool(self._inner.is_leaf)

    @property
    def grad(self) -> MaskedTensor | None:
        """The gradient that ``backward`` has added up here, a MaskedTensor with this mask, or None."""
        gradient = self._inner.grad
        return None if gradient is None else self._rewrap(gradient)

    @grad.setter
    def grad(self, value: MaskedTensor | None) -> None:
        self._inner.grad = None if value is None else self._seed(value, "grad", "value")

    def detach(self) -> MaskedTensor:
        """The same entries, not tracked. Shares memory."""
        return self._rewrap(self._inner.detach())

    @checked
    def register_hook(self, hook: Callable[[MaskedTensor], Array | ArrayLike | None]) -> api.HookHandle:
        """`iverson.autograd.register_hook` on this tensor: the hook is handed MaskedTensors."""

        def on_held(gradient: Tensor) -> Any:
            replaced = hook(rewrap(self, gradient))
            return None if replaced is None else self._seed(replaced, "hook", "gradient")

        return api.register_hook(self._inner, on_held)

    def retain_grad(self) -> None:
        """Let ``backward`` keep this result's gradient in ``.grad``, as it does for leaves."""
        self._inner.retain_grad()

    # -- in place ------------------------------------------------------------------------------------

    def _become(self, result: MaskedTensor) -> None:
        """Give this handle the value of ``result``, which has the same shape and dtype.

        Under `no_grad` a leaf stays a leaf: it is the same one if the mask is equal, else a new one.
        """
        if levels():
            parts = self._inner, self._mask
            rewrapping(self, lambda x: x._hold(*parts))
        vector = result._inner
        if self.requires_grad and self.is_leaf and not is_grad_enabled():
            if result._mask == self._mask:
                vector = copy(self._inner)
                vector._become(result._inner)
            else:
                vector = make_handle(value_of(vector)).requires_grad_()
        self._hold(vector, result._mask)
        read_again(self)

    def _hold(self, inner: Tensor, mask: Mask) -> None:
        self._inner, self._mask = inner, mask

    # -- conversion ----------------------------------------------------------------------------------

    def item(self) -> Any:
        """The only entry as a Python number; raises ShapeError if there are more, ArgumentError if there is
        none that is specified."""
        self._entry()
        return self._inner.item()

    def _entry(self) -> Any:
        if self.size != 1:
            raise ShapeError("item", "x", got=f"shape {self.shape}", expected="exactly one entry")
        if not self._mask.count:
            raise ArgumentError(
                "item",
                "x",
                got="an unspecified entry",
                expected="a specified one",
                remedy="use to_tensor(fill)",
            )
        return self._inner._entry()

    def tolist(self) -> Any:
        """The entries as nested lists of Python numbers, None where unspecified."""
        cells = np.full(self.size, None, object)
        cells[self._mask.keys] = self._inner.tolist()
        return cells.reshape(self.shape).tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        raise ArgumentTypeError(
            "conversion to a NumPy array",
            "x",
            got="a MaskedTensor",
            expected="a Tensor: NumPy has no entries that do not exist",
            remedy="call to_tensor(fill) or to_masked_array() first",
        )

    def __dlpack__(self, **options: bool | tuple[int, int] | None) -> Any:
        return self.__array__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def to_masked_array(self) -> np.ma.MaskedArray[Any, Any]:
        """The entries as an array of `numpy.ma`, masked where they are unspecified.

        Raises GradientError if the tensor tracks gradients.

        >>> import iverson as iv
        >>> iv.masked_tensor([1.0, 2.0], [True, False]).to_masked_array()
        masked_array(data=[1.0, --],
                     mask=[False,  True],
               fill_value=1e+20)
        """
        cells = np.zeros(self.size, self.dtype)
        cells[self._mask.keys] = self._inner.numpy()
        absent = np.ones(self.size, bool)
        absent[self._mask.keys] = False
        return np.ma.MaskedArray(cells.reshape(self.shape), absent.reshape(self.shape))

    def __arrow_array__(self, type: str | None = None) -> Any:
        """An array of Arrow with the entries of a vector, null where they are unspecified."""
        pyarrow: Any = import_module("pyarrow")

        entries = self.to_masked_array()
        return pyarrow.array(entries.data, type=type, mask=entries.mask)

    def __contains__(self, value: Any) -> bool:
        return bool(self._equal(value)._inner.any())

    def __repr__(self) -> str:
        return masked_printing.show(self)

    def __str__(self) -> str:
        return masked_printing.show(self)

    def _repr_html_(self) -> str:
        return masked_printing.page(self, self.spy())

    def spy(self) -> Picture:
        """A small picture of which entries are specified.

        >>> import iverson as iv
        >>> iv.masked_tensor([[1.0, 2.0], [3.0, 4.0]], [[True, False], [True, True]]).spy()
        +--+
        |# |
        |##|
        +--+
        """
        return self._mask.picture()

    def __copy__(self) -> MaskedTensor:
        return self._rewrap(self._inner.__copy__())

    def __deepcopy__(self, memo: dict[int, T]) -> MaskedTensor:
        return self._rewrap(self._inner.__deepcopy__(memo))

    def __reduce__(self) -> tuple[Any, ...]:
        self._inner.__reduce__()  # refuses results of recorded ops
        return MaskedTensor, (self._inner, self._mask)


def fits(extents: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """True if an array of the first shape broadcasts to the second."""
    tail = shape[len(shape) - len(extents) :]
    return len(extents) <= len(shape) and all(n in (1, m) for n, m in zip(extents, tail, strict=True))


def _scalar_fill(fill: ArrayLike, dtype: DType) -> Any:
    """The scalar ``fill`` as an array of ``dtype``; raises DTypeError if the dtype cannot hold it."""
    if isinstance(fill, (bool, int, float, complex, np.generic)):
        value = np.asarray(fill)
        kinds = "biufc"
        fits = 0 <= kinds.find(value.dtype.kind) <= max(kinds.index(dtypes.kind_of(dtype)), 1)
        if fits and (dtype.kind not in "biu" or value.astype(dtype) == value):
            return value.astype(dtype)
        raise DTypeError(
            "to_tensor",
            "fill",
            got=repr(fill),
            expected=f"a value that {dtype} can hold",
            remedy="convert the tensor with astype first",
        )
    raise ArgumentTypeError(
        "to_tensor", "fill", got=f"a {type(fill).__name__}", expected="a scalar or a plain Tensor"
    )
