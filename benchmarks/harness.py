"""Runs one workload: every library's result is compared first, then all are timed in turns.

Turns are interleaved (A B, B A, A B, ...) within one process, so that what the machine does
meanwhile strikes all libraries alike, and a ratio is taken within each round. Printing is
`benchmarks.report`'s; starting processes is `benchmarks.__main__`'s.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.workload import OURS, Call, UnavailableError, Workload

NOT_INSTALLED = "not installed"
UNAVAILABLE = "unavailable"
SLOW = ("torch compile",)
"""Peers that compile for seconds; a quick run leaves them out."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to measure, in seconds where it is a time."""

    rounds: int
    turn: float = 0.03
    """A turn repeats the call for about this long; at least once."""
    warm_up: float = 0.1
    settle: float = 0.03
    """A pause before each turn: the other library's worker threads stop spinning."""
    slow_peers: bool = True
    """Whether to run peers that take many seconds to prepare."""
    limit: float = float("inf")
    """After so long no further round is begun."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds per call of one library, one entry per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a fraction of the median."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / 2 / self.median


def measure(
    workload: Workload,
    size: int,
    seed: int,
    effort: Effort,
    starting: Callable[[str], None] = lambda library: None,
) -> dict[str, Any]:
    """One size of one workload as a JSON object.

    Args:
        starting: is told which library comes next, before anything of it runs.

    Returns:
        `status` (by library: "ok", "not installed", "unavailable: why", or what is wrong with its
        result or its code), `seconds` (by library whose status is ok: one number per round).
    """
    inputs = workload.make(size, workload.rng(seed))
    calls: dict[str, Call] = {}
    results: dict[str, list[np.ndarray]] = {}
    status: dict[str, str] = {}
    for library, prepare in workload.run.items():
        if library in SLOW and not effort.slow_peers:
            continue
        if importlib.util.find_spec(library.split()[0]) is None:
            status[library] = NOT_INSTALLED
            continue
        starting(library)
        try:
            calls[library] = prepare(inputs)
            results[library] = as_numpy(calls[library]())
        except UnavailableError as error:
            calls.pop(library, None)
            status[library] = f"{UNAVAILABLE}: {error}"
        except Exception as error:  # a library that fails is a line of the report
            traceback.print_exc()
            calls.pop(library, None)
            first_line = str(error).partition("\n")[0]
            status[library] = f"failed: {type(error).__name__}: {first_line}"

    reference = next((name for name in results if name != OURS and name not in workload.part), None)
    for library in calls:
        wrong = ""
        if reference is not None and library not in workload.part:
            wrong = difference(results[library], results[reference], kinked=workload.kinked)
        status[library] = f"disagrees with {reference}: {wrong}" if wrong else "ok"
    calls = {library: call for library, call in calls.items() if status[library] == "ok"}
    starting("rounds")
    timings = interleave(calls, effort)
    return {
        "workload": workload.name,
        "size": size,
        "size_is": workload.size_is,
        "drawn": size not in workload.sizes,
        "group": workload.group,
        "target": dict(workload.target),
        "status": status,
        "seconds": {library: timing.seconds for library, timing in timings.items()},
    }


def as_numpy(result: Any) -> list[np.ndarray]:
    """Copies of the results, whichever library made them."""
    tensors = result if isinstance(result, tuple | list) else (result,)
    return [np.array(t.detach().numpy() if hasattr(t, "detach") else t) for t in tensors]


def difference(got: Sequence[np.ndarray], expected: Sequence[np.ndarray], *, kinked: bool = False) -> str:
    """What is wrong with `got`, or "" where it agrees with `expected`.

    Half of the digits of the dtype must agree, relative to the largest expected entry; where the
    function has kinks, at all but one row in a thousand (see `Workload.kinked`).
    """
    if len(got) != len(expected):
        return f"{len(got)} results for {len(expected)}"
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i} is {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        tolerance = float(np.finfo(b.dtype).eps) ** 0.5 if b.dtype.kind in "fc" else 0.0
        largest = float(np.max(np.abs(b), initial=0))
        wrong = ~np.isclose(a, b, rtol=tolerance, atol=tolerance * largest)
        if kinked and wrong.ndim > 1:
            wrong = wrong.reshape(len(wrong), -1).any(axis=1)
        if np.count_nonzero(wrong) > (wrong.size // 1000 + 1 if kinked else 0):
            return f"result {i} is off by {np.max(np.abs(a - b)):.1e}, largest entry {largest:.1e}"
    return ""


def interleave(calls: Mapping[str, Call], effort: Effort) -> dict[str, Timing]:
    """Times the calls in turns, beginning each round with another library."""
    # What stands now (libraries, compiled programs) is no garbage: a collection need look at the rest only.
    gc.collect()
    gc.freeze()
    try:
        return turns(calls, effort)
    finally:
        gc.unfreeze()


def turns(calls: Mapping[str, Call], effort: Effort) -> dict[str, Timing]:
    """The rounds of `interleave`."""
    repeats = {library: calibrate(call, effort) for library, call in calls.items()}
    seconds: dict[str, list[float]] = {library: [] for library in calls}
    libraries = list(calls)
    end = time.perf_counter() + effort.limit
    for i in range(effort.rounds):
        if i and time.perf_counter() > end:
            break
        first = i % max(len(libraries), 1)
        for library in libraries[first:] + libraries[:first]:
            gc.collect()
            time.sleep(effort.settle)
            seconds[library].append(turn(calls[library], repeats[library]))
    return {library: Timing(seconds=tuple(times)) for library, times in seconds.items()}


def calibrate(call: Call, effort: Effort) -> int:
    """Warms the call up and returns how many repetitions fill a turn."""
    fastest = float("inf")
    end = time.perf_counter() + effort.warm_up
    while fastest == float("inf") or time.perf_counter() < end:
        fastest = min(fastest, turn(call, 1))
    return max(1, round(effort.turn / fastest))


def turn(call: Call, repeats: int) -> float:
    """Seconds per call, after one call that is not timed."""
    call()
    start = time.perf_counter()
    for _ in itertools.repeat(None, repeats):
        call()
    return (time.perf_counter() - start) / repeats
