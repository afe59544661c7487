"""Measures the corpus within a time: starts workers, ends those that hang, and keeps what came of it.

Of a pass, cells that there was no time for are missing. A library that hangs, or ends its process, is left
out of that workload from then on, and the report says why.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import IO, Any

from benchmarks.corpus.cells import COMPILED, Cell, passes
from benchmarks.processes import clean_environment
from benchmarks.workload import OURS

Row = dict[str, Any]
#: Seconds after which a library is left out, of preparing and of its first call; of torch.compile.
LIMIT, LIMIT_OF_COMPILING = 20.0, 60.0

#: Seconds that a cell may take beyond the time of its pass.
GRACE = 5.0


def run(minutes: float, seed: int, *, quick: bool, only: Sequence[str] = ()) -> list[Row]:
    """Rows as of `harness.measure`, with ``threads``; of a cell measured in two passes, two."""
    end = time.time() + 60 * minutes
    found: list[Row] = []
    left_out: dict[str, dict[str, str]] = {}
    left = 1.0
    for share, cells in passes(seed, quick=quick, only=only):
        until = time.time() + (end - time.time()) * share / left
        left -= share
        found += _pass(cells, until, seed, left_out, quick=quick)
    return found


def _pass(
    cells: list[Cell], until: float, seed: int, left_out: dict[str, dict[str, str]], *, quick: bool
) -> list[Row]:
    """Rows of cells with one number of threads, as far as the time reaches."""
    rows: list[Row] = []
    begin = 0
    while begin < len(cells) and time.time() < until:
        some = cells[begin:]
        request = {
            "cells": [astuple(c) for c in some],
            "threads": some[0].threads,
            "seed": seed,
            "left_out": left_out,
            "until": until,
            "quick": quick,
        }
        at, library = 0, ""
        for said in _said(some[0].threads, request):
            if "row" in said:
                rows.append(said["row"])
                at, library = said["cell"] + 1, ""
                _show(said["row"])
            elif "library" in said:
                at, library = said["cell"], said["library"]
            else:  # it ended, with an error or as it hung
                library = library or "start"
                print(f"{some[at].workload} {some[at].size}: {library}: {said['ended']}", flush=True)
                left_out.setdefault(some[at].workload, {})[library] = said["ended"]
                # What is not one peer's fault ends the cell.
                at += library in (OURS, "rounds", "start")
                break
        else:
            return rows
        begin += at
    return rows


def _said(threads: int, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a worker says; at last, where it did not end well, how it ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.corpus.worker"],
        cwd=Path(__file__).parents[2],
        env=_environment(threads),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    process.stdin.write(json.dumps(request))
    process.stdin.close()
    limit = LIMIT_OF_COMPILING
    try:
        while True:
            try:
                left = max(0.0, request["until"] + GRACE - time.time())
                line = lines.get(timeout=min(limit, left))
            except queue.Empty:
                if left < limit:  # the pass is over, whatever this cell would take
                    return
                yield {"ended": f"over {limit:.0f} s"}
                return
            if line is None:
                if process.wait() != 0:
                    yield {"ended": f"the process ended with {process.returncode}"}
                return
            if line.startswith("{"):
                said = json.loads(line)
                limit = LIMIT_OF_COMPILING if said.get("library", COMPILED) == COMPILED else LIMIT
                yield said
    finally:
        process.kill()
        process.wait()


def _read(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _environment(threads: int) -> dict[str, str]:
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    return clean_environment() | dict.fromkeys(names, str(threads))


def _show(row: Row) -> None:
    print(
        f"{row['workload']} {row['size_is']} {row['size']}, {row['threads']} threads: "
        + ", ".join(f"{p} {1e3 * min(s):.3g} ms" for p, s in row["seconds"].items()),
        flush=True,
    )
