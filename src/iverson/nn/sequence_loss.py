"""CTC loss: over all alignments of labels with a sequence, by a recurrence in index notation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from iverson import te
from iverson.array_api.conventions.operands import as_operand, check_kind, in_single
from iverson.array_api.entries.joining import concat, stack
from iverson.array_api.nn import averaged
from iverson.core.dispatch import has_entries, unwrap
from iverson.core.errors import ArgumentError, ShapeError, speaking_as
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import check_choice
from iverson.handles import asarray
from iverson.nn.layer_arguments import real
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike

#: The logarithm of what has no path: far below any other, but a number, so that differences of two are 0.
FAR = -1e30


@te.op(name="nn.alignments")
def _alignments(logp: te.Tensor, labels: te.Tensor, skips: te.Tensor) -> Any:
    """Logarithm of the probability of all paths to state s at step t: an array (steps, batch, states).

    logp : logarithms of the probabilities of labels, (steps, batch, labels). labels : the label of each
        state.
    skips : 0 where a path may come from the state before the last one, else `FAR`.
    """
    shape = (logp.shape[0], *labels.shape)

    def paths(alpha: te.Tensor) -> Any:
        def entry(t: te.Expr, b: te.Expr, s: te.Expr) -> Any:
            stay = alpha[t - 1, b, s]
            advance = te.select(s >= 1, alpha[t - 1, b, te.clamp(s - 1, 0, shape[2] - 1)], FAR)
            skip = te.select(s >= 2, alpha[t - 1, b, te.clamp(s - 2, 0, shape[2] - 1)], FAR) + skips[b, s]
            peak = te.maximum(te.maximum(stay, advance), skip)
            total = peak + te.log(te.exp(stay - peak) + te.exp(advance - peak) + te.exp(skip - peak))
            return logp[t, b, labels[b, s]] + te.select(t == 0, te.select(s <= 1, 0.0, FAR), total)

        return te.compute(shape, entry)

    return te.scan(shape, paths, init=FAR)


@checked
@in_single
def ctc_loss(
    log_probs: A | ArrayLike,
    targets: A | ArrayLike,
    input_lengths: A | ArrayLike,
    target_lengths: A | ArrayLike,
    /,
    blank: int = 0,
    *,
    reduction: Literal["mean", "sum", "none"] = "mean",
    zero_infinity: bool = False,
) -> A:
    """Minus the logarithm of the probability of a label sequence, over all alignments (Graves et al., 2006).

    Parameters
    ----------
    log_probs : logarithms of the classes' probabilities, of shape (steps, batch, classes).
    targets : the labels, of shape (batch, longest).
    input_lengths, target_lengths : how many steps, and labels, each example has, of shape (batch,).
    blank : the class that is no label.
    reduction : "mean" of the losses divided by the numbers of labels, "sum", or "none".
    zero_infinity : whether an example with too few steps for its labels has the loss 0, not inf.

    Raises ShapeError where shapes do not fit, ArgumentError for lengths or labels out of range (IndexingError
    where they are known only when a program runs), DTypeError.

    >>> from iverson import asarray, log_softmax, zeros
    >>> logs = log_softmax(zeros((2, 1, 2)))
    >>> ctc_loss(logs, asarray([[1]]), asarray([2]), asarray([1]))    # 3 of 4 paths
    iverson.Tensor(0.28768207)
    """
    check_choice(reduction, ("mean", "sum", "none"), "ctc_loss", "reduction")
    logs = real(log_probs, "ctc_loss", "log_probs")
    if logs.ndim != 3 or 0 in logs.shape:
        raise ShapeError(
            "ctc_loss", "log_probs", got=f"shape {logs.shape}", expected="(steps, batch, classes)"
        )
    steps, batch, classes = logs.shape
    if not 0 <= blank < classes:
        raise ArgumentError("ctc_loss", "blank", got=str(blank), expected=f"a class in [0, {classes})")
    target_labels = _numbers(targets, "targets", 0, classes - 1)
    if target_labels.ndim != 2 or target_labels.shape[0] != batch:
        raise ShapeError(
            "ctc_loss", "targets", got=f"shape {target_labels.shape}", expected=f"({batch}, longest)"
        )
    lengths = [
        _numbers(x, argument, least, greatest)
        for x, argument, least, greatest in (
            (input_lengths, "input_lengths", 1, steps),
            (target_lengths, "target_lengths", 0, target_labels.shape[1]),
        )
    ]
    for length, argument in zip(lengths, ("input_lengths", "target_lengths"), strict=True):
        if length.shape != (batch,):
            raise ShapeError("ctc_loss", argument, got=f"shape {length.shape}", expected=f"shape {(batch,)}")
    blanks = np.full((batch, target_labels.shape[1] + 1), blank, np.int64)
    pairs = F.reshape(
        stack([blanks[:, 1:], target_labels], axis=2), shape=(batch, 2 * target_labels.shape[1])
    )
    labels = concat([pairs, blanks[:, :1]], axis=1)
    before = concat([np.full((batch, 2), -1), labels], axis=1)[:, : labels.shape[1]]
    skips = F.astype(F.where((labels != blank) & (labels != before), 0.0, FAR), dtype=logs.dtype)
    with speaking_as("ctc_loss"):
        alpha = _alignments(logs, labels, skips)
    last, number = lengths[0] - 1, lengths[1]
    every = np.arange(batch)
    ends = [
        F.gather(alpha, last, every, s, axes=(0, 1, 2)) for s in (2 * number, F.maximum(2 * number - 1, 0))
    ]
    total = F.where(number == 0, ends[0], F.logaddexp(*ends))
    impossible = total < FAR / 2
    losses = F.where(impossible, 0.0 if zero_infinity else float("inf"), -total)
    if reduction == "mean":
        losses = losses / F.astype(F.maximum(number, 1), dtype=logs.dtype)
    return averaged(losses, reduction, "ctc_loss")


def _numbers(x: Array | ArrayLike, argument: str, least: int, greatest: int) -> Any:
    """Checked integers in [least, greatest], as a tensor; raises ArgumentError for others."""
    x = as_operand(x, "ctc_loss", argument)
    check_kind(x, "iu", "ctc_loss", argument)
    if not has_entries(unwrap(x)):
        return F.checked_index(x, least=least, extent=greatest + 1, operation="ctc_loss", argument=argument)
    numbers = np.asarray(F.to_numpy(x), np.int64)
    if numbers.size and not least <= numbers.min() <= numbers.max() <= greatest:
        raise ArgumentError(
            "ctc_loss",
            argument,
            got=f"numbers from {numbers.min()} to {numbers.max()}",
            expected=f"ones in [{least}, {greatest}]",
        )
    return asarray(numbers)


__all__ = ["ctc_loss"]
