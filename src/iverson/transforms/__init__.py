"""Functions of functions: derivatives `grad vjp jvp value_and_grad jacobian hessian hvp`, compilation `jit`
and batches `vmap`; over pytrees, to any order, in any mixture."""

from iverson.transforms.derivatives import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from iverson.transforms.jit import jit
from iverson.transforms.mapping import vmap

__all__ = ["grad", "hessian", "hvp", "jacobian", "jit", "jvp", "value_and_grad", "vjp", "vmap"]


def __dir__() -> list[str]:
    return sorted(__all__)
