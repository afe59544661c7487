"""Parts of tensors, as basic indexing, reshapes and permutations make them: a write into one is a write into
the tensor it is of, and what is written into that is in its parts.

A part knows its base weakly, and its key; a base knows its parts weakly. (A base that is a part itself is
kept by its parts, as nobody else may: of `x.T[0]`, a write goes through the transpose.) Nothing is done where
parts are read. A write into a part assigns it to its place in the base, and one into a base reads its parts
anew, by the ops of any assignment and any part: so both are recorded, traced and mapped as these. A part of
rank 0 is a number, which is no part, as in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import ref

from iverson.autograd.guards import check_in_place
from iverson.autograd.mode import is_grad_enabled, recording
from iverson.core.dispatch import bind, is_tracked, unwrap
from iverson.core.errors import GradientError
from iverson.core.table import TABLE


@dataclass(frozen=True, slots=True)
class Moved:
    """In place of a key: the part has all entries of its base, moved by an op.

    op, params : the op; back, undo : the one that moves them back, and its parameters.
    """

    op: str
    params: dict[str, Any]
    back: str
    undo: dict[str, Any]


Key = tuple[Any, ...] | Moved
#: A base, and the key of a part of it.
Base = tuple[Any, Key]


def as_part(part: Any, base: Any, key: Key) -> Any:
    """The handle of ``base[key]``, which knows that it is that."""
    if part.shape and type(part) is type(base):
        part._part = (ref(base) if _slot(base, "_part") is None else partial(_itself, base)), key
        parts = _slot(base, "_parts")
        if parts is None:
            parts = base._parts = []
        elif len(parts) & (len(parts) - 1) == 0:  # at each doubling
            parts[:] = [where for where in parts if where() is not None]
        parts.append(ref(part))
    return part


def moved(x: Any, op: str, params: dict[str, Any], back: str, undo: dict[str, Any]) -> Any:
    """What an op that moves all entries gives of x, as a part of it; the parameters are those of `Moved`."""
    return as_part(bind(TABLE[op], (x,), params), x, Moved(op, params, back, undo))


def permuted(x: Any, axes: tuple[int, ...]) -> Any:
    """x with its axes in another order, as a part of it."""
    undo = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return moved(x, "permute_dims", {"axes": axes}, "permute_dims", {"axes": undo})


def _itself(x: Any) -> Any:
    return x


def _slot(x: Any, name: str) -> Any:
    """An attribute that is set on few; None where it is not."""
    try:
        return getattr(type(x), name).__get__(x)
    except AttributeError:  # not by getattr, which explains what is missing
        return None


def base_of(x: Any) -> Base | None:
    """What a handle that is about to be written to is a part of, and its key there.

    None where it is a tensor of its own, or nobody has the base any more. Raises GradientError where the base
    may not be written to.
    """
    known = _slot(x, "_part")
    if known is None:
        return None
    reference, key = known
    base = reference()
    if base is None:
        del x._part
        return None
    try:
        check_in_place(unwrap(base), "assignment")
        base_of(base)
    except GradientError as error:
        raise GradientError(
            "assignment",
            "x",
            got="a part of a leaf that tracks gradients, which would be written to with it",
            expected="a result, a tensor of its own, or no_grad()",
            remedy="copy the part first: iverson.asarray(x[i], copy=True)",
        ) from error
    return base, key


def write_back(x: Any, base: Base | None) -> None:
    """After a write into a handle: the same in the base that `base_of` gave before."""
    if base is not None:
        whole, key = base
        known = x._part
        x._part = None  # it has what is written
        try:
            if type(key) is Moved:
                whole[...] = bind(TABLE[key.back], (x,), key.undo)
            else:
                whole[key] = x
        finally:
            x._part = known


def read_again(x: Any) -> None:
    """After a handle was made to stand for another value: its parts are of that."""
    for where in tuple(_slot(x, "_parts") or ()):
        part = where()
        known = None if part is None else _slot(part, "_part")
        if known is not None and known[0]() is x:
            key = known[1]
            with recording(is_grad_enabled() or is_tracked(unwrap(part))):  # of a leaf, it stays recorded
                part._become(bind(TABLE[key.op], (x,), key.params) if type(key) is Moved else x[key])


__all__ = ["as_part", "base_of", "moved", "permuted", "read_again", "write_back"]
