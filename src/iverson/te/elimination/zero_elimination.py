"""Zero elimination: chooses for each statement a walk that visits only nonzero terms.

    gather      outputs first: ``A'[f(p)] += ...`` becomes ``A'[a] += ...`` over a and what of p is
                left free by f(p) = a. Each output has one owner. Needs exact loops.
    injective   the primal's order; no two points write the same element
    scatter     the primal's order; writes may collide, or their address depends on data

In each strategy the walk is exact loops over the domain where isl gives them. Otherwise it is the statement's
own box with its guards, which always exists: elimination cannot fail or hang, it can only visit more points.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil

from iverson.expr.affine import Affine, make
from iverson.expr.build import as_expr
from iverson.expr.nodes import Expr, same
from iverson.expr.symbolic_numbers import integer
from iverson.te.elimination.exact_loops import exact_loops
from iverson.te.elimination.guarded_boxes import MOST, filling
from iverson.te.elimination.step_walks import walk_of_step
from iverson.te.ir.convex_pieces import decided, disjoint, index_cases
from iverson.te.ir.expressions import (
    Tensor,
    Var,
    extent,
    limits,
    replacing,
    substitute,
    typical,
    variables,
)
from iverson.te.ir.index_arithmetic import (
    Constraint,
    affine_of,
    constraints_of,
    depends_on_data,
    expr_of,
    floor_parts,
    holds,
    interval,
    is_linear,
    is_pure,
    is_range,
    narrowed,
    normal_extent,
)
from iverson.te.ir.integer_sets import is_empty
from iverson.te.ir.nodes import (
    Domain,
    For,
    If,
    Program,
    Statement,
    Walk,
    program_of,
    recurrence_of,
    step_axes,
)
from iverson.te.ir.ragged_axes import bounds_in, check_bounds, is_ragged
from iverson.te.ir.supports import is_zero
from iverson.te.language.injectivity import is_injective
from iverson.te.language.stages import split_guard
from iverson.te.rewrites.common_tensors import shared
from iverson.te.rewrites.lookup_tables import tabled
from iverson.te.rewrites.mixed_radix import normalize, simplified, where_they_hold
from iverson.te.rewrites.prefix_sums import with_scans

OWN_AXES = "the write is axes themselves"
BY_DATA = "the address depends on data"
BY_STEP = "a step at a time"
BY_BOUNDS = "bounds depend on data, in the order of the definition"
#: Largest divisor for which guards are searched for the remainder of a division.
MOST_RESIDUES = 64
NOWHERE = "no point satisfies the guards"
NEARLY_ALL = "outputs first, over a box of which nearly all counts"
#: Reasons for a walk that hold whatever the sizes are.
ALL_SIZES = (OWN_AXES, BY_DATA, BY_STEP, BY_BOUNDS, NEARLY_ALL)


def eliminate(program: Program | Tensor | Iterable[Tensor]) -> Program:
    """The program with a walk and a strategy for each statement; its meaning is the same.

    >>> from iverson.te.language import definitions as te
    >>> A = te.placeholder((4, 4), name="A")
    >>> B = te.compute((4, 4), lambda i, j: te.bracket(j <= i) * A[i, j], "B")
    >>> [s.strategy for s in eliminate(B).statements]
    ['gather']
    """
    if isinstance(program, Tensor):
        program = program_of([program])
    elif not isinstance(program, Program):
        program = program_of(program)
    program = shared(tabled(with_scans(program)))
    statements: list[Statement] = []
    for s in program.statements:
        stepped = recurrence_of(s.tensor) is not None
        pieces = map(_stepped, _pieces_of_step(s)) if stepped else map(plan, cases(s))
        statements += _kept(list(pieces))
    return Program(program.inputs, tuple(statements), program.outputs, program.sizes)


def _pieces_of_step(s: Statement) -> list[Statement]:
    """Statements with convex guards, and writes without choices, that together are one of a recurrence."""
    if is_ragged(s) or s.combine not in ("sum", "assign") or depends_on_data((*s.domain.where, *s.write)):
        return [s]
    choices = index_cases(s.write)
    if len(choices) == 1 and constraints_in(s.domain) is not None:
        return [s]
    result = []
    for conditions, write in choices:
        pieces = disjoint((*s.domain.where, *conditions))
        if pieces is None:
            return [s]
        result += [replace(s, write=write, domain=Domain(s.domain.axes, piece)) for piece in pieces]
    combine = "sum" if len(result) > 1 else s.combine
    result = [replace(x, combine=combine, body=decided(x.body, x.domain)) for x in result]
    return result or [replace(s, walk=(), reason=NOWHERE)]


def _stepped(s: Statement) -> Statement:
    """A statement of a recurrence, with the walk of a step; output axes first if its write is axes."""
    if s.walk is not None:
        return s
    s = replace(s, write=_only_choice(s))
    steps = step_axes(s.tensor)
    first = _own_axes_first(s) if all(any(w is v for w in s.write) for v in steps) else None
    strategy = "scatter" if first is None else "gather"
    result = replace(where_they_hold(first or s), strategy=strategy, reason=BY_STEP)
    constraints = None if is_ragged(s) else constraints_in(result.domain)
    if not constraints or result.combine.startswith("arg"):
        return result
    if is_symbolic(result):
        sparse = filling(result.domain) * MOST < 1
        return replace(result, reason=f"{BY_STEP}; its own box, as sizes are not bound") if sparse else result
    walk = walk_of_step(result.domain.axes, steps, constraints)
    if walk is None or not is_exact(walk, owned(result, strategy)):
        return result
    return replace(result, walk=walk)


def _only_choice(s: Statement) -> tuple[Expr, ...]:
    """Indices of a statement's write, without choices that guards decide: ``max(i - 1, 0)`` where i > 0."""
    choices = index_cases(s.write)
    if len(choices) > 1:
        choices = [c for c in choices if not is_empty(s.domain.axes, [*s.domain.where, *c[0]])]
    return choices[0][1] if len(choices) == 1 else s.write


