"""Intervals of index expressions hold every value the interpreter finds, and are exact where they can be."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from math import inf, isfinite
from typing import Any

import numpy as np
import pytest

from iverson.codegen.nests import interpret
from iverson.codegen.nests.integer_bounds import (
    Ranges,
    Scope,
    affine,
    extremes,
    from_affine,
    loop_extremes,
    never,
    without_division,
)
from iverson.codegen.nests.nodes import BOOL, INT64, Buffer, Load, Local, Loop, Size, Var
from iverson.expr.intervals import EVERYTHING, Interval
from iverson.expr.nodes import Apply, Cast, Expr, Select
from tests.codegen.nests import F32, F64, add, c, f, i, j, k, ld, mul

N = Size("n")
READ = {t: Buffer(t, np.dtype(t), (4,)) for t in ("int8", "uint16", "int32", "uint32", "int64", "uint64")}
FLOATS = Buffer("float64", F64, (4,))


def _sub(a: Expr, b: Expr) -> Apply:
    return f("subtract", a, b)


def _div(a: Expr, d: int) -> Apply:
    return f("floor_divide", a, c(d))


def _mod(a: Expr, d: int) -> Apply:
    return f("remainder", a, c(d))


def _low(*args: Expr) -> Apply:
    return f("minimum", *args)


def _high(*args: Expr) -> Apply:
    return f("maximum", *args)


def _loop(var: Expr, lower: Any, upper: Any, step: int = 1) -> Loop:
    assert isinstance(var, Var)
    lower, upper = (c(e) if isinstance(e, int) else e for e in (lower, upper))
    return Loop(var.name, lower, upper, (), step)


def _points(scope: Scope, env: dict[str, Any], memory: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The values of all names at each iteration of the innermost loop, as the interpreter has them."""
    if not scope.loops:
        found = dict(env)
        for name, value in scope.lets.items():
            found[name] = interpret.evaluate(value, found, memory)
        yield found
        return
    loop, inner = scope.loops[0], replace(scope, loops=scope.loops[1:])
    lower, upper = (int(interpret.evaluate(e, env, memory)) for e in (loop.lower, loop.upper))
    for value in range(lower, upper, loop.step):
        yield from _points(inner, {**env, loop.var: np.int64(value)}, memory)


class _Random:
    """A random index expression in a random nest."""

    def __init__(self, seed: int) -> None:
        r = self.r = random.Random(seed)
        self.n = r.randrange(6)
        self.env = {"n": np.int64(self.n)}
        self.memory: dict[str, Any] = {}
        for name, b in READ.items():
            small = np.arange(4) * r.choice([1, 3]) - (r.randrange(4) if b.dtype.kind == "i" else 0)
            self.memory[name] = small.astype(b.dtype)
        if r.random() < 0.3:
            self.memory["uint64"][1] = 2**63 + 5
        self.memory["float64"] = np.array([0.5, 2.5, -1.5, 3.0])
        end = self.bound(2)
        start = r.choice([c(0), i, _high(i, c(1)), _sub(i, c(2)), _high(_sub(i, N), c(0))])
        loops = (
            _loop(i, r.randrange(-2, 2), r.randrange(2, 6), r.choice([1, 1, 2, 3])),
            _loop(j, start, r.choice([end, add(i, end), _low(add(i, c(3)), end)]), r.choice([1, 1, 2])),
        )
        self.scope = Scope(loops, lets={"t": self.expression(2)})

    def bound(self, depth: int) -> Expr:
        """A bound of a loop: minima and maxima anywhere among sums and differences."""
        if not depth or self.r.random() < 0.2:
            return self.r.choice([N, c(self.r.randrange(5))])
        f = self.r.choice([add, _sub, _low, _high])
        return f(self.bound(depth - 1), self.bound(depth - 1))

    def leaf(self) -> Expr:
        kind = self.r.randrange(9)
        if kind < 4:
            return (i, j)[kind % 2]
        if kind == 4:
            return self.r.choice([N, Local("t", INT64)]) if hasattr(self, "scope") else N
        if kind == 5:
            return Cast(Load(self.r.choice([*READ.values(), FLOATS]), (c(self.r.randrange(4)),)), INT64)
        return c(self.r.randrange(-3, 6))

    def expression(self, depth: int) -> Expr:
        if not depth:
            return self.leaf()
        a, b = self.expression(depth - 1), self.expression(self.r.randrange(depth))
        twice = ["add", "subtract", "multiply", "floor_divide", "remainder"]
        name = self.r.choice([*twice, *twice, "negative", "minimum", "maximum", "bitwise_and", "select"])
        if name == "select":
            return Select(f("less", a, c(self.r.randrange(3))), a, b)
        if name == "negative":
            return f(name, a)
        if name in ("floor_divide", "remainder", "bitwise_and"):
            b = c(self.r.choice([1, 2, 3, 4, 4]))
        if name == "multiply" and self.r.random() < 0.7:
            b = c(self.r.choice([-4, -1, 0, 2, 3, 4]))
        return f(name, *self.r.sample([a, b], 2)) if name in ("add", "multiply") else f(name, a, b)

    def ranges(self) -> Ranges:
        """What is known of the size and of the entries of the buffers, all of it or some."""
        known: dict[str, Interval] = {"n": (self.n, self.n + self.r.randrange(2))}
        known |= {f"[{b}]": (int(v.min()), int(v.max())) for b, v in self.memory.items() if b != "float64"}
        return {name: span for name, span in known.items() if self.r.random() < 0.7}


