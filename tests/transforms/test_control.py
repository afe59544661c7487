"""Control flow computes, to any order and in both modes, what the same loops and branches in Python do."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import optree
import pytest

import iverson as iv
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.parse import parse
from iverson.graph.ir.print import text_and_objects
from iverson.graph.ir.verify import check
from tests.conformance.product import some
from tests.graph.programs import close

T = 5
RNG = np.random.default_rng(0)
W, V = (iv.asarray(RNG.normal(size=(3, 3)) * 0.5) for _ in range(2))
XS = iv.asarray(RNG.normal(size=(T, 3)))
H = iv.asarray(RNG.normal(size=3))


def tree_close(found, expected):
    a, b = optree.tree_flatten(found), optree.tree_flatten(expected)
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        close(x, y)


def unrolled(f, init, xs=None, length=None, reverse=False, checkpoint=False):
    """`scan` as a Python loop."""
    count = length if xs is None else optree.tree_leaves(xs)[0].shape[0]
    order = range(count)[::-1] if reverse else range(count)
    carry, ys = init, [None] * count
    for t in order:
        x = None if xs is None else optree.tree_map(lambda x: x[t], xs)  # noqa: B023
        carry, ys[t] = f(carry, x)
    return carry, optree.tree_map(lambda *y: iv.stack(y), *ys) if ys else None


def traced(f):
    """A function as a graph that runs op by op."""
    return iv.jit(f, interpret=True)


def second(f, at):
    """The gradient of a number made of the gradients."""

    def g(*args):
        return sum((u**2).sum() for u in optree.tree_leaves(iv.grad(f, at)(*args)))

    return iv.grad(g, at)


def third(f, at):
    return second(lambda *args: sum((u**2).sum() for u in iv.grad(f, at)(*args)), at)


def tangents(f, args):
    return iv.jvp(f, args, optree.tree_map(lambda x: 0.5 * x + 1, args))


def _rnn(scan, w, v, h, xs, loss, reverse=False):
    def step(c, x):
        c = iv.tanh(c @ w.T + x @ iv.sin(v))
        return c, c * x

    return loss(*scan(step, h, xs, reverse=reverse))


def _pytrees(scan, w, v, h, xs):
    def step(c, x):
        a = iv.sin(c["a"] @ w + x[0])
        return {"a": a, "n": c["n"] + 1}, (a * c["n"], {"b": x[1] @ v})

    c, (y, z) = scan(step, {"a": h, "n": iv.asarray(1)}, (xs, xs * 2))
    return c["a"].sum() * c["n"] + y.sum() + (z["b"] ** 2).sum()


def _shift(scan, w, v, h, xs):
    """A carry that forgets after two steps."""
    (a, b), ys = scan(lambda c, x: ((c[1], iv.sin(x @ w)), c[0] * x), (h, h @ v), xs)
    return (a * b).sum() + (ys[3] ** 2).sum()


def _swap(scan, w, v, h, xs):
    """Carries that take turns."""
    (a, _), ys = scan(lambda c, x: ((c[1] * x, iv.sin(c[0])), c[0]), (h, w[0]), xs)
    return a.sum() + (ys[1] ** 2).sum()


def _nested(scan, w, v, h, xs):
    def outer(c, x):
        c, zs = scan(lambda d, u: (iv.sin(d * u + x), d @ w), c, v)
        return c, zs.sum(axis=0)

    c, ys = scan(outer, h, xs)
    return c.sum() + (ys[1] ** 2).sum()


def _branch(scan, w, v, h, xs):
    cond = iv.cond if scan is iv.scan else lambda p, f, g, *a: iv.where(p, f(*a), g(*a))

    def step(c, x):
        c = cond((x[0] > 0).detach(), lambda c: iv.sin(c @ w), lambda c: c * v[0] + x, c)
        return c, c

    c, ys = scan(step, h, xs)
    return c.sum() + (ys[2:] ** 2).sum()


#: Loops as functions of (scan, w, v, h, xs) that give a number.
LOOPS = {
    "rnn": lambda scan, w, v, h, xs: _rnn(scan, w, v, h, xs, loss=lambda c, ys: c.sum() + (ys**2).sum()),
    "carry alone": lambda scan, w, v, h, xs: _rnn(scan, w, v, h, xs, loss=lambda c, ys: (c**2).sum()),
    "one step": lambda scan, w, v, h, xs: _rnn(scan, w, v, h, xs, loss=lambda c, ys: (ys[2] ** 2).sum()),
    "two steps": lambda scan, w, v, h, xs: _rnn(
        scan, w, v, h, xs, loss=lambda c, ys: ys[1, 0] + (ys[3:5] ** 2).sum()
    ),
    "backwards": lambda scan, w, v, h, xs: _rnn(
        scan, w, v, h, xs, loss=lambda c, ys: c.sum() + (ys[1] ** 2).sum(), reverse=True
    ),
    "constant start": lambda scan, w, v, h, xs: _rnn(
        scan, w, v, iv.zeros(3), xs, loss=lambda c, ys: (ys**2).sum()
    ),
    "pytrees": _pytrees,
    "shift": _shift,
    "swap": _swap,
    "nested": _nested,
    "branch": _branch,
    "no slices": lambda scan, w, v, h, xs: scan(lambda c, _: (iv.sin(c @ w), c), h, length=3)[1].sum(),
    "no steps": lambda scan, w, v, h, xs: (scan(lambda c, x: (c @ w, None), h, xs[:0])[0] ** 2).sum(),
    "product": lambda scan, w, v, h, xs: scan(lambda c, x: (c * x[0], None), h[0], xs)[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_scan_is_the_loop(name):
    args, at = (W, V, H, XS), (0, 1, 2, 3)

    def f(*args):
        return LOOPS[name](iv.scan, *args)

    def g(*args):
        return LOOPS[name](unrolled, *args)

    tree_close(f(*args), g(*args))
    expected = iv.grad(g, at)(*args)
    tree_close(iv.grad(f, at)(*args), expected)
    for way in some(f"{name} first", [iv.grad(traced(f), at), traced(iv.grad(f, at))]):
        tree_close(way(*args), expected)
    for way in some(f"{name} tangents", [f, traced(f)]):
        tree_close(tangents(way, args), tangents(g, args))
    tree_close(iv.grad(f, 3)(*args), expected[3])
    twice = [
        lambda f: second(f, at)(*args),
        lambda f: traced(second(f, at))(*args),
        lambda f: tangents(iv.grad(f, at), args),
        lambda f: iv.grad(lambda *a: tangents(f, a)[1], at)(*args),
    ]
    for way in some(f"{name} second", twice):
        tree_close(way(f), way(g))


@pytest.mark.parametrize("name", ["two steps", "branch"])
def test_a_compiled_scan_is_the_loop(name):
    args, at = (W, V, H, XS), (0, 1, 2, 3)
    f, g = (partial(LOOPS[name], scan) for scan in (iv.scan, unrolled))
    tree_close(iv.jit(iv.value_and_grad(f, at))(*args), iv.value_and_grad(g, at)(*args))


@pytest.mark.parametrize("name", ["two steps", "swap", "nested"])
def test_third_derivatives_of_a_scan(name):
    args, at = (W, V, H, XS[:4]), (0, 1, 2, 3)
    found = third(lambda *a: LOOPS[name](iv.scan, *a), at)(*args)
    tree_close(found, third(lambda *a: LOOPS[name](unrolled, *a), at)(*args))


def test_steps_that_nobody_asks_for_are_not_run_back():
    """Of a loss on ys[3], the backward runs four steps, and no product for what is not asked for."""
    w, xs, h = W, iv.asarray(RNG.normal(size=(16, 3))), iv.asarray(np.ones(3))

    def loss(w, xs, h):
        return iv.scan(lambda c, x: (iv.tanh(c @ w + x),) * 2, h, xs)[1][3].sum()

    for at, back in {0: 7, 1: 3, 2: 4, (0, 1, 2): 8}.items():
        for f, forward in (
            (iv.grad(loss, at), 16),
            (iv.grad(traced(loss), at), 4),
            (iv.grad(iv.jit(loss), at), 4),
            (iv.jit(iv.grad(loss, at)), 4),
        ):
            with iv.explain.count() as count:
                found = f(w, xs, h)
            assert count.products == forward + back
            tree_close(found, iv.grad(loss, at)(w, xs, h))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_compiled_loop_has_as_many_steps_as_are_read(reverse):
    def f(xs):
        _, (a, b) = iv.scan(lambda c, x: (c @ W + x, (c, x * c)), H, xs, reverse=reverse)
        return a[1:3].sum() + b[2]

    with iv.explain.count() as count:
        close(iv.jit(f)(XS), f(XS))
    assert count.products == 5 + (T - 1 if reverse else 3)


def test_what_a_checkpoint_keeps_and_runs_again():
    """A loop that keeps every k-th carry gives the same, from a second run of its steps."""
    xs = iv.asarray(RNG.normal(size=(7, 3)))
    at = (0, 1, 2)

    def loss(every, scan=iv.scan):
        def f(w, xs, h):
            c, ys = scan(lambda c, x: (iv.sin(c @ w + x), c * x), h, xs, checkpoint=every)
            return c.sum() + (ys**2).sum()

        return f

    expected = iv.grad(loss(False, unrolled), at)(W, xs, H)
    twice = second(loss(False, unrolled), at)(W, xs, H)
    runs = {}
    for every in (False, True, 2, 3, 7, 100):
        for reverse in (False, True):
            f = loss(every, lambda *a, reverse=reverse, **k: iv.scan(*a, reverse=reverse, **k))
            g = loss(every, lambda *a, reverse=reverse, **k: unrolled(*a, reverse=reverse, **k))
            tree_close(iv.grad(f, at)(W, xs, H), iv.grad(g, at)(W, xs, H) if reverse else expected)
        tree_close(second(loss(every), at)(W, xs, H), twice)
        with iv.explain.count() as count:
            iv.grad(loss(every), at)(W, xs, H)
        runs[every] = count.calls["sin"]
    assert runs[False] == 7
    assert runs[True] <= 14
    assert runs[2] <= runs[3] <= 21


def by_sign(x, w):
    """A branch with residuals of its own on each side, one of them a sum of no argument."""
    flag = (x.sum() > 0).detach()
    return iv.cond(flag, lambda x: (iv.sin(x @ w), x), lambda x: (iv.exp(x) * 2, x * w[0]), x)


def by_sign_in_python(x, w):
    return (iv.sin(x @ w), x) if bool(x.sum() > 0) else (iv.exp(x) * 2, x * w[0])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_is_the_side_that_is_taken(sign):
    args, at = (sign * iv.abs(H), W), (0, 1)

    def f(x, w):
        a, b = by_sign(x, w)
        return (a**2).sum() + b[0]

    def g(x, w):
        a, b = by_sign_in_python(x, w)
        return (a**2).sum() + b[0]

    tree_close(by_sign(*args), by_sign_in_python(*args))
    for wrap in (lambda f: f, traced):
        tree_close(wrap(f)(*args), g(*args))
        tree_close(iv.grad(wrap(f), at)(*args), iv.grad(g, at)(*args))
        tree_close(wrap(iv.grad(f, at))(*args), iv.grad(g, at)(*args))
        tree_close(tangents(wrap(f), args), tangents(g, args))
        tree_close(second(wrap(f), at)(*args), second(g, at)(*args))
    tree_close(third(f, at)(*args), third(g, at)(*args))


def test_what_is_not_taken_is_neither_run_nor_differentiated():
    """An infinite derivative on the other side reaches nothing, and its products are not run."""

    def f(x):
        return iv.cond(x[0] > 0, lambda x: x * 2, lambda x: iv.sqrt(x) @ W, x).sum()

    x = iv.asarray([1.0, 0.0, 0.0])
    for g in (iv.grad(f), traced(iv.grad(f))):
        with iv.explain.count() as count:
            tree_close(g(x), iv.asarray([2.0, 2.0, 2.0]))
        assert count.products == 0
    assert iv.cond(True, lambda: 1, lambda: 1 / 0) == 1


def test_while_runs_until_its_condition_fails_and_has_tangents():
    def f(x, w):
        c, n = iv.while_loop(
            lambda s: (s[0] ** 2).sum() < 100.0, lambda s: (iv.sinh(s[0]) + s[0] * w, s[1] + 1), (x, 0)
        )
        return (c**2).sum() * n

    def g(x, w):
        n = 0
        while float((x**2).sum().detach()) < 100.0:
            x, n = iv.sinh(x) + x * w, n + 1
        return (x**2).sum() * n

    args = (iv.abs(H), iv.abs(W[0]))

    def twice(h):
        return lambda *a: iv.jvp(lambda *b: tangents(h, b)[1], a, a)[1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree_close(f(*args), g(*args))
        for wrap in (lambda f: f, traced):
            tree_close(tangents(wrap(f), args), tangents(g, args))
            tree_close(wrap(twice(f))(*args), twice(g)(*args))
    for wrong in (iv.grad(f), iv.grad(traced(f)), traced(iv.grad(f))):
        with pytest.raises(iv.errors.GradientError, match=r"scan.*fori_loop"):
            wrong(*args)


def test_fori_loop():
    def f(x, stop=4):
        return (iv.fori_loop(0, stop, lambda i, c: iv.sin(c) * (i + 1), x) ** 2).sum()

    def g(x):
        for i in range(4):
            x = iv.sin(x) * (i + 1)
        return (x**2).sum()

    tree_close(iv.grad(f)(H), iv.grad(g)(H))
    tree_close(tangents(lambda x: f(x, iv.asarray(4)), (H,)), tangents(g, (H,)))


def test_checkpoint_runs_again_and_keeps_arguments_alone():
    def f(x, w):
        return (iv.sin(iv.sin(x @ w) @ w) ** 2).sum()

    args, at = (H, W), (0, 1)
    g = iv.checkpoint(f)
    for wrap in (lambda f: f, traced):
        tree_close(iv.grad(wrap(g), at)(*args), iv.grad(f, at)(*args))
        tree_close(second(wrap(g), at)(*args), second(f, at)(*args))
        tree_close(tangents(wrap(g), args), tangents(f, args))
    tree_close(third(g, at)(*args), third(f, at)(*args))
    x = iv.asarray(H, requires_grad=True)
    node = g(x, W)._node
    held = [a for a in (*node.args, node.out) if isinstance(a, np.ndarray)]
    assert len(held) == len(node.args)
    with iv.explain.count() as count:
        iv.grad(g)(H, W)
    assert count.calls["sin"] == 2 + 2
    # A function that is linear is not run again.
    with iv.explain.count() as count:
        iv.grad(iv.checkpoint(lambda x: (x @ W).sum()))(H)
    assert count.products == 2


def test_what_a_checkpoint_draws_is_the_same_when_it_runs_again():
    generator = iv.random.default_rng(0)
    f = iv.checkpoint(lambda x: (generator.standard_normal((3,)) * x**2).sum())
    x = iv.asarray(np.ones(3))
    value, slope = iv.value_and_grad(f)(x)
    close(slope.sum(), 2 * value)

    def until(x):
        return iv.while_loop(lambda c: c < 1, lambda c: c + generator.random(()), x)

    with pytest.raises(iv.errors.GraphError, match="draw before it"):
        iv.checkpoint(until)(iv.asarray(0.0))


@pytest.mark.parametrize("wrap", [lambda f: f, iv.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("checkpoint", [False, True, 2, 3])
def test_loops_that_draw(wrap, checkpoint):
    """Each call and each step draws anew; a backward that runs steps again has the first run's numbers."""
    generator = iv.random.default_rng(0)

    def step(c, x):
        noise = generator.standard_normal((3,))
        side = iv.cond(x[0] > 0, lambda: generator.random((3,)) + 1, lambda: iv.ones(3))
        inner, _ = iv.scan(lambda d, _: (d * generator.uniform(1, 2, ()), None), iv.asarray(1.0), length=2)
        return c + noise * side * inner * x**2, noise

    def f(xs):
        c, noise = iv.scan(step, iv.zeros(3), xs, checkpoint=checkpoint)
        return c.sum(), noise

    g = wrap(iv.value_and_grad(f, has_aux=True))
    first, second = g(XS), g(XS)
    for (value, noise), slope in (first, second):
        close((slope * XS).sum(), 2 * value)
        assert len(np.unique(np.asarray(noise))) == noise.size
    assert float(first[0][0]) != float(second[0][0])


