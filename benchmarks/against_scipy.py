"""`python -m benchmarks --scipy`: every sparse operation beside `scipy.sparse`, on one thread, in one table.

Matrices have ten entries a row on average, spread evenly or by a power law over the rows. "fresh" is our
time over SciPy's with patterns made for the call, of which nothing is known, as of SciPy's; "kept" is that
with patterns used before, of which sort orders and transposes are kept. The gradient, in the values of the
operands, is in units of its own forward; and of one pass over the entries of the cotangent and of gradients,
a copy of each, as a forward that moves nothing (a slice, what is kept of a pattern) is no measure: it is
short where it is above the target in both. Turns are interleaved; a ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.report import table

SIZES = (1000, 30_000, 1_000_000)
PER_ROW = 10
COLUMNS = 16
TARGET, GRADIENT_TARGET = 1.2, 4.0
HEAD = ("operation", "entries", "rows", "scipy us", "fresh", "kept", "gradient / forward", "/ pass", "")

Operands = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """One operation, on our tensors and on SciPy's arrays.

    moving : the operands in which the gradient is taken; "" for none.
    largest : the most entries it is measured with.
    layout : of operands a and b.
    """

    name: str
    ours: Callable[[Operands], Any]
    theirs: Callable[[Operands], Any]
    moving: str = "a"
    largest: int = SIZES[-1]
    layout: str = "csr"


# --- operands --------------------------------------------------------------------


def rows_of(count: int, n: int, spread: str, rng: np.random.Generator) -> np.ndarray:
    if spread == "even":
        return rng.integers(0, n, count)
    weights = (1.0 + np.arange(n)) ** -0.8
    return rng.permutation(n)[rng.choice(n, count, p=weights / weights.sum())]


def operands(count: int, spread: str) -> dict[str, Any]:
    """NumPy arrays and SciPy's matrices; the same for one size, whatever else is measured."""
    import scipy.sparse as sp

    rng = np.random.default_rng(count)
    n = count // PER_ROW

    def matrix() -> Any:
        keys = np.unique(rows_of(count, n, spread, rng) * n + rng.integers(0, n, count))
        place = (keys // n, keys % n)
        return sp.csr_array((rng.standard_normal(keys.size), place), shape=(n, n))

    a, b = matrix(), matrix()
    same = sp.csr_array((rng.standard_normal(a.nnz), a.indices, a.indptr), (n, n))
    held: dict[str, Any] = {"a": a, "b": b, "same": same}
    repeated = rng.integers(0, a.nnz, a.nnz)
    c = a.tocoo()
    held["repeats"] = sp.coo_array((c.data, (c.row[repeated], c.col[repeated])), (n, n))
    held["x"] = rng.standard_normal((n, COLUMNS))
    held["v"] = rng.standard_normal(n)
    held["line"] = rng.standard_normal((1, n))
    band = sp.diags_array([np.full(n - 1, -1.0), np.full(n, 4.0), np.full(n - 1, -1.0)], offsets=[-1, 0, 1])
    held["band"] = band.tocsr()
    held["lower"] = sp.csr_array(sp.tril(held["band"]))
    held["some"] = rng.integers(0, n, n // 4)
    held["first"], held["second"] = rng.integers(0, n, (2, n))
    held["n"] = n
    return held


def our_operands(held: dict[str, Any], layout: str) -> Callable[..., tuple[Operands, dict[str, Any]]]:
    """A function that gives our operands, on new patterns or on kept ones, tracked or not."""
    import iverson as iv
    from iverson.layouts import CompressedPattern, CooPattern

    def pattern_of(m: Any) -> Any:
        if m.format == "coo":
            return CooPattern(m.shape, np.stack(m.coords))
        if layout == "coo":
            c = m.tocoo()
            return CooPattern(m.shape, np.stack(c.coords), True)
        m = m.tocsc() if layout == "csc" else m
        return CompressedPattern(m.shape, m.indptr, m.indices, int(layout == "csc"))

    matrices = {k: m for k, m in held.items() if hasattr(m, "format") and "_" not in k}
    patterns = {k: pattern_of(m) for k, m in matrices.items() if k != "same"}
    values = {k: m.tocsc().data if layout == "csc" else m.data for k, m in matrices.items()}
    arrays = {k: iv.asarray(a) for k, a in held.items() if isinstance(a, np.ndarray) and a.dtype.kind == "f"}
    rest = {k: a for k, a in held.items() if k not in arrays and k not in matrices}

    def make(fresh: bool, moving: Sequence[str] = ()) -> tuple[Operands, dict[str, Any]]:
        leaves = {k: iv.asarray(values[k] if k in values else held[k], requires_grad=True) for k in moving}
        used = {} if fresh else dict(patterns)

        def one(name: str) -> Any:
            if name not in matrices:
                return leaves.get(name, arrays[name]) if name in arrays else rest[name]
            own = "a" if name == "same" else name
            if own not in used:
                used[own] = renewed(patterns[own])
            return iv.ops.F.from_values(leaves.get(name, values[name]), pattern=used[own])

        return OnDemand(one), leaves

    return make


class OnDemand(dict[str, Any]):
    """Operands that are made when an operation reads them."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, name: str) -> Any:
        found = self[name] = self.make(name)
        return found


def renewed(pattern: Any) -> Any:
    """The same pattern with nothing known of it."""
    _, (_, kind, arguments) = pattern.__reduce__()  # to make one again gives the one that lives
    return kind(*arguments)


# --- operations -------------------------------------------------------------------

# fmt: off


def operations() -> Iterator[Operation]:
    """Every operation that both have."""
    import scipy.sparse as sp
    import scipy.sparse.linalg as spl

    import iverson as iv

    op = Operation
    # arithmetic
    yield op("add, same pattern", lambda p: p["a"] + p["same"], lambda p: p["a"] + p["same"], "a same")
    yield op("add, other pattern", lambda p: p["a"] + p["b"], lambda p: p["a"] + p["b"], "a b")
    yield op("subtract, other pattern", lambda p: p["a"] - p["b"], lambda p: p["a"] - p["b"], "a b")
    yield op("multiply, other pattern", lambda p: p["a"] * p["b"], lambda p: p["a"] * p["b"], "a b")
    yield op("maximum", lambda p: iv.maximum(p["a"], p["b"]), lambda p: p["a"].maximum(p["b"]), "a b")
    yield op(
        "multiply by a row",
        lambda p: p["a"] * p["line"],
        lambda p: p["a"].multiply(p["line"]).tocsr(),
        "a line",
    )
    yield op("multiply by a number", lambda p: p["a"] * 2.0, lambda p: p["a"] * 2.0)
    yield op("sin", lambda p: iv.sin(p["a"]), lambda p: p["a"].sin())
    yield op("abs", lambda p: abs(p["a"]), lambda p: abs(p["a"]))
    yield op("square", lambda p: p["a"] ** 2, lambda p: p["a"].power(2))
    yield op("a > 0", lambda p: p["a"] > 0, lambda p: p["a"] > 0, "")
    yield op(
        "add dense",
        lambda p: p["a"] + iv.zeros((p["n"],) * 2),
        lambda p: p["a"] + np.zeros((p["n"],) * 2),
        largest=1000,
    )
    # products
    yield op("a @ v", lambda p: p["a"] @ p["v"], lambda p: p["a"] @ p["v"], "a v")
    yield op("a.T @ v", lambda p: p["a"].T @ p["v"], lambda p: p["a"].T @ p["v"], "a v")
    yield op("a @ x, 16 columns", lambda p: p["a"] @ p["x"], lambda p: p["a"] @ p["x"], "a x")
    yield op("x.T @ a", lambda p: p["x"].T @ p["a"], lambda p: p["x"].T @ p["a"], "a x")
    yield op("csc @ x", lambda p: p["a"] @ p["x"], lambda p: p["a_csc"] @ p["x"], "a x", layout="csc")
    yield op("coo @ x", lambda p: p["a"] @ p["x"], lambda p: p["a_coo"] @ p["x"], "a x", layout="coo")
    yield op("a @ b", lambda p: p["a"] @ p["b"], lambda p: sorted_(p["a"] @ p["b"]), "a b")
    yield op(
        "sampled x @ x.T",
        lambda p: iv.sampled_matmul(p["x"], p["x"].T, p["a"]).values(),
        lambda p: np.einsum("pj,pj->p", p["x"][p["a_coo"].row], p["x"][p["a_coo"].col]),
        "x",
    )
    yield op(
        "kron with 2 x 2",
        lambda p: iv.kron(p["a"], p["two"]),
        lambda p: sp.kron(p["a"], p["two"], "csr"),
        "a two",
    )
    # solving
    yield op(
        "spsolve",
        lambda p: iv.spsolve(p["band"], p["v"]),
        lambda p: spl.splu(p["band"].tocsc()).solve(p["v"]),
        "band v",
    )
    yield op(
        "solve_triangular",
        lambda p: iv.solve_triangular(p["lower"], p["v"]),
        lambda p: spl.spsolve_triangular(p["lower"], p["v"]),
        "lower v",
        largest=30_000,
    )
    # moving entries
    yield op("transpose", lambda p: p["a"].T, lambda p: p["a"].T)
    yield op("transpose to csr", lambda p: p["a"].T.to_layout("csr"), lambda p: p["a"].T.tocsr())
    yield op("csr to csc", lambda p: p["a"].to_layout("csc"), lambda p: p["a"].tocsc())
    yield op("csr to coo", lambda p: p["a"].to_layout("coo"), lambda p: p["a"].tocoo())
    yield op("coo to csr", lambda p: p["a"].to_layout("csr"), lambda p: p["a_coo"].tocsr(), layout="coo")
    yield op(
        "csr to bsr", lambda p: p["a"].to_layout("bsr", blocksize=(2, 2)), lambda p: p["a"].tobsr((2, 2))
    )
    yield op("coalesce", lambda p: p["repeats"].coalesce(), lambda p: summed(p["repeats"]), "repeats")
    yield op("to_dense", lambda p: p["a"].to_dense(), lambda p: p["a"].toarray(), largest=30_000)
    yield op(
        "from dense",
        lambda p: p["dense"].to_layout("csr"),
        lambda p: sp.csr_array(p["dense"]),
        "",
        largest=30_000,
    )
    yield op(
        "rows a[n/4:n/2]",
        lambda p: p["a"][p["n"] // 4 : p["n"] // 2],
        lambda p: p["a"][p["n"] // 4 : p["n"] // 2],
    )
    yield op("row a[3]", lambda p: p["a"][3], lambda p: p["a"][3])
    yield op(
        "columns a[:, n/4:n/2]",
        lambda p: p["a"][:, p["n"] // 4 : p["n"] // 2],
        lambda p: p["a"][:, p["n"] // 4 : p["n"] // 2],
    )
    yield op("box a[n/4:n/2, n/4:n/2]", lambda p: p["a"][box(p)], lambda p: p["a"][box(p)])
    yield op("rows a[some]", lambda p: p["a"][p["some"]], lambda p: p["a"][p["some"]])
    yield op("columns a[:, some]", lambda p: p["a"][:, p["some"]], lambda p: sorted_(p["a"][:, p["some"]]))
    yield op(
        "entries a[i, j]",
        lambda p: p["a"][p["first"], p["second"]],
        lambda p: p["a"][p["first"], p["second"]],
    )
    yield op("diagonal", lambda p: iv.linalg.diagonal(p["a"]), lambda p: p["a"].diagonal())
    yield op("tril", lambda p: iv.tril(p["a"]), lambda p: sp.tril(p["a"], format="csr"))
    yield op("triu", lambda p: iv.triu(p["a"]), lambda p: sp.triu(p["a"], format="csr"))
    yield op(
        "concat, rows",
        lambda p: iv.concat([p["a"], p["b"]]),
        lambda p: sp.vstack([p["a"], p["b"]], "csr"),
        "a b",
    )
    yield op(
        "concat, columns",
        lambda p: iv.concat([p["a"], p["b"]], axis=1),
        lambda p: sp.hstack([p["a"], p["b"]], "csr"),
        "a b",
    )
    yield op(
        "reshape", lambda p: p["a"].reshape((p["n"] // 2, -1)), lambda p: p["a"].reshape((p["n"] // 2, -1))
    )
    # reductions
    yield op("sum of all", lambda p: p["a"].sum(), lambda p: p["a"].sum())
    yield op("sum of rows", lambda p: p["a"].sum(axis=1), lambda p: p["a"].sum(axis=1))
    yield op("sum of columns", lambda p: p["a"].sum(axis=0), lambda p: p["a"].sum(axis=0))
    yield op("mean of rows", lambda p: p["a"].mean(axis=1), lambda p: p["a"].mean(axis=1))
    yield op("max of rows", lambda p: p["a"].max(axis=1), lambda p: p["a"].max(axis=1), "", largest=30_000)


def box(p: Operands) -> tuple[slice, slice]:
    part = slice(p["n"] // 4, p["n"] // 2)
    return part, part


def sorted_(m: Any) -> Any:
    """SciPy's result of an operation that leaves its rows in no order: ours are in order."""
    m.sort_indices()
    return m


def summed(m: Any) -> Any:
    m = m.copy()
    m.sum_duplicates()
    return m


# fmt: on
# --- measuring ---------------------------------------------------------------------


def timed(
    call: Callable[[Any], Any], prepare: Callable[[], Any], seconds: float
) -> tuple[Callable[[], float], Any]:
    """A function that gives the seconds of one call, over as many as fill a turn; and a result.

    What ``prepare`` makes for each call does not count. The processor's time: all runs on one thread, and
    what others do on the machine does not count.
    """
    result = call(prepare())
    once = _seconds(call, [prepare()])
    repeats = max(1, round(seconds / max(once, 1e-7)))
    return lambda: _seconds(call, [prepare() for _ in range(repeats)]) / repeats, result


def _seconds(call: Callable[[Any], Any], given: list[Any]) -> float:
    start = time.process_time()
    while given:  # an operand goes when it is done with, as SciPy's results do
        call(given.pop())
    return time.process_time() - start


def measure(operation: Operation, held: dict[str, Any], rounds: int, seconds: float) -> dict[str, Any]:
    """Seconds of one call, per round: SciPy's, ours fresh and kept, and with the gradient."""
    from iverson.autograd import grad

    make = our_operands(held, operation.layout)
    moving = operation.moving.split()
    kept = make(False)[0]
    operation.ours(kept)
    read = tuple(kept)

    def fresh() -> Operands:
        """Operands on patterns of which nothing is known."""
        made = make(True)[0]
        for name in read:
            made[name]
        return made

    calls: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
        "scipy": (operation.theirs, lambda: held),
        "fresh": (operation.ours, fresh),
        "kept": (operation.ours, lambda: kept),
    }
    if moving:
        given, leaves = make(False, moving)
        head = operation.ours(given).detach()

        def pull(given: Operands) -> Any:
            return grad(operation.ours(given), list(leaves.values()), grad_outputs=head, unused="zero")

        moved = [buffer for x in (head, *pull(given)) for buffer in buffers(x)]
        calls |= {
            "forward": (operation.ours, lambda: given),
            "gradient": (pull, lambda: given),
            "pass": (lambda arrays: [a.copy() for a in arrays], lambda: moved),
        }
    turns, results = {}, {}
    for name, (call, prepare) in calls.items():
        turns[name], results[name] = timed(call, prepare, seconds)
    wrong = difference(results["fresh"], results["scipy"]) or difference(results["kept"], results["scipy"])
    gc.collect()
    gc.freeze()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(rounds):
        names = list(calls)[k % len(calls) :] + list(calls)[: k % len(calls)]
        for name in names:
            found[name].append(turns[name]())
    gc.unfreeze()
    return {"seconds": found, "wrong": wrong}


def buffers(x: Any) -> tuple[np.ndarray, ...]:
    """The arrays that hold a tensor's entries."""
    from iverson.layouts import layout_of

    return layout_of(x._value).buffers(x._value)


def difference(ours: Any, theirs: Any) -> str:
    """What is wrong with our result, or nothing."""
    a, b = entries(ours), entries(theirs)
    if a.shape != b.shape:
        return f"{a.shape} for {b.shape}"
    return "" if np.allclose(a, b, rtol=1e-8, atol=1e-8) else f"off by {np.abs(a - b).max():.1e}"


def entries(x: Any) -> np.ndarray:
    """All entries of a small result; of a large one its sums along both axes."""
    if hasattr(x, "_value"):
        x = x.detach()
        if x.layout == "strided" or x.ndim == 1:
            x = x.to_dense().numpy()
        else:
            weight = np.cos(np.arange(x.shape[1]))
            return np.asarray((x.astype("float64") @ weight).to_dense())
    elif hasattr(x, "tocsr"):
        if x.ndim == 1:
            return np.asarray(x.toarray())
        x = x.tocsr()
        return np.asarray(x.astype(float) @ np.cos(np.arange(x.shape[1])))
    return np.asarray(x, float).reshape(-1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks --scipy", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="operations with this in their name"
    )
    parser.add_argument("--entries", action="append", type=int, help="default 1000, 30000 and 1000000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turn", type=float, default=0.01, metavar="SECONDS")
    parser.add_argument("--short", action="store_true", help="print only what is short of its target")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one thread, ours included
    rows = []
    for count in args.entries or SIZES:
        for spread in ("even", "power"):
            held = operands(count, spread)
            for operation in operations():
                if count > operation.largest or not all(w in operation.name for w in args.only):
                    continue
                rows.append(line(operation, count, spread, completed(held, count), args))
    if args.json:
        print(json.dumps(rows))
        return
    shown = [r for r in rows if r[-1]] if args.short else rows
    print(table(HEAD, sorted(shown, key=lambda r: r[0])))
    passed = sum(not r[-1] for r in rows)
    print(f"\n{passed} of {len(rows)} within {TARGET} of SciPy and {GRADIENT_TARGET:g} forwards or passes")


def completed(held: dict[str, Any], count: int) -> dict[str, Any]:
    import scipy.sparse as sp

    if "a_csc" not in held:
        held |= {
            "a_csc": held["a"].tocsc(),
            "a_coo": held["a"].tocoo(),
            "two": sp.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]])),
        }
        if count <= 30_000:
            held["dense"] = held["a"].toarray()
    return held


