"""Sphinx: `make docs` builds the site into docs/_build, and any warning is an error."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

from docutils.nodes import Node
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes

sys.path.insert(0, str(Path(__file__).parents[1]))

import iverson
from benchmarks import page
from iverson.core.errors import INDEX
from iverson.core.python import foreign_names
from tools import figures, missing, reference

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
exclude_patterns = ["_build", "figures", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]

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
        "image_srcset": ["2x"],
        "thumbnail_size": (720, 280),
        "reset_modules": ("matplotlib", "tools.figures.style"),
        "show_signature": False,
    }
else:
    print("not here, so the site has no gallery: sphinx-gallery")
    folder = Path(__file__).with_name("gallery")
    folder.mkdir(exist_ok=True)
    scripts = (Path(__file__).parents[1] / "examples" / "gallery").glob("plot_*.py")
    for name in ("index", *(script.stem for script in scripts)):
        folder.joinpath(f"{name}.rst").write_text("Gallery\n=======\n\nIt needs sphinx-gallery.\n")
html_theme = "furo"
html_title = f"Iverson {iverson.__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]

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
#: Sections of ``name : what it is``.
_LISTS = ("Parameters", "Attributes")
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
    """Docstrings are for reading as they are: ``name : what it is`` becomes a list, also in sections."""
    found: list[str] = []
    inside = False
    for k, line in enumerate(lines):
        # napoleon would take what follows such a section, errors and examples, for more parameters.
        if line.strip() in _LISTS and lines[k + 1 :] and re.fullmatch("-{3,}", lines[k + 1]):
            found += [f".. rubric:: {line}", ""]
            continue
        if k and lines[k - 1].strip() in _LISTS and re.fullmatch("-{3,}", line):
            continue
        starts = _PARAMETER.match(line)
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


class Renames(SphinxDirective):
    """``.. renames::``: the names of other libraries that error messages know, by what each is here."""

    def run(self) -> list[Node]:
        names: dict[str, list[str]] = {}
        for name, here in foreign_names.renames().items():
            names.setdefault(here.replace("iverson.", "iv."), []).append(f"``{name}``")
        tables: dict[str, list[str]] = {"Another name": [], "Another way to write it": [], "Not here": []}
        for here, group in names.items():
            is_name = re.fullmatch(r"iv[\w.]+", here) is not None
            kind = "Not here" if here.startswith("not ") else list(tables)[not is_name]
            text = _readable(re.sub(r"\biv\.[\w.]+", r"``\g<0>``\\ ", here))
            tables[kind] += [f"   * - {', '.join(group)}", f"     - {text}"]
        lines = []
        for kind, rows in tables.items():
            lines += [f".. rubric:: {kind}", "", ".. list-table::", "   :widths: 50 50", "", *rows, ""]
        found: list[Node] = nested_parse_to_nodes(self.state, StringList(lines, source="renames"))
        return found


class Measured(SphinxDirective):
    """``.. measured:: WORKLOAD ...``: a card for each, with Iverson's speed over that of its peers."""

    required_arguments = 1
    optional_arguments = 8

    def run(self) -> list[Node]:
        table = page.measured()
        rows = {name: re.search(rf"`{name}` \| (.*?) \|", table)[1] for name in self.arguments}  # type: ignore[index]
        lines = [".. container:: figures", ""]
        for name, what in rows.items():
            speeds = [f"{1 / ratio:.2g} × {peer}" for peer, ratio in page.ratios(table)[name].items()]
            lines += ["   .. container:: card", "", f"      **{speeds[0]}**", ""]
            lines += [f"      {', '.join(speeds[1:])}", "", f"      {what}", ""]
        found: list[Node] = nested_parse_to_nodes(self.state, StringList(lines, source="measured"))
        return found


def _explained(app: Any, exception: Exception | None) -> None:
    """The page of a report on the gradient of an example's model, which the chapter on reports shows."""
    if exception is None and not missing.among("sklearn"):
        from examples.ported import autoencoder

        rng = iverson.random.default_rng(0)
        widths = (64, 100), (100, 8), (100, 8), (8, 100), (100, 64)
        model = autoencoder.VAE(*(iverson.nn.Linear(*extents, rng=rng) for extents in widths))

        def loss(model: autoencoder.VAE, images: iverson.Tensor) -> iverson.Tensor:
            reconstruction, mean, log_variance = model(images, rng)
            return autoencoder.loss_function(reconstruction, images, mean, log_variance)

        report = iverson.explain.report(iverson.grad(loss))(model, rng.random((128, 64)))
        report.save(Path(app.outdir) / "explained.html")


def _drawn(app: Any, page: str, source: list[str]) -> None:
    """Pages of Markdown get the figures of their blocks, and blocks end with their last line."""
    text = figures.with_figures(source[0], Path(app.srcdir) / "figures", page)
    source[0] = text.replace("\n\n```\n", "\n```\n")


def setup(app: Any) -> None:
    app.connect("source-read", _drawn)
    app.connect("build-finished", _explained)
    app.add_directive("names", Names)
    app.add_directive("measured", Measured)
    app.add_directive("renames", Renames)
    app.connect("autodoc-process-docstring", _as_markup, priority=400)  # before napoleon
