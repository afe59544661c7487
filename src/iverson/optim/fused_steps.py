"""`FusedStep`: the steps of all parameters as one compiled program, from the time at which steps look alike.

The program is what `iverson.jit` makes of a step: it reads each gradient once, and reads and writes each
parameter and its state once and in place. An update in NumPy takes some 30 us a parameter however small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from iverson.layouts import strided_operands
from iverson.transforms.disabled_compilation import is_disabled
from iverson.transforms.jit import jit

if TYPE_CHECKING:
    from iverson.handles.array import Array

#: Equal steps after which a program is made, which takes as long as some hundred of them.
AFTER = 8
#: Parameters from which it is faster.
LEAST = 4


class Stepper(Protocol):
    """An optimizer, as its fused steps see it (`iverson.optim.base.Optimizer`)."""

    params: list[Any]
    lr: float
    _facts: Any

    @property
    def _groups(self) -> Sequence[Stepper]: ...
    def step(self, gradients: list[Array | None], /) -> None: ...


class FusedStep:
    """Steps of one optimizer on whole gradients of the same parameters, shapes and dtypes.

    A change of anything but the rates, the gradients' entries and the parameters' begins the count anew.
    """

    __slots__ = ("_count", "_facts", "_fits", "_kind", "_owner", "_program")

    def __init__(self) -> None:
        self._count = 0
        self._fits = False
        self._kind: Any = None
        self._facts: list[object] = []
        self._owner: Callable[[], Stepper | None] = _nobody
        self._program: Callable[..., Any] | None = None

    def __call__(self, opt: Stepper, gradients: Sequence[Array | None]) -> bool:
        """Make a step if it is one of many; returns False, and has done nothing, if it is not (yet)."""
        if len(gradients) < LEAST or is_disabled():
            return False
        at = [k for k, g in enumerate(gradients) if g is not None]
        params = opt.params if len(at) == len(gradients) else [opt.params[k] for k in at]
        arrays: Any = gradients if len(at) == len(gradients) else [gradients[k] for k in at]
        of_params, of_gradients = _facts(params), _facts(arrays)
        if of_params is None or of_gradients is None:
            return False
        kind = at, of_params, of_gradients
        facts = [opt._facts, *(group._facts for group in opt._groups)]
        if kind != self._kind or self._owner() is not opt or not all(map(is_, facts, self._facts)):
            self._count, self._program, self._owner = 0, None, ref(opt)
            self._kind, self._facts = kind, facts
            self._fits = of_params == of_gradients and _in_floats(params)
        self._count += 1
        if self._count <= AFTER or not self._fits:
            return False
        if self._program is None:
            self._program = jit(_of_present(self._owner, at))
        for group in opt._groups:
            group.lr = float(group.lr)
        self._program(*arrays)
        return True


def _facts(tensors: Sequence[Array]) -> tuple[Any, ...] | None:
    """Shapes and dtypes of plain strided tensors, without a reference to their arrays; None for others."""
    plain = strided_operands(tensors)
    return None if plain is None else plain.facts


def _in_floats(params: Sequence[Array]) -> bool:
    """True if all parameters are float32 or float64: half precision is rounded once a step in eager code."""
    return all(p.dtype.char in "fd" for p in params)


def _nobody() -> None:
    """A reference to no optimizer."""


def _of_present(owner: Callable[[], Stepper | None], at: Sequence[int]) -> Callable[..., None]:
    """A step of the optimizer as a function of the gradients of the parameters ``at``."""

    def step(*present: Array) -> None:
        opt = owner()
        assert opt is not None
        gradients: list[Array | None] = [None] * len(opt.params)
        for k, g in zip(at, present, strict=True):
            gradients[k] = g
        opt.step(gradients)

    return step
