"""A bridge to a library that is not installed says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: By bridge, the library whose import fails.
LIBRARIES = {
    "torch": "torch",
    "jax": "jax",
    "dask": "dask",
    "mpi": "mpi4py",
    "einops": "einops",
    "binsparse": "binsparse",
    "sklearn": "sklearn",
}


@pytest.mark.parametrize("bridge", LIBRARIES)
def test_an_error_says_what_to_install(bridge: str) -> None:
    code = (
        f"import sys; sys.modules[{LIBRARIES[bridge]!r}] = None\n"
        f"try: import iverson.interop.{bridge}\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.startswith(f"ImportError iverson.interop.{bridge} needs ")
    assert "pip install" in found
