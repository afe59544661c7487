"""The functions that compute each op in each layout, eagerly or in compiled graphs: bodies per (op, layout).

    python -m tools.bodies [OP ...]

Without ops, counts by layout; with ops, the functions. A body is a kernel that is registered for a layout and
the op or its family, or a rule of compiled graphs for values in it. A rule that both call is one body. What
makes the operands strided, or selects first, is no body.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import iverson as iv
from iverson.core.op import Op
from iverson.core.table import TABLE
from iverson.graph.passes import carried
from iverson.graph.sparse import sparse_lowering
from iverson.kernels import line_rules
from iverson.kernels.kernel_registry import ANY_OP, registered
from iverson.layouts import Sparse, layouts

#: Layouts of which compiled graphs have partial values, and the layouts that are sparse.
PARTIAL = ("bracket", "box", "packed")


def eager(op: Op, kind: type) -> set[Callable[..., Any]]:
    """The kernels for values of a layout, not those that serve any op."""
    kernels = registered()
    families = [family for family in (op.name, op.family) if family and family != ANY_OP]
    return {
        kernels[family, base] for base in kind.__mro__ for family in families if (family, base) in kernels
    }


def compiled(op: Op, name: str, kind: type) -> set[Callable[..., Any]]:
    """The rules of compiled graphs for values of a layout."""
    if issubclass(kind, Sparse):
        if op.name in sparse_lowering.RULES:
            return {sparse_lowering.RULES[op.name]}
        if op.elementwise:
            return {sparse_lowering._elementwise}
        return {sparse_lowering._moved} if op.entry_map.moves else set()
    if name not in PARTIAL:
        return set()
    if op.name in carried.RULES:
        return {carried.RULES[op.name]}
    if op.elementwise:
        return {carried.elementwise}
    return {carried.moved} if op.entry_map.moves else set()


def bodies(op: Op, name: str, kind: type) -> set[Callable[..., Any]]:
    """All of them: of reductions of lines, the rule that eager code and compiled graphs share."""
    found = eager(op, kind) | compiled(op, name, kind)
    if issubclass(kind, Sparse) and op.name in line_rules.RULES:
        shared: Callable[..., Any] = line_rules.RULES[op.name].rule
        adapters = [f for f in found if getattr(f, "__name__", "") in ("of_lines", "_by_rule")]
        found = (found - set(adapters)) | ({shared} if adapters else set())
    return found


def table() -> dict[str, Counter[int]]:
    """For each layout, how many ops have how many bodies."""
    return {
        layout.name: Counter(len(bodies(op, layout.name, layout.kind)) for op in TABLE.values())
        for layout in layouts()
        if layout.name != "strided"
    }


def main(names: list[str]) -> None:
    assert iv.ones(1).size == 1  # the tables are filled
    if not names:
        for layout, counts in table().items():
            shown = ", ".join(f"{count} with {n}" for n, count in sorted(counts.items()) if n)
            print(f"{layout:10} ops by number of bodies: {shown}")
    for op in names:
        for layout in layouts():
            found = bodies(TABLE[op], layout.name, layout.kind)
            for f in sorted(found, key=lambda f: f.__qualname__):
                print(f"{op:20} {layout.name:10} {f.__module__}.{f.__qualname__}")


if __name__ == "__main__":
    main(sys.argv[1:])
