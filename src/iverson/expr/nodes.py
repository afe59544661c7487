"""Nodes of scalar expressions, with the grammar, and walks over them (`iverson.expr.print`: their text).

Tensor expressions (`iverson.te`) and loop nests (`iverson.codegen`) are both made of these; each adds leaves
of its own (indices and reads of tensors; loop variables and loads of buffers). Expressions are
interned: equal ones are the same object, so ``is`` compares them, dictionaries key on them, and shared
subexpressions stay shared (they form a DAG).

::

    e  ::= Const(value, dtype, weak)        a number
         | Apply(name, args, dtype, weak)   a function of core.scalars.SCALARS, on args of one dtype
         | Select(condition, then, other)   evaluates only the side it chooses
         | Cast(operand, dtype)             as NumPy's astype
         | a leaf

The constructors of nodes, and `Expr.rebuilt`, take operands as they are. `apply`, `select` and `cast` of
`build` promote and simplify, and so do Python's operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, update_wrapper
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from iverson.core import dtypes
from iverson.core.errors import ArgumentTypeError
from iverson.core.python import locks
from iverson.core.python.foreign_names import in_notation
from iverson.core.scalars import SCALARS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

DType = np.dtype[Any]
#: A number of Python or NumPy; and what stands for an expression where one is expected.
Number: TypeAlias = complex | np.generic
ExprLike: TypeAlias = "Expr | Source | Number"
Item = TypeVar("Item")

#: What is found out about a node once. None of them holds the node itself, which would keep it alive.
_CACHES = ("form", "below", "facts")
_interned: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_lock = locks.reentrant_lock()


@cache
def _of_ufunc() -> dict[np.ufunc, str]:
    """Map from each NumPy ufunc that the table of scalars uses to the name of its function there."""
    return {s.body: name for name, s in SCALARS.items() if isinstance(s.body, np.ufunc)}


@cache
def _defaults(cls: type) -> tuple[object, ...] | None:
    """Parts of the interning key for the defaults of all fields of a dataclass.

    None for classes that are not dataclasses: their nodes are not interned.
    """
    return tuple(_KEYS[type(f.default)](f.default) for f in fields(cls)) if is_dataclass(cls) else None


class _Keys(dict[type, Callable[[Any], object]]):
    """By type: the function that maps a field of a node to its part of the interning key."""

    def __missing__(self, kind: type) -> Callable[[Any], object]:
        function = self[kind] = self._of(kind)
        return function

    def _of(self, kind: type) -> Callable[[Any], object]:
        if issubclass(kind, (Expr, Source)):
            return id
        if issubclass(kind, tuple):
            return lambda values: tuple([self[type(v)](v) for v in values])
        if issubclass(kind, np.generic):
            return self._of_scalar
        if issubclass(kind, (float, complex)):  # 0.0 == -0.0 and nan != nan
            return lambda value: (kind, repr(value))
        return (lambda value: (kind, value)) if issubclass(kind, int) else (lambda value: value)

    def _of_scalar(self, value: np.generic) -> object:
        item = value.item()
        return self[type(item)](item)


_KEYS = _Keys()


class Source:
    """Something that expressions read, equal only to itself."""

    __slots__ = ("__weakref__",)
    #: Remedy where a tensor is expected.
    usage: ClassVar[str] = "index it, and use functions of te: te.exp(x[i, j]), te.sum(x[i, k], k)"

    def as_scalar(self) -> Expr | None:
        """Expression to use where a scalar is expected; None if there is none."""
        return None


def _operator(name: str, swap: bool = False, on_bools: str = "") -> Callable[[Expr, Any], Expr]:
    """Method of a Python operator: it applies the function ``name`` to the expression and the other operand.

    swap : the expression is the second argument (for ``__radd__`` and the like).
    on_bools : function to apply in place of ``name`` if the expression is boolean.
    """

    def method(self: Expr, other: ExprLike) -> Expr:
        function = on_bools if on_bools and self.dtype.kind == "b" else name
        return Expr.make(function, other, self) if swap else Expr.make(function, self, other)

    return method


def _refused(operation: str, instead: str) -> Callable[..., Any]:
    """Method that raises ArgumentTypeError: Python calls it to get a number, and an expression is not one.

    operation : the Python operation that the message names.
    instead : what the message tells the user to write.
    """

    def method(self: Expr, *_: object, **__: object) -> Any:
        del self
        raise ArgumentTypeError(
            operation,
            got="a tensor expression, whose value is known only at a point",
            expected="a Python number",
            remedy=f"use {instead}",
        )

    return method


#: What to do with an array, a list or a range where an expression is its index.
INDEXED = (
    "A[i] of an array that is an argument of the op, te.select for a few numbers, and te.reduce_axis(n) in "
    "place of range(n)"
)


class Expr:
    """A scalar expression. Python's operators build bigger ones.

    ``a == b`` is an expression too; as a Python truth value it says whether the operands are the same
    expression, and is an error where one is a number, unless an extent is compared with it. ``weak``
    expressions (numbers, indices) take the dtype of what they meet.

    >>> from iverson import te
    >>> x = te.placeholder((3,), name="x")
    >>> x[0] * 2.0 + te.sin(x[1])
    x[0] * 2.0 + sin(x[1])
    """

    __slots__ = ("__weakref__", *_CACHES)

    def __new__(cls, *args: Any) -> Self:
        """The node of this class and these fields: equal calls return the same one.

        Nodes among the fields are compared by identity. Python sets the fields of the node that is returned,
        each time to equal values. (A metaclass could leave that out, but makes every `isinstance` slow.)
        """
        kind: type = cls
        defaults = _defaults(kind)
        key = None if defaults is None else (kind, *[_KEYS[type(a)](a) for a in args], *defaults[len(args) :])
        node = None if key is None else _interned.get(key)
        if node is not None:
            return node  # type: ignore[return-value]
        node = object.__new__(cls)
        for name in _CACHES:
            object.__setattr__(node, name, None)
        if key is None:
            return node
        with _lock:
            return _interned.setdefault(key, node)  # type: ignore[return-value]

    #: Remedy where it is an index of an array, or a tensor is expected.
    usage: ClassVar[str] = (
        "use functions of te on entries, te.exp(x[i]); make an array that is indexed a parameter of the op"
    )
    #: `iverson.expr.print.text`, and `apply` and `cast` of `iverson.expr.build`: these modules put them here.
    show: ClassVar[Callable[[Expr], str]]
    make: ClassVar[Callable[..., Expr]]
    convert: ClassVar[Callable[[Expr, DType], Expr]]
    dtype: DType
    form: object  # what `affine` found out about this expression, kept for the next time
    below: tuple[Expr, ...] | None  # what is under this node (`postorder`), where it is little
    facts: dict[object, Any] | None  # what `once` keeps of this expression
    weak: bool
    #: Whether it is what users write that differs from point to point: an index, or an entry.
    at_points: bool | property = False
    #: Whether it is an index that has no values, so that nothing that is made of it is ever evaluated.
    is_void: bool | property = False
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
        """Text of this expression; ``below`` are the texts of its operands."""
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
    __lshift__, __rlshift__ = _operator("bitwise_left_shift"), _operator("bitwise_left_shift", True)
    __rshift__, __rrshift__ = _operator("bitwise_right_shift"), _operator("bitwise_right_shift", True)
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

    __float__ = _refused("float", "functions of expressions: te.exp(x), not math.exp(x)")
    __complex__ = _refused("complex", "x.astype('complex128')")
    __int__ = _refused("int", "x.astype('int64'), which may be an index")
    __trunc__ = _refused("math.trunc", "te.trunc(x)")
    __floor__ = _refused("math.floor", "te.floor(x)")
    __ceil__ = _refused("math.ceil", "te.ceil(x)")
    __round__ = _refused("round", "te.round(x)")
    __index__ = _refused("index", INDEXED)
    __array__ = _refused("numpy.asarray", f"functions of te, such as te.exp(x); as an index, {INDEXED}")
    __len__ = _refused("len", "the extents of a tensor: A.shape[0]")
    __iter__ = _refused(
        "iter",
        "te.sum(A[i, k], axis=k) with k = te.reduce_axis(n), or a Python sum over "
        "numbers: sum(A[i, k] for k in range(3))",
    )
    __getitem__ = _refused("[]", "all indices in one bracket: A[i, j], not A[i][j]")
    __contains__ = _refused("in", "(x == 1) | (x == 2)")
    __divmod__ = __rdivmod__ = _refused("divmod", "x // n and x % n")

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else str(_refused("format", "str(x), which is its text")(self))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = in_notation(name, SCALARS) or "; its functions are those of te: te.exp(x)"
            raise AttributeError(f"a tensor expression has no attribute '{name}'{hint}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: ExprLike, **options: Any) -> Expr:
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

    def astype(self, dtype: DTypeLike) -> Expr:
        """This expression in another dtype."""
        return Expr.convert(self, dtypes.as_dtype(dtype, "te.astype"))


@dataclass(frozen=True, eq=False, repr=False, slots=True, init=False)
class Const(Expr):
    """A number: a Python int, float, complex or bool."""

    value: Any
    dtype: DType = dtypes.int64
    weak: bool = False

    def __init__(self, value: Any, dtype: DType = dtypes.int64, weak: bool = False) -> None:
        if isinstance(value, np.generic):  # equal numbers are the same expression
            value = value.item()
        for name, field in (("value", value), ("dtype", dtype), ("weak", weak)):
            object.__setattr__(self, name, field)

    def __bool__(self) -> bool:
        return bool(self.value)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Apply(Expr):
    """A function of the table of scalars on operands of one dtype; ``dtype`` is the result's."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    weak: bool = False

    def _of(self, *operands: Expr) -> Expr:
        return Apply(self.name, operands, self.dtype, self.weak)

    def __bool__(self) -> bool:
        if self.name not in ("equal", "not_equal"):
            return Expr.__bool__(self)
        a, b = self.args
        if isinstance(a, Const) != isinstance(b, Const) and any(x.at_points for x in postorder(self.args)):
            return Expr.__bool__(self)  # i == 0, or i in (0, 1)
        return (a is b) == (self.name == "equal")


