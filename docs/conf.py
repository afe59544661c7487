"""Sphinx: `make docs` builds the site into docs/_build, and any warning is an error."""

from __future__ import annotations

import re
from typing import Any

import iverson

project = "Iverson"
author = copyright = "The Iverson authors"
version = release = iverson.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"Iverson {iverson.__version__}"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
# Docstrings put names in single backquotes, as much for what is not public as for what is.
default_role = "literal"
autodoc_typehints = "none"
autosummary_generate = False
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False

_LITERAL = re.compile(r"(``.*?``|`.*?`)")
_PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : ")


def _readable(text: str) -> str:
    """A line of a docstring with the characters escaped that markup would take: x * y, |x|, (*shape, n)."""
    parts = _LITERAL.split(text)
    return "".join(p if k % 2 else re.sub(r"(?<!\*)\*(?!\*)|\|", r"\\\g<0>", p) for k, p in enumerate(parts))


def _as_markup(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are for reading as they are: outside of sections ``name : what it is`` becomes a list."""
    found: list[str] = []
    inside = section = False
    for k, line in enumerate(lines):
        section = section or bool(lines[k + 1 :] and re.fullmatch("-{3,}", lines[k + 1]))  # napoleon's
        starts = None if section else _PARAMETER.match(line)
        if starts:
            if not inside and found and found[-1]:
                found.append("")
            line = f"- **{starts[1]}** : {line[starts.end() :]}"
        elif inside and line.startswith("    "):
            line = line[2:]
        elif inside and line:
            found.append("")
        inside = bool(starts) or (inside and line.startswith("  "))
        found.append(line if line.lstrip().startswith((">>>", "...")) else _readable(line))
    lines[:] = found


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _as_markup, priority=400)  # before napoleon