def sparse_mask():
    """A pattern whose entries are not in order."""
    return iv.sparse_coo_tensor([[2, 0]], np.ones(2), (3,))


MASKS = {
    "dense": lambda: iv.masked_tensor(H, np.array([True, False, True])),
    "stored": lambda: iv.masked_tensor(sparse_mask()),
    "full": lambda: iv.masked_tensor(H, np.ones(3, bool)),
    "empty": lambda: iv.masked_tensor(H, np.zeros(3, bool)),
}


@pytest.mark.parametrize("kind", MASKS)
def test_loops_carry_and_stack_masked_tensors(kind):
    """What is specified stays so; results of steps are masked as the stack of them is."""
    h = MASKS[kind]()

    def in_python(step, c, xs):
        ys = []
        for t in range(T):
            c, y = step(c, xs[t])
            ys.append(y)
        return c, tuple(map(iv.stack, zip(*ys, strict=True)))

    def f(scan, h, xs):
        def step(c, x):
            c = iv.masked_tensor(iv.tanh(c + x).to_tensor(0.0), h.get_mask()) if kind == "dense" else c * x
            return c, (c, c.sum(), x * c)

        c, (a, b, d) = scan(step, h, xs)
        return c, a, b, d

    def loss(scan, h, xs):
        return sum(x.sum().to_tensor(0.0) for x in f(scan, h, xs))

    expected = f(in_python, h, XS)
    slopes = iv.grad(partial(loss, in_python), (0, 1))(h, XS)
    for wrap in (lambda g: g, iv.jit):
        for x, y in zip(wrap(partial(f, iv.scan))(h, XS), expected, strict=True):
            np.testing.assert_array_equal(np.asarray(x.get_mask()), np.asarray(y.get_mask()))
            close(x.to_tensor(0.0), y.to_tensor(0.0))
        found = wrap(iv.grad(partial(loss, iv.scan), (0, 1)))(h, XS)
        close(found[0].to_tensor(0.0), slopes[0].to_tensor(0.0))
        close(found[1], slopes[1])


