"""Compiled functions and loops as Python: the same results, with entries that can be read inside."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from tests.debug.test_print import TEXTS, X


@pytest.mark.parametrize("f", TEXTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", ["value", "grad", "vmap", "jvp"])
def test_results_are_those_of_compiled_code(f, mode):
    modes = {
        "value": lambda f: f,
        "grad": iv.grad,
        "vmap": lambda f: lambda x: iv.vmap(f)(iv.stack([x, -x])),
        "jvp": lambda f: lambda x: iv.jvp(f, (x,), (x,))[1],
    }
    run = modes[mode](iv.jit(f))
    if f.__name__ == "repeated" and mode == "grad":
        with pytest.raises(iv.errors.GradientError, match="max_steps"):
            run(iv.asarray(X))
        return
    expected = run(iv.asarray(X))
    with iv.disable_jit():
        np.testing.assert_allclose(run(iv.asarray(X)).numpy(), expected.numpy(), rtol=1e-14)


def test_entries_can_be_read_and_nothing_is_traced():
    seen = []

    @iv.jit
    def f(x):
        seen.append(float(x.sum()))
        return iv.scan(lambda c, v: (c + v, seen.append(float(v))), iv.asarray(0.0), x)[0]

    with iv.disable_jit():
        f(X)
        f(iv.asarray(X))
        assert seen == [6.0, 1.0, 2.0, 3.0] * 2
        assert f.cache_size == 0
        with iv.disable_jit(False), pytest.raises(iv.errors.GraphError, match="entries"):
            f(X)
    with pytest.raises(iv.errors.GraphError, match="entries"):
        f(X)


def test_scans_backwards_of_trees_and_of_no_steps():
    step = lambda c, x: ({"s": c["s"] * 0.5 + x["a"]}, (c["s"], x["b"]))
    init, xs = {"s": iv.asarray(1.0)}, {"a": iv.asarray(X), "b": iv.asarray(-X)}
    for reverse in (False, True):
        expected = iv.scan(step, init, xs, reverse=reverse)
        with iv.disable_jit():
            found = iv.scan(step, init, xs, reverse=reverse)
        np.testing.assert_allclose(found[0]["s"].numpy(), expected[0]["s"].numpy())
        for a, b in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy())
    with iv.disable_jit():
        assert iv.scan(lambda c, x: (c, x), iv.asarray(1.0), iv.ones((0, 2)))[1].shape == (0, 2)
