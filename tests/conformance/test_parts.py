"""Part of a cotangent, computed alone, is that part of the whole.

For every op with a rule for that (`Op.vjp_at`, or a rule for all inputs, which is told the parts), every
sample and input; parts that are boxes or patterns, cotangents in several layouts, untracked and tracked.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from iverson.autograd.densify_watch import leaf_of
from iverson.autograd.engine import _part
from iverson.autograd.mode import recording
from iverson.core.dispatch import make_handle
from iverson.core.entries import FULL, Box, Stored
from iverson.core.region import Region
from iverson.core.table import F
from iverson.layouts import from_strided, to_strided
from iverson.ops import TABLE
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns, floating, in_layout, samples_of, turn

WITH_PARTS = [
    name
    for name, op in TABLE.items()
    if (op.vjp_at is not None or callable(op.vjp)) and op.samples and op.differentiable
]


#: Layouts of cotangents, and whether these are tracked.
HOW = (
    ("strided", False), ("box", False), ("coo", False), ("coo", True), ("strided", True), ("box", True),
)  # fmt: skip


def parts_of(shape: tuple[int, ...], rng: np.random.Generator) -> list[Box | Stored]:
    """A box with an entry left out on an axis, patterns of all axes and of the first; none of rank 0."""
    if not shape or 0 in shape:
        return []
    start = tuple(int(rng.integers(n)) for n in shape)
    box = Box(
        Region(start, tuple(int(rng.integers(a + 1, n + 1)) for a, n in zip(start, shape, strict=True)))
    )
    chosen = rng.random(shape) < 0.5
    patterns = [from_strided(chosen, "coo").pattern, from_strided(chosen, "coo", None, 1).pattern]
    if len(shape) == 2:
        patterns.append(from_strided(chosen, "csr").pattern)
    return [box, *(Stored(p) for p in patterns if p.count)]


def read(ct: Any, part: Box | Stored) -> Any:
    whole = to_strided(ct._value)
    return whole[part.region.slices] if isinstance(part, Box) else whole[tuple(part.pattern.coordinates)]


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
@pytest.mark.parametrize("name", by_turns(WITH_PARTS, 3))
def test_a_part_is_that_of_the_whole(name):
    """Of each part, an untracked cotangent and a tracked one, in layouts by turns."""
    op = TABLE[name]
    rng, turns = np.random.default_rng(SEED), itertools.count(turn(name, 3))
    for sample in samples_of(op, "float64"):
        xs = [make_handle(a) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in sample.args]
        with np.errstate(all="ignore"):
            y = getattr(F, name)(*xs, **sample.params)
        for i in floating(sample):
            has_rule = callable(op.vjp) or (i < len(op.vjp) and op.vjp[i] is not None)
            for part in parts_of(sample.args[i].shape, rng) if has_rule else []:
                at = next(turns) % 3
                for layout, tracked in HOW if EXHAUSTIVE else (HOW[at], HOW[at + 3]):
                    of = y if op.multiple else (y,)
                    gs = [in_layout(rng.standard_normal(z.shape), layout, rng)[0] for z in of]
                    gs = [make_handle(g) for g in gs]
                    for ct in gs if tracked else ():
                        ct._node = leaf_of(ct._value)
                    g = tuple(gs) if op.multiple else gs[0]
                    compare(op, part, i, g, y, xs, sample.params, tracked)


def compare(op: Any, part: Any, i: int, g: Any, y: Any, xs: Any, params: Any, tracked: bool) -> None:
    with recording(tracked), np.errstate(all="ignore"):
        if callable(op.vjp):
            ((whole,), (found,)) = (op.vjp(F, {i: p}, g, y, *xs, **params) for p in (FULL, part))
        else:
            rule = op.vjp[i]
            whole = rule(F, g, y, *xs, **params)
            found = _part(op, rule, part, i, g, y, tuple(xs), params)
    if whole is None:
        assert found is None or not read(found, part).any()
        return
    np.testing.assert_allclose(read(found, part), read(whole, part), rtol=1e-12, atol=1e-12)
