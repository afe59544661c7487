"""Equations as tensor expressions: the ``te`` of an op's record, its function of `core.scalars`, or what is
said here.

Here are ops whose record has no ``te``, as their derivatives are better written than derived: by way of
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from iverson import te
from iverson.core.scalars import SCALARS
from iverson.expr.build import as_expr, const
from iverson.graph.nodes import Equation, Graph, Value, values_of
from iverson.graph.print import text_and_objects
from iverson.kernels.keys import key_shape
from iverson.ops.notation import reduction, stretched_index
from iverson.te.translate import compiles

#: Of each operand: a tensor, or a number as it is.
Operands = Sequence[Any]
Notation = Callable[..., Any]


def expression(equation: Equation, operands: Operands) -> Any:
    """The result as a tensor, of the operands' tensors and numbers; None where loops cannot make it."""
    if not _is_real(equation):
        return None
    name, aval = equation.op.name, equation.results[0].aval
    if prod(aval.shape) == 0:
        made = over(aval, lambda: const(0, aval.dtype))
    elif name in NOTATION:
        made = NOTATION[name](aval, *operands, **equation.params)
    elif name in SCALARS:
        made = over(aval, getattr(te.F, name), *operands)
    elif equation.op.te is None or any(type(x) is not Value for x in equation.operands):
        return None
    else:
        made = equation.op.te(*operands, **equation.params)
    if made is None or tuple(made.shape) != aval.shape:
        return None
    if made.dtype != aval.dtype:  # of a choice between bools and 0
        made = over(aval, entry_itself, made)
    return made


def is_expression(equation: Equation) -> bool:
    """Whether compiled loops can carry an equation out, all stages of its expression included."""
    key = structure([equation], values_of(equation.operands), equation.results)
    if key is None:
        return _is_expression(equation)
    found = _known.get(key)
    if found is None:
        found = _known[key] = _is_expression(equation)
        while len(_known) > _KEPT:
            _known.pop(next(iter(_known)), None)
    return found


def _is_expression(equation: Equation) -> bool:
    given = [placeholder(x) if type(x) is Value else x for x in equation.operands]
    made = expression(equation, given)
    return made is not None and all(compiles(s) for s in te.program_of([made]).statements)


#: Whether equations of a structure are expressions.
_known: dict[Any, bool] = {}
_KEPT = 4096


def structure(equations: Sequence[Equation], inputs: Iterable[Value], outputs: Iterable[Value]) -> Any:
    """What equations compute, equal for equations that differ in nothing but the values' identity; None where
    a parameter is an object that has no text.

    Ops are in it besides their names: a user may define another of the same name.
    """
    graph = Graph(tuple(dict.fromkeys(inputs)), tuple(equations), tuple(outputs))
    text, objects = text_and_objects(graph)
    return None if objects else (text, tuple([e.op for e in equations]))


def placeholder(x: Any) -> Any:
    """Of a value or an array."""
    return te.placeholder(x.shape, x.dtype)


def _is_real(equation: Equation) -> bool:
    values = [x for x in (*equation.operands, *equation.results) if type(x) is Value]
    return not equation.op.multiple and all(v.dtype.kind in "biuf" and v.shape is not None for v in values)


def over(aval: Any, function: Notation, *operands: Any) -> Any:
    """A function of the entries of operands at one place; they broadcast."""

    def entry(*i: Any) -> Any:
        return function(*(read(x, i) for x in operands))

    return te.compute(aval.shape, entry, dtype=aval.dtype)


def read(x: Any, i: Any) -> Any:
    """The entry of an operand for entry i of a result that it is broadcast to."""
    if not isinstance(x, te.Tensor):
        return x
    shape: Any = x.shape
    return x[stretched_index(shape, i)]


def reduced(kind: str, x: Any, axis: tuple[int, ...]) -> Any:
    """A reduction that keeps its axes with extent 1."""
    return reduction(kind)(x, axis=axis, keepdims=True)


# --- ops by way of others ---------------------------------------------------------------------------