def test_closed_over_tensors_get_gradients():
    w = iv.asarray(W, requires_grad=True)
    loss = (iv.scan(lambda c, x: (iv.sin(c @ w + x), None), H, XS)[0] ** 2).sum()
    loss.backward()
    expected = iv.grad(lambda w: (unrolled(lambda c, x: (iv.sin(c @ w + x), c), H, XS)[0] ** 2).sum())(W)
    close(w.grad, expected)


def test_work_is_linear_in_the_steps_and_the_trace_constant():
    def loss(x):
        return iv.scan(lambda c, x: (c + (x**2).sum(), None), iv.asarray(0.0), x)[0]

    done, sizes = [], []
    for steps in (64, 128, 512):
        x = iv.asarray(np.ones((steps, 2)))
        iv.grad(loss)(x)
        with iv.explain.count() as count:
            iv.grad(loss)(x)
        done.append(count.total_entries / steps)
        sizes.append(len(text_and_objects(iv.jit(iv.grad(loss)).graph(x))[0].splitlines()))
    assert max(done) < 1.1 * min(done)
    assert len(set(sizes)) == 1


def test_graphs_of_control_flow_print_parse_and_are_checked():
    def f(w, v, h, xs):
        c = _branch(iv.scan, w, v, h, xs) + iv.checkpoint(lambda w: (w @ w).sum())(w)
        return iv.while_loop(lambda c: c < 10, lambda c: c * c + 1, c)

    for g in (lambda *a: iv.jvp(f, a, a)[1], iv.grad(lambda *a: _branch(iv.scan, *a), (0, 1, 2))):
        graph = check(iv.jit(g).graph(W, V, H, XS))
        text, objects = text_and_objects(graph)
        again = check(parse(text, objects))
        assert text_and_objects(again)[0] == text
        tree_close(interpret(again, [W, V, H, XS]), interpret(graph, [W, V, H, XS]))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: iv.scan(lambda c, x: (c, x), H), iv.errors.ArgumentError, "length"),
        (
            lambda: iv.scan(lambda c, x: (c, x), H, XS, length=3),
            iv.errors.ShapeError,
            r"length 3, 5 steps in xs",
        ),
        (lambda: iv.scan(lambda c, x: c, H, XS), iv.errors.ArgumentError, r"pair \(carry, y\)"),
        (
            lambda: iv.scan(lambda c, x: (c[:2], x), H, XS),
            iv.errors.ShapeError,
            r"carry of shape \(2,\); expected shape \(3,\)",
        ),
        (
            lambda: iv.scan(lambda c, x: ({"a": c["a"] > 0}, x), {"a": H}, XS),
            iv.errors.DTypeError,
            r"carry\['a'\] of dtype bool; expected dtype float64",
        ),
        (lambda: iv.scan(lambda c, x: ((c, c), x), H, XS), iv.errors.ArgumentError, "tree"),
        (lambda: iv.scan(lambda c, x: (c, x), H, H[0]), iv.errors.ShapeError, "rank 0"),
        (lambda: iv.scan(lambda c, x: (c, x), H, XS, checkpoint=-1), iv.errors.ArgumentError, "checkpoint"),
        (lambda: iv.scan(lambda c, x: (c, x), H, XS, reverse=2), iv.errors.ArgumentTypeError, "reverse"),
        (lambda: iv.scan(3, H, XS), iv.errors.ArgumentTypeError, "'f'"),
        (lambda: iv.scan(lambda c, x: (c, x if c[0] > 0 else c), H, XS), iv.errors.GraphError, "entries"),
        (lambda: iv.cond(iv.asarray(1), lambda: H, lambda: H), iv.errors.DTypeError, "pred"),
        (lambda: iv.cond(H > 0, lambda: H, lambda: H), iv.errors.ShapeError, "iverson.where"),
        (lambda: iv.cond(H[0] > 0, lambda: H, lambda: H[:2]), iv.errors.ShapeError, "result of shape"),
        (lambda: iv.cond(H[0] > 0, lambda: H, lambda: (H, H)), iv.errors.ArgumentError, "false_fun"),
        (lambda: iv.while_loop(lambda c: c, lambda c: c, H), iv.errors.DTypeError, "cond_fun"),
        (lambda: iv.while_loop(lambda c: c > 0, lambda c: c, H), iv.errors.ShapeError, "all or any"),
        (lambda: iv.while_loop(lambda c: c[0] > 0, lambda c: c[:1], H), iv.errors.ShapeError, "body_fun"),
        (lambda: iv.fori_loop(0, 2.5, lambda i, c: c, H), iv.errors.ArgumentTypeError, "upper"),
        (
            lambda: iv.fori_loop(0, 2, lambda i, c: c[:1], H),
            iv.errors.ShapeError,
            r"fori_loop: argument 'body_fun'",
        ),
        (lambda: iv.checkpoint(3), iv.errors.ArgumentTypeError, "function"),
    ],
)
def test_misuse_is_an_error_that_says_what_to_do(call, error, words):
    with pytest.raises(error, match=words):
        call()


