"""Compiled and mapped functions, called with one thing after the other, against NumPy and plain calls.

Programs for any number of entries, outputs in the memory of inputs, examples in groups of equal masks, and
traces of what was there at the time: what each shares from one call, output or example to the next is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
import pytest

import iverson as iv
from tests.conformance.product import EXHAUSTIVE, SEED, some

# --- any number of entries ----------------------------------------------------------------------------

N, M = 4, 5
#: Entry by entry: none of them is 0 at 0, which is what may stand beyond the entries that there are.
BETWEEN: tuple[Callable[[Any, Any], Any], ...] = (
    lambda xp, v: xp.exp(v),
    lambda xp, v: v + 1.5,
    lambda xp, v: xp.cos(v) * 2.0,
    lambda xp, v: xp.where(v > 0.5, v, 0.75),
    lambda xp, v: 1.0 / (v * v + 0.25),
)
#: What entries, at rows and columns, and a dense matrix make: of NumPy's arrays, of the library's tensors.
ENDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda s, v, x: v.sum(), lambda v, i, j, x: v.sum()),
    "mean": (
        lambda s, v, x: v.sum() / (iv.ones_like(v).sum() + 1.0),
        lambda v, i, j, x: v.sum() / (v.size + 1.0),
    ),
    "inner": (lambda s, v, x: v @ (v + 1.0), lambda v, i, j, x: v @ (v + 1.0)),
    "rows": (
        lambda s, v, x: s.with_values(v).sum(axis=1).to_dense(),
        lambda v, i, j, x: _scattered(v, i, j).sum(axis=1),
    ),
    "columns": (
        lambda s, v, x: s.with_values(v).sum(axis=0).to_dense(),
        lambda v, i, j, x: _scattered(v, i, j).sum(axis=0),
    ),
    "product": (lambda s, v, x: s.with_values(v) @ x, lambda v, i, j, x: _scattered(v, i, j) @ x),
    "gathered": (
        lambda s, v, x: (v * (s.with_values(iv.ones_like(v)) * x.mT).values()).sum(),
        lambda v, i, j, x: (v * x.T[i, j]).sum(),
    ),
    "softmax": (
        lambda s, v, x: iv.nn.softmax(iv.masked_tensor(s.with_values(v)), axis=1).to_tensor(0.0).to_dense(),
        lambda v, i, j, x: _softmax(v, i, j),
    ),
    "largest": (
        lambda s, v, x: iv.max(iv.masked_tensor(s.with_values(v)), axis=1).to_tensor(-9.0).to_dense(),
        lambda v, i, j, x: np.array([v[i == k].max(initial=-9.0) for k in range(N)]),
    ),
    "multiplied": (
        lambda s, v, x: iv.prod(iv.masked_tensor(s.with_values(v)), axis=1).to_tensor(1.0).to_dense(),
        lambda v, i, j, x: np.array([v[i == k].prod() for k in range(N)]),
    ),
}


def _scattered(v: Any, i: Any, j: Any) -> Any:
    out = np.zeros((N, M))
    out[i, j] = v
    return out


def _softmax(v: Any, i: Any, j: Any) -> Any:
    top = np.array([v[i == k].max(initial=-np.inf) for k in range(N)])
    e = np.exp(v - top[i])
    return _scattered(e / np.array([e[i == k].sum() for k in range(N)])[i], i, j)


def stored(rng: np.random.Generator, count: int, layout: str) -> tuple[Any, Any, Any, Any]:
    """A sparse matrix, its entries, and their rows and columns, in its order."""
    at = np.sort(rng.permutation(N * M)[:count])
    i, j = np.divmod(at, M)
    v = rng.normal(size=count)
    if layout == "csc":
        order = np.lexsort((i, j))
        i, j, v = i[order], j[order], v[order]
    s = iv.sparse_coo_tensor((i, j), v, (N, M))
    return s if layout == "coo" else s.to_layout(layout), v, i, j


@pytest.mark.parametrize("end", some("ends", ENDS, 2))
@pytest.mark.parametrize("layout", ["csr", "coo", "csc"] if EXHAUSTIVE else ["csr"])
def test_entries_beyond_those_of_a_pattern_count_nowhere(end: str, layout: str) -> None:
    """One program serves few and many entries, also none."""
    rng = np.random.default_rng([SEED, *end.encode()])
    of_tensors, of_arrays = ENDS[end]
    x = rng.normal(size=(M, N))
    for _ in range(5 if EXHAUSTIVE else 1):
        steps = [BETWEEN[k] for k in rng.integers(len(BETWEEN), size=2)]

        def function(s: Any, steps: Any = tuple(steps)) -> Any:
            v = s.values()
            for step in steps:
                v = step(iv, v)
            return of_tensors(s, v, iv.asarray(x))

        def total(s: Any, function: Any = function) -> Any:
            return (function(s) * 1.5).sum()

        jitted, gradient = iv.jit(function), iv.jit(iv.grad(total))
        for count in (7, 3, 20, 0, 12, 1):
            s, v, i, j = stored(rng, count, layout)
            plain = s
            for step in steps:
                v = step(np, v)
            np.testing.assert_allclose(jitted(s).numpy(), of_arrays(v, i, j, x), rtol=1e-12, atol=1e-13)
            found, want = gradient(s).to_dense().numpy(), iv.grad(total)(plain).to_dense().numpy()
            np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-13)


# --- outputs in the memory of inputs ------------------------------------------------------------------

SIZE = 6
W = np.random.default_rng(2).normal(size=(SIZE, SIZE))
#: Of two vectors: some read an entry only to make the one at its place, others also elsewhere.
MADE: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda xp, a, b: a - 0.5 * b,
    lambda xp, a, b: xp.flip(a) + b,
    lambda xp, a, b: xp.cumulative_sum(a, axis=0) * 0.5,
    lambda xp, a, b: (a * b).sum() + b,
    lambda xp, a, b: xp.asarray(W) @ a,
    lambda xp, a, b: xp.exp(-a * a),
    lambda xp, a, b: xp.concat([a[2:], b[:2]]),
    lambda xp, a, b: xp.where(a > xp.flip(b), a, b),
)


@pytest.mark.parametrize("seed", range(200 if EXHAUSTIVE else 6))
def test_what_is_given_away_is_read_before_it_is_written_over(seed: int) -> None:
    """Outputs that read inputs in all orders, of which some are donated; one may read another."""
    rng = np.random.default_rng([SEED, seed, 3])
    count = int(rng.integers(2, 4))
    plan = [
        (int(rng.integers(len(MADE))), *map(int, rng.integers(max(count + k - 3, 0), count + k, size=2)))
        for k in range(int(rng.integers(2, 5)))
    ]
    order = rng.permutation(len(plan))

    def function(xp: Any, *args: Any) -> Any:
        values = list(args)
        for step, k, n in plan:
            values.append(MADE[step](xp, values[k], values[n]))
        return [values[count + k] for k in order]

    arrays = [rng.normal(size=SIZE) for _ in range(count)]
    expected = function(np, *arrays)
    for donate in ((), tuple(range(count)), tuple(np.flatnonzero(rng.integers(0, 2, count)).tolist())):
        jitted = iv.jit(lambda *args: function(iv, *args), donate=donate)
        for _ in range(2):
            found = jitted(*(iv.asarray(a, copy=True) for a in arrays))
            for x, want in zip(found, expected, strict=True):
                np.testing.assert_allclose(
                    x.numpy(), want, rtol=1e-13, err_msg=f"{donate} of {plan}, {order}"
                )


# --- examples in groups of equal masks ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(100 if EXHAUSTIVE else 10))
def test_every_example_has_its_own_result_whatever_the_masks(seed: int) -> None:
    rng = np.random.default_rng([SEED, seed, 4])
    size, n = int(rng.integers(3, 9)), 4
    masks = rng.integers(0, 2, (3, n)).astype(bool)[rng.integers(0, 3, size)]
    second = (
        np.ones((size, n), bool)
        if seed % 4 == 3
        else rng.integers(0, 2, (2, n)).astype(bool)[rng.integers(0, 2, size)]
    )
    x, y, z = (rng.normal(size=(size, n)) for _ in range(3))
    axis, out = int(rng.integers(2)), int(rng.integers(2))

    def function(a: Any, b: Any, c: Any) -> Any:
        return (a * b).to_tensor(0.5) + c, (a * c).to_tensor(-1.0).sum(), a + b

    mapped = iv.vmap(function, (axis, 0, 0), (out, 0, out), chunk_size=None if seed % 3 else 2)
    a = iv.masked_tensor(np.moveaxis(x, 0, axis).copy(), np.moveaxis(masks, 0, axis).copy())
    first, sums, both = mapped(a, iv.masked_tensor(y, second), iv.asarray(z))
    meet = masks & second
    np.testing.assert_allclose(np.moveaxis(first.numpy(), out, 0), np.where(meet, x * y, 0.5) + z)
    np.testing.assert_allclose(sums.numpy(), np.where(masks, x * z, -1.0).sum(axis=1))
    np.testing.assert_array_equal(np.moveaxis(both.get_mask().numpy(), out, 0), meet)
    np.testing.assert_allclose(np.moveaxis(both.to_tensor(0.0).numpy(), out, 0), np.where(meet, x + y, 0.0))


# --- what was there at the time -----------------------------------------------------------------------


def ways(w: Any) -> dict[str, Callable[[Any], Any]]:
    """Functions that read a tensor from outside, each in a way of its own."""
    get, again = {1: w}.get, repeat(w)
    items = [w]
    holder = type("Holder", (), {"w": w, "__slots__": ()})()

    def default(x: Any, w: Any = w) -> Any:
        return x * w

    def named(x: Any, *, w: Any = w) -> Any:
        return x * w

    return {
        "variable": lambda x: x * w,
        "default": default,
        "named default": named,
        "item": lambda x: x * items[0],
        "attribute": lambda x: x * holder.w,
        "method of a library's object": lambda x: x * get(1),
        "computed from it": lambda x: x * (w * 1.0),
        "iterator": lambda x: x * next(again),
        "computed, from an iterator": lambda x: x * (next(again) * 1.0),
        "found by identity": lambda x: x * next(iter(tuple(items))),
    }


#: What happens to a tensor between calls.
def _written(w: Any) -> None:
    with iv.autograd.no_grad():
        w[1] = w[1] + 1.0


def _scaled(w: Any) -> None:
    with iv.autograd.no_grad():
        w *= 1.5


EVENTS: dict[str, Callable[[Any], Any]] = {
    "written": _written,
    "scaled": _scaled,
    "tracked": lambda w: w.requires_grad_(True),
    "constant": lambda w: w.requires_grad_(False),
    "nothing": lambda w: None,
}


@pytest.mark.parametrize("way", ways(iv.asarray([1.0])))
def test_a_tensor_from_outside_is_what_it_is_at_the_call(way: str) -> None:
    """Its entries, and whether it has a gradient, after everything that may have happened to it."""
    rng = np.random.default_rng([SEED, *way.encode()])
    w = iv.asarray([1.0, 2.0, 3.0])
    function = ways(w)[way]
    jitted = iv.jit(function)
    x = iv.asarray([1.0, -1.0, 2.0])
    for name in (
        "nothing",
        "tracked",
        "nothing",
        "constant",
        *rng.choice(list(EVENTS), 40 if EXHAUSTIVE else 8),
    ):
        EVENTS[name](w)
        found, want = jitted(x), x.numpy() * w.detach().numpy()
        np.testing.assert_array_equal(found.detach().numpy(), want, err_msg=name)
        assert found.requires_grad == w.requires_grad, name
        if w.requires_grad:
            gradient = iv.autograd.grad(found.sum(), w)
            np.testing.assert_array_equal(gradient.numpy(), x.numpy(), err_msg=name)


#: How entries become numbers of Python's or NumPy's, or those of a masked tensor a constant.
LEAVING: dict[str, Callable[[Any, Any], Any]] = {
    "tolist": lambda w, m: iv.asarray(w.tolist()),
    "numpy": lambda w, m: iv.asarray(w.numpy(), copy=True),
    "array": lambda w, m: iv.asarray(np.array(w)),
    "item": lambda w, m: w[0].item(),
    "float": lambda w, m: float(w[0]),
    "largest": lambda w, m: max(w.tolist()),
    "masked": lambda w, m: m.to_tensor(0.0),
    "computed of masked": lambda w, m: (m * 2.0).to_tensor(0.0),
    "which there are": lambda w, m: iv.astype(m.get_mask(), w.dtype),
}


@pytest.mark.parametrize(
    ("name", "is_named"),
    # What a masked tensor itself gives is no op: it is seen where its name is.
    [(n, has) for n in LEAVING for has in (True, False) if has or n not in ("masked", "which there are")],
)
def test_numbers_that_a_function_reads_are_those_of_the_call(name: str, is_named: bool) -> None:
    w, m = iv.asarray([1.0, 2.0]), iv.masked_tensor(iv.asarray([3.0, 4.0]), [True, False])
    both = repeat((w, m))  # into which nothing looks
    x = iv.asarray([1.0, -1.0])

    def named(x: Any) -> Any:
        return x * LEAVING[name](w, m)

    def function(x: Any) -> Any:
        return named(x) if is_named else x * LEAVING[name](*next(both))

    if not is_named:
        named = None  # type: ignore[assignment]  # its names are not to be found

    jitted, gradient = iv.jit(function), iv.jit(iv.grad(lambda x: function(x).sum()))
    for k in range(3):
        assert jitted(x).tolist() == function(x).tolist()
        assert gradient(x).tolist() == iv.grad(lambda x: function(x).sum())(x).tolist()
        w[0] = 5.0 + k
        m[k % 2] = 7.0 + k


#: What says which entries are read, by integers or by booleans.
CHOOSING: dict[str, Callable[[Any, Any, Any], Any]] = {
    "index": lambda x, i, b: x[i],
    "take": lambda x, i, b: iv.take(x, i),
    "boolean index": lambda x, i, b: x[b],
    "segments": lambda x, i, b: iv.segment_sum(x, i, 2),
    "mask": lambda x, i, b: iv.masked_tensor(x, b).to_tensor(0.0),
    "where": lambda x, i, b: iv.where(b, x, 0.5),
    "coordinates": lambda x, i, b: iv.sparse_coo_tensor((i, i), x, (2, 2)).to_dense(),
}


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("is_named", [True, False])
def test_places_that_a_function_reads_are_those_of_the_call(name: str, is_named: bool) -> None:
    i, b = iv.asarray([0, 1]), iv.asarray([True, False])
    both = {1: (i, b)}.get
    x = iv.asarray([1.0, 2.0])

    def function(x: Any) -> Any:
        found = (i, b) if is_named else both(1)
        return CHOOSING[name](x, *found)

    jitted = iv.jit(function)
    for k in range(3):
        assert jitted(x).tolist() == function(x).tolist()
        i[k % 2] = 1 - k % 2
        b[k % 2] = k % 2 == 1


def test_two_tensors_of_the_same_entries_are_two() -> None:
    """Of which a program has the entries once."""
    for first in (0, 1):
        w = iv.asarray([1.0, 2.0])
        get = {"pair": (w, w.detach())}.get
        f = iv.jit(lambda x, get=get: x * get("pair")[0] + get("pair")[1])
        x = iv.asarray([3.0, 5.0])
        for k in (first, 1 - first, first):
            assert f(x).tolist() == (x.numpy() * get("pair")[0].numpy() + get("pair")[1].numpy()).tolist()
            get("pair")[k][0] = get("pair")[k][0] + 1.0
            assert f(x).tolist() == (x.numpy() * get("pair")[0].numpy() + get("pair")[1].numpy()).tolist()


@pytest.mark.parametrize("part", ["__code__", "__defaults__", "__kwdefaults__"])
def test_the_parts_of_a_function_are_what_they_are_at_the_call(part: str) -> None:
    """Of the function itself, and of one that it calls."""

    def inner(x: Any, a: float = 1.0, *, b: float = 2.0) -> Any:
        return a * x + b

    def other(x: Any, a: float = 4.0, *, b: float = 7.0) -> Any:
        return a * x - b

    def outer(x: Any) -> Any:
        return inner(x) * 1.0

    x = iv.asarray([1.0, 2.0])
    functions = [iv.jit(inner), iv.jit(outer), iv.jit(iv.grad(lambda x: (outer(x) ** 2).sum()))]
    own = getattr(inner, part)
    for value in (own, getattr(other, part), own, getattr(other, part)):
        setattr(inner, part, value)
        want = inner(x.numpy())
        slope = inner(np.ones(1)) - inner(np.zeros(1))
        for f, expected in zip(functions, (want, want, 2 * want * slope), strict=True):
            np.testing.assert_array_equal(f(x).numpy(), expected)
