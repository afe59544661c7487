"""Facts of the records of elementwise functions, held against their bodies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from iverson.core.scalars import SCALARS

FINITE = [name for name, scalar in SCALARS.items() if scalar.finite]
#: Among them where poles and ends of domains are: 0, 1, -1, whole and half numbers.
POINTS = np.r_[
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-300, -1e-300, 5e-324, 7.25, -7.25, np.pi, 40.0, -40.0
]


@pytest.mark.parametrize("name", FINITE)
def test_finite_functions_have_no_poles(name: str) -> None:
    """Each at all pairs (triples) of points; functions of complex numbers also off the real axis."""
    scalar = SCALARS[name]
    kinds = [POINTS, *([POINTS[:, None] + 1j * POINTS] if scalar.complex_ok else [])]
    for points in kinds:
        few = points.ravel()[:: 1 if scalar.arity < 3 and points.ndim == 1 else 5]
        given = np.array(list(itertools.product(few, repeat=scalar.arity))).T
        with np.errstate(under="ignore"):
            found = scalar.body(*(given[0] > 0, *given[1:]) if name == "where" else given)
        assert np.isfinite(found).all(), name


def test_functions_with_poles_are_not_said_to_be_finite() -> None:
    assert not {"divide", "reciprocal", "log", "pow", "rsqrt", "sqrt", "tan", "atanh", "gamma"} & set(FINITE)
    assert {"multiply", "maximum", "tanh", "where"} <= set(FINITE)
