"""Padding: what programs compute does not depend on entries beyond a pattern's own, whatever these are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.core.aval import Aval
from iverson.core.entries import Box
from iverson.core.region import Region
from iverson.core.table import TABLE
from iverson.graph.ir import entry_ops
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import Equation, Graph, Value
from iverson.graph.ir.print import text_and_objects
from iverson.graph.lowering.padding import (
    RULES,
    entry_axis,
    guarded,
    on_binding,
    padded,
    trimmed,
    with_counts,
)
from iverson.layouts import Bracket, Zero, to_strided
from iverson.layouts.pattern_symbols import Counts, PatternRead, StandIn, symbol_for
from tests.graph.programs import traced

#: The capacity, and numbers of entries. No other extent is one of these.
CAPACITY = 11
COUNTS = (0, 1, 7, 11)

#: An op, its operands and its parameters.
Call = tuple[Any, list[Any], dict[str, Any]]


def x(*shape: int) -> Any:
    return np.cos(np.arange(1.0, np.prod(shape) + 1)).reshape(shape)


def ints(least: int, largest: int, *shape: int) -> Any:
    return (np.arange(np.prod(shape, dtype=int)) * 7 % (largest - least + 1) + least).reshape(shape)


def starts(n: int) -> Any:
    """The starts of rows of a matrix that stores n entries in 5 rows."""
    return np.array([0, 0, n // 3, n // 3, n // 2, n])


#: By name: a call at so many entries.
KEPT: dict[str, Callable[[int], Call]] = {
    "add_n": lambda n: ("add_n", [x(n, 3), x(n, 3)], {}),
    "sin": lambda n: ("sin", [x(n)], {}),
    "multiply": lambda n: ("multiply", [x(n, 3), x(n, 1)], {}),
    "broadcast_to": lambda n: ("broadcast_to", [x(n, 1)], {"shape": (4, n, 3)}),
    "copy": lambda n: ("copy", [x(n)], {}),
    "expand_dims": lambda n: ("expand_dims", [x(n, 3)], {"axis": (0, 2)}),
    "permute_dims": lambda n: ("permute_dims", [x(n, 3)], {"axes": (1, 0)}),
    "squeeze": lambda n: ("squeeze", [x(n, 1)], {"axis": (1,)}),
    "stack": lambda n: ("stack", [x(n), x(n)], {"axis": 1}),
    "to_dense": lambda n: ("to_dense", [x(n)], {}),
    "sum": lambda n: ("sum", [x(n)], {"axis": (0,), "keepdims": False}),
    "sum of columns": lambda n: ("sum", [x(4, n, 3)], {"axis": (0, 1), "keepdims": True}),
    "sum of rows": lambda n: ("sum", [x(n, 3)], {"axis": (1,), "keepdims": False}),
    "matmul": lambda n: ("matmul", [x(4, n), x(n, 3)], {}),
    "matmul, a row each": lambda n: ("matmul", [x(n, 4), x(4, 3)], {}),
    "matmul, a column each": lambda n: ("matmul", [x(3, 4), x(4, n)], {}),
    "matmul, a matrix each": lambda n: ("matmul", [x(n, 2, 4), x(n, 4, 3)], {}),
    "gather": lambda n: ("gather", [x(4, 3), ints(0, 3, n)], {"axes": (0,)}),
    "gather numbers": lambda n: ("gather", [x(4, 3), ints(0, 3, n), ints(0, 2, n)], {"axes": (0, 1)}),
    "scatter_add": lambda n: ("scatter_add", [x(n, 3), ints(0, 3, n)], {"axes": (0,), "shape": (4, 3)}),
    **{
        f"scatter_add, held {held}": lambda n, held=held: (
            "scatter_add",
            [x(n), ints(1, 3, n)],
            {"axes": (0,), "shape": (5,), "held": held},
        )
        for held in (False, True)
    },
    "reshape": lambda n: ("reshape", [x(n, 6)], {"shape": (n, 2, 3)}),
    "reshape of columns": lambda n: ("reshape", [x(4, n)], {"shape": (2, 2, n)}),
    "index_basic": lambda n: (
        "index_basic",
        [x(n, 5)],
        {"key": (slice(0, n, 1), None, slice(1, 4, 2))},
    ),
    "index_basic, later": lambda n: ("index_basic", [x(5, n)], {"key": (None, 2, slice(0, n, 1))}),
    "index_basic, a row": lambda n: ("index_basic", [x(5, n)], {"key": (2, slice(0, n, 1))}),
    "embed": lambda n: ("embed", [x(n)], {"key": (slice(0, n, 1), 2), "shape": (n, 5)}),
    "segment_max": lambda n: ("segment_max", [x(n, 3), ints(0, 3, n)], {"count": 4}),
    "segment_softmax": lambda n: ("segment_softmax", [x(n), ints(0, 3, n)], {"count": 4}),
    "softmax_pullback": lambda n: ("softmax_pullback", [x(n), x(n), ints(0, 3, n)], {"count": 4}),
    **{
        f"stored_segments, {kind}": lambda n, kind=kind: (
            "stored_segments",
            [x(n, 2), ints(0, 3, n)],
            {"count": 4, "kind": kind},
        )
        for kind in ("prod", "max", "min")
    },
    **{
        f"stored_segments of integers, {kind}": lambda n, kind=kind: (
            "stored_segments",
            [ints(2, 9, n), ints(0, 3, n)],
            {"count": 4, "kind": kind},
        )
        for kind in ("prod", "max", "min")
    },
    "stored_product": lambda n: (
        "stored_product",
        [x(n), starts(n), ints(0, 3, n), x(4, 3)],
        {"shape": (5,), "blocks": (1, 1)},
    ),
    "stored_rows": lambda n: (
        "stored_rows",
        [x(n), starts(n), ints(0, 3, n), ints(0, 4, 6)],
        {"count": 4, "blocks": (1, 1)},
    ),
    "stored_find": lambda n: (
        "stored_find",
        [x(n), starts(n), ints(0, 3, n), ints(0, 4, 6), ints(0, 3, 6)],
        {"blocks": (1, 1)},
    ),
    "stored_read": lambda n: ("stored_read", [x(n, 2), ints(-1, n - 1, 6)], {"flat": False}),
    "stored_read at entries": lambda n: ("stored_read", [x(4), ints(-1, 3, n)], {"flat": True}),
    "no axis of entries": lambda n: ("sort", [x(4)], {"axis": 0, "descending": False}),
    "stored_samples": lambda n: ("stored_samples", [x(5, 3), x(3, 4), ints(0, 4, n), ints(0, 3, n)], {}),
}

#: Those that read an axis of entries in another way than by its own rule, or that have no rule.
REFUSED: dict[str, Callable[[int], Call]] = {
    "no rule": lambda n: ("sort", [x(n)], {"axis": 0, "descending": False}),
    "several axes": lambda n: ("sin", [x(n, n)], {}),
    "gather from entries": lambda n: ("gather", [x(n, 3), ints(0, 3, 4)], {"axes": (0,)}),
    "gather at a matrix": lambda n: ("gather", [x(4, 3), ints(0, 3, n, 2)], {"axes": (0,)}),
    "scatter_add of columns": lambda n: (
        "scatter_add",
        [x(3, n), ints(0, 3, 3)],
        {"axes": (0,), "shape": (4, n)},
    ),
    "scatter_add into entries": lambda n: (
        "scatter_add",
        [x(n), ints(0, 3, n)],
        {"axes": (0,), "shape": (n,)},
    ),
    "scatter_add at a matrix": lambda n: (
        "scatter_add",
        [x(n, 2), ints(0, 3, n, 2)],
        {"axes": (0,), "shape": (4,)},
    ),
    "reshape to a vector": lambda n: ("reshape", [x(n, 6)], {"shape": (n * 6,)}),
    "reshape of a vector": lambda n: ("reshape", [x(n * 6)], {"shape": (n, 6)}),
    "reshape across": lambda n: ("reshape", [x(2, n)], {"shape": (n, 2)}),
    "part of the entries": lambda n: ("index_basic", [x(n)], {"key": (slice(1, n, 1),)}),
    "entries backwards": lambda n: ("index_basic", [x(n)], {"key": (slice(n - 1, None, -1),)}),
    "embed among entries": lambda n: ("embed", [x(3)], {"key": (slice(0, 3, 1),), "shape": (n,)}),
    "embed among others": lambda n: ("embed", [x(n)], {"key": (slice(0, n, 1),), "shape": (20,)}),
    "segment_max of columns": lambda n: ("segment_max", [x(3, n), ints(0, 3, 3)], {"count": 4}),
    "stored_product of entries": lambda n: (
        "stored_product",
        [x(5), starts(5), ints(0, 3, 5), x(4, n)],
        {"shape": (5,), "blocks": (1, 1)},
    ),
    "stored_rows at entries": lambda n: (
        "stored_rows",
        [x(5), starts(5), ints(0, 3, 5), ints(0, 4, n)],
        {"count": 4, "blocks": (1, 1)},
    ),
    "stored_rows of as many columns": lambda n: (
        "stored_rows",
        [x(5), starts(5), ints(0, 3, 5), ints(0, 4, 6)],
        {"count": n, "blocks": (1, 1)},
    ),
    "stored_read of columns": lambda n: ("stored_read", [x(4, n), ints(-1, 3, 6)], {"flat": False}),
    "stored_read at a matrix": lambda n: ("stored_read", [x(n), ints(-1, 6, 6, 2)], {"flat": False}),
    "stored_samples of entries": lambda n: (
        "stored_samples",
        [x(n, 3), x(3, 4), ints(0, 4, 6), ints(0, 3, 6)],
        {},
    ),
    "stored_samples of entries on the right": lambda n: (
        "stored_samples",
        [x(5, 3), x(3, n), ints(0, 4, 6), ints(0, 3, 6)],
        {},
    ),
}


def _op(name: str) -> Any:
    return TABLE.get(name) or getattr(entry_ops, name)


def _graph(call: Call) -> Graph:
    name, operands, params = call
    inputs = tuple(Value(Aval(a.shape, a.dtype)) for a in operands)
    result = Value(_op(name).abstract(*(v.aval for v in inputs), **params))
    return Graph(inputs, (Equation(_op(name), inputs, params, (result,)),), (result,))


def _guarded(graph: Graph) -> Graph:
    """The guarded graph; its last input says which entries are a pattern's own."""
    mask = Value(Aval((CAPACITY,), np.dtype(bool)))
    return replace(guarded(graph, {CAPACITY: mask}), inputs=(*graph.inputs, mask))


