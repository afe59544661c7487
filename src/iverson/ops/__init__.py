"""THE table: every op's facts in one place, a file per family. Rules are written against ``F``."""

from iverson.core.table import OVERRIDES, TABLE, F, define, defined, derived, override_vjp, remove
from iverson.ops import elementwise, fourier, indexing, linalg, neural, reductions, shape, sorting, spectra
from iverson.ops.notation import ALL, use_derived_vjp

__all__ = [
    "ALL",
    "OVERRIDES",
    "TABLE",
    "F",
    "define",
    "defined",
    "derived",
    "elementwise",
    "fourier",
    "indexing",
    "linalg",
    "neural",
    "override_vjp",
    "reductions",
    "remove",
    "shape",
    "sorting",
    "spectra",
    "use_derived_vjp",
]
