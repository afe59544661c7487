"""Compiled functions return what eager code returns: in its layout and on its pattern, of the same values.

Of every op of the table, in every sparse layout, in each of the ways in which a function is compiled.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.core.dispatch import bind, value_of
from iverson.core.errors import ConvergenceWarning, LinearAlgebraError
from iverson.handles import Tensor
from iverson.layouts import Sparse, sparse_layouts, to_strided
from iverson.ops import TABLE
from iverson.transforms.pytree_tracing import TracedFunction
from tests.conformance.product import Case, by_turns, dtypes_of, held_and_dense, ops, samples_of, some, stores
from tests.conformance.test_table import as_tuple, close

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::iverson.errors.DensifyWarning")

LAYOUTS = tuple(layout.name for layout in sparse_layouts())
#: Ops whose kernels store what entries say: a trace knows no entries, and gives a strided result then.
BY_ENTRIES = {"extremum_shares"}
#: The op of selections stores what its condition keeps, which a trace does not know: it stores all then.
OF_PARTS = {"bracket"}


def tracked(f: Any, *xs: Any) -> Any:
    return iv.jit(f)(*(x.detach().requires_grad_() if x.dtype.kind in "fc" else x for x in xs))


def pairs(xs: Any) -> Any:
    return [iv.stack([x, x]) for x in xs]


#: By name: a compiled call of a function, and the eager one.
MODES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "compiled": (lambda f, *xs: iv.jit(f)(*xs), lambda f, *xs: f(*xs)),
    "interpreted": (lambda f, *xs: iv.jit(f, interpret=True)(*xs), lambda f, *xs: f(*xs)),
    "inside of a compiled one": (lambda f, *xs: iv.jit(iv.jit(f))(*xs), lambda f, *xs: f(*xs)),
    "tracked": (tracked, lambda f, *xs: f(*xs)),
    "examples": (
        lambda f, *xs: iv.jit(iv.vmap(f))(*pairs(xs)),
        lambda f, *xs: iv.vmap(f)(*pairs(xs)),
    ),
}


def stored(y: Any) -> Any:
    """The layout of a sparse tensor and the places that it stores, in order and each once; None of others."""
    held = value_of(y)
    if not isinstance(held, Sparse):
        return None
    p = held.pattern
    return p.layout, p.blocksize, p.shape, np.unique(p.keys).tolist()


def called(case: Case) -> tuple[Callable[..., Any], list[Any], list[Any]]:
    """The op as a function of its floating and sparse arguments, these, and the same entries as arrays."""
    op, sample = TABLE[case.op], samples_of(TABLE[case.op], case.dtype)[case.sample]
    held, dense = held_and_dense(case)
    at = [k for k, x in enumerate(held) if isinstance(x, Sparse) or np.asarray(x).dtype.kind in "fc"]
    at = [k for k in at if hasattr(held[k], "shape")]

    def function(*xs: Any) -> Any:
        given = dict(zip(at, xs, strict=True))
        args = tuple(given.get(k, x) for k, x in enumerate(held))
        return as_tuple(bind(op, args, dict(sample.params)))

    return function, [Tensor(held[k]) for k in at], [Tensor(dense[k]) for k in at]


def cases_of(name: str) -> Iterator[tuple[Case, str]]:
    op = TABLE[name]
    return (
        (case, mode)
        for layout, dtype, mode in itertools.product(LAYOUTS, dtypes_of(op), MODES)
        for k in range(len(samples_of(op, dtype)))
        if stores(case := Case(name, layout, dtype, k, (), 0))
    )


#: The ops that take an argument in a sparse layout.
HELD = [name for name in ops() if next(cases_of(name), None)]


def outcome(run: Callable[..., Any], *args: Any) -> Any:
    """What a call gives; None where zeros have no decomposition, or where iterations stop is rounding."""
    try:
        with warnings.catch_warnings(action="error", category=ConvergenceWarning):
            return run(*args)
    except (LinearAlgebraError, ConvergenceWarning):
        return None


@pytest.mark.parametrize("name", by_turns(HELD, 2))
def test_results_are_stored_as_eager_code_stores_them(name):
    for case, mode in some(name, cases_of(name), 2):
        function, xs, arrays = called(case)
        compiled, eager = MODES[mode]
        numbers = outcome(eager, function, *arrays)
        if numbers is None:
            continue
        expected, found = eager(function, *xs), compiled(function, *xs)
        by_entries = name in BY_ENTRIES and mode != "interpreted"
        for f, e, n in zip(found, expected, numbers, strict=True):
            where = f"{case}, {mode}"
            assert (f.shape, f.dtype) == (e.shape, e.dtype), where
            whole = name in OF_PARTS and mode != "interpreted" and None not in (stored(f), stored(e))
            assert stored(f) == stored(e) or whole or (by_entries and stored(f) is None), where
            values = to_strided(value_of(f))
            close(values, to_strided(value_of(e)))
            close(values, to_strided(value_of(n)))


def squares(f: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the squares of a function's results, each weighed by its place."""

    def loss(*xs: Any) -> Any:
        found = [iv.real(y * iv.conj(y)) for y in f(*xs) if y.dtype.kind in "fc"]
        return sum((y * iv.arange(1.0, y.size + 1).reshape(y.shape)).sum() for y in found)

    return loss


