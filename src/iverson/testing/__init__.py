"""Checking gradients: `gradcheck` and `gradgradcheck`."""

from iverson.testing import masked
from iverson.testing.failure_report import Finding, GradcheckError
from iverson.testing.gradcheck import gradcheck, gradgradcheck

__all__ = ["Finding", "GradcheckError", "gradcheck", "gradgradcheck", "masked"]


def __dir__() -> list[str]:
    return sorted(__all__)