def _kept(statements: list[Statement]) -> list[Statement]:
    """The statements that have points; if none has, the first, since a statement has to define the tensor."""
    nonempty = [s for s in statements if s.walk != () and not _adds_zeros(s)]
    first = statements[0]
    return nonempty or [first if first.walk == () else replace(first, walk=(), reason=NOWHERE)]


def _adds_zeros(s: Statement) -> bool:
    """True if a statement changes no entry: these are 0 before."""
    return s.combine in ("sum", "assign") and is_zero(s.body)


def cases(statement: Statement) -> list[Statement]:
    """Statements that together are ``statement``, each with convex guards and affine indices without choices.

    Only sums and assignments are split: the terms of a sum may come in any number of statements. An
    assignment that is split becomes a sum. A statement that is not split is returned alone.
    """
    if statement.walk is not None:
        return [statement]
    if _is_nowhere(statement):
        return [replace(statement, walk=(), reason="an axis has no values")]
    if statement.combine not in ("sum", "assign"):
        return [statement]
    guards, body = split_guard(statement.body)
    if statement.combine == "sum":
        selective_guards, body = split_guard(body, lambda p: _leaves_few(p, statement.domain))
        guards += selective_guards
    # An address that depends on data is walked in the primal's order: its choices may stay in it.
    indirect = depends_on_data(statement.write)
    choices = [((), statement.write)] if indirect else index_cases(statement.write)
    result = []
    for conditions, write in choices:
        where = (*statement.domain.where, *guards, *conditions)
        pieces = disjoint(where)
        for piece in [where] if pieces is None else pieces:
            domain = Domain(statement.domain.axes, piece)
            result.append(replace(statement, write=write, body=body, domain=domain))
    if len(result) > 1:  # of an assignment: disjoint, onto zeros
        result = [replace(s, combine="sum", body=decided(s.body, s.domain)) for s in result]
    return result or [replace(statement, walk=(), reason=NOWHERE)]


def _leaves_few(condition: Expr, domain: Domain) -> bool:
    """True if splitting off ``condition`` pays: its pieces are convex, and less than half of the box."""
    if depends_on_data([condition]) or disjoint([condition]) is None:
        return False
    return 2 * filling(Domain(domain.axes, (condition,))) < 1


def plan(statement: Statement) -> Statement:
    """The statement with its strategy, the reason for it, and a walk or a box as small as possible."""
    if is_ragged(statement) and statement.walk is None:
        return _ragged(statement)
    result = _planned(statement)
    if result.walk is None and not is_symbolic(result):
        result = _narrowed(result)
        # Else what it writes may be outside, and a total of no terms would be written there.
        return replace(result, walk=(), reason=NOWHERE) if _is_nowhere(result) else result
    return where_they_hold(result)


def _is_nowhere(s: Statement) -> bool:
    """True if an axis of a statement has no values."""
    return any(isinstance(v.lo, int) and isinstance(v.hi, int) and v.lo >= v.hi for v in s.domain.axes)


