"""Rounding errors of derivatives: measured, since their size is that of the terms inside a rule.

Where terms cancel (softmax takes ``g`` from ``sum(g y)``), the result says nothing of their size, and so
nothing of their rounding. A derivative is linear: ``f(c v) / c`` is ``f(v)`` but for rounding, which differs
for each c. The spread of such repetitions is the error, as in the stochastic arithmetic of J. Vignes,
"A stochastic arithmetic for reliable scientific computation", Mathematics and Computers in Simulation 35,
1993, with the rounding left to the machine. A function that is not linear spreads too: callers set a bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iverson.testing.directions import Vector

#: The factors c: numbers of eleven digits, so that nothing is lost when they are multiplied with a direction.
_FACTORS = (1331 / 1024, 877 / 1024, 1789 / 1024, 619 / 1024, 1151 / 1024, 1973 / 1024)
#: How many times the spread the error may be.
_SAFETY = 8.0


def rounding(apply: Callable[[Vector], Vector], v: Vector) -> Vector:
    """Bound of the rounding error of a linear function's value at v, per component.

    >>> v = np.array([1.0, 2.0])
    >>> spread = rounding(lambda v: (v / 3 + 1e6 * v) - 1e6 * v, v)
    >>> bool(1e-11 < spread.max() < 1e-8), bool(rounding(lambda v: 2 * v, v).max() < 1e-14)
    (True, True)
    """
    value = apply(v)
    spread = np.zeros_like(value)
    for c in _FACTORS:
        with np.errstate(all="ignore"):
            spread = np.maximum(spread, np.abs(apply(c * v) / c - value))
    return np.asarray(_SAFETY * spread)
