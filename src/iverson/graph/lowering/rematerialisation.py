"""Rematerialisation: values that cost fewer bytes to compute again than to keep.

    round 0: h = ...; m = h >= 0; y = where(m, h, 0)        round 0: h = ...; m = h >= 0; y = where(m, h, 0)
    round 1: p = matmul(y, W)                         ->    round 1: p = matmul(y, W)
    round 2: z = where(m, p, h)                             round 2: m' = h >= 0; z = where(m', p, h)

Between rounds a value is written, held, and read by each round that asks for it. A value of cheap elementwise
ops can be computed again where it is read, if its operands are there anyway or are fewer bytes. The values of
a round that are kept are chosen by counting bytes: those written, those read, and those held for longer than
they were. The search starts once with all values kept and once with none, and changes one value at a time as
long as that saves bytes; of two results with as many bytes, the one from none is taken, which keeps fewer
values from the forward pass to the backward one. A value that takes more than a few instructions an entry is
always kept. The model is rematerialisation by bytes as in the min-cut partitioner of PyTorch's AOTAutograd
(``functorch/_src/partitioners.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

from iverson.expr.symbolic_numbers import integer, typical
from iverson.graph.ir.nodes import Equation, Value, values_of
from iverson.graph.ir.regions import rewritten, substituted

Rounds = list[list[Equation]]

#: Equations written into a later round at most, to make again what it asks of one before.
LONGEST = 16
#: How often all rounds are looked at, at most.
SWEEPS = 8
#: Ops of a few instructions an entry.
CHEAP = frozenset(
    (
        *("add", "subtract", "multiply", "negative", "abs", "square", "add_n", "sign"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("isnan", "isfinite", "isinf", "logical_and", "logical_or", "logical_not", "logical_xor"),
        *("where", "maximum", "minimum", "clip", "relu", "astype"),
    )
)


def recompute(
    rounds: Rounds,
    fixed: Callable[[Equation], bool],
    wanted: Iterable[Value],
    root: Callable[[Value], Value],
) -> tuple[Rounds, list[Equation]]:
    """Rounds that compute values again where that costs less than to keep them, and the equations added.

    fixed : whether an equation has steps of its own: what it reads is kept.
    wanted : what is read after all rounds.
    root : the value whose memory a value is seen in.
    """
    copies: list[Equation] = []
    outputs = set(map(root, wanted))
    to_keep = set(outputs)
    for e in (e for group in rounds for e in group):
        operands = values_of(e.operands)
        to_keep.update(operands if fixed(e) else [root(x) for x in operands if root(x) is not x])
    index = _Index(rounds, fixed, root)
    for _ in range(SWEEPS):  # what one round reads changes what the others gain
        repeats = [
            e
            for k, free in enumerate(index.free)
            if free
            for e in _Round(k, index, to_keep, outputs).settle()
        ]
        copies += repeats
        if not repeats:
            break
    return index.rounds, copies


def size(v: Value) -> int:
    """The bytes of a value, by which costs are judged."""
    return integer(typical(prod(v.shape)) * v.dtype.itemsize)


class _Index:
    """Index of the rounds that read each value, updated as rounds change: no search covers all rounds.

    free : of each round, whether equations may be written into it. made : what the rounds make.
    """

    def __init__(
        self, rounds: Rounds, fixed: Callable[[Equation], bool], root: Callable[[Value], Value]
    ) -> None:
        self.root = root
        self.rounds: Rounds = [[] for _ in rounds]
        self.free = [not fixed(group[0]) for group in rounds]
        self.made: set[Value] = set()
        self._readers: dict[Value, set[int]] = {}
        self._seen: dict[Value, set[int]] = {}
        self._last: dict[Value, int] = {}
        for k, group in enumerate(rounds):
            self.put(k, group)

    def put(self, k: int, group: list[Equation]) -> None:
        """Replace the equations of round ``k``."""
        before, after = _reads(self.rounds[k]), _reads(group)
        for v in before - after:
            self._readers[v].discard(k)
        for x in {*map(self.root, before)} - {*map(self.root, after)}:
            self._seen[x].discard(k)
            if self._last[x] == k:
                self._last[x] = max(self._seen[x], default=-1)
        for v in after:
            self._readers.setdefault(v, set()).add(k)
            x = self.root(v)
            self._seen.setdefault(x, set()).add(k)
            self._last[x] = max(self._last.get(x, -1), k)
        self.made.update(v for e in group for v in e.results)
        self.rounds[k] = group

    def readers(self, v: Value, after: int) -> Iterable[int]:
        """The free rounds after one that read a value."""
        return (j for j in self._readers.get(v, ()) if j > after and self.free[j])

    def last(self, v: Value) -> int:
        """The last round that reads what lies in a value's memory; -1 where none does."""
        return self._last.get(v, -1)


def _reads(group: list[Equation]) -> set[Value]:
    return {v for e in group for v in values_of(e.operands)}


