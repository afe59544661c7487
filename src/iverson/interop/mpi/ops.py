"""Differentiable ops between the processes of a communicator. Each is linear: its transpose is one of them.

A loss of all processes is the sum of what each of them makes of what it receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from mpi4py import MPI

from iverson.autograd import Function
from iverson.core.dispatch import is_tracked, unwrap
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, described
from iverson.interop.mpi.reduce import gathered, reduced
from iverson.tensor import Tensor, asarray
from iverson.transforms.trees import flatten, tensors, unflatten

Array = np.ndarray[Any, Any]


def allreduce(tree: Any, comm: MPI.Comm | None = None) -> Any:
    """The sums of a tree's tensors over the processes of a communicator, on each of them.

    tree : of tensors in any layout, plain or masked (with the same mask everywhere), the same tree on each
        process.
    comm : of ``mpi4py``; by default MPI.COMM_WORLD.

    Each sum moves the fewest bytes that its support allows: nothing where it is in the zero layout
    everywhere, the entries where all hold one pattern, rows or entries with their addresses where patterns
    differ, or all entries where these are less; then a further byte for each place keeps the support.
    Strided tensors under 64 KiB share messages.

    Differentiable: the transpose is `allreduce` itself. Every process must call it, and its derivative,
    alike.

    >>> import iverson as iv
    >>> allreduce({"w": iv.asarray([1.0, 2.0])})
    {'w': iverson.Tensor([1., 2.])}
    """
    comm = communicator(comm, "allreduce")
    leaves, structure = flatten(tree)
    leaves = tensors(leaves, "allreduce", "tree")
    if any(is_tracked(unwrap(x)) for x in leaves):
        return unflatten(structure, [_AllReduce.apply(x, comm) for x in leaves])
    return unflatten(structure, reduced(leaves, comm))


def reduce_scatter(x: Any, comm: MPI.Comm | None = None, *, counts: Sequence[int] | None = None) -> Any:
    """The sum of x over all processes, of which each gets some rows: rank 0 the first counts[0].

    x : of the same shape everywhere. counts : of the rows of each rank; by default as equal as can be.

    Differentiable: the transpose is `all_gather`. Raises ShapeError where the counts do not add up.

    >>> import iverson as iv
    >>> reduce_scatter(iv.ones((3, 1))).shape
    (3, 1)
    """
    comm, (x,) = communicator(comm, "reduce_scatter"), tensors([x], "reduce_scatter", "x")
    sizes = _counts(x, comm, counts, "reduce_scatter")
    return _ReduceScatter.apply(x, comm, sizes)


def all_gather(x: Any, comm: MPI.Comm | None = None) -> Any:
    """The rows of all processes, on each of them. Differentiable: the transpose is `reduce_scatter`.

    >>> import iverson as iv
    >>> all_gather(iv.ones((3, 1))).shape
    (3, 1)
    """
    comm, (x,) = communicator(comm, "all_gather"), tensors([x], "all_gather", "x")
    _counts(x, comm, [x.shape[0] if x.ndim else 0] + [0] * (comm.size - 1), "all_gather")
    return _AllGather.apply(x, comm)


def all_to_all_rows(x: Any, counts: Sequence[int], comm: MPI.Comm | None = None) -> Any:
    """Rows sent to the processes that they are for: the first counts[0] go to rank 0, the next to rank 1.

    Returns the rows received, in the order of the ranks that sent them. Differentiable: the transpose sends
    them back. Raises ShapeError where the counts do not add up to the rows of x.

    >>> import iverson as iv
    >>> all_to_all_rows(iv.asarray([[1.0], [2.0]]), [2])
    iverson.Tensor([[1.],
                    [2.]])
    """
    comm, (x,) = communicator(comm, "all_to_all_rows"), tensors([x], "all_to_all_rows", "x")
    sizes = _counts(x, comm, counts, "all_to_all_rows")
    received = tuple(comm.alltoall(list(sizes)))
    return _AllToAllRows.apply(x, comm, sizes, received)


def communicator(comm: Any, operation: str) -> Any:
    if comm is None:
        return MPI.COMM_WORLD
    if not isinstance(comm, MPI.Intracomm):
        raise ArgumentTypeError(
            operation, "comm", got=described(comm), expected="an intracommunicator of mpi4py"
        )
    return comm


def _counts(x: Any, comm: Any, counts: Sequence[int] | None, operation: str) -> tuple[int, ...]:
    rows = x.shape[0] if x.ndim else 0
    if not x.ndim:
        raise ShapeError(operation, "x", got="rank 0", expected="rows")
    if counts is None:
        return tuple(len(part) for part in np.array_split(np.empty(rows), comm.size))
    found = tuple(int(n) for n in counts)
    if len(found) != comm.size or min(found) < 0 or sum(found) != rows:
        raise ShapeError(
            operation, "counts", got=str(found), expected=f"{comm.size} numbers of rows, {rows} together"
        )
    return found


def _dense(x: Any) -> Array:
    if not isinstance(x, Tensor):
        raise ArgumentError(
            "mpi", "x", got=described(x), expected="a plain tensor", remedy="call x.to_tensor(0.0)"
        )
    return np.ascontiguousarray(x.detach().to_dense().numpy())


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, comm: Any) -> Any:
        ctx.comm = comm
        (total,) = reduced([x], comm)
        return total

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return allreduce(g, ctx.comm), None

    @staticmethod
    def jvp(ctx: Any, t: Any, *_: Any) -> Any:
        return allreduce(t, ctx.comm)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, comm: Any, counts: tuple[int, ...]) -> Any:
        ctx.comm, ctx.counts = comm, counts
        given, width = _dense(x), prod(x.shape[1:])
        found = np.empty((counts[comm.rank], *x.shape[1:]), given.dtype)
        comm.Reduce_scatter(given, found, [n * width for n in counts])
        return asarray(found)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return all_gather(g, ctx.comm), None, None

    @staticmethod
    def jvp(ctx: Any, t: Any, *_: Any) -> Any:
        return reduce_scatter(t, ctx.comm, counts=ctx.counts)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, comm: Any) -> Any:
        ctx.comm, ctx.counts = comm, tuple(comm.allgather(x.shape[0]))
        return asarray(gathered(_dense(x), comm))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return reduce_scatter(g, ctx.comm, counts=ctx.counts), None

    @staticmethod
    def jvp(ctx: Any, t: Any, *_: Any) -> Any:
        return all_gather(t, ctx.comm)


class _AllToAllRows(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, comm: Any, counts: tuple[int, ...], received: tuple[int, ...]) -> Any:
        ctx.comm, ctx.counts, ctx.received = comm, counts, received
        given, width = _dense(x), prod(x.shape[1:])
        found = np.empty((sum(received), *x.shape[1:]), given.dtype)
        sent, taken = ([n * width for n in sizes] for sizes in (counts, received))
        comm.Alltoallv((given, sent), (found, taken))
        return asarray(found)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return all_to_all_rows(g, ctx.received, ctx.comm), None, None, None

    @staticmethod
    def jvp(ctx: Any, t: Any, *_: Any) -> Any:
        return all_to_all_rows(t, ctx.counts, ctx.comm)


__all__ = ["all_gather", "all_to_all_rows", "allreduce", "reduce_scatter"]