def stacked_one_by_one(f, axes, args):
    """`vmap` as a loop."""
    count = next(a.shape[0] for a, n in zip(args, axes, strict=True) if n == 0)
    each = [f(*(a[k] if n == 0 else a for a, n in zip(args, axes, strict=True))) for k in range(count)]
    return optree.tree_map(lambda *x: iv.stack(x), *each)


WS, HS = iv.asarray(RNG.normal(size=(4, 3, 3)) * 0.5), iv.asarray(RNG.normal(size=(4, 3)))
XSS = iv.asarray(RNG.normal(size=(4, T, 3)))


def growing(w, h):
    """A loop that takes more steps for some examples than for others."""
    return iv.while_loop(lambda c: (c**2).sum() < 30.0, lambda c: c * 1.5 + iv.sin(c @ w), h)


@pytest.mark.parametrize(
    ("f", "axes", "args"),
    [
        (partial(LOOPS["rnn"], iv.scan), (None, None, 0, None), (W, V, HS, XS)),
        (partial(LOOPS["two steps"], iv.scan), (None, None, None, 0), (W, V, H, XSS)),
        (partial(LOOPS["branch"], iv.scan), (0, None, None, 0), (WS, V, H, XSS)),
        (partial(LOOPS["nested"], iv.scan), (0, None, 0, None), (WS, V, HS, XS)),
        (lambda w, h: by_sign(h, w)[0].sum(), (None, 0), (W, HS)),
        (lambda w, h: by_sign(H, w)[0].sum() + h[0], (0, 0), (WS, HS)),
        (lambda w, h: iv.checkpoint(lambda h: iv.sin(h @ w))(h).sum(), (None, 0), (W, HS)),
    ],
)
def test_a_batch_of_control_flow_is_its_examples(f, axes, args):
    for g in (f, iv.grad(f, tuple(range(len(args))))):
        tree_close(iv.vmap(g, axes)(*args), stacked_one_by_one(g, axes, args))
    at = tuple(range(len(args)))
    tree_close(
        iv.grad(lambda *a: (iv.vmap(f, axes)(*a) ** 2).sum(), at)(*args),
        iv.grad(lambda *a: (stacked_one_by_one(f, axes, a) ** 2).sum(), at)(*args),
    )


