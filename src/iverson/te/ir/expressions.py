"""Expression nodes of the statement IR: variables, reads and reductions, and the tensors that are read.

Their grammar is in `nodes`, which exports them too; the other nodes are those of `iverson.expr.nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex, TypeAlias, TypeVar

from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ArgumentTypeError, IndexingError
from iverson.expr import symbolic_numbers
from iverson.expr.build import apply, as_expr, cast, simplified_with
from iverson.expr.nodes import Const, DType, Expr, ExprLike, Source, postorder
from iverson.expr.symbolic_numbers import integer

Item = TypeVar("Item")
#: What a size is taken to be where nothing else is known.
TYPICAL = 64
_serial = count()


class Var(Expr):
    """An index with its range, or (kind "size") an extent that is not known yet. Compared by identity.

    ``hi`` is exclusive and None for a size. Kind "reduce" marks a reduction axis. ``typical`` is a value that
    a size may have: work is estimated with it. ``lever`` is what a user asked for (`schedule_hints`).
    """

    __slots__ = ("hi", "kind", "lever", "lo", "name", "serial", "typical")
    dtype = dtypes.int64
    weak = True

    def __init__(self, name: str, lo: Extent, hi: Extent | None, kind: str = "axis") -> None:
        self.name, self.lo, self.hi, self.kind = name, lo, hi, kind
        self.typical = TYPICAL
        self.lever = ""
        self.serial = next(_serial)  # an order that does not depend on addresses

    @property
    def at_points(self) -> bool:  # type: ignore[override]
        return self.kind != "size"

    @property
    def is_void(self) -> bool:  # type: ignore[override]
        return isinstance(self.lo, int) and isinstance(self.hi, int) and self.lo >= self.hi

    def ranging(self, lo: Extent, hi: Extent | None, name: str = "") -> Var:
        """New axis with another range and, unless ``name`` is given, the name of this one."""
        axis = Var(name or self.name, lo, hi, self.kind)
        axis.lever = self.lever
        return axis


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Read(Expr):
    """``tensor[indices]``: one int64 expression per axis."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    weak: ClassVar[bool] = False  # type: ignore[misc]
    reads: ClassVar[bool] = True
    at_points: ClassVar[bool] = True  # type: ignore[misc]

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.tensor.dtype

    def _of(self, *operands: Expr) -> Expr:
        return Read(self.tensor, operands)

    def _text(self, below: Sequence[str]) -> str:
        return f"{self.tensor.name}[{', '.join(below)}]"


Read.operands = Read.__dict__["indices"]  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Reduce(Expr):
    """A reduction of the points of ``axes`` at which all conditions ``where`` hold.

    In a definition, `te.compute` makes a tensor of its own for it where all its entries are a box. Elsewhere
    it stays in the expression, and is computed for each point of the loops around it.
    """

    combine: str
    axes: tuple[Var, ...]
    body: Expr
    where: tuple[Expr, ...] = ()
    weak: ClassVar[bool] = False  # type: ignore[misc]
    at_points: ClassVar[bool] = True  # type: ignore[misc]

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return dtypes.int64 if self.combine.startswith("arg") else self.body.dtype

    @property
    def values(self) -> tuple[Expr, ...]:
        """The expressions at each point."""
        return (self.body,)

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (self.body, *self.where)

    def over(self, axes: tuple[Var, ...], operands: Sequence[Expr]) -> Reduce:
        """The same reduction over other axes, of other operands."""
        return Reduce(self.combine, axes, operands[0], tuple(operands[1:]))

    def _of(self, *operands: Expr) -> Expr:
        return self.over(self.axes, operands)

    def _text(self, below: Sequence[str]) -> str:
        where = f" where {' and '.join(below[1:])}" if self.where else ""
        return f"{self.combine}({below[0]} for {', '.join(v.name for v in self.axes)}{where})"


