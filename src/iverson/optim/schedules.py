"""Learning-rate schedules by epoch, with the names and formulas of PyTorch's schedulers.

A schedule computes the rate of each epoch from its number alone, so it goes on from a saved number without
any history. ``step()`` after each epoch sets the rates of the optimizer's groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import cos, isfinite, pi
from typing import TYPE_CHECKING, Literal, SupportsIndex, final

from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.inputs.arguments import as_flag, as_function, as_real, as_sequence, checked
from iverson.core.shapes import as_int, check_choice
from iverson.optim.base import Optimizer, StateDict

if TYPE_CHECKING:
    from iverson.handles.array import Array


def _optimizer(optimizer: Optimizer, name: str) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise ArgumentTypeError(name, "optimizer", got=described(optimizer), expected="an optimizer")
    return optimizer


class Schedule(ABC):
    """Base of the schedules: ``_rates(epoch)`` gives the rate of each group of parameters.

    optimizer : whose groups' rates are set, at once and by each ``step()``. Those that they have when the
        first schedule is made are what all of its schedules start from.

    >>> import iverson as iv
    >>> class Halving(iv.optim.Schedule):
    ...     def _rates(self, epoch):
    ...         return [rate / 2**epoch for rate in self.base_lrs]
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(optimizer)
    >>> schedule.step()
    >>> optimizer.lr
    0.5
    """

    @checked
    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = _optimizer(optimizer, type(self).__name__)
        self.base_lrs = self.optimizer.initial_lrs()
        self.last_epoch = 0
        self._apply()

    @abstractmethod
    def _rates(self, epoch: int) -> list[float]: ...

    def _apply(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self._rates(self.last_epoch), strict=True):
            group["lr"] = rate

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        self._apply()

    def get_last_lr(self) -> list[float]:
        """The rate of each group now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> StateDict:
        """The state that a later run needs to continue."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: StateDict) -> None:
        """Take over what `state_dict` of a schedule of the same class and groups returned."""
        if (
            not isinstance(state, dict)
            or set(state) != {"last_epoch", "base_lrs"}
            or len(state["base_lrs"]) != len(self.base_lrs)
        ):
            raise ArgumentError(
                type(self).__name__, "state", got="a state of another one", expected="one from state_dict()"
            )
        self.last_epoch, self.base_lrs = state["last_epoch"], list(state["base_lrs"])
        self._apply()

    def __repr__(self) -> str:
        hidden = ("optimizer", "schedulers")
        settings = [f"{name}={value!r}" for name, value in vars(self).items() if name not in hidden]
        return f"{type(self).__name__}(of {type(self.optimizer).__name__}, {', '.join(settings)})"

    def _positive(self, argument: str, value: SupportsIndex) -> int:
        number = as_int(value, type(self).__name__, argument)
        if number < 1:
            raise ArgumentError(type(self).__name__, argument, got=str(value), expected="at least 1")
        return number

    def _real(self, argument: str, value: float) -> float:
        number = float(as_real(value, type(self).__name__, argument))
        if not isfinite(number):
            raise ArgumentError(type(self).__name__, argument, got=str(value), expected="a finite number")
        return number


class _Each(Schedule):
    """Base of schedules that treat all groups alike: ``_rate(epoch, base)`` gives the rate of a group.

    base : the rate that the group starts from.
    """

    @abstractmethod
    def _rate(self, epoch: int, base: float) -> float: ...

    def _rates(self, epoch: int) -> list[float]:
        return [self._rate(epoch, base) for base in self.base_lrs]


@final
class LambdaLR(_Each):
    """The first rate times a function of the epoch.

    >>> import iverson as iv
    >>> from iverson import optim
    >>> opt = optim.SGD([iv.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = optim.LambdaLR(opt, lambda epoch: 1 / (1 + epoch))
    >>> schedule.step()
    >>> opt.lr
    0.5
    """

    @checked
    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float]) -> None:
        self.lr_lambda = as_function(lr_lambda, "LambdaLR", "lr_lambda")
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        return base * self._real("lr_lambda", self.lr_lambda(epoch))


@final
class StepLR(_Each):
    """The rate times ``gamma`` every ``step_size`` epochs.

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = iv.optim.StepLR(optimizer, step_size=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.1, 0.1]
    """

    @checked
    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = self._positive("step_size", step_size), self._real("gamma", gamma)
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        return base * self.gamma ** (epoch // self.step_size)


@final
class MultiStepLR(_Each):
    """The rate times ``gamma`` at each of some epochs.

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = iv.optim.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.1)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [1.0, 0.1, 0.1, 0.01]
    """

    @checked
    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        epochs = as_sequence(milestones, "MultiStepLR", "milestones")
        self.milestones = sorted(as_int(m, "MultiStepLR", "milestones") for m in epochs)
        self.gamma = self._real("gamma", gamma)
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        return base * self.gamma ** bisect_right(self.milestones, epoch)


@final
class ConstantLR(_Each):
    """The rate times ``factor`` for the first ``total_iters`` epochs.

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = iv.optim.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 1.0]
    """

    @checked
    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5) -> None:
        self.factor, self.total_iters = (
            self._real("factor", factor),
            self._positive("total_iters", total_iters),
        )
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        return base * (self.factor if epoch < self.total_iters else 1.0)


@final
class LinearLR(_Each):
    """A factor that goes from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs: warming up.

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = iv.optim.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 1.0]
    """

    @checked
    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        self.start_factor = self._real("start_factor", start_factor)
        self.end_factor = self._real("end_factor", end_factor)
        self.total_iters = self._positive("total_iters", total_iters)
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        share = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


@final
class ExponentialLR(_Each):
    """The rate times ``gamma`` each epoch.

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = iv.optim.ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125]
    """

    @checked
    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = self._real("gamma", gamma)
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        return base * self.gamma**epoch


@final
class PolynomialLR(_Each):
    """The rate times (1 - epoch / total_iters)**power, and 0 from then on.

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = iv.optim.PolynomialLR(optimizer, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.0, 0.0]
    """

    @checked
    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        self.total_iters, self.power = self._positive("total_iters", total_iters), self._real("power", power)
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        factor: float = (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power
        return base * factor


@final
class CosineAnnealingLR(_Each):
    """From the rate to ``eta_min`` along half a period of a cosine, ``T_max`` epochs long
    (Loshchilov and Hutter, 2017).

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = iv.optim.CosineAnnealingLR(optimizer, T_max=4)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [1.0, 0.8536, 0.5, 0.1464, 0.0]
    """

    @checked
    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        self.T_max, self.eta_min = self._positive("T_max", T_max), self._real("eta_min", eta_min)
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + cos(pi * epoch / self.T_max)) / 2


@final
class CosineAnnealingWarmRestarts(_Each):
    """Cosines that start again after ``T_0`` epochs, and then after ``T_mult`` times as many as before
    (Loshchilov and Hutter, 2017).

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = iv.optim.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    @checked
    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        self.T_0, self.T_mult = self._positive("T_0", T_0), self._positive("T_mult", T_mult)
        self.eta_min = self._real("eta_min", eta_min)
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        period = self.T_0
        while epoch >= period:
            epoch -= period
            period *= self.T_mult
            if self.T_mult == 1:
                epoch %= period
        return self.eta_min + (base - self.eta_min) * (1 + cos(pi * epoch / period)) / 2


