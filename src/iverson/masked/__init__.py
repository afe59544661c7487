"""Masked tensors: meaning on top of tensors. An entry that a mask leaves out does not exist.

`iverson.masked_tensor` makes them; `policy` says what happens where masks differ.
"""

from iverson.array_api.methods import bind_methods
from iverson.core.dispatch import Interpreter, register_interpreter
from iverson.masked.construct import as_masked_tensor, masked_tensor
from iverson.masked.policies import policy
from iverson.masked.rules import interpret
from iverson.masked.tensor import MaskedTensor
from iverson.tensor import Tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "masked_tensor", "policy"]

_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul",
    "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
_METHODS = (
    *(f"__{prefix}{name}__" for name in _OPERATORS for prefix in ("", "r", "i")),
    *(f"__{name}__" for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert")),
    *("__len__", "__iter__", "__getitem__", "__setitem__", "T", "mT", "real", "imag", "device"),
)  # fmt: skip


def _lend() -> None:
    """Give masked tensors the operators and methods of tensors: all end in ops, which know both."""
    for name in _METHODS:
        setattr(MaskedTensor, name, vars(Tensor)[name])
    bind_methods(MaskedTensor)


_lend()
register_interpreter(Interpreter("masked", 10, interpret), (MaskedTensor,))
