"""Sums over processes: each leaf of a pytree in the way that moves the fewest bytes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from iverson.core.dispatch import make_handle, rewrap, unwrap, value_of
from iverson.core.errors import ArgumentError
from iverson.core.protocols import NDArray
from iverson.interop.entry_buffers import Joint
from iverson.interop.messages import summed
from iverson.interop.mpi.ranks import Ranks
from iverson.layouts import CooPattern, Sparse, Zero, to_strided
from iverson.layouts.conversion import to_coo, with_sparse_axes
from iverson.layouts.pattern import addresses, coordinates_of, index_dtype

if TYPE_CHECKING:
    from iverson.handles import Tensor
    from iverson.handles.array import Array
    from iverson.layouts import Pattern

#: What a leaf is held as on some rank, in a header: nothing, a pattern, all entries.
NOTHING, STORED, FULL = 0, 1, 2
#: Leaves of fewer bytes share a message.
SMALL = 1 << 16


def reduced(leaves: Sequence[Array], ranks: Ranks) -> list[Array]:
    """Sum of each leaf over the ranks of a communicator, as new handles with the same values on
    every rank.
    """
    plain = [unwrap(x) for x in leaves]
    header = np.array([_header(x) for x in plain], np.int64).reshape(-1, 5)
    headers = ranks.of_each(f"the shapes and layouts of {len(plain)} tensors", header)
    results: list[Any] = [None] * len(plain)
    strided: list[int] = []
    for k, x in enumerate(plain):
        kinds, counts, digests, shapes, axes = headers[:, k].T
        if (shapes != shapes[0]).any():
            raise ArgumentError(
                ranks.operation,
                f"tree[{k}]",
                got=f"shape {x.shape} and dtype {x.dtype} here, others elsewhere",
                expected="the same on each rank",
            )
        if not kinds.any():
            results[k] = make_handle(Zero(x.shape, x.dtype))
        elif (kinds == STORED).all() and (digests == digests[0]).all():
            value = value_of(x)
            results[k] = make_handle(value.pattern.value(ranks.total(_sum_of(k, x), value.entries)))
        elif (kinds == FULL).any():
            strided.append(k)
        else:
            results[k] = _of_union(x, counts, axes, ranks, _sum_of(k, x))
    arrays = [to_strided(value_of(plain[k])) for k in strided]
    joint = Joint([(a.shape, a.dtype) for a in arrays], SMALL)
    purpose = f"the sum of {len(strided)} strided tensors"
    totals = joint.split([ranks.total(purpose, part) for part in joint.join(arrays)])
    for k, total in zip(strided, totals, strict=True):
        results[k] = make_handle(total)
    return [rewrap(x, total) for x, total in zip(leaves, results, strict=True)]


def _header(x: Tensor) -> tuple[int, int, int, int, int]:
    """Facts of a leaf for other ranks: its kind, number of entries, digest of the pattern, digest of the
    shape, and rank of the pattern.

    The kind is `NOTHING` (zero layout), `STORED` (a pattern) or `FULL` (all entries).
    """
    value = value_of(x)
    shape = _digest(repr((x.shape, x.dtype.str)).encode())
    if isinstance(value, Zero):
        return NOTHING, 0, 0, shape, 0
    if not isinstance(value, Sparse):
        return FULL, 0, 0, shape, 0
    pattern = value.pattern
    return STORED, pattern.count, pattern.once("digest", lambda: _of_pattern(pattern)), shape, pattern.ndim


def _of_pattern(pattern: Pattern) -> int:
    parts = (pattern.layout.encode(), *(np.ascontiguousarray(a).tobytes() for a in pattern.arrays))
    return _digest(b" ".join(parts))


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


def _sum_of(k: int, x: Tensor) -> str:
    return f"the sum of tree[{k}], of shape {x.shape} and dtype {x.dtype},"


# --- different patterns ---------------------------------------------------------------------------


def bytes_of_union(counts: Sequence[int], entry: int) -> int:
    """Bytes that a rank receives, at most, if each rank sends its entries with addresses to all others.

    counts : the number of entries of each rank. entry : bytes of one entry.
    """
    return (sum(counts) - min(counts)) * (8 + entry)


def bytes_of_all(shape: Sequence[int], axes: int, itemsize: int, ranks: int) -> int:
    """Bytes that a rank receives if all entries, and a byte of mask for each place, are summed in a ring.

    axes : the number of first axes whose indices make a place.
    """
    places = prod(shape[:axes])
    return 2 * (ranks - 1) * (prod(shape) * itemsize + places) // ranks


def _of_union(x: Tensor, counts: NDArray, axes: NDArray, ranks: Ranks, purpose: str) -> Tensor:
    """Sum of leaves whose patterns differ between ranks: a COO tensor on the union of the patterns.

    counts, axes : for each rank, the number of entries it stores and the number of sparse axes (0 if it has
        none).
    """
    k = int(axes.max())
    shape = x.shape[:k]
    value = value_of(x)
    coo = with_sparse_axes(to_coo(value), k) if isinstance(value, Sparse) else _nothing(x, k)
    counts = counts * [prod(x.shape[a:k]) for a in axes.tolist()]
    keys, entries = addresses(coo.pattern.coordinates, shape), np.ascontiguousarray(coo.entries)
    entry = prod(x.shape[k:]) * x.dtype.itemsize
    if bytes_of_union(counts.tolist(), entry) <= bytes_of_all(x.shape, k, x.dtype.itemsize, ranks.size):
        keys, entries = (gathered(rows, counts, ranks, purpose) for rows in (keys, entries))
        pattern = CooPattern(shape, coordinates_of(keys, shape, index_dtype(*shape)))
        union: Tensor = make_handle(pattern.value(entries))
        return summed([union])
    there = np.zeros(prod(shape), np.uint8)
    there[keys] = 1
    at = np.flatnonzero(ranks.total(purpose, there, MPI.MAX))
    total = ranks.total(purpose, to_strided(coo)).reshape(len(there), *x.shape[k:])
    pattern = CooPattern.of_keys(at, shape, index_dtype(*shape))
    result: Tensor = make_handle(pattern.value(total[at]))
    return result


def _nothing(x: Tensor, axes: int) -> Sparse:
    """Sparse value of the shape of ``x`` that stores no entry; its pattern is over the first
    ``axes`` axes.
    """
    pattern = CooPattern(x.shape[:axes], np.zeros((axes, 0), np.int64), True)
    value: Sparse = pattern.value(np.zeros((0, *x.shape[axes:]), x.dtype))
    return value


def gathered(rows: NDArray, counts: NDArray, ranks: Ranks, purpose: str) -> NDArray:
    """Rows of all ranks in the order of the ranks, on each of them.

    counts : the number of rows of each rank.
    """
    result = np.empty((int(counts.sum()), *rows.shape[1:]), rows.dtype)
    ranks.call(purpose, "allgatherv", np.ascontiguousarray(rows), (result, counts * prod(rows.shape[1:])))
    return result


__all__ = ["bytes_of_all", "bytes_of_union", "gathered", "reduced"]
