"""SciPy's functions on tensors, with derivatives, under SciPy's names and with its arguments.

`root`, `minimize`, `least_squares` and `solve_ivp` call SciPy and differentiate the solution. The modules
`interpolate`, `linalg`, `ndimage`, `signal` and `stats` are compositions of Iverson's functions and index
notation, so they have derivatives of any order in both modes, compile and map.

Import rule: packages of lower layers; of the modules and sub-packages below, each imports only those listed
before it.

- `door`: SciPy's names on tensors, for a block.
- `by_matrix`: what is linear in its data, by SciPy's matrix.
- `initial_values`: `solve_ivp`.
- `solvers`: `root`, `minimize` and `least_squares`.
- `optimize`: further solvers.
- `integrate`: integrals.
- `interpolate`: piecewise cubics and interpolation on grids.
- `matrix_functions`: further functions of matrices.
- `linalg`: decompositions, systems and matrix equations.
- `ndimage`: filters of images.
- `signal`: filters of signals.
- `special`: special functions.
- `fft`: transforms.
- `spatial`: distances.
- `sparse`: sparse systems and graphs.
- `distribution_base`: the base class of distributions.
- `distributions`: further families.
- `stats`: the distributions.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from iverson.interop.scipy.door import use
from iverson.interop.scipy.initial_values import solve_ivp
from iverson.interop.scipy.solvers import least_squares, minimize, root

_MODULES = (
    "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial",
    "special", "stats",
)  # fmt: skip

__all__ = [
    "fft", "integrate", "interpolate", "least_squares", "linalg", "minimize", "ndimage", "optimize", "root",
    "signal",
    "solve_ivp", "sparse", "spatial", "special", "stats", "use",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"iverson.interop.scipy.{name}")
    raise AttributeError(f"module 'iverson.interop.scipy' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
