"""Sums over processes: each leaf of a tree in the way that moves the fewest bytes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
from mpi4py import MPI

from iverson.core.dispatch import make_handle, rewrap, unwrap, value_of
from iverson.core.errors import ArgumentError
from iverson.interop.packing import summed
from iverson.layouts import CooPattern, Sparse, Zero, to_strided
from iverson.layouts.conversion import to_coo, with_sparse_axes
from iverson.layouts.pattern import addresses, coordinates_of, index_dtype

Array = np.ndarray[Any, Any]
#: What a leaf is held as on some rank, in a header: nothing, a pattern, all entries.
NOTHING, STORED, FULL = 0, 1, 2
#: Leaves of fewer bytes share a message.
SMALL = 1 << 16


def reduced(leaves: Sequence[Any], comm: MPI.Comm) -> list[Any]:
    """The sums of leaves over the ranks of a communicator, as new handles: the same on each rank."""
    plain = [unwrap(x) for x in leaves]
    headers = np.empty((comm.size, len(plain), 5), np.int64)
    comm.Allgather(np.array([_header(x) for x in plain], np.int64).reshape(-1, 5), headers)
    found: list[Any] = [None] * len(plain)
    whole: list[int] = []
    for k, x in enumerate(plain):
        kinds, counts, digests, shapes, axes = headers[:, k].T
        if (shapes != shapes[0]).any():
            raise ArgumentError(
                "allreduce", f"tree[{k}]", got=f"shape {x.shape} and dtype {x.dtype} here, others elsewhere",
                expected="the same on each rank",
            )  # fmt: skip
        if not kinds.any():
            found[k] = make_handle(Zero(x.shape, x.dtype))
        elif (kinds == STORED).all() and (digests == digests[0]).all():
            value = value_of(x)
            found[k] = make_handle(value.pattern.value(_summed(value.entries, comm)))
        elif (kinds == FULL).any():
            whole.append(k)
        else:
            found[k] = _of_union(x, counts, axes, comm)
    for k, total in zip(
        whole, _in_messages([to_strided(value_of(plain[k])) for k in whole], comm), strict=True
    ):
        found[k] = make_handle(total)
    return [rewrap(x, total) for x, total in zip(leaves, found, strict=True)]


def _header(x: Any) -> tuple[int, int, int, int, int]:
    """What others must know of a leaf: how it is held, how many entries, of which pattern, shape and axes."""
    value = value_of(x)
    shape = _digest(repr((x.shape, x.dtype.str)).encode())
    if isinstance(value, Zero):
        return NOTHING, 0, 0, shape, 0
    if not isinstance(value, Sparse):
        return FULL, 0, 0, shape, 0
    pattern = value.pattern
    return STORED, pattern.count, pattern.once("digest", lambda: _of_pattern(pattern)), shape, pattern.ndim


def _of_pattern(pattern: Any) -> int:
    parts = (pattern.layout.encode(), *(np.ascontiguousarray(a).tobytes() for a in pattern.arrays))
    return _digest(b" ".join(parts))


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


def _summed(array: Array, comm: MPI.Comm) -> Array:
    given = np.ascontiguousarray(array)
    total = np.empty_like(given)
    comm.Allreduce(given, total)
    return total


def _in_messages(arrays: Sequence[Array], comm: MPI.Comm) -> list[Array]:
    """Sums of arrays: small ones of a dtype in one message."""
    found: list[Any] = [None] * len(arrays)
    small: dict[Any, list[int]] = {}
    for k, array in enumerate(arrays):
        if array.nbytes < SMALL:
            small.setdefault(array.dtype, []).append(k)
        else:
            found[k] = _summed(array, comm)
    for places in small.values():
        flat = _summed(np.concatenate([arrays[k].reshape(-1) for k in places]), comm)
        start = 0
        for k in places:
            found[k] = flat[start : start + arrays[k].size].reshape(arrays[k].shape).copy()
            start += arrays[k].size
    return found


# --- different patterns ---------------------------------------------------------------------------


def bytes_of_union(counts: Sequence[int], entry: int) -> int:
    """Bytes that reach a rank, at most, when each sends its entries and their addresses to all others."""
    return (sum(counts) - min(counts)) * (8 + entry)


def bytes_of_all(shape: Sequence[int], axes: int, itemsize: int, ranks: int) -> int:
    """The same when all entries are summed in a ring, with a byte for each place: whether it is stored."""
    places = prod(shape[:axes])
    return 2 * (ranks - 1) * (prod(shape) * itemsize + places) // ranks


def _of_union(x: Any, counts: Array, axes: Array, comm: MPI.Comm) -> Any:
    """The sum of leaves with different patterns: COO, on the union of these.

    counts, axes : of each rank, how many entries it stores, over how many axes (0 where it has none).
    """
    k = int(axes.max())
    shape = x.shape[:k]
    value = value_of(x)
    held = with_sparse_axes(to_coo(value), k) if isinstance(value, Sparse) else _nothing(x, k)
    counts = counts * [prod(x.shape[a:k]) for a in axes.tolist()]
    keys, entries = addresses(held.pattern.coordinates, shape), np.ascontiguousarray(held.entries)
    entry = prod(x.shape[k:]) * x.dtype.itemsize
    if bytes_of_union(counts.tolist(), entry) <= bytes_of_all(x.shape, k, x.dtype.itemsize, comm.size):
        keys, entries = gathered(keys, comm), gathered(entries, comm)
        pattern = CooPattern(shape, coordinates_of(keys, shape, index_dtype(*shape)))
        return summed([make_handle(pattern.value(entries))])
    there = np.zeros(prod(shape), np.uint8)
    there[keys] = 1
    union = np.empty_like(there)
    comm.Allreduce(there, union, MPI.MAX)
    total = _summed(to_strided(held), comm).reshape(len(there), *x.shape[k:])
    at = np.flatnonzero(union)
    return make_handle(CooPattern.of_keys(at, shape, index_dtype(*shape)).value(total[at]))


def _nothing(x: Any, axes: int) -> Any:
    """A sparse value that stores no entry, over some axes."""
    pattern = CooPattern(x.shape[:axes], np.zeros((axes, 0), np.int64), True)
    return pattern.value(np.zeros((0, *x.shape[axes:]), x.dtype))


def gathered(rows: Array, comm: MPI.Comm) -> Array:
    """The rows of all ranks, one after the other."""
    counts = np.array(comm.allgather(len(rows)))
    found = np.empty((int(counts.sum()), *rows.shape[1:]), rows.dtype)
    width = prod(rows.shape[1:])
    comm.Allgatherv(np.ascontiguousarray(rows), (found, counts * width))
    return found


__all__ = ["bytes_of_all", "bytes_of_union", "gathered", "reduced"]
