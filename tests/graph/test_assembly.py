"""Parts of stacks, concatenations and sums of slices are made where they belong, and written once."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.codegen.nests.print import kernel_text
from iverson.codegen.programs import Nest
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
