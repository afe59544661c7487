"""Mutants that no test can tell from the original, with the reason: by module, then (line of code, edit)."""

from __future__ import annotations

EQUIVALENT: dict[str, dict[tuple[str, str], str]] = {}
