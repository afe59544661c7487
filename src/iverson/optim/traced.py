"""Traced optimizer step: parameters, state and rate are captured state of a trace, which records the formula.

The part of a parameter that a step touches is found from what is known of its gradient: a box, a pattern, or
the places that an index array names, which the program reads. So an entry moves as in eager mode: where its
gradient may be nonzero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from iverson.array_api.elementwise import imag, real
from iverson.array_api.entries.joining import concat, stack
from iverson.autograd.mode import recording
from iverson.autograd.record import selected
from iverson.core.dispatch import Cells, unwrap, value_of
from iverson.core.entries import NOTHING, Box, Stored
from iverson.core.errors import GraphError
from iverson.core.protocols import DType, NDArray
from iverson.core.shapes import Shape
from iverson.core.table import F
from iverson.graph.ir.operations import last_writers
from iverson.graph.tracing.captured_state import TraceCells
from iverson.handles import Tensor
from iverson.layouts import Zero, support_of
from iverson.masked import MaskedTensor
from iverson.optim.touched_parts import State, spread_state

if TYPE_CHECKING:
    from iverson.graph.ir.nodes import Equation, Value
    from iverson.graph.tracing.trace import Trace
    from iverson.handles.array import Array
    from iverson.layouts import Pattern

#: The equation that made each value of a trace.
Makers = Mapping["Value", "Equation"]
#: Ops whose result is their operand.
SAME = ("identity", "copy", "selected")


class Traceable(Protocol):
    """An optimizer, as a step of a trace sees it (`iverson.optim.base.Optimizer`)."""

    params: list[Any]
    lr: float
    _count: Any
    _facts: Any

    @property
    def _groups(self) -> Sequence[Traceable]: ...

    def _checked(self, k: int, p: Array, g: Array) -> Array: ...
    def _state(self, k: int, shape: Shape, dtype: DType) -> State: ...
    def _own(self, k: int) -> Traceable: ...
    def _update(
        self, value: NDArray | Tensor, gradient: NDArray | Tensor, state: State, lr: float | Tensor
    ) -> None: ...


def step(opt: Traceable, gradients: Sequence[Array | None], cells: Cells) -> None:
    """Record one step of an optimizer in the trace of ``cells``.

    gradients : one for each parameter, or None. The trace is valid as long as the optimizer's other
        hyperparameters do not change: a guard for this is added.
    """
    assert isinstance(cells, TraceCells)
    with recording(False):
        checked = [
            (k, p, opt._checked(k, p, g))
            for k, (p, g) in enumerate(zip(opt.params, gradients, strict=True))
            if g is not None
        ]
        makers = {v: e for e in cells.level.equations for v in e.results}
        rates: dict[int, Tensor] = {}
        for k, p, g in checked:
            group = opt._own(k)
            if id(group) not in rates:
                rates[id(group)] = cells.number(_rate_of(group))
            _step(opt, k, p, g, rates[id(group)], cells, makers)
        count = cells.take(opt._count)
        count += 1
    facts_before = [
        (group, group._facts) for group in {id(group): group for group in (opt, *opt._groups)}.values()
    ]
    cells.guards.append(lambda: all(group._facts is facts for group, facts in facts_before))


def _step(
    opt: Traceable, k: int, p: Array, g: Array, rate: Tensor, cells: TraceCells, makers: Makers
) -> None:
    """Record the step of parameter ``k`` at a rate, at the entries that the gradient ``g`` covers."""
    plain = unwrap(p)
    place = _place(plain, g, cells, makers)
    if place is None:
        return
    parameter = cells.take(plain)
    value = parameter if place.pattern is None else F.values_at(parameter, pattern=place.pattern)
    gradient = place.gradient(selected(unwrap(g))).astype(value.dtype)
    is_complex = value.dtype.kind == "c"
    if is_complex:
        value, gradient = _pairs(value), _pairs(gradient)
    handles = opt._state(k, value.shape, value.dtype)
    if place.axes:
        spread_state(handles, place.axes, value.shape)
    state = {name: cells.take(x) for name, x in handles.items()}
    part = {name: place.read(x) for name, x in state.items()}
    value_part = place.read(value)
    opt._own(k)._update(value_part, gradient, part, rate)
    for name, x in part.items():
        place.write(state[name], x)
    place.write(value, value_part)
    if is_complex:
        value = value[..., 0] + 1j * value[..., 1]
    if place.pattern is not None:
        value = F.from_values(value, pattern=place.pattern)
    if value is not parameter:
        parameter._become(value)


def _rate_of(group: Traceable) -> Callable[[], float]:
    """A function that reads the rate of a group."""
    return lambda: float(group.lr)


def _pairs(x: Tensor) -> Tensor:
    """Real tensor with complex entries as pairs along a new last axis."""
    return stack([real(x), imag(x)], axis=-1)


# --- where a gradient may be nonzero ----------------------------------------------------------------


class _Whole:
    """Place of a step: all entries of a parameter, or all stored entries of a sparse one with ``pattern``.

    axes : the number of leading axes that are indexed.
    """

    axes = 0

    def __init__(self, pattern: Pattern | None = None) -> None:
        self.pattern = pattern

    def read(self, x: Tensor) -> Tensor:
        """Entries of ``x``, the parameter or an array of its state, at this place."""
        return x

    def write(self, x: Tensor, part: Tensor) -> None:
        """Write ``part``, changed entries that `read` returned, back into ``x``."""

    def gradient(self, g: Tensor) -> Tensor:
        """Entries of the gradient ``g`` at this place."""
        return g if self.pattern is None else F.values_at(g, pattern=self.pattern)


class _Box(_Whole):
    """Place of a step: a box of the leading axes."""

    def __init__(self, index: tuple[slice, ...]) -> None:
        super().__init__()
        self.index, self.axes = index, len(index)

    def read(self, x: Tensor) -> Tensor:
        return x[self.index[: x.ndim]]

    def write(self, x: Tensor, part: Tensor) -> None:
        x[self.index[: x.ndim]] = part

    def gradient(self, g: Tensor) -> Tensor:
        return g[self.index]


class _Listed(_Whole):
    """Place of a step: entries that index arrays name on the leading axes; ``entries`` is the gradient there.

    An entry that is named several times has the sum as its gradient; each name computes and writes the same.
    """

    def __init__(self, indices: Sequence[Tensor | NDArray], entries: Tensor, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.indices, self.entries, self.axes = list(indices), entries, len(indices)
        self.at = tuple(range(self.axes))
        self.shape = shape[: self.axes]

    def read(self, x: Tensor) -> Tensor:
        entries: Tensor = F.gather(x, *self.indices, axes=self.at)
        return entries

    def write(self, x: Tensor, part: Tensor) -> None:
        x._become(F.gather_put(x, part, *self.indices, axes=self.at))

    def gradient(self, g: Tensor) -> Tensor:
        writers = last_writers(*self.indices, shape=self.shape)
        total = F.scatter_add(self.entries, writers, axes=(0,), shape=self.entries.shape)
        gradient: Tensor = F.gather(total, writers, axes=(0,))
        return gradient


def _place(plain: Tensor, g: Array, cells: TraceCells, makers: Makers) -> _Whole | None:
    """Place of the step that gradient ``g`` asks for; None if it covers nothing.

    Raises GraphError if a sparse parameter does not have the pattern of the gradient.
    """
    value, shape = value_of(unwrap(g)), plain.shape
    support = support_of(value)
    if type(value) is Zero or support is NOTHING:
        return None
    if isinstance(g, MaskedTensor):
        keys = g._mask.keys
        return _Listed(np.unravel_index(keys, shape), unwrap(g), shape) if keys.size and shape else None
    parameter_support = support_of(value_of(plain))
    if isinstance(parameter_support, Stored):
        if isinstance(support, Stored) and support.pattern is parameter_support.pattern:
            return _Whole(parameter_support.pattern)
        raise GraphError(
            "step",
            got="a gradient of another pattern than that of the sparse parameter",
            expected="one that is stored where the parameter is, inside a compiled function",
            remedy="optimise its values(), or step outside of jit",
        )
    if isinstance(support, Stored):
        pattern = support.pattern
        return _Listed(list(pattern.coordinates), F.values_at(g, pattern=pattern), shape)
    if isinstance(support, Box):
        region = support.region
        cut = [k for k, n in enumerate(shape) if (region.start[k], region.stop[k]) != (0, n)]
        return _Box(region.slices[: cut[-1] + 1]) if cut else _Whole()
    additions = _added(getattr(value, "value", None), cells.level, makers)
    if not additions:
        return _Whole()
    lists = [
        concat(list(arrays), axis=0) if len(additions) > 1 else arrays[0]
        for arrays in zip(*additions, strict=True)
    ]
    return _Listed(lists[1:], lists[0], shape)


def _added(value: Value | None, level: Trace, makers: Makers) -> list[list[Tensor]]:
    """Additions of entries to zeros at index arrays (scatter_add) whose sum is ``value``; empty if it is no
    such sum.

    Each is a list of the entries, flattened along the index arrays, and the flat index arrays.
    """
    e = None if value is None else makers.get(value)
    if e is None:
        return []
    if e.op.name in SAME:
        return _added(e.operands[0], level, makers)
    if e.op.name in ("add", "add_n"):
        parts = [_added(x, level, makers) for x in e.operands]
        lengths = {len(addition) for part in parts for addition in part}
        return [addition for part in parts for addition in part] if all(parts) and len(lengths) == 1 else []
    if e.op.name != "scatter_add" or e.params["axes"] != tuple(range(len(e.params["axes"]))):
        return []
    entries, *indices = map(level.handle, e.operands)
    axes, shape = e.params["axes"], e.params["shape"]
    lead = entries.shape[: entries.ndim - (len(shape) - len(axes))]
    flat = [F.reshape(F.broadcast_to(n, shape=lead), shape=(prod(lead),)) for n in indices]
    return [[F.reshape(entries, shape=(prod(lead), *shape[len(axes) :])), *flat]]


__all__ = ["step"]
