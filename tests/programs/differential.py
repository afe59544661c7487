"""One random program in one mode, by the library and by the oracle: agreed, refused, or failed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

import iverson as iv
from tests.graph.loops import compiled_after
from tests.programs import duals
from tests.programs.generator import Program, program_of
from tests.programs.library import Library, feed_of
from tests.programs.modes import carried_out
from tests.programs.namespace import Feed
from tests.programs.oracle import Array, Oracle

#: By the dtype of a program: what a comparison allows, relative to the largest entry.
RTOL = {"float64": 1e-8, "float32": 2e-3}


class NoOracle(Exception):
    """The oracle does not carry out this program."""


class Outcome(NamedTuple):
    """What became of a program: "agreed", "refused" (an error of the library), "failed" or "not compared"."""

    kind: str
    text: str = ""


def _dense(x: Any) -> np.ndarray:
    if isinstance(x, Array):
        return duals.base(x.data)
    if isinstance(x, iv.MaskedTensor):
        x = x.to_tensor(0.0)
    return np.asarray(x.to_dense().detach().numpy()) if isinstance(x, iv.Tensor) else np.asarray(x)


def difference(found: np.ndarray, expected: np.ndarray, rtol: float = RTOL["float64"]) -> str:
    """How results differ where the oracle is finite; nothing if they do not."""
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    finite = np.isfinite(expected)
    if not np.isfinite(found[finite]).all():
        return f"not finite: {found}, expected {expected}"
    scale = np.abs(expected[finite]).max(initial=1.0)
    wrong = np.abs(found - expected)[finite] > rtol * scale
    return f"wrong: {found}, expected {expected}" if wrong.any() else ""


def of_duals(program: Program, feed: Feed) -> list[np.ndarray]:
    """The results of a program by dual numbers, in double precision."""
    args = [Array(a.astype("c16" if a.dtype.kind == "c" else "f8")) for a in program.args]
    return [_dense(x) for x in carried_out(Oracle(feed), program, args)[0]]


def compare(program: Program, oracle: Callable[[Program, Feed], Sequence[np.ndarray]] = of_duals) -> Outcome:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        args = [iv.asarray(a) for a in program.args]
        if program.layout != "strided":
            args[0] = iv.to_layout(args[0], program.layout)
        try:
            with compiled_after(0) if program.seed % 3 == 0 else nullcontext():
                results, draws = carried_out(Library(program.seed, program.dtype), program, args)
        except iv.errors.IversonError as error:
            return Outcome("refused", f"{type(error).__name__}: {error}")
        feed = feed_of(program.sites, draws)
        drawn = np.concatenate([np.ravel(x) for x in feed.values()] or [np.zeros(0)])
        # Of some thousand numbers of single precision, two may be equal by chance.
        if drawn.size - np.unique(drawn).size > drawn.size // 200:
            return Outcome("failed", f"draws are not distinct: {feed}")
        for k, (a, b) in enumerate(zip(results, oracle(program, feed), strict=True)):
            dtype = program.args[k].dtype if program.mode.derivative == "grad" else program.dtype
            if a.dtype != dtype:
                return Outcome("failed", f"dtype {a.dtype}, expected {dtype}")
            if text := difference(_dense(a), b, RTOL[str(program.dtype)]):
                return Outcome("failed", text)
    return Outcome("agreed")


def outcome_of_program(
    program: Program, oracle: Callable[[Program, Feed], Sequence[np.ndarray]] = of_duals
) -> Outcome:
    try:
        return compare(program, oracle)
    except NoOracle as error:
        return Outcome("not compared", str(error))
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {error}")


def outcome_of(seed: int) -> tuple[Program, Outcome]:
    program = program_of(seed)
    return program, outcome_of_program(program)
