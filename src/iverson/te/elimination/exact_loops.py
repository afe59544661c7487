"""Exact loops over a domain: isl's loops for its independent groups of axes, nested in one order.

Groups of axes that no condition ties together are separate questions to isl: the rows and the columns of a
convolution are the same small question, and its channels need none. The loops of the answers are nested in
the order asked for. Answers are cached by the text of the question (`iverson.te.ir.integer_sets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iverson.expr.build import as_expr, index
from iverson.expr.nodes import Expr
from iverson.te.ir.expressions import Var, limits, substitute, tied_together
from iverson.te.ir.index_arithmetic import Constraint, holds, is_linear
from iverson.te.ir.integer_sets import affordable, loops_of
from iverson.te.ir.nodes import For, If, Point, Walk


@dataclass(frozen=True)
class Chain:
    """Loops and guards, each with a single body, around one point; outermost first.

    at : the values of the axes at the point.
    """

    items: tuple[For | If, ...]
    at: tuple[Expr, ...]


def exact_loops(axes: Sequence[Var], constraints: Sequence[Constraint]) -> tuple[Walk, ...] | None:
    """Loops over exactly the points of a domain, outermost axis first; () if there are no points.

    The variable of a loop over an axis is the axis itself; an axis that the others determine has no loop, and
    its value is in the points. The result is None if isl is not asked because the answer may take too long.
    """
    if any(holds(c) is False for c in constraints):
        return ()
    open_ = [c for c in constraints if holds(c) is None]
    parts = components(axes, open_)
    chains: dict[Var, Chain] = {}
    for part, tied_constraints in parts:
        loops = _asked(part, tied_constraints)
        if loops is None or loops == ():
            return loops
        chain = _chain(loops)
        if chain is None:  # several loops in a row: ask about everything together
            return _asked(axes, open_)
        chains |= dict.fromkeys(part, chain)
    return (_nested(axes, chains, parts),)


def components(
    axes: Sequence[Var], constraints: Sequence[Constraint]
) -> list[tuple[list[Var], list[Constraint]]]:
    """Groups of axes that constraints tie together, each as (axes, constraints); free axes are in none."""
    groups = tied_together(constraints, lambda c: [a for a, _ in c.form.terms])
    return [([v for v in axes if v in tied], tied_constraints) for tied, tied_constraints in groups]


def _asked(axes: Sequence[Var], constraints: Sequence[Constraint]) -> tuple[Walk, ...] | None:
    if not affordable(axes, constraints):
        return None
    if len(axes) == 1 and all(is_linear(c.form) for c in constraints):
        return _along(axes[0], constraints)
    placeholders, walk = loops_of(axes, constraints)
    if walk is None:
        return None
    return _renamed(walk, dict(zip(placeholders, axes, strict=True)))


def _along(v: Var, constraints: Sequence[Constraint]) -> tuple[Walk, ...]:
    """Loop over the values of one axis that satisfy constraints on it alone."""
    lo, hi = limits(v)
    for c in constraints:
        for form in (c.form, c.form.scaled(-1)) if c.equality else (c.form,):
            ((_, k),) = form.terms
            if k > 0:
                lo = max(lo, -(form.const // k))
            else:
                hi = min(hi, form.const // -k + 1)
    if lo >= hi:
        return ()
    if lo + 1 == hi:
        return (Point((index(lo),)),)
    return (For(v, index(lo), index(hi), 1, (Point((v,)),)),)


def _renamed(walk: tuple[Walk, ...], names: dict[Var, Var]) -> tuple[Walk, ...]:
    """The same walk with the variables in ``names`` replaced by axes."""
    new: dict[Expr, Expr] = dict(names.items())
    result: list[Walk] = []
    for item in walk:
        if isinstance(item, Point):
            result.append(Point(substitute(item.at, new)))
        elif isinstance(item, If):
            result.append(If(substitute([item.condition], new)[0], _renamed(item.body, names)))
        else:
            lower, upper = substitute([item.lower, item.upper], new)
            result.append(For(names[item.var], lower, upper, item.step, _renamed(item.body, names)))
    return tuple(result)


def _chain(walk: tuple[Walk, ...]) -> Chain | None:
    items: list[For | If] = []
    while len(walk) == 1:
        item = walk[0]
        if isinstance(item, Point):
            return Chain(tuple(items), item.at)
        items.append(item)
        walk = item.body
    return None


def _nested(
    axes: Sequence[Var],
    chains: dict[Var, Chain],
    parts: list[tuple[list[Var], list[Constraint]]],
) -> Walk:
    """One nest over all axes in their order; a guard is as far out as the loops on which it depends allow.

    chains : for each axis in a group (an element of ``parts``), the loops of this group.
    """
    values: dict[Var, Expr] = {v: v for v in axes}
    order: list[For | If] = []
    for part, _ in parts:
        chain = chains[part[0]]
        values |= dict(zip(part, chain.at, strict=True))
        leading = next((k for k, i in enumerate(chain.items) if isinstance(i, For)), len(chain.items))
        order += chain.items[:leading]
    for v in axes:
        axis_chain = chains.get(v)
        if axis_chain is None:
            assert v.hi is not None
            order.append(For(v, as_expr(v.lo), as_expr(v.hi), 1, ()))
            continue
        at = [k for k, i in enumerate(axis_chain.items) if isinstance(i, For) and i.var is v]
        for k in at:
            order.append(axis_chain.items[k])
            for item in axis_chain.items[k + 1 :]:
                if isinstance(item, For):
                    break
                order.append(item)
    body: Walk = Point(tuple(values[v] for v in axes))
    for item in reversed(order):
        if isinstance(item, For):
            body = For(item.var, item.lower, item.upper, item.step, (body,))
        else:
            body = If(item.condition, (body,))
    return body