def second(f: Callable[..., Any]) -> Callable[..., Any]:
    return squares(lambda *xs: iv.grad(squares(f), tuple(range(len(xs))))(*xs))


@pytest.mark.parametrize("name", by_turns((n for n in HELD if TABLE[n].differentiable), 3))
def test_derivatives_of_results_that_are_stored_are_those_of_all_entries(name):
    """An entry that is not stored has a derivative, too."""
    for case, _ in some(name, [c for c in cases_of(name) if c[1] == "compiled"]):
        function, xs, arrays = called(case)
        wrt = tuple(k for k, x in enumerate(xs) if x.dtype.kind in "fc")
        if not wrt or not any(y.dtype.kind in "fc" and stored(y) for y in outcome(function, *xs) or ()):
            continue
        for order in (squares, second):
            numbers = outcome(iv.grad(order(function), wrt), *arrays)
            if numbers is None:
                break
            for f, n in zip(iv.grad(order(iv.jit(function)), wrt)(*xs), numbers, strict=True):
                values = to_strided(value_of(n))
                if np.abs(values[np.isfinite(values)]).max(initial=0) < 1e12:  # singular but for rounding
                    close(to_strided(value_of(f)), values, rtol=1e-7)


#: Ops of which a gradient through a compiled function is stored otherwise in some case, by layout.
STORED_OTHERWISE: dict[str, tuple[str, ...]] = {
    # Strided, where eager code stores the gradient of an operand that was broadcast, or is added up.
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "hypot", "copysign", "atan2"), ("coo",)),
    **dict.fromkeys(("xlogy", "xlog1py", "rel_entr", "kl_div", "gammaincinv"), ("coo",)),
    **dict.fromkeys(("boxcox1p", "inv_boxcox1p", "fmod", "inv_boxcox"), ("coo",)),
    # Strided, where kernels of eager code give a stored one of which no support says so.
    **dict.fromkeys(("prod", "max", "min", "matmul", "kron", "sampled_product"), LAYOUTS),
    # On the matrices that the cotangent stores, where eager code has an array.
    "singular_spectral": ("coo",),
    # On a union of patterns, where eager code stores what is selected, and an array in place of blocks.
    **dict.fromkeys(("maximum", "minimum", "clip", "relu", "where", "bracket"), LAYOUTS),
    "gather_put": ("coo", "csr", "csc"),
}
#: Ops of which some gradient is nan in one of both alone, by layout: at a stored 0.
NAN_OTHERWISE = {"atan2": ("csr", "csc")}


def alike(x: Any, y: Any) -> bool:
    scale = np.abs(y[np.isfinite(y)]).max(initial=1.0)
    return np.allclose(x, y, rtol=1e-7, atol=1e-10 * scale, equal_nan=True)


@pytest.mark.parametrize("name", by_turns((n for n in HELD if TABLE[n].differentiable), 6))
def test_gradients_through_compiled_functions_are_those_of_eager_code(name):
    """In layout, on their pattern, and of the same values, also where one is not a number."""
    cases = [case for case, mode in cases_of(name) if mode == "compiled"]
    for layout in some(name, dict.fromkeys(case.layout for case in cases)):
        otherwise, values_otherwise = [], []
        for case in cases:
            function, xs, _ = called(case)
            wrt = tuple(k for k, x in enumerate(xs) if x.dtype.kind in "fc")
            expected = (
                outcome(iv.grad(squares(function), wrt), *xs) if wrt and case.layout == layout else None
            )
            if expected is None:
                continue
            found = iv.grad(squares(iv.jit(function)), wrt)(*xs)
            for f, e in zip(found, expected, strict=True):
                otherwise += [str(case)] * (stored(f) != stored(e))
                same = alike(to_strided(value_of(f)), to_strided(value_of(e)))
                values_otherwise += [str(case)] * (not same)
        assert bool(otherwise) == (layout in STORED_OTHERWISE.get(name, ())), otherwise
        assert bool(values_otherwise) == (layout in NAN_OTHERWISE.get(name, ())), values_otherwise


def infinite_around(y: Any) -> Any:
    """Weights for a result: infinite where it stores nothing."""
    there = value_of(y).pattern.value(np.ones(value_of(y).pattern.count))
    return iv.asarray(np.where(to_strided(there) > 0, 0.5, np.inf))


def around(f: Callable[..., Any], expected: Any) -> Callable[..., Any] | None:
    """The sum of the results that are stored on all axes, each times weights that are infinite around it."""
    at = {k: infinite_around(y) for k, y in enumerate(expected) if stored(y) and not value_of(y).dense_shape}
    at = {k: w for k, w in at.items() if expected[k].dtype.kind in "fc"}
    if not at:
        return None

    def loss(*xs: Any) -> Any:
        found = f(*xs)
        return sum(iv.sum(iv.real(found[k] * weights)) for k, weights in at.items())

    return loss


