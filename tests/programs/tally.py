"""A table of a run of random programs: for each mode, how many were drawn, agreed, were refused and failed.

Then the kinds of refusals. Failures, and the first program of each kind of refusal, are printed as they come.
"""

from __future__ import annotations

import multiprocessing
import re
from collections import Counter, defaultdict

from tests.programs.differential import outcome_of
from tests.programs.modes import DERIVATIVES, VALUES, Mode

CHUNK = 200
Counts = dict[str, Counter[str]]


def kind_of(text: str) -> str:
    """What a message says of no program in particular."""
    head = text.splitlines()[0]
    return re.sub(r"\b[a-z]+\d+\b|\d+|\([^)]*\)", "..", head)[:160]


def row_of(mode: Mode) -> str:
    """The row of a mode in the table: its own if it is one of the named, else that of its depth."""
    if mode in DERIVATIVES or mode in VALUES:
        return str(mode)
    depth = len(mode.inner) + len(mode.outer) + (mode.derivative != "value")
    return f"drawn, {depth} deep"


def tally(first: int, last: int) -> tuple[Counts, Counter[str]]:
    table: Counts = defaultdict(Counter)
    refusals: Counter[str] = Counter()
    for seed in range(first, last):
        program, outcome = outcome_of(seed)
        table[row_of(program.mode)][outcome.kind] += 1
        kind = kind_of(outcome.text) if outcome.kind == "refused" else ""
        if outcome.kind == "failed" or (kind and not refusals[kind]):
            print(
                f"{seed} {program.mode} {program.layout} {outcome.kind}: {outcome.text[:240]!r}", flush=True
            )
        if kind:
            refusals[kind] += 1
    return table, refusals


def run(first: int, last: int, processes: int = 1) -> None:
    chunks = [(k, min(k + CHUNK, last)) for k in range(first, last, CHUNK)]
    table: Counts = defaultdict(Counter)
    refusals: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for counts, kinds in pool.starmap(tally, chunks, chunksize=1):
            refusals += kinds
            for row, cells in counts.items():
                table[row] += cells
    total: Counter[str] = sum(table.values(), Counter())
    print(f"{'mode':<24}{'drawn':>8}{'agreed':>8}{'refused':>8}{'failed':>8}")
    for row, counts in [*sorted(table.items()), ("all", total)]:
        cells = "".join(f"{counts[kind]:>8}" for kind in ("agreed", "refused", "failed"))
        print(f"{row:<24}{sum(counts.values()):>8}{cells}")
    for text, count in refusals.most_common():
        print(f"{count:>6} {text}")
