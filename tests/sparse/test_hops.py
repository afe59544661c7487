"""How many Python functions common calls go through: what a small one costs is their number.

The bounds are what these calls take, with a tenth to spare. A call that needs more should have a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.kernels.registry import registered, replace_kernels
from iverson.layouts import from_strided
from tests.tools.entered import python_calls

N = 30
RNG = np.random.default_rng(0)


def matrix() -> Any:
    return from_strided(np.where(RNG.random((N, N)) < 0.2, RNG.standard_normal((N, N)), 0), "csr")


A, B = matrix(), matrix()
S, T = (iv.ops.F.from_values(x.values, pattern=x.pattern) for x in (A, B))
VALUES = iv.asarray(A.values, requires_grad=True)
X = iv.asarray(RNG.standard_normal(N))

M, N4 = (iv.asarray(RNG.standard_normal((4, 4)), requires_grad=track) for track in (True, False))

CALLS = {
    "dense sum": (lambda: N4 + N4, 6),
    "dense sum, recorded": (lambda: M + M, 13),
    "dense product, recorded": (lambda: M @ M, 16),
    "gradient of a dense sum": (lambda: grad(M + N4, M, N4), 53),
    "gradient of a dense product": (lambda: grad(M @ N4, M, N4), 67),
    "product with a vector": (lambda: S @ X, 30),
    "elementwise product": (lambda: S * T, 65),
    "sum": (lambda: S + T, 62),
    "multiple": (lambda: S * 2.0, 17),
    "rows": (lambda: S[3:20], 55),
    "gradient through a product": (
        lambda: grad((iv.ops.F.from_values(VALUES, pattern=A.pattern) @ X).sum(), VALUES),
        202,
    ),
}


@pytest.fixture
def kernels_as_they_are() -> Iterator[None]:
    """Without the checks of results that tests put around kernels."""
    before = registered()
    replace_kernels({key: getattr(kernel, "__wrapped__", kernel) for key, kernel in before.items()})
    yield
    replace_kernels(before)


@pytest.mark.usefixtures("kernels_as_they_are")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_does_not_hop(name):
    call, bound = CALLS[name]
    assert python_calls(call) <= bound
