"""`use`: SciPy's own names on tensors, for the duration of a ``with`` block.

The table from SciPy's functions to ours is the names of this package: what a module here has under SciPy's
name is the counterpart. `use` replaces SciPy's names by doors, which look at the arguments: tensors go to the
counterpart, all else to SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

import iverson as iv
from iverson.core.dispatch import Operand, is_tracked
from iverson.core.errors import GradientError, IversonError
from iverson.core.protocols import Pytree
from iverson.core.python import locks
from iverson.core.python.scipy_calls import way_out

#: The packages of SciPy that have counterparts, as modules here; those of one name with `scipy` after them.
PACKAGES = (
    "special", "linalg", "stats", "signal", "ndimage", "interpolate", "optimize", "integrate", "fft",
    "spatial", "spatial.distance", "sparse.linalg", "sparse.csgraph",
)  # fmt: skip

#: A function, class or distribution, of SciPy or of ours.
Named: TypeAlias = Any


@cache
def _ours(package: str) -> dict[str, Named]:
    """Counterparts of a package of SciPy by name."""
    module = import_module(f"iverson.interop.scipy.{package}")
    return {name: getattr(module, name) for name in module.__all__}


def counterpart_name(name: str) -> str:
    """Dotted name of our function for one of SciPy; "" if there is none.

    >>> counterpart_name("scipy.signal.lfilter")
    'iverson.interop.scipy.signal.lfilter'
    """
    package, _, plain = name.removeprefix("scipy.").rpartition(".")
    return f"iverson.interop.scipy.{package}.{plain}" if counterpart(name) is not None else ""


def counterpart(name: str) -> Named | None:
    """Function that we have for a dotted name of SciPy; None if there is none."""
    package, _, plain = name.removeprefix("scipy.").rpartition(".")
    return _ours(package).get(plain) if package in PACKAGES else None


class Door:
    """One name of SciPy inside of `use`: a function, a class, or a distribution with its methods.

    A call with tensors among its arguments is one of the counterpart. Without a counterpart it is one of
    SciPy on tensors alone, which is right where SciPy takes any array, and raises GradientError where SciPy
    fails.
    """

    def __init__(self, name: str, theirs: Named, ours: Named | None) -> None:
        self._name, self.theirs, self._ours = name, theirs, ours
        self.__wrapped__ = self.theirs
        self.__doc__ = theirs.__doc__
        self.__name__ = name.rpartition(".")[2]

    def __call__(self, *args: Pytree, **kwargs: Pytree) -> Any:
        tensors = _any_tensor((args, kwargs))
        if self._ours is not None and (tensors or getattr(self._ours, "of_arrays", False)):
            return self._ours(*args, **kwargs)
        try:
            return (
                self.theirs(*_as_tensors(args), **_as_tensors(kwargs))
                if tensors
                else self.theirs(*args, **kwargs)
            )
        except IversonError:
            raise
        except Exception as error:
            is_any_tracked = _any_tensor((args, kwargs), is_tracked)
            if tensors and not is_any_tracked:
                return self.theirs(*_as_arrays(args), **_as_arrays(kwargs))
            if not is_any_tracked and "iverson" not in str(
                error
            ):  # what a function that SciPy was handed has given
                raise
            raise GradientError(
                self._name,
                got=f"tensors that track gradients, with which SciPy fails ({type(error).__name__}: {error})",
                expected="a function that Iverson has",
                remedy=way_out(self._name),
            ) from error

    def __getattr__(self, name: str) -> Any:
        theirs = getattr(self.theirs, name)
        if name.startswith("_") or not callable(theirs):
            return theirs
        return Door(f"{self._name}.{name}", theirs, getattr(self._ours, name, None))

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self.theirs)

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(kind, self.theirs)

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        return (self.theirs,)

    def __repr__(self) -> str:
        return f"<{self._name}, with counterparts of iverson for tensors>"


def _any_tensor(tree: Pytree, condition: Callable[[Operand], bool] = lambda _: True) -> bool:
    if isinstance(tree, (list, tuple)):
        return any(_any_tensor(item, condition) for item in tree)
    if isinstance(tree, dict):
        return any(_any_tensor(item, condition) for item in tree.values())
    return isinstance(tree, Operand) and condition(tree)


def _mapped(change: Callable[[Any], Any], tree: Pytree) -> Any:
    """The tree with its leaves changed; tuples that are more than that stay as they are."""
    if type(tree) in (list, tuple):
        return type(tree)(_mapped(change, item) for item in tree)
    if type(tree) is dict:
        return {key: _mapped(change, item) for key, item in tree.items()}
    return change(tree)


def _as_tensors(tree: Pytree) -> Any:
    return _mapped(lambda x: iv.asarray(x) if type(x) is np.ndarray and x.dtype.kind in "biufc" else x, tree)


def _as_arrays(tree: Pytree) -> Any:
    return _mapped(lambda x: np.array(x) if isinstance(x, Operand) else x, tree)


class Patch:
    """Names of modules that a ``with`` block replaces for its duration; blocks nest, in all threads.

    replacements : called as the first block begins: modules, names, and what to put under them.
    """

    def __init__(self, replacements: Callable[[], Iterator[tuple[ModuleType, str, Named]]]) -> None:
        self.lock, self.count, self.replacements = locks.reentrant_lock(), 0, replacements
        self.originals: list[tuple[ModuleType, str, Named]] = []

    def enter(self) -> None:
        """Replace the names, where this is the first block."""
        with self.lock:
            self.count += 1
            if self.count == 1:
                for module, name, value in self.replacements():
                    self.originals.append((module, name, vars(module).get(name, _ABSENT)))
                    setattr(module, name, value)

    def leave(self) -> None:
        """Put the names back, where this is the last block."""
        with self.lock:
            self.count -= 1
            if self.count == 0:
                for module, name, theirs in self.originals:
                    if theirs is _ABSENT:
                        delattr(module, name)
                    else:
                        setattr(module, name, theirs)
                self.originals.clear()


_ABSENT = object()


def _doors() -> Iterator[tuple[ModuleType, str, Named]]:
    """Doors in place of SciPy's functions, classes and distributions."""
    for package in PACKAGES:
        module, ours = import_module(f"scipy.{package}"), _ours(package)
        for name in module.__all__:
            theirs = getattr(module, name)
            if isinstance(theirs, ModuleType) or not (callable(theirs) or name in ours):
                continue
            if isinstance(theirs, type) and issubclass(theirs, BaseException):
                continue
            yield module, name, Door(f"scipy.{package}.{name}", theirs, ours.get(name))


_patch = Patch(_doors)


@contextmanager
def use() -> Iterator[None]:
    """SciPy's own names on tensors, in a ``with`` block: ``scipy.linalg.expm(x)``.

    While a block runs, a call of a function of SciPy by way of its module (``scipy.linalg.expm``,
    ``stats.norm.logpdf``) with a tensor among its arguments is one of the counterpart in
    `iverson.interop.scipy`; all other calls are SciPy's. Names that were imported from a module before
    (``from scipy.linalg import expm``) stay SciPy's. Blocks nest; the names are replaced for all threads.

    Raises GradientError, in the block, where there is no counterpart and SciPy cannot compute with tensors.

    >>> import scipy.linalg
    >>> x = iv.asarray([[0.0, 1.0], [0.0, 0.0]], requires_grad=True)
    >>> with use():
    ...     y = scipy.linalg.expm(x)
    >>> iv.autograd.grad(y.sum(), x)[1, 0].round(decimals=6)
    iverson.Tensor(2.166667)
    """
    _patch.enter()
    try:
        yield
    finally:
        _patch.leave()


__all__ = ["PACKAGES", "Door", "Patch", "counterpart_name", "use"]
