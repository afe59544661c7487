"""What a benchmark is. The workloads themselves live in `benchmarks.workloads`.

Imports nothing but NumPy, so that each workload imports its libraries when it runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Inputs = Mapping[str, np.ndarray]
Call = Callable[[], Any]
"""Does the timed work once and returns a tensor or a sequence of tensors."""

OURS = "iverson"
OURS_FORWARD = "iverson forward"
"""The part of a workload with gradients that is its forward."""
GRADIENT_BUDGET = 4.0
"""Our gradients may take this many times our forward, besides that forward itself."""


class UnavailableError(Exception):
    """Raised by a `run` whose library is there but cannot do this here, e.g. for want of a compiler."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One computation, said once per library over the same NumPy inputs.

    Attributes:
        name: what `--only` and the table call it.
        sizes: three sizes, fixed.
        size_is: what the size counts, e.g. "batch".
        draw: a further size from a generator, so that nobody can tune to the three.
        make: the inputs of a size.
        run: by library, a function from the inputs to the call that is timed. What it does
            before it returns (conversion, parameters, a graph built beforehand) is not timed. The first
            word of the key is the module: "torch compile" needs torch.
        part: keys of ``run`` that do only part of the work, to be timed and not compared.
        kinked: whether rounding can put an entry on the other side of a kink, so that a few rows of
            right results differ.
        target: by peer, the largest ratio of our time to the peer's that passes.
        group: a name shared by workloads of which geometric means are reported (`report.GROUPS`).
    """

    name: str
    sizes: tuple[int, int, int]
    size_is: str
    draw: Callable[[np.random.Generator], int | np.integer]
    make: Callable[[int, np.random.Generator], Inputs]
    run: Mapping[str, Callable[[Inputs], Call]]
    part: frozenset[str] = frozenset()
    kinked: bool = False
    target: Mapping[str, float] = field(default_factory=dict)
    group: str = ""

    def rng(self, seed: int) -> np.random.Generator:
        """The generator of this workload in the run of that seed, whatever else runs."""
        return np.random.default_rng([seed, zlib.crc32(self.name.encode())])

    def sizes_for(self, seed: int, *, quick: bool) -> Sequence[int]:
        """The three fixed sizes and a drawn one; the smallest and the least of four if quick."""
        rng = self.rng(seed)
        drawn = [n for n in (int(self.draw(rng)) for _ in range(64)) if n not in self.sizes]
        return (self.sizes[0], min(drawn[:4])) if quick else (*self.sizes, drawn[0])
