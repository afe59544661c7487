"""Definitions: the placeholders, computes, reductions, scatters and sizes that users write.

A definition is checked when it is made, and becomes statements at once (`stages`). The meaning of a statement
is in `iverson.te.ir.nodes`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, described
from iverson.core.inputs.arguments import as_function
from iverson.core.protocols import DType
from iverson.core.python.caller import assigned_name
from iverson.core.shapes import as_int, check_choice
from iverson.expr.build import apply, as_expr, cast, select
from iverson.expr.nodes import Const, Expr, ExprLike
from iverson.expr.symbolic_numbers import integer
from iverson.te.ir.expressions import (
    Extent,
    ExtentLike,
    Placeholder,
    Reduce,
    Tensor,
    Var,
    as_index,
    replacing,
    scoped,
    substitute,
)
from iverson.te.ir.nodes import (
    Compute,
    Domain,
    Recurrence,
    Statement,
    as_tensors,
    rebuilt,
    tensors_in,
    units_below,
)
from iverson.te.ir.ragged_axes import bounded
from iverson.te.ir.source_site import operation
from iverson.te.ir.supports import met, met_again, strong
from iverson.te.ir.verify import check_definition
from iverson.te.language.injectivity import is_injective
from iverson.te.language.stages import check_scope, define, staged

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

#: Tensors that stand in the place of others.
Replaced = TypeVar("Replaced", bound=Tensor)
#: A shape, or its only extent; the bounds of an axis, a pair or an extent; the ranges of several axes.
ShapeLike: TypeAlias = ExtentLike | Sequence[ExtentLike]
Bounds: TypeAlias = ExtentLike | Sequence[ExtentLike]
Range: TypeAlias = ExtentLike | Callable[..., Bounds]
DomainLike: TypeAlias = Range | Sequence[Range]
Axes: TypeAlias = Var | Sequence[Var]
#: What a scatter writes, after where; what defines the entries of a compute or a scatter.
Write: TypeAlias = "tuple[ExprLike | tuple[ExprLike, ...], ExprLike]"
Definition: TypeAlias = "Callable[..., ExprLike | Write]"

_counter = count()
#: How a scatter may combine.
SCATTERS = ("sum", "prod", "max", "min", "assign")


def placeholder(shape: ShapeLike, dtype: DTypeLike = dtypes.default_float, name: str = "") -> Placeholder:
    """An input of the given shape (ints and sizes from `var`) and dtype.

    >>> placeholder((2, 3), "float32", "A")
    Placeholder(A: float32[2, 3])
    """
    site = operation("placeholder", name)
    return Placeholder(shape_of(shape, site), dtypes.as_dtype(dtype, site), name or _fresh("T"))


def var(name: str = "") -> Var:
    """An extent that is not known yet: use it in shapes and ranges, give it a value with `bind`.

    >>> from iverson import te
    >>> n = te.var("n")
    >>> x = te.placeholder((n,), name="x")
    >>> x.shape
    (n,)
    """
    operation("var", name)
    return Var(name or _fresh("n"), 0, None, "size")


def reduce_axis(bounds: Bounds, name: str = "") -> Var:
    """An axis to reduce over: ``(lo, hi)``, hi exclusive, or an extent.

    The bounds may depend on other indices, also through integer tensors: a *ragged* axis. It is made where
    these indices are, in the function that defines the entries. Like ``range``, it is empty where lo >= hi: a
    sum over none is 0, a product 1, a maximum the lowest value. Only the points between the bounds are
    visited, here and in derivatives.

    Raises ArgumentError for bounds that are no pair, ArgumentTypeError for ones that are no integers. Where
    bounds go beyond what is read with the axis, a call raises IndexingError, which names the bound.

    >>> k = reduce_axis((0, 3), "k")

    The product of a sparse matrix, entries row by row from ``p[i]`` to ``p[i + 1]``, and a vector:

    >>> import numpy as np
    >>> from iverson import te
    >>> @te.op
    ... def spmv(p, columns, values, x):
    ...     def row(i):
    ...         e = te.reduce_axis((p[i], p[i + 1]))
    ...         return te.sum(values[e] * x[columns[e]], e)
    ...     return te.compute((p.shape[0] - 1,), row)
    >>> spmv(np.array([0, 2, 2, 3]), np.array([0, 2, 1]), np.array([1.0, 2.0, 3.0]), np.ones(3))
    iverson.Tensor([3., 0., 3.])
    """
    name_value: Any = name
    if isinstance(name_value, int):
        raise ArgumentTypeError(
            operation("reduce_axis"),
            "name",
            got=described(name_value),
            expected="a string",
            remedy=f"bounds are one argument, a pair: te.reduce_axis(({bounds}, {name}))",
        )
    site = operation("reduce_axis", name)
    lo, hi = _bounds(bounds, site, "bounds")
    if isinstance(lo, int) and isinstance(hi, int) and hi < lo:
        raise ArgumentError(site, "bounds", got=f"({lo}, {hi})", expected="lo <= hi")
    return Var(name or _fresh("k"), lo, hi, "reduce")


def _bounds(bounds: Bounds, site: str, argument: str) -> tuple[Extent, Extent]:
    """Pair (lo, hi) of an axis, from such a pair or from an extent; lo is then 0."""
    pair = tuple(bounds) if isinstance(bounds, (tuple, list)) else (0, bounds)
    if len(pair) != 2:
        raise ArgumentError(site, argument, got=described(bounds), expected="(lo, hi) or an extent")
    lo, hi = (_extent(b, site, argument) for b in pair)
    for b in (lo, hi):
        if isinstance(b, Expr) and b.dtype.kind not in "iu":
            raise ArgumentTypeError(site, argument, got=f"{b!r} of dtype {b.dtype}", expected="integers")
    return lo, hi


def compute(
    shape: ShapeLike,
    fcompute: Callable[..., ExprLike],
    name: str = "",
    dtype: DTypeLike | None = None,
    domain: DomainLike | None = None,
) -> Compute:
    """The tensor whose entry at ``i, j, ...`` is ``fcompute(i, j, ...)``.

    Parameters
    ----------
    shape : extents, numbers or sizes.
    fcompute : takes an index for each, or for each of ``domain``, and returns an expression.
    name : of the tensor, in messages and texts.
    dtype : casts the entries.
    domain : where there are entries, as of `scatter`: an extent for each index of fcompute, or for a ragged
        one a function of the indices before it that returns its bounds ``(lo, hi)``. Only these points are
        visited, and what is not among them is 0. With as many indices as the shape has, results are *padded*.
        With more, they are *packed*: entries stand at the last indices, those of several rows are added up.

    Raises
    ------
    IversonError
        Names the user's line where an index is provably outside its tensor, a stride is not constant, or a
        reduction axis is used outside its reduction.

    Examples
    --------
    >>> A, B = placeholder((2, 3), name="A"), placeholder((3, 4), name="B")
    >>> k = reduce_axis((0, 3), "k")
    >>> compute((2, 4), lambda i, j: sum(A[i, k] * B[k, j], k), "C")
    Compute(C: float64[2, 4])

    Rows of different lengths, one after the other (from ``p[i]`` to ``p[i + 1]``), each padded with zeros,
    and each divided by its length:

    >>> import numpy as np
    >>> from iverson import te
    >>> @te.op(results=2)
    ... def rows(p, x):
    ...     n, row = p.shape[0] - 1, lambda i: (p[i], p[i + 1])
    ...     padded = te.compute((n, 3), lambda i, k: x[p[i] + k], domain=(n, lambda i: (0, p[i + 1] - p[i])))
    ...     mean = te.compute(x.shape, lambda i, e: x[e] / (p[i + 1] - p[i]), domain=(n, row))
    ...     return padded, mean
    >>> padded, mean = rows(np.array([0, 2, 2, 4]), np.arange(1.0, 5.0))
    >>> padded
    iverson.Tensor([[1., 2., 0.],
                    [0., 0., 0.],
                    [3., 4., 0.]])
    >>> mean
    iverson.Tensor([0.5, 1. , 1.5, 2. ])
    """
    operation("compute", name)
    name = name or _fresh("T")
    site = operation("compute", name)
    extents = shape_of(shape, site)
    function = as_function(fcompute, site, "fcompute")
    axes = _axes(function, extents, site) if domain is None else _points(function, domain, site)
    body = as_expr(fcompute(*axes), site)
    if dtype is not None:
        body = body.astype(dtype)
    if domain is None:
        return define(body, axes, name, site)
    if len(axes) < len(extents):
        raise ShapeError(
            site,
            "domain",
            got=f"{len(axes)} indices",
            expected=f"one for each axis of shape {extents}, or more",
        )
    last_axes = axes[len(axes) - len(extents) :]
    return _scattered(
        extents, axes, last_axes, body, name, "assign" if len(last_axes) == len(axes) else "sum", site
    )


def scatter(
    shape: ShapeLike,
    domain: DomainLike,
    fscatter: Callable[..., Write],
    name: str = "",
    combine: str = "sum",
) -> Compute:
    """``Out[f(i)] += g(i)`` for i in ``domain``, where ``fscatter(*i)`` returns ``(f, g)``.

    domain is an extent for each index, or for a ragged one a function of the indices before it that returns
    its bounds ``(lo, hi)``, as those of `reduce_axis`. f is an index or a tuple of them and may read data.
    combine is "sum", "prod", "max", "min" or "assign"; with "assign" each entry must provably be written at
    most once. Entries that nothing is written to are 0 (1 for prod, the lowest or highest value for max and
    min). All differentiate: of max and min, the first of equal values takes the derivative; of prod, it is
    exact where factors are 0, to any order, in time for each point, one after the other.

    Raises ArgumentError for another combine or two possible writers of an assignment, ShapeError where
    f does not fit the shape, IndexingError where it is provably outside.

    >>> idx, x = placeholder((5,), "int64", "idx"), placeholder((5,), name="x")
    >>> scatter((3,), (5,), lambda e: (idx[e], x[e]), "S")
    Compute(S: float64[3])

    The row of each entry, from where the rows start:

    >>> from iverson import te
    >>> @te.op
    ... def rows(p, entries):
    ...     points = (p.shape[0] - 1, lambda i: (p[i], p[i + 1]))
    ...     return te.scatter(entries.shape, points, lambda i, e: (e, i))
    >>> import numpy as np
    >>> rows(np.array([0, 2, 2, 3]), np.zeros(3))
    iverson.Tensor([0, 0, 2])
    """
    operation("scatter", name)
    name = name or _fresh("T")
    site = operation("scatter", name)
    check_choice(combine, SCATTERS, site, "combine")
    extents = shape_of(shape, site)
    axes = _points(as_function(fscatter, site, "fscatter"), domain, site)
    result = fscatter(*axes)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentTypeError(
            site,
            "fscatter",
            got=f"a function that returns {result!r}",
            expected="a pair (index or indices, value)",
        )
    target, value = result
    indices = target if isinstance(target, tuple) else (target,)
    if len(indices) != len(extents):
        raise ShapeError(
            site, got=f"{len(indices)} target indices", expected=f"{len(extents)}, as in the shape"
        )
    return _scattered(extents, axes, indices, value, name, combine, site)


def _scattered(
    extents: tuple[Extent, ...],
    axes: tuple[Var, ...],
    indices: Sequence[ExprLike],
    value: ExprLike,
    name: str,
    combine: str,
    site: str,
) -> Compute:
    """Compute that combines ``value`` into the entry at ``indices``, for each point of the axes.

    Axes may have bounds that depend on other axes or on data. The definition is checked.
    """
    at = [as_index(i, name) for i in indices]
    axes, (*write_indices, value), where = bounded(
        axes, [*at, as_expr(value, site)], zip(at, extents, strict=True)
    )
    check_scope([*write_indices, value, *where], axes, site)
    once = combine == "assign"
    inner: tuple[Var, ...] = ()
    if where and combine in ("sum", "assign") and isinstance(value, Reduce) and value.combine == "sum":
        terms, combine = value, "sum"  # which are added up anyway
        inner, value, where = terms.axes, terms.body, (*where, *terms.where)
    write = tuple(_staged(i, axes, where, f"{name}.index", site) for i in write_indices)
    body = strong(_staged(value, axes, where, f"{name}.value", site))
    where = met(where, body, combine)
    statement = Statement(None, write, body, Domain((*axes, *inner), where), combine)
    if once and not is_injective(write, axes):
        raise ArgumentError(
            site,
            name,
            got=f"target {list(write)}, which may be the same for two points",
            expected="one writer per element",
            remedy="use combine='sum', or an index that provably differs from point to point",
        )
    if body.dtype.kind == "c" and combine in ("max", "min"):
        raise ArgumentTypeError(site, "value", got=f"dtype {body.dtype}", expected="an ordered dtype")
    tensor = Compute(extents, body.dtype, name, (statement,))
    check_definition(tensor.statements[0], site)
    return tensor


def _points(function: Definition, domain: DomainLike, site: str) -> tuple[Var, ...]:
    """Axes of a scatter, named like the parameters of ``function``.

    domain : for each axis its extent, or a function of the axes before it that returns its bounds.
    """
    ranges = tuple(domain) if isinstance(domain, (tuple, list)) else (domain,)
    plain = shape_of([0 if callable(n) else n for n in ranges], site, "domain")
    axes: list[Var] = []
    for name, n, bounds in zip(_names(function, plain, site), plain, ranges, strict=True):
        lo, hi = _bounds(bounds(*axes), site, "domain") if callable(bounds) else (0, n)
        axes.append(Var(name, lo, hi))
    return tuple(axes)


def _reduction(combine: str, body: ExprLike, axis: Axes, dtype: DTypeLike | None = None) -> Expr:
    """Reduction of ``body`` over one or several axes, after checks of the axes and dtypes."""
    site = operation(combine)
    axes = reduction_axes(axis, site, combine)
    for v in axes:
        empty = isinstance(v.lo, int) and isinstance(v.hi, int) and v.lo >= v.hi
        if empty and combine not in ("sum", "prod"):
            raise ArgumentError(site, "axis", got=f"{v.name}, which is empty", expected="a value")
    ranged_axes, (e,), where = bounded(axes, [as_expr(body, site)])
    if e.dtype.kind == "c" and combine not in ("sum", "prod"):
        raise ArgumentTypeError(site, "body", got=f"dtype {e.dtype}", expected="an ordered dtype")
    if combine in ("sum", "prod"):
        e = cast(e, _total_dtype(e.dtype) if dtype is None else dtypes.as_dtype(dtype, site))
    return Reduce(combine, ranged_axes, e, where)


def reduction_axes(axis: Axes, site: str, combine: str = "") -> tuple[Var, ...]:
    """Axes of a reduction, one or several; ArgumentTypeError for anything that is no reduction axis."""
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    for v in axes:
        if not isinstance(v, Var) or v.kind != "reduce":
            raise ArgumentTypeError(
                site,
                "axis",
                got=repr(v),
                expected="a te.reduce_axis or several of them",
                remedy=_not_an_axis(combine, v),
            )
    return axes


def _not_an_axis(combine: str, value: Expr | complex) -> str:
    """Remedy for a value in the place of a reduction axis."""
    entry = isinstance(value, (float, Expr)) and not isinstance(value, Var)
    if combine in ("max", "min") and entry:
        return f"the {combine}imum of two values is te.{combine}imum(a, b)"
    if isinstance(value, Var) and value.kind != "reduce":
        return f"a reduction has an axis of its own, k = te.reduce_axis(n); {value.name} is that of an entry"
    return "make an axis before, k = te.reduce_axis(n), and use it in the body: te.sum(x[i, k], axis=k)"


def _total_dtype(dtype: DType) -> Any:
    """Dtype of sums and products of a dtype, as in NumPy: for integers, the widest of their kind."""
    return {"b": dtypes.int64, "i": dtypes.int64, "u": dtypes.uint64}.get(dtype.kind, dtype)


def sum(body: ExprLike, axis: Axes, dtype: DTypeLike | None = None) -> Expr:
    """The sum of ``body`` over one or several reduction axes.

    ``dtype`` is that of the terms and of the sum: by default that of ``body``, of integers and bools int64 or
    uint64, as in NumPy.

    >>> x, k = placeholder((300,), "int8", "x"), reduce_axis((0, 300), "k")
    >>> compute((), lambda: sum(x[k], k), "S"), compute((), lambda: sum(x[k], k, dtype="float32"), "F")
    (Compute(S: int64[]), Compute(F: float32[]))
    """
    return _reduction("sum", body, axis, dtype)


def prod(body: ExprLike, axis: Axes, dtype: DTypeLike | None = None) -> Expr:
    """The product of ``body`` over one or several reduction axes; ``dtype`` as of `sum`.

    >>> from iverson import asarray, te
    >>> def f(x):
    ...     k = te.reduce_axis((0, x.shape[0]), "k")
    ...     return te.compute((), lambda: te.prod(x[k], k))
    >>> te.op(f)(asarray([1., 3., 2.]))
    iverson.Tensor(6.)
    """
    return _reduction("prod", body, axis, dtype)


def max(body: ExprLike, axis: Axes) -> Expr:
    """The largest value of ``body``, nan if there is one; its gradient is the first largest's.

    >>> from iverson import asarray, te
    >>> def f(x):
    ...     k = te.reduce_axis((0, x.shape[0]), "k")
    ...     return te.compute((), lambda: te.max(x[k], k))
    >>> te.op(f)(asarray([1., 3., 2.]))
    iverson.Tensor(3.)
    """
    return _reduction("max", body, axis)


def min(body: ExprLike, axis: Axes) -> Expr:
    """The smallest value of ``body``, nan if there is one; its gradient is the first smallest's.

    >>> from iverson import asarray, te
    >>> def f(x):
    ...     k = te.reduce_axis((0, x.shape[0]), "k")
    ...     return te.compute((), lambda: te.min(x[k], k))
    >>> te.op(f)(asarray([1., 3., 2.]))
    iverson.Tensor(1.)
    """
    return _reduction("min", body, axis)


def argmax(body: ExprLike, axis: Axes) -> Expr:
    """Position of the largest value of ``body`` in the box of the axes, row by row; the first of equals.

    The position counts from 0 whatever the axes' lower bounds. A nan counts as the largest. What goes with
    the largest value is read at the position; the value itself, if asked for too, is found in the same pass.

    >>> import numpy as np
    >>> from iverson import te
    >>> @te.op
    ... def nearest(distance, label):
    ...     n, m = distance.shape
    ...     k = te.reduce_axis(m)
    ...     best = te.compute((n,), lambda i: te.argmin(distance[i, k], k))
    ...     return te.compute((n,), lambda i: label[best[i]])
    >>> nearest(np.array([[3.0, 1.0, 2.0], [0.5, 4.0, 1.0]]), np.array([10.0, 20.0, 30.0]))
    iverson.Tensor([20., 10.])
    """
    return _reduction("argmax", body, axis)


def argmin(body: ExprLike, axis: Axes) -> Expr:
    """Position of the smallest value of ``body``; see `argmax`.

    >>> from iverson import asarray, te
    >>> def f(x):
    ...     k = te.reduce_axis((0, x.shape[0]), "k")
    ...     return te.compute((), lambda: te.argmin(x[k], k))
    >>> te.op(f)(asarray([1., 3., 2.]))
    iverson.Tensor(0)
    """
    return _reduction("argmin", body, axis)


def if_then_else(condition: ExprLike, then: ExprLike, other: ExprLike) -> Expr:
    """``then`` where the condition holds, else ``other``; only the side chosen is evaluated.

    >>> from iverson import asarray, te
    >>> f = te.op(lambda x: te.compute(x.shape, lambda i: te.if_then_else(i > 0, x[i - 1], 0.)))
    >>> f(asarray([1., 3., 2.]))
    iverson.Tensor([0., 1., 3.])
    """
    return select(condition, then, other)


def bracket(condition: ExprLike) -> Expr:
    """The Iverson bracket: 1 where the condition holds, 0 elsewhere. Its zeros are strong.

    >>> i = Var("i", 0, 3)
    >>> bracket(i < 2) * placeholder((3,), name="A")[i]
    select(i < 2, A[i], 0.0)
    """
    return select(condition, 1, 0)


def bind(tensors: Sequence[Tensor], sizes: Mapping[Var, int | Expr]) -> tuple[Tensor, ...]:
    """The same tensors with sizes replaced by numbers; placeholders without sizes stay themselves.

    >>> n = var("n")
    >>> A = placeholder((n,), name="A")
    >>> bind([compute((n,), lambda i: A[i] + 1, "B")], {n: 3})
    (Compute(B: float64[3]),)
    """
    site = operation("bind")
    tensors = as_tensors(tensors, site, "tensors")
    if not isinstance(sizes, Mapping) or not all(isinstance(v, Var) for v in sizes):
        raise ArgumentTypeError(
            site, "sizes", got=described(sizes), expected="a dict from te.var to integers"
        )
    values: dict[Expr, Expr] = {
        v: k if isinstance(k, Expr) else as_expr(as_int(k, site, "sizes")) for v, k in sizes.items()
    }
    return _rebuilt(tensors, values, {})


def of_tensors(outputs: Sequence[Tensor], replacements: Mapping[Replaced, Tensor]) -> tuple[Tensor, ...]:
    """The outputs, defined on the values of ``replacements`` in place of its keys, usually placeholders.

    So a definition that differentiates does so in its own operands, whatever these are made of.
    """
    return _rebuilt(outputs, {}, replacements)


def _rebuilt(
    tensors: Sequence[Tensor], values: Mapping[Expr, Expr], replacements: Mapping[Replaced, Tensor]
) -> tuple[Tensor, ...]:
    """The tensors with sizes replaced by their ``values``, and some tensors by their ``replacements``."""
    new_tensors = dict[Tensor, Tensor](replacements.items())
    axes: dict[Expr, Var] = {}

    def known(n: Extent | None) -> Extent:
        assert n is not None
        value = substitute([n], values)[0] if isinstance(n, Expr) else n
        return integer(value.value) if isinstance(value, Const) else value

    def steps(v: Var) -> Var:
        return axes.setdefault(v, Var(v.name, 0, known(v.hi)))

    def bound(s: Statement) -> Statement:
        for v in s.scope:
            if v not in axes:
                axes[v] = v.ranging(known(v.lo), known(v.hi))
        new_axes = tuple(axes[v] for v in s.domain.axes)
        return met_again(s.mapped(replacing({**values, **axes}, new_tensors), new_axes))

    for unit in units_below(tensors):
        if any(t in replacements for t in tensors_in([unit])):
            continue
        if isinstance(unit, Recurrence):
            rebuilt(unit, steps, lambda t: tuple(map(known, t.shape)), new_tensors, bound)
            continue
        shape = tuple(known(n) for n in unit.shape)
        if not isinstance(unit, Compute):
            new_tensors[unit] = unit if shape == unit.shape else Placeholder(shape, unit.dtype, unit.name)
            continue
        new_tensors[unit] = unit.again(shape, map(bound, unit.statements))
    return tuple(new_tensors[t] for t in tensors)


def _fresh(prefix: str) -> str:
    """Name of a public function's result: the variable that the user assigns it to, or a new name."""
    return assigned_name(2) or f"{prefix}{next(_counter)}"


