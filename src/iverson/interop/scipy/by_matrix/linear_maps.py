"""Functions of SciPy that are linear in their data along an axis: the matrix is what SciPy makes of the
identity.

Results are products with a constant matrix, so they have derivatives of any order and run in any mode; the
price is a product of n by m entries for n samples. Only the data are differentiated: other arguments are
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.dispatch import is_tracked
from iverson.core.errors import GradientError
from iverson.core.protocols import NDArray
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike


def theirs(name: str) -> Any:
    """SciPy's own function under a dotted name, inside of `iverson.interop.scipy.use`, too."""
    package, _, plain = name.rpartition(".")
    found = getattr(import_module(f"scipy.{package}"), plain)
    return found.theirs if type(found).__name__ == "Door" else found


def times(matrix: NDArray, x: Tensor, axis: int) -> Tensor:
    """The product of a matrix with the lines of a tensor along an axis."""
    moved = iv.moveaxis(x, axis, -1)
    return iv.moveaxis(moved @ iv.asarray(np.ascontiguousarray(matrix.T)), -1, axis)


def check_numbers(name: str, settings: dict[str, Any]) -> None:
    """Raise GradientError for a setting that tracks gradients."""
    for argument, value in settings.items():
        if is_tracked(value):
            raise GradientError(
                name,
                argument,
                got="a tensor that tracks gradients",
                expected="numbers: only the data are differentiated here",
                remedy="call detach()",
            )


def along_axis(name: str, settings: str, data: int = 0) -> Callable[..., Tensor]:
    """A function of SciPy that is linear along an axis: ``axis``, by name or in the order of its settings.

    name : dotted, in `scipy`. settings : the names of its other arguments, in SciPy's order.
    data : the position of the data among the arguments.
    """
    names = settings.split()
    plain = name.rpartition(".")[2]

    def call(*args: Any, **options: Any) -> Tensor:
        rest = [*args[:data], *args[data + 1 :]]
        given = dict(zip(names, rest, strict=False)) | options
        check_numbers(plain, given)
        x = iv.asarray(args[data])
        x = x if x.dtype.kind in "fc" else iv.astype(x, "float64")
        axis = given.pop("axis", -1)
        function = theirs(name)
        before = {k: given.pop(k) for k in names[:data]}
        matrix = function(*before.values(), np.eye(x.shape[axis]), axis=0, **given)
        return times(matrix, x, axis)

    call.__name__ = call.__qualname__ = plain
    call.__doc__ = f"`scipy.{name}`: linear in the data along an axis, by the matrix of SciPy's function."
    return call


def along_line(name: str) -> Callable[..., Tensor]:
    """A function of SciPy that is linear in a vector; other arguments are passed on."""
    plain = name.rpartition(".")[2]

    def call(x: ArrayLike, *args: Any, **options: Any) -> Tensor:
        check_numbers(plain, dict(enumerate(args)) | options)  # type: ignore[arg-type]
        vector = iv.asarray(x)
        columns = [theirs(name)(row, *args, **options) for row in np.eye(vector.shape[0])]
        return times(np.stack(columns, axis=1), vector, 0)

    call.__name__ = call.__qualname__ = plain
    call.__doc__ = f"`scipy.{name}`: linear in a vector, by the matrix of SciPy's function."
    return call


__all__ = ["along_axis", "along_line", "check_numbers", "theirs", "times"]
