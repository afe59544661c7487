"""Every op of the table, eager against compiled: `python -m benchmarks --ops`, on one thread, by CPU time.

Operands are the op's own samples: those of an elementwise op repeated to a size, those of the others from a
table of sizes here. The ratio is the CPU time of `iv.jit` over that of the eager call; the least of rounds
that take turns.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.report import ratio_text, table

TARGET = 1.1
#: Entries of an operand: within the second cache, and beyond it.
SIZES = (1 << 14, 1 << 20)
HEAD = ("op", "entries", "eager", "jit", "jit / eager", "")
ROUNDS, TURN = 7, 0.004
#: An op that takes so many seconds at a size is not measured at the next.
SLOW = 1e-3

#: Ops whose eager result is a view: a copy of it is counted too.
VIEWS = (
    "bracket",
    "broadcast_to",
    "coalesce",
    "conj",
    "detached",
    "diagonal",
    "flip",
    "index_basic",
    "overwritten",
    "permute_dims",
    "real",
    "positive",
    "identity",
)
Operands = tuple[tuple[Any, ...], dict[str, Any]]
_rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape, dtype=np.float32)


def positions(extent: int, *shape: int) -> np.ndarray:
    return _rng.integers(0, extent, shape)


def side(n: int) -> int:
    return 16 if n <= 128 else 128


def definite(n: int) -> np.ndarray:
    x = normal(n, n)
    return np.asarray(x @ x.T / n + np.eye(n, dtype=np.float32), dtype=np.float32)


def regular(n: int) -> np.ndarray:
    return np.asarray(normal(n, n) / math.sqrt(n) + 3 * np.eye(n, dtype=np.float32), dtype=np.float32)


#: Operands and parameters by op: of a matrix of side n, or of a side that decompositions take.
CALLS: dict[str, Callable[[int], Operands]] = {
    "concat": lambda n: ((normal(n, n), normal(n, n)), {"axis": 1, "offsets": (0, n)}),
    "stack": lambda n: ((normal(n, n), normal(n, n)), {"axis": 0}),
    "flip": lambda n: ((normal(n, n),), {"axis": (1,)}),
    "roll": lambda n: ((normal(n, n),), {"shift": (1, -2), "axis": (0, 1)}),
    "tril": lambda n: ((normal(n, n),), {"k": 0}),
    "triu": lambda n: ((normal(n, n),), {"k": 1}),
    "diagonal": lambda n: ((normal(n, n),), {"offset": 0}),
    "diag_embed": lambda n: ((normal(n),), {"offset": 0, "shape": (n, n)}),
    "add_n": lambda n: ((normal(n, n), normal(n, n), normal(n, n)), {}),
    "broadcast_to": lambda n: ((normal(n),), {"shape": (n, n)}),
    "permute_dims": lambda n: ((normal(n, n),), {"axes": (1, 0)}),
    "index_basic": lambda n: ((normal(n, n),), {"key": (slice(1, n, 2), slice(0, n, 1))}),
    "embed": lambda n: ((normal(n // 2, n),), {"key": (slice(0, n, 2), slice(0, n, 1)), "shape": (n, n)}),
    "index_put": lambda n: (
        (normal(n, n), normal(n // 2, n)),
        {"key": (slice(0, n // 2, 1), slice(0, n, 1))},
    ),
    "overwritten": lambda n: ((normal(n, n),), {"key": (slice(0, n // 2, 1), slice(1, n, 1))}),
    "gather": lambda n: ((normal(n, n), positions(n, n)), {"axes": (0,)}),
    "scatter_add": lambda n: ((normal(n, n), positions(n, n)), {"axes": (0,), "shape": (n, n)}),
    "gather_put": lambda n: ((normal(n, n), normal(n, n), positions(n, n)), {"axes": (0,)}),
    "segment_max": lambda n: ((normal(n * n), positions(n, n * n)), {"count": n}),
    "segment_softmax": lambda n: ((normal(n * n), positions(n, n * n)), {"count": n}),
    **{
        name: lambda n: ((normal(n, n),), {"axis": (1,), "keepdims": False})
        for name in ("sum", "prod", "logsumexp", "norm", "max", "min", "all", "any")
    },
    **{name: lambda n: ((normal(n, n),), {"axis": 1, "keepdims": False}) for name in ("argmax", "argmin")},
    **{
        name: lambda n: ((normal(n, n),), {"axis": 1})
        for name in ("softmax", "log_softmax", "cumulative_sum", "logcumsumexp")
    },
    "cumulative_prod": lambda n: ((1 + normal(n, n) / 100,), {"axis": 1}),
    "cumulative_argmax": lambda n: ((normal(n, n),), {"axis": 1, "largest": True}),
    "sort": lambda n: ((normal(n, n),), {"axis": 1, "descending": False}),
    "argsort": lambda n: ((normal(n, n),), {"axis": 1, "descending": False, "stable": True}),
    "argtop": lambda n: ((normal(n, n),), {"axis": 1, "count": 5, "descending": True}),
    "fftn": lambda n: ((normal(n, n),), {"axes": (1,), "norm": "backward"}),
    "rfft": lambda n: ((normal(n, n),), {"axis": 1, "norm": "backward"}),
    "matmul": lambda n: ((normal(side(n), side(n)), normal(side(n), side(n))), {}),
    "kron": lambda n: ((normal(n // 4, n // 4), normal(4, 4)), {}),
    "solve": lambda n: ((regular(side(n)), normal(side(n), 4)), {}),
    "solve_triangular": lambda n: (
        (np.tril(regular(side(n))), normal(side(n), 4)),
        {"lower": True, "check": True},
    ),
    "det": lambda n: ((regular(side(n)) / 3,), {}),
    **{
        name: lambda n: ((regular(side(n)),), {})
        for name in ("inv", "slogdet", "svd", "svdvals", "qr", "lu", "matrix_exp", "eig")
    },
    **{name: lambda n: ((definite(side(n)),), {}) for name in ("cholesky", "eigh", "eigvalsh")},
}


def operands(name: str, entries: int) -> Operands | None:
    """Arguments and parameters of an op at a size; None if it is not in the sweep."""
    from iverson.core.op import Sampler
    from iverson.core.table import TABLE

    if name in CALLS:
        return CALLS[name](math.isqrt(entries))
    op = TABLE[name]
    if not op.elementwise or op.samples is None:
        return None
    sample = next(iter(op.samples(Sampler(dtype=np.float32))))
    return tuple(np.resize(a, (entries,)) if np.ndim(a) else a for a in sample.args), dict(sample.params)


def timed(call: Callable[[], object]) -> float:
    """CPU seconds of a call, the mean over a turn."""
    begin, count = time.process_time(), 0
    while True:
        call()
        count += 1
        if (spent := time.process_time() - begin) > TURN:
            return spent / count


def least(*calls: Callable[[], object]) -> list[float]:
    """CPU seconds of each call, the least over rounds that take turns."""
    rounds = [[timed(call) for call in calls] for _ in range(1 + ROUNDS)][1:]
    return [min(times) for times in zip(*rounds, strict=True)]


def measured(name: str, entries: int) -> tuple[float, float] | None:
    """CPU seconds of an eager and of a compiled call; None if the op is not in the sweep."""
    import iverson as iv
    from iverson.core.dispatch import bind
    from iverson.core.table import TABLE

    if (found := operands(name, entries)) is None:
        return None
    arrays, params = found
    places = [k for k, a in enumerate(arrays) if isinstance(a, np.ndarray)]
    tensors = [iv.asarray(arrays[k]) for k in places]

    op = TABLE[name]

    def mixed(*xs: Any) -> Any:
        args = dict(enumerate(arrays)) | dict(zip(places, xs, strict=True))
        return bind(op, tuple(args.values()), params)

    def call(*xs: Any) -> Any:  # which names little: at each call of it, `jit` looks at all that it names
        return bind(op, xs, params)

    call = call if len(places) == len(arrays) else mixed

    def copied(*xs: Any) -> Any:  # a result of `jit` is no view
        y = call(*xs)
        return np.array(y) if name in VIEWS else y

    compiled = iv.jit(call)
    eager, jitted = least(lambda: copied(*tensors), lambda: compiled(*tensors))
    return eager, jitted


def main() -> None:
    from iverson.core.errors import IversonError
    from iverson.core.table import TABLE

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="OP")
    found: list[tuple[str, int, float, float]] = []
    for name in parser.parse_args().only or TABLE:
        for entries in SIZES:
            try:
                times = measured(name, entries)
            except IversonError as error:
                print(name, str(error).partition("\n")[0], file=sys.stderr)
                break
            if times is None:
                break
            found.append((name, entries, *times))
            if times[0] > SLOW:
                break
    found.sort(key=lambda row: -row[3] / row[2])
    lines = [
        (
            name,
            str(n),
            f"{a * 1e6:.1f} us",
            f"{b * 1e6:.1f} us",
            ratio_text(b / a),
            "short" * (b > TARGET * a),
        )
        for name, n, a, b in found
    ]
    print(table(HEAD, lines))
    short = {name for name, _, a, b in found if b > TARGET * a}
    print(f"{len({row[0] for row in found})} ops, {len(short)} above {TARGET} at some size")


if __name__ == "__main__":
    main()
