"""A mutation runner: change one guard of a module at a time and see whether a test notices.

    python -m tests.tools.mutate iverson.autograd.engine [--only TEXT] [--jobs N]

Every mutant is one edit of the module's syntax tree: a condition negated, an operand of ``and`` or ``or``
dropped, a guard that leaves early deleted, a comparison or a constant changed. It runs in a process of its
own against the tests that `TESTS` names for the module, which stop at the first failure; a mutant that
outlives them is printed, with the reason where `EQUIVALENT` says why no test can tell it from the original.
(R. A. DeMillo, R. J. Lipton and F. G. Sayward, "Hints on test data selection", Computer 11, 1978.)
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.equivalent import EQUIVALENT

SOURCE = Path(__file__).parents[2] / "src"

#: The tests that have to notice, quickest first.
TESTS = {
    "iverson.autograd": ["-k", "not two_hundred_thousand", "tests/autograd", "tests/sparse/test_demand.py"],
    "iverson.te.eliminate": ["tests/te/test_eliminate.py", "tests/te/test_zero_elimination.py"],
    "iverson.codegen.bounds": ["tests/codegen/test_bounds.py"],
    "iverson.kernels": ["tests/autograd/test_guards.py", "tests/layouts/test_box.py"],
}
#: Seconds for one mutant.
LIMIT = 240
_FLIPPED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_LEAVING = (ast.Return, ast.Continue, ast.Break, ast.Raise)


@dataclass(frozen=True)
class Mutant:
    """One edit: the module's new syntax tree, and what was done where."""

    line: int
    what: str
    tree: ast.Module


def mutants(source: str) -> Iterator[Mutant]:
    """All mutants of a module.

    >>> for m in mutants("def f(x):\\n    if x and not x > 1:\\n        return 0\\n    return x\\n"):
    ...     print(m.line, m.what)
    2 delete the guard: if x and (not x > 1)
    2 negate: x and (not x > 1)
    2 drop: x
    2 drop: not x > 1
    3 0 -> 1
    2 x > 1 -> x >= 1
    2 1 -> 2
    """
    tree = ast.parse(source)
    for number, node in enumerate(ast.walk(tree)):
        for what, edit in _edits(node):
            changed = copy.deepcopy(tree)
            edit(next(n for k, n in enumerate(ast.walk(changed)) if k == number))
            yield Mutant(getattr(node, "lineno", 0), what, ast.fix_missing_locations(changed))


def _edits(node: Any) -> Iterator[tuple[str, Any]]:
    """What can be done to a node: a description, and a function that does it in place."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        text = ast.unparse(node.test)
        if isinstance(node, ast.If) and isinstance(node.body[-1], _LEAVING):
            yield f"delete the guard: if {text}", lambda n: setattr(n, "test", ast.Constant(False))
        yield f"negate: {text}", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
    elif isinstance(node, ast.comprehension):
        for k, test in enumerate(node.ifs):
            yield (
                f"negate: {ast.unparse(test)}",
                lambda n, k=k: n.ifs.__setitem__(k, ast.UnaryOp(ast.Not(), n.ifs[k])),
            )
    elif isinstance(node, ast.BoolOp):
        for k, value in enumerate(node.values):
            yield f"drop: {ast.unparse(value)}", lambda n, k=k: n.values.pop(k)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _FLIPPED:
        flipped = _FLIPPED[type(node.ops[0])]
        after = ast.unparse(ast.Compare(node.left, [flipped(), *node.ops[1:]], node.comparators))
        yield f"{ast.unparse(node)} -> {after}", lambda n: n.ops.__setitem__(0, flipped())
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        value = not node.value if type(node.value) is bool else node.value + 1
        yield f"{node.value} -> {value}", lambda n: setattr(n, "value", value)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a syntax tree."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name, self.tree = name, tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: Any) -> None:
        exec(compile(self.tree, self.name, "exec"), module.__dict__)


def survives(name: str, mutant: Mutant | None, tests: list[str]) -> bool:
    """Whether the tests pass with a mutant in the place of its module."""
    child = os.fork()
    if not child:
        os.setsid()
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(name, mutant.tree))
        import pytest

        os._exit(
            int(
                pytest.main(
                    ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not peers", *tests]
                )
            )
        )
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _told(name: str, m: Mutant, lines: list[str], known: dict[str, str]) -> bool:
    """Print a survivor; whether no reason is known why it survives."""
    line = lines[m.line - 1].strip()
    reason = next((why for edit, why in known.items() if m.what.startswith(edit)), None)
    print(
        f"{name}:{m.line}: {m.what}\n    {line}" + (f"\n    equivalent: {reason}" if reason else ""),
        flush=True,
    )
    return reason is None


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutate a module and print what no test notices.")
    parser.add_argument("module")
    parser.add_argument("--only", default="", help="mutants whose line or edit this expression finds")
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    name = chosen.module
    tests = next(t for prefix, t in TESTS.items() if name.startswith(prefix))
    source = (SOURCE / (name.replace(".", "/") + ".py")).read_text()
    lines = source.splitlines()
    import numpy  # noqa: F401
    import optree  # noqa: F401
    import scipy.sparse  # noqa: F401

    if not survives(name, None, tests):
        print("the tests fail without any mutation")
        return 2
    every = [m for m in mutants(source) if re.search(chosen.only, f"{m.line} {m.what}")]
    known = EQUIVALENT.get(name, {})
    with ThreadPoolExecutor(chosen.jobs) as pool:
        outcomes = pool.map(lambda m: survives(name, m, tests), every)
        left = [m for m, alive in zip(every, outcomes, strict=True) if alive and _told(name, m, lines, known)]
    print(f"{name}: {len(every)} mutants, {len(left)} survive")
    return 0


if __name__ == "__main__":
    sys.exit(main())
