"""Shape ops: reshape, permute, join and other moves of entries. All are linear: jvp and zero rules follow.

Axes arrive normalised: non-negative, increasing, distinct (`iverson.core.shapes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, value_of
from iverson.core.entries import FULL, NOTHING, Box, Entries, LowRank, Stored, hull, in_products, join, plain
from iverson.core.entry_map import Call
from iverson.core.errors import ShapeError
from iverson.core.op import JOINTLY, Body, Op, Rule, Sample
from iverson.core.protocols import DType, Namespace, NDArray, Params, Shaped, Value
from iverson.core.region import Region
from iverson.core.relations import Relation, same
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels import index_keys, region_images, strided
from iverson.kernels.index_keys import Key
from iverson.layouts import Box as BoxLayout
from iverson.layouts import Zero, to_strided
from iverson.ops.numbers import elementwise_ops
from iverson.ops.numbers.reduction_ops import is_stored
from iverson.ops.rules import loops
from iverson.ops.rules.batching import leading, next_axis, padded
from iverson.ops.rules.entry_maps import ELEMENTWISE, SAME, Copied, Entrywise, Moved, moved, union_of_symbols
from iverson.ops.rules.notation import Indexed, Language, Moves, lazy_te, stretched_index

if TYPE_CHECKING:
    from iverson.te import Expr


LINEAR = ((0,),)


def _same_dtype(shape: Shape, x: Shaped) -> Aval:
    return Aval(shape, x.dtype)


@derived
def zero(shape: Shape, dtype: DType) -> Any:
    """A constant zero of this shape and dtype, in the zero layout."""
    from iverson.core.dispatch import make_handle

    return make_handle(Zero(shape, dtype))


def _reshaped(T: Language, x: Indexed, shape: Shape) -> Any:
    """x in the new shape, in index notation: entry n in row-major order is entry n of x."""

    def source(i: tuple[Expr, ...]) -> tuple[Expr, ...]:
        n: Any = 0
        for k, extent in zip(i, shape, strict=True):
            n = n * extent + k
        digits = []
        for extent in reversed(x.shape):
            digits.append(n % extent)
            n = n // extent
        return tuple(reversed(digits))

    return T.compute(shape, lambda *i: x[source(i)])


def _joined(T: Language, xs: Sequence[Indexed], axis: int, offsets: Shape) -> Any:
    """Operands side by side along ``axis``, in index notation: each in its range of the axis.

    offsets : the start of each operand along the axis.
    """
    shape = _concat_abstract(*xs, axis=axis, offsets=offsets).shape

    def entry(*i: Expr) -> Any:
        total: Any = 0
        for x, offset in zip(xs, offsets, strict=True):
            if x.shape[axis]:
                k = i[axis] - offset
                index = (*i[:axis], T.clamp(k, 0, x.shape[axis] - 1), *i[axis + 1 :])
                total = T.select((k >= 0) & (k < x.shape[axis]), x[index], total)
        return total

    return T.compute(shape, entry)


def _stacked(T: Language, xs: Sequence[Indexed], axis: int) -> Any:
    shape = _stack_abstract(*xs, axis=axis).shape

    def entry(*i: Expr) -> Any:
        index = (*i[:axis], *i[axis + 1 :])
        total: Any = xs[-1][index]
        for k, x in enumerate(xs[:-1]):
            total = T.select(i[axis] == k, x[index], total)
        return total

    return T.compute(shape, entry)


def _rolled(shape: Shape, i: tuple[Expr, ...], by: dict[int, int]) -> tuple[Expr, ...]:
    return tuple((k - by.get(d, 0)) % n if n else k for d, (n, k) in enumerate(zip(shape, i, strict=True)))


def _band(T: Language, x: Indexed, keep: str, k: int) -> Any:
    def inside(i: Expr, j: Expr) -> Any:
        return j - i <= k if keep == "tril" else j - i >= k

    return T.compute(x.shape, lambda *i: T.select(inside(i[-2], i[-1]), x[i], 0))


class Reshaped(Moved):
    """The same entries in the same order."""

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the entry with the same row-major number."""
        return Relation.same(call.out.shape, call.inputs[i].shape)