def _truth(kind: str) -> Notation:
    def build(aval: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
        true = over(_Like(x.shape, np.dtype("bool")), lambda v: v != 0, x)
        return reduction(kind)(true, axis=axis, keepdims=keepdims)

    return build


class _Like:
    """A shape and a dtype."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = tuple(shape), dtype


def _exponentials(x: Any, axis: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """x less its maximum along some axes, exp of that, and the sum of these."""
    top = reduced("max", x, axis)
    shifted = over(x, lambda v, m: v - m, x, top)
    powers = over(x, lambda v, m: te.F.exp(v - m), x, top)
    return shifted, powers, reduced("sum", powers, axis)


def _softmax(aval: Any, x: Any, *, axis: int) -> Any:
    _, powers, total = _exponentials(x, (axis,))
    return over(aval, lambda p, s: p / s, powers, total)


def _log_softmax(aval: Any, x: Any, *, axis: int) -> Any:
    shifted, _, total = _exponentials(x, (axis,))
    return over(aval, lambda v, s: v - te.F.log(s), shifted, total)


def _logsumexp(aval: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    top = reduced("max", x, axis)
    shift = over(top, lambda m: te.F.where(te.F.isfinite(m), m, 0.0), top)
    total = reduced("sum", over(x, lambda v, m: te.F.exp(v - m), x, shift), axis)
    kept = over(total, lambda s, m: te.F.log(s) + m, total, shift)
    places = [k for k in range(len(x.shape)) if k not in axis]
    if keepdims:
        return kept
    return te.compute(aval.shape, lambda *i: kept[_put_back(i, places, len(x.shape))])


def _put_back(i: tuple[Any, ...], places: Sequence[int], rank: int) -> tuple[Any, ...]:
    """The index in an array that keeps its reduced axes."""
    at = dict(zip(places, i, strict=True))
    return tuple(at.get(k, 0) for k in range(rank))


def _softmax_error(aval: Any, x: Any, classes: Any, *, axis: int) -> Any:
    _, powers, total = _exponentials(x, (axis,))

    def entry(*i: Any) -> Any:
        own = read(classes, i)
        p = powers[i] / read(total, i)
        return te.F.where(te.F.equal(own, i[axis]), p - 1.0, p)

    return te.compute(aval.shape, entry, dtype=aval.dtype)


def _cross_entropy(aval: Any, x: Any, classes: Any, *, axis: int, reduction: str) -> Any:
    shifted, _, total = _exponentials(x, (axis,))
    rank = len(x.shape)
    kept = tuple(1 if k == axis else n for k, n in enumerate(x.shape))

    def loss(*i: Any) -> Any:
        at = tuple(classes[i] if k == axis else i[k] for k in range(rank))
        return te.F.log(total[i]) - shifted[at]

    losses = te.compute(kept, loss, dtype=aval.dtype)
    if reduction == "none":
        places = [k for k in range(rank) if k != axis]
        return te.compute(aval.shape, lambda *i: losses[_put_back(i, places, rank)])
    axes = [te.reduce_axis((0, n)) for n in kept]
    count = max(prod(kept), 1) if reduction == "mean" else 1
    summed = te.compute((), lambda: te.sum(losses[tuple(axes)], axis=axes))
    return te.compute((), lambda: summed[()] / count, dtype=aval.dtype)


def _within(i: tuple[Any, ...], key: Any, extents: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """Where entry i of an array is in what a basic key reads of it, and the conditions that it is there.

    extents : of what the key reads.
    """
    inside: list[Any] = []
    at: list[Any] = []
    axis = iter(i)
    for item in key:
        if item is None:
            at.append(0)
        elif isinstance(item, slice):
            own = next(axis)
            steps = own - item.start if item.step > 0 else item.start - own
            place = steps // abs(item.step)
            inside += [steps >= 0, place < extents[len(at)]]
            if abs(item.step) != 1:
                inside.append(te.F.equal(steps % abs(item.step), 0))
            at.append(place)
        else:
            inside.append(te.F.equal(next(axis), item))
    return inside, tuple(at)


def _all_of(conditions: Sequence[Any]) -> Any:
    found = conditions[0]
    for c in conditions[1:]:
        found = te.F.logical_and(found, c)
    return found


def _is_basic(key: Any) -> bool:
    return all(item is None or isinstance(item, int | slice) for item in key)


def _embed(aval: Any, g: Any, *, key: Any, shape: Any) -> Any:
    """Zeros but for the entries that a basic key reads, which are those of g."""

    def entry(*i: Any) -> Any:
        inside, at = _within(i, key, g.shape)
        return te.F.bracket(_all_of(inside), g[at]) if inside else g[at]

    return te.compute(shape, entry)


def _index_put(aval: Any, x: Any, v: Any, *, key: Any) -> Any:
    """x, but for the entries that a basic key reads, which are those of v."""
    if not _is_basic(key):
        return None
    extents = key_shape(key, aval.shape)

    def entry(*i: Any) -> Any:
        inside, at = _within(i, key, extents)
        new = te.F.astype(read(v, at), aval.dtype)
        return te.select(_all_of(inside), new, x[i]) if inside else new

    return te.compute(aval.shape, entry)


def _overwritten(aval: Any, x: Any, *, key: Any) -> Any:
    """x, but for the entries that a basic key reads, which are zeros."""
    if not _is_basic(key):
        return None
    extents = key_shape(key, aval.shape)

    def entry(*i: Any) -> Any:
        inside, _ = _within(i, key, extents)
        return te.F.bracket(_all_of(inside), x[i], negated=True) if inside else const(0, aval.dtype)

    return te.compute(aval.shape, entry)


def _diag_embed(aval: Any, x: Any, *, offset: int, shape: Any) -> Any:
    """Zeros but for a diagonal."""
    first = max(-offset, 0)

    def entry(*i: Any) -> Any:
        *batch, row, column = i
        k = row - first
        inside = [te.F.equal(column, row + offset), k >= 0, k < x.shape[-1]]
        return te.F.bracket(_all_of(inside), x[(*batch, te.clamp(k, 0, x.shape[-1] - 1))])

    return te.compute(shape, entry)


# --- reductions by way of others --------------------------------------------------------------------


def _norm(aval: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    squares = over(_Like(x.shape, aval.dtype), lambda v: te.F.square(te.F.astype(v, aval.dtype)), x)
    return over(aval, te.F.sqrt, reduction("sum")(squares, axis=axis, keepdims=keepdims))


def _deviation(aval: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool, squared: bool) -> Any:
    if not axis or x.dtype.kind != "f":
        return None
    count = prod(x.shape[k] for k in axis)
    mean = over(
        _Like([1 if k in axis else n for k, n in enumerate(x.shape)], x.dtype),
        lambda s: s / count,
        reduced("sum", x, axis),
    )
    squares = over(x, lambda v, m: te.F.square(v - m), x, mean)
    found = reduction("sum")(squares, axis=axis, keepdims=keepdims)
    return found if squared else over(aval, te.F.sqrt, found)


def _extremum_shares(aval: Any, x: Any, *, axis: tuple[int, ...], largest: bool) -> Any:
    """1/n at the n entries of each line that attain its extremum, nan at those that are nan, 0 elsewhere."""
    top = reduced("max" if largest else "min", x, axis)
    attained = over(aval, lambda v, m: te.F.astype(te.F.equal(v, m), aval.dtype), x, top)
    count = reduced("sum", attained, axis)

    def share(v: Any, a: Any, n: Any) -> Any:
        return te.F.where(te.F.isnan(v), v, a / te.F.maximum(n, 1.0))

    return over(aval, share, x, attained, count)


# --- segments ---------------------------------------------------------------------------------------


def _combined(kind: str, x: Any, ids: Any, count: int) -> Any:
    """For each segment, its slices combined."""

    def point(e: Any, *rest: Any) -> Any:
        return (ids[e], *rest), x[(e, *rest)]

    return te.scatter((count, *x.shape[1:]), x.shape, point, combine=kind)


def _repeated(aval: Any, x: Any, ids: Any) -> Any:
    """For each slice, that of its segment."""
    return te.compute(aval.shape, lambda e, *rest: x[(ids[e], *rest)])


def _segment_softmax(aval: Any, x: Any, ids: Any, *, count: int) -> Any:
    top = _repeated(aval, _combined("max", x, ids, count), ids)
    powers = over(aval, lambda v, m: te.F.exp(v - m), x, top)
    total = _repeated(aval, _combined("sum", powers, ids, count), ids)
    return over(aval, lambda p, s: p / s, powers, total)


def _softmax_pullback(aval: Any, g: Any, y: Any, ids: Any, *, count: int) -> Any:
    weighted = over(aval, lambda a, b: a * b, y, g)
    total = _repeated(aval, _combined("sum", weighted, ids, count), ids)
    return over(aval, lambda a, b, s: b * (a - s), g, y, total)


def _add_n(aval: Any, *xs: Any) -> Any:
    def total(*v: Any) -> Any:
        result = v[0]
        for x in v[1:]:
            result = result + x
        return as_expr(result)

    return over(aval, total, *xs)


def _same(aval: Any, x: Any) -> Any:
    return over(aval, entry_itself, x)


def entry_itself(x: Any) -> Any:
    """An entry as it is."""
    return as_expr(x)


def _extremum(kind: str) -> Notation:
    find = getattr(te, kind)

    def build(aval: Any, x: Any, *, axis: int | None, keepdims: bool) -> Any:
        if axis is None:
            x, axis = _flat(x), 0
        k = te.reduce_axis((0, x.shape[axis]))
        rest = (*x.shape[:axis], *x.shape[axis + 1 :])
        found = te.compute(rest, lambda *i: find(x[(*i[:axis], k, *i[axis:])], axis=k))
        if not keepdims:
            return found
        places = [n for n in range(len(aval.shape)) if n != axis] if rest else []
        return te.compute(aval.shape, lambda *i: found[tuple(i[n] for n in places)])

    return build


def _flat(x: Any) -> Any:
    """The entries of an array, one after the other."""

    def entry(i: Any) -> Any:
        at = [i // prod(x.shape[k + 1 :]) % n for k, n in enumerate(x.shape)]
        return x[tuple(at)]

    return te.compute((prod(x.shape),), entry)


def _angle(aval: Any, x: Any) -> Any:
    return over(aval, lambda v: te.F.atan2(0.0, v), x)


#: B_2k / 2k: of the expansion of digamma for large arguments.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_FAR = 8


def _digamma(aval: Any, x: Any) -> Any:
    """digamma, from its expansion at x + 8 (Abramowitz and Stegun, 1972, 6.3.18).

    digamma(x) = digamma(x + 8) - sum(1 / (x + k) for k < 8), and digamma(1 - x) - pi / tan(pi x) for x < 1/2
    """
    F = te.F

    def entry(v: Any) -> Any:
        turned = v < 0.5
        z = F.where(turned, 1.0 - v, v)
        far = z + float(_FAR)
        square = F.reciprocal(far * far)
        tail = as_expr(_DIGAMMA[-1])
        for c in _DIGAMMA[-2::-1]:
            tail = tail * square + c
        near = F.reciprocal(z)
        for k in range(1, _FAR):
            near = near + F.reciprocal(z + float(k))
        found = F.log(far) - 0.5 / far - tail * square - near
        whole = F.floor(v)
        pole = F.where(F.logical_and(v < 0.0, F.equal(v, whole)), float("nan"), found)
        part = F.where(F.equal(whole, 0.0), v, v - whole)  # -0 keeps its sign
        return F.where(turned, pole - np.pi / F.tan(np.pi * part), found)

    return over(aval, entry, x)


def _scatter_add(aval: Any, g: Any, *indices: Any, axes: tuple[int, ...], shape: Any) -> Any:
    """Zeros to which slices of g are added at the places that index arrays name."""
    lead = len(g.shape) - (len(shape) - len(axes))

    def point(*i: Any) -> Any:
        at = dict(zip(axes, (n[stretched_index(n.shape, i[:lead])] for n in indices), strict=True))
        rest = iter(i[lead:])
        return tuple(at[k] if k in at else next(rest) for k in range(len(shape))), g[i]

    return te.scatter(shape, g.shape, point)


#: ``build(aval of the result, *operands, **params)``.
NOTATION: dict[str, Notation] = {
    "astype": lambda aval, x, *, dtype: over(aval, lambda v: te.F.astype(v, dtype), x),
    "bracket": lambda aval, c, x, *, negated: over(
        aval, lambda p, v: te.F.bracket(p, v, negated=negated), c, x
    ),
    "selected": _same,
    "identity": _same,
    "copy": _same,
    "to_dense": _same,
    "add_n": _add_n,
    "all": _truth("min"),
    "angle": _angle,
    "any": _truth("max"),
    "argmax": _extremum("argmax"),
    "argmin": _extremum("argmin"),
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "softmax_error": _softmax_error,
    "cross_entropy": _cross_entropy,
    "deviation": _deviation,
    "digamma": _digamma,
    "diag_embed": _diag_embed,
    "embed": _embed,
    "extremum_shares": _extremum_shares,
    "index_put": _index_put,
    "norm": _norm,
    "overwritten": _overwritten,
    "scatter_add": _scatter_add,
    "segment_max": lambda aval, x, ids, *, count: _combined("max", x, ids, count),
    "segment_softmax": _segment_softmax,
    "softmax_pullback": _softmax_pullback,
}

__all__ = ["NOTATION", "entry_itself", "expression", "over", "read", "reduced", "structure"]
