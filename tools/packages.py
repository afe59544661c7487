"""Table of the packages in CONTRIBUTING.md, from the code: ``python -m tools.packages`` writes it.

The order is that of the layers which `lint-imports` checks, the lines are those of the source, and the words
are the first paragraph of the docstring of each package.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "iverson"
PAGE = ROOT / "CONTRIBUTING.md"
_TABLE = re.compile(r"(<!-- packages -->\n).*?(<!-- /packages -->)", re.DOTALL)


def packages() -> list[str]:
    """The packages and modules at the root, from the highest layer down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    names = [name for layer in layers for name in layer.split(" | ")]
    return [name for name in names if not name.startswith("_")]


def path(package: str) -> Path:
    """The folder of a package, or the file of a module. Raises FileNotFoundError where there is neither."""
    for candidate in (SOURCE / package, SOURCE / f"{package}.py"):
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"no package or module {package} in {SOURCE}")


def source_lines(package: str) -> int:
    """The lines of a package's Python files."""
    root = path(package)
    files = sorted(root.rglob("*.py")) if root.is_dir() else [root]
    return sum(len(file.read_text().splitlines()) for file in files)


def words(package: str) -> str:
    """The first paragraph of a package's docstring, on one line."""
    root = path(package)
    file = root / "__init__.py" if root.is_dir() else root
    docstring = ast.get_docstring(ast.parse(file.read_text()))
    if not docstring:
        raise ValueError(f"{file} has no docstring")
    return " ".join(docstring.partition("\n\n")[0].replace("``", "`").split()).rstrip(".")


def table() -> str:
    """The table as Markdown."""
    rows = [f"| `{name}` | {source_lines(name)} | {words(name)} |" for name in packages()]
    return "\n".join(["| package | lines | docstring |", "| --- | --- | --- |", *rows, ""])


def page(text: str) -> str:
    """A page with the table of now between its markers. Raises ValueError for a page without them."""
    if not _TABLE.search(text):
        raise ValueError("the page has no <!-- packages --> and <!-- /packages -->")
    return _TABLE.sub(lambda match: match[1] + table() + match[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
