"""A recommender: biases and factors of users and items, Adam on the rows of each batch, top-k.

The users are images of digits, the items their pixels, the ratings brightnesses from 0 to 16
(after Y. Koren, R. Bell and C. Volinsky, IEEE Computer 42(8), 2009).
"""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson import optim

USERS, RANK, BATCH = 600, 8, 1500


@pytest.fixture(scope="module")
def ratings():
    """All ratings, and the users and items of those for training and of the others."""
    datasets = pytest.importorskip("sklearn.datasets")
    table = datasets.load_digits().data[:USERS] / 16
    known = np.random.default_rng(0).random(table.shape) < 0.5
    return table, np.nonzero(known), np.nonzero(~known)


def model(p, users, items):
    """The ratings of pairs of a user and an item."""
    factors = (iv.embedding(users, p["user"]) * iv.embedding(items, p["item"])).sum(axis=1)
    return p["mean"] + p["user bias"][users] + p["item bias"][items] + factors


def start(table, known):
    rng = np.random.default_rng(1)
    items = table.shape[1]
    p = {
        "mean": np.array(table[known].mean()),
        "user bias": np.zeros(USERS),
        "item bias": np.zeros(items),
        "user": 0.1 * rng.standard_normal((USERS, RANK)),
        "item": 0.1 * rng.standard_normal((items, RANK)),
    }
    return {name: iv.asarray(value, requires_grad=True) for name, value in p.items()}


def step(p, adam, table, users, items):
    adam.zero_grad()
    rating = iv.asarray(table[users, items])
    at = iv.asarray(users), iv.asarray(items)
    penalty = (iv.embedding(at[0], p["user"]) ** 2).mean() + (iv.embedding(at[1], p["item"]) ** 2).mean()
    loss = ((model(p, *at) - rating) ** 2).mean() + 0.1 * penalty
    loss.backward()
    adam.step()
    return loss.item()


@pytest.fixture(scope="module")
def trained(ratings):
    table, known, _ = ratings
    p = start(table, known)
    adam = optim.Adam(p, lr=0.03)
    rng = np.random.default_rng(2)
    for epoch in range(15):
        adam.lr = 0.03 * 0.9**epoch
        for batch in np.array_split(rng.permutation(known[0].size), known[0].size // BATCH):
            step(p, adam, table, known[0][batch], known[1][batch])
    return {name: value.detach() for name, value in p.items()}


def root_mean_square(p, table, at):
    return np.sqrt(np.mean((model(p, *map(iv.asarray, at)).numpy() - table[at]) ** 2))


def test_it_predicts_ratings_that_it_has_not_seen(ratings, trained):
    table, known, others = ratings
    seen = np.zeros(table.shape, bool)
    seen[known] = True
    means = iv.masked_tensor(table, seen).mean(axis=0).to_tensor(0).numpy()
    baseline = np.sqrt(np.mean((means[others[1]] - table[others]) ** 2))
    assert root_mean_square(trained, table, others) < 0.8 * baseline


def test_a_step_moves_the_rows_of_its_batch_alone(ratings):
    table, known, _ = ratings
    p = start(table, known)
    adam = optim.Adam(p, lr=0.03)
    before = {name: value.detach().numpy().copy() for name, value in p.items()}
    users, items = np.array([3, 3, 7]), np.array([20, 21, 20])
    step(p, adam, table, users, items)
    for name, touched in {"user": users, "user bias": users, "item": items, "item bias": items}.items():
        moved = (p[name].detach().numpy() != before[name]).reshape(len(before[name]), -1).any(axis=1)
        assert set(np.flatnonzero(moved)) == set(touched.tolist()), name


def test_the_items_recommended_are_the_best_that_are_new(ratings, trained):
    table, known, _ = ratings
    p = trained
    all_scores = p["mean"] + p["user bias"][:, None] + p["item bias"] + p["user"] @ p["item"].mT
    seen = np.zeros(table.shape, bool)
    seen[known] = True
    values, items = iv.topk(iv.where(iv.asarray(seen), -iv.inf, all_scores), 5)
    reference = np.where(seen, -np.inf, all_scores.numpy())
    np.testing.assert_array_equal(values.numpy(), -np.sort(-reference, axis=1)[:, :5])
    assert not seen[np.arange(USERS)[:, None], items.numpy()].any()
    liked = table[np.arange(USERS)[:, None], items.numpy()].mean()
    assert liked > 1.5 * table[~seen].mean()
