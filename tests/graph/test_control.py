"""Loops and branches are steps of a program: what they compute, how often, and what compiling costs."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import iverson as iv
from iverson.codegen.programs import Branch, Nest, Product, Repeat
from iverson.codegen.programs import interpret as programs
from iverson.codegen.programs.nodes import walk
from iverson.graph.lowering import disk_cache
from iverson.graph.lowering.graph_lowering import Native, lower
from iverson.graph.passes import simplified
from tests.conformance.product import examples
from tests.graph.loops import Library, Loop, arguments, compiled_after, loops
from tests.graph.programs import close
from tests.tools.entered import python_calls

OURS = Library(iv, iv.scan, iv.cond)
RNG = np.random.default_rng(1)
W, V = RNG.normal(size=(3, 3)) * 0.5, RNG.normal(size=(3, 3)) * 0.5
H, XS = RNG.normal(size=3), RNG.normal(size=(6, 3))


def program_of(f: Any, *args: Any) -> tuple[Native, list[Any]]:
    """The program of a function, which is all of it, and its arguments in order."""
    graph = iv.jit(f).graph(*args)
    (step,) = lower(simplified(graph)).steps
    assert isinstance(step, Native)
    return step, [args[graph.inputs.index(v)] for v in step.inputs]


def contents(f: Any, *args: Any) -> Counter[type]:
    step, _ = program_of(f, *args)
    return Counter(type(s) for s in walk(step.compiled.program.steps))


def rnn(w: Any, v: Any, h: Any, xs: Any, **how: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        c = iv.tanh(c @ w.T + x @ v)
        return c, c * x

    c, ys = iv.scan(step, h, xs, **how)
    return iv.sum(c) + iv.sum(ys**2)


def newton(w: Any, v: Any, h: Any, xs: Any) -> Any:
    """Square roots by Newton's method, as many steps as they need."""
    target = iv.sum(xs**2, axis=0) + 1

    def more(c: Any) -> Any:
        return iv.max(abs(c[0] ** 2 - target)) > 1e-12

    root, count = iv.while_loop(
        more, lambda c: ((c[0] + target / c[0]) / 2, c[1] + 1), (target, iv.asarray(0))
    )
    return iv.sum(root @ w), count


