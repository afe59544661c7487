"""Schedule hints ("levers"): `keep`, `recompute`, `parallel` and `unroll`. They never change a result.

A hint replaces a choice that is made by counting. It is set on a tensor or an axis in place, so that it holds
in all that reads it, and is part of the keys of compiled code. `explain` reports a hint that cannot be
followed, and why.
"""

from __future__ import annotations

from typing import TypeVar

from iverson.core.errors import ArgumentTypeError, described
from iverson.te.ir.expressions import Tensor, Var
from iverson.te.ir.nodes import Compute
from iverson.te.ir.source_site import operation

T = TypeVar("T", bound=Tensor)


def keep(tensor: T) -> T:
    """Have a tensor computed once and stored, where counting may compute it anew for each reader.

    Parameters
    ----------
    tensor : of `compute`, `scatter` or `scan`; an adjoint or a summand of one in a `DifferentiationResult`.
        A summand is part of the adjoint's own loops unless it is kept.

    Returns the tensor itself, annotated. Results are the same. Raises ArgumentTypeError for a value that is
    no tensor with a definition.

    >>> from iverson import te
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.keep(te.compute((4,), lambda i: A[i] + 1, "B"))
    >>> B.lever
    'keep'
    """
    return _annotated(tensor, "keep")


def recompute(tensor: T) -> T:
    """Have a tensor computed where it is read, where counting may store it.

    Parameters and errors are those of `keep`. Only a tensor whose entries are computed each
    by itself is recomputed: sums, and states of a scan, are stored all the same.

    >>> from iverson import te
    >>> A = te.placeholder((4, 4), name="A")
    >>> B = te.compute((4,), lambda i: te.exp(A[i, 0]), "B")
    >>> C = te.compute((4, 4), lambda i, j: B[i] * A[i, j], "C")
    >>> te.recompute(B) is B
    True
    """
    return _annotated(tensor, "recompute")


def parallel(axis: Var) -> Var:
    """Have threads share the loop over an axis, whatever the work in it is.

    axis : an index of a definition, a `reduce_axis`, or one of the ``axes`` of a tensor. The lever holds
        wherever the axis is: also in adjoints of a tensor, whose loops are over the axes of its definition.
        Of the axes of one loop nest, the first with the lever counts. An axis that is reduced over is shared
        only where entries are written along with it.

    Returns the axis itself, annotated; of `parallel` and `unroll`, the last holds. Results are the same, but
    for the order of sums in scatters. Raises ArgumentTypeError for what is not an axis.

    >>> from iverson import te
    >>> A = te.placeholder((4, 8), name="A")
    >>> B = te.compute((4, 8), lambda i, j: A[te.parallel(i), j] * 2, "B")
    >>> B.axes[0].lever
    'parallel'
    """
    return _marked(axis, "parallel")


def unroll(axis: Var) -> Var:
    """Have the loop over an axis written out, if it has at most 64 iterations, a number known when compiling.

    Parameters, result and errors are those of `parallel`. An axis that is written out is not in vector lanes.

    >>> from iverson import te
    >>> A, k = te.placeholder((4, 8), name="A"), te.unroll(te.reduce_axis(8, "k"))
    >>> te.compute((4,), lambda i: te.sum(A[i, k], k)).axes[1].lever
    'unroll'
    """
    return _marked(axis, "unroll")


def _annotated(tensor: T, lever: str) -> T:
    if not isinstance(tensor, Compute):
        raise ArgumentTypeError(
            operation(lever),
            "tensor",
            got=repr(tensor) if isinstance(tensor, Tensor) else described(tensor),
            expected="a tensor of te.compute, te.scatter or te.scan, or an adjoint of one",
        )
    tensor.lever = lever
    return tensor


def _marked(axis: Var, lever: str) -> Var:
    if not isinstance(axis, Var) or axis.kind == "size":
        raise ArgumentTypeError(
            operation(lever),
            "axis",
            got=repr(axis) if isinstance(axis, Var) else described(axis),
            expected="an index of a definition, a te.reduce_axis, or one of a tensor's axes",
        )
    axis.lever = lever
    return axis
