"""Scalar expressions of the statement IR: the nodes, how they are made, and how they are walked.

Their grammar is in `nodes`, which exports what is here; import from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from iverson.core import dtypes, locks
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, IndexingError
from iverson.core.scalars import SCALARS, converted, result_dtype

DType = np.dtype[Any]
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")

_interned: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_lock = locks.reentrant_lock()
_serial = count()


class _Interning(type):
    """Makes a node once per set of fields; nodes within a key stand for themselves by identity."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        names = getattr(cls, "__dataclass_fields__", None)
        if names is None:
            return made
        key = (cls, *(_key_of(getattr(made, name)) for name in names))
        with _lock:
            return _interned.setdefault(key, made)


def _key_of(value: object) -> object:
    if isinstance(value, (Expr, Tensor)):
        return id(value)
    if isinstance(value, tuple):
        return tuple(_key_of(v) for v in value)
    if isinstance(value, (float, complex)):  # 0.0 == -0.0 and nan != nan
        return type(value), repr(value)
    return type(value), value


class Expr(metaclass=_Interning):
    """A scalar expression: a function of the point. Python's operators build bigger ones.

    ``a == b`` is an expression too; as a Python truth value it says whether the operands are the
    same expression. ``weak`` expressions (numbers, indices) take the dtype of what they meet.
    """

    __slots__ = ("__weakref__", "form")
    dtype: DType
    form: object  # what `affine` found out about this expression, kept for the next time
    weak: bool

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The expressions this one is made of."""
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def __repr__(self) -> str:
        return text(self)

    def rebuilt(self, operands: Sequence[Expr]) -> Expr:
        """This expression with other operands; itself where they are the same."""
        del operands
        return self

    def __add__(self, other: Any) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return apply("subtract", other, self)

    def __mul__(self, other: Any) -> Expr:
        return apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Expr:
        return apply("remainder", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return apply("remainder", other, self)

    def __pow__(self, other: Any) -> Expr:
        return apply("pow", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return apply("pow", other, self)

    def __neg__(self) -> Expr:
        return apply("negative", self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return apply("abs", self)

    def __lt__(self, other: Any) -> Expr:
        return apply("less", self, other)

    def __le__(self, other: Any) -> Expr:
        return apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Expr:
        return apply("greater", self, other)

    def __ge__(self, other: Any) -> Expr:
        return apply("greater_equal", self, other)

    def __eq__(self, other: object) -> Any:
        return apply("equal", self, other) if _is_scalar(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return apply("not_equal", self, other) if _is_scalar(other) else NotImplemented

    __hash__ = object.__hash__

    def __and__(self, other: Any) -> Expr:
        return apply("logical_and" if self.dtype.kind == "b" else "bitwise_and", self, other)

    def __rand__(self, other: Any) -> Expr:
        return self.__and__(other)

    def __or__(self, other: Any) -> Expr:
        return apply("logical_or" if self.dtype.kind == "b" else "bitwise_or", self, other)

    def __ror__(self, other: Any) -> Expr:
        return self.__or__(other)

    def __xor__(self, other: Any) -> Expr:
        return apply("logical_xor" if self.dtype.kind == "b" else "bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Expr:
        return self.__xor__(other)

    def __invert__(self) -> Expr:
        return apply("logical_not" if self.dtype.kind == "b" else "bitwise_invert", self)

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            "bool",
            got="a tensor expression, whose value is known only at a point",
            expected="a Python bool",
            remedy="choose with te.select(condition, a, b); combine conditions with &, | and ~",
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
        return apply(name, *inputs)

    def astype(self, dtype: Any) -> Expr:
        """This expression in another dtype."""
        return cast(self, dtypes.as_dtype(dtype, "te.astype"))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Const(Expr):
    """A number: a Python int, float, complex or bool."""

    value: Any
    dtype: DType
    weak: bool = False

    def __bool__(self) -> bool:
        return bool(self.value)


class Var(Expr):
    """An index with its range, or (kind "size") an extent that is not known yet. Each is its own.

    ``hi`` is exclusive and None for a size. Kind "reduce" marks a reduction axis.
    """

    __slots__ = ("hi", "kind", "lo", "name", "serial")
    dtype = dtypes.int64
    weak = True

    def __init__(self, name: str, lo: Extent, hi: Extent | None, kind: str = "axis") -> None:
        self.name, self.lo, self.hi, self.kind = name, lo, hi, kind
        self.serial = next(_serial)  # an order that does not depend on addresses


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Read(Expr):
    """``tensor[indices]``: one int64 expression per axis."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    weak: ClassVar[bool] = False  # type: ignore[misc]

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.tensor.dtype

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.indices

    def rebuilt(self, operands: Sequence[Expr]) -> Expr:
        return self if same(operands, self.indices) else Read(self.tensor, tuple(operands))


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

    def rebuilt(self, operands: Sequence[Expr]) -> Expr:
        return self if same(operands, self.args) else apply(self.name, *operands)

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

    def rebuilt(self, operands: Sequence[Expr]) -> Expr:
        return self if same(operands, self.operands) else select(*operands)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Cast(Expr):
    """The operand in another dtype."""

    operand: Expr
    dtype: DType
    weak: ClassVar[bool] = False  # type: ignore[misc]

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def rebuilt(self, operands: Sequence[Expr]) -> Expr:
        return self if operands[0] is self.operand else cast(operands[0], self.dtype)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Reduce(Expr):
    """A reduction inside a definition; `language.compute` makes a stage of it."""

    combine: str
    axes: tuple[Var, ...]
    body: Expr
    weak: ClassVar[bool] = False  # type: ignore[misc]

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return dtypes.int64 if self.combine.startswith("arg") else self.body.dtype

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.body,)

    def rebuilt(self, operands: Sequence[Expr]) -> Expr:
        return self if operands[0] is self.body else Reduce(self.combine, self.axes, operands[0])


