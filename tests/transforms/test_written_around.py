"""Bodies of transforms and loops that write into tensors around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.errors import ArgumentError, GraphError
from tests.conformance.product import some


def _scan(z, x):
    def step(c, u):
        z[0] = u * x
        z[1:] *= c
        return c + z[0], None

    return iv.scan(step, x, iv.asarray([1.0, 2.0, 3.0]))[0]


def _loop(z, x):
    def step(k, c):
        z[1] += c * x
        return c + z[1]

    return iv.fori_loop(0, 3, step, x)


def _checkpoint(z, x):
    def f(c):
        z[2] = c * c
        return c + z[2]

    return iv.checkpoint(f)(x)


def _jit(z, x):
    def f(c):
        z[2] = c * c
        return c + z[2]

    return iv.jit(f)(x)


def _taken(z, x):
    def f(c):
        z[2] = c * c
        return c + z[2]

    return iv.cond(x > 0, f, lambda c: c, x)


def _not_taken(z, x):
    def f(c):
        z[2] = 5.0
        return c * c

    return iv.cond(x < 0, f, lambda c: c, x)


def _both(z, x):
    def f(c):
        z[2] = c * 3
        return c

    def g(c):
        z[1] = c * c
        return c

    return iv.cond(x < 0, f, g, x)


def _nested(z, x):
    def step(c, u):
        def f(c):
            z[2] += c * x
            return c

        return iv.cond(u > 1.5, f, lambda c: c * 2.0, c), None

    return iv.scan(step, x, iv.asarray([1.0, 2.0, 3.0]))[0]


def by_hand_scan(z, x):
    c = x
    for u in (1.0, 2.0, 3.0):
        z = [u * x, z[1] * c, z[2] * c]
        c = c + z[0]
    return z, c


def by_hand_loop(z, x):
    c = x
    for _ in range(3):
        z = [z[0], z[1] + c * x, z[2]]
        c = c + z[1]
    return z, c


#: Functions that write into z, and the same in plain Python on a list: z after it, and the result.
WRITES: dict[str, tuple[Callable[..., Any], Callable[[list[Any], Any], Any]]] = {
    "scan": (_scan, by_hand_scan),
    "loop": (_loop, by_hand_loop),
    "checkpoint": (_checkpoint, lambda z, x: ([*z[:2], x * x], x + x * x)),
    "jit": (_jit, lambda z, x: ([*z[:2], x * x], x + x * x)),
    "branch taken": (_taken, lambda z, x: ([*z[:2], x * x], x + x * x)),
    "branch not taken": (_not_taken, lambda z, x: (z, x)),
    "both branches": (_both, lambda z, x: ([z[0], x * x, z[2]], x)),
    "branch in a loop": (_nested, lambda z, x: ([*z[:2], z[2] + 2 * x * x + 2 * x * x], 2 * x)),
}


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_bodies_write_into_tensors_around_them(name: str, tracked: bool) -> None:
    """Values and derivatives, eager, compiled and mapped; a complex step is the oracle of derivatives."""
    body, by_hand = WRITES[name]

    def f(x):
        z = iv.asarray([1.0, 2.0, 3.0]) * (x if tracked else 1.0)
        result = body(z, x)
        return (z * iv.asarray([1.0, 2.0, 5.0])).sum() + result

    def expected(x):
        z, result = by_hand([a * (x if tracked else 1.0) for a in (1.0, 2.0, 3.0)], x)
        return z[0] + 2 * z[1] + 5 * z[2] + result

    x = iv.asarray(2.0)
    slope = expected(2.0 + 1e-30j).imag / 1e-30
    for way in (f, *some(name, [iv.jit(f), lambda x: iv.vmap(f)(iv.stack([x, x]))[1]], number=tracked)):
        np.testing.assert_allclose(way(x).numpy(), expected(2.0), rtol=1e-14)
    jitted = iv.jit(f)
    ways = [
        iv.jit(iv.grad(f)),
        iv.grad(jitted),
        lambda x: iv.jvp(f, (x,), (x * 0 + 1,))[1],
        lambda x: iv.vmap(iv.grad(f))(iv.stack([x, x]))[1],
    ]
    for way in (iv.grad(f), *some(name, ways, number=2 * tracked)):
        np.testing.assert_allclose(way(x).numpy(), slope, rtol=1e-13)


def test_a_while_loop_writes_and_its_condition_does_not() -> None:
    def f(x, z):
        def step(s):
            z[1] += s[0]
            return s[0] + z[1], s[1] + 1

        return iv.while_loop(lambda s: s[1] < 3, step, (x, iv.asarray(0)))[0]

    z = iv.zeros(3)
    assert f(iv.asarray(1.0), z).item() == 13.0
    assert z.tolist() == [0.0, 12.0 - 4.0, 0.0]

    def asks(s):
        z[0] = 7.0
        return s < 3

    with pytest.raises(GraphError, match="writes into a tensor around it"):
        iv.while_loop(asks, lambda s: s + 1, iv.asarray(0.0))
    assert z.tolist() == [0.0, 8.0, 0.0]


def test_a_mapped_function_that_writes_around_it_is_refused_and_changes_nothing() -> None:
    z = iv.asarray([1.0, 2.0])
    with pytest.raises(ArgumentError, match=r"vmap.*'function'.*as it was"):
        iv.vmap(lambda v: (z.__setitem__(0, v), v)[1])(iv.asarray([3.0, 4.0]))
    assert (z * 2).tolist() == [2.0, 4.0]

    def own(v):
        y = iv.zeros(2)
        y[0] = v
        return y

    assert iv.vmap(own)(iv.asarray([3.0, 4.0])).tolist() == [[3.0, 0.0], [4.0, 0.0]]


def test_an_error_in_a_body_leaves_tensors_around_it_as_they_were() -> None:
    z = iv.asarray([1.0, 2.0])

    def step(c, u):
        z[0] = u
        raise KeyError("of the user")

    for run in (
        lambda: iv.scan(step, iv.asarray(0.0), iv.ones(2)),
        lambda: iv.vmap(lambda u: step(0, u))(iv.ones(2)),
        lambda: iv.checkpoint(step)(iv.asarray(0.0), iv.asarray(1.0)),
        lambda: iv.jit(step)(iv.asarray(0.0), iv.asarray(1.0)),
    ):
        with pytest.raises(KeyError):
            run()
        assert (z + 1).tolist() == [2.0, 3.0]


def _temporaries(xp: Any, x: Any, y: Any) -> Any:
    """Write into tensors that are made in the body of what is around it, and gone at once; linear in both."""

    def body(k: Any, c: Any) -> Any:
        def inner(p: Any) -> Any:
            v = xp.asarray(y, copy=True)
            w = v[np.array([0, 1, 0])]
            v[np.array([1])] += p
            w[np.array([0, 2])] *= v[np.array([0, 1])] * 0.0 + 2.0
            return c + xp.sum(v) + xp.sum(w)

        return (iv.jit(inner) if xp is iv else inner)(k * 1.0)

    if xp is iv:
        return iv.fori_loop(0, 2, body, x)
    return body(1, body(0, x))


@pytest.mark.parametrize("around", [lambda f: f, iv.jit, iv.checkpoint], ids=["eager", "jit", "checkpoint"])
def test_temporaries_that_are_written_one_after_the_other_are_told_apart(around: Any) -> None:
    # The second one is where the first one was in memory.
    x, y = np.array([0.3, -0.4]), np.array([[0.1, 0.2], [-0.3, 0.4]])
    f = around(lambda x, y: _temporaries(iv, x, y))
    value, gradients = iv.vmap(iv.value_and_grad(f, (0, 1)))(iv.asarray(x), iv.asarray(y))
    np.testing.assert_allclose(value.numpy(), [_temporaries(np, *z) for z in zip(x, y, strict=True)])
    start = _temporaries(np, 0.0, np.zeros(2))
    expected = [_temporaries(np, 0.0, unit) - start for unit in np.eye(2)]
    np.testing.assert_allclose(gradients[0].numpy(), [1.0, 1.0])
    np.testing.assert_allclose(gradients[1].numpy(), [expected, expected])
