"""Elementwise ops and sums of sparse operands, beside others: the entries are those of NumPy, no more stored.

All that is stored is positive, so the entries of a result that are not 0 are those it has to store.
"""

from __future__ import annotations

import itertools
import random
import warnings
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from iverson.core.region import Region
from iverson.kernels.kernel_registry import run
from iverson.kernels.sparse import merging, sparse_elementwise
from iverson.layouts import (
    Box,
    CooPattern,
    Packed,
    Sparse,
    Zero,
    boxed,
    can_hold,
    from_strided,
    layout_of,
    select,
    to_strided,
)
from iverson.ops import TABLE

pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
SHAPE = (3, 4)
KINDS = ("coo", "twice", "rows", "csr", "csr", "csc", "bsr", "bsc")


class _Drawn:
    """Random operands: sparse in every form, and arrays, zeros, boxes and numbers."""

    def __init__(self, seed: int, dtypes: tuple[str, ...] = ("float64",)) -> None:
        self.r = random.Random(seed)
        self.dtypes = dtypes
        self.g = np.random.default_rng(seed)
        #: Patterns drawn before, some of which are drawn again.
        self.known: dict[tuple[int, ...], list[Any]] = {}
        #: Whether only entries that are not 0 are stored.
        self.exact = True

    def values(self, shape: tuple[int, ...]) -> Any:
        return self.g.uniform(1, 2, shape)

    def sparse(self, shape: tuple[int, ...] = SHAPE) -> Any:
        known = self.known.setdefault(shape, [])
        if known and self.r.random() < 0.4:
            pattern = self.r.choice(known)
        else:
            pattern = self._pattern(shape)
            known.append(pattern)
        entries = self.values((pattern.count, *shape[pattern.ndim :]))
        dtype = self.r.choice(self.dtypes) if len(self.dtypes) > 1 else self.dtypes[0]
        return pattern.value(entries.astype(dtype))

    def _pattern(self, shape: tuple[int, ...]) -> Any:
        chosen = self.g.random(shape) < self.r.choice([0.0, 0.3, 0.5, 1.0])
        kind = self.r.choice(KINDS)
        layout = {"twice": "coo", "rows": "coo"}.get(kind, kind)
        blocks = (shape[-2], 2) if layout[0] == "b" and len(shape) > 1 and shape[-1] % 2 == 0 else None
        if len(shape) < 2 or (layout[0] == "b" and blocks is None) or not can_hold(layout, shape, blocks):
            kind, layout, blocks = "coo", "coo", None
        axes = 1 if kind == "rows" else None
        self.exact &= blocks is None and axes is None
        pattern = from_strided(chosen, layout, blocks, axes).pattern
        if kind != "twice":
            return pattern
        return CooPattern(shape, np.concatenate([pattern.indices, pattern.indices[:, ::-1]], axis=1))

    def beside(self, shape: tuple[int, ...] = SHAPE) -> Any:
        kind = self.r.randrange(6)
        if kind < 3 and shape:
            return self.sparse(shape)
        if kind == 3:
            return Zero(shape, np.dtype(self.r.choice(["float64", "float32"])))
        return np.asarray(self.values(shape)) if kind != 5 else self.r.choice([0.0, 0.0, 2.0, -1.0, 0])

    def shape(self) -> tuple[int, ...]:
        return self.r.choice([SHAPE, SHAPE, SHAPE, (1, 4), (3, 1), (4,), (2, 3, 4), (1, 1), ()])

    def part(self) -> Any:
        """A box, or entries under a mask."""
        if self.r.random() < 0.2:
            mask = self.g.random(SHAPE) < 0.5
            return Packed(mask, self.values((int(mask.sum()),)))
        stop = self.r.choice([(1, 2), (3, 2), (3, 3), (0, 1)])
        return Box(SHAPE, Region((0, 0), stop), self.values(stop))

    def call(self, name: str) -> list[Any]:
        if name == "add_n":
            first = [self.sparse(), *(self.beside() for _ in range(self.r.randrange(4)))]
            terms = [t if hasattr(t, "shape") else self.part() for t in first]
            self.r.shuffle(terms)
            return terms
        if name in ("negative", "sqrt", "exp"):
            return [self.sparse()]
        pair = [self.sparse(), self.beside(self.shape())]
        if name == "divide":
            return [pair[0], self.values(SHAPE) if isinstance(pair[1], Sparse | Zero) else pair[1]]
        return pair if self.r.random() < 0.5 else pair[::-1]


def _dense(x: Any) -> Any:
    return to_strided(x) if hasattr(x, "shape") else x


def _stays_sparse(op: Any, values: list[Any]) -> bool:
    """Whether the result is 0 where nothing is stored, whatever the arrays beside it."""
    held = (Sparse, Zero, Box, Packed)
    zeros = [np.zeros(v.shape) if isinstance(v, held) else v for v in values]
    if any(isinstance(v, np.ndarray) for v in values) and not op.linear_in:
        return False
    return not np.any(op.forward(*zeros))


