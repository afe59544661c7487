"""Determinism check: two equal calls give equal values, gradients and tangents, by default bit for bit."""

from __future__ import annotations

import numpy as np

from iverson.layouts import to_strided
from iverson.testing.analytic import Record
from iverson.testing.directions import Vector, random_direction
from iverson.testing.failure_report import Finding, GradcheckError
from iverson.testing.settings import Settings


def check_determinism(first: Record, settings: Settings, rng: np.random.Generator) -> None:
    """Raise GradcheckError if a second call, or a second pass over the same graph, gives another result."""
    second = Record(first.problem, settings.check_constant_outputs, first.sparse_seeds)
    if len(first.all_outputs) != len(second.all_outputs) or first.spec != second.spec:
        raise _differing(first, "outputs", "another structure of outputs in a second call")
    for a, b in zip(first.all_outputs, second.all_outputs, strict=True):
        x, y = to_strided(a.value), to_strided(b.value)
        if x.shape != y.shape or x.dtype != y.dtype or not _same(x, y, settings.nondet_tol):
            raise _differing(first, a.name, f"{_worst(x, y)} in a second call with the same inputs")
    w = random_direction(rng, first.size)
    v = random_direction(rng, sum(s.size for s in first.input_spaces))
    first.reverse(w)  # looks at casts: such a pass may take other ways, to other bits
    pulled = [record.reverse(w, casts=False) for record in (first, first, second)]
    for k, variable in enumerate(first.variables):
        for gradients in pulled[1:]:
            if not _same(pulled[0][k], gradients[k], settings.nondet_tol):
                difference = _worst(pulled[0][k], gradients[k])
                raise _differing(first, variable.name, f"a gradient that is {difference} when run again")
    if settings.check_forward:
        pushed = [record.forward(v) for record in (first, first, second)]
        for tangent in pushed[1:]:
            if not _same(pushed[0], tangent, settings.nondet_tol):
                difference = _worst(pushed[0], tangent)
                raise _differing(first, "outputs", f"a tangent that is {difference} when run again")


def _same(a: Vector, b: Vector, tolerance: float) -> bool:
    if a.tobytes() == b.tobytes():
        return True
    return tolerance > 0 and bool(np.allclose(a, b, rtol=0.0, atol=tolerance, equal_nan=True))


def _worst(a: Vector, b: Vector) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"of shape {b.shape} and dtype {b.dtype}, not {a.shape} and {a.dtype},"
    if a.dtype == bool:
        return "not the same"
    with np.errstate(all="ignore"):
        difference = np.nan_to_num(np.abs(a - b), nan=np.inf)
    return f"up to {difference.max():.3g} off"


def _differing(record: Record, name: str, outcome: str) -> GradcheckError:
    finding = Finding(
        "determinism",
        name,
        explanation="fix the seed inside fn, or allow the difference with nondet_tol",
    )
    return GradcheckError.of(
        record.problem.operation, finding, got=outcome, expected="the same bits every time"
    )
