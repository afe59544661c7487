"""Bodies of loops, branches, batches and checkpoints treat what they close over and draw as Python does.

Every construct, and every two nested, is a row of one table: it runs a body of one tensor so many times, each
on the result of the one before. The oracle is that loop in NumPy.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import iverson as iv
from tests.conformance.product import EXHAUSTIVE, paired

V, X = np.array([5.0, 7.0]), np.array([2.0, 3.0])
YES, NO = iv.asarray(True), iv.asarray(False)


def repeat(body, v):
    return iv.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, body(c[1])), (iv.asarray(0), v))[1]


#: By name, a construct around a body, and how often the body runs.
CONSTRUCTS = {
    "jit": (iv.jit, 1),
    "vmap": (lambda body: lambda v: iv.vmap(lambda u: body(v) + u)(iv.zeros(2))[1], 1),
    "checkpoint": (iv.checkpoint, 1),
    "scan": (lambda body: lambda v: iv.scan(lambda c, _: (body(c), None), v, length=2)[0], 2),
    "scan in blocks": (
        lambda body: lambda v: iv.scan(lambda c, _: (body(c), None), v, length=3, checkpoint=2)[0],
        3,
    ),
    "fori_loop": (lambda body: lambda v: iv.fori_loop(0, 2, lambda _, c: body(c), v), 2),
    "while_loop": (lambda body: lambda v: repeat(body, v), 2),
    "cond taken": (lambda body: lambda v: iv.cond(YES, body, lambda v: v, v), 1),
    "cond not taken": (lambda body: lambda v: iv.cond(NO, body, lambda v: v, v), 0),
}
PAIRS = [(a,) for a in CONSTRUCTS] + list(itertools.product(CONSTRUCTS, repeat=2))


def some(names, turn):
    """Every nest where all are asked for; else each construct alone, and a ninth of the pairs."""
    return EXHAUSTIVE or len(names) == 1 or sum(map(list(CONSTRUCTS).index, names)) % 9 == turn


def around(names, body):
    """The constructs of these names around a body, and how often it runs."""
    times = 1
    for name in reversed(names):
        construct, count = CONSTRUCTS[name]
        body, times = construct(body), times * count
    return body, times


def entries(x):
    return x.detach().to_dense().numpy()


class Product(iv.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


CLOSED = {"function": Product.apply, "op": lambda w, v: w * v}


@pytest.mark.parametrize(
    ("names", "kind"),
    [(p, k) for p in PAIRS for k in CLOSED if some(p, 0) and (EXHAUSTIVE or len(p) == 1 or k == "function")],
    ids=lambda x: "/".join(x) if isinstance(x, tuple) else x,
)
def test_closed_over(names, kind):
    """Values and gradients in a tracked tensor that a body closes over, before and after it is written."""
    w, v = iv.asarray(X, requires_grad=True), iv.asarray(V)
    f, times = around(names, lambda v: CLOSED[kind](w, v))
    for now in (X, np.array([-1.5, 3.0])):
        with iv.autograd.no_grad():
            w[0] = now[0]
        y = f(v)
        np.testing.assert_allclose(entries(y), now**times * V)
        own = times * now ** max(times - 1, 0) * V
        if "while_loop" not in names:
            if times:
                np.testing.assert_allclose(entries(iv.autograd.grad(y.sum(), w)), own)
            found = iv.jit(iv.grad(lambda v: f(v).sum()))(v)
            np.testing.assert_allclose(entries(found), now**times)
        np.testing.assert_allclose(entries(iv.jvp(f, (v,), (v,))[1]), now**times * V)


@pytest.mark.parametrize("names", [p for p in PAIRS if some(p, 1)], ids="/".join)
def test_draws(names):
    """Draws of a body differ from example to example, unless their generator is made in each."""
    rng = iv.random.default_rng(0)
    f, times = around(names, lambda v: v + rng.normal())
    if names in (("checkpoint", "while_loop"), ("scan in blocks", "while_loop")):
        with pytest.raises(iv.errors.GraphError, match="draws inside of a while_loop that is to run again"):
            iv.vmap(f)(iv.zeros(4))
        return
    for way in (iv.vmap(f), iv.jit(iv.vmap(f)), lambda x: iv.vmap(iv.vmap(f))(x.reshape((2, 2)))):
        assert len(set(way(iv.zeros(4)).numpy().ravel().tolist())) == (4 if times else 1)

    def same(x):
        own = iv.random.default_rng(0)
        return around(names, lambda v: v + own.normal())[0](x)

    assert len(set(iv.vmap(same)(iv.zeros(4)).numpy().tolist())) == 1


def setitem(z, v):
    z[0] = v.sum() + z[1]


def in_place(z, v):
    z += v


def under_no_grad(z, v):
    with iv.autograd.no_grad():
        z *= 0.5
        z[1] = v[0]


def twice(z, v):
    z[...] = z * 0.5 + v
    z[0] += 1.0


def unmoved(z, v):
    z[0] = 9.0


def temporary(z, v):
    y = iv.zeros(2)
    y[0] = v[1]
    z[:] = y


WRITES = (setitem, in_place, under_no_grad, twice, unmoved, temporary)


def written(write, times):
    """A body that writes, so often, in NumPy: what it returns, and the tensor."""
    z, v = X.copy(), V.copy()
    for _ in range(times):
        if write is under_no_grad:
            z *= 0.5
            z[1] = v[0]
        elif write is temporary:
            z[:] = [v[1], 0]
        else:
            write(z, v)
        v = v + z
    return v, z


@pytest.mark.parametrize(
    ("names", "write"),
    [
        (names, write)
        for n, names in enumerate(PAIRS)
        for k, write in enumerate(WRITES)
        if EXHAUSTIVE or (k - n) % len(WRITES) < (2 if len(names) == 1 else some(names, 2))
    ],
    ids=lambda x: "/".join(x) if isinstance(x, tuple) else x.__name__,
)
def test_writes(names, write):
    """A body writes into a tensor from outside as often as it runs."""
    z = iv.asarray(X)

    def body(v):
        write(z, v)
        return v + z

    f, times = around(names, body)
    for _ in range(2):
        z[...] = X
        expected = written(write, times)
        np.testing.assert_allclose(entries(f(iv.asarray(V))), expected[0])
        np.testing.assert_allclose(entries(z), expected[1])
    np.testing.assert_allclose(entries(z * 2), 2 * expected[1])


@pytest.mark.parametrize(
    "names", [p for p in PAIRS if len(p) == 2 and (some(p, 0) or p[1] == "jit")], ids="/".join
)
def test_temporaries_of_values_around(names):
    """A body writes into what it makes of values of the body around it, and into one of these."""
    (outer, inner), counts = [CONSTRUCTS[n][0] for n in names], [CONSTRUCTS[n][1] for n in names]

    def body(c, w):
        def inside(v):
            t = c * 2.0
            t[0] = t[1]
            t[1] = w[0]
            w[1] = v[0] * 0.5
            return t * v

        return inside

    def around(u):
        c, w = u * 1.0, u * 2.0
        v = inner(body(c, w))(iv.asarray(V))  # of an array, `jit` has a trace of its own
        return v + w

    expected = V
    for _ in range(counts[0]):
        c, w, v = expected * 1.0, expected * 2.0, V
        for _ in range(counts[1]):
            v = body(c, w)(v)
        expected = v + w
    np.testing.assert_allclose(entries(outer(around)(iv.asarray(V))), expected)


@pytest.mark.parametrize("argument", [False, True], ids=["closed over", "argument"])
@pytest.mark.parametrize("names", [p for p in PAIRS if some(p, 2) or p[-1] == "jit"], ids="/".join)
def test_what_a_body_returns_is_a_tensor_of_its_own(names, argument):
    """A write into a tensor leaves alone what a body that returned it gave, and the other way round."""
    inner, count = CONSTRUCTS[names[-1]]

    def f(u):
        z = u * 1.0
        v = inner(lambda v: v)(z) if argument else inner(lambda v: z)(u * 0.5)
        z[1:] += v[:1]
        v[0] = 4.0
        return v + 10.0 * z

    outer, times = around(names[:-1], f)
    expected = X
    for _ in range(times):
        z = expected.copy()
        v = z.copy() if argument or count else z * 0.5
        z[1] += v[0]
        v[0] = 4.0
        expected = v + 10.0 * z
    np.testing.assert_allclose(entries(outer(iv.asarray(X))), expected)
    np.testing.assert_allclose(entries(iv.jit(outer)(iv.asarray(X))), expected)


TWICE = {
    "jit": iv.jit,
    "vmap": iv.vmap,
    "checkpoint": iv.checkpoint,
    "cond": lambda f: lambda x: iv.cond(YES, f, f, x),
    "scan": lambda f: lambda x: iv.scan(lambda c, _: (c, f(x)), x, length=1)[1],
}


@pytest.mark.parametrize(
    "around", [lambda f: f, iv.jit, iv.checkpoint, iv.grad], ids=["eager", "jit", "checkpoint", "grad"]
)
@pytest.mark.parametrize("name", TWICE)
def test_what_is_returned_twice_is_two_tensors(name, around):
    def f(x):
        z = x * 1.0
        a, b = TWICE[name](lambda v: (v, v))(z)
        a[..., 1:] += 3.0 * b[..., :1]
        return (a * iv.asarray([1.0, 2.0]) + 10.0 * b + 100.0 * z).sum()

    expected = [117.0, 112.0] if around is iv.grad else 117.0 * X[0] + 112.0 * X[1]
    np.testing.assert_allclose(entries(around(f)(iv.asarray(X))), expected)


@pytest.mark.parametrize("names", [(n,) for n in CONSTRUCTS if n != "vmap"], ids="/".join)  # v is around it
def test_temporaries_that_are_kept(names):
    """What a body makes, writes and puts down outside is no tensor from outside: nobody can use it later."""
    kept = []

    def body(v):
        t = iv.zeros(2)
        t[0] = v[1]
        kept.append(t)
        return t + v

    f, times = around(names, body)
    np.testing.assert_allclose(entries(f(iv.asarray(V))), V + np.array([times * V[1], 0]))
    for t in kept:
        with pytest.raises(iv.errors.ArgumentError, match="a value of it after its end"):
            t + 1.0


@pytest.mark.parametrize("names", [p for p in PAIRS if "while_loop" not in p and some(p, 2)], ids="/".join)
def test_gradients_of_writes(names):
    """What is written, and what it is written over, is differentiated as in NumPy's loop, which is affine."""
    f, times = around(names, lambda v: (z.__iadd__(v), v + z)[1])
    z = iv.asarray(X)

    def both(x, v):
        nonlocal z
        z = x * 1.0
        y = f(v)
        return (y + 3 * z).sum()

    slopes = []
    for shift in ((1, 0), (0, 1)):
        a, b = 0.0, 0.0
        a, b = shift
        for _ in range(times):
            a = a + b
            b = b + a
        slopes.append(b + 3 * a)
    found = iv.grad(both, (0, 1))(iv.asarray(X), iv.asarray(V))
    np.testing.assert_allclose([entries(g) for g in found], [[s, s] for s in slopes])


