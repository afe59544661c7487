"""Fast mode: random directions over the whole declared space, and bisection to the entry at fault.

Each variable is probed on its own, with several directions per group of its coordinates (those its layout
stores, those it does not). Along a direction d, difference quotients give the vector J d; it is held
against the jvp entry by entry and, weighted by a random w, against <J^T w, d>. Both signs of w and d are
used. That the modes agree to rounding, <w, J d> = <J^T w, d>, carries each one's precision to the other.

An error in one entry of J is diluted by all others; therefore the tolerance is the one that slow mode would
grant a typical single entry, as far as the quotients' own precision allows. Outputs whose derivatives are far
apart are weighted one class after the other: next to 1e8, an error of 1e-8 would be rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from iverson.testing.directions import Vector, random_direction
from iverson.testing.failure_report import Finding, GradcheckError
from iverson.testing.jacobians import Check
from iverson.testing.numerical import Quotients, Sweep, by_magnitude

#: How many output entries along one direction are looked at more closely.
ROWS = 8
#: Derivatives that differ by more than this are not added up: the error of the smaller ones would be lost.
FAR = 2.0**16


def check_fast(check: Check) -> None:
    """Compare the derivatives along random directions; raises GradcheckError if one is wrong."""
    record = check.record
    if not record.size:
        return
    for variable, space in enumerate(record.input_spaces):
        for mask in space.groups():
            for part, step in check.numerical.classes(variable, mask):
                for _ in range(check.settings.directions):
                    direction = part * random_direction(check.rng, space.size)
                    Probe(check, variable, direction, step).run()
    for sign in (1.0, -1.0):
        _check_together(check, sign)


def _far_apart(sizes: Vector, members: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Classes of ``members`` (coordinates) within which ``sizes`` differ by at most the factor `FAR`.

    Coordinates of size 0, or not finite, go with the class of the largest sizes.
    """
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)
    zeros = members[sizes[members] == 0]
    classes = by_magnitude(sizes, members[sizes[members] != 0], FAR)
    if zeros.size or not classes:
        classes[-1:] = [np.concatenate([*classes[-1:], zeros])]
    return classes


