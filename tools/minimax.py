"""Generates `iverson.codegen.emit.vecmath.coefficients`: run it, paste what it prints.

The method is Remez' exchange algorithm for a weighted minimax polynomial
(E. Remez 1934; the form here follows J.-M. Muller, "Elementary Functions", 3rd ed., section 3.5), in
50-digit mpmath arithmetic. `GOALS` names every polynomial in `coefficients.py`.

    python tools/minimax.py
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Goal:
    """Approximate ``f`` on ``interval`` by a polynomial of ``degree``, minimising max |weight * (p - f)|."""

    name: str
    f: Function
    interval: tuple[float, float]
    degree: int
    weight: Function


def remez(goal: Goal, rounds: int = 12) -> tuple[list[Any], Any]:
    """The coefficients (constant term first) and the largest weighted error."""
    mp: Any = importlib.import_module("mpmath")

    lo, hi = (mp.mpf(v) for v in goal.interval)
    count = goal.degree + 2
    at = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * k / (count - 1)) for k in range(count)]
    grid = [lo + (hi - lo) * (1 - mp.cos(mp.pi * k / 600)) / 2 for k in range(601)]
    target = [goal.f(x) for x in grid]
    weights = [goal.weight(x) for x in grid]
    coefficients: list[Any] = []
    error = mp.inf
    for _ in range(rounds):
        rows = [
            [x**j for j in range(goal.degree + 1)] + [(-1) ** k / goal.weight(x)] for k, x in enumerate(at)
        ]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([goal.f(x) for x in at]))
        coefficients = list(solved)[:-1]
        residual = [
            w * (mp.fdot(coefficients, (x**k for k in range(len(coefficients)))) - t)
            for x, t, w in zip(grid, target, weights, strict=True)
        ]
        error = max(abs(r) for r in residual)
        if error < abs(solved[count - 1]) * mp.mpf("1.01"):
            break
        at = _alternation(grid, residual, count)
    return coefficients, error


def _alternation(grid: list[Any], residual: list[Any], count: int) -> list[Any]:
    """The largest |residual| in each run of one sign, thinned to ``count`` points at the ends."""
    best: list[int] = []
    for k, r in enumerate(residual):
        if best and (r < 0) == (residual[best[-1]] < 0):
            if abs(r) > abs(residual[best[-1]]):
                best[-1] = k
        else:
            best.append(k)
    while len(best) > count:
        best.pop(0 if abs(residual[best[0]]) < abs(residual[best[-1]]) else -1)
    if len(best) < count:
        raise ArithmeticError("the residual does not alternate often enough")
    return [grid[k] for k in best]


def goals() -> list[Goal]:
    """Every polynomial in `coefficients.py`, by name, with its variable and interval."""
    mp: Any = importlib.import_module("mpmath")

    mp.mp.dps = 50
    half_ln2 = float(mp.log(2) / 2) * 1.0001
    quarter_pi = float(mp.pi / 4) * 1.0001
    s2 = float(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2) * 1.0001

    def series(f: Function, limit: Any) -> Function:
        return lambda x: limit if abs(x) < mp.mpf(10) ** -20 else f(x)

    def one(_x: Any) -> Any:
        return mp.mpf(1)

    # expm1(r) = r + r^2 P(r)
    exp_p = series(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf(1) / 2)
    # log((1+s)/(1-s)) = 2s + s z P(z), z = s^2
    log_p = series(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, mp.mpf(2) / 3)
    # ... = 2s + (2/3) s z + s z^2 P(z)
    log_q = series(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2 - 2 * z / 3) / z**2, mp.mpf(2) / 5)
    # sin(r) = r + r z P(z); cos(r) = 1 - z/2 + z^2 Q(z), z = r^2
    sin_p = series(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(-1) / 6)
    cos_q = series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mp.mpf(1) / 24)
    # erf(x) = c x + x z P(z) with c = 2/sqrt(pi); erfc(x) = exp(-P(x)) for x >= 1
    c = 2 / mp.sqrt(mp.pi)
    erf_p = series(lambda z: (mp.erf(mp.sqrt(z)) / mp.sqrt(z) - c) / z, -2 / (3 * mp.sqrt(mp.pi)))

    # tanh(x) = x + x z P(z), z = x^2
    tanh_p = series(lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(-1) / 3)

    def erfc_p(x: Any) -> Any:
        return -mp.log(mp.erfc(x))

    def erfc_w(x: Any) -> Any:
        return mp.erfc(x)

    def tail(k: int, last: float, degree: int, name: str) -> Goal:
        # exp(a^2) erfc(a) = (1 + P(t)) / (1 + 2a), t = (a - k) / (a + k), 0 <= a <= last
        def tail_p(t: Any) -> Any:
            a = k * (1 + t) / (1 - t)
            return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a) - 1

        return Goal(name, tail_p, (-1.0, (last - k) / (last + k)), degree, lambda t: 1 / (1 + tail_p(t)))

    return [
        Goal("EXP32", exp_p, (-half_ln2, half_ln2), 4, one),
        Goal("EXP64", exp_p, (-half_ln2, half_ln2), 10, one),
        Goal("LOG32", log_p, (0.0, s2), 3, one),
        Goal("LOG64", log_p, (0.0, s2), 7, one),
        Goal("LOGDD", log_q, (0.0, s2), 8, one),
        Goal("SIN32", sin_p, (0.0, quarter_pi**2), 2, one),
        Goal("COS32", cos_q, (0.0, quarter_pi**2), 2, one),
        Goal("SIN64", sin_p, (0.0, quarter_pi**2), 6, one),
        Goal("COS64", cos_q, (0.0, quarter_pi**2), 6, one),
        Goal("TANH32", tanh_p, (0.0, 0.36), 4, one),
        Goal("TANH64", tanh_p, (0.0, 0.36), 10, one),
        Goal("ERF32", erf_p, (0.0, 1.0), 5, one),
        Goal("ERFC32", erfc_p, (1.0, 4.0), 6, erfc_w),
        Goal("ERF64", erf_p, (0.0, 1.0), 11, one),
        Goal("ERFC64", erfc_p, (1.0, 6.0), 17, erfc_w),
        tail(2, 10.3, 9, "TAIL32"),
        tail(4, 27.4, 22, "TAIL64"),
    ]


def main() -> str:
    """The text of `coefficients.py` below its header."""
    mp: Any = importlib.import_module("mpmath")

    lines = []
    for goal in goals():
        coefficients, error = remez(goal)
        values = ",\n    ".join(repr(float(v)) for v in coefficients)
        lines.append(f"#: Largest weighted error {mp.nstr(error, 3)}.")
        lines.append(f"{goal.name} = (\n    {values},\n)")
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(main() + "\n")
