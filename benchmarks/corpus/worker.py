"""Measures cells in this process, one after the other: a line of JSON for each, and for what begins.

Reads a request from standard input: cells, the seed and what to leave out, or measurements to explain. When
the libraries are imported it says so, and reads until when it may run. A line says which library of which
cell comes next, so that whoever waits knows what hung.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import sys
import time
from dataclasses import replace
from typing import Any

from benchmarks.corpus import native, page
from benchmarks.corpus.cells import WORKLOADS, Cell
from benchmarks.harness import Effort, measure
from benchmarks.workload import OURS, Call

EFFORT = Effort(rounds=9, turn=0.01, warm_up=0.01, settle=0.003, limit=0.5)
QUICK = Effort(rounds=2, turn=0.002, warm_up=0.002, settle=0.001, limit=0.2)


def main() -> None:
    request = json.loads(sys.stdin.readline())
    # Whatever else a library is told, it can use no more than these.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: request["threads"]])
    import iverson.te  # noqa: F401

    peers = {p.split()[0] for given in request.get("cells", ()) for p in Cell(*given).peers}
    for name in peers:
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
    tell({"ready": True})
    until = json.loads(sys.stdin.readline())["until"]
    for row in request.get("explain", ()):
        tell({"text": page.explained(row, request["seed"])})
    left_out: dict[str, dict[str, str]] = request.get("left_out", {})
    for k, given in enumerate(request.get("cells", ())):
        cell = Cell(*given)
        if time.time() > until:
            return
        row = run(cell, k, request["seed"], left_out.get(cell.workload, {}), quick=request["quick"])
        tell({"cell": k, "row": row | {"threads": cell.threads}})


def run(cell: Cell, k: int, seed: int, left_out: dict[str, str], *, quick: bool) -> dict[str, Any]:
    """A row as `harness.measure` makes it."""
    whole = WORKLOADS[cell.workload]
    wanted = [OURS, *(p for p in cell.peers if p not in left_out)]
    workload = replace(whole, run={p: whole.run[p] for p in wanted}, part=frozenset())
    calls: list[Call] = []
    workload = replace(workload, run={**workload.run, OURS: lambda x: kept(calls, whole.run[OURS](x))})
    row = measure(
        workload,
        cell.size,
        seed,
        QUICK if quick else EFFORT,
        lambda library: tell({"cell": k, "library": library}),
    )
    row["status"] |= {p: why for p, why in left_out.items() if p in cell.peers}
    if row["seconds"].get(OURS):
        row["native"] = native.share(calls[0])
    _forget()
    return row


def kept(calls: list[Call], call: Call) -> Call:
    """The call itself, entered in a list."""
    calls.append(call)
    return call


def _forget() -> None:
    """Compiled programs of a cell are of no use to another."""
    from iverson.codegen.launches import compiled_kernel, compiled_program
    from iverson.te.lowering import statement_lowering

    statement_lowering.forget()
    compiled_kernel.forget()
    compiled_program.forget()
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    if "torch._dynamo" in sys.modules:
        sys.modules["torch"]._dynamo.reset()
    gc.collect()


def tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
