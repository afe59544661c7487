"""Functional forms of the optimizers by name, ``sgd`` to ``muon``, with the hyperparameters of their classes.

Type checkers and editors read their signatures in the stub beside this file, which `tools/stubs.py` writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from iverson.array_api.entries.creation import zeros
from iverson.core.inputs.arguments import checked
from iverson.handles import Tensor
from iverson.optim.base import Optimizer
from iverson.optim.functional import Functional, LearningRate, Setting
from iverson.optim.optimizers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lion,
    Muon,
    NAdam,
    RAdam,
    RMSprop,
)


def _form(kind: type[Optimizer]) -> Callable[..., Functional]:
    """The functional form of an optimizer: a function of the hyperparameters of its class."""
    name = kind.__name__.lower()
    before = inspect.signature(kind)
    hyperparameters = [
        p.replace(annotation="LearningRate") if p.name == "lr" else p
        for p in before.parameters.values()
        if p.name != "params"
    ]
    signature = before.replace(parameters=hyperparameters, return_annotation="Functional")

    def form(*args: LearningRate | Setting, **settings: LearningRate | Setting) -> Functional:
        try:
            bound = signature.bind(*args, **settings)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        bound.apply_defaults()
        lr = bound.arguments.pop("lr")
        rate = 0.0 if callable(lr) or isinstance(lr, Tensor) else lr
        return Functional(kind([zeros((1, 1), requires_grad=True)], lr=rate, **bound.arguments), lr)

    form.__name__ = form.__qualname__ = name
    example = f">>> {name}(0.1).lr\n0.1"
    form.__doc__ = (
        f"Functional form of `{kind.__name__}`: its hyperparameters without the parameters.\n\n{example}"
    )
    form.__annotations__ = {p.name: p.annotation for p in hyperparameters} | {"return": "Functional"}
    form.__signature__ = signature  # type: ignore[attr-defined]
    return checked(form)


#: The optimizers that have a functional form.
KINDS: tuple[type[Optimizer], ...] = (
    SGD, Adam, AdamW, Adamax, NAdam, RAdam, Lion, Adagrad, Adadelta, RMSprop, Muon
)  # fmt: skip

globals().update({kind.__name__.lower(): _form(kind) for kind in KINDS})
__all__ = [kind.__name__.lower() for kind in KINDS]
