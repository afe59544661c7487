"""benchmarks/README.md and its plot, of the measurements in README.md: ``python -m benchmarks.page``.

``python -m benchmarks --readme`` measures and then writes both pages.
"""

from __future__ import annotations

import re

from benchmarks.readme import PEERS, README

PAGE, PLOT = README.parent / "benchmarks" / "README.md", README.parent / "benchmarks" / "ratios.svg"
TEXT = """# Benchmarks

`make bench` measures every workload against PyTorch, JAX and SciPy, each in a process of its own with the
rounds of all libraries interleaved, checks that results agree, and prints ratios; `BENCH_ARGS=--quick` does
less of it. `make bench BENCH_ARGS=--readme` measures a choice of workloads and writes this page, its plot,
and the table of the [README](../README.md).

`make bench BENCH_ARGS=--corpus` sets kernels of the literature, forward and with all gradients, at four sizes
and with one and two threads, against the best of these and of numba where that is installed. It takes
`--minutes` (15), tells what it had no time for, counts targets met and missed, and says of the worst ten
where the time goes: in machine code, in calling it, and what `te.explain` says. `--json FILE` keeps it.

`make bench BENCH_ARGS=--graphs` measures compiled functions in ten minutes, each beside what it should take
of a peer's time at most: training steps, second derivatives, loops over time, batches, first calls, and peak
memory.

`make bench BENCH_ARGS=--ops` sets every op of the table, as eager code calls it, beside the same call in
`iv.jit`, on one thread, by CPU time.

`make calibrate` measures the thresholds of the cost model on this machine: from which amount of work threads,
a compiled pass or a product of BLAS pays, and how much slower the package's choice is where it loses most. A
threshold with its workload is a record in `benchmarks/crossovers.py`.

Numbers are our time over the peer's, 0.5 half the time and 2 twice the time: the median over the sizes of a
workload.

![Our time over the peer's, by workload](ratios.svg)

{measured}
"""


def measured() -> str:
    """The table in README.md and what is said of the machine."""
    found = re.search(r"<!-- measured -->\n(.*)\n<!-- /measured -->", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def ratios(text: str) -> dict[str, dict[str, float]]:
    """By workload, the ratio to each peer that has it."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "`" in line]
    return {
        row[0].strip("`"): {p: float(cell) for p, cell in zip(PEERS, row[2:], strict=True) if cell != "-"}
        for row in rows
    }


def write() -> None:
    """Write the page and the plot."""
    text = measured()
    PAGE.write_text(TEXT.format(measured=text))
    draw(ratios(text))


def draw(found: dict[str, dict[str, float]]) -> None:
    """A line for each workload, a point for each peer, on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "iverson"  # the same picture is the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.35 * len(found) + 1), layout="constrained")
    names = list(found)[::-1]
    for peer, marker in zip(PEERS, "os^", strict=True):
        places = [(found[name][peer], k) for k, name in enumerate(names) if peer in found[name]]
        axes.scatter(*zip(*places, strict=True), marker=marker, label=peer, zorder=2)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.grid(alpha=0.3)
    axes.set_xlabel("our time over the peer's (left of 1: Iverson is faster)")
    axes.legend()
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    write()
