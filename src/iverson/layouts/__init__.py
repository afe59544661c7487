"""Layouts: how the entries of a tensor are held, i.e. its support. A folder each.

A layout is a value type with ``shape`` and ``dtype``, registered with a `Layout` record. It never changes
the mathematics. What operations do with a layout's values is in `iverson.kernels`, not here.
"""

from iverson.layouts.box import Box
from iverson.layouts.registry import (
    Layout,
    layout_of,
    layouts,
    layouts_by_type,
    nbytes,
    register,
    support_region,
    to_strided,
)
from iverson.layouts.strided import aligned_empty, aligned_zeros
from iverson.layouts.zero import Zero

__all__ = [
    "Box",
    "Layout",
    "Zero",
    "aligned_empty",
    "aligned_zeros",
    "layout_of",
    "layouts",
    "layouts_by_type",
    "nbytes",
    "register",
    "support_region",
    "to_strided",
]
