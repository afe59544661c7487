"""Translation of statements and expressions to tasks, phases and expressions of loop nests; nothing runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

import numpy as np

from iverson.codegen.emit import scalar_code
from iverson.codegen.nests import nodes
from iverson.codegen.nests.access_checks import is_inside
from iverson.codegen.nests.integer_bounds import Scope
from iverson.codegen.nests.loop_facts import is_short
from iverson.codegen.nests.nodes import COMMUTING, INT64, Buffer, Declare, Let, Stmt, Update, UpdateArg
from iverson.codegen.nests.task import Axis, Reduction, Task, motion, no_position, position_in
from iverson.codegen.schedule.exact_walks import boxed, nest
from iverson.core import dtypes
from iverson.core.errors import ArgumentError
from iverson.expr.function_facts import identity
from iverson.expr.nodes import (
    Apply,
    Cast,
    Const,
    Expr,
    Select,
    postorder,
    producers_first,
    same,
    subexpressions,
)
from iverson.expr.symbolic_numbers import integer
from iverson.te.ir.evaluation_guards import Guards, guards_of
from iverson.te.ir.expressions import (
    Extent,
    Fold,
    Read,
    Reduce,
    Scoped,
    Tensor,
    Var,
    at_sizes,
    operands_here,
    reads_of,
    scoped,
    substitute,
    variables,
)
from iverson.te.ir.index_arithmetic import normal_extent, of_one_range
from iverson.te.ir.nested_reductions import bounds_of, position_of
from iverson.te.ir.nodes import For, If, Statement, Walk
from iverson.te.ir.ragged_axes import Bounds, bounds_in, is_ragged
from iverson.te.ir.verify import inside
from iverson.te.rewrites.formulas import has_formula

#: Expressions deeper than this are cut by a name.
DEEP = 40


class Sizes:
    """Symbolic extents of a program, with their names in kernels; a call gives their values.

    sizes : the size variables that the extents are made of.
    """

    def __init__(self, sizes: Sequence[Var] = ()) -> None:
        self.names: dict[Expr, str] = {v: f"n_{k}" for k, v in enumerate(sizes)}

    def extent(self, n: Extent) -> int | str:
        """Extent for a buffer: a number, or for a symbolic extent its name, a new one at first use."""
        n = normal_extent(n)
        return self.names.setdefault(n, f"n_{len(self.names)}") if isinstance(n, Expr) else as_int(n)

    def at(self, values: Mapping[Var, int]) -> dict[str, int]:
        """Values of the extents by name, from values of the size variables."""
        return {name: at_sizes(n, values) for n, name in self.names.items()}


def buffer_for(t: Tensor, number: int, sizes: Sizes | None = None) -> Buffer:
    """New buffer ``b{number}`` for a tensor, with the tensor's name as its label."""
    size_names = sizes or Sizes()
    return Buffer(f"b{number}", t.dtype, tuple(map(size_names.extent, t.shape)), "in", None, t.name)


def task_of(
    s: Statement,
    buffers: Mapping[Tensor, Buffer],
    covers: bool,
    sizes: Sizes | None = None,
    outer: Mapping[Var, Expr] | None = None,
) -> Task:
    """Task of a statement.

    covers : True if the statement is the first that writes its tensor, and writes all of it.
    outer : variables of loops around it, as expressions of loop nests.
    """
    t = Translation(buffers, sizes, outer)
    axis_vars = [v for v in s.domain.axes if v not in (outer or {})]
    axes = tuple(Axis(t.name(v), t.index(v.lo), t.index(v.hi), v.lever, v.name) for v in axis_vars)
    where = tuple(t.expression(c) for c in s.domain.where) if s.walk is None else ()
    write = tuple(whole_number(t.expression(w)) for w in s.write)
    position = None if s.position is None else t.expression(s.position)
    body = s.body
    value = t.value(body)
    if s.position is None and value.dtype != s.tensor.dtype:
        value = Cast(value, s.tensor.dtype)
    task = Task(
        buffers[s.tensor],
        write,
        value,
        axes,
        where,
        s.combine,
        position,
        covers,
        tuple(t.lets),
    )
    if t.reductions:
        return _written_out(task, s, axis_vars, t)
    return _ragged(task, s, axis_vars, t.around()) if s.walk is None and is_ragged(s) else task


