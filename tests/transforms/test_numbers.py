"""Compiled functions of Python numbers: few programs for all of them, with the results of eager code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.core.dispatch import value_of
from iverson.layouts import to_strided
from tests.conformance.product import examples

X = np.random.default_rng(0).standard_normal((3, 4))
#: The first size of a function and the general program may differ in the last bits.
ROUNDING = {"rtol": 1e-12, "atol": 1e-14}
SINGLE = {"rtol": 1e-5, "atol": 1e-6}


def values(y: Any) -> list[Any]:
    return [to_strided(value_of(v)) for v in (y if isinstance(y, tuple | list) else (y,))]


def agree(compiled: Any, eager: Any, single: bool = False) -> None:
    """Same shapes, dtypes and values: to rounding, that of single precision for what is computed in it."""
    for a, b in zip(values(compiled), values(eager), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, **(SINGLE if single or a.dtype == np.float32 else ROUNDING))


def adam(x: Any, t: int, lr: float) -> Any:
    g = iv.grad(lambda x: iv.sum(iv.sin(x) ** 2))(x)
    m, v = 0.1 * g / (1 - 0.9**t), 0.001 * g**2 / (1 - 0.999**t)
    return x - lr * m / (iv.sqrt(v) + 1e-8)


#: By name: a function of an array and numbers, and calls, of which the last ones compile nothing.
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "rate": (lambda x, lr: x - lr * iv.sin(x), [(0.1,), (0.2,), (-0.0,), (math.inf,), (math.nan,), (1e300,)]),
    "two": (
        lambda x, a, b: a * x + b * x + a,
        [(0.5, 0.5), (0.25, 0.25), (0.1, 0.7), (0.2, 0.3), (0.0, 1.0)],
    ),
    "steps": (adam, [(1, 0.1), (2, 0.1), (3, 0.05), (4, 0.01), (5, 0.1)]),
    "whole numbers": (lambda x, n: x * n + n, [(2,), (3,), (0,), (-1,), (7,)]),
    "exponents": (lambda x, p: iv.abs(x) ** p, [(0.5,), (1.5,), (-0.5,), (0.25,)]),
    "compared": (lambda x, c: iv.where(x > c, x, c), [(0.0,), (0.5,), (-1.0,), (2.0,)]),
    "derivative": (
        lambda x, c: iv.grad(lambda x: iv.sum(iv.exp(c * x) * x))(x),
        [(0.1,), (0.2,), (0.3,), (-0.5,)],
    ),
    "single": (lambda x, c: iv.sum(x.astype(iv.float32) * c), [(0.1,), (0.2,), (1 / 3,), (0.7,)]),
    "scan": (
        lambda x, c, d: sum(map(iv.sum, iv.scan(lambda s, y: (s * c + iv.sin(y) / d, s + c), x[0] * 0, x))),
        [(0.5, 2.0), (0.25, 3.0), (0.75, 3.0), (0.1, 0.5)],
    ),
    "branch": (
        lambda x, c: iv.cond(iv.sum(x) > c, lambda x: x * c + 2, lambda x: x - c / 2, x),
        [(0.5,), (-1e9,), (1e9,), (0.25,)],
    ),
    "loop": (
        lambda x, c: iv.while_loop(lambda s: iv.sum(s * s) < 9 * c, lambda s: s * 2 + c, x),
        [(0.5,), (2.5,), (1.5,), (10.0,)],
    ),
    "checkpoint": (
        lambda x, c: iv.checkpoint(
            lambda x: iv.sum(iv.sin(x * c) + iv.cond(iv.max(x) > c, lambda x: x * c, iv.sin, x))
        )(x),
        [(0.5,), (2.5,), (-1.5,), (10.0,)],
    ),
    "derivative of steps": (
        lambda x, c: iv.grad(lambda x: iv.sum(iv.scan(lambda s, y: (s * y * c, s), x[0], iv.sin(x))[0]))(x),
        [(0.5,), (2.5,), (-1.5,), (0.75,)],
    ),
    "integers": (
        lambda x, n, c: iv.sum(x * c) + iv.astype(iv.asarray([3, 5, -2]) * n % 7 + n, x.dtype),
        [(2, 0.5), (3, 0.5), (-4, 0.25), (5, 2.0), (11, 0.125)],
    ),
    "none": (lambda x, c: x * 2, [(0.1,), (0.2,), (0.3,), (0.4,)]),
    "constants": (lambda x, c: x * iv.asarray([c, 2 * c, 0.5, 1.0]), [(0.1,), (0.2,), (0.3,), (0.4,)]),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_programs_serve_all_numbers(name: str) -> None:
    f, calls = FUNCTIONS[name]
    compiled = iv.jit(f)
    for numbers in calls:
        agree(compiled(iv.asarray(X), *numbers), f(iv.asarray(X), *numbers))
    assert compiled.cache_size <= (3 if name in ("two", "steps", "integers") else 2)
    for numbers in calls:
        agree(compiled(iv.asarray(X), *numbers), f(iv.asarray(X), *numbers))
    assert compiled.cache_size <= (3 if name in ("two", "steps", "integers") else 2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "loop"])
def test_derivatives_of_general_programs(name: str) -> None:
    f, calls = FUNCTIONS[name]
    compiled = iv.jit(f)
    x, v = iv.asarray(X), iv.asarray(np.cos(X))
    for numbers in [c for c in calls if np.isfinite(c).all() and max(c) < 1e3]:
        loss, eager = (lambda x, g=g, c=numbers: iv.sum(iv.sin(g(x, *c))) for g in (compiled, f))
        for way in (iv.grad, lambda h: iv.grad(lambda x: iv.sum(iv.grad(h)(x) * v)), iv.vmap):
            agree(way(loss)(x), way(eager)(x), name == "single")
        agree(iv.jvp(loss, (x,), (v,))[1], iv.jvp(eager, (x,), (v,))[1], name == "single")


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
def test_numbers_that_are_part_of_what_is_computed() -> None:
    """Extents, branches, dtypes and whole exponents are compiled for, and are right in any order."""
    f = lambda x, n, c: (iv.sum(x[:n]) if c > 0 else x[:n] * c, iv.ones(n), x**n)
    compiled = iv.jit(f)
    rng = np.random.default_rng(0)
    for n, c in [
        (int(n), float(c))
        for n, c in zip(rng.integers(1, 4, 20), rng.choice([-1.5, 0.5, 2.5], 20), strict=True)
    ]:
        agree(compiled(iv.asarray(X), n, c), f(iv.asarray(X), n, c))
    g = iv.jit(lambda s, n: (s * 1.0) ** n)
    s = iv.to_layout(iv.asarray(np.eye(3)), "csr")
    for n in (2, 0, 3, 0.5, 1.5, 0):
        assert g(s, n).layout == (s**n).layout
        agree(g(s, n), s**n)


def test_what_is_read_from_outside_may_change() -> None:
    """A global number, and an array that the function closes over."""
    rate, weights = 0.1, iv.asarray(X)
    compiled = iv.jit(lambda x: x * rate + weights)
    for k in range(6):
        rate, weights = 0.1 * k, iv.asarray(X * k)
        agree(compiled(iv.asarray(X)), iv.asarray(X * rate + X * k))
    assert compiled.cache_size == 1


def test_general_programs_write_and_draw_as_special_ones() -> None:
    def f(x: Any, c: float) -> Any:
        x *= c
        return x + 1

    compiled = iv.jit(f)
    for c in (0.5, 2.0, 3.0, 0.25):
        x = iv.asarray(X.copy())
        agree(compiled(x, c), iv.asarray(X * c + 1))
        agree(x, iv.asarray(X * c))


def test_donated_arguments_of_general_programs() -> None:
    compiled = iv.jit(lambda x, c: x * c, donate=0)
    for c in (0.5, 2.0, 3.0, 0.25):
        agree(compiled(iv.asarray(X.copy()), c), iv.asarray(X * c))
    assert compiled.cache_size == 2


#: Functions of a sparse matrix, an array and a number.
SPARSE: dict[str, Callable[..., Any]] = {
    "product": lambda s, x, c: iv.tanh((s * c) @ x) - c * x,
    "gradient": lambda s, x, c: iv.grad(lambda x: iv.sum(iv.sin((s * 0.5) @ (x * c))))(x),
    "union": lambda s, x, c: (s * c + s.mT) @ x,
    "products": lambda s, x, c: (s @ s) @ x * c,
    "sparse": lambda s, x, c: iv.sin(s) * c,
}


@pytest.mark.parametrize("layout", ["csr", "coo", "bsr"])
@pytest.mark.parametrize("name", SPARSE)
def test_numbers_beside_sparse_operands(name: str, layout: str) -> None:
    """One program for any numbers and any patterns of as many entries."""
    f, rng = SPARSE[name], np.random.default_rng(0)
    compiled, x = iv.jit(f), iv.asarray(rng.standard_normal((6, 2)))
    blocks = {"blocksize": (2, 2)} if layout == "bsr" else {}
    for k in range(8):
        dense = np.zeros((3, 3))
        dense.flat[rng.permutation(9)[:4]] = rng.standard_normal(4)
        s = iv.to_layout(iv.asarray(np.kron(dense, np.ones((2, 2)))), layout, **blocks)
        c = [0.5, 2.0, 3.5, -1.0][k % 4]
        agree(compiled(s, x, c), f(s, x, c))
        assert compiled(s, x, c).layout == f(s, x, c).layout
    assert compiled.cache_size <= 3


def test_few_traces_are_kept() -> None:
    compiled = iv.jit(lambda x, c: x * c)
    for k in range(300):
        agree(compiled(iv.asarray(X[0]), float(k)), iv.asarray(X[0] * k))
    assert compiled.cache_size == 2
    assert len(compiled._entries) < 100


OPS: dict[str, Callable[..., Any]] = {
    "times": lambda x, c: x * c,
    "plus": lambda x, c: c + x,
    "over": lambda x, c: c / (2 + x * x),
    "power": lambda x, c: (1 + x * x) ** c,
    "at most": iv.minimum,
    "where": lambda x, c: iv.where(x < c, c, x),
    "sum": lambda x, c: iv.sum(x, axis=-1, keepdims=True) * c,
    "if": lambda x, c: iv.sin(x) if c > 0.5 else iv.cos(x),
    "twice": lambda x, c: x * c - x / (3 + c),
}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(sorted(OPS)), min_size=1, max_size=5),
    st.lists(
        st.lists(st.sampled_from([-1, 0, 0.0, -0.0, 0.3, 1, 2, 2.5]), min_size=5, max_size=5),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from(["float64", "float32"]),
)
def test_programs_of_random_numbers(names: list[str], calls: list[list[float]], dtype: str) -> None:
    def f(x: Any, *numbers: float) -> Any:
        for name, c in zip(names, numbers, strict=False):
            x = OPS[name](x, c)
        return x

    compiled, x = iv.jit(f), iv.asarray(X.astype(dtype))
    for numbers in calls:
        agree(compiled(x, *numbers), f(x, *numbers))
        gradient = lambda f, numbers=numbers: iv.grad(lambda x: iv.sum(f(x, *numbers)))(x)
        agree(gradient(compiled), gradient(f))


def test_a_number_that_no_program_takes_is_named() -> None:
    """Numbers that are equal by chance make general programs of their own, three at most."""
    f = iv.jit(lambda x, a, b, c, d: x * a + x**2 * b + x**3 * c - x * d)
    calls = [(1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 4), (3, 3, 4, 5), (3, 4, 5, 6), (4, 5, 6, 6)]
    for numbers in calls[:4]:
        f(iv.asarray(X), *map(float, numbers))
    with pytest.warns(iv.errors.CompilationWarning, match=r"after 3 programs.*b: 3.0 before, 4.0 now"):
        f(iv.asarray(X), *map(float, calls[4]))
    for numbers in calls:
        a, b, c, d = numbers
        agree(f(iv.asarray(X), *map(float, numbers)), iv.asarray(X * a + X**2 * b + X**3 * c - X * d))


def test_compilations_say_why() -> None:
    f = iv.jit(lambda x, y, n: x * n + y)
    x = iv.asarray(X)
    for args in [(x, x, 0.5), (x, X, 0.5), (x, x[:1], 0.5), (x, x.astype(iv.float32), 0.5)]:
        f(*args)
    reasons = [c.reason for c in iv.explain.compilations()[-4:]]
    assert reasons == [
        "the first call",
        "y: the tensor in x before, float64[3, 4] now",
        "y: float64[3, 4] before, float64[1, 4] now",
        "y: float64[1, 4] before, float32[3, 4] now",
    ]
    f(x, x, 0.25)
    assert "numbers differ" in str(iv.explain.compilations()[-1])
    iv.grad(lambda x: iv.sum(f(x, x, 0.75)))(x)
    assert [c.name for c in iv.explain.compilations()[-2:]] == ["jit(<lambda>)", "jit(<lambda>), pull"]


def test_arrays_that_were_closed_over_are_let_go() -> None:
    """However often they are replaced."""
    import gc
    from weakref import ref

    weights = iv.asarray(np.ones(1 << 17))
    f = iv.jit(lambda x: x * weights)
    seen = []
    for k in range(6):
        weights = iv.asarray(np.full(1 << 17, float(k)))
        seen.append(ref(value_of(weights)))
        assert float(f(iv.asarray(1.0))[5]) == k
    gc.collect()
    assert sum(r() is not None for r in seen) <= 2


def test_draws_of_general_programs_are_those_of_eager_code() -> None:
    """From one generator, one call after the other; another generator has a program of its own."""
    f = lambda x, c, rng: iv.nn.dropout(x * c, 0.5, rng=rng) + rng.standard_normal((3, 4)) * c
    ours, others = iv.random.default_rng(3), iv.random.default_rng(3)
    compiled = iv.jit(lambda x, c: f(x, c, ours))
    for c in (0.5, 0.25, 2.0, 0.75, 0.5):
        agree(compiled(iv.asarray(X), c), f(iv.asarray(X), c, others))
    assert compiled.cache_size == 2


def test_numbers_out_of_bounds_are_refused_as_in_eager_code() -> None:
    """An integer that its dtype does not hold, beside a program that takes any."""
    compiled = iv.jit(lambda x, n: x * n)
    x = iv.asarray(np.array([1, 2, 3], np.int8))
    for n in (2, 3, 4, 300, -5, 1000, 7):
        if abs(n) > 127:
            with pytest.raises(iv.errors.ArgumentError, match="out of bounds for int8"):
                compiled(x, n)
        else:
            np.testing.assert_array_equal(
                np.asarray(compiled(x, n)), np.array([1, 2, 3], np.int8) * np.int8(n)
            )
    assert compiled.cache_size <= 4
