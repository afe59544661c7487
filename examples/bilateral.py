"""A differentiable bilateral filter recovers the parameters with which a photograph was filtered.

The filter (Tomasi and Manduchi, 1998) averages neighbours that are near in place and in value:
weights exp(-d^2 / (2 place^2) - (difference)^2 / (2 value^2)).
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import iverson as iv
from iverson import optim, te

RADIUS = 3


@te.op
def bilateral(x, place, value):
    """x of shape (height, width), place and value of rank 0 -> (height - 2 RADIUS, width - 2 RADIUS)."""
    size = 2 * RADIUS + 1
    shape = (x.shape[0] - size + 1, x.shape[1] - size + 1)

    def weight(y, z, i, j):
        apart = te.F.square(i - RADIUS) + te.F.square(j - RADIUS)
        unlike = te.F.square(x[y + i, z + j] - x[y + RADIUS, z + RADIUS])
        return te.F.exp(-apart / (2 * te.F.square(place[()])) - unlike / (2 * te.F.square(value[()])))

    i, j, k, m = (te.reduce_axis((0, size)) for _ in range(4))
    total = te.compute(shape, lambda y, z: te.sum(weight(y, z, i, j), axis=[i, j]))
    mixed = te.compute(shape, lambda y, z: te.sum(weight(y, z, k, m) * x[y + k, z + m], axis=[k, m]))
    return te.compute(shape, lambda y, z: mixed[y, z] / total[y, z])


def run(out: Path, *, quick: bool) -> None:
    """Filter a photograph, forget the parameters, find them again by gradient descent."""
    photograph = load_sample_image("china.jpg")[100:260, 300:520].mean(axis=2) / 255
    noisy = iv.asarray(photograph + 0.06 * np.random.default_rng(0).standard_normal(photograph.shape))
    truth = (1.5, 0.25)
    target = bilateral(noisy, *truth)
    logs = iv.asarray(np.log([0.7, 0.08]), requires_grad=True)
    optimizer = optim.Adam([logs], lr=0.1)
    start = bilateral(noisy, *iv.unstack(iv.exp(logs.detach())))
    for _ in iv.data.progress(range(30 if quick else 120), "bilateral filter"):
        optimizer.zero_grad()
        place, value = iv.unstack(iv.exp(logs))
        ((bilateral(noisy, place, value) - target) ** 2).mean().backward()
        optimizer.step()
    found = np.exp(logs.detach().numpy())
    after = bilateral(noisy, *found)
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.6), layout="constrained")
    inner = slice(RADIUS, -RADIUS)
    for axis, picture, title in (
        (axes[0, 0], noisy[inner, inner], "the noisy photograph"),
        (axes[0, 1], target, f"filtered with place {truth[0]}, value {truth[1]}"),
        (axes[1, 0], start, "before: place 0.7, value 0.08"),
        (axes[1, 1], after, f"after: place {found[0]:.3f}, value {found[1]:.3f}"),
    ):
        axis.imshow(np.asarray(picture), cmap="gray", vmin=0, vmax=1)
        axis.set_title(title)
        axis.axis("off")
    figure.savefig(out / "bilateral.png", dpi=100)
    plt.close(figure)
    print(
        f"\nA bilateral filter in index notation: filtered with (place, value) = {truth}, recovered "
        f"({found[0]:.3f}, {found[1]:.3f})\nthrough its gradient. Picture: {out / 'bilateral.png'}"
    )
    if not quick and not np.allclose(found, truth, rtol=0.02):
        raise SystemExit("the filter's parameters were not recovered")