@pytest.mark.parametrize("names", [p for p in PAIRS if some(p, 1)], ids="/".join)
def test_leaves(names):
    """Steps on a leaf, of an optimizer, and gradients that are added up, as often as the body runs."""
    p, v = iv.asarray(X, requires_grad=True), iv.asarray(V)
    optimizer = iv.optim.SGD([p], lr=0.1, momentum=0.5)

    def by_hand(v):
        g = iv.grad(lambda p: (p * v).sum())(p)
        with iv.autograd.no_grad():
            p[...] = p - 0.1 * g
        return v

    def step(v):
        optimizer.step([iv.grad(lambda p: (p * v).sum())(p)])
        return v

    def backward(v):
        (p * v).sum().backward()
        return v

    f, times = around(names, by_hand)
    f(v)
    np.testing.assert_allclose(entries(p), now := X - 0.1 * times * V)
    f, velocity = around(names, step)[0], 0.0
    for _ in range(2):
        f(v)
        for _ in range(times):
            velocity = 0.5 * velocity + V
            now = now - 0.1 * velocity
        np.testing.assert_allclose(entries(p), now, atol=1e-12)
    f = around(names, backward)[0]
    if not {"jit", "vmap"}.issuperset(names):
        with pytest.raises(iv.errors.GraphError, match="there after the call alone"):
            f(v)
        assert p.grad is None
    p.grad = iv.zeros(2)
    f(v), f(v)
    np.testing.assert_allclose(entries(p.grad), 2 * times * V)
    np.testing.assert_allclose(entries(p), now, atol=1e-12)
    assert p.is_leaf