def _extent(n: ExtentLike, site: str, argument: str) -> Extent:
    """Extent ``n`` as an int or an expression; ArgumentTypeError for anything else.

    site, argument : names of the operation and of the argument, for the error.
    """
    if isinstance(n, Expr):
        return n
    if not isinstance(n, int) or isinstance(n, bool):
        try:
            return int(n.__index__())
        except (AttributeError, TypeError):
            raise ArgumentTypeError(
                site,
                argument,
                got=f"{n!r} ({type(n).__name__})",
                expected="an int or a te.var",
                remedy=_instead(n),
            ) from None
    return n


def _instead(n: ExtentLike | Tensor | range | float) -> str:
    """Remedy for a value that is no extent; "" if none is known."""
    if isinstance(n, Tensor):
        return f"an extent is known where an op is made: x.shape[0], or {n.name} after * in its parameters"
    if isinstance(n, float):
        return "divide with //"
    return "bounds of an axis are a pair, (lo, hi)" if isinstance(n, range) else ""


def shape_of(shape: ShapeLike, site: str, argument: str = "shape") -> tuple[Extent, ...]:
    entries = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    extents = tuple(_extent(n, site, argument) for n in entries)
    if any(isinstance(n, int) and n < 0 for n in extents):
        raise ShapeError(site, argument, got=str(extents), expected="non-negative extents")
    return extents


