"""The README is true: its blocks run, its tables name what is there. CONTRIBUTING counts what is there."""

from __future__ import annotations

import importlib
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


def source_lines(package: Path) -> int:
    files = package.rglob("*.py") if package.is_dir() else [package]
    return sum(len(f.read_text().splitlines()) for f in files)


def test_the_page_of_benchmarks_shows_the_same_measurements():
    """`python -m benchmarks.page` writes it, with its plot."""
    found = page.ratios(page.measured())
    assert set(found) == set(readme.SHOWN)
    assert page.PAGE.read_text() == page.TEXT.format(measured=page.measured())
    drawn = page.PLOT.read_text()
    assert all(f"<!-- {name} -->" in drawn for name in found)


def test_the_table_of_packages_is_about_right():
    """Within a tenth: the table is for proportion. ``python tests/test_readme.py`` writes it anew."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", CONTRIBUTING.read_text(), re.MULTILINE))
    assert set(rows) == {r for r in PACKAGES if path(r) is not None}
    for package, lines in rows.items():
        found = path(package)
        assert found is not None
        assert abs(source_lines(found) - int(lines)) <= 0.1 * int(lines) + 20, package


PACKAGES = {
    "cli": "the command line",
    "interop": "steps in models of torch and JAX",
    "nn": "layers and losses as functions",
    "testing": "gradcheck",
    "optim": "optimizers",
    "explain": "reports of work done and skipped",
    "transforms": "derivatives and compilation of functions",
    "masked": "MaskedTensor: tensors with entries that do not exist",
    "array_api": "the public functions",
    "handles": "the Tensor handle",
    "graph": "traced functions: IR, differentiation, passes, compiled calls",
    "autograd": "the engine: recording, needs, both passes, Function",
    "ops": "the table of ops",
    "kernels": "bodies by op family and layout",
    "te": "tensor expressions",
    "codegen": "loop nests and machine code",
    "expr": "scalar expressions, which te and codegen share",
    "layouts": "zero, strided, box, COO, CSR, CSC, BSR, BSC",
    "core": "dtypes, shapes, errors, the Op record, scalars, dispatch",
}


def path(package: str) -> Path | None:
    base = ROOT / "src" / "iverson"
    return next((p for p in (base / package, base / f"{package}.py") if p.exists()), None)


def table() -> str:
    rows = ["| package | lines | what is there |", "| --- | --- | --- |"]
    for package, what in PACKAGES.items():
        found = path(package)
        if found is not None:
            rows.append(f"| `{package}` | {source_lines(found)} | {what} |")
    return "\n".join(rows)


def test_importing_is_quick_and_lazy():
    """Heavy libraries are imported where they are used (their import alone would break the budget)."""
    heavy = ("scipy", "llvmlite", "islpy", "torch", "jax")
    code = f"import sys, iverson; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


if __name__ == "__main__":
    CONTRIBUTING.write_text(
        re.sub(
            r"<!-- packages -->.*<!-- /packages -->",
            f"<!-- packages -->\n{table()}\n<!-- /packages -->",
            CONTRIBUTING.read_text(),
            flags=re.DOTALL,
        )
    )
