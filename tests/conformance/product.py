"""The large product that the op table is held against: op x layout x sample x dtype x needs x order.

A run of the tests draws a seeded sample of it with at least one case in every op x layout cell;
``IVERSON_TEST_ALL=1`` takes all. ``IVERSON_TEST_SEED`` moves the draw.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.core.op import Op, Sample, Sampler
from iverson.core.region import Region
from iverson.core.scalars import SCALARS
from iverson.layouts import (
    SPARSE_LAYOUTS,
    Box,
    CooPattern,
    Packed,
    Zero,
    can_hold,
    from_strided,
    layouts,
    to_strided,
)
from iverson.ops import TABLE

EXHAUSTIVE = os.environ.get("IVERSON_TEST_ALL") == "1"
SEED = int(os.environ.get("IVERSON_TEST_SEED", "0"))
ORDERS = (1, 2)


@dataclass(frozen=True)
class Case:
    """One point of the product."""

    op: str
    layout: str
    dtype: str
    sample: int
    needs: tuple[int, ...]
    order: int

    def __str__(self) -> str:
        needs = "".join(map(str, self.needs))
        return f"{self.op}-{self.layout}-{self.dtype}-{self.sample}-needs{needs}-order{self.order}"


def dtypes_of(op: Op) -> tuple[str, ...]:
    """Real samples always, complex ones where the op is defined on them."""
    scalar = SCALARS.get(op.name)
    if scalar is not None:
        return ("float64", "complex128") if scalar.complex_ok else ("float64",)
    return ("float64",) if "complex" in op.exceptions else ("float64", "complex128")


def samples_of(op: Op, dtype: str) -> list[Sample]:
    assert op.samples is not None, f"{op.name} has no samples in its record"
    return list(op.samples(Sampler(SEED, dtype)))


def floating(sample: Sample) -> tuple[int, ...]:
    """The positions a gradient can be asked for."""
    return tuple(k for k, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc")


def subsets(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for size in range(1, len(items) + 1):
        yield from itertools.combinations(items, size)


def cells() -> list[tuple[str, str]]:
    return [(name, layout.name) for name in TABLE for layout in layouts()]


def cases_of(name: str, layout: str) -> list[Case]:
    op = TABLE[name]
    found = []
    for dtype in dtypes_of(op):
        for k, sample in enumerate(samples_of(op, dtype)):
            wanted = list(subsets(floating(sample))) if op.differentiable else []
            for needs in wanted or [()]:
                orders = ORDERS if wanted else (0,)
                found += [Case(name, layout, dtype, k, needs, order) for order in orders]
    return found


def drawn(name: str, layout: str, count: int = 3) -> list[Case]:
    """This run's cases of one cell: all of them, or a seeded sample with every dtype and order in it."""
    everything = cases_of(name, layout)
    if EXHAUSTIVE or len(everything) <= count:
        return everything
    rng = np.random.default_rng([SEED, sum(map(ord, name + layout))])
    order = rng.permutation(len(everything))
    chosen: list[int] = []
    seen: set[tuple[str, int]] = set()
    for k in order:
        case = everything[k]
        if (case.dtype, case.order) not in seen:
            seen.add((case.dtype, case.order))
            chosen.append(int(k))
    chosen += [int(k) for k in order if int(k) not in chosen][: max(0, count - len(chosen))]
    return [everything[k] for k in sorted(chosen)]


def in_layout(value: Any, layout: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """A value of the layout with entries from ``value``, and the same entries as an array."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
        return value, value
    if layout == "zero":
        return Zero(value.shape, value.dtype), np.zeros_like(value)
    if layout == "box" and value.ndim and value.size:
        corners = [sorted(rng.choice(n + 1, 2, replace=False)) for n in value.shape]
        region = Region(tuple(int(a) for a, _ in corners), tuple(int(b) for _, b in corners))
        if not region.covers(value.shape):
            box = Box(value.shape, region, value[region.slices].copy())
            return box, box.read(Region.full(value.shape))
    if layout == "packed":
        mask = np.asarray(rng.random(value.shape) < 0.5)
        return Packed(mask, value[mask]), np.where(mask, value, 0)
    if layout in SPARSE_LAYOUTS:
        return in_sparse_layout(value, layout, rng)
    return value, value


def in_sparse_layout(value: np.ndarray[Any, Any], layout: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Half of the entries stored, one of them an explicit 0; blocks as large as the shape allows; in COO also
    entries stored twice, and a dense trailing axis."""
    blocks = None
    if layout[0] == "b" and value.ndim > 1:
        blocks = (2 - value.shape[-2] % 2, next(b for b in (2, 3, 1) if value.shape[-1] % b == 0))
    if not can_hold(layout, value.shape, blocks):
        return value, value
    dense = np.where(rng.random(value.shape) < 0.5, value, 0)
    axes = int(rng.integers(1, value.ndim + 1)) if layout == "coo" else None
    held = from_strided(dense, layout, blocks, axes)
    if layout == "coo" and rng.random() < 0.5:
        half = held.entries / 2
        pattern = CooPattern(held.pattern.shape, np.concatenate([held.pattern.indices] * 2, axis=1))
        held = pattern.value(np.concatenate([half, half]))
    if held.pattern.count and blocks is None and rng.random() < 0.5:
        held.values[0] = 0
    return held, to_strided(held)
