"""
A classifier in thirty lines
============================

A step of training a small network takes microseconds of arithmetic, and many times that in calls:
forward, backward, and an update of each parameter. Here the whole step is compiled, and all of this is one
native call. The network tells two half moons apart.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import iverson as iv
from iverson import nn, optim

points, labels = make_moons(400, noise=0.15, random_state=0)
rng = iv.random.default_rng(0)

# %%
# Parameters are a tree of tensors; the step reads them and updates them in place.

model = nn.Sequential([nn.Linear(2, 32, rng=rng), nn.Lambda(iv.tanh), nn.Linear(32, 1, rng=rng)])
model = iv.tree.map(lambda p: p.requires_grad_(), model)
params = iv.tree.leaves(model)
adam = optim.Adam(params, lr=0.02)


@iv.jit
def step(x, y):
    loss = nn.binary_cross_entropy_with_logits(model(x)[:, 0], y)
    adam.step(iv.autograd.grad(loss, params))
    return loss


losses = [step(points, labels.astype(float)).item() for _ in range(300)]

# %%
# The course of the loss, and the boundary that it leads to.

grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 120), np.linspace(-1.1, 1.6, 120)), -1)
with iv.autograd.no_grad():
    assert ((model(points)[:, 0] > 0) == labels.astype(bool)).astype("float64").mean() > 0.95
    chance = iv.sigmoid(model(iv.asarray(grid)))[..., 0].numpy()

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.semilogy(losses)
left.set_title("loss")
right.contourf(grid[..., 0], grid[..., 1], chance, levels=20, cmap="RdBu_r", alpha=0.7)
right.scatter(*points.T, c=labels, s=8, cmap="RdBu_r")
right.set_title("probability of the second moon")
plt.show()
