"""The Kronecker product of two arrays of one rank, and its cotangents for partial demands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core import dtypes, relations
from iverson.core.aval import Aval
from iverson.core.entries import FACTORED, FULL, NOTHING, Entries, LowRank, Stored, in_products
from iverson.core.entry_map import Call, EntryMap
from iverson.core.errors import ShapeError
from iverson.core.op import Op, Rule, Sample
from iverson.core.protocols import Namespace, Params, Shaped, Value
from iverson.core.relations import Factor, Relation
from iverson.core.shapes import Shape
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels.sparse import merging, sparse_kron
from iverson.layouts import CooPattern, Pattern, is_strided
from iverson.layouts.block_diagonal import of_all
from iverson.layouts.pattern_symbols import follows
from iverson.ops.rules.batching import Examples, next_axis
from iverson.ops.rules.notation import Indexed, Language, lazy_te

if TYPE_CHECKING:
    from iverson.te import Expr


def _abstract(a: Shaped, b: Shaped) -> Aval:
    if len(a.shape) != len(b.shape):
        raise ShapeError("kron", "b", got=f"shape {b.shape}", expected=f"{len(a.shape)} axes, as a has")
    shape = tuple(m * n for m, n in zip(a.shape, b.shape, strict=True))
    return Aval(shape, dtypes.result_type(a, b))


@derived
def kron_factors(a: Value, b: Value) -> tuple[Any, Any]:
    """Pair of ``a`` and ``b`` with axes of extent 1 in between: their product, reshaped, is the Kronecker
    product.

    The axes of ``a`` are the even ones of the product, those of ``b`` the odd ones.
    """
    return _in_turn(namespace, a, 0), _in_turn(namespace, b, 1)


def _in_turn(F: Namespace, x: Value, i: int) -> Any:
    """Factor ``i`` with axes of extent 1 for the axes of the other factor, which alternate with its own."""
    return F.expand_dims(x, axis=_axes(1 - i, len(x.shape)))


def _axes(i: int, rank: int) -> Shape:
    """Positions of the axes of factor ``i`` (0: even, 1: odd) if the axes of both factors alternate."""
    return tuple(range(i, 2 * rank, 2))


# out[i m + k, j n + l] = a[i, j] b[k, l] for b of shape (m, n): the cotangent of a is the sum over k, l of
# g[(i, k), (j, l)] conj(b[k, l]), that of b the sum over i, j.
def _contracted(F: Namespace, i: int, g: Value | LowRank, _y: Shaped, a: Shaped, b: Shaped) -> Any:
    """The cotangent of factor ``i`` from the cotangent g of the product."""
    if isinstance(g, LowRank):
        factors = _factors(F, i, g, _y, a, b)
        return F.matmul(factors.left, factors.right)
    g = F.reshape(g, shape=tuple(n for pair in zip(a.shape, b.shape, strict=True) for n in pair))
    other = _in_turn(F, F.conj((b, a)[i]), 1 - i)
    return F.sum(F.multiply(g, other), axis=_axes(1 - i, len(a.shape)), keepdims=False)


# Of g = L R: the sum over k and r of L[(i, k), r] times the sum over l of conj(b[k, l]) R[r, (j, l)], so that
# no entry of g is formed.
def _factors(F: Namespace, i: int, g: Value | LowRank, _y: Shaped, a: Shaped, b: Shaped) -> Any:
    """The cotangent of factor ``i`` as a `LowRank`, if g is one; else NotImplemented."""
    if not isinstance(g, LowRank):
        return NotImplemented
    rank = g.left.shape[1]
    other = (b, a)[i]
    lhs = F.reshape(g.left, shape=(a.shape[0], b.shape[0], rank))
    rhs = F.reshape(g.right, shape=(rank, a.shape[1], b.shape[1]))
    if i == 1:
        lhs, rhs = F.permute_dims(lhs, axes=(1, 0, 2)), F.permute_dims(rhs, axes=(0, 2, 1))
    (rows, along, _), (_, columns, within) = lhs.shape, rhs.shape
    sums = F.matmul(F.reshape(rhs, shape=(rank * columns, within)), F.mH(other))
    sums = F.permute_dims(F.reshape(sums, shape=(rank, columns, along)), axes=(2, 0, 1))
    return LowRank(F.reshape(lhs, shape=(rows, along * rank)), F.reshape(sums, shape=(along * rank, columns)))


def _within(
    F: Namespace, _rule: Rule, wanted: Entries, i: int, g: Value | LowRank, y: Shaped, a: Shaped, b: Shaped
) -> Any:
    """Compute only the part ``wanted`` of the cotangent of factor ``i``, or return NotImplemented.

    If only matrix products read the part, the result is a `LowRank` (NotImplemented if ``g`` is none). Any
    other part must be a pattern over all axes: the result is a sparse value with the entries of this
    pattern, which are computed from the stored entries of the other factor.
    """
    if in_products(wanted):
        return _factors(F, i, g, y, a, b)
    if not isinstance(wanted, Stored) or wanted.pattern.ndim != len(a.shape):
        return NotImplemented
    pattern = wanted.pattern
    if isinstance(g, LowRank):
        factors = _factors(F, i, g, y, a, b)
        return F.matmul_on(factors.left, factors.right, pattern)
    values = F.kron_sampled(g, F.conj((b, a)[i]), pattern=pattern, of=i)
    return F.from_values(values, pattern=pattern)


class Pairwise(EntryMap):
    """Entry map of the Kronecker product: an entry is the product of an entry of a and an entry of b."""

    products = True

    def demand(
        self, _op: Op, demands: Sequence[Entries], inputs: Sequence[Shaped], out: Shaped, _: Params
    ) -> Entries:
        """The pattern of products of demanded entries of one factor and stored entries of the other one.

        If the other factor may change where it is zero now, every entry counts: the cotangent is then read
        only in products, and it is never formed if it is a product itself.
        """
        shape, patterns = out.shape, []
        for k, need in enumerate(demands):
            if need is not NOTHING:
                pair = _known(need, inputs[k].shape), _other(inputs[1 - k])
                if None in pair:
                    return FACTORED if len(shape) == 2 else FULL
                if not any(isinstance(x, Pattern) for x in pair):
                    return FULL
                patterns.append(_pairs(*(pair if k == 0 else pair[::-1])))
        return Stored(merging.union(patterns, patterns[0]), products=len(shape) == 2)

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the entry of a at index // extent of b along each axis, or of b at index % extent."""
        factors = []
        for k, n in enumerate(call.inputs[1].shape):
            index = np.arange(call.out.shape[k])
            factors.append(Factor(relations.Indexed(index % n if i else index // max(n, 1)), (k,), (k,)))
        return Relation.of(call.out.shape, call.inputs[i].shape, *factors)


def _pairs(a: Pattern | Shape, b: Pattern | Shape) -> Pattern:
    """Pattern of all products of an entry of ``a`` and an entry of ``b``; a shape stands for all."""

    def make(*patterns: Pattern) -> Pattern:
        remaining = iter(patterns)
        pair = (x if isinstance(x, tuple) else next(remaining) for x in (a, b))
        return sparse_kron.pairs(*sparse_kron.operands(*pair)).pattern

    key = "kron", *(x if isinstance(x, tuple) else None for x in (a, b))
    pattern = follows(key, make, *(x for x in (a, b) if isinstance(x, Pattern)))
    assert pattern is not None
    return pattern


def _known(need: Entries, shape: Shape) -> Pattern | Shape:
    """Demanded entries of a factor: a pattern over all its axes; else ``shape``, for all entries."""
    return need.pattern if isinstance(need, Stored) and need.pattern.ndim == len(shape) else shape


def _other(x: Shaped) -> Any:
    """Possibly nonzero entries of the other factor: a pattern, or a shape for all; None if not known."""
    if is_strided(x):
        return x.shape
    support = getattr(x, "support", None)
    return support.pattern if isinstance(support, Stored) and support.pattern.ndim == len(x.shape) else None


def _batched(F: Namespace, examples: Examples, a: Value, b: Value) -> Any:
    """The Kronecker product of each example.

    A factor that all examples share becomes a batch of one: its product with the other factor has the axis of
    the examples.
    """
    a, b = (x if of else F.expand_dims(x, axis=(0,)) for x, of in zip((a, b), examples.of, strict=True))
    if not all(examples.of):
        return F.kron(a, b)
    shape = tuple(m * n for m, n in zip(a.shape[1:], b.shape[1:], strict=True))
    product = F.multiply(_examples_in_turn(F, a, 0), _examples_in_turn(F, b, 1))
    return F.reshape(product, shape=(examples.size, *shape))


def _examples_in_turn(F: Namespace, x: Value, i: int) -> Any:
    """Same result as `_in_turn` for a batch, whose first axis stays in front."""
    return F.expand_dims(x, axis=next_axis(_axes(1 - i, x.ndim - 1)))


def _batched_sampled(
    F: Namespace, examples: Examples, g: Value, other: Value, *, pattern: Pattern, of: int
) -> Any:
    """The op ``kron_sampled`` for each example: the sums for all entries of a factor, read at the pattern."""
    g, other = examples.each(F, (g, other))
    pairs = ((m, n) if of == 0 else (n, m) for m, n in zip(pattern.shape, other.shape[1:], strict=True))
    g = F.reshape(g, shape=(examples.size, *(n for pair in pairs for n in pair)))
    terms = F.multiply(g, _examples_in_turn(F, other, 1 - of))
    sums = F.sum(terms, axis=next_axis(_axes(1 - of, pattern.ndim)), keepdims=False)
    values = F.values_at(sums, pattern=of_all(pattern, examples.size))
    return F.reshape(values, shape=(examples.size, *pattern.stored_shape))


def _in_notation(T: Language, a: Indexed, b: Indexed) -> Any:
    def entry(*at: Expr) -> Any:
        outer = tuple(i // n for i, n in zip(at, b.shape, strict=True))
        return a[outer] * b[tuple(i % n for i, n in zip(at, b.shape, strict=True))]

    return T.compute(_abstract(a, b).shape, entry)


def _sampled_abstract(g: Shaped, other: Shaped, *, pattern: Pattern, of: int) -> Aval:
    shape = tuple(m * n for m, n in zip(pattern.shape, other.shape, strict=False))
    if g.shape != shape or len(shape) != len(other.shape):
        raise ShapeError(
            "kron_sampled", "g", got=f"shape {g.shape}", expected=f"{shape}, that of the Kronecker product"
        )
    return Aval(pattern.stored_shape, dtypes.result_type(g, other))


# out[p] = sum over the entries q of the other factor of g[(p, q)] other[q]: linear in both. With w = the
# cotangent on the pattern, that of g is the product of w and conj(other), that of other a sum over w.
def _sampled_vjp_g(
    F: Namespace, c: Value, _y: Shaped, _g: Shaped, other: Value, *, pattern: Pattern, of: int
) -> Any:
    pair = F.from_values(c, pattern=pattern), F.conj(other)
    return F.kron(*(pair if of == 0 else pair[::-1]))


def _sampled_vjp_other(
    F: Namespace, c: Value, _y: Shaped, g: Value, _other: Shaped, *, pattern: Pattern, of: int
) -> Any:
    w = F.from_values(c, pattern=pattern)
    ct = _contracted(F, 1 - of, g, _y, *((w, _other) if of == 0 else (_other, w)))
    return F.conj(ct)


def _sampled_within(
    F: Namespace,
    _rule: Rule,
    wanted: Entries,
    i: int,
    c: Value,
    _y: Shaped,
    g: Value,
    other: Value,
    *,
    pattern: Pattern,
    of: int,
) -> Any:
    """The cotangent of ``other`` at a pattern; NotImplemented for other parts and for g."""
    if i == 0 or not isinstance(wanted, Stored) or wanted.pattern.ndim != len(other.shape):
        return NotImplemented
    w = F.from_values(c, pattern=pattern)
    values = F.kron_sampled(F.conj(g), w, pattern=wanted.pattern, of=1 - of)
    return F.from_values(values, pattern=wanted.pattern)


define(
    Op(
        name="kron",
        forward=np.kron,
        abstract=_abstract,
        vjp=(
            lambda F, g, _y, _a, b: _contracted(F, 0, g, _y, _a, b),
            lambda F, g, _y, a, _b: _contracted(F, 1, g, _y, a, _b),
        ),
        linear_in=((0,), (1,)),
        entry_map=Pairwise(),
        vjp_at=_within,
        te=lazy_te(_in_notation),
        batch=_batched,
        samples=lambda s: [
            Sample((s((2, 3)), s((3, 2)))),
            Sample((s((3,)), s((2,)))),
            Sample((s((2, 1, 2)), s((1, 3, 2)))),
            Sample((s((0, 2)), s((2, 2)))),
        ],
    )
)

define(
    Op(
        name="kron_sampled",
        forward=sparse_kron.kron_sampled,
        abstract=_sampled_abstract,
        vjp=(_sampled_vjp_g, _sampled_vjp_other),
        linear_in=((0,), (1,)),
        vjp_at=_sampled_within,
        batch=_batched_sampled,
        samples=lambda s: [
            Sample(
                (s((4, 6)), s((2, 2))),
                {"pattern": CooPattern((2, 3), np.array([[0, 1, 1], [2, 2, 0]])), "of": 0},
            ),
            Sample((s((4, 6)), s((2, 2))), {"pattern": CooPattern((2, 3), np.array([[1], [1]])), "of": 1}),
        ],
    )
)
