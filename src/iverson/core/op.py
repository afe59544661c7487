"""The Op record: every fact of an operation, in one place.

A rule is written against the op namespace ``F`` it is handed, so the same line serves eager arrays,
recorded graphs and higher orders. The parameter names of a rule declare what it reads: of a parameter that
starts with an underscore it uses at most ``shape`` and ``dtype``, and the value is not kept for backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce, wraps
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from iverson.core.aval import Aval
from iverson.core.entries import FULL, NOTHING, Box, Entries, Stored, meet, plain
from iverson.core.entry_map import ANY, Call, EntryMap, Facts
from iverson.core.protocols import Namespace, Params, Shaped, Value
from iverson.core.python.exact_keys import exact
from iverson.core.python.parameters import positional
from iverson.core.relations import Relation, Rows, numbers_of
from iverson.core.shapes import Shape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Rule = Callable[..., Any]
Group = tuple[int, ...]
#: The inputs whose cotangents a rule is asked for, and what is read of each.
Wanted = Mapping[int, Entries]

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
    """Source of random test arrays: ``s((2, 3))`` is normal, ``s((2, 3), 0.5, 2.0)`` uniform in [0.5, 2)."""

    def __init__(self, seed: int = 0, dtype: DTypeLike = "float64") -> None:
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
        """Random array of values at least 0.5 apart, so that a small step does not change their order."""
        size = int(np.prod(shape))
        values = (self.rng.permutation(size) - size / 2 + 0.25) * 0.5
        return values.reshape(shape).astype(self.dtype)


@dataclass(frozen=True, slots=True)
class Body:
    """The body of an op on strided operands, with how it meets NumPy's floating-point flags.

    call : the body.
    trapping : as it is called on strided operands alone, where that traps NumPy's warnings
        (`iverson.core.float_warnings.trapping`); default: ``call``.
    signals : whether it may raise flags, of which NumPy warns; where not, a call saves the time to see to it.
        Default: unless it traps them, or the op only moves entries.
    """

    call: Rule
    trapping: Any = None
    signals: bool | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """All facts of one operation.

    name : the op's name in the table and in messages.
    forward : the body on strided operands (``numpy.ndarray`` and Python scalars), a function or a `Body`.
    abstract : ``abstract(*avals, **params)`` gives the result's Aval (a tuple where ``multiple``), without
        its support, which `infer` adds; it raises the user-facing error where shapes or dtypes do not fit.
    vjp : per input, ``rule(F, g, y, *inputs, **params)``; None where the op is not differentiable in that
        input. Or one rule for all inputs, ``rule(F, wanted, g, y, *inputs, **params)``, where they share work
        or are any number: a list of the cotangents of the inputs at the positions in ``wanted``, which maps
        them to the part of each (`Entries`) that is read. Entries outside of a Box are cut off.
    jvp : per input, ``rule(F, t, y, *inputs, **params)``; follows from ``linear_in`` where the op is linear.
    linear_in : groups of inputs; the op is linear in the inputs of a group together, the others fixed.
        Zero rules, the jvp of a linear op and simplification follow from it.
    entry_map : the correspondence of entries of the inputs and of the result (`EntryMap`). The entries that
        are read of a cotangent, those that may be nonzero and those that move follow from it.
    vjp_at : ``vjp_at(F, rule, part, i, g, y, *inputs, **params)`` computes only the part (a Box or Stored)
        of input i's cotangent, or returns NotImplemented; default: compute, then cut a box out. Where only
        products read the part (`in_products`; only if the entry map says ``products``), it may be `LowRank`,
        as g may be.
    multiple : results come as a tuple.
    as_stored : True if operands of half precision come to the op as they are, and not in float32
        (`iverson.kernels.kernel_registry`): its body runs ops, which see to that, or stores.
    taylor : ``taylor(F, y, *inputs, **params)`` returns a function that gives coefficient k of the Taylor
        series of the result (a tuple where ``multiple``) from those below k; None where that is zero,
        NotImplemented for k = 0 where that is the op itself on coefficients 0. ``y`` and the inputs are
        series, of which ``x[j]`` is coefficient j or None (`iverson.ops.rules.recurrences`). Only where
        coefficients would cost more by the derivation from ``jvp``. The rule itself is NotImplemented where
        that serves, and None where it is along one line only.
    batch : ``batch(F, examples, *args, **params)`` carries the op out on a batch
        (`iverson.ops.rules.batching`), where that does not follow from the op being elementwise or from
        parameters that count axes.
    te : the op in index notation, where it has been said so. Derivatives follow from it.
    loops : for compiled loops alone (`iverson.graph`), the op by way of intermediate results where its
        derivatives are better written than derived: ``loops(T, aval, *operands, **params)`` gives the result,
        of which ``aval`` is known, in the language T of tensor expressions (`iverson.te`), or None where
        loops cannot make it with these parameters. Dtypes are real, the result has entries, and an operand
        may be a number. Default: ``te``.
    samples : calls for the conformance test.
    convention : the value of the derivative where the function has none (ties, kinks), for the table.
    exceptions : conformance checks that this op need not pass, each with its reason.

    These follow:

    trapping, signals : as of the `Body`.
    family : a second name to register kernels for other layouts under: that of the entry map, or the class's
        ``FAMILY``.
    arity : the number of inputs that may have derivatives; None of a variadic op.
    zero_preserving : the result is 0 where all operands are.
    differentiable, constant_in : True if any input has a derivative rule, and the inputs without one: no
        derivative flows through them.
    plans : cache of plans (`iverson.autograd.plan`), and of the values that calls save, by tracked inputs.
    """

    name: str
    forward: Any
    abstract: Rule
    vjp: tuple[Rule | None, ...] | Rule = ()
    jvp: tuple[Rule | None, ...] = ()
    linear_in: tuple[Group, ...] = ()
    entry_map: EntryMap = ANY
    vjp_at: Rule | None = None
    taylor: Rule | None = None
    multiple: bool = False
    as_stored: bool = False
    batch: Rule | None = None
    te: Any = None
    loops: Rule | None = None
    samples: Callable[[Sampler], Iterable[Sample]] | None = None
    convention: str = ""
    exceptions: Mapping[str, str] = field(default_factory=dict)
    family: str = field(init=False)
    trapping: Rule = field(init=False)
    signals: bool = field(init=False)
    zero_preserving: bool = field(init=False)
    differentiable: bool = field(init=False)
    constant_in: frozenset[int] = field(init=False)
    plans: dict[Any, Any] = field(init=False, default_factory=dict, repr=False)

    FAMILY: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Set the fields that follow from others."""

        def follows(**facts: Any) -> None:
            for name, value in facts.items():
                object.__setattr__(self, name, value)

        body, entry_map = self.forward, self.entry_map
        if not isinstance(body, Body):
            body = Body(body)
        signals = not entry_map.moves and body.trapping is None if body.signals is None else body.signals
        follows(forward=body.call, trapping=body.trapping or body.call, signals=signals)
        follows(family=entry_map.family or self.FAMILY)
        follows(differentiable=self._has_derivatives())
        everything = entry_map.elementwise and len(self.linear_in) == 1 and len(self.vjp_rules()) == 1
        follows(zero_preserving=entry_map.keeps_zeros or everything or self.linear_in == JOINTLY)
        constant = [k for k, rule in enumerate(self.vjp_rules()) if rule is None]
        with_tangent = {k for k, rule in enumerate(self.jvp) if rule is not None}.union(*self.linear_in)
        follows(constant_in=frozenset(constant) - with_tangent)

    @property
    def elementwise(self) -> bool:
        """True if an entry of the result depends on the same entry of each input alone."""
        return self.entry_map.elementwise

    @property
    def arity(self) -> int | None:
        return len(self.jvp) or None if callable(self.vjp) else len(self.vjp)

    def _has_derivatives(self) -> bool:
        return callable(self.vjp) or any(self.vjp) or any(self.linear_in)

    def vjp_rules(self) -> tuple[Rule | None, ...]:
        """The rules of the inputs; of a variadic op, none."""
        return () if callable(self.vjp) else self.vjp

    def infer(self, /, *avals: Shaped | complex, **params: Any) -> Any:
        """Aval of the result, its support included; a tuple of them if the op has several (``multiple``).

        The result is zero where all inputs of a group of ``linear_in`` are, or all inputs of an op that keeps
        zeros; the op's entry map takes other supports where their entries go. Raises as ``abstract`` does.
        """
        out = self.abstract(*avals, **params)
        supports = tuple([getattr(a, "support", FULL) for a in avals])
        if not self.entry_map.partial and supports.count(FULL) == len(supports):
            results = [Aval(a.shape, a.dtype) for a in (out if self.multiple else (out,))]
            return tuple(results) if self.multiple else results[0]
        groups = [g for g in self.groups(len(avals)) if g]
        if self.zero_preserving and all(hasattr(a, "shape") for a in avals):
            groups.append(tuple(range(len(avals))))
        if self.entry_map.converts and isinstance(supports[0], Stored):
            groups.append((0,))
        bounds: list[Any] = [self._image(group, supports, avals, out, params) for group in groups]
        support: Entries = reduce(meet, bounds, cast(Entries, FULL))
        if self.multiple:
            return tuple(Aval(a.shape, a.dtype, support if support is NOTHING else FULL) for a in out)
        return Aval(out.shape, out.dtype, plain(support, out.shape))

    def _image(
        self,
        group: Group,
        supports: Sequence[Entries],
        avals: Facts,
        out: Aval | tuple[Aval, ...],
        params: Params,
    ) -> Any:
        """Entries of the result that depend on the supports of the inputs in ``group``, if others are 0."""
        members = set(group)
        group_supports = tuple([s if k in members else NOTHING for k, s in enumerate(supports)])
        if all(s is NOTHING for s in group_supports):
            return NOTHING
        if self.multiple or not (
            self.entry_map.partial or any(isinstance(s, Box | Stored) for s in group_supports)
        ):
            return FULL
        return self.entry_map.demand(self, group_supports, avals, out, params)

    def relation(self, call: Call, i: int) -> Relation:
        """Relation of the result of ``call`` to input ``i``: the entries that each entry depends on.

        Entries of the result that are 0 because another factor is zero there depend on nothing.
        """
        relation = self.entry_map.relation(call, i)
        for group in () if self.entry_map.factored else self.groups(len(call.inputs)):
            if len(group) == 1 and group != (i,):  # the result is 0 where this factor is
                (j,) = group
                bound = getattr(call.inputs[j], "support", FULL)
                numbers = None if bound is FULL else numbers_of(bound, call.inputs[j].shape)
                image = None if numbers is None else self.entry_map.relation(call, j).image(numbers)
                relation = relation if image is None else relation.inside(image)
        return relation

    def dependence(self, rows: Mapping[int, Rows | None], call: Call) -> Rows | None:
        """For each entry of a result, the union of the rows of all input entries on which it depends.

        The result is None if an input has too many rows, or the union would.

        rows : by the number of an input, a row for each of its entries; None for an input that has too many.
        """
        union: Rows | None = None
        for i, operand in rows.items():
            part = None if operand is None else self.relation(call, i).after(operand)
            if part is None:
                return None
            union = part if union is None or part is union else union.union(part)
        return union

    def groups(self, count: int) -> tuple[Group, ...]:
        """The groups of ``linear_in`` for a call with ``count`` inputs, also for a variadic op."""
        return (tuple(range(count)),) if self.linear_in == JOINTLY else self.linear_in

    def saves(self, tracked: tuple[bool, ...]) -> tuple[tuple[bool, ...], Any]:
        """Masks of the values that are saved for the reverse pass: of the inputs, and of the result.

        tracked : for each input, True if it is tracked. For an op with several results, the second mask may
            be a tuple with an item for each result.
        """
        masks = self.plans.get(tracked)
        if masks is None:
            masks = self.plans[tracked] = self._find_saves(tracked)
        return masks

    def _find_saves(self, tracked: tuple[bool, ...]) -> tuple[tuple[bool, ...], Any]:
        """Masks of `saves`, from the parameter names of the derivative rules."""
        count = len(tracked)
        positions = [k for k in range(count) if tracked[k]]
        values_read: set[int | str] = set()
        if callable(self.vjp):
            by_input = isinstance(getattr(self.vjp, "reads", None), Mapping)
            for i in positions if by_input else positions[:1]:
                values_read |= reads(self.vjp, skip=3, count=count, of=i)
        for i, rule in (*enumerate(self.vjp_rules()), *enumerate(self.jvp)):
            if rule is not None and i < count and tracked[i]:
                values_read |= reads(rule, skip=2, count=count)
        derived = {i for i in positions if i >= len(self.jvp) or self.jvp[i] is None}
        for group in self.groups(count):
            if not derived.isdisjoint(group):
                values_read |= set(range(count)).difference(group)
        return tuple(k in values_read for k in range(count)), "y" in values_read


