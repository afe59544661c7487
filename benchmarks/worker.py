"""One workload in a process of its own: prints its rows as one line of JSON.

Run by hand it also shows the traceback of a library that failed:
`python -m benchmarks.worker digits_step --seed 0 --rounds 3`.
"""

from __future__ import annotations

import argparse
import json

from benchmarks.harness import Effort, measure
from benchmarks.workloads import WORKLOADS

QUICK = Effort(rounds=3, turn=0.01, warm_up=0.02, settle=0.01)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()

    workload = WORKLOADS[args.name]
    effort = QUICK if args.quick else Effort(rounds=args.rounds)
    sizes = workload.sizes_for(args.seed, quick=args.quick)
    print(json.dumps([measure(workload, size, args.seed, effort) for size in sizes]))


if __name__ == "__main__":
    main()
