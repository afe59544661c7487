"""Concatenation in place: each part of a result is computed in its slice of the buffer, or copied there.

y = stack(a, b, ..., z)                                  ->  a, b, ..., z are made in y's memory
y = add_n(embed[key=0](a), ..., embed[key=63](z))        ->  the same, with zeros where no part is
y = add_n(embed[key=k](a), ..., embed[key=l](z), c)      ->  y = c; y[k] += a; ...; y[l] += z

If y were one expression instead, each of its entries would search all parts for the one that it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from iverson.codegen.nests.nodes import Load
from iverson.codegen.programs import View, step_builders
from iverson.codegen.programs.nodes import Step
from iverson.expr.nodes import Apply, Expr
from iverson.graph.ir.nodes import Equation, Value, values_of
from iverson.graph.native.buffers import filled
from iverson.kernels.index_keys import key_region

#: As many parts are still fused with what makes them and with what is done with the result, if that is fused.
FEW = 4
#: Entries in a row, in memory, from which a part of a result that is stored is made in its place.
RUN = 16


@dataclass(frozen=True)
class Part:
    """A value that is written to, or added to, the entries of a result that a basic key reads."""

    value: Value
    key: tuple[Any, ...]

    def within(self, out: View) -> View:
        """View of the part's entries, in a view of the result."""
        item = out.buffer.dtype.itemsize
        memory = np.empty(0, out.buffer.dtype)
        array = np.lib.stride_tricks.as_strided(memory, out.shape, [s * item for s in out.strides])
        part = array[(*self.key, ...)]
        offset = (part.ctypes.data - array.ctypes.data) // item
        strides = tuple(s // item for s in part.strides)
        return replace(out, shape=part.shape, strides=strides, offset=out.offset + offset)


@dataclass(frozen=True, eq=False)
class Assembly:
    """A result made of parts: the sum of all if parts overlap, or if there are ``others`` of its shape."""

    result: Value
    parts: tuple[Part, ...]
    others: tuple[Value, ...] = ()
    overlap: bool = False

    @property
    def is_sum(self) -> bool:
        return self.overlap or bool(self.others)

    @property
    def operands(self) -> tuple[Value, ...]:
        """Values that the result is made of: those of its parts, and the others."""
        return (*(p.value for p in self.parts), *self.others)

    def begin(self, out: View) -> list[Step]:
        """Steps before the first part is computed in its place.

        These are zeros, if the parts neither cover the result nor are added up.
        """
        covered = sum(prod(p.value.shape) for p in self.parts) == prod(self.result.shape)
        return [] if self.is_sum or covered else [filled(out)]

    def finish(
        self, out: View, view_of: Callable[[Value], View], made: Callable[[Part], bool]
    ) -> Iterator[Step]:
        """Steps that copy or add parts and others into ``out``, when all values are computed.

        made : whether a part has been computed in its place in ``out``, so that nothing is to be done.
        """
        if self.others:
            yield _added(out, [view_of(v) for v in self.others])
        elif self.is_sum:
            yield filled(out)
        for p in self.parts:
            at, source = p.within(out), None if made(p) else view_of(p.value)
            if source is not None:
                yield _accumulated(at, source) if self.is_sum else step_builders.copy(at, source)


def _added(out: View, terms: Sequence[View]) -> Step:
    views = {f"x{k}": v for k, v in enumerate(terms)}
    loads = [
        Load(step_builders.as_buffer(name, v), step_builders.variables(step_builders.axes(out.shape)))
        for name, v in views.items()
    ]

    def add(a: Expr, b: Expr) -> Expr:
        return Apply("add", (a, b), out.buffer.dtype)

    (*_, total) = accumulate(loads, add)
    return step_builders.elementwise(out, total, views)


def _accumulated(out: View, x: View) -> Step:
    load = Load(step_builders.as_buffer("x", x), step_builders.variables(step_builders.axes(out.shape)))
    return step_builders.elementwise(out, load, {"x": x}, combine="sum")


def assemblies(
    equations: Sequence[Equation], kind: Callable[[Equation], str], wanted: set[Value]
) -> tuple[dict[int, Assembly], set[int]]:
    """Find results that are assembled from parts; returns the `Assembly` of each such equation, by its id.

    Also returns the ids of equations that only embed a part of an assembly, and so need no steps.

    wanted : values that are read after all equations.
    """
    makers = {v: e for e in equations for v in e.results if kind(e) == "expression"}
    readers: dict[Value, int] = dict.fromkeys(wanted, 1)
    for e in equations:
        for v in values_of(e.operands):
            readers[v] = readers.get(v, 0) + 1
    in_memory = _values_in_memory(equations, kind, wanted)
    by_equation: dict[int, Assembly] = {}
    absorbed: set[int] = set()
    for e in equations:
        if kind(e) != "expression" or prod(e.results[0].shape) == 0:
            continue
        if e.op.name in ("stack", "concat"):
            assembly = _joined(e, e.results[0] in in_memory)
        elif e.op.name == "add_n":
            assembly, embedded = _summed(e, makers, readers)
            absorbed |= embedded if assembly else set()
        else:
            continue
        if assembly:
            by_equation[id(e)] = assembly
    return by_equation, absorbed


def _values_in_memory(
    equations: Sequence[Equation], kind: Callable[[Equation], str], outputs: set[Value]
) -> set[Value]:
    """The values that lie in memory in any case: ``outputs``, and what no fused expression reads."""
    values = set(outputs)
    for e in reversed(equations):
        if kind(e) != "expression" and (kind(e) != "view" or e.results[0] in values):
            values.update(values_of(e.operands))
    return values


def _joined(e: Equation, in_memory: bool) -> Assembly | None:
    """Assembly of a `stack` or `concat`; None if it has few operands, numbers, or values of other dtypes.

    in_memory : whether the result lies in memory, so that few operands, too, are better made there.
    """
    axis, result = e.params["axis"], e.results[0]
    values = values_of(e.operands)
    if len(values) != len(e.operands) or any(v.dtype != result.dtype for v in values):
        return None
    run = min((prod(v.shape[axis:]) for v in values), default=0)
    if len(values) <= (1 if in_memory and run >= RUN else FEW):
        return None
    leading = tuple(slice(0, n, 1) for n in result.shape[:axis])
    if e.op.name == "stack":
        return Assembly(result, tuple(Part(v, (*leading, k)) for k, v in enumerate(values)))
    ends = accumulate((v.shape[axis] for v in values), initial=0)
    return Assembly(
        result,
        tuple(Part(v, (*leading, slice(a, b, 1))) for v, (a, b) in zip(values, pairwise(ends), strict=True)),
    )


def _summed(
    e: Equation, makers: Mapping[Value, Equation], readers: Mapping[Value, int]
) -> tuple[Assembly | None, set[int]]:
    """Assembly of a sum with many embedded terms, and the ids of the equations that embed them.

    None and an empty set if one fused expression is better or the terms do not fit the result.
    """
    result = e.results[0]
    terms = values_of(e.operands)
    parts, other_terms, absorbed = [], [], set()
    for v in terms:
        maker = makers.get(v)
        if (
            maker is not None
            and maker.op.name == "embed"
            and readers[v] == 1
            and type(maker.operands[0]) is Value
        ):
            parts.append(Part(maker.operands[0], maker.params["key"]))
            absorbed.add(id(maker))
        else:
            other_terms.append(v)
    alike = all(v.dtype == result.dtype and v.shape == result.shape for v in other_terms)
    entries = sum(prod(p.value.shape) for p in parts)
    is_expression = len(parts) <= FEW or 2 * entries > len(parts) * prod(result.shape)
    if (
        is_expression
        or not alike
        or len(terms) != len(e.operands)
        or any(p.value.dtype != result.dtype for p in parts)
    ):
        return None, set()
    return Assembly(result, tuple(parts), tuple(other_terms), _overlap(parts, result.shape)), absorbed


def _overlap(parts: Sequence[Part], shape: tuple[int, ...]) -> bool:
    """True if parts may overlap: there is no axis along which all lie one after the other."""
    regions = [key_region(p.key, shape) for p in parts]
    for k in range(len(shape)):
        spans = sorted((r.start[k], r.stop[k]) for r in regions)
        if all(stop <= start for (_, stop), (start, _) in pairwise(spans)):
            return False
    return True


__all__ = ["Assembly", "Part", "assemblies"]