@cache
def reads(rule: Rule, skip: int, count: int, of: int = 0) -> frozenset[int | str]:
    """Positions of the inputs, and "y" for the result, that a rule reads, from the names of its parameters.

    skip : the number of parameters before ``y`` (``F, g`` or ``F, wanted, g``).
    count : the number of inputs of the call, for a rule with ``*inputs``.
    of : the input that the rule is called for, for rules that declare what they read for each.
    """
    declared = getattr(rule, "reads", None)
    if declared is not None:
        return frozenset(declared[of] if isinstance(declared, Mapping) else declared)
    names, starred = positional(rule)
    names_by_position = enumerate(names[skip:], -1)
    inputs: set[int | str] = {
        "y" if k < 0 else k for k, name in names_by_position if not name.startswith("_")
    }
    if starred and not starred.startswith("_"):
        inputs |= set(range(max(len(names) - skip - 1, 0), count))
    return frozenset(inputs)


def frozen(params: Params) -> Any:
    """Hashable key of the parameters of a call, for plans and traces: equal for equal parameters.

    >>> frozen({"key": (slice(0, 2, 1), None)}) == frozen({"key": (slice(0, 2, 1), None)})
    True
    """
    return tuple([(name, exact(value)) for name, value in sorted(params.items())])


def by_position(rule: Rule) -> Rule:
    """Rule for all inputs made of ``rule(F, i, g, y, *inputs, **params)``, the cotangent of input i.

    For ops with one or two inputs that have a derivative, since each of them costs a call.
    """

    @wraps(rule)
    def of_all(F: Namespace, wanted: Iterable[int], *args: Value, **params: Any) -> list[Any]:
        return [rule(F, i, *args, **params) for i in wanted]

    return of_all


def reading(inputs: Iterable[int | str] | Mapping[int, Iterable[int | str]]) -> Callable[[Rule], Rule]:
    """Decorator that declares the values that a rule reads, for rules whose signature does not say it.

    inputs : positions of inputs, and "y" for the result; for a rule of all inputs, a mapping from an input to
        these.
    """

    def mark(rule: Rule) -> Rule:
        rule.reads = inputs if isinstance(inputs, Mapping) else frozenset(inputs)  # type: ignore[attr-defined]
        return rule

    return mark
