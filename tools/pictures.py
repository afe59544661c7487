"""Pictures of the imports inside a package, drawn from the code into the chapters of docs/design.

A chapter marks a picture with ``<!-- picture: graph.passes -->`` and ``<!-- /picture -->``. Between the two
stands a text diagram of the direct children of `iverson.graph.passes`, sub-packages and modules:

    algebra ──┐
    constants ┤
    simplify ◄┘

A child that others import has a line going down from it, with an arrow at each child that imports it. So
every arrow points downwards, and the children stand in the order in which data flows. An import that follows
from other ones is left out (transitive reduction); children without any import are listed under the picture.

    python -m tools.pictures            writes the pictures
    python -m tools.pictures --check    exit status 1 if one is not that of the code

Only the standard library is used, and the package is parsed, not imported. A package that is not there, a
marker without its end, and a cycle of imports are errors.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
CHAPTERS = ROOT / "docs" / "design"
PACKAGE = "iverson"
WIDTH = 100
_PICTURE = re.compile(r"(<!-- picture: ([\w.]+) -->\n).*?(<!-- /picture -->)", re.DOTALL)

#: For each child of a package, the children that it imports.
Imports = dict[str, set[str]]


def imports(package: str, source: Path = SOURCE) -> Imports:
    """The imports between the direct children of a package, those inside of functions included.

    Raises FileNotFoundError where there is no such package.
    """
    folder = source.joinpath(*package.split("."))
    if not (folder / "__init__.py").exists():
        raise FileNotFoundError(f"no package {package!r} in {source}")
    files = {path.stem: [path] for path in folder.glob("*.py") if path.stem != "__init__"}
    files |= {
        path.name: sorted(path.rglob("*.py")) for path in folder.iterdir() if (path / "__init__.py").exists()
    }
    return {
        child: {
            used
            for path in paths
            for name in _imported(path)
            if (used := _child(name, package)) in files and used != child
        }
        for child, paths in sorted(files.items())
    }


def _imported(path: Path) -> Iterator[str]:
    """The full names that a file imports: of ``from a import b`` it is ``a.b``, since b may be a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, path)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    """The full name of the module after ``from``, dots at its beginning resolved."""
    if not node.level:
        return node.module or ""
    folder = path.parents[node.level - 1]
    parts = folder.parts[folder.parts.index(PACKAGE) :]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _child(name: str, package: str) -> str:
    """The direct child of a package that a full name is in, or an empty string."""
    inside = name.removeprefix(f"{package}.")
    return inside.partition(".")[0] if inside != name else ""


def reduced(graph: Imports) -> Imports:
    """The transitive reduction: an import is left out if it follows from others.

    >>> reduced({"a": set(), "b": {"a"}, "c": {"a", "b"}}) == {"a": set(), "b": {"a"}, "c": {"b"}}
    True
    """
    closure: Imports = {}
    for child in ordered(graph):
        closure[child] = graph[child].union(*(closure[used] for used in graph[child]))
    return {
        child: {used for used in direct if not any(used in closure[other] for other in direct)}
        for child, direct in graph.items()
    }


def ordered(graph: Imports) -> list[str]:
    """Each child after those that it imports, as near to the last of them as that allows.

    Raises ValueError where imports form a cycle.

    >>> ordered({"c": {"a", "b"}, "b": {"a"}, "a": set()})
    ['a', 'b', 'c']
    """
    order: list[str] = []
    place: dict[str, int] = {}
    waiting = set(graph)
    while waiting:
        ready = [child for child in waiting if graph[child] <= place.keys()]
        if not ready:
            raise ValueError(f"imports form a cycle among {sorted(waiting)}")
        # Depth first: the child whose latest import was placed last; a leaf only where nothing else is ready.
        best = min(ready, key=lambda c: (-max((place[used] for used in graph[c]), default=-1), c))
        place[best] = len(order)
        order.append(best)
        waiting.remove(best)
    return order


def picture(graph: Imports) -> str:
    """The diagram: a line of text for each child, and a vertical line from each child to its importers."""
    graph = reduced(graph)
    importers = {child: {c for c in graph if child in graph[c]} for child in graph}
    linked = [child for child in ordered(graph) if graph[child] or importers[child]]
    row = {child: k for k, child in enumerate(linked)}
    columns: list[int] = []  # of each column of vertical lines, the row in which the last one ends
    column: dict[str, int] = {}
    for child in linked:
        if importers[child]:
            last = max(row[c] for c in importers[child])
            free = next((k for k, end in enumerate(columns) if end < row[child]), len(columns))
            columns[free : free + 1] = [last]
            column[child] = free
    ends = {child: max(row[c] for c in importers[child]) for child in column}
    label = max(map(len, linked), default=0)
    lines = []
    for child in linked:
        here = row[child]
        touched = {column[used]: used for used in graph[child]}
        reach = max([*touched, *([column[child]] if child in column else [])], default=-1)
        cells = []
        for k in range(len(columns)):
            through = any(column[c] == k and row[c] < here < ends[c] for c in column)
            if column.get(child) == k:
                mark = "┐"
            elif k in touched:
                mark = "┘" if ends[touched[k]] == here else "┤"
            else:
                mark = "│" if through else "─" if k < reach else " "
            cells.append(("─" if k <= reach else " ") + mark)
        head = "◄" if graph[child] else "─" if reach >= 0 else " "
        fill = ("─" if reach >= 0 else " ") * (label - len(child))
        lines.append(f"{child} {head}{fill}{''.join(cells)}".rstrip())
    alone = [child for child in graph if child not in row]
    if alone:
        text = f"without imports of the others: {', '.join(alone)}"
        lines += ["", *textwrap.wrap(text, WIDTH, subsequent_indent="    ")]
    return "\n".join(lines)


def drawn(text: str, source: Path = SOURCE) -> str:
    """The text of a chapter with its pictures drawn anew.

    Raises ValueError where a marker has no end, or stands inside another picture.
    """
    if text.count("<!-- picture:") != len(_PICTURE.findall(text)):
        raise ValueError("a picture begins and does not end: <!-- picture: PACKAGE --> ... <!-- /picture -->")

    def block(match: re.Match[str]) -> str:
        diagram = picture(imports(f"{PACKAGE}.{match[2]}", source))
        return f"{match[1]}```text\n{diagram}\n```\n{match[3]}"

    return _PICTURE.sub(block, text)


def stale(chapters: Path = CHAPTERS, source: Path = SOURCE) -> dict[Path, str]:
    """The chapters with a picture that is not that of the code, each with the text that it should have."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(chapters.glob("*.md"))}
    new = {path: drawn(text, source) for path, text in texts.items()}
    return {path: new[path] for path, text in texts.items() if text != new[path]}


def main(arguments: list[str]) -> int:
    """Write the pictures, or check them; returns the exit status."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(__doc__ or "")
        return 2
    outdated = stale()
    for path, text in outdated.items():
        sys.stdout.write(f"{path}\n")
        if not arguments:
            path.write_text(text, encoding="utf-8")
    if arguments and outdated:
        sys.stderr.write(
            "a picture in these chapters is not that of the code: run python -m tools.pictures\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
