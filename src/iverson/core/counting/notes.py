"""Notes of skipped work, and of calls of compiled functions in a trace, for counters that keep notes.

Apart from the counters (`core.counting.work`), as most programs keep no notes: a module that makes one
imports this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iverson.core.entries import NOTHING, Entries


@dataclass(frozen=True, slots=True)
class Skip:
    """A cotangent that a reverse pass does not compute, or computes only in part.

    node : the recorded call whose input has this cotangent.
    position : the position of the input.
    reason : "undefined" (the call got no cotangent, or a cotangent that is zero there), "not needed" (nothing
        reads it), "box" or "pattern" (only entries in a box or pattern are read, or can be nonzero).
    part : the entries of it that are computed.
    beside : positions of inputs whose cotangents are computed, or noted before this one: work that the rule
        shares with theirs is not saved, or not saved again.
    """

    node: Any
    position: int
    reason: str
    part: Entries = NOTHING
    beside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Annihilated:
    """A call that is not carried out while a function is traced, since operands that are zero make it zero.

    operands : the Aval of each, or numbers.
    where : the user's call.
    """

    op: Any
    operands: tuple[Any, ...]
    params: Any
    where: Any


@dataclass(frozen=True, slots=True)
class Unspecified:
    """A call on masked tensors that computes only the specified entries.

    name : the op's.
    size : the number of entries of the largest of its operands and results.
    specified : the number of these entries that are specified.
    itemsize : the bytes of an entry.
    where : the user's call.
    """

    name: str
    size: int
    specified: int
    itemsize: int
    where: Any


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a compiled function while another is traced: its equations become part of that trace.

    function : the compiled function.
    args, kwargs : arguments of the same types, without their entries.
    tracked : for each tensor among them, True if it is differentiated.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tracked: tuple[bool, ...]
