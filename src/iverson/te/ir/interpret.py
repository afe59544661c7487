"""Interpreter of the statement IR in plain NumPy: the meaning of a program, the oracle of every lowering.

It runs each statement at every point of its walk (or of its box, guarded) and counts its visits.
Nothing here is fast, and nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.core.errors import ArgumentError, IndexingError, ShapeError
from iverson.core.protocols import DType
from iverson.core.scalars import SCALARS, converted
from iverson.expr.build import applied, as_expr, index
from iverson.expr.function_facts import COMBINE, identity
from iverson.expr.nodes import Apply, Cast, Const, Expr, Select, postorder, producers_first
from iverson.expr.print import text
from iverson.te.ir.evaluation_guards import Guards, statement_guards
from iverson.te.ir.expressions import (
    Fold,
    Read,
    Reduce,
    Scoped,
    Tensor,
    Var,
    operands_here,
    reads_of,
    replacing,
    substitute,
    variables,
)
from iverson.te.ir.half_rounding import in_single
from iverson.te.ir.nested_reductions import bounds_of, position_of
from iverson.te.ir.nodes import (
    For,
    If,
    Point,
    Program,
    Recurrence,
    Statement,
    Walk,
    inner_recurrence,
    recurrence_of,
    walk_mapped,
)
from iverson.te.ir.ragged_axes import BadBound, Bounds, bounds_in, is_ragged, out_of_range
from iverson.te.ir.verify import unproven_reads, unproven_writes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array = np.ndarray[Any, Any]
#: Points of a statement up to which the first that reads outside of a tensor is looked for.
LOOKED_AT = 1 << 22
Values = dict[Tensor, Array]
NONE: Mapping[Expr, Array] = MappingProxyType({})


@dataclass
class Visits:
    """Counts of the points that one run of a statement visited.

    points : the number of times that the statement ran.
    idle : the number of guards that failed (in a box: of points at which ``where`` does not hold).
    empty : the number of loops without an iteration.
    inner : the number of points of reductions inside of expressions.
    """

    statement: Statement
    points: int = 0
    idle: int = 0
    empty: int = 0
    inner: int = 0


def run(
    program: Program, inputs: Sequence[ArrayLike], visits: list[Visits] | None = None
) -> tuple[Array, ...]:
    """The program's outputs for arrays in the order of ``program.inputs``.

    ``visits`` receives one record per statement. Raises ShapeError where an array does not fit its
    placeholder and IndexingError where an index that depends on data is out of range.
    """
    program = in_single(program)
    values: Values = {}
    for placeholder, value in zip(program.inputs, inputs, strict=True):
        array = np.asarray(value)
        if array.shape != tuple(_constant(n) for n in placeholder.shape):
            raise ShapeError(
                "te.interpret",
                placeholder.name,
                got=f"shape {array.shape}",
                expected=f"shape {placeholder.shape}",
            )
        values[placeholder] = array.astype(placeholder.dtype)
    for recurrence, group in groupby(program.statements, key=lambda s: recurrence_of(s.tensor)):
        statements = tuple(group)
        if recurrence is None:
            records = [run_statement(s, values) for s in statements]
        else:
            records = run_steps(recurrence, statements, values)
        if visits is not None:
            visits += records
    for tensor in program.outputs:
        _start(tensor, "sum", values)
    return tuple(values[t] for t in program.outputs)


def _start(tensor: Tensor, combine: str, values: Values) -> Array:
    if tensor not in values:
        shape = tuple(_constant(n) for n in tensor.shape)
        values[tensor] = np.full(shape, start(combine, tensor.dtype), tensor.dtype)
    return values[tensor]


def start(combine: str, dtype: DType) -> Any:
    """Initial value of the entries of a Compute, before its statements run; -1 for positions."""
    return -1 if combine.startswith("arg") else identity(combine, dtype)


def _constant(n: int | Expr | None) -> int:
    if isinstance(n, Const):
        n = n.value
    if not isinstance(n, int):
        raise ArgumentError(
            "te.interpret", got=f"extent {n}", expected="an integer", remedy="te.bind the sizes"
        )
    return n


def run_statement(statement: Statement, values: Values) -> Visits:
    """Run one statement on the arrays in ``values``, and return the counts of its visits.

    If ``values`` has no array for the statement's tensor, a new one is added.
    """
    out = _start(statement.tensor, statement.combine, values)
    record = Visits(statement)
    points = _points(statement, record, values)
    count = record.points
    evaluated = evaluate(statement.roots, dict(points), count, values, record)
    where = tuple(evaluated[e] for e in statement.write)
    body = evaluated[statement.body].astype(out.dtype if statement.position is None else None)
    position = None if statement.position is None else evaluated[statement.position]
    _check_write(statement, where, out.shape)
    _combine(statement.combine, out, where, body, position)
    return record


def points_of(statement: Statement, values: Values) -> tuple[dict[Var, Array], int]:
    """Points that a statement visits, as an array for each axis, and their number.

    Raises KeyError if bounds are read from a tensor that has no values.
    """
    record = Visits(statement)
    return _points(statement, record, values), record.points


def points_within(
    node: Scoped, points: Mapping[Var, Array], count: int, values: Values
) -> tuple[dict[Var, Array], int]:
    """Points of a reduction for each of ``count`` points around it, and their number."""
    bounds, where = bounds_of(node)
    return _extended(dict(points), count, node.axes, bounds, where, values, None)


def run_steps(recurrence: Recurrence, statements: Sequence[Statement], values: Values) -> list[Visits]:
    """Run the statements of a recurrence, all at one step and then at the next; return their visits."""
    records = [Visits(s) for s in statements]
    for s in statements:
        _start(s.tensor, s.combine, values)
    _run_steps(recurrence, list(zip(statements, records, strict=True)), values)
    return records


def _run_steps(recurrence: Recurrence, pairs: Sequence[tuple[Statement, Visits]], values: Values) -> None:
    """Run the statements of a recurrence, each with the record of its visits, step by step."""
    steps = range(_constant(recurrence.axis.lo), _constant(recurrence.axis.hi))
    for step in reversed(steps) if recurrence.reverse else steps:
        at = Var(recurrence.axis.name, step, step + 1)
        now = [(_at_step(s, recurrence.axis, at, step), record) for s, record in pairs]
        for inner, group in groupby(now, key=lambda pair: inner_recurrence(pair[0].tensor, recurrence)):
            if inner is not None:
                _run_steps(inner, list(group), values)
                continue
            for s, record in group:
                visits = run_statement(s, values)
                record.points += visits.points
                record.idle += visits.idle
                record.inner += visits.inner


def _at_step(s: Statement, axis: Var, at: Var, step: int) -> Statement:
    """The statement at one step: ``at`` has its only value, in place of ``axis``."""
    axes = tuple(at if v is axis else v for v in s.domain.axes)
    now = s.mapped(replacing({axis: at}), axes)
    return now if s.walk is None else replace(now, walk=walk_mapped(s.walk, replacing({axis: index(step)})))


def _points(statement: Statement, record: Visits, values: Values) -> dict[Var, Array]:
    """Points that a statement visits, as an array for each axis; ``record`` counts them."""
    axes = statement.domain.axes
    if statement.walk is not None:
        rows = list(_walked(statement.walk, axes, record))
        record.points = len(rows)
        table = np.array(rows, np.int64).reshape(len(rows), len(axes))
        return {v: table[:, k] for k, v in enumerate(axes)}
    if is_ragged(statement):
        return _ragged_points(statement, record, values)
    ranges = [np.arange(_constant(v.lo), _constant(v.hi)) for v in axes]
    total = prod(len(r) for r in ranges)
    grid = np.meshgrid(*ranges, indexing="ij") if ranges else []
    points = {v: g.reshape(-1) for v, g in zip(axes, grid, strict=True)}
    where = statement.domain.where
    mask = np.ones(total, bool)
    for condition in where:
        positions = np.flatnonzero(mask)
        selected = {v: p[positions] for v, p in points.items()}
        mask[positions] = evaluate([condition], selected, len(positions), values)[condition]
    record.points = int(mask.sum())
    record.idle = total - record.points
    return {v: p[mask] for v, p in points.items()}


def _at_sizes(statement: Statement, sizes: Mapping[Expr, int]) -> Statement:
    """The statement with its sizes bound, over the box of its axes."""
    new: dict[Expr, Expr] = {n: index(k) for n, k in sizes.items()}
    axes: dict[Expr, Var] = {}
    for v in statement.domain.axes:
        assert v.hi is not None
        low, high = (substitute([as_expr(n)], new)[0] for n in (v.lo, v.hi))
        axes[v] = Var(v.name, _constant(low), _constant(high), v.kind)
    return replace(statement.mapped(replacing({**new, **axes}), tuple(axes.values())), walk=None)


def wrong_bound(statement: Statement, values: Values, sizes: Mapping[Expr, int]) -> BadBound | None:
    """First bound from data outside of its axis' range; None if there is none, or data are missing."""
    bound_statement = _at_sizes(statement, sizes)
    if not is_ragged(bound_statement) or any(
        r.tensor not in values for r in reads_of(bound_statement.domain.where)
    ):
        return None
    try:
        _ragged_points(bound_statement, Visits(bound_statement), values)
    except _WrongBound as error:
        return error.found
    except IndexingError:
        pass
    return None


