"""What is measured: an op, forward or with all gradients, at a size, with so many threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.corpus import contractions, data, pictures, sequences
from benchmarks.expressions import Op, pair
from benchmarks.workload import Workload
from benchmarks.workloads import te_dense, te_images, te_pairs, te_recurrences, te_segments

_MODULES = (
    *(te_dense, te_images, te_pairs, te_recurrences, te_segments),
    *(contractions, pictures, sequences, data),
)
OPS: dict[str, Op] = {op.name: op for module in _MODULES for op in module.OPS}
WORKLOADS: dict[str, Workload] = {w.name: w for op in OPS.values() for w in pair(op)}
COMPILED = "torch compile"


@dataclass(frozen=True)
class Cell:
    """One measurement; ``peers`` are those that it is for."""

    workload: str
    size: int
    threads: int
    peers: tuple[str, ...]

    @property
    def place(self) -> tuple[str, int, int]:
        return self.workload, self.size, self.threads


def passes(seed: int, *, quick: bool, only: Sequence[str] = ()) -> Iterator[tuple[float, list[Cell]]]:
    """Cells with one number of threads each, the most telling first, and their share of the time.

    All sizes with two threads, then with one; at last torch.compile, which takes seconds for each cell, at
    the middle size.
    """
    names = [n for n in WORKLOADS if not only or n.removesuffix("_gradients") in only]
    names.sort(key=lambda n: not n.endswith("_gradients"))
    sizes = {n: _sizes(WORKLOADS[n], seed, quick) for n in names}
    for share, threads in ((0.4, 2), (0.35, 1)):
        ranks = range(1 if quick else 4)
        yield share, [Cell(n, sizes[n][k], threads, _quick(n)) for k in ranks for n in names]
    if not quick:
        compiled = [n for n in names if COMPILED in WORKLOADS[n].run]
        yield 0.25, [Cell(n, sizes[n][0], 2, (COMPILED,)) for n in compiled]


def _quick(name: str) -> tuple[str, ...]:
    """The peers that prepare quickly."""
    w = WORKLOADS[name]
    return tuple(p for p in w.run if p in ("torch", "jax", "numba"))


def _sizes(workload: Workload, seed: int, quick: bool) -> list[int]:
    """The middle one, the drawn one, the largest and the smallest; the smallest alone if quick."""
    small, middle, large, *drawn = workload.sizes_for(seed, quick=False)
    return [small] if quick else [middle, *drawn, large, small]
