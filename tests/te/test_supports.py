"""Zeros of a stage are left out by all that read it: points visited are the nonzero terms of programs.

Values are those of NumPy's dense arrays, derivatives those of its functions by complex steps. With positive
inputs no term cancels another, so that a term is 0 only where it is a structural zero: terms are counted by
`Pointwise`, one after the other, and the points visited by the loops that elimination found.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iverson import te
from iverson.te.ir.expressions import Tensor, Var
from iverson.te.ir.interpret import run
from iverson.te.ir.supports import EVERYWHERE, NOWHERE, nonzero, support
from iverson.te.ir.verify import check
from iverson.te.lowering.explanation import counts
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import EXHAUSTIVE

from .pointwise import Terms

F = te.F
Feed = dict[str, Any]
N = 100


def visited(tensors: list[Tensor]) -> int:
    """Points that the eliminated program of tensors visits."""
    program = te.eliminate(te.program_of(tensors))
    check(program)
    visits = [counts(s).visited for s in program.statements]
    return sum(n for n in visits if n is not None)


def nonzero_terms(tensors: list[Tensor], feed: Feed) -> int:
    """Of an eliminated program; values, which are held elsewhere, say that no other terms are left out."""
    return sum(Terms(te.eliminate(te.program_of(tensors)), feed).nonzero)


def values(tensors: list[Tensor], feed: Feed, compiled: bool) -> list[Any]:
    program = te.program_of(tensors)
    arrays = [feed[p.name] for p in program.inputs]
    if compiled:
        return list(lower(te.eliminate(program))(*arrays))
    return list(run(te.eliminate(program), arrays))


# --- examples -----------------------------------------------------------------------------------------


def _vectors() -> tuple[te.Placeholder, te.Placeholder]:
    return te.placeholder((N,), name="a"), te.placeholder((N,), name="x")


def _matrices() -> tuple[te.Placeholder, te.Placeholder]:
    return te.placeholder((N, N), name="M"), te.placeholder((N, N), name="Y")


def _diagonal() -> Tensor:
    a, x = _vectors()
    k = te.reduce_axis(N, "k")
    D = te.compute((N, N), lambda i, j: te.select(i == j, a[i], 0.0), "D")
    return te.compute((N,), lambda i: te.sum(D[i, k] * x[k], k), "y")


def _product(structure: Callable[[Var, Var, Any], Any]) -> Tensor:
    M, Y = _matrices()
    k = te.reduce_axis(N, "k")
    L = te.compute((N, N), lambda i, j: structure(i, j, M), "L")
    return te.compute((N, N), lambda i, j: te.sum(L[i, k] * Y[k, j], k), "LY")


def _tridiagonal() -> Tensor:
    (M, _), (_, x) = _matrices(), _vectors()
    k = te.reduce_axis(N, "k")
    T = te.compute((N, N), lambda i, j: te.select((i - j <= 1) & (j - i <= 1), M[i, j], 0.0), "T")
    return te.compute((N,), lambda i: te.sum(T[i, k] * x[k], k), "Tx")


def _three_diagonals() -> Tensor:
    (a, x), k = _vectors(), te.reduce_axis(N, "k")

    def entry(i: Var, j: Var) -> Any:
        below, above = te.select(i == j + 1, a[j], 0.0), te.select(j == i + 1, x[j] * 2.0, 0.0)
        return te.select(i == j, a[i], 0.0) + below + above

    T = te.compute((N, N), entry, "T")
    return te.compute((N,), lambda i: te.sum(T[i, k] * x[k], k), "Tx")


def _jacobian(stride: int, dilation: int) -> Tensor:
    """A head times the Jacobian of a convolution, contracted by hand."""
    m = (N - 2 * dilation - 1) // stride + 1
    (a, _), w = _vectors(), te.placeholder((3,), name="w")
    r, o = te.reduce_axis(3, "r"), te.reduce_axis(m, "o")
    C = te.compute((m,), lambda i: te.sum(a[i * stride + r * dilation] * w[r], r), "C")
    (J,) = te.differentiate(C, a)
    H = te.placeholder((m,), name="H")
    return te.compute((N,), lambda i: te.sum(H[o] * J[o, i], o), "HJ")


#: What is defined, the points that its last statements visit, and its stage.
EXAMPLES: dict[str, tuple[Callable[[], Tensor], int, str]] = {
    "diagonal x vector": (_diagonal, 100, "D"),
    "tril @ matrix": (lambda: _product(lambda i, j, M: te.select(j <= i, M[i, j], 0.0)), 505_000, "L"),
    "eye @ matrix": (lambda: _product(lambda i, j, M: te.select(i == j, 1.0, 0.0)), 10_000, "L"),
    "zeros @ matrix": (lambda: _product(lambda i, j, M: te.select(i > j + N, M[i, j], 0.0)), 0, "L"),
    "tridiagonal x vector": (_tridiagonal, 298, "T"),
    "three diagonals x vector": (_three_diagonals, 298, "T"),
    "head x Jacobian": (lambda: _jacobian(1, 1), 294, "dC/da"),
    "head x Jacobian, stride 2": (lambda: _jacobian(2, 1), 147, "dC/da"),
    "head x Jacobian, dilation 2": (lambda: _jacobian(1, 2), 288, "dC/da"),
    "head x Jacobian, stride 3, dilation 2": (lambda: _jacobian(3, 2), 96, "dC/da"),
}


def _feed(tensors: list[Tensor]) -> Feed:
    rng = np.random.default_rng(0)
    return {p.name: rng.uniform(0.5, 1.5, p.shape) for p in te.program_of(tensors).inputs}


@pytest.mark.parametrize("name", EXAMPLES)
def test_points_of_products_with_structured_stages(name: str) -> None:
    define, points, stage = EXAMPLES[name]
    result = define()
    program = te.eliminate(result)
    assert sum(counts(s).visited or 0 for s in program.statements if s.tensor is result) == points
    feed = _feed([result])
    plain, walked = values([result], feed, compiled=False), values([result], feed, compiled=True)
    np.testing.assert_allclose(walked[0], plain[0], rtol=1e-12)
    shown = next((line for line in te.explain(result).splitlines() if line.startswith(f"stage {stage}")), "")
    assert points == 0 or "recomputed" in shown  # in its reader, piece by piece


def test_a_product_with_a_stage_of_zeros_gives_zeros_beside_what_is_not_finite() -> None:
    """Structural zeros annihilate across stages, as within one expression."""
    result = _product(lambda i, j, M: te.select(j <= i, M[i, j], 0.0))
    feed = _feed([result])
    feed["Y"][-1] = np.inf
    feed["Y"][-2] = np.nan
    expected = np.tril(feed["M"])[:-2, :-2] @ feed["Y"][:-2]
    for compiled in (False, True):
        (found,) = values([result], feed, compiled)
        np.testing.assert_allclose(found[:-2], expected, rtol=1e-12)


@pytest.mark.parametrize("lever", [te.keep, te.recompute])
def test_levers_of_a_stage_with_zeros(lever: Callable[[Any], Any]) -> None:
    a, x = _vectors()
    k = te.reduce_axis(N, "k")
    D = te.compute((N, N), lambda i, j: te.select(i == j, F.exp(a[i]), 0.0), "D")
    lever(D)
    y = te.compute((N,), lambda i: te.sum(D[i, k] * x[k], k), "y")
    feed = _feed([y])
    np.testing.assert_allclose(values([y], feed, compiled=True)[0], np.exp(feed["a"]) * feed["x"], rtol=1e-12)
    assert f"te.{lever.__name__}" in te.explain(y)
    assert visited([y]) == 2 * N


def test_supports_are_conditions_on_indices() -> None:
    A, k = te.placeholder((6, 6), name="A"), te.reduce_axis(6, "k")

    def of(entry: Callable[[Var, Var], Any]) -> Any:
        _, condition = support(te.compute((6, 6), entry, "T"))
        return condition

    assert of(lambda i, j: A[i, j]) is EVERYWHERE
    assert of(lambda i, j: A[i, j] + te.select(i == j, A[i, j], 0.0)) is EVERYWHERE
    assert of(lambda i, j: te.select(A[i, j] > 0, A[i, j], 0.0)) is EVERYWHERE  # data decide
    assert of(lambda i, j: 0.0 * A[i, j]) is NOWHERE
    assert of(lambda i, j: te.exp(te.select(i == j, A[i, j], 0.0))) is EVERYWHERE  # it is 1 there
    assert str(of(lambda i, j: te.sin(te.select(i == j, A[i, j], 0.0)))) == "a0 == a1"
    assert str(of(lambda i, j: te.select(i == j, A[i, j], 0.0) / A[i, j])) == "a0 == a1"
    assert of(lambda i, j: te.max(te.select(i == j, A[i, k], 0.0), k)) is EVERYWHERE
    i = Var("i", 0, 6)
    assert nonzero(te.select(i < 3, 1.0, 0.0) * te.select(i >= 3, 1.0, 0.0)) is not EVERYWHERE


#: Conditions with choices, and the same without.
CHOICES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], int]] = {
    "abs": (lambda i, j: abs(i - j) <= 1, lambda i, j: (i - j <= 1) & (j - i <= 1), 1),
    "maximum": (lambda i, j: F.maximum(i - j, j - i) < 2, lambda i, j: (i - j < 2) & (j - i < 2), 1),
    "minimum": (lambda i, j: F.minimum(i, 9 - j) >= 3, lambda i, j: (i >= 3) & (j <= 6), 1),
    "abs, apart": (lambda i, j: abs(i - j) > 1, lambda i, j: (i - j > 1) | (j - i > 1), 2),
    "abs, beside": (lambda i, j: abs(i - j) == 1, lambda i, j: (i == j + 1) | (j == i + 1), 2),
    "minimum, either": (lambda i, j: F.minimum(i, j) < 1, lambda i, j: (i < 1) | (j < 1), 2),
    "sum": (
        lambda i, j: abs(i - j) + abs(i + j - 12) <= 2,
        lambda i, j: (2 * i <= 14) & (2 * j <= 14) & (2 * i >= 10) & (2 * j >= 10),
        1,
    ),
    "select": (
        lambda i, j: te.select(i < j, j - i, i) <= 1,
        lambda i, j: ((i < j) & (j - i <= 1)) | ((i >= j) & (i <= 1)),
        2,
    ),
    "not": (lambda i, j: ~(abs(i - j) <= 1), lambda i, j: (i - j > 1) | (j - i > 1), 2),
}


@pytest.mark.parametrize("name", CHOICES)
def test_conditions_with_choices_bound_loops_as_those_without_do(name: str) -> None:
    chosen, plain, pieces = CHOICES[name]
    a, x, k = te.placeholder((12,), name="a"), te.placeholder((12,), name="x"), te.reduce_axis(12, "k")
    D = te.compute((12, 12), lambda i, j: te.select(chosen(i, j), a[i] * x[j], 0.0), "D")
    y = te.compute((12,), lambda i: te.sum(D[i, k] * x[k], k), "y")
    assert visited([y]) == 2 * plain(*np.indices((12, 12))).sum()
    assert len(te.eliminate(y).statements) == 2 * pieces
    gradients: list[Tensor] = list(te.differentiate(y, [a, x], te.placeholder((12,), name="head")))
    assert visited(gradients) == nonzero_terms(gradients, _feed(gradients))


# --- random chains of stages --------------------------------------------------------------------------

#: Conditions on the indices of an entry of an n x n tensor.
STRUCTURES: dict[str, Callable[[Any, Any, int], Any]] = {
    "diagonal": lambda i, j, n: i == j,
    "below": lambda i, j, n: i == j + 1,
    "lower": lambda i, j, n: j <= i,
    "upper": lambda i, j, n: i < j,
    "band": lambda i, j, n: (i - j <= 1) & (j - i <= 2),
    "antidiagonal": lambda i, j, n: i + j == n - 1,
    "dilated": lambda i, j, n: i == 2 * j,
    "first or diagonal": lambda i, j, n: (j == 0) | (i == j),
    "off the diagonal": lambda i, j, n: i != j,
    "inner rows": lambda i, j, n: (i >= 1) & (i < n - 1),
    "even": lambda i, j, n: i % 2 == 0,
    "blocks": lambda i, j, n: i // 2 == j // 2,
    "near": lambda i, j, n: abs(i - j) <= 1,
    "apart": lambda i, j, n: abs(i - j) > 1,
    "beside": lambda i, j, n: abs(i - j) == 1,
    "around": lambda i, j, n: abs(i - 1) + abs(j - 2) <= 2,
}


#: Those of several convex pieces.
UNIONS = ("first or diagonal", "off the diagonal", "apart", "beside", "around")


def _held_to_nonzero_terms(first: str, last: str, n: int) -> None:
    """Hold a sum of a stage and of a product with it, each with a structure, to NumPy and to its terms."""
    A, k = te.placeholder((n, n), name="A"), te.reduce_axis(n, "k")
    inner, outer = STRUCTURES[first], STRUCTURES[last]
    T = te.compute((n, n), lambda i, j: te.select(inner(i, j, n), A[i, j], 0.0), "T")
    made = te.compute(
        (n, n), lambda i, j: te.select(outer(i, j, n), te.sum(A[i, k] * T[k, j], k), 0.0) + T[i, j], "S"
    )
    feed, (i, j) = _feed([made]), np.ogrid[:n, :n]
    t = np.where(inner(i, j, n), feed["A"], 0)
    expected = np.where(outer(i, j, n), feed["A"] @ t, 0) + t
    np.testing.assert_allclose(values([made], feed, compiled=False)[0], expected, rtol=1e-12)
    assert visited([made]) == nonzero_terms([made], feed), (last, n)


@pytest.mark.parametrize("first", STRUCTURES)
def test_points_of_a_sum_of_stages_of_each_two_structures(first: str) -> None:
    """The support of a sum is a union of unions, of few pieces, which it is seen to have."""
    for n, last in product((2, 3, 4, 5, 6), STRUCTURES) if EXHAUSTIVE else product((3,), UNIONS):
        _held_to_nonzero_terms(first, last, n)


WAYS = (
    "select", "select", "select", "product", "product", "scaled", "sum", "times", "transposed", "shifted",
    "scattered", "function", "rows", "two in one",
)  # fmt: skip


class Chain:
    """A chain of n x n stages, as tensors and, each as a function of arrays, as NumPy says it."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.draw, self.n = draw, draw(st.integers(0, 5))
        n = self.n
        self.A, self.B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
        self.v = te.placeholder((n,), name="v")
        self.stages: list[tuple[Tensor, Callable[[Feed], Any]]] = [
            (self.A, lambda f: f["A"]),
            (self.B, lambda f: f["B"]),
        ]
        for _ in range(draw(st.integers(1, 4))):
            self.add(draw(st.sampled_from(WAYS)))

    def structure(self) -> tuple[Callable[[Any, Any, int], Any], Any]:
        """A condition, and where it holds."""
        condition = STRUCTURES[self.draw(st.sampled_from(sorted(STRUCTURES)))]
        i, j = np.ogrid[: self.n, : self.n]
        return condition, np.broadcast_to(condition(i, j, self.n), (self.n, self.n))

    def add(self, way: str) -> None:
        n, (S, s), (T, t) = self.n, *(self.draw(st.sampled_from(self.stages)) for _ in range(2))
        k, shape = te.reduce_axis(n, "k"), (n, n)
        condition, mask = self.structure()
        name = f"T{len(self.stages)}"
        made: Tensor
        if way == "select":
            made = te.compute(shape, lambda i, j: te.select(condition(i, j, n), S[i, j], 0.0), name)
            array = lambda f: np.where(mask, s(f), 0)
        elif way == "product":
            made = te.compute(shape, lambda i, j: te.sum(S[i, k] * T[k, j], k), name)
            array = lambda f: s(f) @ t(f)
        elif way == "two in one":  # two stages, one inside of the other's definition
            made = te.compute(
                shape,
                lambda i, j: te.select(condition(i, j, n), te.sum(S[i, k] * T[k, j], k), 0.0) + T[i, j],
                name,
            )
            array = lambda f: np.where(mask, s(f) @ t(f), 0) + t(f)
        elif way == "scaled":
            made = te.compute(shape, lambda i, j: S[i, j] * self.v[j] * 0.5, name)
            array = lambda f: s(f) * f["v"] * 0.5
        elif way == "sum":
            made = te.compute(shape, lambda i, j: S[i, j] + T[i, j], name)
            array = lambda f: s(f) + t(f)
        elif way == "times":
            made = te.compute(shape, lambda i, j: S[i, j] * T[i, j], name)
            array = lambda f: s(f) * t(f)
        elif way == "transposed":
            made = te.compute(shape, lambda i, j: S[j, i], name)
            array = lambda f: s(f).T
        elif way == "shifted":
            made = te.compute(
                shape, lambda i, j: te.select(i + 1 < n, S[te.clamp(i + 1, 0, n - 1), j], 0.0), name
            )
            array = lambda f: np.concatenate([s(f)[1:], 0 * s(f)[:1]])
        elif way == "scattered":  # rows apart
            half = (n + 1) // 2
            made = te.scatter(shape, (half, n), lambda i, j: ((2 * i, j), S[i, j]), name)

            def array(f: Feed) -> Any:
                apart = np.zeros_like(s(f))
                apart[::2] = s(f)[:half]
                return apart
        elif way == "function":
            made = te.compute(shape, lambda i, j: F.sin(S[i, j] * 0.125), name)
            array = lambda f: np.sin(s(f) * 0.125)
        else:  # a vector in between
            row = te.compute((n,), lambda i: te.sum(S[i, k], k), f"{name}.row")
            made = te.compute(shape, lambda i, j: row[i] * T[i, j], name)
            array = lambda f: s(f).sum(1)[:, None] * t(f)
        lever = self.draw(st.sampled_from([None, None, te.keep, te.recompute]))
        if lever is not None:
            lever(made)
        self.stages.append((made, array))

    @property
    def result(self) -> tuple[Tensor, Callable[[Feed], Any]]:
        return self.stages[-1]

    def feed(self, rng: np.random.Generator) -> Feed:
        """Positive numbers, with which no term is 0 by chance, small enough for products of all stages."""
        return {p.name: rng.uniform(0.25, 0.75, p.shape) for p in (self.A, self.B, self.v)}