@dataclass(frozen=True)
class BadIndex:
    """An index outside of its tensor.

    tensor, axis, extent : the tensor, the axis of the index, and the extent of this axis.
    place : the text of the read or write.
    index, point : the value of the index, and the point at which it occurs.
    """

    tensor: str
    axis: int
    place: str
    index: int
    extent: int
    point: str


def wrong_index(statement: Statement, values: Values, sizes: Mapping[Expr, int]) -> BadIndex | None:
    """First index outside of its tensor; None if there is none, or if the inputs do not determine it.

    The result is None too for a statement with very many points.

    values : the arrays of the inputs.
    """
    bound_statement = _at_sizes(statement, sizes)
    guards = statement_guards(bound_statement)
    places = [(r.tensor, r.indices, k, guards[r]) for r, k in unproven_reads(bound_statement)]
    places += [
        (bound_statement.tensor, bound_statement.write, k, Guards(bound_statement.domain.where))
        for k in unproven_writes(bound_statement)
    ]
    if not places or prod(_constant(v.hi) - _constant(v.lo) for v in bound_statement.domain.axes) > LOOKED_AT:
        return None
    try:
        points = _points(bound_statement, record := Visits(bound_statement), values)
        for t, indices, axis, conditions in places:
            roots = [indices[axis], *conditions]
            if any(r.tensor not in values for r in reads_of(roots)):
                continue
            results = evaluate(roots, points, record.points, values)
            extent = _constant(
                substitute([as_expr(t.shape[axis])], {n: index(k) for n, k in sizes.items()})[0]
            )
            at = results[roots[0]]
            wrong = np.logical_and.reduce([(at < 0) | (at >= extent), *(results[c] for c in conditions)])
            if wrong.any():
                k = int(np.flatnonzero(wrong)[0])
                inside = variables([*indices, *conditions])
                point_axes = [v for v in points if v in inside]
                point = ", ".join(f"{v.name} = {int(points[v][k])}" for v in point_axes)
                place = f"{t.name}[{', '.join(map(text, indices))}]"
                return BadIndex(t.name, axis, place, int(at[k]), extent, point)
    except (IndexingError, KeyError):  # of what an index is read from; of what is not an input
        pass
    return None


