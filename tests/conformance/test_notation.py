"""Ops said in index notation: compiled bodies against the table's, derived rules against hand-written."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.autograd import grad
from iverson.core.aval import Aval
from iverson.core.dispatch import bind
from iverson.core.errors import ArgumentError
from iverson.core.op import Op, Sample
from iverson.core.scalars import SCALARS
from iverson.core.table import overrides, pushforward_of
from iverson.handles import Tensor
from iverson.ops import TABLE, F, defined
from iverson.ops.rules.notation import lazy_te
from iverson.te.ir import interpret
from iverson.te.ops import operator
from iverson.te.ops.operator import Expression
from iverson.te.ops.preferred_rules import notation_of
from iverson.testing import gradcheck, gradgradcheck
from iverson.transforms import jvp, vjp
from tests.conformance.product import (
    EXHAUSTIVE,
    by_turns,
    dtypes_of,
    each,
    floating,
    ops,
    samples_of,
    some,
    turn,
)
from tests.te.oracles import Interpreted

#: Functions of orders have a derivative in index notation where these are numbers.
OF_ORDERS = {s.name: s.orders for s in SCALARS.values() if s.orders and TABLE[s.name].differentiable}
NAMES = (*(n for n in te.with_notation() if n in ops()), *OF_ORDERS)


def cases_of(name):
    return [(name, d, k) for d in dtypes_of(TABLE[name]) for k in range(len(samples_of(TABLE[name], d)))]


def setup(name, dtype, k):
    op = TABLE[name]
    sample = samples_of(op, dtype)[k]
    names = tuple(f"x{k}" for k in range(len(sample.args)))
    orders, build = OF_ORDERS.get(name, 0), notation_of(op)
    if orders:
        aval = op.infer(*map(np.asarray, sample.args))

        def build(*xs):
            return op.loops(te, aval, *sample.args[:orders], *xs[orders:])

    return op, sample, Expression(build, f"{name} in notation", names, multiple=False).op


def carried_out(check, case, compiled):
    """The check of a case, compiled or interpreted: compiling takes longest."""
    with pytest.MonkeyPatch.context() as patch:
        if not (compiled or EXHAUSTIVE):
            patch.setattr(operator, "lower", Interpreted)
        check(case)


@pytest.mark.parametrize("name", by_turns(NAMES, 4))
def test_the_notation_is_the_op(name):
    """Compiled for one sample of each dtype, by turns."""

    def checked(case):
        _, dtype, k = case
        carried_out(notation_is_the_op, case, k == turn(name, len(samples_of(TABLE[name], dtype))))

    each(checked, cases_of(name))


def notation_is_the_op(case):
    op, sample, said_op = setup(*case)
    wanted = bind(op, sample.args, dict(sample.params)).numpy()
    found = bind(said_op, sample.args, dict(sample.params)).numpy()
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", by_turns(NAMES, 4, 1))
def test_derived_rules_agree_with_hand_written_ones(name):
    """In the dtype whose turn it is; every second op's are compiled, for its first sample."""
    own = some(name, dtypes_of(TABLE[name]))
    cases = [c for c in cases_of(name) if c[1] in own]
    compiled = cases[: 1 - turn(f"{name} compiled", 2)]
    each(lambda case: carried_out(derived_rules_agree, case, case in compiled), cases)


def derived_rules_agree(case):
    op, sample, said_op = setup(*case)
    rng = np.random.default_rng(0)

    def draw(like):
        x = rng.standard_normal(like.shape)
        return Tensor(np.asarray(x + 1j * rng.standard_normal(like.shape) if like.dtype.kind == "c" else x))

    positions = floating(sample)
    primals = [Tensor(np.array(sample.args[i])) for i in positions]

    def calls(which):
        def function(*xs):
            args = list(sample.args)
            for position, x in zip(positions, xs, strict=True):
                args[position] = x
            return bind(which, tuple(args), dict(sample.params))

        return function

    y, by_hand = vjp(calls(op), *primals)
    _, derived = vjp(calls(said_op), *primals)
    g = draw(y)
    for a, b in zip(derived(g), by_hand(g), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11, atol=1e-12)
    tangents = [draw(x) for x in primals]
    _, by_hand_t = jvp(calls(op), primals, tangents)
    _, derived_t = jvp(calls(said_op), primals, tangents)
    np.testing.assert_allclose(derived_t.numpy(), by_hand_t.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [name for name, op in TABLE.items() if op.loops is not None])
def test_the_loops_of_a_record_are_the_op(name):
    each(
        loops_are_the_op,
        [(name, d, k) for d in ("float32", "float64") for k in range(len(samples_of(TABLE[name], d)))],
    )


