"""Functions of SciPy that are linear in their data along an axis: the matrix is what SciPy makes of the
identity.

Results are products with a constant matrix, so they have derivatives of any order and run in any mode; the
price is a product of n by m entries for n samples. Only the data are differentiated: other arguments are
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

import iverson as iv
from iverson.core.dispatch import is_tracked
from iverson.core.errors import GradientError
from iverson.core.protocols import NDArray
from iverson.handles import Tensor
from iverson.handles.typing import ArrayLike

#: An argument that is handed on to SciPy, of whatever type SciPy takes there.
Setting: TypeAlias = Any


def theirs(name: str) -> Any:
    """SciPy's own function under a dotted name, inside of `iverson.interop.scipy.use`, too."""
    package, _, plain = name.rpartition(".")
    function = getattr(import_module(f"scipy.{package}"), plain)
    return function.theirs if type(function).__name__ == "Door" else function


def times(matrix: NDArray, x: Tensor, axis: int) -> Tensor:
    """The product of a matrix with the lines of a tensor along an axis."""
    lines = iv.moveaxis(x, axis, -1)
    return iv.moveaxis(lines @ iv.asarray(np.ascontiguousarray(matrix.T)), -1, axis)


def check_numbers(name: str, settings: dict[str, Setting]) -> None:
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

    def call(*args: Setting, **options: Setting) -> Tensor:
        extra = [*args[:data], *args[data + 1 :]]
        settings_by_name = dict(zip(names, extra, strict=False)) | options
        check_numbers(plain, settings_by_name)
        x = iv.asarray(args[data])
        x = x if x.dtype.kind in "fc" else iv.astype(x, "float64")
        axis = settings_by_name.pop("axis", -1)
        function = theirs(name)
        before = {k: settings_by_name.pop(k) for k in names[:data]}
        matrix = function(*before.values(), np.eye(x.shape[axis]), axis=0, **settings_by_name)
        return times(matrix, x, axis)

    call.__name__ = call.__qualname__ = plain
    call.__doc__ = f"`scipy.{name}`: linear in the data along an axis, by the matrix of SciPy's function."
    return call


def along_line(name: str) -> Callable[..., Tensor]:
    """A function of SciPy that is linear in a vector; other arguments are passed on."""
    plain = name.rpartition(".")[2]

    def call(x: ArrayLike, *args: Setting, **options: Setting) -> Tensor:
        check_numbers(plain, dict(enumerate(args)) | options)  # type: ignore[arg-type]
        vector = iv.asarray(x)
        columns = [theirs(name)(row, *args, **options) for row in np.eye(vector.shape[0])]
        return times(np.stack(columns, axis=1), vector, 0)

    call.__name__ = call.__qualname__ = plain
    call.__doc__ = f"`scipy.{name}`: linear in a vector, by the matrix of SciPy's function."
    return call


__all__ = ["Setting", "along_axis", "along_line", "check_numbers", "theirs", "times"]
