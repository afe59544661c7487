"""The documents that run, run."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from inspect import ismodule
from pathlib import Path
from types import BuiltinFunctionType

import pytest

import iverson as iv
from tests.blocks import python_blocks, run_examples
from tests.surface.test_names import NAMESPACES
from tools import reference

DOCS = Path(__file__).parent.parent / "docs"
#: `docs/scaling.md` runs in tests/interop.
PAGES = [
    page for page in sorted(DOCS.rglob("*.md")) if python_blocks(page.read_text()) and page.stem != "scaling"
]
#: Blocks that import one of these run where it is there; all else runs without them.
PEERS = ("binsparse", "einops", "h5py", "jax", "numba", "torch")


def needs_peer(block: str) -> bool:
    return re.search(rf"import ({'|'.join(PEERS)})\b", block) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_run(page):
    examples = python_blocks(page.read_text())
    for name in {"networkx", "matplotlib", "sklearn"}.intersection(
        re.findall(r"(?:import|from) (\w+)", page.read_text())
    ):
        pytest.importorskip(name)
    result = run_examples([b for b in examples if not needs_peer(b)], page.name)
    assert result.attempted > 4
    assert result.failed == 0


@pytest.mark.peers
@pytest.mark.parametrize("page", [p for p in PAGES if any(map(needs_peer, python_blocks(p.read_text())))])
def test_pages_run_with_the_libraries_that_they_name(page):
    for name in PEERS:
        pytest.importorskip(name)
    assert run_examples(python_blocks(page.read_text()), page.name).failed == 0


def test_all_blocks_of_python_are_read():
    """None is left out because of how its fence is written."""
    for page in PAGES:
        text = page.read_text()
        assert len(python_blocks(text)) == text.count("```python"), page
        assert sum(b.count(">>> ") for b in python_blocks(text)) == text.count("\n>>> "), page


def test_the_reference_has_every_public_name():
    """Under one of its names; `make docs` builds it, here it is only seen to name them all."""
    names = Counter(reference.documented())
    spaces = [importlib.import_module(name) for name in (*NAMESPACES, "iverson.nn.init")]
    public = {f"{s.__name__}.{n}" for s in spaces for n in s.__all__ if not ismodule(getattr(s, n))}
    held = [reference.value(name) for name in names]  # some are made when asked for
    documented = set(map(id, held))
    missing = public - names.keys() - {"iverson.te.F"}
    assert [n for n in missing if id(reference.value(n)) not in documented] == []
    assert [n for n, count in names.items() if count > 1] == []
    # What is made in C has a docstring that is no numpydoc: it is described by hand.
    listed = (n for page in PAGES_OF_REFERENCE for n in reference.listed(page.read_text()))
    assert [n for n in listed if isinstance(reference.value(n), BuiltinFunctionType)] == []


PAGES_OF_REFERENCE = sorted((DOCS / "reference").glob("*.md"))


def summary_of_errors() -> list[str]:
    text = (DOCS / "reference" / "errors.md").read_text()
    return text.partition(":nosignatures:")[2].partition("```")[0].split()


@pytest.mark.parametrize("name", iv.errors.__all__)
def test_the_index_of_errors_has_a_section_for_each(name):
    """The class says where it is; a name in the summary is a link to its entry."""
    text = (DOCS / "reference" / "errors.md").read_text()
    assert f"\n## {name}\n" in text
    assert f".. autoclass:: {name}\n" in text
    assert name in summary_of_errors()
    assert f"docs/reference/errors.md#{name.lower()}" in getattr(iv.errors, name).__doc__


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


#: Those that are written, not those that a build has copied.
WRITTEN = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    """To pages and headings that are there, and nowhere else but over https."""
    for target in LINK.findall(re.sub(r"^```.*?^```$|`[^`]*`", "", page.read_text(), flags=re.M | re.S)):
        if not target.startswith("https://"):
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            assert source_of(there).exists(), target
            assert not anchor or anchor in anchors(there), target


def source_of(page: Path) -> Path:
    """What a page is made of: one of the gallery of a script, and its contents of the header, by a build."""
    name = "GALLERY_HEADER.rst" if page.name == "index.rst" else f"{page.stem}.py"
    return DOCS.parent / "examples" / "gallery" / name if page.parent == DOCS / "gallery" else page


def anchors(page: Path) -> set[str]:
    """As MyST and hosts of repositories make them of headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


@pytest.mark.parametrize(
    ("folder", "contents"),
    [
        ("tutorials", "index.md"),
        ("reference", "reference/index.md"),
        ("design", "design.md"),
        (".", "index.md"),
    ],
)
def test_every_page_is_in_the_contents_once(folder, contents):
    index = (DOCS / contents).read_text()
    for page in (DOCS / folder).glob("*.md"):
        lines = re.findall(rf"^(?:{folder}/)?{page.stem}$", index, flags=re.MULTILINE)
        assert page.stem == "index" or len(lines) == 1, page


