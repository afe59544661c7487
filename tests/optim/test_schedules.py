"""Rates of each epoch against PyTorch's, of groups, compiled steps and runs that go on."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson import optim
from iverson.errors import ArgumentError, ArgumentTypeError

#: name: the class and its arguments.
CASES = {
    "lambda": ("LambdaLR", (lambda epoch: 0.9**epoch,)),
    "step": ("StepLR", (4, 0.5)),
    "multistep": ("MultiStepLR", ([7, 3, 7], 0.5)),
    "constant": ("ConstantLR", (0.25, 4)),
    "linear": ("LinearLR", (0.1, 0.8, 6)),
    "exponential": ("ExponentialLR", (0.9,)),
    "polynomial": ("PolynomialLR", (8, 2.0)),
    "cosine": ("CosineAnnealingLR", (6, 0.01)),
    "one cycle": ("OneCycleLR", (0.8, 25)),
    "one linear cycle": ("OneCycleLR", (0.8, None, 5, 5, 0.4, "linear")),
    "restarts": ("CosineAnnealingWarmRestarts", (4, 1, 0.01)),
    "longer restarts": ("CosineAnnealingWarmRestarts", (2, 3, 0.01)),
}


def groups():
    a, b = (iv.ones(2, requires_grad=True) for _ in range(2))
    return [{"params": [a], "lr": 1.0}, {"params": [b], "lr": 0.3}]


def rates(schedule, epochs=20):
    found = [schedule.get_last_lr()]
    for _ in range(epochs):
        schedule.step()
        found.append(schedule.get_last_lr())
    return np.array(found)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("name", CASES)
def test_against_torch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    kind, args = CASES[name]
    theirs = torch.optim.SGD([{"params": [torch.ones(2)], "lr": lr} for lr in (1.0, 0.3)])
    wanted = rates(getattr(torch.optim.lr_scheduler, kind)(theirs, *args))
    found = rates(getattr(optim, kind)(optim.SGD(groups()), *args))
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_sequences_and_plateaus_against_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    found = []
    for lib, opt in ((optim, optim.SGD(groups())), (torch.optim.lr_scheduler, None)):
        if opt is None:
            opt = torch.optim.SGD([{"params": [torch.ones(2)], "lr": lr} for lr in (1.0, 0.3)])
        parts = [lib.LinearLR(opt, 0.1, 1.0, 5), lib.ExponentialLR(opt, 0.8)]
        found.append(rates(lib.SequentialLR(opt, parts, [5])))
    np.testing.assert_allclose(*found, rtol=1e-12)
    losses = [3.0, 2.0, 2.0, 2.0, 1.9999, 2.5, 2.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    for options in ({}, {"mode": "max"}, {"threshold": 0.01, "threshold_mode": "abs", "cooldown": 2}):
        ours, theirs = optim.SGD(groups()), torch.optim.SGD([torch.ones(2)], lr=1.0)
        a = optim.ReduceLROnPlateau(ours, factor=0.5, patience=1, min_lr=0.1, **options)
        b = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, factor=0.5, patience=1, min_lr=0.1, **options)
        for loss in losses:
            a.step(iv.asarray(loss))
            b.step(loss)
            assert ours.param_groups[0]["lr"] == theirs.param_groups[0]["lr"]


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_goes_on_has_the_rates_of_one(name):
    kind, args = CASES[name]
    wanted = rates(getattr(optim, kind)(optim.SGD(groups()), *args))
    assert len(np.unique(wanted[:, 0])) > 1
    first = getattr(optim, kind)(optim.SGD(groups()), *args)
    rates(first, 7)
    second = getattr(optim, kind)(optim.SGD(groups()), *args)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(rates(second, 13), wanted[7:])


def test_a_compiled_step_takes_the_rate_of_the_epoch():
    p = iv.zeros(1, requires_grad=True)
    opt = optim.SGD([p], lr=1.0)
    schedule = optim.StepLR(opt, 1, 0.5)
    traces = []

    @iv.jit
    def step():
        traces.append(1)
        opt.step([iv.ones(1)])

    for _ in range(4):
        step()
        schedule.step()
    assert p.item() == -(1 + 0.5 + 0.25 + 0.125)
    assert len(traces) == 1


def test_errors():
    opt = optim.SGD(groups())
    with pytest.raises(ArgumentError, match="StepLR: argument 'step_size': got 0; expected at least 1"):
        optim.StepLR(opt, 0)
    with pytest.raises(ArgumentTypeError, match="argument 'optimizer': got 3"):
        optim.StepLR(3, 1)
    with pytest.raises(ArgumentError, match="one less than schedules"):
        optim.SequentialLR(opt, [optim.StepLR(opt, 1)], [3])
    with pytest.raises(ArgumentError, match=r"one from state_dict"):
        optim.StepLR(opt, 1).load_state_dict({})
