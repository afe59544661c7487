"""Forms in which cotangents and tangents enter the bodies of control flow, and go from step to step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from iverson.autograd.mode import is_grad_enabled
from iverson.autograd.record import selected
from iverson.autograd.stored_entries import spread
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle
from iverson.core.entries import Box
from iverson.core.protocols import Shaped
from iverson.graph.control.bodies import aval, zero
from iverson.graph.ir.derivative_interface import WHOLE, Crossing, crossing_of
from iverson.graph.ir.nodes import UNDEFINED, Undefined, Value


def form_of(x: Handle) -> Crossing:
    """Form in which a cotangent or tangent enters a loop: the entries in its box alone, if it has one."""
    crossing = crossing_of(x, boxes=True)
    support = aval(x, is_grad_enabled()).support
    if crossing.region is None and not crossing.selects and isinstance(support, Box):
        return Crossing(x.shape, support.region)
    return crossing


def arriving_aval(x: Shaped | Value, form: Crossing) -> Aval:
    """Aval of the first array that crosses for a value with the shape and dtype of ``x``."""
    return Aval(x.shape if form.region is None else form.region.shape, x.dtype)


def taken_in(
    handles: Iterable[Handle | None],
) -> tuple[list[Aval | None], tuple[Crossing, ...], list[Any]]:
    """Bring cotangents or tangents (None: undefined) in the forms in which they enter a body.

    Returns the aval of the first array that crosses for each, the forms, and all handles that cross.
    """
    spread_handles = [None if x is None else spread(x) for x in handles]
    forms = [WHOLE if x is None else form_of(x) for x in spread_handles]
    pairs = list(zip(spread_handles, forms, strict=True))
    avals = [None if x is None else arriving_aval(x, form) for x, form in pairs]
    return avals, tuple(forms), [y for x, form in pairs if x is not None for y in form.apart(x)]


def converted(
    form: Crossing, crossing: Crossing, parts: Sequence[Handle | Undefined], like: Shaped | Value
) -> list[Any]:
    """A carry in the form in which a step takes it, from what the step before it left.

    crossing, parts : form and handles of what was left; UNDEFINED for a carry that is zero.
    """
    if parts[0] is UNDEFINED:
        return form.apart(zero(like))
    return [*parts] if crossing == form else taken_by(form, crossing.together(parts))  # type: ignore[arg-type]


def taken_by(form: Crossing, x: Handle) -> list[Any]:
    """A carry in the form in which a step takes it."""
    return form.apart(x if form.selects else selected(x))
