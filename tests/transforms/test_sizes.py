"""Compiled functions at many sizes: few codes for all, with the results of eager code and of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import iverson as iv
from iverson.core.dispatch import value_of
from iverson.core.errors import CompilationWarning
from iverson.layouts import to_strided
from tests.conformance.product import EXHAUSTIVE, examples
from tests.programs.at_sizes import failures_of
from tests.transforms.test_numbers import agree, values

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33, 64, 65, 130, 300)
Arguments = tuple[Any, ...]


def arrays(n: int, m: int, seed: int = 0, dtype: str = "float64") -> Arguments:
    """Arrays of shapes (n, m), (m, 3) and (n,)."""
    rng = np.random.default_rng((n, m, seed))
    made = [rng.standard_normal(shape) for shape in ((n, m), (m, 3), (n,))]
    if dtype[0] == "c":
        made = [a + 1j * rng.standard_normal(a.shape) for a in made]
    return tuple(a.astype(dtype) for a in made)


# --- random programs --------------------------------------------------------------------------------
#
# Each value has one of the shapes n, nm, mn, n3: what is done with it is done at any n and m.

Value = tuple[str, Any]


def _moved(xp: Any, a: Any, k: int) -> Any:
    """Entries in another order, parts that are joined, and entries of neighbours."""
    return (
        lambda: xp.flip(a, axis=0),
        lambda: xp.roll(a, 1, axis=0),
        lambda: xp.concat([a[a.shape[0] // 2 :], a[: a.shape[0] // 2]], axis=0),
        lambda: xp.concat([a, a], axis=0)[1 : a.shape[0] + 1],
        lambda: xp.take(a, (xp.arange(a.shape[0]) * 3) % max(a.shape[0], 1), axis=0),
        lambda: xp.where(
            xp.reshape(xp.arange(a.shape[0]), (-1, *[1] * (a.ndim - 1))) < a.shape[0] // 2, a, -a
        ),
        lambda: xp.reshape(xp.reshape(a, (-1,)), a.shape),
        lambda: xp.cumulative_sum(a, axis=0) / max(a.shape[0], 1),
    )[k % 8]()


def _unary(xp: Any, a: Any, k: int) -> Any:
    return (
        lambda: xp.sin(a),
        lambda: xp.exp(-a * a),
        lambda: a * (1 / max(a.shape[0], 1)),
        lambda: xp.where(a > 0, a, 0.1 * a),
        lambda: a - xp.sum(a, axis=0) / max(a.shape[0], 1),
        lambda: xp.tanh(a) + a.shape[0] * 0.01,
        lambda: a**2 * 0.5,
        lambda: 1 / (1.5 + a * a),
    )[k % 8]()


def random_program(seed: int, steps: int = 6) -> Callable[..., Any]:
    """A function of arrays as `arrays` gives them, over a namespace: its results are one of each shape."""
    plan = np.random.default_rng(seed).integers(0, 1 << 20, (steps, 4)).tolist()

    def program(xp: Any, x: Any, w: Any, v: Any) -> Any:
        made: list[Value] = [("nm", x), ("n", v), ("mn", x.T), ("n3", x @ w)]
        for kind, which, k, other in plan:
            shape, a = made[which % len(made)]
            alike = [b for s, b in made if s == shape]
            b = alike[other % len(alike)]
            if kind % 5 == 0:
                made.append((shape, _unary(xp, a, k)))
            elif kind % 5 == 1:
                made.append((shape, _moved(xp, a, k)))
            elif kind % 5 == 2:
                made.append((shape, a * b + a if k % 2 else xp.maximum(a, b)))
            elif shape == "nm":
                square = (a @ b.T) / max(a.shape[1], 1)
                made.append(
                    ("n3", a @ w)
                    if k % 3 == 0
                    else ("n", xp.sum(a * b, axis=1))
                    if k % 3 == 1
                    else ("nm", square @ b)
                )
            elif shape == "n":
                made.append(("nm", x * a[:, None]) if k % 2 else ("n3", a[:, None] * made[3][1]))
            else:
                made.append(("nm", a.T) if shape == "mn" else ("n", xp.sum(a, axis=1)))
        last = dict(made)
        return [last[s] for s in ("n", "nm", "mn", "n3")]

    return program


def loss_of(program: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: sum(iv.sum(iv.sin(y)) for y in program(iv, *args))


def shuffled(seed: int, count: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    pairs = [(int(rng.choice(SIZES)), int(rng.choice(SIZES[:13]))) for _ in range(count)]
    return [*pairs, *pairs[:2]]


@pytest.mark.parametrize("seed", range(examples(12)))
def test_random_programs_at_shuffled_sizes_are_those_of_numpy(seed: int) -> None:
    program = random_program(seed)
    sizes = "general" if seed % 3 == 0 else "special"
    compiled = iv.jit(lambda *args: program(iv, *args), sizes=sizes)  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        for n, m in shuffled(seed, 6):
            args = arrays(n, m, seed)
            for found, expected in zip(compiled(*map(iv.asarray, args)), program(np, *args), strict=True):
                assert found.shape == expected.shape
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-11)


def over_rows(loss: Any) -> Any:
    """A loss of each of two examples."""
    return lambda x, *rest: iv.sum(iv.vmap(lambda s: loss(x * s, *rest))(iv.asarray([1.0, 0.5])))


#: The thirteen ways: each a function of a loss, that gives one of the loss's arguments.
MODES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, jit: iv.grad(f),
    "jvp": lambda f, jit: lambda x, *a: iv.jvp(lambda x: f(x, *a), (x,), (iv.cos(x),))[1],
    "jit(grad)": lambda f, jit: jit(iv.grad(f)),
    "grad(jit)": lambda f, jit: iv.grad(jit(f)),
    "jit(jvp)": lambda f, jit: jit(lambda x, *a: iv.jvp(lambda x: f(x, *a), (x,), (iv.cos(x),))[1]),
    "vmap(grad)": lambda f, jit: (
        lambda x, *a: iv.vmap(lambda s: iv.grad(jit(f))(x * s, *a))(iv.asarray([1.0, 2.0]))
    ),
    "grad(vmap)": lambda f, jit: iv.grad(over_rows(jit(f))),
    "jit(vmap(grad))": lambda f, jit: jit(
        lambda x, *a: iv.vmap(lambda s: iv.grad(f)(x * s, *a))(iv.asarray([1.0, 2.0]))
    ),
    "hessian": lambda f, jit: lambda x, *a: iv.grad(lambda x: iv.sum(iv.grad(jit(f))(x, *a) * iv.cos(x)))(x),
    "jit(hessian)": lambda f, jit: jit(
        lambda x, *a: iv.grad(lambda x: iv.sum(iv.grad(f)(x, *a) * iv.cos(x)))(x)
    ),
    "grad(checkpoint)": lambda f, jit: jit(iv.grad(iv.checkpoint(f))),
    "grad of scan": lambda f, jit: jit(
        iv.grad(
            lambda x, *a: iv.scan(
                lambda c, s: (c + f(x * s, *a), c), iv.asarray(0.0), iv.asarray([1.0, 0.5])
            )[0]
        )
    ),
    "grad of cond": lambda f, jit: jit(
        iv.grad(lambda x, *a: iv.cond(iv.sum(x) < 1e9, lambda x: f(x, *a), iv.sum, x))
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(100, 100 + examples(2)))
def test_derivatives_at_shuffled_sizes_are_those_of_eager_code(mode: str, seed: int) -> None:
    loss = loss_of(random_program(seed, 5))
    compiled, eager = MODES[mode](loss, iv.jit), MODES[mode](loss, lambda f: f)
    for n, m in shuffled(seed, 4):
        args = tuple(map(iv.asarray, arrays(n, m, seed)))
        agree(compiled(*args), eager(*args))


@pytest.mark.parametrize("seed", range(2000 if EXHAUSTIVE else 6))
def test_random_programs_of_all_kinds_at_random_sizes(seed: int) -> None:
    """In all modes, with sparse patterns, masks, bodies and draws: as compiled anew for each size."""
    wrong = next(failures_of(seed, 30 if EXHAUSTIVE else 4), "")
    assert not wrong, wrong


# --- named programs ---------------------------------------------------------------------------------


def attention(x: Any, w: Any, v: Any) -> Any:
    return iv.nn.softmax(x @ x.T / x.shape[1] ** 0.5, axis=1) @ x


def layer(x: Any, w: Any, v: Any) -> Any:
    mean = iv.mean(x, axis=1, keepdims=True)
    return (x - mean) / iv.sqrt(iv.mean((x - mean) ** 2, axis=1, keepdims=True) + 1e-5) @ w


def rows(x: Any, w: Any, v: Any) -> Any:
    return iv.scan(lambda c, row: (iv.tanh(c + row @ w), c), iv.zeros(3, dtype=x.dtype), x)[0]


def convolution(x: Any, w: Any, v: Any) -> Any:
    return iv.nn.conv1d(x.T[None], iv.ones((2, x.shape[1], 3), dtype=x.dtype), padding=1)


#: Functions of x (n, m), w (m, 3) and v (n,).
NAMED: dict[str, Callable[..., Any]] = {
    "attention": attention,
    "layer": layer,
    "rows": rows,
    "convolution": convolution,
    "sorted": lambda x, w, v: (iv.sort(x, axis=0), iv.argsort(v), iv.max(x, axis=0)),
    "solved": lambda x, w, v: iv.linalg.solve(x.T @ x + iv.eye(x.shape[1]), w),
    "triangle": lambda x, w, v: iv.tril(x @ x.T) @ v,
    "outer": lambda x, w, v: (iv.exp(v)[:, None] * iv.exp(v)).sum(axis=0) + x.mean(axis=1),
    "windows": lambda x, w, v: (v[1:] - v[:-1], x[::2], iv.pad(v, (1, 2))),
    "batch": lambda x, w, v: x[:, None, :] * iv.ones((x.shape[0], 2, 1)) @ w,
    "loop": lambda x, w, v: iv.fori_loop(0, 3, lambda k, c: iv.sin(c) @ (w @ w.T) / c.shape[1], x),
    "segments": lambda x, w, v: iv.segment_sum(x, iv.arange(x.shape[0]) // 2, (x.shape[0] + 1) // 2),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMED)
def test_named_programs_at_shuffled_sizes(name: str, dtype: str) -> None:
    f = NAMED[name]
    compiled = iv.jit(f)
    for n, m in ((5, 4), (300, 7), (8, 4), (1, 1), (33, 5), (2, 9), (17, 4), (5, 4), (130, 6)):
        args = tuple(map(iv.asarray, arrays(n, m, dtype=dtype)))
        found, expected = values(compiled(*args)), values(f(*args))
        # Terms of sums cancel: entries are as exact as the largest one.
        scales = [max(1.0, np.abs(b).max(initial=0)) for b in expected]
        pairs = zip(found, expected, scales, strict=True)
        agree(*zip(*[(iv.asarray(a / s), iv.asarray(b / s)) for a, b, s in pairs], strict=True))


@pytest.mark.parametrize("name", ["attention", "outer", "batch"])
def test_complex_programs_at_shuffled_sizes(name: str) -> None:
    f = (lambda x, w, v: iv.sin(x @ x.T) @ x) if name == "attention" else NAMED[name]
    compiled = iv.jit(f)
    for n, m in ((5, 4), (30, 7), (8, 4), (1, 1), (33, 5)):
        args = tuple(map(iv.asarray, arrays(n, m, dtype="complex128")))
        agree(compiled(*args), f(*args))


def test_general_code_does_not_depend_on_the_calls_before() -> None:
    """The code that is general from the start gives the same bits in any order of sizes."""
    sizes = [(5, 4), (300, 7), (64, 4), (33, 5), (130, 6)]
    results = []
    for order in (sizes, sizes[::-1]):
        compiled = iv.jit(layer, sizes="general")
        found = {s: value_of(compiled(*map(iv.asarray, arrays(*s)))) for s in order}
        results.append([to_strided(found[s]).tobytes() for s in sizes])
    assert results[0] == results[1]


# --- how many codes ---------------------------------------------------------------------------------


def graph_of(n: int) -> Any:
    rng = np.random.default_rng(n)
    a = scipy.sparse.random(n, n, density=5 / n, format="csr", random_state=rng)
    return iv.from_scipy(a), iv.asarray(rng.standard_normal((n, 8))), iv.asarray(rng.integers(0, 3, n))


def test_graphs_of_all_sizes_take_few_codes() -> None:
    """A step of a graph network on graphs of many sizes; each pattern has a number of entries of its own."""
    r = iv.random.default_rng(0)
    w = [r.standard_normal(s) for s in ((8, 16), (16, 3))]

    def step(a: Any, x: Any, labels: Any, *w: Any) -> Any:
        loss = lambda w: iv.nn.cross_entropy(a @ (iv.relu(a @ (x @ w[0])) @ w[1]), labels)
        return iv.grad(loss)(w)

    compiled = iv.jit(step)
    rng = np.random.default_rng(0)
    for n in rng.integers(80, 300, 12).tolist():
        args = *graph_of(n), *w
        agree(compiled(*args), step(*args))
    assert compiled.cache_size <= 4


def test_three_hundred_shapes_keep_few_codes() -> None:
    compiled = iv.jit(lambda x: iv.sum(iv.exp(-x) * x, axis=0) / x.shape[0])
    for n in range(2, 302 if EXHAUSTIVE else 82):
        x = np.random.default_rng(n).standard_normal((n, 3))
        np.testing.assert_allclose(compiled(iv.asarray(x)).numpy(), (np.exp(-x) * x).mean(axis=0), rtol=1e-12)
    assert compiled.cache_size <= 4


def test_a_code_for_other_sizes_is_told_with_its_reason() -> None:
    @iv.jit
    def squares_of_sines(x: Any) -> Any:
        return iv.sum(iv.sin(x) ** 2)

    for n in (100, 101, 102, 103):
        squares_of_sines(iv.ones(n))
    made = [c for c in iv.explain.compilations() if "squares_of_sines" in c.name]
    assert len(made) == 2
    assert "x: float64[100] before, float64[101] now" in made[1].reason


def test_sizes_that_change_what_is_computed_are_compiled_and_told() -> None:
    """A function whose steps depend on the size has a program for each; a word is not an extent."""

    def f(x: Any) -> Any:
        for _ in range(x.shape[0]):
            x = iv.sin(x) + len(x)
        return x if x.size % 2 else x.sum()

    compiled = iv.jit(f)
    for n in (1, 2, 3, 4, 5, 2, 1):
        agree(compiled(iv.ones(n)), f(iv.ones(n)))


def test_no_more_than_three_general_codes_and_then_a_warning() -> None:
    """One extent after the other changes: each makes the code more general."""
    compiled = iv.jit(lambda *xs: sum(iv.sum(iv.sin(x)) for x in xs))
    sizes = [(10, 20, 30, 40, 50), (11, 20, 30, 40, 50), (11, 21, 30, 40, 50), (11, 21, 31, 40, 50)]
    last = (11, 21, 31, 41, 50)

    def call(shapes: tuple[int, ...]) -> None:
        args = [iv.ones(n) for n in shapes]
        np.testing.assert_allclose(compiled(*args).item(), sum(shapes) * np.sin(1), rtol=1e-12)

    for shapes in sizes:
        call(shapes)
    with pytest.warns(CompilationWarning, match="3 codes for any sizes"):
        call(last)
    call((12, 22, 32, 40, 50))
    assert compiled.cache_size == 5


def test_wrong_choice_of_sizes_is_refused() -> None:
    with pytest.raises(
        iv.errors.ArgumentError, match=r"jit: argument 'sizes': got 'all'.*'special' or 'general'"
    ):
        iv.jit(lambda x: x, sizes="all")  # type: ignore[arg-type]


def test_what_a_call_writes_is_written_at_each_size() -> None:
    """An optimizer's step, donation and writes in place: outputs are made in the memory of inputs."""
    for n in (4, 9, 33):
        w = iv.ones((n, 3)).requires_grad_()
        adam = iv.optim.Adam([w], lr=0.1)
        expected = iv.ones((n, 3)).requires_grad_()
        other = iv.optim.Adam([expected], lr=0.1)

        def step(x: Any, w: Any = w, adam: Any = adam) -> Any:
            loss = iv.sum(iv.sin(x @ w))
            adam.step(iv.autograd.grad(loss, [w]))
            return loss

        compiled = iv.jit(step)
        for m in (5, 8, 21, 5):
            x = iv.asarray(np.random.default_rng(m).standard_normal((m, n)))
            found = compiled(x)
            agree(found, step(x, expected, other))
            agree(w.detach(), expected.detach())
