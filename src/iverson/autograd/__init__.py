"""Eager automatic differentiation: the recorded graph, reverse and forward mode, and custom Functions.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules below, each
imports only those listed before it.

- `mode`: the grad mode, which says if ops are recorded.
- `node`: nodes of the recorded graph.
- `joint_ops`: the op that stands for a call of a custom Function.
- `unrecorded_values`: values that a custom Function computes without a record.
- `record`: the eager interpreter, which runs an op and records it.
- `functions`: custom ops with a hand-written derivative.
- `tracked_guards`: errors where a tracked tensor would lose its gradient unnoticed.
- `plan`: the derivative rules of an op that run, and the entries they compute.
- `demand_propagation`: demand propagation, from the requested inputs to every node.
- `densify_watch`: the warning before the gradient of a large sparse leaf becomes dense.
- `stored_entries`: reading and building sparse handles without a call of an op.
- `accumulate`: sums of the cotangents that arrive at one place.
- `skipped_cotangents`: reports of cotangents that are not computed.
- `engine`: the reverse pass.
- `forward`: forward mode, by pushing tangents along the recorded graph.
- `api`: the public `grad`, `backward` and `register_hook`.
"""

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
