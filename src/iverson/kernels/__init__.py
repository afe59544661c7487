"""Kernels: bodies per (op family, layout), in NumPy and SciPy.

Strided bodies that are more than one NumPy call live here; bodies for other layouts register themselves
under the op's name or family. Kernels work on layouts' values and know nothing of gradients.
"""

from iverson.kernels import (
    box,
    box_moves,
    bracket,
    krylov_solvers,
    packed,
    segment_kernels,
    zero,
)
from iverson.kernels.kernel_registry import register, run
from iverson.kernels.sparse import (
    sparse_assignments,
    sparse_elementwise,
    sparse_kron,
    sparse_moves,
    sparse_products,
    sparse_reductions,
    sparse_values,
)

__all__ = [
    "box",
    "box_moves",
    "bracket",
    "krylov_solvers",
    "packed",
    "register",
    "run",
    "segment_kernels",
    "sparse_assignments",
    "sparse_elementwise",
    "sparse_kron",
    "sparse_moves",
    "sparse_products",
    "sparse_reductions",
    "sparse_values",
    "zero",
]
