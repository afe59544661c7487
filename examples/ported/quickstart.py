"""PyTorch, "Quickstart": a network that classifies images, trained, tested, saved and loaded.

| PyTorch | here |
| --- | --- |
| `DataLoader(data, batch_size)` | `iv.data.batches(data, size, rng)` |
| `class NeuralNetwork(nn.Module)` | `iv.nn.Sequential` of layers, a tree of its parameters |
| `nn.CrossEntropyLoss()` | `nn.cross_entropy` |
| `torch.optim.SGD(model.parameters(), lr)` | `optim.SGD(iv.tree.leaves(model), lr)` |
| `torch.save`, `torch.load` | `iv.save`, `iv.load` |

The images are the digits of scikit-learn in place of FashionMNIST.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import iverson as iv
from iverson import nn, optim

Data = tuple[np.ndarray, np.ndarray]


def data() -> tuple[Data, Data]:
    """Images and labels for training, and for testing."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype(np.float32)
    return (images[:1500], labels[:1500]), (images[1500:], labels[1500:])


def network(rng: iv.random.Generator) -> nn.Sequential:
    """Three linear layers with ReLU between, all parameters leaves that track gradients."""
    model = nn.Sequential(
        [
            nn.Linear(8 * 8, 512, rng=rng, dtype="float32"),
            nn.Lambda(iv.relu),
            nn.Linear(512, 512, rng=rng, dtype="float32"),
            nn.Lambda(iv.relu),
            nn.Linear(512, 10, rng=rng, dtype="float32"),
        ]
    )
    return iv.tree.map(lambda p: p.requires_grad_(), model)


def train(dataloader: iv.data.Batches, model: nn.Sequential, optimizer: optim.Optimizer) -> float:
    """One epoch; returns the last loss."""
    loss = iv.asarray(0.0)
    for X, y in dataloader:
        pred = model(X)
        loss = nn.cross_entropy(pred, y)

        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def test(dataloader: iv.data.Batches, model: nn.Sequential) -> tuple[float, float]:
    """Accuracy and average loss."""
    test_loss, correct, size = 0.0, 0, 0
    with iv.autograd.no_grad():
        for X, y in dataloader:
            pred = model(X)
            test_loss += nn.cross_entropy(pred, y).item()
            correct += int((pred.argmax(1) == y).sum().item())
            size += len(y)
    return correct / size, test_loss / len(dataloader)


def run(path: Path, epochs: int = 5) -> tuple[float, float]:
    """Accuracy of the trained network, and of the one that is read from the file that it was saved in."""
    rng = iv.random.default_rng(0)
    training_data, test_data = data()
    train_dataloader = iv.data.batches(training_data, 64, rng)
    test_dataloader = iv.data.batches(test_data, 64)

    model = network(rng)
    optimizer = optim.SGD(iv.tree.leaves(model), lr=1e-1)
    for t in range(epochs):
        train(train_dataloader, model, optimizer)
        accuracy, loss = test(test_dataloader, model)
        print(f"Epoch {t + 1}: Accuracy: {100 * accuracy:>0.1f}%, Avg loss: {loss:>8f}")

    iv.save(path, iv.tree.leaves(model))
    loaded = iv.tree.unflatten(iv.tree.structure(network(rng)), iv.load(path))
    return test(test_dataloader, model)[0], test(test_dataloader, loaded)[0]


if __name__ == "__main__":
    run(Path("model.iv"))