@final
class OneCycleLR(_Each):
    """Up to ``max_lr`` and down again, once, in ``total_steps`` steps (Smith and Topin, 2018).

    It starts at ``max_lr / div_factor``, is at ``max_lr`` after a share ``pct_start`` of the steps, and ends
    at the start divided by ``final_div_factor``; with ``three_phase`` it comes down to the start in as many
    steps first. The number of steps may be said as ``epochs`` times ``steps_per_epoch``, and
    ``anneal_strategy`` is "cos" or "linear". Momenta stay as they are.

    >>> import iverson as iv
    >>> from iverson import optim
    >>> opt = optim.SGD([iv.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = optim.OneCycleLR(opt, max_lr=1.0, total_steps=10, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(opt.lr, 2))
    ...     schedule.step()
    >>> rates
    [0.04, 0.52, 1.0, 0.86]
    """

    @checked
    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        name = "OneCycleLR"
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError(
                    name, "total_steps", got="None", expected="a number, or epochs and steps_per_epoch"
                )
            total_steps = self._positive("epochs", epochs) * self._positive(
                "steps_per_epoch", steps_per_epoch
            )
        self.max_lr, self.total_steps = (
            self._real("max_lr", max_lr),
            self._positive("total_steps", total_steps),
        )
        check_choice(anneal_strategy, ("cos", "linear"), name, "anneal_strategy")
        if not 0 <= as_real(pct_start, name, "pct_start") <= 1:
            raise ArgumentError(name, "pct_start", got=str(pct_start), expected="a number from 0 to 1")
        for argument, factor in (("div_factor", div_factor), ("final_div_factor", final_div_factor)):
            if self._real(argument, factor) <= 0:
                raise ArgumentError(name, argument, got=str(factor), expected="a number above 0")
        self.pct_start, self.anneal_strategy, self.three_phase = (
            pct_start,
            anneal_strategy,
            as_flag(three_phase, name, "three_phase"),
        )
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        super().__init__(optimizer)

    def _rate(self, epoch: int, base: float) -> float:
        low, top = self.max_lr / self.div_factor, self.pct_start * self.total_steps - 1
        points = [(0.0, low), (top, self.max_lr)]
        if self.three_phase:
            points.append((2 * self.pct_start * self.total_steps - 2, low))
        points.append((self.total_steps - 1, low / self.final_div_factor))
        if epoch >= self.total_steps:
            return points[-1][1]
        for (start, a), (end, b) in pairwise(points):
            if epoch <= end:
                share = (epoch - start) / (end - start) if end > start else 1.0
                return b + (a - b) * (
                    (1 + cos(pi * share)) / 2 if self.anneal_strategy == "cos" else 1 - share
                )
        return points[-1][1]


