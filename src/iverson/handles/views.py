"""Parts of tensors, as basic indexing makes them: a write into one is a write into the tensor it is of.

A part knows its base weakly, and its key. Nothing is done where parts are read. A write brings the part up to
date with its base, writes into it, and assigns it to its place in the base, by the ops of any assignment: so
it is recorded, traced and mapped as one. A part of rank 0 is a number, which is no part, as in NumPy.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from iverson.autograd.guards import check_in_place
from iverson.core.dispatch import tick, unwrap
from iverson.core.errors import GradientError

#: A base, and the key of a part of it.
Base = tuple[Any, tuple[Any, ...]]


def as_part(part: Any, base: Any, key: tuple[Any, ...]) -> Any:
    """The handle of ``base[key]``, which knows that it is that."""
    if part.shape and type(part) is type(base):
        part._part = ref(base), key, tick()
    return part


def base_of(x: Any) -> Base | None:
    """What a handle that is about to be written to is a part of, and its key there; it is up to date then.

    None where it is a tensor of its own, or nobody has the base any more. Raises GradientError where the base
    may not be written to.
    """
    kind: Any = type(x)
    try:
        reference, key, made = kind._part.__get__(x)
    except AttributeError:  # not by getattr, which explains what is missing
        return None
    base = reference()
    if base is None:
        del x._part
        return None
    try:
        check_in_place(unwrap(base), "assignment")
    except GradientError as error:
        raise GradientError(
            "assignment",
            "x",
            got="a part of a leaf that tracks gradients, which would be written to with it",
            expected="a result, a tensor of its own, or no_grad()",
            remedy="copy the part first: iverson.asarray(x[i], copy=True)",
        ) from error
    base_of(base)
    if _last_write(base) > made:
        x._become(base[key])
        x._part = reference, key, tick()
    return base, key


def _last_write(x: Any) -> int:
    kind: Any = type(x)
    try:
        at: int = kind._written.__get__(x)
        return at
    except AttributeError:
        return 0


def write_back(x: Any, base: Base | None) -> None:
    """After a write into a handle: the same in the base that `base_of` gave before."""
    if base is not None:
        whole, key = base
        whole[key] = x
        x._part = ref(whole), key, tick()


__all__ = ["as_part", "base_of", "write_back"]
