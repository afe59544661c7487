"""The reference as Sphinx reads it: what a module says is public, as a table of links and the full entries.

Pages of `docs/reference` name modules by the directive ``names``, so that a function that is added is in
them; `tests/test_docs.py` sees that no module is forgotten.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
_DIRECTIVE = re.compile(r"^\.\. names:: (\S+)(?:\n +:under: (\S+))?(?:\n +:without: (.+))?$", re.MULTILINE)
_BY_HAND = re.compile(r"^\.\. (?:autoclass|py:function):: ([\w.]+)", re.MULTILINE)


def entries(module: str, under: str = "", without: str = "") -> list[str]:
    """The full names of what a module says is public, namespaces left out."""
    space = importlib.import_module(module)
    left_out = without.split()
    names = [n for n in space.__all__ if n not in left_out and not inspect.ismodule(getattr(space, n))]
    return [f"{under or module}.{name}" for name in names]


def documented() -> Iterator[str]:
    """Every full name that a page of the reference has."""
    for page in sorted((DOCS / "reference").glob("*.md")):
        yield from listed(page.read_text())
        for name in _BY_HAND.findall(page.read_text()):
            yield name if name.startswith("iverson.") else f"iverson.errors.{name}"


def listed(text: str) -> Iterator[str]:
    """The full names that the directives of a page put there."""
    for module, under, without in _DIRECTIVE.findall(text):
        if not module.startswith("iverson.interop"):  # imports the other library
            yield from entries(module, under, without)


def markup(names: list[str]) -> str:
    """A table of links with a line for each function and class, and then the entries of all."""
    described = [name.rpartition(".")[2] for name in names if _has_docs(value(name))]
    lines = []
    if described:
        space = names[0].rpartition(".")[0]
        lines = [f".. currentmodule:: {space}", "", ".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in described]
    for name in names:
        lines += ["", *_entry(name, value(name))]
    return "\n".join(lines)


def value(name: str) -> Any:
    """What a full name is of."""
    space, _, last = name.rpartition(".")
    return getattr(importlib.import_module(space), last)


def _has_docs(x: Any) -> bool:
    return inspect.isroutine(x) or inspect.isclass(x)


def _entry(name: str, x: Any) -> list[str]:
    if inspect.isclass(x):
        return [f".. autoclass:: {name}", "   :members:"]
    if _has_docs(x):
        return [f".. autofunction:: {name}"]
    return [f".. py:data:: {name}", f"   :value: {x!r}"]
