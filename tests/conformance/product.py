"""The large product that the op table is held against: op x layout x sample x dtype x needs x order.

A run of the tests draws a seeded sample of it with at least one case in every op x layout cell;
``IVERSON_TEST_ALL=1`` takes all. ``IVERSON_TEST_SEED`` moves the draw.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from iverson.core.op import Op, Sample, Sampler
from iverson.core.region import Region
from iverson.core.scalars import SCALARS
from iverson.layouts import (
    Box,
    Bracket,
    CooPattern,
    Packed,
    Zero,
    can_hold,
    from_strided,
    layout_named,
    layout_of,
    layouts,
    layouts_by_type,
    sparse_layouts,
    stored,
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


@cache
def samples_of(op: Op, dtype: str) -> tuple[Sample, ...]:
    """The samples of an op, drawn once: no test may write into them."""
    assert op.samples is not None, f"{op.name} has no samples in its record"
    samples = tuple(op.samples(Sampler(SEED, dtype)))
    for value in (a for sample in samples for a in sample.args):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return samples


def floating(sample: Sample) -> tuple[int, ...]:
    """The positions a gradient can be asked for."""
    return tuple(k for k, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc")


def subsets(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for size in range(1, len(items) + 1):
        yield from itertools.combinations(items, size)


def ops() -> tuple[str, ...]:
    """The ops of the table."""
    return tuple(TABLE)


def cells() -> list[tuple[str, str]]:
    return [(name, layout.name) for name in ops() for layout in layouts()]


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


@cache
def drawn(name: str, layout: str, count: int = 2) -> list[Case]:
    """This run's cases of one cell: all of them, or a seeded sample; dtypes and orders go by turns."""
    everything = cases_of(name, layout)
    if EXHAUSTIVE:
        return everything
    rng = np.random.default_rng([SEED, sum(map(ord, name + layout))])
    permuted = [everything[k] for k in rng.permutation(len(everything))]
    chosen: list[Case] = []
    for case in permuted:  # one dtype with one order, and another with another
        others = all(case.dtype != c.dtype and case.order != c.order for c in chosen)
        if len(chosen) < count and others and stores(case):
            chosen.append(case)
    return [case for case in everything if case in chosen] or permuted[:count]


def turn(name: str, count: int) -> int:
    """A number below ``count`` for a name: which of several things is done, by turns, and by ``SEED``."""
    return crc32(name.encode(), SEED) % count


def by_turns(items: Iterable[Any], share: int = 2, number: int = 0) -> list[Any]:
    """Every second of the items, or one of ``share``, by name and `SEED`; all of them in a whole run.

    Tests of the same items with other numbers take other ones of them.
    """
    return [item for item in items if EXHAUSTIVE or turn(str(item), share) == number % share]


def some(name: str, items: Iterable[Any], count: int = 1, number: int = 0) -> list[Any]:
    """So many of the items, by turns for a name, a number and `SEED`; all of them in a whole run."""
    found = list(items)
    first = (turn(name, len(found)) + number) % len(found)
    return found if EXHAUSTIVE else [*found, *found][first : first + min(count, len(found))]


