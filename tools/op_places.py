"""The files that know an op beside its record: its name as a string, and tables keyed by names of ops.

python -m tools.op_places [OP ...]
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import iverson.ops  # noqa: F401 - fills the table
from iverson.core.table import TABLE

ROOT = Path(__file__).parent.parent / "src" / "iverson"
#: Public chapters and records name ops as they must.
PUBLIC = ("array_api", "interop", "nn/", "testing", "handles", "ops/", "core/scalars")
SHOWN = (
    *("matmul", "sum", "max", "gather", "scatter_add", "index_basic", "permute_dims", "concat", "embed"),
    *("add_n", "cumulative_sum", "softmax", "sort", "where", "bracket", "tanh", "erf"),
)


class Table(NamedTuple):
    """A literal of which most keys or entries are names of ops."""

    file: str
    line: int
    kind: str
    count: int


def table_of(file: str, node: ast.Dict | ast.Tuple | ast.List | ast.Set) -> Table | None:
    entries = node.keys if isinstance(node, ast.Dict) else node.elts
    constants = [e.value for e in entries if isinstance(e, ast.Constant)]
    count = sum(isinstance(value, str) and value in TABLE for value in constants)
    return (
        Table(file, node.lineno, type(node).__name__, count)
        if count >= max(3, 0.6 * len(constants))
        else None
    )


def places(root: Path = ROOT) -> tuple[list[Table], dict[str, set[str]]]:
    """The tables keyed by names of ops, and by op the files where its name stands as a string."""
    if not root.is_dir():
        raise SystemExit(f"op_places: {root} is no folder")
    tables: list[Table] = []
    files: dict[str, set[str]] = defaultdict(set)
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in TABLE:
                files[node.value].add(file)
            if isinstance(node, (ast.Dict, ast.Tuple, ast.List, ast.Set)) and (table := table_of(file, node)):
                tables.append(table)
    return tables, files


def main(names: list[str]) -> None:
    tables, files = places()
    print(f"tables keyed by names of ops: {len(tables)} in {len({table.file for table in tables})} files")
    for table in tables:
        print(f"   {table.file}:{table.line}  {table.kind} of {table.count}")
    for name in names or SHOWN:
        engine = sorted(file for file in files[name] if not file.startswith(PUBLIC))
        print(f"{name:16} in {len(files[name])} files, {len(engine)} of them of the engine: {engine}")


if __name__ == "__main__":
    main(sys.argv[1:])
