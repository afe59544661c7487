"""Cost model of phases: the nanoseconds that one thread is expected to take.

Decisions (threads or not, the way of a scatter) take the `NOMINAL` machine, so that they follow from sizes
alone; reports (`codegen.execution.time_estimates`) take one of the measured peak. Both count the same
operations and accesses, by whether they run in vector lanes and along memory. An extent that depends on data
counts as the average that the index range allows, or 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, prod

from iverson.codegen.nests import loop_facts
from iverson.codegen.nests.integer_bounds import Ranges, Scope, affine, extremes
from iverson.codegen.nests.nodes import (
    Buffer,
    If,
    Load,
    Loop,
    Stmt,
    Store,
    Update,
    expressions,
    statements,
)
from iverson.codegen.nests.task import motion
from iverson.core.errors import ArgumentError
from iverson.expr.function_facts import FEW, LIGHT
from iverson.expr.nodes import Apply, Expr, subexpressions
from iverson.expr.symbolic_numbers import integer, is_infinite, maximum, typical


@dataclass(frozen=True)
class Machine:
    """A processor, as far as the model goes.

    multiply_add : nanoseconds of a thread for each entry of 8 bytes, in full vectors.
    byte : nanoseconds of a byte of memory that is not in the caches.
    """

    vector_bytes: int = 64
    multiply_add: float = 0.04
    byte: float = 0.025


#: Measured with one thread at 2.5 GHz, 64-byte vectors, float64, data in the second cache, in nanoseconds an
#: entry (in brackets: by this model): exp(x) 0.9, log(x) 1.0, tanh(x) 1.6 (1.1), tanh(x) exp(-x) 2.6 (2.1),
#: x / y 0.35 (0.28), a x + y 0.30 (0.16), a x[i] 0.69 (0.78), a scatter of x[e] 0.87 (1.1).
NOMINAL = Machine()
#: Multiply-adds that take as long as a light function, as one of a few instructions, and as another.
LIGHT_FUNCTION, FUNCTION_OF_FEW, FUNCTION = 0.5, 4.0, 25.0
#: ... as an access along memory, one that does not move with the innermost loop, and, an entry at a time, as
#: a gathered entry of a vector and the start of a loop.
READ, STILL, GATHERED, START = 1.0, 0.1, 2.0, 2.0
#: Bytes of a buffer that is taken to be in the caches.
CACHE = 2**20
#: Instructions of a function that is not among `FEW`, and of a body that fills the processor's queues.
INSTRUCTIONS, LONG = 40, 48
#: Nanoseconds below which a phase stays on one thread. Measured for tanh(x) exp(-x) (`make calibrate`, two
#: threads at 2.5 GHz): idle, 8.6e3 to 3.4e4; busy with other work, threads gain at no size.
WORTH_THREADS = 30_000.0


def cost(phase: Stmt, sizes: Mapping[str, int], machine: Machine = NOMINAL) -> float:
    """Nanoseconds of a phase on one thread, at these sizes."""
    return trips(phase, sizes, StatementCost(phase, sizes, machine))


def iterations(phase: Stmt, sizes: Mapping[str, int]) -> int:
    """Number of iterations of a phase's parallel loop; 1 if it has none."""
    if not isinstance(phase, Loop) or phase.mark != "parallel":
        return 1
    scope = Scope()
    length = affine(phase.upper, scope) - affine(phase.lower, scope)
    ranges: Ranges = {name: (n, n) for name, n in sizes.items()}
    low, high = extremes(length, scope, ranges)
    if not low == high < inf:
        raise ArgumentError("codegen", phase.var, got="bounds that depend on data", expected="sizes")
    return integer(maximum(0, -(-high // phase.step)))


def is_worth_threads(phase: Stmt, nanoseconds: float) -> bool:
    """True if threads share a phase of this cost: there is enough work, or a user asks for it."""
    return nanoseconds >= WORTH_THREADS or (
        isinstance(phase, Loop) and phase.mark == "parallel" and phase.factor > 1
    )


def trips(phase: Stmt, sizes: Mapping[str, int], weight: Callable[[Stmt], float]) -> float:
    """Number of times that the statements of a phase run, each weighted by ``weight(statement)``.

    Conditions of guards are taken to hold.
    """
    ranges: Ranges = {name: (n, n) for name, n in sizes.items()}

    def total(s: Stmt, scope: Scope) -> float:
        once = float(weight(s))
        if isinstance(s, If):
            return once + sum(total(item, scope) for item in s.body)
        if not isinstance(s, Loop):
            return once
        inner = replace(scope, loops=(*scope.loops, s))
        return once + _extent(s, scope, ranges) * sum(total(item, inner) for item in s.body)

    return total(phase, Scope())


def _extent(s: Loop, scope: Scope, ranges: Ranges) -> float:
    length = affine(s.upper, scope) - affine(s.lower, scope)
    low, high = extremes(length, scope, ranges)
    extent = 16.0 if is_infinite(high) else ((0 if is_infinite(low) else low) + high) / 2
    return maximum(extent, 0.0) / s.step


class StatementCost:
    """Function of a statement of ``phase``: the nanoseconds of one run of it, without those in its body.

    Code that runs an entry at a time takes as many times longer as there are lanes. What several statements
    of an innermost loop compute or read counts for the first.

    causes : its keys are the causes why a part of the phase does not run in lanes: the loop, and the name of
        the buffer whose entries are gathered, or "".
    """

    def __init__(self, phase: Stmt, sizes: Mapping[str, int], machine: Machine = NOMINAL) -> None:
        self.machine, self.sizes = machine, sizes
        itemsize = itemsize_of(phase)
        self.lanes = max(1, machine.vector_bytes // itemsize)
        self.multiply_add = machine.multiply_add * itemsize / 8
        self.causes: dict[tuple[str, str], None] = {}
        self._around: dict[int, tuple[Loop | None, Loop | None]] = {}
        self._computed: dict[int, list[Expr]] = {}
        self._place(phase, None, None, set())

    def _place(self, s: Stmt, vector: Loop | None, inner: Loop | None, computed: set[Expr]) -> None:
        """Note the vector loop and the innermost loop around ``s`` and around each statement in it.

        computed : what statements before compute, in the same run of the innermost loop's body.
        """
        self._around[id(s)] = vector, inner
        self._computed[id(s)] = list(_computed(s, computed))
        if isinstance(s, Loop) and s.mark == "vector" and vector is None and loop_facts.vectorizable(s):
            vector = s
        if isinstance(s, (Loop, If)):
            if isinstance(s, Loop) and s.mark != "unroll" and s.var != "once":
                inner, computed = s, set()
            for x in s.body:
                self._place(x, vector, inner, computed)

    def __call__(self, s: Stmt) -> float:
        """Nanoseconds of one run of ``s``; causes of slowness are added to ``causes``."""
        vector, inner = self._around[id(s)]
        at_a_time = self.multiply_add * (1 if vector is not None else self.lanes)
        if isinstance(s, Loop):
            return START * at_a_time
        loop = inner if vector is None else vector
        name, label = ("", "") if loop is None else (loop.var, loop.said)
        total = self.operations(s) * at_a_time
        for x in self._accesses(s):
            move = motion(x, name)
            if move == 2 and vector is not None:
                total += GATHERED * self.lanes * self.multiply_add
                self.causes[label, x.buffer.name] = None
            if move == 0 and (inner is loop or inner is None or motion(x, inner.var) == 0):
                total += STILL * at_a_time
            else:
                total += max(READ * at_a_time, self._from_memory(x.buffer))
        if vector is None and total >= at_a_time and not isinstance(s, If):
            self.causes[label, ""] = None
        return total

    def _accesses(self, s: Stmt) -> Iterator[Load | Store]:
        if isinstance(s, Store):
            yield s
        yield from (x for x in self._computed[id(s)] if isinstance(x, Load))

    def operations(self, s: Stmt) -> float:
        """Multiply-adds that take as long as the functions of a statement, those of indices aside."""
        if isinstance(s, Loop):
            return 0.0
        combine = LIGHT_FUNCTION if isinstance(s, (Update, Store)) and s.combine != "assign" else 0.0
        return combine + sum(_function(x) for x in self._computed[id(s)] if isinstance(x, Apply))

    def _from_memory(self, buffer: Buffer) -> float:
        """Nanoseconds of an entry of a buffer that is larger than the caches; 0 for others."""
        extents = [self.sizes.get(n, 1) if isinstance(n, str) else n for n in buffer.shape]
        itemsize = buffer.dtype.itemsize
        return self.machine.byte * itemsize if typical(prod(extents) * itemsize) > CACHE else 0.0


def itemsize_of(phase: Stmt) -> int:
    """Bytes of the numbers that a phase computes with, 4 or 8, by the widest entries that it stores."""
    stored = (s.buffer.dtype.itemsize for s in statements((phase,)) if isinstance(s, Store))
    return min(max(max(stored, default=8), 4), 8)


def _function(x: Apply) -> float:
    once = LIGHT_FUNCTION if x.name in LIGHT else FUNCTION_OF_FEW if x.name in FEW else FUNCTION
    return once * (4 if x.dtype.kind == "c" else 1)


def _computed(s: Stmt, computed: set[Expr]) -> Iterator[Expr]:
    """The functions and reads of a statement but for those in ``computed``, to which they are added.

    Indices are left out, unless they are read from memory.
    """
    stack = [(e, isinstance(s, Loop)) for e in expressions(s)]
    if isinstance(s, Store):
        stack = [*((e, True) for e in s.indices), (s.value, False)]
    while stack:
        x, is_index = stack.pop()
        if x in computed:
            continue
        if isinstance(x, Load) or not is_index:
            computed.add(x)
            yield x
        stack.extend((o, is_index or isinstance(x, Load)) for o in x.operands)


def is_long(body: tuple[Stmt, ...]) -> bool:
    """True if a body has no loops, and more than `LONG` instructions.

    Such a body keeps the processor busy by itself: to run several iterations of it at once gains nothing.
    """
    block = tuple(statements(body))
    return not any(isinstance(s, Loop) for s in block) and instructions(block) > LONG


def instructions(block: tuple[Stmt, ...]) -> int:
    """Number of instructions of the functions of statements, those in the bodies of loops aside."""
    parts = [x for s in block for e in expressions(s) for x in subexpressions(e) if isinstance(x, Apply)]
    return sum(1 if x.name in LIGHT or x.name in FEW else INSTRUCTIONS for x in parts)