@final
class SequentialLR(Schedule):
    """Schedules one after the other, from some epochs on: each starts with its own epoch 0.

    schedulers : schedules of the optimizer.
    milestones : the epochs at which the second and later ones start.

    >>> import iverson as iv
    >>> optimizer = iv.optim.SGD([iv.asarray(1.0, requires_grad=True)], lr=1.0)
    >>> warm = iv.optim.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> decay = iv.optim.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = iv.optim.SequentialLR(optimizer, [warm, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.lr, 4))
    ...     schedule.step()
    >>> rates
    [0.1, 0.1, 1.0, 0.5]
    """

    @checked
    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[Schedule], milestones: Sequence[int]
    ) -> None:
        parts = as_sequence(schedulers, "SequentialLR", "schedulers")
        starts = [
            as_int(m, "SequentialLR", "milestones")
            for m in as_sequence(milestones, "SequentialLR", "milestones")
        ]
        if not all(isinstance(s, Schedule) and s.optimizer is optimizer for s in parts):
            raise ArgumentTypeError(
                "SequentialLR", "schedulers", got=described(parts), expected="schedules of this optimizer"
            )
        if len(starts) != len(parts) - 1 or starts != sorted(starts):
            raise ArgumentError(
                "SequentialLR", "milestones", got=str(starts), expected="one less than schedules, in order"
            )
        self.schedulers, self.milestones = list(parts), starts
        super().__init__(optimizer)

    def _rates(self, epoch: int) -> list[float]:
        k = bisect_right(self.milestones, epoch)
        schedule: Schedule = self.schedulers[k]
        return schedule._rates(epoch - (self.milestones[k - 1] if k else 0))


@final
class ReduceLROnPlateau:
    """The rate times ``factor`` where a measure has not improved for more than ``patience`` epochs.

    mode : "min" or "max", which way is better.
    threshold : by how much better counts, as a share ("rel") or a difference ("abs").
    cooldown : for how many epochs after that nothing is counted.
    min_lr : the least rate.

    >>> import iverson as iv
    >>> from iverson import optim
    >>> opt = optim.SGD([iv.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = optim.ReduceLROnPlateau(opt, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> opt.lr
    0.5
    """

    @checked
    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        name = "ReduceLROnPlateau"
        check_choice(mode, ("min", "max"), name, "mode")
        check_choice(threshold_mode, ("rel", "abs"), name, "threshold_mode")
        if not 0 < as_real(factor, name, "factor") < 1:
            raise ArgumentError(name, "factor", got=str(factor), expected="a number between 0 and 1")
        self.optimizer = _optimizer(optimizer, name)
        self.mode, self.factor, self.threshold_mode = mode, factor, threshold_mode
        self.patience, self.cooldown = as_int(patience, name, "patience"), as_int(cooldown, name, "cooldown")
        self.threshold = as_real(threshold, name, "threshold")
        self.min_lr = as_real(min_lr, name, "min_lr")
        self.best = float("inf") if mode == "min" else -float("inf")
        self.bad_epochs = self.waiting = 0

    def step(self, metrics: Array | float) -> None:
        """Take note of the measure of an epoch: a number, or a tensor of one entry."""
        now = float(metrics.item() if hasattr(metrics, "item") else as_real(metrics, "step", "metrics"))
        if self._better(now):
            self.best, self.bad_epochs = now, 0
        else:
            self.bad_epochs += 1
        if self.waiting:
            self.waiting -= 1
            self.bad_epochs = 0
        if self.bad_epochs > self.patience:
            for group in self.optimizer.param_groups:
                group["lr"] = max(group["lr"] * self.factor, self.min_lr)
            self.waiting, self.bad_epochs = self.cooldown, 0

    def _better(self, now: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return bool(sign * now < sign * self.best * (1 - sign * self.threshold))
        return bool(sign * now < sign * self.best - self.threshold)

    def state_dict(self) -> StateDict:
        """The state that a later run needs to continue."""
        return {"best": self.best, "bad_epochs": self.bad_epochs, "waiting": self.waiting}

    def load_state_dict(self, state: StateDict) -> None:
        """Take over what `state_dict` returned."""
        if not isinstance(state, dict) or set(state) != {"best", "bad_epochs", "waiting"}:
            raise ArgumentError(
                "ReduceLROnPlateau", "state", got="a state of another one", expected="one from state_dict()"
            )
        for name, value in state.items():
            setattr(self, name, value)


__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "Schedule",
    "SequentialLR",
    "StepLR",
]
