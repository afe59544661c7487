"""The Tensor handle: operators, indexing, conversion and printing. Named methods come from `array_api`."""

from iverson.tensor.convert import asarray
from iverson.tensor.tensor import Tensor

__all__ = ["Tensor", "asarray"]
