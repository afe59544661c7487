"""jit as users meet it: what is traced again, what is an error, what is written, drawn and forgotten."""

from __future__ import annotations

import copy
import functools
import gc
import multiprocessing
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import iverson as iv
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientError,
    GraphError,
    IndexingError,
    ShapeError,
)
from tests.conformance.product import some
from tests.tools.entered import python_calls

X = np.linspace(-1.0, 2.0, 12).reshape(4, 3)
scale = 2.0


def times_scale(x):
    return x * scale


@iv.jit
def of_module(x):
    return (x * x).sum()


@iv.jit
@iv.grad
def slope(x):
    return (x * x).sum()


renamed = iv.jit(iv.vmap(times_scale))


class Holder:
    @iv.jit
    def of_class(self, x):
        return x


def same(a, b):
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)


def test_one_trace_for_each_kind_of_arguments():
    traces = []

    @iv.jit
    def f(x, y=1, *, name="a"):
        traces.append((x.shape, x.dtype, y, name))
        return x * y

    x = iv.asarray(X)
    for args, kwargs in [
        ((x,), {}),
        ((x + 1,), {}),  # other entries
        ((X,), {}),  # an array
        ((x.astype(iv.float32),), {}),
        ((x[:2],), {}),
        ((x, 1), {}),  # written down
        ((x, 1.0), {}),
        ((x, True), {}),
        ((x, iv.asarray(2.0)), {}),
        ((x, iv.asarray(3.0)), {}),
        ((x,), {"name": "b"}),
        ((iv.eye(3).to_layout("csr"),), {}),
        ((iv.eye(3).to_layout("coo"),), {}),
    ]:
        f(*args, **kwargs)
    assert f.cache_size == 10
    assert len(traces) == 12  # those of sparse operands once more, for any number of entries
    f.clear_cache()
    assert f.cache_size == 0


def test_trees_and_values_that_are_no_tensors():
    f = iv.jit(lambda p: {"sum": p["a"] + p["b"][0], "none": None, "n": 3, "same": p["a"]})
    given = {"a": iv.asarray(X), "b": [iv.asarray(2 * X), "text"]}
    out = f(given)
    same(out["sum"], iv.asarray(3 * X))
    assert out["none"] is None
    assert out["n"] == 3
    same(out["same"], given["a"])
    with pytest.raises(ArgumentTypeError, match="hash"):
        f({"a": iv.asarray(X), "b": [iv.asarray(X), bytearray(b"x")]})


def test_static_arguments():
    f = iv.jit(lambda x, n, how="sum": getattr(x[:n], how)(), static=(1, "how"))
    same(f(X, 2), iv.asarray(X[:2].sum()))
    same(f(X, 2, how="mean"), iv.asarray(X[:2].mean()))
    assert f.cache_size == 2
    with pytest.raises(ArgumentTypeError, match="static"):
        f(X, iv.asarray(2))


def test_what_is_static_or_donated_is_an_argument_of_the_function():

    def f(x, n, *, how="sum"):
        return getattr(x[:n], how)()

    x = iv.asarray(X)
    iv.jit(lambda x: x + 1, donate="x")(x)  # by position
    with pytest.raises(ArgumentError, match="donate"):
        x.sum()
    for parameter in ("static", "donate"):
        with pytest.raises(ArgumentError, match=rf"jit: argument '{parameter}': got 'm'; .*'how', 'n', 'x'"):
            iv.jit(f, **{parameter: "m"})
        with pytest.raises(ArgumentError, match=rf"jit: argument '{parameter}': got 2; .* 2 parameters"):
            iv.jit(f, **{parameter: 2})
    anything = iv.jit(lambda *args, **kwargs: args[0] * kwargs["k"], static=(3, "k"))
    same(anything(X, k=2), iv.asarray(X * 2))


def test_what_reads_entries_is_an_error_at_the_users_line():
    x = iv.asarray(X)
    for f in (
        lambda x: x if x.sum() > 0 else -x,
        lambda x: float(x.sum()),
        lambda x: x[x > 0],
        np.asarray,
        lambda x: x.tolist(),
        iv.nonzero,
        lambda x: range(x.sum().astype(iv.int64)),
    ):
        with pytest.raises(GraphError, match=r"test_jit\.py"):
            iv.jit(f)(x)


@pytest.mark.parametrize("level", [iv.jit, iv.vmap, iv.checkpoint])
def test_a_value_does_not_outlive_its_level(level):
    """Whatever is done with it, the error says that it was kept, and not what to use while it runs."""
    leaked = []
    level(lambda x: leaked.append(x * 2) or x)(iv.asarray(X))
    for use in (
        lambda x: x + 1,
        np.asarray,
        lambda x: x.tolist(),
        lambda x: bool(x.sum()),
        iv.jit(lambda x: x * 2),
    ):
        with pytest.raises(iv.errors.ArgumentError, match="after its end"):
            use(leaked[0])


