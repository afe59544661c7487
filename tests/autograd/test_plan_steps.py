"""What a plan says for each kind of op, demand and support: which rules run, and on which entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.autograd.joint_ops import JointOp
from iverson.autograd.plan import _MANY, Kind, demanded, lasting, parts_of, pullback, pushforward
from iverson.core.aval import Aval
from iverson.core.entries import FACTORED, FULL, NOTHING, Box, Bracket, Entries, Stored
from iverson.core.region import Region
from iverson.layouts import Box as BoxValue
from iverson.layouts import Zero, from_strided
from iverson.ops import TABLE, override_vjp

DTYPE = np.dtype("float64")
SQUARE = Aval((3, 3), DTYPE)
LOW, ROW = Box(Region((1, 0), (3, 3))), Box(Region((1, 0), (2, 3)))
ABOVE = Box(Region((0, 0), (1, 3)))
HELD = Stored(from_strided(np.eye(3), "csr").pattern)
PRODUCTS = Stored(HELD.pattern, True)
OTHER = Stored(from_strided(np.tri(3) * [1, 0, 1], "csr").pattern)
BOTH = Stored(HELD.pattern.met_with(OTHER.pattern))
C = Bracket(np.eye(3) > 0)

#: op, demands on its inputs, support of the cotangent of its result; kind, positions and part of each step.
PULLBACKS: list[tuple[str, tuple[Entries, ...], Entries, list[Any]]] = [
    ("multiply", (FULL, FULL), FULL, [("EACH", (0,), FULL), ("EACH", (1,), FULL)]),
    ("multiply", (NOTHING, FULL), FULL, [("EACH", (1,), FULL)]),
    ("multiply", (NOTHING, NOTHING), FULL, []),
    ("multiply", (LOW, NOTHING), FULL, [("PART", (0,), LOW)]),
    ("multiply", (LOW, FULL), ROW, [("PART", (0,), ROW), ("PART", (1,), ROW)]),
    ("multiply", (ABOVE, FULL), LOW, [("PART", (1,), LOW)]),
    ("multiply", (HELD, NOTHING), FULL, [("PART", (0,), HELD)]),
    ("multiply", (FULL, FULL), NOTHING, []),
    ("multiply", (FULL, FULL), C, [("EACH", (0,), C), ("EACH", (1,), C)]),
    ("multiply", (FULL, NOTHING), HELD, [("PART", (0,), HELD)]),
    ("multiply", (HELD, OTHER), OTHER, [("PART", (0,), BOTH), ("PART", (1,), OTHER)]),
    ("concat", (NOTHING, FULL, FULL), FULL, [("TOGETHER", (1, 2), (FULL, FULL))]),
    ("multiply", (FACTORED, NOTHING), FULL, [("EACH", (0,), FACTORED)]),
    ("exp", (FULL, FULL), FULL, [("EACH", (0,), FULL)]),
    ("exp", (FULL,), LOW, [("PART", (0,), LOW)]),
    ("exp", (FULL,), Box(Region((0, 0), (3, 3))), [("EACH", (0,), FULL)]),
    ("matmul", (FULL, FULL), FULL, [("EACH", (0,), FULL), ("EACH", (1,), FULL)]),
    ("matmul", (FACTORED, FULL), FULL, [("LOW_RANK", (0,), FACTORED), ("EACH", (1,), FULL)]),
    ("matmul", (PRODUCTS, NOTHING), FULL, [("LOW_RANK", (0,), PRODUCTS)]),
    ("matmul", (FULL, FULL), ROW, [("PART", (0,), ROW), ("EACH", (1,), FULL)]),
    ("concat", (FULL, NOTHING, LOW), FULL, [("TOGETHER", (0, 2), (FULL, LOW))]),
    ("copysign", (FULL, FULL), FULL, [("EACH", (0,), FULL)]),
    ("where", (NOTHING, FULL, FULL), FULL, [("EACH", (1,), FULL), ("EACH", (2,), FULL)]),
]


def _named(part: Any) -> Any:
    """A meet of two patterns by the name it has here; a pattern that is kept is the same object."""
    met = isinstance(part, Stored) and part.pattern not in (HELD.pattern, OTHER.pattern)
    return BOTH if met and np.array_equal(part.pattern.coordinates, BOTH.pattern.coordinates) else part


def _steps(plan: Any, parts: Any) -> list[Any]:
    """Kind and positions of each step, and what is computed for its inputs: of several, a tuple."""
    found = []
    for step in plan.steps:
        of_step = tuple(_named(parts[k]) for k in step.positions)
        found.append((step.kind.name, step.positions, of_step[0] if len(of_step) == 1 else of_step))
    return found


@pytest.mark.parametrize(("name", "demands", "where", "expected"), PULLBACKS)
def test_pullbacks(name: str, demands: Any, where: Entries, expected: list[Any]) -> None:
    op = TABLE[name]
    parts = parts_of(op, demands, where, (SQUARE,) * len(demands), SQUARE, {})
    plan = pullback(op, demands, parts)
    assert _steps(plan, parts) == expected
    assert not plan.replaced
    rules: Any = op.vjp
    for step in plan.steps:
        assert step.rule is (rules if callable(rules) else rules[step.positions[0]])
    assert pullback(op, demands, parts) is plan
    assert (parts is demands) is (where is FULL)


def test_plans_are_by_kinds_and_keep_no_pattern() -> None:
    op = TABLE["multiply"]
    assert pullback(op, (HELD, NOTHING)) is pullback(op, (OTHER, NOTHING))
    assert pullback(op, (LOW, FULL)) is pullback(op, (ROW, FULL))
    assert pullback(op, (HELD, NOTHING)) is not pullback(op, (LOW, NOTHING))
    op.plans.clear()
    for parts in ((FULL, NOTHING), (FULL, FULL), (NOTHING, FULL)):  # less may be computed than demanded
        plan = pullback(op, (FULL, FULL), parts)
        assert [s.positions for s in plan.steps] == [(k,) for k in range(2) if parts[k] is FULL]
        assert (FULL, FULL) not in op.plans
        assert pullback(op, (FULL, FULL), parts) is plan
    both, known = (FULL, FULL), dict(op.plans)
    assert pullback(op, both) in known.values()  # and from now on, it is found by what is demanded
    assert op.plans[both] is pullback(op, both)
    assert known.items() < op.plans.items()
    product = TABLE["matmul"]
    assert pullback(product, (PRODUCTS, NOTHING)) is not pullback(product, (HELD, NOTHING))
    assert not any(isinstance(e, Stored) for key in op.plans for e in key)


def test_a_users_rule_gets_the_whole_cotangent() -> None:
    op = TABLE["multiply"]
    own = (lambda F, g, y, a, b: g, None)
    known = pullback(op, (FACTORED, FULL))
    with override_vjp("multiply", own):
        for first in (FACTORED, LOW, HELD):
            plan = pullback(op, (first, FULL))
            assert plan.replaced
            assert _steps(plan, (FULL, FULL)) == [("EACH", (0,), FULL)]
            assert plan.steps[0].rule is own[0]
    assert pullback(op, (FACTORED, FULL)) is known
    of_product = TABLE["matmul"]
    with override_vjp("matmul", own):
        assert _steps(pullback(of_product, (FACTORED, NOTHING)), (FULL, NOTHING)) == [("EACH", (0,), FULL)]


def test_no_more_plans_are_kept_than_said() -> None:
    op = TABLE["concat"]
    known = pullback(op, (FULL, NOTHING))
    assert pullback(op, (FULL, NOTHING)) is known
    for k in range(2 * _MANY + 3):
        pullback(op, (LOW, *[FULL] * k))
        assert len(op.plans) <= _MANY


def _joint(name: str, joint_jvp: Any) -> JointOp:
    return JointOp(
        name=name,
        forward=lambda *a: a[0],
        abstract=lambda *a: a[0],
        vjp=(),
        joint=lambda demands, node, g: g,
        joint_jvp=joint_jvp,
    )


def test_users_functions_are_called_once() -> None:
    without, having = _joint("without", None), _joint("having", lambda tangents, node: tangents)
    for op in (without, having):
        demands = (FULL, NOTHING, LOW)
        plan = pullback(op, demands)
        assert _steps(plan, demands) == [("JOINT", (0, 2), (FULL, LOW))]
        assert plan.steps[0].rule is op.joint
    assert [s.kind for s in pushforward(without, (True, False, True))] == [Kind.TRANSPOSED]
    assert pushforward(without, (True, False, True))[0].positions == (0, 2)
    (step,) = pushforward(having, (True, False))
    assert (step.kind, step.rule) == (Kind.JOINT, having.joint_jvp)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("sin", (True,), [(Kind.EACH, (0,))]),
        ("multiply", (True, True), [(Kind.LINEAR, (0,)), (Kind.LINEAR, (1,))]),
        ("add", (True, True), [(Kind.LINEAR, (0, 1))]),
        ("add", (False, True), [(Kind.LINEAR, (0, 1))]),
        ("matmul", (True, False), [(Kind.LINEAR, (0,))]),
        ("add_n", (True, False, True), [(Kind.LINEAR, (0, 1, 2))]),
        ("solve", (True, True), [(Kind.EACH, (0,)), (Kind.LINEAR, (1,))]),
        ("where", (False, True, True), [(Kind.EACH, (1,)), (Kind.EACH, (2,))]),
        ("copysign", (True, True), [(Kind.EACH, (0,)), (Kind.TRANSPOSED, (1,))]),
        ("sin", (False,), []),
    ],
)
def test_pushforwards(name: str, given: tuple[bool, ...], expected: Any) -> None:
    op = TABLE[name]
    for _ in range(2):
        found = pushforward(op, given)
        assert [(s.kind, s.positions) for s in found] == expected
    assert pushforward(op, given) is found


def test_a_replaced_rule_is_pushed_forward() -> None:
    op = TABLE["multiply"]
    for given, expected in (((False, True), [(1,)]), ((True, True), [(0,), (1,)])):
        known = pushforward(op, given)
        with te.prefer_derived("multiply"):
            found = pushforward(op, given)
            assert [(s.kind, s.positions) for s in found] == [(Kind.EACH, k) for k in expected]
            assert all(s.rule is not None for s in found)
        assert pushforward(op, given) == known


def test_demands_of_a_result() -> None:
    matmul, exp = TABLE["matmul"], TABLE["exp"]
    assert demanded(exp, (LOW,), (SQUARE,), SQUARE, {}) == LOW
    assert demanded(exp, (Box(Region((0, 0), (3, 3))),), (SQUARE,), SQUARE, {}) is FULL
    assert demanded(exp, (NOTHING,), (SQUARE,), SQUARE, {}) is NOTHING
    # Only what is low in rank is handed on as two factors.
    for demand, single in ((FACTORED, FULL), (PRODUCTS, HELD)):
        assert demanded(exp, (demand,), (SQUARE,), SQUARE, {}) == single
    turned = demanded(TABLE["permute_dims"], (FACTORED,), (SQUARE,), SQUARE, {"axes": (1, 0)})
    assert turned is FACTORED
    several = (SQUARE, Aval((3,), DTYPE), SQUARE)
    assert demanded(TABLE["svd"], (LOW,), (SQUARE,), several, {}) is FULL
    assert demanded(matmul, (ROW, NOTHING), (SQUARE, SQUARE), SQUARE, {}) == ROW


def test_what_lasts_of_an_operand() -> None:
    region = Region((0,), (1,))
    box, zero, array = BoxValue((3,), region, np.ones(1)), Zero((3,), DTYPE), np.ones(3)
    assert lasting(array, may_change=True) is array
    assert lasting(2.5, may_change=False) == 2.5
    assert lasting(box, may_change=False) == Aval((3,), DTYPE, Box(region))
    assert lasting(box, may_change=True) == Aval((3,), DTYPE)
    assert lasting(zero, may_change=False).support is NOTHING
    assert lasting(zero, may_change=True).support is FULL
    everything, part = Aval((3,), DTYPE), Aval((3,), DTYPE, Box(region))
    for known in (everything, part):
        assert lasting(known, may_change=False) is known
    assert lasting(everything, may_change=True) is everything
    assert lasting(part, may_change=True) == everything
