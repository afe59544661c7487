"""Partial sums of a loss and of its gradients over some partitions, as messages and as terms of sums.

A gradient that is held as its parameter is, strided or on its pattern, is its entries, small ones joined. One
that is zero is left out. All others are tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from iverson.core.dispatch import make_handle, unwrap, value_of
from iverson.core.protocols import NDArray
from iverson.interop.entry_buffers import Joint, opened, with_buffers
from iverson.interop.messages import summed
from iverson.layouts import Zero

if TYPE_CHECKING:
    from collections.abc import Hashable

    from iverson.handles.array import Array
    from iverson.interop.entry_buffers import Leaf


@dataclass
class Partial:
    """Sum of the loss over some examples, and of its gradients.

    count : the number of examples. value : the sum of their losses.
    places : the numbers of the leaves whose gradient has the kind of the leaf (layout, pattern, mask).
    parts : the entries of these gradients, in joined buffers.
    others : gradients of other kinds, by leaf number. A leaf in neither has a gradient of zero.
    """

    count: int
    value: float
    places: tuple[int, ...]
    parts: list[NDArray]
    others: dict[int, Array]


def partial_of(
    count: int, value: float, gradients: Mapping[int, Array], kinds: Sequence[Hashable], joint: Joint
) -> Partial:
    """`Partial` with these ``gradients``, by leaf number.

    kinds : the kinds of all leaves (see `opened`). joint : the layout of the leaves' joined buffers.
    """
    buffers, gradient_kinds = opened(gradients.values())
    in_buffers = [kind == kinds[k] for k, kind in zip(gradients, gradient_kinds, strict=True)]
    places = tuple(compress(gradients, in_buffers))
    separate = {
        k: g
        for (k, g), fits in zip(gradients.items(), in_buffers, strict=True)
        if not fits and not isinstance(value_of(unwrap(g)), Zero)
    }
    return Partial(count, value, places, joint.of(places).join(list(compress(buffers, in_buffers))), separate)


def gradients_of(partial: Partial, like: Sequence[Leaf], joint: Joint) -> dict[int, Array]:
    """Gradients in ``partial`` by leaf number, those that are zero left out.

    like : the leaves; a gradient in the joined buffers gets the kind of its leaf.
    """
    arrays = joint.of(partial.places).split(partial.parts)
    leaves = with_buffers([like[k] for k in partial.places], arrays)
    return dict(zip(partial.places, leaves, strict=True)) | partial.others


def added(
    partials: Sequence[Partial], like: Sequence[Leaf], kinds: Sequence[Hashable], joint: Joint
) -> Partial:
    """Sum of several `Partial`; each gradient is in the layout that the sum of its terms has.

    like, kinds, joint : the leaves, their kinds, and the layout of their joined buffers.
    """
    count, value = sum(p.count for p in partials), sum(p.value for p in partials)
    partials = [p for p in partials if p.places or p.others] or list(partials[:1])
    first = partials[0]
    if all(p.places == first.places for p in partials):
        columns = zip(*(p.parts for p in partials), strict=True)
        parts = [value_of(summed(list(map(make_handle, terms)))) for terms in columns]
        return Partial(count, value, first.places, parts, _sums([p.others for p in partials]))
    return partial_of(count, value, _sums([gradients_of(p, like, joint) for p in partials]), kinds, joint)


def scaled(partial: Partial, scale: float) -> Partial:
    """The ``partial`` with its value and its gradients multiplied by ``scale``."""
    if scale == 1:
        return partial
    separate = {k: _times(g, scale) for k, g in partial.others.items()}
    parts = [x * x.dtype.type(scale) for x in partial.parts]
    return replace(partial, value=partial.value * scale, parts=parts, others=separate)


def _times(x: Array, scale: float) -> Array:
    ((entries,), _) = opened([x])
    result: Array
    (result,) = with_buffers([x], [np.asarray(entries * entries.dtype.type(scale))])
    return result


def _sums(terms: Sequence[Mapping[int, Array]]) -> dict[int, Array]:
    places = sorted({k for gradients in terms for k in gradients})
    return {k: summed([gradients[k] for gradients in terms if k in gradients]) for k in places}


__all__ = ["Partial", "added", "gradients_of", "partial_of", "scaled"]
