"""Solves, decompositions, transforms and sorts as native steps, in every mode, against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.special

import iverson as iv
from iverson import linalg
from iverson.codegen.programs import interpret
from iverson.codegen.programs.nodes import Call, Repeat, walk
from iverson.errors import DTypeError, LinearAlgebraError
from iverson.graph.calls.executable import executable
from iverson.graph.lowering.graph_lowering import Library, Native
from iverson.graph.passes import simplified

DTYPES = ("float32", "float64", "complex64", "complex128")


def tolerance(dtype: str) -> float:
    return 2e-4 if dtype in ("float32", "complex64") else 1e-9


def drawn(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def regular(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    return drawn(shape, dtype) + (shape[-1] + 2) * np.eye(shape[-1], dtype=dtype)


def definite(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    x = drawn(shape, dtype)
    return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)


def programs_of(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The steps of the compiled function, each of which has to be native."""
    steps = executable(simplified(iv.jit(f).graph(*map(iv.asarray, args)))).steps
    assert all(isinstance(s, Native) for s in steps), [s for s in steps if not isinstance(s, Native)]
    return list(steps)


def routines(f: Callable[..., Any], *args: Any) -> int:
    return sum(isinstance(s, Call) for p in programs_of(f, *args) for s in walk(p.compiled.program.steps))


def in_all_ways(f: Callable[..., Any], reference: Callable[..., Any], *args: Any, rtol: float) -> None:
    """A function called eagerly, compiled, in the body of a scan and of a batch agrees with a reference."""
    handles, expected = list(map(iv.asarray, args)), reference(*args)

    def agree(found: Any, wanted: Any) -> None:
        for x, y in zip(as_tuple(found), as_tuple(wanted), strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=rtol, atol=rtol)

    def body(carry: Any, xs: Any) -> Any:
        return carry, f(*xs)

    agree(f(*handles), expected)
    agree(iv.jit(f)(*handles), expected)
    stacked = [iv.stack([x, x]) for x in handles]
    twice = [np.stack([y, y]) for y in as_tuple(expected)]
    agree(iv.vmap(f)(*stacked), twice)
    agree(iv.jit(iv.vmap(f))(*stacked), twice)
    agree(iv.jit(lambda *xs: iv.scan(body, 0.0, xs)[1])(*stacked), twice)
    programs_of(lambda *xs: iv.scan(body, 0.0, xs)[1], *map(np.asarray, stacked))


def as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def of_eigh(x: Any) -> Any:
    w, v = linalg.eigh(x)
    return w, v * w[..., None, :] @ iv.conj(v.mT)


def of_svd(x: Any) -> Any:
    u, s, vh = linalg.svd(x, full_matrices=False)
    return s, u * s[..., None, :] @ vh


def of_qr(x: Any) -> Any:
    q, r = linalg.qr(x)
    return q @ r, iv.abs(r)


#: Functions of a matrix, what NumPy or SciPy has for each, and the matrices that it takes.
MATRICES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "inv": (linalg.inv, np.linalg.inv, regular),
    "det": (linalg.det, np.linalg.det, drawn),
    "slogdet": (lambda x: tuple(linalg.slogdet(x)), lambda x: tuple(np.linalg.slogdet(x)), drawn),
    "cholesky": (linalg.cholesky, np.linalg.cholesky, definite),
    "eigvalsh": (linalg.eigvalsh, np.linalg.eigvalsh, definite),
    "svdvals": (linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False), drawn),
    "eigh": (
        of_eigh,
        lambda x: (np.linalg.eigvalsh(x), x),
        definite,
    ),
    "svd": (
        of_svd,
        lambda x: (np.linalg.svd(x, compute_uv=False), x),
        drawn,
    ),
    "qr": (
        of_qr,
        lambda x: (x, np.abs(np.linalg.qr(x)[1])),
        drawn,
    ),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_matrices(name: str, dtype: str) -> None:
    f, reference, matrices = MATRICES[name]
    for shape in ((1, 1), (2, 2, 4, 4), (9, 3, 3)) if dtype == "float64" else ((4, 4), (9, 3, 3)):
        in_all_ways(f, reference, matrices(shape, dtype), rtol=10 * tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 3])
