"""The README is true: its blocks run, its tables name what is there. CONTRIBUTING counts what is there."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import iverson
from benchmarks import page, readme
from benchmarks.workloads import WORKLOADS
from tests.blocks import blocks, python_blocks, run_examples
from tools import packages

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
COMING_FROM = (ROOT / "docs" / "coming-from.md").read_text()


def test_examples_run():
    result = run_examples([b for b in python_blocks(README) if "torch" not in b], "README.md")
    assert result.attempted > 25
    assert result.failed == 0


@pytest.mark.peers
def test_examples_run_with_pytorch():
    torch = pytest.importorskip("torch")
    assert run_examples(python_blocks(README), "README.md").failed == 0
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    torch.where(x > 0, torch.sqrt(x), 0.0).sum().backward()
    assert torch.isnan(x.grad).tolist() == [True, False]  # as the first example says


def test_every_block_is_run_or_a_list_of_commands():
    """And make has the targets that the commands name."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = [block for language, block in blocks(README) if language != "python"]
    assert commands
    for line in "".join(commands).splitlines():
        assert re.match(r"pip install \.|make \w+|iverson \w+", line), line
    for text in (README, CONTRIBUTING.read_text()):
        assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= set(targets)


def table_names(heading: str) -> list[tuple[str, str]]:
    """The first two cells of each row of a table in "Coming from"."""
    section = COMING_FROM.split(f"## {heading}\n")[1].split("\n#")[0]
    return re.findall(r"^\| `([\w.]+)` \| `(iv(?:erson)?\.[\w.]+)` \|", section, re.MULTILINE)


def resolved(path: str) -> Any:
    """What a dotted name is of, modules imported on the way."""
    first, *rest = path.split(".")
    found: Any = importlib.import_module(first)
    for name in rest:
        if isinstance(found, ModuleType) and not hasattr(found, name):
            importlib.import_module(f"{found.__name__}.{name}")
        found = getattr(found, name)
    return found


PEERS = [pytest.param(name, marks=pytest.mark.peers) for name in ("PyTorch", "JAX")]


@pytest.mark.parametrize("peer", ["PyTorch", "JAX", "SciPy"])
def test_the_tables_of_names_name_what_is_there(peer: str):
    names = table_names(peer)
    assert len(names) == COMING_FROM.split(f"## {peer}\n")[1].split("\n#")[0].count("\n| `")
    for _, ours in names:
        short, _, name = ours.partition(".")
        assert (attrgetter(name)(iverson) if short == "iv" else resolved(ours)) is not None


@pytest.mark.parametrize("peer", [*PEERS, "SciPy"])
def test_the_tables_of_names_name_what_the_peer_has(peer: str):
    for theirs, _ in table_names(peer):
        assert resolved(theirs) is not None


def test_the_measured_workloads_are_benchmarks():
    shown = re.findall(r"^\| `(\w+)` \|", README.split("<!-- measured -->")[1].split("<!--")[0], re.MULTILINE)
    assert shown == list(readme.SHOWN)
    assert set(shown) <= set(WORKLOADS)


def test_the_page_of_benchmarks_shows_the_same_measurements():
    """`python -m benchmarks.page` writes it, with its plot."""
    found = page.ratios(page.measured())
    assert set(found) == set(readme.SHOWN)
    assert page.PAGE.read_text() == page.TEXT.format(measured=page.measured())
    drawn = page.PLOT.read_text()
    assert all(f"<!-- {name} -->" in drawn for name in found)


def rows(text: str) -> dict[str, tuple[int, str]]:
    """The rows of the table of packages: lines and words of each."""
    found = re.findall(r"^\| `(\w+)` \| (\d+) \| (.+) \|$", text, re.MULTILINE)
    return {name: (int(lines), words) for name, lines, words in found}


def test_the_table_of_packages_is_that_of_the_code():
    """`python -m tools.packages` writes it. Lines are for proportion: they are right within a tenth."""
    text = CONTRIBUTING.read_text()
    written, now = rows(text), rows(packages.page(text))
    assert list(written) == list(now) == packages.packages()
    for name, (lines, words) in now.items():
        assert written[name][1] == words
        assert abs(lines - written[name][0]) <= 0.1 * lines + 20, name


def test_a_table_of_packages_that_is_not_there_is_an_error():
    with pytest.raises(FileNotFoundError, match="no_such"):
        packages.path("no_such")
    with pytest.raises(ValueError, match="packages"):
        packages.page("# Contributing")


def test_importing_is_quick_and_lazy():
    """Heavy libraries are imported where they are used (their import alone would break the budget)."""
    heavy = ("scipy", "llvmlite", "islpy", "torch", "jax")
    of_own = [m.name for m in pkgutil.iter_modules(iverson.__path__) if m.name not in ("__main__", "interop")]
    code = (
        f"import sys, importlib, iverson; [importlib.import_module(f'iverson.{{m}}') for m in {of_own}]; "
        f"iverson.jit(lambda x: x * x); print([m for m in {heavy} if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