def _ragged(s: Statement) -> Statement:
    """Plan of a statement with axes whose bounds depend on data; output axes first, if theirs do not."""
    first = _own_axes_first(s)
    if (
        first is None
        or set(variables(first.write)) & set(bounds_in(first.domain)[0])
        or check_bounds(first.domain)
    ):
        return replace(s, strategy="scatter", reason=BY_BOUNDS)
    return replace(first, strategy="gather", reason=OWN_AXES)


def _narrowed(s: Statement) -> Statement:
    """The statement with axes that are not written cut to the ranges in which its conditions can hold."""
    constraints = [c for e in s.domain.where for c in constraints_of(e) or ()]
    output_axes = set(variables(s.write))
    new: dict[Expr, Expr] = {}
    ranges = narrowed(s.domain.axes, constraints)
    for v in s.domain.axes:
        low, high = integer(ranges[v][0]), integer(ranges[v][1])
        if v not in output_axes and (low, high + 1) != limits(v):  # else statements over one box stay alike
            new[v] = v.ranging(low, max(low, high + 1))
    axes = tuple(a for v in s.domain.axes if isinstance(a := new.get(v, v), Var))
    return simplified(s.mapped(replacing(new), axes))


def _planned(statement: Statement) -> Statement:
    """The statement with its strategy, the reason for it, and its walk, if isl gives one."""
    if is_symbolic(statement) and statement.walk is None:
        result = _for_all_sizes(statement)
        if result is not None:
            return result
    if statement.walk is not None or is_symbolic(statement):
        reason = statement.reason or "sizes are not bound yet"
        return replace(statement, strategy=statement.strategy or "scatter", reason=reason)
    if not statement.domain.where:
        box = _own_axes_first(statement)
        if box is not None:  # nothing to leave out: digits would only make its loops shorter
            return replace(box, strategy="gather", reason=OWN_AXES)
    if depends_on_data(statement.write) and not statement.domain.where:
        return replace(statement, strategy="scatter", reason=BY_DATA)
    s = normalize(statement)
    constraints = constraints_in(s.domain)
    forms = [affine_of(e) for e in s.write]
    if depends_on_data(s.write):
        return _walked(s, constraints, "scatter", BY_DATA)
    if not all(map(is_pure, forms)) or constraints is None:
        why = "the guards are" if constraints is None else "the index is"
        return replace(s, strategy="scatter", reason=f"{why} not affine")
    first = _own_axes_first(s)
    if first is not None:
        first_constraints = constraints_in(first.domain)
        return _walked(first, first_constraints, "gather", OWN_AXES)
    if is_injective(s.write, s.domain.axes, constraints):
        return _walked(s, constraints, "injective", "every element is written at most once")
    exact = [_without_floors(f, constraints) for f in forms]
    if not all(is_linear(f) for f, _ in exact):
        return _walked(s, constraints, "scatter", "radices in the write do not nest")
    solved = _solved(s, *zip(*exact, strict=True))
    loops = exact_loops(solved.domain.axes, constraints_in(solved.domain) or [])
    if loops is None:
        return _walked(s, constraints, "scatter", "outputs first is too much to ask isl")
    if not is_exact(loops, owned(solved, "gather")):
        return _walked(s, constraints, "scatter", "no exact loops over the outputs first")
    return replace(solved, walk=loops, strategy="gather", reason="exact loops, outputs first")


def _for_all_sizes(s: Statement) -> Statement | None:
    """Plan of a statement with symbolic sizes that is right for all sizes; None if there is none.

    It is a scatter to addresses that depend on data, a box without guards, or a box that the domain nearly
    fills at typical sizes.
    """
    s = _pinned(s)
    if depends_on_data(s.write):
        return None if s.domain.where else replace(s, strategy="scatter", reason=BY_DATA)
    forms = [affine_of(e) for e in s.write]
    if not all(map(is_pure, forms)) or constraints_in(s.domain) is None:
        return None
    box = _own_axes_first(s)
    if box is not None and not box.domain.where:
        return replace(box, strategy="gather", reason=OWN_AXES)
    if box is None and s.combine == "sum":
        box = _solved(s, forms)
    if box is None or not all(map(is_range, box.domain.axes, box.tensor.shape)):
        return None
    return replace(box, strategy="gather", reason=NEARLY_ALL) if filling(box.domain) * MOST >= 1 else None


