"""Ops of neural networks that are not elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.errors import DTypeError
from iverson.core.op import Abstract, Op, Sample
from iverson.kernels import strided
from iverson.ops.registry import define


def _abstract(name: str) -> Any:
    def abstract(x: Any, *, axis: int) -> Abstract:
        if x.dtype.kind != "f":
            raise DTypeError(name, "x", got=f"dtype {x.dtype}", expected="a real floating dtype")
        return Abstract(x.shape, dtypes.to_inexact(x.dtype))

    return abstract


def _samples(s: Any) -> list[Sample]:
    return [
        Sample((s((2, 3)),), {"axis": 1}),
        Sample((s((3, 2)),), {"axis": 0}),
        Sample((s((2, 0)),), {"axis": 1}),
    ]


def _softmax_rule(F: Any, g: Any, y: Any, _x: Any, *, axis: int) -> Any:
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
        samples=_samples,
        exceptions=_REAL,
    )
)


def _losses(x: Any, classes: Any, *, axis: int) -> Any:
    shifted = x - x.max(axis=axis, keepdims=True)
    if axis == x.ndim - 1:
        rows = shifted.reshape(-1, x.shape[-1])
        chosen = rows[np.arange(len(rows)), classes.reshape(-1)].reshape(x.shape[:-1])
    else:
        chosen = np.take_along_axis(shifted, classes, axis).squeeze(axis)
    return np.log(np.exp(shifted, out=shifted).sum(axis=axis)) - chosen


def _class_error(F: Any, x: Any, classes: Any, axis: int) -> Any:
    """softmax(x) minus 1 at each example's class: the derivative of its loss."""
    numbers = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    return F.softmax(x, axis=axis) - F.astype(F.equal(classes, numbers), dtype=x.dtype)


# Losses log(sum(exp(x))) - x[class]; the classes have extent 1 along the axis.
define(
    Op(
        name="cross_entropy",
        forward=_losses,
        abstract=lambda x, classes, *, axis: Abstract(x.shape[:axis] + x.shape[axis + 1 :], x.dtype),
        vjp=(
            lambda F, g, _y, x, classes, *, axis: (
                F.expand_dims(g, axis=(axis,)) * _class_error(F, x, classes, axis)
            ),
            None,
        ),
        jvp=(
            lambda F, t, _y, x, classes, *, axis: F.sum(
                t * _class_error(F, x, classes, axis), axis=(axis,), keepdims=False
            ),
            None,
        ),
        samples=lambda s: [
            Sample((s((2, 3)), np.array([[2], [0]])), {"axis": 1}),
            Sample((s((3, 2)), np.array([[2, 1]])), {"axis": 0}),
        ],
        exceptions=_REAL,
    )
)
