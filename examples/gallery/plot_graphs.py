"""
A graph network on a batch of unequal graphs
============================================

Molecules, meshes and road maps differ in size. A batch that pads all of them to the largest one computes
mostly with zeros, and has to keep the padding out of every sum. Put side by side, the graphs are *one*
graph with as many parts: its matrix is block diagonal and sparse, and one segment mean reads out a number
for each part. Nothing is padded.

The task is to predict how well a graph is connected: its algebraic connectivity, the second smallest
eigenvalue of its Laplacian, which an eigenvalue solver needs much longer for.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

import iverson as iv
from iverson import nn, optim

# %%
# Random points in a square, linked where they are near. A graph is its edges, and the target is the
# logarithm of the eigenvalue.

rng = np.random.default_rng(0)


def drawn():
    while True:
        n = int(rng.integers(8, 33))
        near = cdist(*2 * [rng.random((n, 2))]) < rng.uniform(1.2, 2.2) / np.sqrt(n)
        np.fill_diagonal(near, False)
        eigenvalue = np.linalg.eigvalsh(np.diag(near.sum(1)) - near)[1]
        if eigenvalue > 1e-3:  # it hangs together
            return n, np.argwhere(near), np.log(eigenvalue)


def together(graphs):
    """One graph of all: edges, the number of the graph of each node, targets."""
    sizes, edges, targets = zip(*graphs, strict=True)
    offsets = np.cumsum((0, *sizes[:-1]))
    edges = np.concatenate([e + offset for e, offset in zip(edges, offsets, strict=True)]).T
    return iv.asarray(edges), iv.asarray(np.repeat(np.arange(len(sizes)), sizes)), iv.asarray(targets)


graphs = [drawn() for _ in range(300)]
train, test = together(graphs[:200]), together(graphs[200:])

# %%
# Three layers, each a sum over neighbours and a small network of each node (Xu et al., 2019), and a mean
# over the nodes of each graph. A node begins with its degree alone.

width = 24
random = iv.random.default_rng(0)


def two_layers(inputs, outputs):
    return nn.Sequential(
        [nn.Linear(inputs, width, rng=random), iv.relu, nn.Linear(width, outputs, rng=random)]
    )


model = {"layers": [two_layers(k, width) for k in (2, width, width)], "out": two_layers(2 * width, 1)}


def predicted(model, edges, graph, count):
    source, target = edges
    degree = iv.bincount(target, minlength=graph.shape[0]).astype("float64")
    x = iv.stack([degree, iv.log1p(degree)], axis=1)
    for layer in model["layers"]:
        x = layer(x + iv.segment_mean(x[source], target, graph.shape[0]))
    pooled = iv.concat([iv.segment_mean(x, graph, count), iv.segment_min(x, graph, count)], axis=1)
    return model["out"](pooled)[:, 0]


# %%
# The whole step is compiled: forward, backward and the update of Adam. The trees of parameters go in and
# come out.

optimizer = optim.adam(1e-2)


@iv.jit
def step(model, state, edges, graph, y):
    def loss(model):
        return ((predicted(model, edges, graph, y.shape[0]) - y) ** 2).mean()

    value, gradient = iv.value_and_grad(loss)(model)
    updates, state = optimizer.update(gradient, state, model)
    return optim.apply_updates(model, updates), state, value


state, losses = optimizer.init(model), []
for _ in range(200):
    model, state, value = step(model, state, *train)
    losses.append(value.item())

# %%
# Graphs that the network has not seen, and the support of a batch of six: the adjacency of the one graph
# that they are.

guess = predicted(model, *test[:2], 100).numpy()
correlation = np.corrcoef(guess, test[2].numpy())[0, 1]
print(f"correlation with the eigenvalue: {correlation:.2f}")
assert correlation > 0.8
edges, graph, _ = together(graphs[:6])

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
axes[0].scatter(edges[1].numpy(), edges[0].numpy(), c=graph[edges[0]].numpy(), s=2, cmap="tab10")
axes[0].invert_yaxis()
axes[0].set_aspect("equal")
axes[0].set_title("adjacency of a batch of six")
axes[1].semilogy(losses)
axes[1].set_title("loss by step")
axes[2].plot(test[2].numpy(), guess, ".")
axes[2].plot([-3, 2], [-3, 2], lw=0.7)
axes[2].set_title("new graphs: predicted over true")
plt.show()