class _WrongBound(IndexingError):
    """Raised for a bound that is outside of the range of its axis; ``found`` describes it."""

    def __init__(self, bound: BadBound) -> None:
        argument, actual, expected = bound
        super().__init__("te.interpret", argument, got=actual, expected=expected)
        self.found = bound


def _ragged_points(statement: Statement, record: Visits, values: Values) -> dict[Var, Array]:
    """Points of a domain with bounds that depend on data, as an array for each axis; ``record`` counts them.

    The points are made axis by axis, from bound to bound; then a failing condition removes points.
    """
    bounds, where = bounds_in(statement.domain)
    points, record.points = _extended({}, 1, statement.domain.axes, bounds, where, values, record)
    return points


def _extended(
    points: dict[Var, Array],
    count: int,
    axes: Sequence[Var],
    bounds: Mapping[Var, Bounds],
    where: Sequence[Expr],
    values: Values,
    record: Visits | None,
) -> tuple[dict[Var, Array], int]:
    """The points with values of further axes, and their number.

    bounds, where : of these axes.
    """
    new = set(axes)
    waiting = [c for c in where if not new & set(variables([c]))]
    for c in waiting:
        points, count = _where(c, points, count, values, record)
    for v in axes:
        low, high = bounds.get(v, Bounds()).within(v)
        ends = evaluate([low, high], points, count, values)
        lengths = np.maximum(ends[high] - ends[low], 0)
        wrong = out_of_range(v, bounds.get(v, Bounds()), points, ends)
        if wrong is not None:
            raise _WrongBound(wrong)
        if record is not None:
            record.empty += int((lengths == 0).sum())
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        points = {u: np.repeat(p, lengths) for u, p in points.items()}
        count = int(lengths.sum())
        points[v] = np.repeat(ends[low], lengths) + np.arange(count) - first
        for c in where:
            if v in variables([c]) and all(u in points for u in variables([c])):
                points, count = _where(c, points, count, values, record)
    return points, count


