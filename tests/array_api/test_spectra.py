"""Second derivatives of functions of eigenvalues and singular values, where these repeat, against mpmath.

The oracle is the second difference of the composed function in 60 digits. Where the function is linear in the
values that repeat, it is given. Of others it is nan: it does not exist, or what the rule reads does not tell.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest

import iverson as iv
from iverson import linalg
from iverson.autograd import grad
from tests.conformance.product import EXHAUSTIVE, paired

RNG = np.random.default_rng(3)


def normal(shape: Any, dtype: Any = float, rng: Any = RNG) -> Any:
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x


def orthonormal(m: int, n: int, dtype: Any) -> Any:
    return np.linalg.qr(normal((m, n), dtype))[0]


def hermitian(values: Any, dtype: Any = float) -> Any:
    q = orthonormal(len(values), len(values), dtype)
    x = (q * values) @ q.conj().T
    return (x + x.conj().T) / 2


def rectangular(values: Any, m: int, n: int, dtype: Any = float) -> Any:
    k = len(values)
    return (orthonormal(m, k, dtype) * values) @ orthonormal(n, k, dtype).conj().T


def of_eigenvalues(function: Any) -> tuple[Any, Any]:
    """A function of eigenvalues for Iverson, and for mpmath."""
    return (
        lambda x: function(linalg.eigvalsh(x)),
        lambda x: function(list(mp.eighe((x + x.H) / 2, eigvals_only=True))),
    )


def of_singular_values(function: Any) -> tuple[Any, Any]:
    return lambda x: function(linalg.svdvals(x)), lambda x: function(list(mp.svd_c(x, compute_uv=False)))


def total(w: Any) -> Any:
    return sum(w[k] for k in range(len(w)))


TRACE, LARGEST = of_eigenvalues(total), of_eigenvalues(lambda w: w[len(w) - 1])
TWO_LARGEST = of_eigenvalues(lambda w: w[len(w) - 2] + 2 * w[len(w) - 1])
NUCLEAR, SPECTRAL = of_singular_values(total), of_singular_values(lambda s: s[0])
KY_FAN = of_singular_values(lambda s: s[0] + s[1])
#: What is linear in the values that repeat, up to rounding.
LINEAR = {
    "trace": (*TRACE, hermitian([2.0, 2.0, 2.0])),
    "trace of unit": (*TRACE, np.eye(3)),
    "largest": (*LARGEST, hermitian([1.0, 1.0, 1.0, 3.0])),
    "largest of a diagonal": (*LARGEST, np.diag([1.0, 4.0, 1.0])),
    "largest, complex": (*LARGEST, hermitian([1.0, 1.0, 3.0], complex)),
    "two largest": (*TWO_LARGEST, hermitian([-1.0, -1.0, 2.0, 3.0])),
    "nuclear": (*NUCLEAR, rectangular([2.0, 2.0, 2.0], 3, 3)),
    "nuclear of unit": (*NUCLEAR, np.eye(3)),
    "nuclear, tall": (*NUCLEAR, rectangular([1.0, 1.0, 3.0], 4, 3)),
    "nuclear, wide": (*NUCLEAR, rectangular([1.0, 1.0], 2, 4)),
    "nuclear, complex": (*NUCLEAR, rectangular([2.0, 2.0, 1.0], 4, 3, complex)),
    "spectral": (*SPECTRAL, rectangular([3.0, 1.0, 1.0], 3, 3)),
    "spectral of rank one": (*SPECTRAL, rectangular([2.0], 4, 3)),
    "Ky Fan": (*KY_FAN, rectangular([3.0, 3.0, 1.0, 1.0], 4, 5)),
}
#: What is not: its second derivatives are nan, also where they exist, as of the first three.
OTHER = {
    "sum of squares": (of_eigenvalues(lambda w: (w * w).sum())[0], hermitian([2.0, 2.0, 3.0])),
    "log of determinant": (of_eigenvalues(lambda w: iv.log(w).sum())[0], hermitian([2.0, 2.0, 3.0])),
    "Frobenius": (of_singular_values(lambda s: (s * s).sum())[0], rectangular([2.0, 2.0, 1.0], 4, 3)),
    "one of two": (of_eigenvalues(lambda w: w[0])[0], hermitian([2.0, 2.0, 3.0])),
    "weighted": (of_eigenvalues(lambda w: w[0] + 2 * w[1])[0], hermitian([2.0, 2.0, 3.0])),
    "nuclear of rank one": (NUCLEAR[0], rectangular([2.0], 4, 3)),
    "one of two singular values": (of_singular_values(lambda s: s[1])[0], rectangular([2.0, 2.0], 2, 3)),
}


def forward_over_reverse(f: Any, x: Any, t: Any) -> Any:
    return iv.jvp(iv.grad(f), (x,), (t,))[1]


def reverse_over_reverse(f: Any, x: Any, t: Any) -> Any:
    x = x.detach().requires_grad_()
    return grad(iv.real(grad(f(x), x, create_graph=True) * iv.conj(t)).sum(), x)


MODES = {
    "forward over reverse": forward_over_reverse,
    "reverse over reverse": reverse_over_reverse,
    "jit of both": lambda f, x, t: iv.jit(lambda x, t: forward_over_reverse(f, x, t))(x, t),
    "jit of the gradient": lambda f, x, t: iv.jvp(iv.jit(iv.grad(f)), (x,), (t,))[1],
    "jit of the function": lambda f, x, t: reverse_over_reverse(iv.jit(f), x, t),
    "vmap": lambda f, x, t: iv.vmap(lambda x, t: forward_over_reverse(f, x, t))(x[None], t[None])[0],
    "checkpoint": lambda f, x, t: forward_over_reverse(iv.checkpoint(f), x, t),
    "scan": lambda f, x, t: forward_over_reverse(
        lambda x: iv.scan(lambda c, x: (c, f(x)), 0.0, x[None])[1][0], x, t
    ),
    "hessian": lambda f, x, t: iv.tensordot(iv.hessian(f)(x), t, axes=2),
    "jit of the hessian": lambda f, x, t: iv.tensordot(iv.jit(iv.hessian(f))(x), t, axes=2),
}


def second_difference(f: Any, x: Any, t: Any) -> float:
    """The second derivative of f along t."""
    with mp.workdps(60):
        h = mp.mpf("1e-20") * float(np.abs(x).max())
        at = lambda k: f(mp.matrix(x.tolist()) + k * h * mp.matrix(t.tolist()))
        return float(mp.re(at(1) - 2 * at(0) + at(-1)) / h**2)


@pytest.mark.parametrize(("name", "mode"), paired(LINEAR, MODES, 2))
def test_what_is_linear_in_values_that_repeat(name: str, mode: str) -> None:
    f, exact, x = LINEAR[name]
    if x.dtype.kind == "c" and "hessian" in mode:  # of complex numbers there is none
        return
    for seed in (0, 1) if EXHAUSTIVE else (0,):
        t = normal(x.shape, x.dtype.type, np.random.default_rng(seed))
        found = MODES[mode](f, iv.asarray(x), iv.asarray(t)).to_dense().numpy()
        expected = second_difference(exact, x, t)
        np.testing.assert_allclose((np.conj(t) * found).real.sum(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "mode"), paired(OTHER, MODES, 2))
def test_of_other_functions_there_is_no_number(name: str, mode: str) -> None:
    f, x = OTHER[name]
    t = np.random.default_rng(0).standard_normal(x.shape)
    assert np.isnan(MODES[mode](f, iv.asarray(x), iv.asarray(t)).to_dense().numpy()).all()


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_clusters(scale: float) -> None:
    """Values that are equal but for rounding, and some that are close: of any scale."""
    for apart in (0.0, 1e-16, 1e-13, 1e-9):
        f, exact, _ = LINEAR["largest"]
        x = scale * hermitian([1.0, 1.0 + apart, 1.0 - apart, 3.0])
        t = np.random.default_rng(0).standard_normal(x.shape)
        found = forward_over_reverse(f, iv.asarray(x), iv.asarray(t)).numpy()
        np.testing.assert_allclose((t * found).sum(), second_difference(exact, x, t), rtol=1e-9)


def test_weights_are_constant_only_where_no_derivative_in_them_is_asked_for() -> None:
    """Equal weights of equal values: the Hessian in x exists, its derivative in the weights does not."""
    x, weights = hermitian([2.0, 2.0, 3.0]), iv.asarray([1.0, 1.0, 0.5])
    f = lambda x, p: (p * linalg.eigvalsh(x)).sum()
    curvature = lambda p, x: (iv.hessian(f)(x, p) * np.arange(81.0).reshape(3, 3, 3, 3)).sum()
    assert np.isfinite(curvature(weights, iv.asarray(x)).item())
    assert not np.isfinite(iv.grad(curvature)(weights, iv.asarray(x)).numpy()).all()
