"""Layout assignment: values are computed in the axis order in which they are read, so that none is copied.

A product is computed in the order that a reshape reads:

y = matmul(a, b)                               y' = matmul_moved[axes=(0, 2, 1, 3)](a, b)
z = permute_dims[axes=(0, 2, 1, 3)](y)   ->    y = permute_dims[axes=(0, 2, 1, 3)](y')
w = reshape[shape=(8, 77, 128)](z)             z, w as before: both are y' seen through strides

An elementwise op computes the permutation of its result that the graph returns:

y = sin(x)                                x' = permute_dims[axes=(1, 0)](x)
z = permute_dims[axes=(1, 0)](y)   ->     z = sin(x')
return z                                  return z

Attention heads are an example of the first: there is one product for each head, and the rows of these are
then put side by side. BLAS can write rows at any distance from each other. Lowering does this after all
passes, so that none of them sees `matmul_moved`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from iverson.codegen.programs.nodes import c_strides
from iverson.core.aval import Aval
from iverson.core.op import Op
from iverson.core.table import TABLE, F
from iverson.graph.ir.nodes import Argument, Equation, Graph, Value
from iverson.graph.ir.operations import GraphOp
from iverson.graph.native.strided_views import Strided, view


def _moved(args: Sequence[Argument], *, axes: tuple[int, ...]) -> list[Any]:
    return [F.permute_dims(F.matmul(*args), axes=axes)]


def _moved_aval(a: Aval, b: Aval, *, axes: tuple[int, ...]) -> Aval:
    aval = TABLE["matmul"].abstract(a, b)
    return Aval(tuple(aval.shape[k] for k in axes), aval.dtype)


#: A product whose axes are then permuted, in memory too.
matmul_moved: Op = GraphOp(
    name="matmul_moved",
    forward=None,
    abstract=_moved_aval,
    evaluate=_moved,
    takes_undefined=False,
)


def in_order_of_reads(graph: Graph) -> Graph:
    """The graph with products in the order of the first reshape that would have to copy them, and results of
    ops of entries in the order in which they are returned."""
    graph = _Turned(graph).run()
    orders = _orders(graph)
    if not orders:
        return graph
    equations: list[Equation] = []
    for e in graph.equations:
        axes = orders.get(e.results[0]) if e.results else None
        if axes is None:
            equations.append(e)
            continue
        (v,) = e.results
        product = Value(Aval(tuple(v.shape[k] for k in axes), v.dtype))
        equations.append(replace(e, op=matmul_moved, params={"axes": axes}, results=(product,)))
        back = {"axes": tuple(axes.index(k) for k in range(len(axes)))}
        equations.append(replace(e, op=TABLE["permute_dims"], operands=(product,), params=back))
    return replace(graph, equations=tuple(equations))


class _Turned:
    """A graph in which ops of entries make the permutations of their results that the graph returns."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {v: e for e in graph.equations for v in e.results}
        self.readers = Counter(x for e in graph.equations for x in e.operands if type(x) is Value)
        self.gone: set[Value] = set()

    def run(self) -> Graph:
        """The graph with ops that compute permutations of their results; itself if there are none."""
        returned = set(self.graph.outputs)
        self.readers.update(x for x in self.graph.outputs if type(x) is Value)
        equations: list[Equation] = []
        for e in self.graph.equations:
            x = e.operands[0] if e.operands else None
            if (
                e.op is TABLE["permute_dims"]
                and e.results[0] in returned
                and type(x) is Value
                and self._turns(x)
            ):
                equations += self._made(x, e.params["axes"], e.results[0])
            else:
                equations.append(e)
        if not self.gone:
            return self.graph
        remaining = tuple(e for e in equations if self.gone.isdisjoint(e.results))
        return replace(self.graph, equations=remaining)

    def _turns(self, x: Value) -> bool:
        """True if a permutation of ``x`` can be computed in place of ``x``.

        That is so if one elementwise op or sum makes it, from values of its shape, and it has one reader.
        """
        e = self.makers.get(x)
        if e is None or not (e.op.elementwise or e.op is TABLE["add_n"]):
            return False
        if len(e.results) != 1 or self.readers[x] != 1:
            return False
        return all(y.shape in (x.shape, ()) for y in e.operands if type(y) is Value)

    def _made(self, x: Value, axes: tuple[int, ...], out: Value) -> list[Equation]:
        """Equations that compute the permutation of ``x`` by ``axes`` in the value ``out``.

        If ``x`` need not be computed any more, it is added to ``gone``.
        """
        if not self._turns(x):
            return [Equation(TABLE["permute_dims"], (x,), {"axes": axes}, (out,))]
        e = self.makers[x]
        self.gone.add(x)
        equations: list[Equation] = []
        operands: list[Any] = []
        for y in e.operands:
            if type(y) is Value and y.shape:
                transpose = Value(Aval(tuple(y.shape[k] for k in axes), y.dtype))
                equations += self._made(y, axes, transpose)
                operands.append(transpose)
            else:
                operands.append(y)
        return [*equations, replace(e, operands=tuple(operands), results=(out,))]


def _orders(graph: Graph) -> Mapping[Value, tuple[int, ...]]:
    """For each product that a reshape would copy, the order of axes in which it need not."""
    products = {e.results[0] for e in graph.equations if e.op is TABLE["matmul"]}
    products = {v for v in products if len(v.shape) > 2}.difference(graph.outputs)
    views: dict[Value, Strided] = {}
    orders: dict[Value, tuple[int, ...]] = {}
    for e in graph.equations if products else ():
        x = e.operands[0] if e.operands else None
        through = view(e, views)
        if through is not None:
            views[e.results[0]] = through
        elif e.op is TABLE["reshape"] and x in views and views[x].root in products:
            axes = _permutation(views[x])
            if axes is not None and axes[-1] >= len(axes) - 2:
                orders.setdefault(views[x].root, axes)
    return orders


def _permutation(x: Strided) -> tuple[int, ...] | None:
    """The axes of the root in the order of a view; None if the view is not just a permutation."""
    root = x.root.shape
    if sorted(root) != sorted(x.shape) or x.offset:
        return None
    strides_by_axis = {k: s for k, s in enumerate(c_strides(root)) if root[k] > 1}
    unit_axes = [k for k, n in enumerate(root) if n == 1]
    axes = []
    for n, stride in zip(x.shape, x.strides, strict=True):
        at = (
            unit_axes.pop(0)
            if n == 1
            else next((k for k, s in strides_by_axis.items() if (s, root[k]) == (stride, n)), None)
        )
        if at is None:
            return None
        strides_by_axis.pop(at, None)
        axes.append(at)
    return tuple(axes)


__all__ = ["in_order_of_reads", "matmul_moved"]