def test_a_shape_that_is_computed_is_an_error_that_names_what_is_not():
    for f in (iv.zeros, lambda n: iv.ones(3)[n : n + 2], lambda n: iv.ones(4).reshape(n, 2)):
        with pytest.raises(GraphError, match=r"test_jit\.py.*iverson.take\(x, k \+ iverson.arange"):
            iv.jit(f)(iv.asarray(2))
    assert iv.zeros(iv.asarray(2)).shape == iv.zeros(np.array(2)).shape == (2,)


def test_globals_and_cells_that_change_are_seen(monkeypatch):
    f = iv.jit(times_scale)
    same(f(X), iv.asarray(2 * X))
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "scale", 5.0)
        same(f(X), iv.asarray(5 * X))
    w = iv.asarray(3.0)
    g = iv.jit(lambda x: times_scale(x) * w)
    same(g(X), iv.asarray(6 * X))
    w = iv.asarray(4.0)
    same(g(X), iv.asarray(8 * X))
    w[...] = 1.0  # in place
    same(g(X), iv.asarray(2 * X))
    assert g.cache_size == 1


def test_tensors_that_are_closed_over():
    """Constants, unless they track gradients."""
    w, c = iv.asarray([1.0, 2.0, 3.0], requires_grad=True), iv.asarray([3.0, 2.0, 1.0])
    f = iv.jit(lambda x: ((x * w + c) ** 2).sum())
    f(X).backward()
    np.testing.assert_allclose(w.grad.numpy(), (2 * (X * [1, 2, 3] + [3, 2, 1]) * X).sum(0))
    with iv.no_grad():
        w -= 1.0
    same(f(X), iv.asarray(((X * [0, 1, 2] + [3, 2, 1]) ** 2).sum()))


def test_arguments_written_in_place_are_written():
    def f(x, y):
        x[0] = 1.0
        x *= 2
        return x.sum() + y

    a, b = iv.asarray(X, copy=True), iv.asarray(X, copy=True)
    view = a
    same(iv.jit(f)(a, 1.0), f(b, 1.0))
    same(a, b)
    assert view is a
    leaf = iv.asarray(X, requires_grad=True)
    with pytest.raises(GradientError, match="leaf"):
        iv.jit(f)(leaf, 1.0)
    result = leaf * 1
    iv.jit(f)(result, 0.0)
    g = iv.autograd.grad((result**2).sum(), leaf)
    expected = 8 * X
    expected[0] = 0
    np.testing.assert_allclose(g.numpy(), expected)
    held = iv.asarray(X)
    iv.jit(lambda x: iv.asarray(x, copy=True).__setitem__(0, 1.0))(held)
    same(held, iv.asarray(X))


def test_random_draws_stay_random_and_follow_the_seed():
    for draw in (
        lambda g: g.normal(size=3),
        lambda g: g.uniform(-1, 1, 3),
        lambda g: g.integers(0, 1000, 3),
        lambda g: g.permutation(5),
        lambda g: g.permutation(iv.asarray(X)),
        lambda g: g.choice(iv.asarray(X), 2),
    ):
        compiled_bits, bits = iv.random.default_rng(3), iv.random.default_rng(3)
        f = iv.jit(lambda x, draw=draw, bits=compiled_bits: draw(bits) * x)
        seen = [f(iv.asarray(2)) for _ in range(3)]
        for found in seen:
            same(found, draw(bits) * iv.asarray(2))
        assert f.cache_size == 1
    noisy = iv.jit(iv.grad(lambda x: (x * iv.random.default_rng(0).normal(size=3)).sum()))
    same(noisy(X[0]), iv.random.default_rng(0).normal(size=3))


def test_segment_numbers_are_arguments():
    """One program serves all, a batch may have its own in each example, and what is outside is refused."""
    traces = []

    def f(x, ids):
        traces.append(ids.shape)
        y = iv.segment_softmax(x, ids, 3) * iv.segment_sum(x, ids, 3)[ids]
        return y.sum() + (iv.segment_max(x, ids, 3)[ids] ** 2).sum()

    gradient = iv.grad(f)
    compiled = iv.jit(gradient)
    numbers = np.array([[0, 2, 1, 2], [1, 1, 0, 0], [2, 2, 2, 2]])
    expected = [gradient(iv.asarray(X), i) for i in numbers]
    traces.clear()
    for i, out in zip(numbers, expected, strict=True):
        same(compiled(iv.asarray(X), iv.asarray(i)), out)
    assert len(traces) == 1
    xs = iv.asarray(np.stack([X] * 3))
    same(iv.vmap(gradient)(xs, iv.asarray(numbers)), iv.stack(expected))
    same(iv.vmap(gradient, (0, None))(xs, numbers[0]), iv.stack([expected[0]] * 3))
    for wrong in ([0, 1, 3, 0], [0, -1, 0, 0]):
        with pytest.raises(
            IndexingError, match=r"segment_softmax: argument 'segment_ids'.*expected one in \[0, 3\)"
        ):
            compiled(iv.asarray(X), iv.asarray(wrong))
    with pytest.raises(ArgumentError, match=r"segment_sum: argument 'num_segments'.*how many segments"):
        iv.jit(lambda ids: iv.segment_sum(X, ids))(iv.asarray(numbers[0]))


