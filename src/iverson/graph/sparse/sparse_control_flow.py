"""Loops and branches on sparse values as loops and branches on their entries and index arrays.

    %5 = scan[body=graph(%2, %3) {           ->     %7 = scan[body=graph(%4, %3) {
      %4 = multiply(%2, %3)                           %6 = multiply(%4, %3)
      return (%4) }](%0, %1)                          return (%6) }](%entries, %1)

where %0 and %4 are stored on one pattern. Index arrays that a body reads, and entries that are the same in
all steps, are operands before those that are carried. A result that is stored on one pattern in all steps is
given as its entries, stacked if each step gives one, and becomes an array if anything but a loop reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from iverson.core.aval import Aval
from iverson.graph.ir.nodes import UNDEFINED, Equation, Graph, Value, subgraphs
from iverson.graph.ir.pattern_binding import names_symbols
from iverson.graph.lowering.padding import entry_axis
from iverson.graph.sparse.calling_convention import Entries, Given
from iverson.graph.sparse.lowering_state import Opening, is_stored, pattern_of
from iverson.layouts import Pattern

#: What else of a body is stored is made an array of so many entries at most.
_SMALL = 1 << 20

#: Of ops that run graphs, how many operands come before those of the graphs.
BLOCKS = {"scan": 0, "while": 0, "cond": 1, "checkpoint": 0}


def opened_block(o: Opening, e: Equation) -> bool:
    """Rule of loops and branches: write them on entries and index arrays. False if that is not possible.

    Entries and index arrays that are the same in all steps become operands; so do the entries of values that
    are carried on one pattern.
    """
    graphs = dict(subgraphs(e))
    first, operands = e.operands[: BLOCKS[e.op.name]], e.operands[BLOCKS[e.op.name] :]
    is_padded = any(entry_axis(x, o.bounded) is not None for x in operands)
    if not (is_padded or any(map(names_patterns, graphs.values()))) or any(map(is_stored, e.results)):
        return False
    openings = {name: o.inside(body) for name, body in graphs.items()}
    body_openings = {name: inner for name, inner in openings.items() if name != "condition"}
    patterns = _carried(e, [inner.graph for inner in body_openings.values()])
    outputs: dict[str, list[Any]] = {}
    for name, inner in openings.items():
        inner.open_all()
        if UNDEFINED in inner.graph.outputs:
            return False
        stored_results = patterns if name in body_openings else {}
        if any(
            is_stored(x) and k not in stored_results and prod(x.shape) > _SMALL
            for k, x in enumerate(inner.graph.outputs)
        ):
            return False
        outputs[name] = [
            inner.open(x) if k in stored_results else inner.dense(x)
            for k, x in enumerate(inner.graph.outputs)
        ]
    for name, inner in openings.items():
        inner.bound(outputs[name])
    if any(map(_is_left, openings.values())):
        return False
    takes = list(dict.fromkeys(t for inner in openings.values() for t in inner.takes))
    moves: list[Any] = []
    if "consts" in e.params:
        count = e.params.get("carry", len(e.results))
        moving = {k + e.params["consts"]: p for k, p in patterns.items() if k < count}
        moves = [t for t in takes if type(t) is Given and t.number >= e.params["consts"]]
        moves += [Entries(k, p) for k, p in moving.items()]
        moves = sorted(
            {*moves, *(t for t in takes if type(t) is Entries and t.number >= e.params["consts"])},
            key=lambda t: t.number,
        )
        if len({t.number for t in moves}) < len(moves):
            return False
        takes = [*(t for t in takes if t not in moves), *moves]
    inner_operands = [o.operand(t, operands) for t in takes]
    if None in inner_operands:
        return False
    bodies = {}
    for name, inner in openings.items():
        core = inner.core(outputs[name])
        inputs = tuple(
            inner.takes.get(t) or Value(Aval(x.shape, x.dtype))
            for t, x in zip(takes, inner_operands, strict=True)
        )
        bodies[name] = replace(core, inputs=inputs)
    params = {**e.params, **bodies}
    if "consts" in params:
        params["consts"] = len(takes) - len(moves)
    results = tuple(
        Value(Aval((*v.shape[: -patterns[k].ndim], patterns[k].count), v.dtype)) if k in patterns else v
        for k, v in enumerate(e.results)
    )
    o.equations.append(
        replace(e, operands=(*map(o.given, first), *inner_operands), params=params, results=results)
    )
    for k, p in patterns.items():
        o.entries[e.results[k]], o.carried[e.results[k]] = results[k], p
    return True


def steps_read(o: Opening, e: Equation) -> bool:
    """Rule of `index_basic` that reads one or some steps of the stacked results of a loop on entries.

    False for other operands and keys.
    """
    (x,), (v,) = e.operands, e.results
    if x not in o.carried or len(o.entries[x].shape) == 1:
        return False
    at, *remaining = e.params["key"]
    full_slices = [slice(0, n, 1) for n in x.shape[1:]]
    if at is None or remaining != full_slices:
        return False
    entries = o.entries[x]
    o.entries[v] = o.bind("index_basic", entries, key=(at, slice(0, entries.shape[1], 1)))
    o.carried[v] = o.carried[x]
    return True


def _carried(e: Equation, bodies: Sequence[Graph]) -> dict[int, Any]:
    """Patterns, by number, of the results of a loop or branch that are stored on one pattern in all steps."""
    count = e.params.get("carry", len(e.results))
    patterns: dict[int, Any] = {}
    for k in range(len(e.results)):
        outputs = [body.outputs[k] for body in bodies]
        if all(is_stored(x) and pattern_of(x).ndim == len(x.shape) for x in outputs):
            carries = "consts" in e.params and k < count
            inputs = [body.inputs[k + e.params["consts"]] for body in bodies] if carries else []
            if all(is_stored(x) and pattern_of(x) is pattern_of(outputs[0]) for x in (*outputs, *inputs)):
                patterns[k] = pattern_of(outputs[0])
    return patterns


def _is_left(inner: Opening) -> bool:
    """True if a body still names a symbol, or reads a sparse value packed.

    Then it cannot be written on entries.
    """
    return any(map(names_symbols, inner.equations)) or any(
        is_stored(v) for take, v in inner.takes.items() if type(take) is Given
    )


def names_patterns(graph: Graph) -> bool:
    """True if anything is sparse in a graph, or in a graph inside it."""
    constants = (v for v, _ in graph.constants)
    values = (*graph.inputs, *constants, *(v for e in graph.equations for v in e.results))
    in_parameters = any(
        e.op.name == "to_layout" or any(isinstance(p, Pattern) for p in e.params.values())
        for e in graph.equations
    )
    inside = (body for e in graph.equations for _, body in subgraphs(e))
    return in_parameters or any(map(is_stored, values)) or any(map(names_patterns, inside))


__all__ = ["names_patterns", "opened_block", "steps_read"]
