"""Reports of the work done and skipped. Counting itself is in `iverson.core.counting.work` and
`iverson.core.counting.cost`.
"""

from __future__ import annotations

from iverson.core.counting.work import Work
from iverson.explain.counts import count, table
from iverson.explain.report import Report, report

__all__ = ["Report", "Work", "count", "report", "table"]


def __dir__() -> list[str]:
    return sorted(__all__)
