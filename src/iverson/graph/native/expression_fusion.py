"""Expression fusion: tensor expressions of a group are lowered together, so that chains of them are one loop.

h = x + b; y = relu(h); s = sum(y)   ->   one nest, in which h is a register
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from iverson import te
from iverson.codegen.nests.nodes import Buffer, Kernel, with_buffers
from iverson.codegen.programs import step_builders
from iverson.codegen.programs.nodes import Nest, Step, View, extents, whole
from iverson.core.protocols import DType
from iverson.core.python.recent_items import RecentItems
from iverson.graph.ir.nodes import Graph, Value
from iverson.graph.native.equation_expressions import expression, placeholder, structure
from iverson.ops.rules.notation import over
from iverson.te.elimination.zero_elimination import eliminate
from iverson.te.ir.nodes import program_of
from iverson.te.lowering.native_call import Steps, Temp
from iverson.te.lowering.statement_lowering import nests


@dataclass(frozen=True, eq=False)
class Template:
    """The steps of a group for views that are not known yet: those of its steps are of buffers ``in0``, ...,
    ``out0``, ... and ``temps``."""

    steps: tuple[Nest, ...]
    temps: tuple[Buffer, ...]

    def instance(self, inputs: Sequence[View], outputs: Sequence[View], temp: Temp) -> list[Step]:
        """The steps on these views.

        temp : makes a buffer for each temporary.
        """
        at = {f"in{k}": v for k, v in enumerate(inputs)} | {f"out{k}": v for k, v in enumerate(outputs)}
        for b in self.temps:
            at[b.name] = whole(temp(b.name, b.dtype, extents(b)))
        copies = []
        for x in [x for s in self.steps for x in s.views]:
            place = at[x.buffer.name]
            if _shaped(place, x.shape) is None:  # a kernel sees axes as one that lie apart here
                at[x.buffer.name] = whole(temp(x.buffer.name, x.buffer.dtype, place.shape))
                copies.append((place, at[x.buffer.name]))
        steps: list[Step] = []
        for s in self.steps:
            views = [v for x in s.views if (v := _shaped(at[x.buffer.name], x.shape)) is not None]
            steps.append(Nest(_strided(s.kernel, views), tuple(views)))
        return steps + [step_builders.copy(place, x) for place, x in copies]


def _strided(kernel: Kernel, views: Sequence[View]) -> Kernel:
    """The kernel with its buffers strided as the views are."""
    if all(v.contiguous for v in views):
        return kernel
    strides = [None if v.contiguous else v.strides for v in views]
    by_name = {b.name: replace(b, strides=s) for b, s in zip(kernel.arguments, strides, strict=True)}
    buffers = {b.name: by_name.get(b.name, b) for b in kernel.buffers}
    return Kernel(
        kernel.name, tuple(buffers.values()), tuple([with_buffers(p, buffers) for p in kernel.phases])
    )


def _shaped(v: View, shape: tuple[int, ...]) -> View | None:
    """A view in another shape; None where strides can not say it."""
    return v if v.shape == shape else v.reshaped(shape)


_templates: RecentItems[Any, Template] = RecentItems(1024)


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
    template = _templates.find(key) or _template(graph)
    if key is not None:
        _templates.keep(key, template)
    return template.instance(inputs, outputs, temp)


def _template(graph: Graph) -> Template:
    """Lower the expressions of a graph, all together."""
    inputs = [placeholder(v) for v in graph.inputs]
    tensors: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for e in graph.equations:
        operands = [tensors[x] if type(x) is Value else x for x in e.operands]
        tensors[e.results[0]] = expression(e, operands)
    results = [tensors[v] for v in graph.outputs]
    if any(t in inputs for t in results):
        results = [over(te, v.aval, lambda x: x, t) for v, t in zip(graph.outputs, results, strict=True)]
    program = nests(eliminate(program_of(results)))
    temps: list[Buffer] = []

    def temp(name: str, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        temps.append(Buffer(f"temp{len(temps)}", dtype, shape, "temp"))
        return temps[-1]

    places = {
        program.buffers[t].name: _slot("in", k, t) for k, t in enumerate(inputs) if t in program.buffers
    }
    places |= {program.buffers[t].name: _slot("out", k, t) for k, t in enumerate(results)}
    buffers = {b.name: b for b in (*program.buffers.values(), *program.scratch)}
    steps = Steps(buffers, places, temp).run(program.steps)
    assert steps is not None, "an expression that does not compile"
    return Template(tuple(s for s in steps if isinstance(s, Nest)), tuple(temps))


def _slot(role: str, k: int, t: Any) -> View:
    return whole(Buffer(f"{role}{k}", t.dtype, tuple(t.shape), role))


__all__ = ["Temp", "group_steps"]
