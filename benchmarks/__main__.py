"""`python -m benchmarks`: measures every workload, each in a process of its own (if quick, each file).

Exits with 1 if a library that is installed failed or gave another result than its peer; a ratio
that is short of its target is reported, not an error.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path

from benchmarks import graphs, machine, page, readme, report
from benchmarks.corpus import cells, run
from benchmarks.corpus import page as best
from benchmarks.processes import ProcessError, last_json, run_module
from benchmarks.workloads import MODULES, WORKLOADS
from tools import missing


def main() -> int:
    args = parse_args()
    if lacking := missing.note("they have no ratios (make bench installs them)", ("jax", "numba", "torch")):
        print(lacking, flush=True)
    if args.compile:
        print("\n".join(run_module("benchmarks.compile_times")))
        return 0
    if args.memory:
        print("\n".join(run_module("benchmarks.memory")))
        return 0
    if args.graphs:
        print(f"{report.machine_text(machine.describe())}\n", flush=True)
        graphs.report(args.minutes or graphs.MINUTES)
        return 0
    if args.scipy:
        print("\n".join(run_module("benchmarks.against_scipy", threads=1)))
        return 0
    if args.ops:
        print("\n".join(run_module("benchmarks.op_sweep", threads=1)))
        return 0
    seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    header = machine.describe()
    print(f"{report.machine_text(header)}\nseed {seed} (its sizes are marked *)\n", flush=True)

    if args.corpus:
        return corpus(args, seed, header)
    comparisons: list[report.Row] = []
    broken = False
    chosen = args.only or list(readme.SHOWN if args.readme else WORKLOADS)
    for names in batches(chosen, quick=args.quick):
        options = ["--seed", str(seed), "--rounds", str(args.rounds)]
        options += ["--quick"] if args.quick else []
        try:
            rows = last_json(run_module("benchmarks.worker", [*names, *options]))
        except ProcessError as error:
            print(f"{', '.join(names)}: the process ended with\n{error}\n", flush=True)
            broken = True
            continue
        found = [comparison for row in rows for comparison in report.compare(row)]
        print(f"{report.sizes_table(found)}\n", flush=True)
        comparisons += found
        broken |= any(report.is_broken(status) for row in rows for status in row["status"].values())

    summary = report.summarise(comparisons)
    print(report.summary_table(summary))
    means, budgets = report.means(comparisons), report.budgets(summary)
    for text in (means and report.means_table(means), budgets and report.budgets_table(budgets)):
        if text:
            print(f"\n{text}")
    if args.json:
        result = {"machine": header, "seed": seed, "quick": args.quick}
        result |= {"comparisons": comparisons, "summary": summary, "means": means, "budgets": budgets}
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    if args.readme:
        readme.write(summary, header)
        page.write()
    return int(broken)


def corpus(args: argparse.Namespace, seed: int, header: report.Row) -> int:
    """Kernels of the literature against the best of their peers, in so many minutes."""
    only = args.only or ()
    measuring = run.Corpus(args.minutes, seed, quick=args.quick, only=only)
    rows = measuring.run()
    found = best.best(rows)
    planned = [c for _, cells in run.passes(seed, quick=args.quick, only=only) for c in cells]
    print(f"\n{best.text(found, planned)}\n", flush=True)
    explained: list[str] = []
    for text in measuring.explained(best.worst(found)):
        print(f"{text}\n", flush=True)
        explained.append(text)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        result = {"machine": header, "seed": seed, "quick": args.quick}
        result |= {"summary": best.summary(found, planned), "corpus": found, "explained": explained}
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return int(any(report.is_broken(row["status"].get("iverson", "ok")) for row in rows))


def batches(names: list[str], *, quick: bool) -> list[list[str]]:
    """What runs in one process: a workload, or if quick all those of a file."""
    if not quick:
        return [[name] for name in names]
    files = [[w.name for w in module.WORKLOADS if w.name in names] for module in MODULES]
    return [group for group in files if group]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=WORKLOADS | cells.OPS, metavar="NAME", help="this workload; repeat"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="3 short rounds, smallest and drawn size, no torch.compile: a smoke run",
    )
    parser.add_argument("--compile", action="store_true", help="what compiling tensor expressions takes")
    parser.add_argument("--memory", action="store_true", help="memory of training steps at its peak")
    parser.add_argument(
        "--graphs", action="store_true", help="compiled functions beside their aims, in minutes"
    )
    parser.add_argument("--scipy", action="store_true", help="sparse operations beside scipy.sparse")
    parser.add_argument("--ops", action="store_true", help="every op of the table, eager beside compiled")
    parser.add_argument(
        "--corpus", action="store_true", help="kernels of the literature against the best of their peers"
    )
    parser.add_argument("--minutes", type=float, metavar="N", help="for the corpus (15) and --graphs (10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number here")
    parser.add_argument("--readme", action="store_true", help="the workloads of README.md; writes its table")
    parser.add_argument("--seed", type=int, metavar="N", help="of inputs and drawn sizes")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="default 15")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
