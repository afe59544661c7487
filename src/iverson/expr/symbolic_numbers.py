"""Symbolic numbers: numbers of Python that record what is computed from them and what is decided by them.

    recording = Recording()
    n = recording.number(347)                   # a number with the value 347
    steps = (n + 63) // 64 if n > 64 else 1     # 6, with its formula; the path condition n > 64 is recorded
    formulas = recording.formulas([steps])
    formulas.at([400]) == [7]
    formulas.at([50]) is None                   # n > 64 does not hold: the code would have taken another path

Code that was written for numbers runs as it is, once, at the values of these. Each comparison is answered by
them and becomes a path condition. So the formulas hold for all numbers that meet the conditions. This is
concolic execution (Godefroid, Klarlund and Sen, "DART", PLDI 2005).

Nothing else reads a value: where Python or NumPy ask for a true ``int`` or ``float`` (``range``, an index, an
array's shape, a format), `EscapedNumber` is raised, and who runs the code runs it again with numbers.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import isinf
from typing import Any, TypeAlias, TypeVar

import numpy as np

#: A number of Python, or a symbolic one, which claims to be one.
Number: TypeAlias = float
#: What a formula is of: numbers, and constants of other types, which are equal where their texts are.
Argument: TypeAlias = Hashable
Function: TypeAlias = Callable[..., Hashable]
#: A node, the function that gives it, and the nodes that it is of.
Step: TypeAlias = tuple[int, Function, tuple[int, ...]]
#: A relation of nodes, and whether it holds.
Condition: TypeAlias = tuple[Function, tuple[int, ...], bool]
R = TypeVar("R")
N = TypeVar("N", bound=Number)
#: Costs are judged alike for numbers that differ by at most this factor.
SPREAD = 8
#: Types of what may be an operand beside a symbolic number.
_NUMBERS = (int, float, np.integer, np.floating)


_names = itertools.count()


class EscapedNumber(TypeError):
    """A symbolic number was read by code that takes numbers of Python alone."""


#: Operands that change no integer, as the second one, or as either one of functions that commute.
_NEUTRAL = {operator.add: 0, operator.sub: 0, operator.mul: 1, operator.floordiv: 1}
_COMMUTING = {operator.add, operator.mul}


class Recording:
    """Formulas of symbolic numbers in the order in which they were made, and the path conditions met so far.

    Node k is an input, a constant or a function of earlier nodes.
    """

    def __init__(self) -> None:
        self.name = next(_names)
        self.values: list[Any] = []
        self.steps: list[Step] = []
        self.inputs: list[int] = []
        self.conditions: dict[tuple[Function, tuple[int, ...]], bool] = {}
        self._nodes: dict[Hashable, int] = {}
        # The inputs of which a node is a function.
        self._sources: dict[int, frozenset[int]] = {}

    def number(self, value: Number) -> Any:
        """A symbolic number: the next input, with a value."""
        node = self._node(("input", len(self.inputs)), value)
        self.inputs.append(node)
        self._sources[node] = frozenset([node])
        return SymbolicNumber(self, node)

    def apply(self, function: Function, *arguments: Argument) -> Any:
        """Symbolic number that is a function of others and of constants."""
        nodes = tuple(map(self.node_of, arguments))
        if function in _NEUTRAL:
            for x, other in (arguments, arguments[::-1]) if function in _COMMUTING else (arguments,):
                if type(other) is int and other == _NEUTRAL[function] and x.__class__ is int:
                    return x
        if function in _COMMUTING:
            nodes = tuple(sorted(nodes))
        node = self._nodes.get((function, nodes))
        if node is None:
            value = function(*(self.values[k] for k in nodes))
            node = self._node((function, nodes), value)
            self.steps.append((node, function, nodes))
            self._sources[node] = frozenset().union(*(self._sources.get(k, frozenset()) for k in nodes))
        return SymbolicNumber(self, node)

    def decide(self, function: Callable[..., bool], *arguments: Argument) -> bool:
        """Truth of a relation at the values of the inputs; a path condition from now on."""
        nodes = tuple(map(self.node_of, arguments))
        truth = self.conditions.get((function, nodes))
        if truth is None:
            truth = self.conditions[function, nodes] = bool(function(*(self.values[k] for k in nodes)))
        return truth

    def judge(self, x: SymbolicNumber) -> Any:
        """The value of a number; that all inputs of which it is a function are `near` is a path condition."""
        for k in self._sources[x.node]:
            self.decide(near, SymbolicNumber(self, k), self.values[k])
        return self.values[x.node]

    def node_of(self, x: Argument) -> int:
        """Node of a symbolic number of this recording, or of a constant."""
        if type(x) is SymbolicNumber:
            if x.recording is not self:
                raise EscapedNumber("a number of another recording")
            return x.node
        if isinstance(x, np.generic):
            x = x.item()
        return self._node(("constant", type(x), repr(x)), x)

    def _node(self, key: Hashable, value: Argument) -> int:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = len(self.values)
            self.values.append(value)
        return node

    def formulas(self, results: Iterable[Argument]) -> Formulas:
        """The formulas of some numbers, symbolic or not, under all path conditions so far."""
        nodes = [self.node_of(x) for x in results]
        relations = [(f, operands, truth) for (f, operands), truth in self.conditions.items()]
        sources = {*nodes, *(k for _, operands, _ in relations for k in operands)}
        steps = []
        for step in reversed(self.steps):
            if step[0] in sources:
                sources.update(step[2])
                steps.append(step)
        return Formulas(self.values, self.inputs, steps[::-1], relations, nodes)


class Formulas:
    """Numbers as functions of inputs, where path conditions hold."""

    def __init__(
        self,
        values: Sequence[Argument],
        inputs: Sequence[int],
        steps: Sequence[Step],
        conditions: Sequence[Condition],
        results: Sequence[int],
    ) -> None:
        self._values, self._inputs, self._steps = list(values), inputs, steps
        self.conditions, self._results = conditions, results

    def at(self, inputs: Sequence[Number]) -> list[Any] | None:
        """The numbers at other values of the inputs; None where a path condition does not hold."""
        values = self._values.copy()
        for node, x in zip(self._inputs, inputs, strict=True):
            values[node] = x
        try:
            for node, function, operands in self._steps:
                values[node] = function(*[values[k] for k in operands])
            for relation, operands, truth in self.conditions:
                if relation(*[values[k] for k in operands]) != truth:
                    return None
        except (ArithmeticError, ValueError):  # a formula that has no value there
            return None
        return [values[k] for k in self._results]


def _computed(function: Function, swap: bool = False) -> Callable[..., Any]:
    def method(self: SymbolicNumber, *operands: Argument) -> Any:
        if operands and not isinstance(operands[0], _NUMBERS):
            return NotImplemented
        return self.recording.apply(function, *((*operands, self) if swap else (self, *operands)))

    return method


def _decided(relation: Callable[..., bool]) -> Callable[..., Any]:
    def method(self: SymbolicNumber, other: Argument) -> Any:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        return self.recording.decide(relation, self, other)

    return method


def _refused(self: SymbolicNumber, *_: Argument) -> Any:
    raise EscapedNumber(f"a number of Python is needed, and {self!r} depends on a size")


class SymbolicNumber:
    """A number that records: an ``int`` or a ``float`` to ``isinstance``.

    Equal formulas hash alike; equal numbers with other formulas need not.
    """

    __slots__ = ("node", "recording")
    __array_ufunc__ = None

    def __init__(self, recording: Recording, node: int) -> None:
        self.recording, self.node = recording, node

    @property
    def value(self) -> Any:
        """The value, which nobody records that it was read."""
        return self.recording.values[self.node]

    # What ``isinstance`` asks where the type does not answer.
    __class__ = property(lambda self: type(self.value))

    def __hash__(self) -> int:
        return hash((id(self.recording), self.node))

    def __repr__(self) -> str:
        return f"<{self.recording.name}.{self.node}>"

    def __format__(self, _: str) -> str:
        return repr(self)

    hex = __repr__

    def __bool__(self) -> bool:
        return self.recording.decide(operator.ne, self, 0)

    __eq__ = _decided(operator.eq)
    __ne__ = _decided(operator.ne)
    __lt__ = _decided(operator.lt)
    __le__ = _decided(operator.le)
    __gt__ = _decided(operator.gt)
    __ge__ = _decided(operator.ge)
    __neg__ = _computed(operator.neg)
    __pos__ = _computed(operator.pos)
    __abs__ = _computed(abs)
    __add__, __radd__ = _computed(operator.add), _computed(operator.add, True)
    __sub__, __rsub__ = _computed(operator.sub), _computed(operator.sub, True)
    __mul__, __rmul__ = _computed(operator.mul), _computed(operator.mul, True)
    __truediv__, __rtruediv__ = _computed(operator.truediv), _computed(operator.truediv, True)
    __floordiv__, __rfloordiv__ = _computed(operator.floordiv), _computed(operator.floordiv, True)
    __mod__, __rmod__ = _computed(operator.mod), _computed(operator.mod, True)
    __pow__, __rpow__ = _computed(operator.pow), _computed(operator.pow, True)
    __lshift__, __rshift__ = _computed(operator.lshift), _computed(operator.rshift)
    __and__, __rand__ = _computed(operator.and_), _computed(operator.and_, True)
    __index__ = __int__ = __float__ = __complex__ = __reduce__ = _refused
    __trunc__ = __round__ = __ceil__ = __floor__ = _refused

    def bit_length(self) -> Any:
        """Number of bits of an integer."""
        return self.recording.apply(int.bit_length, self)


def pinned(x: Argument) -> Any:
    """The number of Python that a number is; of a symbolic one, this becomes a path condition."""
    if type(x) is not SymbolicNumber:
        return x
    assert x == x.value
    return x.value


def near(x: Number, y: Number) -> bool:
    """True if a number is at most `SPREAD` times another one, and not less than this part of it.

    >>> near(100, 347), near(40, 347), near(0, 0), near(0, 1)
    (True, False, True, False)
    """
    return x == y or (x <= SPREAD * y and y <= SPREAD * x)  # of negative numbers these do not both hold


def typical(x: N) -> N:
    """The number by which costs are judged; code that is chosen by it serves the numbers `near` it as well.

    Any number will do for results to be right. Of a symbolic number, this is the value.
    """
    argument: Argument = x
    if type(argument) is SymbolicNumber:
        x = argument.recording.judge(argument)
    return x


def is_symbolic(x: Argument) -> bool:
    """True for a symbolic number: code for it is code for all numbers."""
    return type(x) is SymbolicNumber


def plain(x: Argument) -> Any:
    """The value of a number, which nothing records."""
    return x.value if type(x) is SymbolicNumber else x


def lifted(function: Callable[..., R]) -> Callable[..., R]:
    """A function of numbers, which gives symbolic ones for symbolic ones."""

    def of(*arguments: Argument) -> Any:
        for x in arguments:
            if type(x) is SymbolicNumber:
                is_one: bool = x.__class__ is function
                return x if is_one else x.recording.apply(function, *arguments)
        return function(*arguments)

    return of


def is_infinite(x: Number) -> bool:
    """True for infinities; of a symbolic number this is a path condition."""
    argument: Argument = x
    if type(argument) is SymbolicNumber:
        return argument.recording.decide(isinf, argument)
    return isinf(x)


def _least(*numbers: Number) -> Number:
    return min(numbers)


def _largest(*numbers: Number) -> Number:
    return max(numbers)


#: ``int`` and ``float`` of numbers that may be symbolic.
integer, real = lifted(int), lifted(float)
#: The least and the largest of numbers; of symbolic ones that is a formula, and decides nothing.
minimum, maximum = lifted(_least), lifted(_largest)

__all__ = [
    "EscapedNumber",
    "Formulas",
    "Recording",
    "SymbolicNumber",
    "integer",
    "is_infinite",
    "is_symbolic",
    "lifted",
    "maximum",
    "minimum",
    "near",
    "pinned",
    "plain",
    "real",
    "typical",
]