def _stored(x: Any) -> Any:
    there = np.zeros(x.shape, bool)
    if isinstance(x, Sparse):
        there[tuple(x.pattern.coordinates)] = True
    return there


NAMES = "add subtract multiply divide maximum hypot pow add_n negative sqrt exp"


@pytest.mark.parametrize("worthwhile", [0, 1 << 60])
@pytest.mark.parametrize("name", NAMES.split())
def test_entries_are_those_of_numpy_and_stored_where_they_may_be_nonzero(name, worthwhile, monkeypatch):
    monkeypatch.setattr(merging, "WORTHWHILE", worthwhile)
    monkeypatch.setattr(sparse_elementwise, "_FEW", worthwhile)
    op, sparse = TABLE[name], 0
    for seed in range(80):
        mixed = seed % 4 == 0 and name in ("add", "subtract", "multiply", "add_n")
        drawn = _Drawn(seed, ("float64", "float32", "complex128") if mixed else ("float64",))
        values = drawn.call(name)
        before = [np.array(_dense(v)) for v in values]
        with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = run(op, tuple(values), {})
            wanted = np.asarray(op.forward(*map(_dense, values)))
            stays = _stays_sparse(op, values)
        layout_of(found).check(found)
        assert found.dtype == wanted.dtype
        packed = any(isinstance(v, Packed) for v in values)
        assert name != "add_n" or packed or not warned
        finite = np.isfinite(wanted)
        np.testing.assert_allclose(
            _dense(found)[finite], wanted[finite], rtol=1e-6 if mixed else 1e-14, err_msg=str(seed)
        )
        for value, old in zip(values, before, strict=True):
            np.testing.assert_array_equal(_dense(value), old)
        operands = [v for v in values if isinstance(v, Sparse)]
        small = all(2 * v.region.size < 12 for v in values if isinstance(v, Box))
        assert isinstance(found, Sparse | Zero) or packed or not (stays and small), seed
        if not isinstance(found, Sparse):
            continue
        sparse += 1
        there = _stored(found)
        assert there[finite & (wanted != 0)].all()
        if drawn.exact and name != "subtract" and not any(np.isscalar(v) and v == 0 for v in values):
            np.testing.assert_array_equal(there, wanted != 0, err_msg=str(seed))
        assert found.pattern.distinct or not all(v.pattern.distinct for v in operands)
        if all(v.shape == found.shape for v in operands) and not any(isinstance(v, Box) for v in values):
            assert found.pattern.layout == operands[0].pattern.layout, seed
            one = {id(v.pattern) for v in operands}
            if len(one) == 1 and (operands[0].pattern.distinct or name == "add_n"):
                assert found.pattern is operands[0].pattern
    assert sparse > 2 or name == "exp"


def test_a_sum_on_one_pattern_stays_on_it():
    for pattern in (CooPattern((3,), np.array([[0, 2, 0]])), from_strided(np.eye(3), "csr").pattern):
        x, y = pattern.value(np.arange(3.0)), pattern.value(np.ones(3))
        found = run(TABLE["add_n"], (x, y, x), {})
        assert found.pattern is pattern
        np.testing.assert_array_equal(found.entries, 2 * np.arange(3.0) + 1)


@pytest.mark.parametrize("name", ["add", "subtract"])
def test_beside_zeros_a_term_is_itself(name):
    op, x = TABLE[name], from_strided(np.eye(*SHAPE), "csr")
    zero = Zero(SHAPE, np.dtype("float64"))
    assert run(op, (x, zero), {}) is x
    turned = run(op, (zero, x), {})
    assert (turned is x) is (name == "add")
    np.testing.assert_array_equal(to_strided(turned), op.forward(0, np.eye(*SHAPE)))
    for other in (Zero((2, *SHAPE), np.dtype("float64")), Zero(SHAPE, np.dtype("complex128"))):
        found = run(op, (x, other), {})
        assert (found.shape, found.dtype) == (other.shape, other.dtype)
        np.testing.assert_array_equal(to_strided(found), np.broadcast_to(np.eye(*SHAPE), other.shape))


OF_SELECTIONS = "add subtract multiply maximum add_n negative abs"


@pytest.mark.parametrize("name", OF_SELECTIONS.split())
def test_what_is_made_of_stored_selections_is_held_where_they_hold_a_term(name):
    """A product where all factors are held, a sum where any term is; of other arrays, every entry counts."""
    op, g = TABLE[name], np.random.default_rng(0)
    dense = g.uniform(1, 2, SHAPE)
    x, y, other = (from_strided(dense * (g.random(SHAPE) < 0.6), layout) for layout in ("csr", "coo", "csr"))
    masks = [g.random(SHAPE) < 0.5 for _ in range(2)]
    a, b = (run(TABLE["bracket"], (m, v), {"negated": False}) for m, v in zip(masks, (x, y), strict=True))
    zero, every, none = Zero(SHAPE, np.dtype("float64")), np.ones(SHAPE, bool), np.zeros(SHAPE, bool)
    beside = [(a, masks[0]), (b, masks[1]), (other, every), (zero, none), (dense, every)]
    calls = (
        [[first] for first in beside[:2]]
        if name in ("negative", "abs")
        else itertools.product(beside, repeat=2)
    )
    for pairs in calls:
        values, there = zip(*pairs, strict=True)
        found = run(op, values, {})
        np.testing.assert_allclose(to_strided(found), op.forward(*map(to_strided, values)), rtol=1e-15)
        if isinstance(found, Sparse) and any(v is a or v is b for v in values):
            combine = np.logical_and if name == "multiply" else np.logical_or
            expected = reduce(combine, there)
            held_there = every if found.there is None else found.there()
            np.testing.assert_array_equal(held_there, expected, str([type(v) for v in values]))


