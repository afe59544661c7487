"""Common-subexpression elimination: equal equations are computed once.

    %1 = sin(%0)
    %2 = sin(%0)                ->      %1 = sin(%0)
    %3 = multiply(%1, %2)               %3 = multiply(%1, %1)

Equations are equal if they have the same op, parameters and operands, unless they draw random numbers or run
code of the user's. Constants that hold the same entries are one. So are operands that a loop is given twice,
and carries that start the same and stay the same in each step, as tangents in one direction do:

    %2, %3 = while[body=graph(%a, %b) {          %2 = while[body=graph(%a) {
      return (sin(%a), sin(%b)) }](%0, %0)   ->    return (sin(%a)) }](%0)

Scans of the same operands with the same carries become one scan that stacks the results of all of them: for
example a loop, and the same loop with what its derivative reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from iverson.core.op import frozen
from iverson.core.protocols import LayoutValue
from iverson.core.python.exact_keys import exact
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value
from iverson.graph.ir.operations import OPERATIONS, is_pure
from iverson.graph.ir.regions import opened, rewritten, substituted
from iverson.layouts import Strided, Zero

#: Constants with more entries are compared by identity alone.
_SMALL = 4096


def common(graph: Graph) -> Graph:
    """The graph in which nothing is computed twice."""
    replacements: dict[Value, Operand] = {}
    results_by_key: dict[Any, tuple[Value, ...]] = {}
    constants = []
    for value, constant in graph.constants:
        key = _constant_key(constant)
        if key in results_by_key:
            replacements[value] = results_by_key[key][0]
        else:
            results_by_key[key] = (value,)
            constants.append((value, constant))
    equations: list[Equation] = []
    scans: dict[Any, int] = {}
    for equation in graph.equations:
        candidate = _with_fewer_carries(rewritten(equation, replacements), replacements)
        key = _key(candidate)
        if key is None or key not in results_by_key:
            if key is not None and candidate.op.name == "scan":
                at = scans.setdefault(_scan_key(candidate), len(equations))
                merged = (
                    None if at == len(equations) else _scanned_once(equations[at], candidate, replacements)
                )
                if merged is not None:
                    equations[at] = merged
                    continue
            equations.append(candidate)
            if key is not None:
                results_by_key[key] = candidate.results
        else:
            replacements.update(zip(equation.results, results_by_key[key], strict=True))
    return Graph(graph.inputs, tuple(equations), substituted(graph.outputs, replacements), tuple(constants))


#: Loops, and their parameters that are graphs of the same inputs; the last one is of a step.
_LOOPS = {"while": ("condition", "body"), "scan": ("body",)}


def _with_fewer_carries(e: Equation, replacements: dict[Value, Operand]) -> Equation:
    """A loop without operands and carries that are equal to others; any other equation as it is.

    Results that are dropped are added to ``replacements``.
    """
    if e.op.name not in _LOOPS or len(set(map(exact, e.operands))) == len(e.operands):
        return e
    graphs = {name: e.params[name] for name in _LOOPS[e.op.name]}
    body, consts = graphs["body"], e.params["consts"]
    end = consts + e.params.get("carry", len(e.operands) - consts)
    first: dict[Any, int] = {}
    first_equal = [
        first.setdefault((k < consts, k < end, v.shape, v.dtype, exact(x)), k)
        for k, (v, x) in enumerate(zip(body.inputs, e.operands, strict=True))
    ]
    while True:  # until all that are taken for the same are so after a step in which they were
        inner, refined = common(_joined(body, first_equal)), list(first_equal)
        first = {}
        for k in range(consts, end):
            refined[k] = first.setdefault((first_equal[k], exact(inner.outputs[k - consts])), k)
        if refined == first_equal:
            break
        first_equal = refined
    keep = [k for k, n in enumerate(first_equal) if k == n]
    if len(keep) == len(first_equal):
        return e
    at = [
        k for k in range(len(e.results)) if not (k < end - consts and first_equal[consts + k] != consts + k)
    ]
    replacements.update(
        (v, e.results[first_equal[consts + k] - consts]) for k, v in enumerate(e.results) if k not in at
    )
    params = dict(e.params)
    for name, graph in graphs.items():
        merged = inner if name == "body" else _joined(graph, first_equal)
        params[name] = replace(merged, inputs=tuple(graph.inputs[k] for k in keep))
    params["body"] = replace(params["body"], outputs=tuple(inner.outputs[k] for k in at))
    params["consts"] = sum(k < consts for k in keep)
    if "carry" in params:
        params["carry"] = sum(consts <= k < end for k in keep)
    operands, results = tuple(e.operands[k] for k in keep), tuple(e.results[k] for k in at)
    return replace(e, op=OPERATIONS[e.op.name], operands=operands, params=params, results=results)


def _scan_key(e: Equation) -> Any:
    """Key of a scan, equal for scans that differ only in what their bodies compute."""
    params = {k: p for k, p in e.params.items() if k != "body"}
    return tuple(map(exact, e.operands)), frozen(params)


def _scanned_once(a: Equation, b: Equation, replacements: dict[Value, Operand]) -> Equation | None:
    """One scan in place of the scans ``a`` and ``b`` of the same operands; None if their carries differ.

    Results of ``b`` that it computes already are added to ``replacements``.
    """
    body, other, carry = a.params["body"], b.params["body"], a.params["carry"]
    inside: dict[Value, Operand] = {}
    equations = (*body.equations, *opened(other, body.inputs, inside))
    outputs = (*body.outputs, *substituted(other.outputs, inside))
    constants = tuple(dict((*body.constants, *other.constants)).items())
    merged = common(Graph(body.inputs, equations, outputs, constants))
    outs, offset = list(map(exact, merged.outputs)), len(body.outputs)
    if outs[:carry] != outs[offset : offset + carry]:
        return None
    stacked = dict(zip(outs[carry:offset], a.results[carry:], strict=True))
    new_outputs, results = list(merged.outputs[:offset]), list(a.results)
    for k, v in enumerate(b.results):
        key = outs[offset + k]
        if k >= carry and key not in stacked:
            stacked[key] = v
            new_outputs.append(merged.outputs[offset + k])
            results.append(v)
        elif (result := a.results[k] if k < carry else stacked[key]) is not v:
            replacements[v] = result
    params = {**a.params, "body": replace(merged, outputs=tuple(new_outputs))}
    return replace(a, op=OPERATIONS[a.op.name], params=params, results=tuple(results))


def _joined(graph: Graph, first_equal: list[int]) -> Graph:
    """A graph that reads the first of equal inputs; ``first_equal`` has the number of that for each input."""
    replacements: dict[Value, Operand] = {
        v: graph.inputs[k] for v, k in zip(graph.inputs, first_equal, strict=True)
    }
    equations = tuple([rewritten(e, replacements) for e in graph.equations])
    return replace(graph, equations=equations, outputs=substituted(graph.outputs, replacements))


def _key(equation: Equation) -> Any:
    """Key that equal equations share; None for one that is not pure, or whose parameters can't be hashed."""
    if not is_pure(equation):
        return None
    operands = tuple(map(exact, equation.operands))
    key = equation.op, operands, frozen(equation.params)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _constant_key(constant: LayoutValue) -> Any:
    if type(constant) is Strided and constant.size <= _SMALL:
        return constant.shape, constant.dtype, constant.tobytes()
    if type(constant) is Zero:
        return Zero, constant.shape, constant.dtype
    return id(constant)
