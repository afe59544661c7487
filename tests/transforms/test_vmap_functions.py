"""`vmap` of whole functions, in mixtures with gradients, compilation and itself, against loops."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.core.dispatch import make_handle
from iverson.errors import ArgumentError, AxisError, GraphError, IndexingError, ShapeError
from iverson.transforms import grad, hessian, jit, jvp, vjp, vmap
from tests.graph.programs import as_tuple, close, entries
from tests.sparse.common import LAYOUTS, blocks_for

rng = np.random.default_rng(1)
X, Y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
W = iv.asarray(rng.normal(size=(4, 4)))
POSITIONS = np.array([[0, 1], [2, -1], [3, 3]])
SPARSE = iv.asarray(np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [4, 0, 0, 5]])).to_layout("csr")
VALUES = rng.normal(size=(3, 5))


def assigned(x, i):
    y = iv.zeros(4)
    y[1] = x[0]
    y[2:] = x[:2] * 2
    y[i] = x[i] ** 2
    return y * W[0]


def in_place(x):
    y = x * 1
    y += 1
    y[x > 1] = 0.5
    y *= x
    return y


def row_sums(x):
    """A closed-over array and a second batch inside."""
    return vmap(lambda w: iv.tanh(w @ x), 1)(W)


FUNCTIONS = {
    "chain": (lambda x: iv.tanh(x @ W) @ x, (X,)),
    "read": (lambda x, i: x[i] * x[1:3], (X, POSITIONS)),
    "read one": (lambda x, i: x[i] * x[-1], (X, POSITIONS[:, 0])),
    "read a table": (lambda x, i: W[i] @ x, (X, POSITIONS)),
    "read two axes": (lambda x, i: iv.reshape(x, (2, 2))[i % 2, [0, 1]], (X, POSITIONS)),
    "take": (iv.take, (X, POSITIONS)),
    "take along": (lambda x: iv.take_along_axis(x, iv.argsort(-x)), (X,)),
    "assign": (assigned, (X, POSITIONS)),
    "in place": (in_place, (X,)),
    "classes": (iv.cross_entropy, (X, POSITIONS[:, 0])),
    "branches": (lambda x: iv.where(x > 0, iv.sqrt(iv.abs(x)), x * x), (X,)),
    "choice": (lambda x: iv.max(x) + iv.sort(x)[2], (X,)),
    "contraction": (lambda x, y: iv.einsum("i,ij,j->", x, W, y), (X, Y)),
    "norm": (lambda x, y: iv.linalg.norm(x - y) / iv.linalg.norm(y), (X, Y)),
    "solve": (lambda x: iv.linalg.solve(W, x), (X,)),
    "joined": (lambda x, y: iv.concat([iv.stack([x, y]), W], axis=0).sum(axis=0), (X, Y)),
    "sparse product": (lambda x: SPARSE @ x, (X,)),
    "sparse values": (lambda v, x: SPARSE.with_values(v) @ x, (VALUES, X)),
    "sparse and dense": (lambda v, x: (SPARSE.with_values(v) * x).sum(axis=0), (VALUES, X)),
    "values of sparse": (
        lambda v, x: (
            SPARSE.with_values(v).values() ** 2 * (SPARSE * x).values(),
            iv.coalesce(SPARSE.with_values(v)).sparse_mask(SPARSE.with_values(v * 2)).values(),
        ),
        (VALUES, X),
    ),
    "batch inside": (row_sums, (X,)),
    "same for all": (lambda x: (x, iv.sum(W), 2.0), (X,)),
    "gradient inside": (grad(lambda x, y: iv.sum(iv.sin(x) * y * W)), (X, Y)),
    "hessian inside": (hessian(lambda x: iv.sum(iv.tanh(x @ W))), (X,)),
}
NAMES = tuple(FUNCTIONS)


def looped(f, args):
    size = len(args[0])
    found = [as_tuple(f(*(iv.asarray(a[k]) for a in args))) for k in range(size)]
    results = [[iv.asarray(x) if isinstance(x, float) else x for x in f] for f in found]
    return [np.stack([entries(r[j]) for r in results]) for j in range(len(results[0]))]


def agree(found, expected, rtol=1e-9):
    for f, e in zip(as_tuple(found), expected, strict=True):
        close(f, make_handle(np.asarray(e)), rtol)


def scalar(f):
    """A number from the results of a function, in which entries weigh differently."""

    def loss(*args):
        total = 0.0
        for out in as_tuple(f(*args)):
            if not isinstance(out, float):
                total = total + (out * np.linspace(0.5, 1.5, out.size).reshape(out.shape)).sum()
        return total

    return loss


def floating(args):
    return tuple(k for k, a in enumerate(args) if a.dtype.kind == "f")


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    f, args = FUNCTIONS[name]
    expected = looped(f, args)
    handles = list(map(iv.asarray, args))
    agree(vmap(f)(*handles), expected)
    agree(vmap(f, chunk_size=2)(*handles), expected)
    turned = [h if h.ndim < 2 else iv.permute_dims(h, (1, 0)) for h in handles]
    axes = tuple(0 if h.ndim < 2 else -1 for h in handles)
    agree(vmap(f, axes)(*turned), expected)
    last = as_tuple(vmap(f, out_axes=-1)(*handles))
    agree(tuple(iv.moveaxis(x, -1, 0) for x in last), expected)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_inside_and_outside(name):
    f, args = FUNCTIONS[name]
    handles = list(map(iv.asarray, args))
    at = floating(args)
    g = grad(scalar(f), at)
    each = looped(g, args)
    inside = vmap(g)(*handles)
    agree(inside, each)
    outside = grad(lambda *xs: vmap(scalar(f))(*xs).sum(), at)(*handles)
    agree(outside, each)
    assert not any(x.requires_grad for x in (*inside, *outside))
    twice = grad(scalar(vmap(g)), at)(*handles)
    stacked = lambda *rows: tuple(iv.stack(list(r)) for r in zip(*rows, strict=True))
    alone = scalar(lambda *xs: stacked(*(g(*(x[k] for x in xs)) for k in range(3))))
    agree(twice, [entries(x) for x in grad(alone, at)(*handles)], 1e-8)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "same for all"])
def test_tangents_inside_and_outside(name):
    f, args = FUNCTIONS[name]
    at = floating(args)
    handles = list(map(iv.asarray, args))

    def tangent(f):
        def of(*xs):
            def only(*parts):
                full = list(xs)
                for k, p in zip(at, parts, strict=True):
                    full[k] = p
                return f(*full)

            chosen = tuple(xs[k] for k in at)
            return jvp(only, chosen, tuple(iv.cos(x) for x in chosen))[1]

        return of

    expected = looped(tangent(f), args)
    agree(vmap(tangent(f))(*handles), expected)
    agree(tangent(vmap(f))(*handles), expected)


@pytest.mark.parametrize("name", ["chain", "branches", "contraction", "solve", "batch inside"])
def test_compiled_within_and_without(name):
    f, args = FUNCTIONS[name]
    expected = looped(f, args)
    handles = list(map(iv.asarray, args))
    agree(vmap(jit(f))(*handles), expected)
    agree(jit(vmap(f))(*handles), expected)
    each = looped(grad(scalar(f)), args)
    agree(vmap(grad(jit(scalar(f))))(*handles), each)
    agree(jit(vmap(grad(scalar(f))))(*handles), each)


def test_pullbacks_of_a_function_recorded_outside():
    """Many cotangents for one graph: what Jacobians are made of."""
    x = iv.asarray(X[0])
    _, pull = vjp(lambda x: iv.tanh(x @ W) * x, x)
    rows = vmap(lambda g: pull(g)[0])(iv.eye(4))
    each = [entries(pull(iv.asarray(row))[0]) for row in np.eye(4)]
    agree(rows, [np.stack(each)])


def test_parameters_that_are_tracked_outside():
    w = iv.asarray(W, copy=True, requires_grad=True)
    x = iv.asarray(X)
    each = vmap(grad(lambda w, x: iv.sum(iv.tanh(x @ w))), (None, 0))(w, x)
    assert each.requires_grad
    (found,) = iv.autograd.grad(each.sum(), [w])
    alone = iv.asarray(W, copy=True, requires_grad=True)
    total = sum(grad(lambda w, row=row: iv.sum(iv.tanh(row @ w)))(alone).sum() for row in x)
    close(found, iv.autograd.grad(total, alone))
    closed = vmap(grad(lambda x: iv.sum(iv.tanh(x @ w))))(x)
    total = sum(grad(lambda row: iv.sum(iv.tanh(row @ alone)))(row).sum() for row in x)
    close(iv.autograd.grad(closed.sum(), w), iv.autograd.grad(total, alone))


def test_a_backward_pass_and_hooks_inside():
    seen = []

    def f(x):
        x = x.detach().requires_grad_()
        y = iv.sin(x)
        y.register_hook(lambda g: seen.append(g.shape) or g * 2)
        (y * x).sum().backward()
        return x.grad

    agree(vmap(f)(iv.asarray(X)), [np.sin(X) + 2 * X * np.cos(X)])
    assert seen == [(4,)]


def test_trees_and_axes():
    x, y = iv.asarray(X), iv.asarray(Y)
    tree = {"a": x, "b": (y, None)}
    found = vmap(lambda t: {"s": t["a"] + t["b"][0], "n": t["b"][1]}, ({"a": 0, "b": (0, None)},))(tree)
    agree(found["s"], [X + Y])
    assert found["n"] is None
    agree(vmap(lambda t: t["a"] * t["b"], ({"a": 1, "b": None},))({"a": x, "b": x[:, 0]}), [(X * X[:, :1]).T])
    agree(vmap(lambda x, *, scale: x * scale)(x, scale=3.0), [X * 3])
    one, other = vmap(lambda x: (x, iv.sum(W)), out_axes=(1, None))(x)
    agree((one, other), [X.T, entries(iv.sum(W))])
    agree(vmap(lambda x: x.sum())(x[:0]), [np.zeros(0)])
    agree(vmap(lambda x: x.sum(), 1)(iv.zeros((0, 3))), [np.zeros(3)])


def test_supports_are_carried_by_the_examples():
    """What is zero for all examples has no array: the cotangent of x[1:3] is a box in each of them."""
    pulled = vmap(lambda x: vjp(lambda x: x[1:3], x)[1](x[:2])[0])(iv.asarray(X))
    assert pulled.layout == "box"
    zero = vmap(grad(lambda x, y: x.sum()), (0, 0))
    assert zero(iv.asarray(X), iv.asarray(Y)).shape == (3, 4)
    assert vmap(grad(lambda x, y: x.sum(), 1))(iv.asarray(X), iv.asarray(Y)).layout == "zero"
    assert vmap(lambda v: SPARSE.with_values(v) * 2)(iv.asarray(VALUES)).layout == "csr"


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_examples_stored_alike_have_indices(layout):
    """What a sparse tensor stores is asked for in a batch as outside, where all store the same entries."""
    stored = SPARSE.to_dense().numpy()
    blocks = blocks_for(layout, stored.shape)
    alone = iv.asarray(stored).to_layout(layout, blocksize=blocks)
    all_of_them = np.multiply.outer([1.0, 2.0, 3.0], stored)
    batch = iv.asarray(all_of_them).to_layout(layout, blocksize=blocks)
    found = vmap(lambda s: (s.values(), s.indices(), iv.asarray(s.nnz), s.with_values(s.values() ** 2) @ W))(
        batch
    )
    expected = np.multiply.outer([1.0, 2.0, 3.0], alone.values().numpy())
    np.testing.assert_array_equal(found[0].numpy(), expected)
    assert all((x.numpy() == alone.indices().numpy()).all() for x in found[1])
    assert (found[2].numpy() == alone.nnz).all()
    np.testing.assert_allclose(found[3].to_dense().numpy(), all_of_them**2 @ W.numpy(), atol=1e-12)
    filled = vmap(lambda s: iv.masked_tensor(s).to_tensor(9.0).to_dense())
    specified = iv.masked_tensor(alone).to_tensor(9.0).to_dense().numpy() != 9.0
    np.testing.assert_array_equal(filled(batch).numpy(), np.where(specified, all_of_them, 9.0))
    all_of_them[1, 0, 1] = all_of_them[1, 1, 0] = 1.0
    differing = iv.asarray(all_of_them).to_layout(layout, blocksize=blocks)
    for read in (lambda s: s.values(), iv.masked_tensor):
        with pytest.raises(ArgumentError, match="same entries"):
            vmap(read)(differing)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: vmap(lambda x: x)(2.0), AxisError, "in_axes.*leaf 0.*no axes"),
        (lambda: vmap(lambda x: x, 2)(X), AxisError, r"in_axes.*got 2.*\[-2, 2\)"),
        (lambda: vmap(lambda x: x, out_axes=3)(X), AxisError, r"out_axes.*got 3"),
        (lambda: vmap(lambda x, y: x)(X, X.T), ShapeError, "3 in leaf 0, 4 in leaf 1"),
        (lambda: vmap(lambda x: x, None)(X), ArgumentError, "None for every argument"),
        (lambda: vmap(lambda x: x, (0, 0))(X), ArgumentError, "in_axes.*upper part"),
        (lambda: vmap(lambda x: x, out_axes=(0, 0))(X), ArgumentError, "out_axes.*the result"),
        (lambda: vmap(lambda x: x, out_axes=None)(X), ArgumentError, "out_axes.*differs from example"),
        (lambda: vmap(lambda x: x, chunk_size=0), ArgumentError, "chunk_size.*positive"),
        (lambda: vmap(lambda x: x if x > 0 else -x)(X[0]), GraphError, r"test_vmap_functions.*where"),
        (lambda: vmap(lambda x: x.sum().item())(X), GraphError, "entries of one example"),
        (lambda: vmap(lambda x: x[x > 0])(X), GraphError, "entries of one example"),
        (lambda: vmap(lambda x, i: x[i])(X, POSITIONS + 2), IndexingError, r"position 5.*\[-4, 4\)"),
        (lambda: vmap(lambda x: "a")(X), TypeError, "function's result"),
    ],
)
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()


DRAWS = {
    "normal": lambda g, x: x + g.normal(size=4),
    "of parameters": lambda g, x: g.normal(x, 2.0),
    "uniform": lambda g, x: g.uniform() * x,
    "integers": lambda g, x: g.integers(10, size=3),
    "bernoulli": lambda g, x: g.bernoulli(0.5, 4) * x,
    "permutation": lambda g, x: g.permutation(x),
    "choice": lambda g, x: g.choice(x, 2, replace=False),
    "numbers": lambda g, x: g.permutation(3),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_draws_are_those_of_a_loop(name):
    def stream():
        g = iv.random.default_rng(5)
        return lambda x: DRAWS[name](g, x)

    agree(vmap(stream())(iv.asarray(X)), looped(stream(), (X,)))
    inside = lambda x: DRAWS[name](iv.random.default_rng(5), x)  # the same numbers for each example
    agree(vmap(inside)(iv.asarray(X)), looped(inside, (X,)))


def test_random_draws_of_a_batch_in_a_batch():
    g, h = iv.random.default_rng(5), iv.random.default_rng(5)
    found = vmap(vmap(lambda x: x + g.normal()))(iv.asarray(X))
    agree(found, [X + entries(h.normal(size=X.shape))])


class Steep(iv.autograd.Function):
    """Its derivative is not that of what forward computes."""

    @staticmethod
    def forward(ctx, x, w):
        y = x * w
        ctx.save_for_backward(x, w, y)
        ctx.factor = 3.0
        ctx.root = iv.abs(x)
        return y, iv.sum(y)

    @staticmethod
    def backward(ctx, g, h):
        x, w, y = ctx.saved_tensors
        return ctx.factor * (g + h) * w * y, ctx.factor * g * x * iv.abs(x)


class Host(iv.autograd.Function):
    """Reads entries."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.x = x.detach().numpy()
        ctx.w = w.detach().numpy()
        return iv.asarray(ctx.x**2 * ctx.w)

    @staticmethod
    @iv.autograd.once_differentiable
    def backward(ctx, g):
        return iv.asarray(5 * ctx.x * ctx.w * g.numpy()), None


