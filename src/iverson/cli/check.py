"""check: hold the derivatives of a function against difference quotients (gradcheck).

Exit status 0 if all are right, 1 if one is wrong, 2 if the function or its arguments are not there.
"""

from __future__ import annotations

import argparse
from typing import Any

from iverson.cli.command_target import UsageError, add_target, target_of
from iverson.core.errors import ArgumentError, GradientError
from iverson.testing import GradcheckError, gradcheck, gradgradcheck


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_target(parser)
    parser.add_argument("--second", action="store_true", help="check second derivatives, too")
    parser.add_argument("--fast", action="store_true", help="random directions instead of full Jacobians")


def run(options: argparse.Namespace) -> int:
    """Check and say what was found; the exit status."""
    function, inputs = target_of(options)
    checks = {"first derivatives": gradcheck} | (
        {"second derivatives": gradgradcheck} if options.second else {}
    )
    print(f"{options.target}({', '.join(map(_described, inputs))})")
    for title, check in checks.items():
        try:
            check(function, inputs, fast=options.fast, seed=options.seed)
        except GradcheckError as error:
            print(f"{title}: WRONG\n{_report(error)}")
            return 1
        except (ArgumentError, GradientError) as error:
            raise UsageError(str(error)) from error
        print(f"{title}: right, in reverse and forward mode")
    return 0


def _described(x: Any) -> str:
    shape = getattr(x, "shape", None)
    if shape is None:
        return repr(x)
    layout = getattr(x, "layout", "strided")
    suffix = "" if getattr(x, "requires_grad", False) else ", constant"
    return f"{x.dtype} {shape}{'' if layout == 'strided' else ' ' + layout}{suffix}"


def _report(error: GradcheckError) -> str:
    """The finding, a fact a line."""
    finding = error.finding
    facts = {
        "mode": finding.mode,
        "input": finding.input and f"{finding.input} at {finding.input_index}",
        "output": finding.output and f"{finding.output} at {finding.output_index}",
        "analytic": finding.analytic,
        "numerical": finding.numerical,
        "relative error": finding.relative_error,
        "contract": finding.contract,
        "diagnosis": finding.diagnosis,
        "": finding.explanation or str(error),
    }
    lines = [f"  {name:<15}{value}" for name, value in facts.items() if value not in (None, "")]
    return "\n".join(lines)