def by_sign(w: Any, v: Any, h: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        c = iv.cond(iv.sum(x) > 0, lambda c: iv.sin(c @ w), lambda c: iv.exp(-c) * c[0], c)
        return c, iv.cond(c[0] > c[1], lambda: c, lambda: x)

    c, ys = iv.scan(step, h, xs)
    return iv.sum(c) + iv.sum(ys * xs)


def nested(w: Any, v: Any, h: Any, xs: Any) -> Any:
    """Loops in a loop, one of them ended by entries, and a product that counts along a view of slices."""

    def step(c: Any, x: Any) -> Any:
        d, rows = iv.scan(lambda d, row: (iv.tanh(d + row @ v), d[1]), c, w.T)
        e = iv.fori_loop(0, 3, lambda k, e: iv.sin(e) + k, d)
        return e, (rows, iv.cumulative_sum(d))

    c, (rows, sums) = iv.scan(step, h, iv.permute_dims(iv.stack([xs, xs]), (1, 2, 0))[:, :, 0])
    return iv.sum(c) + iv.sum(rows * sums)


def recomputed(w: Any, v: Any, h: Any, xs: Any) -> Any:
    return rnn(w, v, h, xs, checkpoint=2, reverse=True) + iv.checkpoint(lambda h: iv.sum(iv.sin(h @ w)))(h)


LOOPS = {"rnn": rnn, "by sign": by_sign, "nested": nested, "recomputed": recomputed}
AT = (0, 1, 2, 3)


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_and_its_gradient_are_one_program(name: str) -> None:
    """The program, the interpreter of programs, the graph op by op, and eager: the same."""
    f = iv.value_and_grad(LOOPS[name], AT)

    def flat(*args: Any) -> Any:
        value, gradients = f(*args)
        return (value, *gradients)

    args = (W, V, H, XS)
    step, arrays = program_of(flat, *args)
    expected = flat(*map(iv.asarray, args))
    with iv.explain.count() as count:
        found = iv.jit(flat)(*args)
    for a, b in zip(found, expected, strict=True):
        close(a, b)
    with iv.explain.count() as by_ops:
        for a, b in zip(iv.jit(flat, interpret=True)(*args), expected, strict=True):
            close(a, b)
    assert count.product_shapes == by_ops.product_shapes
    assert count.products > 0
    interpreted = programs.run(step.compiled.program, arrays)
    for a, b in zip(step.compiled.run(tuple(arrays)), interpreted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_a_loop_ended_by_entries_is_one_program() -> None:
    args = (W, V, H, XS)
    step, _ = program_of(newton, *args)
    assert sum(s.trips is None for s in walk(step.compiled.program.steps) if isinstance(s, Repeat)) == 1
    expected = newton(*map(iv.asarray, args))
    with iv.explain.count() as count:
        found = iv.jit(newton)(*args)
    for a, b in zip(found, expected, strict=True):
        close(a, b)
    assert count.calls["divide"] == 2 * int(expected[1])
    tangents = (np.ones_like(W), V, H, np.ones_like(XS))
    pushed = [iv.jvp(f, args, tangents)[1][0] for f in (newton, iv.jit(newton))]
    close(pushed[1], pushed[0])


@pytest.mark.parametrize("name", ["rnn", "by sign", "nested"])
def test_compiling_a_loop_costs_the_same_for_any_number_of_steps(name: str) -> None:
    sizes = []
    for length in (16, 512):
        found = contents(iv.value_and_grad(LOOPS[name], AT), W, V, H, RNG.normal(size=(length, 3)))
        assert found[Repeat] >= 2
        sizes.append(found)
    assert sizes[0] == sizes[1]
    assert sizes[0][Nest] + sizes[0][Product] + sizes[0][Branch] < 120


def test_a_loop_of_slices_is_linear_in_its_steps() -> None:
    """The gradient of a sum of functions of x[t]: work and memory grow with x, the program does not."""

    def f(x: Any) -> Any:
        return iv.scan(lambda c, x: (c + iv.sum(iv.sin(x)), None), iv.asarray(0.0), x)[0]

    sizes, arenas = [], []
    for length in (64, 512):
        step, _ = program_of(iv.grad(f), RNG.normal(size=(length, 4)))
        sizes.append(len(step.compiled.source.splitlines()))
        arenas.append(step.compiled.arena.bytes)
    assert sizes[0] == sizes[1]
    assert arenas[1] <= 8.1 * arenas[0]


def test_what_a_loop_carries_is_in_one_place_and_products_are_added_to_it() -> None:
    """The gradient of weights over all steps is two products of BLAS a step, and nothing is moved."""
    args = [RNG.normal(size=s) * 0.1 for s in ((40, 40), (40, 40), (2, 40), (5, 2, 40))]
    f = iv.grad(rnn, AT)
    step, _ = program_of(f, *args)
    steps = list(walk(step.compiled.program.steps))
    loops = [s for s in steps if isinstance(s, Repeat)]
    assert len(loops) == 2
    assert not any(s.swaps for s in loops)
    assert Counter(s.beta for s in steps if isinstance(s, Product)) == {0: 4, 1: 2}
    for a, b in zip(iv.jit(f)(*args), f(*map(iv.asarray, args)), strict=True):
        close(a, b)


@pytest.mark.parametrize("checkpoint", [True, 8])
def test_a_checkpointed_loop_keeps_less(checkpoint: Any) -> None:
    """Of 64 steps that keep 3 vectors each, a loop that runs steps again keeps carries."""

    def f(h: Any, xs: Any, **how: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = iv.sin(iv.sin(iv.sin(iv.sin(c + x))))
            return c, None

        return iv.sum(iv.scan(step, h, xs, **how)[0])

    h, xs = RNG.normal(size=64), RNG.normal(size=(64, 64))
    kept, again = (
        program_of(iv.grad(lambda *a: f(*a, checkpoint=how), (0, 1)), h, xs)[0].compiled.arena.bytes  # noqa: B023
        for how in (False, checkpoint)
    )
    assert again <= 0.4 * kept


@pytest.mark.parametrize("width", [0, 3])
def test_a_tangent_may_read_what_no_cotangent_does(width: int) -> None:
    """Of parameters without entries no pullback reads anything: what tangents read is computed again."""
    index, xs = np.arange(width) % 2, iv.asarray(RNG.normal(size=(4, 2)))
    p, t = (iv.asarray(RNG.normal(size=(2, width))) for _ in range(2))

    def step(p: Any, h: Any, x: Any) -> Any:
        factors = 1 + iv.tanh(iv.take(h, iv.asarray(index), axis=0)) * iv.ones((2, 1))
        h = iv.tanh(h + iv.sum(iv.special.log_softmax(p * factors, axis=1))) + x
        return h, h * x[0]

    def unrolled(p: Any) -> Any:
        h, ys = iv.ones(2), []
        for x in xs:
            h, y = step(p, h, x)
            ys.append(y)
        return iv.stack(ys)

    found = iv.jvp(lambda p: iv.scan(lambda h, x: step(p, h, x), iv.ones(2), xs)[1], (p,), (t,))
    for a, b in zip(found, iv.jvp(unrolled, (p,), (t,)), strict=True):
        close(a, b)


@given(loops())
@settings(max_examples=examples(10), phases=[Phase.explicit, Phase.generate])
def test_random_loops_agree(loop: Loop) -> None:
    args = arguments()

    def f(*args: Any) -> Any:
        value, gradients = iv.value_and_grad(
            lambda *a: loop(OURS, *a, checkpoint=loop.checkpoint), (0, 1, 2)
        )(*args)
        return (value, *gradients)

    def in_compiled_loops(*args: Any) -> Any:
        with compiled_after(0):
            return f(*map(iv.asarray, args))

    expected = f(*map(iv.asarray, args))
    for g in (iv.jit(f, interpret=True), iv.jit(f), in_compiled_loops):
        for a, b in zip(g(*args), expected, strict=True):
            close(a, b)


def _sums(h: Any, xs: Any) -> Any:
    c, ys = iv.scan(lambda c, x: (d := iv.tanh(c * 0.5 + x), d * x), h, xs)
    return iv.sum(c) + iv.sum(ys)


def _until(h: Any, x: Any) -> Any:
    return iv.while_loop(lambda c: c[0] < 40, lambda c: (c[0] + 1, iv.sin(c[1] + x)), (0, h))[1].sum()


def _part(h: Any, xs: Any) -> Any:
    """Of the last carry, one entry: its cotangent is a box until a step has filled it."""
    return iv.scan(lambda c, x: (iv.tanh(c * 0.5 + iv.sum(c) * x), None), h, xs)[0][1]


@pytest.mark.parametrize("name", ["scan", "scan, a part", "while_loop"])
def test_a_loop_of_many_steps_in_eager_code_is_compiled_once_it_has_paid_for_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "read", lambda key: None)

    def derivative(h: Any, xs: Any) -> Any:
        if name == "while_loop":
            return iv.jvp(_until, (h, xs[0]), (xs[1], h))
        return iv.value_and_grad(_sums if name == "scan" else _part)(h, xs)

    inputs = [(iv.asarray(RNG.normal(size=5)), iv.asarray(RNG.normal(size=(n, 5)))) for n in range(20, 40)]
    expected = [derivative(*x) for x in inputs]
    before = len(iv.explain.compilations())
    with compiled_after(500):
        found = [derivative(*x) for x in inputs]
        few, many = (python_calls(lambda x=x: derivative(*x)) for x in (inputs[0], inputs[-1]))
    # A second number of steps is of any number; the loop and its derivative have different steps.
    new = iv.explain.compilations()[before:]
    assert {(c.name, c.reason) for c in new} == {(name.partition(",")[0], "a loop of many steps")}
    assert len(new) <= 4
    assert many - few < 5 * 19  # an op for each further step enters more
    for got, want in zip(found, expected, strict=True):
        for a, b in zip(got, want, strict=True):
            close(a, b)


def _unrolled(body: Any, steps: int, x: Any) -> Any:
    for _ in range(steps):
        x = body(x)
    return x


def _while(body: Any, steps: int, x: Any) -> Any:
    return iv.while_loop(lambda c: c[0] < steps, lambda c: (c[0] + 1, body(c[1])), (0, x))[1]


ROOTS = {
    "scan": lambda n, x: iv.scan(lambda c, _: (iv.sqrt(c), None), x, None, length=n)[0],
    "results of a scan": lambda n, x: iv.scan(lambda c, _: (iv.sqrt(c),) * 2, x, None, length=n)[1][n - 1],
    "fori_loop": lambda n, x: iv.fori_loop(0, n, lambda _, c: iv.sqrt(c), x),
    "while_loop": lambda n, x: _while(iv.sqrt, n, x),
    "while_loop with max_steps": lambda n, x: iv.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, iv.sqrt(c[1])), (0, x), max_steps=n
    )[1],
    "checkpoint": lambda n, x: _unrolled(iv.checkpoint(iv.sqrt), n, x),
    "cond": lambda n, x: _unrolled(lambda c: iv.cond(c[1] > -1, iv.sqrt, lambda c: 2 * c, c), n, x),
}
OF_DERIVATIVES = {
    "eager": lambda d, f: d(f),
    "jit of it": lambda d, f: iv.jit(d(f)),
    "it of jit": lambda d, f: d(iv.jit(f)),
    "interpreted": lambda d, f: iv.jit(d(f), interpret=True),
    "vmap": lambda d, f: lambda x: iv.vmap(d(f))(iv.stack([x, x]))[0],
}


