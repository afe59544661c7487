"""Optimizers on pytrees of parameters."""

from iverson.optim.base import Optimizer
from iverson.optim.optimizers import SGD, Adagrad, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop"]


def __dir__() -> list[str]:
    return sorted(__all__)
