"""Views: parts of tensors that basic indexing, reshapes and permutations give, through which writes go.

A write into a part is a write into its base, the tensor that it is a part of; and what is written into the
base is in its parts. A part knows its base weakly, and its key; a base knows its parts weakly. (A base that
is a part itself is kept by its parts, as nobody else may: of `x.T[0]`, a write goes through the transpose.)
Nothing is done where parts are read. A write into a part assigns it to its place in the base, and one into a
base reads its parts anew, by the ops of any assignment and any part: so both are recorded, traced and mapped
as these. A part of rank 0 is a number, which is no part, as in NumPy.
"""

from __future__ import annotations

from functools import partial
from types import EllipsisType
from typing import Any, Protocol, Self, TypeVar
from weakref import ref

from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.tracked_guards import check_in_place
from iverson.core.dispatch import Handle, _default, bind, is_tracked, unwrap
from iverson.core.errors import GradientError
from iverson.core.op import Op
from iverson.core.protocols import Params, Shaped
from iverson.core.table import TABLE

T = TypeVar("T")
#: A key of basic indices; or a pair of an op that moves all entries of its operand, and its parameters.
Key = tuple[Any, ...]
#: A base, and the key of a part of it.
Base = tuple[Any, Key]


class Linked(Shaped, Protocol):
    """An array that may be a part of another, or have parts."""

    _link: Any

    def _become(self, result: Self, /) -> None:
        """Make this handle stand for ``result``."""

    def __getitem__(self, key: Key, /) -> Any: ...
    def __setitem__(self, key: Key | EllipsisType, value: Any, /) -> None: ...


class Link:
    """Relation of a handle to the tensor that it is a part of (its base), and to its own parts.

    base : a function that returns the base, or None if the base does not exist any more.
    key : the subscript of the part in the base, or the op and parameters that made it. Both are None if the
        handle is no part.
    parts : weak references to the parts of the handle.
    """

    __slots__ = ("base", "key", "parts")

    def __init__(self, base: Any = None, key: Any = None) -> None:
        self.base, self.key = base, key
        self.parts: list[Any] = []


#: For ops that move all entries, the op that moves them back, and its parameters.
_UNDONE: dict[str, Any] = {
    "reshape": lambda base, params: ("reshape", {"shape": base.shape}),
    "expand_dims": lambda base, params: ("reshape", {"shape": base.shape}),
    "squeeze": lambda base, params: ("reshape", {"shape": base.shape}),
    "flip": lambda base, params: ("flip", params),
    "permute_dims": lambda base, params: (
        "permute_dims",
        {"axes": tuple(sorted(range(base.ndim), key=params["axes"].__getitem__))},
    ),
}


def as_part(part: Linked, base: Linked, key: Key) -> Any:
    """The handle ``part``, linked as ``base[key]`` to its base, so that writes go through; a number is not
    linked.
    """
    if not part.shape or type(part) is not type(base):
        return part
    link: Any = _link_of(base)
    if link is None:
        link = base._link = Link()
    parts = link.parts
    if len(parts) > 7 and len(parts) & (len(parts) - 1) == 0:  # at each doubling
        parts[:] = [where for where in parts if where() is not None]
    parts.append(ref(part))
    part._link = Link(ref(base) if link.base is None else partial(_itself, base), key)
    return part


def moved_part(x: Linked, op: str, params: Params) -> Any:
    """Result of an op that moves all entries of ``x``, linked to ``x`` as a part of it."""
    record = TABLE[op]
    return as_part(_default[0].bind(record, (x,), params), x, (record, params))


def _itself(x: T) -> Any:
    return x


def _link_of(x: Linked | Handle) -> Link | None:
    kind: Any = type(x)
    try:
        return kind._link.__get__(x)  # not by getattr, which explains what is missing
    except AttributeError:
        return None


def is_linked(x: Handle) -> bool:
    """True if a handle is a part of another, or had parts."""
    return _link_of(x) is not None


def unlinked(handle: Handle) -> None:
    """Say of a handle without a link that it has none, so that reading its link takes no call of Python."""
    x: Any = handle
    x._link = _link_of(x)


def _is_moved(key: Key) -> bool:
    return len(key) == 2 and isinstance(key[0], Op)


def base_of(x: Linked) -> Base | None:
    """Base and key of a handle that is about to be written to.

    None where the handle is no part, or no reference to the base exists any more. Raises GradientError if
    the base may not be written to.
    """
    link = _link_of(x)
    if link is None or link.base is None:
        return None
    base = link.base()
    if base is None:
        link.base = None
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
    return base, link.key


def write_back(x: Linked, base: Base | None) -> None:
    """Write the value of ``x``, which was just written to, into the base of ``x``, too.

    base : what `base_of` returned before the write; nothing is done for None.
    """
    if base is not None:
        target, key = base
        link = x._link
        where, link.base = link.base, None  # it has what is written
        try:
            if _is_moved(key):
                back, params = _UNDONE[key[0].name](target, key[1])
                target[...] = bind(TABLE[back], (x,), params)
            else:
                target[key] = x
        finally:
            link.base = where


def read_again(x: Linked) -> None:
    """Give the parts of ``x`` their new values, after ``x`` was made to stand for another value."""
    base_link = _link_of(x)
    for where in tuple(base_link.parts) if base_link is not None else ():
        part = where()
        link = None if part is None else _link_of(part)
        if link is not None and link.base is not None and link.base() is x:
            key = link.key
            with recording(is_grad_enabled() or is_tracked(unwrap(part))):  # of a leaf, it stays recorded
                part._become(bind(key[0], (x,), key[1]) if _is_moved(key) else x[key])


__all__ = ["as_part", "base_of", "is_linked", "moved_part", "read_again", "unlinked", "write_back"]