@pytest.mark.parametrize("way", OF_DERIVATIVES)
@pytest.mark.parametrize("name", ROOTS)
def test_zeros_outside_of_a_box_stay_zeros_beside_infinities(name: str, way: str) -> None:
    """The root of zero has an infinite derivative, which nothing reads: neither in loops nor in branches."""
    loop, of = ROOTS[name], OF_DERIVATIVES[way]
    put = lambda a: iv.concat([iv.expand_dims(a, 0), iv.zeros(2)])
    along = lambda f: lambda a: iv.jvp(f, (a,), (iv.asarray(1.0),))[1]
    for steps in (1, 2, 5):
        slope = 0.5 ** (0.5**steps - 1) * 0.5**steps
        with compiled_after(0), np.errstate(all="ignore"):
            pushed = of(along, lambda a, n=steps: loop(n, put(a)))(iv.asarray(0.5))
            np.testing.assert_allclose(pushed.numpy(), [slope, 0, 0], rtol=1e-12)
            if name != "while_loop":  # which has no gradient
                pulled = of(iv.grad, lambda x, n=steps: loop(n, x)[1])(iv.asarray([0.0, 0.5]))
                np.testing.assert_allclose(pulled.numpy(), [0, slope], rtol=1e-12)


def test_a_derivative_of_a_loop_computes_inside_the_box_of_its_carry() -> None:
    """Rows do not mix, so the cotangent of one is a box of it in all steps."""
    f = lambda x: iv.sum(iv.scan(lambda c, _: (iv.sin(c), None), x, None, length=50)[0][2])
    x = iv.asarray(RNG.normal(size=(100, 7)))
    (last,) = [e for e in iv.jit(iv.grad(f)).graph(x).equations if e.op.name == "scan"][1:]
    assert [v.shape for v in last.results] == [(1, 7)]
    close(iv.jit(iv.grad(f))(x), iv.grad(f)(x))
    with iv.explain.count() as done:
        iv.grad(f)(x)
    assert sum(done.elementwise.values()) < 3 * 50 * 700


