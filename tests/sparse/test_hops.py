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
from iverson.kernels.kernel_registry import registered, replace_kernels
from iverson.kernels.sparse import sparse_loops
from iverson.layouts import from_strided
from tests.tools.entered import entered_by, python_calls

N = 30
RNG = np.random.default_rng(0)


def matrix() -> Any:
    return from_strided(np.where(RNG.random((N, N)) < 0.2, RNG.standard_normal((N, N)), 0), "csr")


A, B = matrix(), matrix()
from_values = iv.ops.F.from_values
S, T = (from_values(x.values, pattern=x.pattern) for x in (A, B))
VALUES = iv.asarray(A.values, requires_grad=True)
TRACKED = from_values(VALUES, pattern=A.pattern)
X = iv.asarray(RNG.standard_normal(N))
X2 = iv.asarray(RNG.standard_normal((N, 2)))
AT = RNG.integers(0, N, 7)

M, N4 = (iv.asarray(RNG.standard_normal((4, 4)), requires_grad=track) for track in (True, False))


def on_new_patterns() -> Any:
    """Operands on patterns of which nothing is known."""
    return [from_values(x.values, pattern=renewed(x.pattern)) for x in (A, B)]


def renewed(pattern: Any) -> Any:
    _, (_, kind, arguments) = pattern.__reduce__()  # to make one again gives the one that lives
    return kind(*arguments)


def gradient(call: Any) -> Any:
    """Of a function of a sparse matrix, in its values; the call alone is in CALLS too."""
    y = call(TRACKED)
    head = y.detach()
    return lambda: grad(y, VALUES, head)


#: Calls, and the most functions that they may enter.
CALLS = {
    "dense sum": (lambda: N4 + N4, 5),
    "dense sum, recorded": (lambda: M + M, 9),
    "dense product, recorded": (lambda: M @ M, 11),
    "gradient of a dense sum": (lambda: grad(M + N4, M, N4), 28),
    "gradient of a dense product": (lambda: grad(M @ N4, M, N4), 37),
    "product with a vector": (lambda: S @ X, 22),
    "elementwise product": (lambda: S * T, 46),
    "sum": (lambda: S + T, 43),
    "multiple": (lambda: S * 2.0, 13),
    "multiple, recorded": (lambda: TRACKED * 2.0, 20),
    "rows": (lambda: S[3:20], 48),
    "gradient through a product": (
        lambda: grad((from_values(VALUES, pattern=A.pattern) @ X).sum(), VALUES),
        129,
    ),
    "gradient of a multiple": (gradient(lambda s: s * 2.0), 39),
    "gradient of abs": (gradient(abs), 42),
    "transpose": (lambda: S.T, 14),
    "gradient of a transpose": (gradient(lambda s: s.T), 36),
    # What a cotangent does not store is left out of the entries of the pattern, and stays so.
    "gradient of a diagonal": (gradient(iv.linalg.diagonal), 72),
    "gradient of rows": (gradient(lambda s: s[3:20]), 78),
    "gradient of a row": (gradient(lambda s: s[3]), 81),
    # What the choice leaves out is stored no more in between: a part of the pattern is made.
    "gradient of a maximum": (gradient(lambda s: iv.maximum(s, T)), 225),
    "gradient of a conversion": (gradient(lambda s: s.to_layout("csc")), 60),
    "gradient to dense": (gradient(lambda s: s.to_dense()), 36),
}
NEW = {
    "sum": (lambda s, t: s + t, 84),
    "product": (lambda s, t: s * t, 97),
    "rows": (lambda s, t: s[3:20], 53),
    "columns": (lambda s, t: s[:, 3:20], 62),
    "concat": (lambda s, t: iv.concat([s, t]), 104),
    "chosen rows": (lambda s, t: s[AT], 58),
    "chosen columns": (lambda s, t: s[:, AT], 70),
    "chosen entries": (lambda s, t: s[AT, AT], 60),
    "product with a matrix": (lambda s, t: s @ X2, 13),
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


@pytest.mark.usefixtures("kernels_as_they_are")
@pytest.mark.parametrize("name", NEW)
def test_nor_does_one_on_patterns_that_are_new(name):
    call, bound = NEW[name]
    call(*on_new_patterns())
    given = on_new_patterns()
    assert entered_by(lambda: call(*given)) <= bound


@pytest.mark.usefixtures("kernels_as_they_are")
def test_a_compiled_loop_is_called_without_hopping(monkeypatch):
    monkeypatch.setattr(sparse_loops, "WORTHWHILE", 0)
    assert python_calls(lambda: S @ X2) <= 75
