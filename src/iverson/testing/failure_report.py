"""Failure report of a check: the finding, the error that carries it, and its text.

Nothing is computed here but the relative error. May be imported by every file of this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from iverson.core.errors import GradientError

#: The two contracts of the gradient in a sparse or masked tensor.
ON_PATTERN = "value on the pattern"
OFF_PATTERN = "support off the pattern"


#: The index of an entry, with "real" or "imaginary" appended for a complex one.
Index: TypeAlias = tuple[int | str, ...]


@dataclass(frozen=True)
class Finding:
    """The facts of a failed check.

    mode : what was being checked: "reverse", "forward", "reverse against forward", "linearity",
        "undefined cotangents", "needed inputs", "undefined cotangents and needed inputs",
        "undefined tangents", "dtype", "shape", "mask", "masked contract", "determinism", "layout",
        "smoothness", "changed input" or "evaluation".
    input, output : which tensors, as a path from ``inputs`` and ``outputs``; "" where it is none.
    input_index, output_index : the worst entry, with ``"real"`` or ``"imaginary"`` appended for a
        complex tensor; None where the check has no single entry.
    analytic, numerical : the two values that differ (the second is the value expected).
    step : the step of the difference quotient; None where the check takes none.
    tolerance : how far apart the two values may be.
    contract : for an input that is sparse or masked, which of its contracts broke: `ON_PATTERN` or
        `OFF_PATTERN`; "" for other inputs and failures.
    other_semantics : what the numerical value would be if the input were masked, not regular, or regular
        and not masked; None where there is no such derivative, or the function refuses such an input.
    diagnosis : "wrong rule", "kink", "jump", "rounding", "nan or inf" or "".
    explanation : the diagnosis in a sentence, with what to do.

    >>> import iverson as iv
    >>> finding = iv.testing.Finding("reverse", input="x", analytic=1.0, numerical=2.0)
    >>> finding.mode, finding.analytic, finding.numerical
    ('reverse', 1.0, 2.0)
    """

    mode: str
    input: str = ""
    output: str = ""
    input_index: Index | None = None
    output_index: Index | None = None
    analytic: float | None = None
    numerical: float | None = None
    step: float | None = None
    tolerance: float | None = None
    diagnosis: str = ""
    explanation: str = ""
    contract: str = ""
    other_semantics: float | None = None

    @property
    def relative_error(self) -> float | None:
        """``|analytic - numerical| / max(|analytic|, |numerical|)``; 0 where both are 0."""
        if self.analytic is None or self.numerical is None:
            return None
        largest = max(abs(self.analytic), abs(self.numerical))
        return abs(self.analytic - self.numerical) / largest if largest else 0.0


class GradcheckError(GradientError):
    """A gradient that `gradcheck` found wrong, or a function it cannot be checked on.

    ``finding`` holds the facts (`Finding`); the message says them in words.

    >>> finding = Finding("reverse", "inputs[0]", "output", (1,), (), 2.0, 1.0, 1e-6)
    >>> print(GradcheckError.of("gradcheck", finding))
    gradcheck, reverse mode: argument 'inputs[0]': got 2.0 for d output[()] / d inputs[0][(1,)];
    expected 1.0 (numerical, step 1e-06; relative error 0.5)
    """

    def __init__(
        self,
        operation: str,
        argument: str = "",
        *,
        got: str = "",
        expected: str = "",
        remedy: str = "",
        finding: Finding | None = None,
    ) -> None:
        super().__init__(operation, argument, got=got, expected=expected, remedy=remedy)
        self.finding = finding or Finding("evaluation", explanation=remedy)

    def __reduce__(self) -> tuple[object, ...]:
        facts = {"got": self.got, "expected": self.expected, "remedy": self.remedy}
        return (_rebuild, (self.operation, self.argument, facts, self.finding))

    @staticmethod
    def of(operation: str, finding: Finding, got: str = "", expected: str = "") -> GradcheckError:
        """The error of a finding; ``got`` and ``expected`` replace the words made from its values."""
        return GradcheckError(
            f"{operation}, {_MODES.get(finding.mode, finding.mode)}",
            finding.input,
            got=got or _got(finding),
            expected=expected or _expected(finding),
            remedy=finding.explanation,
            finding=finding,
        )


def _rebuild(operation: str, argument: str, facts: dict[str, str], finding: Finding) -> GradcheckError:
    return GradcheckError(operation, argument, finding=finding, **facts)


_MODES = {"reverse": "reverse mode", "forward": "forward mode"}


def _entry(name: str, index: Index | None) -> str:
    return name if index is None else f"{name}[{index}]"


def _number(value: float | None) -> str:
    return "nothing" if value is None else repr(float(f"{value:.12g}"))


def _got(finding: Finding) -> str:
    of_output = _entry(finding.output or "outputs", finding.output_index)
    of_input = _entry(finding.input or "inputs", finding.input_index)
    return f"{_number(finding.analytic)} for d {of_output} / d {of_input}"


def _expected(finding: Finding) -> str:
    facts = []
    if finding.step is not None:
        facts.append(f"numerical, step {finding.step:.3g}")
    if finding.relative_error is not None:
        facts.append(f"relative error {finding.relative_error:.3g}")
    if finding.tolerance is not None:
        facts.append(f"tolerance {finding.tolerance:.2g}")
    return f"{_number(finding.numerical)} ({'; '.join(facts)})" if facts else ""


@contextmanager
def blaming(operation: str, mode: str, stage: str) -> Iterator[None]:
    """Context that turns any error inside of it into a `GradcheckError`.

    mode : the check that was going on. stage : the part of the check that raised the error, in words.
    """
    try:
        yield
    except GradcheckError:
        raise
    except Exception as error:
        shape = isinstance(error, GradientError) and "shape" in error.got
        finding = Finding(
            "shape" if shape else mode,
            explanation=f"{stage} raised {type(error).__name__}: {error}",
        )
        raised = GradcheckError.of(
            operation,
            finding,
            got=f"an error in {_MODES.get(mode, mode)}",
            expected="a gradient of its input's shape" if shape else "no error",
        )
        for note in getattr(error, "__notes__", ()):
            raised.add_note(note)
        raise raised from error