Extent = int | Expr


class Tensor:
    """A named array of expressions: ``t[i, j]`` reads it. Equal only to itself."""

    __slots__ = ("__weakref__", "dtype", "name", "shape")

    def __init__(self, shape: tuple[Extent, ...], dtype: DType, name: str) -> None:
        self.shape, self.dtype, self.name = shape, dtype, name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Expr:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise IndexingError(
                "te: read",
                self.name,
                got=f"{len(given)} indices",
                expected=f"{len(self.shape)}, one per axis of shape {self.shape}",
            )
        return Read(self, tuple(as_index(i, self.name) for i in given))

    def __iter__(self) -> Iterator[Expr]:
        raise ArgumentTypeError(
            "te: iteration", self.name, got="a tensor expression", remedy="index it: t[i, j]"
        )

    def __repr__(self) -> str:
        extents = ", ".join(map(str, self.shape))
        return f"{type(self).__name__}({self.name}: {self.dtype}[{extents}])"


class Placeholder(Tensor):
    """An input."""

    __slots__ = ()


# --- making expressions -----------------------------------------------------------------------


def _is_scalar(value: object) -> bool:
    return isinstance(value, (Expr, bool, int, float, complex, np.generic))


def same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two sequences hold the same expressions."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def as_expr(value: Any, operation: str = "te") -> Expr:
    """A Python or NumPy number, an expression or a rank-0 tensor as an expression."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Tensor) and not value.shape:
        return Read(value, ())
    if isinstance(value, np.generic):
        return Const(value.item(), dtypes.as_dtype(value.dtype, operation))
    if isinstance(value, (bool, int, float, complex)):
        return Const(value, np.dtype(np.int64 if type(value) is int else type(value)), weak=True)
    raise ArgumentTypeError(
        operation,
        got=f"{value!r} ({type(value).__name__})",
        expected="a number, an index or an expression",
        remedy="index a tensor to read it: A[i, j]",
    )


def as_index(value: Any, operation: str) -> Expr:
    """An expression that can stand as an index: an integer, cast to int64."""
    index = as_expr(value, operation)
    if index.dtype.kind not in "iu":
        raise ArgumentTypeError(
            "te: read", operation, got=f"an index of dtype {index.dtype}", expected="integers"
        )
    return cast(index, dtypes.int64)


def promote(operands: Sequence[Expr]) -> DType:
    """The dtype that operands meet in: strong ones as in NumPy, weak ones within their kind."""
    strong = [o.dtype for o in operands if not o.weak]
    weak = [o.dtype for o in operands if o.weak]
    if not strong:
        return np.result_type(*weak)
    found = np.result_type(*strong)
    kinds = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
    return np.result_type(found, *(kinds[d.kind] for d in weak))


def const(value: Any, dtype: DType) -> Expr:
    """A number of a given dtype. Raises ArgumentError for one that an integer dtype cannot hold."""
    kinds: Mapping[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
    if dtype.kind in "iu" and not _fits(value, dtype):
        limits = np.iinfo(dtype)
        raise ArgumentError(
            "te",
            got=f"the number {value} where values are of dtype {dtype}",
            expected=f"an integer from {limits.min} to {limits.max}",
            remedy="convert the other operand with astype",
        )
    try:
        return Const(kinds[dtype.kind](value), dtype)
    except OverflowError:
        raise ArgumentError("te", got="an integer beyond all floats", expected="one in range") from None


def _fits(value: Any, dtype: DType) -> bool:
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)


def index(value: int) -> Expr:
    """An integer as an index expression."""
    return Const(int(value), dtypes.int64, weak=True)


def cast(operand: Expr, dtype: DType) -> Expr:
    """``operand`` in ``dtype``; constants are converted now, a choice side by side."""
    if operand.dtype == dtype and not _is_beyond(operand, dtype):
        return operand
    if isinstance(operand, Const) and not (operand.dtype.kind == "c" and dtype.kind != "c"):
        return const(_value_as(operand, dtype), dtype)
    if isinstance(operand, Select):
        return select(operand.condition, cast(operand.then, dtype), cast(operand.other, dtype))
    return Cast(operand, dtype)


def _value_as(number: Const, dtype: DType) -> Any:
    """A number's value in another dtype; a weak one is exact until it meets one of its own kind or above."""
    kinds = "biufc"
    if dtype.kind == "b":
        return bool(number.value)
    if number.weak and kinds.index(dtype.kind) >= kinds.index(number.dtype.kind):
        return number.value
    with np.errstate(all="ignore"):
        return converted(np.asarray(number.value, number.dtype), dtype).item()


