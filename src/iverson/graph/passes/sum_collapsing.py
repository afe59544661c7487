"""Collapse of sums: a sum over an axis moves back through what is linear, to where factors differ along it.

    sum[axis=0](matmul(a, w))            ->  matmul(sum[axis=0](a), w)
    sum[axis=0](multiply(c, x))          ->  multiply(c, sum[axis=0](x))        c is alike along the axis
    sum[axis=0](add_n(x, y))             ->  add_n(sum[axis=0](x), sum[axis=0](y))

So of second derivatives along many directions, of which only the sum is read, each layer multiplies one row
(Dangel et al., Collapsing Taylor mode automatic differentiation, arXiv 2505.13644). A sum moves only if it
passes a matrix product, whose multiply-adds that saves, and only through values that nothing else reads.
Within, sums keep their axes with extent 1; axes are counted from the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from iverson.core.entries import Stored
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value
from iverson.graph.passes.rewriting import WRITTEN, After, Match, Rewriting, Writer, rule

#: Axes from the last one.
Axes: TypeAlias = frozenset[int]
NO_AXES: Axes = frozenset()


@dataclass(frozen=True)
class Plan:
    """A sum of a value over axes: the multiply-adds that it saves, and the function that writes it."""

    saved: int
    write: Callable[[], Operand]


def _varies(x: Operand, axis: int) -> bool:
    return type(x) is Value and len(x.shape) >= -axis and x.shape[axis] != 1


def _is_like(x: Operand, result: Value) -> bool:
    """True for numbers and for dense values of the result's dtype."""
    return type(x) is not Value or (x.dtype == result.dtype and not isinstance(x.aval.support, Stored))


class _Collapse:
    """The plans for one sum.

    stops : the values that it does not pass, each with the reason.
    """

    def __init__(self, writer: Writer, where: Equation) -> None:
        self.writer, self.where = writer, where.where
        self.stops: list[tuple[Value, str]] = []

    def write(self, name: str, *operands: Operand, **params: Any) -> Value:
        return self.writer.write(name, *operands, where=self.where, **params)

    def plan(self, x: Operand, axes: Axes) -> Plan:
        """The sum of x over axes."""
        if type(x) is not Value or not (axes := frozenset([a for a in axes if _varies(x, a)])):
            return Plan(0, lambda: x)
        e = self.writer.made.get(x)
        rule_of_op = RULES.get(e.op.name) if e is not None else None
        if e is None:
            return self.leaf(x, axes)
        if rule_of_op is None:
            return self.stop(x, axes, f"{e.op.name} is not linear")
        if self.writer.reads[x] != 1:
            return self.stop(x, axes, f"the result of {e.op.name} is read elsewhere")
        terms = e.operands[1:] if e.op.name == "where" else e.operands
        if 0 in x.shape or not all(_is_like(o, x) for o in (x, *terms)):
            return self.stop(x, axes, f"{e.op.name} of values in other layouts or dtypes")
        plan = rule_of_op(self, e, x, axes)
        return self.stop(x, axes, f"operands of {e.op.name} differ along the axis") if plan is None else plan

    def stop(self, x: Value, axes: Axes, reason: str) -> Plan:
        """A sum that moves no further, for a reason."""
        self.stops.append((x, reason))
        return self.leaf(x, axes)

    def leaf(self, x: Operand, axes: Axes) -> Plan:
        """A sum that moves no further."""
        if not axes or type(x) is not Value:
            return Plan(0, lambda: x)
        places = tuple(sorted(a + len(x.shape) for a in axes))
        return Plan(0, lambda: self.write("sum", x, axis=places, keepdims=True))

    def on(self, plan: Plan, axes: Axes) -> Plan:
        """A plan, and then the sum over further axes."""
        return Plan(plan.saved, lambda: self.leaf(plan.write(), axes).write()) if axes else plan

    def repeated(self, x: Operand, shape: Sequence[int], axes: Axes) -> Plan:
        """The sum over axes of x as it is broadcast to a shape: along some it is alike."""
        count = prod(shape[a] for a in axes if not _varies(x, a))
        if not isinstance(x, Value):
            return Plan(0, lambda: x * count)
        plan = self.plan(x, axes)
        if count == 1:
            return plan
        return Plan(plan.saved, lambda: self.write("multiply", plan.write(), float(count)))


