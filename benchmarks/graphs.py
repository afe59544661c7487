"""Compiled functions beside their peers, in minutes: `python -m benchmarks --graphs`.

A choice of workloads and sizes, each with what it should take at most of a peer's time; then what a first
call takes (with nothing on disk, and with code on disk), and the memory of training steps at its peak.
Libraries that take long to prepare (torch.compile) are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks import memory
from benchmarks.harness import Effort, measure
from benchmarks.processes import ProcessError, last_json, run_module
from benchmarks.report import ratio_text, table, time_text
from benchmarks.workload import OURS
from benchmarks.workloads import WORKLOADS

#: What there is no time for is left out, and told.
MINUTES = 10
EFFORT = Effort(rounds=7, turn=0.02, warm_up=0.05, settle=0.02, slow_peers=False, limit=8)


@dataclass(frozen=True)
class Chosen:
    """A workload at some sizes; ``ours`` is the way of ours that is compared with each peer at an aim."""

    workload: str
    sizes: tuple[int, ...]
    aims: Mapping[str, float]
    ours: str = OURS


JAX, TORCH, FUNC = "jax jit", "torch", "torch func"
STEP = {JAX: 0.8, TORCH: 0.8}
#: By section; a section is one process.
SECTIONS: dict[str, tuple[Chosen, ...]] = {
    "calls": (
        Chosen("compiled_scalar_call", (1,), {JAX: 1.5}),
        Chosen("compiled_elementwise_chain", (10_000_000,), {JAX: 1.05}),
    ),
    "batches": (
        Chosen("per_sample_gradients", (32, 256), {FUNC: 1.0}),
        Chosen("per_sample_gradients", (32, 256), {JAX: 1.0}, "iverson jit"),
        Chosen("hessian", (400,), {FUNC: 1.0}),
        Chosen("hessian", (400,), {JAX: 1.0}, "iverson jit"),
        Chosen("stencil_jacobian", (50, 400), {FUNC: 1.0}),
        Chosen("stencil_jacobian", (50, 400), {JAX: 1.0}, "iverson jit"),
    ),
    "classifier": (
        Chosen("compiled_training_step", (64,), {JAX: 0.3, TORCH: 0.8}),
        Chosen("compiled_training_step", (512,), STEP),
    ),
    "convolutions": (Chosen("train_convnet", (10, 28), STEP),),
    "transformer": (Chosen("train_transformer", (64, 77, 256), STEP),),
    "graph attention": (Chosen("train_graph_attention", (1_000, 20_000, 100_000), STEP),),
    "loops over time": (
        Chosen("compiled_lstm", (64, 256), {JAX: 0.5, TORCH: 0.5}),
        Chosen("compiled_slices", (32, 64, 128), {JAX: 0.05, TORCH: 0.05}),
    ),
    "solves and transforms": (
        Chosen("heat_implicit", (16, 64, 128), {JAX: 1.2}),
        Chosen("kalman_smoother", (4, 16), {JAX: 1.2}),
        Chosen("split_step", (256, 1024, 4096), {JAX: 1.2}),
        Chosen("fourier_layer", (64, 256, 1024), {JAX: 1.2}),
        Chosen("batched_cholesky", (16,), {JAX: 0.8, TORCH: 0.8}),
    ),
    "loops written out": (
        Chosen("sinkhorn", (64, 448), {JAX: 1.0}),
        Chosen("wavelet_lifting", (4096, 262_144), {JAX: 1.0}),
        Chosen("sliced_wasserstein", (256, 2048), {TORCH: 1.0}),
        Chosen("logistic_regression", (200_000,), {JAX: 1.0}),
    ),
    "second derivatives, ReLU": (
        Chosen("compiled_second_relu", (2_000, 10_000), {JAX: 1.0, TORCH: 0.3}),
        Chosen("compiled_second_relu_squared", (2_000,), {JAX: 1.0, TORCH: 0.35}),
        Chosen("compiled_second_relu_backward", (2_000,), {JAX: 1.0, TORCH: 0.45}),
    ),
    "second derivatives, tanh": (
        Chosen("compiled_second_tanh", (500, 2_000), {JAX: 1.1, TORCH: 0.5}),
        Chosen("compiled_second_tanh_squared", (2_000,), {JAX: 1.1, TORCH: 0.5}),
        Chosen("compiled_second_tanh_backward", (2_000,), {JAX: 1.1, TORCH: 0.5}),
        Chosen("compiled_wide_tanh", (500,), {JAX: 1.1, TORCH: 0.5}),
        Chosen("compiled_hessian_tanh", (500,), {JAX: 1.0, TORCH: 1.0}),
        Chosen("compiled_hessian_tanh_backward", (500,), {JAX: 1.0, TORCH: 1.0}),
    ),
}
HEAD = ("workload", "size", "ours", "", "peer", "", "ratio", "worst round", "aim", "")
Line = tuple[str, ...]


def lines(section: str) -> Iterator[Line]:
    """The lines of a section, measured here."""
    for chosen in SECTIONS[section]:
        workload = WORKLOADS[chosen.workload]
        run = {OURS: workload.run[chosen.ours], **{peer: workload.run[peer] for peer in chosen.aims}}
        for size in chosen.sizes:
            row = measure(replace(workload, run=run), size, 0, EFFORT)
            seconds = row["seconds"]
            for peer, aim in chosen.aims.items():
                head = chosen.workload, str(size), chosen.ours, time_text(seconds.get(OURS))
                if OURS in seconds and peer in seconds:
                    ratios = [a / b for a, b in zip(seconds[OURS], seconds[peer], strict=True)]
                    yield (
                        *head,
                        peer,
                        time_text(seconds[peer]),
                        *judged(statistics.median(ratios), max(ratios), aim),
                    )
                else:
                    status = "; ".join(s for s in row["status"].values() if s != "ok")
                    yield *head, peer, "-", "-", "-", f"<= {aim:g}", status


def judged(ratio: float, worst: float, aim: float) -> Line:
    return ratio_text(ratio), ratio_text(worst), f"<= {aim:g}", "pass" if ratio <= aim else "short"


# --- first calls --------------------------------------------------------------------------------------

STEP_OF, HIDDEN = "compiled_training_step", 64


def first_call(library: str) -> float:
    """Seconds of a process's first call of a training step, all that it asks for imported before."""
    workload = WORKLOADS[STEP_OF]
    call = workload.run[library](workload.make(HIDDEN, workload.rng(0)))
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def first_calls() -> Iterator[Line]:
    """The least of three processes each: with nothing on disk, and with code on disk."""

    def least(library: str, folders: list[str]) -> float:
        found = []
        for folder in folders:
            os.environ["IVERSON_CACHE"] = folder
            found += last_json(run_module("benchmarks.graphs", ["--first", library]))
        return float(min(found))

    before = os.environ.get("IVERSON_CACHE")
    with tempfile.TemporaryDirectory() as kept:
        folders = [os.path.join(kept, str(k)) for k in range(3)]
        cold = least(OURS, folders)
        warm = least(OURS, folders)
        peer = least(JAX, folders)
    os.environ.pop("IVERSON_CACHE")
    os.environ |= {} if before is None else {"IVERSON_CACHE": before}
    for what, ours, aim in (("nothing on disk", cold, 1.0), ("code on disk", warm, 0.3)):
        head = "first call of the classifier's step", str(HIDDEN), what
        yield *head, time_text([ours]), JAX, time_text([peer]), *judged(ours / peer, ours / peer, aim)