class Probe:
    """Check of the derivative along one direction of one variable, with one random cotangent ``w`` of all
    outputs.

    step : the step of difference quotients along the direction.
    """

    def __init__(self, check: Check, variable: int, direction: Vector, step: float) -> None:
        self.check = check
        self.record = check.record
        self.variable = variable
        self.direction = direction
        self.offset = sum(s.size for s in check.record.input_spaces[:variable])
        self.w = random_direction(check.rng, check.record.size)
        self.step = step
        self.projected = check.record.problem.project is not None
        self._gradients: dict[bytes, dict[int, Vector]] = {}
        self._tangents: dict[bytes, Vector] = {}

    def run(self) -> None:
        """Check along the direction: quotients are finite and smooth, and both modes agree with them and each
        other.
        """
        quotients = self._quotients(self.direction)
        self._refuse_nonfinite(quotients)
        if self.check.settings.check_smoothness:
            self._check_smooth(quotients)
        self._check_reverse(quotients)
        if self.check.settings.check_forward:
            self._check_forward(quotients)
            self._check_adjoint()

    def _quotients(self, direction: Vector) -> Quotients:
        return self.check.numerical.along(self.variable, direction, self.step)

    def _sweep(self) -> Sweep:
        return self.check.numerical.sweep(self.variable, self.direction, self.step)

    def _tangent(self, direction: Vector) -> Vector:
        """Tangent along a direction of the variable: that direction itself, without a projection.

        With a projection it is a tangent of all variables, since the projection may move the others, too.
        """
        if not self.projected:
            return direction
        return self.check.numerical.tangent(self.variable, direction, self.step)

    def _pull(self, w: Vector) -> Vector:
        """Gradient for the cotangent ``w``, in the same variables that `_tangent` is a tangent of."""
        return self._pulled(w) if self.projected else self._reversed(w)[self.variable]

    def _pulled(self, w: Vector) -> Vector:
        """Gradient for the cotangent ``w``, always as a vector of all variables."""
        gradients = self._reversed(w)
        return np.concatenate([gradients[k] for k in range(len(self.record.variables))])

    def _reversed(self, w: Vector) -> dict[int, Vector]:
        """Gradients for the cotangent ``w``, by a pass that is made once."""
        key = w.tobytes()
        if key not in self._gradients:
            self._gradients[key] = self.record.reverse(w)
        return self._gradients[key]

    def _whole(self, direction: Vector) -> Vector:
        """Tangent along a direction of the variable, always as a vector of all variables."""
        tangent = self._tangent(direction)
        return tangent if self.projected else self.record.embed(self.variable, tangent)

    def _push(self, direction: Vector) -> Vector:
        """Tangent of all outputs along a direction of the variable, by a pass that is made once."""
        key = direction.tobytes()
        if key not in self._tangents:
            self._tangents[key] = self.record.forward(self._whole(direction))
        return self._tangents[key]

    def _unit(self, coordinate: int) -> Vector:
        return self.record.input_spaces[self.variable].unit(coordinate)

    def _refuse_nonfinite(self, quotients: Quotients) -> None:
        """Raise GradcheckError for the entry at fault if difference quotients are not finite for any step."""
        bad = ~np.isfinite(quotients.central)
        if not bad.any() or np.all(np.isfinite(self._sweep().best()[1])):
            return
        row = int(np.argmax(bad))

        def blame(part: Vector) -> float:
            return 0.0 if np.isfinite(self._quotients(part).central[row]) else 1.0

        coordinate = bisect(self.direction, blame)
        analytic = self._push(self._unit(coordinate))[row]
        if not self.check.settings.check_forward:
            analytic = self._entry(row, coordinate)
        raise self.check.judge("reverse", row, self.offset + coordinate, float(analytic))

    def _check_smooth(self, quotients: Quotients) -> None:
        """Raise GradcheckError if the function has a kink or a jump along the direction."""
        suspects = np.flatnonzero(self.check.kinked(quotients))
        if not suspects.size:
            return
        sweep = self._sweep()
        for row in (int(k) for k in suspects):
            if sweep.nonsmooth(row):
                coordinate = bisect(self.direction, partial(self._gap, row))
                analytic = self._entry(row, coordinate)
                raise self.check.judge("smoothness", row, self.offset + coordinate, analytic)

    def _gap(self, row: int, direction: Vector) -> float:
        return float(self._quotients(direction).gap[row])

    def _entry(self, row: int, coordinate: int) -> float:
        """Entry of the Jacobian from reverse mode: one coordinate of all outputs (``row``) by one of the
        variable.
        """
        unit = np.zeros(self.record.size)
        unit[row] = 1.0
        return self._component(self._pull(unit), coordinate)

    def _component(self, gradient: Vector, coordinate: int) -> float:
        """Component of a gradient (see `_pull`) along the direction of one coordinate."""
        if not self.projected:
            return float(gradient[coordinate])
        return float(gradient @ self._tangent(self._unit(coordinate)))

    # -- reverse -------------------------------------------------------------------------------------

    def _check_reverse(self, quotients: Quotients) -> None:
        """Compare reverse mode with the quotients along the direction, for classes of outputs and both signs
        of ``w``.
        """
        sizes = np.maximum(np.abs(quotients.central), quotients.noise)
        rows = _far_apart(sizes, np.arange(self.record.size))
        for sign, part in product((1.0, -1.0), rows):
            w = np.zeros_like(self.w)
            w[part] = sign * self.w[part]
            gradient = self._pull(w)
            analytic = float(gradient @ self._tangent(self.direction))
            if self._reverse_agrees(analytic, w, quotients.central, quotients.noise):
                continue
            best, error = self._sweep().best()
            if self._reverse_agrees(analytic, w, best, 4 * error):
                continue
            rounding = self.check.rounding_reverse(w) @ np.abs(self._whole(self.direction))
            if self._reverse_agrees(analytic, w, best, 4 * error, float(rounding)):
                continue
            scale = _largest(best[part])
            error_found = self._locate_reverse(w, gradient, scale)
            numerical = float(w @ best)
            loose = self._allowed(max(abs(numerical), float(np.linalg.norm(w * best))), scale)
            small = abs(analytic - numerical) <= loose
            self._raise(error_found, "reverse", (analytic, numerical), small, scale)

    def _reverse_agrees(
        self, analytic: float, w: Vector, numerical: Vector, noise: Vector, rounding: float = 0.0
    ) -> bool:
        """Return True if ``analytic`` is the sum of ``w`` times ``numerical``, within tolerance.

        noise : the error of each quotient. rounding : the measured rounding error of ``analytic``.
        """
        terms = w * numerical
        size = float(np.linalg.norm(terms))
        entries = float(np.sqrt(self.record.size * self._count()))
        strict = float(self.check.tolerances.allowed(size / entries, size / entries))
        loose = self._allowed(max(abs(terms.sum()), size))
        limit = min(loose, max(strict, float(np.linalg.norm(w * noise)) + 4 * rounding))
        return bool(abs(analytic - terms.sum()) <= limit)

    def _count(self) -> int:
        return max(int(np.count_nonzero(self.direction)), 1)

    def _allowed(self, size: float, scale: float = 1.0) -> float:
        return float(self.check.tolerances.allowed(size, scale))

    def _locate_reverse(self, w: Vector, gradient: Vector, scale: float) -> GradcheckError:
        """GradcheckError for the entry of the Jacobian most to blame, found by bisection over ``direction``
        and ``w``.

        scale : the size of the derivatives around it.
        """
        if not self.projected and not np.all(np.isfinite(gradient)):
            coordinate = int(np.argmax(~np.isfinite(gradient)))
            row = bisect(w, lambda part: float(not np.isfinite(self._pull(part)[coordinate])))
        else:
            coordinate = bisect(
                self.direction,
                lambda d: abs(gradient @ self._tangent(d) - w @ self._quotients(d).central),
            )
            column = self._column(coordinate)
            row = bisect(w, lambda part: abs(self._component(self._pull(part), coordinate) - part @ column))
        analytic = self._entry(row, coordinate)
        return self.check.judge("reverse", row, self.offset + coordinate, analytic, scale)

    def _column(self, coordinate: int) -> Vector:
        unit, step = self.check.numerical.unit(self.variable, coordinate)
        best, error = self.check.numerical.sweep(self.variable, unit, step).best()
        return np.where(np.isfinite(error), best, 0.0)

    def _raise(
        self, error: GradcheckError, mode: str, values: tuple[float, float], small: bool, scale: float
    ) -> None:
        """Raise ``error``, which is about the entry most to blame, if that entry alone is wrong.

        If it is right, slow mode would accept it. Then a small error along the direction is what many entries
        have within their tolerance, and nothing is raised; a large one comes from a rule that is not linear.
        values : what reverse or forward mode and the quotients give along the direction.
        small : True if these differ little. scale : the size of the derivatives around the entry.
        """
        culprit = error.finding
        entry = (culprit.analytic or 0.0, culprit.numerical or 0.0)
        allowed = self._allowed(abs(entry[1]), scale)
        if culprit.diagnosis != "wrong rule" or not abs(entry[0] - entry[1]) <= allowed:
            raise error
        if small:
            return
        finding = Finding(
            "linearity", culprit.input, culprit.output, None, None, *values, self.step,
            diagnosis="wrong rule",
            explanation=f"{mode} mode is wrong along a random direction but right entry by entry: "
            "the rule isn't linear in what it is handed",
        )  # fmt: skip
        raise GradcheckError.of(self.record.problem.operation, finding)

    # -- forward -------------------------------------------------------------------------------------

    def _check_forward(self, quotients: Quotients) -> None:
        """Compare forward mode with the quotients along the direction, entry by entry, for both signs of the
        direction.
        """
        for sign in (1.0, -1.0):
            d = sign * self.direction
            tangent = self._push(d)
            numerical = sign * quotients.central
            bad = self._forward_excess(tangent, numerical, quotients.noise) > 1
            if not bad.any():
                continue
            best, error = self._sweep().best()
            # What agrees already stays: a function may be flat nearby and not farther off.
            excess = np.where(bad, self._forward_excess(tangent, sign * best, 4 * error), 0.0)
            if excess.max() > 1:
                error = error + self.check.rounding_forward(self._whole(d))
                excess = np.where(bad, self._forward_excess(tangent, sign * best, 4 * error), 0.0)
            for row in (int(k) for k in np.argsort(-excess)[:ROWS] if excess[k] > 1):
                values = float(tangent[row]), sign * float(best[row])
                scale = _largest(best)
                small = abs(values[0] - values[1]) <= self._allowed(abs(values[1]), scale)
                self._raise(self._locate_forward(d, row, scale), "forward", values, small, scale)

    def _forward_excess(self, tangent: Vector, numerical: Vector, noise: Vector) -> Vector:
        """Error of each output coordinate as a multiple of its tolerance: above 1 it is wrong.

        noise : the error of each quotient in ``numerical``.
        """
        entries = float(np.sqrt(self._count()))
        allowed = self.check.tolerances.allowed
        strict = allowed(numerical / entries, np.abs(numerical) / entries)
        limit = np.minimum(allowed(numerical), np.maximum(strict, noise))
        apart = np.abs(tangent - numerical)
        with np.errstate(all="ignore"):
            excess = np.where(apart == 0, 0.0, apart / limit)  # where all is 0, so is the limit
        return np.asarray(np.nan_to_num(excess, nan=np.inf))

    def _locate_forward(self, direction: Vector, row: int, scale: float) -> GradcheckError:
        """GradcheckError for the entry in ``row`` of the Jacobian most to blame, found by bisection over
        ``direction``.
        """

        def blame(d: Vector) -> float:
            difference = abs(self._push(d)[row] - self._quotients(d).central[row])
            return float(np.nan_to_num(difference, nan=np.inf))

        coordinate = bisect(direction, blame)
        entry = float(self._push(self._unit(coordinate))[row])
        return self.check.judge("forward", row, self.offset + coordinate, entry, scale)

    # -- one against the other -----------------------------------------------------------------------

    def _check_adjoint(self) -> None:
        """Raise GradcheckError unless both modes agree to rounding: <w, J d> = <J^T w, d>."""
        gradient, tangent = self._pull(self.w), self._push(self.direction)
        along = self._tangent(self.direction)
        terms = np.abs(self.w) @ np.abs(tangent) + np.abs(gradient) @ np.abs(along)
        every = along if self.projected else self.record.embed(self.variable, along)
        if self.check.adjoint(self.w, every, tangent, self._pulled(self.w), terms):
            return
        coordinate = bisect(
            self.direction, lambda d: abs(gradient @ self._tangent(d) - self.w @ self._push(d))
        )
        column = self._push(self._unit(coordinate))
        row = bisect(self.w, lambda part: abs(self._component(self._pull(part), coordinate) - part @ column))
        raise self.check.failure(
            "reverse against forward", row, self.offset + coordinate,
            self._entry(row, coordinate), float(column[row]),
            tolerance=float(self.check.tolerances.rounding(np.abs(column).max())), diagnosis="wrong rule",
            explanation="<v, J^T w> and <J v, w> must agree to rounding: the first value is the vjp's, "
            "the second the jvp's; both are near the difference quotient",
        )  # fmt: skip