class Ruled(Host):
    """As that, with a rule."""

    @staticmethod
    def vmap(size, in_axes, x, w):
        assert in_axes == (0, None)
        return Host.apply(x, iv.broadcast_to(w, (size, *w.shape))), 0


def test_functions_are_mapped_with_their_own_derivatives():
    x, w = iv.asarray(X), W[0]
    f = scalar(Steep.apply)
    agree(vmap(Steep.apply, (0, None))(x, w), looped(lambda x: Steep.apply(x, w), (X,)))
    of_x, of_w = grad(lambda x, w: vmap(f, (0, None))(x, w).sum(), (0, 1))(x, w)
    agree((of_x,), looped(lambda x: grad(f)(x, w), (X,)))
    agree((of_w,), [sum(looped(lambda x: grad(f, 1)(x, w), (X,))[0])])
    agree(vmap(grad(f), (0, None))(x, w), looped(lambda x: grad(f)(x, w), (X,)))
    second = looped(grad(lambda x: grad(f)(x, w).sum()), (X,))
    agree(grad(lambda x: grad(lambda x: vmap(f, (0, None))(x, w).sum())(x).sum())(x), second)
    agree(grad(lambda x: vmap(grad(f), (0, None))(x, w).sum())(x), second)


@pytest.mark.parametrize("cls", [Host, Ruled])
def test_functions_that_read_entries(cls):
    x, w = iv.asarray(X), W[0]
    run = lambda x: vmap(cls.apply, (0, None))(x, w)
    inside = vmap(grad(lambda x, w: cls.apply(x * 2, w).sum()), (0, None))
    if cls is Host:
        with pytest.warns(iv.errors.BatchWarning):
            agree(inside(x, w), [20 * X * w.numpy()])
        with (
            pytest.warns(iv.errors.BatchWarning),
            pytest.raises(iv.errors.GradientError, match="once_differentiable"),
        ):
            grad(lambda x: inside(x, w).sum())(x)
        with pytest.warns(iv.errors.BatchWarning, match="Host reads entries.*static method vmap"):
            agree(run(x), [X**2 * w.numpy()])
        with pytest.warns(iv.errors.BatchWarning):
            agree(grad(lambda x: run(x).sum())(x), [5 * X * w.numpy()])
        with pytest.raises(iv.errors.ArgumentError, match="no examples for Host"):
            run(x[:0])
    else:
        assert run(x[:0]).shape == X[:0].shape
        agree(run(x), [X**2 * w.numpy()])
        agree(grad(lambda x: run(x).sum())(x), [5 * X * w.numpy()])


