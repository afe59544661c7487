"""`EMA`: the exponential moving average of parameters."""

from __future__ import annotations

from typing import final

from iverson.autograd.mode import recording
from iverson.core.dispatch import Operand
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.inputs.arguments import as_real, checked
from iverson.core.protocols import Pytree
from iverson.handles import Tensor
from iverson.transforms.trees import as_node, flatten, unflatten


@final
class EMA:
    """The exponential moving average of parameters, a <- decay a + (1 - decay) p (Polyak and Juditsky, 1992).

    Parameters
    ----------
    params : a pytree of tensors. The first averages are their values now.
    decay : what is kept of an average in a step, at least 0 and below 1.

    ``update()`` after each step of an optimizer goes on, inside of `jit` too; `averages` is a pytree like the
    parameters. Raises ArgumentTypeError for a leaf that is no tensor, ArgumentError for the decay.

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> mean = iv.optim.EMA([p], decay=0.75)
    >>> opt = iv.optim.SGD([p], lr=1.0)
    >>> opt.step([iv.asarray([4.0])])
    >>> mean.update()
    >>> mean.averages
    [iverson.Tensor([0.])]
    """

    @checked
    def __init__(self, params: Pytree, decay: float = 0.999) -> None:
        if not 0 <= as_real(decay, "EMA", "decay") < 1:
            raise ArgumentError("EMA", "decay", got=str(decay), expected="a number from 0 to below 1")
        self.params, self.structure = flatten(params)
        for k, p in enumerate(self.params):
            if not isinstance(p, Tensor):
                raise ArgumentTypeError(
                    "EMA", "params", got=f"leaf {k}, {described(p)}", expected="tensors",
                    remedy="" if isinstance(p, Operand) else as_node(p),
                )  # fmt: skip
        self.decay = decay
        self._averages = [p.detach() + 0 for p in self.params]

    @property
    def averages(self) -> Pytree:
        """The averages, as a pytree like the parameters."""
        return unflatten(self.structure, [a + 0 for a in self._averages])

    def update(self) -> None:
        """Take the values that the parameters have now into the averages."""
        with recording(False):
            for average, p in zip(self._averages, self.params, strict=True):
                average *= self.decay
                average += (1 - self.decay) * p

    def state_dict(self) -> dict[str, list[Tensor]]:
        """The state that a later run needs to continue."""
        return {"averages": [a + 0 for a in self._averages]}

    def load_state_dict(self, state: dict[str, list[Tensor]]) -> None:
        """Take over what `state_dict` of one for the same parameters returned."""
        shapes = [p.shape for p in self.params]
        if not isinstance(state, dict) or [a.shape for a in state.get("averages", ())] != shapes:
            raise ArgumentError(
                "EMA", "state", got="a state of another one", expected="one from state_dict()"
            )
        self._averages = [a.detach() + 0 for a in state["averages"]]

    def __repr__(self) -> str:
        return f"EMA(of {len(self.params)} parameters, decay={self.decay})"


__all__ = ["EMA"]
