"""Difference quotients: the numerical derivatives that a rule is compared with.

A quotient is central, ``(f(x + h d) - f(x - h d)) / 2h``, with the two one-sided ones beside it. Where it
disagrees with a rule it is refined: a sweep of steps, Richardson extrapolation between neighbours, and the
estimate whose neighbours agree best (C. J. F. Ridders, "Accurate computation of F'(x) and F'(x) F''(x)",
Advances in Engineering Software 4, 1982; Numerical Recipes, section 5.7). The sweep also tells why there is
no agreement: see `diagnose`.

A step has to suit the scale on which the function varies, which is known from its values alone (P. E. Gill,
W. Murray, M. A. Saunders and M. H. Wright, "Computing forward-difference intervals for numerical
optimization", SIAM Journal on Scientific and Statistical Computing 4, 1983): log at 1e-8 varies on the scale
of x, cos there and sin at 1e6 on the scale 1. A sweep covers both, and what lies between.

Functions of single precision are evaluated in double precision if they follow the dtype of their inputs:
their own quotients would have four digits at best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iverson.testing.analytic import Record
from iverson.testing.directions import Vector, lowest, power_of_two, scale_of
from iverson.testing.failure_report import OFF_PATTERN, Finding, GradcheckError
from iverson.testing.perturbation import Variable

#: Per evaluation precision: the rounding unit, the default step, the ratio of a sweep's steps.
UNIT = {"double": 2.0**-52, "single": 2.0**-23}
_STEP = {"double": 2.0**-20, "single": 2.0**-8}
_RATIO = {"double": 8.0, "single": 2.0}
#: A sweep goes so many powers of the ratio above the larger, and below the smaller, of the steps that suit
#: the magnitude of x and the scale 1.
_ABOVE, _BELOW = 4, 2
#: Estimates whose neighbours differ by less, relatively, have settled.
_SETTLED = 1e-3


@dataclass(frozen=True)
class Quotients:
    """Difference quotients of all output coordinates along a direction, with one step.

    central, right, left : the central quotients and the one-sided ones.
    noise : bound of the error of ``central`` that comes from rounding of the function's values.
    largest : the largest magnitude among those values.
    """

    step: float
    central: Vector
    right: Vector
    left: Vector
    noise: Vector
    largest: Vector

    @property
    def gap(self) -> Vector:
        """Distance of the one-sided quotients: about ``step * f''`` for a smooth function."""
        return np.abs(self.right - self.left)


@dataclass(frozen=True)
class Sweep:
    """Quotients along one direction for many steps, from the largest to the smallest.

    ratio : the quotient of two steps that follow each other.
    at : the position of the step that the sweep was made around.
    rounding : the size of rounding errors of terms inside the function, which may exceed that of its values.
    """

    quotients: tuple[Quotients, ...]
    ratio: float
    at: int
    rounding: float

    @property
    def base(self) -> Quotients:
        """Quotients of the step that the sweep was made around."""
        return self.quotients[self.at]

    def best(self) -> tuple[Vector, Vector]:
        """Best estimate of the derivative, and its error, for each output coordinate.

        This is the estimate with the least relative error if one has settled: steps far too large for a
        singularity nearby give small values, and so small errors. Otherwise it is the one with the least
        error.
        """
        central = np.stack([q.central for q in self.quotients])
        noise = np.stack([q.noise for q in self.quotients])
        with np.errstate(all="ignore"):
            refined = central[1:] + np.diff(central, axis=0) / (self.ratio**2 - 1)
            apart = np.abs(np.diff(refined, axis=0))
            # Two neighbours may agree by chance, three do not.
            apart[:-1] = np.maximum(apart[:-1], apart[1:])
            error = apart + noise[2:]
            error = np.where(np.isfinite(error) & ~self._lost()[2:], error, np.inf)
            error = np.maximum(error, self._absorbed())
            relative = error / np.abs(refined[1:])
            settled = relative < _SETTLED
        rank = np.where(settled.any(axis=0), np.where(settled, relative, np.inf), error)
        at = np.argmin(rank, axis=0)
        columns = np.arange(central.shape[1])
        return refined[1:][at, columns], error[at, columns]

    def _lost(self) -> NDArray[np.bool_]:
        """Boolean for each step and output coordinate: True if the step is lost in rounding inside the
        function.

        Such a step does not change the output, and the first step that does changes it by a few last digits.
        """
        changes = self._moved()
        first = np.where(changes > 0, changes, np.inf).min(axis=0)
        return np.asarray((changes == 0) & (first < self.rounding))

    def _absorbed(self) -> Vector:
        """Largest derivative of each output coordinate that rounding inside the function may hide completely.

        It is 0 if any step changes the output.
        """
        unmoved = (self._moved() == 0).all(axis=0)
        return np.where(unmoved, self.rounding / self.quotients[0].step, 0.0)

    def _moved(self) -> NDArray[np.float64]:
        """Size of the change of each output coordinate by each step: the larger of those forward and
        backward, doubled.
        """
        return np.stack([q.step * (2 * np.abs(q.central) + q.gap) for q in self.quotients])

    def hidden(self) -> Vector:
        """Largest derivative of each output coordinate that rounding inside the function hides.

        It is 0 unless the step that the sweep was made around is lost in that rounding (see `_lost`).
        """
        return np.where(self._lost()[self.at], self.rounding / self.quotients[0].step, 0.0)

    def diagnose(self, i: int, analytic: float, tolerance: float) -> tuple[str, str]:
        """Diagnosis for output coordinate ``i``, which disagrees with ``analytic``, and a sentence that
        explains it.

        One-sided quotients that stay apart at every step are a kink, and if they grow as 1/step a jump.
        Central quotients that settle for no step are rounding. If they settle at another value, the rule is
        wrong.
        """
        base = self.base
        if not (np.isfinite(analytic) and np.isfinite(base.central[i])):
            return "nan or inf", (
                "the derivative is not finite; move the input, or declare it with allow_nonfinite=True"
            )
        kind = self.nonsmooth(i)
        if kind == "kink":
            return kind, (
                f"the one-sided difference quotients stay at {base.left[i]:.6g} and {base.right[i]:.6g} "
                "however small the step: the function has a kink here, the rule may be right; "
                "move the input away from it"
            )
        if kind == "jump":
            return kind, (
                "the difference quotients grow as the step shrinks: the function jumps here; "
                "move the input away from the jump"
            )
        value, error = (float(v[i]) for v in self.best())
        first, last = self.quotients[0], self.quotients[-1]
        if error > max(tolerance, float(self._absorbed()[i])) or self._flat(i, analytic):
            return "rounding", (
                f"the difference quotients do not settle ({first.central[i]:.6g} for step "
                f"{first.step:.1g}, {base.central[i]:.6g} for {base.step:.1g}, {last.central[i]:.6g} for "
                f"{last.step:.1g}): rounding hides the derivative (values as large as "
                f"{base.largest[i]:.3g}), the rule may be right; scale the function or pass a larger eps"
            )
        return "wrong rule", (
            f"steps from {first.step:.1g} to {last.step:.1g} settle at {value:.9g}, "
            f"give or take {error:.1g}: the rule is wrong"
        )

    def nonsmooth(self, i: int) -> str:
        """Name of a fault of output coordinate ``i``: "kink" or "jump"; "" if its one-sided quotients come
        together.
        """
        size = 1.0 + abs(self.base.central[i])
        near = list(self.quotients[self.at - 1 : self.at + _BELOW + 1])
        near += [q for q in self.quotients[self.at + _BELOW + 1 :] if 16 * q.noise[i] < 1e-4 * size]
        gaps = np.array([q.gap[i] for q in near])
        steps = np.array([q.step for q in near])
        noise = np.array([q.noise[i] for q in near])
        if not np.all(np.isfinite(gaps)) or np.any(gaps < np.maximum(1e-4 * size, 16 * noise)):
            return ""
        if gaps.max() < 1.5 * gaps.min():
            return "kink"
        jumps = gaps * steps
        return "jump" if jumps.max() < 1.1 * jumps.min() else ""

    def _flat(self, i: int, analytic: float) -> bool:
        """Return True if small steps do not change the output at all, while larger ones agree with
        ``analytic``.
        """
        small = all(q.central[i] == 0 == q.gap[i] for q in self.quotients[self.at :])
        return small and any(
            abs(q.central[i] - analytic) < 0.1 * abs(analytic) for q in self.quotients[: self.at]
        )


class Numerical:
    """Difference quotients of a recorded function.

    eps : the step for a coordinate of magnitude 1, or None for 2**-20 (2**-8 in single precision). A
        coordinate takes ``eps`` times its magnitude, but no less than the smaller of 1 and its tensor's
        root mean square.
    """

    def __init__(self, record: Record, eps: float | None) -> None:
        self.record = record
        self.problem = record.problem
        spaces = (*record.spaces, *record.input_spaces)
        self.wide = lowest(spaces) == "single" and self._follows_dtype()
        self.precision = "double" if self.wide else lowest(spaces)
        self.eps = _STEP[self.precision] if eps is None else eps
        self._steps: dict[tuple[int, int], float] = {}
        self._scales: dict[tuple[int, bool], Vector] = {}
        self.base = self._evaluate(None, None)
        self._check_base()

    def _follows_dtype(self) -> bool:
        """Return True if inputs in double precision give outputs in double precision, with nearly the same
        values.
        """
        try:
            outputs = self._outputs(None, None, wide=True)
        except GradcheckError:
            return False
        if any(o.space.dtype not in (np.float64, np.complex128) for o in outputs):
            return False
        return _close(self.record.values, self.record.vector(outputs), 1e-3)

    def _outputs(self, variable: Variable | None, point: Vector | None, wide: bool) -> list[Any]:
        """Checked outputs with ``variable`` moved to ``point``; GradcheckError if their structure or masks
        change.

        wide : True to pass variables of single precision in double precision.
        """
        record = self.record
        spec, every = self.problem.at(variable, point, wide)
        same_structure = spec == record.spec and len(every) == len(record.all_outputs)
        checked = {o.name for o in record.outputs}
        outputs = [o for o in every if o.name in checked]
        shapes = [o.space.shape for o in record.outputs]
        differing = [
            (before, after)
            for before, after in zip(record.outputs, outputs, strict=False)
            if before.space.declared() != after.space.declared()
        ]
        if not same_structure or not all(before.masked and after.masked for before, after in differing):
            raise GradcheckError.of(
                self.problem.operation,
                Finding("evaluation", explanation="give outputs of one structure and shape"),
                got=f"outputs of shapes {[o.space.shape for o in outputs]} at a perturbed input",
                expected=f"shapes {shapes}, as at the input itself",
            )
        if differing:
            raise GradcheckError.of(
                self.problem.operation,
                Finding(
                    "mask",
                    variable.name if variable else "",
                    differing[0][0].name,
                    contract=OFF_PATTERN,
                    explanation="give results whose mask follows from masks alone",
                ),
                got=f"a mask of {differing[0][0].name} that moves when the input is perturbed",
                expected="the mask that it has at the input itself",
            )
        return outputs

    def _evaluate(self, variable: Variable | None, point: Vector | None) -> Vector:
        return self.record.vector(self._outputs(variable, point, self.wide))

    def _check_base(self) -> None:
        """Raise GradcheckError if strided copies of the inputs do not give the recorded values."""
        if not _close(self.record.values, self.base, 1e-3 if self.wide else 1e-7):
            worst = int(np.argmax(np.abs(self.record.values - self.base)))
            output, index = self.record.locate_output(worst)
            raise GradcheckError.of(
                self.problem.operation,
                Finding(
                    "layout", output=output, output_index=index,
                    analytic=float(self.record.values[worst]), numerical=float(self.base[worst]),
                    explanation="a layout must not change a value",
                ),
                got=f"{self.record.values[worst]} for {output}[{index}] of the inputs as they are",
                expected=f"{self.base[worst]}, as for strided copies of them",
            )  # fmt: skip

    def scales(self, variable: int, relative: bool = False) -> Vector:
        """Scale of the step for each coordinate of a variable, as powers of two.

        relative : True to use the magnitude of the coordinate, however small (the typical one of the tensor
            if it is 0).
        """
        key = (variable, relative)
        if key not in self._scales:
            point = self.record.variables[variable].point
            typical = scale_of(point)
            magnitude = np.where(np.isfinite(point), np.abs(point), typical)
            floor = np.where(magnitude == 0, typical, magnitude) if relative else min(1.0, typical)
            self._scales[key] = np.asarray(power_of_two(np.maximum(magnitude, floor)))
        return self._scales[key]

    def classes(self, variable: int, mask: Vector) -> list[tuple[Vector, float]]:
        """Pairs of a mask and a step, which divide the coordinates in ``mask`` by the size of their steps.

        Steps are in proportion to the magnitudes only if the function is not finite for the usual steps.
        """
        result: list[tuple[Vector, float]] = []
        for relative in (False, True):
            scales = self.scales(variable, relative)
            result = []
            for members in by_magnitude(scales, np.flatnonzero(mask)):
                part = np.zeros_like(mask)
                part[members] = 1.0
                result.append((part, self.eps * power_of_two(float(np.median(scales[members])))))
            if all(np.isfinite(self.along(variable, *pair).central).all() for pair in result):
                break
        return result

    def unit(self, variable: int, coordinate: int) -> tuple[Vector, float]:
        """Direction of one coordinate, and the step that is used along it."""
        key = (variable, coordinate)
        if key not in self._steps:
            self.along_unit(variable, coordinate)
        return self.record.input_spaces[variable].unit(coordinate), self._steps[key]

    def along_unit(self, variable: int, coordinate: int) -> Quotients:
        """Quotients along one coordinate, with a step that suits its magnitude.

        If they are not finite, a step in proportion to the magnitude alone is tried, and used if it helps.
        """
        unit = self.record.input_spaces[variable].unit(coordinate)
        step = self.eps * float(self.scales(variable)[coordinate])
        quotients = self.along(variable, unit, step)
        if not np.isfinite(quotients.central).all():
            smaller = self.eps * float(self.scales(variable, relative=True)[coordinate])
            nearer = self.along(variable, unit, smaller)
            if np.isfinite(nearer.central).all():
                step, quotients = smaller, nearer
        self._steps[variable, coordinate] = step
        return quotients

    def along(self, variable: int, direction: Vector, step: float) -> Quotients:
        """The quotients along a direction of one variable."""
        v = self.record.variables[variable]
        ahead = self._evaluate(v, v.point + step * direction)
        behind = self._evaluate(v, v.point - step * direction)
        with np.errstate(all="ignore"):
            largest = np.maximum(np.abs(ahead), np.abs(behind))
            return Quotients(
                step,
                (ahead - behind) / (2 * step),
                (ahead - self.base) / step,
                (self.base - behind) / step,
                2 * UNIT[self.precision] * largest / step,
                largest,
            )

    def tangent(self, variable: int, direction: Vector, step: float) -> Vector:
        """Direction in which all variables move when one moves along ``direction`` and ``project`` is
        applied.

        Without ``project``, only that variable moves.
        """
        record = self.record
        if self.problem.project is None:
            return record.embed(variable, direction)
        v = record.variables[variable]
        ahead, behind = (
            np.concatenate(self.problem.points(v, v.point + h * direction, self.wide)) for h in (step, -step)
        )
        return np.asarray((ahead - behind) / (2 * step))

    def sweep(self, variable: int, direction: Vector, step: float) -> Sweep:
        """Quotients for steps around ``step``, which reach up and down to steps that suit the scale 1."""
        ratio = _RATIO[self.precision]
        beyond = np.log(self.eps / step) / np.log(ratio)
        above, below = _ABOVE + max(0, np.ceil(beyond)), _BELOW + max(0, np.ceil(-beyond))
        point = self.record.variables[variable].point[direction != 0]
        least = 64 * UNIT[self.precision] * float(np.abs(point).max(initial=0.0))
        steps = [step * ratio**-power for power in np.arange(-above, below + 1)]
        usable = [h for k, h in enumerate(steps) if k <= above + _BELOW or h >= least]
        quotients = tuple(self._near(variable, direction, h) for h in usable)
        return Sweep(quotients, ratio, int(above), 64 * UNIT[self.precision] * self.terms)

    @property
    def terms(self) -> float:
        """Estimated size of terms inside the function, which may exceed its values: the largest
        input, or 1.
        """
        return max(1.0, *(float(np.abs(v.point).max(initial=0.0)) for v in self.record.variables))

    def _near(self, variable: int, direction: Vector, step: float) -> Quotients:
        """Quotients along a direction; all nan if the function raises an error at a point so far away."""
        try:
            return self.along(variable, direction, step)
        except GradcheckError as error:
            if error.finding.mode != "evaluation":
                raise
            nothing = np.full(self.base.size, np.nan)
            return Quotients(step, nothing, nothing, nothing, nothing, np.abs(self.base))


def _close(a: Vector, b: Vector, rtol: float) -> bool:
    finite = np.abs(b[np.isfinite(b)])
    largest = float(finite.max()) if finite.size else 0.0
    return np.allclose(a, b, rtol=rtol, atol=rtol * largest, equal_nan=True)


def by_magnitude(scales: Vector, members: NDArray[np.intp], factor: float = 32.0) -> list[NDArray[np.intp]]:
    """List of arrays of coordinates: classes of ``members`` within which ``scales`` differ by at most
    ``factor``.

    >>> by_magnitude(np.array([1.0, 64.0, 2.0]), np.arange(3))
    [array([0, 2]), array([1])]
    """
    members = members[np.argsort(scales[members], kind="stable")]
    classes = []
    while members.size:
        near = scales[members] <= factor * scales[members[0]]
        classes.append(np.sort(members[near]))
        members = members[~near]
    return classes
