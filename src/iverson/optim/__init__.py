"""Optimizers on pytrees of parameters, learning-rate schedules, and clipping of gradients.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules below, each
imports only those listed before it.

- `clipping`: bounds on gradients before a step.
- `touched_parts`: the entries of a parameter that a step reads and writes.
- `traced`: a step inside a trace.
- `fused_steps`: the steps of all parameters as one program.
- `base`: the base class of optimizers.
- `optimizers`: the optimizers, each with its formula.
- `functional`: an optimizer as functions of gradients, state and parameters.
- `functional_forms`: the functional form of each optimizer.
- `averages`: moving averages of parameters.
- `lbfgs`: the optimizer L-BFGS.
- `schedules`: learning rates by epoch.
"""

import typing as _typing

from iverson.optim.averages import EMA
from iverson.optim.base import Optimizer, ParamGroup
from iverson.optim.clipping import clip_grad_norm_, clip_grad_value_
from iverson.optim.functional import Functional, apply_updates
from iverson.optim.functional_forms import (
    adadelta,
    adagrad,
    adam,
    adamax,
    adamw,
    lion,
    muon,
    nadam,
    radam,
    rmsprop,
    sgd,
)
from iverson.optim.lbfgs import LBFGS
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
from iverson.optim.schedules import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    Schedule,
    SequentialLR,
    StepLR,
)

__all__ = [
    "EMA",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "Functional",
    "LambdaLR",
    "LinearLR",
    "Lion",
    "MultiStepLR",
    "Muon",
    "NAdam",
    "OneCycleLR",
    "Optimizer",
    "ParamGroup",
    "PolynomialLR",
    "RAdam",
    "RMSprop",
    "ReduceLROnPlateau",
    "Schedule",
    "SequentialLR",
    "StepLR",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "apply_updates",
    "clip_grad_norm_",
    "clip_grad_value_",
    "lion",
    "muon",
    "nadam",
    "radam",
    "rmsprop",
    "sgd",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not _typing.TYPE_CHECKING:  # checkers would take any name for one that is there
    from iverson.core.python.foreign_names import absent as _absent

    __getattr__ = _absent("iverson.optim")
