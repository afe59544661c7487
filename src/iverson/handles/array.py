"""`Array`, the base class of all kinds of arrays: operators, indexing, Python numbers.

All of it ends in ops or in the few methods a kind has of its own (``_become``, ``item``, ...). The
functions of `iverson.array_api` that take an array first are bound here as methods.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from iverson.autograd import api
from iverson.autograd.tracked_guards import check_conversion, check_in_place
from iverson.core import dtypes
from iverson.core.dispatch import NO_PARAMS, Operand, _default, bind, unwrap
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ShapeError,
    UnsizedError,
    ViewWarning,
    described,
    way_in,
)
from iverson.core.inputs.arguments import checked
from iverson.core.inputs.arrays import plain
from iverson.core.inputs.foreign_arrays import foreign
from iverson.core.op import Op
from iverson.core.python.caller import is_assignment, warn
from iverson.core.python.foreign_names import OF_METHODS, remedy
from iverson.core.python.scipy_calls import namespace_of_numpy
from iverson.core.scalars import SCALARS
from iverson.core.shapes import check_choice
from iverson.handles import subscripts, views
from iverson.layouts.pattern_symbols import handed_out
from iverson.ops import TABLE

if TYPE_CHECKING:
    from iverson.autograd.api import CotangentLike
    from iverson.handles._methods import Methods
else:
    Methods = object  # what the functions of `iverson.array_api` are bound to is the class itself

#: The versions of the array API standard whose functions are here.
STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
#: Python's operators on arrays: the ops, and the special methods that they are (in place ones besides).
OPERATORS: dict[str, tuple[str, ...]] = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "pow": ("__pow__", "__rpow__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
    "bitwise_left_shift": ("__lshift__", "__rlshift__"),
    "bitwise_right_shift": ("__rshift__", "__rrshift__"),
    "less": ("__lt__",),
    "less_equal": ("__le__",),
    "greater": ("__gt__",),
    "greater_equal": ("__ge__",),
    "equal": ("__eq__",),
    "not_equal": ("__ne__",),
    "negative": ("__neg__",),
    "positive": ("__pos__",),
    "abs": ("__abs__",),
    "bitwise_invert": ("__invert__",),
}

#: The other operand of an operator.
Other: TypeAlias = Operand | np.ndarray[Any, Any] | np.generic | complex

#: A sparse array of SciPy.
SparseArray: TypeAlias = Any
#: A capsule of C, for which Python before 3.13 has no type.
Capsule: TypeAlias = Any

_SCALARS = frozenset((int, float, complex, bool))
_CHARS = frozenset(d.char for d in dtypes.ALL)


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Special methods of a binary operator: the operator, its reflected form and its in-place form.

    name : the name of the op.
    """
    op = TABLE[name]

    def forward(self: Array, other: Other) -> Any:
        if type(other) is not type(self) and (other := _operand(other, name)) is NotImplemented:
            return NotImplemented
        return _default[0].bind(op, (self, other), NO_PARAMS)

    def reflected(self: Array, other: Other) -> Any:
        if (other := _operand(other, name)) is NotImplemented:
            return NotImplemented
        return _default[0].bind(op, (other, self), NO_PARAMS)

    def in_place(self: Array, other: Other) -> Any:
        if (other := _operand(other, name)) is NotImplemented:
            return NotImplemented
        base = views.base_of(self)
        self._rebind(op, bind(op, (self, other)))
        views.write_back(self, base)
        return self

    return forward, reflected, in_place


def _operand(other: Other, operation: str) -> Any:
    """Right operand of an operator in a form that ops take; NotImplemented for a type that they do not take.

    Raises DTypeError for an array with a dtype that Iverson does not have, ArgumentTypeError for an array of
    `numpy.ma`.
    """
    if type(other) in _SCALARS or isinstance(other, Operand):
        return other
    if not isinstance(other, np.ndarray | np.generic):
        if type(other).__module__.startswith("scipy.sparse."):  # a sparse tensor in all but name
            return _sparse_operand(other, operation)
        tensor = foreign(other)
        return NotImplemented if tensor is None else tensor
    if other.dtype.char not in _CHARS and not dtypes.is_known(other.dtype):
        raise DTypeError(
            operation,
            "other",
            got=f"dtype {other.dtype}",
            expected=dtypes.EXPECTED,
            remedy="convert it with astype",
        )
    return other if type(other) is np.ndarray else plain(other, operation, "other")