def loops_are_the_op(case):
    name, dtype, k = case
    op = TABLE[name]
    sample = samples_of(op, dtype)[k]
    arrays = [np.asarray(a) for a in sample.args]
    aval = op.infer(*arrays, **sample.params)
    if aval.dtype.kind == "c" or 0 in aval.shape:  # no loop is made for these
        return
    placeholders = [te.placeholder(a.shape, a.dtype) for a in arrays]
    said = op.loops(te, aval, *placeholders, **sample.params)
    if said is None:  # not with these parameters
        return
    program = te.program_of([said])
    given = [arrays[placeholders.index(t)] for t in program.inputs]
    (found,) = interpret.run(program, given)
    wanted = bind(op, sample.args, dict(sample.params)).numpy()
    assert found.shape == wanted.shape == aval.shape
    rtol = 1e-5 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)


def both_modes(f, x):
    y, pulled = vjp(f, x)
    tangent = iv.ones_like(x)
    return [y.numpy(), *(g.numpy() for g in pulled(iv.ones_like(y))), jvp(f, (x,), (tangent,))[1].numpy()]


def test_derived_rules_are_preferred_for_one_op_for_all_and_back():
    x = Tensor(np.array([0.5, -1.0]))
    with te.prefer_derived("sin"):
        assert set(overrides()) == {"sin", pushforward_of("sin")}
        np.testing.assert_allclose(both_modes(F.sin, x)[1:], [np.cos([0.5, -1.0])] * 2)

    def several(x):
        y = iv.softmax(F.stack(F.tanh(x), x * x, axis=0) @ x, axis=0)
        return iv.logsumexp(y) * iv.linalg.vector_norm(x) + iv.std(x)

    with te.prefer_derived():
        assert set(overrides()) == {k for n in te.with_notation() for k in (n, pushforward_of(n))}
        found = both_modes(several, x)
    assert not overrides()
    for a, b in zip(found, both_modes(several, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    for wrong, remedy in (("cholesky", "leave"), ("mean", "several"), (3, "several"), ([["sin"]], "several")):
        with pytest.raises(ArgumentError, match=f"an op with a te.*{remedy}"):
            te.prefer_derived(wrong if isinstance(wrong, (str, list)) else [wrong])


def test_preferring_shows_which_rules_run_eagerly_and_compiled_and_ends_with_the_block():
    """The hand-written rules of an op are made wrong, so that one sees which of them ran."""
    wrong = Op(
        name="cubed_wrongly",
        forward=lambda x: x**3,
        abstract=lambda x: Aval(x.shape, x.dtype),
        vjp=(lambda F, g, y, x: 0 * g,),
        jvp=(lambda F, t, y, x: 0 * t,),
        te=lazy_te(lambda T, x: T.compute(x.shape, lambda i: x[i] * x[i] * x[i])),
    )
    x = Tensor(np.array([1.0, 2.0]))
    right, none = [3.0, 12.0], [0.0, 0.0]
    with defined(wrong):
        compiled = iv.jit(lambda x: F.cubed_wrongly(x) + 0)

        def runs(f):
            return [list(v) for v in both_modes(f, x)[1:]]

        for f in (F.cubed_wrongly, compiled, iv.jit(lambda x: vjp(compiled, x)[1](iv.ones_like(x))[0])):
            modes = runs if f in (F.cubed_wrongly, compiled) else lambda f: [list(f(x).numpy())] * 2
            assert modes(f) == [none, none]
            with te.prefer_derived("cubed_wrongly"):
                assert modes(f) == [right, right]
            assert modes(f) == [none, none]
            with te.prefer_derived("cubed_wrongly"):
                size = getattr(f, "cache_size", 0)
                assert modes(f) == [right, right]
                assert getattr(f, "cache_size", 0) == size
        tracked = x.requires_grad_()
        y = compiled(tracked)  # what a compiled function keeps is for the rules of its call
        with te.prefer_derived("cubed_wrongly"):
            assert list(grad(y.sum(), tracked).numpy()) == none
        with te.prefer_derived("cubed_wrongly"):
            y = compiled(tracked)
        assert list(grad(y.sum(), tracked).numpy()) == right


def test_an_op_with_a_te_and_no_vjp_gets_one():
    smooth = Op(
        name="smooth",
        forward=lambda x: 0.5 * (x + np.roll(x, 1)) ** 2,
        abstract=lambda x: Aval(x.shape, x.dtype),
        te=lazy_te(
            lambda T, x: T.compute(x.shape, lambda i: 0.5 * T.F.square(x[i] + x[(i - 1) % x.shape[0]]))
        ),
        samples=lambda s: [Sample((s((4,)),))],
    )
    x = Tensor(np.random.default_rng(0).standard_normal(4)).requires_grad_()
    with defined(smooth):
        assert gradcheck(F.smooth, (x,))
        assert gradgradcheck(F.smooth, (x,))