def test_whether_a_result_is_zero_where_operands_are_follows_from_parameters():
    op = replace(
        TABLE["negative"],
        name="shifted",
        forward=lambda x, *, by: x + by,
        abstract=lambda x, *, by: x,
        linear_in=(),
    )
    for layout in ("csr", "coo"):
        x = from_strided(np.eye(3), layout)
        for by in (0.0, 2.0, 0.0):
            found = run(op, (x,), {"by": by})
            assert isinstance(found, Sparse) is (by == 0)
            np.testing.assert_array_equal(to_strided(found), np.eye(3) + by)


def test_one_pattern_of_values_with_and_without_dense_axes():
    """They are broadcast as what they are of: entries of a matrix go along the last axes of the other."""
    pattern = from_strided(np.eye(2), "csr").pattern
    values = pattern.value(np.array([[1.0, 2.0], [3.0, 4.0]])), pattern.value(np.array([5.0, 6.0]))
    for operands in (values, values[::-1], (values[0], pattern.value(np.array([[5.0], [6.0]])))):
        for name in ("multiply", "add"):
            expected = getattr(np, name)(*map(to_strided, operands))
            np.testing.assert_array_equal(to_strided(run(TABLE[name], operands, {})), expected)


def test_what_is_stored_twice_times_a_number_that_is_zero():
    twice = CooPattern((2, 2), np.array([[0, 0], [1, 1]])).value(np.array([1.0, 2.0]))
    for number in (0.0, 3.0):
        found = run(TABLE["multiply"], (twice, number), {})
        np.testing.assert_array_equal(to_strided(found), [[0, 3 * number], [0, 0]])


def _mixture(kind, dtype, rng):
    """A value of shape (4, 3) in a layout: zero in the last row, but for arrays."""
    dense = rng.integers(1, 5, size=(4, 3)).astype(dtype)
    if kind == "array":
        return dense
    if kind == "repeated array":
        return np.broadcast_to(dense[:1], (4, 3))
    if kind == "zero":
        return Zero((4, 3), np.dtype(dtype))
    if kind == "box":
        return boxed((4, 3), Region((0, 1), (2, 3)), dense[:2, 1:])
    if kind == "large box":
        return boxed((4, 3), Region((0, 0), (3, 3)), dense[:3])
    if kind == "packed":
        mask = np.tile([True, True, False], (4, 1))
        mask[3] = False
        return Packed(mask, dense[mask])
    if kind == "repeats":
        return CooPattern((4, 3), np.array([[0, 2, 0, 1], [1, 0, 1, 2]])).value(dense.ravel()[:4])
    dense[3] = dense[0, 1] = 0
    return from_strided(dense, kind)


MIXTURES = ["array", "repeated array", "zero", "box", "large box", "packed", "repeats", "csr", "coo"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize("few", [0, 1 << 16])
@pytest.mark.parametrize("dtypes", [("float64", "float64"), ("float32", "float64"), ("int32", "complex64")])
@pytest.mark.parametrize("name", ["add", "subtract", "add_n"])
def test_sums_beside_other_layouts(name, dtypes, few, monkeypatch):
    """As of arrays; of zeros, boxes and patterns, nothing is held in the row that none of them holds."""
    monkeypatch.setattr(sparse_elementwise, "_FEW", few)
    op, rng = TABLE[name], np.random.default_rng(0)
    for kinds in itertools.product(MIXTURES, repeat=2 if name != "add_n" else 3):
        if not {"repeats", "csr", "coo"}.intersection(kinds):
            continue
        values = tuple(
            _mixture(kind, dtype, rng) for kind, dtype in zip(kinds, (*dtypes, dtypes[0]), strict=False)
        )
        before = [to_strided(v).copy() for v in values]
        found = run(op, values, {})
        expected = op.forward(*before)
        assert found.dtype == expected.dtype, kinds
        np.testing.assert_array_equal(to_strided(select(found)), expected, str(kinds))
        for v, old in zip(values, before, strict=True):
            np.testing.assert_array_equal(to_strided(v), old)
        if not {"array", "repeated array"}.intersection(kinds):
            factor = np.where(np.arange(4) == 3, np.inf, 1.0)[:, None] * np.ones((4, 3))
            product = to_strided(select(run(TABLE["multiply"], (found, factor), {})))
            np.testing.assert_array_equal(product[:3], expected[:3])
            assert "packed" in kinds or not product[3].any(), kinds