def _written_out(task: Task, s: Statement, axis_vars: Sequence[Var], t: Translation) -> Task:
    """Task of a statement whose value contains reductions: all loops around its points, and these reductions.

    A walk that was found keeps its order.
    """
    if s.walk is not None:
        return replace(task, reductions=tuple(t.reductions))
    bounds, where = bounds_in(s.domain)
    order = _by_reductions(s, axis_vars, bounds)
    loops = with_reductions(_nested(order, (), bounds, where, t.around()), t.reductions)
    return replace(task, axes=(), where=(), whole=_as_one(loops))


def _as_one(body: tuple[Stmt, ...]) -> Stmt:
    """One statement that runs several."""
    return body[0] if len(body) == 1 else nodes.If(Const(True, dtypes.bool), body)


def _by_reductions(s: Statement, axis_vars: Sequence[Var], bounds: Mapping[Var, Bounds]) -> list[Var]:
    """Axes in loop order, those on which most reductions depend outermost.

    Of other axes, those of the output come first. An axis comes after those on which its bounds depend.
    """
    uses = Counter(v for e in scoped(s.roots) for v in variables([e]))
    output_axes = set(variables(s.write))
    ends = {v: [x for x in (b.lower, b.upper) if x is not None] for v, b in bounds.items()}
    order: list[Var] = []
    waiting = list(axis_vars)
    while waiting:
        free = [v for v in waiting if not set(variables(ends.get(v, ()))) & set(waiting)]
        v = max(free, key=lambda v: (uses[v], v in output_axes, -waiting.index(v)))
        order.append(v)
        waiting = [u for u in waiting if u is not v]
    return order


def _ragged(task: Task, s: Statement, axis_vars: Sequence[Var], t: Translation) -> Task:
    """Task for a statement with an axis whose bounds depend on data.

    Axes of the output stay axes of the task, with the loops over all other axes as its walk. If the bounds of
    an output axis depend on data, or a guard must be evaluated further inside, all loops are written out.
    """
    bounds, where = bounds_in(s.domain)
    output_axes = set(variables(s.write))
    if output_axes & set(bounds):
        loop_nest = _nested(_in_order(axis_vars, output_axes, bounds), (), bounds, where, t)
        return replace(task, axes=(), where=(), whole=loop_nest[0])
    outer = [v for v in axis_vars if v in output_axes]
    axes = tuple(a for a, v in zip(task.axes, axis_vars, strict=True) if v in output_axes)
    walk = _nested([v for v in axis_vars if v not in output_axes], outer, bounds, where, t)
    outer_conditions = tuple(
        t.expression(c) for c in where if not set(variables([c])) & (set(axis_vars) - output_axes)
    )
    loops = tuple(a.loop() for a in axes)
    store = nodes.Store(task.out, task.write, task.value)
    if task.fresh or is_inside(store, Scope(loops)):
        outer_conditions = ()  # else they keep the store inside of the output
    elif not is_inside(store, Scope(loops, tuple((c, True) for c in outer_conditions))):
        # Conditions on inner axes keep it there, or that there is a term at all: it stands inside of these.
        loop_nest = _nested([*outer, *(v for v in axis_vars if v not in output_axes)], (), bounds, where, t)
        return replace(task, axes=(), where=(), whole=loop_nest[0])
    return replace(task, axes=axes, where=outer_conditions, walk=walk)


def _in_order(axis_vars: Sequence[Var], output_axes: set[Var], bounds: Mapping[Var, Bounds]) -> list[Var]:
    """Axes in loop order: outermost those tied by bounds and output axes before them, innermost sums.

    ``v[e] += g[i, j] * x[c[e], j] for i, j, e  ->  for i: for e in p[i]:p[i + 1]: v[e] += sum over j``
    """
    ends = [x for b in bounds.values() for x in (b.lower, b.upper) if x is not None]
    tied = set(bounds) | set(variables(ends))
    first = next(k for k, v in enumerate(axis_vars) if v in tied)

    def place(v: Var) -> int:
        if v in tied or (v in output_axes and axis_vars.index(v) < first):
            return 0
        return 1 if v in output_axes else 2

    return sorted(axis_vars, key=place)


