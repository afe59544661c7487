"""What a module of calls of another library, run by itself with SciPy's array API support, says of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def outcomes(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON that the module prints, run with some arguments."""
    run = subprocess.run(
        (sys.executable, "-m", module, *arguments),
        cwd=ROOT,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found
