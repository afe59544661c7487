"""Optimizers as pure functions of gradients, state and parameters: for `jit`, `scan`, `vmap`, and to be
differentiated.

Each has the formula of its class: ``_update`` runs on new tensors, which it writes into, in place of the
parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from iverson.array_api.elementwise import imag, real
from iverson.array_api.entries.creation import asarray
from iverson.array_api.entries.joining import stack
from iverson.core import dtypes
from iverson.core.dispatch import Wrapper
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, described
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import Pytree
from iverson.handles import Tensor
from iverson.optim.base import Optimizer
from iverson.transforms.trees import as_node, flatten, unflatten

#: A rate, or a function from the number of steps before to the rate.
LearningRate: TypeAlias = float | Tensor | Callable[[Tensor], float | Tensor]
#: A hyperparameter.
Setting: TypeAlias = float | tuple[float, ...]
#: The number of steps, and of each parameter what the optimizer keeps of it, by name.
OptState: TypeAlias = dict[str, Pytree]


@dataclass(frozen=True, eq=False, repr=False)
class Functional:
    """An optimizer as two functions: ``init`` makes its state, ``update`` the next one and the step.

    Neither changes what it is given. The state is a pytree of tensors: both run in `jit`, as the body of a
    `scan`, over a batch in `vmap`, and are differentiated in gradients, parameters, state and the rate. Every
    entry of a parameter is touched by every step, whatever the support of its gradient is.

    Attributes
    ----------
    optimizer : one of the class that has the formula and the hyperparameters.
    lr : the rate, a number or a tensor; or a function from the number of steps before to it.

    >>> import iverson as iv
    >>> rule = iv.optim.sgd(0.5)
    >>> params = {"w": iv.asarray([4.0, 2.0])}
    >>> state = rule.init(params)
    >>> updates, state = rule.update({"w": iv.asarray([2.0, 0.0])}, state, params)
    >>> iv.optim.apply_updates(params, updates)
    {'w': iverson.Tensor([3., 2.])}
    """

    optimizer: Optimizer
    lr: LearningRate

    def init(self, params: Pytree) -> OptState:
        """The state before the first step, of a pytree of parameters.

        Raises ArgumentTypeError for a leaf that is no tensor, ArgumentError for one that the optimizer is not
        defined for.
        """
        leaves, _ = _leaves(params, "params")
        states = []
        for k, x in enumerate(leaves):
            self.optimizer._check_parameter(k, x)
            dtype = np.dtype(np.float32) if dtypes.is_half(x.dtype) else x.dtype
            if dtype.kind == "c":
                start = self.optimizer._start(np.empty((*x.shape, 2), np.empty(0, dtype).real.dtype))
            else:
                start = self.optimizer._start(np.empty(x.shape, dtype))
            states.append({name: asarray(array) for name, array in start.items()})
        return {"count": asarray(0), "states": states}

    def update(self, gradients: Pytree, state: OptState, params: Pytree) -> tuple[Pytree, OptState]:
        """Changes to add to the parameters (`apply_updates`), and the next state.

        Parameters
        ----------
        gradients, params : pytrees of one structure, whose leaves have the same shapes.
        state : of `init`, or of the last call.

        Raises ArgumentError for trees that differ, ShapeError for leaves of other shapes.
        """
        values, structure = _leaves(params, "params")
        slopes, gradient_structure = _leaves(gradients, "gradients")
        if structure != gradient_structure:
            raise ArgumentError(
                "update", "gradients", got=f"a tree {gradient_structure}", expected=f"a tree {structure}"
            )
        if not isinstance(state, dict) or len(state.get("states", ())) != len(values):
            raise ArgumentError(
                "update", "state", got=described(state), expected="a state of init for these parameters"
            )
        lr = self.lr(state["count"]) if callable(self.lr) else self.lr
        pairs = [
            self._step(k, x, g, s, lr)
            for k, (x, g, s) in enumerate(zip(values, slopes, state["states"], strict=True))
        ]
        updates = unflatten(structure, [change for change, _ in pairs])
        return updates, {"count": state["count"] + 1, "states": [s for _, s in pairs]}

    def _step(
        self, k: int, x: Tensor, g: Tensor, state: dict[str, Tensor], lr: float | Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The change of a parameter, and its next state."""
        if x.shape != g.shape:
            raise ShapeError(
                "update",
                f"gradients[{k}]",
                got=f"shape {g.shape}",
                expected=f"shape {x.shape} of the parameter",
            )
        x, g = x.to_dense(), g.to_dense().astype(x.dtype)
        after = {name: s + 0 for name, s in state.items()}  # tensors of its own, to write into
        is_complex = x.dtype.kind == "c"
        if is_complex:
            before, slope = _pairs(x), _pairs(g)
        else:
            wide = np.dtype(np.float32) if dtypes.is_half(x.dtype) else x.dtype
            before, slope = x.astype(wide), g.astype(wide)
        value = before + 0
        self.optimizer._update(value, slope, after, lr)
        change = value - before
        if is_complex:
            change = change[..., 0] + 1j * change[..., 1]
        return change.astype(x.dtype), after

    def __repr__(self) -> str:
        settings = self.optimizer._hyperparameters() | {"lr": self.lr}
        text = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return f"{type(self.optimizer).__name__.lower()}({text})"


def _pairs(x: Tensor) -> Tensor:
    return stack([real(x), imag(x)], axis=-1)


def _leaves(tree: Pytree, argument: str, operation: str = "update") -> tuple[list[Tensor], Pytree]:
    """Leaves of a tree, and its structure; raises ArgumentTypeError for one that is no plain tensor."""
    leaves, structure = flatten(tree)
    for k, x in enumerate(leaves):
        if isinstance(x, np.ndarray | np.generic):
            leaves[k] = asarray(x)
        elif not isinstance(x, Tensor):
            raise ArgumentTypeError(
                operation,
                argument,
                got=f"leaf {k}, {described(x)}",
                expected="tensors",
                remedy="pass its entries and put them back" if isinstance(x, Wrapper) else as_node(x),
            )
    return leaves, structure


@checked
def apply_updates(params: Pytree, updates: Pytree) -> Pytree:
    """The parameters with what ``update`` of an optimizer gives added to them.

    Parameters
    ----------
    params, updates : pytrees of one structure.

    Raises ArgumentError for trees that differ.

    >>> from iverson import asarray
    >>> apply_updates([asarray(1.0)], [asarray(-0.25)])
    [iverson.Tensor(0.75)]
    """
    leaves, structure = _leaves(params, "params", "apply_updates")
    changes, change_structure = _leaves(updates, "updates", "apply_updates")
    if structure != change_structure:
        raise ArgumentError(
            "apply_updates", "updates", got=f"a tree {change_structure}", expected=f"a tree {structure}"
        )
    return unflatten(structure, [x + d for x, d in zip(leaves, changes, strict=True)])


__all__ = ["Functional", "LearningRate", "OptState", "Setting", "apply_updates"]
