"""A run of random programs, and a table of it: ``python -m tests.programs FIRST LAST``.

For each mode: how many were drawn, agreed, were refused and failed. Then the kinds of refusals.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict

from tests.programs.differential import outcome_of


def kind_of(text: str) -> str:
    """What a message says of no program in particular."""
    head = text.splitlines()[0]
    return re.sub(r"\b[a-z]+\d+\b|\d+|\([^)]*\)", "..", head)[:160]


def run(first: int, last: int) -> None:
    table: dict[str, Counter[str]] = defaultdict(Counter)
    refusals: Counter[str] = Counter()
    for seed in range(first, last):
        program, outcome = outcome_of(seed)
        table[str(program.mode)][outcome.kind] += 1
        if outcome.kind == "refused":
            refusals[kind_of(outcome.text)] += 1
        elif outcome.kind == "failed":
            print(f"{seed} {program.mode} {program.layout}: {outcome.text[:240]!r}", flush=True)
    total: Counter[str] = sum(table.values(), Counter())
    print(f"{'mode':<40}{'drawn':>8}{'agreed':>8}{'refused':>8}{'failed':>8}")
    for mode, counts in [*sorted(table.items(), key=lambda item: -sum(item[1].values())), ("all", total)]:
        cells = "".join(f"{counts[kind]:>8}" for kind in ("agreed", "refused", "failed"))
        print(f"{mode:<40}{sum(counts.values()):>8}{cells}")
    for text, count in refusals.most_common():
        print(f"{count:>6} {text}")


if __name__ == "__main__":
    run(*map(int, sys.argv[1:3]))