@pytest.mark.parametrize("construct", [iv.vmap, iv.jit, iv.checkpoint, CONSTRUCTS["cond not taken"][0]])
def test_masked_tensors(construct):
    """A write into a masked tensor from outside is refused, and one into a masked tensor of the body made."""
    m = iv.masked_tensor(iv.asarray(X), [True, False])

    def outside(v):
        m[0] = v[0]
        return v

    def own(v):
        y = iv.masked_tensor(iv.asarray(X), [True, False])
        y[0] = v[0]
        return y if construct is not CONSTRUCTS["cond not taken"][0] else v

    v = iv.asarray([V, V]) if construct is iv.vmap else iv.asarray(V)
    with pytest.raises(iv.errors.GraphError, match="write into a MaskedTensor from outside"):
        construct(outside)(v)
    assert (m.get_mask().tolist(), m.to_tensor(0).tolist()) == ([True, False], [X[0], 0.0])
    found = construct(own)(v)
    assert isinstance(found, iv.Tensor) or found.to_tensor(0).tolist() in ([5.0, 0.0], [[5.0, 0.0]] * 2)


@pytest.mark.parametrize("names", PAIRS[: len(CONSTRUCTS)], ids="/".join)
def test_refused_writes(names):
    """A write that differs from example to example is refused, and nothing has changed."""
    z = iv.asarray(X)
    f, times = around(names, lambda v: (z.__setitem__(0, v[0]), v)[1])
    if times:
        with pytest.raises(
            iv.errors.ArgumentError, match=r"vmap.*writes what differs from example to example"
        ):
            iv.vmap(f)(iv.asarray([V, V]))
    np.testing.assert_allclose(entries(z), X)


