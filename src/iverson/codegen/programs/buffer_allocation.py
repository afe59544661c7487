"""Buffer allocation: a place in one arena for each temporary, shared by those that are never alive together.

    x = f(a); y = g(x); z = h(y)
    ->  x and y in one place, if g is elementwise (it writes over x); z in another, or where a dead one was

A temporary is *local* to the block of steps that first uses it if that use writes it whole and all other uses
are in the block. It is alive from its first use to its last, and all through each loop in which it is used,
but for the loops around the block that it is local to: nobody reads what the last iteration of such a loop
left there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import getitem

import numpy as np

from iverson.codegen.nests.nodes import Buffer
from iverson.codegen.programs.in_place_kernels import is_nothing, is_pointwise, over
from iverson.codegen.programs.loop_carries import in_one_place
from iverson.codegen.programs.nodes import (
    Branch,
    Nest,
    Product,
    Program,
    Repeat,
    Step,
    View,
    mapped,
    reads_and_writes,
    size,
    uses,
    walk,
    writes,
)
from iverson.codegen.programs.product_accumulation import accumulated
from iverson.expr.symbolic_numbers import lifted

#: Bytes: a line of the cache, and the widest vector.
ALIGN = 64


@dataclass(frozen=True)
class Arena:
    """A place (in bytes) for each temp, and how many bytes they need in all."""

    places: Mapping[str, int]
    bytes: int


def arena(program: Program) -> Arena:
    """Places for the temps: the largest first, each at the lowest place that is free while it lives."""
    lives = lifetimes(program)
    temps = [b for b in program.of("temp") if b.name in lives]
    spans = tuple([(lives[b.name].first, lives[b.name].last) for b in temps])
    plan = lifted(_allocated)(spans, *(size(b) * b.dtype.itemsize for b in temps))
    item: Callable[[Sequence[int], int], int] = lifted(getitem)
    return Arena({b.name: item(plan, k) for k, b in enumerate(temps)}, item(plan, len(temps)))


def _allocated(spans: Sequence[tuple[int, int]], *sizes: int) -> tuple[int, ...]:
    """The place of each buffer, and the bytes of all; spans : its first and last step."""
    memory = _Taken(len(spans))
    places = [0] * len(spans)
    for k in sorted(range(len(spans)), key=lambda k: (-sizes[k], spans[k][0])):
        room = max(-(-sizes[k] // ALIGN), 1) * ALIGN
        places[k] = memory.take(*spans[k], room)
    return (*places, memory.bytes)


class _Taken:
    """The places taken so far and when, as arrays in the order of the places.

    A long program has thousands, each alive together with most others.
    """

    def __init__(self, count: int) -> None:
        self.rows = np.empty((4, count), np.int64)
        self.count = self.bytes = 0

    def take(self, first: int, last: int, room: int) -> int:
        """Take the lowest place with this much room that is free from the first step to the last."""
        n = self.count
        begins, ends, start, end = self.rows[:, :n]
        meets = (begins <= last) & (ends >= first)
        free = np.maximum.accumulate(np.concatenate(([0], end[meets])))
        fits = np.flatnonzero(free[:-1] + room <= start[meets])
        place = int(free[fits[0]] if fits.size else free[-1])
        at = int(np.searchsorted(start, place))
        self.rows[:, at + 1 : n + 1] = self.rows[:, at:n].copy()
        self.rows[:, at] = first, last, place, place + room
        self.count, self.bytes = n + 1, max(self.bytes, place + room)
        return place


# --- outputs in the memory of inputs ----------------------------------------------------------------


def overwritten(program: Program, pairs: Sequence[tuple[Buffer, Buffer]]) -> tuple[Program, dict[str, str]]:
    """The program with outputs made in the memory of inputs that nobody reads after the call.

    p (in), q (out): q[i] = p[i] - g[i], where p is read no more  ->  p (inout): p[i] = p[i] - g[i]

    pairs : an input, and an output of its shape and dtype that may take its place; the first that fit are
    taken. The input must be read before the output is written, or by the nest that does so, entry by entry;
    a step that makes outputs alone is moved behind the last read, where the steps between allow it.

    Returns the program, and the name of the input in whose memory each such output is.
    """
    donation = _Donation(program)
    for source, out in pairs:
        if source not in donation.names and out not in donation.names:
            donation.try_in(source, out)
    return donation.program(), {b.name: a.name for a, b in donation.donations}


class _Donation:
    """Outputs of a program, one after the other, in the memory of inputs: all uses are indexed once.

    Steps keep the numbers of their first order. The key of a step gives its position: a tuple that begins
    with the number of the step that it stands behind, or with its own.
    """

    def __init__(self, program: Program) -> None:
        self.original = program
        self.steps = list(program.steps)
        self.keys: list[tuple[int, ...]] = [(k,) for k in range(len(self.steps))]
        self.names: dict[Buffer, Buffer] = {}
        self.donations: list[tuple[Buffer, Buffer]] = []
        self.uses: defaultdict[Buffer, list[int]] = defaultdict(list)
        self.writes: defaultdict[Buffer, list[int]] = defaultdict(list)
        for k, step in enumerate(self.steps):
            for b in uses((step,)):
                self.uses[b].append(k)
            for b in writes(step):
                self.writes[b].append(k)

    def try_in(self, source: Buffer, out: Buffer) -> None:
        """Make an output in the memory of an input, after the input's last read, if that is possible."""
        key = self.keys.__getitem__
        if not self.uses[out]:
            return
        first = min(self.uses[out], key=key)
        last = max(self.uses[source], key=key, default=first)
        if key(first) < key(last):
            if not self._may_sink(first, out, last):
                return
            sunk = (*key(last), -len(self.donations) - 1)  # right behind the last read
        else:
            sunk = key(first)
        if first in self.uses[source]:
            merged = _merged(self.steps[first], source, out)
            if merged is None:
                return
            self.steps[first] = merged
        self.keys[first] = sunk
        buffer = replace(source, role="inout")
        self.names[source] = self.names[out] = buffer
        self.donations.append((source, out))
        for index in (self.uses, self.writes):
            index[buffer] = [*index.pop(source, ()), *index.pop(out, ())]

    def _may_sink(self, k: int, out: Buffer, last: int) -> bool:
        """True if a step that alone makes an output may stand behind another one: nothing between uses what
        it writes, or writes what it reads."""
        step = self.steps[k]
        if len(self.uses[out]) != 1 or not isinstance(step, Nest | Product):
            return False
        start, stop = self.keys[k], self.keys[last]

        def is_between(places: Sequence[int]) -> bool:
            return any(start < self.keys[n] <= stop for n in places)

        read_buffers, written_buffers = (
            {self.names.get(v.buffer, v.buffer) for v in views} for views in reads_and_writes(step)
        )
        return not any(is_between(self.uses[b]) for b in written_buffers) and not any(
            is_between(self.writes[b]) for b in read_buffers
        )

    def program(self) -> Program:
        """The program with all outputs that `try_in` made in the memory of inputs."""
        if not self.donations:
            return self.original
        order = sorted(range(len(self.steps)), key=self.keys.__getitem__)
        steps = [
            s
            for s in map(self.steps.__getitem__, order)
            if not (isinstance(s, Nest) and is_nothing(s.kernel))
        ]
        renamed_steps = [
            mapped(s, lambda v: replace(v, buffer=self.names.get(v.buffer, v.buffer))) for s in steps
        ]
        outputs = {out for _, out in self.donations}
        buffers = tuple(self.names.get(b, b) for b in self.original.buffers if b not in outputs)
        return replace(self.original, buffers=buffers, steps=tuple(renamed_steps))