Apply.operands = Apply.__dict__["args"]  # type: ignore[method-assign]  # the slot itself


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


def once(function: Callable[[Expr], Item]) -> Callable[[Expr], Item]:
    """Decorator of a function of one expression: the expression keeps the result for as long as it lives.

    The result depends on the expression alone and does not contain it.
    """

    def result_of(e: Expr) -> Item:
        facts = e.facts
        if facts is None:
            facts = {}
            object.__setattr__(e, "facts", facts)  # a cache: the node stays what it is
        elif function in facts:
            return facts[function]  # type: ignore[no-any-return]
        result = facts[function] = function(e)
        return result

    return update_wrapper(result_of, function)


def same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """True if two sequences hold the same expressions."""
    return len(a) == len(b) and all(map(is_, a, b))


def _is_scalar(value: object) -> bool:
    return isinstance(value, (Expr, bool, int, float, complex, np.generic))


def is_number(e: Expr, value: complex) -> bool:
    """True if ``e`` is the constant ``value``."""
    return isinstance(e, Const) and bool(e.value == value)


def postorder(roots: Iterable[Expr]) -> list[Expr]:
    """Every node under the roots once, operands before users.

    >>> x = Cast(Const(2), dtypes.float32)
    >>> postorder([x * x])
    [2, float32(2), float32(2) * float32(2)]
    """
    order: dict[Expr, None] = {}
    for e in roots:
        if e not in order:
            order.update(dict.fromkeys(_below(e)))
            order[e] = None
    return list(order)


