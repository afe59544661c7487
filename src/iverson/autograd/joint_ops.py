"""`JointOp`: the op of one call of a custom Function, with one derivative rule for all inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iverson.core.op import Op, Rule


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class JointOp(Op):
    """An op made for one call of a custom Function, whose derivative is the user's code.

    joint : ``joint(demands, node, g)`` gives the cotangents of all inputs (None: zero).
    joint_jvp : ``joint_jvp(tangents, node)`` gives the tangents of all results. None: the tangents are
        computed by differentiating ``joint`` in the cotangent.
    selects : True if both are called with cotangents and tangents whose selections are computed.
    """

    joint: Rule
    joint_jvp: Rule | None
    selects: bool = True
    as_stored: bool = True

    def _has_derivatives(self) -> bool:
        return True

    def _find_saves(self, tracked: tuple[bool, ...]) -> tuple[tuple[bool, ...], Any]:
        return (False,) * len(tracked), False
