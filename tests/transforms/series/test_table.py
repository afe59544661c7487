"""Series of every op of the table, and of sparse arguments, against nested derivatives."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson.core.errors import LinearAlgebraError
from iverson.handles import Tensor
from iverson.layouts import to_strided
from iverson.ops import TABLE
from tests.conformance.product import (
    EXHAUSTIVE,
    SEED,
    by_turns,
    drawn,
    dtypes_of,
    floating,
    held_and_dense,
    paired,
    samples_of,
)
from tests.conformance.test_table import LAYOUTS, direction, results
from tests.graph.programs import calls_of
from tests.transforms.series.nested import agree, coefficients

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning"),
]
NAMES = tuple(name for name, op in TABLE.items() if op.samples and op.differentiable)
#: Samples at which nested derivatives have a singular matrix to invert.
SINGULAR = {("det", 2)}


@pytest.mark.parametrize("name", NAMES)
def test_every_op(name):
    """To third order on one sample and dtype; all of them to fourth order where all cases are run."""
    dtypes = dtypes_of(TABLE[name])
    calls = [
        c for dtype in dtypes for c in calls_of(name, dtype) if c.args and (name, c.number) not in SINGULAR
    ]
    if not EXHAUSTIVE:
        calls = [calls[(SEED + len(name)) % len(calls)]] if calls else []
    for call in calls:
        args = [iv.asarray(a) for a in call.args]
        agree(call.function, args, coefficients(args, 4 if EXHAUSTIVE else 3), rtol=1e-7)


@pytest.mark.parametrize("name", NAMES[:: 1 if EXHAUSTIVE else 4])
def test_every_subset_of_arguments(name):
    for call in calls_of(name)[:1]:
        for k, a in enumerate(call.args):
            fixed = list(map(iv.asarray, call.args))

            def of_one(x, k=k, fixed=fixed, call=call):
                return call.function(*fixed[:k], x, *fixed[k + 1 :])

            agree(of_one, [iv.asarray(a)], coefficients([a], 2, seed=k), rtol=1e-7)


def series_of(case, sample, held, layout, order):
    """Entries of all coefficients of the results; those of the arguments are in a layout, or are arrays."""
    rng = np.random.default_rng(SEED + 3)
    at = floating(sample)

    def function(*given):
        args = list(held)
        for k, x in zip(at, given, strict=True):
            args[k] = x
        return results(case, sample, tuple(args))

    primals = [Tensor(held[k]) for k in at]
    drawn = [[Tensor(direction(x, layout, rng)) * 0.1 for _ in range(order)] for x in primals]
    value, others = iv.jet(function, primals, drawn)
    return [to_strided(c._value) for cs in (value, *others) for c in cs]


def layout_changes_no_series(case, order):
    sample = samples_of(TABLE[case.op], case.dtype)[case.sample]
    held, dense = held_and_dense(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A singular matrix, which entries in a layout may make, has no derivative and perhaps no value.
        with contextlib.suppress(LinearAlgebraError):
            of_dense = series_of(case, sample, dense, None, order)
            # What is singular but for rounding: what is left is rounding.
            if not any((np.abs(w) > 1e9).any() for w in of_dense):
                agree_where_finite(series_of(case, sample, held, None, order), of_dense)
                wanted = series_of(case, sample, dense, "dense " + case.layout, order)
                agree_where_finite(series_of(case, sample, dense, case.layout, order), wanted)


def agree_where_finite(found, wanted):
    """Elsewhere strong zeros may win (semantics, 4)."""
    for a, b in zip(found, wanted, strict=True):
        finite = np.isfinite(b)
        size = np.max(np.abs(b), initial=0, where=finite)
        np.testing.assert_allclose(
            np.where(finite, a, 0), np.where(finite, b, 0), rtol=1e-8, atol=1e-8 * size + 1e-12
        )


@pytest.mark.parametrize(("name", "layout"), paired(by_turns(NAMES, 2, 1), LAYOUTS))
def test_a_layout_changes_no_series(name, layout):
    """Of arguments, and of their coefficients: to fourth order, as of the same entries in arrays."""
    cases = {
        (c.dtype, c.sample): c
        for c in drawn(name, layout, 1)
        if floating(samples_of(TABLE[name], c.dtype)[c.sample])
    }
    for case in cases.values():
        layout_changes_no_series(case, 4 if EXHAUSTIVE else 2)


def in_layout(rng, layout, shape=(4, 4)):
    mask = rng.random(shape) < 0.5
    draw = iv.asarray(rng.standard_normal(shape) * mask).to_layout(layout)
    return draw, [iv.asarray(rng.standard_normal(shape) * mask).to_layout(layout) for _ in range(3)]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize(
    "function",
    [
        lambda s: iv.sin(s) * s,
        lambda s: s @ s,
        lambda s: (s @ iv.ones((4, 2))).sum(axis=0),
        lambda s: iv.exp(s.values()).sum(),
        lambda s: iv.tanh(s + 0.5) @ iv.ones(4),
        lambda s: (s * s).sum() / (1 + s.sum()) ** 2,
        lambda s: iv.sqrt(1 + s.T @ s),
    ],
)
def test_sparse_arguments(layout, function):
    s, series = in_layout(np.random.default_rng(3), layout)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(function, [s], [series])