def _pinned(s: Statement) -> Statement:
    """The statement with axes cut to their first or last value, if a guard excludes all other values.

    This is done only for axes that have values for all positive sizes.

    ``T[i] += f(t, i) for t in 0:n if t < 1  ->  T[i] += f(t, i) for t in 0:1``
    """
    only: dict[Expr, Expr] = {}
    new: dict[Expr, Expr] = {}
    for c in constraints_in(s.domain) or ():
        for v in filter(_has_values, s.domain.axes):
            by = c.form.coefficient(v)
            bound = (c.form - make(0, {v: by})).scaled(-by)
            assert v.hi is not None
            ends = {-1: as_expr(v.lo), 1: as_expr(v.hi) - 1}  # v is at most its first, at least its last
            if by in ends and bound == affine_of(ends[by]):
                only[v] = k = ends[by]
                new[v] = v.ranging(normal_extent(k), normal_extent(k + 1))
    if not only:
        return s
    where = tuple(c for c in s.domain.where if not _holds_always(substitute([c], only)[0]))
    axes = tuple(a for v in s.domain.axes if isinstance(a := new.get(v, v), Var))
    return replace(s, domain=Domain(s.domain.axes, where)).mapped(replacing(new), axes)


def _has_values(v: Var) -> bool:
    """True if an axis has values for all positive sizes."""
    assert v.hi is not None
    n = affine_of(as_expr(v.hi)) - affine_of(as_expr(v.lo))
    return n.const + sum(k for _, k in n.terms) >= 1 and all(
        k > 0 and isinstance(size, Var) for size, k in n.terms
    )


def _holds_always(condition: Expr) -> bool:
    constraints = constraints_of(condition)
    assert constraints is not None, "values put into constraints leave constraints"
    return all(holds(c) is True for c in constraints)


def constraints_in(domain: Domain) -> list[Constraint] | None:
    """Conditions of a domain as constraints; None if one is not a conjunction of quasi-affine comparisons."""
    result: list[Constraint] = []
    for condition in domain.where:
        constraints = constraints_of(condition)
        if constraints is None:
            return None
        result += constraints
    return result


def is_chosen(program: Program) -> bool:
    """True if the walk of each statement is final: it would be the same for known sizes."""
    return all(s.reason in ALL_SIZES or not is_symbolic(s) for s in program.statements)


def is_symbolic(statement: Statement) -> bool:
    """True if the statement's box, its tensor's shape or its expressions contain sizes."""
    bounds = [b for v in statement.domain.axes for b in (v.lo, v.hi)]
    if any(isinstance(b, Expr) for b in (*bounds, *statement.tensor.shape)):
        return True
    return any(v.kind == "size" for v in variables(statement.roots))


def _walked(s: Statement, constraints: list[Constraint] | None, strategy: str, reason: str) -> Statement:
    """The statement with exact loops over its points in the order of its axes.

    If isl gives no loops, or guards remain in them, the reason says so.
    """
    if not constraints:
        return replace(s, strategy=strategy, reason=reason)
    loops = exact_loops(s.domain.axes, constraints)
    if loops is None:
        reason += "; its own box, guarded: too much to ask isl"
    elif not is_exact(loops, owned(s, strategy)):
        reason += "; some guards are left in the loops"
    return replace(s, walk=loops, strategy=strategy, reason=reason)


def owned(s: Statement, strategy: str) -> tuple[Var, ...]:
    """Output axes of a gather; () for other strategies. A guard on these alone only leaves outputs 0."""
    return s.domain.axes[: len(s.write)] if strategy == "gather" else ()


def is_exact(walk: tuple[Walk, ...], outputs: Sequence[Var] = ()) -> bool:
    """True if a walk visits only points: no guard is inside a loop.

    A guard that is only inside loops over ``outputs`` is no loss: these loops visit what is written anyway.
    """
    free = set(outputs)
    pending = [(item, False) for item in walk]
    while pending:
        item, inside = pending.pop()
        if isinstance(item, If) and inside:
            return False
        if isinstance(item, For):
            pending += [(below, inside or item.var not in free) for below in item.body]
        elif isinstance(item, If):
            pending += [(below, inside) for below in item.body]
    return True


def _own_axes_first(s: Statement) -> Statement | None:
    """The statement with the axes of its write first; None unless the write is distinct axes plus constants.

    before -> after: ``A'[j + 1] += ... for i, j`` -> ``A'[a] += ... for a, i`` with j = a - 1.
    """
    axes: list[Var] = []
    forms = [affine_of(e) for e in s.write]
    for f in forms:
        candidates = [v for v in s.domain.axes if f == make(f.const, {v: 1})]
        if not candidates:
            return None
        axes += candidates
    if len(set(axes)) != len(axes):
        return None
    new: dict[Expr, Expr] = {}
    first: list[Var] = []
    for v, f in zip(axes, forms, strict=True):
        a = v if f.const == 0 else _shifted(v, f.const)
        first.append(a)
        if a is not v:
            new[v] = a - f.const
    remaining_axes = [v for v in s.domain.axes if v not in set(axes)]
    return _substituted(s, new, (*first, *remaining_axes), s.domain.where, tuple(first))


