"""Steps of optimizers inside compiled functions: those of eager mode, in place, traced once."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

import iverson as iv
from iverson import optim
from iverson.codegen.nests.loop_facts import constant_extent
from iverson.codegen.nests.nodes import Loop, statements
from iverson.core.errors import GraphError
from tests.conformance.product import by_turns
from tests.optim.test_optimizers import CASES, make

ROWS = 6000


def leaf(rng, *shape, dtype=np.float64):
    values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype == "complex128" else 0)
    return iv.asarray(values.astype(dtype), copy=True, requires_grad=True)


class Model:
    """Parameters whose gradients are dense, a box, rows with repeats, masked, of another dtype, nothing."""

    def __init__(self, name, dtype):
        rng = np.random.default_rng(0)
        small = np.dtype("float32") if dtype == "float32" else dtype
        self.params = {
            "dense": leaf(rng, 3, 2, dtype=dtype),
            "box": leaf(rng, 5, 4, dtype=dtype),
            "rows": leaf(rng, ROWS, 2, dtype=dtype),
            "single": leaf(rng, 2, dtype=small),
            "unused": leaf(rng, 2, dtype=dtype),
        }
        if dtype != "complex128":
            mask = np.array([True, False, True])
            self.params["masked"] = iv.masked_tensor(rng.standard_normal(3), mask).requires_grad_()
        self.opt = make(name, self.params)

    def loss(self, x, i):
        p = self.params
        size = lambda z: (iv.real(z) ** 2 + iv.imag(z) ** 2 if z.dtype.kind == "c" else z**2).sum()
        total = size(x @ p["dense"]) + size(p["box"][1:3] * x[0, 0]) + size(p["single"] * 3)
        total += size(iv.embedding(i, p["rows"])) + size(p["rows"][i + 1] * x[1, 1])
        if "masked" in p:
            total += (p["masked"] * p["masked"]).sum().to_tensor(0.0)
        return total

    def by_backward(self, x, i):
        self.opt.zero_grad()
        loss = self.loss(x, i)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        return loss.detach()

    def state(self):
        held = []
        for p in self.params.values():
            plain = p.detach()
            held.append((plain if isinstance(plain, iv.Tensor) else plain.to_tensor(0.0)).numpy())
        for s in self.opt.state_dict()["states"]:
            held += [] if s is None else list(s.values())
        return held


@pytest.mark.parametrize(
    ("name", "dtype"),
    by_turns([*((n, "float64") for n in CASES), ("adam", "float32"), ("sgd-momentum", "complex128")], 3),
)
def test_compiled_steps_are_those_of_eager_mode(name, dtype):
    ours, expected = Model(name, dtype), Model(name, dtype)
    runs = []

    @iv.jit
    def step(x, i):
        runs.append(1)
        return ours.by_backward(x, i)

    rng = np.random.default_rng(1)
    for k in range(4):
        x = iv.asarray(rng.standard_normal((5, 3)).astype(dtype))
        i = iv.asarray(np.append(rng.integers(0, 9, 5) * 600, 0))
        if k == 2:
            ours.opt.lr *= 0.5
            expected.opt.lr *= 0.5
        run = ours.by_backward if k == 1 else step  # eager between compiled ones
        found, wanted = run(x, i), expected.by_backward(x, i)
        rtol = 2e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=rtol)
        for a, b in zip(ours.state(), expected.state(), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol / 10)
    assert len(runs) == 1
    assert ours.opt.steps == 4
    if dtype != "complex128":
        (entry,) = step._entries.values()
        assert len(entry.compiled._program.steps) == 1  # one native call


def test_gradients_of_a_transform_and_hyperparameters_that_change():
    p = iv.asarray([1.0, 2.0], requires_grad=True)
    q = iv.asarray([1.0, 2.0], requires_grad=True)
    a, b = (optim.Adam({"p": x}, lr=0.1) for x in (p, q))
    loss = lambda params, x: (params["p"] ** 2 * x).sum()

    def step(opt, x, leaf):
        g = iv.grad(loss)({"p": leaf}, x)
        opt.step(g)
        return g["p"].detach()

    f = iv.jit(lambda x: step(a, x, p))
    for k in range(4):
        if k == 2:
            a.betas = b.betas = (0.5, 0.9)
        x = iv.asarray([1.0 + k, -1.0])
        np.testing.assert_allclose(f(x).numpy(), step(b, x, q).numpy(), rtol=1e-14)
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-14)
    a.load_state_dict(b.state_dict())
    f(x)
    step(b, x, q)
    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-14)


def test_a_step_on_rows_is_in_place_and_small():
    table = iv.asarray(np.ones((1 << 15, 16)), copy=True, requires_grad=True)
    opt = optim.Adam([table])

    @iv.jit
    def step(i):
        opt.zero_grad()
        loss = (iv.embedding(i, table) ** 2).sum()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    for _ in range(2):
        step(np.array([1, 5, 1]))
    place = table._value.ctypes.data
    tracemalloc.start()
    step(np.array([3, 0, 7]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table._value.ctypes.data == place
    assert peak < 50_000
    assert np.flatnonzero((table.detach().numpy() != 1).any(1)).tolist() == [0, 1, 3, 5, 7]
    (entry,) = step._entries.values()
    (native,) = entry.compiled._program.steps
    loops = [x for s in native.compiled.program.steps for x in statements(s.kernel.phases)]
    assert max(constant_extent(x) for x in loops if isinstance(x, Loop)) == 16


def test_a_gradient_outside_of_a_sparse_parameter_is_an_error():
    s = iv.to_sparse(iv.eye(3)).requires_grad_()
    opt = optim.SGD([s], lr=0.1)
    x = iv.asarray(np.arange(3.0))
    f = iv.jit(lambda x: opt.step([iv.grad(lambda s: (s * s).sum() * x[1])(s)]))
    f(x)
    np.testing.assert_allclose(s.detach().to_dense().numpy(), 0.8 * np.eye(3))
    with pytest.raises(GraphError, match="pattern"):
        iv.jit(lambda x: opt.step([iv.ones((3, 3))]))(x)


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_against_torch(name, request):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    kind, settings = CASES[name]
    if not hasattr(torch.optim, kind):
        pytest.skip(f"PyTorch has no {kind}")
    request.addfinalizer(partial(torch.set_default_dtype, torch.get_default_dtype()))
    torch.set_default_dtype(torch.float64)  # of numbers in the state of NAdam
    rng = np.random.default_rng(0)
    start = rng.standard_normal((3, 2))
    w = iv.asarray(start, copy=True, requires_grad=True)
    theirs = torch.tensor(start, requires_grad=True)
    opt, other = getattr(optim, kind)([w], **settings), getattr(torch.optim, kind)([theirs], **settings)

    @iv.jit
    def step(x):
        opt.zero_grad()
        (iv.tanh(x @ w) ** 2).sum().backward()
        opt.step()

    for _ in range(6):
        x = rng.standard_normal((4, 3))
        step(x)
        other.zero_grad()
        (torch.tanh(torch.tensor(x) @ theirs) ** 2).sum().backward()
        other.step()
    np.testing.assert_allclose(w.detach().numpy(), theirs.detach().numpy(), rtol=1e-11)
