"""The smallest part of a program that still fails: ``python -m tests.programs.shrink SEED``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from tests.programs.differential import Outcome, outcome_of_program
from tests.programs.generator import Program, program_of
from tests.programs.modes import Mode
from tests.programs.tally import kind_of


def _kind(outcome: Outcome) -> str:
    text = kind_of(outcome.text) if outcome.kind == "refused" else outcome.text.split(":")[0]
    return f"{outcome.kind} {text}"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with a wrapper less, a shorter result, or without one of the statements."""
    mode = program.mode
    for k in range(len(mode.inner)):
        yield program._replace(mode=Mode(mode.inner[:k] + mode.inner[k + 1 :], mode.derivative, mode.outer))
    for k in range(len(mode.outer)):
        yield program._replace(mode=Mode(mode.inner, mode.derivative, mode.outer[:k] + mode.outer[k + 1 :]))
    if program.layout != "strided":
        yield program._replace(layout="strided")
    lines = program.source.split("\n")
    for name in re.findall(r"\b[a-z]+\d+\b", program.source):
        yield program._replace(source="\n".join([*lines[:-1], f"    return xp.total({name}), ()"]), sites=[])
    for k in range(1, len(lines) - 1):
        stop = k + 1
        while stop < len(lines) and _indent(lines[stop]) > _indent(lines[k]):
            stop += 1
        yield program._replace(source="\n".join(lines[:k] + lines[stop:]))


def _size(program: Program) -> int:
    return len(program.source) + 100 * len(program.mode.inner + program.mode.outer) + len(program.layout)


def shrink(program: Program) -> Program:
    wanted, again = _kind(outcome_of_program(program)), True
    while again:
        again = False
        for smaller in _smaller(program):
            if _size(smaller) < _size(program) and _kind(outcome_of_program(smaller)) == wanted:
                program, again = smaller, True
                break
    return program


if __name__ == "__main__":
    for seed in map(int, sys.argv[1:]):
        small = shrink(program_of(seed))
        print(seed, small.mode, small.layout, *map(repr, small.args), sep="\n")
        print(small.source, outcome_of_program(small), sep="\n")
