"""Shape-polymorphic code of an op: one program with sizes, compiled at the second shape, run at later ones.

The first shape has code of its own. At the next one the op's definition is built once more, with sizes in
place of the extents that have changed: extents that were equal in all shapes so far are one size. Sizes
follow from the arrays of a call.

A definition is Python, and may ask for its shapes (``if n > 1``). So the program for a shape is always built,
which costs a few milliseconds, and the code for all shapes runs only where its program, with the sizes put
in, is that very program. Where the programs differ, or where the best walk is only known for numbers
(triangles, strided adjoints), the shape has code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iverson.te.elimination.nest_translation import compiles
from iverson.te.elimination.zero_elimination import eliminate, is_chosen
from iverson.te.ir.expressions import Extent, Placeholder, Tensor, Var, at_sizes
from iverson.te.ir.nodes import Program, program_of
from iverson.te.language.definitions import bind, var
from iverson.te.lowering.block_calls import Blocked, lowered_in_blocks
from iverson.te.lowering.lowered_program import Lowered
from iverson.te.lowering.statement_lowering import lower

#: How many programs with sizes an op may have for operands of a kind, one more general than the other.
MOST = 3
#: How many shapes are looked at to find what changes.
LOOKED_AT = 16
#: Extents that differ by at most this much in all of them are one size and another less so much.
APART = 16

Extents = tuple[int, ...]
Build = Callable[[Sequence[Extent]], tuple[tuple[Placeholder, ...], tuple[Tensor, ...]]]


@dataclass(frozen=True)
class ForShapes:
    """A program with sizes; ``extents`` is what they are in the extents of the operands.

    reads : which of the operands it reads, in its order.
    """

    extents: tuple[Extent, ...]
    program: Program
    reads: tuple[int, ...]
    lowered: Lowered | Blocked

    def at(self, extents: Extents, program: Program, reads: tuple[int, ...]) -> Lowered | Blocked | None:
        """The code for a shape; None where it is not its program, with these sizes put in.

        Nor where that reads fewer operands: what has one entry is read at a place that is known.
        """
        if reads != self.reads:
            return None
        pairs = list(zip(self.extents, extents, strict=True))
        values = {own: n for own, n in pairs if isinstance(own, Var)}
        if min(values.values()) < 1 or any(at_sizes(own, values) != n for own, n in pairs):
            return None
        if _at(self.program, values).key() != program.key():
            return None
        names = zip(self.lowered.program.sizes, self.program.sizes, strict=True)
        return self.lowered.at({own: values[v] for own, v in names})


class AnyShape:
    """The programs with sizes of an op, for operands of given ranks and dtypes and given parameters.

    build : placeholders for operands of given extents, and the op's outputs. large : programs that run in
        blocks.
    """

    def __init__(self, build: Build, large: bool = False) -> None:
        self._build, self._large = build, large
        self._seen: list[Extents] = []
        self._made: list[ForShapes] = []
        self._tries = 0

    def lowered(self, extents: Extents, program: Program, reads: tuple[int, ...]) -> Lowered | Blocked | None:
        """The code for a shape, whose program is given, and which operands that reads; None where it is to
        have its own.
        """
        if 0 in extents or not extents:
            return None
        for made in self._made:
            found = made.at(extents, program, reads)
            if found is not None:
                return found
        if extents not in self._seen:
            self._seen = [*self._seen[1 - LOOKED_AT :], extents]
        if len(self._seen) == 1 or self._tries >= MOST:
            return None
        self._tries += 1
        general = self._more_general(program)
        if general is None:
            return None
        self._made.insert(0, general)
        return general.at(extents, program, reads)

    def _more_general(self, program: Program) -> ForShapes | None:
        """A program for all shapes seen so far; None where there is none, or none as good."""
        own, sizes = _as_sizes(self._seen)
        try:
            inputs, outputs = self._build(own)
            made = program_of(outputs)
        except Exception:  # the definition is the user's, and needs numbers
            return None
        reads = tuple(map(inputs.index, made.inputs))
        values = {v: v.typical for v in sizes}
        if set(made.sizes) != set(values) or _at(made, values).key() != program.key():
            return None
        if self._large:
            blocked = lowered_in_blocks(made)
            return None if blocked is None else ForShapes(tuple(own), made, reads, blocked)
        walked = eliminate(made)
        if not is_chosen(walked) or not all(map(compiles, walked.statements)):
            return None
        return ForShapes(tuple(own), made, reads, lower(walked))


def _as_sizes(seen: Sequence[Extents]) -> tuple[list[Extent], list[Var]]:
    """Extents that hold for all of these, made of as few sizes as they need: their values are the last ones.

    (5, 3, 7), (9, 7, 7)  ->  n, n - 2, 7
    """
    columns = list(zip(*seen, strict=True))
    sizes: dict[Extents, Var] = {}
    found: dict[Extents, Extent] = {}
    for column in sorted(set(columns), reverse=True):
        by = {tuple(m - n for m, n in zip(larger, column, strict=True)): v for larger, v in sizes.items()}
        less = next((d[0] for d in by if len(set(d)) == 1 and 0 < d[0] <= APART), 0)
        if len(set(column)) == 1:
            found[column] = column[0]
        elif less:
            found[column] = by[(less,) * len(column)] - less
        else:
            found[column] = sizes[column] = var(f"n{len(sizes)}")
            sizes[column].typical = column[-1]
    return [found[c] for c in columns], list(sizes.values())


def _at(program: Program, sizes: dict[Var, int]) -> Program:
    return program_of(bind(program.outputs, sizes))