@pytest.mark.parametrize("how", ["oracle", "disabled", "checked", "patient"])
def test_where_loops_run_op_by_op(how: str) -> None:
    """In the interpreter as an oracle, without jit, under checks, and while they are short."""
    inputs = iv.asarray(RNG.normal(size=5)), iv.asarray(RNG.normal(size=(30, 5)))
    around = {"disabled": iv.disable_jit, "checked": iv.debug.nans}.get(how, nullcontext)
    f = iv.jit(iv.grad(_sums), interpret=True) if how == "oracle" else iv.grad(_sums)
    before = len(iv.explain.compilations())
    with compiled_after(10_000 if how == "patient" else 0), around():
        f(*inputs)
    assert len(iv.explain.compilations()) == before


@pytest.mark.peers
@given(loops())
@settings(max_examples=examples(10), phases=[Phase.explicit, Phase.generate])
def test_random_loops_agree_with_jax(loop: Loop) -> None:
    jax = pytest.importorskip("jax", reason="JAX is the oracle")
    theirs = Library(jax.numpy, jax.lax.scan, jax.lax.cond)
    args = arguments()
    with jax.enable_x64(True):
        value, gradients = jax.value_and_grad(lambda *a: loop(theirs, *a), (0, 1, 2))(*args)
    found = iv.jit(iv.value_and_grad(lambda *a: loop(OURS, *a), (0, 1, 2)))(*args)
    for a, b in zip((found[0], *found[1]), (value, *gradients), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-11)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a timer of POSIX")
