"""Translation of statements and expressions to tasks, phases and expressions of loop nests; nothing runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from iverson.codegen.emit import scalar_code
from iverson.codegen.nests import nodes
from iverson.codegen.nests.access_checks import is_inside
from iverson.codegen.nests.integer_bounds import Scope
from iverson.codegen.nests.nodes import INT64, Buffer, Let, Stmt
from iverson.codegen.nests.task import Axis, Task
from iverson.codegen.schedule.exact_walks import boxed, nest
from iverson.core import dtypes
from iverson.core.errors import ArgumentError
from iverson.expr.nodes import Apply, Cast, Const, Expr, Select, postorder
from iverson.te.ir.expressions import Extent, Read, Tensor, Var, at_sizes, variables
from iverson.te.ir.index_arithmetic import normal_extent
from iverson.te.ir.nodes import For, If, Statement, Walk
from iverson.te.ir.ragged_axes import Bounds, bounds_in, is_ragged
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
    return _ragged(task, s, axis_vars, t.around()) if s.walk is None and is_ragged(s) else task


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

    return [phase for item in s.walk for phase in nest(task, walk(item), s.strategy, around or Scope())]


class Translation:
    """Translation of te expressions to loop-nest expressions.

    `lets` collects the definitions of names that repeated parts get in `value`.

    outer : variables of loops around it, as expressions of loop nests.
    """

    def __init__(
        self,
        buffers: Mapping[Tensor, Buffer],
        sizes: Sizes | None = None,
        outer: Mapping[Var, Expr] | None = None,
    ) -> None:
        self.buffers, self.sizes, self.outer = buffers, sizes or Sizes(), outer or {}
        self.names: dict[Var, str] = {}
        self.made = dict[Expr, Expr](self.outer.items())
        self.lets: list[Let] = []

    def around(self) -> Translation:
        """New translation with the same names of axes, for expressions outside of the point.

        The names in `lets` are not defined there.
        """
        other = Translation(self.buffers, self.sizes, self.outer)
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
        return self.expression(n) if isinstance(n, Expr) else Const(int(n))

    def expression(self, root: Expr) -> Expr:
        """The translation of an expression, with no names for its parts."""
        for e in postorder([root]):
            if e not in self.made:
                self.made[e] = self._node(e)
        return self.made[root]

    def value(self, root: Expr) -> Expr:
        """Translation of an expression in which repeated and very deep parts are names, defined in `lets`.

        Only parts whose reads are certain to be in bounds, or to happen anyway, get a name.
        """
        uses: Counter[Expr] = Counter()
        harmless = _harmless(root)
        for e in postorder([root]):
            uses.update(e.operands)
        depth: dict[Expr, int] = {}
        for e in postorder([root]):
            depth[e] = 1 + max((depth[o] for o in e.operands), default=0)
            if e in self.made and isinstance(e, (Const, Var)):
                continue
            node = self._node(e)
            is_repeated = uses[e] > 1 and isinstance(e, (Apply, Select, Cast)) and e.dtype.kind in "fb"
            if (is_repeated or depth[e] > DEEP) and e in harmless and not isinstance(e, (Const, Var)):
                name = f"t{len(self.lets)}"
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
        stack += [e.condition] if isinstance(e, Select) else e.operands
    return certain


def _harmless(root: Expr) -> set[Expr]:
    """Subexpressions whose reads are all in bounds, or happen wherever the root is evaluated."""
    certain = _certain(root)
    harmless: set[Expr] = set()
    for e in postorder([root]):
        if isinstance(e, Read):
            safe = e in certain or all(map(_is_inside, e.indices, e.tensor.shape))
        else:
            safe = all(o in harmless for o in e.operands)
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
    return dtypes.is_compiled(s.tensor.dtype) and all(_compiles(e) for e in postorder(s.roots))


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
    return int(n)
