"""An elementwise function is its record, of two lines: a copy of the package with one more has it all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = """
SPECIAL += (
    scalar("log_cosh", lambda x: np.logaddexp(x, -x) - math.log(2), lambda F, _y, x: F.tanh(x), ZERO,
        "log(cosh(x)), without overflow.", "[0., 1000.]", "[  0.        , 999.30685282]", kinds="f"),
)
"""


def test_everything_follows_from_a_record(tmp_path):
    for part in ("src/iverson", "tools", "tests/conformance", "tests/surface"):
        shutil.copytree(ROOT / part, tmp_path / part)
    shutil.copy2(ROOT / "tests/__init__.py", tmp_path / "tests")
    with (tmp_path / "src/iverson/core/scalars/special_functions.py").open("a") as family:
        family.write(RECORD)
    found = subprocess.run(
        (sys.executable, "-m", "tests.surface.new_function"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
