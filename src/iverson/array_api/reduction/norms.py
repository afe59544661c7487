"""Norms of vectors and matrices. Where a norm has no derivative, at 0, it is taken as 0.

A second derivative that does not exist there is nan, so that it is not lost in a product with 0 (norm**2).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from iverson.array_api.conventions.operands import as_inexact, in_single
from iverson.array_api.entries.manipulation import moveaxis
from iverson.core.errors import ArgumentError, ShapeError, speaking_as
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import Shape, check_choice, each, normalize_axes, normalize_axis
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axes, Order


INF = float("inf")


def _powers(x: Array, p: float) -> Any:
    """Powers abs(x)**p. For p < 1 the power has no derivative at 0; it is taken as 0 there."""
    if p > 1:
        return F.pow(F.abs(x), p)
    at_zero = F.equal(x, 0)
    size = F.abs(F.where(at_zero, 1.0, x))
    return F.where(at_zero, 0.0 if p > 0 else INF, F.pow(size, p))


def _vector_norm(x: Array, axes: Shape, keepdims: bool, p: float) -> Any:
    """Norm of order ``p`` over ``axes``, which were normalised before."""
    options: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    if p == 2:
        return F.norm(x, **options)
    if p == 1:
        return F.sum(F.abs(x), **options)
    if p == 0:
        return F.sum(F.astype(F.not_equal(x, 0), dtype=F.abs(x).dtype), **options)
    if p in (INF, -INF):
        return (F.max if p > 0 else F.min)(F.abs(x), **options)
    if p > 0:
        return F.at_values(F.sum(F.at_values(x, lambda x: _powers(x, p)), **options), lambda y: _root(y, p))
    return _root(F.sum(_powers(x, p), **options), p)


def _root(total: Array, p: float) -> Any:
    """Root total**(1 / p). Where it has no derivative (at 0, or inf for p < 0), it is 0 with derivative 0.

    total : the sum of powers.
    """
    degenerate = F.equal(total, 0) if p > 0 else F.isinf(total)
    # At 0 the norm has the derivative 0 and no second one: that of total**1.5 is inf there. Of orders above 2
    # it is taken as 0, as in PyTorch.
    nothing = F.pow(F.where(degenerate, total, 1.0), 1.5) if 0 < p <= 2 else 0.0
    return F.where(degenerate, nothing, F.pow(F.where(degenerate, 1.0, total), 1 / p))


@checked
@in_single
def vector_norm(x: A | ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: Order = 2) -> A:
    """The norm (sum of abs(x)**ord)**(1/ord) over axes, all of them taken as one vector.

    ``ord`` is any real number: inf and -inf give the largest and smallest absolute value, 0 the number
    of nonzero entries. Integers become float64. Raises AxisError, ArgumentError for another ``ord``.

    >>> from iverson import asarray
    >>> vector_norm(asarray([3., 4.])), vector_norm(asarray([3., 4.]), ord=1)
    (iverson.Tensor(5.), iverson.Tensor(7.))
    """
    x = as_inexact(x, "vector_norm")
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise ArgumentError("vector_norm", "ord", got=repr(ord), expected="a real number")
    axes = normalize_axes(axis, x.ndim, "vector_norm")
    if not prod(x.shape[k] for k in axes) and (ord < 0 or ord == INF):
        raise ArgumentError("vector_norm", "x", got=f"shape {x.shape}", expected=f"entries, with ord={ord}")
    return _vector_norm(x, axes, bool(keepdims), float(ord))


MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, INF, -INF)


@checked
@in_single
def matrix_norm(x: A | ArrayLike, /, *, keepdims: bool = False, ord: Order = "fro") -> A:
    """The norms of the matrices in the last two axes.

    ``ord`` is "fro" (root of the sum of squares), "nuc" (sum of singular values), 1, -1 (largest,
    smallest column sum of absolute values), inf, -inf (row sum), 2, -2 (singular value). Raises
    ArgumentError for another, ShapeError for fewer than two axes.

    >>> from iverson import asarray
    >>> x = asarray([[3., 0.], [4., 0.]])
    >>> matrix_norm(x), matrix_norm(x, ord=1), matrix_norm(x, ord=2)
    (iverson.Tensor(5.), iverson.Tensor(7.), iverson.Tensor(5.))
    """
    x = as_inexact(x, "matrix_norm")
    if x.ndim < 2:
        raise ShapeError("matrix_norm", "x", got=f"shape {x.shape}", expected="at least two axes")
    check_choice(ord, MATRIX_ORDERS, "matrix_norm", "ord")
    return _matrix_norm(x, bool(keepdims), ord)


def _matrix_norm(x: Array, keepdims: bool, ord: Any) -> Any:
    """Norm of order ``ord`` of the matrices in the last two axes; raises ArgumentError for matrices without
    entries.
    """
    rows, columns = x.ndim - 2, x.ndim - 1
    if ord == "fro":
        return _vector_norm(x, (rows, columns), keepdims, 2.0)
    if ord in ("nuc", 2, -2):
        with speaking_as("matrix_norm"):
            sizes = F.svdvals(x)
    else:
        sizes = F.sum(F.abs(x), axis=(rows if abs(ord) == 1 else columns,), keepdims=False)
    axis = (sizes.ndim - 1,)
    if ord != "nuc" and not sizes.shape[-1]:
        raise ArgumentError("matrix_norm", "x", got=f"shape {x.shape}", expected="matrices with entries")
    reduce = F.sum if ord == "nuc" else F.max if ord > 0 else F.min
    out = reduce(sizes, axis=axis, keepdims=False)
    return F.expand_dims(out, axis=(rows, columns)) if keepdims else out


@checked
def norm(x: A | ArrayLike, /, *, ord: Order | None = None, axis: Axes = None, keepdims: bool = False) -> A:
    """A vector norm over one axis or all, a matrix norm over a pair of axes.

    Without ``ord``, the root of the sum of squares over ``axis`` (None: all axes). With it, ``axis`` says
    whether `vector_norm` or `matrix_norm` is meant; None stands for the only one or two axes x has.
    Raises ArgumentError, ShapeError and AxisError as they do.

    >>> from iverson import asarray
    >>> norm(asarray([[3., 0.], [4., 0.]]), ord="nuc")
    iverson.Tensor(5.)
    """
    x = as_inexact(x, "norm")
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    axis_numbers = list(range(x.ndim)) if axis is None else each(axis)
    axes = [normalize_axis(a, x.ndim, "norm") for a in axis_numbers]
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=ord)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ShapeError(
            "norm", "axis", got=f"{axis} for shape {x.shape}", expected="one axis or two, with ord given"
        )
    result = matrix_norm(moveaxis(x, axes, (-2, -1)), keepdims=False, ord=ord)
    return F.expand_dims(result, axis=tuple(sorted(axes))) if keepdims else result


__all__ = ["matrix_norm", "norm", "vector_norm"]