@pytest.mark.parametrize("part", range(4))
def test_intervals_hold_all_values(part: int) -> None:
    reached = known = 0
    for seed in range(part * 60, part * 60 + 60):
        made = _Random(seed)
        scope, e, ranges = made.scope, made.expression(3), made.ranges()
        form = affine(e, scope)
        low, high = extremes(form, scope, ranges)
        back, simple = from_affine(form), without_division(e)
        values = []
        for at in _points(scope, made.env, made.memory):
            value, *same = (interpret.evaluate(x, at, made.memory) for x in (e, back, simple))
            assert same == [value, value], seed
            values.append(int(value))
        assert not (values and never(scope, ranges)), seed
        if values:
            assert low <= min(values), seed
            assert max(values) <= high, seed
            known += isfinite(low) + isfinite(high)
            reached += (low == min(values)) + (high == max(values))
        for depth, loop in enumerate(scope.loops):
            outer = Scope(scope.loops[:depth])
            first, last = loop_extremes(loop, outer)
            for at in _points(outer, made.env, made.memory):
                lower, upper = (interpret.evaluate(x, at, made.memory) for x in (loop.lower, loop.upper))
                assert first <= lower, seed
                assert upper <= last, seed
    assert 2 * reached >= known > 0  # most are exact, though parts of an expression vary together


