"""Reductions and scans against NumPy and SciPy: axes, keepdims, dtypes, rank 0, size 0."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson.core.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError
from tests.array_api.common import draw, same
from tests.conformance.product import examples

ORACLES = {
    "sum": ("biufc", np.sum),
    "prod": ("biufc", np.prod),
    "mean": ("iufc", np.mean),
    "var": ("iufc", np.var),
    "std": ("iufc", np.std),
    "max": ("iuf", np.max),
    "min": ("iuf", np.min),
    "all": ("biufc", np.all),
    "any": ("biufc", np.any),
    "count_nonzero": ("biufc", np.count_nonzero),
    "logsumexp": ("iufc", lambda x, **options: np.log(np.sum(np.exp(x), **options))),
}
SCANS = {"cumulative_sum": np.cumulative_sum, "cumulative_prod": np.cumulative_prod}
ARGS = {"argmax": np.argmax, "argmin": np.argmin}
COVERED = {*ORACLES, *SCANS, *ARGS}
CASES = [((), None), ((), ()), ((4,), 0), ((2, 3), None), ((2, 3), -1), ((2, 3, 2), (0, -1)), ((2, 1), 1)]
CASES += [((4, 9, 3), -1), ((40, 1), (1,))]  # many short rows


def wide(dtype):
    return {"b": "int64", "i": "int64", "u": "uint64"}.get(np.dtype(dtype).kind, dtype)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", 0.0),
        ("prod", 1.0),
        ("mean", np.nan),
        ("var", np.nan),
        ("std", np.nan),
        ("all", True),
        ("any", False),
        ("count_nonzero", 0),
        ("logsumexp", -np.inf),
    ],
)
def test_no_entries(name, expected):
    result = getattr(iv, name)(np.zeros((2, 0)), axis=1)
    same(result, np.full((2,), expected))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nothing_to_choose_from(name):
    with pytest.raises(ArgumentError, match=f"{name}.*entr"):
        getattr(iv, name)(np.zeros((2, 0)), axis=1)
    assert getattr(iv, name)(np.zeros((0, 2)), axis=1).shape == (0,)


@pytest.mark.parametrize("name", ["max", "min"])
def test_a_nan_in_one_of_many_short_rows_is_its_extremum(name):
    x = np.arange(120.0).reshape(40, 3)
    x[np.arange(0, 40, 3), np.arange(14) % 3] = np.nan
    with np.errstate(invalid="ignore"):
        same(getattr(iv, name)(x, axis=1), getattr(np, name)(x, axis=1))
        same(getattr(iv, name)(x[::-1, ::-1], axis=-1), getattr(np, name)(x[::-1, ::-1], axis=-1))


def test_dtype_argument():
    x = draw((2, 3), "int8")
    same(iv.sum(x, dtype="float32"), np.sum(x, dtype="float32"))
    same(iv.prod(x, dtype=iv.int32), np.prod(x, dtype="int32"))
    same(iv.mean(x, dtype="float32"), np.mean(x, dtype="float32"))
    same(iv.sum(np.full(300, 100, "int8")), np.int64(30000))
    with pytest.raises(DTypeError, match=r"mean.*dtype"):
        iv.mean(x, dtype="int32")


@pytest.mark.parametrize("correction", [0, 1, 0.5, 2])
def test_correction(correction):
    x = draw((3, 4))
    same(iv.var(x, axis=1, correction=correction), np.var(x, 1, ddof=correction))
    same(iv.std(x, correction=correction), np.std(x, ddof=correction))


def test_correction_that_leaves_nothing():
    same(iv.var(np.ones((1, 2)), axis=0, correction=1), [np.nan, np.nan])


def test_nan_and_overflow():
    x = np.array([1.0, np.nan, 3.0])
    for name in ("max", "min", "sum", "mean"):
        same(getattr(iv, name)(x), np.nan)
    same(iv.logsumexp(np.array([1e4, 1e4])), 1e4 + np.log(2))
    same(iv.logsumexp(np.array([-np.inf, -np.inf])), -np.inf)
    same(iv.logsumexp(np.array([np.inf, 0.0])), np.inf)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_axes(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=3))
    axis = tuple(data.draw(st.sets(st.integers(-len(shape), -1))))
    x = draw(shape, seed=data.draw(st.integers(0, 99)))
    keepdims = data.draw(st.booleans())
    for name in ("sum", "prod", "max", "mean", "var", "any"):
        same(
            getattr(iv, name)(x, axis=axis, keepdims=keepdims),
            ORACLES[name][1](x, axis=axis, keepdims=keepdims),
        )


@pytest.mark.parametrize("name", sorted(COVERED))
def test_bad_axes(name):
    function = getattr(iv, name)
    with pytest.raises(AxisError, match=f"{name}: argument 'axis': got 2; expected an integer in"):
        function(np.ones((2, 3)), axis=2)
    if name in ORACLES:
        with pytest.raises(AxisError, match="each axis once"):
            function(np.ones((2, 3)), axis=(0, -2))


def test_bad_dtypes():
    with pytest.raises(DTypeError, match="max"):
        iv.max(np.ones(2, complex))
    with pytest.raises(ArgumentTypeError, match="var: argument 'correction'"):
        iv.var(np.ones(2), correction="1")
    with pytest.raises(ArgumentTypeError, match=r"sum: argument 'axis': got 1\.0"):
        iv.sum(np.ones(2), axis=1.0)
    with pytest.raises(DTypeError, match="float128"):
        iv.sum(np.ones(2, np.longdouble))
