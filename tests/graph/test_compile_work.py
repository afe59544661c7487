"""What compiling takes grows as the program does: Python calls, and the lines of LLVM's longest function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.codegen.execution import object_code
from iverson.codegen.launches import program_emission
from tests.conformance.product import EXHAUSTIVE
from tests.tools.entered import entered_by

RNG = np.random.default_rng(0)
W = iv.asarray(0.1 * RNG.normal(size=(40, 40)))


def layers(n: int) -> tuple[Callable[..., Any], Any]:
    def f(x: Any, w: Any) -> Any:
        for _ in range(n):
            x = iv.tanh(x @ w)
        return x

    return f, [iv.asarray(RNG.normal(size=(4, 40))), W]


def steps(n: int) -> tuple[Callable[..., Any], Any]:
    def f(x: Any, w: Any) -> Any:
        h = x[0]
        for t in range(n):
            h = iv.maximum(h @ w + x[t], 0 * h)
        return h

    return f, [iv.asarray(RNG.normal(size=(n, 4, 40))), W]


def training(n: int) -> tuple[Callable[..., Any], Any]:
    """A step of an optimizer, whose parameters and state are written over where they are."""
    parameters = [iv.asarray(0.1 * RNG.normal(size=(8, 8)), requires_grad=True) for _ in range(n)]
    optimizer = iv.optim.Adam(parameters)

    def f(x: Any) -> Any:
        for w in parameters:
            x = iv.tanh(x @ w)
        loss = (x * x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return f, [iv.asarray(RNG.normal(size=(4, 8)))]


def compiled_work(
    f: Callable[..., Any], args: Any, patch: pytest.MonkeyPatch, *, gradient: bool
) -> tuple[int, int]:
    """The functions of Python entered by the first call, and the lines of the longest function of LLVM."""
    longest = 0
    to_object = object_code.to_object

    def measured(text: str, machine: Any) -> bytes:
        nonlocal longest
        longest = max(longest, *(body.count("\n") for body in text.split("\ndefine ")))
        return to_object(text, machine)

    def loss(*a: Any) -> Any:
        return f(*a).sum()

    patch.setattr(object_code, "to_object", measured)
    compiled = iv.jit(iv.grad(loss) if gradient else f)
    return entered_by(lambda: compiled(*args)), longest


@pytest.mark.parametrize(
    ("family", "gradient"), [(layers, False), (layers, True), (steps, False), (training, False)]
)
def test_compiling_is_linear(
    family: Any, gradient: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("IVERSON_CACHE", str(tmp_path))
    sizes = (8, 40, 80, 160) if EXHAUSTIVE else (4, 20, 40, 80)
    _, few, more, many = (compiled_work(*family(n), monkeypatch, gradient=gradient) for n in sizes)
    assert many[0] - more[0] <= 1.25 * 2 * (more[0] - few[0])
    arrays = (
        3 * sizes[-1] if family is training else 0
    )  # parameters, and two moments of each: lines that read them
    assert many[1] <= 20 * program_emission.PART + 9 * arrays