class Stretched(Moved):
    """Entries repeated along axes."""

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the same position along the axes that are not stretched."""
        return Relation.aligned(call.out.shape, call.inputs[i].shape)


define(
    Op(
        name="reshape",
        forward=lambda x, *, shape: x.reshape(shape),
        abstract=lambda x, *, shape: _same_dtype(shape, x),
        vjp=(lambda F, g, _y, _x, *, shape: F.reshape(g, shape=_x.shape),),
        linear_in=LINEAR,
        entry_map=Reshaped(region_images.reshaped),
        te=lazy_te(lambda T, x, *, shape: _reshaped(T, x, shape)),
        samples=lambda s: [
            Sample((s((2, 3)),), {"shape": (3, 2)}),
            Sample((s((2, 3)),), {"shape": (2, 1, 3)}),
            Sample((s((1,)),), {"shape": ()}),
        ],
    )
)


@cache
def _inverse(axes: Shape) -> Shape:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


class Permuted(Moved):
    """Axes in another order. A pattern stays one if its axes stay first."""

    products = True

    def relation(self, call: Call, i: int) -> Relation:
        """Relation to the same position along each axis."""
        return Relation.of(
            call.out.shape, call.inputs[i].shape, *starmap(same, enumerate(call.params["axes"]))
        )

    def moved(
        self, op: Op, demands: Sequence[Entries], inputs: Sequence[Shaped], out: Shaped, params: Params
    ) -> Entries:
        """The demanded pattern with its axes permuted; all entries if its axes do not stay the first ones."""
        need = demands[0]
        if not isinstance(need, Stored):
            return need
        axes = params["axes"][: need.pattern.ndim]
        if max(axes) >= len(axes):
            return FULL
        pattern = need.pattern.permuted(axes)
        if pattern.layout == "coo" != need.pattern.layout:  # of a batch, where kernels keep its layout
            return super().moved(op, demands, inputs, out, params)
        return Stored(pattern, need.products)


def _permute_factors(
    F: Namespace, _rule: Rule, part: Entries, _i: int, g: Value, _y: Shaped, _x: Shaped, *, axes: Shape
) -> Any:
    """Factors of a `LowRank` cotangent, transposed and exchanged, for a transpose that is read in products.

    Else NotImplemented.
    """
    if not isinstance(g, LowRank) or not in_products(part) or axes != (1, 0):
        return NotImplemented
    return LowRank(F.mT(g.right), F.mT(g.left))


define(
    Op(
        name="permute_dims",
        forward=lambda x, *, axes: x.transpose(axes),
        abstract=lambda x, *, axes: _same_dtype(tuple(x.shape[k] for k in axes), x),
        vjp=(lambda F, g, _y, _x, *, axes: F.permute_dims(g, axes=_inverse(axes)),),
        linear_in=LINEAR,
        entry_map=Permuted(region_images.permuted),
        vjp_at=_permute_factors,
        te=Moves(
            lambda shape, *, axes: tuple(shape[k] for k in axes),
            lambda shape, i, *, axes: tuple(i[axes.index(k)] for k in range(len(shape))),
        ),
        batch=lambda F, _examples, x, *, axes: F.permute_dims(x, axes=(0, *next_axis(axes))),
        samples=lambda s: [Sample((s((2, 3, 4)),), {"axes": (2, 0, 1)})],
    )
)


@derived
def mT(x: Value) -> Any:
    """The last two axes exchanged."""
    return namespace.permute_dims(x, axes=_transposed(len(x.shape)))


@cache
def _transposed(ndim: int) -> Shape:
    return (*range(ndim - 2), ndim - 1, ndim - 2)


@derived
def mH(x: Value) -> Any:
    """The conjugate transpose of the last two axes."""
    if x.dtype.kind == "c":
        x = namespace.conj(x)
    return namespace.permute_dims(x, axes=_transposed(len(x.shape)))


define(
    Op(
        name="expand_dims",
        forward=lambda x, *, axis: x.reshape(_expanded(x.shape, axis)),
        abstract=lambda x, *, axis: _same_dtype(_expanded(x.shape, axis), x),
        vjp=(lambda F, g, _y, _x, *, axis: F.squeeze(g, axis=axis),),
        linear_in=LINEAR,
        entry_map=Reshaped(region_images.expanded),
        te=Moves(
            lambda shape, *, axis: _expanded(shape, axis),
            lambda shape, i, *, axis: tuple(n for k, n in enumerate(i) if k not in axis),
        ),
        samples=lambda s: [Sample((s((2, 3)),), {"axis": (0, 2)})],
    )
)


def _expanded(shape: tuple[int | Expr, ...], axis: Shape, new: int = 1) -> tuple[Any, ...]:
    """``shape`` with ``new`` inserted at the positions ``axis``."""
    result = list(shape)
    for k in axis:
        result.insert(k, new)
    return tuple(result)


define(
    Op(
        name="squeeze",
        forward=lambda x, *, axis: x.squeeze(axis),
        abstract=lambda x, *, axis: _same_dtype(_squeezed(x.shape, axis), x),
        vjp=(lambda F, g, _y, _x, *, axis: F.expand_dims(g, axis=axis),),
        linear_in=LINEAR,
        entry_map=Reshaped(region_images.squeezed),
        te=Moves(
            lambda shape, *, axis: _squeezed(shape, axis),
            lambda shape, i, *, axis: _expanded(i, axis, 0),
        ),
        samples=lambda s: [Sample((s((2, 1, 3, 1)),), {"axis": (1, 3)})],
    )
)


def _squeezed(shape: Shape, axis: Shape) -> Shape:
    if any(shape[k] != 1 for k in axis):
        raise ShapeError("squeeze", "axis", got=f"axes {axis} of shape {shape}", expected="axes of extent 1")
    return tuple(n for k, n in enumerate(shape) if k not in axis)


def _check_broadcast(x: Shaped, shape: Shape) -> Aval:
    if broadcast_shapes("broadcast_to", x.shape, shape) != shape:
        raise ShapeError(
            "broadcast_to",
            "shape",
            got=f"{shape} for an array of shape {x.shape}",
            expected="a shape that the array's extents of 1 stretch to",
        )
    return _same_dtype(shape, x)


define(
    Op(
        name="broadcast_to",
        forward=strided.broadcast_to,
        abstract=lambda x, *, shape: _check_broadcast(x, shape),
        vjp=(lambda F, g, _y, _x, *, shape: F.sum_to(g, _x.shape),),
        linear_in=LINEAR,
        entry_map=Stretched(region_images.broadcast),
        vjp_at=elementwise_ops.within,
        te=Moves(lambda old, *, shape: shape, lambda old, i, **_: stretched_index(old, i)),
        batch=lambda F, examples, x, *, shape: F.broadcast_to(
            padded(F, x, len(shape)), shape=(examples.size, *shape)
        ),
        samples=lambda s: [
            Sample((s((2, 1)),), {"shape": (3, 2, 4)}),
            Sample((s(()),), {"shape": (2,)}),
        ],
    )
)


def _concat_abstract(*xs: Shaped, axis: int, offsets: Shape) -> Aval:
    """Aval of the joined array; raises ShapeError if shapes differ on another axis."""
    first = xs[0].shape
    for k, x in enumerate(xs):
        shape = x.shape
        if len(shape) != len(first) or shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            raise ShapeError(
                "concat",
                f"arrays[{k}]",
                got=f"shape {x.shape}",
                expected=f"shape {first} but for axis {axis}",
            )
    total = offsets[-1] + xs[-1].shape[axis]
    return Aval((*first[:axis], total, *first[axis + 1 :]), dtypes.result_type(*xs))


def _concat_key(y: Shaped, x: Shaped, axis: int, offset: int) -> tuple[slice, ...]:
    """The key that reads operand x out of the result y, in which it starts at ``offset`` along ``axis``."""
    region = Region.full(x.shape).shifted(offset if k == axis else 0 for k in range(y.ndim))
    return region.slices


class Joined(Copied):
    """Entry map of ``concat`` and ``stack``: operands side by side.

    place : ``place(region, k, **params)``, the region of the result that a region of operand k moves to.
    origin : ``origin(region, k, **params)``, the region of operand k that a region of the result comes from.
    """

    moves = partial = True

    def __init__(self, place: Callable[..., Region], origin: Callable[..., Region]) -> None:
        self._place = place
        self._origin = origin

    def image_of(self, region: Region, k: int, params: Params) -> Region:
        """The region of the result that a region of operand k moves to."""
        return self._place(region, k, **params)

    def origin(self, region: Region, k: int, params: Params) -> Region:
        """The region of operand k that a region of the result comes from."""
        return self._origin(region, k, **params)

    def demand(
        self, op: Op, demands: Sequence[Entries], inputs: Sequence[Shaped], out: Shaped, params: Params
    ) -> Entries:
        """The box, or pattern, that the demanded entries move to."""
        if any(isinstance(need, Stored) for need in demands):
            return moved(op, demands, inputs, out, params)
        return join(
            Box(self._place(hull(need, x.shape), k, **params)) if need is not NOTHING else NOTHING
            for k, (need, x) in enumerate(zip(demands, inputs, strict=True))
        )

    def support(
        self, _op: Op, where: Entries, i: int, inputs: Sequence[Shaped], _out: Shaped, params: Params
    ) -> Entries:
        """The entries of operand i that move to the box ``where``."""
        if not isinstance(where, Box):
            return where if where is NOTHING else FULL
        region = self._place(Region.full(inputs[i].shape), i, **params).intersect(where.region)
        return plain(Box(self._origin(region, i, **params)), inputs[i].shape) if region.size else NOTHING


def _concat_places(region: Region, k: int, axis: int, offsets: Shape) -> Region:
    return region.shifted(offsets[k] if d == axis else 0 for d in range(len(region.start)))


def _concat_origin(region: Region, k: int, axis: int, offsets: Shape) -> Region:
    return region.shifted(-offsets[k] if d == axis else 0 for d in range(len(region.start)))


def _of_one_dtype(xs: Sequence[NDArray]) -> Sequence[NDArray]:
    """Arrays cast to the dtype that they promote to, if one is of bfloat16, for which NumPy has no rule."""
    if not any(x.dtype.kind == "V" for x in xs) or len({x.dtype for x in xs}) == 1:
        return xs
    common = dtypes.result_type(*xs)
    return [x.astype(common) for x in xs]


define(
    Op(
        name="concat",
        forward=lambda *xs, axis, offsets: np.concatenate(_of_one_dtype(xs), axis),
        abstract=_concat_abstract,
        vjp=lambda F, wanted, g, _y, *_xs, axis, offsets: [
            F.index_basic(g, key=_concat_key(_y, _xs[i], axis, offsets[i])) for i in wanted
        ],
        linear_in=JOINTLY,
        entry_map=Joined(_concat_places, _concat_origin),
        te=lazy_te(lambda T, *xs, axis, offsets: _joined(T, xs, axis, offsets)),
        samples=lambda s: [
            Sample((s((2, 3)), s((2, 1)), s((2, 0))), {"axis": 1, "offsets": (0, 3, 4)}),
            Sample((s((2, 2)), s((1, 2)), s((2, 2))), {"axis": 0, "offsets": (0, 2, 3)}),
            Sample((s((2,)),), {"axis": 0, "offsets": (0,)}),
        ],
    )
)


def _stack_key(axis: int, i: int, ndim: int) -> Key:
    return tuple(i if k == axis else slice(None) for k in range(ndim))


def _stack_abstract(*xs: Shaped, axis: int) -> Aval:
    first = xs[0].shape
    for k, x in enumerate(xs):
        if x.shape != first:
            raise ShapeError("stack", f"arrays[{k}]", got=f"shape {x.shape}", expected=f"shape {first}")
    return Aval((*first[:axis], len(xs), *first[axis:]), dtypes.result_type(*xs))


def _stack_places(region: Region, k: int, axis: int) -> Region:
    return Region(
        (*region.start[:axis], k, *region.start[axis:]), (*region.stop[:axis], k + 1, *region.stop[axis:])
    )


def _stack_origin(region: Region, k: int, axis: int) -> Region:
    return region.permuted(tuple(d for d in range(len(region.start)) if d != axis))


define(
    Op(
        name="stack",
        forward=lambda *xs, axis: np.stack(_of_one_dtype(xs), axis),
        abstract=_stack_abstract,
        vjp=lambda F, wanted, g, _y, *_xs, axis: [
            F.index_basic(g, key=full_key(_stack_key(axis, i, _y.ndim), _y.shape)) for i in wanted
        ],
        linear_in=JOINTLY,
        entry_map=Joined(_stack_places, _stack_origin),
        te=lazy_te(lambda T, *xs, axis: _stacked(T, xs, axis)),
        samples=lambda s: [
            Sample((s((2, 3)), s((2, 3))), {"axis": 1}),
            Sample((s(()), s(())), {"axis": 0}),
        ],
    )
)


def full_key(key: Key, shape: Shape) -> Key:
    """A basic key with its slices in canonical form, for an array of ``shape``."""
    axis, result = 0, []
    for item in key:
        if isinstance(item, slice):
            item = index_keys.canonical_slice(item, shape[axis])
        if item is not None:
            axis += 1
        result.append(item)
    return tuple(result)


define(
    Op(
        name="flip",
        forward=lambda x, *, axis: np.flip(x, axis),
        abstract=lambda x, *, axis: Aval(x.shape, x.dtype),
        vjp=(lambda F, g, _y, _x, *, axis: F.flip(g, axis=axis),),
        linear_in=LINEAR,
        entry_map=Moved(region_images.flipped),
        te=Moves(
            lambda shape, *, axis: shape,
            lambda shape, i, *, axis: tuple(
                n - 1 - k if d in axis else k for d, (n, k) in enumerate(zip(shape, i, strict=True))
            ),
        ),
        samples=lambda s: [Sample((s((2, 3)),), {"axis": (1,)})],
    )
)

define(
    Op(
        name="roll",
        forward=lambda x, *, shift, axis: np.roll(x, shift, axis),
        abstract=lambda x, *, shift, axis: Aval(x.shape, x.dtype),
        vjp=(lambda F, g, _y, _x, *, shift, axis: F.roll(g, shift=tuple(-k for k in shift), axis=axis),),
        linear_in=LINEAR,
        entry_map=Moved(region_images.rolled),
        te=Moves(
            lambda shape, *, shift, axis: shape,
            lambda shape, i, *, shift, axis: _rolled(shape, i, dict(zip(axis, shift, strict=True))),
        ),
        samples=lambda s: [Sample((s((2, 5)),), {"shift": (1, -2), "axis": (0, 1)})],
    )
)


def _tril(keep: str, image: Rule) -> None:
    """Define the op ``keep`` ("tril" or "triu").

    image : gives the region of the result that a region of the operand reaches.
    """
    body = getattr(np, keep)

    def selected(F: Namespace, g: Value, _y: Shaped, _x: Shaped, *, k: int) -> Any:
        """The cotangent in the triangle, as a selection; of a sparse one, the entries stored there."""
        if is_stored(g):
            return getattr(F, keep)(g, k=k)
        if isinstance(value_of(g), BoxLayout):  # which may have nothing in the triangle
            g = getattr(F, keep)(g, k=k)
        return F.bracket(body(np.ones(g.shape[-2:], bool), k), g, negated=False)

    define(
        Op(
            name=keep,
            forward=lambda x, *, k: body(x, k),
            abstract=lambda x, *, k: Aval(x.shape, x.dtype),
            vjp=(selected,),
            jvp=(selected,),
            linear_in=LINEAR,
            entry_map=Moved(image),
            te=lazy_te(lambda T, x, *, k: _band(T, x, keep, k)),
            batch=leading,
            samples=lambda s: [Sample((s((2, 3, 4)),), {"k": k}) for k in (0, 1, -1)],
        )
    )


_tril("tril", region_images.lower)
_tril("triu", region_images.upper)


def _diagonal_length(shape: Shape, offset: int) -> int:
    rows, columns = shape[-2:]
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


def _embedded(F: Namespace, g: Value, _y: Shaped, _x: Shaped, *, offset: int) -> Any:
    """The cotangent of x with g on its diagonal; other entries are left out, as zeros of a selection."""
    g = F.diag_embed(g, offset=offset, shape=_x.shape)
    if is_stored(g):
        return g
    return F.bracket(np.eye(_x.shape[-2], _x.shape[-1], offset, dtype=bool), g, negated=False)


define(
    Op(
        name="diagonal",
        forward=lambda x, *, offset: np.diagonal(x, offset, -2, -1),
        abstract=lambda x, *, offset: Aval((*x.shape[:-2], _diagonal_length(x.shape, offset)), x.dtype),
        vjp=(_embedded,),
        linear_in=LINEAR,
        entry_map=Moved(region_images.diagonal),
        te=Moves(
            lambda shape, *, offset: (*shape[:-2], _diagonal_length(shape, offset)),
            lambda shape, i, *, offset: (
                (*i, i[-1] + offset) if offset >= 0 else (*i[:-1], i[-1] - offset, i[-1])
            ),
        ),
        batch=leading,
        samples=lambda s: [
            Sample((s(shape),), {"offset": k})
            for shape, k in (((2, 3, 4), 0), ((2, 3, 4), 2), ((2, 3, 4), -1), ((3, 5), 3), ((5, 3), -3))
        ],
    )
)

define(
    Op(
        name="diag_embed",
        forward=strided.diag_embed,
        abstract=lambda x, *, offset, shape: Aval(shape, x.dtype),
        vjp=(lambda F, g, _y, _x, *, offset, shape: F.diagonal(g, offset=offset),),
        linear_in=LINEAR,
        entry_map=Moved(region_images.on_diagonal),
        te=lazy_te(loops.diag_embed),
        samples=lambda s: [Sample((s((2, 3)),), {"offset": 1, "shape": (2, 4, 4)})],
    )
)


@derived
def diag(x: Value) -> Any:
    """Square matrices with x on their diagonals."""

    n = x.shape[-1]
    return namespace.diag_embed(x, offset=0, shape=(*x.shape, n))


class Added(Entrywise):
    """Entry map of a sum of operands of one shape."""

    def demand(
        self, _op: Op, demands: Sequence[Entries], _inputs: Sequence[Shaped], out: Shaped, _params: Params
    ) -> Entries:
        """The entries that are demanded of at least one operand."""
        merged = union_of_symbols(demands, out.shape)
        return join(demands) if merged is None else merged

    def support(
        self, _op: Op, where: Entries, _i: int, _inputs: Sequence[Shaped], _out: Shaped, _params: Params
    ) -> Entries:
        """The entries in ``where``."""
        return where


define(
    Op(
        name="add_n",
        forward=strided.add_n,
        abstract=lambda *xs: Aval(xs[0].shape, dtypes.result_type(*xs)),
        vjp=lambda F, wanted, g, _y, *_xs: [g] * len(wanted),
        linear_in=JOINTLY,
        entry_map=Added(),
        batch=leading,
        te=lazy_te(loops.add_n),
        samples=lambda s: [Sample((s((2, 3)), s((2, 3)), s((2, 3))))],
    )
)

_SAME: dict[str, Callable[..., Any]] = {
    "copy": lambda x: x.copy(),
    # A new node on the same entries: what a transform differentiates in.
    "identity": lambda x: x.view(),
}
for _name, _body in _SAME.items():
    define(
        Op(
            name=_name,
            forward=Body(_body, signals=False),
            abstract=lambda x: Aval(x.shape, x.dtype),
            vjp=(lambda F, g, _y, _x: g,),
            linear_in=LINEAR,
            entry_map=ELEMENTWISE,
            batch=leading,
            te=Moves(lambda shape: shape, lambda _, i: i),
            samples=lambda s: [Sample((s((2, 3)),))],
        )
    )

define(
    Op(
        name="to_dense",
        forward=lambda x: x,
        abstract=lambda x: Aval(x.shape, x.dtype),
        vjp=(lambda F, g, _y, _x: g,),
        linear_in=(),
        jvp=(lambda F, t, _y, _x: t,),
        entry_map=SAME,
        batch=leading,
        te=Moves(lambda shape: shape, lambda _, i: i),
        samples=lambda s: [Sample((s((2, 3)),))],
    )
)


@derived
def to_numpy(x: Value) -> NDArray:
    """The entries of a constant as a strided NumPy array."""
    return to_strided(value_of(x)) if isinstance(x, Handle) else np.asarray(x)
