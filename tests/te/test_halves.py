"""Ops in index notation on float16 and bfloat16: loops read half, compute in float32, and store half."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.autograd.joint import JointOp
from iverson.core import dtypes

pytest.importorskip("ml_dtypes")

HALVES = ("float16", "bfloat16")
half = pytest.mark.parametrize("dtype", HALVES)


@te.op
def blurred(x, w):
    k = te.reduce_axis((0, 3))
    return te.compute((x.shape[0] - 2,), lambda i: te.sum(x[i + k] * w[k], axis=k) + te.F.sin(x[i]))


@te.op
def attended(q, k, v):
    (n, d), (m, _) = q.shape, k.shape
    a, b, c, e = te.reduce_axis(d), te.reduce_axis(m), te.reduce_axis(m), te.reduce_axis(m)
    scores = te.compute((n, m), lambda i, j: te.sum(q[i, a] * k[j, a], a) * 0.25)
    top = te.compute((n,), lambda i: te.max(scores[i, b], b))
    weights = te.compute((n, m), lambda i, j: te.F.exp(scores[i, j] - top[i]))
    total = te.compute((n,), lambda i: te.sum(weights[i, c], c))
    return te.compute((n, v.shape[1]), lambda i, j: te.sum(weights[i, e] * v[e, j], e) / total[i])


@te.op
def binned(at, x):
    return te.scatter((4,), (x.shape[0],), lambda i: (at[i], x[i] * x[i]))


def cases(dtype: Any) -> Any:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(dtypes.as_dtype(dtype))

    yield blurred, (normal(50), normal(3))
    yield attended, (normal(6, 16), normal(9, 16), normal(9, 5))
    yield binned, (rng.integers(0, 4, 300), normal(300))


def with_gradients(op: Any, arrays: Any) -> tuple[Any, list[Any]]:
    inputs = [iv.asarray(a, requires_grad=dtypes.is_inexact(a.dtype)) for a in arrays]
    y = op(*inputs)
    weights = iv.asarray(np.linspace(1, 2, y.size).reshape(y.shape).astype("float32"))
    found = iv.autograd.grad(y, [x for x in inputs if x.requires_grad], weights.astype(y.dtype))
    return y.detach(), list(found)


@half
def test_results_and_gradients_are_those_of_single_precision_rounded(dtype):
    eps = iv.finfo(dtype).eps
    for op, arrays in cases(dtype):
        y, gradients = with_gradients(op, arrays)
        wide = [a.astype("float32") if dtypes.is_half(a.dtype) else a for a in arrays]
        y32, gradients32 = with_gradients(op, wide)
        for found, expected in zip((y, *gradients), (y32, *gradients32), strict=True):
            assert str(found.dtype) == dtype
            f, e = (x.astype("float32").numpy() for x in (found, expected))
            assert np.abs(f - e).max() <= 1.5 * eps * np.abs(e).max()
        np.testing.assert_allclose(y.astype("float32").numpy(), y32.numpy(), rtol=eps, atol=1e-6)


@half
def test_it_is_all_compiled_and_sums_are_in_float32(dtype):
    """Not one statement is left to the interpreter; buffers that add up are float32."""
    for op, arrays in cases(dtype):
        with_gradients(op, arrays)
        own = op.expression
        for expression in (own, *own._derived.values()):
            for made in expression._compiled.values():
                lowered = made.lowered
                assert "interpret" not in lowered.source
                for s in lowered.program.statements:
                    assert s.combine == "assign" or not dtypes.is_half(s.tensor.dtype)
    assert not isinstance(blurred.expression.op, JointOp)


@half
def test_sums_do_not_stop_growing(dtype):
    @te.op
    def summed(x):
        k = te.reduce_axis(x.shape[0])
        return te.compute((), lambda: te.sum(x[k], k))

    ones = iv.ones(5000, dtype=dtype)
    assert summed(ones) == np.asarray(5000.0).astype(ones.dtype)
    assert str(summed(ones).dtype) == dtype


def test_what_is_mixed_is_single():
    x, w = iv.ones(9, dtype="float16"), iv.ones(3, dtype="bfloat16")
    assert blurred(x, w).dtype == iv.float32
    assert blurred(x, w.astype("float32")).dtype == iv.float32
    assert blurred(x, w.astype("float64")).dtype == iv.float64
