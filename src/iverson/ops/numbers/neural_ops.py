"""Ops of neural networks that are not elementwise: softmax, log-softmax and cross entropy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.entries import Box, Stored
from iverson.core.entry_map import Call, EntryMap
from iverson.core.errors import DTypeError
from iverson.core.op import Op, Rule, Sample, Sampler
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.relations import Relation
from iverson.core.shapes import Shape
from iverson.core.table import define
from iverson.kernels import strided
from iverson.layouts import Pattern
from iverson.ops.numbers.reduction_ops import at_entries, pattern_of_entries, weights_at
from iverson.ops.rules import loops
from iverson.ops.rules.batching import Examples
from iverson.ops.rules.entry_maps import ALONG, REDUCED


def _abstract(name: str) -> Any:
    def abstract(x: Shaped, *, axis: int) -> Aval:
        if not dtypes.is_floating(x.dtype):
            raise DTypeError(name, "x", got=f"dtype {x.dtype}", expected="a real floating dtype")
        return Aval(x.shape, dtypes.to_inexact(x.dtype))

    return abstract


def _samples(s: Sampler) -> list[Sample]:
    return [
        Sample((s((2, 3)),), {"axis": 1}),
        Sample((s((3, 2)),), {"axis": 0}),
        Sample((s((2, 0)),), {"axis": 1}),
    ]


def _softmax_rule(F: Namespace, g: Value, y: Value, _x: Shaped, *, axis: int) -> Any:
    """The Jacobian diag(y) - y y^T is symmetric: the same rule serves both modes."""
    gy = g * y
    return gy - y * F.sum(gy, axis=(axis,), keepdims=True)


_REAL = {"complex": "a maximum keeps them from overflowing, and complex numbers have none"}

define(
    Op(
        name="softmax",
        forward=strided.softmax,
        abstract=_abstract("softmax"),
        vjp=(_softmax_rule,),
        jvp=(_softmax_rule,),
        entry_map=ALONG,
        loops=loops.softmax,
        samples=_samples,
        exceptions=_REAL,
    )
)

define(
    Op(
        name="log_softmax",
        forward=strided.log_softmax,
        abstract=_abstract("log_softmax"),
        vjp=(lambda F, g, y, _x, *, axis: g - F.exp(y) * F.sum(g, axis=(axis,), keepdims=True),),
        jvp=(lambda F, t, y, _x, *, axis: t - F.sum(F.exp(y) * t, axis=(axis,), keepdims=True),),
        entry_map=ALONG,
        loops=loops.log_softmax,
        samples=_samples,
        exceptions=_REAL,
    )
)


def _cross_entropy(x: NDArray, classes: NDArray, *, axis: int, reduction: str) -> Any:
    shifted = x - strided.extremum(np.maximum, x, axis=axis, keepdims=True)
    class_scores = shifted[strided.index_along(x.shape, classes, axis)]
    # The classes have extent 1 along the axis.
    losses = np.log(np.add.reduce(np.exp(shifted, out=shifted), axis=axis, keepdims=True)) - class_scores
    if reduction == "none":
        return losses.squeeze(axis)
    total = losses.sum()
    return total / losses.size if reduction == "mean" and losses.size else total


def _cross_entropy_abstract(x: Shaped, _classes: Shaped, *, axis: int, reduction: str) -> Aval:
    return Aval(x.shape[:axis] + x.shape[axis + 1 :] if reduction == "none" else (), x.dtype)


def _averaged(F: Namespace, g: Value, shape: Shape, reduction: str) -> Any:
    """g divided by the number of losses if ``reduction`` is "mean", else g.

    shape : of the losses.
    """
    return g * (1 / max(math.prod(shape), 1)) if reduction == "mean" else g


def _cross_entropy_vjp(
    F: Namespace, g: Value, _y: Shaped, x: Value, classes: Value, *, axis: int, reduction: str
) -> Any:
    g = F.expand_dims(g, axis=(axis,)) if reduction == "none" else _averaged(F, g, classes.shape, reduction)
    return g * F.softmax_error(x, classes, axis=axis)


def _errors_at(F: Namespace, x: Value, classes: Value, pattern: Pattern, axis: int) -> Any:
    """Derivatives of the losses in the scores at a pattern: softmax weights, minus 1 at the class."""
    weights = weights_at(F, F.logsumexp(x, axis=(axis,), keepdims=False), x, pattern, (axis,), False)
    classes = at_entries(F, F.squeeze(classes, axis=(axis,)), pattern, (axis,), False)
    places = F.reshape(F.along(pattern, axis), shape=pattern.stored_shape)
    return weights - F.astype(F.equal(places, classes), dtype=x.dtype)


def _cross_entropy_within(
    F: Namespace,
    _rule: Rule,
    wanted: Box | Stored,
    _i: int,
    g: Value,
    _y: Shaped,
    x: Value,
    classes: Value,
    *,
    axis: int,
    reduction: str,
) -> Any:
    """The cotangent of the scores at a pattern of single entries; NotImplemented for other parts."""
    if not isinstance(wanted, Stored) or wanted.pattern.ndim != x.ndim:
        return NotImplemented
    pattern = wanted.pattern
    if reduction == "none":
        g = at_entries(F, g, pattern, (axis,), False)
    else:
        g = _averaged(F, g, classes.shape, reduction)
    return F.with_entries(g * _errors_at(F, x, classes, pattern, axis), pattern)


def _cross_entropy_jvp(
    F: Namespace, t: Value, _y: Value, x: Value, classes: Value, *, axis: int, reduction: str
) -> Any:
    pattern = pattern_of_entries(t)
    if pattern is None:
        t = t * F.softmax_error(x, classes, axis=axis)
    else:
        t = F.with_entries(F.entries_at(t, pattern) * _errors_at(F, x, classes, pattern, axis), pattern)
    over = (axis,) if reduction == "none" else tuple(range(x.ndim))
    return _averaged(F, F.sum(t, axis=over, keepdims=False), classes.shape, reduction)


def _batched_cross_entropy(
    F: Namespace, examples: Examples, x: Value, classes: Value, *, axis: int, reduction: str
) -> Any:
    """The losses of all examples, for each example summed, averaged or as they are."""
    x, classes = examples.each(F, (x, classes))
    losses = F.cross_entropy(x, classes, axis=axis + 1, reduction="none")
    if reduction == "none":
        return losses
    total = F.sum(losses, axis=tuple(range(1, losses.ndim)), keepdims=False)
    return _averaged(F, total, losses.shape[1:], reduction)


_LABELLED = (((2, 3), np.array([[2], [0]]), 1), ((3, 2), np.array([[2, 1]]), 0))


class Losses(EntryMap):
    """Entry map of the cross entropy: a loss depends on the scores of its example, along ``axis``.

    The sum or mean of the losses depends on all scores.
    """

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the scores of the example."""
        if call.params["reduction"] != "none":
            return call.everything(i)
        lines = {"axis": (call.params["axis"],), "keepdims": False}
        return REDUCED.relation(replace(call, params=lines), i)