def test_a_batch_of_loops_runs_until_all_have_ended():
    expected = stacked_one_by_one(growing, (None, 0), (W, HS))
    tree_close(iv.vmap(growing, (None, 0))(W, HS), expected)
    pushed = partial(lambda h, w: iv.jvp(partial(growing, w), (h,), (h,))[1], w=W)
    tree_close(iv.vmap(pushed)(HS), stacked_one_by_one(pushed, (0,), (HS,)))
    tree_close(traced(iv.vmap(growing, (0, None)))(WS, H), stacked_one_by_one(growing, (0, None), (WS, H)))


def test_what_examples_do_not_choose_reaches_nothing():
    """Of an example whose other side has an infinite derivative."""
    x = iv.asarray([[1.0, 0.0], [0.0, 4.0]])
    f = lambda x: iv.cond(x[0] > 0, lambda x: x[0] * 2, lambda x: iv.sqrt(x[1]), x)
    tree_close(iv.vmap(iv.grad(f))(x), iv.asarray([[2.0, 0.0], [0.0, 0.25]]))


def _ends_above_one(x):
    """A loop that never ends for entries up to 1."""
    return iv.while_loop(lambda c: c < 50.0, lambda c: c * c, x)


PARTIAL = {  # functions of a matrix and a number that fail, or never end, where the number is not positive
    "inverse": lambda a, s: iv.linalg.inv(a * s),
    "cholesky": lambda a, s: iv.linalg.cholesky(iv.eye(2) * s),
    "solve": lambda a, s: iv.linalg.solve(a * s, a),
    "index": lambda a, s: a * a[iv.astype(iv.where(s > 0, 0 * s, 9 + 0 * s), iv.int64), 0],
    "loop": lambda a, s: a * _ends_above_one(s + 1),
    "nested": lambda a, s: iv.cond(s > 2.5, lambda a: iv.linalg.inv(a * s), lambda a: a, a * s),
}
MATRICES = iv.asarray(RNG.normal(size=(4, 2, 2)) + 2 * np.eye(2))


