"""The report of the corpus: ratios to the best peer, their geometric mean, the worst ten."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.corpus.cells import OPS, Cell
from benchmarks.harness import NOT_INSTALLED
from benchmarks.report import ratio_text, table, time_text
from benchmarks.workload import OURS

Row = dict[str, Any]
#: What is asked of each ratio (of convolutions and products that others tuned by hand), of their mean, and
#: what is a cliff.
TARGET, TUNED_TARGET, MEAN_TARGET, CLIFF = 1.0, 1.2, 0.4, 3.0
TUNED = ("conv", "depthwise", "matmul", "transposed")
WORST = 10
_PARTS: dict[str, Callable[[Row], bool]] = {
    "forward": lambda r: not r["workload"].endswith("_gradients"),
    "with gradients": lambda r: r["workload"].endswith("_gradients"),
    "1 thread": lambda r: r["threads"] == 1,
    "2 threads": lambda r: r["threads"] == 2,
}


def best(rows: Iterable[Row]) -> list[Row]:
    """Per workload, size and threads: our time over that of the fastest peer, of all passes."""
    places: dict[tuple[str, int, int], Row] = {}
    for row in rows:
        own = places.setdefault(
            (row["workload"], row["size"], row["threads"]),
            {k: row[k] for k in ("workload", "size", "size_is", "drawn", "threads")}
            | {"ratios": {}, "status": {}, "seconds": {}, "native": None},
        )
        own["native"] = own["native"] or row.get("native")
        own["status"] |= row["status"]
        ours = row["seconds"].get(OURS)
        for peer, seconds in row["seconds"].items():
            own["seconds"].setdefault(peer, statistics.median(seconds))
            if peer != OURS and ours:
                own["ratios"][peer] = statistics.median(a / b for a, b in zip(ours, seconds, strict=True))
    for own in places.values():
        own["peer"] = max(own["ratios"], key=own["ratios"].__getitem__, default=None)
        own["ratio"] = own["ratios"].get(own["peer"])
    return list(places.values())


def target(workload: str) -> float:
    """The largest ratio that passes."""
    return TUNED_TARGET if workload.removeprefix("te_").startswith(TUNED) else TARGET


def mean(found: Iterable[Row]) -> float | None:
    """The geometric mean over workloads and threads, each with the median over its sizes."""
    groups: dict[tuple[str, int], list[float]] = {}
    for row in found:
        if row["ratio"] is not None:
            groups.setdefault((row["workload"], row["threads"]), []).append(row["ratio"])
    return statistics.geometric_mean(map(statistics.median, groups.values())) if groups else None


def text(found: Sequence[Row], planned: Sequence[Cell]) -> str:
    """All of it, but for what the worst ten are made of."""
    timed = [row for row in found if row["ratio"] is not None]
    short = [row for row in timed if row["ratio"] > target(row["workload"])]
    cliffs = [row for row in timed if row["ratio"] > CLIFF]
    missing = len({c.place for c in planned}) - len(found)
    lines = [
        _table(found),
        "",
        f"{len(timed)} measurements of {len({r['workload'] for r in timed})} workloads, {missing} left out",
        f"geometric mean of the ratio to the best peer {ratio_text(mean(found))} (at most {MEAN_TARGET})",
        *(f"- {name}: {ratio_text(mean(r for r in found if of(r)))}" for name, of in _PARTS.items()),
        f"targets met {len(timed) - len(short)}, missed {len(short)}; cliffs (above {CLIFF:g}) {len(cliffs)}",
        *_reasons(found),
        "",
        "the worst ten, and where the time goes:",
        _worst_table(found),
    ]
    return "\n".join(lines)


def summary(found: Sequence[Row], planned: Sequence[Cell]) -> Row:
    """The numbers of `text`."""
    timed = [row for row in found if row["ratio"] is not None]
    short = [row for row in timed if row["ratio"] > target(row["workload"])]
    return {
        "measured": len(timed),
        "not_measured": len({c.place for c in planned}) - len(found),
        "mean": mean(found),
        "means": {name: mean(r for r in found if of(r)) for name, of in _PARTS.items()},
        "mean_target": MEAN_TARGET,
        "met": len(timed) - len(short),
        "missed": len(short),
        "cliffs": sum(row["ratio"] > CLIFF for row in timed),
        "worst": worst(found),
    }


def _worst_table(found: Sequence[Row]) -> str:
    """Of the worst ten our time, that of its machine code and the rest, which is Python's, and the peers'."""
    head = ("workload", "size", "threads", OURS, "kernels", "calling", "peers", "ratio", "")
    return table(head, [_where(row) for row in worst(found)])


def _where(row: Row) -> tuple[str, ...]:
    ours, native = row["seconds"][OURS], row["native"]
    parts = ("-", "-") if native is None else (_time(ours * native), _time(ours * (1 - native)))
    peers = sorted((p for p in row["seconds"] if p != OURS), key=row["seconds"].__getitem__)
    size = f"{row['size_is']} {row['size']}{'*' if row['drawn'] else ''}"
    times = ", ".join(f"{p} {_time(row['seconds'][p])}" for p in peers)
    verdict = "CLIFF" if row["ratio"] > CLIFF else ""
    return (
        *(row["workload"], size, str(row["threads"]), _time(ours), *parts, times),
        *(ratio_text(row["ratio"]), verdict),
    )


def _time(seconds: float) -> str:
    return time_text([seconds]).partition(" ±")[0]


def _table(found: Sequence[Row]) -> str:
    head = ("workload", "size", "threads", OURS, "best peer", "", "ratio", "others", "")
    return table(head, [_line(row) for row in sorted(found, key=_order)])


def _order(row: Row) -> tuple[Any, ...]:
    return row["workload"], row["threads"], row["size"]


def _line(row: Row) -> tuple[str, ...]:
    ratio, seconds = row["ratio"], row["seconds"]
    others = [f"{p} {ratio_text(r)}" for p, r in row["ratios"].items() if p != row["peer"]]
    others += [f"{p} -" for p, why in row["status"].items() if why not in ("ok", NOT_INSTALLED)]
    verdict = (
        "" if ratio is None else "CLIFF" if ratio > CLIFF else "short" * (ratio > target(row["workload"]))
    )
    return (
        row["workload"],
        f"{row['size_is']} {row['size']}{'*' if row['drawn'] else ''}",
        str(row["threads"]),
        _time(seconds[OURS]) if OURS in seconds else "-",
        row["peer"] or "-",
        _time(seconds[row["peer"]]) if ratio is not None else "-",
        ratio_text(ratio),
        ", ".join(others),
        verdict,
    )


def _reasons(found: Sequence[Row]) -> list[str]:
    """Why there are dashes."""
    said: dict[str, list[str]] = {}
    for row in found:
        for peer, why in row["status"].items():
            if why not in ("ok", NOT_INSTALLED):
                said.setdefault(f"{peer}: {why}", []).append(row["workload"])
    return [f"- {why} ({', '.join(dict.fromkeys(names))})" for why, names in said.items()]


def worst(found: Iterable[Row]) -> list[Row]:
    """The largest ratio of each op and direction, the ten largest of these."""
    largest: dict[str, Row] = {}
    for row in found:
        if row["ratio"] is not None:
            known = largest.get(row["workload"])
            if known is None or row["ratio"] > known["ratio"]:
                largest[row["workload"]] = row
    return sorted(largest.values(), key=lambda r: -r["ratio"])[:WORST]


def explained(row: Row, seed: int) -> str:
    """What te says of the kernels of a measurement: points, bytes, times expected."""
    from benchmarks.corpus.cells import WORKLOADS
    from benchmarks.expressions import program_for
    from iverson import te

    workload = WORKLOADS[row["workload"]]
    op = OPS[row["workload"].removesuffix("_gradients")]
    program, _ = program_for(op, workload.make(row["size"], workload.rng(seed)))
    lines = te.explain(te.eliminate(program)).splitlines()
    kernels = [x for x in lines if x.startswith(("kernel", "  work", "  expected", "  threads", "  warning"))]
    size = f"{row['size_is']} {row['size']}, {row['threads']} threads"
    took = f"{1e3 * row['seconds'][OURS]:.3g} ms"
    head = f"{row['workload']}, {size}: {took}, {ratio_text(row['ratio'])} of {row['peer']}"
    return "\n".join([head, *(f"  {x}" for x in kernels)])
