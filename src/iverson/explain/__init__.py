"""Reports of the work that a function does and avoids.

Counting itself is in `iverson.core.counting.work` and `iverson.core.counting.cost`.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules below, each
imports only those listed before it.

- `counts`: counts of the work in a ``with`` block, and their table.
- `model`: the data of a report.
- `rule_costs`: the cost of a derivative rule, from a trace of it.
- `program`: the steps of the compiled program of a graph.
- `instrumented_run`: tracing, running and counting a function, which fills the model.
- `text`: the report as text.
- `layered`: layered drawings of graphs (Sugiyama).
- `picture`: the graph of a report as SVG.
- `page`: the report as an HTML page.
- `report`: the public `report`.
- `sparsity`: the entries of a Jacobian that may be nonzero, and the passes that give them.
- `compiled_graphs`: the graphs that were compiled, each with its reason.
"""

from __future__ import annotations

from iverson.core.counting.work import Work
from iverson.explain.compiled_graphs import Compilation, compilations
from iverson.explain.counts import count, table
from iverson.explain.report import Report, report
from iverson.explain.sparsity import Sparsity, sparsity

__all__ = [
    "Compilation",
    "Report",
    "Sparsity",
    "Work",
    "compilations",
    "count",
    "report",
    "sparsity",
    "table",
]


def __dir__() -> list[str]:
    return sorted(__all__)