class _Round:
    """Values of a round: those that later rounds read, and from what these can be made again.

    A value in ``to_keep`` is written whatever is chosen; the choice is which rounds read it.

    makers : the equations of cheap ops in the round, by result.
    asked : for each later round, the results of ``makers`` that it reads.
    reads : for each later round, the memory (`_Index.root`) of the other values that it reads.
    unwritten : values that only this round reads, so that they are written nowhere now.
    crossing : all values in ``asked``, and those that are written whatever is chosen (``stores``).
    """

    def __init__(self, number: int, index: _Index, to_keep: set[Value], outputs: set[Value]) -> None:
        self.index, self.root = index, index.root
        group = index.rounds[number]
        self.makers = {e.results[0]: e for e in group if e.op.name in CHEAP}
        values_by_round: dict[int, list[Value]] = {}
        for v in self.makers:
            for j in index.readers(v, number):
                values_by_round.setdefault(j, []).append(v)
        self.asked = {j: values_by_round[j] for j in sorted(values_by_round)}
        self.reads: dict[int, set[Value]] = {}
        for j, mine in self.asked.items():
            results = {v for e in index.rounds[j] for v in e.results}
            self.reads[j] = {self.root(v) for v in _reads(index.rounds[j]) - results - set(mine)}
        values = {v for e in group for v in e.results}
        self.unwritten = {v for v in values if v not in outputs and index.last(v) <= number}
        self.stores = to_keep.intersection(self.makers) if self.asked else set()
        crossing = [v for v in self.makers if v in self.stores]
        self.crossing = list(dict.fromkeys([*crossing, *(v for mine in self.asked.values() for v in mine)]))
        self._order = {v: k for k, v in enumerate(self.makers)}
        self._deciding = {j: self._decided_by(mine) for j, mine in self.asked.items()}
        self._costs: dict[tuple[int, frozenset[Value]], tuple[int, set[Value]]] = {}

    def settle(self) -> list[Equation]:
        """Write the equations that make values again into later rounds, and return them."""
        if not self.crossing:
            return []
        everything = set(self.crossing)
        best, _ = min((self._better(set()), self._better(everything)), key=lambda x: x[1])
        if best == everything:
            return []
        repeats = []
        for j, mine in self.asked.items():
            copies, replacements = self._copies([v for v in mine if v not in best], best)
            self.index.put(j, [*copies, *(rewritten(e, replacements) for e in self.index.rounds[j])])
            repeats += copies
        return repeats

    def _better(self, to_keep: set[Value]) -> tuple[set[Value], int]:
        """Values to keep after changes of one value at a time that each save bytes; and the bytes."""
        cost = self.cost(to_keep)
        for v in self.crossing:
            if (new_cost := self.cost(to_keep ^ {v})) < cost:
                to_keep, cost = to_keep ^ {v}, new_cost
        return to_keep, cost

    def cost(self, to_keep: set[Value]) -> int:
        """The bytes written, read and held for what later rounds ask of this one, if these are kept."""
        total = 2 * sum(map(size, to_keep - self.stores))
        longer: set[Value] = set()
        for j in self.asked:
            key = j, self._deciding[j] & to_keep
            if key not in self._costs:
                self._costs[key] = self._cost_of_round(j, to_keep)
            bytes_read, values = self._costs[key]
            if bytes_read == sys.maxsize:
                return sys.maxsize
            total += bytes_read
            longer |= values
        return total + sum(size(x) * (2 if x in self.unwritten else 1) for x in longer)

    def _cost_of_round(self, j: int, to_keep: set[Value]) -> tuple[int, set[Value]]:
        """The bytes that a later round reads for what it asks of this one, and the values that it needs held
        longer.
        """
        mine = self.asked[j]
        there = [v for v in mine if v in to_keep]
        chain = self._chain(mine, to_keep)
        if len(chain) > LONGEST:
            return sys.maxsize, set()
        results = {e.results[0] for e in chain}
        leaves = {self.root(x) for e in chain for x in values_of(e.operands) if x not in results}
        total = sum(map(size, there)) + sum(size(x) for x in leaves - self.reads[j] if x not in there)
        waiting = (x for x in leaves if x not in to_keep or x in self.stores)
        return total, {x for x in waiting if x in self.index.made and self.index.last(x) < j}

    def _decided_by(self, values: Sequence[Value]) -> frozenset[Value]:
        """The values that make a difference to what it takes to make ``values`` again, if they are kept."""
        chain = self._chain(values, set())
        roots = (self.root(x) for e in chain for x in values_of(e.operands))
        return frozenset([*(e.results[0] for e in chain), *(x for x in roots if x in self.makers)])

    def _chain(self, values: Sequence[Value], to_keep: set[Value]) -> list[Equation]:
        """The equations in ``makers`` that are needed for ``values``, if the values ``to_keep`` are there."""
        targets: set[Value] = set()
        waiting = list(values)
        while waiting:
            x = waiting.pop()
            if x in self.makers and x not in to_keep and x not in targets:
                targets.add(x)
                waiting += values_of(self.makers[x].operands)
        return [self.makers[v] for v in sorted(targets, key=self._order.__getitem__)]

    def _copies(
        self, values: Sequence[Value], to_keep: set[Value]
    ) -> tuple[list[Equation], dict[Value, Value]]:
        """Copies of the equations that make values, and the new result of each value."""
        replacements: dict[Value, Value] = {}
        equations = []
        for e in self._chain(values, to_keep):
            result = Value(e.results[0].aval)
            equations.append(replace(e, operands=substituted(e.operands, replacements), results=(result,)))
            replacements[e.results[0]] = result
        return equations, replacements


__all__ = ["recompute"]
