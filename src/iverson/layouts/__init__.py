"""Layouts: how the entries of a tensor are held, i.e. its support. A folder each.

A layout is a value type with ``shape`` and ``dtype``, registered with a `Layout` record. It never changes
the mathematics. What operations do with a layout's values is in `iverson.kernels`, not here.
"""

from iverson.layouts.box import Box
from iverson.layouts.bracket import Bracket, select
from iverson.layouts.compressed import Bsc, Bsr, CompressedPattern, Csc, Csr, arrange
from iverson.layouts.conversion import can_hold, convert, from_strided, nonzero_indices, to_coo
from iverson.layouts.coo import Coo, CooPattern, coalesced
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
    "can_hold",
    "coalesced",
    "convert",
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
