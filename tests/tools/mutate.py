"""A mutation runner: change one guard of a module at a time and see whether a test notices.

    python -m tests.tools.mutate iverson.autograd.engine [--only TEXT] [--again FILE] [--tests ARGUMENT ...]

Every mutant is one edit of the module's syntax tree: a condition negated, an operand of ``and`` or ``or``
dropped, a guard that leaves early deleted, a comparison or a constant changed. The tests that `TESTS` names
for the module are collected once and run once, in a process that notes which of them execute which line;
every mutant then has a process of its own, forked from the collected tests, where the code of the module's
functions is exchanged and the tests that execute the line are run, quickest first, until one fails. A mutant
that outlives them is printed, with the reason where `EQUIVALENT` says why no test can tell it from the
original. Edits of what runs at import (decorators, defaults) are not made.
(R. A. DeMillo, R. J. Lipton and F. G. Sayward, "Hints on test data selection", Computer 11, 1978.)
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import itertools
import os
import pickle
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.tools.caches import clear_functions
from tests.tools.equivalent import EQUIVALENT

#: The tests that have to notice.
TESTS = {
    "iverson.autograd": ["tests/autograd", "tests/sparse/test_demand.py", "tests/graph/test_shapes.py"],
    "iverson.autograd.accumulate": ["tests/layouts/test_box.py"],
    "iverson.autograd.forward": ["tests/autograd/test_guards.py", "tests/autograd/test_plan_steps.py"],
    "iverson.autograd.demand_propagation": [
        "tests/autograd/test_guards.py",
        "tests/autograd/test_plan_steps.py",
    ],
    "iverson.autograd.node": ["tests/autograd/test_nodes.py", "tests/autograd/test_handles.py"],
    "iverson.autograd.plan": [
        "tests/autograd/test_plan_steps.py",
        "tests/autograd/test_plan.py",
        "tests/graph/test_shapes.py",
    ],
    "iverson.core.relations": ["tests/conformance/test_relations.py"],
    "iverson.core.entries": ["tests/core", "tests/autograd", "tests/sparse/test_demand.py"],
    "iverson.te.elimination.zero_elimination": [
        "tests/te/test_walks.py",
        "tests/te/test_eliminate.py",
        "tests/te/test_any_shape.py",
    ],
    "iverson.codegen.nests.integer_bounds": ["tests/codegen/test_bounds.py", "tests/codegen/test_plan.py"],
    "iverson.codegen.nests.access_checks": ["tests/codegen/test_plan.py"],
    "iverson.codegen.programs.buffer_allocation": [
        "tests/codegen/test_programs.py",
        "tests/codegen/test_program_calls.py",
    ],
    "iverson.codegen.launches.integer_arguments": [
        "tests/codegen/test_integer_arguments.py",
        "tests/graph/test_lowering_formulas.py",
    ],
    "iverson.codegen": ["tests/codegen/test_kernel.py", "tests/codegen/test_lower.py"],
    "iverson.kernels.partial": [
        "tests/layouts/test_box_tables.py",
        "tests/layouts/test_bracket.py",
        "tests/layouts/test_mixtures.py",
        "tests/layouts/test_partial_rules.py",
        "tests/autograd/test_brackets.py",
        "tests/graph/test_entries.py",
    ],
    "iverson.graph.passes.graph_namespace": [
        "tests/layouts/test_partial_rules.py",
        "tests/graph/test_entries.py",
    ],
    "iverson.graph.passes.graph_rules": [
        "tests/layouts/test_partial_rules.py",
        "tests/graph/test_entries.py",
    ],
    "iverson.kernels.index_keys": ["tests/layouts/test_keys.py"],
    "iverson.kernels.region_images": ["tests/layouts/test_box_tables.py"],
    "iverson.layouts.bracket": ["tests/layouts/test_bracket.py", "tests/autograd/test_brackets.py"],
    "iverson.kernels.sparse.merging": [
        "tests/sparse/test_elementwise.py",
        "tests/layouts/test_merging.py",
        "tests/graph/test_following_patterns.py",
    ],
    "iverson.kernels.partial.partial_kernels": [
        "tests/layouts/test_bracket.py",
        "tests/layouts/test_mixtures.py",
        "tests/layouts/test_partial_rules.py",
        "tests/te/test_operator.py",
    ],
    "iverson.kernels.kernel_registry": ["tests/layouts/test_registry.py"],
    "iverson.kernels.sparse.sparse_elementwise": [
        "tests/sparse/test_elementwise.py",
        "tests/sparse/test_reductions.py",
    ],
    "iverson.kernels.sparse.sparse_factors": ["tests/sparse/test_factorized.py"],
    "iverson.kernels.sparse.sparse_reductions": ["tests/sparse/test_reductions.py"],
    "iverson.kernels.sparse.sparse_products": [
        "tests/sparse/test_hops.py",
        "tests/sparse/test_product_paths.py",
        "tests/sparse/test_products.py",
    ],
    "iverson.kernels.sparse.sparse_slices": ["tests/sparse/test_parts.py"],
    "iverson.layouts": ["tests/layouts/test_merging.py", "tests/sparse/test_layouts.py"],
    "iverson.layouts.counting_sorts": [
        "tests/layouts/test_merging.py",
        "tests/sparse/test_layouts.py",
        "tests/sparse/test_parts.py",
        "tests/sparse/test_reductions.py",
    ],
    "iverson.kernels": ["tests/autograd", "tests/layouts"],
    "iverson.graph": ["tests/graph", "tests/transforms/test_jit.py"],
    "iverson.graph.lowering.lowering_formulas": ["tests/graph/test_lowering_formulas.py"],
    "iverson.graph.lowering.padding": [
        "tests/graph/test_padding.py",
        "tests/graph/test_following_patterns.py",
    ],
    "iverson.graph.passes": [
        "tests/graph/test_entries.py",
        "tests/graph/test_parts.py",
        "tests/graph/test_passes.py",
        "tests/graph/test_strong_zeros.py",
    ],
    "iverson.graph.derivatives.specialization": ["tests/graph/test_differentiate.py"],
    "iverson.graph.derivatives.differentiation": [
        "tests/graph/test_differentiate.py",
        "tests/graph/test_compiled.py",
        "tests/graph/test_kept.py",
        "tests/graph/test_shapes.py",
        "tests/graph/test_on_patterns.py",
        "tests/autograd/test_brackets.py",
    ],
    "iverson.core.trace_guards": ["tests/transforms/test_retrace.py"],
    "iverson.transforms.jit": [
        "tests/transforms/test_retrace.py",
        "tests/transforms/test_jit.py",
        "tests/transforms/test_jit_state.py",
        "tests/graph/test_on_patterns.py",
        "tests/graph/test_following_patterns.py",
        "tests/graph/test_report.py",
    ],
}
#: Seconds of work: of a test that is not left out; of the tests of a mutant; until a mutant is given up.
SLOW, BUDGET, LIMIT = 1.0, 20.0, 30
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
#: What a process ends with that did not come to its tests.
_BROKEN = 3
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LEAVING = (ast.Return, ast.Continue, ast.Break, ast.Raise)


@dataclass(frozen=True)
class Mutant:
    """One edit of a module: what is done where."""

    line: int
    what: str
    #: The lines of the statement, without those of its body.
    lines: range
    _source: str
    _number: int
    _edit: Callable[[Any], None]

    def text(self) -> str:
        """The line as it is."""
        return self._source.splitlines()[self.line - 1].strip()

    def named(self) -> str:
        """How `EQUIVALENT` calls it: what is done in which line."""
        return f"{self.what} in {self.text()}"

    def tree(self) -> ast.Module:
        """The module's new syntax tree."""
        changed = ast.parse(self._source)
        self._edit(next(n for k, n in enumerate(ast.walk(changed)) if k == self._number))
        return ast.fix_missing_locations(changed)


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
    statement: dict[ast.AST, ast.stmt] = {}
    tested: set[ast.AST] = set()
    asserted: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            tested.add(node.test)
        if isinstance(node, ast.keyword) and node.arg == "strict":
            asserted.add(node.value)
        for child in ast.iter_child_nodes(node):
            statement[child] = child if isinstance(child, ast.stmt) else statement.get(node)
    for number, node in enumerate(ast.walk(tree)):
        if node in asserted:
            continue  # what never happens
        if isinstance(node, ast.Compare) and node in tested and type(node.ops[0]) not in _ORDER:
            continue  # the same as its negation
        for what, edit in _edits(node):
            line = getattr(node, "lineno", getattr(statement[node], "lineno", 0))
            yield Mutant(line, what, _lines(statement[node]), source, number, edit)


