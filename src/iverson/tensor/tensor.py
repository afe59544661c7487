"""The Tensor: a handle on a value and the node that made it.

In-place operators and assignment rebind the handle; nodes keep values, so nothing recorded before changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.autograd import api
from iverson.autograd.mode import is_grad_enabled
from iverson.autograd.node import extra, gradient_place, hold_gradient, leaf
from iverson.core import dispatch, dtypes
from iverson.core.dispatch import Handle, Operand, bind
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, GradientError, ShapeError
from iverson.core.op import Op
from iverson.layouts import layout_of, to_strided
from iverson.ops import TABLE
from iverson.tensor import indexing, printing

_SCALARS = frozenset((int, float, complex, bool))
_CHARS = frozenset(d.char for d in dtypes.ALL)


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The operator, its reflection and its in-place form."""
    op = TABLE[name]

    def forward(self: Tensor, other: Any) -> Any:
        if type(other) is not Tensor and not _is_operand(other, name):
            return NotImplemented
        return bind(op, (self, other))

    def reflected(self: Tensor, other: Any) -> Any:
        if not _is_operand(other, name):
            return NotImplemented
        return bind(op, (other, self))

    def in_place(self: Tensor, other: Any) -> Any:
        if not _is_operand(other, name):
            return NotImplemented
        self._rebind(op, bind(op, (self, other)))
        return self

    return forward, reflected, in_place


def _is_operand(other: Any, operation: str) -> bool:
    """Whether an operator takes the other side; raises DTypeError for entries that Iverson does not have."""
    if type(other) in _SCALARS or isinstance(other, Operand):
        return True
    if type(other) is not np.ndarray and not isinstance(other, np.generic):
        return False
    if other.dtype.char not in _CHARS and other.dtype not in dtypes.ALL:
        raise DTypeError(
            operation,
            "other",
            got=f"dtype {other.dtype}",
            expected="bool, an integer, float32/64 or complex64/128",
            remedy="convert it with astype",
        )
    return True


def _unary(name: str) -> Callable[..., Any]:
    op = TABLE[name]

    def forward(self: Tensor) -> Any:
        return bind(op, (self,))

    return forward


