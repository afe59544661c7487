"""A classifier of handwritten digits, its second derivative by count of products, and a checked custom op."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import iverson as iv
from iverson import autograd, explain, optim
from iverson.testing import gradcheck, gradgradcheck

WIDTHS = (64, 256, 128, 10)


def init(rng: np.random.Generator) -> list[tuple[iv.Tensor, iv.Tensor]]:
    """Weights and biases of each layer, scaled for ReLU (He et al., 2015)."""
    layers = []
    for fan_in, fan_out in pairwise(WIDTHS):
        weight = rng.standard_normal((fan_in, fan_out)) * np.sqrt(2 / fan_in)
        layers.append(
            (
                iv.asarray(weight.astype(np.float32), requires_grad=True),
                iv.zeros(fan_out, dtype=iv.float32, requires_grad=True),
            )
        )
    return layers


def logits(layers: list[tuple[iv.Tensor, iv.Tensor]], x: iv.Tensor) -> iv.Tensor:
    """Class scores of a batch of images, shape (batch, 64) -> (batch, 10)."""
    for weight, bias in layers[:-1]:
        x = iv.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def jittered(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The images, each moved by up to one pixel: a digit is the same digit a pixel to the left."""
    padded = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, (len(images), 2))
    rows = moves[:, :1] + np.arange(8)
    columns = moves[:, 1:] + np.arange(8)
    which = np.arange(len(images))[:, None, None]
    return padded[which, rows[:, :, None], columns[:, None, :]].reshape(-1, 64)


def train(layers, images, labels, epochs: int, rng: np.random.Generator) -> list[float]:
    """Adam with a falling rate on the cross entropy; returns the loss of every step."""
    optimizer = optim.Adam(layers, lr=3e-3)
    losses = []
    batch = 64
    for epoch in iv.data.progress(range(epochs), "training, epochs"):
        optimizer.lr = 3e-3 * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        order = rng.permutation(len(images))
        moved = jittered(images, rng)
        for start in range(0, len(images), batch):
            chosen = order[start : start + batch]
            loss = iv.cross_entropy(logits(layers, iv.asarray(moved[chosen])), iv.asarray(labels[chosen]))
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.item())
            del loss  # frees the graph, so that the parameters are updated in place
            optimizer.step()
    return losses