def _nested(
    axis_vars: Sequence[Var],
    outer: Sequence[Var],
    bounds: Mapping[Var, Bounds],
    where: Sequence[Expr],
    t: Translation,
) -> tuple[Stmt, ...]:
    """Loops over ``axis_vars`` around a point, for use inside of loops over ``outer``.

    Each condition of ``where`` is a guard as far out as possible.

    bounds : of the axes whose bounds depend on data.
    """
    items: list[nodes.Loop | nodes.If] = []
    waiting, in_scope = list(where), set(outer)
    inside = set(axis_vars)

    def guards() -> None:
        for c in [c for c in waiting if not (set(variables([c])) & inside) - in_scope]:
            waiting[:] = [other for other in waiting if other is not c]
            items.append(nodes.If(t.expression(c), ()))

    guards()
    for v in axis_vars:
        low, high = bounds[v].within(v) if v in bounds else (v.lo, v.hi)
        first, last = (whole_number(t.index(n)) for n in (low, high))
        items.append(nodes.Loop(t.name(v), first, last, (), label=v.name))
        in_scope.add(v)
        guards()
    body: tuple[Stmt, ...] = (nodes.Point({}),)
    for item in reversed(items):
        body = (replace(item, body=body),)
    return body


def phases_of(
    s: Statement,
    task: Task,
    buffers: Mapping[Tensor, Buffer],
    outer: Mapping[Var, Expr] | None = None,
    around: Scope | None = None,
) -> Sequence[Stmt]:
    """Loop nests that carry out a statement's task: over its box, or along its walk.

    outer : as of `task_of`. around : the loops of these variables.
    """
    if s.walk is None:
        return boxed(task)
    t = Translation(buffers, None, outer)
    axis_vars = [v for v in s.domain.axes if v not in (outer or {})]
    t.names = {v: a.name for v, a in zip(axis_vars, task.axes, strict=True)}

    def walk(item: Walk) -> Stmt:
        if isinstance(item, For):
            inner = tuple(walk(w) for w in item.body)
            lower, upper = t.expression(item.lower), t.expression(item.upper)
            return nodes.Loop(t.name(item.var), lower, upper, inner, item.step, label=item.var.name)
        if isinstance(item, If):
            return nodes.If(t.expression(item.condition), tuple(walk(w) for w in item.body))
        pairs = [(v, e) for v, e in zip(s.domain.axes, item.at, strict=True) if e is not v]
        return nodes.Point({t.names[v]: t.expression(e) for v, e in pairs if v in t.names})

    items = [_as_one(with_reductions((walk(w),), task.reductions)) for w in s.walk]
    return [phase for item in items for phase in nest(task, item, s.strategy, around or Scope())]


