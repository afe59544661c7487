"""A recommender whose table of items and users lives on two workers, fitted to ratings from files.

    python examples/ratings.py [--quick] [--ratings 2000000] [--out examples/out]

A rating is predicted as mean + the inner product of a row for the user and a row for the item (Koren, Bell
and Volinsky, 2009). Users and items are rows of one table, partitioned over the workers of a local cluster
of Dask: of each file only the rows that occur in it travel. The ratings are made here, from hidden rows,
with noise.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster
from matplotlib.figure import Figure

import iverson as iv
from iverson import optim
from iverson.interop.dask import PartitionedTable, value_and_grad

USERS, ITEMS, WIDTH, NOISE, MEAN = 20_000, 4_000, 8, 0.3, 3.5
PER_FILE = 50_000


def write_ratings(folder: Path, count: int) -> list[str]:
    """Files of (user, item, rating), each rating MEAN + <user, item> + noise."""
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((n, WIDTH)) / WIDTH**0.25 for n in (USERS, ITEMS))
    paths = []
    for k in range(max(count // PER_FILE, 2)):
        u, i = rng.integers(0, USERS, PER_FILE), (ITEMS * rng.random(PER_FILE) ** 2).astype(int)
        rating = MEAN + (users[u] * items[i]).sum(axis=1) + NOISE * rng.standard_normal(PER_FILE)
        paths.append(str(folder / f"{k}.npz"))
        np.savez(paths[-1], user=u, item=i, rating=rating)
    return paths


def read(path: str) -> np.ndarray[Any, Any]:
    """The ratings of a file, as rows of user, item and rating."""
    with np.load(path) as file:
        return np.stack([file["user"], file["item"], file["rating"]], axis=1)


def loss(params: dict[str, Any], part: iv.Tensor, penalty: float = 0.02) -> iv.Tensor:
    """The mean squared error of ratings, with a squared penalty on the rows that occur."""
    given = part.numpy()
    users = iv.embedding(given[:, 0].astype(np.int64), params["rows"])
    items = iv.embedding(USERS + given[:, 1].astype(np.int64), params["rows"])
    error = (users * items).sum(axis=1) + params["mean"] - given[:, 2]
    return (error**2).mean() + penalty * ((users**2).sum(axis=1) + (items**2).sum(axis=1)).mean()


def fit(client: Client, paths: list[str], epochs: int, checkpoint: Path) -> tuple[list[float], list[float]]:
    """Fit the table to all files but the last; errors on that one after each epoch, and losses on the way."""
    table = PartitionedTable(
        USERS + ITEMS, WIDTH, client, optimizer=partial(optim.Adagrad, lr=0.3), scale=0.3, seed=1
    )
    mean = iv.asarray(3.0, requires_grad=True)
    params = {"rows": table, "mean": mean}
    optimizer = optim.SGD([mean], lr=0.2)
    step = value_and_grad(loss)
    error = value_and_grad(partial(loss, penalty=0.0))
    *files, test = [dask.delayed(read)(path) for path in paths]
    errors, losses = [], []
    for epoch in range(epochs):
        order = np.random.default_rng([2, epoch]).permutation(len(files))
        ahead = client.persist(files[order[0]])
        for k in iv.data.progress(range(len(order)), f"epoch {epoch + 1}"):
            part, ahead = ahead, client.persist(files[order[min(k + 1, len(order) - 1)]])
            value, gradients = step(params, [part])
            table.step(gradients["rows"])
            optimizer.step([gradients["mean"]])
            losses.append(value.item())
        table.save(checkpoint)
        errors.append(error(params, [test])[0].item() ** 0.5)
        found = f"error {errors[-1]:.3f} on ratings not seen (noise {NOISE})"
        print(f"epoch {epoch + 1}: {found}; {table.stored()} rows are held")
    return errors, losses


def draw(errors: list[float], losses: list[float], path: Path) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(
        np.arange(1, len(losses) + 1) / len(losses) * len(errors), np.sqrt(losses), lw=0.7, label="training"
    )
    axes.plot(range(1, len(errors) + 1), errors, "o-", label="ratings not seen")
    axes.axhline(NOISE, color="grey", ls=":", label="noise")
    axes.set(xlabel="epoch", ylabel="root mean square error", ylim=(0, None))
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ratings", type=int, default=2_000_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="200,000 ratings, one epoch")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args(arguments)
    count, epochs = (200_000, 1) if options.quick else (options.ratings, options.epochs)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_ratings(folder, count)
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        )
        with cluster, Client(cluster, timeout=60) as client:
            errors, losses = fit(client, paths, epochs, folder / "checkpoint")
    draw(errors, losses, options.out / "ratings.png")
    print(f"picture: {options.out / 'ratings.png'}")
    return errors[-1]


if __name__ == "__main__":
    main()
