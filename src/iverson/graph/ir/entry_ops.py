"""Ops on the entries and index arrays of sparse values, which programs carry out.

`iverson.graph.sparse.sparse_lowering` writes them in place of ops on sparse values: products, sampled
products, reads and reductions of segments. All but `stored_on` have no derivative rules, since graphs are
differentiated before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, LevelValue, bind, value_of
from iverson.core.entries import Stored
from iverson.core.op import Op
from iverson.core.protocols import DType, Params, Shaped
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.core.table import TABLE, F
from iverson.expr.nodes import Expr
from iverson.graph.ir.nodes import Equation
from iverson.kernels.deferred_patterns import UNKNOWN, origin_of, stored_once
from iverson.kernels.kernel_registry import register, run
from iverson.kernels.sparse.sparse_conversion import from_values, values_at
from iverson.layouts import Bracket, Pattern, Sparse, distinct
from iverson.ops.rules.entry_maps import SAME
from iverson.ops.rules.notation import over

if TYPE_CHECKING:
    from iverson.te.ir.expressions import Tensor

Array = np.ndarray[Any, Any]


def _product_abstract(
    values: Shaped, starts: Shaped, columns: Shaped, b: Shaped, *_: Shaped, shape: Shape, blocks: Shape
) -> Aval:
    batch = broadcast_shapes("matmul", shape[:-1], b.shape[:-2])
    return Aval((*batch, shape[-1], b.shape[-1]), dtypes.result_type(values, b))


def _product(
    values: Array,
    starts: Array,
    columns: Array,
    b: Array,
    *order: Array,
    shape: Shape,
    blocks: tuple[int, int],
) -> Array:
    """NumPy implementation of `stored_product`."""
    (r, c), (*batch, height) = blocks, shape
    count, aval = int(starts[-1]), _product_abstract(values, starts, columns, b, shape=shape, blocks=blocks)
    block_values = (values[order[0]] if order else values)[: count * r * c].reshape(count, r, c)
    lines = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    out = np.zeros(aval.shape, aval.dtype)
    matrices = np.broadcast_to(b, (*aval.shape[:-2], *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    for n, (matrix, product) in enumerate(zip(matrices, out.reshape(-1, *out.shape[-2:]), strict=True)):
        first = n * (height // r) if batch else 0
        inside = (lines >= first) & (lines < first + height // r)
        for i, k in np.ndindex(r, c):
            terms = block_values[inside, i, k, None] * matrix[columns[:count][inside] * c + k]
            np.add.at(product, (lines[inside] - first) * r + i, terms)
    return out


def _product_loops(T: Any, aval: Aval, *operands: Tensor, **_: Any) -> Any:
    """Loops of a product without entries; others are in `iverson.graph.native.sparse_row_products`."""
    return over(T, aval, lambda: 0) if any(0 in x.shape for x in operands) else None


#: A sparse matrix, or a batch of them, times b: out[i, j] is the sum of values[p] b[columns[p], j] over
#: starts[i] <= p < starts[i + 1]. ``shape`` is (*batch, rows); of a pattern of ``blocks``, starts is of lines
#: of blocks, columns of blocks. A last operand says which value is next, where they are in another order.
stored_product = Op(name="stored_product", forward=_product, abstract=_product_abstract, loops=_product_loops)


def _samples_abstract(a: Shaped, b: Shaped, *places: Shaped) -> Aval:
    return Aval(places[0].shape, dtypes.result_type(a, b))


def _of_matrices(x: Array | Tensor, batch: Sequence[Array | Expr]) -> tuple[Any, ...]:
    """Batch indices of the matrix of x that an entry is in; 0 along batch axes of extent 1."""
    batch_shape = x.shape[:-2]
    pairs = zip(batch_shape, batch[len(batch) - len(batch_shape) :], strict=True)
    return tuple(0 if n == 1 else i for n, i in pairs)


def _samples(a: Array, b: Array, *places: Array) -> Array:
    *batch, rows, columns = places
    lhs, rhs = a[(*_of_matrices(a, batch), rows)], b.mT[(*_of_matrices(b, batch), columns)]
    return np.asarray(np.einsum("ej,ej->e", lhs, rhs), np.result_type(a, b))


def _samples_loops(T: Any, aval: Aval, a: Tensor, b: Tensor, *places: Tensor) -> Any:
    k = T.reduce_axis((0, a.shape[-1]))

    def entry(e: Expr) -> Any:
        *batch, row, column = (n[e] for n in places)
        lhs, rhs = a[(*_of_matrices(a, batch), row, k)], b[(*_of_matrices(b, batch), k, column)]
        return T.sum(T.F.astype(lhs, aval.dtype) * T.F.astype(rhs, aval.dtype), axis=k)

    return T.compute(aval.shape, entry)


#: out[e] = sum over k of a[rows[e], k] b[k, columns[e]]: the entries of a product at some places, of batches
#: with an index array for each axis before.
stored_samples = Op(name="stored_samples", forward=_samples, abstract=_samples_abstract, loops=_samples_loops)

#: The index of each entry of a pattern along an axis.
index_array = Op(
    name="index_array",
    forward=lambda *, pattern, axis: pattern.index_array(axis),
    abstract=lambda *, pattern, axis: Aval((pattern.count,), pattern.index_dtype),
)


def _read_abstract(entries: Shaped, places: Shaped, *, flat: bool) -> Aval:
    return Aval((*places.shape, *(() if flat else entries.shape[1:])), entries.dtype)


def _read(entries: Array, places: Array, *, flat: bool) -> Array:
    entries = entries.ravel() if flat else entries
    values = np.zeros((*places.shape, *entries.shape[1:]), entries.dtype)
    values[places >= 0] = entries[places[places >= 0]]
    return values


def _read_loops(T: Any, aval: Aval, entries: Tensor, places: Tensor, *, flat: bool) -> Any:
    """Loops of `stored_read`."""
    if 0 in entries.shape:
        return over(T, aval, lambda: 0)

    def entry(e: Expr, *rest: Expr) -> Any:
        at = places[e]
        within: list[Any] = []
        for n in entries.shape[:0:-1] if flat else ():
            within.insert(0, T.clamp(at % n, 0, n - 1))
            at = at // n
        return T.select(places[e] >= 0, entries[(T.clamp(at, 0, entries.shape[0] - 1), *within, *rest)], 0)

    return T.compute(aval.shape, entry)


#: Entries of a pattern at those of another one: entries[places[e]], 0 where there is none (-1). They may be
#: slices; with ``flat``, places are those of numbers.
stored_read = Op(name="stored_read", forward=_read, abstract=_read_abstract, loops=_read_loops)


def _segments_abstract(x: Shaped, ids: Shaped, *, count: int, kind: str) -> Aval:
    return Aval((count, *x.shape[1:]), x.dtype)


def _segments(x: Array, ids: Array, *, count: int, kind: str) -> Array:
    ufunc = {"prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    none = 1 if kind == "prod" else extreme(x.dtype, largest=kind == "min")
    out = np.full((count, *x.shape[1:]), none, x.dtype)
    ufunc.at(out, ids, x)
    return out


def extreme(dtype: DType, *, largest: bool) -> Any:
    """The largest or the least number of a dtype."""
    if dtypes.is_floating(dtype):
        return math.inf if largest else -math.inf
    info = np.iinfo(dtype)
    return int(info.max if largest else info.min)


def _segments_loops(T: Any, _aval: Aval, x: Tensor, ids: Tensor, *, count: int, kind: str) -> Any:
    return T.scatter((count, *x.shape[1:]), x.shape, lambda e, *r: ((ids[e], *r), x[(e, *r)]), combine=kind)


#: The product, largest or least of the slices of each segment; 1, the least or the largest number where it
#: has none.
stored_segments = Op(
    name="stored_segments", forward=_segments, abstract=_segments_abstract, loops=_segments_loops
)


def _rows_abstract(
    values: Shaped, starts: Shaped, columns: Shaped, rows: Shaped, *_: Shaped, count: int, **__: Any
) -> Aval:
    return Aval((*rows.shape, count), values.dtype)


def _rows(
    values: Array, starts: Array, columns: Array, rows: Array, *order: Array, count: int, blocks: Shape
) -> Array:
    """NumPy implementation of `stored_rows`."""
    r, c = blocks
    block_values = (values[order[0]] if order else values).reshape(-1, r, c)
    out = np.zeros((*rows.shape, count), values.dtype)
    for q, row in enumerate(rows):
        for b in range(starts[row // r], starts[row // r + 1]):
            out[q, columns[b] * c : columns[b] * c + c] += block_values[b, row % r]
    return out


def _rows_loops(
    T: Any,
    aval: Aval,
    values: Tensor,
    starts: Tensor,
    columns: Tensor,
    rows: Tensor,
    *order: Tensor,
    count: int,
    blocks: Shape,
) -> Any:
    """Loops of `stored_rows`: a sum over the stored blocks of each row."""
    if any(0 in x.shape for x in (values, rows, aval)):
        return over(T, aval, lambda: 0)
    (r, c), lines = blocks, starts.shape[0] - 1

    def line(q: Expr) -> Any:
        return T.clamp(rows[q] // r, 0, lines - 1)

    def point(q: Expr, b: Expr, j: Expr) -> Any:
        e = (b * r + rows[q] % r) * c + j
        return (q, columns[b] * c + j), values[order[0][e] if order else e]

    domain = (rows.shape[0], lambda q: (starts[line(q)], starts[line(q) + 1]), c)
    return T.scatter(aval.shape, domain, point)


#: Rows of a sparse matrix with ``count`` columns, at the row numbers ``rows``, with every entry. The matrix
#: is given by values, starts, columns and maybe an order, as for `stored_product`.
stored_rows = Op(name="stored_rows", forward=_rows, abstract=_rows_abstract, loops=_rows_loops)


def _find_abstract(
    values: Shaped, starts: Shaped, columns: Shaped, rows: Shaped, *_: Shaped, blocks: Shape
) -> Aval:
    return Aval(rows.shape, values.dtype)


def _find(
    values: Array, starts: Array, columns: Array, rows: Array, at: Array, *order: Array, blocks: Shape
) -> Array:
    """NumPy implementation of `stored_find`: ``at`` has the columns of the entries."""
    dense_rows = _rows(
        values,
        starts,
        columns,
        rows,
        *order,
        count=int(columns.max(initial=0) + 1) * blocks[1],
        blocks=blocks,
    )
    there = at < dense_rows.shape[1]
    return np.where(there, dense_rows[np.arange(rows.size), np.where(there, at, 0)], 0).astype(values.dtype)


def _find_loops(
    T: Any,
    aval: Aval,
    values: Tensor,
    starts: Tensor,
    columns: Tensor,
    rows: Tensor,
    at: Tensor,
    *order: Tensor,
    blocks: Shape,
) -> Any:
    """Loops of `stored_find`: a search among the stored blocks of each row."""
    c = blocks[1]

    def entry(q: Expr, b: Expr, held: Callable[[Expr], Expr]) -> Any:
        return T.sum(T.select(T.F.equal(columns[b], at[q] // c), held(at[q] % c), 0), axis=b)

    return _along_rows(T, aval, values, starts, rows, order, blocks, entry)


def _along_rows(
    T: Any,
    aval: Aval,
    values: Tensor,
    starts: Tensor,
    rows: Tensor,
    order: tuple[Tensor, ...],
    blocks: Shape,
    entry: Callable[[Expr, Expr, Callable[[Expr], Expr]], Expr],
) -> Any:
    """One entry ``entry(q, b, value)`` for each of ``rows`` of a sparse matrix, as a computed tensor.

    The matrix is given by ``values``, ``starts``, ``order`` and ``blocks``, as in `stored_product`.

    entry : gets the number q in ``rows``, a reduction axis b over the stored blocks of this row, and a
        function ``value(column)`` that gives the stored value in a column of block b.
    """
    if any(0 in x.shape for x in (values, rows)):
        return over(T, aval, lambda: 0)
    (r, c), lines = blocks, starts.shape[0] - 1

    def of_row(q: Expr) -> Any:
        line = T.clamp(rows[q] // r, 0, lines - 1)
        b = T.reduce_axis((starts[line], starts[line + 1]))

        def held(column: Expr) -> Any:
            e = (b * r + rows[q] % r) * c + column
            return values[order[0][e] if order else e]

        return entry(q, b, held)

    return T.compute(aval.shape, of_row)


#: Single entries of a sparse matrix (given as for `stored_product`), at some rows and columns.
stored_find = Op(name="stored_find", forward=_find, abstract=_find_abstract, loops=_find_loops)


def _row_samples_abstract(
    values: Shaped, starts: Shaped, columns: Shaped, b: Shaped, rows: Shaped, *_: Shaped, **__: Any
) -> Aval:
    return Aval(rows.shape, dtypes.result_type(values, b))


def _row_samples(
    values: Array,
    starts: Array,
    columns: Array,
    b: Array,
    rows: Array,
    at: Array,
    *order: Array,
    blocks: Shape,
) -> Array:
    """NumPy implementation of `stored_row_samples`."""
    count = b.shape[0]
    dense_rows = _rows(values, starts, columns, rows, *order, count=count, blocks=blocks)
    return np.asarray(np.einsum("ej,je->e", dense_rows, b[:, at]), np.result_type(values, b))


def _row_samples_loops(
    T: Any,
    aval: Aval,
    values: Tensor,
    starts: Tensor,
    columns: Tensor,
    b: Tensor,
    rows: Tensor,
    at: Tensor,
    *order: Tensor,
    blocks: Shape,
) -> Any:
    """Loops of `stored_row_samples`: a sum over the stored blocks of each row."""
    c = blocks[1]

    def entry(q: Expr, p: Expr, held: Callable[[Expr], Expr]) -> Any:
        j = T.reduce_axis((0, c))
        terms = T.F.astype(held(j), aval.dtype) * T.F.astype(b[columns[p] * c + j, at[q]], aval.dtype)
        return T.sum(terms, axis=(p, j))

    return _along_rows(T, aval, values, starts, rows, order, blocks, entry)


#: out[e] = sum over k of a[rows[e], k] b[k, at[e]] over the terms that the sparse matrix a stores; a is given
#: as for `stored_product`.
stored_row_samples = Op(
    name="stored_row_samples",
    forward=_row_samples,
    abstract=_row_samples_abstract,
    loops=_row_samples_loops,
)


class _StoredOn(Op):
    """An op whose result is on a pattern, with a derivative at every entry, stored or not."""

    def infer(self, /, *avals: Shaped | complex, **params: Any) -> Any:
        """See `Op.infer`."""
        aval = self.abstract(*avals, **params)
        return Aval(aval.shape, aval.dtype, Stored(params["pattern"]))


def _stored_on(x: Array, *, pattern: Pattern) -> Any:
    return from_values(values_at(x, pattern=pattern), pattern=pattern)


#: A value that is 0 where a pattern stores nothing, in the layout of that.
stored_on = _StoredOn(
    name="stored_on",
    forward=_stored_on,
    abstract=lambda x, *, pattern: Aval(x.shape, x.dtype),
    vjp=(lambda F, g, _y, _x, *, pattern: g,),
    jvp=(lambda F, t, _y, _x, *, pattern: t,),
    entry_map=SAME,
    batch=lambda F, examples, x, *, pattern: x,
)


@register("stored_on", Sparse)
@register("stored_on", Bracket)
def _sparse_on(_op: Op, values: tuple[Sparse | Bracket], params: Params) -> Any:
    """Entries at the pattern. A selection stays one, of these entries."""
    (x,), pattern = values, params["pattern"]
    if isinstance(x, Sparse) and x.pattern is pattern:
        return x
    return run(TABLE["from_values"], (run(TABLE["values_at"], (x,), params),), params)


def as_stored(x: Handle) -> Any:
    """Convert ``x``, a handle of a trace, to the layout that eager code has for the same value.

    The result is dense, or sparse on the pattern that eager code has. It is ``x`` itself if it is in no
    trace, or if the eager layout is not known.
    """
    eager_pattern = stored_once(origin_of(x)) if isinstance(value_of(x), LevelValue) else UNKNOWN
    if eager_pattern is UNKNOWN:
        return x
    current_pattern = value_of(x).pattern
    if eager_pattern is None:
        return x if current_pattern is None else F.to_dense(x)
    pattern = distinct(eager_pattern)
    return x if pattern is current_pattern else bind(stored_on, (x,), {"pattern": pattern})


#: The ops on stored entries that are products.
STORED_OPS = (stored_product, stored_samples)


def stored_work(e: Equation) -> int:
    """Number of multiply-adds of an equation of one of `STORED_OPS`."""
    if e.op is stored_samples:
        return int(e.operands[-1].shape[0] * e.operands[0].shape[-1])
    shape = e.results[0].shape
    matrices = 1 if len(e.params["shape"]) > 1 else prod(shape[:-2])
    return int(e.operands[0].shape[0] * matrices * shape[-1])


__all__ = [
    "STORED_OPS",
    "as_stored",
    "extreme",
    "index_array",
    "stored_find",
    "stored_on",
    "stored_product",
    "stored_read",
    "stored_row_samples",
    "stored_rows",
    "stored_samples",
    "stored_segments",
    "stored_work",
]
