"""Calls of `jet` and `derivatives` that are refused, and the words."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv

ONE = iv.asarray(1.0)
CALLS = [
    (lambda: iv.jet(iv.sin, (ONE,), ([],)), "jet: argument 'series': got 0 coefficients"),
    (lambda: iv.jet(iv.sin, (ONE,), ()), "jet: argument 'series': got 0 for 1 primals"),
    (lambda: iv.jet(iv.sin, (), ()), "jet: argument 'series': got 0 for 0 primals"),
    (lambda: iv.jet(iv.sin, (ONE,), (ONE,)), "jet: argument 'series': got a Tensor for primal 0"),
    (lambda: iv.jet(iv.add, (ONE, ONE), ([ONE], [ONE, ONE])), "got 1, 2 coefficients.*fill the shorter"),
    (lambda: iv.jet(iv.sin, ({"a": ONE},), ([ONE],)), "jet: argument 'series': got a tree"),
    (lambda: iv.jet(iv.sin, (ONE,), ([iv.ones(2)],)), r"jet: argument 'series'.*shape \(2,\)"),
    (lambda: iv.jet(iv.sin, (iv.asarray(1),), ([ONE],)), "jet: argument 'primals': .*int64.*floating"),
    (lambda: iv.derivatives(iv.sin, 0), "derivatives: argument 'order': got 0; expected.*at least 1"),
    (lambda: iv.derivatives(iv.sin, 1.5), "derivatives: argument 'order'"),
    (lambda: iv.derivatives(iv.sin, 2)(iv.ones(3)), r"derivatives.*shape \(3,\); expected one number; give"),
    (
        lambda: iv.derivatives(iv.sin, 2, direction=iv.ones(2))(iv.ones(3)),
        "derivatives: argument 'direction'",
    ),
    (iv.derivatives(iv.sin, 2), "derivatives: argument 'args': got no argument by position"),
    (lambda: iv.derivatives(iv.sin, 2)(iv.asarray(3)), "derivatives: argument 'args': .*int64"),
    (lambda: iv.derivatives(lambda x: np.sin(x.numpy()), 2)(ONE), "read of the entries of a series.*detach"),
    (lambda: iv.derivatives(lambda x: float(x) * x, 2)(ONE), "read of the entries of a series"),
    (lambda: iv.derivatives(lambda x: "a", 2)(ONE), "derivatives: argument \"?'?the function's result"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_refused(call, words):
    with pytest.raises(iv.errors.IversonError, match=words):
        call()


def test_a_write_into_a_tensor_around_is_refused_and_undone():
    around = iv.zeros(())

    def f(x):
        around[...] = x * 2
        return x

    with pytest.raises(iv.errors.ArgumentError, match="writes a series into a tensor around it"):
        iv.derivatives(f, 2)(ONE)
    assert around.numpy() == 0


def test_a_value_after_its_end_is_refused():
    kept = []
    iv.derivatives(lambda x: kept.append(x) or x, 2)(ONE)
    with pytest.raises(iv.errors.ArgumentError, match="after its end"):
        iv.sin(kept[0])


@pytest.mark.parametrize("entries", [lambda x: x.numpy(), lambda x: x.detach().numpy()])
def test_a_function_whose_forward_reads_entries_is_refused(entries):
    class Read(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return iv.asarray(np.sin(entries(x)))

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(iv.errors.GraphError, match="forward that reads the entries of a series"):
        iv.derivatives(Read.apply, 2)(ONE)