MASK = np.array([[True, False, True, True], [True, True, False, True], [True, False, True, True]])
MASKED = {
    "sum": lambda m: m.sum(),
    "square": lambda m: m * m,
    "mean and softmax": lambda m: (m.mean(), iv.softmax(m, axis=0)),
    "with a plain one": lambda m: (m * W[0]).sum(),
    "product": lambda m: (m.to_tensor(2.0) @ W, m * 2),
    "none": lambda m: m.to_tensor(iv.sum(W)),
}


@pytest.mark.parametrize("mask", [MASK, MASK[:1].repeat(3, 0)], ids=["of each", "shared"])
@pytest.mark.parametrize("name", MASKED)
def test_masked_arguments_and_results(name, mask):
    f = MASKED[name]
    m = iv.masked_tensor(X, mask)
    alone = [as_tuple(f(iv.masked_tensor(X[k], mask[k]))) for k in range(3)]
    for run in (vmap(f), vmap(f, chunk_size=1)):
        for found, each in zip(as_tuple(run(m)), zip(*alone, strict=True), strict=True):
            assert pytest.approx(flat(found.tolist())) == flat([x.tolist() for x in each])
    turned = vmap(f, 1, 0)(iv.masked_tensor(X.T, mask.T))
    for x, y in zip(as_tuple(turned), as_tuple(vmap(f)(m)), strict=True):
        assert pytest.approx(flat(x.tolist())) == flat(y.tolist())
    loss = lambda m: sum(as_plain(x).sum() for x in as_tuple(f(m)))
    inside = vmap(grad(loss))(m)
    assert isinstance(inside, iv.MaskedTensor)
    outside = grad(lambda m: vmap(loss)(m).sum())(m)
    for k in range(3):
        expected = grad(loss)(iv.masked_tensor(X[k], mask[k])).tolist()
        assert pytest.approx(flat(inside.tolist()[k])) == flat(expected)
        assert pytest.approx(flat(outside.tolist()[k])) == flat(expected)


def as_plain(x):
    return x.to_tensor(0) if isinstance(x, iv.MaskedTensor) else x


def flat(entries):
    """Nested lists as one, with inf for what does not exist."""
    if isinstance(entries, list):
        return [x for row in entries for x in flat(row)]
    return [np.inf if entries is None else entries]
