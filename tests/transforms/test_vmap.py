"""`vmap` is a loop over examples whose results are stacked, for every op of the table."""

from __future__ import annotations

import contextlib
import itertools
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.core.aval import Aval, aval_of
from iverson.core.dispatch import bind, make_handle
from iverson.core.op import Op
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.verify import check
from iverson.graph.tracing.trace import trace_flat
from iverson.ops import TABLE, F, defined
from iverson.ops.rules import batching
from iverson.transforms import vmap
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns, dtypes_of, floating, samples_of
from tests.graph.programs import Call, as_tuple, calls_of, close, entries, loss_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SIZE = 3
NAMES = tuple(name for name, op in TABLE.items() if op.samples)  # those of other tests have none


def examples_of(args, which, seed=0):
    """Arguments of which those at some positions have examples, along their first axis."""
    rng = np.random.default_rng(seed)
    made = []
    for k, a in enumerate(args):
        scale = 1 + 0.01 * rng.random((SIZE, *(1,) * a.ndim))
        made.append((a * scale).astype(a.dtype) if k in which else a)
    return made


def looped(function, args, which):
    """The results of a loop over the examples."""
    found = [
        as_tuple(function(*(iv.asarray(a[k] if j in which else a) for j, a in enumerate(args))))
        for k in range(SIZE)
    ]
    return [np.stack([entries(f[j]) for f in found]) for j in range(len(found[0]))]


def agree(function, args, which):
    axes = tuple(0 if k in which else None for k in range(len(args)))
    found = as_tuple(vmap(function, axes)(*map(iv.asarray, args)))
    for f, expected in zip(found, looped(function, args, which), strict=True):
        close(f, make_handle(expected))


def subsets(count, seed):
    """The subsets of arguments that have examples: all of them, or a seeded one."""
    found = [s for n in range(1, count + 1) for s in itertools.combinations(range(count), n)]
    return found if EXHAUSTIVE or not found else [found[(SEED + seed) % len(found)]]


#: Ops that are carried out example by example where more than their values differ.
LOOPED = {"searchsorted"}


@pytest.mark.parametrize("name", NAMES)
def test_every_op(name, monkeypatch):
    looped = set()
    at = batching._at
    monkeypatch.setattr(batching, "_at", lambda F, k, e, args: looped.add(e.op.name) or at(F, k, e, args))
    for call in calls_of(name):
        for which in subsets(len(call.args), call.number):
            agree(call.function, examples_of(call.args, which), which)
    assert looped <= LOOPED


def gradient_of(call):
    return iv.grad(loss_of(call.function), tuple(range(len(call.args))))


def differentiable(name):
    return TABLE[name].differentiable


@pytest.mark.parametrize("name", by_turns((n for n in NAMES if differentiable(n)), 3))
def test_gradients_in_and_through(name):
    calls = calls_of(name)
    for call in calls if EXHAUSTIVE else calls[SEED % len(calls) :][:1]:
        for which in subsets(len(call.args), call.number):
            args = examples_of(call.args, which)
            with warnings.catch_warnings(), contextlib.suppress(iv.errors.MissingRuleError):
                warnings.simplefilter("ignore")
                agree(gradient_of(call), args, which)
                through(call, args, which)


def through(call, args, which):
    axes = tuple(0 if k in which else None for k in range(len(args)))
    handles = list(map(iv.asarray, args))
    places = tuple(range(len(args)))
    loss = loss_of(call.function)
    total = iv.grad(lambda *xs: vmap(loss, axes)(*xs).sum(), places)(*handles)
    singles = looped(gradient_of(call), args, which)
    for k, (found, each) in enumerate(zip(total, singles, strict=True)):
        close(found, make_handle(np.asarray(each if k in which else each.sum(0))), 1e-8)


@te.op
def blurred(x, w):
    n = x.shape[0] - 2
    k = te.reduce_axis((0, 3))
    return te.compute((n,), lambda i: te.sum(x[i + k] * w[k], axis=k) + te.F.sin(x[i]))


@te.op(results=2)
def scattered(x, at):
    total = te.scatter((4,), (x.shape[0],), lambda e: (at[e], x[e] * x[e]))
    return total, te.compute((2,), lambda i: total[i] + total[i + 2])


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_tensor_expressions_gain_an_index(which):
    args = examples_of((np.linspace(0, 2, 6), np.array([1.0, -2.0, 0.5])), which)
    agree(blurred, args, which)
    agree(iv.grad(lambda x, w: (blurred(x, w) ** 2).sum(), (0, 1)), args, which)
    through(Call("blurred", 0, lambda x, w: (blurred(x, w),), tuple(args)), args, which)


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_tensor_expressions_that_scatter(which):
    x, at = examples_of((np.linspace(0, 2, 5), np.array([0, 3, 3, 1, 0])), which)
    at = (at + np.arange(SIZE)[:, None]) % 4 if 1 in which else at
    agree(scattered, (x, at), which)
    agree(iv.grad(lambda x, at: (scattered(x, at)[1] ** 2).sum()), (x, at), which)


