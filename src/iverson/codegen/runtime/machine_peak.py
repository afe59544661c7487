"""Machine peak: operations a second in a product of matrices, bytes a second in a copy; measured once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from iverson.codegen.runtime.target import available

#: The matrices of the product are N x N; the array that is copied has so many bytes, more than caches.
N, COPIED = 384, 1 << 25
#: How often each is tried.
TRIES = 4


@dataclass(frozen=True)
class Peak:
    """Peak rates of a machine, all threads together.

    flops : floating-point operations a second, in numbers of 8 bytes; of 4 bytes, twice as many.
    bytes : read and written a second, in memory.
    threads : how many.
    """

    flops: float
    bytes: float
    threads: int

    def __str__(self) -> str:
        return f"{self.flops / 1e9:.3g} GFLOP/s, {self.bytes / 1e9:.3g} GB/s"


@cache
def peak() -> Peak:
    """Peak rates of this machine, measured at the first call, in about 50 ms."""
    a = np.ones((N, N))
    source, target = np.zeros(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    product, copy = _best(lambda: a @ a), _best(lambda: np.copyto(target, source))
    return Peak(2 * N**3 / product, 2 * COPIED / copy, available())


def _best(run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TRIES):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return min(seconds)