def test_nothing_given_is_kept():
    f = iv.jit(lambda x, y: (x @ y).sum())
    x, y = iv.asarray(X.copy()), iv.asarray(X.T.copy())
    f(x, y)
    iv.grad(f)(x, y)
    alive = [weakref.ref(x), weakref.ref(x._value), weakref.ref(y._value)]
    del x, y
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_threads():
    f = iv.jit(lambda x: (x.sin() * x).sum())
    g = iv.grad(f)
    xs = [iv.asarray(X + k) for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(g, xs))
    for x, a in zip(xs, found, strict=True):
        same(a, iv.asarray(np.sin(x.numpy()) + x.numpy() * np.cos(x.numpy())))
    assert f.cache_size == 1


def _in_child(queue):
    queue.put(of_module(iv.asarray(X)).item())


def test_fork_and_pickle():
    of_module(iv.asarray(X))
    for f in (of_module, slope, renamed, Holder.of_class):
        assert pickle.loads(pickle.dumps(f)) is f
        assert copy.copy(f) is f
        assert copy.deepcopy([f])[0] is f
    for f in (iv.jit(lambda x: x), iv.jit(np.sin), iv.jit(functools.partial(slope))):
        assert copy.deepcopy(f) is f
    with pytest.raises((pickle.PicklingError, AttributeError), match=r"pickle|attribute"):
        pickle.dumps(iv.jit(lambda x: x))
    np.testing.assert_allclose(pickle.loads(pickle.dumps(iv.jit(np.sin)))(X), np.sin(X))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == pytest.approx((X * X).sum())
    child.join()


