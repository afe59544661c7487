"""Fault reports: loops record an index that is outside its buffer, and an error follows after them.

A record holds two numbers for each place that is tested: whether it was ever outside, and an index that
was. Loops of several threads may write them at once: any of the indices will do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.codegen.nests.access_checks import Access, Plan
from iverson.core.errors import IndexingError
from iverson.expr.print import exact_text

Array = np.ndarray[Any, Any]
#: Strides of a buffer that is read only to check positions on an axis of its extent. Its label is the
#: argument that is checked, and its kernel is named ``operation@least``. Of a position x below 0, the index
#: is x + extent, or x - extent where x is below a least that refuses some that count from the end.
PROBE = (0,)


def record(plan: Plan) -> Array:
    """New record of faults, with none: for each place that ``plan`` tests, a flag and an index."""
    return np.zeros((max(len(plan.reported), 1), 2), np.int64)


def check(name: str, plan: Plan, found: Array, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise IndexingError for the first place that the record ``found`` reports, if there is one.

    name : the kernel's, for the error.
    shapes : of the arrays of the call, by buffer.
    """
    if not found[:, 0].any():
        return
    number = int(np.flatnonzero(found[:, 0])[0])
    raise error(name, plan.reported[number], int(found[number, 1]), shapes)


def error(name: str, access: Access, index: int, shapes: dict[str, tuple[int, ...]]) -> IndexingError:
    """IndexingError that says that ``index`` is outside of the buffer of ``access``, in the kernel ``name``.

    For a buffer that only checks positions of an argument (`PROBE`), it names the position the user gave.
    """
    node, axis = access.node, access.axis
    extent = shapes[node.buffer.name][axis]
    if node.buffer.strides == PROBE:
        operation, _, least = name.rpartition("@")
        beyond = extent if int(least) > -extent else -extent
        return IndexingError(
            operation,
            node.buffer.label,
            got=f"position {index + beyond if index < 0 else index}",
            expected=f"one in [{least}, {extent})",
        )
    place = f"{node.buffer.name}[{', '.join(exact_text(i) for i in node.indices)}]"
    return IndexingError(
        f"codegen: kernel '{name}'",
        node.buffer.name,
        got=f"index {index} at axis {axis} of {place}",
        expected=f"indices from 0 to {extent - 1}" if extent else "no access, as it is empty",
        remedy="look for entries outside that range in the index arrays",
    )
