"""Selections: the ops that make a bracket, of which the derivatives of choices are made.

[c] g is g where c holds, and a zero that annihilates elsewhere (`iverson.layouts.bracket`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import value_of
from iverson.core.op import Body, Op, Sample
from iverson.core.protocols import NDArray, Params, Shaped, Value
from iverson.core.shapes import broadcast_shapes
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels import strided
from iverson.layouts import is_strided
from iverson.ops.numbers.elementwise_ops import within
from iverson.ops.rules import loops
from iverson.ops.rules.entry_maps import COPIED, Elementwise

#: What makes a selection, or takes it apart: its result is none.
TAKEN_APART = frozenset(("selected", "values_held", "where_held"))


def begins(op: Op, params: Params) -> bool:
    """True if the result of an op may be a deferred selection (`Bracket`) although no operand is one."""
    return op.name in ("bracket", "overwritten") or params.get("held", op.name == "unpack")


def scatters_boxes(op: Op) -> bool:
    """True if entries of a box may move to places that only a run knows: in the result, a selection."""
    return (op.entry_map.moves and op.name != "index_basic") or op.name == "pack"


def _abstract(condition: Shaped | complex, x: Any, *, negated: bool) -> Aval:
    shapes = (getattr(v, "shape", ()) for v in (condition, x))
    return Aval(broadcast_shapes("bracket", *shapes), np.asarray(x).dtype if np.isscalar(x) else x.dtype)


def has_nan(x: NDArray) -> bool:
    """True if any entry of a real array is nan: then, and only then, the sum of its squares is nan."""
    if x.dtype.kind != "f" or not x.flags.c_contiguous:
        return bool(x.size and np.isnan(x.max()))
    entries = x.reshape(-1)
    return math.isnan(np.dot(entries, entries))


@derived
def nan_at(x: Value, t: Value) -> Any:
    """t, but nan where x is nan: a choice among numbers lets a nan through, and has no derivative there."""
    value = value_of(x, x)
    if is_strided(value) and not has_nan(value):
        return t
    # A weight of t, so that derivatives are weighted too: of a choice, they would be zeros times nan.
    return t * namespace.where(namespace.isnan(x), np.asarray(math.nan, t.dtype), 1)


@derived
def or_nan(condition: Value, x: Value) -> Any:
    """Mask that is True where ``condition`` holds or x is nan."""
    value = value_of(x, x)
    if is_strided(value) and not has_nan(value):
        return condition
    return namespace.logical_or(condition, namespace.isnan(x))


@derived
def shared_at_ties(a: Value, b: Value, t: Value) -> Any:
    """t, and half of it where a and b are equal."""
    ties = namespace.equal(a, b)
    value = value_of(ties, ties)
    if is_strided(value) and not value.any():
        return t
    return namespace.where(ties, 0.5 * t, t)


define(
    Op(
        name="bracket",
        forward=strided.bracket,
        abstract=_abstract,
        vjp=(None, lambda F, g, _y, c, _x, *, negated: F.sum_to(F.bracket(c, g, negated=negated), _x.shape)),
        linear_in=((1,),),
        entry_map=Elementwise(computed=False, selects=True),
        vjp_at=within,
        loops=loops.bracket,
        samples=lambda s: [
            Sample((s.rng.random((2, 3)) < 0.5, s((2, 3))), {"negated": False}),
            Sample((s.rng.random(3) < 0.5, s((2, 3))), {"negated": True}),
        ],
    )
)

# A selection made, as a cotangent leaves a pass: for values whose layout is not known yet.
define(
    Op(
        name="selected",
        forward=Body(lambda x: x, signals=False),
        abstract=lambda x: Aval(x.shape, x.dtype),
        vjp=(lambda F, g, _y, _x: g,),
        linear_in=((0,),),
        entry_map=Elementwise(computed=False, selects=True),
        loops=loops.same,
        samples=lambda s: [Sample((s((2, 3)),))],
    )
)

# A constant with the entries of x, where a level does not know whether it is differentiated from outside.
define(
    Op(
        name="detached",
        forward=Body(lambda x: x, signals=False),
        abstract=lambda x: Aval(x.shape, x.dtype),
        entry_map=Elementwise(keeps_zeros=True),
        loops=loops.same,
        samples=lambda s: [Sample((s((2, 3)),))],
    )
)

# What an assignment leaves of the entries that were there: of x[key] = v, the derivative in x.
define(
    Op(
        name="overwritten",
        forward=strided.overwritten,
        abstract=lambda x, *, key: Aval(x.shape, x.dtype),
        vjp=(lambda F, g, _y, _x, *, key: F.overwritten(g, key=key),),
        linear_in=((0,),),
        entry_map=COPIED,
        loops=loops.overwritten,
        samples=lambda s: [
            Sample((s((4, 5)),), {"key": (slice(0, 2, 1), slice(1, 4, 1))}),
            Sample((s((4, 5)),), {"key": (2, slice(4, None, -2))}),
        ],
    )
)
