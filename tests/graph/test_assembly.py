"""Parts of stacks, concatenations and sums of slices are made where they belong, and written once."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.codegen.nests.nodes import Buffer
from iverson.codegen.nests.print import kernel_text
from iverson.codegen.programs import Nest, View
from iverson.codegen.programs.nodes import reads_and_writes, walk
from iverson.graph.lowering.graph_lowering import Native, lower
from iverson.graph.passes import simplified
from tests.conformance.product import examples
from tests.graph.programs import traced
from tests.graph.test_lower import agree


def steps(f: Any, *args: Any, simpler: Any = lambda graph: graph) -> list[Nest]:
    (native,) = (s for s in lower(simpler(traced(f, args))).steps if isinstance(s, Native))
    return [s for s in walk(native.compiled.program.steps) if isinstance(s, Nest)]


def written(nests: list[Nest]) -> int:
    return sum(prod(v.shape) for s in nests for v in reads_and_writes(s)[1])


def loop(x: Any) -> Any:
    return sum((iv.tanh(x[t]) * x[t]).sum() for t in range(x.shape[0]))


def joined(x: Any) -> Any:
    rows = [x[t] * (t + 1) for t in range(x.shape[0])]
    return iv.concat([iv.stack(rows), iv.sin(iv.stack(rows))], axis=1)


@pytest.mark.parametrize("f", [iv.grad(loop), joined, iv.grad(lambda x: (joined(x) ** 2).sum())])
def test_what_is_written_is_linear_in_the_number_of_parts(f: Any) -> None:
    """No entry is written more than a few times, and none looks through all parts for its own."""
    sizes = {}
    for n in (8, 16, 32):
        x = np.linspace(-1, 1, n * 6).reshape(n, 6)
        agree(f, (x,))
        nests = steps(f, x)
        sizes[n] = written(nests), max(kernel_text(s.kernel).count("select") for s in nests)
    assert sizes[32][0] <= 2.5 * sizes[16][0] <= 6.25 * sizes[8][0]
    assert sizes[32][0] <= 8 * 32 * 6
    assert all(selects <= 6 for _, selects in sizes.values())


ROWS = {
    "few, first axis": lambda x, w: iv.concat([iv.exp(x)[None], iv.sin(x)[None] * w], axis=0),
    "few, inner axis": lambda x, w: iv.concat([iv.exp(x)[:, None], iv.sin(x)[:, None] * w], axis=1),
    "views": lambda x, w: iv.concat([iv.exp(x)[:, None], iv.exp(x)[:, None] * w], axis=1),
    "columns": lambda x, w: iv.concat([iv.exp(x), iv.cos(x) * 2], axis=1),
    "an operand twice": lambda x, w: iv.concat([iv.exp(x), iv.exp(x)], axis=1),
    "stack": lambda x, w: iv.stack([iv.exp(x), iv.cos(x)], axis=1),
    "a part that is read": lambda x, w: iv.concat([y := iv.exp(x), y * 2], axis=1) * y.sum(),
    "an input": lambda x, w: iv.concat([x, iv.cos(x)], axis=1),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [(1, 16), (5, 16), (3, 17), (4, 64), (0, 16), (33, 20)])
def test_few_rows_of_a_factor_are_made_in_their_place(name: str, shape: tuple[int, int]) -> None:
    """Of a concatenation that BLAS reads, each entry is written once, wherever its part lies."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape), rng.standard_normal((3, 1, 1) if "first" in name else (3, 1))
    rows = np.asarray(ROWS[name](iv.asarray(x), iv.asarray(w)).numpy())
    m = rng.standard_normal((rows.shape[-1], 7))

    def f(x: Any, w: Any, m: Any) -> Any:
        return ROWS[name](x, w) @ m

    agree(f, (x, w, m))
    if shape == (4, 64) and name.startswith("few"):
        nests = steps(f, x, w, m)
        assert written(nests) <= rows.size + 2 * x.size  # a part, and what its rows share


def test_parts_beside_each_other_do_not_overlap() -> None:
    """Views of a buffer as NumPy tells it, for drawn strides."""
    rng = np.random.default_rng(0)
    memory = np.zeros(4096)
    buffer = Buffer("b", np.dtype(float), (4096,), "temp")
    apart = 0
    for _ in range(400):
        shape = tuple(int(n) for n in rng.integers(1, 5, 3))
        inner = int(rng.integers(1, 3)) * 4
        strides = (inner * 5 * 4, inner, int(rng.integers(1, 3)))
        a, b = (View(buffer, shape, strides, int(rng.integers(0, 40))) for _ in range(2))
        arrays = [
            np.lib.stride_tricks.as_strided(memory[v.offset :], v.shape, [8 * s for s in v.strides])
            for v in (a, b)
        ]
        meets = np.shares_memory(*arrays)
        assert a.overlaps(b) or not meets
        apart += not a.overlaps(b)
        for shape in ((int(np.prod(a.shape)),), (a.shape[0], a.shape[1] * a.shape[2]), (1, *a.shape)):
            seen = a.reshaped(shape)
            if seen is not None:
                x = np.lib.stride_tricks.as_strided(
                    memory[seen.offset :], seen.shape, [8 * s for s in seen.strides]
                )
                memory[:] = np.arange(4096)
                np.testing.assert_array_equal(x, arrays[0].reshape(shape))
    assert apart > 20


def test_parts_are_made_in_place() -> None:
    """A stack of values that are made in the program is written once, with no copies."""

    def f(x: Any) -> Any:
        return iv.stack([iv.exp(x * k) for k in range(8)])

    x = np.linspace(0, 1, 5)
    agree(f, (x,))
    assert written(steps(f, x)) == 8 * 5


def test_the_gradient_of_a_part_that_is_read_twice_is_written_once() -> None:
    """Its cotangents are added before they are placed, and made where they belong."""
    for n in (8, 80):
        x = np.linspace(-1, 1, n * 6).reshape(n, 6)
        (nest,) = steps(iv.grad(loop), x, simpler=simplified)  # a loop over the parts
        assert written([nest]) == x.size
        assert [b.role for b in nest.kernel.buffers] == ["in", "out"]


KEYS = st.tuples(
    st.one_of(st.integers(0, 5), st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(1, 2))),
    st.one_of(st.none(), st.integers(0, 3)),
)


def key_of(drawn: Any) -> Any:
    first, second = drawn
    rows = first if isinstance(first, int) else slice(first[0], first[0] + first[1], first[2])
    return rows if second is None else (rows, second)


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(KEYS, min_size=5, max_size=9), st.booleans(), st.booleans(), st.integers(0, 2))
def test_sums_of_slices_however_they_lie(keys: list[Any], overlap: bool, other: bool, axis: int) -> None:
    """Overlapping, with gaps, stepped, several of one entry, with a term of the whole, wanted parts."""
    if not overlap:
        keys = [(k % 6, None if second is None else second) for k, (_, second) in enumerate(keys)][:6]

    def f(x: Any) -> Any:
        total = (x * x).sum() if other else 0.0
        for k, key in enumerate(keys):
            total = total + (x[key_of(key)] ** 2 * (k + 1)).sum()
        return total

    def g(x: Any) -> Any:
        parts = [iv.sin(x * k) for k in range(6)]
        return iv.stack(parts, axis=axis), iv.concat(parts, axis=min(axis, 1)), parts[2], iv.grad(f)(x)

    agree(g, (np.linspace(-1.0, 2.0, 24).reshape(6, 4),))
