"""Ops in index notation on float16 and bfloat16: loops read half, compute in float32, and store half."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.autograd.joint_ops import JointOp
from iverson.core import dtypes
from iverson.te.ir.interpret import run
from iverson.te.lowering.lowered_program import Interpreted
from iverson.te.lowering.statement_lowering import lower

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
    """Not one statement is left to the interpreter; buffers that add up are float32."""
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


@half
def test_placeholders_of_half_precision_outside_of_ops_are_compiled(dtype: Any) -> None:
    """Functions of them are computed in float32 and rounded, totals once; compiled as interpreted."""
    A, k = te.placeholder((4, 5), dtype, "A"), te.reduce_axis(5, "k")
    at = te.placeholder((4,), "int64", "at")
    S = te.compute((4,), lambda i: te.sum(A[i, k] * A[i, k], k), "S")
    outputs = [
        S,
        te.compute((4,), lambda i: te.select(A[i, 0] > 1, A[i, 1] / 3, te.F.sqrt(A[i, 2])), "T"),
        te.compute((4,), lambda i: te.max(A[i, k] - 1, k), "M"),
        te.compute((4,), lambda i: te.argmin(A[i, k], k), "P"),
        te.scatter((3,), (4,), lambda i: (at[i], A[i, 0]), "B"),
        te.scan(
            4, lambda s: te.compute((4,), lambda t: s[t - 1] / 2 + A[t, 0], dtype=dtype), "R", dtype=dtype
        ),
        *te.differentiate(S, [A], te.placeholder((4,), dtype, "H")),
    ]
    program = te.program_of(outputs)
    rng = np.random.default_rng(0)
    feeds = {"A": rng.uniform(0.1, 2, (4, 5)), "H": rng.uniform(-1, 1, 4), "at": rng.integers(0, 3, 4)}
    feed = [feeds[p.name].astype(p.dtype) for p in program.inputs]
    lowered = lower(te.eliminate(program))
    assert not [s for s in lowered.steps if isinstance(s, Interpreted)]
    for t, a, b in zip(outputs, lowered(*feed), run(program, feed), strict=True):
        assert a.dtype == b.dtype == t.dtype
        near = 1e-2 if t.dtype.name == "bfloat16" else 2e-3
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=near)
    squares = np.asarray(feeds["A"].astype(dtypes.as_dtype(dtype)), "float32") ** 2
    rounded = squares.astype(dtypes.as_dtype(dtype)).astype("float32").sum(1).astype(dtypes.as_dtype(dtype))
    np.testing.assert_array_equal(np.asarray(run(program, feed)[0], "float32"), rounded.astype("float32"))
