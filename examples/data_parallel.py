"""Data-parallel training under MPI: ``mpiexec -n 2 python examples/data_parallel.py``.

Each process has a share of the examples: pairs of a word and a label. The words' vectors are a table, whose
gradient is rows; what is dense travels in buckets while the backward pass goes on. Any number of processes
gives one result.
"""

from __future__ import annotations

import argparse

import numpy as np
from mpi4py import MPI

import iverson as iv
from iverson import optim
from iverson.interop.mpi import Buckets, allreduce

WORDS, WIDTH, LABELS = 2000, 16, 5


def loss(params: dict[str, iv.Tensor], words: np.ndarray, labels: np.ndarray) -> iv.Tensor:
    """The sum of cross entropies of labels, of the mean of the vectors of some words."""
    hidden = iv.tanh(iv.embedding(words, params["words"]).mean(axis=1) @ params["w"] + params["b"])
    return iv.nn.cross_entropy(hidden, labels, reduction="sum")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    steps = 20 if parser.parse_args().quick else 200
    comm = MPI.COMM_WORLD
    rng = np.random.default_rng(0)
    start = {"words": (WORDS, WIDTH), "w": (WIDTH, LABELS), "b": (LABELS,)}
    params = {k: iv.asarray(0.3 * rng.standard_normal(s), requires_grad=True) for k, s in start.items()}
    optimizer = optim.Adam(params, lr=0.05)
    labels = rng.integers(0, LABELS, 4096)
    words = (rng.integers(0, WORDS // LABELS, (4096, 8)) * LABELS + labels[:, None]) % WORDS
    for step in range(steps):
        batch = np.array_split(np.random.default_rng([1, step]).permutation(4096)[:256], comm.size)[comm.rank]
        value = loss(params, words[batch], labels[batch]) / 256
        with Buckets(params, comm, sparse=[params["words"]]) as buckets:
            value.backward()
        optimizer.zero_grad()
        optimizer.step(buckets.gradients())
    share = np.array_split(np.arange(4096), comm.size)[comm.rank]
    total = allreduce(loss(params, words[share], labels[share]).detach(), comm)
    if comm.rank == 0:
        print(f"loss after {steps} steps: {total.item() / 4096:.6f}")


if __name__ == "__main__":
    main()
