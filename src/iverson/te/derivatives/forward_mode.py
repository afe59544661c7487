"""Forward mode over statements: the tangent of a tensor, one statement per read, in the primal's own domain.

Out[w(p)] += body(p)   ->   dOut[w(p)] += d body / d A[f(p)] * dA[f(p)]   for each read A[f(p)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

from iverson.core.errors import ArgumentTypeError, ShapeError, described
from iverson.expr.nodes import producers_first
from iverson.te.derivatives.expression_derivatives import is_inexact, leaves_of, tangent
from iverson.te.derivatives.recurrence_derivatives import Order, coefficient_recurrence
from iverson.te.derivatives.reduction_derivatives import tangent_of_leaf
from iverson.te.ir.expressions import Tensor, reads_of
from iverson.te.ir.fresh_names import part
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement, computes_of, unit_of
from iverson.te.ir.source_site import operation
from iverson.te.ir.supports import met
from iverson.te.language.nonlinear_reductions import linear_statements
from iverson.te.language.stages import split_guard

#: A kind of tensor: the keys of a mapping are of one, whichever.
Input = TypeVar("Input", bound=Tensor)


def jvp(output: Tensor, tangents: Mapping[Input, Tensor]) -> Tensor:
    """The tangent of ``output`` for tangents of tensors it depends on, each of its tensor's shape.

    An output that depends on none of these has tangent 0. Raises ShapeError for a tangent of another shape.

    >>> from iverson.te.language import definitions as te
    >>> A, dA = te.placeholder((3,), name="A"), te.placeholder((3,), name="dA")
    >>> jvp(te.compute((3,), lambda i: A[i] * A[i], "B"), {A: dA})
    Compute(B.tangent: float64[3])
    """
    if not isinstance(output, Tensor):
        raise ArgumentTypeError(
            operation("jvp"), "output", got=described(output), expected="a tensor expression"
        )
    if not isinstance(tangents, Mapping) or not all(
        isinstance(t, Tensor) for pair in tangents.items() for t in pair
    ):
        raise ArgumentTypeError(
            operation("jvp"), "tangents", got=described(tangents), expected="a dict from tensors to tensors"
        )
    tangent_of: dict[Tensor, Tensor] = {}
    for primal, dt in tangents.items():
        if dt.shape != primal.shape or dt.dtype != primal.dtype:
            raise ShapeError(
                operation("jvp"),
                "tangents",
                got=f"{dt.dtype}{list(dt.shape)} for {primal.name}",
                expected=f"{primal.dtype}{list(primal.shape)}",
            )
        tangent_of[primal] = dt
    for unit in with_rewrites([output]):
        if isinstance(unit, Recurrence):
            new = coefficient_recurrence(unit, 1, tangent_of, partial(_in_recurrence, tangent_of))
            tangent_of |= {m: t for (m, _), t in new.items()}
        elif isinstance(unit, Compute) and unit not in tangent_of:
            statements = [new for s in linear_statements(unit) for new in _tangents(s, tangent_of)]
            if statements:
                tangent_of[unit] = Compute(unit.shape, unit.dtype, part(unit, "tangent"), statements)
    if output not in tangent_of:
        tangent_of[output] = Compute(output.shape, output.dtype, part(output, "tangent"), ())
    return tangent_of[output]


def with_rewrites(outputs: Sequence[Tensor]) -> list[Tensor | Recurrence]:
    """Tensors and recurrences from which a tangent may reach the outputs, producers first.

    These include the tensors that only the statements of a rewritten reduction read.
    """

    def below(unit: Tensor | Recurrence) -> list[Tensor | Recurrence]:
        statements = [s for t in computes_of(unit) for s in linear_statements(t)]
        units = [unit_of(r.tensor) for s in statements for r in reads_of([s.body]) if is_inexact(r)]
        return [u for u in units if u is not unit]

    return producers_first(map(unit_of, outputs), below)


def _in_recurrence(
    tangent_of: Mapping[Tensor, Tensor], s: Statement, _order: int, new: Mapping[Order, Tensor]
) -> list[Statement]:
    return _tangents(s, {**tangent_of, **{m: t for (m, _), t in new.items()}})


def _tangents(s: Statement, tangent_of: Mapping[Tensor, Tensor]) -> list[Statement]:
    """Statements for the tangent of the tensor that ``s`` writes: one for each read or reduction."""
    result = []
    for leaf in leaves_of(s.body):
        leaf_tangent = tangent_of_leaf(leaf, tangent_of)
        body = None if leaf_tangent is None else tangent(s.body, {leaf: leaf_tangent})
        if body is not None:
            where, body = split_guard(body)
            domain = Domain(s.domain.axes, met((*s.domain.where, *where), body, "sum"))
            result.append(Statement(None, s.write, body, domain, "sum"))
    return result
