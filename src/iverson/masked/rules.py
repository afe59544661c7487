"""Table of masked rules: how each op acts on masked tensors, by its name or by a fact in its record.

A rule works on the plain vectors of specified entries, with ops of the table; so every derivative follows
from those ops' own rules. Where an op needs an entry's place (a reduction along an axis, a product of
matrices), the vector is put in place with a neutral entry where nothing is specified (`axis_rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np

from iverson.array_api.reduction.reductions import mean
from iverson.autograd.node import user_call
from iverson.core.aval import aval_of
from iverson.core.counting import work
from iverson.core.counting.notes import Unspecified
from iverson.core.dispatch import LevelValue, bind, has_entries, unwrap, value_of, zero_filled
from iverson.core.errors import ArgumentTypeError
from iverson.core.op import Op
from iverson.core.protocols import Params, Value
from iverson.core.shapes import broadcast_shapes
from iverson.layouts import Sparse, coalesced, to_strided, warn_dense
from iverson.masked import axis_rules, move_rules, segment_rules, window_rules
from iverson.masked.align import common, entries_at
from iverson.masked.mask import Mask
from iverson.masked.policies import current
from iverson.masked.sparse_masks import Stored, of_numbers, united
from iverson.masked.tensor import MaskedTensor
from iverson.masked.traced_masks import any_computed, mask_of
from iverson.ops import F

Args = tuple[Any, ...]
Rule = Callable[[Op, Args, Params], Any]


def _shape(op: Op, args: Args) -> tuple[int, ...]:
    return broadcast_shapes(op.name, *(a.shape for a in args if hasattr(a, "shape")))


def _masks(args: Args) -> list[Mask]:
    return [a._mask for a in args if isinstance(a, MaskedTensor)]


def elementwise(op: Op, args: Args, params: Params) -> Any:
    """Rule of elementwise ops: a result is specified where all operands are."""
    mask = common(op.name, _masks(args), _shape(op, args))
    operands = tuple(entries_at(a, mask) for a in args)
    # A warning may be of an entry that does not exist, where it is not known which do.
    with np.errstate(all="ignore") if any_computed(args) else nullcontext():
        return MaskedTensor(bind(op, operands, params), mask)


def where(op: Op, args: Args, params: Params) -> Any:
    """Rule of where: a result is specified where the condition is specified and the entry that it chooses is,
    too.
    """
    shape = _shape(op, args)
    if current() == "strict":
        common(op.name, _masks(args), shape)
    possible = None if any_computed(args) else _listed(args, shape)
    mask = _chosen(args, shape) if possible is None else _chosen_of(args, possible)
    out = F.where(*(entries_at(x, mask) for x in args))
    if out.shape != (mask.count,):  # all three are scalars there
        out = F.broadcast_to(out, shape=(mask.count,))
    return MaskedTensor(out, mask)


def _chosen(args: Args, shape: tuple[int, ...]) -> Mask:
    """Mask of the result of `where`, from boolean arrays: the condition and the chosen entry are
    specified.
    """
    there, a, b = (x._mask.array if isinstance(x, MaskedTensor) else True for x in args)
    condition = zero_filled(args[0])
    if not any_computed(args):
        array, other = np.broadcast_arrays(np.logical_and(there, a), np.logical_and(there, b))
        if (equal := np.array_equal(array, other)) or has_entries(condition):
            array = array if equal else np.where(F.to_numpy(condition), array, other)
            return Mask(np.array(np.broadcast_to(array, shape)))
    array = F.where(condition, F.logical_and(there, a), F.logical_and(there, b))
    return mask_of(F.broadcast_to(array, shape=shape))


def _chosen_of(args: Args, possible: Mask) -> Mask:
    """The mask of `_chosen`, as a selection from ``possible``, a mask of all entries that may be
    specified.
    """
    there, a, b = (x._mask.has(possible) if isinstance(x, MaskedTensor) else True for x in args)
    keep, other = (np.broadcast_to(np.logical_and(there, x), (possible.count,)) for x in (a, b))
    if not np.array_equal(keep, other):
        keep = np.where(F.to_numpy(entries_at(args[0], possible)), keep, other)
    return possible if keep.all() else possible.kept(keep)


def _listed(args: Args, shape: tuple[int, ...]) -> Mask | None:
    """Stored mask of ``shape`` that contains all specified entries of the result of `where`; None if there is
    none.

    There are two candidates, the entries of the condition and those of both operands that it chooses from.
    The smaller is returned.
    """
    condition, a, b = (x._mask if isinstance(x, MaskedTensor) else None for x in args)
    listed = condition if isinstance(condition, Stored) else None
    if isinstance(a, Stored) and isinstance(b, Stored):
        total = _broadcast_count(a, shape) + _broadcast_count(b, shape)
        if listed is None or total < _broadcast_count(listed, shape):
            return united(a.stretched(shape), b.stretched(shape))
    return None if listed is None else listed.stretched(shape)


def _broadcast_count(mask: Mask, shape: tuple[int, ...]) -> int:
    """Number of specified entries of a mask that is broadcast to a shape."""
    return mask.count * (prod(shape) // max(prod(mask.shape), 1))


# -- products --------------------------------------------------------------------------------------------


def matmul(op: Op, args: Args, params: Params) -> Any:
    """Rule of matmul: a product counts if both of its factors are specified; a sum without products is
    unspecified.

    Unspecified factors are zeros as a selection has them, so that even times inf they give no term. If both
    factors are masked and a mask is stored, there are no such zeros: where entries are not finite, or lines
    are mostly empty, only the products that count are formed.
    """
    a, b = args
    shape = op.abstract(*map(aval_of, args)).shape
    listed = [isinstance(m, Stored) for m in _masks(args)]
    if listed == [True] or not any(listed) or (all(map(_finite, args)) and not _mostly_empty(shape, *args)):
        mask = _mask_of_product(shape, a, b)
        factors = map(zero_filled if any(listed) else _selection, args)
        return MaskedTensor(mask.pack(bind(op, tuple(factors), params)), mask)
    # 0 * inf is not 0, and lines without entries have an index too: only the products that count are formed.
    lhs, rhs = F.expand_dims(a, axis=(a.ndim,)), F.expand_dims(b, axis=(b.ndim - 2,))
    terms = _products(lhs, rhs)
    return F.sum(terms, axis=(terms.ndim - 2,), keepdims=False)


def _selection(x: Value) -> Any:
    """Plain operand with the specified entries of ``x`` in place; if some are unspecified, a selection by the
    mask.
    """
    plain = zero_filled(x)
    if not isinstance(x, MaskedTensor) or x._mask.full:
        return plain
    return F.bracket(x._mask.array, plain, negated=False)


def _mostly_empty(shape: tuple[int, ...], a: Value, b: Value) -> bool:
    """Return True if both masks are stored and have together fewer entries than the contracted axis is long.

    shape : the shape of the product, which must be small enough for addresses of 64 bits.
    """
    counts = [mask.count for mask in _masks((a, b)) if isinstance(mask, Stored)]
    lines = a.shape[-1]
    return len(counts) == 2 and sum(counts) < lines and prod(shape) * lines < 2**63


def _finite(x: Value) -> bool:
    """Return True if all specified entries are known to be finite; False in a trace or a batch."""
    value = value_of(unwrap(x), x)
    if isinstance(value, LevelValue):
        return False
    return bool(np.isfinite(value.values if isinstance(value, Sparse) else to_strided(value)).all())


def _mask_of_product(shape: tuple[int, ...], a: Value, b: Value) -> Mask:
    """Mask of the matrix product of ``a`` and ``b``: True where at least one product of two specified factors
    exists.

    If one factor is masked, True where the line of that factor has a specified entry.
    """
    if not isinstance(b, MaskedTensor):
        assert isinstance(a, MaskedTensor)
        return a._mask.over((a.ndim - 1,), True)[0].stretched(shape)
    if not isinstance(a, MaskedTensor):
        return b._mask.over((b.ndim - 2,), True)[0].stretched(shape)
    indicators = [F.astype(x.get_mask(), dtype=np.dtype("float32")) for x in (a, b)]
    if any_computed((a, b)):
        return mask_of(F.greater(F.matmul(*map(F.to_dense, indicators)), 0))
    counts = value_of(F.matmul(*indicators))
    return of_numbers(coalesced(counts) if isinstance(counts, Sparse) else counts)[0]


def _products(a: Value, b: Value) -> Any:
    mask = common("matmul", _masks((a, b)), broadcast_shapes("matmul", a.shape, b.shape), strict=False)
    return MaskedTensor(F.multiply(entries_at(a, mask), entries_at(b, mask)), mask)


def kron(op: Op, args: Args, params: Params) -> Any:
    """Rule of kron: a product is specified where both of its factors are."""
    shape = op.abstract(*map(aval_of, args)).shape
    return F.reshape(F.multiply(*F.kron_factors(*args)), shape=shape)


def cross_entropy(op: Op, args: Args, params: Params) -> Any:
    """Rule of cross_entropy: over the specified classes of each example.

    The loss of an example whose class is unspecified is unspecified; such an example is left out before
    anything is computed from it.
    """
    x, classes = args
    if isinstance(classes, MaskedTensor):
        masks = [classes._mask.stretched(x.shape), *(m for m in _masks((x,)))]
        mask = common(op.name, masks, x.shape, strict=False)
        x = MaskedTensor(entries_at(x, mask), mask)
        classes = zero_filled(classes)
        classes = F.to_numpy(classes) if has_entries(classes) else classes
    axis, reduction = params["axis"], params["reduction"]
    losses = -F.squeeze(F.take_along(F.log_softmax(x, axis=axis), classes, axis), axis=(axis,))
    if reduction == "none":
        return losses
    return (
        mean(losses) if reduction == "mean" else F.sum(losses, axis=tuple(range(losses.ndim)), keepdims=False)
    )


def whole(op: Op, args: Args, params: Params) -> Any:
    """Rule of ops that need all entries: the op on plain tensors if all exist, otherwise
    ArgumentTypeError.
    """
    absent = [m.size - m._mask.count for m in args if isinstance(m, MaskedTensor)]
    if any_computed(args) or any(absent):
        description = (
            "a mask that is computed" if any_computed(args) else f"{max(absent)} unspecified entries"
        )
        raise ArgumentTypeError(
            op.name,
            got=f"a MaskedTensor with {description}",
            expected="a Tensor: it has no meaning where entries do not exist",
            remedy="call to_tensor(fill) first",
        )
    plain = (F.to_dense(zero_filled(x)) if isinstance(x, MaskedTensor) else x for x in args)
    out = bind(op, tuple(plain), params)
    return tuple(map(_specified, out)) if op.multiple else _specified(out)


def _unless_whole(rule: Rule) -> Rule:
    """Rule that applies the op itself if all entries of all operands exist, and otherwise ``rule``."""

    def chosen(op: Op, args: Args, params: Params) -> Any:
        exists = not any_computed(args) and all(mask.full for mask in _masks(args))
        return whole(op, args, params) if exists else rule(op, args, params)

    return chosen


def checked_index(op: Op, args: Args, params: Params) -> Any:
    """Rule of checked_index: only specified positions are checked."""
    (x,) = args
    return MaskedTensor(x._mask.pack(bind(op, (F.to_dense(zero_filled(x)),), params)), x._mask)


def triangle(op: Op, args: Args, params: Params) -> Any:
    """Rule of tril and triu: the zeros beyond the diagonal are specified even where ``x`` is not.

    So the result has a strided mask; if the mask of ``x`` is stored, a warning says so.
    """
    (x,) = args
    op.abstract(aval_of(x), **params)
    if isinstance(x._mask, Stored):
        warn_dense(x._mask.numbers, op.name)
    inside = bind(op, (np.ones(x.shape[-2:], bool),), params)
    return F.where(inside, x, F.zero((), x.dtype))


def _specified(x: Value) -> MaskedTensor:
    """Masked tensor of a plain one, with all entries specified."""
    x = F.to_dense(x)
    mask = Mask(np.ones(x.shape, bool))
    return MaskedTensor(mask.pack(x), mask)


_FOLDS = ("sum", "prod", "norm", "all", "any", "logsumexp", "max", "min")
_MOVES = (
    "broadcast_to", "concat", "diagonal", "flip", "gather", "index_basic", "permute_dims", "roll", "stack",
    "values_at",
)  # fmt: skip

_WINDOWS = (
    window_rules.convolution, window_rules.fold, window_rules.max_places, window_rules.max_pool,
    window_rules.sum_pool, window_rules.transposed_convolution, window_rules.unfold,
)  # fmt: skip

#: The rule of an op that is not elementwise, by its name.
RULES: dict[str, Rule] = {
    **dict.fromkeys(_FOLDS, axis_rules.reduction),
    **dict.fromkeys(("argmax", "argmin"), axis_rules.search),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod", "logcumsumexp"), axis_rules.scan),
    **dict.fromkeys(("softmax", "log_softmax"), axis_rules.softmax),
    **dict.fromkeys(_MOVES, move_rules.move),
    **dict.fromkeys(("reshape", "expand_dims", "squeeze"), move_rules.reshape),
    **dict.fromkeys(("index_put", "gather_put"), move_rules.put),
    **dict.fromkeys(("tril", "triu"), triangle),
    **{f"te.nn.{rule.__name__}": _unless_whole(rule) for rule in _WINDOWS},
    **dict.fromkeys(("add_n", "to_dense"), elementwise),
    "argsort": axis_rules.argsort,
    "checked_index": checked_index,
    "cumulative_argmax": axis_rules.running,
    "cross_entropy": cross_entropy,
    "matmul": matmul,
    "embed": move_rules.embedded,
    "kron": kron,
    "scatter_add": segment_rules.scatter_add,
    "searchsorted": axis_rules.searchsorted,
    "segment_softmax": segment_rules.softmax,
    "segment_max": segment_rules.folded,
    "sort": axis_rules.sort,
    "to_layout": move_rules.to_layout,
    "where": where,
}


def rule_of(op: Op) -> Rule:
    """The rule by which an op acts on masked tensors."""
    rule = RULES.get(op.name)
    if rule is not None:
        return rule
    return elementwise if op.elementwise else whole


def interpret(op: Op, args: Args, params: Params) -> Any:
    """Carry out an op on arguments of which at least one is masked."""
    out = rule_of(op)(op, args, params)
    if work.active.count and not op.entry_map.moves:
        _report(op, args, out)
    return out


def _report(op: Op, args: Args, out: Value | tuple[Value, ...]) -> None:
    """Add a note to the active work count: entries of the largest operand or result, and those that are
    specified.
    """
    masked = [x for x in (*args, *(out if isinstance(out, tuple) else (out,))) if isinstance(x, MaskedTensor)]
    largest = max(masked, key=lambda x: prod(x.shape))
    size, specified = prod(largest.shape), min(x._mask.count for x in masked if x.shape == largest.shape)
    if specified < size:
        work.note(Unspecified(op.name, size, specified, largest.dtype.itemsize, user_call()))
