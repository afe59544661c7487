"""`disable_jit`: compiled functions, loops and branches as the Python that they are written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from iverson.core.inputs.arguments import checked
from iverson.core.protocols import Pytree
from iverson.handles import asarray
from iverson.transforms.trees import R, flatten, unflatten

_disabled: ContextVar[bool] = ContextVar("iverson_disabled", default=False)
#: True if nothing is compiled in this context.
is_disabled = _disabled.get


@checked
@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Within, functions compiled by `jit` run as Python, and so do `scan`, `cond`, loops and `checkpoint`.

    Parameters
    ----------
    disable : False lets them be compiled again, within.

    So a debugger stops in them, entries can be printed and read, and an error has the user's lines. Results
    are those of compiled code, up to rounding; memory is that of eager code.

    >>> import iverson as iv
    >>> @iv.jit
    ... def f(x):
    ...     print(x)
    ...     return x * 2.0
    >>> with iv.disable_jit():
    ...     f(iv.asarray([1.0, 2.0]))
    iverson.Tensor([1., 2.])
    iverson.Tensor([2., 4.])
    """
    token = _disabled.set(bool(disable))
    try:
        yield
    finally:
        _disabled.reset(token)


def as_python(function: Callable[..., R], args: tuple[Pytree, ...], kwargs: dict[str, Pytree]) -> R:
    """A call of a function as it is, with tensors for arrays, as its compiled form gets them."""
    leaves, structure = flatten((args, kwargs))
    if any(isinstance(x, np.ndarray | np.generic) for x in leaves):
        leaves = [asarray(x) if isinstance(x, np.ndarray | np.generic) else x for x in leaves]
        args, kwargs = unflatten(structure, leaves)
    return function(*args, **kwargs)


__all__ = ["as_python", "disable_jit", "is_disabled"]
