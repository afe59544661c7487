"""Functional optimizers: the steps of the stateful ones, in every transform, differentiated."""

from __future__ import annotations

import numpy as np
import optree
import pytest

import iverson as iv
from iverson import optim

CASES = {
    "sgd": ("SGD", {"momentum": 0.9, "weight_decay": 0.01}),
    "adam": ("Adam", {"betas": (0.8, 0.95), "weight_decay": 0.01}),
    "adamw": ("AdamW", {"weight_decay": 0.1}),
    "adamax": ("Adamax", {"betas": (0.8, 0.95)}),
    "nadam": ("NAdam", {"betas": (0.8, 0.95)}),
    "radam": ("RAdam", {"betas": (0.8, 0.95)}),
    "lion": ("Lion", {"weight_decay": 0.1}),
    "adagrad": ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    "adadelta": ("Adadelta", {"rho": 0.8}),
    "rmsprop": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "muon": ("Muon", {"momentum": 0.9}),
}
RNG = np.random.default_rng(0)
START = {"w": RNG.standard_normal((3, 2)), "v": [RNG.standard_normal((1, 4))]}
TARGET = RNG.standard_normal((3, 2))


def params(dtype="float64"):
    return {"w": iv.asarray(START["w"], dtype=dtype), "v": [iv.asarray(START["v"][0], dtype=dtype)]}


def loss(p):
    return (iv.abs(p["w"] - TARGET.astype(np.float32)) ** 2).sum() + (iv.abs(p["v"][0]) ** 2).sum()


def stateful(name, steps, dtype="float64"):
    kind, settings = CASES[name]
    p = optree.tree_map(lambda x: x.requires_grad_(), params(dtype))
    opt = getattr(optim, kind)(p, lr=0.1, **settings)
    for _ in range(steps):
        opt.step(iv.grad(loss)(p))
    return p


def trained(rule, p, steps, state=None):
    state = rule.init(p) if state is None else state
    for _ in range(steps):
        updates, state = rule.update(iv.grad(loss)(p), state, p)
        p = optim.apply_updates(p, updates)
    return p, state


