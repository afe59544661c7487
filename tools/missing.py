"""Libraries that the site, the tests and the benchmarks use, and that this machine lacks."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec

#: Of the extras demo, peers, dask and mpi in pyproject.toml: what uses them is skipped without them.
OPTIONAL = (
    "array_api_extra", "binsparse", "dask", "distributed", "einops", "h5py", "jax", "matplotlib", "mpi4py",
    "networkx", "numba", "opt_einsum", "sklearn", "torch", "xarray", "zarr",
)  # fmt: skip


def note(consequence: str, names: tuple[str, ...] = OPTIONAL) -> str:
    """A line about libraries that are not installed, or nothing; none is imported for it."""
    absent = [name for name in names if find_spec(name) is None]
    return f"not here, so {consequence}: {', '.join(absent)}" if absent else ""


def among(*names: str) -> list[str]:
    """Those of the modules that can't be imported, for whatever reason: a library of the system, say."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except (ImportError, OSError, RuntimeError):
            missing.append(name)
    return missing


def stand_in(names: list[str]) -> None:
    """Let modules be imported that are missing: what is in them is nothing that can be used."""
    from sphinx.ext.autodoc.mock import MockFinder

    packages = [name.partition(".")[0] for name in names]
    for module in [m for m in sys.modules if m.partition(".")[0] in packages]:
        del sys.modules[module]
    sys.meta_path.insert(0, MockFinder(packages))
