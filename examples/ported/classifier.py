"""JAX's example of a classifier from scratch (examples/mnist_classifier_fromscratch.py).

| JAX | here |
| --- | --- |
| `jax.numpy as jnp` | `iverson as iv` |
| `jax.grad`, `jax.jit` | `iv.grad`, `iv.jit` |
| `jax.scipy.special.logsumexp(x, axis=1, keepdims=True)` | `iv.logsumexp`, with the same arguments |
| `jnp.dot` | `iv.matmul` |
| `jnp.argmax`, `jnp.mean`, `jnp.tanh` | the same names in `iv` |

The images are the digits of scikit-learn in place of MNIST.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy import random as npr
from sklearn.datasets import load_digits

import iverson as iv
from iverson import grad, jit, logsumexp

Params = list[tuple[Any, Any]]
Batch = tuple[Any, Any]


def init_random_params(scale: float, layer_sizes: list[int], rng: npr.RandomState) -> Params:
    """Weights and biases of each layer."""
    return [(scale * rng.randn(m, n), scale * rng.randn(n)) for m, n in pairwise(layer_sizes)]


def predict(params: Params, inputs: Any) -> Any:
    """Logarithms of the probabilities of the classes."""
    activations = inputs
    for w, b in params[:-1]:
        outputs = iv.matmul(activations, w) + b
        activations = iv.tanh(outputs)

    final_w, final_b = params[-1]
    logits = iv.matmul(activations, final_w) + final_b
    return logits - logsumexp(logits, axis=1, keepdims=True)


def loss(params: Params, batch: Batch) -> Any:
    """The mean of the cross entropy."""
    inputs, targets = batch
    preds = predict(params, inputs)
    return -iv.mean(iv.sum(preds * targets, axis=1))


def accuracy(params: Params, batch: Batch) -> Any:
    """The share of images that are classified as they are labelled."""
    inputs, targets = batch
    target_class = iv.argmax(targets, axis=1)
    predicted_class = iv.argmax(predict(params, inputs), axis=1)
    return iv.mean(predicted_class == target_class)


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images and labels, one for each class, for training and for testing."""
    images, labels = load_digits(return_X_y=True)
    targets = np.eye(10)[labels]
    return images[:1500] / 16.0, targets[:1500], images[1500:] / 16.0, targets[1500:]


@jit
def update(params: Params, batch: Batch, step_size: float) -> Params:
    """Parameters after a step of gradient descent."""
    grads = grad(loss)(params, batch)
    return [(w - step_size * dw, b - step_size * db) for (w, b), (dw, db) in zip(params, grads, strict=True)]


def run(num_epochs: int = 5, step_size: float = 0.1, batch_size: int = 50) -> tuple[float, float]:
    """Accuracies on the images for training, and for testing."""
    train_images, train_labels, test_images, test_labels = digits()
    num_train = train_images.shape[0]
    num_batches = num_train // batch_size
    rng = npr.RandomState(0)
    params = init_random_params(0.1, [64, 128, 128, 10], rng)

    train_acc = test_acc = 0.0
    for epoch in range(num_epochs):
        perm = rng.permutation(num_train)
        for i in range(num_batches):
            batch_idx = perm[i * batch_size : (i + 1) * batch_size]
            params = update(params, (train_images[batch_idx], train_labels[batch_idx]), step_size)

        train_acc = accuracy(params, (train_images, train_labels)).item()
        test_acc = accuracy(params, (test_images, test_labels)).item()
        print(f"Epoch {epoch}: training set accuracy {train_acc}, test set accuracy {test_acc}")
    return train_acc, test_acc


if __name__ == "__main__":
    run()
