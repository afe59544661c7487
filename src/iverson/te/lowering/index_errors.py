"""Index errors of kernels, restated in the terms of the definition: the tensor, the axis, and the place.

A kernel says which index was outside, and of which buffer, in names that no user knows. Where the index
follows from the inputs alone, the interpreter checks the statement once more, to find the point.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from iverson.core.errors import IndexingError
from iverson.core.protocols import NDArray
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
    values: dict[Tensor, NDArray],
    sizes: Mapping[Expr, int],
    buffers: Mapping[str, Collection[str]],
    operation: str,
    names: Sequence[str] | None,
) -> IndexingError:
    """Error of a kernel, restated in terms of the definition.

    values : the arrays of the inputs.
    buffers : names of the tensors that each buffer holds, one after the other.
    operation : the name of the operation, for the new error.
    names : of the inputs, as users call them.
    """
    name_of = {t.name: name for t, name in zip(program.inputs, names or (), strict=False)}

    def words(place: str) -> str:
        return re.sub(WORD, lambda match: name_of.get(match[0], match[0]), place)

    for s in program.statements:
        bound = wrong_bound(s, values, sizes)
        if bound is not None:
            return IndexingError(operation, words(bound[0]), got=words(bound[1]), expected=bound[2])
    for s in program.statements:
        bad_index = wrong_index(s, values, sizes)
        if bad_index is not None:
            access = f"index {bad_index.index} at axis {bad_index.axis} of {words(bad_index.place)}"
            inside = (
                f"indices from 0 to {bad_index.extent - 1}"
                if bad_index.extent
                else "no access, as it is empty"
            )
            return IndexingError(
                operation,
                words(bad_index.tensor),
                got=f"{access}, where {bad_index.point}" if bad_index.point else access,
                expected=inside,
                remedy=error.remedy,
            )
    # The tensors of the buffer; the index depends on computed values.
    tensor_names = buffers[error.argument.partition("_")[0]]
    reads = [(r, s) for s in program.statements for r in s.reads if r.tensor.name in tensor_names]
    places = dict.fromkeys(words(text(r, names_of(s))) for r, s in reads if r.indices)
    tensors_text = " or ".join(name_of.get(t, t) for t in tensor_names)
    index, _, _ = error.got.partition(" of ")
    access = f"{index} of {' or '.join(places) if len(places) == 1 else tensors_text}"
    return IndexingError(operation, tensors_text, got=access, expected=error.expected, remedy=error.remedy)