class Turned(iv.autograd.Function):
    """Reads its arguments in another order."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return iv.sin(b) * a

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * iv.sin(b) * 3, g * a * iv.cos(b) * 5


class Half(iv.autograd.Function):
    """Reads one of its arguments."""

    @staticmethod
    def forward(ctx, a, b):
        return iv.sin(b)

    @staticmethod
    def backward(ctx, g):
        return None, g * 7


@pytest.mark.parametrize(
    ("number", "f"),
    list(
        enumerate(
            [
                lambda a, b: Turned.apply(a, b) * Turned.apply(b, a),
                lambda a, b: Turned.apply(a, a) + b,
                lambda a, b: Turned.apply(a, iv.asarray(0.5)) + Turned.apply(iv.asarray(2.0), b),
                lambda a, b: Half.apply(a, b) * Half.apply(b, a) * Half.apply(iv.zeros(3), b),
                lambda a, b: Turned.apply(Half.apply(a, a), b),
            ]
        )
    ),
)
def test_arguments_of_custom_functions_are_told_apart(number, f):
    """Also where forward reads them in another order, or not at all, and where they are one value."""
    xs = iv.asarray(2.0), iv.asarray(0.5)
    for order in range(2):
        gradient = iv.grad(f, (0, 1))
        ways = [iv.grad(iv.jit(f), (0, 1)), iv.jit(gradient), iv.jit(iv.grad(iv.jit(f), (0, 1)))]
        for made in some("told apart", ways, number=number + order):
            for found, expected in zip(made(*xs), gradient(*xs), strict=True):
                np.testing.assert_allclose(found.to_dense().numpy(), expected.to_dense().numpy(), rtol=1e-12)
        f = lambda a, b, f=f: sum((g * (k + 1)).sum() for k, g in enumerate(iv.grad(f, (0, 1))(a, b)))


def test_methods():
    class Model:
        def __init__(self, w):
            self.w = w

        @iv.jit
        def __call__(self, x):
            return x * self.w

    model, other = Model(iv.asarray(2.0)), Model(iv.asarray(3.0))
    same(model(X), iv.asarray(2 * X))
    same(other(X), iv.asarray(3 * X))


def test_in_other_transforms():
    f = iv.jit(lambda x: (x**3).sum())
    x = iv.asarray(X)
    same(iv.vmap(f)(x), iv.asarray((X**3).sum(1)))
    same(iv.jit(iv.vmap(iv.grad(f)))(x), iv.asarray(3 * X**2))
    same(iv.vmap(iv.jit(iv.grad(f)))(x), iv.asarray(3 * X**2))
    same(iv.jit(lambda x: f(x) + f(2 * x))(x), iv.asarray(9 * (X**3).sum()))
    same(iv.jit(iv.grad(iv.jit(iv.grad(lambda x: x**4))))(2.0), iv.asarray(48.0))


def test_errors_of_ops_are_those_of_the_function():
    with pytest.raises(ShapeError, match="matmul"):
        iv.jit(lambda x: x @ x)(X)
    with pytest.raises(IndexingError):
        iv.jit(lambda x, k: x[k])(X, iv.asarray([0, 9]))
    f = iv.jit(lambda x, k: x[k])
    same(f(X, iv.asarray([0, -1])), iv.asarray(X[[0, -1]]))
    with pytest.raises(IndexingError):
        f(X, iv.asarray([0, 9]))


def test_masked_and_sparse_arguments():
    m = iv.masked_tensor(X, X > 0)
    f = iv.jit(lambda m: (m * m).sum())
    same(f(m).to_tensor(0.0), iv.asarray((X[X > 0] ** 2).sum()))
    for k in range(20):  # masks that are gone, and others in their place
        mask = np.arange(12).reshape(4, 3) % (k % 5 + 2) > 0
        same(f(iv.masked_tensor(X, mask)).to_tensor(0.0), iv.asarray((X[mask] ** 2).sum()))
    assert len(f._entries) == 1 + 5  # masks of the same entries are one
    assert f.cache_size <= 3  # and those of other numbers of entries share code
    g = iv.grad(f)(m)
    assert isinstance(g, iv.masked.MaskedTensor)
    np.testing.assert_allclose(g.to_tensor(0.0).numpy(), np.where(X > 0, 2 * X, 0))
    s = iv.to_sparse(iv.asarray(np.where(X > 0, X, 0)))
    product = iv.jit(lambda s, x: (s @ x.T).sum())
    same(product(s, X), iv.asarray((np.where(X > 0, X, 0) @ X.T).sum()))
    of_values = iv.grad(iv.jit(lambda s: (s * s).sum()))(s)
    assert of_values.layout == "coo"


def test_repr_and_name():
    f = iv.jit(times_scale)
    assert f.__name__ == "times_scale"
    assert repr(f) == "<jit(times_scale): 0 traces>"
    assert "multiply" in str(f.graph(iv.asarray(X)).equations[0].op.name)


def test_a_call_enters_functions_for_its_results_and_not_for_its_arguments():
    def step(weights, x):
        return [w - 0.1 * x for w in weights], x * 2

    def calls(count):
        f = iv.jit(step)
        weights, x = [iv.ones((4, 3)) for _ in range(count)], iv.ones((4, 3))
        return python_calls(lambda: f(weights, x))

    few, many = calls(2), calls(12)
    assert few <= 31  # one of them: whether the function's code and defaults are what they were
    assert many - few <= 10  # the handles of the results


def test_arrays_in_any_order_and_at_any_address():
    f = iv.jit(lambda x, y: (x @ y, x + 1))
    whole = np.arange(24.0)
    unaligned = np.frombuffer(b"." + whole.tobytes(), np.float64, offset=1)
    assert not unaligned.flags.aligned
    orders = {
        "in order": whole.reshape(4, 6),
        "transposed": whole.reshape(6, 4).T.copy("F"),
        "backwards": whole.reshape(4, 6)[::-1],
        "every second": np.repeat(whole.reshape(4, 6), 2, axis=1)[:, ::2],
        "unaligned": unaligned.reshape(4, 6),
    }
    y = np.arange(12.0).reshape(6, 2)
    for a in orders.values():
        product, sum_ = f(iv.asarray(a), iv.asarray(y))
        np.testing.assert_array_equal(product, a @ y)
        np.testing.assert_array_equal(sum_, a + 1)


def test_a_positional_argument_is_not_a_named_one():
    f = iv.jit(lambda *args, **kwargs: kwargs["k"] * 3 if kwargs else args[1]["k"] * 2)
    x = iv.ones(3)
    assert f((x, x), {"k": x}).tolist() == [2.0] * 3
    assert f(x, x, k=x).tolist() == [3.0] * 3


def test_trees_with_masked_tensors_beside_trees_without():
    f = iv.jit(lambda p: p["a"].sum() + p["b"].sum())
    x, m = iv.ones(3), iv.masked_tensor(iv.ones(3), iv.asarray([True, False, True]))
    for a, b, expected in ((x, x, 6), (x, m, 5), (m, x, 5), (x, x, 6), (m, m, 4)):
        got = f({"a": a, "b": b})
        got = got.to_tensor(0) if isinstance(got, iv.MaskedTensor) else got
        assert float(got) == expected
