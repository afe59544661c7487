"""Zeros of a selection are strong: what was not selected reaches no derivative, be it inf or nan.

Derivatives are held against differences. These take conditions as constants too: to move an entry that is not
selected does not change the result, so its derivative is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function, grad, no_grad
from iverson.core.counting import work
from iverson.layouts import Bracket, to_strided
from iverson.ops import F
from iverson.transforms import jvp

NAN = float("nan")
X = np.array([-1.5, 0.0, 2.0, 0.5])
POSITIVE = np.array([1.5, 0.0, 2.0, 0.5])
PADDED = np.array([[1.0, 2.0, -0.5], [NAN, float("inf"), NAN], [0.5, -1.0, 3.0], [NAN, NAN, NAN]])
ROWS = np.array([True, False, True, False])
SQUARE = np.array([[0.5, 0.0, 2.0], [0.0, 1.5, -3.0], [4.0, 0.0, 0.25]])
GRID = np.array([[True, False, True, True], [False, False, True, True], [True, False, False, True]])
W = np.array([[0.3, -1.0], [2.0, 0.7], [-0.4, 1.1]])


def _assigned(y: Any, key: Any, value: Any) -> Any:
    y = 1 * y
    y[key] = value
    return y


def _scaled(x: Any) -> Any:
    """Columns brought to mean 0 and deviation 1; one that is constant stays 0."""
    return (x - x.mean(axis=0)) / iv.where(np.array([False, True]), 1.0, iv.std(x, axis=0))


def _scaled_in_place(x: Any) -> Any:
    deviation = iv.sqrt(((x - x.mean(axis=0)) ** 2).mean(axis=0))
    deviation[np.array([False, True])] = 1.0
    return (x - x.mean(axis=0)) / deviation


def _unit(x: Any) -> Any:
    return iv.where(~ROWS[1:, None], x / iv.sqrt((x * x).sum(axis=1, keepdims=True)), 0.0)


NONZERO = np.array([[0, 2], [1, 2], [2, 0]])
NOT_0, CONSTANT = X != 0, np.array([[1.0, 3.0], [2.0, 3.0], [4.0, 3.0]])

#: Functions and where they are differentiated.
CASES = {
    "where": (lambda x: iv.where(NOT_0, 1 / x, 0.0), X),
    "the other side": (lambda x: iv.where(X == 0, 0.0, 1 / x), X),
    "log": (lambda x: iv.where(NOT_0, iv.log(x), 0.0), POSITIVE),
    "sqrt": (lambda x: iv.where(NOT_0, iv.sqrt(x), 0.0), POSITIVE),
    "both sides": (lambda x: iv.where(NOT_0, 1 / x, x**2), X),
    "nested": (lambda x: iv.where(NOT_0, iv.where(X > 1, 1 / x, iv.exp(1 / x)), x), X),
    "x log x": (lambda x: iv.where(NOT_0, x * iv.log(x), 0.0), POSITIVE),
    "sinc": (lambda x: iv.where(NOT_0, iv.sin(x) / x, 1.0), X),
    "power": (lambda x: iv.where(NOT_0, x**-1.5 + iv.pow(x, x), 0.0), POSITIVE),
    "acos": (lambda x: iv.where(np.array([True, False]), iv.acos(x), 0.0), np.array([0.5, 1.0])),
    "of nan": (lambda x: iv.where(ROWS[:, None], iv.exp(x) / x, 0.0), PADDED),
    "flip": (lambda x: iv.where(NOT_0[::-1], iv.flip(1 / x), 0.0), X),
    "roll": (lambda x: iv.where(np.roll(NOT_0, 1), iv.roll(1 / x, 1), 0.0), X),
    "permute": (lambda x: iv.where((SQUARE != 0).T, (1 / x).mT, 0.0), SQUARE),
    "reshape": (lambda x: iv.where((SQUARE != 0).ravel(), iv.reshape(1 / x, (9,)), 0.0), SQUARE),
    "new axes": (lambda x: iv.where(NOT_0[:, None], iv.expand_dims(1 / x, axis=1), 0.0), X),
    "broadcast": (lambda x: iv.where(GRID, iv.broadcast_to(1 / x, (3, 4)), 0.0), X),
    "broadcast with": (lambda x: iv.where(GRID, 1 / x, np.ones((3, 4))) ** 2, X),
    "sum": (lambda x: iv.where(SQUARE != 0, 1 / x, 0.0).sum(axis=0) ** 2, SQUARE),
    "mean": (lambda x: iv.where(NOT_0, iv.log(x), 0.0).sum() / 3, POSITIVE),
    "index": (lambda x: iv.where(NOT_0[1:], (1 / x)[1:], 0.0), X),
    "steps": (lambda x: iv.where(NOT_0[::-2], (1 / x)[::-2], 0.0), X),
    "take": (lambda x: iv.where(NOT_0[[1, 3, 1, 0]], iv.take(1 / x, np.array([1, 3, 1, 0])), 0.0), X),
    "index arrays": (lambda x: iv.where(np.array([True, False]), (1 / x)[[0, 1], [2, 1]], 0.0), SQUARE),
    "read by mask": (lambda x: iv.log(x)[NOT_0] ** 2, POSITIVE),
    "read by index": (lambda x: (1 / x)[[3, 0, 3, 2]] ** 2, X),
    "read by index in a box": (lambda x: (1 / x)[0, [0, 2]] ** 2, SQUARE),
    "read in steps": (lambda x: (1 / x)[::2] ** 2, np.array([0.5, 0.0, 2.0, 0.0, 4.0])),
    "read in steps, turned": (lambda x: (1 / x).mT[::-2, :1] ** 2, SQUARE),
    "read along an axis": (lambda x: iv.take_along_axis(1 / x, NONZERO, axis=1).sum(axis=0) ** 2, SQUARE),
    "read twice": (lambda x: (1 / x)[[0, 2]] + (1 / x)[2:4] + iv.log(x * x)[::3], X),
    "the largest": (lambda x: (1 / x**2)[iv.argmax(x)], X),
    "concat": (lambda x: iv.where(np.r_[NOT_0, NOT_0], iv.concat([1 / x, iv.exp(1 / x)]), 0.0), X),
    "stack": (lambda x: iv.where(NOT_0, iv.stack([1 / x, iv.exp(1 / x)]), 0.0), X),
    "triangle": (lambda x: iv.where(SQUARE != 0, iv.triu(1 / x), 0.0), SQUARE),
    "diagonal": (lambda x: iv.where(np.array([1, 0, 1]) > 0, iv.linalg.diagonal(1 / x), 0.0), SQUARE),
    "overwritten box": (lambda x: _assigned(1 / x, slice(1, 2), 0.0), X),
    "overwritten entry": (lambda x: _assigned(iv.log(x), 1, 7.0), POSITIVE),
    "overwritten mask": (lambda x: _assigned(1 / x, X == 0, 0.0), X),
    "overwritten index": (lambda x: _assigned(1 / x, [1, 0], 0.0), X),
    "overwritten by itself": (lambda x: _assigned(1 / x, slice(1, 3), x[:2] ** 2), X),
    "sort, then index": (lambda x: iv.sort(1 / x**2)[:3] ** 2, X),
    "max": (lambda x: iv.max(iv.log(x * x)), X),
    "min over an axis": (lambda x: iv.min(1 / abs(x), axis=1), SQUARE),
    "clip": (lambda x: iv.clip(1 / x**2, -2.5, 3.0), X),
    "maximum": (lambda x: iv.maximum(iv.log(x * x), -5.0), X),
    "minimum": (lambda x: iv.minimum(1 / x**2, 3.0), X),
    "relu": (lambda x: iv.relu(iv.log(x * x)), X),
    "root of relu": (lambda x: iv.sqrt(iv.relu(x - 1)), np.array([0.5, 3.0])),
    "rows of a product": (lambda x: iv.where(ROWS[:, None], x @ W, 0.0), PADDED),
    "rows of a function": (lambda x: iv.where(ROWS[:, None], iv.exp(x) @ W, 0.0) ** 2, PADDED),
    "columns of a product": (lambda x: iv.where(ROWS, W.T @ x.mT, 0.0) ** 2, PADDED),
    "rows of a column": (lambda x: iv.where(ROWS[:, None], iv.exp(x) @ W[:, :1], 0.0) ** 2, PADDED),
    "rows in a box": (lambda w: iv.where(ROWS[:, None], PADDED @ w, 0.0)[1:, 1:] ** 2, W),
    "rows in a box on the left": (lambda w: iv.where(ROWS, (w.mT @ PADDED.T) ** 2, 0.0)[:1, 1:], W),
    "padding on the left": (lambda w: iv.where(ROWS[:, None], PADDED @ w, 0.0) ** 2, W),
    "selected, then multiplied": (lambda x: iv.where(SQUARE != 0, 1 / x, 0.0) @ W, SQUARE),
    "unit vectors": (_unit, np.array([[3.0, 4.0], [0.0, 0.0], [1.0, -2.0]])),
    "standardised": (_scaled, CONSTANT),
    "standardised in place": (_scaled_in_place, CONSTANT),
    "running sum": (lambda x: iv.cumulative_sum(iv.where(NOT_0, iv.log(x), 0.0)), POSITIVE),
    "softmax": (lambda x: iv.softmax(iv.where(NOT_0, 1 / x, -1.0)), X),
}


def weighted(f: Any, x: Any) -> Any:
    y = f(x)
    return (y * np.random.default_rng(0).uniform(0.5, 1.5, y.shape)).sum()


def differences(f: Any, x: Any, h: float = 1e-6) -> Any:
    """The derivatives of a function's entries by central differences; nan stays nan and has none."""
    columns = []
    for k in range(x.size):
        step = np.zeros(x.size)
        step[k] = h
        step = step.reshape(x.shape)
        columns.append((f(x + step) - f(x - step)) / (2 * h))
    return np.stack(columns, axis=-1)


