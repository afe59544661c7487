"""First-order optimizers: SGD, Adam and its kin, Adagrad, Adadelta, RMSprop, Lion and Muon.

Formulas and defaults are PyTorch's where it has the optimizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from iverson.core.dispatch import Operand
from iverson.core.errors import ArgumentError
from iverson.core.inputs.arguments import as_real
from iverson.core.protocols import NDArray, Shaped
from iverson.core.shapes import as_int
from iverson.kernels import compiled_elementwise
from iverson.optim.base import Optimizer, number
from iverson.optim.touched_parts import State

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.optim.base import Numbers, Parameters, Rate


@final
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Sutskever et al., 2013), Nesterov's form, and L2 decay.

    v <- momentum v + g (the first v is g); p <- p - lr v, with ``nesterov`` p <- p - lr (g + momentum v).

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = SGD([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> opt.step()
    >>> p
    iverson.Tensor([0.8], requires_grad=True)
    """

    def __init__(
        self,
        params: Parameters,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr, weight_decay)
        self._check("momentum", momentum)
        if nesterov and not momentum:
            raise ArgumentError(
                "SGD", "nesterov", got="True without momentum", expected="a positive momentum"
            )
        self.momentum = momentum
        self.nesterov = nesterov

    def _start(self, value: NDArray) -> State:
        return {"momentum": np.zeros_like(value)} if self.momentum else {}

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        if self.momentum:
            arrays: Any = value, gradient, state["momentum"]
            if compiled_elementwise.worthwhile(compiled_elementwise.WORTHWHILE_STEP, *arrays):
                numbers: Any = lr, self.momentum, self.weight_decay
                p, g, m = arrays
                compiled_elementwise.sgd(p, g, m, numbers, nesterov=self.nesterov)
                return
        gradient = self._decayed(value, gradient)
        if self.momentum:
            velocity = state["momentum"]
            velocity *= self.momentum
            velocity += gradient
            gradient = gradient + self.momentum * velocity if self.nesterov else velocity
        value -= number(lr, value) * gradient


