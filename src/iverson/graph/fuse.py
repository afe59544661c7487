"""Equations as loop nests: a group of tensor expressions, lowered together, so that chains of them become one
loop.

h = x + b; y = relu(h); s = sum(y)   ->   one nest, in which h is a register
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iverson import te
from iverson.codegen.nodes import Buffer, Kernel, Load, Stmt, Store, expressions, statements, with_buffers
from iverson.codegen.programs import build
from iverson.codegen.programs.nodes import Nest, Step, View, c_strides, extents, whole
from iverson.core import locks
from iverson.expr.nodes import Const, subexpressions
from iverson.graph.expressions import expression, placeholder, structure
from iverson.graph.nodes import Graph, Value
from iverson.ops.notation import over
from iverson.te.eliminate import eliminate
from iverson.te.lower import Fill, Lowered, Run, nests
from iverson.te.nodes import program_of

#: Makes a temp of the program: of this name, dtype and shape.
Temp = Callable[[str, Any, tuple[int, ...]], Buffer]


@dataclass(frozen=True, eq=False)
class Template:
    """The steps of a group for views that are not known yet: those of its steps are of buffers ``in0``, ...,
    ``out0``, ... and ``temps``."""

    steps: tuple[Nest, ...]
    temps: tuple[Buffer, ...]

    def instance(self, inputs: Sequence[View], outputs: Sequence[View], temp: Temp) -> list[Step]:
        """The steps over these views."""
        at = {f"in{k}": v for k, v in enumerate(inputs)} | {f"out{k}": v for k, v in enumerate(outputs)}
        for b in self.temps:
            at[b.name] = whole(temp(b.name, b.dtype, extents(b)))
        return [
            Nest(s.kernel, tuple([_shaped(at[v.buffer.name], v.shape) for v in s.views])) for s in self.steps
        ]


def _shaped(v: View, shape: tuple[int, ...]) -> View:
    """A view, whose entries lie in order, in another shape."""
    return v if v.shape == shape else replace(v, shape=shape, strides=c_strides(shape))


_templates: OrderedDict[Any, Template] = OrderedDict()
_lock = locks.lock()
_KEPT = 1024


def group_steps(
    graph: Graph,
    inputs: Sequence[View],
    outputs: Sequence[View],
    temp: Temp,
) -> list[Step]:
    """Steps that compute a graph of expressions; groups of one structure are lowered once.

    inputs, outputs : where the graph's are.
    """
    key = structure(graph.equations, graph.inputs, graph.outputs)
    with _lock:
        found = _templates.get(key)
        if found is not None:
            _templates.move_to_end(key)
    if found is None:
        found = _template(graph)
    if key is not None:
        with _lock:
            _templates[key] = found
            while len(_templates) > _KEPT:
                _templates.popitem(last=False)
    return found.instance(inputs, outputs, temp)


def _template(graph: Graph) -> Template:
    given = [placeholder(v) for v in graph.inputs]
    made: dict[Value, Any] = dict(zip(graph.inputs, given, strict=True))
    for e in graph.equations:
        operands = [made[x] if type(x) is Value else x for x in e.operands]
        made[e.results[0]] = expression(e, operands)
    results = [made[v] for v in graph.outputs]
    if any(t in given for t in results):
        results = [over(te, v.aval, lambda x: x, t) for v, t in zip(graph.outputs, results, strict=True)]
    lowered = nests(eliminate(program_of(results)))
    temps: list[Buffer] = []

    def temp(name: str, dtype: Any, shape: tuple[int, ...]) -> Buffer:
        temps.append(Buffer(f"temp{len(temps)}", dtype, shape, "temp"))
        return temps[-1]

    places = {lowered.buffers[t].name: _slot("in", k, t) for k, t in enumerate(given) if t in lowered.buffers}
    places |= {lowered.buffers[t].name: _slot("out", k, t) for k, t in enumerate(results)}
    return Template(tuple(_Steps(lowered, places, temp).run()), tuple(temps))


def _slot(role: str, k: int, t: Any) -> View:
    return whole(Buffer(f"{role}{k}", t.dtype, tuple(t.shape), role))


class _Steps:
    """The nests of a lowered program, one for each phase."""

    def __init__(self, lowered: Lowered, places: dict[str, View], temp: Temp) -> None:
        self.lowered, self.places, self.temp = lowered, places, temp
        self.touched: set[str] = set()
        self.steps: list[Nest] = []

    def run(self) -> list[Nest]:
        known = {b.name: b for b in (*self.lowered.buffers.values(), *self.lowered.scratch)}
        for step in self.lowered.steps:
            if isinstance(step, Fill):
                self.fill(known[step.name], step.value)
            else:
                assert isinstance(step, Run), "an expression that does not compile"
                for phase in step.kernel.phases:
                    self.phase(phase)
        return self.steps

    def view(self, b: Buffer) -> View:
        if b.name not in self.places:
            shape = tuple(n for n in b.shape if isinstance(n, int))
            self.places[b.name] = whole(self.temp(b.name, b.dtype, shape))
        return _shaped(self.places[b.name], tuple(n for n in b.shape if isinstance(n, int)))

    def fill(self, b: Buffer, value: Any) -> None:
        self.touched.add(b.name)
        self.steps.append(
            build.elementwise(self.view(b), Const(np.dtype(b.dtype).type(value).item(), b.dtype), {})
        )

    def phase(self, phase: Stmt) -> None:
        """A nest; what it is the first to touch it makes: it reads nothing that it has not written."""
        stored: dict[str, Buffer] = {}
        loaded: dict[str, Buffer] = {}
        for s in statements((phase,)):
            if isinstance(s, Store):
                stored[s.buffer.name] = s.buffer
            for e in expressions(s):
                loaded |= {x.buffer.name: x.buffer for x in subexpressions(e) if isinstance(x, Load)}
        fresh = stored.keys() - self.touched
        self.touched |= stored.keys()
        final = {}
        for name, b in (loaded | stored).items():
            role = "out" if name in fresh else "inout" if name in stored else "in"
            final[name] = replace(b, role=role)
        kernel = Kernel("te", tuple(final.values()), (with_buffers(phase, final),))
        self.steps.append(Nest(kernel, tuple(self.view(b) for b in final.values())))


__all__ = ["Temp", "group_steps"]
