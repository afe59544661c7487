"""Differentiable collectives of a communicator. Each is linear: its transpose is one of them.

A loss of all processes is the sum of what each of them makes of what it receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np
from mpi4py import MPI

from iverson.autograd import Function
from iverson.core.dispatch import is_tracked, unwrap
from iverson.core.errors import ArgumentError, ShapeError, described
from iverson.core.protocols import NDArray
from iverson.handles import Tensor, asarray
from iverson.interop.messages import Tree
from iverson.interop.mpi.ranks import TIMEOUT, Ranks
from iverson.interop.mpi.reduce import gathered, reduced
from iverson.transforms.trees import flatten, tensors, unflatten

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import ArrayLike


def allreduce(tree: Tree, comm: MPI.Comm | None = None, *, timeout: float = TIMEOUT) -> Tree:
    """The sums of a tree's tensors over the processes of a communicator, on each of them.

    tree : of tensors in any layout, plain or masked (with the same mask everywhere), the same tree on each
        process.
    comm : of ``mpi4py``; by default MPI.COMM_WORLD.
    timeout : seconds that each exchange with the other processes may take.

    Each sum moves the fewest bytes that its support allows: nothing where it is in the zero layout
    everywhere, the entries where all hold one pattern, rows or entries with their addresses where patterns
    differ, or all entries where these are less; then a further byte for each place keeps the support.
    Strided tensors under 64 KiB share messages.

    Differentiable: the transpose is `allreduce` itself. Every process must call it, and its derivative,
    alike: TimedOutError says for what it waited when another does not. After that error the communicator
    is of no further use.

    >>> import iverson as iv
    >>> allreduce({"w": iv.asarray([1.0, 2.0])})
    {'w': iverson.Tensor([1., 2.])}
    """
    ranks = Ranks(comm, "allreduce", timeout)
    leaves, structure = flatten(tree)
    leaves = tensors(leaves, "allreduce", "tree")
    if any(is_tracked(unwrap(x)) for x in leaves):
        sums = [_AllReduce.apply(x, ranks) for x in leaves]
    else:
        sums = reduced(leaves, ranks)
    result: Tree = unflatten(structure, sums)
    return result


def reduce_scatter(
    x: ArrayLike,
    comm: MPI.Comm | None = None,
    *,
    counts: Sequence[int] | None = None,
    timeout: float = TIMEOUT,
) -> Tensor:
    """The sum of x over all processes, of which each gets some rows: rank 0 the first counts[0].

    x : of the same shape everywhere. counts : of the rows of each rank; by default as equal as can be.

    timeout : as in `allreduce`.

    Differentiable: the transpose is `all_gather`. Raises ShapeError where the counts do not add up.

    >>> import iverson as iv
    >>> reduce_scatter(iv.ones((3, 1))).shape
    (3, 1)
    """
    ranks, (tensor,) = Ranks(comm, "reduce_scatter", timeout), tensors([x], "reduce_scatter", "x")
    result: Tensor = _ReduceScatter.apply(tensor, ranks, _counts(tensor, ranks, counts))
    return result


def all_gather(x: ArrayLike, comm: MPI.Comm | None = None, *, timeout: float = TIMEOUT) -> Tensor:
    """The rows of all processes, on each of them. Differentiable: the transpose is `reduce_scatter`.

    timeout : as in `allreduce`.

    >>> import iverson as iv
    >>> all_gather(iv.ones((3, 1))).shape
    (3, 1)
    """
    ranks, (tensor,) = Ranks(comm, "all_gather", timeout), tensors([x], "all_gather", "x")
    _rows(tensor, ranks)
    result: Tensor = _AllGather.apply(tensor, ranks)
    return result


def all_to_all_rows(
    x: ArrayLike, counts: Sequence[int], comm: MPI.Comm | None = None, *, timeout: float = TIMEOUT
) -> Tensor:
    """Rows sent to the processes that they are for: the first counts[0] go to rank 0, the next to rank 1.

    timeout : as in `allreduce`.

    Returns the rows received, in the order of the ranks that sent them. Differentiable: the transpose sends
    them back. Raises ShapeError where the counts do not add up to the rows of x.

    >>> import iverson as iv
    >>> all_to_all_rows(iv.asarray([[1.0], [2.0]]), [2])
    iverson.Tensor([[1.],
                    [2.]])
    """
    ranks, (tensor,) = Ranks(comm, "all_to_all_rows", timeout), tensors([x], "all_to_all_rows", "x")
    sizes = _counts(tensor, ranks, counts)
    table = ranks.of_each("how many rows are for each", sizes)
    result: Tensor = _AllToAllRows.apply(tensor, ranks, sizes, tuple(table[:, ranks.rank].tolist()))
    return result


def _rows(x: Tensor, ranks: Ranks) -> int:
    if not x.ndim:
        raise ShapeError(ranks.operation, "x", got="rank 0", expected="rows")
    return int(x.shape[0])


def _counts(x: Tensor, ranks: Ranks, counts: Sequence[int] | None) -> tuple[int, ...]:
    """Numbers of rows for each rank, checked to add up to the rows of ``x``; by default nearly equal ones."""
    rows = _rows(x, ranks)
    if counts is None:
        return tuple(len(part) for part in np.array_split(np.empty(rows), ranks.size))
    numbers = tuple(int(n) for n in counts)
    if len(numbers) != ranks.size or min(numbers) < 0 or sum(numbers) != rows:
        raise ShapeError(
            ranks.operation,
            "counts",
            got=str(numbers),
            expected=f"{ranks.size} numbers of rows, {rows} together",
        )
    return numbers


def _said(x: Tensor) -> str:
    return f"a tensor of shape {x.shape} and dtype {x.dtype}"


def _dense(x: Array) -> NDArray:
    if not isinstance(x, Tensor):
        raise ArgumentError(
            "mpi", "x", got=described(x), expected="a plain tensor", remedy="call x.to_tensor(0.0)"
        )
    return np.ascontiguousarray(x.detach().to_dense().numpy())


class _Kept(Protocol):
    """Context of a collective, with what its derivative needs: ranks, rows sent to each, rows received from
    each.
    """

    ranks: Ranks
    counts: tuple[int, ...]
    received: tuple[int, ...]


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: _Kept, x: Array, ranks: Ranks) -> Array:
        ctx.ranks = ranks
        (total,) = reduced([x], ranks)
        return total

    @staticmethod
    def backward(ctx: _Kept, g: Array) -> tuple[Array, None]:
        return allreduce(g, **ctx.ranks.options), None

    @staticmethod
    def jvp(ctx: _Kept, t: Array, *_: None) -> Array:
        return allreduce(t, **ctx.ranks.options)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: _Kept, x: Tensor, ranks: Ranks, counts: tuple[int, ...]) -> Tensor:
        ctx.ranks, ctx.counts = ranks, counts
        rows, width = _dense(x), prod(x.shape[1:])
        total = np.empty((counts[ranks.rank], *x.shape[1:]), rows.dtype)
        ranks.call(f"the sum of {_said(x)}", "reduce_scatter", rows, total, [n * width for n in counts])
        return asarray(total)

    @staticmethod
    def backward(ctx: _Kept, g: Tensor) -> tuple[Tensor, None, None]:
        return all_gather(g, **ctx.ranks.options), None, None

    @staticmethod
    def jvp(ctx: _Kept, t: Tensor, *_: None) -> Tensor:
        return reduce_scatter(t, counts=ctx.counts, **ctx.ranks.options)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: _Kept, x: Tensor, ranks: Ranks) -> Tensor:
        rows, counts = _dense(x), ranks.of_each("how many rows there are", x.shape[0])
        ctx.ranks, ctx.counts = ranks, tuple(counts.tolist())
        return asarray(gathered(rows, counts, ranks, f"the rows of {_said(x)}"))

    @staticmethod
    def backward(ctx: _Kept, g: Tensor) -> tuple[Tensor, None]:
        return reduce_scatter(g, counts=ctx.counts, **ctx.ranks.options), None

    @staticmethod
    def jvp(ctx: _Kept, t: Tensor, *_: None) -> Tensor:
        return all_gather(t, **ctx.ranks.options)


class _AllToAllRows(Function):
    @staticmethod
    def forward(
        ctx: _Kept, x: Tensor, ranks: Ranks, counts: tuple[int, ...], received: tuple[int, ...]
    ) -> Tensor:
        ctx.ranks, ctx.counts, ctx.received = ranks, counts, received
        rows, width = _dense(x), prod(x.shape[1:])
        result = np.empty((sum(received), *x.shape[1:]), rows.dtype)
        send_sizes, receive_sizes = ([n * width for n in sizes] for sizes in (counts, received))
        ranks.call(f"the rows of {_said(x)}", "alltoallv", (rows, send_sizes), (result, receive_sizes))
        return asarray(result)

    @staticmethod
    def backward(ctx: _Kept, g: Tensor) -> tuple[Tensor, None, None, None]:
        return all_to_all_rows(g, ctx.received, **ctx.ranks.options), None, None, None

    @staticmethod
    def jvp(ctx: _Kept, t: Tensor, *_: None) -> Tensor:
        return all_to_all_rows(t, ctx.counts, **ctx.ranks.options)


__all__ = ["all_gather", "all_to_all_rows", "allreduce", "reduce_scatter"]
