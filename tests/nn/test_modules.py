"""Layers: PyTorch's values and gradients on the same parameters, and trees in every transform."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson import nn, tree
from iverson.dataclasses import dataclass

RNG = np.random.default_rng(0)
PER_LAYER = {
    "Linear": (lambda r: nn.Linear(3, 4, rng=r), lambda t: t.nn.Linear(3, 4), (5, 3)),
    "Linear without bias": (
        lambda r: nn.Linear(3, 4, bias=False, rng=r),
        lambda t: t.nn.Linear(3, 4, bias=False),
        (2, 5, 3),
    ),
    "Conv1d": (
        lambda r: nn.Conv(1, 4, 6, 3, 2, 1, groups=2, rng=r),
        lambda t: t.nn.Conv1d(4, 6, 3, 2, 1, groups=2),
        (2, 4, 9),
    ),
    "Conv2d": (
        lambda r: nn.Conv(2, 3, 4, (3, 2), (1, 2), padding=(1, 0), dilation=2, rng=r),
        lambda t: t.nn.Conv2d(3, 4, (3, 2), (1, 2), (1, 0), 2),
        (2, 3, 8, 7),
    ),
    "Conv3d": (
        lambda r: nn.Conv(3, 2, 3, 2, padding="same", rng=r),
        lambda t: t.nn.Conv3d(2, 3, 2, padding="same"),
        (1, 2, 3, 4, 3),
    ),
    "LayerNorm": (lambda r: nn.LayerNorm((2, 3)), lambda t: t.nn.LayerNorm((2, 3)), (4, 2, 3)),
    "LSTM": (lambda r: nn.LSTM(3, 4, rng=r), lambda t: t.nn.LSTM(3, 4), (6, 2, 3)),
    "GRU": (lambda r: nn.GRU(3, 4, rng=r), lambda t: t.nn.GRU(3, 4), (6, 2, 3)),
    "GRU without bias": (
        lambda r: nn.GRU(3, 4, bias=False, rng=r),
        lambda t: t.nn.GRU(3, 4, bias=False),
        (6, 3),
    ),
}


def made(name):
    return PER_LAYER[name][0](iv.random.default_rng(1))


def outputs(layer, x):
    y = layer(x)
    return y[0] if isinstance(y, tuple) else y


def loss(layer, x):
    return iv.sin(outputs(layer, x)).sum()


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", PER_LAYER)
def test_against_torch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    _, theirs, shape = PER_LAYER[name]
    ours, other = made(name), theirs(torch).double()
    parameters = list(other.parameters())
    assert [tuple(p.shape) for p in parameters] == [x.shape for x in tree.leaves(ours)]
    with torch.no_grad():
        for p, x in zip(parameters, tree.leaves(ours), strict=True):
            p.copy_(torch.tensor(x.numpy()))
    x = RNG.standard_normal(shape)
    y = other(torch.tensor(x))
    y = y[0] if isinstance(y, tuple) else y
    np.testing.assert_allclose(
        outputs(ours, iv.asarray(x)).numpy(), y.detach().numpy(), rtol=1e-9, atol=1e-12
    )
    torch.sin(y).sum().backward()
    gradient = iv.grad(loss)(ours, iv.asarray(x))
    for p, g in zip(parameters, tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(g.to_dense().numpy(), p.grad.numpy(), rtol=1e-8, atol=1e-11)


@pytest.mark.peers
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_states_against_torch(kind):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    ours, other = made(kind), getattr(torch.nn, kind)(3, 4).double()
    with torch.no_grad():
        for p, x in zip(other.parameters(), tree.leaves(ours), strict=True):
            p.copy_(torch.tensor(x.numpy()))
    x, h, c = RNG.standard_normal((5, 2, 3)), RNG.standard_normal((2, 4)), RNG.standard_normal((2, 4))
    first = (iv.asarray(h), iv.asarray(c)) if kind == "LSTM" else iv.asarray(h)
    theirs = [torch.tensor(s)[None] for s in (h, c)]
    _, last = ours(iv.asarray(x), first)
    _, wanted = other(torch.tensor(x), tuple(theirs) if kind == "LSTM" else theirs[0])
    for a, b in zip(tree.leaves(last), wanted if kind == "LSTM" else [wanted], strict=True):
        np.testing.assert_allclose(a.numpy(), b[0].detach().numpy(), rtol=1e-10)


@pytest.mark.peers
@pytest.mark.parametrize("causal", [False, True])
def test_attention_against_torch(causal):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    ours = nn.MultiHeadAttention(2, 6, rng=iv.random.default_rng(0))
    other = torch.nn.MultiheadAttention(6, 2, batch_first=True).double()
    maps = (ours.query_proj, ours.key_proj, ours.value_proj)
    with torch.no_grad():
        other.in_proj_weight.copy_(torch.tensor(np.concatenate([m.weight.numpy() for m in maps])))
        other.in_proj_bias.copy_(torch.tensor(np.concatenate([m.bias.numpy() for m in maps])))
        other.out_proj.weight.copy_(torch.tensor(ours.output_proj.weight.numpy()))
        other.out_proj.bias.copy_(torch.tensor(ours.output_proj.bias.numpy()))
    q, k = RNG.standard_normal((3, 4, 6)), RNG.standard_normal((3, 4 if causal else 5, 6))
    mask = torch.nn.Transformer.generate_square_subsequent_mask(4).double() if causal else None
    y, _ = other(*map(torch.tensor, (q, k, k)), attn_mask=mask)
    found = ours(iv.asarray(q), iv.asarray(k), is_causal=causal)
    np.testing.assert_allclose(found.numpy(), y.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PER_LAYER)
@pytest.mark.parametrize("way", ["jit", "vmap of layers", "vmap of data", "checkpoint", "jvp"])
def test_transforms(name, way):
    layer, x = made(name), iv.asarray(RNG.standard_normal(PER_LAYER[name][2]))
    expected = iv.grad(loss)(layer, x)
    if way == "jit":
        found = iv.jit(iv.grad(loss))(layer, x)
    elif way == "vmap of layers":
        both = tree.map(lambda w: iv.stack([w, w * 2.0]), layer)
        found = tree.map(lambda g: g[0], iv.vmap(iv.grad(loss), (0, None))(both, x))
    elif way == "vmap of data":
        found = tree.map(lambda g: g[1], iv.vmap(iv.grad(loss), (None, 0))(layer, iv.stack([x * 2.0, x])))
    elif way == "checkpoint":
        found = iv.grad(iv.checkpoint(loss))(layer, x)
    else:
        direction = tree.map(iv.ones_like, layer)
        slope = iv.jvp(lambda layer: loss(layer, x), (layer,), (direction,))[1]
        total = sum(g.to_dense().sum().item() for g in tree.leaves(expected))
        np.testing.assert_allclose(slope.item(), total, rtol=1e-10)
        return
    assert type(found) is type(layer)
    for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a.to_dense().numpy(), b.to_dense().numpy(), rtol=1e-9, atol=1e-11)


def test_parameters_are_drawn_and_repeatable():
    for name in PER_LAYER:
        a, b = made(name), made(name)
        for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
            np.testing.assert_array_equal(x.numpy(), y.numpy())
    layer = nn.Linear(100, 50, rng=iv.random.default_rng(0), dtype="float32")
    assert layer.weight.dtype == np.float32
    assert 0.09 < abs(layer.weight.numpy()).max() <= 0.1


def test_embedding_and_dropout():
    rng = iv.random.default_rng(0)
    layer = nn.Embedding(5, 3, padding_idx=1, rng=rng)
    indices = np.array([[0, 1], [4, 4]])
    np.testing.assert_array_equal(layer(iv.asarray(indices)).numpy(), layer.weight.numpy()[indices])
    np.testing.assert_array_equal(layer.weight.numpy()[1], np.zeros(3))
    g = iv.grad(lambda layer: layer(iv.asarray(indices)).sum())(layer).weight.to_dense().numpy()
    np.testing.assert_array_equal(g[:, 0], [1, 0, 0, 0, 2])
    x = iv.ones(1000)
    y = nn.Dropout(0.25)(x, rng=rng).numpy()
    assert set(np.unique(y)) == {0.0, 1 / 0.75}
    assert nn.Dropout(0.25, inference=True)(x) is not None
    np.testing.assert_array_equal(nn.Dropout(0.25, inference=True)(x).numpy(), x.numpy())
    with pytest.raises(iv.errors.IversonError, match="rng"):
        nn.Dropout(0.5)(x)


def test_a_sequence_is_trained_saved_and_loaded(tmp_path):
    rng = iv.random.default_rng(0)
    model = nn.Sequential(
        [nn.Linear(2, 8, rng=rng), iv.tanh, nn.Dropout(0.1, inference=True), nn.Linear(8, 1, rng=rng)]
    )
    assert len(model) == 4
    assert isinstance(model[1], nn.Lambda)
    x = iv.asarray(RNG.standard_normal((16, 2)))
    y = x[:, :1] * x[:, 1:]
    rule = iv.optim.adam(0.05)

    def cost(model):
        return nn.mse_loss(model(x), y)

    @iv.jit
    def step(model, state):
        value, gradient = iv.value_and_grad(cost)(model)
        updates, state = rule.update(gradient, state, model)
        return iv.optim.apply_updates(model, updates), state, value

    state, values = rule.init(model), []
    for _ in range(200):
        model, state, value = step(model, state)
        values.append(value.item())
    assert values[-1] < 0.02 * values[0]
    weights = {"first": model[0], "last": model[3]}
    iv.save(tmp_path / "model.npz", weights)
    loaded = iv.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded["last"].weight.numpy(), model[3].weight.numpy())
    assert type(loaded["first"]) is nn.Linear


def test_layers_in_a_class_of_a_user():
    @dataclass
    class Model:
        embed: nn.Embedding
        cell: nn.LSTM
        head: nn.Linear

        def __call__(self, tokens):
            _, (hidden, _) = self.cell(self.embed(tokens))
            return self.head(hidden)

    rng = iv.random.default_rng(0)
    model = Model(nn.Embedding(7, 4, rng=rng), nn.LSTM(4, 5, rng=rng), nn.Linear(5, 2, rng=rng))
    tokens = iv.asarray(RNG.integers(0, 7, (6, 3)))
    f = lambda model: nn.cross_entropy(model(tokens), iv.asarray([0, 1, 0]))
    a, b = iv.grad(f)(model), iv.jit(iv.grad(f))(model)
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        np.testing.assert_allclose(x.to_dense().numpy(), y.to_dense().numpy(), rtol=1e-9, atol=1e-12)
    with iv.debug.nans():
        iv.jit(iv.grad(f))(model)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: nn.Linear(0, 2, rng=r), "Linear: argument 'in_features'"),
        (lambda r: nn.Linear(2, 2, rng=None), "Linear: argument 'rng'"),
        (lambda r: nn.Conv(4, 2, 2, 3, rng=r), "Conv: argument 'num_spatial_dims': got 4"),
        (lambda r: nn.Conv(2, 3, 2, 3, groups=2, rng=r), "Conv: argument 'groups'"),
        (lambda r: nn.MultiHeadAttention(3, 8, rng=r), "a divisor of 8"),
        (lambda r: nn.GRU(3, 0, rng=r), "GRU: argument 'hidden_size'"),
        (lambda r: nn.Sequential([3]), r"Sequential: argument 'layers\[0\]'"),
        (lambda r: nn.Linear(3, 2, rng=r)(iv.ones(2)), "linear"),
    ],
)
def test_errors(call, message):
    with pytest.raises(iv.errors.IversonError, match=message):
        call(iv.random.default_rng(0))