T = Local("t", INT64)
SPAN = (_loop(i, -2, 4), _loop(j, -1, 5))
SHORT = (_loop(i, 5, 8),)
STEPS = (_loop(i, 0, 10, 3),)
#: loops, what is asked, ranges, and the exact interval (or what is known without more).
EXACT: list[tuple[tuple[Loop, ...], Expr, Ranges, Interval]] = [
    (SPAN, add(i, mul(j, c(-2))), {}, (-10, 5)),
    (SPAN, mul(i, j), {}, (-8, 12)),
    (SPAN, f("negative", i), {}, (-3, 2)),
    (SPAN, mul(c(3), i), {}, (-6, 9)),
    (SPAN, _div(i, 2), {}, (-1, 1)),
    (SPAN, _div(i, 0), {}, EVERYTHING),
    (SPAN, _mod(i, 0), {}, EVERYTHING),
    (SPAN, _div(i, -2), {}, EVERYTHING),
    (SPAN, _mod(i, 4), {}, (0, 3)),
    (SHORT, _mod(i, 4), {}, (1, 3)),
    (SHORT, _mod(i, 3), {}, (0, 2)),
    (SHORT, add(mul(_div(i, 4), c(4)), _mod(i, 4)), {}, (5, 7)),
    (SHORT, _sub(mul(_div(i, 4), c(8)), mul(i, c(2))), {}, (-6, -2)),
    (SHORT, mul(_div(i, 4), c(3)), {}, (3, 3)),
    (SPAN, _low(i, j), {}, (-2, 3)),
    (SPAN, _high(i, j), {}, (-1, 4)),
    (SPAN, _low(i, T), {}, (-inf, 3)),
    (SPAN, _high(T, i), {}, (-2, inf)),
    (SPAN, _low(N, i), {}, (-2, 3)),
    (SPAN, _high(N, i), {"n": (1, 9)}, (1, 9)),
    (SPAN, Select(f("less", i, j), i, c(9)), {}, (-2, 9)),
    (SPAN, Select(f("less", i, j), i, T), {}, EVERYTHING),
    (SPAN, Select(f("less", i, j), N, i), {}, (-2, inf)),
    (SPAN, mul(i, N), {}, EVERYTHING),
    (SPAN, mul(i, N), {"n": (2, 3)}, (-6, 9)),
    (SPAN, _div(N, 3), {}, (0, inf)),
    (SPAN, _mod(N, 3), {"n": (4, 5)}, (1, 2)),
    (SPAN, _mod(_sub(c(0), N), 3), {}, (0, 2)),
    (SPAN, _div(_sub(c(0), N), 3), {}, (-inf, 0)),
    (SPAN, f("bitwise_and", T, c(6)), {}, (0, 6)),
    (SPAN, f("bitwise_and", c(0), T), {}, (0, 0)),
    (SPAN, f("bitwise_and", f("bitwise_and", T, c(-1)), c(9)), {}, (0, 9)),
    (SPAN, f("bitwise_and", T, c(-2)), {}, EVERYTHING),
    (SPAN, f("bitwise_or", i, c(6)), {}, EVERYTHING),
    (SPAN, f("bitwise_or", i, j), {}, EVERYTHING),
    (SPAN, N, {}, (0, inf)),
    (SPAN, _low(T, Local("u", INT64)), {}, EVERYTHING),
    (SPAN, f("floor_divide", i, N), {}, EVERYTHING),
    (SPAN, mul(f("floor_divide", i, N), c(4)), {}, EVERYTHING),
    (SPAN, f("remainder", i, N), {}, EVERYTHING),
    (SPAN, _div(mul(i, j), 1), {}, (-8, 12)),
    (SPAN, _mod(mul(i, j), 1), {}, (0, 0)),
    (SPAN, _sub(_div(mul(i, j), 1), mul(i, j)), {}, (0, 0)),
    (SPAN, _sub(mul(c(3), i), mul(i, c(3))), {}, (0, 0)),
    (SPAN, Cast(mul(c(0.5, F32), c(3.0, F32)), INT64), {}, EVERYTHING),
    (SPAN, N, {"n": (2, 7)}, (2, 7)),
    (STEPS, i, {}, (0, 9)),
    ((_loop(i, 0, 9, 3),), i, {}, (0, 6)),
    ((_loop(i, 1, 9, 3),), i, {}, (1, 7)),
    ((_loop(i, 0, N, 3),), i, {"n": (5, 7)}, (0, 6)),
    ((_loop(i, 0, 5), _loop(j, i, add(i, c(4)))), _sub(j, i), {}, (0, 3)),
    ((_loop(i, 0, 5), _loop(j, 0, add(i, c(1)))), _sub(i, j), {}, (0, 4)),
    ((_loop(i, 0, _low(N, c(8))),), i, {}, (0, 7)),
    ((_loop(i, 0, _low(N, c(8))),), i, {"n": (3, 4)}, (0, 3)),
    ((_loop(i, _high(N, c(2)), 9),), i, {}, (2, 8)),
    ((_loop(i, _high(N, c(2)), 9),), i, {"n": (4, 5)}, (4, 8)),
    ((_loop(i, _low(N, c(2)), 9),), i, {}, (0, 8)),
    ((_loop(i, 0, add(_low(N, c(8)), c(1))),), i, {}, (0, 8)),
    ((_loop(i, 0, _sub(c(9), _high(N, c(2)))),), i, {}, (0, 6)),
    ((_loop(i, 0, _sub(_low(N, c(7)), _high(N, c(2)))),), i, {}, (0, -1)),
    (
        (_loop(i, 0, 9), _loop(j, _high(_sub(i, c(2)), c(0)), _low(add(i, c(3)), c(9)))),
        _sub(j, i),
        {},
        (-2, 2),
    ),
    ((_loop(i, 0, 9), _loop(j, _high(_sub(i, c(2)), c(0)), _low(add(i, c(3)), c(9)))), j, {}, (0, 8)),
    ((_loop(i, 0, 4), _loop(j, 0, i), _loop(k, 0, j)), k, {}, (0, 1)),
    ((_loop(i, T, 4),), i, {}, (-inf, 3)),
    ((_loop(i, 0, T),), mul(i, c(-1)), {}, (-inf, 0)),
]
EXACT += [
    ((), Cast(Load(READ[name], (c(0),)), INT64), {}, span)
    for name, span in {
        "int8": (-128, 127),
        "uint16": (0, 65535),
        "int32": EVERYTHING,
        "uint32": (0, inf),
        "int64": EVERYTHING,
        "uint64": EVERYTHING,
    }.items()
]
EXACT += [
    ((), Cast(Load(READ["int32"], (c(0),)), INT64), {"[int32]": (3, 5)}, (3, 5)),
    ((), Cast(Load(FLOATS, (c(0),)), INT64), {"[float64]": (3, 5)}, EVERYTHING),
    ((), Cast(ld(READ["int32"], c(0)), np.dtype("int8")), {"[int32]": (3, 5)}, EVERYTHING),
    ((), ld(Buffer("bool", BOOL, (4,)), c(0)), {}, EVERYTHING),
]


