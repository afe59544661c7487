"""Scalar expressions: their nodes, and walks over them (`iverson.expr.print`: their text).

Tensor expressions (`iverson.te`) and loop nests (`iverson.codegen`) are both made of these; each adds the
leaves that are its own (indices and reads of tensors; loop variables and loads of buffers). Expressions are
interned: equal ones are the same object, so ``is`` compares them, dictionaries key on them, and shared
subexpressions stay shared (they form a DAG).

::

    e  ::= Const(value, dtype, weak)        a number
         | Apply(name, args, dtype, weak)   a function of core.scalars.SCALARS, on args of one dtype
         | Select(condition, then, other)   evaluates only the side it chooses
         | Cast(operand, dtype)             as NumPy's astype
         | a leaf

Nodes take what they are given, as does `Expr.rebuilt`. `apply`, `select` and `cast` of `build` promote and
simplify, and so do Python's operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from iverson.core import dtypes, locks
from iverson.core.errors import ArgumentTypeError
from iverson.core.scalars import SCALARS

DType = np.dtype[Any]
Item = TypeVar("Item")

_interned: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_lock = locks.reentrant_lock()


@cache
def _of_ufunc() -> dict[np.ufunc, str]:
    """The names of the functions that NumPy has as ufuncs."""
    return {s.body: name for name, s in SCALARS.items() if isinstance(s.body, np.ufunc)}


class _Interning(type):
    """Makes a node once per set of fields; nodes within a key stand for themselves by identity."""

    def __call__(cls, *args: Any) -> Any:
        known = _defaults(cls)
        if known is None:
            return super().__call__(*args)
        key = (cls, *map(_key_of, args), *known[len(args) :])
        found = _interned.get(key)
        if found is not None:
            return found
        made = super().__call__(*args)
        with _lock:
            return _interned.setdefault(key, made)


@cache
def _defaults(cls: type) -> tuple[object, ...] | None:
    """The parts of a key for the fields of a dataclass, where they are not given; None for other classes."""
    return tuple(_key_of(f.default) for f in fields(cls)) if is_dataclass(cls) else None


def _key_of(value: object) -> object:
    if isinstance(value, (Expr, Source)):
        return id(value)
    if isinstance(value, tuple):
        return tuple(map(_key_of, value))
    if isinstance(value, (np.generic, float, complex)):  # 0.0 == -0.0 and nan != nan
        value = value.item() if isinstance(value, np.generic) else value
        return (type(value), repr(value)) if isinstance(value, (float, complex)) else (type(value), value)
    return (type(value), value) if isinstance(value, int) else value


class Source:
    """Something that expressions read, equal only to itself."""

    __slots__ = ("__weakref__",)

    def as_scalar(self) -> Expr | None:
        """What it is where a scalar is expected, if it can be one."""
        return None


def _operator(name: str, swap: bool = False, on_bools: str = "") -> Callable[[Expr, Any], Expr]:
    """A method that applies a function (another one, on bools)."""

    def method(self: Expr, other: Any) -> Expr:
        function = on_bools if on_bools and self.dtype.kind == "b" else name
        return Expr.make(function, other, self) if swap else Expr.make(function, self, other)

    return method


class Expr(metaclass=_Interning):
    """A scalar expression. Python's operators build bigger ones.

    ``a == b`` is an expression too; as a Python truth value it says whether the operands are the
    same expression. ``weak`` expressions (numbers, indices) take the dtype of what they meet.
    """

    __slots__ = ("__weakref__", "form")
    #: `iverson.expr.print.text`, and `apply` and `cast` of `iverson.expr.build`: these modules put them here.
    show: ClassVar[Callable[[Expr], str]]
    make: ClassVar[Callable[..., Expr]]
    convert: ClassVar[Callable[[Expr, DType], Expr]]
    dtype: DType
    form: object  # what `affine` found out about this expression, kept for the next time
    weak: bool
    #: Whether it reads memory, which it may only where the conditions around it hold.
    reads: ClassVar[bool] = False

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The expressions this one is made of."""
        return ()

    def rebuilt(self, operands: Sequence[Expr]) -> Expr:
        """This expression with other operands, not simplified; itself where they are the same."""
        return self if same(operands, self.operands) else self._of(*operands)

    def _of(self, *operands: Expr) -> Expr:
        del operands
        return self

    def _text(self, below: Sequence[str]) -> str:
        """This expression in words, given its operands'."""
        name = getattr(self, "name", type(self).__name__)
        return f"{name}({', '.join(below)})" if below else name

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def __repr__(self) -> str:
        return Expr.show(self)

    __add__, __radd__ = _operator("add"), _operator("add", True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", True)
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _operator("floor_divide", True)
    __mod__, __rmod__ = _operator("remainder"), _operator("remainder", True)
    __pow__, __rpow__ = _operator("pow"), _operator("pow", True)
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __and__ = __rand__ = _operator("bitwise_and", on_bools="logical_and")
    __or__ = __ror__ = _operator("bitwise_or", on_bools="logical_or")
    __xor__ = __rxor__ = _operator("bitwise_xor", on_bools="logical_xor")

    def __neg__(self) -> Expr:
        return Expr.make("negative", self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return Expr.make("abs", self)

    def __invert__(self) -> Expr:
        return Expr.make("logical_not" if self.dtype.kind == "b" else "bitwise_invert", self)

    def __eq__(self, other: object) -> Any:
        return Expr.make("equal", self, other) if _is_scalar(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return Expr.make("not_equal", self, other) if _is_scalar(other) else NotImplemented

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            "bool",
            got="a tensor expression, whose value is known only at a point",
            expected="a Python bool",
            remedy="choose with te.select(condition, a, b), te.maximum or te.minimum; combine conditions "
            "with &, | and ~, also those of 0 < x < 1: (x > 0) & (x < 1)",
        )

    def __float__(self) -> float:
        raise ArgumentTypeError(
            "float",
            got="a tensor expression, whose value is known only at a point",
            expected="a Python number",
            remedy="use functions of expressions: te.exp(x), not math.exp(x)",
        )

    __int__ = __float__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Expr:
        """NumPy's elementwise functions are those of the op table: ``np.sin(A[i])`` is ``te.sin(A[i])``."""
        name = _of_ufunc().get(ufunc)
        if name is None or method != "__call__" or options:
            raise ArgumentTypeError(
                f"numpy.{ufunc.__name__}",
                got="a tensor expression" + (f" and {', '.join(options)}" if options else ""),
                expected="arrays",
                remedy="use the functions of iverson.te",
            )
        return Expr.make(name, *inputs)

    def astype(self, dtype: Any) -> Expr:
        """This expression in another dtype."""
        return Expr.convert(self, dtypes.as_dtype(dtype, "te.astype"))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Const(Expr):
    """A number: a Python int, float, complex or bool."""

    value: Any
    dtype: DType = dtypes.int64
    weak: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.value, np.generic):  # equal numbers are the same expression
            object.__setattr__(self, "value", self.value.item())

    def __bool__(self) -> bool:
        return bool(self.value)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Apply(Expr):
    """A function of the table of scalars on operands of one dtype; ``dtype`` is the result's."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    weak: bool = False

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.args

    def _of(self, *operands: Expr) -> Expr:
        return Apply(self.name, operands, self.dtype, self.weak)

    def __bool__(self) -> bool:
        if self.name == "equal":
            return self.args[0] is self.args[1]
        if self.name == "not_equal":
            return self.args[0] is not self.args[1]
        return Expr.__bool__(self)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Select(Expr):
    """``then`` where ``condition`` holds, else ``other``; the side not chosen is not evaluated."""

    condition: Expr
    then: Expr
    other: Expr

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.then.dtype

    @property
    def weak(self) -> bool:  # type: ignore[override]
        return self.then.weak and self.other.weak

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.condition, self.then, self.other

    def _of(self, *operands: Expr) -> Expr:
        return Select(*operands)

    def _text(self, below: Sequence[str]) -> str:
        return f"select({', '.join(below)})"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Cast(Expr):
    """The operand in another dtype."""

    operand: Expr
    dtype: DType
    weak: ClassVar[bool] = False  # type: ignore[misc]

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def _of(self, *operands: Expr) -> Expr:
        return Cast(operands[0], self.dtype)

    def _text(self, below: Sequence[str]) -> str:
        return f"{self.dtype}({below[0]})"


# --- walking and changing expressions ---------------------------------------------------------


def same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two sequences hold the same expressions."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _is_scalar(value: object) -> bool:
    return isinstance(value, (Expr, bool, int, float, complex, np.generic))


def is_number(e: Expr, value: complex) -> bool:
    """Whether ``e`` is the constant ``value``."""
    return isinstance(e, Const) and bool(e.value == value)


def postorder(roots: Iterable[Expr]) -> list[Expr]:
    """Every node under the roots once, operands before users.

    >>> x = Cast(Const(2), dtypes.float32)
    >>> postorder([x * x])
    [2, float32(2), float32(2) * float32(2)]
    """
    return producers_first(roots, _operands)


_operands: Callable[[Expr], Sequence[Expr]] = attrgetter("operands")


def producers_first(roots: Iterable[Item], below: Callable[[Item], Sequence[Item]]) -> list[Item]:
    """All that is reached from the roots by ``below``, once, each after all it depends on; no recursion."""
    seen: dict[Item, None] = {}
    opened: list[Item] = []  # each below the one before
    left = [iter(roots)]  # of the roots, then of what is below each opened one
    while left:
        for node in left[-1]:
            if node in seen:
                continue
            if under := below(node):
                opened.append(node)
                left.append(iter(under))
                break
            seen[node] = None
        else:
            left.pop()
            if opened:
                seen[opened.pop()] = None
    return list(seen)


def subexpressions(e: Expr) -> Iterator[Expr]:
    """The expression and everything in it, each node once, outer ones first."""
    stack, seen = [e], {e}
    while stack:
        item = stack.pop()
        yield item
        for o in item.operands:
            if o not in seen:
                seen.add(o)
                stack.append(o)


def changed(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The expression with ``f`` of each node, once, innermost first."""
    made: dict[Expr, Expr] = {}
    for node in postorder([e]):
        made[node] = f(node.rebuilt([made[o] for o in node.operands]))
    return made[e]