def _merged(s: Step, source: Buffer, out: Buffer) -> Step | None:
    """The nest with one buffer for an input and an output, which it reads and writes at the same places.

    None if the step is no nest, or uses the two otherwise.
    """
    if not isinstance(s, Nest):
        return None
    at = {b: [k for k, v in enumerate(s.views) if v.buffer == b] for b in (source, out)}
    if any(len(places) != 1 or not s.views[places[0]].whole for places in at.values()):
        return None
    (k,), (n,) = at[source], at[out]
    old, new = s.kernel.buffers[k], s.kernel.buffers[n]
    if not is_pointwise(s.kernel, old.name, new.name):
        return None
    return Nest(over(s.kernel, old, new), tuple(v for i, v in enumerate(s.views) if i != k))


# --- when a buffer is alive ------------------------------------------------------------------------


@dataclass
class Life:
    """The first and the last step at which a buffer is alive, numbered in order.

    block : the steps it is local to, by the numbers of the loops and branches around; None where it is to
    none.
    """

    first: int
    last: int
    block: tuple[int, ...] | None


@dataclass(frozen=True)
class _Use:
    at: int
    block: tuple[int, ...]
    makes: bool


@dataclass
class _Uses:
    """All uses of each buffer, in order; the span of each loop; and what is swapped."""

    uses: dict[str, list[_Use]] = field(default_factory=dict)
    loops: dict[int, tuple[int, int]] = field(default_factory=dict)
    swaps: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0

    def add(self, name: str, block: tuple[int, ...], makes: bool = False) -> None:
        self.uses.setdefault(name, []).append(_Use(self.at, block, makes))

    def block(self, steps: tuple[Step, ...], block: tuple[int, ...]) -> None:
        """Add the uses of the steps, in order; ``block`` has the numbers of the loops and branches around."""
        for s in steps:
            self.at += 1
            if isinstance(s, Branch):
                self.add(s.condition.buffer.name, block)
                for body in (s.then, s.other):
                    self.at += 1
                    self.block(body, (*block, self.at))
            elif isinstance(s, Repeat):
                self.repeat(s, block)
            else:
                read_views, written_views = reads_and_writes(s)
                for v in read_views:
                    self.add(v.buffer.name, block)
                for v in written_views:
                    self.add(v.buffer.name, block, v.whole)

    def repeat(self, s: Repeat, block: tuple[int, ...]) -> None:
        """Add the uses of a loop: of its body, and, before and after that, of its swaps and condition."""
        start, inside = self.at, (*block, self.at)
        swapped = [b.name for pair in s.swaps for b in pair]
        names = swapped if s.when is None else [*swapped, s.when.buffer.name]
        for name in names:
            self.add(name, block)
        self.block(s.body, inside)
        self.at += 1
        for name in names:
            self.add(name, inside)
        self.swaps += [(a.name, b.name) for a, b in s.swaps]
        self.loops[start] = (start, self.at)


