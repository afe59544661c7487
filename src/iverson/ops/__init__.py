"""THE table: every op's facts in one place, a file per family. Rules are written against ``F``."""

from iverson.core.table import TABLE, F, define, defined, derived, override_vjp, remove
from iverson.ops import (
    elementwise,
    fourier,
    indexing,
    linalg,
    matmul,
    neural,
    packing,
    reductions,
    segments,
    selection,
    shape,
    sorting,
    sparse,
    spectra,
    triangular,
)
from iverson.ops.notation import ALL, use_derived_vjp

__all__ = [
    "ALL",
    "TABLE",
    "F",
    "define",
    "defined",
    "derived",
    "elementwise",
    "fourier",
    "indexing",
    "linalg",
    "matmul",
    "neural",
    "override_vjp",
    "packing",
    "reductions",
    "remove",
    "segments",
    "selection",
    "shape",
    "sorting",
    "sparse",
    "spectra",
    "triangular",
    "use_derived_vjp",
]
