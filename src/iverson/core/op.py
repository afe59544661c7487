"""The Op record: every fact of an operation, said once.

A rule is written against the op namespace ``F`` it is handed, so the same line serves eager arrays,
recorded graphs and higher orders. Rules name what they read: a parameter that starts with an underscore
is one of which the rule uses at most ``shape`` and ``dtype``, and its value is not kept for backward.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any

import numpy as np

from iverson.core.shapes import Shape

Rule = Callable[..., Any]
Group = tuple[int, ...]
Params = Mapping[str, Any]

#: ``linear_in`` of a variadic op that is linear in all its inputs together.
JOINTLY: tuple[Group, ...] = ((-1,),)


@dataclass(frozen=True, slots=True)
class Sample:
    """One call on which an op is tested: arguments, parameters and how to make the result smooth.

    ``post`` maps results to ones that finite differences can follow (a gauge-invariant function of an
    eigenvector, say); it is written against F like a rule.
    """

    args: tuple[Any, ...]
    params: Params = field(default_factory=dict)
    post: Callable[..., Any] | None = None


class Sampler:
    """Draws test arrays: ``s((2, 3))`` is normal, ``s((2, 3), 0.5, 2.0)`` uniform in an interval."""

    def __init__(self, seed: int = 0, dtype: Any = "float64") -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)

    def __call__(self, shape: Shape, low: float | None = None, high: float | None = None) -> Any:
        def draw() -> Any:
            if low is None or high is None:
                return self.rng.standard_normal(shape)
            return self.rng.uniform(low, high, shape)

        if self.dtype.kind == "c":
            return np.asarray(draw() + 0.5j * self.rng.standard_normal(shape)).astype(self.dtype)
        return np.asarray(draw()).astype(self.dtype)

    def distinct(self, shape: Shape) -> Any:
        """Values at least 0.5 apart, so that no ordering changes under a small step."""
        size = int(np.prod(shape))
        values = (self.rng.permutation(size) - size / 2 + 0.25) * 0.5
        return values.reshape(shape).astype(self.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """All facts of one operation.

    name : the op's name in the table and in messages.
    forward : the body on strided operands (``numpy.ndarray`` and Python scalars).
    abstract : ``abstract(*avals, **params)`` gives the result's Aval (a tuple where ``multiple``);
        it raises the user-facing error where shapes or dtypes do not fit.
    vjp : per input, ``rule(F, g, y, *inputs, **params)``; None where the op is not differentiable in
        that input. With ``shared``, rules take its value after F. A variadic op has one rule for all inputs,
        ``rule(F, wanted, g, y, *inputs, **params)``, which gives a list with the cotangents of the inputs at
        the positions in ``wanted``: one call, so that the work grows with the number of inputs.
    jvp : per input, ``rule(F, t, y, *inputs, **params)``; follows from ``linear_in`` where the op is linear.
    linear_in : groups of inputs; the op is linear in the inputs of a group together, the others fixed.
        Zero rules, the jvp of a linear op and simplification follow from it.
    shared : ``rule(F, g, y, *inputs, **params)``, a term of several inputs' rules, computed at most
        once per node and call.
    demand : ``demand(needs, shapes, out, **params)``, with the shapes of the inputs and of the result, bounds
        the need of the result's cotangent (a tuple of needs where ``multiple``); default Full.
    image : of an op that moves the entries of input 0: ``image(region, shape, *other inputs, **params)``, the
        smallest region outside of which the result is zero where that input, of ``shape``, is zero outside a
        region (None: everywhere). A demand for the region, of the input's cotangent, is one for its image.
    spreads : some entries of the result depend on part of the inputs only, or on none, so that ``demand`` has
        something to say also where inputs are needed in full.
    reach : ``reach(needs, patterns, out, **params)`` bounds that need where an argument is sparse: by the
        patterns, by position, of those that stay zero elsewhere whatever is differentiated later, and the
        result's shape; None for no bound.
    factors : ``factors(F, i, g, y, *inputs)`` gives input i's cotangent as `Factors` where the need allows it
        (g may be so too), or NotImplemented.
    moves : the op only moves entries; so where it moves those of a pattern needed of its inputs, its
        cotangent is needed.
    within : ``within(F, rule, part, i, g, y, *inputs, **params)`` computes only the part (a Box or Stored)
        of input i's cotangent, or returns NotImplemented; default: compute, then cut a box out. With
        ``shared``, it takes that value after i, as rules take it after F.
    support : ``support(where, i, inputs, y, **params)``: the entries of input i's cotangent that may be
        nonzero when the result's is zero outside ``where``; ``within`` serves its meet with the demand.
    family : the key under which kernels for other layouts are registered (default: the name).
    zero_preserving : the result is 0 where all operands are 0.
    multiple : results come as a tuple.
    trapping : the body as it is called on strided operands alone, where that traps NumPy's warnings
        (`iverson.core.float_warnings.trapping`); default: ``forward``.
    signals : whether the body may raise floating-point flags, of which NumPy warns; where not, a call saves
        the time to see to it. Default: unless it traps them, or the op only moves entries.
    joint, joint_jvp : one rule for all inputs, ``joint(needs, node, g)`` and ``joint_jvp(tangents,
    node)``, in
        place of ``vjp`` and ``jvp`` (custom Functions).
    te : the op in index notation, where it has been said so.
    samples : calls for the conformance test.
    convention : what the derivative is where the function has none (ties, kinks), for the table.
    differentiable, constant_in : whether any input has a derivative rule, and which have none although others
        do: nothing flows through them (worked out, not given).
    exceptions : conformance checks this op is excused from, each with its reason.
    """

    name: str
    forward: Rule
    abstract: Rule
    vjp: tuple[Rule | None, ...] | Rule = ()
    jvp: tuple[Rule | None, ...] = ()
    linear_in: tuple[Group, ...] = ()
    shared: Rule | None = None
    demand: Rule | None = None
    image: Rule | None = None
    spreads: bool = False
    reach: Rule | None = None
    factors: Rule | None = None
    moves: bool = False
    within: Rule | None = None
    support: Rule | None = None
    family: str = ""
    zero_preserving: bool = False
    elementwise: bool = False
    multiple: bool = False
    trapping: Any = None
    signals: bool | None = None
    joint: Rule | None = None
    joint_jvp: Rule | None = None
    te: Any = None
    samples: Callable[[Sampler], Iterable[Sample]] | None = None
    convention: str = ""
    exceptions: Mapping[str, str] = field(default_factory=dict)
    differentiable: bool = field(init=False)
    constant_in: frozenset[int] = field(init=False)
    _saves: dict[Any, tuple[tuple[bool, ...], bool]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        rules = callable(self.vjp) or self.joint is not None or any(self.vjp) or any(self.linear_in)
        object.__setattr__(self, "differentiable", rules)
        if self.signals is None:
            object.__setattr__(self, "signals", not self.moves and self.trapping is None)
        if self.trapping is None:
            object.__setattr__(self, "trapping", self.forward)
        constant = () if callable(self.vjp) else [k for k, rule in enumerate(self.vjp) if rule is None]
        given = {k for k, rule in enumerate(self.jvp) if rule is not None}.union(*self.linear_in)
        object.__setattr__(self, "constant_in", frozenset(constant) - given)

    def groups(self, count: int) -> tuple[Group, ...]:
        """``linear_in`` for a call with ``count`` inputs."""
        return (tuple(range(count)),) if self.linear_in == JOINTLY else self.linear_in

    def group_of(self, position: int, count: int) -> Group | None:
        """The group in which the op is linear at this input, if any."""
        return next((g for g in self.groups(count) if position in g), None)

    def saves(self, tracked: tuple[bool, ...]) -> tuple[tuple[bool, ...], bool]:
        """Which inputs' and whether the result's values backward may read, given the tracked inputs."""
        found = self._saves.get(tracked)
        if found is None:
            found = self._saves[tracked] = self._find_saves(tracked)
        return found

    def _find_saves(self, tracked: tuple[bool, ...]) -> tuple[tuple[bool, ...], bool]:
        count = len(tracked)
        if self.joint is not None:
            return (False,) * count, False
        if callable(self.vjp):
            names = reads(self.vjp, skip=2, count=count)
            return tuple(k in names for k in range(count)), "y" in names
        needed: set[int | str] = set()
        for i in (k for k in range(count) if tracked[k]):
            if i < len(self.vjp) and (rule := self.vjp[i]) is not None:
                needed |= reads(rule, skip=2 if self.shared is None else 3, count=count, cotangent=False)
                if self.shared is not None:
                    needed |= reads(self.shared, skip=2, count=count, cotangent=False)
            if i < len(self.jvp) and (rule := self.jvp[i]) is not None:
                needed |= reads(rule, skip=2, count=count, cotangent=False)
            elif (group := self.group_of(i, count)) is not None:
                needed |= set(range(count)) - set(group)
        return tuple(k in needed for k in range(count)), "y" in needed


@cache
def reads(rule: Rule, skip: int, count: int, cotangent: bool = True) -> frozenset[int | str]:
    """The inputs (by position) and "y" that a rule reads, from its parameters' names.

    ``skip`` is how many parameters stand before ``y`` (``F, g`` or ``F, shared, g``), one more if
    ``cotangent`` (``F, wanted, g``).
    """
    declared = getattr(rule, "reads", None)
    if declared is not None:
        return frozenset(declared)
    parameters = list(inspect.signature(rule).parameters.values())[skip + cotangent :]
    found: set[int | str] = set()
    position = -1
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY or p.kind is p.VAR_KEYWORD:
            break
        if p.kind is p.VAR_POSITIONAL:
            if not p.name.startswith("_"):
                found |= set(range(max(position, 0), count))
            break
        if not p.name.startswith("_"):
            found.add("y" if position < 0 else position)
        position += 1
    return frozenset(found)


def by_position(rule: Rule) -> Rule:
    """The rule of a variadic op from ``rule(F, i, g, y, *inputs, **params)``, the cotangent of input i alone.

    For ops with one or two inputs that have a derivative: the arguments are handed over for each of them.
    """

    @wraps(rule)
    def of_all(F: Any, wanted: Sequence[int], *args: Any, **params: Any) -> list[Any]:
        return [rule(F, i, *args, **params) for i in wanted]

    return of_all


def reading(what: Sequence[int | str]) -> Callable[[Rule], Rule]:
    """Declare what a rule with a generic signature reads: input positions and "y"."""

    def mark(rule: Rule) -> Rule:
        rule.reads = frozenset(what)  # type: ignore[attr-defined]
        return rule

    return mark
