"""Workloads in a process of their own: prints their rows as one line of JSON.

Run by hand it also shows the traceback of a library that failed:
`python -m benchmarks.worker digits_step --seed 0 --rounds 3`.
"""

from __future__ import annotations

import argparse
import json

from benchmarks.harness import Effort, measure
from benchmarks.workloads import WORKLOADS

QUICK = Effort(rounds=3, turn=0.005, warm_up=0.01, settle=0.005, slow_peers=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", choices=WORKLOADS, nargs="+", metavar="NAME")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()

    effort = QUICK if args.quick else Effort(rounds=args.rounds)
    rows = [
        measure(workload, size, args.seed, effort)
        for workload in (WORKLOADS[name] for name in args.names)
        for size in workload.sizes_for(args.seed, quick=args.quick)
    ]
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
