"""Equations as tensor expressions, by the `loops` of an op's record or by its `te`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from iverson import te
from iverson.core import dtypes
from iverson.core.errors import IversonError
from iverson.core.op import Op
from iverson.core.protocols import Params, Shaped
from iverson.expr.nodes import Expr
from iverson.expr.symbolic_numbers import typical
from iverson.graph.ir.nodes import Equation, Graph, Value, values_of
from iverson.graph.ir.operations import is_of_the_library
from iverson.graph.ir.print import text_and_objects
from iverson.graph.native.large_temporaries import runs_in_blocks
from iverson.ops.rules.notation import over
from iverson.te.elimination.nest_translation import compiles
from iverson.te.language.definitions import of_tensors

if TYPE_CHECKING:
    from iverson.te.ir.expressions import Tensor

#: Of each operand: a tensor, or a number as it is.
Operands = Sequence[Any]


def expression(equation: Equation, operands: Operands) -> Any:
    """Result of ``equation`` as a tensor expression of ``operands``: tensors, and numbers.

    None if loops cannot compute it, or if index notation refuses it: then the op's own kernel runs and says
    which operands it takes.
    """
    if not _is_of_numbers(equation):
        return None
    try:
        return _made(equation, operands)
    except IversonError:
        return None


def _made(equation: Equation, operands: Operands) -> Any:
    """Result as a tensor, by the op's ``loops`` or ``te``; None if it has neither, or gives another shape."""
    op, aval = equation.op, equation.results[0].aval
    if prod(aval.shape) == 0:
        tensor = over(te, aval, lambda: 0)
    elif op.loops is not None:
        tensor = op.loops(te, aval, *operands, **equation.params)
    elif op.te is None or any(type(x) is not Value for x in equation.operands):
        return None
    else:
        tensor = _applied(op.te, operands, equation.params)
    if tensor is None or tuple(tensor.shape) != aval.shape:
        return None
    if tensor.dtype != aval.dtype:  # of a choice between bools and 0
        tensor = over(te, aval, lambda v: v, tensor)
    return tensor


def _applied(build: Callable[..., Tensor], operands: Operands, params: Params) -> Any:
    """Result of an op's definition on tensors, which may depend on each other, or be one and the same.

    It may differentiate in one of them, all others held fixed: so it is made of placeholders, and they are
    replaced.
    """
    placeholders = [te.placeholder(x.shape, x.dtype, x.name) for x in operands]
    tensor = build(*placeholders, **params)
    return of_tensors([tensor], dict(zip(placeholders, operands, strict=True)))[0]


def points(equation: Equation) -> int:
    """Number of points of the largest statement of an equation's expression; 0 if it has none."""
    operands = [placeholder(x) if type(x) is Value else x for x in equation.operands]
    tensor = expression(equation, operands)
    statements = () if tensor is None else te.program_of([tensor]).statements
    extents = [[n for n in s.domain.extents if not isinstance(n, Expr)] for s in statements]
    return max((prod(map(typical, ns)) for ns in extents), default=0)


def is_expression(equation: Equation) -> bool:
    """True if compiled loops can carry an equation out, all stages of its expression included.

    Not one that runs in blocks, for the memory that it would take (`large_temporaries`).
    """
    key = _elementwise_key(equation)
    if key is None:
        key = structure([equation], values_of(equation.operands), equation.results)
    if key is None:
        return _is_expression(equation)
    answer = _known.get(key)
    if answer is None:
        answer = _known[key] = _is_expression(equation)
        while len(_known) > _KEPT:
            _known.pop(next(iter(_known)), None)
    return answer


def _elementwise_key(equation: Equation) -> Any:
    """Key of an equation of an elementwise op without its shapes, as each entry is computed alone.

    None for other ops, and for results without entries.
    """
    op = equation.op
    if not op.elementwise or not is_of_the_library(op) or 0 in equation.results[0].shape:
        return None
    kinds = [x.dtype if type(x) is Value else (type(x), repr(x)) for x in equation.operands]
    return op, tuple(kinds), equation.results[0].dtype, repr(sorted(equation.params.items()))


def _is_expression(equation: Equation) -> bool:
    if runs_in_blocks(equation):
        return False
    operands = [placeholder(x) if type(x) is Value else x for x in equation.operands]
    tensor = expression(equation, operands)
    return tensor is not None and all(compiles(s) for s in te.program_of([tensor]).statements)


#: Whether equations of a structure are expressions.
_known: dict[Any, bool] = {}
_KEPT = 4096


def structure(equations: Sequence[Equation], inputs: Iterable[Value], outputs: Iterable[Value]) -> Any:
    """Key of what equations compute, equal if they differ in nothing but the values' identity; None where
    a parameter is an object that has no text."""
    graph = Graph(tuple(dict.fromkeys(inputs)), tuple(equations), tuple(outputs))
    text, objects = text_and_objects(graph)
    return (text, *objects) if all(isinstance(x, Op) for x in objects) else None


def placeholder(x: Value | Shaped) -> Any:
    """Placeholder tensor for a value or an array."""
    return te.placeholder(x.shape, x.dtype)


def _is_of_numbers(equation: Equation) -> bool:
    values = [x for x in (*equation.operands, *equation.results) if type(x) is Value]
    return not equation.op.multiple and all(dtypes.is_compiled(v.dtype) for v in values)


__all__ = ["expression", "is_expression", "placeholder", "points", "structure"]