def line(operation: Operation, count: int, spread: str, held: dict[str, Any], args: Any) -> tuple[str, ...]:
    """A row of the table."""
    start = (operation.name, str(count), spread)
    try:
        found = measure(operation, held, args.rounds, args.turn)
    except Exception as error:  # what fails is a line of the table
        return (*start, "", "", "", "", "", f"failed: {type(error).__name__}: {str(error)[:60]}")
    s = found["seconds"]
    fresh = statistics.median(f / t for f, t in zip(s["fresh"], s["scipy"], strict=True))
    kept = statistics.median(k / t for k, t in zip(s["kept"], s["scipy"], strict=True))
    gradient = passes = None
    if "gradient" in s:
        each = list(zip(s["gradient"], s["forward"], s["pass"], strict=True))
        gradient = statistics.median((g - f) / f for g, f, _ in each)
        passes = statistics.median((g - f) / p for g, f, p in each)
    short = []
    if fresh > TARGET:
        short.append("fresh")
    if kept > TARGET:
        short.append("kept")
    if gradient is not None and min(gradient, passes) > GRADIENT_TARGET:
        short.append("gradient")
    text = found["wrong"] or ("short: " + ", ".join(short) if short else "")
    figures = f"{statistics.median(s['scipy']) * 1e6:.0f}", f"{fresh:.2f}", f"{kept:.2f}"
    costs = ("", "") if gradient is None else (f"{gradient:.1f}", f"{passes:.1f}")
    return (*start, *figures, *costs, text)


if __name__ == "__main__":
    main()