def rule_of(name, lr=0.1):
    return getattr(optim, name)(lr, **CASES[name][1])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_the_stateful_optimizer(name, dtype):
    if name == "muon" and dtype == "complex128":
        with pytest.raises(iv.errors.ArgumentError, match="real matrix"):
            rule_of(name).init(params(dtype))
        return
    p, _ = trained(rule_of(name), params(dtype), 8)
    q = stateful(name, 8, dtype)
    tolerance = 1e-12 if dtype != "float32" else 2e-5
    for a, b in ((p["w"], q["w"]), (p["v"][0], q["v"][0])):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_compiled_scanned_and_mapped(name):
    rule, p = rule_of(name), params()
    expected, _ = trained(rule, p, 3)

    def step(carry, _):
        p, state = carry
        updates, state = rule.update(iv.grad(loss)(p), state, p)
        return (optim.apply_updates(p, updates), state), None

    compiled = iv.jit(step)
    carry = p, rule.init(p)
    for _ in range(3):
        carry, _ = compiled(carry, None)
    scanned = iv.jit(lambda p: iv.scan(step, (p, rule.init(p)), None, 3)[0][0])(p)
    twice = {"w": iv.stack([p["w"], p["w"] * 2.0]), "v": [iv.stack([p["v"][0], p["v"][0]])]}
    mapped = iv.vmap(lambda p: trained(rule, p, 3)[0])(twice)
    for found in (carry[0]["w"], scanned["w"], mapped["w"][0]):
        np.testing.assert_allclose(found.numpy(), expected["w"].numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", sorted(CASES.keys() - {"lion"}))  # of signs: no slope
def test_a_run_is_differentiated_in_the_rate_and_the_start(name, compiled):
    def final(lr, shift):
        p = params()
        p["w"] = p["w"] + shift
        return loss(trained(rule_of(name, lr), p, 4)[0])

    f = iv.jit(iv.grad(final, (0, 1))) if compiled else iv.grad(final, (0, 1))
    at = iv.asarray(0.05), iv.asarray(0.1)
    h = 1e-5
    for k, slope in enumerate(f(*at)):
        left, right = (list(at), list(at))
        left[k], right[k] = at[k] - h, at[k] + h
        numeric = (final(*right).item() - final(*left).item()) / (2 * h)
        np.testing.assert_allclose(slope.item(), numeric, rtol=2e-6, atol=1e-7)


def test_a_rate_may_be_a_function_of_the_steps():
    rates = [0.5, 0.25, 0.125]
    rule = optim.sgd(lambda count: 0.5 ** (count + 1.0))
    p, _ = trained(rule, params(), 3)
    q = params()
    for rate in rates:
        q, _ = trained(optim.sgd(rate), q, 1)
    np.testing.assert_allclose(p["w"].numpy(), q["w"].numpy(), rtol=1e-14)


def test_nothing_that_was_passed_is_changed():
    rule, p = optim.adam(0.1), params()
    state = rule.init(p)
    gradient = iv.grad(loss)(p)
    before = [x.numpy().copy() for x in optree.tree_leaves((p, state, gradient))]
    rule.update(gradient, state, p)
    for x, y in zip(before, optree.tree_leaves((p, state, gradient)), strict=True):
        np.testing.assert_array_equal(x, y.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_keeps_its_state_in_single(dtype):
    p, state = trained(optim.adam(0.1), params(dtype), 2)
    assert str(p["w"].dtype) == dtype
    assert state["states"][0]["mean"].dtype == np.float32


def test_gradients_of_any_layout_are_dense_here():
    rule, p = optim.adamw(0.1), [iv.ones((3, 2))]
    for gradient in (iv.eye(3).to_layout("csr")[:, :2], iv.zeros((3, 2))):
        a, _ = rule.update([gradient], rule.init(p), p)
        b, _ = rule.update([gradient.to_dense()], rule.init(p), p)
        np.testing.assert_array_equal(a[0].numpy(), b[0].numpy())


def test_wrong_trees():
    rule, p = optim.adam(0.1), params()
    state = rule.init(p)
    with pytest.raises(iv.errors.ArgumentError, match="update: argument 'gradients'"):
        rule.update([p["w"]], state, p)
    with pytest.raises(iv.errors.ShapeError, match=r"expected shape \(3, 2\)"):
        rule.update({"w": iv.ones((2, 2)), "v": p["v"]}, state, p)
    with pytest.raises(iv.errors.ArgumentError, match="state of init"):
        rule.update(p, {}, p)
    with pytest.raises(iv.errors.ArgumentTypeError, match="leaf 0"):
        rule.init(["text"])
    with pytest.raises(iv.errors.ArgumentError, match="apply_updates: argument 'updates'"):
        optim.apply_updates(p, [p["w"]])
    with pytest.raises(iv.errors.ArgumentError, match="Adam: argument 'lr'"):
        optim.adam(-1.0)


def test_muon_takes_orthogonal_steps():
    """Singular values of a step over the rate are about 1, and the step is that of its formula."""
    rng = np.random.default_rng(1)
    for shape in ((4, 3), (3, 4), (5, 5), (1, 3)):
        start, g = rng.standard_normal(shape), rng.standard_normal(shape)
        p = iv.asarray(start, copy=True, requires_grad=True)
        optim.Muon([p], lr=0.1, weight_decay=0.0, momentum=0.9).step([iv.asarray(g)])
        step = (start - p.detach().numpy()) / (0.1 * max(1.0, shape[0] / shape[1]) ** 0.5)
        values = np.linalg.svd(step)[1]
        assert (values > 0.6).all()
        assert (values < 1.3).all()
        x = g + 0.9 * (0.1 * g - g)
        u, s, vt = np.linalg.svd(x, full_matrices=False)
        s = s / np.linalg.norm(s)
        for _ in range(5):
            s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
        np.testing.assert_allclose(step, u * s @ vt, rtol=1e-9, atol=1e-10)


@pytest.mark.peers
def test_muon_against_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    rng = np.random.default_rng(2)
    start = rng.standard_normal((4, 3))
    ours = iv.asarray(start, copy=True, requires_grad=True)
    theirs = torch.tensor(start, requires_grad=True)
    a, b = optim.Muon([ours], lr=0.1), torch.optim.Muon([theirs], lr=0.1)
    for _ in range(5):
        g = rng.standard_normal((4, 3))
        a.step([iv.asarray(g)])
        theirs.grad = torch.tensor(g)
        b.step()
    # PyTorch iterates in bfloat16, of 8 bits: 5 steps of 0.1, of which each entry is off by a hundredth
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=5 * 0.1 * 0.02)


def test_averages():
    p = iv.asarray([1.0, 2.0], requires_grad=True)
    mean, expected = optim.EMA({"p": p}, decay=0.9), p.detach().numpy().copy()
    opt = optim.SGD([p], lr=0.1)

    def step(g):
        opt.step([g])
        mean.update()

    compiled = iv.jit(step)
    for k in range(6):
        (compiled if k % 2 else step)(iv.asarray([1.0, -1.0]))
        expected = 0.9 * expected + 0.1 * p.detach().numpy()
        np.testing.assert_allclose(mean.averages["p"].numpy(), expected, rtol=1e-12)
    other = optim.EMA({"p": p}, decay=0.9)
    other.load_state_dict(mean.state_dict())
    mean.update()
    other.update()
    np.testing.assert_array_equal(mean.averages["p"].numpy(), other.averages["p"].numpy())
    assert "decay=0.9" in repr(mean)
    with pytest.raises(iv.errors.ArgumentError, match="EMA: argument 'decay'"):
        optim.EMA([p], decay=1.0)
    with pytest.raises(iv.errors.ArgumentError, match="state_dict"):
        other.load_state_dict({"averages": []})
    with pytest.raises(iv.errors.ArgumentTypeError, match="EMA: argument 'params'"):
        optim.EMA(["p"])


def test_texts():
    p = iv.ones(1, requires_grad=True)
    opt = optim.Adam([{"params": [p]}, {"params": [iv.ones(2, requires_grad=True)]}], lr=0.5)
    assert repr(opt).startswith("Adam(2 parameters in 2 groups, 0 steps, lr=0.5")
    assert repr(optim.StepLR(opt, 3)).startswith("StepLR(of Adam, step_size=3, gamma=0.1")
    assert repr(optim.OneCycleLR(opt, 1.0, 10)).startswith("OneCycleLR(of Adam, max_lr=1.0")
    assert repr(optim.adam(0.5)).startswith("adam(lr=0.5, ")