def examples(count: int) -> int:
    """How many examples hypothesis draws: so many in a whole run, and a third of them otherwise."""
    return count if EXHAUSTIVE else -(-count // 3)


def paired(rows: Iterable[Any], columns: Iterable[Any], count: int = 1) -> list[tuple[Any, Any]]:
    """Each row with so many of the columns, the next row with the next ones; with all in a whole run."""
    every = list(columns)
    return [(r, c) for k, r in enumerate(rows) for c in some("columns", every, count, k)]


def without_subsets(name: str, share: int = 4) -> dict[str, Any]:
    """Options of gradcheck: no subsets of what is given and asked for, but for one name of ``share``."""
    checked = EXHAUSTIVE or turn(name, share) == 0
    return {"check_needs": checked, "check_undefined": checked}


def in_short(name: str, share: int = 4) -> dict[str, Any]:
    """Options of gradcheck for functions of arrays, made of ops that have tests of their own.

    One direction of each input, and no subsets. One name of ``share`` has more directions and the subsets; in
    a whole run all have, and every entry is moved. Of a few numbers, that is quicker (`without_subsets`).
    """
    if EXHAUSTIVE:
        return {}
    less = {"directions": 1} if turn(name, share) else {}
    return {"fast": True} | less | without_subsets(name, share)


def each(check: Callable[[Any], None], cases: Iterable[Any]) -> None:
    """Run a check on all cases; what fails is raised together, each with a note of its case."""
    failures: list[Exception] = []
    for case in cases:
        try:
            check(case)
        except Exception as error:
            error.add_note(f"in the case {case}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"failures of {getattr(check, '__name__', check)}", failures)


def held_and_dense(case: Case) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The arguments of a case, those that can be in its layout, and the same entries as arrays."""
    return _held_and_dense(case.op, case.layout, case.dtype, case.sample)


def _held_and_dense(name: str, layout: str, dtype: str, k: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    rng = np.random.default_rng(SEED)
    sample = samples_of(TABLE[name], dtype)[k]
    # Integers are entries where an op takes nothing else; elsewhere they are indices.
    kinds = "fc" if floating(sample) else "iu"
    held, dense = zip(*(in_layout(a, layout, rng, kinds) for a in sample.args), strict=True)
    return held, dense


def stores(case: Case) -> bool:
    """Whether an argument of the case is in its layout, and has something in it."""
    return _stores(case.op, case.layout, case.dtype, case.sample)


@cache
def _stores(name: str, layout: str, dtype: str, k: int) -> bool:
    return any(holds_something(value, layout) for value in _held_and_dense(name, layout, dtype, k)[0])


def holds_something(value: Any, layout: str) -> bool:
    own = type(value) in layouts_by_type and layout_of(value).name == layout
    return own and (stored(value)[1].size > 0 if layout != "zero" else prod(value.shape) > 0)


def in_layout(value: Any, layout: str, rng: np.random.Generator, kinds: str = "fc") -> tuple[Any, Any]:
    """A value of the layout with entries from ``value``, and the same entries as an array."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        return value, value
    if layout == "zero":
        return Zero(value.shape, value.dtype), np.zeros_like(value)
    if layout == "box" and value.ndim and value.size:
        region = Region.full(value.shape)
        while region.covers(value.shape) and value.size > 1:  # drawn again until something is left out
            corners = [sorted(rng.choice(n + 1, 2, replace=False)) for n in value.shape]
            region = Region(tuple(int(a) for a, _ in corners), tuple(int(b) for _, b in corners))
        if not region.covers(value.shape):
            box = Box(value.shape, region, value[region.slices].copy())
            return box, box.read(Region.full(value.shape))
    if layout == "bracket":
        condition, negated = some_of(value, rng), bool(rng.integers(2))
        left_out = np.nan if value.dtype.kind in "fc" else 7  # never read
        values = np.where(condition, value, np.asarray(left_out, value.dtype))
        return Bracket(values, np.asarray(condition != negated), negated), np.where(condition, value, 0)
    if layout == "packed":
        mask = some_of(value, rng)
        return Packed(mask, value[mask]), np.where(mask, value, 0)
    if layout in {own.name for own in sparse_layouts()}:
        return in_sparse_layout(value, layout, rng)
    return value, value


def some_of(value: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """About half of the entries: drawn again until one of them is not 0, where there is one."""
    while True:
        chosen = np.asarray(rng.random(value.shape) < 0.5)
        if value[chosen].any() or not value.any():
            return chosen


def in_sparse_layout(value: np.ndarray[Any, Any], layout: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Half of the entries stored, one of them an explicit 0; dense trailing axes, where the layout can have
    them; blocks as large as the shape allows; in COO also entries stored twice."""
    least = 1 if layout_named(layout).dense_axes else value.ndim
    fitting = [k for k in range(least, value.ndim + 1) if can_hold(layout, value.shape[:k])]
    if not fitting:
        return value, value
    axes = int(rng.choice(fitting))
    blocks = None
    if layout_named(layout).blocked:
        rows, columns = value.shape[axes - 2 : axes]
        blocks = (2 - rows % 2, next(b for b in (2, 3, 1) if columns % b == 0))
    dense = np.where(some_of(value, rng), value, 0)
    held = from_strided(dense, layout, blocks, axes)
    if layout == "coo" and rng.random() < 0.5:
        part = held.entries // 2 if held.dtype.kind in "iu" else held.entries / 2
        pattern = CooPattern(held.pattern.shape, np.concatenate([held.pattern.indices] * 2, axis=1))
        held = pattern.value(np.concatenate([part, held.entries - part]))
    if held.pattern.count and blocks is None and rng.random() < 0.5:
        held.values[0] = 0
    return held, to_strided(held)
