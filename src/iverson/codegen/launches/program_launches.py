"""The launches of a planned program: each step as calls, with the places of its views in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from iverson.codegen.execution import routines
from iverson.codegen.execution.routines import Failure
from iverson.codegen.launches.nodes import (
    Choice,
    Gemm,
    Launches,
    Loop,
    Phases,
    Place,
    RoutineCall,
    Step,
    StopIf,
    nest_key,
)
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.phase_cost import iterations
from iverson.codegen.programs import blas_calls, nodes
from iverson.codegen.programs.buffer_allocation import Arena
from iverson.codegen.programs.nodes import Nest, Number, Program, View, c_strides
from iverson.codegen.programs.thread_sharing import is_shared_call, may_share, shared_flag, sharing

#: Iterations of a loop from which it looks for signals.
OFTEN = 16


def launches(
    program: Program,
    arena: Arena,
    nests: Mapping[str, tuple[Nest, Plan, int]],
    failures: Sequence[Failure] = (),
    threads: int | None = None,
) -> Launches:
    """The launches of a verified and planned program.

    nests : a nest of each distinct kernel by `nest_key`, with its plan, and its first place in the record of
    faults. failures : those of the program's stops. threads : as of `is_shared_out`.
    """
    places = {b.name: arena.places[b.name] for b in program.buffers if b.name in arena.places}
    return Launches(_Steps(nests, failures, threads).block(program.steps), places)


class _Steps:
    """Steps of a program as launches. nests, failures : see `launches`."""

    def __init__(
        self,
        nests: Mapping[str, tuple[Nest, Plan, int]],
        failures: Sequence[Failure],
        threads: int | None,
    ) -> None:
        self.nests, self.failures, self.threads = nests, failures, threads

    def block(self, steps: tuple[nodes.Step, ...]) -> tuple[Step, ...]:
        return tuple([launch for s in steps for launch in self.step(s)])

    def step(self, s: nodes.Step) -> tuple[Step, ...]:
        """The launch of a step; none for a step without entries."""
        if isinstance(s, nodes.Nest):
            return (self.phases(s),)
        if isinstance(s, nodes.Product):
            return () if 0 in s.out.shape else (_gemm(s),)
        if isinstance(s, nodes.Call):
            return () if 0 in s.batch else (_routine_call(s),)
        if isinstance(s, nodes.Stop):
            return (StopIf(_place(s.condition), self.failures.index(s.failure)),)
        if isinstance(s, nodes.Repeat):
            when = None if s.when is None else _place(s.when)
            often = s.trips is None or s.trips > OFTEN
            return (Loop(s.var, s.trips, self.block(s.body), s.swaps, when, often),)
        return (Choice(_place(s.condition), self.block(s.then), self.block(s.other)),)

    def phases(self, s: nodes.Nest) -> Phases:
        nest, plan, start = self.nests[nest_key(s)]
        kernel, sizes = nest.kernel, s.values
        totals = tuple([iterations(phase, sizes) for phase in kernel.phases])
        is_shared = tuple(
            [shared_flag(p, sizes, self.threads) if may_share(p) else None for p in kernel.phases]
        )
        return Phases(kernel, plan, start, tuple(map(_place, s.views)), s.sizes, totals, is_shared)


def _place(v: View) -> Place:
    size = v.buffer.dtype.itemsize
    return Place(v.buffer, v.offset * size, tuple([(var, by * size) for var, by in v.moves]), 0 in v.shape)


def _scales(s: nodes.Product) -> tuple[Number | Place, Number | Place]:
    alpha, beta = (_place(x) if isinstance(x, View) else x for x in (s.alpha, s.beta))
    return alpha, beta


def _gemm(s: nodes.Product) -> Gemm:
    call = blas_calls.call(s)
    assert call is not None, "verified"
    size, views = s.out.buffer.dtype.itemsize, (call.first, call.second, call.out)
    axes = [k for k, n in enumerate(s.out.shape[:-2]) if n > 1]
    batch = tuple([s.out.shape[k] for k in axes])
    way = sharing(s)
    axis = -2 if way == "rows" else -1
    factor = call.second if way == "rows" else call.first
    panels = (call.out.shape[axis], factor.strides[axis] * size, call.out.strides[axis] * size)
    return Gemm(
        blas_calls.routine(s.out.buffer.dtype),
        call.letters,
        call.sizes,
        call.leading,
        (_place(call.first), _place(call.second), _place(call.out)),
        *_scales(s),
        batch,
        c_strides(batch),
        tuple([tuple([v.strides[k] * size for k in axes]) for v in views]),
        prod(batch),
        way,
        panels if way in ("rows", "columns") else (0, 0, 0),
    )


def _routine_call(s: nodes.Call) -> RoutineCall:
    """A call of a routine: a `Loop` runs over the last axis of the batch itself."""
    routine, batch = s.routine, s.batch
    if is_shared_call(s):
        places, steps = tuple(map(_place, s.views)), tuple([v.buffer.dtype.itemsize for v in s.views])
        no_axes: tuple[tuple[int, ...], ...] = ((),) * len(places)
        return RoutineCall(routine, places, None, (), (), (), no_axes, prod(batch), (), steps, is_shared=True)
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    arguments: tuple[int, ...] = ()
    if isinstance(routine, routines.Loop):
        extents = routines.extents_of(routine.cores, [v.shape for v in s.views])
        assert extents is not None, "verified"
        sizes = (batch[-1] if batch else 1, *extents.values())
        strides = tuple([_bytes(v, len(batch) - 1) if batch else 0 for v in s.views])
        for core, v in zip(routine.cores, s.views, strict=True):
            strides += tuple([_bytes(v, k) for k in range(len(v.shape) - len(core), len(v.shape))])
        batch = batch[:-1]
    else:
        arguments = tuple([x for x in routine.arguments if isinstance(x, int)])
    axes = [k for k, n in enumerate(batch) if n > 1]
    items = tuple([batch[k] for k in axes])
    return RoutineCall(
        routine,
        tuple(map(_place, s.views)),
        None if s.status is None else _place(s.status),
        arguments,
        items,
        c_strides(items),
        tuple([tuple([_bytes(v, k) for k in axes]) for v in s.views]),
        prod(items),
        sizes,
        strides,
    )


def _bytes(v: View, axis: int) -> int:
    return v.strides[axis] * v.buffer.dtype.itemsize


__all__ = ["OFTEN", "launches"]
