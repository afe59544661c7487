"""Fusion of an extremum with its position, which the derivative needs: one pass finds both."""

from __future__ import annotations

from collections.abc import Sequence

from iverson.expr.nodes import same
from iverson.te.elimination.nest_translation import compiles
from iverson.te.ir.expressions import Tensor, Var
from iverson.te.ir.index_arithmetic import is_range
from iverson.te.ir.nodes import Statement, recurrence_of
from iverson.te.ir.ragged_axes import bounds_in


def together(statements: Sequence[Statement]) -> tuple[tuple[Statement, ...], dict[Tensor, Tensor]]:
    """The statements without extrema whose positions are found as well; and by position, the extremum.

    ``M[i] max= f(i, k); ...; P[i] argmax= f(i, k), k  ->  P[i], M[i] argmax= k, f(i, k); ...``
    """
    result = list(statements)
    found: dict[Tensor, Tensor] = {}
    for place in (s for s in statements if s.combine.startswith("arg")):
        values = [s for s in result if _is_position_of(place, s) and s.tensor not in found.values()]
        if values:
            earlier = min(result.index(values[0]), result.index(place))
            result = [s for s in result if s is not values[0] and s is not place]
            result.insert(earlier, place)
            found[place.tensor] = values[0].tensor
    return tuple(result), found


def _is_position_of(place: Statement, value: Statement) -> bool:
    """Whether a statement finds where another finds its values, for all entries, at the same points."""
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
    """Whether a statement reaches every entry of its tensor, so that nothing need be filled in before.

    With a walk it is not asked; an entry's first value then comes from a fill. A guarded reduction does,
    as every entry gets what its accumulator holds; other guarded statements do not, nor do axes whose bounds
    depend on data.
    """
    reduces = s.combine != "assign" and len(s.domain.axes) > len(s.write)
    if s.walk is not None or (s.domain.where and not reduces):
        return False
    own = [w for w in s.write if isinstance(w, Var)]
    if len(own) != len(s.write) or len(set(own)) != len(own):
        return False
    axes = set(s.domain.axes).difference(bounds_in(s.domain)[0])
    return all(v in axes and is_range(v, n) for v, n in zip(own, s.tensor.shape, strict=True))
