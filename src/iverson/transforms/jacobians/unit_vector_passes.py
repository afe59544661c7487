"""Rows and columns of a Jacobian: pullbacks or pushforwards of unit vectors, many in one pass.

A batch of unit vectors is zero outside of the box around them, so that passes through ops that keep supports
touch that part alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from iverson.autograd.mode import recording
from iverson.autograd.node import reachable
from iverson.core.dispatch import Handle, is_tracked, make_handle, slot_of, value_of
from iverson.core.errors import GraphError
from iverson.core.protocols import DType
from iverson.core.region import Region
from iverson.core.shapes import Shape
from iverson.layouts import Box, Zero
from iverson.ops import F
from iverson.transforms.batching.batch_level import Batch, Batched, joined

if TYPE_CHECKING:
    from iverson.handles.tensor import Tensor

#: How many passes are made together, and how many entries of the largest recorded value they take in all.
MOST, ENTRIES = 512, 1 << 23

#: A pass: from cotangents or tangents of handles, or None for zeros, to those of others.
Walk: TypeAlias = Callable[[list[Any]], list[Any]]


class Line(Protocol):
    """A recorded function (`iverson.transforms.derivatives.Linearization`), as far as passes ask for it."""

    inputs: list[Any]
    outputs: list[Any]
    variables: list[Any]
    outer: bool

    def pull(self, cotangents: list[Handle | None], /) -> list[Any]:
        """Cotangents of the inputs from those of the outputs."""

    def push(self, tangents: list[Handle | None], /) -> list[Any]:
        """Tangents of the outputs from those of the inputs."""


class Seeds(NamedTuple):
    """Seeds of ``total`` passes.

    of : ``of(start, stop, weight)`` returns for each handle its seeds in the passes from ``start`` to
        ``stop``, along axis 0 and multiplied by ``weight``, or None if all of these are zero.
    """

    total: int
    of: Callable[[int, int, complex], list[Any]]


def by_rows(line: Line, chunk_size: int | None) -> list[list[Any]]:
    """Blocks of the Jacobian by pullbacks of unit vectors: for each output, a list with the block of each
    input.
    """
    blocks = []
    for k, y in enumerate(line.outputs):
        pass_results = pulled(line, _units_of(line.outputs, k), chunk_size, y.dtype.kind == "c")
        blocks.append(
            [_shaped(rows, y.shape + x.shape) for rows, x in zip(pass_results, line.inputs, strict=True)]
        )
    return blocks


def by_columns(line: Line, chunk_size: int | None) -> list[list[Any]]:
    """Blocks of the Jacobian by pushforwards of unit vectors: for each output, a list with the block of each
    input.
    """
    blocks: list[list[Any]] = [[] for _ in line.outputs]
    for k, x in enumerate(line.inputs):
        pass_results = pushed(line, _units_of(line.inputs, k), chunk_size, x.dtype.kind == "c")
        for block, columns, y in zip(blocks, pass_results, line.outputs, strict=True):
            block.append(_shaped(_last(columns), y.shape + x.shape))
    return blocks


def pulled(line: Line, seeds: Seeds, chunk_size: int | None, is_complex: bool) -> list[Any]:
    """Cotangents of each input from all passes along axis 0; ``seeds`` are cotangents of the outputs.

    is_complex : True if an output with seeds is complex: passes with imaginary seeds are made, too, for real
        inputs.
    """
    results = _passes(line, line.pull, seeds, 1, chunk_size)
    real = [x.dtype.kind != "c" for x in line.inputs]
    if not (is_complex and any(real)):
        return results
    imaginary = _passes(line, line.pull, seeds, 1j, chunk_size)
    return [
        _complex(F.real(a), F.real(b)) if r else a for a, b, r in zip(results, imaginary, real, strict=True)
    ]


def pushed(line: Line, seeds: Seeds, chunk_size: int | None, is_complex: bool) -> list[Any]:
    """Tangents of each output from all passes along axis 0; ``seeds`` are tangents of the inputs.

    is_complex : True if an input with seeds is complex: passes with imaginary seeds are made, too.
    """
    results = _passes(line, line.push, seeds, 1, chunk_size)
    if not is_complex:
        return results
    imaginary = _passes(line, line.push, seeds, 1j, chunk_size)
    return [_complex(F.real(a), F.real(b)) for a, b in zip(results, imaginary, strict=True)]


def _units_of(handles: Sequence[Tensor], k: int) -> Seeds:
    """Seeds of one pass for each unit vector of ``handles[k]``; the seeds of other handles are None."""
    x = handles[k]

    def of(start: int, stop: int, weight: complex) -> list[Any]:
        seeds: list[Any] = [None] * len(handles)
        seeds[k] = make_handle(units(x.shape, x.dtype, start, stop, weight))
        return seeds

    return Seeds(x.size, of)


def _complex(real: Handle, imaginary: Handle) -> Any:
    return F.add(real, F.multiply(imaginary, 1j))


def _together(line: Line) -> int:
    """Number of passes to run at once, so that their values fit into memory, and mostly into a cache."""
    nodes = reachable([slot_of(y)[0] for y in line.outputs if is_tracked(y)], 0)
    sizes: list[int] = [
        prod(result.shape) for node in nodes for result in (node.out if node.multiple else (node.out,))
    ]
    return max(1, min(MOST, ENTRIES // max([1, *sizes])))


def _passes(line: Line, walk: Walk, seeds: Seeds, weight: complex, chunk_size: int | None) -> list[Any]:
    """Results of all passes along axis 0, for each handle at the other end of the passes.

    walk : the pass, `Line.pull` or `Line.push`. weight : the number that seeds are multiplied by.
    """
    step = chunk_size or _together(line)
    parts = [
        _together_from(line, walk, seeds, weight, start, min(start + step, seeds.total))
        for start in range(0, max(seeds.total, 1), step)
    ]
    return [joined(p) for p in zip(*parts, strict=True)]


def _together_from(line: Line, walk: Walk, seeds: Seeds, weight: complex, start: int, stop: int) -> list[Any]:
    """Results of the passes from ``start`` to ``stop`` along axis 0, computed as one batch.

    If a rule reads entries, the passes are made one by one. If a pass finds that it must be recorded, all are
    made again.
    """
    if start == stop:
        return [F.zero((0, *x.shape), x.dtype) for x in walk([None] * len(seeds.of(start, stop, weight)))]
    recorded = line.outer
    try:
        with recording(recorded), Batch(stop - start) as level:
            level_seeds = [None if x is None else level.of_examples(x) for x in seeds.of(start, stop, weight)]
            results = [_examples(level, x) for x in walk(level_seeds)]
        if line.outer == recorded:
            return results
        return _together_from(line, walk, seeds, weight, start, stop)
    except GraphError:  # a rule reads entries: a custom function's, say
        passes = [_alone(walk, seeds.of(n, n + 1, weight)) for n in range(start, stop)]
        return [joined(x) for x in zip(*passes, strict=True)]


def _alone(walk: Walk, seeds: list[Handle | None]) -> list[Any]:
    """Results of one pass outside of a batch; ``seeds`` and results have an axis of length 1 in front."""
    results = walk([None if x is None else F.squeeze(x, axis=(0,)) for x in seeds])
    return [F.expand_dims(x, axis=(0,)) for x in results]


def _examples(level: Batch, x: Handle) -> Any:
    value = value_of(x)
    if isinstance(value, Batched) and value._level is level and value.lead:
        return value.held
    if type(value) is Zero and not is_tracked(x):
        return F.zero((level.size, *x.shape), x.dtype)
    return F.broadcast_to(x, shape=(level.size, *x.shape))


def units(shape: Shape, dtype: DType, start: int, stop: int, weight: complex = 1) -> Any:
    """Unit vectors of the row-major positions ``start`` to ``stop``, times ``weight``, along axis 0.

    The result is a `Box` value, zero outside of the region around these positions, or a NumPy array if the
    region is everything.
    """
    count = stop - start
    places = np.unravel_index(np.arange(start, stop), shape) if shape else ()
    region = Region(
        (0, *(int(p.min()) for p in places)) if count else (0,) * (1 + len(shape)),
        (count, *(int(p.max()) + 1 for p in places)) if count else (0, *shape),
    )
    dense = np.zeros(region.shape, dtype)
    dense[(np.arange(count), *(p - low for p, low in zip(places, region.start[1:], strict=True)))] = weight
    full_shape = (count, *shape)
    return dense if region.covers(full_shape) else Box(full_shape, region, dense)


def _shaped(rows: Handle, shape: Shape) -> Any:
    return F.zero(shape, rows.dtype) if _is_zero(rows) else F.reshape(rows, shape=shape)


def _last(columns: Handle) -> Any:
    """The array ``columns`` with its first axis, that of the passes, moved behind all others."""
    return columns if _is_zero(columns) else F.permute_dims(columns, axes=(*range(1, columns.ndim), 0))


def _is_zero(x: Handle) -> bool:
    return type(value_of(x)) is Zero and not is_tracked(x)
