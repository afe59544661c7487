"""Slow mode: the full Jacobians of both modes and of difference quotients, compared entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from iverson.core.python.cached import cached_property
from iverson.core.python.progress import shown
from iverson.testing.analytic import Record
from iverson.testing.column_groups import Members, columns
from iverson.testing.directions import Vector, lowest, random_direction
from iverson.testing.failure_report import Finding, GradcheckError
from iverson.testing.numerical import UNIT, Numerical, Quotients
from iverson.testing.rounding import rounding
from iverson.testing.settings import Settings, Tolerances

Matrix = NDArray[np.float64]

#: How many columns with one-sided quotients far apart are looked at more closely.
SUSPECTS = 32
#: Points where rounding of the inputs leads: the least scale that it is relative to, and how many units.
NEARBY, UNITS = (0.0, 1.0, 0.0, 1.0), 4


class _Diagnosis(TypedDict, total=False):
    """Further facts of a `Finding`, as keyword arguments."""

    step: float
    tolerance: float
    diagnosis: str
    explanation: str


@dataclass(frozen=True)
class Check:
    """State of one check, for fast and slow mode: record, difference quotients, settings, tolerances and
    generator.

    In its methods, a row is a coordinate of all outputs and a column one of all variables.
    """

    record: Record
    numerical: Numerical
    settings: Settings
    tolerances: Tolerances
    rng: np.random.Generator

    def variable_of(self, column: int) -> tuple[int, int]:
        """Number of the variable, and the coordinate in it, that a coordinate of all variables belongs to."""
        for k, space in enumerate(self.record.input_spaces):
            if column < space.size:
                return k, column
            column -= space.size
        raise IndexError(column)

    def failure(
        self, mode: str, row: int, column: int, analytic: float, numerical: float, **facts: Unpack[_Diagnosis]
    ) -> GradcheckError:
        """GradcheckError for one entry of the Jacobian; it is returned, not raised."""
        output, output_index = self.record.locate_output(row)
        variable, coordinate = self.variable_of(column)
        v = self.record.variables[variable]
        finding = Finding(
            mode, v.name, output, v.space.locate(coordinate), output_index,
            float(analytic), float(numerical), **facts,
        )  # fmt: skip
        return GradcheckError.of(self.record.problem.operation, finding)

    def rounding(self, mode: str, row: int, column: int, step: float) -> float:
        """Bound of the rounding error of one entry of the Jacobian, and of its difference quotient with
        ``step``.

        It adds the rounding of the rule's terms, that of the function's values, and that of quotients.
        """
        record = self.record
        rows, columns = (
            np.eye(1, record.size, row)[0],
            np.eye(1, sum(s.size for s in record.input_spaces), column)[0],
        )
        if mode == "forward":
            spread = self.rounding_forward(columns)[row]
        else:
            spread = self.rounding_reverse(rows)[column]
        variable, coordinate = self.variable_of(column)
        scale = self.numerical.scales(variable)[coordinate]
        of_quotients = self._unsteady(lambda r: r.values)[row] / step
        return float(spread + self.unit * np.abs(record.values[row]) / scale + of_quotients)

    def rounding_reverse(self, cotangent: Vector) -> Vector:
        """Bound of the rounding error of each component of the gradient in all variables, for a cotangent."""
        return self._spread(Record.pulled, cotangent)

    def rounding_forward(self, tangent: Vector) -> Vector:
        """Bound of the rounding error of each component of the tangent of all outputs, for a tangent."""
        return self._spread(Record.forward, tangent)

    def _spread(self, derivative: Callable[[Record, Vector], Vector], v: Vector) -> Vector:
        """Bound of the rounding error of ``derivative`` at ``v``: as measured, plus its change at inputs
        nearby.
        """
        measured = rounding(partial(derivative, self.record), v)
        return np.asarray(measured + self._unsteady(lambda record: derivative(record, v)))

    def _unsteady(self, derivative: Callable[[Record], Vector]) -> Vector:
        """Largest change of a derivative when the inputs are moved by about their rounding error (see
        `_nearby`).

        A backward stable rule is exact for such inputs: where its terms cancel, as the cofactors of a
        singular matrix do, its result is not exactly zero.
        """
        here = derivative(self.record)
        changes = [np.abs(derivative(record) - here) for record in self._nearby]
        finite = [np.where(np.isfinite(apart), apart, 0.0) for apart in changes]
        return np.asarray(np.max([np.zeros_like(here), *finite], axis=0))

    @cached_property
    def _nearby(self) -> list[Record]:
        """Records of the function at inputs moved by about their rounding error; those that raise are left
        out.
        """
        records = []
        unit = UNITS * self.unit
        for floor in NEARBY:
            points = [
                v.point
                + unit
                * np.maximum(self.numerical.scales(k), floor)
                * random_direction(self.rng, v.space.size)
                for k, v in enumerate(self.record.variables)
            ]
            try:
                record = self.record.nearby(points)
            except Exception:  # whatever the function raises off its inputs
                continue
            if record.size == self.record.size and len(record.variables) == len(self.record.variables):
                records.append(record)
        return records

    @property
    def unit(self) -> float:
        """Rounding unit of the lowest precision among inputs and outputs, relative to the numbers in them."""
        return UNIT[lowest((*self.record.spaces, *self.record.input_spaces))]

    def roundable(self, mode: str) -> Vector:
        """Largest measured rounding error that is accepted, for each component of a gradient or tangent.

        A rule that gives too few digits also looks like rounding, hence the bound. Terms inside a rule are
        taken to be no larger than 1 plus the function's values over the scale of its inputs.
        mode : "reverse" for gradients, "forward" for tangents.
        """
        values, allowed = np.abs(self.record.values), self.tolerances.rounding
        points = [self.numerical.scales(k) for k in range(len(self.record.variables))]
        inverse = 1 / np.concatenate([np.ones(0), *points])
        if mode == "reverse":
            return np.asarray(allowed(1 + values.sum() * inverse))
        return np.asarray(allowed(1 + values * inverse.sum()))

    def unseen(self, mode: str, derivative: Vector) -> Vector:
        """Largest derivative that rounding can hide, for each component of a gradient or tangent.

        It is a few units in the last place of the function's values, over the scale of its inputs. For
        example, 1 - y of a saturated softmax is 0 after rounding at any scale.
        derivative : where it is exactly 0, terms larger than the values may have absorbed it.
        """
        unit, values = 64 * np.finfo(np.float64).eps, np.abs(self.record.values)
        inverse = 1 / np.concatenate([
            np.ones(0), *(self.numerical.scales(k) for k in range(len(self.record.variables)))
        ])  # fmt: skip
        values, inverse = (values.sum(), inverse) if mode == "reverse" else (values, inverse.sum())
        terms = np.where(derivative == 0, np.maximum(values, self.numerical.terms), values)
        return np.asarray(unit * terms * inverse)

    def adjoint(self, w: Vector, v: Vector, pushed: Vector, pulled: Vector, terms: float | Vector) -> bool:
        """Return True if both modes agree: <w, J v> = <J^T w, v> up to rounding.

        pushed : J v. pulled : J^T w. terms : the size of the terms of the two products; if rounding relative
            to it does not explain the difference, the measured rounding may.
        """
        apart, allowed = abs(w @ pushed - pulled @ v), self.tolerances.rounding(terms)
        if apart <= allowed:
            return True
        reverse = np.minimum(self.rounding_reverse(w), self.roundable("reverse"))
        forward = np.minimum(self.rounding_forward(v), self.roundable("forward"))
        reverse, forward = (
            np.maximum(reverse, self.unseen("reverse", pulled)),
            np.maximum(forward, self.unseen("forward", pushed)),
        )
        return bool(apart <= allowed + np.abs(w) @ forward + reverse @ np.abs(v))

    def kinked(self, quotients: Quotients) -> NDArray[np.bool_]:
        """Boolean for each output coordinate: True if its one-sided quotients are so far apart that a kink is
        suspected.
        """
        with np.errstate(all="ignore"):
            limit = np.maximum(1e-4 * (1 + np.abs(quotients.central)), 16 * quotients.noise)
            return np.asarray(quotients.gap > limit)

    def judge(self, mode: str, row: int, column: int, analytic: float, scale: float = 1.0) -> GradcheckError:
        """GradcheckError for an entry of the Jacobian that disagrees, with a diagnosis from quotients of many
        steps.

        It is returned, not raised. scale : the size of the derivatives around the entry.
        """
        variable, coordinate = self.variable_of(column)
        unit, step = self.numerical.unit(variable, coordinate)
        sweep = self.numerical.sweep(variable, unit, step)
        value = float(sweep.best()[0][row])
        tolerance = float(self.tolerances.allowed(value, scale))
        diagnosis, explanation = sweep.diagnose(row, analytic, tolerance)
        if diagnosis in ("rounding", "nan or inf"):
            value = float(sweep.base.central[row])
        return self.failure(
            mode, row, column, analytic, value,
            step=step, tolerance=tolerance, diagnosis=diagnosis, explanation=explanation,
        )  # fmt: skip


def check_slow(check: Check) -> None:
    """Compare the full Jacobians of both modes with difference quotients; raises GradcheckError."""
    record = check.record
    reverse = np.zeros((record.size, sum(s.size for s in record.input_spaces)))
    row = 0
    for k, space in enumerate(record.spaces):
        for coordinate in range(space.size):
            reverse[row] = record.row(k, coordinate)
            row += 1
    numerical, noise, suspects = _numerical(check, reverse)
    turn = _tangents(check)
    along_tangents = reverse if turn is None else reverse @ turn
    _compare(check, "reverse", along_tangents, numerical, noise)
    forward = None
    if check.settings.check_forward:
        forward = _forward(check, reverse)
        _compare(check, "forward", forward if turn is None else forward @ turn, numerical, noise)
    if check.settings.check_smoothness:
        _check_smooth(check, suspects, along_tangents)
    _check_exact(check, reverse, forward)


def _numerical(check: Check, reverse: Matrix) -> tuple[Matrix, Matrix, list[tuple[int, int]]]:
    """Jacobian by difference quotients, the error of each entry by rounding, and entries where a kink is
    suspected.

    reverse : the Jacobian in reverse mode, which says what columns can share a call.
    """
    noise = np.zeros_like(reverse)
    suspects: list[tuple[int, int]] = []
    source = check.numerical

    def together(k: int, first: int, members: Members, weights: Vector) -> Vector | None:
        quotients = source.along(k, _spread(check, k, members, weights), source.eps)
        usable = np.isfinite(quotients.central).all() and not check.kinked(quotients).any()
        if not usable:
            return None
        noise[:, first + members] = quotients.noise[:, None] / np.abs(weights)
        return quotients.central

    def alone(k: int, first: int, coordinate: int) -> Vector:
        quotients = source.along_unit(k, coordinate)
        column = first + coordinate
        noise[:, column] = quotients.noise
        suspects.extend((int(row), column) for row in np.flatnonzero(check.kinked(quotients)))
        return quotients.central

    jacobian = _by_columns(check, reverse, together, alone, lambda k, m: source.scales(k)[m])
    return jacobian, noise, sorted(suspects, key=lambda place: place[1])


def _forward(check: Check, reverse: Matrix) -> Matrix:
    """Jacobian in forward mode; ``reverse`` is that in reverse mode, which says what columns can share a
    pass.
    """
    record = check.record

    def together(k: int, first: int, members: Members, weights: Vector) -> Vector:
        return record.forward(record.embed(k, _spread(check, k, members, weights)))

    return _by_columns(
        check, reverse, together, lambda k, first, j: record.column(k, j), lambda k, m: np.ones(m.size)
    )


def _spread(check: Check, k: int, members: Members, weights: Vector) -> Vector:
    """Direction of variable ``k`` that has ``weights`` at the coordinates ``members`` and 0 elsewhere."""
    direction = np.zeros(check.record.input_spaces[k].size)
    direction[members] = weights
    return direction


def _by_columns(
    check: Check,
    reverse: Matrix,
    together: Callable[[int, int, Members, Vector], Vector | None],
    alone: Callable[[int, int, int], Vector],
    scales: Callable[[int, Members], Vector],
) -> Matrix:
    """Jacobian, computed by groups of columns that share no row, or by single columns.

    reverse : the Jacobian in reverse mode, whose zeros give the groups.
    together : gives the weighted sum of a group, from a variable, its first column, the coordinates and the
        weights.
    alone : gives one column, from a variable, its first column and a coordinate.
    scales : gives the sizes of random weights for coordinates of a variable.
    """
    jacobian = np.zeros_like(reverse)
    each_alone = check.record.problem.project is not None or check.settings.allow_nonfinite
    first = 0
    for k, space in enumerate(check.record.input_spaces):
        part = reverse[:, first : first + space.size]
        numbered_columns = columns(
            np.full_like(part, np.nan) if each_alone else part,
            lambda m, k=k: scales(k, m) * random_direction(check.rng, m.size),  # type: ignore[misc]
            partial(together, k, first),
            partial(alone, k, first),
            check.tolerances.allowed(0.0, np.abs(part).max(axis=1, initial=0.0)),
        )
        for coordinate, column in shown(numbered_columns, "gradcheck: columns of a Jacobian", space.size):
            jacobian[:, first + coordinate] = column
        first += space.size
    return jacobian


def _tangents(check: Check) -> Matrix | None:
    """Matrix with a tangent of the set of valid inputs for each coordinate, as columns; None without
    ``project``.
    """
    if check.record.problem.project is None:
        return None
    tangents = [
        check.numerical.tangent(k, *check.numerical.unit(k, coordinate))
        for k, space in enumerate(check.record.input_spaces)
        for coordinate in range(space.size)
    ]
    return np.stack(tangents, axis=1) if tangents else np.zeros((0, 0))


def _scales(check: Check, numerical: Matrix) -> Matrix:
    """Largest derivative in the row or the column of each entry, within the block of its output and input."""
    size = np.where(np.isfinite(numerical), np.abs(numerical), 0.0)
    scales = np.zeros_like(size)
    rows = np.cumsum([0, *(s.size for s in check.record.spaces)])
    columns = np.cumsum([0, *(s.size for s in check.record.input_spaces)])
    for top, bottom in pairwise(rows):
        for start, stop in pairwise(columns):
            block = size[top:bottom, start:stop]
            by_row, by_column = block.max(axis=1, initial=0.0), block.max(axis=0, initial=0.0)
            scales[top:bottom, start:stop] = np.maximum(by_row[:, None], by_column)
    return scales


def _excess(check: Check, analytic: Matrix, numerical: Matrix, scales: Matrix, error: Matrix) -> Matrix:
    """Error of each entry as a multiple of its tolerance: above 1 it is wrong.

    It is infinite if the quotient is not finite (0 if the settings allow that), and the largest number if the
    rule's entry is not.
    """
    with np.errstate(all="ignore"):
        apart = np.abs(analytic - numerical)
        excess = np.where(apart > 0, apart / check.tolerances.allowed(numerical, scales, error), 0.0)
    # Of several entries that aren't finite, one where the function itself isn't explains the most.
    excess = np.where(np.isfinite(analytic), excess, np.finfo(float).max)
    undefined = 0.0 if check.settings.allow_nonfinite else np.inf
    return np.where(np.isfinite(numerical), excess, undefined)


def _compare(check: Check, mode: str, analytic: Matrix, numerical: Matrix, noise: Matrix) -> None:
    """Raise GradcheckError for the worst entry that is wrong, after its quotients were refined.

    Side effect: in ``numerical`` and ``noise``, refined quotients and their errors replace the first ones.
    """
    scales = _scales(check, numerical)
    excess = _excess(check, analytic, numerical, scales, noise)
    while excess.size and excess.max() > 1:
        column = int(np.unravel_index(np.argmax(excess), excess.shape)[1])
        variable, coordinate = check.variable_of(column)
        unit, step = check.numerical.unit(variable, coordinate)
        sweep = check.numerical.sweep(variable, unit, step)
        best, error = sweep.best()
        # What agrees already stays: a function may be flat nearby and not farther off.
        better = (excess[:, column] > 1) & np.isfinite(error)
        numerical[better, column], noise[better, column] = best[better], error[better]
        noise[~better, column] += sweep.hidden()[~better]
        new_excess = _excess(
            check, analytic[:, column], numerical[:, column], scales[:, column], noise[:, column]
        )
        for row in (int(k) for k in np.flatnonzero(new_excess > 1)):
            noise[row, column] += check.rounding(mode, row, column, sweep.quotients[0].step)
        new_excess = _excess(
            check, analytic[:, column], numerical[:, column], scales[:, column], noise[:, column]
        )
        if new_excess.max() > 1:
            row = int(np.argmax(new_excess))
            raise check.judge(mode, row, column, float(analytic[row, column]), float(scales[row, column]))
        excess[:, column] = new_excess


def _check_smooth(check: Check, suspects: list[tuple[int, int]], analytic: Matrix) -> None:
    """Raise GradcheckError if the function has a kink or jump at one of ``suspects``, pairs of a row and a
    column.

    The rule's entry may be right there, as the mean of the one-sided derivatives.
    """
    rows: dict[int, list[int]] = {}
    for row, column in suspects:
        rows.setdefault(column, []).append(row)
    for column in list(rows)[:SUSPECTS]:
        variable, coordinate = check.variable_of(column)
        unit, step = check.numerical.unit(variable, coordinate)
        sweep = check.numerical.sweep(variable, unit, step)
        for row in rows[column]:
            if sweep.nonsmooth(row):
                raise check.judge("smoothness", row, column, float(analytic[row, column]))


def _check_exact(check: Check, reverse: Matrix, forward: Matrix | None) -> None:
    """Raise GradcheckError unless both Jacobians are equal to rounding and both modes act linearly.

    Columns and rows from unit vectors cannot show that a rule is not linear; random vectors of both signs
    can.
    """
    if not np.all(np.isfinite(reverse)) or not reverse.size:
        return
    record, allowed = check.record, check.tolerances.rounding
    for sign in (1.0, -1.0):
        w = sign * random_direction(check.rng, reverse.shape[0])
        v = sign * random_direction(check.rng, reverse.shape[1])
        pulled, size = record.pulled(w), np.abs(w) @ np.abs(reverse)
        _check_linear(check, "reverse", pulled, w @ reverse, allowed(size), partial(_of_rows, check, w))
        if forward is None:
            continue
        pushed, size = record.forward(v), np.abs(forward) @ np.abs(v)
        _check_linear(check, "forward", pushed, forward @ v, allowed(size), partial(_of_columns, check, v))
        terms = np.abs(w) @ np.abs(forward) @ np.abs(v)
        if not check.adjoint(w, v, pushed, pulled, terms):
            difference = np.abs(forward - reverse)
            row, column = (int(k) for k in np.unravel_index(np.argmax(difference), difference.shape))
            raise check.failure(
                "reverse against forward", row, column, reverse[row, column], forward[row, column],
                tolerance=float(allowed(np.abs(forward).max())), diagnosis="wrong rule",
                explanation="<v, J^T w> and <J v, w> must agree to rounding: the first value is the "
                "vjp's, the second the jvp's; both are near the difference quotient",
            )  # fmt: skip


def _of_rows(check: Check, w: Vector) -> Vector:
    """Bound of the rounding error of the gradient for ``w``, plus that of the weighted sum of rows it is
    compared with.
    """
    rows = zip(np.abs(w), np.eye(w.size), strict=True)
    return np.asarray(check.rounding_reverse(w) + sum(size * check.rounding_reverse(e) for size, e in rows))


def _of_columns(check: Check, v: Vector) -> Vector:
    """Bound of the rounding error of the tangent for ``v``, plus that of the weighted sum of columns it is
    compared with.
    """
    columns = zip(np.abs(v), np.eye(v.size), strict=True)
    return np.asarray(
        check.rounding_forward(v) + sum(size * check.rounding_forward(e) for size, e in columns)
    )


def _check_linear(
    check: Check,
    mode: str,
    actual: Vector,
    expected: Vector,
    tolerance: Vector,
    measured: Callable[[], Vector],
) -> None:
    """Raise GradcheckError unless ``actual``, a derivative along a random vector, is ``expected`` from the
    Jacobian.

    measured : gives a bound of the rounding error; it is computed only if ``tolerance`` is exceeded.
    """
    # What cancels to nothing leaves the rounding of what it was made of.
    tolerance = np.maximum(tolerance, 1e-2 * tolerance.max(initial=0.0))
    excess = np.abs(actual - expected) - tolerance
    if not excess.size or excess.max() <= 0:
        return
    tolerance = np.maximum(tolerance, np.minimum(measured(), check.roundable(mode)))
    tolerance = np.maximum(tolerance, check.unseen(mode, actual))
    excess = np.abs(actual - expected) - tolerance
    if excess.max() <= 0:
        return
    worst = int(np.argmax(excess))
    record = check.record
    input_, output, input_index, output_index = "", "", None, None
    if mode == "forward":
        output, output_index = record.locate_output(worst)
    else:
        variable, coordinate = check.variable_of(worst)
        v = record.variables[variable]
        input_, input_index = v.name, v.space.locate(coordinate)
    finding = Finding(
        "linearity", input_, output, input_index, output_index,
        float(actual[worst]), float(expected[worst]), tolerance=float(tolerance[worst]),
        diagnosis="wrong rule",
        explanation=f"the {mode} rule is not linear in what it is handed: unit vectors give another "
        "result than random ones",
    )  # fmt: skip
    raise GradcheckError.of(record.problem.operation, finding)
