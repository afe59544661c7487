"""A small convolutional network whose layers are tensor expressions of three lines each."""

from __future__ import annotations

import math

import numpy as np
from digits import jittered
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import iverson as iv
from iverson import autograd, optim, te


@te.op
def convolution(x, w):
    """Filters w (filters, channels, kh, kw) over images x (batch, channels, height, width), inside only."""
    c, i, j = (te.reduce_axis((0, n)) for n in w.shape[1:])
    shape = (x.shape[0], w.shape[0], x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1)
    return te.compute(shape, lambda b, f, y, z: te.sum(x[b, c, y + i, z + j] * w[f, c, i, j], axis=[c, i, j]))


@te.op
def pooling(x):
    """The largest of each 2 x 2 square."""
    i, j = te.reduce_axis((0, 2)), te.reduce_axis((0, 2))
    shape = (x.shape[0], x.shape[1], x.shape[2] // 2, x.shape[3] // 2)
    return te.compute(shape, lambda b, f, y, z: te.max(x[b, f, 2 * y + i, 2 * z + j], axis=[i, j]))


#: Shapes of the parameters and the spread of their first values (He et al., 2015).
SHAPES = {"first": (32, 1, 3, 3), "second": (48, 32, 3, 3), "dense": (192, 10), "bias": (10,)}
SPREAD = {"first": np.sqrt(2 / 9), "second": np.sqrt(2 / 288), "dense": np.sqrt(2 / 192), "bias": 0.0}


def init(rng: np.random.Generator) -> dict[str, iv.Tensor]:
    return {
        name: iv.asarray((SPREAD[name] * rng.standard_normal(shape)).astype(np.float32), requires_grad=True)
        for name, shape in SHAPES.items()
    }


def logits(p: dict[str, iv.Tensor], images: iv.Tensor) -> iv.Tensor:
    """Class scores of images of shape (batch, 1, 10, 10): the digits with a border of one pixel."""
    x = iv.relu(convolution(images, p["first"]))
    x = iv.relu(convolution(pooling(x), p["second"]))
    return x.reshape((images.shape[0], -1)) @ p["dense"] + p["bias"]


def framed(images: np.ndarray) -> np.ndarray:
    return np.pad(images.reshape(-1, 1, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))


def run(*, quick: bool) -> None:
    """Train on the digits; exit with an error below the accuracy that is promised."""
    rng = np.random.default_rng(0)
    data = load_digits()
    images, labels = (data.data / 16).astype(np.float32), data.target
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=0.25, random_state=0, stratify=labels
    )
    p = init(rng)
    optimizer = optim.Adam(p)
    epochs, batch = (10 if quick else 60), 64
    for epoch in iv.data.progress(range(epochs), "convolutions, epochs"):
        optimizer.lr = 3e-3 * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        moved, order = framed(jittered(train_x, rng)), rng.permutation(len(train_x))
        for start in range(0, len(order) - batch + 1, batch):
            chosen = order[start : start + batch]
            loss = iv.cross_entropy(logits(p, iv.asarray(moved[chosen])), iv.asarray(train_y[chosen]))
            optimizer.zero_grad()
            loss.backward()
            del loss
            optimizer.step()
    with autograd.no_grad():
        predicted = iv.argmax(logits(p, iv.asarray(framed(test_x))), axis=1).numpy()
    accuracy = float(np.mean(predicted == test_y))
    wanted = 0.9 if quick else 0.985
    print(
        f"\nA network whose convolution and pooling are tensor expressions: held-out accuracy {accuracy:.3f} "
        f"(wanted: at least {wanted}).\nNobody wrote their gradients: they follow from the three lines."
    )
    if accuracy < wanted:
        raise SystemExit("the convolutional network did not learn what it should")
