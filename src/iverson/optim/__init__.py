"""Optimizers on pytrees of parameters, learning-rate schedules, and clipping of gradients.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules below, each
imports only those listed before it.

- `clipping`: bounds on gradients before a step.
- `touched_parts`: the entries of a parameter that a step reads and writes.
- `traced`: a step inside a trace.
- `base`: the base class of optimizers.
- `optimizers`: the optimizers, each with its formula.
- `lbfgs`: the optimizer L-BFGS.
- `schedules`: learning rates by epoch.
"""

from iverson.optim.base import Optimizer, ParamGroup
from iverson.optim.clipping import clip_grad_norm_, clip_grad_value_
from iverson.optim.lbfgs import LBFGS
from iverson.optim.optimizers import SGD, Adagrad, Adam, Adamax, AdamW, Lion, NAdam, RMSprop
from iverson.optim.schedules import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    ReduceLROnPlateau,
    Schedule,
    SequentialLR,
    StepLR,
)

__all__ = [
    "LBFGS",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "Lion",
    "MultiStepLR",
    "NAdam",
    "Optimizer",
    "ParamGroup",
    "PolynomialLR",
    "RMSprop",
    "ReduceLROnPlateau",
    "Schedule",
    "SequentialLR",
    "StepLR",
    "clip_grad_norm_",
    "clip_grad_value_",
]


def __dir__() -> list[str]:
    return sorted(__all__)