def lifetimes(program: Program) -> dict[str, Life]:
    """Lifetime of each buffer of a program."""
    all_uses = _Uses()
    all_uses.block(program.steps, ())
    lives = {name: _life(uses, all_uses.loops) for name, uses in all_uses.uses.items()}
    for _ in all_uses.swaps:  # what is exchanged may be in either place; chains of swaps share one life
        for a, b in all_uses.swaps:
            first = min(lives[a].first, lives[b].first)
            last = max(lives[a].last, lives[b].last)
            lives[a] = lives[b] = Life(first, last, None)
    return lives


def _life(uses: list[_Use], loops: Mapping[int, tuple[int, int]]) -> Life:
    """Lifetime of a buffer: from its first use to its last, and all through the loops around its uses.

    Loops around the block that it is local to do not count.
    """
    lead = uses[0]
    local = lead.makes and all(u.block[: len(lead.block)] == lead.block for u in uses)
    first, last = uses[0].at, uses[-1].at
    for u in uses:
        for body in u.block[len(lead.block) if local else 0 :]:
            if body in loops:
                first, last = min(first, loops[body][0]), max(last, loops[body][1])
    return Life(first, last, lead.block if local else None)


# --- writing over what dies ------------------------------------------------------------------------


def in_place(program: Program) -> Program:
    """The program with a temp that dies where an elementwise step reads it written over by that step.

    y[i] = f(x[i]), where x is read no more  ->  x[i] = f(x[i]), under the name y

    So with what loops carry (`loop_carries`), and with sums of products (`product_accumulation`).
    """
    return accumulated(_InPlace(in_one_place(program)).run())


class _InPlace:
    """Rewriting of a program's nests so that they write over temps that die there."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lives = lifetimes(program)
        self.fixed = {b for s in _loops(program.steps) for pair in s.swaps for b in pair}
        self.names: dict[Buffer, Buffer] = {}
        self.at = 0

    def run(self) -> Program:
        steps = self.block(self.program.steps)
        while any(b in self.names for b in self.names.values()):
            self.names = {a: self.names.get(b, b) for a, b in self.names.items()}
        steps = tuple(
            mapped(s, lambda v: replace(v, buffer=self.names.get(v.buffer, v.buffer))) for s in steps
        )
        buffers = tuple(b for b in self.program.buffers if b not in self.names)
        return replace(self.program, buffers=buffers, steps=steps)

    def block(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """The steps with each nest as by `nest`, without nests that then do nothing.

        Steps are numbered as in `_Uses`.
        """
        new_steps: list[Step] = []
        for s in steps:
            self.at += 1
            if isinstance(s, Branch):
                parts = []
                for body in (s.then, s.other):
                    self.at += 1
                    parts.append(self.block(body))
                new_steps.append(replace(s, then=parts[0], other=parts[1]))
            elif isinstance(s, Repeat):
                new_steps.append(replace(s, body=self.block(s.body)))
                self.at += 1
            else:
                new_steps.append(self.nest(s) if isinstance(s, Nest) else s)
        return tuple(s for s in new_steps if not (isinstance(s, Nest) and is_nothing(s.kernel)))

    def nest(self, s: Nest) -> Nest:
        """The nest, with its outputs written over temps that die here, where that is possible."""
        for n, v in enumerate(s.views):
            b = s.kernel.buffers[n]
            if b.role != "out" or not self._begins(v):
                continue
            for k, old in enumerate(s.views):
                source = s.kernel.buffers[k]
                alike = (source.shape, source.dtype) == (b.shape, b.dtype) and source.role == "in"
                once = sum(x.buffer == old.buffer for x in s.views) == 1
                if alike and once and self._ends(old) and is_pointwise(s.kernel, source.name, b.name):
                    self.names[old.buffer] = v.buffer
                    now, then = self.lives[v.buffer.name], self.lives[old.buffer.name]
                    self.lives[v.buffer.name] = Life(then.first, now.last, then.block)
                    views = tuple(x for i, x in enumerate(s.views) if i != k)
                    return self.nest(Nest(over(s.kernel, source, b), views))
        return s

    def _begins(self, v: View) -> bool:
        life = self.lives[v.buffer.name]
        free = v.buffer.role in ("temp", "out") and v.buffer not in self.fixed
        return free and v.whole and life.first == self.at and life.block is not None

    def _ends(self, v: View) -> bool:
        free = v.buffer.role == "temp" and v.buffer not in self.fixed and v.whole
        return free and self.lives[v.buffer.name].last == self.at


def _loops(steps: tuple[Step, ...]) -> list[Repeat]:
    return [s for s in walk(steps) if isinstance(s, Repeat)]


__all__ = ["ALIGN", "Arena", "arena", "in_place", "lifetimes", "overwritten"]