@pytest.mark.parametrize("name", PARTIAL)
@pytest.mark.parametrize("taken", [(1.0, 0.0, 3.0, 0.0), (0.0, 0.0, 0.0, 0.0)])
def test_what_a_branch_raises_for_examples_that_do_not_take_it_does_not_happen(name, taken):
    """Eager, compiled, in a batch of batches, and differentiated."""
    f = lambda a, s: iv.cond(s > 0, PARTIAL[name], lambda a, s: a, a, s)
    args = MATRICES, iv.asarray(taken)
    expected = stacked_one_by_one(f, (0, 0), args)
    for wrap in (lambda g: g, traced, *((iv.jit,) if name in ("inverse", "index") else ())):
        tree_close(wrap(iv.vmap(f))(*args), expected)
    twice = iv.vmap(iv.vmap(f), (None, 0))(MATRICES, iv.stack([args[1], 0 * args[1]]))
    tree_close(twice, iv.stack([expected, MATRICES]))
    if name != "loop":  # which has no gradient
        g = iv.grad(lambda a, s: (f(a, s) ** 2).sum())
        tree_close(iv.vmap(g)(*args), stacked_one_by_one(g, (0, 0), args))
        total = lambda h: iv.grad(lambda a: (h(a, args[1]) ** 2).sum())(MATRICES)
        tree_close(total(iv.vmap(f)), total(lambda a, s: stacked_one_by_one(f, (0, 0), (a, s))))


