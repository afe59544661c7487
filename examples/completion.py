"""Handwritten digits completed from 30% of their pixels, by a factorisation that reads no other pixel.

The images are the rows of a matrix whose missing entries do not exist: a MaskedTensor on a sparse pattern.
They are fitted by mean + images @ pixels, two thin factors with a squared penalty on both (Salakhutdinov and
Mnih, 2007). Product, loss and gradient are formed at the pixels that are given, and nowhere else.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import iverson as iv
from iverson import autograd, optim

#: What is given of every image, and what of that is set aside to choose the rank and the penalty.
GIVEN, VALIDATION = 0.3, 0.1
RANKS, PENALTIES = (8, 16, 32), (1.0, 2.0, 4.0)

Factors = list[iv.Tensor]


def loss(factors: Factors, centred: iv.MaskedTensor, penalty: float) -> iv.MaskedTensor:
    """The squared error at the specified pixels, and the penalty on the factors."""
    images, pixels = factors
    error = centred - iv.sampled_matmul(images, pixels, centred.get_mask())
    return (error**2).sum() + penalty * ((images**2).sum() + (pixels**2).sum())


def complete(given: iv.MaskedTensor, rank: int, penalty: float, steps: int = 100) -> iv.Tensor:
    """A value for every pixel, fitted to those that are specified; all between 0 and 1."""
    mean = given.mean(axis=0)
    centred = given - mean
    rng = np.random.default_rng(0)
    rows, columns = given.shape
    factors = [
        iv.asarray(0.1 * rng.standard_normal(shape), requires_grad=True)
        for shape in ((rows, rank), (rank, columns))
    ]
    optimizer = optim.Adam(factors, lr=0.1)
    for _ in range(steps):
        optimizer.step(autograd.grad(loss(factors, centred, penalty), factors))
    images, pixels = factors
    return iv.clip(mean.to_tensor(0) + images @ pixels, 0, 1).detach()


def distance(completed: iv.Tensor, truth: iv.MaskedTensor) -> float:
    """The root mean square error at the pixels where the truth is specified."""
    return iv.sqrt(((completed - truth) ** 2).mean()).item()


def choose(given: iv.MaskedTensor, candidates: list[tuple[int, float]]) -> tuple[int, float]:
    """The rank and penalty whose fit to most of the given pixels comes nearest to the others."""
    aside = np.random.default_rng(1).random(given.shape) < VALIDATION
    rest, validation = iv.masked_tensor(given, ~aside), iv.masked_tensor(given, aside)
    errors = {
        candidate: distance(complete(rest, *candidate), validation)
        for candidate in iv.data.progress(candidates, "completion")
    }
    return min(errors, key=errors.__getitem__)


def picture(path: Path, rows: dict[str, np.ndarray]) -> None:
    """Rows of images under each other, pixels that are nan in a colour of their own."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    colours = colormaps["gray_r"].with_extremes(bad="tab:cyan")
    for line, (name, images) in zip(figure.subplots(len(rows), 10), rows.items(), strict=True):
        line[0].set_ylabel(name)
        for axis, image in zip(line, images, strict=True):
            axis.imshow(image.reshape(8, 8), cmap=colours, vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=100)


def run(out: Path, *, quick: bool) -> None:
    """Forget most pixels of all images, complete them, compare with what was forgotten."""
    data = load_digits()
    digits = data.data / 16
    known = np.random.default_rng(0).random(digits.shape) < GIVEN
    seen = np.where(known, digits, np.nan)
    given = iv.masked_tensor(seen, iv.asarray(known).to_layout("csr"))
    forgotten = iv.masked_tensor(digits, ~known)
    few = 2 if quick else None
    rank, penalty = choose(given, list(product(RANKS[:few], PENALTIES[:few])))
    completed = complete(given, rank, penalty)
    baseline = distance(given.mean(axis=0).to_tensor(0), forgotten)
    error = distance(completed, forgotten)
    shown = [int(np.flatnonzero(data.target == digit)[0]) for digit in range(10)]
    filled = given.to_tensor(completed).numpy()
    picture(out / "completion.png", {"given": seen[shown], "completed": filled[shown], "true": digits[shown]})
    print(
        f"\n{len(digits)} digits completed from {np.count_nonzero(known)} of their {known.size} pixels: the "
        "others are nan, and nothing reads them.\n"
        f"Error at the pixels not given: {error:.3f} with rank {rank} and penalty {penalty:g}, "
        f"{baseline:.3f} with each pixel's mean.\nPicture: {out / 'completion.png'}"
    )
    if not error < 0.85 * baseline:
        raise SystemExit("the factorisation should come closer than the mean")
