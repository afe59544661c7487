"""Tensor contractions: matmul, tensordot, vecdot, outer and einsum, all by `contract`.

An operand's axes carry labels. Two operands are contracted by bringing each to (batch, rows, inner) or
(batch, inner, columns) and taking one product of matrices.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from iverson.array_api.conventions.methods import method
from iverson.array_api.conventions.operands import as_operand, as_tuple
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.shapes import as_int, normalize_axis
from iverson.handles import Tensor, subscripts
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axis, Paired


Labels = tuple[Hashable, ...]


def arrange(x: Array, labels: Labels, target: Labels) -> Any:
    """Array ``x`` with its labelled axes in the order of ``target``, and axes of extent 1 for labels that it
    lacks.

    labels : a label for each axis of ``x``.
    """
    have = [label for label in target if label in labels]
    order = tuple(labels.index(label) for label in have)
    if order != tuple(range(len(labels))):
        x = F.permute_dims(x, axes=order)
    missing = tuple(k for k, label in enumerate(target) if label not in labels)
    return F.expand_dims(x, axis=missing) if missing else x


def _grouped(x: Array, labels: Labels, groups: Sequence[Labels]) -> Any:
    """Array ``x`` with its axes in the order of the groups; each group after the first is reshaped to one
    axis.

    labels : a label for each axis of ``x``. groups : labels, each group a tuple.
    """
    x = arrange(x, labels, tuple(label for group in groups for label in group))
    lead = len(groups[0])
    shape, at = list(x.shape[:lead]), lead
    for group in groups[1:]:
        shape.append(prod(x.shape[at : at + len(group)]))
        at += len(group)
    return x if tuple(shape) == x.shape else F.reshape(x, shape=tuple(shape))


def contract(a: Array, of_a: Labels, b: Array, of_b: Labels, keep: Labels) -> tuple[Any, Labels]:
    """Sum over all labels not in ``keep`` of a * b, and the labels of the axes of this sum.

    of_a, of_b : a label for each axis. A label has the same extent in both operands, and a label of only one
        operand must be in ``keep``.
    """
    batch = tuple(label for label in of_a if label in of_b and label in keep)
    inner = tuple(label for label in of_a if label in of_b and label not in keep)
    rows = tuple(label for label in of_a if label not in of_b)
    columns = tuple(label for label in of_b if label not in of_a)
    result = batch + rows + columns
    if not inner:
        return F.multiply(arrange(a, of_a, result), arrange(b, of_b, result)), result
    if batch and not rows and not columns:
        labels = batch + inner
        product = F.multiply(arrange(a, of_a, labels), arrange(b, of_b, labels))
        axes = tuple(range(len(batch), len(labels)))
        return F.sum(product, axis=axes, keepdims=False), result
    extents = {**dict(zip(of_a, a.shape, strict=True)), **dict(zip(of_b, b.shape, strict=True))}
    lhs = _grouped(a, of_a, (batch, rows, inner))
    rhs = _grouped(b, of_b, (batch, inner, columns))
    out = F.matmul(lhs, rhs)
    shape = tuple(extents[label] for label in result)
    return out if out.shape == shape else F.reshape(out, shape=shape), result


@method
def matmul(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The product of matrices, of vectors, or of batches of them in the leading axes.

    x1 has shape (..., m, k) or (k,), x2 (..., k, n) or (k,); the result (..., m, n) without the axis of
    a vector. Raises ShapeError where k differs, batches do not broadcast, or an operand has rank 0.

    >>> from iverson import asarray
    >>> matmul(asarray([[1., 2.], [3., 4.]]), asarray([1., 1.]))
    iverson.Tensor([3., 7.])
    """
    if type(x1) is not Tensor:
        x1 = as_operand(x1, "matmul", "x1")
    if type(x2) is not Tensor:
        x2 = as_operand(x2, "matmul", "x2")
    return subscripts.matmul(x1, x2)


@method
def tensordot(x1: A | ArrayLike, x2: A | ArrayLike, /, *, axes: Paired = 2) -> A:
    """The sum of products over axes of x1 paired with axes of x2, as one matrix product.

    ``axes`` is a number n (the last n of x1 with the first n of x2) or a pair of sequences of axes.
    Raises ShapeError where paired extents differ, AxisError, ArgumentError where the two differ in length.

    >>> from iverson import ones
    >>> tensordot(ones((2, 3)), ones((3, 4)), axes=1).shape
    (2, 4)
    """
    x1, x2 = as_operand(x1, "tensordot", "x1"), as_operand(x2, "tensordot", "x2")
    first, second = _paired_axes(x1, x2, axes)
    for i, j in zip(first, second, strict=True):
        if x1.shape[i] != x2.shape[j]:
            raise ShapeError(
                "tensordot",
                "x2",
                got=f"extent {x2.shape[j]} on axis {j}",
                expected=f"{x1.shape[i]}, as x1 has on axis {i}",
            )
    of_a: Labels = tuple(range(x1.ndim))
    pairs = dict(zip(second, first, strict=True))
    of_b: Labels = tuple(pairs.get(k, x1.ndim + k) for k in range(x2.ndim))
    keep = tuple(label for label in of_a + of_b if label not in first)
    return contract(x1, of_a, x2, of_b, keep)[0]


