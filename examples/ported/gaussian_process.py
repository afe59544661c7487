"""JAX's example of a Gaussian process whose parameters are fitted (examples/gaussian_process_regression.py).

| JAX | here |
| --- | --- |
| `jax.numpy as jnp` | `iverson as iv` |
| `jax.grad`, `jax.jit`, `jax.vmap` | `iv.grad`, `iv.jit`, `iv.vmap` |
| `jax.scipy.linalg.cholesky(x, lower=True)` | `iv.linalg.cholesky(x)` |
| `jax.scipy.linalg.solve_triangular` | `iv.linalg.solve_triangular`, with the same arguments |
| `jnp.logaddexp`, `jnp.eye`, `jnp.diag` | the same names in `iv` |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from iverson import grad, jit, vmap

Params = dict[str, Any]


def softplus(x: Any) -> Any:
    """Logarithm of 1 + exp(x)."""
    return iv.logaddexp(x, 0.0)


def exp_quadratic(x1: Any, x2: Any) -> Any:
    """The squared exponential kernel."""
    return iv.exp(-iv.sum((x1 - x2) ** 2))


def cov_map(cov_func: Callable[[Any, Any], Any], xs: Any, xs2: Any = None) -> Any:
    """Covariances of all pairs of points."""
    if xs2 is None:
        return vmap(lambda x: vmap(lambda y: cov_func(x, y))(xs))(xs)
    return vmap(lambda x: vmap(lambda y: cov_func(x, y))(xs))(xs2).T


def gp(params: Params, x: Any, y: Any, xtest: Any = None, compute_marginal_likelihood: bool = False) -> Any:
    """Logarithm of the marginal likelihood, or mean and variance at the points ``xtest``."""
    noise = softplus(params["noise"])
    amp = softplus(params["amplitude"])
    ls = softplus(params["lengthscale"])
    ymean = iv.mean(y)
    y = y - ymean
    x = x / ls

    def kernel(x1: Any, x2: Any = None) -> Any:
        return amp * cov_map(exp_quadratic, x1, x2)

    train_cov = kernel(x) + iv.eye(x.shape[0]) * (noise + 1e-6)
    chol = iv.linalg.cholesky(train_cov)
    kinvy = iv.linalg.solve_triangular(
        iv.matrix_transpose(chol), iv.linalg.solve_triangular(chol, y[:, None], lower=True), lower=False
    )

    if compute_marginal_likelihood:
        log2pi = iv.log(iv.asarray(2.0 * 3.1415))
        ml = iv.sum(
            -0.5 * iv.matmul(iv.matrix_transpose(y[:, None]), kinvy)
            - iv.sum(iv.log(iv.diag(chol)))
            - (x.shape[0] / 2.0) * log2pi
        )
        ml -= iv.sum(
            -0.5 * iv.log(iv.asarray(2 * 3.1415)) - iv.log(amp) - iv.log(amp) ** 2
        )  # lognormal prior
        return -ml

    xtest = xtest / ls
    cross_cov = kernel(x, xtest)
    mu = iv.matmul(iv.matrix_transpose(cross_cov), kinvy) + ymean
    v = iv.linalg.solve_triangular(chol, cross_cov, lower=True)
    var = amp - iv.sum(v * v, axis=0)
    return mu, var


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, noisy values of a function at them, and points to test."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, (15, 1))
    y = np.sin(x[:, 0] * 1.4) + 0.1 * rng.standard_normal(15)
    return x, y, np.linspace(-4, 4, 50)[:, None]


def run(steps: int = 500, lr: float = 0.01) -> tuple[Params, list[float], Any, Any]:
    """Parameters, the course of the loss, and mean and variance at the points to test."""
    x, y, xtest = data()
    params: Params = {k: iv.asarray(0.0) for k in ("amplitude", "noise", "lengthscale")}
    momentums: Params = {k: p * 0.0 for k, p in params.items()}
    scales: Params = {k: p * 0.0 + 1.0 for k, p in params.items()}

    def loss(params: Params) -> Any:
        return gp(params, x, y, compute_marginal_likelihood=True)

    @jit
    def train_step(params: Params, momentums: Params, scales: Params) -> tuple[Params, Params, Params]:
        grads = grad(loss)(params)
        for k in params:
            momentums[k] = 0.9 * momentums[k] + 0.1 * grads[k]
            scales[k] = 0.9 * scales[k] + 0.1 * grads[k] ** 2
            params[k] = params[k] - lr * momentums[k] / iv.sqrt(scales[k] + 1e-5)
        return params, momentums, scales

    history = []
    for _ in range(steps):
        history.append(loss(params).item())
        params, momentums, scales = train_step(params, momentums, scales)
    mu, var = gp(params, x, y, xtest)
    return params, history, mu, var


if __name__ == "__main__":
    params, history, _, _ = run()
    print({k: round(float(softplus(p)), 3) for k, p in params.items()}, history[0], history[-1])
