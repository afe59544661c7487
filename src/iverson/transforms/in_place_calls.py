"""`InPlaceCall`: a call of a compiled stateful function on state that is as the last call left it.

A training step reads and writes each parameter, each moment and each gradient. The first call asks of each of
them all that the trace counts on; a later one asks whether the answers can have changed at all
(`iverson.handles.settled_state`), and then runs the program on the same arrays, which it writes in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from iverson.core.counting import work
from iverson.core.dispatch import Handle, Plain, levels, make_handle, value_of
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.lowering.graph_lowering import Lowered
from iverson.graph.tracing.captured_state import Cell, GradientCell, NumberCell, TensorCell
from iverson.handles.settled_state import SettledState

if TYPE_CHECKING:
    from iverson.transforms.pytree_tracing import TracedFunction

#: What a call gives where the state is not as it was.
CHANGED: Any = object()


class InPlaceCall:
    """Calls of one program on settled state; see `of`.

    order : picks the program's arrays from those of the arguments, the state and the numbers.
    results : the numbers of the program's outputs that are the function's results.
    gradients : the places of gradients that a call replaces, each with the number of an output.
    removed : the places of gradients that a call empties.
    """

    def __init__(
        self,
        traced: TracedFunction,
        program: Lowered,
        state: SettledState,
        numbers: Sequence[NumberCell],
        order: Sequence[int],
    ) -> None:
        self._traced, self._program, self._state, self._numbers = traced, program, state, numbers
        self._order: Any = itemgetter(*order, 0)
        self._places = [cell for cell in traced.cells if isinstance(cell, GradientCell)]
        self.results: list[int] = []
        self.gradients: list[tuple[int, GradientCell]] = []
        self.removed: list[GradientCell] = []

    @classmethod
    def of(cls, traced: TracedFunction, compiled: Compiled, arguments: int) -> InPlaceCall | None:
        """The calls of a traced function that writes state, all of it in place and by one program.

        None for other functions, and for state that other code can reach by another way than its handles.

        arguments : how many inputs of the graph are arguments.
        """
        program = compiled.lowered
        if program is None or not traced.steps or traced.written or (direct := program.direct) is None:
            return None
        state = {
            k: x.now() if isinstance(x, TensorCell) else x for k, x in enumerate(traced.captured, arguments)
        }
        numbers = {k: x for k, x in state.items() if isinstance(x, NumberCell)}
        tensors = {k: x for k, x in state.items() if k not in numbers}
        targets = {direct.inputs[~n] for n in direct.outputs if n < 0}
        if arguments + len(state) != len(program.graph.inputs) or not targets <= tensors.keys():
            return None
        puts = [(cell, direct.outputs[k] if k >= 0 else None) for cell, k in numbered(traced)]
        for cell, n in puts:
            if isinstance(cell, TensorCell):
                if n is None or n >= 0 or tensors.get(direct.inputs[~n]) is not cell.now():
                    return None
            elif n is not None and n < 0:
                return None
        places = [*targets, *(k for k in tensors if k not in targets)]
        settled = SettledState.of([tensors[k] for k in places], len(targets))
        if settled is None or min(direct.outputs[: traced.own], default=0) < 0:
            return None
        where = dict(zip((*range(arguments), *places, *numbers), count(), strict=False))
        result = cls(traced, program, settled, list(numbers.values()), [where[k] for k in direct.inputs])
        result.results = list(direct.outputs[: traced.own])
        result.gradients = [(n, c) for c, n in puts if n is not None and isinstance(c, GradientCell)]
        result.removed = [c for c, n in puts if n is None and isinstance(c, GradientCell)]
        return result

    def __call__(self, handles: Sequence[Handle], plain: Plain) -> Any:
        """The function's result for arguments with the values in ``plain``; `CHANGED` if the state is not as
        the last call left it.
        """
        if work.active.count or levels() or not self._state.ids.isdisjoint(map(id, handles)):
            return CHANGED
        arrays = self._state.arrays()
        if arrays is None or not self._traced.surroundings_hold():
            return CHANGED
        if False in [place.holds() for place in self._places]:
            return CHANGED
        numbers = [value_of(cell.now()) for cell in self._numbers]
        outputs = self._program.run_directly(self._order((*plain.values, *arrays, *numbers))[:-1])
        for k, cell in self.gradients:
            cell.put(make_handle(outputs[k]))
        for cell in self.removed:
            cell.put(None)
        return self._traced.packed([make_handle(outputs[k]) for k in self.results])


def numbered(traced: TracedFunction) -> list[tuple[Cell, int]]:
    """Cells that a traced function writes, with the output's number, or -1 for a gradient that is removed."""
    outputs = count(traced.own)
    return [(cell, next(outputs) if is_tensor else -1) for cell, is_tensor in traced.put]
