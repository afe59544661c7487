"""Sphinx: `make docs` builds the site into docs/_build, and any warning is an error."""

from __future__ import annotations

import importlib.util
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from docutils.nodes import Node
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes

sys.path.insert(0, str(Path(__file__).parents[1]))

import iverson
from iverson.core.errors import INDEX
from tools import missing, reference

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
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]

#: Libraries of bridges that are not here, or do not load (mpi4py without MPI).
MISSING = missing.among("torch", "jax", "dask", "distributed", "mpi4py.MPI", "einops", "binsparse")
if MISSING:
    print(f"not here, so the site has only the names of what uses it: {', '.join(MISSING)}")
    missing.stand_in(MISSING)

if importlib.util.find_spec("sphinx_gallery"):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "../examples/gallery",
        "gallery_dirs": "gallery",
        "abort_on_example_error": True,
        "show_memory": False,
        "remove_config_comments": True,
    }
else:
    print("not here, so the site has no gallery: sphinx-gallery")
    pages = Path(__file__).with_name("gallery")
    pages.mkdir(exist_ok=True)
    scripts = (Path(__file__).parents[1] / "examples" / "gallery").glob("plot_*.py")
    for page in ("index", *(script.stem for script in scripts)):
        pages.joinpath(f"{page}.rst").write_text("Gallery\n=======\n\nIt needs sphinx-gallery.\n")
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
# What is raised is a sentence or two, not a list of types.
napoleon_custom_sections = [(name, "notes_style") for name in ("Raises", "Returns", "Yields", "Warns")]

_LITERAL = re.compile(r"(``.*?``|`.*?`)")
_ERROR = re.compile(rf"\b({'|'.join(iverson.errors.__all__)})\b")
_PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : ")


def _readable(text: str) -> str:
    """A line of a docstring with the characters escaped that markup would take: x * y, |x|, (*shape, n)."""
    parts = _LITERAL.split(text)
    return "".join(
        p if k % 2 else _linked(re.sub(r"(?<!\*)\*(?!\*)|\|", r"\\\g<0>", p)) for k, p in enumerate(parts)
    )


def _linked(text: str) -> str:
    """Names of errors link to what the index says of them; on that page they say no more of where it is."""
    text = re.sub(rf"What raises it and what to do: {INDEX}#\w+", "", text)
    return _ERROR.sub(r":exc:`\1 <iverson.errors.\1>`", text)


def _as_markup(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are for reading as they are: outside of sections ``name : what it is`` becomes a list."""
    found: list[str] = []
    inside = section = False
    for k, line in enumerate(lines):
        if lines[k + 1 :] and re.fullmatch("-{3,}", lines[k + 1]):
            section = line.strip() in ("Parameters", "Attributes")  # napoleon's
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


class Names(SphinxDirective):
    """``.. names:: MODULE``: what the module says is public, with ``:under:`` as the public names of it."""

    required_arguments = 1
    option_spec: ClassVar = {"under": str, "without": str}

    def run(self) -> list[Node]:
        names = reference.entries(self.arguments[0], **self.options)
        lines = StringList(reference.markup(names).splitlines(), source=f"names of {self.arguments[0]}")
        found: list[Node] = nested_parse_to_nodes(self.state, lines)
        return found


def _model(parameters: list[tuple[Any, Any]], x: Any) -> Any:
    for weight, bias in parameters[:-1]:
        x = iverson.relu(x @ weight + bias)
    weight, bias = parameters[-1]
    return iverson.logsumexp(x @ weight + bias, axis=1).sum()


def _explained(app: Any, exception: Exception | None) -> None:
    """The page of a report on a network's gradient, which the chapter on reports shows."""
    if exception is None:
        widths = (64, 32, 32, 10)
        rng = iverson.random.default_rng(0)
        layers = [(rng.standard_normal((m, n)), iverson.zeros(n)) for m, n in pairwise(widths)]
        report = iverson.explain.report(iverson.grad(_model))(layers, rng.standard_normal((16, 64)))
        report.save(Path(app.outdir) / "explained.html")


def setup(app: Any) -> None:
    app.connect("build-finished", _explained)
    app.add_directive("names", Names)
    app.connect("autodoc-process-docstring", _as_markup, priority=400)  # before napoleon