class Translation:
    """Translation of te expressions to loop-nest expressions.

    `lets` collects the definitions of names that repeated parts get in `value`, and `reductions` these.

    outer : variables of loops around it, as expressions of loop nests.
    prefix : of these names.
    """

    def __init__(
        self,
        buffers: Mapping[Tensor, Buffer],
        sizes: Sizes | None = None,
        outer: Mapping[Var, Expr] | None = None,
        prefix: str = "",
    ) -> None:
        self.buffers, self.sizes, self.outer = buffers, sizes or Sizes(), outer or {}
        self.names: dict[Var, str] = {}
        self.made = dict[Expr, Expr](self.outer.items())
        self.lets: list[Let] = []
        self.reductions: list[Reduction] = []
        self.prefix = prefix
        self._totals: dict[Scoped, tuple[Expr, ...]] = {}
        self._guards: Mapping[Expr, Guards] = {}

    def around(self, prefix: str = "") -> Translation:
        """New translation with the same names of axes, for expressions outside of the point.

        The names in `lets` are not defined there.
        """
        other = Translation(self.buffers, self.sizes, self.outer, prefix)
        other.names = self.names
        return other

    def name(self, v: Var) -> str:
        return self.names.setdefault(v, f"i{len(self.names)}")

    def index(self, n: Extent | None) -> Expr:
        """Translation of a bound of an axis."""
        assert n is not None
        n = normal_extent(n)
        if isinstance(n, Expr) and n in self.sizes.names:
            return nodes.Size(self.sizes.names[n])
        return self.expression(n) if isinstance(n, Expr) else Const(integer(n))

    def expression(self, root: Expr) -> Expr:
        """The translation of an expression, with no names for its parts."""
        for e in producers_first([root], operands_here):
            if e not in self.made:
                self.made[e] = self._node(e)
        return self.made[root]

    def value(self, root: Expr) -> Expr:
        """Translation of an expression in which repeated and very deep parts are names, defined in `lets`.

        Only parts whose reads are certain to be in bounds, or to happen anyway, get a name.
        """
        uses: Counter[Expr] = Counter()
        harmless = _harmless(root)
        order = producers_first([root], operands_here)
        if any(isinstance(e, Scoped) for e in order):
            self._guards = guards_of(root)
        for e in order:
            uses.update(operands_here(e))
        depth: dict[Expr, int] = {}
        for e in order:
            depth[e] = 1 + max((depth[o] for o in operands_here(e)), default=0)
            if e in self.made and isinstance(e, (Const, Var)):
                continue
            node = self._node(e)
            is_repeated = uses[e] > 1 and isinstance(e, (Apply, Select, Cast)) and e.dtype.kind in "fb"
            if (is_repeated or depth[e] > DEEP) and e in harmless and not isinstance(e, (Const, Var)):
                name = f"{self.prefix}t{len(self.lets)}"
                self.lets.append(Let(name, node))
                node = nodes.Local(name, node.dtype)
                depth[e] = 0
            self.made[e] = node
        return self.made[root]

    def _node(self, e: Expr) -> Expr:
        """Translation of one node, whose operands are translated already."""
        if isinstance(e, Const):
            return Const(e.value, e.dtype)
        if isinstance(e, Var):
            return nodes.Size(self.sizes.names[e]) if e.kind == "size" else nodes.Var(self.name(e))
        if isinstance(e, Scoped):
            return self._reduction(e)
        below = tuple(self.made[o] for o in e.operands)
        if isinstance(e, Read):
            return nodes.Load(self.buffers[e.tensor], tuple(map(whole_number, below)))
        if isinstance(e, Select):
            return Select(*below)
        if isinstance(e, Cast):
            (x,) = below
            if isinstance(x, Cast) and x.operand.dtype == e.dtype and dtypes.is_half(e.dtype):
                return x.operand  # to a wider dtype and back
            return Cast(x, e.dtype)
        assert isinstance(e, Apply)
        if below and below[0].dtype.kind == "c":
            return Apply(e.name, below, e.dtype)
        if e.dtype.kind in "fc" and below[0].dtype != e.dtype:
            below = tuple(Cast(x, e.dtype) for x in below)
        if e.dtype != below[0].dtype and e.dtype.kind != "b":
            return Cast(Apply(e.name, below, below[0].dtype), e.dtype)
        return Apply(e.name, below, e.dtype)

    def _reduction(self, e: Scoped) -> Expr:
        """Name of the value of a reduction, whose loops are added to `reductions`.

        All numbers of a combined element are made by the same loops.
        """
        number = e.number if isinstance(e, Fold) else 0
        guards = set(self._guards.get(e, ()))
        for other, totals in self._totals.items():
            if totals and guards.issuperset(self._guards.get(other, ())) and _is_made_with(e, other):
                return totals[number]
        totals = self._totals[e] = self._loops(e)
        return totals[number]

    def _loops(self, e: Scoped) -> tuple[Expr, ...]:
        prefix = f"{self.prefix}r{len(self._totals)}"
        self._totals[e] = ()
        t, around = self.around(f"{prefix}_"), self.around(f"{prefix}g")
        totals, point = _totals_of(e, t, prefix)
        bounds, where = bounds_of(e)
        loops = with_reductions(_nested(e.axes, (), bounds, where, around), t.reductions)
        body = tuple(replaced for s in loops for replaced in _with_points(s, (*t.lets, *point)))
        body = tuple(_in_lanes(s) for s in body)
        guards = self._guards.get(e, ())
        around._totals, around.reductions = self._totals, self.reductions
        for c in guards:
            body = (nodes.If(around.expression(c), body),)
        results = tuple(nodes.Let(f"{d.name}v", _value_of(d)) for d in totals)
        block = (*totals, *body, *results)
        loop_names = {s.var for s in nodes.statements(block) if isinstance(s, nodes.Loop)}
        free = [x for s in nodes.statements(block) for r in nodes.expressions(s) for x in subexpressions(r)]
        needs = frozenset(x.name for x in free if isinstance(x, nodes.Var)) - loop_names
        earlier = {x.name for x in free if isinstance(x, nodes.Local)}
        operands = [b for b in self.reductions if b.names & earlier]
        needs = needs.union(*(b.needs for b in operands))
        settled = all(b.settled for b in operands)
        settled &= all(
            inside(i, n, (*guards, *e.where))
            for r in reads_of([e, *guards])
            for i, n in zip(r.indices, r.tensor.shape, strict=True)
        )
        self.reductions.append(Reduction(block, needs, settled))
        return tuple(nodes.Local(x.name, x.value.dtype) for x in results)


