"""Ring buffers of recurrences: memory for the last steps only, where nobody reads earlier ones.

for t: S[t, i] = f(S[t - 1, i]);  Y[i] = S[n - 1, i]
->  for t: S[t % 2, i] = f(S[(t - 1) % 2, i]);  Y[i] = S[(n - 1) % 2, i]

Where of earlier steps only slices are read later, as an adjoint of an elimination does, these are stored:

for t: S[t, i, j] = f(S[t - 1, i, j]);  Y[t, i] = S[t, i, t + 1]
->  for t: S[t % 2, i, j] = f(S[(t - 1) % 2, i, j]); D[t, i] = S[t % 2, i, t + 1];  Y[t, i] = D[t, i]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from iverson.expr.affine import Affine
from iverson.expr.build import apply, as_expr, simplified_with
from iverson.expr.nodes import Expr, postorder
from iverson.te.elimination.extremum_positions import starts_whole
from iverson.te.elimination.nest_translation import compiles
from iverson.te.ir.convex_pieces import index_cases
from iverson.te.ir.evaluation_guards import guards_of
from iverson.te.ir.expressions import Read, Tensor, Var, replacing, typical, variables
from iverson.te.ir.fresh_names import part
from iverson.te.ir.index_arithmetic import (
    affine_of,
    constraints_of,
    depends_on_data,
    holds,
    interval,
    narrowed,
)
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement, loops_of, recurrence_of

#: Steps that a ring has, and of which a tensor has at least so many times as many.
SHORTEST, LONGEST, SAVING = 2, 4, 2


@dataclass(frozen=True)
class Ring:
    """Memory for the last ``length`` steps of a tensor, whose steps are the index number ``place``."""

    place: int
    length: int


class Rings(dict[Tensor, Ring]):
    """For each tensor of which the last steps suffice, its ring."""

    def expression(self, root: Expr) -> Expr:
        """The expression with the places of steps in their rings."""
        new: dict[Expr, Expr] = {}
        for e in postorder([root]):
            node = simplified_with(e, [new[o] for o in e.operands])
            if isinstance(node, Read) and node.tensor in self:
                node = Read(node.tensor, self.indices(node.tensor, node.indices))
            new[e] = node
        return new[root]

    def statement(self, s: Statement) -> Statement:
        """The statement with the places of steps in their rings, for what it reads and writes."""
        if s.tensor not in self and not any(r.tensor in self for r in s.reads):
            return s
        mapped = s.mapped(self.expression)
        return replace(mapped, write=self.indices(s.tensor, mapped.write))

    def indices(self, tensor: Tensor, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Indices in the memory of a tensor."""
        ring = self.get(tensor)
        if ring is None:
            return indices
        return tuple(e % ring.length if k == ring.place else e for k, e in enumerate(indices))


Readers = Sequence[tuple[Statement, Read]]


def rings(statements: Sequence[Statement], lasting: Collection[Tensor]) -> Rings:
    """For each tensor of which the last steps suffice, its ring.

    lasting : tensors that are stored as they are.
    """
    result = Rings()
    for t, (group, readers) in _states(statements, lasting).items():
        ring = _ring(t, group, readers)
        if ring is not None:
            result[t] = ring
    return result


def with_slices(statements: Sequence[Statement], lasting: Collection[Tensor]) -> list[Statement]:
    """The statements, with tensors for slices of states of which, but for these, the last steps suffice.

    lasting : tensors that are stored as they are.
    """
    new_reads: defaultdict[Statement, dict[Expr, Expr]] = defaultdict(dict)
    new_members: defaultdict[Recurrence, list[Statement]] = defaultdict(list)
    for t, (group, readers) in _states(statements, lasting).items():
        (loop, *inner), place = loops_of(t), _place_of_steps(t, group)
        if inner or place is None:
            continue
        near: list[tuple[Statement, Read]] = []
        far: list[tuple[Statement, Read, tuple[int, int] | None]] = []
        for s, r in readers:
            if recurrence_of(s.tensor) is loop or _age(s, r.indices[place], loop) == 0:
                near.append((s, r))
            else:
                far.append((s, r, _slice(s, r, place)))
        tensors = {key: _slice_tensor(t, place, *key) for _, _, key in far if key is not None}
        size = sum(prod(map(typical, x.shape)) for x in tensors.values())
        is_large = size * SAVING > prod(map(typical, t.shape))
        if not tensors or is_large or any(key is None for _, _, key in far) or _ring(t, group, near) is None:
            continue
        new_members[loop] += [s for x in tensors.values() for s in x.statements]
        for s, r, key in far:
            assert key is not None
            new_reads[s][r] = Read(tensors[key], tuple(e for k, e in enumerate(r.indices) if k != key[0]))
    result: list[Statement] = []
    for unit, run in groupby(statements, lambda s: recurrence_of(s.tensor)):
        result += [s.mapped(replacing(new_reads[s])) if s in new_reads else s for s in run]
        result += () if unit is None else new_members.pop(unit, ())
    return result


