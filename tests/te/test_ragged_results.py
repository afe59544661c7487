"""Results with an entry for each point of a ragged domain, padded or packed: values, derivatives, work.

The oracle is NumPy in loops over rows, and its complex step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.errors import IndexingError, ShapeError
from iverson.te.ir.interpret import Visits, run
from iverson.te.lowering.program_work import work
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import examples, in_short, paired

from .oracles import check_derivatives

WIDTH = 5


def row(p: Any) -> Any:
    return lambda i: (p[i], p[i + 1])


def places(p: Any) -> Any:
    return lambda i: (0, p[i + 1] - p[i])


# --- programs, in index notation and in loops ----------------------------------------------------------


def padded(p: Any, x: Any, w: Any) -> Any:
    n = w.shape[0]
    return te.compute((n, WIDTH), lambda i, k: te.sin(x[p[i] + k]) * w[i], domain=(n, places(p)))


def padded_by_rows(p: Any, x: Any, w: Any) -> Any:
    out = np.zeros((len(w), WIDTH), x.dtype)
    for i, k in np.ndindex(out.shape):
        if p[i] + k < p[i + 1]:
            out[i, k] = np.sin(x[p[i] + k]) * w[i]
    return out


def packed(p: Any, x: Any, w: Any) -> Any:
    n = w.shape[0]

    def mean(i: Any) -> Any:
        e = te.reduce_axis((p[i], p[i + 1]))
        return te.sum(x[e], e)

    total = te.compute((n,), mean)
    return te.compute(x.shape, lambda i, e: x[e] * w[i] - total[i], domain=(n, row(p)))


def packed_by_rows(p: Any, x: Any, w: Any) -> Any:
    out = np.zeros_like(x)
    for i in range(len(w)):
        own = slice(p[i], max(p[i], p[i + 1]))
        out[own] += x[own] * w[i] - x[own].sum()
    return out


def scores(p: Any, x: Any, w: Any) -> Any:
    """A reduction for each place of a row."""
    n, c = w.shape[0], te.reduce_axis(3)
    value = lambda i, k: te.sum((c + 1) * x[p[i] + k] ** 2 * w[i], c)
    return te.compute((n, WIDTH), value, domain=(n, places(p)))


def scores_by_rows(p: Any, x: Any, w: Any) -> Any:
    out = np.zeros((len(w), WIDTH), x.dtype)
    for i, k in np.ndindex(out.shape):
        if p[i] + k < p[i + 1]:
            out[i, k] = 6 * x[p[i] + k] ** 2 * w[i]
    return out


def features(p: Any, x: Any, w: Any) -> Any:
    """Packed rows with an axis after the ragged one, and a matrix for each row."""
    n, c = w.shape[0], te.reduce_axis(2)
    value = lambda i, e, j: te.sum(x[e] ** c * (w[i] + j), c)
    return te.compute((x.shape[0], 3), value, domain=(n, row(p), 3))


def features_by_rows(p: Any, x: Any, w: Any) -> Any:
    out = np.zeros((len(x), 3), x.dtype)
    for i, j in np.ndindex(len(w), 3):
        for e in range(p[i], p[i + 1]):
            out[e, j] += (1 + x[e]) * (w[i] + j)
    return out


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "padded": (padded, padded_by_rows),
    "packed": (packed, packed_by_rows),
    "a sum for each place": (scores, scores_by_rows),
    "packed, of features": (features, features_by_rows),
}
OPS = {name: te.op(build, name=f"results_{build.__name__}") for name, (build, _) in CASES.items()}


@pytest.mark.parametrize("name", CASES)
@given(lengths=st.lists(st.integers(0, WIDTH), min_size=1, max_size=6), seed=st.integers(0, 99))
@settings(max_examples=examples(4), deadline=None)
def test_values_and_gradients_are_those_of_loops(name: str, lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = np.concatenate([[0], np.cumsum(lengths)])
    x, w = rng.standard_normal(p[-1] + 1), rng.standard_normal(len(lengths))  # the last entry is in no row
    loops = CASES[name][1]
    np.testing.assert_allclose(OPS[name](p, x, w).numpy(), loops(p, x, w), rtol=1e-12, atol=1e-13)
    head = np.cos(np.arange(loops(p, x, w).size)).reshape(loops(p, x, w).shape)
    found = iv.grad(lambda x, w: (OPS[name](p, x, w) * head).sum(), argnums=(0, 1))(x, w)
    for k, g in enumerate(found):
        for at in range(g.shape[0]):
            moved = [v.astype(complex) for v in (x, w)]
            moved[k][at] += 1e-20j
            expected = (loops(p, *moved) * head).sum().imag / 1e-20
            np.testing.assert_allclose(float(g[at].item()), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives(name: str) -> None:
    rng = np.random.default_rng(3)
    p = te.placeholder((4,), "int64", "p")
    x, w = te.placeholder((7,), name="x"), te.placeholder((3,), name="w")
    feed = {p: np.array([0, 3, 3, 6]), x: rng.standard_normal(7), w: rng.standard_normal(3)}
    check_derivatives(CASES[name][0](p, x, w), [x, w], feed)


def compiled(op: Any, loops: Any, p: Any, x: Any, w: Any) -> None:
    np.testing.assert_allclose(iv.jit(op)(p, x, w).numpy(), loops(p, x, w), rtol=1e-12)


def mapped(op: Any, loops: Any, p: Any, x: Any, w: Any) -> None:
    many = iv.vmap(op, (None, 0, None))(p, np.stack([x, 2 * x]), w).numpy()
    np.testing.assert_allclose(many, np.stack([loops(p, x, w), loops(p, 2 * x, w)]), rtol=1e-12)


def gradient_compiled(op: Any, loops: Any, p: Any, x: Any, w: Any) -> None:
    gradient = iv.grad(lambda x, w: (op(p, x, w) ** 2).sum(), argnums=(0, 1))
    for a, b in zip(iv.jit(gradient)(x, w), gradient(x, w), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def differentiated_twice(op: Any, loops: Any, p: Any, x: Any, w: Any) -> None:
    leaves = [iv.asarray(v, requires_grad=True) for v in (x, w)]
    assert iv.testing.gradgradcheck(lambda x, w: op(p, x, w), leaves, **in_short("twice"))


@pytest.mark.parametrize(
    ("name", "transform"), paired(CASES, [compiled, mapped, gradient_compiled, differentiated_twice])
)
def test_in_transforms(name: str, transform: Callable[..., None]) -> None:
    rng = np.random.default_rng(4)
    p, x, w = np.array([0, 2, 2, 6]), rng.standard_normal(6), rng.standard_normal(3)
    transform(OPS[name], CASES[name][1], p, x, w)


# --- work -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [padded, packed])
def test_points_are_those_of_the_domain(build: Callable[..., Any]) -> None:
    """Forward, gradient and tangent: those inside of rows, not the box; no fewer where lengths are drawn."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 3, 40)
    start = np.concatenate([[0], np.cumsum(lengths)])
    p, x, w = (
        te.placeholder(s, t, n)
        for s, t, n in (((41,), "int64", "p"), ((start[-1],), "float64", "x"), ((40,), "float64", "w"))
    )
    y = build(p, x, w)
    entries, rows = int(lengths.sum()), len(lengths)
    dx = te.differentiate(y, [x], te.placeholder(y.shape, name="h"))[0]
    for t in (y, dx, te.jvp(y, {x: te.placeholder(x.shape, name="t")})):
        program = te.eliminate(t)
        arrays = [start if a.name == "p" else rng.standard_normal(a.shape) for a in program.inputs]
        visits: list[Visits] = []
        run(program, arrays, visits)
        assert all(v.idle == 0 for v in visits)
        assert work(lower(program), *arrays).points <= 3 * entries + rows


# --- what is refused ----------------------------------------------------------------------------------------


def test_what_does_not_fit_is_named() -> None:
    p, x = te.placeholder((4,), "int64", "p"), te.placeholder((9,), name="x")
    with pytest.raises(
        ShapeError, match=r"'domain': got 1 indices; expected one for each axis of shape \(3, 2\)"
    ):
        te.compute((3, 2), lambda i: x[i], domain=(3,))
    with pytest.raises(ShapeError, match="a function of 1 indices"):
        te.compute((9,), lambda e: x[e], domain=(3, row(p)))


def test_a_row_that_is_too_long_is_named() -> None:
    start = np.array([0, 2, 8, 9])
    found = r"got p\[i \+ 1\] - p\[i\] = 6 at i = 1, the end of k; expected k inside 0:5"
    with pytest.raises(IndexingError, match=found):
        OPS["padded"](start, np.ones(9), np.ones(3))
    with pytest.raises(
        IndexingError, match=r"got p\[i \+ 1\] = 8 at i = 1, the end of e; expected e inside 0:4"
    ):
        OPS["packed"](start, np.ones(4), np.ones(3))
