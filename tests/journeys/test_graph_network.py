"""A graph network with dropout, a schedule of the learning rate, early stopping, and weights kept in a file.

Zachary's karate club (1977): who takes which side when it splits, learned from a few members.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import iverson as iv
from iverson import optim

CLUB = nx.karate_club_graph()
SIDES = np.array([side == "Officer" for _, side in CLUB.nodes(data="club")]).astype(int)
TRAIN, VALIDATION = [0, 33, 1, 32, 5, 26], [2, 3, 6, 23, 27, 29]
EPOCHS = 200
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


def start():
    rng = iv.random.default_rng(0)
    shapes = {"first": (len(CLUB), 16), "bias": (16,), "second": (16, 2)}
    weights = {name: (0.3 * rng.standard_normal(shape)).requires_grad_() for name, shape in shapes.items()}
    return weights, *training(weights)


def training(weights):
    adam = optim.AdamW(weights, lr=0.05, weight_decay=1e-2)
    return adam, optim.CosineAnnealingLR(adam, T_max=EPOCHS)


def epoch(average, weights, adam, schedule, rng):
    adam.zero_grad()
    loss_on(TRAIN, scores(weights, average, rng)).backward()
    adam.step()
    schedule.step()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    average, best = averaging(), tmp_path_factory.mktemp("weights") / "best.npz"
    weights, adam, schedule = start()
    rng, history, patience = iv.random.default_rng(1), [], 20
    for _ in range(EPOCHS):
        epoch(average, weights, adam, schedule, rng)
        with iv.no_grad():
            history.append(loss_on(VALIDATION, scores(weights, average)).item())
        if history[-1] == min(history):
            iv.save(best, weights)
        elif len(history) - int(np.argmin(history)) > patience:
            break
    return average, iv.load(best), history


def test_the_weights_of_the_best_epoch_come_back(trained):
    average, best, history = trained
    found = scores(best, average)
    assert loss_on(VALIDATION, found).item() == min(history)
    loss_on(TRAIN, found).backward()  # and they train on
    assert all(np.abs(w.grad.numpy()).max() > 0 for w in best.values())


def test_it_stops_early_and_places_the_others(trained):
    average, best, history = trained
    assert len(history) < EPOCHS
    assert min(history) < 0.5 * history[0]
    right = scores(best, average).detach().numpy().argmax(axis=1) == SIDES
    assert right[REST].mean() >= 0.9


def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path):
    average = averaging()
    weights, adam, schedule = start()
    for _ in range(5):
        epoch(average, weights, adam, schedule, iv.random.default_rng(1))
    kept = {"weights": weights, "optimizer": adam.state_dict(), "schedule": schedule.state_dict()}
    iv.save(tmp_path / "checkpoint.npz", kept)
    loaded = iv.load(tmp_path / "checkpoint.npz")
    again = loaded["weights"], *training(loaded["weights"])
    again[1].load_state_dict(loaded["optimizer"])
    again[2].load_state_dict(loaded["schedule"])
    for run in ((weights, adam, schedule), again):
        rng = iv.random.default_rng(2)
        for _ in range(5):
            epoch(average, *run, rng)
    for name, w in weights.items():
        np.testing.assert_array_equal(w.detach().numpy(), loaded["weights"][name].detach().numpy())


def test_a_loss_on_some_members_reads_no_others(trained):
    average, best, _ = trained
    found = scores(best, average).detach().requires_grad_()
    loss_on(TRAIN, found).backward()
    assert set(np.flatnonzero(np.abs(found.grad.numpy()).sum(axis=1))) == set(TRAIN)
