"""Kernels: the bodies of ops per layout, in NumPy, SciPy and compiled loops, and the choice among them.

A kernel is registered for a layout under an op's name or family. Strided bodies that take more than one NumPy
call are here too; those of one call stand in the op's record. Kernels work on layouts' values and know
nothing of gradients.

Import rule: `kernels` imports `core`, `expr`, `layouts`, `codegen` and `te`; its modules and `sparse` have no
import cycle.

- `kernel_registry`: registration of kernels, the zero rule, and the choice of a kernel for a call.
- `index_keys`: basic index keys in canonical form, and the regions they read.
- `region_images`: where ops that move entries take a region.
- `zero`: kernels for the zero layout.
- `strided`: bodies on NumPy arrays.
- `compiled_elementwise`: elementwise functions, recurrences and optimizer steps as compiled loops.
- `packed`: kernels for the packed layout.
- `partial`: boxes and selections not yet made, once for eager code and for compiled graphs.
- `array_ops`: the bodies of ops by name.
- `entry_rules`: entries of results from those of operands, once for eager code and for compiled graphs.
- `line_rules`: reductions of lines of stored entries, once for eager code and for compiled graphs.
- `terms`: matrix products in which absent entries take no part.
- `sparse`: kernels for the sparse layouts, COO and compressed.
- `segment_kernels`: maximum and softmax over segments.
- `krylov_solvers`: iterative solvers and eigensolvers.
- `deferred_patterns`: the pattern of a traced or batched value, found on demand.
"""

from iverson.kernels import (
    krylov_solvers,
    packed,
    segment_kernels,
    zero,
)
from iverson.kernels.kernel_registry import register, run
from iverson.kernels.partial import partial_kernels
from iverson.kernels.sparse import (
    sparse_assignments,
    sparse_conversion,
    sparse_elementwise,
    sparse_kron,
    sparse_moves,
    sparse_products,
    sparse_reductions,
)

__all__ = [
    "krylov_solvers",
    "packed",
    "partial_kernels",
    "register",
    "run",
    "segment_kernels",
    "sparse_assignments",
    "sparse_conversion",
    "sparse_elementwise",
    "sparse_kron",
    "sparse_moves",
    "sparse_products",
    "sparse_reductions",
    "zero",
]
