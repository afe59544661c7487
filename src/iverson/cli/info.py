"""info: versions, the processor that code is compiled for, threads, and where kernels are kept."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version

import iverson
from iverson.codegen.runtime import kernel_cache
from iverson.codegen.runtime.target import available, host

NEEDED = ("numpy", "scipy", "llvmlite", "islpy", "optree")
OPTIONAL = ("torch", "jax", "scikit-learn", "matplotlib", "networkx")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: none."""


def run(options: argparse.Namespace) -> int:
    """Print the facts that a report of a defect needs; the exit status."""
    machine = host()
    facts = {
        "iverson": f"{iverson.__version__} ({iverson.__path__[0]})",
        "python": f"{platform.python_version()}, {platform.platform()}",
        "array API": iverson.__array_api_version__,
        **{name: _version(name) for name in NEEDED},
        "beside": ", ".join(f"{n} {v}" for n in OPTIONAL if (v := _version(n))) or "nothing",
        "processor": f"{machine.cpu}, {machine.triple}",
        "threads": available(),
        "kernels": kernel_cache.folder() or "kept in memory alone",
    }
    for name, value in facts.items():
        print(f"{name:<10} {value or 'missing'}")
    return 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
