"""Fusion of an extremum with its position, which derivatives need; statements that write a whole tensor."""

from __future__ import annotations

from collections.abc import Sequence

from iverson.expr.nodes import same
from iverson.te.elimination.nest_translation import compiles
from iverson.te.ir.expressions import Tensor, Var, scoped, variables
from iverson.te.ir.index_arithmetic import is_range
from iverson.te.ir.nodes import Statement, recurrence_of, step_axes
from iverson.te.ir.ragged_axes import bounds_in


def together(statements: Sequence[Statement]) -> tuple[tuple[Statement, ...], dict[Tensor, Tensor]]:
    """Statements with each extremum and its position found by one statement, and a map of their tensors.

    The map is from the tensor of positions to the tensor of extrema; one statement now writes both.

    ``M[i] max= f(i, k); ...; P[i] argmax= f(i, k), k  ->  P[i], M[i] argmax= k, f(i, k); ...``
    """
    result = list(statements)
    extrema: dict[Tensor, Tensor] = {}
    for place in (s for s in statements if s.combine.startswith("arg")):
        values = [s for s in result if _is_position_of(place, s) and s.tensor not in extrema.values()]
        if values:
            earlier = min(result.index(values[0]), result.index(place))
            result = [s for s in result if s is not values[0] and s is not place]
            result.insert(earlier, place)
            extrema[place.tensor] = values[0].tensor
    return tuple(result), extrema


def _is_position_of(place: Statement, value: Statement) -> bool:
    """True if ``place`` finds the positions of all extrema of ``value``, over the same points."""
    domains = place.domain, value.domain
    return (
        place.combine == f"arg{value.combine}"
        and recurrence_of(value.tensor) is None
        and recurrence_of(place.tensor) is None
        and compiles(place)
        and covers_all(place)
        and covers_all(value)
        and same((place.body, *place.write), (value.body, *value.write))
        and same(domains[0].axes, domains[1].axes)
        and same(domains[0].where, domains[1].where)
        and value.body.dtype == value.tensor.dtype
    )


def covers_all(s: Statement) -> bool:
    """True if a statement writes every entry of its tensor, so that the tensor need not be filled before.

    False for a statement with a walk: its entries start from a fill. True for a guarded reduction: each
    entry gets the accumulator's value. False for other guarded statements, and for axes whose bounds depend
    on data; and for sums of terms with reductions of their own, which have no accumulator around them.
    """
    if s.combine != "assign" and scoped(s.roots):
        return False
    reduces = s.combine != "assign" and len(s.domain.axes) > len(s.write)
    if s.walk is not None or (s.domain.where and not reduces):
        return False
    write_axes = [w for w in s.write if isinstance(w, Var)]
    if len(write_axes) != len(s.write) or len(set(write_axes)) != len(write_axes):
        return False
    axes = set(s.domain.axes).difference(bounds_in(s.domain)[0])
    return all(v in axes and is_range(v, n) for v, n in zip(write_axes, s.tensor.shape, strict=True))


def starts_whole(s: Statement) -> bool:
    """True if a member's first statement writes all of its tensor at every step: it then needs no fill."""
    steps = step_axes(s.tensor)
    varies = all(any(v not in steps and v.kind != "size" for v in variables([c])) for c in s.domain.where)
    return varies and covers_all(s)
