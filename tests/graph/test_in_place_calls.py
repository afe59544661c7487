"""Compiled steps on state as the last call left it: what happens between two calls is seen by the second."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import iverson as iv
from iverson.optim import SGD, Adam
from iverson.transforms import in_place_calls
from iverson.transforms.in_place_calls import InPlaceCall


def network(dtype="float64"):
    rng = np.random.default_rng(0)
    return [
        iv.asarray(rng.normal(size=s).astype(dtype) / 3, requires_grad=True) for s in ((4, 5), (5,), (5, 3))
    ]


def loss_of(p, x):
    return iv.sum((iv.tanh(x @ p[0] + p[1]) @ p[2]) ** 2)


def data(k):
    return iv.asarray(np.random.default_rng(k).normal(size=(6, 4)))


def zeroed_after(p, opt):
    def step(x):
        loss = loss_of(p, x)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return step


def zeroed_before(p, opt):
    def step(x):
        opt.zero_grad()
        loss = loss_of(p, x)
        loss.backward()
        opt.step()
        return loss

    return step


def accumulated(p, opt):
    def step(x):
        loss = loss_of(p, x)
        loss.backward()
        opt.step()
        return loss

    return step


def nothing(k, p, opt):
    return


def rate(k, p, opt):
    opt.lr = 0.1 / (k + 1)


def written(k, p, opt):
    if k in (3, 7):
        with iv.no_grad():
            p[0][1] = 0.25
            p[1] *= 2


def replaced(k, p, opt):
    if k == 4:
        with iv.no_grad():
            p[0][...] = iv.zeros((4, 5), dtype=p[0].dtype)


def viewed(k, p, opt):
    if k == 4:
        viewed.arrays = [x.detach().numpy() for x in p]
        viewed.copies = [a.copy() for a in viewed.arrays]
    if k > 4:
        for a, b in zip(viewed.arrays, viewed.copies, strict=True):
            np.testing.assert_array_equal(a, b)


def with_parts(k, p, opt):
    """A row of a parameter stays a row of it."""
    if k == 4:
        with_parts.row = p[0].detach()[1]
    if k == 6:
        with iv.no_grad():
            p[0][1] = with_parts.row * 0.5


def gradients_left(k, p, opt):
    if k == 5:
        loss_of(p, data(99)).backward()


def hooked(k, p, opt):
    if k == 5:
        with iv.no_grad():
            hooked.sum = sum(float(iv.sum(x)) for x in p)


BETWEEN = [nothing, rate, written, replaced, viewed, with_parts, gradients_left, hooked]


def run(style, between, compiled, make=lambda p: Adam(p, lr=0.05), steps=10):
    p = network()
    opt = make(p)
    step = style(p, opt)
    if compiled:
        step = iv.jit(step)
    losses = []
    for k in range(steps):
        between(k, p, opt)
        losses.append(float(step(data(k)).detach()))
    grads = [x.grad for x in p]
    return losses, [x.detach().numpy().copy() for x in p], [None if g is None else g.numpy() for g in grads]


@pytest.mark.parametrize("between", BETWEEN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("style", [zeroed_after, zeroed_before, accumulated], ids=lambda f: f.__name__)
def test_calls_see_what_happens_between_them(style, between):
    found, expected = run(style, between, True), run(style, between, False)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    for a, b in zip(found[2], expected[2], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-11)


def counted(monkeypatch):
    """Calls on settled state that were made, and those that found the state changed."""
    made = []
    call = InPlaceCall.__call__

    def counting(self, *args):
        result = call(self, *args)
        made.append(result is not in_place_calls.CHANGED)
        return result

    monkeypatch.setattr(InPlaceCall, "__call__", counting)
    return made


@pytest.mark.parametrize("style", [zeroed_after, zeroed_before], ids=lambda f: f.__name__)
def test_steps_in_a_row_ask_nothing_again(style, monkeypatch):
    made = counted(monkeypatch)
    run(style, nothing, True)
    assert sum(made) >= 8
    made.clear()
    run(style, nothing, True, lambda p: SGD(p, lr=0.1, momentum=0.9))
    assert sum(made) >= 8


def test_arguments_that_are_state_are_refused_as_before():
    square = iv.asarray(np.eye(5), requires_grad=True)
    opt = SGD([square], lr=0.1)

    @iv.jit
    def step(x):
        iv.sum((x @ square) ** 2).backward()
        opt.step()
        opt.zero_grad()

    for _ in range(3):
        step(iv.asarray(np.eye(5)))
    with pytest.raises(iv.errors.ArgumentError, match="two ways"):
        step(square)


def test_two_functions_share_their_parameters():
    p = network()
    opt = Adam(p, lr=0.05)
    first, second = iv.jit(zeroed_after(p, opt)), iv.jit(zeroed_before(p, opt))
    q = network()
    other = Adam(q, lr=0.05)
    for k in range(8):
        (first if k % 2 else second)(data(k))
        opt.zero_grad()
        zeroed_after(q, other)(data(k))
    for a, b in zip(p, q, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9)


def test_state_that_is_gone_is_traced_again():
    class Model:
        pass

    model = Model()
    model.w = iv.asarray(np.ones(3), requires_grad=True)

    @iv.jit
    def step(x):
        iv.sum(model.w * x).backward()
        with iv.no_grad():
            model.w -= 0.1 * model.w.grad
        model.w.grad = None

    x = iv.asarray(np.ones(3))
    for _ in range(3):
        step(x)
    model.w = iv.asarray(np.zeros(3), requires_grad=True)
    gc.collect()
    step(x)
    np.testing.assert_allclose(model.w.detach().numpy(), -0.1 * np.ones(3))