def test_a_signal_ends_a_native_loop():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    endless = iv.jit(lambda x: iv.while_loop(lambda v: iv.all(v < 9), lambda v: v * 0.5 + 1, x))
    assert endless(iv.asarray([10.0])).tolist() == [10.0]
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Alarm):
            endless(iv.asarray([1.0]))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert endless(iv.asarray([10.0])).tolist() == [10.0]


def test_tangents_in_one_direction_are_carried_once():
    """A step of the n-th derivative along v has n tangents, and a product of each: it had 2^n - 1."""
    w, x, v, u = (iv.asarray(RNG.normal(size=s) / 3) for s in ((6, 6), (6, 4), (6, 4), (6, 4)))

    def loop(x):
        return iv.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, iv.tanh(w @ c[1])), (0, x))[1]

    def along(f, v):
        return lambda x: iv.jvp(f, (x,), (v,))[1]

    def steps(x):
        for _ in range(10):
            x = iv.tanh(w @ x)
        return x

    cases = [([], 10), ([v], 20), ([v, v], 30), ([v, u], 40), ([v, v, v], 40)]
    for directions, products in cases:
        f, expected = loop, steps
        for d in directions:
            f, expected = along(f, d), along(expected, d)
        compiled = iv.jit(f)
        compiled(x)
        with iv.explain.count() as done:
            found = compiled(x)
        assert done.products == products
        np.testing.assert_allclose(found.numpy(), expected(x).numpy(), rtol=1e-11, atol=1e-13)


