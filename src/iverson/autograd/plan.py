"""Plans of pullbacks and pushforwards: the derivative rules of an op that run, and the entries they compute.

Of a cotangent, the meet of two sets of entries is computed: its demand, the entries that are read, and its
support, the entries that may be nonzero. Pure functions decide it here, from the op, the facts of its
operands, the demands and the supports. The passes (`engine`, `forward`, `demand_propagation`) carry the plans
out.

A support counts if it lasts. That of a value which may be differentiated later, where it is zero now, does
not: callers give Full in its place. A plan follows from the op and the kinds of these sets; the op keeps it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from itertools import compress, count, repeat
from operator import is_not
from typing import Any, NamedTuple

from iverson.autograd.joint_ops import JointOp
from iverson.core.aval import Aval, UnknownShape
from iverson.core.entries import FULL, NOTHING, Box, Entries, Stored, entry_by_entry, in_products, meet, plain
from iverson.core.op import Op, Rule
from iverson.core.protocols import Params, Shaped
from iverson.core.table import overrides, pushforward_of
from iverson.layouts import Strided, layouts_by_type, support_of

_NOTHINGS = repeat(NOTHING)
_SHAPE, _NONES = repeat("shape"), repeat(None)
#: As many plans as are kept for an op; then it starts afresh.
_MANY = 256


class Kind(Enum):
    """Way of calling a rule."""

    EACH = "for one input"
    PART = "for one input, on part of its cotangent"
    VALUES = "for one input, on what is stored on the one pattern of all operands"
    LOW_RANK = "for one input, as two factors if they are smaller"
    TOGETHER = "once for several inputs"
    JOINT = "once, the user's code"
    LINEAR = "the op itself, on tangents of a group"
    TRANSPOSED = "the pullback, transposed"


class Step(NamedTuple):
    """One rule to run, for the inputs at these positions.

    kind : the way in which it is called.
    rule : the rule; None if ``kind`` says which code runs (`Kind.LINEAR`, `Kind.TRANSPOSED`).
    """

    kind: Kind
    positions: tuple[int, ...]
    rule: Any


class Plan(NamedTuple):
    """The steps of a pullback.

    replaced : True if the rules are a user's (`override_vjp`), which return all entries.
    on_values : True if the rules get the stored entries of one pattern (`Kind.VALUES`).
    """

    steps: tuple[Step, ...]
    replaced: bool = False
    on_values: bool = False


def lasting(operand: Any, *, may_change: bool) -> Any:
    """Facts of an operand for the functions below, from its form in a node.

    They are an Aval with the support that lasts, or a number or strided array itself (of indices, say).

    may_change : True if the entries may be differentiated later: then the support is every entry.
    """
    if type(operand) is Aval:
        return Aval(operand.shape, operand.dtype) if may_change and operand.support is not FULL else operand
    if type(operand) is Strided or type(operand) not in layouts_by_type:
        return operand
    return Aval(operand.shape, operand.dtype, FULL if may_change else support_of(operand))


def demanded(
    op: Op,
    demands: tuple[Entries, ...],
    inputs: Sequence[Shaped],
    out: Any,
    params: Params,
) -> Any:
    """Entries of the cotangent of an op's result that are read for the demanded ones of its inputs.

    The result is a tuple if the op has several results of which different entries are read.

    demands : the entries that are read of each input's cotangent.
    inputs : the facts of each input (see `lasting`).
    """
    if not op.entry_map.products and True in map(getattr, demands, repeat("products"), repeat(False)):
        demands = tuple(map(entry_by_entry, demands))
    shapes = map(getattr, out if op.multiple else (out,), _SHAPE, _NONES)
    if UnknownShape in map(type, shapes):
        return FULL
    demand = op.entry_map.demand(op, demands, inputs, out, params)
    return plain(demand, out.shape) if type(demand) is Box and not op.multiple else demand


def pullback(op: Op, demands: tuple[Entries, ...], parts: tuple[Entries, ...] | None = None) -> Plan:
    """The plan of the rules that give the demanded cotangents of the inputs.

    The kinds of these sets determine the rules that run and the way they are called. So one plan serves all
    sets of the same kinds, and no plan keeps a pattern, which may be large.

    parts : the entries of each that are computed (see `parts_of`); by default the demanded ones.
    """
    if parts is None:
        parts = demands
    replacing = overrides()
    if (op.name in replacing) or isinstance(op, JointOp):
        return _pullback(op, demands, parts, replacing)
    types = tuple(map(type, parts))
    kinds = types, tuple(map(getattr, demands, _PRODUCTS, _FALSE))
    plan = op.plans.get(kinds)
    if plan is None:
        plan = _kept(op, kinds, _pullback(op, demands, parts, replacing))
    if parts is demands and _ALL_OR_NOTHING.issuperset(types):
        _kept(op, demands, plan)  # where it is looked for first
    return plan


def _kept(op: Op, key: Hashable, plan: Plan) -> Plan:
    """Keep ``plan`` on ``op`` under ``key``, and return it; if there are too many plans, all go first."""
    if len(op.plans) >= _MANY:
        op.plans.clear()
    op.plans[key] = plan
    return plan


def _pullback(
    op: Op,
    demands: tuple[Entries, ...],
    parts: tuple[Entries, ...],
    replacing: Mapping[str, Rule | tuple[Rule | None, ...]],
) -> Plan:
    """The plan of `pullback`, made anew; ``replacing`` has the rules of users by op name."""
    replaced = op.name in replacing
    rules = replacing[op.name] if replaced else op.vjp
    positions = tuple(compress(count(), map(is_not, demands if replaced else parts, _NOTHINGS)))
    if isinstance(op, JointOp):
        return Plan((Step(Kind.JOINT, positions, op.joint),))
    if callable(rules):
        return Plan((Step(Kind.TOGETHER, positions, rules),) if positions else (), replaced)
    steps = []
    for k in positions:
        if k < len(rules) and (rule := rules[k]) is not None:
            kind = Kind.EACH
            if not replaced:
                low_rank = op.entry_map.products and in_products(demands[k])
                kind = Kind.LOW_RANK if low_rank else _KINDS.get(type(parts[k]), Kind.EACH)
            steps.append(Step(kind, (k,), rule))
    return Plan(tuple(steps), replaced)


def on_values(op: Op, demands: tuple[Entries, ...]) -> Plan:
    """The plan for an elementwise op whose operands and cotangent are all on the pattern that is demanded.

    Its rules run on the stored entries. They depend only on which cotangents are demanded, and hold for any
    pattern.
    """
    positions = tuple(compress(count(), map(is_not, demands, _NOTHINGS)))
    plan = op.plans.get(("on values", positions))  # the hash of a Kind is a call
    if plan is None:
        rules = [(k, rule) for k, rule in enumerate(op.vjp_rules()) if k in positions]
        steps = tuple([Step(Kind.VALUES, (k,), rule) for k, rule in rules if rule is not None])
        plan = op.plans["on values", positions] = Plan(steps, on_values=True)
    return plan


_PRODUCTS, _FALSE = repeat("products"), repeat(False)
_ALL_OR_NOTHING = frozenset((type(FULL), type(NOTHING)))
#: How the rule for one input is called, by the type of the part that is computed: the others' is whole.
_KINDS = {Box: Kind.PART, Stored: Kind.PART}


def parts_of(
    op: Op,
    demands: tuple[Entries, ...],
    where: Entries,
    inputs: Sequence[Shaped],
    out: Shaped | tuple[Shaped, ...],
    params: Params,
) -> tuple[Entries, ...]:
    """The entries of each input's cotangent to compute: those that are both demanded and possibly nonzero.

    where : the support of the result's cotangent.
    """
    if where is FULL or not op.entry_map.bounds:
        return demands
    parts = list(demands)
    for k, demand in enumerate(demands):
        if demand is not NOTHING:
            part = meet(demand, op.entry_map.support(op, where, k, inputs, out, params))
            parts[k] = plain(part, inputs[k].shape) if type(part) is Box else part
    return tuple(parts)


def pushforward(op: Op, defined: tuple[bool, ...]) -> tuple[Step, ...]:
    """The steps that give the tangents of the results.

    defined : for each input, True if it has a tangent.
    """
    if (by_user := overrides()) and (replacing := by_user.get(pushforward_of(op.name))) is not None:
        rules = replacing(len(defined))  # type: ignore[operator]
        return tuple(Step(Kind.EACH, (k,), rules[k]) for k, has in enumerate(defined) if has)
    cached_steps = op.plans.get(("push", defined))
    if cached_steps is not None:
        return cached_steps  # type: ignore[no-any-return]
    if isinstance(op, JointOp) and op.joint_jvp is not None:
        return (Step(Kind.JOINT, (), op.joint_jvp),)
    steps: list[Step] = []
    positions: set[int] = set()
    transposed = []
    groups = op.groups(len(defined))
    for k in (k for k, has in enumerate(defined) if has):
        rule = op.jvp[k] if k < len(op.jvp) else None
        if k in positions:
            continue
        if rule is not None:
            steps.append(Step(Kind.EACH, (k,), rule))
        elif (group := next((g for g in groups if k in g), None)) is not None:
            positions.update(group)
            steps.append(Step(Kind.LINEAR, group, None))
        else:
            transposed.append(k)
    if transposed:
        steps.append(Step(Kind.TRANSPOSED, tuple(transposed), None))
    op.plans["push", defined] = tuple(steps)
    return tuple(steps)