def _check_together(check: Check, sign: float) -> None:
    """Check that both modes agree along one random direction of all variables at once; raises GradcheckError.

    sign : 1 or -1, a factor of the direction.
    """
    record = check.record
    w = random_direction(check.rng, record.size)
    v = sign * random_direction(check.rng, sum(s.size for s in record.input_spaces))
    if not check.settings.check_forward or not v.size:
        return
    gradient, tangent = record.pulled(w), record.forward(v)
    terms = np.abs(w) @ np.abs(tangent) + np.abs(gradient) @ np.abs(v)
    pulled, pushed = float(gradient @ v), float(w @ tangent)
    if not check.adjoint(w, v, tangent, gradient, terms):
        finding = Finding(
            "reverse against forward", analytic=pulled, numerical=pushed,
            tolerance=float(check.tolerances.rounding(terms)), diagnosis="wrong rule",
            explanation="<v, J^T w> and <J v, w> along one direction of all inputs must agree to "
            "rounding; each input alone passes, so the rules for several at once are wrong",
        )  # fmt: skip
        raise GradcheckError.of(record.problem.operation, finding)


def _largest(derivatives: Vector) -> float:
    return float(np.abs(derivatives[np.isfinite(derivatives)]).max(initial=0.0))


def bisect(vector: Vector, blame: Callable[[Vector], float | Vector]) -> int:
    """The coordinate whose part of a vector is most to blame, by halving: about 2 log2(n) calls.

    >>> bisect(np.ones(9), lambda part: float(part[6]))
    6
    """
    alive: NDArray[np.intp] = np.flatnonzero(vector)
    while alive.size > 1:
        halves = np.array_split(alive, 2)
        blames = []
        for half in halves:
            part = np.zeros_like(vector)
            part[half] = vector[half]
            blames.append(float(np.nan_to_num(blame(part), nan=np.inf)))
        alive = halves[int(np.argmax(blames))]
    return int(alive[0])
