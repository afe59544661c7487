"""Settings of a check: its tolerances, and the list of what it checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from iverson.core.errors import ArgumentError
from iverson.core.inputs.arguments import checked

if TYPE_CHECKING:
    from iverson.handles.typing import NonNegative, Positive
    from iverson.testing.directions import Vector

#: Per precision of the tensors: atol and rtol against difference quotients, and rtol where two analytic
#: values must agree to rounding. Quotients in double precision are good to about 1e-9; those of a function
#: that computes in single precision whatever it is given, to 1e-4.
_TOLERANCES = {"double": (1e-7, 1e-5, 1e-11), "single": (1e-5, 2e-4, 2e-5)}
_SINGLE_QUOTIENTS = (1e-3, 2e-3, 2e-5)
#: Below, numbers have few digits, and products are 0.
_TINY = np.finfo(np.float64).tiny
#: How many times its estimate an error may be.
_ERRORS = 4.0


class Options(TypedDict, total=False):
    """Options of `gradcheck` that `gradgradcheck` takes and passes on."""

    eps: Positive | None
    atol: NonNegative | None
    rtol: NonNegative | None
    fast: bool
    raise_exception: bool
    check_forward: bool
    check_undefined: bool
    check_needs: bool
    check_determinism: bool
    check_smoothness: bool
    check_constant_outputs: bool
    allow_nonfinite: bool
    nondet_tol: NonNegative
    exact_rtol: NonNegative | None
    directions: int
    seed: int


@dataclass(frozen=True)
class Settings:
    """Options of a check; they are documented at `gradcheck`."""

    eps: Positive | None = None
    atol: NonNegative | None = None
    rtol: NonNegative | None = None
    fast: bool = False
    raise_exception: bool = True
    check_forward: bool = True
    check_undefined: bool = True
    check_needs: bool = True
    check_determinism: bool = True
    check_smoothness: bool = True
    check_constant_outputs: bool = True
    allow_nonfinite: bool = False
    nondet_tol: NonNegative = 0.0
    exact_rtol: NonNegative | None = None
    directions: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.directions < 2**20:
            raise ArgumentError(
                "gradcheck", "directions", got=str(self.directions), expected="a number in [1, 2**20)"
            )


Settings.__init__ = checked(Settings.__init__, "gradcheck")  # type: ignore[method-assign]


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of a check: ``|analytic - numerical| <= atol + rtol |numerical|``.

    exact : the tolerance for two analytic values, relative to the size of their terms.
    scaled : True if ``atol`` is the default, which is for derivatives of about 1. It is then multiplied by
        the scale of the derivatives around, if that is smaller.
    """

    atol: float
    rtol: float
    exact: float
    scaled: bool

    @staticmethod
    def of(settings: Settings, precision: str, quotients: str) -> Tolerances:
        """Tolerances from the settings, with defaults for the precision of the tensors and of the
        quotients.
        """
        default = _SINGLE_QUOTIENTS if quotients == "single" else _TOLERANCES[precision]
        overrides = (settings.atol, settings.rtol, settings.exact_rtol)
        values = [d if g is None else float(g) for g, d in zip(overrides, default, strict=True)]
        return Tolerances(values[0], values[1], values[2], settings.atol is None)

    def allowed(
        self, numerical: float | Vector, scale: float | Vector = 1.0, error: float | Vector = 0.0
    ) -> Any:
        """Largest difference that is allowed between an analytic and a numerical value.

        scale : the size of the derivatives around, which says what is as good as zero.
        error : the estimated error of the two values. It is accepted up to ``rtol`` times the scale.
        """
        absolute = self.atol * np.minimum(1.0, scale) if self.scaled else self.atol
        absolute = np.maximum(absolute, _TINY)
        uncertain = np.minimum(_ERRORS * error, np.maximum(self.atol, self.rtol * scale))
        return np.maximum(absolute, uncertain) + self.rtol * np.abs(numerical)

    def rounding(self, size: float | Vector) -> Any:
        """Largest difference that is allowed between two analytic values that are sums of terms of
        ``size``.
        """
        return np.maximum(self.exact * size, _TINY)
