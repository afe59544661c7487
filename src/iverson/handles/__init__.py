"""The Tensor handle: operators, indexing, conversion and printing. Named methods come from `array_api`."""

from iverson.handles.convert import asarray
from iverson.handles.tensor import Tensor

__all__ = ["Tensor", "asarray"]
