"""Checks of the arrays of a call against the buffers that they are passed for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from iverson.codegen.nests.nodes import Buffer
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from iverson.core.protocols import NDArray


def sizes_of(
    operation: str, buffers: Sequence[Buffer], arrays: Sequence[NDArray], values: Mapping[str, int]
) -> dict[str, int]:
    """Check every array against its buffer; return the sizes that follow from shapes, and those given.

    values : sizes that are given.
    Raises ArgumentTypeError, DTypeError, ShapeError or ArgumentError for an array that does not fit.
    """
    if len(arrays) != len(buffers):
        raise ArgumentError(operation, got=f"{len(arrays)} arrays", expected=f"{len(buffers)}")
    sizes = {name: int(n) for name, n in values.items()}
    for b, a in zip(buffers, arrays, strict=True):
        if type(a) is not np.ndarray:
            raise ArgumentTypeError(operation, b.name, got=type(a).__name__, expected="a NumPy array")
        if a.dtype != b.dtype:
            raise DTypeError(operation, b.name, got=a.dtype.name, expected=b.dtype.name)
        if a.ndim != len(b.shape):
            raise ShapeError(operation, b.name, got=f"rank {a.ndim}", expected=f"rank {len(b.shape)}")
        for want, n in zip(b.shape, a.shape, strict=True):
            if (sizes.setdefault(want, n) if isinstance(want, str) else want) != n:
                expected = tuple(sizes.get(w, w) if isinstance(w, str) else w for w in b.shape)
                raise ShapeError(operation, b.name, got=f"shape {a.shape}", expected=str(expected))
        if not (a.flags.c_contiguous and a.flags.aligned):
            raise ArgumentError(
                operation,
                b.name,
                got=f"strides {a.strides}",
                expected="a C-contiguous, aligned array",
                remedy="use numpy.ascontiguousarray",
            )
        if b.role != "in" and not a.flags.writeable:
            raise ArgumentError(operation, b.name, got="a read-only array", expected="one to write")
    _check_overlap(operation, buffers, arrays)
    return sizes


def _check_overlap(operation: str, buffers: Sequence[Buffer], arrays: Sequence[NDArray]) -> None:
    """Raise ArgumentError if an array that is written shares memory with another one."""
    for k, (b, a) in enumerate(zip(buffers, arrays, strict=True)):
        if b.role == "in":
            continue
        for n, other in enumerate(arrays):
            if n != k and np.may_share_memory(a, other):
                raise ArgumentError(
                    operation,
                    b.name,
                    got=f"memory shared with '{buffers[n].name}'",
                    expected="an output of its own",
                    remedy="pass a copy",
                )


__all__ = ["sizes_of"]
