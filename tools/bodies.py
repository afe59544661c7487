"""The functions that compute each op in each layout, eagerly or in compiled graphs: bodies per (op, layout).

    python -m tools.bodies [OP ...]

Without ops, counts by layout; with ops, the functions. A body is a kernel that is registered for a layout and
the op or its family, or a rule of compiled graphs for values in it. A rule that both call is one body. What
makes the operands strided, or selects first, is no body: packed values are selections where no kernel of
their layout fits, and graphs hold none.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import iverson as iv
from iverson.core.op import Op
from iverson.core.table import TABLE
from iverson.graph.passes import graph_rules
from iverson.graph.sparse import line_reductions, sampled_products, sparse_lowering
from iverson.kernels import entry_rules, line_rules, packed
from iverson.kernels.kernel_registry import ANY_OP, registered
from iverson.kernels.sparse import sparse_elementwise, sparse_products, sparse_reductions
from iverson.layouts import Sparse, layouts

#: Layouts of which compiled graphs have partial values, and the layouts that are sparse.
PARTIAL = ("bracket", "box")


def eager(op: Op, kind: type) -> set[Callable[..., Any]]:
    """The kernels for values of a layout, not those that serve any op."""
    kernels = registered()
    families = [family for family in (op.name, op.family) if family and family != ANY_OP]
    found = {
        kernels[family, base] for base in kind.__mro__ for family in families if (family, base) in kernels
    }
    return {
        getattr(kernel, "rule", kernel) for kernel in found
    }  # a rule of partial values is run by a kernel


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
    return set(graph_rules.rules_of(op)) - {graph_rules.lines, graph_rules.in_notation}


#: Kernels and rules of graphs that only say of what, and where, a shared rule is carried out.
SHARED = {
    sampled_products.sampled_product: entry_rules.product_at,
    sparse_lowering._matmul: entry_rules.product,
    sparse_products.matmul: entry_rules.product,
    sparse_products.sampled_sparse: entry_rules.product_at,
    line_reductions._cross_entropy: line_rules.losses,
    line_reductions._segment_max: line_rules.StoredLines.extreme,
    line_reductions._shares: line_rules.share_of_each,
    packed.elementwise: entry_rules.elementwise,
    sparse_elementwise.elementwise: entry_rules.elementwise,
    sparse_reductions.cross_entropy: line_rules.losses,
    sparse_reductions.extremum_shares_at: line_rules.share_of_each,
    sparse_reductions.segment_max: line_rules.StoredLines.extreme,
    sparse_lowering._elementwise: entry_rules.elementwise,
}


def bodies(op: Op, name: str, kind: type) -> set[Callable[..., Any]]:
    """All of them; of those that share a rule, that rule."""
    kernels = eager(op, kind)
    found = {SHARED.get(inspect.unwrap(f), f) for f in kernels | compiled(op, name, kind)}
    if issubclass(kind, Sparse) and op.name in line_rules.RULES:
        shared: Callable[..., Any] = line_rules.RULES[op.name].rule
        adapters = [f for f in found if getattr(f, "__name__", "") in ("of_lines", "_by_rule")]
        found = (found - set(adapters)) | ({shared} if adapters else set())
    if kernels:  # where entries go in a graph is found by the kernel, run on numbers of entries
        found.discard(sparse_lowering._moved)
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