@pytest.mark.parametrize("name", by_turns((n for n in HELD if n not in BY_ENTRIES), 3))
def test_zeros_that_are_not_stored_are_strong_in_compiled_functions(name):
    """As in eager code; derivatives too, where they are finite there."""
    for case, mode in some(name, cases_of(name), 4):
        function, xs, _ = called(case)
        loss = around(function, outcome(function, *xs) or ())
        if loss is None:
            continue
        compiled, eager = MODES[mode]
        where = f"{case}, {mode}"
        numbers = [to_strided(value_of(way(loss, *xs))) for way in (compiled, eager)]
        np.testing.assert_allclose(*numbers, rtol=1e-7, err_msg=where)
        wrt = tuple(k for k, x in enumerate(xs) if x.dtype.kind in "fc") if TABLE[name].differentiable else ()
        expected = outcome(iv.grad(loss, wrt), *xs) if wrt else None
        if expected is not None and all(np.isfinite(to_strided(value_of(e))).all() for e in expected):
            for gradients in (iv.jit(iv.grad(loss, wrt)), iv.grad(iv.jit(loss), wrt)):
                for f, e in zip(gradients(*xs), expected, strict=True):
                    close(to_strided(value_of(f)), to_strided(value_of(e)), rtol=1e-7)


# --- by one trace ------------------------------------------------------------------------------------

N = 12


def matrix(layout: str, seed: int, count: int) -> Any:
    at = np.random.default_rng(seed).permutation(N * N // 4)[:count]
    rows, columns = np.divmod(np.sort(at), N // 2)
    found = iv.sparse_coo_tensor([rows * 2, columns * 2 + 1], np.arange(1.0, count + 1), (N, N))
    return found.to_layout(layout, **({"blocksize": (2, 3)} if layout.startswith("bs") else {}))


#: Functions of which the layout of the result follows from kernels alone.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "power": lambda s: s**2,
    "clipped": lambda s: iv.clip(s, -1.0, 2.0),
    "larger": lambda s: iv.maximum(s, 0.0) * 2.0,
    "compared": lambda s: s > 2.0,
    "chosen rows": lambda s: iv.take(s, np.array([3, 0, 0, 7]), axis=0),
    "product": lambda s: s @ s.mT,
    "conditional": lambda s: iv.where(s > 2.0, s, s * 0.5),
    "steps": lambda s: iv.scan(lambda c, x: (c, s * x), iv.asarray(0.0), iv.asarray([1.0, 2.0]))[1],
    "several": lambda s: (s**2, (s**3).sum(axis=0), {"of a union": iv.minimum(s, s.mT) ** 2}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_trace_serves_all_patterns(name, monkeypatch):
    counted: list[int] = []
    plain = TracedFunction._trace
    monkeypatch.setattr(TracedFunction, "_trace", lambda *args: counted.append(1) or plain(*args))
    f = FUNCTIONS[name]
    for layout in some(name, LAYOUTS, 2):
        compiled = iv.jit(f)
        for seed, count in enumerate((9, 9, 4, 15, 1, 0)):
            s = matrix(layout, seed, count)
            expected = leaves(f(s))
            counted.clear()
            for y, e in zip(leaves(compiled(s)), expected, strict=True):
                assert stored(y) == stored(e), (layout, seed)
                np.testing.assert_allclose(y.to_dense().numpy(), e.to_dense().numpy())
            assert not seed or not counted, (layout, seed)


def leaves(x: Any) -> list[Any]:
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, tuple) else None
    return [x] if parts is None else [y for part in parts for y in leaves(part)]


def test_masks_of_results_are_those_of_eager_results():
    s = matrix("csr", 0, 9)
    for name in ("power", "clipped", "product", "chosen rows"):
        f = FUNCTIONS[name]
        mean = lambda y: float(iv.masked_tensor(iv.astype(y, iv.float64)).mean().to_tensor(0.0))
        assert mean(iv.jit(f)(s)) == pytest.approx(mean(f(s)))


def test_what_is_written_is_stored_as_eager_code_stores_it(monkeypatch):
    """An argument and a tensor from outside: by one trace, while they stay on their pattern."""
    counted: list[int] = []
    plain = TracedFunction._trace
    monkeypatch.setattr(TracedFunction, "_trace", lambda *args: counted.append(1) or plain(*args))

    def step(x: Any, state: Any) -> None:
        x[...] = iv.clip(x, -1.0, 2.0) * 0.5
        state[...] = state**2 * 0.01

    eager, (x, state) = [matrix("csr", k, 9) for k in (0, 1)], [matrix("csr", k, 9) for k in (0, 1)]
    compiled = iv.jit(lambda x: step(x, state))
    for k in range(4):
        step(*eager)
        counted.clear()
        compiled(x)
        assert not k or not counted
        for f, e in zip((x, state), eager, strict=True):
            assert stored(f) == stored(e)
            np.testing.assert_allclose(f.to_dense().numpy(), e.to_dense().numpy())


def test_half_precision_is_stored_too():
    s = matrix("csr", 0, 9).astype("float16")
    for name in ("power", "clipped", "product", "steps"):
        f = FUNCTIONS[name]
        assert stored(iv.jit(f)(s)) == stored(f(s))