def test_a_tensor_that_a_cycle_keeps_is_not_around_the_function():
    """One that a mapped function makes and a branch writes into; the record of a Function goes in a cycle."""

    def f(x):
        v = iv.stack([x, 2.0 * x])

        def each(_row, p):
            w, s = v * 1.0, iv.sin(p)

            def write(u):
                w[np.array([True, False])] = iv.stack([s, s])[:1]
                return (u * w).sum()

            return iv.cond(w.sum() > 9.0, lambda u: Product.apply(w, iv.stack([s, s])).sum(), write, v)

        return iv.vmap(each, (0, None))(v, x).sum()  # twice x sin x + 4 x^2

    found = iv.grad(f)(iv.asarray(0.3))
    np.testing.assert_allclose(found, 2 * (np.sin(0.3) + 0.3 * np.cos(0.3) + 8 * 0.3))


# --- sparse carries ------------------------------------------------------------------------------------

SQUARE = np.array([[0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0], [1.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0]])


def overwritten(s):
    s = iv.clone(s)
    s[-1:] = 0.25
    return s


#: Steps that leave a sparse carry on another pattern, and what they are in NumPy.
STEPS = {
    "turned": (lambda s: s.T, lambda a: a.T),
    "squared": (lambda s: s @ s * 0.5, lambda a: a @ a * 0.5),
    "with its transpose": (lambda s: (s + s.T) * 0.5, lambda a: (a + a.T) * 0.5),
    "overwritten": (overwritten, lambda a: np.concatenate([a[:-1], np.full_like(a[-1:], 0.25)])),
    "rolled": (lambda s: iv.concat([s[1:], s[:1]]), lambda a: np.roll(a, -1, 0)),
    "below": (lambda s: iv.tril(s) + s.T, lambda a: np.tril(a) + a.T),
    "kept": (lambda s: s * 1.5, lambda a: a * 1.5),
}
READS = {
    "sum": (lambda s: s.sum(), lambda a: a.sum()),
    "row": (lambda s: s[0].to_dense(), lambda a: a[0]),
    "product": (lambda s: s @ iv.asarray([1.0, 2.0, 3.0, 4.0]), lambda a: a @ [1.0, 2.0, 3.0, 4.0]),
    "dense": (lambda s: s.T.to_dense(), lambda a: a.T),
}


