"""The op table: every fact of an op in one place, a file per family. Rules are written against ``F``.

Import rule: `ops` imports `core`, `layouts`, `te` and `kernels`; each sub-package imports only those before
it in this list.

- `rules`: batching, entry maps, compiled bodies and index notation, which the records of ops share.
- `numbers`: ops that compute: elementwise, selections, reductions, scans, softmax, Fourier transforms.
- `moves`: ops that move, choose or order entries.
- `linear_algebra`: matrix products, solves, decompositions and functions of matrices.
"""

from iverson.core.table import LIBRARY, TABLE, F, define, defined, derived, override_vjp, remove
from iverson.ops.linear_algebra import (
    decomposition_ops,
    kronecker_ops,
    krylov_ops,
    lu_ops,
    matrix_function_ops,
    product_ops,
    spectral_ops,
    toeplitz_ops,
    triangular_ops,
)
from iverson.ops.moves import (
    extremum_ops,
    indexing_ops,
    packing_ops,
    pattern_ops,
    segment_ops,
    shape_ops,
    sorting_ops,
)
from iverson.ops.numbers import (
    elementwise_ops,
    fourier_ops,
    neural_ops,
    reduction_ops,
    scan_ops,
    selection_ops,
)

LIBRARY.update(TABLE)

__all__ = [
    "TABLE",
    "F",
    "decomposition_ops",
    "define",
    "defined",
    "derived",
    "elementwise_ops",
    "extremum_ops",
    "fourier_ops",
    "indexing_ops",
    "kronecker_ops",
    "krylov_ops",
    "lu_ops",
    "matrix_function_ops",
    "neural_ops",
    "override_vjp",
    "packing_ops",
    "pattern_ops",
    "product_ops",
    "reduction_ops",
    "remove",
    "scan_ops",
    "segment_ops",
    "selection_ops",
    "shape_ops",
    "sorting_ops",
    "spectral_ops",
    "toeplitz_ops",
    "triangular_ops",
]