def picture(path: Path, losses, images, labels, predicted) -> None:
    """The loss curve beside the digits that were read wrongly."""
    wrong = np.flatnonzero(labels != predicted)[:15]
    figure = plt.figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1))
    axes = left.subplots()
    axes.plot(losses, linewidth=0.6, alpha=0.5)
    window = 25
    axes.plot(np.arange(window - 1, len(losses)), np.convolve(losses, np.ones(window) / window, "valid"))
    axes.set(xlabel="step", ylabel="cross entropy", yscale="log", title="training loss")
    grid = right.subplots(3, 5).ravel()
    right.suptitle(f"misread: {np.count_nonzero(labels != predicted)} of {len(labels)} (true, read as)")
    for axis in grid:
        axis.axis("off")
    for axis, k in zip(grid, wrong, strict=False):
        axis.imshow(images[k].reshape(8, 8), cmap="gray_r")
        axis.set_title(f"{labels[k]}, {predicted[k]}", fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def second_derivative(layers, images: np.ndarray, out: Path) -> None:
    """The derivative of the input gradient's sum, with what each takes and what it avoids."""
    x = iv.asarray(images[:100])

    def score(x: iv.Tensor) -> iv.Tensor:
        return logits(layers, x)[:, 3].sum()

    def loss(x: iv.Tensor) -> iv.Tensor:
        return iv.cross_entropy(logits(layers, x), iv.asarray(np.full(100, 3)))

    gradient = iv.grad(score)
    second = iv.grad(lambda x: gradient(x).sum())
    functions = {
        "scores of 100 images": score,
        "and their gradient": gradient,
        "second derivative alone": second,
    }
    reports = {name: explain.report(function)(x) for name, function in functions.items()}
    print("\nMatrix products                 done   avoided")
    for name, report in reports.items():
        reasons = ", ".join(f"{cost.products} {why}" for why, cost in report.avoided.items() if cost.products)
        avoided = sum(cost.products for cost in report.avoided.values())
        print(f"  {name:<28} {report.done.products:>5} {avoided:>9}  {reasons}".rstrip())
    if second(x).layout != "zero" or reports["second derivative alone"].done.products:
        raise SystemExit("the second derivative of a ReLU network should need no product")
    page = reports["and their gradient"].save(out / "gradient.html")
    print(
        "A ReLU network is linear around almost every input, so this second derivative is zero.\n"
        "Iverson knows it from the structure: the result is a tensor without storage, and no product ran\n"
        "to find that out. In the first gradient the products for the weights were skipped: nobody asked.\n"
        f"The gradient's graph, with what was avoided in grey: {page}"
    )
    curved = explain.report(iv.grad(lambda x: (iv.grad(loss)(x) ** 2).sum()))(x)
    print(
        "The loss is curved by its softmax: there the same question takes "
        f"{curved.done.products} products, with the forward pass and the gradient."
    )


def compiled_step(layers, images: np.ndarray, labels: np.ndarray) -> None:
    """The loss of a batch and its gradient in all weights, eager and as one compiled program."""

    def step(layers, x, y):
        return iv.value_and_grad(lambda layers: iv.cross_entropy(logits(layers, x), y))(layers)

    weights = [(w.detach(), b.detach()) for w, b in layers]
    batch = iv.asarray(images[:64]), iv.asarray(labels[:64])
    took = {}
    for name, function in (("eager", step), ("compiled", iv.jit(step))):
        value, _ = function(weights, *batch)
        times = []
        for _ in range(30):
            started = time.perf_counter()
            function(weights, *batch)
            times.append(time.perf_counter() - started)
        took[name] = float(value), min(times) * 1e6
    (eager, eager_us), (compiled, compiled_us) = took["eager"], took["compiled"]
    if abs(eager - compiled) > 1e-5 * abs(eager):
        raise SystemExit("the compiled step computes another loss")
    print(
        f"A step (loss and gradients of 64 images): eager {eager_us:.0f} us, compiled {compiled_us:.0f} us."
    )


class Mish(autograd.Function):
    """x tanh(softplus(x)) (Misra, 2019), with the derivative written by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * iv.tanh(iv.softplus(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        t = iv.tanh(iv.softplus(x))
        return g * (t + x * iv.sigmoid(x) * (1 - t * t))


def check_custom_function() -> None:
    """Hold the hand-written derivative against finite differences, in both modes, to second order."""
    x = iv.asarray(np.random.default_rng(0).standard_normal((3, 4)), requires_grad=True)
    first, second = gradcheck(Mish.apply, (x,)), gradgradcheck(Mish.apply, (x,))
    if not (first and second):
        raise SystemExit("the derivative of Mish is wrong")
    print(
        "\ngradcheck of a custom Function: its hand-written backward agrees with finite differences,\n"
        "forward mode agrees with reverse mode exactly, and its second derivative is right too."
    )


def run(out: Path, *, quick: bool) -> None:
    """Train, draw, differentiate twice, check."""
    rng = np.random.default_rng(0)
    data = load_digits()
    images, labels = (data.data / 16).astype(np.float32), data.target
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=0.25, random_state=0, stratify=labels
    )
    print(f"Handwritten digits: {len(train_x)} images to learn from, {len(test_x)} held out.")
    layers = init(rng)
    losses = train(layers, train_x, train_y, 8 if quick else 60, rng)
    with autograd.no_grad():
        predicted = iv.argmax(logits(layers, iv.asarray(test_x)), axis=1).numpy()
    accuracy = float(np.mean(predicted == test_y))
    picture(out / "digits.png", losses, test_x, test_y, predicted)
    wanted = 0.9 if quick else 0.97
    print(f"Held-out accuracy: {accuracy:.3f} (wanted: at least {wanted}). Picture: {out / 'digits.png'}")
    if accuracy < wanted:
        raise SystemExit("the classifier did not learn what it should")
    second_derivative(layers, test_x, out)
    compiled_step(layers, train_x, train_y)
    check_custom_function()
