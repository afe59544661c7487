"""The law of deletion for series: coefficients of what exists are those of arrays without the rest."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from tests.conformance.product import EXHAUSTIVE, by_turns
from tests.masked.test_deletion import LAWS, Draw, entries, results

pytestmark = [
    pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def series(function, arguments, directions, order):
    """Coefficients of the results that vary, in the directions of those arguments that have one."""
    varying = [k for k, d in enumerate(directions) if d is not None]

    def of_varying(*given):
        args = list(arguments)
        for k, x in zip(varying, given, strict=True):
            args[k] = x
        return tuple(y for y in results(function(*args)) if y.dtype.kind in "fc")

    found = iv.derivatives(
        lambda xs: of_varying(*xs), order, direction=tuple(directions[k] for k in varying)
    )(tuple(arguments[k] for k in varying))
    return [entries(y) for ys in found for y in ys]


@pytest.mark.parametrize("name", by_turns(LAWS, 6))
def test_series_of_what_exists(name):
    law, order = LAWS[name], 4 if EXHAUSTIVE else 2
    draw = Draw(law, 1, ragged=False)
    rng = np.random.default_rng(2)
    moves = [0.1 * rng.standard_normal(a.shape) if a.dtype.kind == "f" else None for a in law.arrays]
    masked = draw.masked(draw.arrays, draw.masks)
    directions = [
        None
        if m is None
        else iv.masked_tensor(iv.asarray(m), draw.masks[k])
        if k in draw.which
        else iv.asarray(m)
        for k, m in enumerate(moves)
    ]
    without = list(map(iv.asarray, draw.deleted()))
    shorter = [
        m if m is None or c is None else np.compress(draw.exists[0], m, c)
        for m, c in zip(moves, law.columns, strict=True)
    ]
    if all(m is None for m in moves):
        return
    found = series(law.call, masked, directions, order)
    expected = series(law.call, without, [None if m is None else iv.asarray(m) for m in shorter], order)
    for a, b in zip(found, expected, strict=True):
        size = np.max(np.abs(b), initial=0, where=np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9 * size + 1e-12)
