"""bench: what a few calls take on this machine, beside NumPy where it has the function.

The comparison with PyTorch and JAX is `make bench` in the repository.
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from iverson import te

Call = Callable[[], Any]
ROUNDS = 7


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--seconds", type=float, default=0.1, help="for each measurement (default 0.1)")


def run(options: argparse.Namespace) -> int:
    """Measure and print; the exit status."""
    print(f"{'':<48}{'iverson':>12}{'numpy':>12}")
    for name, ours, numpys in workloads():
        cells = [text(seconds(call, options.seconds)) if call else "-" for call in (ours, numpys)]
        print(f"{name:<48}{cells[0]:>12}{cells[1]:>12}", flush=True)
    return 0


def workloads() -> list[tuple[str, Call, Call | None]]:
    """By name, the call of ours and NumPy's; what is compiled has been called once."""
    rng = np.random.default_rng(0)
    a, small = rng.standard_normal((512, 512)), rng.standard_normal(8)
    x, s = iv.asarray(a), iv.asarray(small)
    variable = iv.asarray(a, requires_grad=True)

    def chain(x: iv.Tensor) -> iv.Tensor:
        return (iv.tanh(x) * iv.exp(-x * x) + x).sum()

    @te.op
    def correlate(x: te.Tensor, w: te.Tensor) -> Any:
        k = te.reduce_axis((0, w.shape[0]))
        return te.compute((x.shape[0] - w.shape[0] + 1,), lambda i: te.sum(w[k] * x[i + k], axis=k))

    def numpys_chain() -> Any:
        return (np.tanh(a) * np.exp(-a * a) + a).sum()

    compiled, gradient = iv.jit(chain), iv.jit(iv.grad(chain))
    long, weights = iv.asarray(a.reshape(-1)), iv.asarray(rng.standard_normal(9))
    calls: list[tuple[str, Call, Call | None]] = [
        ("x + x, 8 entries", lambda: s + s, lambda: small + small),
        ("x @ x, 512 x 512", lambda: x @ x, lambda: a @ a),
        ("x @ x and its gradient", lambda: iv.autograd.grad((variable @ variable).sum(), variable), None),
        ("tanh(x) exp(-x x) + x, summed", lambda: chain(x), numpys_chain),
        ("... compiled", lambda: compiled(x), None),
        ("... its gradient, compiled", lambda: gradient(x), None),
        ("correlation with 9 weights in index notation", lambda: correlate(long, weights),
         lambda: np.correlate(a.reshape(-1), weights.numpy(), "valid")),
    ]  # fmt: skip
    for _, ours, _ in calls:
        ours()
    return calls


def seconds(call: Call, budget: float) -> float:
    """The median time of a call."""
    timer = timeit.Timer(call)
    once = max(timer.timeit(1), 1e-7)
    number = max(1, int(budget / ROUNDS / once))
    return statistics.median(timer.repeat(ROUNDS, number)) / number


def text(duration: float) -> str:
    """A duration with its unit.

    >>> text(0.00125)
    '1.25 ms'
    """
    unit, scale = ("s", 1.0) if duration >= 1 else ("ms", 1e3) if duration >= 1e-3 else ("us", 1e6)
    return f"{duration * scale:.3g} {unit}"
