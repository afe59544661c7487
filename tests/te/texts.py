"""What programs are compiled to, as digests: one line each, to be compared between processes.

``python -m tests.te.texts N kernel ... seed ...`` of kernels of the corpus and of random programs, in a
process that has given N automatic names before.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

from iverson import te
from iverson.codegen.launches.compiled_program import planned
from iverson.codegen.nests.print import nameless_text
from iverson.te.lowering import native_call
from iverson.te.lowering.lowered_program import Interpreted, Run
from iverson.te.lowering.statement_lowering import afresh
from iverson.te.ops.selected_inputs import of_selection

from .corpus import KERNELS
from .programs import Programs


def texts(outputs: Iterable[te.Tensor]) -> Iterator[str]:
    """The structure of a program, and the texts by which its code is kept."""
    program = te.eliminate(list(outputs))
    yield program.key()
    lowered = afresh(program)
    yield from (nameless_text(s.kernel) if isinstance(s, Run) else type(s).__name__ for s in lowered.steps)
    if not program.sizes:
        with mock.patch.object(native_call, "compile_program", _Known):
            for call in lowered.calls():
                yield "" if isinstance(call, Interpreted) else call.compiled.text


class _Known:
    """In place of a compiled program: the text that its code is kept by."""

    run = None

    def __init__(self, program: Any, **_: Any) -> None:
        self.text = planned(program).text


def derived(given: list[te.Placeholder], outputs: list[te.Tensor]) -> Iterator[list[te.Tensor]]:
    """Outputs with gradients, tangents, and what a selection of the cotangents makes of them."""
    smooth = [t for t in outputs if t.dtype.kind in "fcV"]
    inputs = [t for t in given if t.dtype.kind in "fcV"]
    heads = [te.placeholder(t.shape, t.dtype, "head") for t in smooth]
    gradients = list(te.differentiate(smooth, inputs, list(heads))) if smooth and inputs else []
    yield [*outputs, *gradients]
    if gradients:
        tangents: dict[Any, te.Tensor] = {x: te.placeholder(x.shape, x.dtype, "tangent") for x in inputs}
        yield [te.jvp(t, tangents) for t in smooth]
        chosen = te.placeholder(heads[0].shape, "bool", "condition")
        yield [t for pair in of_selection(gradients, heads[0], chosen) for t in pair]


def lines(of: str) -> Iterator[str]:
    if of.isdigit():
        made = Programs(int(of))
        output, differentiable = made.program()
        programs = derived([made.X, made.Y] if differentiable else [], [output])
    else:
        given, outputs, _ = KERNELS[of].built()
        programs = derived(given, list(outputs))
    for k, program in enumerate(programs):
        for n, text in enumerate(texts(program)):
            yield f"{of} {k} {n} {hashlib.sha256(text.encode()).hexdigest()}"


if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        te.var(), te.reduce_axis(3), te.placeholder((1,))
    for word in sys.argv[2:]:
        print(*lines(word), sep="\n")
