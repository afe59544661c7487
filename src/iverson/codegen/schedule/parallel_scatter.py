"""Parallel scatter: threads run iterations that may write the same entries; the safe way is chosen by cost.

    alone     one thread
    private   each range of iterations combines into a copy of the output; the copies are combined in order
    sorted    iterations go in the order of the entry they write, and threads get ranges between which that
              entry changes: each entry takes its terms in the order of the loop
    atomic    each write is one indivisible read-modify-write

Alone and sorted give the same bits in every run, and private does for the same number of threads. Atomic
sums of floats take their terms in any order, so their last bits may differ; atomic sums of integers do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from iverson.codegen.nests.loop_facts import depends
from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Buffer,
    Kernel,
    Load,
    Local,
    Loop,
    Size,
    Stmt,
    Store,
    Var,
    mapped,
    replaced,
    rewritten,
    statements,
)
from iverson.codegen.nests.phase_cost import trips
from iverson.core.scalars import SCALARS
from iverson.expr.function_facts import COMBINE, identity
from iverson.expr.nodes import Apply, Const, Expr, Select, changed, subexpressions

Array = np.ndarray[Any, Any]
Range = tuple[int, int]

#: Nanoseconds (see `phase_cost`) of an entry of a private copy: to start it, which touches new memory, and to
#: combine it at the end. Measured as processor time of float64, 5.2 to 6.1; as time (`make calibrate`), 2.2
#: to 4.5.
COPY = 5.0
#: ... of an iteration: its key, its place in the order, and reading it from there. Measured so: 53 to 102,
#: and 33 to 66.
SORT = 60.0
#: ... of a write that is atomic. Measured so, where threads rarely meet at an entry: 2.1 to 4.6, and 17 to
#: 34, by which the choice loses 1.5 at most.
ATOMIC = 6.0

ORDER, COUNT = "order.", "iterations."


@dataclass(frozen=True)
class Choice:
    """The way that is chosen, and the expected nanoseconds of each possible way."""

    way: str
    costs: Mapping[str, float]

    def __str__(self) -> str:
        alternatives = (f"{name} {t / 1e6:.3g} ms" for name, t in self.costs.items() if name != self.way)
        return f"{self.way}, expected {self.costs[self.way] / 1e6:.3g} ms ({', '.join(alternatives)})"


def shared(phase: Stmt) -> dict[str, Store]:
    """Buffers, by name, whose entries several iterations of a parallel phase may combine into.

    Each comes with one of the stores to it.
    """
    stores = [s for s in statements((phase,)) if isinstance(s, Store) and s.shared]
    return {s.buffer.name: s for s in stores}


def estimates(
    phase: Loop, alone: float, entries: int, iterations: int, sizes: Mapping[str, int], threads: int
) -> dict[str, float]:
    """Nanoseconds of each possible way to run a phase, by name.

    alone : cost of the phase on one thread.
    entries : number of entries of the shared outputs.
    """
    costs = {"alone": alone, "private": alone / threads + COPY * threads * entries}
    if key(phase) is not None:
        costs["sorted"] = alone / threads + SORT * iterations
    if all(_can_be_atomic(s) for s in shared(phase).values()):
        writes = trips(phase, sizes, lambda s: isinstance(s, Store) and s.shared)
        costs["atomic"] = (alone + ATOMIC * writes) / threads
    return costs


def choose(costs: Mapping[str, float]) -> Choice:
    """The cheapest way."""
    return Choice(min(costs, key=lambda way: costs[way]), costs)


def _can_be_atomic(s: Store) -> bool:
    return s.combine == "sum" and s.buffer.dtype.kind in "iuf"


# --- private ---------------------------------------------------------------------


def private(phase: Stmt, by_name: Mapping[str, Array], count: int) -> list[dict[str, Array]]:
    """For each range after the first: copies of the shared outputs, at the identity of their combine."""
    stores = shared(phase).values()
    return [{s.buffer.name: _empty(s, by_name[s.buffer.name]) for s in stores} for _ in range(count - 1)]


def _empty(s: Store, like: Array) -> Array:
    return np.full(like.shape, identity(s.combine, like.dtype), like.dtype)


def combine(phase: Stmt, by_name: Mapping[str, Array], copies: Iterable[Mapping[str, Array]]) -> None:
    """Combine the private ``copies`` into the outputs, in order."""
    stores = shared(phase)
    with np.errstate(all="ignore"):
        for copy in copies:
            for name, array in copy.items():
                body = SCALARS[COMBINE[stores[name].combine]].body
                body(by_name[name], array, out=by_name[name])


# --- atomic ----------------------------------------------------------------------


def atomic(kernel: Kernel, phase: Loop) -> Kernel:
    """A kernel of that phase with its shared sums atomic."""

    def whole(s: Stmt) -> Stmt:
        return replace(s, atomic=True) if isinstance(s, Store) and s.shared else s

    return replace(kernel, phases=(rewritten(phase, whole),))


# --- sorted ----------------------------------------------------------------------


def key(phase: Loop) -> Expr | None:
    """An index that says where an iteration writes: iterations of different keys never collide.

    It must stand at one place of every shared store, and depend on nothing else inside the loop.
    """
    stores = [s for s in statements((phase,)) if isinstance(s, Store) and s.shared]
    inner = {s.var for s in statements(phase.body) if isinstance(s, Loop)}
    for axis, e in enumerate(stores[0].indices if stores and phase.step == 1 else ()):
        alone = depends(e, {phase.var}) and not depends(e, inner)
        no_locals = not any(isinstance(x, Local) for x in subexpressions(e))
        if alone and no_locals and all(len(s.indices) > axis and s.indices[axis] is e for s in stores):
            return e
    return None


def in_order(kernel: Kernel, phase: Loop) -> Kernel:
    """Kernel that runs the iterations of ``phase`` in an order that an added input buffer gives.

    The int64 buffer is named ``order.``, with the dot: iteration n of the new loop runs the body of ``phase``
    with the loop variable equal to entry n of this buffer.
    """
    order = Buffer(ORDER, INT64, (COUNT,))
    at = f"{phase.var}.at"
    replacement: dict[str, Expr] = {phase.var: Load(order, (Var(at),))}
    body = tuple(mapped(s, lambda e: replaced(e, replacement)) for s in phase.body)
    loop = replace(phase, var=at, lower=Const(0), upper=Size(COUNT), body=body)
    return replace(kernel, buffers=(*kernel.buffers, order), sizes=(*kernel.sizes, COUNT), phases=(loop,))


def keys(kernel: Kernel, phase: Loop) -> Kernel:
    """A kernel that stores the key of each iteration of ``phase`` in its last buffer.

    An iteration that does not write (a guard fails) may have a key that cannot be read: any will do.
    """
    e = key(phase)
    assert e is not None
    out = Buffer("keys.", INT64, (COUNT,), "out")
    at = Apply("subtract", (Var(phase.var), phase.lower), INT64)
    reads = {x.buffer for x in subexpressions(e) if isinstance(x, Load)}
    inputs = tuple(replace(b, role="in") for b in kernel.buffers if b in reads)
    by_name = {b.name: b for b in inputs}

    def as_input(x: Expr) -> Expr:
        return _where_inside(Load(by_name[x.buffer.name], x.indices)) if isinstance(x, Load) else x

    body = (Store(out, (at,), changed(e, as_input)),)
    loop = replace(phase, body=body, mark="parallel")
    return Kernel("keys", (*inputs, out), (loop,), (*kernel.sizes, COUNT))


def _where_inside(load: Load) -> Expr:
    """Value of a load where it is inside its buffer; 0 elsewhere."""
    result: Expr = load
    for i, n in zip(load.indices, load.buffer.shape, strict=True):
        extent = Size(n) if isinstance(n, str) else Const(n)
        low = Apply("greater_equal", (i, Const(0)), BOOL)
        fits = Apply("logical_and", (low, Apply("less", (i, extent), BOOL)), BOOL)
        result = Select(fits, result, Const(load.dtype.type(0), load.dtype))
    return result


def order_of(found: Array, lower: int, parts: int) -> tuple[Array, list[Range]]:
    """The iterations in the order of their keys, each key's in the order of the loop; and ranges of it.

    found : the key of each iteration, of which the first is number ``lower``.
    The ranges are at most ``parts`` of about the same length, and no key is in two of them.
    """
    bits = max(1, int(found.size - 1).bit_length())
    if found.size and int(found.min()) >= 0 and int(found.max()).bit_length() + bits < 63:
        pairs = (found << bits) | np.arange(found.size)  # sorting pairs of numbers is stable, and fast
        pairs.sort()
        order, ranked = pairs & ((1 << bits) - 1), pairs >> bits
    else:
        order = np.argsort(found, kind="stable")
        ranked = found[order]
    middle = np.array([found.size * k // parts for k in range(1, parts)], np.int64)
    cuts = np.searchsorted(ranked, ranked[middle]) if found.size else middle
    edges = np.unique([0, *cuts.tolist(), found.size]).tolist()
    return order + lower, list(pairwise(edges))