def _beyond(a: Any, like: Value) -> Any:
    """An array with as many entries as a value; those beyond its own are nan, or 0 in integers."""
    k = entry_axis(like, {CAPACITY})
    return a if k is None else padded(a, k, CAPACITY, np.nan if a.dtype.kind == "f" else 0)


def _run(graph: Graph, arrays: Any) -> tuple[Any, Any]:
    """The entries of the result, and the condition under which they exist."""
    (result,) = interpret(graph, list(map(iv.asarray, arrays)))
    value = result._value
    return to_strided(value), value.condition if type(value) is Bracket else None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", KEPT)
def test_entries_beyond_the_own_take_no_part(name: str, count: int) -> None:
    of, graph = KEPT[name](count), _guarded(_graph(KEPT[name](CAPACITY)))
    arrays = [_beyond(a, v) for a, v in zip(of[1], graph.inputs, strict=False)]
    found, condition = _run(graph, [*arrays, np.arange(CAPACITY) < count])
    expected, expected_condition = _run(_graph(of), of[1])
    k = entry_axis(graph.outputs[0], {CAPACITY})
    found = found if k is None else trimmed(found, k, count)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(condition, expected_condition)


def test_each_rule_has_a_case() -> None:
    names = {KEPT[name](CAPACITY)[0] for name in KEPT}
    blocks = {"checkpoint", "cond", "scan", "while"}
    assert RULES.keys() - names - blocks == {"from_values", "values_at"}  # whose patterns are symbols