def _paired_axes(x1: Array, x2: Array, axes: Paired) -> tuple[list[int], list[int]]:
    """Axes of ``x1`` and of ``x2`` that `tensordot` sums over, in pairs, from its argument ``axes``."""
    if not isinstance(axes, (list, tuple)):
        n = as_int(axes, "tensordot", "axes")
        if not 0 <= n <= min(x1.ndim, x2.ndim):
            raise ArgumentError(
                "tensordot", "axes", got=str(n), expected=f"at most {min(x1.ndim, x2.ndim)} axes"
            )
        return list(range(x1.ndim - n, x1.ndim)), list(range(n))
    if len(axes) != 2:
        raise ArgumentError("tensordot", "axes", got=str(axes), expected="a number or two sequences")
    first = [normalize_axis(a, x1.ndim, "tensordot", "axes") for a in as_tuple(axes[0])]
    second = [normalize_axis(a, x2.ndim, "tensordot", "axes") for a in as_tuple(axes[1])]
    if len(first) != len(second) or len(set(first)) != len(first) or len(set(second)) != len(second):
        raise ArgumentError(
            "tensordot", "axes", got=str(axes), expected="as many axes of x1 as of x2, each once"
        )
    return first, second


@method
def vecdot(x1: A | ArrayLike, x2: A | ArrayLike, /, *, axis: Axis = -1) -> A:
    """The sum over an axis of conj(x1) * x2; the other axes broadcast.

    ``axis`` is counted in the broadcast shapes' common last axes and should be negative. Raises
    ShapeError where extents differ on it, AxisError.

    >>> from iverson import asarray
    >>> vecdot(asarray([1., 2.]), asarray([3., 4.]))
    iverson.Tensor(11.)
    """
    x1, x2 = as_operand(x1, "vecdot", "x1"), as_operand(x2, "vecdot", "x2")
    ndim = max(x1.ndim, x2.ndim)
    last = normalize_axis(axis, ndim, "vecdot") - ndim
    for x in (x1, x2):
        normalize_axis(last, x.ndim, "vecdot")
    if x1.shape[last] != x2.shape[last]:
        raise ShapeError(
            "vecdot", "x2", got=f"shape {x2.shape}", expected=f"extent {x1.shape[last]} on axis {axis}"
        )
    products = F.multiply(F.conj(x1) if x1.dtype.kind == "c" else x1, x2)
    return F.sum(products, axis=(ndim + last,), keepdims=False)


def kron(a: A | ArrayLike, b: A | ArrayLike, /) -> A:
    """The Kronecker product: blocks ``a[i, j] * b``. The one of lower rank gains axes in front.

    It is sparse where one of them is: a product for each pair of stored entries, in the layout of the first
    that is sparse if that is CSR or CSC, else in COO.

    >>> from iverson import asarray
    >>> kron(asarray([1., 2.]), asarray([1., 10.]))
    iverson.Tensor([ 1., 10.,  2., 20.])
    """
    a, b = as_operand(a, "kron", "a"), as_operand(b, "kron", "b")
    rank = max(a.ndim, b.ndim)
    return F.kron(*(F.reshape(x, shape=(1,) * (rank - x.ndim) + x.shape) for x in (a, b)))


@method
def outer(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """All products of an entry of x1 and one of x2, as a matrix. Raises ShapeError unless both are vectors.

    >>> from iverson import asarray
    >>> outer(asarray([1., 2.]), asarray([3., 4.]))
    iverson.Tensor([[3., 4.],
                    [6., 8.]])
    """
    x1, x2 = as_operand(x1, "outer", "x1"), as_operand(x2, "outer", "x2")
    for argument, x in (("x1", x1), ("x2", x2)):
        if x.ndim != 1:
            raise ShapeError("outer", argument, got=f"shape {x.shape}", expected="a vector")
    return F.multiply(F.expand_dims(x1, axis=(1,)), F.expand_dims(x2, axis=(0,)))


__all__ = ["kron", "matmul", "outer", "tensordot", "vecdot"]
