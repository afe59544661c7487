"""Graphs of tensor functions: traced, differentiated, specialised, evaluated.

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

The grammar is on one page in `iverson.graph.ir.nodes`. Above `te` and `autograd`, below `transforms`.
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