def _lines(statement: Any) -> range:
    body = getattr(statement, "body", None)
    return range(statement.lineno, body[0].lineno if body else statement.end_lineno + 1)


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
            yield f"drop: {ast.unparse(value)}", lambda n, k=k: n.values.__setitem__(k, _neutral(n.op))
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _FLIPPED:
        flipped = _FLIPPED[type(node.ops[0])]
        after = ast.unparse(ast.Compare(node.left, [flipped(), *node.ops[1:]], node.comparators))
        yield f"{ast.unparse(node)} -> {after}", lambda n: n.ops.__setitem__(0, flipped())
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        value = not node.value if type(node.value) is bool else node.value + 1
        yield f"{node.value} -> {value}", lambda n: setattr(n, "value", value)


def _code(compiled: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The code of all functions of a module, by name and line; that within one function goes with it."""
    for part in compiled.co_consts:
        if isinstance(part, CodeType):
            if part.co_flags & 2:  # CO_NEWLOCALS: a function, not the body of a class
                yield (part.co_qualname, part.co_firstlineno), part
            yield from _code(part)


def _exchanged(tree: ast.Module, file: str) -> None:
    """Give the functions of a module, wherever they are held, the code that a tree compiles to."""
    code = dict(_code(compile(tree, file, "exec")))
    functions = [
        f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == file
    ]
    assert functions, "the collector does not know any function of the module"
    for found in functions:
        found.__code__ = code[found.__code__.co_qualname, found.__code__.co_firstlineno]


def _forked(body: Callable[[], int], limit: int) -> int | None:
    """What a function returns in a process of its own; None after ``limit`` seconds of work."""
    child = os.fork()
    if not child:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        code = _BROKEN
        try:
            code = body()
        finally:
            os._exit(code)
    end = time.monotonic() + 10 * limit  # it may wait as well
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            left = os.waitstatus_to_exitcode(status)
            return None if left in (-signal.SIGXCPU, -signal.SIGKILL) else left
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _neutral(op: ast.boolop) -> ast.Constant:
    return ast.Constant(isinstance(op, ast.And))


class Module:
    """A module under mutation, and which tests (by number) execute which of its lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.file = importlib.import_module(name).__file__ or ""
        self.source = Path(self.file).read_text()
        self.executed: dict[int, set[int]] = defaultdict(set)


class Runner:
    """Runs mutants in the place of pytest's loop over the collected tests."""

    def __init__(self, names: list[str], only: str, again: str, slow: float, budget: float) -> None:
        self.only, self.slow, self.budget = only, slow, budget
        self.again = _printed(again) if again else None
        self.modules = {m.file: m for m in map(Module, names)}
        #: The tests' seconds, and those that fail as it is.
        self.seconds: list[float] = []
        self.failing: set[int] = set()
        self.passing = True

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = session.items
        gc.unfreeze()  # what the tests' configuration hides from the collector, `_exchanged` looks for
        with tempfile.NamedTemporaryFile() as file:
            ended = _forked(lambda: self._observe(items, file.name), 600)
            if ended != 0:
                how = "took too long" if ended is None else f"ended with {ended}"
                pytest.exit(f"the process that runs the tests without any mutation {how}", _BROKEN)
            lines, self.seconds, self.failing = pickle.loads(Path(file.name).read_bytes())
        for module in self.modules.values():
            module.executed.update(lines[module.file])
        slow = sum(s > self.slow for s in self.seconds)
        print(f"{len(items)} tests, {sum(self.seconds):.1f} s, {slow} slow", flush=True)
        if self.failing:
            print("failing without any mutation:", *(items[k].nodeid for k in self.failing), sep="\n    ")
        for module in self.modules.values():
            self._all(module, items)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passing &= not report.failed

    def _passes(self, item: pytest.Item) -> bool:
        self.passing = True
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        return self.passing

    def _observe(self, items: list[Any], path: str) -> int:
        """Run the tests, and write which lines of the modules each executes and how long it takes."""
        executed: dict[str, dict[int, set[int]]] = {file: defaultdict(set) for file in self.modules}
        seconds: list[float] = []
        failing: set[int] = set()

        def trace(frame: Any, event: str, arg: Any) -> Any:
            lines = executed.get(frame.f_code.co_filename)
            if lines is None:
                return None
            lines[frame.f_lineno].add(len(seconds))
            return trace

        for number, item in enumerate(items):
            clear_functions()
            sys.settrace(trace)
            start = time.process_time()
            if not self._passes(item):
                failing.add(number)
            sys.settrace(None)
            seconds.append(time.process_time() - start)
        Path(path).write_bytes(pickle.dumps((executed, seconds, failing)))
        return 0

    def _all(self, module: Module, items: list[Any]) -> None:
        known = EQUIVALENT.get(module.name, {})
        outcomes: Counter[str] = Counter()
        original = _bytes(ast.parse(module.source), module.file)
        start = time.monotonic()
        for m in mutants(module.source):
            found = re.search(self.only, f"{m.line} {m.what}")
            if not found or _bytes(m.tree(), module.file) == original:
                continue
            if self.again is not None and (m.what, m.text()) not in self.again:
                continue
            outcome = self._one(module, m, items)
            if outcome == "survives" and any(map(m.named().startswith, known)):
                outcome = "equivalent"
            outcomes[outcome] += 1
            if outcome not in ("killed", "equivalent"):
                print(f"{module.name}:{m.line}: {m.what}: {outcome}\n    {m.text()}", flush=True)
        told = ", ".join(f"{n} {what}" for what, n in outcomes.items())
        spent = time.monotonic() - start
        print(f"{module.name}: {outcomes.total()} mutants in {spent:.0f} s: {told}", flush=True)

    def _one(self, module: Module, m: Mutant, items: list[Any]) -> str:
        chosen: set[int] = set().union(*(module.executed.get(line, ()) for line in m.lines))
        chosen = {k for k in chosen - self.failing if self.seconds[k] <= self.slow}
        if not chosen:
            return "never executed"

        ordered = sorted(chosen, key=self.seconds.__getitem__)
        spent = itertools.accumulate(self.seconds[k] for k in ordered)
        run = [k for k, total in zip(ordered, spent, strict=True) if total <= self.budget]

        def body() -> int:
            os.environ["IVERSON_CACHE"] = "off"  # what a mutant compiles is nobody else's
            _exchanged(m.tree(), module.file)
            return 0 if all(self._passes(items[k]) for k in run) else 1

        outcomes = {0: "survives", None: "takes too long", _BROKEN: "could not be tried"}
        return outcomes.get(_forked(body, LIMIT), "killed")


def _printed(file: str) -> set[tuple[str, str]]:
    """The mutants that a former run printed: what is done in which line, wherever that is now."""
    found = re.findall(r"^iverson[\w.]*:\d+: (.*): [\w ]+\n    (.*)$", Path(file).read_text(), re.MULTILINE)
    return set(found)


def _bytes(tree: ast.Module, file: str) -> list[Any]:
    """What a mutant has to change: the code of some function."""
    return [
        (key, code.co_code, [c for c in code.co_consts if not isinstance(c, CodeType)], code.co_names)
        for key, code in _code(compile(tree, file, "exec"))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutate a module and print what no test notices.")
    parser.add_argument("modules", nargs="+", metavar="module", help="as imported")
    parser.add_argument("--only", default="", help="mutants whose line or edit this expression finds")
    parser.add_argument("--again", default="", metavar="FILE", help="those that this run's output names")
    parser.add_argument("--slow", type=float, default=SLOW, help="leave out tests of more seconds than this")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of tests for one mutant")
    parser.add_argument("--tests", nargs="+", help="arguments of pytest, in the place of those in TESTS")
    chosen = parser.parse_args()
    named = [max((p for p in TESTS if m.startswith(p)), key=len, default="") for m in chosen.modules]
    tests = chosen.tests or dict.fromkeys(path for prefix in named for path in TESTS.get(prefix, ["tests"]))
    options = [
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:faulthandler",
        "-m",
        "not peers",
    ]
    return int(
        pytest.main(
            [*options, *tests],
            plugins=[Runner(chosen.modules, chosen.only, chosen.again, chosen.slow, chosen.budget)],
        )
    )


if __name__ == "__main__":
    sys.exit(main())
