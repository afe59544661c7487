"""Thresholds of the cost model: what `make calibrate` forces is read by the package."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys

import numpy as np
import pytest

import iverson as iv
from benchmarks import calibrate
from benchmarks.calibrate import Result, table
from benchmarks.crossovers import CROSSOVERS, NEVER, Crossover
from iverson.kernels import compiled_elementwise

IDS = [c.name for c in CROSSOVERS]


@pytest.mark.parametrize("crossover", CROSSOVERS, ids=IDS)
def test_sizes_are_on_both_sides_of_a_threshold(crossover: Crossover) -> None:
    value = getattr(importlib.import_module(f"iverson.{crossover.module}"), crossover.attribute)
    amounts = [crossover.amount(n) for n in crossover.sizes]
    assert amounts == sorted(amounts)
    assert amounts[0] < value < amounts[-1]


def test_a_forced_threshold_decides_which_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    (crossover,) = (c for c in CROSSOVERS if c.name == "kernels.compiled_elementwise.WORTHWHILE")
    monkeypatch.setattr(compiled_elementwise, "WORTHWHILE", compiled_elementwise.WORTHWHILE)  # is restored
    compiled = []
    monkeypatch.setattr(compiled_elementwise, "_flat", lambda *operands: compiled.append(operands))
    x = iv.asarray(np.ones(8))
    calibrate.force(crossover, NEVER)
    iv.exp2(x), iv.tan(x)
    few = len(compiled)
    calibrate.force(crossover, 0)
    iv.sin(x)
    assert (few, len(compiled)) == (0, 1)


def test_a_process_times_a_way_at_each_size() -> None:
    (crossover,) = (c for c in CROSSOVERS if c.name == "kernels.compiled_elementwise.WORTHWHILE")
    way = calibrate._Way(crossover, NEVER)
    try:
        assert all(0 < way.seconds(n) < 60 for n in (256, 512))
    finally:
        way.close()


def test_the_table_has_a_line_for_each_threshold() -> None:
    results = [Result("a.B", "entries", 16384.0, 4096.0, math.inf, 1.25)]
    heading, line = table(iter(results))
    assert heading.split()[:3] == ["threshold", "unit", "value"]
    assert line.split() == ["a.B", "entries", "1.64e+04", "4.1e+03", "to", "inf", "1.25"]


def test_a_name_that_no_threshold_has_gives_the_heading_alone() -> None:
    run = subprocess.run(
        (sys.executable, "-m", "benchmarks.calibrate", "no such threshold"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.count("\n") == 1
