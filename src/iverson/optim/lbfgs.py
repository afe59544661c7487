"""L-BFGS: steps along a quasi-Newton direction, for which the loss is computed several times.

J. Nocedal and S. J. Wright, Numerical Optimization, 2006, algorithm 7.4, with PyTorch's rules for the first
step and for when to stop. The line search is SciPy's (algorithms 3.5 and 3.6).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from iverson.autograd.mode import enable_grad, no_grad
from iverson.core.dispatch import cells, rewrap, unwrap, value_of
from iverson.core.errors import ArgumentError, DTypeError, GraphError
from iverson.core.inputs.arguments import as_function, as_real, checked
from iverson.core.shapes import as_int, check_choice
from iverson.core.table import F
from iverson.handles import Tensor, asarray
from iverson.layouts import Sparse, to_strided
from iverson.masked import MaskedTensor
from iverson.optim.base import StateDict
from iverson.optim.optimizers import SGD
from iverson.transforms.raveling import ravel_pytree

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.optim.base import Parameters

Vector = np.ndarray[Any, Any]
#: Pairs whose product of steps is not above this say nothing of the curvature.
_CURVED = 1e-10


@final
class LBFGS:
    """L-BFGS (Liu and Nocedal, 1989) over all parameters as one vector.

    params : a pytree of real leaf tensors that require grad: of a sparse one its stored entries, of a masked
        one those that exist.
    lr : the length of a step along the direction; with a line search, only the first one's.
    max_iter : how many iterations a step makes at most.
    max_eval : how many times it computes the loss at most; default: max_iter * 5 / 4.
    tolerance_grad, tolerance_change : at which largest entry of the gradient, and change of the parameters or
        of the loss, a step ends.
    history_size : how many pairs of steps and changes of the gradient approximate the curvature.
    line_search_fn : "strong_wolfe", or None for none.

    >>> import iverson as iv
    >>> from iverson import optim
    >>> p = iv.asarray([-1.0, 2.0], requires_grad=True)
    >>> opt = optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(3):
    ...     loss = opt.step(closure)
    >>> p.round(decimals=4)
    iverson.Tensor([1., 1.])
    """

    @checked
    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: Literal["strong_wolfe"] | None = None,
    ) -> None:
        #: What moves the parameters: with the rate 1, by minus what it is given.
        self._mover = SGD(params, lr=1.0)
        self.params = self._mover.params
        for k, p in enumerate(self.params):
            if p.dtype.kind == "c":
                raise DTypeError("LBFGS", f"params[{k}]", got=f"dtype {p.dtype}", expected="real parameters")
        check_choice(line_search_fn, (None, "strong_wolfe"), "LBFGS", "line_search_fn")
        evaluations = max_iter * 5 // 4 if max_eval is None else as_int(max_eval, "LBFGS", "max_eval")
        counts = {"max_iter": max_iter, "max_eval": evaluations, "history_size": history_size}
        for name, count in counts.items():
            if count < 1:
                raise ArgumentError("LBFGS", name, got=str(count), expected="at least 1")
        for name, bound in (
            ("lr", lr),
            ("tolerance_grad", tolerance_grad),
            ("tolerance_change", tolerance_change),
        ):
            if not as_real(bound, "LBFGS", name) >= 0:
                raise ArgumentError("LBFGS", name, got=str(bound), expected="a number of at least 0")
        self.lr, self.max_iter, self.max_eval = lr, max_iter, evaluations
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.history_size, self.line_search_fn = history_size, line_search_fn
        self.iterations = 0
        self._history: list[tuple[Vector, Vector]] = []
        self._last: tuple[Vector, Vector] | None = None

    def zero_grad(self) -> None:
        """Forget the gradients: ``.grad`` becomes None."""
        self._mover.zero_grad()

    def step(self, closure: Callable[[], Array | float]) -> Tensor:
        """Iterate, and return the loss before, as a tensor that is not tracked.

        closure : forgets gradients, computes the loss, calls ``backward()`` on it and returns it; it is
            called at each point that is tried.

        Raises ArgumentTypeError unless closure is a function, GraphError inside a compiled function.
        """
        as_function(closure, "step", "closure")
        if cells() is not None:
            raise GraphError(
                "step", got="LBFGS inside a compiled function", remedy="compile the closure, and step outside"
            )
        x = self._point()
        slope, value = self._evaluated(closure)
        first, evaluations = value, 1
        for k in range(self.max_iter):
            if not slope.size or np.abs(slope).max() <= self.tolerance_grad:
                break
            self.iterations += 1
            direction = self._direction(slope)
            along = float(slope @ direction)
            if along > -self.tolerance_change:
                break
            length = self.lr * (min(1.0, 1.0 / np.abs(slope).sum()) if self.iterations == 1 else 1.0)
            before, old = value, slope
            if self.line_search_fn is None:
                self._move(length * direction)
                x = x + length * direction
                if k + 1 < self.max_iter:
                    slope, value = self._evaluated(closure)
                    evaluations += 1
            else:
                x, value, slope, length, count = self._searched(closure, x, value, slope, direction, length)
                evaluations += count
            self._last = length * direction, old
            ended = np.abs(length * direction).max() <= self.tolerance_change
            if ended or abs(value - before) < self.tolerance_change or evaluations >= self.max_eval:
                break
        return asarray(first)

    def _direction(self, slope: Vector) -> Vector:
        """Minus the approximate inverse Hessian times the gradient ``slope``, by the two-loop recursion.

        Side effect: the last step, with its change of the gradient, is added to the history.
        """
        if self._last is not None:
            s, old = self._last
            y = slope - old
            if y @ s > _CURVED:
                self._history = [*self._history[-self.history_size + 1 :], (s, y)][-self.history_size :]
        q = -slope
        weights = []
        for s, y in reversed(self._history):
            weights.append((s @ q) / (y @ s))
            q = q - weights[-1] * y
        if self._history:
            s, y = self._history[-1]
            q = q * ((y @ s) / (y @ y))
        for (s, y), weight in zip(self._history, reversed(weights), strict=True):
            q = q + s * (weight - (y @ q) / (y @ s))
        return q

    def _searched(
        self,
        closure: Callable[[], Array | float],
        x: Vector,
        value: float,
        slope: Vector,
        direction: Vector,
        length: float,
    ) -> tuple[Vector, float, Vector, float, int]:
        """Point along ``direction`` that satisfies the strong Wolfe conditions; the parameters are moved
        there.

        Returns the point, the loss and the gradient there, the length of the step as a multiple of
        ``direction``, and the number of points that were tried. If no such point is found, the parameters
        stay, and the length is 0.
        x, value, slope : the present point, loss and gradient. length : the first length to try.
        """
        from scipy.optimize import line_search

        tried: dict[bytes, tuple[Vector, float]] = {x.tobytes(): (slope, value)}
        here = x

        def evaluated(point: Vector) -> tuple[Vector, float]:
            nonlocal here
            key = point.tobytes()
            if key not in tried:
                self._move(point - here)
                here = point
                tried[key] = self._evaluated(closure)
            return tried[key]

        # SciPy tries 1 first: the direction is scaled by the first length.
        scaled = direction * (length if self.iterations == 1 else 1.0)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of a search that fails
            searched = line_search(
                lambda z: evaluated(z)[1], lambda z: evaluated(z)[0], x, scaled, slope, value, maxiter=25
            )
        factor = 0.0 if searched[0] is None else float(searched[0])
        point = x + factor * scaled
        new_slope, new_value = evaluated(point)
        self._move(point - here)
        return point, new_value, new_slope, factor * (length if self.iterations == 1 else 1.0), len(tried) - 1

    # -- parameters as a vector ----------------------------------------------------------------------

    def _point(self) -> Vector:
        with no_grad():
            return np.array(to_strided(value_of(ravel_pytree(self.params)[0])), dtype=np.float64)

    def _move(self, change: Vector) -> None:
        """Add ``change``, a vector of all parameters, to the parameters."""
        with no_grad():
            vector, unravel = ravel_pytree(self.params)
            self._mover.step(unravel(F.astype(vector * 0 - change, dtype=vector.dtype)))

    def _evaluated(self, closure: Callable[[], Array | float]) -> tuple[Vector, float]:
        """Gradient, as a vector of all parameters, and loss at the present parameters."""
        with enable_grad():
            loss = closure()
        value = float(loss.item() if hasattr(loss, "item") else as_real(loss, "step", "closure"))
        with no_grad():
            gradient = ravel_pytree([_gradient_of(p) for p in self.params])[0]
        return np.array(to_strided(value_of(gradient)), dtype=np.float64), value

    def state_dict(self) -> StateDict:
        """The state that a later run needs to continue."""
        last = None if self._last is None else list(self._last)
        history = [list(pair) for pair in self._history]
        return {"iterations": self.iterations, "history": history, "last": last}

    def load_state_dict(self, state: StateDict) -> None:
        """Take over what `state_dict` of one with the same parameters returned."""
        if not isinstance(state, dict) or set(state) != {"iterations", "history", "last"}:
            raise ArgumentError(
                "LBFGS", "state", got="a state of another optimizer", expected="one from state_dict()"
            )
        self.iterations = state["iterations"]
        self._history = [(np.array(s), np.array(y)) for s, y in state["history"]]
        self._last = (
            None if state["last"] is None else (np.array(state["last"][0]), np.array(state["last"][1]))
        )


def _gradient_of(p: Tensor | MaskedTensor) -> Tensor | MaskedTensor:
    """Gradient of a parameter, with the entries that the parameter has in a vector of all; 0 if there is
    none.
    """
    g, value = p.grad, value_of(unwrap(p))
    if g is None:
        zero: Tensor | MaskedTensor = rewrap(p, unwrap(p) * 0.0)
        return zero
    if isinstance(value, Sparse):
        entries: Tensor = F.from_values(F.values_at(unwrap(g), pattern=value.pattern), pattern=value.pattern)
        return entries
    return g if isinstance(g, MaskedTensor) else g.to_dense()


__all__ = ["LBFGS"]
