"""Interleaved medians for the code generator's own benchmarks, and the machine they ran on.

Turns alternate between the libraries, after a pause in which the other's worker threads stop spinning.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping

from benchmarks import machine

PAUSE = 0.02


def header() -> None:
    """What the numbers are measured on. Settings that force a BLAS kernel are refused."""
    forced = [name for name in os.environ if name.startswith("OPENBLAS_CORE")]
    if forced:
        raise SystemExit(f"unset {', '.join(forced)}: it chooses NumPy's BLAS kernels")
    core = machine.probe_numpy().get("core", "unknown (threadpoolctl is not installed)")
    print(f"{machine.cpu_name()}, {machine.usable_threads()} threads, NumPy's BLAS core {core}")


def compare(title: str, calls: Mapping[str, Callable[[], object]], rounds: int = 15) -> None:
    """Medians of all calls in milliseconds, and each one's ratio to the second."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
        call()
    for turn in range(rounds):
        names = list(calls) if turn % 2 else list(calls)[::-1]
        for name in names:
            time.sleep(PAUSE)
            calls[name]()
            start = time.perf_counter()
            calls[name]()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    reference = list(medians.values())[min(1, len(medians) - 1)]
    parts = (f"{name} {1e3 * m:.3f} ms ({m / reference:.2f})" for name, m in medians.items())
    print(f"{title:34}", "   ".join(parts), flush=True)
