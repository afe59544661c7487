"""Instrumented run of a function: it is traced, simplified and run, with everything counted."""

from __future__ import annotations

import linecache
import time
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature, unwrap
from math import prod
from typing import TYPE_CHECKING, Any

from iverson.autograd.mode import recording
from iverson.autograd.node import Node, Where, line_of
from iverson.core.aval import Aval
from iverson.core.counting.cost import PRODUCTS, Cost
from iverson.core.counting.notes import Annihilated, Called, Skip, Unspecified
from iverson.core.counting.work import Work, counting
from iverson.core.dispatch import Handle, make_handle, value_of
from iverson.core.entries import NOTHING, Box, Bracket, Stored
from iverson.core.protocols import Shaped
from iverson.explain.model import Body, Found, Line, Piece, Step
from iverson.explain.program import called_programs, steps_of
from iverson.explain.rule_costs import RuleCosts, of_equation
from iverson.graph import passes
from iverson.graph.control.bodies import compiled
from iverson.graph.ir.interpret import evaluated, interpret
from iverson.graph.ir.nodes import UNDEFINED, Argument, Equation, Graph, Undefined, Value, values_of
from iverson.graph.ir.print import Printer, type_text
from iverson.graph.passes.sum_collapsing import collapsing, stops
from iverson.graph.tracing.trace import Traced
from iverson.layouts import entries, layout_of, support_of
from iverson.transforms.jit import Jitted, jit

if TYPE_CHECKING:
    from iverson.transforms.trees import Function

#: Of so many runs the fastest is reported.
_RUNS = 5
#: What the passes that take equations away are called as reasons.
_PASSES = {
    "entries": "bracket",
    "dead_code": "dead",
    "common": "common",
    "constants": "constant",
    "demands": "not needed",
    "collapsing": "collapsed",
}


def observe(
    function: Function, args: Sequence[object], kwargs: Mapping[str, object], *, timed: bool
) -> Found:
    """Account of one call of ``function``: it is traced on these arguments, simplified and run, and all work
    is counted.

    timed : True to measure the time of each step and of a call.
    """
    jitted = function if isinstance(function, Jitted) else jit(function)
    with counting(notes=True) as work:
        traced, handles = jitted.traced(*args, **kwargs)
    graph, removals, between = simplified(traced)
    names = _names(graph, traced, [e for e, _ in removals])
    values = [make_handle(value_of(h)) for h in handles]
    with recording(False):
        steps = _run(graph, values, names, timed=timed)
    pieces = [
        *_from_notes(work, traced),
        *(Piece(reason, _described(e), of_equation(e), _line(e.where), e) for e, reason in removals),
        *between,
        *(
            Piece(s.reason, f"part of {_described(s.equation)}", s.avoided, s.line, s.equation)
            for s in steps
            if s.avoided
        ),
    ]
    is_compiled = isinstance(function, Jitted)
    calls = [n for n in work.notes or [] if isinstance(n, Called)]
    return Found(
        _name(function),
        traced,
        graph,
        names,
        tuple(steps),
        tuple(p for p in pieces if p.cost or p.reason == "collapsed"),
        tuple(removals),
        program=steps_of(graph) if is_compiled else called_programs(calls),
        seconds=_call_time(function, args, kwargs) if timed else None,
        done=sum((s.done for s in steps), Cost()),
        compiling=_of_work(work),
        arguments=_arguments(function, args, kwargs, dict(zip(traced.inputs, values, strict=True))),
    )


def _arguments(
    function: Function, args: Sequence[object], kwargs: Mapping[str, object], inputs: Mapping[Value, Handle]
) -> dict[object, str]:
    """Map from inputs of the graph to source text, such as ``params['w']``, for inputs that are (leaves of)
    arguments.

    inputs : the handle of each input. The map is empty if the function has no signature.
    """
    from optree import tree_accessors, tree_leaves

    try:
        bound = signature(_innermost(unwrap(function))).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a callable without a signature
        return {}
    texts = {}
    for name, tree in bound.items():
        for accessor, leaf in zip(tree_accessors(tree), tree_leaves(tree), strict=True):
            texts[id(value_of(leaf, leaf))] = accessor.codify(name)
    return {v: texts[id(at)] for v, x in inputs.items() if id(at := value_of(x)) in texts}


