"""Ops over segments: the slices of an array along its first axis, each in one of some groups.

Which slice is in which segment is a constant parameter (`iverson.layouts.Segments`), as a pattern is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.errors import ShapeError
from iverson.core.op import Op, Sample
from iverson.core.table import define
from iverson.kernels import segments as kernels
from iverson.layouts import Segments
from iverson.ops.batching import behind_first

LINEAR = ((0,),)


def _checked(name: str, full: bool) -> Any:
    """The abstract of an op whose result has a slice for each slice of x (``full``) or for each segment."""

    def abstract(x: Any, *_: Any, segments: Segments) -> Aval:
        if x.shape[:1] != segments.ids.shape:
            raise ShapeError(
                name,
                "segment_ids",
                got=f"shape {segments.ids.shape} for x of shape {x.shape}",
                expected="one number for each slice of x along its first axis",
            )
        return Aval(x.shape if full else (segments.count, *x.shape[1:]), x.dtype)

    return abstract


def _repeat_abstract(x: Any, *, segments: Segments) -> Aval:
    if x.shape[:1] != (segments.count,):
        raise ShapeError(
            "segment_repeat",
            "x",
            got=f"shape {x.shape}",
            expected=f"{segments.count} slices, one per segment",
        )
    return Aval((segments.ids.size, *x.shape[1:]), x.dtype)


_SEGMENTS = Segments(np.array([0, 2, 2, 0, 3]), 4)
_IN_ORDER = Segments(np.array([0, 0, 2, 2, 3]), 4)


def _samples(count: int, *, distinct: bool = False, post: Any = None) -> Any:
    """Vectors and matrices of ``count`` slices, their segments in order and not."""
    return lambda s: [
        Sample((s.distinct(shape) if distinct else s(shape),), {"segments": segments}, post)
        for segments in (_SEGMENTS, _IN_ORDER)
        for shape in ((count,), (count, 2))
    ]


define(
    Op(
        name="segment_sum",
        forward=kernels.segment_sum,
        abstract=_checked("segment_sum", False),
        vjp=(lambda F, g, _y, _x, *, segments: F.segment_repeat(g, segments=segments),),
        linear_in=LINEAR,
        batch=behind_first,
        samples=_samples(5),
    )
)

define(
    Op(
        name="segment_repeat",
        forward=kernels.segment_repeat,
        abstract=_repeat_abstract,
        vjp=(lambda F, g, _y, _x, *, segments: F.segment_sum(g, segments=segments),),
        linear_in=LINEAR,
        batch=behind_first,
        samples=_samples(4),
    )
)


def _share_of_largest(F: Any, y: Any, x: Any, segments: Segments) -> Any:
    """Which entries attain the maximum of their segment, and what each has of it: 1/n, or nan for a nan."""
    attained = F.logical_or(F.equal(x, F.segment_repeat(y, segments=segments)), F.isnan(x))
    count = F.segment_sum(F.astype(attained, dtype=x.dtype), segments=segments)
    return attained, F.where(F.isnan(y), math.nan, F.reciprocal(F.maximum(count, 1)))


def _segment_max_vjp(F: Any, g: Any, y: Any, x: Any, *, segments: Segments) -> Any:
    attained, share = _share_of_largest(F, y, x, segments)
    return F.bracket(attained, F.segment_repeat(g * share, segments=segments), negated=False)


def _segment_max_jvp(F: Any, t: Any, y: Any, x: Any, *, segments: Segments) -> Any:
    attained, share = _share_of_largest(F, y, x, segments)
    return F.segment_sum(F.bracket(attained, t, negated=False), segments=segments) * share


define(
    Op(
        name="segment_max",
        forward=kernels.segment_max,
        abstract=_checked("segment_max", False),
        vjp=(_segment_max_vjp,),
        jvp=(_segment_max_jvp,),
        # Segment 1 has no slice, so its maximum is -inf: read the others.
        batch=behind_first,
        samples=_samples(
            5, distinct=True, post=lambda F, y: F.gather(y, np.array([0, 2, 2, 0, 3]), axes=(0,))
        ),
        exceptions={"complex": "complex numbers have no order"},
        convention="equal maxima of a segment share the derivative evenly",
    )
)


def _pull(F: Any, g: Any, y: Any, _x: Any, *, segments: Segments) -> Any:
    return F.softmax_pullback(g, y, segments=segments)


define(
    Op(
        name="segment_softmax",
        forward=kernels.segment_softmax,
        abstract=_checked("segment_softmax", True),
        vjp=(_pull,),
        jvp=(_pull,),
        batch=behind_first,
        samples=_samples(5),
        exceptions={"complex": "the maximum that keeps it from overflowing has no meaning there"},
    )
)


def _weighted(F: Any, y: Any, g: Any, segments: Segments) -> Any:
    """The sum of y g over the segment of each slice."""
    return F.segment_repeat(F.segment_sum(y * g, segments=segments), segments=segments)


# out = y (g - S(y g)) with S the sum over a segment, which is its own transpose: so is out's in g, and
# grad y = c (g - S(y g)) - g S(y c) for the cotangent c of out.
define(
    Op(
        name="softmax_pullback",
        forward=kernels.softmax_pullback,
        abstract=_checked("softmax_pullback", True),
        vjp=(
            lambda F, c, _y, _g, y, *, segments: F.softmax_pullback(c, y, segments=segments),
            lambda F, c, _y, g, y, *, segments: (
                c * (g - _weighted(F, y, g, segments)) - g * _weighted(F, y, c, segments)
            ),
        ),
        jvp=(
            None,
            lambda F, t, _y, g, y, *, segments: (
                t * (g - _weighted(F, y, g, segments)) - y * _weighted(F, t, g, segments)
            ),
        ),
        linear_in=LINEAR,
        batch=behind_first,
        samples=lambda s: [
            Sample((s(shape), s(shape)), {"segments": segments})
            for segments in (_SEGMENTS, _IN_ORDER)
            for shape in ((5,), (5, 2))
        ],
        exceptions={"complex": "softmax, of which it is the derivative, is real"},
    )
)
