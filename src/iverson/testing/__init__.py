"""Gradient checks: `gradcheck` and `gradgradcheck` hold derivatives against difference quotients.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules below, each
imports only those listed before it.

- `settings`: options and tolerances of a check.
- `directions`: the spaces in which derivatives are taken, and directions in them.
- `failure_report`: the error of a failed check, and its text.
- `perturbation`: calls of the user's function, on its inputs or on perturbed copies.
- `masked`: masked tensors, of which only specified entries are perturbed.
- `analytic`: the derivatives under test, in both modes.
- `numerical`: difference quotients.
- `rounding`: estimates of rounding errors.
- `determinism`: the check that two calls give the same.
- `column_groups`: columns of a sparse Jacobian that share one call.
- `jacobians`: slow mode, which compares full Jacobians.
- `fast_mode`: fast mode, which compares random directions.
- `subsets`: checks with subsets of the needed inputs and of the undefined cotangents and tangents.
- `semantics`: what a failure says about sparse and masked inputs.
- `gradcheck`: the public functions, which run all checks.
"""

from iverson.testing import masked
from iverson.testing.failure_report import Finding, GradcheckError
from iverson.testing.gradcheck import gradcheck, gradgradcheck

__all__ = ["Finding", "GradcheckError", "gradcheck", "gradgradcheck", "masked"]


def __dir__() -> list[str]:
    return sorted(__all__)
