"""What holds for all tests: examples drawn alike in every run, and the share of the product covered.

Hypothesis draws the same examples each time; ``IVERSON_TEST_ALL=1`` lets it look for new ones.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

from tests.conformance.product import EXHAUSTIVE, SEED, cases_of, cells, drawn

settings.register_profile("iverson", derandomize=not EXHAUSTIVE, deadline=None)
settings.load_profile("iverson")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    if not any("conformance" in getattr(r, "nodeid", "") for r in ran):
        return
    chosen = sum(len(drawn(*cell)) for cell in cells())
    total = sum(len(cases_of(*cell)) for cell in cells())
    terminalreporter.write_line(
        f"conformance: {chosen} of {total} cases ({chosen / total:.0%}) of op x layout x sample x dtype x "
        f"needs x order, in all {len(cells())} cells of op x layout (seed {SEED})"
    )
