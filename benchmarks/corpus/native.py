"""What part of a call is spent in machine code: the rest is what calling it from Python costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from benchmarks.workload import Call

#: Calls of which the one that spent least outside counts, and after how many seconds no other is begun.
CALLS, LIMIT = 20, 0.1


def share(call: Call) -> float:
    """The part between 0 and 1 that kernels, programs and products of BLAS take of the call."""
    spent = [0.0]
    best = (float("inf"), 0.0)
    end = time.perf_counter() + LIMIT
    with _timed(spent):
        for _ in range(CALLS):
            spent[0] = 0.0
            begin = time.perf_counter()
            call()
            whole = time.perf_counter() - begin
            best = min(best, (whole - spent[0], spent[0] / whole))
            if time.perf_counter() > end:
                break
    return best[1]


@contextmanager
def _timed(spent: list[float]) -> Iterator[None]:
    """Adds up what is spent where Python calls machine code."""
    from iverson.codegen.launches.compiled_program import CompiledProgram

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **how: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args, **how)
            finally:
                spent[0] += time.perf_counter() - begin

        return call

    entry = property(lambda own: timed(own.library.functions["iverson_program"]))
    with mock.patch.object(CompiledProgram, "_entry", entry):
        yield
