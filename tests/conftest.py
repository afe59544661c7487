"""What holds for all tests: the share of the large product that this run covers is printed at its end."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    if not any("conformance" in getattr(r, "nodeid", "") for r in ran):
        return
    from tests.conformance.product import SEED, cases_of, cells, drawn

    chosen = sum(len(drawn(*cell)) for cell in cells())
    total = sum(len(cases_of(*cell)) for cell in cells())
    terminalreporter.write_line(
        f"conformance: {chosen} of {total} cases ({chosen / total:.0%}) of op x layout x sample x dtype x "
        f"needs x order, in all {len(cells())} cells of op x layout (seed {SEED})"
    )