@cache
def _of_ufunc() -> dict[np.ufunc, str]:
    """The names of the functions that NumPy has as ufuncs."""
    return {s.body: name for name, s in SCALARS.items() if isinstance(s.body, np.ufunc)}


_KINDS = {"b": "bool", "i": "integers", "u": "unsigned integers", "f": "floats", "c": "complex numbers"}


def apply(name: str, *args: Any) -> Expr:
    """A function of the table of scalars on expressions and numbers, promoted to one dtype.

    Raises DTypeError where the function is not defined for the promoted dtype.
    """
    operands = [as_expr(a, f"te.{name}") for a in args]
    if name == "where":
        return select(*operands)
    scalar = SCALARS[name]
    if name in ("logical_and", "logical_or", "logical_not", "logical_xor"):
        dtype = dtypes.bool
    else:
        dtype = promote(operands)
    if dtype.kind not in scalar.kinds:
        *most, last = (words for kind, words in _KINDS.items() if kind in scalar.kinds)
        expected = f"{', '.join(most)} or {last}" if most else last
        raise DTypeError(
            f"te.{name}",
            got=f"{', '.join(map(text, operands))} of dtype {dtype}",
            expected=expected,
            remedy="convert with .astype(...)",
        )
    weak = all(o.weak for o in operands)
    if any(_is_beyond(o, dtype) for o in operands):
        if name in COMPARISONS:  # all integers of the dtype compare alike with a number beyond them
            values = [o.value if isinstance(o, Const) else 0 for o in operands]
            return const(bool(scalar.body(*values)), dtypes.bool)
        if name == "clip":
            operands = _tightened(operands, dtype)
    if scalar.result in ("float", "realfloat"):
        dtype = dtypes.to_inexact(dtype)
    converted = tuple(_converted(o, dtype, weak) for o in operands)
    return simplified(name, converted, result_dtype(scalar, dtype), weak)


def _is_beyond(operand: Expr, dtype: DType) -> bool:
    """Whether an operand is a number that integers of this dtype do not reach."""
    return dtype.kind in "iu" and isinstance(operand, Const) and not _fits(operand.value, dtype)


