"""Predicates, comparisons, and functions of bits."""

from __future__ import annotations

import numpy as np

from iverson.core.scalars.scalar_record import (
    ANY,
    BOOL,
    INTEGRAL,
    NO_FACTS,
    REAL,
    SILENT,
    STRICT,
    TWO,
    scalar,
)

# fmt: off
PREDICATES = (
    scalar("isnan", np.isnan, (), BOOL | SILENT, "Whether x is not a number.", "[0., float('nan')]",
        "[False,  True]", kinds=ANY),
    scalar("isinf", np.isinf, (), BOOL | SILENT, "Whether x is infinite.", "[0., float('inf')]",
        "[False,  True]", kinds=ANY),
    scalar("isfinite", np.isfinite, (), BOOL | SILENT, "Whether x is not inf or nan.", "[0., float('inf')]",
        "[ True, False]", kinds=ANY),
    scalar("signbit", np.signbit, (), BOOL | SILENT, "Whether the sign bit is set, as it is in -0.0.",
        "[0., -0.]", "[False,  True]", kinds=REAL),
    scalar("logical_not", np.logical_not, (), BOOL | SILENT, "Whether x is zero.", "[0, 2]", "[ True, False]",
        kinds=ANY),
    scalar("equal", np.equal, (), BOOL, "Whether x1 and x2 are equal.", "[1, 2]", "2", "[False,  True]",
        kinds=ANY, domain=TWO),
    scalar("not_equal", np.not_equal, (), BOOL, "Whether x1 and x2 differ.", "[1, 2]", "2", "[ True, False]",
        kinds=ANY, domain=TWO),
    scalar("less", np.less, (), BOOL, "Whether x1 < x2.", "[1, 2]", "2", "[ True, False]", kinds=REAL + "b",
        domain=TWO),
    scalar("less_equal", np.less_equal, (), BOOL, "Whether x1 <= x2.", "[1, 2]", "2", "[ True,  True]",
        kinds=REAL + "b", domain=TWO),
    scalar("greater", np.greater, (), BOOL, "Whether x1 > x2.", "[1, 2]", "1", "[False,  True]",
        kinds=REAL + "b", domain=TWO),
    scalar("greater_equal", np.greater_equal, (), BOOL, "Whether x1 >= x2.", "[1, 2]", "2", "[False,  True]",
        kinds=REAL + "b", domain=TWO),
    scalar("logical_and", np.logical_and, (), BOOL, "Whether both are nonzero.", "[0, 1]", "True",
        "[False,  True]", kinds=ANY, domain=TWO),
    scalar("logical_or", np.logical_or, (), BOOL, "Whether either is nonzero.", "[0, 1]", "False",
        "[False,  True]", kinds=ANY, domain=TWO),
    scalar("logical_xor", np.logical_xor, (), BOOL, "Whether just one is nonzero.", "[0, 1]", "True",
        "[ True, False]", kinds=ANY, domain=TWO),
)
# fmt: on

# fmt: off
BITWISE = (
    scalar("bitwise_invert", np.invert, (), STRICT, "All bits turned over.", "[0, 1]", "[-1, -2]",
        kinds=INTEGRAL),
    scalar("bitwise_and", np.bitwise_and, (), STRICT, "The bits set in both.", "[5, 6]", "4", "[4, 4]",
        kinds=INTEGRAL, domain=TWO),
    scalar("bitwise_or", np.bitwise_or, (), STRICT, "The bits set in either.", "[1, 2]", "4", "[5, 6]",
        kinds=INTEGRAL, domain=TWO),
    scalar("bitwise_xor", np.bitwise_xor, (), STRICT, "The bits set in just one.", "[5, 6]", "4", "[1, 2]",
        kinds=INTEGRAL, domain=TWO),
    scalar("bitwise_left_shift", np.left_shift, (), NO_FACTS, "x1 * 2**x2.", "[1, 2]", "2", "[4, 8]",
        kinds="iu", domain=TWO),
    scalar("bitwise_right_shift", np.right_shift, (), NO_FACTS, "x1 / 2**x2, rounded down.", "[4, 9]", "2",
        "[1, 2]", kinds="iu", domain=TWO),
)
# fmt: on
