"""What the engine promises, by count: which branches run, how many matrix products, how many bytes."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function, grad
from iverson.core.counting import work

rng = np.random.default_rng(0)


def leaf(*shape: int):
    return iv.asarray(rng.standard_normal(shape), requires_grad=True)


class Branches:
    """Which branches of a backward ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []


BRANCHES = Branches()


class Mul(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        gx = gy = None
        if ctx.needs_input_grad[0]:
            BRANCHES.ran.append("mul x")
            gx = Mul.apply(g, y)
        if ctx.needs_input_grad[1]:
            BRANCHES.ran.append("mul y")
            gy = Mul.apply(g, x)
        return gx, gy


class Pow(Function):
    @staticmethod
    def forward(ctx, x, y):
        out = x**y
        ctx.save_for_backward(x, y, out)
        return out

    @staticmethod
    def backward(ctx, g):
        x, y, out = ctx.saved_tensors
        gx = gy = None
        if ctx.needs_input_grad[0]:
            BRANCHES.ran.append("pow x")
            gx = Mul.apply(g, y * x ** (y - 1))
        if ctx.needs_input_grad[1]:
            BRANCHES.ran.append("pow y")
            gy = Mul.apply(g, out * iv.log(x))
        return gx, gy


@pytest.mark.parametrize(("function", "name"), [(Mul, "mul"), (Pow, "pow")])
@pytest.mark.parametrize("which", [0, 1])
def test_custom_function_runs_only_the_branch_that_is_needed(function, name, which):
    x = iv.asarray([1.5, 2.0], requires_grad=True)
    y = iv.asarray([2.0, 3.0], requires_grad=True)
    out = function.apply(x, y)
    BRANCHES.ran = []
    (first,) = grad(out.sum(), [(x, y)[which]], create_graph=True)
    assert BRANCHES.ran == [f"{name} {'xy'[which]}"]
    # Of the second derivatives, too, only what each needs. That of x * y in x alone is structurally zero;
    # x ** y in y alone goes through the product with log(x) and through the power once more.
    expected = {
        "mul": ([], ["mul y"]),
        "pow": (["mul y"], ["mul y"]) if which == 0 else (["mul y", "pow y"], ["mul y", "pow x"]),
    }[name]
    for other, branches in zip((which, 1 - which), expected, strict=True):
        BRANCHES.ran = []
        second = grad(first.sum(), (x, y)[other])
        assert BRANCHES.ran == branches
        assert (second.layout == "zero") == (branches == [])


def test_second_order_of_pow_is_right():
    x = iv.asarray([1.5, 2.0], requires_grad=True)
    y = iv.asarray([2.0, 3.0], requires_grad=True)
    (gx,) = grad(Pow.apply(x, y).sum(), [x], create_graph=True)
    xs, ys = np.array([1.5, 2.0]), np.array([2.0, 3.0])
    np.testing.assert_allclose(grad(gx.sum(), x).numpy(), ys * (ys - 1) * xs ** (ys - 2), rtol=1e-14)


@pytest.mark.parametrize(("ask", "products"), [("x", 1), ("W", 1), ("b", 0), ("xWb", 2)])
def test_products_of_an_affine_layer(ask, products):
    inputs = {"x": leaf(5, 3), "W": leaf(3, 4), "b": leaf(4)}
    y = inputs["x"] @ inputs["W"] + inputs["b"]
    g = iv.asarray(rng.standard_normal(y.shape))
    with work.counting() as done:
        grad(y, [inputs[k] for k in ask], g)
    assert done.products == products


def test_second_derivative_of_a_relu_network_needs_no_product():
    widths = [5, 8, 8, 8, 8, 8, 8, 1]
    layers = [leaf(a, b) for a, b in itertools.pairwise(widths)]
    x = leaf(4, 5)
    with work.counting() as first:
        h = x
        for w in layers[:-1]:
            h = iv.relu(h @ w)
        y = h @ layers[-1]
        gx = grad(y.sum(), x, create_graph=True)
    assert first.products == 14
    with work.counting() as second:
        gxx = grad(gx.sum(), x)
    assert second.products == 0
    assert gxx.layout == "zero"
    assert not gxx.numpy().any()


def lstm(x, w, u, h, c):
    """x: (T, batch, inputs); gates side by side in w and u. Returns the hidden states."""
    n = h.shape[-1]
    hs = []
    for t in range(x.shape[0]):
        z = x[t] @ w + h @ u
        i, f, o = (iv.sigmoid(z[:, k * n : (k + 1) * n]) for k in range(3))
        c = f * c + i * iv.tanh(z[:, 3 * n :])
        h = o * iv.tanh(c)
        hs.append(h)
    return hs


def test_lstm_backward_runs_only_the_products_before_the_loss():
    x, w, u = leaf(16, 2, 3), leaf(3, 16), leaf(4, 16)
    zero = iv.zeros((2, 4))
    loss = iv.stack(lstm(x, w, u, zero, zero))[3].sum()
    with work.counting() as done:
        gx = grad(loss, x)
    assert done.products <= 7
    # The inputs after step 3 do not matter, and the gradient knows it.
    assert gx.layout == "box"
    dense = gx.numpy()
    assert not dense[4:].any()
    assert dense[:4].all()


def backward_bytes(steps: int) -> int:
    x = leaf(steps, 8)
    total = x[0] * 0.0
    for t in range(steps):
        total = total + x[t] * x[t]
    with work.counting() as done:
        grad(total.sum(), x)
    return done.total_bytes


def test_gradient_through_indexing_in_a_loop_is_linear_in_memory():
    short, long = backward_bytes(128), backward_bytes(512)
    assert long <= 4.1 * short
    assert long <= 40 * 512 * 8 * 8


JOINS = {
    "stack": lambda a, b: iv.stack([a, b])[1],
    "concat": lambda a, b: iv.concat([a.reshape((1,)), b.reshape((1,))])[1],
    "split": lambda a, b: iv.split(iv.stack([a, b]), 2)[1][0],
    "unstack": lambda a, b: iv.unstack(iv.stack([a, b]))[1],
    "slice": lambda a, b: iv.stack([a, b])[1:][0],
    "integers": lambda a, b: iv.stack([a, b])[np.array([1, 1])].sum() / 2,
    "mask": lambda a, b: iv.stack([a, b])[np.array([False, True])][0],
    "take": lambda a, b: iv.take(iv.stack([a, b]), iv.asarray([1]), axis=0)[0],
}


@pytest.mark.parametrize("join", sorted(JOINS))
def test_a_structural_zero_never_becomes_nan(join):
    x = iv.asarray(0.0, requires_grad=True)
    y = JOINS[join](iv.sqrt(x), x)
    first = grad(y, x, create_graph=True)
    assert first.item() == 1.0
    second = grad(first, x) if first.requires_grad else iv.zeros(())
    assert second.item() == 0.0


def test_threads_share_a_graph_and_each_gets_what_it_asked():
    seen: dict[int, list[tuple[bool, ...]]] = {}

    class Product(Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.save_for_backward(*xs)
            out = xs[0]
            for x in xs[1:]:
                out = out * x
            return out

        @staticmethod
        def backward(ctx, g):
            seen.setdefault(threading.get_ident(), []).append(ctx.needs_input_grad)
            xs = ctx.saved_tensors
            grads = []
            for k, need in enumerate(ctx.needs_input_grad):
                others = g
                for j, x in enumerate(xs):
                    others = others * x if j != k else others
                grads.append(others if need else None)
            return tuple(grads)

    values = [iv.asarray(float(k + 2), requires_grad=True) for k in range(8)]
    y = Product.apply(*values)
    total = float(np.prod([v.item() for v in values]))
    barrier = threading.Barrier(8)
    failures: list[str] = []

    def run(k: int) -> None:
        barrier.wait()
        for _ in range(50):
            found = grad(y, values[k]).item()
            if not np.isclose(found, total / (k + 2), rtol=1e-12):
                failures.append(f"{k}: {found}")
        wanted = tuple(j == k for j in range(8))
        if set(seen[threading.get_ident()]) != {wanted}:
            failures.append(f"{k}: {seen[threading.get_ident()]}")

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def test_demand_as_a_box_reaches_the_matmul_rule():
    a, b, w = leaf(3, 5), leaf(7, 5), leaf(5, 4)
    y = iv.concat([a, b]) @ w
    g = iv.asarray(rng.standard_normal(y.shape))
    with work.counting() as done:
        ga = grad(y, a, g)
    assert dict(done.product_shapes) == {(3, 4, 5): 1}
    np.testing.assert_allclose(ga.numpy(), g.numpy()[:3] @ w.detach().numpy().T, rtol=1e-14)
    # Likewise for columns: only those rows of the weights are read.
    c = iv.concat([a.T, b.T], axis=1)
    v = leaf(10, 4)
    y = c @ v
    with work.counting() as done:
        grad(y, b, iv.asarray(rng.standard_normal(y.shape)))
    assert dict(done.product_shapes) == {(5, 4, 7): 1}


def test_a_batch_times_a_matrix_is_one_product_of_the_rows_that_matter():
    x, w = leaf(2, 5, 3), leaf(3, 4)
    with work.counting() as forward:
        y = x @ w
    assert dict(forward.product_shapes) == {(10, 3, 4): 1}
    g = iv.asarray(rng.standard_normal((2, 4)))
    with work.counting() as done:
        gx, gw = grad(y[:, -1], [x, w], g)
    assert dict(done.product_shapes) == {(2, 4, 3): 1, (3, 2, 4): 1}
    assert gx.layout == "box"
    last = x.detach().numpy()[:, -1]
    np.testing.assert_allclose(gw.numpy(), last.T @ g.numpy(), rtol=1e-13)
    np.testing.assert_allclose(gx.numpy()[:, -1], g.numpy() @ w.detach().numpy().T, rtol=1e-13)
