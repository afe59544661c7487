"""Series of every op of the table, and of sparse arguments, against nested derivatives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import iverson as iv
from iverson.ops import TABLE
from tests.conformance.product import EXHAUSTIVE, SEED, dtypes_of
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
