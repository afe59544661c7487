"""Measures the corpus within a time: starts workers, ends those that hang, and keeps what came of it.

The time of a pass begins when its worker has imported the libraries. Cells that there was no time for are
missing. A library that hangs, or ends its process, is left out of that workload from then on, and the report
says why.
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

#: Seconds that a cell may take beyond the time of its pass; that a worker may take to begin.
GRACE, LIMIT_OF_IMPORTS = 5.0, 120.0
#: What part of the time is for what te says of the worst.
EXPLAINING = 0.08


class Corpus:
    """One run: ``minutes`` of it, the last of them for `explained`."""

    def __init__(self, minutes: float, seed: int, *, quick: bool, only: Sequence[str] = ()) -> None:
        self.end = time.time() + 60 * minutes
        self.measured = self.end - 60 * minutes * EXPLAINING
        self.seed, self.quick, self.only = seed, quick, only
        self.left_out: dict[str, dict[str, str]] = {}

    def run(self) -> list[Row]:
        """Rows as of `harness.measure`, with ``threads``; of a cell measured in two passes, two."""
        found: list[Row] = []
        left = 1.0
        for share, cells in passes(self.seed, quick=self.quick, only=self.only):
            found += self._pass(cells, share / left)
            left -= share
        return found

    def _pass(self, cells: list[Cell], share: float) -> list[Row]:
        """Rows of cells with one number of threads, as far as that share of the time that is left reaches."""
        rows: list[Row] = []
        begin, until = 0, None
        while begin < len(cells) and time.time() < (until or self.measured):
            some = cells[begin:]
            request = {
                "cells": [astuple(c) for c in some],
                "threads": some[0].threads,
                "seed": self.seed,
                "left_out": self.left_out,
                "quick": self.quick,
            }
            worker, at, library = Worker(request), 0, ""
            if worker.begins(self.measured):
                until = until or time.time() + (self.measured - time.time()) * share
                for said in worker.said(until):
                    if "row" in said:
                        rows.append(said["row"])
                        at, library = said["cell"] + 1, ""
                        _show(said["row"])
                    elif "library" in said:
                        at, library = said["cell"], said["library"]
                    else:  # it ended, with an error or as it hung
                        library = library or "start"
                        print(f"{some[at].workload} {some[at].size}: {library}: {said['ended']}", flush=True)
                        self.left_out.setdefault(some[at].workload, {})[library] = said["ended"]
                        # What is not one peer's fault ends the cell.
                        at += library in (OURS, "rounds", "start")
                        break
                else:
                    return rows
            else:
                at += 1
            begin += at
        return rows

    def explained(self, rows: Sequence[Row]) -> Iterator[str]:
        """What te says of the kernels of measurements, as far as there is time."""
        worker = Worker(
            {
                "explain": list(rows),
                "seed": self.seed,
                "threads": max((r["threads"] for r in rows), default=1),
            }
        )
        if worker.begins(self.end):
            yield from (said["text"] for said in worker.said(self.end) if "text" in said)


class Worker:
    """A process that measures; it is ended when what it said has been read."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.corpus.worker"],
            cwd=Path(__file__).parents[2],
            env=_environment(request["threads"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(self.process.stdout, self.lines), daemon=True).start()
        self._tell(request)

    def _tell(self, what: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def begins(self, until: float) -> bool:
        """Whether it has imported the libraries, by that time at the latest."""
        limit = min(LIMIT_OF_IMPORTS, max(0.0, until - time.time()))
        try:
            while (line := self.lines.get(timeout=limit)) is not None:
                if line.startswith("{") and "ready" in json.loads(line):
                    return True
        except queue.Empty:
            pass
        self._end()
        return False

    def said(self, until: float) -> Iterator[dict[str, Any]]:
        """What it says, given that time; at last, where it did not end well, how it ended."""
        limit = LIMIT_OF_COMPILING
        try:
            self._tell({"until": until})
            while True:
                left = max(0.0, until + GRACE - time.time())
                try:
                    line = self.lines.get(timeout=min(limit, left))
                except queue.Empty:
                    if left >= limit:  # else the pass is over, whatever this cell would take
                        yield {"ended": f"over {limit:.0f} s"}
                    return
                if line is None:
                    if self.process.wait() != 0:
                        yield {"ended": f"the process ended with {self.process.returncode}"}
                    return
                if line.startswith("{"):
                    found = json.loads(line)
                    limit = LIMIT_OF_COMPILING if found.get("library", COMPILED) == COMPILED else LIMIT
                    yield found
        except BrokenPipeError:
            yield {"ended": f"the process ended with {self.process.wait()}"}
        finally:
            self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()


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
