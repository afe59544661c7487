"""Starts Python processes in which the libraries choose their own kernels and threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STEERING = (
    *("OPENBLAS_", "GOTO_", "BLIS_", "MKL_", "DNNL_", "ONEDNN_"),
    *("OMP_", "GOMP_", "KMP_", "ATEN_", "NPY_", "XLA_"),
)
"""Prefixes of the variables by which a surrounding environment picks kernels and threads."""


class ProcessError(RuntimeError):
    """A process ended with an error; the message is the end of what it wrote."""


def clean_environment() -> dict[str, str]:
    """The environment without the variables that steer a library."""
    return {key: value for key, value in os.environ.items() if not key.startswith(STEERING)}


def run_module(module: str, args: Sequence[str] = (), threads: int | None = None) -> list[str]:
    """Runs `python -m module args` and returns the lines it printed.

    Args:
        threads: how many threads each library may use; None leaves it to the library.

    Raises:
        ProcessError: it ended with an error.
    """
    env = clean_environment()
    if threads is not None:
        names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
        env |= dict.fromkeys(names, str(threads))
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        cwd=Path(__file__).parent.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ProcessError(done.stderr.strip()[-2000:] or f"exit status {done.returncode}")
    return done.stdout.splitlines()


def last_json(lines: Sequence[str]) -> Any:
    """The last of the lines that is JSON: native code may log to stdout as well."""
    return json.loads(next(line for line in reversed(lines) if line.startswith(("{", "["))))
