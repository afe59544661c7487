"""Layouts: how the entries of a tensor are stored, i.e. its support; a folder for each layout.

A layout is a value type with ``shape`` and ``dtype``, registered with a `Layout` record. It never changes
the mathematics. The operations on a layout's values are in `iverson.kernels`, not here.

Import rule: `layouts` imports `core` alone; each module or folder imports only those before it in this list.

- `layout_registry`: the record of a layout, and the registry.
- `strided`: NumPy arrays, in which every entry is stored; who owns their memory, by reference counts.
- `packed`: the layout of the entries at which a mask holds.
- `counting_sorts`: linear passes over the lines of compressed matrices.
- `weak_tables`: tables that forget a pattern when it is no longer in use.
- `pattern`: patterns, and sparse values as a pattern with an array of values.
- `placement`: where the entries of one pattern are in another.
- `coo`: the layout of an index per stored entry.
- `zero`: the layout of an array without nonzero entries.
- `box`: the layout of a smaller tensor at an offset.
- `bracket`: the layout of values under a condition.
- `compressed`: the layouts CSR, CSC, BSR and BSC.
- `conversion`: values from one layout into another.
- `segment_numbers`: the segment of each slice, as an array of numbers.
- `pattern_parts`: ranges of lines and boxes of a pattern.
- `pattern_symbols`: patterns that are known only when a program runs.
- `block_diagonal`: batches of sparse matrices as one sparse matrix.
"""

from iverson.layouts.box import Box, boxed
from iverson.layouts.bracket import Bracket, select
from iverson.layouts.compressed import Bsc, Bsr, CompressedPattern, Csc, Csr, arrange
from iverson.layouts.conversion import can_hold, convert, from_strided, nonzero_indices, to_coo
from iverson.layouts.coo import Coo, CooPattern, coalesced, distinct
from iverson.layouts.layout_registry import (
    Layout,
    entries,
    layout_named,
    layout_of,
    layouts,
    layouts_by_type,
    new_bytes,
    register,
    sparse_layouts,
    stored,
    support_of,
    support_pattern,
    to_strided,
    warn_dense,
)
from iverson.layouts.packed import Packed
from iverson.layouts.pattern import Pattern, Sparse, frozen
from iverson.layouts.segment_numbers import row_numbers
from iverson.layouts.segment_numbers import starts as segment_starts
from iverson.layouts.strided import (
    Strided,
    aligned_empty,
    aligned_zeros,
    are_strided,
    has_one_owner,
    holds_alone,
    is_strided,
    read_only,
    strided_operands,
)
from iverson.layouts.zero import Zero

__all__ = [
    "Box",
    "Bracket",
    "Bsc",
    "Bsr",
    "CompressedPattern",
    "Coo",
    "CooPattern",
    "Csc",
    "Csr",
    "Layout",
    "Packed",
    "Pattern",
    "Sparse",
    "Strided",
    "Zero",
    "aligned_empty",
    "aligned_zeros",
    "are_strided",
    "arrange",
    "boxed",
    "can_hold",
    "coalesced",
    "convert",
    "distinct",
    "entries",
    "from_strided",
    "frozen",
    "has_one_owner",
    "holds_alone",
    "is_strided",
    "layout_named",
    "layout_of",
    "layouts",
    "layouts_by_type",
    "new_bytes",
    "nonzero_indices",
    "read_only",
    "register",
    "row_numbers",
    "segment_starts",
    "select",
    "sparse_layouts",
    "stored",
    "strided_operands",
    "support_of",
    "support_pattern",
    "to_coo",
    "to_strided",
    "warn_dense",
]
