"""Solves, decompositions and Fourier transforms, in loops over time and of batches.

- heat_implicit: 100 implicit Euler steps of the heat equation on n points, each a solve with the same matrix.
- kalman_smoother: the filter and the smoother of Rauch, Tung and Striebel, 200 steps of n states.
- split_step: 100 steps of the nonlinear Schroedinger equation on n points by the split-step Fourier method.
- fourier_layer: a layer of a Fourier neural operator on n points, with its gradients in the weights.
- batched_cholesky: Cholesky factors of 200 matrices of n x n, and the gradient of their sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Workload
from benchmarks.workloads.batches import every_way, transforms_of

STEPS, TIMES, OBSERVED, MATRICES = 100, 200, 2, 200
CHANNELS, MODES, FUNCTIONS = 16, 12, 8


def scan_of(xp: Any) -> Any:
    """The loop with a carry beside an array library; PyTorch's is one in Python."""
    if xp.__name__ == "iverson":
        return xp.scan
    if xp.__name__ == "jax.numpy":
        return __import__("jax").lax.scan

    def scan(f: Any, carry: Any, xs: Any, length: int | None = None, reverse: bool = False) -> Any:
        count = length if xs is None else len(xs[0] if isinstance(xs, tuple) else xs)
        results = []
        for k in reversed(range(count)) if reverse else range(count):
            x = None if xs is None else tuple(a[k] for a in xs) if isinstance(xs, tuple) else xs[k]
            carry, y = f(carry, x)
            results.append(y)
        if results[0] is None:
            return carry, None
        results = results[::-1] if reverse else results
        return carry, tuple(map(xp.stack, zip(*results, strict=True)))

    return scan


def make_heat(n: int, rng: np.random.Generator) -> Inputs:
    return {
        "A": np.eye(n) * 2.0 - 0.5 * np.eye(n, k=1) - 0.5 * np.eye(n, k=-1),
        "u": rng.standard_normal(n),
    }


def heat(xp: Any, p: Any) -> Any:
    def run(a: Any, u: Any) -> Any:
        return scan_of(xp)(lambda u, _: (xp.linalg.solve(a, u), None), u, None, length=STEPS)[0]

    return run, (p["A"], p["u"])


def make_kalman(n: int, rng: np.random.Generator) -> Inputs:
    return {
        "F": np.eye(n) + rng.standard_normal((n, n)) * 0.1 / n,
        "Q": np.eye(n) * 0.1,
        "H": rng.standard_normal((OBSERVED, n)),
        "R": np.eye(OBSERVED) * 0.5,
        "y": rng.standard_normal((TIMES, OBSERVED)),
    }


def kalman(xp: Any, p: Any) -> Any:
    def run(f: Any, q: Any, h: Any, r: Any, y: Any) -> Any:
        def forward(carry: Any, observed: Any) -> Any:
            mean, covariance = carry
            predicted, spread = f @ mean, f @ covariance @ f.T + q
            gain = xp.linalg.solve(h @ spread @ h.T + r, h @ spread).T
            mean = predicted + gain @ (observed - h @ predicted)
            covariance = spread - gain @ h @ spread
            return (mean, covariance), (mean, covariance, predicted, spread)

        def backward(carry: Any, step: Any) -> Any:
            (after, after_spread), (mean, covariance, predicted, spread) = carry, step
            gain = xp.linalg.solve(spread, f @ covariance).T
            mean = mean + gain @ (after - predicted)
            covariance = covariance + gain @ (after_spread - spread) @ gain.T
            return (mean, covariance), (mean, covariance)

        scan = scan_of(xp)
        start = 0 * f[0], f @ f.T + q
        last, (means, covariances, predictions, spreads) = scan(forward, start, y)
        steps = (means[:-1], covariances[:-1], predictions[1:], spreads[1:])
        return scan(backward, last, steps, reverse=True)[1]

    return run, tuple(p[name] for name in "FQHRy")


def make_wave(n: int, rng: np.random.Generator) -> Inputs:
    k = np.fft.fftfreq(n, 20 / n) * 2 * np.pi
    x = np.linspace(-10, 10, n, endpoint=False)
    return {"psi": np.exp(-(x**2)) * np.exp(1j * x), "phase": np.exp(-0.5j * k**2 * 1e-3), "V": 0.5 * x**2}


def split_step(xp: Any, p: Any) -> Any:
    def run(psi: Any, phase: Any, v: Any) -> Any:
        def step(psi: Any, _: Any) -> Any:
            density = (psi * psi.conj()).real if xp.__name__ == "torch" else xp.real(psi * xp.conj(psi))
            psi = psi * xp.exp(-1e-3j * (v + density))
            return xp.fft.ifft(phase * xp.fft.fft(psi)), None

        return scan_of(xp)(step, psi, None, length=STEPS)[0]

    return run, (p["psi"], p["phase"], p["V"])


def make_layer(n: int, rng: np.random.Generator) -> Inputs:
    def drawn(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / CHANNELS).astype(np.float32)

    spectral = (CHANNELS, CHANNELS, MODES)
    return {"x": drawn(FUNCTIONS, CHANNELS, n), "re": drawn(*spectral), "im": drawn(*spectral),
            "w": drawn(CHANNELS, CHANNELS)}  # fmt: skip


def fourier_layer(xp: Any, p: Any) -> Any:
    def loss(re: Any, im: Any, w: Any, x: Any) -> Any:
        modes = xp.fft.rfft(x)[:, :, :MODES]
        mixed = xp.einsum("bim,iom->bom", modes, re + 1j * im)
        local = xp.einsum("bin,io->bon", x, w)
        return xp.tanh(xp.fft.irfft(mixed, n=x.shape[-1]) + local).sum()

    return transforms_of(xp).grad(loss, (0, 1, 2)), tuple(p[name] for name in ("re", "im", "w", "x"))


def make_spd(n: int, rng: np.random.Generator) -> Inputs:
    x = rng.standard_normal((MATRICES, n, n))
    return {"A": x @ x.swapaxes(-1, -2) + n * np.eye(n)}


def cholesky(xp: Any, p: Any) -> Any:
    return xp.linalg.cholesky, (p["A"],)


def cholesky_gradients(xp: Any, p: Any) -> Any:
    return transforms_of(xp).grad(lambda a: xp.linalg.cholesky(a).sum()), (p["A"],)


def _workload(
    name: str, function: Any, make: Any, sizes: tuple[int, int, int], size_is: str, most: float
) -> Workload:
    return Workload(
        name=name,
        sizes=sizes,
        size_is=size_is,
        draw=lambda rng: rng.integers(sizes[0], sizes[-1] + 1),
        make=make,
        run=every_way(function),
        target={"jax jit": most},
    )


WORKLOADS = (
    _workload("heat_implicit", heat, make_heat, (16, 64, 128), "points", 1.2),
    _workload("kalman_smoother", kalman, make_kalman, (4, 8, 16), "states", 1.2),
    _workload("split_step", split_step, make_wave, (256, 1024, 4096), "points", 1.2),
    _workload("fourier_layer", fourier_layer, make_layer, (64, 256, 1024), "points", 1.2),
    _workload("batched_cholesky", cholesky, make_spd, (4, 16, 32), "extent", 0.8),
    _workload("batched_cholesky_gradients", cholesky_gradients, make_spd, (4, 16, 32), "extent", 0.8),
)