def test_solves(dtype: str, columns: int) -> None:
    for shape in ((4, 4), (11, 4, 4)) if dtype == "float64" else ((2, 3, 3), (11, 4, 4)):
        a, b = regular(shape, dtype), drawn((*shape[:-1], columns), dtype)
        in_all_ways(linalg.solve, np.linalg.solve, a, b, rtol=tolerance(dtype))
        for lower in (False, True):
            for transposed in (False, True):
                t = np.tril(a) if lower else np.triu(a)

                def f(a: Any, b: Any, lower: bool = lower, transposed: bool = transposed) -> Any:
                    return linalg.solve_triangular(a.mT if transposed else a, b, lower=lower != transposed)

                def reference(_a: Any, b: Any, t: Any = t, transposed: bool = transposed) -> Any:
                    return np.linalg.solve(t.swapaxes(-1, -2) if transposed else t, b)

                in_all_ways(f, reference, a, b, rtol=tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_of_small_matrices_are_nests(dtype: str) -> None:
    """No routine is called; whatever the number of matrices, their strides and how batches broadcast."""

    def f(a: Any, b: Any) -> tuple[Any, ...]:
        a, b = a.mT, iv.flip(b, axis=-1)
        factor = linalg.cholesky(a @ iv.conj(a.mT))
        return (
            linalg.solve(a, b),
            linalg.inv(a),
            linalg.det(a),
            factor,
            linalg.solve_triangular(a, b, lower=True),
        )

    def reference(a: Any, b: Any) -> tuple[Any, ...]:
        a, b = a.swapaxes(-1, -2), b[..., ::-1]
        factor = np.linalg.cholesky(a @ a.conj().swapaxes(-1, -2))
        return (
            np.linalg.solve(a, b),
            np.linalg.inv(a),
            np.linalg.det(a),
            factor,
            np.linalg.solve(np.tril(a), b),
        )

    compiled = iv.jit(f)
    for shape, sides in (((8,), (8,)), ((3, 5), (5,)), ((1, 9), (2, 1)), ((17,), (17,))):
        a, b = regular((*shape, 5, 5), dtype), drawn((*sides, 5, 3), dtype, 1)
        for x, y in zip(compiled(iv.asarray(a), iv.asarray(b)), reference(a, b), strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=0, atol=tolerance(dtype) * np.abs(y).max())
    assert routines(f, a, b) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_of_small_matrices_are_the_largest(dtype: str) -> None:
    """Rows in an order of their own for each matrix, entries of scales from 1e-8 to 1e8, exact zeros."""
    rng = np.random.default_rng(5)
    a = np.stack([np.eye(6)[rng.permutation(6)] for _ in range(13)]).astype(dtype)
    a *= rng.choice([1, -1, 1j] if dtype[0] == "c" else [1, -1], (13, 6, 1))
    a *= (10.0 ** rng.integers(-8, 9, (13, 6, 1))).astype(a.real.dtype)
    b = drawn((13, 6, 2), dtype)
    found = np.asarray(iv.jit(linalg.solve)(iv.asarray(a), iv.asarray(b)))
    np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=tolerance(dtype) / 100)
    found = np.asarray(iv.jit(linalg.det)(iv.asarray(a)))
    np.testing.assert_allclose(found, np.linalg.det(a.astype("complex128")), rtol=tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_of_small_matrices_below_normal_numbers(dtype: str) -> None:
    unit = np.finfo(dtype).smallest_subnormal * 4
    x = np.random.default_rng(0).integers(-9, 9, (8, 3, 2)).astype(dtype)
    a, b = (np.eye(3, dtype=dtype) * unit + np.zeros((8, 1, 1))).astype(dtype), (x * unit).astype(dtype)
    for f in (linalg.solve, lambda a, b: linalg.solve_triangular(a, b, lower=True)):
        np.testing.assert_array_equal(np.asarray(iv.jit(f)(iv.asarray(a), iv.asarray(b))), x)


def test_matrices_and_sides_broadcast() -> None:
    a, b = regular((3, 3)), drawn((2, 3, 2))
    for f in (linalg.solve, iv.jit(linalg.solve)):
        np.testing.assert_allclose(np.asarray(f(iv.asarray(a), iv.asarray(b))), np.linalg.solve(a, b))
        np.testing.assert_allclose(
            np.asarray(f(iv.asarray(regular((10, 3, 3))), iv.asarray(b[0]))),
            np.linalg.solve(regular((10, 3, 3)), b[0]),
        )


def test_integers_are_converted_and_half_precision_is_refused() -> None:
    a = np.array([[4, 1], [2, 3]])
    np.testing.assert_allclose(np.asarray(iv.jit(linalg.inv)(iv.asarray(a))), np.linalg.inv(a))
    with pytest.raises(DTypeError, match="half precision"):
        iv.jit(linalg.inv)(iv.asarray(a).astype(iv.float16))


def test_empty_matrices_and_batches() -> None:
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        x = np.zeros(shape)
        np.testing.assert_array_equal(np.asarray(iv.jit(linalg.inv)(iv.asarray(x))), np.linalg.inv(x))
        np.testing.assert_array_equal(np.asarray(iv.jit(linalg.det)(iv.asarray(x))), np.linalg.det(x))


FAILURES: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "solve": (lambda a: linalg.solve(a, a), np.zeros((2, 2)), "Singular matrix"),
    "inv": (linalg.inv, np.ones((2, 2)), "Singular matrix"),
    "inverses": (linalg.inv, np.ones((9, 2, 2)), "Singular matrix"),
    "solves": (lambda a: linalg.solve(a, a), np.zeros((9, 2, 2)), "Singular matrix"),
    "complex inverses": (linalg.inv, np.ones((9, 2, 2)) * (1 + 1j), "Singular matrix"),
    "complex choleskys": (
        linalg.cholesky,
        np.eye(3) * [[[-1j]]] * np.ones((9, 1, 1)),
        "not positive definite",
    ),
    "cholesky": (linalg.cholesky, -np.eye(3), "not positive definite"),
    "choleskys": (linalg.cholesky, np.stack([np.eye(3)] * 8 + [-np.eye(3)]), "not positive definite"),
    "nan in eigvalsh": (linalg.eigvalsh, np.full((2, 2), np.nan), "finite entries"),
    "inf in svdvals": (linalg.svdvals, np.array([[1, np.inf], [2, 3.0]]), "finite entries"),
    "triangular": (
        lambda a: linalg.solve_triangular(a, a, lower=True),
        np.array([[1.0, 0], [1, 0]]),
        "diagonal",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_errors_as_in_eager_code(name: str) -> None:
    f, x, message = FAILURES[name]

    def looped(x: Any) -> Any:
        return iv.scan(
            lambda c, _: (c + iv.sum(iv.real(f(x + 0 * c))), None), iv.asarray(0.0), None, length=3
        )[0]

    for way in (f, iv.jit(f), iv.jit(looped)):
        with pytest.raises(LinearAlgebraError, match=message):
            way(iv.asarray(x))
    good = 4 * np.eye(x.shape[-1]) + np.zeros(x.shape)
    compiled = iv.jit(looped)
    with pytest.raises(LinearAlgebraError, match=message):
        compiled(iv.asarray(x))
    assert np.isfinite(np.asarray(compiled(iv.asarray(good)))).all()


def test_nan_goes_through_where_numpy_lets_it() -> None:
    for shape in ((2, 2), (9, 2, 2)):
        x = np.full(shape, np.nan)
        assert np.isnan(np.asarray(iv.jit(linalg.inv)(iv.asarray(x)))).all()
        assert np.isnan(np.asarray(iv.jit(linalg.det)(iv.asarray(x)))).all()


def test_determinants_of_singular_matrices_are_zero() -> None:
    x = np.stack([np.ones((3, 3)), np.zeros((3, 3)), np.diag([1.0, 0, 2]), np.eye(3)[[1, 0, 2]]] * 3)
    np.testing.assert_allclose(np.asarray(iv.jit(linalg.det)(iv.asarray(x))), np.linalg.det(x), atol=1e-15)


@pytest.mark.parametrize("batch", [(), (3,), (9,), (2, 5)])
def test_gradients(batch: tuple[int, ...]) -> None:
    """Of small batches, by the formulas of Giles in NumPy."""
    a, b = regular((*batch, 3, 3)), drawn((*batch, 3, 2))
    x, g = np.linalg.solve(a, b), drawn((*batch, 3, 2), seed=1)
    c = np.linalg.solve(a.swapaxes(-1, -2), g)

    def loss(a: Any, b: Any) -> Any:
        return iv.sum(linalg.solve(a, b) * g)

    gradient = iv.grad(loss, (0, 1))
    for way in (gradient, iv.jit(gradient), iv.grad(iv.jit(loss), (0, 1))):
        of_a, of_b = way(iv.asarray(a), iv.asarray(b))
        np.testing.assert_allclose(np.asarray(of_a), -c @ x.swapaxes(-1, -2), rtol=1e-9)
        np.testing.assert_allclose(np.asarray(of_b), c, rtol=1e-9)
    of_inv = iv.jit(iv.grad(lambda a: iv.sum(linalg.inv(a))))(iv.asarray(a))
    inverse = np.linalg.inv(a).swapaxes(-1, -2)
    np.testing.assert_allclose(np.asarray(of_inv), -inverse @ np.ones((3, 3)) @ inverse, rtol=1e-9)
    of_log = iv.jit(iv.grad(lambda a: iv.sum(linalg.slogdet(a)[1])))(iv.asarray(a))
    np.testing.assert_allclose(np.asarray(of_log), inverse, rtol=1e-9)


def heat(a: Any, u: Any) -> Any:
    return iv.scan(lambda u, _: (linalg.solve(a, u) + 0.1 * u, None), u, None, length=4)[0]


def heat_by_numpy(a: Any, u: Any) -> Any:
    for _ in range(4):
        u = np.linalg.solve(a, u) + 0.1 * u
    return u


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_a_loop_factors_the_matrix_that_its_steps_share_once(dtype: str, shape: tuple[int, ...]) -> None:
    a, u = regular((5, 5), dtype), drawn(shape, dtype)
    in_all_ways(heat, heat_by_numpy, a, u, rtol=tolerance(dtype))
    (program,) = programs_of(heat, a, u)
    steps = program.compiled.program.steps
    outside = [s for s in steps if isinstance(s, Call)]
    inside = [s for loop in steps if isinstance(loop, Repeat) for s in walk(loop.body) if isinstance(s, Call)]
    assert "getrf" in outside[0].routine.symbol
    assert "getrs" in inside[0].routine.symbol
    assert len(outside) == len(inside) == 1


def test_gradients_through_a_loop_of_solves() -> None:
    a, u, step = regular((4, 4)), drawn((4,)), 1e-6

    def loss(a: Any, u: Any) -> Any:
        return iv.sum(heat(a, u) ** 2)

    def value(a: Any) -> float:
        return float(np.sum(heat_by_numpy(a, u) ** 2))

    numeric = np.zeros((4, 4))
    for k in np.ndindex(4, 4):
        d = np.zeros((4, 4))
        d[k] = step
        numeric[k] = (value(a + d) - value(a - d)) / (2 * step)
    for way in (iv.grad(loss), iv.jit(iv.grad(loss)), iv.grad(iv.jit(loss))):
        np.testing.assert_allclose(
            np.asarray(way(iv.asarray(a), iv.asarray(u))), numeric, rtol=1e-6, atol=1e-8
        )
    stacked = iv.stack([iv.asarray(a), iv.asarray(a)])
    both = iv.jit(iv.vmap(iv.grad(loss), (0, None)))(stacked, iv.asarray(u))
    np.testing.assert_allclose(np.asarray(both), np.stack([numeric] * 2), rtol=1e-6, atol=1e-8)
    hessian = np.asarray(iv.jit(iv.hessian(loss, 1))(iv.asarray(a), iv.asarray(u)))
    np.testing.assert_allclose(
        hessian, np.asarray(iv.hessian(loss, 1)(iv.asarray(a), iv.asarray(u))), rtol=1e-9
    )


def test_a_while_loop_factors_once_too() -> None:
    a, b = iv.asarray(regular((3, 3))), iv.asarray(drawn((3,)))

    def f(a: Any, b: Any) -> Any:
        return iv.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, linalg.solve(a, s[1])), (0, b))[1]

    expected = np.asarray(b)
    for _ in range(3):
        expected = np.linalg.solve(np.asarray(a), expected)
    np.testing.assert_allclose(np.asarray(iv.jit(f)(a, b)), expected)


