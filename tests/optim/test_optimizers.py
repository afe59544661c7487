"""Optimizers: their formulas against PyTorch's, and what they promise about state and gradients."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import iverson as iv
from iverson import optim
from iverson.autograd import grad
from iverson.core.errors import ArgumentError, GradientError, ShapeError

CASES = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd-momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd-nesterov": ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.01}),
    "adamw": ("AdamW", {"lr": 0.1, "weight_decay": 0.1}),
    "adagrad": (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.01, "initial_accumulator_value": 0.1},
    ),
    "adamax": ("Adamax", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.01}),
    "nadam": ("NAdam", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.01}),
    "radam": ("RAdam", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.01}),
    "adadelta": ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.01}),
    "lion": ("Lion", {"lr": 0.01, "weight_decay": 0.1}),
    "rmsprop": ("RMSprop", {"lr": 0.01, "alpha": 0.9, "weight_decay": 0.01}),
    "rmsprop-centered": ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}),
}


def make(name: str, params):
    kind, settings = CASES[name]
    return getattr(optim, kind)(params, **settings)


def parameters(dtype=np.float64):
    rng = np.random.default_rng(0)
    return {
        "w": iv.asarray(rng.standard_normal((3, 2)).astype(dtype), requires_grad=True),
        "b": [iv.asarray(rng.standard_normal(2).astype(dtype), requires_grad=True)],
    }


def loss_of(p):
    return (iv.square(p["w"] @ iv.ones((2, 2), dtype=p["w"].dtype) + p["b"][0])).sum()


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_against_torch(name, dtype, request):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    kind, settings = CASES[name]
    if not hasattr(torch.optim, kind):
        pytest.skip(f"PyTorch has no {kind}")
    request.addfinalizer(partial(torch.set_default_dtype, torch.get_default_dtype()))
    torch.set_default_dtype(torch.float64)  # of numbers in the state of NAdam
    rng = np.random.default_rng(0)
    start = rng.standard_normal((3, 2)) + (1j * rng.standard_normal((3, 2)) if dtype is np.complex128 else 0)
    ours = iv.asarray(start.astype(dtype), requires_grad=True)
    theirs = torch.tensor(start.astype(dtype), requires_grad=True)
    a = getattr(optim, kind)([ours], **settings)
    b = getattr(torch.optim, kind)([theirs], **settings)
    for _ in range(7):
        g = (rng.standard_normal((3, 2)) + (1j if dtype is np.complex128 else 0)).astype(dtype)
        a.step([iv.asarray(g)])
        theirs.grad = torch.tensor(g)
        b.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


def test_lion_is_its_formula():
    rng = np.random.default_rng(0)
    start, mean = rng.standard_normal(5), np.zeros(5)
    p = iv.asarray(start, copy=True, requires_grad=True)
    opt = make("lion", [p])
    for _ in range(4):
        g = rng.standard_normal(5)
        opt.step([iv.asarray(g)])
        start = start * (1 - 0.01 * 0.1) - 0.01 * np.sign(0.9 * mean + 0.1 * g)
        mean = 0.99 * mean + 0.01 * g
    np.testing.assert_allclose(p.detach().numpy(), start, rtol=1e-14)


def test_groups_have_hyperparameters_of_their_own():
    """A step of groups is that of an optimizer for each; compiled, scheduled and saved too."""
    rng = np.random.default_rng(0)
    starts, gradients = rng.standard_normal((3, 2)), rng.standard_normal((4, 3, 2))

    def leaves():
        return [iv.asarray(x, copy=True, requires_grad=True) for x in starts]

    a, b, c = leaves()
    opt = optim.Adam([{"params": [a, b], "lr": 0.5}, {"params": {"c": c}, "betas": (0.5, 0.6)}], lr=0.1)
    compiled = leaves()
    x, y, z = compiled
    other = optim.Adam([{"params": [x, y], "lr": 0.5}, {"params": {"c": z}, "betas": (0.5, 0.6)}], lr=0.1)
    step = iv.jit(lambda gradients: other.step(list(gradients)))
    d, e, f = leaves()
    alone = optim.Adam([d, e], lr=0.5), optim.Adam([f], lr=0.1, betas=(0.5, 0.6))
    assert [(g["lr"], g["betas"], len(g["params"])) for g in opt.param_groups] == [
        (0.5, (0.9, 0.999), 2),
        (0.1, (0.5, 0.6), 1),
    ]
    for k, g in enumerate(gradients):
        if k == 2:
            for own in (opt, other):
                own.param_groups[1]["lr"] = 0.3
                own.param_groups[0]["eps"] = 0.01
            alone[1].lr, alone[0].eps = 0.3, 0.01
            state = opt.state_dict()
            opt = optim.Adam([{"params": [a, b]}, {"params": c}], lr=1.0)
            opt.load_state_dict(state)
        opt.step(list(iv.asarray(g)))
        step(tuple(iv.asarray(g)))
        alone[0].step(list(iv.asarray(g[:2])))
        alone[1].step([iv.asarray(g[2])])
    for ours, jitted, wanted in zip((a, b, c), compiled, (d, e, f), strict=True):
        np.testing.assert_array_equal(ours.detach().numpy(), wanted.detach().numpy())
        np.testing.assert_allclose(jitted.detach().numpy(), wanted.detach().numpy(), rtol=1e-13)


def test_parameters_come_in_any_container():
    p = parameters()
    for params in (p.values(), iter([p["w"], *p["b"]]), (x for x in (p["w"], *p["b"])), [{"params": p}]):
        assert len(optim.SGD(params, lr=0.1).params) == 2


def test_unknown_names_are_refused():
    opt = optim.Adam(parameters())
    with pytest.raises(AttributeError, match=r"Adam: argument 'learning_rate'.*betas, eps, lr, weight_decay"):
        opt.learning_rate = 0.1
    with pytest.raises(AttributeError, match="Adam: argument 'rate': got a name that a group does not have"):
        opt.param_groups[0]["rate"] = 0.1
    with pytest.raises(ArgumentError, match=r"params\[0\]': got hyperparameters \['learning_rate'\]"):
        optim.Adam([{"params": parameters(), "learning_rate": 0.1}])
    opt.lr = 0.2
    assert opt.param_groups[0]["lr"] == 0.2


@pytest.mark.parametrize("name", CASES)
def test_a_loss_falls(name):
    p = parameters()
    opt = make(name, p)
    before = loss_of(p).item()
    for _ in range(20):
        opt.zero_grad()
        loss_of(p).backward()
        opt.step()
    assert loss_of(p).item() < before


@pytest.mark.parametrize("name", CASES)
def test_state_dict_continues_where_it_stopped(name):
    p, q = parameters(), parameters()
    a, b = make(name, p), make(name, q)
    for opt, params in ((a, p), (b, q)):
        for _ in range(3):
            opt.zero_grad()
            loss_of(params).backward()
            opt.step()
    fresh = make(name, q)
    fresh.load_state_dict(b.state_dict())
    for opt, params in ((a, p), (fresh, q)):
        opt.zero_grad()
        loss_of(params).backward()
        opt.step()
    np.testing.assert_array_equal(p["w"].detach().numpy(), q["w"].detach().numpy())


@pytest.mark.parametrize("name", CASES)
def test_a_parameter_with_a_zero_layout_gradient_is_left_alone(name):
    used, unused = iv.asarray([1.0, 2.0], requires_grad=True), iv.asarray([3.0], requires_grad=True)
    opt = make(name, [used, unused])
    for _ in range(2):
        gradients = grad((used * used).sum(), [used, unused])
        assert gradients[1].layout == "zero"
        opt.step(list(gradients))
    assert unused.item() == 3.0
    assert opt.state_dict()["states"][1] is None
    assert (used.detach().numpy() != [1.0, 2.0]).all()


def test_a_box_gradient_is_its_dense_self():
    a, b = (iv.asarray(np.arange(4.0), requires_grad=True) for _ in range(2))
    for p, g in ((a, grad(a[1] * 2, a)), (b, iv.asarray([0.0, 2.0, 0.0, 0.0]))):
        optim.SGD([p], lr=0.5).step([g])
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_a_sole_owner_is_updated_in_place_and_a_shared_buffer_is_not():
    p = iv.asarray(np.zeros(3), copy=True, requires_grad=True)
    opt = optim.SGD([p], lr=1.0)
    opt.step([iv.ones(3)])
    address = p.detach().numpy().ctypes.data
    opt.step([iv.ones(3)])
    assert p.detach().numpy().ctypes.data == address
    y = p * p  # the node reads p in backward
    opt.step([iv.ones(3)])
    np.testing.assert_array_equal(grad(y.sum(), p).numpy(), [-4.0, -4.0, -4.0])
    np.testing.assert_array_equal(p.detach().numpy(), [-3.0, -3.0, -3.0])


def test_bad_input():
    p = iv.asarray([1.0], requires_grad=True)
    with pytest.raises(ArgumentError, match="SGD: argument 'lr': got -1"):
        optim.SGD([p], lr=-1)
    with pytest.raises(ArgumentError, match="no parameters"):
        optim.SGD([], lr=1)
    with pytest.raises(GradientError, match="requires_grad_"):
        optim.SGD([iv.asarray([1.0])], lr=1)
    with pytest.raises(TypeError, match="leaf 0 of type int"):
        optim.SGD([3], lr=1)
    with pytest.raises(ArgumentError, match="nesterov"):
        optim.SGD([p], lr=1, nesterov=True)
    opt = optim.SGD([p], lr=1)
    with pytest.raises(ShapeError, match=r"got shape \(2,\); expected shape \(1,\)"):
        opt.step([iv.ones(2)])
    with pytest.raises(ArgumentError, match="2 of them"):
        opt.step([iv.ones(1), iv.ones(1)])
    with pytest.raises(ArgumentError, match="another optimizer"):
        opt.load_state_dict(optim.Adam([p]).state_dict())


@pytest.mark.parametrize(
    "value",
    [np.array(1 + 2j), np.asfortranarray(np.full((2, 3), 1 + 2j)), np.ones((3, 2), "complex64")[::-1].T],
    ids=["rank 0", "Fortran order", "reversed"],
)
def test_complex_parameters_of_any_memory_order(value):
    p = iv.asarray(value, requires_grad=True)
    opt = optim.SGD([p], lr=0.5, momentum=0.9)
    opt.step([iv.ones(value.shape, dtype=value.dtype)])
    opt.step([iv.ones(value.shape)])
    assert p.dtype == value.dtype
    np.testing.assert_allclose(p.detach().numpy(), value - 0.5 - 0.95, rtol=1e-6)


def test_gradients_and_parameters_of_the_wrong_kind():
    p = iv.asarray([1.0], requires_grad=True)
    opt = optim.SGD([p], lr=0.1)
    with pytest.raises(TypeError, match=r"gradients\[0\]': got a ndarray"):
        opt.step([np.ones(1)])
    with pytest.raises(TypeError, match="got dtype complex128; expected one that fits float64"):
        opt.step([iv.asarray([1j])])
    with pytest.raises(ArgumentError, match="leaf 1 a second time"):
        optim.SGD([p, p], lr=0.1)
    with pytest.raises(TypeError, match="'lr': got 'fast'"):
        optim.SGD([p], lr="fast")
    with pytest.raises(ArgumentError, match="betas"):
        optim.Adam([p], betas=0.9)
    p.requires_grad_(False)
    p += iv.asarray([1.0], requires_grad=True)  # recorded: p is no parameter any more
    with pytest.raises(GradientError, match="no leaf any more"):
        opt.step([iv.asarray([1.0])])
