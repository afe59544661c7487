"""The ported programs: what they find is what the originals find, or what these are known to reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from examples.ported import autoencoder, classifier, gaussian_process, polynomial, quickstart, spirals


def test_a_custom_function_fits_the_sine() -> None:
    """The tutorial prints these coefficients."""
    coefficients, loss = polynomial.custom_function()
    np.testing.assert_allclose(coefficients, [0.0, -2.208526, 0.0, 0.255486], atol=1e-6)
    assert loss < 9.0


@pytest.mark.peers
def test_a_polynomial_is_that_of_the_original() -> None:
    torch = pytest.importorskip("torch")
    start = [0.5, -0.2, 0.1, 0.3]
    x = torch.linspace(-np.pi, np.pi, 2000, dtype=torch.float64)
    y = torch.sin(x)
    parameters = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in start]
    for _ in range(50):
        a, b, c, d = parameters
        loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for p in parameters:
                p -= 1e-6 * p.grad
                p.grad = None
    expected = [p.item() for p in parameters]
    np.testing.assert_allclose(polynomial.autograd_polynomial(start, steps=50), expected, rtol=1e-10)


def test_the_quickstart_trains_saves_and_loads(tmp_path: Path) -> None:
    trained, loaded = quickstart.run(tmp_path / "model.iv", epochs=8)
    assert trained > 0.8
    assert loaded == trained


def test_the_autoencoder_learns() -> None:
    history = autoencoder.run(epochs=3)
    assert history[-1] < history[0] - 5


def test_the_classifier_learns() -> None:
    train, test = classifier.run(num_epochs=12)
    assert train > 0.95
    assert test > 0.85


@pytest.mark.peers
def test_the_classifiers_updates_are_those_of_the_original() -> None:
    jax = pytest.importorskip("jax")
    images, labels, *_ = classifier.digits()
    batch = images[:50], labels[:50]
    params = classifier.init_random_params(0.1, [64, 16, 10], np.random.RandomState(0))

    def loss(params: Any) -> Any:
        activations = batch[0]
        for w, b in params[:-1]:
            activations = jax.numpy.tanh(activations @ w + b)
        logits = activations @ params[-1][0] + params[-1][1]
        preds = logits - jax.scipy.special.logsumexp(logits, axis=1, keepdims=True)
        return -jax.numpy.mean(jax.numpy.sum(preds * batch[1], axis=1))

    with jax.enable_x64(True):
        expected = params
        for _ in range(5):
            grads = jax.grad(loss)(expected)
            expected = jax.tree.map(lambda p, g: p - 0.1 * g, expected, grads)
    found = params
    for _ in range(5):
        found = classifier.update(found, batch, 0.1)
    for of_layer, expected_of_layer in zip(found, expected, strict=True):
        for a, b in zip(of_layer, expected_of_layer, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_the_gaussian_process_fits() -> None:
    _, history, mean, variance = gaussian_process.run(steps=200)
    assert history[-1] < history[0] - 1
    x = gaussian_process.data()[2][:, 0]
    inside = np.abs(x) < 3
    assert np.abs(mean.numpy()[:, 0] - np.sin(1.4 * x))[inside].mean() < 0.4
    assert (variance.numpy() > 0).all()


def test_spirals_are_told_apart() -> None:
    losses, accuracy = spirals.run(steps=200)
    assert losses[-1] < 0.1
    assert accuracy > 0.95
