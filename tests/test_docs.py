"""The documents that run, run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import iverson as iv
from tests.blocks import python_blocks, run_examples
from tests.surface.test_names import NAMESPACES

DOCS = Path(__file__).parent.parent / "docs"
TUTORIALS = [page for page in sorted((DOCS / "tutorials").glob("*.md")) if python_blocks(page.read_text())]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorials_run(page):
    result = run_examples(python_blocks(page.read_text()), page.name)
    assert result.attempted > 4
    assert result.failed == 0


def test_the_reference_has_every_namespace():
    """`make docs` builds it; here it is only seen to name them all."""
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    assert {n for n in NAMESPACES if f"automodule:: {n}\n" not in text} == {"iverson"}


def test_the_index_of_errors_links_every_one():
    """A name in the summary is a link to what the page says of the class."""
    text = (DOCS / "reference" / "errors.md").read_text()
    summary = text.partition(":nosignatures:")[2].partition(".. automodule")[0].split()
    assert sorted(summary) == sorted(iv.errors.__all__)


def test_the_walk_holds_and_stays_short():
    found = subprocess.run([sys.executable, DOCS / "walk.py"], capture_output=True, text=True, check=True)
    assert found.stdout.count("holds:") == 3
    assert len((DOCS / "walk.py").read_text().splitlines()) <= 500


def test_decisions_are_numbered_without_gaps():
    notes = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(n.name[:4]) for n in notes] == list(range(1, len(notes) + 1))
    for k, note in enumerate(notes, 1):
        assert note.read_text().startswith(f"# {k}. ")
