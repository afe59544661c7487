"""Large elementwise work takes one pass: its memory is counted, its values are those of small arrays."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest

import iverson as iv
from iverson.core.scalars import SCALARS
from iverson.core.table import F
from iverson.kernels import compiled_elementwise
from iverson.optim import SGD, Adam, AdamW
from tests.conformance.product import paired

N = compiled_elementwise.WORTHWHILE_STEP


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
    of = compiled_elementwise.outer(lambda a, b: asked.append(a.shape) or a * b)
    np.testing.assert_array_equal(of(a, b), a * b, strict=True)
    assert not asked
    np.testing.assert_array_equal(of(a[:1], b), a[:1] * b)  # stretched: by NumPy
    np.testing.assert_array_equal(of(a.astype(complex), b), a.astype(complex) * b)
    assert len(asked) == 2
    of(a[:, :0], b[:, :0]), of(a[:1], b[:1])
    assert len(asked) == 3 + (a[:1].size * n < N)
    x, y = iv.asarray(a), iv.asarray(np.ascontiguousarray(np.swapaxes(b, -1, -2)))
    np.testing.assert_array_equal((x @ iv.moveaxis(y, -1, -2)).numpy(), a @ b)


COMPILED = [s.name for s in SCALARS.values() if s.compiled]


@pytest.mark.parametrize(("name", "dtype"), paired(COMPILED, ["float32", "float64"]))
def test_functions_allocate_their_result_alone(name, dtype):
    f, least, eps = getattr(F, name), np.dtype(dtype).itemsize * N, float(np.finfo(dtype).eps)
    tiny = 4 * float(np.finfo(dtype).smallest_subnormal)
    xs = [np.linspace(-30, 30, N, dtype=dtype), np.linspace(9, -1, N, dtype=dtype), np.zeros(N, dtype)]
    xs = xs[: SCALARS[name].arity]
    if name == "pow":
        xs[0] = abs(xs[0]) / 8 + 0.1
    if name == "where":
        xs[0] = xs[0] % 1 < 0.5
    for numbers in ({}, *({k: v} for k in range(len(xs)) for v in (2, -0.5) if len(xs) > 1)):
        if (name == "where" and 0 in numbers) or (name == "pow" and numbers.get(0) == -0.5):
            continue
        args = [numbers.get(k, iv.asarray(x)) for k, x in enumerate(xs)]
        f(*args)  # compiles
        peak, y = allocated(lambda args=args: f(*args))
        assert peak < 1.2 * least
        assert y.dtype == dtype
        parts = [np.array_split(x.numpy(), 64) if isinstance(x, iv.Tensor) else [x] * 64 for x in args]
        small = np.concatenate([f(*part).numpy() for part in map(as_tensors, zip(*parts, strict=True))])
        lost = eps if name in LOSING else tiny
        np.testing.assert_allclose(y.numpy(), small, rtol=100 * eps, atol=lost, equal_nan=True)


#: Functions with roots where what they are computed of cancels, in NumPy's loops too.
LOSING = ("logaddexp", "sin", "cos", "gelu_derivative")


def as_tensors(part):
    return [iv.asarray(x) if isinstance(x, np.ndarray) else x for x in part]


@pytest.mark.parametrize("name", [n for n in COMPILED if n != "where"])
def test_numpy_warns_of_what_is_not_finite_in_large_arrays_as_in_small_ones(name):
    def said(n):
        xs = [iv.asarray(np.full(n, v)) for v in (np.inf, -np.inf)][: SCALARS[name].arity]
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            y = getattr(F, name)(*xs)
        return y.numpy()[:1].tolist(), [(w.category, str(w.message)) for w in found]

    np.testing.assert_equal(said(N), said(3))


def test_large_arrays_with_what_a_compiled_pass_does_not_take():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, N))
    c = rng.random((2, N)) < 0.5
    for args in (
        (c, x, 2**70), (c, x.astype("f4"), 1e300), (c, x.astype("f4"), np.float64(0.1)),
        (c, x, x.astype("f4")), (c[:, ::2], x[:, ::2], 1.0), (c[0], x, 0.0), (c, x, x[0]), (c, 1.0, 2),
        (c, x, True), (c, x > 0, x), (c, x, 1j),
    ):  # fmt: skip
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = np.where(*args)
            found = F.where(*map(as_operand, args)).numpy()
        np.testing.assert_array_equal(found, expected, strict=True)


def as_operand(x):
    return iv.asarray(x) if isinstance(x, np.ndarray) else x


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
        assert not compiled_elementwise.worthwhile(compiled_elementwise.WORTHWHILE, x)
        np.testing.assert_allclose(iv.gelu(iv.asarray(x)).numpy(), 0.8413447, rtol=2e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3000, 7), 0), ((20_000,), 0), ((64, 300), 1), ((8, 70, 5), 1), ((2, 9, 999), 1)]
)
def test_long_recurrences_are_one_loop(shape, axis, reverse, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, *shape)).astype(dtype)
    lines = tuple(np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0) for x in (a, b))
    s = list(itertools.accumulate(zip(*lines, strict=True), lambda s, ab: ab[0] * s + ab[1], initial=0))[1:]
    expected = np.moveaxis(np.array(s), 0, axis)
    expected = np.flip(expected, axis) if reverse else expected
    eps = np.finfo(dtype).eps
    found = F.linear_recurrence(a, b, axis=axis, reverse=reverse).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e3 * eps, atol=1e3 * eps)
    asked = []
    of = compiled_elementwise.recurrence(lambda a, b, _reverse: asked.append(a.shape) or b)
    of(a.reshape(1, -1, 1), b.reshape(1, -1, 1), reverse)
    assert not asked
    (
        of(a[None, :8, None], b[None, :8, None].astype(complex), reverse),
        of(np.ones((1, 0, 3)), np.ones((1, 0, 3)), reverse),
    )
    assert len(asked) == 2
