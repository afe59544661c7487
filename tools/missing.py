"""Libraries that the site documents bridges to, and that this machine lacks."""

from __future__ import annotations

import importlib
import sys


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
