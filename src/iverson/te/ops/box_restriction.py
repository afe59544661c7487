"""Box of a tensor: the statements that write it, restricted to the points that write entries of the box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iverson.te.ir.expressions import Extent, Tensor, reads_of
from iverson.te.ir.nodes import Compute, Domain, Statement


def has_parts(tensor: Tensor) -> bool:
    """True if `part_of` can restrict the statements of a tensor to a box: no write depends on data."""
    statements = tensor.statements if isinstance(tensor, Compute) else ()
    return not any(reads_of(s.write) for s in statements)


def part_of(tensor: Tensor, start: Sequence[Extent], shape: Sequence[Extent]) -> Tensor:
    """Entries of a tensor in the box of shape ``shape`` that begins at ``start``, as a tensor.

    before -> after: ``T[w] += f for p in P`` -> ``B[w - start] += f for p in P if 0 <= w - start < shape``
    """
    statements = tensor.statements if isinstance(tensor, Compute) else ()
    return Compute(tuple(shape), tensor.dtype, tensor.name, [_within(s, start, shape) for s in statements])


def _within(s: Statement, start: Sequence[Extent], shape: Sequence[Extent]) -> Statement:
    write = tuple(at - first for at, first in zip(s.write, start, strict=True))
    inside = [guard for at, n in zip(write, shape, strict=True) for guard in (at >= 0, at < n)]
    return replace(s, write=write, domain=Domain(s.domain.axes, (*s.domain.where, *inside)))
