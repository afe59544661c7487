"""Layers with a parameter or random draws: affine maps, embeddings and dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from iverson.array_api.conventions.operands import as_inexact, as_operand, check_kind, in_single
from iverson.array_api.entries.creation import ones_like, zero_of
from iverson.array_api.entries.indexing import positions
from iverson.array_api.entries.joining import concat
from iverson.array_api.entries.searching import searchsorted
from iverson.array_api.linear_algebra.einsum import einsum
from iverson.array_api.random import Generator
from iverson.array_api.reduction.reductions import mean
from iverson.array_api.reduction.segments import embedding, segment_max, segment_mean, segment_sum
from iverson.core.dispatch import Wrapper, has_entries, unwrap, zero_filled
from iverson.core.errors import ArgumentError, ArgumentTypeError, IndexingError, ShapeError, described
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import as_int, check_choice
from iverson.masked import masked_tensor
from iverson.nn.spatial_functions import spatial
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, NonNegative, Share


@checked
@in_single
def linear(x: A | ArrayLike, weight: A | ArrayLike, /, bias: A | ArrayLike | None = None) -> A:
    """x @ weight.T + bias.

    Parameters
    ----------
    x : of shape (..., n), with n features.
    weight : of shape (m, n), or (n,) for one result without an axis.
    bias : of shape (m,), or () beside a vector of weights.

    Raises ShapeError where the features differ.

    >>> from iverson import asarray
    >>> linear(asarray([[1., 2.]]), asarray([[1., 1.], [0., 2.]]), asarray([0., 1.]))
    iverson.Tensor([[3., 5.]])
    """
    x, weight = as_operand(x, "linear"), as_operand(weight, "linear", "weight")
    if weight.ndim not in (1, 2) or not x.ndim or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            "linear",
            "weight",
            got=f"shape {weight.shape} for x of shape {x.shape}",
            expected=f"(results, {x.shape[-1]})" if x.ndim else "x with an axis of features",
        )
    out = x @ (weight.mT if weight.ndim == 2 else weight)
    return out if bias is None else out + _bias(bias, weight.shape[:-1], "linear")


def _bias(bias: Array | ArrayLike, shape: tuple[int, ...], operation: str) -> Any:
    bias = as_operand(bias, operation, "bias")
    if bias.shape != shape:
        raise ShapeError(operation, "bias", got=f"shape {bias.shape}", expected=f"shape {shape}")
    return bias


@checked
@in_single
def bilinear(
    x1: A | ArrayLike, x2: A | ArrayLike, weight: A | ArrayLike, /, bias: A | ArrayLike | None = None
) -> A:
    """For each result k, x1 @ weight[k] @ x2 + bias[k].

    Parameters
    ----------
    x1, x2 : of shapes (..., n) and (..., m).
    weight : of shape (results, n, m).
    bias : of shape (results,).

    Raises ShapeError where the features differ.

    >>> from iverson import asarray, ones
    >>> bilinear(asarray([1., 2.]), asarray([3., 4.]), ones((1, 2, 2)))
    iverson.Tensor([21.])
    """
    x1, x2 = as_operand(x1, "bilinear", "x1"), as_operand(x2, "bilinear", "x2")
    weight = as_operand(weight, "bilinear", "weight")
    features = tuple(x.shape[-1] if x.ndim else None for x in (x1, x2))
    if weight.ndim != 3 or weight.shape[1:] != features:
        raise ShapeError(
            "bilinear",
            "weight",
            got=f"shape {weight.shape} for x1 of shape {x1.shape} and x2 of shape {x2.shape}",
            expected=f"(results, {features[0]}, {features[1]})",
        )
    out = einsum("...i,kij,...j->...k", x1, weight, x2)
    return out if bias is None else out + _bias(bias, weight.shape[:1], "bilinear")


@checked
def one_hot(x: A | ArrayLike, /, num_classes: SupportsIndex | None = None) -> A:
    """1 at the number of a class and 0 at the others, along a new last axis; of dtype int64.

    Parameters
    ----------
    x : integers in [0, num_classes).
    num_classes : default: one more than the largest number.

    Raises IndexingError for a class that does not exist, DTypeError unless x are integers, ArgumentError
    without ``num_classes`` where x is not known until a program runs.

    >>> from iverson import asarray
    >>> one_hot(asarray([2, 0]))
    iverson.Tensor([[0, 0, 1],
                    [1, 0, 0]])
    """
    x = as_operand(x, "one_hot")
    check_kind(x, "iu", "one_hot")
    readable = has_entries(unwrap(x))
    entries = np.asarray(F.to_numpy(unwrap(x))) if readable else np.empty(0, int)
    if num_classes is None and not readable:
        raise ArgumentError(
            "one_hot", "num_classes", got="None in a trace", expected="how many classes there are"
        )
    count = (
        int(entries.max(initial=-1)) + 1
        if num_classes is None
        else as_int(num_classes, "one_hot", "num_classes")
    )
    if not 0 <= count < 2**60:
        raise ArgumentError("one_hot", "num_classes", got=str(count), expected="a number in [0, 2**60)")
    if entries.size and not 0 <= entries.min() <= entries.max() < count:
        bad = entries.min() if entries.min() < 0 else entries.max()
        raise IndexingError("one_hot", "x", got=f"class {bad}", expected=f"one in [0, {count})")
    classes: Any = (
        x if readable else F.checked_index(x, least=0, extent=count, operation="one_hot", argument="x")
    )
    matches = F.equal(F.expand_dims(classes, axis=(classes.ndim,)), np.arange(count))
    return F.astype(matches, dtype=np.dtype(np.int64))


@checked
@in_single
def embedding_bag(
    indices: A | ArrayLike,
    table: A | ArrayLike,
    /,
    offsets: A | ArrayLike | None = None,
    *,
    mode: Literal["mean", "sum", "max"] = "mean",
    per_sample_weights: A | ArrayLike | None = None,
    include_last_offset: bool = False,
    padding_idx: SupportsIndex | None = None,
    max_norm: NonNegative | None = None,
    norm_type: float = 2.0,
) -> A:
    """The mean, sum or largest entries of the rows of a table in each bag of indices.

    Parameters
    ----------
    indices : of shape (bags, n), or a vector of all bags one after the other.
    table : of shape (rows, features).
    offsets : of a vector, where each bag starts.
    mode : what is made of the rows of a bag. An empty bag gives 0; of masked tensors, one in which nothing is
        specified is unspecified.
    per_sample_weights : factors of the rows, of the indices' shape; for a sum alone.
    include_last_offset : whether the last offset is where the last bag ends.
    padding_idx : the number of a row that is left out of bags.
    max_norm, norm_type : as in `embedding`.

    The gradient of the table is in the COO layout, as that of `embedding`. Raises ShapeError, IndexingError,
    ArgumentError.

    >>> from iverson import asarray
    >>> embedding_bag(asarray([0, 1, 1]), asarray([[1., 2.], [3., 4.]]), asarray([0, 2]), mode="sum")
    iverson.Tensor([[4., 6.],
                    [3., 4.]])
    """
    check_choice(mode, ("mean", "sum", "max"), "embedding_bag", "mode")
    operand, table = (
        as_operand(indices, "embedding_bag", "indices"),
        as_operand(table, "embedding_bag", "table"),
    )
    if table.ndim != 2 or operand.ndim not in (1, 2) or (operand.ndim == 1) is (offsets is None):
        raise ShapeError(
            "embedding_bag",
            "indices",
            got=f"shape {operand.shape} {'without' if offsets is None else 'with'} offsets, "
            f"a table of shape {table.shape}",
            expected="a matrix of indices, or a vector and offsets; a table with two axes",
        )
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(
            "embedding_bag", "per_sample_weights", got=f"weights with mode '{mode}'", expected="mode 'sum'"
        )
    if padding_idx is not None:
        row = positions(
            np.asarray(as_int(padding_idx, "embedding_bag", "padding_idx")),
            table.shape[0],
            "embedding_bag",
            "padding_idx",
        )
        numbers: Any = F.to_dense(zero_filled(operand))
        specified: Any = numbers % table.shape[0] != int(row)
        specified = F.logical_and(specified, zero_filled(ones_like(operand, dtype="bool")))
        result: Any = embedding_bag(
            masked_tensor(numbers, specified), table, offsets, mode=mode,
            per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
            max_norm=max_norm, norm_type=norm_type,
        )  # fmt: skip
        return result if isinstance(operand, Wrapper) else result.to_tensor(0.0)
    rows: Any = embedding(operand, table, None, max_norm, norm_type)
    if per_sample_weights is not None:
        weights = as_inexact(per_sample_weights, "embedding_bag", "per_sample_weights")
        if weights.shape != operand.shape:
            raise ShapeError(
                "embedding_bag",
                "per_sample_weights",
                got=f"shape {weights.shape}",
                expected=f"{operand.shape}",
            )
        rows = rows * F.expand_dims(weights, axis=(weights.ndim,))
    if offsets is None:
        return _of_bags(rows, mode)
    starts: Any = as_operand(offsets, "embedding_bag", "offsets")
    check_kind(starts, "iu", "embedding_bag", "offsets")
    if starts.ndim != 1 or not starts.size:
        raise ShapeError("embedding_bag", "offsets", got=f"shape {starts.shape}", expected="a vector")
    count = starts.size - include_last_offset
    bags = searchsorted(starts, np.arange(operand.size), side="right") - 1
    if has_entries(starts):
        start_array = F.to_numpy(starts)
        ends = start_array[-1] == operand.size or not include_last_offset
        if start_array[0] != 0 or (np.diff(start_array) < 0).any() or not ends:
            raise ArgumentError(
                "embedding_bag",
                "offsets",
                got=f"{starts}",
                expected="0 first, none below the one before"
                + (f", {operand.size} last, where the last bag ends" if include_last_offset else ""),
            )
    if mode == "sum":
        return segment_sum(rows, bags, count)
    if mode == "mean":
        return segment_mean(rows, bags, count)
    last: Any = starts[1:] if include_last_offset else concat([starts[1:], np.asarray([operand.size])])
    largest = segment_max(rows, bags, count)
    masked = isinstance(largest, Wrapper)
    if masked:
        return largest
    return F.where(F.expand_dims(F.equal(starts[:count], last), axis=(1,)), 0.0, largest)


def _of_bags(rows: Array, mode: str) -> Any:
    if not rows.shape[1]:
        return F.sum(rows, axis=(1,), keepdims=False)
    if mode == "max":
        return F.max(rows, axis=(1,), keepdims=False)
    return mean(rows, 1) if mode == "mean" else F.sum(rows, axis=(1,), keepdims=False)


@checked
def dropout(x: A | ArrayLike, /, p: Share = 0.5, training: bool = True, *, rng: Generator | None = None) -> A:
    """x with entries left out with probability p, the others divided by 1 - p (Srivastava et al., 2014).

    Parameters
    ----------
    x : any array of a floating dtype.
    p : a probability. An entry that is left out has a structurally zero derivative.
    training : if False, x itself is returned.
    rng : where draws come from (`iverson.random.default_rng`); there is no global state.

    Raises ArgumentError for p outside of [0, 1], ArgumentTypeError without a generator in training.

    >>> from iverson import ones, random
    >>> dropout(ones(4), 0.5, rng=random.default_rng(0))
    iverson.Tensor([2., 0., 0., 0.])
    """
    return _dropped("dropout", x, p, training, rng, None)


@spatial
def _dropout(
    n: int, x: A | ArrayLike, /, p: Share = 0.5, training: bool = True, *, rng: Generator | None = None
) -> A:
    """`dropout` of whole channels of x, of shape (batch, channels, {axes}) or without the batch.

    >>> from iverson import ones, random
    >>> dropout{n}d(ones((2, {ones}3)), 0.5, rng=random.default_rng(0)).reshape(2, 3)
    iverson.Tensor([[2., 2., 2.],
                    [0., 0., 0.]])
    """
    return _dropped(f"dropout{n}d", x, p, training, rng, n)


dropout1d, dropout2d, dropout3d = _dropout


def _dropped(
    name: str, x: Array | ArrayLike, p: float, training: bool, rng: Generator | None, spatial: int | None
) -> Any:
    """Result of dropout of single entries, or of whole channels if ``spatial`` is not None.

    spatial : the number of axes after the channels, all of whose entries are dropped together.
    """
    x = as_inexact(x, name)
    if spatial is not None and x.ndim not in (spatial + 1, spatial + 2):
        raise ShapeError(
            name,
            "x",
            got=f"shape {x.shape}",
            expected=f"{spatial + 2} axes, or {spatial + 1} without a batch",
        )
    if not training or not p:
        return x
    if not isinstance(rng, Generator):
        raise ArgumentTypeError(
            name,
            "rng",
            got=described(rng),
            expected="a generator, as draws have no global state",
            remedy="pass rng=iverson.random.default_rng(seed)",
        )
    shape = x.shape if spatial is None else x.shape[: x.ndim - spatial] + (1,) * spatial
    keep = rng.random(shape) >= p
    return F.where(keep, x * (1 / (1 - p) if p < 1 else 0.0), zero_of(x))


__all__ = [
    "bilinear",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "embedding",
    "embedding_bag",
    "linear",
    "one_hot",
]