# --- transforms and sorts ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms(dtype: str, norm: str) -> None:
    for n in (1, 8, 11) if norm == "ortho" else (7, 60):
        for shape, axis in (((n,), 0), ((n, 2), 0)) if dtype == "float64" else (((3, n), 1),):
            x = drawn(shape, dtype)
            call = {"norm": norm, "axis": axis}
            rtol = tolerance(dtype) * n
            for name in ("fft", "ifft", *(() if dtype[0] == "c" else ("rfft",))):
                ours, theirs = getattr(iv.fft, name), getattr(scipy.fft, name)
                in_all_ways(
                    lambda x, f=ours, c=call: f(x, **c), lambda x, f=theirs, c=call: f(x, **c), x, rtol=rtol
                )
            for m in (n, n + 1) if n > 1 else ():
                ours = iv.jit(lambda x, c=call, m=m: iv.fft.irfft(x, n=m, **c))(iv.asarray(x))
                np.testing.assert_allclose(
                    np.asarray(ours), scipy.fft.irfft(x, m, **call), rtol=rtol, atol=rtol
                )


def test_transforms_along_several_axes() -> None:
    x = drawn((2, 3, 4, 5), "complex128")
    for axes in ((0,), (1, 3), (3, 2, 0)):
        in_all_ways(
            lambda x, a=axes: iv.fft.fftn(x, axes=a),
            lambda x, a=axes: scipy.fft.fftn(x, axes=a),
            x,
            rtol=1e-9,
        )


