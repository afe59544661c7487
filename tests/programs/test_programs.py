"""Random programs in every mode, against dual numbers: values, derivatives and draws.

``make test`` holds 300, ``make test-all`` 10,000; ``python -m tests.programs`` takes any seeds, for a table.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.codegen.launches import compiled_program
from iverson.graph.lowering import disk_cache
from tests.conformance.product import EXHAUSTIVE, SEED
from tests.programs.differential import Outcome, outcome_of_program
from tests.programs.generator import Program, program_of
from tests.programs.modes import DERIVATIVES, VALUES, Mode
from tests.programs.pairs import members, results

COUNT, CHUNK = (10_000, 100) if EXHAUSTIVE else (300, 20)
PAIRS = 200 if EXHAUSTIVE else 6
#: Of the programs of a run, how many may be refused by a clear error.
REFUSED = 0.03


#: Programs that are not right yet, and what is missing.
KNOWN: dict[int, str] = {}


def hold(programs: Iterator[Program]) -> list[Outcome]:
    outcomes = []
    for program in programs:
        outcome = outcome_of_program(program)
        assert outcome.kind != "failed", f"{program.seed} in {program.mode}: {outcome.text}\n{program.source}"
        outcomes.append(outcome)
    return outcomes


@pytest.mark.parametrize("first", range(SEED * COUNT, SEED * COUNT + COUNT, CHUNK))
def test_programs_are_what_dual_numbers_say(first: int) -> None:
    outcomes = hold(program_of(seed) for seed in range(first, first + CHUNK) if seed not in KNOWN)
    refused = [x for x in outcomes if x.kind == "refused"]
    assert len(refused) <= max(2, REFUSED * CHUNK), refused


@pytest.mark.parametrize("seed", KNOWN)
def test_programs_that_are_not_right_yet(seed: int) -> None:
    """A program that has become right leaves the table."""
    assert outcome_of_program(program_of(seed)).kind == "failed"


@pytest.mark.parametrize("mode", [*DERIVATIVES, *VALUES], ids=str)
def test_every_mode(mode: Mode) -> None:
    outcomes = hold(program_of(70_000 + seed, mode) for seed in range(40 if EXHAUSTIVE else 2))
    assert any(x.kind == "agreed" for x in outcomes)


# --- programs that differ in one thing ---------------------------------------------------------------

#: What a number of a program becomes.
NUMBERS = ("0.0", "-0.0", "1.0", "7.0", "0.25", "2.5")
LITERAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
COMPILED = Mode((), "grad", ("jit",))


def variants(seed: int) -> list[Program]:
    """A program, and some that differ from it in one number, one dtype, or one name of index notation."""
    program = program_of(seed, COMPILED, flat=True)
    # A factor of the result is in every cotangent, and so in what is folded of them.
    source = re.sub(
        r"(?m)^    return xp.total\((.*)\), (\(.*\))$", r"    return xp.total(\1) * 1.5, \2", program.source
    )
    program = program._replace(source=source)
    rng = np.random.default_rng(seed)
    found = [program]
    places = list(LITERAL.finditer(program.source))
    for place in (places[-1], places[rng.integers(len(places))]):
        for number in rng.choice(NUMBERS, 2, replace=False):
            source = program.source[: place.start()] + str(number) + program.source[place.end() :]
            found.append(program._replace(source=source))
    names = re.search(r"\('(\w+)', '(\w+)', '(\w+)', '(\w+)'\)", program.source)
    if names:
        found.append(program._replace(source=program.source.replace(names[0], "('i', 'k', 'x', 'w')")))
    return found


def forget() -> None:
    disk_cache.forget()
    compiled_program.forget()


def test_a_part_of_a_constant_is_that_of_its_own_program() -> None:
    """What lowering makes of constants, here a cotangent that is a part, is not in the text of a graph."""
    for scale in (1.0, -1.0, 7.0):

        def f(x: Any, scale: float = scale) -> Any:
            y = x * x
            y[0] = x[2]
            return (scale * y).sum()

        found = iv.jit(iv.grad(f))(iv.asarray([2.0, 3.0, 4.0, 5.0]))
        assert found.tolist() == [0.0, 6 * scale, 9 * scale, 10 * scale]


@pytest.mark.parametrize("seed", range(80_000, 80_000 + PAIRS))
def test_programs_that_differ_in_one_thing_share_no_result(seed: int) -> None:
    """In one process, in both orders."""
    found = variants(seed)
    forget()
    hold(iter(found))
    forget()
    hold(iter(found[::-1]))


FAMILIES = range(SEED * 100, SEED * 100 + (40 if EXHAUSTIVE else 1))
PROCESS = """
import sys
from tests.programs.pairs import results
from tests.programs.test_programs import FAMILIES, PAIRS, hold, variants
back = sys.argv[1] == "back"
for seed in range(80_000, 80_000 + PAIRS, 4):
    hold(iter(variants(seed)[:: -1 if back else 1]))
for seed in FAMILIES:
    print(*results(seed, back), sep="\\n")
"""


def without_cache(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the members of families give where nothing is kept from one to the next."""
    with monkeypatch.context() as patch:
        patch.setenv("IVERSON_CACHE", "off")
        return [line for seed in FAMILIES for line in results(seed, before=forget)]


def test_processes_share_a_cache_and_no_result(tmp_path, monkeypatch) -> None:
    """Programs that differ in one thing, in one process after the other, the second of which goes from the
    last to the first and finds on disk what the first one wrote: bit for bit as without any cache."""
    expected = without_cache(monkeypatch)
    monkeypatch.setenv("IVERSON_CACHE", str(tmp_path))
    for order in ("forth", "back"):
        run = subprocess.run(
            (sys.executable, "-c", PROCESS, order), capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert any(tmp_path.iterdir())
        changes = [(seed, change) for seed in FAMILIES for _, change in members(seed)]
        wrong = [c for c, a, b in zip(changes, run.stdout.split("\n"), expected, strict=False) if a != b]
        assert not wrong, order
        assert len(run.stdout.splitlines()) == len(expected)
