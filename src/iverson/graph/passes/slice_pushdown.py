"""Slice pushdown: a slice of a value computed from sparse operands is computed from slices of the operands.

    %2 = multiply(%x, %s)                         %2 = index_basic[key=(:2, :)](%x)
    %3 = to_dense(%2)                      ->     %3 = index_basic[key=(:2, :)](%s)
    %4 = index_basic[key=(:2, :)](%3)             %4 = multiply(%2, %3)
                                                  %5 = to_dense(%4)

So are rows and columns of a product of a sparse matrix, lines of a sum, and single entries (`gather`) of an
elementwise result, or of a product with an array (`product_at`, also for rows at index arrays). A value of
which all is read, in one part or in several, is computed as a whole. For dense values `support_and_demand`
does this. Parts of sparse values are sparse, on patterns that follow from theirs when the program runs.
Single entries are not sparse: where a factor stores none, they are selected away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeGuard

import numpy as np

from iverson.core.entries import Stored
from iverson.core.op import frozen
from iverson.core.python.exact_keys import exact
from iverson.graph.ir.nodes import AnyOperand, Equation, Graph, Operand, Value, values_of
from iverson.graph.ir.operations import is_pure
from iverson.graph.ir.regions import rewritten, substituted
from iverson.graph.passes.rewriting import Writer
from iverson.kernels import index_keys
from iverson.layouts import Pattern

Key = tuple[Any, ...]
#: Up to which share entries of a product are computed one by one: each takes longer than one of a row.
FEW = 0.25


def reading(graph: Graph) -> Graph:
    """The graph in which parts of what is computed from sparse values are read before that is computed."""
    if not any(_is_sparse(v) for e in graph.equations for v in values_of(e.operands)):
        return graph
    reader = _Reader(graph)
    for e in graph.equations:
        reader.equation(rewritten(e, reader.known))
    if not reader.known:
        return graph
    return replace(reader.graph(graph), outputs=substituted(graph.outputs, reader.known))


def _is_sparse(x: AnyOperand) -> TypeGuard[Value]:
    return type(x) is Value and isinstance(x.aval.support, Stored)


def _from_stored(e: Equation | None) -> bool:
    """True if parts of a result can be computed from parts of the operands, one of which is sparse."""
    if e is None or e.op.multiple or not is_pure(e) or not any(map(_is_sparse, e.operands)):
        return False
    if e.op.name == "matmul":
        return all(type(x) is Value and len(x.shape) == 2 for x in e.operands)
    return e.op.name in ("to_dense", "sum") or bool(e.op.elementwise)


class _Reader(Writer):
    """Writer of a graph in which parts of values are computed from parts of operands.

    known : replacements of values that are not made any more.
    shares : the share of each value that is read, 1 or more for all of it.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.known: dict[Value, Operand] = {}
        self.shares: dict[Value, float] = defaultdict(float)
        self.shares.update(dict.fromkeys(values_of(graph.outputs), 1.0))
        for e in reversed(graph.equations):
            share = 1.0
            if e.op.name in ("index_basic", "gather"):
                share = prod(e.results[0].shape) / max(prod(e.operands[0].shape), 1)
                self.shares[e.operands[0]] += share
                self.shares.update(dict.fromkeys(values_of(e.operands[1:]), 1.0))
                continue
            if _from_stored(e):
                share = self.shares[e.results[0]]
            for x in values_of(e.operands):
                self.shares[x] += share
        self._parts: dict[Any, Value] = {}

    def equation(self, e: Equation) -> None:
        """Write an equation, or the computation of the part alone that it reads."""
        x = e.operands[0] if e.operands else None
        if e.op.name in ("index_basic", "gather") and self._is_cut(x):
            part = self._of_part(x, e)
            if part is not None and part.aval.support == e.results[0].aval.support:
                self.known[e.results[0]] = part
                return
        self.keep(e)

    def _is_cut(self, x: AnyOperand | None) -> TypeGuard[Value]:
        """True if ``x`` is not read as a whole, and its parts can be computed from parts of its operands."""
        return type(x) is Value and self.shares[x] < 1 and _from_stored(self.made.get(x))

    def _read(self, x: Operand, how: Equation, **params: Any) -> Operand:
        """Part of x that an equation like ``how`` reads with these parameters; x itself if that is all."""
        if type(x) is not Value or (
            how.op.name == "index_basic" and index_keys.reads_everything(params["key"], x.shape)
        ):
            return x
        key = x, how.op.name, exact(how.operands[1:]), frozen(params)
        if key not in self._parts:
            reader = replace(how, operands=(x, *how.operands[1:]), params=params)
            part = self._of_part(x, reader) if self._is_cut(x) else None
            if part is None:
                part = self.write(how.op.name, *reader.operands, where=how.where, **params)
            self._parts[key] = part
        return self._parts[key]

    def _of_part(self, x: Value, how: Equation) -> Any:
        """Part of x that ``how`` reads, computed from parts of x's operands; None where it can't be."""
        e = self.made[x]
        if how.op.name == "index_basic" and (
            e.op.name in ("matmul", "sum") or all(type(k) is int for k in how.params["key"])
        ):
            return self._of_lines(e, how)
        if e.op.name == "matmul":
            return self._of_product(e, how)
        if e.op.name == "sum" or (how.op.name == "gather" and not _is_of_entries(how)):
            return None
        operands = []
        for y in e.operands:
            params = self._of_operand(y, x.shape, how)
            if params is None:
                return None
            operands.append(y if params == {} else self._read(y, how, **params))
        result = self.write(e.op.name, *operands, where=e.where, **e.params)
        if how.op.name == "gather" and len(operands) > 1:
            for (k,) in (g for g in e.op.groups(len(operands)) if len(g) == 1):
                if _is_sparse(y := e.operands[k]):
                    support: Any = y.aval.support
                    pattern = support.pattern
                    if not pattern.distinct:
                        return None
                    there = self._read(self._stored(y, pattern, how), how, **how.params)
                    result = self.write("where", there, result, 0, where=e.where)
        return result

    def _of_product(self, e: Equation, how: Equation) -> Any:
        """Result of the gather ``how`` on a product ``e`` of a sparse matrix and an array.

        It reads rows, columns or single entries. None for other factors and indices, and if so many entries
        are read (`FEW`) that computing them one by one takes longer than the product.
        """
        (a, b), axes, indices = e.operands, how.params["axes"], how.operands[1:]
        if any(type(n) is not Value or len(n.shape) != 1 for n in indices) or _is_sparse(a) == _is_sparse(b):
            return None
        if len(axes) == 2:
            is_small = self.shares[e.results[0]] <= FEW
            return self.write("product_at", a, b, *indices, where=e.where) if is_small else None
        (axis,) = axes
        if _is_sparse((a, b)[axis]):  # how many entries its lines store is not known: entry by entry
            return self._of_lines_at(e, how, axis) if self.shares[e.results[0]] <= FEW else None
        lines = self._read((a, b)[axis], how, axes=axes)
        if axis == 0:
            return self.write("matmul", lines, b, where=e.where, **e.params)
        transpose = self.write("permute_dims", lines, where=how.where, axes=(1, 0))
        product = self.write("matmul", a, transpose, where=e.where, **e.params)
        return self.write("permute_dims", product, where=how.where, axes=(1, 0))

    def _of_lines_at(self, e: Equation, how: Equation, axis: int) -> Value:
        """Result of the gather ``how`` of rows or columns (``axis``) of a product, entry by entry."""
        count, across = how.results[0].shape
        every = self.constant(np.arange(across))
        flat = []
        for x, shape in ((how.operands[1], (count, 1)), (every, (1, across))):
            x = self.write("reshape", x, where=how.where, shape=shape)
            x = self.write("broadcast_to", x, where=how.where, shape=(count, across))
            flat.append(self.write("reshape", x, where=how.where, shape=(count * across,)))
        entries = self.write("product_at", *e.operands, *flat[:: 1 - 2 * axis], where=e.where)
        return self.write("reshape", entries, where=how.where, shape=(count, across))

    def _stored(self, x: Value, pattern: Pattern, how: Equation) -> Value:
        """Mask of the entries that a sparse value stores: True at each, on its pattern."""
        values = self.write("values_at", x, where=how.where, pattern=pattern)
        comparison = self.write("equal", values, values, where=how.where)
        every = self.write("logical_or", comparison, True, where=how.where)
        return self.write("from_values", every, where=how.where, pattern=pattern)

    def _of_operand(self, y: Operand, shape: Sequence[int], how: Equation) -> Mapping[str, Any] | None:
        """Parameters that read a part of an operand broadcast to a shape: {} for all, None if unknown."""
        if type(y) is not Value or not y.shape:
            return {}
        if y.shape == tuple(shape):
            return how.params
        if how.op.name == "gather" or not _is_of_axes(how.params["key"], shape):
            return None
        key = how.params["key"][len(shape) - len(y.shape) :]
        once = (slice(0, 1, 1), 0)
        return {
            "key": tuple(once[type(k) is int] if n == 1 else k for n, k in zip(y.shape, key, strict=True))
        }

    def _of_lines(self, e: Equation, how: Equation) -> Any:
        """Slice ``how`` of the product, sum or elementwise result ``e``, from slices of its operands.

        Integers in the key are read as slices of one entry first; their axes are removed at the end. None if
        a key has other items, or an operand has no such slice.
        """
        (out,) = e.results
        key = how.params["key"]
        if not _is_of_axes(key, out.shape):
            return None
        wide: Key = tuple(slice(k, k + 1, 1) if type(k) is int else k for k in key)
        reads: list[Any]
        if e.op.name == "matmul":
            a, b = e.operands
            contracted = slice(0, a.shape[1], 1)
            reads = [(a, (wide[0], contracted)), (b, (contracted, wide[1]))]
        elif e.op.name != "sum":
            reads = [
                (x, self._of_operand(x, out.shape, replace(how, params={"key": wide}))) for x in e.operands
            ]
            if any(params is None for _, params in reads):
                return None
            reads = [(x, params.get("key")) for x, params in reads]
        else:
            (x,), axes = e.operands, e.params["axis"]
            remaining = iter(wide)
            of = [
                slice(0, n, 1) if k in axes and not e.params["keepdims"] else next(remaining)
                for k, n in enumerate(x.shape)
            ]
            reads = [(x, tuple(slice(0, n, 1) if k in axes else of[k] for k, n in enumerate(x.shape)))]
        parts = [x if k is None else self._read(x, how, key=k) for x, k in reads]
        result = self.write(e.op.name, *parts, where=e.where, **e.params)
        if wide == key:
            return result
        narrow = tuple(
            0 if type(k) is int else slice(0, n, 1) for k, n in zip(key, result.shape, strict=True)
        )
        return self.write("index_basic", result, where=how.where, key=narrow)


def _is_of_entries(how: Equation) -> bool:
    """True if the index arrays of a gather name single entries: there is one for each axis."""
    x = how.operands[0]
    return len(how.params["axes"]) == len(x.shape)


def _is_of_axes(key: Key, shape: Sequence[int]) -> bool:
    """True if a key has an integer or a slice for each axis."""
    return len(key) == len(shape) and all(type(k) is int or type(k) is slice for k in key)


__all__ = ["reading"]
