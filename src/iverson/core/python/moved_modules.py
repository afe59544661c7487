"""Old names of modules, for pickles of earlier versions: a pickle names the module of a class.

Only modules whose classes users pickle are here; no code imports by these names (`docs/decisions/0141`).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

#: The old name of a module, and its name today.
MOVED = {
    "iverson.array_api.limits": "iverson.array_api.conventions.limits",
    "iverson.masked.stored": "iverson.masked.sparse_masks",
    "iverson.te.expressions": "iverson.te.ir.expressions",
    "iverson.te.nodes": "iverson.te.ir.nodes",
    "iverson.testing.report": "iverson.testing.failure_report",
}


class MovedModules:
    """Finder and loader of modules under old names: attributes are read from the present place."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None, so that Python makes a module of the usual kind."""

    def exec_module(self, module: ModuleType) -> None:
        today = importlib.import_module(MOVED[module.__name__])
        module.__getattr__ = lambda name: getattr(today, name)  # type: ignore[method-assign]


# The last finder: it is asked only about modules that do not exist.
sys.meta_path.append(MovedModules())