def _where(
    condition: Expr, points: dict[Var, Array], count: int, values: Values, record: Visits | None
) -> tuple[dict[Var, Array], int]:
    """The points at which a condition holds, and their number; ``record`` counts the others."""
    mask = evaluate([condition], points, count, values)[condition]
    if record is not None:
        record.idle += count - int(mask.sum())
    return {u: p[mask] for u, p in points.items()}, int(mask.sum())


def _walked(walk: tuple[Walk, ...], axes: tuple[Var, ...], record: Visits) -> Iterator[tuple[int, ...]]:
    """Iterator over the points of a walk (the values of the axes); ``record`` counts guards and loops."""
    at: dict[Var, int] = {}

    def visit(items: tuple[Walk, ...]) -> Iterator[tuple[int, ...]]:
        for item in items:
            if isinstance(item, Point):
                yield tuple(scalar(e, at) for e in item.at)
            elif isinstance(item, If):
                if scalar(item.condition, at):
                    yield from visit(item.body)
                else:
                    record.idle += 1
            else:
                yield from loop(item)

    def loop(item: For) -> Iterator[tuple[int, ...]]:
        span = range(scalar(item.lower, at), scalar(item.upper, at), item.step)
        if not span:
            record.empty += 1
        for value in span:
            at[item.var] = value
            yield from visit(item.body)

    return visit(walk)


def scalar(root: Expr, at: Mapping[Var, int]) -> int:
    """Value of an index expression or condition, in Python integers, at the values ``at`` of variables."""
    if isinstance(root, Const):
        return int(root.value)
    if isinstance(root, Var):
        return at[root]
    results: dict[Expr, int] = {}
    for node in postorder([root]):
        if isinstance(node, Const):
            results[node] = int(node.value)
        elif isinstance(node, Var):
            results[node] = at[node]
        elif isinstance(node, Apply):
            results[node] = _ON_INTEGERS[node.name](*(results[o] for o in node.args))
        elif isinstance(node, Select):
            results[node] = results[node.then] if results[node.condition] else results[node.other]
        else:
            raise ArgumentError("te.interpret", got=text(node), expected="index arithmetic")
    return results[root]


