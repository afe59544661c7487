"""Graphs of tensor functions: traced, differentiated, simplified, lowered to programs and called.

A compiled function has a graph for each kind of arguments. The pullback of a graph is one too, for any
pattern of cotangents; `specialize` leaves out what a pattern does not define or demand.

    >>> import iverson as iv
    >>> from iverson import graph
    >>> x, y = iv.asarray([1.0, 2.0]), iv.asarray([3.0, 4.0])
    >>> product = iv.jit(lambda x, y: x * iv.sin(y)).graph(x, y)
    >>> for line in graph.show(product).splitlines():
    ...     line
    'graph(%0: float64[2], %1: float64[2]) {'
    '  %2: float64[2] = sin(%1)'
    '  %3: float64[2] = multiply(%0, %2)'
    '  return (%3)'
    '}'
    >>> gradient = graph.differentiate(product)
    >>> gradient.captures, gradient.df_input_vjps
    ((('input', 0), ('input', 1), ('output', 1)), (0, 1))
    >>> in_x = graph.specialize(gradient.df, [True, False], [True, False])
    >>> for line in graph.show(in_x).splitlines()[1:-2]:
    ...     line
    '  %5: float64[2] = grad_of[body=graph(%0: float64[2], %3: float64[2]) {'
    '    %4: float64[2] = multiply(%0, %3)'
    '    return (%4)'
    "  }, count=1, name='multiply'](%0, %3)"
    >>> graph.interpret(gradient.f, [x, y])[0]
    iverson.Tensor([ 0.14112001, -1.51360499])

The grammar is on one page in `iverson.graph.ir.nodes`.

This package may import all packages from `autograd` down (`ops`, `kernels`, `te`, `codegen`, `layouts`,
`expr`, `core`). Of its sub-packages, each may import those before it in this order: `ir`, `tracing`,
`derivatives`, `passes`, `native`, `lowering`, `sparse`, `calls`, `control` (import-linter refuses cycles).

From a function to its call:

- `ir`: graphs as data: grammar, printer, verifier, interpreter, and the ops that only graphs have.
- `tracing`: a function run once on values without entries and written down, with the state that it captures.
- `control`: branches, loops and checkpoints, as ops whose parameters are graphs, and their derivatives.
- `derivatives`: pullbacks and pushforwards of graphs, specialised to the cotangents and demands of a call.
- `passes`: rewrites that keep what a graph computes and leave less work.
- `sparse`: sparse lowering: graphs on sparse values as graphs on their entries and index arrays.
- `lowering`: graphs as programs: segments, rematerialisation, copy elision, the disk cache.
- `native`: native code for the equations of a segment: views, fused loop nests, sorts, recurrences, writes.
- `calls`: compiled graphs as ops, and the programs that run for them.
"""

from iverson.graph.control import scan_loop, while_loop  # noqa: F401 - they define their ops
from iverson.graph.derivatives.differentiation import Gradient, differentiate
from iverson.graph.derivatives.pullback_branches import lower_grad_of
from iverson.graph.derivatives.shape_inference import with_shapes
from iverson.graph.derivatives.specialization import specialize
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import UNDEFINED, Graph
from iverson.graph.ir.parse import parse
from iverson.graph.ir.print import show
from iverson.graph.ir.verify import check

__all__ = [
    "UNDEFINED",
    "Gradient",
    "Graph",
    "check",
    "differentiate",
    "interpret",
    "lower_grad_of",
    "parse",
    "show",
    "specialize",
    "with_shapes",
]


def __dir__() -> list[str]:
    return sorted(__all__)
