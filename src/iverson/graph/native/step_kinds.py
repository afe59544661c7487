"""Step kinds: how a program carries out each equation, and the bodies of its loops and branches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iverson.codegen.programs import blas_calls
from iverson.core import dtypes
from iverson.core.entries import Stored
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import UNDEFINED, Equation, Graph, Operand, Value, subgraphs
from iverson.graph.ir.operations import mended
from iverson.graph.native.equation_expressions import is_expression
from iverson.graph.native.fourier_calls import is_long
from iverson.graph.native.indexed_writes import is_write
from iverson.graph.native.layout_assignment import in_order_of_reads
from iverson.graph.native.library_calls import is_call
from iverson.graph.native.recurrence_loops import is_recurrence
from iverson.graph.native.sort_loops import is_order, is_position
from iverson.graph.native.sparse_row_products import is_rows
from iverson.graph.native.strided_views import Strided, view
from iverson.graph.passes import simplified_body

PRODUCTS = ("matmul", "matmul_moved")
#: Ops whose graphs are blocks of steps of the program around them (`graph.lowering.control_flow_steps`).
BLOCKS = ("scan", "while", "cond", "checkpoint")


class Kinds:
    """Kind of each equation: "view", "product", "mended", "recurrence", "order", "call", "write", "rows",
    "expression", "block" or "library".

    is_body : True for the body of a loop or branch, where a library step would run all of it in Python.
    """

    def __init__(self, graph: Graph, is_body: bool = False) -> None:
        self.is_body = is_body
        self.views: dict[Value, Strided] = {}
        self.inputs = set(graph.inputs)
        self.kinds = {id(e): self._kind(e) for e in graph.equations}

    def of(self, e: Equation) -> str:
        return self.kinds[id(e)]

    def _kind(self, e: Equation) -> str:
        """Kind of ``e``, by the first test that holds; for a view, ``views`` is extended."""
        values = [x for x in (*e.operands, *e.results) if type(x) is Value]
        if UNDEFINED in e.operands or not all(map(_is_dense, values)):
            return "library"
        if e.op.name in BLOCKS:
            return "block" if _is_block(e) else "library"
        if e.op is mended:
            return "mended" if _is_block(e) else "library"
        strided = view(e, self.views)
        if strided is not None:
            self.views[e.results[0]] = strided
            return "view"
        alike = len({v.dtype for v in values}) == 1 and values[0].dtype.name in blas_calls.LETTERS
        if e.op.name in PRODUCTS and alike:
            return "product"
        if is_recurrence(e):
            return "recurrence"
        # Of a value that is computed here, a nest need not store it.
        if is_order(e) or (is_position(e) and e.operands[0] in self.inputs):
            return "order"
        if is_call(e):
            return "library" if not self.is_body and is_long(e) else "call"
        if is_write(e):
            return "write"
        if is_rows(e):
            return "rows"
        return "expression" if is_expression(e) else "library"


def _is_dense(v: Value) -> bool:
    return dtypes.is_compiled(v.dtype) and not isinstance(v.aval.support, Stored)


def _is_block(e: Equation) -> bool:
    """True if a program can carry out all graphs of an equation, whose operands are values with entries."""
    values = [x for x in (*e.operands, *e.results) if type(x) is Value]
    has_entries = len(values) == len(e.operands) + len(e.results) and not any(0 in v.shape for v in values)
    return has_entries and all(body_of(graph) is not None for _, graph in subgraphs(e))


@dataclass(frozen=True, eq=False)
class Body:
    """A graph that a block of steps carries out. Its outputs are results of equations, no two the same."""

    graph: Graph
    kinds: Kinds


def body_of(graph: Graph) -> Body | None:
    """The body for a graph that a program can run; None if one of its equations is a library step. Cached."""
    cell: tuple[Body | None] = graph.once("as a block", lambda: (_body(graph),))
    return cell[0]


def _body(graph: Graph) -> Body | None:
    graph = in_order_of_reads(with_own_outputs(simplified_body(graph)))
    if any(type(x) is not Value for x in graph.outputs) or not all(map(_is_dense, graph.inputs)):
        return None
    kinds = Kinds(graph, is_body=True)
    return None if "library" in kinds.kinds.values() else Body(graph, kinds)


def with_own_outputs(graph: Graph) -> Graph:
    """The graph with a copy for each output that is an input, a constant, or another output too.

    return (%0, %1, %1)   ->   %2 = copy(%0); %3 = copy(%1); return (%2, %1, %3)
    """
    results = {v for e in graph.equations for v in e.results}
    copies: list[Equation] = []
    outputs: list[Operand] = []
    for x in graph.outputs:
        if type(x) is Value and x not in results:
            copy = Value(x.aval)
            copies.append(Equation(TABLE["copy"], (x,), {}, (copy,)))
            x = copy
        results.discard(x)
        outputs.append(x)
    return replace(graph, equations=(*graph.equations, *copies), outputs=tuple(outputs))


__all__ = ["BLOCKS", "PRODUCTS", "Body", "Kinds", "body_of", "with_own_outputs"]
