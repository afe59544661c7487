"""Steps of many parameters as one program: the numbers are those of single steps, in all situations."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import iverson as iv
from iverson.optim import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lion,
    NAdam,
    RAdam,
    RMSprop,
    fused_steps,
)

SHAPES = [(3, 4), (4,), (), (0, 3), (7,), (2, 3, 2)]
OPTIMIZERS = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "momentum": lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": lambda p: Adam(p, lr=0.1, weight_decay=0.01),
    "adamw": lambda p: AdamW(p, lr=0.1),
    "adamax": lambda p: Adamax(p, lr=0.1),
    "nadam": lambda p: NAdam(p, lr=0.1),
    "radam": lambda p: RAdam(p, lr=0.1),
    "adagrad": lambda p: Adagrad(p, lr=0.1),
    "adadelta": Adadelta,
    "rmsprop": lambda p: RMSprop(p, lr=0.1),
    "lion": lambda p: Lion(p, lr=0.01),
}


def params(dtype="float64", shapes=SHAPES, seed=0):
    rng = np.random.default_rng(seed)
    return [iv.asarray(rng.normal(size=s).astype(dtype), requires_grad=True) for s in shapes]


def gradients(k, shapes=SHAPES, dtype="float64"):
    rng = np.random.default_rng(100 + k)
    return [iv.asarray(rng.normal(size=s).astype(dtype)) for s in shapes]


def without_fusion(monkeypatch):
    monkeypatch.setattr(fused_steps.FusedStep, "__call__", lambda *_: False)


def run(make, between, dtype="float64", steps=30):
    p = params(dtype)
    opt = make(p)
    for k in range(steps):
        opt = between(k, p, opt) or opt
        opt.step(gradients(k, dtype=dtype))
    return [x.detach().numpy().copy() for x in p], opt


def nothing(k, p, opt):
    return None


def rate(k, p, opt):
    opt.lr = 0.1 / (k + 1)


def other_hyperparameter(k, p, opt):
    if k % 13 == 12:
        opt.weight_decay = 0.02 * k


def written(k, p, opt):
    if k % 11 == 10:
        with iv.no_grad():
            p[0][1] = 3.0
            p[1] *= 2


def viewed(k, p, opt):
    """Arrays that others hold must not change."""
    if k == 15:
        viewed.arrays = [x.detach().numpy() for x in p]
        viewed.copies = [a.copy() for a in viewed.arrays]
    if k > 15:
        for a, b in zip(viewed.arrays, viewed.copies, strict=True):
            np.testing.assert_array_equal(a, b)


def in_parts(k, p, opt):
    if k == 12:
        with iv.no_grad():
            in_parts.row = p[0].detach()[1]
            in_parts.row[...] = 0.5


def frozen(k, p, opt):
    p[2].requires_grad_(k not in (14, 15, 16))


def copied(k, p, opt):
    if k == 14:
        other = pickle.loads(pickle.dumps(opt.state_dict()))
        opt.load_state_dict(other)


BETWEEN = [rate, other_hyperparameter, written, viewed, in_parts, copied]


CASES = [(name, nothing) for name in OPTIMIZERS] + [(n, f) for n in ("momentum", "adam") for f in BETWEEN]


@pytest.mark.parametrize(("name", "between"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_numbers_are_those_of_single_steps(name, between, monkeypatch):
    found, opt = run(OPTIMIZERS[name], between)
    assert opt.steps == 30
    without_fusion(monkeypatch)
    expected, _ = run(OPTIMIZERS[name], between)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_frozen_parameters_stay(monkeypatch):
    def steps():
        p = params()
        opt = Adam(p, lr=0.1)
        for k in range(30):
            for x, g in zip(p, gradients(k), strict=True):
                x.grad = g if x.requires_grad else None
            frozen(k, p, opt)
            opt.step()
            for x in p:
                x.requires_grad_()
            opt.zero_grad()
        return [x.detach().numpy() for x in p]

    found = steps()
    without_fusion(monkeypatch)
    for a, b in zip(found, steps(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_groups_and_schedules(monkeypatch):
    def steps():
        p = params()
        opt = Adam([{"params": p[:3], "lr": 0.1}, {"params": p[3:], "weight_decay": 0.1}], lr=0.01)
        schedule = iv.optim.CosineAnnealingLR(opt, 30)
        for k in range(25):
            opt.step(gradients(k))
            schedule.step()
        return [x.detach().numpy() for x in p]

    found = steps()
    without_fusion(monkeypatch)
    for a, b in zip(found, steps(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_steps_of_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    p = params("float32")
    q = [torch.tensor(x.detach().numpy(), requires_grad=True) for x in p]
    opt, other = Adam(p, lr=0.1), torch.optim.Adam(q, lr=0.1)
    for k in range(40):
        for x, g in zip(q, gradients(k, dtype="float32"), strict=True):
            x.grad = torch.tensor(g.numpy())
        opt.step(gradients(k, dtype="float32"))
        other.step()
    for a, b in zip(p, q, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_later_steps_enter_no_update():
    """After the program is made, no formula runs in Python, and parameters stay in their memory."""
    p = params("float32", [(16, 16)] * 10)
    opt = Adam(p, lr=0.1)
    calls = []
    update = Adam._update

    def counted(self, *args):
        calls.append(self)
        return update(self, *args)

    Adam._update = counted
    try:
        for k in range(fused_steps.AFTER + 2):
            opt.step(gradients(k, [(16, 16)] * 10, "float32"))
        places = [x.detach().numpy().ctypes.data for x in p]
        calls.clear()
        for k in range(5):
            opt.step(gradients(k, [(16, 16)] * 10, "float32"))
    finally:
        Adam._update = update
    assert not calls
    assert [x.detach().numpy().ctypes.data for x in p] == places


def test_copies_step_for_themselves():
    p = params()
    opt = Adam(p, lr=0.1)
    for k in range(12):
        opt.step(gradients(k))
    other = copy.deepcopy(opt)
    before = [x.detach().numpy().copy() for x in p]
    for k in range(12):
        other.step(gradients(k))
    for a, b in zip(before, p, strict=True):
        np.testing.assert_array_equal(a, b.detach().numpy())
    gone = weakref.ref(p[0])
    del p, opt, other, b
    gc.collect()
    assert gone() is None


def test_steps_while_compilation_is_disabled(monkeypatch):
    def steps():
        p = params()
        opt = Adam(p, lr=0.1)
        for k in range(15):
            if k % 4 == 3:
                with iv.disable_jit():
                    opt.step(gradients(k))
            else:
                opt.step(gradients(k))
        return [x.detach().numpy() for x in p]

    found = steps()
    without_fusion(monkeypatch)
    for a, b in zip(found, steps(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_errors_are_those_of_single_steps():
    p = params()
    opt = Adam(p, lr=0.1)
    for k in range(12):
        opt.step(gradients(k))
    wrong = gradients(0)
    wrong[0] = iv.zeros((4, 3))
    with pytest.raises(iv.errors.ShapeError, match="gradients\\[0\\]"):
        opt.step(wrong)
    with pytest.raises(iv.errors.ArgumentError, match="one per parameter"):
        opt.step(gradients(0)[:2])
