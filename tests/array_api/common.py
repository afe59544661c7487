"""What the oracle tests share: draws of every dtype, comparison with dtype and shape, numeric derivatives."""

from __future__ import annotations

import numpy as np

import iverson as iv
from iverson.autograd import grad

BOOL, INTS, FLOATS, COMPLEX = (
    ("bool",),
    ("int8", "int32", "int64", "uint8", "uint32"),
    ("float32", "float64"),
    ("complex64", "complex128"),
)
OF_KIND = {"b": BOOL, "i": INTS[:3], "u": INTS[3:], "f": FLOATS, "c": COMPLEX}
SHAPES = ((), (3,), (2, 3), (0, 3), (2, 1, 3))


def dtypes_of(kinds):
    return [dtype for kind in kinds for dtype in OF_KIND[kind]]


def draw(shape, dtype="float64", seed=0, low=-2.0, high=2.0):
    """An array of a shape and dtype; integers are small, complex numbers have parts in [low, high)."""
    rng = np.random.default_rng([seed, len(shape), sum(shape)])
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype)
    values = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(low, high, shape)
    return np.asarray(values, dtype)


def same(actual, expected, dtype=None, tolerance=None):
    """A Tensor with the oracle's shape, dtype (unless another is given) and entries."""
    if isinstance(expected, tuple) or (isinstance(expected, list) and isinstance(expected[0], np.ndarray)):
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            same(a, b, dtype, tolerance)
        return
    expected = np.asarray(expected)
    assert isinstance(actual, iv.Tensor)
    assert actual.layout == "strided"
    assert actual.shape == expected.shape
    assert actual.dtype == (expected.dtype if dtype is None else dtype)
    single = actual.dtype in (np.float32, np.complex64)
    rtol = tolerance or (2e-5 if single else 1e-11)
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=rtol, atol=rtol, equal_nan=True)


def scalarized(outputs):
    """A fixed weighted sum of all results, as a real number."""
    total = 0.0
    for k, y in enumerate(outputs if isinstance(outputs, tuple) else (outputs,)):
        weights = np.cos(np.arange(y.size) + k).reshape(y.shape)
        if y.dtype.kind == "c":
            total = total + iv.sum(iv.real(y) * weights) + iv.sum(iv.imag(y) * np.sin(weights))
        else:
            total = total + iv.sum(y * weights)
    return total


def check_gradient(function, *arrays, order=2, step=1e-5, tolerance=1e-6):
    """Gradients of a fixed weighted sum of the results, to ``order``, against central differences."""
    arrays = [np.asarray(a) for a in arrays]
    rng = np.random.default_rng(1)
    directions = [draw(a.shape, a.dtype, seed=int(rng.integers(1000))) for a in arrays]

    def along(xs):
        """The derivative of the sum along the directions, itself differentiable."""
        found = grad(scalarized(function(*xs)), xs, create_graph=True)
        return sum((iv.sum(iv.real(iv.conj(g) * v)) for g, v in zip(found, directions, strict=True)), 0.0)

    target = lambda xs: scalarized(function(*xs))
    for _ in range(order):
        xs = [iv.asarray(a, requires_grad=True) for a in arrays]
        found = grad(target(xs), xs)
        for k, (a, g) in enumerate(zip(arrays, found, strict=True)):
            assert g.shape == a.shape
            assert g.dtype == a.dtype
            v = draw(a.shape, a.dtype, seed=7)
            ends = []
            for sign in (1, -1):
                moved = [b + sign * step * v if j == k else b for j, b in enumerate(arrays)]
                ends.append(float(target([iv.asarray(m, requires_grad=True) for m in moved]).detach()))
            expected = (ends[0] - ends[1]) / (2 * step)
            actual = float(np.sum(np.real(np.conj(g.numpy()) * v)))
            assert abs(actual - expected) <= tolerance * max(1.0, abs(expected)), (k, actual, expected)
        target = along
