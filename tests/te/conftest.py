"""What every pass over statements makes is verified, in all tests of this folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iverson.codegen.execution.verify import verify
from iverson.codegen.launches import compiled_program
from iverson.codegen.nests.nodes import (
    Kernel,
    Size,
    Stmt,
    expressions,
    loads_and_stores,
    statements,
    with_buffers,
)
from iverson.codegen.runtime import workspaces
from iverson.expr.nodes import subexpressions
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.nodes import Program, Statement
from iverson.te.ir.verify import check
from iverson.te.lowering import statement_lowering
from iverson.te.ops import operator
from tests.conformance.product import EXHAUSTIVE, turn

from .oracles import Interpreted

PASSES = ("inline", "accumulated", "merged", "whole_first")
#: Those over loop nests: each gives phases, one or several, or None.
OVER_NESTS = ("phases_of", "phase_of", "finished", "fuse", "without", "by_rows")


@pytest.fixture(autouse=True, scope="package")
def passes_are_verified() -> Iterator[None]:
    """`check` after each pass on the way to loop nests, on the program it was made for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement_lowering, "_Lowering", _Verified)
        for name in PASSES:
            patch.setattr(statement_lowering, name, _verified(getattr(statement_lowering, name)))
        for name in OVER_NESTS:
            patch.setattr(statement_lowering, name, _verified_nests(getattr(statement_lowering, name)))
        yield


@pytest.fixture(autouse=True, scope="package")
def memory_holds_anything() -> Iterator[None]:
    """What a program takes for its results and temporaries holds nan, or numbers that are no index."""
    take = workspaces.take

    def poisoned(array: Any) -> Any:
        array[...] = np.nan if array.dtype.kind in "fc" else np.array(-77).astype(array.dtype)
        if array.dtype == np.uint8:  # memory for anything: numbers that are nan, and indices that are none
            array[...] = 0xFF
        return array

    class Poisoned:
        empty = staticmethod(lambda *shape: poisoned(np.empty(*shape)))

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspaces, "take", lambda *shape: poisoned(take(*shape)))
        patch.setattr(statement_lowering, "np", Poisoned())
        patch.setattr(compiled_program, "np", Poisoned())
        yield


@pytest.fixture
def interpreted_by_turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter carries out ops in index notation in about half of the cases of a test of derivatives.

    Compiling these takes longest; other tests hold what is compiled against the interpreter.
    """
    if not EXHAUSTIVE and turn(request.node.name, 2):
        monkeypatch.setattr(operator, "lower", Interpreted)


class _Current(threading.local):
    """The programs on their way in this thread."""

    def __init__(self) -> None:
        self.programs: list[Program] = []


_current = _Current()


class _Verified(statement_lowering._Lowering):
    def __init__(self, program: Program, **how: Any) -> None:
        check(program)
        _current.programs.append(program)
        try:
            super().__init__(program, **how)
            written = {s.tensor for s in self.statements}
            copies = [t for t in self.is_output.values() if t not in written]
            _check(self.statements, (*self.extrema.values(), *copies))
        finally:
            _current.programs.pop()


def _verified(made: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        found = made(*args)
        _check(found)
        return found

    return run


def _verified_nests(made: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        found = made(*args)
        before = {id(x) for a in args if isinstance(a, (list, tuple)) for x in a}
        phases = found if isinstance(found, (list, tuple)) else () if found is None else (found,)
        _check_phases([x for x in phases if id(x) not in before])
        return found

    return run


def _check_phases(phases: Sequence[Stmt]) -> None:
    for phase in phases:
        buffers = {x.buffer.name: replace(x.buffer, role="inout") for x in loads_and_stores(phase)}
        roots = (e for s in statements((phase,)) for e in expressions(s))
        sizes = {x.name for e in roots for x in subexpressions(e) if isinstance(x, Size)}
        sizes |= {n for b in buffers.values() for n in b.shape if isinstance(n, str)}
        verify(Kernel("phase", tuple(buffers.values()), (with_buffers(phase, buffers),), tuple(sizes)))


def _check(statements: Iterable[Statement], found_elsewhere: Iterable[Tensor] = ()) -> None:
    """found_elsewhere : extrema that the statements of their positions find, and outputs that stages are."""
    program = _current.programs[-1]
    inputs: Any = (*program.inputs, *found_elsewhere)
    check(Program(inputs, tuple(statements), program.outputs, program.sizes))