def test_the_walk_holds_and_stays_short():
    found = subprocess.run([sys.executable, DOCS / "walk.py"], capture_output=True, text=True, check=True)
    assert found.stdout.count("holds:") == 3
    assert len((DOCS / "walk.py").read_text().splitlines()) <= 500


def test_the_picture_of_the_packages_is_the_contract():
    """Of `lint-imports`: the same packages, from the top down."""
    text = (DOCS / "design.md").read_text().partition("## Packages")[2]
    drawn = [re.split(r" {2,}", line)[0] for line in text.split("```")[1].strip().splitlines()]
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert ["__main__", *drawn] == contracts["contracts"][0]["layers"]


PROSE = [
    DOCS / "design.md",
    *sorted((DOCS / "design").glob("*.md")),
    DOCS / "walk.py",
    DOCS / "scaling.md",
    *(DOCS.parent / n for n in ("README.md", "CONTRIBUTING.md")),
]
PACKAGES = {path.stem for path in Path(iv.__file__).parent.iterdir() if path.stem[0] != "_"}


@pytest.mark.parametrize(
    "page", [*PROSE, *sorted((DOCS / "decisions").glob("*.md"))], ids=lambda page: page.stem
)
def test_what_a_document_names_is_there(page):
    """Modules and what is in them, and files."""
    text = page.read_text()
    for name in set(re.findall(r"`((?:[a-z_]+)(?:\.\w+)+)`", text)) - {"te.blur"}:  # an op of a user
        if name.partition(".")[0] in PACKAGES and not name.endswith(".py"):
            assert is_there(f"iverson.{name}"), name
    for path in set(re.findall(r"\b((?:src|tests|docs|benchmarks|examples|tools)/[\w/.-]*\w)", text)):
        assert list(DOCS.parent.glob(path + "*")) or path in OUTPUTS, path


#: What commands make.
OUTPUTS = {"docs/_build", "examples/out"}


def is_there(name):
    """Whether an attribute, or a field of a class, has this full name."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ImportError as error:
            if not isinstance(error, ModuleNotFoundError):
                return True  # a bridge that is there, to a library that is not
            continue
        for part in parts[k:]:
            if not hasattr(found, part):
                return part in getattr(found, "__dataclass_fields__", ())
            found = getattr(found, part)
        return True
    return False


def test_decisions_are_numbered_without_gaps():
    notes = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(n.name[:4]) for n in notes] == list(range(1, len(notes) + 1))
    for k, note in enumerate(notes, 1):
        assert note.read_text().startswith(f"# {k}. ")


def test_the_glossary_names_files_that_exist_and_each_term_once():
    text = (DOCS / "glossary.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `([^`]+)` \|$", text, re.MULTILINE)
    terms = [term for term, _, _ in rows]
    assert len(terms) > 80
    assert sorted(set(terms)) == sorted(terms)
    source = DOCS.parent / "src" / "iverson"
    assert [(term, file) for term, _, file in rows if not (source / file).is_file()] == []


NOTES = sorted((DOCS / "decisions").glob("*.md"))
NOTE_LINK = re.compile(r"\[(\d+)\]\(([^)]+)\)")


def title_and_status(note: Path) -> tuple[str, str]:
    """Of a note: its title with the number, and the paragraph below the title."""
    title, status = note.read_text().split("\n\n")[:2]
    return title.removeprefix("# "), " ".join(status.split())


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_a_decision_has_a_status(note):
    """It holds, or a later note replaces it; a note that replaces or extends it is a link to that."""
    _, status = title_and_status(note)
    form = r"\*\*Status:\*\* (holds|holds, extended by \[.+|replaced by \[\d+\]\([^)]+\))\.( |$)"
    assert re.match(form, status), status
    for number, target in NOTE_LINK.findall(status):
        assert (note.parent / target).exists(), target
        assert target.startswith(f"{int(number):04d}-"), target
        assert target != note.name


def test_every_decision_is_in_the_index_once():
    """Under a topic, with its title, and with its status if a later note replaces it."""
    index = (DOCS / "decisions.md").read_text()
    entries = re.findall(r"^- \[(.*)\]\(decisions/(.*\.md)\)(.*)$", index, flags=re.MULTILINE)
    assert sorted(name for _, name, _ in entries) == [note.name for note in NOTES]
    assert index.index("\n## ") < index.index("\n- ")
    for listed, name, rest in entries:
        title, status = title_and_status(DOCS / "decisions" / name)
        assert listed == title
        replaced = re.match(r"\*\*Status:\*\* replaced by \[(\d+)\]", status)
        assert rest == (f", replaced by {replaced[1]}" if replaced else ""), name