KINDS = ("bool", "uint16", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", KINDS)
def test_sorts_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((0,), (1,), (17,), (300,), (4, 1, 7)):
        x = rng.integers(-3, 4, shape).astype("float64")
        if dtype[0] == "f" and x.size > 4:
            x.flat[:4] = 0.0, np.nan, -0.0, np.inf
        x = x.astype(dtype)
        for axis in range(x.ndim):
            for descending in (False, True):
                flipped = np.flip(x, axis) if descending else x
                order = np.argsort(flipped, axis=axis, stable=True)
                order = x.shape[axis] - 1 - np.flip(order, axis) if descending else order
                call: dict[str, Any] = {"axis": axis, "descending": descending}
                sort = iv.jit(lambda x, c=call: iv.sort(x, **c))
                argsort = iv.jit(lambda x, c=call: iv.argsort(x, **c))
                found = np.asarray(sort(iv.asarray(x)))
                expected = np.take_along_axis(x, order, axis)
                np.testing.assert_array_equal(found, expected)
                if dtype[0] == "f":
                    np.testing.assert_array_equal(
                        np.signbit(found[found == 0]), np.signbit(expected[found == 0])
                    )
                np.testing.assert_array_equal(np.asarray(argsort(iv.asarray(x))), order)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("largest", [False, True])
def test_the_first_of_an_order(dtype: str, largest: bool) -> None:
    rng = np.random.default_rng(1)
    for shape, k, axis in (((40,), 3, 0), ((1000,), 100, 0), ((3, 50), 2, 1), ((50, 4), 5, 0), ((9,), 1, 0)):
        x = rng.integers(-6, 7, shape).astype(dtype)
        if dtype[0] == "f":
            x.flat[3] = np.nan
        flipped = np.flip(x, axis) if largest else x
        order = np.argsort(flipped, axis=axis, stable=True)
        order = x.shape[axis] - 1 - np.flip(order, axis) if largest else order
        order = np.take(order, np.arange(k), axis)
        for way in (lambda f: f, iv.jit):
            values, indices = way(lambda x, k=k, a=axis: tuple(iv.topk(x, k, axis=a, largest=largest)))(
                iv.asarray(x)
            )
            np.testing.assert_array_equal(np.asarray(indices), order)
            np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(x, order, axis))