def _tightened(operands: Sequence[Expr], dtype: DType) -> list[Expr]:
    """clip's operands, where bounds beyond the dtype bound nothing: ``clip(u8, -1, 9) -> clip(u8, 0, 9)``."""
    x, low, high = operands
    limits = np.iinfo(dtype)
    if isinstance(low, Const) and low.value < limits.min:
        low = as_expr(int(limits.min))
    if isinstance(high, Const) and high.value > limits.max:
        high = as_expr(int(limits.max))
    return [x, low, high]


def _converted(operand: Expr, dtype: DType, weak: bool) -> Expr:
    if weak and isinstance(operand, Const) and operand.dtype != dtype:
        return as_expr(const(operand.value, dtype).value)  # type: ignore[attr-defined]
    return cast(operand, dtype)


def simplified(name: str, args: tuple[Expr, ...], dtype: DType, weak: bool) -> Expr:
    """``Apply``, with constants folded, units dropped and brackets drawn out of products.

    before -> after: ``0 + x -> x``; ``1 * x -> x``; ``0 * x -> 0``; ``[c] * x -> select(c, x, 0)``;
    ``-(-x) -> x``; ``x // 1 -> x``; ``true & c -> c``; ``1 - select(c, 2, 3) -> select(c, -1, -2)``.
    """
    values = [a.value if isinstance(a, Const) else None for a in args]
    if all(isinstance(a, Const) for a in args) and name not in ("floor_divide", "remainder"):
        folded = _fold(name, args, dtype, weak)
        if folded is not None:
            return folded
    if all(_is_constant_choice(a) for a in args) and sum(isinstance(a, Select) for a in args) == 1:
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
        elif y is not None and y == 1 and name == ("divide" if dtype.kind in "fc" else "floor_divide"):
            return a
        elif name in ("floor_divide", "remainder"):
            if dtype.kind in "iu" and y == 0:
                raise ArgumentError(f"te.{name}", got="division by 0", expected="a positive constant")
            if x is not None and y is not None and dtype.kind in "iu":
                found = x // y if name == "floor_divide" else x % y
                return Const(found, dtype, weak)
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


def _is_constant_choice(e: Expr) -> bool:
    sides = (e.then, e.other) if isinstance(e, Select) else (e,)
    return all(isinstance(s, Const) for s in sides)


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
    """Whether ``e`` is something where a condition holds and 0 elsewhere."""
    return isinstance(e, Select) and is_number(e.other, 0)


def is_number(e: Expr, value: complex) -> bool:
    """Whether ``e`` is the constant ``value``."""
    return isinstance(e, Const) and bool(e.value == value)


def _fold(name: str, args: tuple[Expr, ...], dtype: DType, weak: bool) -> Expr | None:
    operands = [np.asarray(a.value, a.dtype) for a in args if isinstance(a, Const)]
    with np.errstate(all="ignore"):
        try:
            value = np.asarray(SCALARS[name].body(*operands)).astype(dtype)[()]
        except (ValueError, TypeError, OverflowError):
            return None
    return Const(value.item(), dtype, weak)


