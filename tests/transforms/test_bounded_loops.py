"""`while_loop` with a bound: the loop without one, with derivatives in reverse mode."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv


def grown(x, a, max_steps=None):
    """x <- a x + sin(x) until it is above 50; the number of steps depends on both."""
    body = lambda c: (a * c[0] + iv.sin(c[0]), c[1] + 1)
    return iv.while_loop(lambda c: c[0] < 50.0, body, (x, iv.asarray(0)), max_steps)


def by_hand(x, a, limit=10**6):
    dx, da, steps = 1.0, 0.0, 0
    while x < 50.0 and steps < limit:
        dx, da = (a + np.cos(x)) * dx, x + (a + np.cos(x)) * da
        x, steps = a * x + np.sin(x), steps + 1
    return x, dx, da, steps


MODES = {
    "eager": lambda g: g,
    "jit": iv.jit,
    "vmap": lambda g: (
        lambda x, a: tuple(r[0] for r in iv.vmap(g, (0, None))(iv.stack([x, x * 0.5, x * 30.0]), a))
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("start", [1.0, 2.5, 20.0, 70.0])
def test_gradients_through_as_many_steps_as_are_taken(mode, start):
    f = lambda x, a: grown(x, a, 20)[0]
    at = iv.asarray(start), iv.asarray(1.7)
    _, *wanted, _ = by_hand(start, 1.7)
    for found, slope in zip(MODES[mode](iv.grad(f, (0, 1)))(*at), wanted, strict=True):
        np.testing.assert_allclose(found.item(), slope, rtol=1e-12)


@pytest.mark.parametrize("bound", range(6))
def test_values_are_those_of_the_loop_or_of_its_first_steps(bound):
    x, a = iv.asarray(1.0), iv.asarray(1.7)
    value, steps = grown(x, a, bound)
    expected = by_hand(1.0, 1.7, bound)
    np.testing.assert_allclose(value.item(), expected[0], rtol=1e-14)
    assert steps.item() == expected[-1] <= bound
    far = grown(x, a, 40)
    near = grown(x, a)
    np.testing.assert_array_equal(far[0].numpy(), near[0].numpy())
    assert far[1].item() == near[1].item()


def test_forward_second_order_and_inside_of_scan():
    f = lambda x: grown(x, iv.asarray(1.7), 12)[0]
    x, h = iv.asarray(1.3), 1e-4
    np.testing.assert_allclose(
        iv.jvp(f, (x,), (iv.asarray(1.0),))[1].item(), iv.grad(f)(x).item(), rtol=1e-13
    )
    numeric = (iv.grad(f)(x + h) - iv.grad(f)(x - h)).item() / (2 * h)
    np.testing.assert_allclose(iv.hessian(f)(x).item(), numeric, rtol=1e-6)
    total = lambda xs: iv.scan(lambda c, x: (c + f(x), None), iv.asarray(0.0), xs)[0]
    xs = iv.asarray([1.0, 3.0])
    expected = [by_hand(x, 1.7)[1] for x in (1.0, 3.0)]
    np.testing.assert_allclose(iv.jit(iv.grad(total))(xs).numpy(), expected, rtol=1e-12)


def test_errors():
    x = iv.asarray(1.0)
    with pytest.raises(iv.errors.ArgumentError, match="while_loop: argument 'max_steps'"):
        iv.while_loop(lambda c: c < 1, lambda c: c, x, -1)
    with pytest.raises(iv.errors.DTypeError, match="while_loop: argument 'cond_fun'"):
        iv.while_loop(lambda c: c, lambda c: c, x, 3)
    with pytest.raises(iv.errors.ArgumentError, match="while_loop: argument 'body_fun'"):
        iv.while_loop(lambda c: c < 2, lambda c: (c, c), x, 3)
    with pytest.raises(iv.errors.GradientError, match="max_steps"):
        iv.grad(lambda x: grown(x, x + 1.0)[0])(x)
