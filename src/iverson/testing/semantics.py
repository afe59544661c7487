"""Semantics of a failure at a sparse or masked input: the broken contract, and the other semantics.

A gradient in such an input keeps two contracts: its value at the entries of the pattern, and its support off
it. In the regular semantics every entry has a derivative; in the masked one only those of the pattern exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iverson.testing.analytic import Record
from iverson.testing.failure_report import OFF_PATTERN, ON_PATTERN, Finding, GradcheckError
from iverson.testing.numerical import Numerical
from iverson.testing.perturbation import Problem, Variable


def with_semantics(
    error: GradcheckError, problem: Problem, other: Callable[[], Problem], eps: float | None
) -> GradcheckError:
    """GradcheckError with a remark on the semantics of its sparse or masked input; ``error`` itself for other
    inputs.

    other : returns the same problem in the other semantics. eps : the step of difference quotients, or None.
    """
    finding = error.finding
    v = next((v for v in problem.variables if v.name == finding.input), None)
    if v is None or finding.input_index is None or not (v.space.partial or _is_sparse(v)):
        return error
    coordinate = v.space.coordinate(finding.input_index)
    is_stored = coordinate is not None and v.space.stores(coordinate)
    contract = ON_PATTERN if is_stored else OFF_PATTERN
    value = _numerical(finding, other, eps)
    statement = (
        f"the contract that broke is the {contract}: {_contract(v, is_stored)}; "
        f"in the {'regular' if v.space.partial else 'masked'} semantics it would be "
        + ("absent" if value is None else f"{value:.9g}")
        + ("" if v.space.partial else " (masked=True, or masked_tensor(x), to mean that)")
    )
    fuller_error = GradcheckError(
        error.operation,
        error.argument,
        got=error.got,
        expected=error.expected,
        remedy="; ".join(filter(None, (error.remedy, statement))),
        finding=replace(finding, contract=contract, other_semantics=value),
    )
    for note in getattr(error, "__notes__", ()):
        fuller_error.add_note(note)
    return fuller_error


def _is_sparse(v: Variable) -> bool:
    return v.space.addresses is not None


def _contract(v: Variable, is_stored: bool) -> str:
    if v.space.partial:
        return "the input is masked, and the entry specified"
    where = "is stored" if is_stored else "is not stored, which is a zero like any other"
    return f"the input is regular, and the entry {where}"


def _numerical(finding: Finding, other: Callable[[], Problem], eps: float | None) -> float | None:
    """Difference quotient of the entry in ``finding``, in the other semantics; None if it has none there."""
    assert finding.input_index is not None
    try:
        problem = other()
        record = Record(problem, constants=False)
        numerical = Numerical(record, eps)
    except Exception:  # whatever the function does with inputs that it was not written for
        return None
    k = next((k for k, v in enumerate(problem.variables) if v.name == finding.input), None)
    row = _row(record, finding)
    coordinate = None if k is None else record.input_spaces[k].coordinate(finding.input_index)
    if k is None or row is None or coordinate is None:
        return None
    try:
        return float(numerical.along_unit(k, coordinate).central[row])
    except GradcheckError:  # the function is not defined nearby in this semantics
        return None


def _row(record: Record, finding: Finding) -> int | None:
    """Position, among the coordinates of all outputs, of the entry that a finding is about; None if there is
    none.
    """
    row = 0
    for output in record.outputs:
        if output.name == finding.output and finding.output_index is not None:
            at = output.space.coordinate(finding.output_index)
            return None if at is None else row + at
        row += output.space.size
    return None


__all__ = ["with_semantics"]
