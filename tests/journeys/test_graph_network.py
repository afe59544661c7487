"""A graph network with dropout, a schedule of the learning rate, early stopping, and weights kept in a file.

Zachary's karate club (1977): who takes which side when it splits, learned from a few members.
"""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

import iverson as iv
from iverson import optim

CLUB = nx.karate_club_graph()
SIDES = np.array([side == "Officer" for _, side in CLUB.nodes(data="club")]).astype(int)
TRAIN, VALIDATION = [0, 33, 1, 32, 5, 26], [2, 3, 6, 23, 27, 29]
REST = np.setdiff1d(np.arange(len(CLUB)), TRAIN + VALIDATION)


def averaging() -> iv.Tensor:
    links = iv.from_scipy(nx.to_scipy_sparse_array(CLUB, weight=None, dtype=float)) + iv.eye(
        len(CLUB)
    ).to_layout("csr")
    scale = links.sum(axis=1) ** -0.5
    return scale[:, None] * links * scale


def scores(weights, average, rng=None):
    """Two rounds of averaging; dropout where there is a generator."""
    hidden = iv.relu(average @ weights["first"] + weights["bias"])
    hidden = iv.nn.dropout(hidden, 0.4, training=rng is not None, rng=rng)
    return average @ (hidden @ weights["second"])


def loss_on(members, found):
    return iv.cross_entropy(found[iv.asarray(members)], iv.asarray(SIDES[members]))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    rng = iv.random.default_rng(0)
    shapes = {"first": (len(CLUB), 16), "bias": (16,), "second": (16, 2)}
    weights = {name: (0.3 * rng.standard_normal(shape)).requires_grad_() for name, shape in shapes.items()}
    average, best = averaging(), tmp_path_factory.mktemp("weights") / "best.npz"
    adam = optim.AdamW(weights, lr=0.05, weight_decay=1e-2)
    history, epochs, patience = [], 200, 20
    for epoch in range(epochs):
        adam.lr = 0.05 * (1 + math.cos(math.pi * epoch / epochs)) / 2
        adam.zero_grad()
        loss_on(TRAIN, scores(weights, average, rng)).backward()
        adam.step()
        with iv.no_grad():
            history.append(loss_on(VALIDATION, scores(weights, average)).item())
        if history[-1] == min(history):
            np.savez(best, **{name: w.detach().numpy() for name, w in weights.items()})
        elif len(history) - int(np.argmin(history)) > patience:
            break
    return average, best, history, weights


def test_the_weights_of_the_best_epoch_come_back(trained):
    average, best, history, weights = trained
    with np.load(best) as file:
        loaded = {name: iv.asarray(file[name], requires_grad=True) for name in weights}
    found = scores(loaded, average)
    assert loss_on(VALIDATION, found).item() == min(history)
    loss_on(TRAIN, found).backward()  # and they train on
    assert all(np.abs(w.grad.numpy()).max() > 0 for w in loaded.values())


def test_it_stops_early_and_places_the_others(trained):
    average, best, history, _ = trained
    assert len(history) < 200
    assert min(history) < 0.5 * history[0]
    with np.load(best) as file:
        found = scores({name: iv.asarray(file[name]) for name in file}, average)
    right = found.numpy().argmax(axis=1) == SIDES
    assert right[REST].mean() >= 0.9


def test_a_loss_on_some_members_reads_no_others(trained):
    average, _, _, weights = trained
    found = scores({name: w.detach() for name, w in weights.items()}, average).requires_grad_()
    loss_on(TRAIN, found).backward()
    assert set(np.flatnonzero(np.abs(found.grad.numpy()).sum(axis=1))) == set(TRAIN)
