"""What the bridges to Dask and MPI cost, as ratios in one run: ``python -m benchmarks.distributed``.

- overhead of a step through Dask over the local one, at one worker and 1,000 small tensors: at most 15 ms;
- matrix factorisation of ratings from disk against the same in memory: at most 1.3 times;
- look-up and step of 8,192 rows of a partitioned table against a local one: at most 3 times;
- allreduce of 64 MiB under MPI against mpi4py alone: within 1.2 times.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster

import iverson as iv
from iverson import optim
from iverson.interop.dask import PartitionedTable, value_and_grad

OPTIONS = {
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",
    "protocol": "tcp://",
}


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """The median time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return median(times)


def difference(call: Callable[[], Any], other: Callable[[], Any], repeats: int) -> float:
    """The median time by which a call takes longer than another, in turns, after two that do not count."""
    apart = []
    for _ in range(repeats + 2):
        start = perf_counter()
        call()
        between = perf_counter()
        other()
        apart.append(2 * between - start - perf_counter())
    return median(apart[2:])


def report(name: str, found: float, bound: float, unit: str) -> None:
    print(
        f"{name}: {found:.3g} {unit} (at most {bound:g}): {'passes' if found <= bound else 'MISSES'}",
        flush=True,
    )


def overhead(client: Client, quick: bool) -> None:
    rng = np.random.default_rng(0)
    params = {str(k): iv.asarray(rng.standard_normal(8)) for k in range(1000)}

    def loss(p: dict[str, iv.Tensor], x: Any) -> Any:
        return sum((iv.square(w).sum() for w in p.values()), x.sum())

    x = iv.asarray(np.ones(10))
    part = client.persist(dask.delayed(np.ones)(10))
    step = value_and_grad(loss)
    changed = [{k: w + n for k, w in params.items()} for n in range(2)]
    turn = iter(range(10**6))
    found = difference(
        lambda: step(changed[next(turn) // 2 % 2], [part]),
        lambda: iv.value_and_grad(loss)(changed[next(turn) // 2 % 2], x),
        5 if quick else 30,
    )
    report("step through Dask over the local one, 1,000 tensors", 1e3 * found, 15, "ms")


def factorisation(quick: bool) -> None:
    count, users, items, width = (10**6 if quick else 10**7), 50_000, 10_000, 8
    rng = np.random.default_rng(0)
    params = {
        "u": iv.asarray(rng.standard_normal((users, width))),
        "i": iv.asarray(rng.standard_normal((items, width))),
    }

    def loss(p: dict[str, iv.Tensor], part: Any) -> Any:
        rows = part.numpy() if isinstance(part, iv.Tensor) else part
        u, i = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)
        return iv.square((iv.embedding(u, p["u"]) * iv.embedding(i, p["i"])).sum(axis=1) - rows[:, 2]).mean()

    with tempfile.TemporaryDirectory() as folder:
        held, paths = [], []
        for k in range(count // 500_000):
            rows = np.stack(
                [
                    rng.integers(0, users, 500_000),
                    rng.integers(0, items, 500_000),
                    rng.standard_normal(500_000),
                ],
                axis=1,
            )
            held.append(rows)
            paths.append(str(Path(folder) / f"{k}.npy"))
            np.save(paths[-1], rows)
        on_disk = [dask.delayed(np.load)(path) for path in paths]
        step, local = value_and_grad(loss, client=False), iv.value_and_grad(loss)

        def in_memory() -> Any:
            total = None
            for rows in held:
                _, found = local(params, rows)
                total = found if total is None else {k: total[k] + g for k, g in found.items()}
            return total

        ratio = seconds(lambda: step(params, on_disk), 3) / seconds(in_memory, 3)
        report(f"factorisation of {count:,} ratings from disk against memory", ratio, 1.3, "times")


def lookups(client: Client, quick: bool) -> None:
    rows, width, batch = 10**6, 64, 8192
    make = partial(optim.Adam, lr=0.01)
    table = PartitionedTable(rows, width, client, optimizer=make)
    local = iv.asarray(np.zeros((rows, width)), requires_grad=True)
    opt = make([local])
    at = np.random.default_rng(0).choice(rows, batch, replace=False)

    def far() -> None:
        iv.square(iv.embedding(at, table)).sum().backward()
        table.step()

    def near() -> None:
        opt.step(iv.autograd.grad(iv.square(iv.embedding(at, local)).sum(), [local]))

    repeats = 5 if quick else 20
    report(
        "look-up and step of 8,192 rows against local",
        seconds(far, repeats) / seconds(near, repeats),
        3,
        "times",
    )


ALLREDUCE = """
import numpy as np, iverson as iv
from mpi4py import MPI
from iverson.interop.mpi import allreduce
comm, n = MPI.COMM_WORLD, (64 << 20) // 8
x, out = np.ones(n), np.empty(n)
t = iv.asarray(x)
def best(call):
    times = []
    for _ in range(9):
        comm.Barrier()
        start = MPI.Wtime()
        call()
        times.append(comm.allreduce(MPI.Wtime() - start, MPI.MAX))
    return min(times)
def alone():
    comm.Allreduce(x, np.empty(n))
ratio = best(lambda: allreduce(t, comm)) / best(alone)
if comm.rank == 0:
    print(ratio)
"""


def under_mpi() -> None:
    leave = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpiexec", "-n", "2", sys.executable, "-c", ALLREDUCE]
    found = subprocess.run(
        command, env={**os.environ, **leave}, capture_output=True, text=True, check=True, timeout=300
    )
    report("allreduce of 64 MiB against mpi4py alone", float(found.stdout), 1.2, "times")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats, 10^6 ratings")
    quick = parser.parse_args().quick
    with LocalCluster(1, **OPTIONS) as cluster, Client(cluster, direct_to_workers=True) as client:
        overhead(client, quick)
        lookups(client, quick)
    factorisation(quick)
    under_mpi()


if __name__ == "__main__":
    main()
