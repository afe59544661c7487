"""Code is kept on disk by what it is compiled from: every process has to come to the same text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from iverson import te
from iverson.te.ir.evaluation_guards import Guards
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns

from .corpus import KERNELS


def test_processes_compile_the_same() -> None:
    """Whatever addresses and strings hash to, and however many names were given before."""
    names = by_turns(KERNELS, 24, 1)
    seeds = range(SEED, SEED + (300 if EXHAUSTIVE else 3))
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.te.texts", str(before), *names, *map(str, seeds)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        for before, seed in ((0, "1"), (7, "2"))
    ]
    one, other = (run.communicate()[0].splitlines() for run in runs)
    assert all(run.returncode == 0 for run in runs)
    assert len(one) == len(other) > 2 * len(names)
    differing = {line.split()[0] for line, again in zip(one, other, strict=True) if line != again}
    assert not differing, "other code in another process"


def test_guards_keep_the_order_in_which_they_are_met() -> None:
    i = te.var("i")
    conditions = [i > k for k in range(50)]
    guards = Guards(conditions)
    assert all(a is b for a, b in zip(guards, conditions, strict=True))
    turned = Guards(reversed(conditions))
    assert turned == guards
    assert hash(turned) == hash(guards)
    assert next(iter(turned)) is conditions[-1]
    assert next(iter(guards & turned)) is next(iter(guards | turned)) is conditions[0]
    (left,) = turned - Guards(conditions[1:])
    assert left is conditions[0]
