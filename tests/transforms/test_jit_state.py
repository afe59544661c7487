"""Compiled functions that change tensors from outside: each call does what the function would, in place."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from cProfile import Profile

import numpy as np
import pytest

import iverson as iv
from iverson.core.errors import ArgumentError, ArgumentTypeError
from tests.conformance.product import by_turns

X = np.linspace(-1.0, 2.0, 6)


class World:
    """What the functions below change: a leaf, a second one, and two constants."""

    def __init__(self):
        self.w = iv.asarray(X + 2, copy=True, requires_grad=True)
        self.v = iv.asarray(0.5 * X, copy=True, requires_grad=True)
        self.mean = iv.zeros(6)
        self.count = iv.asarray(0)

    def state(self):
        grads = [None if p.grad is None else p.grad.numpy() for p in (self.w, self.v)]
        held = [t.detach().numpy().copy() for t in (self.w, self.v, self.mean, self.count)]
        assert self.w.requires_grad
        assert not self.mean.requires_grad
        return [*held, *grads]


def plain_descent(world, x):
    loss = ((world.w * x - 1) ** 2).sum()
    loss.backward()
    with iv.no_grad():
        world.w -= 0.1 * world.w.grad
    world.w.grad = None
    return loss.detach()


def gradients_add_up(world, x):
    (world.w * world.v * x).sum().backward()
    return (world.w * x).detach()


def gradients_are_left(world, x):
    world.w.grad = world.v.grad = None
    loss = (world.w * world.w * x).sum()
    loss.backward()
    return loss.detach()


def closed_over_alone(world, x):
    loss = (world.w * world.w).sum()
    (g,) = iv.autograd.grad(loss, [world.w])
    with iv.no_grad():
        world.w -= 0.1 * g
        world.w[2] = 0.25
    return x


def by_transform(world, x):
    g, h = iv.grad(lambda p: (p["a"] * p["b"] * x).sum())({"a": world.w, "b": world.mean + 1}).values()
    with iv.no_grad():
        world.w -= 0.1 * g
    return h.detach()


def running_mean(world, x):
    world.mean *= 0.9
    world.mean += 0.1 * x
    world.count += 1
    return world.mean * world.count


def assigned(world, x):
    world.mean[...] = x * 2
    world.mean[1:3] = 7.0
    return world.mean.sum()


def read_before_written(world, x):
    before = world.mean * 2
    alias = world.mean.detach()
    world.mean += x
    return before + alias


def temporaries(world, x):
    total = iv.zeros(6)
    total[0] = 2.0
    total += x
    other = total
    other *= total
    return other


def arguments_too(world, x):
    x *= 2
    world.mean += x
    return x + 1


def several_trees(world, x):
    with iv.no_grad():
        for p in (world.w, world.v):
            p -= p * x
    return {"w": (world.w * 1).detach(), "none": None, "n": 3}


FUNCTIONS = [
    plain_descent, gradients_add_up, gradients_are_left, closed_over_alone, by_transform, running_mean,
    assigned, read_before_written, temporaries, arguments_too, several_trees,
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "native"), by_turns(itertools.product([f.__name__ for f in FUNCTIONS], [True, False]))
)
def test_calls_change_what_the_function_would(name, native):
    function = globals()[name]
    ours, expected = World(), World()
    compiled = iv.jit(lambda x: function(ours, x), interpret=not native)
    for k in range(4):
        a, b = iv.asarray(X + k, copy=True), iv.asarray(X + k, copy=True)
        found, wanted = compiled(a), function(expected, b)
        for x, y in zip(iv_leaves((found, a)), iv_leaves((wanted, b)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13)
        for x, y in zip(ours.state(), expected.state(), strict=True):
            assert (x is None) == (y is None)
            if x is not None:
                np.testing.assert_allclose(x, y, rtol=1e-13)
    assert compiled.cache_size == 1


def iv_leaves(tree):
    import optree

    return [x.detach().numpy() if isinstance(x, iv.Tensor) else x for x in optree.tree_leaves(tree)]


def test_one_trace_serves_all_steps():
    runs = []
    world = World()

    @iv.jit
    def step(x):
        runs.append(1)
        return plain_descent(world, x)

    for k in range(5):
        step(X + k)
    assert len(runs) == 1
    world.w.requires_grad_(False)
    with pytest.raises(iv.errors.GradientError):
        step(X)
    world.w.requires_grad_()
    step(X)


def test_what_is_computed_from_closed_over_tensors_is_computed_anew():
    w = iv.asarray([1.0, 2.0], requires_grad=True)
    c = iv.asarray([1.0, 2.0])
    x = iv.asarray([1.0, 1.0])
    functions = [
        iv.jit(lambda x: x * (w * w)),
        iv.jit(lambda x: x * (c * c)),
        iv.jit(lambda x: iv.grad(lambda p: (p * p * x).sum())(w) / 2 * w),
        iv.jit(lambda x: iv.grad(lambda p: (p * p * x).sum())(c) / 2 * c),
        iv.jit(lambda x: iv.scan(lambda s, a: (s + a * (w * w), None), x * 0, iv.ones((1, 1)))[0]),
        iv.jit(lambda x: iv.vmap(lambda a: a * (w * w))(iv.stack([x]))[0]),
    ]
    for factor in (1.0, 3.0):
        with iv.no_grad():
            w *= factor
            c *= factor
        for f in functions:
            np.testing.assert_allclose(f(x).detach().numpy(), factor**2 * np.array([1.0, 4.0]))


def test_an_error_while_tracing_leaves_everything_as_it_was():
    world = World()
    before = world.state()

    def fails(x):
        plain_descent(world, x)
        running_mean(world, x)
        return float(x.sum())

    with pytest.raises(iv.errors.GraphError, match="entries"):
        iv.jit(fails)(X)
    for a, b in zip(world.state(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    (world.w * 2).sum().backward()


# --- memory -----------------------------------------------------------------------------------------


def address(x):
    return x._value.ctypes.data


def test_what_nobody_else_holds_is_written_in_place():
    world = World()
    step = iv.jit(lambda x: plain_descent(world, x))
    step(X)
    place = address(world.w)
    step(X)
    assert address(world.w) == place
    kept = world.w.detach()
    entries = kept.numpy().copy()
    step(X)
    np.testing.assert_array_equal(kept.numpy(), entries)
    assert address(world.w) != place


@pytest.mark.parametrize("kind", [np.asarray, iv.asarray])
def test_results_are_made_in_donated_memory(kind):
    """Also beside an array, and where all arguments are tensors, which are found in one step."""

    def step(params, x):
        return [p - 0.5 * x for p in params], (params[0] * x).sum()

    f, x = iv.jit(step, donate=0), kind(X)
    params = [iv.asarray(X, copy=True), iv.asarray(2 * X, copy=True)]
    expected = [iv.asarray(X), iv.asarray(2 * X)]
    places = list(map(address, params))
    for _ in range(3):
        given = params
        params, s = f(params, x)
        expected, r = step(expected, X)
        assert list(map(address, params)) == places
        for a, b in zip(iv_leaves((params, s)), iv_leaves((expected, r)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)
        for use in (lambda x: x + 1, lambda y: y.numpy(), lambda y: f([y, y], x), iv.vmap(lambda x: x * 2)):
            with pytest.raises(ArgumentError, match="donated"):
                use(given[0])
        assert "donated" in repr(given[0])


@pytest.mark.parametrize("kind", [np.asarray, iv.asarray])
def test_memory_that_others_hold_is_not_donated(kind):
    f = iv.jit(lambda a, b: a * 2 + b, donate=("a",))
    for _ in range(2):  # traced, and known
        array = X.copy()
        f(iv.asarray(array), kind(X))  # the caller's array
        np.testing.assert_array_equal(array, X)
        base = iv.asarray(X, copy=True)
        view = base[1:4]
        f(view, kind(X[:3]))
        np.testing.assert_array_equal(base.numpy(), X)
        kept = base.numpy()
        f(base, kind(X))
        np.testing.assert_array_equal(kept, X)
    x = iv.asarray(X, copy=True)
    np.testing.assert_array_equal(f(a=x, b=x).numpy(), 3 * X)  # twice
    leaf = iv.asarray(X, copy=True, requires_grad=True)
    y = leaf * 1
    f(y, kind(X)).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), np.full(6, 2.0))
    with pytest.raises(ArgumentTypeError, match="'donate'"):
        iv.jit(lambda x: x, donate=1.5)


def test_an_input_that_is_read_after_its_place_was_taken_is_kept_until_then():
    """The updates of w are made before the last product with it, and wait for that."""
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((40, 40)), rng.standard_normal((40, 40))

    def f(w, x):
        y = w - x
        return y, (w @ x).sum(), w[::-1] * 2, iv.cumulative_sum(w, axis=0)[1]

    compiled = iv.jit(f, donate=0)
    for a, b in zip(compiled(iv.asarray(w, copy=True), x), f(iv.asarray(w), iv.asarray(x)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_a_step_allocates_only_what_it_returns():
    n = 1 << 17
    w = iv.asarray(np.ones(n), copy=True, requires_grad=True)

    @iv.jit
    def step(x):
        loss = (iv.tanh(w * x) ** 2).sum()
        (g,) = iv.autograd.grad(loss, [w])
        with iv.no_grad():
            w.__isub__(0.1 * g)
        return loss.detach()

    x = iv.asarray(np.linspace(0.0, 1.0, n))
    for _ in range(2):
        step(x)
    gc.collect()
    tracemalloc.start()
    step(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000


def test_a_call_goes_through_few_python_calls():
    f = iv.jit(lambda x: iv.sin(x) * 1.1)
    x = iv.asarray(0.5)
    f(x)
    f(x)
    profile = Profile()
    profile.runcall(f, x)
    assert sum(entry.callcount for entry in profile.getstats()) <= 42


def test_gradients_that_are_put_and_not_read():
    """Of a variable that nothing else is done with: each call puts its own."""
    w = iv.zeros(2).requires_grad_()

    @iv.jit
    def f(x):
        w.grad = x * 2
        return x + 1

    for k in range(3):
        f(iv.asarray([1.0, k]))
        np.testing.assert_array_equal(w.grad.numpy(), [2.0, 2.0 * k])


def test_leaves_that_a_function_makes_are_its_own():
    """Gradients by `backward` inside are not tracked, as in an eager call; a leaf that stays is an input."""

    def inside(x):
        w = iv.tensor([1.0, 2.0], requires_grad=True)
        (w * w * x).sum().backward()
        return w.grad

    x, kept = iv.asarray([3.0, 4.0]), []

    def lazy(x):
        if not kept:
            kept.append(iv.tensor([1.0, 2.0], requires_grad=True))
        return (kept[0] * x).sum()

    compiled = iv.jit(inside)
    assert compiled(x).tolist() == inside(x).tolist() == [6.0, 16.0]
    assert not any(f(x).requires_grad for f in (compiled, inside))
    assert len(compiled.graph(x).inputs) == 1
    iv.jit(lazy)(x).backward()
    assert kept[0].grad.tolist() == [3.0, 4.0]


def test_arguments_by_name_are_read_in_each_call():
    """Tensors and constants, after calls that the same positional arguments would find again."""
    f = iv.jit(lambda x, y=None, k=1: x * k if y is None else x * k + y)
    x, y = iv.asarray(X), iv.asarray(X**2)
    for options in ({}, {"k": 2}, {"k": 3}, {"y": y}, {"y": -y, "k": 2}, {"y": y}):
        for _ in range(2):
            expected = X * options.get("k", 1) + (options["y"].numpy() if "y" in options else 0)
            np.testing.assert_allclose(f(x, **options).numpy(), expected)


def test_an_argument_does_not_become_a_leaf_unnoticed():
    """The caller's tensor learns nothing of a value of the call; a leaf of the function's own is its own."""

    def of_argument(x):
        x.requires_grad_()
        (x * x).sum().backward()
        return x.grad

    def of_its_own(x):
        x = x.detach().requires_grad_()
        (x * x).sum().backward()
        return x.grad

    x = iv.asarray([1.0, 2.0])
    for wrapped in (
        iv.jit(of_argument),
        iv.vmap(of_argument),
        iv.jit(iv.checkpoint(of_argument)),
    ):
        with pytest.raises(iv.errors.GradientError, match=r"requires_grad_\(\) on a value of this call"):
            wrapped(x)
        assert not x.requires_grad
    for wrapped in (iv.jit(of_its_own), iv.vmap(of_its_own), of_its_own):
        assert wrapped(x).tolist() == [2.0, 4.0]
