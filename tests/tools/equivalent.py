"""Mutants that no test can tell from the original, with the reason: by module, then (line of code, edit)."""

from __future__ import annotations

EQUIVALENT: dict[str, dict[tuple[str, str], str]] = {
    "iverson.autograd.engine": {
        (
            "if covers(part, support_of(ct._value), ct.shape) and (ct._node is None or not is_grad_enabled()):",
            "delete the guard: if covers(part, support_of(ct._value), ct.shape)"
            " and (ct._node is None or not is_grad_enabled())",
        ): "a shortcut: cutting a box out of what lies within it gives the same entries",
        (
            "if value is not None and value.shape == shape and value.dtype == dtype:",
            "delete the guard: if value is not None and value.shape == shape and (value.dtype == dtype)",
        ): "a shortcut: the checks below find nothing to do",
    },
}
