"""How much memory training steps take at their peak, beside the same step in other libraries.

`python -m benchmarks --memory`. Each library runs in a process of its own. It first runs the step at its
smallest size, so that it is loaded and its compiler has run; then inputs and weights are made, and from there
on the largest resident size that the system saw during three steps counts (Linux: `VmHWM` of
``/proc/self/status``, which writing 5 to ``clear_refs`` resets). What a library keeps for later calls counts.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
from pathlib import Path

import numpy as np

from benchmarks.processes import ProcessError, last_json, run_module
from benchmarks.report import table
from benchmarks.workload import OURS, UnavailableError
from benchmarks.workloads import WORKLOADS

STEPS = (
    "train_convnet",
    "train_transformer",
    "train_graph_attention",
    "compiled_training_step",
    "compiled_lstm",
)
LIBRARIES = (OURS, "torch", "jax jit")
CALLS = 3
_STATUS = Path("/proc/self/status")


def resident(field: str) -> int:
    """A size in bytes that the system knows of this process: VmRSS, now, or VmHWM, at most."""
    found = re.search(rf"{field}:\s+(\d+) kB", _STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024


def peak(name: str, size: int, library: str) -> int:
    """The bytes that steps take beyond what was there when inputs and weights had been made."""
    workload = WORKLOADS[name]
    run = workload.run[library]
    rng = workload.rng(0)
    first = run(workload.make(workload.sizes[0], rng))
    for _ in range(CALLS):
        first()
    del first
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    call = run(workload.make(size, rng))
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(CALLS):
        call()
    return resident("VmHWM") - before


def peaks(name: str, size: int) -> dict[str, float]:
    """What each library takes, in a process of its own."""
    found: dict[str, float] = {}
    for library in LIBRARIES:
        if library in WORKLOADS[name].run:
            try:
                (found[library],) = last_json(run_module("benchmarks.memory", [name, str(size), library]))
            except (ProcessError, UnavailableError) as error:
                print(f"{name}, {library}: {str(error).splitlines()[-1]}")
    return found


def main() -> None:
    if len(sys.argv) > 1:
        name, size, library = sys.argv[1:]
        print(json.dumps([peak(name, int(size), library)]))
        return
    rows = []
    for name in STEPS:
        for size in WORKLOADS[name].sizes[1:]:
            found = peaks(name, size)
            peers = [b for library, b in found.items() if library != OURS]
            ratio = found[OURS] / min(peers) if OURS in found and peers else np.nan
            sizes = [f"{found[x] / 2**20:.1f}" if x in found else "-" for x in LIBRARIES]
            rows.append([name, str(size), *sizes, f"{ratio:.2f}"])
    print(table(["training step", "size", *(f"{x}, MiB" for x in LIBRARIES), "of best peer"], rows))


if __name__ == "__main__":
    main()
