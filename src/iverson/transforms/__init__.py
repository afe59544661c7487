"""Derivatives of functions: `grad vjp jvp value_and_grad jacobian hessian hvp`, over pytrees, to any
order."""

from iverson.transforms.derivatives import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp

__all__ = ["grad", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"]


def __dir__() -> list[str]:
    return sorted(__all__)