def _shifted(v: Var, offset: int) -> Var:
    assert v.hi is not None
    return v.ranging(normal_extent(v.lo + offset), normal_extent(v.hi + offset))


def _without_floors(form: Affine, constraints: Sequence[Constraint]) -> tuple[Affine, int]:
    """Pair (form, d) with ``d * index == form``, for the index of the argument ``form``.

    Floors are gone whose remainders follow from guards (``constraints``).

    before -> after: ``(y + 1 - r) // 2`` where ``(y + 1 - r) % 2 == 0`` -> ``y + 1 - r``, 2.
    """
    divided = 1
    for atom, _ in form.terms:
        parts, coefficient = floor_parts(atom), form.coefficient(atom)
        if parts is None:
            continue
        x, d = parts
        remainder = _remainder(x, d, constraints)
        if remainder is None:
            continue
        form = (form - make(0, {atom: coefficient})).scaled(d) + (x - Affine(remainder)).scaled(coefficient)
        divided *= d
    return form, divided


def _remainder(x: Affine, d: int, constraints: Iterable[Constraint]) -> int | None:
    """Value of ``x % d``, if it follows from an equality among ``constraints``; else None.

    An equality may say that d divides some L; then it follows if x is a multiple of L plus a number, modulo
    d.
    """
    if d > MOST_RESIDUES:
        return None
    for c in constraints:
        for atom, by in c.form.terms if c.equality else ():
            other = c.form - make(0, {atom: by})  # it is -by * atom
            if by % d:
                continue
            for m in range(1, d):
                remainder = x - other.scaled(m)
                if all(k % d == 0 for _, k in remainder.terms):
                    return remainder.const % d
    return None


def _solved(s: Statement, forms: Sequence[Affine], divided: Sequence[int] = ()) -> Statement:
    """The statement outputs first: each index a = f(p) is solved for one axis of p.

    before -> after: ``A'[2*o + r] += ... for o, r`` -> ``A'[a] += ... for a, o`` with r = a - 2*o
    where 0 <= a - 2*o < 3. An axis with a coefficient c other than 1 adds: c divides the numerator.

    divided : the exact divisors by which the forms give the indices (`_without_floors`).
    """
    where = list(s.domain.where)
    solved: dict[Expr, Expr] = {}
    outputs: list[Var] = []
    for k, f in enumerate(forms):
        n = s.tensor.shape[k]
        d = divided[k] if divided else 1
        low, high = (bound / d for bound in interval(f))
        a = Var(f"a{k}", 0, n)
        if not is_symbolic(s):
            assert isinstance(n, int)
            a = Var(f"a{k}", int(max(0, ceil(low))), int(min(high // 1 + 1, n)))
        outputs.append(a)
        current = affine_of(substitute([expr_of(f)], solved)[0])
        floors = set(variables([t for t, _ in current.terms if not isinstance(t, Var)]))
        choices = [
            (abs(c), -_size(v), v, c)
            for v in s.domain.axes
            if (c := current.coefficient(v)) and v not in floors
        ]
        if not choices:
            where.append(expr_of(current) == a * d)
            continue
        _, _, v, c = min(choices, key=lambda t: (t[0], t[1], t[2].serial))
        # d*a = c*v + rest, so v = (d*a - rest) / c.
        numerator = make(0, {a: d}) - current + make(0, {v: c})
        value = expr_of(numerator.scaled(1 if c > 0 else -1))
        if abs(c) > 1:
            where.append(value % abs(c) == 0)
            value = value // abs(c)
        assert v.hi is not None
        where += [value >= v.lo, value < v.hi]
        step: dict[Expr, Expr] = {v: value}
        solved = {old: substitute([e], step)[0] for old, e in solved.items()} | step
    rest_axes = [v for v in s.domain.axes if v not in solved]
    return _substituted(s, solved, (*outputs, *rest_axes), where, tuple(outputs))


def _size(v: Var) -> int:
    return typical(extent(v))


def _substituted(
    s: Statement,
    new: dict[Expr, Expr],
    axes: tuple[Var, ...],
    where: Iterable[Expr],
    write: tuple[Expr, ...],
) -> Statement:
    """The statement over ``axes`` with the keys of ``new`` replaced, and with other conditions and write."""
    mapped = replace(s, domain=Domain(axes, tuple(where))).mapped(replacing(new))
    result = simplified(replace(mapped, write=write))
    assert same(result.write, write)
    return result
