"""explain: say what work a function does, what it avoids, and why."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import iverson as iv
from iverson.cli.command_target import add_target, target_of
from iverson.explain import report
from iverson.transforms import grad
from iverson.transforms.trees import flatten


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_target(parser)
    parser.add_argument(
        "--grad", action="store_true", help="its gradient in the first argument: of the sum of all results"
    )
    parser.add_argument("--time", action="store_true", help="time each step")
    parser.add_argument("--steps", action="store_true", help="list each step of the graph, too")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the page with the graph, too")


def run(options: argparse.Namespace) -> int:
    """Explain; the exit status."""
    function, inputs = target_of(options)
    explained = grad(lambda *args: _total(function(*args))) if options.grad else function
    account = report(explained, time=options.time)(*inputs)
    print(account.text(steps=options.steps))
    if options.html is not None:
        print(f"\nPage: {account.save(options.html)}")
    return 0


def _total(results: Any) -> Any:
    """The sum of all entries of a tensor, or of a tree of them."""
    total: Any = sum(iv.asarray(x).sum() for x in flatten(results)[0])
    return total