def _sparse_operand(other: SparseArray, operation: str) -> Any:
    """Sparse tensor of a sparse array of SciPy; raises ArgumentTypeError for ``*`` with a sparse matrix."""
    if operation == "multiply" and type(other).__name__.endswith("_matrix"):
        raise ArgumentTypeError(
            operation,
            "other",
            got=f"a {type(other).__name__} of scipy.sparse, of which * is the matrix product",
            expected="a sparse array, of which it is the product of entries",
            remedy="use @ for the matrix product, or scipy.sparse.csr_array(other)",
        )
    return sys.modules["iverson"].from_scipy(other)


def _unary(name: str) -> Callable[..., Any]:
    op = TABLE[name]

    def forward(self: Array) -> Any:
        return _default[0].bind(op, (self,), NO_PARAMS)

    return forward


def _matmul() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Special methods of ``@``, as `_binary` returns them; vectors and batches are allowed."""

    def forward(self: Array, other: Other) -> Any:
        if type(other) is not type(self) and (other := _operand(other, "matmul")) is NotImplemented:
            return NotImplemented
        return subscripts.matmul(self, other)

    def reflected(self: Array, other: Other) -> Any:
        other = _operand(other, "matmul")
        return NotImplemented if other is NotImplemented else subscripts.matmul(other, self)

    def in_place(self: Array, other: Other) -> Any:
        if (other := _operand(other, "matmul")) is NotImplemented:
            return NotImplemented
        base = views.base_of(self)
        self._rebind(TABLE["matmul"], subscripts.matmul(self, other))
        views.write_back(self, base)
        return self

    return forward, reflected, in_place


class _Written:
    """Object that counts the references to itself in ``__setitem__``, to tell temporaries from named
    objects.
    """

    __slots__ = ()

    def __setitem__(self, references: list[int], value: None) -> None:
        references.append(sys.getrefcount(self))

    @classmethod
    def of_temporary(cls) -> int:
        """Number of references that a temporary has during ``__setitem__``; 0 if a named object has
        as many.
        """
        references: list[int] = []
        cls()[references] = None
        instance = cls()
        instance[references] = None
        return references[0] if references[0] < references[1] else 0


_REFERENCES_OF_TEMPORARY = _Written.of_temporary()


def _warn_lost_write() -> None:
    """Warn that a value was assigned to a temporary that is no part of another tensor, so that it is lost."""
    warn(
        "assignment: the tensor written to is a temporary, so nothing can read what was written; what "
        "detach, flatten or index arrays give of a tensor is a tensor of its own: write "
        "y[[0, 1], 2] = 5 in place of y[[0, 1]][:, 2] = 5, or give it a name, write to it and assign it back",
        ViewWarning,
    )


class Array(Operand, Methods):
    """Base of the kinds of arrays that users hold: `Tensor`, and those with semantics of their own."""

    __slots__ = ()

    #: NumPy's operators and functions hand over to ours (`iverson.array_api.numpy_functions`).
    __array_ufunc__: Any = None
    __array_function__: Any = None
    __array_priority__ = 1000

    __hash__ = object.__hash__

    if not TYPE_CHECKING:  # which would take any name for one that is there

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that raised: with what it said
                return object.__getattribute__(self, name)
            end = remedy(name, OF_METHODS)
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}'{end}", name=name, obj=self
            )

    if TYPE_CHECKING:
        # What each kind says for itself.
        _link: Any

        def _become(self, result: Self) -> None:
            """Make this handle stand for ``result``, which has the same kind, shape and dtype."""

        def __arrow_array__(self, type: str | None = None) -> Any: ...

        def detach(self) -> Self:
            """The same entries, not tracked."""

        def item(self) -> Any:
            """The only entry as a Python number."""

        def _entry(self) -> Any:
            """The only entry as a Python number, for internal use; the entry is not handed to the user (see
            `item`).
            """

    # -- facts ---------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of entries."""
        return handed_out(prod(self.shape))

    @property
    def device(self) -> str:
        """Device of the entries: always "cpu"."""
        return "cpu"

    @property
    def nbytes(self) -> int:
        """The bytes that all entries would take if stored."""
        return handed_out(self.size * int(self.dtype.itemsize))

    @property
    def flat(self) -> Self:
        """The entries as a vector, row by row; a write into it is one into the array."""
        return self.reshape(-1)

    @checked
    def copy(self, order: Literal["C", "F", "A", "K"] = "C") -> Self:
        """A copy, through which gradients pass; the order of entries in memory is ours."""
        check_choice(order, ("C", "F", "A", "K"), "copy", "order")
        return bind(TABLE["copy"], (self,))

    @property
    def T(self) -> Self:
        """The transpose of a matrix."""
        if len(self.shape) != 2:
            raise ShapeError(
                "T",
                "x",
                got=f"shape {self.shape}",
                expected="two axes",
                remedy="use mT or permute_dims",
            )
        return self.mT

    @property
    def mT(self) -> Self:
        """The last two axes exchanged."""
        ndim = len(self.shape)
        if ndim < 2:
            raise ShapeError("mT", "x", got=f"shape {self.shape}", expected="at least two axes")
        axes = (*range(ndim - 2), ndim - 1, ndim - 2)
        return views.moved_part(self, "permute_dims", {"axes": axes})

    @property
    def real(self) -> Self:
        """The real part."""
        if self.dtype.kind == "b":  # as in NumPy: libraries ask whether an array has it
            return self
        return bind(TABLE["real"], (self,))

    @property
    def imag(self) -> Self:
        """The imaginary part."""
        if self.dtype.kind == "b":
            return self & False
        return bind(TABLE["imag"], (self,))

    def __len__(self) -> int:
        if not self.shape:
            raise UnsizedError("len", "x", got="an array of rank 0", expected="at least one axis")
        return handed_out(self.shape[0])

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise UnsizedError(
                "iteration",
                "x",
                got="an array of rank 0",
                expected="at least one axis",
                remedy="use item() for its entry",
            )
        return (self[k] for k in range(self.shape[0]))

    # -- gradients -----------------------------------------------------------------------------------

    def backward(
        self,
        gradient: CotangentLike | None = None,
        inputs: Operand | Sequence[Operand] | None = None,
        create_graph: bool = False,
        **pytorchs: bool | None,
    ) -> None:
        """`iverson.autograd.backward` of this tensor."""
        api.backward(self, gradient, inputs=inputs, create_graph=create_graph, **pytorchs)

    # -- in place ------------------------------------------------------------------------------------

    def _rebind(self, op: Op, result: Any) -> None:
        """Make this handle stand for ``result``, in place; raises if its kind, shape or dtype does not fit.

        A result of another dtype is cast if that is safe within its kind.
        """
        check_in_place(unwrap(self), f"in-place {op.name}")
        if type(result) is not type(self):
            raise ArgumentTypeError(
                f"in-place {op.name}",
                "other",
                got=f"a {type(result).__name__} as the result",
                expected=f"a {type(self).__name__}",
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
            if not dtypes.can_cast(result.dtype, self.dtype, "same_kind"):
                raise DTypeError(
                    f"in-place {op.name}",
                    "other",
                    got=f"a result of dtype {result.dtype}",
                    expected=f"one that fits {self.dtype}",
                    remedy="use the operator that makes a new tensor",
                )
            result = bind(TABLE["astype"], (result,), {"dtype": self.dtype})
        self._become(result)

    # -- indexing ------------------------------------------------------------------------------------

    def __getitem__(self, key: subscripts.Key) -> Self:
        return subscripts.getitem(self, key)

    def __setitem__(self, key: subscripts.Key, value: subscripts.Source) -> None:
        check_in_place(unwrap(self), "assignment")
        base = views.base_of(self)
        subscripts.setitem(self, key, value)
        views.write_back(self, base)
        # A call of ``__setitem__`` by name counts as a temporary does: only ``y[...] = v`` is looked at.
        if (
            base is None
            and sys.getrefcount(self) <= _REFERENCES_OF_TEMPORARY
            and is_assignment(sys._getframe(1))
        ):
            _warn_lost_write()

    def __contains__(self, value: subscripts.Source) -> bool:
        return bool(self._equal(value).any())

    def _equal(self, value: subscripts.Source) -> Any:
        """Boolean array of the entries that equal ``value``; raises ArgumentTypeError if it cannot be
        compared.
        """
        mask = self == value
        if not isinstance(mask, Operand):
            raise ArgumentTypeError(
                "in",
                "value",
                got=described(value),
                expected="a number or an array",
                remedy=way_in(value),
            )
        return mask

    # -- Python ---------------------------------------------------------------------------------------

    def __arrow_c_array__(self, requested_schema: Capsule | None = None) -> tuple[Capsule, Capsule]:
        """Arrow's structures in C of a vector, for Polars and others; pyarrow makes them."""
        structures: tuple[Capsule, Capsule] = self.__arrow_array__().__arrow_c_array__(requested_schema)
        return structures

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        check_choice(api_version, (None, *STANDARDS), "__array_namespace__", "api_version")
        return namespace_of_numpy(sys._getframe(1)) or sys.modules["iverson"]

    @checked
    def to_device(self, device: Literal["cpu"], /, *, stream: None = None) -> Self:
        """This tensor, if ``device`` is "cpu"; raises ArgumentError for any other."""
        check_choice(device, ("cpu",), "to_device", "device")
        return self

    def __float__(self) -> float:
        return float(self._real_item("float"))

    def __int__(self) -> int:
        return int(self._real_item("int"))

    def _converted(self, operation: str) -> Any:
        """The only entry as a Python number, for ``float(x)`` and similar conversions, which Python may call
        implicitly.

        Raises GradientError, or warns with DetachWarning, if a derivative would be lost. operation : the
        conversion, for errors.
        """
        check_conversion(unwrap(self), operation)
        return self.item()

    def _real_item(self, operation: str) -> Any:
        if self.dtype.kind == "c":
            raise DTypeError(
                operation,
                "x",
                got=f"dtype {self.dtype}",
                expected="a real dtype",
                remedy="take its real part or abs",
            )
        return self._converted(operation)

    def __complex__(self) -> complex:
        return complex(self._converted("complex"))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentError(
                "bool",
                "x",
                got=f"an array of shape {self.shape}",
                expected="exactly one entry",
                remedy="use any() or all()",
            )
        return bool(self._entry())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise DTypeError(
                "index",
                "x",
                got=f"dtype {self.dtype}, shape {self.shape}",
                expected="an integer of rank 0",
            )
        return int(self.item())

    def __round__(self, ndigits: int | None = None) -> Self:
        return bind(TABLE["round"], (self,)) if ndigits is None else self.round(decimals=ndigits)

    def __divmod__(self, other: Self | complex) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Self | complex) -> tuple[Self, Self]:
        return self.__rfloordiv__(other), self.__rmod__(other)

    def __format__(self, spec: str) -> str:
        return format(self._entry(), spec) if spec else str(self)


def _bind_operators() -> None:
    for name, special in OPERATORS.items():
        if len(special) == 1:
            setattr(Array, special[0], _unary(name) if SCALARS[name].arity == 1 else _binary(name)[0])
            continue
        in_place = special[0].replace("__", "__i", 1)
        forms = _matmul() if name == "matmul" else _binary(name)
        for method, form in zip((*special, in_place), forms, strict=True):
            setattr(Array, method, form)


_bind_operators()