def select(condition: Any, then: Any, other: Any) -> Expr:
    """``then`` where ``condition`` holds, else ``other``; the side not chosen is not evaluated.

    before -> after: ``select(true, a, b) -> a``; ``select(c, a, a) -> a``;
    ``select(c, select(d, a, 0), 0) -> select(c & d, a, 0)``.
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
        return Select(c & a.condition, a.then, b)  # type: ignore[attr-defined]
    return Select(c, a, b)


def extent(v: Var) -> Extent:
    """How many values an axis takes."""
    if v.hi is None:
        raise ArgumentError("te", v.name, got="a size", expected="an axis with a range")
    if isinstance(v.lo, int) and isinstance(v.hi, int):
        return v.hi - v.lo
    return apply("subtract", v.hi, v.lo)


def limits(v: Var) -> tuple[int, int]:
    """The range ``(lo, hi)`` of an axis of a bound program."""
    assert isinstance(v.lo, int)
    assert isinstance(v.hi, int)
    return v.lo, v.hi


# --- walking expressions ----------------------------------------------------------------------


def postorder(roots: Iterable[Expr]) -> list[Expr]:
    """Every node under the roots once, operands before users; no recursion.

    >>> i = Var("i", 0, 4)
    >>> [type(n).__name__ for n in postorder([i * 2 + 1])]
    ['Var', 'Const', 'Apply', 'Const', 'Apply']
    """
    seen: dict[Expr, None] = {}
    stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if node in seen:
            continue
        if ready:
            seen[node] = None
        else:
            stack.append((node, True))
            stack.extend((o, False) for o in reversed(node.operands) if o not in seen)
    return list(seen)


def substitute(
    roots: Sequence[Expr],
    new: Mapping[Expr, Expr],
    tensors: Mapping[Tensor, Tensor] | None = None,
) -> tuple[Expr, ...]:
    """The roots with every key of ``new`` replaced by its value, and tensors read likewise.

    >>> i, j = Var("i", 0, 4), Var("j", 0, 4)
    >>> substitute([i + j], {i: j * 2})
    (j * 2 + j,)
    """
    if not new and not tensors:
        return tuple(roots)
    made: dict[Expr, Expr] = {}
    for node in postorder(roots):
        found = new.get(node)
        if found is None:
            found = node.rebuilt([made[o] for o in node.operands])
            if tensors and isinstance(found, Read) and found.tensor in tensors:
                found = Read(tensors[found.tensor], found.indices)
        made[node] = found
    return tuple(made[r] for r in roots)


def reads_of(roots: Iterable[Expr]) -> list[Read]:
    """The reads under the roots, each once, operands first."""
    return [n for n in postorder(roots) if isinstance(n, Read)]


def variables(roots: Iterable[Expr]) -> list[Var]:
    """The variables under the roots, each once."""
    return [n for n in postorder(roots) if isinstance(n, Var)]


_INFIX = {
    "add": ("+", 6), "subtract": ("-", 6), "multiply": ("*", 7), "divide": ("/", 7),
    "floor_divide": ("//", 7), "remainder": ("%", 7), "pow": ("**", 9),
    "less": ("<", 4), "less_equal": ("<=", 4), "greater": (">", 4), "greater_equal": (">=", 4),
    "equal": ("==", 4), "not_equal": ("!=", 4), "logical_and": ("and", 3), "logical_or": ("or", 2),
}  # fmt: skip
_LONG = 400


def text(root: Expr, names: Mapping[Expr, str] | None = None, limit: int = _LONG) -> str:
    """An expression as one reads it, at most about ``limit`` characters per operand.

    >>> i = Var("i", 0, 4)
    >>> text((i + 1) * 2 // 3)
    '(i + 1) * 2 // 3'
    """
    made: dict[Expr, tuple[str, int]] = {}
    for node in postorder([root]):
        below = [made[o] for o in node.operands]
        found = _text_of(node, below, names or {})
        made[node] = (found[0] if len(found[0]) <= limit else found[0][:limit] + "…", found[1])
    return made[root][0]


def _text_of(node: Expr, below: list[tuple[str, int]], names: Mapping[Expr, str]) -> tuple[str, int]:
    plain = [b[0] for b in below]
    if node in names:
        return names[node], 10
    if isinstance(node, Var):
        return node.name, 10
    if isinstance(node, Const):
        return repr(node.value), 10 if node.dtype.kind in "bc" or node.value >= 0 else 8
    if isinstance(node, Read):
        return f"{node.tensor.name}[{', '.join(plain)}]", 10
    if isinstance(node, Select):
        return f"select({', '.join(plain)})", 10
    if isinstance(node, Cast):
        return f"{node.dtype}({plain[0]})", 10
    if isinstance(node, Reduce):
        return f"{node.combine}({plain[0]} for {', '.join(v.name for v in node.axes)})", 10
    name = node.name if isinstance(node, Apply) else type(node).__name__
    if name in _INFIX:
        symbol, level = _INFIX[name]
        left = plain[0] if below[0][1] >= level else f"({plain[0]})"
        right = plain[1] if below[1][1] > level else f"({plain[1]})"
        return f"{left} {symbol} {right}", level
    if name == "negative":
        return f"-{plain[0] if below[0][1] > 7 else f'({plain[0]})'}", 8
    return f"{name}({', '.join(plain)})", 10