def test_carries_that_start_the_same_and_part_are_two():
    """Also where they part after some steps: of a chain of carries, each begins to differ a step later."""
    x = iv.asarray(RNG.normal(size=5))

    def chain(x):
        return iv.fori_loop(0, 5, lambda k, c: (c[0] * 2, c[0], c[1], c[2], c[3]), (x, x, x, x, x))

    def pair(x):
        return iv.scan(lambda c, y: ((c[0] + y[0], c[1] + y[1]), c[0] * c[1]), (x[0], x[0]), (x, x))

    def crossed(x):
        return iv.while_loop(lambda c: c[2] < 3, lambda c: (c[1] + 1, c[0] + 1, c[2] + 1), (x, x, 0))

    for f, carries in ((chain, 5), (pair, 1), (crossed, 2)):
        (equation,) = (
            simplified(iv.jit(f).graph(x)).equations[-1:]
            if f is not pair
            else (e for e in simplified(iv.jit(f).graph(x)).equations if e.op.name == "scan")
        )
        assert equation.op.name in ("scan", "while")
        assert len(equation.params["body"].inputs) == carries + {chain: 0, pair: 1, crossed: 0}[f]
        for g, want in zip(iv.jit(f)(x), f(x), strict=True):
            for a, b in zip(*(t if isinstance(t, tuple) else (t,) for t in (g, want)), strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-14)


def test_scans_of_the_same_steps_are_one():
    """A loop, and that loop with what its derivative reads: the n-th tangent along v is n + 1 loops."""
    w, x, v, u = (iv.asarray(RNG.normal(size=s) / 3) for s in ((6, 6), (6, 4), (6, 4), (6, 4)))

    def loop(x):
        return iv.fori_loop(0, 10, lambda _, x: iv.tanh(w @ x), x)

    def along(f, v):
        return lambda x: iv.jvp(f, (x,), (v,))[1]

    def both(x):
        step = lambda c, y: (iv.tanh(w @ c), c.sum() * y)
        first, sums = iv.scan(step, x, iv.arange(4.0))
        second, others = iv.scan(lambda c, y: (iv.tanh(w @ c), c * y), x, iv.arange(4.0))
        return first, sums, second, others, iv.scan(lambda c, y: (iv.sin(w @ c), c * y), x, iv.arange(4.0))[1]

    for directions, products in (([], 10), ([v], 20), ([v, v], 30), ([v, u], 40)):
        f = loop
        for d in directions:
            f = along(f, d)
        compiled = iv.jit(f)
        np.testing.assert_allclose(compiled(x).numpy(), f(x).numpy(), rtol=1e-11, atol=1e-13)
        with iv.explain.count() as done:
            compiled(x)
        assert done.products <= products
    compiled = iv.jit(both)
    for a, b in zip(compiled(x), both(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11, atol=1e-13)
    assert [e.op.name for e in simplified(compiled.graph(x)).equations].count("scan") == 2


AROUND_A_PRODUCT = {
    "checkpoint": lambda f, *x: iv.checkpoint(f)(*x),
    "cond": lambda f, *x: iv.cond(iv.sum(abs(x[0])) > 0, f, lambda *x: f(*x) * 2, *x),
    "loop": lambda f, *x: iv.fori_loop(0, 2, lambda _, c: c + f(*x), iv.zeros_like(f(*x))),
    "scan": lambda f, *x: iv.scan(lambda c, u: (c, f(*u)), iv.asarray(0.0), tuple(v[None] for v in x))[1],
}


@pytest.mark.parametrize("dtypes", ["dd", "Dd", "dD", "FF", "fd", "ed", "di"])
@pytest.mark.parametrize("name", AROUND_A_PRODUCT)
def test_factors_that_are_views_in_bodies(name: str, dtypes: str) -> None:
    """Products that BLAS does not know, of two dtypes or others than its own, read a transposed array too."""
    turned = {"D": 1j, "F": 1j}
    a, b = (
        iv.asarray((RNG.normal(size=s) * 3 + turned.get(d, 0.0) * RNG.normal(size=s)).astype(d))
        for s, d in zip(((5, 4), (2, 5)), dtypes, strict=True)
    )
    f = lambda a, b: AROUND_A_PRODUCT[name](lambda a, b: a @ b, (a * 2).T, (b * 2).T)
    expected = f(a, b)
    found = iv.jit(f)(a, b)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-2 if "e" in dtypes else 1e-5)