_ON_INTEGERS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "negative": lambda a: -a,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "minimum": min,
    "maximum": max,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
    "logical_not": lambda a: not a,
}


def evaluate(
    roots: Sequence[Expr],
    points: Mapping[Var, Array],
    count: int,
    values: Values,
    record: Visits | None = None,
) -> dict[Expr, Array]:
    """Values of all nodes under the roots at ``count`` points, given as one integer array per variable.

    Nodes in reductions have no values here. A read out of range on a side that no Select chooses is ignored;
    elsewhere it raises IndexingError.

    record : counts the points of reductions.
    """
    results, bad = _evaluated(roots, points, count, values, record)
    for root in roots:
        if bad[root].any():
            raise _outside(root, results, np.flatnonzero(bad[root])[0])
    return results


def _evaluated(
    roots: Sequence[Expr],
    points: Mapping[Var, Array],
    count: int,
    values: Values,
    record: Visits | None,
    leaf_values: Mapping[Expr, Array] = NONE,
) -> tuple[dict[Expr, Array], dict[Expr, Array]]:
    """Values of nodes as of `evaluate`, and for each node where it needs a read out of range.

    leaf_values : values of some nodes.
    """
    results: dict[Expr, Array] = {}
    bad: dict[Expr, Array] = {}
    fine = np.zeros(count, bool)
    with np.errstate(all="ignore"):
        for node in producers_first(roots, operands_here):
            here = operands_here(node)
            below = [results[o] for o in here]
            wrong = fine
            for o in here:
                wrong = wrong | bad[o]
            if node in leaf_values:
                result = leaf_values[node]
            elif isinstance(node, Const):
                result = np.full(count, node.value, node.dtype)
            elif isinstance(node, Var):
                result = points[node]
            elif isinstance(node, Read):
                result, outside = _read(node, below, values, count)
                wrong = wrong | outside
            elif isinstance(node, Select):
                result = np.where(*below)
                side = np.where(below[0], bad[node.then], bad[node.other])
                wrong = bad[node.condition] | side
            elif isinstance(node, Cast):
                result = converted(below[0], node.dtype)
            elif isinstance(node, Apply):
                result = _applied(node, below)
            else:
                assert isinstance(node, Scoped)
                result, wrong = _reduced(node, points, count, values, record)
            results[node], bad[node] = result, wrong
    return results, bad


def _reduced(
    node: Scoped, points: Mapping[Var, Array], count: int, values: Values, record: Visits | None
) -> tuple[Array, Array]:
    """Values of a reduction at points, and where it needs a read out of range."""
    bounds, where = bounds_of(node)
    outer = Var("point", 0, None)
    inner, size = _extended(
        {**points, outer: np.arange(count)}, count, node.axes, bounds, where, values, record
    )
    if record is not None:
        record.inner += size
    at = inner.pop(outer)
    arg = isinstance(node, Reduce) and node.combine.startswith("arg")
    places = (position_of(node),) if arg and isinstance(node, Reduce) else ()
    results, bad = _evaluated((*node.values, *places), inner, size, values, record)
    wrong = np.zeros(count, bool)
    for e in node.values:
        np.logical_or.at(wrong, at, bad[e])
    terms = [results[e] for e in node.values]
    if isinstance(node, Fold):
        return _folded(node, at, terms, count), wrong
    out = np.full(count, start(node.combine, node.dtype), node.dtype)
    _combine(node.combine, out, (at,), terms[0], results[places[0]] if places else None)
    return out, wrong


