"""Turns measured rows into ratios and tables. Measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.harness import NOT_INSTALLED, UNAVAILABLE, Timing
from benchmarks.workload import GRADIENT_BUDGET, OURS, OURS_FORWARD

Row = dict[str, Any]

#: By group, the largest geometric means of our ratio to these peers (the fastest of them) that pass.
GROUPS = {
    "composite": ((("torch",), 0.2), (("torch compile", "jax"), 0.5)),
    "drawn": ((("torch", "jax jit"), 0.5),),
}

SIZES_HEAD = ("workload", "size", OURS, "peer", "", "ratio", "worst round", "target", "")
MEANS_HEAD = ("group", "workloads", "peers", "geometric mean", "target", "")
BUDGET_HEAD = ("workload", "gradients / forward", "worst", "target", "")
SUMMARY_HEAD = ("workload", "peer", "median ratio", "worst ratio", "target", "")


def compare(row: Row) -> list[Row]:
    """One comparison per peer of a measured row: `ratio` is ours / peer, or None if untimed."""
    ours = row["seconds"].get(OURS)
    comparisons = []
    for peer in (name for name in row["status"] if name != OURS):
        theirs = row["seconds"].get(peer)
        target = row["target"].get(peer)
        ratio = worst = None
        if ours and theirs:
            ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
            ratio, worst = statistics.median(ratios), max(ratios)
        comparisons.append(
            {key: row[key] for key in ("workload", "size", "size_is", "drawn", "group")}
            | {"peer": peer, "ratio": ratio, "worst_round": worst, "target": target}
            | {"ours_seconds": ours, "peer_seconds": theirs}
            | {"verdict": verdict(ratio, target, [row["status"][OURS], row["status"][peer]])}
        )
    return comparisons


def verdict(ratio: float | None, target: float | None, statuses: Sequence[str]) -> str:
    """Says "pass" or "short" of the target, or what kept the libraries from being compared."""
    if ratio is None:
        wrong = [status for status in statuses if status != "ok"]
        return "; ".join(dict.fromkeys(wrong))
    if target is None:
        return ""
    return "pass" if ratio <= target else "short"


def summarise(comparisons: Iterable[Row]) -> list[Row]:
    """Per workload and peer, the median and the worst ratio over the sizes."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in comparisons:
        groups.setdefault((row["workload"], row["peer"]), []).append(row)
    summary = []
    for (workload, peer), rows in groups.items():
        ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
        untimed = [row["verdict"] for row in rows if row["ratio"] is None]
        median, worst = (statistics.median(ratios), max(ratios)) if ratios else (None, None)
        target = rows[0]["target"]
        summary.append(
            {"workload": workload, "peer": peer, "median": median, "worst": worst}
            | {"target": target}
            | {"verdict": untimed[0] if untimed else verdict(worst, target, ())}
        )
    return summary


def means(comparisons: Iterable[Row]) -> list[Row]:
    """Per group and set of peers, the geometric mean over workloads of the ratio to the fastest peer.

    A workload counts with the median over its sizes, and only where some peer of the set was timed.
    """
    rows = list(comparisons)
    result = []
    for group, goals in GROUPS.items():
        for peers, target in goals:
            fastest: dict[tuple[str, int], float] = {}
            for row in rows:
                if row["group"] == group and row["peer"] in peers and row["ratio"] is not None:
                    key = (row["workload"], row["size"])
                    fastest[key] = max(fastest.get(key, 0.0), row["ratio"])
            names = list(dict.fromkeys(name for name, _ in fastest))
            medians = [statistics.median(r for (w, _), r in fastest.items() if w == name) for name in names]
            mean = statistics.geometric_mean(medians) if medians else None
            result.append(
                {"group": group, "peers": peers, "workloads": len(names), "mean": mean, "target": target}
                | {"verdict": verdict(mean, target, ())}
            )
    return [row for row in result if row["workloads"]]


def budgets(summary: Iterable[Row]) -> list[Row]:
    """Per workload with gradients, what these cost in units of its own forward."""
    rows = [row for row in summary if row["peer"] == OURS_FORWARD and row["median"] is not None]
    return [
        {"workload": row["workload"], "median": row["median"] - 1, "worst": row["worst"] - 1}
        | {"verdict": verdict(row["worst"] - 1, GRADIENT_BUDGET, ())}
        for row in rows
    ]


def is_broken(status: str) -> bool:
    """Whether a library that is there failed or gave another result."""
    return status not in ("ok", NOT_INSTALLED) and not status.startswith(UNAVAILABLE)


# --- text ----------------------------------------------------------------------


def sizes_table(comparisons: Iterable[Row]) -> str:
    return table(
        SIZES_HEAD,
        [
            (
                row["workload"],
                f"{row['size_is']} {row['size']}{'*' if row['drawn'] else ''}",
                time_text(row["ours_seconds"]),
                row["peer"],
                time_text(row["peer_seconds"]),
                ratio_text(row["ratio"]),
                ratio_text(row["worst_round"]),
                target_text(row["target"]),
                row["verdict"],
            )
            for row in comparisons
        ],
    )


def summary_table(summary: Iterable[Row]) -> str:
    return table(
        SUMMARY_HEAD,
        [
            (
                row["workload"],
                row["peer"],
                ratio_text(row["median"]),
                ratio_text(row["worst"]),
                target_text(row["target"]),
                row["verdict"],
            )
            for row in summary
        ],
    )


def means_table(rows: Iterable[Row]) -> str:
    return table(
        MEANS_HEAD,
        [
            (
                row["group"],
                str(row["workloads"]),
                "best of " * (len(row["peers"]) > 1) + ", ".join(row["peers"]),
                ratio_text(row["mean"]),
                target_text(row["target"]),
                row["verdict"],
            )
            for row in rows
        ],
    )


def budgets_table(rows: Iterable[Row]) -> str:
    return table(
        BUDGET_HEAD,
        [
            (
                row["workload"],
                ratio_text(row["median"]),
                ratio_text(row["worst"]),
                target_text(GRADIENT_BUDGET),
                row["verdict"],
            )
            for row in rows
        ],
    )


def machine_text(machine: Row) -> str:
    """The header of a report."""
    cores = f"{machine['cores'] or '?'} cores, {machine['threads']} threads"
    versions = {"python": machine["python"], **machine["packages"]}
    lines = [
        f"{machine['cpu']}, {cores}, {machine['system']}",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]
    for library, blas in machine["blas"].items():
        facts = [f"{library}: {blas['name']}", f"core {blas.get('core', 'unknown')}"]
        facts += [f"ATen {blas['aten']}"] if "aten" in blas else []
        lines.append(
            f"{', '.join(facts)}, float32 matmul {blas['gflops_1_thread']} GFLOP/s at 1 thread, "
            f"{blas['gflops_all_threads']} at all"
        )
    return "\n".join(lines)


def time_text(seconds: Sequence[float] | None) -> str:
    """Median ± spread, e.g. "1.23 ms ± 2%"; "-" if there is none."""
    if not seconds:
        return "-"
    timing = Timing(seconds=tuple(seconds))
    unit, scale = next(
        (unit, scale)
        for unit, scale in (("s ", 1.0), ("ms", 1e3), ("us", 1e6))
        if timing.median * scale >= 1 or unit == "us"
    )
    return f"{timing.median * scale:.4g} {unit} ±{timing.spread:3.0%}"


def ratio_text(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def target_text(target: float | None) -> str:
    return "-" if target is None else f"<= {target:g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, two spaces apart."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
