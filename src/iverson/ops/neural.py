"""Ops of neural networks that are not elementwise."""

from __future__ import annotations

from typing import Any

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


define(
    Op(
        name="softmax",
        forward=strided.softmax,
        abstract=_abstract("softmax"),
        vjp=(_softmax_rule,),
        jvp=(_softmax_rule,),
        samples=_samples,
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
    )
)
