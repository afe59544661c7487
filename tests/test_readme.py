"""The README is true: its examples run, its table of packages counts what is there."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_examples_run():
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0


def source_lines(package: Path) -> int:
    files = package.rglob("*.py") if package.is_dir() else [package]
    return sum(len(f.read_text().splitlines()) for f in files)


def test_the_table_of_rooms_is_about_right():
    """Within a tenth: the table is for proportion. ``python tests/test_readme.py`` writes it anew."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert set(rows) == {r for r in PACKAGES if path(r) is not None}
    for package, lines in rows.items():
        found = path(package)
        assert found is not None
        assert abs(source_lines(found) - int(lines)) <= 0.1 * int(lines) + 20, package


PACKAGES = {
    "testing": "gradcheck",
    "optim": "optimizers",
    "explain": "reports of work done and skipped",
    "transforms": "derivatives and compilation of functions",
    "masked": "MaskedTensor: tensors with entries that do not exist",
    "array_api": "the public functions",
    "tensor": "the Tensor handle",
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
    readme = ROOT / "README.md"
    text = readme.read_text()
    readme.write_text(
        re.sub(
            r"<!-- packages -->.*<!-- /packages -->",
            f"<!-- packages -->\n{table()}\n<!-- /packages -->",
            text,
            flags=re.DOTALL,
        )
    )
