"""Large elementwise work takes one pass: its memory is counted, its values are those of small arrays."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

import iverson as iv
from iverson.core.scalars import SCALARS
from iverson.kernels import fused
from iverson.optim import SGD, Adam, AdamW

N = fused.WORTHWHILE_STEP


def allocated(function):
    """The most memory that a call holds at a time beyond what stood before, in bytes."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    result = function()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak, result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(256, 64, 10), (3, 5, 70, 70), (1 << 16, 1, 1), (2, 1, 1 << 15)])
def test_large_batches_of_outer_products_are_one_loop(shape, dtype):
    *batch, m, n = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(dtype) for s in ((*batch, m, 1), (*batch, 1, n)))
    asked = []
    of = fused.outer(lambda a, b: asked.append(a.shape) or a * b)
    np.testing.assert_array_equal(of(a, b), a * b, strict=True)
    assert not asked
    np.testing.assert_array_equal(of(a[:1], b), a[:1] * b)  # stretched: by NumPy
    np.testing.assert_array_equal(of(a.astype(complex), b), a.astype(complex) * b)
    assert len(asked) == 2
    of(a[:, :0], b[:, :0]), of(a[:1], b[:1])
    assert len(asked) == 3 + (a[:1].size * n < N)
    x, y = iv.asarray(a), iv.asarray(np.ascontiguousarray(np.swapaxes(b, -1, -2)))
    np.testing.assert_array_equal((x @ iv.moveaxis(y, -1, -2)).numpy(), a @ b)


@pytest.mark.parametrize("name", [s.name for s in SCALARS.values() if s.compiled and s.summary])
def test_functions_allocate_their_result_alone(name):
    f = getattr(iv, name)
    x = iv.asarray(np.linspace(-30, 30, N))
    f(x)  # compiles
    peak, y = allocated(lambda: f(x))
    assert peak < 1.2 * 8 * N
    small = np.concatenate([f(iv.asarray(part)).numpy() for part in np.array_split(x.numpy(), 64)])
    np.testing.assert_allclose(y.numpy(), small, rtol=2e-14, atol=5e-324)


STEPS = {
    "Adam": Adam,
    "AdamW": AdamW,
    "SGD": partial(SGD, momentum=0.9),
    "SGD, decaying": partial(SGD, momentum=0.5, weight_decay=0.1),
    "SGD, Nesterov": partial(SGD, momentum=0.9, weight_decay=0.1, nesterov=True),
}


@pytest.mark.parametrize("kind", STEPS.values(), ids=STEPS)
def test_a_step_has_no_temporaries_and_moves_as_small_parameters_do(kind):
    rng = np.random.default_rng(0)
    start, slopes = rng.standard_normal(N), rng.standard_normal((4, N))
    whole = [iv.asarray(start.copy(), requires_grad=True)]
    parts = [iv.asarray(part.copy(), requires_grad=True) for part in np.array_split(start, 64)]
    one, many = kind(whole, lr=0.1), kind(parts, lr=0.1)
    for slope in slopes:
        given = [iv.asarray(slope)]
        peak, _ = allocated(lambda given=given: one.step(given))
        many.step([iv.asarray(part) for part in np.array_split(slope, 64)])
    assert peak < 0.1 * 8 * N
    moved = np.concatenate([p.detach().numpy() for p in parts])
    np.testing.assert_allclose(whole[0].detach().numpy(), moved, rtol=1e-12, atol=1e-14)


def test_what_no_pass_takes_goes_to_numpy():
    for x in (np.ones((2, 2 * N)).T[::2], np.ones(3)):
        assert not fused.worthwhile(fused.WORTHWHILE, x)
        np.testing.assert_allclose(iv.gelu(iv.asarray(x)).numpy(), 0.8413447, rtol=2e-3)
