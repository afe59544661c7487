"""What a step costs on many workers: a formula, and a simulation of the tree it comes from.

    python -m benchmarks.scaling            print the table of docs/scaling.md
    python -m benchmarks.scaling --measure  measure the constants on this machine, and print it for them

A step of P workers: parameters that changed go out along a tree, each worker computes on its examples,
gradients come back along a tree of fan-in F. `dask_step` and `mpi_step` are the formulas, `simulated` plays
the events.
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Engine:
    """Constants of an engine: seconds, and bytes a second.

    central : seconds that the one scheduler spends for each task of a step.
    latency : from the end of a task to the start of one that waits for it, on another worker.
    bandwidth : of one connection.
    fan_in : how many partial sums a task adds.
    """

    name: str
    central: float
    latency: float
    bandwidth: float
    fan_in: int


#: Dask's seconds are measured on two cores (`--measure`), the latency with that of submitting each task. Of a
#: network a loopback interface says nothing: 10 Gbit/s, and 30 us for a message under MPI, are assumed.
NETWORK = 1.1e9
DASK = Engine("Dask", central=0.53e-3, latency=8e-3, bandwidth=NETWORK, fan_in=8)
MPI = Engine("MPI", central=0.0, latency=30e-6, bandwidth=NETWORK, fan_in=2)


@dataclass(frozen=True)
class Job:
    """A step: seconds of work on one worker for all examples, bytes of all parameters and of a part's."""

    name: str
    work: float
    dense: float
    sparse: float


JOBS = (
    Job("network, 25 M weights, 0.5 s", work=0.5, dense=2e8, sparse=2e8),
    Job("embedding, 10^6 x 64, 8,192 rows a worker, 0.5 s", work=0.5, dense=5.12e8, sparse=4.3e6),
)


def touched(job: Job, parts: float) -> float:
    """Bytes that a sum of so many parts has: rows drawn at random, those that several parts touch once."""
    share = min(job.sparse / job.dense, 1.0)
    return job.dense * (1 - (1 - share) ** parts) if share < 1 else job.dense


def levels(workers: int, fan_in: int) -> int:
    """How many times partial sums are added before one is left."""
    return math.ceil(math.log(workers, fan_in) - 1e-9) if workers > 1 else 0


def dask_step(job: Job, workers: int, engine: Engine, *, sparse: bool) -> float:
    """Seconds of a step under Dask: scheduling, the broadcast of what changed, the work, and the tree."""
    tasks = workers + sum(
        math.ceil(workers / engine.fan_in**k) for k in range(1, levels(workers, engine.fan_in) + 1)
    )
    size = (lambda parts: touched(job, parts)) if sparse else (lambda parts: job.dense)
    # Workers fetch a message from each other: their number doubles with each round.
    out = math.ceil(math.log2(workers + 1)) * (engine.latency + size(workers) / engine.bandwidth)
    back = 0.0
    for k in range(levels(workers, engine.fan_in)):
        came = min(engine.fan_in, math.ceil(workers / engine.fan_in**k)) - 1  # one is where the sum is made
        back += engine.latency + came * size(engine.fan_in**k) / engine.bandwidth
    return (
        tasks * engine.central
        + out
        + job.work / workers
        + back
        + engine.latency
        + size(workers) / engine.bandwidth
    )


def mpi_step(job: Job, workers: int, engine: Engine, *, sparse: bool) -> float:
    """Seconds of a step under MPI: the work and an allreduce, by a ring, or of the union of rows."""
    if workers == 1:
        return job.work
    ring = 2 * (workers - 1) * (engine.latency + job.dense / workers / engine.bandwidth)
    gather = (workers - 1) * (engine.latency + job.sparse / engine.bandwidth)
    return job.work / workers + (min(ring, gather) if sparse else ring)


