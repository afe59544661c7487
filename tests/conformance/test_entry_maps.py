"""Entry maps of the table: against what a change of an entry reaches, and against the index notation.

For every op that has one, every sample and input, and boxes of the input and of the result.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.core.aval import Aval
from iverson.core.entries import FULL, NOTHING, Box, Entries, hull, plain
from iverson.core.entry_map import ANY, Call
from iverson.core.errors import IversonError
from iverson.core.region import Region
from iverson.layouts import layouts_by_type, to_strided
from iverson.ops import TABLE
from iverson.te.ops.index_maps import IndexMaps, ProgramMaps
from tests.conformance.product import SEED, by_turns, floating, samples_of

BOXES = 6
#: Maps that may hold more than the smallest region.
LOOSER = {"kron": "its cotangent may stay two factors, of which no box is cut", "gather": "reads by data"}
WITH_MAPS = [name for name, op in TABLE.items() if op.entry_map is not ANY and op.samples]


def results(op: Any, args: Any, params: Any) -> list[Any]:
    with np.errstate(all="ignore"):
        found = op.forward(*args, **params)
    values = found if op.multiple else (found,)
    return [np.asarray(to_strided(v) if type(v) in layouts_by_type else v) for v in values]


def box(shape: tuple[int, ...], rng: np.random.Generator) -> Entries:
    """A box that is not empty; all of an array without axes."""
    start = tuple(int(rng.integers(n)) for n in shape)
    return Box(Region(start, tuple(int(rng.integers(a, n)) + 1 for a, n in zip(start, shape, strict=True))))


def holds(found: Entries, there: Any) -> bool:
    """Whether a set holds the entries (with a pattern, all that it may)."""
    at = np.zeros(there.shape, bool)
    at[hull(found, there.shape).slices] = True
    return bool((at | ~there).all())


def known(args: Any) -> list[Any]:
    """What a map is told of the arguments: index arrays as they are."""
    return [Aval(a.shape, a.dtype) if isinstance(a, np.ndarray) and a.dtype.kind in "fc" else a for a in args]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITH_MAPS)
def test_a_map_holds_what_depends(name):
    op = TABLE[name]
    rng = np.random.default_rng(SEED)
    for sample in samples_of(op, "float64"):
        inputs, before = known(sample.args), results(op, sample.args, sample.params)
        avals = tuple(Aval(y.shape, y.dtype) for y in before)
        out = avals if op.multiple else avals[0]
        for k in floating(sample):
            x = sample.args[k]
            reaches = []
            for entry in np.ndindex(x.shape):
                args = list(sample.args)
                args[k] = x.copy()
                after = before
                for value in (np.nan, x[entry] + 0.125):  # some ops refuse the first, and one the other too
                    args[k][entry] = value
                    with contextlib.suppress(ValueError, IversonError):
                        after = results(op, args, sample.params)
                        break
                reaches.append([(a != b) | np.isnan(a) for a, b in zip(after, before, strict=True)])
            for j, y in enumerate(before):
                tied = op.relation(Call(op, inputs, avals[j], sample.params, j), k).matrix().toarray()
                reached = np.array([r[j].ravel() for r in reaches], bool).reshape(x.size, y.size)
                assert (tied | ~reached.T).all()
            for _ in range(BOXES if x.size else 0):
                need = box(x.shape, rng)
                demands = tuple(plain(need, x.shape) if j == k else NOTHING for j in range(len(inputs)))
                found = op.entry_map.demand(op, demands, inputs, out, sample.params)
                inside = np.zeros(x.shape, bool)
                inside[need.region.slices] = True
                for j, y in enumerate(before):
                    there = np.zeros(y.shape, bool)
                    for at, reached in zip(inside.ravel(), reaches, strict=True):
                        there |= reached[j] & at
                    assert holds(found[j] if type(found) is tuple else found, there)
                y = before[0]
                if not op.multiple and y.size:
                    where = box(y.shape, rng)
                    read = [reached[0][where.region.slices].any() for reached in reaches]
                    support = op.entry_map.support(op, plain(where, y.shape), k, inputs, out, sample.params)
                    assert holds(support, np.reshape(read, x.shape))


@pytest.mark.parametrize("name", by_turns((name for name in WITH_MAPS if TABLE[name].te is not None), 3))
def test_a_map_is_the_one_that_follows_from_the_index_notation(name):
    op = TABLE[name]
    rng = np.random.default_rng(SEED)
    for sample in samples_of(op, "float64"):
        placeholders = tuple(te.placeholder(np.shape(a), np.asarray(a).dtype) for a in sample.args)
        y = op.te(*placeholders, **sample.params)
        program = te.program_of([y])
        derived = IndexMaps(lambda *_, p=program, xs=placeholders: ProgramMaps(p, xs))
        inputs, out = known(sample.args), Aval(tuple(map(int, y.shape)), y.dtype)
        for k in floating(sample) if 0 not in out.shape else ():
            shape = sample.args[k].shape
            for _ in range(BOXES if sample.args[k].size else 0):
                need = plain(box(shape, rng), shape)
                demands = tuple(need if j == k else NOTHING for j in range(len(inputs)))
                written = plain(op.entry_map.demand(op, demands, inputs, out, sample.params), out.shape)
                found = derived.demand(op, demands, inputs, out, sample.params)
                assert written == found or name in LOOSER
                if out.shape:
                    where = plain(box(out.shape, rng), out.shape)
                    own = op.entry_map.support(op, where, k, inputs, out, sample.params)
                    found = derived.support(op, where, k, inputs, out, sample.params)
                    assert own is FULL or plain(own, shape) == found


WITH_FACTORS = [name for name in WITH_MAPS if any(len(g) == 1 and g != (-1,) for g in TABLE[name].linear_in)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITH_FACTORS)
def test_what_depends_lies_where_a_factor_is_not_zero(name):
    op = TABLE[name]
    rng = np.random.default_rng(SEED)
    for sample in samples_of(op, "float64"):
        places = floating(sample)
        pairs = [(k, j) for j in places if (j,) in op.linear_in for k in places if k != j]
        for k, j in [pair for pair in pairs if all(sample.args[m].size for m in pair)]:
            x, factor = sample.args[k], sample.args[j]
            need, where = box(x.shape, rng), box(factor.shape, rng)
            args, inputs = list(sample.args), known(sample.args)
            args[j] = np.zeros_like(factor)
            args[j][where.region.slices] = factor[where.region.slices]
            inputs[j] = Aval(factor.shape, factor.dtype, plain(where, factor.shape))
            (before,) = results(op, args, sample.params)
            there = np.zeros(before.shape, bool)
            for entry in np.ndindex(x.shape):
                inside = zip(entry, *need.region, strict=True)
                if all(start <= n < stop for n, start, stop in inside):
                    args[k] = x.copy()
                    args[k][entry] += 1.5
                    there |= results(op, args, sample.params)[0] != before
            demands = tuple(plain(need, x.shape) if m == k else NOTHING for m in range(len(inputs)))
            out = Aval(before.shape, before.dtype)
            found = plain(op.entry_map.demand(op, demands, inputs, out, sample.params), out.shape)
            assert holds(found, there)
            if name in ("multiply", "divide", "matmul") and there.any():
                at = np.argwhere(there).T
                smallest = Region(tuple(map(int, at.min(1))), tuple(int(n) + 1 for n in at.max(1)))
                assert found == plain(Box(smallest), out.shape)
