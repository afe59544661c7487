"""Scaled dot-product attention: sums of values weighted by the softmax of products of queries with keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.operands import as_inexact, as_operand, check_kind, in_single
from iverson.array_api.entries.creation import ones, ones_like
from iverson.array_api.nn import softmax
from iverson.array_api.random import Generator
from iverson.array_api.reduction.reductions import all as _all
from iverson.array_api.reduction.reductions import any as _any
from iverson.core.dispatch import has_entries
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.masked import MaskedTensor, masked_tensor
from iverson.nn.layers import dropout
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Share


@checked
@in_single
def scaled_dot_product_attention(
    query: A | ArrayLike,
    key: A | ArrayLike,
    value: A | ArrayLike,
    /,
    attn_mask: A | ArrayLike | None = None,
    dropout_p: Share = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    rng: Generator | None = None,
) -> A:
    """softmax(query @ key.T * scale) @ value (Vaswani et al., 2017).

    Parameters
    ----------
    query : of shape (..., queries, n).
    key : of shape (..., keys, n).
    value : of shape (..., keys, m).
    attn_mask : of shape (..., queries, keys): bool, True where a query reads a key, or numbers that are added
        to the products. A query that reads no key gives 0.
    dropout_p : with which probability a weight is left out.
    is_causal : whether query i reads the keys up to number i alone.
    scale : default: n**-0.5.
    enable_gqa : whether a head of keys and values (the axis before the last two) serves several of queries.
    rng : where draws for ``dropout_p`` come from.

    Products that a mask leaves out have a structurally zero derivative. Of masked tensors, a product sums
    over the features that both rows have, and n is how many these are; each feature of the values is averaged
    over the keys that have it. Raises ShapeError where shapes do not
    fit, ArgumentError for a mask with ``is_causal``, DTypeError.

    >>> from iverson import asarray
    >>> q, k, v = asarray([[0.], [0.]]), asarray([[1.], [2.]]), asarray([[2.], [4.]])
    >>> scaled_dot_product_attention(q, k, v, is_causal=True)
    iverson.Tensor([[2.],
                    [3.]])
    """
    name = "scaled_dot_product_attention"
    arguments = {"query": query, "key": key, "value": value}
    q, k, v = (as_inexact(x, name, argument) for argument, x in arguments.items())
    for x, argument in zip((q, k, v), arguments, strict=True):
        check_kind(x, "f", name, argument)
        if x.ndim < 2:
            raise ShapeError(name, argument, got=f"shape {x.shape}", expected="at least two axes")
    if k.shape[-1] != q.shape[-1]:
        raise ShapeError(
            name, "key", got=f"shape {k.shape}", expected=f"extent {q.shape[-1]} on the last axis"
        )
    if v.shape[-2] != k.shape[-2]:
        raise ShapeError(
            name, "value", got=f"shape {v.shape}", expected=f"{k.shape[-2]} rows, one for each key"
        )
    if enable_gqa:
        k, v = (_repeated(x, q, argument, name) for x, argument in ((k, "key"), (v, "value")))
    products = _products(q, k, scale)
    mask = _reads(name, attn_mask, is_causal, products.shape)
    if isinstance(v, MaskedTensor):
        rows = _whole_rows(v)
        if rows is None:
            return _of_features(products, mask, v, dropout_p, rng)
        shape = broadcast_shapes(name, products.shape, (*rows.shape[:-1], 1, rows.shape[-1]))
        products = masked_tensor(
            F.broadcast_to(products, shape=shape), F.expand_dims(rows, axis=(rows.ndim - 1,))
        )
    return dropout(_weights(products, mask, -1), dropout_p, rng=rng) @ v


def _products(q: Array, k: Array, scale: float | None) -> Any:
    """Products of queries and keys, scaled by ``scale`` or by 1 / sqrt(number of features).

    For masked operands, features count that both of a pair specify.
    """
    if scale is not None:
        return (q * scale) @ k.mT
    if isinstance(q, MaskedTensor) or isinstance(k, MaskedTensor):
        return (q @ k.mT) * F.rsqrt(ones_like(q) @ ones_like(k).mT)
    return (q * q.shape[-1] ** -0.5) @ k.mT


def _weights(products: Array, mask: Array | None, axis: int) -> Any:
    """Softmax of ``products`` along ``axis``, over the keys that ``mask`` allows; 0 for a query that may read
    none.

    A mask that is not boolean is added to the products instead.
    """
    if mask is None or mask.dtype.kind != "b":
        return softmax(products if mask is None else products + mask, axis)
    if isinstance(products, MaskedTensor):
        mask = F.logical_and(mask, ones_like(products, dtype="bool"))
    reads_any = _any(mask, axis=axis, keepdims=True)
    scores = F.where(F.logical_or(mask, F.logical_not(reads_any)), products, -float("inf"))
    return F.where(reads_any, softmax(scores, axis), 0.0)


def _whole_rows(v: MaskedTensor) -> Any:
    """Mask of the rows of values that are specified; None if a row is specified only in part, or this is not
    known.
    """
    mask = F.to_dense(v.get_mask())
    if not has_entries(mask):
        return None
    rows = _any(mask, axis=-1)
    return rows if bool(_all(mask == F.expand_dims(rows, axis=(rows.ndim,)))) else None


def _of_features(
    products: Any, mask: Array | None, v: MaskedTensor, dropout_p: float, rng: Generator | None
) -> Any:
    """Result of attention for values whose rows are specified in part: each feature has weights of its own.

    The weights of a feature are a softmax over the keys whose values specify it.
    """
    factors = dropout(ones(products.shape, dtype=products.dtype), dropout_p, rng=rng) if dropout_p else None
    v = F.expand_dims(v, axis=(v.ndim - 2,))
    products, mask, factors = (
        None if x is None else F.expand_dims(x, axis=(x.ndim,)) for x in (products, mask, factors)
    )
    shape = broadcast_shapes("matmul", products.shape, v.shape)
    products = masked_tensor(F.broadcast_to(products, shape=shape), v.get_mask())
    weights = _weights(products, mask, -2)
    return F.sum(
        (weights if factors is None else weights * factors) * v, axis=(len(shape) - 2,), keepdims=False
    )


def _reads(name: str, mask: Array | ArrayLike | None, is_causal: bool, shape: Shape) -> Any:
    """Mask of the keys that each query reads, or summands for the products; None if each reads all keys.

    name : the operation, for errors. shape : that of the products.
    """
    if is_causal:
        if mask is not None:
            raise ArgumentError(
                name,
                "attn_mask",
                got="a mask with is_causal=True",
                expected="one of them",
                remedy="use & on masks",
            )
        return as_operand(np.tri(*shape[-2:], dtype=bool), name)
    if mask is None:
        return None
    mask = as_operand(mask, name, "attn_mask")
    check_kind(mask, "bf", name, "attn_mask")
    if broadcast_shapes(name, mask.shape, shape) != shape:
        raise ShapeError(
            name, "attn_mask", got=f"shape {mask.shape}", expected=f"one that broadcasts to {shape}"
        )
    return mask


def _repeated(x: Array, q: Array, argument: str, name: str) -> Any:
    """Heads of keys or values, each repeated for the query heads that share it; raises ShapeError if they do
    not fit.
    """
    if x.ndim < 3 or q.ndim < 3 or not x.shape[-3] or q.shape[-3] % x.shape[-3]:
        raise ShapeError(
            name,
            argument,
            got=f"shape {x.shape} for a query of shape {q.shape}",
            expected="a divisor of its heads",
        )
    times = q.shape[-3] // x.shape[-3]
    lead, heads, last = x.shape[:-3], x.shape[-3], x.shape[-2:]
    apart = F.broadcast_to(F.reshape(x, shape=(*lead, heads, 1, *last)), shape=(*lead, heads, times, *last))
    return F.reshape(apart, shape=(*lead, heads * times, *last))


__all__ = ["scaled_dot_product_attention"]