@pytest.mark.parametrize("name", REFUSED)
def test_other_reads_of_entries_are_refused(name: str) -> None:
    with pytest.raises(PatternRead):
        _guarded(_graph(REFUSED[name](CAPACITY)))


# --- blocks -----------------------------------------------------------------------------------------


def _doubled(c: Any, t: Any) -> Any:
    return c + t * 2, c


def test_blocks_stay_but_for_a_step_for_each_entry() -> None:
    over_three = traced(lambda c, t: iv.scan(_doubled, c, t)[0], [x(CAPACITY), x(3, CAPACITY)])
    assert _guarded(over_three).equations == over_three.equations
    over_entries = traced(lambda c, t: iv.scan(_doubled, c, t)[0], [x(4), x(CAPACITY, 4)])
    with pytest.raises(PatternRead):
        _guarded(over_entries)


# --- other counts -----------------------------------------------------------------------------------


def _nested(n: int) -> Graph:
    """Numbers in bodies, in parameters of all kinds and in supports."""
    graph = traced(lambda c, t: iv.scan(_doubled, c, t)[0], [x(n), x(n, n)])
    half = Value(Aval((n, 4), np.dtype("float64"), Box(Region((0, 0), (n, 2)))))
    params = {"keys": [n, (n, slice(0, n, n)), None], "flag": True, "name": "n"}
    copied = Value(half.aval)
    other = Equation(TABLE["copy"], (half,), params, (copied,))
    return replace(
        graph,
        inputs=(*graph.inputs, half),
        equations=(*graph.equations, other),
        outputs=(*graph.outputs, copied, 2.0),
    )


