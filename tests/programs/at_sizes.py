"""A random program at many sizes: compiled functions that serve them all give what new ones give.

``python -m tests.programs.at_sizes FIRST LAST [SIZES]`` takes any seeds. All compiled functions of a program,
around it and inside of it, are made once. Each calls, by a word that says which, the function of the size.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import iverson as iv
from tests.programs.differential import RTOL, _dense, difference
from tests.programs.generator import Program, program_of
from tests.programs.library import Library
from tests.programs.modes import DERIVATIVES, VALUES, Mode, carried_out

#: The extents that programs are drawn with, and the largest that stand in their places.
BASES: dict[int, int] = {2: 40, 3: 40, 4: 24, 5: 24, 7: 70, 9: 140, 17: 300}
#: The same for programs whose second derivatives are whole matrices.
FEW: dict[int, int] = {2: 4, 3: 5, 4: 6, 5: 6, 7: 9, 9: 12, 17: 20}


class Served(NamedTuple):
    """A function that `jit` compiled, and the functions that it calls, by the words of its first argument."""

    compiled: Callable[..., Any]
    functions: dict[str, Callable[..., Any]]


class Serving(Library):
    """Programs whose compiled functions are kept from one size to the next. size : the word of this one."""

    def __init__(self, seed: int, dtype: Any, size: str, served: dict[int, Served]) -> None:
        super().__init__(seed, dtype)
        self.size, self.served, self.number = size, served, 0

    def jit(self, f: Callable[..., Any]) -> Callable[..., Any]:
        number, self.number = self.number, self.number + 1
        if number not in self.served:
            functions: dict[str, Callable[..., Any]] = {}
            # The word alone says which function is called: that of a size is never exchanged.
            compiled = iv.jit(lambda size, *args: functions[size](*args))
            self.served[number] = Served(compiled, functions)
        self.served[number].functions.setdefault(self.size, f)
        return lambda *args: self.served[number].compiled(self.size, *args)


def mode_of(seed: int) -> Mode:
    """The thirteen modes and those of values by turns; with a compiled function around or inside."""
    modes = (*DERIVATIVES, *VALUES[:4])
    mode = modes[seed % len(modes)]
    if "jit" in mode.inner or "jit" in mode.outer:
        return mode
    if seed // len(modes) % 2:
        return mode._replace(inner=("jit", *mode.inner))
    return mode._replace(outer=(*mode.outer, "jit"))


def programs_of(seed: int, count: int) -> Iterator[Program]:
    """The program of a seed at some sizes."""
    mode, rng = mode_of(seed), np.random.default_rng(seed)
    most = FEW if mode.derivative == "hessian" else BASES
    for _ in range(count):
        # Small ones, which equal each other by chance, as often as large ones.
        sizes = {n: 2 + int((top - 1) * rng.random() ** 2) for n, top in most.items()}
        yield program_of(seed, mode, sizes=sizes)


def _results(xp: Library, program: Program) -> list[np.ndarray]:
    args = [iv.asarray(a) for a in program.args]
    if program.layout != "strided":
        args[0] = iv.to_layout(args[0], program.layout)
    results, draws = carried_out(xp, program, args)
    return [_dense(x) for x in (*results, *draws)]


def failures_of(seed: int, count: int) -> Iterator[str]:
    """What is wrong with the results of a program at some sizes."""
    programs = list(programs_of(seed, count))
    served: dict[int, Served] = {}
    for turn, program in enumerate(programs):
        xp = Serving(program.seed, program.dtype, f"size {turn}", served)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected: list[np.ndarray] | str
            try:
                expected = _results(Library(program.seed, program.dtype), program)
            except iv.errors.IversonError as error:
                expected = type(error).__name__
            try:
                found: list[np.ndarray] | str = _results(xp, program)
            except iv.errors.IversonError as error:
                found = type(error).__name__
        where = f"{seed} in {program.mode}, turn {turn}, {program.layout}: "
        if isinstance(found, str) or isinstance(expected, str):
            if found != expected:
                yield f"{where}{found}, expected {expected}\n{program.source}"
            continue
        for a, b in zip(found, expected, strict=True):
            text = difference(a, b, RTOL[str(program.dtype)]) or ("dtype" if a.dtype != b.dtype else "")
            if text:
                yield f"{where}{text}\n{program.source}"


if __name__ == "__main__":
    first, last, count, *_ = (*map(int, sys.argv[1:]), 30)
    wrong = 0
    for seed in range(first, last):
        try:
            found = next(failures_of(seed, count), "")
        except Exception as error:
            found = f"{seed}: {type(error).__name__}: {error}"
        wrong += bool(found)
        if found:
            print(found[:3000], flush=True)
        if seed % 10 == 9:
            print(f"up to {seed}: {wrong} failed", flush=True)