def simulated(
    job: Job, workers: int, engine: Engine, *, sparse: bool, seed: int = 0, spread: float = 0.3
) -> float:
    """Seconds of a step under Dask, event by event.

    The scheduler handles one task at a time; times of work and latencies vary (log-normal, of this spread),
    and a sum starts when the last of its terms has arrived, one after the other over one connection.
    """
    rng = np.random.default_rng(seed)
    size = (lambda parts: touched(job, parts)) if sparse else (lambda parts: job.dense)

    def varied(mean: float) -> float:
        return float(mean * rng.lognormal(-(spread**2) / 2, spread))

    # The broadcast: who has the message sends it on, one receiver at a time.
    have, ready, transfer = [0.0], [], size(workers) / engine.bandwidth
    while len(ready) < workers:
        start = heapq.heappop(have)
        end = start + varied(engine.latency) + transfer
        ready.append(end)
        heapq.heappush(have, end)
        heapq.heappush(have, end)
    scheduler = 0.0
    finished = []
    for at in sorted(ready):
        scheduler = max(scheduler, 0.0) + engine.central
        finished.append(max(at, scheduler) + varied(job.work / workers))
    parts = 1
    while len(finished) > 1:
        sums = []
        for k in range(0, len(finished), engine.fan_in):
            own, *others = sorted(finished[k : k + engine.fan_in])
            scheduler = max(scheduler, own) if not others else scheduler
            at = own
            for arrived in others:
                at = max(at, arrived) + size(parts) / engine.bandwidth
            sums.append(at + varied(engine.latency) + engine.central)
        finished, parts = sums, parts * engine.fan_in
    return finished[0] + varied(engine.latency) + size(workers) / engine.bandwidth


def best(step: Callable[..., float], job: Job, engine: Engine, *, sparse: bool) -> int:
    """The number of workers, among powers of 2, after which more of them make a step slower."""
    counts = [2**k for k in range(13)]
    return min(counts, key=lambda p: step(job, p, engine, sparse=sparse))


def table(dask: Engine, mpi: Engine) -> str:
    lines = [
        "| job | engine | gradients | 8 workers | 64 | 512 | fastest at |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for job in JOBS:
        for engine, step in ((dask, dask_step), (mpi, mpi_step)):
            for sparse in (False, True) if job.sparse < job.dense else (False,):
                times = []
                for p in (8, 64, 512):
                    text = f"{step(job, p, engine, sparse=sparse):.3g} s"
                    if step is dask_step:
                        text += f" ({simulated(job, p, engine, sparse=sparse):.3g} s)"
                    times.append(text)
                kind = "rows" if sparse else "dense"
                lines.append(
                    f"| {job.name} | {engine.name} | {kind} | {' | '.join(times)} | "
                    f"{best(step, job, engine, sparse=sparse)} |"
                )
    return "\n".join(lines)


def measured() -> tuple[Engine, Engine]:
    """Constants on this machine.

    Dask's are processor time, which other programs on the machine change little: that of the scheduler and
    the client for a task, and that of all processes for each link of a chain over two workers.
    """
    from time import process_time

    import dask
    import psutil
    from distributed import Client, LocalCluster

    def spent() -> float:
        """Processor time of this process, which has the scheduler, and of the workers."""
        workers = psutil.Process().children(recursive=True)
        return process_time() + sum(sum(p.cpu_times()[:2]) for p in workers)

    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with LocalCluster(2, **options) as cluster, Client(cluster) as client:
        add = dask.delayed(lambda *x: len(x), pure=False)
        workers = sorted(client.nthreads())

        def many() -> float:
            start = process_time()
            client.compute(add(*[add() for _ in range(400)])).result(timeout=60)
            return (process_time() - start) / 400

        def chain() -> float:
            start, found = spent(), client.submit(len, (), pure=False, workers=workers[:1])
            for k in range(200):
                found = client.submit(lambda x: x, found, pure=False, workers=[workers[(k + 1) % 2]])
            found.result(timeout=60)
            return (spent() - start) / 200

        central, latency = (min(call() for _ in range(5)) for call in (many, chain))
    return replace(DASK, central=central, latency=latency), replace(MPI, latency=_latency_of_mpi())


def _latency_of_mpi() -> float:
    """Half the time of the smallest allreduce of two processes."""
    program = (
        "from mpi4py import MPI; import numpy as np; c = MPI.COMM_WORLD; a = np.zeros(1); b = np.zeros(1)\n"
        "def call():\n  t = MPI.Wtime()\n"
        "  for _ in range(100): c.Allreduce(a, b)\n  return (MPI.Wtime() - t) / 100\n"
        "best = min(call() for _ in range(200))\nif c.rank == 0: print(best)"
    )
    command = ["mpiexec", "-n", "2", sys.executable, "-c", program]
    leave = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    found = subprocess.run(
        command, env={**os.environ, **leave}, capture_output=True, text=True, timeout=60, check=False
    )
    return float(found.stdout) / 2 if found.returncode == 0 else MPI.latency


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true")
    engines = measured() if parser.parse_args().measure else (DASK, MPI)
    for engine in engines:
        print(engine)
    print(table(*engines))


if __name__ == "__main__":
    main()
