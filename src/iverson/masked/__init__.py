"""Masked tensors: semantics on top of tensors. An entry that a mask leaves out does not exist.

`iverson.masked_tensor` makes them; `policy` says what happens where masks differ.
"""

from iverson.core.dispatch import Interpreter, register_interpreter
from iverson.masked import facts  # noqa: F401 - registers what it answers
from iverson.masked.construct import as_masked_tensor, masked_tensor
from iverson.masked.policies import policy
from iverson.masked.rules import interpret
from iverson.masked.tensor import MaskedTensor

__all__ = ["MaskedTensor", "as_masked_tensor", "masked_tensor", "policy"]

register_interpreter(Interpreter("masked", interpret), (MaskedTensor,))


def __dir__() -> list[str]:
    return sorted(__all__)