@pytest.mark.parametrize("row", range(len(EXACT)))
def test_exact_intervals(row: int) -> None:
    loops, e, ranges, expected = EXACT[row]
    scope = Scope(loops)
    assert extremes(affine(e, scope), scope, ranges) == expected
    lets: dict[str, Expr] = {"name": e}
    lets |= {f"{side}_{v.var}": getattr(v, side) for v in loops for side in ("lower", "upper")}
    loops = tuple(
        replace(v, lower=Local(f"lower_{v.var}", INT64), upper=Local(f"upper_{v.var}", INT64)) for v in loops
    )
    named = Scope(loops, lets=lets)
    assert extremes(affine(Local("name", INT64), named), named, ranges) == expected


@pytest.mark.parametrize(
    ("loops", "ranges", "empty"),
    [
        ((_loop(i, 0, 0),), {}, True),
        ((_loop(i, 3, 2), _loop(j, 0, 9)), {}, True),
        ((_loop(i, 0, 9), _loop(j, i, i)), {}, True),
        ((_loop(i, 0, 9), _loop(j, i, add(i, N))), {}, False),
        ((_loop(i, 0, 9), _loop(j, i, add(i, N))), {"n": (0, 0)}, True),
        ((_loop(i, 0, 9), _loop(j, i, add(i, N))), {"n": (0, 1)}, False),
        ((_loop(i, 0, 1),), {}, False),
        ((_loop(i, 0, T),), {}, False),
        ((), {}, False),
    ],
)
def test_loops_that_are_empty(loops: tuple[Loop, ...], ranges: Ranges, empty: bool) -> None:
    assert never(Scope(loops), ranges) is empty


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (c(2), c(7), (2, 7)),
        (i, add(i, c(4)), (0, 8)),
        (_high(i, c(2)), _low(add(i, c(4)), c(6)), (2, 6)),
        (_high(T, c(2)), _low(c(6), T), (2, 6)),
        (_low(i, c(2)), _high(i, c(2)), (0, 4)),
        (T, N, EVERYTHING),
    ],
)
def test_extremes_of_a_loops_bounds(lower: Expr, upper: Expr, expected: Interval) -> None:
    assert loop_extremes(_loop(j, lower, upper), Scope((_loop(i, 0, 5),))) == expected


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (_div(add(mul(i, c(6)), c(7)), 3), add(mul(i, c(2)), c(2))),
        (_mod(add(mul(i, c(6)), c(7)), 3), c(1)),
        (_div(mul(i, c(3)), 3), i),
        (_div(c(7), 2), c(3)),
        (_div(i, 3), _div(i, 3)),
        (_div(mul(i, j), 1), mul(i, j)),
        (_div(mul(i, c(0)), 0), _div(mul(i, c(0)), 0)),
        (_div(i, -1), _div(i, -1)),
        (f("floor_divide", i, N), f("floor_divide", i, N)),
        (f("minimum", i, c(1)), f("minimum", i, c(1))),
        (f("divide", c(1.0, F64), c(1.0, F64)), f("divide", c(1.0, F64), c(1.0, F64))),
        (f("floor_divide", c(3.5, F64), c(2.0, F64)), f("floor_divide", c(3.5, F64), c(2.0, F64))),
        (add(_div(mul(i, c(4)), 4), N), add(i, N)),
    ],
)
def test_divisions_that_cancel(e: Expr, expected: Expr) -> None:
    assert without_division(e) == expected
