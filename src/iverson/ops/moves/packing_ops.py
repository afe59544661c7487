"""Packing: entries picked by a mask, and put back; linear in the entries, with the mask a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.errors import ShapeError
from iverson.core.op import Op, Sample
from iverson.core.protocols import Namespace, Shaped, Value
from iverson.core.shapes import Shape
from iverson.core.table import define
from iverson.layouts import Packed
from iverson.ops.rules.batching import Examples
from iverson.ops.rules.entry_maps import COPIED

LINEAR = ((0,),)


def _check(name: str, x: Shaped, expected: Shape) -> None:
    """Raise ShapeError unless x has the ``expected`` shape."""
    if x.shape != expected:
        raise ShapeError(name, "x", got=f"shape {x.shape}", expected=f"shape {expected}")


def _pack_abstract(x: Shaped, mask: Shaped, *, count: int) -> Aval:
    _check("pack", x, mask.shape)
    return Aval((count,), x.dtype)


def _unpack_abstract(x: Shaped, mask: Shaped, *, count: int, held: bool = True) -> Aval:
    _check("unpack", x, (count,))
    return Aval(mask.shape, x.dtype)


def _batched_pack(F: Namespace, examples: Examples, x: Value, mask: Value, *, count: int) -> Any:
    """Packed entries of each example as a row: all are packed as one vector, ``count`` each."""
    vector = F.pack(*examples.each(F, (x, mask)), count=examples.size * count)
    return F.reshape(vector, shape=(examples.size, count))


def _batched_unpack(
    F: Namespace, examples: Examples, x: Value, mask: Value, *, count: int, **held: bool
) -> Any:
    x, mask = examples.each(F, (x, mask))
    total = examples.size * count
    return F.unpack(F.reshape(x, shape=(total,)), mask, count=total, **held)


_MASK = np.array([[True, False, True], [False, True, True]])
_SAMPLES = ((_MASK, 4), (np.zeros((2, 2), bool), 0), (np.array(True), 1))

# x where the mask holds, in C order, as a vector; ``count`` is its length.
define(
    Op(
        name="pack",
        forward=lambda x, mask, *, count: x[mask],
        abstract=_pack_abstract,
        vjp=(lambda F, g, _y, _x, mask, *, count: F.unpack(g, mask, count=count), None),
        linear_in=LINEAR,
        entry_map=COPIED,
        batch=_batched_pack,
        samples=lambda s: [Sample((s(mask.shape), mask), {"count": n}) for mask, n in _SAMPLES],
    )
)

# The transpose: a vector put where the mask holds, zero elsewhere. Not ``held``, it is so in compiled code
# whose conditions say where it is read.
define(
    Op(
        name="unpack",
        forward=lambda x, mask, *, count, held=True: Packed(mask, x),
        abstract=_unpack_abstract,
        vjp=(lambda F, g, _y, _x, mask, *, count, held=True: F.pack(g, mask, count=count), None),
        linear_in=LINEAR,
        entry_map=COPIED,
        batch=_batched_unpack,
        samples=lambda s: [Sample((s((n,)), mask), {"count": n}) for mask, n in _SAMPLES],
    )
)
