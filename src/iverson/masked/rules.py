"""How ops act on masked tensors: one table, by the op's name or by what its record says of it.

A rule works on the plain vectors of specified entries, with ops of the table; so every derivative follows
from those ops' own rules. Where an op needs an entry's place (a reduction along an axis, a product of
matrices), the vector is put in place with a neutral entry where nothing is specified (`lines`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from iverson.array_api.reductions import mean
from iverson.core.dispatch import alias, bind, make_handle
from iverson.core.errors import ArgumentTypeError, DensifyWarning
from iverson.core.op import Abstract, Op
from iverson.core.shapes import broadcast_shapes
from iverson.layouts import CooPattern, Sparse, to_strided
from iverson.layouts.conversion import with_sparse_axes
from iverson.masked import lines
from iverson.masked.mask import Mask, common, narrowed
from iverson.masked.policies import current
from iverson.masked.stored import Stored
from iverson.masked.tensor import MaskedTensor
from iverson.ops import F

Args = tuple[Any, ...]
Params = dict[str, Any]
Rule = Callable[[Op, Args, Params], Any]


def _shape(op: Op, args: Args) -> tuple[int, ...]:
    return broadcast_shapes(op.name, *(a.shape for a in args if hasattr(a, "shape")))


def _masks(args: Args) -> list[Mask]:
    return [a._mask for a in args if isinstance(a, MaskedTensor)]


def _at(x: Any, mask: Mask) -> Any:
    """An operand's entries where a mask of the result's shape specifies them.

    What the operand itself does not specify there is 0; a scalar stays one, to be broadcast.
    """
    if not hasattr(x, "shape"):
        return x
    if isinstance(x, MaskedTensor):
        if x._mask == mask:
            return x._held
        if x.shape == mask.shape and x._mask.has(mask).all():
            return narrowed(x._held, x._mask, mask)
        x = x._mask.unpack(x._held)
    elif not x.ndim:
        return x
    return mask.pack(x if x.shape == mask.shape else F.broadcast_to(x, shape=mask.shape))


def elementwise(op: Op, args: Args, params: Params) -> Any:
    """Specified where all operands are."""
    mask = common(op.name, _masks(args), _shape(op, args))
    return MaskedTensor(bind(op, tuple(_at(a, mask) for a in args), params), mask)


def where(op: Op, args: Args, params: Params) -> Any:
    """Specified where the condition is and what it chooses is."""
    shape = _shape(op, args)
    if current() == "strict":
        common(op.name, _masks(args), shape)
    condition, a, b = args
    chosen = F.to_numpy(condition._without_meaning() if isinstance(condition, MaskedTensor) else condition)
    there = [x._mask.array if isinstance(x, MaskedTensor) else True for x in args]
    array = np.logical_and(there[0], np.where(chosen, there[1], there[2]))
    mask = Mask(np.array(np.broadcast_to(array, shape)))
    out = F.where(_at(condition, mask), _at(a, mask), _at(b, mask))
    if out.shape != (mask.count,):  # all three are scalars there
        out = F.broadcast_to(out, shape=(mask.count,))
    return MaskedTensor(out, mask)


# -- products --------------------------------------------------------------------------------------------


def matmul(op: Op, args: Args, params: Params) -> Any:
    """A product counts where both factors are specified; a result is where one of its products counts."""
    a, b = args
    mask = _mask_of_product(*args)
    if all(np.isfinite(F.to_numpy(x._held if isinstance(x, MaskedTensor) else x)).all() for x in args):
        left, right = (x._without_meaning() if isinstance(x, MaskedTensor) else x for x in args)
        return MaskedTensor(mask.pack(bind(op, (left, right), params)), mask)
    # 0 * inf is not 0: only the products that count are formed.
    left, right = F.expand_dims(a, axis=(a.ndim,)), F.expand_dims(b, axis=(b.ndim - 2,))
    terms = _products(left, right)
    return F.sum(terms, axis=(terms.ndim - 2,), keepdims=False)


def _mask_of_product(a: Any, b: Any) -> Mask:
    """Where at least one product counts: where the product of the masks, as numbers, is not 0."""
    ones = []
    for x in (a, b):
        there = x._mask.plain() if isinstance(x, MaskedTensor) else np.ones(x.shape, bool)
        ones.append(F.astype(make_handle(there), dtype=np.dtype("float32")))
    counts = F.matmul(*ones)._value
    if isinstance(counts, Sparse) and counts.pattern.distinct:
        counts = with_sparse_axes(counts, len(counts.shape))
        there = counts.entries > 0
        if there.all():
            return Stored(counts.pattern)
        return Stored(CooPattern(counts.shape, counts.pattern.coordinates[:, there], True))
    return Mask(to_strided(counts) > 0)


def _products(a: Any, b: Any) -> Any:
    shape = broadcast_shapes("matmul", a.shape, b.shape)
    masks = _masks((a, b))
    array = np.ones(shape, bool)
    for m in masks:
        array &= m.array
    mask = Mask(array)
    return MaskedTensor(F.multiply(_at(a, mask), _at(b, mask)), mask)


# -- places ----------------------------------------------------------------------------------------------


def move(op: Op, args: Args, params: Params) -> Any:
    """Entries move and take with them whether they are specified; what the op adds of its own is 0."""
    moved = op.groups(len(args))[0]
    absent, plain = [], []
    for k, x in enumerate(args):
        if isinstance(x, MaskedTensor):
            absent.append(~x._mask.array)
            plain.append(F.to_dense(x._without_meaning()))
        else:
            absent.append(np.zeros(np.shape(x), bool) if k in moved else x)
            plain.append(x)
    out = op.forward(*absent, **params)
    mask = Mask(~(out if isinstance(out, np.ndarray) else to_strided(out)))
    return MaskedTensor(mask.pack(bind(op, tuple(plain), params)), mask)


def reshape(op: Op, args: Args, params: Params) -> Any:
    """The order of the entries stays."""
    (x,) = args
    if isinstance(x._mask, Stored):
        return move(op, args, params)
    op.abstract(Abstract(x.shape, x.dtype), **params)
    return MaskedTensor(alias(x._held), Mask(op.forward(x._mask.array, **params)))


def permute(op: Op, args: Args, params: Params) -> Any:
    """As `move`, on patterns without making any entry explicit."""
    (x,) = args
    mask, axes = x._mask, params["axes"]
    if not isinstance(mask, Stored) or mask.dense:
        return move(op, args, params)
    turned = Stored(mask.pattern.permuted(axes))
    return MaskedTensor(turned.pack(bind(op, (mask.unpack(x._held),), params)), turned)


def cross_entropy(op: Op, args: Args, params: Params) -> Any:
    """Over the specified classes; the loss of an example whose class is unspecified is unspecified too."""
    x, classes = args
    axis, reduction = params["axis"], params["reduction"]
    losses = -F.squeeze(F.take_along(F.log_softmax(x, axis=axis), classes, axis), axis=(axis,))
    if reduction == "none":
        return losses
    return (
        mean(losses) if reduction == "mean" else F.sum(losses, axis=tuple(range(losses.ndim)), keepdims=False)
    )


def unknown(op: Op, args: Args, params: Params) -> Any:
    """There is no rule: say so."""
    raise ArgumentTypeError(
        op.name,
        got="a MaskedTensor",
        expected="a Tensor: it has no meaning where entries do not exist",
        remedy="call to_tensor(fill) first",
    )


_FOLDS = ("sum", "prod", "norm", "all", "any", "logsumexp", "max", "min")
_MOVES = (
    "broadcast_to", "concat", "diag_embed", "diagonal", "flip", "gather", "gather_put", "index_basic",
    "index_put", "place", "roll", "stack", "tril", "triu",
)  # fmt: skip

#: The rule of an op that is not elementwise, by its name.
RULES: dict[str, Rule] = {
    **dict.fromkeys(_FOLDS, lines.reduction),
    **dict.fromkeys(("argmax", "argmin"), lines.search),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), lines.scan),
    **dict.fromkeys(("softmax", "log_softmax"), lines.softmax),
    **dict.fromkeys(_MOVES, move),
    **dict.fromkeys(("reshape", "expand_dims", "squeeze"), reshape),
    **dict.fromkeys(("add_n", "to_dense"), elementwise),
    "argsort": lines.argsort,
    "sort": lines.sort,
    "searchsorted": lines.searchsorted,
    "cross_entropy": cross_entropy,
    "matmul": matmul,
    "permute_dims": permute,
    "where": where,
}


def rule_of(op: Op) -> Rule:
    """How an op acts on masked tensors."""
    found = RULES.get(op.name)
    if found is not None:
        return found
    return elementwise if op.elementwise or op.family == "elementwise" else unknown


def interpret(op: Op, args: Args, params: Params) -> Any:
    """Carry out an op on arguments of which at least one is masked."""
    rule = rule_of(op)
    if rule not in _ON_PATTERNS or (rule is lines.reduction and op.name != "sum"):
        _warn_if_stored(op, args, params)
    return rule(op, args, params)


#: Rules whose work on masks that are patterns grows with the number of stored entries.
_ON_PATTERNS = (elementwise, matmul, permute, lines.reduction, lines.searchsorted, unknown)


def _warn_if_stored(op: Op, args: Args, params: Params) -> None:
    found = next((a for a in args if isinstance(a, MaskedTensor) and isinstance(a._mask, Stored)), None)
    over = params.get("axis")
    if found is None or (isinstance(over, tuple) and len(over) == found.ndim):
        return
    warnings.warn(
        f"{op.name}: no rule for a masked tensor in layout '{found.layout}': all {found.size} entries of "
        f"shape {found.shape} are made explicit; use masked_tensor(x.to_tensor(0).to_dense(), "
        "x.get_mask().to_dense()) to say that this is meant",
        DensifyWarning,
        stacklevel=2,
    )
