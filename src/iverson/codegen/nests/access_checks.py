"""Bounds checks: each access is proven inside its buffer when its code is made, or tested in the loops.

The guards around an access prove that it is inside where it is carried out. The code may still look at both
sides of a Select, so a guarded access is *clamped*: it touches memory only where it is inside. What is not
proven from the bounds of loops, from guards and from the values of sizes, the loop *tests* wherever the
access is carried out, and it reports an index that is outside (`fault_reports`).

So an error is raised exactly where an index that is used is outside, and no index leaves its buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from iverson.codegen.nests.integer_bounds import Ranges, Scope, affine, extremes, never, non_negative
from iverson.codegen.nests.nodes import (
    BOOL,
    INT64,
    Buffer,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Size,
    Stmt,
    Store,
    expressions,
)
from iverson.expr.affine import Affine, difference, single
from iverson.expr.function_facts import NEGATED
from iverson.expr.nodes import Apply, Const, Expr, Select, subexpressions
from iverson.expr.symbolic_numbers import is_infinite

#: Sets of choices that accesses of one node are looked at behind, each by itself.
MANY = 8
#: An index of an access: the node's id, and the axis. Equal loads are one node: what one needs, all get.
Place = tuple[int, int]


@dataclass(frozen=True)
class Access:
    """One index of one Load or Store: dimension ``axis`` of ``buffer`` at ``index``.

    scope : the loops and guards around the access, and the values of names there.
    """

    node: Load | Store
    axis: int
    index: Affine
    scope: Scope

    @property
    def buffer(self) -> Buffer:
        return self.node.buffer

    @property
    def key(self) -> Place:
        return id(self.node), self.axis


@dataclass(frozen=True)
class Plan:
    """Accesses of a kernel that are not proven inside their buffers, by what is done instead.

    clamped : places that touch memory only if their index is inside.
    tested : number of each place whose index the loop tests, and reports if it is outside.
    reported : the accesses of these numbers, in order.
    """

    clamped: frozenset[Place] = frozenset()
    tested: Mapping[Place, int] = field(default_factory=dict)
    reported: tuple[Access, ...] = ()


def plan(kernel: Kernel, sizes: Mapping[str, int] | None = None) -> Plan:
    """Decide for each access of a kernel if it is proven inside, or tested in the loop.

    sizes : the values of the kernel's sizes at a call (default: they are not known).
    """
    if sizes:
        return _plan(kernel, {name: (n, n) for name, n in sizes.items()})
    if "plan" not in kernel.once:
        kernel.once["plan"] = _plan(kernel, {})
    found: Plan = kernel.once["plan"]
    return found


def _plan(kernel: Kernel, ranges: Ranges) -> Plan:
    if "unproven" not in kernel.once:
        writable = {b.name for b in kernel.buffers if b.role != "in"}
        any_sizes = dict.fromkeys(kernel.sizes, (0, 0))
        kernel.once["unproven"] = [
            (a, _facts(a.scope, writable), not any(map(is_infinite, extremes(a.index, a.scope, any_sizes))))
            for a in accesses(kernel)
            if not inside(a, {})
        ]
    clamped: set[Place] = set()
    tested: dict[Place, int] = {}
    reported: list[Access] = []
    for access, facts, is_bounded in kernel.once["unproven"]:
        if ranges and is_bounded and inside(access, ranges):
            continue
        clamped.add(access.key)
        is_proven = (facts or is_bounded) and inside(access, ranges, facts)
        if not is_proven and access.key not in tested:
            tested[access.key] = len(reported)
            reported.append(access)
    return Plan(frozenset(clamped), tested, tuple(reported))


def inside(access: Access, ranges: Ranges, facts: tuple[Affine, ...] = ()) -> bool:
    """True if an access is inside its buffer for all calls with these ranges.

    facts : forms that are not negative where the access is carried out.
    """
    extent = access.buffer.shape[access.axis]
    top = Affine(extent) if isinstance(extent, int) else single(Size(extent))
    room = top.shift(-1) - access.index
    scope = access.scope

    def holds(form: Affine) -> bool:
        return any(non_negative(form - f, scope, ranges) for f in (Affine(), *facts))

    return (holds(access.index) and holds(room)) or never(scope, ranges)


def is_inside(store: Store, scope: Scope) -> bool:
    """True if a store is inside its buffer for every call, in these loops and where these guards hold."""
    facts = _facts(scope, {store.buffer.name})
    places = enumerate(store.indices)
    return all(inside(Access(store, axis, affine(e, scope), scope), {}, facts) for axis, e in places)


def accesses(kernel: Kernel) -> Iterator[Access]:
    """Every index of every Load and Store, with the scope it stands in."""
    for phase in kernel.phases:
        yield from _block((phase,), Scope())


# --- walking ----------------------------------------------------------------------------------------


def _block(body: tuple[Stmt, ...], scope: Scope) -> Iterator[Access]:
    """Accesses of the statements of ``body`` and of their bodies; ``scope`` is what surrounds ``body``."""
    for s in body:
        for e in expressions(s):
            yield from _expression(e, scope)
        if isinstance(s, Store):
            for axis, index in enumerate(s.indices):
                yield Access(s, axis, affine(index, scope), scope)
        elif isinstance(s, Let):
            scope = replace(scope, lets={**scope.lets, s.name: s.value})
        elif isinstance(s, Loop):
            yield from _block(s.body, replace(scope, loops=(*scope.loops, s)))
        elif isinstance(s, If):
            yield from _block(s.body, _guarded(scope, s.condition, True))


def _expression(root: Expr, scope: Scope) -> Iterator[Access]:
    """The accesses in an expression, inner ones first.

    An access is given once for each set of choices it stands behind (a condition of a Select around it, and
    the side), with the choices as guards. Once a node has `MANY` sets, further ones are reduced to what is
    common to all of them. Conditions that say nothing of indices count as one condition.
    """
    reads: list[Access] = []
    telling: dict[Expr, Expr] = {}

    def told(condition: Expr) -> Expr:
        if condition not in telling:
            telling[condition] = condition if _compares(condition, scope) else _SOMETHING
        return telling[condition]

    choices_by_node: dict[Expr, list[frozenset[tuple[Expr, bool]]]] = {}
    pending = [(root, frozenset[tuple[Expr, bool]]())]
    while pending:
        e, behind = pending.pop()
        node_choices = choices_by_node.setdefault(e, [])
        if len(node_choices) >= MANY:
            behind = behind.intersection(*node_choices)
        if behind in node_choices:
            continue
        node_choices.append(behind)
        if isinstance(e, Load):
            new_guards = behind.difference(scope.guards)  # as sets: == of expressions is an expression
            inner = replace(scope, guards=(*scope.guards, *new_guards)) if new_guards else scope
            for axis, index in enumerate(e.indices):
                reads.append(Access(e, axis, affine(index, inner), inner))
        if isinstance(e, Select):
            condition = told(e.condition)
            pending.append((e.condition, behind))
            pending.append((e.then, behind | {(condition, True)}))
            pending.append((e.other, behind | {(condition, condition is _SOMETHING)}))
        else:
            pending += [(o, behind) for o in e.operands]
    return reversed(reads)


def _guarded(scope: Scope, condition: Expr, holds: bool) -> Scope:
    return replace(scope, guards=(*scope.guards, (condition, holds)))


#: What accesses stand behind that need not be carried out, for a reason that says nothing of their indices.
_SOMETHING = Const(True, BOOL)


def _compares(condition: Expr, scope: Scope) -> bool:
    """Return True if ``condition`` is a comparison of integers, or a logical combination that contains one.

    The search looks through local names, with their definitions in ``scope``, and through logical ops.
    Operands of all other expressions are not searched.
    """
    pending = [condition]
    while pending:
        e = pending.pop()
        if isinstance(e, Local) and e.name in scope.lets:
            pending.append(scope.lets[e.name])
        elif isinstance(e, Apply) and e.name.startswith("logical_"):
            pending += e.args
        elif isinstance(e, Apply) and e.name in NEGATED and e.args[0].dtype == INT64:
            return True
    return False


# --- what guards say --------------------------------------------------------------------------------


def _facts(scope: Scope, writable: set[str]) -> tuple[Affine, ...]:
    """Affine forms that the guards of ``scope`` prove to be at least 0.

    Guards on values that can change during an iteration prove nothing.

    writable : names of the buffers that the kernel writes.
    """
    forms: list[Affine] = []
    pending = list(scope.guards)
    while pending:
        e, holds = pending.pop()
        if isinstance(e, Local) and e.name in scope.lets:
            pending.append((scope.lets[e.name], holds))
        if not isinstance(e, Apply):
            continue
        if e.name == ("logical_and" if holds else "logical_or"):
            pending += [(a, holds) for a in e.args]
        elif e.name == "logical_not":
            pending.append((e.args[0], not holds))
        elif (
            e.name in NEGATED
            and e.args[0].dtype == INT64
            and all(_steady(a, scope, writable) for a in e.args)
        ):
            a, b = (affine(x, scope) for x in e.args)
            name = e.name if holds else NEGATED[e.name]
            form = difference(name, a, b)
            if form is not None:
                forms += [form, form.scaled(-1)] if name == "equal" else [form]
    return tuple(forms)


def _steady(e: Expr, scope: Scope, writable: set[str]) -> bool:
    """True if the value of ``e`` cannot change during an iteration.

    It can if ``e`` loads from a buffer in ``writable`` (names), or uses a variable that updates may change.
    """
    return not any(
        x.buffer.name in writable
        if isinstance(x, Load)
        else isinstance(x, Local) and x.name not in scope.lets
        for x in _parts(e, scope)
    )


def _parts(e: Expr, scope: Scope) -> Iterator[Expr]:
    """All subexpressions of ``e``, and of the values that the names in it have in ``scope``."""
    for x in subexpressions(e):
        yield x
        if isinstance(x, Local) and x.name in scope.lets:
            yield from _parts(scope.lets[x.name], scope)