# --- memory -------------------------------------------------------------------------------------------


def peaks() -> Iterator[Line]:
    """Of the largest size of each training step."""
    for name in memory.STEPS:
        size = WORKLOADS[name].sizes[-1]
        found = memory.peaks(name, size)
        if OURS not in found or len(found) < 2:
            continue
        peer = min((library for library in found if library != OURS), key=lambda x: found[x])
        ours, theirs = (f"{found[x] / 2**20:.1f} MiB" for x in (OURS, peer))
        ratio = found[OURS] / found[peer]
        yield name, str(size), "memory at its peak", ours, peer, theirs, *judged(ratio, ratio, 1.0)


# --- the whole ----------------------------------------------------------------------------------------


def report(minutes: float = MINUTES) -> None:
    """Print a table for each section, as long as there is time; and what was left out."""
    end = time.perf_counter() + 60 * minutes
    left_out = []
    ways = {"first calls": first_calls, "memory": peaks}
    for section in (*SECTIONS, *ways):
        if time.perf_counter() > end - 45:
            left_out.append(section)
            continue
        try:
            found = list(ways[section]()) if section in ways else measured(section)
        except ProcessError as error:
            print(f"{section}: the process ended with\n{error}\n", flush=True)
            continue
        print(f"{section}\n{table(HEAD, found)}\n", flush=True)
    if left_out:
        print(f"no time left for {', '.join(left_out)}")


def measured(section: str) -> list[Line]:
    """The lines of a section, measured in a process of its own."""
    return [tuple(x) for x in last_json(run_module("benchmarks.graphs", ["--section", section]))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--section", choices=SECTIONS)
    parser.add_argument("--first", metavar="LIBRARY")
    args = parser.parse_args()
    found = list(lines(args.section)) if args.section else [first_call(args.first)]
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