def _is_made_with(a: Scoped, b: Scoped) -> bool:
    """True if two reductions differ in the names of axes and the number of the combined element alone."""
    kinds = [e.reducer if isinstance(e, Fold) else e.combine for e in (a, b)]
    if kinds[0] != kinds[1] or len(a.axes) != len(b.axes) or not all(map(of_one_range, a.axes, b.axes)):
        return False
    return same(substitute(a.operands, dict(zip(a.axes, b.axes, strict=True))), b.operands)


def _totals_of(e: Scoped, t: Translation, prefix: str) -> tuple[tuple[Declare, ...], tuple[Stmt, ...]]:
    """Variables of a reduction with their first values, and the statements that take in a point."""
    values = [t.value(v) for v in e.values]
    if isinstance(e, Fold):
        identities = [Const(v.value, v.dtype) for v in e.reducer.identities if isinstance(v, Const)]
        totals = tuple(Declare(f"{prefix}n{k}", v.dtype, v) for k, v in enumerate(identities))
        terms = [Let(f"{prefix}x{k}", v) for k, v in enumerate(values)]
        elements = Translation(t.buffers, t.sizes, None, f"{prefix}c")
        numbers: tuple[Declare | Let, ...] = (*totals, *terms)
        locals_ = [nodes.Local(d.name, d.value.dtype) for d in numbers]
        places = (p[()] for p in (*e.reducer.first, *e.reducer.second))
        elements.made |= zip(places, locals_, strict=True)
        results = [elements.expression(x) for x in e.reducer.results]
        new = [Let(f"{prefix}y{k}", x) for k, x in enumerate(results)]
        updates = [
            Update(d.name, "assign", nodes.Local(x.name, x.value.dtype))
            for d, x in zip(totals, new, strict=True)
        ]
        return totals, (*terms, *new, *updates)
    (value,) = values
    first = Const(identity(e.combine, value.dtype), value.dtype)
    if not e.combine.startswith("arg"):
        return (Declare(prefix, value.dtype, first),), (Update(prefix, e.combine, value),)
    best, at = Declare(f"{prefix}b", value.dtype, first), Declare(prefix, INT64, no_position(INT64))
    place = whole_number(t.value(position_of(e)))
    return (at, best), (UpdateArg(best.name, at.name, e.combine, value, place),)


def _value_of(total: Declare) -> Expr:
    """Value of a reduction's variable after its points; -1 for a position if there is none."""
    value = nodes.Local(total.name, total.dtype)
    place = total.dtype == INT64 and total.value is no_position(INT64)
    return position_in(value) if place else value


