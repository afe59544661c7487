"""Vector mathematics: elementary functions as LLVM IR over vectors of any width, a file per family.

They inline into fused loops. Errors are at most 2 ulp (3 or 4 for some), and IEEE special values, subnormal
numbers and signed zeros are kept; `tests/codegen/test_vecmath.py` holds them to that.

This package imports `iverson.codegen.emit.llvm_builder` alone.

- `coefficients`: polynomial coefficients.
- `common`: formats, evaluation of polynomials, exponents, double-double sums and products.
- `exponential`: exp, exp2, expm1, tanh, sech2, sigmoid, silu, sinh, cosh.
- `logarithm`: log, log1p, log2, log10.
- `power`: pow.
- `argument`: exact reduction of large arguments by pi/2.
- `trigonometric`: sin, cos.
- `error`: erf, erfc, gelu and its derivative.
"""

from __future__ import annotations

from collections.abc import Callable

from iverson.codegen.emit.llvm_builder import Value
from iverson.codegen.emit.vecmath.error import erf, erfc, gelu, gelu_derivative
from iverson.codegen.emit.vecmath.exponential import cosh, exp, exp2, expm1, sech2, sigmoid, silu, sinh, tanh
from iverson.codegen.emit.vecmath.logarithm import log, log1p, log2, log10
from iverson.codegen.emit.vecmath.power import pow
from iverson.codegen.emit.vecmath.trigonometric import cos, sin

#: By the names in `iverson.core.scalars`: functions of a builder and its values.
FUNCTIONS: dict[str, Callable[..., Value]] = {
    "cos": cos,
    "cosh": cosh,
    "erf": erf,
    "erfc": erfc,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "gelu": gelu,
    "gelu_derivative": gelu_derivative,
    "log": log,
    "log10": log10,
    "log1p": log1p,
    "log2": log2,
    "pow": pow,
    "sech2": sech2,
    "sigmoid": sigmoid,
    "silu": silu,
    "sin": sin,
    "sinh": sinh,
    "tanh": tanh,
}

__all__ = ["FUNCTIONS"]
