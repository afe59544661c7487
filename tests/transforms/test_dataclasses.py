"""Dataclasses as trees: through derivatives, compilation, batches, optimizers, vectors and files."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.dataclasses import dataclass, field
from iverson.errors import ArgumentError, ArgumentTypeError

rng = np.random.default_rng(0)


@dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = field(default="tanh", pytree_node=False)

    def __call__(self, x: Any) -> Any:
        return getattr(iv, self.name)(x @ self.weight + self.bias)


@dataclass(frozen=True, kw_only=True)
class Network:
    layers: list[Layer]
    scale: Any


def network(track: bool = False) -> Network:
    def of(*shape: int) -> Any:
        return iv.asarray(rng.normal(size=shape), requires_grad=track)

    return Network(
        layers=[Layer(of(3, 4), of(4)), Layer(of(4, 1), of(1), "sigmoid")],
        scale=iv.masked_tensor(np.ones(3), [True, False, True], requires_grad=track),
    )


X = iv.asarray(rng.normal(size=(5, 3)))


def loss(net: Network) -> Any:
    y = X * net.scale.to_tensor(0.0)
    for layer in net.layers:
        y = layer(y)
    return iv.sum(y * y)


def leaves(net: Network) -> list[Any]:
    return [x for layer in net.layers for x in (layer.weight, layer.bias)] + [net.scale.get_data()]


def close(a: Network, b: Network) -> None:
    assert [layer.name for layer in a.layers] == [layer.name for layer in b.layers]
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-12)


def test_derivatives_are_instances() -> None:
    net = network()
    found = iv.grad(loss)(net)
    assert type(found) is Network
    close(iv.jit(iv.grad(loss))(net), found)
    value, tangent = iv.jvp(loss, (net,), (net,))
    pulled = sum((a * b).sum() for a, b in zip(leaves(found), leaves(net), strict=True))
    np.testing.assert_allclose(tangent.numpy(), pulled.numpy(), rtol=1e-12)
    along = iv.jvp(iv.grad(loss), (net,), (net,))[1]  # a product with the Hessian
    vector, unravel = iv.ravel_pytree(net)
    hessian = iv.hessian(lambda v: loss(unravel(v)))(vector)
    np.testing.assert_allclose(iv.ravel_pytree(along)[0].numpy(), (hessian @ vector).numpy(), rtol=1e-10)
    np.testing.assert_allclose(value.numpy(), loss(unravel(vector)).numpy())


def test_the_structure_is_part_of_what_is_compiled() -> None:
    layer = network().layers[0]
    call = iv.jit(lambda f, x: f(x))
    for name in ("tanh", "sin", "tanh"):
        f = replace(layer, name=name)
        np.testing.assert_allclose(call(f, X).numpy(), f(X).numpy(), rtol=1e-12)


def test_batches() -> None:
    layer = network().layers[0]
    many = Layer(iv.stack([layer.weight, layer.weight * 2]), layer.bias)
    found = iv.vmap(lambda f, x: f(x), in_axes=(Layer(0, None), None))(many, X)
    each = [Layer(w, layer.bias)(X).numpy() for w in (layer.weight, layer.weight * 2)]
    np.testing.assert_allclose(found.numpy(), each, rtol=1e-12)


def test_an_optimizer_steps_on_the_leaves(tmp_path: Any) -> None:
    net = network(track=True)
    optimizer = iv.optim.Adam(net, lr=0.05)
    assert len(optimizer.params) == 5
    losses = []
    for _ in range(20):
        value = loss(net)
        losses.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]
    iv.save(tmp_path / "net.npz", {"net": net, "steps": 20})
    read = iv.load(tmp_path / "net.npz")["net"]
    assert type(read) is Network
    assert read.layers[0].weight.requires_grad
    close(read, net)


def test_a_file_makes_no_class_that_is_not_there(tmp_path: Any) -> None:
    iv.save(tmp_path / "net.npz", network())
    program = f"import iverson as iv; iv.load({str(tmp_path / 'net.npz')!r})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "test_dataclasses.Layer is not known; import its module first" in ended.stderr


def test_they_are_dataclasses() -> None:
    net = network()
    with pytest.raises(FrozenInstanceError):
        net.scale = 1  # type: ignore[misc]
    assert repr(Layer(1.0, 2.0)) == "Layer(weight=1.0, bias=2.0, name='tanh')"
    with pytest.raises(ArgumentTypeError, match="dataclass: argument 'cls': got 3"):
        dataclass(3)  # type: ignore[call-overload]
    with pytest.raises(ArgumentTypeError, match="field: argument 'pytree_node'"):
        field(pytree_node=1)
    with pytest.raises(ArgumentError, match="dataclass: argument 'cls'"):

        @dataclass
        class Odd:
            x: Any = field(init=False)