def _folded(node: Fold, at: Array, terms: list[Array], count: int) -> Array:
    """Number of the combined elements, one for each of ``count`` points.

    at, terms : the point to which each element belongs, and the numbers of the elements.
    """
    reducer = node.reducer
    totals = [np.full(count, v.value, v.dtype) for v in reducer.identities if isinstance(v, Const)]
    turn = np.arange(at.size) - np.searchsorted(at, at)
    for k in range(int(turn.max(initial=-1)) + 1):
        active = turn == k
        rows = at[active]
        elements = (*(t[rows] for t in totals), *(t[active] for t in terms))
        leaf_values = dict(zip((t[()] for t in (*reducer.first, *reducer.second)), elements, strict=True))
        results, _ = _evaluated(reducer.results, {}, rows.size, {}, None, leaf_values)
        for total, e in zip(totals, reducer.results, strict=True):
            total[rows] = results[e]
    return totals[node.number]


def _applied(node: Apply, operands: list[Array]) -> Array:
    try:
        return np.asarray(applied(node.name, operands, node.dtype))
    except ValueError as error:  # integers to negative integer powers
        raise ArgumentError(f"te.{node.name}", got=text(node), remedy=str(error)) from None


def _read(node: Read, at: list[Array], values: Values, count: int) -> tuple[Array, Array]:
    array = values[node.tensor]
    outside = np.zeros(count, bool)
    clipped = []
    for i, n in zip(at, array.shape, strict=True):
        outside |= (i < 0) | (i >= n)
        clipped.append(np.clip(i, 0, max(n - 1, 0)))
    if array.size == 0:
        return np.zeros(count, array.dtype), outside
    return np.broadcast_to(array[tuple(clipped)], (count,)), outside


def _outside(root: Expr, results: Mapping[Expr, Array], point: int) -> IndexingError:
    """Error for the read under ``root`` that is out of range at the given point."""
    for node in producers_first([root], operands_here):
        if isinstance(node, Read):
            at = tuple(int(results[i][point]) for i in node.indices)
            if any(not 0 <= i < _constant(n) for i, n in zip(at, node.tensor.shape, strict=True)):
                return IndexingError(
                    "te.interpret",
                    node.tensor.name,
                    got=f"index {at} from {text(node)}",
                    expected=f"an index inside shape {node.tensor.shape}",
                )
    return IndexingError("te.interpret", got=f"an index out of range in {text(root)}")


def _check_write(statement: Statement, where: tuple[Array, ...], shape: tuple[int, ...]) -> None:
    for axis, (i, n) in enumerate(zip(where, shape, strict=True)):
        if ((i < 0) | (i >= n)).any():
            wrong = i[(i < 0) | (i >= n)][0]
            raise IndexingError(
                "te.interpret",
                statement.tensor.name,
                got=f"a write at {wrong} on axis {axis}",
                expected=f"an index in [0, {n})",
            )


def _combine(combine: str, out: Array, where: tuple[Array, ...], body: Array, position: Array | None) -> None:
    """Combine the values ``body`` into the entries ``where`` of ``out``, in place.

    position : for argmax and argmin, the numbers to store.
    """
    flat = out.reshape(-1)
    at = np.zeros(len(body), np.int64)
    for i, n in zip(where, out.shape, strict=True):
        at = at * n + i
    if combine == "assign":
        flat[at] = body
    elif position is not None:
        _combine_position(combine, flat, at, body, position)
    else:
        with np.errstate(all="ignore"):
            SCALARS[COMBINE[combine]].body.at(flat, at, body)  # type: ignore[attr-defined]


def _combine_position(combine: str, out: Array, at: Array, body: Array, position: Array) -> None:
    best: dict[int, Any] = {}
    for k in np.argsort(position, kind="stable"):
        entry = int(at[k])
        if entry not in best or _better(combine, body[k], best[entry]):
            best[entry] = body[k]
            out[entry] = position[k]


def _better(combine: str, new: float, old: float) -> bool:
    if np.isnan(old):
        return False
    return bool(np.isnan(new) or (new > old if combine == "argmax" else new < old))
