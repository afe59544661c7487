"""Products of stored entries with dense matrices, as programs carry them out: on values and index arrays.

They are what `iverson.graph.on_patterns` makes of products with a sparse operand; there is no rule for their
derivatives, since graphs are differentiated before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.op import Op

Array = np.ndarray[Any, Any]


def _product_abstract(values: Any, rows: Any, columns: Any, b: Any, *valid: Any, count: int) -> Aval:
    return Aval((count, b.shape[1]), dtypes.result_type(values, b))


def _product(values: Array, rows: Array, columns: Array, b: Array, *valid: Array, count: int) -> Array:
    out = np.zeros((count, b.shape[1]), np.result_type(values, b))
    for own in valid:
        values, rows, columns = values[own], rows[own], columns[own]
    np.add.at(out, rows, values[:, None] * b[columns])
    return out


def _product_loops(
    T: Any, aval: Any, values: Any, rows: Any, columns: Any, b: Any, *valid: Any, count: int
) -> Any:
    def point(e: Any, j: Any) -> Any:
        term = T.F.astype(values[e], aval.dtype) * T.F.astype(b[columns[e], j], aval.dtype)
        return (rows[e], j), T.F.bracket(valid[0][e], term) if valid else term

    return T.scatter(aval.shape, (values.shape[0], aval.shape[1]), point)


#: out[rows[e], j] += values[e] b[columns[e], j] for each entry e: a matrix of ``count`` rows times b. A last
#: operand says which entries count.
stored_product = Op(name="stored_product", forward=_product, abstract=_product_abstract, loops=_product_loops)


def _samples_abstract(a: Any, b: Any, rows: Any, columns: Any) -> Aval:
    return Aval(rows.shape, dtypes.result_type(a, b))


def _samples(a: Array, b: Array, rows: Array, columns: Array) -> Array:
    return np.asarray(np.einsum("ej,je->e", a[rows], b[:, columns]), np.result_type(a, b))


def _samples_loops(T: Any, aval: Any, a: Any, b: Any, rows: Any, columns: Any) -> Any:
    k = T.reduce_axis((0, a.shape[1]))

    def entry(e: Any) -> Any:
        return T.sum(T.F.astype(a[rows[e], k], aval.dtype) * T.F.astype(b[k, columns[e]], aval.dtype), axis=k)

    return T.compute(aval.shape, entry)


#: out[e] = sum over k of a[rows[e], k] b[k, columns[e]]: the entries of a product at some places.
stored_samples = Op(name="stored_samples", forward=_samples, abstract=_samples_abstract, loops=_samples_loops)

#: The index of each entry of a pattern along an axis.
index_array = Op(
    name="index_array",
    forward=lambda *, pattern, axis: pattern.index_array(axis),
    abstract=lambda *, pattern, axis: Aval((pattern.count,), pattern.index_dtype),
)

#: Those that are products.
STORED_OPS = (stored_product, stored_samples)


def stored_work(e: Any) -> int:
    """The multiply-adds of an equation of one of these."""
    width = e.results[0].shape[1] if e.op is stored_product else e.operands[0].shape[1]
    return int(e.operands[-1 if e.op is stored_samples else 1].shape[0] * width)


__all__ = ["STORED_OPS", "index_array", "stored_product", "stored_samples", "stored_work"]