CHANGED: dict[str, Callable[[int], Graph]] = {
    **{name: lambda n, call=call: _graph(call(n)) for name, call in KEPT.items()},
    "nested": _nested,
}


@pytest.mark.parametrize("count", [2, 7, 13])
@pytest.mark.parametrize("name", CHANGED)
def test_graphs_of_other_counts_are_those_of_other_extents(name: str, count: int) -> None:
    graph = CHANGED[name](CAPACITY)
    found = text_and_objects(with_counts(graph, {CAPACITY: count}))[0]
    assert found == text_and_objects(CHANGED[name](count))[0]
    assert text_and_objects(with_counts(graph, {CAPACITY: CAPACITY}))[0] == text_and_objects(graph)[0]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((StandIn(17), StandIn(CAPACITY), 4), (17, 7, 4)), ((StandIn(17), 4), (17, 4)), ((CAPACITY,), (7,))],
)
def test_stand_ins_without_a_count_become_numbers(shape: Any, expected: tuple[int, ...]) -> None:
    v = Value(Aval(shape, np.dtype("float64")))
    found = with_counts(Graph((v,), (), (v,)), {CAPACITY: 7}).inputs[0].shape
    assert found == expected
    assert set(map(type, found)) == {int}


def _entries_of(pattern: Any) -> Graph:
    """A graph of the entries at a pattern."""
    v = Value(Aval(pattern.shape, np.dtype("float64")))
    entries = Value(Aval((pattern.count,), v.dtype))
    at = Equation(TABLE["values_at"], (v,), {"pattern": pattern}, (entries,))
    return Graph((v,), (at,), (entries,))


def test_patterns_in_place_of_symbols_give_their_numbers_of_entries() -> None:
    pattern = iv.asarray(np.eye(6, k=1)).to_layout("csr")._value.pattern
    symbol = symbol_for(pattern)
    assert symbol is not None
    with_room = symbol.with_capacity(CAPACITY, Counts({CAPACITY}))
    found = on_binding(_entries_of(with_room), {with_room: pattern})
    (at,) = found.equations
    assert at.params["pattern"] is pattern
    assert (found.outputs[0].shape, at.results[0].shape) == ((5,), (5,))
    other = Value(Aval((5, CAPACITY), np.dtype("float64")))
    unbounded = replace(_entries_of(symbol), inputs=(*_entries_of(symbol).inputs, other))
    assert on_binding(unbounded, {symbol: pattern}).inputs[1] is other


def _constant(array: Any) -> Graph:
    v = Value(Aval(array.shape, array.dtype))
    return Graph((), (), (v,), ((v, array),))


@pytest.mark.parametrize("count", [0, 7])
def test_constants_that_are_one_number_get_another_shape(count: int) -> None:
    for fill in (0.0, 2.5, 3):
        array = np.full((CAPACITY, 2), fill)
        ((_, found),) = with_counts(_constant(array), {CAPACITY: count}).constants
        np.testing.assert_array_equal(found, np.full((count, 2), fill))
        assert found.dtype == array.dtype
    zero = Zero((CAPACITY, 2), np.dtype("float32"))
    ((_, found),) = with_counts(_constant(zero), {CAPACITY: count}).constants
    assert (type(found), found.shape, found.dtype) == (Zero, (count, 2), zero.dtype)
    ((_, found),) = with_counts(_constant(one := x(4)), {CAPACITY: count}).constants
    assert found is one
    ((_, found),) = with_counts(_constant(np.full(1, 2.5)), {1: count}).constants
    np.testing.assert_array_equal(found, np.full(count, 2.5))
    on_pattern = iv.asarray(np.eye(CAPACITY)).to_layout("csr")._value
    for other in (x(CAPACITY), np.zeros((CAPACITY, 0)), on_pattern):
        with pytest.raises(PatternRead):
            with_counts(_constant(other), {CAPACITY: count})


# --- arrays -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_arrays_are_padded_as_by_numpy(axis: int) -> None:
    a = x(2, 3, 4)
    for room in (0, 1, 5):
        for fill in (0, -1):
            widths = [(0, room if k == axis else 0) for k in range(3)]
            found = padded(a, axis, a.shape[axis] + room, fill)
            np.testing.assert_array_equal(found, np.pad(a, widths, constant_values=fill))
            np.testing.assert_array_equal(trimmed(found, axis, a.shape[axis]), a)
    assert padded(a, axis, a.shape[axis]) is a
