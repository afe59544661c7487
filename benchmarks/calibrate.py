"""Thresholds of the cost model, measured again: from which amount of work the costlier start pays.

    python -m benchmarks.calibrate            measure all of `benchmarks.crossovers` on this machine
    python -m benchmarks.calibrate NAME ...   those whose name contains one of these words

A threshold chooses between two ways to one result: below it the plain one, from it on the one that has more
to start with. Each way is forced in a process of its own, where the threshold is infinite or 0 before
anything is compiled. The two processes run the same workload at growing sizes in turns. The result is the
range of amounts in which the ways cross, beside the threshold that the package has, with how much slower the
package's choice is where it loses most. Compiling is not counted: every call runs once before it is timed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.crossovers import CROSSOVERS, NEVER, Call, Crossover

#: Rounds in which both ways run at a size; seconds that a way runs in each.
ROUNDS, SECONDS = 5, 0.02


class Result(NamedTuple):
    """What was measured of a crossover.

    low, high : amounts between which the ways cross; 0 or infinity where one is always faster.
    loss : how many times longer the package's choice takes than the other way, at the size where most.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    loss: float


def measured(crossover: Crossover) -> Result:
    """Run both ways in turns."""
    value = float(getattr(importlib.import_module(f"iverson.{crossover.module}"), crossover.attribute))
    plain, started = _Way(crossover, NEVER), _Way(crossover, 0)
    try:
        times = [(plain.seconds(n), started.seconds(n)) for n in crossover.sizes]
    finally:
        plain.close()
        started.close()
    amounts = [crossover.amount(n) for n in crossover.sizes]
    wins = [b < a for a, b in times]
    first = next((k for k in range(len(wins)) if all(wins[k:])), len(wins))
    low = amounts[first - 1] if first else 0.0
    high = amounts[first] if first < len(wins) else math.inf
    losses = [(b / a if amount >= value else a / b) for amount, (a, b) in zip(amounts, times, strict=True)]
    return Result(crossover.name, crossover.unit, value, low, high, max(1.0, *losses))


class _Way:
    """A process that takes one way."""

    def __init__(self, crossover: Crossover, threshold: int) -> None:
        self.crossover = crossover
        command = sys.executable, "-m", "benchmarks.calibrate", "--way", crossover.name, str(threshold)
        environment = os.environ | {"IVERSON_CACHE": "off"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def seconds(self, n: int) -> float:
        """The median time of a call at size n."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.crossover.name}: the process ended at size {n}")
        return float(json.loads(line))

    def close(self) -> None:
        self.process.communicate("")


def serve(name: str, threshold: int) -> None:
    """Force a way, and time the workload at each size that is asked for."""
    importlib.import_module("iverson")
    (crossover,) = (c for c in CROSSOVERS if c.name == name)
    force(crossover, threshold)
    for line in sys.stdin:
        call = crossover.workload(int(line))
        call()
        print(json.dumps(_median(call)), flush=True)


def force(crossover: Crossover, threshold: float) -> None:
    """Give the threshold another value, in its module and in those that import it."""
    module = importlib.import_module(f"iverson.{crossover.module}")
    value = getattr(module, crossover.attribute)
    users = (m for name, m in list(sys.modules.items()) if name.startswith("iverson."))
    for user in (m for m in users if vars(m).get(crossover.attribute) is value):
        setattr(user, crossover.attribute, threshold)
    for attribute in crossover.never:
        setattr(module, attribute, NEVER)


def _median(call: Call) -> float:
    start = time.perf_counter()
    call()
    repeats = max(1, int(SECONDS / max(time.perf_counter() - start, 1e-9)))
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        seconds.append((time.perf_counter() - start) / repeats)
    return sorted(seconds)[ROUNDS // 2]


def table(results: Iterator[Result]) -> Iterator[str]:
    """Lines of the report, one for each result."""
    yield f"{'threshold':58}{'unit':>16}{'value':>12}{'the ways cross in':>24}{'loss':>7}"
    for r in results:
        crossing = f"{r.low:.3g} to {r.high:.3g}"
        yield f"{r.name:58}{r.unit:>16}{r.value:>12.3g}{crossing:>24}{r.loss:>7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="words that names contain")
    parser.add_argument("--way", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        serve(options.way[0], int(options.way[1]))
        return
    chosen = [c for c in CROSSOVERS if not options.names or any(word in c.name for word in options.names)]
    for line in table(map(measured, chosen)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
