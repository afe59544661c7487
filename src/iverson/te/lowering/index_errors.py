"""Index errors of kernels, restated in the terms of the definition: the tensor, the axis, and the place.

A kernel says which index was outside, and of which buffer, in names that no user knows. Where the index
follows from the inputs alone, the interpreter checks the statement once more, to find the point.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from iverson.core.errors import IndexingError
from iverson.expr.nodes import Expr
from iverson.expr.print import text
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.interpret import wrong_bound, wrong_index
from iverson.te.ir.nodes import Program
from iverson.te.ir.print import names_of

WORD = r"[A-Za-z]\w*"


def of_definition(
    error: IndexingError,
    program: Program,
    values: dict[Tensor, Any],
    sizes: Mapping[Expr, int],
    buffers: Mapping[str, Collection[str]],
    operation: str,
    names: Sequence[str] | None,
) -> IndexingError:
    """The error of a kernel as one of the definition.

    values : of the inputs. buffers : the tensors that each is of, one after the other. names : of the inputs,
    as users call them.
    """
    called = {t.name: name for t, name in zip(program.inputs, names or (), strict=False)}

    def words(place: str) -> str:
        return re.sub(WORD, lambda found: called.get(found[0], found[0]), place)

    for s in program.statements:
        bound = wrong_bound(s, values, sizes)
        if bound is not None:
            return IndexingError(operation, words(bound[0]), got=words(bound[1]), expected=bound[2])
    for s in program.statements:
        found = wrong_index(s, values, sizes)
        if found is not None:
            got = f"index {found.index} at axis {found.axis} of {words(found.place)}"
            inside = f"indices from 0 to {found.extent - 1}" if found.extent else "no access, as it is empty"
            return IndexingError(
                operation,
                words(found.tensor),
                got=f"{got}, where {found.point}" if found.point else got,
                expected=inside,
                remedy=error.remedy,
            )
    held = buffers[
        error.argument.partition("_")[0]
    ]  # what the buffer is of; the index follows from what was computed
    reads = [(r, s) for s in program.statements for r in s.reads if r.tensor.name in held]
    places = dict.fromkeys(words(text(r, names_of(s))) for r, s in reads if r.indices)
    what = " or ".join(called.get(t, t) for t in held)
    index, _, _ = error.got.partition(" of ")
    got = f"{index} of {' or '.join(places) if len(places) == 1 else what}"
    return IndexingError(operation, what, got=got, expected=error.expected, remedy=error.remedy)
