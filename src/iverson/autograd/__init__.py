"""The engine: recording, needs, the reverse pass, the forward walk, and custom Functions."""

from iverson.autograd.api import HookHandle, backward, grad, register_hook
from iverson.autograd.functions.function import Function, once_differentiable
from iverson.autograd.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from iverson.core.table import override_vjp

__all__ = [
    "Function",
    "HookHandle",
    "backward",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "override_vjp",
    "register_hook",
    "set_grad_enabled",
]


def __dir__() -> list[str]:
    return sorted(__all__)
