"""Compiled loops over the stored entries of rows: the product with a matrix, and one sampled at entries.

``i`` runs over rows, ``p`` over the entries of row i, ``j`` over the columns of a dense operand, in lanes.
Kernels are compiled per dtype, index dtype and width when first called; indices are checked on every call by
the code generator's own plan. Nothing here knows of layouts.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: Below this many products, the compiled loop is not worth its tens of milliseconds of compiling.
WORTHWHILE = 1 << 18


def compiled_for(count: int, width: int, *dtypes: Any) -> bool:
    """Whether a product of ``count`` entries with rows of ``width`` takes the compiled loop."""
    return dtypes[0].kind == "f" and len(set(dtypes)) == 1 and count * width >= WORTHWHILE


def rows_times_matrix(indptr: Array, indices: Array, values: Array, b: Array) -> Array:
    """out[i, j] = sum over p of values[p] b[indices[p], j]."""
    out = np.empty((indptr.size - 1, b.shape[1]), values.dtype)
    kernel = _spmm(values.dtype, indptr.dtype, b.shape[1])
    kernel(indptr, indices, np.ascontiguousarray(values), np.ascontiguousarray(b), out, n=len(out), m=len(b))
    return out


def products_at_entries(indptr: Array, indices: Array, a: Array, b: Array) -> Array:
    """out[p] = sum over j of a[row p, j] b[indices[p], j]; a and b hold rows."""
    out = np.empty(indices.size, a.dtype)
    kernel = _sddmm(a.dtype, indptr.dtype, a.shape[1])
    kernel(indptr, indices, np.ascontiguousarray(a), np.ascontiguousarray(b), out, n=len(a), m=len(b))
    return out


@cache
def _spmm(dtype: Any, index: Any, width: int) -> Any:
    from iverson.codegen.nodes import Buffer, Call, Load, Local, Store, Update, Var

    nest = _Nest(dtype, index, width)
    i, j, p = Var("i"), Var("j"), Var("p")
    values, b = Buffer("values", dtype, ("z",)), Buffer("b", dtype, ("m", width))
    out = Buffer("out", dtype, ("n", width), "out")
    term = Call("multiply", (Load(values, (p,)), Load(b, (nest.column, j))), dtype)
    body = nest.across(
        nest.zero(), nest.entries(Update("acc", "sum", term)), Store(out, (i, j), Local("acc", dtype))
    )
    return nest.compiled("spmm", (values, b, out), body)


@cache
def _sddmm(dtype: Any, index: Any, width: int) -> Any:
    from iverson.codegen.nodes import Buffer, Call, Load, Local, Store, Update, Var

    nest = _Nest(dtype, index, width)
    i, j, p = Var("i"), Var("j"), Var("p")
    a, b = Buffer("a", dtype, ("n", width)), Buffer("b", dtype, ("m", width))
    out = Buffer("out", dtype, ("z",), "out")
    term = Call("multiply", (Load(a, (i, j)), Load(b, (nest.column, j))), dtype)
    body = nest.entries(
        nest.zero(), nest.across(Update("acc", "sum", term)), Store(out, (p,), Local("acc", dtype))
    )
    return nest.compiled("sddmm", (a, b, out), body)


class _Nest:
    """The pieces both loops are made of."""

    def __init__(self, dtype: Any, index: Any, width: int) -> None:
        from iverson.codegen.nodes import INT64, Buffer, Load, Var

        self.dtype, self.width = dtype, width
        self.rows, self.columns = Buffer("rows", index, ("r",)), Buffer("columns", index, ("z",))
        self._int = INT64
        self.column = self._whole(Load(self.columns, (Var("p"),)))

    def _whole(self, load: Any) -> Any:
        from iverson.codegen.nodes import Cast

        return load if load.dtype == self._int else Cast(load, self._int)

    def entries(self, *body: Any) -> Any:
        from iverson.codegen.nodes import Call, Const, Load, Loop, Var

        i = Var("i")
        after = Call("add", (i, Const(1)), self._int)
        first, last = (self._whole(Load(self.rows, (at,))) for at in (i, after))
        return Loop("p", first, last, body)

    def across(self, *body: Any) -> Any:
        from iverson.codegen.nodes import Const, Loop

        return Loop("j", Const(0), Const(self.width), body, mark="vector", factor=4)

    def zero(self) -> Any:
        from iverson.codegen.nodes import Const, Declare

        return Declare("acc", self.dtype, Const(0.0, self.dtype))

    def compiled(self, name: str, buffers: tuple[Any, ...], *body: Any) -> Any:
        from iverson.codegen.kernel import compile_kernel
        from iverson.codegen.nodes import Const, Kernel, Loop, Size

        rows = Loop("i", Const(0), Size("n"), body, mark="parallel")
        return compile_kernel(
            Kernel(name, (self.rows, self.columns, *buffers), (rows,), ("r", "z", "n", "m"))
        )