def _with_points(s: Stmt, point: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statement with other statements in place of its points."""
    if isinstance(s, (nodes.Loop, nodes.If)):
        return (replace(s, body=tuple(x for b in s.body for x in _with_points(b, point))),)
    return point if isinstance(s, nodes.Point) else (s,)


def _in_lanes(s: Stmt) -> Stmt:
    """The loops of a reduction, the innermost in lanes if it reads along its variable."""
    if not isinstance(s, (nodes.Loop, nodes.If)):
        return s
    if isinstance(s, nodes.If) or any(isinstance(x, (nodes.Loop, nodes.If)) for x in s.body):
        return replace(s, body=tuple(map(_in_lanes, s.body)))
    loads = [
        x
        for b in s.body
        for e in nodes.expressions(b)
        for x in subexpressions(e)
        if isinstance(x, nodes.Load)
    ]
    adds = all(isinstance(b, Let) or (isinstance(b, Update) and b.combine in COMMUTING) for b in s.body)
    along = adds and all(motion(x, s.var, [b for b in s.body if isinstance(b, Let)]) < 2 for x in loads)
    return replace(s, mark="vector", factor=2) if along and not is_short(s, Scope()) else s


def with_reductions(body: tuple[Stmt, ...], reductions: Sequence[Reduction]) -> tuple[Stmt, ...]:
    """Loops and guards around points, with reductions as far out as their variables and reads allow.

    A reduction stands inside of all guards, and inside of loops that may have no iteration unless its reads
    are inside of their tensors in any case.
    """
    loop_names = {s.var for s in nodes.statements(body) if isinstance(s, nodes.Loop)}
    loop_names |= {n for s in nodes.statements(body) if isinstance(s, nodes.Point) for n in s.at}
    return _placed(body, reductions, frozenset(n for b in reductions for n in b.needs) - loop_names)


def _placed(body: tuple[Stmt, ...], reductions: Sequence[Reduction], bound: Set[str]) -> tuple[Stmt, ...]:
    """The statements as of `with_reductions`, inside of loops with the variables ``bound``."""
    guarded = any(isinstance(s, nodes.If) for s in body)
    here = [
        b
        for b in reductions
        if not guarded and b.needs <= bound and (b.settled or all(map(_has_points_for_sure, body)))
    ]
    later = [b for b in reductions if b not in here]
    result: list[Stmt] = [s for b in here for s in b.body]
    for s in body:
        if isinstance(s, nodes.Loop):
            result.append(replace(s, body=_placed(s.body, later, bound | {s.var})))
        elif isinstance(s, nodes.If):
            result.append(replace(s, body=_placed(s.body, later, bound)))
        elif isinstance(s, nodes.Point):
            at_point = partial(nodes.replaced, names=s.at)
            result += [nodes.mapped(x, at_point) for b in later for x in b.body]
            result.append(s)
        else:
            result.append(s)
    return tuple(result)


def _has_points_for_sure(s: Stmt) -> bool:
    """True if a loop has an iteration whatever data are, and all loops in it."""
    if isinstance(s, nodes.If):
        return False
    if not isinstance(s, nodes.Loop):
        return True
    if not (isinstance(s.lower, Const) and isinstance(s.upper, Const)):
        return False
    return bool(s.lower.value < s.upper.value) and all(map(_has_points_for_sure, s.body))


def whole_number(e: Expr) -> Expr:
    return e if e.dtype == INT64 else Cast(e, INT64)


def _certain(root: Expr) -> set[Expr]:
    """Subexpressions that are evaluated wherever the root is: not only on one side of a select."""
    certain: set[Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e in certain:
            continue
        certain.add(e)
        stack += [e.condition] if isinstance(e, Select) else operands_here(e)
    return certain


def _harmless(root: Expr) -> set[Expr]:
    """Subexpressions whose reads are all in bounds, or happen wherever the root is evaluated."""
    certain = _certain(root)
    harmless: set[Expr] = set()
    for e in producers_first([root], operands_here):
        if isinstance(e, Read):
            safe = e in certain or all(map(_is_inside, e.indices, e.tensor.shape))
        else:
            safe = all(o in harmless for o in operands_here(e))
        if safe:
            harmless.add(e)
    return harmless


def _is_inside(index: Expr, extent: Extent) -> bool:
    """True if an index is a number or an axis whose values are all within an extent."""
    if not isinstance(extent, int):
        return False
    if isinstance(index, Var):
        return isinstance(index.lo, int) and isinstance(index.hi, int) and 0 <= index.lo <= index.hi <= extent
    return isinstance(index, Const) and 0 <= index.value < extent


def compiles(s: Statement) -> bool:
    """True if compiled code can run a statement."""
    if s.body.dtype.kind == "c" and s.combine not in ("assign", "sum", "prod"):
        return False
    if dtypes.is_half(s.tensor.dtype) and s.combine != "assign":
        return False  # of a recurrence: others are made in single (`half_rounding`)
    folds = [e for e in scoped(s.roots) if isinstance(e, Fold)]
    roots = (*s.roots, *(x for e in folds for x in e.reducer.results))
    extrema = any(
        isinstance(e, Reduce) and e.body.dtype.kind == "c" and e.combine not in ("sum", "prod")
        for e in scoped(s.roots)
    )
    return dtypes.is_compiled(s.tensor.dtype) and not extrema and all(_compiles(e) for e in postorder(roots))


def _compiles(e: Expr) -> bool:
    if not dtypes.is_compiled(e.dtype):
        return False
    if isinstance(e, Apply):
        dtype = e.args[0].dtype
        if dtype.kind in "iub" and e.dtype.kind in "fc":
            dtype = e.dtype
        return scalar_code.supported(e.name, dtype) or has_formula(e)
    return True


def as_int(n: Extent | None) -> int:
    """Extent as an int; raises ArgumentError for a symbolic extent, whose sizes are not bound."""
    if isinstance(n, Const):
        n = n.value
    if not isinstance(n, (int, np.integer)):
        raise ArgumentError("te: lower", got=f"extent {n}", expected="an integer", remedy="bind sizes")
    return integer(n)
