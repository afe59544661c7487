"""The function of SciPy that is running, and what `iverson.interop.scipy` has for it, for errors.

The functions of the bridge are looked up in its own names, which are the table; it is imported when an error
is written, not before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

#: Packages whose frames lie between a user's call of SciPy and ours.
_BETWEEN = ("scipy", "numpy", "iverson")
#: Functions of SciPy's sparse arrays that take the other operand of an operator for an array.
_OPERATORS = {
    "_divide", "_matmul_dispatch", "_multiply_2d_with_broadcasting", "_rmatmul_dispatch", "multiply",
}  # fmt: skip


def running_call(depth: int = 1) -> str:
    """Dotted name of the public function of SciPy that the user's code called; "" if none is running.

    depth : number of calls from the frame of the caller up to the first frame that is examined.

    >>> running_call()
    ''
    """
    name = ""
    for frame in _inside(sys._getframe(depth)):
        name = _public_name(frame) or name
    return name


def is_sparse_operand(frame: FrameType) -> bool:
    """True if a frame is that of an operator of SciPy's sparse arrays, which asks what its other operand is.

    An operand that becomes an object array of rank 0 is no array to SciPy, so that its own operator is
    called.
    """
    return frame.f_code.co_name in _OPERATORS and _module(frame).startswith("scipy.sparse.")


#: Attributes of NumPy's arrays and of linear operators that SciPy reads of whatever it is handed.
ATTRIBUTES = frozenset(("dot", "flags", "matvec", "rmatvec"))


def namespace_of_numpy(frame: FrameType) -> ModuleType | None:
    """NumPy as array-api-compat has it, if the frame is its search for a namespace, among arrays of NumPy.

    There a tensor stands beside arrays of NumPy, and is converted to one or refused.
    """
    if frame.f_code.co_name != "array_namespace":
        return None
    if not any(type(x).__module__ == "numpy" and hasattr(x, "ndim") for x in frame.f_locals.get("xs", ())):
        return None
    package = str(frame.f_globals.get("__package__", "")).removesuffix(".common")
    return import_module(f"{package}.numpy") if package.endswith("array_api_compat") else None


def _inside(frame: FrameType | None) -> Iterator[FrameType]:
    """Frames of SciPy, of what it calls and of what calls us in between, from the innermost outwards."""
    while frame is not None:
        package = _module(frame).partition(".")[0]
        if package not in _BETWEEN:
            return
        if package == "scipy":
            yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _public_name(frame: FrameType) -> str:
    """Name of a frame's function, or of the class or distribution that it is a method of, in SciPy's
    packages.

    A decorator's frame is named after the function that it wraps.
    """
    candidates = [(_module(frame), frame.f_code.co_name)]
    for variable in frame.f_code.co_freevars:
        wrapped = frame.f_locals.get(variable)
        if str(getattr(wrapped, "__module__", "")).startswith("scipy."):
            candidates.append((wrapped.__module__, str(getattr(wrapped, "__name__", ""))))
    if "self" in frame.f_locals:
        instance = frame.f_locals["self"]
        kind = type(instance)
        candidates = [
            (m, n) for m in (_module(frame), kind.__module__) for n in (kind.__name__, _name_of(instance))
        ]
    return next(filter(None, (_in_package(module, name) for module, name in candidates)), "")


def _name_of(instance: object) -> str:
    """The name that a distribution has."""
    return str(vars(instance).get("name", "")) if hasattr(instance, "__dict__") else ""


def _in_package(module: str, name: str) -> str:
    """Dotted name in the public package of a module of SciPy; "" where it is none there."""
    parts = module.split(".")
    private = [k for k, part in enumerate(parts) if part.startswith("_")]
    parts = parts[: private[0]] if private else parts
    while len(parts) > 1:
        if name in getattr(sys.modules.get(".".join(parts)), "__all__", ()):
            return f"{'.'.join(parts)}.{name}"
        parts = parts[:-1]
    return ""


def counterpart(name: str) -> str:
    """Dotted name of what Iverson has for a function of SciPy; "" if there is none.

    >>> counterpart("scipy.linalg.expm"), counterpart("scipy.linalg.find_best_blas_type")
    ('iverson.interop.scipy.linalg.expm', '')
    """
    ours: str = import_module("iverson.interop.scipy.door").counterpart_name(name)
    return ours


def counterpart_function(name: str) -> Callable[..., Any] | None:
    """Function that Iverson has for a function of SciPy that is loaded; None if there is none."""
    package, _, plain = name.rpartition(".")
    if not hasattr(sys.modules.get(package), plain):
        return None
    ours: Callable[..., Any] | None = import_module("iverson.interop.scipy.door").counterpart(name)
    return ours


def way_out(name: str) -> str:
    """Remedy in place of a call of a function of SciPy on tensors that track gradients.

    >>> way_out("scipy.linalg.find_best_blas_type")
    'write it with functions of iverson, as there is none for it; or call x.detach() to drop the gradient'
    """
    ours = counterpart(name)
    if not ours:
        return (
            "write it with functions of iverson, as there is none for it; or call x.detach() to drop the "
            "gradient"
        )
    return f"call {ours}, or {name} inside of `with iverson.interop.scipy.use():`"


__all__ = [
    "ATTRIBUTES", "counterpart", "counterpart_function", "is_sparse_operand", "namespace_of_numpy",
    "running_call", "way_out",
]  # fmt: skip