def _slice(s: Statement, entry: Read, place: int) -> tuple[int, int] | None:
    """Pair (axis, c) if a read is at the step plus c along an axis wherever its value counts; else None."""
    for axis, e in enumerate(entry.indices):
        cases = index_cases((e, entry.indices[place])) if axis != place else []
        if len(cases) > 1:
            guards = [g for g in guards_of(s.body, s.domain.where).get(entry, ()) if not depends_on_data([g])]
            axes = [v for v in variables([*guards, *entry.indices]) if v.hi is not None]
            cases = [c for c in cases if not is_empty(axes, [*guards, *c[0]])]
        lags = {affine_of(other) - affine_of(step) for _, (other, step) in cases}
        lag = lags.pop() if len(lags) == 1 else None
        if lag is not None and not lag.terms:
            return axis, lag.const
    return None


def _slice_tensor(t: Compute, place: int, axis: int, lag: int) -> Compute:
    """Tensor of the entries ``t[.., step, .., step + lag, ..]``, which the steps write."""
    loop = loops_of(t)[0]
    step = loop.axis
    indices: list[Expr] = [
        step if k == place else step + lag if k == axis else Var(f"a{k}", 0, n) for k, n in enumerate(t.shape)
    ]
    write = tuple(e for k, e in enumerate(indices) if k != axis)
    inside = (apply("greater_equal", indices[axis], 0), apply("less", indices[axis], t.shape[axis]))
    where = tuple(c for c in inside if not all(holds(x) for x in constraints_of(c) or ()))
    axes = tuple(e for e in write if isinstance(e, Var))
    body, reason = Read(t, tuple(indices)), "slices that are read later"
    statement = Statement(None, write, body, Domain(axes, where), strategy="gather", reason=reason)
    shape = tuple(n for k, n in enumerate(t.shape) if k != axis)
    return Compute(shape, t.dtype, part(t, "slice"), [statement], loop)


def _states(
    statements: Sequence[Statement], lasting: Collection[Tensor]
) -> dict[Compute, tuple[list[Statement], Readers]]:
    """The tensors of compiled recurrences that do not last, with their statements and all reads of them."""
    definitions: defaultdict[Compute, list[Statement]] = defaultdict(list)
    reads: defaultdict[Tensor, list[tuple[Statement, Read]]] = defaultdict(list)
    interpreted: set[Tensor] = set()
    for s in statements:
        definitions[s.tensor].append(s)
        for r in s.reads:
            reads[r.tensor].append((s, r))
        if not compiles(s):
            unit = recurrence_of(s.tensor)
            interpreted.update([s.tensor, *(r.tensor for r in s.reads)], unit.members if unit else ())
    return {
        t: (group, reads[t])
        for t, group in definitions.items()
        if t.recurrence is not None and t not in lasting and t not in interpreted
    }


def _place_of_steps(t: Compute, definitions: Sequence[Statement]) -> int | None:
    """Number of the index that is the step of the outermost recurrence in all statements, or None."""
    axis = loops_of(t)[0].axis
    places = {k for s in definitions for k, w in enumerate(s.write) if w is axis}
    if len(places) != 1:
        return None
    (place,) = places
    return place if all(s.write[place] is axis for s in definitions) else None


def _ring(t: Compute, definitions: Sequence[Statement], reads: Readers) -> Ring | None:
    """Ring for a tensor over the steps of the outermost recurrence around it; None if it needs all steps."""
    loop, place = loops_of(t)[0], _place_of_steps(t, definitions)
    if place is None or t in loop.totals or not starts_whole(definitions[0]):
        return None
    ages = [_age(s, r.indices[place], loop) for s, r in reads]
    known_ages = [age for age in ages if age is not None]
    length = max(SHORTEST, 1 + max(known_ages, default=0))
    if len(known_ages) < len(ages) or length > LONGEST or typical(t.shape[place]) < SAVING * length:
        return None
    return Ring(place, length)


def _age(s: Statement, step: Expr, loop: Recurrence) -> int | None:
    """Age of a step, in steps, when it is read; None if that is not known."""
    assert loop.axis.hi is not None
    form = affine_of(step)
    constraints = [c for e in s.domain.where for c in constraints_of(e) or ()]
    low, high = interval(form, narrowed(s.domain.axes, constraints))
    if low > high:
        return 0  # conditions leave no step
    if low == high:
        form = Affine(int(low))
    if recurrence_of(s.tensor) is loop:
        age = affine_of(loop.axis) - form
        age = age.scaled(-1) if loop.reverse else age
    else:  # after all steps
        age = form if loop.reverse else affine_of(as_expr(loop.axis.hi)) - form
        age = age if loop.reverse else age - affine_of(as_expr(1))
    return age.const if not age.terms and age.const >= 0 else None
