"""
Missing ratings: a number, or nothing?
======================================

Of a table of ratings most entries are missing. Where a zero stands for a missing one, the model learns that
everybody dislikes what nobody has rated. Weights of 0 and 1 avoid that, at the price of a second array in
every formula and of work on all entries. In a masked tensor the missing entries *do not exist*: means are
over those that are there, and so are losses and gradients. The formula stays what it was.
"""

import matplotlib.pyplot as plt
import numpy as np

import iverson as iv
from iverson import optim

# %%
# Tastes of 120 users and traits of 60 films make ratings from 1 to 5. Popular films are rated often and
# others hardly ever: 15% of the table is known.

rng = np.random.default_rng(0)
truth = np.clip(3 + 0.9 * rng.normal(size=(120, 2)) @ rng.normal(size=(2, 60)), 1, 5)
popularity = np.exp(-np.arange(60) / 20)
known = rng.random((120, 60)) < 0.3 * popularity / popularity.mean() * 0.5
ratings = iv.masked_tensor(np.where(known, truth, np.nan), iv.asarray(known))
print(f"{known.mean():.0%} known; the mean of these is {ratings.mean().item():.2f}")

# %%
# One function fits either table: `data` is masked, or a plain tensor with a number in each hole.


def fitted(data, steps=300):
    p = {
        "users": 0.3 * rng.normal(size=(120, 2)),
        "films": 0.3 * rng.normal(size=(2, 60)),
        "mean": np.array(3.0),
    }
    p = iv.tree.map(lambda x: iv.asarray(x, requires_grad=True), p)
    leaves = iv.tree.leaves(p)
    adam = optim.Adam(leaves, lr=0.03)

    @iv.jit
    def step():
        misfit = ((p["mean"] + p["users"] @ p["films"] - data) ** 2).mean()
        penalty = 0.03 * ((p["users"] ** 2).mean() + (p["films"] ** 2).mean())
        adam.step(iv.autograd.grad(misfit + penalty, leaves))

    for _ in range(steps):
        step()
    with iv.no_grad():
        return (p["mean"] + p["users"] @ p["films"]).numpy()


tables = {
    "zeros": fitted(ratings.to_tensor(0.0)),
    "the mean": fitted(ratings.to_tensor(ratings.mean().item())),
    "nothing": fitted(ratings),
}
errors = {name: np.sqrt(((table - truth)[~known] ** 2).mean()) for name, table in tables.items()}
for name, error in errors.items():
    print(f"{name} in the holes: error of unseen ratings {error:.2f}")
assert errors["nothing"] < 0.5 * errors["the mean"] < 0.5 * errors["zeros"]

# %%
# Below, films are ordered from popular to rare. With numbers in the holes the predictions follow how often
# a film was rated; with nothing there they follow how it was rated.

figure, axes = plt.subplots(1, 5, figsize=(10, 3.6), layout="constrained")
pictures = {"known ratings": ratings.to_tensor(iv.nan).numpy(), **tables, "all ratings": truth}
for axis, (title, table) in zip(axes, pictures.items(), strict=True):
    picture = axis.imshow(table, vmin=0, vmax=5, cmap="viridis")
    axis.set_title(title)
    axis.set_axis_off()
figure.colorbar(picture)
plt.show()