def _below(e: Expr) -> Sequence[Expr]:
    """Every node under an expression once, operands before users, without itself."""
    if e.below is not None:
        return e.below
    order = producers_first([e], _operands)
    order.pop()
    if len(order) <= _FEW:
        object.__setattr__(e, "below", tuple(order))
    return order


def atoms(e: Expr) -> tuple[Expr, ...]:
    """The leaves of an expression and its reads of memory, each once: what is no function of other nodes.

    >>> x = Cast(Const(2), dtypes.float32)
    >>> atoms(x * x)
    (2,)
    """
    leaves = _leaves_below(e)
    return leaves if isinstance(e, _FUNCTIONS) else (*leaves, e)


@once
def _leaves_below(e: Expr) -> tuple[Expr, ...]:
    return tuple([x for x in _below(e) if not isinstance(x, _FUNCTIONS)])


_FUNCTIONS = (Apply, Select, Cast)
#: Nodes under an expression that are noted on it at most.
_FEW = 256
_operands: Callable[[Expr], Sequence[Expr]] = attrgetter("operands")


def producers_first(roots: Iterable[Item], below: Callable[[Item], Sequence[Item]]) -> list[Item]:
    """Items reachable from the roots by ``below``, each once and after all items that it depends on.

    The walk is not recursive, so that the depth is not limited.

    below : function that gives the items on which an item depends directly.
    """
    order: dict[Item, None] = {}
    path: list[Item] = []  # each below the one before
    iterators = [iter(roots)]  # over the roots, then over what is below each node of the path
    while iterators:
        for node in iterators[-1]:
            if node in order:
                continue
            if under := below(node):
                path.append(node)
                iterators.append(iter(under))
                break
            order[node] = None
        else:
            iterators.pop()
            if path:
                order[path.pop()] = None
    return list(order)


def subexpressions(e: Expr) -> Iterator[Expr]:
    """Iterate over the expression and all nodes in it, each once.

    A node comes after one of its users, not always after all of them.
    """
    stack, visited = [e], {e}
    while stack:
        item = stack.pop()
        yield item
        for o in item.operands:
            if o not in visited:
                visited.add(o)
                stack.append(o)


def changed(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The expression rebuilt with ``f`` applied to each node once, innermost first."""
    results: dict[Expr, Expr] = {}
    for node in postorder([e]):
        results[node] = f(node.rebuilt([results[o] for o in node.operands]))
    return results[e]