def _call_time(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> float:
    """Seconds that a call takes: the least of `_RUNS` calls after a first one."""
    function(*args, **kwargs)
    times = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        function(*args, **kwargs)
        times.append(time.perf_counter() - started)
    return min(times)


def _name(function: Function) -> str:
    """Name of a function; for a result of a transform, such as "grad of f", the transform and the user's
    function.
    """
    if isinstance(function, Jitted):
        return f"jit({_name(unwrap(function))})"
    # What a transform makes has the name of the function that it is of; its code has its own.
    code = getattr(function, "__code__", None) if _is_ours(function) else None
    name = code.co_qualname if code else getattr(function, "__qualname__", type(function).__name__)
    maker, inside, _ = name.partition(".<locals>.")
    if not inside or not _is_ours(function):
        return name.rpartition(".")[2]
    of = _innermost(function)
    return f"{maker} of {'a function' if of is None else getattr(of, '__name__', type(of).__name__)}"


def _innermost(function: Function | None) -> Any:
    """The user's function that a function of this package was made from; None if there is none."""
    while _is_ours(function):
        inside = [c.cell_contents for c in getattr(function, "__closure__", None) or ()]
        function = next((unwrap(f) for f in inside if callable(f)), None)
    return function


def _is_ours(function: Function | None) -> bool:
    """Return True if a function is defined in a module of this package, whatever its name is."""
    names = getattr(function, "__globals__", None)
    module = names.get("__name__", "") if names else getattr(function, "__module__", "")
    return str(module).partition(".")[0] == "iverson"


# -- passes ------------------------------------------------------------------------------------------


def simplified(traced: Graph) -> tuple[Graph, list[tuple[Equation, str]], list[Piece]]:
    """Graph after all passes, the equations that passes removed, and pieces of the work that was saved
    otherwise.

    Each removed equation has the reason of its removal. A piece is for a pass that replaces equations by
    others.
    """
    run_by: Sequence[Any] = passes.PASSES
    graph = traced
    removals: list[tuple[Equation, str]] = []
    pieces: list[Piece] = []
    for run in run_by:
        after = run(graph)
        before = {v for e in graph.equations for v in e.results}
        remaining_values = {v for e in after.equations for v in e.results}
        old_equations = [e for e in graph.equations if remaining_values.isdisjoint(e.results)]
        new_equations = [e for e in after.equations if before.isdisjoint(e.results)]
        reason = _PASSES.get(run.__name__, "algebra")
        pieces += _shorter(graph, after)
        if run is collapsing:
            pieces += [
                Piece("collapsed", f"a sum stays at {v.shape}: {why}", Cost(), _line(e.where))
                for e, v, why in stops(graph)
            ]
        if not new_equations:  # what a pass wrote is no line's, and was not to be done
            removals += [(e, reason) for e in old_equations if e.where is not None]
        else:
            dense = run.__name__ == "entries"  # a selection in itself is made of its values later
            saved = _total(old_equations, dense).beyond(_total(new_equations, dense))
            if saved and run.__name__ != "inline":
                pieces.append(
                    Piece(reason, f"{len(old_equations)} equations became {len(new_equations)}", saved)
                )
        graph = after
    return graph, removals, pieces


def _shorter(before: Graph, after: Graph) -> list[Piece]:
    """Pieces of avoided work for the loops that run fewer steps after a pass than before it."""
    makers = {v: e for e in after.equations for v in e.results}
    pieces = []
    for e in before.equations:
        now = next((makers[v] for v in e.results if v in makers), e)
        steps = e.params.get("length", 0) - now.params.get("length", 0)
        if now.op is e.op and steps > 0:
            saved = of_equation(e).beyond(of_equation(now))
            pieces.append(Piece("not needed", f"{steps} steps of {e.op.name}", saved, _line(e.where), e))
    return pieces


def _total(equations: Iterable[Equation], dense: bool) -> Cost:
    return sum((of_equation(e, dense=dense) for e in equations), Cost())


# -- steps -------------------------------------------------------------------------------------------


def _run(graph: Graph, values: Sequence[Handle], names: Mapping[Value, str], *, timed: bool) -> list[Step]:
    """Steps of a run of the graph by the interpreter, with the work and, if ``timed``, the time of each
    equation.
    """
    runs: list[tuple[Equation, Work, list[Any], list[Any]]] = []

    def counted(equation: Equation, environment: dict[Value, Argument]) -> Sequence[Any]:
        with counting() as work:
            results = evaluated(equation, environment)
        operands = [value_of(environment[x]) for x in values_of(equation.operands)]
        runs.append((equation, work, operands, [value_of(x, x) for x in results]))
        return results

    interpret(graph, values, counted)
    seconds = _timed(graph, values) if timed else [None] * len(runs)
    return [_step(*entry, names, t) for entry, t in zip(runs, seconds, strict=True)]


def _timed(graph: Graph, values: Sequence[Handle]) -> list[float]:
    """Least time of several runs for each equation of the graph, in seconds and in the order of the
    equations.
    """
    durations: list[list[float]] = []

    def clocked(equation: Equation, environment: dict[Value, Argument]) -> Sequence[Any]:
        started = time.perf_counter()
        results = evaluated(equation, environment)
        durations[-1].append(time.perf_counter() - started)
        return results

    for _ in range(_RUNS):
        durations.append([])
        interpret(graph, values, clocked)
    return [min(times) for times in zip(*durations, strict=True)]


def _step(
    equation: Equation,
    work: Work,
    operands: Sequence[Shaped | Undefined],
    results: Sequence[Shaped | Undefined],
    names: Mapping[Value, str],
    seconds: float | None,
) -> Step:
    """Step for one equation that was run: its text, types, layouts, work, and the work that was avoided.

    operands, results : the values it read and gave. work : the count of its work.
    """
    cost = _of_work(work)
    reason = _reason([*operands, *results])
    dense = of_equation(equation, dense=True) if reason and type(equation.op).__name__ == "Op" else Cost()
    return Step(
        equation,
        _text(equation, names),
        tuple(type_text(Aval(v.shape, v.dtype)) for v in equation.results),
        tuple(map(_layout, results)),
        cost,
        dense.beyond(cost),
        reason,
        _line(equation.where),
        seconds,
        _bodies(equation),
    )


def _bodies(equation: Equation) -> tuple[Body, ...]:
    """Graphs that an equation runs (of loops and branches), simplified if they are compiled, as steps."""
    bodies = []
    for key, body in sorted(equation.params.items()):
        if isinstance(body, Graph):
            graph = passes.simplified(body) if compiled(body).native else body
            names = _names(graph, graph, ())
            inputs = ", ".join(names[v] for v in graph.inputs)
            steps = tuple(_by_types(e, names) for e in graph.equations)
            bodies.append(Body(f"{key}({inputs})", steps))
    return tuple(bodies)


def _by_types(equation: Equation, names: Mapping[Value, str]) -> Step:
    """Step for an equation of a body that was not run separately: its cost follows from types of operands and
    results.
    """
    types = tuple(type_text(Aval(v.shape, v.dtype)) for v in equation.results)
    layouts = ("strided",) * len(types)
    text, cost, line = _text(equation, names), of_equation(equation), _line(equation.where)
    return Step(equation, text, types, layouts, cost, Cost(), "", line, None, _bodies(equation))


def _of_work(work: Work) -> Cost:
    products = work.products + work.sparse_products
    return Cost(products, work.multiply_adds, work.total_entrywise, work.total_bytes)


def _reason(values: Sequence[Shaped | Undefined]) -> str:
    """Name of the kind of zeros in ``values`` because of which less is computed than the shapes require; ""
    if none.
    """
    supports = [support_of(x) for x in values if x is not UNDEFINED]
    kinds = {"undefined": type(NOTHING), "box": Box, "pattern": Stored, "bracket": Bracket}
    return next((name for name, kind in kinds.items() if any(isinstance(s, kind) for s in supports)), "")


# -- what was noted while tracing ----------------------------------------------------------------------


def _from_notes(work: Work, traced: Graph) -> list[Piece]:
    """Pieces of avoided work from the notes taken while the function was traced: skipped cotangents, zeros
    and masks.
    """
    notes = work.notes or []
    costs, equations = RuleCosts(), _Equations(traced, (n.node for n in notes if isinstance(n, Skip)))
    pieces = []
    for note in notes:
        if isinstance(note, Skip):
            full_cost = costs.of(note.node, note.position, beside=note.beside)
            saved = full_cost.beyond(costs.of(note.node, note.position, note.part))
            prefix = "" if note.part is NOTHING else "part of "
            text = f"{prefix}the cotangent of input {note.position} of {note.node.op.name}"
            of = equations.of(note.node)
            pieces.append(Piece(note.reason, text, saved, _line(note.node.where), of, of_cotangent=True))
        elif isinstance(note, Annihilated):
            pieces.append(_annihilated(note))
        elif isinstance(note, Unspecified) and note.name not in PRODUCTS:
            absent = note.size - note.specified
            saved = Cost(entries=absent, bytes=absent * note.itemsize)
            pieces.append(Piece("mask", f"unspecified entries of {note.name}", saved, _line(note.where)))
    return pieces


def _annihilated(note: Annihilated) -> Piece:
    operands = [Aval(x.shape, x.dtype) if isinstance(x, Aval) else x for x in note.operands]
    avals = note.op.infer(*operands, **note.params)
    results = tuple([Value(a) for a in (avals if note.op.multiple else (avals,))])
    values = tuple([Value(x) if isinstance(x, Aval) else x for x in operands])
    saved = of_equation(Equation(note.op, values, note.params, results))
    return Piece("undefined", f"{note.op.name} of zeros", saved, _line(note.where))


class _Equations:
    """Search for the equation of a graph that recorded a node.

    The equation has the node's op, line and shapes of operands. If there are several, it is the one that
    shares most values with the node; if none shares any, the one at the node's position among the nodes with
    the same op, line and shapes.
    """

    def __init__(self, graph: Graph, nodes: Iterable[Node]) -> None:
        self._alike: dict[Any, list[Equation]] = {}
        for e in graph.equations:
            key = e.op, e.where, tuple(getattr(x, "shape", None) for x in e.operands)
            self._alike.setdefault(key, []).append(e)
        self._nodes: dict[Any, list[Node]] = {}
        for node in sorted(set(nodes), key=lambda n: n.number):
            self._nodes.setdefault(self._key(node), []).append(node)

    @staticmethod
    def _key(node: Node) -> Any:
        return node.op, node.where, tuple(getattr(x, "shape", None) for x in node.args)

    def of(self, node: Node) -> Equation | None:
        """Equation that recorded ``node``; None if there is none."""
        key = self._key(node)
        alike, nodes = self._alike.get(key, []), self._nodes[key]
        if not alike:
            return None
        outs = node.out if node.multiple else (node.out,)
        values = {x.value for x in (*node.args, *outs) if isinstance(x, Traced)}
        overlaps = [len(values.intersection((*values_of(e.operands), *e.results))) for e in alike]
        if max(overlaps):
            return alike[overlaps.index(max(overlaps))]
        return alike[min(nodes.index(node), len(alike) - 1)]


# -- words ---------------------------------------------------------------------------------------------


def _names(graph: Graph, traced: Graph, extra: Sequence[Equation]) -> dict[Any, str]:
    values = [v for g in (graph, traced) for v in (*g.inputs, *(c for c, _ in g.constants))]
    values += [v for e in (*graph.equations, *extra) for v in e.results]
    return {v: f"%{k}" for k, v in enumerate(dict.fromkeys(values))}


def _text(equation: Equation, names: Mapping[Value, str]) -> str:
    """Text of an equation in one line; graphs among its parameters are shown as ``...``."""
    printer = Printer(False)
    printer.names.update(names)
    parts = []
    for key, value in sorted(equation.params.items()):
        text = "..." if isinstance(value, Graph) else printer.param(value, "")
        parts.append(f"{key}={text if len(text) <= _LONG else text[:_LONG] + '...'}")
    operands = ", ".join(
        names.get(x, "%?") if type(x) is Value else printer.operand(x) for x in equation.operands
    )
    params = f"[{', '.join(parts)}]" if parts else ""
    return f"{', '.join(names[v] for v in equation.results)} = {equation.op.name}{params}({operands})"


_LONG = 40


def _described(equation: Equation) -> str:
    shapes = [x.shape for x in values_of(equation.operands)]
    return f"{equation.op.name} of {' and '.join(map(str, shapes))}" if shapes else equation.op.name


def _layout(value: Any) -> str:
    """Name of the layout of a value, with the number of stored entries if not all are stored."""
    if value is UNDEFINED:
        return "undefined"
    name, count = layout_of(value).name, entries(value)
    return name if count >= prod(value.shape) else f"{name} with {count} entries"


def _line(where: Where | None) -> Line | None:
    if where is None:
        return None
    file, _, number = line_of(where).rpartition(":")
    return Line(file, int(number), linecache.getline(file, int(number)).strip())
