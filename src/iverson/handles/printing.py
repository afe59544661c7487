"""The ``repr`` of a Tensor."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from iverson.core import dtypes
from iverson.core.dispatch import has_entries
from iverson.core.protocols import Shaped
from iverson.layouts import layout_of, to_strided

_PLAIN = (dtypes.float64, dtypes.int64, dtypes.bool, dtypes.complex128)


class Printable(Shaped, Protocol):
    """An array, as far as texts ask for it."""

    @property
    def size(self) -> int:
        """The number of entries."""

    @property
    def requires_grad(self) -> bool:
        """True if gradients are tracked."""


class PrintableTensor(Printable, Protocol):
    """A Tensor, as far as texts ask for it."""

    _value: Any


def show(x: PrintableTensor) -> str:
    """Text like ``iverson.Tensor([1., 2.])``, with dtype, layout and requires_grad if they are not the
    default.

    The shape stands in place of the entries if these are not known, or for a large sparse tensor.
    """
    layout = layout_of(x._value).name
    prefix = "iverson.Tensor("
    facts = []
    if not has_entries(x):
        body = f"shape={x.shape}"
    elif layout == "strided" or x.size <= np.get_printoptions()["threshold"]:
        entries = to_strided(x._value)
        if dtypes.is_bfloat16(x.dtype):  # which NumPy prints as objects
            entries = entries.astype(np.float32)
        body = np.array2string(entries, separator=", ", prefix=prefix)
    else:
        body = f"shape={x.shape}"
    if 0 in x.shape and x.shape != (0,):
        facts.append(f"shape={x.shape}")
    if x.dtype not in _PLAIN or x.size == 0:
        facts.append(f"dtype={x.dtype}")
    if layout != "strided":
        facts.append(f"layout={layout!r}")
    if x.requires_grad:
        facts.append("requires_grad=True")
    return prefix + ", ".join([body, *facts]) + ")"
