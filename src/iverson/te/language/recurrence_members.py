"""From the definitions of states to a recurrence: which tensors are its members, their steps and their order.

A member runs in as many of the loops over steps as its reads at the same step need: what depends on rows
before alone is computed for a row at once, before the loop along the row.

    for i: { for k, j: z[i, j] += s[i - 1, k] * w[k, j];  for j: s[i, j] = z[i, j] + s[i, j - 1] }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from iverson.core.errors import ArgumentError
from iverson.core.protocols import DType
from iverson.expr.build import as_expr, cast, const, select
from iverson.expr.function_facts import identity
from iverson.expr.nodes import Expr, ExprLike, producers_first
from iverson.expr.print import text
from iverson.te.ir.evaluation_guards import conjunction
from iverson.te.ir.expressions import Extent, Read, Tensor, Var, substitute
from iverson.te.ir.index_arithmetic import affine_of, constraints_of, depends_on_data, holds, is_range
from iverson.te.ir.nodes import Compute, Recurrence, Statement, computes_of, loops_of, step_axes, unit_of
from iverson.te.ir.source_site import operation
from iverson.te.ir.verify import inside as provably_inside
from iverson.te.language.nonlinear_reductions import linear_statements

#: The value of a state before its first step: one for all, a tensor, or a function of indices.
Before: TypeAlias = "Tensor | Expr | Callable[..., ExprLike]"


class State(Tensor):
    """Placeholder for a tensor within the definition of its scan.

    before : the value of a step that is read before the first one.
    label : the name that the user gave, or "".
    steps : positions of the steps among its indices, outermost first.
    """

    __slots__ = ("before", "label", "reverse", "steps")

    def __init__(
        self,
        shape: tuple[Extent, ...],
        dtype: DType,
        name: str,
        before: Before,
        reverse: bool,
        steps: tuple[int, ...],
    ) -> None:
        super().__init__(shape, dtype, name or "state")
        self.before, self.reverse, self.label, self.steps = before, reverse, name, steps

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        entry = super().__getitem__(indices)
        assert isinstance(entry, Read)
        step = affine_of(entry.indices[self.steps[0]])
        lag = -step.const if self.reverse else step.const
        is_own = lag == 0 and len(self.steps) == 1 and [isinstance(v, Var) for v, _ in step.terms] == [True]
        if lag > 0 or is_own:
            raise not_earlier(operation("scan", self.label), entry, self)
        inside = [c for k in self.steps for c in _within(entry.indices[k], self.shape[k])]
        if not inside:
            return entry
        if isinstance(self.before, Tensor):
            other_indices = [e for k, e in enumerate(entry.indices) if k not in self.steps]
            before = self.before[tuple(other_indices)]
        else:
            before = as_expr(self.before(*entry.indices)) if callable(self.before) else self.before
        return select(conjunction(inside), entry, cast(before, self.dtype))


def _within(index: Expr, n: Extent) -> list[Expr]:
    """Conditions that hold a step between the first and the last, without those that hold anyway.

    A step that depends on data is not restricted: it is checked when run, as any index is.
    """
    if depends_on_data([index]) or provably_inside(index, n, ()):
        return []
    form = affine_of(index)
    v = form.terms[0][0] if len(form.terms) == 1 else None
    if isinstance(v, Var) and form.coefficient(v) == 1 and is_range(v, n):
        return [index >= 0] if form.const < 0 else [index < as_expr(n)] if form.const > 0 else []
    return [c for c in (index >= 0, index < as_expr(n)) if not _is_true(c)]


def _is_true(condition: Expr) -> bool:
    constraints = constraints_of(condition)
    return constraints is not None and all(holds(c) is True for c in constraints)


def not_earlier(site: str, entry: Read, state: Tensor) -> ArgumentError:
    """Error for a read of a state at its own or a later step."""
    reverse = isinstance(state, State) and state.reverse
    order, sign = ("a later", "+") if reverse else ("an earlier", "-")
    along = isinstance(state, State) and len(state.steps) == 1 and state.ndim > 1
    return ArgumentError(
        site,
        entry.tensor.name,
        got=f"a read of {text(entry)} at step t",
        expected=f"{order} step, such as t {sign} 1",
        remedy="a recurrence along several axes, such as s[i - 1, j] and s[i, j - 1], has axis=(0, 1)"
        if along
        else "",
    )


def recurrence(
    definitions: Mapping[State, Compute],
    reverse: bool,
    steps: tuple[int, ...],
    site: str,
    guard: Compute | None = None,
) -> tuple[Compute, ...]:
    """Tensors of the states, as members of a new recurrence that also has all tensors between them.

    definitions : for each state the Compute that fscan returned.
    steps : the positions of the steps among their indices.
    guard : the definition that says whether a step is taken: what it does not read is computed only then.
    """
    return _Members(definitions, reverse, steps, site).defined(guard)


def members_of(definitions: Mapping[State, Compute]) -> list[Compute]:
    """Definitions of the states, and the tensors below them that depend on a state; producers first.

    A recurrence inside of this one is there with all of its members.
    """
    depends: set[Tensor] = set(definitions)
    results: tuple[Tensor, ...] = tuple(definitions.values())
    members: list[Compute] = []
    for unit in producers_first(map(unit_of, results), _read_by):
        computes = computes_of(unit)
        if any(t in results for t in computes) or any(r in depends for r in _outside(computes)):
            depends.update(computes)
            members += computes
    return members


def _read_by(unit: Tensor | Recurrence) -> list[Tensor | Recurrence]:
    return [unit_of(t) for t in _outside(computes_of(unit))]


def _outside(computes: Sequence[Compute]) -> list[Tensor]:
    """Tensors that the members of a unit read, beside each other."""
    return [r.tensor for t in computes for s in _statements(t) for r in s.reads if r.tensor not in computes]


def _statements(t: Compute) -> tuple[Statement, ...]:
    """Statements of a definition; a product is in the form that differentiates, if it has derivatives."""
    products = any(s.combine == "prod" for s in t.statements)
    return linear_statements(t) or t.statements if products else t.statements


class _Members:
    """The members of a new recurrence.

    loops : the recurrences for the axes of steps, outermost first.
    places : for each state and member, the positions of these steps among its indices; of a member, of those
        loops that it runs in.
    """

    def __init__(
        self, definitions: Mapping[State, Compute], reverse: bool, steps: tuple[int, ...], site: str
    ) -> None:
        self.definitions, self.site = definitions, site
        state = next(iter(definitions))
        self.loops: list[Recurrence] = []
        for k in steps:
            outer = self.loops[-1] if self.loops else None
            self.loops.append(Recurrence(Var("tuvw"[len(self.loops) % 4], 0, state.shape[k]), reverse, outer))
        self.places: dict[Tensor, tuple[int, ...]] = dict.fromkeys(definitions, steps)
        self.results = {t: state for state, t in definitions.items()}
        self.statements: dict[Compute, list[Statement]] = {}

    def defined(self, guard: Compute | None) -> tuple[Compute, ...]:
        """Define the members, and return those of the states; ``guard`` as of `recurrence`."""
        order = members_of(self.definitions)
        for t in order:
            self.place(t)
        for t in order:
            for s in self.statements[t]:
                self.check_earlier(s)
        if guard is not None:
            self.guard(order, guard)
        inside = self.inner(order)
        names = {t: state.label or t.name for t, state in self.results.items()}
        members = {t: t.again(t.shape, (), inside[t], names.get(t, "")) for t in order}
        new = dict[Tensor, Tensor](members.items())
        new |= {state: members[t] for state, t in self.definitions.items()}
        defined = {
            members[t]: [s.mapped(lambda e: substitute([e], {}, new)[0]) for s in self.statements[t]]
            for t in self.ordered(order, 0)
        }
        self.loops[0].define(defined)
        return tuple(members[t] for t in self.definitions.values())

    def inner(self, order: Sequence[Compute]) -> dict[Compute, Recurrence]:
        """For each member, the innermost recurrence that it is in: one of `loops`, or inside of it."""
        result: dict[Compute, Recurrence] = {}
        renewed: dict[Recurrence, Recurrence] = {}
        for t in order:
            loops = loops_of(t)
            around = self.loops[len(self.places[t]) - 1]
            if loops and loops[0] not in renewed:
                renewed |= loops[0].renewed()
                renewed[loops[0]].outer = around
            result[t] = renewed[loops[-1]] if loops else around
        return result

    # --- steps ---------------------------------------------------------------------------------------

    def place(self, t: Compute) -> None:
        """Note the places of a member's steps, and its statements with the axes of `loops` for them."""
        if t in self.statements:
            return
        unit = [m for m in computes_of(unit_of(t)) if m not in self.statements]
        waiting = unit
        while waiting:  # those of a recurrence inside of this one that read a state first
            readers = [
                m for m in waiting if any(r.tensor in self.places for s in _statements(m) for r in s.reads)
            ]
            for m in readers or waiting[:1]:
                statements = [self.at_steps(s, m) for s in _statements(m)]
                self.statements[m] = statements
                depth = min(len(_steps_in(s, self.loops)) for s in statements)
                axes = [r.axis for r in self.loops[:depth]]
                self.places[m] = tuple(self.position(statements[0], axis, m) for axis in axes)
            waiting = [m for m in waiting if m not in self.statements]

    def at_steps(self, s: Statement, t: Compute) -> Statement:
        """The statement with the axes of the recurrence in place of its own axes of steps."""
        new: dict[Expr, Expr] = {}
        for depth, r in enumerate(self.loops):
            step = self.step(s, t, depth, new)
            if step is None:
                break
            new[step] = r.axis
        axes = tuple(v for v in (new.get(v, v) for v in s.domain.axes) if isinstance(v, Var))
        return s.mapped(lambda e: substitute([e], new)[0], axes)

    def step(self, s: Statement, t: Compute, depth: int, outer: Mapping[Expr, Expr]) -> Var | None:
        """The axis of a statement that is its step in the loop number ``depth``; None if it is in none.

        outer : its steps in the loops around that. An error is raised if the step is not unique.
        """
        axis = self.loops[depth].axis
        assert axis.hi is not None
        state = self.results.get(t)
        candidates: set[Expr | None]
        if state is not None and depth:
            candidates = {s.write[state.steps[depth]]}
        else:
            reads = [r for r in s.reads if len(self.places.get(r.tensor, ())) > depth]
            now = [r for r in reads if depth == 0 or self.is_now(r, outer)]
            candidates = {self.moving(r, depth) for r in now}
            if depth and (None in candidates or not candidates):
                return None  # it reads all of these steps, or none
        place = 0 if state is None else state.steps[0]
        first = s.write[place] if s.write else None
        if not candidates and isinstance(first, Var):
            candidates = {first}  # a definition that reads no state
        (step,) = candidates if len(candidates) == 1 else (None,)
        if step is not None and step in step_axes(t):
            raise ArgumentError(
                self.site,
                "fscan",
                got=f"{t.name}, made by another scan along the same steps",
                expected="a scan along an axis of its own, or the states of both in one scan",
                remedy="te.scan(..., axis=1), or te.scan([shape, shape], lambda s, q: ...)",
            )
        if not isinstance(step, Var) or not is_range(step, axis.hi):
            names = ", ".join(sorted(v.name for v in candidates if isinstance(v, Var)))
            raise ArgumentError(
                self.site, t.name, got=f"reads along {names}", expected="one index of steps, over all of them"
            )
        return step

    def is_now(self, r: Read, outer: Mapping[Expr, Expr]) -> bool:
        """True if a read is of the same step in the loops around."""
        at = substitute([r.indices[k] for k in self.places[r.tensor]], outer)
        return all(affine_of(e) == affine_of(a) for e, a in zip(at, outer.values(), strict=False))

    def moving(self, r: Read, depth: int) -> Var | None:
        """The axis that moves a read along its steps; None if it reads all of them, which is so inside only.

        An error is raised if the first steps do not move with one axis.
        """
        form = affine_of(r.indices[self.places[r.tensor][depth]])
        axes = [v for v, _ in form.terms if isinstance(v, Var) and v.kind != "size"]
        if len(axes) == 1 and form.coefficient(axes[0]) == 1 and axes[0].kind != "reduce":
            return axes[0]
        if depth:
            return None
        raise ArgumentError(
            self.site,
            r.tensor.name,
            got=text(r),
            expected="an earlier step of the tensor that reads it: its index of steps minus a number",
        )

    def position(self, s: Statement, axis: Var, t: Compute) -> int:
        """Position of a step among the indices that a statement writes; an error unless it occurs once."""
        places = [k for k, w in enumerate(s.write) if w is axis]
        if len(places) != 1:
            raise ArgumentError(
                self.site,
                t.name,
                got=f"a write to {list(s.write)}",
                expected="the step as one of the indices",
            )
        state = self.results.get(t)
        if state is not None and places[0] != state.steps[self.depth_of(axis)]:
            raise ArgumentError(
                self.site,
                "fscan",
                got=f"{t.name}, whose steps are axis {places[0]}",
                expected="them as first axis" if state.steps == (0,) else f"axis={state.steps}",
            )
        return places[0]

    def depth_of(self, axis: Var) -> int:
        return next(k for k, r in enumerate(self.loops) if r.axis is axis)

    def guard(self, order: Sequence[Compute], guard: Compute) -> None:
        """Put the statements that the guard does not need, and that define no state, under the guard."""
        operands: set[Tensor] = {guard}
        for t in reversed(order):
            if t in operands:
                operands.update(r.tensor for s in self.statements[t] for r in s.reads)
        for t in order:
            if t in operands or t in self.results or t.recurrence is not None:
                continue
            for k, s in enumerate(self.statements[t]):
                if s.position is None:
                    neutral = const(identity(s.combine, s.body.dtype), s.body.dtype)
                    body = select(Read(guard, (self.loops[0].axis,)), s.body, neutral)
                    self.statements[t][k] = replace(s, body=body)

    # --- order ---------------------------------------------------------------------------------------

    def lag(self, r: Read, s: Statement) -> list[int] | None:
        """Number of steps by which a read is behind, in each loop that its tensor and the statement share.

        Outermost first, up to the first in which it was not made at this step. None if that is not known.
        """
        result: list[int] = []
        depth = min(len(self.places[r.tensor]), len(_steps_in(s, self.loops)))
        for k, loop in list(zip(self.places[r.tensor], self.loops, strict=False))[:depth]:
            ago = affine_of(loop.axis) - affine_of(r.indices[k])
            if ago.terms:
                return None
            result.append(-ago.const if loop.reverse else ago.const)
            if result[-1]:
                break
        return result

    def check_earlier(self, s: Statement) -> None:
        """Raise an error unless what a statement reads is there by then: of states, earlier steps."""
        for r in s.reads:
            if r.tensor in self.places:
                lags = self.lag(r, s)
                if lags is None or lags[-1] < 0 or (r.tensor in self.definitions and lags[-1] == 0):
                    raise not_earlier(self.site, r, next(iter(self.definitions)))

    def ordered(self, members: Sequence[Compute], depth: int) -> list[Compute]:
        """The members in an order in which each step reads what was made, loops inside being neighbours.

        depth : the number of the loop.
        """
        groups: dict[Compute, tuple[Compute, ...]] = {}
        further = tuple(t for t in members if len(self.places[t]) > depth + 1)
        for t in members:
            unit = tuple(m for m in members if unit_of(m) is unit_of(t))
            groups[t] = further if t in further else unit

        def before(group: tuple[Compute, ...]) -> Iterable[tuple[Compute, ...]]:
            for t in group:
                for s in self.statements[t]:
                    for r in s.reads:
                        other = groups.get(r.tensor, group) if isinstance(r.tensor, Compute) else group
                        if other != group and not any((self.lag(r, s) or [1])[: depth + 1]):
                            yield other

        order: list[Compute] = []
        visits: dict[tuple[Compute, ...], bool] = {}

        def visit(group: tuple[Compute, ...]) -> None:
            if group in visits:
                if not visits[group]:
                    raise ArgumentError(
                        self.site,
                        "fscan",
                        got=f"{group[0].name}, which reads steps that its own loop makes",
                        expected="reads of earlier steps",
                    )
                return
            visits[group] = False
            for other in before(group):
                visit(other)
            visits[group] = True
            order.extend(self.ordered(group, depth + 1) if group is further else group)

        for t in members:
            visit(groups[t])
        return order


def _steps_in(s: Statement, loops: Sequence[Recurrence]) -> list[Var]:
    """Axes of steps of the first loops that a statement runs in."""
    result: list[Var] = []
    for r in loops:
        if r.axis not in s.domain.axes:
            break
        result.append(r.axis)
    return result
