"""Functions of functions: derivatives `grad vjp jvp value_and_grad jacobian hessian hvp`, compilation `jit`,
batches `vmap`, and control flow; over pytrees, to any order, in any mixture."""

from iverson.transforms.batching.mapping import vmap
from iverson.transforms.control_flow import checkpoint, cond, fori_loop, scan, while_loop
from iverson.transforms.derivatives import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from iverson.transforms.jit import jit
from iverson.transforms.raveling import ravel_pytree

__all__ = [
    "checkpoint",
    "cond",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jit",
    "jvp",
    "ravel_pytree",
    "scan",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]


def __dir__() -> list[str]:
    return sorted(__all__)
