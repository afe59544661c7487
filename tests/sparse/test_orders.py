"""Sorts, quantiles and largest entries of sparse tensors: zeros that are not stored are only counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.transforms import jvp
from tests.sparse.common import LAYOUTS, checked
from tests.sparse.test_reductions import in_layout, matrices


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_sorts_and_what_is_chosen(axis, descending):
    """Places too: equal entries, zeros that are stored or not among them, stay in their order."""
    for seed, (x, layout, *_) in enumerate(matrices(f"sort {axis} {descending}", nan=True)):
        s, dense = in_layout(x, layout, seed), iv.asarray(x)
        found = iv.sort(s, axis=axis, descending=descending)
        np.testing.assert_array_equal(
            checked(found), iv.sort(dense, axis=axis, descending=descending).numpy()
        )
        if not descending:
            np.testing.assert_array_equal(checked(found), np.sort(x, axis=axis))
        for k in range(1, x.shape[axis] + 1):
            chosen, expected = (iv.topk(v, k, axis=axis, largest=descending) for v in (s, dense))
            np.testing.assert_array_equal(chosen.indices.numpy(), expected.indices.numpy())
            np.testing.assert_array_equal(checked(chosen.values), expected.values.numpy())
            found, expected = (iv.kthvalue(v, k, axis=axis).values for v in (s, dense))
            np.testing.assert_array_equal(checked(found), expected.numpy())


REDUCED = {
    "logsumexp": (iv.logsumexp, None),
    "median": (iv.median, np.median),
    "nanmedian": (iv.nanmedian, np.nanmedian),
    "nanmax": (iv.nanmax, np.nanmax),
    "nanmin": (iv.nanmin, np.nanmin),
    "nanmean": (iv.nanmean, np.nanmean),
    "quantile": (lambda x, **k: iv.quantile(x, 0.3, **k), lambda x, **k: np.quantile(x, 0.3, **k)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REDUCED)
def test_reductions(name):
    f, peer = REDUCED[name]
    for seed, (x, layout, axis, keepdims) in enumerate(matrices(name, nan=True)):
        if not x.size:
            continue
        found = checked(f(in_layout(x, layout, seed), axis=axis, keepdims=keepdims))
        expected = f(iv.asarray(x), axis=axis, keepdims=keepdims).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        if peer is not None and axis != ():
            np.testing.assert_allclose(found, peer(x, axis=axis, keepdims=keepdims), rtol=1e-13)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: iv.sort(x, axis=1),
        lambda x: iv.sort(x, axis=0, descending=True),
        lambda x: iv.logsumexp(x, axis=0),
        iv.logsumexp,
        lambda x: iv.topk(x, 2, axis=1)[0],
        lambda x: iv.median(x, axis=0),
    ],
    ids=["sort", "sort down", "logsumexp", "logsumexp of all", "topk", "median"],
)
@pytest.mark.parametrize(
    ("layout", "way"), [*((name, "eager") for name in LAYOUTS), ("coo", "compiled"), ("csr", "compiled")]
)
def test_derivatives_in_the_values(layout, f, way):
    """To second order and as tangents, against those by way of the dense matrix."""
    rng = np.random.default_rng(0)
    x = rng.permutation(np.arange(24.0).reshape(4, 6) - 12.5) * (rng.random((4, 6)) < 0.5)
    s = in_layout(x, layout, 1)
    weight = rng.standard_normal(f(iv.asarray(x)).shape)
    direction = iv.asarray(rng.standard_normal(s.values().shape))

    def derivatives(convert: Any) -> list[Any]:
        def call(v: Any) -> Any:
            return iv.to_layout(f(convert(iv.with_values(s, v))), "strided")

        run = iv.jit(call) if way == "compiled" else call
        v = s.values().requires_grad_()
        g = grad((run(v) * weight).sum(), v, create_graph=True)
        second = grad((g * g).sum(), v) if g.requires_grad else iv.zeros(v.shape)
        return [g.detach(), second, jvp(run, (s.values(),), (direction,))[1]]

    expected = derivatives(lambda x: x.to_dense())
    for got, wanted in zip(derivatives(lambda x: x), expected, strict=True):
        np.testing.assert_allclose(checked(got), checked(wanted), rtol=1e-12, atol=1e-14)