def value(f: Any) -> Any:
    def at(x: Any) -> Any:
        with no_grad(), np.errstate(all="ignore"):
            return np.asarray(weighted(f, iv.asarray(x)))

    return at


def gradient(f: Any, x: Any, **options: Any) -> Any:
    with np.errstate(all="ignore"):
        return grad(weighted(f, x), x, **options)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_first_and_second_derivatives_are_finite_right_and_equal_in_both_modes(name):
    f, at = CASES[name]
    x = iv.asarray(at, requires_grad=True)
    first = gradient(f, x, create_graph=True)
    assert first.layout in ("strided", "box")
    found = to_strided(first._value)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.ravel(), differences(value(f), at), rtol=1e-6, atol=1e-7)

    v = np.random.default_rng(1).uniform(0.5, 1.5, at.shape)
    _, tangent = iv.jvp(lambda x: weighted(f, x), (iv.asarray(at),), (iv.asarray(v),))
    np.testing.assert_allclose(float(tangent.detach()), (found * v).sum(), rtol=1e-10)

    second = to_strided(grad((first * v).sum(), x)._value)
    assert np.isfinite(second).all()

    def slope(point: Any) -> Any:
        given = to_strided(gradient(f, iv.asarray(point, requires_grad=True))._value)
        return np.asarray((given * v).sum())

    np.testing.assert_allclose(second.ravel(), differences(slope, at), rtol=1e-5, atol=1e-6)
    with np.errstate(all="ignore"):
        _, pushed = iv.jvp(iv.grad(lambda x: weighted(f, x)), (iv.asarray(at),), (iv.asarray(v),))
    np.testing.assert_allclose(to_strided(pushed._value), second, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_what_a_sparse_matrix_stores_across_from_what_is_left_out_is_not_multiplied(layout):
    for given in (PADDED, np.stack([PADDED, 2 * PADDED])):
        s = iv.asarray(given).to_layout(layout)
        for key in (slice(None), (..., slice(1, None), slice(1))):
            for f in (lambda s, w: s @ w, lambda s, w: (w.mT @ s.mT).mT):

                def loss(s, w, f=f, key=key):
                    return (iv.where(ROWS[:, None], f(s, w), 0.0)[key] ** 2).sum()

                found, expected = (iv.grad(loss, 1)(x, iv.asarray(W)) for x in (s, iv.asarray(given)))
                assert np.isfinite(found.numpy()).all()
                np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


def test_the_two_sides_of_a_selection_are_added_by_one_select():
    c, a = np.array([True, False, True]), np.array([1.0, 2.0, 3.0])
    g = iv.asarray(a)
    left, right = F.bracket(c, 2 * g, negated=False), F.bracket(c, 3 * g, negated=True)
    for total in (left + right, F.add_n(left, right), right + left):
        assert total.layout == "strided"
        np.testing.assert_array_equal(total.numpy(), np.where(c, 2 * a, 3 * a))
    same = F.add_n(left, F.bracket(c, g, negated=False))
    assert type(same._value) is Bracket
    np.testing.assert_array_equal(to_strided(same._value), np.where(c, 3 * a, 0))


def test_hooks_and_gradients_see_the_selected_array():
    seen: list[Any] = []
    x = iv.asarray(X, requires_grad=True)
    with np.errstate(all="ignore"):
        y = 1 / x
    y.register_hook(seen.append)
    iv.where(NOT_0, y, 0.0).sum().backward()
    assert [g.layout for g in seen] == ["strided"]
    np.testing.assert_array_equal(seen[0].numpy(), NOT_0)
    assert x.grad.layout == "strided"


def test_a_loop_over_boxes_keeps_boxes():
    """A selection of each row is held on that row alone: memory is linear in their number."""
    x = iv.asarray(np.ones((50, 4)), requires_grad=True)
    layouts = []
    for t in range(50):
        row = x[t]
        row.register_hook(lambda g: layouts.append(g.layout))
        iv.relu(row - 0.5).sum().backward()
    assert set(layouts) == {"strided"}
    y = x[3]
    (g,) = grad(iv.relu(y).sum(), (x,))
    assert g.layout == "box"


class NumericRelu(Function):
    """With a zero that is a number: a product with the mask."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = iv.relu(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * iv.astype(y > 0, g.dtype)


def bytes_of_backward(f: Any, inputs: Any) -> int:
    y = f()
    with work.counting() as done:
        grad(y, inputs)
    return done.total_bytes


def test_strong_zeros_make_no_more_than_zeros_that_are_numbers():
    """Of a network of relus; and what an index reads of a leaf is not selected once more."""
    rng = np.random.default_rng(0)
    x, *weights = (iv.asarray(rng.standard_normal((32, 32)), requires_grad=True) for _ in range(5))

    def network(relu: Any) -> Any:
        h = x
        for w in weights:
            h = relu(h @ w)
        return h.sum()

    held, numeric = (bytes_of_backward(lambda f=f: network(f), weights) for f in (iv.relu, NumericRelu.apply))
    assert held <= numeric
    every = np.arange(32)
    for key in (every[::2], (slice(None), every[::3]), slice(None, None, 2)):
        made = bytes_of_backward(lambda key=key: x[key].sum(), x)
        assert made <= 1.1 * x.size * x.dtype.itemsize


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("x", [0.0, 1.0, -1.0])
def test_what_where_leaves_of_a_tangent_is_a_strong_zero(x):
    """Forward as reverse, first and second order: sqrt has the derivative inf at the entries left out."""
    f = lambda x: iv.sqrt(iv.where(x > 0, x, 0.0)).sum()
    at = iv.asarray([x, 4.0])
    expected = [0.5 if x > 0 else 0.0, 0.25]
    tracked = iv.asarray([x, 4.0], requires_grad=True)
    np.testing.assert_array_equal(grad(f(tracked), tracked).numpy(), expected)
    one = iv.asarray([1.0, 0.0])
    assert jvp(f, (at,), (one,))[1].item() == expected[0]
    assert jvp(lambda x: jvp(f, (x,), (one,))[1], (at,), (one,))[1].item() == (-0.25 if x > 0 else 0.0)
