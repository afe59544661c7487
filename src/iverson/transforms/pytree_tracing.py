"""Traces of functions of pytrees: the graph of a function, and how its results are packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from iverson.array_api.sparse_arrays.sparse_construction import with_numbers
from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.tracked_guards import check_no_leaves
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, Operand, alias, is_tracked, rewrap, semantics_of, unwrap, value_of
from iverson.graph.ir.entry_ops import as_stored
from iverson.graph.tracing.captured_state import TensorCell, TraceCells, contents
from iverson.graph.tracing.trace import Trace, is_stored
from iverson.kernels.deferred_patterns import origin_of
from iverson.transforms.trees import Function, Tree, opened, unflatten

if TYPE_CHECKING:
    from iverson.kernels.deferred_patterns import Stored

#: A function is traced so many times to find which tensors from outside it writes.
_TIMES = 4


def differentiates(handles: Sequence[Handle]) -> bool:
    """Return True if a derivative may need the entries of an argument that its layout does not store.

    This is the case if an argument is tracked and stored sparsely, and derivatives are recorded.
    """
    return is_grad_enabled() and any(is_tracked(x) and is_stored(value_of(x)) for x in handles)


#: The arguments of a call from its handles.
Arguments: TypeAlias = Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]


class TracedFunction:
    """A function, run once on handles without entries.

    graph : its computation; the last inputs are the tensors and cells in ``captured``, tracked or written.
    structure : the structure of its result; ``leaves`` are its leaves, of which tensors are graph outputs.
    written : positions of the handles that it writes in place; their new values are outputs after results.
    origins : for each input, the origin of the entries that eager code would store
        (`kernels.deferred_patterns`); ``stored`` has that of each output, and ``reads_patterns`` is True if
        the function asked for stored entries.
    once : True if it is called right after it was traced, and never again.
    cells_change : True if the value of a cell may be on another pattern in the next call.
    as_stored : True if outputs are stored as eager code stores them, as far as that is known.
    given : operands like those that calls will pass for the inputs: see `Level.is_differentiated`.
    put : the cells that it writes, each with True if it gets a tensor: the last outputs, in order.
    cells : the cells of tensors and gradients that outlive the trace.
    """

    def __init__(
        self,
        function: Function,
        name: str,
        avals: Sequence[Aval],
        arguments: Arguments,
        results: Callable[[list[Tree]], list[Tree]] = list,
        *,
        stateful: bool = False,
        once: bool = False,
        cells_change: bool = False,
        as_stored: bool = False,
        origins: Sequence[Stored] = (),
        given: Sequence[Handle] = (),
    ) -> None:
        self._results, self._as_stored = results, as_stored
        self._how = {
            "stateful": stateful,
            "once": once,
            "cells_change": cells_change,
            "is_differentiated": differentiates(given),
        }
        self._origins = origins or (None,) * len(avals)
        outside_tensors: list[Any] = []
        for times in count(1):
            new_tensors = self._trace(function, name, avals, arguments, outside_tensors, times > _TIMES)
            if not new_tensors:
                break
            outside_tensors += new_tensors
        del self._results, self._origins  # a cycle through it would keep alive what the function wrote

    def _trace(
        self,
        function: Function,
        name: str,
        avals: Sequence[Aval],
        arguments: Arguments,
        outside_tensors: Sequence[Handle],
        last: bool,
    ) -> list[Any]:
        """Trace the function with ``outside_tensors`` as inputs, and set the attributes from the trace.

        Returns further tensors from outside that must be inputs too (the function writes them): the caller
        traces again. An empty list means that the trace is complete.
        last : True in the last attempt: tensors that are still new in each trace were created by the
            function, and outlive it.
        """
        with Trace(name, **self._how) as level, recording(True):
            cells: TraceCells | None = level.cells
            for x in outside_tensors if cells is not None else ():
                cells.take(x)  # type: ignore[union-attr]
            handles = list(map(level.input, avals, self._origins))
            inputs = list(map(alias, handles))
            outputs = self._outputs(function, arguments(inputs))
            check_no_leaves(inputs, name)
            pairs = enumerate(zip(handles, inputs, strict=True))
            self.written = [k for k, (a, b) in pairs if value_of(a) is not value_of(b)]
            outputs += [inputs[k] for k in self.written]
            level.drop_temporaries()
            self.put: list[tuple[Any, bool]] = []
            if cells is not None:
                if last:
                    cells.leave_temporaries()
                writes = cells.written()
                if cells.again:
                    missing, cells.again = cells.again, []  # which would keep them alive
                    return missing
                self.put = [(cell, x is not None) for cell, x in writes]
                outputs += [x for _, x in writes if x is not None]
                level.captured += cells.inputs()
            if self._as_stored:
                outputs = list(map(as_stored, outputs))
            self.graph = level.graph(outputs)
            self.stored = list(map(origin_of, outputs))
            self.reads_patterns = level.reads_patterns
        self.captured = [x for _, x in level.captured]
        # Cells have guards of their own; what is gone was the function's.
        cell_ids = {id(None)} | {
            id(c.now()) for c in (cells.kept() if cells else ()) if isinstance(c, TensorCell)
        }
        self._read = [record for record in level.read.values() if id(record[0]()) not in cell_ids]
        self.is_pure = not self.written and not self.put
        self._guards = [] if cells is None else cells.guards
        self.cells = [] if cells is None else cells.kept()
        return []

    def _outputs(
        self, function: Function, arguments: tuple[tuple[object, ...], dict[str, object]]
    ) -> list[Any]:
        """Call the function; return new handles for the tensors in its result, and set ``structure`` and
        ``leaves``.
        """
        args, kwargs = arguments
        leaves, self.structure = opened(function(*args, **kwargs))
        leaves = self._results(leaves)
        #: Of each leaf, what it means beyond its handle, or what it is where it is no tensor.
        self.leaves = [(semantics_of(x), True) if isinstance(x, Operand) else (x, False) for x in leaves]
        self._pack = self._packing(leaves)
        return [alias(with_numbers(unwrap(x))) for x in leaves if isinstance(x, Operand)]

    def _packing(self, leaves: Sequence[object]) -> Callable[[Sequence[Any]], Any] | None:
        """Function that makes the result from handles in one call, if all leaves are tensors without
        wrappers; else None.
        """
        if any(semantics is not None or not is_tensor for semantics, is_tensor in self.leaves):
            return None
        tree = unflatten(self.structure, leaves)
        if len(leaves) == 1 and tree is leaves[0]:
            return itemgetter(0)
        if type(tree) in (tuple, list) and len(tree) == len(leaves) and all(map(is_, tree, leaves)):
            return type(tree)
        return partial(unflatten, self.structure)

    @property
    def own(self) -> int:
        """Number of the first outputs of the graph that are results of the function; new values of tensors
        follow.
        """
        return sum(is_tensor for _, is_tensor in self.leaves)

    def holds(self) -> bool:
        """True if the outside tensors that the function read or writes are as they were traced."""
        return self.surroundings_hold() and False not in [cell.holds() for cell in self.cells]

    def surroundings_hold(self) -> bool:
        """Same as `holds`, but for the state that calls read anew or write."""
        has_dead = False
        for where, content, was_tracked in self._read:
            if (x := where()) is None:
                has_dead = True
            elif contents(x) is not content or is_tracked(unwrap(x)) is not was_tracked:
                return False
        if has_dead:  # tensors that the function itself made
            self._read = [record for record in self._read if record[0]() is not None]
        return not self._guards or False not in [guard() for guard in self._guards]

    @property
    def steps(self) -> bool:
        """True if the function writes a leaf (a parameter, for example): a call is then run without
        recording.
        """
        return any(isinstance(cell, TensorCell) and cell.is_leaf for cell, _ in self.put)

    def donated(self) -> dict[int, int]:
        """Map from each input whose old value a call replaces to the output with the new value, as numbers.

        These are arguments and captured tensors that the function writes; their buffers may be reused.
        """
        argument_count = len(self.graph.inputs) - len(self.captured)
        first = self.own
        output_of = {k: first + n for n, k in enumerate(self.written)}
        at = first + len(self.written)
        where = {id(x): argument_count + k for k, x in enumerate(self.captured)}
        for cell, is_tensor in self.put:
            if is_tensor and id(cell) in where:
                output_of[where[id(cell)]] = at
            at += is_tensor
        return output_of

    def inputs(self) -> Sequence[Any]:
        """Handles of the captured tensors and cells, with their present values."""
        if not self.captured:
            return ()
        return [x if isinstance(x, Operand) else x.now() for x in self.captured]

    def outside(self) -> list[Any]:
        """Tensors from outside that the function reads or writes, with their present values."""
        handles = [unwrap(x) for where, *_ in self._read if (x := where()) is not None]
        return [*handles, *self.inputs()]

    def packed(self, handles: Sequence[Handle]) -> Any:
        """Result of the function, as the user gets it, from ``handles`` for the tensors in it."""
        if self._pack is not None:
            return self._pack(handles)
        iterator = iter(handles)
        leaves = [rewrap(x, next(iterator)) if is_tensor else x for x, is_tensor in self.leaves]
        return unflatten(self.structure, leaves)