def _each(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan:
    """Sums and differences: of each term."""
    plans = [c.repeated(o, x.shape, axes) for o in e.operands]
    return Plan(sum(p.saved for p in plans), lambda: c.write(e.op.name, *(p.write() for p in plans)))


def _chosen(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan | None:
    """Entries by a condition that is alike along the axes."""
    condition, *branches = e.operands
    if any(_varies(condition, a) for a in axes):
        return None
    plans = [c.repeated(o, x.shape, axes) for o in branches]
    return Plan(sum(p.saved for p in plans), lambda: c.write("where", condition, *(p.write() for p in plans)))


def _quotient(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan | None:
    numerator, denominator = e.operands
    if any(_varies(denominator, a) for a in axes):
        return None
    plan = c.plan(numerator, axes)
    return Plan(plan.saved, lambda: c.write("divide", plan.write(), denominator))


def _factors(c: _Collapse, e: Equation) -> list[Operand]:
    """The factors of a product, and of products among them that nothing else reads."""
    factors: list[Operand] = []
    for x in e.operands:
        inner = c.writer.by(x, "multiply", alone=True)
        is_alike = inner is not None and all(_is_like(o, e.results[0]) for o in inner.operands)
        factors += _factors(c, inner) if inner is not None and is_alike else [x]
    return factors


def _product(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan:
    """Factors that are alike along the axes stay outside; of several others, the product is summed."""
    factors = _factors(c, e)
    alike = [o for o in factors if not any(_varies(o, a) for a in axes)]
    varying = [o for o in factors if any(_varies(o, a) for a in axes)]
    if len(varying) == 1:
        plan = c.plan(varying[0], axes)
    else:
        c.stops.append((x, "several factors of a product differ along the axis"))
        plan = Plan(0, lambda: c.leaf(_multiplied(c, varying), axes).write())
    return Plan(plan.saved, lambda: _multiplied(c, [*alike, plan.write()]))


def _multiplied(c: _Collapse, factors: Sequence[Operand]) -> Operand:
    number: float = prod([o for o in factors if not isinstance(o, Value)])
    result, *further = [o for o in factors if isinstance(o, Value)]
    for o in further:
        result = c.write("multiply", result, o)
    return result if number == 1 else c.write("multiply", number, result)


def _of_matrices(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan | None:
    """A product of matrices: rows of the left factor, columns of the right one, batches of one of them."""
    a, b = e.operands
    if type(a) is not Value or type(b) is not Value or min(len(a.shape), len(b.shape)) < 2 or e.params:
        return None
    of_a = frozenset(k for k in axes if k != -1 and (k == -2 or not _varies(b, k)))
    of_b = frozenset(k for k in axes if k != -2 and (k == -1 or not _varies(a, k)))
    crossed = of_a | of_b
    if not crossed:
        return None
    lhs, rhs = c.plan(a, of_a), c.plan(b, of_b)
    size = prod(x.shape) * a.shape[-1]
    saved = lhs.saved + rhs.saved + size - size // prod(x.shape[k] for k in crossed)
    return c.on(Plan(saved, lambda: c.write("matmul", lhs.write(), rhs.write())), axes - crossed)


def _view(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan | None:
    """Views that keep the order of axes with more than one entry."""
    (o,) = e.operands
    if type(o) is not Value:
        return None
    places = [[k - len(v.shape) for k, n in enumerate(v.shape) if n != 1] for v in (o, x)]
    if [o.shape[k] for k in places[0]] != [x.shape[k] for k in places[1]]:
        return None
    source = dict(zip(places[1], places[0], strict=True))
    plan = c.plan(o, frozenset(source[a] for a in axes))
    shape = tuple([1 if k - len(x.shape) in axes else n for k, n in enumerate(x.shape)])
    return Plan(plan.saved, lambda: c.write("reshape", plan.write(), shape=shape))


def _permuted(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan:
    order, rank = e.params["axes"], len(x.shape)
    plan = c.plan(e.operands[0], frozenset(order[a + rank] - rank for a in axes))
    return Plan(plan.saved, lambda: c.write("permute_dims", plan.write(), axes=order))


def _broadcast(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan:
    plan = c.repeated(e.operands[0], x.shape, axes)
    shape = tuple([1 if k - len(x.shape) in axes else n for k, n in enumerate(x.shape)])
    return Plan(plan.saved, lambda: c.write("broadcast_to", plan.write(), shape=shape))


def _summed(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan | None:
    """A sum over other axes: one sum over all of them."""
    (o,) = e.operands
    if type(o) is not Value:
        return None
    over, rank = e.params["axis"], len(o.shape)
    remaining = list(range(rank)) if e.params["keepdims"] else [k for k in range(rank) if k not in over]
    in_operand = frozenset(remaining[a + len(x.shape)] - rank for a in axes)
    plan = c.plan(o, in_operand | frozenset(k - rank for k in over))
    shape = tuple([1 if k - len(x.shape) in axes else n for k, n in enumerate(x.shape)])
    return Plan(plan.saved, lambda: c.write("reshape", plan.write(), shape=shape))


def _negated(c: _Collapse, e: Equation, x: Value, axes: Axes) -> Plan:
    plan = c.plan(e.operands[0], axes)
    return Plan(plan.saved, lambda: c.write("negative", plan.write()))


#: By op, the sum of its result over axes; None where it can not move.
RULES: dict[str, Callable[[_Collapse, Equation, Value, Axes], Plan | None]] = {
    "add": _each,
    "add_n": _each,
    "subtract": _each,
    "where": _chosen,
    "divide": _quotient,
    "multiply": _product,
    "negative": _negated,
    "matmul": _of_matrices,
    "expand_dims": _view,
    "squeeze": _view,
    "reshape": _view,
    "permute_dims": _permuted,
    "broadcast_to": _broadcast,
    "sum": _summed,
}


def _moved(m: Match) -> After:
    """The sum, moved back; None where it passes no matrix product."""
    x, e = m["x"], m.equation
    (v,) = e.results
    if type(x) is not Value or v.dtype.kind not in "fc":
        return None
    maker = m.writer.made.get(x)
    if maker is None or maker.op.name not in RULES or m.writer.reads[x] != 1 or not _is_like(x, v):
        return None
    collapse = _Collapse(m.writer, e)
    plan = collapse.plan(x, frozenset(k - len(x.shape) for k in e.params["axis"]))
    if not plan.saved:
        return None
    total = plan.write()
    collapse.writer.write("reshape", total, where=e.where, result=v, shape=v.shape)
    return WRITTEN


def stops(graph: Graph) -> list[tuple[Equation, Value, str]]:
    """For each sum that moves in a graph, the values at which it stops, and why; also products of matrices
    at which another sum stops, as something else reads them."""
    writer = Writer(graph)
    result = []
    for e in graph.equations:
        if e.op.name == "sum" and type(x := e.operands[0]) is Value:
            collapse = _Collapse(writer, e)
            saved = collapse.plan(x, frozenset(k - len(x.shape) for k in e.params["axis"])).saved
            result += [(e, v, why) for v, why in collapse.stops if saved or writer.by(v, "matmul")]
        writer.keep(e)
    return result


collapsing = Rewriting("collapsing", rule("sum(x) -> op(*sums)", _moved), drops=True)


__all__ = ["collapsing", "stops"]