@settings(deadline=None, max_examples=3000 if EXHAUSTIVE else 40)
@given(st.data(), st.integers(0, 2**31))
def test_points_visited_are_the_nonzero_terms_of_programs(data: Any, seed: int) -> None:
    chain = Chain(data.draw)
    made, array = chain.result
    rng = np.random.default_rng(seed)
    feed = chain.feed(rng)
    for compiled in (False, True):
        np.testing.assert_allclose(values([made], feed, compiled)[0], array(feed), rtol=1e-12, atol=1e-14)
    assert visited([made]) == nonzero_terms([made], feed)


@settings(deadline=None, max_examples=1500 if EXHAUSTIVE else 25)
@given(st.data(), st.integers(0, 2**31))
def test_derivatives_of_stages_with_zeros(data: Any, seed: int) -> None:
    """Against NumPy's function by complex steps, along random directions; to second order by differences."""
    chain = Chain(data.draw)
    made, array = chain.result
    rng = np.random.default_rng(seed)
    inputs = [chain.A, chain.B, chain.v]
    H = te.placeholder(made.shape, name="H")
    tangents = {p: te.placeholder(p.shape, name=f"{p.name}_t") for p in inputs}
    feed = chain.feed(rng) | {"H": rng.uniform(0.25, 0.75, made.shape)}
    feed |= {t.name: rng.uniform(0.25, 0.75, t.shape) for t in tangents.values()}
    gradients = list(te.differentiate(made, inputs, H))
    pushed = te.jvp(made, tangents)
    for tensors in ([pushed], gradients):
        assert visited(tensors) == nonzero_terms(tensors, feed)

    def along(at: Feed, names: dict[str, Any], step: float = 1e-30) -> Any:
        """The derivative along these directions."""
        moved = {p.name: at[p.name] + 1j * step * names[p.name] for p in inputs}
        return array(moved).imag / step

    move = {p.name: feed[t.name] for p, t in tangents.items()}
    expected = along(feed, move)
    for compiled in (False, True):
        *found, tangent = values([*gradients, pushed], feed, compiled)
        np.testing.assert_allclose(tangent, expected, rtol=1e-11, atol=1e-13)
        for p, g in zip(inputs, found, strict=True):
            only = {q.name: move[q.name] * (q is p) for q in inputs}
            np.testing.assert_allclose(
                (g * move[p.name]).sum(), (feed["H"] * along(feed, only)).sum(), rtol=1e-11, atol=1e-13
            )
    second = te.jvp(gradients[0], tangents)
    if isinstance(gradients[0], te.Compute):
        (bent,) = values([second], feed, compiled=True)
        u = rng.uniform(0.25, 0.75, chain.A.shape)
        only = {q.name: u * (q is chain.A) if q is chain.A else 0.0 for q in inputs}
        step = 1e-4
        ahead, behind = (
            (feed["H"] * along({k: x + s * move.get(k, 0.0) for k, x in feed.items()}, only)).sum()
            for s in (step, -step)
        )
        np.testing.assert_allclose((bent * u).sum(), (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


# --- scans --------------------------------------------------------------------------------------------


class Scan:
    """A recurrence whose step multiplies the state by a matrix with zeros, and its function of arrays."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.steps, self.n = draw(st.integers(0, 4)), draw(st.integers(1, 5))
        T, n = self.steps, self.n
        self.x, self.W = te.placeholder((T, n), name="x"), te.placeholder((n, n), name="W")
        condition = STRUCTURES[draw(st.sampled_from(sorted(STRUCTURES)))]
        i, j = np.ogrid[:n, :n]
        self.mask = np.broadcast_to(condition(i, j, n), (n, n))
        self.reverse, self.init = draw(st.booleans()), draw(st.sampled_from([0.0, 0.5]))
        self.rows = draw(st.sampled_from(["", "first", "later"]))  # which entries take part, by their step
        where = draw(st.sampled_from(["step", "stage", "kept", "apart"]))
        k = te.reduce_axis(n, "k")
        S = te.compute((n, n), lambda i, j: te.select(condition(i, j, n), self.W[i, j], 0.0), "S")
        if where == "kept":
            te.keep(S)

        def step(s: Any) -> te.Compute:
            def before(t: Var, i: Any) -> Any:
                return s[t + 1 if self.reverse else t - 1, i]

            def term(t: Var, i: Any) -> Any:
                if where == "step":
                    return te.bracket(condition(i, k, n)) * self.W[i, k] * before(t, k)
                return S[i, k] * before(t, k)

            if where == "apart":
                product = te.compute((T, n), lambda t, i: te.sum(term(t, i), k), "product")
                return te.compute((T, n), lambda t, i: self.x[t, i] + self.within(t, i, product[t, i]), "s")
            return te.compute(
                (T, n), lambda t, i: self.x[t, i] + self.within(t, i, te.sum(term(t, i), k)), "s"
            )

        self.result = te.scan((T, n), step, "s", init=self.init, reverse=self.reverse)

    def within(self, t: Any, i: Any, value: Any) -> Any:
        if not self.rows:
            return value
        return te.select(i <= t if self.rows == "first" else i > t, value, 0.0)

    def array(self, f: Feed) -> Any:
        x, S = f["x"], np.where(self.mask, f["W"], 0)
        states, state = np.zeros_like(x + S[:1] if len(x) else x), np.full(self.n, self.init)
        i = np.arange(self.n)
        for t in range(self.steps)[:: -1 if self.reverse else 1]:
            part = {"": i >= 0, "first": i <= t, "later": i > t}[self.rows]
            states[t] = state = x[t] + np.where(part, S @ state, 0)
        return states


@settings(deadline=None, max_examples=2000 if EXHAUSTIVE else 120)
@given(st.data(), st.integers(0, 2**31))
def test_steps_visit_the_nonzero_terms(data: Any, seed: int) -> None:
    """Those of a scan, of its adjoint and of its tangent, at all steps together."""
    scan = Scan(data.draw)
    rng = np.random.default_rng(seed)
    H = te.placeholder(scan.result.shape, name="H")
    tangents = {p: te.placeholder(p.shape, name=f"{p.name}_t") for p in (scan.x, scan.W)}
    names = {p.name: p.shape for p in (scan.x, scan.W, H, *tangents.values())}
    feed = {name: rng.uniform(0.25, 0.75, shape) for name, shape in names.items()}
    gradients = list(te.differentiate(scan.result, [scan.x, scan.W], H))
    pushed = te.jvp(scan.result, tangents)
    for tensors in ([scan.result], gradients, [pushed]):
        assert visited(tensors) == nonzero_terms(tensors, feed)
    moved = {p.name: feed[p.name] + 1e-30j * feed[t.name] for p, t in tangents.items()}
    along = scan.array(moved).imag / 1e-30
    for compiled in (False, True):
        value, gx, gW, tangent = values([scan.result, *gradients, pushed], feed, compiled)
        np.testing.assert_allclose(value, scan.array(feed), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(tangent, along, rtol=1e-11, atol=1e-13)
        pulled = (gx * feed["x_t"]).sum() + (gW * feed["W_t"]).sum()
        np.testing.assert_allclose(pulled, (feed["H"] * along).sum(), rtol=1e-11, atol=1e-13)


def test_single_entries_of_a_step() -> None:
    """Statements of one entry, in branches of a condition on the step: each has its own accumulator."""
    T = n = 2
    x, W, k = te.placeholder((T, n), name="x"), te.placeholder((n, n), name="W"), te.reduce_axis(n, "k")

    def step(s: Any) -> te.Compute:
        def entry(t: Var, i: Var) -> Any:
            return x[t, i] + te.sum(te.bracket(i % 2 == 0) * W[i, k] * s[t - 1, k], k)

        return te.compute((T, n), entry, "s")

    s = te.scan((T, n), step, "s", init=0.5)
    feed = {"x": np.array([[1.0, 2.0], [3.0, 4.0]]), "W": np.array([[5.0, 6.0], [7.0, 8.0]])}
    for compiled in (False, True):
        np.testing.assert_array_equal(values([s], feed, compiled)[0], [[6.5, 2.0], [47.5, 4.0]])


def test_points_of_a_band_in_a_step() -> None:
    T, n = 20, 32
    x, W, k = te.placeholder((n,), name="x"), te.placeholder((n, n), name="W"), te.reduce_axis(n, "k")

    def step(s: Any) -> te.Compute:
        def entry(t: Var, i: Var) -> Any:
            return x[i] + te.sum(te.bracket((k >= i - 1) & (k <= i + 1)) * W[i, k] * s[t - 1, k], k)

        return te.compute((T, n), entry)

    s = te.scan((T, n), step, "s")
    assert visited([s]) == 2426
    assert visited(list(te.differentiate(s, [x, W], te.placeholder((T, n), name="H")))) == 7918
