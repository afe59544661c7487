"""Merging of matrix products: one for several with a shared factor, for repeated rows, or for many vectors.

    add_n(matmul(a, x), matmul(a, y))           ->  matmul(a, add_n(x, y))      also of the left factors
    add_n(matmul(a, x), matmul(b, y))           ->  matmul([a b], [x; y])       of few columns and rows
    matmul(broadcast_to(x), b)                  ->  broadcast_to(matmul(x, b))  where rows of the left factor
                                                                                (columns of the right) repeat
    matmul(a, x), x of shape (B, k, 1)          ->  reshape(matmul(reshape(x), permute_dims(a)))

Each rewrite leaves fewer products, or a product of fewer multiply-adds. A batch of left factors with one
right factor is merged at lowering (`graph.lowering.program_segments`), where that costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from iverson.autograd.node import Where
from iverson.core.dtypes import is_half
from iverson.core.entries import Stored
from iverson.core.shapes import concat_offsets
from iverson.graph.ir.nodes import AnyOperand, Equation, Operand, Value
from iverson.graph.passes.rewriting import WRITTEN, After, Match, Rewriting, Writer, rule
from iverson.layouts import is_strided


def _is_dense(x: Operand) -> bool:
    return type(x) is Value and not isinstance(x.aval.support, Stored)


def _is_sum(e: Equation) -> bool:
    (v,) = e.results
    return all(_is_dense(x) and (x.shape, x.dtype) == (v.shape, v.dtype) for x in e.operands)


# --- sums -----------------------------------------------------------------------------------------------


def _of_one_factor(m: Match) -> After:
    """Write a sum in which terms that share a factor are multiplied with it once, and thin products are one;
    None if there are no two of them.

    A sum that is only a term of another one is left to that.
    """
    writer, e = m.writer, m.equation
    outer = writer.reader(e.results[0])
    is_term = outer is not None and outer.op.name in ("add", "add_n") and _is_sum(outer)
    terms = _folded(writer, e.operands, e.where) if _is_sum(e) and not is_term else None
    if terms is None:
        return None
    if len(terms) == 1:
        product = writer.made[terms[0]]
        writer.equations.remove(product)
        writer.keep(replace(product, results=e.results))
    else:
        writer.write("add_n", *terms, where=e.where, result=e.results[0])
    return WRITTEN


def _folded(writer: Writer, operands: Sequence[AnyOperand], where: Where | None) -> list[Any] | None:
    """The terms of a sum, fewer than there were; None where no two share a factor."""
    before = terms = _terms(writer, operands)
    for side in (0, 1):
        terms = _shared(writer, terms, side, where)
    terms = _side_by_side(writer, terms, where)
    return None if len(terms) == len(before) else terms


def _terms(writer: Writer, operands: Sequence[AnyOperand]) -> list[Any]:
    """The terms of a sum, and of sums among them that nothing else reads."""
    terms: list[Any] = []
    for x in operands:
        inner = writer.by(x, "add", alone=True) or writer.by(x, "add_n", alone=True)
        terms += _terms(writer, inner.operands) if inner is not None and _is_sum(inner) else [x]
    return terms


def _total(writer: Writer, operands: Sequence[AnyOperand], where: Where | None) -> Any:
    """The sum of factors, which may be products of a shared factor themselves."""
    terms = _folded(writer, operands, where) or operands
    return terms[0] if len(terms) == 1 else writer.write("add_n", *terms, where=where)


def _shared(writer: Writer, terms: Sequence[Any], side: int, where: Where | None) -> list[Any]:
    """Terms, with one product in place of products that share the factor on a side (0 left, 1 right)."""
    groups: dict[Any, list[int]] = {}
    for n, x in enumerate(terms):
        product = writer.by(x, "matmul", alone=True)
        if product is not None:
            other = product.operands[1 - side]
            groups.setdefault((product.operands[side], other.shape, other.dtype), []).append(n)
    new_terms = list(terms)
    for (factor, _, _), at in groups.items():
        if len(at) < 2:
            continue
        factors = [writer.made[terms[n]].operands[1 - side] for n in at]
        total = _total(writer, factors, where)
        merged = writer.write("matmul", *((factor, total) if side == 0 else (total, factor)), where=where)
        writer.reads[merged] = 1
        new_terms[at[0]] = merged
        for n in at[1:]:
            new_terms[n] = None
    return [x for x in new_terms if x is not None]


# --- thin products ----------------------------------------------------------------------------------------

#: A product is thin if its factors together have at most this part of its result's entries.
THIN = 1 / 4


class _Thin(NamedTuple):
    """A thin product in a sum: its place there, it, its factors, and whether it is transposed."""

    at: int
    term: Value
    a: Value
    b: Value
    transposed: bool


def _side_by_side(writer: Writer, terms: Sequence[AnyOperand], where: Where | None) -> list[Any]:
    """Terms, with one product of factors side by side in place of thin products, so that the sum is written
    once: by far the most of what they take is to write and to read it.

    The factors of one product together have at most as many entries as the sum.
    """

    def transpose(x: Value) -> Value:
        return writer.write("permute_dims", x, where=where, axes=(1, 0))

    groups: list[list[_Thin]] = []
    entries = 0
    for product in filter(None, (_thin(writer, x, n) for n, x in enumerate(terms))):
        size = prod(product.a.shape) + prod(product.b.shape)
        if not groups or entries + size > prod(product.term.shape):
            groups.append([])
            entries = 0
        groups[-1].append(product)
        entries += size
    new_terms: list[AnyOperand | None] = list(terms)
    for group in groups:
        if len(group) < 2:
            continue
        columns = [t.b if t.transposed else transpose(t.a) for t in group]
        rows = [transpose(t.a) if t.transposed else t.b for t in group]
        a, b = (
            writer.write(
                "concat", *factors, where=where, axis=0, offsets=concat_offsets([x.shape[0] for x in factors])
            )
            for factors in (columns, rows)
        )
        merged = writer.write("matmul", transpose(a), b, where=where)
        writer.reads[merged] = 1
        for t in group:
            new_terms[t.at] = None
        new_terms[group[0].at] = merged
    return [x for x in new_terms if x is not None]


def _thin(writer: Writer, x: AnyOperand, at: int) -> _Thin | None:
    """The product of two matrices that a term is, or is the transpose of, if it is thin; else None."""
    transposition = writer.by(x, "permute_dims", alone=True)
    product = writer.by(x if transposition is None else transposition.operands[0], "matmul", alone=True)
    if (
        type(x) is not Value
        or product is None
        or (transposition is not None and transposition.params["axes"] != (1, 0))
    ):
        return None
    a, b = product.operands
    if not (_is_dense(a) and _is_dense(b)) or not len(a.shape) == len(b.shape) == 2 or is_half(x.dtype):
        return None
    if prod(a.shape) + prod(b.shape) > THIN * prod(x.shape):
        return None
    return _Thin(at, x, a, b, transposition is not None)


# --- repeated rows, batches of vectors ------------------------------------------------------------------


def _of_one_line(m: Match) -> After:
    """Write a product of one row (or column), broadcast, if all rows of a factor are equal; else None."""
    a, b = m["a"], m["b"]
    if not _is_dense(a) or not _is_dense(b):
        return None
    writer, e = m.writer, m.equation
    for side, axis in ((0, -2), (1, -1)):
        once = _once(writer, e.operands[side], axis)
        if once is not None:
            (v,) = e.results
            product = writer.write("matmul", *((once, b) if side == 0 else (a, once)), where=e.where)
            writer.write("broadcast_to", product, where=e.where, result=v, shape=v.shape)
            return WRITTEN
    return None


def _of_many_vectors(m: Match) -> After:
    """Write a matrix times a batch of vectors as one product of matrices; None for other products."""
    a, b, writer, e = m["a"], m["b"], m.writer, m.equation
    if not _is_dense(a) or not _is_dense(b):
        return None
    batch, (v,) = b.shape[:-2], e.results
    if b.shape[-1] != 1 or len(a.shape) != 2 or prod(batch) <= 1:
        return None
    vectors = writer.write("reshape", b, where=e.where, shape=(prod(batch), b.shape[-2]))
    transpose = writer.write("permute_dims", a, where=e.where, axes=(1, 0))
    product = writer.write("matmul", vectors, transpose, where=e.where)
    writer.write("reshape", product, where=e.where, result=v, shape=v.shape)
    return WRITTEN


def _once(writer: Writer, x: Value, axis: int) -> Value | None:
    """A factor with extent 1 along an axis along which all its lines are the same; None for others."""
    if x.shape[axis] < 2:
        return None
    broadcast = writer.by(x, "broadcast_to")
    if broadcast is None:
        constant: Any = writer.constants.get(x)
        if not is_strided(constant) or constant.strides[axis] != 0:
            return None
        once: Value = writer.constant(constant[..., :1] if axis == -1 else constant[..., :1, :])
        return once
    (source,) = broadcast.operands
    if type(source) is not Value or (len(source.shape) >= -axis and source.shape[axis] != 1):
        return None
    shape = list(x.shape)
    shape[axis] = 1
    if source.shape == tuple(shape):
        return source
    return writer.write("broadcast_to", source, where=broadcast.where, shape=tuple(shape))


folding = Rewriting(
    "folding",
    rule("add(*products) -> matmul(a, add_n(*factors))", _of_one_factor),
    rule("add_n(*products) -> matmul(a, add_n(*factors))", _of_one_factor),
    rule("matmul(a, b) -> broadcast_to(matmul(line, b))", _of_one_line),
    rule("matmul(a, b) -> reshape(matmul(vectors, permute_dims(a)))", _of_many_vectors),
    drops=True,
)


__all__ = ["folding"]
