"""User code under type checkers: nothing is reported in right.py, and every line marked in wrong.py is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surface import right

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def reports(*command: str) -> str:
    """What a checker prints of the two files."""
    files = [str(HERE / name) for name in ("right.py", "wrong.py")]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    found = subprocess.run(
        (sys.executable, "-m", *command, *files),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode in (0, 1), found.stdout + found.stderr
    return found.stdout


def mypy() -> set[tuple[str, int]]:
    """The lines that mypy reports, strict as in pyproject.toml; its cache is that of `make lint`."""
    found = map(json.loads, reports("mypy", "--output", "json").splitlines())
    return {(Path(r["file"]).name, r["line"]) for r in found if r["severity"] == "error"}


def pyright() -> set[tuple[str, int]]:
    """The lines that pyright reports in its standard mode."""
    found = json.loads(reports("pyright", "--outputjson", "--pythonpath", sys.executable))
    errors = [r for r in found["generalDiagnostics"] if r["severity"] == "error"]
    return {(Path(r["file"]).name, r["range"]["start"]["line"] + 1) for r in errors}


@pytest.mark.parametrize("check", [mypy, pyright])
def test_checkers_report_what_is_wrong_and_nothing_else(check):
    text = (HERE / "wrong.py").read_text().splitlines()
    marked = {("wrong.py", k) for k, line in enumerate(text, 1) if line.endswith("# wrong")}
    assert len(marked) > 60
    assert check() == marked


def test_right_code_runs():
    right.main()
