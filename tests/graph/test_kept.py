"""What derivatives of compiled functions read is kept: nothing that a call computed is computed again."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.core import work
from tests.graph.test_on_patterns import W, X, dense, drawn, smooth, while_below


def twice(f):
    return iv.grad(lambda *args: sum((y.to_dense() ** 2).sum() for y in iv.grad(f, (0, 1))(*args)), (0, 1))


def along(f):
    return lambda s, x, w: iv.jvp(lambda x: f(s, x, w), (x,), (x,))[1]


#: By name: a function whose derivatives read what is neither an operand nor a result, and which derivatives.
KEPT = {
    "entries": (lambda s, x, w: (iv.sin(iv.sin(s)) @ x).sum(), (iv.grad, twice, along)),
    "computed values": (
        lambda s, x, w: (iv.tanh(s.with_values(iv.sin(s.values() * 2)) @ x) ** 2).sum(),
        (iv.grad, twice, along),
    ),
    "transposed": (lambda s, x, w: smooth(s, iv.sin(x.mT).mT, w), (iv.grad, twice, along)),
    "a part": (lambda s, x, w: (iv.sin(s)[:2] @ iv.cos(x) @ w)[:1].sum(), (iv.grad, twice, along)),
    "a loop": (lambda s, x, w: while_below(s, iv.sin(x)) @ w, (along,)),
}


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize("name", KEPT)
def test_derivatives_compute_what_eager_ones_do(name):
    """Each op as often, values that are put on patterns aside."""
    f, derivatives = KEPT[name]
    given = drawn("csr"), iv.asarray(X), iv.asarray(W)
    for derivative in derivatives:
        counts, found = [], []
        for g in (derivative(f), derivative(iv.jit(f, interpret=True))):
            g(*given)
            with work.counting() as counted:
                found.append(g(*given))
            counts.append({op: counted.calls[op] for op in ("sin", "cos", "tanh", "matmul")})
        assert counts[0] == counts[1]
        for a, b in zip(*map(dense, found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
