"""Ring buffers of recurrences: memory for the last steps only, where nobody reads earlier ones.

for t: S[t, i] = f(S[t - 1, i]);  Y[i] = S[n - 1, i]
->  for t: S[t % 2, i] = f(S[(t - 1) % 2, i]);  Y[i] = S[(n - 1) % 2, i]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from iverson.expr.build import as_expr, simplified_with
from iverson.expr.nodes import Expr, postorder
from iverson.te.elimination.extremum_positions import starts_whole
from iverson.te.elimination.nest_translation import compiles
from iverson.te.ir.expressions import Read, Tensor, typical
from iverson.te.ir.index_arithmetic import affine_of
from iverson.te.ir.nodes import Compute, Recurrence, Statement, loops_of, recurrence_of

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


def rings(statements: Sequence[Statement], lasting: Collection[Tensor]) -> Rings:
    """For each tensor of which the last steps suffice, its ring.

    lasting : tensors that are stored as they are.
    """
    definitions: defaultdict[Tensor, list[Statement]] = defaultdict(list)
    reads: defaultdict[Tensor, list[tuple[Statement, Read]]] = defaultdict(list)
    interpreted: set[Tensor] = set()
    for s in statements:
        definitions[s.tensor].append(s)
        for r in s.reads:
            reads[r.tensor].append((s, r))
        if not compiles(s):
            unit = recurrence_of(s.tensor)
            interpreted.update([s.tensor, *(r.tensor for r in s.reads)], unit.members if unit else ())
    result = Rings()
    for t, group in definitions.items():
        if isinstance(t, Compute) and t.recurrence is not None and t not in lasting and t not in interpreted:
            ring = _ring(t, group, reads[t])
            if ring is not None:
                result[t] = ring
    return result


def _ring(
    t: Compute, definitions: Sequence[Statement], reads: Sequence[tuple[Statement, Read]]
) -> Ring | None:
    """Ring for a tensor over the steps of the outermost recurrence around it; None if it needs all steps."""
    loop = loops_of(t)[0]
    places = {k for s in definitions for k, w in enumerate(s.write) if w is loop.axis}
    if len(places) != 1 or t in loop.totals or not starts_whole(definitions[0]):
        return None
    (place,) = places
    if not all(s.write[place] is loop.axis for s in definitions):
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
    if recurrence_of(s.tensor) is loop:
        age = affine_of(loop.axis) - form
        age = age.scaled(-1) if loop.reverse else age
    else:  # after all steps
        age = form if loop.reverse else affine_of(as_expr(loop.axis.hi)) - form
        age = age if loop.reverse else age - affine_of(as_expr(1))
    return age.const if not age.terms and age.const >= 0 else None