@dataclass(frozen=True, eq=False)
class Reducer:
    """An associative function of two elements, each of several numbers, and its identity.

    first, second : scalar placeholders for the numbers of both elements.
    results : the numbers of the combined element, in terms of these.
    identities : the numbers of an element that changes no other.
    """

    first: tuple[Placeholder, ...]
    second: tuple[Placeholder, ...]
    results: tuple[Expr, ...]
    identities: tuple[Expr, ...]
    name: str = "reducer"

    def combined(self, a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
        """Numbers of the element that is ``a`` and then ``b``."""
        numbers = zip((*self.first, *self.second), (*a, *b), strict=True)
        return substitute(self.results, {Read(t, ()): e for t, e in numbers})


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Fold(Expr):
    """One number of the elements at the points of ``axes``, combined by a reducer in the order of the axes.

    number : which of the numbers of the combined element.
    values : the numbers of the element at a point. where : as of `Reduce`.
    """

    reducer: Reducer
    number: int
    axes: tuple[Var, ...]
    values: tuple[Expr, ...]
    where: tuple[Expr, ...] = ()
    weak: ClassVar[bool] = False  # type: ignore[misc]
    at_points: ClassVar[bool] = True  # type: ignore[misc]

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.values[self.number].dtype

    @property
    def operands(self) -> tuple[Expr, ...]:
        return (*self.values, *self.where)

    def numbered(self, number: int) -> Fold:
        """Another number of the same combined element."""
        return Fold(self.reducer, number, self.axes, self.values, self.where)

    def over(self, axes: tuple[Var, ...], operands: Sequence[Expr]) -> Fold:
        """The same reduction over other axes, of other operands."""
        n = len(self.values)
        return Fold(self.reducer, self.number, axes, tuple(operands[:n]), tuple(operands[n:]))

    def _of(self, *operands: Expr) -> Expr:
        return self.over(self.axes, operands)

    def _text(self, below: Sequence[str]) -> str:
        n = len(self.values)
        where = f" where {' and '.join(below[n:])}" if self.where else ""
        axes = ", ".join(v.name for v in self.axes)
        return f"{self.reducer.name}({', '.join(below[:n])} for {axes}{where})[{self.number}]"


#: Expressions with axes of their own.
Scoped: TypeAlias = Reduce | Fold
Extent = int | Expr
#: What stands for an extent where one is expected.
ExtentLike: TypeAlias = SupportsIndex | Expr


class Tensor(Source):
    """A named array of expressions: ``t[i, j]`` reads it. Equal only to itself.

    >>> from iverson import te
    >>> x = te.placeholder((3,), name="x")
    >>> isinstance(x, te.Tensor), x[2]
    (True, x[2])
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, shape: tuple[Extent, ...], dtype: DType, name: str) -> None:
        self.shape, self.dtype, self.name = shape, dtype, name

    def as_scalar(self) -> Expr | None:
        return None if self.shape else Read(self, ())

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        index_tuple = indices if isinstance(indices, tuple) else (indices,)
        if len(index_tuple) != len(self.shape):
            raise IndexingError(
                "te: read",
                self.name,
                got=f"{len(index_tuple)} indices",
                expected=f"{len(self.shape)}, one per axis of shape {self.shape}",
            )
        return Read(self, tuple(as_index(i, self.name) for i in index_tuple))

    def __iter__(self) -> Iterator[Expr]:
        raise self._whole("iteration", "index it: t[i, j]")

    def __len__(self) -> int:
        raise self._whole("len", "use t.shape[0]")

    def __contains__(self, value: object) -> bool:
        raise self._whole("in", "reduce over its entries: te.max(t[k] == x, axis=k)")

    def __int__(self) -> int:
        raise self._whole("int", "index it, and convert the entry: t[i, j].astype('int64')")

    def __float__(self) -> float:
        raise self._whole("float", "index it, and use functions of te: te.exp(t[i, j])")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._whole("numpy.asarray", "index it, and use functions of te: te.exp(t[i, j])")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(
                f"a tensor of index notation has no attribute '{name}'; write what its entries are, "
                "te.compute(shape, lambda i, j: ... t[i, j] ...), and reductions, te.sum(t[i, k], axis=k)"
            )

    def __setitem__(self, _: object, __: object) -> None:
        raise self._whole(
            "assignment",
            "a tensor is what te.compute says of each entry: te.select chooses, te.scatter adds up",
        )

    def _operator(self, other: object) -> Any:
        """Raise an error: whole tensors have no arithmetic, except 0-dimensional ones, which are scalars."""
        if isinstance(other, Expr) or not self.shape:
            return NotImplemented
        raise self._whole("arithmetic", "index it: t[i, j] + 1")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
    __pow__ = __rpow__ = __mod__ = __floordiv__ = __matmul__ = __rmatmul__ = _operator

    def _whole(self, usage: str, remedy: str) -> ArgumentTypeError:
        """Error for a use of the whole tensor as an array; the caller raises it."""
        return ArgumentTypeError(f"te: {usage}", self.name, got="a tensor expression", remedy=remedy)

    def __repr__(self) -> str:
        extents = ", ".join(map(str, self.shape))
        return f"{type(self).__name__}({self.name}: {self.dtype}[{extents}])"


class Placeholder(Tensor):
    """An input.

    >>> from iverson import te
    >>> x = te.placeholder((3, 2), name="x")
    >>> x.shape, x[0, 1]
    ((3, 2), x[0, 1])
    """

    __slots__ = ()


def as_index(value: ExprLike, operation: str) -> Expr:
    """Expression of an integer ``value``, cast to int64; ArgumentTypeError if it is no integer.

    operation : the name of the tensor that is read, for the error.
    """
    index = as_expr(value, operation)
    if index.dtype.kind not in "iu":
        raise ArgumentTypeError(
            "te: read", operation, got=f"an index of dtype {index.dtype}", expected="integers"
        )
    return cast(index, dtypes.int64)


def extent(v: Var) -> Extent:
    """Number of values of an axis."""
    if v.hi is None:
        raise ArgumentError("te", v.name, got="a size", expected="an axis with a range")
    if isinstance(v.lo, int) and isinstance(v.hi, int):
        return v.hi - v.lo
    return apply("subtract", v.hi, v.lo)


def as_number(n: Extent) -> Extent:
    """Extent ``n``, as an int if it is a constant expression."""
    return integer(n.value) if isinstance(n, Const) else n


def typical(n: Extent) -> int:
    """Extent as a number for estimates: a symbolic one at the typical values of its sizes."""
    if isinstance(n, Expr):
        n = at_sizes(n, {v: v.typical for v in variables([n])})
    return symbolic_numbers.typical(n)


def at_sizes(n: Extent, sizes: Mapping[Var, int]) -> int:
    """Extent as a number, from the values of its sizes."""
    if isinstance(n, Expr):
        new: dict[Expr, Expr] = {v: as_index(k, v.name) for v, k in sizes.items()}
        n = as_number(substitute([n], new)[0])
    assert isinstance(n, int)
    return n


def limits(v: Var) -> tuple[int, int]:
    """Range ``(lo, hi)`` of an axis whose bounds are numbers, as they are in a program with bound sizes."""
    assert isinstance(v.lo, int)
    assert isinstance(v.hi, int)
    return v.lo, v.hi


def substitute(
    roots: Sequence[Expr],
    new: Mapping[Expr, Expr],
    tensors: Mapping[Tensor, Tensor] | None = None,
) -> tuple[Expr, ...]:
    """The roots with every key of ``new`` replaced by its value, and tensors read likewise.

    The axes of reductions among the keys are replaced by axes; others get new names where a value has theirs.

    >>> i, j = Var("i", 0, 4), Var("j", 0, 4)
    >>> substitute([i + j], {i: j * 2})
    (j * 2 + j,)
    """
    if not new and not tensors:
        return tuple(roots)
    results: dict[Expr, Expr] = {}
    order = postorder(roots)
    if any(isinstance(node, Scoped) for node in order):
        roots = _apart(roots, new)
        order = postorder(roots)
    for node in order:
        result = new.get(node)
        if result is None:
            operands = [results[o] for o in node.operands]
            if isinstance(node, Scoped):
                axes = tuple(a if isinstance(a := new.get(v), Var) else v for v in node.axes)
                result = node.over(axes, operands)
            else:
                result = simplified_with(node, operands)
            if tensors and isinstance(result, Read) and result.tensor in tensors:
                result = tensors[result.tensor][result.indices]
        results[node] = result
    return tuple(results[r] for r in roots)


def _apart(roots: Sequence[Expr], new: Mapping[Expr, Expr]) -> tuple[Expr, ...]:
    """The roots, with new axes of reductions that are about to be replaced, or to occur in a new value."""
    entering = {*variables(new.values())} - {*new} | {v for v, e in new.items() if not isinstance(e, Var)}
    results: dict[Expr, Expr] = {}
    for node in postorder(roots):
        operands = [results[o] for o in node.operands]
        if isinstance(node, Scoped) and any(v in entering for v in node.axes):
            results[node] = renamed(node.over(node.axes, operands))
        else:
            results[node] = node.rebuilt(operands)
    return tuple(results[r] for r in roots)


def renamed(node: Scoped) -> Scoped:
    """The same reduction over new axes."""
    new: dict[Expr, Expr] = {v: v.ranging(v.lo, v.hi) for v in node.axes}
    (result,) = substitute([node], new)
    assert isinstance(result, Scoped)
    return result


def operands_here(node: Expr) -> tuple[Expr, ...]:
    """Operands that are evaluated at the same points as a node: none of a reduction."""
    return () if isinstance(node, Scoped) else node.operands


def scoped(roots: Iterable[Expr]) -> list[Scoped]:
    """Reductions under the roots, each once, operands first."""
    return [n for n in postorder(roots) if isinstance(n, Scoped)]


def replacing(
    new: Mapping[Expr, Expr], tensors: Mapping[Tensor, Tensor] | None = None
) -> Callable[[Expr], Expr]:
    """Function that applies `substitute` to one expression."""
    return lambda e: substitute([e], new, tensors)[0]


def reads_of(roots: Iterable[Expr]) -> list[Read]:
    """The reads under the roots, each once, operands first."""
    return [n for n in postorder(roots) if isinstance(n, Read)]


def tied_together(
    items: Iterable[Item], roots: Callable[[Item], Iterable[Expr]]
) -> list[tuple[set[Var], list[Item]]]:
    """Groups of items that share variables, directly or through other items, each as (variables, items).

    roots : gives the expressions of an item.
    """
    groups: list[tuple[set[Var], list[Item]]] = []
    for item in items:
        tied, members, apart = set(variables(roots(item))), [item], []
        for other, other_members in groups:
            if other & tied:
                tied, members = tied | other, other_members + members
            else:
                apart.append((other, other_members))
        groups = [*apart, (tied, members)]
    return groups


def variables(roots: Iterable[Expr]) -> KeysView[Var]:
    """The variables under the roots, each once, without axes of reductions; ``in`` compares by identity."""
    roots = list(roots)
    order = postorder(roots)
    if any(isinstance(n, Scoped) for n in order):
        return _free(roots)
    return dict.fromkeys(n for n in order if isinstance(n, Var)).keys()


def _free(roots: Sequence[Expr]) -> KeysView[Var]:
    """Variables under the roots that are not axes of a reduction around them."""
    free: dict[Expr, dict[Var, None]] = {}
    for n in postorder(roots):
        below: dict[Var, None] = {n: None} if isinstance(n, Var) else {}
        for o in n.operands:
            below |= free[o]
        if isinstance(n, Scoped):
            below = {v: None for v in below if v not in n.axes}
        free[n] = below
    return dict.fromkeys(v for r in roots for v in free[r]).keys()
