"""Mutants that no test can tell from the original, with the reason: by module, then how the edit begins."""

from __future__ import annotations

EQUIVALENT: dict[str, dict[str, str]] = {
    "iverson.autograd.engine": {
        "delete the guard: if covers(part, support_of(ct._value), ct.shape)": (
            "a shortcut: cutting a box out of what lies within it gives the same entries"
        ),
        "delete the guard: if value is not None and value.shape == shape": (
            "a shortcut: the checks below find nothing to do"
        ),
        "drop: not op.multiple": "no op of several results says what its support is",
    },
}