def _axes(function: Definition, extents: tuple[Extent, ...], site: str) -> tuple[Var, ...]:
    names = _names(function, extents, site)
    return tuple(Var(name, 0, n) for name, n in zip(names, extents, strict=True))


def _names(function: Definition, extents: tuple[Extent, ...], site: str) -> list[str]:
    """Names of the indices that a function takes, one for each extent."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        raise ArgumentTypeError(
            site, got="a function whose parameters cannot be read", expected="a function of Python"
        ) from None
    names = [p.name for p in parameters if p.kind in kinds and p.default is p.empty]
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    if len(names) != len(extents) and not (variadic and len(names) <= len(extents)):
        raise ShapeError(
            site,
            got=f"a function of {len(names)} indices",
            expected=f"one index per axis of shape {extents}",
        )
    return names + [f"i{k}" for k in range(len(names), len(extents))]


def _staged(e: Expr, axes: tuple[Var, ...], where: tuple[Expr, ...], name: str, site: str) -> Expr:
    """The expression ``e`` with each reduction in it as a tensor of its own."""
    if not scoped([e]):
        return e
    return staged(e, name, site, where) if where else define(e, axes, name, site)[axes]


def clamp(index: ExprLike, lo: ExprLike, hi: ExprLike) -> Expr:
    """An index (or value) limited to the range from ``lo`` to ``hi``, both included.

    >>> from iverson import asarray, te
    >>> f = te.op(lambda x: te.compute(x.shape, lambda i: x[te.clamp(i + 1, 0, x.shape[0] - 1)]))
    >>> f(asarray([1., 3., 2.]))
    iverson.Tensor([3., 2., 2.])
    """
    return apply("minimum", apply("maximum", index, lo), hi)
