"""What is handed out is whole: the wheel works without the repository, the source archive is the repository.

Nothing is fetched: what builds is installed (`dev`), and what the wheel depends on is that of the environment
that runs the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from sysconfig import get_path

import pytest

import iverson
from tests.blocks import python_blocks

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
MINIMUM = ROOT / "requirements" / "minimum.txt"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source archive."""
    pytest.importorskip("hatchling", reason="hatchling builds: install the extra dev")
    folder = tmp_path_factory.mktemp("built")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True)
    return folder


def package_files(root: Path) -> set[str]:
    found = (root / "src" / "iverson").rglob("*")
    return {str(f.relative_to(root / "src")) for f in found if f.suffix in (".py", ".pyi", ".typed")}


def test_the_wheel_has_the_package_its_stubs_and_its_command(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {n for n in wheel.namelist() if n.startswith("iverson/")}
        info = f"iverson-{iverson.__version__}.dist-info"
        assert "iverson = iverson.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
        assert README in wheel.read(f"{info}/METADATA").decode()
    assert names == package_files(ROOT)
    assert "iverson/py.typed" in names
    assert any(n.endswith(".pyi") for n in names)


def test_the_source_archive_has_all_that_is_tracked(built):
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("what is tracked is known in a checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {n.split("/", 1)[1] for n in archive.getnames()}
    assert tracked <= names
    assert not {n for n in names - tracked if "__pycache__" in n or n.startswith((".venv", "examples/out"))}


def test_the_readme_runs_in_an_environment_with_the_wheel_alone(built, tmp_path):
    fresh = tmp_path / "fresh"
    venv.create(fresh)
    python = fresh / ("Scripts" if os.name == "nt" else "bin") / "python"
    place = get_path("purelib", vars={"base": str(fresh), "platbase": str(fresh)})
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(place)
    Path(place, "dependencies.pth").write_text("\n".join(p for p in sys.path if p.endswith("-packages")))
    blocks = [b for b in python_blocks(README) if "torch" not in b]
    where = ">>> import iverson\n>>> iverson.__file__.startswith(" + repr(str(fresh)) + ")\nTrue\n\n"
    (tmp_path / "blocks.txt").write_text(where + "\n".join(blocks))
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    found = subprocess.run(
        [python, "-m", "doctest", "blocks.txt"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_the_version_is_said_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert f"## {iverson.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_lower_bounds_are_what_is_tested():
    """Every requirement has one, and `make test-minimum` installs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = dict(r.split(">=") for r in project["dependencies"])
    pins = [line for line in MINIMUM.read_text().splitlines() if not line.startswith("#")]
    assert {name: version.removesuffix(".*") for name, version in (p.split("==") for p in pins)} == declared


def test_the_pythons_that_are_claimed_are_those_of_the_matrix():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    claimed = {c.removeprefix(prefix) for c in project["classifiers"] if c.startswith(prefix)}
    run = re.search(r"for version in (.*);", (ROOT / ".ci" / "matrix").read_text())
    assert run is not None
    assert claimed <= {v.removeprefix("3.") for v in run[1].split()}
    assert project["requires-python"] == f">=3.{min(map(int, claimed))}"