def stepped_in_scan(step, read):
    return lambda s: iv.scan(lambda c, _: (step(c), read(c)), s, length=3)[1]


def overwritten_around(read):
    def run(s):
        held = iv.clone(s)

        def body(c, _):
            seen = read(held)
            held[-1:] = 0.25
            return c, seen

        return iv.scan(body, iv.asarray(0.0), length=3)[1]

    return run


def in_numpy(step, read, a):
    rows = []
    for _ in range(3):
        rows.append(read(a))
        a = step(a)
    return np.stack(rows)


@pytest.mark.parametrize(("read", "layout"), paired(READS, ["csr", "csc", "coo"]))
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
def test_a_carry_may_change_its_pattern(layout, read):
    """A step finds the carry as the one before has left it, whatever pattern it was traced with."""
    turn = len(layout + read)
    for k, (name, (step, in_plain)) in enumerate(STEPS.items()):
        if not EXHAUSTIVE and (k + turn) % 3:
            continue
        f = stepped_in_scan(step, READS[read][0])
        expected = in_numpy(in_plain, READS[read][1], SQUARE)
        s = iv.to_layout(iv.asarray(SQUARE), layout)
        loss = lambda s, f=f: (f(s) ** 2).sum()
        slope = iv.grad(loss)(iv.asarray(SQUARE)).numpy()
        ways = [iv.jit, iv.checkpoint, lambda f: f]
        for way in ways:
            np.testing.assert_allclose(way(f)(s).to_dense().numpy(), expected, err_msg=f"{name}")
        for gradient in (iv.jit(iv.grad(loss)), iv.grad(iv.jit(loss)))[k % 2 :][:1]:
            np.testing.assert_allclose(gradient(s).to_dense().numpy(), slope, rtol=1e-9, err_msg=f"{name}")


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_a_write_in_a_body_may_change_a_pattern(layout):
    f = overwritten_around(READS["product"][0])
    expected = in_numpy(STEPS["overwritten"][1], READS["product"][1], SQUARE)
    s = iv.to_layout(iv.asarray(SQUARE), layout)
    for way in (lambda f: f, iv.jit):
        np.testing.assert_allclose(way(f)(s).numpy(), expected)
    slope = iv.grad(lambda s: (f(s) ** 2).sum())(iv.asarray(SQUARE)).numpy()
    np.testing.assert_allclose(iv.jit(iv.grad(lambda s: (f(s) ** 2).sum()))(s).to_dense().numpy(), slope)
