"""Cost of ops from shapes and supports: products, multiply-adds, entries, bytes. The call is not carried out.

`core.counting.work` counts the same quantities while ops run. The formulas of products are here, those of
factorisations in `core.counting.factorisations`; the cost of other ops follows from their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core import entries
from iverson.core.aval import Aval
from iverson.core.counting.factorisations import multiply_adds
from iverson.core.entries import FULL, NOTHING, Box, Bracket, Places, Stored
from iverson.core.entry_map import Facts
from iverson.core.protocols import Params, Shaped

if TYPE_CHECKING:
    from iverson.core.op import Op


@dataclass(frozen=True, slots=True)
class Cost:
    """Amounts of work, which was done or not.

    products : matrix products, a batch counted by its size.
    multiply_adds : of the products, and of factorisations and solves (`core.counting.factorisations`).
    entries : entries computed, or read one by one in a reduction, by other ops.
    bytes : of new memory.

    >>> Cost(products=1, multiply_adds=24) + Cost(1, 6, bytes=8)
    Cost(products=2, multiply_adds=30, entries=0, bytes=8)
    """

    products: int = 0
    multiply_adds: int = 0
    entries: int = 0
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, times: int) -> Cost:
        return Cost(*(n * times for n in (self.products, self.multiply_adds, self.entries, self.bytes)))

    def beyond(self, other: Cost) -> Cost:
        """Excess of each amount of this cost over that of ``other``; 0 where it is not larger."""
        return Cost(*(max(a - b, 0) for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __bool__(self) -> bool:
        return any(astuple(self))


def entrywise(op: Op, operands: Iterable[int], result_count: int) -> int:
    """Number of entries that a call of ``op`` computes or reads one by one.

    It is 0 for products, for ops that only move entries, and for ops that run graphs: the equations of the
    graph count there.

    operands : the number of entries of each operand.
    """
    if op.name in PRODUCTS or op.entry_map.moves or op.family in RUN_GRAPHS:
        return 0
    return result_count if op.elementwise else max((result_count, *operands))


#: Families of ops that run graphs.
RUN_GRAPHS = ("control", "compiled")
#: Ops whose result is their operand, in a layout that says which entries it has.
DEFERRED = ("bracket", "embed")


def of(op: Op, operands: Facts, results: Sequence[Aval], params: Params, *, dense: bool = False) -> Cost:
    """Cost of a call of ``op``, from avals, with the entries in their supports; the call is not carried out.

    Ops that may give a view of their operand (`gives_view`) are taken to cost nothing.

    operands : the Aval of each operand, or a number.
    dense : True for the cost of the same call with every entry.
    """
    if dense:
        operands, results = list(map(_dense, operands)), list(map(_dense, results))
    if gives_view(op) or (not dense and op.name in DEFERRED):
        return Cost()
    result_count = sum(map(_held, results))
    new = sum(_held(r) * r.dtype.itemsize for r in results)
    if op.name in PRODUCTS:
        return Cost(*PRODUCTS[op.name](*operands, **params), 0, new)
    if steps := multiply_adds(op.name, operands):
        return Cost(0, steps, 0, new)
    sizes = [_held(x) for x in operands if isinstance(x, Aval)]
    return Cost(entries=entrywise(op, sizes, result_count), bytes=new)


def _dense(aval: Aval | complex) -> Any:
    """Aval with the support of every entry; a number is returned unchanged."""
    return Aval(aval.shape, aval.dtype) if isinstance(aval, Aval) else aval


_views: dict[Any, bool] = {}


def gives_view(op: Op) -> bool:
    """True if ``op`` may return a view of its operand: it moves entries and a sample does so."""
    is_view = _views.get(op)
    if is_view is None:
        is_view = _views[op] = bool(op.entry_map.moves and op.samples and _shares(op))
    return is_view


def _shares(op: Any) -> bool:
    """True if, on one of the samples of ``op``, the result shares memory with an argument."""
    from iverson.core.op import Sampler

    for sample in op.samples(Sampler()):
        arrays = [a for a in sample.args if isinstance(a, np.ndarray)]
        out = op.forward(*sample.args, **sample.params)
        if isinstance(out, np.ndarray) and any(np.may_share_memory(out, a) for a in arrays):
            return True
    return False


def _matmul(a: Aval, b: Aval) -> tuple[int, int]:
    """Number of matrix products, and of multiply-adds, of (..., m, k) times (..., k, n).

    Each entry of a is multiplied with n entries of b, and each of b with m of a; the smaller total counts.
    """
    batch = prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    products = 1 if len(b.shape) == 2 else batch
    if NOTHING in (a.support, b.support):
        return 0, 0
    if isinstance(a.support, Stored) and isinstance(b.support, Stored) and len(a.shape) == len(b.shape) == 2:
        return products, _pairs(a.support.pattern, b.support.pattern)
    of_a = _held(a) * n * batch // max(prod(a.shape[:-2]), 1)
    of_b = _held(b) * m * batch // max(prod(b.shape[:-2]), 1)
    if isinstance(a.support, Box) and isinstance(b.support, Box):
        (low, high), (first, last) = (_along(x, axis) for x, axis in ((a, -1), (b, -2)))
        inner = max(min(high, last) - max(low, first), 0)
        return products, of_a * of_b * inner // max((high - low) * (last - first) * m * n * batch, 1)
    return products, min(of_a, of_b, m * k * n * batch)


def _along(x: Aval, axis: int) -> tuple[int, int]:
    """Start and stop along ``axis`` of the smallest region that contains the support of ``x``."""
    region = entries.hull(x.support, x.shape)
    return region.start[axis], region.stop[axis]


def _held(x: Aval) -> int:
    """Number of entries of ``x`` that are computed: the size of its support, or all entries for a bracket."""
    return entries.size(FULL if isinstance(x.support, Bracket) else x.support, x.shape)


def _pairs(p: Places, q: Places) -> int:
    """Number of multiply-adds of p @ q: for each k, entries of p in column k times those of q in row k."""
    if p.ndim != 2 or q.ndim != 2:
        return int(min(p.count * prod(q.shape[1:]), q.count * p.shape[0]))
    columns = np.bincount(p.coordinates[1], minlength=p.shape[1])
    rows = np.bincount(q.coordinates[0], minlength=p.shape[1])
    return sum((columns * rows).tolist())


def _sampled(a: Aval, b: Aval, *at: Shaped, pattern: Any = None) -> tuple[int, int]:
    """Number of products (0 or 1), and of multiply-adds, of an op that computes single entries of a product.

    Each entry is a sum over the stored entries of a row of ``a`` or a column of ``b``, on average, whichever
    is less.

    at : index arrays of the computed entries; without these, ``pattern`` gives the entries.
    """
    if NOTHING in (a.support, b.support):
        return 0, 0
    row_count = min(_held(a) * a.shape[-1] // max(prod(a.shape), 1), a.shape[-1])
    across = min(_held(b) * b.shape[-2] // max(prod(b.shape), 1), b.shape[-2])
    return 1, (at[0].shape[0] if at else pattern.count) * min(row_count, across)


#: The ops that are products: from operands and parameters to how many there are, and their multiply-adds.
PRODUCTS: dict[str, Callable[..., tuple[int, int]]] = {
    "matmul": _matmul,
    "product_at": _sampled,
    "sampled_product": _sampled,
}
