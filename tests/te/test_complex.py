"""Complex numbers are compiled: functions, reductions, recurrences, scatters, ragged sums and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.core.scalars import SCALARS
from iverson.errors import IversonError
from iverson.te.ir.interpret import run
from iverson.te.lowering.lowered_program import Interpreted
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import by_turns, paired

K = te.reduce_axis(4, "k")


def ragged(p: Any, x: Any) -> Any:
    def row(i: Any) -> Any:
        e = te.reduce_axis((p[i], p[i + 1]))
        return te.sum(te.exp(x[e, 0]) * x[e, 1], e)

    return te.compute((3,), row)


def recurrence(x: Any, v: Any) -> Any:
    step = lambda t, i, s: te.sum(s[t - 1, K] * v[K], K) * x[t, i]
    return te.scan(
        x.shape, lambda s: te.compute(x.shape, lambda t, i: step(t, i, s)), dtype=x.dtype, init=1.0
    )


DEFINITIONS: dict[str, tuple[Any, str]] = {
    "sum": (lambda x, v: te.compute((5,), lambda i: te.sum(x[i, K] * te.conj(v[K]), K)), "xv"),
    "prod": (lambda x: te.compute((5,), lambda i: te.prod(x[i, K], K)), "x"),
    "real parts": (
        lambda x: te.compute((5, 4), lambda i, j: te.real(x[i, j]) * te.abs(x[i, j]) + te.imag(x[i, j])),
        "x",
    ),
    "powers": (lambda x: te.compute((5, 4), lambda i, j: x[i, j] ** 3 + x[i, j] ** x[i, j]), "x"),
    "scatter": (lambda p, x: te.scatter((7,), (4, 4), lambda i, j: (p[i], te.sin(x[i, j]))), "px"),
    "gather": (lambda p, x: te.compute((4, 4), lambda i, j: x[te.clamp(p[i], 0, 4), j] * 2j), "px"),
    "scan": (recurrence, "xv"),
    "ragged": (ragged, "px"),
}


def arrays(dtype: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    normal = lambda *s: (rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype)
    return {"p": np.array([0, 2, 2, 5]), "x": normal(5, 4), "v": normal(4)}


def agree(outputs: Any, given: dict[str, Any], dtype: str) -> None:
    """Compiled, none of it interpreted, as interpreted."""
    program = te.program_of(outputs)
    code = lower(te.eliminate(program))
    assert not any(isinstance(s, Interpreted) for s in code.steps)
    feed = [given[t.name] for t in program.inputs]
    tolerance = 2e-4 if dtype == "complex64" else 1e-11
    for a, b in zip(code(*feed), run(program, feed), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "dtype"), paired(DEFINITIONS, ["complex64", "complex128"]))
def test_definitions_and_derivatives(name: str, dtype: str) -> None:
    define, names = DEFINITIONS[name]
    given = arrays(dtype)
    inputs = [te.placeholder(given[n].shape, given[n].dtype.name, n) for n in names]
    y = define(*inputs)
    moved = [t for t in inputs if t.dtype.kind == "c"]
    head = te.placeholder(y.shape, y.dtype, "head")
    given |= {"head": np.cos(np.arange(np.prod(y.shape))).reshape(y.shape).astype(y.dtype)}
    given |= {f"{t.name}.t": given[t.name][::-1].copy() for t in moved}
    tangents = {t: te.placeholder(t.shape, t.dtype, f"{t.name}.t") for t in moved}
    agree([y], given, dtype)
    agree(list(te.differentiate([y], moved, [head])), given, dtype)
    agree([te.jvp(y, tangents)], given, dtype)


def functions() -> list[str]:
    """Those of the table that take complex numbers."""
    x = te.placeholder((3,), "complex128", "x")
    found = []
    for name, s in SCALARS.items():
        try:
            te.compute((3,), lambda i, name=name, s=s: getattr(te.F, name)(*[x[i]] * len(s.arguments)))
        except IversonError:
            continue
        found.append(name)
    return found


@pytest.mark.parametrize("name", by_turns(functions(), 3))
def test_functions(name: str) -> None:
    x = te.placeholder((5, 4), "complex128", "x")
    count = len(SCALARS[name].arguments)
    operands = lambda i, j: [x[i, j], *[x[4 - i, j]] * (count - 1)]
    agree(
        [te.compute((5, 4), lambda i, j: getattr(te.F, name)(*operands(i, j)))],
        arrays("complex128"),
        "complex128",
    )