# The losses are log(sum(exp(x))) - x[class].
define(
    Op(
        name="cross_entropy",
        forward=_cross_entropy,
        abstract=_cross_entropy_abstract,
        vjp=(_cross_entropy_vjp, None),
        jvp=(_cross_entropy_jvp, None),
        vjp_at=_cross_entropy_within,
        entry_map=Losses(),
        batch=_batched_cross_entropy,
        loops=loops.cross_entropy,
        samples=lambda s: [
            Sample((s(shape), classes), {"axis": axis, "reduction": reduction})
            for shape, classes, axis in _LABELLED
            for reduction in ("none", "mean", "sum")
        ],
        exceptions=_REAL,
    )
)


def _softmax_error(x: NDArray, classes: NDArray, *, axis: int) -> Any:
    out = strided.softmax(x, axis=axis)
    out[strided.index_along(x.shape, classes, axis)] -= 1
    return out


def _softmax_error_rule(F: Namespace, g: Value, _y: Shaped, x: Value, _classes: Shaped, *, axis: int) -> Any:
    return _softmax_rule(F, g, F.softmax(x, axis=axis), x, axis=axis)


# softmax(x) minus 1 at each example's class: the derivative of the cross entropy in x.
define(
    Op(
        name="softmax_error",
        forward=_softmax_error,
        abstract=lambda x, _classes, *, axis: Aval(x.shape, x.dtype),
        vjp=(_softmax_error_rule, None),
        jvp=(_softmax_error_rule, None),
        entry_map=ALONG,
        loops=loops.softmax_error,
        samples=lambda s: [Sample((s(shape), classes), {"axis": axis}) for shape, classes, axis in _LABELLED],
        exceptions=_REAL,
    )
)