def test_the_interpreter_of_programs_calls_routines_as_machine_code_does() -> None:
    def f(a: Any, b: Any) -> Any:
        return heat(a, b), iv.sort(b), linalg.inv(a), iv.fft.rfft(b)

    a, b = regular((4, 4)), drawn((4,))
    (step,) = programs_of(f, a, b)
    program = step.compiled.program
    by_shape = {(4, 4): a, (4,): b}
    arrays = [by_shape[v.shape].copy() for v in step.inputs]
    for found, expected in zip(interpret.run(program, arrays), step.compiled(*arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


# --- universal functions, extrema, products ---------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_universal_function_by_itself_is_one_call(dtype: str) -> None:
    for n in (1, 63, 64, 1000, 20000):
        x, y = drawn((n,), dtype), drawn((n,), dtype, seed=1)
        for f, reference, args in (
            (iv.tan, np.tan, (x,)),
            (iv.atan2, np.arctan2, (x, y)),
            (iv.special.j1, scipy.special.j1, (x,)),
        ):
            handles = list(map(iv.asarray, args))
            np.testing.assert_allclose(np.asarray(iv.jit(f)(*handles)), reference(*args), rtol=1e-6)
            assert routines(f, *args) == (n >= 64)
    square = drawn((9, 9), dtype)
    np.testing.assert_allclose(
        np.asarray(iv.jit(lambda x: iv.tan(x.mT))(iv.asarray(square))), np.tan(square.T), rtol=1e-6
    )
    gradient = iv.jit(iv.grad(lambda x: iv.sum(iv.atan(x))))(iv.asarray(square))
    np.testing.assert_allclose(np.asarray(gradient), 1 / (1 + square**2), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float32", "float64"])
def test_positions_of_extrema_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((1,), (17,), (3, 5), (2, 3, 4)):
        x = rng.integers(0, 3, shape).astype(dtype)
        for name in ("argmax", "argmin"):
            for axis in (None, -1, 0):
                for keepdims in (False, True):

                    def f(x: Any, name: str = name, axis: Any = axis, keepdims: bool = keepdims) -> Any:
                        return getattr(iv, name)(x, axis=axis, keepdims=keepdims)

                    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
                    np.testing.assert_array_equal(np.asarray(iv.jit(f)(iv.asarray(x))), expected)
    if dtype[0] == "f":
        x = np.array([1, np.nan, 3, np.nan, -1], dtype)
        assert int(iv.jit(iv.argmax)(iv.asarray(x))) == int(iv.jit(iv.argmin)(iv.asarray(x))) == 1


def test_products_with_the_own_transpose() -> None:
    for n, k in ((95, 3), (96, 10), (131, 300), (300, 7)):
        x = drawn((n, k))
        for f, arg in (
            (lambda x: x @ x.mT, x),
            (lambda x: x.mT @ x, x.T.copy()),
            (lambda x: x @ x.mT + 1, x),
        ):
            found, expected = np.asarray(iv.jit(f)(iv.asarray(arg))), f(iv.asarray(arg))
            np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-11, atol=1e-11)
            np.testing.assert_array_equal(found, found.T)


def test_long_transforms_are_library_steps_outside_of_loops_alone() -> None:
    x = drawn((2**15,), "complex128")
    graph = simplified(iv.jit(iv.fft.fft).graph(iv.asarray(x)))
    assert [type(s) for s in executable(graph).steps] == [Library]

    def looped(x: Any) -> Any:
        return iv.scan(lambda c, _: (iv.fft.fft(c), None), x, None, length=2)[0]

    programs_of(looped, x)
    expected = scipy.fft.fft(scipy.fft.fft(x))
    np.testing.assert_allclose(np.asarray(iv.jit(looped)(iv.asarray(x))), expected, rtol=1e-9, atol=1e-8)


def test_searches_in_lanes() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 17, 1000):
        x = np.sort(rng.integers(0, 50, n).astype(float))
        x[-1] = np.nan
        for shape in ((0,), (1,), (7,), (3, 9), (1000,)):
            v = rng.integers(-1, 52, shape).astype(float)
            for side in ("left", "right"):
                found = iv.jit(lambda x, v, s=side: iv.searchsorted(x, v, side=s))(
                    iv.asarray(x), iv.asarray(v)
                )
                np.testing.assert_array_equal(np.asarray(found), np.searchsorted(x, v, side=side))
