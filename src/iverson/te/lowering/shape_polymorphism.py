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
    """A program with sizes, and its code.

    extents : the extents of the operands in terms of these sizes.
    reads : positions of the operands that the program reads, in its order.
    """

    extents: tuple[Extent, ...]
    program: Program
    reads: tuple[int, ...]
    lowered: Lowered | Blocked

    def at(self, extents: Extents, program: Program, reads: tuple[int, ...]) -> Lowered | Blocked | None:
        """Code for a shape; None unless this program, with the shape's sizes, is ``program``.

        The result is None too if ``program`` reads other operands.
        """
        if reads != self.reads:
            return None
        pairs = list(zip(self.extents, extents, strict=True))
        values = {symbolic: n for symbolic, n in pairs if isinstance(symbolic, Var)}
        if min(values.values()) < 1 or any(at_sizes(symbolic, values) != n for symbolic, n in pairs):
            return None
        if _at(self.program, values).key() != program.key():
            return None
        names = zip(self.lowered.program.sizes, self.program.sizes, strict=True)
        return self.lowered.at({size: values[v] for size, v in names})


class AnyShape:
    """The programs with sizes of an op, for operands of given ranks and dtypes and given parameters.

    build : gives placeholders for operands of given extents, and the op's outputs.
    large : True for programs that run in blocks.
    """

    def __init__(self, build: Build, large: bool = False) -> None:
        self._build, self._large = build, large
        self._seen: list[Extents] = []
        self._made: list[ForShapes] = []
        self._tries = 0

    def lowered(self, extents: Extents, program: Program, reads: tuple[int, ...]) -> Lowered | Blocked | None:
        """Code for all shapes that fits this shape and program; None if the shape is to have code of its own.

        The shape is noted, and from the second shape on a more general program may be compiled.

        reads : positions of the operands that the program reads.
        """
        if 0 in extents or not extents:
            return None
        for candidate in self._made:
            code = candidate.at(extents, program, reads)
            if code is not None:
                return code
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
        """Program for all shapes so far; None if there is none, or if its code would be worse."""
        extents, sizes = _as_sizes(self._seen)
        try:
            inputs, outputs = self._build(extents)
            general = program_of(outputs)
        except Exception:  # the definition is the user's, and needs numbers
            return None
        reads = tuple(map(inputs.index, general.inputs))
        values = {v: v.typical for v in sizes}
        if set(general.sizes) != set(values) or _at(general, values).key() != program.key():
            return None
        if self._large:
            blocked = lowered_in_blocks(general)
            return None if blocked is None else ForShapes(tuple(extents), general, reads, blocked)
        walked = eliminate(general)
        if not is_chosen(walked) or not all(map(compiles, walked.statements)):
            return None
        return ForShapes(tuple(extents), general, reads, lower(walked))


def _as_sizes(shapes: Sequence[Extents]) -> tuple[list[Extent], list[Var]]:
    """Extents that describe all shapes with as few sizes as possible, and these sizes.

    The typical values of the sizes are those of the last shape.

    (5, 3, 7), (9, 7, 7)  ->  n, n - 2, 7
    """
    columns = list(zip(*shapes, strict=True))
    sizes: dict[Extents, Var] = {}
    extent_of: dict[Extents, Extent] = {}
    for column in sorted(set(columns), reverse=True):
        by = {tuple(m - n for m, n in zip(larger, column, strict=True)): v for larger, v in sizes.items()}
        less = next((d[0] for d in by if len(set(d)) == 1 and 0 < d[0] <= APART), 0)
        if len(set(column)) == 1:
            extent_of[column] = column[0]
        elif less:
            extent_of[column] = by[(less,) * len(column)] - less
        else:
            extent_of[column] = sizes[column] = var(f"n{len(sizes)}")
            sizes[column].typical = column[-1]
    return [extent_of[c] for c in columns], list(sizes.values())


def _at(program: Program, sizes: dict[Var, int]) -> Program:
    return program_of(bind(program.outputs, sizes))
