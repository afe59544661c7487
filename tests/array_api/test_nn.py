"""softmax, log_softmax and cross_entropy against SciPy."""

import numpy as np
import pytest
import scipy.special

import iverson as iv
from iverson.core.errors import ArgumentError, AxisError, DTypeError, IndexingError, ShapeError
from tests.array_api.common import draw, dtypes_of, same


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name):
    oracle = getattr(scipy.special, name)
    for dtype in dtypes_of("iuf"):
        for shape, axis in (((3,), -1), ((2, 3), 0), ((2, 3, 4), 1), ((0, 2), 1), ((2, 0), 0)):
            x = draw(shape, dtype)
            as_float = x if x.dtype.kind == "f" else x.astype(float)
            expected = oracle(as_float, axis=axis) if x.size else as_float
            same(getattr(iv, name)(iv.asarray(x), axis=axis), expected)
            same(getattr(iv.asarray(x), name)(axis), expected)
    same(getattr(iv, name)(np.array([1e4, 0.0])), oracle(np.array([1e4, 0.0])))
    with pytest.raises(AxisError, match=name):
        getattr(iv, name)(np.ones(2), axis=1)
    with pytest.raises(DTypeError, match=name):
        getattr(iv, name)(np.ones(2, complex))


@pytest.mark.parametrize(
    ("shape", "axis"), [((4,), None), ((2, 4), None), ((2, 4, 3), None), ((2, 3, 4), -1)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cross_entropy(shape, axis, dtype):
    logits = draw(shape, dtype)
    k = min(1, len(shape) - 1) if axis is None else axis
    logs = scipy.special.log_softmax(logits, axis=k)
    rest = np.delete(shape, k)
    numbers = np.abs(draw(tuple(rest), "int64")) % shape[k]
    expected = -np.squeeze(np.take_along_axis(logs, np.expand_dims(numbers, k), k), k)
    p = np.asarray(scipy.special.softmax(draw(shape, seed=1), axis=k), dtype)
    for labels, losses in ((numbers, expected), (p, -np.sum(p * logs, axis=k))):
        same(iv.cross_entropy(logits, labels, axis=axis, reduction="none"), losses, tolerance=1e-5)
        same(
            iv.cross_entropy(logits, labels, axis=axis, reduction="sum"),
            np.sum(losses, dtype=dtype),
            tolerance=1e-5,
        )
        same(
            iv.asarray(logits).cross_entropy(labels, axis=axis), np.mean(losses, dtype=dtype), tolerance=1e-5
        )


def test_no_examples():
    same(iv.cross_entropy(np.ones((0, 3)), np.zeros(0, int), reduction="sum"), 0.0)
    same(iv.cross_entropy(np.ones((0, 3)), np.zeros(0, int)), np.nan)


@pytest.mark.parametrize(
    ("logits", "labels", "options", "kind", "words"),
    [
        (
            np.ones((2, 3)),
            np.zeros(3, int),
            {},
            ShapeError,
            r"argument 'labels'.*shape \(2,\) for class numbers",
        ),
        (np.ones((2, 3)), np.zeros(2), {}, ShapeError, r"shape \(2, 3\) for probabilities"),
        (np.ones((2, 3)), np.array([0, 3]), {}, IndexingError, "got class 3; expected one in"),
        (np.ones((2, 3)), np.array([0, -1]), {}, IndexingError, "got class -1"),
        (np.ones((2, 3)), np.array([True, False]), {}, DTypeError, "labels"),
        (np.ones((2, 3)), np.zeros(2, int), {"reduction": "max"}, ArgumentError, "'mean', 'sum', 'none'"),
        (np.ones((2, 3)), np.zeros(2, int), {"axis": 2}, AxisError, "cross_entropy"),
        (np.ones((2, 3), complex), np.zeros(2, int), {}, DTypeError, "logits"),
    ],
)
def test_errors(logits, labels, options, kind, words):
    with pytest.raises(kind, match=words):
        iv.cross_entropy(logits, labels, **options)
