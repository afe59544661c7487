"""Runs of loop steps that compute the same, and stacked values that are zero in all but some steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from iverson.autograd.mode import is_grad_enabled
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle
from iverson.core.entries import Box
from iverson.core.protocols import Shaped
from iverson.core.region import Region
from iverson.core.table import F
from iverson.graph.control.bodies import aval
from iverson.graph.ir.derivative_interface import Crossing
from iverson.kernels.index_keys import canonical_slice

#: Number of steps of a loop that may each be a run alone, besides those that begin where a part does.
_ALONE = 4

#: The carries that are defined before or after a step, by number, each with the form in which it crosses.
State = Mapping[int, Crossing]


def joined_states(a: State, b: State) -> State:
    """The state of steps before which a carry is as in one of two states.

    A carry that is in two different boxes may be anywhere.
    """
    common = {k: Crossing(selects=a[k].selects or b[k].selects) for k in a.keys() & b.keys() if a[k] != b[k]}
    return {**b, **a, **common}


def settled(state: State, step: Callable[[State], State], selecting: set[int]) -> State:
    """The state, joined with those after any number of steps from it.

    A carry that is a selection only because entries of a box have moved has all its entries instead: its
    condition makes steps four times slower, as measured.

    selecting : the carries that are selections for other reasons.
    """
    while True:
        state = _selecting_only(state, selecting)
        after = step(state)
        selecting = _and_selecting(state, after, step, selecting)
        if (together := joined_states(state, _selecting_only(after, selecting))) == state:
            return state
        state = together


def _selecting_only(state: State, selecting: set[int]) -> State:
    return {k: replace(c, selects=c.selects and k in selecting) for k, c in state.items()}


def _and_selecting(
    state: State, after: State, step: Callable[[State], State], selecting: set[int]
) -> set[int]:
    """``selecting``, with the carries that are selections after a step though no box comes into it."""
    new = {k for k, c in after.items() if c.selects} - selecting
    if new:
        after = step({k: Crossing(selects=k in selecting) for k in state})
    return selecting | {k for k in new if k in after and after[k].selects}


@dataclass(frozen=True, slots=True)
class Run:
    """Steps ``lo <= k < hi`` with one state."""

    lo: int
    hi: int
    state: State


def follow(length: int, marks: Iterable[int], state: State, step: Callable[[State, int], State]) -> list[Run]:
    """Split ``length`` steps into runs of steps with equal states, given the ``state`` of the first step.

    The first few steps that change the state are runs alone. After those, the state is joined with the states
    that follow, until steps do not change it any more.

    marks : steps at which another kind of steps begins; between two marks, a step depends on its state alone.
    step : ``step(state, k)`` is the state after step k.
    """
    runs: list[Run] = []
    alone = _ALONE
    selecting = {k for k, c in state.items() if c.selects}
    for lo, hi in pairwise(sorted({0, length, *marks})):
        while lo < hi:
            at_step = partial(_at, step, lo)
            after = at_step(state)
            selecting = _and_selecting(state, after, at_step, selecting)
            if after != state and alone and hi - lo > 1:
                alone -= 1
                runs.append(Run(lo, lo + 1, state))
                state, lo = after, lo + 1
                continue
            if hi - lo > 1:
                after = state = settled(state, at_step, selecting)
            runs.append(Run(lo, hi, state))
            state, lo = after, hi
    return runs


def _at(step: Callable[[State, int], State], k: int, state: State) -> State:
    return step(state, k)


def state_at(runs: Sequence[Run], k: int) -> State:
    """The state of step k."""
    return next(r.state for r in runs if r.lo <= k < r.hi)


class Part:
    """A stacked value that is zero outside of positions ``lo <= k < hi`` along its first axis.

    aval : the aval of one slice.
    """

    __slots__ = ("aval", "handle", "hi", "lo")

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        handle_aval = aval(handle, is_grad_enabled())
        self.lo, self.hi = 0, handle.shape[0]
        support = handle_aval.support
        if isinstance(support, Box):
            (self.lo, *start), (self.hi, *stop) = support.region
            region = Region(tuple(start), tuple(stop))
            self.aval = Aval(handle.shape[1:], handle.dtype)
            if not region.covers(handle.shape[1:]):
                self.aval = Aval(handle.shape[1:], handle.dtype, Box(region))
        else:
            self.aval = Aval(handle.shape[1:], handle.dtype)


def cut(x: Handle, lo: int, hi: int) -> Any:
    """Positions ``lo <= k < hi`` of a handle along its first axis."""
    if (lo, hi) == (0, x.shape[0]):
        return x
    return F.index_basic(x, key=slices(lo, hi, x.shape))


def at(x: Handle, k: int) -> Any:
    """Position k of a handle along its first axis."""
    return F.index_basic(x, key=(k, *_whole(x.shape[1:])))


def joined(parts: Sequence[tuple[int, int, Handle]], like: Shaped) -> Any:
    """A value of the shape of ``like``, from parts (lo, hi, handle) of its first axis that do not overlap."""
    parts = sorted(parts, key=lambda part: part[0])
    pieces: list[list[Any]] = []
    for lo, hi, x in parts:
        if pieces and pieces[-1][1] == lo:
            pieces[-1][1] = hi
            pieces[-1][2].append(x)
        else:
            pieces.append([lo, hi, [x]])
    total = None
    for lo, hi, handles in pieces:
        x = handles[0] if len(handles) == 1 else _concat(handles)
        if (lo, hi) != (0, like.shape[0]):
            x = F.embed(x, key=slices(lo, hi, like.shape), shape=like.shape)
        total = x if total is None else F.add(total, x)
    return total


def _concat(handles: Sequence[Handle]) -> Any:
    offsets = tuple(sum(x.shape[0] for x in handles[:k]) for k in range(len(handles)))
    return F.concat(*handles, axis=0, offsets=offsets)


def slices(lo: int, hi: int, shape: Sequence[int]) -> tuple[slice, ...]:
    """The key of positions ``lo <= k < hi`` along the first axis."""
    return slice(lo, hi, 1), *_whole(shape[1:])


def _whole(shape: Sequence[int]) -> list[slice]:
    return [canonical_slice(slice(None), n) for n in shape]
