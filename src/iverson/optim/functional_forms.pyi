"""The functional forms of optimizers. Written by tools/stubs.py from the tables: do not edit."""

from iverson.optim.functional import Functional, LearningRate

def sgd(lr: LearningRate, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> Functional:
    """Functional form of `SGD`: its hyperparameters without the parameters.

    >>> sgd(0.1).lr
    0.1"""

def adam(lr: LearningRate = 0.001, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0.0) -> Functional:
    """Functional form of `Adam`: its hyperparameters without the parameters.

    >>> adam(0.1).lr
    0.1"""

def adamw(lr: LearningRate = 0.001, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0.01) -> Functional:
    """Functional form of `AdamW`: its hyperparameters without the parameters.

    >>> adamw(0.1).lr
    0.1"""

def adamax(lr: LearningRate = 0.002, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0.0) -> Functional:
    """Functional form of `Adamax`: its hyperparameters without the parameters.

    >>> adamax(0.1).lr
    0.1"""

def nadam(lr: LearningRate = 0.002, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0.0, momentum_decay: float = 0.004) -> Functional:
    """Functional form of `NAdam`: its hyperparameters without the parameters.

    >>> nadam(0.1).lr
    0.1"""

def radam(lr: LearningRate = 0.001, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0.0) -> Functional:
    """Functional form of `RAdam`: its hyperparameters without the parameters.

    >>> radam(0.1).lr
    0.1"""

def lion(lr: LearningRate = 0.0001, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> Functional:
    """Functional form of `Lion`: its hyperparameters without the parameters.

    >>> lion(0.1).lr
    0.1"""

def adagrad(lr: LearningRate = 0.01, lr_decay: float = 0.0, weight_decay: float = 0.0, initial_accumulator_value: float = 0.0, eps: float = 1e-10) -> Functional:
    """Functional form of `Adagrad`: its hyperparameters without the parameters.

    >>> adagrad(0.1).lr
    0.1"""

def adadelta(lr: LearningRate = 1.0, rho: float = 0.9, eps: float = 1e-06, weight_decay: float = 0.0) -> Functional:
    """Functional form of `Adadelta`: its hyperparameters without the parameters.

    >>> adadelta(0.1).lr
    0.1"""

def rmsprop(lr: LearningRate = 0.01, alpha: float = 0.99, eps: float = 1e-08, weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False) -> Functional:
    """Functional form of `RMSprop`: its hyperparameters without the parameters.

    >>> rmsprop(0.1).lr
    0.1"""

def muon(lr: LearningRate = 0.001, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-07, ns_steps: int = 5) -> Functional:
    """Functional form of `Muon`: its hyperparameters without the parameters.

    >>> muon(0.1).lr
    0.1"""