def test_an_op_without_a_rule_is_carried_out_one_by_one():
    op = Op(
        name="halved_lines",
        forward=lambda x, *, by: x[: len(x) // by],
        abstract=lambda x, *, by: Aval((x.shape[0] // by, *x.shape[1:]), x.dtype),
        linear_in=((0,),),
    )
    x = iv.asarray(np.arange(12.0).reshape(3, 4))
    with defined(op), pytest.warns(iv.errors.BatchWarning, match="'halved_lines'.*batch"):
        found = vmap(lambda x: F.halved_lines(x, by=2))(x)
    np.testing.assert_array_equal(found.numpy(), x.numpy()[:, :2])


def test_batches_of_sparse_matrices():
    """Each example has a pattern of its own."""
    dense = np.random.default_rng(0).normal(size=(3, 4, 5)) * (np.arange(60).reshape(3, 4, 5) % 7 < 3)
    y = iv.asarray(np.linspace(-1, 1, 15).reshape(3, 5))
    slices = iv.sparse_csr_tensor([0, 2, 3], [0, 2, 1], np.arange(12.0).reshape(3, 4), (2, 3, 4))
    per = vmap(iv.grad(lambda s, x: ((s * s) @ x).sum()), in_axes=(0, None))(slices, iv.ones((4, 2)))
    np.testing.assert_allclose(per.to_dense().numpy(), 4 * slices.numpy())
    for layout in ("csr", "csc", "coo"):
        s = iv.asarray(dense).to_layout(layout)
        found = vmap(lambda s, y: iv.tanh(s @ y) + (s * y).sum(axis=1))(s, y)
        expected = np.einsum("bij,bj->bi", dense, y.numpy())
        np.testing.assert_allclose(found.numpy(), np.tanh(expected) + expected, rtol=1e-12)
        g = vmap(iv.grad(lambda s: (s * s).sum()))(s)
        assert g.layout == layout
        np.testing.assert_array_equal(g.to_dense().numpy(), 2 * dense)


def test_a_batch_is_traced():
    x = np.random.default_rng(0).normal(size=(3, 4))
    graph, captured, _ = trace_flat(
        lambda h: ([vmap(iv.grad(lambda r: iv.sum(iv.sin(r) * r)))(h)], None), [aval_of(x)]
    )
    assert not captured
    (found,) = interpret(check(graph), [iv.asarray(x)])
    np.testing.assert_allclose(found.numpy(), np.sin(x) + x * np.cos(x), rtol=1e-12)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, in its own code
def test_against_jax_and_torch():
    """Per-sample gradients, Hessians and Jacobians, axes given in all places."""
    import jax
    import jax.numpy as jnp
    import torch

    rng = np.random.default_rng(3)
    w, x = rng.normal(size=(4, 4)), rng.normal(size=(4, 5))

    def loss(xp):
        return lambda w, x: (xp.tanh(w @ x) * x).sum() + (w[0] * w[1]).sum()

    def of(xp, t, array):
        g = t.vmap(t.grad(loss(xp), (0, 1)), (None, 1), (2, 0))(array(w), array(x))
        h = t.vmap(t.hessian(lambda x: loss(xp)(array(w), x)), 1)(array(x))
        j = t.vmap(lambda x: t.vmap(lambda row: xp.sin(row @ x))(array(w)), 1, 1)(array(x))
        return [np.asarray(a) for a in (*g, h, j)]

    ours = of(iv, iv, iv.asarray)
    with jax.enable_x64(True):
        by_jax = of(jnp, jax, jnp.asarray)
    for theirs in (by_jax, of(torch, torch.func, torch.tensor)):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_no_examples_give_results_of_the_shapes_of_one():
    """Every op, its operands with no examples one after the other and together."""
    wrong = {}
    for name in NAMES:
        op = TABLE[name]
        for sample in samples_of(op, dtypes_of(op)[0]):
            at = floating(sample)
            out = op.infer(*map(aval_of, sample.args), **sample.params)
            expected = [(0, *x.shape) for x in (out if op.multiple else (out,))]
            for which in {at, *((k,) for k in at)} - {()}:

                def f(*given, op=op, sample=sample, which=which):
                    args = list(sample.args)
                    for k, x in zip(which, given, strict=True):
                        args[k] = x
                    found = bind(op, tuple(args), dict(sample.params))
                    return found if op.multiple else (found,)

                none = [np.zeros((0, *np.shape(sample.args[k])), sample.args[k].dtype) for k in which]
                found = [x.shape for x in vmap(f)(*map(iv.asarray, none))]
                if found != expected:
                    wrong[name, which] = found, expected
    assert not wrong, wrong
    assert iv.hessian(lambda x: (x @ x) * 0.3)(iv.zeros(0)).shape == (0, 0)
    assert iv.jacobian(lambda x: x @ x)(iv.zeros(0)).shape == (0,)