class Tensor(Handle):
    """A differentiable array whose layout is its support.

    Made by `iverson.asarray` and by the creation functions, not by calling this class. Every function of
    `iverson` that takes an array first is also a method: ``x.sum(axis=0)``, ``x.sqrt()``, ``x.reshape(2,
    3)``.
    """

    __slots__ = ()

    #: NumPy operators hand over to ours.
    __array_ufunc__ = None
    __array_priority__ = 1000

    __add__, __radd__, __iadd__ = _binary("add")
    __sub__, __rsub__, __isub__ = _binary("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("floor_divide")
    __mod__, __rmod__, __imod__ = _binary("remainder")
    __pow__, __rpow__, __ipow__ = _binary("pow")
    __and__, __rand__, __iand__ = _binary("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__, __irshift__ = _binary("bitwise_right_shift")
    __lt__ = _binary("less")[0]
    __le__ = _binary("less_equal")[0]
    __gt__ = _binary("greater")[0]
    __ge__ = _binary("greater_equal")[0]
    __eq__ = _binary("equal")[0]
    __ne__ = _binary("not_equal")[0]
    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_invert")
    __hash__ = object.__hash__

    if TYPE_CHECKING:
        # The functions of `iverson.array_api` that take an array first, bound there.
        def __getattr__(self, name: str) -> Any: ...

    # -- facts ---------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of entries."""
        return prod(self._value.shape)

    @property
    def layout(self) -> str:
        """The name of the layout: which entries are stored."""
        return layout_of(self._value).name

    @property
    def device(self) -> str:
        """Where the entries are: always "cpu"."""
        return "cpu"

    @property
    def nbytes(self) -> int:
        """The bytes that all entries would take if stored."""
        return self.size * int(self.dtype.itemsize)

    @property
    def T(self) -> Any:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeError(
                "T",
                "x",
                got=f"shape {self.shape}",
                expected="two axes",
                remedy="use mT or permute_dims",
            )
        return self.mT

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ShapeError("mT", "x", got=f"shape {self.shape}", expected="at least two axes")
        axes = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
        return bind(TABLE["permute_dims"], (self,), {"axes": axes})

    @property
    def real(self) -> Any:
        """The real part."""
        return bind(TABLE["real"], (self,))

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return bind(TABLE["imag"], (self,))

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len", "x", got="an array of rank 0", expected="at least one axis")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise ShapeError("iteration", "x", got="an array of rank 0", expected="at least one axis")
        return (self[k] for k in range(self.shape[0]))

    # -- gradients -----------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded. May be set on leaves."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this tensor a leaf of the graph (or take it out), in place. Returns the tensor.

        Raises DTypeError if its dtype carries no gradients, GradientError on a recorded result.
        """
        if requires_grad == (self._node is not None):
            return self
        if not requires_grad:
            if not self.is_leaf:
                raise GradientError(
                    "requires_grad_",
                    "x",
                    got="the result of a recorded op",
                    remedy="use x.detach()",
                )
            self._node = self._place = None
            return self
        if not dtypes.is_inexact(self.dtype):
            raise DTypeError(
                "requires_grad_",
                "x",
                got=f"dtype {self.dtype}",
                expected="a floating dtype",
                remedy="convert it with astype first",
            )
        self._node, self._index = leaf(self.shape, self.dtype), 0
        hold_gradient(self)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor."""
        return self._node is None or self._node.op is None

    @property
    def grad(self) -> Any:
        """The gradient that ``backward`` has added up here, or None."""
        place = gradient_place(self._node, self._index)
        return None if place is None else place.gradient

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if self._node is None:
                raise GradientError("grad", "x", got="a tensor that does not require grad")
            if not isinstance(value, Handle):
                raise ArgumentTypeError(
                    "grad", "value", got=f"a {type(value).__name__}", expected="a Tensor or None"
                )
            if value.shape != self.shape:
                raise ShapeError("grad", "value", got=f"shape {value.shape}", expected=f"shape {self.shape}")
            if value.dtype != self.dtype:
                raise DTypeError("grad", "value", got=f"dtype {value.dtype}", expected=f"dtype {self.dtype}")
        if self._node is not None:
            hold_gradient(self).gradient = value

    def detach(self) -> Tensor:
        """The same entries, not tracked. Shares memory."""
        return Tensor(self._value)

    def backward(self, gradient: Any = None, inputs: Any = None, create_graph: bool = False) -> None:
        """`iverson.autograd.backward` of this tensor."""
        api.backward(self, gradient, inputs=inputs, create_graph=create_graph)

    def register_hook(self, hook: Callable[[Any], Any]) -> api.HookHandle:
        """`iverson.autograd.register_hook` on this tensor."""
        return api.register_hook(self, hook)

    def retain_grad(self) -> None:
        """Let ``backward`` keep this result's gradient in ``.grad``, as it does for leaves."""
        if self._node is None:
            raise GradientError("retain_grad", "x", got="a tensor that does not require grad")
        hold_gradient(self)
        extra(self._node).retain.add(self._index)

    # -- in place ------------------------------------------------------------------------------------

    def _rebind(self, op: Op, result: Any) -> None:
        """Make this handle stand for a result of its own shape and dtype."""
        if not isinstance(result, Handle):
            raise ArgumentTypeError(
                f"in-place {op.name}",
                "other",
                got=f"a {type(result).__name__} as the result",
                expected="a plain Tensor",
                remedy="use the operator that makes a new tensor",
            )
        if result.shape != self.shape:
            raise ShapeError(
                f"in-place {op.name}",
                "other",
                got=f"a result of shape {result.shape}",
                expected=f"shape {self.shape}: a tensor in place cannot grow",
                remedy="use the operator that makes a new tensor",
            )
        if result.dtype != self.dtype:
            if not np.can_cast(result.dtype, self.dtype, "same_kind"):
                raise DTypeError(
                    f"in-place {op.name}",
                    "other",
                    got=f"a result of dtype {result.dtype}",
                    expected=f"one that fits {self.dtype}",
                    remedy="use the operator that makes a new tensor",
                )
            result = bind(TABLE["astype"], (result,), {"dtype": self.dtype})
        self._value = result._value
        if is_grad_enabled() or not self.is_leaf:
            self._node, self._index = result._node, result._index

    # -- indexing ------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        indexing.setitem(self, key, value)

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    # -- conversion ----------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """The entries as a NumPy array (all of them, in any layout); shares memory where strided.

        Raises GradientError if the tensor tracks gradients.
        """
        return self.__array__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self._node is not None:
            raise GradientError(
                "conversion to a NumPy array",
                "x",
                got=f"a tensor that tracks gradients ({self._node.describe()})",
                remedy="call x.detach() first",
            )
        array = to_strided(self._value)
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ArgumentError(
                    "conversion", "copy", got="False with another dtype", expected="True or None"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        array = self.__array__()
        if any(s < 0 for s in array.strides):
            array = np.ascontiguousarray(array)
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return sys.modules["iverson"]

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """This tensor, if ``device`` is "cpu"; raises ArgumentError for any other."""
        if device != "cpu":
            raise ArgumentError("to_device", "device", got=repr(device), expected="'cpu'")
        return self

    def to_dense(self) -> Any:
        """The same tensor with every entry stored."""
        return bind(TABLE["to_dense"], (self,))

    def item(self) -> Any:
        """The only entry as a Python number; raises ShapeError if there are more or none."""
        if self.size != 1:
            raise ShapeError("item", "x", got=f"shape {self.shape}", expected="exactly one entry")
        return to_strided(self._value).item()

    def tolist(self) -> Any:
        """The entries as nested lists of Python numbers."""
        return to_strided(self._value).tolist()

    def __float__(self) -> float:
        return float(self._real_item("float"))

    def __int__(self) -> int:
        return int(self._real_item("int"))

    def _real_item(self, operation: str) -> Any:
        if self.dtype.kind == "c":
            raise DTypeError(
                operation,
                "x",
                got=f"dtype {self.dtype}",
                expected="a real dtype",
                remedy="take its real part or abs",
            )
        return self.item()

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentError(
                "bool",
                "x",
                got=f"an array of shape {self.shape}",
                expected="exactly one entry",
                remedy="use any() or all()",
            )
        return bool(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise DTypeError(
                "index",
                "x",
                got=f"dtype {self.dtype}, shape {self.shape}",
                expected="an integer of rank 0",
            )
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __repr__(self) -> str:
        return printing.show(self)

    def __copy__(self) -> Tensor:
        own: Tensor = dispatch.alias(self)
        if gradient_place(own._node, own._index) is not None:
            hold_gradient(own)
        return own

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise GradientError(
                "deepcopy",
                "x",
                got="the result of a recorded op",
                expected="a leaf",
                remedy="call x.detach() first",
            )
        return _unpickle(_copied(self._value), self.requires_grad)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_leaf:
            raise GradientError(
                "pickle",
                "x",
                got="the result of a recorded op",
                expected="a leaf",
                remedy="call x.detach() first",
            )
        return _unpickle, (self._value, self.requires_grad)


def _copied(value: Any) -> Any:
    layout = layout_of(value)
    return layout.rebuild(value, tuple(b.copy() for b in layout.buffers(value)))


def _unpickle(value: Any, requires_grad: bool) -> Tensor:
    return Tensor(value).requires_grad_(requires_grad)


def _matmul_operators() -> None:
    def forward(self: Tensor, other: Any) -> Any:
        return indexing.matmul(self, other) if _is_operand(other, "matmul") else NotImplemented

    def reflected(self: Tensor, other: Any) -> Any:
        return indexing.matmul(other, self) if _is_operand(other, "matmul") else NotImplemented

    def in_place(self: Tensor, other: Any) -> Any:
        self._rebind(TABLE["matmul"], indexing.matmul(self, other))
        return self

    for name, method in (
        ("__matmul__", forward),
        ("__rmatmul__", reflected),
        ("__imatmul__", in_place),
    ):
        setattr(Tensor, name, method)


_matmul_operators()
dispatch.register_handle(Tensor)
