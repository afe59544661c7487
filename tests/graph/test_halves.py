"""Compiled functions of float16 and bfloat16: as eager ones, and as native as those of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import nn, optim
from iverson.core import dtypes
from iverson.core.counting.factorisations import FACTORISATIONS
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.verify import check
from iverson.graph.lowering.graph_lowering import Library, Lowered, Native, lower
from iverson.graph.passes import simplified
from iverson.graph.passes.half_precision import halves
from iverson.layouts import to_strided
from iverson.ops.linear_algebra.decomposition_ops import ITERATIONS
from tests.conformance.product import EXHAUSTIVE, SEED, ops, some
from tests.graph.programs import as_tuple, calls_of, traced

pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::iverson.errors.DensifyWarning")

HALVES = ("float16", "bfloat16")
half = pytest.mark.parametrize("dtype", HALVES)
SINGLE = np.dtype("float32")


def drawn_ops(count: int = 16) -> list[str]:
    known = sorted(set(ops()) - {*FACTORISATIONS, *ITERATIONS, "pack", "unpack"})
    chosen = np.random.default_rng(SEED).permutation(len(known))[: None if EXHAUSTIVE else count]
    return [known[k] for k in sorted(chosen)]


def library_of(lowered: Lowered) -> set[str]:
    return {s.equation.op.name for s in lowered.steps if isinstance(s, Library)}


def within_one_unit(found: Any, expected: Any) -> None:
    """Functions in single precision differ in their last bits, and so may be rounded apart."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if not dtypes.is_half(expected.dtype):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        return
    f, e = found.astype("float64"), expected.astype("float64")
    info = dtypes.finfo(expected.dtype)
    finite = np.isfinite(e)
    np.testing.assert_array_equal(f[~finite], e[~finite])
    np.testing.assert_allclose(f[finite], e[finite], rtol=float(info.eps), atol=float(info.smallest_normal))


@pytest.mark.parametrize("name", drawn_ops())
def test_an_op_is_lowered_as_that_of_single_precision(name):
    dtype = dtypes.as_dtype(HALVES[len(name) % 2])
    for call in calls_of(name)[:1]:
        if not call.args:
            continue
        args = [a.astype(dtype) for a in call.args]
        graph = traced(call.function, args)
        wide = lower(simplified(traced(call.function, [a.astype(SINGLE) for a in args])))
        made = check(simplified(graph))
        assert str(halves(made)) == str(made)
        lowered = lower(made)
        needed = library_of(wide)
        assert library_of(lowered) <= needed | ({"astype"} if needed else set())
        expected = [x.to_dense().numpy() for x in interpret(graph, [iv.asarray(a) for a in args])]
        for x, e in zip(lowered(args), expected, strict=True):
            within_one_unit(to_strided(x), e)


@half
def test_compiled_functions_and_gradients_give_what_eager_ones_give(dtype):
    """Where each op is rounded as in eager code, so bit for bit but for the last bits of functions."""
    rng = np.random.default_rng(0)
    x, w = (iv.asarray(rng.standard_normal(s), dtype=dtype) for s in ((9, 20), (20, 7)))

    def network(x: Any, w: Any) -> Any:
        y = nn.layer_norm(x, (20,)) @ w
        return iv.where(y > 0, y, 0.1 * y), nn.softmax(y, -1).sum(axis=0), iv.concat([x.T, w], axis=1)[::2]

    def loss(x: Any, w: Any) -> Any:
        first, second, _ = network(x, w)
        return (first * first).sum() + second[0]

    def pushed(x: Any, w: Any) -> Any:
        return (*iv.jvp(loss, (x, w), (x, w)), iv.vmap(lambda v: v * 2 + v)(x))

    for f in some(dtype, (network, iv.grad(loss, (0, 1)), pushed), 2):
        for found, expected in zip(as_tuple(iv.jit(f)(x, w)), as_tuple(f(x, w)), strict=True):
            assert str(found.dtype) == dtype
            near = np.abs(found.astype("float64").numpy() - expected.astype("float64").numpy())
            assert (near <= 2 * iv.finfo(dtype).eps * np.abs(expected.astype("float64").numpy()).max()).all()


@half
def test_half_precision_is_read_and_written_by_one_native_call(dtype):
    args = [np.ones((8, 16), SINGLE).astype(dtypes.as_dtype(dtype))] * 2
    lowered = lower(simplified(traced(lambda a, b: (iv.exp(a) * b + a).T, args)))
    (step,) = lowered.steps
    assert isinstance(step, Native)
    (nest,) = step.compiled.program.steps
    assert {str(b.dtype) for b in nest.kernel.buffers} == {dtype}
    assert lowered.source.count(f": {dtype}") >= 2
    product = lower(simplified(traced(lambda a, b: a @ b.T, args)))
    assert all(isinstance(s, Native) for s in product.steps)


@half
def test_loops_and_optimizers_are_compiled(dtype):
    def run(x: Any) -> Any:
        return iv.scan(lambda h, v: (h * 0.5 + v, h), x[0], x)[0]

    x = iv.asarray(np.random.default_rng(0).standard_normal((6, 5)), dtype=dtype)
    within_one_unit(iv.jit(run)(x).numpy(), run(x).numpy())
    p, q = (iv.ones(5, dtype=dtype, requires_grad=True) for _ in range(2))
    steps = optim.SGD([p], lr=0.5, momentum=0.5), optim.SGD([q], lr=0.5, momentum=0.5)

    def train(leaf: Any, own: Any) -> Any:
        (leaf * x).sum().backward()
        own.step()
        own.zero_grad()

    compiled = iv.jit(lambda: train(p, steps[0]))
    for _ in range(3):
        compiled()
        train(q, steps[1])
    within_one_unit(p.detach().numpy(), q.detach().numpy())
