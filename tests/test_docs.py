"""The documents that run, run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_walk_holds_and_stays_short():
    found = subprocess.run([sys.executable, DOCS / "walk.py"], capture_output=True, text=True, check=True)
    assert found.stdout.count("holds:") == 3
    assert len((DOCS / "walk.py").read_text().splitlines()) <= 500


def test_decisions_are_numbered_without_gaps():
    notes = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(n.name[:4]) for n in notes] == list(range(1, len(notes) + 1))
    for k, note in enumerate(notes, 1):
        assert note.read_text().startswith(f"# {k}. ")
