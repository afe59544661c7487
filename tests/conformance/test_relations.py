"""Relations of ops: facts against their definition, and every linear op of the table against its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iverson.core.aval import Aval
from iverson.core.entries import Box, Stored
from iverson.core.entry_map import Call
from iverson.core.region import Region
from iverson.core.relations import (
    Every,
    Factor,
    Indexed,
    Matched,
    Pairs,
    Prefix,
    Relation,
    Rows,
    Same,
    Window,
    listed,
)
from iverson.layouts import from_strided
from iverson.ops import TABLE
from tests.conformance.product import dtypes_of, floating, samples_of
from tests.conformance.test_entry_maps import known, results

#: Linear ops whose relation holds more than their columns show, and why.
LOOSER = {
    "fftn": "an entry along its axes may be weighted with 0",
    "ifftn": "an entry along its axes may be weighted with 0",
    "rfft": "an entry along its axes may be weighted with 0",
    "irfft": "an entry along its axes may be weighted with 0",
    "solve_triangular": "which triangle is read is not said",
    "where": "conditions are values",
    "bracket": "conditions are values",
    "selected": "conditions are values",
    "imag": "of a real number it is 0",
    "kron_sampled": "any entry may depend on any other",
}
LINEAR = [name for name, op in TABLE.items() if op.linear_in and op.samples]


def columns(op: Any, args: list[Any], params: Any, k: int) -> list[Any]:
    """For each result, which entries are not 0 where input k is a unit vector: a column for each."""
    (group,) = [g for g in op.groups(len(args)) if k in g]
    found = []
    for place in np.ndindex(args[k].shape):
        own = [np.zeros_like(x) if j in group else x for j, x in enumerate(args)]
        own[k][place] = 1
        found.append([y.ravel() != 0 for y in results(op, own, params)])
    return [np.array(each).T for each in zip(*found, strict=True)]


@pytest.mark.parametrize(("name", "dtype"), [(name, d) for name in LINEAR for d in dtypes_of(TABLE[name])])
def test_a_linear_op_relates_entries_as_its_columns_do(name: str, dtype: str) -> None:
    op = TABLE[name]
    for sample in samples_of(op, dtype):
        args = [np.asarray(a) if not hasattr(a, "shape") else a for a in sample.args]
        linear = {j for g in op.groups(len(args)) for j in g}
        for k in floating(sample):
            if k not in linear or not args[k].size:
                continue
            for j, expected in enumerate(columns(op, args, sample.params, k)):
                y = results(op, args, sample.params)[j]
                relation = op.relation(Call(op, known(args), Aval(y.shape, y.dtype), sample.params, j), k)
                found = relation.matrix().toarray()
                assert not (expected & ~found).any()
                if name not in LOOSER:
                    np.testing.assert_array_equal(found, expected)


FACTORS = [
    ("multiply", ((4, 5), (4, 5))),
    ("multiply", ((4, 5), (5,))),
    ("matmul", ((4, 5), (5, 3))),
    ("matmul", ((3, 4), (4, 5))),
    ("matmul", ((2, 4, 5), (2, 5, 3))),
    ("matmul", ((2, 4, 5), (5, 3))),
    ("matmul", ((4, 5), (2, 5, 3))),
    ("kron", ((4, 5), (2, 3))),
]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "box"])
@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize(("name", "shapes"), FACTORS)
def test_zeros_of_a_factor_are_zeros_of_the_relation(name: str, shapes: Any, k: int, layout: str) -> None:
    rng = np.random.default_rng(0)
    op = TABLE[name]
    for density in (0.0, 0.3):
        args = [rng.normal(size=s) for s in shapes]
        factor = args[1 - k] * (rng.uniform(size=shapes[1 - k]) < density)
        if layout == "box":
            factor = np.zeros(shapes[1 - k])
            factor[..., 1:3] = rng.normal(size=factor[..., 1:3].shape)
            held = Aval(
                factor.shape,
                factor.dtype,
                Box(Region((0,) * (factor.ndim - 1) + (1,), (*factor.shape[:-1], 3))),
            )
        elif factor.ndim == 1 and layout != "coo":
            continue
        else:
            value = from_strided(factor, layout)
            held = Aval(factor.shape, factor.dtype, Stored(value.pattern))
        args[1 - k] = factor
        (expected,) = columns(op, args, {}, k)
        inputs = [held if j != k else Aval(x.shape, x.dtype) for j, x in enumerate(args)]
        out = op.abstract(*inputs)
        found = op.relation(Call(op, inputs, out, {}), k).matrix().toarray()
        assert not (expected & ~found).any()
        broadcast = name == "matmul" and shapes[0][:-2] != shapes[1][:-2]
        if not broadcast and not (layout == "box" and name != "multiply"):
            np.testing.assert_array_equal(found, expected)


extents = st.integers(0, 4)


@st.composite
def facts(draw: Any) -> tuple[Any, int, int, Any]:
    """A fact about one axis, the extents of the axis, and what it says, entry by entry."""
    m, n = draw(extents), draw(extents)
    kind = draw(st.sampled_from(["same", "every", "matched", "indexed", "window", "prefix", "pairs"]))
    rows, cols = np.arange(m)[:, None], np.arange(n)
    if kind == "same":
        return Same(), m, m, rows == np.arange(m)
    if kind == "every":
        return Every(), m, n, np.ones((m, n), bool)
    if kind == "matched":
        left, right = (
            np.array(draw(st.lists(st.integers(-1, 2), min_size=k, max_size=k)), int) for k in (m, n)
        )
        return Matched(left, right, 3), m, n, (left[:, None] == right) & (left[:, None] >= 0)
    if kind == "indexed":
        index = np.array(draw(st.lists(st.integers(-1, n - 1), min_size=m, max_size=m)), int)
        return Indexed(index), m, n, index[:, None] == cols
    if kind == "window":
        low, stride = draw(st.integers(-3, 3)), draw(st.integers(1, 2))
        high = low + draw(st.integers(0, 3))
        return Window(low, high, stride), m, n, (cols >= rows * stride + low) & (cols <= rows * stride + high)
    if kind == "prefix":
        reverse = draw(st.booleans())
        own = np.arange(m)
        return Prefix(reverse), m, m, (own >= rows) if reverse else (own <= rows)
    there = np.array(draw(st.lists(st.booleans(), min_size=m * n, max_size=m * n)), bool).reshape(m, n)
    return Pairs(*np.nonzero(there)), m, n, there


@given(st.lists(facts(), max_size=3), st.randoms(use_true_random=False), st.booleans())
def test_a_relation_is_the_product_of_its_facts(made: Any, random: Any, masked: bool) -> None:
    """Facts about axes in any order: entries are tied where all of them say so."""
    turned = random.sample(range(len(made)), len(made))  # the input's axis for each of the result
    out = tuple(m for _, m, _, _ in made)
    into = tuple(made[turned.index(k)][2] for k in range(len(made)))
    factors = [Factor(fact, (k,), (turned[k],)) for k, (fact, *_) in enumerate(made)]
    random.shuffle(factors)
    relation = Relation.of(out, into, *factors)
    expected = np.ones((*out, *into), bool)
    for k, (_, m, n, there) in enumerate(made):
        shape = [1] * (2 * len(made))
        shape[k], shape[len(made) + turned[k]] = m, n
        expected &= there.reshape(shape)
    if masked and out and all(out):
        expected[1:] = False
        relation = relation.inside(np.flatnonzero(expected.any(axis=tuple(range(len(made), 2 * len(made))))))
    flat = expected.reshape(int(np.prod(out)), int(np.prod(into)))
    np.testing.assert_array_equal(relation.matrix().toarray(), flat)
    rows = np.random.default_rng(0).uniform(size=(flat.shape[1], 5)) < 0.3
    given_rows = listed(np.append(0, np.cumsum(rows.sum(1))), np.nonzero(rows)[1], 5)
    union = flat.astype(int) @ rows > 0
    np.testing.assert_array_equal(relation.after(Rows.of_all(given_rows)).whole.toarray(), union)
    numbers = np.flatnonzero(rows.any(1))
    of_some = Rows(given_rows[numbers], flat.shape[1], numbers)
    np.testing.assert_array_equal(relation.after(of_some).whole.toarray(), union)


def test_a_relation_lists_nothing_before_it_is_composed() -> None:
    """A product of matrices of 2000 rows and columns has 8e9 pairs: each row takes the union of 2000 rows."""
    n = 2000
    a, b = Aval((n, n), np.dtype("float64")), Aval((n, n), np.dtype("float64"))
    relation = TABLE["matmul"].relation(Call(TABLE["matmul"], [a, b], a, {}), 1)
    one = listed(np.append(0, np.cumsum(np.arange(n * n) < n)), np.arange(n), n)
    found = relation.after(Rows.of_all(one))
    assert found.matrix.nnz == n * n
    assert relation.after(Rows.of_all(listed(np.arange(n * n + 1), np.arange(n * n), n * n))) is None
