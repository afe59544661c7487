"""Reports of skipped work: cotangents that a reverse pass does not compute, or computes in part."""

from __future__ import annotations

from typing import Any

from iverson.autograd.demand_propagation import Demands, Needs
from iverson.autograd.joint_ops import JointOp
from iverson.autograd.node import Node
from iverson.autograd.plan import Kind, Plan
from iverson.core.counting import work
from iverson.core.counting.notes import Skip
from iverson.core.dtypes import is_inexact
from iverson.core.entries import NOTHING, Box, Entries, Stored


def report_unreached(node: Node, needs: Needs) -> None:
    """Report that no cotangent has arrived at ``node``, so that no argument's is computed."""
    if node.op is None:
        return
    of_args = needs.of_args.get(node, (NOTHING,) * len(node.parents))
    unneeded = sum(map(_is_unneeded, node.parents, of_args))
    undefined = sum(p is not None for p in node.parents) - unneeded
    work.skipped(node.op.name, unneeded=unneeded, undefined=undefined)
    beside: tuple[int, ...] = ()
    for k, parent in enumerate(node.parents):
        if parent is not None and _has_rule(node, k):
            reason = "not needed" if of_args[k] is NOTHING else "undefined"
            work.note(Skip(node, k, reason, beside=beside))
            beside += (k,)


def report_planned(node: Node, demands: Demands, plan: Plan, parts: Demands) -> None:
    """Report the cotangents of arguments of ``node`` that ``plan`` skips, or computes in ``parts``.

    A cotangent of an array that is not tracked is noted too, if there is a rule for it.
    """
    assert node.op is not None
    work.rule(node.op.name)
    work.skipped(node.op.name, unneeded=sum(map(_is_unneeded, node.parents, demands)))
    steps = [step for step in plan.steps if step.kind is not Kind.JOINT]
    computed = [k for step in steps for k in step.positions]
    beside = tuple([k for k in computed if demands[k] is not NOTHING])
    for k, demand in enumerate(demands):
        if not _has_rule(node, k):
            continue
        if demand is NOTHING or k not in computed:
            work.note(Skip(node, k, "not needed" if demand is NOTHING else "undefined", beside=beside))
            beside += (k,)
        elif isinstance(parts[k], Box | Stored):
            work.note(Skip(node, k, _kind(parts[k]), parts[k]))


def _is_unneeded(parent: Node | None, need: Entries) -> bool:
    """True if an argument is tracked, but nothing reads its cotangent."""
    return parent is not None and need is NOTHING


def _kind(part: Entries) -> str:
    return "box" if isinstance(part, Box) else "pattern"


def _has_rule(node: Node, k: int) -> bool:
    """True if the op has a rule for the cotangent of argument ``k``; False for a custom Function."""
    op: Any = node.op
    operand = node.args[k]
    if isinstance(op, JointOp) or not hasattr(operand, "dtype") or not is_inexact(operand.dtype):
        return False
    return callable(op.vjp) or (k < len(op.vjp) and op.vjp[k] is not None)
