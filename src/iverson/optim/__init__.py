"""Optimizers on pytrees of parameters, schedules of their rates, and bounds on gradients."""

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
