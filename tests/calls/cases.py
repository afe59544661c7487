"""Which calls are made with which dtypes and memory: all of them, or a sample by turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.calls.operands import DTYPES, MEMORY, drawn, each, promotions
from tests.calls.table import ELSEWHERE_TESTED, Call, calls_of, public
from tests.conformance.product import EXHAUSTIVE, SEED, turn

Case = tuple[Call, tuple[str, ...], str]


def functions(*spaces: str) -> list[tuple[str, str]]:
    """The public functions that calls are generated for."""
    return [(s, n) for s, n in public() if n not in ELSEWHERE_TESTED and (not spaces or s in spaces)]


def every(space: str, name: str) -> Iterator[Case]:
    """Each call in each dtype, the first of several operands in each pair of them, each in each memory."""
    calls = calls_of(space, name)
    for call in calls:
        for dtype in DTYPES if call.operands else DTYPES[-1:]:
            yield call, (dtype,), ""
    for k, call in enumerate(c for c in calls if len(c.operands) > 1):
        for dtypes in promotions(2):
            if dtypes[0] != dtypes[1] and (k == 0 or turn(f"{call}{dtypes}", 16) == 0):
                yield call, dtypes, ""
    for call in calls:
        for memory in MEMORY if call.operands else ():
            yield call, (DTYPES[turn(f"{call}{memory}", len(DTYPES))],), memory


def some(space: str, name: str, count: int) -> list[Case]:
    """So many of the cases of a function, other ones for each seed; all in a whole run."""
    cases = list(every(space, name))
    if EXHAUSTIVE or len(cases) <= count:
        return cases
    rng = np.random.default_rng([SEED, turn(f"{space}.{name}", 1 << 30)])
    return [cases[k] for k in sorted(rng.choice(len(cases), count, replace=False))]


def arrays(case: Case) -> tuple[Any, Any]:
    """The arguments of a case, with arrays in its memory."""
    call, dtypes, memory = case
    made = drawn((call.args, dict(call.kwargs)), dtypes, SEED)
    if memory == "repeated" and any(x.matrix for x in call.operands):
        return made[0], made[1]  # what is said of the matrices would not hold
    if memory:
        made = each(lambda x: np.asanyarray(MEMORY[memory](x)), made, np.ndarray)
    args, kwargs = made
    return args, kwargs
