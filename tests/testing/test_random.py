"""Random compositions of correct ops pass, in both modes and to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from iverson.handles import asarray
from iverson.ops import F
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE
from tests.testing.mutations import total

UNARY: list[Callable[[Any], Any]] = [
    F.sin,
    F.tanh,
    lambda x: x * x,
    lambda x: F.exp(F.sin(x)),
    F.mT,
    lambda x: F.conj(x) * (0.5 if x.dtype.kind == "f" else 0.5 + 0.25j),
    lambda x: x - F.sum(x, axis=(1,), keepdims=True) * 0.25,
    lambda x: F.flip(x, axis=(0,)),
    lambda x: F.real(x) if x.dtype.kind == "c" else x * 2j,
    lambda x: x[1:] @ x[:, :2],
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x @ y * 0.5,
    lambda x, y: F.stack(x, y, axis=0)[0] - y,
]


@st.composite
def programs(draw: st.DrawFn) -> Callable[[Any, Any], Any]:
    """A program on 3 x 3 matrices: a list of steps, each on values already there."""
    steps = draw(
        st.lists(
            st.tuples(
                st.integers(0, len(UNARY) + len(BINARY) - 1),
                st.integers(0, 7),
                st.integers(0, 7),
            ),
            min_size=1,
            max_size=5,
        )
    )
    several = draw(st.booleans())

    def run(x: Any, y: Any) -> Any:
        values = [x, y]
        for step, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            out = UNARY[step](a) if step < len(UNARY) else BINARY[step - len(UNARY)](a, b)
            values.append(out if out.shape == (3, 3) else x * total(out))
        return (values[-1], None, {"sum": total(values[-2] * values[-1])}) if several else values[-1]

    return run


@given(programs(), st.sampled_from(["float64", "complex128", "float32"]), st.integers(0, 99))
@settings(max_examples=60 if EXHAUSTIVE else 3, deadline=None, derandomize=True)
def test_random_programs_pass(program: Callable[[Any, Any], Any], dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = []
    for kind in (dtype, "float32" if dtype == "float32" else "float64"):
        values: Any = rng.uniform(-1, 1, (3, 3))
        values = values + 1j * rng.uniform(-1, 1, (3, 3)) if np.dtype(kind).kind == "c" else values
        inputs.append(asarray(values.astype(kind), requires_grad=True))
    assert gradcheck(program, inputs)
    assert gradcheck(program, inputs, fast=True, seed=seed)
    assert gradgradcheck(program, inputs, fast=True, seed=seed)
