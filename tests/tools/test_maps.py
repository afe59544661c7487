"""A package's map names its modules and sub-packages: all that are there, each once, and no other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import iverson

_ROOT = Path(iverson.__file__).parent
_ENTRY = re.compile(r"- `(\w+)`: \S")


def _packages() -> list[str]:
    inits = sorted(_ROOT.rglob("__init__.py"))
    return [".".join(p.parent.relative_to(_ROOT).parts) for p in inits if p.parent != _ROOT]


def _docstring(package: str) -> list[str]:
    """The lines of a package's docstring, which is at the head of its file."""
    text = _ROOT.joinpath(*package.split("."), "__init__.py").read_text()
    return text.split('"""')[1].splitlines() if text.startswith('"""') else []


def _map(package: str) -> list[str]:
    """The lines that begin as those of a map do."""
    return [line for line in _docstring(package) if line.startswith("- `")]


def _members(package: str) -> set[str]:
    """The public modules and sub-packages of a package."""
    inside = _ROOT.joinpath(*package.split(".")).iterdir()
    names = {p.stem for p in inside if p.suffix == ".py" or (p / "__init__.py").exists()}
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("package", [p for p in _packages() if _map(p)])
def test_a_map_names_what_is_in_its_package_once(package):
    lines = _map(package)
    named = [m[1] for m in map(_ENTRY.match, lines) if m]
    assert len(named) == len(lines), f"not '- `name`: phrase.': {lines}"
    assert all(line.endswith(".") for line in lines)
    assert Counter(named) == Counter(_members(package))


def test_packages_have_maps():
    """All that have modules of their own (a layout is a folder of one file)."""
    required = [p for p in _packages() if _members(p)]
    assert len(required) > 50
    assert [p for p in required if not _map(p)] == []


def test_folders_are_of_few_modules_and_file_names_stand_in_one_folder():
    """Shared are public names at the root, files of an IR, and names of layouts and of SciPy's modules."""
    shared = {"nodes", "print", "parse", "verify", "interpret"}
    shared |= {p.name for p in (_ROOT / "layouts").iterdir()} | {"strided", "tensor"}
    folders = Counter()
    names: dict[str, list[str]] = {}
    for path in _ROOT.rglob("*.py"):
        if path.stem.startswith("_") or path.parent == _ROOT:
            continue
        folder = path.parent.relative_to(_ROOT).as_posix()
        folders[folder] += 1
        if path.stem not in shared and not folder.startswith("interop/scipy"):
            names.setdefault(path.stem, []).append(folder)
    assert [(folder, n) for folder, n in folders.items() if n > 16] == []
    assert {name: where for name, where in names.items() if len(where) > 1} == {}