class _Moments(Optimizer):
    """Base of optimizers with running means of the gradient and of its square: Adam and its variants."""

    def __init__(
        self,
        params: Parameters,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        super().__init__(params, lr, weight_decay)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise ArgumentError(type(self).__name__, "betas", got=repr(betas), expected="a pair of numbers")
        for k, beta in enumerate(betas):
            self._check(f"betas[{k}]", beta, below=1.0)
        self._check("eps", eps)
        self.betas = tuple(betas)
        self.eps = eps

    def _start(self, value: NDArray) -> State:
        return {"mean": np.zeros_like(value), "square": np.zeros_like(value), "step": np.zeros((), np.int64)}

    def _moment_step(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        """Write one step of Adam into ``value`` and ``state``, without weight decay."""
        first, second = self.betas
        mean, square = state["mean"], state["square"]
        state["step"] += 1
        n = _counts(state["step"], value)
        arrays: Any = value, gradient, mean, square
        if type(n) is int and compiled_elementwise.worthwhile(compiled_elementwise.WORTHWHILE_STEP, *arrays):
            rate: Any = lr / (1 - first**n)
            root = (1 - second**n) ** -0.5
            p, g, m, v = arrays
            compiled_elementwise.adam(p, g, m, v, (1 - first, second, 1 - second, root, self.eps, rate))
            return
        mean += (1 - first) * (gradient - mean)
        square *= second
        square += (1 - second) * gradient * gradient
        scale = np.sqrt(square)
        scale /= number((1 - second**n) ** 0.5, value)
        scale += self.eps
        value -= number(lr / (1 - first**n), value) * mean / scale


def _counts(step: Numbers, value: Shaped) -> Any:
    """Number of steps that have touched each entry, shaped to broadcast with ``value``; one int if all are
    equal.
    """
    return _beside(step, value, int)


def _beside(x: Numbers, value: Shaped, kind: type[int] | type[float] = float) -> Any:
    """State array ``x`` shaped to broadcast with ``value``; a number of type ``kind`` if it has rank 0."""
    if not x.ndim:
        return number(x, np.empty(0)) if isinstance(x, Operand) else kind(x)
    return x.reshape(x.shape + (1,) * (value.ndim - x.ndim)).astype(value.dtype)


@final
class Adam(_Moments):
    """Adam (Kingma and Ba, 2015), bias-corrected; ``weight_decay`` adds to the gradient.

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = Adam([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 6)
    0.9
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        gradient = self._decayed(value, gradient)
        self._moment_step(value, gradient, state, lr)


@final
class AdamW(_Moments):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): p <- p (1 - lr weight_decay) first.

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = AdamW([p], lr=0.1, weight_decay=0.5)
    >>> opt.step([iv.asarray([2.0])])
    >>> round(p.item(), 6)
    0.85
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        value *= number(1 - lr * self.weight_decay, value)
        self._moment_step(value, gradient, state, lr)


@final
class Adamax(_Moments):
    """Adam with the largest gradient, fading, in place of the second moment (Kingma and Ba, 2015, part 7).

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = Adamax([p], lr=0.1)
    >>> opt.step([iv.asarray([2.0])])
    >>> round(p.item(), 6)
    0.9
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def _start(self, value: NDArray) -> State:
        return {"mean": np.zeros_like(value), "largest": np.zeros_like(value), "step": np.zeros((), np.int64)}

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        gradient = self._decayed(value, gradient)
        first, second = self.betas
        mean, largest = state["mean"], state["largest"]
        state["step"] += 1
        mean += (1 - first) * (gradient - mean)
        largest[...] = np.maximum(second * largest, np.abs(gradient) + self.eps)
        value -= number(lr / (1 - first ** _counts(state["step"], value)), value) * mean / largest


@final
class NAdam(_Moments):
    """Adam with Nesterov's momentum (Dozat, 2016), whose momentum grows with the steps.

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = NAdam([p], lr=0.1)
    >>> opt.step([iv.asarray([2.0])])
    >>> 0.8 < p.item() < 1.0
    True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
        self._check("momentum_decay", momentum_decay)
        self.momentum_decay = momentum_decay

    def _start(self, value: NDArray) -> State:
        return {**super()._start(value), "product": np.ones(())}

    def _momentum(self, n: Rate | NDArray) -> Any:
        return self.betas[0] * (1 - 0.5 * 0.96 ** (n * self.momentum_decay))

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        gradient = self._decayed(value, gradient)
        first, second = self.betas
        mean, square, product = state["mean"], state["square"], state["product"]
        state["step"] += 1
        product *= self._momentum(state["step"])
        n, momentum_product = _counts(state["step"], value), _beside(product, value)
        mean += (1 - first) * (gradient - mean)
        square *= second
        square += (1 - second) * gradient * gradient
        scale = np.sqrt(square / number(1 - second**n, value)) + self.eps
        now, then = self._momentum(n), self._momentum(n + 1)
        change = number(lr * (1 - now) / (1 - momentum_product), value) * gradient
        change = change + number(lr * then / (1 - momentum_product * then), value) * mean
        value -= change / scale


@final
class RAdam(_Moments):
    """Adam whose step is rectified by the variance of its second moment (Liu et al., 2020).

    While too few gradients are known for a variance, the step is that of the mean alone.

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = RAdam([p], lr=0.1)
    >>> opt.step([iv.asarray([2.0])])
    >>> round(p.item(), 6)
    0.8
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        gradient = self._decayed(value, gradient)
        first, second = self.betas
        mean, square = state["mean"], state["square"]
        state["step"] += 1
        n = _counts(state["step"], value)
        mean += (1 - first) * (gradient - mean)
        square *= second
        square += (1 - second) * gradient * gradient
        longest = 2 / (1 - second) - 1
        length = longest - 2 * n * second**n / (1 - second**n)
        has_variance = length > 5
        ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        rectified = _either(has_variance, ratio, 1.0) ** 0.5 * (1 - second**n) ** 0.5
        change = mean * number(lr / (1 - first**n), value)
        value -= _either(
            has_variance, change * number(rectified, value) / (np.sqrt(square) + self.eps), change
        )


def _either(condition: Numbers | bool, a: Numbers | float, b: Numbers | float) -> Any:
    """a where a condition holds, else b; the condition may be one flag for all entries."""
    if isinstance(condition, bool):
        return a if condition else b
    return np.where(condition, a, b)


@final
class Lion(_Moments):
    """Lion (Chen et al., 2023): steps of one size, by the sign of a mean of gradients, and weight decay.

    p <- p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g), then m <- beta2 m + (1 - beta2) g.

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = Lion([p], lr=0.1)
    >>> opt.step([iv.asarray([2.0])])
    >>> round(p.item(), 6)
    0.9
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, 0.0, weight_decay)
        del self.eps

    def _start(self, value: NDArray) -> State:
        return {"mean": np.zeros_like(value)}

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        first, second = self.betas
        mean = state["mean"]
        value *= number(1 - lr * self.weight_decay, value)
        value -= number(lr, value) * np.sign(first * mean + (1 - first) * gradient)
        mean *= second
        mean += (1 - second) * gradient


@final
class Adagrad(Optimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011): p <- p - lr / (1 + (n - 1) lr_decay) g / (sqrt(sum g^2) +
    eps).

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = Adagrad([p], lr=0.1)
    >>> opt.step([iv.asarray([2.0])])
    >>> round(p.item(), 6)
    0.9
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        super().__init__(params, lr, weight_decay)
        for name, x in (
            ("lr_decay", lr_decay),
            ("initial_accumulator_value", initial_accumulator_value),
            ("eps", eps),
        ):
            self._check(name, x)
        self.lr_decay = lr_decay
        self.initial_accumulator_value = initial_accumulator_value
        self.eps = eps

    def _start(self, value: NDArray) -> State:
        counts = {"step": np.zeros((), np.int64)} if self.lr_decay else {}
        return {"sum": np.full_like(value, self.initial_accumulator_value), **counts}

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        gradient = self._decayed(value, gradient)
        rate = lr
        if self.lr_decay:
            state["step"] += 1
            rate = lr / (1 + (_counts(state["step"], value) - 1) * self.lr_decay)
        state["sum"] += np.square(gradient)
        step = np.sqrt(state["sum"])
        step += self.eps
        step **= -1
        step *= gradient
        step *= number(rate, value)
        value -= step


@final
class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012), with momentum and, if ``centered``, the variance in place of the square.

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = RMSprop([p], lr=0.1)
    >>> opt.step([iv.asarray([2.0])])
    >>> round(p.item(), 6)
    0.0
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        super().__init__(params, lr, weight_decay)
        self._check("alpha", alpha, below=1.0)
        for name, x in (("eps", eps), ("momentum", momentum)):
            self._check(name, x)
        self.alpha = alpha
        self.eps = eps
        self.momentum = momentum
        self.centered = centered

    def _start(self, value: NDArray) -> State:
        names = ["square"] + ["momentum"] * bool(self.momentum) + ["mean"] * self.centered
        return {name: np.zeros_like(value) for name in names}

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        gradient = self._decayed(value, gradient)
        state["square"] *= self.alpha
        state["square"] += (1 - self.alpha) * gradient * gradient
        spread = state["square"]
        if self.centered:
            state["mean"] += (1 - self.alpha) * (gradient - state["mean"])
            spread = spread - state["mean"] * state["mean"]
        change = gradient / (np.sqrt(spread) + self.eps)
        if self.momentum:
            state["momentum"] *= self.momentum
            state["momentum"] += change
            change = state["momentum"]
        value -= number(lr, value) * change


@final
class Adadelta(Optimizer):
    """Adadelta (Zeiler, 2012): a gradient times the ratio of a mean step and a mean gradient.

    >>> import iverson as iv
    >>> p = iv.asarray([1.0], requires_grad=True)
    >>> opt = Adadelta([p])
    >>> opt.step([iv.asarray([2.0])])
    >>> round(p.item(), 6)
    0.996838
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, weight_decay)
        self._check("rho", rho, below=1.0)
        self._check("eps", eps)
        self.rho = rho
        self.eps = eps

    def _start(self, value: NDArray) -> State:
        return {"square": np.zeros_like(value), "step_square": np.zeros_like(value)}

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        gradient = self._decayed(value, gradient)
        square, step_square = state["square"], state["step_square"]
        square *= self.rho
        square += (1 - self.rho) * gradient * gradient
        change = np.sqrt(step_square + self.eps) / np.sqrt(square + self.eps) * gradient
        step_square *= self.rho
        step_square += (1 - self.rho) * change * change
        value -= number(lr, value) * change


@final
class Muon(Optimizer):
    """Muon (Jordan et al., 2024): momentum whose matrix is made orthogonal, for parameters that are matrices.

    The momentum m <- momentum m + (1 - momentum) g, with ``nesterov`` looked ahead by one step, goes through
    ``ns_steps`` Newton-Schulz iterations of the fifth order, which take its singular values to about 1. The
    step is lr sqrt(max(1, rows / columns)) of that, after p <- p (1 - lr weight_decay). It touches every
    entry.

    Raises ArgumentError for a parameter that is not a real matrix.

    >>> import iverson as iv
    >>> p = iv.zeros((2, 2), requires_grad=True)
    >>> opt = Muon([p], lr=0.1)
    >>> opt.step([iv.asarray([[3.0, 0.0], [0.0, 5.0]])])
    >>> bool(iv.all(iv.abs(p + 0.1 * iv.eye(2)) < 0.03))
    True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
    ) -> None:
        super().__init__(params, lr, weight_decay)
        for name, x, below in (("momentum", momentum, 1.0), ("eps", eps, float("inf"))):
            self._check(name, x, below=below)
        if not isinstance(ns_coefficients, (tuple, list)) or len(ns_coefficients) != 3:
            raise ArgumentError(
                "Muon", "ns_coefficients", got=repr(ns_coefficients), expected="three numbers"
            )
        self.ns_coefficients = tuple(as_real(c, "Muon", "ns_coefficients") for c in ns_coefficients)
        self.momentum = momentum
        self.nesterov = nesterov
        self.eps = eps
        self.ns_steps = as_int(ns_steps, "Muon", "ns_steps")

    def _check_parameter(self, k: int, p: Shaped) -> None:
        if p.ndim != 2 or p.dtype.kind == "c":
            raise ArgumentError(
                "Muon",
                f"params[{k}]",
                got=f"shape {p.shape} and dtype {p.dtype}",
                expected="a real matrix",
                remedy="optimise other parameters with AdamW",
            )

    def _checked(self, k: int, p: Array, g: Array) -> Array:
        gradient: Any = super()._checked(k, p, g)
        dense: Array = gradient.to_dense()
        return dense

    def _start(self, value: NDArray) -> State:
        return {"momentum": np.zeros_like(value)}

    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        mean = state["momentum"]
        mean += (1 - self.momentum) * (gradient - mean)
        x = gradient + self.momentum * (mean - gradient) if self.nesterov else mean
        a, b, c = self.ns_coefficients
        rows, columns = value.shape
        x = x.mT if rows > columns else x
        x = x / np.maximum(np.sqrt((x * x).sum()), self.eps)
        for _ in range(self.ns_steps):
            gram = x @ x.mT
            x = a * x + (b * gram + c * (gram @ gram)) @ x
        value *= number(1 - lr * self.weight_decay, value)
        value -= number(lr * max(1.0, rows / columns) ** 0.5, value) * (x.mT if rows > columns else x)