def test_a_branch_that_no_example_takes_is_not_run():
    f = lambda a, s: iv.cond(s > 0, PARTIAL["inverse"], lambda a, s: a, a, s)
    with iv.explain.count() as work:
        iv.vmap(f)(MATRICES, iv.zeros(4))
    assert not work.calls["inv"]


def doubled_until_large(x):
    return iv.while_loop(lambda c: c.sum() < 100.0, lambda c: c * 2, x)


@pytest.mark.parametrize("through", ["eager", "jit of a known branch", "branch of a branch", "vmap"])
def test_only_the_branch_that_is_taken_has_to_have_a_gradient(through):
    """Of two whose choice is known; compiled for either, the error names the loop."""
    no, x = iv.asarray(False), iv.asarray([1.0, 2.0])

    def loss(x, no=no):
        return iv.sum(iv.cond(no, doubled_until_large, lambda x: x**3, x))

    def nested(x):
        return iv.sum(iv.cond(no, lambda x: x, lambda x: iv.cond(no, doubled_until_large, iv.sin, x), x))

    if through == "eager":
        found, expected = iv.grad(loss)(x), 3 * x.numpy() ** 2
        second = iv.hessian(loss)(x)
        np.testing.assert_allclose(second.to_dense().numpy(), np.diag(6 * x.numpy()))
    elif through == "jit of a known branch":
        found, expected = iv.jit(iv.grad(loss))(x), 3 * x.numpy() ** 2
        with pytest.raises(iv.errors.MissingRuleError, match="while_loop"):
            iv.jit(iv.grad(loss))(x, no)
    elif through == "branch of a branch":
        found, expected = iv.grad(nested)(x), np.cos(x.numpy())
    else:
        found, expected = iv.vmap(iv.grad(loss))(iv.stack([x, x]))[1], 3 * x.numpy() ** 2
    np.testing.assert_allclose(found.to_dense().numpy(), expected, rtol=1e-13)
    with pytest.raises(iv.errors.MissingRuleError, match="while_loop"):
        iv.grad(lambda x: loss(x, iv.asarray(True)))(x)


@pytest.mark.parametrize("wrap", [lambda f: f, iv.jit, iv.checkpoint])
def test_ranges_of_what_a_body_closes_over_are_checked(wrap):
    """Of a tensor that is differentiated, whose entries are known around the trace of the body."""
    target = iv.asarray([0.0, 1.0])

    def f(x):
        step = lambda total, _: (total + iv.nn.binary_cross_entropy(x, target), None)
        return iv.scan(wrap(step), iv.asarray(0.0), iv.zeros(2))[0]

    g = iv.grad(f)(iv.asarray([0.25, 0.5])).numpy()
    np.testing.assert_allclose(g, [1 / 0.75, -1 / 0.5])
    with pytest.raises(
        iv.errors.ArgumentError, match=r"entries from 0.25 to 2; expected numbers in \[0, 1\]"
    ):
        iv.grad(f)(iv.asarray([0.25, 2.0]))
